"""Numbers of one column that are read from one draw move by no more than the draw claims."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpquery.core.privacy_loss import Loss, Neighbours
from dpquery.core.source_text import Source
from dpquery.functions.moments.joint_draw import JointRelease
from dpquery.plan.plan import Plan, make_plan
from dpquery.policy.model import Policy
from dpquery.sql.binder import bind
from dpquery.sql.parse.parser import parse
from dpquery.sql.privacy_rules import check
from tests.neighbours import Pair, require_bounded_move
from tests.property.test_neighbours import KINDS, by_duckdb, by_oracle, policies
from tests.strategies import pairs
from tests.worlds import NoPublicTables

CALLS = ("COUNT(*)", "COUNT({0})", "SUM({0})", "AVG({0})", "STDDEV({0})", "VAR_POP({0})")


def planned(policy: Policy, text: str, price: Fraction = Fraction(1)) -> Plan:
    public = NoPublicTables()
    bound = bind(parse(Source(text)), policy, public, Loss(price))
    return make_plan(check(bound, policy), policy, public)


@st.composite
def texts(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(["i", "m", "j", "d", "i + j"]))
    calls = draw(st.lists(st.sampled_from(CALLS), min_size=2, max_size=5, unique=True))
    others = draw(st.lists(st.sampled_from(["MEDIAN(i)", "AVG(m)", "COUNT(DISTINCT j)"])))
    listed = ", ".join(one.format(column) for one in (*calls, *others))
    where = draw(st.sampled_from(["", " WHERE b", " WHERE i > 3"]))
    group = draw(st.sampled_from(["", " GROUP BY k", " GROUP BY ROLLUP (k)"]))
    return f"SELECT {listed} FROM t{where}{group}"


@st.composite
def cases(draw: st.DrawFn) -> tuple[Pair, str, str, Neighbours, int]:
    kind, neighbours = draw(st.sampled_from(list(KINDS))), draw(st.sampled_from(Neighbours))
    one_row, unitless = kind in {"one row per unit", "rows are units"}, kind == "rows are units"
    pair = draw(pairs(neighbours, one_row, unitless))
    return pair, draw(texts()), kind, neighbours, draw(st.integers(0, 10**6))


ROW: dict[str, Any] = {"i": 100, "b": True, "k": "a"}
NULL: dict[str, Any] = {"b": True, "k": "a"}
ALL = "SELECT COUNT(*), COUNT(i), SUM(i), AVG(i), STDDEV(i) FROM t"
MANY = Pair([[ROW]], [[ROW], [ROW, NULL, ROW, NULL]], ([], [NULL]))


@settings(max_examples=15)
@given(cases())
@example((MANY, ALL, "weights", Neighbours.ADD_REMOVE, 1))
@example((MANY, f"{ALL} GROUP BY k", "limit 2", Neighbours.SUBSTITUTE, 1))
def test_draws_move_by_no_more_than_claimed(
    case: tuple[Pair, str, str, Neighbours, int],
):
    require_promise(*case)


@pytest.mark.slow
@settings(max_examples=1000)
@given(cases())
def test_draws_move_by_no_more_than_claimed_at_length(
    case: tuple[Pair, str, str, Neighbours, int],
):
    require_promise(*case)


def require_promise(
    pair: Pair, text: str, kind: str, neighbours: Neighbours, seed: int
) -> None:
    with policies(pair, kind, seed, neighbours, [text]) as sides:
        plan = planned(sides[0], text)
        found = [by_oracle(policy, plan) for policy in sides]
        assert by_duckdb(sides[0], [plan], 1 + seed % 8) == [found[0]]
        require_bounded_move(*found)
        given = {id(one.release): one.given for one in found[0]}
        for frontier in plan.frontiers:
            charged = sum((one.release.epsilon for one in frontier.draws), Fraction(0))
            assert charged == sum(one.call.options.epsilon for one in frontier.releases)
            for one in frontier.releases:  # what is read is what was drawn
                if one.drawn_by is not None:
                    assert isinstance(one.release, JointRelease)
                    drawn = frontier.releases[one.drawn_by].release
                    assert given[id(one.release)] == given[id(drawn)]


def test_a_claim_of_less_is_caught():
    with policies(MANY, "limit 2", 1, Neighbours.ADD_REMOVE, [ALL]) as sides:
        plan = planned(sides[0], ALL)
        (drawn,) = plan.frontiers[0].draws
        small = int(drawn.release.distance) // 4
        found = [
            [replace(one, release=replace(one.release, distance=small)) for one in side]
            for side in (by_oracle(policy, plan) for policy in sides)
        ]
        with pytest.raises(AssertionError, match="was claimed"):
            require_bounded_move(*found)
