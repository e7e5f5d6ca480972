"""Writes calls of aggregates and of window functions, over the rows they are about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, NameRefused, SyntaxRefused
from dpquery.sql.above.aggregates import AGGREGATES, ONLY_WINDOWS, Aggregate, window_name
from dpquery.sql.above.functions import KINDS
from dpquery.sql.above.values import LONGEST_NUMBER, TEXTUAL, Value, condition, text
from dpquery.sql.literals import read_literal, unwrapped
from dpquery.sql.mending import outside
from dpquery.sql.mismatches import mismatch
from dpquery.types import Kind

if TYPE_CHECKING:
    from dpquery.sql.above.stages import Base

__all__ = ["aggregated", "ordered_text", "windowed"]

MOST = 10**9
_ENDS = {"PRECEDING", "FOLLOWING"}


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
    if aggregate.name == "COUNT" and isinstance(arguments[0] if arguments else None, exp.Star):
        arguments = []
    values = _bound(place, aggregate, arguments, call)
    written = [
        aggregate.argument(value) if letter not in "scl" else value.sql
        for value, letter in zip(values, aggregate.takes, strict=False)
    ]
    listed = ("DISTINCT " if distinct else "") + ", ".join(written)
    if aggregate.name == "COUNT" and not values:
        listed = "*"
    if order is not None:
        listed += " " + ordered_text(place, order)
    called = f"{aggregate.engine}({listed})"
    if kept is not None:
        called += f" FILTER (WHERE {condition(place.truth(kept.this))})"
    kind = aggregate.kind(values)
    narrow = kind is Kind.INTEGER or (aggregate.gives is None and all(v.narrow for v in values))
    sql = aggregate.whole(called, values)
    longest, grown = _lengths(aggregate, values, place.most, sets)
    return Value(sql, kind, safe=True, narrow=narrow, longest=longest, grown=grown)


def _lengths(
    aggregate: Aggregate, values: Sequence[Value], rows: int, sets: int
) -> tuple[int, int | None]:
    """Return how long a value is, and what all of them are: texts together, or one of them."""
    if aggregate.kind(list(values)) not in TEXTUAL:
        return LONGEST_NUMBER, 0
    if aggregate.gives is Kind.TEXT:
        longest = rows * (values[0].longest + sum(v.longest for v in values[1:]) + 1)
        return longest, longest * sets or None
    longest = max((value.longest for value in values), default=0)
    return longest, 0 if all(value.grown == 0 for value in values) else None


def _arguments(call: exp.Expr) -> tuple[bool, exp.Order | None, list[exp.Expr]]:
    """Part the arguments of a call from DISTINCT and ORDER BY."""
    if isinstance(call, exp.Anonymous):
        arguments = list(call.expressions)
    else:
        slots = (call.args.get(slot) for slot in ("this", "offset", "default"))
        arguments = [one for one in slots if isinstance(one, exp.Expr)]
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
        _miscounted(place, aggregate, call)
    values = []
    for letter, argument in zip(aggregate.takes, arguments, strict=False):
        if letter in "scl":
            values.append(_literal(place, aggregate, letter, argument))
            continue
        value = place.value(argument)
        what, kinds = KINDS[letter]
        if value.kind is not None and value.kind not in kinds:
            title = f"{aggregate.name} needs {what}"
            remedy = f"COUNT({place.spans.text(argument)})"
            mismatch(place.spans.of(argument), title, f"a {value.kind} here", remedy)
        values.append(value)
    if aggregate.name in {"LAG", "LEAD"} and len(values) > 2:
        values[2] = _default(place, values[0], values[2], arguments[2])
    return values


def _default(place: Base, first: Value, default: Value, node: exp.Expr) -> Value:
    """Hold a default against the values beside it: it is converted to their type."""
    alike = first.kind is default.kind not in {None, Kind.DECIMAL} or default.sql == "NULL"
    whole = default.kind is Kind.INTEGER and default.constant is not None
    short = whole and len(default.sql) <= 9  # 1e300 would be as short
    if alike and default.kind is Kind.INTEGER:
        return replace(default, sql=f"TRY_CAST({default.total} AS BIGINT)", safe=True)
    if not alike and not (short and first.numeric):
        what = "value" if first.kind is None else str(first.kind)
        title, label = f"the default has to be a {what}", f"a {default.kind}"
        mismatch(place.spans.of(node), title, label, "NULL")
    return default


def _miscounted(place: Base, aggregate: Aggregate, call: exp.Expr) -> NoReturn:
    takes = [_WHAT.get(letter) or KINDS[letter][0] for letter in aggregate.takes]
    raise NameRefused(
        Diagnostic(
            "DPQ206",
            f"{aggregate.name} does not take so many arguments",
            place.spans.of(call),
            "another number of arguments",
            (f"it takes {', '.join(takes) or 'none'}.",),
            ("COUNT(*)",),
        )
    )


_WHAT = {
    "s": "a literal from 0 to 1",
    "c": "a literal whole number",
    "l": "a literal text",
}


def _literal(place: Base, aggregate: Aggregate, letter: str, node: exp.Expr) -> Value:
    """Read a share or a count, which have to be literals: others could raise."""
    inner, span = unwrapped(node), place.spans.of(node)
    found = read_literal(inner, span)
    number = None if found is None or isinstance(found.value, bool) else found.value
    if letter == "s":
        fits = isinstance(number, int | Fraction) and 0 <= number <= 1
    else:
        least = -MOST if aggregate.name in {"LAG", "LEAD"} else 1
        fits = isinstance(number, int) and least <= number <= MOST
    if letter == "l" and isinstance(number, str):
        return Value(text(number), Kind.TEXT, safe=True, longest=len(number))
    if not fits or letter == "l":
        raise NameRefused(
            Diagnostic(
                "DPQ207",
                f"{aggregate.name} needs {_WHAT[letter]} here",
                span,
                "not such a literal",
                ("it is read from the text before anything is computed.",),
                ({"s": "0.5", "c": "1"}.get(letter, "', '"),),
            )
        )
    written = str(inner.this) if not isinstance(inner, exp.Neg) else f"-{inner.this.this}"
    return Value(written, Kind.INTEGER, safe=True)


def ordered_text(place: Base, order: exp.Order) -> str:
    """Write ORDER BY inside a call."""
    keys = []
    for item in order.expressions:
        direction = "DESC" if item.args.get("desc") else "ASC"
        nulls = "FIRST" if item.args.get("nulls_first") else "LAST"
        keys.append(f"{place.value(item.this).total} {direction} NULLS {nulls}")
    return "ORDER BY " + ", ".join(keys)


def windowed(place: Base, node: exp.Window) -> Value:
    """Write a window function."""
    call = node.this.this if isinstance(node.this, exp.Filter) else node.this
    name = window_name(call)
    if name is None:
        span = place.spans.of(node)
        remedy = "row_number() OVER ()"
        raise SyntaxRefused(outside("a window over this", span, "no window function", remedy))
    function = ONLY_WINDOWS.get(name) or AGGREGATES[name]
    found = aggregated(place, function, node.this, 0)
    parts = []
    partition = node.args.get("partition_by") or []
    if partition:
        listed = ", ".join(place.value(part).total for part in partition)
        parts.append(f"PARTITION BY {listed}")
    order = node.args.get("order")
    if order is not None:
        parts.append(ordered_text(place, order))
    if node.args.get("spec") is not None:
        parts.append(_frame(place, node.args["spec"]))
    over = f"OVER ({' '.join(parts)})"
    if found.sql.startswith("TRY_CAST("):  # the conversion of a sum stands around the whole
        whole = found.sql.removesuffix(" AS BIGINT)") + f" {over} AS BIGINT)"
        return replace(found, sql=whole)
    return replace(found, sql=f"{found.sql} {over}")


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
    span = place.spans.of(end) if isinstance(end, exp.Expr) else place.spans.of(spec)
    remedy = "ROWS BETWEEN 6 PRECEDING AND CURRENT ROW"
    raise SyntaxRefused(outside("this frame", span, "not a literal number of rows", remedy))
