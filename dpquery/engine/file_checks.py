"""Private files as they stand: fingerprints, and whether their types are the policy's.

Nothing here runs before a receipt is open. A fingerprint is taken before and after each scan,
so that one release sees one state of the data. Files are trusted to be what their format says:
a page that cannot be decoded fails every scan that reads it.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Protocol

import pyarrow as pa

from dpquery.budget.ledger.charge_and_receipt import Receipt
from dpquery.engine.base import FaultLog
from dpquery.errors import Diagnostic, PolicyInvalid
from dpquery.policy.model import (
    DatabaseTable,
    External,
    Files,
    Frame,
    Parquet,
    Policy,
    Table,
    place_name,
)
from dpquery.policy.sources import parquet_footers
from dpquery.policy.sources.open_external import opened
from dpquery.policy.sources.parquet_footers import footer
from dpquery.policy.sources.schema import Schema, file_schemas, fitted
from dpquery.policy.sources.schema_mismatches import Misfit, file_misfits
from dpquery.policy.sources.snapshot_reader import Snapshot, State

_END = 2**20


class DataChanged(Exception):
    """The files are not what the policy or the scan took them for; for the owner's log."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What tells one state of a table's files from another."""

    files: tuple[tuple[int, int, int, int, str], ...]
    """Place, size, time and footer of each; of what a library reads, the size and a tag."""


def fingerprint(table: Table, read: Mapping[str, Snapshot] | None = None) -> Fingerprint:
    """Take the fingerprint of a table, and of the tables that say whose the rows are.

    Args:
        table: what is looked at.
        read: snapshots that are open, by table: they are looked at in place of what is current.
    """
    return Fingerprint(tuple(part for one in table.way for part in _own_parts(one, read or {})))


def _own_parts(
    table: Table, read: Mapping[str, Snapshot]
) -> Iterable[tuple[int, int, int, int, str]]:
    if isinstance(table.source, External):
        return _parts((read.get(table.name) or opened(table.source)).state())
    return [footer(path).state for path in _own_files(table)]


def _parts(state: State) -> Iterable[tuple[int, int, int, int, str]]:
    return [(0, 0, size, 0, f"{name} {tag}") for name, size, tag in state]


def files_of(table: Table) -> list[Path]:
    """Return the files that say what rows a table has, and whose they are."""
    return [path for one in table.way for path in _own_files(one)]


def _own_files(table: Table) -> list[Path]:
    """Return the files of a table: of a database, what waits to be written to it too."""
    match table.source:
        case Files(paths):
            return list(paths)
        case Frame() | External():
            return []
        case DatabaseTable(database):
            wal = database.with_name(database.name + ".wal")
            return [database, *([wal] if wal.exists() else [])]


TableStates = dict[str, Fingerprint]
"""What several tables' files are, by table."""


def state_of(tables: Iterable[Table]) -> TableStates:
    """Take the fingerprints of several tables."""
    return {table.name: fingerprint(table) for table in tables}


def require_unchanged(tables: Sequence[Table], state: TableStates) -> None:
    """Hold files against what they were.

    Raises:
        DataChanged: one release would see two states of the data.
    """
    if state_of(tables) != state:
        names = ", ".join(table.name for table in tables)
        raise DataChanged(f"the files of {names} changed while they were read")


def about_bytes(path: Path, *, whole: bool = False) -> str:
    """Return what tells the bytes of a file from others: its size, and a hash of both ends.

    In a Parquet file these are its first rows and its footer, with where all others are; a
    DuckDB file has at its beginning what counts every change. Values between can be exchanged
    without a trace in either, so that a hash of the whole file can be asked for.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if whole:
            digest = hashlib.file_digest(file, "sha256")
        else:
            digest = hashlib.sha256(file.read(_END) + _tail(file, size, _END))
    return f"{size} {digest.hexdigest()}"


def _tail(file: BinaryIO, size: int, length: int) -> bytes:
    file.seek(max(0, size - length))
    return file.read(length)


# A policy that does not fit its files is told when a session opens, before any charge.
#
# What is compared is names and types of columns: a public fact of the data owner's files,
# which no row decides. Neighbouring data are in files of the same schema, so that sessions
# over both open, or both do not, with the same words. Counts and statistics, which stand in
# the same footers, are not looked at (I1). A DuckDB file beside which changes wait to be
# written cannot be opened without reading these, and they are rows: such a table is
# compared by its scan alone.


def misfits_of(table: Table) -> list[Misfit]:
    """Return how the schema of a table differs from the policy, for the owner.

    Of the tables on the way to its unit, it is said of their keys; of a public table, whose
    rows a session loads when it opens, how these do.
    """
    if table.public:
        from dpquery.engine.duckdb.public_tables import public_misfits

        return public_misfits(table)
    return [misfit for one in table.way for misfit in fit_of(one)[1]]


def fit_of(table: Table) -> tuple[Table, list[Misfit]]:
    """Return a table with where its columns are, and how its own schema differs."""
    if isinstance(table.source, DatabaseTable):
        from dpquery.engine.duckdb.sources.duckdb_schema import fit_in_file

        return fit_in_file(table)
    misfits = file_misfits(table)
    return (table if misfits else fitted(table, file_schemas(table))), misfits


def rows_of(table: Table, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of what a table's own source holds, for the owner.

    Raises:
        OSError: they cannot be read.
    """
    if table.public:
        from dpquery.engine.duckdb.public_tables import public_rows

        return public_rows(table, names)
    from dpquery.engine.duckdb.sources.source_views import batches

    return batches(table, names)


