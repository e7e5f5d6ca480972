"""Reads the options of a DP_ call: literals, exactly, each inside a range with a meaning."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.core.privacy import (
    EPSILON_MAX,
    EPSILON_MIN,
    Loss,
    decimal_text,
    exact_number,
    root_above,
)
from dpquery.core.source import Span
from dpquery.core.types import INT64, ROWS_MAX, Interval, Kind, ordinal
from dpquery.errors import Diagnostic, NameRefused, PlanRefused, listed, nearest
from dpquery.functions.base import MECHANISM_ALIASES, DPFunction, Number
from dpquery.functions.quantize import example_bounds
from dpquery.ir.expr import Expr, Literal, Scalar
from dpquery.ir.query import Options
from dpquery.rowfunctions.key_domains import MAX_CELLS
from dpquery.sql.bind.scope import fold
from dpquery.sql.parse.literals import as_moment, read_literal, unwrapped
from dpquery.sql.parse.spans import Spans
from dpquery.sql.suggest.queries import with_article

# Reads `bounds=[low, high]` and the like: literals of the argument's kind.


def is_auto(node: exp.Expr) -> bool:
    """Return whether bounds are left to a release: bounds='auto'."""
    return _is_text(node) and fold(str(node.this)) == "auto"


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


def read_bounds(argument: Expr, node: exp.Expr, span: Span) -> Interval:
    """Read bounds: numbers, or days and microseconds since 1970 where the argument is a moment.

    Raises:
        NameRefused: DPQ205 the wrong way round, DPQ207 not two literals, DPQ208 of another
        kind.
    """
    if not isinstance(node, exp.Array | exp.Tuple) or len(node.expressions) != 2:
        word = isinstance(unwrapped(node), exp.Column) or _is_text(node)
        _not_two(span, "bounds='auto'" if word else example_bounds(argument.type))
    low, high = (_end(argument, unwrapped(end), span) for end in node.expressions)
    return _ordered("bounds", node, span, low, high)


def read_group_bounds(node: exp.Expr, span: Span) -> Interval:
    """Read where a unit's total in a group is clamped: two numbers, in brackets of any kind.

    Raises:
        NameRefused: DPQ205 the wrong way round, DPQ207 not two numbers.
    """
    name = "contribution_bounds_per_group"
    if not isinstance(node, exp.Array | exp.Tuple) or len(node.expressions) != 2:
        _not_two(span, f"{name}=[0, 50]", "")
    low, high = (read_literal(unwrapped(end), span) for end in node.expressions)
    if low is None or high is None or not (low.type.numeric and high.type.numeric):
        _not_two(span, f"{name}=[0, 50]", "")
    assert isinstance(low.value, int | Fraction)  # noqa: S101 - a number's literal
    assert isinstance(high.value, int | Fraction)  # noqa: S101
    return _ordered(name, node, span, Fraction(low.value), Fraction(high.value))


def refuse_constant(function: DPFunction, argument: Expr | None, options: Options) -> None:
    """Refuse bounds between which there is one answer, whatever the rows.

    A sum of rows that all count as 7 tells how many there are; one of zeros tells nothing.
    So it is with what each unit has in a group.

    Raises:
        PlanRefused: DPQ408.
    """
    per_group = "contribution_bounds_per_group=[0, 50]"
    other = per_group if argument is None else example_bounds(argument.type)
    for bounds, span, remedy in (
        (options.bounds, options.bounds_span, other),
        (options.group_bounds, options.group_bounds_span, per_group),
    ):
        if bounds is None or span is None or bounds.low != bounds.high:
            continue
        if bounds.low != 0 and (function.name == "DP_SUM" or bounds is options.group_bounds):
            continue
        raise PlanRefused(
            Diagnostic(
                "DPQ408",
                "the answer could not contain anything",
                span,
                "every value counts as this one",
                ("it would be charged, and be the same whatever the rows are.",),
                (remedy,),
            )
        )


def read_value(argument: Expr, node: exp.Expr, span: Span) -> Scalar:
    """Read a value of the argument's type.

    Raises:
        NameRefused: DPQ207 not a literal, DPQ208 of another kind, DPQ210 it cannot be read.
    """
    literal, type_ = read_literal(unwrapped(node), span), argument.type
    if literal is None:
        _not_a_value(argument, span, "DPQ207", "not a literal")
    if type_.kind in {Kind.DATE, Kind.TIMESTAMP} and isinstance(literal.value, str):
        literal = as_moment(literal.value, type_, literal.span)
    if type_.kind is Kind.DECIMAL and literal.type.kind in {Kind.INTEGER, Kind.DECIMAL}:
        value = Fraction(literal.value)  # type: ignore[arg-type]
        if (value * 10**type_.scale).denominator == 1:
            return value
    if literal.type.kind is not type_.kind or type_.kind is Kind.DECIMAL:
        _not_a_value(argument, span, "DPQ208", f"not {with_article(type_)}")
    if type_.kind is Kind.INTEGER and not INT64[0] <= int(literal.value) <= INT64[1]:  # type: ignore[arg-type]
        _not_a_value(argument, span, "DPQ208", "beyond every whole number of a column")
    return literal.value


_VALUES = {
    Kind.TEXT: "'elsewhere'",
    Kind.BOOLEAN: "false",
    Kind.INTEGER: "-1",
    Kind.DECIMAL: "-1",
    Kind.DATE: "'1900-01-01'",
    Kind.TIMESTAMP: "'1900-01-01 00:00:00'",
}


def _not_a_value(argument: Expr, span: Span, code: str, label: str) -> NoReturn:
    raise NameRefused(
        Diagnostic(
            code,
            f"what stands for other values is {with_article(argument.type)} too",
            span,
            label,
            ("it is a group beside the others, in the same column.",),
            (f"other={_VALUES[argument.type.kind]}",),
        )
    )


def _ordered(name: str, node: exp.Expr, span: Span, low: Fraction, high: Fraction) -> Interval:
    if low > high:
        raise NameRefused(
            Diagnostic(
                "DPQ205",
                "the lower bound is above the upper one",
                span,
                "the wrong way round",
                ("bounds say where values are clamped: the lowest first.",),
                (f"{name}=[{', '.join(end.sql() for end in reversed(node.expressions))}]",),
            )
        )
    return Interval(low, high)


def _end(argument: Expr, node: exp.Expr, span: Span) -> Fraction:
    literal = read_literal(node, span)
    if literal is None:
        _not_two(span, example_bounds(argument.type))
    if argument.type.kind in {Kind.DATE, Kind.TIMESTAMP}:
        return _moment(argument, literal)
    if not isinstance(literal.value, int | Fraction) or isinstance(literal.value, bool):
        _not_of_kind(argument, span)
    if argument.type.kind is Kind.INTEGER and Fraction(literal.value).denominator != 1:
        _not_of_kind(argument, span)
    return Fraction(literal.value)


def _moment(argument: Expr, literal: Literal) -> Fraction:
    if isinstance(literal.value, str):
        literal = as_moment(literal.value, argument.type, literal.span)
    if literal.type != argument.type or not isinstance(literal.value, date):
        _not_of_kind(argument, literal.span)
    return Fraction(ordinal(literal.value))


def _not_of_kind(argument: Expr, span: Span) -> NoReturn:
    named = with_article(argument.type)
    raise NameRefused(
        Diagnostic(
            "DPQ208",
            f"the bounds of {named} are two of its values",
            span,
            f"not {named}",
            ("values are clamped to the bounds, so both have to be values of the argument.",),
            (example_bounds(argument.type),),
        )
    )


def _not_two(span: Span, remedy: str, other: str = ", or 'auto'") -> NoReturn:
    raise NameRefused(
        Diagnostic(
            "DPQ207",
            f"bounds are two literals in brackets{other}",
            span,
            "not a lower and an upper bound",
            ("they are read from the text, before anything is computed.",),
            (remedy,),
        )
    )


AUTO = "auto"
_EXAMPLES = {
    "eps": "eps=0.5",
    "rho": "rho=0.005",
    "delta": "delta=1e-7",
    "max_rows_contributed": "max_rows_contributed=5",
    "rho_smooth": "rho_smooth=100",
    "max_groups_contributed": "max_groups_contributed=3",
    "max_keys": "max_keys=500",
    "weight": "weight=2",
    "left_out_eps": "left_out_eps=0.1",
}
"""How each number is written."""

_PROMISE = "outside this range the promise means nothing, or cannot be computed exactly."
_RANGES = {
    "the quantile": "a quantile is a share of the rows: 0.1 is the tenth percentile.",
    "the confidence": "of intervals at 0.95, about 95 in 100 hold the exact value.",
}
"""Why an option has the range it has."""

_PRICES = {
    "eps": (EPSILON_MIN, EPSILON_MAX),
    "rho": (EPSILON_MIN, EPSILON_MAX),
    "delta": (Fraction(1, 10**30), Fraction(1, 10)),
}
WEIGHTS = (Fraction(1, 1000), Fraction(1000))
"""What a call may have of the statement's epsilon, against 1 of the others."""

