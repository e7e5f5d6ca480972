"""Parameters `$1` of a statement: where they stand, of what types, and the text with values.

A value is written as the literal that is exactly it, by the writer that the rest of dpquery
has, so it means what it would mean had it been typed, and can never be more than one value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from sqlglot import Token, TokenType

from dpquery.core.arrow_columns import arrow_type
from dpquery.core.source_text import Source, Span
from dpquery.errors import NameRefused
from dpquery.policy.model import Policy
from dpquery.server.postgres import type_codecs as types
from dpquery.server.postgres.messages import Refused
from dpquery.server.worker_messages import fault_of
from dpquery.sql.parse.literals import read_digits, written_value
from dpquery.sql.parse.parameters import tokens_of

MOST = 1000
"""Parameters of one statement."""
_OPERATORS = {"=", "<", ">", "<=", ">=", "<>", "!=", "==", "=>", ":=", "LIKE", "ILIKE"}
_CASTS = {
    "BOOL": types.BOOL, "BOOLEAN": types.BOOL, "SMALLINT": types.INT2, "INT2": types.INT2,
    "INT": types.INT4, "INT4": types.INT4, "INTEGER": types.INT4, "BIGINT": types.INT8,
    "INT8": types.INT8, "REAL": types.FLOAT4, "FLOAT4": types.FLOAT4, "DOUBLE": types.FLOAT8,
    "FLOAT": types.FLOAT8, "FLOAT8": types.FLOAT8, "DECIMAL": types.NUMERIC,
    "NUMERIC": types.NUMERIC, "DATE": types.DATE, "TIME": types.TIME,
    "TIMESTAMP": types.TIMESTAMP, "TIMESTAMPTZ": types.TIMESTAMPTZ, "UUID": types.UUID_,
}  # fmt: skip
_ARGUMENTS = {
    "eps": types.FLOAT8, "epsilon": types.FLOAT8, "delta": types.FLOAT8, "rho": types.FLOAT8,
    "weight": types.FLOAT8, "max_rows_contributed": types.INT8,
    "max_groups_contributed": types.INT8,
}  # fmt: skip
"""Types of what functions take by name."""
_OPENING = {")": "(", "]": "["}
_NEAR = 300
"""Words that are looked at before a mark."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A place for a value."""

    span: Span
    number: int
    guess: int
    """The type it has unless the client says another."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A text with values written for its marks."""

    text: str
    moved: tuple[tuple[int, int, bool], ...] = ()
    """Where pieces of the text begin here, where they began, and whether each is a value."""

    def origin(self, at: int) -> int:
        """Return where something stood before values were written; of a value, its mark."""
        found = at
        for here, there, value in self.moved:
            if here <= at:
                found = there if value else there + at - here
        return found


@dataclass(frozen=True, slots=True)
class Template:
    """A text with marks."""

    text: str
    marks: tuple[Mark, ...] = ()

    @property
    def guesses(self) -> list[int]:
        """The guessed type of each parameter, `$1` first."""
        most = max((mark.number for mark in self.marks), default=0)
        guesses = [0] * most
        for mark in self.marks:
            known = guesses[mark.number - 1]
            guesses[mark.number - 1] = mark.guess if known in (0, types.TEXT) else known
        return [guess or types.TEXT for guess in guesses]

    def bound(self, values: Sequence[object]) -> Bound:
        """Write values for the marks.

        Raises:
            Refused: DPQ805 one of them cannot be written.
        """
        text, last, moved = "", 0, [(0, 0, False)]
        for mark in self.marks:
            try:
                literal = f" {written_value(values[mark.number - 1])} "
            except NameRefused as refused:
                fault = replace(fault_of(refused), start=mark.span.start)
                raise Refused(fault, mark.span.start) from None
            text += self.text[last : mark.span.start] + literal
            last = mark.span.end
            written = (len(text) - len(literal), mark.span.start, True)
            moved += [written, (len(text), last, False)]
        return Bound(text + self.text[last:], tuple(moved))


def template_of(text: str, policy: Policy) -> Template:
    """Find the marks of a text.

    Raises:
        Refused: they are too many.
    """
    tokens = tokens_of(Source(text)) if "$" in text else []
    marks: list[Mark] = []
    guess: _Guess | None = None
    for at, token in enumerate(tokens[:-1]):
        number = _number(text, token, tokens[at + 1])
        if number is None:
            continue
        if not 1 <= number <= MOST:
            raise Refused.of("54000", f"a parameter is one of $1 to ${MOST}", token.start)
        guess = guess or _Guess(tokens, _columns(policy, tokens))
        span = Span(token.start, tokens[at + 1].end + 1)
        marks.append(Mark(span, number, guess.of(at)))
    return Template(text, tuple(marks))


