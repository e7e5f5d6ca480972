"""The best that anybody can do against a rule: every adaptive choice from a menu, exactly.

Losses are multiples of a step, so that what has happened is known by how often each release
was asked and by the loss so far. Under P, stopping at a loss L leaves 1 - exp(epsilon - L) of
this path beyond what epsilon allows; the best strategy has the largest mean of that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from dpquery.core.privacy_events import Approximate, Concentrated, Event, Gaussian, Pure

STEP = Fraction(1, 10)
Counts = tuple[int, ...]


@dataclass(frozen=True)
class Asked:
    """A release that does as much harm as its event allows, and the outcomes it has under P."""

    event: Event
    outcomes: tuple[tuple[float, int], ...]
    """Probability, and loss in steps."""
    told: float = 0
    """The probability of an outcome that tells everything."""


def pure(steps: int) -> Asked:
    return Asked(Pure(steps * STEP), _coin(steps))


def approximate(steps: int, delta: Fraction) -> Asked:
    outcomes = tuple(((1 - float(delta)) * p, loss) for p, loss in _coin(steps))
    return Asked(Approximate(steps * STEP, delta), outcomes, float(delta))


def both_ways(steps: int) -> Asked:
    """Two coins at once: pure ones add their rho, and they are (epsilon, delta)-private too."""
    (heads, _), (tails, _) = _coin(steps)
    delta = heads**2 * -math.expm1(-float(steps * STEP))
    event = Gaussian(
        (steps * STEP) ** 2, steps * STEP, Fraction(math.ceil(delta * 10**9), 10**9)
    )
    twice = ((heads**2, 2 * steps), (2 * heads * tails, 0), (tails**2, -2 * steps))
    return Asked(event, twice)


def concentrated(steps: int) -> Asked:
    """The same, asked for in rho."""
    event = Concentrated((steps * STEP) ** 2, 2 * steps * STEP, Fraction(0))
    return Asked(event, both_ways(steps).outcomes)


def _coin(steps: int) -> tuple[tuple[float, int], ...]:
    heads = 1 / (1 + math.exp(-float(steps * STEP)))
    return (heads, steps), (1 - heads, -steps)


def worst_delta(
    epsilon: Fraction, menu: Sequence[Asked], admits: Callable[[Counts, int], bool]
) -> float:
    """Return the delta that the best strategy reaches; the rule sees counts, and the next."""
    admitted = lru_cache(None)(admits)

    @lru_cache(None)
    def best(counts: Counts, loss: int) -> float:
        found = max(0.0, -math.expm1(float(epsilon - loss * STEP)))
        for place, asked in enumerate(menu):
            more = (*counts[:place], counts[place] + 1, *counts[place + 1 :])
            if admitted(counts, place):
                after = sum(p * best(more, loss + moved) for p, moved in asked.outcomes)
                found = max(found, asked.told + after)
        return found

    return best((0,) * len(menu), 0)
