"""FROM above the frontier: open relations, their joins, and what names mean there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, NameRefused, SyntaxRefused
from dpquery.ir import Origin
from dpquery.source import Span
from dpquery.sql.above.values import LONGEST_NUMBER, Value, made
from dpquery.sql.mending import outside
from dpquery.sql.mismatches import mismatch
from dpquery.sql.names import fold, unknown_column, unknown_table, written_name
from dpquery.sql.spans import Spans
from dpquery.types import NUMERIC, Kind

__all__ = ["From", "Member", "Open", "OpenColumn"]

_SIDES = ("LEFT", "RIGHT", "FULL")


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


@dataclass(frozen=True, slots=True)
class Member:
    """An open relation in a FROM clause."""

    alias: str
    columns: tuple[tuple[str, Value], ...]
    hidden: frozenset[str] = frozenset()
    """Folded names that USING joined: alone they mean the column of both."""


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

    @property
    def aliases(self) -> list[str]:
        """The names of the relations."""
        return [member.alias for member in self.members if member.alias]

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return [name for name, _ in self.star("")]

    def member(self, open_: Open, alias: str, engine: str, *, alone: bool) -> Member:
        """Give an open relation a name here, and take up its row numbers.

        Args:
            open_: the relation.
            alias: its name.
            engine: its name for the engine.
            alone: whether no other relation stands beside it, where its rows could repeat.
        """
        at = len(self.rows)
        self.rows += [(f'"{engine}"."r{i}"', f) for i, f in enumerate(open_.hidden)]
        columns = []
        for column in open_.columns:
            origins = tuple(replace(one, row=one.row + at) for one in column.origins)
            value = Value(f'"{engine}".{column.sql}', column.kind, True, origins=origins)
            grown = None if column.grown and not alone else column.grown
            value = replace(value, narrow=column.narrow, longest=column.longest, grown=grown)
            columns.append((column.name, value))
        return Member(alias, tuple(columns))

    def star(self, alias: str) -> Iterator[tuple[str, Value]]:
        """Give all columns, or those of one relation; what USING joined stands once."""
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
            self._ambiguous(node, [member.alias for member, _ in found])
        return found[0][1] if found else None

    def calls(self, table: str) -> bool:
        """Say whether a relation is called so."""
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
        span = self.spans.of(join)
        self._refuse_kind(join, kind, side, span)
        self.comma |= bool(join.meta.get("comma"))
        using = join.args.get("using") or []
        conditioned = bool(using) or join.args.get("on") is not None
        word = " ".join(filter(None, [side, kind if kind in {"SEMI", "ANTI"} else "", "JOIN"]))
        self.text += f" {word if conditioned else 'CROSS JOIN'} {source}"
        if using:
            pairs = [self._pair(name, member) for name in using]
            self.text += " ON " + " AND ".join(pair.total for _, pair in pairs)
            self._merge(using, member, side)
        if kind not in {"SEMI", "ANTI"}:
            self.members.append(member)

    def _refuse_kind(self, join: exp.Join, kind: str, side: str, span: Span) -> None:
        method = str(join.args.get("method") or "").upper()
        bad = method or (
            kind if kind not in {"", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"} else ""
        )
        if bad:
            remedy = "JOIN ... USING (...)"
            raise SyntaxRefused(outside(f"{bad} JOIN", span, "not understood", remedy))
        on = bool(join.args.get("on") is not None or join.args.get("using"))
        if side and self.comma and side != "LEFT":
            remedy = "use CROSS JOIN in place of the comma"
            raise SyntaxRefused(outside(f"{side} JOIN after a comma", span, "unclear", remedy))
        if not on and (side in _SIDES or kind in {"SEMI", "ANTI"}):
            word = f"{side or kind} JOIN without ON"
            raise SyntaxRefused(outside(word, span, "on what?", "USING (...)"))

    def _pair(self, name: exp.Identifier, member: Member) -> tuple[Value, Value]:
        """Write USING (name) as an equality."""
        node = exp.Column(this=name.copy())
        node.this.meta.update(name.meta)
        left = self.find(node)
        right = next((v for known, v in member.columns if fold(known) == fold(name.name)), None)
        if left is None:
            unknown_column(node, self.columns, " or ".join(self.aliases), self.spans.of(name))
        if right is None:
            known = [column for column, _ in member.columns]
            unknown_column(node, known, member.alias, self.spans.of(name))
        kinds = {left.kind, right.kind}
        alike = None in kinds or len(kinds) == 1 or kinds <= NUMERIC
        if not alike:
            title = f"{name.name} is a {left.kind} and a {right.kind}"
            mismatch(self.spans.of(name), title, "two types", "ON ... = CAST(... AS TEXT)")
        safe = len(kinds) == 1 and Kind.DECIMAL not in kinds and None not in kinds
        pair = made("({0} = {1})", left, right, kind=Kind.BOOLEAN, safe=safe)
        return left, pair

    def _merge(self, using: Sequence[exp.Identifier], member: Member, side: str) -> None:
        for name in using:
            key = fold(name.name)
            node = exp.Column(this=name.copy())
            left = self.find(node)
            right = next(v for known, v in member.columns if fold(known) == key)
            assert left is not None  # noqa: S101 - it was found when the pair was made
            value = right if side == "RIGHT" else left
            if side == "FULL":
                kind = left.kind if left.kind is right.kind else None
                value = made("coalesce({0}, {1})", left, right, kind=kind)
            self.merged[key] = (name.name, value)

    def _ambiguous(self, node: exp.Column, aliases: Sequence[str]) -> NoReturn:
        raise NameRefused(
            Diagnostic(
                "DPQ211",
                f"{node.name[:80]} is a column of {' and of '.join(aliases)}",
                self.spans.of(node),
                "which one?",
                ("where several relations have a column, the name of one stands before it.",),
                (f"{written_name(aliases[0])}.{written_name(node.name)}",),
            )
        )
