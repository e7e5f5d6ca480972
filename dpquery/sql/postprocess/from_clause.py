"""FROM above the frontier: open relations, their joins, and what names mean there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.core.types import DOUBLE, INTEGER, Kind, Type
from dpquery.errors import QueryRefused, advice, refusal
from dpquery.ir.expr import LONGEST_CONSTANT, Literal, decimal
from dpquery.ir.query import Origin
from dpquery.sql.bind.scope import ambiguous, fold, unknown_column, unknown_table
from dpquery.sql.parse.literals import chain, conjuncts, unwrapped
from dpquery.sql.parse.spans import Spans, outside, too_large
from dpquery.sql.postprocess.sql_fragments import LONGEST_NUMBER, Value, comparable, made
from dpquery.sql.suggest.type_mismatches import mismatch

_SIDES = {"LEFT", "RIGHT", "FULL"}
_SEMI = {"SEMI", "ANTI"}


@dataclass(frozen=True, slots=True)
class OpenColumn:
    """A column of a relation that is released or public."""

    name: str
    sql: str
    """Its name for the engine, in quotes."""
    kind: Kind | None
    narrow: bool = False
    origins: tuple[Origin, ...] = ()
    longest: int = LONGEST_NUMBER
    """The most characters that a value has."""
    grown: int = 0
    """The characters that were made for all of its rows."""
    noiseless: bool = False
    """Whether it shows keys, or a public table, as they are."""

    @property
    def is_cut(self) -> bool:
        """Whether it has texts that are longer than a constant may be."""
        return self.kind is Kind.TEXT and self.longest > LONGEST_CONSTANT


@dataclass(frozen=True, slots=True)
class Open:
    """A relation that is released or public, as a query sees it."""

    source: str
    """What stands after FROM for it: a name of the engine, or a query in brackets."""
    columns: tuple[OpenColumn, ...]
    hidden: tuple[int, ...] = ()
    """The frontiers whose row numbers it gives, in columns r0, r1 and so on."""
    sorted: bool = False
    """Whether its rows stand in an order that was asked for."""
    most: int = 1
    """How many rows it can have."""
    least: int = 0
    """How many rows of released ones it has for certain."""
    unique: frozenset[int] = frozenset()
    """The places of columns that no two rows have equal; of none, nothing is known."""
    whole: str = ""
    """The query without what only leaves out rows of its result; empty where it leaves none."""


@dataclass(frozen=True, slots=True)
class Member:
    """An open relation in a FROM clause."""

    alias: str
    columns: tuple[tuple[str, Value], ...]


@dataclass
class From:
    """A FROM clause as it grows from left to right: its text, and what names mean."""

    spans: Spans
    text: str = ""
    members: list[Member] = field(default_factory=list)
    merged: dict[str, tuple[str, Value]] = field(default_factory=dict)
    """What USING joined, by folded name."""
    rows: list[tuple[str, int]] = field(default_factory=list)
    """Row numbers of frontiers: their text, and the frontier."""
    sorted: bool = False
    comma: bool = False
    most: int = 1
    """How many rows it can have."""
    least: int = 0
    """How many it has for certain, of a released relation that stands alone."""
    unique: Sequence[str] = ()
    """The columns that no two rows have equal, of a relation that stands alone."""

    @property
    def aliases(self) -> list[str]:
        """The names of the relations."""
        return [member.alias for member in self.members if member.alias]

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return [name for name, _ in self.star("")]

    def member(self, open_: Open, alias: str, engine: str, *, alone: bool) -> Member:
        """Give an open relation names, here and for the engine, and take up its row numbers.

        Where it does not stand alone, its rows could repeat.
        """
        at = len(self.rows)
        unique = sorted(open_.unique) if alone else ()
        self.least = open_.least if alone else 0
        self.unique = [f'"{engine}".{open_.columns[place].sql}' for place in unique]
        self.rows += [(f'"{engine}"."r{i}"', f) for i, f in enumerate(open_.hidden)]
        columns = []
        for column in open_.columns:
            origins = tuple(replace(one, row=one.row + at) for one in column.origins)
            value = Value(
                f'"{engine}".{column.sql}',
                column.kind,
                safe=True,
                origins=origins,
                narrow=column.narrow,
                longest=column.longest,
                grown=None if column.grown and not alone else column.grown,
                noiseless=column.noiseless,
            )
            columns.append((column.name, value))
        return Member(alias, tuple(columns))

    def star(self, alias: str) -> Iterator[tuple[str, Value]]:
        """Return all columns, or those of one relation; what USING joined stands once."""
        shown: set[str] = set()
        for member in self.members:
            if alias and fold(alias) != fold(member.alias):
                continue
            for name, value in member.columns:
                known = fold(name)
                joined = not alias and known in self.merged
                if joined and known in shown:
                    continue
                shown |= {known} if joined else set()
                yield name, self.merged[known][1] if joined else value

    def find(self, node: exp.Column) -> Value | None:
        """Resolve a column; None where no relation here has it.

        Raises:
            NameRefused: DPQ211 several relations have one.
        """
        name, table = fold(node.name), fold(node.table)
        if not table and name in self.merged:
            return self.merged[name][1]
        found = [
            (member, value)
            for member in self.members
            if not table or fold(member.alias) == table
            for known, value in member.columns
            if fold(known) == name
        ]
        if len(found) > 1:
            ambiguous(node, [member.alias for member, _ in found], self.spans.of(node))
        return found[0][1] if found else None

    def calls(self, table: str) -> bool:
        """Return whether a relation is called so."""
        return any(fold(table) == fold(alias) for alias in self.aliases)

    def refuse(self, node: exp.Column) -> NoReturn:
        """Refuse a column that is none."""
        span = self.spans.of(node)
        if node.args.get("db") or (node.table and not self.calls(node.table)):
            unknown_table(node, self.aliases, self.columns, span)
        known = [name for name, _ in self.star(node.table)]
        called = node.table or " or ".join(self.aliases) or "this query"
        unknown_column(node, known, called, span)

    def join(self, member: Member, source: str, join: exp.Join | None) -> None:
        """Put a relation beside those so far; ON follows, once names mean something."""
        if join is None:
            self.text, self.members = source, [member]
            return
        self.sorted = False
        kind = str(join.args.get("kind") or "").upper()
        side = str(join.args.get("side") or "").upper()
        using = join.args.get("using") or []
        conditioned = bool(using) or join.args.get("on") is not None
        self._refuse_kind(join, kind, side, conditioned=conditioned)
        self.comma |= bool(join.meta.get("comma"))
        word = " ".join(filter(None, [side, kind if kind in _SEMI else "", "JOIN"]))
        self.text += f" {word if conditioned else 'CROSS JOIN'} {source}"
        if using:
            merged = [self._merged(name, member, side) for name in using]
            self.text += " ON " + " AND ".join(pair.total for pair, _ in merged)
            for name, (_, value) in zip(using, merged, strict=True):
                self.merged[fold(name.name)] = (name.name, value)
        if kind not in _SEMI:
            self.members.append(member)

    def named(self, member: Member, join: exp.Join | None) -> exp.Join | None:
        """Write NATURAL JOIN as one that names its columns: those both sides have."""
        if join is None or not join.method:
            return join
        theirs = {fold(name) for name, _ in member.columns}
        shared = {fold(name): name for name in self.columns if fold(name) in theirs}
        if not shared:
            remedy = advice("write JOIN ... ON the columns that are equal")
            raise outside("NATURAL JOIN", self.spans.of(join), "no column of both", remedy)
        names = [exp.to_identifier(name, quoted=True) for name in shared.values()]
        for name in names:
            name.meta.update(next(join.this.find_all(exp.Identifier)).meta)
        named = join.copy()
        named.set("method", None)
        named.set("using", names)
        return named

    def _refuse_kind(self, join: exp.Join, kind: str, side: str, *, conditioned: bool) -> None:
        span = self.spans.of(join)
        known = kind in {"", "INNER", "CROSS", "OUTER", *_SEMI}
        if not known:
            raise outside(
                f"{kind} JOIN", span, "not understood", advice("write JOIN ... USING (...)")
            )
        if side and self.comma and side != "LEFT":
            remedy = advice("use CROSS JOIN in place of the comma")
            raise outside(f"{side} JOIN after a comma", span, "unclear", remedy)
        if not conditioned and (side in _SIDES or kind in _SEMI):
            raise outside(
                f"{side or kind} JOIN without ON", span, "on what?", advice("write USING (...)")
            )

    def _merged(self, name: exp.Identifier, member: Member, side: str) -> tuple[Value, Value]:
        """Write USING (name) as an equality; give also the column that both become."""
        node, span = exp.Column(this=name.copy()), self.spans.of(name)
        node.this.meta.update(name.meta)
        left = self.find(node)
        right = next((v for known, v in member.columns if fold(known) == fold(name.name)), None)
        if left is None:
            unknown_column(node, self.columns, " or ".join(self.aliases), span)
        if right is None:
            unknown_column(node, [known for known, _ in member.columns], member.alias, span)
        if not comparable(left.kind, right.kind):
            title = f"{name.name} is a {left.kind} and a {right.kind}"
            mismatch(span, title, "two types", advice("write ON ... = CAST(... AS TEXT)"))
        safe = left.kind is right.kind not in {None, Kind.DECIMAL}
        pair = made("({0} = {1})", left, right, kind=Kind.BOOLEAN, safe=safe)
        if side == "FULL":
            kind = left.kind if left.kind is right.kind else None
            return pair, made("coalesce({0}, {1})", left, right, kind=kind)
        return pair, right if side == "RIGHT" else left


# How many rows a relation can have: public before anything is released.
#
# Released tables have a row for each group, and public ones are known, so that what joins and
# unions make of them is refused by its size, before it is charged: later it could only fail.


MOST_ROWS = 10_000_000
MOST_SHOWN = 1_000_000
"""Rows of an answer: as many as there can be groups."""
MOST_CHARACTERS = 2**28
"""Of all texts that a statement makes of others, in all rows; each can take four bytes."""
MOST_HIDDEN = 32
"""Row numbers that a relation gives of releases; with more, its columns show none unchanged."""


def equalities(condition: exp.Expr | None, owners: Mapping[str, str]) -> int:
    """Return how many parts of a condition equate a column of one relation with another's.

    A column that is named without its relation belongs to the one owner of its folded name.
    """
    return len(_equating(condition, owners))


def _equating(condition: exp.Expr | None, owners: Mapping[str, str]) -> set[exp.Expr]:
    found = set[exp.Expr]()
    for part in map(unwrapped, conjuncts(condition)):
        if isinstance(part, exp.Or):  # what stands in each branch follows from it
            found |= set.intersection(*(_equating(branch, owners) for branch in chain(part)))
        elif _equates(part, owners):
            found.add(part)
    return found


def _equates(node: exp.Expr, owners: Mapping[str, str]) -> bool:
    if not isinstance(node, exp.EQ | exp.NullSafeEQ):
        return False
    sides = [unwrapped(node.this), unwrapped(node.expression)]
    tables = [
        {fold(c.table) or owners.get(fold(c.name), "") for c in side.find_all(exp.Column)}
        for side in sides
    ]
    return bool(tables[0]) and bool(tables[1]) and tables[0] != tables[1]


def joined_rows(left: int, right: int, *, equated: bool, full: bool) -> int:
    """Return about how many rows a join has.

    Each row is taken to meet one where values are equated, as on a key; where a value is in
    many rows of both sides there are more, and time and memory have limits too.
    """
    if equated:
        return left + right if full else max(left, right)
    return max(left * right, left, right)


def rows_within(rows: int, limit: exp.Limit | None) -> int:
    """Return how many rows are left where LIMIT cuts them: it has been read before."""
    return rows if limit is None else min(rows, int(str(limit.expression.this)))


def require_rows(rows: int, limit: int, span: Span, remedy: str = "") -> int:
    """Return a number of rows, if it is not too large; a remedy makes them fewer, if known.

    Raises:
        PlanRefused: DPQ409.
    """
    if rows > limit:
        title, label = f"this can have {rows:,} rows", f"more than {limit:,}"
        remedy = remedy or advice("join fewer relations, or fewer rows: GROUP BY, LIMIT")
        raise outgrown(title, span, label, remedy)
    return rows


def outgrown(title: str, span: Span, label: str, *remedy: str) -> QueryRefused:
    """Return the refusal of what might not end, or not fit into memory."""
    why = (
        "what is computed from released and public rows has to end in time, because",
        "it cannot be asked again without being charged again.",
    )
    return refusal("DPQ409", title, span, label, why, remedy)


# Values of open queries among private rows: literals, where they are known, or constants.
#
# A constant is any value of its type, or NULL: numbers become doubles, what is no number
# becomes NULL, and texts are cut, so that whatever is released can be written into a scan.


MOST_VALUES = 100_000
MOST_MEMBERS = 100
"""Values of a released column that rows are compared with: each is a constant."""
_IN_CALENDAR = "CASE WHEN year({0}) BETWEEN 1 AND 9999 THEN {0} END"
_FITTING = {
    Kind.TEXT: f"left({{0}}, {LONGEST_CONSTANT})",
    Kind.BOOLEAN: "{0}",
    Kind.DATE: _IN_CALENDAR,
    Kind.TIMESTAMP: _IN_CALENDAR,
    Kind.TIMESTAMPTZ: _IN_CALENDAR.replace("1 AND 9999", "2 AND 9998"),
    Kind.TIME: "{0}",
}
_WHOLE = "TRY_CAST({0} AS BIGINT)"
_NUMBER = "CASE WHEN isfinite(TRY_CAST({0} AS DOUBLE)) THEN TRY_CAST({0} AS DOUBLE) END"


def constant_of(column: OpenColumn, span: Span, zone: str) -> tuple[Type, str]:
    """Return the type of a constant, and the text that makes a column's values of it."""
    if column.kind is None:
        title = "the type of this value is not known"
        mismatch(span, title, "of any type", advice("write CAST(... AS DOUBLE)"))
    type_ = Type(column.kind) if column.kind in _FITTING else DOUBLE
    if type_.kind is Kind.TIMESTAMPTZ:
        type_ = replace(type_, zone=zone)
    return type_, _FITTING.get(column.kind, _NUMBER).format(column.sql)


