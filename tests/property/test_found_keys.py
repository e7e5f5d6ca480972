"""Groups found in the data: few counts of units by value move between neighbours, each by 1.

Two engines, written apart, have to find the same values with the same counts, in both tables;
what they keep of a unit with too many values has to be the same choice, whatever else is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import TEXT
from dpquery.engine.base import Engine, FaultLog
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.ir.measures import Candidates
from dpquery.plan.plan import Plan
from dpquery.policy.model import Policy
from tests.neighbours import Pair
from tests.oracle.engine import PythonEngine
from tests.oracle.told import kept_of_units
from tests.property.test_neighbours import KINDS, accepted, policies
from tests.strategies import CONDITIONS, pairs
from tests.worlds import planned, receipt_for

TOLD = (
    *("i", "n", "m", "w", "s", "b", "day", "at", "k", "j", "c"),
    *("i + j", "UPPER(s)", "j > 0", "date_trunc('month', day)"),
    *("k, b", "i, s", "day, m, k", "s, s", "at, j > 0"),
)
Counts = Mapping[Any, int]


@dataclass(frozen=True)
class Case:
    """A pair of tables, what is declared of them, and whose values are told apart."""

    pair: Pair
    told: str
    limit: int
    where: str
    kind: str
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    seed: int = 0

    @property
    def text(self) -> str:
        limit = f", max_groups_contributed={self.limit}" if self.limit else ""
        return f"SELECT DP_KEYS({self.told}, eps=1, delta=1e-6{limit}) FROM t{self.where}"


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kind, neighbours = draw(st.sampled_from(list(KINDS))), draw(st.sampled_from(Neighbours))
    pair = draw(
        pairs(
            neighbours, kind in {"one row per unit", "rows are units"}, kind == "rows are units"
        )
    )
    where = draw(st.one_of(st.just(""), CONDITIONS.map(" WHERE {}".format)))
    told, limit = draw(st.sampled_from(TOLD)), draw(st.integers(0, 3))
    return Case(pair, told, limit, where, kind, neighbours, draw(st.integers(0, 10**6)))


def found(engine: Engine, plan: Plan) -> Counts:
    """Give every value with its count: what a mechanism alone would see, without its names."""
    (frontier,) = plan.frontiers
    (measure,) = frontier.scan.measures
    assert isinstance(measure, Candidates)
    with engine.open(frontier.scan, receipt_for(plan), 0) as exact:
        counts = exact.counts(measure).tolist()
        assert all(count > 0 for count in counts)
        values = exact.chosen(measure, range(len(counts)))
        assert exact.chosen(measure, [*range(len(counts))][-1:]) == values[-1:]
    listed = dict(zip(values, counts, strict=True))
    assert len(listed) == len(counts)
    return listed


def by_both(policy: Policy, text: str, seed: int) -> Counts:
    plan = accepted(policy, text)
    duckdb = DuckDBEngine(policy, FaultLog(None), threads=1 + seed % 8)
    try:
        first = found(duckdb, plan)
        assert found(duckdb, plan) == first
    finally:
        duckdb.close()
    assert found(PythonEngine(policy, FaultLog(None)), plan) == first
    return first


def require_promise(case: Case) -> None:
    with policies(case.pair, case.kind, case.seed, case.neighbours, [case.text]) as sides:
        before, after = (
            by_both(policy, case.text, case.seed + number)
            for number, policy in enumerate(sides)
        )
        release = planned(sides[0], case.text).frontiers[0].releases[0].release
    moves = [abs(before.get(v, 0) - after.get(v, 0)) for v in {*before, *after}]
    assert max(moves, default=0) <= 1
    assert sum(moves) <= release.distance


MANY = Pair(
    [[{"k": k} for k in "ab"] * 3],
    [[{"k": k} for k in "ab"] * 3, [{"k": "a"}, {"k": "b"}, {}]],
    ([], []),
)


@given(cases())
@settings(max_examples=8)
@example(Case(MANY, "k", 2, "", "weights"))
@example(Case(MANY, "k", 0, "", "weights", Neighbours.SUBSTITUTE))
@example(Case(MANY, "k, b", 2, "", "NULL is no group"))
@example(Case(MANY, "b, k", 2, "", "weights", Neighbours.SUBSTITUTE))
def test_counts_of_values_move_by_one_in_few_places_and_engines_agree(case: Case):
    require_promise(case)


@pytest.mark.slow
@given(cases())
@settings(max_examples=600)
def test_counts_of_values_move_by_one_in_few_places_and_engines_agree_at_length(case: Case):
    require_promise(case)


def test_a_choice_that_looks_at_other_units_is_caught(monkeypatch: pytest.MonkeyPatch):
    """Keeping the most frequent values of a unit first is what the check has to reject."""

    def by_frequency(pairs: Any, limit: int, *_: Any) -> Any:
        listed = sorted(set(pairs), key=str)
        often: dict[Any, int] = {}
        for _, told in listed:
            often[told] = often.get(told, 0) + 1
        for unit in {unit for unit, _ in listed}:
            own = [told for owner, told in listed if owner == unit]
            yield from (
                (unit, told) for told in sorted(own, key=lambda t: (-often[t], str(t)))[:limit]
            )

    monkeypatch.setattr("tests.oracle.totals.kept_of_units", by_frequency)
    both, alone = [{"k": "a"}, {"k": "b"}], [{"k": "b"}]
    pair = Pair([both, both, both], [both, both, both, alone], ([], []))
    with policies(pair, "weights", 0) as sides:
        text = Case(pair, "k", 1, "", "weights").text
        before, after = (
            found(PythonEngine(side, FaultLog(None)), planned(side, text)) for side in sides
        )
    moves = [abs(before.get(v, 0) - after.get(v, 0)) for v in {*before, *after}]
    assert sum(moves) > 1


def test_which_values_of_a_unit_are_kept_depends_on_the_secret_and_nothing_else():
    pairs = [(unit, (value,)) for unit in range(40) for value in "abcdef"]
    kept = dict(kept_of_units(pairs, 1, "one", TEXT))
    assert dict(kept_of_units(pairs[::-1] + pairs[:6], 1, "one", TEXT)) == kept
    assert dict(kept_of_units(pairs[6:], 1, "one", TEXT)) == {u: kept[u] for u in range(1, 40)}
    assert dict(kept_of_units(pairs, 1, "another", TEXT)) != kept
    assert len(set(kept.values())) > 3, "a fixed order of values would always keep the first"
