"""The tables of a ledger: rows that are only ever added, under a chain of hashes.

Rows are numbered from 1 without gaps, and each ends in the hash of its fields and of the hash
before it, so that one that was changed is seen. The first row follows the id of its ledger:
rows of another ledger are no rows of this one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)"
"""Which ledger this is: the only table whose rows change."""


@dataclass(frozen=True, slots=True)
class LedgerTable:
    """An append-only table; before `columns` stands a sequence, and a hash after them.

    Each database makes a table of its own of this, with triggers that keep it append-only.
    """

    name: str
    columns: tuple[str, ...]
    """Each with its type, in words that SQLite and PostgreSQL both know."""
    indexes: Mapping[str, str] = field(default_factory=dict)
    """The columns of each, by name."""
    long: bool = False
    """Whether it grows with what is released, and its rows are checked when they are read."""


CHARGES = LedgerTable(
    "charges",
    (
        "id TEXT NOT NULL UNIQUE",
        "at TEXT NOT NULL",
        "analyst TEXT NOT NULL",
        "session TEXT NOT NULL",
        "query TEXT NOT NULL",
        "events TEXT NOT NULL",
        "totals TEXT NOT NULL",
    ),
    {"charges_by_analyst": "analyst", "charges_by_session": "session"},
)

BOUNDS = LedgerTable(
    "bounds",
    (
        "charge TEXT NOT NULL",
        "analyst TEXT NOT NULL",
        "key TEXT NOT NULL",
        "low TEXT NOT NULL",
        "high TEXT NOT NULL",
    ),
    {"bounds_by_key": "analyst, key"},
)
"""Bounds that were found: who paid for them, by which charge, and what they are.

They are released values and no charges: whoever changes them makes answers worse, and no less
private, and the chain shows it. Numbers are exact rationals written as text (I8).
"""

ANSWERS = LedgerTable(
    "answers",
    (
        "charge TEXT NOT NULL",
        "analyst TEXT NOT NULL",
        "rights TEXT NOT NULL",
        "shared INTEGER NOT NULL",
        "key TEXT NOT NULL",
        "drawn TEXT NOT NULL",
    ),
    {"answers_by_key": "key"},
    long=True,
)
"""What was drawn, a row for each release: released values, free for whoever may see them.

The key says what was asked, of which version of the data and under which policy. Nothing here
was decided by looking at rows.
"""

STATES = LedgerTable(
    "states",
    ("version INTEGER NOT NULL", "place TEXT NOT NULL", "state TEXT NOT NULL"),
    {"states_by_place": "place, version"},
)
"""What the files of a table were when they were first read under a version of the data.

That files differ is found by holding them against these rows. They are of private data and for
the owner's ledger alone: nothing of them is ever shown.
"""

EARLIER = LedgerTable(
    "earlier",
    (
        "charge TEXT NOT NULL",
        "analyst TEXT NOT NULL",
        "rights TEXT NOT NULL",
        "question TEXT NOT NULL",
        "rate TEXT NOT NULL",
        "drawn TEXT NOT NULL",
        "read TEXT NOT NULL",
    ),
    {"earlier_by_question": "question"},
    long=True,
)
"""Releases that can be refined, once each, found by what was asked, whatever the noise.

A row holds the noisy integers, what they lost at a distance of 1, and what the files were that
they were drawn from.
"""

REFINED = LedgerTable("refined", ("charge TEXT NOT NULL", "source INTEGER NOT NULL UNIQUE"))
"""Which of them the charge of a later release has used up; written with that charge.

