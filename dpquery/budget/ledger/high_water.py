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
from dataclasses import dataclass
from pathlib import Path

from dpquery.budget.ledger.errors import refused


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
        except FileNotFoundError:
            return None
        except OSError:
            if self.usual:
                return None
            raise
        except ValueError:
            raise self._unreadable() from None
        if self.usual and not text:  # the machine failed before it was on disk
            return None
        return self._parsed(text)

    def _parsed(self, text: str) -> Mark:
        try:
            match json.loads(text):
                case {"ledger": str(ledger), "sequence": int(sequence), "hash": str(seal)}:
                    return Mark(ledger, sequence, seal)
        except ValueError:
            raise self._unreadable() from None
        raise self._unreadable()

    def write(self, mark: Mark) -> None:
        """Replace the mark in one step: a reader sees the old or the new one."""
        if not self.usual:
            self._replace(mark, durably=True)
            return
        with suppress(OSError):  # there is no place for it
            self.path.parent.mkdir(0o700, parents=True, exist_ok=True)
            self._replace(mark, durably=False)

    def _replace(self, mark: Mark, *, durably: bool) -> None:
        content = {"ledger": mark.ledger, "sequence": mark.sequence, "hash": mark.hash}
        draft = self.path.with_name(f"{self.path.name}.new")
        with open(draft, "w", encoding="utf-8", opener=_private) as file:
            file.write(json.dumps(content) + "\n")
            if durably:
                file.flush()
                os.fsync(file.fileno())
        draft.replace(self.path)
        if durably:
            sync_directory(self.path.parent)

    def _unreadable(self) -> Exception:
        return refused(
            self.path,
            "the high-water mark cannot be read",
            "it says how far the ledger had come, so without it a lost charge would go unseen.",
            "bring the file back, or remove it once the ledger is known to be complete",
        )


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def sync_directory(directory: Path) -> None:
    """Make a new or renamed name durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
