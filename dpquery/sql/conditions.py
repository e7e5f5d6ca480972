"""Binds expressions below the frontier: sqlglot's nodes end here, ours begin.

What has no case here is refused: an expression over private rows must be row-level,
deterministic and total, and each node that is accepted was shown to be so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, NameRefused, RuleRefused, SyntaxRefused
from dpquery.ir import Comparison, Expr, IsNull, Literal, Logic, Not, Operator
from dpquery.source import Span
from dpquery.sql.expressions import arithmetic, compare, member, mismatch, negate
from dpquery.sql.literals import read_literal, unwrapped
from dpquery.sql.mending import outside
from dpquery.sql.names import Scope
from dpquery.sql.spans import Spans
from dpquery.types import Kind

__all__ = ["Conditions", "chain"]

_COMPARISONS: dict[type[exp.Expr], Comparison] = {
    exp.EQ: Comparison.EQ,
    exp.NEQ: Comparison.NE,
    exp.LT: Comparison.LT,
    exp.LTE: Comparison.LE,
    exp.GT: Comparison.GT,
    exp.GTE: Comparison.GE,
}
_OPERATORS: dict[type[exp.Expr], Operator] = {
    exp.Add: Operator.ADD,
    exp.Sub: Operator.SUBTRACT,
    exp.Mul: Operator.MULTIPLY,
    exp.Div: Operator.DIVIDE,
    exp.IntDiv: Operator.QUOTIENT,
    exp.Mod: Operator.REMAINDER,
}


class Conditions:
    """Binds expressions over the rows of one private table."""

    def __init__(self, scope: Scope, spans: Spans) -> None:
        self.scope = scope
        self.spans = spans

    def condition(self, node: exp.Expr) -> Expr:
        """Bind an expression that must be true or false.

        Raises:
            NameRefused: DPQ2xx.
            RuleRefused: DPQ303 a DP_ function inside.
        """
        bound = self.bind(node)
        if bound.type.kind is not Kind.BOOLEAN:
            mismatch(bound.span, "a condition must be true or false", f"{bound.type.kind} here")
        return bound

    def bind(self, node: exp.Expr) -> Expr:
        """Bind any expression over rows."""
        node = unwrapped(node)
        span = self.spans.of(node)
        literal = read_literal(node, span)
        if literal is not None:
            return literal
        kind = type(node)
        if kind in _COMPARISONS:
            left, right = self.bind(node.this), self.bind(node.expression)
            return compare(span, _COMPARISONS[kind], left, right)
        if kind in _OPERATORS:
            left, right = self.bind(node.this), self.bind(node.expression)
            return arithmetic(span, _OPERATORS[kind], left, right)
        match node:
            case exp.Column(this=exp.Identifier()):
                return self.scope.reference(node, span)
            case exp.And() | exp.Or():
                parts = tuple(self.condition(part) for part in chain(node))
                return Logic(span, isinstance(node, exp.And), parts)
            case exp.Not():
                return Not(span, self.condition(node.this))
            case exp.Neg():
                return negate(span, self.bind(node.this))
            case exp.Is(expression=exp.Null()):
                return IsNull(span, self.bind(node.this))
            case exp.Between():
                return self._between(node, span)
            case exp.In():
                return self._in(node, span)
        self._refuse(node, span)

    def _between(self, node: exp.Between, span: Span) -> Expr:
        value = self.bind(node.this)
        if (
            value.type.kind is Kind.BOOLEAN
        ):  # it stands in two comparisons: nesting would double
            mismatch(value.span, "BETWEEN needs values in an order", "a boolean")
        low = compare(span, Comparison.GE, value, self.bind(node.args["low"]))
        high = compare(span, Comparison.LE, value, self.bind(node.args["high"]))
        return Logic(span, True, (low, high))

    def _in(self, node: exp.In, span: Span) -> Expr:
        options = [self.bind(option) for option in node.expressions]
        for option in options:
            if not isinstance(option, Literal):
                raise NameRefused(
                    Diagnostic(
                        "DPQ207",
                        "the values after IN must be literals",
                        option.span,
                        "not a literal",
                        ("the list is the analyst's own knowledge, not a part of the data.",),
                        ("IN (1, 2, 3)", "or write x = a OR x = b to compare two columns"),
                    )
                )
        return member(
            span, self.bind(node.this), [o for o in options if isinstance(o, Literal)]
        )

    def _refuse(self, node: exp.Expr, span: Span) -> NoReturn:
        if isinstance(node, exp.Null):
            mismatch(span, "nothing equals NULL, and nothing differs from it", "use IS NULL")
        if isinstance(node, exp.Func | exp.Filter):
            self._refuse_function(node)
        word = node.sql(dialect="duckdb")[:40]
        remedy = "a_column > 10 AND other_column IN ('a', 'b')"
        raise SyntaxRefused(outside(word, span, "not understood", remedy))

    def _refuse_function(self, node: exp.Func | exp.Filter) -> NoReturn:
        call = node.this if isinstance(node, exp.Filter) else node
        name = str(call.this) if isinstance(call, exp.Anonymous) else call.sql_name()
        span = self.spans.name(call)
        if name.upper().startswith(("DP_", "LDP_")):
            raise RuleRefused(
                Diagnostic(
                    "DPQ303",
                    f"{name.upper()} cannot stand here",
                    span,
                    "among the rows it would count",
                    ("it asks about all rows at once, so it stands in the SELECT list.",),
                    (f"SELECT {name.upper()}(*, eps=0.5) FROM {self.scope.table.name}",),
                )
            )
        raise NameRefused(
            Diagnostic(
                "DPQ202",
                f"there is no function {name.upper()} for rows",
                span,
                "unknown function",
                (
                    "a function that failed on one row would tell whether that row exists;",
                    "there are comparisons, AND, OR, NOT, BETWEEN, IN, IS NULL, + - * / // %.",
                ),
                ("a_column > 10 AND other_column IN ('a', 'b')",),
            )
        )


def chain(node: exp.Expr) -> Iterator[exp.Expr]:
    """Flatten `a AND b AND c`, however long, from left to right."""
    kind, parts = type(node), [node]
    while parts:
        part = parts.pop()
        inner = unwrapped(part) if type(unwrapped(part)) is kind else part
        if type(inner) is kind:
            parts += [inner.expression, inner.this]
        else:
            yield part
