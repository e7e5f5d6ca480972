"""GROUP BY as it is written: its names, its groupings taken apart, and what finds groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, compress, product

from sqlglot import expressions as exp
from sqlglot.helper import ensure_list

from dpquery import functions
from dpquery.errors import advice
from dpquery.functions.dp_keys import KEYS
from dpquery.sql.bind.scope import Scope, fold, is_call
from dpquery.sql.parse.literals import read_place, unwrapped
from dpquery.sql.parse.spans import Spans, outside, too_large

MOST_SETS = 64
_SETS = exp.Rollup | exp.Cube | exp.GroupingSets
_Sets = list[list[exp.Expr]]


def groupings_in(group: exp.Group, spans: Spans) -> _Sets:
    """Return the groupings, each as its expressions; what stands beside sets is in all of them.

    Each grouping is a frontier of its own, and they share what every call may spend: the eps
    that is written stays the whole price of the call.
    """
    found: _Sets = [[]]
    for node in group.expressions:
        more = _sets(node, spans) if isinstance(node, _SETS) else [[node]]
        _require_few_sets(len(found) * len(more), node, spans)
        found = [[*one, *other] for one in found for other in more]
    return found


def refuse_sets(group: exp.Group, spans: Spans) -> None:
    """Refuse several groupings of rows that stay private."""
    if not any(isinstance(node, _SETS) for node in group.expressions):
        return
    first = groupings_in(group, spans)[0]
    remedy = f"GROUP BY {', '.join(dict.fromkeys(map(spans.text, first)))}"
    span = spans.word("ROLLUP", "CUBE", "GROUPING SETS") or spans.of(group)
    word = spans.source.snippet(span).upper()
    label = "several groupings of rows that stay private"
    raise outside(f"{word} per unit", span, label, remedy)


def _sets(node: exp.Expr, spans: Spans) -> _Sets:
    """Return the sets of ROLLUP and CUBE, the whole first, or of an item of GROUPING SETS."""
    if isinstance(node, exp.GroupingSets):
        return [one for item in node.expressions for one in _sets(item, spans)]
    if not isinstance(node, exp.Rollup | exp.Cube):
        return [_members(node)]
    members = [_members(item) for item in node.expressions]
    rolled, count = isinstance(node, exp.Rollup), len(members)
    _require_few_sets(count + 1 if rolled else 2**count, node, spans)
    if rolled:
        chosen = [members[:length] for length in range(count, -1, -1)]
    else:
        chosen = [list(compress(members, bits)) for bits in product((1, 0), repeat=count)]
    return [[*chain.from_iterable(one)] for one in chosen]


def _members(node: exp.Expr) -> list[exp.Expr]:
    return list(node.expressions) if isinstance(node, exp.Tuple) else [unwrapped(node)]


def _require_few_sets(count: int, node: exp.Expr, spans: Spans) -> None:
    if count > MOST_SETS:
        title, label = f"GROUP BY has at most {MOST_SETS} groupings", f"makes {count:,} of them"
        why = "they share what each call may spend, so that each would hear little."
        remedy = advice("write GROUP BY ROLLUP (...): a column more is one grouping more there")
        raise too_large(title, spans.of(node), label, why, remedy)


def key_of(node: exp.Expr, items: Sequence[exp.Expr], scope: Scope, spans: Spans) -> exp.Expr:
    """Return what GROUP BY names: a column before an alias; a number counts columns."""
    if isinstance(node, exp.Literal) and not node.is_string:
        return items[read_place(node, len(items), spans.of(node), "GROUP BY")].unalias()
    if isinstance(node, exp.Column) and not node.table and not scope.knows(node.name):
        aliased = (i.unalias() for i in items if i.alias and fold(i.alias) == fold(node.name))
        return next(aliased, node)
    return node


def outside_calls(select: exp.Select, *slots: str) -> Iterator[exp.Column]:
    """Return the columns in some parts of a SELECT that stand in no DP_ call or subquery."""
    for slot in slots:
        for part in ensure_list(select.args.get(slot)):
            for node in part.walk(prune=lambda n: isinstance(n, exp.Query) or is_call(n)):
                if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
                    yield node


def is_result(value: exp.Expr) -> bool:
    """Return whether an item is computed from the groups."""
    return any(
        is_call(node) or isinstance(node, exp.Grouping | exp.GroupingId)
        for node in value.walk(prune=lambda node: isinstance(node, exp.Query))
    )


def is_distinct_alone(select: exp.Select) -> bool:
    """Return whether a SELECT shows different values of its columns, and nothing else."""
    distinct, slots = select.args.get("distinct"), ("group", "having", "qualify")
    plain = distinct is not None and distinct.args.get("on") is None
    return (
        plain
        and not any(map(select.args.get, slots))
        and not any(map(is_result, select.expressions))
    )


def finds_keys(select: exp.Select) -> bool:
    """Return whether a SELECT groups by what DP_KEYS finds: then it is released."""
    group = select.args.get("group")
    return group is not None and any(map(is_finder, group.expressions))


def is_finder(node: exp.Expr) -> bool:
    """Return whether a grouping expression finds groups, of all rows or of some."""
    call = node.this if isinstance(node, exp.Filter) else node
    return is_call(call) and functions.find(str(call.this)) is KEYS