def members_of(column: str, source: str, most: int) -> Iterator[str]:
    """Write whether a column of at most so many rows has any, and each of its values.

    They stand in their order, NULL last. Where there are fewer, the first one stands for those
    that are missing: a value is among them if it is in the column, and there alone.
    """
    yield f'SELECT count(*) > 0 AS "c0" FROM {source}'
    for at in range(most):
        value = f"list({column} ORDER BY {column} NULLS LAST)[{at + 1}]"
        shown = f"CASE WHEN count(*) > {at} THEN {value} ELSE min({column}) END"
        yield f'SELECT {shown} AS "c0" FROM {source}'


def places_of(found: Open, span: Span, zone: str) -> dict[str, tuple[Type, list[str]]]:
    """Return the type of each column, and a query for its value in each row that there can be.

    The rows stand in the order of what is unique in them, NULL last; those that are missing are
    of NULL. Whole numbers that tell rows apart stay exact: as doubles, several could be equal.
    """
    written = {}
    for at, column in enumerate(found.columns):
        if at in found.unique and column.kind is Kind.INTEGER:
            written[column.name] = INTEGER, _WHOLE.format(column.sql)
        else:
            written[column.name] = constant_of(column, span, zone)
    keys = ", ".join(f"{found.columns[at].sql} NULLS LAST" for at in sorted(found.unique))
    order = f" ORDER BY {keys}" if keys else ""
    return {
        name: (type_, [f"list({sql}{order})[{at + 1}]" for at in range(found.most)])
        for name, (type_, sql) in written.items()
    }


