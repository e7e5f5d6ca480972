"""One SELECT above the frontier: its stages, its columns, and its text for the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpquery.core.source import Span
from dpquery.core.types import Kind
from dpquery.errors import refusal
from dpquery.ir.query import Key, Origin
from dpquery.sql.bind.from_clause import columns_of, is_star
from dpquery.sql.bind.groups import groupings_in
from dpquery.sql.bind.released import Released
from dpquery.sql.bind.scope import fold, is_call, is_interval_end, is_plain, written_name
from dpquery.sql.empty_answers import refuse_beyond
from dpquery.sql.parse.literals import read_place, unwrapped
from dpquery.sql.parse.spans import outside
from dpquery.sql.postprocess.calls import asked_keys
from dpquery.sql.postprocess.from_clause import MOST_HIDDEN, Open, OpenColumn, rows_within
from dpquery.sql.postprocess.functions import GROUPING, aggregate_name
from dpquery.sql.postprocess.stages import Base, Groups, Rows, Windowed
from dpquery.sql.postprocess.values import Value, direction, row_count

if TYPE_CHECKING:
    from dpquery.sql.postprocess.subqueries import Opener


# The SELECT of a frontier, as the query above computes with what it releases.


class FrontierRows(Base):
    """The released tables of one SELECT, one for each grouping: a row for each group.

    Of several groupings the tables stand one after the other, with NULL for keys that a table
    has not, its own row numbers, and a bit for each key that says which are missing.
    """

    def __init__(
        self, opener: Opener, aliases: dict[str, exp.Expr], released: Released
    ) -> None:
        super().__init__(opener, aliases)
        self.released = released
        self._count = len(released.sets)
        self._alias = opener.alias() if self._count > 1 else f"f{released.number}"

    @property
    def rows(self) -> list[tuple[str, int]]:
        """The row numbers of the frontiers."""
        if self._count == 1:
            return [(f'"{self._alias}"."row"', self.released.number)]
        return [(f'"{self._alias}"."r{i}"', f) for i, f in enumerate(self._frontiers)]

    @property
    def most(self) -> int:
        """How many groups there are."""
        return sum(prod(key.size for key in own) for own in self.released.sets)

    @property
    def _frontiers(self) -> range:
        return range(self.released.number, self.released.number + self._count)

    def text(self) -> str:
        """Name the released table; or put those of several groupings together."""
        if self._count == 1:
            return f'"{self._alias}"'
        arms = [self._arm(at, keys) for at, keys in enumerate(self.released.sets)]
        return f'({" UNION ALL ".join(arms)}) AS "{self._alias}"'

    def _arm(self, at: int, own: tuple[Key, ...]) -> str:
        """Write the rows of one grouping, with columns for what it has not."""
        columns = []
        for i, key in enumerate(self.released.keys):
            value = f'"{key.column}"' if key in own else "NULL"
            columns.append(f'{value} AS "{key.column}", {int(key not in own)} AS "g{i}"')
        columns += [f'"{call.column}"' for call in self.released.calls.found]
        for i in range(self._count):
            number = '"row"' if i == at else "CAST(NULL AS BIGINT)"
            columns.append(f'{number} AS "r{i}"')
        return f'SELECT {", ".join(columns)} FROM "f{self._frontiers[at]}"'

    def _released(self, column: str, origins: tuple[Origin, ...] = ()) -> Value:
        sql = f'"{self._alias}"."{column}"'
        kind = self.released.kind(column)
        narrow = not origins or kind is not Kind.DECIMAL
        longest = self.released.longest(column)
        return Value(sql, kind, safe=True, origins=origins, narrow=narrow, longest=longest)

    def column(self, node: exp.Column) -> Value | None:
        """Find a key; a name of the SELECT list is meant where no key is so called."""
        alias = not node.table and fold(node.name) in self.aliases
        if alias and not self.released.has(node.name):
            return None
        return self._released(self.released.column(node))

    def unknown(self, node: exp.Column) -> NoReturn:
        """Refuse a column that is none."""
        self.released.column(node)
        raise AssertionError(node)

    def call(self, node: exp.Expr) -> tuple[Value, str]:
        """Release a DP_ call: in each grouping, a share of it."""
        column, function = self.released.call(node)
        origins = tuple(Origin(i, f, column) for i, f in enumerate(self._frontiers))
        return self._released(column, origins), function

    def known(self, node: exp.Expr) -> Value | None:
        """Find the key that an expression over the rows is."""
        if isinstance(node, exp.Column | exp.Window | exp.Subquery):
            return None
        if node.find(exp.Query) is not None:
            return None
        key = self.released.key(node)
        return None if key is None else self._released(key)

    def aggregate(self, node: exp.Expr, name: str) -> Value:
        """Return which groups are missing; other aggregates over rows would be exact."""
        if name == GROUPING:
            return self._grouping(node)
        inner = next(filter(is_call, node.walk()), None)
        if inner is not None:
            shown = self.released.query(f"{self.spans.text(inner)} AS n")
            remedy = f"SELECT {name}(n) FROM ({shown})"
            label = "each group is one row here"
            raise outside(f"{name} of released values", self.spans.of(node), label, remedy)
        self.refuse_function(node.this if isinstance(node, exp.Filter) else node, name)

    def _grouping(self, node: exp.Expr) -> Value:
        keys = [self._released(key.column).sql for key in self.released.keys]
        bits = reversed(asked_keys(self, node, keys))
        parts = [f'{2**i} * "{self._alias}"."g{at}"' for i, at in enumerate(bits)]
        whole = f"({' + '.join(parts)})" if self._count > 1 else "0"
        return Value(f"CAST({whole} AS BIGINT)", Kind.INTEGER, safe=True)

    def refuse_function(self, call: exp.Expr, name: str) -> NoReturn:
        """Refuse an exact aggregate, or an unknown function."""
        self.released.refuse_function(call, name)


@dataclass(frozen=True, slots=True)
class _Item:
    """One column of the SELECT list, bound."""

    name: str
    value: Value


class Select:
    """Binds a SELECT over the rows of a frontier, or of open relations."""

    def __init__(self, base: Rows | FrontierRows, select: exp.Select, *, root: bool) -> None:
        self._base = base
        self._select = select
        self._root = root
        self.spans = base.spans
        self._items: list[_Item] = []
        self._names: dict[str, int] = {}
        self._repeats: dict[str, int] = {}

    def open(self) -> Open:
        """Bind it all; give it as a query in brackets."""
        select, base = self._select, self._base
        where = select.args.get("where")
        kept: list[Value] = []
        if where is not None and isinstance(base, Rows):
            kept += base.truths(where.this)
        stage = self._grouped(base, kept)
        if isinstance(stage, Groups):
            stage.kept, kept = kept, []
        having = select.args.get("having")
        if having is not None:
            kept += stage.truths(having.this)
        final = Windowed(stage) if self._has_window() else stage
        for node in select.expressions:
            self._items += self._bound_item(node, final, stage)
        qualified = self._qualified(final)
        distinct = self._distinct()
        order = self._order(final, distinct=distinct)
        apart = distinct or len(final.rows) > MOST_HIDDEN
        hidden = [] if apart else final.rows
        sql = self._text(final, hidden, distinct=distinct)
        if isinstance(final, Windowed):
            sql += final.source(kept) + base.opener.where(qualified)
        else:
            sql += final.source() + base.opener.where(kept)
        sql += order + self._last(order, hidden, stage, distinct=apart)
        sql += self._rows("limit") + self._rows("offset")
        ordered, most = bool(order), rows_within(stage.most, select.args.get("limit"))
        offset = select.args.get("offset")
        if offset is not None and isinstance(stage, FrontierRows):
            refuse_beyond(offset, stage.most, self.spans)
        columns = self._columns(stage.most, distinct=apart)
        made = sum(column.grown for column in columns)
        base.opener.require_texts(made, self.spans.of(select))
        return Open(f"({sql})", columns, tuple(f for _, f in hidden), ordered, most)

    def _grouped(self, base: Rows | FrontierRows, kept: list[Value]) -> Base:
        """Return the stage of groups, where rows are put into groups."""
        group = self._select.args.get("group")
        if not isinstance(base, Rows):
            return base
        if group is None and self._select.args.get("having") is None and not self._aggregates():
            return base
        if not base.from_.members:
            node = group or self._select.args.get("having") or self._select
            base.opener.without_table("groups need a table", node)
        return Groups(base, [list(map(unwrapped, one)) for one in self._keys(group, base)])

    def _aggregates(self) -> bool:
        return any(
            aggregate_name(node) is not None and not _windowed(node)
            for node in parts_of(self._select)
        )

    def _has_window(self) -> bool:
        return any(isinstance(node, exp.Window) for node in parts_of(self._select))

    def _keys(self, group: exp.Group | None, base: Rows) -> list[list[exp.Expr]]:
        """Return the expressions of each grouping."""
        items = [i.this if isinstance(i, exp.Alias) else i for i in self._select.expressions]
        if group is None:
            return [[]]
        if group.args.get("all"):
            return [
                [
                    item
                    for item in items
                    if item.find(exp.Column) is not None
                    and not any(aggregate_name(n) and not _windowed(n) for n in item.walk())
                ]
            ]
        sets = groupings_in(group, self.spans)
        return [self._meant(nodes, items, base) for nodes in sets]

    def _meant(
        self, nodes: Sequence[exp.Expr], items: Sequence[exp.Expr], base: Rows
    ) -> list[exp.Expr]:
        """Resolve names: a column goes before an alias, and a number counts columns."""
        found = []
        for node in nodes:
            if isinstance(node, exp.Literal) and not node.is_string:
                found.append(
                    items[read_place(node, len(items), self.spans.of(node), "GROUP BY")]
                )
            elif isinstance(node, exp.Column) and base.from_.find(node) is None:
                found.append(base.aliases.get(fold(node.name), node))
            else:
                found.append(node)
        return found

    def _bound_item(self, node: exp.Expr, final: Base | Windowed, stage: Base) -> list[_Item]:
        """Bind one item: a star is several columns."""
        if is_star(node):
            return self._star(node, final, stage)
        alias = node.alias if isinstance(node, exp.Alias) else ""
        value = node.this if isinstance(node, exp.Alias) else node
        inner = unwrapped(value)
        default = inner.name if isinstance(inner, exp.Column) else self.spans.text(value)
        if is_call(inner):
            found, function = final.call(inner)
            default = default if is_plain(inner) else function.lower()
        elif is_interval_end(inner):
            found, default = final.value(inner), str(inner.this).lower()
        else:
            found = final.value(value)
        name = self._unique(alias or default, explicit=bool(alias), span=self.spans.of(node))
        self._names[fold(name)] = len(self._names)
        return [_Item(name, found)]

    def _star(self, node: exp.Expr, final: Base | Windowed, stage: Base) -> list[_Item]:
        base = self._base
        span = self.spans.of(node)
        if not isinstance(base, Rows) or not base.from_.members:
            remedy = "SELECT 1 + 1"
            raise outside("*", span, "there is nothing to show", remedy)
        table = node.table if isinstance(node, exp.Column) else ""
        if table and not base.from_.calls(table):
            base.from_.refuse(node)  # type: ignore[arg-type]
        shown = list(base.from_.star(table))
        starred = columns_of(node, [name for name, _ in shown], self.spans)
        found = []
        for name, value in shown:
            becomes = starred.get(fold(name))
            if becomes is None:
                continue
            renamed = becomes.name != name
            unique = self._unique(becomes.name, explicit=renamed, span=span)
            self._names[fold(unique)] = len(self._names)
            if becomes.value is None:
                found.append(_Item(unique, self._shown(name, value, final, stage, span)))
            else:
                found.append(_Item(unique, final.value(becomes.value)))
        return found

    def _shown(
        self, name: str, value: Value, final: Base | Windowed, stage: Base, span: Span
    ) -> Value:
        """Return a column that a star stands for: in a group, the key that it is."""
        if isinstance(stage, Groups):
            key = stage.key(value)
            if key is None:
                label = f"{name} is not in GROUP BY"
                raise outside("* in a group", span, label, "COUNT(*)")
            value = key
        return final.lifted(value)

    def _unique(self, name: str, *, explicit: bool, span: Span) -> str:
        if fold(name) not in self._names:
            self._repeats[fold(name)] = 0
            return name
        if explicit:
            raise refusal(
                "DPQ211",
                f"two columns are called {name}",
                span,
                "the second one",
                "columns of an answer are found by their names.",
                f"AS {written_name(f'{name}_2')}",
            )
        number = self._repeats.get(fold(name), 0) + 1
        while fold(f"{name}_{number}") in self._names:
            number += 1
        self._repeats[fold(name)] = number
        return f"{name}_{number}"

    def _qualified(self, final: Base | Windowed) -> list[Value]:
        qualify = self._select.args.get("qualify")
        if qualify is None:
            return []
        if not isinstance(final, Windowed):
            span = self.spans.word("QUALIFY") or self.spans.of(qualify)
            remedy = "HAVING" if self._select.args.get("group") is not None else "WHERE"
            raise outside("QUALIFY without a window", span, f"use {remedy}", remedy)
        return final.truths(qualify.this)

    def _distinct(self) -> bool:
        node = self._select.args.get("distinct")
        if node is not None and node.args.get("on") is not None:
            span = self.spans.of(node)
            remedy = "QUALIFY row_number() OVER (PARTITION BY ...) = 1"
            raise outside("DISTINCT ON", span, "not understood", remedy)
        return node is not None

    def _text(
        self, final: Base | Windowed, hidden: Sequence[tuple[str, int]], *, distinct: bool
    ) -> str:
        columns = [f'{shown(item.value)} AS "c{i}"' for i, item in enumerate(self._items)]
        columns += [f'{sql} AS "r{i}"' for i, (sql, _) in enumerate(hidden)]
        return f"SELECT {'DISTINCT ' * distinct}{', '.join(columns)}"

    def _columns(self, most: int, *, distinct: bool) -> tuple[OpenColumn, ...]:
        found = []
        for at, item in enumerate(self._items):
            origins: tuple[Origin, ...] = () if distinct else item.value.origins
            value = item.value
            narrow = value.narrow or value.kind is Kind.INTEGER
            grown = value.longest * most if value.grown is None else value.grown
            sql = f'"c{at}"'
            column = OpenColumn(
                item.name, sql, value.kind, narrow, origins, value.longest, grown
            )
            found.append(column)
        return tuple(found)

    def _order(self, final: Base | Windowed, *, distinct: bool) -> str:
        order = self._select.args.get("order")
        if order is None:
            return ""
        keys = []
        for item in order.expressions:
            every = isinstance(item.this, exp.Var)  # ORDER BY ALL
            found = (
                [f'"c{at}"' for at in range(len(self._items))]
                if every
                else [self._sort_key(item.this, final, distinct=distinct)]
            )
            keys += [key + direction(item) for key in found]
        return " ORDER BY " + ", ".join(keys)

    def _sort_key(self, node: exp.Expr, final: Base | Windowed, *, distinct: bool) -> str:
        """Resolve a column's number, then a name of the SELECT list, then an expression."""
        if isinstance(node, exp.Literal):
            place = read_place(node, len(self._items), self.spans.of(node), "ORDER BY")
            return f'"c{place}"'
        if isinstance(node, exp.Column) and not node.table and fold(node.name) in self._names:
            return f'"c{self._names[fold(node.name)]}"'
        value = final.value(node)
        if value.constant is not None:  # the engine would count columns with it
            return f"TRY({value.sql})"
        if not distinct:
            return value.total
        for at, item in enumerate(self._items):
            if item.value.sql == value.sql:
                return f'"c{at}"'
        remedy = "ORDER BY 1"
        raise outside(
            "this order", self.spans.of(node), "not a column that DISTINCT shows", remedy
        )

    def _last(
        self, order: str, hidden: Sequence[tuple[str, int]], stage: Base, *, distinct: bool
    ) -> str:
        """Return what decides where nothing else does: the groups' order, or the values."""
        cut = self._select.args.get("limit") or self._select.args.get("offset")
        if not (self._root or order or cut):
            return ""
        if hidden:
            if not order and isinstance(stage, Rows) and stage.from_.sorted and stage.plain:
                return ""
            last = [sql for sql, _ in hidden]
        elif distinct or isinstance(stage, Groups) or self._has_window():
            last = [f'"c{i}"' for i in range(len(self._items))]
        else:
            return ""
        return (", " if order else " ORDER BY ") + ", ".join(last)

    def _rows(self, slot: str) -> str:
        clause = self._select.args.get(slot)
        return "" if clause is None else row_count(clause.expression, slot, self.spans)


def shown(value: Value) -> str:
    """Write a column of a result: a computed whole number is of the type that columns have."""
    if value.kind is Kind.INTEGER and not value.safe:
        return f"TRY(CAST({value.sql} AS BIGINT))"
    return value.total


def _windowed(node: exp.Expr) -> bool:
    """Return whether an aggregate stands before OVER."""
    parent = node.parent
    if isinstance(parent, exp.Filter) and parent.this is node:
        node, parent = parent, parent.parent
    return isinstance(parent, exp.Window) and parent.this is node


def parts_of(select: exp.Select) -> list[exp.Expr]:
    """Return the nodes of the SELECT list and the clauses after HAVING, subqueries excepted."""
    slots = ("having", "qualify", "order")
    pending = [*select.expressions, *(select.args.get(slot) for slot in slots)]
    found: list[exp.Expr] = []
    while pending:
        node = pending.pop(0)
        if node is None or isinstance(node, exp.Query):
            continue
        found.append(node)
        pending = [*node.iter_expressions(), *pending]
    return found
