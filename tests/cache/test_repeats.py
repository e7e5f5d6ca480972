"""What was answered before is answered again, exactly, free, and without a look at the data."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import date
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpquery
from dpquery import functions
from dpquery.answer import Answer
from dpquery.budget.ledger.ledger import Ledger
from dpquery.cache.lookup import REPEATED
from dpquery.cache.release_codec import decode_cells, encode_cells
from dpquery.core.privacy_loss import NO_LOSS
from dpquery.core.source_text import Span
from dpquery.errors import PolicyInvalid
from dpquery.functions.base import NoisyCell
from dpquery.functions.distributions.mode_top_k import ModeRelease
from dpquery.functions.order_statistics.quantile import OF_LISTS
from dpquery.policy.sources.paths import copy_samples
from dpquery.session import Session
from dpquery.shell.main import run_verb

COUNT = "SELECT DP_COUNT(*, eps=0.5) AS n FROM staff"
LEVELS = (Fraction(1, 2), Fraction(95, 100), Fraction(999, 1000))
ANALYSTS = "[analysts.alice]\nepsilon = 100\n[analysts.bob]\nepsilon = 100\n"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """The sample policy with much to spend."""
    folder = copy_samples(tmp_path / "data").parent
    edit(folder / "policy.toml", lambda text: re.sub(BUDGET, MUCH, text))
    return folder / "policy.toml"


BUDGET = r"\[budget\]\nepsilon = 2.0\n"
MUCH = "[budget]\nepsilon = 100000\ndelta = 1e-3\n"


def edit(file: Path, change: Callable[[str], str]) -> None:
    text = file.read_text("utf-8")
    changed = change(text)
    assert changed != text
    file.write_text(changed, "utf-8")


@pytest.fixture
def session(policy: Path) -> Iterator[Session]:
    with dpquery.connect(policy) as opened:
        yield opened


def told(answer: Answer) -> tuple[object, ...]:
    """All that an answer says of the data."""
    ends = [answer.interval(name, level) for name in answer.columns for level in LEVELS]
    return answer.columns, repr(answer.rows), repr(ends)


def free(answer: Answer) -> bool:
    assert (answer.loss == NO_LOSS) == (REPEATED in answer.notes)
    return answer.loss == NO_LOSS


def ask(policy: Path, text: str = COUNT, analyst: str | None = None) -> Answer:
    with dpquery.connect(policy, analyst=analyst) as opened:
        return opened.sql(text)


def of_each_mechanism() -> Iterator[str]:
    for function in functions.ALL:
        for mechanism in function.mechanisms:
            query = function.example
            if mechanism in OF_LISTS:
                query = "SELECT DP_QUANTILE(age, [0.9, 0.1], eps=1) FROM staff"
            if len(function.mechanisms) > 1:
                delta = ", delta=1e-9" if mechanism == "gaussian" else ""
                named = rf"\1, mechanism='{mechanism}'{delta}"
                query = re.sub(r"(eps=[0-9.]+)", named, query, count=1)
            if mechanism == "staircase":  # is of one number
                query = query.split(" GROUP BY")[0].replace("SELECT dept, ", "SELECT ")
            yield query


def test_each_release_is_repeated_exactly_after_a_restart(policy: Path):
    queries = [*of_each_mechanism()]
    with dpquery.connect(policy) as opened:
        paid = [opened.sql(query) for query in queries]
    with dpquery.connect(policy) as opened:
        repeated = [opened.sql(query) for query in queries]
    for query, first, again in zip(queries, paid, repeated, strict=True):
        assert not free(first) or queries.count(query) > 1, query
        assert free(again), query
        assert told(again) == told(first), query
        assert (again.notes == first.notes) == free(first)
        assert {*again.notes} == {*first.notes, REPEATED}


WHOLE = [
    "SELECT dept, DP_COUNT(*, eps=1) AS n FROM staff GROUP BY ROLLUP (dept)",
    "SELECT dept, remote, DP_SUM(salary, eps=1) FROM staff GROUP BY dept, remote",
    "SELECT DP_COUNT(*, eps=1), DP_COUNT(*, eps=1) FROM staff",
    "WITH m AS (SELECT DP_MEDIAN(salary, eps=1) AS v FROM staff) "
    "SELECT DP_COUNT(*, eps=1) FROM staff WHERE salary > (SELECT v FROM m)",
    "SELECT DP_SUM(person_id, eps=9, bounds='auto') FROM staff",
    "SELECT DP_SUM(person_id, eps=9, bounds='auto'), "
    "DP_AVG(person_id, eps=9, bounds='auto') FROM staff",
    "SELECT DP_SUM(person_id, eps=1e-9, bounds='auto') FROM staff",
]


@pytest.mark.parametrize("query", WHOLE)
def test_a_statement_is_repeated_whole(policy: Path, session: Session, query: str):
    first = session.sql(query)
    with dpquery.connect(policy) as other:
        again = other.sql(query)
    assert free(again)
    assert told(again) == told(first)
    assert not free(session.sql(query, refresh=True))
    assert len(session.ledger().rows) == 2


def test_a_call_that_is_written_twice_is_drawn_twice(session: Session):
    session.sql(COUNT.replace("0.5", "0.001"))
    twice = "SELECT DP_COUNT(*, eps=0.001), DP_COUNT(*, eps=0.001) FROM staff"
    first = session.sql(twice)
    assert not free(first)
    assert first.rows[0][0] != first.rows[0][1], "once in 2,000 by chance"
    assert session.sql(twice).rows == first.rows


def test_bounds_that_are_kept_do_not_make_a_repeated_query_another(session: Session):
    query = "SELECT DP_SUM(person_id, eps=9, bounds='auto') AS s FROM staff"
    first = session.sql(query)
    other = session.sql(query.replace("SUM", "AVG"))
    assert other.loss.epsilon == 9  # all of it, for the bounds are kept
    assert free(session.sql(query.replace("SUM", "AVG")))
    assert told(session.sql(query)) == told(first)


def test_words_that_change_nothing_and_what_is_above_do_not_matter(session: Session):
    (n,) = session.sql(COUNT).rows[0]
    for text in (
        "select /* again */ dp_count(*, epsilon => 0.50) from staff as s",
        "WITH c AS (SELECT DP_COUNT(*, eps=0.5) AS k FROM staff) SELECT k FROM c",
        COUNT + " ORDER BY n LIMIT 1",
    ):
        again = session.sql(text)
        assert free(again)
        assert again.scalar() == n
    assert session.sql("SELECT DP_COUNT(*, eps=0.5) * 2 FROM staff").scalar() == 2 * n


def test_other_questions_are_paid(session: Session):
    session.sql(COUNT)
    session.sql("SELECT DP_FIRST_ABOVE(age, 3, eps=1) FROM staff")
    for text in (
        COUNT.replace("0.5", "0.25"),
        COUNT + " WHERE age > 30",
        COUNT.replace("*", "age"),
        COUNT.replace("eps=0.5", "eps=0.5, mechanism='gaussian', delta=1e-9"),
        COUNT.replace("staff", "visits"),
        "SELECT DP_FIRST_ABOVE(age, 4, eps=1) FROM staff",
    ):
        assert not free(session.sql(text))


def test_a_partly_new_statement_is_paid_whole(session: Session):
    session.sql(COUNT)
    both = "SELECT DP_COUNT(*, eps=0.5), DP_SUM(age, eps=0.25) FROM staff"
    assert session.sql(both).loss.epsilon == Fraction(3, 4)
    assert free(session.sql("SELECT DP_SUM(age, eps=0.25) FROM staff"))


def test_a_repeat_looks_at_no_file_and_needs_no_budget(policy: Path, session: Session):
    first = session.sql(COUNT)
    session.sql(f"SELECT DP_COUNT(*, eps={float(session.budget.left.epsilon)}) FROM visits")
    assert session.budget.left.epsilon == 0
    charges = session.ledger().rows
    for file in policy.parent.glob("*.parquet"):
        file.unlink()
    assert told(session.sql(COUNT)) == told(first)
    assert session.ledger().rows == charges


def test_a_published_version_is_asked_anew_even_of_the_same_bytes(policy: Path, capsys):
    assert not free(ask(policy))
    for version in (1, 2):
        assert run_verb(["policy", "publish", str(policy)]) == 0
        assert f"data version {version} begins" in capsys.readouterr().out
        assert not free(ask(policy))
        assert free(ask(policy))
    with dpquery.connect(policy) as opened:
        assert opened.budget.spent.epsilon == Fraction(3, 2)
    assert run_verb(["ledger", "verify", str(policy)]) == 0


def test_another_policy_is_asked_anew(policy: Path):
    query = "SELECT DP_SUM(salary, eps=0.5) FROM staff"
    ask(policy, query)
    edit(policy, lambda text: text + "\n# a comment\n")
    assert free(ask(policy, query))
    edit(policy, lambda text: text.replace("200000", "150000").replace("200_000", "150_000"))
    assert not free(ask(policy, query))


def test_analysts_see_their_own_answers_while_their_rights_stay(policy: Path):
    edit(policy, lambda text: text + "\n" + ANALYSTS)
    first = ask(policy, analyst="alice")
    assert not free(ask(policy, analyst="bob"))
    assert told(ask(policy, analyst="alice")) == told(first)
    edit(policy, lambda text: text.replace("alice]\nepsilon = 100", "alice]\nepsilon = 99"))
    assert not free(ask(policy, analyst="alice"))


def test_answers_are_shared_where_the_policy_says_so_and_only_later_ones(policy: Path):
    edit(policy, lambda text: text + "\n" + ANALYSTS)
    ask(policy, analyst="alice")
    edit(
        policy, lambda text: text.replace("delta = 1e-3", "delta = 1e-3\nshared_answers = true")
    )
    assert not free(ask(policy, analyst="bob"))
    assert not free(ask(policy, COUNT.replace("0.5", "0.3"), analyst="bob"))
    assert free(ask(policy, COUNT.replace("0.5", "0.3"), analyst="alice"))


def test_explaining_says_that_it_costs_nothing(session: Session):
    assert session.explain(COUNT).charge.epsilon == Fraction(1, 2)
    session.sql(COUNT)
    explanation = session.explain(COUNT)
    assert explanation.charge == NO_LOSS
    assert "already answered: costs nothing" in str(explanation)
    assert session.explain(f"REFRESH {COUNT}").charge.epsilon == Fraction(1, 2)


def test_a_frozen_budget_says_so_and_what_was_answered_is_still_free(
    policy: Path, session: Session
):
    session.sql(COUNT)
    other = "SELECT DP_COUNT(*, eps=0.25) FROM staff"
    assert run_verb(["ledger", "freeze", str(policy)]) == 0
    assert free(session.sql(COUNT))
    assert "frozen" not in str(session.explain(COUNT))
    assert "frozen by the data owner" in str(session.explain(other))
    assert session.sql("SHOW BUDGET").to_dicts()[0]["frozen"]
    assert run_verb(["ledger", "thaw", str(policy)]) == 0
    assert "frozen" not in str(session.explain(other))
    assert "frozen" not in session.sql("SHOW BUDGET").columns


def test_only_a_query_is_asked_anew(session: Session):
    with pytest.raises(dpquery.SyntaxRefused) as refused:
        session.sql("REFRESH SHOW TABLES")
    assert refused.value.code == "DPQ106"
    assert refused.value.span == Span(8, 12)


def test_a_fault_before_storing_keeps_the_charge_and_stores_nothing(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object) -> None:
        raise OSError("full")

    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "store", full)
        with pytest.raises(dpquery.ScanFailed) as failed:
            session.sql(COUNT)
        assert "full" not in str(failed.value)
    assert session.budget.spent.epsilon == Fraction(1, 2)
    assert not free(session.sql(COUNT))
    assert free(session.sql(COUNT))


@pytest.mark.parametrize("column", ["drawn", "key", "analyst", "shared", "hash"])
def test_a_changed_answer_is_never_given(policy: Path, column: str):
    ask(policy)
    with closing(sqlite3.connect(policy.with_suffix(".ledger"))) as file:
        with pytest.raises(sqlite3.Error):
            file.execute(f"UPDATE answers SET {column} = {column}")
        file.execute("DROP TRIGGER no_update_of_answers")
        file.execute(f"UPDATE answers SET {column} = {column} || '1'")
        file.commit()
    with pytest.raises(PolicyInvalid) as refused:
        run_verb(["ledger", "verify", str(policy)])
    assert refused.value.code == "DPQ605"
    with dpquery.connect(policy) as opened:
        if column in {"key", "analyst"}:
            assert not free(opened.sql(COUNT))
        else:
            with pytest.raises(PolicyInvalid):
                opened.sql(COUNT)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.fractions()
    | st.dates()
    | st.datetimes().map(lambda moment: moment.replace(fold=0))
    | st.decimals(allow_nan=False)
    | st.floats(allow_nan=False),
    lambda part: st.lists(part, max_size=3) | st.lists(part, max_size=3).map(tuple),
    max_leaves=5,
)
MODE = ModeRelease.__new__(ModeRelease)


@given(st.lists(VALUES, max_size=4))
def test_any_value_is_read_back_as_it_was(values: list[object]):
    drawn = [*values, "\x00", Decimal("1.10"), date.max]
    found = decode_cells(encode_cells([NoisyCell(value, MODE) for value in drawn]), MODE)
    assert repr([cell.drawn for cell in found]) == repr(drawn)


def test_another_day_is_another_question(session: Session, monkeypatch: pytest.MonkeyPatch):
    query = "SELECT DP_COUNT(*, eps=0.5) AS n FROM staff WHERE hired < CURRENT_DATE - 400"
    days = [date(2024, 6, 1), date(2024, 6, 1), date(2024, 6, 2), date(2024, 6, 1)]
    monkeypatch.setattr("dpquery.sql.parse.parser.utc_today", iter(days).__next__)
    losses = [session.sql(query).loss.epsilon for _ in days]
    assert losses == [Fraction(1, 2), 0, Fraction(1, 2), 0]
