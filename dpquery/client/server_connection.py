"""A connection to a server of dpquery, over PostgreSQL's protocol, for one statement at a time.

What is asked is `CALL dpquery('...')`, and what comes back is one value as `wire` writes it. A
statement that was sent is never sent again: whether it was charged, its sender cannot know.
"""

from __future__ import annotations

import json
import re
import selectors
from collections.abc import Mapping
from contextlib import suppress
from time import monotonic
from types import ModuleType
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from dpquery.core.source_text import visible
from dpquery.errors import Diagnostic, DPQueryError, PolicyInvalid, ScanFailed, ServerUnusable

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.pq.abc import PGconn, PGresult

SCHEMES = ("postgresql://", "postgres://")
"""How the URL of a server begins."""
_PATIENCE = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "application_name": "dpquery",
}
"""A host that is gone is noticed in half a minute; the URL may say otherwise."""
ASKS = "DPQ808"
"""The code of a server that asks for a password."""
GRACE = 15.0
"""Seconds in which a server says what a statement has spent that was stopped."""
_NUMBERED = re.compile(r"^\[?DPQ\d{3}\]?:? +")
_SERVER = re.compile(r"\(dpquery ([\w.+!-]+)\)")
_STOPPED, _FAILED = "57014", "58000"
_ENDING = ("08", "57P")
"""How the SQLSTATE begins of what a server says as it hangs up."""


