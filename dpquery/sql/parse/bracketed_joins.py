"""Joins in brackets, written without them.

`(a JOIN b USING (id)) AS q` is `(SELECT * FROM a JOIN b USING (id)) AS q`. Without a name the
relations inside keep theirs: in the first place of FROM such brackets say what holds anyway,
and inner joins may stand in any order. Elsewhere brackets decide which rows are kept; they need
a name then.
"""

from __future__ import annotations

from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.errors import advice
from dpquery.sql.parse.spans import Spans, outside

_INNER = {"", "INNER", "CROSS"}


_CROSS = advice("use CROSS JOIN in place of the comma")
_NAMED = advice("write SELECT ... FROM a JOIN b USING (x)")


def without_brackets(tree: exp.Expr, spans: Spans) -> None:
    """Write the joins in brackets of a query without them.

    Raises:
        SyntaxRefused: DPQ102 brackets that need a name, or that a comma stands in.
    """
    inside_first = reversed(list(tree.find_all(exp.Subquery)))
    for node in inside_first:
        first, around = node.this, node.parent
        if not isinstance(first, exp.Table | exp.Subquery) or not first.args.get("joins"):
            continue
        if any(join.meta.get("comma") for join in first.args["joins"]):
            _refuse(
                node,
                spans,
                "a comma in brackets",
                _CROSS,
            )
        joins = first.args.pop("joins")
        if node.alias or node.args.get("pivots"):
            select = exp.Select(expressions=[exp.Star()], from_=exp.From(this=first))
            select.set("joins", joins)
            node.set("this", select)
        elif isinstance(around, exp.Join):
            _beside(node, around, first, joins, spans)
        elif isinstance(around, exp.Subquery):
            node.replace(first)
            first.set("joins", [*joins, *(node.args.get("joins") or [])])
        elif isinstance(around, exp.From) and around.parent is not None:
            node.replace(first)
            around.parent.set("joins", [*joins, *(around.parent.args.get("joins") or [])])
        else:
            _refuse(
                node,
                spans,
                "a join in brackets",
                _NAMED,
            )


def _beside(
    node: exp.Subquery, around: exp.Join, first: exp.Expr, joins: list[exp.Join], spans: Spans
) -> None:
    """Write the joins that another one has in brackets after it, where all are inner joins."""
    if around.args.get("using") or not all(map(_is_inner, (around, *joins))):
        _refuse(node, spans, "a join in brackets without a name", f"{spans.text(node)} AS q")
    last, on = joins[-1], around.args.get("on")
    if on is not None and last.args.get("on") is not None:  # it may name what is joined last
        last.set("on", exp.And(this=last.args["on"], expression=on.pop()))
    node.replace(first)
    holder = around.parent
    assert holder is not None  # noqa: S101 - a join stands in a query, or in brackets
    beside = holder.args["joins"]
    at = next(i for i, join in enumerate(beside) if join is around) + 1
    holder.set("joins", [*beside[:at], *joins, *beside[at:]])


def _is_inner(join: exp.Join) -> bool:
    return not join.side and not join.method and join.kind in _INNER


def _refuse(node: exp.Subquery, spans: Spans, word: str, remedy: str) -> NoReturn:
    raise outside(word, spans.of(node), "not understood", remedy)
