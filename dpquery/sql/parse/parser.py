"""Text to one sqlglot query made only of node classes and slots on a closed list (I9).

Nothing is trusted because it parsed: a class that is not named here, or a slot that is not
named for its class, is refused at its own span. Binding reads this tree and ends it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, ClassVar, TypeVar

from sqlglot import Token, TokenType
from sqlglot import expressions as exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError
from sqlglot.parsers.duckdb import DuckDBParser

from dpquery import functions, rowfunctions
from dpquery.core.source_text import Source, Span
from dpquery.errors import NameRefused, QueryRefused, SyntaxRefused, advice
from dpquery.rowfunctions.dates import UNIT_NAMES
from dpquery.sql.bind.scope import RESERVED
from dpquery.sql.parse.bracketed_joins import without_brackets
from dpquery.sql.parse.schema_names import read_schemas
from dpquery.sql.parse.spans import Spans, example, incomplete, mended, too_large
from dpquery.sql.parse.text_checks import read_statement
from dpquery.sql.parse.token_coverage import ALLOWED, check_all_read
from dpquery.sql.parse.unnest import SPLITS, join_lists
from dpquery.sql.postprocess.builtin_functions import AGGREGATES, ONLY_WINDOWS
from dpquery.sql.postprocess.builtin_functions import NAMES as FUNCTIONS_ABOVE
from dpquery.sql.suggest.construct_refusals import (
    is_misused,
    misread,
    refuse_construct,
    unfinished,
)
from dpquery.sql.suggest.dialects import MEANT, READ, with_slip_mended

E = TypeVar("E", bound=exp.Expr)
Build = Callable[..., exp.Expr]

# The parser logs what it does not understand, with the text: our refusals say it instead.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)

_NODES = {"ABS", "COALESCE", "GREATEST", "IFNULL", "LEAST", "NVL", "ROUND"}
"""Functions that results have too, by nodes of their own."""
_AGGREGATES = {
    *("COUNT", "COUNT_IF", "SUM", "AVG", "MIN", "MAX", "BOOL_AND", "BOOL_OR"),
    *("ROW_NUMBER", "RANK", "DENSE_RANK", "LAG", "LEAD"),
}
"""Aggregates and window functions that rows have too, by nodes of their own."""
_BY_NAME = {*rowfunctions.names(), *FUNCTIONS_ABOVE, *AGGREGATES, *ONLY_WINDOWS}
_BY_NAME |= {*MEANT, *(name.removeprefix("DP_") for name in functions.names())}
_BY_NAME |= {"TO_TIMESTAMP", *SPLITS}
_BY_NAME -= _NODES | _AGGREGATES | {"IF"}


def _others(functions: dict[str, Any]) -> dict[str, Any]:
    return {name: build for name, build in functions.items() if name not in _BY_NAME}


_INDEX = TokenType.L_BRACKET
_PLAIN = ("COUNT", "COUNT_IF", "COUNTIF", "SUM", "AVG", "MIN", "MAX")
"""Aggregates by nodes of their own that may have the options of the DP_ function they mean."""


def _with_options(name: str, build: Build) -> Build:
    """Read an aggregate that has options by name as what was written, a name and arguments."""

    def built(args: list[exp.Expr], **options: Any) -> exp.Expr:
        if any(isinstance(arg, exp.PropertyEQ | exp.Kwarg | exp.EQ) for arg in args[1:]):
            return exp.Anonymous(this=name, expressions=args)
        return build(args, **options)

    return built


class Parser(DuckDBParser):
    """DuckDB's grammar as sqlglot reads it, with positions on more nodes and no unary plus.

    Functions of rows stay what was written, a name and arguments: sqlglot would make nodes of
    them that say less, or other things.
    """

    FUNCTIONS: ClassVar = {
        **_others(DuckDBParser.FUNCTIONS),
        **{name: _with_options(name, DuckDBParser.FUNCTIONS[name]) for name in _PLAIN},
    }
    FUNCTION_PARSERS: ClassVar = {
        name: read
        for name, read in _others(DuckDBParser.FUNCTION_PARSERS).items()
        if name not in _PLAIN
    }
    UNARY_PARSERS: ClassVar = {
        **DuckDBParser.UNARY_PARSERS,
        TokenType.DASH: lambda self: self.prefixed(exp.Neg, self._prev, Parser._parse_unary),
        TokenType.NOT: lambda self: self.prefixed(exp.Not, self._prev, Parser._parse_equality),
    }
    del UNARY_PARSERS[TokenType.PLUS]

    _within_join = False
    """Whether what is read is a table that is joined, outside of any brackets of its own."""

    def _parse_lambda(self, alias: bool = False) -> exp.Expr | None:
        """Read DISTINCT as belonging to one argument: options by name may follow it."""
        if self._match(TokenType.DISTINCT):
            argument = self._parse_disjunction()
            if argument is None:
                self.raise_error("nothing after DISTINCT")
            return self.expression(exp.Distinct(expressions=[argument]))
        return super()._parse_lambda(alias)

    def _parse_join(
        self,
        skip_join_token: bool = False,
        parse_bracket: bool = False,
        alias_tokens: Collection[TokenType] | None = None,
    ) -> exp.Join | None:
        """Read a join, and keep whether a comma makes it."""
        comma = self._curr is not None and self._curr.token_type is TokenType.COMMA
        around, self._within_join = self._within_join, True
        try:
            join = super()._parse_join(skip_join_token, parse_bracket, alias_tokens)
        finally:
            self._within_join = around
        if join is not None:
            join.meta["comma"] = comma
        return join

    def _parse_joins(
        self, alias_tokens: Collection[TokenType] | None = None
    ) -> Iterator[exp.Join]:
        """Read joins one after the other, and none inside one without a condition.

        The parser would look there for joins of its own, read them, go back and read them
        again: twice as long with each join.
        """
        return iter(()) if self._within_join else super()._parse_joins(alias_tokens)

    def _parse_query_modifiers(self, this: Any) -> Any:
        """Read what follows a query or a table, whose joins are its own."""
        around, self._within_join = self._within_join, False
        try:
            return super()._parse_query_modifiers(this)
        finally:
            self._within_join = around

    def _parse_limit(
        self, this: exp.Expr | None = None, top: bool = False, skip_limit_token: bool = False
    ) -> exp.Expr | None:
        """Read TOP and a number after SELECT as the LIMIT that it is; a share is none."""
        if not top:
            return super()._parse_limit(this, top, skip_limit_token)
        following = self._tokens[self._index + 1 : self._index + 3]
        counted = any(token.text.isdecimal() for token in following[:1])
        share = [token.text.upper() for token in following[1:]] == ["PERCENT"]
        if not counted or share or not self._match_text_seq("TOP"):
            return None
        limit = self.expression(exp.Limit(expression=self._parse_primary()))
        limit.meta["top"] = True
        return limit

    def _parse_unnest(self, with_alias: bool = True) -> exp.Unnest | None:
        """Read a list in FROM, and note the position of its word."""
        first = self._curr
        node = super()._parse_unnest(with_alias)
        if node is not None and first is not None:
            node.meta.update({"start": first.start, "end": first.end})
        return node

    def _parse_case(self) -> exp.Expr | None:
        """Read CASE, and note the position of all of it, from its word to END."""
        first = self._prev
        node = super()._parse_case()
        if isinstance(node, exp.Case):
            node.meta.update({"start": first.start, "end": self._prev.end})
        return node

    def _parse_pivot(self) -> exp.Pivot | None:
        """Read PIVOT after a relation, as it was written."""
        first, node = self._curr, super()._parse_pivot()
        if node is not None:
            for slot in ("columns", "identify_pivot_strings", "prefixed_pivot_columns"):
                node.set(slot, None)
            node.set("pivot_column_naming", None)
            node.meta.update({"start": first.start, "end": first.end})
        return node

    def _parse_simplified_pivot(self, is_unpivot: bool | None = None) -> Any:
        """Read the statement PIVOT as all columns of a relation with PIVOT after it."""
        first, node = self._prev, super()._parse_simplified_pivot(is_unpivot)
        if is_unpivot:
            return node
        relation, using = node.this, node.args.get("using") or []
        made = exp.Pivot(
            expressions=using, fields=node.expressions, group=node.args.get("group")
        )
        words = ["pivot", *["on"] * bool(made.fields), *["using"] * bool(using)]
        words += [","] * (len(made.fields) - 1)
        made.meta.update({"start": first.start, "end": first.end, "words": words})
        if relation.args.get("pivots"):
            relation = exp.Subquery(this=relation)
        relation.set("pivots", [made])
        from_, star = exp.From(this=relation), exp.Star()
        select = exp.Select(expressions=[star], from_=from_)
        for one in (select, star, from_):
            one.meta["unwritten"] = True
        return self._parse_query_modifiers(select)

    def _parse_select_query(
        self, nested: bool = False, table: bool = False, *args: Any, **options: Any
    ) -> exp.Expr | None:
        """Read a query; `FROM t PIVOT (...)` shows all columns, as the statement PIVOT does."""
        if not table and self._match(TokenType.PIVOT):
            shown: exp.Expr = self._parse_simplified_pivot()
            return shown
        first, node = self._curr, super()._parse_select_query(nested, table, *args, **options)
        if isinstance(node, exp.Select) and len(node.expressions) == 1:
            (item,), from_ = node.expressions, node.args.get("from_")
            made = item.is_star and item.meta.get("start", 0) <= first.start
            if made and from_ is not None and from_.this.args.get("pivots"):
                node.meta["unwritten"] = item.meta["unwritten"] = True
        return node

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """Read an index or a slice after a value, as it was written and without recursion."""
        if this is None or self._curr is None or self._curr.token_type is not _INDEX:
            return super()._parse_bracket(this)
        while self._match(_INDEX):
            at = self._parse_disjunction()
            if self._match(TokenType.COLON):
                at = self.expression(exp.Slice(this=at, expression=self._parse_disjunction()))
            if at is None or not self._match(TokenType.R_BRACKET):
                self.raise_error("an index is not read")
            this = self.expression(exp.Bracket(this=this, expressions=[at]))
        return this

    def _parse_interval(
        self, require_interval: bool = True, parse_function_unit: bool = True
    ) -> exp.Interval | None:
        """Read INTERVAL with a literal and a unit, both as they were written."""
        if (
            self._curr is None
            or self._curr.token_type is not TokenType.INTERVAL
            or self._next is None
            or self._next.token_type not in {TokenType.STRING, TokenType.NUMBER}
        ):
            return None
        first = self._curr
        self._advance()
        value, unit = self._parse_primary(), None
        if self._curr is not None and self._curr.text.lower() in UNIT_NAMES:
            self._advance()
            unit = exp.Var(this=self._prev.text)
        node = exp.Interval(this=value, unit=unit)
        node.meta.update({"start": first.start, "end": self._prev.end})
        return self.expression(node)

    def prefixed(
        self, kind: type[E], sign: Token, operand: Callable[[Parser], exp.Expr | None]
    ) -> E:
        """Read the operand of a minus or a NOT, and note the position of that word."""
        return self.expression(kind(this=operand(self)), sign)

    def expression(
        self,
        instance: E,
        token: Token | None = None,
        comments: list[str] | None = None,
    ) -> E:
        """Return nodes without children the position of the word they were read from."""
        leaf = next(instance.iter_expressions(), None) is None
        return super().expression(instance, token or (self._prev if leaf else None), comments)


MAX_TREE_DEPTH = 200
"""A chain of operators nests to the left; deeper ones would exhaust the stages that recurse."""


@dataclass(frozen=True, slots=True)
class Parsed:
    """One query whose every node is on the list, with the way back to the text."""

    source: Source
    query: exp.Query
    spans: Spans


def parse(source: Source) -> Parsed:
    """Parse a text into a query of allowed nodes.

    Raises:
        SyntaxRefused: DPQ101 to DPQ106.
        NameRefused: DPQ210 a number is not written in digits.
        RuleRefused: DPQ304 a join that names no columns.
    """
    try:
        return _parsed(source)
    except (SyntaxRefused, NameRefused) as refused:
        refused.diagnostic = with_slip_mended(refused.diagnostic, source, _parsed, READ)
        raise


def _parsed(source: Source) -> Parsed:
    tokens = read_statement(source)
    spans = Spans(source, tokens)
    try:
        trees = Parser(dialect=DuckDB()).parse(tokens, source.text)
    except ParseError as error:
        raise misread(source, tokens, error) from None
    except RecursionError:
        raise _too_deep(Span(0, len(source.text)), "somewhere here") from None
    except ValueError:  # as of an empty name before =>
        raise unfinished(source, tokens, "syntax error") from None
    tree = trees[0] if len(trees) == 1 else None
    if not isinstance(tree, exp.Expr):
        raise unfinished(source, tokens, "this is not a complete query")
    _check_depth(tree, spans)
    _check_nodes(source, tree, spans)
    if not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
        refuse_construct(source, tree, spans)
    if any(not select.expressions for select in tree.find_all(exp.Select)):
        raise unfinished(source, tokens, "nothing is selected")
    if all(type(node) in ALLOWED for node in tree.walk()):
        check_all_read(source, tree, spans)  # else binding refuses a function by its name
    without_brackets(tree, spans)
    read_schemas(tree, spans)
    join_lists(tree, spans)
    for call in list(tree.find_all(exp.Anonymous)):
        call.replace(_respelled(call))
    for node in list(tree.find_all(exp.WithinGroup)):
        node.replace(_of_ordered(source, node, spans))
    today = utc_today().isoformat()  # once, so that a statement knows one day alone
    for named in list(tree.find_all(exp.CurrentDate)):
        named.replace(_day(today, spans.of(named)))
    return Parsed(source, tree, spans)


def utc_today() -> date:
    """Return the day that it is in UTC: it is public, and a literal from here on."""
    return datetime.now(UTC).date()


def _day(text: str, span: Span) -> exp.Cast:
    """Write a day as if it had been typed, at the place of what stands for it."""
    day = exp.Cast(this=exp.Literal.string(text), to=exp.DataType(this=exp.DType.DATE))
    day.this.meta.update({"start": span.start, "end": span.end - 1})
    return day


_FORMATS = {
    "TO_DATE": ("DATE", {"YYYY-MM-DD"}),
    "TO_TIMESTAMP": (
        "TIMESTAMP",
        {"YYYY-MM-DD", "YYYY-MM-DD HH24:MI:SS", "YYYY-MM-DD HH24:MI:SS.US"},
    ),
}
"""PostgreSQL's functions of a text and its format, where that is how literals are written."""


