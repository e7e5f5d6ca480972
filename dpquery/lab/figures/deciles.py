"""Deciles by noisy thresholds over a histogram, and by smoothed inverse sensitivity."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
from scipy.integrate import quad
from scipy.special import betainc

from dpquery.functions.order_statistics.quantile import QUANTILE
from dpquery.lab.figures.base import SUBSTITUTE, THRESHOLDS, Figure, Line, drawn, root, samples
from dpquery.lab.synthetic_data import LAWS, MILLION, Floats, Law, through
from dpquery.lab.trial import Asked, Rows

ONE = Fraction(1)
DECILES = tuple(Fraction(k, 10) for k in range(1, 10))
SALARIES = (34902, 38574, 41848, 46862, 56844, 67121, 75254, 84751, 99637)
"""Deciles of some 400,000 salaries, as the notes have them; the rows are not ours to show."""
SIZES = (200, 1000, 5000)


def _by_thresholds(law: Law, sets: list[Rows], draws: int, epsilon: Fraction = ONE) -> Floats:
    asked = Asked(QUANTILE, law.top, DECILES)
    return drawn(asked, epsilon, sets, draws, neighbours=SUBSTITUTE, mechanism="histogram")


def _by_thresholds_each(law: Law, sets: list[Rows], draws: int) -> Floats:
    return _by_thresholds(law, sets, draws, 9 * ONE)


def _by_sensitivity(law: Law, sets: list[Rows], draws: int) -> Floats:
    """Draw the deciles one by one, each for a ninth of epsilon."""
    return np.column_stack([
        drawn(Asked(QUANTILE, law.top, order), ONE / 9, sets, draws,
              neighbours=SUBSTITUTE, mechanism="inverse_sensitivity")
        for order in DECILES
    ])  # fmt: skip


def _by_default(law: Law, sets: list[Rows], draws: int) -> Floats:
    return drawn(Asked(QUANTILE, law.top, DECILES), ONE, sets, draws, neighbours=SUBSTITUTE)


Method = Callable[[Law, list[Rows], int], Floats]
_METHODS: dict[str, Method] = {
    "thresholds": _by_thresholds,
    "inverse sensitivity": _by_sensitivity,
    "default": _by_default,
}


def _off(law: Law, rows: int, method: Method, sets: int) -> Floats:
    """Return how far deciles are from those of their rows, one line for each set."""
    samples_ = samples(law, rows, sets)
    places = np.ceil(np.array(list(map(float, DECILES))) * rows).astype(int) - 1
    exact = np.array([one.sorted[places] for one in samples_])
    return np.asarray(method(law, samples_, sets) - exact)


def _deciles(draws: int) -> Iterator[Line]:
    law = LAWS["uniform"]
    of_thresholds, whole = ("35", "1.015"), "so theirs were drawn, it seems"
    for name, method, notes, why in (
        ("thresholds", _by_thresholds, of_thresholds, "here each has a ninth of epsilon"),
        ("thresholds, epsilon 1 for each", _by_thresholds_each, of_thresholds, whole),
        ("inverse sensitivity", _by_sensitivity, ("21.5", "0.995"), ""),
        ("default", _by_default, ("", ""), ""),
    ):
        found = [_off(law, rows, method, max(8, draws // 12)) / law.top for rows in SIZES]
        roots = [root(off**2) for off in found]
        slope, start = np.polyfit(np.log(SIZES), np.log(roots), 1)
        yield Line(f"{name}: c", notes[0], math.exp(start), why)
        yield Line(f"{name}: b", notes[1], -slope)
    share = math.fsum(float(order * (1 - order)) for order in DECILES) / 9 / 1000
    why = "of the law's own deciles it would be most, and go as n^-0.5"
    yield Line("the same of sampling alone, n = 1,000", "", math.sqrt(share), why)


def _normal(draws: int) -> Iterator[Line]:
    law = LAWS["normal"]
    for name, method in _METHODS.items():
        off = _off(law, 1000, method, max(10, draws // 8))
        yield Line(f"{name}, n = 1,000", "", root((off / (law.top / 20)) ** 2))


def _bounds(draws: int) -> Iterator[Line]:
    law = LAWS["uniform"]
    for rows in (1000, 10_000, 100_000):
        sets = samples(law, rows, max(10, draws // 10))
        for method, bound in (
            ("thresholds", _of_thresholds(rows)),
            ("inverse sensitivity", _of_sensitivity(rows)),
        ):
            found = _METHODS[method](law, sets, len(sets))[:, 4] / MILLION
            here = float(np.abs(found - 0.5).mean())
            why = "proven for epsilon 1, and each has a ninth" if method == "thresholds" else ""
            yield Line(f"{method}, n = {rows:,}", f"at most {bound:.2g}", here, why)


def _of_thresholds(rows: int) -> float:
    """The notes' bound for the median at epsilon 1, with beta 1 / (sqrt(n) ln n)."""
    far, ln, d = 8 * math.log(3 * rows * math.sqrt(rows)), math.log(rows), 0.5
    low, high = rows / 2 - far, rows / 2 + far

    def above(t: float) -> float:
        return 1 - float(betainc(high, rows - high + 1, d + t))

    def below(t: float) -> float:
        return float(betainc(low, rows - low + 1, d - t))

    beyond = sum(quad(one, 0, d, limit=200, points=[far / rows])[0] for one in (above, below))
    rest = (1 - d - 2 * ln / (3 * rows)) / (math.sqrt(rows) * ln)
    return 2 * ln / (3 * rows) + d / (math.sqrt(rows) * ln) + float(beyond) + rest


def _of_sensitivity(rows: int) -> float:
    """The notes' bound at epsilon 1, smoothed over 1 / sqrt(n)."""
    root = math.sqrt(rows)
    return 5 / root + 4 / root * math.exp(-root / 2) + 16 / root * math.exp(-root / 4)


def _salaries(draws: int) -> Iterator[Line]:
    law = Law("deciles", "", 300_000, through([k / 10 for k in range(1, 10)],
              list(map(float, SALARIES)), 300_000))  # fmt: skip
    sets = samples(law, 400_000, 2)
    exact = np.array([np.quantile(rows.sorted, np.arange(1, 10) / 10) for rows in sets])
    for method, draw in _METHODS.items():
        times = max(10, draws // 20)
        found = draw(law, sets, times)
        off = found - exact[np.arange(times) % len(sets)]
        notes = "near 20" if method != "default" else ""
        yield Line(method, notes, math.sqrt(float((off**2).mean())))


ALL = (
    Figure("bounds", THRESHOLDS, "figures 2 and 3",
        "the bounds on the mean distance from the median of a uniform law, and the distance",
        _bounds),
    Figure("deciles", THRESHOLDS, "figure 4",
        "how far deciles are, as c n^-b: roots of mean squares, values from 0 to 1, epsilon 1",
        _deciles),
    Figure("normal", THRESHOLDS, "figure 5",
        "the same of a normal law, in its deviations, within ten of them", _normal),
    Figure("salaries", THRESHOLDS, "figure 6",
        "a law with the deciles of 400,000 salaries: roots of mean squares, epsilon 1",
        _salaries),
)  # fmt: skip
