"""The command line and the shell against a server: as against a policy of one's own."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpquery
from dpquery.policy.sources.paths import copy_samples
from dpquery.shell import batch
from dpquery.shell.main import main
from tests.docs.pages import shape
from tests.interface.door import PASSWORD, Door
from tests.shell.test_repl import ENTER, TRANSCRIPTS, talk, typed_in, without_noise
from tests.tasks import ROOT

COUNT = "SELECT DP_COUNT(*, eps=0.01) AS n FROM staff"


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    opened = Door(copy_samples(tmp_path_factory.mktemp("served") / "data"))
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("PGPASSWORD", raising=False)


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A policy that is asked what the server is: what is a repeat there is one here."""
    return str(copy_samples(tmp_path_factory.mktemp("own") / "data"))


def told(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, list[str], list[str]]:
    """Run a command line; give its exit code and what it wrote, noise apart."""
    code = main(argv)
    out, err = capsys.readouterr()
    return code, [*map(shape, out.splitlines())], [*map(shape, err.splitlines())]


def test_a_conversation_comes_out_as_with_ones_own_policy(door: Door):
    """First of all, while the whole budget is left."""
    file = next(file for file in TRANSCRIPTS if file.stem == "first_session")
    _, *lines = file.read_text("utf-8").splitlines()
    typed = [text for line in lines if (text := typed_in(line)) is not None]
    with dpquery.connect(door.url) as session:
        said = talk(session, "".join(text + ENTER for text in typed))
    greeting, *shown = said.splitlines()
    assert "tables: staff, visits, regions · budget: 2 of 2 left" in greeting
    assert [*map(without_noise, shown)] == [line for line in lines if typed_in(line) is None]


@pytest.mark.parametrize(
    "words",
    [
        ("-c", COUNT),
        ("-c", COUNT, "--format", "csv", "--intervals"),
        ("-c", "SHOW TABLES", "-c", "DESCRIBE staff", "-c", "SELECT salary FROM staff"),
        ("-c", f"EXPLAIN {COUNT}", "--format", "json"),
        ("-c", "SELECT COUNT(*) AS n FROM visits", "-e", "0.02"),
        ("-c", "SELECT COUNT(*) AS n FROM visits", "-e", "0"),
        ("-c", ""),
    ],
    ids=str,
)
def test_command_lines_give_the_same(
    door: Door, own: str, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
):
    here, there = told(capsys, own, *words), told(capsys, door.url, *words)
    assert there[:2] == here[:2]
    budgets = [[line for line in err if "budget" not in line] for *_, err in (here, there)]
    assert budgets[0] == budgets[1]


def test_a_budget_that_is_spent_has_its_exit_code(
    door: Door, capsys: pytest.CaptureFixture[str]
):
    code, out, err = told(
        capsys, door.url, "-c", "SELECT DP_COUNT(*, eps=5) FROM staff WHERE age > 50"
    )
    assert (code, out) == (3, [])
    assert err[0].startswith("refused[DPQ501]: this query would spend 5")


def test_files_and_pipes_are_asked(door: Door, tmp_path: Path):
    script = tmp_path / "script.sql"
    script.write_text(f"{COUNT};\n-- and\nSHOW TABLES;\nSELECT age FROM staff;\n")
    told = [
        subprocess.run(
            [sys.executable, "-m", "dpquery", door.open_url, *words],
            cwd=ROOT,
            env={**os.environ, "PGPASSWORD": PASSWORD},
            input=script.read_text() if not words else "",
            capture_output=True,
            text=True,
            check=False,
        )
        for words in (("-f", str(script)), ())
    ]
    for done in told:
        assert done.returncode == 1
        assert " 95% within" in done.stdout
        assert "\n table " in done.stdout
        assert done.stderr.endswith("dpquery: stopped at line 4: 2 of 3 answered\n")


def test_binary_answers_are_written(door: Door, tmp_path: Path):
    out = tmp_path / "answer.parquet"
    assert main([door.url, "-c", COUNT, "-o", str(out)]) == 0
    assert out.read_bytes()[:4] == b"PAR1"


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("--unit", "person_id"), "--unit"),
        (("--bounds", "age=0:9"), "--bounds"),
        (("--ledger", "x.ledger"), "--ledger"),
        (("--rows", "3"), "--rows"),
        (("--rows-per-unit", "1"), "--rows-per-unit"),
        (("--epsilon", "1"), "--epsilon"),
        (("--neighbours", "substitute"), "--neighbours"),
        (("--public", "x.csv"), "--public"),
        (("--keys", "dept=eng"), "--keys"),
    ],
    ids=str,
)
def test_what_a_server_decides_is_refused_in_words(
    door: Door, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], option: str
):
    assert main([door.url, *words, "-c", COUNT]) == 2
    out, err = capsys.readouterr()
    assert (out, err.splitlines()[0]) == (
        "",
        f"policy[DPQ608]: {option} cannot be given to a server",
    )


def test_the_analyst_is_who_logs_in(door: Door, capsys: pytest.CaptureFixture[str]):
    assert main([door.url, "--analyst", "default", "-c", "SHOW TABLES"]) == 0
    capsys.readouterr()
    assert main([door.url, "--analyst", "eve", "-c", "SHOW TABLES"]) == 2
    assert capsys.readouterr().err.startswith("policy[DPQ608]: --analyst is not who logs in\n")


def test_a_server_is_asked_by_itself(door: Door, capsys: pytest.CaptureFixture[str]):
    assert main([door.url, "staff.parquet", "-c", COUNT]) == 2
    assert "a server is asked by itself" in capsys.readouterr().err


class Typed(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("word", "code"), [(PASSWORD, 0), ("guess", 2), ("", 2)])
def test_who_types_is_asked_for_a_password(
    door: Door,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    word: str,
    code: int,
):
    asked: list[str] = []
    monkeypatch.setattr(sys, "stdin", Typed())
    monkeypatch.setattr(batch, "getpass", lambda question: asked.append(question) or word)
    assert main([door.open_url, "-c", "SHOW TABLES"]) == code
    assert asked == [f"the server at 127.0.0.1:{door.port} asks default for a password: "]
    err = capsys.readouterr().err
    assert ("DPQ809" in err, "DPQ808" in err) == (word == "guess", word == "")
    assert PASSWORD not in err


def test_a_pipe_is_not_asked_for_a_password(
    door: Door, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main([door.open_url, "-c", "SHOW TABLES"]) == 2
    assert "try: put it into PGPASSWORD or ~/.pgpass" in capsys.readouterr().err


def test_a_shell_goes_on_where_a_connection_broke(door: Door):
    with dpquery.connect(door.url) as session:
        made = f"CREATE TEMP VIEW young AS SELECT age FROM staff;{ENTER}"
        said = talk(session, f"{made}.tables{ENTER}")
        door.hang_up()
        said += talk(session, f".tables{ENTER}")
    assert len(re.findall(r"\n young .*SELECT", said)) == 2
    assert "broke off" not in said
