"""Fields of structures: `address.city` is the column that the policy lists as "address.city".

A name before a point is a relation's, where the query has one of that name; otherwise it may be
a structure's. What is found so becomes the one name of a column before anything is bound.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import expressions as exp

from dpquery.core.dotted_names import dotted
from dpquery.policy.model import Policy
from dpquery.sql.bind.scope import fold
from dpquery.sql.parse.parser import Parsed


def read_fields(parsed: Parsed, policy: Policy) -> None:
    """Name the fields of structures in a query as columns are named."""
    columns = (c for table in policy.tables.values() for c in table.held.values())
    fields = {fold(column.name): column.name for column in columns if len(column.path) > 1}
    if not fields:
        return
    relations = {
        fold(node.alias_or_name)
        for node in parsed.query.find_all(exp.Table, exp.Subquery, exp.CTE, exp.Unnest)
    }
    for node in list(parsed.query.find_all(exp.Column)):
        found = _field(node, fields, relations)
        if found is None:
            continue
        (relation, name), last = found, node.this
        parsed.spans.of(node)  # which is known by the node from then on
        identifier = exp.to_identifier(fields[name], quoted=True)
        identifier.update_positions(node.this)
        node.set("table", relation)
        for before in ("db", "catalog"):
            node.set(before, None)
        node.set("this", identifier)
        if isinstance(node.parent, exp.Select) and node.arg_key == "expressions":
            shown = exp.Alias(alias=last.copy())  # as DuckDB calls it
            node.parent.set("expressions", shown, node.index)
            shown.set("this", node)


def _field(
    node: exp.Column, fields: Collection[str], relations: Collection[str]
) -> tuple[exp.Expr | None, str] | None:
    """Return the relation and the folded name of a field that a column names, if it does."""
    if not all(isinstance(part, exp.Identifier) for part in node.parts):
        return None
    names = [part.name for part in node.parts]
    qualified = fold(names[0]) in relations
    for first in (1, 0) if qualified else (0,):
        name = fold(dotted(names[first:]))
        if len(names) > first + 1 and name in fields:
            return (node.parts[0] if first else None), name
    return None