def schemas_of(database: Path) -> Mapping[tuple[str, str], Schema]:
    """Return the schemas of the tables in a DuckDB file, for the owner to make a policy of.

    Raises:
        Unfit: DPQ601 the file cannot be opened, or not without reading rows.
    """
    from dpquery.engine.duckdb.sources.duckdb_schema import schemas_in_file

    return schemas_in_file(database)


def require_fit(policy: Policy, log: FaultLog) -> Policy:
    """Hold the schemas of all private tables against the policy; return it with their places.

    Raises:
        PolicyInvalid: DPQ612 a table differs. Which one is said, and of one's own files how.
    """
    tables: dict[str, Table] = {}
    for name, table in policy.tables.items():
        tables[name], misfits = (table, []) if table.public else _fit(table)
        told = [*map(str, misfits)]
        if told and policy.published:
            log.note_once(DataChanged(f"{table.name}: {'; '.join(told)}"))
            raise _unfit(table, policy)
        if told:
            raise _unfit_own(table, told)
    return replace(policy, tables=tables)


def _fit(table: Table) -> tuple[Table, list[Misfit]]:
    """Return a table with where its columns are, and how it and those on its way differ."""
    found, told = (table, []) if _waits(table) else fit_of(table)
    if table.through is not None:
        other, more = _fit(table.through.table)
        found = replace(found, through=replace(table.through, table=other))
        told = [*told, *more]
    return found, told


def _waits(table: Table) -> bool:
    """Return whether changes wait beside a table's DuckDB file."""
    return isinstance(table.source, DatabaseTable) and len(_own_files(table)) > 1


def _unfit(table: Table, policy: Policy) -> PolicyInvalid:
    """Refuse in words that are the same whatever differs."""
    diagnostic = Diagnostic(
        "DPQ612",
        f"the files of the table {table.name} do not hold what the policy says",
        why=("its queries would be charged and then fail, so no session is opened.",),
        remedy=(f"dpquery policy check {policy.name}", "tells the data owner what differs"),
    )
    return PolicyInvalid(diagnostic, policy.name)


def _unfit_own(table: Table, told: list[str]) -> PolicyInvalid:
    """Refuse one's own files, of which the first one's schema has become the policy."""
    diagnostic = Diagnostic(
        "DPQ612",
        f"the files of the table {table.name} do not fit together",
        why=("together they would have to be read in one type, and lose by it.", *told[:8]),
        remedy=("leave out the files that differ, or write them with the same types",),
    )
    return PolicyInvalid(diagnostic)


# Whether files are still those of the version of the data that a charge was made for.
#
# Answers are repeated within a version, so its files must not change. Where they have,
# every scan of them fails in the same words, until the owner publishes them as another
# version. They are never looked at to decide what is charged, refused or repeated: that
# would tell of one person's row. Take a job that writes the files anew each night. Were
# they held against the version before the charge, a query would be answered after a night
# in which nothing changed, and refused at no cost after one in which one person came.
#
# Sizes and times are compared first, and bytes only where these differ: a copy is no
# change. What refines an earlier value has to be drawn from the same rows to the last one,
# so that there sizes and times have to be those of the scan that the earlier value came
# from.


class States(Protocol):
    """What remembers the first state of files under a version, and what was found of states."""

    def first_state(self, version: int, place: str, make: Callable[[], str]) -> str:
        """Return the first state at a place; where there is none, it is what is made now."""
        ...

    def is_proven(self, claim: str) -> bool:
        """Return whether a claim about a state of files was found to hold."""
        ...

    def prove(self, claim: str) -> None:
        """Remember that it was."""
        ...


def watch_of(policy: Policy, states: States) -> Watch:
    """Return what watches the tables of a policy, where somebody publishes their versions."""
    return Drift(policy, states) if policy.published else Watch(states)


class Watch:
    """Is shown each table that was read; takes any files, where nobody says what they are."""

    def __init__(self, states: States | None = None) -> None:
        self._states = states

    def __call__(self, table: Table, state: Fingerprint, receipt: Receipt) -> None:
        """Pass a table, with its state and the receipt for reading it."""

    def is_proven(self, claim: str) -> bool:
        """Return whether a claim about a state of files was found to hold."""
        return self._states is not None and self._states.is_proven(claim)

    def prove(self, claim: str) -> None:
        """Remember that it was."""
        if self._states is not None:
            self._states.prove(claim)


unwatched = Watch()
"""Remembers nothing."""


