"""What refusals offer: calls, conditions, comparisons and queries, about the table asked.

Everything here is made of the policy and the query, so that it can be pasted. It decides
nothing: what is offered is bound again when it is typed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from fractions import Fraction
from itertools import accumulate
from typing import TypeGuard

from sqlglot import TokenType
from sqlglot import expressions as exp

from dpquery.core.privacy_loss import decimal_text, exact_number
from dpquery.core.source_text import Source, Span
from dpquery.core.types import EPOCH, MOMENTS, NUMERIC, Interval, Kind, Type, ordinal
from dpquery.errors import Diagnostic, Worded, nearest
from dpquery.functions.base import BOUNDS, DPFunction, Expression, Share, Takes
from dpquery.functions.distributions.points_argument import Points
from dpquery.functions.example_bounds import example_bounds
from dpquery.functions.quantize import from_code
from dpquery.ir.expr import Expr
from dpquery.policy.model import Column, Policy, Table
from dpquery.rowfunctions.analysis.conditions import facts_of
from dpquery.rowfunctions.analysis.key_domains import values_of
from dpquery.rowfunctions.analysis.ranges import implied
from dpquery.sql.bind.scope import written_name
from dpquery.sql.parse.spans import Spans, shown

COUNT = "DP_COUNT(*, eps=0.5)"
_HALF = Fraction(1, 2)

_OFFERED = {
    Kind.BOOLEAN: "DP_PROPORTION",
    Kind.DATE: "DP_MEDIAN",
    Kind.TIMESTAMP: "DP_MEDIAN",
    Kind.TIMESTAMPTZ: "DP_MEDIAN",
    Kind.TIME: "DP_MEDIAN",
}
"""What can be asked about values that are no numbers; of others, how many there are."""


_ENDS: dict[Kind, tuple[int | date, int | date]] = {
    Kind.DATE: (date(2025, 1, 1), date(2025, 12, 31)),
    Kind.TIMESTAMP: (datetime(2025, 1, 1), datetime(2025, 12, 31)),  # noqa: DTZ001
    Kind.TIMESTAMPTZ: (datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 12, 31, tzinfo=UTC)),
}
"""Ranges that are offered; of numbers, another."""


def ranged_by(type_: Type, written: str, name: str) -> tuple[Interval, str, Worded]:
    """Return a range of a column, the condition that states it, and who can say it for all.

    >>> ranged_by(Type(Kind.DATE), "v.day", "day")[1]
    "v.day BETWEEN DATE '2025-01-01' AND DATE '2025-12-31'"
    """
    ends = _ENDS.get(type_.kind, (0, 1000))
    low, high = (ordinal(end) if isinstance(end, date) else end for end in ends)
    word = type_.kind.value.upper()
    first, last = (f"{word} '{end}'" if type_.kind in _ENDS else f"{end}" for end in ends)
    stated = ", ".join(f'"{end}"' if type_.kind in _ENDS else f"{end}" for end in ends)
    owner = f"or ask the data owner to state bounds of {name} in the policy"
    own = f"or --bounds {name}={ends[0]!s:.10}:{ends[1]!s:.10} for the whole session"
    own += f", in Python bounds={{'{name}': ({stated})}}"
    range_ = Interval(Fraction(low), Fraction(high))
    return range_, f"{written} BETWEEN {first} AND {last}", Worded(owner, own)


def is_bounded(expr: Expr) -> bool:
    """Return whether somebody chose what bounds the values of an expression."""
    return implied(expr).bounded


def other_call(expr: Expr, written: str) -> str:
    """Write a call about values that a function does not take."""
    function = _OFFERED.get(expr.type.kind, "DP_COUNT")
    if function == "DP_MEDIAN" and not is_bounded(expr):
        function = "DP_COUNT"
    return f"{function}({written}, eps=0.5)"


def sample_call(function: DPFunction, table: Table, share: str = "", options: str = "") -> str:
    """Write a call of a function about a table: its first columns that fit, bounded if any."""
    options, first = options or function.price, function.first
    if first.star:
        return f"{function.name}(*, {options})"
    fitting = _fitting(first, table)
    if not fitting and first.takes is Takes.CONDITION:
        return f"{function.name}({_any(table)} IS NOT NULL, {options})"
    if not fitting:
        return COUNT
    loose = fitting[0].type if fitting[0].bounds is None else None
    return call_about(function, [], loose, table, share, options)


def _fitting(about: Expression, table: Table) -> list[Column]:
    """Return the columns that a function can be asked about, those with bounds first."""
    columns = [c for c in table.columns.values() if c.name != table.unit]
    fitting = [c for c in columns if fits(about.takes, c.type)]
    return sorted(fitting, key=lambda column: column.bounds is None)


def _any(table: Table) -> str:
    return written_name(next(iter(table.columns)))


def call_about(
    function: DPFunction,
    given: Sequence[str],
    loose: Type | None,
    table: Table,
    share: str = "",
    options: str = "",
) -> str:
    """Write a call with the arguments given, and examples in place of others.

    Args:
        function: what is called.
        given: expressions over rows, from the first on.
        loose: the type of the first, if neither policy nor query bounds it.
        table: whose columns stand for expressions that are not given.
        share: which quantile is asked for, where one is.
        options: what is given by name.
    """
    parts, texts, options = [], iter(given), options or function.price
    for number, one in enumerate(function.positional):
        if isinstance(one, Expression):
            text = next(texts, None) or _sample(function, number, table, given)
            parts.append(f"[{text}]" if one.listed and not text.startswith("[") else text)
        else:
            stated = isinstance(one, Share | Points)
            parts.append(share or one.example if stated else one.example)
    if loose is not None and BOUNDS in function.parameters and "bounds" not in options:
        options += f", {example_bounds(loose)}"
    return f"{function.name}({', '.join([*parts, options])})"


def _sample(function: DPFunction, number: int, table: Table, given: Sequence[str]) -> str:
    """Write a column for an expression of a call, another one than those given if it can be."""
    fitting = _fitting(function.expressions[number], table)
    if not fitting:
        return _any(table)
    fitting = [c for c in fitting if written_name(c.name) not in given] or fitting
    column = fitting[(number - len(given)) % len(fitting)]
    return between(function, written_name(column.name), column.bounds is None)


def between(function: DPFunction, written: str, loose: bool) -> str:
    """Write an expression cut to a range, where none is said and no option could say it."""
    cut = loose and len(function.expressions) > 1
    return f"LEAST(GREATEST({written}, 0), 1000)" if cut else written


_TAKEN = {
    Takes.VALUE: frozenset(Kind),
    Takes.NUMBER: NUMERIC,
    Takes.ORDERED: NUMERIC | MOMENTS | {Kind.TIME},
    Takes.CONDITION: frozenset({Kind.BOOLEAN}),
    Takes.LISTED: frozenset(Kind) - {Kind.DOUBLE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIME},
    Takes.DISCRETE: frozenset(Kind) - {Kind.DOUBLE},
}


def fits(takes: Takes, type_: Type) -> bool:
    """Return whether a function can be asked about values of a type."""
    return type_.kind in _TAKEN[takes]


def sample_condition(table: Table) -> str:
    """Write a condition about a table's rows."""
    columns = [c for c in table.columns.values() if c.name != table.unit]
    if not columns:
        return f"{_any(table)} IS NOT NULL"
    column = min(columns, key=lambda column: column.keys is None and column.bounds is None)
    return f"{written_name(column.name)} {_compared(column)}"


