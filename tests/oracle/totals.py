"""The measures of a scan, row by row: groups, weights, sums, histograms, candidates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import prod

import numpy as np

from dpquery.engine.base import by_chance
from dpquery.ir.expr import Expr
from dpquery.ir.measures import (
    Candidates,
    CountRows,
    CountUnits,
    CountValues,
    GroupRequest,
    Histogram,
    Measure,
    OfValues,
    SumCodes,
    SumProducts,
    SumValues,
    TableWeight,
    Told,
    UnitTotals,
    Weight,
)
from dpquery.ir.query import Key, Scan, leading
from dpquery.mechanisms.samplers import Integers
from dpquery.rowfunctions.base import Value, scalar
from dpquery.rowfunctions.evaluate import Row, constant, evaluate
from tests.oracle.told import Pairs, is_nameable, kept_of_units, placed_with_units
from tests.oracle.values import code_of


def row_weight(weight: Weight, rows: int) -> int:
    """Return floor(scale * min(1, limit / rows)): what each row of a unit counts."""
    return min(weight.scale, weight.scale * weight.limit // rows)


class Totals:
    """The rows of a scan, with their units and groups, and what is counted of them."""

    def __init__(
        self,
        scan: Scan,
        rows: Sequence[tuple[Value, Row]],
        secret: str = "",
        table: Iterable[Value] = (),
    ) -> None:
        """Take the rows of a scan.

        Args:
            scan: what is asked for.
            rows: each with its unit.
            secret: the key of the hashes that choose among what one unit has.
            table: the units of all rows of the table, if rows are weighed by these.
        """
        self._groups = scan.cells
        self._single = scan.contribution.unit is None or scan.contribution.single
        self._secret = secret
        places = [_Places([scan.keys[i] for i in together]) for together in leading(scan.keys)]
        self._rows = [(unit, _group(places, row), row) for unit, row in rows]
        self._count = Counter(unit for unit, _ in rows)
        self._in_table = Counter(table)
        self._shown: dict[Candidates, list[tuple[Value, ...]]] = {}

    def of(self, measure: Measure) -> tuple[int, ...]:
        """Add up a measure, one integer per group."""
        sums = [0] * self._groups
        match measure:
            case CountUnits():
                self._add_units(measure, sums)
            case CountValues() | SumValues():
                self._add_values(measure, sums)
            case UnitTotals():
                self._add_totals(measure, sums)
            case CountRows() | SumCodes() | SumProducts():
                self._add_rows(measure, sums)
        return tuple(sums)

    def _add_rows(self, measure: CountRows | SumCodes | SumProducts, sums: list[int]) -> None:
        """Add up what rows have, each with its weight."""
        for unit, group, row in self._met(measure.condition):
            codes = [code_of(code, row) for code in measure.factors]
            if group is None or None in codes:
                continue
            sums[group] += self._weight(measure.weight, unit) * prod(map(int, codes))

    def _weight(self, weight: Weight, unit: Value) -> int:
        """Return what each row of a unit counts."""
        counted = self._in_table if isinstance(weight, TableWeight) else self._count
        return row_weight(weight, counted[unit])

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

    def _add_values(self, measure: OfValues, sums: list[int]) -> None:
        """Add up over the different values in each group that count."""
        (value,), codes = measure.values, {}
        pairs = []
        for unit, group, row in self._met(measure.condition):
            told = group, evaluate(value, row)
            if None not in told:
                pairs.append((unit, told))
                codes[told] = prod(int(code_of(code, row)) for code in measure.factors)
        limit, type_ = measure.weight.limit, value.type
        counted: Iterable[tuple[Value, ...]] = codes
        if not self._single:
            counted = placed_with_units(pairs, limit, self._secret, type_)
        for group, value in counted:
            sums[group] += codes[group, value]

    def counts(self, measure: Candidates) -> Integers:
        """Return the number of units of each value, in an order of chance."""
        counted = self._candidates(measure)
        order = by_chance(len(counted))
        self._shown[measure] = [list(counted)[place] for place in order]
        counts: Integers = np.array(list(counted.values()), dtype=np.int64)[order]
        return counts

    def values(self, measure: Candidates, places: Sequence[int]) -> list[Told]:
        """Return the values at some places of that order."""
        types = [expr.type for expr in measure.values]
        return [tuple(map(scalar, self._shown[measure][place], types)) for place in places]

    def _candidates(self, measure: Candidates) -> Counter[tuple[Value, ...]]:
        """Count the units of each value, of what is kept of each unit's."""
        told = (
            (unit, tuple(evaluate(expr, row) for expr in measure.values))
            for unit, _, row in self._met(measure.condition)
        )
        pairs: Pairs = ((unit, one) for unit, one in told if is_nameable(one, measure))
        if not self._single:
            types = [expr.type for expr in measure.values]
            pairs = kept_of_units(pairs, measure.weight.limit, self._secret, *types)
        return Counter(one for _, one in pairs)

    def histograms(
        self, measure: Histogram, requests: Sequence[GroupRequest]
    ) -> Sequence[Integers]:
        """Return the weight of each range of codes, request by request."""
        return [self._ranges(measure, *request) for request in requests]

    def _ranges(
        self, measure: Histogram, group: int, low: int, high: int, width: int
    ) -> Integers:
        weights = [0] * -(-(high - low) // width)
        for unit, of_row, row in self._met(measure.condition):
            code = code_of(measure.code, row)
            if of_row == group and code is not None and low <= code < high:
                weights[(code - low) // width] += self._weight(measure.weight, unit)
        return np.array(weights, dtype=np.int64)

    def close(self) -> None:
        """Forget the rows."""
        self._rows.clear()
        self._shown.clear()


class _Places:
    """The values of keys that stand together, with their place in the order of the answer."""

    def __init__(self, keys: Sequence[Key]) -> None:
        values = [[constant(value, key.expr.type) for value in key.values] for key in keys]
        self.exprs, self.size = [key.expr for key in keys], len(values[0])
        listed = [*zip(*values, strict=True)]
        rest = keys[0].rest
        self._rest = len(listed) - 1 if rest else None
        self._numbers = {
            value: number for number, value in enumerate(listed[:-1] if rest else listed)
        }

    def of(self, row: Row) -> int | None:
        """Return the place of a row's values; None where they are none of them."""
        return self._numbers.get(tuple(evaluate(e, row) for e in self.exprs), self._rest)


def _group(keys: Sequence[_Places], row: Row) -> int | None:
    """Return the number of a row's group: the last key runs fastest."""
    number = 0
    for key in keys:
        place = key.of(row)
        if place is None:
            return None
        number = number * key.size + place
    return number
