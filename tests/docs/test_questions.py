"""The questions of docs/questions.md, asked of 20,000 customers at an ε of 10 in all.

Each value lies within 5 % of what plain DuckDB computes, and each quantile within 1 % of the
rank asked for. A false alarm is rarer than one in a million: of every released value the range
that holds the exact one but for a chance of 1e-9 is required to be that narrow, and there are
fewer than 500 of them.
"""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import duckdb
import pytest

import dpquery
from dpquery.answer import Answer
from dpquery.core.privacy_loss import Loss
from dpquery.core.source_text import Source
from dpquery.functions.base import NoisyCell
from dpquery.functions.order_statistics.quantile import QuantileRelease
from dpquery.policy.sources.paths import sample_directory
from dpquery.session import Session
from tests.corpus import runs
from tests.tasks import ROOT
from tests.turns import in_turn

PAGE = ROOT / "docs" / "questions.md"
TEXT = PAGE.read_text("utf-8")
QUESTIONS = {
    int(number): query
    for number, query in re.findall(r"^## (\d+)\. .*?^```sql\n(.*?)^```", TEXT, re.M | re.S)
}
CUSTOMERS = 20_000
SURE = 1 - Fraction(1, 10**9)
CLOSE, OF_RANK = Fraction(5, 100), Fraction(1, 100)
RELEASED = Fraction(24, 1000)
"""How far noise may take a released value: the ratio of two then stays within 5 %."""
CALL = re.compile(
    r"DP_(?P<name>\w+)\((?P<what>.*?), eps=[\d.]+(, bounds=\[(?P<low>.*?), (?P<high>.*?)\])?\)"
)
WEIGHTED = {
    number: re.sub(
        r"FROM items .*\n",
        "FROM (SELECT i.*, c.category, c.price AS listed, "
        "least(1, 20 / count(*) OVER (PARTITION BY i.person_id)) AS weight "
        "FROM items i JOIN products c USING (product))\n",
        query,
    )
    for number, query in {
        15: "SELECT category, sum(weight)\nFROM items i\nGROUP BY category",
        16: "SELECT category, sum(weight) FILTER (WHERE returned) AS back, "
        "sum(weight) AS sold, 100 * back / sold\nFROM items i\nGROUP BY category",
        17: "SELECT sum(weight) FILTER (WHERE price < listed)\nFROM items i\n",
    }.items()
}
"""Some customers have more than the 20 items that count in full."""


def tenfold(query: str) -> str:
    return re.sub(r"eps=([\d.]+)", lambda call: f"eps={Decimal(call[1]) * 10}", query)


def plain(call: re.Match[str]) -> str:
    """Write a call as DuckDB has it: clamped, and of a quantile all values in a list."""
    name, what, low, high = call.group("name", "what", "low", "high")
    order = "0.5"
    if name == "QUANTILE":
        what, order = what.rsplit(", ", 1)
    if low is not None:
        below, above = f"{what} < {low} THEN {low}", f"{what} > {high} THEN {high}"
        what = f"CASE WHEN {below} WHEN {above} ELSE {what} END"
    if name in {"QUANTILE", "MEDIAN"}:
        return f"{{'order': {order}, 'values': list({what})}}"
    return f"avg(({what})::INTEGER)" if name == "PROPORTION" else f"{name}({what})"


@dataclass(frozen=True)
class Shop:
    """The tables of many customers, for those who may see them and for those who may not."""

    session: Session
    database: duckdb.DuckDBPyConnection

    def exact(self, number: int) -> list[tuple]:
        text = WEIGHTED.get(number) or CALL.sub(plain, QUESTIONS[number])
        return self.database.sql(text).fetchall()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    place = tmp_path_factory.mktemp("shop")
    write(place, CUSTOMERS)
    policy = (place / "shop.toml").read_text("utf-8")
    assert "\nepsilon = 10\n" in policy
    budget = f"\nepsilon = {10 * len(QUESTIONS) + 11}\n"
    (place / "shop.toml").write_text(policy.replace("\nepsilon = 10\n", budget), "utf-8")
    database = duckdb.connect()
    for file in place.glob("*.*"):
        if file.suffix in {".parquet", ".csv"}:
            database.execute(f"CREATE VIEW {file.stem} AS FROM '{file}'")
    with dpquery.connect(place / "shop.toml") as session, database:
        yield Shop(session, database)


