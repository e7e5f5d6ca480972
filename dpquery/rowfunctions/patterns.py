"""Functions that hold a text against a literal pattern, in time that the pattern bounds."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from dpquery.core.types import Kind
from dpquery.ir.expr import Apply
from dpquery.rowfunctions.base import (
    TEXTS,
    TO_BOOLEAN,
    Parameter,
    RowFunction,
    pattern,
    stated,
)
from dpquery.rowfunctions.text import folded, lower_sql

# Patterns: one closed subset of regular expressions, written anew for each engine.
#
# What is taken: characters, `.`, classes in brackets, `\d \w \s`, escaped signs, `^` and
# `$` as the ends of the whole text, groups, `|`, and the counts `* + ? {2} {2,} {2,5}`. All
# of it is matched in linear time by the engine's automaton, and means the same in Python.
# There are no look-arounds, no references back, no flags.


MAX_SIZE = 1000
"""Characters of a pattern with its counts written out: the automaton grows with them."""
_CLASSES = {"d": "0-9", "w": "0-9A-Za-z_", "s": " \\t\\n\\f\\r"}
_SIGNS = frozenset("\\.^$|?*+()[]{}-/\"'#&~@%,:;<>=!`_ ")
_SPECIAL = frozenset("\\.^$|?*+()[]{}")
_COUNT = re.compile(r"\{(\d{1,4})(,(\d{0,4}))?\}", re.ASCII)
MAX_LIKE = 256


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern for both engines; they differ in how the end of a text is written."""

    engine: str
    python: str


@dataclass(slots=True)
class _Reader:
    text: str
    at: int = 0
    written: list[str] = field(default_factory=list)

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        self.at += 1
        return self.text[self.at - 1]

    def alternatives(self, depth: int) -> int:
        """Read `a|b`; give the size of the automaton."""
        if depth > 16:
            raise ValueError("its groups nest too deeply")
        size = self._sequence(depth)
        while self.peek() == "|":
            self.written.append(self.take())
            size += self._sequence(depth)
        return size

    def _sequence(self, depth: int) -> int:
        size = 0
        while self.peek() not in {"", "|", ")"}:
            size += self._counted(depth)
            if size > MAX_SIZE:
                raise ValueError("it is too long, with its counts written out")
        return size

    def _counted(self, depth: int) -> int:
        size = self._one(depth)
        sign = self.peek()
        if sign and sign in "*+?":
            self.written.append(self.take())
        elif sign == "{":
            size *= self._count()
        else:
            return size
        if self.peek() and self.peek() in "*+?{":
            raise ValueError("a count follows a count")
        return size

    def _count(self) -> int:
        match = _COUNT.match(self.text, self.at)
        if match is None:
            raise ValueError("{ does not begin a count; write \\{")
        low, high = int(match[1]), int(match[3] or match[1])
        if high < low or max(low, high) > MAX_SIZE:
            raise ValueError("a count is too large, or the wrong way round")
        self.written.append(match[0])
        self.at = match.end()
        return max(high, 1) + 1

    def _one(self, depth: int) -> int:
        sign = self.take()
        match sign:
            case "(":
                if self.peek() == "?" and self.text[self.at : self.at + 2] != "?:":
                    raise ValueError("a group begins with ?; only (?: is taken")
                self.at += 2 if self.peek() == "?" else 0
                self.written.append("(?:")
                size = self.alternatives(depth + 1)
                if self.peek() != ")":
                    raise ValueError("a group is not closed")
                self.written.append(self.take())
                return max(size, 1)
            case "[":
                self._class()
            case "\\":
                self.written.append(self._escaped(inside=False))
            case "^":
                self.written.append("\\A")
            case "$":
                self.written.append("\\z")
            case "*" | "+" | "?" | "{":
                raise ValueError(f"nothing stands before {sign}")
            case "]" | "}":
                raise ValueError(f"{sign} closes nothing; write \\{sign}")
            case _:
                self.written.append(sign)
        return 1

    def _escaped(self, *, inside: bool) -> str:
        if not self.peek():
            raise ValueError("it ends in a backslash")
        sign = self.take()
        if sign in _CLASSES:
            return _CLASSES[sign] if inside else f"[{_CLASSES[sign]}]"
        if sign not in _SIGNS:
            raise ValueError(f"\\{sign} is not taken")
        return "\\" + sign if sign in _SPECIAL or sign == "-" else sign

    def _class(self) -> None:
        parts = ["["]
        if self.peek() == "^":
            parts.append(self.take())
        while self.peek() != "]":
            parts.append(self._member())
        self.at += 1
        if parts[-1] in {"[", "^"}:
            raise ValueError("a class in brackets is empty")
        self.written.append("".join(parts) + "]")

    def _member(self) -> str:
        low = self._single()
        if self.peek() != "-" or self.text[self.at + 1 : self.at + 2] == "]":
            return low
        self.at += 1
        high = self._single()
        if len(low.lstrip("\\")) > 1 or len(high.lstrip("\\")) > 1 or low[-1] > high[-1]:
            raise ValueError("a range in brackets is the wrong way round")
        return f"{low}-{high}"

    def _single(self) -> str:
        if not self.peek():
            raise ValueError("a class in brackets is not closed")
        sign = self.take()
        if sign == "\\":
            return self._escaped(inside=True)
        if sign in {"[", "^"}:
            return "\\" + sign
        return "\\" + sign if sign in {"-", "&", "~", "|"} else sign


