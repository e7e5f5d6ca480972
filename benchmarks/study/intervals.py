"""How often stated 95 % intervals hold the exact value, and how wide they are.

`python -m benchmarks.study intervals [DRAWS]` prints the table of `docs/accuracy.md`. Releases
are planned as the engine plans them and drawn many times from one vector of exact integers,
without SQL: two thousand draws of a mean take a second. Of each function, over rows from 10 to
100,000, epsilon 0.1 and 1, units with one row and with several (1, 2 or 4, of which 2 count),
alone and in groups where units are replaced, and two laws of values:

* coverage: the least and the largest share of draws whose interval holds the exact value;
* width: the mean width over that of the range that 95 in 100 of the released values are in.
  1.25 is what is wanted. Of slopes, whose intervals have no end where noise hides how x varies,
  the median width is taken. First at the median and the worst of the settings in which rows
  weigh ENOUGH times as much as the noise in one sum, then at the worst of the others, of 100
  rows or more: there both are as wide as bounds allow, and values are drawn to their middle.

Of quantiles the same is said of ranks: by the exact law of the place that is drawn.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache

import numpy as np

from benchmarks.study.figures import markdown
from dpquery.core.privacy_loss import Neighbours
from dpquery.core.source_text import Span
from dpquery.core.types import BOOLEAN, INTEGER
from dpquery.functions.base import Facts, Release
from dpquery.ir.expr import Compare, Comparison, Expr, Literal
from dpquery.ir.measures import CountRows, Histogram, Measure
from dpquery.ir.query import Call, Contribution
from dpquery.mechanisms import Randomness
from tests.functions.tables import call, column, plan

LEVEL, TOP = Fraction(95, 100), 100
SIZES, EPSILONS, DRAWS = (10, 100, 1000, 10_000, 100_000), ("0.1", "1"), 2000
ENOUGH, FEW = 50, 100
ENDLESS = {"DP_REGR_SLOPE", "DP_REGR_INTERCEPT", "DP_LINREG"}
EDGES = (20, 40, 60)
COLUMNS = tuple(replace(column(INTEGER, 0, TOP), name=name) for name in "xyz")
HEAD = ("function", "coverage, %", "width: median", "worst", "worst, much noise", "worst at")


@dataclass(frozen=True)
class Rows:
    """Values of three columns, and what each row weighs, in rows and in whole parts."""

    values: np.ndarray
    weights: np.ndarray
    parts: np.ndarray

    @property
    def total(self) -> float:
        return float(self.weights.sum())

    def mean(self, of: np.ndarray) -> float:
        return float((self.weights * of).sum() / self.total)

    def moment(self, one: int, other: int) -> float:
        x, y = self.values[one], self.values[other]
        return self.mean((x - self.mean(x)) * (y - self.mean(y)))

    def below(self, at: int) -> float:
        return float(self.weights[self.values[0] <= at].sum())


@cache
def rows_of(law: str, count: int, limit: int | None) -> Rows:
    """Return rows of a law; with a limit, of units with 1, 2 or 4 rows each."""
    generator = np.random.default_rng([count, len(law)])
    first, second, third = generator.random((3, count))
    if law == "skewed":
        first = np.exp(generator.normal(-1.8, 0.6, count)).clip(0, 1)
    second = (0.5 * first + 0.5 * second).clip(0, 1)
    values = np.rint(np.stack([first, second, third]) * TOP).astype(np.int64)
    parts = np.ones(count, np.int64)
    if limit is not None:
        of_units = np.resize([1, 2, 2, 4, 4, 4, 4], count)
        parts = 2**32 * np.minimum(limit, of_units) // of_units
    return Rows(values, parts / (1 if limit is None else 2**32), parts)


class Repeated:
    """The same exact integers in many groups: as many independent draws."""

    def __init__(self, rows: Rows, release: Release, draws: int) -> None:
        scale = release.measure.weight.scale
        self.groups, self._rows = draws, rows
        self._parts = rows.parts if scale == 1 else rows.parts >> 33 - scale.bit_length()
        self._known: dict[Measure, int] = {}
        self._points = [m.condition for m in release.measures if isinstance(m, CountRows)]

    def values(self, measure: Measure) -> tuple[int, ...]:
        if measure not in self._known:
            self._known[measure] = self._sum(measure)
        return (self._known[measure],) * self.groups

    def _sum(self, measure: Measure) -> int:
        parts = self._parts.astype(object)
        if isinstance(measure, CountRows) and len(self._points) == len(EDGES) + 1:
            place = self._points.index(measure.condition)
            return int(parts[np.searchsorted(EDGES, self._rows.values[0]) == place].sum())
        for code in measure.factors:
            known = {"x": 0, "y": 1, "z": 2}[code.expr.name]
            parts = parts * (self._rows.values[known] - code.origin)
        return int(parts.sum())

    def histogram(
        self, measure: Histogram, group: int, low: int, high: int, width: int
    ) -> np.ndarray:
        cells = np.bincount(self._rows.values[0], self._parts, TOP + 1).astype(np.int64)
        return np.add.reduceat(cells[low:high], np.arange(0, high - low, width))

    def histograms(
        self, measure: Histogram, requests: Sequence[tuple[int, int, int, int]]
    ) -> Sequence[np.ndarray]:
        return [self.histogram(measure, *one) for one in requests]


@dataclass(frozen=True)
class Asked:
    """One row of the table: a call, and what it would give without noise."""

    names: str
    call: Callable[[str], Call]
    exact: Callable[[Rows], float | list[float]]


def _of(name: str, *places: int) -> Callable[[str], Call]:
    exprs = tuple(COLUMNS[place] for place in places)
    return lambda eps: call(name, exprs if places else None, eps=eps)


def _points(name: str) -> Callable[[str], Call]:
    at, span = COLUMNS[0], Span(0, 0)
    ends = (Compare(span, Comparison.LE, at, Literal(span, end, INTEGER)) for end in EDGES)
    points: tuple[Expr, ...] = tuple(ends)
    return lambda eps: replace(call(name, at, eps=eps), points=points)


def _share(name: str) -> Callable[[str], Call]:
    flag = replace(column(BOOLEAN), name="x")
    return lambda eps: call(name, flag, eps=eps)


def _plane(rows: Rows) -> list[float]:
    y, *columns = rows.values
    root = np.sqrt(rows.weights)
    design = np.stack([np.ones(len(y)), *columns], 1) * root[:, None]
    return [float(one) for one in np.linalg.lstsq(design, y * root, rcond=None)[0]]


def _corr(rows: Rows) -> float:
    return rows.moment(1, 0) / np.sqrt(rows.moment(0, 0) * rows.moment(1, 1))


def _slope(rows: Rows) -> float:
    return rows.moment(1, 0) / rows.moment(0, 0)


def _base(rows: Rows) -> float:
    return rows.mean(rows.values[1]) - _slope(rows) * rows.mean(rows.values[0])


def _sample(rows: Rows) -> float:
    return rows.total / (rows.total - 1)


def _flags(rows: Rows) -> np.ndarray:
    return rows.values[0] > EDGES[1]


def _counts(rows: Rows) -> list[float]:
    below = [0.0, *map(rows.below, EDGES), rows.total]
    return [high - low for low, high in itertools.pairwise(below)]


TABLE = (
    Asked("COUNT, COUNT_IF", _of("DP_COUNT"), lambda rows: rows.total),
    Asked("SUM", _of("DP_SUM", 0), lambda rows: rows.mean(rows.values[0]) * rows.total),
    Asked("AVG", _of("DP_AVG", 0), lambda rows: rows.mean(rows.values[0])),
    Asked("PROPORTION", _share("DP_PROPORTION"), lambda rows: rows.mean(_flags(rows))),
    Asked("VAR_POP", _of("DP_VAR_POP", 0), lambda rows: rows.moment(0, 0)),
    Asked("VAR_SAMP", _of("DP_VAR_SAMP", 0), lambda rows: rows.moment(0, 0) * _sample(rows)),
    Asked("STDDEV_POP", _of("DP_STDDEV_POP", 0), lambda rows: rows.moment(0, 0) ** 0.5),
    Asked("STDDEV_SAMP", _of("DP_STDDEV_SAMP", 0),
          lambda rows: (rows.moment(0, 0) * _sample(rows)) ** 0.5),
    Asked("COVAR_POP", _of("DP_COVAR_POP", 1, 0), lambda rows: rows.moment(1, 0)),
    Asked("COVAR_SAMP", _of("DP_COVAR_SAMP", 1, 0),
          lambda rows: rows.moment(1, 0) * _sample(rows)),
    Asked("CORR", _of("DP_CORR", 1, 0), _corr),
    Asked("REGR_R2", _of("DP_REGR_R2", 1, 0), lambda rows: _corr(rows) ** 2),
    Asked("REGR_SLOPE", _of("DP_REGR_SLOPE", 1, 0), _slope),
    Asked("REGR_INTERCEPT", _of("DP_REGR_INTERCEPT", 1, 0), _base),
    Asked("LINREG, each coefficient", _of("DP_LINREG", 0, 1, 2), _plane),
    Asked("HISTOGRAM, each count", _points("DP_HISTOGRAM"), _counts),
    Asked("CDF, each share", _points("DP_CDF"),
          lambda rows: [rows.below(at) / rows.total for at in EDGES]),
)  # fmt: skip


@dataclass(frozen=True)
class Found:
    """What came out at one setting, of one value."""

    setting: str
    rows: int
    signal: float
    """What rows weigh, over the noise in one sum."""
    coverage: float
    ratio: float


def settings() -> Iterator[tuple[str, int, str, Facts, int | None]]:
    """Return the law, the rows, the epsilon, what is public, and the limit of rows."""
    one, several = Contribution("unit", True, 1), Contribution("unit", False, 2)
    kinds = (
        (Facts(one, Neighbours.ADD_REMOVE, 1, False), None),
        (Facts(several, Neighbours.ADD_REMOVE, 1, False), 2),
        (Facts(one, Neighbours.SUBSTITUTE, 5, True), None),
    )
    for law, count, eps, (facts, limit) in itertools.product(
        ("even", "skewed"), SIZES, EPSILONS, kinds
    ):
        yield law, count, eps, facts, limit


def measured(asked: Asked, draws: int) -> Iterator[Found]:
    """Draw one function at each setting."""
    for law, count, eps, facts, limit in settings():
        rows = rows_of(law, count, limit)
        release = plan(asked.call(eps), facts)
        if release.function == "DP_PROPORTION":
            rows = replace(rows, values=_flags(rows)[None].astype(np.int64))
        cells = release.run(Repeated(rows, release, draws), Randomness())
        known = rows_of(law, count, limit)
        kind = "several rows" if limit else "replaced" if facts.grouped else "one row"
        setting = f"{count:,} {law}, ε {eps}, {kind}"
        exact, values = np.array(asked.exact(known), float), [cell.value for cell in cells]
        ends = [np.array(cell.interval(LEVEL), float) for cell in cells]
        shown = np.array(values, float).reshape(draws, -1)
        low, high = np.array([one.reshape(2, -1) for one in ends]).transpose(1, 0, 2)
        slack = 1e-9 * np.maximum(1, abs(exact))
        held = (low <= exact + slack) & (exact <= high + slack)
        row = facts.contribution.limit * (2 if facts.grouped else 1)
        signal = known.total * float(eps) / row
        of_widths = np.median if release.function in ENDLESS else np.mean
        for at in range(shown.shape[1]):
            near = np.subtract(*np.quantile(shown[:, at], [0.975, 0.025]))
            width = of_widths(high[:, at] - low[:, at])
            yield Found(
                setting, count, signal, held[:, at].mean(), width / near if near else np.nan
            )


def line(asked: Asked, draws: int) -> tuple[str, ...]:
    """Return the row of a function."""
    found = [one for one in measured(asked, draws) if np.isfinite(one.coverage)]
    many = [one for one in found if one.rows >= FEW and one.ratio > 0]
    clear = [one for one in many if one.signal >= ENOUGH]
    noisy = [one for one in many if one.signal < ENOUGH]
    worst = max(clear, key=lambda one: one.ratio)
    held = [one.coverage for one in found]
    return (
        asked.names,
        f"{100 * min(held):.1f} to {100 * max(held):.1f}",
        f"{np.median([one.ratio for one in clear]):.2f}",
        _shown(worst.ratio),
        _shown(max(one.ratio for one in noisy)),
        worst.setting,
    )


def _shown(ratio: float) -> str:
    return f"{ratio:.2f}" if np.isfinite(ratio) else "no end"


def main(words: Sequence[str]) -> int:
    """Print the table, a line as soon as it is known."""
    draws = int(words[0]) if words else DRAWS
    chosen = [one for one in TABLE if not words[1:] or one.names.split(",")[0] in words[1:]]
    lines = [HEAD]
    for asked in chosen:
        lines.append(line(asked, draws))
        print(" | ".join(lines[-1]), file=sys.stderr, flush=True)
    print(markdown(lines))
    return 0
