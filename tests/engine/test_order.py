"""What a unit's rows become does not depend on other units, on their order, or on threads.

A million rows of a hundred thousand units, asked three times: as they are; shuffled, with a
unit of many rows put first, by one thread; and the same by eight. Every construct that makes
rows of rows gives every other unit the same rows each time, to the last bit of a double.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.source_text import Source
from dpquery.core.types import DOUBLE, INTEGER
from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.clamped_table_sql import Place
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.engine.duckdb.public_engine import PublicEngine
from dpquery.engine.duckdb.quoting import quoted
from dpquery.engine.duckdb.relation_sql import Nested
from dpquery.engine.duckdb.sources.source_views import define
from dpquery.engine.file_checks import fingerprint
from dpquery.ir.expr import ColumnRef
from dpquery.ir.query import columns_read
from dpquery.ir.relations import numbers, tables_of
from dpquery.plan.plan import make_plan
from dpquery.policy.model import Bounds, Column, Policy
from dpquery.sql.binder import bind
from dpquery.sql.parse.parser import parse
from dpquery.sql.privacy_rules import check
from tests.relations import policy_over
from tests.worlds import private_table, world, write

ROWS, UNITS, STRANGER = 1_000_000, 100_000, -1
MADE = f"""
SELECT CAST(hash(n, {{seed}}) % {UNITS} AS BIGINT) AS unit,
       CAST(hash(n, 1) % 211 AS INTEGER) - 105 AS i,
       CAST(hash(n, 2) % 23 AS BIGINT) - 5 AS j,
       CASE hash(n, 3) % 7 WHEN 0 THEN -0.0 WHEN 1 THEN 0.0 WHEN 2 THEN 'inf'::DOUBLE
            WHEN 3 THEN 'nan'::DOUBLE WHEN 4 THEN NULL
            ELSE (hash(n, 4) % 100003) / 997.0 END AS d,
       ['a', 'b', 'abc', 'other', NULL][CAST(hash(n, 5) % 5 AS BIGINT) + 1] AS k,
       CAST('2020-01-01' AS DATE) + CAST(hash(n, 6) % 100 AS INTEGER) AS c
