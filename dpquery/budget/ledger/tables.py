"""The tables of a ledger: rows that are only ever added, under a chain of hashes.

Rows are numbered from 1 without gaps, and each ends in the hash of its fields and of the hash
before it, so that one that was changed is seen. The first row follows the id of its ledger:
rows of another ledger are no rows of this one. Reading a row that is not the one that was
written is a ValueError.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)"
"""Which ledger this is: the only table whose rows change."""

FORMAT = "1"


def first_meta() -> list[tuple[str, str]]:
    """Return what a new ledger says of itself: its id, its secret, and how to read it."""
    meta = [("format", FORMAT), ("id", secrets.token_hex(16)), ("accountant", "additive")]
    return [*meta, ("secret", secrets.token_hex(32))]


@dataclass(frozen=True, slots=True)
class LedgerTable:
    """An append-only table; before its columns stands a sequence, and a hash after them.

    Each database makes a table of its own of this, with triggers that keep it append-only.
    """

    name: str
    columns: tuple[str, ...]
    indexes: Mapping[str, str] = field(default_factory=dict)
    """The columns of each, by name."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Of the columns that are no plain texts, in words that both databases know."""
    long: bool = False
    """Whether it grows with what is released, and its rows are checked when they are read."""

    def created(self, sequence: str) -> str:
        """Return the statement that creates it, with a type for the sequence."""
        texts = {name: "TEXT NOT NULL" for name in (*self.columns, "hash")}
        columns = {"sequence": f"{sequence} PRIMARY KEY", **texts, **self.types}
        listed = ", ".join(f"{name} {type_}" for name, type_ in columns.items())
        return f"CREATE TABLE {self.name} ({listed})"


CHARGES = LedgerTable(
    "charges",
    ("id", "at", "analyst", "session", "query", "events", "totals"),
    {"charges_by_analyst": "analyst", "charges_by_session": "session"},
    {"id": "TEXT NOT NULL UNIQUE"},
)

BOUNDS = LedgerTable(
    "bounds", ("charge", "analyst", "key", "low", "high"), {"bounds_by_key": "analyst, key"}
)
"""Bounds that were found: who paid for them, by which charge, and what they are.

They are released values and no charges: whoever changes them makes answers worse, and no less
private, and the chain shows it. Numbers are exact rationals written as text (I8).
"""

ANSWERS = LedgerTable(
    "answers",
    ("charge", "analyst", "rights", "shared", "key", "drawn"),
    {"answers_by_key": "key"},
    {"shared": "INTEGER NOT NULL"},
    long=True,
)
"""What was drawn, a row for each release: released values, free for whoever may see them.

The key says what was asked, of which version of the data and under which policy. Nothing here
was decided by looking at rows.
"""

STATES = LedgerTable(
    "states",
    ("version", "place", "state"),
    {"states_by_place": "place, version"},
    {"version": "INTEGER NOT NULL"},
)
"""What the files of a table were when they were first read under a version of the data.

That files differ is found by holding them against these rows. They are of private data and for
the owner's ledger alone: nothing of them is ever shown. Under no version stands what was found
of a state of files, to be found once.
"""

ANY = -1
"""Stands in the place of a version where it does not matter."""

EARLIER = LedgerTable(
    "earlier",
    ("charge", "analyst", "rights", "question", "rate", "drawn", "read"),
    {"earlier_by_question": "question"},
    long=True,
)
"""Releases that can be refined, once each, found by what was asked, whatever the noise.

A row holds the noisy integers, what they lost at a distance of 1, and what the files were that
they were drawn from.
"""

REFINED = LedgerTable(
    "refined", ("charge", "source"), types={"source": "INTEGER NOT NULL UNIQUE"}
)
"""Which of them the charge of a later release has used up; written with that charge.

Of two that were drawn given the same one, each would have paid for the difference alone, and
both together lose more.
"""

ATTEMPTS = LedgerTable(
    "attempts", ("analyst", "at", "how", "open"), {"attempts_by_analyst": "analyst"}
)
"""What each analyst has under way, and what failed, after each change."""

TABLES = (BOUNDS, ANSWERS, EARLIER, REFINED, STATES, ATTEMPTS, CHARGES)

SHORT: Final = tuple(table for table in TABLES if not table.long)
"""These are checked whenever a ledger is opened, which long ones must not hold up."""


