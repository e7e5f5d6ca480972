"""Name resolution, all of it: nothing is left to the engine's own rules.

Names are compared after folding ASCII letters, and no others, which is what DuckDB does:
Python's `lower` would fold more, and the two would disagree about what a name means.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NoReturn, TypeGuard

from sqlglot import TokenType
from sqlglot import expressions as exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError

from dpquery.core.source_text import Span
from dpquery.core.types import MOMENTS, Kind
from dpquery.errors import Worded, listed, nearest, refusal
from dpquery.ir.expr import ColumnRef, Expr, Nulls, decimal
from dpquery.policy.model import Column, Policy, Table
from dpquery.rowfunctions.dates import PARTS

_RESERVED = (
    "ALL ANALYSE ANALYZE AND ANY ARRAY AS ASC ASYMMETRIC BOTH CASE CAST CHECK COLLATE "
    "COLUMN CONSTRAINT CREATE DEFAULT DEFERRABLE DESC DESCRIBE DISTINCT DO ELSE END EXCEPT "
    "FALSE FETCH FOR FOREIGN FROM GROUP HAVING IN INITIALLY INTERSECT INTO LAMBDA LATERAL "
    "LEADING LIMIT NOT NULL OFFSET ON ONLY OR ORDER PIVOT PLACING PRIMARY QUALIFY "
    "REFERENCES RETURNING SELECT SHOW SOME SUMMARIZE SYMMETRIC TABLE THEN TO TRAILING TRUE "
    "UNION UNIQUE UNPIVOT USING VARIADIC WHEN WHERE WINDOW WITH"
)
RESERVED = frozenset(_RESERVED.split())
"""Names only in quotes, as in DuckDB; the parser would take `FROM t GROUP` for an alias."""

_ASCII = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def fold(name: str) -> str:
    """Fold the ASCII letters of a name.

    >>> fold("Staff"), fold("É")
    ('staff', 'É')
    """
    return name.translate(_ASCII)


INTERVAL_ENDS = {
    "DP_INTERVAL_LOW": "The least that the exact value of a released column may be.",
    "DP_INTERVAL_HIGH": "The most that the exact value of a released column may be.",
}
"""Functions of what was released, with a line on each: they ask no rows, and cost nothing."""


def is_call(node: exp.Expr) -> bool:
    """Return whether a node is written as a DP_ function that asks rows, known or not."""
    inner = node.this if isinstance(node, exp.Filter) else node
    name = str(inner.this).upper() if isinstance(inner, exp.Anonymous) else ""
    return name.startswith(("DP_", "LDP_")) and name not in INTERVAL_ENDS


PLAIN = "plain"
"""What marks a DP_ call as one that was written as a plain aggregate."""


def is_plain(call: exp.Expr) -> bool:
    """Return whether a DP_ call was written as a plain aggregate."""
    return PLAIN in (call.this if isinstance(call, exp.Filter) else call).meta


def call_key(node: exp.Expr) -> object:
    """Return what is equal for nodes of one release: plain aggregates that mean the same."""
    inner = node.this if isinstance(node, exp.Filter) else node
    return inner.meta[PLAIN] if is_plain(node) else id(node)


def is_query(node: exp.Expr) -> bool:
    """Return whether a node is a query, with names of its own."""
    return isinstance(node, exp.Query)


def is_interval_end(node: exp.Expr) -> TypeGuard[exp.Anonymous]:
    """Return whether a node calls DP_INTERVAL_LOW or DP_INTERVAL_HIGH."""
    return isinstance(node, exp.Anonymous) and str(node.this).upper() in INTERVAL_ENDS


def written_name(name: str) -> str:
    """Write a name as a query has to: in quotes, unless it reads as a name alone.

    >>> written_name("dept"), written_name("first name"), written_name("select")
    ('dept', '"first name"', '"select"')
    """
    try:
        tokens = DuckDB().tokenize(name)
    except TokenError:
        tokens = []
    bare = [(token.token_type, token.text) for token in tokens] == [(TokenType.VAR, name)]
    if bare and name.isidentifier() and name.upper() not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def listed_names(names: Iterable[str], first: str | None = None) -> str:
    """Join names as queries write them: the nearest first, then sorted, ten at most."""
    return listed(map(written_name, names), None if first is None else written_name(first))


@dataclass(frozen=True)
class Member:
    """One relation of a FROM clause, under the name by which the query calls it."""

    alias: str
    columns: Mapping[str, Expr]
    owners: frozenset[str] = frozenset()
    """Folded names under which it gives the privacy unit, whether or not rows may show it."""
    hidden: frozenset[str] = frozenset()
    """Folded names that USING joined: alone they mean the column of a relation before."""
    lists: Mapping[str, ColumnRef] = field(default_factory=dict)
    """Columns of lists, of which rows are made."""

    @cached_property
    def called(self) -> str:
        """The alias, folded."""
        return fold(self.alias)

    @cached_property
    def named(self) -> Mapping[str, Sequence[Expr]]:
        """The columns by their folded names."""
        found: dict[str, list[Expr]] = {}
        for name, expr in self.columns.items():
            found.setdefault(fold(name), []).append(expr)
        return found


@dataclass(frozen=True)
class Scope:
    """What the names of a query over private rows mean."""

    members: tuple[Member, ...]
    table: Table
    """The private table that refusals speak of and offer queries about."""
    values: Mapping[Span, Expr] = field(default_factory=dict)
    """What subqueries say of the unit of a row, by their places in the text."""

    @property
    def columns(self) -> list[str]:
        """The names of all columns, in order; one that two relations have stands twice."""
        return [
            name
            for member in self.members
            for name in member.columns
            if fold(name) not in member.hidden
        ]

    @cached_property
    def aliases(self) -> frozenset[str]:
        """The folded names of the relations."""
        return frozenset(self._by_alias)

    @cached_property
    def _by_alias(self) -> Mapping[str, Sequence[Member]]:
        """The relations by their folded names: of many joins, each column looks for one."""
        found: dict[str, list[Member]] = {}
        for member in self.members:
            found.setdefault(member.called, []).append(member)
        return found

    @property
    def names(self) -> frozenset[str]:
        """The folded names of all columns, and of privacy units that may be no columns."""
        columns = frozenset(map(fold, self.columns))
        return columns.union(*(member.owners for member in self.members))

    def reference(self, node: exp.Column, span: Span) -> Expr:
        """Resolve a column for use in an expression.

        Raises:
            NameRefused: DPQ201 another table's name stands before it, DPQ204 no such column,
                DPQ211 several relations have one.
        """
        self.check_qualifier(node, span)
        found = [
            (member, expr)
            for member in self._meant(node)
            for expr in member.named.get(fold(node.name), ())
        ]
        if not found:
            here = " or ".join(self._called) if len(self._called) > 1 else self.table.name
            if self.list_named(node, span) is not None:
                _refuse_whole_list(node, self.table.name, span)
            columns = self.columns
            if node.table:
                columns = [name for member in self._meant(node) for name in member.columns]
            unknown_column(
                node, columns or self.columns, node.table or here, span, self.table.lists
            )
        if len(found) > 1:
            ambiguous(node, [member.alias for member, _ in found], span)
        expr = found[0][1]
        return replace(expr, span=span) if isinstance(expr, ColumnRef) else expr

    def list_named(self, node: exp.Expr, span: Span) -> ColumnRef | None:
        """Return the column of lists that a node names, if it does."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return None
        found = [
            column
            for member in self._meant(node)
            for name, column in member.lists.items()
            if fold(name) == fold(node.name)
        ]
        if len(found) > 1:
            ambiguous(node, [m.alias for m in self._meant(node) if m.lists], span)
        return replace(found[0], span=span) if found else None

    def owns(self, node: exp.Expr) -> bool:
        """Return whether a node names the privacy unit of a relation here."""
        return bool(self.owners_at(node))

    def gives_unit(self, expr: Expr) -> bool:
        """Return whether an expression is a column that holds the privacy unit."""
        return any(
            column == expr
            for member in self.members
            for name, column in member.columns.items()
            if fold(name) in member.owners
        )

    def owners_at(self, node: exp.Expr) -> list[str]:
        """Return the relations whose privacy unit a node names, by their aliases."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return []
        name = fold(node.name)
        found = [member for member in self._meant(node) if name in member.owners]
        shown = [member for member in found if name in member.named]  # others only know of it
        return [member.alias for member in shown or found]

    def one_unit_at(self, node: exp.Expr) -> list[str]:
        """Return the relations of which one privacy unit is named, by their aliases.

        Several that only know of a unit of the name, and have no such column, have one unit.
        """
        found = self.owners_at(node)
        return [] if len(found) > 1 and self.knows(node.name) else found

    def holders_of(self, node: exp.Expr) -> list[Expr]:
        """Return what a node stands for that names a column: of several relations, each."""
        if not isinstance(node, exp.Column) or not isinstance(node.this, exp.Identifier):
            return []
        name = fold(node.name)
        return [expr for m in self._meant(node) for expr in m.named.get(name, ())]

    def knows(self, name: str) -> bool:
        """Return whether a relation here has a column of that name."""
        folded = fold(name)
        return any(folded in m.named and folded not in m.hidden for m in self.members)

    def has_columns_of(self, node: exp.Expr) -> bool:
        """Return whether every column in an expression is one of a relation here."""
        return all(
            fold(column.table) in self.aliases if column.table else self.knows(column.name)
            for column in node.find_all(exp.Column)
        )

    def _meant(self, node: exp.Column) -> Iterator[Member]:
        """Return the relations that a column can be of."""
        if node.table:
            yield from self._by_alias.get(fold(node.table), ())
            return
        name = fold(node.name)
        yield from (member for member in self.members if name not in member.hidden)

    @property
    def _called(self) -> list[str]:
        return [member.alias for member in self.members if member.alias]

    def check_qualifier(self, node: exp.Column, span: Span) -> None:
        """Refuse what stands before a column unless it is a relation's name in this query."""
        unknown = node.table and fold(node.table) not in self.aliases
        before = f"{fold(node.table)}."
        inside = [n for n in self.columns if fold(n).startswith(before)] if unknown else []
        if inside:
            near = nearest(f"{node.table}.{node.name}", inside) or inside[0]
            title = f"{node.table} has no field {node.name[:80]!r}"
            remedy = (written_name(near), f"fields here: {listed_names(inside, near)}")
            raise refusal("DPQ204", title, span, _UNLISTED, _NO_COLUMN, remedy)
        if node.args.get("db") or node.args.get("catalog") or unknown:
            unknown_table(node, self._called, self.columns, span, self._part(node))

    def _part(self, node: exp.Column) -> str:
        """Write YEAR(hired) for `hired.year`; nothing where no part of a date is meant."""
        date = exp.Column(this=node.args["table"]) if node.table else node
        name = fold(date.name)
        kinds = [expr.type.kind for m in self._meant(date) for expr in m.named.get(name, ())]
        part = fold(node.name) in PARTS and kinds in [[kind] for kind in MOMENTS]
        return f"{node.name.upper()}({written_name(date.name)})" if part else ""


