"""What functions share that choose among the public values of a column.

Sensitivity: a unit adds at most limit * scale to the weights of all values together, in all
groups together. Where it is added or removed, all weights move in one direction; so the
largest and the smallest change in each group are at most its weight there apart, and add up to
no more than that over the groups. Where it is replaced, what one value loses stands against
what another gains: twice as much, with groups or without.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from fractions import Fraction

from dpquery.errors import Diagnostic, PlanRefused
from dpquery.functions.base import Facts, Measured
from dpquery.functions.codes import code_of, example_values, from_code
from dpquery.ir import Call, Code, ColumnRef, Histogram, Scalar, Weight
from dpquery.privacy import Neighbours, decimal_text
from dpquery.types import BOOLEAN, Kind, Type, ordinal

__all__ = [
    "MOST_VALUES",
    "ValueCell",
    "cells_distance",
    "in_rows",
    "listed_code",
    "require_few",
    "require_room",
    "value_of",
    "weights_of",
]

MOST_VALUES = 1 << 14
"""More values than that are not chosen among."""
MOST_WEIGHTS = 1 << 22
"""Weights of all groups together."""


@dataclass(frozen=True, slots=True)
class ValueCell:
    """A released value; noise says nothing of how far in value it is from another."""

    value: object
    mechanism: str

    def interval(self, confidence: Fraction) -> None:
        """Give nothing: what was chosen is right or not, and the data alone know."""


def cells_distance(weight: Weight, neighbours: Neighbours) -> int:
    """Give how far apart the largest and smallest change of a weight are, over all groups."""
    return weight.total * (2 if neighbours is Neighbours.SUBSTITUTE else 1)


def listed_code(call: Call) -> Code:
    """Give the places of a column's public values.

    Raises:
        PlanRefused: DPQ402 they are not public, DPQ404 there are too many.
        NameRefused: DPQ205 the bounds asked for lie outside the column's.
    """
    argument = call.argument
    assert argument is not None  # noqa: S101 - the binder refuses a star here
    listed = call.listed or (argument.keys if isinstance(argument, ColumnRef) else None)
    if listed:
        keys = tuple(sorted(listed, key=_order))
        code = Code(argument, Fraction(1), 0, len(keys) - 1, values=keys)
    elif argument.type.kind is Kind.TEXT:
        raise _private(call)
    else:
        code = _bounded_code(call)
    require_few(call, code)
    return code


def _bounded_code(call: Call) -> Code:
    try:
        return code_of(call, origin_at_low=True)
    except PlanRefused as refusal:
        if refusal.code != "DPQ401":
            raise
    raise _private(call)


def _order(value: Scalar) -> int | Fraction | str | date:
    return value


def require_few(call: Call, code: Code) -> None:
    """Refuse what has too many values.

    Raises:
        PlanRefused: DPQ404.
    """
    if code.cells > MOST_VALUES:
        bounds = ", bounds='auto'" if call.options.auto else ""
        remedy = f"DP_MEDIAN({call.written}, eps=0.5{bounds})"
        if code.expr.type.kind is Kind.TEXT:
            remedy = _of_named(call, code.expr.type)
        raise PlanRefused(
            Diagnostic(
                "DPQ404",
                f"{call.function} chooses among {MOST_VALUES:,} values at most",
                call.argument.span if call.argument else call.span,
                f"{code.cells:,} values",
                ("each public value is weighed, whether or not a row has it.",),
                (remedy,),
            )
        )


def weights_of(exact: Measured, measure: Histogram, group: int) -> list[int]:
    """Ask for the weight of each value in one group."""
    weights = exact.histogram(measure, group, 0, measure.code.cells, 1)
    return [int(weight) for weight in weights.tolist()]


def value_of(code: Code, place: int) -> object:
    """Give the value at a place, in the type of the column."""
    type_ = code.expr.type
    if not code.values:
        return (
            bool(place)
            if type_ == BOOLEAN
            else from_code(place + code.origin, code.grid, type_)
        )
    value = code.values[place]
    if type_.kind in {Kind.TEXT, Kind.BOOLEAN}:
        return value
    number = ordinal(value) if isinstance(value, date) else Fraction(str(value))
    step = Fraction(1, 10**type_.scale)
    return from_code(int(number / step), step, type_)


def in_rows(weight: Weight, amount: Fraction | int) -> str:
    """Write an amount of weight as rows."""
    return f"{decimal_text(Fraction(amount, weight.scale), 4)} in rows"


def require_room(call: Call, facts: Facts, code: Code) -> None:
    """Refuse what would hold too many weights, over all groups together.

    Raises:
        PlanRefused: DPQ405.
    """
    most = MOST_WEIGHTS // code.cells
    if facts.cells > most:
        raise PlanRefused(
            Diagnostic(
                "DPQ405",
                f"{call.function} is answered for {most:,} groups at most",
                call.span,
                f"{facts.cells:,} groups",
                (f"each group weighs {code.cells:,} values.",),
                ("name fewer groups: WHERE a_column IN (1, 2)",),
            )
        )


def _private(call: Call) -> PlanRefused:
    argument = call.argument
    assert argument is not None  # noqa: S101 - the binder refuses a star here
    return PlanRefused(
        Diagnostic(
            "DPQ402",
            f"the values of {call.written} are not public",
            argument.span,
            "its values are private",
            (
                "one of the values is shown, and it could be one that a single person has,",
                "so it is chosen among values that are known before the data is read.",
            ),
            (
                *((_of_named(call, argument.type),) if call.condition is None else ()),
                f"or ask the data owner to state keys or bounds of {call.written} in the "
                "policy",
            ),
        )
    )


def _of_named(call: Call, type_: Type) -> str:
    """Write the call over rows whose values it names: two of them."""
    few = call.number is None or call.number <= 2
    asked = call.text if few else f"{call.function}({call.written}, 2, eps=0.5)"
    return f"{asked} FILTER (WHERE {call.written} IN ({example_values(type_)}))"
