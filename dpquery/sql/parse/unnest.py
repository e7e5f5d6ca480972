"""Lists of a row, joined in one form: `FROM t, UNNEST(list) AS u(x)`.

In a SELECT list, `unnest(list) AS x` makes as many rows as the list has values, and so does
`LATERAL (SELECT unnest(list) AS x) AS u` in FROM. Both are written as that join: a list is one
of values of its row, so WHERE lets the same rows through before it and after it.

Where a condition asks for a value among them, no row comes of it: that stays as it is written.
"""

from __future__ import annotations

from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.errors import advice
from dpquery.sql.bind.scope import is_query
from dpquery.sql.parse.spans import Spans, outside

SPLITS = ("STRING_SPLIT", "STR_SPLIT", "STRING_TO_ARRAY", "SPLIT")
"""What makes a list of the parts of a text: names of one function."""
HIDDEN = "hidden"
"""What marks a list of a SELECT list, which no star stands for."""
_NAME = "unnest"
"""What a list, and its column, are called without a name of their own."""


def join_lists(tree: exp.Expr, spans: Spans) -> None:
    """Write the lists of all SELECT lists, and after LATERAL, as joins.

    Raises:
        SyntaxRefused: DPQ102 several lists in one SELECT list, or a window beside one.
    """
    for lateral in list(tree.find_all(exp.Lateral)):
        lateral.replace(_of_lateral(lateral, spans))
    for select in list(tree.find_all(exp.Select)):
        lists = [item for item in map(_unaliased, select.expressions) if _is_list(item)]
        if lists and select.args.get("from_") is not None:
            _join(select, lists, spans)


def list_of(asked: exp.In | exp.Exists) -> exp.Unnest | None:
    """Return the list that IN, or EXISTS, looks among, where it looks at nothing else."""
    if isinstance(asked, exp.In):
        return asked.args.get("unnest")
    clauses = {slot: clause for slot, clause in asked.this.args.items() if clause}
    source = clauses.pop("from_", None)
    found = None if source is None else source.this
    only = clauses.keys() <= {"expressions", "where"}
    return found if only and isinstance(found, exp.Unnest) else None


def written_out(found: exp.Unnest) -> list[exp.Expr]:
    """Return the values of a list that is written out; none of another."""
    (of,) = found.expressions if len(found.expressions) == 1 else [found]
    of = of.unnest()
    return of.expressions if isinstance(of, exp.Array) else []


def refuse_list(
    span: Span,
    label: str,
    remedy: str = advice("write a private table first in FROM, then its list"),
) -> NoReturn:
    """Refuse a list that makes no rows of private ones."""
    raise outside("UNNEST in this place", span, label, remedy)


def _unaliased(item: exp.Expr) -> exp.Expr:
    return item.this if isinstance(item, exp.Alias) else item


def _is_list(node: exp.Expr) -> bool:
    return isinstance(node, exp.Explode) and not node.expressions


def _join(select: exp.Select, lists: list[exp.Expr], spans: Spans) -> None:
    """Join the one list of a SELECT list."""
    item, *others = lists
    if others:
        word, label = "a second UNNEST in one SELECT", "lists of one row, side by side"
        raise outside(word, spans.of(others[0]), label, advice("one UNNEST in each query"))
    clauses = (*select.expressions, select.args.get("qualify"))
    nodes = (node for clause in clauses if clause for node in clause.walk(prune=is_query))
    window = next((node for node in nodes if isinstance(node, exp.Window)), None)
    if window is not None:  # it is of the rows before, or after: engines differ
        remedy = advice("put the window in a query around this one")
        raise outside("a window beside UNNEST", spans.of(window), "of which rows?", remedy)
    span = spans.of(item)
    place = {"start": span.start, "end": span.end - 1}
    column = exp.column(exp.to_identifier(_NAME), table=exp.to_identifier(_NAME))
    for name in column.parts:
        name.meta.update(place)
    alias = exp.TableAlias(this=exp.to_identifier(_NAME))
    item.replace(column)
    made = exp.Unnest(expressions=[item.this], alias=alias)
    made.meta.update({**place, HIDDEN: True})
    join = exp.Join(this=made)
    join.meta["comma"] = True
    select.append("joins", join)


def _of_lateral(node: exp.Lateral, spans: Spans) -> exp.Expr:
    """Return the list that stands after LATERAL.

    Raises:
        SyntaxRefused: DPQ102 it is a query of more than a list.
    """
    inner, alias = node.this, node.args.get("alias")
    if isinstance(inner, exp.Unnest):
        inner.set("alias", alias)
        return inner
    select = inner.this if isinstance(inner, exp.Subquery) else None
    slots = {} if select is None else {slot: v for slot, v in select.args.items() if v}
    item, *more = slots.pop("expressions", [None])
    if slots or more or item is None or not _is_list(_unaliased(item)):
        span = spans.word("LATERAL") or spans.of(node)
        remedy = advice("write LATERAL (SELECT UNNEST(string_split(text, ';')) AS part)")
        raise outside("LATERAL with more than UNNEST", span, "not the list of a row", remedy)
    if alias is None:
        alias = exp.TableAlias(this=exp.to_identifier(_NAME))
    if not alias.args.get("columns"):
        name = item.args["alias"] if isinstance(item, exp.Alias) else exp.to_identifier(_NAME)
        alias.set("columns", [name])
    made = exp.Unnest(expressions=[_unaliased(item).this], alias=alias)
    span = spans.of(inner)
    made.meta.update({"start": span.start, "end": span.end - 1})
    return made
