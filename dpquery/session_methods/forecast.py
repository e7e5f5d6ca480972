"""What questions would cost before they are asked, and how one epsilon is shared by several.

Everything comes from EXPLAIN and the balance: nothing is charged, and no row is read. What is
foreseen is the most: a statement that refines an earlier one of the same list, or uses bounds
that it finds, pays less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import pyarrow as pa

from dpquery.answer import Answer
from dpquery.budget.accountant import NOTHING, Spent, additive
from dpquery.budget.limits import SHORT, root_below
from dpquery.core.arrow_columns import table_of
from dpquery.core.privacy_events import Event, Pure, Refined
from dpquery.core.privacy_loss import NO_LOSS, Loss, decimal_text, exact_number
from dpquery.core.source_text import Source
from dpquery.errors import QueryRefused, shown
from dpquery.sql.commands import Create, Drop, Set, read_aside, refreshed
from dpquery.sql.epsilon_shares import share_text
from dpquery.sql.parse.literals import misfit

if TYPE_CHECKING:
    from dpquery.client.remote import AnySession
    from dpquery.session import Budget

_WIDE = 48
"""Characters of a statement that a list shows."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What one statement would cost."""

    text: str
    spent: Spent = NOTHING
    remark: str = ""
    """Why it is free, or why it would be refused."""
    refused: QueryRefused | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """What some statements would cost, asked in this order, and what would be left."""

    statements: tuple[Foreseen, ...]
    budget: Budget
    """As it stands before the first."""

    @property
    def spent(self) -> Spent:
        """What they would cost together, at most."""
        return sum((one.spent for one in self.statements), NOTHING)

    @property
    def fits(self) -> bool:
        """Whether all of them would be charged."""
        return _left(self.budget, self.spent) is not None

    @property
    def left(self) -> Loss:
        """What would be left after all of them, at least; nothing where they do not fit."""
        return _left(self.budget, self.spent) or NO_LOSS

    def answer(self) -> Answer:
        """Return a row for each statement: its price, and what would be left after it."""
        rows, total = [], NOTHING
        for number, one in enumerate(self.statements, 1):
            total += one.spent
            left = _left(self.budget, total)
            rest = "too little" if left is None else decimal_text(left.epsilon)
            cost = None if one.refused else decimal_text(one.spent.loss.epsilon)
            rows.append((number, cost, rest, one.remark or None, _in_a_line(one.text)))
        texts = dict.fromkeys(("epsilon", "left", "remark", "statement"), pa.string())
        return Answer(table_of(rows, {"n": pa.int64(), **texts}), NO_LOSS, (), str(self), ())

    def _repr_html_(self) -> str:
        """Return what a notebook shows: a row for each statement."""
        return self.answer()._repr_html_()

    def __str__(self) -> str:
        whole, now = self.spent.loss, decimal_text(self.budget.left.epsilon)
        after = f"{decimal_text(self.left.epsilon)} left after them"
        then = after if self.fits else "too little for all of them"
        return f"unchanged; {now} left, these would spend {whole} at most: {then}"


