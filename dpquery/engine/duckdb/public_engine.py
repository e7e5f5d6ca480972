"""The public engine: a locked DuckDB that holds public and released tables and nothing else.

The argument for everything above the frontier is one sentence: it never saw a private row.
Public tables are loaded when it opens; then the file system is shut.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from fractions import Fraction
from functools import lru_cache, wraps
from hashlib import sha256
from typing import Any, Concatenate, ParamSpec, TypeVar

import duckdb
import pyarrow as pa

from dpquery.core.arrow_columns import arrow_type, table_of
from dpquery.core.identity_text import identity
from dpquery.core.types import Kind, Type
from dpquery.engine.duckdb.connection import begun, execute, lent, load, lock, start, waited
from dpquery.engine.duckdb.expr_sql import NAN, cast, settled
from dpquery.engine.duckdb.public_tables import load_public
from dpquery.engine.duckdb.quoting import quoted, text
from dpquery.engine.duckdb.sources.duckdb_schema import database_schema
from dpquery.errors import Diagnostic, PolicyInvalid, ScanFailed, internal
from dpquery.ir.expr import Scalar, decimal
from dpquery.ir.query import Above
from dpquery.policy.model import LONGEST_PUBLIC, Policy, Table
from dpquery.policy.sources.schema import Schema
from dpquery.policy.sources.schema_mismatches import Misfit

REMEMBERED = 256
"""Queries whose fit is known: the same ones come again and again."""
MOST_VALUES = 100_000
"""Values of a public column that are listed: more make no groups."""
SECONDS = 10
"""A query over released tables that takes longer is stopped."""
MOST_DERIVED = 16
"""Tables that are kept of those that queries made of public ones: the latest."""
LARGEST_DERIVED = 2**25
"""Bytes of such a table."""


T = TypeVar("T")
Asked = ParamSpec("Asked")


def _once(
    find: Callable[Concatenate[PublicEngine, Asked], T],
) -> Callable[Concatenate[PublicEngine, Asked], T]:
    """Find each fact of a public table once: its rows never change."""

    @wraps(find)
    def known(engine: PublicEngine, /, *of: Asked.args, **named: Asked.kwargs) -> T:
        key = (find.__name__, *of)
        if key not in engine.facts:
            engine.facts[key] = find(engine, *of, **named)
        found: T = engine.facts[key]
        return found

    return known


class PublicEngine:
    """Runs what is above the frontier, and knows the facts of public tables."""

    def __init__(self, policy: Policy) -> None:
        self._zone = policy.zone
        self._relations: dict[str, str] = {}
        self._columns: dict[str, tuple[str, ...]] = {}
        self._types: dict[str, dict[str, Type]] = {}
        self._accepted = lru_cache(REMEMBERED)(self._binds)
        self.facts: dict[tuple[Hashable, ...], Any] = {}
        self._derived: dict[str, str] = {}
        """Tables that queries made, by their texts; what was asked for last stands last."""
        public = [table for table in policy.tables.values() if table.public]
        self._opening = begun(lambda: self._opened(public, policy.name))
        if public:  # what is wrong with them is told when a session connects
            self._opening.result()

    @property
    def _connection(self) -> duckdb.DuckDBPyConnection:
        """The instance, once it is open."""
        return self._opening.result()

    def _opened(self, tables: Sequence[Table], policy: str) -> duckdb.DuckDBPyConnection:
        """Open the instance, load the public tables, and lock it."""
        connection = start()
        connection.execute(f"SET TimeZone = {text(self._zone)}")
        for number, table in enumerate(tables):
            self._load(connection, table, f"p{number}", policy)
        # What stands in two places would be computed before both, outside of any TRY.
        connection.execute("SET disabled_optimizers = 'common_subexpressions'")
        connection.execute("SET memory_limit = '2GB'")
        connection.execute(f"SET max_execution_time = {SECONDS * 1000}")
        lock(connection, [])
        return connection

    def columns(self, table: str) -> Sequence[str]:
        """Return the columns of a public table, in order."""
        return self._columns[table]

    def relation(self, table: str) -> str:
        """Return the engine's own name of a public table."""
        return self._relations[table]

    def types(self, table: str) -> Mapping[str, Type]:
        """Return the columns of a public table whose types a policy can name, in order."""
        return self._types[table]

    @_once
    def height(self, table: str) -> int:
        """Return how many rows a public table has."""
        return int(self._one("count(*)", table))

    @_once
    def most_equal(self, table: str, columns: tuple[str, ...]) -> int:
        """Return how many rows of a public table have equal values of some columns, at most.

        The values are as rows are joined to them: what is equal only then is equal here.
        """
        if not columns:
            return self.height(table)
        values = ", ".join(_plain(quoted(n), self._types[table][n]) for n in columns)
        equal = f"SELECT count(*) AS n FROM {self._relations[table]} GROUP BY {values}"
        sql = f"SELECT coalesce(max(n), 0) FROM ({equal})"
        try:
            ((most,),) = execute(self._connection, sql).fetchall()
        except duckdb.Error:  # it took too long, or too much memory
            return self.height(table)
        return int(most)

    @_once
    def longest(self, table: str, column: str) -> int:
        """Return how many characters the longest value of a column has, written as a text."""
        length = f"length(CAST({quoted(column)} AS TEXT))"
        return int(self._one(f"coalesce(max({length}), 0)", table))

    @_once
    def values(self, table: str, column: str) -> tuple[Scalar, ...] | None:
        """Return the different values of a column, but for NULL; None of very many."""
        type_, name = self._types[table][column], quoted(column)
        if type_.kind is Kind.DOUBLE:
            return None
        rows = self._connection.execute(
            f"SELECT DISTINCT {_handed(name, type_)} FROM {self._relations[table]} "
            f"WHERE {name} IS NOT NULL "
            f"ORDER BY 1 LIMIT {MOST_VALUES + 1}"
        ).fetchall()
        if len(rows) > MOST_VALUES:
            return None
        return tuple(_known(value, type_) for (value,) in rows)

    def tuples(
        self, table: str, columns: Sequence[str]
    ) -> Sequence[tuple[Scalar | float | None, ...]] | None:
        """Return the different rows of some columns, as private rows meet them."""
        types = self._types[table]
        shown = ", ".join(
            _handed(_plain(quoted(name), types[name]), types[name]) for name in columns
        )
        rows = self._connection.execute(
            f"SELECT DISTINCT {shown} FROM {self._relations[table]} LIMIT {MOST_VALUES + 1}"
        ).fetchall()
        if len(rows) > MOST_VALUES:
            return None
        kinds = [types[name] for name in columns]
        return [tuple(map(_known, row, kinds)) for row in rows]

    @_once
    def nulls(self, table: str, column: str) -> bool:
        """Return whether a column has NULL in some row; NaN is NULL."""
        value = _plain(quoted(column), self._types[table][column])
        return bool(self._one(f"count(*) > count({value})", table))

    @_once
    def digest(self, table: str) -> str:
        """Return a short name of what a public table holds, the same for the same rows."""
        hashed = int(self._one("coalesce(sum(hash(rows)), 0)", table))
        types = tuple(self._types[table].items())
        return identity((tuple(self._columns[table]), types, (self.height(table), hashed)))

    def _one(self, what: str, table: str) -> Any:
        """Return what is asked of all rows of a public table."""
        sql = f"SELECT {what} FROM {self._relations[table]} AS rows"
        ((found,),) = self._connection.execute(sql).fetchall()
        return found

    def rows(self, table: str) -> pa.Table:
        """Return the columns of a public table that a policy's types can name, as rows are."""
        columns = [
            f"{_plain(quoted(name), type_)} AS {quoted(name)}"
            for name, type_ in self._types[table].items()
        ]
        sql = f"SELECT {', '.join(columns) or '1 AS one'} FROM {self._relations[table]}"
        return self._connection.sql(sql).to_arrow_table()

    def derived(self, sql: str) -> str | None:
        """Return the name of a table of a query over public tables; None if it is too large.

        It is named after its rows: two of one name have the same ones, here and anywhere.
        """
        name = self._derived.pop(sql, None) or self._made(sql)
        if name is None:
            return None
        self._derived[sql] = name
        while len(self._derived) > MOST_DERIVED:
            oldest = self._derived.pop(next(iter(self._derived)))
            if oldest not in self._derived.values():
                self._forget(oldest)
        return name

    def _made(self, sql: str) -> str | None:
        """Make a table of a query, of the columns whose types a policy can name."""
        try:
            rows = self._ask(sql)
            if rows.nbytes > LARGEST_DERIVED:
                return None
            with lent(self._connection, [rows]):
                types = _named(database_schema(self._connection, "f0"))
                rows = rows.select(list(types))
                (told,) = execute(self._connection, _content(list(types), "f0")).fetchall()
        except duckdb.Error:  # it took too long, or too much memory
            return None
        said = identity((tuple((name, str(one)) for name, one in types.items()), told))
        name = f"d{sha256(said.encode()).hexdigest()[:32]}"
        if name not in self._relations:
            given = rows if types else pa.table({"one": pa.nulls(rows.num_rows)})
            load(self._connection, name, given)
            self._know(name, name, types, tuple(types))
        return name

    def _forget(self, table: str) -> None:
        """Let go of a table that a query made, and of what is known of it."""
        for known in (self._relations, self._columns, self._types):
            known.pop(table, None)
        self._connection.execute(f"DROP TABLE IF EXISTS {table}")
        for key in [key for key in self.facts if table in key]:
            del self.facts[key]

    def listed(self, above: Above) -> Sequence[object] | None:
        """Return the values of a query of one column over public tables; None of no such query.

        Of very many, one more than are taken.
        """
        try:
            table = self._ask(above.sql)
        except duckdb.Error:
            return None
        return list(table.column(0)[: MOST_VALUES + 1].to_pylist())

    def matches_with(self, pattern: str) -> bool:
        """Return whether a pattern can be used: one that is no constant is not looked at.

        The engine reads a constant pattern before any row, where no TRY is around it.

        Args:
            pattern: a text as the engine's SQL.
        """
        try:
            return bool(self._connection.sql(f"SELECT regexp_matches('', {pattern})").columns)
        except duckdb.InvalidInputException:
            return False
        except duckdb.Error:
            return True

    def accepts(self, above: Above, released: Sequence[Mapping[str, Type]]) -> bool:
        """Return whether a query fits its tables' types, by binding it over empty ones."""
        return self._accepted(above.sql, tuple(tuple(one.items()) for one in released))

    def _binds(self, sql: str, released: tuple[tuple[tuple[str, Type], ...], ...]) -> bool:
        kinds = [{name: arrow_type(type_) for name, type_ in columns} for columns in released]
        empty = [table_of([], {"row": pa.int64(), **types}) for types in kinds]
        try:
            with lent(self._connection, empty):
                return bool(self._connection.sql(sql).columns)
        except (duckdb.OutOfMemoryException, MemoryError):
            raise MemoryError from None  # which says nothing of types
        except duckdb.Error:
            return False

    def run(self, above: Above, released: Sequence[pa.Table]) -> pa.Table:
        """Answer a query over released and public tables.

        Raises:
            ScanFailed: DPQ702 time or memory ran out.
        """
        try:
            with lent(self._connection, released):
                return self._ask(above.sql)
        except (duckdb.OutOfMemoryException, duckdb.InterruptException, MemoryError):
            failure = ScanFailed(_exhausted())
        except duckdb.Error:
            failure = None
        raise failure or internal("a query over released tables cannot raise") from None

    def in_worlds(
        self, above: Above, tables: Sequence[pa.Table], wanted: Sequence[int]
    ) -> pa.Table | None:
        """Answer a query for each world by itself, all in one run; nothing if it cannot be.

        Args:
            above: the query.
            tables: released rows of all worlds, each with the number of its own.
            wanted: the places of columns that are wanted, as doubles, beside those without
                noise.
        """
        try:
            with lent(self._connection, tables, "w"):
                return self._ask(_of_worlds(above, tables, wanted))
        except (duckdb.Error, MemoryError):
            return None

    def _ask(self, sql: str) -> pa.Table:
        ask = self._connection.sql
        return waited(self._connection, lambda: ask(sql).to_arrow_table())

    def stopped(self) -> None:
        """Forget what was found: some of it may be that a statement was stopped."""
        self._accepted.cache_clear()
        self.facts.clear()

    def close(self) -> None:
        """Let go of the instance."""
        self._connection.close()

    def _load(
        self,
        connection: duckdb.DuckDBPyConnection,
        table: Table,
        relation: str,
        policy: str,
    ) -> None:
        misfits = load_public(connection, table, relation)
        if misfits:
            raise _unfit(policy, table, misfits)
        described = connection.execute(f"DESCRIBE {relation}").fetchall()
        declared = {column.name: column.type for column in table.columns.values()}
        found = _named(database_schema(connection, relation))
        types = {name: declared.get(name, type_) for name, type_ in found.items()}
        self._know(table.name, relation, types, tuple(row[0] for row in described))

    def _know(
        self, table: str, relation: str, types: Mapping[str, Type], columns: tuple[str, ...]
    ) -> None:
        """Take in a table that was made: its name here, and its columns."""
        self._relations[table] = relation
        self._types[table] = {
            name: decimal(type_.scale)
            if type_.kind is Kind.DECIMAL
            else replace(type_, zone=self._zone)
            if type_.kind is Kind.TIMESTAMPTZ
            else type_
            for name, type_ in types.items()
        }
        self._columns[table] = columns


