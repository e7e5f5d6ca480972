"""Whether a charge fits under every limit, and how the refusal reads when it does not.

A pure function of charge, limits and totals (I6): it reads no ledger and no data. Every limit
has to hold; equality passes.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpquery.budget.accountant import Spent, additive, basic
from dpquery.budget.charge import Charge, FailureLimit, Limits
from dpquery.budget.offers import asked_in, offer
from dpquery.budget.parts import EITHER, EVERYBODY, Counting, Touched
from dpquery.budget.record import Total, Totals
from dpquery.budget.standing import Standing
from dpquery.ceilings import Ceiling
from dpquery.errors import BudgetRefused, Diagnostic
from dpquery.events import Concentrated
from dpquery.privacy import Loss, decimal_text

__all__ = ["binding", "crowded", "frozen", "more_of", "require_within", "suspended"]


def binding(
    limits: Limits,
    totals: Totals,
    counting: Counting = EITHER,
    touched: Touched | None = EVERYBODY,
) -> Standing:
    """Return the limit with the least epsilon left; of equals, the one that is passed furthest.

    Limits that a policy made stricter can be passed already. Of those passed as far, it is the
    one nearest to the analyst.
    """
    return _least(_standings(limits, totals, counting, touched))


def _least(standings: list[Standing]) -> Standing:
    return min(
        standings,
        key=lambda one: (one.left.epsilon, min(one.limit.epsilon - one.spent.epsilon, 0)),
    )


def _standings(
    limits: Limits, totals: Totals, counting: Counting, touched: Touched | None
) -> list[Standing]:
    """Say how each limit stands for a charge on some parts of the units, or on all."""
    scopes = (
        ("session", limits.session, totals.session),
        ("analyst", limits.analyst, totals.analyst),
        ("policy", limits.policy, totals.policy),
    )
    return [
        Standing(name, ceiling, _against(ceiling, total, counting, touched), total.charges)
        for name, ceiling, total in scopes
        if ceiling is not None
    ]


def _against(
    ceiling: Ceiling, total: Total, counting: Counting, touched: Touched | None
) -> Spent:
    """Give what is spent against a limit by those who may be in the parts touched.

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


def require_within(
    charge: Charge,
    asked: Spent,
    limits: Limits,
    totals: Totals,
    counting: Counting = EITHER,
) -> None:
    """Pass a charge that keeps every limit, given what its events add up to.

    Raises:
        BudgetRefused: DPQ502 above the limit of one query, DPQ501 above what is left of
            epsilon, DPQ503 above what is left of delta.
    """
    if not charge.events:
        return
    standings = _standings(limits, totals, counting, charge.touched)
    alone = counting.kept(charge.touched) is not None
    request = _Request(charge, standings, limits.query, alone)
    if limits.query is not None and request.asked.epsilon > limits.query:
        raise request.above_one_query(limits.query)
    passed = [standing for standing in standings if not standing.admits(asked)]
    if passed:
        less = charge.if_weighed
        weighed = _standings(limits, totals, counting, less) if less else []
        fits = less if all(one.admits(asked) for one in weighed) else None
        raise request.above_epsilon(_least(passed), fits)
    if drawn := asked.loss.delta:
        deltas = min(
            standings, key=lambda one: (one.left_of_delta, one.ceiling.drawn - one.spent.delta)
        )
        if drawn > deltas.left_of_delta:
            raise request.above_delta(deltas, drawn)


def frozen(charge: Charge) -> BudgetRefused:
    """Refuse a charge because the data owner has stopped them all, whatever is left."""
    return _stopped(
        charge,
        "DPQ504",
        "the data owner has frozen the budget",
        ("no query is charged until it is thawed; what costs nothing is still answered.",),
        ("ask the data owner when it will be thawed",),
    )


def suspended(charge: Charge, failed: int, limit: FailureLimit | None) -> BudgetRefused:
    """Refuse a charge of an analyst whose statements failed too often."""
    return _stopped(
        charge,
        "DPQ505",
        f"{failed} statements failed within 24 hours, and nothing more is read for you",
        (
            "whether a statement fails can tell what its answer hides, so few may fail.",
            "what costs nothing is still answered, until the data owner thaws the budget.",
        ),
        limit.remedy if limit else (),
    )


def crowded(charge: Charge, limit: FailureLimit) -> BudgetRefused:
    """Refuse a charge beside as many statements as may still fail."""
    return _stopped(
        charge,
        "DPQ506",
        "as many of your statements are under way as may still fail",
        (f"each of them could fail, and {limit.most} may within 24 hours.",),
        ("ask again when one of them has ended",),
    )


def _stopped(
    charge: Charge, code: str, title: str, why: tuple[str, ...], remedy: tuple[str, ...]
) -> BudgetRefused:
    asked = basic(charge.events).epsilon
    label = f"asks for {decimal_text(asked)}"
    return BudgetRefused(
        Diagnostic(code, title, charge.span, label, why, remedy), asked, Fraction(0)
    )


