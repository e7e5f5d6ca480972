"""Planes, odds and histograms beside other libraries, and odds beside those of all rows.

Each library has the same rows, bounds and epsilon for all that it fits; what else it needs is
public too, and named. Those that are not installed are left out (the extra `peers`).
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import dpquery
from benchmarks.study.data import Column, Values, connect
from benchmarks.study.figures import markdown

ROWS, SMALL = 100_000, 10_000
DATA_SETS, DRAWS = 3, 20
BINS = 20
GRID = "1e-6"
Fit = Callable[[Values, Values], Values]
"""From columns, and what follows them, to coefficients: of each column, without the
intercept."""


def even(source: np.random.Generator, rows: int, count: int) -> Values:
    return source.random((rows, count))


def skewed(source: np.random.Generator, rows: int, count: int) -> Values:
    """Log-normal, with a tenth of the range for a median."""
    return np.exp(source.normal(math.log(0.1), 0.7, (rows, count))).clip(0, 1)


def correlated(source: np.random.Generator, rows: int, count: int) -> Values:
    """Each with half of its variance in common with the others."""
    both = source.normal(0, 0.1, (rows, 1)) + source.normal(0, 0.1, (rows, count))
    return (0.5 + both).clip(0, 1)


def yes_or_no(source: np.random.Generator, rows: int, count: int) -> Values:
    return (source.random((rows, count)) < 0.3).astype(float)


LAWS = {
    "even": even,
    "skewed": skewed,
    "correlated": correlated,
    "yes or no": yes_or_no,
}


def least_squares(columns: Values, y: Values) -> Values:
    whole = np.column_stack([np.ones(len(y)), columns])
    return np.linalg.lstsq(whole, y, rcond=None)[0][1:]


def least_loss(columns: Values, met: Values) -> Values:
    """Fit odds to all rows, by Newton's steps."""
    whole = np.column_stack([np.ones(len(met)), columns])
    found = np.zeros(whole.shape[1])
    for _ in range(15):
        odds = 1 / (1 + np.exp(-whole @ found))
        bend = (whole.T * (odds * (1 - odds))) @ whole + 1e-9 * np.eye(len(found))
        found += np.linalg.solve(bend, whole.T @ (met - odds))
    return found[1:]


def plane(source: np.random.Generator, columns: Values) -> Values:
    """Return what follows the columns by a plane, with as much chance again."""
    slopes = np.linspace(0.5, -0.3, columns.shape[1]) / math.sqrt(columns.shape[1])
    whole = columns @ slopes
    y = 0.5 + whole - whole.mean() + source.normal(0, max(whole.std(), 0.01), len(columns))
    return y.clip(0, 1)


def odds(source: np.random.Generator, columns: Values, strength: float) -> Values:
    """Return what is met by log-odds of a deviation about the middle."""
    about = (columns - columns.mean(0)) / columns.std(0)
    score = about.sum(1) / math.sqrt(columns.shape[1]) * strength
    return (source.random(len(columns)) < 1 / (1 + np.exp(0.5 - score))).astype(float)


@dataclass(frozen=True)
class Task:
    """What is asked of all libraries."""

    name: str
    law: str
    rows: int
    count: int
    kind: str

    def data(self, seed: int) -> tuple[Values, Values]:
        source = np.random.default_rng([20261120, seed, self.rows, self.count])
        columns = LAWS[self.law](source, self.rows, self.count).round(6)
        if self.kind == "plane":
            return columns, plane(source, columns).round(6)
        return columns, odds(source, columns, 1.0)

    def exact(self, columns: Values, y: Values) -> Values:
        return (least_squares if self.kind == "plane" else least_loss)(columns, y)


TASKS = (
    *(
        Task(f"plane of 5 columns, {ROWS:,} rows", law, ROWS, 5, "plane")
        for law in list(LAWS)[:3]
    ),
    Task(f"plane of 2 columns, {SMALL:,} rows", "even", SMALL, 2, "plane"),
    *(Task(f"odds by 2 columns, {SMALL:,} rows", law, SMALL, 2, "odds") for law in LAWS),
)


def ours(columns: Values, y: Values, folder: Path, kind: str) -> Callable[[], Values]:
    names = [f"x{place}" for place in range(columns.shape[1])]
    table = {name: Column(columns[:, at], 1, GRID) for at, name in enumerate(names)}
    session = connect(folder, {"y": Column(y, 1, GRID), **table})
    listed = ", ".join(names)
    call = f"DP_LINREG(y, [{listed}]" if kind == "plane" else f"DP_LOGREG(y > 0.5, [{listed}]"
    query = f"SELECT {call}, eps=1) FROM people"
    return lambda: np.array(session.sql(query, refresh=True).rows[0][0][1:])


def diffprivlib(columns: Values, y: Values, kind: str) -> Callable[[], Values]:
    """Linear regression by perturbed second moments, logistic by a perturbed objective."""
    from diffprivlib import models

    def fitted() -> Values:
        if kind == "plane":
            count = columns.shape[1]
            model = models.LinearRegression(
                epsilon=1, bounds_X=([0] * count, [1] * count), bounds_y=(0, 1)
            )
            return np.array(model.fit(columns, y).coef_).ravel()
        norm = math.sqrt(columns.shape[1])
        model = models.LogisticRegression(epsilon=1, data_norm=norm, C=1e6, max_iter=1000)
        return np.array(model.fit(columns, y).coef_).ravel()

    return fitted


