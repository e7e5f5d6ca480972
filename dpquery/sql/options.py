"""Reads the options of a DP_ call: literals, exactly, each inside a range with a meaning."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, NameRefused, listed, nearest
from dpquery.functions.base import MECHANISM_ALIASES, DPFunction, Number
from dpquery.ir import Expr, Options
from dpquery.privacy import EPSILON_MAX, EPSILON_MIN, decimal_text, exact_number, root_above
from dpquery.rowfunctions.domains import MAX_CELLS
from dpquery.source import Span
from dpquery.sql.bounds import (
    is_auto,
    read_bounds,
    read_group_bounds,
    read_value,
)
from dpquery.sql.literals import unwrapped
from dpquery.sql.names import fold
from dpquery.sql.spans import Spans
from dpquery.types import ROWS_MAX

__all__ = ["Given", "read_number_between", "read_options", "read_whole"]

AUTO = "auto"
_EXAMPLES = {
    "eps": "eps=0.5",
    "rho": "rho=0.005",
    "delta": "delta=1e-7",
    "max_rows_contributed": "max_rows_contributed=5",
    "rho_smooth": "rho_smooth=100",
    "max_groups_contributed": "max_groups_contributed=3",
    "max_keys": "max_keys=500",
    "left_out_eps": "left_out_eps=0.1",
}
"""How each number is written."""

_PROMISE = "outside this range the promise means nothing, or cannot be computed exactly."
_RANGES = {
    "the quantile": "a quantile is a share of the rows: 0.1 is the tenth percentile.",
    "the confidence": "of intervals at 0.95, about 95 in 100 hold the exact value.",
}
"""Why an option has the range it has."""

Given = Mapping[str, tuple[exp.Expr, Span]]
"""What stands after the name of each option, and where."""


def read_options(function: DPFunction, argument: Expr | None, given: Given) -> Options:
    """Read the options of a call, of which eps is one, or rho in its place.

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
    if auto:
        bounds = None
    mechanism, rho = values.get("mechanism"), _number(values, "rho")
    return Options(
        epsilon=Fraction(values["eps"]) if rho is None else root_above(2 * rho),
        epsilon_span=spans["eps" if rho is None else "rho"],
        rho=rho,
        delta=_number(values, "delta"),
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
        bounds=read_bounds(argument, *bounds) if argument and bounds else None,
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
        case "eps" | "rho" | "left_out_eps":
            return read_number_between(name, node, span, (EPSILON_MIN, EPSILON_MAX))
        case "delta":
            return read_number_between(name, node, span, (Fraction(1, 10**30), Fraction(1, 10)))
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
