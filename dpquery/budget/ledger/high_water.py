"""A mark outside the ledger that says how far it had come.

A ledger cannot tell that it was replaced by its own older copy; a second file in another
place can. The mark is written after each commit and before the receipt, so that it never
stands above the ledger, and every acknowledged charge is below it. It holds no charge, only a
sequence and a hash.

A mark that a policy names is as durable as the charge. One at the usual place outlives any
process and may lag when the machine fails; a user who has no such place has no mark.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from dpquery.budget.ledger.ledger_faults import UNREADABLE_MARK, refused


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a ledger stands: its id, its last sequence, and the hash there."""

    ledger: str
    sequence: int
    hash: str


@dataclass(frozen=True, slots=True)
class HighWater:
    """The file that holds a mark."""

    path: Path
    usual: bool = False
    """Whether nobody named this place."""

    def read(self) -> Mark | None:
        """Return the mark; None when there is no file yet.

        Raises:
            PolicyInvalid: DPQ605, the file holds something else.
        """
        try:
            text = self.path.read_text("utf-8")
            if self.usual and not text:  # the machine failed before it was on disk
                return None
            match json.loads(text):
                case {"ledger": str(ledger), "sequence": int(sequence), "hash": str(seal)}:
                    return Mark(ledger, sequence, seal)
        except FileNotFoundError:
            return None
        except OSError:
            if self.usual:
                return None
            raise
        except ValueError:
            raise refused(self.path, *UNREADABLE_MARK) from None
        raise refused(self.path, *UNREADABLE_MARK)

    def write(self, mark: Mark) -> None:
        """Replace the mark in one step: a reader sees the old or the new one."""
        if not self.usual:
            self._replace(mark, durably=True)
            return
        with suppress(OSError):  # there is no place for it
            self.path.parent.mkdir(0o700, parents=True, exist_ok=True)
            self._replace(mark, durably=False)

    def _replace(self, mark: Mark, *, durably: bool) -> None:
        draft = self.path.with_name(f"{self.path.name}.new")
        with open(draft, "w", encoding="utf-8", opener=_private) as file:
            file.write(json.dumps(asdict(mark)) + "\n")
            if durably:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(self.path)
        if durably:
            sync_directory(self.path.parent)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def sync_directory(directory: Path) -> None:
    """Make a new or renamed name durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
