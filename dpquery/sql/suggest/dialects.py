"""Habits of other languages, each with what it is written like here.

A refusal offers the mended query only if that query passes the stage which refused the first
one. Nothing is accepted here: what is offered is read anew when it is typed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import takewhile

from sqlglot import expressions as exp

from dpquery import functions
from dpquery.core.privacy_loss import decimal_text
from dpquery.core.source_text import Source, Span, width
from dpquery.errors import Diagnostic, PlanRefused, QueryRefused, nearest
from dpquery.functions.base import DPFunction, Gives
from dpquery.functions.distributions.points_argument import Points
from dpquery.ir.expr import ColumnRef, Expr
from dpquery.rowfunctions.analysis.ranges import implied
from dpquery.sql.bind.rows.row_expressions import Conditions
from dpquery.sql.bind.scope import written_name
from dpquery.sql.postprocess.builtin_functions import aggregate_name
from dpquery.sql.suggest.sample_queries import (
    COUNT,
    between,
    call_about,
    fits,
    is_bounded,
    other_call,
    sample_call,
)

Stage = Callable[[Source], object]
LONGEST_MENDED = 400
"""Longer queries are not searched."""
_WIDE, _MORE, _TITLE = 88, 40, 40
"""A mended query is one line on most screens, or hardly longer than what was typed."""

_PARTS = {
    "name": r'("[^"\n]+"|[A-Za-z_]\w*)',
    "value": r"('[^'\n]*'|-?\d+(?:\.\d+)?|[A-Za-z_]\w*)",
    "text": r"('[^'\n]*')",
    "number": r"(\d+(?:\.\d+)?)",
    "argument": r"\s*((?:[^(),]|\([^()]*\))+?)\s*",
    "call": r"(\w+\([^()]*\))",
    "day": r"\d{4}-\d\d-\d\d",
    "compared": r"(?=\s*(?:[=<>]|!=|IN\b|IS\b|BETWEEN\b|NOT\b))",
    "matches": r"(?:RLIKE|REGEXP)\s*('[^'\n]*')",
    "values": r"\(\s*SELECT\s+(?:DISTINCT\s+(\w+)|(\w+)\s*,\s*COUNT\(\*\)(?:\s+AS\s+\w+)?)"
    r"\s+FROM\s+((?:(?!LIMIT\b)[^()])*?)(?:\s+GROUP\s+BY\s+\w+)?\s*\)"
    r"(?:\s+(?:AS\s+)?(?!GROUP\b|JOIN\b|LIMIT\b|ORDER\b|WHERE\b)\w+)?",
    "named": r"(?:\s+AS\s+\w+)?",
    "option": r"(eps|epsilon|delta|bounds|mechanism|max_rows_contributed|max_groups_contributed"
    r"|weights)",
    "unit": r"'?(YEAR|QUARTER|MONTH|WEEK|DAY|HOUR|MINUTE|SECOND)S?'?",
    "moment": "(?:DATE|DATETIME|TIMESTAMP)_?",
    "now": r"\b(?:NOW|CURRENT_TIMESTAMP)\b(?:\(\))?",
}
"""What a pattern holds as <name>, and the like."""
_WORDS = {
    "=<": "<=", "=>": ">=", "!>": "<=", "!<": ">=", r"\bISNULL\b": "IS NULL",
    r"\bNOT\s?NULL\b": "IS NOT NULL", "&&?": "AND", r"\bWHERE\b": "AND",
    r"\bDESCENDING\b": "DESC", r"\bASCENDING\b": "ASC", r"[$€£](?=\d)": "",
    r"!(?=[\w\"(])": "NOT ", r"\bweights\s*=\s*table\b": "weights='table'",
    r"\bDISTINCT\s+(?=.*\bDP_)": "", r"\s+(?:AND|OR|WHERE|HAVING|ORDER\s+BY|LIMIT)\s*$": "",
}  # fmt: skip
"""Signs and words of other languages."""
_EITHER = {r"\|\|?(?=\s*(?:\(|<name><compared>))": "OR"}
_MOMENTS = {
    r"\b<moment>TRUNC\(<argument>,\s*<unit>\s*\)": r"DATE_TRUNC('\2', \1)",
    r"\b<moment>DIFF\(<argument>,<argument>,\s*<unit>\s*\)": r"DATE_DIFF('\3', \2, \1)",
    r"\b(?:STRFTIME|FORMAT_DATE)\(\s*<text>\s*,<argument>\)": r"STRFTIME(\2, \1)",
    r"\bDATE_FORMAT\(<argument>,\s*<text>\s*\)": r"STRFTIME(\1, \2)",
    r"\b(DATE_?DIFF|DATE_?PART|DATE_?TRUNC)\(\s*<unit>\s*,": r"\1('\2',",
    r"\bTO_CHAR\(<argument>,\s*'YYYY'\s*\)": r"STRFTIME(\1, '%Y')",
    r"\bTO_CHAR\(<argument>,\s*'YYYY-MM'\s*\)": r"STRFTIME(\1, '%Y-%m')",
    r"\bTO_CHAR\(<argument>,\s*'YYYY-MM-DD'\s*\)": r"STRFTIME(\1, '%Y-%m-%d')",
}
"""Functions of moments whose arguments stand in another order elsewhere."""
_READ = {
    # comparisons
    r"\bIS\s+(NOT\s+)?(?:NUL|NIL|NONE|NAN|NA)\b": r"IS \1NULL",
    r"\bIS\s+NOT\s+<value>": r"<> \1",
    r"\bIS\s+<value>": r"= \1",
    r"\bBETWEEN\s*\(\s*<value>\s*(?:,|AND)\s*<value>\s*\)": r"BETWEEN \1 AND \2",
    r"\bBETWEEN\s+<value>\s*(?:,|-|\bTO\b)\s*<value>": r"BETWEEN \1 AND \2",
    r"<name>\s+(?:!\s*|NOT\s+)<matches>": r"NOT REGEXP_MATCHES(\1, \2)",
    r"<name>\s+<matches>": r"REGEXP_MATCHES(\1, \2)",
    r"\bGLOB\s+'([^'*?\[\]%_\n]*)\*'": r"LIKE '\1%'",
    r"=\s*ANY\s*\(\s*(?:ARRAY\s*)?\[([^\]]*)\]\s*\)": r"IN (\1)",
    r"<value>\s*=\s*ANY\s*\(\s*<call>\s*\)": r"\1 IN UNNEST(\2)",
    r"\bIN\s*\[([^\]]*)\]": r"IN (\1)",
    r"\bIN\s+('[^'\n]*'|\d+)": r"IN (\1)",
    **_EITHER,
    r",\s*<name><compared>": r" AND \1",
    # values
    r"''([^'\n]+)''": r"'\1'",
    r"'(\w+)(?=\s|\)|$)": r"'\1'",
    r'"(\w+)(?=\s|\)|,|$)': r'"\1"',
    r"<name>\s*(?:\^|\*\*)\s*2\b": r"\1 * \1",
    # calls
    r"\b<option>\s*:\s*(?=[\d'\[])": r"\1=",
    r"\b<option>\s+(?=[\d'\[])": r"\1=",
    r"(?<=[\w*\"])\s+<option>\s*=": r", \1=",
    r";\s*<option>\s*=": r", \1=",
    r"\b(bounds\s*=\s*)\[?(-?\d+)\s*(?:\.\.+|-|:)\s*(-?\d+)\]?": r"\1[\2, \3]",
    r"\b(DP_\w+)\s*\[([^\]]*)\]": r"\1(\2)",
    r"(?<=\bSELECT\s)<name>\s+(\w+\()": r"\1, \2",
    # clauses
    r"^\s*(?=(?:DP_\w+)\s*\()": "SELECT ",
    r"\bFETCH\s+(?:FIRST|NEXT)\s+(\d+)\s+ROWS?\s+ONLY\b": r"LIMIT \1",
    r"\s+LIMIT\s+ALL\b": "",
    r"\b(GROUP|ORDER)\s+(?!BY\b)(?=\w)": r"\1 BY ",
    r"\b(ROLLUP|CUBE|GROUPING\s+SETS)\s+(<name>(?:\s*,\s*<name>)*)": r"\1 (\2)",
    r"\b(SELECT\s+)<name>(,.*\bGROUP\s+BY\s+)(ROLLUP|CUBE)\b(?!\s*\()": r"\1\2\3\4 (\2)",
    r"\b(GROUP\s+BY\s+)<name>\s+(ROLLUP|CUBE)\b": r"\1\3 (\2)",
    r"\bAS\s+(\w+)": r'AS "\1"',
}
"""What the parser does not read."""
_BOUND = {
    # options
    r"\b(eps|epsilon)\s*=\s*(\d+),\s*(\d+)(?=\s*[,)])": r"\1=\2.\3",
    r"\b(eps|epsilon)\s*=\s*[\"']<number>[\"']": r"\1=\2",
    r"\b(eps|epsilon)\s*[<>]=\s*<number>": r"\1=\2",
    r"\b(?:e|ep|ε|budget|privacy_budget)\s*=": "eps=",
    r"\b(?:k|rows|max_rows|limit)\s*=": "max_rows_contributed=",
    r"\b(?:clamp|clip|range|limits?|bound|min_max)\s*=": "bounds=",
    r"\b(?:low|lower|min)\w*\s*=\s*<value>\s*,\s*(?:high|upper|max)\w*\s*=\s*<value>": (
        r"bounds=[\1, \2]"
    ),
    # values
    r"(?<!')\b(<day>)\b(?!')": r"DATE '\1'",
    r"<value>\s*(<=?)\s*<name>\s*(<=?)\s*<value>": r"\1 \2 \3 AND \3 \4 \5",
    **_EITHER,
    # functions
    r"\bANON_(COUNT|SUM|AVG)\(([^()]*)\)": r"DP_\1(\2, eps=0.5)",
    r"\bWIDTH_BUCKET\(<argument>,<argument>,<argument>,\s*(\d+)\s*\)": (
        r"FLOOR((\1 - \2) * \4 / (\3 - \2)) + 1"
    ),
    r"\bIS_?NULL\(\s*<name>\s*\)": r"\1 IS NULL",
    r"\b(?:DATE|DATETIME|TO_DATE)\(\s*<name>\s*\)": r"CAST(\1 AS DATE)",
    r"\b(?:DATE|DATETIME|TO_DATE)\(\s*('<day>')\s*(?:,[^()]*)?\)": r"\1",
    r"\b(?:MAKE_)?DATE\(\s*(\d{4}),\s*(\d+),\s*(\d+)\s*\)": r"'\1-\2-\3'",
    "<now>": "CURRENT_DATE",
    # lists and patterns
    r"\b(?:LIST|ARRAY)_(?:CONTAINS|HAS)\(<argument>,\s*<value>\s*\)": r"\2 IN UNNEST(\1)",
    r"\bLEN(?:GTH)?\(\s*(?:STR|STRING)_SPLIT\(<argument>,\s*('[^']')\s*\)\s*\)": (
        r"LENGTH(\1) - LENGTH(REPLACE(\1, \2, '')) + 1"
    ),
    r"\bREGEXP_EXTRACT\(<argument>,\s*'([^'^|\n][^'|\n]*[^'|$\n])',\s*1\s*\)": (
        r"REGEXP_REPLACE(\1, '^.*\2.*$|^.*$', '\\1')"
    ),
    # windows over rows
    r"^(\s*SELECT\s+)(?:<name>\s*,\s*)?(DP_\w+\([^()]*\))\s+OVER\s*\(\s*PARTITION\s+BY\s+<name>\s*\)"
    r"(.*)$": r"\1\4, \3\5 GROUP BY \4",
    r"^(\s*SELECT\s+)(?:<name>\s*,\s*)?(AVG|COUNT|MAX|MEDIAN|MIN|SUM)\(([^()]*)\)\s+OVER\s*\(\s*"
    r"PARTITION\s+BY\s+<name>\s*\)(.*)$": r"\1\5, DP_\3(\4, eps=0.5)\6 GROUP BY \5",
    # one value of all rows, and how many values there are
    r"^(.*\bFROM\s+<name>.*\bWHERE\b.*[<>=]\s*)(AVG|MAX|MEDIAN|MIN|SUM)\(\s*<name>\s*\)": (
        r"\1(SELECT DP_\3(\4, eps=0.5) FROM \2)"
    ),
    r"\bDP_COUNT\(\s*\*(.*)\)(<named>)\s+FROM\s+<values>": (
        r"DP_COUNT(DISTINCT \3\4\1)\2 FROM \5"
    ),
    r"\bCOUNT\(\s*\*\s*\)(<named>)\s+FROM\s+<values>": r"COUNT(DISTINCT \2\3)\1 FROM \4",
    r"\b(COUNT\()\s*\*\s*\)(<named>)\s+FROM\s+<values>": (
        r"DP_\1DISTINCT \3\4, eps=0.5)\2 FROM \5"
    ),
    # division
    r"\bSAFE_DIVIDE\(<argument>,<argument>\)": r"\1 / \2",
}
"""What is read, and means nothing here."""
_UNKNOWN = {
    r"([^<>=!]=|<>|!=)\s*([A-Za-z_]\w*)": r"\1 '\2'",
    r"\bIN\s*\(\s*\"?(\w+)\"?\s*\)": r"IN ('\1')",
    r"\bIN\s*\(\s*\"?(\w+)\"?\s*,\s*\"?(\w+)\"?\s*\)": r"IN ('\1', '\2')",
}
"""Names of columns that there are not: texts without their quotes."""


class Slips:
    """Patterns of slips, each with what is meant; made for the first query that is refused."""

    def __init__(self, table: Mapping[str, str]) -> None:
        self._table = table

    @cached_property
    def patterns(self) -> Sequence[tuple[re.Pattern[str], str]]:
        """Write the parts of all patterns out."""
        return [
            (
                re.compile(re.sub(r"<(\w+)>", lambda m: _PARTS[m[1]], pattern), re.IGNORECASE),
                text,
            )
            for pattern, text in self._table.items()
        ]


READ, BOUND, UNKNOWN = map(Slips, (_WORDS | _READ, _MOMENTS | _BOUND, _MOMENTS | _UNKNOWN))

_NUMBER = re.compile(r"(?<![\w.])(\d+(?:[.,_]\d+)*)(?: ?(k|m|%))?(?![\w.])", re.IGNORECASE)
_TIMES = {"": Fraction(1), "k": Fraction(1000), "m": Fraction(10**6), "%": Fraction(1, 100)}


def with_slip_mended(
    found: Diagnostic, source: Source, stage: Stage, slips: Slips
) -> Diagnostic:
    """Return a refusal that offers the mended query, if under the caret is a known slip.

    A query is mended once `stage` accepts it, which raises `QueryRefused` where it does not.
    """
    if found.span is None or len(source.text) > LONGEST_MENDED or "\n" in source.text.strip():
        return found
    for text, wrong, right in _candidates(source.text, found.span, slips):
        try:
            mended = _accepted(stage, text)
        except PlanRefused:  # of its groups, which is another question
            mended = right
        if mended is not None and width(mended) <= max(_WIDE, width(source.text) + _MORE):
            title = _what_is_wrong(wrong, right) if _is_vague(found, wrong) else found.title
            return replace(found, title=title, remedy=(mended,))
    return found


def _is_vague(found: Diagnostic, wrong: str) -> bool:
    """Return whether a title says less than the slip does, which is short enough for one."""
    return len(wrong) <= _TITLE and (wrong in {"|", "||"} or found.title.startswith("syntax"))


def _what_is_wrong(wrong: str, right: str) -> str:
    """Say what a slip is, by how it is written here."""
    alike = takewhile(lambda pair: pair[0] == pair[1], zip(wrong, right, strict=False))
    start = len([*alike])
    rest = wrong[start:]
    if right.endswith(rest):
        missing = right[start : len(right) - len(rest)].strip() or "a part"
        return f"{'a comma' if missing == ',' else missing} is missing"
    if right:
        return f"{wrong} is written {right} here"
    return f"nothing follows {wrong}" if wrong[0].isalpha() else f"{wrong} is not needed here"


def _candidates(text: str, span: Span, slips: Slips) -> Iterator[tuple[str, str, str]]:
    """Return the query with one slip mended, the slip and its mend, for each that touches.

    A slip and a stretch touch if they meet, or are one blank apart.
    """
    made = [
        (match, match.expand(mend))
        for slip, mend in slips.patterns
        for match in slip.finditer(text)
    ]
    if slips is READ:
        made += [(match, _in_digits(match)) for match in _NUMBER.finditer(text)]
    for match, mended in made:
        if match.start() <= span.end + 1 and span.start <= match.end() + 1:
            changed = (text[: match.start()] + mended + text[match.end() :]).strip()
            if changed != text:
                yield changed, match[0].strip(), mended.strip()


def _in_digits(number: re.Match[str]) -> str:
    """Write a number without a unit, and without signs between its thousands."""
    plain = re.sub(r"[,_](?=\d{3})", "", number[1])
    if re.fullmatch(r"\d{1,30}(\.\d{1,30})?", plain) is None:
        return number[0]
    return decimal_text(Fraction(plain) * _TIMES[(number[2] or "").lower()])


_ONE_MORE = {"DPQ208", "DPQ210", "DPQ408"}
"""Refusals whose own remedy is pasted over the caret, once: a year that became a date's."""


