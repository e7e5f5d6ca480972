"""Where the first line after `try:` can be pasted: in place of the query, or about the caret.

A statement replaces the query. A fragment replaces what is over the caret, or a stretch with it
that begins alike, such as the call whose option is wrong; a clause and an option of a call may
also be new.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, product

from dpquery.core.source_text import Span

_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|[\w.]+|\S")
_CLOSING = {")": "(", "]": "["}
_ALIKE = {"rows": "range"}
_CLAUSES = re.compile(r"\)|\b(?:GROUP BY|HAVING|ORDER BY|LIMIT|WHERE)\b|$", re.IGNORECASE)

MOST_STRETCHES = 2000


def pasted(query: str, span: Span | None, remedy: str) -> Iterator[str]:
    """Return the queries that pasting can make, those first that are likelier meant."""
    yield remedy
    if span is None:
        return
    yield query[: span.start] + remedy + query[span.end :]
    tokens = [(match.start(), match.end()) for match in _TOKEN.finditer(query)]
    first = _TOKEN.search(remedy)
    word = first[0].lower() if first else ""
    words = {word, _ALIKE.get(word, word)}
    starts = [a for a, b in tokens if a <= span.end and query[a:b].lower() in words]
    starts += [a for a, _ in tokens if a >= span.start]
    starts += [a for a, _ in tokens if a <= span.start][-2:]
    near = sorted(set(starts), key=lambda start: abs(start - span.start))
    for start, (_, end) in islice(product(near, tokens), MOST_STRETCHES):
        if (
            end > start
            and end >= span.start
            and start <= span.end
            and _is_balanced(query[start:end])
        ):
            yield f"{query[:start]} {remedy} {query[end:]}"
    for match in _CLAUSES.finditer(query):
        for joint in (" ", ", "):
            yield (
                query[: match.start()].rstrip() + joint + remedy + " " + query[match.start() :]
            )


def _is_balanced(text: str) -> bool:
    opened: list[str] = []
    for match in _TOKEN.finditer(text):
        if match[0] in {"(", "["}:
            opened.append(match[0])
        elif match[0] in _CLOSING and (not opened or opened.pop() != _CLOSING[match[0]]):
            return False
    return not opened
