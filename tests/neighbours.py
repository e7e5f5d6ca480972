"""Pairs of private tables that differ in one privacy unit, and what may differ between them.

A table is a list of units, each a list of rows: neighbours are then made by taking one unit
out, putting one in, or exchanging one, with all of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq

from dpquery.ir import Measure
from dpquery.plan import Plan
from dpquery.sensitivity import sensitivity

Row = dict[str, object]
Units = list[list[Row]]


@dataclass(frozen=True)
class Pair:
    """Two neighbouring tables, and rows without a unit that may be anything in either."""

    before: Units
    after: Units
    loose: tuple[list[Row], list[Row]]

    @property
    def sides(self) -> tuple[tuple[Units, list[Row]], tuple[Units, list[Row]]]:
        return (self.before, self.loose[0]), (self.after, self.loose[1])


def save(
    units: Units, loose: Sequence[Row], schema: pa.Schema, directory: Path, order: Random
) -> list[Path]:
    """Write units into two files, rows in a random order, in row groups of three rows."""
    rows = [{**row, "unit": number} for number, unit in enumerate(units) for row in unit]
    rows += [{**row, "unit": None} for row in loose]
    order.shuffle(rows)
    cut = order.randint(0, len(rows))
    directory.mkdir(exist_ok=True)
    paths = [directory / "1.parquet", directory / "2.parquet"]
    for path, part in zip(paths, (rows[:cut], rows[cut:]), strict=True):
        columns = {name: [row.get(name) for row in part] for name in schema.names}
        pq.write_table(pa.table(columns, schema=schema), path, row_group_size=3)
    return paths


def claims(plan: Plan) -> list[int]:
    """Give what the plan says each exact integer moves by at most, in units of 1/scale."""
    found = []
    for frontier in plan.frontiers:
        for planned in frontier.releases:
            step = planned.release.step(planned.column)
            (measure,) = planned.release.measures
            assert step.sensitivity * step.weight.scale == sensitivity(measure)
            found.append(int(step.sensitivity * step.weight.scale))
    return found


def require_bounded_move(
    claimed: Sequence[int],
    before: Sequence[tuple[Measure, int]],
    after: Sequence[tuple[Measure, int]],
) -> None:
    """Hold two neighbours' exact integers against the claims: the heart of the promise."""
    assert [measure for measure, _ in before] == [measure for measure, _ in after]
    for claim, (measure, a), (_, b) in zip(claimed, before, after, strict=True):
        assert abs(a - b) <= claim, f"{measure} moved by {abs(a - b)}, and {claim} was claimed"
