"""Relations inside a query above the frontier: subqueries, unions, and the ends of intervals.

Each is computed once, however often its expression is bound, and beside the rows: inside TRY
it could not stand.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpquery.core.source import Span
from dpquery.core.types import Kind
from dpquery.errors import advice, refusal
from dpquery.ir.query import Above, IntervalEnd
from dpquery.sql.bind.from_clause import Context
from dpquery.sql.bind.options import read_number_between
from dpquery.sql.bind.released import unaskable
from dpquery.sql.bind.scope import fold, is_call, written_name
from dpquery.sql.bind.subqueries import uneven
from dpquery.sql.parse.literals import read_place, unwrapped
from dpquery.sql.parse.spans import Spans, mended, outside
from dpquery.sql.postprocess.from_clause import (
    MOST_CHARACTERS,
    MOST_HIDDEN,
    MOST_ROWS,
    Open,
    OpenColumn,
    outgrown,
    require_rows,
)
from dpquery.sql.postprocess.values import Value, comparable, direction, row_count
from dpquery.sql.suggest.queries import COUNT, mismatch, query_of_policy

if TYPE_CHECKING:
    from dpquery.sql.postprocess.expressions import Expressions
    from dpquery.sql.postprocess.stages import Base


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
        if not comparable(value.kind, column.kind) or _unlike(value, column):
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


# UNION, EXCEPT and INTERSECT of relations that are released or public.


_NO_ROW = "CAST(NULL AS BIGINT)"
_AS_IS = "{}"


def arms_of(opener: Opener, node: exp.SetOperation) -> list[exp.Expr]:
    """Return the two sides of an operation, whose order is plain.

    Raises:
        SyntaxRefused: DPQ102 operations of different kinds without brackets.
    """
    for side in (node.this, node.expression):
        if isinstance(side, exp.SetOperation) and type(side) is not type(node):
            span = opener.spans.of(node)
            word = f"{side.key.upper()} beside {node.key.upper()}"
            label = "which comes first?"
            raise outside(word, span, label, advice("put one of them in brackets"))
    return [node.this, node.expression]


def combined(opener: Opener, node: exp.SetOperation, left: Open, right: Open) -> Open:
    """Put two relations together: columns by place, of types that match.

    Raises:
        NameRefused: DPQ208 another number of columns, or types that do not match.
    """
    span = opener.spans.of(node)
    word = node.key.upper() + ("" if node.args.get("distinct") else " ALL")
    if len(left.columns) != len(right.columns):
        raise uneven(word, len(left.columns), len(right.columns), span)
    shared = _shared(left, right)
    fits = shared or len(left.hidden) + len(right.hidden) <= MOST_HIDDEN
    keeps, before = word == "UNION ALL" and fits, 0 if shared else len(left.hidden)
    columns, casts = [], []
    for at, (one, other) in enumerate(zip(left.columns, right.columns, strict=True)):
        kind, cast = _common(one, other, word, span)
        casts.append(cast)
        moved = (replace(origin, row=origin.row + before) for origin in other.origins)
        origins = (
            tuple(dict.fromkeys((*one.origins, *moved))) if keeps and cast == _AS_IS else ()
        )
        narrow = one.narrow and other.narrow
        longest, grown = max(one.longest, other.longest), one.grown + other.grown
        opener.require_texts(grown, span)
        noiseless, sql = one.noiseless and other.noiseless, f'"c{at}"'
        columns.append(
            OpenColumn(one.name, sql, kind, narrow, origins, longest, grown, noiseless)
        )
    first = [f'"r{i}"' for i in range(len(left.hidden))] if keeps else []
    second = [f'"r{i}"' for i in range(len(right.hidden))] if keeps else []
    if not shared:
        missing = [_NO_ROW] * len(first)
        first, second = [*first, *[_NO_ROW] * len(second)], [*missing, *second]
    arms = []
    for open_, numbers in ((left, first), (right, second)):
        shown = [
            f"{cast.format(column.sql)} AS {made.sql}"
            for column, cast, made in zip(open_.columns, casts, columns, strict=True)
        ]
        shown += [f'{sql} AS "r{i}"' for i, sql in enumerate(numbers)]
        arms.append(f'(SELECT {", ".join(shown)} FROM {open_.source} AS "{opener.alias()}")')
    hidden = (*left.hidden, *(() if shared else right.hidden)) if keeps else ()
    rows = left.most + right.most if isinstance(node, exp.Union) else left.most
    most = require_rows(rows, opener.widest, span)
    return Open(f"({arms[0]} {word} {arms[1]})", tuple(columns), hidden, most=most)


def _shared(left: Open, right: Open) -> bool:
    """Return whether both sides show the same releases in the same columns.

    Their row numbers then stand in the same columns too: a relation that is put to itself
    again and again would else have twice as many each time.
    """
    alike = zip(left.columns, right.columns, strict=True)
    return left.hidden == right.hidden and all(a.origins == b.origins for a, b in alike)


def _unlike(one: Value | OpenColumn, other: Value | OpenColumn) -> bool:
    """Return whether the engine could fail to convert a value to a list beside it.

    Lists have no kind with a name; NULL has none either, and no length.
    """
    unknown = [side for side in (one, other) if side.kind is None]
    return len(unknown) == 1 and unknown[0].longest > 0


def _common(
    one: OpenColumn, other: OpenColumn, word: str, span: Span
) -> tuple[Kind | None, str]:
    """Return the kind of a column of both, and how both are converted to it."""
    if not comparable(one.kind, other.kind) or _unlike(one, other):
        first, second = one.kind or "list", other.kind or "list"
        title = f"{word} of a {first} and a {second}, in column {one.name[:40]}"
        mismatch(span, title, "two types", advice("write CAST(... AS TEXT)"))
    if one.kind is other.kind or None in {one.kind, other.kind}:
        return one.kind if one.kind is other.kind else None, _AS_IS
    return Kind.DOUBLE, "TRY_CAST({} AS DOUBLE)"


def finished(opener: Opener, node: exp.SetOperation, found: Open, *, root: bool) -> str:
    """Write an operation as a query, with ORDER BY and LIMIT of its own."""
    alias, order = opener.alias(), node.args.get("order")
    listed = [f'"{alias}".{c.sql} AS {c.sql}' for c in found.columns]
    listed += [f'"{alias}"."r{i}" AS "r{i}"' for i in range(len(found.hidden))]
    items = [] if order is None else order.expressions
    keys = [key for item in items for key in _sort_keys(opener, item, found.columns)]
    cut = "".join(
        row_count(node.args[slot].expression, slot, opener.spans)
        for slot in ("limit", "offset")
        if node.args.get(slot) is not None
    )
    if root or keys or cut:
        rows = [f'"r{i}" ASC NULLS LAST' for i in range(len(found.hidden))]
        keys += rows or [column.sql for column in found.columns]
    ordered = f" ORDER BY {', '.join(keys)}" if keys else ""
    return f'SELECT {", ".join(listed)} FROM {found.source} AS "{alias}"{ordered}{cut}'


def _sort_keys(opener: Opener, item: exp.Ordered, columns: Sequence[OpenColumn]) -> list[str]:
    """Resolve a column's number or name, or ALL: an operation has no others."""
    node, span = item.this, opener.spans.of(item)
    if isinstance(node, exp.Var):
        found = list(columns)
    elif isinstance(node, exp.Literal) and not node.is_string:
        found = [columns[read_place(node, len(columns), span, "ORDER BY")]]
    else:
        named = isinstance(node, exp.Column) and not node.table
        found = [c for c in columns if named and fold(c.name) == fold(node.name)][:1]
    if not found:
        raise outside("this order", span, "not a column of the result", "ORDER BY 1")
    return [column.sql + direction(item) for column in found]


