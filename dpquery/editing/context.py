"""Finds where in a statement the cursor stands: which clause, inside which call, after what.

It knows quotes, comments, brackets and the words that begin a clause, and is right about every
text that the language accepts so far as it is typed; of other texts it may say anything, since
what follows from it are suggestions, and statements that the session judges. The parser's own
tokenizer would refuse a text whose last quote is open, as it is while it is being typed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_WORD = re.compile(
    r"""
    (?P<blank>   \s+ )
  | (?P<comment> --[^\n]* | /\* )
  | (?P<text>    '(?:[^']|'')*(?:'|\Z) | \$(?P<tag>\w*)\$ .*? (?:\$(?P=tag)\$|\Z) )
  | (?P<quoted>  "(?:[^"]|"")*(?:"|\Z) )
  | (?P<name>    [^\W\d]\w* )
  | (?P<number>  \d[\w.]* )
  | (?P<sign>    :=|=>|<=|>=|<>|!=|. )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")
_CLAUSES = frozenset({
    "SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "EXPLAIN",
    "REFRESH", "SHOW", "DESCRIBE", "DESC", "SUMMARIZE", "CREATE", "DROP",
})  # fmt: skip
_BEFORE_OPERAND = _CLAUSES | {"AND", "OR", "NOT", "IN", "BETWEEN", "IS", "AS", "BY", "DISTINCT"}
LANGUAGE = _BEFORE_OPERAND | {
    "ALL", "ASC", "DATE", "FALSE", "FILTER", "FIRST", "LAST", "NULL", "NULLS", "TIMESTAMP",
    "TRUE",
}  # fmt: skip
"""The words that are not names."""
_COMPARES = frozenset({"=", "<>", "!=", "<", "<=", ">", ">=", "IN", "BETWEEN", "IS"})
_ENDS = frozenset({")", "]"})


@dataclass(frozen=True, slots=True)
class Word:
    """One word of a text; the text under it is as typed."""

    kind: str
    text: str
    start: int
    open: bool = False
    """Whether it is a comment or in quotes, and could go on."""

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)

    @property
    def upper(self) -> str:
        """The word as the language reads it, where it is no text and no quoted name."""
        return self.text if self.kind in {"text", "quoted"} else self.text.upper()


@dataclass(slots=True)
class Frame:
    """What stands inside one pair of brackets, so far."""

    opener: str = ""
    """The word before the bracket."""
    nested: bool = False
    subject: str = ""
    """The word before IN, where the brackets hold its list."""
    clause: str = ""
    commas: int = 0
    compared: bool = False
    """Whether a comparison has been written since the last AND or OR."""
    options: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the cursor stands."""

    frame: Frame
    before: Sequence[Word]
    """The words of the statement before the one that is being typed."""
    typed: str
    """The part of a word, or of a text with its quote, that stands before the cursor."""
    start: int

    @property
    def in_text(self) -> bool:
        """Whether a text in quotes is being typed."""
        return self.typed.startswith("'")

    def last(self, back: int = 1) -> str:
        """Return the word so many before the one being typed, in capitals; empty if none."""
        return self.before[-back].upper if len(self.before) >= back else ""

    def name(self, back: int = 1) -> str:
        """Return the same word as it was typed."""
        return self.before[-back].text if len(self.before) >= back else ""

    @property
    def complete(self) -> bool:
        """Whether an operand has ended, so that an operator or a clause follows."""
        return bool(self.before) and _ends_operand(self.before)


def words_of(text: str) -> list[Word]:
    """Cut a text into words, blanks left out."""
    found, at = [], 0
    while match := _WORD.match(text, at):
        kind, start, at = match.lastgroup or "", at, match.end()
        quote = text[start] if match["tag"] is None else f"${match['tag']}$"
        open_ = kind == "comment" or (
            kind in {"text", "quoted"} and match.group().count(quote) % 2 == 1
        )
        if match.group() == "/*":
            at, open_ = _comment_end(text, start)
        if kind != "blank":
            found.append(Word(kind, text[start:at], start, open_))
    return found


def _comment_end(text: str, start: int) -> tuple[int, bool]:
    """Find where a block comment ends, and whether it is open; such comments nest."""
    depth = 0
    for mark in _COMMENT_MARK.finditer(text, start):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end(), False
    return len(text), True


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a script, without its semicolon, and the line it starts on."""

    text: str
    line: int