FROM range({{rows}}) AS r(n)
"""
COLUMNS = "x.unit AS unit, x.i AS i, y.j AS j, y.d AS d, x.k AS k"
RELATIONS = {
    "filter": "SELECT unit, i + j AS i, j, d * 3e-1 AS d, k FROM t WHERE d > 1 OR k = 'a'",
    "join": f"SELECT {COLUMNS} FROM t x JOIN s y ON x.unit = y.unit AND x.i > y.i",
    "left join": f"SELECT {COLUMNS} FROM t x LEFT JOIN s y ON x.unit = y.unit AND y.j = 0",
    "full join": "SELECT unit, x.i AS i, y.j AS j, y.d AS d, x.k AS k "
    "FROM (SELECT * FROM t WHERE i > 90) x FULL JOIN (SELECT * FROM s WHERE j = 9) y "
    "USING (unit)",
    "public": "SELECT x.unit AS unit, r.size AS i, x.j AS j, r.share AS d, r.zone AS k "
    "FROM t x LEFT JOIN regions r ON x.k = r.name",
    "semi": "SELECT unit, i, j, d, k FROM t WHERE unit NOT IN (SELECT unit FROM s WHERE i > 9)",
    "union": "SELECT unit, i, j, d, k FROM t UNION ALL SELECT unit, j, i, d, k FROM s",
    "distinct": "SELECT DISTINCT unit, i, j, d, k FROM t",
    "per unit": "SELECT unit, SUM(i) AS i, COUNT(DISTINCT k) AS j, SUM(d) AS d, MAX(k) AS k "
    "FROM t GROUP BY unit",
    "per unit and key": "SELECT unit, COUNT(*) AS i, MIN(j) AS j, AVG(d) AS d, k "
    "FROM t GROUP BY unit, k HAVING COUNT(*) > 1",
    "least and largest": "SELECT unit, MIN(i) AS i, MAX(j) AS j, MIN(d) AS d, MIN(k) AS k "
    "FROM t GROUP BY unit",
    "numbers": "SELECT unit, row_number() OVER (PARTITION BY unit ORDER BY d) AS i, "
    "rank() OVER (PARTITION BY unit ORDER BY i) AS j, d, k FROM t",
    "neighbours": "SELECT unit, lag(i) OVER (PARTITION BY unit ORDER BY k) AS i, "
    "lead(j, 2) OVER (PARTITION BY unit ORDER BY d) AS j, d, k FROM t",
    "windows": "SELECT unit, row_number() OVER (PARTITION BY unit ORDER BY k) AS i, "
    "row_number() OVER (PARTITION BY unit ORDER BY d DESC) AS j, d, k FROM t",
    "totals": "SELECT unit, SUM(i) OVER (PARTITION BY unit) AS i, j, "
    "AVG(d) OVER (PARTITION BY unit, k) AS d, k FROM t",
    "first": "SELECT unit, i, j, d, k FROM t "
    "QUALIFY row_number() OVER (PARTITION BY unit ORDER BY d DESC) <= 2",
    "first of zeros": "SELECT unit, 1 AS i, 1 AS j, POWER(y, -1) AS d, 'a' AS k FROM "
    "(SELECT unit, 0e0 * i AS y FROM t UNION ALL SELECT unit, -(0e0 * i) AS y FROM t) z "
    "QUALIFY row_number() OVER (PARTITION BY unit ORDER BY y) = 1",
    "next to zeros": "SELECT unit, i, j, POWER(y, -1) AS d, 'a' AS k FROM "
    "(SELECT unit, i, j, lag(0e0 * i) OVER (PARTITION BY unit ORDER BY k) AS y FROM t) z",
    "zeros of groups": "SELECT unit, 1 AS i, 1 AS j, POWER(y, -1) AS d, 'a' AS k FROM "
    "(SELECT unit, 0e0 * i AS y, MIN(-0e0 * j) AS z FROM t GROUP BY unit, 0e0 * i) z "
    "WHERE POWER(y, -1) > 0 OR POWER(z, -1) > 0",
}
ASKED = (
    "DP_SUM(i, eps=1, bounds=[0, 9]), DP_SUM(j, eps=1, bounds=[0, 9]), "
    "DP_SUM(d, eps=1, bounds=[0, 9]), DP_COUNT(k, eps=1)"
)


def _write(place: Path, *, stranger: bool) -> Policy:
    """Write both tables; the second time with a stranger at the head and all rows shuffled."""
    place.mkdir()
    paths = {}
    for seed, (name, rows) in enumerate((("t", ROWS), ("s", ROWS // 4))):
        made = MADE.format(seed=seed, rows=rows)
        if stranger:
            other = MADE.format(seed=seed, rows=2000)
            made = (
                f"SELECT {STRANGER} AS unit, * EXCLUDE unit FROM ({other}) UNION ALL "
                f"SELECT * FROM (FROM ({made}) ORDER BY hash(unit, i, j, d, k, c, 17))"
            )
        duckdb.sql(f"COPY ({made}) TO '{place / name}.parquet' (FORMAT parquet)")
        paths[name] = [place / f"{name}.parquet"]
    return policy_over(paths, place, Neighbours.ADD_REMOVE)


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> tuple[Policy, Policy]:
    place = tmp_path_factory.mktemp("order")
    return _write(place / "1", stranger=False), _write(place / "2", stranger=True)


def _rows(policy: Policy, query: str, threads: int) -> Iterator[object]:
    """Give, for each unit but the stranger, how many rows it has and what they add up to."""
    public = PublicEngine(policy)
    engine = DuckDBEngine(policy, FaultLog(None), public, threads=threads)
    text = f"SELECT {ASKED} FROM ({query}) q"
    checked = check(bind(parse(Source(text)), policy, public), policy)
    scan = make_plan(checked, policy, public).frontiers[0].scan
    names = {one.table for one in tables_of(scan.relation)}
    places = {name: Place.in_files(policy.tables[name]) for name in names}
    refs = columns_read(scan)
    nested = Nested(places, engine._publics, refs)
    columns = ", ".join(_bits(ref) for ref in refs if ref.of in numbers(scan.relation))
    summed = f"SELECT u, count(*), sum(CAST(hash({columns}) AS HUGEINT))"
    sql = f"{summed} FROM {nested.source(scan.relation)} WHERE u <> {STRANGER} GROUP BY u"
    try:
        connection = engine._started()
        for name in names:
            define(connection, policy.tables[name], fingerprint(policy.tables[name]))
        yield from connection.execute(f"{sql} ORDER BY u").fetchall()
    finally:
        engine.close()
        public.close()


def _bits(ref: ColumnRef) -> str:
    """Write what tells all values of a column apart, as a hash does not with zeros."""
    name = quoted(f"{ref.of}.{ref.name}")
    return f"CAST({name} AS VARCHAR)" if ref.type == DOUBLE else name


@pytest.mark.slow
@pytest.mark.parametrize("construct", RELATIONS)
def test_rows_of_a_unit_depend_on_that_unit_alone(policies, construct: str):
    before, after = policies
    expected = list(_rows(before, RELATIONS[construct], 2))
    assert len(expected) > 1000
    assert list(_rows(after, RELATIONS[construct], 1)) == expected
    assert list(_rows(after, RELATIONS[construct], 8)) == expected


def test_two_windows_number_equal_rows_alike(engine, tmp_path: Path):
    """Of two halves of equal rows, each keeps its order when the halves change places."""
    path = write(tmp_path / "t.parquet", unit=[7] * 50, i=[n % 2 for n in range(50)])
    numbered = (
        "SELECT unit, row_number() OVER (PARTITION BY unit ORDER BY i) AS a, "
        "row_number() OVER (PARTITION BY unit ORDER BY i DESC) AS b FROM t"
    )
    apart = f"SELECT DP_COUNT_IF(a - b IN (-25, 25), eps=1) FROM ({numbered}) x"
    with world(
        engine, private_table([path], [Column("i", INTEGER)], max_rows_contributed=50)
    ) as small:
        assert small.exact(apart) == [50 * 2**32]


@pytest.mark.parametrize("made", ["0e0 * x", "TRUNC(x / 9)", "x / -1e300 * 1e-300"])
def test_no_row_comes_first_for_the_sign_of_a_zero(engine, tmp_path: Path, made: str):
    """Nothing hangs on whether a unit's -5 or its 5 is read first, or on who else is there."""
    sql = (
        "SELECT DP_SUM(POWER(y, -1), eps=1, bounds=[-1, 1], max_rows_contributed=1) "
        f"FROM (SELECT unit, y FROM (SELECT unit, {made} AS y FROM t "
        f"UNION ALL SELECT unit, -({made}) AS y FROM t) a "
        "QUALIFY row_number() OVER (PARTITION BY unit ORDER BY y) = 1) b"
    )
    others = [(unit, x) for unit in range(9) for x in (-5, 5, 0, -5)]
    found = []
    for rows in (others, others[::-1], [(9, 5), *others, (9, -5), (9, 0)]):
        units, cells = zip(*rows, strict=True)
        path = write(tmp_path / f"{len(found)}.parquet", unit=units, x=cells)
        with world(engine, private_table([path], [Column("x", INTEGER)])) as small:
            found += small.exact(sql)
    assert found[1] == found[0]
    assert found[2] == found[0] // 9 * 10


def test_a_mean_that_is_nearly_zero_has_no_sign(engine, tmp_path: Path):
    """Of the least double and a zero, half the least is a zero that a division gave a sign."""
    least = 5e-324
    path = write(tmp_path / "t.parquet", unit=[1, 1], d=[-least, -0.0])
    bounds = Bounds(Fraction(-least), Fraction(least))
    column = Column("d", DOUBLE, bounds, grid=Fraction(least))
    sql = (
        "SELECT DP_COUNT_IF(POWER(y, -1) < 0, eps=1), DP_COUNT_IF(POWER(y, -1) > 0, eps=1) "
        "FROM (SELECT unit, AVG(d) AS y FROM t GROUP BY unit) z"
    )
    with world(engine, private_table([path], [column])) as small:
        assert small.exact(sql) == [0, 1]
