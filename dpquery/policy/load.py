"""From the data owner's file to a `Policy`, or to a refusal that names file, line and key.

Every list of keys is closed, and what contradicts itself is refused (I9): a policy that was
misunderstood would be a promise that nobody made. No data is read here, only names of files.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

from dpquery.core.privacy_loss import HALF, Ceiling, Loss, decimal_text
from dpquery.core.types import Kind
from dpquery.errors import listed, nearest
from dpquery.policy.document import (
    Document,
    Section,
    Unfit,
    contradiction,
    dotted,
    read_document,
    toml_key,
    toml_text,
    written,
)
from dpquery.policy.model import (
    MAIN,
    Column,
    DatabaseTable,
    External,
    Files,
    Format,
    Json,
    LedgerSettings,
    Parquet,
    Policy,
    PolicyBudget,
    Price,
    ScanLimits,
    Server,
    Source,
    Table,
)
from dpquery.policy.sources.paths import (
    as_parquet,
    csv_format,
    find_external,
    find_file,
    find_files,
    folder_columns,
    format_of,
    is_database,
    is_sqlite,
    unlinked,
)
from dpquery.policy.toml_keys import (
    ANALYST,
    BUDGET,
    COLUMN,
    LEDGER,
    LIMITS,
    PRIVACY,
    QUERIES,
    SECTIONS,
    TABLE,
    missing,
)
from dpquery.policy.unit_paths import (
    UNDECIDED,
    require_one_domain,
    several,
    stored_unit_type,
    undecided,
    with_ways,
)
from dpquery.policy.value_parsers import PARTS_MAX, ascii_folded, read_name, read_url


def load_policy(path: str | Path, *, private: bool = True) -> Policy:
    """Read a policy file.

    Args:
        path: the file.
        private: whether the rows of private tables are looked for; without it, nothing of them
            is touched, and they have no files.

    Raises:
        PolicyInvalid: DPQ601 a file cannot be read; DPQ602 not TOML; DPQ603 unknown key;
            DPQ604 a value that cannot be taken; DPQ607 a contradiction, or no epsilon.
    """
    return policy_of(read_document(path), private=private)


def policy_of(document: Document, *, private: bool = True) -> Policy:
    """Return what a policy file says, or refuse it as `load_policy` does."""
    root = Section(document, (), document.values).only(SECTIONS)
    budget = _budget(root.child("budget"))
    _require_decided(root)
    privacy = PRIVACY.read(root.child("privacy"))
    tables = _tables(root.child("tables"), privacy["unit"], private=private)
    return Policy(
        name=document.name,
        budget=budget,
        tables=in_zone(tables, privacy["zone"]),
        ledger=_ledger(root.child("ledger")),
        analysts=_analysts(root.child("analysts"), budget),
        directory=document.path.parent,
        limits=ScanLimits(**LIMITS.read(root.child("limits"))),
        price=Price(**QUERIES.read(root.child("queries"))),
        **privacy,
    )


def _require_decided(root: Section) -> None:
    """Refuse what a draft leaves to the owner: the first, with the places of the others."""
    tables = [table for _, table in root.child("tables").children()]
    asked = [(root.child("privacy"), "unit")]
    asked += [(table, key) for table in tables for key in ("public", "privacy_unit_column")]
    found = [(one, key) for one, key in asked if one.values.get(key) == UNDECIDED]
    for section, key in found:
        others = [dotted((*one.path, other)) for one, other in found[1:]]
        raise section.refuse(key, undecided(section, key, others))


def in_zone(tables: Mapping[str, Table], zone: str) -> dict[str, Table]:
    """Return tables whose instants are shown and looked up in a time zone."""
    return {name: _in_zone(table, zone) for name, table in tables.items()}


def _in_zone(table: Table, zone: str) -> Table:
    def zoned(columns: Mapping[str, Column]) -> dict[str, Column]:
        return {
            name: replace(column, type=replace(column.type, zone=zone))
            if column.type.kind is Kind.TIMESTAMPTZ
            else column
            for name, column in columns.items()
        }

    columns, lists = zoned(table.columns), zoned(table.lists)
    return replace(table, columns=columns, lists=lists, zone=zone)


# The limits of a policy: the whole, and each analyst's, in epsilon or in rho.


def _budget(section: Section) -> PolicyBudget:
    """Read what all queries together may lose."""
    stated = BUDGET.read(section)
    delta, converted = stated["delta"] or Fraction(0), stated["delta_for_conversion"]
    if converted is not None and converted > delta:
        key = BUDGET["delta_for_conversion"]
        half = f"{key.name} = {decimal_text(delta / 2)}"
        raise section.refuse(key.name, Unfit("is above delta", key.why, half))
    share = HALF if converted is None or not delta else converted / delta
    ceiling = _ceiling(section, stated, delta, share)
    return PolicyBudget(
        ceiling, stated["max_epsilon_per_query"], share, stated["shared_answers"]
    )


def _analysts(section: Section, budget: PolicyBudget) -> dict[str, Ceiling]:
    """Read the analysts' own ceilings; one that says nothing of delta shares the policy's."""
    _refuse_alike(section)
    found = {}
    for name, child in section.children():
        stated = ANALYST.read(child)
        delta = budget.limit.delta if stated["delta"] is None else stated["delta"]
        found[name] = _ceiling(child, stated, delta, budget.share)
    return found


def _ceiling(
    section: Section, stated: Mapping[str, Any], delta: Fraction, share: Fraction
) -> Ceiling:
    if stated["rho"] is None:
        if stated["epsilon"] is None:
            raise section.refuse(None, missing(BUDGET["epsilon"]))
        return Ceiling.of(Loss(stated["epsilon"], delta), share)
    if not delta * share:
        what = "has no delta to be converted at"
        why = "a rho says nothing about odds before it is converted, at a part of delta."
        raise section.refuse("rho", contradiction(what, why, "delta = 1e-6"))
    return Ceiling.in_rho(stated["rho"], delta, share)


# The tables, and where their rows are.


def _tables(section: Section, unit: str | None, *, private: bool) -> dict[str, Table]:
    _refuse_alike(section)
    tables = {name: _table(name, child, private) for name, child in section.children()}
    if not tables:
        why = "queries reach only the tables that the policy names."
        raise section.refuse(None, contradiction("holds no table", why, "[tables.people]"))
    tables = with_ways(section, tables)
    if unit is not None:
        require_one_domain(section, tables, unit)
    _refuse_contradictions(section, tables)
    return tables


def _table(name: str, section: Section, private: bool) -> Table:
    stated = TABLE.read(section)
    public = stated["public"]
    if not public and not section.values.get("columns"):
        why = "columns that are not listed do not exist, so nothing could be asked."
        header = f"[{dotted((*section.path, 'columns'))}]"
        remedy = f"{header}, or public = true if it is nobody's data"
        raise section.refuse(None, contradiction("lists no columns", why, remedy))
    sources = ("path", "database", "table", "schema", "format", *_OF_CSV)
    given = {key: stated.pop(key) for key in sources}
    columns = _columns(section.child("columns"), public)
    for column in stated["unique"] if columns else ():
        if column not in columns:
            what = f"names a column that is not listed: {column}"
            why = "a column that is not listed does not exist."
            here = f"columns here: {listed(columns, nearest(column, columns))}"
            raise section.refuse("unique", contradiction(what, why, here))
    columns, lists = _apart(section, columns, public)
    unit, way = stated["unit"], stated.pop("through")  # of other tables, which are read first
    owner = way["column"] if way else unit
    if isinstance(unit, tuple):
        stated |= {"together": several(section, unit, columns), "unit": ", ".join(unit)}
        owner = None
    stated["unit_type"] = stored_unit_type(section, stated, columns)
    named = [*columns, *lists, *([] if owner in {None, *columns} else [owner])]
    looked = public or private
    source = _source(section, given, public, named) if looked else Files(())
    return Table(name, source, given["path"] or (), columns, lists=lists, **stated)


def _apart(
    section: Section, columns: dict[str, Column], public: bool
) -> tuple[dict[str, Column], dict[str, Column]]:
    """Return columns of values, and those of lists."""
    lists = {name: column for name, column in columns.items() if column.type.listed}
    for name in lists if public else ():
        what, why = "is a list in a public table", "a public table has one value in each place."
        unfit = contradiction(what, why, "leave the column out")
        raise section.child("columns").refuse(name, unfit)
    return {name: one for name, one in columns.items() if name not in lists}, lists


def _source(
    section: Section, given: Mapping[str, Any], public: bool, named: Sequence[str]
) -> Source:
    """Find the rows of a table: in files, or in one table of a database."""
    path, database, table = given["path"], given["database"], given["table"]
    if path and not database and not table:
        return _in_files(section, given, public, named)
    if database and table and not path:
        return _in_database(section, given, public)
    places = ("path", "database", "table")
    stated = [key for key in places if given[key]]
    unfit = contradiction(
        "has an unclear source" if stated else "has no source",
        "the rows of a table come from files, or from one table of a database.",
        'path = "people.parquet"',
        'or both database = "people.duckdb" and table = "people"',
    )
    raise section.refuse(min(stated, default=None), unfit)


def _in_files(
    section: Section, given: Mapping[str, Any], public: bool, named: Sequence[str]
) -> Source:
    path, directory = given["path"], section.document.path.parent
    external = section.read("path", find_external, path, directory)
    if external is not None:
        return _private(section, "path", external, public)
    files = section.read("path", find_files, path, directory, given["format"] or "parquet")
    for text in path:
        if is_database(Path(text)):
            what = f"names a DuckDB file: {toml_text(text)}"
            why = "it can hold several tables, so that a path alone names none of them."
            keys = (f"database = {toml_text(text)}", 'table = "people"')
            remedy = (as_parquet(text),) if public else keys
            raise section.refuse("path", contradiction(what, why, *remedy))
    return Files(files, _format(section, given, files, named))


def _in_database(section: Section, given: Mapping[str, Any], public: bool) -> Source:
    database, table, schema = given["database"], given["table"], given["schema"]
    if "://" in database:
        url = section.read("database", read_url, database)
        whole = table if schema is None and "." in table else f"{schema or 'public'}.{table}"
        return _private(section, "database", External("postgres", url, whole), public)
    found = section.read("database", find_file, database, section.document.path.parent)
    if is_sqlite(found):
        return _private(section, "database", External("sqlite", str(found), table), public)
    if schema is None and table.count(".") == 1:
        schema, table = table.split(".")
    return DatabaseTable(found, table, schema or MAIN)


def _private(section: Section, key: str, source: External, public: bool) -> External:
    """Refuse a public table that is in no file."""
    if public:
        what = "names what is no file for a public table"
        why = "public tables are read from files, whole, when a session opens."
        raise section.refuse(key, contradiction(what, why, 'path = "regions.parquet"'))
    return source


def _format(
    section: Section, given: Mapping[str, Any], files: Sequence[Path], named: Sequence[str]
) -> Format:
    """Return how rows stand in files: as their names end, unless the policy says it."""
    found = given["format"] or section.read("path", format_of, files)
    stated = {key: given[key] for key in _OF_CSV if given[key] is not None}
    if stated and found != "csv":
        key = min(stated)
        unfit = contradiction("is of CSV files alone", TABLE[key].why, 'format = "csv"')
        raise section.refuse(key, unfit)
    match found:
        case "csv":
            format_ = replace(csv_format(files), **stated)
            if format_.delimiter == format_.quote:
                unfit = contradiction("is the delimiter, too", TABLE["quote"].why, 'quote = ""')
                raise section.refuse("quote", unfit)
            return format_
        case "json":
            return Json()
        case _:
            folders = folder_columns(files)
            return Parquet(tuple(name for name in named if name in folders))


_OF_CSV = ("delimiter", "quote", "null", "fields")


def _refuse_contradictions(section: Section, tables: Mapping[str, Table]) -> None:
    """Refuse a file that is public and private, or that protects different units."""
    first: dict[object, Table] = {}
    for table in sorted(tables.values(), key=lambda table: table.public):
        for place in _places(table.source):
            other = first.setdefault(place, table)
            if other.public != table.public:
                key, what = "public", "is also a private table's data"
                why = "what is private under one name cannot be shown under another."
                remedy = "public = true for both, or for neither"
            elif (other.unit, other.through) != (table.unit, table.through):
                key = "privacy_unit_column"
                what = f"protects another unit than {other.name} does in the same file"
                why = "whoever may ask about the one could see what the other protects."
                remedy = "name the same privacy_unit_column for both"
            else:
                continue
            raise section.child(table.name).refuse(key, contradiction(what, why, remedy))


def _places(source: Source) -> Sequence[object]:
    match source:
        case Files(paths):
            return paths
        case External():
            return [source.root]
        case _:
            return [source]


# Columns: what is not listed does not exist for analysts.


def _columns(section: Section, public: bool) -> dict[str, Column]:
    _refuse_alike(section)
    columns = {name: _column(name, section, public) for name in section.values}
    parting = [name for name, column in columns.items() if _key_of_parts(column)]
    if len(parting) > 1:
        first, second = (_key_of_parts(columns[name]) for name in parting[:2])
        also = "too" if first == second else f"has {first}"
        what = f"is said of two columns: {parting[0]} {also}"
        why = "a table has the parts of one column, and two would each name others."
        unfit = contradiction(what, why, f"{second} = true for one of them")
        raise section.child(parting[1]).refuse(second, unfit)
    return columns


def _column(name: str, columns: Section, public: bool) -> Column:
    if isinstance(value := columns.values[name], str):
        what = f"is not a table but {written(value)}"
        remedy = f"{toml_key(name)} = {{ type = {written(value)} }}"
        raise columns.refuse(name, Unfit(what, "a column has a table of keys.", remedy))
    section = columns.child(name)
    if "type" not in section:
        section.only(COLUMN.names)
        raise section.refuse(None, missing(COLUMN["type"], "DPQ604"))
    column = Column(name, **COLUMN.read(section, public=public))
    key = _key_of_parts(column)
    if key and not column.parts:
        why = "each of them is a part, and all other values are one more."
        line = f"{{ type = {written(str(column.type))}, keys = [...], {key} = true }}"
        raise section.refuse(
            key, contradiction("needs keys", why, f"{toml_key(name)} = {line}")
        )
    if key and len(column.parts) > PARTS_MAX:
        what = f"parts a table into more than {PARTS_MAX} keys"
        why = "the ledger holds what each part has spent."
        raise section.refuse(key, contradiction(what, why, "fewer keys, or leave it out"))
    return column


def _key_of_parts(column: Column) -> str:
    """Return the key that makes the values of a column parts, if one does."""
    return "per_unit" if column.per_unit else "parts" if column.parts_rows else ""


def _refuse_alike(section: Section) -> None:
    """Refuse names that are none, and names that SQL would not tell apart."""
    seen: dict[str, str] = {}
    for name in section.values:
        try:
            folded = ascii_folded(read_name(name))
        except Unfit as unfit:
            why = "it names a table, a column or an analyst."
            raise section.refuse(name, Unfit(unfit.what, why, "another name")) from None
        if folded in seen:
            what = f"differs from {seen[folded]} in case only"
            why = "queries do not distinguish upper and lower case, so neither could be meant."
            remedy = "rename or leave out one of the two"
            raise section.refuse(name, contradiction(what, why, remedy))
        seen[folded] = name


# Where the ledger is: in memory, in a file, or on a PostgreSQL server.


_SERVER = re.compile(r"^postgres(ql)?:|://|\b(host|dbname|password) *=")
"""What no file of one's own is called: a server is meant, if not always in a URL."""


