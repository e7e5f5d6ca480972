"""Reads the options of a DP_ call: literals, exactly, each inside a range with a meaning."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, time
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery import functions
from dpquery.core.privacy_loss import (
    EPSILON_MAX,
    EPSILON_MIN,
    Loss,
    decimal_text,
    exact_number,
    root_above,
)
from dpquery.core.source_text import Span
from dpquery.core.types import INT64, MOMENTS, ROWS_MAX, Interval, Kind, ordinal
from dpquery.errors import listed, nearest, refusal
from dpquery.functions.base import DPFunction, Takes
from dpquery.functions.error_options import ERRORS
from dpquery.functions.example_bounds import example_bounds
from dpquery.functions.quantize import known_range
from dpquery.ir.expr import Expr, Literal, Scalar
from dpquery.ir.query import Call, Options, Wanted
from dpquery.rowfunctions.analysis.key_domains import MAX_CELLS
from dpquery.sql.bind.scope import fold
from dpquery.sql.parse.literals import as_moment, read_literal, unwrapped
from dpquery.sql.suggest.type_mismatches import with_article

AUTO = "auto"
LEAST_DELTA = Fraction(1, 10**30)
_PRICES = (EPSILON_MIN, EPSILON_MAX)
_COUNTS = (Fraction(1), Fraction(ROWS_MAX))
_ERRORS = (Fraction(1, 10**18), Fraction(10**18))
_RANGES = {
    "eps": (_PRICES, "0.5"),
    "rho": (_PRICES, "0.005"),
    "left_out_eps": (_PRICES, "0.1"),
    "report_clipping": ((Fraction(1, 1000), Fraction(9, 10)), "0.1"),
    "delta": ((LEAST_DELTA, Fraction(1, 10)), "1e-7"),
    "rho_smooth": ((Fraction(0), Fraction(10**18)), "100"),
    "max_rows_contributed": (_COUNTS, "5"),
    "max_groups_contributed": (_COUNTS, "3"),
    "max_keys": ((Fraction(1), Fraction(MAX_CELLS)), "500"),
    "min_units": (_COUNTS, "20"),
    "weight": ((Fraction(1, 1000), Fraction(1000)), "2"),
    "error": (_ERRORS, "5"),
    "rank_error": (_ERRORS, "20"),
    "confidence": ((Fraction(1, 2), 1 - Fraction(1, 10**6)), "0.95"),
    "over": (_COUNTS, "1000"),
}
"""The least and the most of each option that is a number, and an example."""
_WHOLE = frozenset(
    {"max_rows_contributed", "max_groups_contributed", "max_keys", "min_units", "over"}
)
LEVEL = Fraction(95, 100)
"""How often an error is kept to, unless a call says otherwise."""
UNFOUND = Fraction(1)
"""The epsilon of a call that asks for an error, until the plan has found it."""
MECHANISM_ALIASES = {
    "recexp": "recursive",
    "indexp": "independent",
    "jointexp": "joint",
    "hsjointexp": "smoothed_joint",
    "qexp": "exponential",
}
"""Names under which mechanisms are known elsewhere."""
_OF_PAIRS = {
    "theil_sen": (
        "it takes slopes from row to row, of two units each. Here what a row adds follows from",
        "its own unit alone: one unit more would give the rows of others other partners.",
    )
}
"""Mechanisms of functions of two expressions that are known elsewhere, and why not here."""
_PROMISE = "outside this range the promise cannot be computed exactly."
_REASONS = {
    "the quantile": "a quantile is a share of the rows: 0.1 is the tenth percentile.",
    "the confidence": "of intervals at 0.95, about 95 in 100 hold the exact value.",
}
"""Why a number has the range it has."""
_GROUP_BOUNDS = "contribution_bounds_per_group"
_GROUP_BOUNDS_EXAMPLE = f"{_GROUP_BOUNDS}=[0, 50]"

Given = Mapping[str, tuple[exp.Expr, Span]]
"""The value of each option, and where it stands."""


def read_option(name: str, given: Given) -> Fraction:
    """Read an option that is a number."""
    limits, example = _RANGES[name]
    return read_number_between(name, *given[name], limits, f"{name}={example}")


def read_price(given: Given, share: Loss | None, call: Span) -> tuple[Loss, Span]:
    """Return what a call may spend, and where that is said: by the call, or as a share."""
    delta = Fraction(0) if share is None else share.delta
    if "delta" in given:
        delta = read_option("delta", given)
    if share is not None:
        return Loss(share.epsilon, delta), call
    asked = next((one.name for one in ERRORS if one.name in given), None)
    if asked is not None:
        return Loss(UNFOUND, delta), given[asked][1]
    name = "eps" if "eps" in given else "rho"
    stated = read_option(name, given)
    return Loss(stated if name == "eps" else root_above(2 * stated), delta), given[name][1]


def read_options(
    function: DPFunction, argument: Expr | None, given: Given, price: tuple[Loss, Span]
) -> Options:
    """Read the options of a call that may spend so much.

    Raises:
        NameRefused: DPQ205 out of range, DPQ207 not a literal, DPQ208 bounds of another kind,
            DPQ210 a bound that cannot be read.
    """
    values = _values(function, given)
    spans = {name: span for name, (_, span) in given.items()}
    bounds, totals, other = map(given.get, ("bounds", _GROUP_BOUNDS, "other"))
    auto = bounds is not None and _text(bounds[0]) == AUTO
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
        group_bounds=totals and _group_bounds(*totals),
        group_bounds_span=spans.get(_GROUP_BOUNDS),
        bounds=_bounds(argument, *bounds) if argument and bounds and not auto else None,
        auto=auto,
        bounds_span=spans.get("bounds"),
        smooth=_number(values, "rho_smooth"),
        smooth_span=spans.get("rho_smooth"),
        other=_other(argument, *other) if argument and other else None,
        most=_whole(values, "max_keys"),
        min_units=_whole(values, "min_units"),
        left_out=_number(values, "left_out_eps"),
        clipping=_number(values, "report_clipping"),
        clipping_span=spans.get("report_clipping"),
        of_table="weights" in values,
        weights_span=spans.get("weights"),
        wanted=_wanted(values),
    )


def _values(function: DPFunction, given: Given) -> dict[str, Fraction | str]:
    """Return the options that are numbers or words."""
    others = {"bounds", _GROUP_BOUNDS, "other", "weight"}
    found = {name: written for name, written in given.items() if name not in others}
    return {name: _option(name, *written, function) for name, written in found.items()}


def _wanted(values: Mapping[str, Fraction | str]) -> Wanted | None:
    """Return the error that a call asks for, if it does."""
    asked = next((_number(values, one.name) for one in ERRORS if one.name in values), None)
    if asked is None:
        return None
    confidence = _number(values, "confidence") or LEVEL
    return Wanted(asked, confidence, _whole(values, "over"))


def _number(values: Mapping[str, Fraction | str], name: str) -> Fraction | None:
    return Fraction(values[name]) if name in values else None


def _whole(values: Mapping[str, Fraction | str], name: str) -> int | None:
    return int(values[name]) if name in values and values[name] != AUTO else None


def _option(name: str, node: exp.Expr, span: Span, function: DPFunction) -> Fraction | str:
    if name == "weights":
        return _weights(node, span)
    if name == "mechanism":
        return _mechanism(function, node, span)
    if name == "max_rows_contributed" and _text(node) == AUTO:
        return AUTO
    limits, example = _RANGES[name]
    if name == "max_rows_contributed" and fold(node.name) == AUTO:
        example = f"'{AUTO}'"
    read = read_whole_between if name in _WHOLE else read_number_between
    return read(name, node, span, limits, f"{name}={example}")


def _text(node: exp.Expr) -> str | None:
    """Return a text literal, folded; None of anything else."""
    return fold(node.name) if isinstance(node, exp.Literal) and node.is_string else None


def read_number_between(
    name: str, node: exp.Expr, span: Span, limits: tuple[Fraction, Fraction], remedy: str
) -> Fraction:
    """Read a number exactly from its literal: no expression, no column, no cast."""
    sign = 1
    if isinstance(node, exp.Neg):
        sign, node = -1, node.this
    if not isinstance(node, exp.Literal) or node.is_string:
        title = f"{name} must be written as a number"
        why = f"{name} is read exactly from the text, before anything is computed."
        raise refusal("DPQ207", title, span, "not a number", why, remedy)
    try:
        value = sign * exact_number(str(node.this))
    except ValueError as error:
        _out_of_range(name, span, "a plain number of at most 30 digits", str(error), remedy)
    if not limits[0] <= value <= limits[1]:
        low, high = map(decimal_text, limits)
        written = f"{'-' if sign < 0 else ''}{node.this}"[:40]
        _out_of_range(name, span, f"between {low} and {high}", f"given as {written}", remedy)
    return value


def read_whole_between(
    name: str, node: exp.Expr, span: Span, limits: tuple[Fraction, Fraction], remedy: str
) -> Fraction:
    """Read a whole number in a range."""
    value = read_number_between(name, node, span, limits, remedy)
    if value.denominator != 1:
        _out_of_range(name, span, "a whole number", f"given as {decimal_text(value)}", remedy)
    return value


def _out_of_range(name: str, span: Span, wanted: str, label: str, remedy: str) -> NoReturn:
    why = _REASONS.get(name, _PROMISE)
    raise refusal("DPQ205", f"{name} must be {wanted}", span, label, why, remedy)


def _weights(node: exp.Expr, span: Span) -> str:
    """Read among which rows a unit shares its weight: there is one word for it."""
    text = _text(node)
    if text == "table":
        return text
    title = "weights must be 'table'"
    label = "not a text" if text is None else "no other weights have a name"
    why = (
        "with it a unit's weight is shared among all its rows in the table; without,",
        "among those that the query sees.",
    )
    remedy = "weights='table'"
    raise refusal("DPQ207" if text is None else "DPQ205", title, span, label, why, remedy)


def _mechanism(function: DPFunction, node: exp.Expr, span: Span) -> str:
    why: str | tuple[str, ...] = f"{function.name} takes {listed(function.mechanisms)}."
    name = _text(node)
    if name is None:
        remedy = f"mechanism='{function.mechanisms[0]}'"
        title = "mechanism must be written as a text"
        raise refusal("DPQ207", title, span, "not a text", why, remedy)
    name = MECHANISM_ALIASES.get(name, name)
    if name not in function.mechanisms:
        remedy = f"mechanism='{nearest(name, function.mechanisms) or function.mechanisms[0]}'"
        title, label = (
            f"{function.name} has no mechanism {node.name[:40]!r}",
            "unknown mechanism",
        )
        if name in _OF_PAIRS and len(function.expressions) > 1:
            label, why = "left out on purpose", _OF_PAIRS[name]
        raise refusal("DPQ205", title, span, label, why, remedy)
    return name


# Bounds are two literals in brackets: `bounds=[low, high]`.


def _bounds(argument: Expr, node: exp.Expr, span: Span) -> Interval:
    """Read bounds: numbers, or days and microseconds since 1970 of an argument in time."""
    example = example_bounds(argument.type)
    word = isinstance(unwrapped(node), exp.Column) or _text(node) is not None
    low, high = _ends(node, span, "bounds='auto'" if word else example)
    if low is None or high is None:
        _not_two(span, example)
    return _ordered("bounds", node, span, *(_end(argument, end, span) for end in (low, high)))


def _group_bounds(node: exp.Expr, span: Span) -> Interval:
    """Read where a unit's total in a group is clamped: two numbers."""
    numbers = [
        Fraction(end.value)
        for end in _ends(node, span, _GROUP_BOUNDS_EXAMPLE, "")
        if end is not None and end.type.numeric and isinstance(end.value, int | Fraction)
    ]
    if len(numbers) < 2:
        _not_two(span, _GROUP_BOUNDS_EXAMPLE, "")
    return _ordered(_GROUP_BOUNDS, node, span, *numbers)


