"""The pages that people read, their blocks by kind, and how two transcripts are compared."""

from __future__ import annotations

import re

from tests.tasks import ROOT

README = ROOT / "README.md"
PAGES = [
    README,
    *(
        ROOT / "docs" / f"{name}.md"
        for name in ("owners", "ledgers", "bounds", "refining", "analysts", "parts")
    ),
]


def text_of(page: str) -> str:
    (path,) = (path for path in PAGES if path.name == page)
    return path.read_text("utf-8")


def blocks(page: str, kind: str) -> list[str]:
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == kind]


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
