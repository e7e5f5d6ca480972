"""Binds expressions below the frontier: sqlglot's nodes end here, ours begin.

What has no case here is refused: an expression over private rows must be row-level,
deterministic and total, and each node that is accepted was shown to be so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import isfinite
from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpquery import rowfunctions
from dpquery.core.source_text import Span
from dpquery.core.types import DATE, INTEGER, TEXT, Interval, Kind
from dpquery.errors import refusal
from dpquery.ir.expr import (
    Comparison,
    Expr,
    In,
    IsNull,
    Literal,
    Logic,
    Not,
    Operator,
    Scalar,
    columns_of,
)
from dpquery.ir.walk import constants_in
from dpquery.rowfunctions.analysis.conditions import facts_of
from dpquery.rowfunctions.analysis.key_domains import is_exact, values_of
from dpquery.rowfunctions.analysis.ranges import implied
from dpquery.rowfunctions.base import RowFunction, scalar
from dpquery.rowfunctions.evaluate import evaluate
from dpquery.sql.bind.rows.conditions_on_lists import among_list, in_list, is_true
from dpquery.sql.bind.rows.expression_sizes import Sizes
from dpquery.sql.bind.rows.typed_expressions import (
    Remedy,
    arithmetic,
    at_time_zone,
    bound_call,
    called,
    case,
    cast_as,
    compare,
    distinct_from,
    extracted,
    member,
    moved,
    negate,
    nothing,
    target,
    unknown_function,
)
from dpquery.sql.bind.scope import (
    Member,
    Scope,
    fold,
    inside,
    is_call,
    is_interval_end,
    written_name,
)
from dpquery.sql.parse.literals import chain, conjuncts, read_literal, unwrapped
from dpquery.sql.parse.spans import Spans, outside
from dpquery.sql.parse.token_coverage import ARITHMETIC, COMPARISONS
from dpquery.sql.parse.unnest import list_of
from dpquery.sql.postprocess.builtin_functions import aggregate_name
from dpquery.sql.privacy_rules import require_calendar
from dpquery.sql.suggest.sample_queries import (
    COUNT,
    query_about,
    sample_condition,
    without_condition,
)
from dpquery.sql.suggest.type_mismatches import as_compared, mismatch, no_null, number_of

if TYPE_CHECKING:
    from dpquery.sql.bind.from_clause import Context
    from dpquery.sql.epsilon_shares import Shares

_ORDERED = (exp.GT, exp.GTE, exp.LT, exp.LTE)
_PATTERNS: dict[type[exp.Expr], str] = {
    exp.Like: "LIKE",
    exp.ILike: "ILIKE",
    exp.SimilarTo: "REGEXP_FULL_MATCH",
    exp.RegexpLike: "REGEXP_MATCHES",
}


class Conditions:
    """Binds expressions over the rows of private relations."""

    def __init__(self, scope: Scope, spans: Spans, subqueries: Context | None = None) -> None:
        self.scope = scope
        self.spans = spans
        self._subqueries = subqueries
        self.shares: Shares | None = None
        """What calls have that state no epsilon, where the statement has one."""
        """What gives the values of subqueries; None where they are refused."""
        self.where: Expr | None = None
        """What WHERE says of all rows, once it is bound."""
        self._sizes = Sizes()

    def implied(self, argument: Expr, condition: Expr | None) -> Interval:
        """Return the range of an argument in the rows that WHERE, and a FILTER, let through."""
        return implied(argument, facts_of(self.where, condition))

    def listed(self, argument: Expr, condition: Expr | None) -> tuple[Scalar, ...]:
        """Return the values of an argument as GROUP BY would know them there, without NULL.

        Of numbers and days in a range nobody says each; none are given.
        """
        facts = facts_of(self.where, condition)
        if argument not in facts.values and argument.type.kind is not Kind.TEXT:
            return ()
        values = values_of(argument, facts) or ()
        return tuple(value for value in values if value is not None)

    def condition(self, node: exp.Expr) -> Expr:
        """Bind an expression that must be true or false.

        Raises:
            NameRefused: DPQ201 or DPQ204 an unknown name, DPQ202 an unknown function, DPQ207 no
                literal in a list, DPQ208 types that differ, DPQ210 an unreadable literal.
            RuleRefused: DPQ303 a DP_ function inside.
            SyntaxRefused: DPQ102 an operator that rows do not have.
        """
        bound = self.bind(node)
        if bound.type.kind is not Kind.BOOLEAN:
            number = bound.type.numeric and not isinstance(bound, Literal)
            may_be_zero = number and bound.domain.meets(Interval.point(0))
            test = "<> 0" if may_be_zero else "IS NOT NULL"
            remedy = f"{self.spans.source.snippet(bound.span)} {test}"
            label = f"{bound.type.kind} here"
            mismatch(bound.span, "a condition must be true or false", label, remedy)
        return bound

    def bind(self, node: exp.Expr) -> Expr:
        """Bind any expression over rows."""
        bound = self._sizes.check(self._bound(node))
        require_calendar(bound)
        return bound

    def _bound(self, node: exp.Expr) -> Expr:
        node = unwrapped(node)
        span = self.spans.of(node)
        literal = read_literal(node, span, self.scope.table.zone)
        if literal is not None:
            return literal
        if isinstance(node, exp.Exists | exp.In | exp.Subquery) and span in self.scope.values:
            return self.scope.values[span]
        kind = type(node)
        if kind in COMPARISONS:
            return self._compared(span, Comparison(COMPARISONS[kind]), *self._both(node))
        if kind in ARITHMETIC:
            return self._operation(node, Operator(ARITHMETIC[kind]), span)
        match node:
            case exp.Column(this=exp.Identifier()):
                return self.scope.reference(node, span)
            case exp.And() | exp.Or():
                conditions = tuple(map(self.condition, chain(node)))
                return Logic(span, isinstance(node, exp.And), conditions)
            case exp.Not():
                return Not(span, self.condition(node.this))
            case exp.Neg():
                operand = self.bind(node.this)
                return negate(span, operand, self._number(operand))
            case exp.Is(expression=exp.Null()):
                return IsNull(span, self.bind(node.this))
            case exp.Between():
                return self._between(node, span)
            case exp.In() | exp.Exists():
                return self._in(node, span)
        return self._formed(node, span)

    def _formed(self, node: exp.Expr, span: Span) -> Expr:
        """Bind a row function, by its name or by the words that the language has for it."""
        match node:
            case exp.Subquery() if self._subqueries is not None:
                return self._subqueries.constant(node)
            case exp.Case():
                return self._case(node, span)
            case exp.If():
                pair = (self.condition(node.this), self._value(node.args["true"]))
                return case(span, [pair], self._otherwise(node.args.get("false")))
            case exp.Like() | exp.ILike() | exp.SimilarTo() | exp.RegexpLike():
                function = rowfunctions.named(_PATTERNS[type(node)])
                found = bound_call(span, function, self._both(node))
                return Not(span, found) if node.args.get("negate") else found
            case exp.DPipe():
                return bound_call(span, rowfunctions.named("JOIN"), self._both(node))
            case exp.NullSafeEQ() | exp.NullSafeNEQ():
                left, right = self._value(node.this), self._value(node.expression)
                meant = self._meant(span, Comparison.EQ, left, right)
                differ = distinct_from(span, left, right, meant)
                return differ if isinstance(node, exp.NullSafeNEQ) else Not(span, differ)
            case exp.Is(expression=exp.Boolean(this=wanted)):
                truth = self.condition(node.this)
                return is_true(span, truth if wanted else Not(span, truth))
            case exp.Extract():
                where = self.spans.of(node.this)
                return extracted(span, node.this.name, where, self.bind(node.expression))
            case exp.AtTimeZone() | exp.Cast() if made := self._cast(node, span):
                return made
            case exp.Anonymous(expressions=[exp.Literal(is_string=True) as unit, value]) if (
                fold(str(node.this)) == "date_part"
            ):
                return extracted(span, unit.name, self.spans.of(unit), self.bind(value))
        name, arguments = called(node)
        row_function = rowfunctions.find(name)
        if row_function is None:
            self._refuse(node, span)
        return self._called(row_function, arguments, span)

    def _cast(self, node: exp.Cast | exp.AtTimeZone, span: Span) -> Expr | None:
        """Bind a conversion; None where there is none of such a name."""
        zone = self.scope.table.zone
        if isinstance(node, exp.AtTimeZone):
            return at_time_zone(span, self.bind(node.this), self.bind(node.args["zone"]), zone)
        type_ = target(node)
        if type_ is None:
            return None
        if type_.kind is Kind.TIMESTAMPTZ:
            type_ = replace(type_, zone=zone)
        return cast_as(span, self._value(node.this), node, type_)

    def _called(self, function: RowFunction, arguments: Sequence[exp.Expr], span: Span) -> Expr:
        named = unwrapped(arguments[0]) if arguments else None
        listed = None if named is None else self.scope.list_named(named, self.spans.of(named))
        if listed is not None and function.name == "LIST_CONTAINS" and len(arguments) == 2:
            return in_list(span, listed, self._value(arguments[1]), self)
        if listed is not None and function.name == "LENGTH" and len(arguments) == 1:
            return rowfunctions.apply(span, "LIST_LENGTH", listed)
        if function.name == "DATE_ADD" and len(arguments) == 2:
            interval = unwrapped(arguments[1])
            if isinstance(interval, exp.Interval):
                at = self.spans.of(interval)
                return moved(span, self.bind(arguments[0]), Operator.ADD, interval, at)
        return bound_call(span, function, list(map(self._value, arguments)))

    def _value(self, node: exp.Expr) -> Expr:
        """Bind a value that may be NULL itself."""
        inner = unwrapped(node)
        return nothing(self.spans.of(inner)) if isinstance(inner, exp.Null) else self.bind(node)

    def _both(self, node: exp.Expr) -> list[Expr]:
        return [self.bind(node.this), self.bind(node.expression)]

    def _case(self, node: exp.Case, span: Span) -> Expr:
        """Bind CASE; with a value after the word, each WHEN is compared with it."""
        pairs = []
        value = None if node.this is None else self.bind(node.this)
        for branch in node.args["ifs"]:
            if value is None:
                condition = self.condition(branch.this)
            else:
                at, when = self.spans.of(branch.this), self.bind(branch.this)
                condition = self._compared(at, Comparison.EQ, value, when)
            pairs.append((condition, self._value(branch.args["true"])))
        return case(span, pairs, self._otherwise(node.args.get("default")))

    def _otherwise(self, node: exp.Expr | None) -> Expr | None:
        return None if node is None else self._value(node)

    def _operation(self, node: exp.Expr, operator: Operator, span: Span) -> Expr:
        """Bind arithmetic: of numbers, or of a moment and what it is moved by."""
        left = self.bind(node.this)
        other = unwrapped(node.expression)
        additive = operator in {Operator.ADD, Operator.SUBTRACT}
        if isinstance(other, exp.Interval) and additive:
            return moved(span, left, operator, other, self.spans.of(other))
        right = self.bind(node.expression)
        if additive and left.type == DATE:
            return self._days(span, operator, left, right)
        moments = {Kind.TIMESTAMP, Kind.TIMESTAMPTZ}
        if operator is Operator.SUBTRACT and left.type.kind is right.type.kind in moments:
            self._refuse_duration(node, left, right, span)
        return arithmetic(span, operator, left, right, self._integer(operator, left, right))

    def _refuse_duration(self, node: exp.Expr, left: Expr, right: Expr, span: Span) -> NoReturn:
        """Refuse the time between two moments, which is a number of some unit here."""
        around, unit = node.parent, "hour"
        if around is not None and self.spans.text(around).upper().startswith("EPOCH"):
            span, unit = self.spans.of(around), "second"
        texts = (self.spans.source.snippet(one.span) for one in (right, left))
        remedy = f"DATE_DIFF('{unit}', {', '.join(texts)})"
        why = ("the time between two moments is a number of units, and which is to be said.",)
        mismatch(span, "- needs numbers", "the time between two moments", remedy, why)

    def _days(self, span: Span, operator: Operator, left: Expr, right: Expr) -> Expr:
        """Bind a date and a number of days, or the days between two dates."""
        if operator is Operator.SUBTRACT and right.type == DATE:
            unit = Literal(span, "day", TEXT)
            return rowfunctions.apply(span, "DATE_DIFF", unit, right, left)
        if operator is Operator.SUBTRACT and right.type.kind is Kind.INTEGER:
            right = negate(right.span, right, self._number(right))
        return bound_call(span, rowfunctions.named("DAYS_ON"), [left, right])

    def _compared(self, span: Span, operator: Comparison, left: Expr, right: Expr) -> Expr:
        return compare(span, operator, left, right, self._meant(span, operator, left, right))

    def _meant(self, span: Span, operator: Comparison | None, *exprs: Expr) -> Remedy:
        return lambda: as_compared(self.spans.source, span, operator, exprs)

    def _integer(self, operator: Operator, *operands: Expr) -> Remedy:
        """Offer a number where one is needed, or a whole one: of what was written."""
        other = next((one for one in operands if not one.type.numeric), None)
        found = next((one for one in operands if one.type != INTEGER), operands[0])
        if other is not None or operator not in {Operator.QUOTIENT, Operator.REMAINDER}:
            return self._number(other or found)
        if isinstance(found, Literal) and isinstance(found.value, int | Fraction):
            number = str(round(found.value))
            return lambda: number
        return lambda: f"CAST({self.spans.source.snippet(found.span)} AS INTEGER)"

    def _number(self, operand: Expr) -> Remedy:
        """Offer what of a value is a number."""
        written = self.spans.source.snippet(operand.span)
        text = operand.value if isinstance(operand, Literal) else None
        return lambda: number_of(operand.type.kind, written, text)

    def equal(self, span: Span, left: Expr, right: Expr) -> Expr:
        """Equate two values, as USING does."""
        return compare(span, Comparison.EQ, left, right, self._meant(span, None, left, right))

    def _between(self, node: exp.Between, span: Span) -> Expr:
        value = self.bind(node.this)
        if value.type.kind is Kind.BOOLEAN:  # it would stand in two comparisons, and double
            remedy = self._meant(span, Comparison.EQ, value)()
            mismatch(value.span, "BETWEEN needs values in an order", "a boolean", remedy)
        low, high = self.bind(node.args["low"]), self.bind(node.args["high"])
        meant = self._meant(span, None, value, low, high)
        above = compare(span, Comparison.GE, value, low, meant)
        return Logic(span, True, (above, compare(span, Comparison.LE, value, high, meant)))

    def _in(self, node: exp.In | exp.Exists, span: Span) -> Expr:
        if list_of(node) is not None:
            return among_list(self, node, span)
        if isinstance(node, exp.Exists):
            return self._formed(node, span)
        query = node.args.get("query")
        if query is not None:
            if self._subqueries is None:
                raise outside("a subquery", self.spans.of(query), "not understood", "IN (1, 2)")
            operand, released = self.bind(node.this), self._subqueries.members(query)
            if released is not None:
                some, options = released
                equal = tuple(self.equal(span, operand, one) for one in options)
                among = equal[0] if len(equal) == 1 else Logic(span, False, equal)
                return Logic(span, True, (some, among))
            found = self._subqueries.values(query)
            if not found:  # of no values, none is equal
                zero, one = Literal(span, 0, INTEGER), Literal(span, 1, INTEGER)
                return compare(span, Comparison.EQ, zero, one, lambda: "FALSE")
            return member(span, operand, found, self._meant(span, None, operand, *found))
        if isinstance(node.this, exp.Tuple):
            return self._rows_in(node, span)
        given = [one for one in node.expressions if not isinstance(unwrapped(one), exp.Null)]
        if isinstance(node.parent, exp.Not) or not given:
            given = node.expressions  # of which NULL is refused: nothing would be true
        among = self._among(node, span, list(map(self.bind, given)))
        holds_null = len(given) < len(node.expressions)
        return Logic(span, False, (among, nothing(span))) if holds_null else among

    def _among(self, node: exp.In, span: Span, options: list[Expr]) -> In:
        """Ask whether a value is one of several literals, computed where they have to be."""
        options = [_computed(option) for option in options]
        literals = [option for option in options if isinstance(option, Literal)]
        if len(literals) < len(options):
            value = self.spans.text(node.this)
            equal = (f"{value} = {self.spans.text(option)}" for option in node.expressions)
            other = next(one.span for one in options if not isinstance(one, Literal))
            title = "the values after IN must be literals"
            why = "the list is the analyst's own knowledge, not a part of the data."
            raise refusal("DPQ207", title, other, "not a literal", why, " OR ".join(equal))
        operand = self.bind(node.this)
        return self.among(span, operand, literals)

    def among(self, span: Span, operand: Expr, literals: Sequence[Literal]) -> In:
        """Ask whether a value is one of several literals."""
        meant = self._meant(span, None, operand, *literals)
        return member(span, operand, list(literals), meant)

    def beside(self, alias: str, values: Mapping[str, Expr]) -> Conditions:
        """Return what binds conditions of the same rows with some more values."""
        names = inside(Scope((Member(alias, dict(values)),), self.scope.table), self.scope)
        return Conditions(names, self.spans, self._subqueries)

    def require_size(self, expr: Expr, copies: int) -> None:
        """Refuse an expression that is too large, where it stands so many times."""
        self._sizes.check(expr, copies)

    def _rows_in(self, node: exp.In, span: Span) -> Expr:
        """Bind `(a, b) IN ((1, 'x'), ...)`: each row of values, part by part."""
        rows = []
        for row in map(unwrapped, node.expressions):
            pairs = paired(node.this, row, self.spans)
            equal = tuple(self.equal(span, self.bind(a), self.bind(b)) for a, b in pairs)
            rows.append(equal[0] if len(equal) == 1 else Logic(span, True, equal))
        return rows[0] if len(rows) == 1 else Logic(span, False, tuple(rows))

    def _refuse(self, node: exp.Expr, span: Span) -> NoReturn:
        if isinstance(node, exp.Null):
            self._refuse_null(node, span)
        if isinstance(node, exp.Func | exp.Filter):
            self._refuse_function(node)
        if isinstance(node, exp.Window):
            self._refuse_window(node, span)
        word = node.sql(dialect="duckdb")[:40]
        if isinstance(node, exp.Bracket):
            word = "an index in brackets"
        raise outside(word, span, "not understood", self._sample())

    def _refuse_window(self, node: exp.Window, span: Span) -> NoReturn:
        """Refuse a window beside DP_ functions, or in a condition; offer where quarters end."""
        order, asked = node.args.get("order"), self._sample()
        first = order.expressions[0].this if order is not None else None
        if isinstance(first, exp.Column):
            expr, text = self.bind(first), self.spans.text(first)
            if expr.type.numeric and implied(expr).bounded:
                call = f"DP_QUANTILE({text}, [0.25, 0.5, 0.75], eps=0.5)"
                asked = query_about(self.scope.table, call)
        title = "a window here would compare rows of several units"
        why = "one unit's rows would change what the rows of another one get."
        raise refusal("DPQ307", title, span, "computed from all the rows", why, asked)

    def _sample(self) -> str:
        """Write a query that asks about some of the rows."""
        table = self.scope.table
        return f"{query_about(table, COUNT)} WHERE {sample_condition(table)}"

    def _refuse_null(self, node: exp.Null, span: Span) -> NoReturn:
        """Refuse a comparison with NULL; IS NULL asks what it was meant to ask."""
        around = node.parent
        while isinstance(around, exp.Paren):
            around = around.parent
        if isinstance(around, exp.In) and unwrapped(around.this) is not node:
            others = [one for one in around.expressions if not isinstance(one, exp.Null)]
            if others:
                whole, listed = self.spans.of(around), self.spans.of(around.expressions[0])
                before = self.spans.source.text[whole.start : listed.start]
                mended = f"{before}{', '.join(map(self.spans.text, others))})"
                no_null(whole, "with NULL in its list, true of no row", mended)
        if isinstance(around, (*_ORDERED, exp.EQ, exp.NEQ, exp.In)):
            swapped = unwrapped(around.this) is node and not isinstance(around, exp.In)
            value = around.expression if swapped else around.this
            test = "IS NULL" if isinstance(around, exp.EQ | exp.In) else "IS NOT NULL"
            remedy, whole = f"{self.spans.text(value)} {test}", self.spans.of(around)
            if isinstance(unwrapped(value), exp.Null):
                remedy = without_condition(self.spans.source, whole)
            no_null(whole, f"use {test}", remedy)
        first = written_name(next(iter(self.scope.table.columns)))
        clause = isinstance(around, exp.Where | exp.Filter | exp.And | exp.Or | exp.Not)
        if clause:
            title = "NULL is not true, so no row would be kept"
            why = "a condition keeps the rows for which it is true; NULL is so for none."
            remedy = without_condition(self.spans.source, span)
            raise refusal("DPQ208", title, span, "not a condition", why, remedy)
        if isinstance(around, exp.Between) and unwrapped(around.this) is not node:
            first = self.spans.text(around.this)  # whose own value is no bound on it
        no_null(span, "not a value", first)

    def _refuse_function(self, node: exp.Func | exp.Filter) -> NoReturn:
        call = node.this if isinstance(node, exp.Filter) else node
        span = self.spans.name(call)
        written = self.spans.source.snippet(span)
        name = str(call.this) if isinstance(call, exp.Anonymous) else written
        if is_call(call) or is_interval_end(call):
            title = f"{name.upper()} cannot stand here"
            label = "among the rows that results are computed from"
            why = "it speaks of all rows at once, so it stands in the SELECT list."
            remedy = query_about(self.scope.table, COUNT)
            raise refusal("DPQ303", title, span, label, why, remedy)
        summed = isinstance(call, exp.AggFunc) or aggregate_name(call) is not None
        if summed and not isinstance(call, exp.Grouping | exp.GroupingId):
            self._refuse_aggregate(call, name)
        unknown_function(name, span, self.spans.text(call), self._sample())

    def _refuse_aggregate(self, call: exp.Func, name: str) -> NoReturn:
        """Refuse an exact aggregate among rows; offer it per unit, in a subquery."""
        table, remedy = self.scope.table, query_about(self.scope.table, COUNT)
        made, around = self.spans.text(call), call.find_ancestor(exp.Anonymous)
        if table.unit is not None and len(self.scope.members) == 1:
            inner = query_about(table, f"{made} AS s", groups=[table.unit])
            asked = "DP_AVG(s, eps=0.5)"
            if around is not None and is_call(around):
                asked = self.spans.text(around).replace(made, "s")
            asked = asked if "bounds" in asked else f"{asked[:-1]}, bounds=[0, 1000])"
            remedy = f"SELECT {asked} FROM ({inner})"
        title, label = (
            f"{name.upper()} is an aggregate: not allowed here",
            "an aggregate of rows",
        )
        why = (
            "a DP_ function is asked about rows;",
            "what is made of all rows of a unit is one row in a subquery per unit.",
        )
        raise refusal("DPQ202", title, self.spans.name(call), label, why, remedy)


def _computed(expr: Expr) -> Expr:
    """Return what an expression without columns is, as a literal; itself, where it is none."""
    constant = not columns_of(expr) and next(constants_in(expr), None) is None
    if isinstance(expr, Literal) or not constant or not is_exact(expr):
        return expr
    value = scalar(evaluate(expr, {}), expr.type)
    if isinstance(value, float):
        value = Fraction(value) if isfinite(value) else None
    return expr if value is None else Literal(expr.span, value, expr.type)


def paired(left: exp.Tuple, right: exp.Expr, spans: Spans) -> list[tuple[exp.Expr, exp.Expr]]:
    """Return the values of two rows side by side.

    Raises:
        NameRefused: DPQ208 they have not as many.
    """
    sides, values = left.expressions, right.expressions if isinstance(right, exp.Tuple) else []
    if len(sides) != len(values):
        title = f"a row of {len(sides)} values is compared with another"
        label = f"{len(values)} values" if values else "not a row"
        remedy = f"{spans.text(left)} IN (({', '.join(map(spans.text, sides))}))"
        if len(values) > len(sides):
            remedy = f"({', '.join(map(spans.text, values[: len(sides)]))})"
        mismatch(spans.of(right), title, label, remedy)
    return list(zip(sides, values, strict=True))


def operand(node: exp.Expr, spans: Spans) -> str:
    """Return the text of a condition as it stands beside AND: OR in brackets."""
    inner = unwrapped(node)
    return f"({spans.text(inner)})" if isinstance(inner, exp.Or) else spans.text(inner)


def equated_always(conditions: Sequence[exp.Expr]) -> list[exp.Expr]:
    """Return equalities of two columns that follow from an OR among some conditions.

    They stand in each of its branches: where it is true, one branch is, and they are.
    """
    found: list[exp.Expr] = []
    for node in conditions:
        if isinstance(node, exp.Or):
            first, *others = (_equated(conjuncts(branch)) for branch in chain(node))
            found += [one for pair, one in first.items() if all(pair in o for o in others)]
    return found


def _equated(conditions: Sequence[exp.Expr]) -> dict[frozenset[tuple[str, str]], exp.Expr]:
    """Return the equalities of two columns among conditions, by the names of both."""
    found: dict[frozenset[tuple[str, str]], exp.Expr] = {}
    for node in (*conditions, *equated_always(conditions)):
        if isinstance(node, exp.EQ):
            sides = [unwrapped(side) for side in (node.this, node.expression)]
            names = {(fold(s.table), fold(s.name)) for s in sides if isinstance(s, exp.Column)}
            if all(isinstance(side, exp.Column) for side in sides):
                found[frozenset(names)] = node
    return found
