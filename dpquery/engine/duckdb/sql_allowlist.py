"""Checks generated SQL against closed lists, and plans it before it is charged.

The text is parsed by DuckDB's own parser, which reads it again when it runs, so the two cannot
read it differently. Whatever the generator wrote, this holds of a text that passes:

* It is one SELECT, made of the clauses and the kinds of expressions that are listed here.
* It reads the views of its scan, and nothing else: no file, and no function that gives rows.
* Where a table has a unit, rows without one are dropped where they are read.
* It calls the functions that row functions state and those listed here, and no others.

That a text computes what the tree says is shown by tests, which compare each clause with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeVar

import duckdb

from dpquery import rowfunctions
from dpquery.core.types import EPOCH, FIRST_INSTANT, INTEGER, TEXT, Kind, Type
from dpquery.engine.base import PublicRows
from dpquery.engine.duckdb.clamped_table_sql import Place
from dpquery.engine.duckdb.connection import begun, load, lock, start
from dpquery.engine.duckdb.quoting import duckdb_name, quoted
from dpquery.engine.duckdb.scan_sql import ScanSQL, public_names
from dpquery.engine.duckdb.sources.source_views import view_name
from dpquery.errors import internal
from dpquery.ir.expr import Scalar
from dpquery.ir.measures import Histogram
from dpquery.ir.query import Key, Scan
from dpquery.ir.relations import PublicJoin, walk
from dpquery.ir.walk import constants_in, filled
from dpquery.policy.model import Table

Node = dict[str, Any]
T = TypeVar("T")

REMEMBERED = 256
GENERATED = frozenset(
    {
        *("%", "*", "+", "-", "/", "//", ">>"),
        *("enum_code", "epoch_us", "floor", "greatest", "isnan", "least", "left", "nullif"),
        *(
            "list_contains",
            "list_filter",
            "list_transform",
            "list_value",
            "row",
            "string_split",
            "strlen",
            "unnest",
        ),
        *("concat_ws", "getvariable", "sha256"),
        *("bool_and", "bool_or", "count", "count_star", "list", "max", "min", "sum"),
        *("dense_rank", "lag", "lead", "ntile", "rank", "row_number"),
    }
)
"""Functions of DuckDB that the generator calls by itself.

All give the same value for the same arguments, read nothing and change nothing; `getvariable`
gives what the connection was given when it was made, and of what `list` lists the order does
not matter.
"""
FUNCTIONS = GENERATED | rowfunctions.engine_functions()
_CLAUSES = frozenset(
    {
        *("SELECT_NODE", "SET_OPERATION_NODE", "SUBQUERY", "JOIN", "EXPRESSION_LIST", "EMPTY"),
        *("ASCENDING", "DESCENDING", "ORDER_DEFAULT", "ORDER_MODIFIER"),
    }
)
_EXPRESSIONS = frozenset(
    {
        *("BETWEEN", "CASE", "CAST", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT"),
        *("FUNCTION", "LAMBDA", "OPERATOR", "STAR", "SUBQUERY", "TYPE", "WINDOW"),
    }
)
_SHARED = re.compile(r"r|parts|spread|[sthk]\d+")
"""What the generator names with WITH: no table of the engine is called so."""
_PRESENT = "OPERATOR_IS_NOT_NULL"
_CONSTANT = re.compile(rb"('(?:[^']|'')*'|\d+(?:\.\d*)?(?:[eE]\d+)?)\s*")
_ASK = (
    "SELECT json_serialize_sql($1, skip_null := true, skip_empty := true, skip_default := true)"
)


class Recent(set[T]):
    """What passed: the same comes again and again. Of too many, all are forgotten."""

    def add(self, one: T, /) -> None:
        """Remember one more."""
        if len(self) >= REMEMBERED:
            self.clear()
        super().add(one)


class Verifier:
    """Checks the texts of an engine, each once.

    It parses in an instance of its own, which holds no data and reads no file.
    """

    def __init__(self) -> None:
        self._parser: Future[duckdb.DuckDBPyConnection] | None = None
        self._passed = Recent[tuple[str, frozenset[tuple[str, str]]]]()
        """Texts without their constants, whose values nothing is held against."""

    def require(self, sql: ScanSQL, query: str, held: str | None = None) -> None:
        """Check a query of a scan.

        Args:
            sql: the scan, and where its rows are read.
            query: the text that is to be run.
            held: a table of codes that an earlier query of the scan made, if it reads one.

        Raises:
            InternalError: DPQ901 the text is not one that may be run.
        """
        sources = _sources(sql, held)
        key = shape_of(query), frozenset(sources.items())
        if key in self._passed:
            return
        try:
            _require_select(parsed(self.connection, query), sources)
        except (LookupError, TypeError, AttributeError):
            raise internal("the SQL of a scan lacks what was meant") from None
        self._passed.add(key)

    def close(self) -> None:
        """Let go of the instance."""
        parser, self._parser = self._parser, None
        if parser is not None:
            parser.result().close()

    def prepare(self) -> Future[duckdb.DuckDBPyConnection]:
        """Begin to open the instance, unless that was begun."""
        self._parser = self._parser or begun(_parser)
        return self._parser

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The instance, which can reach no file."""
        return self.prepare().result()


