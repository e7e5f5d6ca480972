"""A statement whose releases were all drawn before is answered from them, at no charge.

Whether it is, depends on the statement, the policy, the published version of the data and the
ledger: no file is looked at. Where one release is missing, none is repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpquery.budget.answers import Holder
from dpquery.budget.charge import Account
from dpquery.budget.orders import Orders
from dpquery.errors import QueryRefused, internal
from dpquery.functions.base import NoisyCell, Release
from dpquery.functions.search import FoundCell
from dpquery.ir import Scalar, Scan
from dpquery.narrowing import with_bounds
from dpquery.paid import ready
from dpquery.plan import Plan
from dpquery.policy.model import Policy
from dpquery.refinements import Refinements
from dpquery.release import ReleasedColumn, ReleasedTable
from dpquery.searches import Search
from dpquery.stored import NOTHING, Keys, Values, read
from dpquery.types import Interval

if TYPE_CHECKING:
    from dpquery.budget.ledger import Ledger
    from dpquery.engine.duckdb.public import PublicEngine

__all__ = ["REPEATED", "Repeats", "holder_of", "repeats_of"]

REPEATED = "already answered: costs nothing; REFRESH SELECT asks anew and pays"


def holder_of(policy: Policy, account: Account, orders: Orders) -> Holder:
    """Say whose answers an analyst may see again, as policy and orders stand.

    Who has other limits than when an answer was paid for, pays for it again. Where no version
    of the data is ever published, answers are for the session that paid.
    """
    budget, analyst = policy.budget, account.analyst
    own = policy.analysts.get(analyst, budget.ceiling)
    granted, within = orders.granted.get(analyst), "" if policy.published else account.session
    rights = repr((own, budget.max_epsilon_per_query, granted, within))
    return Holder(analyst, rights, budget.shared_answers)


def repeats_of(
    policy: Policy, ledger: Ledger, account: Account, public: PublicEngine
) -> Repeats:
    """Give what an analyst may be answered from, as the ledger stands."""
    orders = ledger.orders()
    return Repeats(policy, ledger, holder_of(policy, account, orders), orders.version, public)


class _Missing(Exception):
    """A release was not drawn before."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """What is needed to answer from what was stored."""

    policy: Policy
    ledger: Ledger
    holder: Holder
    """Who asks."""
    version: int
    """Of the data."""
    public: PublicEngine

    def asked(
        self, plan: Plan, without_kept: Callable[[], Plan]
    ) -> tuple[Plan, list[ReleasedTable] | None]:
        """Give a plan, and its tables if all of them were drawn before.

        If they were with more noise, it is a plan that refines them.

        Bounds that are kept now were not yet when the query was first asked: it had found them
        itself, and that too was stored.
        """
        again = self.of(plan)
        if again is None and plan.kept:
            with suppress(QueryRefused):  # then it was never asked without them
                again = self.of(without_kept())
        return again or (self._refined(plan), None)

    def _refined(self, plan: Plan) -> Plan:
        found = Refinements(self.policy, self.ledger, self.holder, self.version, self.public)
        return found.of(plan)

    def of(self, plan: Plan) -> tuple[Plan, list[ReleasedTable]] | None:
        """Give the tables of a plan, and the plan with its bounds; None where one is missing.

        A plan that charges nothing has nothing to be repeated.
        """
        if not plan.charge.events:
            return None
        keys = Keys(self.policy, self.version, self.public.digest)
        try:
            plan = self._bounded(plan, keys)
            return replace(plan, notes=(*plan.notes, REPEATED)), self._tables(plan, keys)
        except _Missing:
            return None

    def _bounded(self, plan: Plan, keys: Keys) -> Plan:
        """Put in the bounds that were found for it when it was paid."""
        if not plan.searches:
            return plan
        found = [self._found(search, keys) for search in plan.searches]
        return with_bounds(plan, found, self.policy)

    def _found(self, search: Search, keys: Keys) -> Interval | None:
        (cell,) = self._cells(search.scan, search.release, keys)
        if not isinstance(cell, FoundCell):
            raise internal("bounds are found by a release of bounds")
        return cell.value

    def _tables(self, plan: Plan, keys: Keys) -> list[ReleasedTable]:
        found: list[ReleasedTable] = []
        values: dict[int, Scalar | None] = {}
        for frontier in plan.frontiers:
            scan = ready(plan, frontier.scan, found, values, self.public)
            columns = tuple(
                ReleasedColumn(
                    one.column, one.release.type, self._cells(scan, one.release, keys, values)
                )
                for one in frontier.releases
            )
            found.append(ReleasedTable(scan.keys, columns))
        return found

    def _cells(
        self, scan: Scan, release: Release, keys: Keys, values: Values = NOTHING
    ) -> list[NoisyCell]:
        text = self.ledger.stored(self.holder, keys.of(scan, release, values))
        if text is None:
            raise _Missing
        return read(text, release)
