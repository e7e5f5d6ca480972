"""A SELECT over private rows that releases nothing: again a relation, by rows or by units.

Its columns are expressions, written out where they are used. GROUP BY and DISTINCT keep the
unit among their keys, because rows of different units would else become one row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.core.source import Span
from dpquery.errors import QueryRefused, refusal
from dpquery.ir.expr import Expr
from dpquery.ir.relations import Filter, Output, PerUnit, UnionAll
from dpquery.rowfunctions.base import hull
from dpquery.rowfunctions.ranges import worst
from dpquery.sql.bind.expressions import Conditions
from dpquery.sql.bind.from_clause import (
    Context,
    Derived,
    Private,
    columns_of,
    derived_ref,
    is_star,
)
from dpquery.sql.bind.groups import key_of, refuse_sets
from dpquery.sql.bind.scope import Scope, fold, written_name
from dpquery.sql.bind.typing import alike
from dpquery.sql.bind.unit_rows import (
    Aggregates,
    PerUnitRows,
    Windows,
    WrittenOut,
    is_exact_aggregate,
    written_out,
)
from dpquery.sql.parse.literals import unwrapped
from dpquery.sql.parse.spans import outside
from dpquery.sql.suggest.joins import refuse_across, refuse_group, refuse_without_unit

_ACROSS_UNITS = {
    "limit": "LIMIT",
    "offset": "OFFSET",
    "order": "ORDER BY",
}


def derive(context: Context, select: exp.Select, rows: Private) -> Derived:
    """Bind a SELECT whose rows stay private.

    Raises:
        RuleRefused: DPQ307 one unit's rows would decide about another's.
    """
    for slot, word in _ACROSS_UNITS.items():
        clause = select.args.get(slot)
        if clause is not None:
            refuse_across(context, clause, word, rows.scope)
    grouped = select.args.get("group") is not None
    if grouped or any(is_exact_aggregate(node) for node in _own_nodes(select)):
        found = _per_unit(context, select, rows)
    else:
        found = _row_by_row(context, select, rows)
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


def _row_by_row(context: Context, select: exp.Select, rows: Private) -> Derived:
    """Bind a projection, with the windows in it."""
    windows = Windows(context, rows.relation, rows.scope)
    bound = windows.rows
    columns, owners = _items(context, select, rows.scope, bound)
    qualify = select.args.get("qualify")
    kept = None if qualify is None else windows.qualified(qualify.this, select)
    relation = windows.relation
    if kept is not None and qualify is not None:
        relation = Filter(context.spans.of(qualify.this), relation, kept)
    return Derived(relation, columns, owners, rows.scope.table)


def _items(
    context: Context, select: exp.Select, scope: Scope, rows: Conditions
) -> tuple[dict[str, Expr], frozenset[str]]:
    """Bind the SELECT list: columns by name, and the names under which it gives the unit."""
    columns: dict[str, Expr] = {}
    owners: set[str] = set()
    own: set[str] = set()  # the columns that are the unit's: no other may have its name
    names = WrittenOut(scope)
    for node in select.expressions:
        if is_star(node):
            own |= _star(context, node, rows, columns, owners)
            continue
        value = node.this if isinstance(node, exp.Alias) else node
        value = names.whole(value)
        names.note(node)
        inner = unwrapped(value)
        name = node.alias or (inner.name if isinstance(inner, exp.Column) else "")
        name = name or context.spans.text(value)
        owned = scope.owns(inner)
        if owned:
            owners.add(fold(name))
        if owned and isinstance(inner, exp.Column) and not scope.knows(inner.name):
            continue
        _named(context, columns, name, rows.bind(value), context.spans.of(node))
        own |= {fold(name)} if owned else set()
    for name, expr in columns.items():
        if fold(name) in owners - own:
            _refuse_name(context, name, expr, context.spans.of(select.expressions[-1]))
    return columns, frozenset(owners)


def _star(
    context: Context,
    node: exp.Expr,
    rows: Conditions,
    columns: dict[str, Expr],
    owners: set[str],
) -> set[str]:
    """Add all columns, or those of one relation; what USING joined stands once.

    Give the folded names of the columns among them that are the unit's. Where the star puts
    another value in the unit's place, what is called so is the unit's no longer.
    """
    scope, span = rows.scope, context.spans.of(node)
    table = node.table if isinstance(node, exp.Column) else ""
    if isinstance(node, exp.Column):
        scope.check_qualifier(node, span)
    members = [m for m in scope.members if not table or fold(table) == fold(m.alias)]
    shown = [
        (name, expr, member)
        for member in members
        for name, expr in member.columns.items()
        if table or fold(name) not in member.hidden
    ]
    starred = columns_of(node, [name for name, _, _ in shown], context.spans)
    own: set[str] = set()
    for name, expr, member in shown:
        becomes = starred.get(fold(name))
        if becomes is None:
            continue
        if becomes.value is not None:
            value = rows.bind(becomes.value)
        else:
            value = rows.grouped(name, expr, span) if isinstance(rows, PerUnitRows) else expr
        _named(context, columns, becomes.name, value, span)
        if becomes.value is None and fold(name) in member.owners:
            own.add(fold(becomes.name))
    named = {fold(name) for name, _, _ in shown}
    owners |= own | {o for member in members for o in member.owners if o not in named}
    return own


def _named(
    context: Context, columns: dict[str, Expr], name: str, expr: Expr, span: Span
) -> None:
    if any(fold(name) == fold(other) for other in columns):
        _refuse_name(context, name, expr, span)
    columns[name] = expr


def _refuse_name(context: Context, name: str, expr: Expr, span: Span) -> NoReturn:
    raise refusal(
        "DPQ211",
        f"two columns are called {name[:80]}",
        span,
        "the second one",
        "the query around finds columns by their names.",
        f"{_value_in(context, expr, span)}AS {written_name(f'{name[:80]}_2')}",
    )


def _value_in(context: Context, expr: Expr, span: Span) -> str:
    """Return the text of an item without its alias; nothing where a star stands for it."""
    inside = span.start <= expr.span.start and expr.span.end <= span.end
    return f"{context.spans.source.snippet(expr.span)} " if inside else ""


def _distinct(context: Context, select: exp.Select, found: Derived) -> Derived:
    """Keep one of equal rows of a unit."""
    node = select.args["distinct"]
    if node.args.get("on") is not None:
        raise outside(
            "DISTINCT ON", context.spans.of(node), "not understood", "SELECT DISTINCT"
        )
    if not found.owners:
        refuse_without_unit(context, context.spans.of(select.expressions[0]), "DISTINCT", found)
    return _grouped_by_columns(context, found, context.spans.of(select))


def _grouped_by_columns(context: Context, found: Derived, span: Span) -> Derived:
    number = context.numbers()
    keys = _keys(found.columns.values())
    columns = {name: derived_ref(keys[expr], number) for name, expr in found.columns.items()}
    own = (keys[e].name for name, e in found.columns.items() if fold(name) in found.owners)
    outputs = tuple(keys.values())
    relation = PerUnit(span, found.relation, number, outputs, (), frozenset(own))
    return Derived(relation, columns, found.owners, found.table)


def _keys(exprs: Iterable[Expr]) -> dict[Expr, Output]:
    """Name grouping expressions, each once however often it is written."""
    return {expr: Output(f"x{i}", expr) for i, expr in enumerate(dict.fromkeys(exprs))}


def _per_unit(context: Context, select: exp.Select, rows: Private) -> Derived:
    """Bind GROUP BY with the unit: order-free aggregates of each unit's rows."""
    span, scope = context.spans.of(select), rows.scope
    base = Conditions(scope, context.spans, context)
    nodes = list(_group_nodes(context, select, scope))
    if not any(scope.owns(unwrapped(node)) for node in nodes):
        first = next((n for n in _own_nodes(select) if is_exact_aggregate(n)), select)
        refuse_group(context, first, nodes, base)
    number = context.numbers()
    keyed = [n for n in nodes if not _hidden_unit(scope, n)]
    exprs = [base.bind(node) for node in keyed]
    by_expr = _keys(exprs)
    keys = list(by_expr.values())
    own = frozenset(
        by_expr[e].name for e, n in zip(exprs, keyed, strict=True) if scope.owns(unwrapped(n))
    )
    aggregates = Aggregates(context, base, rows.relation, number)
    bound = PerUnitRows(scope, context.spans, keys, aggregates, number)
    columns, owners = _items(context, select, scope, bound)
    having = select.args.get("having")
    kept = (
        None
        if having is None
        else bound.condition(written_out(having.this, select.expressions, scope))
    )
    relation = PerUnit(span, rows.relation, number, tuple(keys), tuple(aggregates.found), own)
    if kept is None or having is None:
        return Derived(relation, columns, owners, scope.table)
    filtered = Filter(context.spans.of(having.this), relation, kept)
    return Derived(filtered, columns, owners, scope.table)


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


