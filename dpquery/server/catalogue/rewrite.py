"""PostgreSQL's SQL about the catalogue in DuckDB's words, from the leaves of the tree up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlglot
from sqlglot import exp

from dpquery.server.catalogue.parameter_types import (
    is_list,
    name_columns,
    parameter_types,
    written_type,
)
from dpquery.server.catalogue.pg_catalog_rows import PROCEDURES, SETTINGS
from dpquery.server.catalogue.pg_catalog_schema import (
    BY_NAME,
    CATALOGUE,
    FIRST_OID,
    IN_CATALOGUE,
    IN_INFORMATION,
    NAMESPACES,
    REGPROCS,
    SCHEMAS,
    TYPES,
    duckdb_of,
    duckdb_type,
)
from dpquery.server.catalogue.pg_functions import (
    MACROS,
    SETS,
    as_type,
    formatted,
    is_list_text,
    list_of,
    macro,
    number,
)
from dpquery.server.catalogue.pg_parser import RENAMED, read, require_known
from dpquery.server.catalogue.policy_tables import ShownTable
from dpquery.server.catalogue.qualify_tables import place_tables
from dpquery.server.catalogue.refusals import no_function, no_relation, no_setting, no_type

_NUMBERED = {"regclass", "regnamespace", "regrole", "regproc", "regprocedure", "regtype"}
_TEXTS = {
    "relname", "nspname", "typname", "schemaname", "tablename", "viewname", "objectname",
    "table_schema", "table_name",
}  # fmt: skip
_TEXT_CALLS = {"quote_ident", "pg_get_serial_sequence", "format_type", "regproc_name"}
_SYSTEM_COLUMNS = {"xmin", "xmax", "cmin", "cmax"}
_SESSION: dict[type[exp.Expr], str] = {
    exp.CurrentUser: "current_user",
    exp.CurrentRole: "current_user",
    exp.SessionUser: "session_user",
    exp.CurrentCatalog: "current_database",
    exp.CurrentDatabase: "current_database",
    exp.CurrentSchema: "current_schema",
    exp.CurrentVersion: "version",
}


@dataclass(frozen=True, slots=True)
class Written:
    """A statement for the twin."""

    text: str
    oids: tuple[int, ...]
    """The types of its parameters, in PostgreSQL's numbers."""
    used: frozenset[int]
    """The numbers of the parameters that are left in the text."""


class Schema:
    """The policy's tables, as statements name them."""

    def __init__(self, tables: Sequence[ShownTable]) -> None:
        self.tables = {table.name.lower(): table.name for table in tables}
        self.oids = {table.name.lower(): n for n, table in enumerate(tables, FIRST_OID)}
        self.columns = {c.name.lower(): c.type for table in tables for c in table.columns}

    def relation(self, written: str) -> int:
        """Return the number of a relation.

        Raises:
            Refused: there is none of the name.
        """
        *schema, name = (one.strip('"').lower() for one in written.rsplit(".", 1))
        for known in (IN_CATALOGUE, IN_INFORMATION):
            found = known.get(name)
            if found is not None and schema in ([], [found.schema]):
                return found.oid
        if name not in self.oids:
            raise no_relation(written)
        return self.oids[name]


def rewritten(text: str, given: Sequence[int], schema: Schema) -> Written:
    """Return a statement in the twin's words.

    Args:
        text: one query, in PostgreSQL's SQL.
        given: the types of its parameters, 0 where it is left open.
        schema: the policy's tables.

    Raises:
        Refused: it cannot be read, or is beyond what the twin answers.
    """
    query = read(text)
    require_known(query)
    oids = parameter_types(query, given, schema.columns)
    name_columns(query)
    place_tables(query, schema.tables)
    tree: exp.Expr = query
    work = _Rewriting(schema, oids)
    for node in reversed(list(tree.walk())):
        new = work.rewrite(node)
        if new is not node:
            if node is tree:
                tree = new
            else:
                node.replace(new)
    used = frozenset(int(one.name) for one in tree.find_all(exp.Parameter))
    return Written(tree.sql("duckdb", comments=False), tuple(oids), used)


