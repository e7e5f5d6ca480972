"""The rules of differential privacy, one function each: what passes here may reach the data.

A rule looks at the bound tree and the policy, and refuses or stays silent. The tree already
cannot say what would break unit-locality; the rules add what depends on values: that no
expression can fail on a row (I12), and what bounds one unit's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from dpquery.core.source_text import Source, Span
from dpquery.core.types import DECIMAL_DIGITS, INTEGER, WIDEST_EXACT, Interval, Kind, Type
from dpquery.errors import QueryRefused, Worded, advice, refusal
from dpquery.functions.base import MAX_ROWS_OF_TABLE
from dpquery.ir.expr import (
    Apply,
    Arithmetic,
    ColumnRef,
    Expr,
    Literal,
    Negate,
    Widen,
    children,
    columns_of,
)
from dpquery.ir.query import Bound, Checked, Frontier
from dpquery.ir.relations import (
    Aggregate,
    PerUnit,
    Relation,
    UnitAggregate,
    Windowed,
    expressions_of,
    walk,
)
from dpquery.ir.walk import expressions_in
from dpquery.policy.model import Policy
from dpquery.rowfunctions.base import CALENDAR
from dpquery.sql.contribution_bounds import contribution
from dpquery.sql.size_limits import (
    MOST_COPIES,
    MOST_MADE,
    every_scan_is_small,
    require_few,
    require_narrow,
)

LONGEST_TEXT = 1024
"""Characters of a computed text, unless a column that it is made of may have more."""
MOST_ROWS_OF_UNIT = MAX_ROWS_OF_TABLE * MOST_COPIES + MOST_MADE
"""Of any relation that is not refused for its size."""
_MOVED = frozenset({"DATE_ADD", "DAYS_ON"})
_OR_BOUNDS = Worded(
    "or ask the data owner for bounds",
    "or --bounds COLUMN=LOW:HIGH for the whole session",
)
_TOO_LONG = "and the bounds of these columns allow results of more than 37 digits."
_OF_ROW = "an error that depends on one row would tell whether that row exists,"


def check(bound: Bound, policy: Policy) -> Checked:
    """Apply every rule to every frontier, and state what bounds a unit's rows there.

    Raises:
        RuleRefused: DPQ305 an expression cannot be computed for every row.
        PlanRefused: DPQ406 a scan is too large by plan.
    """
    require_few(bound.frontiers)
    for frontier in bound.frontiers:
        for rule in RULES:
            rule(frontier, bound.source)
        require_narrow(frontier, policy)
    checked = tuple(
        (frontier, contribution(frontier.relation, policy)) for frontier in bound.frontiers
    )
    return Checked(bound.source, checked, bound.above, bound.constants, bound.understood)


def every_expression_is_total(frontier: Frontier, source: Source) -> None:
    """Refuse arithmetic whose exact result might not fit the engine's widest numbers.

    Doubles never fail: they reach infinity, and what is no number becomes NULL. Integers and
    decimals are exact, so their public range has to fit.
    """
    for expr in _expressions(frontier):
        exact = isinstance(expr, Arithmetic | Negate | Widen | Literal | Apply)
        if exact and not _holds(expr.domain, expr.type):
            if expr.type.listed:
                few = advice("ask for a value of fewer places, or a double: 5e-1")
                title, allowed = "this list has no room for so many places", _TOO_LONG
                raise _partial(expr.span, title, "too large for some values", allowed, few)
            doubles = _with_columns(expr, source, lambda _, text: f"(1e0 * {text})")
            said = "this computes" if doubles else "multiply columns by 1e0: compute"
            raise _partial(
                expr.span,
                "this arithmetic can overflow",
                "too large for some values",
                _TOO_LONG,
                *filter(None, [doubles]),
                f"{said} in doubles",
            )


def _partial(span: Span, title: str, label: str, allowed: str, *remedy: str) -> QueryRefused:
    """Return the refusal of what would fail on some values that the bounds allow."""
    return refusal("DPQ305", title, span, label, (_OF_ROW, allowed), (*remedy, _OR_BOUNDS))


def _cut_first(expr: Apply, longest: int, source: Source) -> str | None:
    """Write a text with its columns cut to as much as it has room for; None without any."""
    columns = [ref for ref in columns_of(expr).values() if ref.type.kind is Kind.TEXT]
    if not columns:
        return None
    share = Fraction(longest, 2 * expr.longest)
    cut = max(1, min(20, int(max(ref.longest for ref in columns) * share)))

    def shortened(column: ColumnRef, text: str) -> str:
        return f"LEFT({text}, {cut})" if column.type.kind is Kind.TEXT else text

    return _with_columns(expr, source, shortened)


def _with_columns(
    expr: Expr, source: Source, write: Callable[[ColumnRef, str], str]
) -> str | None:
    """Write an expression with something else in place of each of its columns.

    None where some of them are written elsewhere: a name stands for what a subquery computes.
    """
    columns = {one.span: one for one in _inside(expr) if isinstance(one, ColumnRef)}
    if any(expr.span | span != expr.span for span in columns):
        return None
    text, end = "", expr.span.start
    for span in sorted(columns, key=lambda span: span.start):
        text += source.text[end : span.start] + write(columns[span], source.snippet(span))
        end = span.end
    return text + source.text[end : expr.span.end]


def _holds(domain: Interval, type_: Type) -> bool:
    """Return whether the engine's widest number of a type holds every value of a range."""
    if type_.kind not in {Kind.INTEGER, Kind.DECIMAL}:
        return True
    low, high = domain.low, domain.high
    if low is None or high is None:
        return False
    size = max(abs(low), abs(high))
    if type_.kind is Kind.INTEGER:
        return size < WIDEST_EXACT
    scale = type_.scale
    return scale < DECIMAL_DIGITS and size * 10**scale < Fraction(10) ** (DECIMAL_DIGITS - 1)


