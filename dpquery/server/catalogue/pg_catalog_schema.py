"""The relations and types of PostgreSQL 15, by name: what clients may ask the catalogue for.

`relations.txt` has a line for each relation: its schema and name, its number, its kind, and
its columns with their types. `types.txt` has one for each type that a column or a client can
name: number, name, kind, category, length, whether it is passed by value, whether its category
prefers it, the number of its array, the function that reads it, and its name in SQL.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

CATALOGUE, INFORMATION, PUBLIC = "pg_catalog", "information_schema", "public"
SCHEMAS = {CATALOGUE: "pgc", INFORMATION: "pgi", PUBLIC: "own"}
"""By PostgreSQL's name of a schema: the twin's, which has a catalogue of its own."""
NAMESPACES = {CATALOGUE: 11, PUBLIC: 2200, INFORMATION: 13000}
FIRST_OID = 16384
"""Of what a user makes."""


@dataclass(frozen=True, slots=True)
class PgType:
    """A type that is no array."""

    oid: int
    name: str
    kind: str
    category: str
    length: int
    by_value: bool
    preferred: bool
    array: int
    """The number of its array; 0: there is none."""
    reader: str
    """The function that reads its text."""
    sql: str

    @property
    def receiver(self) -> str:
        """The function that reads its bytes."""
        return f"{self.reader.removesuffix('in')}recv"


@dataclass(frozen=True, slots=True)
class Relation:
    """A table or a view of the catalogue."""

    schema: str
    name: str
    oid: int
    kind: str
    columns: dict[str, str]
    """The type of each, by name."""


def _lines(name: str) -> list[str]:
    return files(__package__).joinpath(name).read_text(encoding="utf-8").splitlines()


def _type(line: str) -> PgType:
    oid, name, kind, category, length, value, preferred, array, reader, sql = line.split(" ", 9)
    flags = (value == "t", preferred == "t")
    return PgType(int(oid), name, kind, category, int(length), *flags, int(array), reader, sql)


def _relation(line: str) -> Relation:
    head, _, columns = line.partition(": ")
    whole, oid, kind = head.split(" ")
    schema, _, name = whole.partition(".")
    typed = (column.split(" ") for column in columns.split(", "))
    return Relation(schema, name, int(oid), kind, {name: type_ for name, type_ in typed})


TYPES = tuple(map(_type, _lines("types.txt")))
BY_NAME = {one.name: one for one in TYPES}
BY_OID = {one.oid: one for one in TYPES}
ELEMENTS = {one.array: one for one in TYPES if one.array}
"""By the number of an array: what it is of."""
RELATIONS = tuple(map(_relation, _lines("relations.txt")))
IN_CATALOGUE = {one.name: one for one in RELATIONS if one.schema == CATALOGUE}
IN_INFORMATION = {one.name: one for one in RELATIONS if one.schema == INFORMATION}
REGPROCS = {n for one in RELATIONS for n, type_ in one.columns.items() if type_ == "regproc"}
"""Columns that hold a function, which stands in the twin under its name."""

_DUCKDB = {
    "bool": "BOOLEAN",
    "bytea": "BLOB",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "float4": "REAL",
    "float8": "DOUBLE",
    "numeric": "DECIMAL(38, 6)",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "interval": "INTERVAL",
    "uuid": "UUID",
    **dict.fromkeys(("oid", "xid", "cid", "regclass", "regtype"), "UINTEGER"),
    "int2vector": "SMALLINT[]",
    "oidvector": "UINTEGER[]",
}
"""Types that the twin does not hold as text."""


def duckdb_type(name: str) -> str:
    """Return the twin's name of a type by PostgreSQL's, which may be that of an array.

    >>> duckdb_type("int8"), duckdb_type("name[]"), duckdb_type("pg_node_tree")
    ('BIGINT', 'VARCHAR[]', 'VARCHAR')
    """
    inner = name.removesuffix("[]")
    return _DUCKDB.get(inner, "VARCHAR") + name[len(inner) :]


def duckdb_of(oid: int, modifier: int = -1) -> str:
    """Return the twin's name of a type by its number; of one that is not known, text."""
    if oid in ELEMENTS:
        return f"{duckdb_of(ELEMENTS[oid].oid, modifier)}[]"
    if oid == BY_NAME["numeric"].oid and modifier >= 4:
        precision, scale = divmod(modifier - 4, 1 << 16)
        return f"DECIMAL({precision}, {scale})"
    return duckdb_type(BY_OID[oid].name) if oid in BY_OID else "VARCHAR"


def oid_of(name: str) -> int:
    """Return the number of a type of a column; of arrays that have none, an array of texts."""
    found = BY_NAME.get(name.removesuffix("[]"), BY_NAME["text"])
    return found.array or BY_NAME["text"].array if name.endswith("[]") else found.oid


@cache
def oids_by_column() -> dict[str, int]:
    """Return the number of a column's type by its name, which tells it nearly always."""
    return {name: oid_of(t) for one in reversed(RELATIONS) for name, t in one.columns.items()}
