"""Private rows that are joined with released ones: what SQL says, at the price of both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery import finish
from dpquery.core.types import UNKNOWN
from dpquery.errors import RuleRefused
from dpquery.ir.expr import Constant, Expr, columns_of
from dpquery.ir.relations import Filter
from dpquery.ir.walk import constants_in, filled
from dpquery.plan.plan import Plan
from dpquery.rowfunctions.evaluate import evaluate
from dpquery.session import Session
from tests.corpus.cases import planned, refusal
from tests.samples import sample_policy

KEYED = "(SELECT region, DP_AVG(minutes, eps=0.1) AS mean FROM visits GROUP BY region) m"
ONE = "(SELECT DP_AVG(minutes, eps=0.1) AS mean FROM visits) m"
REGIONS = (None, "east", "west")
MINUTES = (None, 10, 20)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with dpquery.connect(sample_policy(tmp_path, "epsilon = 1e9")) as found:
        yield found


@pytest.fixture
def engine() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        found.execute('CREATE TABLE f0 ("row" BIGINT, k0 TEXT, a0 DOUBLE)')
        found.execute("CREATE TABLE v (region TEXT, minutes BIGINT)")
        found.executemany("INSERT INTO v VALUES (?, ?)", list(product(REGIONS, MINUTES)))
        yield found


def constants(plan: Plan, engine: duckdb.DuckDBPyConnection) -> dict[int, object]:
    """Compute the constants of a plan of what was released."""
    (answers,) = engine.sql(
        f"SELECT {', '.join(f'({one.sql})' for one in plan.constants)}"
    ).fetchall()
    return {
        at: Fraction(one) if isinstance(one, float) else one for at, one in enumerate(answers)
    }


def kept(plan: Plan, engine: duckdb.DuckDBPyConnection) -> list[tuple[object, object]]:
    """Return the private rows, of all that there can be, that the later frontier counts."""
    conditions, node = list[Expr](), plan.frontiers[1].scan.relation
    while isinstance(node, Filter):
        conditions, node = [*conditions, node.condition], node.source
    values = constants(plan, engine)
    known = [filled(one, values) for one in conditions]  # type: ignore[arg-type]
    read = columns_of(*known)
    found = []
    for region, minutes in product(REGIONS, MINUTES):
        row = {one: {"region": region, "minutes": minutes}[one[1]] for one in read}
        if all(evaluate(one, row) is True for one in known):
            found.append((region, minutes))
    return found


@pytest.mark.parametrize(
    "joined",
    [
        "JOIN §  USING (region) WHERE minutes >= mean",
        "JOIN § ON m.region = v.region AND minutes >= mean",
        "LEFT JOIN § ON m.region = v.region AND minutes >= mean WHERE m.region IS NULL",
        "LEFT JOIN § USING (region) WHERE mean IS NULL OR minutes > mean",
        ", § WHERE v.region = m.region AND NOT minutes > mean",
    ],
)
def test_a_keyed_join_keeps_the_rows_that_sql_keeps(
    engine: duckdb.DuckDBPyConnection, joined: str
):
    """All sets of groups that can be left, NULL among them, all rows beside them."""
    compare(engine, joined, KEYED, REGIONS)


@pytest.mark.parametrize(
    "joined",
    [
        "CROSS JOIN § WHERE minutes >= mean",
        "JOIN § ON minutes >= mean",
        "LEFT JOIN § ON minutes >= mean WHERE mean IS NULL",
        "LEFT JOIN § ON minutes >= 15 WHERE mean IS NULL",
        ", § WHERE mean IS NULL",
    ],
)
def test_a_join_with_one_row_keeps_the_rows_that_sql_keeps(
    engine: duckdb.DuckDBPyConnection, joined: str
):
    compare(engine, joined, ONE, (None,))


def compare(
    engine: duckdb.DuckDBPyConnection, joined: str, relation: str, keys: Sequence[object]
) -> None:
    """Compare the rows that are kept with DuckDB's, whatever was released."""
    plan = planned(f"SELECT DP_COUNT(*, eps=0.1) FROM visits v {joined.replace('§', relation)}")
    shown = "(SELECT k0 AS region, a0 AS mean FROM f0) m"
    if relation == ONE:
        shown = "(SELECT a0 AS mean FROM f0) m"
    asked = f"SELECT v.region, minutes FROM v {joined.replace('§', shown)}"
    for many in range(len(keys) + 1):
        for groups in combinations(keys, many):
            for means in product((None, 15.0), repeat=many):
                engine.execute("DELETE FROM f0")
                for at, row in enumerate(zip(groups, means, strict=True)):
                    engine.execute("INSERT INTO f0 VALUES (?, ?, ?)", [at, *row])
                theirs = engine.sql(asked).fetchall()
                assert sorted(kept(plan, engine), key=repr) == sorted(theirs, key=repr)


@pytest.mark.parametrize(
    ("query", "events"),
    [
        (f"SELECT DP_COUNT(*, eps=0.1) FROM visits v JOIN {KEYED} USING (region)", 2),
        (f"SELECT DP_COUNT(*, eps=0.1) FROM visits v, {ONE} WHERE minutes > mean", 2),
        (
            f"WITH k AS (SELECT * FROM {KEYED}) SELECT DP_COUNT(*, eps=0.1) FROM visits v "
            "JOIN k USING (region) JOIN k j USING (region) WHERE minutes > k.mean + j.mean",
            2,
        ),
        (
            f"SELECT region, DP_COUNT(*, eps=0.1) FROM visits v JOIN {KEYED} USING (region) "
            f"CROSS JOIN {ONE[:-1]}o WHERE o.mean > m.mean GROUP BY region",
            3,
        ),
    ],
)
def test_each_frontier_is_charged_once(session: Session, query: str, events: int):
    assert len(planned(query).charge.events) == events
    assert session.sql(query).loss.epsilon == Fraction(events, 10)
    assert session.sql(query).loss.epsilon == 0  # a repeat


