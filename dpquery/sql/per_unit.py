"""Aggregates of one unit's rows: order-free, exact, and each with a public range.

What is computed per unit is a column like any other; only what the query around it releases
costs anything. So a count here is the unit's true count, and the DP_ function around it states
where it clamps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, PlanRefused, RuleRefused, SyntaxRefused
from dpquery.expr import Code, ColumnRef, Expr, Logic, Nulls, longest_of
from dpquery.functions.codes import code_between
from dpquery.relations import Aggregate, Output, Relation, UnitAggregate
from dpquery.rowfunctions.nulls import nulls_of
from dpquery.rowfunctions.ranges import implied
from dpquery.source import Span
from dpquery.sql.above.aggregates import aggregate_name
from dpquery.sql.conditions import Conditions
from dpquery.sql.literals import unwrapped
from dpquery.sql.mending import outside
from dpquery.sql.mismatches import mismatch, with_article
from dpquery.sql.names import Scope, written_name
from dpquery.sql.sources import Context, derived_ref
from dpquery.sql.spans import Spans
from dpquery.types import BOOLEAN, DOUBLE, INTEGER, UNKNOWN, Interval, Kind

__all__ = ["Aggregates", "PerUnitRows", "aggregate_of", "is_exact_aggregate"]

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
    """Say whether a node makes one value of many rows, by a function that is not DP_."""
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
        """Give the column of an aggregate."""
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
    """Give the column of an aggregate; what its argument's bounds imply was chosen too."""
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
    """Give the range of a sum of as many values as there can be."""
    if domain.low is None or domain.high is None:
        return domain
    return Interval(min(domain.low, Fraction(0)) * rows, max(domain.high, Fraction(0)) * rows)


def _code(context: Context, argument: Expr) -> Code:
    """Put doubles on a grid: their sum would depend on the order of rows."""
    chosen = implied(argument)
    if not chosen.bounded:
        written = context.spans.source.snippet(argument.span)
        raise PlanRefused(
            Diagnostic(
                "DPQ401",
                f"the sum of {written} per unit has no bounds",
                argument.span,
                "no bounds in the policy",
                (
                    "doubles are added up on a grid, because their plain sum depends on the",
                    "order of rows; the grid follows from bounds.",
                ),
                (f"least(greatest({written}, 0), 1000)",),
            )
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
        """Give a column that a star stands for: a key.

        Raises:
            RuleRefused: DPQ307 it is none.
        """
        return self._as_key(expr) or self._refuse_ungrouped(written_name(name), span)

    def _ungrouped(self, node: exp.Column) -> NoReturn:
        self.scope.reference(node, self.spans.of(node))
        self._refuse_ungrouped(self.spans.text(node), self.spans.of(node))

    def _refuse_ungrouped(self, name: str, span: Span) -> NoReturn:
        raise RuleRefused(
            Diagnostic(
                "DPQ307",
                f"{name} has no one value per group",
                span,
                "not in GROUP BY",
                ("which of a unit's rows gave its value would be chance.",),
                (f"max({name})",),
            )
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
        raise RuleRefused(
            Diagnostic(
                "DPQ307",
                f"{text} is not computed per unit",
                span,
                "depends on an order, or on floating sums",
                (
                    "per unit there are COUNT, COUNT(DISTINCT x), SUM, AVG, MIN, MAX, BOOL_AND",
                    "and BOOL_OR: these are the same whatever the order of a unit's rows.",
                ),
                (_instead(context, node),),
            )
        )
    raise SyntaxRefused(outside(text, span, "not understood", "COUNT(*)"))
