"""The last rung of the ladder of bounds: `bounds='auto'`.

Bounds come from the policy, from the query, from WHERE and the expression itself. Where none of
these gives any, a call that says bounds='auto' has them found by a release of its own, for a
share of its epsilon: over all rows of the relation, without WHERE, since they are kept in the
ledger for later calls about the same expression. Whoever paid for bounds has them free then.

A statement is charged before anything is found, so its plan is made for the widest bounds that
the call can be computed with; those that are found lie inside, and nothing that was possible
for the widest is refused for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dpquery import functions
from dpquery.canonical import Writer
from dpquery.constants import constants_in
from dpquery.errors import Diagnostic, NameRefused, PlanRefused, internal
from dpquery.functions.base import Facts, Release, narrower
from dpquery.functions.codes import known_range
from dpquery.functions.search import SHARE, SearchRelease, search_for, searched, shown
from dpquery.ir import Call, Contribution, Filter, Frontier, Relation, Scan
from dpquery.policy.model import Policy
from dpquery.policy.places import place_of
from dpquery.relations import PublicJoin, tables_of, walk
from dpquery.rowfunctions.base import CALENDAR
from dpquery.types import BOOLEAN, Interval

__all__ = [
    "Kept",
    "Search",
    "Searches",
    "clamped",
    "kept_note",
    "narrowed",
    "nothing_kept",
    "places_of",
    "planned",
]

Kept = Callable[[str], Interval | None]
"""Gives the bounds that are kept under a key, if there are any."""
TOO_WIDE = frozenset({"DPQ404", "DPQ405"})
"""How functions refuse what they could compute between narrower bounds."""


def nothing_kept(_: str) -> None:
    """Keep no bounds."""


@dataclass(frozen=True, slots=True)
class Search:
    """One release of bounds: what it reads, and the key under which they are kept."""

    key: str
    call: Call
    """The call that pays for it."""
    scan: Scan
    release: SearchRelease


@dataclass(slots=True)
class Searches:
    """The searches that one statement needs, each for all calls about one expression."""

    policy: Policy
    kept: Kept
    found: list[Search] = field(default_factory=list)

    def bounded(self, frontier: Frontier, contribution: Contribution, facts: Facts) -> Frontier:
        """Give a frontier whose calls all have bounds, be they the widest that will do.

        Raises:
            NameRefused: DPQ206 totals of a unit in a group have bounds of their own, or rho is
                asked for.
            PlanRefused: DPQ401 an earlier release is part of the argument; what the function
                refuses between all bounds.
        """
        calls = tuple(
            self._of(call, frontier.relation, contribution, facts) if _wanting(call) else call
            for call in frontier.calls
        )
        return replace(frontier, calls=calls)

    def _of(
        self, call: Call, relation: Relation, contribution: Contribution, facts: Facts
    ) -> Call:
        while isinstance(relation, Filter):
            relation = relation.source
        _refuse_unfit(call, relation)
        key = _key(call, relation, self.policy)
        kept = self.kept(key)
        if kept is not None:
            return narrowed(_widest(call, facts), kept)
        for number, search in enumerate(self.found):
            if search.key == key:
                return _waiting(_widest(call, facts), number)
        every = Facts(contribution, facts.neighbours, 1, grouped=False)
        release = search_for(call, every)
        scan = Scan(relation, contribution, release.measures)
        rest = replace(call.options, epsilon=call.options.epsilon * (1 - SHARE))
        waiting = _waiting(_widest(replace(call, options=rest), facts), len(self.found))
        self.found.append(Search(key, call, scan, release))
        return waiting


def narrowed(call: Call, found: Interval) -> Call:
    """Give a call between bounds that were found, inside of the widest that it can have."""
    widest = call.options.bounds
    assert widest is not None  # noqa: S101 - a call that has a search has the widest
    return replace(call, options=replace(call.options, bounds=widest & found))


def _wanting(call: Call) -> bool:
    """Say whether nobody chose the bounds of a call that leaves them to a release."""
    if not call.options.auto or call.argument is None or call.argument.type == BOOLEAN:
        return False
    return not known_range(call, call.argument).bounded


def _waiting(call: Call, number: int) -> Call:
    return replace(call, options=replace(call.options, search=number))


def _widest(call: Call, facts: Facts) -> Call:
    """Give a call between the widest bounds with which its function can be planned.

    Narrower bounds are then never refused: sums get smaller and codes fewer; doubles without a
    grid of their own have about as many steps between any bounds.

    Raises:
        QueryRefused: it cannot be planned between any.
    """
    refusal: PlanRefused | None = None
    for bounds in _ranges(call):
        wide = replace(call, options=replace(call.options, bounds=bounds))
        try:
            planned(wide, facts)
        except PlanRefused as refused:
            if refused.code not in TOO_WIDE:
                raise
            refusal = refusal or refused
        else:
            return wide
    assert refusal is not None  # noqa: S101 - there are ranges, and each was refused
    raise refusal


def planned(call: Call, facts: Facts) -> Release:
    """Plan the release of a call that has bounds, where it needs any."""
    function = functions.find(call.function)
    if function is None:
        raise internal("a bound call names a registered function")
    return function.plan(call, facts)


def kept_note(call: Call) -> str:
    """Say between which bounds a call is that were found before; nothing of other calls."""
    options = call.options
    if not options.auto or options.bounds is None or options.search is not None:
        return ""
    return f"{clamped(call)}: bounds that were found before"


def clamped(call: Call) -> str:
    """Say between which bounds the argument of a call is."""
    bounds, argument = call.options.bounds, call.argument
    assert bounds is not None  # noqa: S101 - the callers looked
    assert argument is not None  # noqa: S101 - there are bounds of an argument alone
    return f"{call.written} is clamped to {shown(bounds, argument.type)}"


def _ranges(call: Call) -> Iterator[Interval]:
    """Give the ranges that bounds can be found in, the widest first, as far as is known."""
    argument = call.argument
    assert argument is not None  # noqa: S101 - it wants bounds
    code, known = searched(argument), known_range(call, argument)
    if argument.type.kind in CALENDAR:
        yield known & Interval(Fraction(code.low), Fraction(code.high))
        return
    for digits in range(code.high.bit_length() - 1, -1, -1):
        end = code.grid * 2**digits
        yield known & Interval(-end, end)


def _refuse_unfit(call: Call, relation: Relation) -> None:
    options = call.options
    if options.rho is not None:
        raise NameRefused(
            Diagnostic(
                "DPQ206",
                "bounds='auto' does not go with rho",
                options.bounds_span,
                "bounds are found for an epsilon",
                ("a share of rho is no epsilon, and the call would cost more than it says.",),
                (narrower(call),),
            )
        )
    if options.group_bounds is not None:
        raise NameRefused(
            Diagnostic(
                "DPQ206",
                "bounds='auto' does not go with contribution_bounds_per_group",
                options.bounds_span,
                "what is in a group is clamped as a total",
                ("the totals are in steps of the rows' values, so that both are stated.",),
                (narrower(call),),
            )
        )
    if any(True for part in (call.argument, relation) for _ in constants_in(part)):
        raise PlanRefused(
            Diagnostic(
                "DPQ401",
                f"the bounds of {call.written} cannot be found",
                options.bounds_span,
                "an earlier release is part of the rows",
                ("bounds are kept for an expression, and this one is another each time.",),
                (narrower(call),),
            )
        )


def _key(call: Call, relation: Relation, policy: Policy) -> str:
    """Name an expression over a relation, under what the policy says of both.

    Types, ranges and grids are in the expressions; of a table what matters is where it is and
    whose rows are in it.
    """
    places = places_of(relation, policy)
    written = Writer().text((relation, call.argument, places, policy.neighbours.value))
    return hashlib.sha256(written.encode()).hexdigest()


def places_of(relation: Relation, policy: Policy) -> tuple[object, ...]:
    """Say of each table of a relation where it is, and whose rows are in it."""
    names = {one.table for one in tables_of(relation)}
    names |= {node.table for node in walk(relation) if isinstance(node, PublicJoin)}
    tables = [policy.tables[name] for name in sorted(names)]
    return tuple(
        (table.name, *place_of(table, policy), table.unit, table.single) for table in tables
    )
