"""Every mechanism of quantiles on every law, each against the best of its setting.

A setting is a law, a number of rows, an epsilon and a number of orders. Mechanisms come from
the registry of `DP_QUANTILE`: one that is added appears here by itself. Errors are rows between
the rank asked for and the ranks that a released value has, on the column's own grid.
"""

from __future__ import annotations

import csv
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import dpquery
from benchmarks.study.data import Column, Values, connect, draws, salaries_in_hundreds
from benchmarks.study.figures import Figure
from dpquery.functions.order_statistics.quantile import OF_LISTS, OF_RANKS

COUNTS = (1, 3, 9, 29, 99)
SIZES = (100, 1000, 100_000)
EPSILONS = ("0.1", "1")
SMOOTH, ATOMS = ("uniform", "normal", "beta"), ("salaries",)
FLOOR = 0.05
"""Rows added to each error before errors are compared: some are zero."""
SECONDS = 8
"""What one mechanism may take for a setting in a data set: slow ones are drawn less often."""
NEAR = 1.2
"""How far the default may be behind the best, in geometric mean."""


HEAD = (
    "law", "rows", "epsilon", "orders", "mechanism", "draws", "rank_error", "standard_error",
    "value_rmse",
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    law: str
    rows: int
    epsilon: str
    count: int

    @property
    def orders(self) -> tuple[float, ...]:
        return tuple(round(k / (self.count + 1), 6) for k in range(1, self.count + 1))

    def call(self, mechanism: str | None) -> str:
        """Write a call; of one order as a list where the mechanism draws lists."""
        alone = self.count == 1 and mechanism in (None, *OF_RANKS)
        orders = self.orders[0] if alone else list(self.orders)
        named = "" if mechanism is None else f", mechanism='{mechanism}'"
        return f"DP_QUANTILE({self.law}, {orders}, eps={self.epsilon}{named})"

    @property
    def draws(self) -> int:
        """Draws for each that is asked for: one value errs more unevenly than many."""
        return {1: 4, 3: 2}.get(self.count, 1)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return (*OF_RANKS, *OF_LISTS) if self.count == 1 else OF_LISTS


@dataclass(frozen=True)
class Result:
    """Mean rank error of one mechanism in one setting, over draws and data sets."""

    setting: Setting
    mechanism: str
    draws: int
    error: float
    deviation: float
    """Standard deviation of the mean."""
    value: float
    """Root mean square error of values, as a share of the distance between the bounds."""

    @property
    def size(self) -> float:
        return math.log(self.error + FLOOR)

    @property
    def variance(self) -> float:
        """The variance of `size`, to first order."""
        return (self.deviation / (self.error + FLOOR)) ** 2


def columns(generator: np.random.Generator, rows: int) -> dict[str, Column]:
    """Draw four laws; the values of salaries alone lie on their grid."""
    return {
        "uniform": Column(generator.random(rows), 1, "1e-9"),
        "normal": Column(generator.normal(10, 1, rows), 20, "1e-8"),
        "beta": Column(generator.beta(2, 2, rows), 1, "1e-9"),
        "salaries": Column(salaries_in_hundreds(generator, rows), 1_000_000, "25"),
    }


def measured(folder: Path, sets: int, times: int) -> list[Result]:
    """Ask every mechanism in every setting so many times in so many data sets."""
    found: dict[tuple[Setting, str], list[tuple[Values, Values]]] = defaultdict(list)
    for rows in SIZES:
        for number in range(sets):
            tables = columns(np.random.default_rng([rows, number]), rows)
            with connect(folder / f"quantiles-{rows}-{number}", tables) as session:
                for key, errors in _asked(session, tables, rows, times):
                    found[key].append(errors)
    return [_result(*key, errors) for key, errors in found.items()]


def _asked(
    session: dpquery.Session, tables: dict[str, Column], rows: int, times: int
) -> Iterator[tuple[tuple[Setting, str], tuple[Values, Values]]]:
    for law, column in tables.items():
        of_law = Codes.of(column)
        for epsilon in EPSILONS:
            for count in COUNTS:
                setting = Setting(law, rows, epsilon, count)
                for mechanism in setting.mechanisms:
                    found = _drawn(session, setting.call(mechanism), times * setting.draws)
                    if found is not None:
                        found = found.reshape(-1, count)
                        yield (setting, mechanism), of_law.errors(found, setting.orders)


def _drawn(session: dpquery.Session, call: str, times: int) -> Values | None:
    """Draw one value or list, and as many more as there is time for; nothing if refused."""
    start = time.perf_counter()
    try:
        first = draws(session, call, 1)
    except dpquery.QueryRefused:
        return None
    fitting = int(SECONDS / (time.perf_counter() - start))
    more = min(times - 1, fitting)
    return first if more < 1 else np.concatenate([first, draws(session, call, more)])


@dataclass(frozen=True)
class Codes:
    """The values of a column as cells of its grid, sorted."""

    sorted: Values
    grid: float
    high: float

    @classmethod
    def of(cls, column: Column) -> Codes:
        grid = float(column.grid)
        return cls(np.sort(np.rint(column.values / grid)), grid, column.high)

    def errors(self, found: Values, orders: Sequence[float]) -> tuple[Values, Values]:
        """Return rows and squared values that draws are off, each the mean over the orders."""
        cells, targets = np.rint(found / self.grid), np.array(orders) * len(self.sorted)
        below = np.searchsorted(self.sorted, cells, "left")
        up_to = np.searchsorted(self.sorted, cells, "right")
        rows = np.maximum(0, np.maximum(below - targets, targets - up_to))
        exact = self.sorted[np.ceil(targets).astype(int) - 1]
        values = (cells - exact) * self.grid / self.high
        return rows.mean(axis=1), (values**2).mean(axis=1)


def _result(setting: Setting, mechanism: str, found: list[tuple[Values, Values]]) -> Result:
    rows, values = (np.concatenate(part) for part in zip(*found, strict=True))
    deviation = rows.std(ddof=1) / math.sqrt(len(rows)) if len(rows) > 1 else math.inf
    value = math.sqrt(values.mean())
    return Result(setting, mechanism, len(rows), float(rows.mean()), float(deviation), value)


@dataclass(frozen=True)
class Share:
    """How many times the error of the best a mechanism's is, in geometric mean of settings."""

    ratio: float
    deviation: float
    """Relative standard error."""


Shares = dict[tuple[str, int, str], Share]
"""By laws (smooth, atoms, all), number of orders, and mechanism."""


def shares(results: Iterable[Result]) -> Shares:
    """Compare mechanisms within their settings, for smooth laws, for atoms, and for all."""
    settings: dict[Setting, dict[str, Result]] = defaultdict(dict)
    for result in results:
        settings[result.setting][result.mechanism] = result
    logs: dict[tuple[str, int, str], list[tuple[float, float]]] = defaultdict(list)
    for setting, of in settings.items():
        best = min(of.values(), key=lambda result: result.size)
        for name, result in of.items():
            apart = result.size - best.size
            variance = 0.0 if result is best else result.variance + best.variance
            for laws in ("smooth" if setting.law in SMOOTH else "atoms", "all"):
                logs[laws, setting.count, name].append((apart, variance))
    return {key: _share(found) for key, found in logs.items()}


def _share(found: Sequence[tuple[float, float]]) -> Share:
    apart, variances = zip(*found, strict=True)
    number = len(found)
    return Share(math.exp(sum(apart) / number), math.sqrt(sum(variances)) / number)


def default_of(folder: Path) -> dict[int, str]:
    """Ask EXPLAIN which mechanism each number of orders gets."""
    tables = columns(np.random.default_rng(0), SIZES[0])
    with connect(folder / "defaults", tables) as session:
        return {
            count: session.explain(
                f"SELECT {Setting('uniform', 0, '1', count).call(None)} FROM people"
            ).steps[0].mechanism
            for count in COUNTS
        }  # fmt: skip


def figures(
    compared: Shares, defaults: dict[int, str], results: Sequence[Result]
) -> Iterator[Figure]:
    """Require the default to be near the best, for each number of orders over all laws.

    Three standard errors are allowed for on top.
    """
    for count, name in defaults.items():
        of = {key[2]: share for key, share in compared.items() if key[:2] == ("all", count)}
        best = min(of, key=lambda one: of[one].ratio)
        behind = of[name].ratio / of[best].ratio
        spare = 0.0 if name == best else math.hypot(of[name].deviation, of[best].deviation)
        yield replace(
            Figure.within(
                (f"default of {count} quantiles", f"{name}; best: {best}"),
                sum(one.draws for one in results if one.setting.count == count),
                behind, 1, (1, round(NEAR * (1 + 3 * spare), 2)),
            ),
            required=f"at most {NEAR}, and 3 standard errors",
        )  # fmt: skip


def write(results: Sequence[Result], path: Path) -> None:
    """Write one line per setting and mechanism."""
    with path.open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(HEAD)
        for one in results:
            of = one.setting
            lines.writerow(
                [of.law, of.rows, of.epsilon, of.count, one.mechanism, one.draws]
                + [f"{number:.4g}" for number in (one.error, one.deviation, one.value)]
            )
