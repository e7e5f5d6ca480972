"""Whether a charge fits under every limit, and how the refusal reads when it does not.

A pure function of charge, limits and totals (I6): it reads no ledger and no data. Every limit
has to hold; equality passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal, localcontext
from fractions import Fraction

from dpquery.budget.accountant import Accountant
from dpquery.budget.charge import Charge, Limits, Standing
from dpquery.budget.record import Totals
from dpquery.errors import BudgetRefused, Diagnostic
from dpquery.privacy import EPSILON_MIN, Loss, decimal_text

__all__ = ["binding", "require_within"]

_PASTED_DIGITS = 12
"""Digits of the epsilon that a refusal offers: few enough to read, and cut, so that it fits."""


def binding(limits: Limits, totals: Totals) -> Standing:
    """Give the limit with the least epsilon left; of equals, the one nearest to the analyst."""
    return min(_standings(limits, totals), key=lambda standing: standing.left.epsilon)


def _standings(limits: Limits, totals: Totals) -> list[Standing]:
    scopes = (
        ("session", limits.session, totals.session),
        ("analyst", limits.analyst, totals.analyst),
        ("policy", limits.policy, totals.policy),
    )
    return [
        Standing(name, limit, total.spent, total.charges)
        for name, limit, total in scopes
        if limit is not None
    ]


def require_within(
    charge: Charge, accountant: Accountant, limits: Limits, totals: Totals
) -> None:
    """Pass a charge that keeps every limit.

    Raises:
        BudgetRefused: DPQ502 above the limit of one query, DPQ501 above what is left of
            epsilon, DPQ503 above what is left of delta.
    """
    asked = accountant(charge.events)
    epsilons = binding(limits, totals)
    deltas = min(_standings(limits, totals), key=lambda standing: standing.left.delta)
    most = (
        epsilons.left.epsilon
        if limits.query is None
        else min(limits.query, epsilons.left.epsilon)
    )
    largest = charge.asked or max(
        (accountant([event]).epsilon for event in charge.events), default=asked.epsilon
    )
    request = _Request(charge, asked, largest, most, asked.delta <= deltas.left.delta)
    if limits.query is not None and asked.epsilon > limits.query:
        raise request.above_one_query(limits.query)
    if asked.epsilon > epsilons.left.epsilon:
        raise request.above_epsilon(epsilons)
    if not request.delta_fits:
        raise request.above_delta(deltas)


@dataclass(frozen=True, slots=True)
class _Request:
    """A charge that may be refused, and what could be asked for instead."""

    charge: Charge
    asked: Loss
    largest: Fraction
    """The epsilon under the caret."""
    most: Fraction
    """The largest epsilon that a whole query could have now."""
    delta_fits: bool

    def above_one_query(self, cap: Fraction) -> BudgetRefused:
        asked, limit = decimal_text(self.asked.epsilon), decimal_text(cap)
        diagnostic = Diagnostic(
            "DPQ502",
            f"this query would spend {asked}, and one query may spend {limit}",
            self.charge.span,
            f"asks for {decimal_text(self.largest)}",
            (f"the policy limits every query to {limit}, however much is left.",),
            self._offer() or ("split the query, or ask for less",),
        )
        return BudgetRefused(diagnostic, self.asked.epsilon, self.most)

    def above_epsilon(self, limit: Standing) -> BudgetRefused:
        asked, left = decimal_text(self.asked.epsilon), decimal_text(limit.left.epsilon)
        diagnostic = Diagnostic(
            "DPQ501",
            f"this query would spend {asked}, and {left} is left",
            self.charge.span,
            f"asks for {decimal_text(self.largest)}",
            (_spending(limit, "budget", limit.limit.epsilon, limit.spent.epsilon),),
            self._offer() or _more(limit, "epsilon"),
        )
        return BudgetRefused(diagnostic, self.asked.epsilon, self.most)

    def above_delta(self, limit: Standing) -> BudgetRefused:
        asked, left = decimal_text(self.asked.delta), decimal_text(limit.left.delta)
        diagnostic = Diagnostic(
            "DPQ503",
            f"this query needs a delta of {asked}, and {left} is left",
            self.charge.span,
            "asks for a delta as well",
            (_spending(limit, "delta", limit.limit.delta, limit.spent.delta),),
            _more(limit, "delta"),
        )
        return BudgetRefused(diagnostic, self.asked.delta, limit.left.delta)

    def _offer(self) -> tuple[str, ...]:
        """Print the call under the caret with the largest epsilon that fits beside the rest."""
        fitting = self.most - (self.asked.epsilon - self.largest)
        if self.charge.retry is None or not self.delta_fits or fitting < EPSILON_MIN:
            return ()
        before, after = self.charge.retry
        beside = "" if fitting == self.most else " beside the other calls"
        return (f"{before}{_pasted(fitting)}{after}", f"that is the most that fits{beside}")


def _pasted(number: Fraction) -> str:
    """Write a positive number as a short decimal that is not above it.

    >>> _pasted(Fraction(13, 10)), _pasted(Fraction(2, 3)), _pasted(Fraction(1, 10**9))
    ('1.3', '0.666666666666', '0.000000001')
    """
    with localcontext(prec=_PASTED_DIGITS, rounding=ROUND_DOWN):
        cut = Decimal(number.numerator) / Decimal(number.denominator)
    return f"{cut.normalize():f}"


def _spending(limit: Standing, what: str, ceiling: Fraction, spent: Fraction) -> str:
    head = f"the {limit.name}'s {what} is {decimal_text(ceiling)}"
    if not limit.charges:
        return f"{head}, and no query has been charged yet."
    queries = "1 earlier query" if limit.charges == 1 else f"{limit.charges} earlier queries"
    return f"{head}; {decimal_text(spent)} is spent by {queries}."


def _more(limit: Standing, what: str) -> tuple[str, ...]:
    if limit.name == "session":
        return (f"open a session with a larger {what}, as far as the policy allows",)
    return (f"ask the data owner to raise the {limit.name}'s {what}",)
