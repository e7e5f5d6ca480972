"""What a release finds where nobody chose it: `bounds='auto'`, `max_rows_contributed='auto'`.

Bounds come from the policy, from the query, from WHERE and the expression itself. Where none of
these gives any, a call that says bounds='auto' has them found by a release of its own, for a
share of its epsilon: over all rows of the relation, without WHERE, since they are kept in the
ledger for later calls about the same expression. Whoever paid for bounds has them free then.

How many rows of a unit count is found in the same way, for a share of its own, over the rows
that the call sees: weights count these. As the best limit depends on the noise too, it is kept
for calls of about the same epsilon. Where both are found, each unit counts as one row for the
bounds.

A statement is charged before anything is found, so its plan is made for the widest bounds and
the largest limit that the call can be computed with; those that are found lie inside, and
nothing that was possible for the widest is refused for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from dpquery import functions
from dpquery.core.types import BOOLEAN, ROWS_MAX, Interval
from dpquery.errors import PlanRefused, refusal
from dpquery.functions.base import Facts, Release, not_stated
from dpquery.functions.bounds_search import (
    SHARE,
    RowSearchRelease,
    SearchRelease,
    row_search_for,
    search_for,
    searched,
)
from dpquery.functions.clipping_report import reporting
from dpquery.functions.example_bounds import narrower
from dpquery.functions.quantize import known_range, require_held
from dpquery.ir.canonical_text import Writer
from dpquery.ir.query import Call, Contribution, Scan
from dpquery.ir.relations import Filter, PublicJoin, Relation, tables_of, walk
from dpquery.ir.walk import constants_in
from dpquery.plan.touched_partitions import require_groups
from dpquery.policy.model import Policy, place_of
from dpquery.rowfunctions.base import CALENDAR

Kept = Mapping[str, Interval]
"""Bounds and limits that were found before, by their keys."""
TOO_WIDE = frozenset({"DPQ404", "DPQ405"})
"""How functions refuse what they could compute between narrower bounds."""


@dataclass(frozen=True, slots=True)
class Search:
    """One release of bounds or a limit: what it reads, and the key under which it is kept."""

    key: str
    call: Call
    """The call that pays for it."""
    scan: Scan
    release: SearchRelease | RowSearchRelease


@dataclass(slots=True)
class Searches:
    """The searches that one statement needs, each for all calls about one expression."""

    policy: Policy
    kept: Kept
    found: list[Search] = field(default_factory=list)

    def bounded(self, call: Call, relation: Relation, facts: Facts) -> Call:
        """Return a call that has bounds, and a limit if it is to be found and matters.

        Raises:
            NameRefused: DPQ206 totals of a unit in a group have bounds of their own, or rho is
                asked for.
            PlanRefused: DPQ401 an earlier release is part of the argument; DPQ407 nobody says
                how many rows of a unit count; what the function refuses between all bounds.
        """
        total, options = call.options.epsilon, call.options
        found = options.auto_rows or (
            facts.contribution.limit == "auto" and options.max_rows_contributed is None
        )
        if found and _needs_limit(call, facts):
            call = self._rows(call, relation, facts.contribution)
        if _wanting(call):
            call = self._bounds(call, relation, facts, total * SHARE)
        return call

    def _rows(self, call: Call, relation: Relation, contribution: Contribution) -> Call:
        """Return a call with the limit that is kept, or the largest until one is found."""
        if not limit_is_found(call, relation):
            raise not_stated(call, contribution.unit, findable=False)
        key, total = _row_key(call, relation, self.policy), call.options.epsilon
        kept = self.kept.get(key)
        if kept is not None and kept.low is not None:
            return limited(with_options(call, auto_rows=True), kept)
        number = self._number(key)
        if number == len(self.found):
            scan, release = row_search_for(call, relation, contribution, total)
            self.found.append(Search(key, call, scan, release))
            call = with_options(call, epsilon=total * (1 - SHARE))
        return with_options(
            call, auto_rows=True, max_rows_contributed=ROWS_MAX, rows_search=number
        )

    def _number(self, key: str) -> int:
        """Return which search finds what is kept under a key: one more, if none does."""
        keys = [search.key for search in self.found]
        return keys.index(key) if key in keys else len(keys)

    def _bounds(self, call: Call, relation: Relation, facts: Facts, share: Fraction) -> Call:
        """Return a call between bounds that are kept, or the widest until some are found."""
        while isinstance(relation, Filter):
            relation = relation.source
        _refuse_unfit(call, relation)
        key = _key(call, relation, self.policy)
        kept = self.kept.get(key)
        if kept is not None:
            return narrowed(_widest(call, facts), kept)
        number = self._number(key)
        if number == len(self.found):
            release = search_for(call, replace(facts, cells=1, grouped=False), share)
            scan = Scan(relation, facts.contribution, release.measures)
            self.found.append(Search(key, call, scan, release))
            call = with_options(call, epsilon=call.options.epsilon - share)
        return with_options(_widest(call, facts), search=number)


def with_options(call: Call, **options: Any) -> Call:
    """Return a call with other options."""
    return replace(call, options=replace(call.options, **options))


def _needs_limit(call: Call, facts: Facts) -> bool:
    """Return whether the result of a call depends on how many rows of a unit count."""
    unstated = replace(facts, contribution=replace(facts.contribution, limit="auto"))
    try:
        _widest(call, unstated) if _wanting(call) else planned(call, unstated)
    except PlanRefused as refused:
        if refused.code != "DPQ407":
            raise
        return True
    return False


def narrowed(call: Call, found: Interval) -> Call:
    """Return a call between bounds that were found, inside of the widest that it can have."""
    widest = call.options.bounds
    assert widest is not None  # noqa: S101 - a call that has a search has the widest
    return with_options(call, bounds=widest & found)


def _wanting(call: Call) -> bool:
    """Return whether nobody chose the bounds of a call that leaves them to a release."""
    if not call.options.auto or call.argument is None or call.argument.type == BOOLEAN:
        return False
    return not known_range(call.inputs[0]).bounded


def _widest(call: Call, facts: Facts) -> Call:
    """Return a call between the widest bounds with which its function can be planned.

    Narrower bounds are then never refused: sums get smaller and codes fewer; doubles without a
    grid of their own have about as many steps between any bounds.

    Raises:
        QueryRefused: it cannot be planned between any.
    """
    first: PlanRefused | None = None
    for bounds in _ranges(call):
        wide = with_options(call, bounds=bounds)
        try:
            planned(wide, facts)
        except PlanRefused as refused:
            if refused.code not in TOO_WIDE:
                raise
            first = first or refused
        else:
            return wide
    assert first is not None  # noqa: S101 - there are ranges, and each was refused
    raise first


def planned(call: Call, facts: Facts) -> Release:
    """Plan the release of a call that has bounds, where it needs any."""
    function, share = functions.registered(call.function), call.options.clipping
    if share is None:
        release = function.plan(call, facts)
    else:
        left = call.options.epsilon * (1 - share)
        release = reporting(call, facts, function.plan(with_options(call, epsilon=left), facts))
    require_groups(call, release, facts)
    if function.chooses:
        for measure in release.measures:
            for code in measure.codes:
                require_held(call, code)
    return release


def limited(call: Call, found: Interval) -> Call:
    """Return a call with a limit of rows that was found."""
    assert found.low is not None  # noqa: S101 - it is a number
    return with_options(call, max_rows_contributed=int(found.low))


def uses_kept(call: Call) -> bool:
    """Return whether a call has bounds, or a limit, that were found before."""
    options = call.options
    bounds = options.auto and options.bounds is not None and options.search is None
    limit = options.auto_rows and options.max_rows_contributed is not None
    return bounds or (limit and options.rows_search is None)


def _ranges(call: Call) -> Iterator[Interval]:
    """Return the ranges that bounds can be found in, the widest first, as far as is known."""
    argument = call.inputs[0].expr
    code, known = searched(argument), known_range(call.inputs[0])
    if argument.type.kind in CALENDAR:
        yield known & Interval(Fraction(code.low), Fraction(code.high))
        return
    for digits in range(code.high.bit_length() - 1, -1, -1):
        end = code.grid * 2**digits
        yield known & Interval(-end, end)


def _refuse_unfit(call: Call, relation: Relation) -> None:
    options = call.options
    if options.rho is not None:
        code, title = "DPQ206", "bounds='auto' does not go with rho"
        label = "bounds are found for an epsilon"
        why = "a share of rho is no epsilon, and the call would cost more than it says."
    elif options.wanted is not None:
        code, title = "DPQ206", "bounds='auto' does not go with an error"
        label = "the noise depends on what is found"
        why = "eps is found from the error and the bounds, so these are stated."
    elif options.group_bounds is not None:
        code, title = "DPQ206", "bounds='auto' does not go with contribution_bounds_per_group"
        label = "what is in a group is clamped as a total"
        why = "the totals are in steps of the rows' values, so that both are stated."
    elif any(constants_in((call.inputs, relation))):
        code, title = "DPQ401", f"the bounds of {call.written} cannot be found"
        label = "an earlier release is part of the rows"
        why = "bounds are kept for an expression, and this one is another each time."
    else:
        return
    raise refusal(code, title, options.bounds_span, label, why, narrower(call))


def limit_is_found(call: Call, relation: Relation) -> bool:
    """Return whether a release can find how many rows of a unit count for a call."""
    options = call.options
    of_rows = not call.distinct and options.group_bounds is None
    waits = any(constants_in(relation))
    asked = options.rho is not None or options.wanted is not None
    return of_rows and not (waits or options.of_table or asked)


def _row_key(call: Call, relation: Relation, policy: Policy) -> str:
    """Name the rows of a relation by unit, and the power of ten that the epsilon is up to."""
    epsilon, power = call.options.epsilon, 0
    while epsilon > Fraction(10) ** power:
        power += 1
    while epsilon <= Fraction(10) ** (power - 1):
        power -= 1
    places = places_of(relation, policy)
    return _hashed(("rows", power, relation, places, policy.neighbours.value))


def _key(call: Call, relation: Relation, policy: Policy) -> str:
    """Name an expression over a relation, under what the policy says of both.

    Types, ranges and grids are in the expressions; of a table what matters is where it is and
    whose rows are in it.
    """
    places = places_of(relation, policy)
    return _hashed((relation, call.argument, places, policy.neighbours.value))


def _hashed(said: tuple[object, ...]) -> str:
    return hashlib.sha256(Writer().text(said).encode()).hexdigest()


def places_of(relation: Relation, policy: Policy) -> tuple[object, ...]:
    """Say of each table of a relation where it is, and whose rows are in it."""
    names = {one.table for one in tables_of(relation)}
    names |= {node.table for node in walk(relation) if isinstance(node, PublicJoin)}
    tables = [policy.tables[name] for name in sorted(names) if name in policy.tables]
    places = tuple(
        (table.name, *place_of(table, policy), table.unit, table.single) for table in tables
    )
    return (*places, *sorted(names - {*policy.tables}))  # of others, the name tells the rows
