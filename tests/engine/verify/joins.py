"""What bounds the pairs of a join, read back from SQL: units with many, and what they keep.

The texts are compared whole with what they have to be, but for the expressions that the join
equates and the order of a unit's rows: of these the lists of names and functions are held.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from tests.engine.verify.syntax import (
    ROW_FUNCTIONS,
    Node,
    call,
    column,
    constant,
    equal,
    insist,
    plain,
    require_expression,
)

WithNames = dict[str, Node]
"""What WITH names before a join, by name, in order."""
_STAR = {"class": "STAR", "type": "STAR"}
_SAME_UNIT = equal(column("h", "u"), column("s", "u"))


def with_names(node: Node) -> tuple[Node, WithNames]:
    """Part a query from what WITH names before it, each of it computed once."""
    named = node["cte_map"]["map"]
    for each in named:
        insist(set(each["value"]) == {"materialized", "query_node"}, "names of WITH alone")
        insist(each["value"]["materialized"] == "CTE_MATERIALIZE_ALWAYS", "rows kept once")
    shared = {each["key"]: each["value"]["query_node"] for each in named}
    insist(len(shared) == len(named), "a name for each")
    return {k: v for k, v in node.items() if k != "cte_map"}, shared


def require_crowded(node: Node, rows: Sequence[Node], keys: int, pairs: int) -> None:
    """Insist on the units that have more pairs than a join takes, and on no others.

    Args:
        node: what is held against it.
        rows: the rows of both sides, with their keys.
        keys: how many there are.
        pairs: how many pairs are taken of every unit.
    """
    names = ["u", *(f"k{i}" for i in range(keys))]
    same = [equal(column("a", name), column("b", name)) for name in names]
    both = {"class": "CONJUNCTION", "type": "CONJUNCTION_AND", "children": same}
    joined = {
        **_join(_counted("a", rows[0], names), _counted("b", rows[1], names)),
        "condition": both if keys else same[0],
    }
    sums = [call("sum", [column(side, "n")]) for side in "ab"]
    limit = call("greatest", [constant("INTEGER", str(pairs)), *sums])
    wanted = {
        **_select([{**column("a", "u"), "alias": "u"}], joined),
        **_grouped([column("a", "u")]),
        "having": _compared("GREATERTHAN", call("sum", [_product()]), limit),
    }
    insist(node == wanted, "the units that have many pairs")


def require_agreeing(node: Node, rows: str, heavy: str, keys: int, names: Set[str]) -> None:
    """Insist on the rows of some units with their keys, computed of columns of these names."""
    given = node["select_list"]
    wanted = {**_select(given, _table(rows, "s")), "where_clause": _among(heavy)}
    insist(node == wanted, "the rows of units that may have many pairs")
    aliases = [item.get("alias") for item in given[1:]]
    insist(given[0] == column("u") and aliases == [f"k{i}" for i in range(keys)], "keys")
    require_expression(given[1:], names, ROW_FUNCTIONS)


def require_few(node: Node, rows: str, heavy: str, kept: int, names: Set[str]) -> None:
    """Insist on all rows of most units, and on so many of each that has many pairs."""
    insist(set(node) == {"type", "setop_type", "children"}, "UNION ALL and nothing else")
    insist(node["setop_type"] == "UNION" and len(node["children"]) == 2, "all its parts")
    most, rest = node["children"]
    apart = {"class": "OPERATOR", "type": "OPERATOR_NOT", "children": [_among(heavy)]}
    wanted = {**_select([_STAR], _table(rows, "s")), "where_clause": apart}
    insist(most == wanted, "all rows of the units that have few pairs")
    plain(rest)
    source = rest["from_table"]
    insist(rest["select_list"] == [_STAR] and set(source) == {"type", "subquery"}, "the rest")
    found = source["subquery"]["node"]
    window = found["qualify"]["left"]
    insist(window["function_name"] == "row_number", "the place of a row")
    insist(window["partitions"] == [column("s", "u")], "the rows of one unit")
    ends = {"class", "type", "function_name", "partitions", "orders", "start", "end"}
    insist(set(window) <= ends, "a place and nothing else")
    require_expression(window.get("orders", []), names, ROW_FUNCTIONS)
    joined = {**_join(_table(rows, "s"), _table(heavy, "h")), "condition": _SAME_UNIT}
    wanted = {
        **_select([{**_STAR, "relation_name": "s"}], joined),
        "qualify": _compared("LESSTHANOREQUALTO", window, constant("INTEGER", str(kept))),
    }
    insist(found == wanted, "the first rows of the units that have many pairs")


def _select(items: Sequence[Node], source: Node) -> Node:
    return {
        "type": "SELECT_NODE",
        "select_list": [*items],
        "from_table": source,
        "aggregate_handling": "STANDARD_HANDLING",
    }


def _grouped(by: Sequence[Node]) -> Node:
    return {"group_expressions": [*by], "group_sets": [[*range(len(by))]]}


def _table(name: str, alias: str = "") -> Node:
    named = {"alias": alias} if alias else {}
    return {"type": "BASE_TABLE", "table_name": name, **named}


def unit_rows(name: str) -> Node:
    """Return the units of some rows, as they are parsed."""
    return _select([column("u")], _table(name))


def _among(heavy: str) -> Node:
    """Return the condition that the unit of a row is among some, as it is parsed."""
    found = _select([constant("INTEGER", "1")], _table(heavy, "h"))
    exists = {"class": "SUBQUERY", "type": "SUBQUERY", "subquery_type": "EXISTS"}
    asked = {**found, "where_clause": _SAME_UNIT}
    return {**exists, "subquery": {"node": asked}, "comparison_type": "INVALID"}


def _counted(alias: str, rows: Node, names: Sequence[str]) -> Node:
    """Return the rows by unit and keys, with how many they are."""
    by = [column(name) for name in names]
    count = {**call("count_star", []), "alias": "n"}
    count.pop("arguments")
    source = {"type": "SUBQUERY", "subquery": {"node": rows}}
    node = {**_select([*by, count], source), **_grouped(by)}
    return {"type": "SUBQUERY", "alias": alias, "subquery": {"node": node}}


def _join(left: Node, right: Node) -> Node:
    kind = {"type": "JOIN", "join_type": "INNER", "ref_type": "REGULAR", "is_implicit": False}
    return {**kind, "left": left, "right": right}


def _product() -> Node:
    """Return the number of pairs of rows that agree, computed in 128 bits."""
    huge = {"class": "TYPE", "type": "TYPE", "type_name": "HUGEINT"}
    wide = {"class": "CAST", "type": "OPERATOR_CAST", "child": column("a", "n")}
    factors = [{**wide, "type_expr": huge}, column("b", "n")]
    return {**call("*", factors), "is_operator": True}


def _compared(how: str, left: Node, right: Node) -> Node:
    kind = {"class": "COMPARISON", "type": f"COMPARE_{how}"}
    return {**kind, "left": left, "right": right}
