"""Every accepted query of grammar/ is answered, over the sample and over hostile data.

With every ε a million times larger, what a session releases lies within a step of the grid of
what Python counts row by row; or, where the noise of that ε is wider still, as far off as noise
takes it but for a chance of 1e-9. There are about 750 values, so a false alarm is rarer than
one in a million.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dpquery.session import Session
from tests.corpus import hostile, runs
from tests.corpus.cases import Case
from tests.mechanisms.sources import Seeded
from tests.turns import in_turn

MILLION = 10**6
MOST_VISITS = 40
Both = tuple[Session, Session]


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    place = runs.samples(tmp_path_factory.mktemp("clean") / "samples")
    lighten(place / "visits.parquet")
    with runs.sessions(place / "policy.toml") as both:
        yield both


def lighten(file: Path) -> None:
    """Leave out who has most visits: a self-join of 745 takes Python half a minute."""
    table = pq.read_table(file)
    counts = table.group_by("person_id").aggregate([([], "count_all")])
    few = counts.filter(pc.field("count_all") <= MOST_VISITS).column("person_id")
    pq.write_table(table.filter(pc.is_in(table.column("person_id"), few)), file)


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    place = runs.samples(tmp_path_factory.mktemp("bad") / "samples")
    hostile.overwrite(place)
    with runs.sessions(place / "policy.toml") as both:
        yield both


def test_there_are_enough_queries():
    assert len(runs.ACCEPTED) >= 150
    assert len(runs.REFUSED) >= 150


@pytest.mark.parametrize("case", in_turn(runs.ACCEPTED, 6), ids=str)
def test_released_values_are_the_oracles_when_noise_is_small(
    case: Case, clean: Both, monkeypatch: pytest.MonkeyPatch
):
    for one in runs.compared(*clean, runs.scaled(case.query, MILLION), monkeypatch):
        assert one.off <= max(one.step, one.noise)


@pytest.mark.parametrize(
    "case",
    in_turn([case for case in runs.ACCEPTED if "DP_KEYS(" not in case.query], 8),
    ids=str,
)
def test_both_engines_answer_alike_by_the_same_random_bits(case: Case, clean: Both):
    """Found groups are left out: each engine shows their counts in an order of chance."""
    assert answered_alike(clean, case.query)


def answered_alike(both: Both, query: str) -> bool:
    tables = []
    for session in both:
        session._randomness = Seeded(1)
        tables.append(session.sql(query, refresh=True).table)
    one, other = tables
    if "ORDER BY" in query:
        return one.equals(other)
    mine, others = (Counter(map(repr, table.to_pylist())) for table in tables)
    return one.schema.equals(other.schema) and mine == others  # some joins give no order


@pytest.mark.slow
@pytest.mark.parametrize("case", runs.ACCEPTED, ids=str)
def test_hostile_data_change_neither_integers_nor_the_outcome(case: Case, bad: Both):
    duckdb, oracle = bad
    assert runs.exact_integers(duckdb, case.query) == runs.exact_integers(oracle, case.query)
    duckdb.sql(case.query)


def test_most_releases_are_exact_when_noise_is_small(
    clean: Both, monkeypatch: pytest.MonkeyPatch
):
    """Of what has a grid: the range of the noise is no way round the comparison."""
    found = [
        one
        for case in runs.ACCEPTED
        if "/counts" in str(case) or "/where" in str(case)
        for one in runs.compared(*clean, runs.scaled(case.query, MILLION), monkeypatch)
    ]
    assert len(found) > 30
    assert all(one.off <= one.step for one in found)
