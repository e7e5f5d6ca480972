"""A ledger on a server: PostgreSQL, for sessions on several hosts.

One schema holds one ledger. Whoever writes holds its row in `meta`, so that there is one writer
at a time on all hosts. A connection that breaks before the server has confirmed a commit gives
a fault: whether the charge is on disk is not known then, and nobody gets a receipt for it.

Messages are ours. What the server says may quote rows, and stays here but for its code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dpquery.budget.ledger.ledger_faults import (
    DAMAGED,
    OCCUPIED,
    REPLACED,
    missing,
    refused,
    uncopied,
    undriven,
    unreachable,
    unsafe,
)
from dpquery.budget.ledger.tables import META, TABLES, Database, LedgerTable, first_meta
from dpquery.errors import PolicyInvalid, internal

if TYPE_CHECKING:
    from psycopg import Connection, Cursor

    from dpquery.policy.model import Server


T = TypeVar("T")

_PATIENCE: Final = {
    "connect_timeout": "10",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""A host that is gone is noticed in half a minute; the policy's URL may say otherwise."""

_SETTINGS: Final = {
    "lock_timeout": "30s",
    "statement_timeout": "300s",
    # A host that stops in the middle of a charge must not hold up all others.
    "idle_in_transaction_session_timeout": "30s",
}

_WAITS: Final = ("on", "remote_write", "remote_apply")
"""Values of synchronous_commit by which a confirmed commit is on the server's own disk."""

_BROKEN: Final = ("XX001", "XX002", "22", "23", "P0")
"""How the SQLSTATE begins of rows that are not as they were written."""

_NO_CONNECTION: Final = "there is no connection: the server is down, or takes none from here."

_CAUSES: Final = {
    "25006": "the server takes no charges: it is read-only.",
    "42501": "the role may not write it.",
    "53": "the server has no room left.",
    "55P03": "another session has held it for too long.",
    "57014": "the server took too long.",
    "57": "the server is shutting down or starting.",
}
"""By how an SQLSTATE begins."""

_RELATIONS: Final = (
    "SELECT count(*) FROM pg_class JOIN pg_namespace ON relnamespace = pg_namespace.oid"
    " WHERE nspname = ?"
)
"""Of a schema; by a snapshot, for lookups by name may be older than the lock that one has."""

_SET: Final = "SELECT set_config(?, ?, false)"

_BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"

_HOLD: Final = """
    SELECT value, current_setting('synchronous_commit'), current_setting('fsync')
    FROM meta WHERE key = 'id' FOR UPDATE
"""

_GUARDS = (
    """CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE EXCEPTION '% are never changed or removed', TG_TABLE_NAME; END $$""",
    """CREATE FUNCTION require_next() RETURNS trigger LANGUAGE plpgsql AS $$
        DECLARE next bigint;
        BEGIN
            EXECUTE format('SELECT coalesce(max(sequence), 0) + 1 FROM %I.%I',
                           TG_TABLE_SCHEMA, TG_TABLE_NAME) INTO next;
            IF NEW.sequence <> next THEN
                RAISE EXCEPTION '% are only appended', TG_TABLE_NAME;
            END IF;
            RETURN NEW;
        END $$""",
)


