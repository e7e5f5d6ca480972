"""Whether a view gives each row from one row of a table, by what DuckDB makes of its text.

DuckDB's binder resolves a view to a plan: names, macros, stars and casts that nobody wrote are
all in it, and no row is read for it. Held against closed lists, such a plan selects, filters
and computes row by row, gives the same each time, and no value in a row can make it fail.
A stored column that is computed is read in the same way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import duckdb

Node = dict[str, Any]

_ASK = (
    "SELECT json_serialize_plan($1, skip_null := true, skip_empty := true, "
    "skip_default := true)"
)
_OPERATORS = frozenset(
    {
        *("LOGICAL_FILTER", "LOGICAL_GET", "LOGICAL_ORDER_BY", "LOGICAL_PROJECTION"),
        *("LOGICAL_CTE_REF", "LOGICAL_MATERIALIZED_CTE", "LOGICAL_UNION"),
    }
)
_REFUSED = {
    "LOGICAL_AGGREGATE_AND_GROUP_BY": "groups rows",
    "LOGICAL_CROSS_PRODUCT": "joins tables",
    "LOGICAL_DISTINCT": "drops rows that are equal",
    "LOGICAL_EXCEPT": "drops rows for others",
    "LOGICAL_INTERSECT": "drops rows for others",
    "LOGICAL_LIMIT": "keeps some of the rows",
    "LOGICAL_SAMPLE": "takes a sample",
    "LOGICAL_WINDOW": "compares rows",
}
_CLASSES = frozenset(
    {
        *("BOUND_BETWEEN", "BOUND_CASE", "BOUND_CONJUNCTION", "BOUND_CONSTANT"),
        *("BOUND_FUNCTION", "BOUND_OPERATOR", "BOUND_REF"),
    }
)
_KINDS = frozenset(
    {
        *("COMPARE_IN", "COMPARE_NOT_IN", "OPERATOR_COALESCE", "OPERATOR_IS_NOT_NULL"),
        *("OPERATOR_IS_NULL", "OPERATOR_NOT"),
    }
)
"""Operators that are total whatever they are given."""
_FUNCTIONS = frozenset(
    {
        *("=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"),
        *("||", "concat", "contains", "length", "lower", "ltrim", "prefix", "rtrim"),
        *("starts_with", "strlen", "suffix", "trim", "upper", "encode", "day", "month", "year"),
    }
)
"""Functions that give the same for the same arguments, always, and no more than these hold."""
_OF_DOUBLES = frozenset({"+", "-", "*", "/", "abs", "ceil", "floor"})
"""Functions that are as total over doubles, and can overflow over others."""
_WITH_CONSTANTS = frozenset({"left", "right", "substring"})
"""Functions whose numbers must be none of a row's: some are out of their range."""
_LIKE = frozenset({"~~", "!~~"})
_PATTERN = re.compile(r"%?[^%_]*%?")
"""What is looked for in one pass over a text."""
_DOUBLES = frozenset({"DOUBLE", "FLOAT"})
_SIGNED = {"TINYINT": 7, "SMALLINT": 15, "INTEGER": 31, "BIGINT": 63, "HUGEINT": 127}
_UNSIGNED = {"BOOLEAN": 1, "UTINYINT": 8, "USMALLINT": 16, "UINTEGER": 32, "UBIGINT": 64}
_BITS = _UNSIGNED | _SIGNED
"""The bits of an integer but for its sign."""
_PLAIN = frozenset({*_BITS, *_DOUBLES, "DATE", "TIMESTAMP", "VARCHAR"})


def plan_of(connection: duckdb.DuckDBPyConnection, sql: str) -> Node | None:
    """Return what DuckDB binds a SELECT to; nothing is run.

    None where it is bound to nothing that can be written down: the tables of a view are gone,
    or it reads files, which are out of reach.
    """
    ((written,),) = connection.execute(_ASK, [sql]).fetchall()
    found = json.loads(written)
    if found["error"] or len(found["plans"]) != 1:
        return None
    plan: Node = found["plans"][0]
    return plan


