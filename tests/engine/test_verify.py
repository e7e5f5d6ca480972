"""Texts that may not run are refused: at run time, by lists, whatever the tree says.

What the lists do not look at, such as on what a join is, is held against the tree in `verify/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpquery.core.privacy_loss import Neighbours
from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.engine.duckdb.quoting import text
from dpquery.engine.duckdb.scan_sql import ScanSQL
from dpquery.engine.duckdb.sql_allowlist import FUNCTIONS, Rehearsal, Verifier, parsed, shape_of
from dpquery.errors import InternalError
from tests.engine.verify.syntax import (
    LIST_FUNCTIONS,
    ROW_FUNCTIONS,
    SUM_FUNCTIONS,
    UNIT_FUNCTIONS,
    WINDOW_FUNCTIONS,
)
from tests.engine.verify.written import (
    BY_TABLE,
    JOIN,
    PARTED,
    PUBLIC,
    QUERIES,
    SEMI,
    TABLE,
    UNION,
    UNITS,
    Written,
    policy_and_public,
    texts,
)
from tests.relations import policy_over
from tests.worlds import receipt_for, write

RENDERED = ScanSQL.rows.func
ROW: dict[str, object] = {
    "unit": [1],
    "i": pa.array([7], pa.int32()),
    "j": [1],
    "d": [0.5],
    "k": ["a"],
    "c": pa.array([18300], pa.date32()),
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    with policy_and_public(tmp_path_factory.mktemp("written")) as made:
        yield made


@pytest.fixture(scope="module")
def verifier(written: Written) -> Iterator[Verifier]:
    made = Verifier()
    yield made
    made.close()


@pytest.fixture(scope="module")
def rehearsal(written: Written, verifier: Verifier) -> Rehearsal:
    return Rehearsal(verifier, {}, written.public)


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.parametrize("held", [False, True])
def test_what_the_generator_writes_may_run(
    written: Written, verifier: Verifier, rehearsal: Rehearsal, text: str, held: bool
):
    sql = written.sql(text, held=held)
    for query, table in texts(sql):
        verifier.require(sql, query, table)
    for query in () if held else sql.whole():
        rehearsal.plan(sql, query)


BROKEN = [
    # what is read
    (TABLE, '"t:t"', '"t:s"'),
    (TABLE, '"t:t"', "kept1"),
    (TABLE, '"t:t"', 'main."t:t"'),
    (TABLE, '"t:t"', 'temp.main."t:t"'),
    (TABLE, '"t:t"', "'t/1.parquet'"),
    (TABLE, '"t:t"', "read_parquet('t/1.parquet')"),
    (TABLE, '"t:t"', "duckdb_settings()"),
    (TABLE, r'"d"', '(SELECT max("d") FROM kept1)'),
    (TABLE, r" WHERE", ", kept1 WHERE"),
    (TABLE, r" WHERE", " TABLESAMPLE 10% WHERE"),
    (TABLE, r"JOIN \(VALUES", "JOIN kept1, (VALUES"),
    (TABLE, r"JOIN \(VALUES", "JOIN range(5), (VALUES"),
    (PUBLIC, "FROM p0", "FROM p1"),
    (UNION, "t:t", "t:u"),
    (TABLE, "^(.*)$", r"WITH kept1 AS (\1) SELECT * FROM kept1"),
    # rows without a unit
    (TABLE, r'\("unit" IS NOT NULL\) AND ', ""),
    (TABLE, r'\("unit" IS NOT NULL\) AND', '("unit" IS NOT NULL) OR'),
    (TABLE, r'\("unit" IS NOT NULL\) AND', 'NOT ("unit" IS NOT NULL) AND'),
    (TABLE, '"unit" IS NOT NULL', '"unit" IS NULL'),
    (TABLE, '"unit" IS NOT NULL', '"i" IS NOT NULL'),
    (TABLE, '"unit" IS NOT NULL', 'q."unit" IS NOT NULL'),
    (JOIN, r' WHERE \("unit" IS NOT NULL\)', ""),
    (SEMI, r'^(.*) WHERE \("unit" IS NOT NULL\)', r"\1"),
    (PARTED, r'(min.*) WHERE "unit" IS NOT NULL', r"\1"),
    (BY_TABLE, r'^(.*) WHERE \("unit" IS NOT NULL\)', r"\1"),
    (TABLE, r'FROM ("t:t") WHERE', r"FROM \1 JOIN \1 ON TRUE WHERE"),
    # what is called
    (TABLE, r"left\(", "hash("),
    (TABLE, r"left\(", "getenv("),
    (TABLE, r"left\(", "main.left("),
    (TABLE, r"count\(", "random("),
    (UNITS, r"max\(", "first("),
    (UNITS, r"max\(", "nextval("),
    (TABLE, "$", " ORDER BY random()"),
    # what kind of statement it is
    (TABLE, "$", "; SELECT 1"),
    (TABLE, "$", " LIMIT 3"),
    (TABLE, "^SELECT", "SELECT DISTINCT"),
    (TABLE, "^", "EXPLAIN "),
    (TABLE, "^.*$", "DROP TABLE kept1"),
    (TABLE, "^.*$", "SET threads = 3"),
    (TABLE, "^(.*)$", r"COPY (\1) TO 'copy.csv'"),
    (TABLE, "^(.*)$", r"CREATE TABLE x AS \1"),
    (TABLE, "^.*$", "DESCRIBE kept1"),
    (TABLE, "^.*$", "SELECT 'unclosed"),
    (TABLE, r"\(VALUES", "(PIVOT kept1 ON a), (VALUES"),
    (TABLE, "m0 FROM", "$1 FROM"),
]


@pytest.mark.parametrize(("text", "find", "put"), BROKEN)
def test_what_may_not_run_is_refused(
    written: Written, verifier: Verifier, text: str, find: str, put: str
):
    sql = written.sql(text)
    for query in sql.whole():
        changed = re.sub(find, put, query, count=1)
        assert changed != query
        with pytest.raises(InternalError):
            verifier.require(sql, changed)


@pytest.mark.parametrize(
    ("text", "find", "put"),
    [
        (TABLE, 'SELECT "unit" AS u', 'SELECT "person" AS u'),
        (TABLE, r"left\(", "lag("),
        (TABLE, "GROUP BY g0", "GROUP BY g1"),
        (TABLE, '"unit" AS u', 'sum("i") AS u'),
        (UNITS, "GROUP BY u, ", "GROUP BY "),
        (PUBLIC, '"name"', '"nome"'),
    ],
)
def test_what_cannot_be_planned_is_found_before_it_is_charged(
    written: Written, verifier: Verifier, rehearsal: Rehearsal, text: str, find: str, put: str
):
    """What a list of functions lets pass can still be no query."""
    sql = written.sql(text)
    for query in sql.whole():
        changed = re.sub(find, put, query, count=1)
        assert changed != query
        verifier.require(sql, changed)
        with pytest.raises(InternalError):
            rehearsal.plan(sql, changed)


def test_texts_that_differ_in_constants_alone_are_planned_once(
    written: Written, monkeypatch: pytest.MonkeyPatch
):
    verifier = Verifier()
    rehearsal, planned = Rehearsal(verifier, {}, written.public), []
    (query,) = written.sql(TABLE).whole()
    rehearsal.plan(written.sql(TABLE), query)

    class Watched:
        """The verifier's instance, which is told what is planned."""

        def __getattr__(self, name: str) -> object:
            return getattr(verifier.prepare().result(), name)

        def sql(self, text: str) -> object:
            planned.append(text)
            return verifier.prepare().result().sql(text)

    monkeypatch.setattr(Verifier, "connection", Watched())
    for asked, count in [(TABLE.replace("3", "4"), 0), (TABLE.replace("i > 3", "j > 3"), 1)]:
        sql = written.sql(asked)
        for one in sql.whole():
            rehearsal.plan(sql, one)
        assert len(planned) == count
    verifier.close()


