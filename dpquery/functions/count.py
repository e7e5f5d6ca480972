"""DP_COUNT and DP_COUNT_IF: how many rows, with a value or not, different values, or units.

Sensitivity: a unit's rows have a total weight of at most limit * scale (`sensitivity.py`), and
each row is counted with its weight or not at all, so adding, removing or replacing one unit
moves the weighted count by at most that much; units are counted once, or spread over the
groups they are in. Of different values, a unit shows at most `limit`, all groups together.
"""

from __future__ import annotations

from fractions import Fraction

from dpquery.functions.base import COMMON, Argument, DPFunction, Facts
from dpquery.functions.conditions import both, present
from dpquery.functions.noise import COUNTING, AdditiveRelease, additive
from dpquery.functions.totals import (
    PER_GROUP,
    refuse_group_bounds,
    refuse_groups,
    totals_of,
)
from dpquery.ir import Call, CountRows, CountUnits, CountValues, Expr
from dpquery.types import INTEGER

__all__ = ["COUNT", "COUNT_IF"]


def _count(call: Call, facts: Facts) -> AdditiveRelease:
    if call.distinct:
        return _units(call, facts) if call.argument is None else _values(call, facts)
    return _rows(call, facts, both(present(call.argument), call.condition))


def _count_if(call: Call, facts: Facts) -> AdditiveRelease:
    return _rows(call, facts, both(call.argument, call.condition))


def _rows(call: Call, facts: Facts, condition: Expr | None) -> AdditiveRelease:
    """Count rows, each with its weight, or what each unit has of them in each of its groups."""
    totals = totals_of(call, facts, None, condition)
    measure = totals or CountRows(facts.weight(call), condition)
    return additive(call, facts, measure, Fraction(1, measure.weight.scale), INTEGER)


def _units(call: Call, facts: Facts) -> AdditiveRelease:
    """Count units: each once without groups, in at most `limit` groups' worth with them."""
    refuse_group_bounds(call)
    measure = CountUnits(facts.spread(call), call.condition)
    return additive(call, facts, measure, Fraction(1, measure.weight.scale), INTEGER)


def _values(call: Call, facts: Facts) -> AdditiveRelease:
    """Count different values: a unit shows as many of its own as rows of it count."""
    refuse_groups(call)
    assert call.argument is not None  # noqa: S101 - otherwise units are counted
    measure = CountValues(facts.shown(call), call.argument, call.condition)
    return additive(call, facts, measure, Fraction(1), INTEGER)


COUNT = DPFunction(
    name="DP_COUNT",
    summary="The number of rows, of rows with a value, of different values, or of units.",
    star=True,
    distinct=True,
    parameters=(*COMMON, *PER_GROUP),
    mechanisms=COUNTING,
    plan=_count,
    example="SELECT DP_COUNT(*, eps=0.5) AS n FROM staff WHERE age >= 40",
)

COUNT_IF = DPFunction(
    name="DP_COUNT_IF",
    summary="The number of rows for which a condition is true.",
    star=False,
    argument=Argument.CONDITION,
    parameters=(*COMMON, *PER_GROUP),
    mechanisms=COUNTING,
    plan=_count_if,
    aliases=("DP_COUNTIF",),
    example="SELECT DP_COUNT_IF(age >= 40, eps=0.5) AS n FROM staff",
)