def union_all(context: Context, span: Span, parts: Sequence[Derived]) -> Derived:
    """Put the rows of several relations together: columns by place, of types that match.

    Raises:
        NameRefused: DPQ208 another number of columns, or types that do not match.
    """
    first, *others = parts
    for other in others:
        if len(other.columns) != len(first.columns):
            raise uneven("UNION ALL", len(first.columns), len(other.columns), span)
    number = context.numbers()
    rows = [list(part.columns.values()) for part in parts]
    aligned = [alike(span, list(column), _alike_columns) for column in zip(*rows, strict=True)]
    outputs = [
        tuple(Output(f"x{i}", column[place]) for i, column in enumerate(aligned))
        for place in range(len(parts))
    ]
    columns = {}
    for i, name in enumerate(first.columns):
        columns[name] = merged_ref([made[i] for made in outputs], number)
    owners = {
        name
        for name in map(fold, first.columns)
        if all(_owner_at(part, [*map(fold, first.columns)].index(name)) for part in parts)
    }
    hidden = first.owners - set(map(fold, first.columns))
    owners |= {o for o in hidden if all(o in part.owners for part in parts)}
    pairs = tuple((part.relation, made) for part, made in zip(parts, outputs, strict=True))
    relation = context.small(UnionAll(span, number, pairs), span)
    return Derived(relation, columns, frozenset(owners), first.table)


def uneven(word: str, left: int, right: int, span: Span) -> QueryRefused:
    """Return the refusal to put relations together that have not as many columns."""
    return refusal(
        "DPQ208",
        f"{word} of {left} and {right} columns",
        span,
        "another number of columns",
        "columns are put together by their places.",
        "give both sides the same number of columns",
    )


def _alike_columns() -> str:
    return "give both sides columns of the same types"


def _owner_at(part: Derived, place: int) -> bool:
    return fold(list(part.columns)[place]) in part.owners


def merged_ref(outputs: Sequence[Output], number: int) -> Expr:
    """Return a column that holds the values of any of several expressions."""
    refs = [derived_ref(output, number) for output in outputs]
    keys = None
    if all(ref.keys is not None for ref in refs):
        keys = tuple(sorted({key for ref in refs for key in ref.keys or ()}))
    grids = {ref.grid for ref in refs}
    return replace(
        refs[0],
        domain=hull((), [ref.domain for ref in refs]),
        bounded=all(ref.bounded for ref in refs),
        grid=grids.pop() if len(grids) == 1 else None,
        keys=keys,
        longest=max(ref.longest for ref in refs),
        clamped=all(ref.clamped for ref in refs),
        nulls=worst(ref.nulls for ref in refs),
    )