def _number(text: str, sign: Token, following: Token) -> int | None:
    if sign.token_type is not TokenType.PARAMETER or following.start != sign.start + 1:
        return None
    return read_digits(text[following.start : following.end + 1])


def _columns(policy: Policy, tokens: Sequence[Token]) -> dict[str, int]:
    """Return the types of columns by name; those of tables that are named count first."""
    named = {token.text.lower() for token in tokens}
    columns: dict[str, int] = {}
    for table in sorted(policy.tables.values(), key=lambda one: one.name.lower() in named):
        for column in table.columns.values():
            columns[column.name.lower()] = types.type_of(arrow_type(column.type)).oid
    return columns


class _Guess:
    """Guesses the type of a mark by the words around it."""

    def __init__(self, tokens: Sequence[Token], columns: Mapping[str, int]) -> None:
        self._columns = columns
        self._words = [token.text.upper() for token in tokens]
        self._texts = [token.token_type is TokenType.STRING for token in tokens]

    def of(self, at: int) -> int:
        """Return the type of the mark whose sign is a word; 0 where nothing tells."""
        after = self._word(at + 2)
        if after == "::":
            return _CASTS.get(self._word(at + 3), types.TEXT)
        before = at - 2 if self._word(at - 1) in ("-", "+") else at - 1
        word = self._word(before)
        if word in _OPERATORS or word == "BETWEEN":
            return self._subject(before - 1)
        if word == "AND" and self._between(before) is not None:
            return self._subject(self._between(before) or 0)
        if word in ("LIMIT", "OFFSET"):
            return types.INT8
        if after in _OPERATORS:
            return self._name(at + 3) or types.TEXT
        if word in ("(", ",", "["):
            return self._listed(before)
        return types.TEXT

    def _word(self, at: int) -> str:
        inside = 0 <= at < len(self._words) and not self._texts[at]
        return self._words[at] if inside else ""

    def _name(self, at: int) -> int:
        name = self._word(at).lower()
        return self._columns.get(name) or _ARGUMENTS.get(name, 0)

    def _between(self, at: int) -> int | None:
        """Return what stands before BETWEEN, where an AND belongs to one."""
        for back in range(at - 2, max(at - 6, 0), -1):
            if self._word(back) == "BETWEEN":
                return back - 1
        return None

    def _subject(self, at: int) -> int:
        """Return the type of what is compared: a column, an argument, or a call."""
        if self._word(at) == "NOT":
            at -= 1
        if self._word(at) != ")":
            return self._name(at) or types.TEXT
        begin = self._open(at - 1)
        if self._word(begin - 1) in ("DATE_TRUNC", "LOWER", "UPPER", "TRIM", ""):
            return next(filter(None, map(self._name, range(begin, at))), types.TEXT)
        return types.FLOAT8

    def _open(self, at: int) -> int:
        """Return the nearest bracket that is open after a word; 0 where none is near."""
        depth = 0
        for back in range(at, max(at - _NEAR, -1), -1):
            word = self._word(back)
            depth += (word in _OPENING) - (word in _OPENING.values())
            if depth < 0:
                return back
        return 0

    def _listed(self, at: int) -> int:
        """Return the type of one of several: of IN, of bounds, of the arguments of a call."""
        begin = self._open(at)
        if self._word(begin) == "[":
            return types.FLOAT8
        if self._word(begin - 1) == "IN":
            return self._subject(begin - 2)
        return types.FLOAT8 if self._word(begin - 1).startswith("DP_") else types.TEXT


def stand_ins(oids: Sequence[int]) -> Iterator[list[Any]]:
    """Yield values for parameters, with which a statement can perhaps be planned.

    Fractions come first, which an eps, a delta and a quantile can be; then whole numbers.
    """
    for parts in (1000, 1):
        yield [_stand_in(oid, number, parts) for number, oid in enumerate(oids, 1)]


def _stand_in(oid: int, number: int, parts: int) -> object:
    day = date(2000, 1, 1 + number % 28)
    match oid:
        case types.BOOL:
            return True
        case types.INT2 | types.INT4 | types.INT8 | types.OID:
            return number
        case types.FLOAT4 | types.FLOAT8:
            return number / parts
        case types.NUMERIC:
            return Decimal(number) / parts
        case types.DATE:
            return day
        case types.TIMESTAMP:
            return datetime.combine(day, time())
        case types.TIMESTAMPTZ:
            return datetime.combine(day, time(), UTC)
        case types.TIME:
            return time(number % 24)
    return ""
