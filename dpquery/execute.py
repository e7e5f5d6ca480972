"""From a charge to released tables: each scan is read and drawn from, in the order of the plan.

What an earlier release says is put into what is read later: bounds that were searched for,
groups that were found, and values that rows are compared with.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NoReturn, TypeVar

from dpquery.budget.accountant import basic
from dpquery.budget.ledger.charge_and_receipt import Account, Ceilings, Charge, Receipt
from dpquery.budget.ledger.ledger import Ledger
from dpquery.budget.limits import Standing
from dpquery.budget.parallel_composition import EVERYBODY, Touched
from dpquery.budget.refusals import more_of
from dpquery.cache.lookup import TOO_LONG, Drawn, Lookup
from dpquery.core.interrupts import was_stopped
from dpquery.core.privacy_loss import decimal_text
from dpquery.core.source_text import Source
from dpquery.core.types import Interval
from dpquery.engine.base import Engine, FaultLog
from dpquery.errors import BudgetRefused, Diagnostic, DPQueryError, QueryRefused, ScanFailed
from dpquery.finish import ready
from dpquery.ir.expr import Scalar
from dpquery.mechanisms.randomness import Randomness
from dpquery.plan.plan import Plan, with_bounds
from dpquery.policy.model import Policy
from dpquery.release import ReleasedTable, added_up, find_bounds, release, shown
from dpquery.sql.suggest.sample_queries import with_own_price, within_delta

E = TypeVar("E", bound=DPQueryError)


def execute(
    lookup: Lookup, receipt: Receipt, engine: Engine, randomness: Randomness
) -> tuple[Plan, list[ReleasedTable]]:
    """Return every table of a plan, and the plan with the bounds that were found for it.

    All that was drawn is stored by then, and the attempt has ended. Nothing is read or drawn
    where all of it was before.
    """
    if lookup.tables is not None:
        return lookup.plan, lookup.tables
    drawn = lookup.drawn(receipt)
    plan = _bounded(lookup, drawn, engine, randomness)
    tables: list[ReleasedTable] = []
    values: dict[int, Scalar | None] = {}
    whole: dict[int, ReleasedTable] = {}
    for number, frontier in enumerate(plan.frontiers):
        if frontier.added is not None:
            tables.append(added_up(frontier, whole[frontier.added]))
            continue
        scan = ready(plan, frontier.scan, tables, values, lookup.cache.public)
        if frontier.releases:
            with engine.open(scan, receipt, number) as exact:
                table = release(plan, number, scan.keys, exact, receipt, randomness)
        else:  # groups that were found, and nothing about them
            table = ReleasedTable(scan.keys, ())
        drawn.table(frontier, scan, table, values)
        whole[number] = table
        tables.append(shown(frontier, table))
    return (plan if drawn.store() else plan.with_(note=TOO_LONG)), tables


def _bounded(lookup: Lookup, drawn: Drawn, engine: Engine, randomness: Randomness) -> Plan:
    """Find the bounds that calls have none of, and keep them before they are used."""
    plan, receipt = lookup.plan, drawn.receipt
    if not plan.searches:
        return plan
    found: list[Interval | None] = []
    for number, search in enumerate(plan.searches, start=len(plan.frontiers)):
        with engine.open(search.scan, receipt, number) as exact:
            cell = find_bounds(plan, number, exact, receipt, randomness)
        drawn.bounds(search, cell)
        found.append(cell.value)
    return with_bounds(plan, found, lookup.cache.policy)


@dataclass(frozen=True, slots=True)
class Payer:
    """The analyst of one session: what they may spend, and what has become of it."""

    policy: Policy
    ledger: Ledger
    account: Account
    limits: Ceilings
    log: FaultLog
    """Where the owner reads what went wrong."""

    def standing(self, touched: Touched | None = EVERYBODY) -> Standing:
        """Return the limit with the least left, for a charge on some parts or on everybody."""
        return self.ledger.standing(self.limits, self.account, touched)

    def failures(self) -> int:
        """Return how many statements count as failed."""
        return self.ledger.failures(self.account.analyst)

    def balance(self) -> str:
        """Return what is left of the binding limit, in words."""
        standing = self.standing()
        left, limit = standing.left.epsilon, standing.limit.epsilon
        return f"{decimal_text(left)} of {decimal_text(limit)} left"

    def left(self) -> str:
        """Return what is left after a fault, even where the ledger cannot be read either."""
        kept = "(a charge is never returned once reading has begun)"
        try:
            return f"{self.balance()} {kept}"
        except DPQueryError:
            return kept

    def told(self, refusal: E, source: Source) -> E:
        """Add to a refusal the text it points into, and the balance."""
        refusal.source = refusal.source or source
        if isinstance(refusal, QueryRefused) and not isinstance(refusal, BudgetRefused):
            priced = with_own_price(refusal.diagnostic, refusal.source.text)
            refusal.diagnostic = self._affordable(priced)
        if not self.policy.published:
            refusal.diagnostic = refusal.diagnostic.for_own_files()
        refusal.budget = f"unchanged; {self.balance()}"
        return refusal

    def _affordable(self, diagnostic: Diagnostic) -> Diagnostic:
        """Leave out what needs a delta that no limit has."""
        limits = self.ledger.orders().raised(self.limits, self.account.analyst)
        ceilings = {
            "policy": limits.policy,
            "analyst": limits.analyst or limits.policy,
            "session": limits.session or limits.policy,
        }
        name = min(ceilings, key=lambda name: ceilings[name].drawn)
        own, more = not self.policy.published, more_of(name, "delta")
        return within_delta(diagnostic, ceilings[name].drawn, more, own=own)

    def ended(self, receipt: Receipt, *, failed: bool) -> tuple[str, ...]:
        """Have the ledger know how a statement ended without an answer, and tell of it.

        Where that cannot be written, the attempt stays open, and counts when its time is over.
        """
        most = self.policy.limits.max_failures
        try:
            if not failed:
                self.ledger.close_attempt(receipt, "stopped")
                return ()
            number = self.ledger.fail(receipt, self.account.analyst, most)
            counted = f"failures are counted: this is number {number} of"
        except Exception:  # noqa: BLE001 - whatever it is, the attempt stays open and counts
            number, counted = 0, "failures are counted, and there may be"
        then = "" if number >= most else "then "
        if self.policy.published:
            until = "until the data owner thaws the budget."
        elif self.policy.ledger.path or self.policy.ledger.server:
            until = "until you thaw the ledger."
        else:
            until = "in this session."
        return (
            f"{counted} {most} within 24 hours;",
            f"{then}nothing more is read for you {until}",
        )


@dataclass(slots=True)
class Charged:
    """Charges as it is entered; whatever goes wrong from there on says that the charge stays.

    The frames of what goes wrong hold exact integers, so nobody who walks a traceback may see
    them, be it of a fault, of a lack of memory, or of what a signal raises.
    """

    payer: Payer
    charge: Charge
    source: Source
    """What it is for."""
    _receipt: Receipt | None = field(default=None, init=False)

    def __enter__(self) -> Receipt:
        payer = self.payer
        try:
            self._receipt = payer.ledger.charge(self.charge, payer.limits, payer.account)
        except QueryRefused as refusal:
            raise payer.told(refusal, self.source) from None
        except KeyboardInterrupt as stop:  # a charge that was being written may stand or not
            _strip(stop)
            stop.args = ("stopped while charging; SHOW LEDGER says whether it was spent",)
            raise
        return self._receipt

    def __exit__(self, _: object, fault: BaseException | None, __: object) -> None:
        if fault is None and was_stopped():  # something has dropped it
            fault = KeyboardInterrupt()
        if fault is not None and self._receipt is not None:
            self._end(fault, self._receipt)

    def _end(self, fault: BaseException, receipt: Receipt) -> NoReturn:
        """Raise a fault again, or the one constant failure in its place, without its frames."""
        _strip(fault)  # first of all: what goes wrong from here on would have it as its context
        if was_stopped(fault):
            fault = KeyboardInterrupt()
        if isinstance(fault, Exception) and not isinstance(fault, DPQueryError):
            reference = self.payer.log.note(fault)
            fault.args = ()  # its text can quote rows
            fault = ScanFailed(self.payer.log.failure(reference))
        # They choose the moment of an interrupt: it tells them how long it took, and no more.
        told = self.payer.ended(receipt, failed=not isinstance(fault, KeyboardInterrupt))
        spent = f"{basic(self.charge.events)} spent; "
        if isinstance(fault, DPQueryError):
            fault.diagnostic = replace(fault.diagnostic, why=(*fault.diagnostic.why, *told))
            fault.budget = spent + self.payer.left()
        elif isinstance(fault, KeyboardInterrupt):
            fault.args = (f"stopped; {spent}{self.payer.left()}",)
        try:
            raise fault.with_traceback(None)
        except BaseException as last:
            last.__context__ = None  # Python puts there what is being handled
            raise


def _strip(error: BaseException) -> None:
    """Take the frames off an error, and all that it came from."""
    error.__context__ = error.__cause__ = None
    error.__traceback__ = None
