"""What an engine is: it opens a scan against a receipt, and answers with exact integers.

The integers leave in an `Exact` only, which cannot be printed, pickled or iterated, and which
the release stage alone reads (I4). Whatever goes wrong inside becomes one constant failure:
the text of an engine's error may quote rows, so it goes to the owner's log and nowhere else
(I11).
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from dpquery.budget.ledger.charge_and_receipt import Receipt
from dpquery.core.interrupts import was_stopped
from dpquery.core.source_text import Source, Span
from dpquery.core.types import INT64, Kind
from dpquery.errors import (
    Diagnostic,
    DPQueryError,
    InternalError,
    ScanFailed,
    SyntaxRefused,
    internal,
)
from dpquery.ir.expr import Expr
from dpquery.ir.measures import Candidates, GroupRequest, Histogram, Measure, Told
from dpquery.ir.query import Scan
from dpquery.mechanisms.samplers import Integers
from dpquery.rowfunctions.base import YEARS

T = TypeVar("T")
LONGEST_LINE = 1 << 16
"""Bytes of the log of faults that are read to find its last line."""


class PublicRows(Protocol):
    """Where an engine gets public tables, for joins: the rows that were loaded at connect."""

    def rows(self, table: str) -> pa.Table:
        """Return the columns of a public table that a policy's types can name; NaN is NULL."""
        ...


class NoPublicRows:
    """The public tables of a policy that has none."""

    def rows(self, table: str) -> pa.Table:
        """Fail: there is no such table."""
        raise internal(f"{table} is not among the public tables")


class OpenScan(Protocol):
    """What answers requests while a scan is open.

    Values that nobody has listed are counted without their names, in an order of chance; those
    at the places that a mechanism chose are named. No other value leaves an engine.
    """

    def histograms(
        self, measure: Histogram, requests: Sequence[GroupRequest]
    ) -> Sequence[Integers]:
        """Return the weights of each request's ranges, in order; in few passes where it can."""
        ...

    def counts(self, measure: Candidates) -> Integers:
        """Return the number of units of each value, in an order of chance."""
        ...

    def values(self, measure: Candidates, places: Sequence[int]) -> list[Told]:
        """Return the values at some places of that order."""
        ...

    def close(self) -> None:
        """Let go of what is held."""
        ...


class Exact:
    """Exact integers of one scan: private, read by the release stage, then closed."""

    __slots__ = ("_log", "_opened", "_values", "groups")

    def __init__(
        self,
        values: Mapping[Measure, tuple[int, ...]],
        groups: int = 1,
        opened: OpenScan | None = None,
        log: FaultLog | None = None,
    ) -> None:
        if any(type(value) is not int for cells in values.values() for value in cells):
            raise internal(_INTEGERS)
        self.groups = groups
        self._values: dict[Measure, tuple[int, ...]] | None = dict(values)
        self._opened = opened
        self._log = log or FaultLog(None)

    def values(self, measure: Measure) -> tuple[int, ...]:
        """Return the integers of one measure, one per group."""
        if self._values is None or measure not in self._values:
            raise internal(_OWN)
        return self._values[measure]

    def histogram(
        self, measure: Histogram, group: int, low: int, high: int, width: int
    ) -> Integers:
        """Return the weight of each range of `width` codes from low to high - 1, in order."""
        return self.histograms(measure, [GroupRequest(group, low, high, width)])[0]

    def histograms(
        self, measure: Histogram, requests: Sequence[GroupRequest]
    ) -> Sequence[Integers]:
        """Return several histograms, together where that is cheaper."""
        found = guarded(self._log, lambda: self._open.histograms(measure, requests))
        return [*map(_integers, found)]

    def counts(self, measure: Candidates) -> Integers:
        """Return how many units have each value, in an order of chance."""
        return _integers(guarded(self._log, lambda: self._open.counts(measure)))

    def chosen(self, measure: Candidates, places: Sequence[int]) -> list[Told]:
        """Return the values at the places that a mechanism chose: no other is ever named."""
        return guarded(self._log, lambda: self._open.values(measure, places))

    @property
    def _open(self) -> OpenScan:
        if self._opened is None:
            raise internal(_OWN)
        return self._opened

    def close(self) -> None:
        """Forget the integers, and let go of what the engine holds for them."""
        opened, self._opened, self._values = self._opened, None, None
        if opened is not None:
            opened.close()

    def __enter__(self) -> Exact:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return "<exact values, not shown>"

    def __reduce__(self) -> NoReturn:
        raise internal("exact values stay in the process (I4)")


_INTEGERS = "only integers cross from scan to release (I4)"
_OWN = "a release reads the measures of its own open scan"


def _integers(weights: Integers) -> Integers:
    """Pass an array of integers, of whatever size."""
    if weights.dtype.kind not in "iO":
        raise internal(_INTEGERS)
    return weights


class Engine(Protocol):
    """What reads private rows, opened once per session."""

    def open(self, scan: Scan, receipt: Receipt, frontier: int) -> Exact:
        """Read the rows of one frontier, which the receipt has to cover.

        Raises:
            ScanFailed: DPQ701, always the same text; the charge stays.
        """
        ...

    def describe(self, scan: Scan) -> str:
        """Return what the engine would run for a scan; nothing is opened."""
        ...

    def prepare(self) -> None:
        """Begin what takes a while, of which no row and no query is known: one will come."""
        ...

    def rehearse(self, scan: Scan) -> None:
        """Check what would be run for a scan, before it is charged.

        Raises:
            InternalError: DPQ901 the engine could not run it.
        """
        ...

    def close(self) -> None:
        """Let go of files and memory; closing twice is fine."""
        ...


