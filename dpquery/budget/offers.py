"""What a refused statement could ask for instead, as text to be pasted.

A pure function of charge and limits, as the refusal is (I6).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_DOWN, Decimal, localcontext
from fractions import Fraction

from dpquery.budget.accountant import RHO_UNIT, additive, basic
from dpquery.budget.charge import Charge
from dpquery.budget.standing import SHORT, Standing, root_below
from dpquery.events import BoundedRange, Composed, Concentrated, Event, Pure
from dpquery.privacy import EPSILON_MIN
from dpquery.source import Span
from dpquery.zcdp import rho_below

__all__ = ["asked_in", "offer"]

_PASTED_DIGITS = 12
"""Digits of the epsilon that a refusal offers: few enough to read, and cut, so that it fits."""

Limits = tuple[Sequence[Standing], Fraction | None]
"""The limits as they stand, and that of one query."""


def offer(charge: Charge, limits: Limits) -> tuple[str, ...]:
    """Give lines after `try:`; none where no epsilon would do.

    They hold the call under the caret, with the most that fits beside the others; or, where
    the others are too much already, the whole statement with all epsilons smaller.
    """
    calls, paid = charge.calls, charge.paid
    losses = [basic(events).epsilon for events in calls]
    dearest = losses.index(max(losses))
    others = tuple(e for n, events in enumerate(calls) if n != dearest for e in events)
    fitting = asked_in(calls[dearest]) * _factor(calls[dearest], others, limits)
    if (
        charge.retry is not None
        and fitting >= EPSILON_MIN
        and _scales(calls[dearest], paid[dearest])
    ):
        before, after = charge.retry
        beside = " beside the other calls" if basic(others).epsilon else ""
        written = _pasted(fitting + paid[dearest])
        return f"{before}{written}{after}", f"that is the most that fits{beside}"
    factor, spans = _factor(charge.events, (), limits), dict.fromkeys(charge.epsilons)
    if (
        not additive(charge.events).summed
        or any(paid)
        or len(spans) < 2
        or min(losses) * factor < EPSILON_MIN
    ):
        return ()
    text = charge.query
    for loss, span in sorted(zip(losses, spans, strict=True), key=_from_the_end):
        text = f"{text[: span.start]}{_pasted(loss * factor)}{text[span.end :]}"
    return *text.splitlines(), "that is the most that fits, in the same proportions"


def _scales(call: Sequence[Event], paid: Fraction) -> bool:
    """Say whether all releases of a call lose less in the same measure if it asks for less."""
    return not paid or len(set(call)) == 1


def asked_in(call: Sequence[Event]) -> Fraction:
    """Give what is written in a call: its epsilon, or its rho."""
    if all(isinstance(event, Concentrated) for event in call):
        return additive(call).rho
    return basic(call).epsilon


def _from_the_end(call: tuple[Fraction, Span]) -> int:
    return -call[1].start


def _factor(part: Sequence[Event], others: Sequence[Event], limits: Limits) -> Fraction:
    """Give the largest factor that the epsilons of a part may have; 0 where none may."""
    standings, cap = limits
    asked, beside = additive(part), additive(others)

    def kept(standing: Standing) -> Fraction:
        by_epsilon = Fraction(0)
        if asked.summed and beside.summed:
            by_epsilon = (standing.left_as_epsilon - beside.loss.epsilon) / asked.loss.epsilon
        return max(
            by_epsilon, _by_rho(part, max(standing.left_as_rho - beside.rho, Fraction(0)))
        )

    factors = [kept(standing) for standing in standings]
    if cap is not None:
        factors.append(_below_cap(part, max(cap - basic(others).epsilon, Fraction(0))))
    return max(Fraction(0), min(factors))


def _below_cap(part: Sequence[Event], room: Fraction) -> Fraction:
    match part:
        case [Concentrated(rho, _, delta)]:
            return rho_below(room, delta) / rho
    return room / basic(part).epsilon


def _by_rho(part: Sequence[Event], room: Fraction) -> Fraction:
    """Give the factor at which a part has a rho; 0 where that is not known."""
    if len(part) > 1:  # each share of a rho that is parted is rounded up, by less than a unit
        room = max(room - Fraction(len(part), RHO_UNIT), Fraction(0))
    ratio = room / additive(part).rho
    if all(isinstance(event, Concentrated) for event in part):
        return ratio
    return root_below(ratio, SHORT) if all(map(_quadratic, part)) else Fraction(0)


def _quadratic(event: Event) -> bool:
    """Say whether half of the epsilon is surely a quarter of the rho."""
    match event:
        case Pure() | BoundedRange():
            return True
        case Composed(parts):
            return all(_quadratic(part) for part in parts)
    return False


def _pasted(number: Fraction) -> str:
    """Write a positive number as a short decimal that is not above it.

    >>> _pasted(Fraction(13, 10)), _pasted(Fraction(2, 3)), _pasted(Fraction(1, 10**9))
    ('1.3', '0.666666666666', '0.000000001')
    """
    with localcontext(prec=_PASTED_DIGITS, rounding=ROUND_DOWN):
        cut = Decimal(number.numerator) / Decimal(number.denominator)
    return f"{cut.normalize():f}"
