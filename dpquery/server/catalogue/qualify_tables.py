"""Which tables a statement names: the catalogue's, the policy's, or its own."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dpquery.server.catalogue.pg_catalog_schema import (
    CATALOGUE,
    IN_CATALOGUE,
    IN_INFORMATION,
    INFORMATION,
    PUBLIC,
    SCHEMAS,
    Relation,
)
from dpquery.server.catalogue.refusals import holds_no_rows, mixed, no_relation

_KNOWN: Mapping[str, Mapping[str, Relation]] = {
    CATALOGUE: IN_CATALOGUE,
    INFORMATION: IN_INFORMATION,
}


def place_tables(tree: exp.Query, own: Mapping[str, str]) -> None:
    """Give each table the schema that it has in the twin.

    Args:
        tree: a query, which is changed.
        own: the tables of the policy, by their name in small letters.

    Raises:
        Refused: there is no such table, or the query reads what the twin has no rows of.
    """
    inner = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    schemas = [_place(table, own, inner) for table in list(tree.find_all(exp.Table))]
    if PUBLIC in schemas:
        if CATALOGUE in schemas or INFORMATION in schemas:
            raise mixed()
        if not provably_empty(tree):
            raise holds_no_rows()


def _place(table: exp.Table, own: Mapping[str, str], inner: set[str]) -> str | None:
    """Place one table, and return its schema in PostgreSQL; None: it is made in the query."""
    if not isinstance(table.this, exp.Identifier):
        return None
    name, schema = table.name.lower(), table.db.lower()
    if not schema and name in inner:
        return None
    if table.args.get("only"):
        table.set("only", None)
    for one, known in _KNOWN.items():
        if schema == one or (not schema and one == CATALOGUE):
            if name in known:
                return _placed(table, one, name)
            if schema:
                break
    else:
        if schema in {"", PUBLIC} and name in own:
            return _placed(table, PUBLIC, own[name])
    raise no_relation(f"{table.db}.{table.name}" if schema else table.name)


def _placed(table: exp.Table, schema: str, name: str) -> str:
    if not table.alias:
        written = table.this.this
        table.set("alias", exp.TableAlias(this=exp.to_identifier(written, quoted=True)))
    table.set("this", exp.to_identifier(name, quoted=True))
    table.set("db", exp.to_identifier(SCHEMAS[schema]))
    table.set("catalog", None)
    return schema


def provably_empty(tree: exp.Query) -> bool:
    """Return whether no row comes of a query, whatever its tables hold."""
    if _is_zero(tree.args.get("limit")):
        return True
    if not isinstance(tree, exp.Select):
        return False
    where, group = tree.args.get("where"), tree.args.get("group")
    if where is None or not any(map(_is_false, _conditions(where.this))):
        return _within(tree)
    return bool(group and group.expressions) or not _aggregates(tree)


def _within(tree: exp.Select) -> bool:
    """Return whether a query only takes the rows of another one, of which none come."""
    origin = tree.args.get("from_")
    inner = origin.this if origin else None
    if not isinstance(inner, exp.Subquery) or tree.args.get("joins") or _aggregates(tree):
        return False
    return isinstance(inner.this, exp.Query) and provably_empty(inner.this)


def _aggregates(tree: exp.Select) -> bool:
    """Return whether a query makes one row of none, as far as can be told."""
    if tree.args.get("having"):
        return True
    own = [one for part in tree.expressions for one in part.find_all(exp.Func)]
    return any(isinstance(one, exp.AggFunc | exp.Anonymous) for one in own)


def _conditions(node: exp.Expr) -> list[exp.Expr]:
    pending, found = [node], []
    while pending:
        one = pending.pop().unnest()
        if isinstance(one, exp.And):
            pending += [one.this, one.expression]
        else:
            found.append(one)
    return found


def _is_false(node: exp.Expr) -> bool:
    """Return whether a condition of constants never holds."""
    if isinstance(node, exp.Boolean):
        return not node.this
    if not isinstance(node, exp.EQ | exp.NEQ):
        return False
    left, right = node.this, node.expression
    if not isinstance(left, exp.Literal) or not isinstance(right, exp.Literal):
        return False
    if isinstance(node, exp.NEQ):
        return left == right
    numbers = [side.this for side in (left, right) if not side.is_string]
    digits = [number for number in numbers if number.isdecimal()]
    return len(digits) == 2 and int(digits[0]) != int(digits[1])


def _is_zero(limit: exp.Expr | None) -> bool:
    """Return whether LIMIT 0 or FETCH FIRST 0 ROWS is said."""
    count = None if limit is None else limit.args.get("expression") or limit.args.get("count")
    return isinstance(count, exp.Literal) and not count.is_string and count.this == "0"
