"""Values for `?`, `:name` or `$name`, word by word.

The tokenizer that reads queries finds the marks, so one inside a text, a quoted name or a
comment is none. Each becomes one literal; all other words stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import Token, TokenType
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError

from dpquery.core.source_text import Source, Span
from dpquery.errors import NameRefused, SyntaxRefused, shown
from dpquery.sql.commands import Explain, read_aside
from dpquery.sql.parse.literals import misfit, written_value
from dpquery.sql.parse.text_checks import MAX_BYTES

Values = Sequence[object] | Mapping[str, object]
_POSITIONAL = {TokenType.PLACEHOLDER, TokenType.QDCOLON}  # the latter is `?::`
_NAMED = {TokenType.COLON, TokenType.PARAMETER}
_APART = "\n (),="  # and the empty text at either end
_COUNT = "each mark takes one value, and each value has its mark."


@dataclass(frozen=True, slots=True)
class _Mark:
    """A mark for a value; with an empty name it is known by its number."""

    span: Span
    name: str


def with_values(source: Source, values: Values) -> Source:
    """Write values for their marks; a text that has no words stays as it is.

    Raises:
        NameRefused: DPQ805 a value is missing, left over, or cannot be written exactly.
    """
    text, last = "", 0
    try:
        for mark, value in _paired(source, list(_marks(source)), values):
            text += source.text[last : mark.span.start] + _literal(source, mark, value)
            last = mark.span.end
    except NameRefused as refused:
        refused.source = source
        raise
    return Source(text + source.text[last:], source.name)


def _marks(source: Source) -> Iterator[_Mark]:
    tokens = tokens_of(source)
    for token, following in zip(tokens, [*tokens[1:], None], strict=False):
        sign = Span(token.start, token.start + 1)
        if token.token_type in _POSITIONAL:
            yield _Mark(sign, "")
        elif token.token_type in _NAMED and following is not None:
            name = source.text[following.start : following.end + 1]
            if following.start == sign.end and name.isidentifier():
                yield _Mark(Span(token.start, following.end + 1), name)


def tokens_of(source: Source) -> list[Token]:
    """Return the words of a text; EXPLAIN is left out, or what follows would be one word."""
    if len(source.text) > MAX_BYTES:
        return []
    try:
        aside = read_aside(source)
        text = aside.query.text if isinstance(aside, Explain) else source.text
        return list(DuckDB().tokenize(text))
    except (SyntaxRefused, TokenError):
        return []  # what cannot be read is refused by who reads it


def _paired(
    source: Source, marks: Sequence[_Mark], values: Values
) -> Iterable[tuple[_Mark, object]]:
    """Return each mark with its value; without values, names are left to the parser."""
    if isinstance(values, Mapping):
        for mark in marks:
            if mark.name not in values:
                title = f"no value is given for {source.snippet(mark.span)[:40]}"
                raise misfit(title, "a value for each name", mark.span, _COUNT)
        taken = {mark.name for mark in marks}
        for name in values:
            if name not in taken:
                title = f"the statement has no place for {shown(name)}"
                raise misfit(title, "leave the value out", why=_COUNT)
        return [(mark, values[mark.name]) for mark in marks]
    plain = [mark for mark in marks if not mark.name]
    for mark in marks:
        if values and mark.name:
            title = f"{source.snippet(mark.span)[:40]} takes its value by name"
            raise misfit(title, "values as a dictionary", mark.span, _COUNT)
    if len(values) != len(plain):
        title = f"the statement has {len(plain)} of ?, and the values are {len(values)}"
        raise misfit(title, "one value for each ?", why=_COUNT)
    return zip(plain, values, strict=True)


def _literal(source: Source, mark: _Mark, value: object) -> str:
    """Write a value apart from the words around it: after a minus, -5 would begin a comment."""
    try:
        text = written_value(value)
    except NameRefused as refused:
        refused.diagnostic = replace(refused.diagnostic, span=mark.span, label="this value")
        raise
    before, after = source.text[: mark.span.start][-1:], source.text[mark.span.end :][:1]
    return f"{'' if before in _APART else ' '}{text}{'' if after in _APART else ' '}"
