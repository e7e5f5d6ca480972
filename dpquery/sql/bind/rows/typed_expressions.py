"""Builds typed expressions: comparisons, arithmetic, conversions and calls of row functions.

There is no conversion but numeric widening, and those that were written; each is total. Each
arithmetic node gets a type and a public range by interval arithmetic; whether the range is
narrow enough to be computed is the business of `sql/privacy_rules.py`. What a call takes is
read from the registry, and a literal parameter is checked here, so that the engine never reads
one that it could refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, time
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery import rowfunctions
from dpquery.core.source_text import Span
from dpquery.core.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    UTC_ZONE,
    Interval,
    Kind,
    Type,
)
from dpquery.core.types import MOMENTS as MOMENT_KINDS
from dpquery.errors import QueryRefused, nearest, refusal
from dpquery.ir.expr import (
    Apply,
    Arithmetic,
    ColumnRef,
    Compare,
    Comparison,
    Expr,
    In,
    IsNull,
    Literal,
    Logic,
    Negate,
    Not,
    Operator,
    Widen,
    decimal,
)
from dpquery.rowfunctions.analysis.ranges import arithmetic_range
from dpquery.rowfunctions.base import INSTANTS, MOMENTS, Parameter, RowFunction
from dpquery.rowfunctions.conditional import NOTHING, is_nothing
from dpquery.rowfunctions.dates import CLOCK, PART_NAMES, UNIT_NAMES, UNIT_WORDS
from dpquery.sql.bind.rows.timestamptz_casts import instant, local
from dpquery.sql.bind.scope import written_name
from dpquery.sql.parse.literals import MOMENTS_WRITTEN, as_moment, in_zone, read_digits
from dpquery.sql.suggest.type_mismatches import mismatch, with_article

Remedy = Callable[[], str]
"""What to write instead, computed where values turn out not to match."""


def compare(
    span: Span, operator: Comparison, left: Expr, right: Expr, remedy: Remedy
) -> Compare:
    """Compare two values of one family."""
    left, right = alike(span, _as_truths([left, right]), remedy)
    return Compare(span, operator, left, right)


def member(span: Span, operand: Expr, options: list[Literal], remedy: Remedy) -> In:
    """Ask whether a value is one of several literals."""
    operand, *found = alike(span, _as_truths([operand, *options]), remedy)
    return In(span, operand, tuple(option for option in found if isinstance(option, Literal)))


def _as_truths(exprs: list[Expr]) -> list[Expr]:
    """Read 0 and 1 as FALSE and TRUE beside a truth value."""
    if all(expr.type.kind is not Kind.BOOLEAN for expr in exprs):
        return exprs
    return [
        Literal(expr.span, expr.value == 1, BOOLEAN)
        if isinstance(expr, Literal) and expr.type == INTEGER and expr.value in {0, 1}
        else expr
        for expr in exprs
    ]


def arithmetic(
    span: Span, operator: Operator, left: Expr, right: Expr, remedy: Remedy
) -> Arithmetic:
    """Combine two numbers; the result's range follows from theirs."""
    whole = operator in {Operator.QUOTIENT, Operator.REMAINDER}
    for operand in (left, right):
        if not operand.type.numeric:
            named = with_article(operand.type)
            mismatch(operand.span, f"{operator} needs numbers", named, remedy())
    for operand in (left, right):
        if whole and operand.type != INTEGER:
            named = with_article(operand.type)
            mismatch(operand.span, f"{operator} needs integers", named, remedy())
    if operator is Operator.DIVIDE:
        left, right = to_double(left), to_double(right)
    exact = left.type.kind is not Kind.DOUBLE is not right.type.kind
    if operator is Operator.MULTIPLY and exact:
        type_ = decimal(left.type.scale + right.type.scale)
    else:
        left, right = _one_number_type([left, right])
        type_ = left.type
    domain = arithmetic_range(operator, left.domain, right.domain)
    return Arithmetic(span, operator, left, right, type_, domain)