def _ends(
    node: exp.Expr, span: Span, remedy: str, other: str = ", or 'auto'"
) -> list[Literal | None]:
    if not isinstance(node, exp.Array | exp.Tuple) or len(node.expressions) != 2:
        _not_two(span, remedy, other)
    return [read_literal(unwrapped(end), span) for end in node.expressions]


def _end(argument: Expr, literal: Literal, span: Span) -> Fraction:
    type_, value = argument.type, literal.value
    if type_.kind in {Kind.TIME, *MOMENTS}:
        if isinstance(value, str):
            literal = as_moment(value, type_, literal.span)
        if literal.type.kind is type_.kind and isinstance(literal.value, date | time):
            return Fraction(ordinal(literal.value))
    elif isinstance(value, int | Fraction) and not isinstance(value, bool):
        number = Fraction(value)
        if type_.kind is not Kind.INTEGER or number.denominator == 1:
            return number
    title = f"the bounds of {with_article(type_)} are two of its values"
    label = f"not {with_article(type_)}"
    why = "values are clamped to the bounds, so both have to be values of the argument."
    raise refusal("DPQ208", title, span, label, why, example_bounds(type_))


def _ordered(name: str, node: exp.Expr, span: Span, low: Fraction, high: Fraction) -> Interval:
    if low > high:
        title = "the lower bound is above the upper one"
        why = "bounds say where values are clamped: the lowest first."
        remedy = f"{name}=[{', '.join(end.sql() for end in reversed(node.expressions))}]"
        raise refusal("DPQ205", title, span, "the wrong way round", why, remedy)
    return Interval(low, high)


