"""A policy made from the arguments of `connect`, for one's own Parquet files.

The schema of a table's files is read once and is policy from then on. Nothing else of a file
is looked at: no rows, no counts, no statistics (I1). Values are read as those of a policy
file are, by the keys of `toml_keys.py`; what is offered is written in Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from dpquery.core.privacy_loss import HALF, Ceiling, Loss, exact_number
from dpquery.core.types import DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type
from dpquery.errors import listed, nearest
from dpquery.policy.document import Unfit, written
from dpquery.policy.load import ledger_of_ones_own
from dpquery.policy.model import (
    Bounds,
    Column,
    Csv,
    Files,
    Frame,
    Parquet,
    Policy,
    PolicyBudget,
    Source,
    Table,
)
from dpquery.policy.sources.data_frames import is_frame, read_frame
from dpquery.policy.sources.paths import (
    as_parquet,
    csv_format,
    find_external,
    find_files,
    folder_columns,
    format_of,
    stem,
)
from dpquery.policy.sources.schema import (
    Schema,
    external_schema,
    read_schema,
    schema_of,
    schema_reader,
    united,
)
from dpquery.policy.toml_keys import BUDGET, COLUMN, PRIVACY, TABLE, Key
from dpquery.policy.unit_paths import likely_units, read_unit_type
from dpquery.policy.value_parsers import ascii_folded, read_name

T = TypeVar("T")
Paths = str | Path | Sequence[str | Path]
Rows = Paths | Any
"""Paths, or a frame of rows in memory."""
Given = tuple[str, ...] | Frame
Units = str | Mapping[str, str | None] | None


_KEY = re.compile(r"^(\w+) = ")
_ARGUMENTS = {"privacy_unit_column": "unit", "url": "ledger"}
"""What connect calls keys of a policy, where it has another name for them."""

unsuited = partial(Unfit, code="DPQ608")
"""The refusal of arguments that do not fit each other or what they are about."""


def adhoc_policy(  # noqa: PLR0913 - each is an argument of connect
    source: Rows | Mapping[str, Rows],
    *,
    table: str | None = None,
    unit: Units = None,
    rows_per_unit: int | Mapping[str, int] | None = None,
    max_rows_contributed: object = None,
    epsilon: object = None,
    delta: object = 0,
    bounds: Mapping[str, Sequence[object]] | None = None,
    keys: Mapping[str, Sequence[object]] | None = None,
    public: Paths | Mapping[str, Paths] | None = None,
    neighbours: str = "add-remove",
    ledger: str | Path | None = None,
) -> tuple[Policy, tuple[str, ...]]:
    """Make a policy for some files, and notes on what was assumed, one line each.

    Raises:
        PolicyInvalid: DPQ601 a file cannot be read; DPQ603 an unknown name; DPQ604 a value that
            cannot be taken; DPQ607 a file named twice, or a unit of a type that compares
            inexactly; DPQ608 arguments that do not fit, or no epsilon.
    """
    paths = _named(source, table)
    if epsilon is None:
        raise _no_epsilon(paths, unit).at("")
    limit = [read_argument(BUDGET["epsilon"], epsilon), read_argument(BUDGET["delta"], delta)]
    units = _at("unit", _units, unit, paths)
    of_units = _of_units(rows_per_unit, max_rows_contributed, units)
    tables: dict[str, Table] = {}
    notes: list[str] = []
    for name, texts in paths.items():
        tables[name], said = _table(name, texts, units[name], of_units[name])
        notes += said
    tables = _with_domains(tables, bounds or {}, keys or {})
    tables |= _publics(public, tables)
    if ledger is None:
        notes.append("the ledger is in memory: what is spent is forgotten with this session")
    policy = Policy(
        name=_told(paths),
        neighbours=read_argument(PRIVACY["neighbours"], neighbours),
        budget=PolicyBudget(Ceiling.of(Loss(*limit), HALF)),
        tables=tables,
        ledger=_at("ledger", ledger_of_ones_own, ledger),
        directory=Path.cwd(),
        published=False,
    )
    return policy, tuple(notes)


def _with_domains(
    tables: dict[str, Table], bounds: Mapping[str, object], keys: Mapping[str, object]
) -> dict[str, Table]:
    """Return tables with the bounds and keys that are given for their columns."""
    both = (("bounds", bounds, BOUNDS, _bounded), ("keys", keys, KEYS, _keyed))
    for name, given, example, read in both:
        for key, values in _at(name, _mapping, given, example).items():
            place = f"{name}[{written(key)}]"
            tables = tables | _at(place, _changed, key, tables, example, values, read)
    return tables


def _told(given: Mapping[str, Given]) -> str:
    """Return what was connected to: files as they were named, frames by their tables."""
    each = ([name] if isinstance(one, Frame) else one for name, one in given.items())
    return ", ".join(text for texts in each for text in texts)


def read_argument(key: Key, value: object, code: str = "") -> Any:
    """Read an argument of connect that is called as a key of the policy; offer it in Python.

    Raises:
        PolicyInvalid: it cannot be taken; the code is that of a policy's value unless given.
    """
    return _at(key.name, key.read, _exact(value), code=code)


def _exact(value: object) -> object:
    """Return the number that a text holds, as on the command line; any other value as it is."""
    if not isinstance(value, str):
        return value
    try:
        number = exact_number(value)
    except ValueError:
        return value
    return number.numerator if number.denominator == 1 else number


def _at(key: str, read: Callable[..., T], *arguments: object, code: str = "") -> T:
    """Read an argument; a refusal names it, and offers what is written as in Python."""
    try:
        return read(*arguments)
    except Unfit as unfit:
        offered = (
            _KEY.sub(lambda found: f"{_ARGUMENTS.get(found[1], found[1])}=", line)
            for line in unfit.remedy
        )
        raise Unfit(unfit.what, unfit.why, *offered, code=code or unfit.code).at(key) from None


# Which files there are, and what their tables are called.


def _named(source: Rows | Mapping[str, Rows], table: str | None) -> dict[str, Given]:
    """Return the paths or the rows of each table by its name."""
    named: dict[str, Given] = {}
    if not isinstance(source, Mapping):
        given = _at("the file", _given, source)
        if table is not None:
            _at("table", _refuse_alike, table, named)
            return {table: given}
        return {"df" if isinstance(given, Frame) else _at("the file", _stem, given): given}
    if table is not None:
        why = "each table has its name before its rows."
        raise unsuited("cannot name several tables", why, f"{{{written(table)}: ...}}").at(
            "table"
        )
    for name, rows in source.items():
        _at("the table", _refuse_alike, name, named)
        named[name] = _at("the file", _given, rows)
    if not named:
        why = "queries reach only the tables that are named."
        call = 'connect({"people": "people.parquet"}, ...)'
        raise Unfit("there is no table", why, call).at("")
    return named


def _given(rows: object) -> Given:
    """Return paths as texts, or the rows of a frame; what else was given is not shown."""
    if is_frame(rows):
        return Frame(read_frame(rows))
    several = rows if isinstance(rows, list | tuple) else [rows]
    if not all(isinstance(path, str | Path) for path in several):
        kind = next(type(one) for one in several if not isinstance(one, str | Path)).__name__
        why = "a table is a file, a list of files, a glob, a folder, or a data frame."
        remedy = ('"people.parquet"', *(["collect() it first"] if kind == "LazyFrame" else []))
        raise unsuited(f"is no path: {kind}", why, *remedy)
    return tuple(map(str, several))


def _refuse_alike(value: object, others: Mapping[str, object]) -> None:
    try:
        name = read_name(value)
    except Unfit as unfit:
        raise Unfit(unfit.what, "queries name it.", '{"people": "people.parquet"}') from None
    if ascii_folded(name) in map(ascii_folded, others):
        what = f"differs from another in case only: {written(name)}"
        why = "queries do not distinguish upper and lower case."
        raise unsuited(what, why, "rename one of the two")


def _stem(texts: tuple[str, ...]) -> str:
    name = stem(texts[0]) if len(texts) == 1 else ""
    if not read_name.fits(name):
        why = "a table needs a name, and these paths suggest none."
        call = f'connect({{"people": [{", ".join(map(written, texts))}]}}, ...)'
        raise unsuited("gives the table no name", why, call)
    return name


def _no_epsilon(paths: Mapping[str, Given], unit: Units) -> Unfit:
    """Return the refusal of a budget that nobody stated; of a file that is not there, first."""
    for name, rows in paths.items():
        _at(f"the table {name}", _rows, rows)
    given = next(iter(paths.values()))
    source = "df" if isinstance(given, Frame) else written(given[0])
    shown = written(unit if isinstance(unit, str) else "user_id")
    return unsuited(
        "no epsilon is given",
        "without a policy file nothing else says what the privacy budget in all is.",
        f"dpquery.connect({source}, unit={shown}, epsilon=1)",
        "on the command line: --epsilon 1",
    )


def _table(
    name: str, given: Given, unit: str | None, of_units: Mapping[str, Any]
) -> tuple[Table, list[str]]:
    """Return a table, and what was assumed of it."""
    source, schema = _at(f"the table {name}", _rows, given)
    every = {column: Column(column, type_) for column, type_ in schema.types.items()}
    lists = {name: column for name, column in every.items() if column.type.listed}
    columns = {name: column for name, column in every.items() if name not in lists}
    paths = () if isinstance(given, Frame) else given
    table = Table(name, source, paths, columns, lists=lists)
    notes = [f"{name}: {column} is left out: {why}" for column, why in schema.left_out.items()]
    if isinstance(source, Files) and isinstance(source.format, Csv):
        notes.append(f"{name}: its columns are texts, but where bounds are numbers or dates")
    if unit is None:
        return table, notes
    type_ = _at("unit", _unit_type, table, unit, schema)
    return replace(table, unit=unit, unit_type=type_, **of_units), notes


def _rows(given: Given) -> tuple[Source, Schema]:
    if isinstance(given, Frame):
        return given, schema_of(given.rows.schema)
    external = find_external(given, Path.cwd())
    if external is not None:
        return external, external_schema(external)
    files = find_files(given, Path.cwd())
    if not files:
        why = "a table without a file has no rows."
        raise Unfit("names no file", why, '"people.parquet"', code="DPQ601")
    match format_of(files):
        case "csv":
            csv = csv_format(files)
            return Files(files, csv), united(map(schema_reader(csv), files))
        case "json":
            what = "is JSON, of which nothing says which columns there are"
            why = "its lines are rows, and none of them is looked at."
            policy = 'or a policy: path = "people.json", with the types of the columns'
            raise unsuited(what, why, as_parquet(files[0].name), policy)
    schema, folders = united(map(read_schema, files)), folder_columns(files)
    # A folder's name is a text: what its values have in common is up to the data.
    named = {
        name: TEXT for name in sorted(folders - schema.written.keys()) if read_name.fits(name)
    }
    types = {**schema.types, **named}
    return Files(files, Parquet(tuple(named))), replace(schema, types=types)


# Whose rows they are, and how many of one unit count.


def _refuse_unknown(name: object, tables: Iterable[str], call: str) -> None:
    """Refuse the name of a table that is not connected; `call` has a place for another."""
    known = list(tables)
    if name not in known:
        near = nearest(name if isinstance(name, str) else "", known) or known[0]
        what, why = f"names a table that is not connected: {written(name)}", "each has its own."
        here = f"tables here: {listed(known, near)}"
        raise Unfit(what, why, call % written(near), here, code="DPQ603")


def _units(unit: object, paths: Mapping[str, object]) -> dict[str, str | None]:
    """Return each table's unit column."""
    read = replace(TABLE["privacy_unit_column"], reader=read_name).read
    if not isinstance(unit, Mapping):
        return dict.fromkeys(paths, None if unit is None else read(unit))
    for name in unit:
        _refuse_unknown(name, paths, "unit={%s: ...}")
    for name in paths:
        if name not in unit:
            what = f"says nothing of the table {name}"
            why = "each table needs its unit column, or None where each row is a unit."
            raise unsuited(what, why, f"unit={{..., {written(name)}: None}}")
    return {name: None if unit[name] is None else read(unit[name]) for name in paths}


