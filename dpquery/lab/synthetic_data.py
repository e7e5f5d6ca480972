"""Synthetic values to try mechanisms on: laws of whole numbers between 0 and a public bound.

A law is known by its quantiles, so that what is measured can be compared with the law itself
and not with a sample of it alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv, ndtri

from dpquery.mechanisms.randomness import Int64s, Randomness

Floats = npt.NDArray[np.float64]
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Law:
    """Where values lie, before they are rounded and clamped to their bounds."""

    name: str
    says: str
    top: int
    """The upper bound; 0 is the lower one."""
    at: Callable[[Floats], Floats]
    """The values below which shares of the rows lie."""

    def cells(self, shares: Floats) -> Int64s:
        """Return the values below which shares of the rows lie, as whole numbers in bounds."""
        values = np.clip(self.at(shares), 0, self.top)
        return np.rint(values).astype(np.int64)

    def draw(self, rows: int, randomness: Randomness) -> Int64s:
        """Draw independent values, sorted."""
        words = randomness.words(rows) >> np.uint64(11)
        return np.sort(self.cells(np.asarray(words * 2.0**-53, np.float64)))


def through(shares: list[float], values: list[float], top: int) -> Callable[[Floats], Floats]:
    """Return the quantiles of a law that is even between points that are known."""
    return lambda u: np.interp(u, [0.0, *shares, 1.0], [0.0, *values, float(top)])


@lru_cache(maxsize=1)
def _every_salary() -> Floats:
    """Return salaries at even shares: a fifth are 21,200 and a twentieth 30,000.

    The others are log-normal, in hundreds.
    """
    even = (np.arange(75_000) + 0.5) / 75_000
    others = np.exp(10.5 + 0.5 * ndtri(even)).round(-2)
    return np.sort(np.concatenate([np.repeat([21_200.0, 30_000.0], [20_000, 5_000]), others]))


def _salaries(u: Floats) -> Floats:
    salaries = _every_salary()
    return np.asarray(salaries[np.minimum(u * len(salaries), len(salaries) - 1).astype(int)])


_ZIPF = np.cumsum(1 / np.arange(1, 101))

LAWS = {
    law.name: law
    for law in (
        Law("uniform", "spread evenly between the bounds", MILLION, lambda u: u * MILLION),
        Law("normal", "in the middle, with a deviation of a twentieth of the bounds' distance",
            MILLION, lambda u: MILLION * (0.5 + 0.05 * ndtri(u))),
        Law("lognormal", "incomes: most are low, a few are high", 300_000,
            lambda u: np.exp(10.6 + 0.6 * ndtri(u))),
        Law("exponential", "waiting times: a fifteenth of the upper bound on average", 300_000,
            lambda u: -20_000 * np.log1p(-u)),
        Law("beta", "Beta(2, 2) between the bounds", MILLION,
            lambda u: MILLION * betaincinv(2, 2, u)),
        Law("bimodal", "half about a quarter, half about three quarters of the upper bound",
            MILLION, lambda u: MILLION * (
                np.where(u < 0.5, 0.25, 0.75) + 0.03 * ndtri(2 * u % 1))),
        Law("salaries", "in hundreds, of which a quarter of the rows share two", 300_000,
            _salaries),
        Law("bernoulli", "0 or 1, half of each", 1, lambda u: np.where(u < 0.5, 0.0, 1.0)),
        Law("rare", "0 or 1, a twentieth is 1", 1, lambda u: np.where(u < 0.95, 0.0, 1.0)),
        Law("zipf", "0 to 99, the k-th as often as 1/k", 99,
            lambda u: np.searchsorted(_ZIPF / _ZIPF[-1], u).astype(np.float64)),
        Law("same", "one value", MILLION, lambda u: np.full(len(u), MILLION / 2)),
    )
}  # fmt: skip
"""By name: the first is what is tried unless another is asked for."""
