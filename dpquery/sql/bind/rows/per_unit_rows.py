"""Aggregates of one unit's rows: order-free, exact, and each with a public range.

What is computed per unit is a column like any other; only what the query around it releases
costs anything. So a count here is the unit's true count, and the DP_ function around it states
where it clamps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.core.types import BOOLEAN, DOUBLE, INTEGER, UNKNOWN, Interval, Kind, Type
from dpquery.errors import advice, refusal
from dpquery.functions.quantize import code_between
from dpquery.ir.expr import Code, ColumnRef, Expr, Literal, Logic, Nulls, columns_of, longest_of
from dpquery.ir.relations import (
    Aggregate,
    Output,
    PerUnit,
    Relation,
    Sorted,
    UnitAggregate,
    WindowColumn,
    Windowed,
    WindowFunction,
    walk,
)
from dpquery.rowfunctions import apply
from dpquery.rowfunctions.analysis.nulls import nulls_of
from dpquery.rowfunctions.analysis.ranges import implied
from dpquery.sql.bind.from_clause import Context, Private, derived_ref
from dpquery.sql.bind.joins.join_keys import enough, keys_at
from dpquery.sql.bind.rows.row_expressions import Conditions
from dpquery.sql.bind.scope import Scope, fold, is_query, written_name
from dpquery.sql.parse.literals import read_digits, unwrapped
from dpquery.sql.parse.spans import outside
from dpquery.sql.postprocess.builtin_functions import aggregate_name
from dpquery.sql.suggest.type_mismatches import mismatch, with_article

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


class PerUnitRows(Conditions):
    """Binds what stands in the SELECT list and HAVING of a query per unit."""

    def __init__(self, context: Context, rows: Private, span: Span) -> None:
        super().__init__(rows.scope, context.spans, context)
        self.context = context
        self.source = rows.relation
        self.span = span
        self.base = Conditions(rows.scope, context.spans, context)
        """Binds what stands inside aggregates, and the keys."""
        self.number = context.numbers()
        self._keys: dict[Expr, Output] = {}
        self._units: set[str] = set()
        """The names of the keys that are the unit."""
        self._found: list[UnitAggregate] = []

    def group(self, node: exp.Expr) -> None:
        """Bind a grouping expression; one that is written twice is one column."""
        expr = self.base.bind(node)
        key = self._keys.setdefault(expr, Output(f"x{len(self._keys)}", expr))
        if self.scope.owns(unwrapped(node)) or self._is_part(unwrapped(node), expr):
            self._units.add(key.name)

    def _is_part(self, node: exp.Expr, expr: Expr) -> bool:
        """Return whether a key is a part of the unit, and so the same in all rows of a unit.

        Where it can be missing, as after an outer join, it is that, or NULL.
        """
        held = keys_at(node, Private(self.source, self.scope), self.context.policy)
        return nulls_of(expr) is Nulls.NEVER and any(not one.table for one in held)

    @property
    def relation(self) -> PerUnit:
        """The rows, one for each unit and the other keys, with all aggregates bound so far."""
        keys, found = tuple(self._keys.values()), tuple(self._found)
        units = frozenset(self._units)
        return PerUnit(self.span, self.source, self.number, keys, found, units)

    def bind(self, node: exp.Expr) -> Expr:
        """Bind an expression over the keys and aggregates of one unit."""
        inner = unwrapped(node)
        call = inner.this if isinstance(inner, exp.Filter) else inner
        if is_exact_aggregate(call):
            return self._aggregate(inner)
        if isinstance(inner, exp.Literal | exp.Boolean | exp.Null):
            return super().bind(inner)
        value = self.scope.values.get(self.spans.of(inner))
        if value is not None:
            return self._of_unit(value, inner)
        key = self._key(inner)
        if key is None and isinstance(inner, exp.Column):
            span = self.spans.of(inner)
            self.scope.reference(inner, span)
            _refuse_ungrouped(self.spans.text(inner), span)
        return key or super().bind(inner)

    def _aggregate(self, node: exp.Expr) -> Expr:
        """Return an aggregate of the rows of a unit."""
        return self._column(node)

    def _column(self, node: exp.Expr) -> ColumnRef:
        """Return the column of an aggregate; the same one is computed once."""
        name, span = f"a{len(self._found)}", self.spans.of(node)
        made = aggregate_of(self.context, self.source, self.base, node, name)
        same = [one for one in self._found if replace(one, name=name) == made]
        self._found += [] if same else [made]
        return aggregate_ref(same[0] if same else made, self.number, span)

    def _of_unit(self, value: Expr, node: exp.Expr) -> Expr:
        """Return what a subquery says of a unit: one that is the same for all of its rows."""
        once = {n.number for n in walk(self.source) if isinstance(n, PerUnit) and not n.keys}
        if {of for of, _ in columns_of(value)} <= once:
            key = self._keys.setdefault(value, Output(f"x{len(self._keys)}", value))
            self._units.add(key.name)
        truth = value.type.kind is Kind.BOOLEAN
        function = "bool_or" if truth else "max"
        return self._as_key(value) or _refuse_ungrouped(
            self.spans.text(node), self.spans.of(node), function
        )

    def _key(self, node: exp.Expr) -> Expr | None:
        """Find a key that an expression is; None where it holds aggregates or is none."""
        inside = node.walk(prune=is_query)
        if any(map(is_exact_aggregate, inside)):
            return None
        if isinstance(node, exp.Column) and not self.scope.knows(node.name):
            return None
        return self._as_key(self.base.bind(node))

    def _as_key(self, bound: Expr) -> Expr | None:
        key = self._keys.get(bound)
        return None if key is None else replace(derived_ref(key, self.number), span=bound.span)

    def shown(self, name: str, expr: Expr, span: Span) -> Expr:
        """Return a column that a star stands for: a key."""
        return self._as_key(expr) or _refuse_ungrouped(written_name(name), span)


class LookedUp(PerUnitRows):
    """Binds the one value of a subquery for each unit, and for each combination of its keys.

    Where a row looks for a combination that there is not, a count is 0 and all else NULL.
    """

    def __init__(
        self, context: Context, rows: Private, span: Span, keys: Sequence[Output]
    ) -> None:
        super().__init__(context, rows, span)
        self._fixed = tuple(keys)

    @property
    def relation(self) -> PerUnit:
        """One row for each unit and combination of the keys, with all that was bound."""
        return PerUnit(self.span, self.source, self.number, self._fixed, tuple(self._found))

    def value(self, node: exp.Expr) -> Expr:
        """Bind the value; of a relation with one row of a unit, it is that of this row."""
        if any(map(is_exact_aggregate, node.walk(prune=is_query))):
            return self.bind(node)
        if not self.context.extent(self.source).single:
            _refuse_ungrouped(self.spans.text(node), self.spans.of(node))
        truth = self.base.bind(node).type.kind is Kind.BOOLEAN
        return self.bind((exp.LogicalOr if truth else exp.Max)(this=node.copy()))

    def _aggregate(self, node: exp.Expr) -> Expr:
        found = replace(self._column(node), nulls=Nulls.GROUPED)
        made = next(one for one in self._found if one.name == found.name)
        if made.function not in {Aggregate.COUNT, Aggregate.COUNT_DISTINCT}:
            return found
        return apply(found.span, "COALESCE", found, Literal(found.span, 0, INTEGER))


def _refuse_ungrouped(name: str, span: Span, function: str = "max") -> NoReturn:
    title = f"{name} must be in GROUP BY or in an aggregate"
    why = "which of a unit's rows gave its value would be chance."
    raise refusal("DPQ307", title, span, "not in GROUP BY", why, f"{function}({name})")


def aggregate_ref(one: UnitAggregate, number: int, span: Span) -> ColumnRef:
    """Return the column of an aggregate; what its argument's bounds imply was chosen too."""
    nulls = _nulls(one)
    longest = 0 if one.argument is None else longest_of(one.argument)
    plain = ColumnRef(
        span, one.name, one.type, one.domain, longest=longest, of=number, nulls=nulls
    )
    within = one.function in {Aggregate.MIN, Aggregate.MAX, Aggregate.AVG}
    if not within or one.argument is None:
        return plain
    known = derived_ref(Output(one.name, one.argument), number)
    return replace(
        plain,
        domain=known.domain if known.bounded else one.domain,
        bounded=known.bounded,
        grid=known.grid,
        clamped=known.clamped and one.function is not Aggregate.AVG,
    )


