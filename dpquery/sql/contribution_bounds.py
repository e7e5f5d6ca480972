"""How many rows of one unit count, by what policy and operators say: never by the file."""

from __future__ import annotations

from collections.abc import Sequence

from dpquery.core.types import RowLimit
from dpquery.ir.query import Contribution
from dpquery.ir.relations import (
    PerUnit,
    PublicJoin,
    Relation,
    TableScan,
    UnionAll,
    UnitJoin,
    Unnest,
    extent_of,
    looks_up,
    sources,
    tables_of,
)
from dpquery.policy.model import Policy


def contribution(relation: Relation, policy: Policy) -> Contribution:
    """Read what bounds a unit's rows from the policy and the operators: never from the file.

    A unit has one row where it is declared, or follows from GROUP BY the unit alone and from
    joins of such relations. The limits of a join or union are the largest of its parts; where a
    row meets several rows of a public table, each of those that are let in is all of them.
    """
    unit = policy.tables[tables_of(relation)[0].table].unit
    unit = unit and (policy.unit or unit)
    single = unit is not None and extent_of(relation, policy.single).single
    limit, groups = _limits(relation, policy)
    return Contribution(unit, single, limit, groups)


def _limits(relation: Relation, policy: Policy) -> tuple[RowLimit, int | None]:
    """Return how many rows, and groups, of a unit count unless a call says otherwise."""
    match relation:
        case TableScan(table=name):
            table = policy.tables[name]
            one_row = table.single or table.unit is None
            return 1 if one_row else table.max_rows_contributed, table.max_groups_contributed
        case PerUnit(source=source, one_row=True):
            return 1, _limits(source, policy)[1]
        case PublicJoin(source=source, most=most) | Unnest(source=source, most=most) if (
            most > 1
        ):
            rows, groups = _limits(source, policy)
            return rows * relation.most if isinstance(rows, int) else rows, groups
        case UnitJoin(left=left, keeps_right=False) if looks_up(relation):
            return _limits(left, policy)
        case UnitJoin() | UnionAll():
            parts = [_limits(part, policy) for part in sources(relation)]
            return _largest([rows for rows, _ in parts]), _groups(parts)
        case _:
            return _limits(sources(relation)[0], policy)


def _largest(limits: Sequence[RowLimit]) -> RowLimit:
    """Return the largest of several limits of rows; one that nobody states leaves none."""
    stated = [limit for limit in limits if isinstance(limit, int)]
    if len(stated) == len(limits):
        return max(stated)
    return None if None in limits else "auto"


def _groups(parts: Sequence[tuple[RowLimit, int | None]]) -> int | None:
    """Return the largest of several limits of groups, if the policy states any."""
    limits = [rows if groups is None else groups for rows, groups in parts]
    stated = [limit for limit in limits if isinstance(limit, int)]
    if all(groups is None for _, groups in parts) or len(stated) < len(limits):
        return None
    return max(stated)
