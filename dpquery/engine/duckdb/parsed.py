"""SQL as DuckDB's own parser reads it, and the closed list of what may stand in it.

The parser is the one that runs the text a moment later, so the two cannot read it differently.
What is not listed here is refused, as a fault of ours: a kind of expression, a part of one, a
function, a type, the name of a column.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Set
from typing import Any

import duckdb

from dpquery.errors import internal

__all__ = ["Node", "insist", "parsed", "require_expression", "walk"]

Node = dict[str, Any]

_PASSED = frozenset({"query_location", "query_location_length"})
_ASK = (
    "SELECT json_serialize_sql($1, skip_null := true, skip_empty := true, skip_default := true)"
)
_SLOTS = {
    "BETWEEN": {"input", "lower", "upper"},
    "CASE": {"case_checks", "else_expr"},
    "CAST": {"child", "type_expr", "try_cast"},
    "COLUMN_REF": {"column_names"},
    "COMPARISON": {"left", "right"},
    "CONJUNCTION": {"children"},
    "CONSTANT": {"literal"},
    "FUNCTION": {"function_name", "is_operator", "arguments", "distinct", "filter"},
    "LAMBDA": {"lhs", "expr", "syntax_type"},
    "OPERATOR": {"children"},
    "TYPE": {"type_name", "children"},
    "WINDOW": {
        *("function_name", "partitions", "orders", "start", "end", "filter_expr"),
        *("arguments", "distinct"),
    },
}
"""What an expression of a class consists of, beside its class, its type and its alias."""
_PARTS = frozenset(
    {"expression", "kind", "null_order", "text", "then_expr", "type", "when_expr"}
)
_OPERATORS = frozenset(
    {
        *("ARRAY_EXTRACT", "COMPARE_IN", "OPERATOR_COALESCE", "OPERATOR_IS_NOT_NULL"),
        *("OPERATOR_IS_NULL", "OPERATOR_NOT", "OPERATOR_TRY"),
    }
)
_TYPES = frozenset(
    {
        *("BIGINT", "BOOLEAN", "DATE", "DECIMAL", "DOUBLE", "HUGEINT", "INTEGER", "INTERVAL"),
        *("TIMESTAMP", "VARCHAR"),
    }
)


def insist(holds: bool, what: str) -> None:
    """Fail unless something holds of a text that is to be run.

    Raises:
        InternalError: the text does not say what the tree says.
    """
    if not holds:
        raise internal(f"the SQL of a scan is not what was meant: {what}")


def parsed(connection: duckdb.DuckDBPyConnection, sql: str) -> Node:
    """Read one SELECT."""
    row = connection.execute(_ASK, [sql]).fetchone()
    given = '{"error": true}' if row is None else row[0]
    found: Node = json.loads(given, object_hook=_bare)
    insist(not found["error"] and len(found["statements"]) == 1, "one SELECT")
    insist(set(found["statements"][0]) <= {"node", "named_param_map"}, "a SELECT alone")
    node: Node = found["statements"][0]["node"]
    return node


def _bare(node: Node) -> Node:
    """Leave out of a node, whose parts are bare, places in the text and what says nothing."""
    named = node.pop("qualified_name", None)
    if named is not None:
        kinds = ("catalog", "schema", "table", "function", "type")
        path = [node[f"{kind}_name"] for kind in kinds if f"{kind}_name" in node]
        insist(named.get("path", []) == path, "functions by their names alone")
    if node.get("order_bys") == {"type": "ORDER_MODIFIER"}:
        del node["order_bys"]
    return {
        key: part
        for key, part in node.items()
        if key not in _PASSED and part is not None and part not in ("", [], {})
    }


def walk(value: Any) -> Iterator[Node]:
    """Return all nodes in one, itself first."""
    pending = [value]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            yield part
            pending.extend(reversed(part.values()))
        elif isinstance(part, list):
            pending.extend(reversed(part))


def require_expression(
    node: Any, names: Set[str], functions: Set[str], windows: Set[str] = frozenset()
) -> None:
    """Hold an expression against the lists: its kinds, its functions, the columns it names."""
    variables = {
        name
        for found in walk(node)
        if found.get("class") == "LAMBDA"
        for name in found["lhs"].get("column_names", ())
    }
    for found in walk(node):
        kind = found.get("class")
        if kind is None:
            insist(set(found) <= _PARTS, "the parts of an expression")
            continue
        insist(kind in _SLOTS, f"an expression of class {kind}")
        insist(set(found) <= _SLOTS[kind] | {"class", "type", "alias"}, f"a {kind} with more")
        match kind:
            case "FUNCTION" | "WINDOW":
                name = found["function_name"]
                listed = windows if kind == "WINDOW" else functions
                insist(name in listed, f"the function {name}")
            case "OPERATOR":
                insist(found["type"] in _OPERATORS, f"the operator {found['type']}")
            case "TYPE":
                insist(found["type_name"] in _TYPES, f"the type {found['type_name']}")
            case "COLUMN_REF":
                column = found["column_names"]
                insist(len(column) == 1, "a column by its name alone")
                insist(column[0] in names or column[0] in variables, f"the column {column[0]}")
