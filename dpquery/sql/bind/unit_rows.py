"""Aggregates of one unit's rows: order-free, exact, and each with a public range.

What is computed per unit is a column like any other; only what the query around it releases
costs anything. So a count here is the unit's true count, and the DP_ function around it states
where it clamps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.core.source import Span
from dpquery.core.types import BOOLEAN, DOUBLE, INTEGER, UNKNOWN, Interval, Kind
from dpquery.errors import refusal
from dpquery.functions.quantize import code_between
from dpquery.ir.expr import Code, ColumnRef, Expr, Logic, Nulls, longest_of
from dpquery.ir.relations import (
    Aggregate,
    Output,
    Relation,
    Sorted,
    UnitAggregate,
    WindowColumn,
    Windowed,
    WindowFunction,
)
from dpquery.rowfunctions.ranges import implied, nulls_of
from dpquery.sql.bind.expressions import Conditions
from dpquery.sql.bind.from_clause import Context, derived_ref
from dpquery.sql.bind.scope import Scope, fold, written_name
from dpquery.sql.parse.literals import unwrapped
from dpquery.sql.parse.spans import Spans, outside
from dpquery.sql.postprocess.functions import aggregate_name
from dpquery.sql.suggest.queries import mismatch, with_article

_FUNCTIONS: dict[type[exp.Expr], Aggregate] = {
    exp.Count: Aggregate.COUNT,
    exp.CountIf: Aggregate.COUNT,
    exp.Sum: Aggregate.SUM,
    exp.Avg: Aggregate.AVG,
    exp.Min: Aggregate.MIN,
    exp.Max: Aggregate.MAX,
    exp.LogicalAnd: Aggregate.ALL,
    exp.LogicalOr: Aggregate.ANY,
}


def is_exact_aggregate(node: exp.Expr) -> bool:
    """Return whether a node makes one value of many rows, by a function that is not DP_."""
    aggregate = isinstance(node, exp.AggFunc) or aggregate_name(node) is not None
    return aggregate and not isinstance(node.parent, exp.Window)


@dataclass
class Aggregates:
    """Collects the aggregates of a query per unit; the same one is computed once."""

    context: Context
    rows: Conditions
    source: Relation
    number: int
    found: list[UnitAggregate] = field(default_factory=list)

    def column(self, node: exp.Expr) -> ColumnRef:
        """Return the column of an aggregate."""
        name = f"a{len(self.found)}"
        made = aggregate_of(self.context, (self.source, self.rows), node, name)
        for one in self.found:
            if _same(one, made):
                return aggregate_ref(one, self.number, self.context.spans.of(node))
        self.found.append(made)
        return aggregate_ref(made, self.number, self.context.spans.of(node))


def _same(one: UnitAggregate, other: UnitAggregate) -> bool:
    parts = [(a.function, a.argument, a.condition) for a in (one, other)]
    return parts[0] == parts[1]


def aggregate_ref(one: UnitAggregate, number: int, span: Span) -> ColumnRef:
    """Return the column of an aggregate; what its argument's bounds imply was chosen too."""
    kept = one.function in {Aggregate.MIN, Aggregate.MAX, Aggregate.AVG}
    chosen = implied(one.argument) if kept and one.argument is not None else UNKNOWN
    domain = chosen if chosen.bounded else one.domain
    known = one.argument if kept and isinstance(one.argument, ColumnRef) else None
    longest = 0 if one.argument is None else longest_of(one.argument)
    return ColumnRef(
        span,
        one.name,
        one.type,
        domain,
        chosen.bounded,
        None if known is None else known.grid,
        None,
        longest,
        number,
        known is not None and known.clamped and one.function is not Aggregate.AVG,
        _nulls(one),
    )


def _nulls(one: UnitAggregate) -> Nulls:
    """Return what is known of NULL: nothing is counted as 0, and all else of it is NULL."""
    if one.function in {Aggregate.COUNT, Aggregate.COUNT_DISTINCT}:
        return Nulls.NEVER
    if one.argument is None or one.condition is not None:
        return Nulls.GROUPED
    return nulls_of(one.argument)


