"""What a limit is: an epsilon and a delta, and in how many ways losses may keep it.

A delta is parted before anything is asked. Releases with a delta of their own draw on one
part; at the other one rho is converted. A part that followed what was drawn would be a choice
made after answers were seen, and the promise would not hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpquery.privacy import Loss
from dpquery.zcdp import epsilon_above, rho_below

__all__ = ["HALF", "Ceiling"]

HALF = Fraction(1, 2)
"""The part of a delta that is kept for conversion, unless the policy says otherwise."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The most that may be lost. Epsilons may add up to its epsilon, or else rho to its rho."""

    limit: Loss
    converted: Fraction = Fraction(0)
    """The part of delta at which rho is converted."""
    rho: Fraction = Fraction(0)
    """What rho may add up to: it converts to epsilon at that delta, or to less."""
    summed: bool = True
    """Whether epsilons may add up instead; not where the owner stated a rho."""

    @classmethod
    def of(cls, limit: Loss, share: Fraction) -> Ceiling:
        """Part the delta of a limit; without one, epsilons alone add up."""
        converted = limit.delta * share
        rho = rho_below(limit.epsilon, converted) if converted else Fraction(0)
        return cls(limit, converted, rho)

    @classmethod
    def in_rho(cls, rho: Fraction, delta: Fraction, share: Fraction) -> Ceiling:
        """Take a rho as the limit, and the epsilon that it converts to for reading."""
        converted = delta * share
        return cls(Loss(epsilon_above(rho, converted), delta), converted, rho, summed=False)

    @property
    def drawn(self) -> Fraction:
        """What the deltas of releases may add up to."""
        return self.limit.delta - self.converted
