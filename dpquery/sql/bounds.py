"""Reads `bounds=[low, high]` and the like: literals of the argument's kind."""

from __future__ import annotations

from datetime import date
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, NameRefused, PlanRefused
from dpquery.functions.base import DPFunction
from dpquery.functions.codes import example_bounds
from dpquery.ir import Expr, Literal, Options, Scalar
from dpquery.source import Span
from dpquery.sql.literals import as_moment, read_literal, unwrapped
from dpquery.sql.mismatches import with_article
from dpquery.sql.names import fold
from dpquery.types import INT64, Interval, Kind, ordinal

__all__ = ["is_auto", "read_bounds", "read_group_bounds", "read_value", "refuse_constant"]


def is_auto(node: exp.Expr) -> bool:
    """Say whether bounds are left to a release: bounds='auto'."""
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