def write(place: Path, customers: int) -> None:
    source = sample_directory()
    spec = importlib.util.spec_from_file_location("make_datasets", source / "make.py")
    assert spec is not None
    assert spec.loader is not None
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    make.write_shop(place, customers)
    for name in ("shop.toml", "products.csv", "regions.csv"):
        shutil.copy(source / name, place)


def keys(query: str) -> int:
    """Return the number of columns that are groups; they stand first."""
    groups = re.findall(r"^(?:FROM \w+ )?GROUP BY (.*)$", query, re.MULTILINE)
    return len(groups[-1].split(",")) if groups else 0


@pytest.mark.parametrize("number", QUESTIONS)
def test_an_answer_is_close_to_the_exact_one(number: int, shop: Shop):
    query = QUESTIONS[number]
    answer = shop.session.sql(tenfold(query))
    assert answer.loss.epsilon == 10
    count = keys(query)
    exact = {row[:count]: row[count:] for row in shop.exact(number)}
    assert {row[:count] for row in answer.rows} == set(exact)
    for place, row in enumerate(answer.rows):
        for column, value in enumerate(exact[row[:count]], count):
            require_close(answer, place, column, value)


def require_close(answer: Answer, place: int, column: int, exact: object) -> None:
    """Hold a value against the exact one, and first the range of its noise."""
    shown, cell = answer.rows[place][column], answer.cells[place][column]
    if isinstance(exact, dict):
        assert isinstance(cell.release, QuantileRelease)
        require_rank(cell, shown, Fraction(str(exact["order"])), exact["values"])
        return
    value = Fraction(exact)
    assert cell is None or width(cell) <= RELEASED * value
    assert abs(Fraction(shown) - value) <= CLOSE * value


def width(cell) -> Fraction:
    found = cell.interval(SURE)
    if found is None:  # of what is computed, worlds do not tell so much
        return Fraction(0)
    low, high = found
    return max(Fraction(high) - Fraction(cell.value), Fraction(cell.value) - Fraction(low))


def require_rank(cell: NoisyCell, shown: object, order: Fraction, values: list) -> None:
    rows = [value for value in values if value is not None]
    assert cell.rank_interval(SURE) <= OF_RANK * len(rows)
    below = Fraction(sum(value < shown for value in rows), len(rows))
    up_to = Fraction(sum(value <= shown for value in rows), len(rows))
    assert below - OF_RANK <= order <= up_to + OF_RANK


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, Session]]:
    place = runs.samples(tmp_path_factory.mktemp("sample") / "samples")
    with runs.sessions(place / "shop.toml") as found:
        yield found


@pytest.mark.parametrize("number", in_turn(QUESTIONS, 2))
def test_an_answer_over_the_sample_is_the_oracles_when_noise_is_small(
    number: int, both: tuple[Session, Session], monkeypatch: pytest.MonkeyPatch
):
    query = QUESTIONS[number]
    found = runs.compared(*both, runs.scaled(query, 10**6), monkeypatch)
    assert len(found) >= query.count("DP_")
    assert all(one.off <= max(one.step, one.noise) for one in found)


@pytest.mark.parametrize("number", QUESTIONS)
def test_the_question_in_plain_sql_shares_the_epsilon_of_the_statement(
    number: int, both: tuple[Session, Session]
):
    text = re.sub(r", eps=[\d.]+", "", QUESTIONS[number])
    text = re.sub(r"DP_PROPORTION\((.*)\)", r"AVG(CASE WHEN \1 THEN 1 ELSE 0 END)", text)
    text = re.sub(r"DP_(?!KEYS)", "", text)
    calls = QUESTIONS[number].count("eps=")
    plan = both[0]._plan(Source(text), Loss(Fraction(1)))
    shares = [one.call.options.epsilon for of in plan.frontiers for one in of.releases]
    assert shares == [Fraction(1, calls)] * calls
    assert sum(event.epsilon for event in plan.charge.events) == 1


def test_the_page_numbers_its_questions_and_is_linked():
    assert list(QUESTIONS) == list(range(1, 23))
    assert TEXT.count("\n## ") == len(QUESTIONS)


def test_a_far_answer_is_noticed(shop: Shop):
    """The comparison has teeth: the number of another region is refused."""
    answer = shop.session.sql("SELECT DP_COUNT(*, eps=0.001) FROM people")
    with pytest.raises(AssertionError):
        require_close(answer, 0, 0, CUSTOMERS)
    answer = shop.session.sql("SELECT DP_MEDIAN(income, eps=10) FROM people")
    with pytest.raises(AssertionError):
        require_rank(answer.cells[0][0], answer.scalar(), Fraction(6, 10), [*range(20_000)])
