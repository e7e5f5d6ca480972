"""Window functions over the rows of one unit: numbers, neighbours and totals of its own rows.

PARTITION BY has to name the unit; an ORDER BY is completed by every column in use, so that what
a row gets depends on the rows of its unit and not on where they stand in a file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, RuleRefused, SyntaxRefused
from dpquery.expr import ColumnRef, Expr, Nulls, longest_of
from dpquery.relations import (
    Relation,
    Sorted,
    WindowColumn,
    Windowed,
    WindowFunction,
)
from dpquery.source import Span
from dpquery.sql.conditions import Conditions
from dpquery.sql.literals import unwrapped
from dpquery.sql.mending import outside
from dpquery.sql.names import Scope, fold, written_name
from dpquery.sql.per_unit import aggregate_of, aggregate_ref
from dpquery.sql.sources import Context
from dpquery.sql.spans import Spans
from dpquery.types import INTEGER, Interval

__all__ = ["Windows", "WrittenOut", "written_out"]

_FUNCTIONS: dict[type[exp.Expr], WindowFunction] = {
    exp.RowNumber: WindowFunction.ROW_NUMBER,
    exp.Rank: WindowFunction.RANK,
    exp.DenseRank: WindowFunction.DENSE_RANK,
    exp.Lag: WindowFunction.LAG,
    exp.Lead: WindowFunction.LEAD,
}
_FURTHEST = 1000


@dataclass
class Windows:
    """Collects the windows of one SELECT over private rows."""

    context: Context
    source: Relation
    scope: Scope
    span: Span = field(default_factory=lambda: Span(0, 0))
    number: int | None = None
    found: list[WindowColumn] = field(default_factory=list)

    @property
    def rows(self) -> Conditions:
        """What binds the SELECT list: expressions over rows, with windows among them."""
        return _WindowRows(self.scope, self.context.spans, self)

    @property
    def relation(self) -> Relation:
        """The rows with the columns of all windows that were bound."""
        if not self.found or self.number is None:
            return self.source
        return Windowed(self.span, self.source, self.number, tuple(self.found))

    def qualified(self, node: exp.Expr, select: exp.Select) -> Expr:
        """Bind QUALIFY, where names of the SELECT list stand for what they name."""
        return self.rows.condition(written_out(node, select.expressions, self.scope))

    def column(self, node: exp.Window) -> ColumnRef:
        """Bind a window and give its column.

        Raises:
            RuleRefused: DPQ307 the unit is not among PARTITION BY, or a frame.
        """
        span = self.context.spans.of(node)
        rows = Conditions(self.scope, self.context.spans, self.context)
        parts = node.args.get("partition_by") or []
        if not any(self.scope.owns(unwrapped(part)) for part in parts):
            self._refuse_partition(node)
        if node.args.get("spec") is not None:
            self._refuse_frame(node)
        others = tuple(rows.bind(p) for p in parts if not self.scope.owns(unwrapped(p)))
        if self.number is None:
            self.number, self.span = self.context.numbers(), span
        name = f"w{len(self.found)}"
        made = self._made(node, rows, name, others)
        self.found.append(made)
        if made.aggregate is not None:
            return aggregate_ref(made.aggregate, self.number, span)
        bounded = isinstance(made.argument, ColumnRef) and made.argument.bounded
        bounded |= made.function is WindowFunction.NTILE
        longest = 0 if made.argument is None else longest_of(made.argument)
        return ColumnRef(
            span,
            name,
            made.type,
            made.domain,
            bounded,
            None,
            None,
            longest,
            self.number,
            isinstance(made.argument, ColumnRef) and made.argument.clamped,
            Nulls.NEVER if made.argument is None else Nulls.GROUPED,
        )

    def _made(
        self, node: exp.Window, rows: Conditions, name: str, parts: tuple[Expr, ...]
    ) -> WindowColumn:
        call = node.this
        function = _function(call)
        order = self._order(node, rows)
        if function is WindowFunction.NTILE:
            tiles = self._tiles(call)
            ends = Interval(Fraction(1), Fraction(tiles))
            return WindowColumn(name, function, None, parts, order, tiles, INTEGER, ends)
        if function is None:
            if order:
                self._refuse_frame(node)
            one = aggregate_of(self.context, (self.source, rows), call, name)
            return WindowColumn(
                name, WindowFunction.AGGREGATE, None, parts, (), 0, one.type, one.domain, one
            )
        if function not in {WindowFunction.LAG, WindowFunction.LEAD}:
            places = Interval(Fraction(1), Fraction(self.context.most_rows(self.source)))
            return WindowColumn(name, function, None, parts, order, 0, INTEGER, places)
        argument = rows.bind(call.this)
        offset = call.args.get("offset")
        steps = 1 if offset is None else _steps(offset)
        if call.args.get("default") is not None or steps is None:
            what = outside(
                self.context.spans.text(call)[:40],
                self.context.spans.of(call),
                "not understood",
                f"{call.key}({self.context.spans.text(call.this)}, 1)",
            )
            raise SyntaxRefused(what)
        return WindowColumn(
            name, function, argument, parts, order, steps, argument.type, argument.domain
        )

    def _tiles(self, call: exp.Expr) -> int:
        """Read into how many parts NTILE parts the rows of a unit."""
        given = call.expressions
        tiles = _steps(given[0]) if len(given) == 1 else None
        if not tiles:
            span = self.context.spans.of(given[0] if given else call)
            label = f"a literal from 1 to {_FURTHEST} is needed"
            raise SyntaxRefused(outside("ntile of this", span, label, "ntile(4)"))
        return tiles

    def _order(self, node: exp.Window, rows: Conditions) -> tuple[Sorted, ...]:
        order = node.args.get("order")
        if order is None:
            return ()
        return tuple(
            Sorted(
                rows.bind(key.this), *(bool(key.args.get(s)) for s in ("desc", "nulls_first"))
            )
            for key in order.expressions
        )

    def _refuse_partition(self, node: exp.Window) -> NoReturn:
        unit = self.scope.table.unit
        raise RuleRefused(
            Diagnostic(
                "DPQ307",
                "a window over private rows has to be within one unit",
                self.context.spans.of(node),
                f"not PARTITION BY {unit}" if unit else "each row is a unit of its own here",
                ("one unit's rows would change what the rows of another one get.",),
                (self._by_unit(node, unit) if unit else "leave the window out",),
            )
        )

    def _by_unit(self, node: exp.Window, unit: str) -> str:
        """Write a window with the unit before what it is parted by."""
        name, text = written_name(unit), self.context.spans.text(node)
        parted = f"{name}, " if node.args.get("partition_by") else f"PARTITION BY {name} "
        made = re.sub(
            r"(OVER\s*\(\s*(?:PARTITION\s+BY\s+)?)", rf"\g<1>{parted}", text, flags=re.I
        )
        return made.replace(" )", ")")

    def _unordered(self, node: exp.Window) -> str:
        """Write a window without its ORDER BY."""
        text, order = self.context.spans.text(node), node.args.get("order")
        if order is None:
            return "leave the frame out"
        return re.sub(r"\s*\bORDER\s+BY\b.*\)$", ")", text, flags=re.I | re.S)

    def _refuse_frame(self, node: exp.Window) -> NoReturn:
        raise RuleRefused(
            Diagnostic(
                "DPQ307",
                "an aggregate over a part of a unit's ordered rows is not computed",
                self.context.spans.of(node),
                "ordered, or with a frame",
                (
                    "aggregates are over all rows of a part; row_number, rank, dense_rank,",
                    "ntile, lag and lead take an order.",
                ),
                (self._unordered(node),),
            )
        )


def _function(call: exp.Expr) -> WindowFunction | None:
    if isinstance(call, exp.Anonymous) and str(call.this).upper() == "NTILE":
        return WindowFunction.NTILE
    return _FUNCTIONS.get(type(call))


def written_out(node: exp.Expr, items: Sequence[exp.Expr], scope: Scope) -> exp.Expr:
    """Write out the names that items of a SELECT list give, where no column has the name.

    What an item names may itself hold names of items before it: the sizes of expressions are
    looked at where they are bound.
    """
    names = WrittenOut(scope)
    for item in items:
        names.note(item)
    return names.whole(node)


@dataclass(slots=True)
class WrittenOut:
    """The names that items of a SELECT list have given so far, with what they stand for."""

    scope: Scope
    _aliased: dict[str, exp.Expr] = field(default_factory=dict)

    def note(self, item: exp.Expr) -> None:
        """Take in the next item."""
        if isinstance(item, exp.Alias) and not self.scope.knows(item.alias):
            self._aliased[fold(item.alias)] = self.whole(item.this)

    def whole(self, node: exp.Expr) -> exp.Expr:
        """Return an expression with these names written out; itself, if it has none."""
        if not any(map(self._names, node.find_all(exp.Column))):
            return node
        return node.copy().transform(self._written)

    def _names(self, part: exp.Expr) -> bool:
        plain = isinstance(part, exp.Column) and not part.table
        return plain and fold(part.name) in self._aliased and not self.scope.owns(part)

    def _written(self, part: exp.Expr) -> exp.Expr:
        if not self._names(part):
            return part
        return exp.Paren(this=self._aliased[fold(part.name)].copy())


def _steps(node: exp.Expr) -> int | None:
    text = str(node.this) if isinstance(node, exp.Literal) and not node.is_string else ""
    return int(text) if text.isdigit() and len(text) < 6 and int(text) <= _FURTHEST else None


class _WindowRows(Conditions):
    """Binds expressions over rows in which windows may stand."""

    def __init__(self, scope: Scope, spans: Spans, windows: Windows) -> None:
        super().__init__(scope, spans, windows.context)
        self._windows = windows

    def bind(self, node: exp.Expr) -> Expr:
        """Bind an expression; a window is a column that is computed before it."""
        inner = unwrapped(node)
        if isinstance(inner, exp.Window):
            return self._windows.column(inner)
        return super().bind(inner)
