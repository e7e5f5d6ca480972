"""How a file of questions is read.

A question is its number and what it asks, on one line, then what is expected of it, then SQL
that is run by dpquery and by DuckDB as it stands:

    -- 7. How much is sold in each region and year?
    -- possible: SELECT r_name, range FROM region, range(1992, 1999)
    -- differs: order of ties
    SELECT ...;

| line | |
|---|---|
| `refused: DPQ301, why` | it is refused with this code, for a reason of privacy |
| `waits: DPQ305, what` | it is refused, for want of a feature |
| `possible: SELECT ...` | the groups that can exist: the answer has empty ones, too |
| `found: SELECT ...` | the groups of several persons: others are not found |
| `differs: a; b` | names of `compare.DIFFERENCES` |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_HEAD = re.compile(r"^-- (\d+)\. (.*)$", re.MULTILINE)
_LINE = re.compile(r"-- (refused|waits|possible|found|differs): (.*)")


@dataclass(frozen=True)
class Question:
    """A question of a set, and what is expected of it."""

    number: int
    asks: str
    sql: str
    code: str = ""
    """Of its refusal."""
    why: str = ""
    waits: bool = False
    possible: str = ""
    found: str = ""
    differs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return str(self.number)


def read(file: Path) -> list[Question]:
    """Read the questions of a file, in their order."""
    _, *parts = _HEAD.split(file.read_text("utf-8"))
    return [
        _question(int(number), asks, text.strip("\n"))
        for number, asks, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    ]


def _question(number: int, asks: str, text: str) -> Question:
    said: dict[str, str] = {}
    lines = text.split("\n")
    while found := _LINE.fullmatch(lines[0]):
        said[found[1]] = found[2]
        lines.pop(0)
    code, _, why = said.get("refused", said.get("waits", "")).partition(", ")
    differs = said["differs"].split("; ") if "differs" in said else []
    return Question(
        number,
        asks,
        "\n".join(lines).rstrip().removesuffix(";"),
        code,
        why,
        "waits" in said,
        said.get("possible", ""),
        said.get("found", ""),
        tuple(differs),
    )
