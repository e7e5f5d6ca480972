"""The SQL of every scan is what its tree says: of the corpus, and of random queries.

And the check at run time lets all of them pass, planned by DuckDB over empty tables.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest
from hypothesis import example, given, settings

from dpquery.engine.duckdb import relation_sql, scan_sql
from dpquery.engine.duckdb.clamped_table_sql import Place
from dpquery.engine.duckdb.relation_sql import Nested
from dpquery.engine.duckdb.scan_sql import ScanSQL
from dpquery.engine.duckdb.sql_allowlist import Rehearsal, Verifier
from dpquery.errors import QueryRefused
from dpquery.plan.plan import Plan
from tests import frontiers, strategies
from tests.corpus import cases
from tests.engine.verify.scan import require_as_meant
from tests.engine.verify.syntax import Different
from tests.engine.verify.written import QUERIES, Written, policy_and_public, texts
from tests.turns import in_turn
from tests.worlds import policy_of, private_table

ACCEPTED = [
    case
    for path in cases.files()
    for case in cases.read(path)
    if not case.expected.startswith(("DPQ", "refused"))
]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    with policy_and_public(tmp_path_factory.mktemp("written")) as made:
        yield made


@pytest.fixture(scope="module")
def samples() -> Written:
    return Written(*cases.facts())


@pytest.fixture(scope="module")
def one_table() -> Written:
    """All kinds of columns in a table by itself."""
    table = private_table(["t/1.parquet"], strategies.COLUMNS, max_rows_contributed=1)
    return Written(policy_of(table), cases.facts()[1])


@cache
def rehearsal_of(written: Written) -> Rehearsal:
    return Rehearsal(Verifier(), {}, written.public)


@cache  # what is written is broken below, not what is planned
def plan_of(written: Written, text: str) -> Plan:
    return written.plan(text)


def require_all(written: Written, plan: Plan) -> int:
    """Hold all texts of a plan against their trees and the lists; return how many they are."""
    found, rehearsal = 0, rehearsal_of(written)
    for sql in written.all_sql(plan):
        held = any(place.held for place in sql.places.values())
        for query, table in texts(sql):
            require_as_meant(sql, query, table)
            rehearsal.verifier.require(sql, query, table)
            found += 1
        for query in () if held else sql.whole():
            rehearsal.plan(sql, query)
    return found


@pytest.mark.parametrize(
    "path", in_turn(sorted({case.path for case in ACCEPTED}), 2), ids=lambda p: p.stem
)
def test_the_corpus_is_written_as_it_is_meant(samples: Written, path):
    for case in ACCEPTED:
        if case.path == path:
            plan = plan_of(samples, case.query)
            assert require_all(samples, plan) or not plan.charge.scans


def require_random(written: Written, text: str) -> bool:
    """Plan a random query, or give it up where its numbers are too large."""
    try:
        plan = written.plan(text)
    except QueryRefused as refusal:
        if refusal.code not in frontiers.OUT_OF_REACH:
            raise
        return False
    require_all(written, plan)
    return True


@settings(max_examples=25)
@given(text=frontiers.queries())
def test_random_relations_are_written_as_they_are_meant(written: Written, text: str):
    require_random(written, text)


@pytest.mark.slow
def test_a_thousand_random_relations_are_written_as_they_are_meant(written: Written):
    asked: Counter[str] = Counter()

    @settings(max_examples=1_000)
    @given(frontiers.queries())
    def hold(text: str) -> None:
        if require_random(written, text):
            asked.update(frontiers.constructs(text))

    hold()
    frontiers.require_drawn(asked)


@example(
    text="SELECT DP_COUNT(*, eps=0.1, contribution_bounds_per_group=(-3, 9)), "
    "DP_MEDIAN(i, eps=0.1, weights='table') FROM t"
)
@settings(max_examples=25)
@given(text=strategies.queries(("t",)))
def test_random_expressions_are_written_as_they_are_meant(one_table: Written, text: str):
    require_random(one_table, text)


BREAKS: list[tuple[object, str, str, str]] = [
    # where rows are read
    (Place, "relation", " IS NOT NULL", " IS NULL"),
    (Place, "relation", r'\("[^"]*" IS NOT NULL\) AND ', ""),
    (Place, "relation", "$", " LIMIT 9"),
    (Place, "counted", "min", "max"),
    # what a node of a relation passes on
    (Nested, "_table", " AS u", " + 0 AS u"),
    (Nested, "_joined", r"a\.u = b\.u", "TRUE"),
    (Nested, "_joined", r"coalesce\(a\.u, b\.u\)", "b.u"),
    (Nested, "_semi_joined", r"b\.u = a\.u", "TRUE"),
    (Nested, "_public", r"SELECT a\.u", "SELECT p.u AS u"),
    (Nested, "_agreeing", "EXISTS", "NOT EXISTS"),
    (Nested, "_few", "PARTITION BY s.u", "PARTITION BY 1"),
    (Nested, "_per_unit", "GROUP BY u, ", "GROUP BY "),
    (Nested, "_per_unit", "GROUP BY u$", "GROUP BY ALL"),
    (Nested, "_window", "PARTITION BY u", "PARTITION BY 1"),
    (Nested, "_projected", "SELECT u", "SELECT u + 1 AS u"),
    (relation_sql, "_crowded", "greatest", "least"),
    # what adds rows up
    (ScanSQL, "_over_pairs", "sum", "max"),
    (ScanSQL, "_sums", "FROM", "FROM s, "),
    (scan_sql, "chosen_sql", "PARTITION BY u", "PARTITION BY 1"),
    (scan_sql, "hashed_sql", "sha256", "hash"),
    (ScanSQL, "_by_value", "PARTITION BY u", "PARTITION BY 1"),
]
"""Mistakes that a generator could make: where, and what it would write instead of what."""


@pytest.mark.parametrize(("owner", "name", "find", "put"), BREAKS)
def test_a_broken_generator_is_found(  # noqa: PLR0917
    written: Written, samples: Written, monkeypatch: pytest.MonkeyPatch, owner, name, find, put
):
    """By the queries above and the corpus, as soon as they write what it breaks."""
    honest, broken = getattr(owner, name), []

    def write(*given, **named):
        made = honest(*given, **named)
        if isinstance(made, list):
            changed = [re.sub(find, put, part, count=1) for part in made]
        else:
            changed = re.sub(find, put, made, count=1)
        if changed != made:
            broken.append(made)
        return changed

    monkeypatch.setattr(owner, name, write)
    asked = [(written, text) for text in QUERIES] + [(samples, c.query) for c in ACCEPTED]
    for world, query in asked:
        for sql in world.all_sql(plan_of(world, query)):
            broken.clear()
            try:
                for text, table in texts(sql):
                    require_as_meant(sql, text, table)
            except Different:
                assert broken
                return
            assert not broken, query
    pytest.fail("nothing is written by it")
