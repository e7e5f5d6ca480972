"""The tables of a ledger, said once for every store.

Rows are only ever appended, numbered from 1 without gaps, and each ends in the hash of its
fields and of the hash before it. A store makes a table of this, with triggers that keep it so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

__all__ = [
    "ANSWERS",
    "ATTEMPTS",
    "BOUNDS",
    "CHARGES",
    "EARLIER",
    "LATER",
    "META",
    "REFINED",
    "SHORT",
    "STATES",
    "TABLES",
    "Table",
    "seal_of",
]

META = "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)"
"""Which ledger this is: the only table whose rows change."""


@dataclass(frozen=True, slots=True)
class Table:
    """An append-only table; before `columns` stands a sequence, and a hash after them."""

    name: str
    columns: tuple[str, ...]
    """Each with its type, in words that SQLite and PostgreSQL both know."""
    indexes: Mapping[str, str] = field(default_factory=dict)
    """The columns of each, by name."""
    long: bool = False
    """Whether it grows with what is released, and its rows are checked when they are read."""


CHARGES = Table(
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

BOUNDS = Table(
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

ANSWERS = Table(
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

STATES = Table(
    "states",
    ("version INTEGER NOT NULL", "place TEXT NOT NULL", "state TEXT NOT NULL"),
    {"states_by_place": "place, version"},
)

EARLIER = Table(
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

REFINED = Table("refined", ("charge TEXT NOT NULL", "source INTEGER NOT NULL UNIQUE"))

ATTEMPTS = Table(
    "attempts",
    ("analyst TEXT NOT NULL", "at TEXT NOT NULL", "how TEXT NOT NULL", "open TEXT NOT NULL"),
    {"attempts_by_analyst": "analyst"},
)

TABLES = (BOUNDS, ANSWERS, EARLIER, REFINED, STATES, ATTEMPTS, CHARGES)

LATER = tuple(table for table in TABLES if table is not CHARGES)
"""Ledgers that were made before these were kept get them when they are opened."""

SHORT = tuple(table for table in TABLES if not table.long)
"""These are checked whenever a ledger is opened, which long ones must not hold up."""


def seal_of(previous: str, fields: Iterable[object]) -> str:
    """Give the hash of a row that stands after one with another hash."""
    return hashlib.sha256(_json([previous, *fields]).encode()).hexdigest()


_json = json.JSONEncoder(separators=(",", ":")).encode
