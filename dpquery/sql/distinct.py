"""DISTINCT inside a DP_ call: units, or the different values of one expression."""

from __future__ import annotations

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, PlanRefused
from dpquery.functions.base import DPFunction
from dpquery.sql.conditions import Conditions
from dpquery.sql.literals import unwrapped
from dpquery.sql.names import written_name

__all__ = ["counts_units", "is_distinct"]


def is_distinct(function: DPFunction, first: exp.Expr, rows: Conditions) -> bool:
    """Read DISTINCT before what is counted: the unit column, or one other expression.

    Raises:
        PlanRefused: DPQ404 it stands before something else.
    """
    if not isinstance(first, exp.Distinct):
        return False
    counted = [part for part in first.expressions if part and type(part) is not exp.Star]
    if function.distinct and len(counted) == 1:
        return True
    first_column = written_name(next(iter(rows.scope.table.columns)))
    written = rows.spans.text(counted[0]) if counted else first_column
    raise PlanRefused(
        Diagnostic(
            "DPQ404",
            "DISTINCT is answered by DP_COUNT, of one expression",
            rows.spans.of(first),
            "not of this",
            ("what is left after it has no bound that the noise could be scaled to.",),
            (f"DP_COUNT(DISTINCT {written}, eps=0.5)",),
        )
    )


def counts_units(counted: exp.Expr, rows: Conditions) -> bool:
    """Say whether the privacy units are what is counted."""
    inner = unwrapped(counted)
    if isinstance(inner, exp.Column):
        rows.scope.check_qualifier(inner, rows.spans.of(inner))
    return rows.scope.owns(inner)