def _respelled(call: exp.Anonymous) -> exp.Expr:
    """Return IFF(c, a, b) as IF, and TO_DATE('2025-01-31', 'YYYY-MM-DD') as a literal."""
    if str(call.this).upper() == "IFF" and len(call.expressions) == 3:
        met, true, false = call.expressions
        made = exp.If(this=met, true=true, false=false)
        made.meta.update(call.meta)
        return made
    name, formats = _FORMATS.get(str(call.this).upper(), ("", frozenset()))
    texts = [str(one.this) for one in call.expressions if one.is_string]
    if (
        len(texts) != len(call.expressions)
        or len(texts) != 2
        or texts[1].upper() not in formats
    ):
        return call
    return exp.Cast(this=call.expressions[0], to=exp.DataType(this=exp.DType[name]))


_ORDERED = {
    "PERCENTILE_CONT": "QUANTILE_CONT",
    "PERCENTILE_DISC": "QUANTILE_DISC",
    "MODE": "MODE",
}


def _of_ordered(source: Source, node: exp.WithinGroup, spans: Spans) -> exp.Anonymous:
    """Return PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x) as QUANTILE_CONT(x, q)."""
    call, (ordered, *others) = node.this, node.expression.expressions
    name = _ORDERED.get(str(call.this).upper()) if isinstance(call, exp.Anonymous) else None
    if name is None or others or ordered.args.get("desc"):
        refuse_construct(source, node, spans)
    made = exp.Anonymous(this=name, expressions=[ordered.this, *call.expressions])
    span = spans.name(node)
    made.meta.update({"start": span.start, "end": span.end - 1})
    return made