def negate(span: Span, operand: Expr, remedy: Remedy) -> Negate:
    """Change a number's sign."""
    if not operand.type.numeric:
        mismatch(operand.span, "- needs a number", with_article(operand.type), remedy())
    return Negate(span, operand, operand.type)


def alike(span: Span, exprs: list[Expr], remedy: Remedy) -> list[Expr]:
    """Bring values to one type, by widening numbers and reading literals; or refuse."""
    if all(expr.type.numeric for expr in exprs):
        return _one_number_type(exprs)
    kinds = {expr.type.kind for expr in exprs}
    moments = kinds & {Kind.TIME, *MOMENT_KINDS}
    if moments and not all(isinstance(expr, Literal) for expr in exprs):
        exprs = [_moment(expr, exprs) for expr in exprs]
        kinds = {expr.type.kind for expr in exprs}
    if len(kinds) > 1:
        first = exprs[0].type
        other = next(expr for expr in exprs if expr.type.kind is not first.kind)
        title = f"{with_article(first)} cannot be compared with {with_article(other.type)}"
        mismatch(span, title, "types differ", remedy())
    return exprs


def _one_number_type(exprs: list[Expr]) -> list[Expr]:
    if any(expr.type.kind is Kind.DOUBLE for expr in exprs):
        return [to_double(expr) for expr in exprs]
    scale = max(expr.type.scale for expr in exprs)
    return [to_scale(expr, scale) for expr in exprs]


def to_double(expr: Expr) -> Expr:
    """Widen a number to a double; a literal is read as the double nearest to it."""
    if expr.type.kind is Kind.DOUBLE:
        return expr
    return replace(expr, type=DOUBLE) if isinstance(expr, Literal) else Widen(expr, DOUBLE)


def to_scale(expr: Expr, scale: int) -> Expr:
    """Widen an exact number to a scale."""
    if expr.type.scale == scale:
        return expr
    wider = decimal(scale)
    return replace(expr, type=wider) if isinstance(expr, Literal) else Widen(expr, wider)


def _moment(expr: Expr, others: list[Expr]) -> Expr:
    """Read a literal as the date or timestamp that the columns beside it are."""
    wanted = next(other.type for other in others if not isinstance(other, Literal))
    if not isinstance(expr, Literal) or expr.type == wanted:
        return expr
    if isinstance(expr.value, str) and wanted.kind in {Kind.TIME, *MOMENT_KINDS}:
        return as_moment(expr.value, wanted, expr.span)
    if wanted.kind is Kind.TIMESTAMPTZ and expr.type.kind in {Kind.DATE, Kind.TIMESTAMP}:
        return _instant(expr, wanted)
    if wanted == TIMESTAMP and type(expr.value) is date:
        return Literal(expr.span, datetime.combine(expr.value, time.min), TIMESTAMP)
    if wanted == DATE and isinstance(expr.value, datetime) and expr.value.time() == time.min:
        return Literal(expr.span, expr.value.date(), DATE)
    return expr


def _instant(expr: Literal, wanted: Type) -> Literal:
    """Read a date or a timestamp as the instant at which the clock of the zone shows it."""
    value = expr.value
    day = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return in_zone(day, wanted, expr.span)


# CAST, TRY_CAST and `::`: conversions that the analyst wrote.


_NARROW: dict[exp.DType, tuple[str, int, int]] = {
    exp.DType.TINYINT: ("TINYINT", -(2**7), 2**7 - 1),
    exp.DType.SMALLINT: ("SMALLINT", -(2**15), 2**15 - 1),
    exp.DType.INT: ("INTEGER", -(2**31), 2**31 - 1),
    exp.DType.UTINYINT: ("UTINYINT", 0, 2**8 - 1),
    exp.DType.USMALLINT: ("USMALLINT", 0, 2**16 - 1),
    exp.DType.UINT: ("UINTEGER", 0, 2**32 - 1),
}
"""Integers of fewer than 64 bits: their names, and the least and the largest of them."""
_TARGETS = {
    **dict.fromkeys((*_NARROW, exp.DType.BIGINT), INTEGER),
    **dict.fromkeys((exp.DType.TEXT, exp.DType.VARCHAR), TEXT),
    **MOMENTS_WRITTEN,
    exp.DType.FLOAT: DOUBLE,
    exp.DType.DOUBLE: DOUBLE,
    exp.DType.BOOLEAN: BOOLEAN,
}
_EXACT = frozenset({Kind.INTEGER, Kind.DECIMAL})
_WIDEST = 38


