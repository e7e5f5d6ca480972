"""A statement whose releases were all drawn before is answered from them, at no charge.

Whether it is, depends on the statement, the policy, the published version of the data and the
ledger: no file is looked at. Where one release is missing, none is repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.budget.accountant import additive, basic
from dpquery.budget.ledger.admin import Orders
from dpquery.budget.ledger.charge import Account, Charge
from dpquery.budget.ledger.tables import EarlierRelease, Holder
from dpquery.cache.codec import NOTHING, Keys, Values, read
from dpquery.core.events import Event
from dpquery.core.identity import identity
from dpquery.core.privacy import decimal_text
from dpquery.core.types import Interval
from dpquery.errors import QueryRefused, internal
from dpquery.finish import ready
from dpquery.functions.additive import AdditiveRelease, in_place_of, paid_before
from dpquery.functions.base import NoisyCell, Release
from dpquery.functions.search import FoundCell
from dpquery.ir.expr import Scalar
from dpquery.ir.query import Scan
from dpquery.ir.walk import constants_in
from dpquery.mechanisms import DiscreteLaplace
from dpquery.plan.auto_bounds import Search
from dpquery.plan.plan import FrontierPlan, Plan, dearest_of, with_bounds
from dpquery.policy.model import Policy
from dpquery.release import ReleasedColumn, ReleasedTable

if TYPE_CHECKING:
    from dpquery.budget.ledger.ledger import Ledger
    from dpquery.engine.duckdb.postprocessor import PublicEngine


# What was asked before for a smaller epsilon or rho pays the difference.
#
# That is each count or sum of a statement that was released before for less, to the same
# analyst, within the version of the data; the other releases of the statement are paid in
# full.
#
# * Where epsilons are added up, discrete Laplace noise gives way to less of it: what is drawn
#   takes the place of the earlier value, which is used up, and both together lose what the
# later
#   one does alone.
# * Under a budget in rho, one more draw with Gaussian noise is averaged with the earlier
# ones. It
#   loses what it would by itself, so that nothing is used up.
#
# As with what is repeated, no file is looked at to find this out.


@dataclass(frozen=True, slots=True)
class Refinements:
    """What is needed to find earlier releases."""

    policy: Policy
    ledger: Ledger
    holder: Holder
    version: int
    public: PublicEngine

    def of(self, plan: Plan) -> Plan:
        """Return a plan that refines those of its releases that can be."""
        if plan.searches or not self._may_be(plan.charge.events):
            return plan
        keys = Keys(self.policy, self.version, self.public.digest)
        used: list[EarlierRelease] = []
        frontiers = tuple(self._refined(frontier, keys, used) for frontier in plan.frontiers)
        return self._plan(plan, frontiers, tuple(used)) if used else plan

    def _refined(
        self, frontier: FrontierPlan, keys: Keys, used: list[EarlierRelease]
    ) -> FrontierPlan:
        """Put in what refines earlier releases, and note these: each can be used up once."""

        def bettered(release: Release) -> Release:
            kept = self._earlier(frontier.scan, release, keys, used)
            if kept is None:
                return release
            used.append(kept)
            assert isinstance(release, AdditiveRelease)  # noqa: S101 - it has a rate
            return in_place_of(release, kept.rate, read(kept.drawn, release))

        releases = (replace(one, release=bettered(one.release)) for one in frontier.releases)
        return replace(frontier, releases=tuple(releases))

    def _may_be(self, events: Sequence[Event]) -> bool:
        """Return whether what loses this may be refined.

        What one query may spend is held against what it tells, which is more than it pays.
        """
        cap = self.policy.budget.max_epsilon_per_query
        return bool(events) and (cap is None or basic(events).epsilon <= cap)

    def _earlier(
        self, scan: Scan, release: Release, keys: Keys, used: Sequence[EarlierRelease]
    ) -> EarlierRelease | None:
        """Return the earlier release that has lost most, of those that lost less; or None."""
        rate = keys.rate(scan, release)
        waits = any(key.finding for key in scan.keys) or any(constants_in((scan, release)))
        if rate is None or waits or not isinstance(release, AdditiveRelease):
            return None
        if isinstance(release.noise, DiscreteLaplace) is not self._summed:
            return None  # the rho of a refinement is that of the later value, and not less
        taken = {kept.number for kept in used}
        left = self.ledger.earlier(self.holder, keys.question(scan, release))
        less = [kept for kept in left if kept.rate < rate and kept.number not in taken]
        if not less:
            return None
        kept = max(less, key=lambda one: (one.rate, one.number))  # the newest of equals
        # In older ledgers stand the states of a whole statement, and not of this scan alone.
        drawn_from = {place: kept.read.get(place) for place in keys.places(scan)}
        return replace(kept, read=drawn_from)

    @property
    def _summed(self) -> bool:
        return self.policy.budget.ceiling.summed

    def _plan(
        self, plan: Plan, frontiers: tuple[FrontierPlan, ...], used: tuple[EarlierRelease, ...]
    ) -> Plan:
        releases = [one.release for part in frontiers for one in part.releases]
        events = tuple(release.event() for release in releases)
        calls = [one.call for part in frontiers for one in part.releases]
        span, retry = dearest_of(calls, events, plan.source.text)
        charge = replace(
            plan.charge,
            events=events,
            span=span,
            retry=retry,
            before=tuple(map(paid_before, releases)),
            refines=used if self._summed else (),
            version=self.version,
        )
        note = _note(charge, plan.charge)
        return replace(plan, frontiers=frontiers, charge=charge, notes=(*plan.notes, note))


def _note(charge: Charge, whole: Charge) -> str:
    paid, asked = (decimal_text(_written(one.events)) for one in (charge, whole))
    return f"refines an earlier answer: pays {paid} of {asked}"


def _written(events: Sequence[Event]) -> Fraction:
    spent = additive(events)
    return spent.loss.epsilon if spent.summed else spent.rho


REPEATED = "already answered: costs nothing; REFRESH SELECT asks anew and pays"


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


def repeats_of(
    policy: Policy, ledger: Ledger, account: Account, public: PublicEngine
) -> Repeats:
    """Return what an analyst may be answered from, as the ledger stands."""
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
        """Return a plan, and its tables if all of them were drawn before.

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
        """Return the tables of a plan, and the plan with its bounds; None where one is missing.

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
