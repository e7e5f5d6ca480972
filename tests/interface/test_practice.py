"""Practice: rows made of a policy alone, on the way that every question goes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pytest

import dpquery
from dpquery.connecting import PRACTICE
from dpquery.policy.load import load_policy
from dpquery.policy.practice_rows import MOST_ROWS, UNITS
from dpquery.policy.sources.paths import sample_directory
from dpquery.shell.main import main
from tests import ways

VISITS = sum(1 + unit % MOST_ROWS for unit in range(UNITS))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with policies and public tables, and no private file."""
    for name in ("policy.toml", "shop.toml", "regions.csv", "products.csv"):
        (tmp_path / name).write_text((sample_directory() / name).read_text("utf-8"))
    return tmp_path


@pytest.fixture
def session(place: Path) -> Iterator[dpquery.Session]:
    with dpquery.practice(place / "policy.toml") as session:
        yield session


def test_questions_are_answered_where_no_data_are(session):
    answer = session.sql("SELECT dept, DP_COUNT(*, eps=1) AS n FROM staff GROUP BY dept")
    assert [dept for dept, _ in answer] == ["eng", "hr", "legal", "ops", "sales"]
    assert 0.9 * UNITS < sum(n for _, n in answer) < 1.1 * UNITS
    assert answer.notes[0] == PRACTICE
    assert session.budget.left.epsilon == 1


def test_refusals_are_those_of_the_data(session):
    query = "SELECT dept, salary FROM staff GROUP BY dept"
    told = []
    for one in (session, dpquery.connect(sample_directory() / "policy.toml")):
        with pytest.raises(dpquery.QueryRefused) as refused:
            one.sql(query)
        told.append((refused.value.code, refused.value.diagnostic))
    assert told[0] == told[1]
    with pytest.raises(dpquery.BudgetRefused):
        session.sql("SELECT DP_COUNT(*, eps=3) FROM staff")


def test_nothing_is_written_anywhere(place, session):
    before = sorted(place.iterdir())
    session.sql("SELECT DP_COUNT(*, eps=1) FROM staff")
    assert sorted(place.iterdir()) == before
    with dpquery.practice(place / "policy.toml") as again:
        assert again.budget.spent.epsilon == 0


def huge(place: Path, name: str = "policy.toml") -> Path:
    """Give a policy a budget under which noise is nothing."""
    lines = (place / name).read_text("utf-8").splitlines()
    told = ["epsilon = 1e9" if line.startswith("epsilon") else line for line in lines]
    (place / name).write_text("\n".join(told))
    return place / name


def test_rows_meet_across_tables(place):
    with dpquery.practice(huge(place)) as session:
        one = "max_rows_contributed=50"
        ((n,),) = session.sql(f"SELECT DP_COUNT(*, eps=1e6, {one}) FROM visits")
        joined = (
            f"SELECT DP_COUNT(*, eps=1e6, {one}) FROM staff s JOIN visits v USING (person_id)"
        )
        ((both,),) = session.sql(joined)
        assert n == both == VISITS
        of_zones = session.sql(
            f"SELECT zone, DP_COUNT(*, eps=1e6, {one}) AS n "
            "FROM visits v JOIN regions r ON v.region = r.region GROUP BY zone"
        )
        assert 0.9 * VISITS < sum(n for _, n in of_zones) <= VISITS
    with dpquery.practice(huge(place, "shop.toml")) as session:
        products = session.sql(
            f"SELECT category, DP_COUNT(*, eps=1e6, {one}) AS n "
            "FROM items i JOIN products p ON i.product = p.product GROUP BY category"
        )
        assert 0.9 * VISITS < sum(n for _, n in products) <= VISITS
        orders = f"""SELECT DP_COUNT(*, eps=1e6, {one}) FROM orders o JOIN items i
            ON o.person_id = i.person_id AND o.order_id = i.order_id"""
        assert 0.8 * VISITS < session.sql(orders).scalar() <= VISITS


def test_rows_that_reach_their_unit_through_other_tables_are_somebodys(tmp_path):
    text = ways.POLICY.format(neighbours="add-remove", type="text", rows=50, worlds=3)
    (tmp_path / "policy.toml").write_text(text)
    with dpquery.practice(tmp_path / "policy.toml") as session:
        for table in ("items", "returns"):
            assert session.sql(f"SELECT DP_COUNT(*, eps=1e6) FROM {table}").scalar() == VISITS


