"""Colours of what is typed, by the same words that completion goes by."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.formatted_text.utils import split_lines
from prompt_toolkit.lexers import Lexer
from prompt_toolkit.styles import Style

from dpquery.functions import find
from dpquery.shell.commands import is_command
from dpquery.shell.place import LANGUAGE, Word, words_of

__all__ = ["STYLE", "QueryLexer"]

STYLE = Style.from_dict({
    "keyword": "ansiblue bold",
    "function": "ansimagenta",
    "text": "ansigreen",
    "number": "ansicyan",
    "comment": "ansibrightblack italic",
    "bottom-toolbar": "noreverse bg:ansibrightblack fg:ansiwhite",
    "bottom-toolbar.spent": "fg:ansiblack",
    "prompt": "bold",
})  # fmt: skip


class QueryLexer(Lexer):
    """Colours statements; commands stay as they are."""

    def lex_document(self, document: Document) -> Callable[[int], StyleAndTextTuples]:
        """Give the coloured pieces of each line."""
        lines = list(split_lines(list(_pieces(document.text))))
        return lambda number: lines[number] if number < len(lines) else []


def _pieces(text: str) -> Iterator[tuple[str, str]]:
    if is_command(text):
        yield "", text
        return
    at = 0
    for word in words_of(text):
        yield "", text[at : word.start]
        yield _style(word), word.text
        at = word.start + len(word.text)
    yield "", text[at:]


def _style(word: Word) -> str:
    if word.kind == "name":
        known = find(word.text) is not None
        return "class:function" if known else "class:keyword" * (word.upper in LANGUAGE)
    return f"class:{word.kind}" if word.kind in {"text", "number", "comment"} else ""
