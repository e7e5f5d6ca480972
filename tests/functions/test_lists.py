"""Lists of quantiles as planned releases: their exact laws on all small tables, and the plan.

No sampling in the laws: the largest log-ratio between neighbours is at most epsilon and at
least what is known to be attained.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import combinations

import pytest

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import INTEGER
from dpquery.errors import NameRefused, PlanRefused
from dpquery.functions.order_statistics.quantile import QuantilesRelease
from dpquery.ir.query import Call
from dpquery.ir.sensitivity import sensitivity
from tests.functions.tables import (
    ADD_REMOVE,
    ALONE,
    SUBSTITUTE,
    Held,
    Vector,
    World,
    call,
    column,
    plan,
    vectors,
)
from tests.mechanisms.joint_laws import JointLaw, apart
from tests.mechanisms.sources import Seeded

QUARTILES = ("0.25", "0.5", "0.75")
CODES = (None, 0, 1, 2)
WORLDS = {
    "ungrouped": World(CODES),
    "limit 1": World(CODES, 1, 1, True),
    "limit 2": World(CODES, 1, 2, True),
    "two groups": World((0, 1, 2), 2),
    "two groups, limit 2": World((0, 1), 2, 2, True),
}
ROWS = {"ungrouped": 4, "two groups": 2, "two groups, limit 2": 1}
SMALL = {
    "recursive": lambda mechanism: replace(mechanism, spread=1),
    "independent": lambda mechanism: mechanism,
    "histogram": lambda mechanism: mechanism,
    "joint": lambda mechanism: mechanism,
    "smoothed_joint": lambda mechanism: replace(mechanism, spread=1),
}
"""As they are planned, but for grids so fine that their laws could not be written down."""


def release(name: str, relation: Neighbours, mechanism: str) -> QuantilesRelease:
    world = WORLDS[name]
    asked = call("DP_QUANTILE", world.argument, order=QUARTILES, mechanism=mechanism)
    found = plan(asked, world.facts(relation))
    assert isinstance(found, QuantilesRelease)
    return found


@cache
def handed(name: str) -> list[list[Vector]]:
    """What a list reads of each table, with each unit added to it."""
    of_any = release(name, ADD_REMOVE, "recursive")
    return list(vectors(of_any, WORLDS[name], ROWS.get(name, 2)))


def loss(name: str, relation: Neighbours, mechanism: str) -> float:
    """The largest log-ratio over all neighbours; the laws of groups multiply."""
    drawn = SMALL[mechanism](release(name, relation, mechanism).mechanism)
    groups = WORLDS[name].groups

    @cache
    def law(weights: Vector) -> JointLaw:
        return drawn.pmf(weights)

    def pairs(tables: list[Vector]) -> set[tuple[Vector, Vector]]:
        if relation is SUBSTITUTE:
            return set(combinations(sorted(set(tables)), 2))
        return {(tables[0], other) for other in tables}

    def between(one: Vector, other: Vector) -> float:
        size = len(one) // groups
        parts = (
            (one[at : at + size], other[at : at + size]) for at in range(0, len(one), size)
        )
        return sum(apart(law(a), law(b)) for a, b in parts)

    return max(between(*pair) for tables in handed(name) for pair in pairs(tables))


ATTAINED = {
    "histogram": {"ungrouped": 0.1, "two groups": 0.1},
    "recursive": {"ungrouped": 0.45, "limit 1": 0.39, "limit 2": 0.34, "two groups": 0.37,
                  "two groups, limit 2": 0.19},
    "independent": {"ungrouped": 0.4, "limit 1": 0.35, "limit 2": 0.3, "two groups": 0.3,
                    "two groups, limit 2": 0.1},
    "joint": {"ungrouped": 0.49, "limit 1": 0.37, "limit 2": 0.31, "two groups": 0.3,
              "two groups, limit 2": 0.15},
    "smoothed_joint": {"ungrouped": 0.52, "limit 1": 0.41, "limit 2": 0.34,
                       "two groups": 0.25, "two groups, limit 2": 0.17},
}  # fmt: skip
"""By at least one pair of so few cells and rows, under either relation. The law of noisy
thresholds is written down for rows without weights only: it is as wide as they are heavy."""


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize(
    ("mechanism", "name"), [(kind, name) for kind in SMALL for name in ATTAINED[kind]]
)
def test_a_list_loses_at_most_its_epsilon(
    mechanism: str, name: str, relation: Neighbours
) -> None:
    assert ATTAINED[mechanism][name] <= loss(name, relation, mechanism) <= 1 + 1e-12


def single_even_if_replaced(measure: object, neighbours: Neighbours, *, grouped: bool) -> int:
    """The sensitivity of added and removed rows under either relation."""
    return sensitivity(measure, ADD_REMOVE, grouped=False)


@pytest.mark.parametrize("name", ["ungrouped", "two groups"])
def test_the_distance_of_added_rows_fails_for_replaced_ones(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = loss(name, SUBSTITUTE, "recursive")
    monkeypatch.setattr(
        "dpquery.functions.order_statistics.quantile.sensitivity", single_even_if_replaced
    )
    assert loss(name, SUBSTITUTE, "recursive") > max(0.85, 1.8 * right)


@pytest.mark.parametrize("kind", ["joint", "smoothed_joint"])
@pytest.mark.parametrize("name", ["ungrouped", "two groups"])
def test_the_move_of_added_rows_fails_for_replaced_ones(
    kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The median alone, of which a replaced row costs twice as much as an added one."""
    right = release(name, SUBSTITUTE, kind).mechanism.move
    added = release(name, ADD_REMOVE, kind).mechanism.move
    assert right > added
    monkeypatch.setattr(
        "dpquery.functions.order_statistics.quantile.joint_move", lambda *_, **__: added / 2
    )
    assert loss(name, SUBSTITUTE, kind) > 1


