"""Queries built by methods in the place of text: `session.table("staff").where("age > 30")`.

What is built is SQL text, so that one parser, one binder and one set of rules decide. Values
stand in it as literals, names in quotes where they need them, and what the analyst writes as
text is parsed on its own before it goes in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from dpquery.aggregates import Aggregate, shut
from dpquery.answer import Answer
from dpquery.errors import QueryRefused, listed, nearest, shown
from dpquery.explain import Explanation
from dpquery.sql.fragments import Place, Written, joined, read_fragment
from dpquery.sql.names import written_name
from dpquery.sql.values import misfit, written_value

__all__ = ["Asked", "Query"]

_JOINS = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "SEMI JOIN",
    "anti": "ANTI JOIN",
}


class Asked(Protocol):
    """A session, as a query needs it."""

    def sql(self, text: str, *, refresh: bool = False) -> Answer:
        """Answer a text."""
        ...

    def explain(self, text: str) -> Explanation:
        """Say what a text would lose."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class Query:
    """A query over a table. Each method gives another query, and leaves this one as it is."""

    session: Asked = field(compare=False)
    name: str
    alias: str | None = None
    joins: tuple[Written, ...] = ()
    conditions: tuple[Written, ...] = ()
    shown: tuple[tuple[str | None, Written], ...] = ()
    groups: tuple[Written, ...] = ()
    items: tuple[tuple[str | None, Written], ...] = ()
    kept: tuple[Written, ...] = ()
    keys: tuple[Written, ...] = ()
    most: str = ""

    def as_(self, alias: str) -> Query:
        """Call the table by another name in this query."""
        return replace(self, alias=alias)

    def join(
        self,
        other: Query | str,
        *,
        on: str | None = None,
        using: str | Sequence[str] | None = None,
        how: str = "inner",
    ) -> Query:
        """Join a table, or a query over one: by a condition, or by columns that both have.

        A query goes by the alias of its table, or else by that table's name.

        Raises:
            QueryRefused: the condition is not one expression, or the other no table.
        """
        if not isinstance(how, str) or how not in _JOINS:
            near = nearest(how, _JOINS) if isinstance(how, str) else None
            why = f"there are {listed(_JOINS)}."
            raise misfit(f"there is no join {shown(how)}", f"how={near or 'inner'!r}", why=why)
        part = Written((f" {_JOINS[how]} ",)) + _joinable(other)
        if on is not None:
            part += Written((" ON ",)) + shut(on, Place.CONDITION, "join")
        if using is not None:
            columns = [using] if isinstance(using, str) else using
            part += Written(
                (f" USING ({', '.join(_name(column, 'join') for column in columns)})",)
            )
        return replace(self, joins=(*self.joins, part))

    def where(self, *conditions: str) -> Query:
        """Keep rows for which all conditions are true.

        Raises:
            QueryRefused: a condition is not one expression.
        """
        added = tuple(shut(text, Place.CONDITION, "where") for text in conditions)
        return replace(self, conditions=self.conditions + added)

    def group_by(self, *expressions: Aggregate | str, **named: Aggregate | str) -> Query:
        """Answer by groups: columns, expressions or `dpquery.keys`, with a name if given one.

        Raises:
            QueryRefused: a text is not one expression.
        """
        parts = [(None, item) for item in expressions] + list(named.items())
        shown = tuple((name, _subject(item, "group_by")) for name, item in parts)
        groups = tuple(_item(item, "group_by") for _, item in parts)
        return replace(self, shown=self.shown + shown, groups=self.groups + groups)

    def agg(self, *items: Aggregate | str, **named: Aggregate | str) -> Query:
        """Ask for released values, as `n=dpquery.count(eps=0.5)`, or expressions of such.

        Raises:
            QueryRefused: a text is not one expression, or a value has no literal.
        """
        parts = [(None, item) for item in items] + list(named.items())
        added = tuple((name, _item(item, "agg")) for name, item in parts)
        return replace(self, items=self.items + added)

    def having(self, *conditions: str) -> Query:
        """Keep groups for which all conditions on released values are true.

        Raises:
            QueryRefused: a condition is not one expression.
        """
        added = tuple(shut(text, Place.CONDITION, "having") for text in conditions)
        return replace(self, kept=self.kept + added)

    def order_by(self, *keys: str) -> Query:
        """Sort the answer, as by `"n DESC"`.

        Raises:
            QueryRefused: a text is not one key.
        """
        added = tuple(Written((read_fragment(k, Place.KEY, "order_by"),)) for k in keys)
        return replace(self, keys=self.keys + added)

    def limit(self, rows: int, *, offset: int = 0) -> Query:
        """Keep some rows of the answer.

        Raises:
            NameRefused: DPQ805 a number that has no literal.
        """
        skipped = f" OFFSET {written_value(offset)}" if offset else ""
        return replace(self, most=f" LIMIT {written_value(rows)}{skipped}")

    def sql(self) -> str:
        """Give the text that is asked."""
        return self._written().text

    def explain(self) -> Explanation:
        """Say what the query would lose and how it would be answered; costs nothing.

        Raises:
            QueryRefused: it would not be answered.
        """
        written = self._written()
        try:
            return self.session.explain(written.text)
        except QueryRefused as refused:
            raise written.pointed(refused) from None

    def run(self, *, refresh: bool = False) -> Answer:
        """Ask, and pay.

        Raises:
            QueryRefused: the query is not answered; the budget is unchanged.
            ScanFailed: reading broke off; the charge stays.
        """
        written = self._written()
        try:
            return self.session.sql(written.text, refresh=refresh)
        except QueryRefused as refused:
            raise written.pointed(refused) from None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Ask, and give the rows; each time anew, and each time at the full price."""
        return iter(self.run())

    def __repr__(self) -> str:
        return f"<Query: {self.sql()}>"

    def _written(self) -> Written:
        return (
            Written(("SELECT ",))
            + joined(", ", [_named(*item) for item in self.shown + self.items] or [_ALL])
            + Written((f" FROM {_table_of(self)}",))
            + joined("", self.joins)
            + _clause("WHERE", " AND ", self.conditions)
            + _clause("GROUP BY", ", ", self.groups)
            + _clause("HAVING", " AND ", self.kept)
            + _clause("ORDER BY", ", ", self.keys)
            + Written((self.most,))
        )


_ALL = Written(("*",))


def _item(item: Aggregate | str, taker: str) -> Written:
    return item.written() if isinstance(item, Aggregate) else shut(item, Place.VALUE, taker)


def _subject(item: Aggregate | str, taker: str) -> Written:
    """Write what a group shows: of groups that are found, the expression they are values of."""
    return item.subject() if isinstance(item, Aggregate) else shut(item, Place.VALUE, taker)


def _table_of(table: Query | str) -> str:
    """Write a table as FROM has to."""
    if not isinstance(table, Query):
        return _name(table, "join")
    called = "" if table.alias is None else f" AS {_name(table.alias, 'as_')}"
    return _name(table.name, "table") + called


def _joinable(other: Query | str) -> Written:
    """Write what is joined: a table as it is called, and a query over one in brackets."""
    if not isinstance(other, Query) or other == Query(other.session, other.name, other.alias):
        return Written((_table_of(other),))
    called = _name(other.name if other.alias is None else other.alias, "as_")
    return Written(("(",)) + other._written() + Written((f") AS {called}",))


def _name(name: object, taker: str) -> str:
    if not isinstance(name, str):
        title = f"{taker} takes a name as a text, not {type(name).__name__}"
        raise misfit(title, f'{taker}("staff")', why="names are written as in SQL.")
    return written_name(name)


def _named(name: str | None, written: Written) -> Written:
    return written if name is None else written + Written((f" AS {written_name(name)}",))


def _clause(word: str, between: str, parts: Sequence[Written]) -> Written:
    return Written((f" {word} ",)) + joined(between, parts) if parts else Written(())
