"""How many rows a relation above the frontier can have: public before anything is released.

Released tables have a row for each group, and public ones are known, so that what joins and
unions make of them is refused by its size, before it is charged: later it could only fail.
"""

from __future__ import annotations

from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, PlanRefused
from dpquery.source import Span
from dpquery.sql.conditions import conjuncts
from dpquery.sql.literals import unwrapped
from dpquery.sql.names import fold

__all__ = [
    "MOST_CHARACTERS",
    "MOST_HIDDEN",
    "MOST_ROWS",
    "MOST_SHOWN",
    "equalities",
    "joined_rows",
    "refuse_characters",
    "require_rows",
    "rows_within",
]

MOST_ROWS = 10_000_000
MOST_SHOWN = 1_000_000
"""Rows of an answer: as many as there can be groups."""
MOST_CHARACTERS = 2**28
"""Of all texts that a statement makes of others, in all rows; each can take four bytes."""
MOST_HIDDEN = 32
"""Row numbers that a relation gives of releases; with more, its columns show none unchanged."""


_WHY = (
    "what is computed from released and public rows has to end in time, because",
    "it cannot be asked again without being charged again.",
)


def equalities(condition: exp.Expr | None) -> int:
    """Return how many parts of a condition equate a column of one relation with another's."""
    return sum(_equates(unwrapped(part)) for part in conjuncts(condition))


def _equates(node: exp.Expr) -> bool:
    if not isinstance(node, exp.EQ | exp.NullSafeEQ):
        return False
    sides = [unwrapped(node.this), unwrapped(node.expression)]
    tables = [{fold(c.table) for c in side.find_all(exp.Column)} for side in sides]
    return bool(tables[0]) and bool(tables[1]) and tables[0] != tables[1]


def joined_rows(left: int, right: int, *, equated: bool, full: bool) -> int:
    """Return about how many rows a join has.

    Each row is taken to meet one where values are equated, as on a key; where a value is in
    many rows of both sides there are more, and time and memory have limits too.
    """
    if equated:
        return left + right if full else max(left, right)
    return max(left * right, left, right)


def rows_within(rows: int, limit: exp.Limit | None) -> int:
    """Return how many rows are left where LIMIT cuts them: it has been read before."""
    return rows if limit is None else min(rows, int(str(limit.expression.this)))


def require_rows(rows: int, limit: int, span: Span, remedy: str = "") -> int:
    """Return a number of rows, if it is not too large.

    Args:
        rows: how many there are.
        limit: how many there may be.
        span: what has them.
        remedy: what makes them fewer, if that is known.

    Raises:
        PlanRefused: DPQ409.
    """
    if rows > limit:
        _refuse(rows, limit, span, remedy)
    return rows


def refuse_characters(characters: int, span: Span) -> NoReturn:
    """Refuse texts and lists that are too long, all of them together."""
    raise PlanRefused(
        Diagnostic(
            "DPQ409",
            f"texts of up to {characters:,} characters would be made",
            span,
            f"with those before, more than {MOST_CHARACTERS:,} in all rows",
            _WHY,
            ("cut them first, LEFT(text, 20), or put them together outside",),
        )
    )


def _refuse(rows: int, limit: int, span: Span, remedy: str) -> NoReturn:
    other = "join fewer relations, or make their rows fewer by GROUP BY or LIMIT before"
    raise PlanRefused(
        Diagnostic(
            "DPQ409",
            f"this can have {rows:,} rows",
            span,
            f"more than {limit:,}",
            _WHY,
            tuple(filter(None, [remedy, other])),
        )
    )
