"""Charges and receipts: what a query will lose, and the proof that the ledger has it on disk.

A charge is made by the planner from query and policy alone. A receipt is made by a ledger
alone, after its transaction is durable (I2), and opens each frontier of the plan once (I3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Final, TypeVar

from dpquery.budget.ledger.earlier_releases import EarlierRelease, State
from dpquery.budget.parallel_composition import EVERYBODY, Touched
from dpquery.core.privacy_events import Event
from dpquery.core.privacy_loss import Ceiling, Loss
from dpquery.core.source_text import Span
from dpquery.errors import internal
from dpquery.ir.query import Scan, outline

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Charge:
    """What one statement will lose, fixed before it starts."""

    events: tuple[Event, ...]
    """One per release, in the order of the plan."""
    scans: tuple[Scan, ...]
    """What the receipt will open, each once."""
    query: str
    """The statement as the analyst typed it, for their ledger."""
    span: Span | None = None
    """The epsilon that asks for most, for the caret of a refusal."""
    retry: tuple[str, str] | None = None
    """Its call before and after that epsilon, so that a refusal can print one that fits."""
    epsilons: tuple[Span, ...] = ()
    """Where the epsilon of each event stands in `query`, so that all can be made smaller.

    Several events may share one.
    """
    touched: Touched | None = EVERYBODY
    """In which parts of a table it may tell of units; None where it could tell of any."""
    if_weighed: Touched | None = None
    """The parts that it would be charged on with weights='table' in each call; None if none."""
    refines: tuple[EarlierRelease, ...] = ()
    """The earlier releases that it uses up."""
    before: tuple[Fraction, ...] = ()
    """For each event, what its call asks for but was paid for earlier; none where none was."""
    version: int | None = None
    """Of the data, where earlier releases of it are made better; None where there are none."""

    errors: Mapping[Span, Callable[[Fraction], Fraction | None]] = field(
        default_factory=dict, compare=False
    )
    """Of the `epsilons` that are errors: the least error that an epsilon buys there."""

    @property
    def calls(self) -> list[tuple[Event, ...]]:
        """The events of each call that states an epsilon."""
        return self._by_call(self.events)

    @property
    def paid(self) -> list[Fraction]:
        """What each of these calls asks for but was paid for earlier."""
        before = self.before or (Fraction(0),) * len(self.events)
        return [sum(parts, Fraction(0)) for parts in self._by_call(before)]

    def _by_call(self, parts: Sequence[T]) -> list[tuple[T, ...]]:
        spans: Sequence[object] = self.epsilons or range(len(parts))
        found: dict[object, tuple[T, ...]] = {}
        for part, span in zip(parts, spans, strict=True):
            found[span] = (*found.get(span, ()), part)
        return list(found.values())


@dataclass(frozen=True, slots=True)
class Account:
    """Who pays: an analyst, in one session."""

    analyst: str
    session: str


OWNER: Final = Account("", "")
"""Whose rows orders are: no charge is made outside a session, and sessions have names."""


@dataclass(frozen=True, slots=True)
class FailureLimit:
    """How many of an analyst's statements may fail within a day."""

    most: int
    seconds: int
    """How long one scan may take."""
    remedy: tuple[str, ...] = ()
    """What ends a suspension, as lines of a refusal."""


@dataclass(frozen=True, slots=True)
class Ceilings:
    """The ceilings that all have to hold; None where there is no such ceiling."""

    policy: Ceiling
    analyst: Ceiling | None = None
    session: Ceiling | None = None
    query: Fraction | None = None
    failures: FailureLimit | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One charge of the past, as its analyst may read it."""

    when: datetime
    query: str
    events: tuple[Event, ...]
    loss: Loss
    session: str
    touched: Touched | None = EVERYBODY
    """The parts of a table that it was charged on, by number; None where it was on all."""


@dataclass(frozen=True, slots=True)
class Opened:
    """An attempt that a ledger holds open until it is told how it ended."""

    id: str
    analyst: str


class Receipt:
    """Proof that a charge is durable. Ledgers make these, and nothing else does."""

    __slots__ = ("_opened", "attempt", "charge", "id", "read", "version")

    def __init__(
        self, charge: Charge, identity: str, version: int = 0, attempt: Opened | None = None
    ) -> None:
        self.charge = charge
        self.id = identity
        self.version = version  # of the data that it was charged for
        self.attempt = attempt  # until all is drawn; None where failures are not counted
        self.read: dict[str, State] = {}  # what the files were at each place that was read
        self._opened: set[int] = set()

    def open(self, frontier: int, scan: Scan) -> None:
        """Use up the right to one scan.

        Raises:
            InternalError: the frontier is not covered, or was opened before.
        """
        scans = self.charge.scans
        if not 0 <= frontier < len(scans) or outline(scans[frontier]) != outline(scan):
            raise internal("a scan needs a receipt that covers it (I3)")
        if frontier in self._opened:
            raise internal("a receipt opens each frontier once (I3)")
        self._opened.add(frontier)
