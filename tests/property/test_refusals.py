"""Refusals say the same on neighbouring data, and come before any private file is opened (I6).

The queries are all that `grammar/` refuses, and more of each stage below. Where a query is
refused, it is refused alike on the data, on the data without one unit, on hostile data, and on
no data at all.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings

import dpquery
from dpquery.core.privacy_loss import Neighbours
from dpquery.core.source_text import Source
from dpquery.engine.base import Exact
from dpquery.engine.duckdb.public_engine import PublicEngine
from dpquery.errors import QueryRefused
from dpquery.policy.model import Policy
from dpquery.session import Session
from tests.corpus import hostile
from tests.corpus.runs import REFUSED, samples
from tests.frontiers import constructs, queries, require_drawn
from tests.grammar import mutated
from tests.neighbours import save
from tests.relations import SCHEMA, TABLES, policy_over, row
from tests.worlds import deadline, planned

POLICY = """
[budget]
epsilon = 2
max_epsilon_per_query = 1.5
[tables.staff]
path = "staff.parquet"
privacy_unit_column = "person_id"
max_rows_contributed = 1
[tables.staff.columns]
person_id = { type = "integer" }
age = { type = "integer", bounds = [18, 70] }
salary = { type = "integer" }
rating = { type = "decimal(3,1)" }
bonus = { type = "double" }
dept = { type = "text" }
hired = { type = "date" }
remote = { type = "boolean" }
"""
OWN = [
    "", ";", "SELECT", "SELECT 1; SELECT 2", "DELETE FROM staff", "SELECT DP_COUNT(*, eps=0.1",
    "SELECT DP_COUNT(*, eps=0.1) FROM staff FOR UPDATE", "SELECT " + "(" * 60 + "1" + ")" * 60,
    "SELECT DP_COUNT(*, eps=0.1) FROM nobody", "SELECT DP_COUNT(*, eps=0.1) FROM '/etc/passwd'",
    "SELECT DP_COUNT(*, eps=0.1) FROM read_parquet('staff.parquet')",
    "SELECT DP_COUNT(nothing, eps=0.1) FROM staff", "SELECT DP_COUNT(*) FROM staff",
    "SELECT DP_COUNT(*, eps=0) FROM staff", "SELECT DP_COUNT(*, eps=1e-400) FROM staff",
    "SELECT DP_COUNT(*, eps=age) FROM staff", "SELECT DP_COUNT(*, eps=0.1, seed=1) FROM staff",
    "SELECT DP_CONT(*, eps=0.1) FROM staff", "SELECT COUNT(*) FROM staff",
    "SELECT salary FROM staff", "SELECT * FROM staff", "SELECT staff FROM staff",
    "SELECT DP_COUNT(*, eps=0.1), age FROM staff",
    "SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE age = 'a'",
    "SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE error(dept)",
    "SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE " + "(" * 28 + "remote"
    + " BETWEEN TRUE AND TRUE)" * 28,
    "SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE CAST(dept AS BLOB) > 0",
    "SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE salary * salary * salary > 0",
    f"SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE rating < {10**37}",
    "SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE DP_COUNT(*, eps=0.1) > 1",
    "SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE hired > '2020-02-30'",
    "SELECT DP_COUNT(*, eps=0.1, mechanism='gaussian') FROM staff",
    "SELECT DP_COUNT(*, eps=0.1, mechanism='gaussian', delta=1e-7) FROM staff",
    "SELECT DP_COUNT(*, eps=0.1) + 'a' FROM staff", "SELECT DP_COUNT(*, eps=1.6) FROM staff",
    "SELECT DP_COUNT(*, eps=1.5), DP_COUNT(*, eps=0.6) FROM staff",
]  # fmt: skip
PARTS = 6
"""Into how many the refused queries of the corpus are dealt: the first is quick."""
Sides = list[tuple[Policy, PublicEngine]]
FAMILIES = {"1", "2", "3", "4", "5"}
"""First digits of the codes of refusals; each is met below."""


def people(units: list[int]) -> pa.Table:
    """Hostile rows: a value that each refused query would meet, were it to be run."""
    size = len(units)
    return pa.table(
        {
            "person_id": pa.array(units, pa.int64()),
            "age": pa.array([-1] * size, pa.int64()),
            "salary": pa.array([2**62] * size, pa.int64()),
            "rating": pa.array([None] * size, pa.decimal128(3, 1)),
            "bonus": pa.array([float("nan")] * size, pa.float64()),
            "dept": pa.array(["not a number"] * size, pa.string()),
            "hired": pa.array([2**31 - 1] * size, pa.int32()).cast(pa.date32()),
            "remote": pa.array([True] * size, pa.bool_()),
        }
    )


def connected(directory: Path, units: list[int]) -> Session:
    directory.mkdir()
    (directory / "policy.toml").write_text(POLICY)
    pq.write_table(people(units), directory / "staff.parquet")
    return dpquery.connect(directory / "policy.toml")


def refusal(session: Session, text: str) -> str | None:
    """Return the whole text of a refusal; None where the query would be answered."""
    before = session.budget
    try:
        with session._uncharged(Source(text)):
            lookup = session._look_up(session._plan(Source(text)))
        with session._charged(lookup.charge, Source(text)):
            pass
    except QueryRefused as refused:
        assert session.budget == before
        return str(refused)
    return None


class Untouchable:
    """An engine for those who must not need one."""

    def open(self, *_: object) -> Exact:
        raise AssertionError("a private row was asked for")

    def rehearse(self, *_: object) -> None:
        """The text of a scan is read back without it."""

    def close(self) -> None:
        """Nothing is held."""


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))]
)
def test_refusals_are_equal_on_neighbours_and_lose_nothing(tmp_path: Path, part: int):
    worlds = {
        name: connected(tmp_path / name, units)
        for name, units in {"all": [1, 2, 2, 3], "one unit less": [1, 3], "none": []}.items()
    }
    for session in worlds.values():
        session._engine = Untouchable()
    codes: set[str] = set()
    for text in OWN + [case.query for case in REFUSED[part::PARTS]]:
        texts = [refusal(session, text) for session in worlds.values()]
        assert len(set(texts)) == 1, text
        if texts[0] is not None:
            codes.add(texts[0].split("DPQ")[1][0])
        assert text not in OWN or texts[0] is not None, text
    assert codes == FAMILIES
    for session in worlds.values():
        session.close()


@pytest.mark.parametrize(
    "people", [(1000,), pytest.param((1000, 999, 0), marks=pytest.mark.slow)], ids=len
)
def test_refusals_of_the_corpus_are_those_of_its_files_on_any_data(
    tmp_path: Path, people: tuple[int, ...]
):
    places = [samples(tmp_path / str(most)) for most in (*people, "hostile")]
    for place, most in zip(places, people, strict=False):
        for file in ("staff", "visits"):
            rows = pq.read_table(place / f"{file}.parquet", filters=[("person_id", "<=", most)])
            pq.write_table(rows, place / f"{file}.parquet")
    hostile.overwrite(places[-1])
    found = [dpquery.connect(place / "policy.toml") for place in places]
    for session in found:
        session._engine = Untouchable()
    for case in REFUSED:
        told = {refusal(session, case.query) for session in found}
        assert len(told) == 1, case
        code = re.search(r"DPQ\d+", case.expected)
        assert code is not None
        assert code[0] in (told.pop() or ""), case
    for session in found:
        session.close()


@pytest.fixture(scope="module")
def sides(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[list[tuple[Policy, PublicEngine]]]:
    """Give a policy over rows of two units, over those of one, and over no file at all."""
    found, random = [], Random(5)
    units = [[row(random) for _ in range(3)] for _ in range(2)]
    for most in (2, 1, 0):
        place = tmp_path_factory.mktemp("sides")
        paths = {t: [place / t / f"{number}.parquet" for number in (1, 2)] for t in TABLES}
        for table in TABLES if most else ():
            save(units[:most], [], SCHEMA, place / table, random)
        policy = policy_over(paths, place, Neighbours.ADD_REMOVE)
        found.append((policy, PublicEngine(policy)))
    yield found
    for _, public in found:
        public.close()


def require_equal(sides: Sides, examples: int) -> Counter[str]:
    """Plan broken random queries on each side; return of what those are that are refused."""
    refused = Counter[str]()

    @settings(max_examples=examples)
    @given(mutated(queries(2)))
    def hold(text: str) -> None:
        told = set()
        for policy, public in sides:
            try:
                told.add(repr(planned(policy, text, public).charge.events))
            except QueryRefused as refusal:
                told.add(str(refusal))
        assert len(told) == 1, text
        if told.pop().startswith("refused"):
            refused.update(["all", *constructs(text)])

    hold()
    return refused


def test_random_queries_are_refused_alike_with_and_without_rows(sides: Sides):
    assert require_equal(sides, 30)["all"]


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(5))
def test_a_thousand_refusals_are_alike_with_and_without_rows(sides: Sides, shard: int):
    del shard
    refused = require_equal(sides, 1_000)
    assert refused["all"] >= 1_000 // 5
    require_drawn(refused)


def test_refusals_do_not_wait_for_the_private_file(tmp_path: Path):
    """Opening a pipe without a writer blocks: whatever comes back has not opened it."""
    session = connected(tmp_path / "pipe", [1, 2])
    (tmp_path / "pipe" / "staff.parquet").unlink()
    os.mkfifo(tmp_path / "pipe" / "staff.parquet")
    with deadline(20):
        assert None not in [refusal(session, text) for text in OWN]
    with deadline(0.2), pytest.raises(TimeoutError):
        (tmp_path / "pipe" / "staff.parquet").read_bytes()
    session.close()


def test_the_ledger_alone_decides_on_the_budget(tmp_path: Path):
    """Spending is refused at the same query on neighbours, with the same text."""
    sessions = [connected(tmp_path / name, units) for name, units in (("a", [1]), ("b", []))]
    told: list[list[str]] = []
    for session in sessions:
        texts = []
        for _ in range(4):
            try:
                session.sql("REFRESH SELECT DP_COUNT(*, eps=0.7) FROM staff WHERE salary > 0")
            except QueryRefused as refused:
                texts.append(str(refused))
        told.append(texts)
        session.close()
    assert told[0] == told[1]
    assert len(told[0]) == 2
