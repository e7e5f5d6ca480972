"""Plans a checked statement: scans, releases, and one charge for all of them.

A plan is made from query and policy alone, costs nothing, and is what EXPLAIN prints. Its
charge is the sum of what its mechanisms lose for the sensitivities of their measures (I7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from dpquery.budget.charge import Charge
from dpquery.errors import Diagnostic, NameRefused
from dpquery.functions.base import Facts, Noted, Release
from dpquery.ir import (
    Above,
    Call,
    Checked,
    Contribution,
    CountUnits,
    Frontier,
    Measure,
    Scan,
    UnitTotals,
)
from dpquery.policy.facts import PublicFacts
from dpquery.policy.model import Policy
from dpquery.searches import Kept, Search, Searches, kept_note, nothing_kept, planned
from dpquery.source import Source, Span
from dpquery.types import Type

__all__ = ["FrontierPlan", "Plan", "PlannedRelease", "make_plan", "measures_of"]


@dataclass(frozen=True, slots=True)
class PlannedRelease:
    """One call of the query, ready to draw."""

    column: str
    call: Call
    release: Release


@dataclass(frozen=True, slots=True)
class FrontierPlan:
    """One scan and what is released from it."""

    scan: Scan
    releases: tuple[PlannedRelease, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a statement will do, wholly fixed before it is charged."""

    source: Source
    frontiers: tuple[FrontierPlan, ...]
    above: Above
    charge: Charge
    notes: tuple[str, ...]
    constants: tuple[Above, ...] = ()
    searches: tuple[Search, ...] = ()
    """What finds bounds before the frontiers are opened; charged behind them."""

    @property
    def releases(self) -> tuple[tuple[Release, ...], ...]:
        """What is released from each scan of the charge: those of searches come last."""
        drawn = [tuple(one.release for one in frontier.releases) for frontier in self.frontiers]
        return (*drawn, *((search.release,) for search in self.searches))


def make_plan(
    checked: Checked, policy: Policy, public: PublicFacts, kept: Kept = nothing_kept
) -> Plan:
    """Plan a statement.

    Args:
        checked: the statement.
        policy: the policy it is asked under.
        public: what public tables hold.
        kept: the bounds that were found for this analyst before.

    Raises:
        PlanRefused: DPQ401 no bounds, DPQ403 a mechanism needs a delta, DPQ404 too large.
        NameRefused: DPQ205 bounds outside the column's own, DPQ208 the query above computes
            with types that do not match.
    """
    searches = Searches(policy, kept)
    frontiers = tuple(_frontier(*part, policy, searches) for part in checked.frontiers)
    released = [_types(frontier) for frontier in frontiers]
    asked = (checked.above, *checked.constants)
    if not all(public.accepts(above, released) for above in asked):
        raise _unfit(checked)
    notes = tuple(
        note
        for _, contribution in checked.frontiers
        for note in _notes(contribution, frontiers)
    )
    releases = (planned.release for frontier in frontiers for planned in frontier.releases)
    notes += tuple(dict.fromkeys(one.note for one in releases if isinstance(one, Noted)))
    calls = (planned.call for frontier in frontiers for planned in frontier.releases)
    notes += tuple(dict.fromkeys(filter(None, map(kept_note, calls))))
    charge = _charge(checked, frontiers, searches.found)
    return Plan(
        checked.source,
        frontiers,
        checked.above,
        charge,
        notes,
        checked.constants,
        tuple(searches.found),
    )


def _types(frontier: FrontierPlan) -> dict[str, Type]:
    """Give the columns that the query above finds, with their types."""
    keys = {key.column: key.expr.type for key in frontier.scan.keys}
    return keys | {planned.column: planned.release.type for planned in frontier.releases}


def _frontier(
    frontier: Frontier, contribution: Contribution, policy: Policy, searches: Searches
) -> FrontierPlan:
    cells = prod(len(key.values) for key in frontier.keys)
    facts = Facts(contribution, policy.neighbours, cells, grouped=bool(frontier.keys))
    frontier = searches.bounded(frontier, contribution, facts)
    releases = tuple(
        PlannedRelease(call.column, call, planned(call, facts)) for call in frontier.calls
    )
    scan = Scan(frontier.relation, contribution, measures_of(releases), frontier.keys)
    return FrontierPlan(scan, releases)


def measures_of(releases: Sequence[PlannedRelease]) -> tuple[Measure, ...]:
    """Give what a scan has to hold for some releases, each once."""
    return tuple(dict.fromkeys(m for planned in releases for m in planned.release.measures))


def _charge(
    checked: Checked, frontiers: tuple[FrontierPlan, ...], searches: Sequence[Search]
) -> Charge:
    """Add up the releases; point at the call that asks for most."""
    events = tuple(
        planned.release.event() for frontier in frontiers for planned in frontier.releases
    )
    events += tuple(search.release.event() for search in searches)
    calls = [call for frontier, _ in checked.frontiers for call in frontier.calls]
    query = checked.source.text.strip()
    if not calls:
        return Charge((), (), query)
    dearest = max(calls, key=lambda call: call.options.epsilon)
    where, text = dearest.options.epsilon_span, checked.source.text
    retry = (text[dearest.span.start : where.start], text[where.end : dearest.span.end])
    scans = (*(part.scan for part in frontiers), *(search.scan for search in searches))
    asked = dearest.options.epsilon if searches else None
    return Charge(events, scans, query, where, retry, asked)


def _notes(contribution: Contribution, frontiers: tuple[FrontierPlan, ...]) -> list[str]:
    """Say what an analyst should know of the unit, in the words of the policy."""
    if contribution.unit is None:
        return ["each row counts as a unit of its own: no column says whose it is"]
    if contribution.single:
        return []
    measures = [m for frontier in frontiers for m in frontier.scan.measures]
    rows = [m.weight.limit for m in measures if not isinstance(m, CountUnits | UnitTotals)]
    groups = [m.weight.limit for m in measures if isinstance(m, CountUnits | UnitTotals)]
    notes = []
    if rows:
        limits, what = _limits(rows, "row")
        notes.append(
            f"each {contribution.unit} counts for at most {limits} {what} "
            "(max_rows_contributed); further rows share that weight"
        )
    if groups and any(frontier.scan.keys for frontier in frontiers):
        limits, what = _limits(groups, "group")
        notes.append(
            f"each {contribution.unit} counts in at most {limits} {what} "
            "(max_groups_contributed); further groups share that weight"
        )
    return notes


def _limits(found: list[int], what: str) -> tuple[str, str]:
    limits = " or ".join(str(limit) for limit in sorted(set(found)))
    return limits, what if limits == "1" else f"{what}s"


def _unfit(checked: Checked) -> NameRefused:
    return NameRefused(
        Diagnostic(
            "DPQ208",
            "the types in the result do not match",
            Span(0, len(checked.source.text)),
            "somewhere here",
            ("values are combined and compared with values of their own type only.",),
            (_plain(checked),),
        )
    )


def _plain(checked: Checked) -> str:
    """Write a query with the first call alone; without calls, the public table as it is."""
    for frontier, _ in checked.frontiers:
        where = checked.source.snippet(frontier.span)
        return " ".join(["SELECT", frontier.calls[0].text, "FROM", where])
    words = checked.source.text.split()
    at = next((n for n, word in enumerate(words[:-1]) if word.upper() == "FROM"), None)
    return "SELECT 1 + 1" if at is None else " ".join(["SELECT * FROM", words[at + 1]])