def target(node: exp.Cast) -> Type | None:
    """Return the type that a conversion names; None where there is no conversion to it."""
    to = node.args.get("to")
    if not isinstance(to, exp.DataType):
        return None
    if to.this is exp.DType.DECIMAL:
        match [read_digits(parameter.this.name) for parameter in to.expressions]:
            case [int(precision), int(scale)] if (
                scale <= precision and 0 < precision <= _WIDEST
            ):
                return Type(Kind.DECIMAL, precision, scale)
        return None
    return None if to.expressions else _TARGETS.get(to.this)


def narrower_name(node: exp.Cast) -> str | None:
    """Return DuckDB's name of a type with fewer values than the one that stands for it here."""
    if node.to.this is exp.DType.FLOAT:
        return "FLOAT"
    return _NARROW[node.to.this][0] if node.to.this in _NARROW else None


def cast_as(span: Span, operand: Expr, node: exp.Cast, type_: Type) -> Expr:
    """Convert a value to what a conversion names; one that is not in its range is NULL.

    Raises:
        NameRefused: DPQ208 there is no conversion between the types.
        RuleRefused: DPQ305 a decimal has no room for every value.
    """
    value = convert(span, operand, type_)
    if is_nothing(value):
        return value
    if node.to.this is exp.DType.FLOAT:
        return rowfunctions.apply(span, "TO_FLOAT", value)
    _, *ends = _NARROW.get(node.to.this, ("",))
    if not ends or value.domain.within(*ends):
        return value
    return rowfunctions.apply(
        span, "TO_NARROW", value, *(Literal(span, end, INTEGER) for end in ends)
    )


_CASTABLE = {
    Kind.BOOLEAN: "TRUE",
    Kind.DATE: "DATE '2024-12-31'",
    Kind.TEXT: "'a'",
    Kind.TIMESTAMP: "TIMESTAMP '2024-12-31 00:00:00'",
    Kind.TIMESTAMPTZ: "TIMESTAMPTZ '2024-12-31 00:00:00+01'",
    Kind.TIME: "TIME '12:00:00'",
}
"""What is offered where a value has no cast to a type; a number, to all others."""


def convert(span: Span, operand: Expr, type_: Type) -> Expr:
    """Convert a value.

    Raises:
        NameRefused: DPQ208 there is no conversion between the types.
        RuleRefused: DPQ305 a decimal has no room for every value.
    """
    kind = operand.type.kind
    if kind is Kind.TIMESTAMPTZ and type_.kind in {Kind.DATE, Kind.TIMESTAMP}:
        return convert(span, local(operand), type_)
    if type_.kind is Kind.TIMESTAMPTZ and kind in {Kind.DATE, Kind.TIMESTAMP}:
        return instant(span, convert(span, operand, TIMESTAMP), type_.zone, type_.zone)
    if is_nothing(operand) or kind is type_.kind is not Kind.DECIMAL:
        return operand
    match type_.kind:
        case Kind.DOUBLE if operand.type.numeric:
            return to_double(operand)
        case Kind.DOUBLE if kind is Kind.BOOLEAN:
            return to_double(rowfunctions.apply(span, "TO_INTEGER", operand))
        case Kind.BOOLEAN if kind is Kind.INTEGER:
            zero = Literal(span, 0, INTEGER)
            return compare(span, Comparison.NE, operand, zero, lambda: "TRUE")
        case Kind.DECIMAL if kind in _EXACT:
            return _to_decimal(span, operand, type_)
        case Kind.INTEGER | Kind.TEXT | Kind.DATE | Kind.TIMESTAMP:
            function = rowfunctions.named(f"TO_{type_.kind.name}")
            if kind in function.parameters[0].kinds:
                return rowfunctions.apply(span, function.name, operand)
    title = f"there is no cast of {with_article(operand.type)} to {with_article(type_)}"
    why = "only casts that have a value, or NULL, for whatever is in a row are taken."
    label, remedy = f"{with_article(operand.type)} here", _CASTABLE.get(type_.kind, "1")
    mismatch(operand.span, title, label, remedy, (why,))