Given = Mapping[str, tuple[exp.Expr, Span]]
"""What stands after the name of each option, and where."""


def read_price(given: Given, share: Loss | None, call: Span) -> tuple[Loss, Span]:
    """Read what a call may spend, and where it says so: eps, or rho, or else its share.

    Raises:
        NameRefused: DPQ205 out of range, DPQ207 not a literal.
    """
    stated = {
        name: (read_number_between(name, *given[name], range_), given[name][1])
        for name, range_ in _PRICES.items()
        if name in given
    }
    delta, _ = stated.get("delta", (Fraction(0) if share is None else share.delta, call))
    if share is not None:
        return Loss(share.epsilon, delta), call
    if "eps" in stated:
        return Loss(stated["eps"][0], delta), stated["eps"][1]
    rho, span = stated["rho"]
    return Loss(root_above(2 * rho), delta), span


def read_options(
    function: DPFunction, argument: Expr | None, given: Given, price: tuple[Loss, Span]
) -> Options:
    """Read the options of a call that may spend so much.

    Raises:
        NameRefused: DPQ205 out of range, DPQ207 not a literal, DPQ208 bounds of another kind,
            DPQ210 a bound that cannot be read.
    """
    values = {
        name: _option(name, *written, function)
        for name, written in given.items()
        if name not in {"bounds", "contribution_bounds_per_group", "other"}
    }
    spans = {name: span for name, (_, span) in given.items()}
    bounds, totals, other = (
        given.get(name) for name in ("bounds", "contribution_bounds_per_group", "other")
    )
    auto = bounds is not None and is_auto(bounds[0])
    mechanism, (loss, span) = values.get("mechanism"), price
    return Options(
        epsilon=loss.epsilon,
        epsilon_span=span,
        rho=_number(values, "rho"),
        delta=loss.delta or None,
        delta_span=spans.get("delta"),
        mechanism=None if mechanism is None else str(mechanism),
        mechanism_span=spans.get("mechanism"),
        max_rows_contributed=_whole(values, "max_rows_contributed"),
        auto_rows=values.get("max_rows_contributed") == AUTO,
        max_rows_span=spans.get("max_rows_contributed"),
        max_groups_contributed=_whole(values, "max_groups_contributed"),
        max_groups_span=spans.get("max_groups_contributed"),
        group_bounds=totals and read_group_bounds(*totals),
        group_bounds_span=spans.get("contribution_bounds_per_group"),
        bounds=read_bounds(argument, *bounds) if argument and bounds and not auto else None,
        auto=auto,
        bounds_span=spans.get("bounds"),
        smooth=_number(values, "rho_smooth"),
        smooth_span=spans.get("rho_smooth"),
        other=read_value(argument, *other) if argument and other else None,
        most=_whole(values, "max_keys"),
        left_out=_number(values, "left_out_eps"),
        of_table="weights" in values,
        weights_span=spans.get("weights"),
    )