class _Rewriting:
    """Rewrites node by node; the children of each are done before it."""

    def __init__(self, schema: Schema, oids: Sequence[int]) -> None:
        self._schema = schema
        self._oids = oids

    def rewrite(self, node: exp.Expr) -> exp.Expr:  # noqa: C901, PLR0911, PLR0912
        """Return what stands in a node's place: itself, where nothing is to be done."""
        match node:
            case exp.Identifier() if not node.args.get("quoted"):
                node.set("this", node.this.lower())
            case exp.Table():
                return self._table(node)
            case exp.Column():
                return self._column(node)
            case exp.Cast():
                return self._cast(node)
            case exp.Parameter():
                return self._parameter(node)
            case exp.Anonymous():
                return self._call(node)
            case exp.EQ() | exp.NEQ() | exp.In():
                return self._compared(node)
            case exp.ArraySize():
                return exp.func("nullif", exp.func("len", node.this), exp.Literal.number(0))
            case exp.Format():
                return formatted(node)
            case exp.Lock():
                node.pop()
            case exp.CurrentSchemas():
                return macro("current_schemas", node.this)
            case exp.Any() if _query_in(node) is not None:
                return exp.Any(this=_query_in(node))
            case exp.Any() if is_list_text(node.this.unnest()):
                return exp.Any(this=exp.Paren(this=list_of(node.this.unnest())))
            case _ if type(node) in _SESSION:
                return macro(_SESSION[type(node)])
        return node

    def _table(self, node: exp.Table) -> exp.Expr:
        """Put a query in the place of a function that makes rows, or one value."""
        call = node.this
        if isinstance(call, exp.Identifier) or not isinstance(call, exp.Func):
            return node
        alias = node.args.get("alias")
        if isinstance(call, exp.Explode):
            offset = bool(node.args.get("ordinality"))
            return exp.Unnest(expressions=[call.this], alias=alias, offset=offset)
        if isinstance(call, exp.GenerateSeries | exp.ExplodingGenerateSeries):
            return node
        name = call.name.lower() if isinstance(call, exp.Anonymous) else call.sql_name().lower()
        if name in SETS:
            query: exp.Expr = sqlglot.parse_one(SETS[name], read="duckdb")
        else:
            query = exp.select(exp.alias_(call, alias.name if alias else name, quoted=True))
        named = alias or exp.TableAlias(this=exp.to_identifier(name))
        return exp.Subquery(this=query, alias=named)

    def _column(self, node: exp.Column) -> exp.Expr:
        name = node.name.lower()
        if (
            not node.table
            and not node.this.args.get("quoted")
            and name in {"user", "current_role"}
        ):
            return macro("current_user")
        if name == "tableoid":
            relation = _relation_of(node)
            return node if relation is None else number(relation)
        if name in _SYSTEM_COLUMNS:
            return number(1)
        if node.args.get("db"):
            node.set("db", None)
            node.set("catalog", None)
        return node

    def _cast(self, node: exp.Cast) -> exp.Expr:
        name = written_type(node.to)
        inner = node.this
        if name in _NUMBERED:
            return self._numbered(inner, "regproc" if name == "regprocedure" else name)
        if is_list_text(inner) and name.endswith("[]"):
            inner = list_of(inner)
        if name in {"oid", "int4", "int8"}:
            if _called(inner, "regproc_name"):
                return macro("regproc_oid", inner.expressions[0])
            if isinstance(inner, exp.Column) and inner.name.lower() in REGPROCS:
                return macro("regproc_oid", inner)
        if name in {"oid", "int4", "int8"} and _called(inner, "_out"):
            return as_type(inner.expressions[0], "UINTEGER")
        to = duckdb_type(name)
        if name == "numeric" and node.to.expressions:
            to = node.to.sql("duckdb")
        return as_type(inner, to)

    def _numbered(self, inner: exp.Expr, kind: str) -> exp.Expr:
        """Return the number of what is named, or the name of what has a number."""
        while isinstance(inner, exp.Paren):
            inner = inner.this
        if isinstance(inner, exp.Cast) and isinstance(inner.this, exp.Literal):
            inner = inner.this
        if isinstance(inner, exp.Literal) and inner.is_string:
            return self._constant(inner.this, kind)
        if isinstance(inner, exp.Null):
            return as_type(inner, "UINTEGER")
        if kind == "regproc":
            return inner if _is_text(inner) else macro("regproc_out", inner)
        if isinstance(inner, exp.Column) and inner.name in REGPROCS:
            return inner
        return macro(f"{kind}_in" if _is_text(inner) else f"{kind}_out", inner)

    def _constant(self, text: str, kind: str) -> exp.Expr:
        if kind == "regproc":
            name = text.rpartition(".")[2].strip('"')
            if name not in PROCEDURES:
                raise no_function(name)
            return macro("regproc_name", exp.Literal.string(name))
        if text.isdecimal():
            return number(int(text))
        match kind:
            case "regclass":
                return number(self._schema.relation(text))
            case "regtype":
                return number(_type_number(text))
            case "regnamespace":
                name = text.strip('"')
                if name not in NAMESPACES:
                    raise no_relation(name)
                return number(NAMESPACES[name])
        return macro(f"{kind}_in", exp.Literal.string(text))

    def _parameter(self, node: exp.Parameter) -> exp.Expr:
        type_ = duckdb_of(self._oids[int(node.name) - 1])
        return as_type(node, type_)

    def _call(self, node: exp.Anonymous) -> exp.Expr:
        name = node.name.lower()
        if name == "current_setting" and len(node.expressions) == 1:
            asked = node.expressions[0]
            if isinstance(asked, exp.Literal) and asked.this.lower() not in _SETTINGS:
                raise no_setting(asked.this)
        if name == "array_length":
            return exp.func(
                "nullif", exp.func("len", node.expressions[0]), exp.Literal.number(0)
            )
        name = RENAMED.get(name, name)
        return exp.Anonymous(this=name, expressions=node.expressions)

    def _compared(self, node: exp.Expr) -> exp.Expr:
        """Have both sides be of one type: functions go by name here, by number elsewhere."""
        every = node.args.get("expression")
        if (
            isinstance(node, exp.NEQ)
            and isinstance(every, exp.Anonymous)
            and every.name == "all"
        ):
            among = exp.Any(this=exp.Paren(this=every.expressions[0]))
            return exp.Not(this=exp.Paren(this=exp.EQ(this=node.this, expression=among)))
        sides = [node.this, *(node.expressions or [node.expression])]
        for one in sides:
            if one is None:
                return node
        columns = [one for one in sides if isinstance(one, exp.Column)]
        others = [one for one in sides if one not in columns]
        for column in columns:
            beside = [one for one in sides if one is not column]
            if column.name.lower() in REGPROCS and not any(map(_is_function_name, beside)):
                column.replace(macro("regproc_oid", column.copy()))
            elif is_list(column.name.lower(), self._schema.columns):
                for other in filter(is_list_text, others):
                    other.replace(list_of(other))
        for one in sides:
            if _called(one, "_out") and not any(_is_text(b) for b in sides if b is not one):
                one.replace(one.expressions[0].copy())
        return node


