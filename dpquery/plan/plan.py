"""Plans a checked statement: scans, releases, and one charge for all of them.

A plan is made from query and policy alone, costs nothing, and is what EXPLAIN prints. Its
charge is the sum of what its mechanisms lose for the sensitivities of their measures (I7).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import Any

from dpquery.answer import Guarantee
from dpquery.budget.accountant import basic
from dpquery.budget.ledger.charge_and_receipt import Charge
from dpquery.core.privacy_events import Event
from dpquery.core.source_text import Source, Span
from dpquery.core.types import Interval, Type
from dpquery.core.zcdp import epsilon_above
from dpquery.errors import PlanRefused, QueryRefused, refusal
from dpquery.functions.base import Facts, Release, not_stated, without_option
from dpquery.functions.bounds_search import fallback
from dpquery.ir.measures import Measure
from dpquery.ir.query import Above, Call, Checked, Contribution, Frontier, Key, Scan
from dpquery.plan.auto_bounds import (
    Kept,
    Search,
    Searches,
    limit_is_found,
    limited,
    narrowed,
    planned,
    uses_kept,
    with_options,
)
from dpquery.plan.epsilon_for_error import error_bought, priced
from dpquery.plan.grouping_sets import are_better, sums_of, whole_keys, with_all
from dpquery.plan.shared_draws import shared_draws
from dpquery.plan.touched_partitions import if_weighed, require_shares, touched
from dpquery.policy.model import Policy, PublicFacts
from dpquery.policy.unit_paths import likely_units


@dataclass(frozen=True, slots=True)
class PlannedRelease:
    """One call of the query, ready to draw."""

    column: str
    call: Call
    release: Release
    drawn_by: int | None = None
    """The place of the call in whose draw it is; None where it has one of its own."""
    why: str = ""
    """Why it is drawn with others, or is not, where there was a choice."""


@dataclass(frozen=True, slots=True)
class FrontierPlan:
    """One scan and what is released from it."""

    scan: Scan
    releases: tuple[PlannedRelease, ...]
    shown: tuple[Key, ...] | None = None
    """The keys of its groups, where its scan has more groups than are shown."""
    added: int | None = None
    """The number of the frontier whose groups add up to its own: it is not read."""

    @property
    def draws(self) -> tuple[PlannedRelease, ...]:
        """The releases that are drawn: others are read from these."""
        own = () if self.added is not None else self.releases
        return tuple(one for one in own if one.drawn_by is None)

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys of the groups that are shown."""
        return self.scan.keys if self.shown is None else self.shown


@dataclass(frozen=True, slots=True)
class Plan:
    """What a statement will do, wholly fixed before it is charged."""

    checked: Checked
    frontiers: tuple[FrontierPlan, ...]
    charge: Charge
    notes: tuple[str, ...]
    searches: tuple[Search, ...] = ()
    """What finds bounds before the frontiers are opened; charged behind them."""
    found: tuple[Interval | None, ...] = ()
    """What they found, once they have; None where no value stood out."""

    @property
    def source(self) -> Source:
        """The statement as it is written."""
        return self.checked.source

    @property
    def above(self) -> Above:
        """The query over what is released."""
        return self.checked.above

    @property
    def constants(self) -> tuple[Above, ...]:
        """Queries of one value each, that a scan needs before it is opened."""
        return self.checked.constants

    @property
    def kept(self) -> bool:
        """Whether some of its bounds were found before."""
        calls = (one.call for frontier in self.frontiers for one in frontier.releases)
        return any(map(uses_kept, calls))

    @property
    def releases(self) -> tuple[tuple[Release, ...], ...]:
        """What is released from each scan of the charge: those of searches come last."""
        drawn = [tuple(one.release for one in frontier.draws) for frontier in self.frontiers]
        return (*drawn, *((search.release,) for search in self.searches))

    def with_(self, *, note: str = "", **changed: Any) -> Plan:
        """Return the plan with other releases, another charge, bounds, or one note more."""
        return replace(self, notes=(*self.notes, note) if note else self.notes, **changed)


