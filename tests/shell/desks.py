"""A desk without a terminal: what it says is a text, what it is answered is written before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction

import pyarrow as pa

from dpquery.answer import Answer, Guarantee
from dpquery.core.privacy_loss import NO_LOSS, Loss, Neighbours
from dpquery.errors import Diagnostic, NameRefused
from dpquery.plan.explain import Explanation
from dpquery.session import Budget
from tests.shell.fakes import FakeSession


class Paper:
    """A console on which everything is written down."""

    def __init__(self, *replies: bool) -> None:
        self.lines: list[str] = []
        self.asked: list[str] = []
        self.replies = list(replies)

    def say(self, text: object, style: str = "") -> None:
        self.lines.append(str(text))

    page = say

    def draw(self, picture: Callable[[int, bool], str]) -> None:
        self.say(picture(60, False))

    def agrees(self, question: str) -> bool:
        self.asked.append(question)
        return self.replies.pop(0)

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        yield

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


class FakeDesk(FakeSession):
    """A session that knows one table and has a balance; `dear N` would spend N tenths."""

    left = Loss(Fraction(1))
    limit = Loss(Fraction(2))

    def explain(self, text: str) -> Explanation:
        if not text.startswith("dear "):
            raise NameRefused(Diagnostic("DPQ201", "nothing to explain"))
        charge = Loss(Fraction(int(text.split()[1]), 10))
        promise = Guarantee(charge, ("person",), Neighbours.ADD_REMOVE)
        return Explanation(charge, (), (f"charge {charge}",), promise)

    @property
    def budget(self) -> Budget:
        return Budget(self.limit, self.limit - self.left, self.left)

    def tables(self) -> Answer:
        return Answer(pa.table({"table": ["staff"], "public": [False]}), NO_LOSS)

    def describe(self, name: str) -> Answer:
        return Answer(
            pa.table(
                {"column": ["dept"], "type": ["text"], "low": [None], "keys": ["'eng', 'hr'"]}
            ),
            NO_LOSS,
        )
