"""Under a budget in rho, a count or sum asked again for more pays for one more draw."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import dpquery
from dpquery.budget.ledger.earlier_releases import AlreadyRefined
from dpquery.cache.lookup import REPEATED
from dpquery.core.privacy_events import Concentrated
from dpquery.core.source_text import Source
from dpquery.core.types import INTEGER
from dpquery.errors import BudgetRefused
from dpquery.functions.additive_releases import AdditiveRelease, AveragedRelease
from dpquery.ir.measures import CountRows, Weight
from dpquery.mechanisms import DiscreteGaussian
from dpquery.session import Session
from dpquery.shell.main import run_verb
from tests.mechanisms.sources import Seeded
from tests.samples import edit, sample_policy

COUNT = "SELECT DP_COUNT(*, rho={}) AS n FROM staff"
DELTA = Fraction(5, 10**7)


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return sample_policy(tmp_path, "rho = 0.5\ndelta = 1e-6")


@pytest.fixture
def session(policy: Path) -> Iterator[Session]:
    with dpquery.connect(policy) as opened:
        yield opened


def paid(session: Session, query: str) -> Fraction:
    """Return the rho that a query takes."""

    def spent() -> Fraction:
        return session._ledger._store.totals(session._account).policy.spent.rho

    before = spent()
    session.sql(query)
    return spent() - before


def test_the_difference_is_paid_and_the_mean_is_kept(policy: Path):
    with dpquery.connect(policy) as session:
        assert paid(session, COUNT.format("0.01")) == Fraction("0.01")
    with dpquery.connect(policy) as session:
        told = str(session.explain(COUNT.format("0.03")))
        assert "(refines the answer at rho=0.01)" in told.splitlines()[0]
        answer = session.sql(COUNT.format("0.03"))
        assert "refines an earlier answer: pays 0.02 of 0.03" in answer.notes
        again = session.sql(COUNT.format("0.03"))
        assert REPEATED in again.notes
        assert (again.rows, again.interval("n", 0.95)) == (
            answer.rows,
            answer.interval("n", 0.95),
        )
        assert paid(session, COUNT.format("0.04")) == Fraction("0.01")
        charged = [one for entry in session._ledger.entries("default") for one in entry.events]
        assert session._ledger.verify() == 3
    kinds = {type(event) for event in charged}
    assert kinds == {Concentrated}, "each is a draw like any other"
    assert [event.rho for event in charged] == [Fraction(n, 100) for n in (1, 2, 1)]


def test_what_an_answer_tells_by_itself_is_all_of_its_rho(session: Session):
    whole = session.explain(COUNT.format("0.03")).guarantee.loss
    session.sql(COUNT.format("0.01"))
    answer = session.sql(COUNT.format("0.03"))
    assert answer.guarantee.loss == whole
    assert answer.loss.epsilon < whole.epsilon


def test_nothing_is_used_up_for_what_is_drawn_is_paid(session: Session):
    session.sql(COUNT.format("0.01"))
    session.sql(COUNT.format("0.03"))
    assert paid(session, COUNT.format("0.02")) == Fraction("0.01"), "beside that of 0.01"
    assert not list(session._ledger._store.database.execute("SELECT * FROM refined"))


def test_groups_and_calls_are_averaged_together(session: Session):
    calls = "DP_COUNT(*, rho={0}) AS n, DP_SUM(bonus, rho={0})"
    query = f"SELECT dept, {calls} FROM staff GROUP BY dept"
    session.sql(query.format("0.01"))
    assert paid(session, query.format("0.04")) == Fraction("0.06")
    answer = session.sql(query.format("0.1"))
    counts = {row[0]: row[1] for row in answer.rows}
    for (low, high), n in zip(answer.interval("n", 0.95), counts.values(), strict=True):
        assert low <= n <= high
        assert 2 <= n - low <= 5, "as far as noise of 0.1 goes"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (COUNT.format("0.01"), COUNT.format("0.02") + " WHERE age > 30"),
        (COUNT.format("0.03"), COUNT.format("0.02")),
        (COUNT.format("0.01"), f"REFRESH {COUNT.format('0.02')}"),
        (
            COUNT.format("0.01"),
            "SELECT DP_COUNT(*, rho=0.01), DP_SUM(age, rho=0.01) FROM staff",
        ),
        (
            "SELECT DP_COUNT(*, eps=0.1) FROM staff",
            "SELECT DP_COUNT(*, eps=0.2) FROM staff",
        ),
    ],
)
def test_all_else_is_paid_in_full(session: Session, first: str, second: str):
    session.sql(first)
    assert paid(session, second) == Fraction("0.02")


def test_a_version_that_is_published_between_is_noticed(policy: Path, session: Session):
    session.sql(COUNT.format("0.01"))
    late = session._look_up(session._plan(Source(COUNT.format("0.02"))))
    assert run_verb(["policy", "publish", str(policy)]) == 0
    with pytest.raises(AlreadyRefined), session._charged(late.charge, late.plan.source):
        pass
    assert paid(session, COUNT.format("0.02")) == Fraction("0.02")


def test_a_refusal_offers_the_rho_that_fits_with_what_was_paid_before(session: Session):
    session.sql(COUNT.format("0.4"))
    with pytest.raises(BudgetRefused) as refused:
        session.sql(COUNT.format("0.6"))
    assert "asks for rho=0.2 more than before" in str(refused.value)
    offered = refused.value.diagnostic.remedy[0]
    assert offered == "DP_COUNT(*, rho=0.5)"
    assert paid(session, f"SELECT {offered} AS n FROM staff") == Fraction("0.1")


def test_a_rho_that_is_parted_in_thirds_is_offered_so_that_it_fits(policy: Path):
    edit(policy, "rho = 0.5", "rho = 0.07")
    query = (
        "SELECT DP_SUM(age, rho={}) FROM staff GROUP BY GROUPING SETS ((dept), (remote), ())"
    )
    with dpquery.connect(policy) as session:
        with pytest.raises(BudgetRefused) as refused:
            session.sql(query.format("0.09"))
        call = refused.value.diagnostic.remedy[0]
        session.sql(query.replace("DP_SUM(age, rho={})", call))
        assert session.budget.left.epsilon < Fraction(1, 1000)


def test_groupings_with_unlike_draws_before_are_offered_nothing(session: Session):
    rolled = "SELECT dept, DP_COUNT(*, rho={}) AS n FROM staff GROUP BY ROLLUP (dept)"
    session.sql("SELECT dept, DP_COUNT(*, rho=0.1) AS n FROM staff GROUP BY dept")
    session.sql(COUNT.format("0.2"))
    with pytest.raises(BudgetRefused) as refused:
        session.sql(rolled.format("1"))
    assert "rho=" not in str(refused.value).split("try:")[1]
    assert paid(session, rolled.format("0.44")) == Fraction("0.14")


CELLS = 20_000
"""A variance is off by 6 % once in 10^9: that is 6 of its standard deviations."""


class Zeros:
    """Exact values that are all zero."""

    def values(self, _: object) -> tuple[int, ...]:
        return (0,) * CELLS


def test_the_error_is_that_of_the_whole_rho():
    few, whole = Fraction("0.005"), Fraction("0.02")
    noise = DiscreteGaussian.of_rho(1, few, DELTA)
    drawn = noise.release([0] * CELLS, Seeded(1))
    wanted = AdditiveRelease(
        "DP_COUNT",
        (CountRows(Weight(1)),),
        1,
        DiscreteGaussian.of_rho(1, whole, DELTA),
        INTEGER,
        Fraction(1),
    )
    refined = AveragedRelease.of(wanted, few, [((noise.sigma2, value),) for value in drawn])
    assert refined.event() == DiscreteGaussian.of_rho(1, whole - few, DELTA).event(1)
    cells = refined.run(Zeros(), Seeded(2))
    rounding = Fraction(1, 12)
    assert np.var([cell.value for cell in cells]) == pytest.approx(
        float(1 / (2 * whole) + rounding), rel=0.06
    )
    held = np.mean([low <= 0 <= high for low, high in map(interval, cells)])
    assert held >= 0.95 - 0.01, "which chance alone is below once in 10^10"


def interval(cell) -> tuple[int, int]:
    return cell.interval(Fraction(95, 100))
