"""WHERE over private rows, and the subqueries in it.

A subquery over private rows may say whether the unit of a row occurs in it, in a row that meets
conditions over both, and nothing else: `IN`, `NOT IN`, EXISTS and NOT EXISTS on the unit, among
the outer ANDs of WHERE. A subquery over public tables alone is a list of public values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from sqlglot import TokenType
from sqlglot import expressions as exp

from dpquery.core.source import Span
from dpquery.core.types import BOOLEAN
from dpquery.errors import refusal
from dpquery.ir.expr import Expr, Literal, Logic
from dpquery.ir.relations import Filter, PublicJoin, Relation, SemiJoin, Windowed
from dpquery.rowfunctions import apply
from dpquery.sql.bind.expressions import Conditions, chain, conjuncts
from dpquery.sql.bind.from_clause import Context, Derived, Private
from dpquery.sql.bind.joins import same_units, semi_join
from dpquery.sql.bind.scope import Scope, fold, is_call, written_name
from dpquery.sql.parse.literals import unwrapped
from dpquery.sql.parse.spans import Spans, outside

_OF_EXISTS = frozenset({"expressions", "from_", "joins", "where", "distinct"})
"""Clauses that say which rows there are, or nothing of it."""


def filtered(context: Context, rows: Private, where: exp.Where | None) -> Private:
    """Keep the rows for which WHERE is true.

    Raises:
        RuleRefused: DPQ307 a subquery over private rows that does not speak of the unit.
    """
    if where is None:
        return rows
    relation, rest = rows.relation, []
    for part in conjuncts(where.this):
        joined = _semi(context, relation, rows.scope, part)
        if joined is None:
            rest.append(part)
        else:
            relation = joined
    if not rest:
        return Private(relation, rows.scope)
    binder = Conditions(rows.scope, context.spans, context)
    node = where.this if relation is rows.relation else _together(rest)
    condition = binder.condition(node)
    return Private(Filter(context.spans.of(node), relation, condition), rows.scope)


def said_of(relation: Relation) -> Expr | None:
    """Return what conditions say of all rows of a relation; None where they say nothing."""
    said: list[Expr] = []
    while True:
        match relation:
            case Filter(source=source, condition=condition):
                said.append(condition)
                relation = source
            case SemiJoin(source=source) | Windowed(source=source) | PublicJoin(source=source):
                relation = source
            case _:
                break
    if len(said) > 1:
        return Logic(said[0].span, True, tuple(reversed(said)))
    return said[0] if said else None


def _together(parts: list[exp.Expr]) -> exp.Expr:
    return parts[0] if len(parts) == 1 else exp.and_(*parts, copy=False, wrap=False)


def _semi(
    context: Context, relation: Relation, scope: Scope, part: exp.Expr
) -> Relation | None:
    """Return the rows whose unit is in a subquery, or is not; None where a part is not that."""
    span, negated = context.spans.of(part), False
    while isinstance(part, exp.Not):
        part, negated = unwrapped(part.this), not negated
    asked: list[Expr] = []
    if isinstance(part, exp.Exists):
        other, asked = _exists(context, scope, part)
    elif isinstance(part, exp.In) and part.args.get("query") is not None:
        query = context.query(part.args["query"])
        if not isinstance(query, Derived):
            return None
        if isinstance(unwrapped(part.this), exp.Tuple):
            other, asked = query.relation, _equal_rows(context, scope, part, query)
            asked = [_perhaps(expr) for expr in asked] if negated else asked
        else:
            other = _units_of(context, scope, part, query)
    else:
        return None
    same_units(context, relation, other, span)
    return semi_join(context, span, (relation, other), negated, asked)


def _units_of(context: Context, scope: Scope, part: exp.In, query: Derived) -> Relation:
    """Take a subquery of one column, which is the unit, as a list of units."""
    shown = {*map(fold, query.columns), *query.owners}
    if not scope.owns(unwrapped(part.this)) or shown - query.owners or len(shown) != 1:
        unit = query.table.unit
        remedy = _of_units(context, part.args["query"], unit or "")
        _refuse(context, context.spans.of(part), unit, scope, remedy)
    return query.relation


def _of_units(context: Context, query: exp.Expr, unit: str) -> str:
    """Write the subquery as a list of units: its text, with the unit for what it selects."""
    source, span, name = context.spans.source, context.spans.of(query), written_name(unit)
    select = query.find(exp.Select)
    items = [] if select is None else [context.spans.of(item) for item in select.expressions]
    if not items or "(" not in source.snippet(span)[:1]:
        return f"{name} IN (SELECT {name} ...)"
    first, last = items[0].start, items[-1].end
    return f"{name} IN {source.text[span.start : first]}{name}{source.text[last : span.end]}"


def _equal_rows(context: Context, scope: Scope, part: exp.In, query: Derived) -> list[Expr]:
    """Bind a row of values that is looked for among rows: one pair of them are the units."""
    select, given = part.args["query"].find(exp.Select), unwrapped(part.this).expressions
    names = [] if select is None else [fold(item.alias_or_name) for item in select.expressions]
    known, columns = {*map(fold, query.columns)}, iter(query.columns.values())
    rows, found, tied = Conditions(scope, context.spans), [], False
    for name, value in zip(names, given, strict=False):
        column = next(columns, None) if name in known or name not in query.owners else None
        if name in query.owners and scope.owns(unwrapped(value)):
            tied = True
        elif column is not None:
            found.append(rows.equal(context.spans.of(value), rows.bind(value), column))
    if not tied or len(found) + 1 != len(given) or len(names) != len(given):
        remedy = _of_units(context, part.args["query"], query.table.unit or "")
        _refuse(context, context.spans.of(part), query.table.unit, scope, remedy)
    return found


def _perhaps(expr: Expr) -> Expr:
    """Take a comparison with NULL for true: NOT IN leaves out what may be equal."""
    return apply(expr.span, "COALESCE", expr, Literal(expr.span, True, BOOLEAN))


def _exists(context: Context, scope: Scope, part: exp.Exists) -> tuple[Relation, list[Expr]]:
    """Bind EXISTS: private rows, tied to the rows outside by the unit, and what it asks."""
    select, span = part.this, context.spans.of(part)
    if not isinstance(select, exp.Select) or any(
        part for slot, part in select.args.items() if slot not in _OF_EXISTS
    ):
        _refuse(context, span, scope.table.unit, scope)
    inner = context.rows(select)
    if not isinstance(inner, Private):
        _refuse(context, span, scope.table.unit, scope)
    where = select.args.get("where")
    rest, asked, tied = [], [], False
    both = Conditions(_inside(inner.scope, scope), context.spans)
    for item in select.expressions:
        _require_of_rows(both, item.unalias())
    for condition in conjuncts(None if where is None else where.this):
        if _ties(condition, inner.scope, scope):
            tied = True
        elif _speaks_of(condition, inner.scope, scope):
            asked.append(condition)
        else:
            rest.append(condition)
    if not tied:
        remedy = _tied(context, span, select, inner.scope, scope)
        _refuse(context, span, scope.table.unit, scope, remedy)
    kept = filtered(context, inner, exp.Where(this=_together(rest))) if rest else inner
    return kept.relation, [both.condition(condition) for condition in asked]


def _require_of_rows(rows: Conditions, item: exp.Expr) -> None:
    """Refuse what is no value of rows in a SELECT list that nobody sees."""
    found = item.find(exp.AggFunc)
    if found is not None:
        span, what = rows.spans.of(found), "an aggregate in EXISTS"
        raise outside(what, span, "one row, whatever there is", "1")
    if not item.is_star and not isinstance(item, exp.Null):
        rows.bind(item)


def _inside(inner: Scope, outer: Scope) -> Scope:
    """Return what names mean inside a subquery: its own first, then those around it."""
    own = [fold(member.alias) for member in inner.members]
    names = {fold(name) for name in inner.columns}.union(*(m.owners for m in inner.members))
    around = (replace(m, hidden=m.hidden | names) for m in outer.members)
    return Scope(
        (*inner.members, *(m for m in around if fold(m.alias) not in own)), inner.table
    )


def _speaks_of(condition: exp.Expr, inner: Scope, outer: Scope) -> bool:
    """Return whether a condition names a column around the subquery, and no further query."""
    if condition.find(exp.Select) is not None:
        return False
    own = {fold(member.alias) for member in inner.members}
    names = {fold(name) for name in inner.columns}.union(*(m.owners for m in inner.members))
    around = {fold(member.alias) for member in outer.members} - own
    return any(
        fold(column.table) in around
        if column.table
        else fold(column.name) not in names and outer.knows(column.name)
        for column in condition.find_all(exp.Column)
    )


def _tied(context: Context, span: Span, select: exp.Select, inner: Scope, outer: Scope) -> str:
    """Write EXISTS with an equality of the units for its conditions that speak of outside."""
    unit, where = written_name(outer.table.unit or ""), select.args.get("where")
    aliases = [written_name(scope.members[0].alias) for scope in (inner, outer)]
    tie = " = ".join(f"{alias}.{unit}" for alias in aliases)
    text, start = context.spans.source.text, context.spans.of(select).end
    if where is None:
        return f"{text[span.start : start]} WHERE {tie}{text[start : span.end]}"
    outside = {fold(member.alias) for member in outer.members}
    kept = [
        f"({context.spans.text(part)})"
        if isinstance(part, exp.Or)
        else context.spans.text(part)
        for part in conjuncts(where.this)
        if not any(fold(column.table) in outside for column in part.find_all(exp.Column))
    ]
    at = context.spans.of(where.this)
    return f"{text[span.start : at.start]}{' AND '.join([tie, *kept])}{text[at.end : span.end]}"


def _ties(part: exp.Expr, inner: Scope, outer: Scope) -> bool:
    """Return whether a condition equates the unit inside with the unit outside."""
    if not isinstance(part, exp.EQ):
        return False
    sides = [unwrapped(part.this), unwrapped(part.expression)]
    for one, other in (sides, reversed(sides)):
        if inner.owns(one) and _only_outer(other, inner) and outer.owns(other):
            return True
    return False


def _only_outer(node: exp.Expr, inner: Scope) -> bool:
    """Say whether a name is not one of the subquery's own, which would hide the outer one."""
    if not isinstance(node, exp.Column):
        return False
    return bool(node.table) and all(fold(node.table) != fold(m.alias) for m in inner.members)


