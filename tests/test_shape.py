"""A file is read in one sitting, a function at a glance. A higher ceiling needs a reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tasks import ROOT

FUNCTION_LINES = 40
FILE_LINES = {"dpquery": 600, "datasets": 600, "tests": 600, "benchmarks": 600}

FILES = [
    (path, ceiling)
    for directory, ceiling in FILE_LINES.items()
    for path in sorted((ROOT / directory).rglob("*.py"))
]
TESTS = sorted((ROOT / "tests").glob("*/**/test_*.py"))


def test_every_folder_of_tests_belongs_to_an_area():
    """`make test-AREA` for each, and `tests/README.md` names it."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    areas = dict(re.findall(r"^(\w+)_tests := (.*)$", makefile, re.MULTILINE))
    folders = {path.relative_to(ROOT / "tests").parts[0] for path in TESTS}
    assert sorted(" ".join(areas.values()).split()) == sorted(folders)
    readme = (ROOT / "tests" / "README.md").read_text("utf-8")
    assert set(re.findall(r"make test-(\w+)", readme)) == set(areas)


def name(value: object) -> str | None:
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else None


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Return each function with its length; a docstring explains, and does not count."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (
                node.name,
                lines(node) - (lines(node.body[0]) if ast.get_docstring(node) else 0),
            )


def lines(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.mark.parametrize(("path", "ceiling"), FILES, ids=name)
def test_a_file_stays_below_its_ceiling(path: Path, ceiling: int):
    assert len(path.read_text("utf-8").splitlines()) <= ceiling


@pytest.mark.parametrize(
    "path", [path for path, _ in FILES if path.is_relative_to(ROOT / "dpquery")], ids=name
)
def test_a_function_stays_below_its_ceiling(path: Path):
    assert [found for found in functions(path) if found[1] > FUNCTION_LINES] == []


@pytest.mark.parametrize(
    "path", [path for path, _ in FILES if path.is_relative_to(ROOT / "dpquery")], ids=name
)
def test_a_module_says_what_it_is_for(path: Path):
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))
