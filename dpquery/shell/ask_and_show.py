"""Asks a session at the prompt, statement by statement, and shows what comes back.

It keeps the settings that the dot commands change. It goes on after every refusal and fault,
says what each has spent, and asks before a query takes a large share of what is left: once
charged, nothing is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from io import BytesIO
from time import perf_counter

from dpquery.answer import Answer
from dpquery.client.remote import AnySession
from dpquery.core.privacy_loss import NO_LOSS, Loss
from dpquery.core.source_text import visible
from dpquery.display.charts import as_text
from dpquery.display.formats import BINARY, FORMATS
from dpquery.editing.cursor_context import Statement
from dpquery.errors import DPQueryError
from dpquery.shell.arguments import UsageError
from dpquery.shell.batch import Output, stopped, unexpected, writing
from dpquery.shell.terminal import Terminal, reading

DIM, REFUSED = "dim", "red"


class Desk:
    """One analyst's session with the settings of the prompt."""

    def __init__(self, session: AnySession, console: Terminal, mode: str = "table") -> None:
        self.session = session
        self.console = console
        self.mode = mode
        self.timer = False
        self.intervals = False
        """Whether the ends of intervals are columns of their own."""
        self.confirm: Fraction | None = Fraction(1, 4)
        """The share of what is left that a query may spend unasked; None: any."""
        self.output: Output | None = None
        """The file that answers go to; None: the screen."""
        self.leaving = False
        self._last: Answer | None = None
        self._noted: set[str] = set()

    def ask(self, text: str) -> bool:
        """Ask one statement; say whether it was answered."""
        with self._surviving():
            self._require_output()
            if not self._agreed(text):
                self.console.say("not asked, nothing is spent", DIM)
                return False
            started = perf_counter()
            self._last = self._answer(text)
            took = perf_counter() - started
            self._show(self._last)
            self._comment(self._last)
            if self.timer:
                self.console.say(f"{took:.3f} s", DIM)
            return True
        return False

    def again(self) -> bool:
        """Show the last answer once more, in the mode and at the place of now."""
        with self._surviving():
            if self._last is None:
                raise UsageError("there is no answer yet")
            self._require_output()
            self._show(self._last)
            return True
        return False

    def plot(self, column: str) -> bool:
        """Draw the last answer: a column of it, or the first noisy one."""
        with self._surviving():
            if self._last is None:
                raise UsageError("there is no answer yet")
            try:
                chart = self._last.chart(column or None)
            except ValueError as error:
                raise UsageError(str(error)) from None
            self.console.draw(lambda width, plain: as_text(chart, width, plain=plain))
            return True
        return False

    @property
    def answered(self) -> tuple[str, ...]:
        """The columns of the last answer."""
        return () if self._last is None else self._last.columns

    def ask_each(self, script: list[Statement]) -> bool:
        """Ask one statement after the other, up to the first that is not answered."""
        for at, statement in enumerate(script):
            if not self.ask(statement.text):
                if len(script) > 1:
                    where = f"line {statement.line}: {at} of {len(script)} answered"
                    self.console.say(f"stopped at {where}", REFUSED)
                return False
        return True

    def tell(self, what: Callable[[], object]) -> bool:
        """Say something in full, whatever the mode; say whether there was no refusal."""
        with self._surviving():
            self.console.say(what())
            return True
        return False

    def direct(self, output: Output | None) -> None:
        """Send answers to a file from now on, or to the screen."""
        if self.output is not None:
            self.output.close()
        self.output = output

    @contextmanager
    def _surviving(self) -> Iterator[None]:
        """Return what went wrong, and go on."""
        try:
            yield
        except (DPQueryError, UsageError) as error:
            self.console.say(error, REFUSED)
        except Exception as error:  # noqa: BLE001 - whatever it is, its text must not surface
            self.console.say(unexpected(error), REFUSED)

    def _answer(self, text: str) -> Answer:
        try:
            with self.console.busy(reading(text)):
                return self.session.sql(text)
        except KeyboardInterrupt as stop:
            raise UsageError(stopped(stop)) from None

    def _agreed(self, text: str) -> bool:
        """Ask before a query that is dear, and can be paid."""
        if self.confirm is None:
            return True
        try:
            charge = self.session.explain(text).charge
        except DPQueryError:  # asking says so better, and SHOW has nothing to explain
            return True
        left = self.session.budget.left
        cheap = Loss(self.confirm * left.epsilon, self.confirm * left.delta)
        if not charge.within(left) or charge.within(cheap):
            return True
        what = f"this query spends {charge} of the {left} left, and {left - charge} stays"
        return self.console.agrees(f"{what}; ask it?")

    def _require_output(self) -> None:
        """Find out before anything is charged that an answer could not be written."""
        if self.mode not in BINARY:
            return
        if self.output is None:
            raise UsageError(f"{self.mode} is not for terminals: name a file with .output FILE")
        if self.output.written:
            raise UsageError(f"a file of {self.mode} holds one answer: name another by .output")

    def _show(self, answer: Answer) -> None:
        answer = answer.with_intervals() if self.intervals else answer
        if self.output is not None:
            self.output.form = self.mode
            with writing():
                self.output.write(answer)
        elif self.mode == "table":
            self.console.page(answer.to_text())
        else:
            stream = _Screen()
            FORMATS[self.mode](answer, stream)
            lines = stream.getvalue().decode().splitlines()
            self.console.say("\n".join(map(visible, lines)))

    def _comment(self, answer: Answer) -> None:
        for note in answer.notes:
            if note not in self._noted:
                self.console.say(f"note: {visible(note)}", DIM)
        self._noted.update(answer.notes)
        if answer.loss != NO_LOSS:
            self.console.say(f"budget: {answer.budget}", DIM)


class _Screen(BytesIO):
    """Takes what is written for a terminal."""

    def isatty(self) -> bool:
        return True