def _compared(column: Column) -> str:
    low = column.interval.low
    if column.keys is not None and isinstance(column.keys[0], str):
        return "= '" + column.keys[0].replace("'", "''") + "'"
    if column.bounds is None or low is None:
        return "IS NOT NULL"
    if column.type.numeric:
        return f"> {decimal_text(low)}"
    return f"> '{from_code(int(low), Fraction(1), column.type)}'"


def query_about(table: Table, *shown: str, groups: Sequence[str] = (), where: str = "") -> str:
    """Write a query over a table: its groups, and what is shown beside them."""
    written = [written_name(group) for group in groups]
    clauses = f" WHERE {where}" if where else ""
    clauses += f" GROUP BY {', '.join(written)}" if written else ""
    return f"SELECT {', '.join([*written, *shown])} FROM {written_name(table.name)}{clauses}"


def query_of_policy(policy: Policy) -> str:
    """Write a query over the first private table of a policy."""
    tables = [table for table in policy.tables.values() if not table.public]
    return query_about(tables[0], COUNT) if tables else "SHOW TABLES"


def parted(spans: Spans, where: Sequence[str], having: Sequence[str]) -> str:
    """Write the query with other conditions on its rows, and on its results.

    It is empty where the query has several lines.
    """

    def clause(word: TokenType) -> str:
        span = spans.clause(word)
        return "" if span is None else spans.source.snippet(span)

    clauses = [
        *map(clause, (TokenType.SELECT, TokenType.FROM)),
        f"WHERE {' AND '.join(where)}" if where else "",
        clause(TokenType.GROUP_BY),
        f"HAVING {' AND '.join(having)}" if having else "",
        *map(clause, (TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET)),
    ]
    query = " ".join(filter(None, clauses))
    return "" if "\n" in query else query


