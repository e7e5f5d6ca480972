"""Habits of other languages, each with what it is written like here.

A refusal offers the mended query only if that query passes the stage which refused the first
one. Nothing is accepted here: what is offered is read anew when it is typed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from sqlglot import expressions as exp

from dpquery import functions
from dpquery.core.privacy import decimal_text
from dpquery.core.source import Source, Span, width
from dpquery.errors import Diagnostic, QueryRefused
from dpquery.functions.base import DPFunction
from dpquery.ir.expr import Expr
from dpquery.rowfunctions.ranges import implied
from dpquery.sql.bind.expressions import Conditions
from dpquery.sql.bind.scope import written_name
from dpquery.sql.postprocess.functions import aggregate_name
from dpquery.sql.suggest.queries import (
    COUNT,
    between,
    call_about,
    fits,
    is_bounded,
    other_call,
    sample_call,
)

Stage = Callable[[Source], object]
_LONGEST = 400
"""Longer queries are not searched."""
_WIDE, _MORE = 88, 40
"""A mended query is one line on most screens, or hardly longer than what was typed."""

_NAME = r'("[^"\n]+"|[A-Za-z_]\w*)'
_VALUE = r"('[^'\n]*'|-?\d+(?:\.\d+)?|[A-Za-z_]\w*)"
_OPTION = (
    r"(eps|epsilon|delta|bounds|mechanism|max_rows_contributed|max_groups_contributed|weights)"
)
_COMPARED = r"(?=\s*(?:[=<>]|!=|IN\b|IS\b|BETWEEN\b|NOT\b))"
_MATCHES = r"(?:RLIKE|REGEXP|~)\s*('[^'\n]*')"

_EITHER = (rf"\|\|?(?=\s*(?:\(|{_NAME}{_COMPARED}))", "OR")

_READ: tuple[tuple[str, str], ...] = (
    # comparisons
    (r"=<", "<="),
    (r"=>", ">="),
    (r"!>", "<="),
    (r"!<", ">="),
    (r"\bIS\s+(NOT\s+)?(?:NUL|NIL|NONE|NAN|NA)\b", r"IS \1NULL"),
    (rf"\bIS\s+NOT\s+{_VALUE}", r"<> \1"),
    (rf"\bIS\s+{_VALUE}", r"= \1"),
    (r"\bISNULL\b", "IS NULL"),
    (r"\bNOT\s?NULL\b", "IS NOT NULL"),
    (rf"\bBETWEEN\s*\(\s*{_VALUE}\s*(?:,|AND)\s*{_VALUE}\s*\)", r"BETWEEN \1 AND \2"),
    (rf"\bBETWEEN\s+{_VALUE}\s*(?:,|-|\bTO\b)\s*{_VALUE}", r"BETWEEN \1 AND \2"),
    (rf"{_NAME}\s+(?:!\s*|NOT\s+){_MATCHES}", r"NOT REGEXP_MATCHES(\1, \2)"),
    (rf"{_NAME}\s+{_MATCHES}", r"REGEXP_MATCHES(\1, \2)"),
    (r"=\s*ANY\s*\(\s*(?:ARRAY\s*)?\[([^\]]*)\]\s*\)", r"IN (\1)"),
    (r"\bIN\s*\[([^\]]*)\]", r"IN (\1)"),
    (r"\bIN\s+('[^'\n]*'|\d+)", r"IN (\1)"),
    # conditions
    (r"!(?=[\w\"(])", "NOT "),
    _EITHER,
    (r"&&?", "AND"),
    (rf",\s*{_NAME}{_COMPARED}", r" AND \1"),
    (r"\bWHERE\b", "AND"),
    (r"\s+(?:AND|OR|WHERE|HAVING|ORDER\s+BY|LIMIT)\s*$", ""),
    # values
    (r"''([^'\n]+)''", r"'\1'"),
    (r"'(\w+)(?=\s|\)|$)", r"'\1'"),
    (r'"(\w+)(?=\s|\)|,|$)', r'"\1"'),
    (r"[$€£](?=\d)", ""),
    (rf"{_NAME}\s*(?:\^|\*\*)\s*2\b", r"\1 * \1"),
    # calls
    (rf"\b{_OPTION}\s*:\s*(?=[\d'\[])", r"\1="),
    (rf"\b{_OPTION}\s+(?=[\d'\[])", r"\1="),
    (r"\bweights\s*=\s*table\b", "weights='table'"),
    (rf"(?<=[\w*\"])\s+{_OPTION}\s*=", r", \1="),
    (rf";\s*{_OPTION}\s*=", r", \1="),
    (r"\b(bounds\s*=\s*)\[?(-?\d+)\s*(?:\.\.+|-|:)\s*(-?\d+)\]?", r"\1[\2, \3]"),
    (r"\b(DP_\w+)\s*\[([^\]]*)\]", r"\1(\2)"),
    (rf"(?<=\bSELECT\s){_NAME}\s+(\w+\()", r"\1, \2"),
    (
        r"\bWITH\s+(?:DIFFERENTIAL_PRIVACY|ANONYMIZATION)\s+(?:OPTIONS\s*\([^()]*\)\s*)?"
        r"([^()]*?)\b(?:ANON_)?(COUNT|SUM|AVG)\(([^()]*)\)",
        r"\1DP_\2(\3, eps=0.5)",
    ),
    (
        r"\bWITH\s+(?:DIFFERENTIAL_PRIVACY|ANONYMIZATION)\s+(?:OPTIONS\s*\([^()]*\)\s*)?",
        "",
    ),
    # clauses
    (r"^\s*(?=(?:DP_\w+)\s*\()", "SELECT "),
    (r"\bSELECT\s+TOP\s*\(?(\d+)\)?\s+(.*)$", r"SELECT \2 LIMIT \1"),
    (r"\bFETCH\s+(?:FIRST|NEXT)\s+(\d+)\s+ROWS?\s+ONLY\b", r"LIMIT \1"),
    (r"\bDISTINCT\s+(?=.*\bDP_)", ""),
    (r"\b(GROUP|ORDER)\s+(?!BY\b)(?=\w)", r"\1 BY "),
    (rf"\b(ROLLUP|CUBE|GROUPING\s+SETS)\s+({_NAME}(?:\s*,\s*{_NAME})*)", r"\1 (\2)"),
    (r"\bDESCENDING\b", "DESC"),
    (r"\bASCENDING\b", "ASC"),
    (r"\bAS\s+(\w+)", r'AS "\1"'),
)
"""What the parser does not read."""

_UNIT = r"'?(YEAR|QUARTER|MONTH|WEEK|DAY|HOUR|MINUTE|SECOND)S?'?"
_OF_DAYS = "(?:DATE|DATETIME|TIMESTAMP)_?"
_PART = r"\s*([^(),]+?)\s*"
_MOMENTS: tuple[tuple[str, str], ...] = (
    (
        rf"\b(?:DATE|DATETIME|TIMESTAMP)_?TRUNC\({_PART},\s*{_UNIT}\s*\)",
        r"DATE_TRUNC('\2', \1)",
    ),
    (rf"\b{_OF_DAYS}DIFF\({_PART},{_PART},\s*{_UNIT}\s*\)", r"DATE_DIFF('\3', \2, \1)"),
    (rf"\b(?:STRFTIME|FORMAT_DATE)\(\s*('[^']*')\s*,{_PART}\)", r"STRFTIME(\2, \1)"),
    (rf"\bDATE_FORMAT\({_PART},\s*('[^']*')\s*\)", r"STRFTIME(\1, \2)"),
)
"""Functions of moments whose arguments stand in another order elsewhere."""

_DAY = r"(?:DATE|DATETIME|TO_DATE)"
_NOW = r"\b(?:NOW|TODAY|CURRENT_DATE|CURRENT_TIMESTAMP)\b(?:\(\))?"
_BOUND: tuple[tuple[str, str], ...] = (
    *_MOMENTS,
    # options
    (r"\b(eps|epsilon)\s*=\s*(\d+),\s*(\d+)(?=\s*[,)])", r"\1=\2.\3"),
    (r"\b(eps|epsilon)\s*=\s*[\"'](\d+(?:\.\d+)?)[\"']", r"\1=\2"),
    (r"\b(eps|epsilon)\s*[<>]=\s*(\d+(?:\.\d+)?)", r"\1=\2"),
    (r"\b(?:e|ep|ε|budget|privacy_budget)\s*=", "eps="),
    (r"\b(?:clamp|clip|range|limits?|bound|min_max)\s*=", "bounds="),
    (
        rf"\b(?:low|lower|min)\w*\s*=\s*{_VALUE}\s*,\s*(?:high|upper|max)\w*\s*=\s*{_VALUE}",
        r"bounds=[\1, \2]",
    ),
    # values
    (r"(?<!')\b(\d{4}-\d\d-\d\d)\b(?!')", r"DATE '\1'"),
    (rf"{_VALUE}\s*(<=?)\s*{_NAME}\s*(<=?)\s*{_VALUE}", r"\1 \2 \3 AND \3 \4 \5"),
    _EITHER,
    # functions
    (r"\bANON_(COUNT|SUM|AVG)\(([^()]*)\)", r"DP_\1(\2, eps=0.5)"),
    (
        rf"\bWIDTH_BUCKET\({_PART},{_PART},{_PART},\s*(\d+)\s*\)",
        r"FLOOR((\1 - \2) * \4 / (\3 - \2)) + 1",
    ),
    (rf"\bIS_?NULL\(\s*{_NAME}\s*\)", r"\1 IS NULL"),
    (rf"\b{_DAY}\(\s*{_NAME}\s*\)", r"CAST(\1 AS DATE)"),
    (rf"\b{_DAY}\(\s*('\d{{4}}-\d\d-\d\d')\s*(?:,[^()]*)?\)", r"\1"),
    (r"\b(?:MAKE_)?DATE\(\s*(\d{4}),\s*(\d+),\s*(\d+)\s*\)", r"'\1-\2-\3'"),
    (rf"{_NOW}\s*-\s*INTERVAL\s+'?\d+'?\s+\w+'?", "'2024-12-31'"),
    (_NOW, "'2024-12-31'"),
)
"""What is read, and means nothing here."""

_UNKNOWN: tuple[tuple[str, str], ...] = (
    *_MOMENTS,
    (r"([^<>=!]=|<>|!=)\s*([A-Za-z_]\w*)", r"\1 '\2'"),
    (r"\bIN\s*\(\s*\"?(\w+)\"?\s*\)", r"IN ('\1')"),
    (r"\bIN\s*\(\s*\"?(\w+)\"?\s*,\s*\"?(\w+)\"?\s*\)", r"IN ('\1', '\2')"),
)
"""Names of columns that there are not: texts without their quotes."""

Slips = Sequence[tuple[re.Pattern[str], str]]
READ, BOUND, UNKNOWN = (
    [(re.compile(pattern, re.IGNORECASE), text) for pattern, text in table]
    for table in (_READ, _BOUND, _UNKNOWN)
)

_NUMBER = re.compile(r"(?<![\w.])(\d+(?:[.,_]\d+)*)(?: ?(k|m|%))?(?![\w.])", re.IGNORECASE)
_TIMES = {"": Fraction(1), "k": Fraction(1000), "m": Fraction(10**6), "%": Fraction(1, 100)}


def with_slip_mended(
    found: Diagnostic, source: Source, stage: Stage, slips: Slips
) -> Diagnostic:
    """Give a refusal that offers the mended query, if what is under the caret is a known slip.

    Args:
        found: the refusal.
        source: the query that was refused.
        stage: reads a query, and raises `QueryRefused` where it refuses it.
        slips: what to look for.
    """
    if found.span is None or len(source.text) > _LONGEST or "\n" in source.text.strip():
        return found
    for text in _candidates(source.text, found.span, slips):
        mended = None if text == source.text else _accepted(stage, text)
        if mended is not None and width(mended) <= max(_WIDE, width(source.text) + _MORE):
            return replace(found, remedy=(mended,))
    return found


def _candidates(text: str, span: Span, slips: Slips) -> Iterator[str]:
    """Return the query with one slip mended, for each that touches the stretch."""
    for pattern, mend in slips:
        for match in pattern.finditer(text):
            if _touches(match, span):
                changed = text[: match.start()] + match.expand(mend) + text[match.end() :]
                yield changed.strip()
    for match in _NUMBER.finditer(text) if slips is READ else ():
        if _touches(match, span):
            yield text[: match.start()] + _in_digits(match) + text[match.end() :]


def _touches(match: re.Match[str], span: Span) -> bool:
    """Return whether a match and a stretch meet, or are one blank apart."""
    return match.start() <= span.end + 1 and span.start <= match.end() + 1


def _in_digits(number: re.Match[str]) -> str:
    """Write a number without a unit, and without signs between its thousands."""
    plain = re.sub(r"[,_](?=\d{3})", "", number[1])
    if re.fullmatch(r"\d{1,30}(\.\d{1,30})?", plain) is None:
        return number[0]
    return decimal_text(Fraction(plain) * _TIMES[(number[2] or "").lower()])


_ONE_MORE = {"DPQ208", "DPQ210"}
"""Refusals whose own remedy is pasted over the caret, once: a year that became a date's."""