def _number(values: Mapping[str, Fraction | str], name: str) -> Fraction | None:
    return Fraction(values[name]) if name in values else None


def _whole(values: Mapping[str, Fraction | str], name: str) -> int | None:
    return int(values[name]) if name in values and values[name] != AUTO else None


def _option(name: str, node: exp.Expr, span: Span, function: DPFunction) -> Fraction | str:
    match name:
        case "eps" | "rho" | "left_out_eps" | "delta":
            return read_number_between(name, node, span, _PRICES.get(name, _PRICES["eps"]))
        case "weight":
            return read_number_between(name, node, span, WEIGHTS)
        case "rho_smooth":
            return read_number_between(name, node, span, (Fraction(0), Fraction(10**18)))
        case "max_rows_contributed" if is_auto(node):
            return AUTO
        case "max_rows_contributed" | "max_groups_contributed" | "max_keys":
            most = MAX_CELLS if name == "max_keys" else ROWS_MAX
            rows = read_number_between(name, node, span, (Fraction(1), Fraction(most)))
            if rows.denominator != 1:
                _out_of_range(name, span, "a whole number", decimal_text(rows), _EXAMPLES[name])
            return rows
        case "weights":
            return _weights(node, span)
        case _:
            return _mechanism(function, node, span)


def read_number_between(
    name: str,
    node: exp.Expr,
    span: Span,
    bounds: tuple[Fraction, Fraction],
    remedy: str = "",
) -> Fraction:
    """Read a number exactly from its literal: no expression, no column, no cast."""
    remedy = remedy or _EXAMPLES[name]
    sign = 1
    if isinstance(node, exp.Neg):
        sign, node = -1, node.this
    if not isinstance(node, exp.Literal) or node.is_string:
        raise NameRefused(
            Diagnostic(
                "DPQ207",
                f"{name} must be written as a number",
                span,
                "not a number",
                (f"{name} is read exactly from the text, before anything is computed.",),
                (remedy,),
            )
        )
    try:
        value = sign * exact_number(str(node.this))
    except ValueError as error:
        _out_of_range(name, span, "a plain number of at most 30 digits", str(error), remedy)
    if not bounds[0] <= value <= bounds[1]:
        low, high = (decimal_text(bound) for bound in bounds)
        written = f"{'-' if sign < 0 else ''}{node.this}"[:40]
        _out_of_range(name, span, f"between {low} and {high}", written, remedy)
    return value