def _nulls(one: UnitAggregate) -> Nulls:
    """Return what is known of NULL: nothing is counted as 0, and all else of it is NULL."""
    if one.function in {Aggregate.COUNT, Aggregate.COUNT_DISTINCT}:
        return Nulls.NEVER
    if one.argument is None or one.condition is not None:
        return Nulls.GROUPED
    return nulls_of(one.argument)


def aggregate_of(
    context: Context, source: Relation, rows: Conditions, node: exp.Expr, name: str
) -> UnitAggregate:
    """Bind one aggregate call over the rows of a unit in a relation.

    Raises:
        RuleRefused: DPQ307 an aggregate that depends on an order, or is not known.
        NameRefused: DPQ208 an argument of another type.
        PlanRefused: DPQ401 a sum of doubles without bounds.
    """
    most, condition = Fraction(context.most_rows(source)), None
    if isinstance(node, exp.Filter):
        condition, node = rows.condition(node.expression.this), node.this
    function, inner = _FUNCTIONS.get(type(node)), node.this
    if aggregate_name(node) == "ANY_VALUE" and len(node.expressions) == 1:
        function, inner = Aggregate.MIN, node.expressions[0]  # one that no order decides
    if isinstance(inner, exp.Distinct):
        counted = function is Aggregate.COUNT and len(inner.expressions) == 1
        function = Aggregate.COUNT_DISTINCT if counted else None
        inner = inner.expressions[0]
    if isinstance(node, exp.CountIf):
        met = rows.condition(inner)
        span = context.spans.of(node)
        condition = met if condition is None else Logic(span, True, (condition, met))
        inner = exp.Star()
    whole = isinstance(inner, exp.Star) or inner is None
    if function is None or (whole and function is not Aggregate.COUNT):
        _refuse_aggregate(context, node)
    owned = not whole and rows.scope.owns(unwrapped(inner))
    if whole or (owned and not rows.scope.knows(unwrapped(inner).name)):
        counts = Interval(Fraction(0), most)
        return UnitAggregate(name, function, None, condition, INTEGER, counts)
    argument = rows.bind(inner)
    type_, domain, code = _typed(context, function, argument, most)
    return UnitAggregate(name, function, argument, condition, type_, domain, code)