class Drift(Watch):
    """Holds files against the first state that was read under their version."""

    def __init__(self, policy: Policy, states: States) -> None:
        super().__init__(states)
        self._policy = policy
        self._first = states.first_state
        self._same: dict[tuple[str, int], Fingerprint] = {}

    def __call__(self, table: Table, state: Fingerprint, receipt: Receipt) -> None:
        """Pass files that are as they were, and note on the receipt what they are.

        Raises:
            DataChanged: they are others.
        """
        place, version = place_name(table, self._policy), receipt.version
        if self._same.get((table.name, version)) != state:
            self._require_first(table, state, version, place)
            self._same[table.name, version] = state
        # What tells rows from others to the last one; a file may be moved.
        now = sorted((size, time, end) for _, _, size, time, end in state.files)
        before, refines = receipt.read.setdefault(place, now), receipt.charge.refines
        # Each names all places of its own scan, and None for what is not known of one.
        earlier = [kept.read[place] for kept in refines if place in kept.read]
        if any(one != now for one in (before, *earlier)):
            raise DataChanged(
                f"the files of {table.name!r} are not those that an earlier value of the "
                "statement was drawn from; REFRESH SELECT asks anew, and a copy with the same "
                "times (cp -p) is no change"
            )

    def _require_first(
        self, table: Table, state: Fingerprint, version: int, place: str
    ) -> None:
        def make() -> str:
            told = [_seen(table, state), _bytes(table, state)]
            return json.dumps(told, separators=(",", ":"))

        if _is_other(self._first(version, place, make), table, state):
            raise DataChanged(_of_another(table, version, self._policy))


def _is_other(first: str, table: Table, state: Fingerprint) -> bool:
    """Return whether a state has other bytes than the first one under its version."""
    seen, bytes_ = json.loads(first)
    return bool(seen != _seen(table, state) and bytes_ != _bytes(table, state))


def _of_another(table: Table, version: int, policy: Policy) -> str:
    return (
        f"the files of {table.name!r} are not those of data version {version}; "
        f"if they are to be asked about: dpquery policy publish {policy.name}"
    )


class Known(Protocol):
    """What gives the first states of files back, and adds none."""

    def known_state(self, place: str) -> tuple[int, str | None]:
        """Return the version of now, and the first state under it; None where none was read."""
        ...


def drifted(policy: Policy, known: Known) -> Iterator[tuple[str, str]]:
    """Yield the tables whose queries fail until they are published, and why: for the owner.

    Raises:
        OSError: a file cannot be read.
    """
    for table in policy.tables.values() if policy.published else ():
        if not table.public:
            version, first = known.known_state(place_name(table, policy))
            if first is not None and _is_other(first, table, fingerprint(table)):
                yield table.name, _of_another(table, version, policy)


def _seen(table: Table, state: Fingerprint) -> list[list[object]]:
    """Return name, size and time of each file; of another state its size and tag."""
    paths = iter(map(str, files_of(table)))
    return [
        [next(paths) if device + inode else end, size, time]
        for device, inode, size, time, end in state.files
    ]


def _bytes(table: Table, state: Fingerprint) -> list[str]:
    """Return what tells the files' bytes, in no order: rows have none either.

    Where units have parts, budgets rest on it that nobody moves to another: no byte may differ.

    Raises:
        DataChanged: these are the bytes of another state.
    """
    parts = table.parting is not None
    told = [
        about_bytes(path, whole=parts or _of_lines(one))  # no end of a text tells of its middle
        for one in table.way
        for path in _own_files(one)
    ]
    require_unchanged([table], {table.name: state})
    return sorted(told + [end for device, inode, *_, end in state.files if not device + inode])


def _of_lines(table: Table) -> bool:
    source = table.source
    return isinstance(source, Files) and not isinstance(source.format, Parquet)


# Whether units have one row each, as `rows_per_unit = 1` says: found once for each state.
#
# To count takes ten times as long as a sum, so what was found is remembered, beside the first
# states above. A claim names the declaration and all that is known of the files: whatever
# replaces a file, moves it or writes to it sets the time of its last change, which programs
# cannot set back as they can the time of the last write. Of any other state nothing is
# remembered, and it is counted. What is remembered decides how long a scan takes, and neither
# what it gives nor what it costs.


def claim_of(statement: str, table: Table, state: Fingerprint) -> str | None:
    """Return the claim that a statement is true of a state before which this is called.

    The statement says how rows are read. None of what is not in files here, of which no time of
    a change is known, nor of lines, which are cut by more than the statement; and none where a
    file was just changed: clocks have ticks.
    """
    stored = (isinstance(one.source, Files | DatabaseTable) for one in table.way)
    if not all(stored) or any(map(_of_lines, table.way)):
        return None
    changed = [(str(path), path.stat().st_ctime_ns) for path in files_of(table)]
    if time.time_ns() - max(at for _, at in changed) <= parquet_footers.SETTLED:
        return None
    claim = json.dumps([statement, state.files, changed])
    return hashlib.sha256(claim.encode()).hexdigest()
