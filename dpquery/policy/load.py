"""From the data owner's file to a `Policy`, or to a refusal that names file, line and key.

Every list of keys is closed, and what contradicts itself is refused (I9): a policy that was
misunderstood would be a promise that nobody made. No data is read here, only names of files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dpquery.errors import listed, nearest
from dpquery.policy.budgets import read_analysts, read_budget
from dpquery.policy.columns import read_columns, read_unit, refuse_alike
from dpquery.policy.document import Section, read_document
from dpquery.policy.files import find_file, find_files
from dpquery.policy.formats import as_parquet, is_database
from dpquery.policy.ledgers import read_ledger
from dpquery.policy.limits import read_limits
from dpquery.policy.model import (
    DatabaseTable,
    Files,
    Policy,
    Table,
)
from dpquery.policy.unfit import Unfit, dotted, toml_text
from dpquery.policy.values import (
    read_count,
    read_flag,
    read_names,
    read_neighbours,
    read_paths,
    read_rows,
    read_single,
    read_text,
)
from dpquery.privacy import Neighbours
from dpquery.types import ROWS_MAX

__all__ = ["load_policy"]

_LIMITS = ("max_rows_contributed", "max_groups_contributed")
_UNIT_KEYS = ("privacy_unit_type", "rows_per_unit", *_LIMITS)
"""What can be said of a unit column, and only where there is one."""
_TABLE_KEYS = (
    "path",
    "database",
    "table",
    "privacy_unit_column",
    *_UNIT_KEYS,
    "public",
    "unique",
    "columns",
)


def load_policy(path: str | Path) -> Policy:
    """Read a policy file.

    Raises:
        PolicyInvalid: DPQ601 a file cannot be read; DPQ602 not TOML; DPQ603 unknown key;
            DPQ604 a value that cannot be taken; DPQ607 a contradiction, or no epsilon.
    """
    document = read_document(path)
    root = document.root.only(("privacy", "budget", "limits", "analysts", "ledger", "tables"))
    budget = read_budget(root.child("budget"))
    tables = _tables(root.child("tables"))
    privacy = root.child("privacy").only(("neighbours",))
    _refuse_public_private(root.child("tables"), tables)
    _refuse_two_units(root.child("tables"), tables)
    return Policy(
        name=document.name,
        neighbours=privacy.read("neighbours", read_neighbours, Neighbours.ADD_REMOVE),
        budget=budget,
        tables=tables,
        ledger=read_ledger(root.child("ledger")),
        analysts=read_analysts(root.child("analysts"), budget),
        directory=document.path.parent,
        limits=read_limits(root.child("limits")),
    )


def _tables(section: Section) -> dict[str, Table]:
    refuse_alike(section)
    tables = {name: _table(name, child) for name, child in section.children()}
    if not tables:
        why = "queries reach only the tables that the policy names."
        unfit = Unfit("holds no table", why, "[tables.people]", code="DPQ607")
        raise section.refuse(None, unfit)
    return tables


def _table(name: str, section: Section) -> Table:
    section.only(_TABLE_KEYS)
    public = section.read("public", read_flag, False)
    _refuse_contradiction(section, public)
    source, written = _source(section, public)
    columns = read_columns(section.child("columns"), public=public)
    unit, unit_type = read_unit(section, columns)
    return Table(
        name=name,
        source=source,
        written=written,
        columns=columns,
        unit=unit,
        unit_type=unit_type,
        single=section.read("rows_per_unit", read_single, False),
        max_rows_contributed=section.read("max_rows_contributed", read_rows, None),
        max_groups_contributed=section.read(
            "max_groups_contributed", read_count(ROWS_MAX), None
        ),
        public=public,
        unique=_unique(section, columns),
    )


def _refuse_contradiction(section: Section, public: bool) -> None:
    """Refuse keys that cannot stand together, each pair with its reason."""
    keyless = "privacy_unit_column" not in section
    of_units = [key for key in ("privacy_unit_column", *_UNIT_KEYS) if key in section]
    if public and of_units:
        key, why = of_units[0], "a public table holds nobody's data, so it has no privacy unit."
        remedy = "leave out this key, or public = true"
    elif keyless and of_units:
        key, why = of_units[0], "without a unit column each row is its own privacy unit."
        remedy = 'privacy_unit_column = "user_id"'
    elif "rows_per_unit" in section and (
        above := [key for key in _LIMITS if section.values.get(key, 1) != 1]
    ):
        key, why = above[0], "rows_per_unit says that each unit has one row."
        remedy = "leave out one of the two"
    elif not public and "unique" in section:
        key, why = "unique", "only a public table promises that its keys are unique."
        remedy = "public = true"
    elif not public and not section.values.get("columns"):
        key, why = None, "columns that are not listed do not exist, so nothing could be asked."
        remedy = (
            f"[{dotted((*section.path, 'columns'))}], or public = true if it is nobody's data"
        )
    else:
        return
    what = "lists no columns" if key is None else "does not fit the rest of the table"
    raise section.refuse(key, Unfit(what, why, remedy, code="DPQ607"))


def _source(section: Section, public: bool) -> tuple[Files | DatabaseTable, tuple[str, ...]]:
    directory = section.document.path.parent
    given = section.values.keys() & {"path", "database", "table"}
    if given == {"path"}:
        written = section.need("path", read_paths)
        files = section.need("path", lambda _: find_files(written, directory))
        lines = [file.name for file in files if file.suffix.lower() == ".csv"]
        if lines and not public:
            raise section.refuse("path", _private_csv(lines[0]))
        databases = [text for text in written if is_database(Path(text))]
        if databases:
            raise section.refuse("path", _no_table(databases[0], public))
        return Files(files), written
    if given == {"database", "table"}:
        text = section.need("database", read_text)
        database = section.need("database", lambda _: find_file(text, directory))
        return DatabaseTable(database, section.need("table", read_text)), ()
    why = "the rows of a table come from files, or from one table of a DuckDB file."
    unfit = Unfit(
        "has no source" if not given else "has an unclear source",
        why,
        'path = "people.parquet"',
        'or both database = "people.duckdb" and table = "people"',
        code="DPQ607",
    )
    raise section.refuse(min(given, default=None), unfit)


def _private_csv(name: str) -> Unfit:
    return Unfit(
        "names a CSV file for a private table",
        "one line that cannot be read would stop the scan, and tell of that line.",
        as_parquet(name),
        code="DPQ607",
    )


def _no_table(database: str, public: bool) -> Unfit:
    keys = (f"database = {toml_text(database)}", 'table = "people"')
    return Unfit(
        f"names a DuckDB file: {toml_text(database)}",
        "it can hold several tables, so that a path alone names none of them.",
        *((as_parquet(database),) if public else keys),
        code="DPQ607",
    )


def _unique(section: Section, columns: Mapping[str, object]) -> tuple[str, ...]:
    unique: tuple[str, ...] = section.read("unique", read_names, ())
    for name in unique:
        if columns and name not in columns:
            near = nearest(name, columns)
            what = f"names a column that is not listed: {name}"
            why = "a column that is not listed does not exist."
            unfit = Unfit(what, why, f"columns here: {listed(columns, near)}", code="DPQ607")
            raise section.refuse("unique", unfit)
    return unique


def _refuse_public_private(section: Section, tables: Mapping[str, Table]) -> None:
    """Refuse a file that is public as one table and private as another."""
    private = {
        place for table in tables.values() if not table.public for place in _places(table)
    }
    for table in tables.values():
        if table.public and private & _places(table):
            why = "what is private under one name cannot be shown under another."
            remedy = "public = true for both, or for neither"
            unfit = Unfit("is also a private table's data", why, remedy, code="DPQ607")
            raise section.child(table.name).refuse("public", unfit)


def _refuse_two_units(section: Section, tables: Mapping[str, Table]) -> None:
    """Refuse a file under two private tables that protect different units."""
    units: dict[object, Table] = {}
    for table in tables.values():
        for place in () if table.public else _places(table):
            other = units.setdefault(place, table)
            if other.unit != table.unit:
                what = f"protects another unit than {other.name} does in the same file"
                why = "whoever may ask about the one could see what the other protects."
                remedy = "name the same privacy_unit_column for both"
                unfit = Unfit(what, why, remedy, code="DPQ607")
                raise section.child(table.name).refuse("privacy_unit_column", unfit)


def _places(table: Table) -> set[object]:
    source = table.source
    return set(source.paths) if isinstance(source, Files) else {source}
