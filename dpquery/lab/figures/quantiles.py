"""Quantiles: one of them by three mechanisms, an epsilon for an error, and lists of them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from dpquery.functions.order_statistics.quantile import QUANTILE
from dpquery.ir.query import Wanted
from dpquery.lab.figures.base import ADD_REMOVE, MEANS, Figure, Line, drawn, samples
from dpquery.lab.synthetic_data import LAWS, MILLION, Floats, Law
from dpquery.lab.trial import Asked, Rows
from dpquery.mechanisms import GapQuantile, rank_range

HALF, QUARTER, FIFTH = Fraction(1, 2), Fraction(1, 4), Fraction(1, 5)
WIDTH = 200
"""The distance between the bounds, in the notes' figures of one quantile."""
SAMPLED = "sampling alone is 7.5"
CUT = "no value is beyond the bounds here: it is cut to them"


def _medians(draws: int) -> Iterator[Line]:
    sets, asked = samples("uniform", 1000, 20), Asked(QUANTILE, MILLION, HALF)
    for text, eps in (
        ("0.05", Fraction(1, 20)),
        ("0.8", Fraction(4, 5)),
        ("exp(-32)", Fraction(1, 79 * 10**12)),
    ):
        found = drawn(asked, eps, sets, draws, mechanism="exponential")[:, 0]
        exact = [np.median(sets[at % 20].sorted) for at in range(draws)]
        off = float(np.abs(found - exact).mean()) * WIDTH / MILLION
        yield Line(f"mean distance from the median, epsilon {text}", "", off)
    why = "a score moves by 1 up or down: the rate loses twice as much"
    for order, what, substitution in (
        (HALF, "median, a row added", False),
        (HALF, "median, a row replaced", True),
        (Fraction(9, 10), "0.9 quantile, a row added", False),
    ):
        weight = GapQuantile(order, 200, Fraction(4, 5), 1 << 40)
        moved = rank_range(order, 1, substitution=substitution, grouped=False)
        here = float(weight.loss(moved).epsilon)
        yield Line(f"loss of exp(-0.8|i - pn|), {what}", "0.8", here, why if here > 0.8 else "")


def _least(draws: int) -> Iterator[Line]:
    wanted = Wanted(Fraction(100), Fraction(99, 100))
    for top, why in (
        (WIDTH, "from the number of values alone, and not from the data"),
        (MILLION, "the same on a finer grid"),
    ):
        low, high = Fraction(0), Fraction(4)
        while high - low > Fraction(1, 1000):
            middle = (low + high) / 2
            release = Asked(QUANTILE, top, HALF).planned(middle, ADD_REMOVE)
            kept = release is not None and release.meets(wanted)
            low, high = (low, middle) if kept else (middle, high)
        yield Line(f"epsilon, {top + 1:,} values", "0.99", float(high), why)


def _one(draws: int) -> Iterator[Line]:
    asked, unit = Asked(QUANTILE, MILLION, QUARTER), WIDTH / MILLION
    said = {
        ("exponential", 1000, "0.2"): "order of 100",
        ("laplace", 1000, "0.2"): "2,000,000",
        ("gaussian", 1000, "0.2"): "23,000,000",
    }
    for rows, eps in ((100, FIFTH), (1000, FIFTH), (10, Fraction(1)), (10, Fraction(10))):
        sets, text = samples("uniform", rows, 20), f"{float(eps):g}"
        for mechanism in ("exponential", "laplace", "gaussian"):
            found = drawn(asked, eps, sets, draws, mechanism=mechanism)[:, 0]
            here = float((((found - MILLION / 4) * unit) ** 2).mean())
            notes = said.get((mechanism, rows, text), "")
            why = (CUT if mechanism != "exponential" else SAMPLED) if notes else ""
            yield Line(f"{mechanism}, n = {rows:,}, epsilon {text}", notes, here, why)
    wide, sets = Asked(QUANTILE, 10 * MILLION, QUARTER), samples("uniform", 1000, 20)
    for mechanism in ("exponential", "laplace"):
        found = drawn(wide, FIFTH, sets, draws, mechanism=mechanism)[:, 0]
        here = float((((found - MILLION / 4) * unit) ** 2).mean())
        notes = "order of 90" if mechanism == "exponential" else ""
        why = SAMPLED if notes else ""
        yield Line(f"{mechanism}, n = 1,000, bounds ten times as wide", notes, here, why)


