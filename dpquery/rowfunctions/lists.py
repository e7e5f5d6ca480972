"""Functions of lists that a file holds, of which the first values count."""

from __future__ import annotations

from fractions import Fraction

from dpquery.core.types import Interval, Kind
from dpquery.rowfunctions.base import ANY, TO_BOOLEAN, TO_INTEGER, Parameter, RowFunction

MOST_VALUES = 64
"""Values of a list that count, as of one that rows are made of."""
_LISTS = Parameter("a list", frozenset(Kind))
_LENGTHS = Interval(Fraction(0), Fraction(MOST_VALUES))

FUNCTIONS = (
    RowFunction(
        name="LIST_CONTAINS",
        aliases=("LIST_HAS", "ARRAY_CONTAINS", "ARRAY_HAS"),
        summary=f"Whether a value is among the first {MOST_VALUES} of a list",
        example="LIST_CONTAINS(tags, 'a')",
        parameters=(_LISTS, ANY),
        result=TO_BOOLEAN,
        check=lambda given: None if given[0].type.listed else "it asks a column of lists",
        meaning=lambda _, values, value: value in [one for one in values if one is not None],
    ),
    RowFunction(
        name="LIST_LENGTH",
        summary=f"How many values a list has, {MOST_VALUES} at most",
        example="LEN(tags)",
        parameters=(_LISTS,),
        written=False,
        result=TO_INTEGER,
        meaning=lambda _, values: len(values),
        written_as=lambda _, text: f"len({text})",
        calls=("len",),
        range=lambda _, __: _LENGTHS,
        limits=_LENGTHS,
        dense=True,
    ),
)