def measured(folder: Path) -> Iterator[tuple[Task, str, float, float, float]]:
    """Give, of each task and library, the error, the farthest of 95 in 100, and the time."""
    for number, task in enumerate(TASKS):
        libraries = ["dpquery"]
        if find_spec("diffprivlib") is not None:
            libraries.append("diffprivlib")
        for library in libraries:
            off, start = [], time.process_time()
            for seed in range(DATA_SETS):
                columns, y = task.data(seed)
                exact = task.exact(columns, y)
                place = folder / f"fits-{number}-{seed}"
                draw = (
                    ours(columns, y, place, task.kind)
                    if library == "dpquery"
                    else diffprivlib(columns, y, task.kind)
                )
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    found = [draw() for _ in range(DRAWS)]
                off += [
                    float(np.linalg.norm(one - exact) / np.linalg.norm(exact)) for one in found
                ]
            seconds = (time.process_time() - start) / len(off)
            yield (
                task,
                library,
                math.sqrt(np.mean(np.square(off))),
                float(np.quantile(off, 0.95)),
                seconds,
            )


# Histograms: counts of bins of salaries.


def _edges() -> Values:
    return np.linspace(0, 1, BINS + 1)


def histograms(folder: Path) -> Iterator[tuple[str, float]]:
    """Give the root mean square error of the counts of each library."""
    source = np.random.default_rng(20261120)
    values = skewed(source, SMALL, 1)[:, 0].round(6)
    exact, _ = np.histogram(values, _edges())
    session = connect(folder / "fits-bins", {"x": Column(values, 1, GRID)})
    inner = [float(f"{end:.2f}") for end in _edges()[1:-1]]
    query = f"SELECT DP_HISTOGRAM(x, {inner}, eps=1) FROM people"
    makers: dict[str, Callable[[], Values]] = {
        "dpquery": lambda: np.array(session.sql(query, refresh=True).rows[0][0]),
    }
    if find_spec("diffprivlib") is not None:
        from diffprivlib.tools import histogram

        makers["diffprivlib"] = lambda: histogram(values, epsilon=1, bins=BINS, range=(0, 1))[0]
    if find_spec("opendp") is not None:
        makers["OpenDP"] = _opendp_bins(values)
    for name, maker in makers.items():
        found = [maker() for _ in range(100)]
        yield name, math.sqrt(np.mean([(one - exact) ** 2 for one in found]))


def _opendp_bins(values: Values) -> Callable[[], Values]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.symmetric_distance()
    counted = (
        space
        >> dp.t.then_find_bin(edges=_edges()[1:-1].tolist())
        >> dp.t.then_count_by_categories(categories=list(range(BINS)), null_category=False)
    )
    noisy = dp.binary_search_chain(
        lambda scale: counted >> dp.m.then_laplace(scale=scale), d_in=1, d_out=1.0
    )
    return lambda: np.array(noisy(values.tolist()))


# Odds without noise: what taking columns for normal within their bounds does to coefficients.


def biases() -> Iterator[tuple[str, int, float, float]]:
    """Give how far coefficients by moments are from those of all rows, of several laws."""
    from dpquery.functions.moments.coefficient_intervals import Normal
    from dpquery.functions.moments.logistic import fitted

    for law, made in LAWS.items():
        for count in (1, 3):
            for strength in (0.5, 1.0, 2.0):
                source = np.random.default_rng([20261120, count])
                columns = made(source, SMALL * 2, count)
                met = odds(source, columns, strength)
                exact, spread = least_loss(columns, met), columns.std(0)
                u, y = 2 * columns - 1, 2 * met - 1
                about = u - u.mean(0)
                mean, inner, outer = float(y.mean()), about.T @ about, about.T @ y
                of = Normal(len(u), mean, u.mean(0), inner, outer)
                found = 2 * fitted(of, 0.0)[1]
                off = np.linalg.norm((found - exact) * spread)
                yield law, count, strength, float(off / np.linalg.norm(exact * spread))


TEXT = """\
## Planes, odds and histograms, beside other libraries

Coefficients at epsilon 1, beside those of least squares, or of the least log-loss, over all
rows: the length of the error over that of the coefficients, in percent; between 0 and 1 all
columns, and known to be. Log-odds have a deviation of 1. diffprivlib's odds are told the length
of a row, and penalised by C = 1e6, hardly at all; its neighbours have one row replaced.

{fits}

Counts of {bins} bins of {rows:,} skewed values at epsilon 1, root mean square error; all
draw from one law, of variance 1.84, and ours are then made to have none below zero:

{counted}

What odds by moments are off without any noise, in percent, at log-odds of deviation 0.5, 1 and
2: columns are taken for normal within their bounds.

{biases}
"""


def text(folder: Path) -> str:
    """Write what was measured."""
    fits = [
        ["", "columns", "library", "error", "95 in 100", "ms"],
        *(
            [
                task.name,
                task.law,
                library,
                f"{100 * e:.2g}",
                f"{100 * far:.2g}",
                f"{1000 * s:,.0f}",
            ]
            for task, library, e, far, s in measured(folder)
        ),
    ]
    counted = [["", "rows"], *([name, f"{e:.2f}"] for name, e in histograms(folder))]
    table: dict[tuple[str, int], list[str]] = {}
    for law, count, _, off in biases():
        table.setdefault((law, count), []).append(f"{100 * off:.2g}")
    bias = [
        ["columns", "of them", "0.5", "1", "2"],
        *([law, str(count), *cells] for (law, count), cells in table.items()),
    ]
    return TEXT.format(
        fits=markdown(fits),
        bins=BINS,
        rows=SMALL,
        counted=markdown(counted),
        biases=markdown(bias),
    )


if __name__ == "__main__":
    import tempfile

    print(dpquery.__version__)
    with tempfile.TemporaryDirectory() as folder:
        print(text(Path(folder)))
