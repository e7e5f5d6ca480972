"""Queries built by methods in the place of text: `session.table("staff").where("age > 30")`.

What is built is SQL text, so that one parser, one binder and one set of rules decide. Values
stand in it as literals, names in quotes where they need them, and what the analyst writes as
text is parsed on its own before it goes in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from inspect import Parameter, Signature
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, TypeVar

from sqlglot import Token, TokenType
from sqlglot import expressions as exp
from sqlglot.dialects.duckdb import DuckDB

from dpquery import functions
from dpquery.answer import Answer
from dpquery.core.source_text import Source, Span
from dpquery.errors import QueryRefused, listed, nearest, refusal, shown
from dpquery.functions.base import DPFunction, Expression
from dpquery.functions.distributions.points_argument import Points
from dpquery.functions.error_options import ERRORS
from dpquery.plan.explain import Explanation
from dpquery.sql.bind.scope import written_name
from dpquery.sql.parse.literals import misfit, written_setting, written_value
from dpquery.sql.parse.parser import parse

if TYPE_CHECKING:
    from dpquery.client.remote import AnySession

T = TypeVar("T")

# Parts of a query that are written as text: each is parsed on its own before it is used.
# What would change the query's shape, as `1=1) OR (1=1` would, or `x GROUP BY y`, is no part.

_OTHERS = {"SHOW TABLES", "SELECT 1 FROM t", "SELECT DP_COUNT(*, eps=0.5) AS n FROM t"}
"""Examples that parse gives of whole queries."""


class Place(Enum):
    """Where a part stands, as the query around it in which it is tried; and its slot there."""

    VALUE = ("SELECT ", "expressions")
    CONDITION = ("SELECT 1 FROM t WHERE ", "where")
    KEY = ("SELECT 1 FROM t ORDER BY ", "order")


@dataclass(frozen=True, slots=True)
class Fragment:
    """One expression as the analyst wrote it, without blanks and comments around it."""

    source: Source
    span: Span

    @property
    def text(self) -> str:
        """What goes into the query."""
        return self.source.snippet(self.span)


@dataclass(frozen=True, slots=True)
class Written:
    """A text made of words of ours and of fragments, and the way back to those."""

    parts: tuple[str | Fragment, ...] = ()

    def __add__(self, other: Written | str) -> Written:
        return Written((*self.parts, *([other] if isinstance(other, str) else other.parts)))

    def __radd__(self, other: str) -> Written:
        return Written((other, *self.parts))

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(p if isinstance(p, str) else p.text for p in self.parts)

    def pointed(self, refusal: QueryRefused) -> QueryRefused:
        """Have a refusal of the whole text point into the fragment that it is about."""
        span, end, diagnostic = refusal.span, 0, refusal.diagnostic
        about = refusal.source  # not the whole, where it is about a view
        if span is None or (about is not None and about.text != self.text):
            return refusal
        for part in self.parts:
            start, end = end, end + len(part if isinstance(part, str) else part.text)
            # The span lies in the fragment, or also takes in the brackets around it.
            if isinstance(part, Fragment) and start - 1 <= span.start and span.end <= end + 1:
                by = part.span.start - start
                moved = Span(max(span.start, start) + by, min(span.end, end) + by)
                remedy = _mended(diagnostic.remedy, self.text[:start], self.text[end:])
                refusal.diagnostic = replace(diagnostic, span=moved, remedy=remedy)
                refusal.source = part.source
        return refusal


def _mended(remedy: Sequence[str], before: str, after: str) -> tuple[str, ...]:
    """Cut mended queries down to the fragment in them."""
    whole = re.compile(f"{re.escape(before)}(.+){re.escape(after)}", re.DOTALL)
    found = ((whole.fullmatch(line), line) for line in remedy)
    return tuple(line if mended is None else mended[1] for mended, line in found)


def joined(between: str, parts: Sequence[Written]) -> Written:
    """Return parts with a text between each two of them."""
    whole = Written()
    for number, part in enumerate(parts):
        whole += between + part if number else part
    return whole


def read_part(text: object, place: Place, taker: str) -> Written:
    """Read a text that has to be one expression, or one key of ORDER BY.

    An expression that is no name, star or call gets brackets, so that nothing around it can be
    read as a part of it.

    Raises:
        QueryRefused: what parse refuses; DPQ101 it is more than that; DPQ805 it is no text.
    """
    if not isinstance(text, str):
        title = f"{taker} takes an expression as a text, not {type(text).__name__}"
        raise misfit(title, f'{taker}("age > 30")', why="an expression is written as in SQL.")
    source = Source(text, taker)
    before, slot = place.value
    written = Written((before, Fragment(source, Span(0, len(text)))))
    try:
        tree = parse(Source(written.text)).query
    except QueryRefused as refused:
        raise _of_fragment(refused, written, source, taker) from None
    tokens = list(DuckDB().tokenize(text))
    if not _is_one(tree, slot) or tokens[-1].token_type is TokenType.SEMICOLON:
        raise _several(source, taker)
    fragment = Fragment(source, Span(tokens[0].start, tokens[-1].end + 1))
    bare = place is Place.KEY or _is_closed(tokens)
    return Written((fragment,) if bare else ("(", fragment, ")"))


def _parts(texts: Iterable[object], place: Place, taker: str) -> tuple[Written, ...]:
    return tuple(read_part(text, place, taker) for text in texts)


def _of_fragment(
    refused: QueryRefused, written: Written, source: Source, taker: str
) -> QueryRefused:
    """Have a refusal speak of the fragment alone, and not of the query around it."""
    refused.source, refused.budget = None, "unchanged"
    written.pointed(refused)
    if refused.span is not None and refused.source is None:
        return _several(source, taker)
    lines, instead = refused.diagnostic.remedy, f'{taker}("age > 30")'
    remedy = tuple(instead if line in _OTHERS else line for line in lines)
    refused.diagnostic = replace(refused.diagnostic, remedy=remedy)
    return refused


def _is_one(tree: exp.Query, slot: str) -> bool:
    """Return whether a tried query holds the fragment in its slot and nowhere else."""
    filled = {name for name, value in tree.args.items() if value}
    if not isinstance(tree, exp.Select) or filled - {"expressions", "from_", slot}:
        return False
    if slot == "expressions":
        items = tree.expressions
        return "from_" not in filled and len(items) == 1 and not isinstance(items[0], exp.Alias)
    return slot != "order" or len(tree.args["order"].expressions) == 1


def _is_closed(tokens: Sequence[Token]) -> bool:
    """Say whether words are a name, a star, or a name and one pair of brackets to the end."""
    kinds = [token.token_type for token in tokens]
    names = {TokenType.VAR, TokenType.IDENTIFIER}
    if kinds == [TokenType.STAR] or (
        set(kinds[::2]) <= names and set(kinds[1::2]) <= {TokenType.DOT}
    ):
        return True
    depth = 0
    for number, kind in enumerate(kinds[1:], 2):
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if depth == 0:
            return kinds[0] is TokenType.VAR and number == len(kinds) > 2
    return False


def _several(source: Source, taker: str) -> QueryRefused:
    several = refusal(
        "DPQ101",
        f"{taker} takes one expression",
        Span(0, len(source.text)),
        "more than one expression, or another thing",
        "a part of a query cannot add other parts to it.",
        "give each expression on its own, and each clause by its method",
    )
    several.source, several.budget = source, "unchanged"
    return several


# `dpquery.count`, `dpquery.median` and so on: DP_ calls for the builder, written in Python.
# They are made from the registry, under each function's name and aliases without `DP_`.
# Nothing is checked here: the call becomes text, and binding decides.


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One DP_ call: what it asks about, and its options by name."""

    function: DPFunction
    name: str
    arguments: tuple[object, ...]
    distinct: bool
    options: tuple[tuple[str, object], ...]
    conditions: tuple[object, ...] = ()

    def where(self, *conditions: str) -> Aggregate:
        """Ask only about rows for which all conditions are true: FILTER (WHERE ...)."""
        return replace(self, conditions=self.conditions + conditions)

    def written(self) -> Written:
        """Return the call as text.

        Raises:
            QueryRefused: an argument is not one expression, or a value has no literal.
        """
        parts = [self.subject()] if self.arguments or self.function.first.star else []
        more = self.function.first if self.function.several else None
        takes = chain(self.function.positional[1:], repeat(more))
        for one, value in zip(takes, self.arguments[1:], strict=False):
            if isinstance(one, Expression) and one.listed and isinstance(value, list | tuple):
                inner = [read_part(part, Place.VALUE, self._taker) for part in value]
                parts.append("[" + joined(", ", inner) + "]")
            elif isinstance(one, Expression):
                parts.append(read_part(value, Place.VALUE, self._taker))
            else:
                parts.append(Written((written_setting(value),)))
        points = {one.name for one in self.function.positional if isinstance(one, Points)}
        for option, value in self.options:
            if option in points:
                parts.append(Written((f"{option}={written_setting(value)}",)))
                continue
            parts.append(Written((f"{written_name(option)}={_setting(option, value)}",)))
        call = f"{self.name}(" + joined(", ", parts) + ")"
        if not self.conditions:
            return call
        taker = f"{self._taker}().where"
        kept = _parts(self.conditions, Place.CONDITION, taker)
        return call + " FILTER (WHERE " + joined(" AND ", kept) + ")"

    def subject(self) -> Written:
        """Return what is asked about as text: all rows where nothing is said."""
        if not self.arguments:
            return Written(("*",))
        distinct = "DISTINCT " if self.distinct else ""
        return distinct + read_part(self.arguments[0], Place.VALUE, self._taker)

    @property
    def _taker(self) -> str:
        return self.name.removeprefix("DP_").lower()