TYPES = {
    "integer": "bounds = [-9223372036854775000, 9223372036854775000]",
    "double": "bounds = [0.001, 0.002], grid = 0.01",
    "decimal(38,38)": "",
    "decimal(4,1)": "bounds = [-3, 3]",
    "text": "max_length = 1",
    "boolean": "",
    "date": "bounds = [0001-01-03, 9999-12-29]",
    "timestamp": "",
    "timestamptz": "",
    "time": "",
    "text[]": "",
    "integer[]": "bounds = [0, 3]",
    "decimal(3,1)[]": "keys = [0.5, 1.5]",
    "timestamptz[]": "",
}
EVERY = """
[budget]
epsilon = 1e9
[tables.t]
path = "nowhere/*.csv"
privacy_unit_column = ["a", "b"]
max_rows_contributed = 10
[tables.t.columns]
a = {{ type = "date" }}
b = {{ type = "decimal(9,2)" }}
part = {{ type = "text", keys = ["x", "y"], per_unit = true }}
{columns}
[tables.rows]
database = "nowhere.duckdb"
table = "rows"
columns.k = {{ type = "decimal(3,1)", keys = [0.5, 1] }}
columns.d = {{ type = "date", keys = [2024-02-29] }}
"""


def test_there_is_a_value_of_every_type_within_its_bounds(tmp_path):
    columns = "\n".join(
        f'c{at} = {{ type = "{type_}"{", " * bool(more)}{more} }}'
        for at, (type_, more) in enumerate(TYPES.items())
    )
    (tmp_path / "policy.toml").write_text(EVERY.format(columns=columns))
    with dpquery.practice(tmp_path / "policy.toml") as session:
        tables = session._policy.tables  # the rows themselves, which no answer shows
        rows: pa.Table = tables["t"].source.rows
        assert rows.num_rows == VISITS
        for at in range(len(TYPES)):
            values = [one for one in rows[f"c{at}"].to_pylist() if one is not None]
            assert 0.9 * VISITS < len(values) <= VISITS
        small = [float(one) for one in rows["c3"].to_pylist() if one is not None]
        assert min(small) >= -3
        assert max(small) <= 3
        assert len(set(small)) > 20
        assert set(rows["c1"].to_pylist()) == {None, 0.001}
        query = "SELECT part, DP_COUNT(*, eps=1) AS n FROM t WHERE c3 >= 0 GROUP BY part"
        assert len(session.sql(query)) >= 2
        assert session.sql("SELECT DP_COUNT(*, eps=1) FROM rows WHERE k = 0.5").scalar() > 300


def test_a_policy_is_read_without_looking_for_private_rows(place):
    found = load_policy(place / "policy.toml", private=False).tables
    assert found["staff"].source.paths == ()
    assert found["regions"].source.paths == (place.resolve() / "regions.csv",)


@pytest.mark.parametrize("source", ["people.parquet", "postgresql://alice@host/"])
def test_practice_is_of_a_policy(source):
    with pytest.raises(dpquery.PolicyInvalid, match="practice needs a policy"):
        dpquery.practice(source)


def test_what_the_policy_decides_cannot_be_given(place):
    with pytest.raises(dpquery.PolicyInvalid, match="unit= cannot be given beside a policy"):
        dpquery.practice(place / "policy.toml", unit="person_id")


def test_a_session_has_a_ceiling_here_too(place):
    with dpquery.practice(place / "policy.toml", epsilon=1) as session:
        assert session.budget.limit.epsilon == Fraction(1)


def test_the_command_line_says_that_it_is_practice(place, capsys):
    query = "SELECT DP_COUNT(*, eps=0.5) AS n FROM staff"
    assert main(["practice", str(place / "policy.toml"), "-c", query, "-c", query]) == 0
    out, err = capsys.readouterr()
    assert out.count("95% within") == 2
    assert err.count(f"note: {PRACTICE}\n") == 1
    assert "1.5 of 2 left" in err
    assert main(["practice", str(place / "policy.toml"), "--unit", "x", "-c", query]) == 2
    assert "--unit cannot be given beside a policy" in capsys.readouterr().err
    assert main(["practice", str(place / "no.parquet"), "-c", query]) == 2
    assert "dpquery practice policy.toml" in capsys.readouterr().err


def test_the_shell_says_so_before_all_else(place, monkeypatch, tmp_path):
    from dpquery.shell import main as shell
    from dpquery.shell.repl import Repl

    said: list[str] = []
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(shell, "at_terminal", lambda: True)
    monkeypatch.setattr(
        "dpquery.shell.terminal.Terminal.say", lambda _, text: said.append(text)
    )
    monkeypatch.setattr(Repl, "run", lambda repl: said.append(repl._greeting()))
    monkeypatch.setattr(sys, "argv", ["dpquery"])
    assert main(["practice", str(place / "policy.toml")]) == 0
    assert said[0] == PRACTICE
    assert "2 of 2 left" in said[1]