_SETTINGS = {name.lower() for name in SETTINGS}


def _relation_of(column: exp.Column) -> int | None:
    """Return the number of the relation whose column it is; None: a query makes it."""
    root = column.root()
    for table in root.find_all(exp.Table):
        named = column.table in {"", table.alias_or_name}
        if named and table.db == SCHEMAS[CATALOGUE] and table.name in IN_CATALOGUE:
            return IN_CATALOGUE[table.name].oid
    return None


def _type_number(text: str) -> int:
    """Return the number of a type by a name that a text holds."""
    plain = text.strip().lower().removeprefix("pg_catalog.").strip('"')
    name, array = plain.removesuffix("[]"), plain.endswith("[]")
    found = BY_NAME.get(name) or next((one for one in TYPES if one.sql == name), None)
    if found is None:
        raise no_type(text)
    return found.array if array else found.oid


def _called(node: exp.Expr, ending: str) -> bool:
    known = isinstance(node, exp.Anonymous) and node.name in MACROS
    return known and node.name.startswith("reg") and node.name.endswith(ending)


def _is_text(node: exp.Expr) -> bool:
    """Return whether a node is a text, as far as can be told."""
    match node:
        case exp.Paren():
            return _is_text(node.this)
        case exp.Literal():
            return bool(node.is_string)
        case exp.DPipe() | exp.Concat() | exp.Parameter() | exp.Lower() | exp.Replace():
            return True
        case exp.Cast():
            parameter = isinstance(node.this, exp.Parameter)
            return node.to.is_type("text", "varchar") or (parameter and _is_text(node.this))
        case exp.Column():
            return node.name.lower() in _TEXTS
        case exp.Anonymous():
            return node.name in _TEXT_CALLS
    return False


def _is_function_name(node: exp.Expr) -> bool:
    column = isinstance(node, exp.Column) and node.name.lower() in REGPROCS
    return column or _is_text(node) or _called(node, "_out")


def _query_in(node: exp.Any) -> exp.Expr | None:
    """Return the query whose rows an array is made of; None: it is made of something else."""
    array = node.this.unnest()
    inner = array.expressions[0] if isinstance(array, exp.Array) and array.expressions else None
    return exp.Subquery(this=inner) if isinstance(inner, exp.Query) else None
