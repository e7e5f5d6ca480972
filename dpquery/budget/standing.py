"""How a limit stands: what counts against it, what is left, and what it still admits.

A charge is admitted if, with it, all epsilons add up to the limit's epsilon or less, *or* all
rho to the limit's rho. Both sums only grow, so that what keeps one of them always kept it:
every path of questions ends within a filter that alone is sound, and the two share no delta.

* Where epsilons keep the limit, no answer's odds change by more, but for what the deltas of
  releases allow; that bad luck is counted in `drawn`, whichever sum keeps the limit.
* Where rho does, the odds change by more with probability `converted` at most.

So the whole is (epsilon, drawn + converted)-private, and so it is for questions that follow
from answers. Stating the smaller of two converted losses instead, path by path, is not.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_DOWN, Context
from fractions import Fraction

from dpquery.budget.accountant import Spent
from dpquery.ceilings import Ceiling
from dpquery.privacy import Loss
from dpquery.zcdp import epsilon_above

__all__ = ["SHORT", "Standing", "root_below"]

SHORT = 6
"""Digits of an epsilon that comes from a rho: it is a root, and rarely a short number."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A limit, and what is spent against it."""

    name: str
    """"policy", "analyst" or "session"."""
    ceiling: Ceiling
    total: Spent
    charges: int = 0
    """How many charges spent it."""
    frozen: str = ""
    """By whom or why no charge is made, whatever is left; empty where charges are made."""

    @property
    def summed(self) -> bool:
        """Whether epsilons can be added up, by the limit and by what was asked."""
        return self.ceiling.summed and self.total.summed

    @property
    def limit(self) -> Loss:
        """The most that may be lost."""
        return self.ceiling.limit

    @property
    def spent(self) -> Loss:
        """What is compared with the limit: the smaller of both sums, rho being converted."""
        epsilon, delta = self.total.loss.epsilon, self.total.loss.delta
        if self.ceiling.converted:
            converted = epsilon_above(self.total.rho, self.ceiling.converted)
            epsilon = min(epsilon, converted) if self.summed else converted
        return Loss(epsilon, delta)

    @property
    def left(self) -> Loss:
        """The largest epsilon that one more call could ask for, and the largest delta."""
        epsilon = max(self.left_as_epsilon, root_below(2 * self.left_as_rho, SHORT))
        return Loss(epsilon, self.left_of_delta)

    @property
    def left_of_delta(self) -> Fraction:
        """What the deltas of releases may still add up to; never below zero."""
        return max(self.ceiling.drawn - self.total.loss.delta, Fraction(0))

    @property
    def left_as_epsilon(self) -> Fraction:
        """What epsilons may still add up to; nothing where they are not added up."""
        if not self.summed:
            return Fraction(0)
        return max(self.limit.epsilon - self.total.loss.epsilon, Fraction(0))

    @property
    def left_as_rho(self) -> Fraction:
        """What rho may still add up to; never below zero."""
        return max(self.ceiling.rho - self.total.rho, Fraction(0))

    def admits(self, asked: Spent) -> bool:
        """Say whether one of both sums keeps the limit; delta is another matter."""
        by_epsilon = asked.summed and asked.loss.epsilon <= self.left_as_epsilon
        return by_epsilon or asked.rho <= self.left_as_rho


def root_below(square: Fraction, digits: int) -> Fraction:
    """Give the square root of a number from 0, rounded down to some digits.

    >>> root_below(Fraction(2), 3), root_below(Fraction(9, 4), 3)
    (Fraction(141, 100), Fraction(3, 2))
    """
    exact, short = Context(prec=50, rounding=ROUND_DOWN), Context(digits, ROUND_DOWN)
    root = short.plus(exact.sqrt(exact.divide(square.numerator, square.denominator)))
    while Fraction(root) ** 2 > square:
        root = short.next_minus(root)
    return Fraction(root)
