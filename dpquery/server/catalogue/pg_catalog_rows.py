"""What stands in the twin's catalogue: a database of the policy's tables, and no more."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from dpquery.server.catalogue.pg_catalog_schema import (
    BY_OID,
    CATALOGUE,
    ELEMENTS,
    FIRST_OID,
    IN_CATALOGUE,
    NAMESPACES,
    PUBLIC,
    RELATIONS,
    TYPES,
    PgType,
    Relation,
    oid_of,
)
from dpquery.server.catalogue.policy_tables import ShownTable

OWNER, OWNER_OID, DATABASE_OID, TABLESPACE_OID, HEAP, ANALYST_OID = (
    "dpquery",
    10,
    5,
    1663,
    2,
    16383,
)
VERSION = "15.0"
"""Of PostgreSQL: clients choose by it what they ask."""
SETTINGS = {
    "application_name": "",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
    "client_min_messages": "notice",
    "DateStyle": "ISO, MDY",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "on",
    "dp.delta": "",
    "dp.eps": "",
    "dp.refresh": "off",
    "enable_seqscan": "on",
    "extra_float_digits": "1",
    "idle_in_transaction_session_timeout": "0",
    "integer_datetimes": "on",
    "IntervalStyle": "postgres",
    "is_superuser": "off",
    "jit": "off",
    "lc_collate": "C",
    "lc_ctype": "C",
    "lc_messages": "C",
    "lock_timeout": "0",
    "max_connections": "100",
    "max_identifier_length": "63",
    "max_index_keys": "32",
    "role": "none",
    "row_security": "on",
    "search_path": '"$user", public',
    "server_encoding": "UTF8",
    "server_version": VERSION,
    "server_version_num": "150000",
    "standard_conforming_strings": "on",
    "statement_timeout": "0",
    "TimeZone": "UTC",
    "transaction_isolation": "read committed",
    "transaction_read_only": "on",
}
"""What `pg_settings` says, and `current_setting` where a session has set nothing else."""

Row = dict[str, Any]


def rows(tables: Sequence[ShownTable]) -> dict[str, list[Row]]:
    """Return the rows of each relation of `pg_catalog`; columns that are not named are NULL."""
    made: dict[str, list[Row]] = {
        "pg_namespace": [
            {"oid": oid, "nspname": name, "nspowner": OWNER_OID}
            for name, oid in NAMESPACES.items()
        ],
        "pg_am": [{"oid": HEAP, "amname": "heap", "amtype": "t"}],
        "pg_tablespace": [
            {"oid": TABLESPACE_OID, "spcname": "pg_default", "spcowner": OWNER_OID}
        ],
        "pg_collation": [_COLLATION],
        "pg_language": [{"oid": 12, "lanname": "internal", "lanowner": OWNER_OID}],
        "pg_settings": [_setting(*one) for one in SETTINGS.items()],
        "pg_type": [*_types()],
        "pg_proc": [*_procedures()],
        "pg_class": [*map(_of_catalogue, RELATIONS)],
        "pg_attribute": [one for relation in RELATIONS for one in _attributes(relation)],
        "pg_tables": [],
        "pg_description": [],
        "pg_stat_gssapi": [{"pid": 0, "gss_authenticated": False, "encrypted": False}],
    }
    for oid, table in enumerate(tables, FIRST_OID):
        for name, row in _of_table(oid, table):
            made[name].append(row)
    return made


_COLLATION = {
    "oid": 100,
    "collname": "default",
    "collnamespace": NAMESPACES[CATALOGUE],
    "collowner": OWNER_OID,
    "collprovider": "d",
    "collisdeterministic": True,
    "collencoding": -1,
}
DATABASE = {
    "oid": DATABASE_OID,
    "datdba": OWNER_OID,
    "encoding": 6,
    "datlocprovider": "c",
    "datistemplate": False,
    "datallowconn": True,
    "datconnlimit": -1,
    "datcollate": "C",
    "datctype": "C",
    "dattablespace": TABLESPACE_OID,
}
"""Its name is the one that a client gave."""
ROLE = {
    "rolsuper": False,
    "rolinherit": True,
    "rolcreaterole": False,
    "rolcreatedb": False,
    "rolcanlogin": True,
    "rolreplication": False,
    "rolbypassrls": False,
    "rolconnlimit": -1,
}
USER = {"usecreatedb": False, "usesuper": False, "userepl": False, "usebypassrls": False}
_RELATION = {
    "reltype": 0,
    "reloftype": 0,
    "relowner": OWNER_OID,
    "relam": HEAP,
    "relfilenode": 0,
    "reltablespace": 0,
    "relpages": 0,
    "reltuples": -1.0,
    "relallvisible": 0,
    "reltoastrelid": 0,
    "relhasindex": False,
    "relisshared": False,
    "relpersistence": "p",
    "relchecks": 0,
    "relhasrules": False,
    "relhastriggers": False,
    "relhassubclass": False,
    "relrowsecurity": False,
    "relforcerowsecurity": False,
    "relispopulated": True,
    "relreplident": "d",
    "relispartition": False,
    "relrewrite": 0,
    "relfrozenxid": 0,
    "relminmxid": 0,
}
_ATTRIBUTE = {
    "attstattarget": -1,
    "attndims": 0,
    "attcacheoff": -1,
    "attalign": "d",
    "attstorage": "p",
    "attcompression": "",
    "attnotnull": False,
    "atthasdef": False,
    "atthasmissing": False,
    "attidentity": "",
    "attgenerated": "",
    "attisdropped": False,
    "attislocal": True,
    "attinhcount": 0,
    "attcollation": 0,
}
_TYPE = {
    "typnamespace": NAMESPACES[CATALOGUE],
    "typowner": OWNER_OID,
    "typisdefined": True,
    "typdelim": ",",
    "typrelid": 0,
    "typelem": 0,
    "typarray": 0,
    "typmodin": "-",
    "typmodout": "-",
    "typanalyze": "-",
    "typsubscript": "-",
    "typalign": "i",
    "typstorage": "p",
    "typnotnull": False,
    "typbasetype": 0,
    "typtypmod": -1,
    "typndims": 0,
    "typcollation": 0,
    "typispreferred": False,
}


def _setting(name: str, value: str) -> Row:
    kinds = {"context": "user", "vartype": "string", "source": "default"}
    values = dict.fromkeys(("setting", "boot_val", "reset_val"), value)
    told = {"name": name, "category": "Client", "short_desc": ""}
    return {**told, **values, **kinds, "pending_restart": False}


def _types() -> Iterator[Row]:
    for one in TYPES:
        yield {
            **_TYPE,
            **_functions(one.reader, one.receiver),
            "oid": one.oid,
            "typname": one.name,
            "typlen": one.length,
            "typbyval": one.by_value,
            "typtype": one.kind,
            "typcategory": one.category,
            "typispreferred": one.preferred,
            "typarray": one.array,
        }
        if one.array:
            yield _array_of(one)


def _array_of(one: PgType) -> Row:
    return {
        **_TYPE,
        **_functions("array_in", "array_recv"),
        "oid": one.array,
        "typname": f"_{one.name}",
        "typlen": -1,
        "typbyval": False,
        "typtype": "b",
        "typcategory": "A",
        "typelem": one.oid,
        "typsubscript": "array_subscript_handler",
    }


def _functions(reader: str, receiver: str) -> Row:
    """Return what reads and writes a type: clients tell types apart by it."""
    name = reader.removesuffix("in")
    writers = {"typoutput": f"{name}out", "typsend": f"{name}send"}
    return {"typinput": reader, "typreceive": receiver, **writers}


def _procedures() -> Iterator[Row]:
    """Yield the functions that types name, so that clients find them by number."""
    for oid, name in enumerate(PROCEDURES, 2001):
        yield {
            "oid": oid,
            "proname": name,
            "pronamespace": NAMESPACES[CATALOGUE],
            "proowner": OWNER_OID,
            "prolang": 12,
            "prokind": "f",
            "prosecdef": False,
            "proleakproof": False,
            "proisstrict": True,
            "proretset": False,
            "provolatile": "i",
            "proparallel": "s",
            "pronargs": 1,
            "pronargdefaults": 0,
            "provariadic": 0,
            "prorettype": 2275,
            "proargtypes": [],
            "prosrc": name,
        }


_READERS = dict.fromkeys([*(one.reader for one in TYPES), "array_in"])
PROCEDURES = [
    f"{one.removesuffix('in')}{way}"
    for one in _READERS
    for way in ("in", "out", "recv", "send")
]
"""The functions of the catalogue: what reads and writes types."""


def _of_catalogue(relation: Relation) -> Row:
    return {
        **_RELATION,
        "oid": relation.oid,
        "relname": relation.name,
        "relnamespace": NAMESPACES[relation.schema],
        "relkind": relation.kind,
        "relnatts": len(relation.columns),
    }


def _attributes(relation: Relation) -> Iterator[Row]:
    for number, (name, type_) in enumerate(relation.columns.items(), 1):
        yield _attribute(relation.oid, number, name, oid_of(type_), -1)


def _attribute(table: int, number: int, name: str, oid: int, modifier: int) -> Row:
    type_ = BY_OID.get(oid)
    return {
        **_ATTRIBUTE,
        "attrelid": table,
        "attname": name,
        "atttypid": oid,
        "attlen": -1 if type_ is None else type_.length,
        "attnum": number,
        "attndims": int(oid in ELEMENTS),
        "atttypmod": modifier,
        "attbyval": type_ is not None and type_.by_value,
    }


def _of_table(oid: int, table: ShownTable) -> Iterator[tuple[str, Row]]:
    """Yield what the catalogue has of one table of the policy, with the relation it is of."""
    yield (
        "pg_class",
        {
            **_RELATION,
            "oid": oid,
            "relname": table.name,
            "relnamespace": NAMESPACES[PUBLIC],
            "relkind": "r",
            "relnatts": len(table.columns),
        },
    )
    flags = dict.fromkeys(("hasindexes", "hasrules", "hastriggers", "rowsecurity"), False)
    named = {"schemaname": PUBLIC, "tablename": table.name, "tableowner": OWNER}
    yield "pg_tables", {**named, **flags}
    yield "pg_description", _comment(oid, 0, table.comment)
    for number, column in enumerate(table.columns, 1):
        given = (oid, number, column.name, column.type, column.modifier)
        yield "pg_attribute", _attribute(*given)
        if column.comment is not None:
            yield "pg_description", _comment(oid, number, column.comment)


def _comment(oid: int, number: int, text: str) -> Row:
    classes = IN_CATALOGUE["pg_class"].oid
    return {"objoid": oid, "classoid": classes, "objsubid": number, "description": text}


def sql_names() -> Iterable[tuple[int, str]]:
    """Return the name of each type in SQL by its number, arrays too."""
    for one in TYPES:
        yield one.oid, one.sql
        if one.array:
            yield one.array, f"{one.sql}[]"
