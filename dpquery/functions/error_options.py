"""Calls that ask for an error, in place of an epsilon: their options, and the law of a mean."""

from __future__ import annotations

from dpquery.functions.base import Parameter
from dpquery.mechanisms.laplace import Beyond

ERROR = Parameter(
    "error",
    "in place of eps: how far noise may take the answer, as in error=5; the least eps that "
    "keeps to it is found",
)
RANK_ERROR = Parameter(
    "rank_error",
    "in place of eps: how many rows the rank may be off, as in rank_error=20; the least eps "
    "that is proven to keep to it on any data is found",
)
CONFIDENCE = Parameter(
    "confidence",
    "how often an error is kept to: confidence=0.95 unless the call says otherwise",
)
OVER = Parameter(
    "over", "the rows that an error is for, or more, as in over=1000: their number is private"
)
ERRORS = (ERROR, RANK_ERROR)
"""What asks for an error, in the order of the functions that take it."""


def missed_by_mean(share: float, whole: float, damping: float, beyond: Beyond) -> float:
    """Bound the chance at the worst mean: at a bound, or where both sides are in reach.

    With noises a, b on the sums of a mean m, from 0 to 1, the value is above m + e where (1
    - m - e) a - (m + e) b is above e (whole + 2 damping) - (1 - 2 m) damping, or where a is
    cut and b takes nearly all of its sum away. Below m - e it is likewise, and never where
    m is below e. Towards the middle the noises even out and the damping pulls less.

    Args:
        share: how far, in widths between the bounds.
        whole: what all the rows add to the sums together.
        damping: what is added to each sum.
        beyond: how often noises, by coefficients, add up to more than so much.
    """
    if not 0 < share < 1:  # none that a float can tell from zero, or all
        return float(not share)
    room = share * (whole + 2 * damping)

    def above(mean: float) -> float:
        top, pull = mean + share, (1 - 2 * mean) * damping
        left = (1 - mean) * whole - (1 / top - 2) * damping
        cut = beyond((1,), mean * whole) * beyond((1,), left) if 2 * top < 1 else 0.0
        return beyond((1 - top, top), room - pull) + cut

    def below(mean: float) -> float:
        return beyond((1 - mean + share, mean - share), room + (1 - 2 * mean) * damping)

    both = above(share) + below(share) if 2 * share < 1 else 0.0
    return max(above(0.0), both)
