"""DP_INTERVAL_LOW and DP_INTERVAL_HIGH: how far noise may have taken a released value.

A column that shows a release unchanged knows it, and the number of the row that a value comes
from. The ends of the interval stand in the released table as hidden columns, so that they are
found by that number: through joins, windows and sorting, wherever the value itself goes.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpquery.errors import refusal
from dpquery.ir.query import IntervalEnd
from dpquery.sql.bind.call_options import read_number_between
from dpquery.sql.bind.scope import fold, is_call
from dpquery.sql.parse.literals import unwrapped
from dpquery.sql.postprocess.sql_fragments import Value
from dpquery.sql.suggest.sample_queries import COUNT, query_of_policy

if TYPE_CHECKING:
    from dpquery.sql.postprocess.expressions import Expressions

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
