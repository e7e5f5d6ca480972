"""How large an expression is when it is written out for the engine, with what it repeats.

A tree may hold one operand several times, and so may the engine's text; nested, both double at
each level. Sizes are added up as operands are bound: nothing grows before it is refused.
"""

from __future__ import annotations

from typing import NamedTuple

from dpquery import rowfunctions
from dpquery.core.types import MOMENTS, Kind
from dpquery.ir.expr import Apply, Arithmetic, Expr, Negate, children
from dpquery.sql.parse.spans import repeated

MAX_SIZE = 20_000


class Sizes:
    """The sizes of the expressions of one statement that have been bound."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[_Size, Expr]] = {}

    def check(self, expr: Expr, times: int = 1) -> Expr:
        """Note the size of an expression that stands so many times."""
        if self._of(expr).value * times > MAX_SIZE:
            raise repeated(expr.span, "functions inside one another")
        return expr

    def _of(self, expr: Expr) -> _Size:
        known = self._known.get(id(expr))
        if known is None:
            size = _size(expr, [self._of(child) for child in children(expr)])
            self._known[id(expr)] = known = size, expr  # held, so that its number stays its own
        return known[0]


class _Size(NamedTuple):
    """How many operands a text holds: as a value, and as a double where NaN may be NULL."""

    value: int
    number: int


def _size(expr: Expr, inner: list[_Size]) -> _Size:
    values = 1 + sum(size.value for size in inner)
    numbers = 1 + sum(size.number for size in inner)
    match expr:
        case Arithmetic() | Negate() if expr.type.kind is Kind.DOUBLE:
            return _Size(2 * numbers, numbers)
        case Apply(function=name, arguments=arguments):
            function = rowfunctions.named(name)
            far = any(a.type.kind in MOMENTS and not a.domain.bounded for a in arguments)
            size = function.repeats * (3 if far else 1)
            if function.repeated is not None:
                size = function.repeated(expr)
            if function.keeps_nan and expr.type.kind is Kind.DOUBLE:
                return _Size(2 * size * numbers, size * numbers)
            size *= values
            return _Size(2 * size, size) if function.makes_nan else _Size(size, size)
    return _Size(values, values)