class Postgres(Database):
    """A ledger in a schema of a database on a server.

    Its queue is for the high-water mark of this host; the server has one of its own.
    """

    path: str

    def __init__(self, server: Server, high_water: Path | None = None) -> None:
        super().__init__(str(server), high_water and Path(f"{high_water}.lock"))
        self._server = server
        self._within = False
        self._id: str | None = None
        self._driver = _driver(self.path)

    def open(self, *, marked: Path | None) -> None:
        """Connect; make the ledger where there has been none."""
        if not self.exists:
            if marked:
                raise missing(self.path, marked)
            self._make()
        self._id = self._value("SELECT value FROM meta WHERE key = 'id'")
        if self._id is None:
            raise refused(self.path, *OCCUPIED)

    @property
    def exists(self) -> bool:
        """Whether there is something to open, which is not made by looking."""
        found = self._value(f"{_RELATIONS} AND relname = 'meta'", (self._server.schema,))
        return bool(found)

    def execute(self, statement: str, values: Sequence[object] = ()) -> Cursor[Any]:
        """Run one statement; `?` stands for a value."""
        return self._run(statement, values) if self._within else self._first(statement, values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Be the one writer; a commit is believed when the server says that it was one."""
        with self._alone(_HOLD) as held:
            if held is None or held[0] != self._id:
                raise refused(self.path, *REPLACED)
            self._require_waiting(*held[1:])
            yield

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read what is there when the first statement is run, whatever is written meanwhile."""
        with self._alone("SELECT 1", "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"):
            yield

    def copy_to(self, file: Path) -> None:
        """Refuse: a server is copied by its own programs."""
        raise uncopied(self.path, self._server.schema)

    def require_whole(self, tables: Sequence[LedgerTable] = TABLES) -> None:
        """Check that no row of some tables is missing, and that a crash empties none at all."""
        for table in tables:
            counted = f"SELECT count(*) = coalesce(max(sequence), 0) FROM {table.name}"  # noqa: S608
            if not self._value(counted):
                raise refused(self.path, *DAMAGED)
        if self._value(f"{_RELATIONS} AND relpersistence <> 'p'", (self._server.schema,)):
            raise unsafe(self.path, "a table of the ledger is unlogged: a crash empties it.")

    @property
    def _quoted(self) -> str:
        name = self._server.schema.replace('"', '""')
        return f'"{name}"'

    @property
    def _key(self) -> int:
        """Name the schema for those who would make a ledger in it."""
        digest = sha256(f"dpquery {self._server.schema}".encode()).digest()
        return int.from_bytes(digest[:8], signed=True)

    def _make(self) -> None:
        """Make the schema and its tables; one that holds something else is left alone."""
        with self._alone(f"SELECT pg_advisory_xact_lock({self._key})"):
            if self.exists:
                return
            self._run(f"CREATE SCHEMA IF NOT EXISTS {self._quoted}")
            if self._value(_RELATIONS, (self._server.schema,)):
                raise refused(self.path, *OCCUPIED)
            made = (one for table in TABLES for one in _made(table))
            for statement in (_exact(META), *_GUARDS, *made):
                self._run(statement)
            for pair in first_meta():
                self._run("INSERT INTO meta VALUES (?, ?)", pair)

    @contextmanager
    def _alone(self, hold: str, begin: str = _BEGIN) -> Iterator[Any]:
        """Begin by waiting for a lock; end by a commit, or by nothing at all."""
        self._first(begin)
        self._within = True
        try:
            yield self._run(hold).fetchone()
            if self._run("COMMIT").statusmessage != "COMMIT":
                raise unreachable(self.path, "the server rolled the charge back.")
        except BaseException:
            self._abandon()
            raise
        finally:
            self._within = False

    def _abandon(self) -> None:
        """Roll back, or leave that to the server by hanging up."""
        if self._connection is None or self._connection.closed:
            return
        try:
            self._connection.execute("ROLLBACK")
        except self._driver.Error:
            self._connection.close()

    def _first(self, statement: str, values: Sequence[object] = ()) -> Cursor[Any]:
        """Run a statement that stands alone or begins a transaction.

        A connection that broke while it was idle is made again: nothing was under way.
        """
        if self._connection is not None and not self._connection.closed:
            try:
                return self._run(statement, values)
            except PolicyInvalid:
                if not self._connection.closed:
                    raise
        self._connect()
        return self._run(statement, values)

    def _run(self, statement: str, values: Sequence[object] = ()) -> Cursor[Any]:
        if self._connection is None:
            raise unreachable(self.path, _NO_CONNECTION)
        connection = self._connection
        return self._asked(lambda: connection.execute(_placed(statement), values or None))

    def _asked(self, ask: Callable[[], T]) -> T:
        """Return what the driver gives; what it raises is not even the context of a refusal."""
        try:
            return ask()
        except self._driver.Error as fault:
            refusal = self._judged(fault)
        raise refusal

    def _connect(self) -> None:
        """Connect, and have each commit wait for the server's disk."""
        self._connection = self._asked(self._dialled)
        try:
            # pg_temp last: a temporary table must not stand in for one of the ledger's.
            path = {"search_path": f"{self._quoted}, pg_catalog, pg_temp"}
            for name, value in {**_SETTINGS, **path}.items():
                self._run(_SET, (name, value))
            self._require_durable()
        except BaseException:
            self.close()
            raise

    def _dialled(self) -> Connection[Any]:
        given = self._driver.conninfo.conninfo_to_dict(self._server.url)
        told = {**_PATIENCE, "application_name": "dpquery", **given}
        dialled: Connection[Any] = self._driver.connect(
            **told, client_encoding="UTF8", autocommit=True
        )
        return dialled

    def _require_durable(self) -> None:
        """Believe that a commit is on the server's disk only when the server says so."""
        said = self._said("synchronous_commit")
        # Set even to what it is: a session follows its server's settings, but for its own.
        pinned = ("synchronous_commit", said if said in _WAITS else "on")
        self._run(_SET, pinned)
        self._require_waiting(self._said("synchronous_commit"), self._said("fsync"))
        if self._said("server_encoding") != "UTF8":
            raise unsafe(self.path, "texts that are not of the database's encoding are lost.")

    def _require_waiting(self, commit: object, fsync: object) -> None:
        if commit not in _WAITS or fsync != "on":
            raise unsafe(self.path, "it confirms charges that are not on its disk yet.")

    def _said(self, setting: str) -> object:
        return self._value("SELECT current_setting(?)", (setting,))

    def _judged(self, fault: Exception) -> Exception:
        """Return the refusal for what the driver raised, in none of the server's words."""
        code = getattr(fault, "sqlstate", None)
        if code is None and not isinstance(fault, self._driver.OperationalError):
            return internal("a ledger asks what its driver understands")
        if code in {"42P01", "3F000"}:
            return missing(self.path)
        if code == "42703":
            return refused(self.path, *OCCUPIED)
        if code is not None and code.startswith(_BROKEN):
            return refused(self.path, *DAMAGED)
        causes = (cause for begin, cause in _CAUSES.items() if (code or "").startswith(begin))
        other = f"the server said {code}." if code else _NO_CONNECTION
        return unreachable(self.path, next(causes, other))


def _driver(path: str) -> ModuleType:
    try:
        import psycopg
        import psycopg.conninfo
    except ImportError:
        raise undriven(path) from None
    return psycopg


@lru_cache(maxsize=64)
def _placed(statement: str) -> str:
    return statement.replace("?", "%s")


def _exact(statement: str) -> str:
    """Compare texts byte for byte, whatever the database's language is."""
    return statement.replace(" TEXT ", ' TEXT COLLATE "C" ')


def _made(table: LedgerTable) -> Iterator[str]:
    """Return the statements that make a table and keep it append-only."""
    name = table.name
    yield _exact(table.created("BIGINT"))
    for index, indexed in table.indexes.items():
        yield f"CREATE INDEX {index} ON {name} ({indexed}, sequence)"  # the newest is asked for
    for trigger, when, each, refusal in (
        ("no_change", "UPDATE OR DELETE OR TRUNCATE", "STATEMENT", "refuse_change"),
        ("no_replace", "INSERT", "ROW", "require_next"),
    ):
        head = f"CREATE TRIGGER {trigger} BEFORE {when} ON {name}"
        yield f"{head} FOR EACH {each} EXECUTE FUNCTION {refusal}()"