def _of_units(
    single: object, rows: object, units: Mapping[str, str | None]
) -> dict[str, dict[str, Any]]:
    """Read how many rows a unit of each table has, and how many of them count."""
    one, most = TABLE["rows_per_unit"], TABLE["max_rows_contributed"]
    singles = _of_tables(one, single, units)
    limits = _of_tables(most, rows, units)
    if singles and not any(units.values()):
        why = "without a unit column each row is its own privacy unit."
        raise unsuited("needs unit", why, 'unit="user_id"').at(one.name)
    both = singles.keys() & limits.keys()
    if both or (limits and not any(units.values())):
        why = "with one row per unit, or rows as units, there is nothing to limit."
        remedy = "leave out rows_per_unit" if both else 'unit="user_id"'
        raise unsuited("has nothing to limit", why, remedy).at(most.name)
    return {
        name: {
            key.to: of_tables[name]
            for key, of_tables in ((one, singles), (most, limits))
            if name in of_tables
        }
        for name in units
    }


def _of_tables(key: Key, given: object, units: Mapping[str, str | None]) -> dict[str, Any]:
    """Return what is said of each table: the same of all with a unit, or of each by name."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        value = read_argument(key, given)
        return {
            name: value for name, unit in units.items() if unit is not None or len(units) == 1
        }
    for name in given:
        if units.get(name) is None:
            _at(key.name, _refuse_unknown, name, units, f"{key.name}={{%s: ...}}")
            why = "without a unit column each row is its own privacy unit."
            raise unsuited(f"has nothing to limit in {name}", why, "leave it out").at(key.name)
    return {name: read_argument(key, value) for name, value in given.items()}


def _unit_type(table: Table, unit: str, schema: Schema) -> Type:
    if unit not in table.columns:
        reason = schema.left_out.get(unit, f"there is no column {written(unit)}")
        near = nearest(unit, table.columns)
        why = f"columns of {table.name}: {listed(table.columns, near)}."
        likely = [*likely_units(schema.types), *sorted(table.columns)]
        remedy = f"unit={written(near or likely[0])}"
        what = f"does not fit the table {table.name}: {reason}"
        raise unsuited(what, why, remedy)
    return read_unit_type(unit, table.columns[unit].type)


# Bounds of columns, by `column` or `table.column`.


BOUNDS, KEYS = COLUMN["bounds"], COLUMN["keys"]
_SHOWN = {"bounds": "(0, 300_000)", "keys": '["eng", "ops"]'}
_COLUMNS = {"bounds": "salary", "keys": "dept"}


def _mapping(given: object, key: Key) -> Mapping[str, object]:
    if isinstance(given, Mapping):
        strange = [name for name in given if not isinstance(name, str)]
        if not strange:
            return given
        given = strange[0]
    why = f"each column has its own {key.name}."
    what = f"must map columns to {key.name}, not {written(given)}"
    call = f"{key.name}={{{written(_COLUMNS[key.name])}: {_SHOWN[key.name]}}}"
    raise unsuited(what, why, call)


def _changed(
    name: str,
    tables: Mapping[str, Table],
    key: Key,
    given: object,
    change: Callable[[str, Table, Column, object], Column],
) -> dict[str, Table]:
    """Return the tables with a column of a name, or of a table and a name, that it changes."""
    changed: dict[str, Table] = {}
    for table in tables.values():
        meant = {n: c for n, c in table.columns.items() if name in {n, f"{table.name}.{n}"}}
        if meant:
            new = {n: change(name, table, c, given) for n, c in meant.items()}
            changed[table.name] = replace(table, columns={**table.columns, **new})
    if not changed:
        known = {column for table in tables.values() for column in table.columns}
        near = nearest(name, known)
        shown = "(0, 100)" if key is BOUNDS else _SHOWN[key.name]
        remedy = f"{key.name}={{{written(near or min(known))}: {shown}}}"
        here, why = f"columns here: {listed(known, near)}", f"{key.name} belong to a column."
        raise Unfit("names no column", why, remedy, here, code="DPQ603")
    return changed


def _bounded(name: str, table: Table, column: Column, ends: object) -> Column:
    type_ = _type_of(ends) if column.name in _texts_of(table) else column.type
    return replace(column, type=type_, bounds=_bounds(name, ends, type_))


def _texts_of(table: Table) -> Collection[str]:
    """Return the columns of a table that are texts because nothing else is known of them."""
    match table.source:
        case Files(format=Csv()):
            return {*table.columns} - {table.unit}
        case Files(format=Parquet(partitions)):
            return {*partitions} - {table.unit}
    return ()


def _type_of(ends: object) -> Type:
    """Return the type of a column of texts, by its bounds: whole numbers are of integers."""
    for type_ in (INTEGER, DOUBLE, DATE, TIMESTAMP):
        whole = type_ != INTEGER or "." not in str(ends)
        if whole and BOUNDS.reader.fits(_typed(ends, type_), type_):
            return type_
    return TEXT


def _keyed(name: str, _: Table, column: Column, values: object) -> Column:
    """Return a column with the groups that may appear."""
    if column.type == DOUBLE:  # as whole numbers are where one is missing
        column = replace(column, type=INTEGER)
    known = (column.type, column.bounds, column.max_length)
    try:
        keys = KEYS.read(_typed(values, column.type), known)
    except Unfit as unfit:
        meant = unfit.remedy[0].removeprefix("keys = ")
        raise Unfit(unfit.what, unfit.why, f"keys={{{written(name)}: {meant}}}") from None
    return replace(column, keys=keys)


# Tables that hold nobody's data.


def _publics(
    public: Paths | Mapping[str, Paths] | None, private: Mapping[str, Table]
) -> dict[str, Table]:
    """Return the public tables; they are loaded when the session opens."""
    if public is None:
        return {}
    found: dict[str, Table] = {}
    for name, texts in _named(public, None).items():
        _at("public", _refuse_alike, name, {**private, **found})
        if isinstance(texts, Frame):
            raise unsuited("is a data frame", "public tables are files.", '"a.csv"').at(
                "public"
            )
        files = _at("public", find_files, texts, Path.cwd())
        found[name] = Table(name, Files(files), texts, {}, public=True)
    shown = {path for table in found.values() for path in _paths(table)}
    if shown.intersection(*[{path for table in private.values() for path in _paths(table)}]):
        why = "what is private under one name cannot be shown under another."
        raise unsuited("is also a private table's data", why, "leave one out").at("public")
    return found


def _paths(table: Table) -> Sequence[Path]:
    return table.source.paths if isinstance(table.source, Files) else ()


def _bounds(key: str, ends: object, type_: Type) -> Bounds:
    """Read the bounds of a column; what is refused is offered as an argument."""
    if BOUNDS.kinds is not None:
        BOUNDS.kinds.require(type_, f"leave {key} out of bounds=")
    try:
        found: Bounds = BOUNDS.read(_typed(ends, type_), (type_,))
    except Unfit as unfit:
        meant = unfit.remedy[0].removeprefix("bounds = ")[1:-1].split(", ")
        pair = ", ".join(end if type_.numeric else f'"{end}"' for end in meant)
        raise Unfit(unfit.what, unfit.why, f"bounds={{{written(key)}: ({pair})}}") from None
    return found


def _typed(value: object, type_: Type) -> object:
    """Return the exact values behind Python's numbers and behind dates written as text."""
    if isinstance(value, list | tuple):
        return [_typed(end, type_) for end in value]
    if type_.numeric:
        return _exact(value)
    with suppress(ValueError):
        if isinstance(value, str) and type_.kind is Kind.DATE:
            return date.fromisoformat(value)
        if isinstance(value, str) and type_.kind is Kind.TIMESTAMP:
            return datetime.fromisoformat(value)
    if type_.kind is Kind.BOOLEAN and isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower(), value)
    return value
