"""The rules of differential privacy, one function each: what passes here may reach the data.

A rule looks at the bound tree and the policy, and refuses or stays silent. The tree already
cannot say what would break unit-locality; the rules add what depends on values: that no
expression can fail on a row (I12), and what bounds one unit's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

from dpquery.errors import Diagnostic, RuleRefused
from dpquery.ir import (
    Apply,
    Arithmetic,
    Bound,
    Checked,
    Contribution,
    Expr,
    Filter,
    Frontier,
    Literal,
    Negate,
    Relation,
    TableScan,
    Widen,
    children,
    table_of,
)
from dpquery.policy.model import Policy
from dpquery.rowfunctions.base import CALENDAR
from dpquery.types import DECIMAL_DIGITS, WIDEST_EXACT, Kind

__all__ = ["RULES", "check"]

LONGEST_TEXT = 2**16
_MOVED = frozenset({"DATE_ADD", "DAYS_ON"})


def check(bound: Bound, policy: Policy) -> Checked:
    """Apply every rule to every frontier, and state what bounds a unit's rows there.

    Raises:
        RuleRefused: DPQ305 an expression cannot be computed for every row.
    """
    for frontier in bound.frontiers:
        for rule in RULES:
            rule(frontier)
    checked = tuple((frontier, _contribution(frontier, policy)) for frontier in bound.frontiers)
    return Checked(bound.source, checked, bound.above)


def _contribution(frontier: Frontier, policy: Policy) -> Contribution:
    """Read the bound from the policy: never from the file."""
    table = policy.tables[table_of(frontier.relation).table]
    return Contribution(table.unit, table.single, table.max_rows_contributed)


def every_expression_is_total(frontier: Frontier) -> None:
    """Refuse arithmetic whose exact result might not fit the engine's widest numbers.

    Doubles never fail: they reach infinity, and what is no number becomes NULL. Integers and
    decimals are exact, so their public range has to fit.
    """
    for expr in _expressions(frontier):
        if isinstance(expr, Arithmetic | Negate | Widen | Literal | Apply) and not _fits(expr):
            raise RuleRefused(
                Diagnostic(
                    "DPQ305",
                    "this arithmetic can overflow",
                    expr.span,
                    "too large for some values",
                    (
                        "an error that depends on one row would tell whether that row exists,",
                        "and the bounds of these columns allow results of more than 37 digits.",
                    ),
                    (
                        "multiply by 1e0 to compute in doubles",
                        "or ask the data owner for bounds on the columns",
                    ),
                )
            )


def _fits(expr: Arithmetic | Negate | Widen | Literal | Apply) -> bool:
    if expr.type.kind is Kind.DOUBLE or not expr.type.numeric:
        return True
    low, high = expr.domain.low, expr.domain.high
    if low is None or high is None:
        return False
    size = max(abs(low), abs(high))
    if expr.type.kind is Kind.INTEGER:
        return size < WIDEST_EXACT
    scale = expr.type.scale
    return scale < DECIMAL_DIGITS and size * 10**scale < Fraction(10) ** (DECIMAL_DIGITS - 1)


def every_moment_has_a_calendar(frontier: Frontier) -> None:
    """Refuse moments that may be moved past the years of the calendar."""
    for expr in _expressions(frontier):
        if isinstance(expr, Apply) and expr.function in _MOVED and not _dated(expr):
            raise RuleRefused(
                Diagnostic(
                    "DPQ305",
                    "this moment can lie outside the calendar",
                    expr.span,
                    "before year 1, or after year 9999, for some values",
                    (
                        "an error that depends on one row would tell whether that row exists,",
                        "and the bounds of these columns allow moments without a calendar.",
                    ),
                    (
                        "move by less",
                        "or ask the data owner for bounds on the columns",
                    ),
                )
            )


def _dated(expr: Apply) -> bool:
    low, high = CALENDAR[expr.type.kind].low, CALENDAR[expr.type.kind].high
    assert low is not None  # noqa: S101 - the calendar has both ends
    assert high is not None  # noqa: S101
    return expr.domain.within(int(low), int(high))


def every_text_is_short(frontier: Frontier) -> None:
    """Refuse texts that may grow past what the engine is asked to carry for each row."""
    for expr in _expressions(frontier):
        if isinstance(expr, Apply) and expr.longest > LONGEST_TEXT:
            raise RuleRefused(
                Diagnostic(
                    "DPQ305",
                    "this text can grow too long",
                    expr.span,
                    f"up to {expr.longest} characters",
                    (
                        "the time that a row takes would tell how long its texts are,",
                        f"so a text has at most {LONGEST_TEXT} characters.",
                    ),
                    ("LEFT(dept, 20)", "join fewer texts, or cut them first"),
                )
            )


def _expressions(frontier: Frontier) -> Iterator[Expr]:
    """Give every expression over rows, inner ones included, left to right."""
    for call in frontier.calls:
        for root in (call.argument, call.condition):
            if root is not None:
                yield from _inside(root)
    for key in frontier.keys:
        yield from _inside(key.expr)
    yield from _of_relation(frontier.relation)


def _of_relation(relation: Relation) -> Iterator[Expr]:
    match relation:
        case TableScan():
            return
        case Filter(source=source, condition=condition):
            yield from _of_relation(source)
            yield from _inside(condition)


def _inside(root: Expr) -> Iterator[Expr]:
    pending = [root]
    while pending:
        expr = pending.pop()
        yield expr
        pending.extend(reversed(children(expr)))


RULES: tuple[Callable[[Frontier], None], ...] = (
    every_expression_is_total,
    every_moment_has_a_calendar,
    every_text_is_short,
)
