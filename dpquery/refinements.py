"""A statement that was asked before for a smaller epsilon pays the difference.

It does if each of its releases is a count or sum with discrete Laplace noise, and was released
before for less, to the same analyst, within the version of the data: what is drawn then takes
the place of the earlier values, and both together lose what the later ones do alone. As with
what is repeated, no file is looked at to find this out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.budget.accountant import basic
from dpquery.budget.answers import Holder
from dpquery.budget.earlier import Kept
from dpquery.constants import constants_in
from dpquery.events import Event
from dpquery.functions.noise import AdditiveCell, AdditiveRelease
from dpquery.functions.refined import RefinedRelease, rate_of
from dpquery.ir import Scan
from dpquery.plan import FrontierPlan, Plan, PlannedRelease, dearest_of
from dpquery.policy.model import Policy
from dpquery.privacy import decimal_text
from dpquery.stored import Keys, read

if TYPE_CHECKING:
    from dpquery.budget.ledger import Ledger
    from dpquery.engine.duckdb.public import PublicEngine

__all__ = ["Refinements"]


class _Missing(Exception):
    """A release has no earlier one."""


@dataclass(frozen=True, slots=True)
class Refinements:
    """What is needed to find earlier releases."""

    policy: Policy
    ledger: Ledger
    holder: Holder
    version: int
    public: PublicEngine

    def of(self, plan: Plan) -> Plan | None:
        """Give a plan that refines all of its releases; None where one is paid in full."""
        if plan.searches or not self._may_be(plan.charge.events):
            return None
        keys = Keys(self.policy, self.version, self.public.digest)
        try:
            found = [
                self._found(frontier.scan, one, keys)
                for frontier in plan.frontiers
                for one in frontier.releases
            ]
        except _Missing:
            return None
        used = tuple(kept for kept, _ in found)
        if len({kept.number for kept in used}) < len(used):
            return None
        return self._plan(plan, used, iter([release for _, release in found]))

    def _may_be(self, events: Sequence[Event]) -> bool:
        """Say whether what loses this may be refined.

        Files that may change unseen are not refined on: both values have to be of one state. A
        rho is paid whole in any case. What one query may spend is held against what it tells,
        which is more than it pays.
        """
        budget = self.policy.budget
        cap, whole = budget.max_epsilon_per_query, basic(events).epsilon
        below = cap is None or whole <= cap
        return self.policy.published and budget.ceiling.summed and bool(events) and below

    def _found(
        self, scan: Scan, one: PlannedRelease, keys: Keys
    ) -> tuple[Kept, RefinedRelease]:
        """Give the earlier release that has lost most, of those that lost less."""
        rate, release = rate_of(one.release, scan), one.release
        waits = any(key.finding for key in scan.keys) or any(constants_in((scan, release)))
        if rate is None or waits:
            raise _Missing
        assert isinstance(release, AdditiveRelease)  # noqa: S101 - it has a rate
        left = self.ledger.earlier(self.holder, keys.question(scan, release))
        less = [kept for kept in left if kept.rate < rate]
        if not less:
            raise _Missing
        kept = max(less, key=lambda one: one.rate)
        cells = read(kept.drawn, release)
        earlier = tuple(cell.noisy for cell in cells if isinstance(cell, AdditiveCell))
        return kept, RefinedRelease(release, kept.rate, earlier)

    def _plan(
        self, plan: Plan, used: tuple[Kept, ...], refined: Iterator[RefinedRelease]
    ) -> Plan:
        frontiers = tuple(_with(frontier, refined) for frontier in plan.frontiers)
        events = tuple(one.release.event() for part in frontiers for one in part.releases)
        calls = [one.call for part in frontiers for one in part.releases]
        span, retry = dearest_of(calls, events, plan.source.text)
        charge = replace(plan.charge, events=events, span=span, retry=retry)
        charge = replace(charge, refines=used, version=self.version)
        paid, whole = basic(events).epsilon, basic(plan.charge.events).epsilon
        note = _note(paid, whole)
        return replace(plan, frontiers=frontiers, charge=charge, notes=(*plan.notes, note))


def _with(frontier: FrontierPlan, refined: Iterator[RefinedRelease]) -> FrontierPlan:
    releases = tuple(replace(one, release=next(refined)) for one in frontier.releases)
    return replace(frontier, releases=releases)


def _note(paid: Fraction, whole: Fraction) -> str:
    return f"refines an earlier answer: pays {decimal_text(paid)} of {decimal_text(whole)}"
