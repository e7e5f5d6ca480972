"""Group keys: grouping expressions whose values are public before any data is read.

The rows of an answer come from here and never from the data (I5): every declared value is
shown, also those that no row has. A column whose values only the data know is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import NoReturn

from sqlglot import TokenType
from sqlglot import expressions as exp

from dpquery import functions
from dpquery.core.privacy import EPSILON_MIN, decimal_text, root_above
from dpquery.core.source import Span
from dpquery.core.types import INT64, INTEGER, Kind
from dpquery.errors import Worded, refusal
from dpquery.functions.partition_selection import KEYS, most_of
from dpquery.functions.quantize import example_values
from dpquery.ir.expr import ColumnRef, Expr, Literal, Nulls, children, columns_of
from dpquery.ir.query import Call, Finding, Key
from dpquery.policy.model import Column
from dpquery.rowfunctions.key_domains import MAX_CELLS, Values, undeclared, values_of
from dpquery.rowfunctions.ranges import Facts, conjuncts, facts_of, nulls_of
from dpquery.sql.bind.dp_calls import Calls
from dpquery.sql.bind.expressions import Conditions
from dpquery.sql.bind.scope import fold, is_call, listed_names, written_name
from dpquery.sql.parse.literals import read_place, unwrapped
from dpquery.sql.parse.spans import Spans, outside, too_large

# GROUPING SETS, ROLLUP and CUBE: which groupings one GROUP BY asks for.
#
# Each grouping is a frontier of its own, and they share what every call may spend: the eps
# that is written stays the whole price of the call.


MOST_SETS = 64
LEAST_DELTA = Fraction(1, 10**30)
_SETS = exp.Rollup | exp.Cube | exp.GroupingSets
_Sets = list[list[exp.Expr]]


def groupings_in(group: exp.Group, spans: Spans) -> _Sets:
    """Return the groupings, each as its expressions; what stands beside sets is in all of them.

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
    raise outside(f"{word} per unit", span, label, remedy)


def _sets(node: exp.Expr, spans: Spans) -> _Sets:
    if not isinstance(node, _SETS):
        return [[node]]
    if isinstance(node, exp.GroupingSets):
        return [one for part in node.expressions for one in _listed_sets(part, spans)]
    members = [_members(part) for part in node.expressions]
    rolled = isinstance(node, exp.Rollup)
    _require_few(len(members) + 1 if rolled else 2 ** len(members), node, spans)
    chosen = _prefixes(len(members)) if rolled else _subsets(len(members))
    return [[part for at in places for part in members[at]] for places in chosen]


def _listed_sets(part: exp.Expr, spans: Spans) -> _Sets:
    """Return the sets that an item of GROUPING SETS stands for."""
    return _sets(part, spans) if isinstance(part, _SETS) else [_members(part)]


def _members(node: exp.Expr) -> list[exp.Expr]:
    return list(node.expressions) if isinstance(node, exp.Tuple) else [unwrapped(node)]


def _prefixes(count: int) -> Iterator[range]:
    return (range(length) for length in range(count, -1, -1))


def _subsets(count: int) -> Iterator[list[int]]:
    """Return all choices among so many, the whole first, as other engines number them."""
    for mask in range(2**count - 1, -1, -1):
        yield [at for at in range(count) if mask >> (count - 1 - at) & 1]


def _require_few(count: int, node: exp.Expr, spans: Spans) -> None:
    if count > MOST_SETS:
        raise too_large(
            f"GROUP BY has at most {MOST_SETS} groupings",
            spans.of(node),
            f"makes {count:,} of them",
            "they share what each call may spend, so that each would hear little.",
            ("GROUP BY ROLLUP (...)", "a column more is one grouping more there"),
        )