def at_time_zone(span: Span, moment: Expr, zone: Expr, shown: str) -> Expr:
    """Bind `x AT TIME ZONE 'Europe/Paris'`: of an instant the local time, and the reverse."""
    function = rowfunctions.named(
        "LOCAL" if moment.type.kind is Kind.TIMESTAMPTZ else "INSTANT"
    )
    others = [] if function.name == "LOCAL" else [Literal(span, shown, TEXT)]
    if moment.type.kind is Kind.DATE:
        moment = convert(span, moment, TIMESTAMP)
    return bound_call(span, function, [moment, zone, *others])


def _in_calendar(
    function: RowFunction, arguments: Sequence[Expr]
) -> tuple[RowFunction, list[Expr]]:
    """Return a function with what it looks up in the calendar as local time.

    Hours, minutes and seconds are of instants: one that the clock shows twice is there twice.
    """
    given, named = list(arguments), [a.value for a in arguments if isinstance(a, Literal)]
    zoned = [a for a in given if a.type.kind is Kind.TIMESTAMPTZ]
    by_clock = any(isinstance(one, str) and one.lower() in CLOCK for one in named)
    if not zoned or (function.name in {"DATE_ADD", "DATE_DIFF"} and by_clock):
        return function, given
    if function.name == "DATE_TRUNC" and by_clock and len(given) == 2:
        zone = Literal(given[1].span, given[1].type.zone or UTC_ZONE, TEXT)
        return rowfunctions.named("CLOCK_TRUNC"), [*given, zone]
    kinds = [parameter.kinds for parameter in function.parameters]
    kinds += kinds[-1:] * (len(given) - len(kinds))
    asked = function.name in {"DATE_ADD", "DATE_DIFF", "DATE_TRUNC"}
    return function, [
        local(a)
        if a.type.kind is Kind.TIMESTAMPTZ
        and (asked or (Kind.TIMESTAMP in k and Kind.TIMESTAMPTZ not in k))
        else a
        for a, k in zip(given, kinds, strict=False)
    ] + given[len(kinds) :]


def _to_decimal(span: Span, operand: Expr, type_: Type) -> Expr:
    """Bring a number to the scale of a type, which has to have room for every value."""
    number = operand
    if operand.type.scale > type_.scale:
        scale = Literal(span, type_.scale, INTEGER)
        number = rowfunctions.apply(span, "ROUND", operand, scale)
    number = to_scale(number, type_.scale)
    low, high = number.domain.low, number.domain.high
    limit = Fraction(10) ** (type_.precision - type_.scale)
    if low is None or high is None or not -limit < low <= high < limit:
        title, label = f"not every value fits {type_}", "too narrow for some values"
        why = "an error that depends on one row would tell whether that row exists."
        remedy = f"CAST(1 AS DECIMAL({_WIDEST},{type_.scale}))"
        raise refusal("DPQ305", title, span, label, why, remedy)
    return number


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
    function, arguments = _in_calendar(_about(function, arguments), arguments)
    taken = _parameters(function, len(arguments), span)
    given = [
        _fitting(function, parameter, argument)
        for parameter, argument in zip(taken, arguments, strict=True)
    ]
    moments = [a for p, a in zip(taken, given, strict=True) if p in {MOMENTS, INSTANTS}]
    if len({moment.type.kind for moment in moments}) > 1:
        title = f"{function.shown} needs two dates, or two timestamps"
        mismatch(moments[1].span, title, "types differ", function.example)
    if function.alike:
        given = _one_type(span, given, function)
    wrong = function.check(given)
    if wrong is not None:
        _unfit(function, span, "not taken", wrong)
    return rowfunctions.apply(span, function.name, *given)


