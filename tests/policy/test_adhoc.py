"""A policy from the arguments of connect: schema only, exact numbers, every doubt refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.core.privacy_loss import Loss, Neighbours
from dpquery.core.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    Type,
)
from dpquery.errors import PolicyInvalid
from dpquery.policy import adhoc
from dpquery.policy.adhoc import adhoc_policy
from dpquery.policy.model import Bounds, Files
from dpquery.policy.sources import schema
from dpquery.policy.sources.paths import sample_directory

FIELDS = {
    "user_id": pa.int64(),
    "salary": pa.int32(),
    "share": pa.float64(),
    "hired": pa.date32(),
    "seen": pa.timestamp("us"),
    "tags": pa.list_(pa.string()),
}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "visits").mkdir()
    (tmp_path / "empty").mkdir()
    for name in ("people.parquet", "visits/a.parquet", "visits/b.parquet", "log-1.parquet"):
        pq.write_table(pa.schema(list(FIELDS.items())).empty_table(), tmp_path / name)
    pq.write_table(pa.table({"region": ["n"]}), tmp_path / "regions.parquet")
    return tmp_path


def refusal(call: Callable[[], object]) -> PolicyInvalid:
    with pytest.raises(PolicyInvalid) as caught:
        call()
    return caught.value


def test_a_file_becomes_a_table_named_after_it(place: Path) -> None:
    bounds = {
        "salary": (0, 300_000),
        "share": (0, 0.1),
        "hired": ("2020-01-01", date(2021, 1, 1)),
    }
    policy, notes = adhoc_policy(
        "people.parquet", unit="user_id", rows_per_unit=1, epsilon=2.0, bounds=bounds
    )
    people = policy.tables["people"]
    assert policy.budget.limit == Loss(Fraction(2))
    assert policy.neighbours is Neighbours.ADD_REMOVE
    assert policy.ledger.path is None
    assert people.source == Files((place / "people.parquet",))
    assert people.written == ("people.parquet",)
    assert (people.unit, people.unit_type, people.single) == ("user_id", INTEGER, True)
    assert list(people.columns) == ["user_id", "salary", "share", "hired", "seen"]
    assert people.columns["salary"].bounds == Bounds(0, 300_000)
    assert people.columns["share"].bounds == Bounds(Fraction(0), Fraction(1, 10))
    assert people.columns["hired"].bounds == Bounds(date(2020, 1, 1), date(2021, 1, 1))
    assert list(people.lists) == ["tags"]
    assert any("in memory" in note for note in notes)


def test_without_a_unit_each_row_is_one(place: Path) -> None:
    policy, notes = adhoc_policy(Path("people.parquet"), epsilon="0.1", ledger="my.ledger")
    assert policy.tables["people"].unit is None
    assert policy.budget.limit.epsilon == Fraction(1, 10)
    assert policy.ledger.path == place / "my.ledger"
    assert not any("unit" in note or "in memory" in note for note in notes)


def test_several_tables_share_arguments_or_have_their_own(place: Path) -> None:
    policy, _ = adhoc_policy(
        {"people": "people.parquet", "v": "visits/*.parquet", "regions": ["regions.parquet"]},
        unit={"people": "user_id", "v": "user_id", "regions": None},
        epsilon=Decimal("1.5"),
        delta=1e-7,
        neighbours="substitute",
        bounds={"salary": [0, 1], "v.share": [0, Fraction(1, 3)]},
    )
    assert policy.neighbours is Neighbours.SUBSTITUTE
    assert policy.budget.limit == Loss(Fraction(3, 2), Fraction(1, 10**7))
    people, visits = policy.tables["people"], policy.tables["v"]
    assert visits.source == Files(tuple(place / "visits" / f"{name}.parquet" for name in "ab"))
    assert people.columns["salary"].bounds == visits.columns["salary"].bounds == Bounds(0, 1)
    assert people.columns["share"].bounds is None
    assert visits.columns["share"].bounds == Bounds(Fraction(0), Fraction(1, 3))
    assert policy.tables["regions"].unit is None


@pytest.mark.parametrize(
    ("glob", "name"), [("visits/*.parquet", "visits"), ("log-*.parquet", "log")]
)
@pytest.mark.usefixtures("place")
def test_a_glob_is_named_after_what_stands_before_it(glob: str, name: str) -> None:
    assert list(adhoc_policy(glob, epsilon=1)[0].tables) == [name]


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    ("source", "arguments", "code", "key"),
    [
        ("people.parquet", {"epsilon": None}, "DPQ608", None),
        ("people.parquet", {"epsilon": 0}, "DPQ604", "epsilon"),
        ("people.parquet", {"epsilon": True}, "DPQ604", "epsilon"),
        ("people.parquet", {"epsilon": float("nan")}, "DPQ604", "epsilon"),
        ("people.parquet", {"epsilon": "much"}, "DPQ604", "epsilon"),
        ("people.parquet", {"delta": 1}, "DPQ604", "delta"),
        ("people.parquet", {"neighbours": "add"}, "DPQ604", "neighbours"),
        ("people.parquet", {"unit": "userid"}, "DPQ608", "unit"),
        ("people.parquet", {"unit": "share"}, "DPQ607", "unit"),
        ("people.parquet", {"unit": "tags"}, "DPQ608", "unit"),
        ("people.parquet", {"unit": 3}, "DPQ604", "unit"),
        ("people.parquet", {"rows_per_unit": 1}, "DPQ608", "rows_per_unit"),
        ("people.parquet", {"unit": "user_id", "rows_per_unit": 2}, "DPQ604", "rows_per_unit"),
        ("people.parquet", {"bounds": {"salry": (0, 1)}}, "DPQ603", 'bounds["salry"]'),
        ("people.parquet", {"bounds": {"salary": (1, 0)}}, "DPQ604", 'bounds["salary"]'),
        ("people.parquet", {"bounds": {"salary": 5}}, "DPQ604", 'bounds["salary"]'),
        ("people.parquet", {"bounds": {"salary": (0, 0.5)}}, "DPQ604", 'bounds["salary"]'),
        ("people.parquet", {"bounds": {"share": (0, "x")}}, "DPQ604", 'bounds["share"]'),
        ("people.parquet", {"bounds": {"hired": ("soon", "x")}}, "DPQ604", 'bounds["hired"]'),
        ("none.parquet", {}, "DPQ601", "the table none"),
        ("empty", {}, "DPQ601", "the table empty"),
        ("text.parquet", {}, "DPQ601", "the table text"),
        ("*.parquet", {}, "DPQ608", "the file"),
        (["people.parquet", "log-1.parquet"], {}, "DPQ608", "the file"),
        ({}, {}, "DPQ604", None),
        (5, {}, "DPQ608", "the file"),
        ({"p": b"people.parquet"}, {}, "DPQ608", "the file"),
        ("people.parquet", {"bounds": [("salary", (0, 1))]}, "DPQ608", "bounds"),
        ({"p": []}, {}, "DPQ601", "the table p"),
        ({"": "people.parquet"}, {}, "DPQ604", "the table"),
        ({"p": "people.parquet", "P": "log-1.parquet"}, {}, "DPQ608", "the table"),
        ({"p": "people.parquet"}, {"unit": {"q": "user_id"}}, "DPQ603", "unit"),
        ({"p": "people.parquet"}, {"unit": {}}, "DPQ608", "unit"),
        ({"r": "regions.parquet"}, {"unit": "user_id"}, "DPQ608", "unit"),
    ],
)
def test_each_doubt_is_refused(
    source: Any, arguments: dict[str, Any], code: str, key: str | None
) -> None:
    Path("text.parquet").write_text("user_id,salary\n1,2\n")
    error = refusal(lambda: adhoc_policy(source, **{"epsilon": 1, **arguments}))
    assert (error.code, error.key) == (code, key)
    assert error.diagnostic.remedy
    assert "Error" not in str(error)


@pytest.mark.usefixtures("place")
def test_the_nearest_name_is_offered() -> None:
    unit = refusal(lambda: adhoc_policy("people.parquet", unit="userid", epsilon=1))
    assert unit.diagnostic.remedy == ('unit="user_id"',)
    far = refusal(lambda: adhoc_policy("people.parquet", unit="x", epsilon=1))
    assert far.diagnostic.remedy == ('unit="user_id"',)
    bounds = {"salry": (0, 1)}
    column = refusal(lambda: adhoc_policy("people.parquet", epsilon=1, bounds=bounds))
    assert column.diagnostic.remedy[0] == 'bounds={"salary": (0, 100)}'
    missing = refusal(lambda: adhoc_policy("people.parquet", unit="user_id"))
    assert missing.diagnostic.remedy == (
        'dpquery.connect("people.parquet", unit="user_id", epsilon=1)',
        "on the command line: --epsilon 1",
    )


def test_columns_that_differ_in_case_only_are_left_out(place: Path) -> None:
    pq.write_table(pa.table({"A": [1], "a": [2], "b": [3]}), place / "t.parquet")
    policy, notes = adhoc_policy("t.parquet", epsilon=1)
    assert list(policy.tables["t"].columns) == ["b"]
    assert sum("same name but for case" in note for note in notes) == 2


def test_nothing_but_the_schemas_of_files_is_read(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I1: files with the same schemas and other rows give one policy."""
    read: list[Path] = []
    monkeypatch.setattr(
        adhoc, "read_schema", lambda file: read.append(file) or schema.read_schema(file)
    )
    before = adhoc_policy("visits/*.parquet", epsilon=1)
    rows = [dict.fromkeys(FIELDS), {"user_id": 7, "salary": 10**9}]
    for name in "ab":
        table = pa.Table.from_pylist(rows, pa.schema(list(FIELDS.items())))
        pq.write_table(table, place / "visits" / f"{name}.parquet")
    assert adhoc_policy("visits/*.parquet", epsilon=1) == before
    assert read == [place / "visits" / f"{name}.parquet" for name in "abab"]