def _refuse(
    context: Context, span: Span, unit: str | None, scope: Scope, remedy: str = ""
) -> NoReturn:
    name = written_name(unit or scope.table.unit or "unit")
    raise refusal(
        "DPQ307",
        "a subquery over private rows may only say which units occur in it",
        span,
        f"not on {name}" if unit else "its rows are units of their own",
        (
            "any other value of it would let one unit's rows decide about another's;",
            "a DP_ function in it releases a value that may be compared.",
        ),
        remedy if unit and remedy else f"{name} IN (SELECT {name} ...)",
    )


# WHERE chooses rows before anything is released; what asks for a result belongs in HAVING.
#
# Refuses results among the rows, by their call or by their name, and writes the query that
# was meant.


_AFTER = (TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET)


def refuse_results_in_where(select: exp.Select, scope: Scope, spans: Spans) -> None:
    """Refuse a WHERE that speaks of what the query releases.

    Raises:
        RuleRefused: DPQ303.
    """
    where = select.args.get("where")
    aliases = {
        fold(item.alias)
        for item in select.expressions
        if isinstance(item, exp.Alias) and any(map(is_call, item.walk(prune=_is_query)))
    }

    def is_result(node: exp.Expr) -> bool:
        if isinstance(node, exp.Column) and not node.table and not scope.knows(node.name):
            return fold(node.name) in aliases
        return is_call(node)

    # A query inside WHERE is one of its own, and may release what is compared here.
    for node in where.dfs(prune=_is_query) if where is not None else ():
        if is_result(node):
            _refuse_in_where(select, spans, node, is_result)