PIECES = [*"'$\"eE01.- \n()[]*/+,x?;\\é", "''", "--", "$$", " OR ", "f(", "e'", "27"]
NUMBERS = st.decimals("0", "1e20", places=2).map(lambda one: f"{one:f}")
TEXTS = st.text(st.sampled_from("'$\"\\-/*é x0")).map(text)


@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join) | NUMBERS | TEXTS)
@example("'' || $$'$$ || f() || $$'$$ || ''")
def test_texts_of_one_shape_differ_in_constants_alone(verifier: Verifier, constant: str):
    query = "SELECT a FROM t WHERE y = {} AND z"
    shape, tree = shape_of(query.format(constant)), None
    for mark in ("0", "''"):
        if shape == shape_of(query.format(mark)):
            tree = parsed(verifier.connection, query.format(constant))
            assert valueless(tree) == valueless(parsed(verifier.connection, query.format(mark)))
    assert tree is not None or not re.fullmatch(r"'(''|[^'])*'|\d+\.\d+", constant)


def valueless(tree: object) -> object:
    """Return a parsed text without where things stand in it, and what constants are."""
    if isinstance(tree, list):
        return [*map(valueless, tree)]
    if not isinstance(tree, dict) or tree.get("class") == "CONSTANT":
        return tree if not isinstance(tree, dict) else "CONSTANT"
    return {key: valueless(part) for key, part in tree.items() if "location" not in key}


