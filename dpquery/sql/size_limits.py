"""Refuses scans that are too large by plan: in tables read, in nodes, in rows of one unit.

What a unit's own rows could multiply would need time and memory only if the unit is there, and
a scan that fails would tell. All limits are of the query and the policy, and they are looked at
as relations are bound: one that doubles at each level is refused before it has grown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat

from dpquery import functions
from dpquery.core.source_text import Source, Span
from dpquery.errors import QueryRefused, advice, refusal
from dpquery.functions.distributions.points_argument import Points
from dpquery.ir.expr import ColumnRef, Expr, children, longest_of
from dpquery.ir.query import Call, Frontier
from dpquery.ir.relations import (
    MOST_PAIRS,
    PerUnit,
    Project,
    Relation,
    SemiJoin,
    UnionAll,
    UnitJoin,
    Unnest,
    columns_in,
    expressions_of,
    extent_of,
    numbers,
    sources,
    tables_of,
    walk,
)
from dpquery.ir.walk import expressions_in
from dpquery.policy.model import Policy

MOST_READS = 32
"""How often a scan reads private tables, all of them together."""
MOST_NODES = 128
"""Relations that a scan is made of."""
MOST_COPIES = 64
"""Rows that one row of a unit can become."""
MOST_PAIRING = 8
"""Joins of a scan in which a unit can have several rows on both sides."""
MOST_MADE = 2 * MOST_PAIRING * MOST_PAIRS
"""Rows of one unit that joins can make, put together by UNION ALL or kept beside pairs."""
MOST_CHARACTERS = MOST_PAIRS * 512
"""Of all texts in the rows that joins make of the rows of one unit.

