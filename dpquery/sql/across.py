"""Subqueries whose rows would depend on several units: what is said of each, and offered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, RuleRefused
from dpquery.source import Span
from dpquery.sql.calls import Calls
from dpquery.sql.conditions import Conditions
from dpquery.sql.mending import mended
from dpquery.sql.names import Scope, fold, written_name
from dpquery.sql.sources import Context, Derived

__all__ = ["refuse_across", "refuse_correlated", "refuse_group", "refuse_without_unit"]


def refuse_across(context: Context, clause: exp.Expr, word: str, scope: Scope) -> NoReturn:
    """Refuse a clause that chooses among the rows of all units."""
    value, source = context.spans.of(clause), context.spans.source
    start = source.text.upper().rfind(word.split(maxsplit=1)[0], 0, value.start)
    span = Span(max(start, 0), value.end)
    with_blank = Span(len(source.text[: span.start].rstrip()), span.end)
    raise RuleRefused(
        Diagnostic(
            "DPQ307",
            f"{word} over private rows would let one unit decide about another",
            span,
            "chooses among the rows of all units",
            (
                "which rows are kept would depend on rows of other units, and nothing would",
                "bound what one unit changes.",
            ),
            (mended(source, with_blank, "", "leave the clause out"), _numbered(scope)),
        )
    )


def _numbered(scope: Scope) -> str:
    """Say how rows of each unit are chosen, where there are units."""
    unit = scope.table.unit
    if unit is None:
        return "each row is a unit of its own here"
    by = f"OVER (PARTITION BY {written_name(unit)})"
    return f"or choose among the rows of each unit: QUALIFY row_number() {by} = 1"


def refuse_without_unit(context: Context, span: Span, word: str, found: Derived) -> NoReturn:
    """Refuse to make one row of rows of several units."""
    unit = found.table.unit
    raise RuleRefused(
        Diagnostic(
            "DPQ307",
            f"{word} of private rows needs the unit among its columns",
            span,
            "units would become one row" if unit else "each row is a unit here",
            ("a row that stands for several units belongs to none of them.",),
            (
                f"{written_name(unit)}, {context.spans.source.snippet(span)}"
                if unit
                else "leave DISTINCT out",
            ),
        )
    )


def refuse_group(
    context: Context, aggregate: exp.Expr, nodes: Sequence[exp.Expr], rows: Conditions
) -> NoReturn:
    """Refuse an aggregate of several units; where one value is wanted, offer a noisy one."""
    unit, spans = rows.scope.table.unit, context.spans
    others = [spans.text(node) for node in nodes]
    remedy = f"GROUP BY {', '.join([written_name(unit or 'unit'), *others])}"
    if _is_one_value(aggregate) and not nodes:
        name = spans.source.snippet(spans.name(aggregate))
        remedy = Calls(rows).meant(name, aggregate) or remedy
    raise RuleRefused(
        Diagnostic(
            "DPQ307",
            "an exact aggregate in a subquery has to be per unit",
            spans.of(aggregate),
            f"not grouped by {unit}" if unit else "each row is a unit of its own here",
            (
                "over the rows of several units it would be exact, and exact results show who",
                "is there; per unit it is one row of that unit, to be asked by a DP_ function.",
            ),
            (remedy if unit or "DP_" in remedy else "leave the aggregate out",),
        )
    )


def _is_one_value(node: exp.Expr) -> bool:
    """Say whether a node is selected by a subquery that stands for one value."""
    select = node.find_ancestor(exp.Select)
    around = None if select is None else select.parent
    places = exp.From | exp.Join | exp.CTE | exp.SetOperation | exp.In | exp.Exists
    return isinstance(around, exp.Subquery) and not isinstance(around.parent, places)


def refuse_correlated(context: Context, node: exp.Subquery) -> None:
    """Refuse a subquery of one value that looks at the row around it; offer a join.

    Raises:
        RuleRefused: DPQ307.
    """
    outside, inside = node.find_ancestor(exp.Select), node.find(exp.Select)
    if outside is None or inside is None or inside.args.get("from_") is None:
        return
    around = _called(outside)
    own = {fold(table.alias_or_name) for table in node.find_all(exp.Table)}
    tied = next((c for c in node.find_all(exp.Column) if fold(c.table) in around - own), None)
    if tied is None:
        return
    spans = context.spans
    raise RuleRefused(
        Diagnostic(
            "DPQ307",
            "a subquery of one value cannot look at the row around it",
            spans.of(tied),
            "of the query around",
            (
                "its value is computed once, before the rows around it are read; what is",
                "computed from each unit's rows is joined to them on the unit.",
            ),
            (_joined(context, inside, tied.name),),
        )
    )


def _called(select: exp.Select) -> set[str]:
    """Give the folded names by which a query calls what it reads."""
    from_ = select.args.get("from_")
    joins = select.args.get("joins") or []
    items = [part.this for part in (from_, *joins) if part is not None]
    return {fold(item.alias_or_name) for item in items}


def _joined(context: Context, inside: exp.Select, unit: str) -> str:
    """Write a join for a subquery: a public table itself, or what is computed per unit."""
    spans, where = context.spans, inside.args.get("where")
    source = inside.args["from_"].this
    table, name = spans.text(source), written_name(unit)
    public = {fold(name) for name, one in context.policy.tables.items() if one.public}
    if isinstance(source, exp.Table) and fold(source.name) in public and where is not None:
        return f"JOIN {table} ON {spans.text(where.this)}"
    shown = f"{name}, {', '.join(map(spans.text, inside.expressions))} AS x"
    return f"JOIN (SELECT {shown} FROM {table} GROUP BY {name}) AS d USING ({name})"
