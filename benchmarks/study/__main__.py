"""`make study`: accuracy through the public interface, with the randomness of real answers.

Prints each figure beside its closed form or exact expectation, saves them under `results/`
and as `RESULTS.md`, and fails when one leaves its range.
`python -m benchmarks.study [DATA_SETS] [DRAWS]` says how often quantiles are compared.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.study import (
    choices,
    claims,
    comparison,
    fits,
    intervals,
    lists,
    moments,
    peers,
    quantiles,
    ranks,
)
from benchmarks.study.figures import Figure, table

HERE = Path(__file__).parent
RESULTS = HERE / "results"
PICTURE = HERE.parent.parent / "docs" / "quantiles.svg"
TEXT = """\
# Accuracy, as measured

Written by `make study`; every figure is at epsilon 1 unless it says another, where one unit may
be added or removed. Counts, sums, means and variances are of {moments:,} rows, quantiles of
{ranks:,} rows in each of {sets} data sets. What is expected of means and variances is a
first-order formula; what is expected of quantiles is exact, from the law of the mechanism on
the same data.

{table}

On a grid that is finer than the values, the cells between two values that occur weigh in:
salaries in hundreds leave 9,999 empty cells of a cent between neighbours, and the law prefers
such a stretch to a value while fewer than about ln(9,999) / rate rows part them (17 rows at
0.1 and 0.9). That is the law itself and no fault of the draws, so only agreement with it is
required there. The policy's grid is the remedy, as the lines with a grid of 100 show.

{compared}
{beside}"""
COMPARED = """\
## Mechanisms of quantiles, compared

Each mechanism of `DP_QUANTILE` on four laws, {sizes} rows, epsilon {epsilons},
for 1 to 99 orders k / (m + 1): {settings} settings, {sets} data sets each, {times} draws of a
list and up to {most} of one value. An error is the mean distance, in rows, from a rank asked
for to the ranks that the released value has. Below are geometric means over settings of the
error divided by that of the best mechanism of the setting, {floor} rows being added to both;
after ± one standard error, of the draws alone. The best is in bold, the default has a star, and
in brackets stands what prototypes in floating point gave in the same comparison of ten
mechanisms, where cells and data are alike.

{ratios}

![Rank error of each mechanism over the number of quantiles](../../docs/quantiles.svg)

The best of a setting is chosen by the same draws, so even equal mechanisms are above 1: for one
order `recursive`, `independent` and `quantile` have one law, but for ties. Salaries lie on a
grid of 25 here, which every mechanism sees; `histogram` and `inverse_sensitivity` part it more
coarsely, and miss values that many share by a part of a range.

Errors in rows, of {rows:,} rows:

{selected}

Every setting, with the root mean square error of values as a share of the bounds' distance, is
in [`results/quantiles.csv`](results/quantiles.csv).
"""


def compare(folder: Path, sets: int, times: int) -> tuple[list[Figure], str]:
    """Compare the mechanisms of quantiles; give the figures, and what is written of them."""
    results = quantiles.measured(folder, sets, times)
    defaults = quantiles.default_of(folder)
    quantiles.write(results, RESULTS / "quantiles.csv")
    shares = quantiles.shares(results)
    comparison.picture(shares, PICTURE)
    text = COMPARED.format(
        sizes=", ".join(f"{size:,}" for size in quantiles.SIZES),
        epsilons=" and ".join(quantiles.EPSILONS),
        settings=len({one.setting for one in results}),
        sets=sets,
        times=sets * times,
        most=max(one.draws for one in results),
        floor=quantiles.FLOOR,
        ratios=comparison.ratios(shares, defaults),
        selected=comparison.selected(results),
        rows=max(quantiles.SIZES),
    )
    return list(quantiles.figures(shares, defaults, results)), text


def save(figures: list[Figure], compared: str, beside: str) -> None:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    record = [asdict(figure) for figure in figures]
    (RESULTS / f"{stamp}.json").write_text(json.dumps(record, indent=1))
    text = TEXT.format(
        moments=moments.ROWS,
        ranks=ranks.ROWS,
        sets=ranks.DATA_SETS,
        table=table(figures),
        compared=compared,
        beside=beside,
    )
    (HERE / "RESULTS.md").write_text(text)


def main() -> int:
    if sys.argv[1:2] == ["intervals"]:
        return intervals.main(sys.argv[2:])
    sets, times = (int(word) for word in (*sys.argv[1:3], *("3", "4")[len(sys.argv) - 1 :]))
    start, figures = time.perf_counter(), []
    RESULTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for part in (moments, choices, claims, ranks, lists):
            figures += part.figures(Path(folder))
        found, compared = compare(Path(folder), sets, times)
        beside = f"{peers.text(Path(folder))}\n{fits.text(Path(folder))}"
    figures += found
    print(table(figures))
    save(figures, compared, beside)
    failed = sum(not figure.holds for figure in figures)
    print(
        f"{failed} of {len(figures)} outside their range, {time.perf_counter() - start:.0f} s, "
        f"{time.process_time():.0f} s of processors"
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
