"""How large an expression is when it is written out for the engine, with what it repeats.

A tree may hold one part in several places, and the engine's text may hold one operand several
times; nested, both double at each level. Sizes are added up as parts are bound, so that nothing
grows before it is refused.
"""

from __future__ import annotations

from typing import NamedTuple

from dpquery.errors import Diagnostic, SyntaxRefused
from dpquery.ir import Apply, Arithmetic, Expr, Negate, children
from dpquery.rowfunctions import named
from dpquery.types import Kind

__all__ = ["Sizes"]

MAX_SIZE = 20_000
_MOMENTS = frozenset({Kind.DATE, Kind.TIMESTAMP})


class Sizes:
    """The sizes of the parts of one statement that have been bound."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[_Size, Expr]] = {}

    def check(self, expr: Expr) -> Expr:
        """Note the size of an expression.

        Raises:
            SyntaxRefused: DPQ105 it is too large.
        """
        if self._of(expr).value > MAX_SIZE:
            raise SyntaxRefused(
                Diagnostic(
                    "DPQ105",
                    "this expression grows too large",
                    expr.span,
                    "written out in full, its parts repeat too often",
                    ("expressions that repeat their parts double with each level.",),
                    ("compute with fewer levels of functions inside one another",),
                )
            )
        return expr

    def _of(self, expr: Expr) -> _Size:
        known = self._known.get(id(expr))
        if known is None:
            size = _size(expr, [self._of(child) for child in children(expr)])
            self._known[id(expr)] = known = (
                size,
                expr,
            )  # held, so that its number stays its own
        return known[0]


class _Size(NamedTuple):
    """How often parts stand in a text: as a value, and as a double where NaN may be NULL."""

    value: int
    number: int


def _size(expr: Expr, parts: list[_Size]) -> _Size:
    values, numbers = (
        (1 + sum(sizes) for sizes in zip(*parts, strict=True)) if parts else (1, 1)
    )
    match expr:
        case Arithmetic() | Negate() if expr.type.kind is Kind.DOUBLE:
            return _Size(2 * numbers, numbers)
        case Apply(function=name, arguments=arguments):
            function = named(name)
            far = any(a.type.kind in _MOMENTS and not a.domain.bounded for a in arguments)
            size = function.repeats * (3 if far else 1)
            if function.keeps_nan and expr.type.kind is Kind.DOUBLE:
                return _Size(2 * size * numbers, size * numbers)
            size *= values
            return _Size(2 * size, size) if function.makes_nan else _Size(size, size)
    return _Size(values, values)
