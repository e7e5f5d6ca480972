"""Events to loss."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.budget.accountant import ACCOUNTANTS, NOTHING, Spent, additive, basic
from dpquery.core.privacy_events import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    Gaussian,
    Pure,
    Refined,
    decode,
    encode,
)
from dpquery.core.privacy_loss import NO_LOSS, Loss
from dpquery.errors import InternalError

amounts = st.fractions(min_value=0, max_value=10)
events = st.recursive(
    st.builds(Pure, amounts)
    | st.builds(BoundedRange, amounts)
    | st.builds(Concentrated, amounts, amounts, amounts)
    | st.builds(Gaussian, amounts, amounts, amounts)
    | st.builds(Approximate, amounts, amounts)
    | st.builds(lambda before, more: Refined(before, before + more), amounts, amounts),
    lambda parts: st.builds(Composed, st.lists(parts, max_size=3).map(tuple)),
    max_leaves=6,
)


def test_basic_adds_epsilons_and_deltas_at_every_depth():
    tenth = Pure(Fraction(1, 10))
    noise = Gaussian(Fraction(1, 8), Fraction(1, 2), Fraction(1, 10**6))
    total = basic([tenth, Composed((noise, Composed((tenth, tenth))))])
    assert total == Loss(Fraction(8, 10), Fraction(1, 10**6))


def test_rho_is_what_each_kind_claims():
    tenth, millionth = Fraction(1, 10), Fraction(1, 10**6)
    each = {
        Pure(tenth): Fraction(1, 200),
        BoundedRange(tenth): Fraction(1, 800),
        Approximate(tenth, millionth): Fraction(1, 200),
        Refined(tenth, 3 * tenth): Fraction(9, 200),
        Gaussian(Fraction(3, 1000), tenth, millionth): Fraction(3, 1000),
    }
    assert [additive([event]).rho for event in each] == list(each.values())
    assert additive([Composed(tuple(each))]).rho == sum(each.values())


@given(events)
def test_rho_is_rounded_up_and_stays_short(event):
    rho, exact = additive([event]).rho, exactly(event)
    assert exact <= rho <= exact + 6 * Fraction(1, 10**40)
    assert 10**40 % rho.denominator == 0


def exactly(event):
    match event:
        case Composed(parts):
            return sum(map(exactly, parts))
        case Gaussian(rho) | Concentrated(rho):
            return rho
        case BoundedRange(epsilon):
            return epsilon**2 / 8
        case Refined(_, after):
            return after**2 / 2
    return event.epsilon**2 / 2


def test_what_was_asked_for_in_rho_has_no_epsilon_to_add_up():
    noise = Concentrated(Fraction(1, 200), Fraction(1, 2), Fraction(1, 10**6))
    spent = additive([Pure(Fraction(1)), Composed((noise,))])
    assert spent == Spent(Loss(Fraction(1)), Fraction(101, 200), summed=False)
    assert basic([noise, noise]) == Loss(Fraction(1), Fraction(2, 10**6))


@given(events)
def test_every_event_is_read_as_it_was_written(event):
    assert decode(encode(event)) == event


def test_nothing_loses_nothing():
    assert basic([]) == basic([Composed(())]) == NO_LOSS
    assert additive([]) == NOTHING


def test_an_unknown_event_is_refused():
    with pytest.raises(InternalError, match="knows every event"):
        basic([Pure(Fraction(1)), object()])


@pytest.mark.parametrize(
    "event",
    [
        Pure(Fraction(-1)),
        BoundedRange(Fraction(-1)),
        Gaussian(Fraction(1), Fraction(1), Fraction(-1)),
        Gaussian(Fraction(-1), Fraction(1), Fraction(0)),
        Approximate(Fraction(1), Fraction(-1)),
        Refined(Fraction(2), Fraction(1)),
    ],
)
def test_an_event_never_gives_loss_back(event):
    with pytest.raises(InternalError, match="never gives loss back"):
        basic([Pure(Fraction(5)), Composed((event,))])


@pytest.mark.parametrize("accountant", ACCOUNTANTS.values(), ids=ACCOUNTANTS)
@given(first=st.lists(events, max_size=4), second=st.lists(events, max_size=4))
def test_every_accountant_with_a_total_is_additive(accountant, first, second):
    assert accountant(first + second) == accountant(first) + accountant(second)
