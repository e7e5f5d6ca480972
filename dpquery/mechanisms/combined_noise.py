"""How far independent noises go together: what is known of a sum with weights, after release.

It knows coefficients and laws, draws nothing and loses nothing. Floats are of use here, for all
that is computed follows from values that are released already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist

from dpquery.mechanisms.base import AdditiveNoise
from dpquery.mechanisms.discrete_laplace import DiscreteLaplace

__all__ = ["Reach", "combined_reach", "share_range"]

Reach = Callable[[Sequence[float]], float]
"""From coefficients to how far the noises go together."""
APART = 1.02
"""Scales are moved apart by so much, upwards, where a formula asks for different ones."""
STEPS = 45


def combined_reach(noise: AdditiveNoise, spread: float, missed: float) -> Reach:
    """Return what gives r with P[|sum of c_i noise_i| > r] <= missed, for coefficients c_i.

    Discrete noise is taken for continuous noise of the same scale, rounded: it is off by half a
    unit at most each, but for what is far below any draw's own error.
    """

    def reach(coefficients: Sequence[float]) -> float:
        sizes = [abs(one) for one in coefficients]
        if isinstance(noise, DiscreteLaplace):
            far = _of_laplace([size * spread for size in sizes], missed)
        else:
            far = -NormalDist().inv_cdf(missed / 2) * spread * math.hypot(*sizes)
        return far + sum(sizes) / 2

    return reach


def _of_laplace(scales: Sequence[float], missed: float) -> float:
    """Return where a sum of two-sided exponential laws of these scales has so much beyond.

    For different scales a_i it is the sum of exp(-r / a_i) prod_j a_i^2 / (a_i^2 - a_j^2).
    """
    largest = max(scales)
    if not largest:
        return 0.0
    apart = list[float]()
    for scale in sorted(max(scale, largest / 1000) for scale in scales):
        apart.append(max(scale, APART * apart[-1] if apart else 0.0))
    weights = [math.prod(a * a / (a * a - b * b) for b in apart if b != a) for a in apart]
    low, high = 0.0, apart[-1] * (8 + math.log(1 / missed))
    for _ in range(STEPS):
        middle = (low + high) / 2
        beyond = sum(w * math.exp(-middle / a) for w, a in zip(weights, apart, strict=True))
        low, high = (middle, high) if beyond > missed else (low, middle)
    return high


def share_range(
    part: float, whole: float, reach_at: Callable[[float], float], ends: tuple[float, float]
) -> tuple[float, float]:
    """Return a range of all shares with |part - share whole| <= reach_at(share).

    That is the set of shares that the noise does not rule out (Fieller): it holds the exact one
    as often as the noise of part - share whole stays within its reach, for no share beforehand
    and whatever the whole is. The reach is convex: between two shares no larger than at one.
    """
    low, high = ends
    if whole <= 0:
        return ends
    start = min(max(part / whole, low), high)
    most = max(reach_at(low), reach_at(high))
    below, above = (min(max((part + s * most) / whole, low), high) for s in (-1, 1))
    here = reach_at(start)
    for _ in range(2):
        below = max(below, (part - max(here, reach_at(below))) / whole)
        above = min(above, (part + max(here, reach_at(above))) / whole)
    return min(below, start), max(above, start)