def read_whole(number: Number, node: exp.Expr, spans: Spans) -> int:
    """Read the whole number that stands second in a call."""
    span, bounds = spans.of(node), (Fraction(number.least), Fraction(number.most))
    name, remedy = f"the {number.name}", str(number.example)
    value = read_number_between(name, unwrapped(node), span, bounds, remedy)
    if value.denominator != 1:
        _out_of_range(name, span, "a whole number", decimal_text(value), remedy)
    return int(value)


def _out_of_range(name: str, span: Span, wanted: str, given: str, remedy: str) -> NoReturn:
    raise NameRefused(
        Diagnostic(
            "DPQ205",
            f"{name} must be {wanted}",
            span,
            f"given as {given}" if not given.startswith(("not", "more", "out")) else given,
            (_RANGES.get(name, _PROMISE),),
            (remedy,),
        )
    )


def _weights(node: exp.Expr, span: Span) -> str:
    """Read among which rows a unit shares its weight: there is one word for it."""
    text = isinstance(node, exp.Literal) and node.is_string
    if text and fold(str(node.this)) == "table":
        return "table"
    raise NameRefused(
        Diagnostic(
            "DPQ205" if text else "DPQ207",
            "weights must be 'table'",
            span,
            "no other weights have a name" if text else "not a text",
            (
                "with it a unit's weight is shared among all its rows in the table; without,",
                "among those that the query sees.",
            ),
            ("weights='table'",),
        )
    )


def _mechanism(function: DPFunction, node: exp.Expr, span: Span) -> str:
    names = listed(function.mechanisms)
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise NameRefused(
            Diagnostic(
                "DPQ207",
                "mechanism must be written as a text",
                span,
                "not a text",
                (f"{function.name} takes {names}.",),
                (f"mechanism='{function.mechanisms[0]}'",),
            )
        )
    name = fold(str(node.this))
    name = MECHANISM_ALIASES.get(name, name)
    if name not in function.mechanisms:
        near = nearest(name, function.mechanisms) or function.mechanisms[0]
        raise NameRefused(
            Diagnostic(
                "DPQ205",
                f"{function.name} has no mechanism {str(node.this)[:40]!r}",
                span,
                "unknown mechanism",
                (f"{function.name} takes {names}.",),
                (f"mechanism='{near}'",),
            )
        )
    return name
