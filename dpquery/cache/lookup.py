"""The look-up: what an analyst was released before, and need not pay for again.

A statement whose releases were all drawn before is answered from them, at no charge; bounds
that were found before are used again; and a release of less noise pays the difference to one of
more. Which of these it is depends on the statement, the policy, the published version of the
data and the ledger: no file is looked at. Where one release is missing, none is repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from dpquery.budget.ledger.charge_and_receipt import Account, Charge, Receipt
from dpquery.budget.ledger.earlier_releases import Holder, Refinable
from dpquery.budget.ledger.owner_orders import Orders
from dpquery.cache.refine import Refiner
from dpquery.cache.release_codec import decode_cells, encode_cells
from dpquery.cache.release_keys import NOTHING, Keys, Values
from dpquery.core.identity_text import identity
from dpquery.core.types import Interval
from dpquery.finish import ready
from dpquery.functions.base import NoisyCell, Release
from dpquery.ir.expr import Scalar
from dpquery.ir.query import Scan
from dpquery.plan.auto_bounds import Search
from dpquery.plan.plan import FrontierPlan, Plan, with_bounds, with_kept
from dpquery.policy.model import Policy
from dpquery.release import ReleasedColumn, ReleasedTable, added_up, shown

if TYPE_CHECKING:
    from dpquery.budget.ledger.ledger import Ledger
    from dpquery.engine.duckdb.public_engine import PublicEngine

REPEATED = "already answered: costs nothing; REFRESH SELECT asks anew and pays"
MOST_STORED = 256 * 1024
"""Characters of released values that one charge adds to a ledger."""
TOO_LONG = "this answer is too long to be kept: asked again, it is charged again"


@dataclass(frozen=True, slots=True)
class Cache:
    """What one analyst was released before, as a ledger has it."""

    policy: Policy
    ledger: Ledger
    account: Account
    public: PublicEngine

    def look_up(self, plan: Plan, *, anew: bool = False) -> Lookup:
        """Return what an analyst need not pay for of a plan; nothing, where it is asked anew.

        Bounds that are stored now were not when the query was first asked: it had found them
        itself, and that too was stored.
        """
        orders = self.ledger.orders()
        holder = holder_of(self.policy, self.account, orders)
        first = Lookup(self, plan, holder, self.keys(orders.version), anew=anew)
        if anew:
            return first
        bounded = self.bounded(plan)
        if bounded is not plan:
            found = Lookup(self, bounded, holder, self.keys(orders.version))
            again = found.repeated() or first.repeated()
            return again or found.refined()
        return first.repeated() or first.refined()

    def bounded(self, plan: Plan) -> Plan:
        """Return a plan between the bounds that this analyst has paid for, where there are."""
        found = {one.key: self.ledger.bounds(self.account, one.key) for one in plan.searches}
        kept = {key: bounds for key, bounds in found.items() if bounds is not None}
        return with_kept(plan, kept, self.policy) if kept else plan

    def keys(self, version: int) -> Keys:
        """Return what names the releases of one statement, under a version of the data."""
        return Keys(self.policy, version, self.public.digest)


def holder_of(policy: Policy, account: Account, orders: Orders) -> Holder:
    """Say whose answers an analyst may see again, as policy and orders stand.

    Who has other limits than when an answer was paid for, pays for it again. Where no version
    of the data is ever published, answers are for the session that paid.
    """
    budget, analyst = policy.budget, account.analyst
    own = policy.analysts.get(analyst, budget.ceiling)
    granted, within = orders.granted.get(analyst), "" if policy.published else account.session
    rights = identity((own, budget.max_epsilon_per_query, granted, within))
    return Holder(analyst, rights, budget.shared_answers)


class _Missing(Exception):
    """A release was not drawn before."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """What was found of one statement: its plan, and its tables if all were drawn before."""

    cache: Cache
    plan: Plan
    holder: Holder
    """Who asks."""
    keys: Keys
    tables: list[ReleasedTable] | None = None
    anew: bool = False

    @property
    def charge(self) -> Charge:
        """What is still to be paid."""
        whole = self.plan.charge
        return whole if self.tables is None else replace(whole, events=(), scans=())

    def drawn(self, receipt: Receipt) -> Drawn:
        """Return what takes down what is drawn for a receipt.

        Another version of the data may have been published since the look-up.
        """
        same = receipt.version == self.keys.version
        keys = self.keys if same else self.cache.keys(receipt.version)
        return Drawn(self, receipt, keys)

    def refined(self) -> Lookup:
        """Return it with a plan that pays the difference to earlier releases, where it can."""
        return replace(self, plan=self.refiner(self.keys).refined(self.plan))

    def repeated(self) -> Lookup | None:
        """Return it with the tables of its plan; None where one is missing.

        A plan that charges nothing has nothing to be repeated.
        """
        if not self.plan.charge.events:
            return None
        try:
            plan = self._bounded()
            tables = self._tables(plan)
        except _Missing:
            return None
        return replace(self, plan=plan.with_(note=REPEATED), tables=tables)

    def refiner(self, keys: Keys) -> Refiner:
        """Return what finds and keeps the releases that can be refined."""
        return Refiner(self.cache.policy, self.cache.ledger, self.holder, keys)

    def _bounded(self) -> Plan:
        """Put in the bounds that were found for it when it was paid."""
        plan = self.plan
        if not plan.searches:
            return plan
        found = [self._found(search) for search in plan.searches]
        return with_bounds(plan, found, self.cache.policy)

    def _found(self, search: Search) -> Interval | None:
        (cell,) = self._cells(search.scan, search.release)
        return search.release.value(cell.drawn)

    def _tables(self, plan: Plan) -> list[ReleasedTable]:
        found: list[ReleasedTable] = []
        values: dict[int, Scalar | None] = {}
        whole: dict[int, ReleasedTable] = {}
        for number, frontier in enumerate(plan.frontiers):
            if frontier.added is not None:
                found.append(added_up(frontier, whole[frontier.added]))
                continue
            scan = ready(plan, frontier.scan, found, values, self.cache.public)
            columns = tuple(
                ReleasedColumn(
                    one.column, one.release.type, self._cells(scan, one.release, values)
                )
                for one in frontier.releases
            )
            whole[number] = ReleasedTable(scan.keys, columns)
            found.append(shown(frontier, whole[number]))
        return found

    def _cells(self, scan: Scan, release: Release, values: Values = NOTHING) -> list[NoisyCell]:
        key = self.keys.of(scan, release, values)
        text = self.cache.ledger.stored(self.holder, key)
        if text is None:
            raise _Missing
        return decode_cells(text, release)


@dataclass(slots=True)
class Drawn:
    """What is drawn for one receipt, until all of it is stored."""

    lookup: Lookup
    receipt: Receipt
    keys: Keys
    texts: dict[str, str] = field(default_factory=dict)
    refinable: list[Refinable] = field(default_factory=list)

    def bounds(self, search: Search, cell: NoisyCell) -> None:
        """Take down bounds that were found, and store them before they are used."""
        cache = self.lookup.cache
        if cell.value is not None:
            cache.ledger.store_bounds(self.receipt, cache.account, search.key, cell.value)
        self.texts[self.keys.of(search.scan, search.release)] = encode_cells([cell])

    def table(
        self, frontier: FrontierPlan, scan: Scan, table: ReleasedTable, values: Values
    ) -> None:
        """Take down what was drawn from a scan."""
        refiner = self.lookup.refiner(self.keys)
        for one, column in zip(frontier.releases, table.columns, strict=True):
            text = encode_cells(column.cells)
            self.texts[self.keys.of(scan, one.release, values)] = text
            found = refiner.refinable(scan, one.release, text, self.receipt.read, values)
            if found is not None:
                self.refinable.append(replace(found, anew=self.lookup.anew))

    def store(self) -> bool:
        """Store all, to be given again free and to be refined, and say whether it was.

        A ledger would else grow by megabytes for next to nothing, where it is too long. Either
        way the attempt has ended.
        """
        short = sum(map(len, self.texts.values())) <= MOST_STORED  # of what is released by now
        drawn, refinable = (self.texts, self.refinable) if short else ({}, [])
        self.lookup.cache.ledger.store(self.receipt, self.lookup.holder, drawn, refinable)
        return short