def make_plan(checked: Checked, policy: Policy, public: PublicFacts) -> Plan:
    """Plan a statement, from itself and the policy alone.

    Args:
        checked: the statement.
        policy: the policy it is asked under.
        public: what public tables hold.

    Raises:
        PlanRefused: DPQ401 no bounds, DPQ403 a mechanism needs a delta, DPQ404 too large.
        NameRefused: DPQ205 bounds outside the column's own, DPQ208 the query above computes
            with types that do not match.
    """
    plan = _planned(checked, policy, {})
    asked = (checked.above, *checked.constants)
    if not all(_accepted(above, plan.frontiers, public) for above in asked):
        raise refusal(
            "DPQ208",
            "the types in the result do not match",
            Span(0, len(checked.source.text)),
            "somewhere here",
            "values are combined and compared with values of their own type only.",
            _plain(checked),
        )
    return plan


def with_kept(plan: Plan, kept: Kept, policy: Policy) -> Plan:
    """Return a plan between bounds that were paid for before: nothing is spent to find them.

    Raises:
        PlanRefused: as above.
    """
    return _planned(plan.checked, policy, kept)


def _planned(checked: Checked, policy: Policy, kept: Kept) -> Plan:
    searches = Searches(policy, kept)
    try:
        frontiers = tuple(_frontier(*part, policy, searches) for part in checked.frontiers)
    except PlanRefused as refused:
        raise _with_limits(refused, checked, policy) from None
    if policy.budget.ceiling.summed and not searches.found:
        frontiers = _added_up(checked, frontiers, policy)
    charge = _charge(checked, policy, frontiers, searches.found)
    notes = tuple(dict.fromkeys(_notes(checked, frontiers, policy)))
    return Plan(checked, frontiers, charge, notes, tuple(searches.found))


def _named_by_unit(policy: Policy) -> str:
    """Say how the column of a person is named: one that could be it, if any."""
    private = (table for table in policy.tables.values() if not table.public)
    of_each = [likely_units({n: c.type for n, c in one.columns.items()}) for one in private]
    likely = next(chain.from_iterable(of_each), None)
    if likely is None:
        return ""
    column = shlex.quote(likely)
    return f"; if it names a person: --unit {column}, in Python unit={likely!r}"


def _notes(
    checked: Checked, frontiers: Sequence[FrontierPlan], policy: Policy
) -> Iterator[str]:
    if any(frontier.scan.contribution.unit is None for frontier in frontiers):
        yield (
            "each row is its own privacy unit: a person with several rows is NOT protected as "
            f"a whole{'' if policy.published else _named_by_unit(policy)}"
        )
    for frontier in frontiers:
        if frontier.releases:
            yield from (key.left_out for key in frontier.scan.keys if key.left_out)
        elif all(key.finding is None for key in frontier.scan.keys):
            yield "these are the groups there may be, whether or not a row is in them"
    for asked, _ in checked.frontiers:
        yield from _repeated(asked)
    pairs = [*zip((asked for asked, _ in checked.frontiers), frontiers, strict=True)]
    shared = {
        asked.sets
        for asked, one in pairs
        if one.shown is None and one.added is None
        if any(not call.options.wanted for call in asked.calls)
    }
    for count in sorted(shared - {1}):
        yield f"GROUP BY has {count} groupings; each gets 1/{count} of ε"
    for asked, one in pairs:
        if one.shown is not None:
            yield f"GROUP BY has {asked.sets} groupings: the first gets all of ε, and adds up"
    nulls = any(None in key.listed for one in frontiers for key in one.keys)
    if nulls and any(asked.sets > 1 for asked, _ in checked.frontiers):
        yield "a NULL can be a group or a total: GROUPING(key) is 1 for a total, else 0"
    releases = (planned.release for frontier in frontiers for planned in frontier.releases)
    yield from (one.note for one in releases if one.note)


