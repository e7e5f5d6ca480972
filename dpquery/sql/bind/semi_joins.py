"""WHERE over private rows, and the subqueries in it.

A subquery over private rows may say whether the unit of a row occurs in it, in a row that meets
conditions over both, and nothing else: `IN`, `NOT IN`, EXISTS and NOT EXISTS on the unit, among
the outer ANDs of WHERE. A subquery over public tables alone is a list of public values.
"""

from __future__ import annotations

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
from dpquery.sql.bind.expressions import Conditions, conjuncts, operand
from dpquery.sql.bind.from_clause import Context, Derived, Private
from dpquery.sql.bind.joins import same_units, semi_join
from dpquery.sql.bind.scope import Scope, fold, is_call, written_name
from dpquery.sql.parse.literals import unwrapped
from dpquery.sql.parse.spans import Spans, outside

_OF_EXISTS = frozenset({"expressions", "from_", "joins", "where", "distinct"})
"""Clauses that say which rows there are, or nothing of it."""


def filtered(context: Context, rows: Private, where: exp.Where | None) -> Private:
    """Keep the rows for which WHERE is true."""
    if where is None:
        return rows
    semi = _SemiJoins(context, rows)
    rest = [node for node in conjuncts(where.this) if not semi.take(node)]
    if not rest:
        return Private(semi.relation, rows.scope)
    node = where.this if semi.relation is rows.relation else _together(rest)
    condition = Conditions(rows.scope, context.spans, context).condition(node)
    return Private(Filter(context.spans.of(node), semi.relation, condition), rows.scope)


def said_of(relation: Relation) -> Expr | None:
    """Return what conditions say of all rows of a relation; None where they say nothing."""
    said: list[Expr] = []
    while isinstance(relation, Filter | SemiJoin | Windowed | PublicJoin):
        if isinstance(relation, Filter):
            said.append(relation.condition)
        relation = relation.source
    if len(said) > 1:
        return Logic(said[0].span, True, tuple(reversed(said)))
    return said[0] if said else None


def _together(nodes: list[exp.Expr]) -> exp.Expr:
    return nodes[0] if len(nodes) == 1 else exp.and_(*nodes, copy=False, wrap=False)


