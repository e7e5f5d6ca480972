"""Lists of a row: `x IN UNNEST(list)`, EXISTS over one, and what a join with one is made of.

A list is of some values of the row, or of the parts of its one text. Whether it holds a value
is a function of the one row: the relation and its rows stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import expressions as exp

from dpquery import rowfunctions
from dpquery.core.source_text import Span
from dpquery.core.types import BOOLEAN, TEXT, Kind
from dpquery.errors import advice
from dpquery.ir.expr import (
    ColumnRef,
    Compare,
    Comparison,
    Expr,
    In,
    IsNull,
    Literal,
    Logic,
    Not,
    Widen,
    columns_of,
    decimal,
    longest_of,
)
from dpquery.sql.bind.rows.typed_expressions import alike, bound_call, case
from dpquery.sql.parse.literals import conjuncts, unwrapped
from dpquery.sql.parse.spans import outside
from dpquery.sql.parse.unnest import SPLITS, list_of, refuse_list, written_out
from dpquery.sql.suggest.type_mismatches import mismatch, with_article

if TYPE_CHECKING:
    from dpquery.sql.bind.rows.row_expressions import Conditions

_LISTED = advice("write [a, b], or string_split(text, ';')")


def row_list(node: exp.Unnest, rows: Conditions) -> tuple[list[Expr], str | None]:
    """Bind the list of a row: its values, a column, or a text and what separates its parts."""
    lists, bind, spans = node.expressions, rows.bind, rows.spans
    of, span = unwrapped(lists[0]), spans.of(node)
    column = rows.scope.list_named(of, spans.of(of)) if len(lists) == 1 else None
    if column is not None:
        return [column], None
    if values := written_out(node):
        written = spans.text(values[0])
        return alike(span, list(map(bind, values)), lambda: f"[{written}]"), None
    call = isinstance(of, exp.Anonymous) and str(of.this).upper() in SPLITS
    if not call or len(of.expressions) != 2 or len(lists) > 1:
        refuse_list(span, "one list is needed", _LISTED)
    value, separator = bind(of.expressions[0]), unwrapped(of.expressions[1])
    if value.type.kind is not Kind.TEXT:
        mismatch(value.span, "a text is needed here", with_article(value.type), _LISTED)
    if not (isinstance(separator, exp.Literal) and separator.is_string and separator.this):
        label = "a literal text of one character or more is needed"
        refuse_list(spans.of(separator), label, "';'")
    return [value], str(separator.this)


def among_list(rows: Conditions, node: exp.In | exp.Exists, span: Span) -> Expr:
    """Bind IN and EXISTS over a list of the row."""
    found = list_of(node)
    assert found is not None  # noqa: S101 - the caller looked
    values, separator = row_list(found, rows)
    if isinstance(node, exp.Exists):
        return _exists(rows, node, found, values, separator)
    value = rows.bind(node.this)
    if separator is not None:
        rows.equal(span, value, values[0])  # of types that match
        among = _among_parts(span, value, values[0], separator)
        no_list = IsNull(span, values[0])  # of no list, it is in none
        return case(span, [(no_list, Literal(span, False, BOOLEAN))], among)
    if values[0].type.listed:
        no_list = IsNull(span, values[0])
        among = in_list(span, values[0], value, rows)
        return case(span, [(no_list, Literal(span, False, BOOLEAN))], among)
    literals = [one for one in values if isinstance(one, Literal)]
    if len(literals) == len(values):
        return rows.among(span, value, literals)
    return _joined(span, [rows.equal(span, value, one) for one in values], every=False)


def element(listed: Expr, number: int) -> ColumnRef:
    """Return a value of a list, as a column of the relation that makes rows of it."""
    assert isinstance(listed, ColumnRef)  # noqa: S101 - no expression makes lists
    type_ = replace(listed.type, listed=False)
    of_text = type_.kind is Kind.TEXT
    if type_.kind is Kind.DECIMAL:
        type_ = decimal(type_.scale)
    longest = listed.longest if of_text else 0
    return replace(listed, name="x", type=type_, longest=longest, of=number)


def in_list(span: Span, listed: Expr, value: Expr, rows: Conditions) -> Expr:
    """Ask whether a list has a value: NULL of no list, or of no value.

    Where a value of the list is widened to be compared, all of them are.
    """
    pair = rows.equal(span, element(listed, -1), value)
    assert isinstance(pair, Compare)  # noqa: S101 - values are compared
    if isinstance(pair.left, Widen):
        listed = Widen(listed, replace(pair.left.type, listed=True))
    return rowfunctions.apply(span, "LIST_CONTAINS", listed, pair.right)


def _exists(
    rows: Conditions,
    node: exp.Exists,
    found: exp.Unnest,
    values: Sequence[Expr],
    separator: str | None,
) -> Expr:
    """Ask whether a list of the row has a value for which a condition holds.

    Of the values a, b, ... of a list it is whether the condition holds for a, or for b; of the
    parts of a text, which no query counts, whether one is equal to a value of the row.
    """
    span = rows.spans.of(node)

    def beside(value: Expr) -> Conditions:
        return rows.beside(found.alias or "unnest", {_name_of(found): value})

    for item in node.this.expressions:
        require_of_rows(beside(values[0]), item.unalias())
    if values[0].type.listed:
        refuse_list(span, "a list of the file is asked by IN", advice("write x IN UNNEST(...)"))
    where = node.this.args.get("where")
    asked = conjuncts(where.this) if where else []
    if separator is not None:
        found_part = _some_part(rows, found, beside, asked, values[0], separator)
        return is_true(span, found_part)
    some: list[Expr] = []
    for value in values:  # the first says how large all are: no more is bound than may stand
        some.append(_joined(span, list(map(beside(value).condition, asked)), every=True))
        rows.require_size(some[0], len(values))
    return is_true(span, _joined(span, some, every=False))


def _some_part(
    rows: Conditions,
    found: exp.Unnest,
    beside: Callable[[Expr], Conditions],
    asked: Sequence[exp.Expr],
    text: Expr,
    separator: str,
) -> Expr:
    """Ask whether a part of a text is there for which conditions hold."""
    span = rows.spans.of(found)
    part = ColumnRef(span, "part", TEXT, of=-1, longest=longest_of(text))  # of no relation
    bound = list(map(beside(part).condition, asked))
    of_part = [one for one in bound if part in columns_of(one).values()]
    options = _equal_to(of_part[0], part) if len(of_part) == 1 else []
    if of_part and not options:
        label = "of its parts, only one equality is understood here"
        refuse_list(span, label, f"WHERE {_name_of(found)} = 'a'")
    some = [_among_parts(span, one, text, separator) for one in options]
    there = _joined(span, some or [Not(span, IsNull(span, text))], every=False)
    others = [one for one in bound if one not in of_part]
    return _joined(span, [*others, there], every=True)


def _equal_to(condition: Expr, part: Expr) -> Sequence[Expr]:
    """Return the values of which one has to be equal; none where more is asked than that."""
    options: Sequence[Expr] = ()
    match condition:
        case Compare(operator=Comparison.EQ, left=left, right=right) if part in {left, right}:
            options = [right if left == part else left]
        case In(operand=operand, options=literals) if operand == part:
            options = literals
    return () if any(part in columns_of(one).values() for one in options) else options


def _among_parts(span: Span, value: Expr, text: Expr, separator: str) -> Expr:
    function = rowfunctions.named("AMONG_PARTS")
    return bound_call(span, function, [value, text, Literal(span, separator, TEXT)])


def require_of_rows(rows: Conditions, item: exp.Expr) -> None:
    """Refuse what is no value of rows in a SELECT list that nobody sees."""
    found = item.find(exp.AggFunc)
    if found is not None:
        span, what = rows.spans.of(found), "an aggregate in EXISTS"
        raise outside(what, span, "this always gives one row", "1")
    if not item.is_star and not isinstance(item, exp.Null):
        rows.bind(item)


def _name_of(found: exp.Unnest) -> str:
    """Return what the values of a list are called."""
    names = found.alias_column_names
    return names[0] if names else found.alias or "unnest"


def is_true(span: Span, condition: Expr) -> Expr:
    """Return whether a condition is true: NULL is not."""
    return rowfunctions.apply(span, "COALESCE", condition, Literal(span, False, BOOLEAN))


def _joined(span: Span, conditions: Sequence[Expr], *, every: bool) -> Expr:
    """Return whether all conditions hold, or any; of none, all do."""
    if len(conditions) > 1:
        return Logic(span, every, tuple(conditions))
    return conditions[0] if conditions else Literal(span, True, BOOLEAN)