def aggregate_of(
    context: Context, source: tuple[Relation, Conditions], node: exp.Expr, name: str
) -> UnitAggregate:
    """Bind one aggregate call over the rows of a unit in a relation.

    Raises:
        RuleRefused: DPQ307 an aggregate that depends on an order, or is not known.
        NameRefused: DPQ208 an argument of another type.
        PlanRefused: DPQ401 a sum of doubles without bounds.
    """
    relation, rows = source
    most = Fraction(context.most_rows(relation))
    counts = Interval(Fraction(0), most)
    condition = None
    if isinstance(node, exp.Filter):
        condition, node = rows.condition(node.expression.this), node.this
    function = next((f for kind, f in _FUNCTIONS.items() if type(node) is kind), None)
    if function is None:
        _refuse_aggregate(context, node)
    inner = node.this
    span = context.spans.of(node)
    if isinstance(inner, exp.Distinct):
        if function is not Aggregate.COUNT or len(inner.expressions) != 1:
            _refuse_aggregate(context, node)
        function, inner = Aggregate.COUNT_DISTINCT, inner.expressions[0]
    if isinstance(node, exp.CountIf):
        met = rows.condition(inner)
        condition = met if condition is None else Logic(span, True, (condition, met))
        inner = exp.Star()
    if isinstance(inner, exp.Star) or inner is None:
        if function is not Aggregate.COUNT:
            _refuse_aggregate(context, node)
        return UnitAggregate(name, function, None, condition, INTEGER, counts)
    if rows.scope.owns(unwrapped(inner)) and not rows.scope.knows(unwrapped(inner).name):
        return UnitAggregate(name, function, None, condition, INTEGER, counts)
    typed = _typed(context, function, rows.bind(inner), name)
    if function in {Aggregate.COUNT, Aggregate.COUNT_DISTINCT}:
        typed = replace(typed, domain=counts)
    if function is Aggregate.SUM:
        typed = replace(typed, domain=_sums(typed.domain, most))
    return replace(typed, condition=condition)


def _typed(context: Context, function: Aggregate, argument: Expr, name: str) -> UnitAggregate:
    """Return an aggregate with its type, and its range if that does not depend on rows."""
    type_, domain = argument.type, argument.domain
    written = context.spans.source.snippet(argument.span)
    match function:
        case Aggregate.COUNT | Aggregate.COUNT_DISTINCT:
            return UnitAggregate(name, function, argument, None, INTEGER)
        case Aggregate.ALL | Aggregate.ANY:
            if type_ != BOOLEAN:
                remedy = f"{written} IS NOT NULL"
                mismatch(argument.span, "a condition is needed", with_article(type_), remedy)
            return UnitAggregate(name, function, argument, None, BOOLEAN)
        case Aggregate.MIN | Aggregate.MAX:
            if type_.kind is Kind.BOOLEAN:
                remedy = f"bool_or({written})"
                mismatch(argument.span, "booleans have no order here", "a boolean", remedy)
            return UnitAggregate(name, function, argument, None, type_, domain)
    if not type_.numeric:
        remedy = f"COUNT({written})"
        mismatch(argument.span, "a number is needed here", with_article(type_), remedy)
    code = None
    if type_.kind is Kind.DOUBLE:
        code = _code(context, argument)
        domain = Interval(code.low * code.grid, code.high * code.grid)
    made = DOUBLE if function is Aggregate.AVG else type_
    return UnitAggregate(name, function, argument, None, made, domain, code)


def _sums(domain: Interval, rows: Fraction) -> Interval:
    """Return the range of a sum of as many values as there can be."""
    if domain.low is None or domain.high is None:
        return domain
    return Interval(min(domain.low, Fraction(0)) * rows, max(domain.high, Fraction(0)) * rows)


def _code(context: Context, argument: Expr) -> Code:
    """Put doubles on a grid: their sum would depend on the order of rows."""
    chosen = implied(argument)
    if not chosen.bounded:
        written = context.spans.source.snippet(argument.span)
        raise refusal(
            "DPQ401",
            f"the sum of {written} per unit has no bounds",
            argument.span,
            "no bounds in the policy",
            (
                "doubles are added up on a grid, because their plain sum depends on the",
                "order of rows; the grid follows from bounds.",
            ),
            f"least(greatest({written}, 0), 1000)",
        )
    return code_between(argument, chosen)


