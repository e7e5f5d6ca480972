"""What charges have lost, as each accountant puts it: for reading, and never for deciding.

The tightest number, from privacy loss distributions (PLD), holds for questions that were fixed
beforehand. A limit on it would be passed by questions that follow from answers, as would one on
the smallest of the three (`standing.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context
from fractions import Fraction

from dpquery.budget.accountant import additive, basic
from dpquery.ceilings import Ceiling
from dpquery.events import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    Gaussian,
    Pure,
    Refined,
)
from dpquery.privacy import Loss, decimal_text
from dpquery.zcdp import epsilon_above

__all__ = ["COLUMNS", "Reported", "reported", "row"]

COLUMNS = ("of", "charges", "epsilon", "zcdp", "pld", "delta")
"""Whose, how many, the three epsilons, and the delta of the last two."""

CELLS = 200_000
"""The most steps that the sum of all epsilons has: what a distribution takes of memory."""
FINEST = Fraction(1, 10**4)
LARGEST = 500
"""Above, a claim says next to nothing, and its exponential is no double."""
SHORT = Context(prec=6, rounding=ROUND_CEILING)


@dataclass(frozen=True, slots=True)
class Reported:
    """The epsilon of some charges, by each accountant that can tell."""

    summed: Loss
    """Epsilons and deltas added up; of what was asked for in rho, what it comes to alone."""
    concentrated: Fraction | None
    """Rho added up and converted; None without a delta."""
    distributed: Fraction | None
    """By the distributions of losses; None without a delta, or where it is used up."""
    delta: Fraction
    """The delta of the last two: what was drawn, and what is kept for conversion."""


def reported(events: Iterable[Event], ceiling: Ceiling) -> Reported:
    """Account for charges under a limit, whose delta is the one that is spoken of."""
    charged = tuple(events)
    spent = additive(charged)
    delta = spent.loss.delta + ceiling.converted
    if not ceiling.converted:
        return Reported(basic(charged), None, None, delta)
    converted = epsilon_above(spent.rho, ceiling.converted)
    return Reported(basic(charged), converted, _distributed(charged, delta), delta)


def row(
    name: str, charges: Sequence[tuple[Event, ...]], ceiling: Ceiling
) -> tuple[str | None, ...]:
    """Write what some charges lose, as texts below `COLUMNS`."""
    found = reported((event for events in charges for event in events), ceiling)
    numbers = (found.summed.epsilon, found.concentrated, found.distributed, found.delta)
    texts = (None if number is None else decimal_text(number) for number in numbers)
    return name, str(len(charges)), *texts


def _distributed(events: tuple[Event, ...], delta: Fraction) -> Fraction | None:
    """Compose the worst law that each claim allows; its floats are rounded to the safe side.

    That is two outcomes for a pure release, which a count of single rows attains, and a third
    one that tells everything for a release with a delta.
    """
    from dp_accounting.pld import common, privacy_loss_distribution

    claims = Counter(_claims(events)) - Counter(_replaced(events))
    if not claims:
        return Fraction(0)
    summed = sum((loss.epsilon * number for loss, number in claims.items()), Fraction(0))
    least, most = (choose(loss.epsilon for loss in claims) for choose in (min, max))
    if most > LARGEST:
        return summed
    step = float(max(summed / CELLS, min(FINEST, least / 4)))
    whole = privacy_loss_distribution.identity(step)
    for loss, number in claims.items():
        claim = common.DifferentialPrivacyParameters(float(loss.epsilon), float(loss.delta))
        law = privacy_loss_distribution.from_privacy_parameters(claim, step)
        whole = whole.compose(law.self_compose(number))
    epsilon = whole.get_epsilon_for_delta(float(delta))
    if epsilon == float("inf"):
        return None
    return min(summed, Fraction(SHORT.create_decimal_from_float(epsilon)))


def _claims(events: Iterable[Event]) -> Iterator[Loss]:
    for event in events:
        match event:
            case Pure(epsilon) | BoundedRange(epsilon):
                yield Loss(epsilon)
            case (
                Gaussian(_, epsilon, delta)
                | Concentrated(_, epsilon, delta)
                | Approximate(epsilon, delta)
            ):
                yield Loss(epsilon, delta)
            case Refined(_, after):
                yield Loss(after)
            case Composed(parts):
                yield from _claims(parts)


def _replaced(events: Iterable[Event]) -> Iterator[Loss]:
    """Give the claims of releases that were refined: they are part of what refines them."""
    for event in events:
        match event:
            case Refined(before, _):
                yield Loss(before)
            case Composed(parts):
                yield from _replaced(parts)
