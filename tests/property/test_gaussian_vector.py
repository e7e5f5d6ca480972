"""Counts and sums of one Gaussian draw move by no more than the draw claims."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpquery.core.privacy_loss import Loss, Neighbours
from dpquery.core.source_text import Source
from dpquery.functions.gaussian_vector import VectorRelease
from dpquery.plan.plan import Plan, make_plan
from dpquery.policy.model import Policy
from dpquery.sql.binder import bind
from dpquery.sql.parse.parser import parse
from dpquery.sql.privacy_rules import check
from tests.neighbours import Drawn, Pair, require_bounded_move
from tests.property.test_neighbours import KINDS, by_duckdb, by_oracle, policies
from tests.strategies import pairs
from tests.worlds import NoPublicTables

PRICE = Loss(Fraction(1), Fraction(1, 10**3))
CALLS = (
    "COUNT(*)", "COUNT(i)", "COUNT_IF(b)", "COUNT_IF(i > 2)", "COUNT_IF(j < 3)", "SUM(i)",
    "SUM(m)", "SUM(d)", "SUM(j) FILTER (WHERE b)", "COUNT(*) FILTER (WHERE b AND i > 0)",
    "DP_COUNT(m, weight=3)", "DP_SUM(i + j, weight=2)", "COUNT(d)", "COUNT_IF(NOT b)", "AVG(i)",
)  # fmt: skip


def planned(policy: Policy, text: str) -> Plan:
    public = NoPublicTables()
    bound = bind(parse(Source(text)), policy, public, PRICE)
    return make_plan(check(bound, policy), policy, public)


@st.composite
def texts(draw: st.DrawFn) -> str:
    calls = draw(st.lists(st.sampled_from(CALLS), min_size=6, max_size=12, unique=True))
    where = draw(st.sampled_from(["", " WHERE b", " WHERE i > 3"]))
    group = draw(st.sampled_from(["", " GROUP BY k", " GROUP BY ROLLUP (k)"]))
    return f"SELECT {', '.join(calls)} FROM t{where}{group}"


@st.composite
def cases(draw: st.DrawFn) -> tuple[Pair, str, str, Neighbours, int]:
    kind, neighbours = draw(st.sampled_from(list(KINDS))), draw(st.sampled_from(Neighbours))
    one_row, unitless = kind in {"one row per unit", "rows are units"}, kind == "rows are units"
    pair = draw(pairs(neighbours, one_row, unitless))
    return pair, draw(texts()), kind, neighbours, draw(st.integers(0, 10**6))


ROW = {"i": 100, "b": True, "k": "a", "m": 1, "j": 0}
NULL = {"b": True, "k": "a"}
MANY = Pair([[ROW]], [[ROW], [ROW, NULL, ROW, NULL]], ([], [NULL]))
ALL = f"SELECT {', '.join(CALLS[:-1])} FROM t"


@settings(max_examples=10)
@given(cases())
@example((MANY, ALL, "weights", Neighbours.ADD_REMOVE, 1))
@example((MANY, f"{ALL} GROUP BY k", "limit 2", Neighbours.SUBSTITUTE, 1))
def test_draws_move_by_no_more_than_claimed(case: tuple[Pair, str, str, Neighbours, int]):
    require_promise(*case)


@pytest.mark.slow
@settings(max_examples=1000)
@given(cases())
def test_draws_move_by_no_more_than_claimed_at_length(
    case: tuple[Pair, str, str, Neighbours, int],
):
    require_promise(*case)


def moves(
    pair: Pair, text: str, kind: str, neighbours: Neighbours, seed: int
) -> list[list[Drawn]]:
    with policies(pair, kind, seed, neighbours, [text]) as sides:
        plan = planned(sides[0], text)
        found = [by_oracle(policy, plan) for policy in sides]
        assert by_duckdb(sides[0], [plan], 1 + seed % 8) == [found[0]]
        for frontier in plan.frontiers:
            charged = sum((one.release.epsilon for one in frontier.draws), Fraction(0))
            assert charged == sum(one.call.options.epsilon for one in frontier.releases)
    return found


def require_promise(
    pair: Pair, text: str, kind: str, neighbours: Neighbours, seed: int
) -> None:
    require_bounded_move(*moves(pair, text, kind, neighbours, seed))


def test_a_claim_of_less_is_caught():
    found = moves(MANY, ALL, "weights", Neighbours.ADD_REMOVE, 1)
    (drawn,) = (one.release for one in found[0] if isinstance(one.release, VectorRelease))
    small = Fraction(drawn.distance) / 8
    less = [
        [replace(one, release=replace(one.release, distance=small)) for one in side]
        for side in found
    ]
    with pytest.raises(AssertionError, match="was claimed"):
        require_bounded_move(*less)
