"""A table is known again under another name or path: losses of other units have no sum."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import dpquery
from dpquery.errors import PolicyInvalid
from tests.samples import edit, sample_policy

COUNT = "SELECT DP_COUNT(*, eps=0.1) FROM {}"
UNIT = 'privacy_unit_column = "person_id"'


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return sample_policy(tmp_path, "epsilon = 10")


def refused(policy: Path) -> str:
    with pytest.raises(PolicyInvalid) as caught:
        dpquery.connect(policy)
    assert caught.value.code == "DPQ609"
    return str(caught.value)


SPELLED = [
    "staff.parquet",
    "./staff.parquet",
    "{}/staff.parquet",
    "staf*.parquet",
    "link.parquet",
]


@pytest.mark.parametrize("spelled", SPELLED)
@pytest.mark.parametrize(
    ("other", "said"), [('privacy_unit_column = "age"', "age"), ("", "row")]
)
def test_renamed_files_are_known_by_their_path_however_it_is_spelled(
    policy: Path, spelled: str, other: str, said: str
):
    with dpquery.connect(policy) as session:
        session.sql(COUNT.format("staff"))
    policy.with_name("link.parquet").symlink_to("staff.parquet")
    edit(policy, "[tables.staff]", "[tables.others]")
    edit(policy, "[tables.staff.columns]", "[tables.others.columns]")
    edit(policy, '"staff.parquet"', f'"{spelled.format(policy.parent)}"')
    edit(policy, UNIT, other)
    if not other:
        edit(policy, "rows_per_unit = 1", "")
    assert f"path staff.parquet was by person_id, and is by {said} now" in refused(policy)


def test_a_renamed_table_of_a_database_is_known(policy: Path):
    database = policy.with_name("all.duckdb")
    with duckdb.connect(str(database)) as connection:
        connection.execute(f"CREATE TABLE t AS FROM '{policy.with_name('staff.parquet')}'")
    edit(policy, 'path = "staff.parquet"', 'database = "all.duckdb"\ntable = "t"')
    with dpquery.connect(policy) as session:
        session.sql(COUNT.format("staff"))
    edit(policy, "[tables.staff]", "[tables.others]")
    edit(policy, "[tables.staff.columns]", "[tables.others.columns]")
    edit(policy, UNIT, 'privacy_unit_column = "age"')
    edit(policy, '"all.duckdb"', '"./all.duckdb"')
    edit(policy, 'table = "t"', 'table = "T"')
    assert "path all.duckdb t was by person_id, and is by age now" in refused(policy)


def test_a_policy_that_moved_with_its_ledger_promises_the_same(policy: Path, tmp_path: Path):
    with dpquery.connect(policy) as session:
        session.sql(COUNT.format("staff"))
    moved = policy.parent.rename(tmp_path / "moved") / "policy.toml"
    with dpquery.connect(moved) as session:
        assert session.sql(COUNT.format("staff")).loss.epsilon == 0


def test_a_table_in_other_case_and_another_place_is_known_by_its_name(policy: Path):
    with dpquery.connect(policy) as session:
        session.sql(COUNT.format("staff"))
    policy.with_name("staff.parquet").rename(policy.with_name("moved.parquet"))
    edit(policy, '"staff.parquet"', '"moved.parquet"')
    edit(policy, "[tables.staff]", "[tables.STAFF]")
    edit(policy, "[tables.staff.columns]", "[tables.STAFF.columns]")
    edit(policy, UNIT, 'privacy_unit_column = "age"')
    assert "table staff was by person_id, and is by age now" in refused(policy)
