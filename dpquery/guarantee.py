"""What is promised to the people in the data, and what that comes to for several of them."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from dpquery.privacy import Loss, Neighbours

__all__ = ["Guarantee"]

UP, DOWN = Context(prec=50, rounding=ROUND_CEILING), Context(prec=50, rounding=ROUND_FLOOR)
"""An exponential is rounded to nearest in either: its neighbours enclose it."""
SHORT_UP = Context(prec=9, rounding=ROUND_CEILING)
"""What a group's delta is given with has nine digits."""
HOPELESS = 1000
"""Above, the exponential of an epsilon times any delta that means something is above 1."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Whose rows may differ between two databases, and how little an answer tells of it."""

    loss: Loss
    units: tuple[str, ...]
    """What each unit is called: a column of all of its rows, or "row"."""
    neighbours: Neighbours
    beside: bool = False
    """Whether it also tells bounds that an earlier charge had found."""

    def for_group(self, size: int) -> Loss:
        """Give the loss for so many units at once, rounded up.

        From database to database, one unit each: P(Y0) <= e^eps P(Y1) + delta, and so on. The
        epsilons add up, and each delta is multiplied by those before it.

        >>> from fractions import Fraction
        >>> Guarantee(Loss(Fraction(1, 2)), ("id",), Neighbours.ADD_REMOVE).for_group(3)
        Loss(epsilon=Fraction(3, 2), delta=Fraction(0, 1))

        Raises:
            ValueError: the size is no natural number above 0.
        """
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError("a group has a whole number of units, such as 3")
        epsilon, delta = size * self.loss.epsilon, self.loss.delta
        if not delta or size == 1:
            return Loss(epsilon, delta)
        if epsilon > HOPELESS:
            return Loss(epsilon, Fraction(1))
        return Loss(epsilon, _short_above(delta * self._added_up(size)))

    def _added_up(self, size: int) -> Fraction:
        """Give 1 + e^eps + ... + e^((size - 1) eps), or a little more."""
        epsilon = self.loss.epsilon
        if not epsilon:
            return Fraction(size)
        most = Fraction(UP.next_plus(UP.exp(_decimal(size * epsilon, UP)))) - 1
        return most / (Fraction(DOWN.next_minus(DOWN.exp(_decimal(epsilon, DOWN)))) - 1)

    def __str__(self) -> str:
        change = "replaced" if self.neighbours is Neighbours.SUBSTITUTE else "added or removed"
        beside = ", beside bounds that were found before" if self.beside else ""
        return f"loss {self.loss}, for one {' or '.join(self.units)} {change}{beside}"


def _decimal(number: Fraction, rounded: Context) -> Decimal:
    return rounded.divide(number.numerator, number.denominator)


def _short_above(number: Fraction) -> Fraction:
    return min(Fraction(1), Fraction(_decimal(number, SHORT_UP)))
