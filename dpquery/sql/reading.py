"""The grammar: DuckDB's as sqlglot reads it, with the places of more words."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from typing import Any, ClassVar, TypeVar

from sqlglot import Token, TokenType
from sqlglot import expressions as exp
from sqlglot.parsers.duckdb import DuckDBParser

from dpquery import rowfunctions
from dpquery.rowfunctions.dates import UNIT_NAMES
from dpquery.sql.above.aggregates import AGGREGATES, ONLY_WINDOWS
from dpquery.sql.above.functions import NAMES as FUNCTIONS_ABOVE

__all__ = ["Parser"]

E = TypeVar("E", bound=exp.Expr)

# The parser logs what it does not understand, with the text: our refusals say it instead.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)

_NODES = {"ABS", "COALESCE", "GREATEST", "IFNULL", "LEAST", "NVL", "ROUND"}
"""Functions that results have too, by nodes of their own."""
_AGGREGATES = {
    *("COUNT", "COUNT_IF", "SUM", "AVG", "MIN", "MAX", "BOOL_AND", "BOOL_OR"),
    *("ROW_NUMBER", "RANK", "DENSE_RANK", "LAG", "LEAD"),
}
"""Aggregates and window functions that rows have too, by nodes of their own."""
_BY_NAME = {
    *rowfunctions.names(),
    *FUNCTIONS_ABOVE,
    *AGGREGATES,
    *ONLY_WINDOWS,
} - (_NODES | _AGGREGATES | {"IF"})


class Parser(DuckDBParser):
    """DuckDB's grammar as sqlglot reads it, with positions on more nodes and no unary plus.

    Functions of rows stay what was written, a name and arguments: sqlglot would make nodes of
    them that say less, or other things.
    """

    FUNCTIONS: ClassVar = {
        name: build for name, build in DuckDBParser.FUNCTIONS.items() if name not in _BY_NAME
    }
    FUNCTION_PARSERS: ClassVar = {
        name: read
        for name, read in DuckDBParser.FUNCTION_PARSERS.items()
        if name not in _BY_NAME
    }

    UNARY_PARSERS: ClassVar = {
        **{
            kind: read
            for kind, read in DuckDBParser.UNARY_PARSERS.items()
            if kind is not TokenType.PLUS
        },
        TokenType.DASH: lambda self: self.prefixed(exp.Neg, self._prev, Parser._parse_unary),
        TokenType.NOT: lambda self: self.prefixed(exp.Not, self._prev, Parser._parse_equality),
    }

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

    def _parse_case(self) -> exp.Expr | None:
        """Read CASE, and keep the place of all of it, from its word to END."""
        first = self._prev
        node = super()._parse_case()
        if isinstance(node, exp.Case):
            node.meta.update({"start": first.start, "end": self._prev.end})
        return node

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
        """Read what a minus or a NOT stands before, and keep the place of that word."""
        return self.expression(kind(this=operand(self)), sign)

    def expression(
        self,
        instance: E,
        token: Token | None = None,
        comments: list[str] | None = None,
    ) -> E:
        """Give nodes without children the position of the word they were read from."""
        leaf = next(instance.iter_expressions(), None) is None
        return super().expression(instance, token or (self._prev if leaf else None), comments)