DuckDB may hold such texts four times over, and a character may take four bytes.
"""
MOST_OF_ROW = 2**16
"""Characters of all texts that are made of one row of a unit."""
_CUT = advice("name fewer texts, or cut them first, before a join: LEFT(text, 20)")
_ONE_ROW = advice("make one row of each unit first: GROUP BY the unit")
MOST_CALLS = 1000
"""Releases of a statement: each is a line of its charge, and is stored."""
MOST_TERMS = 4_000
"""Columns, values and operations in all expressions of a scan."""
MOST_WRITTEN = 8_000
"""The same, where each column is written out as what a subquery computes for it, as DuckDB does
where it moves a condition below."""


_SMALL = (
    (
        MOST_READS,
        "private tables are read {} times",
        advice("read fewer tables: a name of WITH counts each time that it is read"),
    ),
    (
        MOST_NODES,
        "it is made of {} steps, one inside another",
        advice("write fewer subqueries inside one another"),
    ),
    (
        MOST_COPIES,
        "one row can become {} rows",
        advice("put fewer parts together, by UNION ALL, lists or joins off a key"),
    ),
    (MOST_PAIRING, "{} joins pair several rows of a unit with several", _ONE_ROW),
    (MOST_MADE, "joins can make {} rows of one unit", _ONE_ROW),
)


def require_small(relation: Relation, policy: Policy, span: Span) -> None:
    """Refuse a relation that is too large by plan.

    Raises:
        PlanRefused: DPQ406.
    """
    nodes = list(walk(relation))
    extent = extent_of(relation, policy.single)
    pairing = sum(isinstance(n, UnitJoin | SemiJoin) and n.pairs is not None for n in nodes)
    reads, copies = len(tables_of(relation)), max(extent.one, extent.each)
    sizes = (reads, len(nodes), copies, pairing, extent.more)
    for found, (most, what, remedy) in zip(sizes, _SMALL, strict=True):
        if found > most:
            raise _too_large(span, what.format(f"{found:,}"), f"{most:,}", remedy)


def require_few_joined(count: int, span: Span) -> None:
    """Refuse so many relations in one FROM before they are joined: each is a step, or more.

    Raises:
        PlanRefused: DPQ406.
    """
    if count > MOST_NODES:
        remedy = advice("join fewer tables")
        raise _too_large(span, f"{count:,} tables are joined", f"{MOST_NODES:,}", remedy)


def require_few(frontiers: Sequence[Frontier]) -> None:
    """Refuse a statement of very many calls: its record stays in the ledger.

    Raises:
        PlanRefused: DPQ406.
    """
    calls = [call for frontier in frontiers for call in frontier.calls]
    if len(calls) > MOST_CALLS:
        raise refusal(
            "DPQ406",
            "this query is too large",
            calls[MOST_CALLS].span,
            f"it draws {len(calls):,} values of each group",
            f"the most is {MOST_CALLS:,}: each is charged, and stored, on its own.",
            advice("ask in several queries"),
        )


def every_scan_is_small(frontier: Frontier, _: Source) -> None:
    """Refuse scans whose expressions have too many terms, all of them together."""
    sizes = _written_out(frontier.relation)
    for most, known, among, remedy in (
        (MOST_TERMS, {}, "", advice("ask in several queries")),
        (
            MOST_WRITTEN,
            sizes,
            ", with those of subqueries in their place",
            advice("use what a subquery computes less often, or compute it with fewer terms"),
        ),
    ):
        terms = sum(_terms(expr, known) for expr in _roots(frontier))
        if terms > most:
            what = f"its expressions have {terms:,} terms{among}"
            raise _too_large(frontier.span, what, f"{most:,}", remedy)


def require_narrow(frontier: Frontier, policy: Policy) -> None:
    """Refuse long texts in rows that are many: in those of one unit that a plan allows.

    One row of a unit is multiplied by little; what joins make of its rows is as much whatever
    the tables hold.

    Raises:
        PlanRefused: DPQ406.
    """
    for node, characters in _texts(frontier):
        extent = extent_of(node, policy.single)
        made = 0 if extent.single else extent.more
        each = f"of {characters:,} characters each"
        for rows, most, what in (
            (extent.one, MOST_OF_ROW, f"one row becomes {extent.one:,}, {each}"),
            (made, MOST_CHARACTERS, f"joins can make {made:,} rows of one unit, {each}"),
        ):
            if characters * rows > most:
                raise _too_large(node.span, what, f"{most:,} characters in all", _CUT)


def _texts(frontier: Frontier) -> Iterator[tuple[Relation, int]]:
    """Return each relation with the characters that a row of it carries, or is made into."""
    asked = list(expressions_in((frontier.calls, frontier.keys)))
    yield frontier.relation, sum(map(longest_of, asked))
    used = columns_in(frontier.relation, *asked)
    for node in walk(frontier.relation):
        given = numbers(node)
        yield node, sum(ref.longest for ref in used if ref.of in given)
        made = sum(map(longest_of, expressions_of(node)))
        yield from ((source, made) for source in sources(node))


def _roots(frontier: Frontier) -> Iterator[Expr]:
    yield from expressions_in((frontier.calls, frontier.keys))
    for call in frontier.calls:
        yield from _compared(call)
    for node in walk(frontier.relation):
        yield from expressions_of(node)


def _compared(call: Call) -> Iterator[Expr]:
    """Return what a call compares with the ends of bins, once for each that the plan makes."""
    taken = functions.registered(call.function).positional
    if call.argument is not None and any(isinstance(one, Points) for one in taken):
        yield from repeat(call.argument, 0 if call.points else call.number or 0)


def _written_out(relation: Relation) -> dict[tuple[int, str], int]:
    """Return the terms of each column that a relation computes, down to the tables."""
    sizes: dict[tuple[int, str], int] = {}
    for node in reversed(list(walk(relation))):  # what a node reads comes first
        match node:
            case (
                Project(number=number, outputs=outputs) | Unnest(number=number, values=outputs)
            ):
                made = [(number, outputs)]
            case UnionAll(number=number, parts=parts):
                made = [(number, outputs) for _, outputs in parts]
            case PerUnit(number=number, keys=keys):
                made = [(number, keys)]
            case _:
                continue
        for of, columns in made:
            for column in columns:
                size = _terms(column.expr, sizes)
                sizes[of, column.name] = max(size, sizes.get((of, column.name), 0))
    return sizes


def _terms(root: Expr, sizes: Mapping[tuple[int, str], int]) -> int:
    """Count the terms of an expression, of columns that are more than one those of `sizes`."""
    known: dict[int, int] = {}
    pending = [root]
    while pending:
        expr = pending[-1]
        parts = children(expr)
        waiting = [part for part in parts if id(part) not in known]
        if waiting:
            pending += waiting
            continue
        own = sizes.get((expr.of, expr.name), 1) if isinstance(expr, ColumnRef) else 1
        known[id(expr)] = own + sum(known[id(part)] for part in parts)
        pending.pop()
    return known[id(root)]


def _too_large(span: Span, what: str, most: str, remedy: str) -> QueryRefused:
    why = (
        f"the most is {most}.",
        "a scan that one unit's rows could make slow, or large, would tell of them",
        "by the time it takes, or by failing.",
    )
    return refusal("DPQ406", "this query is too large", span, what, why, remedy)
