"""Whether files are still those of the version of the data that a charge was made for.

Answers are repeated within a version, so its files must not change. Where they have, every scan
of them fails in the same words, until the owner publishes them as another version. They are
never looked at to decide what is charged or repeated: that would tell of one person's row.

Sizes and times are compared first, and bytes only where these differ: a copy is no change.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol

from dpquery.budget.charge import Receipt
from dpquery.engine.files import DataChanged, Fingerprint, about_bytes, files_of
from dpquery.policy.model import Policy, Table
from dpquery.policy.places import place_of

__all__ = ["Drift", "States", "Watch", "unwatched", "watch_of"]

Watch = Callable[[Table, Fingerprint, Receipt], None]
"""Is shown each table before a scan, with its state and what was charged."""


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
        """Pass files that are as they were; where earlier values are refined, in time as well.

        What is drawn given an earlier value has to be of the same rows, to the last one.

        Raises:
            DataChanged: they are others.
        """
        version, refines = receipt.version, bool(receipt.charge.refines)
        if self._same.get((table.name, version)) == state and not refines:
            return
        place = repr(place_of(table, self._policy))
        text = self._states.first_state(version, place, lambda: _written(table, state))
        seen, bytes_ = json.loads(text)
        seen = [tuple(one) for one in seen]
        now = _seen(table, state)
        same = seen == now or (
            bytes_ == _bytes(table) and (not refines or _times(seen) == _times(now))
        )
        if not same:
            raise DataChanged(
                f"the files of {table.name!r} are not those of data version {version}; "
                f"if they are to be asked about: dpquery policy publish {self._policy.name}"
            )
        self._same[table.name, version] = state


def _written(table: Table, state: Fingerprint) -> str:
    return json.dumps([_seen(table, state), _bytes(table)], separators=(",", ":"))


def _seen(table: Table, state: Fingerprint) -> list[tuple[str, int, int]]:
    """Give name, size and time of each file."""
    paths = map(str, files_of(table))
    return [
        (path, size, time)
        for path, (_, _, size, time, _) in zip(paths, state.files, strict=True)
    ]


def _times(seen: list[tuple[str, int, int]]) -> list[tuple[int, int]]:
    """Give sizes and times, in no order: a file may be moved."""
    return sorted((size, time) for _, size, time in seen)


def _bytes(table: Table) -> list[str]:
    """Give what tells the files' bytes, in no order: rows have none either.

    Where units have parts, budgets rest on it that nobody moves to another: no byte may differ.
    """
    whole = table.parting is not None
    return sorted(about_bytes(path, whole=whole) for path in files_of(table))
