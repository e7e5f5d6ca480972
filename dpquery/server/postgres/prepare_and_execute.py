"""What a connection asks on behalf of its client: the service, or the catalogue's twin."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from dpquery.client.wire_format import arrow_table
from dpquery.server.postgres import call_statement
from dpquery.server.postgres.bind_parameters import Bound, Template, stand_ins, template_of
from dpquery.server.postgres.messages import Refused
from dpquery.server.postgres.settings import Settings
from dpquery.server.postgres.statement_kinds import (
    Call,
    Copy,
    Declare,
    Query,
    Showing,
    Statement,
    argument,
)
from dpquery.server.postgres.type_codecs import UNKNOWN
from dpquery.server.service import Client, Service
from dpquery.server.worker_messages import Fault, Reply
from dpquery.server.worker_pool import Ticket


class Catalogue(Protocol):
    """What answers questions about tables and types, from the policy alone."""

    def wants(self, text: str) -> bool:
        """Return whether it answers a statement."""

    async def ask(
        self,
        text: str,
        oids: Sequence[int],
        values: Sequence[Any],
        user: str = ...,
        ticket: Ticket | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Reply:
        """Answer a statement."""

    async def describe(
        self, text: str, oids: Sequence[int], user: str = ...
    ) -> tuple[Sequence[int], pa.Schema] | Fault:
        """Return the types of parameters, and the columns of the answer."""


@dataclass(slots=True)
class Prepared:
    """A statement that was read."""

    statement: Statement
    template: Template = field(default_factory=lambda: Template(""))
    oids: list[int] = field(default_factory=list)
    """Of its parameters; of the catalogue's, once they are described."""
    catalogue: bool = False
    schema: pa.Schema | None = None
    """Of its rows, once they are described without values."""

    @property
    def query(self) -> Query | None:
        """The part that is asked of somebody, if any is."""
        match self.statement:
            case Query() as query:
                return query
            case Declare(query=query) | Copy(query=query) | Call(argument=query):
                return query
        return None


@dataclass(frozen=True, slots=True)
class Result:
    """Rows, and what is said beside them."""

    table: pa.Table
    notices: tuple[str, ...] = ()


