"""An answer at a large epsilon beside DuckDB's own."""

from __future__ import annotations

import math
from decimal import Decimal

import sqlglot

from tests.corpus.benchmarks.questions import Question

DIFFERENCES = {
    "alone": "groups of one person are not found",
    "none": "no group is found, as each is one person's",
    "noise": "noise of several groups is added up",
    "ties": "which rows of equal rank are shown is open",
    "few": "LIMIT shows groups that nobody is in, too",
}
"""What an answer may differ in, by name; every other difference is a fault."""

Rows = list[tuple]
_NUMBERS = int | float | Decimal


def require_same(
    question: Question, ours: Rows, theirs: Rows, possible: Rows | None, found: Rows | None
) -> None:
    """Raise unless both have the same rows, in the same order where the question states one.

    Keys of groups stand first: of all that are `possible` where empty ones are shown, and of
    those that are `found` where others are not.
    """
    assert set(question.differs) <= set(DIFFERENCES)
    assert (found is None) == {"alone", "none"}.isdisjoint(question.differs)
    assert (found == []) == ("none" in question.differs)
    if found is not None:
        theirs = _of_groups(theirs, found)
    if possible is not None:
        assert ours == _of_groups(ours, possible), "a group that cannot exist"
        ours = _of_groups(ours, _keys(theirs, possible))
        theirs = theirs[: len(ours)] if "few" in question.differs else theirs
    if sqlglot.parse_one(question.sql, dialect="duckdb").args.get("order") is None:
        ours, theirs = (sorted(rows, key=_sortable) for rows in (ours, theirs))
    assert len(ours) == len(theirs)
    within = 1e-4 if "noise" in question.differs else 1e-6
    for mine, exact in zip(ours, theirs, strict=True):
        assert alike(mine, exact, "ties" in question.differs, within), (mine, exact)


def _of_groups(rows: Rows, groups: Rows) -> Rows:
    """Return the rows of some groups."""
    return [row for row in rows if row[: len(groups[0])] in groups] if groups else []


def _keys(rows: Rows, groups: Rows) -> Rows:
    return [row[: len(groups[0])] for row in rows] if groups else []


def _sortable(row: tuple) -> list[str]:
    return [str(value) for value in row]


def alike(ours: tuple, theirs: tuple, ties: bool = False, within: float = 1e-6) -> bool:
    """Say whether two rows have the same values; of ties, the same numbers."""
    return len(ours) == len(theirs) and all(
        _same(one, other, within) or (ties and not isinstance(other, _NUMBERS))
        for one, other in zip(ours, theirs, strict=True)
    )


def _same(ours: object, theirs: object, within: float) -> bool:
    if isinstance(ours, _NUMBERS) and isinstance(theirs, _NUMBERS):
        if isinstance(ours, int) and isinstance(theirs, int):
            return ours == theirs
        return math.isclose(float(ours), float(theirs), rel_tol=within, abs_tol=0.005)
    return ours == theirs
