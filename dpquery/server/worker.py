"""A process that answers statements: the only one of a server that reads private files.

It has one database and no memory of its analysts: each request brings what its session came
to, so any worker can answer any of them, and one that dies takes nothing along.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from dpquery.answer import Answer
from dpquery.client.wire_format import arrow_bytes, dumps, loads
from dpquery.connecting import analyst_of
from dpquery.core.source_text import Source
from dpquery.database import Database
from dpquery.errors import (
    Diagnostic,
    DPQueryError,
    InternalError,
    PolicyInvalid,
    SessionUnusable,
)
from dpquery.plan.explain import Explanation
from dpquery.policy.load import load_policy
from dpquery.policy.model import DatabaseTable, External, Files, Policy
from dpquery.server.notices import notices_of
from dpquery.server.owner_calls import ORDERS, done
from dpquery.server.sandbox import confine, limit, limit_processor
from dpquery.server.web.page_data import FORMS, refusal_form
from dpquery.server.worker_messages import (
    Fault,
    Reply,
    Request,
    fault_of,
    packed,
    read_frame,
    request_of,
    tag_of,
)
from dpquery.session import Session
from dpquery.sql.parse.parameters import Values, with_values

Arguments = Mapping[str, Any]
_RATIO = re.compile(r"\d{1,999}/[1-9]\d{0,999}", re.ASCII)


def _sql(session: Session, given: Arguments) -> Answer:
    text = _written(given)
    return session.sql(text, refresh=bool(given.get("refresh", False)), **_price(given))


def _price(given: Arguments) -> dict[str, Any]:
    """Return what the statement may spend."""
    return {name: _number(given.get(name)) for name in ("eps", "delta")}


def _number(given: object) -> object:
    """Return a number as it was given: clients of our own send `1/3`, exactly."""
    if isinstance(given, str) and _RATIO.fullmatch(given):
        return Fraction(given)
    return given


def _written(given: Arguments) -> str:
    """Return the text of a statement, its values written for their marks."""
    text, values = given["text"], given.get("values")
    if values is None:
        return str(text)
    read: Values = loads(values.encode(), plain=True)
    return with_values(Source(text), read).text


CALLS: dict[str, Callable[[Session, Arguments], object]] = {
    "sql": _sql,
    "explain": lambda session, given: session.explain(_written(given), **_price(given)),
    "columns": lambda session, given: session.columns(_written(given)),
    "budget": lambda session, _: session.budget,
    "ledger": lambda session, _: session.ledger(),
    "losses": lambda session, given: session.losses(given.get("text")),
    "tables": lambda session, _: session.tables(),
    "describe": lambda session, given: session.describe(given["name"]),
    "begin": lambda _, __: None,
}
"""What can be asked of a worker."""


class Worker:
    """Answers requests, one after another."""

    def __init__(self, database: Database, seconds: float) -> None:
        self._database = database
        self._seconds = seconds
        self._busy = False

    def serve(self, requests: BinaryIO, replies: BinaryIO) -> None:
        """Answer what comes in until nothing more does."""
        signal.signal(signal.SIGINT, self._stop)
        while (frame := read_frame(requests)) is not None:
            replies.write(packed(self.answer(request_of(frame[0]))))
            replies.flush()

    def _stop(self, *_: object) -> None:
        """Break off what is being done; between two requests there is nothing to stop."""
        if self._busy:
            self._busy = False
            raise KeyboardInterrupt

    def answer(self, request: Request) -> Reply:
        """Do what is asked, and say how it ended."""
        limit_processor(self._seconds * (os.cpu_count() or 1))
        if request.do in ORDERS:
            return self._ordered(request)
        session: Session | None = None
        try:
            try:
                self._busy = True
                session = self._session(request)
                given = request.arguments or {}
                value = CALLS[request.do](session, given)
                self._busy = False  # what is charged and answered is told
                reply = _answered(value, request)
            finally:
                self._busy = False
        except KeyboardInterrupt as stop:
            said = str(stop) or "stopped; nothing was charged"
            reply = Reply("stopped", fault=Fault("", "57014", said, said))
        except DPQueryError as error:
            reply = self._refused(error, request)
        except Exception as fault:  # noqa: BLE001 - its text could be anything
            reply = self._refused(_mistake(self._database.log.note(fault)), request)
        if session is None:
            return reply
        return replace(reply, session=dumps(session.conversation).decode())

    def _ordered(self, request: Request) -> Reply:
        """Do what the data owner orders, who asks no data and has no session."""
        try:
            told = done(self._database, request.do, request.arguments or {})
        except DPQueryError as error:
            return Reply("refused", fault=fault_of(error), body=refusal_form(error))
        return Reply("answered", body=json.dumps(told).encode())

    def _session(self, request: Request) -> Session:
        earlier = None if request.session is None else loads(request.session.encode())
        analyst = analyst_of(self._database.policy, request.analyst)
        return Session(self._database, analyst, None, lent=True, earlier=earlier)

    def _refused(self, error: DPQueryError, request: Request) -> Reply:
        """Tell of an error; of files, which only the owner can mend, it tells them alone."""
        if isinstance(error, PolicyInvalid):
            error = _unavailable(self._database.log.note(error))
        body = b""
        if request.whole:
            body = refusal_form(error) if request.whole in FORMS else dumps(error)
        return Reply("refused", fault=fault_of(error), body=body)


def _mistake(reference: str) -> DPQueryError:
    why = "this is a mistake in dpquery. It may have been charged: SHOW LEDGER says so."
    remedy = f"report it with the query, and with reference {reference}"
    title = "the statement could not be answered"
    return InternalError(Diagnostic("DPQ901", title, why=(why,), remedy=(remedy,)))


def _unavailable(reference: str) -> DPQueryError:
    why = "its policy or its ledger needs mending, which the data owner can do."
    remedy = f"ask the data owner, with reference {reference}"
    title = "the server cannot answer now"
    return SessionUnusable(Diagnostic("DPQ806", title, why=(why,), remedy=(remedy,)))


def _answered(value: object, request: Request) -> Reply:
    if request.whole:
        written = FORMS.get(str(request.whole), dumps)
        return Reply("answered", body=written(value))
    if isinstance(value, Explanation):
        value = Answer(pa.table({"explanation": str(value).split("\n")}), value.charge)
    if isinstance(value, Answer):
        body = arrow_bytes(value.table)
        return Reply("answered", tag="SELECT", notices=notices_of(value), body=body)
    if isinstance(value, pa.Schema):
        return Reply("answered", body=arrow_bytes(value.empty_table()))
    return Reply("answered")


def readable(policy: Policy) -> set[Path]:
    """Return the folders of a policy's files: a file that is replaced has the same folder."""
    sources = [one.source for table in policy.tables.values() for one in table.way]
    places: set[Path] = set()
    for source in sources:
        match source:
            case Files(paths):
                places.update(path.parent for path in paths)
            case DatabaseTable(database):
                places.add(database.parent)
            case External(place=place) if "://" not in place:
                places.add(Path(place))
                places.add(Path(place).parent)
    return places


def writable(policy: Policy) -> set[Path]:
    """Return the folders of the ledger, of its mark, and of the log of faults."""
    ledger = policy.ledger
    return {path.parent for path in (ledger.path, ledger.high_water, ledger.faults) if path}


def main(settings: Mapping[str, Any], *, unplugged: bool) -> None:
    """Answer the requests of the server that has started this process."""
    requests, replies = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints is no reply
    try:
        policy = load_policy(Path(settings["policy"]))
        limit(settings["memory"])
        for folder in writable(policy):
            with suppress(OSError):  # opening the ledger says so
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A thread that runs already stays free: so first this, and then engines and ledger.
        network = bool(settings["network"])
        confined = confine(readable(policy), writable(policy), network=network)
        database = Database(policy)
        begun = Reply("answered", tag=tag_of(confined=confined, unplugged=unplugged))
    except DPQueryError as error:
        fault = Fault(error.code, error.sqlstate, error.diagnostic.title, str(error))
        begun = Reply("failed", fault=fault)
    replies.write(packed(begun))
    replies.flush()
    if begun.fault is None:
        Worker(database, settings["seconds"]).serve(requests, replies)
