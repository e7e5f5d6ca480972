"""Cuts a script into statements at its semicolons.

It knows quotes, dollar quotes and comments, and nothing else of SQL: whatever it hands over is
parsed and judged by the session, so a wrong cut can end in a refusal only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Statement", "ended", "statements"]

_PIECE = re.compile(
    r"""
    (?P<blank>  \s+ | --[^\n]* )
  | (?P<comment> /\* )
  | (?P<end>    ; )
  | (?P<quoted> '(?:[^']|'')*(?:'|\Z)
              | "(?:[^"]|"")*(?:"|\Z)
              | \$(?P<tag>\w*)\$ .*? (?:\$(?P=tag)\$|\Z) )
  | (?P<other>  [^\s\-/;'"$]+ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a script, without its semicolon, and the line it starts on."""

    text: str
    line: int


def statements(script: str) -> list[Statement]:
    r"""Give the statements of a script; stretches of blanks and comments alone are none.

    >>> [s.text for s in statements("SELECT ';' ; -- one; two\n SHOW TABLES;")]
    ["SELECT ';'", 'SHOW TABLES']
    """
    return list(_statements(script))


def ended(script: str) -> bool:
    """Say whether a semicolon ends the last statement.

    >>> ended("SELECT 1; -- done"), ended("SELECT ';")
    (True, False)
    """
    kinds = [kind for kind, *_ in _pieces(script) if kind not in {"blank", "comment"}]
    return kinds[-1:] == ["end"]


def _statements(script: str) -> Iterator[Statement]:
    first = last = None
    for kind, start, end in _pieces(script):
        if kind == "end":
            if first is not None:
                yield _statement(script, first, last)
            first = None
        elif kind not in {"blank", "comment"}:
            first, last = start if first is None else first, end
    if first is not None:
        yield _statement(script, first, last)


def _statement(script: str, start: int, end: int | None) -> Statement:
    return Statement(script[start:end], script.count("\n", 0, start) + 1)


def _pieces(script: str) -> Iterator[tuple[str | None, int, int]]:
    at = 0
    while piece := _PIECE.match(script, at):
        kind, start = piece.lastgroup, at
        at = _comment_end(script, start) if kind == "comment" else piece.end()
        yield kind, start, at


def _comment_end(script: str, start: int) -> int:
    """Find where a block comment ends; such comments nest."""
    depth = 0
    for mark in _COMMENT_MARK.finditer(script, start):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(script)