class PerUnitRows(Conditions):
    """Binds what stands in the SELECT list and HAVING of a query per unit."""

    def __init__(
        self,
        scope: Scope,
        spans: Spans,
        keys: Sequence[Output],
        aggregates: Aggregates,
        number: int,
    ) -> None:
        super().__init__(scope, spans, aggregates.context)
        self._keys = keys
        self._aggregates = aggregates
        self._given = number

    def bind(self, node: exp.Expr) -> Expr:
        """Bind an expression over the keys and aggregates of one unit."""
        inner = unwrapped(node)
        call = inner.this if isinstance(inner, exp.Filter) else inner
        if is_exact_aggregate(call):
            return self._aggregates.column(inner)
        if isinstance(inner, exp.Literal | exp.Boolean | exp.Null):
            return super().bind(inner)
        key = self._key(inner)
        if key is not None:
            return key
        if isinstance(inner, exp.Column):
            self._ungrouped(inner)
        return super().bind(inner)

    def _key(self, node: exp.Expr) -> Expr | None:
        """Find a key that an expression is; None where it holds aggregates or is none."""
        if any(is_exact_aggregate(part) for part in node.walk()):
            return None
        if isinstance(node, exp.Column) and not self.scope.knows(node.name):
            return None
        return self._as_key(self._aggregates.rows.bind(node))

    def _as_key(self, bound: Expr) -> Expr | None:
        for key in self._keys:
            if key.expr == bound:
                return replace(derived_ref(key, self._given), span=bound.span)
        return None

    def grouped(self, name: str, expr: Expr, span: Span) -> Expr:
        """Return a column that a star stands for: a key.

        Raises:
            RuleRefused: DPQ307 it is none.
        """
        return self._as_key(expr) or self._refuse_ungrouped(written_name(name), span)

    def _ungrouped(self, node: exp.Column) -> NoReturn:
        self.scope.reference(node, self.spans.of(node))
        self._refuse_ungrouped(self.spans.text(node), self.spans.of(node))

    def _refuse_ungrouped(self, name: str, span: Span) -> NoReturn:
        raise refusal(
            "DPQ307",
            f"{name} has no one value per group",
            span,
            "not in GROUP BY",
            "which of a unit's rows gave its value would be chance.",
            f"max({name})",
        )


def _instead(context: Context, node: exp.Expr) -> str:
    """Write an aggregate that is computed, of the same argument."""
    named = isinstance(node, exp.Anonymous)
    inner = next(iter(node.expressions), None) if named else node.this
    if not isinstance(inner, exp.Expr) or isinstance(inner, exp.Star | exp.Distinct):
        return "COUNT(*)"
    spread = str(aggregate_name(node)).startswith(("STD", "VAR"))
    return f"{'AVG' if spread else 'MIN'}({context.spans.text(inner)})"


def _refuse_aggregate(context: Context, node: exp.Expr) -> NoReturn:
    span = context.spans.of(node)
    text = context.spans.source.snippet(span)[:40]
    if is_exact_aggregate(node):
        raise refusal(
            "DPQ307",
            f"{text} is not computed per unit",
            span,
            "depends on an order, or on floating sums",
            (
                "per unit there are COUNT, COUNT(DISTINCT x), SUM, AVG, MIN, MAX, BOOL_AND",
                "and BOOL_OR: these are the same whatever the order of a unit's rows.",
            ),
            _instead(context, node),
        )
    raise outside(text, span, "not understood", "COUNT(*)")


# Window functions over the rows of one unit: numbers, neighbours and totals of its own
# rows.
#
# PARTITION BY has to name the unit; an ORDER BY is completed by every column in use, so
# that what a row gets depends on the rows of its unit and not on where they stand in a
# file.


_WINDOW_FUNCTIONS: dict[type[exp.Expr], WindowFunction] = {
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
            raise outside(
                self.context.spans.text(call)[:40],
                self.context.spans.of(call),
                "not understood",
                f"{call.key}({self.context.spans.text(call.this)}, 1)",
            )
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
            raise outside("ntile of this", span, label, "ntile(4)")
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
        raise refusal(
            "DPQ307",
            "a window over private rows has to be within one unit",
            self.context.spans.of(node),
            f"not PARTITION BY {unit}" if unit else "each row is a unit of its own here",
            "one unit's rows would change what the rows of another one get.",
            self._by_unit(node, unit) if unit else "leave the window out",
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
        raise refusal(
            "DPQ307",
            "an aggregate over a part of a unit's ordered rows is not computed",
            self.context.spans.of(node),
            "ordered, or with a frame",
            (
                "aggregates are over all rows of a part; row_number, rank, dense_rank,",
                "ntile, lag and lead take an order.",
            ),
            self._unordered(node),
        )


def _function(call: exp.Expr) -> WindowFunction | None:
    if isinstance(call, exp.Anonymous) and str(call.this).upper() == "NTILE":
        return WindowFunction.NTILE
    return _WINDOW_FUNCTIONS.get(type(call))


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
