"""No relation has more rows of one unit than its plan states, however they are multiplied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.source_text import Source
from dpquery.engine.duckdb.public_engine import PublicEngine
from dpquery.errors import QueryRefused
from dpquery.ir import relations as extent
from dpquery.ir.relations import Relation, columns_in, extent_of, walk
from dpquery.sql.binder import bind
from dpquery.sql.parse.parser import parse
from tests.frontiers import OF_RELATIONS, constructs, require_drawn
from tests.neighbours import save
from tests.oracle.relations import Relations
from tests.relations import SCHEMA, TABLES, policy_over, relations, row

MOST_ROWS = 12


class World:
    """One unit with the same number of rows in each table, but for one that has one."""

    def __init__(self, place: Path) -> None:
        self.paths = {table: [place / f"{table}.parquet"] for table in TABLES}
        self.place = place
        for table in TABLES:
            (place / table).mkdir()
            self.paths[table] = [place / table / f"{number}.parquet" for number in (1, 2)]
        self.policy = policy_over(self.paths, place, Neighbours.ADD_REMOVE)
        self.public = PublicEngine(self.policy)
        self.tables = {n: t for n, t in self.policy.tables.items() if not t.public}

    def write(self, rows: int, seed: int) -> None:
        random = Random(seed)
        few = [row(random) for _ in range(random.choice([1, 2, rows]))]
        for table in TABLES:
            own = [random.choice(few) for _ in range(1 if table == "o" else rows)]
            save([own], [], SCHEMA, self.place / table, random)

    def bound(self, text: str) -> Relation | None:
        """Bind a relation; None where it is too large, or empty by its conditions."""
        query = parse(Source(f"SELECT DP_COUNT(*, eps=1) FROM {text} q"))
        try:
            (frontier,) = bind(query, self.policy, self.public).frontiers
        except QueryRefused as refused:
            if refused.code not in {"DPQ406", "DPQ408", "DPQ105"}:
                raise
            return None
        return frontier.relation


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("extent"))
    yield made
    made.public.close()


def require_extents(world: World, text: str, rows: int, seed: int) -> bool:
    """Hold every part of a relation against what its plan states; say whether it was bound."""
    relation = world.bound(text)
    if relation is None:
        return False
    world.write(rows, seed)
    found = Relations(world.tables, world.public, columns_in(relation))
    for node in walk(relation):
        stated = extent_of(node, world.policy.single)
        assert len(found.rows(node)) <= stated.of(rows) <= stated.each * rows + stated.more
        assert stated.of(rows) <= stated.of(rows + 1)
    return True


@pytest.mark.parametrize(
    ("pairs", "examples"),
    [(2, 8), (30, 8), *(pytest.param(n, 400, marks=pytest.mark.slow) for n in (2, 30))],
)
def test_relations_have_no_more_rows_of_a_unit_than_their_plan_states(
    world: World, monkeypatch: pytest.MonkeyPatch, pairs: int, examples: int
):
    monkeypatch.setattr(extent, "MOST_PAIRS", pairs)
    found = Counter[str]()

    @settings(max_examples=examples)
    @given(relations(3), st.integers(1, MOST_ROWS), st.integers(0, 10**6))
    def hold(text: str, rows: int, seed: int) -> None:
        if require_extents(world, text, rows, seed):
            found.update(["all", *constructs(text)])

    hold()
    if examples >= 100:  # of few, too many may be refused by chance
        assert found["all"] > 0.9 * examples
        require_drawn(found, OF_RELATIONS)


DOUBLED = "(SELECT unit, i FROM t UNION ALL SELECT unit, j FROM t)"
JOINED = [
    f"(SELECT x.unit, y.i FROM {DOUBLED} x JOIN {DOUBLED} y ON x.unit = y.unit)",
    "(SELECT x.unit FROM t x LEFT JOIN s y ON x.unit = y.unit AND x.j = y.j)",
    "(SELECT unit FROM t x FULL JOIN s y USING (unit))",
    "(SELECT x.unit FROM t x FULL JOIN s y ON x.unit = y.unit AND x.j < y.j)",
    "(SELECT x.unit FROM o x FULL JOIN s y ON x.unit = y.unit AND x.j < y.j)",
    "(SELECT x.unit FROM o x FULL JOIN o y ON x.unit = y.unit AND x.j < y.j)",
    "(SELECT x.unit FROM o x LEFT JOIN s y ON x.unit = y.unit)",
    "(SELECT x.unit FROM o x JOIN regions r ON x.k = r.zone)",
    "(SELECT x.unit FROM t x LEFT JOIN regions r ON x.k = r.zone)",
    "(SELECT x.unit FROM o x, regions a, regions b)",
    "(SELECT x.unit FROM t x JOIN (SELECT zone FROM regions UNION ALL SELECT name FROM regions)"
    " r ON x.k = r.zone)",
    "(SELECT x.unit FROM o x CROSS JOIN regions r JOIN o y ON y.unit = x.unit)",
    "(SELECT x.unit FROM t x CROSS JOIN regions r JOIN o y ON y.unit = x.unit)",
    "(SELECT x.unit FROM t x JOIN s y ON x.unit = y.unit AND x.k = y.k"
    " JOIN t z ON z.unit = y.unit AND z.k = y.k)",
]


@pytest.mark.parametrize("text", JOINED)
@pytest.mark.parametrize("pairs", [1, 4, 17])
def test_joins_have_no_more_rows_than_stated_whatever_the_unit_has(
    world: World, monkeypatch: pytest.MonkeyPatch, text: str, pairs: int
):
    monkeypatch.setattr(extent, "MOST_PAIRS", pairs)
    for rows in (1, 2, 5, MOST_ROWS):
        for seed in range(3):
            assert require_extents(world, text, rows, seed)


@pytest.mark.parametrize(
    ("kind", "found"), [("", 12), ("LEFT", 12 + 11), ("RIGHT", 12), ("FULL", 12 + 11)]
)
def test_rows_without_a_partner_come_to_those_with_one(
    world: World, monkeypatch: pytest.MonkeyPatch, kind: str, found: int
):
    """One row of t meets all of s, and eleven meet none: the bound has room for both."""
    monkeypatch.setattr(extent, "MOST_PAIRS", 4)
    relation = world.bound(
        f"(SELECT x.i FROM t x {kind} JOIN s y ON x.unit = y.unit AND x.j = y.j)"
    )
    assert relation is not None
    plain = {"i": 0, "j": 0, "d": 0.0, "k": "a", "c": 18300}
    for table, values in (("t", [1] + [0] * 11), ("s", [1] * 12), ("o", [1])):
        own = [{**plain, "j": value} for value in values]
        save([own], [], SCHEMA, world.place / table, Random(1))
    rows = Relations(world.tables, world.public, columns_in(relation)).rows(relation)
    assert len(rows) == found <= extent_of(relation, world.policy.single).of(12)
