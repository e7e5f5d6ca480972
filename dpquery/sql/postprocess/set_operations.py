"""UNION, EXCEPT and INTERSECT of relations that are released or public."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.core.types import Kind
from dpquery.errors import advice
from dpquery.sql.bind.private_subqueries import uneven
from dpquery.sql.bind.scope import fold
from dpquery.sql.parse.literals import read_place
from dpquery.sql.parse.spans import outside
from dpquery.sql.postprocess.from_clause import MOST_HIDDEN, Open, OpenColumn, require_rows
from dpquery.sql.postprocess.sql_fragments import comparable, direction, row_count
from dpquery.sql.postprocess.subqueries import Opener, unlike
from dpquery.sql.suggest.type_mismatches import mismatch

_NO_ROW = "CAST(NULL AS BIGINT)"
_AS_IS = "{}"


def arms_of(opener: Opener, node: exp.SetOperation) -> list[exp.Expr]:
    """Return the two sides of an operation, whose order is plain.

    Raises:
        SyntaxRefused: DPQ102 operations of different kinds without brackets.
    """
    for side in (node.this, node.expression):
        if isinstance(side, exp.SetOperation) and type(side) is not type(node):
            span = opener.spans.of(node)
            word = f"{side.key.upper()} beside {node.key.upper()}"
            label = "which comes first?"
            raise outside(word, span, label, advice("put one of them in brackets"))
    return [node.this, node.expression]


def combined(opener: Opener, node: exp.SetOperation, left: Open, right: Open) -> Open:
    """Put two relations together: columns by place, of types that match.

    Raises:
        NameRefused: DPQ208 another number of columns, or types that do not match.
    """
    span = opener.spans.of(node)
    word = node.key.upper() + ("" if node.args.get("distinct") else " ALL")
    if len(left.columns) != len(right.columns):
        raise uneven(word, len(left.columns), len(right.columns), span)
    shared = _shared(left, right)
    fits = shared or len(left.hidden) + len(right.hidden) <= MOST_HIDDEN
    keeps, before = word == "UNION ALL" and fits, 0 if shared else len(left.hidden)
    columns, casts = [], []
    for at, (one, other) in enumerate(zip(left.columns, right.columns, strict=True)):
        kind, cast = _common(one, other, word, span)
        casts.append(cast)
        moved = (replace(origin, row=origin.row + before) for origin in other.origins)
        origins = (
            tuple(dict.fromkeys((*one.origins, *moved))) if keeps and cast == _AS_IS else ()
        )
        narrow = one.narrow and other.narrow
        longest, grown = max(one.longest, other.longest), one.grown + other.grown
        opener.require_texts(grown, span)
        noiseless, sql = one.noiseless and other.noiseless, f'"c{at}"'
        columns.append(
            OpenColumn(one.name, sql, kind, narrow, origins, longest, grown, noiseless)
        )
    first = [f'"r{i}"' for i in range(len(left.hidden))] if keeps else []
    second = [f'"r{i}"' for i in range(len(right.hidden))] if keeps else []
    if not shared:
        missing = [_NO_ROW] * len(first)
        first, second = [*first, *[_NO_ROW] * len(second)], [*missing, *second]
    arms = []
    for open_, numbers in ((left, first), (right, second)):
        shown = [
            f"{cast.format(column.sql)} AS {made.sql}"
            for column, cast, made in zip(open_.columns, casts, columns, strict=True)
        ]
        shown += [f'{sql} AS "r{i}"' for i, sql in enumerate(numbers)]
        arms.append(f'(SELECT {", ".join(shown)} FROM {open_.source} AS "{opener.alias()}")')
    hidden = (*left.hidden, *(() if shared else right.hidden)) if keeps else ()
    rows = left.most + right.most if isinstance(node, exp.Union) else left.most
    most = require_rows(rows, opener.widest, span)
    return Open(f"({arms[0]} {word} {arms[1]})", tuple(columns), hidden, most=most)


def _shared(left: Open, right: Open) -> bool:
    """Return whether both sides show the same releases in the same columns.

    Their row numbers then stand in the same columns too: a relation that is put to itself
    again and again would else have twice as many each time.
    """
    alike = zip(left.columns, right.columns, strict=True)
    return left.hidden == right.hidden and all(a.origins == b.origins for a, b in alike)


def _common(
    one: OpenColumn, other: OpenColumn, word: str, span: Span
) -> tuple[Kind | None, str]:
    """Return the kind of a column of both, and how both are converted to it."""
    if not comparable(one.kind, other.kind) or unlike(one, other):
        first, second = one.kind or "list", other.kind or "list"
        title = f"{word} of a {first} and a {second}, in column {one.name[:40]}"
        mismatch(span, title, "two types", advice("write CAST(... AS TEXT)"))
    if one.kind is other.kind or None in {one.kind, other.kind}:
        return one.kind if one.kind is other.kind else None, _AS_IS
    return Kind.DOUBLE, "TRY_CAST({} AS DOUBLE)"


def finished(opener: Opener, node: exp.SetOperation, found: Open, *, root: bool) -> str:
    """Write an operation as a query, with ORDER BY and LIMIT of its own."""
    alias, order = opener.alias(), node.args.get("order")
    listed = [f'"{alias}".{c.sql} AS {c.sql}' for c in found.columns]
    listed += [f'"{alias}"."r{i}" AS "r{i}"' for i in range(len(found.hidden))]
    items = [] if order is None else order.expressions
    keys = [key for item in items for key in _sort_keys(opener, item, found.columns)]
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


def _sort_keys(opener: Opener, item: exp.Ordered, columns: Sequence[OpenColumn]) -> list[str]:
    """Resolve a column's number or name, or ALL: an operation has no others."""
    node, span = item.this, opener.spans.of(item)
    if isinstance(node, exp.Var):
        found = list(columns)
    elif isinstance(node, exp.Literal) and not node.is_string:
        found = [columns[read_place(node, len(columns), span, "ORDER BY")]]
    else:
        named = isinstance(node, exp.Column) and not node.table
        found = [c for c in columns if named and fold(c.name) == fold(node.name)][:1]
    if not found:
        raise outside("this order", span, "not a column of the result", "ORDER BY 1")
    return [column.sql + direction(item) for column in found]