def every_sum_of_a_unit_fits(frontier: Frontier, source: Source) -> None:
    """Refuse sums of one unit's rows that might not fit the engine's widest numbers.

    A mean is a sum that is divided. All rows of a table may be one unit's, as often as one row
    may be there, and so may all that joins make.
    """
    for one in _aggregates(frontier.relation):
        if one.function not in {Aggregate.SUM, Aggregate.AVG} or one.argument is None:
            continue
        domain, type_ = one.argument.domain, one.argument.type
        if one.code is not None:
            domain, type_ = Interval(Fraction(one.code.low), Fraction(one.code.high)), INTEGER
        if not _holds(domain * Interval.point(MOST_ROWS_OF_UNIT), type_):
            why = (
                "an error that depends on one unit would tell whether it is there,",
                "and the bounds of these columns allow sums of more than 37 digits.",
            )
            remedy = (f"LEAST({source.snippet(one.argument.span)}, 1000)", _OR_BOUNDS)
            label = "too large for some values"
            raise refusal(
                "DPQ305", "this sum can overflow", one.argument.span, label, why, remedy
            )


def _aggregates(relation: Relation) -> Iterator[UnitAggregate]:
    """Return the aggregates per unit, those of windows too."""
    for node in walk(relation):
        match node:
            case PerUnit(aggregates=aggregates):
                yield from aggregates
            case Windowed(columns=columns):
                yield from (one.aggregate for one in columns if one.aggregate is not None)


def every_moment_has_a_calendar(frontier: Frontier, _: Source) -> None:
    """Refuse moments that may be moved past the years of the calendar."""
    for expr in _expressions(frontier):
        require_calendar(expr)


def require_calendar(expr: Expr) -> None:
    """Refuse a moment that may be moved past the years of the calendar.

    Binding asks this of each expression as it is made: what is computed from ranges of moments,
    there and later, takes years 1 to 9999 for granted.

    Raises:
        RuleRefused: DPQ305.
    """
    if isinstance(expr, Apply) and expr.function in _MOVED and not _dated(expr):
        raise _partial(
            expr.span,
            "this moment can lie outside the calendar",
            "before year 1, or after year 9999, for some values",
            "and the bounds of these columns allow moments without a calendar.",
            advice("move by less"),
        )


def _dated(expr: Apply) -> bool:
    low, high = CALENDAR[expr.type.kind].low, CALENDAR[expr.type.kind].high
    assert low is not None  # noqa: S101 - the calendar has both ends
    assert high is not None  # noqa: S101
    return expr.domain.within(int(low), int(high))


def every_text_is_short(frontier: Frontier, source: Source) -> None:
    """Refuse texts that may grow past what the engine is asked to carry for each row."""
    for expr in _expressions(frontier):
        if not isinstance(expr, Apply) or expr.longest <= LONGEST_TEXT:
            continue
        longest = max([LONGEST_TEXT, *(ref.longest for ref in columns_of(expr).values())])
        if expr.longest > longest:
            cut = _cut_first(expr, longest, source)
            why = (
                "the time that a row takes would tell how long its texts are,",
                f"so this one has at most {longest} characters.",
            )
            raise refusal(
                "DPQ305",
                "this text can grow too long",
                expr.span,
                f"up to {expr.longest} characters",
                why,
                (*filter(None, [cut]), "join fewer texts, or cut them first"),
            )


def _expressions(frontier: Frontier) -> Iterator[Expr]:
    """Return every expression over rows, inner ones included, left to right."""
    for root in expressions_in((frontier.calls, frontier.keys)):
        yield from _inside(root)
    for node in reversed(list(walk(frontier.relation))):
        for expr in expressions_of(node):
            yield from _inside(expr)


def _inside(root: Expr) -> Iterator[Expr]:
    pending = [root]
    while pending:
        expr = pending.pop()
        yield expr
        pending.extend(reversed(children(expr)))


RULES: tuple[Callable[[Frontier, Source], None], ...] = (
    every_expression_is_total,
    every_sum_of_a_unit_fits,
    every_moment_has_a_calendar,
    every_text_is_short,
    every_scan_is_small,
)