def _parser() -> duckdb.DuckDBPyConnection:
    connection = start()
    connection.execute("SET threads = 1")
    lock(connection, [])
    return connection


def shape_of(sql: str) -> str:
    """Return a text with a mark in the place of each number and each text in quotes.

    DuckDB says where they are, so that nothing it would read otherwise passes for one.

    >>> shape_of("SELECT 1, 'it''s' FROM t2")
    "SELECT 0, '' FROM t2"
    """
    written = sql.encode()
    places = [place for place, _ in duckdb.tokenize(sql)]
    tokens = [written[place:end] for place, end in pairwise([*places, len(written)])]
    for at, token in enumerate(tokens):
        if constant := _CONSTANT.fullmatch(token):
            mark = b"''" if token.startswith(b"'") else b"0"
            tokens[at] = mark + token[constant.end(1) :]
    return b"".join(tokens).decode()


def parsed(connection: duckdb.DuckDBPyConnection, sql: str) -> Node:
    """Return one SELECT as DuckDB's parser reads it."""
    ((written,),) = connection.execute(_ASK, [sql]).fetchall()
    found: Node = json.loads(written)
    insist(not found["error"] and len(found["statements"]) == 1, "one SELECT")
    node: Node = found["statements"][0]["node"]
    return node


def insist(holds: bool, what: str) -> None:
    """Fail unless something holds of a text that is to be run.

    Raises:
        InternalError: DPQ901.
    """
    if not holds:
        raise internal(f"the SQL of a scan is not what was meant: {what}")


def _sources(sql: ScanSQL, held: str | None) -> dict[str, str]:
    """Return the names that a scan reads, each with its rows' unit: "" for no unit."""
    if held is not None:
        return {held: ""}
    joins = (node for node in walk(sql.scan.relation) if isinstance(node, PublicJoin))
    found = {sql.publics[join.table]: "" for join in joins}
    for place in sql.places.values():
        unit = "" if place.held else place.table.owner or ""
        found[place.source if place.held else view_name(place.table)] = (
            unit  # of what is held, rows without a unit were dropped
        )
    return found


def _require_select(tree: Node, sources: Mapping[str, str]) -> None:
    """Hold every node of a text against the lists, and every table against the scan."""
    insist(tree["type"] in {"SELECT_NODE", "SET_OPERATION_NODE"}, "a SELECT")
    nodes, read = _nodes(tree), set[int]()
    shared = {each["key"] for node in nodes for each in node.get("map", ())}
    insist(all(map(_SHARED.fullmatch, shared)), "names of WITH")
    for node in nodes:
        if "class" in node:
            insist(node["class"] in _EXPRESSIONS, f"an expression of class {node['class']}")
        elif "type" in node:
            insist(node["type"] in _CLAUSES or id(node) in read, f"a {node['type']}")
        insist("sample" not in node, "all rows")
        if "function_name" in node:
            name = node["function_name"]
            insist(node["qualified_name"]["path"] == [name], "functions by their names alone")
            insist(name in FUNCTIONS, f"the function {name}")
        for role, part in node.items():
            if isinstance(part, dict) and part.get("type") == "BASE_TABLE":
                where = node.get("where_clause") if role == "from_table" else None
                _require_source(part, where, sources, shared)
                read.add(id(part))


def _require_source(
    node: Node, where: Node | None, sources: Mapping[str, str], shared: set[str]
) -> None:
    """Insist on rows of the scan, and on the condition that drops those without a unit."""
    source, *more = node["qualified_name"]["path"]
    insist(not more, "names in the engine's own schema")
    if source in shared:
        return
    insist(source in sources, f"rows of {source}")
    unit = sources[source]
    if unit:
        parts = [] if where is None else [where, *where.get("children", [])]
        joint = where is not None and where["type"] in {"CONJUNCTION_AND", _PRESENT}
        present = (p["children"][0]["column_names"] for p in parts if p["type"] == _PRESENT)
        insist(joint and [unit] in present, "rows with a unit")


def _nodes(tree: Node) -> list[Node]:
    """Return all nodes of a tree, itself first."""
    found, pending = list[Node](), list[Any]([tree])
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            found.append(part)
            pending.extend(reversed(part.values()))
        elif isinstance(part, list):
            pending.extend(reversed(part))
    return found


