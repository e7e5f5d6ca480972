"""Binds row functions: calls by name, and what the language has words for.

What a call takes is read from the registry; a text of another kind is never converted, and a
literal parameter is checked here, so that the engine never reads one that it could refuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery import rowfunctions
from dpquery.errors import Diagnostic, NameRefused, nearest
from dpquery.ir import Apply, Comparison, Expr, IsNull, Literal, Logic, Not, Operator
from dpquery.rowfunctions.base import MOMENTS, Parameter, RowFunction
from dpquery.rowfunctions.conditional import NOTHING, is_nothing
from dpquery.rowfunctions.dates import PART_NAMES, UNIT_NAMES
from dpquery.source import Span
from dpquery.sql.expressions import Remedy, alike, compare, to_double
from dpquery.sql.mismatches import mismatch, with_article
from dpquery.types import BOOLEAN, DATE, INTEGER, TEXT

__all__ = [
    "bound_call",
    "case",
    "distinct_from",
    "extracted",
    "known_function",
    "moved",
    "nothing",
    "unknown_function",
]

MOST_UNITS = 10**6
_SHOWN = ("CASE", "COALESCE", "YEAR", "ROUND", "LENGTH")


def known_function(node: exp.Expr) -> tuple[RowFunction, list[exp.Expr]] | None:
    """Give the row function that a node calls by name, and its arguments as written."""
    match node:
        case exp.Anonymous(this=str(name)):
            arguments = list(node.expressions)
        case exp.Abs() | exp.Round() | exp.Greatest() | exp.Least() | exp.Coalesce():
            name, arguments = node.key, list(node.iter_expressions())
        case _:
            return None
    function = rowfunctions.find(name)
    return None if function is None else (function, arguments)


def bound_call(span: Span, function: RowFunction, arguments: Sequence[Expr]) -> Apply:
    """Apply a function that is called by its name.

    Raises:
        NameRefused: DPQ203 too few arguments, DPQ206 too many, DPQ207 one that has to be a
            literal, DPQ205 a literal out of range, DPQ208 an argument of another type.
    """
    taken = _parameters(function, len(arguments), span)
    given = [
        _fitting(function, parameter, argument)
        for parameter, argument in zip(taken, arguments, strict=True)
    ]
    moments = [a for p, a in zip(taken, given, strict=True) if p is MOMENTS]
    if len({moment.type for moment in moments}) > 1:
        title = f"{function.name} needs two dates, or two timestamps"
        mismatch(moments[1].span, title, "types differ", function.example)
    if function.alike:
        given = _alike(span, given, function)
    return rowfunctions.apply(span, function.name, *given)


def _parameters(function: RowFunction, count: int, span: Span) -> Sequence[Parameter]:
    """Give the parameter of each argument."""
    parameters = function.parameters
    least, most = len(parameters) - function.optional, len(parameters)
    if count < least:
        _miscounted("DPQ203", function, span, "an argument is missing")
    if count <= most:
        return parameters[:count]
    if not function.variadic:
        _miscounted("DPQ206", function, span, "too many arguments")
    return [*parameters, *[parameters[-1]] * (count - most)]


def _miscounted(code: str, function: RowFunction, span: Span, label: str) -> NoReturn:
    takes = ", ".join(parameter.what for parameter in function.parameters)
    more = ", and more of the last" if function.variadic else ""
    raise NameRefused(
        Diagnostic(
            code,
            f"{function.name} does not take so many arguments",
            span,
            label,
            (f"it takes {takes}{more}.",),
            (function.example,),
        )
    )


def _fitting(function: RowFunction, parameter: Parameter, argument: Expr) -> Expr:
    """Hold an argument against its parameter."""
    if is_nothing(argument) and not (function.alike and function.variadic):
        _unfit(function, argument, "NULL", f"{function.name} of NULL is NULL")
    if not is_nothing(argument) and argument.type.kind not in parameter.kinds:
        title = f"{function.name} needs {parameter.what}"
        mismatch(argument.span, title, f"{with_article(argument.type)} here", function.example)
    if parameter.literal:
        return _literal(function, parameter, argument)
    return to_double(argument) if parameter.double else argument


def _literal(function: RowFunction, parameter: Parameter, argument: Expr) -> Expr:
    if not isinstance(argument, Literal):
        raise NameRefused(
            Diagnostic(
                "DPQ207",
                f"{function.name} needs {parameter.what} here",
                argument.span,
                "not a literal",
                ("what a function does is known before any row is read.",),
                (function.example,),
            )
        )
    value = argument.value
    if isinstance(value, str):
        folded = value.lower()
        if parameter.words and folded not in parameter.words:
            near = nearest(folded, parameter.words) or parameter.words[0]
            _unfit(
                function,
                argument,
                "not one of them",
                f"there are {', '.join(parameter.words)}; is it '{near}'?",
            )
        if parameter.words:
            return Literal(argument.span, folded, TEXT)
        wrong = parameter.check(value) if parameter.check is not None else None
        if wrong is not None:
            _unfit(function, argument, "not taken", wrong)
    if parameter.range is not None and isinstance(value, int):
        low, high = parameter.range
        if not low <= value <= high:
            _unfit(function, argument, "out of range", f"a whole number from {low} to {high}")
    return argument


def _unfit(function: RowFunction, argument: Expr, label: str, why: str) -> NoReturn:
    raise NameRefused(
        Diagnostic(
            "DPQ205",
            f"{function.name} cannot be computed with this",
            argument.span,
            label,
            (f"{why}.",),
            (function.example,),
        )
    )


def _alike(span: Span, given: Sequence[Expr], function: RowFunction) -> list[Expr]:
    """Bring values to one type; NULL has each of them."""
    known = [one for one in given if not is_nothing(one)]
    if not known:
        _unfit(function, given[0], "NULL", "one of the values must have a type")
    same = alike(span, known, lambda: function.example)
    left = iter(same)
    return [
        replace(one, type=same[0].type)
        if isinstance(one, Apply) and is_nothing(one)
        else next(left)
        for one in given
    ]


def nothing(span: Span) -> Apply:
    """Give NULL as a value; its type is that of the values beside it."""
    return Apply(span, NOTHING, (), BOOLEAN, Literal(span, 0, INTEGER).domain)


def case(span: Span, pairs: Sequence[tuple[Expr, Expr]], otherwise: Expr | None) -> Apply:
    """Build a CASE from its conditions and values; those have one type."""
    function = rowfunctions.named("CASE")
    results = [value for _, value in pairs] + ([otherwise] if otherwise is not None else [])
    same = _alike(span, results, function)
    arguments: list[Expr] = []
    for (condition, _), value in zip(pairs, same, strict=False):
        arguments += [condition, value]
    if otherwise is not None and not is_nothing(otherwise):
        arguments.append(same[-1])
    return rowfunctions.apply(span, "CASE", *arguments)


def distinct_from(span: Span, left: Expr, right: Expr, remedy: Remedy) -> Expr:
    """Compare two values where NULL is a value like others; true where they differ."""
    if is_nothing(left) or is_nothing(right):
        return Not(span, IsNull(span, right if is_nothing(left) else left))
    differ = compare(span, Comparison.NE, left, right, remedy)
    one, other = IsNull(left.span, differ.left), IsNull(right.span, differ.right)
    apart = compare(span, Comparison.NE, one, other, remedy)
    known = rowfunctions.apply(span, "COALESCE", differ, Literal(span, False, BOOLEAN))
    return Logic(span, False, (apart, known))


def extracted(span: Span, part: str, part_span: Span, value: Expr) -> Apply:
    """Give a part of a moment by its name, as EXTRACT and DATE_PART do."""
    name = PART_NAMES.get(part.lower())
    if name is None:
        near = nearest(part.lower(), PART_NAMES) or "year"
        raise NameRefused(
            Diagnostic(
                "DPQ205",
                f"a moment has no part {part[:40]}",
                part_span,
                f"is it {near}?",
                (f"there are {', '.join(sorted(PART_NAMES))}.",),
                ("EXTRACT(year FROM DATE '2024-12-31')",),
            )
        )
    function = rowfunctions.find(name)
    assert function is not None  # noqa: S101 - each part is a function
    return bound_call(span, function, [value])


def moved(
    span: Span, value: Expr, operator: Operator, interval: exp.Interval, at: Span
) -> Apply:
    """Add an INTERVAL to a moment, or take it away.

    Raises:
        NameRefused: DPQ205 a unit that moments do not have, DPQ207 no literal number.
    """
    function = rowfunctions.named("DATE_ADD")
    text, unit = _interval(interval)
    known = UNIT_NAMES.get(unit.lower())
    number = int(text) if text.removeprefix("-").isdigit() and len(text) <= 7 else None
    if known is None or number is None or abs(number) > MOST_UNITS:
        units = ", ".join(sorted(set(UNIT_NAMES.values())))
        why = f"an interval is a whole number up to {MOST_UNITS} of {units}"
        _unfit(function, Literal(at, 0, INTEGER), "not understood", why)
    if value.type == DATE and known in {"hour", "minute", "second"}:
        mismatch(value.span, f"a date has no {known}", "a date here", f"{function.example}")
    number = -number if operator is Operator.SUBTRACT else number
    parts = [Literal(at, number, INTEGER), Literal(at, known, TEXT)]
    return bound_call(span, function, [value, *parts])


def _interval(node: exp.Interval) -> tuple[str, str]:
    """Give the number and the unit of INTERVAL 3 DAY, INTERVAL '3' DAY or INTERVAL '3 days'."""
    number, unit = node.this, node.args.get("unit")
    text = str(number.this) if isinstance(number, exp.Literal) else ""
    if unit is not None:
        return text.strip(), unit.name
    count, _, word = text.strip().partition(" ")
    return count, word.strip()


def unknown_function(name: str, span: Span, written: str, otherwise: str) -> NoReturn:
    """Refuse a function that rows do not have; offer the one that was meant.

    Args:
        name: what it is called.
        span: where its name stands.
        written: the whole call.
        otherwise: what to offer where no name is near.
    """
    known = [*rowfunctions.names(), "DATE_PART", "EXTRACT", "IF"]
    empty = written[len(name) :].replace(" ", "") in {"", "()"}  # and none there takes nothing
    near = None if empty else nearest(name.upper(), known)
    remedy = otherwise if near is None else near + written[len(name) :]
    shown_names = dict.fromkeys([*([near] if near else []), *_SHOWN])
    shown = name[:40].upper() if name.isascii() else name[:40]
    raise NameRefused(
        Diagnostic(
            "DPQ202",
            f"there is no function {shown} for rows",
            span,
            "unknown function",
            (
                "a function that failed on one row would tell whether that row exists;",
                f"there are {', '.join(shown_names)} and others in functions.md.",
            ),
            (remedy,),
        )
    )
