"""DP_COUNT and DP_COUNT_IF: how many rows, how many with a value, how many units.

Sensitivity: a unit's rows have a total weight of at most limit * scale (`sensitivity.py`), and
each row is counted with its weight or not at all, so adding, removing or replacing one unit
moves the weighted count by at most that much; units are counted once, or spread over the
groups they are in.
"""

from __future__ import annotations

from fractions import Fraction

from dpquery.functions.base import COMMON, Argument, DPFunction, Facts
from dpquery.functions.conditions import both, present
from dpquery.functions.noise import COUNTING, AdditiveRelease, additive
from dpquery.ir import Call, CountRows, CountUnits, Weight
from dpquery.types import INTEGER

__all__ = ["COUNT", "COUNT_IF"]


def _count(call: Call, facts: Facts) -> AdditiveRelease:
    if call.distinct:
        return _units(call, facts)
    weight = facts.weight(call)
    measure = CountRows(weight, both(present(call.argument), call.condition))
    return additive(call, facts, measure, Fraction(1, weight.scale), INTEGER)


def _units(call: Call, facts: Facts) -> AdditiveRelease:
    """Count units: each once without groups, in at most `limit` groups' worth with them."""
    weight = Weight(1, 1)
    if facts.grouped and facts.weighted:
        weight = Weight(min(facts.limit(call), facts.cells), facts.weight(call).scale)
    measure = CountUnits(weight, call.condition)
    return additive(call, facts, measure, Fraction(1, weight.scale), INTEGER)


def _count_if(call: Call, facts: Facts) -> AdditiveRelease:
    weight = facts.weight(call)
    measure = CountRows(weight, both(call.argument, call.condition))
    return additive(call, facts, measure, Fraction(1, weight.scale), INTEGER)


COUNT = DPFunction(
    name="DP_COUNT",
    summary="The number of rows, of rows where the argument is not NULL, or of units.",
    star=True,
    distinct=True,
    parameters=COMMON,
    mechanisms=COUNTING,
    plan=_count,
    example="SELECT DP_COUNT(*, eps=0.5) AS n FROM staff WHERE age >= 40",
)

COUNT_IF = DPFunction(
    name="DP_COUNT_IF",
    summary="The number of rows for which a condition is true.",
    star=False,
    argument=Argument.CONDITION,
    parameters=COMMON,
    mechanisms=COUNTING,
    plan=_count_if,
    aliases=("DP_COUNTIF",),
    example="SELECT DP_COUNT_IF(age >= 40, eps=0.5) AS n FROM staff",
)
