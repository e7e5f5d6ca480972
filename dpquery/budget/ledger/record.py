"""One row of a ledger: a charge or an order, and the totals after it.

Totals stand in the row of the charge that made them, so that they are as append-only as the
charge and under the same hash: there is no balance beside the history that could be changed
alone. This module knows no file and no SQL. Numbers are exact rationals written as text (I8).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeVar

from dpquery.budget.accountant import NOTHING, Spent, basic
from dpquery.budget.ledger.charge_and_receipt import OWNER, Charge, Entry
from dpquery.budget.parallel_composition import (
    EITHER,
    EVERYBODY,
    NO_PARTS,
    Counting,
    Parted,
    Touched,
    read_spent,
    texts,
)
from dpquery.core.privacy_events import Composed, Event, decode, encode
from dpquery.errors import internal

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Total:
    """What is spent within one scope, and by how many charges."""

    spent: Spent = NOTHING
    """On every unit."""
    charges: int = 0
    parts: Parted = NO_PARTS
    """And on some units, beside that."""

    def plus(self, spent: Spent, counting: Counting, touched: Touched | None) -> Total:
        """Add one charge, on the units in some parts or on all."""
        every, parts = self.spent, self.parts
        if parts.version != counting.version:
            every, parts = every + parts.most(counting), NO_PARTS
        on = counting.counted_on(touched)
        if on is None:
            return Total(every + spent, self.charges + 1, parts)
        return Total(every, self.charges + 1, parts.plus(spent, counting.version, on))

    def most(self, counting: Counting, touched: Touched | None = EVERYBODY) -> Spent:
        """Return the most that a unit has lost, of those that a charge may tell of."""
        if not self.parts.columns:
            return self.spent
        return self.spent + self.parts.most(counting, touched)

    def listed(self) -> tuple[object, ...]:
        """Return the numbers, exactly, as texts."""
        whole = (*texts(self.spent), self.charges)
        return (*whole, self.parts.listed()) if self.parts.columns else whole


@dataclass(frozen=True, slots=True)
class Totals:
    """What is spent under the whole policy, by one analyst, and in one session."""

    policy: Total = Total()
    analyst: Total = Total()
    session: Total = Total()

    def plus(
        self, spent: Spent, counting: Counting = EITHER, touched: Touched | None = EVERYBODY
    ) -> Totals:
        """Add one charge to every scope."""
        return Totals(*self._each(lambda scope: scope.plus(spent, counting, touched)))

    def _each(self, made: Callable[[Total], T]) -> tuple[T, T, T]:
        """Make something of each scope; once of those that are equal, as they often are."""
        policy = made(self.policy)
        analyst = policy if self.analyst == self.policy else made(self.analyst)
        session = analyst if self.session == self.analyst else made(self.session)
        return policy, analyst, session

    def text(self) -> str:
        """Write the totals exactly.

        >>> from fractions import Fraction
        >>> from dpquery.core.privacy_loss import Loss
        >>> Totals().plus(Spent(Loss(Fraction("0.5")), Fraction("0.125"))).text()
        '[["1/2","0","1/8",true,1],["1/2","0","1/8",true,1],["1/2","0","1/8",true,1]]'

        Raises:
            InternalError: Python writes no number that long. Epsilons are decimals of at most
                30 digits, so that only a mistake of ours leads here.
        """
        try:
            scopes = self._each(Total.listed)
        except ValueError:
            raise internal("a total has few enough digits to be written") from None
        return _json(scopes)

    @classmethod
    def read(cls, text: str) -> Totals:
        """Read what `text` wrote; another text is a ValueError."""
        match json.loads(text):
            case [policy, analyst, session]:
                return cls(_total(policy), _total(analyst), _total(session))
        raise ValueError("not the totals of a ledger")


def _total(part: object) -> Total:
    match part:
        case [*spent, int(charges)]:
            return Total(read_spent(spent), charges)
        case [*spent, int(charges), list(parts)]:
            return Total(read_spent(spent), charges, Parted.read(parts))
    raise ValueError("not the totals of a ledger")


class Wording(NamedTuple):
    """What a row says of a charge or an order, wherever it will stand."""

    id: str
    query: str
    events: str

    @classmethod
    def of(cls, charge: Charge) -> Wording:
        """Write a charge as one on every unit."""
        # A lone surrogate has no UTF-8, and servers take no NUL; a query is not refused for
        # its ledger's sake.
        query = charge.query.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
        return cls(secrets.token_hex(16), query, encode(Composed(charge.events)))

    @classmethod
    def ordered(cls, order: str) -> Wording:
        """Write an order of the owner."""
        return cls(secrets.token_hex(16), "", order)

    def within(self, on: Touched | None) -> Wording:
        """Write it with the parts that it is counted on, if any."""
        if on is None:
            return self
        parts = _json([on.column, on.parts, on.per_unit])
        return self._replace(events=f'["within",{parts},{self.events}]')


class Record(NamedTuple):
    """A row as it stands in the file, without its hash; every field is text but the first."""

    sequence: int
    id: str
    at: str
    analyst: str
    session: str
    query: str
    events: str
    totals: str

    @property
    def is_order(self) -> bool:
        """Return whether this is the owner's order and not a charge."""
        return self.session == OWNER.session

    def charged(self) -> tuple[Event, ...]:
        """Return the events of the charge.

        Raises:
            ValueError: they are no events of this version.
        """
        return _read(self.events)[0]

    def touched(self) -> Touched | None:
        """Return the parts that the charge is counted on; None where it is on every unit."""
        return _read(self.events)[1]

    def entry(self) -> Entry:
        """Return the row as its analyst may read it."""
        events, touched = _read(self.events)
        when = datetime.fromisoformat(self.at)
        return Entry(when, self.query, events, basic(events), self.session, touched)


def _read(text: str) -> tuple[tuple[Event, ...], Touched | None]:
    """Read the events of a charge, and the parts that it is on."""
    touched: Touched | None = None
    match json.loads(text):
        case ["within", [str(column), [*parts], int(per_unit)], list(events)]:
            touched = Touched(column, tuple(map(int, parts)), per_unit=per_unit)
            text = _json(events)
    match decode(text):
        case Composed(composed):
            return composed, touched
    raise ValueError("not the events of a charge")


_json = json.JSONEncoder(separators=(",", ":")).encode
