"""One SELECT above the frontier: its stages, its columns, and its text for the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.core.types import Kind
from dpquery.errors import advice, refusal
from dpquery.sql.bind.from_clause import columns_of, is_star
from dpquery.sql.bind.group_by_clause import groupings_in
from dpquery.sql.bind.scope import fold, is_call, is_interval_end, is_plain, written_name
from dpquery.sql.empty_result_refusals import refuse_offset
from dpquery.sql.parse.literals import read_place, unwrapped
from dpquery.sql.parse.spans import outside
from dpquery.sql.postprocess.builtin_functions import aggregate_name
from dpquery.sql.postprocess.from_clause import MOST_HIDDEN, Open, OpenColumn, rows_within
from dpquery.sql.postprocess.select_stages import Base, FrontierRows, Groups, Rows, Windowed
from dpquery.sql.postprocess.sql_fragments import Value, direction, row_count, where


class Select:
    """Binds a SELECT over the rows of a frontier, or of open relations."""

    _stage: Base
    """Rows or groups, once they are chosen."""
    _final: Base | Windowed
    """The stage that is shown: windows over the other, if there are any."""

    def __init__(self, base: Rows | FrontierRows, select: exp.Select, *, root: bool) -> None:
        self._base = base
        self._select = select
        self._args = select.args
        self._root = root
        self._spans = base.spans
        self._items: list[tuple[str, Value]] = []
        """The columns of the SELECT list, bound."""
        self._names: dict[str, int] = {}
        self._repeats: dict[str, int] = {}

    def open(self) -> Open:
        """Bind it all; give it as a query in brackets."""
        base, kept, clause = self._base, list[Value](), self._args.get("where")
        if clause is not None and isinstance(base, Rows):
            kept = base.truths(clause.this)
        self._final = self._stage = stage = self._grouped(base, kept)
        if isinstance(stage, Groups):  # which keeps these rows
            kept = []
        if self._args.get("having") is not None:
            kept += stage.truths(self._args["having"].this)
        if any(isinstance(node, exp.Window) for node in parts_of(self._select)):
            self._final = Windowed(stage)
        for node in self._select.expressions:
            self._item(node)
        qualified = self._qualified()
        distinct = self._is_distinct()
        order = self._order(distinct=distinct)
        apart = distinct or len(self._final.rows) > MOST_HIDDEN
        hidden = [] if apart else self._final.rows
        parts = [f'{_shown(value)} AS "c{i}"' for i, (_, value) in enumerate(self._items)]
        parts += [f'{sql} AS "r{i}"' for i, (sql, _) in enumerate(hidden)]
        sql = f"SELECT {'DISTINCT ' * distinct}{', '.join(parts)}"
        whole = sql + self._final.source([] if self._only_leaves_out else kept)
        sql += self._final.source(kept) + where(qualified)
        sql += order + self._last(order, [sql for sql, _ in hidden], distinct=apart)
        for slot in ("limit", "offset"):
            if self._args.get(slot) is not None:
                sql += row_count(self._args[slot].expression, slot, self._spans)
        if self._args.get("offset") is not None and isinstance(stage, FrontierRows):
            refuse_offset(self._args["offset"], stage.most, self._spans)
        columns = self._columns(distinct=apart)
        made = sum(column.grown for column in columns)
        base.opener.require_texts(made, self._spans.of(self._select))
        most = rows_within(stage.most, self._args.get("limit"))
        hidden_of, least = tuple(f for _, f in hidden), min(most, self._least())
        found = Open(f"({sql})", columns, hidden_of, bool(order), most, least, self._unique())
        return replace(found, whole=whole)

    @property
    def _only_leaves_out(self) -> bool:
        """Return whether rows that WHERE or HAVING leave out change nothing in the others."""
        several = isinstance(self._stage, Rows) and len(self._stage.from_.members) > 1
        return self._final is self._stage and not several

    def _least(self) -> int:
        """Return how many rows there are for certain, but for LIMIT."""
        chooses = ["where", "having", "qualify", "distinct", "offset"]
        if isinstance(self._stage, FrontierRows):  # its rows were chosen before
            chooses = chooses[1:]
        return 0 if any(map(self._args.get, chooses)) else self._stage.least

    def _unique(self) -> frozenset[int]:
        """Return the places of columns that show together what no two rows have equal."""
        shown = {value.sql: at for at, (_, value) in enumerate(self._items)}
        keys = self._stage.unique if self._final is self._stage else ()
        return frozenset(shown[key] for key in keys if set(keys) <= shown.keys())

    def _grouped(self, base: Rows | FrontierRows, kept: list[Value]) -> Base:
        """Return the stage of groups, where rows are put into groups."""
        node = self._args.get("group") or self._args.get("having")
        if not isinstance(base, Rows) or (
            node is None and not any(map(_aggregates, parts_of(self._select)))
        ):
            return base
        if not base.from_.members:
            what = "an aggregate" if node is None else "GROUP BY or HAVING"
            base.opener.without_table(f"{what} needs a table", node or self._select)
        return Groups(base, [list(map(unwrapped, one)) for one in self._keys(base)], kept)

    def _keys(self, base: Rows) -> list[list[exp.Expr]]:
        """Return the expressions of each grouping."""
        items = [i.this if isinstance(i, exp.Alias) else i for i in self._select.expressions]
        group = self._args.get("group")
        if group is None:
            return [[]]
        if group.args.get("all"):
            named = (item for item in items if item.find(exp.Column) is not None)
            return [[item for item in named if not any(map(_aggregates, item.walk()))]]
        return [
            [self._meant(node, items, base) for node in nodes]
            for nodes in groupings_in(group, self._spans)
        ]

    def _meant(self, node: exp.Expr, items: Sequence[exp.Expr], base: Rows) -> exp.Expr:
        """Resolve a name: a column goes before an alias, and a number counts columns."""
        if isinstance(node, exp.Literal) and not node.is_string:
            return items[read_place(node, len(items), self._spans.of(node), "GROUP BY")]
        if isinstance(node, exp.Column) and base.from_.find(node) is None:
            return base.aliases.get(fold(node.name), node)
        return node

    def _item(self, node: exp.Expr) -> None:
        """Bind one item: a star is several columns."""
        if is_star(node):
            self._star(node)
            return
        alias = node.alias if isinstance(node, exp.Alias) else ""
        value = node.this if isinstance(node, exp.Alias) else node
        inner = unwrapped(value)
        default = inner.name if isinstance(inner, exp.Column) else self._spans.text(value)
        if is_call(inner):
            found, function = self._final.call(inner)
            default = default if is_plain(inner) else function.lower()
        else:
            found = self._final.value(value)
        if is_interval_end(inner):
            default = str(inner.this).lower()
        self._add(alias or default, found, self._spans.of(node), explicit=bool(alias))

    def _star(self, node: exp.Expr) -> None:
        base, span = self._base, self._spans.of(node)
        if not isinstance(base, Rows) or not base.from_.members:
            raise outside("*", span, "there is nothing to show", "SELECT 1 + 1")
        table = node.table if isinstance(node, exp.Column) else ""
        if table and not base.from_.calls(table):
            base.from_.refuse(node)  # type: ignore[arg-type]
        shown = list(base.from_.star(table))
        starred = columns_of(node, [name for name, _ in shown], self._spans)
        for name, value in shown:
            becomes = starred.get(fold(name))
            if becomes is None:
                continue
            if becomes.value is None:
                found = self._starred(name, value, span)
            else:
                found = self._final.value(becomes.value)
            self._add(becomes.name, found, span, explicit=becomes.name != name)

    def _starred(self, name: str, value: Value, span: Span) -> Value:
        """Return a column that a star stands for: in a group, the key that it is."""
        if not isinstance(self._stage, Groups):
            return self._final.lifted(value)
        key = self._stage.key(value)
        if key is None:
            raise outside("* in a group", span, f"{name} is not in GROUP BY", "COUNT(*)")
        return self._final.lifted(key)

    def _add(self, name: str, value: Value, span: Span, *, explicit: bool) -> None:
        """Add a column, under a name of its own."""
        if fold(name) in self._names and explicit:
            raise refusal(
                "DPQ211",
                f"two columns are called {name}",
                span,
                "the second one",
                "columns of an answer are found by their names.",
                f"AS {written_name(f'{name}_2')}",
            )
        unique = name
        while fold(unique) in self._names:
            self._repeats[fold(name)] = self._repeats.get(fold(name), 0) + 1
            unique = f"{name}_{self._repeats[fold(name)]}"
        self._names[fold(unique)] = len(self._items)
        self._items.append((unique, value))

    def _qualified(self) -> list[Value]:
        qualify = self._args.get("qualify")
        if qualify is None:
            return []
        if not isinstance(self._final, Windowed):
            span = self._spans.word("QUALIFY") or self._spans.of(qualify)
            remedy = "HAVING" if self._args.get("group") is not None else "WHERE"
            raise outside("QUALIFY without a window", span, f"use {remedy}", remedy)
        return self._final.truths(qualify.this)

    def _is_distinct(self) -> bool:
        node = self._args.get("distinct")
        if node is not None and node.args.get("on") is not None:
            remedy = advice("write QUALIFY row_number() OVER (PARTITION BY ...) = 1")
            raise outside("DISTINCT ON", self._spans.of(node), "not understood", remedy)
        return node is not None

    def _columns(self, *, distinct: bool) -> tuple[OpenColumn, ...]:
        return tuple(
            OpenColumn(
                name,
                f'"c{at}"',
                value.kind,
                value.narrow or value.kind is Kind.INTEGER,
                () if distinct else value.origins,
                value.longest,
                value.longest * self._stage.most if value.grown is None else value.grown,
                value.noiseless or value.constant is not None,
            )
            for at, (name, value) in enumerate(self._items)
        )

    def _order(self, *, distinct: bool) -> str:
        if self._args.get("order") is None:
            return ""
        keys = []
        for item in self._args["order"].expressions:
            found = [f'"c{at}"' for at in range(len(self._items))]  # ORDER BY ALL
            if not isinstance(item.this, exp.Var):
                found = [self._sort_key(item.this, distinct=distinct)]
            keys += [key + direction(item) for key in found]
        return " ORDER BY " + ", ".join(keys)

    def _sort_key(self, node: exp.Expr, *, distinct: bool) -> str:
        """Resolve a column's number, then a name of the SELECT list, then an expression."""
        span = self._spans.of(node)
        if isinstance(node, exp.Literal):
            return f'"c{read_place(node, len(self._items), span, "ORDER BY")}"'
        if isinstance(node, exp.Column) and not node.table and fold(node.name) in self._names:
            return f'"c{self._names[fold(node.name)]}"'
        value = self._final.value(node)
        if value.constant is not None:  # the engine would count columns with it
            return f"TRY({value.sql})"
        if not distinct:
            return value.total
        for at, (_, shown) in enumerate(self._items):
            if shown.sql == value.sql:
                return f'"c{at}"'
        raise outside("this order", span, "not a column that DISTINCT shows", "ORDER BY 1")

    def _last(self, order: str, hidden: Sequence[str], *, distinct: bool) -> str:
        """Return what decides where nothing else does: the groups' order, or the values."""
        cut = self._args.get("limit") or self._args.get("offset")
        if not (self._root or order or cut):
            return ""
        stage, last = self._stage, hidden
        if hidden:
            if not order and isinstance(stage, Rows) and stage.from_.sorted and stage.plain:
                return ""
        elif distinct or self._final is not stage or isinstance(stage, Groups):
            last = [f'"c{i}"' for i in range(len(self._items))]
        else:
            return ""
        return (", " if order else " ORDER BY ") + ", ".join(last)


def _shown(value: Value) -> str:
    """Write a column of a result: a computed whole number is of the type that columns have."""
    if value.kind is Kind.INTEGER and not value.safe:
        return f"TRY(CAST({value.sql} AS BIGINT))"
    return value.total


def _aggregates(node: exp.Expr) -> bool:
    """Return whether a node is an aggregate, and none before OVER."""
    if aggregate_name(node) is None:
        return False
    parent = node.parent
    if isinstance(parent, exp.Filter) and parent.this is node:
        node, parent = parent, parent.parent
    return not (isinstance(parent, exp.Window) and parent.this is node)


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
