"""Checks generated SQL against closed lists, and plans it before it is charged.

The text is parsed by DuckDB's own parser, which reads it again when it runs, so the two cannot
read it differently. Whatever the generator wrote, this holds of a text that passes:

* It is one SELECT, made of the clauses and the kinds of expressions that are listed here.
* It reads the files and tables of its scan, and nothing else.
* Where a table has a unit, rows without one are dropped where they are read. Where another
  table says whose its rows are, they are read beside the claims to their keys, and what is read
  of that table are claims alone: different pairs of a key and a unit, neither of them NULL.
* It calls the functions that row functions state and those listed here, and no others.

That a text computes what the tree says is shown by tests, which compare each clause with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeVar

import duckdb

from dpquery import rowfunctions
from dpquery.core.types import EPOCH, INTEGER, Kind, Type
from dpquery.engine.base import PublicRows
from dpquery.engine.duckdb.column_sql import CLAIMS, Place, own_files
from dpquery.engine.duckdb.connection import duckdb_name, load, lock, quoted, start
from dpquery.engine.duckdb.scan_sql import ScanSQL, public_names
from dpquery.errors import internal
from dpquery.ir.expr import Scalar
from dpquery.ir.measures import Histogram
from dpquery.ir.query import Key, Scan
from dpquery.ir.relations import PublicJoin, walk
from dpquery.ir.walk import constants_in, filled
from dpquery.policy.model import Files, Table, Through

Node = dict[str, Any]
T = TypeVar("T")

REMEMBERED = 256
GENERATED = frozenset(
    {
        *("%", "*", "+", "-", "/", "//", ">>"),
        *("enum_code", "epoch_us", "floor", "greatest", "isnan", "least", "left", "nullif"),
        *("list_filter", "list_value", "row", "string_split", "strlen", "unnest"),
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
_READ = frozenset({"BASE_TABLE", "TABLE_FUNCTION"})
_OF_CLAIMS = frozenset(
    {
        *("type", "modifiers", "cte_map", "select_list", "from_table", "where_clause"),
        "aggregate_handling",
    }
)
_PRESENT = "OPERATOR_IS_NOT_NULL"
_ASK = (
    "SELECT json_serialize_sql($1, skip_null := true, skip_empty := true, skip_default := true)"
)

Source = tuple[str, ...]
"""What rows are read from: the parts of a table's name, or the words of a call."""
Owner = str | Through
"""The unit's column, which must not be NULL, or the way to it; "" where no row has a unit."""


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
        self._parser: duckdb.DuckDBPyConnection | None = None
        self._passed = Recent[tuple[str, str]]()

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
        key = query, repr(sources)
        if key in self._passed:
            return
        try:
            _require_select(parsed(self.connection, query), sources)
        except (LookupError, TypeError, ValueError, AttributeError):
            raise internal("the SQL of a scan lacks what was meant") from None
        self._passed.add(key)

    def close(self) -> None:
        """Let go of the instance."""
        if self._parser is not None:
            self._parser.close()
            self._parser = None

    @property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The instance, which can reach no file."""
        if self._parser is None:
            self._parser = start()
            self._parser.execute("SET threads = 1")
            lock(self._parser, [])
        return self._parser


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


def _sources(sql: ScanSQL, held: str | None) -> dict[Source, Owner]:
    """Return what a scan reads, and what says whose the rows are of each."""
    if held is not None:
        return {(held,): ""}
    joins = (node for node in walk(sql.scan.relation) if isinstance(node, PublicJoin))
    found: dict[Source, Owner] = {(sql.publics[join.table],): "" for join in joins}
    for place in sql.places.values():
        if place.held:  # rows without a unit were dropped
            found[place.source,] = ""
        else:
            found[_source(place.table)] = place.table.through or place.table.unit or ""
    return found


def _source(table: Table) -> Source:
    source = table.source
    if isinstance(source, Files):
        settings = "union_by_name=true", "hive_partitioning=false", "filename=false"
        words = (word for setting in settings for word in setting.split("="))
        return ("read_parquet", "list_value", *map(str, source.paths), *words)
    return (str(source.database), "main", source.table)


def _require_select(tree: Node, sources: Mapping[Source, Owner]) -> None:
    """Hold every node of a text against the lists, and every table against the scan."""
    insist(tree["type"] in {"SELECT_NODE", "SET_OPERATION_NODE"}, "a SELECT")
    nodes, read = _nodes(tree), set[int]()
    shared = {each["key"] for node in nodes for each in node.get("map", ())}
    insist(all(map(_SHARED.fullmatch, shared)), "names of WITH")
    for node in nodes:
        owner = sources.get(_read_from(node["left"]) or ()) if node.get("left") else None
        if isinstance(owner, Through):
            read.update(_require_claims(node, owner))
    claimed = frozenset(read)
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
            if isinstance(part, dict) and part.get("type") in _READ and id(part) not in claimed:
                where = node.get("where_clause") if role == "from_table" else None
                _require_source(part, where, sources, shared)
                read.add(id(part))


def _require_source(
    node: Node, where: Node | None, sources: Mapping[Source, Owner], shared: set[str]
) -> None:
    """Insist on rows of the scan, and on the condition that drops those without a unit."""
    source = _read_from(node) or ()
    if len(source) == 1 and source[0] in shared:
        return
    insist(source in sources, f"rows of {source[-1]}")
    unit = sources[source]
    insist(isinstance(unit, str), "claims beside rows that have no unit of their own")
    insist(not unit or [unit] in _present(where), "rows with a unit")


def _read_from(node: Node) -> Source | None:
    """Return what a node reads; None of one that reads nothing."""
    if node.get("type") == "BASE_TABLE":
        return tuple(node["qualified_name"]["path"])
    return tuple(_words(node["function"])) if node.get("type") == "TABLE_FUNCTION" else None


def _present(where: Node | None) -> list[list[str]]:
    """Return the columns that are not NULL in any row that a condition keeps."""
    if where is None or where["type"] not in {"CONJUNCTION_AND", _PRESENT}:
        return []
    parts = [where, *where.get("children", [])]
    return [p["children"][0]["column_names"] for p in parts if p["type"] == _PRESENT]


def _require_claims(join: Node, through: Through) -> Iterator[int]:
    """Insist on rows beside the units that claim their keys; return what was looked at."""
    yield id(join["left"])
    how = [join[part] for part in ("join_type", "ref_type", "using_columns")]
    insist(how == ["INNER", "REGULAR", [through.column]], "a join with claims by their keys")
    insist("condition" not in join and join["right"]["type"] == "SUBQUERY", "claims alone")
    claims, other = join["right"]["subquery"]["node"], through.table
    plain = claims["aggregate_handling"] == "STANDARD_HANDLING" and not claims["cte_map"]
    insist(plain and _OF_CLAIMS.issuperset(claims), "claims as they stand")
    (different,) = claims["modifiers"]
    insist(different == {"type": "DISTINCT_MODIFIER"}, "claims, each once")
    yield id(different)
    key, unit = claims["select_list"]
    insist(key["type"] == "OPERATOR_CAST" and key["alias"] == through.column, "a claimed key")
    insist(key["child"].get("column_names") == [through.key], "the key of claims")
    name, rows = [other.unit], claims["from_table"]
    if other.through is not None:
        name, rows = [CLAIMS, other.unit], rows["left"]
        yield from _require_claims(claims["from_table"], other.through)
    else:
        insist([other.unit] in _present(claims.get("where_clause")), "claims of units")
    insist(_read_from(rows) == _source(other), f"claims of {other.name}")
    insist([through.key] in _present(claims.get("where_clause")), "claims to keys")
    insist((unit.get("column_names"), unit["alias"]) == (name, other.unit), "units of claims")
    yield id(rows)


def _words(call: Node) -> Iterator[str]:
    """Return the names and the constants of a call, in the order of the text."""
    for node in _nodes(call, calls=True):
        if node.get("class") == "FUNCTION":
            yield from node["qualified_name"]["path"]
        elif node.get("class") == "COLUMN_REF":
            yield from node["column_names"]
        elif node.get("class") == "CONSTANT":
            yield node["literal"]["text"]
        elif "class" in node:
            insist(node["type"] == "COMPARE_EQUAL", "the settings of a reader")


def _nodes(tree: Node, *, calls: bool = False) -> list[Node]:
    """Return all nodes of a tree, itself first; those of what reads files if asked for."""
    found, pending = list[Node](), list[Any]([tree])
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            found.append(part)
            if calls or part.get("type") != "TABLE_FUNCTION":
                pending.extend(reversed(part.values()))
        elif isinstance(part, list):
            pending.extend(reversed(part))
    return found


# Scans are planned before they are charged, over empty tables in place of the files.
#
# The tables have the columns that the policy declares, so no file is read. Values that are
# not known before the charge stand in the SQL as NULL, and groups still to be found as any.


_NAME_OR_CONSTANT = re.compile(r"""("(?:[^"]|"")*")|'(?:[^']|'')*'|\b\d+\b""")