def _accepted(above: Above, frontiers: Sequence[FrontierPlan], public: PublicFacts) -> bool:
    """Return whether a query above fits the columns that it finds: an end is as its value."""
    released = [_types(frontier) for frontier in frontiers]
    for name, end in above.ends:
        released[end.frontier][name] = released[end.frontier][end.column]
    return public.accepts(above, released)


def _types(frontier: FrontierPlan) -> dict[str, Type]:
    """Return the columns of a released table, with their types."""
    keys = {key.column: key.expr.type for key in frontier.scan.keys}
    return keys | {planned.column: planned.release.type for planned in frontier.releases}


def _frontier(
    frontier: Frontier, contribution: Contribution, policy: Policy, searches: Searches
) -> FrontierPlan:
    facts = Facts.of(Scan(frontier.relation, contribution, (), frontier.keys), policy)
    asked = tuple(_converted(call, policy) for call in frontier.calls)
    bounded = (searches.bounded(call, frontier.relation, facts) for call in asked)
    calls = tuple(priced(call, facts) for call in bounded)
    releases = tuple(PlannedRelease(call.column, call, planned(call, facts)) for call in calls)
    releases = _drawn_together(releases, facts, policy)
    for one in releases:
        require_shares(one.call, one.release, frontier.relation)
    scan = Scan(frontier.relation, contribution, measures_of(releases), frontier.keys)
    return FrontierPlan(scan, releases)


def _added_up(
    checked: Checked, apart: tuple[FrontierPlan, ...], policy: Policy
) -> tuple[FrontierPlan, ...]:
    """Have groupings added up from the first of them, where they err less then."""
    found, at = list(apart), 0
    while at < len(found):
        asked, contribution = checked.frontiers[at]
        alone = apart[at : at + asked.sets]
        keys = whole_keys([one.scan.keys for one in alone])
        calls = with_all(asked.calls, asked.sets)
        if keys is not None and calls:
            whole = replace(asked, keys=keys, calls=calls)
            searches = Searches(policy, {})
            first = _frontier(whole, contribution, policy, searches)
            if searches.found:  # a limit for all of them would have to be looked for first
                return apart
            drawn: Sequence[Release] = [one.release for one in first.releases]
            sums = (sums_of(drawn, keys, one.scan.keys) for one in alone[1:])
            known = [drawn, *(one for one in sums if one is not None)]
            others = [[each.release for each in one.releases] for one in alone]
            if len(known) == len(alone) and are_better(known, others):
                found[at] = replace(first, shown=alone[0].scan.keys)
                for i, own in enumerate(known[1:], start=1):
                    found[at + i] = _sums(alone[i], first, own, at)
        at += asked.sets
    return tuple(found)


def _sums(
    apart: FrontierPlan, first: FrontierPlan, sums: Sequence[Release], at: int
) -> FrontierPlan:
    """Return a grouping whose groups are added up from those of the frontier of a number."""
    own = zip(first.releases, sums, strict=True)
    releases = tuple(replace(one, release=release) for one, release in own)
    return FrontierPlan(replace(apart.scan, measures=()), releases, added=at)


def _drawn_together(
    releases: tuple[PlannedRelease, ...], facts: Facts, policy: Policy
) -> tuple[PlannedRelease, ...]:
    """Have calls share a draw, where their price is the statement's."""
    calls, apart = [one.call for one in releases], [one.release for one in releases]
    shared = list(releases)
    for at, one in shared_draws(calls, apart, facts, policy.budget.ceiling).items():
        drawn_by = None if at == one.first else one.first
        shared[at] = replace(releases[at], release=one.release, drawn_by=drawn_by, why=one.why)
    return tuple(shared)