# Scans are planned before they are charged, over empty tables in place of the files.
#
# The tables have the columns that the policy declares, so no file is read. Values that are
# not known before the charge stand in the SQL as NULL, and groups still to be found as any.


class Rehearsal:
    """Checks and plans the queries of scans, each scan once, in the verifier's instance."""

    def __init__(
        self, verifier: Verifier, publics: Mapping[str, str], public: PublicRows
    ) -> None:
        """Take the engine's names of the public tables, and where their columns are told."""
        self.verifier = verifier
        self._publics = publics
        self._public = public
        self._made: dict[tuple[str, Type | None], str] = {}
        self._passed = Recent[Scan]()
        self._planned = Recent[str]()
        """Texts without their constants, whose types do not depend on their values."""

    def require(self, scan: Scan, tables: Sequence[Table]) -> None:
        """Check and plan all queries of a scan, which reads these private tables.

        Raises:
            InternalError: DPQ901 one of them may not be run, or cannot be planned.
        """
        if scan in self._passed:
            return
        if len(self._made) >= REMEMBERED:
            self.close()
        places = {table.name: Place.in_files(table) for table in tables}
        sql = ScanSQL(foreseen(scan), places, public_names(scan, self._publics))
        histograms = (one for one in scan.measures if isinstance(one, Histogram))
        for query in (*sql.whole(), *map(sql.held, histograms)):
            self.plan(sql, query)
        self._passed.add(scan)

    def plan(self, sql: ScanSQL, query: str) -> None:
        """Check one query of a scan, and have DuckDB resolve its names and types.

        Raises:
            InternalError: DPQ901 it may not be run, or cannot be planned.
        """
        self.verifier.require(sql, query)
        unit = _unit_type([place.table for place in sql.places.values()])
        for place in sql.places.values():
            query = query.replace(place.source, self._empty(place.table, unit))
        for join in walk(sql.scan.relation):
            if isinstance(join, PublicJoin):
                self._empty_public(join.table, sql.publics[join.table])
        shape = shape_of(query)
        if shape in self._planned:
            return
        try:
            self.verifier.connection.sql(query)
        except (duckdb.OutOfMemoryException, MemoryError):
            raise MemoryError from None  # which is no fault of the text
        except duckdb.Error:
            raise internal("DuckDB can plan the SQL of a scan") from None
        self._planned.add(shape)

    def close(self) -> None:
        """Let go of the verifier's instance, and forget what was made in it."""
        self._made.clear()
        self._planned.clear()
        self.verifier.close()

    def _empty(self, table: Table, unit: Type) -> str:
        """Return an empty table with the columns of a private one, by name."""
        key = table.name, unit
        if key not in self._made:
            types = {column.name: column.type for column in table.held.values()}
            if table.owner is not None:
                types.setdefault(table.owner, unit)
            columns = ", ".join(f"{quoted(n)} {duckdb_name(t)}" for n, t in types.items())
            name = self._made[key] = f"empty{len(self._made)}"
            made = f"CREATE TABLE {name} ({columns or 'one INTEGER'})"
            self.verifier.connection.execute(made)
        return self._made[key]

    def _empty_public(self, table: str, name: str) -> None:
        """Make an empty table with the columns of a public one, under the engine's name."""
        if (table, None) not in self._made:
            self._made[table, None] = name
            empty = self._public.rows(table).schema.empty_table()
            load(self.verifier.connection, name, empty)


def _unit_type(tables: Sequence[Table]) -> Type:
    """Return the type of the units that tables share; where none declares it, any will do."""
    if any(table.owner != table.unit for table in tables):
        return TEXT
    columns = (table.columns.get(table.unit or "") for table in tables)
    known = [*(c.type for c in columns if c is not None), *(t.unit_type for t in tables)]
    return next((type_ for type_ in known if type_ is not None), INTEGER)


def foreseen(scan: Scan) -> Scan:
    """Return a scan with any values in the places of those that earlier releases give."""
    constants = {constant.number: None for constant in constants_in(scan)}
    scan = filled(scan, constants) if constants else scan
    if all(key.finding is None for key in scan.keys):
        return scan
    return replace(scan, keys=tuple(map(_with_any_groups, scan.keys)))


def _with_any_groups(key: Key) -> Key:
    if key.finding is None:
        return key
    values = (_ANY[key.expr.type.kind], None)
    return replace(key, finding=replace(key.finding, values=values, known=True))


_ANY: dict[Kind, Scalar] = {
    Kind.INTEGER: 0,
    Kind.DECIMAL: Fraction(0),
    Kind.TEXT: "",
    Kind.BOOLEAN: False,
    Kind.DATE: EPOCH.date(),
    Kind.TIMESTAMP: EPOCH,
    Kind.TIMESTAMPTZ: FIRST_INSTANT,
    Kind.TIME: EPOCH.time(),
}
"""A value of each type that groups have."""
