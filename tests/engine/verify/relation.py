"""Holds the rows of a parsed scan against the tree: node by node, in lockstep.

What each node of a relation has to look like as SQL stands here a second time, apart from what
writes it: where rows are read and which are dropped, on what they are joined, by what they are
grouped and parted, what the columns are called. The owner is passed on by every node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dpquery.engine.duckdb.clamped_table_sql import Place
from dpquery.ir.expr import ColumnRef, columns_of
from dpquery.ir.relations import (
    Filter,
    PerUnit,
    Project,
    PublicJoin,
    Relation,
    SemiJoin,
    TableScan,
    UnionAll,
    UnitJoin,
    Unnest,
    Windowed,
    WindowFunction,
    equated,
    kept_rows,
    numbers,
    only_table,
    sides_of,
    tables_of,
)
from tests.engine.verify.joins import (
    WithNames,
    require_agreeing,
    require_crowded,
    require_few,
    unit_rows,
    with_names,
)
from tests.engine.verify.syntax import (
    LIST_FUNCTIONS,
    ROW_FUNCTIONS,
    UNIT_FUNCTIONS,
    WINDOW_FUNCTIONS,
    Node,
    column,
    constant,
    equal,
    insist,
    path,
    plain,
    require_counted,
    require_expression,
    walk,
)

_STAR = {"class": "STAR", "type": "STAR"}
_PLACED = {
    *(WindowFunction.ROW_NUMBER, WindowFunction.NTILE),
    *(WindowFunction.LAG, WindowFunction.LEAD),
}
_KINDS = {
    (False, False): "INNER",
    (True, False): "LEFT",
    (False, True): "RIGHT",
    (True, True): "FULL",
}


def inner(source: Node, alias: str | None = None) -> Node:
    """Return the query of a subquery in FROM."""
    insist(source.get("type") == "SUBQUERY", "a subquery")
    insist(set(source) <= {"type", "alias", "subquery"}, "a subquery with more")
    insist(source.get("alias") == alias, f"a subquery named {alias}")
    node: Node = source["subquery"]["node"]
    return node


def listed(node: Node) -> list[str]:
    """Return the names of the columns that a SELECT gives."""
    items = node["select_list"]
    return [i.get("alias") or i.get("column_names", [i["type"]])[-1] for i in items]


@dataclass(frozen=True)
class Shape:
    """What the rows of one scan have to look like."""

    places: Mapping[str, Place]
    publics: Mapping[str, str]
    used: Sequence[ColumnRef]

    def require(self, node: Node, relation: Relation) -> None:
        """Hold a parsed query against the relation that it gives the rows of.

        Raises:
            Different: it is another.
        """
        if only_table(relation) is not None:
            self._table(node, relation)
            return
        match relation:
            case Filter(source=source):
                plain(node, "where_clause")
                insist(node["select_list"] == [_STAR], "all columns of filtered rows")
                self._expressions([node["where_clause"]], source)
                self.require(inner(node["from_table"]), source)
            case Project(source=source, number=number):
                self._project(node, source, number)
            case PublicJoin():
                self._public(node, relation)
            case Unnest():
                self._unnested(node, relation)
            case UnitJoin():
                self._joined(node, relation)
            case SemiJoin():
                self._semi_joined(node, relation)
            case UnionAll(number=number, parts=parts):
                arms = self._arms(node, len(parts))
                for arm, (part, _) in zip(arms, parts, strict=True):
                    self._project(arm, part, number)
            case PerUnit():
                self._per_unit(node, relation)
            case Windowed():
                self._windowed(node, relation)

    def names(self, *of: int) -> list[str]:
        """Return the columns in use of some relations, as they are called."""
        return [
            f"{ref.of}.{ref.name}"
            for number in sorted(of)
            for ref in self.used
            if ref.of == number
        ]

    def read(self, node: Node, relation: Relation) -> frozenset[str]:
        """Hold FROM and WHERE of a table's rows against the policy; give the names there.

        Raises:
            Different: other files, or rows without a unit that are not dropped.
        """
        scan = only_table(relation)
        assert isinstance(scan, TableScan)
        place = self.places[scan.table]
        table, held = place.table, place.held
        unit = None if table.unit is None else owner_of(place)
        own = [ref.name for ref in self.used if ref.of == scan.number]
        names = {f"{kind}:{name}" for name in own for kind in "ck"} if held else {*own}
        source = node["from_table"]
        named = {"type": "BASE_TABLE", "table_name": path(place)}
        insist(source == named, f"the rows of {table.name}")
        asked = _conditions(node)
        if table.unit is not None and not held:
            asked = require_counted(asked, table.unit, scan, source)
        allowed = frozenset(names | ({unit} if unit is not None else set()))
        require_expression(asked, allowed, ROW_FUNCTIONS)
        return allowed

    # What follows are the nodes.

    def _owned(self, relation: Relation) -> bool:
        return self.places[tables_of(relation)[0].table].table.unit is not None

    def _row(self, node: Node, relation: Relation, names: Sequence[str]) -> None:
        """Insist on the owner and these columns, in this order."""
        owner = ["u"] if self._owned(relation) else []
        insist(listed(node) == ([*owner, *names] or ["one"]), f"the columns {names}")

    def _expressions(self, parts: Iterable[Node], *below: Relation) -> None:
        given = [number for relation in below for number in numbers(relation)]
        require_expression(list(parts), {"u", *self.names(*given)}, ROW_FUNCTIONS)

    def _table(self, node: Node, relation: Relation) -> None:
        plain(node, *(["where_clause"] if "where_clause" in node else []))
        scan = only_table(relation)
        assert isinstance(scan, TableScan)
        names = self.read(node, relation)
        self._row(node, relation, self.names(scan.number))
        place = self.places[scan.table]
        if self._owned(relation):
            unit = owner_of(place)
            insist(
                node["select_list"][0] == {**column(unit), "alias": "u"}, "the unit as owner"
            )
        require_expression(node["select_list"], names, ROW_FUNCTIONS)

    def _project(self, node: Node, source: Relation, number: int) -> None:
        plain(node)
        self._row(node, source, self.names(number))
        if self._owned(source):
            insist(node["select_list"][0] == column("u"), "the owner")
        self._expressions(node["select_list"], source)
        self.require(inner(node["from_table"]), source)

    def _arms(self, node: Node, size: int) -> list[Node]:
        insist(set(node) == {"type", "setop_type", "children"}, "UNION ALL and nothing else")
        insist(node["setop_type"] == "UNION" and len(node["children"]) == size, "all its parts")
        arms: list[Node] = node["children"]
        return arms

    def _public(self, node: Node, join: PublicJoin) -> None:
        plain(node)
        source, given = node["from_table"], self.names(join.number)
        insist(source["join_type"] == ("LEFT" if join.keeps else "INNER"), "the kind of join")
        self._regular(source)
        self._row(node, join.source, [*self.names(*numbers(join.source)), *given])
        if self._owned(join.source):
            insist(node["select_list"][0] == column("a", "u"), "the owner")
        for item in node["select_list"]:
            insist(item["class"] in {"COLUMN_REF", "CONSTANT"}, "columns as they are")
        public = inner(source["right"], "p")
        plain(public)
        table = {"type": "BASE_TABLE", "table_name": self.publics[join.table]}
        insist(public["from_table"] == table, f"the public table {join.table}")
        insist(listed(public) == (given or ["one"]), "columns of the public table")
        own = {*self.names(*numbers(join.source)), *given}
        require_expression([source["condition"]], own, ROW_FUNCTIONS)
        self.require(inner(source["left"], "a"), join.source)

    def _unnested(self, node: Node, relation: Unnest) -> None:
        plain(node)
        column = f"{relation.number}.{relation.values[0].name}"
        star, item = node["select_list"]
        insist(star == _STAR and item["alias"] == column, "all columns, and that of the list")
        insist(item.get("function_name") == "unnest", "a row for each value")
        (values,) = (argument["expression"] for argument in item["arguments"])
        if relation.listed:
            (listed,) = relation.values
            names = frozenset(self.names(*{ref.of for ref in columns_of(listed.expr).values()}))
            require_expression([values], names, ROW_FUNCTIONS | {"len"})
            return
        if relation.separator is None:
            insist(values.get("function_name") == "list_value", "a list of values")
            insist(len(values["arguments"]) == relation.most, "all values")
        else:
            insist(values.get("type") == "ARRAY_SLICE", "the first parts")
            split, first, last = values["children"]
            ends = [end["literal"]["text"] for end in (first, last)]
            insist(ends == ["1", str(relation.most)], "as many parts as count")
            if relation.keeps:
                insist(split.get("type") == "OPERATOR_COALESCE", "rows without parts")
                split, other = split["children"]
                insist(other.get("function_name") == "list_value", "one value in their place")
                (null,) = (argument["expression"] for argument in other["arguments"])
                insist(null["literal"]["kind"] == "NULL_LITERAL", "no value of a row")
            insist(split.get("function_name") == "string_split", "the parts of a text")
            separator = split["arguments"][1]["expression"]["literal"]["text"]
            insist(separator == relation.separator, "the separator")
        names = {"u", *self.names(*numbers(relation.source))}
        require_expression([values], names, ROW_FUNCTIONS | LIST_FUNCTIONS)
        unnested = [n for n in walk(values) if n.get("function_name") == "unnest"]
        insist(not unnested, "one list")
        self.require(inner(node["from_table"]), relation.source)

    def _regular(self, source: Node) -> None:
        named = {"type", "left", "right", "condition", "join_type", "ref_type", "is_implicit"}
        insist(
            set(source) == named and source["ref_type"] == "REGULAR", "a join on a condition"
        )

    def require_units(self, node: Node, scan: TableScan) -> None:
        """Hold a parsed query against the units of all rows of a table.

        Raises:
            Different: other rows, or fewer.
        """
        plain(node, *(["where_clause"] if "where_clause" in node else []))
        self.read(node, scan)
        place = self.places[scan.table]
        unit = owner_of(place)
        insist(node["select_list"] == [{**column(unit), "alias": "u"}], "the unit as owner")
        dropped = 0 if place.held else 1 if scan.part is None else 2
        insist(len(_conditions(node)) == dropped, "all rows of the table")

    def _joined(self, node: Node, join: UnitJoin) -> None:
        node, shared = (node, {}) if join.pairs is None else with_names(node)
        plain(node)
        source = node["from_table"]
        self._regular(source)
        insist(source["join_type"] == _KINDS[join.keeps_left, join.keeps_right], "the kind")
        owner = {"class": "OPERATOR", "type": "OPERATOR_COALESCE", "alias": "u"}
        sides = [column("a", "u"), column("b", "u")]
        insist(node["select_list"][0] == {**owner, "children": sides}, "the common owner")
        insist(listed(node)[1:] == self.names(*numbers(join)), "the columns of both")
        self._on(source["condition"], equal(*sides), join)
        self._sides([inner(source["left"], "a"), inner(source["right"], "b")], join, shared)

    def _on(self, condition: Node, units: Node, join: UnitJoin | SemiJoin) -> None:
        """Insist on equal units, and on what the tree asks beyond."""
        parts = condition["children"] if _and(condition) else [condition]
        insist(parts[0] == units, "rows of one unit alone")
        insist((len(parts) > 1) is (join.condition is not None), "what the join asks")
        self._expressions(parts[1:], *sides_of(join))

    def _semi_joined(self, node: Node, join: SemiJoin) -> None:
        node, shared = (node, {}) if join.pairs is None else with_names(node)
        plain(node, "where_clause")
        insist(node["select_list"] == [{**_STAR, "relation_name": "a"}], "the rows outside")
        where = node["where_clause"]
        if join.negated:
            insist(
                where["type"] == "OPERATOR_NOT" and len(where["children"]) == 1, "NOT EXISTS"
            )
            where = where["children"][0]
        found = self._exists(where)
        self._on(found["where_clause"], equal(column("b", "u"), column("a", "u")), join)
        sides = [inner(node["from_table"], "a"), inner(found["from_table"], "b")]
        self._sides(sides, join, shared)

    def _exists(self, where: Node) -> Node:
        insist(where.get("subquery_type") == "EXISTS", "EXISTS")
        found: Node = where["subquery"]["node"]
        plain(found, "where_clause")
        insist(found["select_list"] == [constant("INTEGER", "1")], "whether there are rows")
        return found

    def _sides(
        self, nodes: Sequence[Node], join: UnitJoin | SemiJoin, shared: WithNames
    ) -> None:
        """Hold the sides of a join against its relations, and against its limit of pairs."""
        sides, keys = sides_of(join), len(equated(join))
        if join.pairs is None:
            for node, side in zip(nodes, sides, strict=True):
                self.require(node, side)
            return
        names, texts = [*shared], [*shared.values()]
        insist(len(names) == (4 if keys else 3), "both sides, and the units with many pairs")
        require_crowded(texts[2], [unit_rows(name) for name in names[:2]], 0, join.pairs)
        if keys:
            source = texts[3]["from_table"]
            counted = [inner(source["left"], "a"), inner(source["right"], "b")]
            rows = [inner(one["from_table"]) for one in counted]
            for one, name, side in zip(rows, names, sides, strict=False):
                own = frozenset(self.names(*numbers(side)))
                require_agreeing(one, name, names[2], keys, own)
            require_crowded(texts[3], rows, keys, join.pairs)
        for node, name, text, side in zip(nodes, names, texts, sides, strict=False):
            own = frozenset(self.names(*numbers(side)))
            require_few(node, name, names[-1], kept_rows(join.pairs), own)
            self.require(text, side)

    def _per_unit(self, node: Node, relation: PerUnit) -> None:
        plain(node, "group_expressions", "group_sets")
        groups = node["group_expressions"]
        insist(groups[0] == column("u") and len(groups) == 1 + len(relation.keys), "groups")
        insist(node["group_sets"] == [list(range(len(groups)))], "one set of groups")
        insist(listed(node) == ["u", *self.names(relation.number)], "a row of each unit")
        insist(node["select_list"][0] == column("u"), "the owner")
        names = {"u", *self.names(*numbers(relation.source))}
        require_expression(groups, names, ROW_FUNCTIONS)
        require_expression(node["select_list"], names, ROW_FUNCTIONS | UNIT_FUNCTIONS)
        self.require(inner(node["from_table"]), relation.source)

    def _windowed(self, node: Node, relation: Windowed) -> None:
        plain(node)
        twins = sum(c.function in _PLACED for c in relation.columns) > 1
        source, name = inner(node["from_table"]), f"{relation.number}.twin"
        star: Node = _STAR
        more: set[str] = set()
        if twins:
            star, more = {**_STAR, "exclude_list": [name]}, {name}
            numbered, source = source, inner(source["from_table"])
            plain(numbered)
            insist(numbered["select_list"][0] == _STAR, "all columns")
            insist(listed(numbered)[1:] == [name], "the place among equal rows")
            self._within(numbered["select_list"][1:])
        own = [f"{relation.number}.{c.name}" for c in relation.columns]
        insist(node["select_list"][0] == star and listed(node)[1:] == own, "the windows")
        names = {"u", *more, *self.names(*numbers(relation.source))}
        require_expression(node["select_list"][1:], names, ROW_FUNCTIONS, WINDOW_FUNCTIONS)
        self._within(node["select_list"][1:])
        self.require(source, relation.source)

    def _within(self, windows: list[Node]) -> None:
        """Insist on windows, each over rows of one unit."""
        for item in windows:
            found = [n for n in walk(item) if n.get("class") == "WINDOW"]
            insist(bool(found), "a window")
            for window in found:
                insist(window["partitions"][0] == column("u"), "within a unit")


def _conditions(node: Node) -> Sequence[Node]:
    """Return what WHERE asks, part by part."""
    where = node.get("where_clause")
    if where is None:
        return []
    parts: Sequence[Node] = where["children"] if _and(where) else [where]
    return parts


def _and(node: Node) -> bool:
    return node.get("type") == "CONJUNCTION_AND"


def owner_of(place: Place) -> str:
    """Return the column that says whose a row is: of what is kept, by name or by number."""
    return place.owner if place.held else place.table.unit or ""