def types_of(plan: Node) -> list[Node]:
    """Return the types of the columns that a plan gives."""
    return [expression.get("return_type", {}) for expression in plan["expressions"]]


def collated(type_: Node) -> bool:
    """Return whether texts of a type are not compared by their bytes alone."""
    return bool(type_.get("type_info", {}).get("collation"))


def why_not(plan: Node, database: str) -> str | None:
    """Return why a plan over tables of a file is not row by row and total; None if it is."""
    for node in _nodes(plan):
        kind = str(node.get("type", ""))
        if "expression_class" in node:
            why = _of_expression(node)
        elif kind.startswith("LOGICAL_"):
            why = _of_operator(node, kind, database)
        else:
            why = None
        if why is not None:
            return why
    return None


def _of_operator(node: Node, kind: str, database: str) -> str | None:
    if kind not in _OPERATORS:
        joins = "joins tables, or asks another query" if kind.endswith("_JOIN") else ""
        return joins or _REFUSED.get(kind, "does more than select, filter and compute")
    if kind != "LOGICAL_GET":
        return None
    scanned = node.get("function_data", {}).get("qualified_name", {}).get("path", [""])
    if node.get("qname", {}).get("path") != ["seq_scan"] or scanned[0] != database:
        return "reads more than tables of its file"
    columns = len(node.get("names", ()))
    if any(each.get("index", 0) >= columns for each in node.get("column_indexes", ())):
        return "tells rows by their place"
    return None


def _of_expression(node: Node) -> str | None:
    kind, class_ = node["type"], node["expression_class"]
    if class_ not in _CLASSES:
        return f"has an expression of class {class_.removeprefix('BOUND_').lower()}"
    if class_ == "BOUND_OPERATOR" and kind not in _KINDS:
        return f"has the operator {kind.removeprefix('OPERATOR_').lower()}"
    if class_ != "BOUND_FUNCTION" or _constant(node):
        return None
    if kind == "OPERATOR_CAST":
        return _of_cast(node)
    return None if _total(_named(node), node["children"]) else f"calls {_named(node)}"


def _total(name: str, given: list[Node]) -> bool:
    """Return whether a function gives the same for the same arguments, and always."""
    if name == "decode":
        return _named(given[0]) == "encode"  # the same text, and no collation
    if name in _OF_DOUBLES:
        return all(_type(one) in _DOUBLES for one in given)
    if name in _WITH_CONSTANTS:
        return all(map(_constant, given[1:]))
    if name in _LIKE:
        pattern = given[1].get("value", {}).get("value")
        return isinstance(pattern, str) and _PATTERN.fullmatch(pattern) is not None
    return name in _FUNCTIONS


def _of_cast(node: Node) -> str | None:
    """Refuse a cast that fails for some value, unless it gives NULL then."""
    if node.get("function_data", {}).get("try_cast"):
        return None
    before, after = _type(node["children"][0]), _type(node)
    if before in _PLAIN and after in {before, "VARCHAR"}:
        return None
    if before == "DECIMAL" and after in {"VARCHAR", "DOUBLE"}:
        return None
    if after == "DOUBLE" and before in {*_BITS, "FLOAT"}:
        return None
    held = _UNSIGNED if after in _UNSIGNED else _BITS
    if before in held and after in _BITS and _BITS[before] <= _BITS[after]:
        return None
    return f"casts {before} to {after}, which some values fail: TRY_CAST gives NULL for them"


def _constant(node: Node) -> bool:
    """Return whether no column decides about an expression: then it fails always or never."""
    return all(
        one.get("expression_class") != "BOUND_REF" and _named(one) in {"__cast", ""}
        for one in _nodes(node)
    )


def _named(node: Node) -> str:
    return str(node.get("qname", {}).get("path", [""])[-1])


def _type(node: Node) -> str:
    """Return the name of an expression's type."""
    found = node.get("return_type") or node.get("value", {}).get("type", {})
    return str(found.get("id", ""))


def _nodes(tree: Node) -> Iterator[Node]:
    """Yield all nodes of a plan, itself first."""
    pending: list[Any] = [tree]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            yield part
            pending.extend(part.values())
        elif isinstance(part, list):
            pending.extend(part)