class Maker:
    """Makes calls of one function."""

    def __init__(self, function: DPFunction, name: str) -> None:
        self._function = function
        self._called = name
        self.__name__ = name.removeprefix("DP_").lower()
        self.__doc__ = f"{function.summary}\n\nIn SQL: {function.example}"
        self.__signature__ = _signature(function)

    def __call__(self, *about: object, distinct: object = None, **options: object) -> Aggregate:
        """Return a call; a text stands for an expression of rows, and options go by name."""
        several = distinct is not None
        arguments, given = (distinct, *about) if several else about, tuple(options.items())
        return Aggregate(self._function, self._called, arguments, several, given)

    def __repr__(self) -> str:
        return f"<dpquery.{self.__name__}{self.__signature__}>"


def _setting(option: str, value: object) -> str:
    """Write what an option is set to: a longer list than a pair would be data."""
    if isinstance(value, list | tuple) and len(value) != 2:
        title = f"{option} takes one value or a pair, not {shown(value)} of {len(value)}"
        raise misfit(title, f"{option}=(0, 100)")
    return written_setting(value)


def _signature(function: DPFunction) -> Signature:
    """Return what a function takes, for help() and completion."""
    default: object = "*" if function.first.star else Parameter.empty
    about = [
        Parameter(one.label, Parameter.POSITIONAL_ONLY, default=default)
        for one in function.positional
    ]
    if function.several:
        about.append(Parameter("more", Parameter.VAR_POSITIONAL))
    names = [option.name for option in function.parameters]
    needed = set() if {*ERRORS} & {*function.parameters} else {"eps"}
    options = [
        Parameter(
            name, Parameter.KEYWORD_ONLY, default=Parameter.empty if name in needed else None
        )
        for name in (["distinct", *names] if function.first.distinct else names)
    ]
    return Signature(about + options)


