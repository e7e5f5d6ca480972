"""DP_LOGREG: the odds of a condition by some columns, from noisy second moments.

What is released is what a plane needs (`linreg.py`), with the condition as y: -1 or 1 in each
row. Sensitivity and noise are those of the plane; what follows is post-processing.

With u the columns between -1 and 1, the log-loss of coefficients w is the sum of log(1 + exp(w
u)), less w times the sum of u over the rows that meet the condition. The second sum is one of
the released ones. The first is not a matter of moments, and is taken over a law that has the
released means, variances and covariances: each column normal and cut to its bounds (which may
be uniform, or all at the bounds, or with one bound as its peak), and all together by normal
scores. Points of even spread stand for it. Other laws of the same moments give other
coefficients: what that comes to is measured in `docs/statistics.md`.

The loss is convex, and a part of its square noise is added to it, so that there is one least
place, at a distance that noise bounds, whatever was drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from dpquery.errors import refusal
from dpquery.functions.additive_releases import significant
from dpquery.functions.base import COMMON, DPFunction, Expression, Facts, Gives, Takes, Words
from dpquery.functions.moments.coefficient_intervals import Doubles, Normal
from dpquery.functions.moments.linreg import MOST, NOISES, PlaneRelease, plane, spectrum
from dpquery.ir.query import Call
from dpquery.mechanisms.laplace import combined_reach

MOST_TOLD = 5
"""Columns for whose coefficients there are intervals: a third of a second for as many."""
MOST_GROUPS = 50
"""A fit takes a tenth of a second at most, which adds up."""
POINTS = 4096
"""What stands for a law of all columns."""
PLACES = 161
"""What stands for the law of one."""
FAR = 8.0
"""Deviations from the mean at which a law of one column ends, where bounds do not end it."""
STEPS = 80
LEAST = 1e-9
"""What is added to a loss that has hardly any noise."""
EVENLY = 17
"""By how much the share of noise in one sum is multiplied in log-odds from bound to bound,
about 95 times in 100, where columns are spread evenly and odds are about even."""
NEAR = Fraction(1, 16)
"""How far sums are moved to see how coefficients follow, in deviations of the noise."""
Link = Callable[[Doubles], tuple[Doubles, Doubles]]
"""From a linear score to what is expected there, and how fast that rises."""


@dataclass(frozen=True, slots=True)
class LogisticRelease(PlaneRelease):
    """The coefficients of log-odds, per group: where all are zero, then of each column."""

    def value(self, drawn: Sequence[int]) -> list[float]:
        """Return the coefficients."""
        of = self._normal(drawn)
        base, slopes = fitted(of, self._noise)
        return self._shown(slopes, Fraction(base - float(of.means @ slopes)), Fraction(2))

    def interval(
        self, drawn: Sequence[int], confidence: Fraction
    ) -> tuple[list[float], list[float]] | None:
        """Return how far noise takes the coefficients, so often, alike to both sides of each.

        By how much each moves with each sum, from where they are: so it holds where noise is
        little beside what the rows tell. What the law of the columns does is not in it. None
        of many columns: it would take minutes.
        """
        if not 0 < confidence < 1:
            raise ValueError("a confidence lies between 0 and 1")
        if len(self.codes) - 1 > MOST_TOLD:
            return None
        step, here = max(1, round(self.mechanism.scale_shown * NEAR)), self.value(drawn)
        slopes = []
        for place, part in enumerate(drawn):
            moved = [*drawn[:place], part + step, *drawn[place + 1 :]]
            there = self.value(moved)
            slopes.append([(a - b) / step for a, b in zip(there, here, strict=True)])
        spread = float(self.mechanism.scale_shown)
        far = combined_reach(self.mechanism, spread, float(1 - confidence))
        margins = [far(of_one) for of_one in zip(*slopes, strict=True)]
        ends = list(zip(here, margins, strict=True))
        return [one - off for one, off in ends], [one + off for one, off in ends]

    @property
    def note(self) -> str:
        """Say what the coefficients are of, and what is assumed."""
        return (
            f"{self.function} gives log-odds: the intercept first, then the coefficient of "
            "each column. It takes columns for normal within their bounds, with the means and "
            "covariances found; columns of other laws move coefficients, whatever the eps"
        )

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in rows, and what they do to coefficients."""
        words = super(LogisticRelease, self).describe(waiting=waiting)
        _, high = self.mechanism.interval(0, Fraction(95, 100))
        off = significant(EVENLY * Fraction(high) / self._size / 1000)
        return words._replace(
            expected_error=f"about ± {off} of log-odds, where a column runs from bound to "
            "bound, over 1,000 rows spread evenly and about even odds"
        )


def fitted(of: Normal, noise: float) -> tuple[float, Doubles]:
    """Return the log-odds at the means, and what each u adds to them.

    Args:
        of: the noisy moments of the columns, and of the condition, which is -1 or 1.
        noise: the deviation of the noise in each.
    """
    ridge = max((noise / of.rows) ** 2, LEAST)
    target = np.append((1 + of.mean) / 2, of.outer / of.rows / 2)
    about = _points(of, noise) if len(of.means) else np.empty((1, 0))
    features = np.column_stack([np.ones(len(about)), about])
    found = _matched(features, target, ridge, _logistic, np.zeros(len(target)))
    return float(found[0]), found[1:]