def shared(call: Call, sets: int) -> Call:
    """Return a call as each of so many groupings asks it: with an equal share of eps and delta.

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
    raise refusal(
        "DPQ205",
        f"{name} must be at least {decimal_text(least)} here",
        options.epsilon_span if name == "eps" else options.delta_span,
        "shared by the groupings of GROUP BY",
        "each grouping is a release of its own, and has an equal share.",
        f"{name}={decimal_text(least)}",
    )


@dataclass(frozen=True, slots=True)
class Groupings:
    """What GROUP BY asks for: its keys, and those of each grouping, of which one is usual."""

    keys: tuple[Key, ...]
    sets: tuple[tuple[Key, ...], ...]


def bind_keys(select: exp.Select, rows: Conditions, find: Callable[[Call], int]) -> Groupings:
    """Bind GROUP BY.

    Args:
        select: the query.
        rows: what its names mean.
        find: takes a call of DP_KEYS into the statement, and gives the number of its frontier.

    Raises:
        PlanRefused: DPQ402 the groups are not public, DPQ405 there are too many.
        NameRefused: DPQ204 no such column, DPQ205 a number that counts no column, or a group
            that no row can be in.
        RuleRefused: DPQ303 a DP_ function as a key.
    """
    group = select.args.get("group")
    if group is None:
        return Groupings((), ((),))
    where = _where(select, rows)
    keys: dict[Hashable, Key] = {}
    sets = []
    for items in _items(select, group, rows):
        own = set()
        for node, shown in items:
            finder = _is_finder(node)
            asked: Hashable = id(node) if finder else rows.bind(node)
            column = f"k{len(keys)}"
            if asked not in keys and finder:
                keys[asked] = _found(node, column, rows, find)
            elif asked not in keys and _is_selected(rows.bind(node), rows):
                keys[asked] = _selected(node, shown, column, rows, find)
            elif asked not in keys:
                keys[asked] = _listed(rows.bind(node), shown, column, rows, where)
            own.add(keys[asked].column)
        sets.append(tuple(key for key in keys.values() if key.column in own))
    cells = [prod(key.size for key in own) for own in sets]
    if sum(cells) > MAX_CELLS:
        _too_many(sum(cells), sets[cells.index(max(cells))], rows, where)
    return Groupings(tuple(keys.values()), tuple(sets))


def _listed(expr: Expr, shown: Span, column: str, rows: Conditions, where: str) -> Key:
    """Make a key of an expression whose values are public."""
    facts = facts_of(rows.where)
    values = None if isinstance(expr, Literal) else values_of(expr, facts)
    if values is None:
        _private(expr, shown, rows, where)
    _check_shown(expr, values, shown, rows)
    return Key(shown, column, expr, values, left_out=_left_out(expr, facts, rows))


def _left_out(expr: Expr, facts: Facts, rows: Conditions) -> str:
    """Return which rows are in none of the groups: they would vanish in silence."""
    others, nulls = undeclared(expr, facts), frozenset[str]()
    if nulls_of(expr, facts) is Nulls.LEFT_OUT:
        refs = columns_of(expr).values()
        nulls = frozenset(ref.name for ref in refs if ref.nulls is Nulls.LEFT_OUT)
    if not others and not nulls:
        return ""
    said = "NULL or " * bool(nulls) + "not one of its keys" if others else "NULL"
    return f"rows where {listed_names(others | nulls)} is {said} are left out"


def _is_finder(node: exp.Expr) -> bool:
    """Return whether a grouping expression finds groups, of all rows or of some."""
    call = node.this if isinstance(node, exp.Filter) else node
    return is_call(call) and functions.find(str(call.this)) is KEYS


def _is_selected(expr: Expr, rows: Conditions) -> bool:
    """Return whether groups that are not public are found with the statement's delta."""
    if rows.shares is None or not rows.shares.price.delta or isinstance(expr, Literal):
        return False
    return values_of(expr, facts_of(rows.where)) is None and expr.type.kind is not Kind.DOUBLE


def _selected(
    node: exp.Expr, shown: Span, column: str, rows: Conditions, find: Callable[[Call], int]
) -> Key:
    """Bind a plain group whose values are found, as DP_KEYS of it."""
    call = exp.Anonymous(this=KEYS.name, expressions=[node.copy()])
    key = _found(call, column, rows, find)
    assert rows.shares is not None  # noqa: S101 - nothing is selected without
    rows.shares.rewritten[shown] = rows.shares.rewritten.pop(key.expr.span)
    return key


