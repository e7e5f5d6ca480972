"""Limits of rows that are found: random query x random neighbour, for any limit in the end.

What speaks for each limit moves within the range that is claimed of it, whatever the relation,
its conditions and its groups. Whichever limit is drawn, the charge stays as it was, and what is
released with it moves by no more than claimed. Both engines agree on every integer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpquery.budget.ledger.ledger import Ledger
from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import Interval
from dpquery.engine.base import Engine, FaultLog
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.errors import QueryRefused
from dpquery.functions.bounds_search import LIMITS, RowSearchRelease
from dpquery.ir import relations as extent
from dpquery.plan.plan import Plan, with_bounds
from dpquery.policy.model import Policy
from tests.frontiers import require_drawn
from tests.neighbours import Drawn, drawn, require_bounded_move
from tests.oracle.engine import PythonEngine
from tests.property.test_neighbours import NAMES, Case, policies
from tests.property.test_relations import QUERIES, THREADS, Sides
from tests.property.test_relations import Case as Related
from tests.property.test_relations import cases as related
from tests.strategies import pairs, queries
from tests.worlds import planned, receipt_for

AUTO = ", max_rows_contributed='auto'"
OUT_OF_REACH = {"DPQ305", "DPQ404", "DPQ205", "DPQ408"}
MOST = [1, 2, 3, 60, 448, LIMITS[-1]]


def found(text: str) -> str:
    """Have limits found in each call that states none and can have one found."""
    parts = text.split("eps=0.1")
    for number in range(1, len(parts)):
        call = parts[number - 1].rpartition("DP_")[2] + parts[number].split(")", 1)[0]
        if not any(
            told in call for told in ("max_", "DISTINCT", "_per_group", "weights", "KEYS")
        ):
            parts[number] = AUTO + parts[number]
    return "eps=0.1".join(parts)


@dataclass(frozen=True)
class Searched:
    """What a plan's searches are given, and what its releases are, each with any limits."""

    utilities: list[list[int]]
    drawn: list[list[Drawn]]


def searched(
    engine: Engine,
    plan: Plan,
    policy: Policy,
    limits: Sequence[int],
    ledger: Ledger | None = None,
) -> Searched:
    """Ask for what speaks for each limit, then for all that is released with some of them."""
    receipt, utilities = receipt_for(plan, ledger), []
    for number, search in enumerate(plan.searches, start=len(plan.frontiers)):
        assert isinstance(search.release, RowSearchRelease)
        with engine.open(search.scan, receipt, number) as exact:
            utilities.append(search.release.utilities(exact))
    released = []
    for limit in limits:
        known = with_bounds(plan, [Interval.point(limit)] * len(plan.searches), policy)
        events = [one.event() for releases in known.releases for one in releases]
        assert tuple(events) == plan.charge.events
        released.append(drawn(engine, known, ledger))
    return Searched(utilities, released)


def require_narrow(plan: Plan, before: Searched, after: Searched) -> None:
    """Hold two neighbours against what searches claim, and then against all other claims."""
    for search, a, b in zip(plan.searches, before.utilities, after.utilities, strict=True):
        changes = [y - x for x, y in zip(a, b, strict=True)]
        assert max(changes) - min(changes) <= search.release.distance
    for one, other in zip(before.drawn, after.drawn, strict=True):
        require_bounded_move(one, other)


def require_promise(case: Case) -> None:
    limits = [Random(case.seed).choice(MOST)]
    with policies(case.pair, case.kind, case.seed, case.neighbours, case.texts) as sides:
        plans = []
        for text in map(found, case.texts):
            try:
                plans.append(planned(sides[0], text))
            except QueryRefused as refusal:
                assume(refusal.code not in OUT_OF_REACH)
                raise
        seen = []
        for number, policy in enumerate(sides):
            log, threads = FaultLog(None), 1 + (case.seed + number) % 8
            engine, oracle = (
                DuckDBEngine(policy, log, threads=threads),
                PythonEngine(policy, log),
            )
            try:
                expected = [searched(oracle, plan, policy, limits) for plan in plans]
                assert [searched(engine, plan, policy, limits) for plan in plans] == expected
            finally:
                engine.close()
            seen.append(expected)
        for plan, before, after in zip(plans, *seen, strict=True):
            require_narrow(plan, before, after)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    neighbours = draw(st.sampled_from(Neighbours))
    pair = draw(pairs(neighbours))
    texts = draw(st.lists(queries(NAMES), min_size=1, max_size=2))
    return Case(pair, texts, "weights", neighbours, draw(st.integers(0, 10**6)))


@settings(max_examples=6)
@given(cases())
def test_limits_are_found_within_their_claims(case: Case):
    require_promise(case)


@pytest.mark.slow
@settings(max_examples=1000)
@given(cases())
def test_limits_are_found_within_their_claims_at_length(case: Case):
    require_promise(case)


@dataclass
class Finding(Sides):
    """Neighbouring data whose queries have limits found."""

    searches: int = field(default=0, init=False)

    def plan(self, text: str, neighbours: Neighbours) -> Plan | None:
        try:
            plan = super().plan(found(text), neighbours)
        except QueryRefused as refusal:
            if refusal.code != "DPQ407":  # a scan of which not every call has a limit
                raise
            plan = None
        self.searches += len(plan.searches) if plan else 0
        return plan

    def require_promise(self, case: Related) -> None:
        self.write(case)
        policy = replace(self.policies[0], neighbours=case.neighbours)
        limits = [Random(case.seed).choice(MOST)]
        for plan in filter(None, [self.plan(text, case.neighbours) for text in case.texts]):
            seen = []
            for side in range(len(THREADS)):
                expected = searched(self.oracle[side], plan, policy, limits, self.ledger)
                counted = searched(self.duckdb[side], plan, policy, limits, self.ledger)
                assert counted == expected
                seen.append(expected)
            for before, after in case.pairs():
                require_narrow(plan, seen[before], seen[after])


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finding]:
    opened = Finding(tmp_path_factory.mktemp("sides"))
    yield opened
    opened.close()


@pytest.mark.parametrize("paired", [2, pytest.param(extent.MOST_PAIRS, marks=pytest.mark.slow)])
def test_limits_of_relations_are_found_within_their_claims(
    sides: Finding, monkeypatch: pytest.MonkeyPatch, paired: int
):
    monkeypatch.setattr(extent, "MOST_PAIRS", paired)
    require_promises(sides, 4)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(4))
def test_a_thousand_limits_of_relations_are_found_within_their_claims(
    sides: Finding, monkeypatch: pytest.MonkeyPatch, shard: int
):
    monkeypatch.setattr(extent, "MOST_PAIRS", extent.MOST_PAIRS if shard % 4 else 3)
    require_promises(sides, 2_400 // 4 // QUERIES + 20)
    require_drawn(sides.asked)


def require_promises(sides: Finding, examples: int) -> None:
    """Ask random queries of random neighbours; about every second one has a limit found."""
    sides.asked.clear()
    sides.searches = 0

    @settings(max_examples=examples)
    @given(related())
    def hold(case: Related) -> None:
        sides.require_promise(case)

    hold()
    if examples < 20:  # of few, too many may be refused by chance
        return
    assert sides.asked["answered"] > 6 * sides.asked["refused"], sides.asked
    assert 3 * sides.searches > sides.asked["answered"], (sides.searches, sides.asked)
