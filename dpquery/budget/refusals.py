"""How a charge is refused: why, and what could be asked for instead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal, localcontext
from fractions import Fraction

from dpquery.budget.accountant import RHO_UNIT, additive, basic
from dpquery.budget.ledger.charge_and_receipt import Charge, FailureLimit
from dpquery.budget.limits import SHORT, Standing, least_left, root_below
from dpquery.budget.parallel_composition import Touched
from dpquery.core.privacy_events import BoundedRange, Concentrated, Event, Pure, releases
from dpquery.core.privacy_loss import EPSILON_MIN, decimal_text
from dpquery.core.zcdp import rho_below
from dpquery.errors import BudgetRefused, Diagnostic, Worded


def frozen(charge: Charge) -> BudgetRefused:
    """Refuse a charge because the data owner has stopped them all, whatever is left."""
    return _stopped(
        charge,
        "DPQ504",
        "the data owner has frozen the budget",
        ("no query is charged until it is thawed; what costs nothing is still answered.",),
        (Worded("ask the data owner when it will be thawed", "dpquery ledger thaw LEDGER"),),
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


def _stopped(charge: Charge, code: str, title: str, *lines: tuple[str, ...]) -> BudgetRefused:
    asked = basic(charge.events).epsilon
    diagnostic = Diagnostic(code, title, charge.span, f"asks for {decimal_text(asked)}", *lines)
    return BudgetRefused(diagnostic, asked, Fraction(0))


_DELTA = re.compile(r"\bdelta\s*(?:=>|:=|=)\s*(\d[\d.eE-]*|\.\d+)", re.IGNORECASE)
_FREE = (
    "SHOW LEDGER",
    Worded(
        "it lists what is paid for: asked again as it stands there, it is free",
        "it lists what is paid for: asked again in the session that paid, it is free",
    ),
)
_PASTED_DIGITS = 12
"""Digits of the epsilon that a refusal offers: few enough to read, and cut, so that it fits."""


@dataclass(frozen=True, slots=True)
class Request:
    """A charge that is refused, and what could be asked for instead, as text to be pasted.

    That too is a function of charge and limits alone (I6).
    """

    charge: Charge
    standings: list[Standing]
    cap: Fraction | None
    alone: bool
    """Whether it is on the parts that it touches, and on no others."""

    @property
    def asked(self) -> Fraction:
        """The epsilon that the charge would spend, as the analyst reads it."""
        return basic(self.charge.events).epsilon

    @property
    def dearest(self) -> int:
        """Which call asks for most: it is under the caret."""
        losses = [basic(call).epsilon for call in self.charge.calls]
        return losses.index(max(losses))

    def above_one_query(self, cap: Fraction) -> BudgetRefused:
        """Refuse a charge above the limit of one query."""
        asked, limit = decimal_text(self.asked), decimal_text(cap)
        return self._refused(
            "DPQ502",
            f"this query would spend {asked}, and one query may spend {limit}",
            (f"the policy limits every query to {limit}, however much is left.",),
            self._offer() or ("split the query, or ask for less",),
        )

    def above_epsilon(self, limit: Standing, weighed: Touched | None) -> BudgetRefused:
        """Refuse a charge above what is left of epsilon."""
        asked, left = decimal_text(self.asked), decimal_text(limit.left.epsilon)
        spending = _spending(limit, "budget", limit.limit.epsilon, limit.spent.epsilon)
        only = "or, with weights='table' in each call, only {} is charged"
        more = more_of(limit.name, "epsilon")
        otherwise = (*_FREE, _otherwise(more)) if limit.charges else (more,)
        also = () if weighed is None else (only.format(weighed.named),)
        return self._refused(
            "DPQ501",
            f"this query would spend {asked}, and {left} is left",
            (spending, *_sums(limit, self.charge.touched), *self._parts(limit)),
            (*(self._offer() or otherwise), *also),
        )

    def above_delta(self, limit: Standing, drawn: Fraction) -> BudgetRefused:
        """Refuse a charge above what is left of delta."""
        asked, left = decimal_text(drawn), decimal_text(limit.left_of_delta)
        spending = _spending(limit, "delta", limit.limit.delta, limit.spent.delta)
        diagnostic = Diagnostic(
            "DPQ503",
            f"this query needs a delta of {asked}, and {left} is left",
            self.charge.span,
            "asks for a delta as well",
            (spending, *_parted(limit)),
            self._less_delta(drawn, limit) or (more_of(limit.name, "delta"),),
        )
        return BudgetRefused(diagnostic, drawn, limit.left_of_delta)

    def _less_delta(self, drawn: Fraction, limit: Standing) -> tuple[str, ...]:
        """Return the statement with the most delta that fits, where one call states it."""
        found, text = [*_DELTA.finditer(self.charge.query)], self.charge.query
        if len(found) != 1 or limit.left_of_delta <= 0 or "\n" in text:
            return ()
        fits = limit.left_of_delta * Fraction(found[0][1]) / drawn
        start, end = found[0].span(1)
        less = f"{text[:start]}{decimal_text(Fraction(_pasted(fits)))}{text[end:]}"
        return less, "that is the most that fits", _otherwise(more_of(limit.name, "delta"))

    def _refused(
        self, code: str, title: str, why: tuple[str, ...], remedy: tuple[str, ...]
    ) -> BudgetRefused:
        """Refuse an epsilon; what is left is the most that a whole query could have now."""
        left = least_left(self.standings).left.epsilon
        diagnostic = Diagnostic(code, title, self.charge.span, self._label(), why, remedy)
        return BudgetRefused(
            diagnostic, self.asked, left if self.cap is None else min(self.cap, left)
        )

    def _label(self) -> str:
        """Say what the dearest call asks for, beside what it was paid for before."""
        call, paid = self.charge.calls[self.dearest], self.charge.paid[self.dearest]
        if not paid:
            others = " of it" if len(self.charge.calls) > 1 else ""
            return f"asks for {decimal_text(basic(call).epsilon)}{others}"
        rho = "rho=" if _in_rho(call) else ""
        return f"asks for {rho}{decimal_text(asked_in(call))} more than before"

    def _parts(self, limit: Standing) -> tuple[str, ...]:
        """Return which parts of a table are meant, where tables have parts."""
        touched = self.charge.touched
        if touched is None or not limit.charges:
            return ()
        if not self.alone:
            return (f"this query touches {touched.told}; one alone may have more left.",)
        left = f"{decimal_text(limit.left.epsilon)} left of {decimal_text(limit.limit.epsilon)}"
        return (f"{touched.named} has {left}; this query touches {touched.told}.",)

    def _offer(self) -> tuple[str, ...]:
        """Return lines after `try:`; none where no epsilon would do, as where delta is short.

        They hold the call under the caret, with the most that fits beside the others; or, where
        the others are too much already, the whole statement with all epsilons smaller.
        """
        spent, calls = additive(self.charge.events), self.charge.calls
        if spent.loss.delta > min(standing.left_of_delta for standing in self.standings):
            return ()
        dearest, paid = calls[self.dearest], self.charge.paid[self.dearest]
        others = tuple(e for n, call in enumerate(calls) if n != self.dearest for e in call)
        fitting = asked_in(dearest) * self._factor(dearest, others)
        # Of what was paid for in part, all releases must lose less by the same measure.
        scales = not paid or len(set(dearest)) == 1
        if self.charge.retry is not None and fitting >= EPSILON_MIN and scales:
            before, after = self.charge.retry
            beside = " beside the other calls" if basic(others).epsilon else ""
            written, best = self._written(self.dearest, fitting + paid)
            if written:
                return f"{before}{written}{after}", f"that is the {best} that fits{beside}"
        if not spent.summed or any(self.charge.paid):
            return ()
        return self._smaller(self._factor(self.charge.events, ()))

    def _written(self, call: int, epsilon: Fraction) -> tuple[str, str]:
        """Write an epsilon for a call, or the error that it buys: nothing if none."""
        spans = list(dict.fromkeys(self.charge.epsilons))
        bought = self.charge.errors.get(spans[call]) if spans else None
        if bought is None:
            return _pasted(epsilon), "most"
        error = bought(epsilon)
        return "" if error is None else decimal_text(error), "least error"

    def _smaller(self, factor: Fraction) -> tuple[str, ...]:
        """Return the whole statement, with all its epsilons that much smaller."""
        losses = [basic(call).epsilon for call in self.charge.calls]
        spans = list(dict.fromkeys(self.charge.epsilons))
        if len(spans) < 2 or min(losses) * factor < EPSILON_MIN:
            return ()
        text = self.charge.query
        for span, loss in sorted(zip(spans, losses, strict=True), reverse=True):
            written, _ = self._written(spans.index(span), loss * factor)
            if not written:
                return ()
            text = f"{text[: span.start]}{written}{text[span.end :]}"
        return *text.splitlines(), "that is the most that fits, in the same proportions"

    def _factor(self, part: Sequence[Event], others: Sequence[Event]) -> Fraction:
        """Return the largest factor that the epsilons of a part may have; 0 where none may."""
        asked, beside = additive(part), additive(others)

        def left(standing: Standing) -> Fraction:
            by_epsilon = Fraction(0)
            if asked.summed and beside.summed:
                by_epsilon = (
                    standing.left_as_epsilon - beside.loss.epsilon
                ) / asked.loss.epsilon
            return max(
                by_epsilon, _by_rho(part, max(standing.left_as_rho - beside.rho, Fraction(0)))
            )

        factors = [left(standing) for standing in self.standings]
        if self.cap is not None:
            room = max(self.cap - basic(others).epsilon, Fraction(0))
            factors.append(_below_cap(part, room))
        return max(Fraction(0), min(factors))


def _in_rho(call: Sequence[Event]) -> bool:
    return all(isinstance(event, Concentrated) for event in call)


def asked_in(call: Sequence[Event]) -> Fraction:
    """Return what is written in a call: its epsilon, or its rho."""
    return additive(call).rho if _in_rho(call) else basic(call).epsilon


def _below_cap(part: Sequence[Event], room: Fraction) -> Fraction:
    match part:
        case [Concentrated(rho, _, delta)]:
            return rho_below(room, delta) / rho
    return room / basic(part).epsilon


def _by_rho(part: Sequence[Event], room: Fraction) -> Fraction:
    """Return the factor at which a part has a rho; 0 where that is not known."""
    if len(part) > 1:  # each share of a rho that is parted is rounded up, by less than a unit
        room = max(room - Fraction(len(part), RHO_UNIT), Fraction(0))
    ratio = room / additive(part).rho
    if _in_rho(part):
        return ratio
    # Half of the epsilon is surely a quarter of the rho for these only.
    quadratic = all(isinstance(one, Pure | BoundedRange) for one in releases(part))
    return root_below(ratio, SHORT) if quadratic else Fraction(0)


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
        f"so far epsilons add up to {epsilons}, and rho to {rho} of {most}:",
        "a query is answered while either of the two sums keeps its limit.",
    )


def _parted(limit: Standing) -> tuple[str, ...]:
    converted = limit.ceiling.converted
    return (f"of it, {decimal_text(converted)} is kept to convert rho.",) if converted else ()


def _otherwise(line: str) -> str:
    """Write a line as one more way out."""
    own = line.own if isinstance(line, Worded) else line
    return Worded(f"or {line}", own and f"or {own}")


def more_of(name: str, what: str) -> str:
    """Say whom to ask for more of an epsilon, a rho or a delta, by the limit that has less."""
    if name == "session":
        return f"open a session with a larger {what}, as far as the policy allows"
    own = {
        "delta": "--delta 1e-6 when the file is opened, in Python delta=1e-6",
        "epsilon": "a larger --epsilon when the file is opened, in Python epsilon=",
    }
    return Worded(f"ask the data owner to raise the {name}'s {what}", own.get(what, ""))