@dataclass(frozen=True, slots=True)
class _Request:
    """A charge that is refused, and what could be asked for instead."""

    charge: Charge
    standings: list[Standing]
    cap: Fraction | None
    alone: bool
    """Whether it is on the parts that it touches, and on no others."""

    @property
    def asked(self) -> Loss:
        """What the charge would spend, as the analyst reads it."""
        return basic(self.charge.events)

    @property
    def label(self) -> str:
        """What the call under the caret asks for, beside what it was paid for before."""
        calls = zip(self.charge.calls, self.charge.paid, strict=True)
        dearest, paid = max(calls, key=lambda call: basic(call[0]).epsilon)
        if not paid:
            return f"asks for {decimal_text(basic(dearest).epsilon)}"
        rho = "rho=" if all(isinstance(event, Concentrated) for event in dearest) else ""
        return f"asks for {rho}{decimal_text(asked_in(dearest))} more than before"

    @property
    def most(self) -> Fraction:
        """The largest epsilon that a whole query could have now."""
        left = _least(self.standings).left.epsilon
        return left if self.cap is None else min(self.cap, left)

    def above_one_query(self, cap: Fraction) -> BudgetRefused:
        asked, limit = decimal_text(self.asked.epsilon), decimal_text(cap)
        diagnostic = Diagnostic(
            "DPQ502",
            f"this query would spend {asked}, and one query may spend {limit}",
            self.charge.span,
            self.label,
            (f"the policy limits every query to {limit}, however much is left.",),
            self._offer() or ("split the query, or ask for less",),
        )
        return BudgetRefused(diagnostic, self.asked.epsilon, self.most)

    def above_epsilon(self, limit: Standing, weighed: Touched | None) -> BudgetRefused:
        asked, left = decimal_text(self.asked.epsilon), decimal_text(limit.left.epsilon)
        spending = _spending(limit, "budget", limit.limit.epsilon, limit.spent.epsilon)
        diagnostic = Diagnostic(
            "DPQ501",
            f"this query would spend {asked}, and {left} is left",
            self.charge.span,
            self.label,
            (spending, *_sums(limit, self.charge.touched), *self._parts(limit)),
            (*(self._offer() or (more_of(limit.name, "epsilon"),)), *_weighed(weighed)),
        )
        return BudgetRefused(diagnostic, self.asked.epsilon, self.most)

    def above_delta(self, limit: Standing, drawn: Fraction) -> BudgetRefused:
        asked, left = decimal_text(drawn), decimal_text(limit.left_of_delta)
        spending = _spending(limit, "delta", limit.limit.delta, limit.spent.delta)
        diagnostic = Diagnostic(
            "DPQ503",
            f"this query needs a delta of {asked}, and {left} is left",
            self.charge.span,
            "asks for a delta as well",
            (spending, *_parted(limit)),
            (more_of(limit.name, "delta"),),
        )
        return BudgetRefused(diagnostic, drawn, limit.left_of_delta)

    def _parts(self, limit: Standing) -> tuple[str, ...]:
        """Say which parts of a table are meant, where tables have parts."""
        touched = self.charge.touched
        if touched is None or not limit.charges:
            return ()
        if not self.alone:
            return (f"this query touches {touched.told}; one alone may have more left.",)
        left = f"{decimal_text(limit.left.epsilon)} left of {decimal_text(limit.limit.epsilon)}"
        return (f"{touched.named} has {left}; this query touches {touched.told}.",)

    def _offer(self) -> tuple[str, ...]:
        """Nothing, where a smaller epsilon would not help with delta."""
        left = min(standing.left_of_delta for standing in self.standings)
        drawn = additive(self.charge.events).loss.delta
        return () if drawn > left else offer(self.charge, (self.standings, self.cap))


def _weighed(fits: Touched | None) -> tuple[str, ...]:
    """Say on which parts alone it fits, weighed by the table."""
    if fits is None:
        return ()
    return (f"or, with weights='table' in each call, only {fits.named} is charged",)


def _spending(limit: Standing, what: str, ceiling: Fraction, spent: Fraction) -> str:
    head = f"the {limit.name}'s {what} is {decimal_text(ceiling)}"
    if not limit.charges:
        return f"{head}, and no query has been charged yet."
    queries = "1 earlier query" if limit.charges == 1 else f"{limit.charges} earlier queries"
    return f"{head}; {decimal_text(spent)} is spent by {queries}."


def _sums(limit: Standing, touched: Touched | None) -> tuple[str, ...]:
    """Say in which two ways losses add up, where there are two."""
    if not limit.charges or not limit.ceiling.converted:
        return ()
    epsilons, rho = decimal_text(limit.total.loss.epsilon), decimal_text(limit.total.rho)
    most = decimal_text(limit.ceiling.rho)
    if touched is not None and touched.shared and limit.summed:
        if limit.total.loss.epsilon > limit.limit.epsilon:
            return (
                f"epsilons add up to {epsilons} where most was asked, so only rho is counted:",
                f"it adds up to {rho} of {most} here.",
            )
        if limit.total.rho > limit.ceiling.rho:
            return (f"rho is above {most} where most was asked, so only epsilons are counted.",)
    if not limit.summed:
        return (f"rho adds up to {rho} of {most} by now, and epsilons are not added up.",)
    return (
        f"epsilons add up to {epsilons} by now, and rho to {rho} of {most}:",
        "it is enough if one of the two sums stays within its limit.",
    )


def _parted(limit: Standing) -> tuple[str, ...]:
    converted = limit.ceiling.converted
    return (f"of it, {decimal_text(converted)} is kept to convert rho.",) if converted else ()


def more_of(name: str, what: str) -> str:
    """Say whom to ask for more of an epsilon, a rho or a delta, by the limit that has less."""
    if name == "session":
        return f"open a session with a larger {what}, as far as the policy allows"
    return f"ask the data owner to raise the {name}'s {what}"
