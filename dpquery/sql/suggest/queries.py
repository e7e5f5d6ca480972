"""Calls, conditions and queries that a refusal offers, about the table that was asked.

Everything here is made of the policy and the query, so that it can be pasted. It refuses
nothing and decides nothing: what is offered is bound again when it is typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction

from dpquery.core.privacy import decimal_text, exact_number
from dpquery.core.types import Kind, Type
from dpquery.errors import Diagnostic
from dpquery.functions.base import BOUNDS, DPFunction, Expression, Share, Takes
from dpquery.functions.quantize import example_bounds, from_code
from dpquery.ir.expr import Expr
from dpquery.policy.model import Column, Policy, Table
from dpquery.rowfunctions.ranges import implied
from dpquery.sql.bind.scope import written_name

COUNT = "DP_COUNT(*, eps=0.5)"

_OFFERED = {
    Kind.BOOLEAN: "DP_PROPORTION",
    Kind.DATE: "DP_MEDIAN",
    Kind.TIMESTAMP: "DP_MEDIAN",
}
"""What can be asked about values that are no numbers; of others, how many there are."""


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
    options = options or function.price
    if function.first.star:
        return f"{function.name}(*, {options})"
    fitting = _fitting(function.first, table)
    if function.first.takes is Takes.CONDITION and not fitting:
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
            parts.append(next(texts, None) or _sample(function, number, table, given))
        else:
            parts.append(share or one.example if isinstance(one, Share) else one.example)
    if loose is not None and BOUNDS in function.parameters and "bounds" not in options:
        options += f", {example_bounds(loose)}"
    return f"{function.name}({', '.join([*parts, options])})"


def _sample(function: DPFunction, number: int, table: Table, given: Sequence[str]) -> str:
    """Write a column for an expression of a call, another one than those given if it can be."""
    fitting = _fitting(function.expressions[number], table)
    if not fitting:
        return _any(table)
    fitting = [c for c in fitting if written_name(c.name) not in given] or fitting
    number -= len(given)
    column = fitting[number % len(fitting)]
    return between(function, written_name(column.name), column.bounds is None)


def between(function: DPFunction, written: str, loose: bool) -> str:
    """Write an expression cut to a range, where none is said and no option could say it."""
    cut = loose and len(function.expressions) > 1
    return f"LEAST(GREATEST({written}, 0), 1000)" if cut else written


def fits(takes: Takes, type_: Type) -> bool:
    """Return whether a function can be asked about values of a type."""
    match takes:
        case Takes.VALUE:
            return True
        case Takes.NUMBER:
            return type_.numeric
        case Takes.ORDERED:
            return type_.numeric or type_.kind in {Kind.DATE, Kind.TIMESTAMP}
        case Takes.CONDITION:
            return type_.kind is Kind.BOOLEAN
        case Takes.LISTED:
            return type_.kind not in {Kind.DOUBLE, Kind.TIMESTAMP}
        case Takes.DISCRETE:
            return type_.kind is not Kind.DOUBLE


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


# Refusals for who asks files of their own: there is no policy, and no owner but them.
#
# What they would ask somebody else for is an option of the command line, or of `connect`.


_ASK = "ask the data owner "
_OPTIONS = (
    (
        r"to add bounds for (\w+) to the policy",
        r"--bounds \1=0:1000 for the whole session, in Python bounds={'\1': (0, 1000)}",
    ),
    (r"(?:to add|for) bounds.*", "--bounds COLUMN=LOW:HIGH for the whole session"),
    (r"to raise the \w+'s (epsilon|delta)", r"\1"),
)
_RAISED = {
    "delta": "--delta 1e-6 when the file is opened, in Python delta=1e-6",
    "epsilon": "a larger --epsilon when the file is opened, in Python epsilon=",
}
_WORDS = {
    "not in the policy": "not in the file",
    "no bounds in the query or the policy": "no bounds in the query or the options",
    "columns that the policy does not list do not exist for queries.": (
        "columns are those of the file whose types have a meaning here."
    ),
}


def for_own_files(diagnostic: Diagnostic) -> Diagnostic:
    """Return a refusal in the words of one's own files."""
    return replace(
        diagnostic,
        label=_WORDS.get(diagnostic.label, diagnostic.label),
        why=tuple(_own(line) for line in diagnostic.why),
        remedy=tuple(_remedies(diagnostic.remedy)),
    )


def _own(line: str) -> str:
    return _WORDS.get(line, line).replace("the policy's ", "the session's ")


def _remedies(lines: tuple[str, ...]) -> Iterator[str]:
    for line in lines:
        before, asked, what = line.partition(_ASK)
        if not asked or (before and not before.endswith("or ")):
            yield line
            continue
        option = _option(what)
        if option is not None:
            yield before + option
        elif len(lines) == 1:
            yield "name the groups of a column in WHERE, as in IN ('a', 'b')"


def _option(what: str) -> str | None:
    for pattern, option in _OPTIONS:
        found = re.fullmatch(pattern, what)
        if found is not None:
            said = found.expand(option)
            return _RAISED.get(said, said)
    return None


# Offers that need a delta, for a budget that has none: they are left out.
#
# A refusal is made from the query and the policy's tables, before anybody looks at limits.
# What it offers is held against them here, because what stands after `try:` has to work.


_DELTA = re.compile(r"\bdelta\s*(?:=>|:=|=)\s*([\d.eE-]+)", re.IGNORECASE)


def within_delta(diagnostic: Diagnostic, most: Fraction, otherwise: str) -> Diagnostic:
    """Return a refusal without offers of more delta than there can be.

    Args:
        diagnostic: the refusal.
        most: what the deltas of all releases may add up to.
        otherwise: what is offered where nothing else is left.
    """
    kept = [line for line in diagnostic.remedy if _needed(line) <= most]
    if len(kept) == len(diagnostic.remedy):
        return diagnostic
    kept = kept or [otherwise]
    return replace(diagnostic, remedy=(kept[0].removeprefix("or "), *kept[1:]))


def _needed(line: str) -> Fraction:
    """Return the largest delta that stands in a line; what is no number is refused anew."""
    found = [Fraction(0)]
    for text in _DELTA.findall(line):
        try:
            found.append(exact_number(text))
        except ValueError:
            continue
    return max(found)
