"""What a scan asks for, computed row by row: groups, codes, weights, sums, histograms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import product

import numpy as np

from dpquery.engine.python.values import code_of
from dpquery.ir import (
    CountRows,
    CountUnits,
    Expr,
    GroupRequest,
    Histogram,
    Measure,
    Scan,
    SumCodes,
    UnitTotals,
    Weight,
)
from dpquery.mechanisms.exponential import Integers
from dpquery.rowfunctions.base import Value
from dpquery.rowfunctions.evaluate import Row, constant, evaluate

__all__ = ["Totals", "code_of", "row_weight"]


def row_weight(weight: Weight, rows: int) -> int:
    """Give floor(scale * min(1, limit / rows)): what each row of a unit counts."""
    return min(weight.scale, weight.scale * weight.limit // rows)


class Totals:
    """The rows of a scan, with their units and groups, and what is counted of them."""

    def __init__(self, scan: Scan, rows: Sequence[tuple[Value, Row]]) -> None:
        self._groups = scan.cells
        numbers = {key: number for number, key in enumerate(_declared(scan))}
        self._rows = [
            (unit, numbers.get(tuple(evaluate(key.expr, row) for key in scan.keys)), row)
            for unit, row in rows
        ]
        self._count = Counter(unit for unit, _ in rows)

    def of(self, measure: Measure) -> tuple[int, ...]:
        """Add up a measure, one integer per group."""
        sums = [0] * self._groups
        if isinstance(measure, CountUnits):
            self._add_units(measure, sums)
            return tuple(sums)
        if isinstance(measure, UnitTotals):
            self._add_totals(measure, sums)
            return tuple(sums)
        for unit, group, row in self._met(measure.condition):
            code = 1 if isinstance(measure, CountRows) else code_of(measure.code, row)
            if group is None or code is None:
                continue
            degree = measure.degree if isinstance(measure, SumCodes) else 1
            sums[group] += row_weight(measure.weight, self._count[unit]) * code**degree
        return tuple(sums)

    def _met(self, condition: Expr | None) -> list[tuple[Value, int | None, Row]]:
        return [
            (unit, group, row)
            for unit, group, row in self._rows
            if condition is None or evaluate(condition, row) is True
        ]

    def _add_units(self, measure: CountUnits, sums: list[int]) -> None:
        """Count each unit once in each of its groups, with less weight the more there are."""
        pairs = {
            (u, group) for u, group, _ in self._met(measure.condition) if group is not None
        }
        groups = Counter(unit for unit, _ in pairs)
        for unit, group in pairs:
            sums[group] += row_weight(measure.weight, groups[unit])

    def _add_totals(self, measure: UnitTotals, sums: list[int]) -> None:
        """Clamp what each unit has in each of its groups, and share its weight among them."""
        totals: Counter[tuple[Value, int]] = Counter()
        for unit, group, row in self._met(measure.condition):
            code = 1 if measure.code is None else code_of(measure.code, row)
            if group is not None and code is not None:
                totals[unit, group] += code
        groups = Counter(unit for unit, _ in totals)
        for (unit, group), total in totals.items():
            clamped = max(measure.low, min(measure.high, total))
            sums[group] += row_weight(measure.weight, groups[unit]) * clamped

    def __call__(
        self, measure: Histogram, requests: Sequence[GroupRequest]
    ) -> Sequence[Integers]:
        """Give the weight of each range of codes, request by request."""
        return [self._ranges(measure, *request) for request in requests]

    def _ranges(
        self, measure: Histogram, group: int, low: int, high: int, width: int
    ) -> Integers:
        weights = [0] * -(-(high - low) // width)
        for unit, of_row, row in self._met(measure.condition):
            code = code_of(measure.code, row)
            if of_row == group and code is not None and low <= code < high:
                weights[(code - low) // width] += row_weight(measure.weight, self._count[unit])
        return np.array(weights, dtype=np.int64)

    def close(self) -> None:
        """Forget the rows."""
        self._rows.clear()


def _declared(scan: Scan) -> list[tuple[Value, ...]]:
    """List the groups in the order of the answer: the last key runs fastest."""
    values = [[constant(value, key.expr.type) for value in key.values] for key in scan.keys]
    return list(product(*values))