def _too_deep(span: Span, label: str) -> QueryRefused:
    remedy = advice("write the query with less nesting, or use IN for long lists")
    return too_large("the query is nested too deeply", span, label, remedy=remedy)


def _check_depth(tree: exp.Expr, spans: Spans) -> None:
    """Measure nesting without recursion; AND and OR chains are flattened, and do not count."""
    pending: list[tuple[exp.Expr, int]] = [(tree, 1)]
    while pending:
        node, depth = pending.pop()
        if depth > MAX_TREE_DEPTH:
            raise _too_deep(spans.of(node), f"more than {MAX_TREE_DEPTH} levels down")
        for child in node.iter_expressions():
            chained = isinstance(node, exp.And | exp.Or) and type(child) is type(node)
            pending.append((child, depth if chained else depth + 1))


def _check_nodes(source: Source, tree: exp.Expr, spans: Spans) -> None:
    """Walk the tree in reading order and refuse the first thing that is not on the list."""
    for node in tree.dfs():
        slots = ALLOWED.get(type(node))
        if slots is None or _hides(node, tree):
            if _is_function(node, spans):
                continue  # a function by name: binding knows the list, and the nearest name
            refuse_construct(source, node, spans)
        if is_misused(node):
            refuse_construct(source, node, spans)
        for slot, value in node.args.items():
            if slot not in (slots or ()) and value not in (None, False, [], ""):
                first = value[0] if isinstance(value, list) else value
                inner = first if isinstance(first, exp.Expr) else node
                refuse_construct(source, inner, spans, slot)
        if isinstance(node, exp.Identifier) and not node.quoted:
            _check_name(source, node, spans)
        if isinstance(node, exp.Join) and node.args.get("using"):
            _check_using(source, node.args["using"], spans)