def by_chance(size: int) -> Integers:
    """Return the numbers below a size in an order that tells nothing of the data."""
    drawn = np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
    order: Integers = np.argsort(drawn).astype(np.int64)
    return order


def nameable(value: Expr) -> tuple[int, int] | None:
    """Return the range of the numbers that a column of an answer can show, if others occur.

    Dates are numbers of days, timestamps of microseconds. A row with another is in no group.
    """
    ends = {Kind.INTEGER: INT64, **YEARS}.get(value.type.kind)
    return None if ends is None or value.domain.within(*ends) else ends


_ONE_ROW = " A unit may have more than one row."
_LEAVE_OUT = (
    "--rows auto in place of --rows-per-unit 1, unless each unit has one row, "
    "in Python max_rows_contributed='auto'"
)


class FaultLog:
    """Where the data owner reads what went wrong; never shown to analysts."""

    def __init__(self, path: Path | None, *, own: bool = False, declared: bool = False) -> None:
        """Name the file; say whether who asks is the owner, and declared one row for each unit.

        Without a policy who asks is the owner.
        """
        self._path = path
        self._own = own
        self._declared = declared

    def failure(self, reference: str) -> Diagnostic:
        """Return the one constant failure, in the words of who reads it."""
        why = (
            "reading the private tables broke off: time, memory or disk may have run out, or",
            "the files are not what the policy says. What the engine said is kept from you,",
            "because it may quote rows; the data owner can read it in the log of faults.",
        )
        remedy: tuple[str, ...] = (f"ask the data owner, with reference {reference}",)
        if self._own:
            kept = "The cause may quote rows: it is not shown, and only a ledger file keeps it."
            look = "--ledger FILE: the cause is then kept in FILE.faults, in Python ledger="
            if self._path is not None:
                kept = f"The cause may quote rows: it is not shown, but in {self._path.name}."
                look = f"look for reference {reference} in {self._path}"
            why = (
                "reading the files broke off: time, memory or disk may have run out, or the",
                f"files are not what the options say.{_ONE_ROW * self._declared}",
                kept,
            )
            remedy = (_LEAVE_OUT, look) if self._declared else (look,)
        return Diagnostic("DPQ701", "the scan did not finish", why=why, remedy=remedy)

    def note_once(self, fault: Exception) -> None:
        """Write a fault down unless the last line of the file tells the same."""
        try:
            last = "" if self._path is None else _last_line(self._path)
            told = json.loads(last)["fault"] if last else None
        except (OSError, ValueError, LookupError, TypeError):  # lines may be anybody's
            told = None
        if told != _told(fault):
            self.note(fault)

    def note(self, fault: BaseException) -> str:
        """Write a fault down and give the reference under which it stands.

        A log that cannot be written must not change what the analyst sees.
        """
        reference = secrets.token_hex(4)
        if self._path is not None:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            line = json.dumps({"reference": reference, "at": now, "fault": _told(fault)})
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
            with (
                suppress(OSError),
                os.fdopen(os.open(self._path, flags, 0o600), "a", encoding="utf-8") as file,
            ):
                file.write(f"{line}\n")
        return reference


def _told(fault: BaseException) -> str:
    return f"{type(fault).__name__}: {fault}"


def _last_line(path: Path) -> str:
    """Return the last line of a file if it ends within some distance of the end."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - LONGEST_LINE))
        return file.read().decode("utf-8", "replace").rstrip("\n").rpartition("\n")[2]


def guarded(log: FaultLog, read: Callable[[], T]) -> T:
    """Return what a backend reads; whatever it raises becomes the one constant failure.

    The failure is raised when the fault is no longer being handled: it would be its context.
    """
    try:
        return read()
    except DPQueryError:
        raise
    except Exception as fault:  # noqa: BLE001 - no kind of fault may pass: its text can quote rows
        stopped = was_stopped(fault)
        reference = "" if stopped else log.note(fault)
    if stopped:
        raise KeyboardInterrupt
    raise ScanFailed(log.failure(reference))


@contextmanager
def uncharged(log: FaultLog, source: Source) -> Iterator[None]:
    """Have whatever is raised before a charge come in words of our own.

    This is the last line: what is known to fail is refused where it stands.

    Raises:
        SyntaxRefused: DPQ105 the statement recursed too far, or grew out of memory.
        InternalError: DPQ901 anything that is no error of ours; nothing was charged.
        KeyboardInterrupt: it was stopped.
    """
    try:
        yield
        if was_stopped():
            raise KeyboardInterrupt
    except DPQueryError:
        if was_stopped():
            raise KeyboardInterrupt from None
        raise
    except (RecursionError, MemoryError):
        diagnostic = Diagnostic(
            "DPQ105",
            "this statement is nested too deeply",
            Span(0, len(source.text)),
            "somewhere here",
            ("planning it takes more memory or more levels than there are.",),
            ("write the query with fewer levels, names of WITH included",),
        )
        raise SyntaxRefused(diagnostic) from None
    except Exception as fault:  # noqa: BLE001 - an analyst never sees a bare error
        if was_stopped(fault):
            raise KeyboardInterrupt from None
        log_says = f"report it with the query, and with reference {log.note(fault)}"
        diagnostic = Diagnostic(
            "DPQ901",
            "the statement could not be planned",
            why=(
                "this is a mistake in dpquery, not in the query; nothing was read or charged.",
            ),
            remedy=(f"{log_says} of the owner's log",),
        )
        raise InternalError(diagnostic) from None