def _found(node: exp.Expr, column: str, rows: Conditions, find: Callable[[Call], int]) -> Key:
    """Bind groups that are found in the data, by a release of their own."""
    call = Calls(rows).add(node)
    expr = call.inputs[0].expr
    rest = call.options.other is not None
    finding = Finding(find(call), most_of(call) + rest)
    return Key(expr.span, column, expr, (), finding, rest)


def _where(select: exp.Select, rows: Conditions) -> str:
    """Return the condition on rows as typed, ready to be joined to another; empty if none."""
    where = select.args.get("where")
    if where is None:
        return ""
    condition = unwrapped(where.this)
    text = rows.spans.text(condition)
    return f" AND ({text})" if isinstance(condition, exp.Or) else f" AND {text}"


def _items(
    select: exp.Select, group: exp.Group, rows: Conditions
) -> list[list[tuple[exp.Expr, Span]]]:
    """Return the grouping expressions of each grouping, with where they are named."""
    items = [
        (item.alias, item.this if isinstance(item, exp.Alias) else item)
        for item in select.expressions
    ]
    if group.args.get("all"):
        shown = [v for _, v in items if not _is_result(v) and v.find(exp.Column) is not None]
        return [[(value, rows.spans.of(value)) for value in shown]]
    groupings = groupings_in(group, rows.spans)
    return [list(_named(nodes, items, rows, select)) for nodes in groupings]


def _named(
    nodes: Sequence[exp.Expr],
    items: Sequence[tuple[str, exp.Expr]],
    rows: Conditions,
    select: exp.Select,
) -> Iterator[tuple[exp.Expr, Span]]:
    """Resolve names: a column goes before an alias, and a number counts columns."""
    for node in nodes:
        span, value = rows.spans.of(node), node
        if isinstance(node, exp.Literal) and not node.is_string:
            value = items[read_place(node, len(items), span, "GROUP BY")][1]
        elif (
            isinstance(node, exp.Column) and not node.table and not rows.scope.knows(node.name)
        ):
            aliased = (v for alias, v in items if alias and fold(alias) == fold(node.name))
            value = next(aliased, node)
        if value is not node and _is_result(value):
            _computed(span, _found_groups(select, node, value, rows))
        yield value, span


def _is_result(value: exp.Expr) -> bool:
    """Return whether an item is computed from the groups."""
    return any(
        is_call(part) or isinstance(part, exp.Grouping | exp.GroupingId)
        for part in value.walk(prune=lambda node: isinstance(node, exp.Query))
    )


def _found_groups(
    select: exp.Select, node: exp.Expr, value: exp.Expr, rows: Conditions
) -> str | None:
    """Write a query that shows the values which DP_KEYS finds, and groups by finding them."""
    group, first = rows.spans.clause(TokenType.GROUP_BY), rows.spans.clause(TokenType.SELECT)
    alone = select.parent is None and len(select.args["group"].expressions) == 1
    if not _is_finder(value) or not alone or group is None or first is None:
        return None
    call = value.this if isinstance(value, exp.Filter) else value
    if not call.expressions:
        return None
    text, whole = rows.spans.source.text, rows.spans.of(value)
    shown = rows.spans.text(call.expressions[0])
    start = f"{text[: whole.start]}{shown}{text[whole.end : group.start]}"
    return f"{start}GROUP BY {rows.spans.text(value)}{text[group.end :]}".strip()


def _computed(span: Span, instead: str | None) -> NoReturn:
    raise refusal(
        "DPQ303",
        "a DP_ function cannot be a group",
        span,
        "this column is computed from the groups",
        "groups have to be known before anything is released.",
        (instead,)
        if instead
        else ("GROUP BY ALL", "it groups by the columns that hold no DP_ function"),
    )


