"""Binds row functions: calls by name, and what the language has words for.

What a call takes is read from the registry; a text of another kind is never converted, and a
literal parameter is checked here, so that the engine never reads one that it could refuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, NoReturn

from sqlglot import expressions as exp

from dpquery import rowfunctions
from dpquery.core.source import Span
from dpquery.core.types import BOOLEAN, DATE, INTEGER, TEXT, Kind
from dpquery.errors import QueryRefused, nearest, refusal
from dpquery.ir.expr import (
    Apply,
    Arithmetic,
    Comparison,
    Expr,
    IsNull,
    Literal,
    Logic,
    Negate,
    Not,
    Operator,
    children,
)
from dpquery.rowfunctions import named
from dpquery.rowfunctions.base import MOMENTS, Parameter, RowFunction
from dpquery.rowfunctions.conditional import NOTHING, is_nothing
from dpquery.rowfunctions.dates import PART_NAMES, UNIT_NAMES, UNIT_WORDS
from dpquery.sql.bind.typing import Remedy, alike, compare, to_double
from dpquery.sql.parse.spans import repeated
from dpquery.sql.suggest.queries import mismatch, with_article

MOST_UNITS = 10**6
_SHOWN = ("CASE", "COALESCE", "YEAR", "ROUND", "LENGTH")


def called(node: exp.Expr) -> tuple[str, list[exp.Expr]]:
    """Return the name of the function that a node calls, and its arguments as written."""
    match node:
        case exp.Anonymous(this=str(name)):
            return name.upper(), list(node.expressions)
        case exp.Abs() | exp.Round() | exp.Greatest() | exp.Least() | exp.Coalesce():
            return node.key.upper(), list(node.iter_expressions())
    return "", []


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
    """Return the parameter of each argument."""
    parameters = function.parameters
    least, most = len(parameters) - function.optional, len(parameters)
    if count < least:
        raise _miscounted("DPQ203", function, span, "an argument is missing")
    if count <= most:
        return parameters[:count]
    if not function.variadic:
        raise _miscounted("DPQ206", function, span, "too many arguments")
    return [*parameters, *[parameters[-1]] * (count - most)]


def _miscounted(code: str, function: RowFunction, span: Span, label: str) -> QueryRefused:
    takes = [parameter.what for parameter in function.parameters]
    more = ["and more of the last"] * function.variadic
    return miscounted(function.name, [*takes, *more], span, function.example, code, label)


def miscounted(
    name: str,
    takes: Sequence[str],
    span: Span,
    example: str,
    code: str = "DPQ206",
    label: str = "another number of arguments",
) -> QueryRefused:
    """Return the refusal of a call with more arguments than a function takes, or fewer."""
    why = f"it takes {', '.join(takes) or 'none'}."
    return refusal(code, f"{name} does not take so many arguments", span, label, why, example)


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
        raise refusal(
            "DPQ207",
            f"{function.name} needs {parameter.what} here",
            argument.span,
            "not a literal",
            "what a function does is known before any row is read.",
            function.example,
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
    raise refusal(
        "DPQ205",
        f"{function.name} cannot be computed with this",
        argument.span,
        label,
        f"{why}.",
        function.example,
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
    """Return NULL as a value; its type is that of the values beside it."""
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
    """Return a part of a moment by its name, as EXTRACT and DATE_PART do."""
    function = rowfunctions.named(word_of(part, part_span, PART_NAMES).upper())
    return bound_call(span, function, [value])


def word_of(word: str, span: Span, known: Mapping[str, str]) -> str:
    """Return the part or the unit of moments that a word names.

    Raises:
        NameRefused: DPQ205 it names none.
    """
    found = known.get(word.lower())
    if found is None:
        raise refusal(
            "DPQ205",
            f"a moment has no part {word[:40]}",
            span,
            f"is it {nearest(word.lower(), known) or 'year'}?",
            f"there are {', '.join(sorted(known))}.",
            "EXTRACT(year FROM DATE '2024-12-31')",
        )
    return found


def moved(
    span: Span, value: Expr, operator: Operator, interval: exp.Interval, at: Span
) -> Apply:
    """Add an INTERVAL to a moment, or take it away.

    Raises:
        NameRefused: DPQ205 a unit that moments do not have, DPQ207 no literal number.
    """
    function = rowfunctions.named("DATE_ADD")
    number, known = read_interval(interval, at)
    if value.type == DATE and known in {"hour", "minute", "second"}:
        mismatch(value.span, f"a date has no {known}", "a date here", f"{function.example}")
    number = -number if operator is Operator.SUBTRACT else number
    parts = [Literal(at, number, INTEGER), Literal(at, known, TEXT)]
    return bound_call(span, function, [value, *parts])


def read_interval(node: exp.Interval, span: Span) -> tuple[int, str]:
    """Read the number and the unit of INTERVAL 3 DAY, INTERVAL '3' DAY or INTERVAL '3 days'.

    Raises:
        NameRefused: DPQ205 a unit that moments do not have, or no literal whole number.
    """
    text = str(node.this.this).strip() if isinstance(node.this, exp.Literal) else ""
    unit = node.args.get("unit")
    number, word = text.partition(" ")[::2] if unit is None else (text, unit.name)
    known = UNIT_NAMES.get(word.strip().lower())
    whole = number.removeprefix("-").isdigit() and len(number) <= 7
    if known is None or not whole or abs(int(number)) > MOST_UNITS:
        raise refusal(
            "DPQ205",
            "DATE_ADD cannot be computed with this",
            span,
            "not understood",
            f"an interval is a whole number up to {MOST_UNITS} of {', '.join(UNIT_WORDS)}.",
            "INTERVAL 3 MONTH",
        )
    return int(number), known


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
    raise refusal(
        "DPQ202",
        f"there is no function {shown} for rows",
        span,
        "unknown function",
        (
            "a function that failed on one row would tell whether that row exists;",
            f"{', '.join(shown_names)} and others: see `dpquery explain functions`.",
        ),
        remedy,
    )


# How large an expression is when it is written out for the engine, with what it repeats.
#
# A tree may hold one part in several places, and the engine's text may hold one operand
# several times; nested, both double at each level. Sizes are added up as parts are bound,
# so that nothing grows before it is refused.


MAX_SIZE = 20_000
_MOMENTS = frozenset({Kind.DATE, Kind.TIMESTAMP})


class Sizes:
    """The sizes of the parts of one statement that have been bound."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[_Size, Expr]] = {}

    def check(self, expr: Expr) -> Expr:
        """Note the size of an expression.

        Raises:
            SyntaxRefused: DPQ105 it is too large.
        """
        if self._of(expr).value > MAX_SIZE:
            raise repeated(expr.span, "functions inside one another")
        return expr

    def _of(self, expr: Expr) -> _Size:
        known = self._known.get(id(expr))
        if known is None:
            size = _size(expr, [self._of(child) for child in children(expr)])
            self._known[id(expr)] = known = (
                size,
                expr,
            )  # held, so that its number stays its own
        return known[0]


class _Size(NamedTuple):
    """How often parts stand in a text: as a value, and as a double where NaN may be NULL."""

    value: int
    number: int


def _size(expr: Expr, parts: list[_Size]) -> _Size:
    values, numbers = (
        (1 + sum(sizes) for sizes in zip(*parts, strict=True)) if parts else (1, 1)
    )
    match expr:
        case Arithmetic() | Negate() if expr.type.kind is Kind.DOUBLE:
            return _Size(2 * numbers, numbers)
        case Apply(function=name, arguments=arguments):
            function = named(name)
            far = any(a.type.kind in _MOMENTS and not a.domain.bounded for a in arguments)
            size = function.repeats * (3 if far else 1)
            if function.keeps_nan and expr.type.kind is Kind.DOUBLE:
                return _Size(2 * size * numbers, size * numbers)
            size *= values
            return _Size(2 * size, size) if function.makes_nan else _Size(size, size)
    return _Size(values, values)
