"""Which function of this language was meant by another name: of other engines, or mistyped.

It writes calls for refusals to offer, about columns that the query names or, where these do not
fit, about one that does. It accepts nothing: what it writes is bound anew when it is typed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from sqlglot import expressions as exp

from dpquery import functions
from dpquery.errors import QueryRefused
from dpquery.functions.base import DPFunction
from dpquery.ir import Expr
from dpquery.rowfunctions.ranges import implied
from dpquery.sql.above.aggregates import aggregate_name
from dpquery.sql.conditions import Conditions
from dpquery.sql.names import written_name
from dpquery.sql.offers import COUNT, call_about, fits, is_bounded, other_call, sample_call

__all__ = ["a_slip_away", "is_aggregate", "is_share", "meant_call", "nearest_function"]

_MEANT = {
    "APPROX_COUNT_DISTINCT": "DP_COUNT",
    "APPROX_PERCENTILE": "DP_QUANTILE",
    "APPROX_QUANTILE": "DP_QUANTILE",
    "APPROX_QUANTILES": "DP_QUANTILE",
    "AVERAGE": "DP_AVG",
    "COUNT_DISTINCT": "DP_COUNT",
    "PERCENTILE": "DP_QUANTILE",
    "PERCENTILE_CONT": "DP_QUANTILE",
    "PERCENTILE_DISC": "DP_QUANTILE",
    "QUANTILE_CONT": "DP_QUANTILE",
    "QUANTILE_DISC": "DP_QUANTILE",
    "STD": "DP_STDDEV_SAMP",
    "STDEV": "DP_STDDEV_SAMP",
    "TOTAL": "DP_SUM",
    "VAR": "DP_VAR_SAMP",
}
"""What functions of other engines are called here, where the name alone does not tell."""
_BINS = 60
"""Bins of a histogram that is offered, about."""
_LONGEST = 40
"""Letters of a name that are compared; no function's name is as long."""


def meant_call(
    name: str, arguments: Sequence[exp.Expr], rows: Conditions, options: str = "eps=0.5"
) -> str | None:
    """Write the call that a function of another name means; None where none is known.

    Args:
        name: what was written, with DP_ before it or without.
        arguments: what was asked about, options excepted.
        rows: where these arguments stand.
        options: the arguments that were given by name, as text.
    """
    name = name.upper().removeprefix("DP_")
    function = _function(name)
    if function is None:
        return _composed(name, arguments, rows)
    if "DISTINCT" in name or any(isinstance(part, exp.Distinct) for part in arguments):
        unit = rows.scope.table.unit
        asked = "*" if unit is None else f"DISTINCT {written_name(unit)}"
        return f"DP_COUNT({asked}, {options})"
    share = _share(arguments[1:2])
    first = arguments[0] if arguments else None
    if first is None or isinstance(first, exp.Star):
        return sample_call(function, rows.scope.table, share, options)
    try:
        bound = rows.bind(first)
    except QueryRefused:
        return sample_call(function, rows.scope.table, share, options)
    written = rows.spans.text(first)
    if not fits(function, bound.type):
        return other_call(bound, written)
    loose = None if is_bounded(bound) else bound.type
    return call_about(function, written, loose, share, options)


def _composed(name: str, arguments: Sequence[exp.Expr], rows: Conditions) -> str | None:
    """Write in several calls, or as a count of groups, what is no function of its own."""
    shown = {"HISTOGRAM": 1, "CORR": 2, "COVAR_POP": 2, "COVAR_SAMP": 2}.get(name, 0)
    try:
        exprs = [rows.bind(argument) for argument in arguments[:shown]]
    except QueryRefused:
        return None
    numbers = all(expr.type.numeric and is_bounded(expr) for expr in exprs)
    texts = [rows.spans.text(argument) for argument in arguments[:shown]]
    if name == "HISTOGRAM" and exprs:
        bins = _bins(exprs[0], texts[0]) if numbers else texts[0]
        table = written_name(rows.scope.table.name)
        return f"SELECT {bins} AS bin, {COUNT} AS n FROM {table} GROUP BY bin"
    if len(exprs) < 2 or not numbers:
        return None
    one, other = texts
    mean = "DP_AVG({}, eps=0.1)".format
    apart = f"{mean(f'({one}) * ({other})')} - {mean(one)} * {mean(other)}"
    if name != "CORR":
        return apart
    return f"({apart}) / (DP_STDDEV({one}, eps=0.1) * DP_STDDEV({other}, eps=0.1))"


def _bins(expr: Expr, written: str) -> str:
    """Write bins of a range: at most some dozens, each as wide as a power of ten."""
    range_, width = implied(expr), 1
    assert range_.low is not None  # noqa: S101 - it is bounded
    assert range_.high is not None  # noqa: S101
    while (range_.high - range_.low) / width > _BINS:
        width *= 10
    return written if width == 1 else f"FLOOR({written} / {width}) * {width}"


def _function(name: str) -> DPFunction | None:
    return functions.find(_MEANT.get(name, f"DP_{name}"))


def is_aggregate(call: exp.Expr, name: str) -> bool:
    """Say whether a function of other engines would make one value of many rows."""
    return (
        isinstance(call, exp.AggFunc)
        or _function(name) is not None
        or aggregate_name(call) is not None
    )


def _share(given: Sequence[exp.Expr]) -> str:
    """Read which quantile was meant: the median, where it cannot be told."""
    text = str(given[0].this) if given and isinstance(given[0], exp.Literal) else ""
    return text if is_share(text) else "0.5"


def is_share(text: str) -> bool:
    """Say whether a text is a decimal from 0 to 1."""
    digits = text.isascii() and text.replace(".", "", 1).isdigit() and len(text) < 30
    return digits and 0 <= Fraction(text) <= 1


def nearest_function(name: str) -> str | None:
    """Give the DP_ function whose name is a slip away, if any is.

    >>> nearest_function("DP_CUONT"), nearest_function("COUNT"), nearest_function("DP_TREE")
    ('DP_COUNT', 'DP_COUNT', None)
    """
    return a_slip_away(f"DP_{name.upper().removeprefix('DP_')}", functions.names())


def a_slip_away(name: str, known: Iterable[str]) -> str | None:
    """Give the known word from which a word differs in two letters at most."""
    apart = {word: _letters_apart(name[:_LONGEST], word) for word in known}
    near = min(apart, key=lambda word: (apart[word], word))
    return near if apart[near] <= 2 else None


def _letters_apart(one: str, other: str) -> int:
    """Count the letters to be changed, added or left out to make one word of another."""
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, row = row, [i]
        for j, wanted in enumerate(other, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (letter != wanted)))
    return row[-1]