def statements(script: str) -> list[Statement]:
    r"""Return the statements of a script; stretches of blanks and comments alone are none.

    >>> [s.text for s in statements("SELECT ';' ; -- one; two\n SHOW TABLES;")]
    ["SELECT ';'", 'SHOW TABLES']
    """
    found: list[list[Word]] = [[]]
    for word in words_of(script):
        if word.text == ";":
            found.append([])
        elif word.kind != "comment":
            found[-1].append(word)
    return [
        Statement(
            script[part[0].start : part[-1].end], script.count("\n", 0, part[0].start) + 1
        )
        for part in found
        if part
    ]


def ended(script: str) -> bool:
    """Return whether a semicolon ends the last statement.

    >>> ended("SELECT 1; -- done"), ended("SELECT ';")
    (True, False)
    """
    words = [word.text for word in words_of(script) if word.kind != "comment"]
    return words[-1:] == [";"]


def place_of(text: str) -> Place | None:
    """Find where the end of a text stands; None inside a comment or a quoted name."""
    words = words_of(text)
    ends = [number for number, word in enumerate(words) if word.text == ";"]
    words = words[ends[-1] + 1 :] if ends else words
    last = words[-1] if words else None
    going_on = last and last.end == len(text) and (last.kind == "name" or last.open)
    typed = words.pop() if going_on else None
    if typed is not None and typed.kind in {"comment", "quoted"}:
        return None
    words = [word for word in words if word.kind != "comment"]
    start = len(text) if typed is None else typed.start
    return Place(_frame(words), words, "" if typed is None else typed.text, start)


def _frame(words: Sequence[Word]) -> Frame:
    """Follow brackets and clauses up to the end."""
    frames = [Frame()]
    for number, word in enumerate(words):
        before = words[:number]
        if word.text in {"(", "["}:
            frames.append(_opened(before, frames[-1]))
        elif word.text in _ENDS:
            del frames[max(1, len(frames) - 1) :]
        else:
            _enter(frames[-1], word, before)
    return frames[-1]


def _opened(before: Sequence[Word], outer: Frame) -> Frame:
    opener = before[-1].upper if before and before[-1].kind == "name" else ""
    if opener == "IN":
        subject = [word for word in before[:-1] if word.upper != "NOT"][-1:]
        return Frame("IN", True, subject[0].text if subject else "", outer.clause)
    if opener in _BEFORE_OPERAND:
        opener = ""
    return Frame(opener, True, clause="" if opener == "FILTER" else outer.clause)


def _enter(frame: Frame, word: Word, before: Sequence[Word]) -> None:
    after_point = bool(before) and before[-1].text == "."
    if word.kind == "name" and word.upper in _CLAUSES and not after_point:
        if not (word.upper == "DESC" and frame.clause):  # there it is a direction
            frame.clause, frame.compared, frame.commas = word.upper, False, 0
    elif word.upper in {"AND", "OR"}:
        between = word.upper == "AND" and len(before) > 1 and before[-2].upper == "BETWEEN"
        frame.compared = between
    elif word.text == ",":
        frame.commas += 1
    elif word.upper in _COMPARES:
        frame.compared = True
    if word.text in {"=", ":=", "=>"} and before and before[-1].kind == "name":
        frame.options.append(before[-1].text.lower())


def _ends_operand(words: Sequence[Word]) -> bool:
    word = words[-1]
    if word.kind in {"text", "quoted", "number"} or word.text in _ENDS:
        return True
    if word.text == "*":  # all rows, or a product where an operand stands before it
        return not (len(words) > 1 and _ends_operand(words[:-1]))
    return word.kind == "name" and word.upper not in _BEFORE_OPERAND
