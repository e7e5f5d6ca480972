"""What no mechanism can undercut: errors that some data force, whatever is drawn and how.

All of it is of pure epsilon where one unit may be added or removed, of the rows that count, at
`LEVEL`: let beta be what is missed. Nothing is said where a theorem does not fit.

Noise. Let the exact value be t D after t units of the largest size D are added, for all t >= 0
(the column reaches its bounds, and some row meets the conditions). Say a mechanism is within r
of each, but for beta. Write p(y) for the chance of being off by y, as a mean over t = 1 ... T:
p(y) <= exp(epsilon) p(y +- D), but for 1/T, since t and t +- 1 are neighbours, and T may be as
large as one likes. Look at values y that are multiples of D apart. M = floor(2 r / D) + 1 of
them are within r at most. Outside, on either side, there is at least exp(-j epsilon) times as
much as at the outermost of the M, for j = 1, 2, ...; inside, at most exp(j epsilon) times as
much j places from it. So beta / (1 - beta) is at least 1 / (exp(epsilon) - 1) over the sum of
exp(j epsilon) for j < M / 2, the middle one by half if M is odd. That bounds M from below, and
2 r / D >= M - 1. Discrete Laplace noise attains it for D = 1, so no mechanism counts better
(Ghosh, Roughgarden, Sundararajan 2009); noise in steps nearly does (Geng, Viswanath 2014).

Packing. Let some data have K others at a distance of u units each, and let no answer be right
for two of them. Each of these answers comes with probability (1 - beta) exp(-u epsilon) or more
on the first data, so K (1 - beta) exp(-u epsilon) <= 1. Of quantiles: rows at both ends, and u
units at one of the cells between, around the rank asked for; any other cell is off by half of
their rows, less one half. Of modes: u units at one of the values.

Three points, of a mean over n rows or more: n rows at the lower bound, and s or 2s units at the
upper one. If the means are more than 2 r apart, (1 - beta) (1 + 2 exp(-s epsilon)) <= 1, seen
from those in the middle.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

from dpquery.core.privacy_loss import decimal_text
from dpquery.core.types import BOOLEAN
from dpquery.ir.measures import Measure

LEVEL = Fraction(95, 100)
MISSED = float(1 - LEVEL)
SPARE = 1e-9
"""What rounding could add to a logarithm, and more: floors are rounded down."""
HUGE = 500
ROWS = 1000
"""Over which EXPLAIN states the error of a mean."""


def in_steps_of_noise(epsilon: Fraction) -> Fraction:
    """Return the least error of a value that moves by steps of 1, as often as LEVEL.

    >>> in_steps_of_noise(Fraction(1)), in_steps_of_noise(Fraction(1, 10))
    (Fraction(5, 2), Fraction(59, 2))
    """
    e, far = float(epsilon), -math.log(MISSED)
    middle = far - (math.log1p(math.expm1(e) / 2) if e < HUGE else e)
    even = 2 * math.ceil(far / e - SPARE)
    odd = 2 * max(0, math.ceil(middle / e - SPARE)) + 1
    return Fraction(min(even, odd) - 1, 2)


def packed(answers: int, epsilon: Fraction) -> int:
    """Return how many units cannot tell so many answers apart, as often as LEVEL.

    >>> packed(2, Fraction(1)), packed(1000, Fraction(1, 2))
    (0, 13)
    """
    if answers < 2:
        return 0
    return max(0, math.ceil(math.log(answers * (1 - MISSED)) / float(epsilon) - SPARE) - 1)


def of_mean(epsilon: Fraction, rows: int) -> Fraction:
    """Return the least error of a mean over ROWS, as a share of the bounds' distance.

    Args:
        epsilon: the loss.
        rows: how many rows of one unit count.
    """
    far = math.log(2 * (1 - MISSED) / MISSED)
    added = rows * max(0, math.ceil(far / float(epsilon) - SPARE) - 1)
    return Fraction(added * ROWS, 2 * (ROWS + added) * (ROWS + 2 * added))


class Floor(NamedTuple):
    """An error that no mechanism undercuts, and the one that is compared with it."""

    least: Fraction
    error: Fraction
    what: str = ""
    """Of what so many, where they are not in the unit of the answer."""
    added: float | None = None
    """What noise adds to the error of sampling ROWS, as a share."""

    def __str__(self) -> str:
        """Say both.

        >>> three = Fraction(3)
        >>> str(Floor(Fraction(5, 2), three)), str(Floor(three, three, "rows"))
        ('than ± 2.5; this is 1.2 times that', 'than 3 rows, which this is')
        """
        amount, times = _down(self.least), float(self.error / self.least)
        said = f"than {amount} {self.what}" if self.what else f"than ± {amount}"
        more = f"; this is {times:.{3 if times < 1.1 else 2}g} times that"
        said += ", which this is" if self.error == self.least else more
        if self.added is not None:
            said += f"; noise adds {100 * self.added:.2g} % to sampling"
        return said


def floor(
    least: Fraction, error: Fraction, what: str = "", beside: tuple[float, float] | None = None
) -> Floor | None:
    """Return the floor of an error; None where there is none above zero.

    Args:
        least: what no mechanism undercuts.
        error: what is compared with it.
        what: of what so many.
        beside: the deviations of noise and of sampling.
    """
    if least <= 0 or error < least:
        return None
    added = None if beside is None else math.hypot(1, beside[0] / beside[1]) - 1
    return Floor(least, error, what, added)


def floor_of_mean(
    epsilon: Fraction, measure: Measure, width: Fraction, error: Fraction, scale: Fraction
) -> Floor | None:
    """Return that of a mean, over ROWS.

    Args:
        epsilon: the loss.
        measure: the sum of the values.
        width: the distance between the bounds.
        error: how many rows of full size the noise of a sum is worth, as often as LEVEL.
        scale: how many its scale is worth.
    """
    spread = 4 if measure.factors[0].expr.type == BOOLEAN else 12
    beside = float(scale) / ROWS, math.sqrt(1 / (spread * ROWS))
    least = of_mean(epsilon, measure.weight.limit) * width
    return floor(least, error / ROWS * width, "", beside if measure.weight.plain else None)


def _down(amount: Fraction) -> str:
    """Write an amount with three digits, rounded down."""
    step = min(Fraction(10) ** (math.floor(math.log10(amount)) - 2), Fraction(1))
    return decimal_text(amount // step * step)