# DP_INTERVAL_LOW and DP_INTERVAL_HIGH: how far noise may have taken a released value.
#
# A column that shows a release unchanged knows it, and the number of the row that a value
# comes from. The ends of the interval stand in the released table as hidden columns, so
# that they are found by that number: through joins, windows and sorting, wherever the value
# itself goes.


USUAL = Fraction(95, 100)
LEAST = Fraction(1, 10**9)
"""Of a confidence, and of what is left to certainty: every mechanism can tell so much."""


def end_of(place: Expressions, node: exp.Anonymous) -> Value:
    """Bind a call: an end of the interval of each value of a released column.

    Raises:
        NameRefused: DPQ205, DPQ207 the confidence, DPQ206 another number of arguments.
        RuleRefused: DPQ303 the column shows no release unchanged.
    """
    argument, confidence = _arguments(place, node)
    base, name = place.base, str(node.this).upper()
    found = None if is_call(unwrapped(argument)) else base.value(argument)
    if found is None or not found.origins:
        _not_noisy(place, name, argument)
    ends, high = [], name == "DP_INTERVAL_HIGH"
    for origin in found.origins:
        column = place.opener.end(IntervalEnd(origin.frontier, origin.column, high, confidence))
        from_, row = f'"f{origin.frontier}" AS "e"', base.rows[origin.row][0]
        ends.append(f'(SELECT "e"."{column}" FROM {from_} WHERE "e"."row" = {row})')
    sql = ends[0] if len(ends) == 1 else f"coalesce({', '.join(ends)})"
    return place.subquery(sql, found.kind)


def _arguments(place: Expressions, node: exp.Anonymous) -> tuple[exp.Expr, Fraction]:
    """Part the column, which may be a text, from the confidence, which may have its name."""
    argument, given = [*node.expressions, None, None][:2]
    if isinstance(argument, exp.Literal) and argument.is_string:  # as an alias may be written
        column = exp.Identifier(this=argument.this, quoted=False)
        column.meta.update(argument.meta)
        argument = exp.Column(this=column)
    named = isinstance(given, exp.EQ | exp.PropertyEQ | exp.Kwarg)
    if not 1 <= len(node.expressions) <= 2 or (named and fold(given.this.name) != "confidence"):
        name = str(node.this).upper()
        raise refusal(
            "DPQ206",
            f"{name} takes a column, and a confidence if not 0.95",
            place.spans.of(node),
            "other arguments",
            "the noise of a released value says between which ends the exact one lies.",
            _example(place, name),
        )
    if given is None:
        return argument, USUAL
    given, limits = given.expression if named else given, (LEAST, 1 - LEAST)
    read, span = unwrapped(given), place.spans.of(given)
    return argument, read_number_between("the confidence", read, span, limits, "0.95")


def _not_noisy(place: Expressions, name: str, argument: exp.Expr) -> NoReturn:
    """Refuse what is no release unchanged; offer to name a call that stands inside."""
    inner = unwrapped(argument)
    called = is_call(inner)
    remedy = f"{place.spans.text(inner)} AS n, {name}(n)" if called else _example(place, name)
    raise refusal(
        "DPQ303",
        f"{name} needs a column with noise of its own",
        place.spans.of(argument),
        "a release beside those shown" if called else "not a released value, unchanged",
        (
            "the interval of a value follows from its noise, which is known where a column",
            "shows a DP_ function as it was released, not what is computed from it.",
        ),
        remedy,
    )


def _example(place: Expressions, name: str) -> str:
    query = query_of_policy(place.opener.policy)
    return query.replace(COUNT, f"{COUNT} AS n, {name}(n)")
