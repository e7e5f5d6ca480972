"""What every mechanism is: a random map from exact integers to noisy ones, with a claim.

A mechanism knows numbers only: no SQL, no tables, no budgets; neither what is counted, nor what
cells stand for, nor who pays. Each states its claim, its proof and its exact law, and one
conformance suite holds all of them to it. Releases and losses are exact (I8); floats are for
laws and intervals, which are computed for tests or after the release.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import ClassVar, Protocol, runtime_checkable

from dpquery.core.privacy_events import BoundedRange, Event, Pure
from dpquery.core.privacy_loss import Loss
from dpquery.mechanisms.randomness import Randomness

Distance = int | Fraction
"""How far one unit can move the exact values; an L2 norm is rounded up to a rational."""


class Mechanism(Protocol):
    """A random map with a claim: what is lost when one unit moves the exact values so far."""

    name: ClassVar[str]
    """How queries ask for it, as in mechanism='laplace'."""

    @property
    def weight_linear(self) -> bool:
        """Whether the loss is at most linear in a unit's weight: one charge covers all groups.

        The planner refuses GROUP BY where it is not.
        """
        ...

    def loss(self, distance: Distance) -> Loss:
        """Return the loss when one unit moves the exact values by `distance` at most."""
        ...

    def event(self, distance: Distance) -> Event:
        """State the same for the ledger."""
        ...


class PureEvent:
    """A mechanism of whose loss nothing but the epsilon is known."""

    __slots__ = ()

    def event(self: Mechanism, distance: Distance) -> Pure:
        """State the loss for the ledger."""
        return Pure(self.loss(distance).epsilon)


class RangeEvent:
    """A mechanism whose log-ratios, over all outputs, lie in a range of the loss."""

    __slots__ = ()

    def event(self: Mechanism, distance: Distance) -> BoundedRange:
        """State the loss for the ledger."""
        return BoundedRange(self.loss(distance).epsilon)


@runtime_checkable
class SharesLoss(Protocol):
    """A mechanism that may say more of a unit of which it sees a share of the rows."""

    @property
    def share_linear(self) -> bool:
        """Whether it is proven that such a unit loses that share of the charge at most."""
        ...


class AdditiveNoise(Mechanism, Protocol):
    """Adds independent integer noise of one law to each of several exact integers."""

    norm: ClassVar[int]
    """In which norm the distance of the exact values is measured: 1 or 2."""

    @property
    def scale_shown(self) -> Fraction:
        """The scale as people know it: a Laplace scale, a standard deviation."""
        ...

    def release(self, exact: Sequence[int], randomness: Randomness) -> list[int]:
        """Add fresh noise to each exact value."""
        ...

    def interval(self, noisy: int, confidence: Fraction) -> tuple[int, int]:
        """Return a symmetric range that holds the exact value as often as stated.

        It is the smallest one, or larger by what rounding outwards takes.
        """
        ...

    def log_pmf(self, noise: int) -> float:
        """Return the logarithm of the probability of one noise value, for tests."""
        ...

    def pmf(self, noise: int) -> float:
        """Return the probability of one noise value, for tests."""
        ...


class PureNoise(AdditiveNoise, Protocol):
    """Additive noise without a delta, for distances in L1 norm."""

    weight_linear: ClassVar[bool]

    @classmethod
    def calibrated(cls, sensitivity: int, epsilon: Fraction, /) -> AdditiveNoise:
        """Return the noise that loses epsilon at a distance."""
        ...