def _typed(
    context: Context, function: Aggregate, argument: Expr, most: Fraction
) -> tuple[Type, Interval, Code | None]:
    """Return the type of an aggregate, its range, and the grid of a sum of doubles."""
    type_, domain, span = argument.type, argument.domain, argument.span
    named, written = with_article(type_), context.spans.source.snippet(span)
    match function:
        case Aggregate.COUNT | Aggregate.COUNT_DISTINCT:
            return INTEGER, Interval(Fraction(0), most), None
        case Aggregate.ALL | Aggregate.ANY:
            if type_ != BOOLEAN:
                mismatch(span, "a condition is needed", named, f"{written} IS NOT NULL")
            return BOOLEAN, UNKNOWN, None
        case Aggregate.MIN | Aggregate.MAX:
            if type_.kind is Kind.BOOLEAN:
                mismatch(span, "booleans have no order here", named, f"bool_or({written})")
            return type_, domain, None
    if not type_.numeric:
        mismatch(span, "a number is needed here", named, f"COUNT({written})")
    code = None
    if type_.kind is Kind.DOUBLE:
        code = _code(context, argument)
        domain = Interval(code.low * code.grid, code.high * code.grid)
    if function is Aggregate.AVG:
        return DOUBLE, domain, code
    return type_, _sums(domain, most), code


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
        title = f"the sum of {written} per unit has no bounds"
        why = (
            "doubles are added up on a grid, because their plain sum depends on the",
            "order of rows; the grid follows from bounds.",
        )
        remedy = f"least(greatest({written}, 0), 1000)"
        raise refusal("DPQ401", title, argument.span, "no bounds in the policy", why, remedy)
    return code_between(argument, chosen)


def _instead(context: Context, node: exp.Expr) -> str:
    """Write an aggregate that is computed, about the same values."""
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
        title = f"{text} is not computed per unit"
        label = "depends on an order, or on floating sums"
        why = (
            "per unit there are COUNT, COUNT(DISTINCT x), SUM, AVG, MIN, MAX, BOOL_AND",
            "and BOOL_OR: these are the same whatever the order of a unit's rows.",
        )
        raise refusal("DPQ307", title, span, label, why, _instead(context, node))
    raise outside(text, span, "not understood", "COUNT(*)")


