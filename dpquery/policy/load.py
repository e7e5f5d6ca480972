"""From the data owner's file to a `Policy`, or to a refusal that names file, line and key.

Every list of keys is closed, and what contradicts itself is refused (I9): a policy that was
misunderstood would be a promise that nobody made. No data is read here, only names of files.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import Any

from dpquery.core.privacy import HALF, Ceiling, Loss, decimal_text
from dpquery.errors import listed, nearest
from dpquery.policy.columns import read_columns, read_unit, refuse_alike
from dpquery.policy.document import Section, Unfit, dotted, read_document, toml_text, written
from dpquery.policy.files import as_parquet, find_file, find_files, is_database, unlinked
from dpquery.policy.keys import (
    ANALYST,
    BUDGET,
    LEDGER,
    LIMITS,
    PRIVACY,
    SECTIONS,
    TABLE,
    missing,
)
from dpquery.policy.model import (
    Budget,
    DatabaseTable,
    Files,
    LedgerSettings,
    Policy,
    ScanLimits,
    Server,
    Table,
)


def load_policy(path: str | Path) -> Policy:
    """Read a policy file.

    Raises:
        PolicyInvalid: DPQ601 a file cannot be read; DPQ602 not TOML; DPQ603 unknown key;
            DPQ604 a value that cannot be taken; DPQ607 a contradiction, or no epsilon.
    """
    document = read_document(path)
    root = document.root.only(SECTIONS)
    budget = _budget(root.child("budget"))
    tables = _tables(root.child("tables"))
    _refuse_contradictions(root.child("tables"), tables)
    return Policy(
        name=document.name,
        budget=budget,
        tables=tables,
        ledger=_ledger(root.child("ledger")),
        analysts=_analysts(root.child("analysts"), budget),
        directory=document.path.parent,
        limits=ScanLimits(**LIMITS.read(root.child("limits"))),
        **PRIVACY.read(root.child("privacy")),
    )


# The limits of a policy: the whole, and each analyst's, in epsilon or in rho.


def _budget(section: Section) -> Budget:
    """Read what all queries together may lose."""
    stated = BUDGET.read(section)
    delta, converted = stated["delta"] or Fraction(0), stated["delta_for_conversion"]
    if converted is not None and converted > delta:
        why = BUDGET["delta_for_conversion"].why
        half = f"delta_for_conversion = {decimal_text(delta / 2)}"
        raise section.refuse("delta_for_conversion", Unfit("is above delta", why, half))
    share = HALF if converted is None or not delta else converted / delta
    return Budget(
        _ceiling(section, stated, delta, share),
        stated["max_epsilon_per_query"],
        share,
        stated["shared_answers"],
    )


def _analysts(section: Section, budget: Budget) -> dict[str, Ceiling]:
    """Read the analysts' own ceilings; one that says nothing of delta shares the policy's."""
    refuse_alike(section)
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
        why = "a rho says nothing about odds before it is converted, at a part of delta."
        unfit = Unfit("has no delta to be converted at", why, "delta = 1e-6", code="DPQ607")
        raise section.refuse("rho", unfit)
    return Ceiling.in_rho(stated["rho"], delta, share)


# The tables, and where their rows are.


def _tables(section: Section) -> dict[str, Table]:
    refuse_alike(section)
    tables = {name: _table(name, child) for name, child in section.children()}
    if not tables:
        why = "queries reach only the tables that the policy names."
        unfit = Unfit("holds no table", why, "[tables.people]", code="DPQ607")
        raise section.refuse(None, unfit)
    return tables


def _table(name: str, section: Section) -> Table:
    stated = TABLE.read(section)
    public = stated["public"]
    if not public and not section.values.get("columns"):
        why = "columns that are not listed do not exist, so nothing could be asked."
        header = f"[{dotted((*section.path, 'columns'))}]"
        remedy = f"{header}, or public = true if it is nobody's data"
        raise section.refuse(None, Unfit("lists no columns", why, remedy, code="DPQ607"))
    given = {key: stated.pop(key) for key in ("path", "database", "table")}
    columns = read_columns(section.child("columns"), public=public)
    _require_listed(section, stated["unique"], columns)
    stated["unit_type"] = read_unit(section, stated["unit"], stated["unit_type"], columns)
    return Table(
        name=name,
        source=_source(section, given, public),
        written=given["path"] or (),
        columns=columns,
        **stated,
    )


def _source(section: Section, given: Mapping[str, Any], public: bool) -> Files | DatabaseTable:
    """Find the rows of a table: in files, or in one table of a DuckDB file."""
    directory = section.document.path.parent
    path, database, table = given["path"], given["database"], given["table"]
    if path and not database and not table:
        files = section.need("path", lambda _: find_files(path, directory))
        lines = [file.name for file in files if file.suffix.lower() == ".csv"]
        if lines and not public:
            raise section.refuse("path", _private_csv(lines[0]))
        databases = [text for text in path if is_database(Path(text))]
        if databases:
            raise section.refuse("path", _no_table(databases[0], public))
        return Files(files)
    if database and table and not path:
        found = section.need("database", lambda _: find_file(database, directory))
        return DatabaseTable(found, table)
    stated = [key for key, value in given.items() if value]
    unfit = Unfit(
        "has an unclear source" if stated else "has no source",
        "the rows of a table come from files, or from one table of a DuckDB file.",
        'path = "people.parquet"',
        'or both database = "people.duckdb" and table = "people"',
        code="DPQ607",
    )
    raise section.refuse(min(stated, default=None), unfit)


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


def _require_listed(
    section: Section, unique: tuple[str, ...], columns: Mapping[str, object]
) -> None:
    for name in unique:
        if columns and name not in columns:
            near = nearest(name, columns)
            what = f"names a column that is not listed: {name}"
            why = "a column that is not listed does not exist."
            unfit = Unfit(what, why, f"columns here: {listed(columns, near)}", code="DPQ607")
            raise section.refuse("unique", unfit)


def _refuse_contradictions(section: Section, tables: Mapping[str, Table]) -> None:
    """Refuse a file that is public and private, or that protects different units."""
    first: dict[object, Table] = {}
    for table in sorted(tables.values(), key=lambda table: table.public):
        source = table.source
        for place in source.paths if isinstance(source, Files) else [source]:
            other = first.setdefault(place, table)
            if other.public != table.public:
                what, key = "is also a private table's data", "public"
                why = "what is private under one name cannot be shown under another."
                remedy = "public = true for both, or for neither"
            elif other.unit != table.unit:
                what = f"protects another unit than {other.name} does in the same file"
                key, remedy = (
                    "privacy_unit_column",
                    "name the same privacy_unit_column for both",
                )
                why = "whoever may ask about the one could see what the other protects."
            else:
                continue
            unfit = Unfit(what, why, remedy, code="DPQ607")
            raise section.child(table.name).refuse(key, unfit)


# Where the ledger is: in memory, in a file, or on a PostgreSQL server.


_SERVER = re.compile(r"^postgres(ql)?:|://|\b(host|dbname|password) *=")
"""What no file of one's own is called: a server is meant, if not always in a URL."""


def _ledger(section: Section) -> LedgerSettings:
    """Read `[ledger]`, all of which may be absent.

    Raises:
        PolicyInvalid: DPQ603, DPQ604, or DPQ607 where both a file and a server are named, or
            one file has two uses.
    """
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
        why = "the ledger, its high-water mark and the policy are files of their own."
        unfit = Unfit("names a file with another use", why, "another name", code="DPQ607")
        raise section.refuse(key, unfit)


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
    """Read what `connect` is told of a ledger, in a policy's absence: a file, or a URL.

    Raises:
        Unfit: it is neither.
    """
    if given is None:
        return LedgerSettings(None)
    if not isinstance(given, str | Path):
        why = "charges are kept in a file, or on a server."
        raise Unfit(f"is no path: {written(given)}", why, 'ledger="my.ledger"', code="DPQ608")
    if _SERVER.search(str(given)):
        url = LEDGER["url"].read(str(given))
        return LedgerSettings(None, server=Server(url, str(LEDGER["schema"].default)))
    return LedgerSettings(unlinked(Path(given)))