_COLUMNS = dict.fromkeys(("age", "bonus", "rating", "salary"), NUMERIC) | {
    "dept": frozenset({Kind.TEXT}),
    "hired": frozenset({Kind.DATE}),
    "seen_at": frozenset({Kind.TIMESTAMP}),
    "opened": frozenset({Kind.TIMESTAMPTZ}),
}
"""The columns of examples, and what such a column holds."""
_COLUMN = re.compile(rf"\b({'|'.join(_COLUMNS)})\b")


def _about(function: RowFunction, arguments: Sequence[Expr]) -> RowFunction:
    """Return a function whose example is about the column that was written, if that fits."""
    named = _COLUMN.search(function.example)
    kinds = _COLUMNS[named[0]] if named is not None else ()
    columns = (one for one in arguments if isinstance(one, ColumnRef))
    written = next((one for one in columns if one.type.kind in kinds), None)
    if named is None or written is None:
        return function
    example = function.example.replace(named[0], written_name(written.name))
    return replace(function, example=example)


def _parameters(function: RowFunction, count: int, span: Span) -> Sequence[Parameter]:
    """Return the parameter of each argument."""
    parameters, most = function.parameters, len(function.parameters)
    least = most - function.optional
    if count < least or (count > most and not function.variadic):
        takes = [parameter.what for parameter in parameters]
        takes[least:] = [f"optionally {what}" for what in takes[least:]]
        takes += ["and more of the last"] * function.variadic
        code, label = ("DPQ206", "too many arguments")
        if count < least:
            code, label = ("DPQ203", "an argument is missing")
        raise miscounted(function.shown, takes, span, function.example, code, label)
    return [*parameters[:count], *[parameters[-1]] * (count - most)]


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
        _unfit(function, argument.span, "NULL", f"{function.shown} of NULL is NULL")
    if not is_nothing(argument) and argument.type.kind not in parameter.kinds:
        title = f"{function.shown} needs {parameter.what}"
        mismatch(argument.span, title, f"{with_article(argument.type)} here", function.example)
    if parameter.literal:
        return _literal(function, parameter, argument)
    return to_double(argument) if parameter.double else argument


def _literal(function: RowFunction, parameter: Parameter, argument: Expr) -> Expr:
    if not isinstance(argument, Literal):
        title = f"{function.shown} needs {parameter.what} here"
        why = "what a function does is known before any row is read."
        raise refusal("DPQ207", title, argument.span, "not a literal", why, function.example)
    value = argument.value
    if isinstance(value, str) and parameter.words:
        folded = value.lower()
        if folded not in parameter.words:
            near = nearest(folded, parameter.words) or parameter.words[0]
            known = f"there are {', '.join(parameter.words)}; is it '{near}'?"
            _unfit(function, argument.span, "not one of them", known)
        return Literal(argument.span, folded, TEXT)
    if isinstance(value, str) and parameter.check is not None:
        wrong = parameter.check(value)
        if wrong is not None:
            _unfit(function, argument.span, "not taken", wrong)
    if parameter.range is not None and isinstance(value, int):
        low, high = parameter.range
        if not low <= value <= high:
            _unfit(
                function, argument.span, "out of range", f"a whole number from {low} to {high}"
            )
    return argument


def _unfit(function: RowFunction, span: Span, label: str, why: str) -> NoReturn:
    title = f"{function.shown} does not take this value"
    raise refusal("DPQ205", title, span, label, f"{why}.", function.example)


def _one_type(span: Span, given: Sequence[Expr], function: RowFunction) -> list[Expr]:
    """Bring values to one type; NULL has each of them."""
    known = [one for one in given if not is_nothing(one)]
    if not known:
        _unfit(function, given[0].span, "NULL", "one of the values must have a type")
    same = alike(span, known, lambda: function.example)
    left = iter(same)
    type_ = same[0].type
    return [
        replace(one, type=type_) if isinstance(one, Apply) and is_nothing(one) else next(left)
        for one in given
    ]