# Window functions over the rows of one unit: numbers, neighbours and totals of its own rows.
#
# PARTITION BY has to name the unit; an ORDER BY is completed by every column in use, so that
# what a row gets depends on the rows of its unit and not on where they stand in a file.


_WINDOW_FUNCTIONS: dict[type[exp.Expr], WindowFunction] = {
    exp.RowNumber: WindowFunction.ROW_NUMBER,
    exp.Rank: WindowFunction.RANK,
    exp.DenseRank: WindowFunction.DENSE_RANK,
    exp.Lag: WindowFunction.LAG,
    exp.Lead: WindowFunction.LEAD,
}
_FURTHEST = 1000
_ANY = re.IGNORECASE | re.DOTALL


class WindowRows(Conditions):
    """Binds expressions over private rows, in which windows may stand."""

    def __init__(self, context: Context, rows: Private) -> None:
        super().__init__(rows.scope, context.spans, context)
        self.context = context
        self.source = rows.relation
        self.span = Span(0, 0)
        self.number: int | None = None
        self.found: list[WindowColumn] = []

    def bind(self, node: exp.Expr) -> Expr:
        """Bind an expression; a window is a column that is computed before it."""
        inner = unwrapped(node)
        return self._column(inner) if isinstance(inner, exp.Window) else super().bind(inner)

    @property
    def relation(self) -> Relation:
        """The rows with the columns of all windows that were bound."""
        if not self.found or self.number is None:
            return self.source
        return Windowed(self.span, self.source, self.number, tuple(self.found))

    def shown(self, name: str, expr: Expr, span: Span) -> Expr:
        """Return a column that a star stands for."""
        return expr

    def _column(self, node: exp.Window) -> ColumnRef:
        """Bind a window and give its column."""
        span = self.spans.of(node)
        rows = Conditions(self.scope, self.spans, self.context)
        keys = node.args.get("partition_by") or []
        others = [key for key in keys if not self.scope.owns(unwrapped(key))]
        whole, policy = Private(self.source, self.scope), self.context.policy
        tied = enough(*(keys_at(unwrapped(key), whole, policy) for key in others))
        if len(others) == len(keys) and not tied:
            self._refuse_partition(node)
        if node.args.get("spec") is not None:
            self._refuse_frame(node)
        bound = tuple(map(rows.bind, others))
        if self.number is None:
            self.number, self.span = self.context.numbers(), span
        made = self._made(node, rows, bound)
        self.found.append(made)
        if made.aggregate is not None:
            return aggregate_ref(made.aggregate, self.number, span)
        argument = made.argument
        known = argument if isinstance(argument, ColumnRef) else None
        bucket = made.function is WindowFunction.NTILE
        return ColumnRef(
            span,
            made.name,
            made.type,
            made.domain,
            bounded=bucket or (known is not None and known.bounded),
            longest=0 if argument is None else longest_of(argument),
            of=self.number,
            clamped=known is not None and known.clamped,
            nulls=Nulls.NEVER if argument is None else Nulls.GROUPED,
        )

    def _made(self, node: exp.Window, rows: Conditions, keys: tuple[Expr, ...]) -> WindowColumn:
        name, call = f"w{len(self.found)}", node.this
        order = tuple(
            Sorted(
                rows.bind(key.this), *(bool(key.args.get(s)) for s in ("desc", "nulls_first"))
            )
            for key in (node.args["order"].expressions if node.args.get("order") else ())
        )
        if isinstance(call, exp.Anonymous) and str(call.this).upper() == "NTILE":
            tiles = self._tiles(call)
            ends, function = Interval(Fraction(1), Fraction(tiles)), WindowFunction.NTILE
            return WindowColumn(name, function, None, keys, order, tiles, INTEGER, ends)
        if type(call) not in _WINDOW_FUNCTIONS:
            if order:
                self._refuse_frame(node)
            one = aggregate_of(self.context, self.source, rows, call, name)
            function = WindowFunction.AGGREGATE
            return WindowColumn(name, function, None, keys, (), 0, one.type, one.domain, one)
        function = _WINDOW_FUNCTIONS[type(call)]
        if not isinstance(call, exp.Lag | exp.Lead):
            ends = Interval(Fraction(1), Fraction(self.context.most_rows(self.source)))
            return WindowColumn(name, function, None, keys, order, 0, INTEGER, ends)
        argument = rows.bind(call.this)
        offset = call.args.get("offset")
        steps = 1 if offset is None else _steps(offset)
        if call.args.get("default") is not None or steps is None:
            word, span = self.spans.text(call)[:40], self.spans.of(call)
            remedy = f"{call.key}({self.spans.text(call.this)}, 1)"
            raise outside(word, span, "not understood", remedy)
        type_, domain = argument.type, argument.domain
        return WindowColumn(name, function, argument, keys, order, steps, type_, domain)

    def _tiles(self, call: exp.Expr) -> int:
        """Read how many buckets NTILE makes of the rows of a unit."""
        given = call.expressions
        tiles = _steps(given[0]) if len(given) == 1 else None
        if not tiles:
            span = self.spans.of(given[0] if given else call)
            label = f"a literal from 1 to {_FURTHEST} is needed"
            raise outside("NTILE by this", span, label, "ntile(4)")
        return tiles

    def _refuse_partition(self, node: exp.Window) -> NoReturn:
        unit, span = self.scope.table.unit, self.spans.of(node)
        remedy = advice("leave the window out")
        if unit is not None:
            name = written_name(unit)
            by = f"{name}, " if node.args.get("partition_by") else f"PARTITION BY {name} "
            before, text = r"(OVER\s*\(\s*(?:PARTITION\s+BY\s+)?)", self.spans.text(node)
            remedy = re.sub(before, rf"\g<1>{by}", text, flags=re.I).replace(" )", ")")
        title = "a window over private rows has to be within one unit"
        label = f"not PARTITION BY {unit}" if unit else "each row is a unit of its own here"
        why = "one unit's rows would change what the rows of another one get."
        raise refusal("DPQ307", title, span, label, why, remedy)

    def _refuse_frame(self, node: exp.Window) -> NoReturn:
        span, call = self.spans.of(node), self.spans.text(node.this)
        text = re.sub(
            r"\s*\b(?:ROWS|RANGE|GROUPS)\s.*\)$", ")", self.spans.text(node), flags=_ANY
        )
        why = (
            "aggregates are over all rows of a part; row_number, rank, dense_rank,",
            "ntile, lag and lead take an order.",
        )
        if type(node.this) in _FUNCTIONS:
            title = "an aggregate over a part of a unit's ordered rows is not computed"
            text = re.sub(r"\s*\bORDER\s+BY\b.*\)$", ")", text, flags=_ANY)
        else:
            title = f"{call[:40]} is not computed over the rows of a unit"
            known = type(node.this) in _WINDOW_FUNCTIONS
            text = text if known else text.replace(call, "rank()", 1)
        raise refusal("DPQ307", title, span, "ordered, or with a frame", why, text)


