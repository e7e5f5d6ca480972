"""GROUPING SETS, ROLLUP and CUBE: which groupings one GROUP BY asks for.

Each grouping is a frontier of its own, and they share what every call may spend: the eps that
is written stays the whole price of the call.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, NameRefused, SyntaxRefused
from dpquery.ir import Call
from dpquery.privacy import EPSILON_MIN, decimal_text, root_above
from dpquery.sql.literals import unwrapped
from dpquery.sql.mending import outside
from dpquery.sql.spans import Spans

__all__ = ["groupings_in", "refuse_sets", "shared"]

MOST_SETS = 64
LEAST_DELTA = Fraction(1, 10**30)
_SETS = exp.Rollup | exp.Cube | exp.GroupingSets
_Sets = list[list[exp.Expr]]


def groupings_in(group: exp.Group, spans: Spans) -> _Sets:
    """Give the groupings, each as its expressions; what stands beside sets is in all of them.

    Raises:
        SyntaxRefused: DPQ105 there are too many.
    """
    found: _Sets = [[]]
    for node in group.expressions:
        more = _sets(node, spans)
        _require_few(len(found) * len(more), node, spans)
        found = [[*one, *other] for one in found for other in more]
    return found


def refuse_sets(group: exp.Group, spans: Spans) -> None:
    """Refuse several groupings of rows that stay private.

    Raises:
        SyntaxRefused: DPQ102.
    """
    if not any(isinstance(node, _SETS) for node in group.expressions):
        return
    first = groupings_in(group, spans)[0]
    remedy = f"GROUP BY {', '.join(dict.fromkeys(map(spans.text, first)))}"
    span = spans.word("ROLLUP", "CUBE", "GROUPING SETS") or spans.of(group)
    word = spans.source.snippet(span).upper()
    label = "several groupings of rows that stay private"
    raise SyntaxRefused(outside(f"{word} per unit", span, label, remedy))


def _sets(node: exp.Expr, spans: Spans) -> _Sets:
    if not isinstance(node, _SETS):
        return [[node]]
    if isinstance(node, exp.GroupingSets):
        return [one for part in node.expressions for one in _listed(part, spans)]
    members = [_members(part) for part in node.expressions]
    rolled = isinstance(node, exp.Rollup)
    _require_few(len(members) + 1 if rolled else 2 ** len(members), node, spans)
    chosen = _prefixes(len(members)) if rolled else _subsets(len(members))
    return [[part for at in places for part in members[at]] for places in chosen]


def _listed(part: exp.Expr, spans: Spans) -> _Sets:
    """Give the sets that an item of GROUPING SETS stands for."""
    return _sets(part, spans) if isinstance(part, _SETS) else [_members(part)]


def _members(node: exp.Expr) -> list[exp.Expr]:
    return list(node.expressions) if isinstance(node, exp.Tuple) else [unwrapped(node)]


def _prefixes(count: int) -> Iterator[range]:
    return (range(length) for length in range(count, -1, -1))


def _subsets(count: int) -> Iterator[list[int]]:
    """Give all choices among so many, the whole first, as other engines number them."""
    for mask in range(2**count - 1, -1, -1):
        yield [at for at in range(count) if mask >> (count - 1 - at) & 1]


def _require_few(count: int, node: exp.Expr, spans: Spans) -> None:
    if count > MOST_SETS:
        raise SyntaxRefused(
            Diagnostic(
                "DPQ105",
                f"GROUP BY has at most {MOST_SETS} groupings",
                spans.of(node),
                f"makes {count:,} of them",
                ("they share what each call may spend, so that each would hear little.",),
                ("GROUP BY ROLLUP (...)", "a column more is one grouping more there"),
            )
        )


def shared(call: Call, sets: int) -> Call:
    """Give a call as each of so many groupings asks it: with an equal share of eps and delta.

    Raises:
        NameRefused: DPQ205 a share is too small to mean anything.
    """
    options = call.options
    rho = None if options.rho is None else options.rho / sets
    epsilon = options.epsilon / sets if rho is None else root_above(2 * rho)
    delta = None if options.delta is None else options.delta / sets
    if epsilon < EPSILON_MIN:
        _too_little(call, "eps", EPSILON_MIN * sets)
    if delta is not None and delta < LEAST_DELTA:
        _too_little(call, "delta", LEAST_DELTA * sets)
    return replace(call, options=replace(options, epsilon=epsilon, rho=rho, delta=delta))


def _too_little(call: Call, name: str, least: Fraction) -> NoReturn:
    options = call.options
    raise NameRefused(
        Diagnostic(
            "DPQ205",
            f"{name} must be at least {decimal_text(least)} here",
            options.epsilon_span if name == "eps" else options.delta_span,
            "shared by the groupings of GROUP BY",
            ("each grouping is a release of its own, and has an equal share.",),
            (f"{name}={decimal_text(least)}",),
        )
    )
