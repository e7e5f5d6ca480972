"""Means: the noise of Laplace and Gauss, choosing a mean on a grid, and what a floor is."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from itertools import accumulate

import numpy as np

from dpquery.functions.moments.mean_variance import AVG, PROPORTION
from dpquery.lab.figures.base import (
    ADD_REMOVE,
    MEANS,
    SLIDES,
    SUBSTITUTE,
    Figure,
    Line,
    drawn,
    root,
    samples,
)
from dpquery.lab.synthetic_data import MILLION
from dpquery.lab.trial import Asked
from dpquery.mechanisms import DiscreteLaplace, MeanExponential, MeanInverseSensitivity

ONE = Fraction(1)
HIDDEN = "there n is public; here it is not told"


def _risk(draws: int) -> Iterator[Line]:
    eps, unit = Fraction(4, 5), 1000 / MILLION
    sets, times = samples("uniform", 1000, 20), 10 * draws
    exact = np.array([sets[at % 20].sorted.mean() for at in range(times)])
    asked, squares = Asked(AVG, MILLION), {}
    for mechanism in ("laplace", "gaussian"):
        for relation in (SUBSTITUTE, ADD_REMOVE):
            found = drawn(asked, eps, sets, times, neighbours=relation, mechanism=mechanism)
            off = (found[:, 0] - exact) * unit
            squares[mechanism, relation] = float((off**2).mean())
    means = [rows.sorted.mean() * unit - 500 for rows in samples("uniform", 1000, times)]
    yield Line("sampling, mean square", "83.3", float(np.square(means).mean()))
    first = squares["laplace", SUBSTITUTE]
    yield Line("Laplace noise, mean square; a row is replaced", "3.125", first, HIDDEN)
    second = squares["laplace", ADD_REMOVE]
    why = "both sums have the noise of the whole epsilon"
    yield Line("Laplace noise, mean square; a row is added", "", second, why)
    third = squares["gaussian", SUBSTITUTE]
    why = "their c is 5, more than delta needs"
    yield Line("Gaussian noise, mean square; a row is replaced", "39.06", third, why)
    ratio = math.sqrt(third / first)
    why = "figure 3 says finer and higher; their formula gives 3.54"
    yield Line("Gauss's deviation over Laplace's", "below 1", ratio, why)


def _limit(draws: int) -> Iterator[Line]:
    rows, eps = 1000, Fraction(4, 5)
    scale = float(2 / (rows * eps))
    for ticks in (100, 1000, 10_000):
        law = MeanExponential(eps / 2, ticks).pmf(rows, rows, 2)
        limit = _cut_laplace(np.arange(ticks + 1) / ticks, scale)
        up_to = np.array(list(accumulate(law)))
        before = np.concatenate([[0.0], up_to[:-1]])
        apart = max(np.abs(up_to - limit).max(), np.abs(before - limit).max())
        yield Line(f"largest distance from the limit, N = {ticks:,}", "to 0", float(apart))
    independent = math.fsum(p * (q - p / 2) for p, q in zip(law, up_to, strict=True))
    why = "of independent copies; a sum was taken wrongly"
    yield Line("P[the limit is below], N large", "0.375", independent, why)
    lost = max(
        abs(math.log(p / q))
        for p, q in zip(*(MeanExponential(ONE / 2, 10_000).pmf(s, 100, 1) for s in (0, 1)),
                        strict=True)
    )  # fmt: skip
    why = "the rate e/2 loses e/2 + ln(2 - exp(-e/2))"
    yield Line("what choosing loses at epsilon 1, a row replaced", "1", lost, why)


def _cut_laplace(x: np.ndarray, scale: float) -> np.ndarray:
    """Return the shares up to x of a Laplace law about 1/2 that is cut to [0, 1]."""
    rest = math.exp(-0.5 / scale)
    side = (np.exp(-np.abs(x - 0.5) / scale) - rest) / (2 * (1 - rest))
    return np.where(x < 0.5, side, 1 - side)


def _chosen_share(eps: Fraction, ones: int, rows: int) -> list[float]:
    """Return the law of a share that is chosen by its inverse sensitivity."""
    return MeanInverseSensitivity(eps / 2, rows).pmf(ones, rows, 1)


def _bernoulli(draws: int) -> Iterator[Line]:
    for eps in (Fraction(1, 10), ONE, Fraction(3)):
        e = float(eps)
        for rows in (10, 1000) if eps == ONE else (1000,):
            law = _chosen_share(eps, rows // 2, rows)
            loss = math.fsum(p * abs(k - rows // 2) for k, p in enumerate(law))
            why = "the limit is 1 / sinh(e/2): a factor exp(-e/2) was lost"
            said = f"{2 / (1 - math.exp(-e)):.3g}"
            yield Line(f"n times the loss, epsilon {e:g}, n = {rows:,}", said, loss, why)
        noise = DiscreteLaplace.calibrated(1, eps)
        here = 2 * math.fsum(k * noise.pmf(k) for k in range(1, int(60 / e)))
        yield Line(f"the same of noise on the count, epsilon {e:g}", "", here)
        floor = 1 / (2 * (math.exp(2 * e) + 1))
        said = f"{floor:.3g}"
        yield Line(f"the floor of unbiased mechanisms, epsilon {e:g}", said, floor)
    law = _chosen_share(Fraction(1, 10), 0, 10)
    near, far = (math.fsum(p * abs(k - to) / 10 for k, p in enumerate(law)) for to in (0, 4))
    why = "0.4 is nearer on average than the share itself: not unbiased"
    yield Line("loss where no row is 1, epsilon 0.1, n = 10", "least", near, why)
    yield Line("the same from 0.4", "more", far, why)


def _tails(draws: int) -> Iterator[Line]:
    law = _chosen_share(ONE, 500, 1000)
    for k in (0, 1, 5):
        why = "q^k / (1 + q) with q = exp(-e/2), and no half of it"
        here = math.fsum(law[500 + k :])
        yield Line(f"P[{k} rows above or more]", f"{math.exp(-k / 2) / 2:.3g}", here, why)


def _floors(draws: int) -> Iterator[Line]:
    eps = ONE / 2
    noise = DiscreteLaplace.calibrated(1, eps)
    square = 2 * math.fsum(k * k * noise.pmf(k) for k in range(1, 200))
    floor = 1 / (68 * float(eps) ** 2)
    why = "the argument holds for 1/33; noise is 66 times that"
    yield Line("n² times the least mean square, epsilon 0.5", f"{floor:.3g}", floor)
    yield Line("n² times that of noise on a public n", "", square, why)
    rows = 10_000
    eps, times = Fraction(3, 100), 10 * draws
    sets = samples("bernoulli", rows, 20)
    exact = np.array([sets[at % 20].sorted.mean() for at in range(times)])
    off = drawn(Asked(PROPORTION, 1), eps, sets, times)[:, 0] - exact
    together = math.sqrt(1 + (root(off**2) / (0.5 / math.sqrt(rows))) ** 2)
    why = "noise adds little beside sampling, not nothing"
    yield Line("error over sampling's, epsilon 3/√n, n = 10,000", "1", together, why)


ALL = (
    Figure(
        "risk",
        MEANS,
        "figures 1 to 3",
        "1,000 values spread evenly from 0 to 1,000, at epsilon 0.8",
        _risk,
    ),
    Figure(
        "limit",
        MEANS,
        "figures 18 to 23",
        "a mean of 1,000 rows that is chosen among N values: exact laws, nothing is drawn",
        _limit,
    ),
    Figure(
        "bernoulli",
        MEANS,
        "figure 24",
        "half of n rows are 1: n times the mean loss of choosing their share; exact laws",
        _bernoulli,
    ),
    Figure(
        "tails",
        SLIDES,
        "the mean by inverse sensitivity",
        "the same law at 1,000 rows: how often it is so far above the mean or farther",
        _tails,
    ),
    Figure(
        "floors",
        SLIDES,
        "lower bounds, Le Cam",
        "a mean of values from 0 to 1: floors of the slides, beside what noise has",
        _floors,
    ),
)