def inside(inner: Scope, outer: Scope) -> Scope:
    """Return what names mean inside a subquery: its own first, then those around it."""
    around = (m for m in outer.members if fold(m.alias) not in inner.aliases)
    hidden = (replace(m, hidden=m.hidden | inner.names) for m in around)
    return Scope((*inner.members, *hidden), inner.table)


def unknown_table(
    node: exp.Column, aliases: Sequence[str], columns: Sequence[str], span: Span, part: str = ""
) -> NoReturn:
    """Refuse a name before a column that no relation of the query has.

    Args:
        node: the column.
        aliases: what the relations are called.
        columns: the names of all their columns.
        span: where it stands.
        part: what is offered in its place where a part of a date is meant.
    """
    here = "the table here is" if len(aliases) == 1 else "here are"
    offered = nearest(node.table, aliases) or next(iter(aliases), "")
    known = [n for n in (node.name, node.table) if fold(n) in map(fold, columns)]
    near = nearest(node.name, columns) or next(iter(columns), node.name)
    # In `hired.year` the column that was meant is what stands first.
    title = f"there is no table {node.table!r} in this query"
    why = "a column is named alone, or after the name its table has in the query."
    remedy = part or f"{written_name(offered)}.{written_name(*known[:1] or [near])}"
    raise refusal("DPQ201", title, span, f"{here} {' and '.join(aliases)}", why, remedy)


