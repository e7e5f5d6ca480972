"""Functions that hold a text against a literal pattern, in time that the pattern bounds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from dpquery.core.types import Kind
from dpquery.ir.expr import Apply, Expr, longest_of
from dpquery.rowfunctions.base import (
    TEXTS,
    TO_BOOLEAN,
    TO_TEXT,
    Parameter,
    RowFunction,
    pattern,
    stated,
)
from dpquery.rowfunctions.text import folded, lower_sql

# Patterns: one closed subset of regular expressions, written anew.
#
# What is taken: characters, `.`, classes in brackets, `\d \w \s`, escaped signs, `^` and
# `$` as the ends of the whole text, groups, `|`, and the counts `* + ? {2} {2,} {2,5}`. All
# of it is matched in linear time by RE2, which the engine has, and pyarrow for public values.
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
    """A pattern as RE2 has it."""

    written: str
    size: int
    """The states of the automaton, of each of which a character may need a step."""
    groups: int
    """How many groups can be referred to."""
    least: int
    """The fewest characters that it matches."""
    empty_loops: bool
    """Whether a count is of what may match nothing: what that matches differs by version."""


@dataclass(slots=True)
class _Reader:
    text: str
    at: int = 0
    written: list[str] = field(default_factory=list)
    groups: int = 0
    empty_loops: bool = False

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self) -> str:
        self.at += 1
        return self.text[self.at - 1]

    def alternatives(self, depth: int) -> tuple[int, int]:
        """Read `a|b`; give the size of the automaton, and the fewest characters of a match."""
        if depth > 16:
            raise ValueError("its groups nest too deeply")
        size, least = self._sequence(depth)
        while self.peek() == "|":
            self.written.append(self.take())
            other, fewer = self._sequence(depth)
            size, least = size + other, min(least, fewer)
        return size, least

    def _sequence(self, depth: int) -> tuple[int, int]:
        size = least = 0
        while self.peek() not in {"", "|", ")"}:
            other, more = self._counted(depth)
            size, least = size + other, least + more
            if size > MAX_SIZE:
                raise ValueError("it is too long, with its counts written out")
        return size, least

    def _counted(self, depth: int) -> tuple[int, int]:
        size, least = self._one(depth)
        sign = self.peek()
        if not sign or sign not in "*+?{":
            return size, least
        self.empty_loops |= least == 0
        if sign == "{":
            low, high = self._count()
            size, least = size * (max(high, 1) + 1), least * low
        else:
            self.written.append(self.take())
            least = least if sign == "+" else 0
        if self.peek() and self.peek() in "*+?{":
            raise ValueError("a count follows a count")
        return size, least

    def _count(self) -> tuple[int, int]:
        match = _COUNT.match(self.text, self.at)
        if match is None:
            raise ValueError("{ does not begin a count; write \\{")
        low, high = int(match[1]), int(match[3] or match[1])
        if high < low or max(low, high) > MAX_SIZE:
            raise ValueError("a count is too large, or the wrong way round")
        self.written.append(match[0])
        self.at = match.end()
        return low, high

    def _one(self, depth: int) -> tuple[int, int]:
        sign = self.take()
        match sign:
            case "(":
                if self.peek() == "?" and self.text[self.at : self.at + 2] != "?:":
                    raise ValueError("a group begins with ?; only (?: is taken")
                unnamed = self.peek() == "?"
                self.at += 2 if unnamed else 0
                self.groups += not unnamed
                self.written.append("(?:" if unnamed else "(")
                size, least = self.alternatives(depth + 1)
                if self.peek() != ")":
                    raise ValueError("a group is not closed")
                self.written.append(self.take())
                return max(size, 1), least
            case "[":
                self._class()
            case "\\":
                self.written.append(self._escaped(inside=False))
            case "^" | "$":
                self.written.append("\\A" if sign == "^" else "\\z")
                return 1, 0
            case "*" | "+" | "?" | "{":
                raise ValueError(f"nothing stands before {sign}")
            case "]" | "}":
                raise ValueError(f"{sign} closes nothing; write \\{sign}")
            case _:
                self.written.append(sign)
        return 1, 1

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


def read_regex(text: str, *, grouped: bool = False) -> Pattern:
    """Read a pattern of the subset; its groups can be referred to if that is asked for.

    Raises:
        ValueError: the pattern is outside it; the message says why.
    """
    reader = _Reader(text)
    if len(text) > MAX_SIZE:
        raise ValueError("it is too long")
    size, least = reader.alternatives(0)
    if reader.peek():
        raise ValueError(") closes nothing; write \\)")
    parts = ("(?:" if part == "(" and not grouped else part for part in reader.written)
    return Pattern("".join(parts), size, reader.groups, least, reader.empty_loops)


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


_read = lru_cache(512)(read_regex)


def _matches(text: str, written: str, options: str = "") -> bool:
    """Return whether RE2 finds a match, in linear time whatever the pattern."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.match_substring_regex(pa.array([text], pa.string()), options + written)
    return bool(found[0].as_py())