def _is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query)


def _refuse_in_where(
    select: exp.Select, spans: Spans, node: exp.Expr, is_result: Callable[[exp.Expr], bool]
) -> NoReturn:
    called = is_call(node)
    span = spans.name(node) if called else spans.of(node)
    name = spans.source.snippet(span)
    raise refusal(
        "DPQ303",
        f"{name.upper() if called else name} cannot stand here",
        span,
        "among the rows it would count" if called else "computed from the rows chosen here",
        "WHERE chooses rows, before anything is counted; HAVING chooses results.",
        _with_having(select, spans, is_result),
    )


def _with_having(
    select: exp.Select, spans: Spans, is_result: Callable[[exp.Expr], bool]
) -> str:
    """Write the query with what WHERE says of results moved to HAVING."""
    condition = unwrapped(select.args["where"].this)
    kept: list[str] = []
    moved: list[str] = []
    for part in chain(condition) if isinstance(condition, exp.And) else [condition]:
        (moved if any(map(is_result, part.walk(prune=_is_query))) else kept).append(
            _operand(part, spans)
        )
    having = select.args.get("having")
    if having is not None:
        moved.append(_operand(having.this, spans))
    asked = f"HAVING {' AND '.join(moved)}"
    clauses = [
        *(_clause(spans, word) for word in (TokenType.SELECT, TokenType.FROM)),
        f"WHERE {' AND '.join(kept)}" if kept else "",
        _clause(spans, TokenType.GROUP_BY),
        asked,
        *(_clause(spans, word) for word in _AFTER),
    ]
    query = " ".join(filter(None, clauses))
    return asked if "\n" in query else query


def _operand(part: exp.Expr, spans: Spans) -> str:
    inner = unwrapped(part)
    text = spans.text(inner)
    return f"({text})" if isinstance(inner, exp.Or) else text


def _clause(spans: Spans, word: TokenType) -> str:
    span = spans.clause(word)
    return "" if span is None else spans.source.snippet(span)