def _check_shown(expr: Expr, values: Values, span: Span, rows: Conditions) -> None:
    """Refuse groups that no answer could show: whole numbers beyond the type of a column."""
    if expr.type != INTEGER:
        return
    for value in values:
        if isinstance(value, int) and not INT64[0] <= value <= INT64[1]:
            furthest = str(INT64[value > 0])
            typed = _typed(value, expr, rows.where)
            cut = f"{'LEAST' if value > 0 else 'GREATEST'}({rows.spans.source.snippet(span)}, "
            raise refusal(
                "DPQ205",
                f"no row can be in the group {str(value)[:40]}",
                typed or span,
                "beyond every whole number of a column",
                "every group that is named is shown, and this one cannot be.",
                (
                    furthest if typed else f"{cut}{furthest})",
                    "this is the furthest that a column can hold",
                ),
            )


def _typed(value: int, key: Expr, where: Expr | None) -> Span | None:
    """Find where a group was typed: in the key, or in a condition that names its values."""
    said = [] if where is None else conjuncts(where)
    pending = [key, *(part for part in said if key in children(part))]
    while pending:
        expr = pending.pop(0)
        if isinstance(expr, Literal) and expr.value == value:
            return expr.span
        pending.extend(children(expr))
    return None


def has_listed_groups(column: Column | ColumnRef) -> bool:
    """Return whether a few values of a column are public by the policy: a group to offer."""
    return column.keys is not None or column.type.kind is Kind.BOOLEAN


def _named_groups(column: ColumnRef, rows: Conditions, where: str) -> str:
    """Write a WHERE that names the groups of a column, and keeps what it said before."""
    written = rows.spans.source.snippet(column.span)
    return f"WHERE {written} IN ({example_values(column.type)}){where}"


def _private(expr: Expr, span: Span, rows: Conditions, where: str) -> NoReturn:
    table = rows.scope.table
    what, label, remedy = "this expression", "its values are not public", _public_column(rows)
    if isinstance(expr, ColumnRef):
        what, label = rows.spans.source.snippet(expr.span), "private grouping column"
        if example_values(expr.type):
            remedy = (_named_groups(expr, rows, where),)
            if expr.type.kind is not Kind.DOUBLE:
                found = f"GROUP BY {KEYS.name}({what}, eps=0.5, delta=1e-7)"
                remedy += (f"or {found}, which finds them",)
            if expr.name in table.columns:
                owned = f"{table.name}.{expr.name}"
                owner = f"or ask the data owner to list the keys of {owned} in the policy"
                remedy += (Worded(owner),)
    raise refusal(
        "DPQ402",
        f"the groups of {what} are not public",
        span,
        label,
        (
            f"a value of {what} that appears in the answer shows that somebody has it,",
            "so the groups have to be known before the data is read.",
        ),
        remedy,
    )


def _public_column(rows: Conditions) -> tuple[str, ...]:
    """Offer a column whose groups are public."""
    columns = rows.scope.table.columns.items()
    listed = [name for name, column in columns if has_listed_groups(column)]
    known = [name for name in listed if rows.scope.knows(name)]
    if not known:
        owner = "ask the data owner to list the keys of a column in the policy"
        return (Worded(owner, "name the groups of a column in WHERE, as in IN ('a', 'b')"),)
    return (f"GROUP BY {written_name(known[0])}", f"public groups here: {listed_names(known)}")


def _too_many(cells: int, keys: Sequence[Key], rows: Conditions, where: str) -> NoReturn:
    counts = " x ".join(f"{key.size:,}" for key in keys)
    most = max(keys, key=lambda key: key.size)
    remedy = "leave out one of the groups"
    if isinstance(most.expr, ColumnRef):
        remedy = _named_groups(most.expr, rows, where)
    raise refusal(
        "DPQ405",
        f"this would make {cells:,} groups",
        most.span,
        f"{counts} values",
        f"every declared group is shown, and at most {MAX_CELLS:,} can be.",
        remedy,
    )
