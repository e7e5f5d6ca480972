"""One connection of a client who has logged in: statements, portals, and how they end.

Describing a statement costs nothing. A portal is charged when it is executed first; fetching
more of its rows, whichever way, reads the answer that is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from dpquery.server.postgres import messages, row_messages, statement_kinds
from dpquery.server.postgres.login import Start, Streams
from dpquery.server.postgres.messages import Malformed, Parts, Refused
from dpquery.server.postgres.prepare_and_execute import Asker, Prepared, Result, lines_of
from dpquery.server.postgres.statement_kinds import (
    Call,
    Close,
    Copy,
    Declare,
    Done,
    Fetch,
    Forget,
    Query,
    Setting,
    Showing,
    Transaction,
)
from dpquery.server.postgres.type_codecs import Unreadable, decoded_value
from dpquery.server.worker_messages import Fault

IDLE, OPEN, FAILED = b"I", b"T", b"E"
"""Where a transaction stands."""
_FULL = 1 << 16
"""Bytes that are gathered before they are sent."""
INTERNAL = Fault("", "XX000", "something went wrong here: the connection ends", "")
MALFORMED = Fault(
    "", "08P01", "this is not the protocol of PostgreSQL: the connection ends", ""
)
STOPPING = Fault("", "57P01", "the server is stopping", "")
REMOVED = Fault("", "28000", "this user was removed: the connection ends", "")
_ABORTED = "the transaction has failed: nothing is done in it until ROLLBACK"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one connection may take."""

    message: int = 1 << 20
    """Bytes of a message."""
    statements: int = 1000
    """Prepared at a time."""
    portals: int = 100
    """And cursors."""
    login: float = 30.0
    """Seconds until somebody has logged in."""
    writing: float = 60.0
    """Seconds that a client may take to read what fills the buffers."""


@dataclass(slots=True)
class Portal:
    """A statement with its values, and how far its rows were read."""

    prepared: Prepared
    values: Sequence[Any] = ()
    formats: Sequence[bool] = ()
    hold: bool = False
    schema: pa.Schema | None = None
    """As it was described."""
    result: Result | None = None
    at: int = 0