@pytest.mark.parametrize(
    ("arrow", "type_"),
    [
        *((getattr(pa, f"int{bits}")(), INTEGER) for bits in (8, 16, 32, 64)),
        *((getattr(pa, f"uint{bits}")(), INTEGER) for bits in (8, 16, 32)),
        (pa.uint64(), Type(Kind.DECIMAL, 20)),
        (pa.float16(), DOUBLE),
        (pa.float32(), DOUBLE),
        (pa.decimal128(18, 18), Type(Kind.DECIMAL, 18, 18)),
        (pa.decimal128(19, 2), Type(Kind.DECIMAL, 19, 2)),
        (pa.decimal128(38, 38), Type(Kind.DECIMAL, 38, 38)),
        (pa.decimal256(39, 2), None),
        (pa.decimal128(9, -2), None),
        (pa.string(), TEXT),
        (pa.large_string(), TEXT),
        (pa.dictionary(pa.int8(), pa.string()), TEXT),
        (pa.dictionary(pa.int8(), pa.int64()), INTEGER),
        (pa.dictionary(pa.int8(), pa.binary()), None),
        (pa.string_view(), TEXT),
        (pa.uuid(), TEXT),
        (pa.json_(), TEXT),
        (pa.binary(16), None),
        (pa.duration("s"), None),
        (pa.map_(pa.string(), pa.int64()), None),
        (pa.bool_(), BOOLEAN),
        (pa.date32(), DATE),
        (pa.date64(), DATE),
        (pa.timestamp("s"), TIMESTAMP),
        (pa.timestamp("ms"), TIMESTAMP),
        (pa.timestamp("us"), TIMESTAMP),
        (pa.timestamp("ns"), TIMESTAMP),
        (pa.timestamp("us", "UTC"), TIMESTAMPTZ),
        (pa.timestamp("ns", "Europe/Paris"), TIMESTAMPTZ),
        (pa.timestamp("ms", "UTC"), TIMESTAMPTZ),
        (pa.time32("ms"), TIME),
        (pa.time64("us"), TIME),
        (pa.time64("ns"), TIME),
        (pa.binary(), None),
        (pa.null(), None),
    ],
)
def test_a_files_type_is_taken_where_each_value_becomes_one_of_it(
    arrow: pa.DataType, type_: Type | None
) -> None:
    assert schema.type_of(arrow) == type_


