"""The durable list of charges: the only way from a charge to a receipt.

A charge is decided and written in one transaction, and the receipt is made after the commit
(I2). There is no way to ask first and charge later, because two callers could both be told
yes; and none to take a charge back, because a process may die between commit and answer
without anyone knowing what was seen. The ledger knows nothing of plans and data; a refusal
depends on charge, limits and ledger alone (I6).

A ledger is used by one thread at a time; sessions and processes each open their own.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from fractions import Fraction
from functools import reduce
from time import monotonic, sleep
from typing import TYPE_CHECKING

from dpquery.budget.accountant import Spent
from dpquery.budget.admission import require_within
from dpquery.budget.ledger.charge_and_receipt import (
    OWNER,
    Account,
    Ceilings,
    Charge,
    Entry,
    FailureLimit,
    Opened,
    Receipt,
)
from dpquery.budget.ledger.earlier_releases import (
    VISIBLE,
    AlreadyRefined,
    EarlierRelease,
    Holder,
    Refinable,
)
from dpquery.budget.ledger.high_water import HighWater
from dpquery.budget.ledger.ledger_faults import DAMAGED, another_promise, faults, refused
from dpquery.budget.ledger.owner_orders import (
    Freeze,
    Grant,
    Order,
    Orders,
    Promise,
    Publish,
    Suspend,
    Thaw,
    decode_order,
    encode_order,
    grant_up_to,
    require_grant,
)
from dpquery.budget.ledger.postgres import Postgres
from dpquery.budget.ledger.record import Record, Total, Totals, Wording
from dpquery.budget.ledger.sqlite import SQLite
from dpquery.budget.ledger.store import Store
from dpquery.budget.ledger.tables import ANY, Database
from dpquery.budget.limits import Standing, binding
from dpquery.budget.parallel_composition import EVERYBODY, Counting, Touched
from dpquery.budget.refusals import crowded, frozen, suspended
from dpquery.core.privacy_events import Refined
from dpquery.core.privacy_loss import Loss
from dpquery.core.types import Interval
from dpquery.errors import internal

if TYPE_CHECKING:
    from pathlib import Path

    from dpquery.policy.model import LedgerSettings


_MARGIN = timedelta(seconds=60)
"""What a statement may take beside its scans."""
_PATIENCE = 10.0
"""Seconds to wait where as many statements are under way as may still fail."""
_PAUSE = 0.02


class _Crowded(Exception):
    """As many statements are under way as may still fail."""


@dataclass(slots=True)
class _Prepared:
    """A charge, and what is known of it before the ledger is one's own."""

    charge: Charge
    ceilings: Ceilings
    account: Account
    asked: Spent
    wording: Wording
    attempt: Opened | None = None
    """What was begun for it, once it was."""


def open_ledger(settings: LedgerSettings, promise: Promise | None = None) -> Ledger:
    """Open a ledger, and create it where there has been none; without a path, in memory.

    Whoever charges states what the policy promises; its owner can look without.

    Raises:
        PolicyInvalid: DPQ605 the file or server cannot be trusted, DPQ606 it cannot be
            written, DPQ609 it counts the losses of others than the policy protects, DPQ611
            there is no driver.
    """
    database = _database(settings)
    with faults(database.path):
        return Ledger(Store(database, _mark(settings)), promise)


def ledger_exists(settings: LedgerSettings) -> bool:
    """Return whether there is a ledger, or has been, and make none.

    Raises:
        PolicyInvalid: DPQ606 its server cannot be asked, DPQ611 or not talked to.
    """
    mark = _mark(settings)
    with closing(_database(settings)) as database:
        return database.exists or bool(mark and mark.read())


def _mark(settings: LedgerSettings) -> HighWater | None:
    place = settings.high_water
    return HighWater(place.absolute(), settings.usual_mark) if place else None


def _database(settings: LedgerSettings) -> Database:
    if settings.server is not None:
        return Postgres(settings.server, settings.high_water)
    return SQLite(settings.path and settings.path.absolute())