def column_ref(column: Column, number: int, span: Span, *, is_unit: bool = False) -> ColumnRef:
    """Return a column of a private table for use in expressions.

    Rows without a unit never count, so the column of the unit has a value in each row.
    """
    exact = column.type.kind is Kind.DECIMAL and not column.type.listed
    type_ = decimal(column.type.scale) if exact else column.type
    nulls = Nulls.GROUPED if column.null_group else Nulls.LEFT_OUT
    return ColumnRef(
        span,
        column.name,
        type_,
        column.interval,
        bounded=column.bounds is not None,
        grid=column.grid,
        keys=column.keys,
        longest=column.max_length if type_.kind is Kind.TEXT else 0,
        of=number,
        clamped=True,
        nulls=Nulls.NEVER if is_unit else nulls,
    )


def _refuse_whole_list(node: exp.Column, table: str, span: Span) -> NoReturn:
    title = f"{node.name[:80]} is a list, which is no value of a row"
    why = "UNNEST makes a row for each of its values, and LIST_CONTAINS asks for one."
    name, count = written_name(node.name), "SELECT DP_COUNT(*, eps=0.5) AS n"
    remedy = f"{count} FROM {written_name(table)} WHERE LEN({name}) > 0"
    if isinstance(node.find_ancestor(exp.Group, exp.Select), exp.Group):
        of = f"{written_name(table)}, UNNEST({name}) AS u(v)"
        remedy = f"SELECT v, DP_COUNT(*, eps=0.5) AS n FROM {of} GROUP BY v"
    raise refusal("DPQ208", title, span, "a list here", why, remedy)


