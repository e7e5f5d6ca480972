"""What `policy check --review` tells a data owner: figures, and what looks like a mistake."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.engine.file_checks import misfits_of, rows_of
from dpquery.policy.load import load_policy
from dpquery.policy.owner.review import OWNERS, Review, promise, review
from dpquery.policy.sources.paths import copy_samples
from dpquery.shell.main import main

UNITS, ROWS = 200, 83
Reviewed = Callable[..., Review]


@pytest.fixture
def reviewed(tmp_path: Path) -> Reviewed:
    """Review a table of 200 units with 83 rows each, under a policy that is stated."""

    def run(
        budget: str = "epsilon = 1",
        table: str = "max_rows_contributed = 83",
        columns: str = "x = { type = 'integer', bounds = [0, 10] }",
        units: int = UNITS,
        analysts: str = "",
    ) -> Review:
        ids = np.repeat(np.arange(units), UNITS * ROWS // units)
        number = np.arange(len(ids))
        rows = {"id": ids, "x": number % 11, "name": [f"n{n}" for n in number], "key": number}
        pq.write_table(pa.table(rows), tmp_path / "t.parquet")
        policy = tmp_path / "policy.toml"
        policy.write_text(
            f"[budget]\n{budget}\n{analysts}\n[tables.t]\npath = 't.parquet'\n"
            f"privacy_unit_column = 'id'\n{table}\n[tables.t.columns]\n"
            f"id = {{ type = 'integer' }}\n{columns}\n"
        )
        return review(load_policy(policy), misfits_of, rows_of)

    return run


def warnings(found: Review) -> list[str]:
    return [f"{one.column}: {one.text}" for one in found.findings if one.severity == "warning"]


def test_a_sound_policy_has_no_warnings(reviewed: Reviewed):
    found = reviewed()
    assert warnings(found) == []
    assert str(found).startswith(OWNERS)
    (table,) = found.tables
    assert (table.units, table.rows, table.cut) == (UNITS, UNITS * ROWS, 0)
    assert table.rows_per_unit == {"50 %": 83, "95 %": 83, "99 %": 83, "all": 83}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"budget": "epsilon = 1000"}, "epsilon: 1000 is above 20"),
        ({"budget": "epsilon = 1\ndelta = 0.5"}, "delta: 0.5 is above 1e-5"),
        ({"budget": "epsilon = 1\ndelta = 0.5"}, "id: delta = 0.5 is above 1 / 200 units"),
        ({"units": 3, "table": "max_rows_contributed = 9000"}, "id: the unit has 3 different"),
        ({"units": 1, "table": "max_rows_contributed = 20000"}, "id: the unit has 1 different"),
        ({"table": "max_rows_contributed = 1"}, "id: max_rows_contributed = 1 cuts 98.8 %"),
        (
            {"table": "max_rows_contributed = 100_000"},
            "id: max_rows_contributed = 100,000 is far above the 83 rows",
        ),
        ({"columns": "name = { type = 'text' }"}, "name: nearly every row has a value of its"),
        ({"columns": "key = { type = 'integer' }"}, "key: nearly every row has a value of its"),
        (
            {"analysts": "[analysts.a]\nepsilon = 0.8\n[analysts.b]\nepsilon = 0.8"},
            "None: the analysts' limits add up to 1.6, above the 1 in all",
        ),
    ],
)
def test_what_looks_like_a_mistake_is_flagged(given: dict, told: str, reviewed: Reviewed):
    assert any(one.startswith(told) for one in warnings(reviewed(**given)))


def test_an_identifier_is_no_mistake_where_it_has_bounds_or_keys(reviewed: Reviewed):
    bounded = reviewed(columns="key = { type = 'integer', bounds = [0, 100000] }")
    assert warnings(bounded) == []


def test_costs_are_those_of_explain(tmp_path: Path):
    policy = copy_samples(tmp_path / "data")
    found = review(load_policy(policy), misfits_of, rows_of)
    staff = next(table for table in found.tables if table.name == "staff")
    assert found.part == Fraction(1, 5)
    with dpquery.connect(policy) as session:
        told = str(session.explain("SELECT DP_COUNT(*, eps=0.2) FROM staff"))
        assert f"± {round(staff.count_error * staff.rows)} (95 %)" in told
        rows = pq.read_table(policy.parent / "staff.parquet", columns=["salary"])["salary"]
        pay = np.clip(rows.drop_null().to_numpy(), 0, 200_000)
        cost = next(one for one in staff.costs if one.column == "salary")
        told = str(session.explain("SELECT DP_SUM(salary, eps=0.2) FROM staff"))
        (error,) = (line.split()[2] for line in told.splitlines() if "  error " in line)
        assert cost.sum_error == pytest.approx(float(error) / pay.sum(), rel=0.05)


@pytest.mark.parametrize(
    ("epsilon", "words"),
    [
        ("0.5", "at most 1.6: strong"),
        ("2", "at most 7.4: good"),
        ("9", "at most 8,103: weak"),
        ("20", "hardly any"),
        ("1000", "no protection to speak of"),
    ],
)
def test_an_epsilon_is_put_in_words(epsilon: str, words: str):
    assert words in promise(Fraction(epsilon))


def test_a_review_is_text_or_json_with_a_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    policy = copy_samples(tmp_path / "data")
    assert main(["policy", "check", str(policy), "--review"]) == 1
    assert "warning: visits.person_id: max_rows_contributed = 10" in capsys.readouterr().out
    assert main(["policy", "check", str(policy), "--review", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["for"] == OWNERS
    assert {table["name"] for table in document["tables"]} == {"staff", "visits"}
    assert {one["severity"] for one in document["findings"]} == {"warning", "note"}
    assert main(["policy", "check", str(policy), "--json"]) == 2


def test_a_review_of_an_empty_table_has_no_figures(tmp_path: Path):
    empty = pa.table({"id": pa.array([], pa.int64()), "x": pa.array([], pa.int64())})
    pq.write_table(empty, tmp_path / "t.parquet")
    policy = tmp_path / "policy.toml"
    policy.write_text(
        "[budget]\nepsilon = 1\n[tables.t]\npath = 't.parquet'\nprivacy_unit_column = 'id'\n"
        "[tables.t.columns]\nid = { type = 'integer' }\n"
        "x = { type = 'integer', bounds = [0, 9] }\n"
    )
    found = review(load_policy(policy), misfits_of, rows_of)
    assert found.tables[0].count_error is None
    assert "an unknown share" in str(found)
