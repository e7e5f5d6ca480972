"""Limits, and how they stand: what is spent against each, and what one more charge may lose.

A pure function of charge, limits and totals (I6): it reads no ledger and no data. Every limit
has to hold; equality passes.

A limit admits a charge if, with it, all epsilons add up to the limit's epsilon or less, *or*
all rho to the limit's rho. Both sums only grow, so that what keeps one of them always kept it:
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
from dpquery.budget.ledger.charge_and_receipt import Ceilings
from dpquery.budget.ledger.record import Total, Totals
from dpquery.budget.parallel_composition import EITHER, EVERYBODY, Counting, Touched
from dpquery.core.privacy_loss import Ceiling, Loss
from dpquery.core.zcdp import epsilon_above

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
        """Return whether one of both sums keeps the limit; delta is another matter."""
        by_epsilon = asked.summed and asked.loss.epsilon <= self.left_as_epsilon
        return by_epsilon or asked.rho <= self.left_as_rho

    def times(self, asked: Spent) -> int:
        """Return how many more charges of so much are admitted."""
        delta, epsilon = asked.loss.delta, asked.loss.epsilon
        summed = self.left_as_epsilon // epsilon if asked.summed and epsilon else 0
        concentrated = self.left_as_rho // asked.rho if asked.rho else 0
        most = max(int(summed), int(concentrated))
        return min(most, int(self.left_of_delta // delta)) if delta else most


def root_below(square: Fraction, digits: int) -> Fraction:
    """Return the square root of a number from 0, rounded down to some digits.

    >>> root_below(Fraction(2), 3), root_below(Fraction(9, 4), 3)
    (Fraction(141, 100), Fraction(3, 2))
    """
    exact, short = Context(prec=50, rounding=ROUND_DOWN), Context(digits, ROUND_DOWN)
    root = short.plus(exact.sqrt(exact.divide(square.numerator, square.denominator)))
    while Fraction(root) ** 2 > square:
        root = short.next_minus(root)
    return Fraction(root)


def binding(
    ceilings: Ceilings,
    totals: Totals,
    counting: Counting = EITHER,
    touched: Touched | None = EVERYBODY,
) -> Standing:
    """Return the limit with the least epsilon left; of equals, the one that is passed furthest.

    Limits that a policy made stricter can be passed already. Of those passed as far, it is the
    one nearest to the analyst.
    """
    return least_left(all_standings(ceilings, totals, counting, touched))


def least_left(standings: list[Standing]) -> Standing:
    """Return the one with the least epsilon left; of equals, the one passed furthest."""
    return min(
        standings,
        key=lambda one: (one.left.epsilon, min(one.limit.epsilon - one.spent.epsilon, 0)),
    )


def all_standings(
    ceilings: Ceilings, totals: Totals, counting: Counting, touched: Touched | None
) -> list[Standing]:
    """Return how each limit stands for a charge on some parts of the units, or on all."""
    scopes = (
        ("session", ceilings.session, totals.session),
        ("analyst", ceilings.analyst, totals.analyst),
        ("policy", ceilings.policy, totals.policy),
    )
    return [
        Standing(name, ceiling, _against(ceiling, total, counting, touched), total.charges)
        for name, ceiling, total in scopes
        if ceiling is not None
    ]


def _against(
    ceiling: Ceiling, total: Total, counting: Counting, touched: Touched | None
) -> Spent:
    """Return what is spent against a limit by those who may be in the parts touched.

    A unit that is in one part keeps the limit by epsilons, where all others may keep it by rho.
    One with a share of each part does not: where a sum has left the limit in any part, it does
    not count for these.
    """
    spent = total.most(counting, touched)
    if touched is None or not touched.shared:
        return spent
    whole = total.most(counting)
    epsilons_keep = whole.summed and whole.loss.epsilon <= ceiling.limit.epsilon
    epsilon = spent.loss.epsilon if epsilons_keep else whole.loss.epsilon
    rho = spent.rho if whole.rho <= ceiling.rho else whole.rho
    return Spent(Loss(epsilon, spent.loss.delta), rho, whole.summed)