def test_hostile_names_and_types_are_listed_or_left_out() -> None:
    policy, notes = adhoc_policy(sample_directory() / "edge.parquet", unit="unit id", epsilon=1)
    edge = policy.tables["edge"]
    assert {"se'lect; --", 'quo"ted', "Straße 数"} <= edge.columns.keys()
    assert {"ubig", "wide", "nanos", "zoned"} <= edge.columns.keys()
    assert {*edge.lists} == {"list"}
    left_out = {"blob"}
    assert not left_out & edge.columns.keys()
    assert all(any(name in note for note in notes) for name in left_out)


def test_a_timestamp_may_be_written_as_text(place: Path) -> None:
    assert place
    bounds = {"seen": ("2020-01-01", "2020-12-31T23:59:59")}
    policy, _ = adhoc_policy("people.parquet", epsilon=1, bounds=bounds)
    seen = policy.tables["people"].columns["seen"]
    low = datetime.fromisoformat("2020-01-01")
    assert seen.bounds == Bounds(low, datetime.fromisoformat("2020-12-31T23:59:59"))


@pytest.mark.parametrize(
    ("query", "first"),
    [
        (
            "SELECT DP_COUNT(*, eps=0.1, delta=1e-7, mechanism='gaussian') FROM t",
            "--delta 1e-6",
        ),
        ("SELECT DP_SUM(x, eps=0.1) FROM t", "--bounds x=0:1000"),
        ("SELECT DP_COUNT(*, eps=0.1) FROM t GROUP BY s", "WHERE s IN ('a', 'b')"),
        ("SELECT DP_MODE(s, eps=0.1) FROM t", "FILTER (WHERE s IN ('a', 'b'))"),
        ("SELECT DP_SUM(x * x, eps=0.1) FROM t", "--bounds COLUMN=LOW:HIGH"),
    ],
)
def test_a_refusal_names_options_where_there_is_no_policy(tmp_path: Path, query, first):
    table = pa.table({"u": [1, 2], "x": [1, 2], "s": ["a", "b"]})
    pq.write_table(table, tmp_path / "t.parquet")
    with (
        dpquery.connect(
            tmp_path / "t.parquet", unit="u", rows_per_unit=1, epsilon=1
        ) as session,
        pytest.raises(dpquery.QueryRefused) as caught,
    ):
        session.sql(query)
    assert first in "\n".join(caught.value.diagnostic.remedy)
    assert "data owner" not in str(caught.value)
    assert "policy" not in str(caught.value)