_BRACKET = re.compile(r"(?i)(?:\(|\b(?:AND|OR|NOT|WHERE|HAVING|QUALIFY))\s*\($")
"""A bracket that is opened around a condition, and not after a function's name."""
_CUT = (
    (r"\bAND\Z", ""),
    (r"\Z", r"\AAND\b"),
    (r"\bOR\Z", ""),
    (r"\Z", r"\AOR\b"),
    (r"\bFILTER\s*\(\s*WHERE\Z", r"\A\)"),
    (r"\b(?:WHERE|HAVING|QUALIFY)\Z", ""),
)
"""What goes with a condition: what stands before it, and what after it."""


def without_condition(source: Source, span: Span) -> str:
    """Write the query without a condition; where it is long, TRUE in the condition's place.

    >>> without_condition(Source("SELECT a FROM t WHERE b AND (1 > 2)"), Span(29, 34))
    'SELECT a FROM t WHERE b'
    """
    before, after = source.text[: span.start].rstrip(), source.text[span.end :].lstrip()
    while True:
        negated = re.search(r"(?i)\bNOT$", before)
        if negated is None and not (_BRACKET.search(before) and after.startswith(")")):
            break
        after = after if negated else after[1:].lstrip()
        before = before[: negated.start() if negated else -1].rstrip()
    for left, right in _CUT:
        first, last = (re.search(f"(?i){p}", t) for p, t in ((left, before), (right, after)))
        if first is not None and last is not None:
            before, after = before[: first.start()].rstrip(), after[last.end() :].lstrip()
            gap = "" if after[:1] in {"", ")", ","} else " "
            return shown(before + gap + after, "TRUE")
    return "TRUE"


# Offers that need a delta, for a budget that has none: they are left out.
#
# A refusal is made from the query and the policy's tables, before anybody looks at limits.
# What it offers is held against them here, because what stands after `try:` has to work.


_DELTA = re.compile(r"\bdelta\s*(?:=>|:=|=)\s*([\d.eE-]+)", re.IGNORECASE)


def within_delta(
    diagnostic: Diagnostic, most: Fraction, more: str, *, own: bool = False
) -> Diagnostic:
    """Return a refusal without offers of more delta than `most`.

    If none is left, `more` says how to have more; of one's own files, beside what is left too.
    """
    kept = [line for line in diagnostic.remedy if _needed(line) <= most]
    if len(kept) == len(diagnostic.remedy):
        return diagnostic
    if kept and own:
        dear = next(line for line in diagnostic.remedy if _needed(line) > most)
        said = f"or {dear.removeprefix('or ')}: with "
        kept.append(Worded(said + more, said + getattr(more, "own", more)))
    kept = kept or [more]
    return replace(diagnostic, remedy=(kept[0].removeprefix("or "), *kept[1:]))


_EPS = re.compile(r"\beps(?:ilon)?\s*(?:=>|:=|=)\s*['\"]?([\d.]+(?:e-?\d+)?)", re.IGNORECASE)
_SAMPLE_EPS = re.compile(r"\beps=0\.5(?![\d.e])")
_LONGEST = 2_000
"""In longer queries nobody looks for the option: the time would be its square."""