def read_regex(text: str) -> Pattern:
    """Read a pattern of the subset.

    Raises:
        ValueError: the pattern is outside it; the message says why.
    """
    reader = _Reader(text)
    if len(text) > MAX_SIZE:
        raise ValueError("it is too long")
    reader.alternatives(0)
    if reader.peek():
        raise ValueError(") closes nothing; write \\)")
    python = ("\\Z" if part == "\\z" else part for part in reader.written)
    return Pattern("".join(reader.written), "".join(python))


def check_regex(text: str) -> str | None:
    """Return what is wrong with a regular expression, if something is."""
    try:
        read_regex(text)
    except ValueError as unread:
        return str(unread)
    return None


def check_like(text: str) -> str | None:
    """Return what is wrong with a pattern of LIKE: only its length can be."""
    return None if len(text) <= MAX_LIKE else f"it is longer than {MAX_LIKE} characters"


def like_regex(text: str) -> str:
    """Write a pattern of LIKE for an automaton, which is as fast whatever the text.

    >>> like_regex("a%b_")
    'a.*b.'
    """
    parts = re.sub("%+", "%", text)
    wild = {"%": ".*", "_": "."}
    return "".join(wild.get(c, "\\" + c if c in _SPECIAL else c) for c in parts)


_read = lru_cache(256)(read_regex)
_compiled = lru_cache(256)(re.compile)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _like(call: Apply, text: str, written: str) -> bool:
    return bool(_compiled(like_regex(written), re.DOTALL).fullmatch(text))


def _liked(text: str, written: str) -> str:
    """Write LIKE where it only looks for texts in order; `_` needs the automaton."""
    if "_" in written:
        return f"regexp_full_match({text}, {_quoted(like_regex(written))}, 's')"
    return f"({text} LIKE {_quoted(re.sub('%+', '%', written))})"


def _engine_sql(call: Apply, text: str, _: str) -> str:
    written = _read(str(stated(call.arguments[1]))).engine
    return f"{call.function.lower()}({text}, {_quoted(written)})"


_LIKE = pattern(check_like)
_REGEX = Parameter("a literal pattern", frozenset({Kind.TEXT}), True, check=check_regex)

FUNCTIONS = (
    RowFunction(
        name="LIKE",
        summary="Whether a text has a form: % stands for any characters, _ for one",
        example="dept LIKE 'e%'",
        parameters=(TEXTS, _LIKE),
        written=False,
        result=TO_BOOLEAN,
        meaning=_like,
        written_as=lambda call, text, _: _liked(text, str(stated(call.arguments[1]))),
        calls=("regexp_full_match", "~~"),
    ),
    RowFunction(
        name="ILIKE",
        summary="As LIKE, with the letters A to Z in any case",
        example="dept ILIKE 'E%'",
        parameters=(TEXTS, _LIKE),
        written=False,
        result=TO_BOOLEAN,
        meaning=lambda call, text, written: _like(call, folded(text), folded(written)),
        written_as=lambda call, text, _: _liked(
            lower_sql(text), folded(str(stated(call.arguments[1])))
        ),
        calls=("regexp_full_match", "translate", "~~"),
    ),
    RowFunction(
        name="REGEXP_MATCHES",
        aliases=("REGEXP_LIKE", "REGEXP_CONTAINS"),
        summary="Whether a text holds a match of a regular expression",
        example="REGEXP_MATCHES(dept, '^e')",
        parameters=(TEXTS, _REGEX),
        result=TO_BOOLEAN,
        meaning=lambda _, text, given: bool(_compiled(_read(given).python).search(text)),
        written_as=_engine_sql,
    ),
    RowFunction(
        name="REGEXP_FULL_MATCH",
        summary="Whether a whole text matches a regular expression; also x SIMILAR TO pattern",
        example="dept SIMILAR TO '[a-z]+'",
        parameters=(TEXTS, _REGEX),
        result=TO_BOOLEAN,
        meaning=lambda _, text, given: bool(_compiled(_read(given).python).fullmatch(text)),
        written_as=_engine_sql,
    ),
)
