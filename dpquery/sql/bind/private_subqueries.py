"""A SELECT over private rows that releases nothing: again a relation, by rows or by units.

Its columns are expressions, written out where they are used. GROUP BY and DISTINCT keep the
unit among their keys, because rows of different units would else become one row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.errors import QueryRefused, advice, refusal
from dpquery.ir.expr import Compare, Comparison, Expr
from dpquery.ir.relations import Filter, Output, PerUnit, UnionAll
from dpquery.sql.bind.from_clause import (
    Context,
    Derived,
    Private,
    columns_of,
    derived_ref,
    is_star,
    merged_ref,
)
from dpquery.sql.bind.group_by_clause import key_of, refuse_sets
from dpquery.sql.bind.joins.join_keys import enough, keys_at, keys_held
from dpquery.sql.bind.joins.private_joins import semi_join
from dpquery.sql.bind.joins.where_subqueries import null_safe
from dpquery.sql.bind.rows.per_unit_rows import (
    PerUnitRows,
    WindowRows,
    WrittenOut,
    is_exact_aggregate,
)
from dpquery.sql.bind.rows.typed_expressions import alike
from dpquery.sql.bind.scope import Scope, fold, written_name
from dpquery.sql.parse.literals import unwrapped
from dpquery.sql.parse.spans import outside
from dpquery.sql.suggest.join_refusals import refuse_across, refuse_group, refuse_without_unit

_ACROSS_UNITS = {"limit": "LIMIT", "offset": "OFFSET", "order": "ORDER BY"}
_MISPLACED = {
    "qualify": ("QUALIFY beside GROUP BY", advice("QUALIFY in a query around this one")),
    "having": ("HAVING without GROUP BY", advice("WHERE in place of HAVING")),
}
"""What a SELECT of the other kind has, and what says the same."""


def derive(context: Context, select: exp.Select, rows: Private) -> Derived:
    """Bind a SELECT whose rows stay private."""
    for slot, word in _ACROSS_UNITS.items():
        clause = select.args.get(slot)
        if clause is not None:
            refuse_across(context, clause, word, rows.scope)
    grouped = select.args.get("group") is not None
    if grouped or any(map(is_exact_aggregate, _own_nodes(select))):
        found = _per_unit(context, select, rows)
    else:
        found = _derived(select, "qualify", WindowRows(context, rows), context)
    found = _distinct(context, select, found) if select.args.get("distinct") else found
    context.small(found.relation, context.spans.of(select))
    return found


def _own_nodes(select: exp.Select) -> list[exp.Expr]:
    """Give the nodes of the SELECT list and HAVING that are not inside a window or subquery."""
    roots = [*select.expressions, select.args.get("having"), select.args.get("qualify")]
    found: list[exp.Expr] = []
    pending = [root for root in roots if root is not None]
    while pending:
        node = pending.pop()
        found.append(node)
        if not isinstance(node, exp.Window | exp.Query):
            pending.extend(node.iter_expressions())
    return found


def _derived(
    select: exp.Select, slot: str, rows: WindowRows | PerUnitRows, context: Context
) -> Derived:
    """Bind the SELECT list, and then HAVING or QUALIFY, where its names may stand."""
    shown = _SelectList(context, rows)
    shown.bind(select)
    for other, (word, remedy) in _MISPLACED.items():
        if other != slot and select.args.get(other) is not None:
            span = rows.spans.of(select.args[other])
            raise outside(word, span, "not understood", remedy)
    clause, relation = select.args.get(slot), rows.relation
    if clause is not None:
        names = WrittenOut(rows.scope, select.expressions)
        condition = rows.condition(names.whole(clause.this))
        relation = Filter(rows.spans.of(clause.this), rows.relation, condition)
    return Derived(relation, shown.columns, frozenset(shown.owners), rows.scope.table)


class _SelectList:
    """Binds a SELECT list: columns by name, and the names under which it gives the unit."""

    def __init__(self, context: Context, rows: WindowRows | PerUnitRows) -> None:
        self.rows = rows
        self.scope = rows.scope
        self.spans = context.spans
        self.columns: dict[str, Expr] = {}
        self.owners: set[str] = set()
        self._units: set[str] = set()
        """The columns that are the unit's: no other may have its name."""

    def bind(self, select: exp.Select) -> None:
        names = WrittenOut(self.scope)
        for node in select.expressions:
            if is_star(node):
                self._star(node)
                continue
            value = names.whole(node.unalias())
            names.note(node)
            inner = unwrapped(value)
            name = node.alias or (inner.name if isinstance(inner, exp.Column) else "")
            name = name or self.spans.text(value)
            own = {fold(name)} if self.scope.owns(inner) else set()
            self.owners |= own
            if not _hidden_unit(self.scope, inner):
                self._add(name, self.rows.bind(value), self.spans.of(node))
                self._units |= own
        for name, expr in self.columns.items():
            if fold(name) in self.owners - self._units:
                self._refuse_name(name, expr, self.spans.of(select.expressions[-1]))

    def _star(self, node: exp.Expr) -> None:
        """Add all columns, or those of one relation; what USING joined stands once.

        Where the star has another value for the unit's column, that column is the unit's no
        longer.
        """
        span, table = self.spans.of(node), ""
        if isinstance(node, exp.Column):
            table = node.table
            self.scope.check_qualifier(node, span)
        members = [m for m in self.scope.members if not table or fold(table) == fold(m.alias)]
        shown = [
            (name, expr, member)
            for member in members
            for name, expr in member.columns.items()
            if table or fold(name) not in member.hidden
        ]
        starred = columns_of(node, [name for name, _, _ in shown], self.spans)
        for name, expr, member in shown:
            becomes = starred.get(fold(name))
            if becomes is None:
                continue
            if becomes.value is not None:
                self._add(becomes.name, self.rows.bind(becomes.value), span)
                continue
            self._add(becomes.name, self.rows.shown(name, expr, span), span)
            self._units |= {fold(becomes.name)} if fold(name) in member.owners else set()
        named = {fold(name) for name, _, _ in shown}
        self.owners |= self._units.union(*(member.owners - named for member in members))

    def _add(self, name: str, expr: Expr, span: Span) -> None:
        if fold(name) in map(fold, self.columns):
            self._refuse_name(name, expr, span)
        self.columns[name] = expr

    def _refuse_name(self, name: str, expr: Expr, span: Span) -> NoReturn:
        typed = span.start <= expr.span.start and expr.span.end <= span.end  # not by a star
        value = f"{self.spans.source.snippet(expr.span)} " if typed else ""
        title = f"two columns are called {name[:80]}"
        why = "the query around finds columns by their names."
        remedy = f"{value}AS {written_name(f'{name[:80]}_2')}"
        written = self.spans.source.snippet(span)
        equal = rf"(?i)\bON\s+\w+\.{re.escape(name)}\s*=\s*\w+\.{re.escape(name)}\b"
        using = re.sub(equal, lambda _: f"USING ({written_name(name)})", written)
        remedy = using if using != written else remedy
        raise refusal("DPQ211", title, span, "the second one", why, remedy)