def _accepted(stage: Stage, text: str, rounds: int = 1) -> str | None:
    """Give a text that the stage accepts: this one, or this one with its own remedy pasted."""
    try:
        stage(Source(text))
    except QueryRefused as refused:
        span, remedy = refused.span, refused.diagnostic.remedy[:1]
        if span is None or not remedy or rounds == 0 or refused.code not in _ONE_MORE:
            return None
        pasted = text[: span.start] + remedy[0] + text[span.end :]
        return _accepted(stage, pasted, rounds - 1)
    return text


# Which function of this language was meant by another name: of other engines, or mistyped.
#
# It writes calls for refusals to offer, about columns that the query names or, where these
# do not fit, about one that does. It accepts nothing: what it writes is bound anew when it
# is typed.


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
_LONGEST_NAME = 40
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
    share, table = _share(arguments[1:2]), rows.scope.table
    nodes = arguments[: len(function.expressions)]
    if not nodes or isinstance(nodes[0], exp.Star):
        return sample_call(function, table, share, options)
    try:
        bound = [rows.bind(node) for node in nodes]
    except QueryRefused:
        return sample_call(function, table, share, options)
    written = list(map(rows.spans.text, nodes))
    for about, expr, text in zip(function.expressions, bound, written, strict=False):
        if not fits(about.takes, expr.type):
            return other_call(expr, text)
    loose = [not is_bounded(expr) for expr in bound]
    given = [between(function, *one) for one in zip(written, loose, strict=True)]
    return call_about(
        function, given, bound[0].type if loose[0] else None, table, share, options
    )


def _composed(name: str, arguments: Sequence[exp.Expr], rows: Conditions) -> str | None:
    """Write in several calls, or as a count of groups, what is no function of its own."""
    shown = {"HISTOGRAM": 1, "CORR": 2, "COVAR_SAMP": 2}.get(name, 0)
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
    """Return whether a function of other engines would make one value of many rows."""
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
    """Return whether a text is a decimal from 0 to 1."""
    digits = text.isascii() and text.replace(".", "", 1).isdigit() and len(text) < 30
    return digits and 0 <= Fraction(text) <= 1


def nearest_function(name: str) -> str | None:
    """Return the DP_ function whose name is a slip away, if any is.

    >>> nearest_function("DP_CUONT"), nearest_function("COUNT"), nearest_function("DP_TREE")
    ('DP_COUNT', 'DP_COUNT', None)
    """
    return a_slip_away(f"DP_{name.upper().removeprefix('DP_')}", functions.names())


def a_slip_away(name: str, known: Iterable[str]) -> str | None:
    """Return the known word from which a word differs in two letters at most."""
    apart = {word: _letters_apart(name[:_LONGEST_NAME], word) for word in known}
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
