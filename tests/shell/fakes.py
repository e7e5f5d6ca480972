"""A session that answers from a dictionary, so that the command line is tested alone."""

from __future__ import annotations

from contextlib import contextmanager
from fractions import Fraction

import pyarrow as pa

from dpquery.answer import Answer
from dpquery.core.privacy_loss import Loss
from dpquery.core.source_text import Source, Span
from dpquery.errors import BudgetRefused, Diagnostic, RuleRefused, ScanFailed

RAW = "SELECT salary FROM staff"


def answer(n: int, budget: str = "1.5 of 2 left", *notes: str) -> Answer:
    return Answer(pa.table({"n": [n]}), Loss(Fraction(1, 2)), (), budget, notes)


class FakeSession:
    """Stands in for `dpquery.session.Session`; remembers what it was asked."""

    replies: dict[str, object] = {  # noqa: RUF012
        "one": answer(1),
        "two": answer(2, "1 of 2 left"),
        "noted": answer(3, "", "each row is its own unit"),
        RAW: RuleRefused(
            Diagnostic("DPQ301", "salary cannot be shown row by row", Span(7, 13)), Source(RAW)
        ),
        "dear": BudgetRefused(Diagnostic("DPQ501", "too much"), Fraction(9), Fraction(1)),
        "torn": ScanFailed(Diagnostic("DPQ701", "the scan did not finish")),
        "wrong": ValueError("salary of Ann is 4711"),
        "stop": KeyboardInterrupt(),
    }

    def __init__(self) -> None:
        self.opened: list[tuple[str, dict[str, object]]] = []
        self.asked: list[str] = []
        self.closed = 0

    @contextmanager
    def connect(self, source: str, **settings: object):
        self.opened.append((source, settings))
        yield self
        self.closed += 1

    def sql(self, text: str) -> Answer:
        self.asked.append(text)
        reply = self.replies.get(text, answer(0))
        if isinstance(reply, BaseException):
            raise reply
        assert isinstance(reply, Answer)
        return reply
