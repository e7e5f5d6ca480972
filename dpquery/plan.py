"""Plans a checked statement: scans, releases, and one charge for all of them.

A plan is made from query and policy alone, costs nothing, and is what EXPLAIN prints. Its
charge is the sum of what its mechanisms lose for the sensitivities of their measures (I7).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from dpquery import functions
from dpquery.budget.charge import Charge
from dpquery.errors import Diagnostic, NameRefused, PlanRefused, internal, without
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
from dpquery.source import Source, Span
from dpquery.types import Type
from dpquery.zcdp import epsilon_above

__all__ = ["FrontierPlan", "Plan", "PlannedRelease", "make_plan"]


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


def make_plan(checked: Checked, policy: Policy, public: PublicFacts) -> Plan:
    """Plan a statement.

    Raises:
        PlanRefused: DPQ401 no bounds, DPQ403 a mechanism needs a delta, DPQ404 too large.
        NameRefused: DPQ205 bounds outside the column's own, DPQ208 the query above computes
            with types that do not match.
    """
    frontiers = tuple(_frontier(*part, policy) for part in checked.frontiers)
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
    charge = _charge(checked, frontiers)
    return Plan(checked.source, frontiers, checked.above, charge, notes, checked.constants)


def _types(frontier: FrontierPlan) -> dict[str, Type]:
    """Give the columns that the query above finds, with their types."""
    keys = {key.column: key.expr.type for key in frontier.scan.keys}
    return keys | {planned.column: planned.release.type for planned in frontier.releases}


def _frontier(frontier: Frontier, contribution: Contribution, policy: Policy) -> FrontierPlan:
    cells = prod(len(key.values) for key in frontier.keys)
    facts = Facts(contribution, policy.neighbours, cells, grouped=bool(frontier.keys))
    calls = [_converted(call, policy) for call in frontier.calls]
    releases = tuple(PlannedRelease(call.column, call, _release(call, facts)) for call in calls)
    measures: dict[Measure, None] = {}
    for planned in releases:
        measures.update(dict.fromkeys(planned.release.measures))
    scan = Scan(frontier.relation, contribution, tuple(measures), frontier.keys)
    return FrontierPlan(scan, releases)


def _converted(call: Call, policy: Policy) -> Call:
    """Give a call that asks for a rho the epsilon that this is, at the policy's delta.

    Raises:
        PlanRefused: DPQ403 the policy adds up epsilons, or the call has another mechanism.
    """
    options, ceiling = call.options, policy.budget.ceiling
    if options.rho is None:
        return call
    if ceiling.summed:
        label = "the policy's budget is in epsilon"
        raise _rho_refused(call, options.epsilon_span, label, ", eps=0.1")
    if options.mechanism not in {None, "gaussian"}:
        raise _rho_refused(call, options.mechanism_span, "rho asks for Gaussian noise")
    if options.delta is not None:
        raise _rho_refused(call, options.delta_span, "rho is converted at the policy's delta")
    epsilon, delta = epsilon_above(options.rho, ceiling.converted), ceiling.converted
    converted = replace(options, epsilon=epsilon, delta=delta, mechanism="gaussian")
    return replace(call, options=converted)


def _rho_refused(call: Call, span: Span | None, label: str, more: str = "") -> PlanRefused:
    """Offer the call without what stands there."""
    where = span or call.span
    start, end = where.start - call.span.start, where.end - call.span.start
    offered = without(call.text, start, end).removesuffix(")") + f"{more})"
    why = "such noise has no epsilon that could be added up, so the budget has to be in rho."
    return PlanRefused(
        Diagnostic("DPQ403", "rho cannot be asked for here", span, label, (why,), (offered,))
    )


def _release(call: Call, facts: Facts) -> Release:
    function = functions.find(call.function)
    if function is None:
        raise internal("a bound call names a registered function")
    return function.plan(call, facts)


def _charge(checked: Checked, frontiers: tuple[FrontierPlan, ...]) -> Charge:
    """Add up the releases; point at the call that asks for most."""
    events = tuple(
        planned.release.event() for frontier in frontiers for planned in frontier.releases
    )
    calls = [planned.call for frontier in frontiers for planned in frontier.releases]
    query = checked.source.text.strip()
    if not calls:
        return Charge((), (), query)
    dearest = max(calls, key=lambda call: call.options.epsilon)
    where, text = dearest.options.epsilon_span, checked.source.text
    retry = (text[dearest.span.start : where.start], text[where.end : dearest.span.end])
    scans = tuple(frontier.scan for frontier in frontiers)
    skipped = len(text) - len(text.lstrip())
    spans = [call.options.epsilon_span for call in calls]
    epsilons = tuple(Span(span.start - skipped, span.end - skipped) for span in spans)
    return Charge(events, scans, query, where, retry, epsilons)


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
