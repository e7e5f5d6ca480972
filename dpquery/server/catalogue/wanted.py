"""Which statements are questions for the twin: a look at the words, before anything is asked.

Nothing private hangs on it. What is sent to the twin by mistake finds no rows there, and what
is not sent is refused by the engine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from dpquery.server.catalogue.allowed import require_known
from dpquery.server.catalogue.faults import Refused
from dpquery.server.catalogue.reading import read, tokens_of
from dpquery.server.catalogue.relations import CATALOGUE, IN_CATALOGUE, INFORMATION
from dpquery.server.catalogue.schema import ShownTable
from dpquery.server.catalogue.tables import provably_empty

_QUERIES = {"select", "values", "with", "("}
_MAYBE_EMPTY = re.compile(
    r"\b(limit\s+0|(first|next)\s+0|false|(\d+)\s*(=|<>|!=)\s*\d+)\b", re.IGNORECASE
)
MOST_PARSED = 2000
"""Words of a statement that is parsed here, where all connections wait meanwhile."""
_NAMES = {TokenType.VAR, TokenType.IDENTIFIER}


class Wanted:
    """Knows the policy's tables, and so what is asked of them."""

    def __init__(self, tables: Sequence[ShownTable]) -> None:
        self._tables = {table.name.lower() for table in tables}
        columns = {column.name.lower() for table in tables for column in table.columns}
        self._own = self._tables | columns

    def wants(self, text: str) -> bool:
        """Return whether a statement is about the catalogue, or about no table's rows."""
        try:
            tokens = tokens_of(text)
        except Refused:
            return False
        words = [token.text.lower() for token in tokens]
        if words[0] not in _QUERIES or any(map(_is_ours, words, [*words[1:], ""])):
            return False
        named = {_name(token) for token in tokens} - {""}
        if self._names_catalogue(named, words):
            return True
        if named & self._tables and not _MAYBE_EMPTY.search(text):
            return False
        return len(tokens) <= MOST_PARSED and _without_rows(text)

    def _names_catalogue(self, named: set[str], words: Sequence[str]) -> bool:
        schemas = named & {CATALOGUE, INFORMATION} - self._own
        if any(words[words.index(one) + 1 :][:1] == ["."] for one in schemas):
            return True
        return "from" in words and bool(named & IN_CATALOGUE.keys() - self._own)


def _is_ours(word: str, following: str) -> bool:
    """Return whether a function of dpquery is called."""
    return word.startswith("dp_") and following == "("


def _name(token: Token) -> str:
    """Return a word that can be a name, in small letters."""
    named = token.token_type in _NAMES or token.text.isidentifier()
    return token.text.lower() if named and token.token_type is not TokenType.STRING else ""


def _without_rows(text: str) -> bool:
    """Return whether a query reads no table, or none of whose rows any can come."""
    try:
        tree = read(text)
        require_known(tree)
    except (Refused, RecursionError):
        return False
    inner = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    named = [one for one in tree.find_all(exp.Table) if isinstance(one.this, exp.Identifier)]
    if any(one.name.lower() not in inner for one in named):
        return provably_empty(tree)
    reads = tree.find(exp.From) is not None
    return reads or not (tree.find(exp.AggFunc) or any(map(_is_column, tree.walk())))


def _is_column(node: exp.Expr) -> bool:
    """Return whether a node names a column: without a table there is none."""
    return isinstance(node, exp.Column) and node.name.lower() not in {"user", "current_role"}