def ambiguous(node: exp.Column, aliases: Sequence[str], span: Span) -> NoReturn:
    """Refuse a column that several relations of a query have."""
    title = f"{node.name[:80]} is a column of {' and of '.join(aliases)}"
    why = "where several tables have a column of that name, its table's name stands before it."
    remedy = f"{written_name(aliases[0])}.{written_name(node.name)}"
    raise refusal("DPQ211", title, span, "which one?", why, remedy)


def resolve_table(node: exp.Table, policy: Policy, span: Span) -> Table:
    """Find a table by its policy name, or by a path quoted byte for byte from the policy.

    A name may have that of a schema before it; there is one table of each name.

    Raises:
        NameRefused: DPQ201 no such table.
    """
    written = node.name
    if isinstance(node.this, exp.Identifier):
        for table in policy.tables.values():
            if fold(table.name) == fold(written):
                return table
        if node.this.quoted and not node.args.get("db"):
            for table in policy.tables.values():
                if written in table.written:
                    return table
    shown = ".".join(name.name for name in node.parts) if node.args.get("db") else written
    near = nearest(written, policy.tables)
    offered = near or next(iter(policy.tables), "")
    title = f"there is no table {shown[:80]!r} in this session"
    if not isinstance(node.this, exp.Identifier):
        title = "a function cannot be asked like a table"
    tables = f"tables here: {listed_names(policy.tables, near)}"
    remedy = (f"FROM {written_name(offered)}", tables)
    raise refusal("DPQ201", title, span, _UNLISTED, _NO_OTHER_FILE, remedy)


_NO_OTHER_FILE = (
    Worded(
        "queries reach only the tables that the policy names;",
        "queries reach only the files that were opened; to join two files,",
    ),
    Worded(
        "no other file can be opened, by path or by a function.",
        'write a policy, or in Python connect({"people": ..., "visits": ...}).',
    ),
)
_UNLISTED = Worded("not in the policy", "not in the file")
_NO_COLUMN = Worded(
    "columns that the policy does not list do not exist for queries.",
    "a file's columns can be asked about where their types are known here.",
)


def unknown_column(
    node: exp.Column,
    known: Iterable[str],
    table: str,
    span: Span,
    lists: Iterable[str] = (),
) -> NoReturn:
    """Refuse a column that the policy does not list; in double quotes, a text was meant."""
    columns, name = list(known), node.name
    fields = [one for one in columns if fold(one).endswith(f".{fold(name)}")]
    near = fields[0] if len(fields) == 1 else nearest(name, columns)
    offered = written_name(near or columns[0])
    if node.table:
        offered = f"{written_name(node.table)}.{offered}"
    why: str = _NO_COLUMN
    if near is None and node.this.quoted:
        offered = "'" + name.replace("'", "''") + "'"
        why = "in double quotes stands a name; a text stands in single ones."
    title = f"there is no column {name[:80]!r} in {table}"
    every = [*columns, *(one for one in lists if one not in columns)]
    remedy = (offered, f"columns here: {listed_names(every, near)}")
    raise refusal("DPQ204", title, span, _UNLISTED, why, remedy)
