"""The query above the frontier: arithmetic, ORDER BY, LIMIT on released and public tables.

Everything here is post-processing, run by a second engine that never saw a private row. The
list of functions is closed all the same, names are resolved here, and what could raise on a
value is put inside TRY, which gives NULL instead: a charge must not end in an error. Not a
word of the analyst's text is passed on; literals are read and printed anew, with their type,
so that the engine converts none of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn, Protocol

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, NameRefused, SyntaxRefused
from dpquery.ir import Above, AboveColumn
from dpquery.source import Span
from dpquery.sql.above_trees import depth, expanded, joined, row_count, total
from dpquery.sql.conditions import chain
from dpquery.sql.constructs import refuse_construct
from dpquery.sql.literals import read_literal, unwrapped
from dpquery.sql.mending import outside
from dpquery.sql.mismatches import mismatch
from dpquery.sql.names import fold, is_call, written_name
from dpquery.sql.spans import Spans
from dpquery.types import NUMERIC, Kind

__all__ = ["FUNCTIONS", "AboveBinder", "Below", "Item"]

MAX_WRITTEN_OUT = 20_000
"""Nodes that names of the SELECT list may stand for, in all."""
MAX_DEPTH = 200
MAX_SIZE = 30_000
"""Nodes of an expression with everything written as often as the engine will write it."""

_REBUILT = (
    exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod, exp.Neg, exp.Paren,
    exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between,
    exp.Abs, exp.Round, exp.Greatest, exp.Least, exp.Coalesce,
)  # fmt: skip
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between)
_OF_ROWS = (
    exp.Case, exp.Cast, exp.TryCast, exp.DPipe, exp.ILike, exp.Interval, exp.Is, exp.Like,
    exp.NullSafeEQ, exp.NullSafeNEQ, exp.SimilarTo,
)  # fmt: skip
"""What only rows have."""
_ZERO = exp.Literal.number(0)
_CASTS = {exp.DType.VARCHAR: Kind.TEXT, exp.DType.DATE: Kind.DATE}
FUNCTIONS = ("ABS", "COALESCE", "GREATEST", "LEAST", "ROUND")


@dataclass(frozen=True, slots=True)
class Item:
    """One column of the SELECT list, bound."""

    name: str
    sql: str
    origin: tuple[int, str] | None


class Below(Protocol):
    """What a query above finds below it: a released table, a public one, or none."""

    number: int
    """Of the frontier that is released here; 0 where none is."""

    @property
    def relation(self) -> str:
        """The engine's name of the table."""
        ...

    def call(self, node: exp.Expr) -> tuple[str, str]:
        """Bind a DP_ call; give its released column and its function's name."""
        ...

    def kind(self, column: str) -> Kind | None:
        """Give the kind of one of the engine's columns, where it is known before planning."""
        ...

    def refuse_function(self, call: exp.Func, name: str) -> NoReturn:
        """Refuse a function that results do not have; offer what was meant."""
        ...

    def key(self, node: exp.Expr) -> str | None:
        """Give the engine's column for a key that is an expression over rows."""
        ...

    def column(self, node: exp.Column) -> str:
        """Give the engine's column for a key or a public column, or refuse."""
        ...

    def has(self, name: str) -> bool:
        """Say whether a key or a public column is so called."""
        ...


