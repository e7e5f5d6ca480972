"""What stands by place in a DP_ call: points to count values up to, columns in brackets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from sqlglot import expressions as exp

from dpquery.errors import QueryRefused, refusal
from dpquery.functions.base import DPFunction, Expression
from dpquery.functions.distributions.points_argument import Points
from dpquery.functions.example_bounds import example_values
from dpquery.ir.expr import Compare, Expr, Literal, Widen
from dpquery.sql.bind.rows.row_expressions import Conditions
from dpquery.sql.parse.literals import read_literal, unwrapped
from dpquery.sql.suggest.sample_queries import sample_call

Mended = Callable[[str], str]
"""From another text for what stands in brackets to the whole call."""


def bind_points(
    name: str,
    taken: Points,
    rows: Conditions,
    first: exp.Expr,
    node: exp.Expr,
    mended: Mended,
) -> tuple[Expr, ...]:
    """Bind whether a row is at or below each of the values that are listed, which rise.

    Raises:
        NameRefused: DPQ205 they do not rise, DPQ207 no list of literals, DPQ208 or DPQ210
            values of another kind than what is asked about.
    """
    whole, span, texts = unwrapped(node), rows.spans.of(node), rows.spans.text
    values, remedy = whole.expressions, mended(some_points(taken, rows, first))
    why = "the list is read from the text, before anything is computed."
    if not isinstance(whole, exp.Array) or not 1 <= len(values) <= taken.most:
        number = ", or a number" if taken.counted else ""
        title = f"{name} takes a list of 1 to {taken.most} {taken.noun}{number}"
        raise refusal("DPQ207", title, span, "not such a list", why, remedy)
    if any(read_literal(unwrapped(value), span) is None for value in values):
        title = f"the {taken.noun} of {name} are literals"
        raise refusal("DPQ207", title, span, "not all are", why, remedy)
    try:
        below = [exp.LTE(this=first.copy(), expression=value.copy()) for value in values]
        bound = tuple(map(rows.condition, below))
    except QueryRefused as refused:
        title = f"the {taken.noun} of {name} are values of what it is asked about"
        why = "each of them is compared with the value of a row."
        raise refusal(refused.code, title, span, "of another kind", why, remedy) from None
    ends = [end for end in map(_end, bound) if end is not None]
    if len(ends) < len(bound) or any(a >= b for a, b in pairwise(ends)):
        if len(ends) == len(bound):
            written = dict(zip(ends, map(texts, values), strict=True))
            remedy = mended(f"[{', '.join(written[one] for one in sorted(written))}]")
        title = f"the {taken.noun} of {name} must rise"
        why = "each stretch ends where the next one begins."
        raise refusal("DPQ205", title, span, "these do not", why, remedy)
    return bound


def _end(condition: Expr) -> Any:
    """Return the literal that a row is compared with; None where it is none."""
    end = condition.right if isinstance(condition, Compare) else condition
    end = end.operand if isinstance(end, Widen) else end
    return end.value if isinstance(end, Literal) else None


def some_points(taken: Points, rows: Conditions, first: exp.Expr) -> str:
    """Write points that fit what is asked about."""
    try:
        type_ = rows.bind(first).type
    except QueryRefused:
        return taken.example
    return taken.example if type_.numeric else f"[{example_values(type_)}]"


def listed_in(
    function: DPFunction, about: Expression, rows: Conditions, node: exp.Expr, mended: Mended
) -> Sequence[exp.Expr]:
    """Return the expressions of a list in brackets.

    Raises:
        NameRefused: DPQ205 it has too many, DPQ208 there is no such list.
    """
    whole, span, texts = unwrapped(node), rows.spans.of(node), rows.spans.text
    name = function.name
    if not isinstance(whole, exp.Array) or not whole.expressions:
        title = f"{name} takes a list of expressions in brackets"
        remedy = mended(f"[{texts(node)}]")
        if isinstance(whole, exp.Array | exp.Star):
            remedy = sample_call(function, rows.scope.table)
        why = "it is asked about any number of them, which stand together."
        raise refusal("DPQ208", title, span, "not a list", why, remedy)
    if len(whole.expressions) > about.listed:
        title = f"{name} takes a list of 1 to {about.listed} expressions"
        few = ", ".join(map(texts, whole.expressions[: about.listed]))
        label, why = f"{len(whole.expressions)} of them", "each of them adds noise to all."
        raise refusal("DPQ205", title, span, label, why, mended(f"[{few}]"))
    return list(whole.expressions)


def is_number(node: exp.Expr) -> bool:
    """Return whether a number stands there."""
    return isinstance(node, exp.Literal) and not node.is_string