def _accepted(stage: Stage, text: str) -> str | None:
    """Return a text that the stage accepts: this one, or with its own remedy pasted.

    Raises:
        PlanRefused: DPQ402 its groups are not public.
    """
    for _ in range(2):
        try:
            stage(Source(text))
        except QueryRefused as refused:
            span, remedy = refused.span, refused.diagnostic.remedy
            if refused.code == "DPQ402":
                raise
            if span is None or not remedy or refused.code not in _ONE_MORE:
                return None
            text = text[: span.start] + remedy[0] + text[span.end :]
        else:
            return text
    return None


_QUERY = re.compile(r"(?:or )?((?:SELECT|WITH)\b.+)", re.IGNORECASE)
_STEPS = 4
"""How many refusals of an offered query are followed, each by what it offers."""


def with_accepted_queries(found: Diagnostic, stage: Stage, otherwise: str) -> Diagnostic:
    """Return a refusal whose whole queries are accepted when they are pasted.

    One that is refused is mended as its own refusal says, or left out. Where that was the first
    line, and no other query follows, `otherwise` stands in its place.
    """
    lines: list[str] = []
    for line in found.remedy:
        query = _QUERY.fullmatch(line)
        accepted = line if query is None else _followed(stage, query[1])
        if accepted is not None and accepted not in lines:
            lines.append(line if query is not None and accepted == query[1] else accepted)
    if lines[:1] != [*found.remedy[:1]] and not _QUERY.fullmatch((*lines, "")[0]):
        lines.insert(0, otherwise)
    return replace(found, remedy=tuple(lines))


