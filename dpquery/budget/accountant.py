"""From events to loss.

An accountant is a pure function of the events alone: it reads no ledger, no clock and no
limits, and it refuses an event that it does not know. Numbers stay exact (I8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from dpquery.core.privacy_events import (
    Approximate,
    BoundedRange,
    Concentrated,
    Event,
    Gaussian,
    Pure,
    Refined,
    Release,
    releases,
)
from dpquery.core.privacy_loss import NO_LOSS, Loss
from dpquery.errors import internal

RHO_UNIT = 10**40
"""Rho is rounded up to a multiple of its inverse: sums of many fractions stay short."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What charges add up to, in each of the ways in which losses add up."""

    loss: Loss
    """Epsilons, and the deltas that events have of their own."""
    rho: Fraction = Fraction(0)
    """The same releases in zCDP, beside those deltas."""
    summed: bool = True
    """Whether each of them has an epsilon, so that these can be added up."""

    def __add__(self, other: Spent) -> Spent:
        summed = self.summed and other.summed
        return Spent(self.loss + other.loss, self.rho + other.rho, summed)


NOTHING = Spent(NO_LOSS)

Accountant = Callable[[Iterable[Event]], Spent]
"""Additive: what two lists spend is the sum of what each does, so that totals can be kept."""


def basic(events: Iterable[Event]) -> Loss:
    """Add up epsilons and deltas; valid also when each query is chosen after earlier answers.

    Of releases that were asked for in rho, it adds what that implies for each alone.

    >>> from fractions import Fraction
    >>> basic([Pure(Fraction(1, 2)), BoundedRange(Fraction(1, 2))])
    Loss(epsilon=Fraction(1, 1), delta=Fraction(0, 1))

    Raises:
        InternalError: an event is unknown, or would give loss back.
    """
    losses = (
        Loss(one.epsilon, one.delta) if isinstance(one, Concentrated) else _additive(one).loss
        for one in releases(events)
    )
    return sum(losses, NO_LOSS)


def additive(events: Iterable[Event]) -> Spent:
    """Add up epsilons, deltas and rho.

    A release whose log-likelihood ratio has a range of r is r^2/8-zCDP. For, under Q, the
    ratio has a cumulant generating function K with K(0) = K(1) = 0, and K'' is the variance of
    something of that range, r^2/4 at most; so K(a) <= a (a - 1) r^2/8. A pure release has a
    range of 2 epsilon at most. One with a delta is made of two: with probability delta
    anything, and else a pure one (Kairouz, Oh, Viswanath 2015). What refines an earlier release
    adds the difference of their epsilons, for the ratios of both multiply to that of the later
    one along each sequence of answers; its rho is that of its range, given the earlier one.

    >>> from fractions import Fraction
    >>> additive([Pure(Fraction(1, 2)), BoundedRange(Fraction(1, 2))]).rho
    Fraction(5, 32)

    Raises:
        InternalError: an event is unknown, or would give loss back.
    """
    return sum(map(_additive, releases(events)), NOTHING)


def _additive(release: Release) -> Spent:
    match release:
        case Pure(epsilon):
            return _spent(Loss(epsilon), epsilon**2 / 2)
        case BoundedRange(epsilon):
            return _spent(Loss(epsilon), epsilon**2 / 8)
        case Gaussian(rho, epsilon, delta):
            return _spent(Loss(epsilon, delta), rho)
        case Concentrated(rho):
            return replace(_spent(NO_LOSS, rho), summed=False)
        case Approximate(epsilon, delta):
            return _spent(Loss(epsilon, delta), epsilon**2 / 2)
        case Refined(before, after):
            return _spent(Loss(after - before), after**2 / 2)
        case _:
            raise internal("an accountant knows every event that it is given")


def _spent(loss: Loss, rho: Fraction) -> Spent:
    if loss.epsilon < 0 or loss.delta < 0 or rho < 0:
        raise internal("an event never gives loss back")
    return Spent(loss, Fraction(-(-rho * RHO_UNIT // 1), RHO_UNIT))


ACCOUNTANTS: Final[Mapping[str, Accountant]] = {"additive": additive}
"""By the name that a ledger keeps beside its totals."""
