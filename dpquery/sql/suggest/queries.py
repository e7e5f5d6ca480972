"""Calls, conditions and queries that a refusal offers, about the table that was asked.

Everything here is made of the policy and the query, so that it can be pasted. It refuses
nothing and decides nothing: what is offered is bound again when it is typed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from dpquery.core.privacy import decimal_text, exact_number
from dpquery.core.types import Kind, Type
from dpquery.errors import Diagnostic
from dpquery.functions.base import BOUNDS, Argument, DPFunction
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


def sample_call(
    function: DPFunction, table: Table, share: str = "0.5", options: str = ""
) -> str:
    """Write a call of a function about a table: its first column that fits, bounded if any."""
    options = options or function.price
    if function.star:
        return f"{function.name}(*, {options})"
    columns = [c for c in table.columns.values() if c.name != table.unit]
    fitting = [c for c in columns if fits(function, c.type)]
    if function.argument is Argument.CONDITION and not fitting:
        return f"{function.name}({_any(table)} IS NOT NULL, {options})"
    if not fitting:
        return COUNT
    column = min(fitting, key=lambda column: column.bounds is None)
    loose = column.type if column.bounds is None else None
    return call_about(function, written_name(column.name), loose, share, options)


def _any(table: Table) -> str:
    return written_name(next(iter(table.columns)))


def call_about(
    function: DPFunction, written: str, loose: Type | None, share: str, options: str
) -> str:
    """Write a call; with bounds, where they are needed and neither policy nor call has any."""
    parts = [written, share] if function.order else [written]
    if function.number is not None:
        parts.append(str(function.number.example))
    if loose is not None and BOUNDS in function.parameters and "bounds" not in options:
        options += f", {example_bounds(loose)}"
    return f"{function.name}({', '.join([*parts, options])})"


def fits(function: DPFunction, type_: Type) -> bool:
    """Return whether a function can be asked about values of a type."""
    match function.argument:
        case Argument.VALUE:
            return True
        case Argument.NUMBER:
            return type_.numeric
        case Argument.ORDERED:
            return type_.numeric or type_.kind in {Kind.DATE, Kind.TIMESTAMP}
        case Argument.CONDITION:
            return type_.kind is Kind.BOOLEAN
        case Argument.LISTED:
            return type_.kind not in {Kind.DOUBLE, Kind.TIMESTAMP}
        case Argument.DISCRETE:
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
