"""From the data owner's file to a `Policy`, or to a refusal that names file, line and key.

Every list of keys is closed, and what contradicts itself is refused (I9): a policy that was
misunderstood would be a promise that nobody made. No data is read here, only names of files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path

from dpquery.core.privacy import HALF, Ceiling, Loss, Neighbours, decimal_text
from dpquery.core.types import ROWS_MAX
from dpquery.errors import listed, nearest
from dpquery.policy.columns import read_columns, read_unit, refuse_alike
from dpquery.policy.document import Section, Unfit, dotted, read_document, toml_text, written
from dpquery.policy.files import as_parquet, find_file, find_files, is_database
from dpquery.policy.ledgers import read_ledger
from dpquery.policy.model import Budget, DatabaseTable, Files, Policy, ScanLimits, Table
from dpquery.policy.values import (
    read_count,
    read_delta,
    read_epsilon,
    read_flag,
    read_names,
    read_neighbours,
    read_paths,
    read_rho,
    read_rows,
    read_single,
    read_text,
)

# The limits of a policy: the whole, and each analyst's, in epsilon or in rho.


_BUDGET_KEYS = (
    "epsilon",
    "rho",
    "delta",
    "delta_for_conversion",
    "max_epsilon_per_query",
    "shared_answers",
)


def read_budget(section: Section) -> Budget:
    """Read what all queries together may lose."""
    section.only(_BUDGET_KEYS)
    delta = section.read("delta", read_delta, Fraction(0))
    share = _share(section, delta)
    most = section.read("max_epsilon_per_query", read_epsilon, None)
    shared = section.read("shared_answers", read_flag, False)
    return Budget(_ceiling(section, delta, share), most, share, shared)


def read_analysts(section: Section, budget: Budget) -> dict[str, Ceiling]:
    """Read the analysts' own ceilings; one that says nothing of delta shares the policy's."""
    refuse_alike(section)
    found = {}
    for name, child in section.children():
        analyst = child.only(("epsilon", "rho", "delta"))
        delta = analyst.read("delta", read_delta, budget.limit.delta)
        found[name] = _ceiling(analyst, delta, budget.share)
    return found


def _share(section: Section, delta: Fraction) -> Fraction:
    """Read which part of delta is kept to convert rho; half of it, where nothing is said."""
    converted = section.read("delta_for_conversion", read_delta, None)
    if converted is None:
        return HALF
    if not converted <= delta:
        why = "it is the part of delta at which rho is converted; the rest is for releases."
        half = f"delta_for_conversion = {decimal_text(delta / 2)}"
        raise section.refuse("delta_for_conversion", Unfit("is above delta", why, half))
    return converted / delta if delta else HALF


def _ceiling(section: Section, delta: Fraction, share: Fraction) -> Ceiling:
    if "rho" not in section:
        return Ceiling.of(Loss(_epsilon(section), delta), share)
    rho = section.need("rho", read_rho)
    if "epsilon" in section:
        why = "under rho no epsilons are added up; under epsilon and delta, either sum may do."
        unfit = Unfit("stands beside epsilon", why, f"rho = {decimal_text(rho)}", code="DPQ607")
        raise section.refuse("rho", unfit)
    if not delta * share:
        why = "a rho says nothing about odds before it is converted, at a part of delta."
        unfit = Unfit("has no delta to be converted at", why, "delta = 1e-6", code="DPQ607")
        raise section.refuse("rho", unfit)
    return Ceiling.in_rho(rho, delta, share)


def _epsilon(section: Section) -> Fraction:
    if "epsilon" not in section:
        why = "there is no default: the owner states how much may be lost in all."
        unfit = Unfit("has no epsilon", why, "epsilon = 1", code="DPQ607")
        raise section.refuse(None, unfit)
    return section.need("epsilon", read_epsilon)


# What one reading of the private tables may take: `[limits]` of a policy.


_KEYS = ("seconds", "memory", "max_failures")
_FAILURES_MAX = 100
_SECONDS_MAX = 7 * 24 * 3600
_MEMORY = re.compile(r"([1-9][0-9]{0,5})(MB|GB|MiB|GiB)", re.ASCII)
_LEAST = 128_000_000
_BYTES = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}


def read_limits(section: Section) -> ScanLimits:
    """Read `[limits]`, all of which may be absent.

    Raises:
        PolicyInvalid: DPQ603, DPQ604.
    """
    section.only(_KEYS)
    usual = ScanLimits()
    return ScanLimits(
        section.read("seconds", _read_seconds, usual.seconds),
        section.read("memory", _read_memory, usual.memory),
        section.read("max_failures", _read_failures, usual.max_failures),
    )


_read_seconds = read_count(
    _SECONDS_MAX, "a scan that takes longer is stopped, and its charge stays.", "seconds = 600"
)
_read_failures = read_count(
    _FAILURES_MAX,
    "when so many statements have failed within 24 hours, the analyst is frozen.",
    "max_failures = 5",
)


def _read_memory(value: object) -> str:
    found = _MEMORY.fullmatch(value) if isinstance(value, str) else None
    if found is None or int(found[1]) * _BYTES[found[2]] < _LEAST:
        what = f"must be a text such as 4GB, of 128MB or more, not {written(value)}"
        why = "it is what the engine may use to read the private tables."
        raise Unfit(what, why, 'memory = "4GB"')
    return found[0]


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