def _logistic(score: Doubles) -> tuple[Doubles, Doubles]:
    shares = 1 / (1 + np.exp(-np.clip(score, -500, 500)))
    return shares, shares * (1 - shares)


def _exponential(score: Doubles) -> tuple[Doubles, Doubles]:
    weights = np.exp(np.clip(score, -500, 500))
    return weights, weights


def _matched(
    features: Doubles, target: Doubles, ridge: float, link: Link, start: Doubles
) -> Doubles:
    """Return the w for which the mean of link(features w) features, and ridge w, is a target.

    By Newton's steps, each shortened to log(1 + r) / r of itself, with r how far it moves a
    score at most: so each brings a convex loss with such a link nearer to its least.
    """
    found, count = start, len(features)
    for _ in range(STEPS):
        expected, slopes = link(features @ found)
        off = features.T @ expected / count + ridge * found - target
        bend = (features.T * slopes) @ features / count + ridge * np.eye(len(found))
        step = np.linalg.solve(bend, off)
        far = float(abs(features @ step).max())
        if far < LEAST:
            break
        found = found - step * (np.log1p(far) / far)
    return found


# A law of the columns, by their moments.


def _points(of: Normal, noise: float) -> Doubles:
    """Return points, less their mean, whose covariances are those of the columns."""
    values, vectors = spectrum(of.inner, noise)
    spread = (vectors * values) @ vectors.T / of.rows
    deviations = np.sqrt(spread.diagonal())
    scores = _even(len(spread)) @ _root(spread / np.outer(deviations, deviations))
    columns = [
        _one(mean, deviation)(scores[:, at])
        for at, (mean, deviation) in enumerate(zip(of.means, deviations, strict=True))
    ]
    points = np.column_stack(columns)
    points -= points.mean(0)
    sizes = np.sqrt((points**2).mean(0)) + LEAST
    points /= sizes
    found = _root(points.T @ points / len(points))
    moved: Doubles = points @ np.linalg.solve(found, _root(spread))
    return moved


def _root(matrix: Doubles) -> Doubles:
    """Return the symmetric root, of eigenvalues that are above zero."""
    values, vectors = np.linalg.eigh(matrix)
    root: Doubles = (vectors * np.sqrt(np.maximum(values, LEAST))) @ vectors.T
    return root


@lru_cache(maxsize=16)
def _even(count: int) -> Doubles:
    """Return points whose normal scores are spread evenly: multiples of roots, modulo 1.

    The steps are powers of the root of x^(count + 1) = x + 1, for which few points leave no
    gaps in any direction (Roberts 2018).
    """
    base = 2.0
    for _ in range(60):
        base = (1 + base) ** (1 / (count + 1))
    steps = (1 / base) ** np.arange(1, count + 1)
    shares = (0.5 + np.outer(np.arange(1, POINTS + 1), steps)) % 1
    return _scores(np.clip(shares, 1e-6, 1 - 1e-6))


def _one(mean: float, deviation: float) -> Callable[[Doubles], Doubles]:
    """Return what takes normal scores to a law between -1 and 1 with these moments.

    Of all such laws the one with the most entropy: its density is exp of a square polynomial,
    so normal and cut to the bounds, or hollow in the middle where the deviation is large.
    """
    centre = min(max(mean, -0.99), 0.99)
    width = min(deviation, float(np.sqrt(0.99 * (1 - centre * centre))))
    low, high = max(-1.0, centre - FAR * width), min(1.0, centre + FAR * width)
    places = (np.linspace(low, high, PLACES) - centre) / width
    features = np.column_stack([np.ones(PLACES), places, places**2])
    size = -np.log(np.exp(-(places**2) / 2).mean())
    start, target = np.array([size, 0.0, -0.5]), np.array([1.0, 0.0, 1.0])
    weights, _ = _exponential(features @ _matched(features, target, LEAST, _exponential, start))
    shares = np.cumsum(weights) / weights.sum()
    middles = shares - weights / weights.sum() / 2
    at = _scores(np.clip(middles, 1e-12, 1 - 1e-12))
    return lambda scores: np.interp(scores, at, places)


def _scores(shares: Doubles) -> Doubles:
    """Return normal scores: below which of them such shares lie."""
    flat = map(NormalDist().inv_cdf, shares.ravel().tolist())
    return np.fromiter(flat, dtype=np.float64, count=shares.size).reshape(shares.shape)


def _plan(call: Call, facts: Facts) -> LogisticRelease:
    if facts.cells > MOST_GROUPS:
        raise refusal(
            "DPQ404",
            f"{call.function} is fitted in {MOST_GROUPS} groups at most",
            call.span,
            f"there are {facts.cells} groups",
            ("each fit takes time, whatever the rows are.",),
            "leave out GROUP BY",
        )
    return plane(call, facts, LogisticRelease)


LOGREG = DPFunction(
    name="DP_LOGREG",
    summary="The log-odds of a condition by some columns, by logistic regression: a list of "
    "their intercept and of the coefficient of each column.",
    positional=(
        Expression(Takes.CONDITION, "c"),
        Expression(Takes.NUMBER, "x", listed=MOST),
    ),
    gives=Gives.NUMBERS,
    parameters=COMMON,
    mechanisms=NOISES,
    plan=_plan,
    example="SELECT DP_LOGREG(remote, [age, rating], eps=0.5) AS odds FROM staff",
)
