"""Intervals of what is computed from released values: the query above, run on simulated noise.

In each of many worlds the released values have fresh noise of their own laws
(`functions/simulated_noise.py`), and the query above the frontier is asked of all worlds in one
run. How far a value goes there says how far it may be from the exact one. It costs nothing: all
of it is made of what was released.

Percentiles of the worlds are the ends: they go through whatever rises with a release, so that
the ends for 2 * n, ROUND(n) and GREATEST(n, 0) are those of n, transformed; the ends of the
reflected ("basic") bootstrap would lie below zero for the last. They are taken a little
outwards, by half the standard error of a percentile of so many worlds. Where a value turns back
within the noise, as ABS(n) near zero or the largest of groups that are about alike, no world
may be where the exact value is, and there is no interval.

Where noise decides which rows there are, a row that is missing from a world may have had any
value there; and where a release tells no law of its noise, whatever it plays a part in has no
interval: three worlds more, in which its values are moved, find that out.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import ROUND_FLOOR, Context, Decimal
from math import floor, isfinite, sqrt
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpquery.answer import TAILS, Cell, Simulated
from dpquery.core.arrow_columns import column, numbers
from dpquery.functions.simulated_noise import Floats, Worlds
from dpquery.ir.query import Above
from dpquery.release import ReleasedTable

MOST_WORLDS = 2000
LEAST_WORLDS = 200
"""With fewer no percentile is known well enough."""
MOST_ROWS = 100_000
"""Of all worlds together: what takes about as long as the rest of a query."""
MOST_BYTES = 2**26
"""Of the same: texts and lists can be long."""
MOVED = 3
"""Worlds in which releases without a law have other values; one without a change is before."""
LONGEST_MOVED = 100
"""As many values as a list that is released may have."""
CURVED, SELDOM = 0.5, 1 / 400
"""Of the usual distance, and of all pairs of worlds."""
CLOSE = 1e-9
"""What differs relatively by less is equal: sums of doubles depend on the order of rows."""
LARGEST = 2.0**63 - 1024
"""The largest double below what a column of whole numbers can hold."""


class InWorlds(Protocol):
    """Asks a query of many worlds at once; nothing where that cannot be done."""

    def __call__(
        self, above: Above, tables: Sequence[pa.Table], wanted: Sequence[int]
    ) -> pa.Table | None:
        """Return what each world answers, with its number in the column `world`.

        Args:
            above: the query.
            tables: what it is asked of: rows of all worlds, each with the number of its own.
            wanted: the places of columns that are wanted, as doubles, beside those without
                noise.
        """
        ...


def simulate(
    above: Above,
    released: Sequence[ReleasedTable],
    tables: Sequence[pa.Table],
    result: pa.Table,
    run: InWorlds,
) -> dict[int, list[Cell | None]]:
    """Return intervals of the columns of a result that are computed from noisy numbers.

    Args:
        above: the query.
        released: what it was asked of.
        tables: the same as tables, with the ends of intervals that it asks for.
        result: what came out.
        run: asks a query of many worlds.

    Returns:
        A cell for each row, by the places of these columns; none where there are too many
        rows, or rows cannot be told apart.
    """
    wanted = [
        at
        for at, shown in enumerate(above.columns)
        if not (shown.noiseless or shown.origins) and _is_number(result.schema.field(at).type)
    ]
    rows = max(above.joined, result.num_rows, sum(table.num_rows for table in tables))
    size = max(result.nbytes, sum(table.nbytes for table in tables))
    count = min(MOST_WORLDS, MOST_ROWS // max(rows, 1), MOST_BYTES // max(size, 1)) // 2 * 2
    if not wanted or not tables or not result.num_rows or count < LEAST_WORLDS:
        return {}
    worlds = Worlds(count)
    given = [_in_worlds(*part, worlds) for part in zip(released, tables, strict=True)]
    found = run(above, given, wanted)
    places = None if found is None else _places(above, result, found)
    if found is None or places is None:
        return {}
    shape = result.num_rows, count + 1 + MOVED
    cells = places * shape[1] + numbers(found.column("world"))
    once = np.bincount(cells[places >= 0], minlength=shape[0] * shape[1]) == 1
    kept = (places >= 0) & once[np.maximum(cells, 0)]
    simulated = {}
    for at in wanted:
        values = np.full(shape[0] * shape[1], np.nan)
        values[cells[kept]] = numbers(found.column(f"c{at}"), np.nan)[kept]
        simulated[at] = _cells(result.column(at), values.reshape(shape), count)
    return simulated


def _is_number(type_: pa.DataType) -> bool:
    kinds = pa.types
    return any((kinds.is_integer(type_), kinds.is_floating(type_), kinds.is_decimal(type_)))


# The released tables in all worlds.


def _in_worlds(released: ReleasedTable, table: pa.Table, worlds: Worlds) -> pa.Table:
    """Return a released table once for each world, with the number of the world."""
    height, count = table.num_rows, worlds.count
    again = np.tile(np.arange(height), count + 1 + MOVED)
    number = np.repeat(np.arange(count + 1 + MOVED), height)
    drawn = {one.name: one.cells for one in released.columns}
    still = {"row", *(key.column for key in released.keys)}
    made = table.take(_integers(again))
    for at, name in enumerate(table.column_names):
        if name in still:
            continue
        shown = table.column(name)
        noisy = worlds.of(drawn[name]) if name in drawn else None
        if noisy is None:  # it has no law; ends of intervals have none either
            as_is = pa.chunked_array([shown.combine_chunks()] * (count + 1), shown.type)
            moved = [one for one in _others(shown.type) for _ in range(height)]
            chunks = [*as_is.chunks, column(moved, shown.type)]
            values = pa.chunked_array(chunks, shown.type).combine_chunks()
        else:
            own = np.tile(numbers(shown.cast(pa.float64(), safe=False)), 1 + MOVED)
            values = _numbers(np.concatenate([noisy.ravel(), own]), shown.type)
        made = made.set_column(at, name, values)
    return made.append_column("world", _integers(number))


def _others(type_: pa.DataType) -> list[Any]:
    """Return MOVED other values of a type: none, and one below and above what is usual."""
    kinds, ends = pa.types, (-(2**40), 2**40)
    if kinds.is_list(type_):
        inner = _others(type_.value_type)[1:]
        return [None, *([one] * LONGEST_MOVED for one in inner)]
    if kinds.is_string(type_):
        return [None, "", "~"]
    if kinds.is_boolean(type_):
        return [None, False, True]
    if kinds.is_date(type_):
        return [None, date(1000, 1, 1), date(3000, 1, 1)]
    if kinds.is_timestamp(type_):
        return [None, datetime(1000, 1, 1, tzinfo=UTC), datetime(3000, 1, 1, tzinfo=UTC)]
    if kinds.is_time(type_):
        return [None, time.min, time.max]
    return [None, *ends]


def _integers(values: npt.NDArray[np.int64]) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def _numbers(values: Floats, type_: pa.DataType) -> pa.Array:
    """Return numbers as a column of a type, rounded to it and cut to what it can hold."""
    if pa.types.is_integer(type_):
        return _integers(np.clip(values, -LARGEST, LARGEST).astype(np.int64))
    if pa.types.is_decimal(type_):
        most = 10.0 ** (type_.precision - type_.scale) * (1 - CLOSE)
        values = np.clip(values, -most, most)
    doubles = pa.Array.from_buffers(pa.float64(), len(values), [None, pa.py_buffer(values)])
    return doubles.cast(type_)


# Which row of a world is which row of the answer.


def _places(above: Above, result: pa.Table, found: pa.Table) -> npt.NDArray[np.int64] | None:
    """Return for each row of the worlds its row in the result, or -1; None of no way to tell.

    Rows are told apart by the groups that they come from, and by columns without noise.
    """
    from pyarrow.compute import index_in  # which most answers do without

    keys = [f"c{at}" for at, shown in enumerate(above.columns) if shown.noiseless]
    known = np.zeros(result.num_rows, np.int64)
    other = np.zeros(found.num_rows, np.int64)
    for name in (*keys, *(f"r{i}" for i in range(len(above.rows)))):
        here, there = result.column(name).combine_chunks(), found.column(name).combine_chunks()
        values = here.unique()
        at, to = (numbers(index_in(one, value_set=values), -1) for one in (here, there))
        known = known * len(values) + at
        other = np.where((other < 0) | (to < 0), -1, other * len(values) + to)
        distinct, known = np.unique(known, return_inverse=True)
        place = np.minimum(np.searchsorted(distinct, other), len(distinct) - 1)
        other = np.where(distinct[place] == other, place, -1)
    order = np.argsort(known)
    if len(np.unique(known)) < len(known):
        return None
    return np.where(other < 0, -1, order[other])


# Percentiles of the worlds.


def _cells(shown: pa.ChunkedArray, values: Floats, count: int) -> list[Cell | None]:
    """Return the interval of each value of a column, from its values in all worlds."""
    own = numbers(shown.cast(pa.float64(), safe=False), np.nan)
    steady = np.isclose(values[:, count:], own[:, None], rtol=CLOSE, atol=0).all(axis=1)
    worlds = values[:, :count]
    if (steady & (worlds == own[:, None]).all(axis=1)).sum() == steady.sum():
        return [None] * len(own)  # noise plays no part in it
    known, ranks = steady & ~_turns(own, worlds), _ranks(count)
    rising, falling = np.sort(worlds, axis=1), np.sort(-worlds, axis=1)  # what is missing: last
    return [
        _cell(low, high, ranks, shown.type) if told else None
        for low, high, told in zip(rising, falling, known, strict=True)
    ]


def _turns(own: Floats, worlds: Floats) -> npt.NDArray[np.bool_]:
    """Return where opposite noise moves a value to the same side, as of ABS(n) near zero.

    Then the exact value may lie where no world is. A little of that is curvature, and rare
    enough what is seldom.
    """
    beside = worlds - own[:, None]
    half = worlds.shape[1] // 2
    one, other = beside[:, :half], beside[:, half:]
    usual = np.nansum(np.abs(beside), axis=1, keepdims=True) / worlds.shape[1]
    least = np.minimum(np.abs(one), np.abs(other))
    turned: npt.NDArray[np.bool_] = ((one * other > 0) & (least > usual * CURVED)).mean(
        axis=1
    ) > SELDOM
    return turned


def _ranks(count: int) -> npt.NDArray[np.int64]:
    """Return which of so many worlds each tail begins with."""
    least = [float(tail) * count for tail in TAILS]
    ranks = [floor(one - sqrt(one * (1 - one / count)) / 2) - 1 for one in least]
    return np.array(ranks, np.int64)


def _cell(
    rising: Floats, falling: Floats, ranks: npt.NDArray[np.int64], type_: pa.DataType
) -> Simulated:
    """Return percentiles of what worlds have: those that miss the value are beyond all."""
    missing = int(np.isnan(rising).sum())
    known = len(rising) - missing
    low = _ends(rising[:known], ranks - missing, type_)
    high = _ends(falling[:known], ranks - missing, type_)
    return Simulated(low, tuple(None if one is None else -one for one in high))


def _ends(known: Floats, ranks: npt.NDArray[np.int64], type_: pa.DataType) -> tuple[Any, ...]:
    """Return the numbers of some ranks, none beyond what is known, rounded down to a type."""
    inside = (ranks >= 0) & (ranks < len(known))
    numbers = known[np.where(inside, ranks, 0)].tolist()
    found = [one if told else None for one, told in zip(numbers, inside, strict=True)]
    if pa.types.is_floating(type_):
        return tuple(found)
    # A double is a little beside a decimal that it stands for: such an end stays where it is.
    near = [None if one is None or not isfinite(one) else round(one, 6) for one in found]
    if pa.types.is_integer(type_):
        return tuple(None if one is None else floor(one) for one in near)
    step, exactly = Decimal(1).scaleb(-type_.scale), Context(prec=60)
    return tuple(
        None if one is None else Decimal(repr(one)).quantize(step, ROUND_FLOOR, exactly)
        for one in near
    )