class Asker:
    """Asks for one client."""

    def __init__(self, service: Service, catalogue: Catalogue, client: Client) -> None:
        self._service, self._catalogue = service, catalogue
        self.client = client
        self.settings = Settings(client.name)
        self._ticket: Ticket | None = None

    @property
    def known(self) -> bool:
        """Whether who logged in is still a user."""
        return self._service.knows(self.client)

    def stop(self) -> None:
        """Have the statement that runs stopped; where none runs, nothing is."""
        if self._ticket is not None:
            self._ticket.stop()

    def prepared(self, statement: Statement, declared: Sequence[int] = ()) -> Prepared:
        """Take a statement that was read, and the types that its client says it has."""
        made = Prepared(statement)
        query = made.query
        if query is None:
            return made
        made.template = template_of(query.text, self._service.policy)
        guesses = made.template.guesses
        made.catalogue = query.readable and self._catalogue.wants(query.text)
        if made.catalogue:
            guesses = [0] * len(guesses)
        known = [*declared, *[0] * (len(guesses) - len(declared))]
        guesses += [0] * (len(known) - len(guesses))
        made.oids = [
            guess if oid in (0, UNKNOWN) else oid
            for oid, guess in zip(known, guesses, strict=True)
        ]
        return made

    async def describe(
        self, prepared: Prepared, values: Sequence[Any] | None = None
    ) -> pa.Schema | None:
        """Return the columns of a statement's rows; None where it has none.

        Without values for its parameters, it is planned with values that stand for them.

        Raises:
            Refused: it would not be answered.
        """
        match prepared.statement:
            case Showing(name):
                return self.shown(name).table.schema
            case Call():
                return call_statement.SCHEMA
            case Query(tag="SELECT") | Declare():
                return await self._schema(prepared, values)
        return None

    async def _schema(self, prepared: Prepared, values: Sequence[Any] | None) -> pa.Schema:
        query = prepared.query
        if query is None or prepared.schema is not None:
            return prepared.schema
        if prepared.catalogue:
            found = await self._catalogue.describe(query.text, prepared.oids, self.client.name)
            if isinstance(found, Fault):
                raise _refused(found, query, Bound(query.text))
            prepared.oids, prepared.schema = list(found[0]), found[1]
            return prepared.schema
        if values is not None and prepared.oids:
            return await self._planned(query, prepared.template.bound(values))
        first: Refused | None = None
        for tried in stand_ins(prepared.oids):
            try:
                prepared.schema = await self._planned(query, prepared.template.bound(tried))
            except Refused as refused:
                first = first or refused
            if prepared.schema is not None or not prepared.oids:
                break
        if prepared.schema is None and first is not None:
            raise first
        return prepared.schema

    async def _planned(self, query: Query, bound: Bound) -> pa.Schema:
        reply = await self._asked(query, bound, "columns", {"text": bound.text})
        return arrow_table(reply.body).schema

    async def answer(self, prepared: Prepared, values: Sequence[Any]) -> Result:
        """Return the rows of a statement: this is where it is charged.

        Raises:
            Refused: it is not answered, or it was stopped.
        """
        query = prepared.query
        if query is None:
            raise Refused.of("0A000", "this statement has no rows")
        if isinstance(prepared.statement, Call):
            return await self._called(prepared, values)
        if prepared.catalogue:
            reply = await self._looked_up(query.text, prepared.oids, values)
            if reply.fault is not None:
                raise _refused(reply.fault, query, Bound(query.text))
        else:
            bound = prepared.template.bound(values)
            given = {"text": bound.text, "refresh": self.client.refresh}
            reply = await self._asked(query, bound, "sql", given)
        return Result(arrow_table(reply.body), reply.notices)

    async def _called(self, prepared: Prepared, values: Sequence[Any]) -> Result:
        do, arguments = call_statement.call_of(argument(prepared.template.bound(values).text))
        reply = await self._ask(do, arguments, whole=True)
        if not reply.body:
            raise Refused(reply.fault or _NOTHING)
        return Result(pa.table({"reply": [reply.body]}, schema=call_statement.SCHEMA))

    async def _asked(self, query: Query, bound: Bound, do: str, given: dict[str, Any]) -> Reply:
        reply = await self._ask(do, given)
        if reply.fault is not None:
            raise _refused(reply.fault, query, bound)
        return reply

    async def _ask(self, do: str, given: dict[str, Any], *, whole: bool = False) -> Reply:
        if self.client.owner and self.client.name not in self._service.policy.analysts:
            title, remedy = "the data owner asks no data", "log in as an analyst"
            raise Refused.of("42501", title, remedy=remedy)
        with self._stoppable() as ticket:
            return await self._service.ask(self.client, do, given, whole=whole, ticket=ticket)

    async def _looked_up(self, text: str, oids: Sequence[int], values: Sequence[Any]) -> Reply:
        who, settings = self.client.name, self.settings.all
        with self._stoppable() as ticket:
            return await self._catalogue.ask(text, oids, values, who, ticket, settings)

    @contextmanager
    def _stoppable(self) -> Iterator[Ticket]:
        """Give what is asked a ticket, by which its client or its time-out stops it."""
        self._ticket = ticket = Ticket()
        seconds = self.settings.seconds
        timer = seconds and asyncio.get_running_loop().call_later(seconds, ticket.stop)
        try:
            yield ticket
        finally:
            self._ticket = None
            if timer:
                timer.cancel()

    # Settings.

    async def set(
        self, name: str, value: str | None
    ) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
        """Change a setting; return what clients are told of it, and lines beside.

        Raises:
            Refused: it cannot be so.
        """
        if name == "all":
            await self._forget_price()
            return self.settings.clear(), ()
        name = {"dp.epsilon": "dp.eps"}.get(name, name)
        said: tuple[str, ...] = ()
        if name == "dp.refresh":
            self.client.refresh = _switch(value)
            value = "on" if self.client.refresh else "off"
        elif name in ("dp.eps", "dp.delta"):
            text = f"RESET {name}" if value is None else f"SET {name} = {value}"
            reply = await self._ask("sql", {"text": text})
            if reply.fault is not None:
                raise Refused(reply.fault)
            said = lines_of(arrow_table(reply.body))
        told = self.settings.set(name, value)
        return [told] if told else [], said

    async def _forget_price(self) -> None:
        self.client.refresh = False
        for name in ("dp.eps", "dp.delta"):
            if self.settings.get(name):
                await self.set(name, None)

    async def forget(self) -> list[tuple[str, str]]:
        """Begin anew: without settings, and without views."""
        self.client.session, self.client.refresh = None, False
        return self.settings.clear()

    def shown(self, name: str) -> Result:
        """Return a setting as a row.

        Raises:
            Refused: there is none of that name.
        """
        if name == "all":
            known = self.settings.all
            return Result(pa.table({"name": [*known], "setting": [*known.values()]}))
        value = self.settings.get({"dp.epsilon": "dp.eps"}.get(name, name))
        if value is None:
            raise Refused.of("42704", "there is no such setting", remedy="SHOW ALL")
        return Result(pa.table({name: [value]}))


_NOTHING = Fault("", "XX000", "there is no answer", "there is no answer")


def lines_of(table: pa.Table) -> tuple[str, ...]:
    """Return the rows of a statement that only says what it did."""
    return tuple(str(line) for line in table.column(0).to_pylist())


def _switch(value: str | None) -> bool:
    word = (value or "off").lower()
    if word in ("on", "true", "1", "yes"):
        return True
    if word in ("off", "false", "0", "no"):
        return False
    raise Refused.of("22023", "dp.refresh is on or off", remedy="SET dp.refresh = on")


def _refused(fault: Fault, query: Query, bound: Bound) -> Refused:
    """Have an error point into what the client sent."""
    return Refused(
        fault, None if fault.start is None else query.start + bound.origin(fault.start)
    )