def nothing(span: Span) -> Apply:
    """Return NULL as a value; its type is that of the values beside it."""
    return Apply(span, NOTHING, (), BOOLEAN, Interval.point(0))


def case(span: Span, pairs: Sequence[tuple[Expr, Expr]], otherwise: Expr | None) -> Apply:
    """Build a CASE from its conditions and values; those have one type."""
    results = [value for _, value in pairs] + ([otherwise] if otherwise is not None else [])
    same = _one_type(span, results, rowfunctions.named("CASE"))
    conditions = [condition for condition, _ in pairs]
    arguments = [expr for pair in zip(conditions, same, strict=False) for expr in pair]
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
    """Return the part or the unit of moments that a word names."""
    found = known.get(word.lower())
    if found is None:
        title = f"a moment has no part {word[:40]}"
        label = f"is it {nearest(word.lower(), known) or 'year'}?"
        why = f"there are {', '.join(sorted(known))}."
        remedy = "EXTRACT(year FROM DATE '2024-12-31')"
        raise refusal("DPQ205", title, span, label, why, remedy)
    return found


def moved(
    span: Span, value: Expr, operator: Operator, interval: exp.Interval, at: Span
) -> Apply:
    """Add an INTERVAL to a moment, or take it away."""
    function = rowfunctions.named("DATE_ADD")
    number, known = read_interval(interval, at)
    if value.type == DATE and known in {"hour", "minute", "second"}:
        mismatch(value.span, f"a date has no {known}", "a date here", f"{function.example}")
    number = -number if operator is Operator.SUBTRACT else number
    step = [Literal(at, number, INTEGER), Literal(at, known, TEXT)]
    return bound_call(span, function, [value, *step])


def read_interval(node: exp.Interval, span: Span) -> tuple[int, str]:
    """Read the number and the unit of INTERVAL 3 DAY, INTERVAL '3' DAY or INTERVAL '3 days'."""
    text = str(node.this.this).strip() if isinstance(node.this, exp.Literal) else ""
    unit = node.args.get("unit")
    number, word = text.partition(" ")[::2] if unit is None else (text, unit.name)
    known, count = UNIT_NAMES.get(word.strip().lower()), read_digits(number.removeprefix("-"))
    if known is None or count is None or count > MOST_UNITS:
        title = "this is not an interval"
        why = f"an interval is a whole number up to {MOST_UNITS} of {', '.join(UNIT_WORDS)}."
        raise refusal("DPQ205", title, span, "not understood", why, "INTERVAL 3 MONTH")
    return -count if number.startswith("-") else count, known


_CHANCE = frozenset({"GEN_RANDOM_UUID", "RAND", "RANDOM", "UUID"})


def unknown_function(name: str, span: Span, written: str, otherwise: str) -> NoReturn:
    """Refuse a function that rows do not have; offer the one that was meant."""
    known = [*rowfunctions.names(), "DATE_PART", "EXTRACT", "IF"]
    empty = written[len(name) :].replace(" ", "") in {"", "()"}  # and none there takes nothing
    reads = name.upper() == "STRPTIME"  # which makes a moment of a text, and not the reverse
    near = None if empty or reads else nearest(name.upper(), known)
    remedy = otherwise if near is None else near + written[len(name) :]
    shown_names = dict.fromkeys([*([near] if near else []), *_SHOWN])
    why = (
        "a function that failed on one row would tell of that row, so the list is closed:",
        f"{', '.join(shown_names)} and others: see `dpquery explain functions`.",
    )
    if name.upper() in _CHANCE:
        why = ("the same query means the same rows each time:", "chance enters as noise alone.")
    shown = name[:40].upper() if name.isascii() else name[:40]
    title = f"there is no function {shown} for rows"
    raise refusal("DPQ202", title, span, "unknown function", why, remedy)