def _followed(stage: Stage, text: str) -> str | None:
    """Return a query that the stage accepts: this one, or what its refusals make of it."""
    for _ in range(_STEPS):
        try:
            stage(Source(text))
        except QueryRefused as refused:
            span, remedy = refused.span, (*refused.diagnostic.remedy, "")[0]
            name = remedy.removeprefix("FROM ")
            if _QUERY.fullmatch(remedy):
                text = remedy
            elif span is not None and nearest(text[span.start : span.end], [name]):
                text = text[: span.start] + name + text[span.end :]
            else:
                return None
        else:
            return text
    return None


# Which function of this language was meant by another name: of other engines, or mistyped.
# Calls are offered about columns that the query names or, where these do not fit, another.


_OTHERS = {
    "DP_AVG": "AVERAGE",
    "DP_COUNT": "APPROX_COUNT_DISTINCT COUNT_DISTINCT",
    "DP_QUANTILE": "APPROX_PERCENTILE APPROX_QUANTILE APPROX_QUANTILES PERCENTILE "
    "PERCENTILE_CONT PERCENTILE_DISC QUANTILE QUANTILE_CONT QUANTILE_DISC",
    "DP_STDDEV_SAMP": "STD STDEV",
    "DP_SUM": "TOTAL",
    "DP_VAR_SAMP": "VAR",
}
MEANT = {name: meant for meant, names in _OTHERS.items() for name in names.split()}
"""What functions of other engines are called here, where the name alone does not tell."""
_BINS = 60
"""Bins of a histogram that is offered, about."""
LISTING = frozenset({"ARRAY_AGG", "GROUP_CONCAT", "LIST", "LISTAGG", "STRING_AGG"})
"""What puts the values of all rows into one."""
CLOSE = 0.8
"""How much alike a name and the function that it was meant for are: a letter or two apart."""


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
    function = function_of(name)
    if function is None or (name == "HISTOGRAM" and len(arguments) < 2):
        return _composed(name, arguments, rows)
    table = rows.scope.table
    different = any(isinstance(part, exp.Distinct) for part in arguments)
    if different and function.first.distinct and function.gives is not Gives.COUNT:
        first = rows.spans.text(arguments[0]).removeprefix("DISTINCT ")
        return f"{function.name}(DISTINCT {first}, {options})"
    if "DISTINCT" in name or different:
        asked = "*" if table.unit is None else f"DISTINCT {written_name(table.unit)}"
        return f"DP_COUNT({asked}, {options})"
    share = boundaries(name, *arguments[1:2]) or _share(arguments[1:2])
    if isinstance(function.positional[-1], Points):
        share = "".join(map(rows.spans.text, arguments[1:2]))
    nodes = arguments[: len(function.expressions)]
    try:
        bound = [rows.bind(node) for node in nodes if not isinstance(node, exp.Star)]
    except QueryRefused:
        bound = []
    if len(bound) < max(1, len(nodes)):
        return sample_call(function, table, share, options)
    written = list(map(rows.spans.text, nodes))
    for about, expr, text in zip(function.expressions, bound, written, strict=False):
        if not fits(about.takes, expr.type):
            return other_call(expr, text)
    loose = [not is_bounded(expr) for expr in bound]
    given = [between(function, *one) for one in zip(written, loose, strict=True)]
    type_ = bound[0].type if loose[0] else None
    return call_about(function, given, type_, table, share, options)


