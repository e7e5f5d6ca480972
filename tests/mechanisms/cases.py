"""Parameters under which every registered mechanism is examined.

A new additive mechanism is registered in `dpquery.mechanisms` and given its entry here; every
test of the conformance suite then takes it. One of another kind is held to headings, losses and
events there, and to its law in a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from dpquery.mechanisms import ADDITIVE, AdditiveNoise, DiscreteGaussian, DiscreteLaplace

W = 2**32
DELTA = Fraction(1, 10**6)
UNEVEN = Fraction(123456789, 10**9)
WRONG_SPREADS = (Fraction(1, 2), Fraction(7, 10), Fraction(13, 10), Fraction(2))
"""What a wrong calibration multiplies the spread of the noise by."""


@dataclass(frozen=True)
class Case:
    """How to make a mechanism, and spreads that reach each path of its code."""

    calibrated: Callable[[Fraction | int, Fraction], AdditiveNoise]
    """From sensitivity and epsilon."""
    of_spread: Callable[[Fraction], AdditiveNoise]
    small: tuple[Fraction, ...]
    """With few enough likely values for their laws to be written down."""
    large: tuple[Fraction, ...]


def _gaussian(spread: Fraction) -> DiscreteGaussian:
    return DiscreteGaussian(spread**2, Fraction(1, 10**6), Fraction(10**9), DELTA)


CASES: dict[type, Case] = {
    DiscreteLaplace: Case(
        calibrated=DiscreteLaplace.calibrated,
        of_spread=DiscreteLaplace,
        # the last one has a numerator of two digits: Python's integers take over
        small=(Fraction(7), Fraction(17, 3), Fraction(2**66 + 1, 2**63 - 1)),
        large=(Fraction(W), W / UNEVEN, 10 * W * 30_000_000 / UNEVEN, Fraction(2**70)),
    ),
    DiscreteGaussian: Case(
        calibrated=lambda distance, epsilon: DiscreteGaussian.calibrated(
            distance, epsilon, DELTA
        ),
        of_spread=_gaussian,
        small=(Fraction(9), Fraction(20, 3), Fraction(10**13 + 1, 10**12)),
        large=(Fraction(1000), W / UNEVEN, Fraction(2**70)),
    ),
}

NAMED = [(kind.name, CASES[kind]) for kind in ADDITIVE]
"""Raises for a mechanism that is registered and has no case."""
EPSILONS = (Fraction(1, 10), UNEVEN, Fraction(1), Fraction(5))