class Ledger:
    """Charges, what they have spent, and the owner's orders among them."""

    def __init__(self, store: Store, promise: Promise | None = None) -> None:
        self._store = store
        self._promise = promise
        self._known = (0, Orders())
        if promise is not None:
            try:
                self._promised(self._orders())
            except BaseException:
                self.close()
                raise

    @property
    def secret(self) -> str:
        """The key of the hashes by which rows of a unit are chosen: drawn once, and kept."""
        return self._store.secret

    def charge(self, charge: Charge, ceilings: Ceilings, account: Account) -> Receipt:
        """Make a charge durable, if it keeps every limit; one of nothing leaves no trace.

        Where as many statements of the analyst are under way as may still fail, it waits for
        one of them to end.

        Raises:
            BudgetRefused: a limit would be passed, or charges are frozen; nothing was charged.
            AlreadyRefined: what it refines was used up, or is of another version; the same.
            PolicyInvalid: the file can no longer be trusted or written; there is no receipt.
        """
        if not charge.events and not (charge.scans and ceilings.failures):
            # What a stream has paid for is still read under the version of now.
            return Receipt(charge, "", self.orders().version if charge.scans else 0)
        if not account.session:
            raise internal("a charge is made in a session")
        if sum(isinstance(event, Refined) for event in charge.events) != len(charge.refines):
            raise internal("what pays a difference uses up what paid the rest")
        # Others wait while the ledger is one's own: what it cannot change is ready by then.
        charged = _Prepared(
            charge, ceilings, account, self._store.accountant(charge.events), Wording.of(charge)
        )
        patience = monotonic() + _PATIENCE
        while True:
            try:
                return self._receipt(charged)
            except _Crowded:
                if monotonic() > patience and ceilings.failures:
                    raise crowded(charge, ceilings.failures) from None
            except KeyboardInterrupt:
                # Charge and attempt may be durable: nothing was read, so nothing failed.
                if charged.attempt is not None:
                    with suppress(Exception), self._writing() as store:
                        store.attempts.close(charged.attempt, "stopped")
                raise
            sleep(_PAUSE)

    def _receipt(self, charged: _Prepared) -> Receipt:
        """Decide and write; the receipt is made when both are durable."""
        store, charge, analyst = self._store, charged.charge, charged.account.analyst
        with self._writing():
            orders = self._orders()
            self._known = (store.last, orders)
            if orders.frozen and charge.events:
                raise frozen(charge)
            failed = self._suspended(orders, analyst, charged.ceilings.failures)
            if not failed:
                identity = self._appended(charged, orders) if charge.events else ""
                attempt = charged.attempt = self._opened(charged)
        if failed:  # what was found to have failed is durable by now
            raise suspended(charge, failed, charged.ceilings.failures)
        return Receipt(charge, identity, orders.version, attempt)

    def _appended(self, charged: _Prepared, orders: Orders) -> str:
        """Add a charge, if it keeps every limit."""
        store, charge, account = self._store, charged.charge, charged.account
        totals, counting = store.totals(account), self._counting(orders)
        raised = orders.raised(charged.ceilings, account.analyst)
        require_within(charge, charged.asked, raised, totals, counting)
        on = counting.counted_on(charge.touched)
        totals = totals.plus(charged.asked, counting, on)
        if self._promise is not None and self._promised(orders) != orders:
            self._append(self._promise)
        store.append(account, charged.wording.within(on), totals)
        if charge.version not in {None, orders.version}:
            raise AlreadyRefined
        store.earlier.use(charged.wording.id, [one.number for one in charge.refines])
        return charged.wording.id

    def _suspended(self, orders: Orders, analyst: str, limit: FailureLimit | None) -> int:
        """Return how many failures suspend an analyst, now or before; 0 where they do not."""
        if limit is None or analyst in orders.suspended:
            return orders.suspended.get(analyst, 0)
        failed = self._store.attempts.failures(analyst)
        if failed < limit.most:
            return 0
        self._append(Suspend(analyst, failed))
        return failed

    def _opened(self, charged: _Prepared) -> Opened | None:
        """Open the attempt that a charge is for."""
        limit, analyst = charged.ceilings.failures, charged.account.analyst
        if limit is None:
            return None
        if len(self._store.attempts.open(analyst)) >= limit.most:
            raise _Crowded
        time = timedelta(seconds=limit.seconds * max(1, len(charged.charge.scans))) + _MARGIN
        return self._store.attempts.begin(analyst, time)

    def close_attempt(self, receipt: Receipt, how: str) -> None:
        """Say that what a receipt was for ended without failing, and stored nothing."""
        if receipt.attempt is not None:
            with self._writing() as store:
                store.attempts.close(receipt.attempt, how)
            receipt.attempt = None

    def fail(self, receipt: Receipt, analyst: str, most: int) -> int:
        """Count a failure, and return how many there are; as many as may be suspend.

        It is durable then. A process that dies before has failed as well. What has no attempt,
        or has ended it, begins one that fails, until there are as many as may be.
        """
        attempt = receipt.attempt
        with self._writing() as store:
            failed = store.attempts.failures(analyst)
            if attempt is None and failed < most:
                attempt = store.attempts.begin(analyst, timedelta())
            if attempt is not None:
                failed = store.attempts.fail(attempt)
            if failed >= most and analyst not in self._orders().suspended:
                self._append(Suspend(analyst, failed))
        return failed

    def failures(self, analyst: str) -> int:
        """Return how many statements of an analyst count as failed."""
        with self._reading() as store:
            return store.attempts.failures(analyst)

    @contextmanager
    def _reading(self) -> Iterator[Store]:
        with faults(self._store.path):
            yield self._store

    @contextmanager
    def _writing(self) -> Iterator[Store]:
        with faults(self._store.path), self._store.writing():
            yield self._store

    def _counting(self, orders: Orders) -> Counting:
        """Return how charges on parts add up, which the first charge promises."""
        return (orders if self._promise is None else orders.plus(self._promise)).counting

    def _promised(self, orders: Orders) -> Orders:
        """Add what the policy promises, unless its losses cannot be added to the ledger's."""
        if self._promise is None:
            return orders
        broken = orders.broken_by(self._promise)
        if broken is not None:
            raise another_promise(self._store.path, broken)
        return orders.plus(self._promise)

    def _append(self, order: Order) -> None:
        """Add an order; within `Store.writing`."""
        store = self._store
        store.append(OWNER, Wording.ordered(encode_order(order)), store.totals(OWNER))

    def _orders(self) -> Orders:
        """Read the orders that came after those known; of these none is taken back."""
        sequence, known = self._known
        newer = self._store.records("session = '' AND sequence > ?", sequence)
        return reduce(Orders.plus, (decode_order(record.events) for record in newer), known)

    def freeze(self) -> bool:
        """Refuse every charge from here on; say whether that is new."""
        with self._writing():
            new = not self._orders().frozen
            if new:
                self._append(Freeze())
        return new

    def thaw(self, analyst: str | None = None) -> bool:
        """Make charges again, of all or of one who was suspended; say whether that is new.

        Failures of before are forgiven, and what is under way can still fail.
        """
        with self._writing() as store:
            orders, attempts = self._orders(), store.attempts
            names = attempts.analysts() if analyst is None else [analyst]
            forgiven = [attempts.forgive(name) for name in names]
            new = any(forgiven) or orders.plus(Thaw(analyst)) != orders
            if new:
                self._append(Thaw(analyst))
        return new

    def grant(self, analyst: str, loss: Loss, ceilings: Ceilings) -> Loss:
        """Raise by so much what an analyst may spend, and give their limit as it is then.

        Raises:
            PolicyInvalid: DPQ610, it would not count, or be more than the policy's total.
        """
        return self._grant(lambda _: Grant(analyst, loss), ceilings)

    def grant_up_to(
        self, analyst: str, epsilon: Fraction, delta: Fraction | None, ceilings: Ceilings
    ) -> Loss:
        """Raise to so much what an analyst may spend; a delta that is not stated stays."""
        return self._grant(
            lambda orders: grant_up_to(analyst, epsilon, delta, orders, ceilings), ceilings
        )

    def _grant(self, made: Callable[[Orders], Grant], ceilings: Ceilings) -> Loss:
        with self._writing():
            orders = self._orders()
            order = made(orders)
            own = require_grant(order, orders, ceilings)
            self._append(order)
        return own

    def orders(self) -> Orders:
        """Return what stands after all orders."""
        with self._reading():
            return self._orders()

    def publish(self) -> int:
        """Begin another version of the data, and give its number; it is durable then."""
        with self._writing():
            self._append(Publish())
            return self._orders().version

    def store_bounds(
        self, receipt: Receipt, account: Account, key: str, bounds: Interval
    ) -> None:
        """Store bounds that a receipt's charge paid for, for later calls of the analyst."""
        with self._writing() as store:
            ends = str(bounds.low), str(bounds.high)
            store.bounds.append([(receipt.id, account.analyst, key, *ends)])

    def bounds(self, account: Account, key: str) -> Interval | None:
        """Return the newest bounds that the charges of an analyst paid for, under a key."""
        with self._reading() as store:
            row = store.bounds.newest(analyst=account.analyst, key=key)
            return None if row is None else Interval(*map(Fraction, row[-2:]))

    def store(
        self,
        receipt: Receipt,
        holder: Holder,
        drawn: Mapping[str, str],
        refinable: Sequence[Refinable] = (),
    ) -> None:
        """Store what a receipt's charge paid for, to be given again free, or to be refined.

        Its attempt ends with that: nothing private is read any more.
        """
        if not drawn and receipt.attempt is None:
            return
        with self._writing() as store:
            whose = receipt.id, holder.analyst, holder.rights, int(holder.shared)
            store.answers.append((*whose, key, text) for key, text in drawn.items())
            store.earlier.add(receipt.id, holder, refinable)
            if receipt.attempt is not None:
                store.attempts.close(receipt.attempt, "answered")
        receipt.attempt = None

    def stored(self, holder: Holder, key: str) -> str | None:
        """Return what was drawn last under a key, where the holder may see it."""
        with self._reading() as store:
            asked = key, holder.analyst, holder.rights, int(holder.shared)
            rows = store.answers.found(VISIBLE, asked)
            return str(rows[0][-1]) if rows else None

    def earlier(self, holder: Holder, question: str) -> list[EarlierRelease]:
        """Return what a holder was released of a question, and was not refined so far."""
        with self._reading() as store:
            return store.earlier.left(holder, question)

    def first_state(self, version: int, place: str, make: Callable[[], str]) -> str:
        """Return what stood at a place when it was first read under a version of the data.

        Where that is now, what is made is durable by the time it is given.
        """
        with self._reading() as store:
            found = store.states.newest(place=place, version=version)
            if found is None:
                state = make()
                with store.writing():
                    found = store.states.newest(place=place, version=version)
                    if found is None:
                        store.states.append([(version, place, state)])
        return state if found is None else str(found[-1])

    def known_state(self, place: str) -> tuple[int, str | None]:
        """Return the version of the data, and what was first read at a place under it."""
        with self._reading() as store:
            version = self._orders().version
            found = store.states.newest(place=place, version=version)
            return version, None if found is None else str(found[-1])

    def is_proven(self, claim: str) -> bool:
        """Return whether a claim about a state of files was found to hold."""
        with self._reading() as store:
            return store.states.newest(place=claim, version=ANY) is not None

    def prove(self, claim: str) -> None:
        """Remember that it holds, of these files whatever version of the data they are."""
        with self._writing() as store:
            if store.states.newest(place=claim, version=ANY) is None:
                store.states.append([(ANY, claim, "")])

    def standing(
        self, ceilings: Ceilings, account: Account, touched: Touched | None = EVERYBODY
    ) -> Standing:
        """Return the limit with the least left, as all processes together have left it.

        That is for a charge on some parts of the units, or on all of them.
        """
        with self._reading() as store:
            orders = self._orders()
            raised, counting = orders.raised(ceilings, account.analyst), self._counting(orders)
            standing = binding(raised, store.totals(account), counting, touched)
            failed = orders.suspended.get(account.analyst)
            by = f"after {failed} failures" if failed else ""
            return replace(standing, frozen="by the data owner" if orders.frozen else by)

    def entries(self, analyst: str) -> list[Entry]:
        """Return one analyst's charges, oldest first."""
        with self._reading() as store:
            own = store.records("analyst = ? AND session <> ''", analyst)
            return [record.entry() for record in own]

    def history(self) -> list[Record]:
        """Return everybody's charges and the orders, oldest first: for the data owner."""
        with self._reading() as store:
            return list(store.records())

    def verify(self) -> int:
        """Replay the whole ledger and give the number of its charges.

        Raises:
            PolicyInvalid: a row was changed, moved or removed, or a total is not the sum of
                its charges. Whoever rewrites all later hashes too, or takes away the newest
                rows, is found by the high-water mark only.
        """
        with self._reading() as store:
            store.database.require_whole()
            store.require_not_rolled_back()
            with store.database.snapshot():  # others may charge meanwhile
                charges = self._replay()
                self._replay_released()
            return charges

    def _replay(self) -> int:
        store, orders = self._store, Orders()
        scopes: defaultdict[tuple[str, str], Total] = defaultdict(Total)
        for record in store.whole_records():
            keys = ("policy", ""), ("analyst", record.analyst), ("session", record.session)
            if record.is_order:
                order = decode_order(record.events)
                # One that could not have been given was written by somebody else.
                sound = not (isinstance(order, Promise) and orders.broken_by(order))
                orders = orders.plus(order)
            else:
                sound = not orders.frozen and record.analyst not in orders.suspended
                spent, on = store.accountant(record.charged()), record.touched()
                for key in keys:
                    scopes[key] = scopes[key].plus(spent, orders.counting, on)
            expected = Totals(*(scopes[key] for key in keys))
            if not sound or Totals.read(record.totals) != expected:
                raise refused(store.path, *DAMAGED)
        return scopes["policy", ""].charges

    def _replay_released(self) -> None:
        """Check bounds, answers and states: the former were paid for by their analysts."""
        store, charges = self._store, list(self._store.records("session <> ''"))
        paid = {record.id: record.analyst for record in charges}
        refining = Counter(
            record.id
            for record in charges
            for event in record.charged()
            if isinstance(event, Refined)
        )
        rest = (
            store.bounds.paid_for(paid),
            store.answers.paid_for(paid),
            store.earlier.untouched(paid, refining),
            all(store.states.rows()),  # nobody pays for these: to read them is to check
            all(store.attempts.chain.rows()),
        )
        if not all(rest):
            raise refused(store.path, *DAMAGED)

    def backup(self, file: Path) -> None:
        """Write a copy that holds every charge of before; sessions charge meanwhile.

        Raises:
            PolicyInvalid: DPQ605 a server's programs do that, DPQ606 it cannot be written.
        """
        with faults(file):
            self._store.database.copy_to(file)

    def close(self) -> None:
        """Close the file; idempotent."""
        self._store.close()