Of two that were drawn given the same one, each would have paid for the difference alone, and
both together lose more.
"""

ATTEMPTS = LedgerTable(
    "attempts",
    ("analyst TEXT NOT NULL", "at TEXT NOT NULL", "how TEXT NOT NULL", "open TEXT NOT NULL"),
    {"attempts_by_analyst": "analyst"},
)
"""What each analyst has under way, and what failed, after each change."""

TABLES = (BOUNDS, ANSWERS, EARLIER, REFINED, STATES, ATTEMPTS, CHARGES)

SHORT = tuple(table for table in TABLES if not table.long)
"""These are checked whenever a ledger is opened, which long ones must not hold up."""


def seal_of(previous: str, fields: Iterable[object]) -> str:
    """Return the hash of a row that stands after one with another hash."""
    return hashlib.sha256(_json([previous, *fields]).encode()).hexdigest()


_json = json.JSONEncoder(separators=(",", ":")).encode


# What a ledger needs of the database that holds it.
#
# SQLite holds a ledger in a file, for the processes of one machine; PostgreSQL on a server,
# for those of several. Both make what is executed within a transaction durable as a whole
# or not at all, have one writer at a time, and refuse to change or remove rows.


class Cursor(Protocol):
    """The rows that a statement gives."""

    def fetchone(self) -> Any:
        """Return the next row, or None."""

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """What runs a statement."""

    def execute(self, statement: str, values: Sequence[object] = ()) -> Cursor:
        """Run one statement; `?` stands for a value."""


class Database(Connection, Protocol):
    """What holds the rows of one ledger."""

    @property
    def path(self) -> Path | str | None:
        """The file or the server, for messages; None in memory."""

    @property
    def exists(self) -> bool:
        """Whether there is something to open, which is not made by looking."""

    def open(self, *, marked: Path | None) -> None:
        """Connect, and make the ledger if it has never been; within `locked`.

        Args:
            marked: the high-water mark, where there is one.

        Raises:
            PolicyInvalid: it holds something else, commits are not durable, or what a
                high-water mark is about is not there any more.
        """

    def close(self) -> None:
        """Disconnect; idempotent."""

    def locked(self) -> AbstractContextManager[None]:
        """Queue with other processes of this machine."""

    def transaction(self) -> AbstractContextManager[None]:
        """Be the one writer; what is executed is durable when this ends without a fault."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Read what is there when the first statement is run, whatever is written meanwhile."""

    def settle(self) -> None:
        """Have a copy of the ledger's one file hold what was committed; within `locked`."""

    def copy_to(self, file: Path) -> None:
        """Write a copy as of now to a new file.

        Raises:
            PolicyInvalid: other programs do that.
            OSError: it cannot be written, or is there already.
        """

    def require_same(self) -> None:
        """Refuse to go on in another ledger than the one that was opened."""

    def require_short(self) -> None:
        """Check the database's own structures where a fault could give back what is spent."""

    def require_whole(self) -> None:
        """Check all of the database's own structures."""


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


