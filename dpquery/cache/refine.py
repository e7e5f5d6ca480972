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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from dpquery.budget.accountant import additive, basic
from dpquery.budget.ledger.charge_and_receipt import Charge
from dpquery.budget.ledger.earlier_releases import EarlierRelease, Holder, Refinable, State
from dpquery.cache.release_codec import decode_cells
from dpquery.cache.release_keys import NOTHING, Keys, Values
from dpquery.core.privacy_events import Event
from dpquery.core.privacy_loss import decimal_text
from dpquery.functions.additive_releases import AdditiveRelease, in_place_of
from dpquery.functions.base import Release
from dpquery.ir.expr import Apply
from dpquery.ir.query import Scan
from dpquery.ir.relations import tables_of
from dpquery.ir.walk import constants_in, nodes_in
from dpquery.mechanisms import DiscreteLaplace
from dpquery.plan.plan import FrontierPlan, Plan, dearest_of
from dpquery.policy.model import Policy, place_name
from dpquery.rowfunctions import named

if TYPE_CHECKING:
    from dpquery.budget.ledger.ledger import Ledger

MOST_CELLS = 10_000
"""Values are refined one by one; more of them are drawn anew, and paid in full."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """What decides whether releases from a scan can be refined."""

    scan: Scan
    anew: bool
    """Whether they are drawn anew each time."""
    waits: bool
    """Whether it waits for what earlier releases give."""
    places: frozenset[str]
    """Where it reads private rows."""


def _vague(scan: Scan) -> bool:
    """Return whether another processor could find other exact values in the same rows."""
    return any(not named(one.function).exact for one in nodes_in(scan, Apply))


@dataclass(frozen=True, slots=True)
class Refiner:
    """Finds the earlier releases that those of one statement can refine."""

    policy: Policy
    ledger: Ledger
    holder: Holder
    keys: Keys
    _known: dict[int, _Facts] = field(default_factory=dict)
    """What holds of scans, by their identities: each is walked once for all its releases."""

    def refined(self, plan: Plan) -> Plan:
        """Return a plan that refines those of its releases that can be."""
        if plan.searches or not self._may_be(plan.charge.events):
            return plan
        used: list[EarlierRelease] = []
        frontiers = tuple(self._frontier(frontier, used) for frontier in plan.frontiers)
        if not used:
            return plan
        charge = self._charge(plan, frontiers, tuple(used))
        return plan.with_(frontiers=frontiers, charge=charge, note=_note(charge, plan.charge))

    def refinable(
        self,
        scan: Scan,
        release: Release,
        drawn: str,
        read: Mapping[str, State],
        values: Values = NOTHING,
    ) -> Refinable | None:
        """Return a release as it is put by, to be refined; None where it cannot be.

        Args:
            scan: what it was drawn from.
            release: as it was planned.
            drawn: what was drawn, as text.
            read: what the files were at each place that the statement read.
            values: of the constants in it.
        """
        rate = self._rate(scan, release)
        if rate is None:
            return None
        question = self.keys.question(scan, release, values)
        states = {place: read[place] for place in self._facts(scan).places}
        return Refinable(question, rate, drawn, states)

    def _rate(self, scan: Scan, release: Release) -> Fraction | None:
        """Return what a release loses, if a later one may be drawn given it.

        Both have to be of one state of the data: not so where files may change unseen.
        """
        rate = release.wanted.rate if self.policy.published else None
        return None if rate is None or self._facts(scan).anew else rate

    def _facts(self, scan: Scan) -> _Facts:
        if id(scan) not in self._known:
            tables = (self.policy.tables[one.table] for one in tables_of(scan.relation))
            self._known[id(scan)] = _Facts(
                scan,
                anew=scan.cells > MOST_CELLS or _vague(scan),
                waits=any(key.finding for key in scan.keys) or any(constants_in(scan)),
                places=frozenset(place_name(table, self.policy) for table in tables),
            )
        return self._known[id(scan)]

    def _frontier(self, frontier: FrontierPlan, used: list[EarlierRelease]) -> FrontierPlan:
        """Put in what refines earlier releases, and note these: each can be used up once."""

        def bettered(release: Release) -> Release:
            earlier = self._earlier(frontier.scan, release, used)
            if earlier is None:
                return release
            used.append(earlier)
            assert isinstance(release, AdditiveRelease)  # noqa: S101 - it has a rate
            return in_place_of(release, earlier.rate, decode_cells(earlier.drawn, release))

        releases = (replace(one, release=bettered(one.release)) for one in frontier.releases)
        return replace(frontier, releases=tuple(releases))

    def _may_be(self, events: Sequence[Event]) -> bool:
        """Return whether what loses this may be refined.

        What one query may spend is held against what it tells, which is more than it pays.
        """
        cap = self.policy.budget.max_epsilon_per_query
        return bool(events) and (cap is None or basic(events).epsilon <= cap)

    def _earlier(
        self, scan: Scan, release: Release, used: Sequence[EarlierRelease]
    ) -> EarlierRelease | None:
        """Return the earlier release that has lost most, of those that lost less; or None."""
        rate = self._rate(scan, release)
        if rate is None or not isinstance(release, AdditiveRelease):
            return None
        if isinstance(release.mechanism, DiscreteLaplace) is not self._summed:
            return None  # the rho of a refinement is that of the later value, and not less
        if self._facts(scan).waits or any(constants_in(release)):
            return None
        taken = {one.number for one in used}
        left = self.ledger.earlier(self.holder, self.keys.question(scan, release))
        less = [one for one in left if one.rate < rate and one.number not in taken]
        if not less:
            return None
        best = max(less, key=lambda one: (one.rate, one.number))  # the newest of equals
        return replace(
            best, read={place: best.read.get(place) for place in self._facts(scan).places}
        )

    @property
    def _summed(self) -> bool:
        return self.policy.budget.ceiling.summed

    def _charge(
        self, plan: Plan, frontiers: Sequence[FrontierPlan], used: tuple[EarlierRelease, ...]
    ) -> Charge:
        releases = [one.release for part in frontiers for one in part.draws]
        events = tuple(release.event() for release in releases)
        calls = [one.call for part in frontiers for one in part.draws]
        span, retry = dearest_of(calls, events, plan.source.text)
        if plan.checked.understood:  # its one epsilon is set, and stands in no call
            retry = plan.charge.retry or retry
        return replace(
            plan.charge,
            events=events,
            span=span,
            retry=retry,
            before=tuple(release.paid for release in releases),
            refines=used if self._summed else (),
            version=self.keys.version,
        )


def _note(charge: Charge, whole: Charge) -> str:
    paid, asked = (decimal_text(_written(one.events)) for one in (charge, whole))
    return f"refines an earlier answer: pays {paid} of {asked}"


def _written(events: Sequence[Event]) -> Fraction:
    spent = additive(events)
    return spent.loss.epsilon if spent.summed else spent.rho
