"""Values in the place of `?`, `:name` or `$name`, word by word.

The text is parted into words by the tokenizer that reads queries, so a mark inside a text, a
quoted name or a comment is none. Each mark becomes one literal; all other words stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sqlglot import Token, TokenType
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError

from dpquery.errors import NameRefused, SyntaxRefused, shown
from dpquery.source import Source, Span
from dpquery.sql.asides import Explain, read_aside
from dpquery.sql.statement import MAX_BYTES
from dpquery.sql.values import misfit, written_value

__all__ = ["Values", "with_values"]

Values = Sequence[object] | Mapping[str, object]
_POSITIONAL = {TokenType.PLACEHOLDER, TokenType.QDCOLON}  # the latter is `?::`
_NAMED = {TokenType.COLON, TokenType.PARAMETER}
_APART = "\n (),="  # and the empty text at either end
_COUNT = "each mark takes one value, and each value has its mark."


@dataclass(frozen=True, slots=True)
class _Mark:
    """A place for a value; with an empty name it is known by its number."""

    span: Span
    name: str


def with_values(source: Source, values: Values) -> Source:
    """Put values in their places; a text that cannot be parted into words stays as it is.

    Raises:
        NameRefused: DPQ805 a value is missing, left over, or cannot be written exactly.
    """
    marks = list(_marks(source))
    pairs = (
        _by_name(source, marks, values)
        if isinstance(values, Mapping)
        else _in_order(source, marks, values)
    )
    parts, last = [], 0
    try:
        for mark, value in pairs:
            parts += [source.text[last : mark.span.start], _literal(source, mark, value)]
            last = mark.span.end
    except NameRefused as refused:
        refused.source = source
        raise
    return Source("".join([*parts, source.text[last:]]), source.name)


def _marks(source: Source) -> Iterator[_Mark]:
    for token, following in pairwise([*_tokens(source), None]):
        assert token is not None  # noqa: S101 - only the last one is
        sign = Span(token.start, token.start + 1)
        if token.token_type in _POSITIONAL:
            yield _Mark(sign, "")
        elif token.token_type in _NAMED and following is not None:
            name = source.text[following.start : following.end + 1]
            if following.start == sign.end and name.isidentifier():
                yield _Mark(Span(token.start, following.end + 1), name)


def _tokens(source: Source) -> list[Token]:
    """Part a text into words; EXPLAIN is left out, or what follows would be one word."""
    if len(source.text) > MAX_BYTES:
        return []
    try:
        aside = read_aside(source)
        text = aside.query.text if isinstance(aside, Explain) else source.text
        return list(DuckDB().tokenize(text))
    except (SyntaxRefused, TokenError):
        return []  # what cannot be read is refused by who reads it


def _by_name(
    source: Source, marks: Sequence[_Mark], values: Mapping[str, object]
) -> Iterator[tuple[_Mark, object]]:
    for mark in marks:
        if mark.name not in values:
            title = f"no value is given for {source.snippet(mark.span)[:40]}"
            raise misfit(title, "a value for each name", mark.span, _COUNT)
        yield mark, values[mark.name]
    taken = {mark.name for mark in marks}
    surplus = [name for name in values if name not in taken]
    if surplus:
        title = f"the statement has no place for {shown(surplus[0])}"
        raise misfit(title, "leave the value out", why=_COUNT)


def _in_order(
    source: Source, marks: Sequence[_Mark], values: Sequence[object]
) -> Iterator[tuple[_Mark, object]]:
    """Give each mark its value; without any, names are left to the parser, which refuses."""
    plain = [mark for mark in marks if not mark.name]
    if values and len(plain) < len(marks):
        named = next(mark for mark in marks if mark.name)
        title = f"{source.snippet(named.span)[:40]} takes its value by name"
        raise misfit(title, "values as a dictionary", named.span, _COUNT)
    if len(values) != len(plain):
        title = f"the statement has {len(plain)} of ?, and the values are {len(values)}"
        raise misfit(title, "one value for each ?", why=_COUNT)
    yield from zip(plain, values, strict=True)


def _literal(source: Source, mark: _Mark, value: object) -> str:
    """Write a value apart from the words around it: after a minus, -5 would begin a comment."""
    try:
        text = written_value(value)
    except NameRefused as refused:
        refused.diagnostic = replace(refused.diagnostic, span=mark.span, label="this value")
        raise
    before, after = source.text[: mark.span.start][-1:], source.text[mark.span.end :][:1]
    return f"{'' if before in _APART else ' '}{text}{'' if after in _APART else ' '}"