def _not_two(span: Span, remedy: str, other: str = ", or 'auto'") -> NoReturn:
    title, label = (
        f"bounds are two literals in brackets{other}",
        "not a lower and an upper bound",
    )
    why = "they are read from the text, before anything is computed."
    raise refusal("DPQ207", title, span, label, why, remedy)


def refuse_constant(function: DPFunction, argument: Expr | None, options: Options) -> None:
    """Refuse bounds between which there is one answer, whatever the rows.

    A sum of rows that all count as 7 tells how many there are; one of zeros tells nothing.
    So it is with what each unit has in a group.
    """
    example = _GROUP_BOUNDS_EXAMPLE if argument is None else example_bounds(argument.type)
    for bounds, span, remedy in (
        (options.bounds, options.bounds_span, example),
        (options.group_bounds, options.group_bounds_span, _GROUP_BOUNDS_EXAMPLE),
    ):
        if bounds is None or bounds.low != bounds.high:
            continue
        if bounds.low != 0 and (function.name == "DP_SUM" or bounds is options.group_bounds):
            continue
        title, label = "the answer would say nothing", "every value counts as this one"
        why = "it would be charged, and be the same whatever the rows are."
        raise refusal("DPQ408", title, span, label, why, remedy)


_OTHERS = {
    Kind.TEXT: "'elsewhere'",
    Kind.BOOLEAN: "false",
    Kind.INTEGER: "-1",
    Kind.DECIMAL: "-1",
    Kind.DATE: "'1900-01-01'",
    Kind.TIMESTAMP: "'1900-01-01 00:00:00'",
    Kind.TIMESTAMPTZ: "'1900-01-01 00:00:00+00'",
    Kind.TIME: "'00:00:00'",
}


def _other(argument: Expr, node: exp.Expr, span: Span) -> Scalar:
    """Read a value of the argument's type, which stands for all that are not listed."""
    literal, type_ = read_literal(unwrapped(node), span), argument.type
    if literal is None:
        _not_a_value(argument, span, "DPQ207", "not a literal")
    if type_.kind in {Kind.TIME, *MOMENTS} and isinstance(literal.value, str):
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


def _not_a_value(argument: Expr, span: Span, code: str, label: str) -> NoReturn:
    title = f"what stands for other values is {with_article(argument.type)} too"
    why = "it is a group beside the others, in the same column."
    raise refusal(code, title, span, label, why, f"other={_OTHERS[argument.type.kind]}")


def lacks_bounds(call: Call) -> bool:
    """Return whether nobody bounds the numbers of a call, and none are found for it."""
    takes = functions.registered(call.function).expressions
    return not call.options.auto and any(
        about.takes in {Takes.NUMBER, Takes.ORDERED} and not known_range(given).bounded
        for about, given in zip(takes, call.inputs, strict=False)
    )
