"""Subqueries about a unit, and sets of its rows, mean what they do in SQL.

Each unit is a small world.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations_with_replacement, product
from pathlib import Path
from random import Random

import duckdb
import pytest

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.source_text import Source
from dpquery.engine.duckdb.public_engine import PublicEngine
from dpquery.ir.relations import columns_in
from dpquery.policy.model import Policy
from dpquery.sql.binder import bind
from dpquery.sql.parse.parser import parse
from tests.neighbours import Row, save
from tests.oracle.relations import Relations
from tests.relations import SCHEMA, TABLES, policy_over

VALUES = [{"i": None, "j": 1}, {"i": 1, "j": None}, {"i": 1, "j": 2}]
CONDITIONS = (
    "EXISTS (SELECT 1 FROM s y WHERE y.unit = x.unit AND y.i = x.i) IS FALSE",
    "x.j = 2 OR EXISTS (SELECT 1 FROM s y WHERE y.unit = x.unit AND y.i IS NULL)",
    "(x.i IN (SELECT y.i FROM s y WHERE y.unit = x.unit)) IS NULL",
    "x.i NOT IN (SELECT y.j FROM s y WHERE y.unit = x.unit)",
    "NOT (x.i IN (SELECT y.i FROM s y WHERE y.unit = x.unit AND y.j = x.j))",
    "(x.i NOT IN (SELECT y.i FROM s y WHERE y.unit = x.unit AND y.j >= x.j)) IS NULL",
    "x.j = 2 OR EXISTS (SELECT 1 FROM s y WHERE y.unit = x.unit AND y.j > x.i) IS FALSE",
    "EXISTS (SELECT 1 FROM s y WHERE x.unit = y.unit AND (x.i IS NULL OR y.i < x.j)) = (j = 1)",
    "EXISTS (SELECT 1 FROM s y WHERE y.unit = x.unit AND "
    "(y.j > x.i OR y.i + 2 IN (SELECT size FROM regions WHERE size > 0)))",
    "(SELECT COUNT(*) FROM s y WHERE y.unit = x.unit) = 0",
    "(SELECT COUNT(y.i) FROM s y WHERE y.unit = x.unit AND y.j = x.j) < 1",
    "(SELECT MAX(y.j) - MIN(y.j) FROM s y WHERE y.unit = x.unit) IS NULL",
    "(SELECT COALESCE(SUM(i), 7) + COUNT(*) FROM s y WHERE y.unit = x.unit AND y.j > x.i) = 7",
    "x.i > (SELECT AVG(y.j) FROM s y WHERE y.unit = x.unit AND y.i = x.i) OR x.i IS NULL",
    "(SELECT y.i FROM o y WHERE y.unit = x.unit) = x.i",
    "(SELECT 5 FROM o y WHERE y.unit = x.unit AND y.i = x.i) IS NULL",
    "(SELECT y.i = 1 FROM o y WHERE y.unit = x.unit) OR x.j = 1",
    "((x.unit, x.i, x.j) IN (SELECT y.unit, y.i, y.j FROM s y)) IS NOT NULL",
    "EXISTS (SELECT 1 FROM regions r WHERE r.size - 2 = x.i) IS FALSE",
    "x.j = 2 OR NOT EXISTS (SELECT * FROM regions r WHERE LENGTH(r.name) = x.i AND size > 3)",
    "NOT EXISTS (SELECT 1 FROM regions r WHERE r.size = x.unit)",
    "(SELECT COUNT(size) FROM regions r WHERE LENGTH(r.name) = x.i AND zone = 'b') = 0",
    "(SELECT COALESCE(SUM(size), 7) + COUNT(*) FROM regions WHERE LENGTH(name) = j) = 7",
    "(SELECT MAX(size) FROM regions r WHERE LENGTH(zone) = x.i AND x.j = LENGTH(name) + 1) = 3",
    "(SELECT r.zone FROM regions r WHERE r.size = x.j + 1) = 'a'",
    "(x.j NOT IN (SELECT size - 1 FROM regions r WHERE LENGTH(r.name) = x.i)) IS NULL",
    "x.j IN (SELECT size - 1 FROM regions r WHERE r.zone = CASE WHEN x.i = 1 THEN 'a' END)",
    "(SELECT COUNT(*) FROM s y WHERE y.unit = x.unit AND "
    "y.j < (SELECT MAX(size) FROM regions r WHERE LENGTH(r.name) = y.i)) = 1",
)
SETS = ("UNION", "INTERSECT", "EXCEPT")


def _rows(most: int) -> list[list[Row]]:
    empty = {name: None for name in SCHEMA.names if name != "unit"}
    rows = [{**empty, **value} for value in VALUES]
    return [list(w) for n in range(most + 1) for w in combinations_with_replacement(rows, n)]


class World:
    """A database in which each unit has other rows in t, s and o: all that there can be."""

    def __init__(self, place: Path) -> None:
        units = [(t, s, s[:1]) for t, s in product(_rows(2), _rows(2))]
        for table, rows in zip("tso", zip(*units, strict=True), strict=True):
            (place / table).mkdir()
            save(list(rows), [], SCHEMA, place / table, Random(0))
        paths = {t: [place / t / f"{n}.parquet" for n in (1, 2)] for t in TABLES}
        self.policy: Policy = policy_over(paths, place, Neighbours.ADD_REMOVE)
        self.public = PublicEngine(self.policy)
        self.plain = duckdb.connect()
        for table in TABLES:
            files = ", ".join(f"'{path}'" for path in paths[table])
            self.plain.execute(f"CREATE VIEW {table} AS FROM read_parquet([{files}])")
        self.plain.execute(f"CREATE VIEW regions AS FROM '{place / 'regions.parquet'}'")

    def close(self) -> None:
        self.plain.close()
        self.public.close()

    def ours(self, rows: str) -> Counter[object]:
        """Count the rows of each unit in the tree that is bound, as the oracle reads it."""
        text = f"SELECT DP_COUNT(*, eps=1) FROM {rows}"
        (frontier,) = bind(parse(Source(text)), self.policy, self.public).frontiers
        tables = {name: table for name, table in self.policy.tables.items() if not table.public}
        relations = Relations(tables, self.public, columns_in(frontier.relation))
        return Counter(unit for unit, _ in relations.rows(frontier.relation))

    def theirs(self, rows: str) -> Counter[object]:
        """Count them as plain DuckDB does."""
        text = f"SELECT unit, count(*) FROM {rows} GROUP BY unit"
        return Counter(dict(self.plain.execute(text).fetchall()))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("within"))
    yield made
    made.close()


@pytest.mark.parametrize(
    "rows",
    [
        *(f"t x WHERE {condition}" for condition in CONDITIONS),
        *(f"(SELECT unit, i, j FROM t {word} SELECT unit, i, j FROM s) q" for word in SETS),
        "(SELECT unit, i FROM t INTERSECT "
        "(SELECT unit, j FROM t EXCEPT SELECT unit, i FROM s)) q",
    ],
)
def test_what_is_said_of_a_unit_means_what_it_means_in_sql(world: World, rows: str):
    found = world.ours(rows)
    assert found == world.theirs(rows)
    assert found
