"""Conditions that functions put together from a call's argument and its FILTER."""

from __future__ import annotations

from dpquery.ir import Expr, IsNull, Logic, Not

__all__ = ["both", "present"]


def present(argument: Expr | None) -> Expr | None:
    """Write `argument IS NOT NULL`; nothing for a star."""
    return None if argument is None else Not(argument.span, IsNull(argument.span, argument))


def both(first: Expr | None, second: Expr | None) -> Expr | None:
    """Write `first AND second`, leaving out what is not there."""
    if first is None or second is None:
        return first or second
    return Logic(first.span | second.span, True, (first, second))
