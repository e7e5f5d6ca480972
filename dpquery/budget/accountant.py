"""From events to loss.

An accountant is a pure function of the events alone: it reads no ledger, no clock and no
limits, and it refuses an event that it does not know. Numbers stay exact (I8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from dpquery.errors import internal
from dpquery.events import Approximate, Composed, Event, Gaussian, Pure
from dpquery.privacy import NO_LOSS, Loss

__all__ = ["ACCOUNTANTS", "Accountant", "basic"]

Accountant = Callable[[Iterable[Event]], Loss]
"""Additive: the loss of two lists is the sum of their losses, so that totals can be kept."""


def basic(events: Iterable[Event]) -> Loss:
    """Add up epsilons and deltas; valid also when each query is chosen after earlier answers.

    >>> from fractions import Fraction
    >>> basic([Pure(Fraction(1, 2)), Composed((Pure(Fraction(1, 4)), Pure(Fraction(1, 4))))])
    Loss(epsilon=Fraction(1, 1), delta=Fraction(0, 1))

    Raises:
        InternalError: an event is unknown, or would give loss back.
    """
    return sum((_basic(event) for event in events), NO_LOSS)


def _basic(event: Event) -> Loss:
    match event:
        case Pure(epsilon):
            return _spent(Loss(epsilon))
        case Gaussian(_, epsilon, delta) | Approximate(epsilon, delta):
            return _spent(Loss(epsilon, delta))
        case Composed(parts):
            return basic(parts)
        case _:
            raise internal("an accountant knows every event that it is given")


def _spent(loss: Loss) -> Loss:
    if loss.epsilon < 0 or loss.delta < 0:
        raise internal("an event never gives loss back")
    return loss


ACCOUNTANTS: Final[Mapping[str, Accountant]] = {"basic": basic}
"""By the name that a ledger keeps beside its totals."""
