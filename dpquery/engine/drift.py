"""Whether files are still those of the version of the data that a charge was made for.

Answers are repeated within a version, so its files must not change. Where they have, every scan
of them fails in the same words, until the owner publishes them as another version. They are
never looked at to decide what is charged, refused or repeated: that would tell of one person's
row. Take a job that writes the files anew each night. Were they held against the version before
the charge, a query would be answered after a night in which nothing changed, and refused at no
cost after one in which one person came.

Sizes and times are compared first, and bytes only where these differ: a copy is no change. What
refines an earlier value has to be drawn from the same rows to the last one, so that there sizes
and times have to be those of the scan that the earlier value came from.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol

from dpquery.budget.charge import Receipt
from dpquery.budget.earlier import State
from dpquery.engine.files import (
    DataChanged,
    Fingerprint,
    about_bytes,
    files_of,
    require_unchanged,
)
from dpquery.policy.model import Policy, Table
from dpquery.policy.places import place_name

__all__ = ["Drift", "States", "Watch", "unwatched", "watch_of"]

Watch = Callable[[Table, Fingerprint, Receipt], None]
"""Is shown each table that was read, with its state and the receipt for reading it."""


def unwatched(table: Table, state: Fingerprint, receipt: Receipt) -> None:
    """Take any files: nobody says when they are another version."""


class States(Protocol):
    """What remembers the first state of files under a version."""

    def first_state(self, version: int, place: str, make: Callable[[], str]) -> str:
        """Give the first state at a place; where there is none, it is what is made now."""
        ...


def watch_of(policy: Policy, states: States) -> Watch:
    """Give what watches the tables of a policy, where somebody publishes their versions."""
    return Drift(policy, states) if policy.published else unwatched


class Drift:
    """Holds files against the first state that was read under their version."""

    def __init__(self, policy: Policy, states: States) -> None:
        self._policy = policy
        self._states = states
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
        now = _exactly(state)
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
        text = self._states.first_state(version, place, lambda: _written(table, state))
        seen, bytes_ = json.loads(text)
        if seen != _seen(table, state) and bytes_ != _bytes(table, state):
            raise DataChanged(
                f"the files of {table.name!r} are not those of data version {version}; "
                f"if they are to be asked about: dpquery policy publish {self._policy.name}"
            )


def _written(table: Table, state: Fingerprint) -> str:
    told = [_seen(table, state), _bytes(table, state)]
    return json.dumps(told, separators=(",", ":"))


def _seen(table: Table, state: Fingerprint) -> list[list[object]]:
    """Give name, size and time of each file."""
    paths = map(str, files_of(table))
    return [
        [path, size, time]
        for path, (_, _, size, time, _) in zip(paths, state.files, strict=True)
    ]


def _exactly(state: Fingerprint) -> State:
    """Give what tells rows from others to the last one; a file may be moved."""
    return sorted((size, time, end) for _, _, size, time, end in state.files)


def _bytes(table: Table, state: Fingerprint) -> list[str]:
    """Give what tells the files' bytes, in no order: rows have none either.

    Where units have parts, budgets rest on it that nobody moves to another: no byte may differ.

    Raises:
        DataChanged: these are the bytes of another state.
    """
    whole = table.parting is not None
    told = sorted(about_bytes(path, whole=whole) for path in files_of(table))
    require_unchanged([table], {table.name: state})
    return told