def with_own_price(found: Diagnostic, text: str) -> Diagnostic:
    """Return a refusal whose samples cost what the refused call states, where that is less."""
    if len(text) > _LONGEST:
        return found
    span, stated = found.span or Span(0, 0), [*_EPS.finditer(text)]
    own = min(stated, key=lambda one: _distance(text, span, one.start()), default=None)
    if own is None or own.start(1) - 1 <= span.start <= own.end(1):
        return found
    try:
        price = exact_number(own[1])
    except ValueError:
        return found
    if not 0 < price < _HALF:
        return found
    theirs = _SAMPLE_EPS.search(text) is not None  # in queries that repeat what was typed

    def priced(line: str) -> str:
        if _SAMPLE_EPS.search(line) is None or (theirs and "SELECT " in line):
            return line  # as it is: a line may be worded in two ways
        return _SAMPLE_EPS.sub(f"eps={own[1]}", line)

    return replace(found, remedy=tuple(map(priced, found.remedy)))


def _distance(text: str, span: Span, at: int) -> tuple[int, int]:
    """Return how many brackets are left from an option to a stretch, and how far it is."""
    before = at < span.start
    way, step = (text[at : span.start], 1) if before else (text[span.end : at][::-1], -1)
    depths = accumulate(step * ((c == "(") - (c == ")")) for c in way)
    return -min(depths, default=0), len(way)


def _needed(line: str) -> Fraction:
    """Return the largest delta that stands in a line; what is no number is refused anew."""
    found = [Fraction(0)]
    for text in _DELTA.findall(line):
        with suppress(ValueError):
            found.append(exact_number(text))
    return max(found)


MIDNIGHT = "2024-12-31 00:00:00"


def sample_literal(model: Expr, *, high: bool = False) -> str:
    """Write a literal of an expression's type: an end of its range, if that is short."""
    end = model.domain.high if high else model.domain.low
    low = end if isinstance(end, Fraction) and abs(end) < 10**9 else None
    match model.type.kind:
        case Kind.TEXT:
            return sample_text(model, at=-high)
        case Kind.BOOLEAN:
            return "TRUE"
        case Kind.DATE:
            return f"DATE '{date.fromordinal(EPOCH.toordinal() + int(low or 20_000))}'"
        case Kind.TIME:
            return f"TIME '{from_code(int(end or 0), Fraction(1), model.type)}'"
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ:
            known = end if isinstance(end, Fraction) and is_bounded(model) else None
            moment = from_code(int(known or 0), Fraction(1), model.type)
            word = model.type.kind.upper()
            return f"{word} '{moment if known is not None else MIDNIGHT}'"
        case _:
            return decimal_text(low or Fraction(0))


_MOST_LIKENED, _WORD = 1_000, 64
"""How many public values a text is likened to, and how long one is that is offered."""


def sample_text(model: Expr, text: str = "a", at: int = 0) -> str:
    """Write a text as a literal: if the values of an expression are public, one of these.

    Args:
        model: what the text is compared with.
        text: what is meant; the value that looks most like it is taken.
        at: which value is taken where none looks like it.
    """
    known = [value for value in values_of(model, facts_of()) or () if _is_plain(value)]
    if known and text not in known:
        near = nearest(text, known) if len(known) <= _MOST_LIKENED else None
        text = near or known[at % len(known)]
    return "'" + text.replace("'", "''") + "'"


def _is_plain(value: object) -> TypeGuard[str]:
    """Return whether a value is a text that fits into a line."""
    return isinstance(value, str) and value.isprintable() and len(value) <= _WORD


def taken_by(function: DPFunction) -> str:
    """Return what a function takes by position, in words."""
    if len(function.positional) == 1:
        return "one argument"
    count = len(function.expressions)
    arguments = ("an argument", "two arguments", "three arguments")[count - 1]
    others = [one.noun for one in function.positional if not isinstance(one, Expression)]
    return " and ".join([arguments, *others])


def counted(select: exp.Select, table: Table, spans: Spans) -> str:
    """Write a query with a count in place of its list; of the table, if it has more clauses."""
    otherwise, text = query_about(table, COUNT), spans.source.text
    slots = {slot for slot, clause in select.args.items() if clause}
    if select.parent is not None or slots - {"expressions", "from_", "joins", "where"}:
        return otherwise
    first, last = spans.of(select.expressions[0]), spans.of(select.expressions[-1])
    return shown(f"{text[: first.start]}{COUNT}{text[last.end :]}".strip(), otherwise)
