"""What refinements pay, keep and offer, in exact numbers, and what EXPLAIN says of them."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.errors import BudgetRefused, PolicyInvalid, ScanFailed
from dpquery.functions.additive_releases import AveragedRelease
from dpquery.session import Session
from tests.samples import edit, paid, sample_policy

COUNT = "SELECT DP_COUNT(*, eps={}) AS n FROM staff"
SUM = "SELECT DP_SUM(age, eps={}) AS n FROM staff"
BOTH = "SELECT DP_COUNT(*, eps={}) AS a, DP_SUM(age, eps={}) AS b FROM staff"
ROLLED = "SELECT dept, DP_COUNT(*, eps={}) AS n FROM staff GROUP BY ROLLUP (dept)"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """The sample policy with much to spend."""
    return sample_policy(tmp_path, "epsilon = 1000\ndelta = 1e-3")


@pytest.fixture
def in_rho(tmp_path: Path) -> Iterator[Session]:
    """The sample policy under a budget in rho."""
    with dpquery.connect(sample_policy(tmp_path, "rho = 0.5\ndelta = 1e-6")) as opened:
        yield opened


def spent_rho(session: Session) -> Fraction:
    return session._ledger._store.totals(session._account).policy.spent.rho


# What is paid.


@pytest.mark.parametrize(
    ("counts", "price"), [(["0.5"], "1"), (["0.5", "0.25"], "0.75")], ids=["alone", "beside"]
)
def test_what_lost_as_much_as_is_asked_is_not_refined(
    policy: Path, counts: Sequence[str], price: str
):
    """There is no noise between a value and one of the same scale."""
    with dpquery.connect(policy) as session:
        for eps in counts:
            session.sql(COUNT.format(eps))
        session.sql(SUM.format("0.5"))
        assert paid(session, BOTH.format("0.5", "1")) == Fraction(price)


def test_gaussian_noise_of_an_epsilon_is_paid_in_full_under_rho(in_rho: Session):
    count = "SELECT DP_COUNT(*, eps={}, mechanism='gaussian', delta=1e-9) FROM staff"
    in_rho.sql(count.format("0.1"))
    before = spent_rho(in_rho)
    assert paid(in_rho, count.format("0.2")) == Fraction("0.2")
    between = spent_rho(in_rho)
    in_rho.sql(f"REFRESH {count.format('0.2')}")
    assert spent_rho(in_rho) - between == between - before


def draws_of(session: Session, query: str, monkeypatch: pytest.MonkeyPatch) -> list[Fraction]:
    """Return the variances that the draws of an answer have, as they are weighed."""
    seen: list[Fraction] = []
    draw = AveragedRelease.draw

    def watched(release: AveragedRelease, exact: object, randomness: object) -> object:
        (drawn,) = draws = draw(release, exact, randomness)
        seen.extend(variance for variance, _ in drawn)
        return draws

    with monkeypatch.context() as patched:
        patched.setattr(AveragedRelease, "draw", watched)
        session.sql(query)
    return seen


def test_each_draw_is_weighed_by_the_noise_that_it_has(in_rho: Session, monkeypatch):
    """At a distance of 70, noise of rho has a variance of 70^2 / (2 rho)."""
    total = "SELECT DP_SUM(age, rho={}) AS n FROM staff"
    first, second = Fraction(70**2 * 50), Fraction(70**2 * 25)
    in_rho.sql(total.format("0.01"))
    assert draws_of(in_rho, total.format("0.03"), monkeypatch) == [first, second]
    assert draws_of(in_rho, total.format("0.04"), monkeypatch) == [first, second, first]


# What is told.


def about_noise(session: Session, query: str) -> list[str]:
    lines = str(session.explain(query)).splitlines()
    return [line.strip() for line in lines if line.startswith(("  mech", "  error"))]


def test_explain_says_what_is_paid_and_the_error_of_what_is_wanted(policy: Path):
    with dpquery.connect(policy) as session:
        session.sql(SUM.format("0.5"))
        assert about_noise(session, SUM.format("2")) == [
            "mechanism  laplace, for a loss of 1.5",
            "error      ± 105 (95 %)",
        ]


def test_explain_says_what_one_more_draw_loses_and_the_error_of_the_mean(in_rho: Session):
    total = "SELECT DP_SUM(age, rho={}) AS n FROM staff"
    one, two = (about_noise(in_rho, total.format(rho))[0] for rho in ("0.01", "0.02"))
    assert one == "mechanism  gaussian, for a loss of 0.642938272"
    assert two == "mechanism  gaussian, for a loss of 0.929539144"
    in_rho.sql(total.format("0.01"))
    assert about_noise(in_rho, total.format("0.03")) == [
        two,
        "error      ± 561 (95 %)",
    ]
    in_rho.sql(total.format("0.03"))
    assert about_noise(in_rho, total.format("0.04")) == [
        one,
        "error      ± 486 (95 %)",
    ]


def test_explain_counts_the_rounding_of_a_mean_to_its_error(in_rho: Session):
    count = "SELECT DP_COUNT(*, rho={}) AS n FROM staff"
    assert about_noise(in_rho, count.format("0.1"))[1] == "error      ± 4 (95 %)"
    in_rho.sql(count.format("0.05"))
    assert about_noise(in_rho, count.format("0.1"))[1] == "error      ± 5 (95 %)"


# What a refusal offers.


def offered(session: Session, query: str) -> str:
    with pytest.raises(BudgetRefused) as refused:
        session.sql(query)
    return str(refused.value).split("try:")[1]


def test_of_what_was_refined_in_several_groupings_the_most_that_fits_is_offered(policy: Path):
    edit(policy, "epsilon = 1000\ndelta = 1e-3", "epsilon = 1")
    with dpquery.connect(policy) as session:
        session.sql(ROLLED.format("0.4"))
        (eps,) = re.findall(r"eps=([0-9.]+)", offered(session, ROLLED.format("2")))
        assert paid(session, ROLLED.format(eps)) == Fraction("0.6")
        assert session.budget.left.epsilon == 0


def test_calls_that_were_refined_are_not_offered_less_than_was_answered(policy: Path):
    """In proportion to what they pay, they would be told what is known already."""
    edit(policy, "epsilon = 1000\ndelta = 1e-3", "epsilon = 4")
    with dpquery.connect(policy) as session:
        session.sql(BOTH.format("2", "0.5"))
        found = offered(session, BOTH.format("4", "2.5"))
        written = re.findall(r"DP_(\w+)\([^)]*eps=([0-9.]+)", found)
        before = {"COUNT": 2, "SUM": Fraction(1, 2)}
        assert all(Fraction(eps) > before[call] for call, eps in written)


# What it rests on.


def test_an_earlier_release_that_was_changed_is_not_refined(policy: Path):
    """What is said to have lost more would be paid less for."""
    with dpquery.connect(policy) as session:
        session.sql(COUNT.format("0.5"))
    with closing(sqlite3.connect(policy.with_suffix(".ledger"))) as file:
        triggers = file.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        for (name,) in triggers.fetchall():
            file.execute(f'DROP TRIGGER "{name}"')
        file.execute("UPDATE earlier SET rate = '9/10'")
        assert file.execute("SELECT total_changes()").fetchone() == (1,)
        file.commit()
    with dpquery.connect(policy) as session:
        before = session.budget.spent
        for query in (COUNT.format("1"), COUNT.format("0.75")):
            with pytest.raises(PolicyInvalid) as refused:
                session.sql(query)
            assert refused.value.code == "DPQ605"
            assert session.budget.spent == before


def test_rows_that_were_exchanged_under_the_same_size_and_time_are_noticed(policy: Path):
    staff = policy.with_name("staff.parquet")
    table = pq.read_table(staff)
    age = table.schema.get_field_index("age")

    def write(first: int) -> tuple[int, int]:
        ages = table["age"].to_pylist()
        ages[0] = first
        changed = table.set_column(age, "age", pa.array(ages, table["age"].type))
        pq.write_table(changed, staff, compression="none", use_dictionary=False)
        os.utime(staff, ns=(1, 1))
        return staff.stat().st_size, staff.stat().st_mtime_ns

    state = write(16)
    with dpquery.connect(policy) as session:
        session.sql(COUNT.format("0.5"))
        assert write(15) == state
        with pytest.raises(ScanFailed):
            session.sql(COUNT.format("1"))