class Link:
    """A connection, which can be made again once it is broken."""

    def __init__(self, url: str, user: str | None = None, password: str | None = None) -> None:
        """Read a URL; nothing is connected yet.

        Raises:
            PolicyInvalid: DPQ608 it cannot be read, or somebody else logs in by it.
            ServerUnusable: DPQ811 the driver is not installed.
        """
        self._driver = _driver()
        self._told = self._read(url)
        if user is not None and self._told.setdefault("user", user) != user:
            raise unfit(
                "analyst= is not who logs in",
                "on a server the login name is the analyst, whose budget is spent.",
                f'dpquery.connect("{SCHEMES[0]}{quote(str(user))}@...")',
            )
        if password is not None:
            self._told["password"] = password
        self._connection: Connection[Any] | None = None
        host, port = self._told.get("host", "localhost"), self._told.get("port", "5432")
        self.place = f"{host}:{port}"

    def _read(self, url: str) -> dict[str, str]:
        try:
            found = self._driver.conninfo.conninfo_to_dict(url)
        except self._driver.Error:
            found = None
        if found is None:  # what the driver says could quote a password
            raise unfit(
                "the URL of the server cannot be read",
                "it is postgresql://NAME@HOST:PORT/, and a password is better kept out of it.",
                'dpquery.connect("postgresql://alice@db.example.org:5433/")',
            )
        return {name: str(value) for name, value in found.items() if value is not None}

    @property
    def user(self) -> str:
        """Who logs in."""
        return self._told.get("user", "")

    # Connecting: whether it is a server of dpquery, and of which version, is known before it is
    # asked.

    @property
    def standing(self) -> bool:
        """Whether a statement can be sent: a connection that was idle may be found broken."""
        if self._connection is None:
            return False
        pgconn = self._connection.pgconn
        try:
            with selectors.DefaultSelector() as ready:
                ready.register(pgconn.socket, selectors.EVENT_READ)
                while ready.select(0):  # last words may stand before the end
                    pgconn.consume_input()
        except self._driver.Error:
            self.close()
            return False
        return True

    def dial(self) -> None:
        """Connect.

        Raises:
            ServerUnusable: DPQ807 there is no connection; DPQ808, DPQ809 no login; DPQ810 it
                leads elsewhere.
        """
        self.close()
        try:
            self._connection = self._driver.connect(
                **{**_PATIENCE, **self._told}, autocommit=True
            )
        except self._driver.Error as error:
            refused: ServerUnusable | None = self._undialled(error)
        else:
            refused = self._misled(self._connection)
            self._told["user"] = self._connection.info.user
        if refused is not None:
            self.close()
            raise refused

    def _undialled(self, error: Any) -> ServerUnusable:
        """Say why there is no connection: what a driver here, or the server, has said of it."""
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        said = visible(re.sub(r"^connection (failed|is bad): ", "", lines[0])) if lines else ""
        who = self._told.get("user", "you")
        if getattr(error.pgconn, "needs_password", False):
            return unusable(
                ASKS,
                f"the server at {self.place} asks {who} for a password",
                "it admits nobody without one, and none was given.",
                "put it into PGPASSWORD or ~/.pgpass",
                "in Python: dpquery.connect(..., password=getpass.getpass())",
                sqlstate="28P01",
            )
        if getattr(error.pgconn, "used_password", False) and "password" in said:
            return unusable(
                "DPQ809",
                f"the server at {self.place} does not take this password of {who}",
                "it tells the same of a name that it does not know.",
                "ask the data owner, who gives another: dpquery user passwd POLICY NAME",
                sqlstate="28P01",
            )
        return unusable(
            "DPQ807",
            f"there is no connection to {self.place}",
            said.rpartition("FATAL: ")[2].strip() or "the driver does not say why.",
            "ask the data owner for host and port, and whether the server is up",
            sqlstate="08001",
        )

    def _misled(self, connection: Connection[Any]) -> ServerUnusable | None:
        from dpquery import __version__

        version = connection.info.parameter_status("server_version") or "nothing"
        found = _SERVER.search(version)
        if found is None:
            return unusable(
                "DPQ810",
                f"{self.place} is not a server of dpquery",
                f"it calls itself PostgreSQL {visible(version)}, whose answers have no noise.",
                "ask the data owner for host and port",
                "for tables of a database, write a policy: dpquery explain sources",
                sqlstate="08001",
            )
        if found[1] != __version__:
            return unusable(
                "DPQ810",
                f"{self.place} has dpquery {found[1]}, and this is {__version__}",
                "what one version sends, another may not read.",
                f"pip install 'dpquery[postgres]=={found[1]}'",
                sqlstate="08001",
            )
        return None

    def close(self) -> None:
        """Hang up; hanging up twice is fine."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(self._driver.Error):
                connection.close()

    # Asking.

    def call(self, do: str, arguments: Mapping[str, Any]) -> tuple[bytes, bool]:
        """Have something done; return what the reply holds, and whether ctrl-C came too late.

        Raises:
            KeyboardInterrupt: it was stopped; its text is what the server says was spent.
            ScanFailed: DPQ703 the connection broke off; DPQ701 the server's process did.
            ServerUnusable: the server does not do it now.
        """
        assert self._connection is not None  # noqa: S101 - `dial` was called
        call = json.dumps({"do": do, "arguments": arguments}).replace("'", "''")
        pgconn, stopped = self._connection.pgconn, False
        try:
            try:
                pgconn.send_query_params(
                    f"CALL dpquery('{call}')".encode(), None, result_format=1
                )
                result = self._result(pgconn)
            except KeyboardInterrupt:
                if pgconn.transaction_status != self._driver.pq.TransactionStatus.ACTIVE:
                    raise
                stopped = True
                result = self._stop(self._connection)
        except self._driver.Error:
            self.close()
            raise _lost(do) from None
        return self._body(result, do, stopped=stopped), stopped

    def _result(self, pgconn: PGconn, seconds: float | None = None) -> PGresult | None:
        """Wait for the last result of a statement; None where it takes longer."""
        until = None if seconds is None else monotonic() + seconds
        last = None
        with selectors.DefaultSelector() as ready:
            ready.register(pgconn.socket, selectors.EVENT_READ | selectors.EVENT_WRITE)
            sending = True
            while True:
                if sending and not pgconn.flush():
                    sending = False
                    ready.modify(pgconn.socket, selectors.EVENT_READ)
                while not pgconn.is_busy():
                    result = pgconn.get_result()
                    if result is None:
                        return last
                    last = result
                left = None if until is None else until - monotonic()
                if left is not None and not (left > 0 and ready.select(left)):
                    return None
                if left is None:
                    ready.select()
                pgconn.consume_input()

    def _stop(self, connection: Connection[Any]) -> PGresult:
        """Ask the server to stop, and wait for what it says, but for a second ctrl-C."""
        try:
            with suppress(self._driver.Error):
                connection.cancel_safe(timeout=5)
            result = self._result(connection.pgconn, GRACE)
        except KeyboardInterrupt:
            result = None
        if result is not None:
            return result
        self.close()
        said = "stopped; the server has not said what was spent: SHOW LEDGER says it"
        raise KeyboardInterrupt(said) from None

    def _body(self, result: PGresult | None, do: str, *, stopped: bool) -> bytes:
        """Return the one value of a result.

        Raises:
            DPQueryError: the server has another thing to say.
        """
        pq = self._driver.pq
        if result is not None and result.status == pq.ExecStatus.TUPLES_OK:
            return result.get_value(0, 0) or b"" if result.ntuples and result.nfields else b""
        fields = pq.DiagnosticField
        told = [
            fields.SQLSTATE,
            fields.MESSAGE_PRIMARY,
            fields.MESSAGE_DETAIL,
            fields.MESSAGE_HINT,
        ]
        parts = [None if result is None else result.error_field(field) for field in told]
        code, title, why, remedy = ((one or b"").decode("utf-8", "replace") for one in parts)
        if not code or code.startswith(_ENDING):
            self.close()
            raise _lost(do)
        title = _NUMBERED.sub("", title)
        if code == _STOPPED and stopped:
            raise KeyboardInterrupt(visible(title))
        failed = code in (_STOPPED, _FAILED)
        found = Diagnostic(
            "DPQ701" if failed else "DPQ806",
            title,
            why=tuple(why.splitlines()) or ("the server says no more.",),
            remedy=tuple(remedy.splitlines()) or ("SHOW LEDGER",),
        )
        raise ScanFailed(found) if failed else ServerUnusable(found, code)


# What went wrong, in words.


def unfit(title: str, why: str, *remedy: str) -> PolicyInvalid:
    """Return the refusal of an argument of `connect`."""
    return PolicyInvalid(Diagnostic("DPQ608", title, why=(why,), remedy=remedy))


def unusable(code: str, title: str, why: str, *remedy: str, sqlstate: str) -> ServerUnusable:
    """Return why a server cannot be asked."""
    return ServerUnusable(Diagnostic(code, title, why=(why,), remedy=remedy), sqlstate)


def misread(place: str) -> ServerUnusable:
    """Return the fault of a server whose reply says nothing here."""
    return unusable(
        "DPQ810",
        f"{place} sends what this version of dpquery does not read",
        "another program may stand between the two.",
        "ask the data owner; SHOW LEDGER says what was charged",
        sqlstate="08P01",
    )


def _lost(do: str) -> DPQueryError:
    """Return what is left of a connection that broke off; the next call makes another."""
    title = "the connection to the server broke off"
    if do != "sql":
        why, remedy = "nothing was charged: only a statement is.", "ask once more"
        return unusable("DPQ807", title, why, remedy, sqlstate="08006")
    whys = (
        "whether the statement was charged is not known here: the server's ledger says it.",
        "the next statement connects anew.",
    )
    fault = ScanFailed(Diagnostic("DPQ703", title, why=whys, remedy=("SHOW LEDGER",)))
    fault.sqlstate = "08006"
    return fault


def _driver() -> ModuleType:
    try:
        import psycopg
        import psycopg.conninfo
    except ImportError:
        title = "a server needs a package that is not installed: psycopg"
        why = "dpquery itself asks files."
        raise unusable(
            "DPQ811", title, why, "pip install 'dpquery[postgres]'", sqlstate="08001"
        ) from None
    return psycopg