def _ledger(section: Section) -> LedgerSettings:
    """Read `[ledger]`, all of which may be absent."""
    stated = LEDGER.read(section)
    policy, schema = section.document.path, stated["schema"]
    mark = unlinked(policy.parent / stated["high_water"]) if stated["high_water"] else None
    if stated["url"] is not None:
        _require_apart(section, "high_water", mark, [policy])
        faults = policy.with_name(f"{policy.stem}.ledger.faults")
        return LedgerSettings(None, mark, Server(stated["url"], schema), faults)
    ledger = unlinked(policy.parent / (stated["path"] or f"{policy.stem}.ledger"))
    _require_apart(section, "path", ledger, [policy])
    _require_apart(section, "high_water", mark, [policy, ledger])
    if "high_water" in section:
        return LedgerSettings(ledger, mark)
    return LedgerSettings(ledger, _usual_mark(ledger), usual_mark=True)


def _require_apart(section: Section, key: str, file: Path | None, others: list[Path]) -> None:
    if file in others:
        what = "names a file with another use"
        why = "the ledger, its high-water mark and the policy are files of their own."
        raise section.refuse(key, contradiction(what, why, "another name"))


def _usual_mark(ledger: Path) -> Path | None:
    """Return where the mark of a ledger is that the policy names no place for.

    It is beside what programs keep for this user: whoever replaces a ledger, or brings back
    an old copy with all files of its folder, does not replace it with them. A ledger among
    temporary files is not meant to last.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    try:
        place = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    except RuntimeError:  # nobody's home
        return None
    if ledger.is_relative_to(Path(tempfile.gettempdir()).resolve()):
        return None
    return place / "dpquery" / f"{sha256(os.fsencode(ledger)).hexdigest()[:32]}.mark"


def ledger_of_ones_own(given: object) -> LedgerSettings:
    """Read what `connect` is told of a ledger, in a policy's absence: a file, or a URL."""
    if given is None:
        return LedgerSettings(None)
    if not isinstance(given, str | Path):
        why = "charges are kept in a file, or on a server."
        raise Unfit(f"is no path: {written(given)}", why, 'ledger="my.ledger"', code="DPQ608")
    if _SERVER.search(str(given)):
        url = LEDGER["url"].read(str(given))
        return LedgerSettings(None, server=Server(url, str(LEDGER["schema"].default)))
    return LedgerSettings(unlinked(Path(given)))
