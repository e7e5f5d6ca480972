"""A statement in PostgreSQL's SQL, read: what sqlglot does not know is put in other words.

The forms of the catalogue's own statements go first, as words: names of functions and operators
with `pg_catalog` before them, collations, and arrays of types that only PostgreSQL has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from dpquery.server.catalogue.faults import unreadable, unsupported
from dpquery.server.catalogue.relations import CATALOGUE, INFORMATION

MOST_CHARACTERS = 64 * 1024
MOST_TOKENS = 20_000
MOST_DEPTH = 200
"""Of the tree: the stages that recurse would exhaust the stack beyond."""
MOST_BRACKETS = 40
_OWN = {"oid", "xid", "regclass", "regproc", "regtype", "regnamespace", "regrole", "name"}
"""Types of which sqlglot reads no array without a schema before them."""
_RESERVED = set(
    """
    all check column create default delete else end from grant group insert limit offset on
    order primary references select table then to union unique update user when where
    """.split()  # noqa: SIM905 - it reads better than quoted
)
"""Words that PostgreSQL takes for names after AS, and sqlglot does not."""


def tokens_of(text: str) -> list[Token]:
    """Return the words of a statement, without a semicolon at its end.

    Raises:
        Refused: they cannot be told apart, or are too many.
    """
    if len(text) > MOST_CHARACTERS or "\0" in text:
        raise unsupported()
    try:
        tokens = list(Postgres().tokenize(text))
    except (SqlglotError, RecursionError, ValueError):
        raise unreadable() from None
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    if not tokens or len(tokens) > MOST_TOKENS or _depth(tokens) > MOST_BRACKETS:
        raise unsupported() if tokens else unreadable()
    return tokens


def _depth(tokens: Sequence[Token]) -> int:
    depth = most = 0
    for token in tokens:
        if token.token_type in {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.CASE}:
            depth += 1
            most = max(most, depth)
        elif token.token_type in {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.END}:
            depth -= 1
    return most


def read(text: str) -> exp.Query:
    """Return the tree of one query.

    Raises:
        Refused: it cannot be read, is more than one, or no query.
    """
    tokens = tokens_of(text)
    last = tokens[-1].end + 1
    try:
        trees = Postgres().parse(_reworded(text[:last], tokens))
    except (SqlglotError, RecursionError, ValueError, TypeError, AttributeError, LookupError):
        raise unreadable() from None
    tree = trees[0] if len(trees) == 1 else None
    while isinstance(tree, exp.Subquery) and not any(tree.args.get(one) for one in _AROUND):
        tree = tree.this
    if not isinstance(tree, exp.Query | exp.Values):
        raise unsupported()
    _require_shallow(tree)
    return _selected(tree) if isinstance(tree, exp.Values) else tree


_AROUND = ("alias", "limit", "offset", "order", "with_", "pivots", "joins")


def _selected(values: exp.Values) -> exp.Query:
    columns = len(values.expressions[0].expressions) if values.expressions else 0
    names = [exp.to_identifier(f"column{number}") for number in range(1, columns + 1)]
    values.set("alias", exp.TableAlias(this=exp.to_identifier("values"), columns=names))
    return exp.select("*").from_(values)


def _require_shallow(tree: exp.Expr) -> None:
    pending = [(tree, 1)]
    while pending:
        node, depth = pending.pop()
        if depth > MOST_DEPTH:
            raise unsupported()
        pending += [(child, depth + 1) for child in node.iter_expressions()]


def _reworded(text: str, tokens: Sequence[Token]) -> str:
    """Return the text with other words where sqlglot knows none of PostgreSQL's."""
    parts, last = [], 0
    for start, end, words in _edits(text, tokens):
        parts += [text[last:start], words]
        last = end
    return "".join((*parts, text[last:]))


def _edits(text: str, tokens: Sequence[Token]) -> Iterator[tuple[int, int, str]]:
    """Yield what is put in place of what, by the characters where it begins and ends."""
    words = [text[one.start : one.end + 1] for one in tokens]
    lower = ["" if word.startswith(("'", '"')) else word.lower() for word in words]
    words += [""] * 4
    lower += [""] * 4
    at = 0
    while at < len(tokens):
        start, here = tokens[at].start, lower[at]
        if here in {CATALOGUE, INFORMATION} and words[at + 1] == "." and words[at + 3] == "(":
            yield start, tokens[at + 2].start, ""
            at += 2
        elif here == "operator" and words[at + 1] == "(" and ")" in words[at + 2 : at + 8]:
            close = words.index(")", at)
            operator = "".join(words[at + 2 : close]).lower().removeprefix(f"{CATALOGUE}.")
            yield start, tokens[close].end + 1, f" {operator} "
            at = close
        elif here == "collate" and lower[at + 1]:
            at += 3 if words[at + 2] == "." else 1
            yield start, tokens[min(at, len(tokens) - 1)].end + 1, ""
        elif here in _RESERVED and at and lower[at - 1] == "as":
            yield start, tokens[at].end + 1, f'"{here}"'
        elif here in _OWN and words[at + 1] == "[" and at and lower[at - 1] in {"::", "as"}:
            yield start, start, f"{CATALOGUE}."
        at += 1