def test_what_passed_for_one_scan_is_checked_again_for_another(
    written: Written, verifier: Verifier
):
    sql, other = written.sql(TABLE), written.sql(UNION.replace("FROM t", "FROM s"))
    for query in sql.whole():
        verifier.require(sql, query)
        with pytest.raises(InternalError):
            verifier.require(other, query)
        with pytest.raises(InternalError):
            verifier.require(sql, query, "held7")


def test_rows_are_read_from_the_view_of_their_table(written: Written):
    verifier, sql = Verifier(), written.sql(TABLE)
    for name, passes in [
        ('"t:t"', True),
        ('"/data/base.duckdb".main."t:t"', False),
        ('temp."t:t"', False),
        ("t", False),
    ]:
        query = f'SELECT "unit" FROM {name} WHERE "unit" IS NOT NULL'
        if passes:
            verifier.require(sql, query)
        else:
            with pytest.raises(InternalError):
                verifier.require(sql, query)
    verifier.close()


def test_the_closed_list_is_what_the_generator_can_need():
    needed = ROW_FUNCTIONS | SUM_FUNCTIONS | UNIT_FUNCTIONS | WINDOW_FUNCTIONS
    assert needed | LIST_FUNCTIONS | {"row"} == FUNCTIONS


def test_an_engine_checks_what_it_runs(
    written: Written, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    paths = {name: [write(tmp_path / f"{name}.parquet", **ROW)] for name in "ts"}
    policy = policy_over(paths, tmp_path, Neighbours.ADD_REMOVE)
    engine = DuckDBEngine(policy, FaultLog(None), written.public)
    plan = Written(policy, written.public).plan(TABLE)
    engine.open(plan.frontiers[0].scan, receipt_for(plan), 0).close()
    rows = cached_property(lambda sql: RENDERED(sql).replace('"unit" IS NOT NULL', "TRUE", 1))
    rows.__set_name__(ScanSQL, "rows")
    monkeypatch.setattr(ScanSQL, "rows", rows)
    other = Written(policy, written.public).plan(TABLE.replace("3", "4"))
    with pytest.raises(InternalError):
        engine.rehearse(other.frontiers[0].scan)
    engine.close()  # with the columns that it keeps, whose rows have units
    with pytest.raises(InternalError):
        engine.open(other.frontiers[0].scan, receipt_for(other), 0)
    engine.close()
