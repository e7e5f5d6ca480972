"""Calls that ask for an error: the least epsilon that keeps to it, and what another one buys.

Both are found by bisection over the mechanism's own law at the sensitivity of the plan, so they
follow from query and policy alone; no row is looked at. What is found has three significant
digits, rounded to the dear side: at most 1 % above the least that would do, and short to read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import ceil

from dpquery.core.privacy_loss import EPSILON_MAX, EPSILON_MIN, decimal_text
from dpquery.errors import PlanRefused, QueryRefused, refusal
from dpquery.functions.base import Facts, without_option
from dpquery.ir.query import Call
from dpquery.plan.auto_bounds import planned, with_options

_FIRST, _LAST = 100, 1000
"""The first of the numbers of three digits, and the one after the last."""


def priced(call: Call, facts: Facts) -> Call:
    """Return a call that asks for an error with the least epsilon that keeps to it.

    Raises:
        PlanRefused: DPQ404 none does, or of no law is known whether it does; what the function
            refuses at any epsilon.
    """
    wanted = call.options.wanted
    if wanted is None:
        return call
    if planned(call, facts).meets(wanted) is None:
        raise _unknown(call)

    def meets(epsilon: Fraction) -> bool:
        try:
            return bool(planned(with_options(call, epsilon=epsilon), facts).meets(wanted))
        except PlanRefused:  # too large an epsilon to be drawn at
            return False

    found = least(meets, EPSILON_MIN, EPSILON_MAX)
    if found is None:
        raise _unreachable(call)
    return with_options(call, epsilon=found)


def error_bought(call: Call, facts: Facts) -> Callable[[Fraction], Fraction | None]:
    """Return what gives the least error that an epsilon at most buys in place of a call's."""
    wanted = call.options.wanted
    assert wanted is not None  # noqa: S101 - it asks for one

    def bought(epsilon: Fraction) -> Fraction | None:
        paid = digits_below(epsilon)
        if paid < EPSILON_MIN:
            return None
        release = planned(with_options(call, epsilon=paid), facts)

        def meets(error: Fraction) -> bool:
            return bool(release.meets(replace(wanted, error=error)))

        return least(meets, wanted.error, wanted.error * EPSILON_MAX)

    return bought


def least(meets: Callable[[Fraction], bool], low: Fraction, high: Fraction) -> Fraction | None:
    """Return the least number of three digits that meets; None if none from low to high does.

    >>> least(lambda number: number * 3 >= 1, Fraction(1, 10**9), Fraction(10**9))
    Fraction(167, 500)
    """
    power = _power(low)
    while not meets(_last_of(power)):
        power += 1
        if Fraction(10) ** power * _FIRST >= high:
            return None
    below, above = _FIRST - 1, _LAST
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (
            (below, middle) if meets(middle * Fraction(10) ** power) else (middle, above)
        )
    return above * Fraction(10) ** power


def _last_of(power: int) -> Fraction:
    return _LAST * Fraction(10) ** power


def _power(number: Fraction) -> int:
    """Return at which power of ten a number has three digits before the point."""
    power = 0
    while number >= _last_of(power):
        power += 1
    while number < Fraction(10) ** power * _FIRST:
        power -= 1
    return power


def digits_below(number: Fraction) -> Fraction:
    """Return the largest number of three digits that is not above a positive one.

    >>> digits_below(Fraction(2, 3)), digits_below(Fraction(12345))
    (Fraction(333, 500), Fraction(12300, 1))
    """
    unit = Fraction(10) ** _power(number) if number > 0 else Fraction(1)
    return number // unit * unit


def _unknown(call: Call) -> QueryRefused:
    options, name = call.options, call.options.mechanism
    why = "an epsilon is found from the law of the error, and here the data decide it too."
    beside = f"{without_option(call, options.epsilon_span).removesuffix(')')}, eps=0.5)"
    offered = beside if name is None else without_option(call, options.mechanism_span)
    label = "no law of the error" if name is None else f"no law of the error with '{name}'"
    return refusal(
        "DPQ404",
        f"{call.function} cannot be asked for an error here",
        options.mechanism_span or options.epsilon_span,
        label,
        why,
        offered,
    )


def _unreachable(call: Call) -> QueryRefused:
    wanted = call.options.wanted
    assert wanted is not None  # noqa: S101 - it asks for an error
    larger = decimal_text(Fraction(ceil(wanted.error * 10)))
    return refusal(
        "DPQ404",
        f"no eps keeps {call.function} within {decimal_text(wanted.error)}",
        call.options.epsilon_span,
        "too little for any noise",
        "what rounding takes is more than this, or no eps that can be spent is large enough.",
        call.changed(call.options.epsilon_span, larger),
    )
