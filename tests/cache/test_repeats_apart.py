"""Who is given what was answered before, and what is another question after all."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.answer import Answer
from dpquery.cache.lookup import REPEATED
from dpquery.core.privacy_loss import NO_LOSS
from dpquery.core.source_text import Source
from dpquery.execute import execute
from dpquery.policy.sources.paths import copy_samples
from dpquery.shell.main import run_verb
from tests.tasks import ROOT

COUNT = "SELECT DP_COUNT(*, eps=0.5) AS n FROM staff"
ZONES = (
    "SELECT zone, DP_COUNT(*, eps=0.5) FROM visits JOIN regions USING (region) GROUP BY zone"
)
LIMITS = "epsilon = 100\n"
ANALYSTS = f"\n[analysts.alice]\n{LIMITS}[analysts.bob]\n{LIMITS}"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return samples(tmp_path / "data")


def samples(place: Path) -> Path:
    """Copy the sample data, with much to spend."""
    copy_samples(place)
    edit(place / "policy.toml", lambda text: re.sub(r"epsilon = 2\.0", "epsilon = 1000", text))
    return place / "policy.toml"


def edit(file: Path, change: Callable[[str], str]) -> None:
    text = file.read_text("utf-8")
    changed = change(text)
    assert changed != text
    file.write_text(changed, "utf-8")


def free(answer: Answer) -> bool:
    assert (answer.loss == NO_LOSS) == (REPEATED in answer.notes)
    return answer.loss == NO_LOSS


def ask(policy: Path, text: str = COUNT, analyst: str | None = None) -> Answer:
    with dpquery.connect(policy, analyst=analyst) as opened:
        return opened.sql(text)


@pytest.fixture
def questions(policy: Path) -> Iterator[Callable[[str], Answer]]:
    with dpquery.connect(policy) as session:
        yield session.sql


WITH_VALUES = (
    "SELECT DP_COUNT(*, eps=9) FILTER (WHERE age < (SELECT {})) FROM staff",
    "SELECT DP_COUNT(*, eps=9) FROM staff WHERE age < (SELECT {})",
    "SELECT DP_SUM(age + (SELECT {}), bounds=[0, 100], eps=9) FROM staff",
    "SELECT dept, DP_COUNT_IF(age < (SELECT {}), eps=9) FROM staff GROUP BY dept",
)


@pytest.mark.parametrize("text", WITH_VALUES)
def test_a_value_that_is_computed_is_part_of_the_question(
    questions: Callable[[str], Answer], text: str
):
    first = questions(text.format("40"))
    assert not free(questions(text.format("50")))
    again = questions(text.format("20 + 20"))
    assert free(again)
    assert again.rows == first.rows


def test_a_value_of_an_earlier_release_is_part_of_the_question(
    questions: Callable[[str], Answer],
):
    of = "SELECT DP_COUNT(*, eps=9) FILTER (WHERE salary < (SELECT v FROM m)) FROM staff"
    low, high = (
        f"WITH m AS (SELECT DP_QUANTILE(salary, {p}, eps=9) AS v FROM staff) {of}"
        for p in ("0.1", "0.9")
    )
    first, other = questions(low), questions(high)
    assert not free(other)
    assert first.scalar() < 300 < other.scalar()
    assert free(questions(low))
    assert questions(low).rows == first.rows


def test_the_newest_answer_is_repeated(policy: Path):
    query = COUNT.replace("0.5", "0.001")
    with dpquery.connect(policy) as one, dpquery.connect(policy) as other:
        first = one.sql(query)
        newest = other.sql(f"REFRESH {query}")
        assert first.rows != newest.rows, "once in 2,000 by chance"
        for session in (one, other):
            assert free(session.sql(query))
            assert session.sql(query).rows == newest.rows


def test_two_who_ask_at_once_both_pay(policy: Path):
    """Each looks before it charges: what is paid may be too much, and never too little."""
    with dpquery.connect(policy) as one, dpquery.connect(policy) as other:
        lookup = one._look_up(one._plan(Source(COUNT)))
        assert lookup.tables is None
        other.sql(COUNT)
        with one._charged(lookup.charge, Source(COUNT)) as receipt:
            done = execute(lookup, receipt, one._engine, one._randomness)
            late = one._finish(*done, lookup.charge)
        assert one.budget.spent.epsilon == 1
        assert other.sql(COUNT).rows == late.rows


def test_what_a_joined_public_table_holds_is_part_of_the_question(policy: Path):
    ask(policy, ZONES)
    assert free(ask(policy, ZONES))
    swapped = {"north,inland": "north,coast", "south,coast": "south,inland"}
    edit(
        policy.with_name("regions.csv"),
        lambda text: re.sub("|".join(swapped), lambda found: swapped[found[0]], text),
    )
    assert not free(ask(policy, ZONES))
    assert free(ask(policy, ZONES))
    edit(policy.with_name("regions.csv"), lambda text: text.replace("210000", "210001"))
    assert not free(ask(policy, ZONES))


def test_public_tables_that_are_not_joined_do_not_matter(policy: Path):
    ask(policy)
    edit(policy.with_name("regions.csv"), lambda text: text.replace("210000", "210001"))
    assert free(ask(policy))


def test_two_policies_of_one_ledger_keep_their_data_apart(tmp_path: Path):
    here, there = samples(tmp_path / "here"), samples(tmp_path / "there")
    common = f'\n[ledger]\npath = "{tmp_path / "common.ledger"}"\n'
    for policy in (here, there):
        edit(policy, lambda text: text + common)
    staff = there.with_name("staff.parquet")
    pq.write_table(pq.read_table(staff).slice(0, 10), staff)
    first = ask(here, COUNT.replace("0.5", "9"))
    other = ask(there, COUNT.replace("0.5", "9"))
    assert not free(other)
    assert other.scalar() < 100 < first.scalar()
    same = shutil.copyfile(here, here.with_name("same.toml"))
    assert free(ask(same, COUNT.replace("0.5", "9")))


def test_all_of_it_can_be_moved_together(policy: Path, tmp_path: Path):
    ask(policy)
    policy.parent.rename(tmp_path / "moved")
    assert free(ask(tmp_path / "moved" / "policy.toml"))


def test_an_analyst_under_another_name_has_asked_nothing(policy: Path):
    edit(policy, lambda text: text + ANALYSTS)
    ask(policy, analyst="alice")
    edit(policy, lambda text: text.replace("alice", "alina"))
    assert not free(ask(policy, analyst="alina"))


@pytest.mark.parametrize("analyst", ["alice", None])
def test_an_analyst_with_other_limits_pays_anew(policy: Path, analyst: str | None):
    if analyst is not None:
        edit(policy, lambda text: text + ANALYSTS)
    ask(policy, analyst=analyst)
    assert free(ask(policy, analyst=analyst))
    edit(policy, lambda text: text.replace("[budget]", "[budget]\nmax_epsilon_per_query = 9"))
    assert not free(ask(policy, analyst=analyst))
    limit = "epsilon = 1000" if analyst is None else LIMITS.strip()
    edit(policy, lambda text: text.replace(limit, "epsilon = 99"))
    assert not free(ask(policy, analyst=analyst))


def test_a_grant_gives_other_limits(policy: Path):
    edit(policy, lambda text: text + ANALYSTS)
    for analyst in ("alice", "bob"):
        ask(policy, analyst=analyst)
    with dpquery.connect(policy, analyst="alice") as open_before:
        granted = ["ledger", "grant", str(policy), "--analyst", "alice", "--add", "1"]
        assert run_verb(granted) == 0
        assert not free(open_before.sql(COUNT))
    assert free(ask(policy, analyst="alice"))
    assert free(ask(policy, analyst="bob"))


def test_a_frozen_budget_gives_again_what_was_paid_for(policy: Path):
    first = ask(policy)
    assert run_verb(["ledger", "freeze", str(policy)]) == 0
    again = ask(policy)
    assert free(again)
    assert again.rows == first.rows
    with pytest.raises(dpquery.BudgetRefused) as refused:
        ask(policy, f"REFRESH {COUNT}")
    assert refused.value.code == "DPQ504"


def test_answers_about_ones_own_files_are_for_the_session(tmp_path: Path):
    """Nobody publishes versions of them, and the files may be others tomorrow."""
    staff = shutil.copy(ROOT / "datasets" / "staff.parquet", tmp_path)
    ledger = tmp_path / "own.ledger"
    own = {"unit": "person_id", "rows_per_unit": 1, "epsilon": 9, "ledger": ledger}
    with dpquery.connect(staff, **own) as session:
        assert not free(session.sql(COUNT))
        assert free(session.sql(COUNT))
    with dpquery.connect(staff, **own) as session:
        assert not free(session.sql(COUNT))
        assert session.budget.spent.epsilon == Fraction(1)


def test_a_statement_of_public_tables_alone_leaves_nothing(policy: Path):
    query = "SELECT region FROM regions"
    with dpquery.connect(policy) as session:
        for _ in range(2):
            answer = session.sql(query)
            assert answer.loss == NO_LOSS
            assert REPEATED not in answer.notes
