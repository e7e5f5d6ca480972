"""The pages that people read, their blocks by kind, and how two transcripts are compared."""

from __future__ import annotations

import re

from tests.tasks import ROOT

README = ROOT / "README.md"
GENERATED = {"errors.md", "functions.md"}
DOCS = [path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name not in GENERATED]
PAGES = [README, *(path for path in DOCS if path.name != "README.md")]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def text_of(page: str) -> str:
    (path,) = (path for path in PAGES if path.name == page)
    return path.read_text("utf-8")


def blocks(page: str, kind: str) -> list[str]:
    return [text for name, text in BLOCK.findall(text_of(page)) if name == kind]


def numbers(page: str, head: str) -> list[str]:
    """Read a row of a table by its head."""
    (row,) = set(re.findall(rf"^\| {re.escape(head)} \|(.*)\|$", text_of(page), re.MULTILINE))
    return [number.strip() for number in row.split("|")]


def shape(line: str) -> str:
    """Take the noise out of a line of an answer: its numbers, and the widths they cause."""
    if re.search(r"\d", line) and not line.lstrip().startswith(
        ("refused", "1 |", "budget", "warning", "try", "$")
    ):
        line = re.sub(r"-?\d+(\.\d+)?", "N", line)
    return re.sub(r" +", " ", line.strip())
