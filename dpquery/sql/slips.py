"""Habits of other languages, each with what it is written like here.

A refusal offers the mended query only if that query passes the stage which refused the first
one. Nothing is accepted here: what is offered is read anew when it is typed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from dpquery.errors import Diagnostic, QueryRefused
from dpquery.privacy import decimal_text
from dpquery.source import Source, Span, width

__all__ = ["BOUND", "READ", "UNKNOWN", "with_slip_mended"]

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
    """Give the query with one slip mended, for each that touches the stretch."""
    for pattern, mend in slips:
        for match in pattern.finditer(text):
            if _touches(match, span):
                changed = text[: match.start()] + match.expand(mend) + text[match.end() :]
                yield changed.strip()
    for match in _NUMBER.finditer(text) if slips is READ else ():
        if _touches(match, span):
            yield text[: match.start()] + _in_digits(match) + text[match.end() :]


def _touches(match: re.Match[str], span: Span) -> bool:
    """Say whether a match and a stretch meet, or are one blank apart."""
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
