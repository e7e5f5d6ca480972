"""The twin: a DuckDB in memory that holds PostgreSQL's catalogue of the policy, and no data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import duckdb
import pyarrow as pa

from dpquery.engine.duckdb.connection import lock, start
from dpquery.engine.duckdb.quoting import quoted
from dpquery.server.catalogue.pg_catalog_rows import Row, rows, sql_names
from dpquery.server.catalogue.pg_catalog_schema import (
    CATALOGUE,
    ELEMENTS,
    RELATIONS,
    SCHEMAS,
    Relation,
    duckdb_of,
    duckdb_type,
)
from dpquery.server.catalogue.pg_functions import list_items, macros
from dpquery.server.catalogue.policy_tables import ShownTable
from dpquery.server.catalogue.refusals import Refused, too_large, too_long, unsupported
from dpquery.server.catalogue.rewrite import Schema, Written, rewritten
from dpquery.server.catalogue.system_views import (
    DATABASE_NAME,
    LOGIN,
    NAMES,
    SET_NAMES,
    SET_VALUES,
    views,
)

SECONDS = 5
"""How long DuckDB may work on one question."""
MEMORY = "200MB"
MOST_ROWS = 100_000
MOST_BYTES = 32 << 20
_BATCH = 2048
DATABASE = "dpquery"
"""What the database is called."""


class Twin:
    """Answers questions about the catalogue."""

    def __init__(self, tables: Sequence[ShownTable], seconds: float = SECONDS) -> None:
        self._schema = Schema(tables)
        self._connection = start()
        self._fill(tables)
        for name, value in (
            ("threads", "1"),
            ("integer_division", "true"),
            ("memory_limit", f"'{MEMORY}'"),
            ("max_execution_time", str(int(seconds * 1000))),
            ("max_expression_depth", "250"),
        ):
            self._connection.execute(f"SET {name} = {value}")
        lock(self._connection, [])

    def _fill(self, tables: Sequence[ShownTable]) -> None:
        connection = self._connection
        for schema in SCHEMAS.values():
            connection.execute(f"CREATE SCHEMA {schema}")
        _tell(connection, "", {})
        connection.execute("CREATE TABLE pgc.sql_names (oid UINTEGER, sql VARCHAR)")
        connection.executemany("INSERT INTO pgc.sql_names VALUES (?, ?)", [*sql_names()])
        filled = rows(tables)
        for relation in RELATIONS:
            if relation.name not in NAMES:
                self._create(relation, filled)
        for statement in (*views(), *macros()):
            connection.execute(statement)
        for table in tables:
            columns = ", ".join(
                f"{quoted(column.name)} {duckdb_of(column.type, column.modifier)}"
                for column in table.columns
            )
            if columns:
                name = f"{SCHEMAS['public']}.{quoted(table.name)}"
                connection.execute(f"CREATE TABLE {name} ({columns})")

    def _create(self, relation: Relation, filled: Mapping[str, Sequence[Row]]) -> None:
        name = f"{SCHEMAS[relation.schema]}.{relation.name}"
        listed = {one: duckdb_type(type_) for one, type_ in relation.columns.items()}
        columns = ", ".join(f'"{one}" {type_}' for one, type_ in listed.items())
        self._connection.execute(f"CREATE TABLE {name} ({columns})")
        found = filled.get(relation.name) if relation.schema == CATALOGUE else None
        if found:
            given = pa.table({one: [row.get(one) for row in found] for one in listed})
            self._connection.register("given", given)
            self._connection.execute(f"INSERT INTO {name} SELECT * FROM given")
            self._connection.unregister("given")

    def _leave(self) -> None:
        """Leave the transaction of a statement, however that ended.

        Raises:
            Broken: that cannot be done.
        """
        try:
            self._connection.execute("ROLLBACK")
        except duckdb.Error:
            raise Broken from None

    def ask(
        self,
        text: str,
        oids: Sequence[int],
        values: Sequence[object],
        user: str,
        settings: Mapping[str, str] | None = None,
    ) -> pa.Table:
        """Return the rows of a statement, with what the session of who asks has set.

        Raises:
            Refused: it is not answered.
        """
        written = _rewritten(text, tuple(oids), self._schema)
        given = [*values, *[None] * (len(written.oids) - len(values))]
        return self._run(written, given, user, settings or {})

    def describe(
        self, text: str, oids: Sequence[int], user: str
    ) -> tuple[list[int], pa.Schema]:
        """Return the types of a statement's parameters, and the columns of its answer.

        Raises:
            Refused: it is not answered.
        """
        written = _rewritten(text, tuple(oids), self._schema)
        nothing = [None] * len(written.oids)
        return [*written.oids], self._run(written, nothing, user, {}, rows=False).schema

    def _run(
        self,
        written: Written,
        values: Sequence[object],
        user: str,
        settings: Mapping[str, str],
        *,
        rows: bool = True,
    ) -> pa.Table:
        given = {
            str(number): _bound(values[number - 1], written.oids[number - 1])
            for number in written.used
        }
        own = self._connection  # settings are a connection's: a second one would have none
        try:
            _tell(own, user, settings)
            statements = own.extract_statements(written.text)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise unsupported()
            own.execute("BEGIN TRANSACTION READ ONLY")
            try:
                answer = own.sql(written.text, params=given or None)
                return _fetched(answer) if rows else _empty(answer)
            finally:
                self._leave()
        except duckdb.InterruptException:
            raise too_long() from None
        except (
            duckdb.Error,
            pa.ArrowException,
            ValueError,
            TypeError,
            RuntimeError,
            MemoryError,
        ):
            raise unsupported() from None


class Broken(Exception):
    """An instance that cannot be asked any more."""


def _tell(
    connection: duckdb.DuckDBPyConnection, user: str, settings: Mapping[str, str]
) -> None:
    """Tell a connection who asks, and what their session has set."""
    for name, value in (
        (LOGIN, user),
        (DATABASE_NAME, DATABASE),
        (SET_NAMES, [one.lower() for one in settings]),
        (SET_VALUES, [*settings.values()]),
    ):
        connection.execute(f"SET VARIABLE {name} = ?", [value])


@lru_cache(maxsize=256)
def _rewritten(text: str, oids: tuple[int, ...], schema: Schema) -> Written:
    """Rewrite a statement; tools often send the same. Whatever trips over it, it is refused."""
    try:
        return rewritten(text, oids, schema)
    except Refused:
        raise
    except (Exception, RecursionError):  # noqa: BLE001 - sqlglot has many ways to fail
        raise unsupported() from None


def _bound(value: object, oid: int) -> Any:
    """Return a value as DuckDB takes it: an array may come as PostgreSQL writes it."""
    listed = oid in ELEMENTS and isinstance(value, str)
    return list_items(str(value)) if listed else value


def _fetched(answer: duckdb.DuckDBPyRelation) -> pa.Table:
    """Return the rows, as long as they are few."""
    batches: list[pa.RecordBatch] = []
    count = size = 0
    with answer.to_arrow_reader(_BATCH) as reader:
        for batch in reader:
            batches.append(batch)
            count += batch.num_rows
            size += batch.nbytes
            if count > MOST_ROWS or size > MOST_BYTES:
                raise too_large()
        return pa.Table.from_batches(batches, reader.schema)


def _empty(answer: duckdb.DuckDBPyRelation) -> pa.Table:
    """Return the columns of an answer that is not computed."""
    return answer.limit(0).to_arrow_table().rename_columns(answer.columns)