class AboveBinder:
    """Binds what stands outside the DP_ calls of one SELECT."""

    def __init__(self, spans: Spans, below: Below) -> None:
        self.spans = spans
        self.relation = below.relation
        self._below = below
        self._names: dict[str, str] = {}
        self._values: dict[str, exp.Expr] = {}
        self._written_out = 0
        self._repeats: dict[str, int] = {}
        self._items: list[Item] = []

    def over_released(self, select: exp.Select) -> Above:
        """Write the query over a released table, with the hidden row number."""
        return self._bind(select, [], None, numbered=True)

    def over_public(self, select: exp.Select, stars: list[Item]) -> Above:
        """Write the query over a public table, or none; a star stands for the columns given."""
        return self._bind(select, stars, select.args.get("where"), numbered=False)

    def _bind(
        self, select: exp.Select, stars: list[Item], where: exp.Where | None, *, numbered: bool
    ) -> Above:
        for node in select.expressions:
            self._items += stars if self._is_star(node) else [self._item(node)]
        columns = [f'{item.sql} AS "c{i}"' for i, item in enumerate(self._items)]
        if numbered:
            columns.append(f'"{self.relation}"."row" AS "row"')
        sql = "SELECT " + ", ".join(columns)
        if self.relation:
            sql += f' FROM "{self.relation}"'
        for filtered in (where, select.args.get("having")):
            if filtered is not None:
                sql += (
                    f" WHERE TRY(CAST({self._truth(filtered.this).sql('duckdb')} AS BOOLEAN))"
                )
        sql += self._order(select, numbered=numbered)
        sql += self._rows(select, "limit") + self._rows(select, "offset")
        found = tuple(AboveColumn(item.name, item.origin) for item in self._items)
        return Above(sql, found, numbered)

    def _truth(self, node: exp.Expr) -> exp.Expr:
        """Bind a condition; a number or a text is none, though the engine would make it one."""
        tree = self._value(node)
        kind = self._kind(tree.unnest())
        if kind in {None, Kind.BOOLEAN}:
            return tree
        number = kind in NUMERIC
        remedy = f"{self.spans.text(node)} {'> 0' if number else 'IS NOT NULL'}"
        label = f"a {'number' if number else kind} here"
        mismatch(self.spans.of(node), "a condition must be true or false", label, remedy)

    def _kind(self, tree: exp.Expr) -> Kind | None:
        """Give the kind of a bound value by its form; None where the form does not tell."""
        match tree:
            case exp.Column():
                return self._below.kind(tree.name)
            case exp.Cast():
                return _CASTS.get(tree.to.this, Kind.TIMESTAMP)
        return Kind.INTEGER if _is_number(tree) else None

    def _is_star(self, node: exp.Expr) -> bool:
        """Say whether an item is `*` or `t.*`; for the second, t has to be the table."""
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            self._below.column(node)
            return True
        return isinstance(node, exp.Star)

    def _item(self, node: exp.Expr) -> Item:
        alias = node.alias if isinstance(node, exp.Alias) else ""
        value = node.this if isinstance(node, exp.Alias) else node
        inner = value.unnest()
        origin = None
        default = inner.name if isinstance(inner, exp.Column) else self.spans.text(value)
        if is_call(inner):
            column, function = self._below.call(inner)
            origin, default = (self._below.number, column), function.lower()
            tree = self._column(column)
        else:
            tree = self._value(value)
        if depth(tree) > MAX_DEPTH:
            self._refuse_size(self.spans.of(value))
        name = self._unique(alias or default, explicit=bool(alias), span=self.spans.of(node))
        self._names[fold(name)] = f"c{len(self._items)}"
        self._values[fold(name)] = tree
        return Item(name, total(tree), origin)

    def _column(self, name: str) -> exp.Expr:
        return exp.column(name, table=self.relation, quoted=True)

    def _unique(self, name: str, explicit: bool, span: Span) -> str:
        if fold(name) not in self._names:
            self._repeats[fold(name)] = 0
            return name
        if explicit:
            raise NameRefused(
                Diagnostic(
                    "DPQ211",
                    f"two columns are called {name}",
                    span,
                    "the second one",
                    ("columns of an answer are found by their names.",),
                    (f"AS {written_name(f'{name}_2')}",),
                )
            )
        number = self._repeats.get(fold(name), 0) + 1
        while fold(f"{name}_{number}") in self._names:
            number += 1
        self._repeats[fold(name)] = number
        return f"{name}_{number}"

    def _value(self, node: exp.Expr) -> exp.Expr:
        """Bind an expression, as long as what the engine makes of it stays of a decent size."""
        tree = self._built(node)
        tree.meta["size"] = size = expanded(tree)
        if size > MAX_SIZE:
            raise SyntaxRefused(
                Diagnostic(
                    "DPQ105",
                    "this expression grows too large",
                    self.spans.of(node),
                    "written out in full, its parts repeat too often",
                    ("expressions that repeat their parts double with each level.",),
                    ("compute with fewer levels of aliases, IN, BETWEEN and division",),
                )
            )
        return tree

    def _built(self, node: exp.Expr) -> exp.Expr:
        span = self.spans.of(node)
        if isinstance(node, exp.Literal) and node.is_string:
            return exp.cast(node.copy(), exp.DType.VARCHAR)
        if isinstance(node, exp.Null) or read_literal(node, span) is not None:
            return node.copy()
        if is_call(node):
            column, _ = self._below.call(node)
            return self._column(column)
        if not isinstance(node, exp.Column) and (key := self._below.key(node)) is not None:
            return self._column(key)
        self._check_types(node)
        match node:
            case exp.Column(this=exp.Identifier()):
                return self._named(node)
            case exp.And() | exp.Or():
                return joined(type(node), [self._truth(part) for part in chain(node)])
            case exp.Not():
                return exp.Not(this=self._truth(node.this))
            case exp.Div():
                divisor = exp.Nullif(this=self._value(node.expression), expression=_ZERO)
                return exp.Div(this=self._value(node.this), expression=divisor)
            case exp.Is(expression=exp.Null()):
                return exp.Is(this=self._value(node.this), expression=exp.Null())
            case exp.In():
                return self._in(node)
        if type(node) in _REBUILT:
            return self._rebuilt(node)
        self._refuse(node, span)

    def _named(self, node: exp.Column) -> exp.Expr:
        """Resolve a column below, or else a name given before in the SELECT list."""
        if (
            not node.table
            and fold(node.name) in self._values
            and not self._below.has(node.name)
        ):
            tree = self._values[fold(node.name)]
            self._written_out += sum(1 for _ in tree.walk())
            if self._written_out > MAX_WRITTEN_OUT:
                self._refuse_size(self.spans.of(node))
            return exp.Paren(this=tree.copy())
        return self._column(self._below.column(node))

    def _refuse_size(self, span: Span) -> NoReturn:
        raise SyntaxRefused(
            Diagnostic(
                "DPQ105",
                "the names of the SELECT list stand for too much",
                span,
                "written out, it is too large",
                ("a name of the SELECT list is replaced by all that it stands for.",),
                ("use fewer of these names inside one another",),
            )
        )

    def _rebuilt(self, node: exp.Expr) -> exp.Expr:
        """Make a node of the same kind over its operands, and of nothing else in it."""
        if isinstance(node, exp.Greatest | exp.Least):
            # The parser's own node would be written as CASE, with each operand several times.
            operands = [self._value(part) for part in (node.this, *node.expressions)]
            return exp.Anonymous(this=node.key.upper(), expressions=operands)
        slots: dict[str, exp.Expr | list[exp.Expr]] = {}
        for slot, value in node.args.items():
            if isinstance(value, list):
                slots[slot] = [self._value(part) for part in value]
            elif isinstance(value, exp.Expr):
                slots[slot] = self._value(value)
        return type(node)(**slots)

    def _in(self, node: exp.In) -> exp.Expr:
        """Write IN as comparisons: in a list, the engine would convert one value to another."""
        if node.args.get("query") is not None:
            self._refuse(node.args["query"], self.spans.of(node.args["query"]))
        value = self._value(node.this)
        options = [exp.EQ(this=value, expression=self._value(e)) for e in node.expressions]
        return exp.Paren(this=joined(exp.Or, options))

    def _check_types(self, node: exp.Expr) -> None:
        """Refuse a text in arithmetic or beside a number: the engine would convert it."""
        if not isinstance(node, (*_ARITHMETIC, *_COMPARISONS)):
            return
        operands = [unwrapped(operand) for operand in node.iter_expressions()]
        if not isinstance(node, _ARITHMETIC) and not any(map(_is_number, operands)):
            return
        for operand in operands:
            if isinstance(operand, exp.Literal) and operand.is_string:
                title, span = "a number is needed here", self.spans.of(operand)
                mismatch(span, title, "a text", _number_in(str(operand.this)))

    def _order(self, select: exp.Select, *, numbered: bool) -> str:
        """Write ORDER BY; where nothing else decides, groups stand in the order of keys."""
        order = select.args.get("order")
        last = [f'"{self.relation}"."row"'] if numbered else []
        if order is None:
            return " ORDER BY " + last[0] if last else ""
        keys = []
        for item in order.expressions:
            direction = "DESC" if item.args.get("desc") else "ASC"
            nulls = "FIRST" if item.args.get("nulls_first") else "LAST"
            keys.append(f"{self._sort_key(item.this)} {direction} NULLS {nulls}")
        return " ORDER BY " + ", ".join(keys + last)

    def _sort_key(self, node: exp.Expr) -> str:
        """Resolve a column's number, then a name of the SELECT list, then an expression."""
        if isinstance(node, exp.Literal):
            text = node.this if len(node.this) <= 9 and node.this.isdigit() else "0"
            if not 1 <= int(text) <= len(self._items):
                raise NameRefused(
                    Diagnostic(
                        "DPQ205",
                        f"there is no column number {node.this[:20]} in the result",
                        self.spans.of(node),
                        f"the columns are 1 to {len(self._items)}",
                        ("a number in ORDER BY counts the columns of the result.",),
                        ("ORDER BY 1",),
                    )
                )
            return f'"c{int(node.this) - 1}"'
        if isinstance(node, exp.Column) and not node.table and fold(node.name) in self._names:
            return f'"{self._names[fold(node.name)]}"'
        return total(self._value(node))

    def _rows(self, select: exp.Select, slot: str) -> str:
        clause = select.args.get(slot)
        return "" if clause is None else f" {row_count(clause.expression, slot, self.spans)}"

    def _refuse(self, node: exp.Expr, span: Span) -> NoReturn:
        if type(node) in _OF_ROWS:
            refuse_construct(self.spans.source, node, self.spans)
        call = node.this if isinstance(node, exp.Filter) else node
        if isinstance(call, exp.AggFunc) or (
            isinstance(call, exp.Func) and self.spans.written_as_call(call)
        ):
            name = self.spans.source.snippet(self.spans.name(call))
            self._below.refuse_function(call, name.upper())
        word = self.spans.source.snippet(span)[:40]
        raise SyntaxRefused(outside(word, span, "not understood", "ABS(-1)"))


def _is_number(node: exp.Expr) -> bool:
    """Say whether a value is a number by its form: a literal, arithmetic, or a DP_ call."""
    literal = isinstance(node, exp.Literal) and not node.is_string
    return literal or isinstance(node, (*_ARITHMETIC, exp.Abs, exp.Round)) or is_call(node)


def _number_in(text: str) -> str:
    """Give the number that a text holds; where it holds none, any number."""
    plain = text.isascii() and text.replace(".", "", 1).isdigit() and len(text) < 30
    return text if plain and text[0] != "." else "0"
