"""Colours of what is typed: the language's words, DP_ functions, texts, numbers."""

from __future__ import annotations

from collections.abc import Iterator

from prompt_toolkit.styles import Style
from pygments.lexer import RegexLexer, bygroups, words
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Text, _TokenType

__all__ = ["STYLE", "QueryLexer"]

_WORDS = (
    "ALL", "AND", "AS", "ASC", "BETWEEN", "BY", "DATE", "DESC", "DESCRIBE", "DISTINCT", "EXPLAIN",
    "FALSE", "FILTER", "FIRST", "FROM", "GROUP", "HAVING", "IN", "IS", "LAST", "LIMIT", "NOT",
    "NULL", "NULLS", "OFFSET", "OR", "ORDER", "SELECT", "SHOW", "TIMESTAMP", "TRUE", "WHERE",
)  # fmt: skip