@pytest.mark.parametrize("relation", Neighbours)
def test_the_event_is_one_charge_for_the_list_and_all_groups(relation: Neighbours) -> None:
    for name in WORLDS:
        assert release(name, relation, "recursive").event().epsilon == 1


def test_values_stand_in_the_order_that_was_asked_for_and_repeat() -> None:
    asked = call("DP_QUANTILE", column(INTEGER, 0, 100), order=("0.9", "0.1", "0.5", "0.1"))
    found = plan(replace(asked, options=replace(asked.options, epsilon=Fraction(50))), ALONE)
    rows = tuple(((0, value),) for value in range(101))
    held = Held(World((0, 100)), rows)
    high, low, middle, again = found.run(held, Seeded(3))[0].value
    assert low == again
    assert (low, middle, high) == pytest.approx((10, 50, 90), abs=8)


def test_the_planner_says_why_and_only_where_it_chose() -> None:
    argument = column(INTEGER, 0, 100)
    chosen = plan(call("DP_QUANTILE", argument, order=QUARTILES), ALONE).step()
    assert chosen.mechanism == "fitted"
    assert chosen.why
    named = call("DP_QUANTILE", argument, order=QUARTILES, mechanism="fitted")
    assert not plan(named, ALONE).step().why


@pytest.mark.parametrize(
    ("count", "groups", "expected"),
    [(1, 1, "recursive"), (2, 72, "fitted"), (2, 73, "recursive"), (16, 9, "fitted"),
     (16, 10, "recursive"), (17, 1, "recursive")],
)  # fmt: skip
def test_a_short_list_of_few_groups_is_fitted(count: int, groups: int, expected: str) -> None:
    orders = [Fraction(k, count + 1) for k in range(1, count + 1)]
    asked = call("DP_QUANTILE", column(INTEGER, 0, 100), order=orders)
    facts = replace(ALONE, cells=groups, grouped=groups > 1)
    assert plan(asked, facts).step().mechanism == expected


@pytest.mark.parametrize(
    ("order", "mechanism", "kind"),
    [("0.5", "recursive", "order"), (QUARTILES, "quantile", "list")],
)
def test_a_mechanism_for_the_other_question_is_refused(
    order: object, mechanism: str, kind: str
) -> None:
    asked = call("DP_QUANTILE", column(INTEGER, 0, 9), order=order, mechanism=mechanism)
    with pytest.raises(NameRefused, match=kind) as refused:
        plan(asked, ALONE)
    assert refused.value.code == "DPQ205"


def test_more_draws_than_scans_can_be_waited_for_are_refused() -> None:
    asked = call("DP_QUANTILE", column(INTEGER, 0, 9), order=QUARTILES)
    assert plan(asked, replace(ALONE, cells=1365, grouped=True))
    with pytest.raises(PlanRefused, match="1,365 groups"):
        plan(asked, replace(ALONE, cells=1366, grouped=True))


@pytest.mark.parametrize(
    ("count", "groups", "most"), [(16, 1, 17), (9, 16, 17), (1, 144, 145), (16, 9, 10)]
)
@pytest.mark.parametrize("mechanism", ["joint", "smoothed_joint", "fitted"])
def test_more_quantiles_than_can_be_drawn_together_are_refused(
    mechanism: str, count: int, groups: int, most: int
) -> None:
    facts = replace(ALONE, cells=groups, grouped=groups > 1)
    more = replace(facts, cells=most, grouped=True) if groups > 1 else facts

    def asked(count: int) -> Call:
        orders = [Fraction(k, count + 1) for k in range(1, count + 1)]
        return call("DP_QUANTILE", column(INTEGER, 0, 9), order=orders, mechanism=mechanism)

    assert plan(asked(count), facts)
    with pytest.raises(PlanRefused, match="quantiles together") as refused:
        plan(asked(count if groups > 1 else most), more)
    assert refused.value.code == "DPQ404"