class Database(ABC):
    """What holds the rows of one ledger: SQLite in a file, PostgreSQL on a server.

    Both make what is executed within a transaction durable as a whole or not at all, have one
    writer at a time, and refuse to change or remove rows.
    """

    def __init__(self, path: Path | str | None, queue: Path | None) -> None:
        self.path = path  # the file or the server, for messages; None in memory
        self._queue = queue
        self._connection: Any = None

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether there is something to open, which is not made by looking."""

    @abstractmethod
    def open(self, *, marked: Path | None) -> None:
        """Connect, and make the ledger if it has never been; within `locked`.

        It is refused if it holds something else, if commits are not durable, or if what a
        high-water mark is about is not there any more.
        """

    def close(self) -> None:
        """Disconnect; idempotent."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    @abstractmethod
    def execute(self, statement: str, values: Sequence[object] = ()) -> Any:
        """Run one statement, and return a cursor over its rows; `?` stands for a value."""

    def _value(self, query: str, values: Sequence[object] = ()) -> Any:
        row = self.execute(query, values).fetchone()
        return None if row is None else row[0]

    def locked(self) -> AbstractContextManager[None]:
        """Queue with other processes of this machine."""
        return nullcontext() if self._queue is None else queued(self._queue)

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Be the one writer; what is executed is durable when this ends without a fault.

        It is refused in another ledger than the one that was opened.
        """

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Read what is there when the first statement is run, whatever is written meanwhile."""

    def settle(self) -> None:  # noqa: B027 - a server is copied by its own programs
        """Have a copy of the ledger's one file hold what was committed; within `locked`."""

    @abstractmethod
    def copy_to(self, file: Path) -> None:
        """Write a copy as of now to a new file, if other programs do not do that."""

    @abstractmethod
    def require_whole(self, tables: Sequence[LedgerTable] = TABLES) -> None:
        """Check the database's own structures.

        A fault in a short table could give back what is spent: a torn page can read as rows
        missing from an index, and the total found through it would be too low.
        """


@contextmanager
def queued(file: Path) -> Iterator[None]:
    """Queue for a lock file, which the kernel frees when its holder is killed.

    It is opened anew each time: children would inherit a descriptor that stood open, and would
    keep the lock after this process was killed.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(file, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


Row = tuple[Any, ...]
_json = json.JSONEncoder(separators=(",", ":")).encode


def _seal(previous: str, fields: Iterable[object]) -> str:
    """Return the hash of a row that stands after one with another hash."""
    return hashlib.sha256(_json([previous, *fields]).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Chain:
    """One table of an open ledger; rows are added within `Store.writing`."""

    table: LedgerTable
    database: Callable[[], Database]
    ledger: str
    """Its id."""

    def head(self) -> tuple[int, str]:
        """Return the sequence and hash that the next row comes after."""
        newest = f"SELECT sequence, hash FROM {self.table.name} ORDER BY sequence DESC LIMIT 1"  # noqa: S608
        return self.database().execute(newest).fetchone() or (0, self.ledger)

    def append(self, rows: Iterable[Row]) -> None:
        """Add rows that have neither sequence nor hash yet."""
        statement = ""
        for row in rows:
            if not statement:
                values = ", ".join("?" * (len(row) + 2))
                statement = f"INSERT INTO {self.table.name} VALUES ({values})"  # noqa: S608
                number, seal = self.head()
            number += 1
            seal = _seal(seal, (number, *row))
            self.database().execute(statement, (number, *row, seal))

    def rows(self) -> Iterator[Row]:
        """Return all rows without their hashes, oldest first."""
        name, seal = self.table.name, self.ledger
        every = self.database().execute(f"SELECT * FROM {name} ORDER BY sequence")  # noqa: S608
        for number, (*fields, own) in enumerate(every, 1):
            if fields[0] != number or own != _seal(seal, fields):
                raise ValueError(f"a row of {name} was changed")
            yield tuple(fields)
            seal = own

    def paid_for(self, paid: Mapping[str, str]) -> bool:
        """Say whether all rows begin with a charge, and with the analyst who paid it."""
        return all(paid.get(charge) == analyst for _, charge, analyst, *_ in self.rows())

    def newest(self, **fields: object) -> Row | None:
        """Return the last row with these fields."""
        where = " AND ".join(f"{name} = ?" for name in fields) or "1 = 1"
        rows = self.found(f"{where} ORDER BY sequence DESC LIMIT 1", tuple(fields.values()))
        return rows[0] if rows else None

    def found(self, where: str, values: Sequence[object]) -> list[Row]:
        """Return some rows without their hashes, in an order that the condition ends in."""
        name = self.table.name
        before = f"SELECT hash FROM {name} AS last WHERE last.sequence = {name}.sequence - 1"  # noqa: S608
        some = f"SELECT {name}.*, ({before}) FROM {name} WHERE {where}"  # noqa: S608
        found = list(self.database().execute(some, values))
        if any(own != _seal(last or self.ledger, fields) for *fields, own, last in found):
            raise ValueError(f"a row of {name} was changed")
        return [tuple(fields) for *fields, _, _ in found]


VISIBLE = """
    key = ? AND ((analyst = ? AND rights = ?) OR (shared = 1 AND ? = 1))
    ORDER BY sequence DESC LIMIT 1
