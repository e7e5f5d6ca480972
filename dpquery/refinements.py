"""What was asked before for a smaller epsilon or rho pays the difference.

That is each count or sum of a statement that was released before for less, to the same analyst,
within the version of the data; the other releases of the statement are paid in full.

* Where epsilons are added up, discrete Laplace noise gives way to less of it: what is drawn
  takes the place of the earlier value, which is used up, and both together lose what the later
  one does alone.
* Under a budget in rho, one more draw with Gaussian noise is averaged with the earlier ones. It
  loses what it would by itself, so that nothing is used up.

As with what is repeated, no file is looked at to find this out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.budget.accountant import additive, basic
from dpquery.budget.answers import Holder
from dpquery.budget.charge import Charge
from dpquery.budget.earlier import EarlierRelease
from dpquery.constants import constants_in
from dpquery.events import Event
from dpquery.functions.base import Release
from dpquery.functions.noise import AdditiveRelease
from dpquery.functions.refined import in_place_of, paid_before
from dpquery.ir import Scan
from dpquery.mechanisms import DiscreteLaplace
from dpquery.plan import FrontierPlan, Plan, dearest_of
from dpquery.policy.model import Policy
from dpquery.privacy import decimal_text
from dpquery.stored import Keys, read

if TYPE_CHECKING:
    from dpquery.budget.ledger import Ledger
    from dpquery.engine.duckdb.public import PublicEngine

__all__ = ["Refinements"]


@dataclass(frozen=True, slots=True)
class Refinements:
    """What is needed to find earlier releases."""

    policy: Policy
    ledger: Ledger
    holder: Holder
    version: int
    public: PublicEngine

    def of(self, plan: Plan) -> Plan:
        """Give a plan that refines those of its releases that can be."""
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
        """Say whether what loses this may be refined.

        What one query may spend is held against what it tells, which is more than it pays.
        """
        cap = self.policy.budget.max_epsilon_per_query
        return bool(events) and (cap is None or basic(events).epsilon <= cap)

    def _earlier(
        self, scan: Scan, release: Release, keys: Keys, used: Sequence[EarlierRelease]
    ) -> EarlierRelease | None:
        """Give the earlier release that has lost most, of those that lost less; or None."""
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
