"""Pages for those who come from another engine: one shape, and each line of ours is run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpquery
from dpquery import functions
from dpquery.errors.pages import explain
from dpquery.policy import toml_keys
from dpquery.policy.sources.paths import copy_samples
from dpquery.session import Session
from dpquery.shell.arguments import _query_parser
from dpquery.sql.bigquery import _OPTIONS, _STRATEGIES
from tests.tasks import ROOT

PAGES = sorted((ROOT / "docs" / "engines").glob("*.md"))
SHAPE = [
    "## Budget and unit",
    "## Queries",
    "## What means something else",
    "## What is not here",
]
STATEMENTS = ("SELECT", "WITH ", "EXPLAIN", "SHOW", "DESCRIBE", "SET ")
KEYS = {key.line.partition(" = ")[0] for group in toml_keys.GROUPS for key in group.keys}
PARAMETERS = {one.name for function in functions.ALL for one in function.parameters}
KNOWN = {*KEYS, *PARAMETERS, *functions.names(), *_OPTIONS, *_STRATEGIES}
SECTION = re.compile(r"\[(budget|queries|analysts\.\w+)\]")


def cells(page: Path, head: str) -> list[list[str]]:
    """Return the code in the last column of a table, row by row."""
    text = page.read_text("utf-8").partition(f"{head}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| .* \| (.*) \|$", text, re.MULTILINE)
    return [re.findall(r"`([^`]+)`", row) for row in rows if row not in {"here", "---"}]


def lines() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for code in {code for head in SHAPE[:2] for row in cells(page, head) for code in row}:
            yield page.stem, code


LINES = sorted(lines())


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    policy = copy_samples(tmp_path_factory.mktemp("engines") / "samples")
    text = policy.read_text("utf-8").replace("epsilon = 2.0", "epsilon = 1000\ndelta = 1e-4", 1)
    policy.write_text(text, "utf-8")
    with dpquery.connect(policy) as opened:
        yield opened


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_the_shape_of_the_others(page: Path):
    text = page.read_text("utf-8")
    assert text.startswith("# Coming from ")
    assert explain(page.stem) == text.rstrip()
    assert re.findall(r"^## .*$", text, re.MULTILINE) == SHAPE
    assert len(text.splitlines()) <= 100
    assert "```console\n$ dpquery policy.toml" in text.partition(SHAPE[0])[0]
    assert all(
        any(code.startswith(STATEMENTS) for code in row) for row in cells(page, SHAPE[1])
    )


@pytest.mark.parametrize(("page", "code"), LINES, ids=[f"{p}-{code[:60]}" for p, code in LINES])
def test_a_line_of_ours_runs_or_names_what_there_is(session: Session, page: str, code: str):
    if code.startswith(STATEMENTS) and "..." not in code:
        assert session.sql(code, eps="0.5").columns
    elif code.startswith("session."):
        assert eval(code, {"session": session}) is not None
    elif code.startswith("dpquery.connect("):
        assert 'policy.toml"' in code
    elif named := re.match(r"(\w+) = ", code):
        assert named[1] in KEYS
    elif code.startswith(("-", "dpquery ")):
        assert re.sub(r" [\d.]+$", "", code) in _query_parser("dpquery").format_help()
    else:
        assert code in KNOWN or SECTION.fullmatch(code)