def test_lists_that_would_be_fitted_slowly_are_not() -> None:
    def asked(count: int, epsilon: str, mechanism: str | None) -> Call:
        orders = [Fraction(k, count + 1) for k in range(1, count + 1)]
        found = call("DP_QUANTILE", column(INTEGER, 0, 9), order=orders, mechanism=mechanism)
        return replace(found, options=replace(found.options, epsilon=Fraction(epsilon)))

    for count, epsilon, expected in (
        (9, "100", "fitted"),
        (9, "100.1", "recursive"),
        (10, "10", "fitted"),
        (10, "10.1", "recursive"),
    ):
        assert plan(asked(count, epsilon, None), ALONE).step().mechanism == expected
    assert plan(asked(10, "10.1", "joint"), ALONE)
    for count, epsilon, most in ((9, "100.1", 100), (10, "10.1", 10)):
        with pytest.raises(PlanRefused, match=f"up to an eps of {most}") as refused:
            plan(asked(count, epsilon, "fitted"), ALONE)
        assert refused.value.code == "DPQ404"


def test_a_grid_of_more_than_2_to_the_63_is_refused() -> None:
    asked = call("DP_QUANTILE", column(INTEGER, -(2**63), 2**63 - 1), order=QUARTILES)
    with pytest.raises(PlanRefused, match="too many values"):
        plan(asked, ALONE)


@pytest.mark.parametrize("count", [2, 9, 64])
def test_weights_leave_scores_of_every_part_in_64_bits(count: int) -> None:
    facts = World(CODES, 1, 5, True).facts(ADD_REMOVE)
    orders = [Fraction(k, count + 1) for k in range(1, count + 1)]
    asked = call("DP_QUANTILE", column(INTEGER, 0, 9), order=orders, mechanism="recursive")
    found = plan(asked, facts)
    largest = max(draw.order.denominator for draw in found.mechanism.plan)
    assert largest * found.mechanism.max_weight < 2**62
    assert found.measure.weight.scale >= 2**16


@pytest.mark.parametrize(
    ("count", "cells", "expected"),
    [
        (64, 2**16, "recursive"),
        (65, 2**16, "tree"),
        (99, 2**16 + 1, "recursive"),
        (99, 2**40, "recursive"),
        (999, 2**40, "recursive"),
        (999, 100, "tree"),
    ],
)
def test_a_tree_is_the_default_only_where_it_has_a_leaf_for_each_value(
    count: int, cells: int, expected: str
) -> None:
    orders = [Fraction(k, count + 1) for k in range(1, count + 1)]
    argument = column(INTEGER, 0, cells - 1)
    found = plan(call("DP_QUANTILE", argument, order=orders), ALONE)
    assert found.step().mechanism == expected
    assert found.event().epsilon == 1
    assert expected == "recursive" or found.mechanism.width == 1


def test_many_quantiles_of_many_groups_are_read_from_a_tree_that_says_what_it_misses() -> None:
    argument = column(INTEGER, 0, 10**9)
    orders = [Fraction(k, 66) for k in range(1, 66)]
    grouped = plan(
        call("DP_QUANTILE", argument, order=orders), replace(ALONE, cells=4096, grouped=True)
    )
    assert grouped.mechanism.leaves == 1024
    assert grouped.step().expected_error == (
        "about 27 ranks each, and beside them what a range of 1,048,576 values holds"
    )


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("name", WORLDS)
def test_a_tree_loses_exactly_its_epsilon_at_the_farthest(
    name: str, relation: Neighbours
) -> None:
    """The histograms of all groups move by the distance at most, and some pair does."""
    found, farthest = release(name, relation, "tree"), 0
    for tables in handed(name):
        pairs = (
            combinations(tables, 2)
            if relation is SUBSTITUTE
            else ((tables[0], other) for other in tables)
        )
        for pair in pairs:
            farthest = max(farthest, sum(abs(a - b) for a, b in zip(*pair, strict=True)))
    scale = release(name, ADD_REMOVE, "recursive").measure.weight.scale
    moved = Fraction(farthest * found.measure.weight.scale, scale)
    assert Fraction(1, 2) < found.mechanism.loss(moved).epsilon <= 1


def test_explain_speaks_of_rows_and_not_of_weights() -> None:
    facts = World(CODES, 1, 5, True).facts(SUBSTITUTE)
    found = plan(call("DP_QUANTILE", column(INTEGER, 0, 9), order=QUARTILES), facts)
    assert found.step().sensitivity == "10 rows"
    assert found.step().noise_scale == "10 ranks"