def _with_limits(refused: PlanRefused, checked: Checked, policy: Policy) -> PlanRefused:
    """Offer the whole query with a limit in each call that has none; say where else it goes."""
    if refused.code != "DPQ407":
        return refused
    written: dict[Span, str] = {}
    for frontier, contribution in checked.frontiers:
        for call in frontier.calls:
            try:
                alone = replace(frontier, calls=(call,))
                _frontier(alone, contribution, policy, Searches(policy, {}))
            except PlanRefused as other:
                if other.code == "DPQ407":
                    found = limit_is_found(call, frontier.relation)
                    offered = not_stated(call, contribution.unit, findable=found)
                    written[call.span] = offered.diagnostic.remedy[0]
    text = checked.source.text
    for span in sorted(written, key=lambda span: -span.start):
        text = text[: span.start] + written[span] + text[span.end :]
    owner = "or ask the data owner to state max_rows_contributed in the policy"
    own = (
        "or for all queries: --rows auto, or --rows 100; --rows-per-unit 1 if each has one row",
        "in Python: max_rows_contributed='auto', or 100; rows_per_unit=1",
    )
    findable = any("'auto'" in call for call in written.values())
    more = ((owner,) if policy.published else own) if findable else ()
    return PlanRefused(replace(refused.diagnostic, remedy=(text.strip(), *more)))


def _converted(call: Call, policy: Policy) -> Call:
    """Return a call that asks for a rho the epsilon that this is, at the policy's delta.

    Raises:
        PlanRefused: DPQ403 the policy adds up epsilons, or the call has another mechanism.
    """
    options, ceiling = call.options, policy.budget.ceiling
    if options.rho is None:
        return call
    if ceiling.summed:
        more = ", eps=0.1"
        raise _rho_refused(
            call, "the policy's budget is in epsilon", options.epsilon_span, more
        )
    if options.mechanism not in {None, "gaussian"}:
        raise _rho_refused(call, "rho asks for Gaussian noise", options.mechanism_span)
    if options.delta is not None:
        raise _rho_refused(call, "rho is converted at the policy's delta", options.delta_span)
    epsilon, delta = epsilon_above(options.rho, ceiling.converted), ceiling.converted
    return with_options(call, epsilon=epsilon, delta=delta, mechanism="gaussian")


def _rho_refused(call: Call, label: str, span: Span | None, more: str = "") -> QueryRefused:
    """Offer the call without what stands there."""
    offered = without_option(call, span).removesuffix(")") + f"{more})"
    why = "such noise has no epsilon that could be added up, so the budget has to be in rho."
    return refusal("DPQ403", "rho cannot be asked for here", span, label, why, offered)


def guarantee_of(plan: Plan, policy: Policy) -> Guarantee:
    """Say whose rows a plan protects, each unit once, and what its answer tells by itself.

    That is also what was paid for before: by an answer that is repeated, or refined.
    """
    units = (scan.contribution.unit or "row" for scan in plan.charge.scans)
    told = basic(release.wanted.event() for one in plan.releases for release in one)
    return Guarantee(told, tuple(dict.fromkeys(units)), policy.neighbours, plan.kept)


def measures_of(releases: Sequence[PlannedRelease]) -> tuple[Measure, ...]:
    """Return what a scan has to hold for some releases, each once."""
    return tuple(dict.fromkeys(m for planned in releases for m in planned.release.measures))


