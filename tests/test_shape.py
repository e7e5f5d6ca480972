"""A file is read in one sitting, a function at a glance. A higher ceiling needs a reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.tasks import ROOT

FUNCTION_LINES = 40
FILE_LINES = {"dpquery": 600, "datasets": 600, "tests": 600, "benchmarks": 600}

FILES = [
    (path, ceiling)
    for directory, ceiling in FILE_LINES.items()
    for path in sorted((ROOT / directory).rglob("*.py"))
]
MODULES = [path for path, _ in FILES if path.is_relative_to(ROOT / "dpquery")]
TESTS = sorted((ROOT / "tests").glob("*/**/test_*.py"))


def test_every_folder_of_tests_belongs_to_an_area():
    """`make test-AREA` for each, and `tests/README.md` names it."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    areas = dict(re.findall(r"^(\w+)_tests := (.*)$", makefile, re.MULTILINE))
    folders = {path.relative_to(ROOT / "tests").parts[0] for path in TESTS}
    assert sorted(" ".join(areas.values()).split()) == sorted(folders)
    readme = (ROOT / "tests" / "README.md").read_text("utf-8")
    assert set(re.findall(r"make test-(\w+)", readme)) == set(areas)


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


def test_files_stay_below_their_ceilings():
    long = [path for path, most in FILES if len(path.read_text("utf-8").splitlines()) > most]
    assert long == []


def test_functions_stay_below_their_ceiling():
    found = [(path, *one) for path in MODULES for one in functions(path)]
    assert [one for one in found if one[-1] > FUNCTION_LINES] == []


def test_modules_say_what_they_are_for():
    told = {path: ast.get_docstring(ast.parse(path.read_text("utf-8"))) for path in MODULES}
    assert [path for path, words in told.items() if not words] == []
