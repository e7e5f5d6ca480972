"""What PostgreSQL calls types and the columns of an answer, and what types parameters have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from dpquery.server.catalogue.pg_catalog_schema import (
    BY_NAME,
    BY_OID,
    CATALOGUE,
    ELEMENTS,
    INFORMATION,
    duckdb_of,
    oid_of,
)
from dpquery.server.catalogue.pg_catalog_schema import oids_by_column as of_catalogue
from dpquery.server.catalogue.refusals import no_type, unsupported

_SHORT = {
    "bigint": "int8",
    "bit": "bit",
    "boolean": "bool",
    "bytea": "bytea",
    "char": "bpchar",
    "char_": "char",
    "character": "bpchar",
    "character varying": "varchar",
    "decimal": "numeric",
    "double precision": "float8",
    "int": "int4",
    "integer": "int4",
    "real": "float4",
    "smallint": "int2",
    "timestamp with time zone": "timestamptz",
    "timestamp without time zone": "timestamp",
    "time with time zone": "timetz",
    "sql_identifier": "name",
    "character_data": "varchar",
    "yes_or_no": "varchar",
    "cardinal_number": "int4",
    "time_stamp": "timestamptz",
    **dict.fromkeys(("regoperator", "regcollation", "regdictionary"), "text"),
}
"""PostgreSQL's short names of types by others, those of `information_schema` among them."""


def written_type(to: exp.DataType | exp.Expr) -> str:
    """Return the short name of a type, with brackets where it is an array.

    Raises:
        Refused: there is no such type.
    """
    text = to.sql("postgres")
    name = text.lower().partition("(")[0].strip()
    array = text.rstrip().endswith("]")
    name = name.partition("[")[0].strip()
    for schema in (CATALOGUE, INFORMATION):
        name = name.removeprefix(f"{schema}.").removeprefix(f'"{schema}".')
    if name == '"char"':
        name = "char_"
    name = name.strip('"')
    if name.startswith("_") and name[1:] in BY_NAME:
        name, array = name[1:], True
    name = _SHORT.get(name, name)
    if name not in BY_NAME:
        raise no_type(name)
    return f"{name}[]" if array else name


MOST_PARAMETERS = 1000
_UNNAMED = "?column?"
_WRITTEN = {
    exp.ArrayToString: "array_to_string",
    exp.ArraySize: "array_length",
    exp.CurrentTimestamp: "now",
    exp.CurrentVersion: "version",
    exp.Explode: "unnest",
    exp.ExplodingGenerateSeries: "generate_series",
    exp.GroupConcat: "string_agg",
    exp.LogicalAnd: "bool_and",
    exp.LogicalOr: "bool_or",
    exp.Substring: "substring",
    exp.TimestampTrunc: "date_trunc",
    exp.TimeToStr: "to_char",
    exp.StrPosition: "position",
}


def name_columns(tree: exp.Query) -> None:
    """Give each column of each query the name that PostgreSQL gives it."""
    for select in tree.find_all(exp.Select):
        for column in select.expressions:
            if not isinstance(column, exp.Alias | exp.Aliases | exp.Star | exp.Column):
                name = _name(column) or _UNNAMED
                column.replace(exp.alias_(column.copy(), name, quoted=True))


def _name(node: exp.Expr) -> str | None:
    """Return the name of an expression, as far as it has one."""
    match node:
        case exp.Column():
            return node.name.lower() if not node.this.args.get("quoted") else node.name
        case exp.Case():
            return _name(node.args["default"]) or "case" if node.args.get("default") else "case"
        case exp.Cast():
            return _name(node.this) or written_type(node.to)
        case exp.Paren() | exp.Bracket() | exp.Window() | exp.Filter() | exp.WithinGroup():
            return _name(node.this)
        case exp.Dot():
            return _name(node.expression)
        case exp.Identifier():
            return str(node.this)
        case exp.Subquery():
            inner = node.this.selects
            return inner[0].alias_or_name or _name(inner[0]) if inner else None
        case exp.And() | exp.Or() | exp.RegexpLike() | exp.RegexpILike():
            return None
        case exp.Concat():
            return "concat"
        case exp.Anonymous():
            return node.name.lower().removeprefix("_")
        case exp.Func():
            return _WRITTEN.get(type(node)) or node.sql_name().lower()
    return None


def count_parameters(tree: exp.Query) -> int:
    """Return the highest number of a parameter."""
    numbers = [_number(one) for one in tree.find_all(exp.Parameter)]
    return max(numbers, default=0)


def _number(parameter: exp.Parameter) -> int:
    digits = parameter.name
    if not digits.isdecimal() or not 1 <= int(digits) <= MOST_PARAMETERS:
        raise unsupported()
    return int(digits)


def parameter_types(
    tree: exp.Query, given: Sequence[int], columns: Mapping[str, int]
) -> list[int]:
    """Return the number of each parameter's type: the one given, or else one that fits.

    Args:
        tree: a query, as it was read.
        given: numbers of types, 0 where a client leaves it to the server.
        columns: the types of the policy's columns, by name.
    """
    oids = [*given, *[0] * (count_parameters(tree) - len(given))]
    for parameter in tree.find_all(exp.Parameter):
        at = _number(parameter) - 1
        oids[at] = oids[at] or _fitting(parameter, columns)
    return [_plain(oid) for oid in oids]


def _plain(oid: int) -> int:
    """Return a type that clients can send: a text for names, and for what is not known."""
    text = BY_NAME["text"]
    if oid in ELEMENTS:
        return text.array if duckdb_of(oid) == "VARCHAR[]" else oid
    return text.oid if duckdb_of(oid) == "VARCHAR" else oid


def _fitting(parameter: exp.Parameter, columns: Mapping[str, int]) -> int:
    """Return the type that a parameter has where it stands; 0 where that cannot be told."""
    node: exp.Expr = parameter
    while isinstance(node.parent, exp.Paren):
        node = node.parent
    parent = node.parent
    if isinstance(parent, exp.Cast):
        return _of_cast(parent.to)
    listed = isinstance(parent, exp.Any | exp.All)
    if listed and parent is not None:
        node, parent = parent, parent.parent
    if isinstance(parent, exp.Limit | exp.Offset | exp.Fetch):
        return BY_NAME["int8"].oid
    if not isinstance(parent, exp.Binary | exp.In | exp.Between):
        return 0
    beside = [one for one in parent.iter_expressions() if one is not node]
    found = next(filter(None, (_of(one, columns) for one in beside)), 0)
    return BY_OID[found].array if listed and found in BY_OID else found


def _of_cast(to: exp.DataType) -> int:
    name = written_type(to)
    if name.removesuffix("[]") in {"regclass", "regtype", "regproc", "regnamespace"}:
        return BY_NAME["text"].oid
    return oid_of(name)


def _of(node: exp.Expr, columns: Mapping[str, int]) -> int:
    """Return the type of what a parameter is compared with."""
    while isinstance(node, exp.Paren):
        node = node.this
    match node:
        case exp.Cast():
            return _of_cast(node.to)
        case exp.Column():
            name = node.name.lower()
            found = columns.get(name) or of_catalogue().get(name, 0)
            text = found == BY_NAME["regproc"].oid
            return BY_NAME["text"].oid if text else found
        case exp.Literal():
            return BY_NAME["text" if node.is_string else "int4"].oid
    return 0


def is_list(name: str, columns: Mapping[str, int]) -> bool:
    """Return whether a column of this name holds lists."""
    oid = columns.get(name) or of_catalogue().get(name, 0)
    return oid in ELEMENTS
