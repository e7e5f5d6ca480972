"""An answer at a large epsilon beside DuckDB's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import sqlglot

DIFFERENCES = {
    "ties": "which rows of equal rank are shown is open",
    "few": "LIMIT shows groups that nobody is in, too",
}
"""What an answer may differ in, by name; every other difference is a fault."""

Row = Sequence[object]
_NUMBERS = int | float | Decimal


def require_same(
    ours: list[tuple],
    theirs: list[tuple],
    sql: str,
    possible: list[tuple] | None,
    differs: Sequence[str],
) -> None:
    """Raise unless both have the same rows, in the same order where the question states one.

    Where groups that nobody is in are shown, `possible` has the keys of all, which stand first.
    """
    assert set(differs) <= set(DIFFERENCES)
    if possible is not None:
        ours = _with_rows(ours, theirs, possible)
        if "few" in differs:
            theirs = theirs[: len(ours)]
    if sqlglot.parse_one(sql, dialect="duckdb").args.get("order") is None:
        ours, theirs = (sorted(rows, key=_sortable) for rows in (ours, theirs))
    assert len(ours) == len(theirs)
    for mine, exact in zip(ours, theirs, strict=True):
        assert alike(mine, exact, "ties" in differs), (mine, exact)


def _with_rows(ours: list[tuple], theirs: list[tuple], possible: list[tuple]) -> list[tuple]:
    """Return our rows without those of empty groups; each has to be possible."""
    assert possible, "no group can exist"
    keys = len(possible[0])
    assert {row[:keys] for row in ours} <= set(possible)
    occurring = {row[:keys] for row in theirs}
    return [row for row in ours if row[:keys] in occurring]


def _sortable(row: Row) -> list[tuple[str, object]]:
    return [("", 0) if value is None else (str(value), 0) for value in row]


def alike(ours: Row, theirs: Row, ties: bool = False) -> bool:
    """Say whether two rows have the same values; of ties, the same numbers."""
    return len(ours) == len(theirs) and all(
        _same(one, other) or (ties and not isinstance(other, _NUMBERS))
        for one, other in zip(ours, theirs, strict=True)
    )


def _same(ours: object, theirs: object) -> bool:
    if isinstance(ours, _NUMBERS) and isinstance(theirs, _NUMBERS):
        if isinstance(ours, int) and isinstance(theirs, int):
            return ours == theirs
        return math.isclose(float(ours), float(theirs), rel_tol=1e-6, abs_tol=0.005)
    return ours == theirs
