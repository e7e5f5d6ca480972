"""Links resolve, here and in an installed wheel; what a message points to is there too."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.tasks import ROOT

PAGES = [
    path
    for place in (
        ".",
        "docs",
        "docs/engines",
        "datasets",
        "grammar",
        "tests",
        "benchmarks/study",
    )
    for path in sorted((ROOT / place).glob("*.md"))
]
SHIPPED = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["hatch"]["build"][
    "targets"
]["wheel"]["force-include"]


def links(page: Path) -> list[str]:
    found = re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
    return [link for link in found if "://" not in link]


def anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def shipped(path: Path) -> bool:
    return any(path.is_relative_to(ROOT / name) for name in SHIPPED)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path):
    for link in links(page):
        name, _, anchor = link.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.exists(), link
        assert not anchor or anchor in anchors(path), link


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.name)
def test_links_of_the_documentation_resolve_in_a_wheel(page: Path):
    assert shipped(page)
    targets = [(page.parent / link.partition("#")[0]).resolve() for link in links(page)]
    assert [path for path in targets if not shipped(path)] == []


def test_the_wheel_keeps_the_places_of_what_it_ships():
    assert all(f"dpquery/{name}" == place for name, place in SHIPPED.items())


@pytest.mark.parametrize(
    "page", ["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md"]
)
def test_files_that_are_named_are_there(page: str):
    """As from the root, from the package, or from the page's own folder."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text("utf-8"), flags=re.M | re.S)
    named = re.findall(r"`([\w./-]+(?:\.py|\.md|\.test|/))`", text)
    places = (ROOT, ROOT / "dpquery", (ROOT / page).parent)
    assert [name for name in named if not any((at / name).exists() for at in places)] == []
