"""The text of a query, and stretches of it.

A `Source` turns character offsets into lines and draws carets. It imports nothing of ours, and
it never changes the text: a span always points into what the analyst typed.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

_WIDEST = 96
"""Terminal cells of source shown before a line is shortened around its caret."""


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A stretch of the source text: characters start to end, end excluded."""

    start: int
    end: int

    def __or__(self, other: Span) -> Span:
        """Return the smallest span that covers both."""
        return Span(min(self.start, other.start), max(self.end, other.end))


def width(text: str) -> int:
    r"""Count the terminal cells of a text: wide characters take two, combining marks none.

    >>> width("naïve"), width("数"), width("e\u0301")
    (5, 2, 1)
    """
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in {"Cf", "Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def visible(text: str) -> str:
    r"""Replace what does not print by one-cell signs, so that it cannot drive a terminal.

    >>> visible("two\nlines"), visible("\x9b31m")
    ('two␊lines', '�31m')
    """
    return "".join(_sign(char) for char in text)


def visible_lines(text: str) -> str:
    r"""Make lines visible, and keep them lines; tabs stay, for what is to be pasted.

    >>> visible_lines("why: \x1b[2J\n\tnow")
    'why: ␛[2J\n\tnow'
    """
    kept = (char if char in "\n\t" else _sign(char) for char in text)
    return "".join(kept)


def _sign(char: str) -> str:
    if char.isprintable() or unicodedata.category(char) == "Zs":
        return char
    return (
        chr(ord("\N{SYMBOL FOR NULL}") + ord(char))
        if char < " "
        else "\N{REPLACEMENT CHARACTER}"
    )


@dataclass(frozen=True, slots=True)
class Source:
    """A query's text and where it came from."""

    text: str
    name: str = "query"

    def snippet(self, span: Span) -> str:
        """Return the text under a span."""
        return self.text[span.start : span.end]

    def line_of(self, offset: int) -> tuple[int, int, str]:
        """Return the line that holds an offset: its number, where it starts, its text."""
        start = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        line = self.text[start : len(self.text) if end < 0 else end]
        return self.text.count("\n", 0, start) + 1, start, line.rstrip("\r")

    def caret(self, span: Span, label: str = "") -> str:
        """Draw the line that holds a span, and carets under it.

        >>> print(Source("SELECT salary FROM staff").caret(Span(7, 13), "a raw column"))
          |
        1 | SELECT salary FROM staff
          |        ^^^^^^ a raw column
        """
        number, start, line = self.line_of(min(span.start, len(self.text)))
        line = line.replace("\t", " ")
        before = visible(line[: span.start - start])
        marked = visible(line[span.start - start : span.end - start])
        after = visible(line[span.end - start :])
        before, marked, after = _shorten(before, marked, after)
        gutter = " " * len(str(number))
        carets = " " * width(before) + "^" * max(1, width(marked))
        return "\n".join(
            [
                f"{gutter} |",
                f"{number} | {before}{marked}{after}".rstrip(),
                f"{gutter} | {carets} {label}".rstrip(),
            ]
        )


def _shorten(before: str, marked: str, after: str) -> tuple[str, str, str]:
    """Cut a long line around the marked part, which stays whole as far as it fits."""
    if width(before + marked + after) <= _WIDEST:
        return before, marked, after
    if len(marked) > _WIDEST:
        marked = marked[: _WIDEST - 1] + "…"
        after = ""
    room = max(10, (_WIDEST - len(marked)) // 2)
    if len(before) > room:
        before = "…" + before[1 - room :]
    if len(after) > room:
        after = after[: room - 1] + "…"
    return before, marked, after
