"""SQL as DuckDB's parser reads it: its nodes, what an expression may hold, which rows count.

What is not listed here is another text than was meant: a kind of expression, a part of one, a
function, a type, the name of a column.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence, Set
from typing import Any

import duckdb

from dpquery.engine.duckdb.clamped_table_sql import Place
from dpquery.ir.expr import Code, columns_of
from dpquery.ir.relations import TableScan
from dpquery.rowfunctions import engine_functions

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
        *(
            "ARRAY_EXTRACT",
            "ARRAY_SLICE",
            "COMPARE_IN",
            "OPERATOR_COALESCE",
            "OPERATOR_IS_NOT_NULL",
        ),
        *("OPERATOR_IS_NULL", "OPERATOR_NOT", "OPERATOR_TRY"),
    }
)
_TYPES = frozenset(
    {
        *(
            "BIGINT",
            "BOOLEAN",
            "DATE",
            "DECIMAL",
            "DOUBLE",
            "FLOAT",
            "HUGEINT",
            "INTEGER",
            "INTERVAL",
            "TIME",
            "TIMESTAMP WITH TIME ZONE",
            "TIMESTAMPTZ",
        ),
        *("TIMESTAMP", "VARCHAR"),
    }
)
SUM_FUNCTIONS = frozenset(
    {"*", "+", "-", "//", ">>", "count", "count_star", "greatest", "least", "nullif", "sum"}
    | {"concat_ws", "enum_code", "getvariable", "list", "min", "row_number", "sha256"}
)
"""What adds rows up."""
ROW_FUNCTIONS = engine_functions() | {
    *("%", "*", "+", "-", "/", "//"),
    *(
        "epoch_us",
        "floor",
        "isnan",
        "left",
        "list_filter",
        "list_transform",
        "list_value",
        "nullif",
        "strlen",
    ),
}
"""What computes values of a row."""
UNIT_FUNCTIONS = frozenset(["bool_and", "bool_or", "count", "count_star", "max", "min", "sum"])
"""What computes values of the rows of one unit."""
LIST_FUNCTIONS = frozenset(["string_split", "unnest"])
"""What makes several rows of one."""
WINDOW_FUNCTIONS = UNIT_FUNCTIONS | {"dense_rank", "lag", "lead", "ntile", "rank", "row_number"}
"""What computes values of a row's place among the rows of its unit."""


class Different(AssertionError):
    """A text does not say what the tree says."""


def insist(holds: bool, what: str) -> None:
    """Fail unless something holds of a text."""
    if not holds:
        raise Different(what)


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


def column(*path: str) -> Node:
    """Return a name as it is parsed."""
    return {"class": "COLUMN_REF", "type": "COLUMN_REF", "column_names": list(path)}


def equal(left: Node, right: Node) -> Node:
    """Return an equality as it is parsed."""
    return {"class": "COMPARISON", "type": "COMPARE_EQUAL", "left": left, "right": right}


def plain(node: Node, *clauses: str) -> None:
    """Insist on a SELECT with these clauses and no others, and no word beside them."""
    named = {"type", "select_list", "from_table", "aggregate_handling", *clauses}
    insist(node.get("type") == "SELECT_NODE" and set(node) == named, f"SELECT with {clauses}")
    insist(node["aggregate_handling"] == "STANDARD_HANDLING", "groups that are written")


def require_counted(
    asked: Sequence[Node], unit_name: str, scan: TableScan, source: Node
) -> Sequence[Node]:
    """Insist on rows of a unit, and of its first parts alone; give what else WHERE asks."""
    unit = column(unit_name)
    owned = {"class": "OPERATOR", "type": "OPERATOR_IS_NOT_NULL", "children": [unit]}
    insist(bool(asked) and asked[0] == owned, "rows with a unit")
    if scan.part is None:
        return asked[1:]
    kept = asked[1]
    equal_to = (kept["subquery_type"], kept["comparison_type"])
    insist(equal_to == ("ANY", "COMPARE_EQUAL"), "rows of some parts")
    place = kept["child"]["arguments"][1]["expression"]
    insist(kept["child"] == call("row", [unit, place]), "the part of a row")
    first, given, groups = kept["subquery"]["node"], [unit, call("min", [place])], [unit]
    if scan.kept > 1:
        first, given = _ranked(first, scan.kept), [_named(unit, "u"), _named(place, "p")]
        groups = [unit, place]
    plain(first, "where_clause", "group_expressions", "group_sets")
    insist(first["from_table"] == source, "parts of the same rows")
    insist(first["where_clause"] == owned, "parts of all rows of a unit")
    insist(first["group_expressions"] == groups, "parts of each unit")
    insist(first["group_sets"] == [[*range(len(groups))]], "one set of groups")
    insist(first["select_list"] == given, "its parts")
    _require_place(place, scan.part)
    return asked[2:]


def _ranked(node: Node, kept: int) -> Node:
    """Insist on the first parts of each unit; give what all its parts are taken from."""
    plain(node, "qualify")
    insist(node["select_list"] == [column("u"), column("p")], "units and parts")
    limit, source = node["qualify"], node["from_table"]
    insist(limit["type"] == "COMPARE_LESSTHANOREQUALTO", "a limit of parts")
    insist(limit["right"] == constant("INTEGER", str(kept)), "the limit of the tree")
    rank = limit["left"]
    insist(rank["function_name"] == "row_number", "the place of a part")
    insist(rank["partitions"] == [column("u")], "the parts of one unit")
    orders = [(order["type"], order["expression"]) for order in rank["orders"]]
    insist(orders == [("ORDER_DEFAULT", column("p"))], "the first parts")
    insist(set(source) == {"type", "subquery"}, "the parts of all units")
    parts: Node = source["subquery"]["node"]
    return parts


def _named(node: Node, name: str) -> Node:
    return {**node, "alias": name}


def _require_place(place: Node, part: Code) -> None:
    """Insist on a place for each value of a column, and another for all that have none."""
    last = constant("INTEGER", str(len(part.values)))
    insist(place["type"] == "OPERATOR_COALESCE", "a place for every row")
    insist(place["children"][1:] == [last], "the last place for the rest")
    places = [case["then_expr"] for case in place["children"][0]["case_checks"]]
    counted = [constant("INTEGER", str(number)) for number in range(len(part.values))]
    insist(places == counted, "the places of the tree")
    names = frozenset(ref.name for ref in columns_of(part.expr).values())
    require_expression([place], names, ROW_FUNCTIONS)


def path(place: Place) -> str:
    """Return the name of rows in memory, or of the view of a table."""
    return place.source if place.held else f"t:{place.table.name}"


def call(name: str, arguments: Sequence[Node]) -> Node:
    """Return a function of some arguments as it is parsed."""
    kind = {"class": "FUNCTION", "type": "FUNCTION", "function_name": name}
    return {**kind, "arguments": [{"expression": each} for each in arguments]}


def constant(kind: str, text: str) -> Node:
    """Return a constant as it is parsed."""
    literal = {"kind": kind, "text": text}
    return {"class": "CONSTANT", "type": "VALUE_CONSTANT", "literal": literal}