_MAKERS = {
    name.removeprefix("DP_").lower(): Maker(function, name)
    for function in functions.ALL
    for name in (function.name, *function.aliases)
}


def find(name: str) -> Maker | None:
    """Return the function that makes calls of that name, in lower case and without DP_."""
    return _MAKERS.get(name)


def names() -> list[str]:
    """Return the names of all of them, sorted."""
    return sorted(_MAKERS)


_JOINS = {
    "inner": "JOIN",
    "left": "LEFT JOIN",
    "right": "RIGHT JOIN",
    "full": "FULL JOIN",
    "semi": "SEMI JOIN",
    "anti": "ANTI JOIN",
}


@dataclass(frozen=True, slots=True, repr=False)
class Query:
    """A query over a table. Each method gives another query, and leaves this one as it is."""

    session: AnySession = field(compare=False)
    name: str
    alias: str | None = None
    joins: tuple[Written, ...] = ()
    conditions: tuple[Written, ...] = ()
    shown: tuple[Written, ...] = ()
    groups: tuple[Written, ...] = ()
    items: tuple[Written, ...] = ()
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
        part = f" {_JOINS[how]} " + _joinable(other)
        if on is not None:
            part += " ON " + read_part(on, Place.CONDITION, "join")
        if using is not None:
            columns = [using] if isinstance(using, str) else using
            part += f" USING ({', '.join(_name(column, 'join') for column in columns)})"
        return self._with(joins=(part,))

    def where(self, *conditions: str) -> Query:
        """Keep rows for which all conditions are true.

        Raises:
            QueryRefused: a condition is not one expression.
        """
        return self._with(conditions=_parts(conditions, Place.CONDITION, "where"))

    def group_by(self, *expressions: Aggregate | str, **named: Aggregate | str) -> Query:
        """Answer by groups: columns, expressions or `dpquery.keys`, with a name if given one.

        Raises:
            QueryRefused: a text is not one expression.
        """
        parts = [(None, item) for item in expressions] + list(named.items())
        # Of groups that are found, the expression is shown that they are values of.
        shown = tuple(one for name, item in parts for one in _shown_of(name, item))
        return self._with(
            shown=shown, groups=tuple(_item(item, "group_by") for _, item in parts)
        )

    def agg(self, *items: Aggregate | str, **named: Aggregate | str) -> Query:
        """Ask for released values, as `n=dpquery.count(eps=0.5)`, or expressions of such.

        Raises:
            QueryRefused: a text is not one expression, or a value has no literal.
        """
        parts = [(None, item) for item in items] + list(named.items())
        return self._with(items=tuple(_named(name, _item(item, "agg")) for name, item in parts))

    def having(self, *conditions: str) -> Query:
        """Keep groups for which all conditions on released values are true.

        Raises:
            QueryRefused: a condition is not one expression.
        """
        return self._with(kept=_parts(conditions, Place.CONDITION, "having"))

    def order_by(self, *keys: str) -> Query:
        """Sort the answer, as by `"n DESC"`.

        Raises:
            QueryRefused: a text is not one key.
        """
        return self._with(keys=_parts(keys, Place.KEY, "order_by"))

    def limit(self, rows: int, *, offset: int = 0) -> Query:
        """Keep some rows of the answer.

        Raises:
            NameRefused: DPQ805 a number that has no literal.
        """
        skipped = f" OFFSET {written_value(offset)}" if offset else ""
        return replace(self, most=f" LIMIT {written_value(rows)}{skipped}")

    def _with(self, **more: tuple[Written, ...]) -> Query:
        return replace(self, **{name: getattr(self, name) + new for name, new in more.items()})

    def sql(self) -> str:
        """Return the text that is asked."""
        return self._written().text

    def explain(self) -> Explanation:
        """Return what the query would lose and how it would be answered; costs nothing.

        Raises:
            QueryRefused: it would not be answered.
        """
        return self._told(self.session.explain)

    def run(self, *, refresh: bool = False) -> Answer:
        """Ask, and pay.

        Raises:
            QueryRefused: the query is not answered; the budget is unchanged.
            ScanFailed: reading broke off; the charge stays.
        """
        return self._told(partial(self.session.sql, refresh=refresh))

    def _told(self, ask: Callable[[str], T]) -> T:
        written = self._written()
        try:
            return ask(written.text)
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
            + joined(", ", self.shown + self.items or [Written(("*",))])
            + Written((f" FROM {_table_of(self)}",))
            + joined("", self.joins)
            + _clause("WHERE", " AND ", self.conditions)
            + _clause("GROUP BY", ", ", self.groups)
            + _clause("HAVING", " AND ", self.kept)
            + _clause("ORDER BY", ", ", self.keys)
            + self.most
        )


