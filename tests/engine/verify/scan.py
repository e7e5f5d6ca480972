"""Compares the SQL of a whole scan with its tree, clause by clause.

* Its rows come from the files of the policy's tables that the tree names, or from what is kept
  of them, each as often as the tree does, and from its public tables; nothing else is read.
* Rows without a unit are dropped where they are read. Every node has the shape that the tree
  asks for: joins and EXISTS are on equal units, groups and windows begin with the unit, the
  owner is passed on, and there are no clauses beside these.
* Names are those of the policy's columns in use, where a table is read, and of our own making
  everywhere else. Functions, operators and types stand in a closed list.
* What adds the rows up sees engine-made columns alone and has a list of functions of its own.

What an expression computes, and the numbers among the weights, are not compared: these the
oracle and the laws of the mechanisms stand for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import duckdb

from dpquery.engine.duckdb.connection import start
from dpquery.engine.duckdb.scan_sql import ScanSQL
from dpquery.ir.query import columns_read
from dpquery.ir.relations import TableScan, numbers, only_table, tables_of
from tests.engine.verify.relation import Shape, inner, listed, owner_of
from tests.engine.verify.syntax import (
    ROW_FUNCTIONS,
    SUM_FUNCTIONS,
    Different,
    Node,
    column,
    constant,
    insist,
    parsed,
    plain,
    require_expression,
    walk,
)

_MADE = re.compile(r"u|n|t|i|v|w|g|p|cell|one|least|units|[gvbmwkxt]\d+")
_SHARED = frozenset({"r", "parts", "spread"})
"""What the sums of a scan name with WITH."""
_ROWS: Node = {"type": "ROWS"}


def require_as_meant(sql: ScanSQL, query: str, held: str | None = None) -> None:
    """Hold a query of a scan against its tree.

    Args:
        sql: the scan, and where its rows are read.
        query: the text that would be run.
        held: a table of codes that an earlier query of the scan made, if it reads one.

    Raises:
        Different: the text does not say what the tree says.
    """
    try:
        rows = table = None
        if held is None:
            rows = parsed(_connection(), sql.rows)
            _require_rows(sql, rows)
            table = _table_of(sql)
        said = "t" in sql.said
        _require_sums(parsed(_connection(), query), rows, table, held, said=said)
    except (LookupError, TypeError, AttributeError, ValueError):
        raise Different("the text lacks what was meant") from None


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    return start()


def _table_of(sql: ScanSQL) -> Node | None:
    """Return the rows that weights by the table count, held against it, if there are any."""
    if not sql.by_table:
        return None
    node = parsed(_connection(), sql.table_rows)
    (table,) = tables_of(sql.scan.relation)
    Shape(sql.places, sql.publics, ()).require_units(node, table)
    return node


def _require_rows(sql: ScanSQL, rows: Node) -> None:
    """Hold the rows of a scan against its relation, its keys, codes and conditions."""
    scan = sql.scan
    shape = Shape(sql.places, sql.publics, columns_read(scan))
    plain(rows, *(["where_clause"] if "where_clause" in rows else []))
    sizes = {"g": scan.keys, "v": sql.codes, "b": sql.conditions, "x": sql.values}
    made = [f"{letter}{i}" for letter, all_ in sizes.items() for i in range(len(all_))]
    owner = ["one"] if scan.contribution.unit is None else ["u", *sql.said]
    insist(listed(rows) == [*owner, *made], "columns")
    first, *counts = rows["select_list"][: len(owner)]
    table = only_table(scan.relation)
    if table is None:
        insist("where_clause" not in rows, "rows as the relation gives them")
        shape.require(inner(rows["from_table"], "r"), scan.relation)
        names = frozenset({"u", *shape.names(*numbers(scan.relation))})
        unit = "u"
    else:
        names = shape.read(rows, scan.relation)
        place = sql.places[table.table]
        unit = owner_of(place)
        every = isinstance(scan.relation, TableScan)
        for name, count in zip(sql.said, counts, strict=True):
            insist(place.owner == "i" and (every or name == "t"), "rows that count by WHERE")
            insist(count == {**column("n"), "alias": name}, "the rows of a unit")
        names |= {"n"} if counts else frozenset()
    if scan.contribution.unit is not None:
        owner_ = constant("INTEGER", "1") if unit == "1" else column(unit)
        insist(first == {**owner_, "alias": "u"}, "the unit as owner")
    require_expression(rows["select_list"], names, ROW_FUNCTIONS)


def _require_sums(
    whole: Node, rows: Node | None, table: Node | None, held: str | None, *, said: bool
) -> None:
    """Hold what adds up rows against the lists, where nothing but these rows is read."""
    rest, found = _without(whole, rows)
    if table is not None:
        rest, counted = _without(rest, table)
        named = any(node.get("column_names", [])[-1:] == ["t"] for node in walk(rest))
        insist(counted or said or rows == table or not named, "the rows of the table")
    insist(found or held is not None, "the rows of the scan")
    tables = {held} if held is not None else _SHARED
    for node in walk(rest):
        kind = node.get("type")
        if kind == "BASE_TABLE":
            insist(set(node) <= {"type", "alias", "table_name"}, "a table by its name alone")
            insist(node["table_name"] in tables, f"the table {node['table_name']}")
        insist(kind not in {"TABLE_FUNCTION", "SET_OPERATION_NODE"}, f"a {kind}")
        ordered = all(each["type"] == "ORDER_MODIFIER" for each in node.get("modifiers", ()))
        insist(ordered and "sample" not in node, "all rows")
        insist(node.get("class") not in {"SUBQUERY", "LAMBDA"}, "a subquery")
        insist(node.get("class") != "WINDOW" or _of_a_unit(node), "a window across units")
        for name in node.get("column_names", [])[-1:]:
            insist(_MADE.fullmatch(name) is not None, f"the column {name}")
        name = node.get("function_name")
        insist(name is None or name in SUM_FUNCTIONS, f"the function {name}")


def _of_a_unit(window: Node) -> bool:
    """Return whether a window counts what one unit has."""
    ranked: bool = window["function_name"] in {"count", "row_number"}
    return ranked and window["partitions"] == [column("u")]


def _without(value: Any, rows: Node | None) -> tuple[Any, bool]:
    """Take the rows of the scan out of a query; say whether they were in it."""
    if value == rows:
        return _ROWS, True
    if isinstance(value, dict):
        pairs = {key: _without(part, rows) for key, part in value.items()}
        return {k: part for k, (part, _) in pairs.items()}, any(f for _, f in pairs.values())
    if isinstance(value, list):
        parts: Sequence[tuple[Any, bool]] = [_without(part, rows) for part in value]
        return [part for part, _ in parts], any(f for _, f in parts)
    return value, False
