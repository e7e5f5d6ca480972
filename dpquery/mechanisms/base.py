"""What every mechanism is: a random map from exact integers to noisy ones, with a claim.

A mechanism knows numbers only: no SQL, no tables, no budgets. Each states its claim, its proof and
its exact law, and one conformance suite holds all of them to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

from dpquery.events import Event
from dpquery.mechanisms.randomness import Randomness
from dpquery.privacy import Loss

__all__ = ["AdditiveNoise"]


class AdditiveNoise(Protocol):
    """Adds independent integer noise of one law to each of several exact integers."""

    name: str
    """How queries ask for it, as in mechanism='laplace'."""
    weight_linear: bool
    """Whether the loss is linear in a unit's weight, so that one charge covers all groups."""

    def loss(self, distance: int) -> Loss:
        """Give the loss when one unit moves the exact values by at most `distance` in the norm it states."""
        ...

    def event(self, distance: int) -> Event:
        """State the same for the ledger."""
        ...

    def release(self, exact: Sequence[int], randomness: Randomness) -> list[int]:
        """Add fresh noise to each exact value."""
        ...

    def interval(self, noisy: int, confidence: Fraction) -> tuple[int, int]:
        """Give the smallest symmetric range around the noisy value that holds the exact one as often as stated."""
        ...

    def pmf(self, noise: int) -> float:
        """Give the probability of one noise value; for tests and intervals, never on the release path."""
        ...