def _item(item: Aggregate | str, taker: str) -> Written:
    if isinstance(item, Aggregate):
        return item.written()
    return read_part(item, Place.VALUE, taker)


def _shown_of(name: str | None, item: Aggregate | str) -> list[Written]:
    """Write what is shown of a group: of those that are found, what they are values of."""
    if not isinstance(item, Aggregate):
        return [_named(name, _item(item, "group_by"))]
    if name is None or not item.function.several or len(item.arguments) < 2:
        more = item.arguments[1:] if item.function.several else ()
        others = (read_part(one, Place.VALUE, "group_by") for one in more)
        return [_named(name, item.subject()), *others]
    title = f"{name} would name {len(item.arguments)} columns"
    raise misfit(title, 'group_by(dpquery.keys("city", "age", eps=0.5, delta="1e-7"))')


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
    return "(" + other._written() + f") AS {called}"


def _name(name: object, taker: str) -> str:
    if not isinstance(name, str):
        title = f"{taker} takes a name as a text, not {type(name).__name__}"
        raise misfit(title, f'{taker}("staff")', why="names are written as in SQL.")
    return written_name(name)


def _named(name: str | None, written: Written) -> Written:
    return written if name is None else written + f" AS {written_name(name)}"


def _clause(word: str, between: str, parts: Sequence[Written]) -> Written:
    return f" {word} " + joined(between, parts) if parts else Written()
