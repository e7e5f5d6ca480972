"""Many quantiles on loose bounds, and whether ranks are off as far as is said.

Percentiles: the default beside the tree and the recursion, on salaries between bounds that are
tight and that are not, with values that many people share and without. Claims: what
`rank_interval` says at 0.95 beside how far the farthest of a list is off, over data that are
even and that are not, and as many rows as EXPLAIN asks for or more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import stats

import dpquery
from benchmarks.study.data import Column, Values, connect, draws
from benchmarks.study.figures import Figure

PERCENTILES = [k / 100 for k in range(1, 100)]
BOUNDS = {"[0, 300000]": 300_000, "[0, 2^40]": 2**40}
SIZES, EPSILONS, LISTS = (1000, 10_000, 100_000), ("0.1", "1"), 6
NEAR = 1.2
"""How far the default may be behind the best, in geometric mean over settings."""
CLAIMED = {
    "median": ([0.5], "DP_QUANTILE({}, 0.5, eps={})", 2000),
    "90 %": ([0.9], "DP_QUANTILE({}, 0.9, eps={})", 2000),
    "nine deciles": (
        [k / 10 for k in range(1, 10)],
        f"DP_QUANTILE({{}}, {[k / 10 for k in range(1, 10)]}, eps={{}})",
        50,
    ),
    "99 percentiles": (PERCENTILES, f"DP_QUANTILE({{}}, {PERCENTILES}, eps={{}})", 20),
}
ROWS = (100, 1000, 10_000, 100_000)


def salaries(generator: np.random.Generator, rows: int) -> dict[str, Values]:
    """Log-normal whole numbers: as they are, clamped above, and a fifth of them equal."""
    values = np.exp(generator.normal(10.6, 0.6, rows)).round()
    shared = np.where(generator.random(rows) < 0.2, 42_000, values)
    clamped = np.minimum(values, np.quantile(values, 0.96).round())
    return {"alone": values, "clamped": clamped, "shared": shared}


def figures(folder: Path) -> Iterator[Figure]:
    """Percentiles first, then claims."""
    yield from _percentiles(folder)
    yield from _claims(folder)


def _percentiles(folder: Path) -> Iterator[Figure]:
    for number, (named, top) in enumerate(BOUNDS.items()):
        logs: dict[str, list[float]] = {"default": [], "tree": [], "recursive": []}
        for rows in SIZES:
            laws = salaries(np.random.default_rng([rows, number]), rows)
            columns = {
                name: Column(values.clip(0, 3e5), top, "1") for name, values in laws.items()
            }
            with connect(folder / f"percentiles-{number}-{rows}", columns) as session:
                for name, column in columns.items():
                    for epsilon in EPSILONS:
                        for kind, found in logs.items():
                            found.append(_size(session, name, column.values, epsilon, kind))
        means = {kind: math.exp(sum(found) / len(found)) for kind, found in logs.items()}
        best = min(means["tree"], means["recursive"])
        yield Figure.within(
            ("99 percentiles: rank RMSE of the default / the best", f"salaries, {named}"),
            LISTS * len(logs["default"]), means["default"] / best, 1, (0, NEAR),
        )  # fmt: skip


def _size(
    session: dpquery.Session, name: str, values: Values, epsilon: str, kind: str
) -> float:
    named = "" if kind == "default" else f", mechanism='{kind}'"
    call = f"DP_QUANTILE({name}, {PERCENTILES}, eps={epsilon}{named})"
    off = _off(values, draws(session, call, LISTS).reshape(LISTS, -1), PERCENTILES)
    return math.log(math.sqrt(float((off**2).mean())) + 0.05)


def _off(values: Values, found: Values, orders: list[float]) -> Values:
    """How many rows each released value is away from the rank asked for."""
    ordered, targets = np.sort(values), np.array(orders) * len(values)
    below = np.searchsorted(ordered, found - 1e-4)
    up_to = np.searchsorted(ordered, found + 1e-4)
    return np.maximum(0, np.maximum(below - targets, targets - up_to))


def _claims(folder: Path) -> Iterator[Figure]:
    for rows in ROWS:
        generator = np.random.default_rng(rows)
        columns = {
            "even": Column(
                generator.choice(3 * 10**6, rows, replace=False) / 10, 300_000, "0.1"
            ),
            "pay": Column(np.exp(generator.normal(10.6, 0.6, rows)).clip(0, 3e5), 3e5, "0.01"),
        }
        with connect(folder / f"claims-{rows}", columns) as session:
            for name, column in columns.items():
                for what, (orders, text, count) in CLAIMED.items():
                    for epsilon in EPSILONS:
                        call = text.format(name, epsilon)
                        if _rows_for(session, call) <= rows:
                            yield _claim(session, call, (what, name), column, orders, count)


def _rows_for(session: dpquery.Session, call: str) -> int:
    """Read off EXPLAIN over how many rows it is said."""
    error = session.explain(f"SELECT {call} FROM people").steps[0].expected_error
    return int(error.split("over ")[1].split(" or more")[0].replace(",", ""))


def _claim(
    session: dpquery.Session,
    call: str,
    named: tuple[str, str],
    column: Column,
    orders: list[float],
    count: int,
) -> Figure:
    asked = session.sql(f"SELECT {call} AS q FROM people", refresh=True)
    (said,) = asked.rank_interval("q", 0.95)
    found = draws(session, call, count).reshape(-1, len(orders))
    farthest = _off(column.values, found, orders).max(axis=1)
    misses, near = int((farthest > said).sum()), float(np.quantile(farthest, 0.95))
    return Figure(
        f"{named[0]}, {call.split('eps=')[1].rstrip(')')}: said / 95 % of the farthest",
        f"{named[1]}, {len(column.values):,} rows",
        count,
        said / max(near, 1),
        1.4,
        "misses 1 in 20 at most, P < 1e-6; said at most twice",
        bool(misses <= stats.binom.isf(1e-6, count, 0.05) and said <= 2 * max(near, 2)),
    )
