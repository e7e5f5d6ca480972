"""UNION, EXCEPT and INTERSECT of relations that are released or public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, NameRefused, SyntaxRefused
from dpquery.ir import Origin
from dpquery.source import Span
from dpquery.sql.above.expressions import no_column_number
from dpquery.sql.above.froms import Open, OpenColumn
from dpquery.sql.above.rows import MOST_HIDDEN, require_rows
from dpquery.sql.above.values import row_count
from dpquery.sql.mending import outside
from dpquery.sql.mismatches import mismatch
from dpquery.sql.names import fold
from dpquery.types import NUMERIC, Kind

if TYPE_CHECKING:
    from dpquery.sql.above.opened import Opener

__all__ = ["arms_of", "combined", "finished"]

_WORDS: dict[type[exp.Expr], str] = {
    exp.Union: "UNION",
    exp.Except: "EXCEPT",
    exp.Intersect: "INTERSECT",
}


def arms_of(opener: Opener, node: exp.SetOperation) -> list[exp.Expr]:
    """Give the two sides of an operation, whose order is plain.

    Raises:
        SyntaxRefused: DPQ102 operations of different kinds without brackets.
    """
    for side in (node.this, node.expression):
        if isinstance(side, exp.SetOperation) and type(side) is not type(node):
            span = opener.spans.of(node)
            word = f"{_WORDS[type(side)]} beside {_WORDS[type(node)]}"
            label = "which comes first?"
            raise SyntaxRefused(outside(word, span, label, "put one of them in brackets"))
    return [node.this, node.expression]


def combined(opener: Opener, node: exp.SetOperation, left: Open, right: Open) -> Open:
    """Put two relations together: columns by place, of types that match.

    Raises:
        NameRefused: DPQ208 another number of columns, or types that do not match.
    """
    span = opener.spans.of(node)
    word = _WORDS[type(node)] + ("" if node.args.get("distinct") else " ALL")
    if len(left.columns) != len(right.columns):
        counts = f"{len(left.columns)} and {len(right.columns)} columns"
        _refuse(f"{word} of {counts}", span)
    keeps, shared = word == "UNION ALL", _shared(left, right)
    keeps = keeps and (shared or len(left.hidden) + len(right.hidden) <= MOST_HIDDEN)
    count = 0 if shared else len(left.hidden)
    columns, casts = [], []
    for at, (one, other) in enumerate(zip(left.columns, right.columns, strict=True)):
        kind, cast = _common(one, other, word, span)
        casts.append(cast)
        moved = tuple(replace(origin, row=origin.row + count) for origin in other.origins)
        all_ = tuple(dict.fromkeys((*one.origins, *moved)))
        origins: tuple[Origin, ...] = all_ if keeps and not cast else ()
        narrow = one.narrow and other.narrow
        longest, grown = max(one.longest, other.longest), one.grown + other.grown
        opener.require_texts(grown, span)
        sql = f'"c{at}"'
        columns.append(OpenColumn(one.name, sql, kind, narrow, origins, longest, grown))
    hidden = (*left.hidden, *(() if shared else right.hidden)) if keeps else ()
    arms = []
    for open_, first in ((left, True), (right, False)):
        shown = [
            f'{_cast(column.sql, cast)} AS "c{i}"'
            for i, (column, cast) in enumerate(zip(open_.columns, casts, strict=True))
        ]
        own = [f'"r{i}"' for i in range(len(open_.hidden))]
        other_rows = 0 if shared else len(right.hidden if first else left.hidden)
        missing = ["CAST(NULL AS BIGINT)"] * other_rows
        numbers = [*own, *missing] if first else [*missing, *own]
        shown += [f'{sql} AS "r{i}"' for i, sql in enumerate(numbers)] if keeps else []
        arms.append(f'(SELECT {", ".join(shown)} FROM {open_.source} AS "{opener.alias()}")')
    rows = left.most + right.most if isinstance(node, exp.Union) else left.most
    most = require_rows(rows, opener.widest, span)
    return Open(f"({arms[0]} {word} {arms[1]})", tuple(columns), hidden, most=most)


def _shared(left: Open, right: Open) -> bool:
    """Say whether both sides show the same releases in the same columns.

    Their row numbers then stand in the same columns too: a relation that is put to itself
    again and again would else have twice as many each time.
    """
    alike = zip(left.columns, right.columns, strict=True)
    return left.hidden == right.hidden and all(a.origins == b.origins for a, b in alike)


def _cast(sql: str, cast: str) -> str:
    return f"TRY_CAST({sql} AS {cast})" if cast else sql


def _common(
    one: OpenColumn, other: OpenColumn, word: str, span: Span
) -> tuple[Kind | None, str]:
    """Give the kind of a column of both, and what both are cast to where that is needed."""
    kinds = {one.kind, other.kind}
    if one.kind is other.kind:
        return one.kind, ""
    if None in kinds:
        return None, ""
    if kinds <= NUMERIC:
        return Kind.DOUBLE, "DOUBLE"
    title = f"{word} of a {one.kind} and a {other.kind}, in column {one.name[:40]}"
    mismatch(span, title, "two types", "CAST(... AS TEXT)")


def _refuse(title: str, span: Span) -> None:
    raise NameRefused(
        Diagnostic(
            "DPQ208",
            title,
            span,
            "another number of columns",
            ("columns are put together by their places.",),
            ("give both sides the same number of columns",),
        )
    )


def finished(opener: Opener, node: exp.SetOperation, found: Open, *, root: bool) -> str:
    """Write an operation as a query, with ORDER BY and LIMIT of its own."""
    alias = opener.alias()
    listed = [f'"{alias}".{c.sql} AS {c.sql}' for c in found.columns]
    listed += [f'"{alias}"."r{i}" AS "r{i}"' for i in range(len(found.hidden))]
    order = node.args.get("order")
    keys = [key for item in _items(order) for key in _sort_keys(opener, item, found.columns)]
    cut = "".join(
        row_count(node.args[slot].expression, slot, opener.spans)
        for slot in ("limit", "offset")
        if node.args.get(slot) is not None
    )
    if root or keys or cut:
        rows = [f'"r{i}" ASC NULLS LAST' for i in range(len(found.hidden))]
        keys += rows or [column.sql for column in found.columns]
    ordered = f" ORDER BY {', '.join(keys)}" if keys else ""
    return f'SELECT {", ".join(listed)} FROM {found.source} AS "{alias}"{ordered}{cut}'


def _items(order: exp.Order | None) -> Sequence[exp.Ordered]:
    return [] if order is None else order.expressions


def _sort_keys(opener: Opener, item: exp.Ordered, columns: Sequence[OpenColumn]) -> list[str]:
    """Resolve a column's number or name, or ALL: an operation has no others."""
    node, span = item.this, opener.spans.of(item)
    direction = "DESC" if item.args.get("desc") else "ASC"
    nulls = "FIRST" if item.args.get("nulls_first") else "LAST"
    ending = f" {direction} NULLS {nulls}"
    if isinstance(node, exp.Var):
        return [column.sql + ending for column in columns]
    if isinstance(node, exp.Literal) and not node.is_string:
        digits = str(node.this)
        if digits.isdigit() and len(digits) <= 9 and 1 <= int(digits) <= len(columns):
            return [columns[int(digits) - 1].sql + ending]
        no_column_number(digits, span, len(columns), "ORDER BY")
    if isinstance(node, exp.Column) and not node.table:
        for column in columns:
            if fold(column.name) == fold(node.name):
                return [column.sql + ending]
    label = "not a column of the result"
    raise SyntaxRefused(outside("this order", span, label, "ORDER BY 1"))
