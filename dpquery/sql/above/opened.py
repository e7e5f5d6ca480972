"""Subqueries above the frontier, and what all SELECTs of a statement share there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, NameRefused, SyntaxRefused
from dpquery.ir import IntervalEnd
from dpquery.source import Span
from dpquery.sql.above.froms import From, Open
from dpquery.sql.above.functions import NAMES as FUNCTIONS
from dpquery.sql.above.rows import MOST_CHARACTERS, MOST_ROWS, refuse_characters
from dpquery.sql.above.values import Value, condition
from dpquery.sql.meant import a_slip_away
from dpquery.sql.mending import outside
from dpquery.sql.mismatches import mismatch
from dpquery.sql.names import written_name
from dpquery.sql.offers import query_of_policy
from dpquery.sql.released import unaskable
from dpquery.sql.sources import Context
from dpquery.types import NUMERIC, Kind

if TYPE_CHECKING:
    from dpquery.sql.above.expressions import Expressions
    from dpquery.sql.above.stages import Base

__all__ = ["Opener"]


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
            refuse_characters(self._characters, span)

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
                grown = found.grown and None  # for each of the rows here, once more
                return replace(found, origins=(), narrow=False, grown=grown)
        return None

    def _inside(self, place: Base, node: exp.Expr) -> Open:
        """Bind a subquery once, however often its expression is bound: it is one release."""
        if id(node) not in self._inner:
            self._around.append(place)
            try:
                self._inner[id(node)] = self.opened(node)
            finally:
                self._around.pop()
        return self._inner[id(node)]

    def _one_column(self, place: Base, node: exp.Expr) -> Open:
        found = self._inside(place, node)
        if len(found.columns) != 1:
            span = self.spans.of(node)
            label = f"{len(found.columns)} columns"
            remedy = "SELECT max(1) FROM ..."
            raise SyntaxRefused(outside("a subquery of several columns", span, label, remedy))
        return found

    def scalar(self, place: Expressions, node: exp.Subquery) -> Value:
        """Give the one value of a subquery; NULL where it has no row, or several."""
        base = place.base
        found = self._one_column(base, node)
        column = found.columns[0]
        sql = f"(SELECT CASE WHEN count(*) = 1 THEN first({column.sql}) END"
        sql += f' FROM {found.source} AS "{self.alias()}")'
        value = base.subquery(sql, column.kind)
        grown = None if column.grown else 0
        value = replace(value, narrow=column.narrow, longest=column.longest, grown=grown)
        return value if place is base else place.lifted(value)

    def exists(self, place: Expressions, node: exp.Exists) -> Value:
        """Say whether a subquery has a row."""
        base = place.base
        found = self._inside(base, node.this)
        sql = f'(EXISTS (SELECT 1 FROM {found.source} AS "{self.alias()}"))'
        value = base.subquery(sql, Kind.BOOLEAN)
        return value if place is base else place.lifted(value)

    def member(self, place: Expressions, node: exp.In, query: exp.Expr) -> Value:
        """Say whether a value is among those of a subquery."""
        base = place.base
        value = base.value(node.this)
        found = self._one_column(base, query)
        kinds = {value.kind, found.columns[0].kind}
        if None not in kinds and len(kinds) > 1 and not kinds <= NUMERIC:
            title = f"a {value.kind} is not among values of {found.columns[0].kind}"
            remedy = f"CAST({self.spans.text(node.this)} AS TEXT)"
            mismatch(self.spans.of(node.this), title, f"a {value.kind}", remedy)
        sql = f"({value.total} IN (SELECT {found.columns[0].sql} FROM {found.source}"
        sql += f' AS "{self.alias()}"))'
        made = base.subquery(sql, Kind.BOOLEAN)
        return made if place is base else place.lifted(made)

    def where(self, kept: Sequence[Value]) -> str:
        """Write WHERE; empty without conditions."""
        return " WHERE " + " AND ".join(map(condition, kept)) if kept else ""

    def first_item(self, from_: From) -> str:
        """Write the name of the first relation of a FROM clause; of none, a query."""
        return written_name(from_.aliases[0]) if from_.aliases else "(SELECT 1)"

    def without_table(self, title: str, node: exp.Expr) -> NoReturn:
        """Refuse what has no meaning without FROM."""
        raise unaskable(
            title, self.spans.of(node), "FROM is missing", query_of_policy(self.policy)
        )

    def unknown_function(self, call: exp.Expr, name: str, otherwise: str) -> NoReturn:
        """Refuse a function of no meaning here; offer the one that is a slip away."""
        near = a_slip_away(name, FUNCTIONS)
        raise NameRefused(
            Diagnostic(
                "DPQ202",
                f"there is no function {name}",
                self.spans.name(call),
                "unknown function",
                ("on results there are ABS, COALESCE, ROUND and others in functions.md.",),
                (otherwise if near is None else near + self.spans.text(call)[len(name) :],),
            )
        )
