"""Aggregates and window functions above the frontier, over the rows they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpquery.core.types import Kind
from dpquery.errors import advice, refusal
from dpquery.sql.bind.rows.typed_expressions import miscounted
from dpquery.sql.parse.literals import read_literal, unwrapped
from dpquery.sql.parse.spans import outside
from dpquery.sql.postprocess.builtin_functions import (
    AGGREGATES,
    KINDS,
    ONLY_WINDOWS,
    Aggregate,
    window_name,
)
from dpquery.sql.postprocess.function_calls import require_kind
from dpquery.sql.postprocess.sql_fragments import (
    LONGEST_NUMBER,
    READ_BEFORE,
    TEXTUAL,
    Value,
    condition,
    direction,
    text,
)
from dpquery.sql.suggest.type_mismatches import mismatch

if TYPE_CHECKING:
    from dpquery.sql.postprocess.select_stages import Base


MOST = 10**9
_ENDS = {"PRECEDING", "FOLLOWING"}
_LITERALS = "scl"


def aggregated(place: Base, aggregate: Aggregate, node: exp.Expr, sets: int) -> Value:
    """Write an aggregate.

    Args:
        place: the rows that it is about.
        aggregate: what is called.
        node: the call.
        sets: how many of its values each row is in; 0 where each row has a value of its own.

    Raises:
        NameRefused: DPQ206 another number of arguments, DPQ208 another type.
    """
    call, kept = (node.this, node.expression) if isinstance(node, exp.Filter) else (node, None)
    distinct, order, arguments = _arguments(call)
    if aggregate.name == "COUNT" and arguments and isinstance(arguments[0], exp.Star):
        arguments = []
    values = _bound(place, aggregate, arguments, call)
    written = [
        value.sql if letter in _LITERALS else aggregate.argument(value)
        for value, letter in zip(values, aggregate.takes, strict=False)
    ]
    listed = ("DISTINCT " if distinct else "") + ", ".join(written)
    if aggregate.name == "COUNT" and not values:
        listed = "*"
    if order is not None:
        listed += " " + _ordered(place, order)
    called = f"{aggregate.engine}({listed})"
    if kept is not None:
        called += f" FILTER (WHERE {condition(place.truth(kept.this))})"
    kind = aggregate.kind(values)
    narrow = kind is Kind.INTEGER or (aggregate.gives is None and all(v.narrow for v in values))
    longest, grown = _lengths(aggregate, values, place.most, sets)
    sql = aggregate.whole(called, values)
    return Value(sql, kind, safe=True, narrow=narrow, longest=longest, grown=grown)


def _lengths(
    aggregate: Aggregate, values: list[Value], rows: int, sets: int
) -> tuple[int, int | None]:
    """Return how long a text is, and what all of them are: texts together, or one of them."""
    if aggregate.kind(values) not in TEXTUAL:
        return LONGEST_NUMBER, 0
    if aggregate.gives is Kind.TEXT:
        longest = rows * (sum(value.longest for value in values) + 1)
        return longest, longest * sets or None
    longest = max((value.longest for value in values), default=0)
    return longest, 0 if all(value.grown == 0 for value in values) else None


def _arguments(call: exp.Expr) -> tuple[bool, exp.Order | None, list[exp.Expr]]:
    """Part the arguments of a call from DISTINCT and ORDER BY."""
    slots = (call.args.get(slot) for slot in ("this", "offset", "default"))
    arguments = [one for one in slots if isinstance(one, exp.Expr)]
    if isinstance(call, exp.Anonymous):
        arguments = list(call.expressions)
    order = None
    if arguments and isinstance(arguments[-1], exp.Order):
        order = arguments[-1]
        arguments[-1] = order.this
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments[0] = arguments[0].expressions[0]
    return distinct, order, arguments


def _bound(
    place: Base, aggregate: Aggregate, arguments: list[exp.Expr], call: exp.Expr
) -> list[Value]:
    """Bind the arguments, and hold each against what the function takes."""
    most = len(aggregate.takes)
    if not most - aggregate.optional <= len(arguments) <= most:
        takes = [KINDS[letter][0] for letter in aggregate.takes]
        raise miscounted(aggregate.name, takes, place.spans.of(call), "COUNT(*)")
    values = []
    for letter, argument in zip(aggregate.takes, arguments, strict=False):
        if letter in _LITERALS:
            values.append(_literal(place, aggregate, letter, argument))
            continue
        values.append(place.value(argument))
        remedy = f"COUNT({place.spans.text(argument)})"
        require_kind(place, aggregate.name, letter, values[-1], argument, remedy)
    if aggregate.name in {"LAG", "LEAD"} and len(values) > 2:
        values[2] = _default(place, values[0], values[2], arguments[2])
        if values[0].kind is Kind.INTEGER:  # a literal alone is narrower than its default
            values[0] = _whole(values[0])
    return values


def _whole(value: Value) -> Value:
    return replace(value, sql=f"TRY_CAST({value.total} AS BIGINT)", safe=True)


def _default(place: Base, first: Value, default: Value, node: exp.Expr) -> Value:
    """Hold a default against the values beside it: it is converted to their type."""
    alike = first.kind is default.kind not in {None, Kind.DECIMAL} or default.sql == "NULL"
    whole = default.kind is Kind.INTEGER and default.constant is not None
    short = whole and len(default.sql) <= 9  # 1e300 would be as short
    if alike and default.kind is Kind.INTEGER:
        return _whole(default)
    if not alike and not (short and first.numeric):
        title = f"the default has to be a {first.kind or 'value'}"
        mismatch(place.spans.of(node), title, f"a {default.kind}", "NULL")
    return default


def _literal(place: Base, aggregate: Aggregate, letter: str, node: exp.Expr) -> Value:
    """Read a share, a count or a text, which have to be literals: others could raise."""
    inner, span = unwrapped(node), place.spans.of(node)
    found = read_literal(inner, span)
    value = None if found is None or isinstance(found.value, bool) else found.value
    if letter == "l" and isinstance(value, str):
        return Value(text(value), Kind.TEXT, safe=True, longest=len(value))
    least = -MOST if aggregate.name in {"LAG", "LEAD"} else 1
    if (letter == "s" and isinstance(value, int | Fraction) and 0 <= value <= 1) or (
        letter == "c" and isinstance(value, int) and least <= value <= MOST
    ):
        digits = f"-{inner.this.this}" if isinstance(inner, exp.Neg) else str(inner.this)
        return Value(digits, Kind.INTEGER, safe=True)
    what, _, example = KINDS[letter]
    title, why = f"{aggregate.name} needs {what} here", READ_BEFORE
    remedy = "', '" if letter == "l" else example
    raise refusal("DPQ207", title, span, "not such a literal", why, remedy)


def _ordered(place: Base, order: exp.Order) -> str:
    """Write ORDER BY inside a call."""
    keys = (place.value(item.this).total + direction(item) for item in order.expressions)
    return "ORDER BY " + ", ".join(keys)


def windowed(place: Base, node: exp.Window) -> Value:
    """Write a window function."""
    name = window_name(node.this.this if isinstance(node.this, exp.Filter) else node.this)
    if name is None:
        span, remedy = place.spans.of(node), "row_number() OVER ()"
        raise outside("a window over this", span, "no window function", remedy)
    found = aggregated(place, ONLY_WINDOWS.get(name) or AGGREGATES[name], node.this, 0)
    parts = []
    partition = node.args.get("partition_by")
    if partition:
        listed = ", ".join(place.value(part).total for part in partition)
        parts.append(f"PARTITION BY {listed}")
    if node.args.get("order") is not None:
        parts.append(_ordered(place, node.args["order"]))
    if node.args.get("spec") is not None:
        parts.append(_frame(place, node.args["spec"]))
    over = f" OVER ({' '.join(parts)})"
    if found.sql.startswith("TRY_CAST("):  # the conversion of a sum stands around the whole
        return replace(found, sql=f"{found.sql.removesuffix(' AS BIGINT)')}{over} AS BIGINT)")
    return replace(found, sql=found.sql + over)


def _frame(place: Base, spec: exp.WindowSpec) -> str:
    """Write a frame: its ends are fixed, or a literal number of rows away."""
    kind = str(spec.args.get("kind") or "").upper()
    low = _end(place, spec, "start", kind)
    if spec.args.get("end") is None:
        return f"{kind} {low}"
    return f"{kind} BETWEEN {low} AND {_end(place, spec, 'end', kind)}"


def _end(place: Base, spec: exp.WindowSpec, slot: str, kind: str) -> str:
    end, side = spec.args.get(slot), str(spec.args.get(f"{slot}_side") or "").upper()
    if end == "CURRENT ROW":
        return "CURRENT ROW"
    if end == "UNBOUNDED" and side in _ENDS:
        return f"UNBOUNDED {side}"
    if isinstance(end, exp.Literal) and not end.is_string and side in _ENDS and kind != "RANGE":
        digits = str(end.this)
        if digits.isdigit() and len(digits) <= 9:
            return f"{int(digits)} {side}"
    span = place.spans.of(end if isinstance(end, exp.Expr) else spec)
    remedy = "ROWS BETWEEN 6 PRECEDING AND CURRENT ROW"
    raise outside("this frame", span, "not a literal number of rows", remedy)


# GROUPING(a, b): which of some keys a row is not grouped by, a bit each, the last lowest.


MOST_KEYS = 62
"""Keys whose bits fit into a whole number."""


def asked_keys(place: Base, node: exp.Expr, keys: Sequence[str]) -> list[int]:
    """Return the places of the keys that GROUPING asks about, of all by their texts.

    Raises:
        SyntaxRefused: DPQ102 it asks about something else, or about nothing.
    """
    if isinstance(node, exp.Filter) or not 1 <= len(node.expressions) <= MOST_KEYS:
        _refuse_asked(place, node, node, "it takes groups, and nothing besides")
    found = []
    for asked in node.expressions:
        value = place.value(asked)
        if value.sql not in keys:
            _refuse_asked(place, node, asked, "not in GROUP BY")
        found.append(keys.index(value.sql))
    return found


def _refuse_asked(place: Base, node: exp.Expr, part: exp.Expr, label: str) -> NoReturn:
    text, select = place.spans.text(part), node.find_ancestor(exp.Select)
    group = None if select is None else select.args.get("group")
    key = None if group is None else group.find(exp.Column)
    remedy = (
        advice("write GROUP BY ROLLUP (...)")
        if key is None
        else f"GROUPING({place.spans.text(key)})"
    )
    raise outside(f"GROUPING of {text}"[:60], place.spans.of(part), label, remedy)
