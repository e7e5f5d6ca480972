"""What stands in the twin as views: roles, the database, and `information_schema`.

Who asks, and the name of the database that they gave, are variables of the session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpquery.server.catalogue.pg_catalog_rows import (
    ANALYST_OID,
    DATABASE,
    OWNER,
    OWNER_OID,
    ROLE,
    USER,
)
from dpquery.server.catalogue.pg_catalog_schema import (
    IN_CATALOGUE,
    IN_INFORMATION,
    PUBLIC,
    SCHEMAS,
    Relation,
    duckdb_type,
)

LOGIN, DATABASE_NAME = "login", "database"
SET_NAMES, SET_VALUES = "set_names", "set_values"
"""The variables of the session; the last two hold what it has set, names in small letters."""
_LOGIN, _DATABASE = (
    f"getvariable('{LOGIN}')::VARCHAR",
    f"getvariable('{DATABASE_NAME}')::VARCHAR",
)
_ROLES = (
    f"(SELECT {OWNER_OID} AS number, '{OWNER}' AS role UNION ALL"
    f" SELECT {ANALYST_OID}, {_LOGIN} WHERE {_LOGIN} <> '{OWNER}') AS roles"
)
"""The owner of all tables, and who asks: others' names are nobody's business."""
_TABLES = (
    "pgc.pg_class AS c JOIN pgc.pg_namespace AS n ON n.oid = c.relnamespace"
    f" WHERE n.nspname = '{PUBLIC}'"
)
_COLUMNS = (
    "pgc.pg_attribute AS a JOIN pgc.pg_class AS c ON a.attrelid = c.oid"
    " JOIN pgc.pg_namespace AS n ON n.oid = c.relnamespace"
    " JOIN pgc.pg_type AS t ON t.oid = a.atttypid"
    " JOIN pgc.sql_names AS s ON s.oid = a.atttypid"
)
_NUMBERS = "MAP {'int2': 16, 'int4': 32, 'int8': 64, 'float4': 24, 'float8': 53}[t.typname]"
_DECIMAL = "t.typname = 'numeric' AND a.atttypmod >= 4"


def _sql(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def _literals(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: _sql(value) for name, value in values.items()}


_ACCOUNT = {"usename": "role", "usesysid": "number", **_literals(USER)}
_IN_CATALOGUE = {
    "pg_roles": ({"oid": "number", "rolname": "role", **_literals(ROLE)}, _ROLES),
    "pg_authid": ({"oid": "number", "rolname": "role", **_literals(ROLE)}, _ROLES),
    "pg_user": (_ACCOUNT, _ROLES),
    "pg_shadow": (_ACCOUNT, _ROLES),
    "pg_database": ({"datname": _DATABASE, **_literals(DATABASE)}, "(SELECT 1)"),
}
_OF_TABLE = {"table_catalog": _DATABASE, "table_schema": "n.nspname", "table_name": "c.relname"}
_GRANTED = {
    **_OF_TABLE,
    "grantor": _sql(OWNER),
    "grantee": _LOGIN,
    "privilege_type": "'SELECT'",
    "is_grantable": "'NO'",
}
_ON_TABLE = {**_GRANTED, "with_hierarchy": "'YES'"}
_IN_INFORMATION = {
    "information_schema_catalog_name": ({"catalog_name": _DATABASE}, "(SELECT 1)"),
    "schemata": (
        {"catalog_name": _DATABASE, "schema_name": "nspname", "schema_owner": _sql(OWNER)},
        "pgc.pg_namespace",
    ),
    "tables": (
        {
            **_OF_TABLE,
            "table_type": "CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'BASE TABLE' END",
            "is_insertable_into": "'NO'",
            "is_typed": "'NO'",
        },
        "pgc.pg_class AS c JOIN pgc.pg_namespace AS n ON n.oid = c.relnamespace",
    ),
    "columns": (
        {
            **_OF_TABLE,
            "column_name": "a.attname",
            "ordinal_position": "a.attnum",
            "is_nullable": "'YES'",
            "data_type": "CASE WHEN t.typcategory = 'A' THEN 'ARRAY' ELSE s.sql END",
            "numeric_precision": (
                f"CASE WHEN {_DECIMAL} THEN (a.atttypmod - 4) >> 16 ELSE {_NUMBERS} END"
            ),
            "numeric_precision_radix": (
                f"CASE WHEN t.typname = 'numeric' THEN 10 WHEN {_NUMBERS} > 0 THEN 2 END"
            ),
            "numeric_scale": (
                f"CASE WHEN {_DECIMAL} THEN (a.atttypmod - 4) & 65535"
                " WHEN t.typname LIKE 'int_' THEN 0 END"
            ),
            "datetime_precision": (
                "CASE WHEN t.typname = 'date' THEN 0 WHEN t.typcategory = 'D' THEN 6 END"
            ),
            "udt_catalog": _DATABASE,
            "udt_schema": "'pg_catalog'",
            "udt_name": "t.typname",
            "dtd_identifier": "a.attnum::VARCHAR",
            "is_self_referencing": "'NO'",
            "is_identity": "'NO'",
            "is_generated": "'NEVER'",
            "is_updatable": "'NO'",
        },
        _COLUMNS,
    ),
    "table_privileges": (_ON_TABLE, _TABLES),
    "role_table_grants": (_ON_TABLE, _TABLES),
    "column_privileges": (
        {**_GRANTED, "column_name": "a.attname"},
        f"{_COLUMNS} WHERE n.nspname = '{PUBLIC}'",
    ),
    "enabled_roles": ({"role_name": _LOGIN}, "(SELECT 1)"),
    "character_sets": (
        {
            "character_set_name": "'UTF8'",
            "character_repertoire": "'UCS'",
            "form_of_use": "'UTF8'",
            "default_collate_catalog": _DATABASE,
        },
        "(SELECT 1)",
    ),
}


def views() -> Iterator[str]:
    """Yield the statements that make the views."""
    for name, (columns, origin) in _IN_CATALOGUE.items():
        yield _view(IN_CATALOGUE[name], columns, origin)
    for name, (columns, origin) in _IN_INFORMATION.items():
        yield _view(IN_INFORMATION[name], columns, origin)


NAMES = {*_IN_CATALOGUE, *_IN_INFORMATION}
"""Relations that are views in the twin; all others are tables."""


def _view(relation: Relation, columns: Mapping[str, str], origin: str) -> str:
    """Write a view with all columns of a relation; those not given are NULL."""
    assert columns.keys() <= relation.columns.keys(), relation.name  # noqa: S101
    listed = ", ".join(
        f'CAST({columns.get(name, "NULL")} AS {duckdb_type(type_)}) AS "{name}"'
        for name, type_ in relation.columns.items()
    )
    where = f"{SCHEMAS[relation.schema]}.{relation.name}"
    return f"CREATE VIEW {where} AS SELECT {listed} FROM {origin}"
