"""The twin reads no file, changes nothing, and takes neither time nor memory beyond limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpquery.server.catalogue import duckdb_catalogue as module
from dpquery.server.catalogue.duckdb_catalogue import Twin
from dpquery.server.catalogue.pg_catalog_rows import OWNER
from dpquery.server.catalogue.policy_tables import ShownTable
from dpquery.server.catalogue.refusals import Refused
from tests.server.catalogue.conftest import Asked
from tests.server.catalogue.test_statements import STATEMENTS

STATES = {"0A000", "42601", "42P01", "42704", "42883", "54000", "57014"}
OUTSIDE = """
SELECT * FROM read_text('/etc/passwd')
SELECT * FROM read_csv('/etc/passwd')
SELECT * FROM read_blob('/etc/passwd')
SELECT * FROM '/etc/passwd'
SELECT * FROM "/etc/passwd"
SELECT * FROM glob('/*')
SELECT pg_read_file('/etc/passwd')
SELECT pg_ls_dir('/')
SELECT lo_import('/etc/passwd')
SELECT getenv('HOME')
SELECT content FROM (SELECT read_text('/etc/passwd') AS content)
SELECT query('SELECT 1')
SELECT * FROM query('SELECT 1')
SELECT * FROM query_table('pg_class')
SELECT * FROM duckdb_settings()
SELECT * FROM duckdb_secrets()
SELECT * FROM pragma_version()
SELECT * FROM sqlite_master
SELECT * FROM own.staff
SELECT * FROM pgc.pg_class
SELECT * FROM memory.pgc.pg_class
SELECT getvariable('login')
SELECT nextval('x')
SELECT setseed(0.5)
SELECT write_log('x')
SELECT sleep_ms(100000)
SELECT repeat('x', 1000000000)
SELECT lpad('x', 1000000000, 'y')
COPY (SELECT 1) TO '/tmp/x'
COPY pg_class FROM '/etc/passwd'
ATTACH '/tmp/x.db'
INSTALL httpfs
LOAD httpfs
SET memory_limit = '10GB'
RESET memory_limit
PRAGMA enable_external_access
SET VARIABLE login = 'bob'
CREATE TABLE x (a int)
CREATE MACRO f() AS 1
INSERT INTO pg_class VALUES (1)
DELETE FROM pg_class
UPDATE pg_class SET relname = 'x'
DROP TABLE pg_class
SELECT 1 INTO x
SELECT 1; SELECT 2
CALL pragma_version()
EXPLAIN SELECT 1
VACUUM
DO 'x'
PREPARE x AS SELECT 1
WITH x AS (DELETE FROM pg_class RETURNING oid) SELECT * FROM x
WITH x AS (INSERT INTO pg_class VALUES (1) RETURNING oid) SELECT * FROM x
"""


@pytest.mark.parametrize("text", OUTSIDE.strip().splitlines())
def test_nothing_outside_is_reached(text: str, twin: Twin) -> None:
    with pytest.raises(Refused) as caught:
        twin.ask(text, (), (), "alice")
    assert caught.value.fault.sqlstate in STATES
    assert "root:" not in caught.value.fault.text


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/passwd')",
        "COPY (SELECT 1) TO '/tmp/x'",
        "ATTACH '/tmp/x.db'",
        "INSTALL httpfs",
        "SET memory_limit = '10GB'",
        "SET threads = 4",
        "SET enable_external_access = true",
    ],
)
def test_the_instance_is_locked_behind_the_lists(sql: str, twin: Twin) -> None:
    with pytest.raises(module.duckdb.Error):
        twin._connection.execute(sql)


def test_what_is_written_for_the_twin_runs_read_only(twin: Twin) -> None:
    for text in ("CREATE TABLE x (a INT)", "SET VARIABLE login = 'x'", "SELECT 1; SELECT 2"):
        with pytest.raises(Refused):
            twin._run(module.Written(text, (), frozenset()), (), "alice", {})


@pytest.fixture
def hasty(twin: Twin, monkeypatch: pytest.MonkeyPatch) -> Iterator[Twin]:
    monkeypatch.setattr(module, "MOST_ROWS", 5000)
    return twin


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM generate_series(1, 1000000000000)",
        "SELECT a.oid FROM pg_attribute b, pg_class a, pg_class c",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t)"
        " SELECT * FROM t LIMIT 6000",
        "SELECT unnest(ARRAY(SELECT a.attnum FROM pg_attribute a, pg_namespace b))",
    ],
)
def test_large_answers_are_cut_off(text: str, hasty: Twin) -> None:
    with pytest.raises(Refused) as caught:
        hasty.ask(text, (), (), "alice")
    assert caught.value.fault.sqlstate == "54000"
    assert hasty.ask("SELECT 1", (), (), "alice").num_rows == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "SELECT count(*) FROM generate_series(1, 1000000000000)",
        "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c, pg_attribute d",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t",
        "SELECT array_agg(a.attname || b.attname || c.attname)"
        " FROM pg_attribute a, pg_attribute b, pg_attribute c",
    ],
)
def test_long_statements_are_stopped(text: str, twin: Twin) -> None:
    with pytest.raises(Refused) as caught:
        twin.ask(text, (), (), "alice")
    assert caught.value.fault.sqlstate in {"57014", "0A000"}


def test_nobody_sees_who_else_asks(twin: Twin) -> None:
    for user in ("alice", "bob", OWNER, "x' OR '1' = '1"):
        names = twin.ask("SELECT rolname FROM pg_roles", (), (), user).column(0).to_pylist()
        assert sorted(names) == sorted({user, OWNER})


def test_no_path_is_told_of(asked: Asked) -> None:
    told = asked("SELECT description FROM pg_description")
    assert not any("/" in text or "parquet" in text or ".csv" in text for (text,) in told)


@pytest.fixture(scope="module")
def brief(shown: Sequence[ShownTable]) -> Twin:
    """Return a twin that lets go of a question soon."""
    return Twin(shown, seconds=0.2)


def only_rows_or_refusals(twin: Twin, text: str) -> None:
    for ask in (
        lambda: twin.ask(text, (), (), "alice"),
        lambda: twin.describe(text, (), "bob"),
    ):
        try:
            ask()
        except Refused as refused:
            assert refused.fault.sqlstate in STATES  # noqa: PT017 - rows are well too
    assert twin.ask("SELECT 1", (), (), "alice").num_rows == 1


WORDS = st.sampled_from(
    r"""
    SELECT FROM WHERE pg_class pg_type oid relname * ( ) , . :: regclass text [ ] '{1}' 'a' 1 $1
    = ~ ANY ALL NOT NULL AND OR UNION JOIN ON USING GROUP BY ORDER LIMIT CASE WHEN THEN END
    ARRAY CAST AS WITH RECURSIVE unnest count pg_catalog COLLATE OPERATOR E'\n' " -- /* */ ;
    """.split()  # noqa: SIM905 - it reads better than quoted
)
NO_DEADLINE = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@NO_DEADLINE
@given(
    st.one_of(st.text(max_size=80), st.binary(max_size=60).map(lambda b: b.decode("latin-1")))
)
def test_any_text_gives_rows_or_a_refusal(brief: Twin, text: str) -> None:
    only_rows_or_refusals(brief, text)


@NO_DEADLINE
@given(st.lists(WORDS, max_size=25))
def test_any_words_give_rows_or_a_refusal(brief: Twin, words: list[str]) -> None:
    only_rows_or_refusals(brief, " ".join(words))


@NO_DEADLINE
@given(st.data())
def test_mutated_statements_give_rows_or_a_refusal(brief: Twin, data: st.DataObject) -> None:
    short = [one.values[0] for one in STATEMENTS if len(one.values[0]) < 400]
    words = str(data.draw(st.sampled_from(short))).split(" ")
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(words) - 1))
        words[at] = data.draw(st.one_of(st.just(""), WORDS, st.sampled_from(words)))
    only_rows_or_refusals(brief, " ".join(words))