def _distinct(context: Context, select: exp.Select, found: Derived) -> Derived:
    """Keep one of equal rows of a unit."""
    node = select.args["distinct"]
    if node.args.get("on") is not None:
        span = context.spans.of(node)
        raise outside("DISTINCT ON", span, "not understood", "SELECT DISTINCT")
    keyed = (keys_held(expr, found.relation, context.policy) for expr in found.columns.values())
    if not found.owners and not enough(*keyed):
        refuse_without_unit(context, context.spans.of(select.expressions[0]), "DISTINCT", found)
    return _distinct_rows(context, context.spans.of(select), found)


def _distinct_rows(context: Context, span: Span, found: Derived) -> Derived:
    """Keep one of equal rows of a unit, which is among the columns."""
    number, exprs = context.numbers(), dict.fromkeys(found.columns.values())
    keys = {expr: Output(f"x{i}", expr) for i, expr in enumerate(exprs)}
    columns = {name: derived_ref(keys[expr], number) for name, expr in found.columns.items()}
    own = (keys[e].name for name, e in found.columns.items() if fold(name) in found.owners)
    outputs = tuple(keys.values())
    relation = PerUnit(span, found.relation, number, outputs, (), frozenset(own))
    return Derived(relation, columns, found.owners, found.table)


def _per_unit(context: Context, select: exp.Select, rows: Private) -> Derived:
    """Bind GROUP BY with the unit: order-free aggregates of each unit's rows."""
    nodes = _group_nodes(context, select, rows.scope)
    bound = PerUnitRows(context, rows, context.spans.of(select))
    inner = [*map(unwrapped, nodes)]
    tied = enough(*(keys_at(node, rows, context.policy) for node in inner))
    if not tied and not any(map(rows.scope.owns, inner)):
        first = next((n for n in _own_nodes(select) if is_exact_aggregate(n)), select)
        refuse_group(context, first, nodes, bound.base)
    for node in nodes:
        if not _hidden_unit(rows.scope, node):
            bound.group(node)
    return _derived(select, "having", bound, context)


def _hidden_unit(scope: Scope, node: exp.Expr) -> bool:
    inner = unwrapped(node)
    return scope.owns(inner) and isinstance(inner, exp.Column) and not scope.knows(inner.name)


