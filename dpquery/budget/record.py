"""One row of a ledger: a charge, the totals after it, and a hash of all rows up to it.

Totals stand in the row of the charge that made them, so that they are as append-only as the
charge and under the same hash: there is no balance beside the history that could be changed
alone. This module knows no file and no SQL. Numbers are exact rationals written as text (I8).
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import NamedTuple

from dpquery.budget.accountant import Accountant
from dpquery.budget.charge import Account, Charge, Entry
from dpquery.errors import internal
from dpquery.events import Composed, Event, decode, encode
from dpquery.privacy import NO_LOSS, Loss

__all__ = ["Record", "Total", "Totals"]


@dataclass(frozen=True, slots=True)
class Total:
    """What is spent within one scope, and by how many charges."""

    spent: Loss = NO_LOSS
    charges: int = 0

    def plus(self, loss: Loss) -> Total:
        """Add one charge."""
        return Total(self.spent + loss, self.charges + 1)


@dataclass(frozen=True, slots=True)
class Totals:
    """What is spent under the whole policy, by one analyst, and in one session."""

    policy: Total = Total()
    analyst: Total = Total()
    session: Total = Total()

    def plus(self, loss: Loss) -> Totals:
        """Add one charge to every scope."""
        return Totals(self.policy.plus(loss), self.analyst.plus(loss), self.session.plus(loss))

    def text(self) -> str:
        """Write the totals exactly.

        >>> Totals().plus(Loss(Fraction("0.5"))).text()
        '[["1/2","0",1],["1/2","0",1],["1/2","0",1]]'

        Raises:
            InternalError: Python writes no number that long. Epsilons are decimals of at most
                30 digits, so that only a mistake of ours leads here.
        """
        scopes = (self.policy, self.analyst, self.session)
        try:
            parts = [(str(t.spent.epsilon), str(t.spent.delta), t.charges) for t in scopes]
        except ValueError:
            raise internal("a total has few enough digits to be written") from None
        return _json(parts)

    @classmethod
    def read(cls, text: str) -> Totals:
        """Read what `text` wrote.

        Raises:
            ValueError: the text is something else.
        """
        match json.loads(text):
            case [[str(), str(), int()], [str(), str(), int()], [str(), str(), int()]] as parts:
                return cls(*(Total(Loss(Fraction(e), Fraction(d)), n) for e, d, n in parts))
        raise ValueError("not the totals of a ledger")


class Record(NamedTuple):
    """A row as it stands in the file, every field as text but the first."""

    sequence: int
    id: str
    at: str
    analyst: str
    session: str
    query: str
    events: str
    totals: str
    hash: str

    @classmethod
    def after(
        cls, sequence: int, seal: str, charge: Charge, account: Account, totals: Totals
    ) -> Record:
        """Write the charge that comes after another one's sequence and hash."""
        fields = (
            sequence + 1,
            secrets.token_hex(16),
            datetime.now(UTC).isoformat(timespec="microseconds"),
            account.analyst,
            account.session,
            # A lone surrogate has no UTF-8, and a query is not refused for its ledger's sake.
            charge.query.encode("utf-8", "backslashreplace").decode(),
            encode(Composed(charge.events)),
            totals.text(),
        )
        return cls(*fields, _seal(seal, fields))

    def follows(self, seal: str) -> bool:
        """Say whether this row is untouched and stands after the row with that hash."""
        return self.hash == _seal(seal, self[:-1])

    def charged(self) -> tuple[Event, ...]:
        """Give the events of the charge.

        Raises:
            ValueError: they are no events of this version.
        """
        match decode(self.events):
            case Composed(parts):
                return parts
        raise ValueError("not the events of a charge")

    def entry(self, accountant: Accountant) -> Entry:
        """Give the row as its analyst may read it."""
        events = self.charged()
        when = datetime.fromisoformat(self.at)
        return Entry(when, self.query, events, accountant(events), self.session)


def _seal(previous: str, fields: tuple[object, ...]) -> str:
    return hashlib.sha256(_json([previous, *fields]).encode()).hexdigest()


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
