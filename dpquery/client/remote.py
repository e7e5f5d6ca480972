"""A session on a server: `dpquery.connect("postgresql://alice@host:5433/")`.

What it gives is what a session of one's own gives: the same answers, with every interval, and
the same refusals. Policy, data, ledger and noise are the server's; here nothing is decided.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from dpquery.answer import Answer
from dpquery.budget.statement_budget import read_price
from dpquery.client.server_connection import Link, misread, unfit
from dpquery.client.wire_format import loads
from dpquery.core.privacy_loss import exact_number
from dpquery.core.source_text import Source
from dpquery.errors import DPQueryError, QueryRefused
from dpquery.session_base import Usable

if TYPE_CHECKING:
    import pyarrow as pa

    from dpquery.plan.explain import Explanation
    from dpquery.session import Budget, Session
    from dpquery.session_methods.builder import Query
    from dpquery.session_methods.forecast import Asked, Forecast, Questions


AnySession: TypeAlias = "Session | RemoteSession"
"""What the shell, the DB-API and the builder ask."""


LONG = 1 << 16
"""Characters of a text that is too long for a statement: a server may not read the message."""
_SAYING = (("setting",), ("view",))
"""The columns of what is answered to a statement that changes the session."""

# A query loads neither engine nor parser here: they would take longer than its answer.


class RemoteSession(Usable):
    """One analyst's conversation with a server. Made by `dpquery.connect`."""

    def __init__(
        self, url: str, *, analyst: str | None = None, password: str | None = None
    ) -> None:
        """Connect.

        Raises:
            ServerUnusable: DPQ807 to DPQ811, there is no such server, or no such login.
            PolicyInvalid: DPQ608 the arguments do not fit.
        """
        super().__init__(threading.RLock())
        self._link = Link(url, analyst, password)
        self._chosen: dict[str, str] = {}
        """The statements that made this session what it is: a connection made anew begins with
        them. They cost nothing."""
        self._link.dial()

    @property
    def analyst(self) -> str:
        """Who asks: the login name."""
        return self._link.user

    def sql(
        self,
        text: str,
        *,
        refresh: bool = False,
        eps: object = None,
        delta: object = None,
    ) -> Answer:
        """Answer one statement, as `Session.sql` does.

        Raises:
            QueryRefused: the query is not answered; the budget is unchanged.
            ScanFailed: reading broke off, and the charge stays; or the connection did, and
                `SHOW LEDGER` says whether there is a charge.
        """
        with self._usable():
            source = self._source(text)
            given = self._price(source, eps, delta)
            answer: Answer = self._call("sql", text=text, refresh=bool(refresh), **given)
            if answer.columns in _SAYING:
                self._remember(source)
            return answer

    def explain(self, text: str, *, eps: object = None, delta: object = None) -> Explanation:
        """Return what a query would lose and how it would be answered; costs nothing."""
        with self._usable():
            given = self._price(self._source(text), eps, delta)
            explained: Explanation = self._call("explain", text=text, **given)
            return explained

    def plan(self, questions: Asked, epsilon: object, delta: object = None) -> Questions:
        """Share one epsilon out over questions, as `Session.plan` does.

        Raises:
            QueryRefused: DPQ805 no questions, or one states more than its share; or what
                EXPLAIN refuses of one.
        """
        from dpquery.session_methods.forecast import share_out

        return share_out(self, questions, epsilon, delta)

    def forecast(self, statements: Sequence[str]) -> Forecast:
        """Foresee what statements would cost, asked in this order; nothing is charged."""
        from dpquery.session_methods.forecast import forecast

        return forecast(self, statements)

    def columns(self, text: str) -> pa.Schema:
        """Return names and types of what a statement would answer; costs nothing.

        Raises:
            QueryRefused: it would not be answered.
        """
        with self._usable():
            self._source(text)
            return self._call("columns", text=text)

    @property
    def budget(self) -> Budget:
        """The binding limit among those that the server has for who asks."""
        with self._usable():
            budget: Budget = self._call("budget")
            return budget

    def ledger(self) -> Answer:
        """Return this analyst's charges, oldest first."""
        with self._usable():
            return self._answer("ledger")

    def losses(self, text: str | None = None) -> Answer:
        """Return what this analyst's charges have lost, or what a query would, as `Session`.

        Raises:
            QueryRefused: the text is not a query that could be asked.
        """
        with self._usable():
            if text is None:
                return self._answer("losses")
            self._source(text)
            return self._answer("losses", text=text)

    def tables(self) -> Answer:
        """Return the tables of the server's policy, and the views of this session."""
        with self._usable():
            return self._answer("tables")

    def describe(self, name: str) -> Answer:
        """Return the columns of a table or a view.

        Raises:
            NameRefused: DPQ201 there is none, DPQ805 the name is no text.
        """
        with self._usable():
            _require_name(name, "session.describe('staff')")
            return self._answer("describe", name=name)

    def table(self, name: str) -> Query:
        """Begin a query over a table or a view; nothing is asked before it is run.

        Raises:
            NameRefused: DPQ201, DPQ805 as `describe`.
        """
        with self._usable():
            from dpquery.session_methods.builder import Query

            _require_name(name, "session.table('staff')")
            self._answer("describe", name=name)
            return Query(self, name)

    def above_threshold(
        self, threshold: int, eps: object, max_rows_contributed: int | None = None
    ) -> NoReturn:
        """Refuse: what a stream keeps between its questions must not leave the server.

        Raises:
            PolicyInvalid: DPQ608 always.
        """
        raise unfit(
            "a server takes no streams of questions",
            "between two questions the noisy threshold would have to wait for the next.",
            'session.sql("SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE age > 65")',
        )

    def _let_go(self) -> None:
        self._link.close()

    # What a session of one's own refuses of Python's values, before it reads a statement, is
    # refused here, and in the same words.

    def _source(self, text: str) -> Source:
        if not isinstance(text, str):
            from dpquery.sql.parse.literals import no_statement

            raise self._told(no_statement(text), Source(""))
        source = Source(text)
        if len(text) > LONG:
            from dpquery.sql.parse.text_checks import check_text

            try:
                check_text(source)
            except QueryRefused as refused:
                raise self._told(refused, source) from None
        return source

    def _price(self, source: Source, eps: object, delta: object) -> dict[str, str]:
        """Return what a statement may spend as it is sent: the server reads it exactly."""
        given = {"eps": eps, "delta": delta}
        sent = {name: str(value) for name, value in given.items() if value is not None}
        for name, text in sent.items():
            if _is_number(text) and not _is_number(given[name]):  # it only looks like one
                try:
                    read_price(name, given[name])
                except QueryRefused as refused:
                    raise self._told(refused, source) from None
        return sent

    def _told(self, refused: QueryRefused, source: Source) -> QueryRefused:
        """Add to a refusal the text that it is about, and the balance."""
        refused.source = source
        refused.budget = f"unchanged; {self._answer('tables').budget}"
        return refused

    # What is sent, and what is said again where a connection had to be made anew.

    def _answer(self, do: str, **arguments: object) -> Answer:
        answer: Answer = self._call(do, **arguments)
        return answer

    def _call(self, do: str, **arguments: object) -> Any:
        """Have the server do something; connect first, where a connection broke before."""
        if not self._link.standing:
            self._link.dial()
            for said in list(self._chosen.values()):
                with suppress(QueryRefused):  # the policy is another one: what reads it says so
                    self._value("sql", text=said)
        return self._value(do, **arguments)

    def _value(self, do: str, **arguments: object) -> Any:
        body, stopped = self._link.call(do, arguments)
        try:
            value = loads(body)
        except ValueError:
            raise misread(self._link.place) from None
        if isinstance(value, DPQueryError):
            raise value
        if stopped:
            raise KeyboardInterrupt(_late(value))
        return value

    def _remember(self, source: Source) -> None:
        """Keep what a new connection needs to go on: a price of statements, and views."""
        from dpquery.sql.commands import Create, Drop, Set, read_aside

        match read_aside(source):
            case Set(name):
                self._chosen[f"dp.{name}"] = source.text
            case Create(name=name):
                self._chosen[f"view {name.lower()}"] = source.text
            case Drop(name=name):
                self._chosen.pop(f"view {name.lower()}", None)


def _require_name(name: object, remedy: str) -> None:
    if not isinstance(name, str):
        from dpquery.sql.parse.literals import require_name

        require_name(name, remedy)


def _is_number(value: object) -> bool:
    try:
        exact_number(value)
    except ValueError:
        return False
    return True


def _late(value: object) -> str:
    """Say what was spent on a statement that had ended before it could be stopped."""
    if isinstance(value, Answer) and value.budget:
        return f"stopped too late; {value.loss} spent; {value.budget}; asked again, it is free"
    return "stopped; nothing was charged"
