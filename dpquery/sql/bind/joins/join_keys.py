"""What ties rows of two relations: units of one domain, and the keys by which rows reach them.

Those who write SQL equate keys, and never the unit.
`lineitem JOIN orders ON l_orderkey = o_orderkey`, where the policy says that the rows of
`lineitem` go through `orders` by this key, is read as a join on the unit and on the key. It is
a join on the unit like any other, so that each pair is of rows of one unit. And it is what the
text says: whoever has a row of `orders` has those of `lineitem` with its key, so that a pair of
plain rows comes once, for the owner of the row of `orders`. Rows of two tables that go through
one key are paired for each unit that claims it. In the same way, to group rows by such a key
parts the rows of each unit by it.

Where several columns are the unit together, to equate all of them, or to group by them, is to
equate the unit, or to group by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlglot import expressions as exp

from dpquery.ir.expr import ColumnRef, Expr
from dpquery.ir.relations import Output, PerUnit, Project, Relation, TableScan, UnionAll, walk
from dpquery.policy.model import Policy, Table
from dpquery.sql.bind.from_clause import Context, Private
from dpquery.sql.parse.literals import unwrapped


class Key(NamedTuple):
    """What rows are tied by: a column of a table that others hold, or a part of the unit."""

    table: str
    """Empty for a part of a unit of several columns."""
    column: str
    together: int = 1
    """How many such columns tie rows together."""


Keys = frozenset[Key]
NONE = Keys()


def keys_in(policy: Policy) -> Keys:
    """Return the keys by which tables of a policy reach their unit."""
    ways = (table.through for table in policy.tables.values())
    return Keys(Key(way.table.name, way.key) for way in ways if way is not None)


def enough(*found: Keys) -> bool:
    """Return whether some keys tie rows to their unit: one, or all parts of the unit."""
    keys = NONE.union(*found)
    return any(sum(k.table == key.table for k in keys) >= key.together for key in keys)


def tied_by_keys(
    context: Context,
    sides: tuple[Private, Private],
    using: Iterable[exp.Identifier],
    pool: Iterable[exp.Expr],
) -> bool:
    """Return whether USING, or equalities, are about a key that both sides hold values of."""
    pairs: list[tuple[exp.Expr, exp.Expr]] = [(one, one) for one in map(exp.column, using)]
    for node in pool:
        if isinstance(node, exp.EQ):
            left, right = unwrapped(node.this), unwrapped(node.expression)
            pairs += [(left, right), (right, left)]
    ours, theirs = sides
    return enough(
        *(
            keys_at(one, ours, context.policy) & keys_at(other, theirs, context.policy)
            for one, other in pairs
        )
    )


def keys_at(node: exp.Expr, rows: Private, policy: Policy) -> Keys:
    """Return the keys of which a column holds values that a node names, as it stands."""
    held = rows.scope.holders_of(node)
    return keys_held(held[0], rows.relation, policy) if len(held) == 1 else NONE


def keys_held(expr: Expr, relation: Relation, policy: Policy) -> Keys:
    """Return the keys of which a column of a relation holds values, as they stand."""
    if not isinstance(expr, ColumnRef) or not any(
        table.through or table.together for table in policy.tables.values()
    ):
        return NONE
    node = next((one for one in walk(relation) if _gives(one, expr)), None)
    match node:
        case TableScan(table=name):
            return _stored(policy.tables[name], expr.name, policy)
        case Project(source=source, outputs=outputs) | PerUnit(source=source, keys=outputs):
            return _of(expr, outputs, source, policy)
        case UnionAll(parts=parts):
            each = (_of(expr, outputs, part, policy) for part, outputs in parts)
            return Keys.intersection(*each)
    return NONE


def _stored(table: Table, column: str, policy: Policy) -> Keys:
    """Return the keys of which a column of a table holds values."""
    way, held = table.through, {Key(table.name, column)}
    if way is not None and way.column == column:
        held.add(Key(way.table.name, way.key))
    together = [] if way is not None else [name for name, _ in table.together]
    parts = {Key("", str(together.index(column)), len(together))} if column in together else {}
    return (keys_in(policy) & held).union(parts)


def _gives(node: Relation, ref: ColumnRef) -> bool:
    return isinstance(node, TableScan | Project | PerUnit | UnionAll) and node.number == ref.of


def _of(ref: ColumnRef, outputs: tuple[Output, ...], source: Relation, policy: Policy) -> Keys:
    found: Iterator[Expr] = (output.expr for output in outputs if output.name == ref.name)
    expr = next(found, None)  # an aggregate is none of them
    return NONE if expr is None else keys_held(expr, source, policy)
