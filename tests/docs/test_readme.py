"""The README's transcripts and Python run, and say what it says but for the noise."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from dpquery.policy.load import load_policy
from dpquery.policy.samples import sample_directory
from dpquery.shell.main import main
from tests.tasks import ROOT

README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def blocks(kind: str) -> list[str]:
    return [text for found, text in BLOCKS if found == kind]


def shape(line: str) -> str:
    """Take the noise out of a line of an answer: its numbers, and the widths they cause."""
    if re.search(r"\d", line) and not line.lstrip().startswith(
        ("refused", "1 |", "budget", "$")
    ):
        line = re.sub(r"-?\d+(\.\d+)?", "N", line)
    return re.sub(r" +", " ", line.strip())


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "samples"
    shutil.copytree(sample_directory(), place)
    monkeypatch.chdir(place)
    return place


@pytest.mark.parametrize("text", blocks("console"))
def test_transcripts_come_out_as_printed(text, samples, capfd):
    written: list[str] = []
    for line in text.splitlines():
        if not line.startswith("$ "):
            continue
        _, *argv = shlex.split(line[2:])
        main(argv)
        out, err = capfd.readouterr()
        written += [line, *out.splitlines(), *err.splitlines()]
    assert [shape(line) for line in written if line] == [
        shape(line) for line in text.splitlines() if line
    ]


def test_python_runs_and_its_comments_hold(samples, capsys):
    (text,) = blocks("python")
    scope: dict = {}
    exec(compile(text, "README.md", "exec"), scope)
    answer, session = scope["answer"], scope["session"]
    assert isinstance(answer.scalar(), int)
    ((low, high),) = answer.interval("n", 0.95)
    assert low <= answer.scalar() <= high
    assert repr(answer.loss) == "Loss(epsilon=Fraction(1, 2), delta=Fraction(0, 1))"
    assert "charge: 0.1" in capsys.readouterr().out
    assert session.budget.left.epsilon == 2 - answer.loss.epsilon
    session.close()


def test_the_policy_loads(tmp_path):
    (text,) = blocks("toml")
    (tmp_path / "policy.toml").write_text(text, "utf-8")
    (tmp_path / "people.parquet").write_bytes(b"")
    policy = load_policy(tmp_path / "policy.toml")
    assert policy.tables["people"].single


def test_the_first_screen_holds_a_session_and_a_refusal():
    first = "\n".join(README.splitlines()[:42])
    assert all(part in first for part in ("make demo", "DP_COUNT", "refused[", "promised"))


def test_the_accuracy_table_is_what_the_mechanism_gives():
    from fractions import Fraction

    from dpquery.mechanisms import DiscreteLaplace

    header = re.search(r"\| ε \|(.*)\|\n", README)[1].split("|")
    shown = re.search(r"\| ± rows \|(.*)\|\n", README)[1].split("|")
    for epsilon, rows in zip(header, shown, strict=True):
        noise = DiscreteLaplace(1 / Fraction(epsilon.strip()))
        assert noise.interval(0, Fraction(95, 100)) == (-int(rows), int(rows))
