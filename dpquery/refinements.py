"""A statement that was asked before for a smaller epsilon or rho pays the difference.

It does if each of its releases is a count or sum, and was released before for less, to the same
analyst, within the version of the data.

* Where epsilons are added up, discrete Laplace noise gives way to less of it: what is drawn
  takes the place of the earlier value, which is used up, and both together lose what the later
  one does alone.
* Under a budget in rho, one more draw with Gaussian noise is averaged with the earlier ones. It
  loses what it would by itself, so that nothing is used up.

As with what is repeated, no file is looked at to find this out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.budget.accountant import additive, basic
from dpquery.budget.answers import Holder
from dpquery.budget.charge import Charge
from dpquery.budget.earlier import EarlierRelease
from dpquery.constants import constants_in
from dpquery.events import Event
from dpquery.functions.averaged import AveragedRelease
from dpquery.functions.noise import AdditiveRelease
from dpquery.functions.refined import RefinedRelease, in_place_of
from dpquery.ir import Call, Scan
from dpquery.mechanisms import DiscreteLaplace
from dpquery.plan import FrontierPlan, Plan, PlannedRelease, dearest_of
from dpquery.policy.model import Policy
from dpquery.privacy import decimal_text
from dpquery.stored import Keys, read

if TYPE_CHECKING:
    from dpquery.budget.ledger import Ledger
    from dpquery.engine.duckdb.public import PublicEngine

__all__ = ["Refinements"]

Refining = RefinedRelease | AveragedRelease
Found = tuple[Call, tuple[EarlierRelease, Refining] | None]
_APART = (
    "paid in full: {} refines no earlier answer; asked by itself, {} can pay the difference"
)


@dataclass(frozen=True, slots=True)
class Refinements:
    """What is needed to find earlier releases."""

    policy: Policy
    ledger: Ledger
    holder: Holder
    version: int
    public: PublicEngine

    def of(self, plan: Plan) -> Plan:
        """Give a plan that refines all of its releases; as it is where one is paid in full."""
        if plan.searches or not self._may_be(plan.charge.events):
            return plan
        keys = Keys(self.policy, self.version, self.public.digest)
        found = [
            (one.call, self._found(frontier.scan, one, keys))
            for frontier in plan.frontiers
            for one in frontier.releases
        ]
        refined = [each for _, each in found if each is not None]
        used = tuple(kept for kept, _ in refined)
        if not used or len({kept.number for kept in used}) < len(used):
            return plan
        if len(used) < len(found):
            return _in_full(plan, found)
        return self._plan(plan, used, [release for _, release in refined])

    def _may_be(self, events: Sequence[Event]) -> bool:
        """Say whether what loses this may be refined.

        What one query may spend is held against what it tells, which is more than it pays.
        """
        cap = self.policy.budget.max_epsilon_per_query
        return bool(events) and (cap is None or basic(events).epsilon <= cap)

    def _found(
        self, scan: Scan, one: PlannedRelease, keys: Keys
    ) -> tuple[EarlierRelease, Refining] | None:
        """Give the earlier release that has lost most, of those that lost less; or None."""
        rate, release = keys.rate(scan, one.release), one.release
        waits = any(key.finding for key in scan.keys) or any(constants_in((scan, release)))
        if rate is None or waits:
            return None
        assert isinstance(release, AdditiveRelease)  # noqa: S101 - it has a rate
        if isinstance(release.noise, DiscreteLaplace) is not self._summed:
            return None  # the rho of a refinement is that of the later value, and not less
        left = self.ledger.earlier(self.holder, keys.question(scan, release))
        less = [kept for kept in left if kept.rate < rate]
        if not less:
            return None
        kept = max(less, key=lambda one: (one.rate, one.number))  # the newest of equals
        # In older ledgers stand the states of a whole statement, and not of this scan alone.
        drawn_from = {place: kept.read.get(place) for place in keys.places(scan)}
        kept = replace(kept, read=drawn_from)
        return kept, in_place_of(release, kept.rate, read(kept.drawn, release))

    @property
    def _summed(self) -> bool:
        return self.policy.budget.ceiling.summed

    def _plan(
        self, plan: Plan, used: tuple[EarlierRelease, ...], refined: Sequence[Refining]
    ) -> Plan:
        places = iter(refined)
        frontiers = tuple(_with(frontier, places) for frontier in plan.frontiers)
        events = tuple(one.release.event() for part in frontiers for one in part.releases)
        calls = [one.call for part in frontiers for one in part.releases]
        span, retry = dearest_of(calls, events, plan.source.text)
        charge = replace(
            plan.charge,
            events=events,
            span=span,
            retry=retry,
            before=tuple(release.paid for release in refined),
            refines=used if self._summed else (),
            version=self.version,
        )
        note = _note(charge, plan.charge)
        return replace(plan, frontiers=frontiers, charge=charge, notes=(*plan.notes, note))


def _in_full(plan: Plan, found: Sequence[Found]) -> Plan:
    """Say of a plan which call is why it is paid in full, and which one would pay less."""
    anew = next(_line(call) for call, refined in found if refined is None)
    apart, event = next((_line(call), one[1].event()) for call, one in found if one is not None)
    charge = replace(plan.charge, apart=(apart, event))
    return replace(plan, charge=charge, notes=(*plan.notes, _APART.format(anew, apart)))


def _line(call: Call) -> str:
    return " ".join(call.text.split())


def _with(frontier: FrontierPlan, refined: Iterator[Refining]) -> FrontierPlan:
    releases = tuple(replace(one, release=next(refined)) for one in frontier.releases)
    return replace(frontier, releases=releases)


def _note(charge: Charge, whole: Charge) -> str:
    paid, asked = (decimal_text(_written(one.events)) for one in (charge, whole))
    return f"refines an earlier answer: pays {paid} of {asked}"


def _written(events: Sequence[Event]) -> Fraction:
    spent = additive(events)
    return spent.loss.epsilon if spent.summed else spent.rho
