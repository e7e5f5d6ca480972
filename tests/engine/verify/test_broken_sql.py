"""The comparison of SQL with its tree has teeth: each broken text is found to be another.

Each change below is one that a mistake in the generator could make: to the rows of a scan, or
to what adds them up. Unchanged, every text is what its tree says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from dpquery.ir.measures import Histogram
from tests.engine.verify.scan import require_as_meant
from tests.engine.verify.syntax import Different
from tests.engine.verify.written import (
    BY_PART,
    BY_TABLE,
    FEW,
    JOIN,
    KEYED,
    PAIRS,
    PARTED,
    PUBLIC,
    QUANTILE,
    SEMI,
    TABLE,
    UNION,
    UNITS,
    WINDOW,
    Written,
    policy_and_public,
)

ROWS = [
    (TABLE, '"t:t"', '"t:s"'),  # other rows
    (TABLE, '"t:t"', "kept1"),
    (TABLE, '"t:t"', "read_parquet('t/1.parquet')"),
    (TABLE, r'\("unit" IS NOT NULL\) AND ', ""),  # rows without a unit
    (TABLE, r'\("unit" IS NOT NULL\) AND', '("unit" IS NOT NULL) OR'),
    (TABLE, '"unit" IS NOT NULL', '"i" IS NOT NULL'),
    (TABLE, '"unit" AS u', '"i" AS u'),  # another owner
    (TABLE, '"unit" AS u', '"unit" + 0 AS u'),
    (TABLE, r"left\(", "hash("),  # another function
    (TABLE, r"left\(", "main.left("),
    (TABLE, r'left\("k"', 'left("c"'),  # a column that is not in use
    (TABLE, " AS g0", " AS g1"),
    (TABLE, " AS g0", " AS g0, 1 AS v0"),  # one more
    (TABLE, "BIGINT", "BLOB"),
    (TABLE, "$", " LIMIT 3"),  # a clause that chooses rows
    (TABLE, "^SELECT", "SELECT DISTINCT"),
    (TABLE, "$", " GROUP BY ALL"),
    (TABLE, "$", " QUALIFY row_number() OVER () < 9"),
    (TABLE, " WHERE", " TABLESAMPLE 10% WHERE"),
    (TABLE, " WHERE", ", kept1 WHERE"),
    (TABLE, r'"d"', '(SELECT max("d") FROM kept1)'),
    (JOIN, r"a\.u = b\.u AND", "a.u <> b.u AND"),  # joined off the unit
    (JOIN, r"a\.u = b\.u AND", "a.u = b.u OR"),
    (JOIN, r"a\.u = b\.u AND", ""),
    (JOIN, r" AND \(CAST.*?\)\)", ")"),
    (JOIN, "LEFT JOIN", "INNER JOIN"),
    (JOIN, r"coalesce\(a\.u, b\.u\)", "a.u"),
    (JOIN, r"<= 256", "<= 257"),  # other limits of a unit's rows
    (JOIN, r"greatest\(65536", "greatest(65537"),
    (JOIN, r"greatest\(65536, sum\(a\.n\), sum\(b\.n\)\)", "65536"),
    (JOIN, r"GROUP BY a\.u", "GROUP BY a.n"),
    (JOIN, r"PARTITION BY s\.u", 'PARTITION BY "0.i"'),
    (JOIN, r"PARTITION BY s\.u", "PARTITION BY s.u, s.u"),
    (JOIN, r"QUALIFY row_number", "QUALIFY rank"),
    (JOIN, r"h\.u = s\.u\)", "TRUE)"),
    (JOIN, "NOT EXISTS", "EXISTS"),
    (JOIN, "FROM s1 AS s JOIN", "FROM t1 AS s JOIN"),
    (JOIN, r"AS MATERIALIZED \(SELECT a\.u", "AS (SELECT a.u"),
    (KEYED, r"a\.k0 = b\.k0", "a.k0 <= b.k0"),
    (KEYED, r" AND a\.k0 = b\.k0", ""),
    (KEYED, r"GROUP BY u, k0", "GROUP BY u"),
    (KEYED, r'"0\.j" AS k0', '"0.i" AS k1'),
    (KEYED, r'"0\.j" AS k0', '"1.j" AS k0'),  # a value of the other side
    (KEYED, "FROM k1 AS h", "FROM h1 AS h"),  # units that may have fewer pairs
    (KEYED, r"FROM s1 AS s WHERE EXISTS", "FROM s1 AS s WHERE NOT EXISTS"),
    (PUBLIC, "FROM p0", "FROM p1"),
    (PUBLIC, "LEFT JOIN", "JOIN"),
    (PUBLIC, r"a\.u", "1 AS u"),
    (PUBLIC, r"a\.u", 'a."0.k" AS u'),
    (SEMI, "NOT EXISTS", "EXISTS"),
    (SEMI, r"b\.u = a\.u AND", ""),
    (SEMI, r"b\.u = a\.u( AND .*?)(?=\)\) AS r)", "b.u = a.u"),
    (UNION, "UNION ALL", "UNION"),
    (UNION, "UNION ALL", "EXCEPT ALL"),
    (UNION, r"^(.*)t:s", r"\1t:t"),
    (UNITS, r"GROUP BY u, ", "GROUP BY "),
    (UNITS, r"GROUP BY u", "GROUP BY ROLLUP (u)"),
    (UNITS, r"max\(", "first("),
    (WINDOW, r"PARTITION BY u ", 'PARTITION BY "0.i" '),
    (WINDOW, r"PARTITION BY u ", ""),
    (WINDOW, r"PARTITION BY u, ", "PARTITION BY "),
    (PARTED, r' AND \(\("unit", coalesce.*?"unit"\)\)', ""),  # all parts of a unit
    (PARTED, "min", "max"),  # another part
    (PARTED, "THEN 1", "THEN 0"),
    (PARTED, r"(END,) 3\)", r"\1 0)"),
    (PARTED, r'left\("k"', 'left("i"'),
    (PARTED, r"END, 3\)\) IN", "END, 2)) IN"),
    (PARTED, "IN (.SELECT)", r"NOT IN \1"),
    (PARTED, 'GROUP BY "unit"', 'GROUP BY "unit", "k"'),  # parts of each part
    (PARTED, ' GROUP BY "unit"', ' AND "k" IS NOT NULL GROUP BY "unit"'),  # of fewer rows
    (PARTED, r'(min.*?)"t:s"', r'\1"t:t"'),
    (FEW, "<= 2", "<= 3"),  # more parts
    (FEW, "<= 2", "< 2"),
    (FEW, "PARTITION BY u ORDER BY p", "ORDER BY p"),  # of all units together
    (FEW, "ORDER BY p", "ORDER BY p DESC"),  # the last ones
    (FEW, "ORDER BY p", "ORDER BY u"),
    (FEW, "row_number", "rank"),
    (FEW, r' GROUP BY "unit"', ' AND "k" IS NOT NULL GROUP BY "unit"'),
    (FEW, r"SELECT u, p FROM", "SELECT u, p + 1 FROM"),
    (FEW, r'(IN \(SELECT.*?)"t:q"', r'\1"t:t"'),
    (FEW, r"(THEN 1.* AS p FROM)", r"THEN 0 END, 3) AS p FROM"),
    (WINDOW, r'\* EXCLUDE \("1.twin"\)', "*"),
]
SUMS = [
    (TABLE, r"GROUP BY u\)", "GROUP BY u LIMIT 5)"),
    (TABLE, r"sum\(", "max("),
    (TABLE, r"sum\(", "product("),
    (TABLE, r"JOIN \(VALUES", "JOIN kept1, (VALUES"),
    (TABLE, r"count\(\*\) AS n FROM ", "count(*) AS n FROM s AS "),
    (TABLE, "$", " ORDER BY random() LIMIT 1"),
    (BY_TABLE, r"count\(\*\) AS t FROM .*?GROUP BY u", "max(n) AS t FROM r GROUP BY u"),
    (PAIRS, "GROUP BY u, cell", 'GROUP BY "unit", cell'),
    (PAIRS, r"sum\(CASE", "any_value(CASE"),
    (JOIN, "$", " UNION ALL SELECT 1, 2"),
    (JOIN, "$", "; SELECT 1"),
    (JOIN, "^.*$", "SELECT 0, 1"),
    (JOIN, "^SELECT 0", "SELECT (SELECT 0)"),
]  # fmt: skip


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    with policy_and_public(tmp_path_factory.mktemp("written")) as made:
        yield made


@pytest.mark.parametrize(
    "text",
    [TABLE, PARTED, JOIN, PUBLIC, SEMI, UNION, UNITS, WINDOW, PAIRS, BY_TABLE, BY_PART, FEW],
)
def test_a_text_is_found_right(written: Written, text: str):
    sql = written.sql(text)
    for _, query in sql.queries():
        require_as_meant(sql, query)


@pytest.mark.parametrize(("text", "find", "put"), ROWS)
def test_rows_that_are_not_those_of_the_tree_are_refused(
    written: Written, text: str, find: str, put: str
):
    sql, changed = written.sql(text), written.sql(text)
    rows = re.sub(find, put, sql.rows, count=1)
    assert rows != sql.rows
    changed.__dict__["rows"] = rows
    for _, query in changed.queries():
        with pytest.raises(Different):
            require_as_meant(changed, query)


@pytest.mark.parametrize(
    ("text", "find", "put"),
    [
        (BY_TABLE, '"t:t"', '"t:s"'),  # other rows
        (BY_TABLE, r"$", ' AND ("j" > 2)'),  # fewer rows
        (BY_TABLE, r"$", ' AND ("unit" > 2)'),  # by a column that they have anyway
        (BY_TABLE, r" WHERE .*$", ""),  # rows without a unit
        (BY_TABLE, '"unit" AS u', '"i" AS u'),
        (BY_PART, r" AND .*$", ""),  # all parts of a unit
    ],
)
def test_weights_by_the_table_count_all_its_rows(
    written: Written, text: str, find: str, put: str
):
    changed = written.sql(text)
    table = changed.table_rows
    changed.__dict__["table_rows"] = re.sub(find, put, table, count=1)
    assert changed.table_rows != table
    for _, query in changed.queries():
        with pytest.raises(Different):
            require_as_meant(changed, query)


@pytest.mark.parametrize("text", [BY_TABLE, BY_PART])
def test_weights_by_the_table_count_no_rows_of_the_scan_instead(written: Written, text: str):
    sql = written.sql(text)
    for _, query in sql.queries():
        changed = query.replace(f"({sql.table_rows})", f"({sql.rows})")
        assert changed != query
        with pytest.raises(Different):
            require_as_meant(sql, changed)


@pytest.mark.parametrize(("text", "find", "put"), SUMS)
def test_sums_that_read_or_do_more_are_refused(
    written: Written, text: str, find: str, put: str
):
    sql = written.sql(text)
    for _, query in sql.queries():
        changed = re.sub(find, put, query, count=1)
        assert changed != query
        with pytest.raises(Different):
            require_as_meant(sql, changed)


def test_another_trees_text_is_refused(written: Written):
    texts = [TABLE, PARTED, JOIN, PUBLIC, SEMI, UNION, UNITS, WINDOW]
    for one in texts:
        for other in set(texts) - {one}:
            mixed = written.sql(one)
            mixed.__dict__["rows"] = written.sql(other).rows
            for _, query in mixed.queries():
                with pytest.raises(Different):
                    require_as_meant(mixed, query)


def test_requests_of_histograms_are_read_back_too(written: Written):
    sql = written.sql(QUANTILE)
    (measure,) = (m for m in sql.scan.measures if isinstance(m, Histogram))
    held = sql.held(measure)
    require_as_meant(sql, held)
    asked = sql.ranges(measure, "held7", None, (0, 64, 2))
    require_as_meant(sql, asked, "held7")
    for changed in (asked.replace("held7", "held8"), asked.replace("sum(w)", "sum(unit)")):
        with pytest.raises(Different):
            require_as_meant(sql, changed, "held7")
    with pytest.raises(Different):
        require_as_meant(
            sql, held.replace("AS v", "AS v, cell", 1).replace("JOIN", "LEFT JOIN t")
        )
