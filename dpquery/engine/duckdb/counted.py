"""Which rows of a table count, read back from SQL: the files, and the rows dropped from them.

With it stand the small parts that parsed SQL is compared with.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpquery.engine.duckdb.parsed import Node, insist, require_expression
from dpquery.engine.duckdb.render import Place
from dpquery.engine.duckdb.vocabulary import ROW_FUNCTIONS
from dpquery.ir import Code, TableScan, columns_of
from dpquery.policy.model import Files

__all__ = [
    "call",
    "column",
    "constant",
    "equal",
    "path",
    "plain",
    "reader",
    "require_counted",
]


def column(*path: str) -> Node:
    """Give a name as it is parsed."""
    return {"class": "COLUMN_REF", "type": "COLUMN_REF", "column_names": list(path)}


def equal(left: Node, right: Node) -> Node:
    """Give an equality as it is parsed."""
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


def path(place: Place) -> list[str | None]:
    """Give catalogue, schema and name of rows in a DuckDB file, or in memory."""
    if place.origin.held:
        return [None, None, place.origin.sql]
    source = place.table.source
    assert not isinstance(source, Files)  # noqa: S101 - the caller looked
    return [str(source.database), "main", source.table]


def reader(paths: Sequence[str]) -> Node:
    """Give the reading of files as it is parsed."""
    texts = [constant("STRING", path) for path in paths]
    settings = {"union_by_name": "true", "hive_partitioning": "false", "filename": "false"}
    arguments = [call("list_value", texts)]
    arguments += [equal(column(n), constant("BOOLEAN", v)) for n, v in settings.items()]
    return call("read_parquet", arguments)


def call(name: str, arguments: Sequence[Node]) -> Node:
    """Return a function of some arguments as it is parsed."""
    kind = {"class": "FUNCTION", "type": "FUNCTION", "function_name": name}
    return {**kind, "arguments": [{"expression": each} for each in arguments]}


def constant(kind: str, text: str) -> Node:
    """Give a constant as it is parsed."""
    literal = {"kind": kind, "text": text}
    return {"class": "CONSTANT", "type": "VALUE_CONSTANT", "literal": literal}
