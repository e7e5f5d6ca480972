"""`make study`: accuracy through the public interface, with the randomness of real answers.

Prints each figure beside its closed form or exact expectation, saves them under `results/`
and as `RESULTS.md`, and fails when one leaves its range.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from tests.study import lists, moments, ranks
from tests.study.figures import Figure, table

HERE = Path(__file__).parent
TEXT = """\
# Accuracy, as measured

Written by `make study`; every figure is at epsilon 1, where one unit may be added or removed.
Counts, sums, means and variances are of {moments:,} rows, quantiles of {ranks:,} rows in each
of {sets} data sets. What is expected of means and variances is a first-order formula; what is
expected of quantiles is exact, from the law of the mechanism on the same data.

{table}

On a grid that is finer than the values, the cells between two values that occur weigh in:
salaries in hundreds leave 9,999 empty cells of a cent between neighbours, and the law prefers
such a stretch to a value while fewer than about ln(9,999) / rate rows part them (17 rows at
0.1 and 0.9). That is the law itself and no fault of the draws, so only agreement with it is
required there. The policy's grid is the remedy, as the lines with a grid of 100 show.
"""


def save(figures: list[Figure]) -> None:
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    record = [asdict(figure) for figure in figures]
    (results / f"{stamp}.json").write_text(json.dumps(record, indent=1))
    text = TEXT.format(
        moments=moments.ROWS, ranks=ranks.ROWS, sets=ranks.DATA_SETS, table=table(figures)
    )
    (HERE / "RESULTS.md").write_text(text)


def main() -> int:
    start, figures = time.perf_counter(), []
    with tempfile.TemporaryDirectory() as folder:
        for part in (moments, ranks, lists):
            figures += part.figures(Path(folder))
    print(table(figures))
    save(figures)
    failed = sum(not figure.holds for figure in figures)
    print(
        f"{failed} of {len(figures)} outside their range, {time.perf_counter() - start:.0f} s"
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