def _charge(
    checked: Checked,
    policy: Policy,
    frontiers: tuple[FrontierPlan, ...],
    searches: Sequence[Search],
) -> Charge:
    """Add up the releases; point at the call that asks for most."""
    drawn = [(one, part.scan) for part in frontiers for one in part.draws]
    calls = [*(one.call for one, _ in drawn), *(search.call for search in searches)]
    releases = [*(one.release for one, _ in drawn), *(search.release for search in searches)]
    events, query = tuple(one.event() for one in releases), checked.source.text.strip()
    if not calls:
        return Charge((), (), query)
    text = checked.source.text
    where, retry = dearest_of(calls, events, text)
    scans = (*(part.scan for part in frontiers), *(search.scan for search in searches))
    skipped = len(text) - len(text.lstrip())
    spans = [call.options.epsilon_span for call in calls]
    epsilons = tuple(Span(span.start - skipped, span.end - skipped) for span in spans)
    if checked.understood:  # one epsilon, which does not stand in the statement
        retry, epsilons = ("SET dp.eps = ", ""), (Span(0, len(query)),) * len(events)
    on = touched(scans, policy)
    from_ = ((one.release, scan.relation) for one, scan in drawn)
    weighed = if_weighed(scans, from_, policy) if on is None else None
    wanting = (
        (span, error_bought(one.call, Facts.of(scan, policy)))
        for (one, scan), span in zip(drawn, epsilons, strict=False)
        if one.call.options.wanted is not None
    )
    return Charge(
        events,
        scans,
        query,
        where,
        retry,
        epsilons=epsilons,
        touched=on,
        if_weighed=weighed,
        errors=dict(wanting),
    )


def dearest_of(
    calls: Sequence[Call], events: Sequence[Event], text: str
) -> tuple[Span, tuple[str, str]]:
    """Give where the epsilon of the call stands that asks for most, and the call around it."""
    asked: dict[Span, Fraction] = {}
    for call, event in zip(calls, events, strict=True):
        asked[call.span] = asked.get(call.span, Fraction(0)) + basic([event]).epsilon
    dearest = max(calls, key=lambda call: asked[call.span])
    where = dearest.options.epsilon_span
    return where, (text[dearest.span.start : where.start], text[where.end : dearest.span.end])


def _repeated(frontier: Frontier) -> Iterator[str]:
    """Say which calls are written several times, as in SELECT and HAVING: each is charged."""
    written = Counter((call.text, call.condition) for call in frontier.calls)
    for (text, condition), times in written.items():
        if times > 1 and text:
            call = text if condition is None else f"{text} with its FILTER"
            yield (
                f"{call} is written {times} times: each is drawn and charged on its own; "
                "name it once with AS, and use the name"
            )


def _plain(checked: Checked) -> str:
    """Write a query with the first call alone; without calls, the public table as it is."""
    for frontier, _ in checked.frontiers:
        where = checked.source.snippet(frontier.span)
        return " ".join(["SELECT", frontier.calls[0].text, "FROM", where])
    words = checked.source.text.split()
    at = next((n for n, word in enumerate(words[:-1]) if word.upper() == "FROM"), None)
    return "SELECT 1 + 1" if at is None else " ".join(["SELECT * FROM", words[at + 1]])


def with_bounds(plan: Plan, found: Sequence[Interval | None], policy: Policy) -> Plan:
    """Return a plan whose calls have the bounds that its searches found.

    Where one found none, its bounds are a constant, whatever the data. The charge stays as it
    is, and each mechanism states its loss against it again before it draws.
    """
    frontiers = tuple(_bounded(frontier, found, policy) for frontier in plan.frontiers)
    return plan.with_(frontiers=frontiers, found=tuple(found))


def _bounded(
    frontier: FrontierPlan, found: Sequence[Interval | None], policy: Policy
) -> FrontierPlan:
    facts = Facts.of(frontier.scan, policy)
    releases = tuple(_again(one, found, facts) for one in frontier.releases)
    scan = replace(frontier.scan, measures=measures_of(releases))
    return replace(frontier, scan=scan, releases=releases)


def _again(
    waiting: PlannedRelease, found: Sequence[Interval | None], facts: Facts
) -> PlannedRelease:
    call, options, unbounded = waiting.call, waiting.call.options, False
    if options.rows_search is not None:
        limit = found[options.rows_search]
        assert limit is not None  # noqa: S101 - a limit is always found
        call = limited(call, limit)
    if options.search is not None and call.argument is not None:
        bounds = found[options.search]
        call, unbounded = narrowed(call, bounds or fallback(call.argument.type)), bounds is None
    if call is waiting.call:
        return waiting
    release = replace(planned(call, facts), unbounded=unbounded)
    return replace(waiting, call=call, release=release)
