"""Whether counts of a stream are above a threshold, until the first one is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import index
from typing import ClassVar

import numpy as np

from dpquery.core.privacy_events import Pure
from dpquery.core.privacy_loss import Loss
from dpquery.mechanisms.base import Distance
from dpquery.mechanisms.randomness import Randomness
from dpquery.mechanisms.samplers import FEW, geometric, geometric_many, tail_bound


@dataclass(frozen=True, slots=True)
class AboveThreshold:
    """Says of exact counts, one after the other, whether they pass a threshold; until one does.

    Claim:
        Let the counts of two data sets, question by question, differ by b_j - a_j, all of them
        between -fall and +rise, where 0 <= fall, 0 <= rise, and fall + rise <= d. Then for each
        place i, P[the first above is i in a] <= exp(rise / threshold_scale + d / count_scale) *
        P[the first above is i in b]; the same for "none". Each question may depend on the
        answers before it.

    Assumes:
        The counts are integers; `rise` bounds the differences in both directions (each of two
        neighbours may be a); nothing is answered after the first that is above; the integers
        of `Randomness` are uniform and independent; scales and the threshold do not depend on
        the counts.

    Proof:
        With natural numbers G and N_j of geometric law, P[G = g] ~ exp(-g / threshold_scale),
        P[N_j = n] ~ exp(-n / count_scale), question j is above when a_j + N_j > T + G + c, for
        a constant c. Fix G = g in a and compare with G = g + rise in b, which is less likely by
        a factor exp(-rise / threshold_scale) at worst. A question j that is not above in a is
        not above in b for the same N_j, as b_j <= a_j + rise: that is at least as likely. The
        one that is above at N_i >= n is above in b at N_i >= n + rise + fall or before, whose
        probability is at least exp(-d / count_scale) times as large. Adding up over g shows
        the claim; given the answers so far, the next question is a fixed one.
        Where all counts move in one direction (a unit is added, or removed: fall or rise is 0),
        d is what one unit adds to a count; where they may do either, it is twice that.

    Sampling:
        Exact: geometric numbers from uniform bits (`samplers.py`), one for the threshold and
        one for each count. How many are drawn may depend on the answers alone.

    Rounding:
        The scales are Fractions and the loss exact; no step leaves exactness. The constant c is
        the difference of the mean noises, rounded down, so that noise pushes neither way.

    Utility:
        Of n counts, one that lies more than r below the threshold is answered "above" before
        its turn, or one r above it passed over, with probability (n + 1) exp(-r / (2 scale)) or
        so, for equal scales. One-sided noise has half the variance of two-sided noise of the
        same scale and the same loss. Where no unit moves more than one count,
        `FirstNoisyCount` errs less.

    Checked:
        by its law and its samples; claim and proof reread 2026-11-18
    """

    threshold_scale: Fraction
    count_scale: Fraction

    name: ClassVar[str] = "above_threshold"
    weight_linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.threshold_scale <= 0 or self.count_scale <= 0:
            raise ValueError("a scale is above zero")

    @classmethod
    def calibrated(
        cls, distance: Distance, epsilon: Fraction, rise: Distance | None = None
    ) -> AboveThreshold:
        """Return the scales that lose exactly epsilon, one half of it in each.

        Args:
            distance: rise and fall together, over all groups.
            epsilon: the loss.
            rise: the largest difference in one direction, over all groups; all of the distance
                where counts move in one direction.
        """
        half = 2 / epsilon
        return cls(
            half * Fraction(distance if rise is None else rise), half * Fraction(distance)
        )

    def loss(self, distance: Distance, rise: Distance | None = None) -> Loss:
        """Return rise / threshold_scale + distance / count_scale."""
        rise = distance if rise is None else rise
        return Loss(rise / self.threshold_scale + distance / self.count_scale)

    def event(self, distance: Distance, rise: Distance | None = None) -> Pure:
        """State the loss for the ledger."""
        return Pure(self.loss(distance, rise).epsilon)

    @property
    def scale(self) -> Fraction:
        """The scale of the noise of one count."""
        return self.count_scale

    @property
    def offset(self) -> int:
        """By how much the noise of a count is larger on average than that of the threshold."""
        return (self.count_scale - self.threshold_scale) // 1

    def limit(self, threshold: int, randomness: Randomness) -> int:
        """Draw the noisy threshold: once for a stream, and never shown."""
        t, s = self.threshold_scale.as_integer_ratio()
        return index(threshold) + geometric(t, s, randomness) + self.offset

    def passes(self, count: int, limit: int, randomness: Randomness) -> bool:
        """Return whether the next exact count is above the noisy threshold."""
        t, s = self.count_scale.as_integer_ratio()
        return index(count) + geometric(t, s, randomness) > limit

    def release(
        self, counts: Sequence[int], threshold: int, randomness: Randomness
    ) -> int | None:
        """Return the place of the first count above a threshold, or None."""
        limit = self.limit(threshold, randomness)
        if len(counts) <= FEW:
            passed = (self.passes(count, limit, randomness) for count in counts)
        else:
            t, s = self.count_scale.as_integer_ratio()
            noise = geometric_many(t, s, len(counts), randomness).tolist()
            passed = (index(a) + n > limit for a, n in zip(counts, noise, strict=True))
        return next((place for place, above in enumerate(passed) if above), None)

    def reach(self, counts: int, confidence: Fraction) -> int:
        """Return how far beside the threshold an answer is right, as often as stated.

        The noises of the threshold and of so many counts all lie within r of zero, but for a
        chance of (counts + 1) exp(-r / the larger scale); so no two of them differ by more.
        """
        largest = max(self.threshold_scale, self.count_scale)
        return tail_bound(counts + 1, 1 / largest, confidence) + abs(self.offset)

    def pmf(self, counts: Sequence[int], threshold: int) -> list[float]:
        """Return the probability of each place, and of none at the end, for tests.

        It sums over the noise of the threshold up to where 1e-17 is left.
        """
        ratio = math.exp(-float(1 / self.threshold_scale))
        end = math.ceil(40 * float(self.threshold_scale)) + 1
        g = np.arange(end)
        rest = (1 - ratio) * ratio**g
        law = []
        for count in counts:
            least = threshold + self.offset + g - count + 1
            above = np.exp(-float(1 / self.count_scale) * np.maximum(least, 0))
            law.append(math.fsum(rest * above))
            rest = rest * (1 - above)
        return [*law, math.fsum(rest)]
