"""Subqueries inside a query above the frontier, and the names of relations for the engine.

Each is computed once, however often its expression is bound, and beside the rows: inside TRY
it could not stand.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.core.types import Kind
from dpquery.errors import advice, refusal
from dpquery.ir.query import Above, IntervalEnd
from dpquery.sql.bind.from_clause import Context
from dpquery.sql.bind.released_tables import unaskable
from dpquery.sql.bind.scope import written_name
from dpquery.sql.parse.spans import Spans, mended, outside
from dpquery.sql.postprocess.from_clause import (
    MOST_CHARACTERS,
    MOST_ROWS,
    Open,
    OpenColumn,
    outgrown,
)
from dpquery.sql.postprocess.sql_fragments import Value, comparable
from dpquery.sql.suggest.sample_queries import query_of_policy
from dpquery.sql.suggest.type_mismatches import mismatch

if TYPE_CHECKING:
    from dpquery.sql.postprocess.expressions import Expressions
    from dpquery.sql.postprocess.select_stages import Base


class Opener(Context):
    """Names relations for the engine, and binds the subqueries inside expressions."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self._aliases = count()
        self._around: list[Base] = []
        self._inner: dict[int, Open] = {}
        self._characters = 0
        self._ends: dict[IntervalEnd, str] = {}
        """Of intervals, that were asked for so far, with their names for the engine."""
        self.joined = 0
        """How many rows the largest join can have."""

    @cached_property
    def largest(self) -> int:
        """How many rows the largest public table has."""
        tables = (table for table in self.policy.tables.values() if table.public)
        return max((self.public.height(table.name) for table in tables), default=0)

    @property
    def widest(self) -> int:
        """How many rows may be computed with."""
        return max(MOST_ROWS, 4 * self.largest)

    def require_texts(self, characters: int, span: Span) -> None:
        """Refuse a statement that makes more of texts and lists than memory holds.

        Raises:
            PlanRefused: DPQ409.
        """
        self._characters += characters
        if self._characters > MOST_CHARACTERS:
            raise outgrown(
                f"texts of up to {self._characters:,} characters would be made",
                span,
                f"with those before, more than {MOST_CHARACTERS:,} in all rows",
                advice("cut them first, LEFT(text, 20), or put them together outside"),
            )

    @abstractmethod
    def opened(self, node: exp.Expr) -> Open:
        """Bind a subquery that has to be open."""

    @property
    def ends(self) -> tuple[tuple[str, IntervalEnd], ...]:
        """The ends of intervals that were asked for so far, by name."""
        return tuple((name, end) for end, name in self._ends.items())

    def end(self, end: IntervalEnd) -> str:
        """Name an end of the intervals of a column for the engine."""
        return self._ends.setdefault(end, f"e{len(self._ends)}")

    def join(self, rows: int) -> int:
        """Take note of a join of so many rows."""
        self.joined = max(self.joined, rows)
        return rows

    def alias(self) -> str:
        """Name the next relation for the engine."""
        return f"t{next(self._aliases)}"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Bind what stands after FROM: it sees nothing of the queries around."""
        around, self._around = self._around, []
        try:
            yield
        finally:
            self._around = around

    def around(self, inner: Base, node: exp.Column) -> Value | None:
        """Resolve a column in the queries around, from the innermost outwards."""
        chosen = [place.chosen for place in self._around]
        outside = chosen.index(inner) if inner in chosen else len(chosen)
        for place in reversed(self._around[:outside]):
            found = place.column(node)
            if found is not None:
                grown = 0 if found.grown == 0 else None  # made for each of the rows here
                return replace(found, origins=(), narrow=False, grown=grown)
        return None

    def _inside(self, place: Expressions, node: exp.Expr) -> Open:
        """Bind a subquery once, however often its expression is bound: it is one release."""
        if id(node) not in self._inner:
            self._around.append(place.base)
            try:
                self._inner[id(node)] = self.opened(node)
            finally:
                self._around.pop()
        return self._inner[id(node)]

    def _one_column(self, place: Expressions, node: exp.Expr) -> tuple[Open, OpenColumn]:
        found = self._inside(place, node)
        if len(found.columns) != 1:
            span, label = self.spans.of(node), f"{len(found.columns)} columns"
            raise outside(
                "a subquery of several columns",
                span,
                label,
                advice("write SELECT max(1) FROM ..."),
            )
        return found, found.columns[0]

    def scalar(self, place: Expressions, node: exp.Subquery) -> Value:
        """Return the one value of a subquery; NULL where it has no row, or several."""
        known = id(node) in self._inner
        found, column = self._one_column(place, node)
        if not known:
            self.require_one_row(found, node)
        sql = f"(SELECT CASE WHEN count(*) = 1 THEN first({column.sql}) END"
        sql += f' FROM {found.source} AS "{self.alias()}")'
        value, grown = place.subquery(sql, column.kind), 0 if column.grown == 0 else None
        return replace(value, narrow=column.narrow, longest=column.longest, grown=grown)

    def require_one_row(self, found: Open, node: exp.Subquery) -> None:
        """Refuse several rows in the place of a value, where it is known that there are.

        Those of public tables are counted now; of what was released, the plan says how many
        there are, as long as no condition leaves any out.

        Raises:
            NameRefused: DPQ208.
        """
        if found.most <= 1:
            return
        sql = f'SELECT count(*) FROM {found.source} AS "{self.alias()}"'
        counted = self.public.listed(Above(self._of_public(sql), ()))
        rows = int(str(counted[0])) if counted else found.least  # None where more is read
        if rows > 1:
            _refuse_several(self.spans, node, found.columns[0].name, rows)

    @abstractmethod
    def _of_public(self, sql: str) -> str:
        """Write a query over public tables, which is asked before anything is released."""

    def exists(self, place: Expressions, node: exp.Exists) -> Value:
        """Return whether a subquery has a row."""
        found = self._inside(place, node.this)
        sql = f'(EXISTS (SELECT 1 FROM {found.source} AS "{self.alias()}"))'
        return place.subquery(sql, Kind.BOOLEAN)

    def member(self, place: Expressions, node: exp.In) -> Value:
        """Return whether a value is among those of a subquery."""
        value = place.base.value(node.this)
        found, column = self._one_column(place, node.args["query"])
        if not comparable(value.kind, column.kind) or unlike(value, column):
            kind, among = value.kind or "list", column.kind or "lists"
            title = f"a {kind} is not among values of {among}"
            remedy = f"CAST({self.spans.text(node.this)} AS TEXT)"
            mismatch(self.spans.of(node.this), title, f"a {kind}", remedy)
        sql = f"({value.total} IN (SELECT {column.sql} FROM {found.source}"
        return place.subquery(f'{sql} AS "{self.alias()}"))', Kind.BOOLEAN)

    def without_table(self, title: str, node: exp.Expr) -> NoReturn:
        """Refuse what has no meaning without FROM."""
        remedy = query_of_policy(self.policy)
        raise unaskable(title, self.spans.of(node), "FROM is missing", remedy)


_AMONG: Mapping[object, str] = {exp.EQ: "IN", exp.NEQ: "NOT IN"}


def _refuse_several(spans: Spans, node: exp.Subquery, column: str, rows: int) -> NoReturn:
    """Refuse several rows in the place of a value; offer to compare with all, or one."""
    span, text, compared = spans.of(node), spans.text(node), node.parent
    remedy = f"(SELECT MAX({written_name(column)}) FROM {text})"
    word = _AMONG.get(type(compared))
    if compared is not None and compared.expression is node and word is not None:
        span, remedy = spans.of(compared), f"{spans.text(compared.this)} {word} {text}"
    raise refusal(
        "DPQ208",
        "more than one row returned by a subquery used as an expression",
        spans.of(node),
        f"{rows:,} rows",
        "one value stands here, and it could be that of any of them.",
        mended(spans.source, span, remedy, remedy),
    )


def unlike(one: Value | OpenColumn, other: Value | OpenColumn) -> bool:
    """Return whether the engine could fail to convert a value to a list beside it.

    Lists have no kind with a name; NULL has none either, and no length.
    """
    unknown = [side for side in (one, other) if side.kind is None]
    return len(unknown) == 1 and unknown[0].longest > 0