def _check_using(source: Source, names: list[exp.Expr], spans: Spans) -> None:
    """Insist on names in brackets: the parser takes one without, and calls of functions."""
    whole = Span(spans.of(names[0]).start, spans.of(names[-1]).end)
    before = [token.token_type for token in spans.tokens if token.end < whole.start]
    after = [token.token_type for token in spans.tokens if token.start >= whole.end]
    brackets = before[-1:] == [TokenType.L_PAREN] and after[:1] == [TokenType.R_PAREN]
    if brackets and all(isinstance(name, exp.Identifier) for name in names):
        return
    columns = [column for name in names for column in name.find_all(exp.Identifier)]
    listed = ", ".join(spans.text(column) for column in columns)
    remedy = mended(source, whole, f"({listed})", f"USING ({listed})")
    raise incomplete("USING needs names in brackets", whole, "not a list of names", remedy)


def _hides(node: exp.Expr, tree: exp.Expr) -> bool:
    """Return whether a query, or PIVOT, stands where none is allowed."""
    if isinstance(node, exp.Pivot):
        relation = node.parent
        return relation is None or not isinstance(relation.parent, exp.From | exp.Join)
    holders = exp.Subquery | exp.CTE | exp.Exists | exp.SetOperation
    held = isinstance(node, exp.Subquery) or isinstance(node.parent, holders)
    return isinstance(node, exp.Query) and node is not tree and not held


def _is_function(node: exp.Expr, spans: Spans) -> bool:
    function = isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.Case)
    return function and spans.written_as_call(node)


def _check_name(source: Source, node: exp.Identifier, spans: Spans) -> None:
    if str(node.this).upper() not in RESERVED:
        return
    span, label = spans.of(node), "a word of SQL, not a name"
    title = f"{source.snippet(span).upper()} stands where a name is expected"
    quoted = f'"{node.this}"'
    remedy = mended(source, span, quoted, example(source, spans.tokens))
    said = f"a name that is also a word of SQL stands in quotes: {quoted}"
    raise incomplete(title, span, label, remedy, said)