def _composed(name: str, arguments: Sequence[exp.Expr], rows: Conditions) -> str | None:
    """Write as a count of groups, or of values, what is no function of its own."""
    shown = int(name == "HISTOGRAM" or name in LISTING)
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
    if name in LISTING and exprs and isinstance(exprs[0], ColumnRef):
        column = rows.scope.table.columns.get(exprs[0].name)
        public = column is not None and column.keys is not None
        return f"DP_TOP_K({texts[0]}, 3, eps=0.5)" if public else None
    return None


def _bins(expr: Expr, written: str) -> str:
    """Write bins of a range: at most some dozens, each as wide as a power of ten."""
    range_, width = implied(expr), 1
    assert range_.low is not None  # noqa: S101 - it is bounded
    assert range_.high is not None  # noqa: S101
    while (range_.high - range_.low) / width > _BINS:
        width *= 10
    return written if width == 1 else f"FLOOR({written} / {width}) * {width}"


def function_of(name: str) -> DPFunction | None:
    """Return the DP_ function that an aggregate of another name means, if any does."""
    return functions.find(MEANT.get(name, f"DP_{name}"))


def is_aggregate(call: exp.Expr, name: str) -> bool:
    """Return whether a function of other engines would make one value of many rows."""
    return (
        isinstance(call, exp.AggFunc)
        or function_of(name) is not None
        or aggregate_name(call) is not None
    )


def boundaries(name: str, parts: exp.Expr | None = None) -> str:
    """Write the ends of so many parts of equal size, which BigQuery's function asks for."""
    number = isinstance(parts, exp.Literal) and not parts.is_string and len(parts.name) < 4
    if name != "APPROX_QUANTILES" or parts is None or not number or not parts.name.isdecimal():
        return ""
    count = int(parts.name)
    rounded = (Fraction(round(part * 10**12 / count), 10**12) for part in range(count + 1))
    return f"[{', '.join(map(decimal_text, rounded))}]" if count else ""


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
    return nearest(f"DP_{name.upper().removeprefix('DP_')}", functions.names(), CLOSE)
