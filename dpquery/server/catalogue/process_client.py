"""What a door asks about tables and types: the twins, in processes of their own."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from dpquery.client.wire_format import arrow_table, dumps
from dpquery.errors import DPQueryError
from dpquery.policy.model import Policy
from dpquery.server.catalogue.pg_catalog_rows import OWNER
from dpquery.server.catalogue.pg_parser import Wanted
from dpquery.server.catalogue.policy_tables import ShownTable, as_json, shown_tables
from dpquery.server.catalogue.refusals import failed, too_long, unsupported
from dpquery.server.worker_messages import Fault, Reply, Request, packed
from dpquery.server.worker_pool import FAILED, Pool, Ticket, command_of

SECONDS = 10.0
"""How long a question may take until its process is ended."""
PROCESSES = 2
LOGGED = 2000
"""Characters of a statement that the log shows."""


@dataclass(frozen=True, slots=True)
class TwinSettings:
    """How a twin is run."""

    tables: tuple[ShownTable, ...]
    seconds: float = SECONDS

    @property
    def command(self) -> tuple[str, ...]:
        """What is run."""
        return command_of(
            "dpquery.server.catalogue.catalogue_process", seconds=self.seconds, network=False
        )

    @property
    def first(self) -> bytes:
        """What it is told as it begins: the schema, so that it reads no file."""
        return packed(Request("schema", "", arguments={"tables": as_json(self.tables)}))


def _unheard(event: str, **facts: object) -> None:
    """Keep no log."""


class Catalogue:
    """Answers questions about tables and types by the policy alone."""

    def __init__(self, tables: tuple[ShownTable, ...], log: Callable[..., None]) -> None:
        self._wanted = Wanted(tables)
        self._log = log
        self._pool = self._new_pool(tables)
        self.asked: Counter[str] = Counter()
        """How often questions were asked, by the SQLSTATE of their refusal; empty: answered."""

    @classmethod
    async def start(cls, policy: Policy, log: Callable[..., None] = _unheard) -> Catalogue:
        """Start the twins of a policy.

        Args:
            policy: whose schema is shown.
            log: takes an event and its facts, as `Service.log` does.

        Raises:
            RuntimeError: no process can be started.
        """
        started = cls(shown_tables(policy), log)
        fault = await started._pool.start()
        if fault is not None:
            await started.close()
            raise RuntimeError("the catalogue could not be started")
        return started

    async def renew(self, policy: Policy) -> None:
        """Show another policy; where its twins cannot be started, the old ones go on."""
        tables = shown_tables(policy)
        pool = self._new_pool(tables)
        if await pool.start() is not None:
            await pool.close()
            return
        old, self._pool, self._wanted = self._pool, pool, Wanted(tables)
        await old.retire()

    def _new_pool(self, tables: tuple[ShownTable, ...]) -> Pool:
        noted = lambda what: self._log("catalogue", what=what)  # noqa: E731
        return Pool(TwinSettings(tables), PROCESSES, noted)

    async def close(self) -> None:
        """End the twins."""
        await self._pool.close()

    def wants(self, text: str) -> bool:
        """Return whether a statement is about the catalogue, or about no table's rows."""
        return self._wanted.wants(text)

    async def ask(
        self,
        text: str,
        oids: Sequence[int],
        values: Sequence[object],
        user: str = OWNER,
        ticket: Ticket | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> Reply:
        """Answer a statement with rows as a stream of Arrow, or with a fault.

        Args:
            text: one query, in PostgreSQL's SQL.
            oids: the types of its parameters, 0 where they are left open.
            values: the values of its parameters, in Python's types or as texts.
            user: who asks.
            ticket: by which it can be stopped.
            settings: what their session has set.
        """
        try:
            written = dumps([*values]).decode()
        except (DPQueryError, UnicodeError):
            return failed(unsupported())
        rest: dict[str, object] = {
            "oids": [*oids],
            "values": written,
            "settings": dict(settings or {}),
        }
        return await self._asked("ask", text, user, rest, ticket)

    async def describe(
        self, text: str, oids: Sequence[int], user: str = OWNER
    ) -> tuple[list[int], pa.Schema] | Fault:
        """Return the types of a statement's parameters, and the columns of its answer."""
        reply = await self._asked("describe", text, user, {"oids": [*oids]})
        if reply.fault is not None:
            return reply.fault
        return json.loads(reply.tag), arrow_table(reply.body).schema

    async def _asked(
        self,
        do: str,
        text: str,
        user: str,
        rest: dict[str, object],
        ticket: Ticket | None = None,
    ) -> Reply:
        request = Request(do, user, arguments={"text": text, **rest})
        reply = await self._pool.ask(request, ticket)
        if reply is FAILED:
            reply = failed(too_long())
        sqlstate = reply.fault.sqlstate if reply.fault else ""
        self.asked[sqlstate] += 1
        if sqlstate:
            self._log("catalogue", refused=sqlstate, text=text[:LOGGED])
        return reply
