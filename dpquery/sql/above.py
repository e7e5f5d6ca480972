"""The query above the frontier: arithmetic, ORDER BY and LIMIT over released and public tables.

Everything here is post-processing, run by a second engine that never saw a private row. The list of
functions is closed all the same, names are resolved here, and what could raise on a value is put
inside TRY, which gives NULL instead: a charge must not end in an error. Not a word of the analyst's
text is passed on; literals are read and printed anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, NameRefused, RuleRefused
from dpquery.ir import Above, AboveColumn
from dpquery.source import Source, Span
from dpquery.sql.calls import is_call
from dpquery.sql.literals import read_literal, read_number
from dpquery.sql.names import fold
from dpquery.sql.parse import Spans

__all__ = ["AboveBinder", "Item"]

MAX_LIMIT = 2**31 - 1

_BINARY: tuple[type[exp.Expr], ...] = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod,
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.And, exp.Or,
)  # fmt: skip
_UNARY: tuple[type[exp.Expr], ...] = (exp.Neg, exp.Not, exp.Paren, exp.Abs)
_LISTED: tuple[type[exp.Expr], ...] = (exp.Greatest, exp.Least, exp.Coalesce)
FUNCTIONS = ("ABS", "COALESCE", "GREATEST", "LEAST", "ROUND")


@dataclass(frozen=True, slots=True)
class Item:
    """One column of the SELECT list, bound."""

    name: str
    sql: str
    origin: tuple[int, str] | None


class AboveBinder:
    """Binds what stands outside the DP_ calls of one SELECT.

    Args:
        source: the text, for the names of unnamed columns.
        spans: the way from nodes to the text.
        relation: the engine's name of the released or public table below.
        call: binds a DP_ call and gives its released column and its function's name.
        column: gives the engine's column for a public column, or refuses.
    """

    def __init__(
        self,
        source: Source,
        spans: Spans,
        relation: str,
        call: Callable[[exp.Expr], tuple[str, str]],
        column: Callable[[exp.Column], str],
    ) -> None:
        self.source = source
        self.spans = spans
        self.relation = relation
        self._call = call
        self._column = column
        self._names: dict[str, str] = {}
        self._items: list[Item] = []

    def over_released(self, select: exp.Select) -> Above:
        """Write the query over a released table, with the hidden row number; WHERE was below."""
        return self._bind(select, [], None, numbered=True)

    def over_public(self, select: exp.Select, stars: list[Item]) -> Above:
        """Write the query over a public table, or none; a star stands for the columns given."""
        return self._bind(select, stars, select.args.get("where"), numbered=False)

    def _bind(
        self, select: exp.Select, stars: list[Item], where: exp.Where | None, *, numbered: bool
    ) -> Above:
        for node in select.expressions:
            self._items += stars if isinstance(node, exp.Star) else [self._item(node)]
        columns = [f'{item.sql} AS "c{i}"' for i, item in enumerate(self._items)]
        if numbered:
            columns.append(f'"{self.relation}"."row" AS "row"')
        sql = "SELECT " + ", ".join(columns)
        if self.relation:
            sql += f' FROM "{self.relation}"'
        if where is not None:
            sql += f" WHERE {self.total(where.this)}"
        sql += self._order(select) + self._rows(select, "limit") + self._rows(select, "offset")
        found = tuple(AboveColumn(item.name, item.origin) for item in self._items)
        return Above(sql, found, numbered)

    def total(self, node: exp.Expr) -> str:
        """Write an expression so that it cannot raise: NULL where DuckDB would stop."""
        text: str = self._value(node).sql(dialect="duckdb", identify=True, comments=False)
        inner = node.unnest()
        plain = isinstance(inner, exp.Column | exp.Literal | exp.Boolean | exp.Null) or is_call(
            inner
        )
        return text if plain else f"TRY({text})"

    def _item(self, node: exp.Expr) -> Item:
        alias = node.alias if isinstance(node, exp.Alias) else ""
        value = node.this if isinstance(node, exp.Alias) else node
        inner = value.unnest()
        origin = None
        default = self.source.snippet(self.spans.of(value))
        if is_call(inner):
            column, function = self._call(inner)
            origin, default = (0, column), function.lower()
            sql = f'"{self.relation}"."{column}"'
        else:
            sql = self.total(value)
            default = inner.name if isinstance(inner, exp.Column) else default
        name = self._unique(alias or default, explicit=bool(alias), span=self.spans.of(node))
        self._names[fold(name)] = f"c{len(self._items)}"
        return Item(name, sql, origin)

    def _unique(self, name: str, explicit: bool, span: Span) -> str:
        if fold(name) not in self._names:
            return name
        if explicit:
            raise NameRefused(
                Diagnostic(
                    "DPQ211",
                    f"two columns are called {name}",
                    span,
                    "the second one",
                    ("columns of an answer are found by their names.",),
                    (f"AS {name}_2",),
                )
            )
        number = 1
        while fold(f"{name}_{number}") in self._names:
            number += 1
        return f"{name}_{number}"

    def _value(self, node: exp.Expr) -> exp.Expr:
        span = self.spans.of(node)
        if isinstance(node, exp.Literal) and not node.is_string:
            read_number(str(node.this), span)
            return node.copy()
        if isinstance(node, exp.Null) or read_literal(node, span) is not None:
            return node.copy()
        if is_call(node):
            column, _ = self._call(node)
            return exp.column(column, table=self.relation, quoted=True)
        kind = type(node)
        if kind in _BINARY:
            return kind(this=self._value(node.this), expression=self._value(node.expression))
        if kind in _UNARY:
            return kind(this=self._value(node.this))
        if kind in _LISTED:
            return kind(
                this=self._value(node.this),
                expressions=[self._value(e) for e in node.expressions],
            )
        match node:
            case exp.Column(this=exp.Identifier()):
                return exp.column(self._column(node), table=self.relation, quoted=True)
            case exp.Round():
                decimals = node.args.get("decimals")
                return exp.Round(
                    this=self._value(node.this), decimals=decimals and self._value(decimals)
                )
            case exp.Is(expression=exp.Null()):
                return exp.Is(this=self._value(node.this), expression=exp.Null())
            case exp.Between():
                return exp.Between(
                    **{slot: self._value(node.args[slot]) for slot in ("this", "low", "high")}
                )
            case exp.In():
                return exp.In(
                    this=self._value(node.this),
                    expressions=[self._value(e) for e in node.expressions],
                )
        self._refuse(node, span)

    def _order(self, select: exp.Select) -> str:
        order = select.args.get("order")
        if order is None:
            return ""
        keys = []
        for item in order.expressions:
            direction = "DESC" if item.args.get("desc") else "ASC"
            nulls = "FIRST" if item.args.get("nulls_first") else "LAST"
            keys.append(f"{self._sort_key(item.this)} {direction} NULLS {nulls}")
        return " ORDER BY " + ", ".join(keys)

    def _sort_key(self, node: exp.Expr) -> str:
        """Resolve a number of a column, then a name given in the SELECT list, then an expression."""
        if isinstance(node, exp.Literal) and not node.is_string:
            if not node.this.isdigit() or not 1 <= int(node.this[:9]) <= len(self._items):
                raise NameRefused(
                    Diagnostic(
                        "DPQ205",
                        f"there is no column number {node.this[:20]} in the result",
                        self.spans.of(node),
                        f"the result has {len(self._items)}",
                        ("a number in ORDER BY counts the columns of the result.",),
                        ("ORDER BY 1",),
                    )
                )
            return f'"c{int(node.this) - 1}"'
        if isinstance(node, exp.Column) and not node.table and fold(node.name) in self._names:
            return f'"{self._names[fold(node.name)]}"'
        return self.total(node)

    def _rows(self, select: exp.Select, slot: str) -> str:
        clause = select.args.get(slot)
        if clause is None:
            return ""
        node = clause.expression
        digits = str(node.this) if isinstance(node, exp.Literal) and not node.is_string else ""
        if not digits.isdigit() or int(digits[:12]) > MAX_LIMIT:
            raise NameRefused(
                Diagnostic(
                    "DPQ207",
                    f"{slot.upper()} must be a whole number",
                    self.spans.of(node),
                    "not a whole number",
                    ("it is read from the text before anything is computed.",),
                    (f"{slot.upper()} 10",),
                )
            )
        return f" {slot.upper()} {int(digits)}"

    def _refuse(self, node: exp.Expr, span: Span) -> NoReturn:
        if isinstance(node, exp.AggFunc):
            name = self.source.snippet(self.spans.name(node)).upper()
            raise RuleRefused(
                Diagnostic(
                    "DPQ302",
                    f"{name} would be exact",
                    span,
                    "no noise is added here",
                    (
                        "an exact result changes when one person is added, and shows that they were.",
                    ),
                    ("DP_COUNT(*, eps=0.5)",),
                )
            )
        name = str(node.this) if isinstance(node, exp.Anonymous) else ""
        if not name:
            name = node.sql_name() if isinstance(node, exp.Func) else node.key
        raise NameRefused(
            Diagnostic(
                "DPQ202",
                f"there is no function {name.upper()}",
                self.spans.name(node),
                "unknown function",
                (f"on results there are {', '.join(FUNCTIONS)} and arithmetic.",),
                ("ROUND(DP_COUNT(*, eps=0.5) / 1000, 1)",),
            )
        )