class _SemiJoins:
    """Joins the rows of a query with the subqueries over private rows in its WHERE."""

    def __init__(self, context: Context, rows: Private) -> None:
        self.context = context
        self.spans = context.spans
        self.scope = rows.scope
        self.relation = rows.relation

    def take(self, node: exp.Expr) -> bool:
        """Keep the rows whose unit is in a subquery, or is not, where a condition asks that."""
        span, negated = self.spans.of(node), False
        while isinstance(node, exp.Not):
            node, negated = unwrapped(node.this), not negated
        asked: list[Expr] = []
        if isinstance(node, exp.Exists):
            other, asked = self._exists(node)
        elif isinstance(node, exp.In) and node.args.get("query") is not None:
            query = self.context.query(node.args["query"])
            if not isinstance(query, Derived):
                return False
            other = query.relation
            if isinstance(unwrapped(node.this), exp.Tuple):
                asked = self._equal_rows(node, query)
                asked = list(map(_perhaps, asked)) if negated else asked
            else:
                self._require_units(node, query)
        else:
            return False
        same_units(self.context, self.relation, other, span)
        sides = (self.relation, other)
        self.relation = semi_join(self.context, span, sides, negated, asked)
        return True

    def _require_units(self, node: exp.In, query: Derived) -> None:
        """Require a subquery of one column, which is the unit."""
        shown = {*map(fold, query.columns), *query.owners}
        if not self.scope.owns(unwrapped(node.this)) or len(shown) != 1 or shown - query.owners:
            self._refuse_off_unit(node, query)

    def _refuse_off_unit(self, node: exp.In, query: Derived) -> NoReturn:
        """Refuse a subquery; offer its text with the unit for what it selects."""
        source, span = self.spans.source, self.spans.of(node.args["query"])
        name, select = written_name(query.table.unit or ""), node.args["query"].find(exp.Select)
        items = [] if select is None else [self.spans.of(item) for item in select.expressions]
        remedy = f"{name} IN (SELECT {name} ...)"
        if items and "(" in source.snippet(span)[:1]:
            first, last = items[0].start, items[-1].end
            before, after = source.text[span.start : first], source.text[last : span.end]
            remedy = f"{name} IN {before}{name}{after}"
        self._refuse(self.spans.of(node), query.table.unit, remedy)

    def _equal_rows(self, node: exp.In, query: Derived) -> list[Expr]:
        """Bind a row of values that is looked for among rows: one pair are the units."""
        select, given = node.args["query"].find(exp.Select), unwrapped(node.this).expressions
        names = [] if select is None else [fold(i.alias_or_name) for i in select.expressions]
        known, columns = {*map(fold, query.columns)}, iter(query.columns.values())
        rows, found, tied = Conditions(self.scope, self.spans), [], False
        for name, value in zip(names, given, strict=False):
            own = name in query.owners
            column = next(columns, None) if name in known or not own else None
            if own and self.scope.owns(unwrapped(value)):
                tied = True
            elif column is not None:
                found.append(rows.equal(self.spans.of(value), rows.bind(value), column))
        if not tied or len(found) + 1 != len(given) or len(names) != len(given):
            self._refuse_off_unit(node, query)
        return found

    def _exists(self, node: exp.Exists) -> tuple[Relation, list[Expr]]:
        """Bind EXISTS: private rows, tied to the rows outside by the unit, and what it asks."""
        select, span, unit = node.this, self.spans.of(node), self.scope.table.unit
        if not isinstance(select, exp.Select) or any(
            clause for slot, clause in select.args.items() if slot not in _OF_EXISTS
        ):
            self._refuse(span, unit)
        inner = self.context.rows(select)
        if not isinstance(inner, Private):
            self._refuse(span, unit)
        own, where = inner.scope, select.args.get("where")
        both = Conditions(_inside(own, self.scope), self.spans)
        for item in select.expressions:
            _require_of_rows(both, item.unalias())
        conditions = conjuncts(None if where is None else where.this)
        others = [one for one in conditions if not _ties(one, own, self.scope)]
        if len(others) == len(conditions):
            self._refuse(span, unit, self._tied(span, select, own))
        asked = [one for one in others if _speaks_of(one, own, self.scope)]
        rest = [one for one in others if not _speaks_of(one, own, self.scope)]
        if rest:
            inner = filtered(self.context, inner, exp.Where(this=_together(rest)))
        return inner.relation, list(map(both.condition, asked))

    def _tied(self, span: Span, select: exp.Select, inner: Scope) -> str:
        """Write EXISTS with an equality of the units for conditions that speak of outside."""
        unit, where = written_name(self.scope.table.unit or ""), select.args.get("where")
        sides = (inner.members, self.scope.members)
        owners = [next((m for m in side if m.owners), side[0]) for side in sides]
        aliases = [written_name(member.alias) for member in owners]
        tie = " = ".join(f"{alias}.{unit}" for alias in aliases)
        text = self.spans.source.text
        if where is None:
            end = self.spans.of(select).end
            return f"{text[span.start : end]} WHERE {tie}{text[end : span.end]}"
        own = [
            operand(node, self.spans)
            for node in conjuncts(where.this)
            if not any(fold(c.table) in self.scope.aliases for c in node.find_all(exp.Column))
        ]
        at, asked = self.spans.of(where.this), " AND ".join([tie, *own])
        return f"{text[span.start : at.start]}{asked}{text[at.end : span.end]}"

    def _refuse(self, span: Span, unit: str | None, remedy: str = "") -> NoReturn:
        name = written_name(unit or self.scope.table.unit or "unit")
        title = "a subquery over private rows may only say which units occur in it"
        label = f"not on {name}" if unit else "its rows are units of their own"
        why = (
            "any other value of it would let one unit's rows decide about another's;",
            "a DP_ function in it releases a value that may be compared.",
        )
        if not unit or not remedy:
            remedy = f"{name} IN (SELECT {name} ...)"
        raise refusal("DPQ307", title, span, label, why, remedy)


