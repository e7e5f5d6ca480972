"""The durable list of charges: the only way from a charge to a receipt.

A charge is decided and written in one transaction, and the receipt is made after the commit
(I2). There is no way to ask first and charge later, because two callers could both be told
yes; and none to take a charge back, because a process may die between commit and answer
without anyone knowing what was seen. The ledger knows nothing of plans and data; a refusal
depends on charge, limits and ledger alone (I6).

A ledger is used by one thread at a time; sessions and processes each open their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dpquery.budget.answers import Holder
from dpquery.budget.charge import Account, Charge, Entry, Limits, Receipt
from dpquery.budget.decision import binding, require_within
from dpquery.budget.faults import damaged, faults
from dpquery.budget.record import Record, Total, Totals
from dpquery.budget.standing import Standing
from dpquery.budget.store import Store
from dpquery.types import Interval

if TYPE_CHECKING:
    from dpquery.policy.model import LedgerSettings

__all__ = ["Ledger", "open_ledger"]


def open_ledger(settings: LedgerSettings) -> Ledger:
    """Open a ledger, and create it where there has been none; without a path, in memory.

    Raises:
        PolicyInvalid: DPQ605 the file cannot be trusted, DPQ606 it cannot be written.
    """
    path = settings.path and settings.path.absolute()
    high_water = settings.high_water and settings.high_water.absolute()
    with faults(path):
        return Ledger(Store(path, high_water))


class Ledger:
    """Charges, and what they have spent."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def secret(self) -> str:
        """The key of the hashes by which rows of a unit are chosen: drawn once, and kept."""
        return self._store.secret

    def charge(self, charge: Charge, limits: Limits, account: Account) -> Receipt:
        """Make a charge durable, if it keeps every limit; one of nothing leaves no trace.

        Raises:
            BudgetRefused: a limit would be passed; nothing was written.
            PolicyInvalid: the file can no longer be trusted or written; there is no receipt.
        """
        if not charge.events:
            return Receipt(charge, "")
        store = self._store
        with faults(store.path), store.writing() as head:
            totals = store.totals(account)
            require_within(charge, store.accountant, limits, totals)
            totals = totals.plus(store.accountant(charge.events))
            record = Record.after(head.sequence, head.hash, charge, account, totals)
            store.append(record)
        return Receipt(charge, record.id)

    def keep(self, receipt: Receipt, account: Account, key: str, bounds: Interval) -> None:
        """Keep bounds that a receipt's charge paid for, for later calls of the same analyst."""
        store = self._store
        with faults(store.path), store.writing():
            store.keep(receipt.id, account.analyst, key, bounds)

    def bounds(self, account: Account, key: str) -> Interval | None:
        """Give the newest bounds that the charges of an analyst paid for, under a key."""
        with faults(self._store.path):
            kept = self._store.kept_under(account.analyst, key)
            return None if kept is None else kept.interval

    @property
    def version(self) -> int:
        """Which version of the data this is; 0 until the owner publishes one."""
        with faults(self._store.path):
            return self._store.answers.version

    def publish(self) -> int:
        """Begin another version of the data, and give its number; it is durable then."""
        store = self._store
        with faults(store.path), store.writing():
            store.answers.publish()
        return self.version

    def store(self, receipt: Receipt, holder: Holder, drawn: Mapping[str, str]) -> None:
        """Store what a receipt's charge paid for, by key, to be given again free."""
        store = self._store
        with faults(store.path), store.writing():
            store.answers.add(receipt.id, holder, drawn)

    def stored(self, holder: Holder, key: str) -> str | None:
        """Give what was drawn last under a key, where the holder may see it.

        Raises:
            PolicyInvalid: DPQ605 the row was changed.
        """
        with faults(self._store.path):
            return self._store.answers.newest(holder, key)

    def standing(self, limits: Limits, account: Account) -> Standing:
        """Give the limit with the least left, as all processes together have left it."""
        with faults(self._store.path):
            return binding(limits, self._store.totals(account))

    def entries(self, analyst: str) -> list[Entry]:
        """Give one analyst's charges, oldest first."""
        with faults(self._store.path):
            return [record.entry() for record in self._store.records_of(analyst)]

    def verify(self) -> int:
        """Replay the whole ledger and give the number of its charges.

        Raises:
            PolicyInvalid: a row was changed, moved or removed, or a total is not the sum of
                its charges. Whoever rewrites all later hashes too, or takes away the newest
                rows, is found by the high-water mark only.
        """
        with faults(self._store.path):
            self._store.require_whole()
            charges = self._replay()
            self._replay_released()
            return charges

    def _replay(self) -> int:
        store, seal = self._store, self._store.id
        scopes: defaultdict[tuple[str, str], Total] = defaultdict(Total)
        for record in store.records():
            spent = store.accountant(record.charged())
            keys = ("policy", ""), ("analyst", record.analyst), ("session", record.session)
            for key in keys:
                scopes[key] = scopes[key].plus(spent)
            expected = Totals(*(scopes[key] for key in keys))
            if not record.follows(seal) or Totals.read(record.totals) != expected:
                raise damaged(store.path)
            seal = record.hash
        return scopes["policy", ""].charges

    def _replay_released(self) -> None:
        """Check that bounds and answers are untouched, each paid for by its analyst."""
        store, seal = self._store, self._store.id
        paid = {record.id: record.analyst for record in store.records()}
        for kept in store.kept():
            if not kept.follows(seal) or paid.get(kept.charge) != kept.analyst:
                raise damaged(store.path)
            seal = kept.hash
        if not store.answers.untouched(paid):
            raise damaged(store.path)

    def close(self) -> None:
        """Close the file; idempotent."""
        self._store.close()
