"""A policy made from the arguments of `connect`, for one's own Parquet files.

The schema of a table's first file is read once and is policy from then on. Nothing else of the
file is looked at: no rows, no counts, no statistics (I1).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TypeVar

from dpquery.core.privacy import HALF, Ceiling, Loss, exact_number
from dpquery.core.types import Kind, RowLimit, Type
from dpquery.errors import listed, nearest
from dpquery.policy.columns import ascii_folded, likely_units, refuse_unit_type
from dpquery.policy.document import Unfit, written
from dpquery.policy.files import find_files, stem
from dpquery.policy.ledgers import ledger_of_ones_own
from dpquery.policy.model import Bounds, Budget, Column, Files, Policy, Table
from dpquery.policy.schema import Schema, read_schema
from dpquery.policy.values import (
    read_bounds,
    read_delta,
    read_epsilon,
    read_name,
    read_neighbours,
    read_rows,
)

T = TypeVar("T")
Paths = str | Path | Sequence[str | Path]
Units = str | Mapping[str, str | None] | None


_REMEDIES = {
    "delta": "delta=1e-7",
    "epsilon": "epsilon=1",
    "max_rows_contributed": 'max_rows_contributed="auto"',
    "ledger": 'ledger="postgresql://db.example.org/privacy"',
    "neighbours": 'neighbours="add-remove"',
    "unit": 'unit="user_id"',
}
"""How an argument is written; the readers of values speak of the owner's file."""
_WRITABLE = (int, float, str, Decimal, Fraction, date, datetime)
"""Types whose repr is known: a subclass could show anything."""
_EXAMPLES = {
    Kind.DATE: '("2020-01-01", "2024-12-31")',
    Kind.TIMESTAMP: '("2020-01-01 00:00:00", "2024-12-31 23:59:59")',
}


def adhoc_policy(  # noqa: PLR0913 - each is an argument of connect
    source: Paths | Mapping[str, Paths],
    *,
    unit: Units = None,
    rows_per_unit: int | None = None,
    max_rows_contributed: object = None,
    epsilon: object = None,
    delta: object = 0,
    bounds: Mapping[str, Sequence[object]] | None = None,
    neighbours: str = "add-remove",
    ledger: str | Path | None = None,
) -> tuple[Policy, tuple[str, ...]]:
    """Make a policy for some files, and notes on what was assumed, one line each.

    Raises:
        PolicyInvalid: DPQ601 a file cannot be read; DPQ603 an unknown name; DPQ604 a value that
            cannot be taken; DPQ607 a file named twice, or a unit of a type that compares
            inexactly; DPQ608 arguments that do not fit, or no epsilon.
    """
    paths = _named(source)
    limit = Loss(_epsilon(epsilon, paths, unit), _read("delta", _delta, delta))
    units = _read("unit", partial(_units, paths=paths), unit)
    single = _single(rows_per_unit, units)
    rows = _rows(max_rows_contributed, units, single=single)
    tables: dict[str, Table] = {}
    notes: list[str] = []
    for name, texts in paths.items():
        table, schema = _table(name, texts)
        tables[name] = _with_unit(table, units[name], schema, single)
        if units[name] is not None:
            tables[name] = replace(tables[name], max_rows_contributed=rows)
        notes += _notes(tables[name], schema)
    for key, ends in _read("bounds", _mapping, bounds or {}).items():
        tables |= _read(f"bounds[{written(key)}]", partial(_bounded, key, tables), ends)
    if ledger is None:
        notes.append("the ledger is in memory: what is spent is forgotten with this session")
    policy = Policy(
        name=", ".join(text for texts in paths.values() for text in texts),
        neighbours=_read("neighbours", read_neighbours, neighbours),
        budget=Budget(Ceiling.of(limit, HALF)),
        tables=tables,
        ledger=_read("ledger", ledger_of_ones_own, ledger),
        directory=Path.cwd(),
        published=False,
    )
    return policy, tuple(notes)


def _read(key: str, reader: Callable[[object], T], value: object) -> T:
    """Read an argument of connect; a refusal names it, and offers Python."""
    try:
        return reader(value)
    except Unfit as unfit:
        if unfit.code == "DPQ604" and key in _REMEDIES:
            unfit = Unfit(unfit.what, unfit.why, _REMEDIES[key])
        raise unfit.at(key) from None


def _named(source: Paths | Mapping[str, Paths]) -> dict[str, tuple[str, ...]]:
    """Return the paths of each table by its name."""
    if not isinstance(source, Mapping):
        texts = _texts(source)
        return {_read("the file", _stem, texts): texts}
    named: dict[str, tuple[str, ...]] = {}
    for name, paths in source.items():
        _read("the table", partial(_unlike, others=list(named)), name)
        named[name] = _texts(paths)
    if not named:
        why = "queries reach only the tables that are named."
        raise Unfit("there is no table", why, 'connect({"people": "people.parquet"}, ...)').at(
            ""
        )
    return named


