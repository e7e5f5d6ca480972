"""What clients send as they connect and look around is answered, with what PostgreSQL says."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpquery.server.catalogue.duckdb_catalogue import Twin
from dpquery.server.catalogue.pg_parser import Wanted
from dpquery.server.catalogue.refusals import Refused
from tests.server.catalogue.conftest import Asked

RECORDED = sorted((Path(__file__).parent / "statements").glob("*.sql"))
STATEMENTS = [
    pytest.param(line, id=f"{file.stem}-{number}")
    for file in RECORDED
    for number, line in enumerate(file.read_text().splitlines(), 1)
    if not line.startswith("--")
]
STAFF = 16384


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_tool_is_answered(text: str, twin: Twin, shown: object) -> None:
    assert Wanted(shown).wants(text)
    oids, schema = twin.describe(text, (), "alice")
    assert oids == []
    assert twin.ask(text, (), (), "alice").schema.equals(schema)


def test_psql_lists_tables(asked: Asked) -> None:
    [text] = [s.values[0] for s in STATEMENTS if "relkind IN ('r','p','')" in s.values[0]][:1]
    assert asked(text)[0][:4] == ("public", "regions", "table", "dpquery")


def test_psql_describes_columns(asked: Asked) -> None:
    rows = asked(
        "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),"
        " pg_catalog.col_description(a.attrelid, a.attnum) FROM pg_catalog.pg_attribute a"
        f" WHERE a.attrelid = '{STAFF}' AND a.attnum > 0 ORDER BY a.attnum"
    )
    assert rows == [
        ("person_id", "bigint", None),
        ("dept", "text", "keys 'eng', 'hr', 'legal', 'ops', 'sales'"),
        ("age", "bigint", "bounds 18 to 70"),
        ("salary", "bigint", "bounds 0 to 200000"),
        ("bonus", "double precision", "bounds 0 to 50000"),
        ("rating", "numeric(3,1)", "bounds 1 to 5"),
        ("hired", "date", "bounds 2000-01-01 to 2025-12-31"),
        ("remote", "boolean", None),
    ]


def test_comments_state_the_unit_and_its_bounds(asked: Asked) -> None:
    rows = asked(
        "SELECT relname, obj_description(oid, 'pg_class') FROM pg_class"
        " WHERE relnamespace = 'public'::regnamespace ORDER BY 1"
    )
    assert rows == [
        ("regions", "public: what it holds is shown exactly; unique by region"),
        (
            "staff",
            "privacy unit: person_id; one row per unit; answers are aggregates with noise",
        ),
        (
            "visits",
            "privacy unit: person_id; rows of a unit that count: 10;"
            " answers are aggregates with noise",
        ),
    ]


def test_information_schema_tells_types(asked: Asked) -> None:
    rows = asked(
        "SELECT column_name, data_type, numeric_precision, numeric_scale, udt_name"
        " FROM information_schema.columns WHERE table_name = 'visits' ORDER BY ordinal_position"
    )
    assert rows == [
        ("person_id", "bigint", 64, 0, "int8"),
        ("day", "date", None, None, "date"),
        ("region", "text", None, None, "text"),
        ("minutes", "bigint", 64, 0, "int8"),
        ("spent", "numeric", 9, 2, "numeric"),
        ("at", "timestamp without time zone", None, None, "timestamp"),
    ]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT current_user, session_user, user", [("alice", "alice", "alice")]),
        ("SELECT current_schema(), current_database()", [("public", "dpquery")]),
        ("SELECT version()", [("PostgreSQL 15.0 (dpquery)",)]),
        ("SELECT current_setting('server_version_num')::int / 10000", [(15,)]),
        ("SHOW server_version", None),
        ("SELECT rolname FROM pg_roles ORDER BY 1", [("alice",), ("dpquery",)]),
        ("SELECT 'staff'::regclass::oid, 'public.\"staff\"'::regclass::oid", [(16384, 16384)]),
        ("SELECT oid::regclass::text FROM pg_class WHERE oid = 16385", [("visits",)]),
        ("SELECT format_type(oid, NULL) FROM pg_type WHERE oid IN (23, 1007) ORDER BY oid",
         [("integer",), ("integer[]",)]),
        ("SELECT format('%I.%s', 'A b', 1)", [('"A b".1',)]),
        ("SELECT has_table_privilege('staff', 'SELECT')", [(True,)]),
        ("SELECT has_table_privilege('staff', 'INSERT')", [(False,)]),
        ("VALUES (1, 'a'), (2, 'b')", [(1, "a"), (2, "b")]),
        ("WITH t AS (SELECT 7 / 2 AS n) SELECT n FROM t", [(3,)]),
        ("SELECT to_regclass('nothing') IS NULL", [(True,)]),
    ],
)  # fmt: skip
def test_sessions_and_names(text: str, rows: object, asked: Asked) -> None:
    if rows is None:
        with pytest.raises(Refused):
            asked(text)
    else:
        assert asked(text) == rows


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT 1, 'a', NULL::int, count(*) FROM pg_class",
         ["?column?", "?column?", "int4", "count"]),
        ("SELECT oid, relname::text, (SELECT max(oid) FROM pg_type) FROM pg_class",
         ["oid", "relname", "max"]),
        ("SELECT relname AS TABLE_NAME, relname AS \"Name\" FROM pg_class",
         ["table_name", "Name"]),
        ("SELECT c.oid, c.oid FROM pg_class c", ["oid", "oid"]),
        ("SELECT CASE WHEN true THEN 1 END, EXISTS (SELECT 1), 1::text",
         ["case", "exists", "text"]),
    ],
)  # fmt: skip
def test_columns_are_called_as_postgresql_calls_them(
    text: str, names: list[str], twin: Twin
) -> None:
    assert twin.ask(text, (), (), "alice").schema.names == names
    assert twin.describe(text, (), "alice")[1].names == names


@pytest.mark.parametrize(
    ("text", "oids"),
    [
        ("SELECT 1 FROM pg_class WHERE relname = $1 AND oid = $2", [25, 26]),
        ("SELECT 1 FROM pg_type WHERE oid = ANY($1) OR typname = ANY($2)", [1028, 1009]),
        ("SELECT $1::oid[], $2::regclass, $3::bool", [1028, 25, 16]),
        ("SELECT 1 FROM pg_class LIMIT $1", [20]),
        ("SELECT age FROM staff WHERE rating > $1 AND hired = $2 LIMIT 0", [1700, 1082]),
        ("SELECT $1", [25]),
    ],
)
def test_types_of_parameters_are_found(text: str, oids: list[int], twin: Twin) -> None:
    assert twin.describe(text, (), "alice")[0] == oids
    assert twin.describe(text, oids, "alice")[0] == oids
    assert twin.describe("SELECT $1", [20], "alice")[0] == [20]


def test_parameters_take_values_and_texts(asked: Asked) -> None:
    text = "SELECT relname FROM pg_class WHERE oid = ANY($1) ORDER BY 1"
    assert asked(text, [16384, 16385]) == asked(text, "{16384,16385}")
    assert asked("SELECT oid FROM pg_class WHERE relname = $1", "staff") == [(16384,)]
    assert asked("SELECT $1::regclass::oid", "staff") == [(16384,)]


@pytest.mark.parametrize(
    ("text", "sqlstate", "words"),
    [
        ("SELECT * FROM pg_nothing", "42P01", 'relation "pg_nothing" does not exist'),
        ("SELECT * FROM pg_catalog.staff", "42P01",
         'relation "pg_catalog.staff" does not exist'),
        ("SELECT 'nothing'::regclass", "42P01", 'relation "nothing" does not exist'),
        ("SELECT 1::nothing", "42704", 'type "nothing" does not exist'),
        ("SELECT nothing(1)", "42883", "function nothing does not exist"),
        ("SELECT current_setting('nothing')", "42704",
         'unrecognized configuration parameter "nothing"'),
        ("SELECT count(*) FROM staff, pg_class", "0A000",
         "a statement reads either the catalogue or the tables of the policy, not both"),
        ("SELECT * FROM staff", "0A000", "rows are not listed: ask for aggregates of them"),
        ("SELECT nothing FROM pg_class", "0A000",
         "this question about the catalogue is not supported"),
        ("SELECT FROM WHERE", "42601", "this question about the catalogue cannot be read"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_an_error(
    text: str, sqlstate: str, words: str, twin: Twin
) -> None:
    with pytest.raises(Refused) as caught:
        twin.ask(text, (), (), "alice")
    assert (caught.value.fault.sqlstate, caught.value.fault.text) == (sqlstate, words)
