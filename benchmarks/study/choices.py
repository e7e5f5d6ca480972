"""The most frequent values, and the first above a threshold, beside grouped counts at one ε.

`DP_TOP_K(x, k)` against the k largest of `GROUP BY x`, and `DP_FIRST_ABOVE(x, t)` against the
first group with a noisy count above t: what an analyst could write instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dpquery
from benchmarks.study.figures import Figure

ROWS, VALUES, EPSILON = 10_000, 100, "0.1"
SIZES = (1, 2, 3, 5, 10, 15, 20)
DRAWS = 300
DEVIATIONS = 5
"""How far behind the mean of so many draws may be, where the laws are one: P < 1e-6."""
THRESHOLD = 50
POLICY = """\
[privacy]
neighbours = "add-remove"
[budget]
epsilon = 1000000000
[tables.visits]
path = "visits.parquet"
privacy_unit_column = "person"
rows_per_unit = 1
[tables.visits.columns]
page = { type = "integer", bounds = [1, 100] }
late = { type = "integer", bounds = [1, 100] }
"""


def zipf() -> np.ndarray:
    """How many rows each page has: most at page 1, falling as 1 / page."""
    shares = 1 / np.arange(1, VALUES + 1)
    return np.floor(ROWS * shares / shares.sum()).astype(int)


def late() -> np.ndarray:
    """How many rows each value has: next to none, and from the 51st on 100."""
    return np.where(np.arange(VALUES) < VALUES // 2, 0, 100)


def connect(folder: Path) -> dpquery.Session:
    """Write the table `visits` and its policy, and open a session on it."""
    folder.mkdir()
    pages, others = (np.repeat(np.arange(1, VALUES + 1), counts) for counts in (zipf(), late()))
    rows = max(len(pages), len(others))
    columns = {
        name: pa.array([*values.tolist(), *[None] * (rows - len(values))])
        for name, values in (("page", pages), ("late", others))
    }
    pq.write_table(pa.table({"person": np.arange(rows), **columns}), folder / "visits.parquet")
    (folder / "policy.toml").write_text(POLICY)
    return dpquery.connect(folder / "policy.toml")


def figures(folder: Path) -> Iterator[Figure]:
    """Require that neither function errs more than what it stands for."""
    with connect(folder / "choices") as session:
        for size in SIZES:
            yield _top(session, size)
        yield _first(session)


def _top(session: dpquery.Session, size: int) -> Figure:
    counts, most = zipf(), np.sort(zipf())[::-1][:size].sum()
    asked = f"SELECT DP_TOP_K(page, {size}, eps={EPSILON}) FROM visits"
    grouped = (
        f"SELECT page FROM (SELECT page, DP_COUNT(*, eps={EPSILON}) AS n FROM visits "
        f"WHERE page IS NOT NULL GROUP BY page) AS counted ORDER BY n DESC LIMIT {size}"
    )

    def lacking(pages: list[int]) -> float:
        return float(most - counts[np.array(pages) - 1].sum()) / size

    ours = [lacking(session.sql(asked, refresh=True).scalar()) for _ in range(DRAWS)]
    theirs = [
        lacking([row[0] for row in session.sql(grouped, refresh=True).rows])
        for _ in range(DRAWS)
    ]
    return _compared(f"DP_TOP_K, k = {size}: rows that a place lacks", "Zipf", ours, theirs)


def _first(session: dpquery.Session) -> Figure:
    asked = f"SELECT DP_FIRST_ABOVE(late, {THRESHOLD}, eps={EPSILON}) FROM visits"
    grouped = (
        f"SELECT MIN(late) FROM (SELECT late, DP_COUNT(*, eps={EPSILON}) AS n FROM visits "
        f"WHERE late IS NOT NULL GROUP BY late) AS counted WHERE n > {THRESHOLD}"
    )
    right = VALUES // 2 + 1
    ours, theirs = (
        [float(session.sql(text, refresh=True).scalar() != right) for _ in range(DRAWS)]
        for text in (asked, grouped)
    )
    return _compared(
        f"DP_FIRST_ABOVE, threshold {THRESHOLD}: share of wrong answers",
        "100 rows from the 51st value on", ours, theirs,
    )  # fmt: skip


def _compared(name: str, data: str, ours: list[float], theirs: list[float]) -> Figure:
    spread = (np.var(ours) / DRAWS + np.var(theirs) / DRAWS) ** 0.5
    mean, other = float(np.mean(ours)), float(np.mean(theirs))
    return Figure(
        f"{name}, eps {EPSILON}",
        data,
        2 * DRAWS,
        mean,
        other,
        "at most that of GROUP BY, and 5 standard errors",
        bool(mean <= other + DEVIATIONS * spread + 1e-9),
    )