def _texts(paths: object) -> tuple[str, ...]:
    listed_paths = paths if isinstance(paths, list | tuple) else [paths]
    if not all(isinstance(path, str | Path) for path in listed_paths):
        why = "a table is a file, a list of files, or a glob."
        unfit = Unfit(f"is no path: {written(paths)}", why, '"people.parquet"', code="DPQ608")
        raise unfit.at("the file")
    return tuple(map(str, listed_paths))


def _unlike(value: object, others: Sequence[str]) -> None:
    name = read_name(value)
    if ascii_folded(name) in map(ascii_folded, others):
        what = f"differs from another in case only: {written(name)}"
        why = "queries do not distinguish upper and lower case."
        raise Unfit(what, why, "rename one of the two", code="DPQ608")


def _stem(value: object) -> str:
    """Name a table after its file; for a glob, after what stands before the first wildcard."""
    texts = value if isinstance(value, tuple) else ()
    try:
        return read_name(stem(texts[0]) if len(texts) == 1 else "")
    except Unfit:
        why = "a table needs a name, and these paths suggest none."
        call = f'connect({{"people": [{", ".join(map(written, texts))}]}}, ...)'
        raise Unfit("gives the table no name", why, call, code="DPQ608") from None


def _epsilon(value: object, paths: Mapping[str, tuple[str, ...]], unit: Units) -> Fraction:
    if value is not None:
        return _read("epsilon", lambda given: read_epsilon(_exactly(given)), value)
    texts = next(iter(paths.values()))
    shown = written(unit if isinstance(unit, str) else "user_id")
    raise Unfit(
        "no epsilon is given",
        "without a policy file nothing else says how much may be lost in all.",
        f"dpquery.connect({written(texts[0])}, unit={shown}, epsilon=1)",
        "on the command line: --epsilon 1",
        code="DPQ608",
    ).at("")


def _delta(value: object) -> Fraction:
    return read_delta(_exactly(value))


def _exactly(value: object) -> Fraction:
    try:
        return exact_number(value)
    except ValueError as error:
        why = "numbers are exact here: finite, and of at most 30 digits."
        raise Unfit(f"is {error}: {written(value)}", why, "0.5") from None


def _units(unit: object, paths: Mapping[str, object]) -> dict[str, str | None]:
    """Return each table's unit column."""
    if not isinstance(unit, Mapping):
        column = None if unit is None else read_name(unit)
        return dict.fromkeys(paths, column)
    for name in unit:
        if name not in paths:
            what = f"names a table that is not connected: {written(name)}"
            near = nearest(name if isinstance(name, str) else "", paths) or next(iter(paths))
            remedy = (f"unit={{{written(near)}: ...}}", f"tables here: {listed(paths, near)}")
            raise Unfit(what, "each table has its own unit column.", *remedy, code="DPQ603")
    for name in paths:
        if name not in unit:
            what = f"says nothing of the table {name}"
            why = "each table needs its unit column, or None where each row is a unit."
            raise Unfit(what, why, f"unit={{..., {written(name)}: None}}", code="DPQ608")
    return {name: None if unit[name] is None else read_name(unit[name]) for name in paths}


def _single(rows_per_unit: int | None, units: Mapping[str, str | None]) -> bool:
    if rows_per_unit is None:
        return False
    if type(rows_per_unit) is not int or rows_per_unit != 1:
        raise _several(rows_per_unit).at("rows_per_unit")
    if not any(units.values()):
        why = "without a unit column each row is its own privacy unit."
        raise Unfit("needs unit", why, 'unit="user_id"', code="DPQ608").at("rows_per_unit")
    return True


def _rows(rows: object, units: Mapping[str, str | None], *, single: bool) -> RowLimit:
    """Read how many rows of one unit count, where units may have several."""
    if rows is None:
        return None
    if single or not any(units.values()):
        why = "with one row per unit, or rows as units, there is nothing to limit."
        remedy = "leave out rows_per_unit" if single else 'unit="user_id"'
        unfit = Unfit("has nothing to limit", why, remedy, code="DPQ608")
        raise unfit.at("max_rows_contributed")
    given = int(rows) if isinstance(rows, str) and rows.isascii() and rows.isdigit() else rows
    return _read("max_rows_contributed", read_rows, given)


def _several(rows: object) -> Unfit:
    """Refuse another number of rows: a query says how many count, and the noise follows."""
    why = "one row per unit is verified in the file; more are no promise, but can be limited."
    more = type(rows) is int and rows > 1
    remedy = f"max_rows_contributed={rows}" if more else "rows_per_unit=1"
    return Unfit(f"must be 1 or left out, not {written(rows)}", why, remedy)