def _handed(value: str, type_: Type) -> str:
    """Write a value to be taken over by Python: an instant as its time in UTC."""
    return f"timezone('UTC', {value})" if type_.kind is Kind.TIMESTAMPTZ else value


def _known(value: Any, type_: Type) -> Any:
    """Return a value that was taken over, exact, as the tree holds it."""
    if value is None:
        return None
    if type_.kind is Kind.TIMESTAMPTZ:
        return value.replace(tzinfo=UTC)
    return Fraction(value) if type_.kind is Kind.DECIMAL else value


def _plain(name: str, type_: Type) -> str:
    """Write a public value as private ones are held: in 64 bits, doubles in their one form."""
    if type_.kind is Kind.DOUBLE:
        return f"nullif({settled(cast(name, 'DOUBLE'))}, {NAN})"
    if type_.kind is Kind.TEXT:
        return f"CASE WHEN length({name}) <= {LONGEST_PUBLIC} THEN {name} END"
    return f"CAST({name} AS BIGINT)" if type_.kind is Kind.INTEGER else name


def _content(columns: Sequence[str], rows: str) -> str:
    """Write what tells some rows from all others, in whatever order they stand."""
    texts = (f"CAST({quoted(name)} AS VARCHAR)" for name in columns)
    told = ["''", *(f"coalesce(length({one}) || ':' || {one}, '-')" for one in texts)]
    each = f"SELECT sha256(concat({', '.join(told)})) AS h FROM {rows}"
    return f"SELECT count(*), sha256(coalesce(string_agg(h, '' ORDER BY h), '')) FROM ({each})"