def test_the_released_rows_come_before_those_that_are_compared_with_them():
    plan = planned(f"SELECT DP_COUNT(*, eps=0.1) FROM {KEYED} JOIN visits v USING (region)")
    first, second = (list(constants_in(one.scan)) for one in plan.frontiers)
    assert not first
    assert second
    assert all(isinstance(one, Constant) and one.domain == UNKNOWN for one in second)


def test_the_answer_is_duckdbs_where_noise_is_small(session: Session, tmp_path: Path):
    asked = (
        "SELECT s.dept, {count} AS n FROM staff s JOIN (SELECT dept, {mean} AS mean "
        "FROM {staff} GROUP BY dept) m USING (dept) WHERE age > m.mean GROUP BY s.dept "
        "ORDER BY 1"
    )
    ours = session.sql(
        asked.format(count="DP_COUNT(*, eps=1e6)", mean="DP_AVG(age, eps=1e6)", staff="staff")
    )
    file = f"'{tmp_path / 'data' / 'staff.parquet'}'"
    theirs = asked.format(count="COUNT(*)", mean="AVG(age)", staff=file)
    expected_rows = duckdb.sql(theirs.replace("staff s", f"{file} s")).fetchall()
    assert ours.rows == expected_rows


def test_released_rows_are_written_once_for_all_that_rows_are_compared_with(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    written, write = list[object](), finish._table

    def counted(*given: Any) -> pa.Table:
        written.append(given)
        return write(*given)

    monkeypatch.setattr(finish, "_table", counted)
    session.sql(f"SELECT DP_COUNT(*, eps=0.1) FROM visits v JOIN {KEYED} USING (region)")
    assert len(written) == 3  # among rows, and both tables for the answer


def test_a_key_as_large_as_whole_numbers_are_stays_exact():
    """As doubles, neighbouring ones of 2^53 would be equal."""
    query = (
        "SELECT DP_COUNT(*, eps=0.1) FROM staff JOIN (SELECT age, DP_COUNT(*, eps=0.1) AS n "
        "FROM staff GROUP BY age) m USING (age)"
    )
    kinds = {str(one.type) for one in constants_in(planned(query).frontiers[1].scan)}
    assert kinds == {"integer"}


def test_rows_that_might_meet_several_are_refused_with_what_to_do():
    asked = (
        "SELECT DP_COUNT(*, eps=0.1) FROM staff s JOIN (SELECT dept, remote, "
        "DP_AVG(salary, eps=0.1) AS mean FROM staff GROUP BY dept, remote) m "
    )
    said = refusal(f"{asked}USING (dept)")
    assert said.startswith("refused[DPQ306]: a row may meet several released rows")
    condition = "ON s.dept = m.dept AND s.remote = m.remote"
    assert condition in said
    assert planned(asked + condition)


def test_groups_that_are_rounded_among_rows_are_no_keys():
    said = refusal(
        "SELECT DP_COUNT(*, eps=0.1) FROM staff JOIN (SELECT rating, DP_COUNT(*, eps=0.1) AS n "
        "FROM staff WHERE rating IN (1, 2) GROUP BY rating) m USING (rating)"
    )
    assert said.startswith("refused[DPQ306]")
    assert "decimals are rounded" in said


FOUND = (
    "SELECT DP_COUNT(*, eps=0.1) FROM notes n JOIN (SELECT {0} AS found, DP_COUNT(*, eps=0.1) "
    "AS n FROM notes GROUP BY DP_KEYS({0}, eps=0.1, delta=1e-6, max_keys=9)) m ON {0} = found"
)
"""Texts that are groups of their own, found in the data."""


def test_texts_that_are_found_are_keys_in_a_query_of_any_length(tmp_path: Path):
    with notes(tmp_path, longest=256) as session:
        long = "WHERE word <> '" + "x" * 300 + "'"
        assert (
            session.explain(FOUND.format("word")).charge
            == session.explain(f"{FOUND.format('word')} {long}").charge
        )


def test_texts_that_are_cut_among_rows_are_no_keys(tmp_path: Path):
    with notes(tmp_path, longest=257) as session:
        with pytest.raises(RuleRefused) as refused:
            session.explain(FOUND.format("word"))
        assert refused.value.code == "DPQ306"
        assert "group it by LEFT(..., 256)" in str(refused.value)
        assert session.explain(FOUND.format("LEFT(word, 256)"))


def notes(place: Path, longest: int) -> Session:
    """Open a table of texts that may be so long."""
    pq.write_table(pa.table({"person": [1, 2], "word": ["a", "b"]}), place / "notes.parquet")
    (place / "policy.toml").write_text(
        f"""
        [privacy]
        neighbours = "add-remove"
        [budget]
        epsilon = 10
        delta = 1e-5
        [tables.notes]
        path = "notes.parquet"
        privacy_unit_column = "person"
        rows_per_unit = 1
        [tables.notes.columns]
        person = {{ type = "integer" }}
        word = {{ type = "text", max_length = {longest} }}
        """
    )
    return dpquery.connect(place / "policy.toml")