def _steps(node: exp.Expr) -> int | None:
    number = isinstance(node, exp.Literal) and not node.is_string
    steps = read_digits(node.name) if number else None
    return None if steps is None or steps > _FURTHEST else steps


class WrittenOut:
    """The names that items of a SELECT list give, with what they stand for.

    What an item names may itself hold names of items before it: the sizes of expressions are
    looked at where they are bound. A column goes before a name of an item.
    """

    def __init__(self, scope: Scope, items: Sequence[exp.Expr] = ()) -> None:
        self.scope = scope
        self._aliased: dict[str, exp.Expr] = {}
        for item in items:
            self.note(item)

    def note(self, item: exp.Expr) -> None:
        """Take in the next item."""
        if isinstance(item, exp.Alias) and not self.scope.knows(item.alias):
            self._aliased[fold(item.alias)] = self.whole(item.this)

    def whole(self, node: exp.Expr) -> exp.Expr:
        """Return an expression with these names written out; itself, if it has none."""
        if not any(map(self._names, node.find_all(exp.Column))):
            return node
        return node.copy().transform(self._written)

    def _names(self, node: exp.Expr) -> bool:
        plain = isinstance(node, exp.Column) and not node.table
        return plain and fold(node.name) in self._aliased and not self.scope.owns(node)

    def _written(self, node: exp.Expr) -> exp.Expr:
        if not self._names(node):
            return node
        return exp.Paren(this=self._aliased[fold(node.name)].copy())
