"""What a statement may spend in all, split over the calls that state no epsilon of their own.

The split is equal, unless `weight=` says otherwise, and exact: the shares sum up to what the
statement has, less what other calls state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NoReturn

from dpquery.budget.statement_budget import states_delta
from dpquery.core.privacy_loss import EPSILON_MIN, NO_LOSS, Loss, decimal_text, root_above
from dpquery.core.source_text import Source, Span
from dpquery.errors import refusal
from dpquery.ir.query import Call
from dpquery.sql.bind.call_options import LEAST_DELTA

_DIGITS = 30
"""Digits of a share that is shown, as of any epsilon: what is charged is the exact one."""


def share_text(amount: Fraction) -> str:
    """Write a share in digits: exactly, or rounded down to a dozen of them.

    >>> share_text(Fraction(1, 4)), share_text(Fraction(1, 3))
    ('0.25', '0.333333333333')
    """
    exact = amount * 10**_DIGITS
    if exact.denominator != 1:
        exact = Fraction(int(amount * 10**12) or 1, 10**12) * 10**_DIGITS
    return decimal_text(exact / 10**_DIGITS)


@dataclass(slots=True)
class Shares:
    """What each call of a statement has of its epsilon and delta."""

    price: Loss
    """What the statement may spend."""
    each: Loss
    """What a call of weight 1 has."""
    spare: Fraction = Fraction(0)
    """What it has of a delta that was stated, where no call selects groups with that."""
    weights: Fraction = Fraction(0)
    selections: int = 0
    """How many calls share delta."""
    least: Fraction | None = None
    """The least weight of a call."""
    stated: Loss = NO_LOSS
    """What calls state themselves."""
    deltas: dict[Span, Fraction] = field(default_factory=dict)
    """Where calls state a delta, and which."""
    rewritten: dict[Span, str] = field(default_factory=dict)
    """Stretches of the statement, and how they are understood."""
    first: Span | None = None
    """Where the first call stands that has a share."""
    beside: tuple[str, Span] | None = None
    """What a call states in place of eps, and where: what is left beside it is not known."""
    given: Mapping[str, int] = field(default_factory=dict)
    """Options of the whole statement: calls that take them have them."""

    @classmethod
    def of(cls, price: Loss, given: Mapping[str, int] | None = None) -> Shares:
        """Begin with one call that has everything: how many there are shows later."""
        return cls(price, price, given=given or {})

    def take(self, span: Span, weight: Fraction, *, selects: bool) -> Loss:
        """Return the share of one more call."""
        self.first = self.first or span
        self.weights += weight
        self.least = weight if self.least is None else min(self.least, weight)
        self.selections += selects
        return Loss(self.each.epsilon * weight, self.each.delta if selects else Fraction(0))

    def split(self) -> Shares:
        """Return the shares, now that the calls are known.

        Raises:
            NameRefused: DPQ205 too little is left for a call.
        """
        if self.beside is not None:
            name, span = self.beside
            title = f"{name} is stated beside calls that share an epsilon"
            why = "what is left of the statement's epsilon would not be known."
            raise refusal("DPQ209", title, span, "no epsilon", why, "eps=0.1")
        left = self.price - self.stated
        each = left.epsilon / self.weights
        if each * min(self.least or 1, 1) < EPSILON_MIN:
            self.refuse_too_little(self.first)
        if self.selections and self.price.delta and left.delta <= 0:
            self._refuse_no_delta()
        delta = max(left.delta, Fraction(0))
        spare = delta / self.weights if states_delta(self.price) else Fraction(0)
        if self.selections:
            return Shares(self.price, Loss(each, delta / self.selections), given=self.given)
        return Shares(self.price, Loss(each, delta), spare, given=self.given)

    def refuse_too_little(self, call: Span | None) -> NoReturn:
        """Refuse a call for which the statement has no epsilon that could be computed with."""
        title = f"{decimal_text(self.price.epsilon)} for the statement leaves nothing here"
        why = "calls that state none share what the others leave."
        raise refusal("DPQ205", title, call, "no epsilon of its own", why, "eps=0.1")

    def _refuse_no_delta(self) -> NoReturn:
        """Refuse deltas that leave none for groups that are found; point at the largest."""
        largest = max(self.deltas, key=lambda span: self.deltas[span])
        title = f"a delta of {decimal_text(self.price.delta)} for the statement is used up here"
        why = "selections that state none share what the others leave."
        share = share_text(self.price.delta / (len(self.deltas) + 1))
        label = "leaves no delta to others"
        raise refusal("DPQ205", title, largest, label, why, f"delta={share}")

    def understood(self, source: Source) -> str:
        """Return the statement as it is understood: with each call and its share."""
        return self.within(source, Span(0, len(source.text))).strip()

    def within(self, source: Source, whole: Span) -> str:
        """Return a stretch of the statement as it is understood."""
        text = source.snippet(whole)
        for span in sorted(self._inside(whole), key=lambda one: -one.start):
            start, end = span.start - whole.start, span.end - whole.start
            text = text[:start] + self.rewritten[span] + text[end:]
        return text

    def rewrite(self, whole: Span, text: str) -> None:
        """Have a stretch understood as a text, whatever was said of parts of it."""
        for span in self._inside(whole):
            del self.rewritten[span]
        self.rewritten[whole] = text

    def _inside(self, whole: Span) -> list[Span]:
        ends = whole.start, whole.end
        return [one for one in self.rewritten if ends[0] <= one.start and one.end <= ends[1]]


def shared(call: Call, sets: int, shares: Shares | None = None) -> Call:
    """Return a call as each of so many groupings asks it: with an equal share of its price.

    Shares are those of the statement, of which the price can be one.
    """
    options = call.options
    if options.wanted is not None:  # each grouping keeps to the error, and pays for it
        return call
    rho = None if options.rho is None else options.rho / sets
    epsilon = options.epsilon / sets if rho is None else root_above(2 * rho)
    delta = None if options.delta is None else options.delta / sets
    spare = options.spare / sets
    if epsilon < EPSILON_MIN:
        if shares is not None and call.shares:
            shares.refuse_too_little(options.epsilon_span)
        _too_little("eps", EPSILON_MIN * sets, options.epsilon_span)
    if delta is not None and delta < LEAST_DELTA:
        _too_little("delta", LEAST_DELTA * sets, options.delta_span)
    each = replace(options, epsilon=epsilon, rho=rho, delta=delta, spare=spare)
    return replace(call, options=each)


def _too_little(name: str, least: Fraction, span: Span | None) -> NoReturn:
    written, label = decimal_text(least), "shared by the groupings of GROUP BY"
    title = f"{name} must be at least {written} here"
    why = "each grouping is a release of its own, and has an equal share."
    raise refusal("DPQ205", title, span, label, why, f"{name}={written}")