def literals(found: Sequence[object] | None, kind: Kind | None, span: Span) -> list[Literal]:
    """Return the values of a public column as if they had been typed.

    Raises:
        NameRefused: DPQ208 values that a list cannot hold.
        SyntaxRefused: DPQ105 too many.
    """
    if found is None or kind is None:
        mismatch(span, "these values cannot be compared", "of no known type", "IN (1, 2)")
    if len(found) > MOST_VALUES:
        raise too_large(
            f"a list has at most {MOST_VALUES:,} values",
            span,
            "gives more",
            "the values are read now, and become a part of the query.",
            advice("write SELECT DISTINCT ... LIMIT 1000"),
        )
    if None in found:
        title = "NULL is among these values, and nothing equals it"
        mismatch(span, title, "holds NULL", advice("write WHERE ... IS NOT NULL"))
    return [_literal(value, kind, span) for value in found if not _is_endless(value)]


def _is_endless(value: object) -> bool:
    return isinstance(value, float) and not isfinite(value)


def _literal(value: object, kind: Kind, span: Span) -> Literal:
    match value:
        case float():
            return Literal(span, Fraction(value), DOUBLE)
        case Decimal():
            exponent = value.as_tuple().exponent
            scale = -exponent if isinstance(exponent, int) and exponent < 0 else 0
            return Literal(span, Fraction(value), decimal(scale))
        case bool() | str() | date():
            return Literal(span, value, Type(kind))
        case int():
            return Literal(span, value, INTEGER)
    mismatch(span, "these values cannot be compared", f"a {kind}", "IN (1, 2)")