@dataclass(slots=True)
class Connection:
    """Talks with one client until it leaves."""

    streams: Streams
    asker: Asker
    limits: Limits
    busy: bool = False
    """Whether a statement is being answered."""
    leaving: bool = False
    """Whether the server stops, once the statement is answered."""
    _status: bytes = IDLE
    _out: bytearray = field(default_factory=bytearray)
    _prepared: dict[str, Prepared] = field(default_factory=dict)
    _portals: dict[str, Portal] = field(default_factory=dict)
    _cursors: dict[str, Portal] = field(default_factory=dict)

    async def greet(self, start: Start, process: int, secret: bytes) -> None:
        """Tell a client what it should know, and set what it wants to be set.

        Raises:
            Refused: something of it cannot be.
        """
        if start.minor or start.unknown:
            told = b"".join(map(messages.text, start.unknown))
            self._put(messages.message(b"v", messages.int32(0, len(start.unknown)), told))
        for name, value in list(start.settings.items())[:50]:
            try:
                await self.asker.set(name, value)
            except Refused:
                if name.startswith("dp.") or name == "client_encoding":
                    raise
        for name, value in self.asker.settings.reported:
            self._put(messages.parameter_status(name, value))
        self._put(messages.message(b"K", messages.int32(process), secret))
        await self._ready()

    async def serve(self) -> None:
        """Do what the client says, until it leaves.

        Raises:
            Malformed: it no longer speaks the protocol.
        """
        skipping = False
        while True:
            letter, body = await messages.read_message(self.streams.reader, self.limits.message)
            if letter == b"X":
                return
            if not self.asker.known:
                await self.tell(REMOVED)
                return
            if letter == b"S":
                skipping = False
                if self._status == IDLE:
                    self._portals.clear()
                await self._ready()
                continue
            if letter in b"dcf" or skipping:
                continue  # what belongs to a COPY that was refused
            self.busy = True
            try:
                await self._one(letter, body)
            except Refused as refused:
                await self._refuse(refused)
                skipping = letter != b"Q"
            finally:
                self.busy = False
            if letter == b"Q":
                await self._ready()
            if self.leaving:
                await self.tell(STOPPING)
                return

    async def tell(self, fault: Fault) -> None:
        """Say last words, after what was gathered."""
        self._put(messages.error(fault, severity="FATAL"))
        await self._flush()

    def _put(self, message: bytes) -> None:
        self._out += message

    async def _flush(self) -> None:
        """Send what was gathered.

        Raises:
            TimeoutError: the client does not read.
        """
        writer, out = self.streams.writer, bytes(self._out)
        self._out.clear()
        if out:
            writer.write(out)
            async with asyncio.timeout(self.limits.writing):
                await writer.drain()

    async def _ready(self) -> None:
        self._put(messages.ready(self._status))
        await self._flush()

    async def _refuse(self, refused: Refused) -> None:
        """Tell of an error at once: some clients wait for it before they end a batch."""
        self._put(messages.error(refused.fault, refused.at))
        if self._status == OPEN:
            self._status = FAILED
        await self._flush()

    async def _one(self, letter: bytes, body: bytes) -> None:
        parts = Parts(body)
        match letter:
            case b"Q":
                await self._simple(parts)
            case b"P":
                self._parse(parts)
            case b"B":
                self._bind(parts)
            case b"D":
                await self._describe(parts)
            case b"E":
                await self._run(parts)
            case b"C":
                self._close(parts)
            case b"H":
                await self._flush()
            case _:
                raise Malformed

    # The simple way: a text with statements, each of which is charged by itself.

    async def _simple(self, parts: Parts) -> None:
        text = parts.text()
        parts.end()
        pieces = statement_kinds.split(text)
        if not pieces:
            self._put(messages.message(b"I"))
        for start, piece in pieces:
            prepared = self._read(piece, start)
            if prepared.oids:
                raise Refused.of("42P02", "a statement by itself has no parameters", start)
            await self._execute(Portal(prepared), described=False)

    def _read(self, text: str, start: int = 0, oids: Sequence[int] = ()) -> Prepared:
        statement = statement_kinds.read(text, start)
        ends = isinstance(statement, Transaction) and statement.tag in _ENDING
        if self._status == FAILED and not ends:
            raise Refused.of("25P02", _ABORTED, remedy="ROLLBACK")
        return self.asker.prepared(statement, oids)

    # The extended way: a statement is prepared, gets its values, and is executed.

    def _parse(self, parts: Parts) -> None:
        name, text = parts.text(), parts.text()
        oids = [parts.int32() & 0xFFFFFFFF for _ in range(parts.count())]
        parts.end()
        pieces = statement_kinds.split(text)
        if len(pieces) > 1:
            title = "a prepared statement is one statement"
            raise Refused.of("42601", title, pieces[1][0])
        if name and len(self._prepared) >= self.limits.statements:
            raise Refused.of(
                "54000", "too many statements are prepared", remedy="DEALLOCATE ALL"
            )
        empty = Prepared(Done(""))
        self._prepared[name] = self._read(text, 0, oids) if pieces else empty
        self._put(messages.message(b"1"))

    def _bind(self, parts: Parts) -> None:
        name, prepared = parts.text(), self._statement(parts.text())
        formats = parts.formats()
        raw = [parts.value() for _ in range(parts.count())]
        wanted = parts.formats()
        parts.end()
        if len(raw) != len(prepared.oids):
            title = f"the statement has {len(prepared.oids)} parameters, and {len(raw)} came"
            raise Refused.of("08P01", title)
        values: list[Any] = []
        for at, (value, oid) in enumerate(zip(raw, prepared.oids, strict=True)):
            try:
                binary = messages.is_binary(formats, at)
                values.append(decoded_value(value, oid, binary=binary))
            except Unreadable as unreadable:
                raise Refused.of("22P02", f"parameter ${at + 1}: {unreadable}") from None
        self._require_room(name)
        self._portals[name] = Portal(prepared, values, wanted)
        self._put(messages.message(b"2"))

    def _require_room(self, name: str) -> None:
        known = self._portals.keys() | self._cursors.keys()
        if name and name not in known and len(known) >= self.limits.portals:
            raise Refused.of("54000", "too many cursors are open", remedy="CLOSE ALL")

    def _statement(self, name: str) -> Prepared:
        if name not in self._prepared:
            raise Refused.of("26000", "there is no prepared statement of this name")
        return self._prepared[name]

    def _portal(self, name: str) -> Portal:
        portal = self._portals.get(name) or self._cursors.get(name)
        if portal is None:
            raise Refused.of("34000", "there is no cursor of this name", remedy="DECLARE it")
        return portal

    async def _describe(self, parts: Parts) -> None:
        kind, name = parts.raw(1), parts.text()
        parts.end()
        if kind == b"S":
            prepared = self._statement(name)
            schema = await self._columns(prepared)
            self._put(messages.parameters(prepared.oids))
            self._put_columns(schema, ())
        elif kind == b"P":
            portal = self._portal(name)
            portal.schema = await self._columns(portal.prepared, portal.values, portal)
            self._put_columns(portal.schema, portal.formats)
        else:
            raise Malformed

    async def _columns(
        self, prepared: Prepared, values: Sequence[Any] | None = None, of: Portal | None = None
    ) -> pa.Schema | None:
        """Return the columns of a statement's rows, if it has any."""
        if of is not None and of.result is not None:
            return of.result.table.schema
        match prepared.statement:
            case Fetch(name, _, "FETCH"):
                cursor = self._portal(name)
                return await self._columns(cursor.prepared, cursor.values, cursor)
            case Declare() if of is None or of not in self._cursors.values():
                return None
        return await self.asker.describe(prepared, values)

    def _put_columns(self, schema: pa.Schema | None, formats: Sequence[bool]) -> None:
        none = messages.message(b"n")
        self._put(none if schema is None else row_messages.description(schema, formats))

    async def _run(self, parts: Parts) -> None:
        name, limit = parts.text(), parts.int32()
        parts.end()
        portal = self._portal(name)
        statement = portal.prepared.statement
        ends = isinstance(statement, Transaction) and statement.tag in _ENDING
        if self._status == FAILED and not ends:
            raise Refused.of("25P02", _ABORTED, remedy="ROLLBACK")
        await self._execute(portal, max(limit, 0))

    def _close(self, parts: Parts) -> None:
        kind, name = parts.raw(1), parts.text()
        parts.end()
        if kind == b"S":
            self._prepared.pop(name, None)
        else:
            self._portals.pop(name, None)
            self._cursors.pop(name, None)
        self._put(messages.message(b"3"))

    # What statements do.

    async def _execute(self, portal: Portal, limit: int = 0, *, described: bool = True) -> None:
        """Do a statement, or go on with it.

        Args:
            portal: the statement, with its values.
            limit: how many rows are wanted; 0 means all.
            described: whether the client asks for the columns by itself, if it wants them.
        """
        match portal.prepared.statement:
            case Done(""):
                self._put(messages.message(b"I"))
            case Done(tag):
                self._end(tag)
            case Transaction(tag):
                self._transact(tag)
            case Setting(name, value, tag):
                told, said = await self.asker.set(name, value)
                self._end(tag, said, told)
            case Forget():
                await self._forget(portal.prepared.statement)
            case Declare(name, _, hold):
                await self._declare(name, portal, hold)
            case Close(name):
                self._shut(name)
            case Fetch():
                await self._fetch(portal.prepared.statement, portal.formats, described)
            case Copy(form=form):
                await self._copy(portal, form)
            case Query(tag=tag) if tag != "SELECT":
                result = await self.asker.answer(portal.prepared, portal.values)
                self._end(tag, lines_of(result.table))
            case Query() | Showing() | Call():
                await self._answer(portal, limit, described)

    async def _answer(self, portal: Portal, limit: int, described: bool) -> None:
        notices = await self._opened(portal)
        sent, more = await self._put_rows(portal, limit, portal.formats, described)
        if more:
            self._put_notices(notices)
            self._put(messages.message(b"s"))
        else:
            tags = {Showing: "SHOW", Call: "CALL"}
            tag = tags.get(type(portal.prepared.statement), f"SELECT {sent}")
            self._end(tag, notices)

    async def _opened(self, portal: Portal) -> Sequence[str]:
        """Have a portal answered, where it was not; return what is said beside the answer."""
        if portal.result is not None:
            return ()
        match portal.prepared.statement:
            case Showing(name):
                portal.result = self.asker.shown(name)
            case _:
                portal.result = await self.asker.answer(portal.prepared, portal.values)
        return portal.result.notices

    async def _put_rows(
        self, portal: Portal, limit: int, formats: Sequence[bool], described: bool
    ) -> tuple[int, bool]:
        """Send rows of a portal; return how many, and whether there are more."""
        assert portal.result is not None  # noqa: S101 - it was opened
        table = portal.result.table
        schema = portal.schema if described and portal.schema is not None else table.schema
        if schema != table.schema:
            table = _as_described(table, schema)
        if not described:
            self._put(row_messages.description(table.schema, formats))
        end = min(table.num_rows, portal.at + limit) if limit else table.num_rows
        part = table.slice(portal.at, end - portal.at)
        await self._put_all(row_messages.data(part, schema, formats, self.asker.settings.zone))
        portal.at = end
        return part.num_rows, end < table.num_rows

    async def _put_all(self, parts: Iterable[bytes]) -> None:
        for part in parts:
            self._put(part)
            if len(self._out) > _FULL:
                await self._flush()
                await asyncio.sleep(0)  # so that long answers leave others their turn

    def _put_notices(self, notices: Sequence[str]) -> None:
        if self.asker.settings.notices:
            self._out += b"".join(map(messages.notice, notices))

    def _end(
        self, tag: str, notices: Sequence[str] = (), told: Sequence[tuple[str, str]] = ()
    ) -> None:
        self._put_notices(notices)
        for name, value in told:
            self._put(messages.parameter_status(name, value))
        self._put(messages.complete(tag))

    def _transact(self, tag: str) -> None:
        match tag:
            case "BEGIN" | "START TRANSACTION":
                self._status = OPEN
            case "COMMIT" | "ROLLBACK":
                tag = "ROLLBACK" if self._status == FAILED else tag
                self._status = IDLE
                self._cursors = {name: one for name, one in self._cursors.items() if one.hold}
            case "ROLLBACK TO":
                tag = "ROLLBACK"
                self._status = OPEN
        self._end(tag)

    async def _forget(self, statement: Forget) -> None:
        told: Sequence[tuple[str, str]] = ()
        if statement.name:
            self._statement(statement.name)
            del self._prepared[statement.name]
        else:
            self._prepared.clear()
        if statement.tag == "DISCARD ALL":
            self._portals.clear()
            self._cursors.clear()
            told = await self.asker.forget()
        self._end(statement.tag, (), told)

    # Cursors.

    async def _declare(self, name: str, portal: Portal, hold: bool) -> None:
        self._require_room(name)
        if name in self._cursors:
            raise Refused.of("42P03", "there is a cursor of this name", remedy="CLOSE it")
        cursor = Portal(portal.prepared, portal.values, (), hold)
        await self.asker.describe(cursor.prepared, cursor.values)  # what is refused is told now
        self._cursors[name] = cursor
        self._end("DECLARE CURSOR")

    def _shut(self, name: str) -> None:
        if name and name not in self._cursors:
            raise Refused.of("34000", "there is no cursor of this name")
        for one in [name] if name else list(self._cursors):
            del self._cursors[one]
        self._end("CLOSE CURSOR" if name else "CLOSE CURSOR ALL")

    async def _fetch(self, fetch: Fetch, formats: Sequence[bool], described: bool) -> None:
        cursor = self._portal(fetch.name)
        notices = await self._opened(cursor)
        assert cursor.result is not None  # noqa: S101 - it was opened
        left = cursor.result.table.num_rows - cursor.at
        count = left if fetch.count is None else min(fetch.count, left)
        if fetch.tag == "MOVE":
            cursor.at += count
        elif count:
            await self._put_rows(cursor, count, formats, described)
        elif not described:
            self._put(row_messages.description(cursor.result.table.schema, formats))
        self._end(f"{fetch.tag} {count}", notices)

    async def _copy(self, portal: Portal, form: statement_kinds.Form) -> None:
        result = await self.asker.answer(portal.prepared, portal.values)
        await self._put_all(row_messages.copied(result.table, form, self.asker.settings.zone))
        self._end(f"COPY {result.table.num_rows}", result.notices)


_ENDING = ("COMMIT", "ROLLBACK", "ROLLBACK TO")


def _as_described(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows in the types that a client was told of, before values were known.

    Raises:
        Refused: they have others.
    """
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        return table.cast(schema)
    title = "the values given make other types of columns than were described"
    raise Refused.of("0A000", title, remedy="ask again: what was answered is repeated free")
