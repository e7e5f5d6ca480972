"""Reads one DP_ call: its argument, and the options that it gives by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery import functions
from dpquery.errors import Diagnostic, NameRefused, PlanRefused, RuleRefused, listed, nearest
from dpquery.functions.base import Argument, DPFunction, Parameter
from dpquery.ir import Call, Expr
from dpquery.privacy import decimal_text
from dpquery.source import Source, Span
from dpquery.sql.conditions import Conditions
from dpquery.sql.expressions import with_article
from dpquery.sql.literals import unwrapped
from dpquery.sql.names import fold
from dpquery.sql.options import EXAMPLES, read_number_between, read_options
from dpquery.types import Kind

__all__ = ["Calls", "is_call"]

_OFFERED = {
    Kind.BOOLEAN: "DP_PROPORTION",
    Kind.DATE: "DP_MEDIAN",
    Kind.TIMESTAMP: "DP_MEDIAN",
}
"""What can be asked about values that are no numbers; of others, how many there are."""


def is_call(node: exp.Expr) -> bool:
    """Say whether a node is written as a DP_ function, known or not."""
    inner = node.this if isinstance(node, exp.Filter) else node
    return isinstance(inner, exp.Anonymous) and str(inner.this).upper().startswith(
        ("DP_", "LDP_")
    )


@dataclass(slots=True)
class Calls:
    """Collects the DP_ calls of a query, each of which is a release of its own."""

    source: Source
    rows: Conditions
    found: list[Call] = field(default_factory=list)

    def add(self, node: exp.Expr) -> Call:
        """Bind a call and give it the next column.

        Raises:
            NameRefused: DPQ202, DPQ203, DPQ205, DPQ206, DPQ207, DPQ209.
        """
        condition = None
        whole = self.rows.spans.of(node)
        if isinstance(node, exp.Filter):
            condition = self.rows.condition(node.expression.this)
            node = node.this
        function = self._function(node)
        positional, named = self._arguments(function, node)
        distinct, positional = self._distinct(function, positional)
        order = self._order(function, node, positional)
        argument = self._argument(function, node, positional, distinct=distinct)
        if "eps" not in named:
            text = self.source.snippet(self.rows.spans.of(node))
            self._missing(function, node, "eps", "eps is missing", f"{text[:-1]}, eps=0.5)")
        options = read_options(function, argument, named)
        call = Call(
            span=whole,
            column=f"a{len(self.found)}",
            function=function.name,
            argument=argument,
            condition=condition,
            options=options,
            distinct=distinct,
            order=order,
            text=self.source.snippet(self.rows.spans.of(node)),
        )
        self.found.append(call)
        return call

    def _function(self, node: exp.Expr) -> DPFunction:
        name = str(node.this)
        function = functions.find(name)
        if function is None:
            name = name.upper() if name.isascii() else name
            near = nearest(name, functions.names())
            raise NameRefused(
                Diagnostic(
                    "DPQ202",
                    f"there is no function {name}",
                    self.rows.spans.name(node),
                    "unknown function",
                    (f"this build has {listed(functions.names(), near)}.",),
                    (self._nearest(node, near),),
                )
            )
        return function

    def _nearest(self, node: exp.Expr, near: str | None) -> str:
        """Write the call under the nearest name that there is."""
        if near is None:
            return f"{functions.names()[0]}(*, eps=0.5)"
        return near + self.source.snippet(self.rows.spans.of(node))[len(str(node.this)) :]

    def _arguments(
        self, function: DPFunction, node: exp.Expr
    ) -> tuple[list[exp.Expr], dict[str, tuple[exp.Expr, Span]]]:
        """Part positional from named arguments; `eps=`, `eps :=` and `eps =>` mean the same."""
        positional: list[exp.Expr] = []
        named: dict[str, tuple[exp.Expr, Span]] = {}
        for item in node.expressions:
            name = self._name_of(item)
            if name is None:
                positional.append(item)
                continue
            parameter = self._parameter(function, name, item)
            if parameter.name in named:
                self._twice(parameter, item)
            named[parameter.name] = (
                unwrapped(item.expression),
                self.rows.spans.of(item.expression),
            )
        return positional, named

    def _distinct(
        self, function: DPFunction, positional: list[exp.Expr]
    ) -> tuple[bool, list[exp.Expr]]:
        """Read DISTINCT before the unit column: of other columns it is not answered."""
        if not positional or not isinstance(positional[0], exp.Distinct):
            return False, positional
        node, unit = positional[0], self.rows.scope.table.unit
        inner = unwrapped(node.expressions[0] or node)
        if function.distinct and isinstance(inner, exp.Column) and self._is_unit(inner):
            self.rows.scope.check_qualifier(inner, self.rows.spans.of(inner))
            return True, positional
        raise PlanRefused(
            Diagnostic(
                "DPQ404",
                "DISTINCT is answered for the privacy unit only",
                self.rows.spans.of(node),
                f"the unit is {unit}" if unit else "each row is its own unit here",
                ("one person can have many different values, and no bound on them is stated.",),
                (f"DP_COUNT(DISTINCT {unit}, eps=0.5)" if unit else "DP_COUNT(*, eps=0.5)",),
            )
        )

    def _is_unit(self, column: exp.Column) -> bool:
        unit = self.rows.scope.table.unit
        return unit is not None and fold(column.name) == fold(unit)

    def _order(
        self, function: DPFunction, node: exp.Expr, positional: list[exp.Expr]
    ) -> Fraction | None:
        """Read which quantile is asked for, and leave the argument alone."""
        if not function.order:
            return None
        if len(positional) < 2:
            shown = [self.source.snippet(self.rows.spans.of(first)) for first in positional]
            remedy = f"{function.name}({shown[0]}, 0.5, eps=0.5)" if shown else function.example
            self._missing(function, node, "a quantile", "it does not say which one", remedy)
        written = positional.pop(1)
        span, number = self.rows.spans.of(written), unwrapped(written)
        remedy = self._with_share(node, span, number)
        if isinstance(unwrapped(positional[0]), exp.Literal):
            first, second = (
                self.source.snippet(self.rows.spans.of(p)) for p in (written, positional[0])
            )
            remedy = f"{function.name}({first}, {second}, eps=0.5)"
        return read_number_between(
            "the quantile", number, span, (Fraction(0), Fraction(1)), remedy
        )

    def _with_share(self, node: exp.Expr, span: Span, number: exp.Expr) -> str:
        """Write a call with another quantile: a percentage becomes a share."""
        percent = str(number.this) if isinstance(number, exp.Literal) else ""
        share = "0.5"
        if percent.isdigit() and len(percent) < 4 and int(percent) <= 100:
            share = decimal_text(Fraction(int(percent), 100))
        call, text = self.rows.spans.of(node), self.source.text
        return text[call.start : span.start] + share + text[span.end : call.end]

    def _name_of(self, item: exp.Expr) -> str | None:
        """Give the name of a named argument; otherwise `column = value` is a comparison."""
        match item:
            case exp.PropertyEQ() | exp.Kwarg():
                return str(item.this.name)
            case exp.EQ(this=exp.Column(this=exp.Identifier()) as left) if not left.table:
                is_column = any(
                    fold(left.name) == fold(c) for c in self.rows.scope.table.columns
                )
                known = any(
                    fold(left.name) in (p.name, *p.aliases)
                    for f in functions.ALL
                    for p in f.parameters
                )
                return str(left.name) if known or not is_column else None
        return None

    def _parameter(self, function: DPFunction, name: str, item: exp.Expr) -> Parameter:
        for parameter in function.parameters:
            if fold(name) in (parameter.name, *parameter.aliases):
                return parameter
        known = [parameter.name for parameter in function.parameters]
        near = nearest(name, known)
        raise NameRefused(
            Diagnostic(
                "DPQ206",
                f"{function.name} has no argument {name}",
                self.rows.spans.of(item),
                "unknown argument",
                (f"it takes {listed(known, near)}.",),
                (EXAMPLES[near or "eps"],),
            )
        )

    def _twice(self, parameter: Parameter, item: exp.Expr) -> NoReturn:
        raise NameRefused(
            Diagnostic(
                "DPQ209",
                f"{parameter.name} is given twice",
                self.rows.spans.of(item),
                "given before",
                ("each argument has one value.",),
                ("keep one of the two",),
            )
        )

    def _argument(
        self,
        function: DPFunction,
        node: exp.Expr,
        positional: list[exp.Expr],
        *,
        distinct: bool,
    ) -> Expr | None:
        """Bind what is asked about; None stands for all rows, or for the units."""
        if not positional:
            label = "what to ask about is missing"
            self._missing(function, node, "an argument", label, function.example)
        if len(positional) > 1:
            takes = "an argument and a quantile" if function.order else "one argument"
            raise NameRefused(
                Diagnostic(
                    "DPQ206",
                    f"{function.name} takes {takes}, and options by name",
                    self.rows.spans.of(positional[1]),
                    "which option is this?",
                    ("options are named, so that no number is taken for another.",),
                    (self._named(function, positional),),
                )
            )
        if distinct:
            return None
        if isinstance(positional[0], exp.Star):
            if not function.star:
                self._not_of_rows(function, positional[0])
            return None
        if is_call(positional[0]):
            self._nested(function, positional[0])
        argument = self.rows.bind(positional[0])
        self._check_kind(function, argument)
        return argument

    def _not_of_rows(self, function: DPFunction, node: exp.Expr) -> NoReturn:
        raise NameRefused(
            Diagnostic(
                "DPQ208",
                f"{function.name} needs a column, not *",
                self.rows.spans.of(node),
                "whole rows have no value",
                (f"{function.name} is computed from the values of one expression.",),
                (function.example,),
            )
        )

    def _named(self, function: DPFunction, positional: list[exp.Expr]) -> str:
        """Write the call anew, with a second number as its eps."""
        first, second = (self.source.snippet(self.rows.spans.of(p)) for p in positional[:2])
        number = isinstance(positional[1], exp.Literal) and not positional[1].is_string
        order = ", 0.5" if function.order else ""
        return f"{function.name}({first}{order}, eps={second if number else '0.5'})"

    def _nested(self, function: DPFunction, inner: exp.Expr) -> NoReturn:
        raise RuleRefused(
            Diagnostic(
                "DPQ303",
                f"{function.name} cannot be asked about another DP_ function",
                self.rows.spans.of(inner),
                "a DP_ function inside a DP_ function",
                ("what is released already has no rows to count.",),
                (self.source.snippet(self.rows.spans.of(inner)),),
            )
        )

    def _missing(
        self, function: DPFunction, node: exp.Expr, what: str, label: str, remedy: str
    ) -> NoReturn:
        raise NameRefused(
            Diagnostic(
                "DPQ203",
                f"{function.name} needs {what}",
                self.rows.spans.name(node),
                label,
                (
                    "every DP_ function states what it asks and what it may spend;",
                    "there is no default.",
                ),
                (remedy,),
            )
        )

    def _check_kind(self, function: DPFunction, argument: Expr) -> None:
        """Refuse an argument of another kind than the function computes with."""
        type_, wanted = argument.type, function.argument
        fits = {
            Argument.VALUE: True,
            Argument.NUMBER: type_.numeric,
            Argument.ORDERED: type_.numeric or type_.kind in {Kind.DATE, Kind.TIMESTAMP},
            Argument.CONDITION: type_.kind is Kind.BOOLEAN,
        }
        if fits[wanted]:
            return
        written = self.source.snippet(argument.span)
        remedy = f"{_OFFERED.get(type_.kind, 'DP_COUNT')}({written}, eps=0.5)"
        if wanted is Argument.CONDITION:
            remedy = f"{function.name}({written} IS NOT NULL, eps=0.5)"
        raise NameRefused(
            Diagnostic(
                "DPQ208",
                f"{function.name} needs a {wanted}",
                argument.span,
                f"{with_article(type_)} here",
                ("values are never converted silently: a conversion can fail on one row.",),
                (remedy,),
            )
        )
