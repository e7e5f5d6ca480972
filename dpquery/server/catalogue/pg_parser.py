"""A statement in PostgreSQL's SQL: read, held against closed lists, and told to be the twin's.

What sqlglot does not know is put in other words: the forms of the catalogue's own statements go
first, such as names of functions and operators with `pg_catalog` before them, collations, and
arrays of types that only PostgreSQL has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from dpquery.server.catalogue.pg_catalog_schema import CATALOGUE, IN_CATALOGUE, INFORMATION
from dpquery.server.catalogue.pg_functions import MACROS, SETS
from dpquery.server.catalogue.policy_tables import ShownTable
from dpquery.server.catalogue.qualify_tables import provably_empty
from dpquery.server.catalogue.refusals import Refused, no_function, unreadable, unsupported

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


_NODES = """
    Add Alias Aliases All And Any ArrayContainedBy ArrayContainsAll ArrayOverlaps
    AtTimeZone Between BitwiseAnd BitwiseLeftShift BitwiseOr BitwiseRightShift Boolean
    Bracket ByteString CTE Column Cross DPipe DataType Distinct Div Dot EQ Escape Except
    Fetch Filter From GT GTE Group Having HexString ILike Identifier In Intersect
    Interval Is Join LT LTE Lateral Like Limit LimitOptions Literal Lock Mod Mul NEQ Neg
    Not Null NullSafeEQ NullSafeNEQ ObjectIdentifier Offset Or Order Ordered Parameter
    Paren Placeholder PropertyEQ PseudoType RawString RegexpILike Select SimilarTo Slice
    Star Sub Subquery Table TableAlias Tuple UnicodeString Union Unnest Values Var Where
    Window WindowSpec With WithinGroup
"""
_FUNCTIONS = """
    Abs And Array ArrayAgg ArrayAppend ArrayConcat ArrayPosition ArraySize ArrayToString
    Avg Case Cast Ceil Coalesce Concat ConcatWs Count CurrentCatalog CurrentDatabase
    CurrentDate CurrentRole CurrentSchema CurrentSchemas CurrentTime CurrentTimestamp
    CurrentUser CurrentVersion DenseRank Exists Explode ExplodingGenerateSeries Extract
    FirstValue Floor Format GenerateSeries Greatest GroupConcat If Lag LastValue Lead
    Least Left Length LogicalAnd LogicalOr Lower MD5 Max Min Nullif Or Rank RegexpILike
    RegexpLike RegexpReplace Replace Reverse Right Round RowNumber SessionUser SplitPart
    StrPosition StringToArray Substring Sum TimeToStr TimestampTrunc Trim Upper
"""
NODES = {*_NODES.split(), *_FUNCTIONS.split()}
"""Names of sqlglot's classes."""
_NAMED = """
    all array_length array_remove array_to_string btrim cardinality every json_build_object
    jsonb_build_object ltrim pg_typeof rtrim translate
"""
NAMES = {*MACROS, *SETS, *_NAMED.split()}
"""Functions that sqlglot knows by name alone."""
RENAMED = {
    "_pg_expandarray": "pg_expandarray",
    "json_build_object": "json_object",
    "jsonb_build_object": "json_object",
    "every": "bool_and",
    "btrim": "trim",
    "cardinality": "len",
}


def require_known(tree: exp.Expr) -> None:
    """Refuse a tree with a node or a function that is not on the lists."""
    for node in tree.walk():
        name = type(node).__name__
        if isinstance(node, exp.Anonymous):
            called = node.name.lower()
            if called not in NAMES and called not in RENAMED:
                raise no_function(called)
        elif name not in NODES:
            if isinstance(node, exp.Func):
                raise no_function(node.sql_name().lower())
            raise unsupported()


_QUERIES = {"select", "values", "with", "("}
_MAYBE_EMPTY = re.compile(
    r"\b(limit\s+0|(first|next)\s+0|false|(\d+)\s*(=|<>|!=)\s*\d+)\b", re.IGNORECASE
)
MOST_PARSED = 2000
"""Words of a statement that is parsed here, where all connections wait meanwhile."""
_NAMES = {TokenType.VAR, TokenType.IDENTIFIER}


class Wanted:
    """Tells which statements are questions for the twin, by a look at their words.

    Nothing private hangs on it. What is sent to the twin by mistake finds no rows there, and
    what is not sent is refused by the engine.
    """

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