def _listed(
    law: Law, sets: Sequence[Rows], count: int, named: str, epsilon: Fraction, draws: int
) -> Floats:
    """Draw lists; return how far each is from the quantiles of the law, in widths."""
    orders = tuple(Fraction(k, count + 1) for k in range(1, count + 1))
    asked = Asked(QUANTILE, law.top, orders)
    found = drawn(asked, epsilon, sets, draws, mechanism=named)
    exact = law.cells(np.array(list(map(float, orders))))
    return np.asarray((found - exact) / law.top)


def _joint(draws: int) -> Iterator[Line]:
    law, sets = LAWS["uniform"], samples("uniform", 100, 20)
    for eps in (HALF, Fraction(1), Fraction(2), Fraction(5)):
        for named in ("joint", "recursive", "fitted"):
            off = _listed(law, sets, 3, named, eps, draws)
            here = float((off**2).sum(axis=1).mean())
            yield Line(f"{named}, epsilon {float(eps):g}", "", here)


def _many(draws: int) -> Iterator[Line]:
    rows = {law: samples(law, 100, 1) for law in ("uniform", "beta")}
    why = "with 100 rows and epsilon / m, draws apart are sorted chance"
    for count in (9, 59):
        for law, norm in (("uniform", "squares"), ("beta", "largest")):
            risks = []
            for named in ("recursive", "independent"):
                times = max(10, draws // 8)
                off = _listed(LAWS[law], rows[law], count, named, Fraction(1), times)
                each = (off**2).sum(axis=1) if norm == "squares" else np.abs(off).max(axis=1)
                risks.append(float(each.mean()))
            notes = "above 1" if norm == "squares" else "below 1"
            here = risks[0] / risks[1]
            differs = (here > 1) != (notes == "above 1")
            what = f"{norm}, {law}, {count} quantiles"
            yield Line(what, notes, here, why if differs else "")


def _times(draws: int) -> Iterator[Line]:
    sets, orders = samples("uniform", 100, 20), tuple(Fraction(k, 5) for k in range(1, 5))
    asked, times = Asked(QUANTILE, MILLION, orders), 40
    for named in ("independent", "joint", "recursive", "fitted"):
        start = time.perf_counter()
        drawn(asked, Fraction(1), sets, times, mechanism=named)
        yield Line(named, "", 1000 * (time.perf_counter() - start) / times)
    start = time.perf_counter()
    for rows in sets:
        np.quantile(rows.sorted, [0.2, 0.4, 0.6, 0.8])
    yield Line("without privacy", "", 1000 * (time.perf_counter() - start) / len(sets))
    for rows_ in (1000, 10_000):
        more = samples("uniform", rows_, 4)
        start = time.perf_counter()
        drawn(asked, Fraction(1), more, 4, mechanism="joint")
        what = f"joint, n = {rows_:,}"
        here = 1000 * (time.perf_counter() - start) / 4
        yield Line(what, "m n log n + m² n", here, "m n: the weights are summed in passing")


ALL = (
    Figure(
        "medians",
        MEANS,
        "figures 4 to 6",
        "medians of 1,000 values from 0 to 200, by the gaps between them",
        _medians,
    ),
    Figure(
        "least",
        MEANS,
        "figure 7",
        "the least epsilon that is proven to be off by a tenth of 1,000 rows, 99 times in 100",
        _least,
    ),
    Figure(
        "one",
        MEANS,
        "figures 8 to 10",
        "mean squares of the first quartile, of values from 0 to 200, against that of the law",
        _one,
    ),
    Figure(
        "joint",
        MEANS,
        "figure 11",
        "quartiles of 100 values: the sum of the three squares",
        _joint,
    ),
    Figure(
        "many",
        MEANS,
        "figures 12 and 13",
        "recursive over independent draws, of 100 values, by the number of quantiles",
        _many,
    ),
    Figure(
        "times",
        MEANS,
        "figures 14 to 17",
        "milliseconds for four quantiles of 100 values; the notes show them as histograms",
        _times,
    ),
)