def _group_nodes(context: Context, select: exp.Select, scope: Scope) -> list[exp.Expr]:
    """Give the grouping expressions: a number counts columns, ALL takes all but aggregates."""
    group = select.args.get("group")
    if group is None:
        return []
    if group.args.get("all"):
        items = (item.unalias() for item in select.expressions)
        return [i for i in items if not any(is_exact_aggregate(n) for n in i.walk())]
    refuse_sets(group, context.spans)
    return [
        node if scope.owns(node) else key_of(node, select.expressions, scope, context.spans)
        for node in group.expressions
    ]


def combined_rows(context: Context, node: exp.SetOperation, arms: Sequence[Derived]) -> Derived:
    """Put the rows of two relations together: columns by position, of types that match.

    But for UNION ALL, equal rows become one, and stand in the other relation, or do not: so the
    unit is among the columns of both, in one place, and each unit's rows are compared with its
    own. Each row that is left is one of the unit's in the first relation.
    """
    span, (first, second) = context.spans.of(node), arms
    distinct = bool(node.args.get("distinct"))
    if not distinct and not isinstance(node, exp.Union):
        word = node.key.upper()
        text, after = context.spans.source.text, context.spans.of(node.this).end
        words = re.compile(rf"\b{word}\s+ALL\b", re.IGNORECASE).search(text, after)
        span = Span(*words.span()) if words is not None else span
        raise outside(f"{word} ALL", span, "not understood", word)
    if len(second.columns) != len(first.columns):
        word = node.key.upper() + ("" if distinct else " ALL")
        raise uneven(word, len(first.columns), len(second.columns), span)
    owners = _owners_of(first, second)
    if distinct and not owners:
        _refuse_units_apart(context, node, first, second)
    rows = zip(first.columns.values(), second.columns.values(), strict=True)
    remedy = advice("give both sides columns of the same types")
    aligned = [alike(span, list(column), lambda: remedy) for column in rows]
    if isinstance(node, exp.Union):
        found = _union_all(context, span, arms, aligned, owners)
        return _distinct_rows(context, span, found) if distinct else found
    sides = zip(arms, zip(*aligned, strict=True), strict=True)
    ours, theirs = (
        _distinct_rows(
            context,
            span,
            replace(arm, columns=dict(zip(first.columns, exprs, strict=True)), owners=owners),
        )
        for arm, exprs in sides
    )
    both = ((n, ours.columns[n], theirs.columns[n]) for n in first.columns)
    pairs = (pair for n, a, b in both if fold(n) not in owners for pair in null_safe(a, b))
    asked = [Compare(span, Comparison.EQ, *pair) for pair in pairs]
    negated = isinstance(node, exp.Except)
    relation = semi_join(context, span, (ours.relation, theirs.relation), negated, asked)
    return replace(ours, relation=relation)


def _refuse_units_apart(
    context: Context, node: exp.SetOperation, first: Derived, second: Derived
) -> NoReturn:
    """Refuse to compare rows of which the unit is not one column in both relations."""
    word, span = node.key.upper(), context.spans.of(node)
    if first.owners and second.owners:
        label, unit = "compared with another column", written_name(first.table.unit or "")
        remedy = advice(f"give {unit} the same place on both sides")
        raise outside(f"{word} with the unit in two places", span, label, remedy)
    arm, found = (node.expression, second) if first.owners else (node.this, first)
    item = next(arm.find_all(exp.Select)).expressions[0]
    refuse_without_unit(context, context.spans.of(item), word, found)


def _owners_of(first: Derived, second: Derived) -> frozenset[str]:
    """Return the names under which two relations together give the unit."""
    names = [list(map(fold, arm.columns)) for arm in (first, second)]
    pairs = zip(*names, strict=True)
    owners = {one for one, other in pairs if one in first.owners and other in second.owners}
    ours, theirs = (
        arm.owners - set(own) for arm, own in zip((first, second), names, strict=True)
    )
    return frozenset(owners.union(ours if theirs else ()))


def _union_all(
    context: Context,
    span: Span,
    arms: Sequence[Derived],
    aligned: Sequence[Sequence[Expr]],
    owners: frozenset[str],
) -> Derived:
    """Put all rows of several relations together."""
    number = context.numbers()
    outputs = [[Output(f"x{i}", expr) for expr in column] for i, column in enumerate(aligned)]
    refs = (merged_ref(column, number) for column in outputs)
    columns = dict(zip(arms[0].columns, refs, strict=True))
    made = zip((arm.relation for arm in arms), zip(*outputs, strict=True), strict=True)
    relation = context.small(UnionAll(span, number, tuple(made)), span)
    return Derived(relation, columns, owners, arms[0].table)


def uneven(word: str, left: int, right: int, span: Span) -> QueryRefused:
    """Return the refusal to put relations together that have not as many columns."""
    title = f"{word} of {left} and {right} columns"
    why = "columns are put together by their places."
    remedy = advice("give both sides the same number of columns")
    return refusal("DPQ208", title, span, "another number of columns", why, remedy)