class Rehearsal:
    """Checks and plans the queries of scans, each scan once, in the verifier's instance."""

    def __init__(
        self, verifier: Verifier, publics: Mapping[str, str], public: PublicRows
    ) -> None:
        """Take the engine's names of the public tables, and where their columns are told."""
        self.verifier = verifier
        self._publics = publics
        self._public = public
        self._made: dict[str, str] = {}
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
        tables = [place.table for place in sql.places.values()]
        for source, columns in _columns(tables, _unit_type(tables)).items():
            query = query.replace(source, self._empty(columns))
        for join in walk(sql.scan.relation):
            if isinstance(join, PublicJoin):
                self._empty_public(join.table, sql.publics[join.table])
        shape = _NAME_OR_CONSTANT.sub(r"\1", query)  # names stay
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

    def _empty(self, types: Mapping[str, Type]) -> str:
        """Return an empty table with some columns."""
        columns = ", ".join(f"{quoted(n)} {duckdb_name(t)}" for n, t in types.items())
        if columns not in self._made:
            name = self._made[columns] = f"empty{len(self._made)}"
            made = f"CREATE TABLE {name} ({columns or 'one INTEGER'})"
            self.verifier.connection.execute(made)
        return self._made[columns]

    def _empty_public(self, table: str, name: str) -> None:
        """Make an empty table with the columns of a public one, under the engine's name."""
        if f"p {table}" not in self._made:
            self._made[f"p {table}"] = name
            empty = self._public.rows(table).schema.empty_table()
            load(self.verifier.connection, name, empty)


def _columns(tables: Iterable[Table], unit: Type) -> dict[str, dict[str, Type]]:
    """Return the columns of all tables that are read, by what stands after FROM for each.

    Those that say whose the rows of others are are among them.
    """
    found: dict[str, dict[str, Type]] = {}
    for table in (one for scanned in tables for one in scanned.way):
        types = found.setdefault(own_files(table), {})
        types |= {column.name: column.type for column in table.columns.values()}
        if table.through is not None:
            types[table.through.column] = table.through.type
        elif table.unit is not None:
            types.setdefault(table.unit, unit)
    return found


def _unit_type(tables: Sequence[Table]) -> Type:
    """Return the type of the units that tables share; where none declares it, any will do."""
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
}
"""A value of each type that groups have."""
