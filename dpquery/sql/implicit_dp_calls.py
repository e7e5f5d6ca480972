"""Plain aggregates over private rows: what each means, and its share of an epsilon.

`AVG(salary)` means `DP_AVG(salary)` once somebody has said what the whole statement may spend.
That is split over the calls that state no epsilon of their own: equally, unless `weight=` says
otherwise. Plain aggregates that mean the same are one release.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from sqlglot import expressions as exp

from dpquery.functions.base import DPFunction
from dpquery.sql.bind.from_clause import Context, Private
from dpquery.sql.bind.group_by_clause import groupings_in, is_distinct_alone, key_of
from dpquery.sql.bind.joins.join_keys import NONE, Keys, enough, keys_at
from dpquery.sql.bind.rows.per_unit_rows import is_exact_aggregate
from dpquery.sql.bind.scope import PLAIN, Scope, fold
from dpquery.sql.parse.literals import unwrapped
from dpquery.sql.parse.spans import Spans
from dpquery.sql.postprocess.select import parts_of
from dpquery.sql.suggest.dialects import MEANT, function_of


def asks_units(context: Context, select: exp.Select, rows: Private) -> bool:
    """Return whether plain aggregates, or groups alone, are of rows of several units.

    Those by a key through which rows have their unit are of one unit each where IN compares
    rows with them, and those by all columns that are the unit always.
    """
    scope, spans, around = rows.scope, context.spans, select.parent
    while isinstance(around, exp.Subquery):
        around = around.parent
    among = isinstance(around, exp.In)
    plain = any(function_for(node) is not None for node in _aggregates(select))
    groups = select.args.get("group") is not None or is_distinct_alone(select)
    if not plain and not groups:
        return False
    keys = [*map(unwrapped, _keys(select, scope, spans))]
    held = NONE.union(*(keys_at(key, rows, context.policy) for key in keys))
    tied = enough(Keys(key for key in held if among or not key.table))
    return not tied and not any(map(scope.owns, keys))


def make_calls(select: exp.Select, spans: Spans) -> None:
    """Put the DP_ calls in place of the plain aggregates of a SELECT."""
    for node in list(_aggregates(select)):
        function = function_for(node)
        if function is not None:
            around = node.parent
            filtered = isinstance(around, exp.Filter) and around.this is node
            call = _call(node, function, spans)
            # Now: binding changes what stands inside.
            call.meta[PLAIN] = _meaning(around if filtered and around else node)
            node.replace(call)


def _meaning(node: exp.Expr) -> str:
    """Return what is equal for calls that mean the same: COUNT(1) counts rows, as COUNT(*)."""

    def told(part: exp.Expr) -> exp.Expr:
        if isinstance(part, exp.Identifier):
            return exp.to_identifier(fold(part.name), quoted=True)
        if isinstance(part, exp.Count) and isinstance(part.this, exp.Literal | exp.Boolean):
            return exp.Count(this=exp.Star())
        return part

    return node.transform(told).sql()


def _aggregates(select: exp.Select) -> Iterator[exp.Expr]:
    for node in parts_of(select):
        named = isinstance(node, exp.Anonymous) and str(node.this).upper() in MEANT
        if (is_exact_aggregate(node) or named) and not isinstance(node, exp.Filter):
            yield node


def function_for(node: exp.Expr) -> DPFunction | None:
    """Return the DP_ function that a plain aggregate means."""
    inner = node.this if isinstance(node, exp.WithinGroup) else node
    if isinstance(inner, exp.Anonymous):
        return function_of(str(inner.this).upper())
    names = type(inner).sql_names() if isinstance(inner, exp.Func) else []
    found = map(function_of, names)
    return next((one for one in found if one is not None), None)


def _call(node: exp.Expr, function: DPFunction, spans: Spans) -> exp.Anonymous:
    """Return the DP_ call that a plain aggregate means, in its place in the text."""
    name = spans.name(node)
    call = exp.Anonymous(this=function.name, expressions=list(_arguments(node, spans)))
    call.meta.update({"start": name.start, "end": name.end - 1})
    return call


def _arguments(node: exp.Expr, spans: Spans) -> Iterable[exp.Expr]:
    """Return what stands in the brackets of a plain aggregate, in the order of its call."""
    if isinstance(node, exp.WithinGroup):
        share, order = node.this.this, node.expression
        return [order.expressions[0].this, share]
    given: Sequence[exp.Expr] = list(node.iter_expressions())
    if isinstance(node, exp.Anonymous):
        given = node.expressions
    if "DISTINCT" in spans.source.snippet(spans.name(node)).upper():
        return [exp.Distinct(expressions=list(given[:1])), *given[1:]]
    return given or [exp.Star()]


def _keys(select: exp.Select, scope: Scope, spans: Spans) -> Iterator[exp.Expr]:
    """Return what a SELECT groups by."""
    group = select.args.get("group")
    if is_distinct_alone(select) or (group is not None and group.args.get("all")):
        yield from (item.unalias() for item in select.expressions)
    if group is None:
        return
    for nodes in groupings_in(group, spans):
        yield from (key_of(node, select.expressions, scope, spans) for node in nodes)