@dataclass(frozen=True, slots=True)
class Chain:
    """One table of an open ledger; rows are added within `Store.writing`."""

    table: LedgerTable
    connection: Callable[[], Connection]
    ledger: str
    """Its id."""

    def append(self, rows: Sequence[Row]) -> None:
        """Add rows that have neither sequence nor hash yet."""
        if not rows:
            return
        sql, name = self.connection(), self.table.name
        newest = f"SELECT sequence, hash FROM {name} ORDER BY sequence DESC LIMIT 1"  # noqa: S608
        values = ", ".join("?" for _ in ("sequence", *self.table.columns, "hash"))
        last, seal = sql.execute(newest).fetchone() or (0, self.ledger)
        for number, row in enumerate(rows, last + 1):
            seal = seal_of(seal, (number, *row))
            sql.execute(f"INSERT INTO {name} VALUES ({values})", (number, *row, seal))  # noqa: S608

    def rows(self) -> Iterator[Row]:
        """Return all rows without their hashes, oldest first.

        Raises:
            ValueError: one of them is not the one that was written.
        """
        name, seal = self.table.name, self.ledger
        every = self.connection().execute(f"SELECT * FROM {name} ORDER BY sequence")  # noqa: S608
        for number, (*fields, own) in enumerate(every, 1):
            if fields[0] != number or own != seal_of(seal, fields):
                raise ValueError(f"a row of {name} was changed")
            yield tuple(fields)
            seal = own

    def paid_for(self, paid: Mapping[str, str]) -> bool:
        """Say whether all rows, which begin with a charge and an analyst, are of who paid it.

        Raises:
            ValueError: a row is not the one that was written.
        """
        return all(paid.get(charge) == analyst for _, charge, analyst, *_ in self.rows())

    def newest(self, **fields: object) -> Row | None:
        """Return the last row with these fields.

        Raises:
            ValueError: it is not the one that was written.
        """
        return self._one("DESC", fields)

    def oldest(self, **fields: object) -> Row | None:
        """Return the first row with these fields.

        Raises:
            ValueError: it is not the one that was written.
        """
        return self._one("ASC", fields)

    def _one(self, order: str, fields: Mapping[str, object]) -> Row | None:
        where = " AND ".join(f"{name} = ?" for name in fields) or "1 = 1"
        rows = self.found(f"{where} ORDER BY sequence {order} LIMIT 1", tuple(fields.values()))
        return rows[0] if rows else None

    def found(self, where: str, values: Sequence[object]) -> list[Row]:
        """Return some rows without their hashes, in an order that the condition ends in.

        Raises:
            ValueError: one of them is not the one that was written.
        """
        name = self.table.name
        before = f"SELECT hash FROM {name} AS last WHERE last.sequence = {name}.sequence - 1"  # noqa: S608
        some = f"SELECT {name}.*, ({before}) FROM {name} WHERE {where}"  # noqa: S608
        found = list(self.connection().execute(some, values))
        if any(own != seal_of(last or self.ledger, fields) for *fields, own, last in found):
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
    """A release as it is kept, to be refined."""

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
    """A release that was kept, and not refined so far."""

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
        """Return a holder's releases of a question that were not refined, oldest first.

        Raises:
            ValueError: a row is not the one that was written.
        """
        rows = self.chain.found(_LEFT, (question, holder.analyst, holder.rights))
        lines = (place for place, row in enumerate(rows, 1) if row[-3:] == _LINE)
        return [_release(row) for row in rows[max(lines, default=0) :]]

    def add(self, charge: str, holder: Holder, refinable: Iterable[Refinable]) -> None:
        """Add what a charge paid for, each with the files that it was drawn from."""
        whose, fresh = (charge, holder.analyst, holder.rights), list(refinable)
        lines = dict.fromkeys(one.question for one in fresh if one.anew)
        self.chain.append(
            [
                *((*whose, question, *_LINE) for question in lines),
                *(
                    (*whose, one.question, str(one.rate), one.drawn, json.dumps(one.read))
                    for one in fresh
                ),
            ]
        )

    def use(self, charge: str, numbers: Sequence[int]) -> None:
        """Use up releases for the charge that refines them.

        Raises:
            AlreadyRefined: one of them is.
            ValueError: a row is not the one that was written.
        """
        if any(self.refined.found("source = ?", (number,)) for number in numbers):
            raise AlreadyRefined
        self.refined.append([(charge, number) for number in numbers])

    def untouched(self, paid: Mapping[str, str], refining: Mapping[str, int]) -> bool:
        """Return whether all rows could have been written by the rules.

        Args:
            paid: who paid, by charge.
            refining: how many releases each charge refines, of those that refine any.

        Raises:
            ValueError: one is not.
        """
        earlier, refined = list(self.chain.rows()), list(self.refined.rows())
        holders = {row[0]: row[2] for row in earlier}
        return (
            all(paid.get(row[1]) == row[2] for row in earlier)
            and all(paid.get(charge) == holders.get(source) for _, charge, source in refined)
            and len({source for *_, source in refined}) == len(refined)
            and Counter(charge for _, charge, _ in refined) == refining
        )


def _release(row: Row) -> EarlierRelease:
    number, *_, rate, drawn, read = row
    states = {place: [(*one,) for one in files] for place, files in json.loads(read).items()}
    return EarlierRelease(number, Fraction(rate), drawn, states)