def _of_worlds(above: Above, tables: Sequence[pa.Table], wanted: Sequence[int]) -> str:
    """Write a query that is asked of each world.

    In a lateral join the rows of one world take the names of the released tables; so the
    engine takes the world through joins, groups and windows, whatever the query is.
    """
    named, numbers = [], []
    for at in range(len(tables)):
        rows = f'SELECT * FROM "w{at}" WHERE "world" = "w"."world"'
        named.append(f'"f{at}" AS NOT MATERIALIZED ({rows})')
        numbers.append(f'SELECT DISTINCT "world" FROM "w{at}"')
    columns = [
        f'TRY_CAST("q"."c{at}" AS DOUBLE) AS "c{at}"' if at in wanted else f'"q"."c{at}"'
        for at, shown in enumerate(above.columns)
        if at in wanted or shown.noiseless
    ]
    columns += [f'"q"."r{i}"' for i in range(len(above.rows))]
    each = f'WITH {", ".join(named)} SELECT * FROM ({above.whole}) AS "x"'
    worlds = f'({" UNION ".join(numbers)}) AS "w"'
    return f'SELECT "w"."world", {", ".join(columns)} FROM {worlds}, LATERAL ({each}) AS "q"'


def _named(schema: Schema) -> dict[str, Type]:
    """Return the columns that are held in a type of a policy as they are."""
    apart = schema.converted | schema.paths.keys()
    types = schema.types.items()
    return {name: one for name, one in types if name not in apart and not one.listed}


def _exhausted() -> Diagnostic:
    return Diagnostic(
        "DPQ702",
        "the result could not be finished in the time and memory there is",
        why=("what was asked of released and public values, after the draw, was too much.",),
        remedy=("ask for the DP_ values alone, and compute on them outside",),
    )


def _unfit(policy: str, table: Table, misfits: Sequence[Misfit]) -> PolicyInvalid:
    return PolicyInvalid(
        Diagnostic(
            "DPQ604",
            f"the public table {table.name} cannot be read as declared",
            why=(
                *map(str, misfits[:8]),
                "a public table has to be what the policy says of it: queries rely on it.",
            ),
            remedy=("mend the file, or the types and `unique` of the table in the policy",),
        ),
        file=policy,
    )