"""
"""The newest answer of a key that a holder may see."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who may see an answer again: an analyst with certain rights, or everybody."""

    analyst: str
    rights: str
    """What the policy grants them, as text: with other rights they are somebody else."""
    shared: bool
    """Whether the policy shares answers among its analysts."""


State = list[tuple[int, int, str]]
"""Size, time and a hash of the end of each file of a table, in no order."""

_LEFT = """
    question = ? AND analyst = ? AND rights = ?
    AND NOT EXISTS (SELECT 1 FROM refined WHERE source = earlier.sequence)
    ORDER BY sequence
"""
_LINE = ("0", "", "{}")
"""Stands in place of a release: those before it were given up for one that was asked anew."""


class AlreadyRefined(Exception):
    """An earlier release was used up since it was found: nothing was charged."""


@dataclass(frozen=True, slots=True)
class Refinable:
    """A release that is put by, to be refined."""

    question: str
    rate: Fraction
    """What it lost at a distance of 1."""
    drawn: str
    read: Mapping[str, State]
    """What its own scan read, by place: other scans of the statement can be refined apart."""
    anew: bool = False
    """Whether it was asked anew, so that what came before is not refined any more."""


@dataclass(frozen=True, slots=True)
class EarlierRelease:
    """A release that was put by, and not refined so far."""

    number: int
    rate: Fraction
    drawn: str
    read: Mapping[str, State | None]
    """What it was drawn from, by place; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """The earlier releases of an open ledger; rows are added within `Store.writing`."""

    chain: Chain
    refined: Chain

    def left(self, holder: Holder, question: str) -> list[EarlierRelease]:
        """Return a holder's releases of a question that were not refined, oldest first."""
        rows = self.chain.found(_LEFT, (question, holder.analyst, holder.rights))
        lines = (place for place, row in enumerate(rows, 1) if row[-3:] == _LINE)
        return [_release(row) for row in rows[max(lines, default=0) :]]

    def add(self, charge: str, holder: Holder, refinable: Sequence[Refinable]) -> None:
        """Add what a charge paid for, each with the files that it was drawn from."""
        questions = dict.fromkeys(one.question for one in refinable if one.anew)
        rows = [(question, *_LINE) for question in questions]
        rows += [(o.question, str(o.rate), o.drawn, json.dumps(o.read)) for o in refinable]
        self.chain.append((charge, holder.analyst, holder.rights, *row) for row in rows)

    def use(self, charge: str, numbers: Sequence[int]) -> None:
        """Use up releases for the charge that refines them.

        Raises:
            AlreadyRefined: one of them is.
        """
        if any(self.refined.found("source = ?", (number,)) for number in numbers):
            raise AlreadyRefined
        self.refined.append((charge, number) for number in numbers)

    def untouched(self, paid: Mapping[str, str], refining: Mapping[str, int]) -> bool:
        """Return whether all rows could have been written by the rules.

        That depends on who paid each charge, and on how many releases it refines.
        """
        refined = list(self.refined.rows())
        holders = {number: analyst for number, _, analyst, *_ in self.chain.rows()}
        return (
            self.chain.paid_for(paid)
            and all(paid.get(charge) == holders.get(source) for _, charge, source in refined)
            and len({source for *_, source in refined}) == len(refined)
            and Counter(charge for _, charge, _ in refined) == refining
        )


def _release(row: Row) -> EarlierRelease:
    number, *_, rate, drawn, read = row
    states = {place: [(*one,) for one in files] for place, files in json.loads(read).items()}
    return EarlierRelease(number, Fraction(rate), drawn, states)
