"""Keys by which rows reach their unit: those who write SQL equate them, and never the unit.

`lineitem JOIN orders ON l_orderkey = o_orderkey`, where the policy says that the rows of
`lineitem` go through `orders` by this key, is read as a join on the unit and on the key. It is
a join on the unit like any other, so that each pair is of rows of one unit. And it is what the
text says: whoever has a row of `orders` has those of `lineitem` with its key, so that a pair of
plain rows comes once, for the owner of the row of `orders`. Rows of two tables that go through
one key are paired for each unit that claims it. In the same way, to group rows by such a key
parts the rows of each unit by it.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import expressions as exp

from dpquery.ir.expr import ColumnRef, Expr
from dpquery.ir.relations import (
    Output,
    PerUnit,
    Project,
    Relation,
    TableScan,
    UnionAll,
    walk,
)
from dpquery.policy.model import Policy
from dpquery.sql.bind.from_clause import Private

Key = tuple[str, str]
"""A table, and the column of it that other tables hold."""
NONE = frozenset[Key]()


def keys_in(policy: Policy) -> frozenset[Key]:
    """Return the keys by which tables of a policy reach their unit."""
    ways = (table.through for table in policy.tables.values())
    return frozenset((way.table.name, way.key) for way in ways if way is not None)


def keys_at(node: exp.Expr, rows: Private, policy: Policy) -> frozenset[Key]:
    """Return the keys of which a column holds values that a node names, as it stands."""
    held = rows.scope.holders_of(node)
    return keys_held(held[0], rows.relation, policy) if len(held) == 1 else NONE


def keys_held(expr: Expr, relation: Relation, policy: Policy) -> frozenset[Key]:
    """Return the keys of which a column of a relation holds values, as they stand."""
    known = keys_in(policy)
    if not known or not isinstance(expr, ColumnRef):
        return NONE
    node = next((one for one in walk(relation) if _gives(one, expr)), None)
    match node:
        case TableScan(table=name):
            way = policy.tables[name].through
            held = {(name, expr.name)}
            if way is not None and way.column == expr.name:
                held.add((way.table.name, way.key))
            return known & held
        case Project(source=source, outputs=outputs) | PerUnit(source=source, keys=outputs):
            return _of(expr, outputs, source, policy)
        case UnionAll(parts=parts):
            each = (_of(expr, outputs, part, policy) for part, outputs in parts)
            return frozenset.intersection(*each)
    return NONE


def _gives(node: Relation, ref: ColumnRef) -> bool:
    return isinstance(node, TableScan | Project | PerUnit | UnionAll) and node.number == ref.of


def _of(
    ref: ColumnRef, outputs: tuple[Output, ...], source: Relation, policy: Policy
) -> frozenset[Key]:
    found: Iterator[Expr] = (output.expr for output in outputs if output.name == ref.name)
    expr = next(found, None)  # an aggregate is none of them
    return NONE if expr is None else keys_held(expr, source, policy)