def _whole(written: str) -> str:
    return f"\\A(?:{written})\\z"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _like(call: Apply, text: str, written: str) -> bool:
    return _matches(text, _whole(like_regex(written)), "(?s)")


def _liked(text: str, written: str) -> str:
    """Write LIKE where it only looks for texts in order; `_` needs the automaton."""
    if "_" in written:
        return f"regexp_full_match({text}, {_quoted(like_regex(written))}, 's')"
    return f"({text} LIKE {_quoted(re.sub('%+', '%', written))})"


def _engine_sql(call: Apply, text: str, _: str) -> str:
    written = _read(str(stated(call.arguments[1]))).written
    return f"{call.function.lower()}({text}, {_quoted(written)})"


# Replacements: characters, and `\0` to `\9` for what a match has, or one of its groups.


MOST_WORK = 2**21
"""Steps of all matches in one text, each of which may look at all characters that follow."""
_MARKED = re.compile(r"\\(.?)", re.DOTALL)
_GROUPS = frozenset("0123456789")


def check_replacement(text: str) -> str | None:
    """Return what is wrong with a replacement, if something is."""
    for sign in _MARKED.findall(text):
        if sign not in {*_GROUPS, "\\"}:
            return (
                f"\\{sign} is not taken; a backslash is \\\\"
                if sign
                else "it ends in a backslash"
            )
    return None


def _check_replaced(arguments: Sequence[Expr]) -> str | None:
    """Return what is wrong with a pattern beside its replacement, if something is."""
    found, new = _replacing(arguments)
    named = max([0, *(int(sign) for sign in _MARKED.findall(new) if sign in _GROUPS)])
    if named > found.groups:
        return f"\\{named} is no group of the pattern, which has {found.groups}"
    if found.empty_loops:
        return "a count is of what may match nothing"
    if len(arguments) < 4:
        return None
    if not found.least:
        return "the pattern may match nothing, everywhere; only the first match can be replaced"
    text = longest_of(arguments[0])
    if found.size * text * (text // found.least) > MOST_WORK:
        return f"the pattern is too long to be looked for everywhere in {text} characters"
    return None


def _replacing(arguments: Sequence[Expr]) -> tuple[Pattern, str]:
    written, new = (str(stated(argument)) for argument in arguments[1:3])
    return _read(written, grouped=True), new


def _replaced_longest(arguments: Sequence[Expr]) -> int:
    """Return the length of a text with matches replaced, as many as there can be.

    Of a text of n characters, j matches have n characters at most together, each of which is
    there as often as the replacement refers to it; its other characters are there j times.
    """
    (found, new), text = _replacing(arguments), longest_of(arguments[0])
    most = text // found.least if len(arguments) > 3 else 1
    marked = _MARKED.findall(new)
    times = sum(sign in _GROUPS for sign in marked)
    added = len(new) - len(marked) - times
    return text * times + most * added if times else text + most * max(0, added - found.least)


def _replaced(call: Apply, text: str, written: str, new: str, every: str = "") -> str:
    import pyarrow as pa
    import pyarrow.compute as pc

    found, most = _read(written, grouped=True).written, None if every else 1
    replaced = pc.replace_substring_regex(
        pa.array([text], pa.string()), found, new, max_replacements=most
    )
    return str(replaced[0].as_py())


def _replaced_sql(call: Apply, text: str, *_: str) -> str:
    found, new = _replacing(call.arguments)
    every = ", 'g'" if call.arguments[3:] else ""
    return f"regexp_replace({text}, {_quoted(found.written)}, {_quoted(new)}{every})"


_EVERY = pattern(lambda text: None if text == "g" else "there is 'g' alone: each match", "'g'")
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
        meaning=lambda _, text, given: _matches(text, _read(given).written),
        written_as=_engine_sql,
    ),
    RowFunction(
        name="REGEXP_FULL_MATCH",
        summary="Whether a whole text matches a regular expression; also x SIMILAR TO pattern",
        example="dept SIMILAR TO '[a-z]+'",
        parameters=(TEXTS, _REGEX),
        result=TO_BOOLEAN,
        meaning=lambda _, text, given: _matches(text, _whole(_read(given).written)),
        written_as=_engine_sql,
    ),
    RowFunction(
        name="REGEXP_REPLACE",
        summary="The text with the first match of a regular expression replaced, or with 'g' "
        "each; \\1 to \\9 are its groups, \\0 is all of it",
        example="REGEXP_REPLACE(dept, '^(.).*$', '\\1')",
        parameters=(TEXTS, _REGEX, pattern(check_replacement, "a literal replacement"), _EVERY),
        optional=1,
        result=TO_TEXT,
        check=_check_replaced,
        meaning=_replaced,
        written_as=_replaced_sql,
        longest=_replaced_longest,
    ),
)
