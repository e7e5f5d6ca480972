"""Types as statements write them, by PostgreSQL's own short names."""

from __future__ import annotations

from sqlglot import exp

from dpquery.server.catalogue.faults import no_type
from dpquery.server.catalogue.relations import BY_NAME, CATALOGUE, INFORMATION

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