def _perhaps(expr: Expr) -> Expr:
    """Take a comparison with NULL for true: NOT IN leaves out what may be equal."""
    return apply(expr.span, "COALESCE", expr, Literal(expr.span, True, BOOLEAN))


def _require_of_rows(rows: Conditions, item: exp.Expr) -> None:
    """Refuse what is no value of rows in a SELECT list that nobody sees."""
    found = item.find(exp.AggFunc)
    if found is not None:
        span, what = rows.spans.of(found), "an aggregate in EXISTS"
        raise outside(what, span, "this always gives one row", "1")
    if not item.is_star and not isinstance(item, exp.Null):
        rows.bind(item)


def _inside(inner: Scope, outer: Scope) -> Scope:
    """Return what names mean inside a subquery: its own first, then those around it."""
    around = (m for m in outer.members if fold(m.alias) not in inner.aliases)
    hidden = (replace(m, hidden=m.hidden | inner.names) for m in around)
    return Scope((*inner.members, *hidden), inner.table)


def _speaks_of(condition: exp.Expr, inner: Scope, outer: Scope) -> bool:
    """Return whether a condition names a column around the subquery, and no further query."""
    if condition.find(exp.Select) is not None:
        return False
    around, names = outer.aliases - inner.aliases, inner.names
    return any(
        fold(column.table) in around
        if column.table
        else fold(column.name) not in names and outer.knows(column.name)
        for column in condition.find_all(exp.Column)
    )


def _ties(node: exp.Expr, inner: Scope, outer: Scope) -> bool:
    """Return whether a condition equates the unit inside with the unit outside.

    The latter is named with its relation, which the subquery has none of the name of.
    """
    if not isinstance(node, exp.EQ):
        return False
    one, other = unwrapped(node.this), unwrapped(node.expression)
    return any(
        inner.owns(own)
        and outer.owns(tied)
        and tied.text("table")
        and fold(tied.text("table")) not in inner.aliases
        for own, tied in ((one, other), (other, one))
    )


# WHERE chooses rows before anything is released; what asks for a result belongs in HAVING.


def refuse_results_in_where(select: exp.Select, scope: Scope, spans: Spans) -> None:
    """Refuse a WHERE that speaks of what the query releases, by its call or by its name."""
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
    results = filter(is_result, where.dfs(prune=_is_query)) if where is not None else ()
    for node in results:
        moved: list[str] = []
        others: list[str] = []
        for one in conjuncts(select.args["where"].this):
            asked = any(map(is_result, one.walk(prune=_is_query)))
            (moved if asked else others).append(operand(one, spans))
        span, label = spans.of(node), "computed from the rows chosen here"
        name = spans.source.snippet(span)
        if is_call(node):
            span, label = spans.name(node), "among the rows it would count"
            name = spans.source.snippet(span).upper()
        why = "WHERE chooses rows, before anything is counted; HAVING chooses results."
        remedy = _with_having(select, spans, others, moved)
        raise refusal("DPQ303", f"{name} cannot stand here", span, label, why, remedy)


def _is_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Query)


def _with_having(select: exp.Select, spans: Spans, others: list[str], moved: list[str]) -> str:
    """Write the query with what WHERE says of results moved to HAVING."""
    having = select.args.get("having")
    if having is not None:
        moved.append(operand(having.this, spans))
    asked = f"HAVING {' AND '.join(moved)}"

    def clause(word: TokenType) -> str:
        span = spans.clause(word)
        return "" if span is None else spans.source.snippet(span)

    clauses = [
        *map(clause, (TokenType.SELECT, TokenType.FROM)),
        f"WHERE {' AND '.join(others)}" if others else "",
        clause(TokenType.GROUP_BY),
        asked,
        *map(clause, (TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET)),
    ]
    query = " ".join(filter(None, clauses))
    return asked if "\n" in query else query