def _table(name: str, texts: tuple[str, ...]) -> tuple[Table, Schema]:
    try:
        files = find_files(texts, Path.cwd())
        if not files:
            why = "a table without a file has no rows."
            raise Unfit("names no file", why, '"people.parquet"', code="DPQ601")
        schema = read_schema(files[0])
    except Unfit as unfit:
        raise unfit.at(f"the table {name}") from None
    columns = {column: Column(column, type_) for column, type_ in schema.types.items()}
    return Table(name, Files(files), texts, columns), schema


def _with_unit(table: Table, unit: str | None, schema: Schema, single: bool) -> Table:
    if unit is None:
        return table
    if unit not in table.columns:
        reason = schema.left_out.get(unit, f"there is no column {written(unit)}")
        near = nearest(unit, table.columns)
        why = f"columns of {table.name}: {listed(table.columns, near)}."
        likely = [*likely_units(schema.types), *sorted(table.columns)]
        remedy = f"unit={written(near or likely[0])}"
        what = f"does not fit the table {table.name}: {reason}"
        raise Unfit(what, why, remedy, code="DPQ608").at("unit")
    type_ = table.columns[unit].type
    if (unfit := refuse_unit_type(unit, type_)) is not None:
        raise unfit.at("unit")
    return replace(table, unit=unit, unit_type=type_, single=single)


def _notes(table: Table, schema: Schema) -> list[str]:
    notes = [
        f"{table.name}: {column} is left out: {why}" for column, why in schema.left_out.items()
    ]
    if table.unit is None:
        notes.append(f"{table.name}: each row is its own privacy unit, for lack of unit=")
    return notes


def _mapping(bounds: object) -> Mapping[str, object]:
    if isinstance(bounds, Mapping):
        strange = [key for key in bounds if not isinstance(key, str)]
        if not strange:
            return bounds
        bounds = strange[0]
    why = "each column has its own bounds."
    what = f"must map columns to bounds, not {written(bounds)}"
    raise Unfit(what, why, 'bounds={"salary": (0, 300_000)}', code="DPQ608")


def _bounded(key: str, tables: Mapping[str, Table], ends: object) -> dict[str, Table]:
    """Return the tables that a key of bounds means, with those bounds."""
    places = [
        (table, column)
        for table in tables.values()
        for column in table.columns
        if key in {column, f"{table.name}.{column}"}
    ]
    if not places:
        known = {column for table in tables.values() for column in table.columns}
        near = nearest(key, known)
        remedy = f"bounds={{{written(near or min(known))}: (0, 100)}}"
        here, why = f"columns here: {listed(known, near)}", "bounds belong to a column."
        raise Unfit("names no column", why, remedy, here, code="DPQ603")
    changed: dict[str, Table] = {}
    for table, name in places:
        column = table.columns[name]
        column = replace(column, bounds=_chosen(key, ends, column.type))
        current = changed.get(table.name, table)
        changed[table.name] = replace(current, columns={**current.columns, name: column})
    return changed


def _chosen(key: str, ends: object, type_: Type) -> Bounds:
    """Read the bounds of a column; what is refused is offered as an argument."""
    try:
        return _bounds(ends, type_)
    except Unfit as unfit:
        remedy = f"bounds={{{written(key)}: {_ends(ends, type_)}}}"
        if unfit.code == "DPQ607":
            remedy = f"leave {key} out of bounds="
        raise Unfit(unfit.what, unfit.why, remedy, code=unfit.code) from None


def _ends(ends: object, type_: Type) -> str:
    """Write bounds that could be meant: the same the other way round, or any of the type."""
    if isinstance(ends, list | tuple) and len(ends) == 2:
        plain = all(type(end) in _WRITABLE for end in ends)
        with suppress(Unfit):
            _bounds(ends[::-1], type_)
            return f"({ends[1]!r}, {ends[0]!r})" if plain else "(0, 100)"
    return _EXAMPLES.get(type_.kind, "(0, 100)")


def _bounds(ends: object, type_: Type) -> Bounds:
    if not isinstance(ends, list | tuple) or len(ends) != 2:
        return read_bounds(ends, type_)
    return read_bounds([_typed(end, type_) for end in ends], type_)


def _typed(value: object, type_: Type) -> object:
    """Return the exact value behind a Python number, or a date written as text."""
    if type_.numeric:
        return _exactly(value)
    try:
        if isinstance(value, str) and type_.kind is Kind.DATE:
            return date.fromisoformat(value)
        if isinstance(value, str) and type_.kind is Kind.TIMESTAMP:
            return datetime.fromisoformat(value)
    except ValueError:
        return value
    return value
