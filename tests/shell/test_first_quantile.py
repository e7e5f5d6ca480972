"""The first query anybody tries works at every door, on a policy and on a bare file."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.shell.main import main
from tests.shell.test_repl_tmux import Tmux

QUERY = "SELECT DP_QUANTILE(salary, 0.1, eps=1) FROM people"
BARE = ["people.parquet", "--unit", "user_id", "--rows", "1"]
BARE += ["--bounds", "salary=0:300000", "--epsilon", "2"]
POLICY = """
[budget]
epsilon = 2
[tables.people]
path = "people.parquet"
privacy_unit_column = "user_id"
max_rows_contributed = 1
[tables.people.columns]
user_id = { type = "integer" }
salary = { type = "double", bounds = [0, 300000] }
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    salaries = [20_000 + 30 * number for number in range(3000)]
    people = pa.table(
        {"user_id": list(range(3000)), "salary": pa.array(salaries, pa.float64())}
    )
    pq.write_table(people, tmp_path / "people.parquet")
    (tmp_path / "policy.toml").write_text(POLICY, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def near(value: object) -> bool:
    """The tenth of 3000 evenly paid people earns 29,000; 100 ranks are 3,000 of salary.

    At eps=1 the released value is more than 100 ranks away with a probability below 1e-15.
    """
    return abs(float(str(value)) - 29_000) < 3_000


@pytest.mark.parametrize("source", [["policy.toml"], BARE], ids=["policy", "file"])
@pytest.mark.parametrize("piped", [False, True], ids=["command", "pipe"])
def test_from_the_command_line(source, piped, capsys, monkeypatch):
    given = [] if piped else ["-c", QUERY]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{QUERY};\n".encode())))
    assert main([*source, *given]) == 0
    out, err = capsys.readouterr()
    assert out.split()[0] == "dp_quantile"
    assert near(out.split()[1])
    assert "budget: 1 of 2 left" in err


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.parametrize("source", [["policy.toml"], BARE], ids=["policy", "file"])
def test_from_the_shell(source, place):
    home = ["env", "-C", str(place), f"XDG_STATE_HOME={place / 'state'}", "TERM=xterm-256color"]
    terminal = Tmux(shlex.join([*home, sys.executable, "-m", "dpquery", *source]))
    try:
        terminal.sees("dp>")
        terminal.enter(f"{QUERY};")
        terminal.sees("ask it? [y/N]")
        terminal.enter("y")
        screen = terminal.sees("budget: 1 of 2 left")
        assert near(screen[screen.index(" dp_quantile") + 1])
    finally:
        terminal.close()


@pytest.mark.parametrize("bare", [False, True], ids=["policy", "file"])
def test_from_python(bare):
    arguments = {"unit": "user_id", "bounds": {"salary": (0, 300_000)}, "epsilon": 2}
    arguments["max_rows_contributed"] = 1
    source, given = ("people.parquet", arguments) if bare else ("policy.toml", {})
    with dpquery.connect(source, **given) as session:
        assert near(session.sql(QUERY).scalar())
        assert session.budget.left.epsilon == 1


def test_from_a_policy_drafted_from_the_file(capsys):
    assert main(["policy", "init", "people.parquet"]) == 0
    drafted = capsys.readouterr().out.replace('"?"', '"user_id"')
    drafted = drafted.replace("# rows_per_unit", "rows_per_unit")
    drafted = re.sub(r"(salary = .*)\}( .*)", r"\1, bounds = [0, 300000] }", drafted)
    Path("drafted.toml").write_text(drafted, "utf-8")
    assert main(["drafted.toml", "-c", QUERY]) == 0
    assert near(capsys.readouterr().out.split()[1])


def test_a_note_about_a_call_names_its_options_and_none_of_the_command_line(capsys):
    query = "SELECT DP_COUNT(*, eps=1) FROM people, UNNEST([1, 2, 3]) AS t (x)"
    assert main([*BARE, "--rows", "5", "-c", query]) == 0
    (note,) = (line for line in capsys.readouterr().err.splitlines() if "a list" in line)
    assert "--rows" not in note
    assert "state fewer in the call, such as max_rows_contributed=5" in note


def test_without_a_unit_a_refusal_and_explain_name_the_option(capsys):
    bare = ["people.parquet", "--epsilon", "1"]
    assert main([*bare, "-c", "SELECT COUNT(*) FROM people"]) == 1
    refused = capsys.readouterr().err
    assert "each row is a unit of its own here: name the person's column by --unit." in refused
    assert main([*bare, "-c", "EXPLAIN SELECT DP_COUNT(*, eps=1) FROM people"]) == 0
    assert "if it names a person: --unit user_id" in " ".join(capsys.readouterr().out.split())
    assert main([*BARE, "-c", "SELECT COUNT(*) FROM people"]) == 1
    assert "--unit" not in capsys.readouterr().err


def test_where_one_row_was_declared_a_failure_says_to_leave_that_out(capsys, place):
    table = pa.table({"user_id": [1, 1, 2]})
    pq.write_table(table, place / "people.parquet")
    given = ["people.parquet", "--unit", "user_id", "--epsilon", "1", "--rows-per-unit", "1"]
    assert main([*given, "-c", "SELECT DP_COUNT(*, eps=1) FROM people"]) == 4
    told = capsys.readouterr().err
    assert "try: --rows auto in place of --rows-per-unit 1, unless each unit has one" in told
    assert "in Python" not in told
    given[-2:] = ["--rows", "auto"]
    assert main([*given, "-c", "SELECT DP_COUNT(*, eps=1) FROM people"]) == 0
