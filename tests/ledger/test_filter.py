"""Which sums keep a limit: against every adaptive choice of questions, and against floats."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.budget.accountant import NOTHING, Spent, additive
from dpquery.budget.admission import require_within
from dpquery.budget.ledger.charge_and_receipt import Ceilings, Charge
from dpquery.budget.ledger.record import Total, Totals
from dpquery.budget.limits import Standing, root_below
from dpquery.core.privacy_events import Pure
from dpquery.core.privacy_loss import EPSILON_MAX, EPSILON_MIN, HALF, Ceiling, Loss
from dpquery.core.zcdp import epsilon_above, rho_below
from dpquery.errors import BudgetRefused
from tests.ledger.adversary import (
    Asked,
    Counts,
    approximate,
    both_ways,
    concentrated,
    pure,
    worst_delta,
)

ONE, DELTA = Fraction(1), Fraction(1, 10)
HALF_OF_DELTA = DELTA * HALF
MENUS = {
    "pure": [pure(1), pure(2), pure(5)],
    "pure and approximate": [pure(1), pure(3), approximate(1, HALF_OF_DELTA)],
    "all": [pure(1), pure(3), both_ways(2), approximate(1, HALF_OF_DELTA / 2)],
    "both ways": [pure(1), both_ways(1), approximate(1, HALF_OF_DELTA)],
    "in rho": [pure(1), concentrated(2), approximate(1, HALF_OF_DELTA)],
}
CEILING = Ceiling.of(Loss(ONE, DELTA), HALF)
CEILINGS = {"either": CEILING, "rho": Ceiling.in_rho(CEILING.rho, DELTA, HALF)}
"""Both allow an epsilon of 1."""


def spent(menu: Sequence[Asked], counts: Counts) -> Spent:
    total = NOTHING
    for asked, n in zip(menu, counts, strict=True):
        each = additive([asked.event])
        loss = Loss(n * each.loss.epsilon, n * each.loss.delta)
        total += Spent(loss, n * each.rho, each.summed or not n)
    return total


def ours(menu: Sequence[Asked], ceiling: Ceiling) -> Callable[[Counts, int], bool]:
    """The decision itself."""

    def admits(before: Counts, place: int) -> bool:
        charge = Charge((menu[place].event,), (), "")
        try:
            limits = Ceilings(ceiling)
            asked, before_it = additive(charge.events), Totals(Total(spent(menu, before)))
            require_within(charge, asked, limits, before_it)
        except BudgetRefused:
            return False
        return True

    return admits


@pytest.mark.parametrize("ceiling", CEILINGS)
@pytest.mark.parametrize("name", MENUS)
def test_no_choice_of_questions_passes_the_limit(name: str, ceiling: str) -> None:
    found = worst_delta(ONE, MENUS[name], ours(MENUS[name], CEILINGS[ceiling]))
    assert 0.1 < found / float(DELTA) <= 1


@settings(max_examples=10, deadline=None)
@given(
    st.lists(
        st.builds(pure, st.integers(2, 9))
        | st.builds(both_ways, st.integers(2, 4))
        | st.builds(approximate, st.integers(2, 4), st.just(DELTA / 4)),
        min_size=1,
        max_size=3,
    ),
    st.fractions(Fraction(1, 5), Fraction(3, 2)),
    st.fractions(0, 1),
)
def test_no_choice_from_any_menu_passes_any_limit(menu, epsilon, share) -> None:
    found = worst_delta(epsilon, menu, ours(menu, Ceiling.of(Loss(epsilon, DELTA), share)))
    assert found <= float(DELTA) + 1e-12


def test_converting_at_what_was_not_drawn_passes_the_limit() -> None:
    """A part that follows what was drawn is a choice path by path."""
    menu = [pure(1), pure(3), approximate(1, HALF_OF_DELTA)]

    def admits(before: Counts, place: int) -> bool:
        total = spent(menu, before) + additive([menu[place].event])
        rest = DELTA - total.loss.delta
        if rest < 0:
            return False
        return total.loss.epsilon <= 1 or (rest > 0 and total.rho <= rho_below(ONE, rest))

    assert worst_delta(ONE, menu, admits) > 1.08 * float(DELTA)


def test_a_delta_that_serves_twice_passes_the_limit() -> None:
    menu = [pure(1), pure(3), approximate(1, HALF_OF_DELTA)]

    def admits(before: Counts, place: int) -> bool:
        total = spent(menu, before) + additive([menu[place].event])
        keeps = total.loss.epsilon <= 1 or total.rho <= rho_below(ONE, DELTA)
        return keeps and total.loss.delta <= DELTA

    assert worst_delta(ONE, menu, admits) > 1.4 * float(DELTA)


def beyond(coins: int, each: float, epsilon: float) -> float:
    """The delta at an epsilon of so many coins of one loss each, exactly but for rounding."""
    heads = 1 / (1 + math.exp(-each))
    return math.fsum(
        math.comb(coins, n)
        * heads**n
        * (1 - heads) ** (coins - n)
        * max(0.0, -math.expm1(epsilon - each * (2 * n - coins)))
        for n in range(coins + 1)
    )


def test_the_smallest_total_path_by_path_is_no_filter() -> None:
    """One coin of 0.001; after heads a coin of 0.999, after tails 562 coins of 0.01.

    On each path, what was asked has a delta below 1e-6 at epsilon 1, by the exact law of its
    losses. Both together have 1.475e-6. With our rule the same strategy stays below 1e-6.
    """
    first, small = 0.001, 0.01
    heads = 1 / (1 + math.exp(-first))

    def path(coins: int, each: float) -> float:
        up, down = beyond(coins, each, 1 - first), beyond(coins, each, 1 + first)
        return heads * up + (1 - heads) * down

    def both(large: float, coins: int) -> float:
        up, down = beyond(1, large, 1 - first), beyond(coins, small, 1 + first)
        return heads * up + (1 - heads) * down

    large = 0.999002735
    assert path(1, large) < 1e-6
    assert path(562, small) < 1e-6
    assert 1.475e-6 < both(large, 562) < 1.477e-6

    limit = Standing("policy", Ceiling.of(Loss(ONE, Fraction(1, 10**6)), HALF), NOTHING)
    spent_first = additive([Pure(Fraction("0.001"))])
    cent = additive([Pure(Fraction("0.01"))])
    most = 0
    while limit.admits(spent_first + Spent(Loss(most * cent.loss.epsilon), most * cent.rho)):
        most += 1
    assert 100 < most < 562
    assert not limit.admits(spent_first + additive([Pure(Fraction("0.999002735"))]))
    assert limit.admits(spent_first + additive([Pure(Fraction("0.999"))]))
    assert both(0.999, most) < 1e-6


@given(
    st.fractions(EPSILON_MIN, EPSILON_MAX),
    st.integers(1, 400).map(lambda power: Fraction(1, 2**power)),
)
def test_the_rho_of_a_limit_converts_to_it_and_hardly_more_would(epsilon, delta) -> None:
    rho = rho_below(epsilon, delta)
    assert epsilon_above(rho, delta) <= epsilon * (1 + Fraction(1, 10**8))
    assert rho == 0 or epsilon_above(rho * Fraction(10**6 + 1, 10**6), delta) > epsilon * (
        1 - Fraction(1, 10**8)
    )


@given(st.fractions(0, 10**12), st.integers(1, 12))
def test_a_root_is_rounded_down_and_not_far(square, digits) -> None:
    root = root_below(square, digits)
    assert root**2 <= square <= (root * (1 + Fraction(2, 10 ** (digits - 1)))) ** 2