def _in_a_line(text: str) -> str:
    """Write a statement in one line, and cut it where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _WIDE else f"{line[: _WIDE - 1]}…"


def _left(budget: Budget, spent: Spent) -> Loss | None:
    """Return what is left after so much; None where it does not fit."""
    delta = budget.left.delta - spent.loss.delta
    by_epsilon = budget.left_as_epsilon - spent.loss.epsilon if spent.summed else Fraction(-1)
    by_rho = budget.left_as_rho - spent.rho
    if delta < 0 or (by_epsilon < 0 and by_rho < 0):
        return None
    most = root_below(2 * by_rho, SHORT) if by_rho > 0 else Fraction(0)
    return Loss(max(by_epsilon, most, Fraction(0)), delta)


def forecast(session: AnySession, texts: Iterable[str]) -> Forecast:
    """Foresee what statements would cost, asked one after the other.

    What asks no data is done as it comes: it costs nothing, and may say how others are read.
    """
    foreseer = _Foreseer(session)
    statements = tuple(foreseer.foresee(text) for text in texts)
    return Forecast(statements, session.budget)


@dataclass(slots=True)
class _Foreseer:
    """What is remembered from one statement of a list to the next."""

    session: AnySession
    seen: set[tuple[str, Spent]] = field(default_factory=set)
    """Which statements came, with their prices: asked again, they are free."""
    refined: bool = False
    """Whether one made an earlier answer better: that can be used up by one alone."""

    def foresee(self, text: str) -> Foreseen:
        """Foresee what the next statement would cost."""
        source = Source(text)
        try:
            command = read_aside(source)
            if isinstance(command, Set | Create | Drop):
                self.session.sql(text)
                self.seen.clear()  # the same words may mean another thing now
            if command is not None:
                return Foreseen(text, remark="asks no data")
            spent = self._spent(self.session.explain(text).events)
        except QueryRefused as refused:
            title = refused.diagnostic.title
            return Foreseen(text, remark=f"refused[{refused.code}]: {title}", refused=refused)
        asked = text.strip(), spent
        if asked in self.seen and refreshed(source) is None:
            return Foreseen(text, remark="free: the same as an earlier one here")
        self.seen.add(asked)
        free = "free: answered before, or public"
        return Foreseen(text, spent, "" if spent != NOTHING else free)

    def _spent(self, events: Sequence[Event]) -> Spent:
        if not any(isinstance(event, Refined) for event in events):
            return additive(events)
        if self.refined:
            events = [Pure(one.after) if isinstance(one, Refined) else one for one in events]
        self.refined = True
        return additive(events)


# One epsilon over several questions: each has its share, and is asked by it as it stands.


@dataclass(frozen=True, slots=True)
class Question:
    """One of several questions that share an epsilon."""

    text: str
    eps: str
    """Its share, as it is asked: rounded down to a dozen digits."""
    price: Loss
    """What it would cost: its share, or nothing where it was answered before."""


@dataclass(frozen=True, slots=True)
class Questions:
    """Several questions, each with its share of one epsilon; `run` asks them."""

    questions: tuple[Question, ...]
    left: Loss
    """Of the budget, before the first."""
    delta: object = None
    """Of each that finds groups, where it is stated."""
    _session: AnySession | None = field(default=None, repr=False, compare=False)

    @property
    def price(self) -> Loss:
        """What all of them would cost."""
        return sum((one.price for one in self.questions), NO_LOSS)

    def run(self) -> list[Answer]:
        """Ask them in their order, each for its share.

        Raises:
            QueryRefused: one is refused; those before it are answered and paid, and are free
                when they are asked again.
        """
        session = self._session
        assert session is not None  # noqa: S101 - `share_out` made it
        asked = self.questions
        return [session.sql(one.text, eps=one.eps, delta=self.delta) for one in asked]

    def __str__(self) -> str:
        rows = [
            f"{one.eps:>14}  {decimal_text(one.price.epsilon, 4):>8}  {_in_a_line(one.text)}"
            for one in self.questions
        ]
        left = decimal_text(self.left.epsilon)
        whole = f"together {self.price}; {left} of the budget is left before them"
        return "\n".join([f"{'share':>14}  {'price':>8}  question", *rows, whole])


Asked = Mapping[str, object] | Sequence[str | tuple[str, object]]
"""Texts, alone or each with its weight."""


def share_out(
    session: AnySession, questions: Asked, epsilon: object, delta: object = None
) -> Questions:
    """Share one epsilon out over questions, in proportion to their weights.

    Raises:
        QueryRefused: DPQ805 no questions, or what is no weight or epsilon; or a question states
            more than its share; what EXPLAIN refuses.
    """
    pairs = [*_pairs(questions)]
    whole = _positive(epsilon, "epsilon", "session.plan([...], epsilon=1)")
    if not pairs:
        raise misfit("session.plan takes questions, and there are none", _EXAMPLE)
    total = sum((weight for _, weight in pairs), Fraction(0))
    found = []
    for text, weight in pairs:
        share = share_text(whole * weight / total)
        explained = session.explain(text, eps=share, delta=delta)
        if explained.charge.epsilon > Fraction(share):
            raise _states_own(text)
        found.append(Question(text, share, explained.charge))
    return Questions(tuple(found), session.budget.left, delta, session)


def _states_own(text: str) -> QueryRefused:
    why = "its share is what it may spend, so that all of them spend what was said."
    title = f"a question states more than its share: {shown(' '.join(text.split()))}"
    return misfit(title, _EXAMPLE, why=why)


_EXAMPLE = 'session.plan(["SELECT COUNT(*) FROM staff"], epsilon=1)'


def _pairs(questions: Asked) -> Iterable[tuple[str, Fraction]]:
    given = questions.items() if isinstance(questions, Mapping) else questions
    if isinstance(questions, str):
        raise misfit("session.plan takes a list of questions, not one text", _EXAMPLE)
    for one in given:
        text, weight = one if isinstance(one, tuple) and len(one) == 2 else (one, 1)
        if not isinstance(text, str):
            title = f"a question is a text, or a text and its weight, not {shown(one)}"
            raise misfit(title, _EXAMPLE)
        yield text, _positive(weight, "a weight", 'session.plan({"SELECT ...": 2}, epsilon=1)')


def _positive(value: object, name: str, example: str) -> Fraction:
    try:
        number = exact_number(value)
    except ValueError:
        number = Fraction(0)
    if number > 0:
        return number
    raise misfit(f"{name} is a number above 0, not {shown(value)}", example)
