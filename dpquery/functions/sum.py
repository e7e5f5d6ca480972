"""DP_SUM: the sum of values clamped to their bounds, exact on their grid before the noise.

Sensitivity: a unit's weights add up to at most limit * scale and each code is at most `size`
in size, so the sum moves by no more than the product. A sum of doubles would depend on the
order of rows; a sum of codes does not.
"""

from __future__ import annotations

from dpquery.functions.base import BOUNDS, COMMON, Argument, DPFunction, Facts
from dpquery.functions.codes import code_of, number_type
from dpquery.functions.noise import COUNTING, AdditiveRelease, additive
from dpquery.ir import Call, SumCodes

__all__ = ["SUM"]


def _plan(call: Call, facts: Facts) -> AdditiveRelease:
    code = code_of(call, origin_at_low=False)
    weight = facts.weight(call, code.size)
    measure = SumCodes(weight, code, 1, call.condition)
    return additive(call, facts, measure, code.grid / weight.scale, number_type(code.expr))


SUM = DPFunction(
    name="DP_SUM",
    summary="The sum of the argument, clamped to its bounds.",
    star=False,
    argument=Argument.NUMBER,
    parameters=(*COMMON, BOUNDS),
    mechanisms=COUNTING,
    plan=_plan,
    example="SELECT DP_SUM(salary, eps=0.5) AS pay FROM staff",
)
