"""Reads one DP_ call: its argument, and the options that it gives by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery import functions
from dpquery.core.privacy import Loss, decimal_text
from dpquery.core.source import Span
from dpquery.errors import (
    Diagnostic,
    NameRefused,
    PlanRefused,
    RuleRefused,
    listed,
    nearest,
    refusal,
    without,
)
from dpquery.functions.base import (
    BOUNDS,
    DPFunction,
    Expression,
    Number,
    Parameter,
    Share,
    Takes,
)
from dpquery.functions.quantize import known_range
from dpquery.ir.expr import Expr
from dpquery.ir.query import Call, Input, Options
from dpquery.sql.bind.expressions import Conditions
from dpquery.sql.bind.options import (
    WEIGHTS,
    Given,
    read_number_between,
    read_options,
    read_price,
    read_whole,
    refuse_constant,
)
from dpquery.sql.bind.scope import fold, is_call, is_plain, written_name
from dpquery.sql.parse.literals import unwrapped
from dpquery.sql.shares import share_text
from dpquery.sql.suggest.dialects import is_share, meant_call, nearest_function
from dpquery.sql.suggest.queries import (
    call_about,
    fits,
    mismatch,
    other_call,
    sample_call,
    with_article,
)

# DISTINCT inside a DP_ call: units, or the different values of one expression.


def is_distinct(function: DPFunction, first: exp.Expr, rows: Conditions) -> bool:
    """Read DISTINCT before what is counted: the unit column, or one other expression.

    Raises:
        PlanRefused: DPQ404 it stands before something else.
    """
    if not isinstance(first, exp.Distinct):
        return False
    counted = [part for part in first.expressions if part and type(part) is not exp.Star]
    if function.first.distinct and len(counted) == 1:
        return True
    first_column = written_name(next(iter(rows.scope.table.columns)))
    written = rows.spans.text(counted[0]) if counted else first_column
    raise PlanRefused(
        Diagnostic(
            "DPQ404",
            "DISTINCT is answered by DP_COUNT, of one expression",
            rows.spans.of(first),
            "not of this",
            ("what is left after it has no bound that the noise could be scaled to.",),
            (f"DP_COUNT(DISTINCT {written}, eps=0.5)",),
        )
    )


def counts_units(counted: exp.Expr, rows: Conditions) -> bool:
    """Return whether the privacy units are what is counted."""
    inner = unwrapped(counted)
    if isinstance(inner, exp.Column):
        rows.scope.check_qualifier(inner, rows.spans.of(inner))
    return rows.scope.owns(inner)


MAX_ORDERS = 1000
"""More quantiles of one column are a distribution, and are asked for as one."""


@dataclass(slots=True)
class Calls:
    """Collects the DP_ calls of a query, each of which is a release of its own."""

    rows: Conditions
    found: list[Call] = field(default_factory=list)
    unlimited: bool = False
    """Whether nobody says how many rows of a unit count."""

    def add(self, node: exp.Expr) -> Call:
        """Bind a call and give it the next column.

        Raises:
            NameRefused: DPQ202 to DPQ210.
            PlanRefused: DPQ404 DISTINCT of another column than the unit, DPQ408 bounds between
                which there is one answer.
            RuleRefused: DPQ303 a DP_ function inside the call.
            SyntaxRefused: DPQ102 an operator that rows do not have.
        """
        condition = None
        whole = self.rows.spans.of(node)
        if isinstance(node, exp.Filter):
            condition = self.rows.condition(node.expression.this)
            node = node.this
        function = self._function(node)
        positional, named = self._arguments(function, node)
        self._require_positional(function, node, positional)
        distinct = is_distinct(function, positional[0], self.rows)
        if distinct:
            positional[0] = positional[0].expressions[0]
        order, number = self._settings(function, node, positional)
        units = distinct and counts_units(positional[0], self.rows)
        inputs = () if units else self._inputs(function, positional, condition)
        options = self._options(function, node, named, inputs, distinct=distinct)
        call = Call(
            span=whole,
            column=f"a{len(self.found)}",
            function=function.name,
            inputs=inputs,
            condition=condition,
            options=options,
            distinct=distinct,
            order=order,
            number=number,
            text=self.rows.spans.text(node),
        )
        self.found.append(call)
        self._note(call, node, named)
        return call

    def _options(
        self,
        function: DPFunction,
        node: exp.Expr,
        named: Given,
        inputs: Sequence[Input],
        *,
        distinct: bool,
    ) -> Options:
        """Read what a call states by name, its share, and what a plain one has found."""
        argument = inputs[0].expr if inputs else None
        share = self._share(node, function, named)
        price = read_price(named, share, self.rows.spans.name(node))
        options = read_options(function, argument, named, price)
        if is_plain(node) and share is not None:
            options = self._completed(function, options, inputs, distinct=distinct)
        refuse_constant(function, argument, options)
        return options

    def _note(self, call: Call, node: exp.Expr, named: Given) -> None:
        """Note what a call states of the statement's epsilon, or how it is understood."""
        shares = self.rows.shares
        if shares is None:
            return
        if "eps" in named or "rho" in named:
            shares.stated += Loss(call.options.epsilon, call.options.delta or Fraction(0))
        else:
            shares.rewritten[self.rows.spans.of(node)] = self._understood(call, node, named)

    def repeat(self, call: Call, node: exp.Expr) -> None:
        """Note that a plain aggregate stands here again: it is the same release."""
        shares, inner = self.rows.shares, node.this if isinstance(node, exp.Filter) else node
        if shares is not None:
            spans = self.rows.spans
            first = next(at for at in shares.rewritten if spans.source.snippet(at) == call.text)
            shares.rewritten[spans.of(inner)] = shares.rewritten[first]

    def _share(self, node: exp.Expr, function: DPFunction, named: Given) -> Loss | None:
        """Return what a call has of the statement's epsilon, if it states none itself."""
        shares = self.rows.shares
        if shares is None or "eps" in named or "rho" in named:
            self._require_price(function, node, named)
            return None
        weight = Fraction(1)
        if "weight" in named:
            weight = read_number_between("weight", *named["weight"], WEIGHTS)
        selects = "delta" in function.price and "delta" not in named
        return shares.take(self.rows.spans.name(node), weight, selects=selects)

    def _completed(
        self,
        function: DPFunction,
        options: Options,
        inputs: Sequence[Input],
        *,
        distinct: bool,
    ) -> Options:
        """Have found what nobody says of a plain aggregate: bounds, and a limit of rows."""
        if options.group_bounds is not None:
            return options
        if BOUNDS in function.parameters and options.bounds is None:
            loose = any(not known_range(one).bounded for one in inputs)
            options = replace(options, auto=options.auto or loose)
        if self.unlimited and options.max_rows_contributed is None and not distinct:
            options = replace(options, auto_rows=True)
        return options

    def _understood(self, call: Call, node: exp.Expr, named: Given) -> str:
        """Write a call with its share, by the name of its function."""
        snippet, options = self.rows.spans.source.snippet, call.options
        spans = self.rows.spans
        parts = [spans.text(part) for part in node.expressions if not self._name_of(part)]
        if isinstance(node.expressions[0], exp.Star):
            parts[0] = "*"
        if call.distinct:
            parts[0] = f"DISTINCT {parts[0].removeprefix('DISTINCT ')}"
        given = {name: span for name, (_, span) in named.items() if name != "weight"}
        parts += [f"{name}={snippet(span)}" for name, span in given.items()]
        if options.auto and "bounds" not in named:
            parts.append("bounds='auto'")
        if options.auto_rows and "max_rows_contributed" not in named:
            parts.append("max_rows_contributed='auto'")
        parts.append(f"eps={share_text(options.epsilon)}")
        if options.delta is not None and "delta" not in named:
            parts.append(f"delta={share_text(options.delta)}")
        return f"{call.function}({', '.join(parts)})"

    def _require_price(self, function: DPFunction, node: exp.Expr, named: Given) -> None:
        text = self.rows.spans.text(node)
        if "eps" in named and "rho" in named:
            self._both(text, self.rows.spans.of(node), named["rho"][1])
        if "weight" in named and ("eps" in named or "rho" in named):
            raise refusal(
                "DPQ209",
                "eps and weight are both given",
                named["weight"][1],
                "beside eps",
                "a weight shares the statement's epsilon; eps says what the call has.",
                self._without(node, self._named(node, "weight")),
            )
        if "eps" not in named and "rho" not in named:
            price = function.price if "delta" not in named else "eps=0.5"
            self._missing(function, node, "eps", "eps is missing", f"{text[:-1]}, {price})")

    def _function(self, node: exp.Expr) -> DPFunction:
        name = str(node.this)
        function = functions.find(name)
        if function is None:
            self._unknown(node, name)
        return function

    def _unknown(self, node: exp.Expr, name: str) -> NoReturn:
        """Refuse an unknown function; offer the one that was meant, or is a slip away."""
        name = name.upper() if name.isascii() else name
        near = nearest_function(name)
        remedy = self.meant(name, node)
        if remedy is None and near is not None and not self._surplus(near, node):
            remedy = near + self.rows.spans.text(node)[len(name) :]
        known = listed([function.name for function in functions.ALL], near)
        raise NameRefused(
            Diagnostic(
                "DPQ202",
                f"there is no function {name}",
                self.rows.spans.name(node),
                "unknown function",
                (f"this build has {known}.",),
                (remedy or sample_call(functions.ALL[0], self.rows.scope.table),),
            )
        )

    def meant(self, name: str, node: exp.Expr) -> str | None:
        """Write the DP_ call that a function of another name means, with its own options."""
        given = self._given(node)
        named = [self.rows.spans.text(part) for part in given if self._name_of(part)]
        if not any(text.lower().startswith(("eps", "rho")) for text in named):
            named.append("eps=0.5")
        positional = [part for part in given if not self._name_of(part)]
        return meant_call(name, positional, self.rows, ", ".join(named))

    def _given(self, node: exp.Expr) -> list[exp.Expr]:
        parts = node.args.get("expressions") if isinstance(node, exp.Anonymous) else None
        return list(node.iter_expressions()) if parts is None else parts

    def _surplus(self, near: str, node: exp.Expr) -> bool:
        """Return whether a call has more arguments than the function of a near name takes."""
        function = functions.find(near)
        given = [part for part in self._given(node) if not self._name_of(part)]
        return function is not None and len(given) > len(function.positional)

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
            parameter = self._parameter(function, name, node, item)
            if parameter.name in named:
                self._twice(parameter, node, item)
            named[parameter.name] = (
                unwrapped(item.expression),
                self.rows.spans.of(item.expression),
            )
        return positional, named

    def _require_positional(
        self, function: DPFunction, node: exp.Expr, positional: Sequence[exp.Expr]
    ) -> None:
        """Require what a function takes by position, and no more."""
        given, takes = len(positional), function.positional
        if given > len(takes):
            self._refuse_surplus(function, positional)
        if not given:
            label = "what to ask about is missing"
            offered = sample_call(function, self.rows.scope.table)
            self._missing(function, node, "an argument", label, offered)
        if given < len(takes):
            written = list(map(self.rows.spans.text, positional))
            remedy = call_about(function, written, None, self.rows.scope.table)
            what, label = takes[given].noun, "it does not say which one"
            if isinstance(takes[given], Expression):
                what, label = "another argument", "it is asked about one alone"
            self._missing(function, node, what, label, remedy)

    def _refuse_surplus(self, function: DPFunction, positional: Sequence[exp.Expr]) -> NoReturn:
        taken = len(function.positional)
        surplus = positional[taken]
        number = isinstance(surplus, exp.Literal) and not surplus.is_string
        texts = [self.rows.spans.text(part) for part in positional[:taken]]
        if isinstance(positional[0], exp.Distinct):
            texts[0] = f"DISTINCT {texts[0]}"
        eps = f"eps={self.rows.spans.text(surplus)}" if number else "eps=0.5"
        texts.append(function.price.replace("eps=0.5", eps))
        raise NameRefused(
            Diagnostic(
                "DPQ206",
                f"{function.name} takes {_taken(function)}, and options by name",
                self.rows.spans.of(surplus),
                "which option is this?",
                ("options are named, so that no number is taken for another.",),
                (f"{function.name}({', '.join(texts)})",),
            )
        )

    def _settings(
        self, function: DPFunction, node: exp.Expr, positional: Sequence[exp.Expr]
    ) -> tuple[Fraction | tuple[Fraction, ...] | None, int | None]:
        """Read which quantiles, or which number, a call is for."""
        order = number = None
        for one, part in zip(function.positional, positional, strict=True):
            match one:
                case Share():
                    order = self._order(function, node, positional[0], part)
                case Number():
                    number = read_whole(one, part, self.rows.spans)
        return order, number

    def _order(
        self, function: DPFunction, node: exp.Expr, first: exp.Expr, share: exp.Expr
    ) -> Fraction | tuple[Fraction, ...]:
        """Read which quantile is asked for, or which ones."""
        whole = unwrapped(share)
        if isinstance(whole, exp.Array):
            if not 1 <= len(whole.expressions) <= MAX_ORDERS:
                self._refuse_orders(function, first, whole)
            return tuple(self._one_order(node, part) for part in whole.expressions)
        if isinstance(unwrapped(first), exp.Literal):
            swapped = f"{self.rows.spans.text(share)}, {self.rows.spans.text(first)}"
            return self._one_order(node, share, f"{function.name}({swapped}, eps=0.5)")
        return self._one_order(node, share)

    def _one_order(self, node: exp.Expr, share: exp.Expr, remedy: str = "") -> Fraction:
        span, number = self.rows.spans.of(share), unwrapped(share)
        remedy = remedy or self._with_share(node, span, number)
        range_ = (Fraction(0), Fraction(1))
        return read_number_between("the quantile", number, span, range_, remedy)

    def _refuse_orders(
        self, function: DPFunction, first: exp.Expr, orders: exp.Expr
    ) -> NoReturn:
        argument = self.rows.spans.text(first)
        raise NameRefused(
            Diagnostic(
                "DPQ205",
                f"{function.name} takes a list of 1 to {MAX_ORDERS:,} quantiles",
                self.rows.spans.of(orders),
                f"{len(orders.expressions):,} of them",
                ("each quantile of a list is drawn, and they share the eps of the call.",),
                (f"{function.name}({argument}, [0.25, 0.75], eps=0.5)",),
            )
        )

    def _with_share(self, node: exp.Expr, span: Span, number: exp.Expr) -> str:
        """Write a call with another quantile: a percentage becomes a share."""
        percent = str(number.this) if isinstance(number, exp.Literal) else ""
        share = percent if is_share(percent) else "0.5"
        if percent.isdigit() and len(percent) < 4 and 1 < int(percent) <= 100:
            share = decimal_text(Fraction(int(percent), 100))
        call, text = self.rows.spans.of(node), self.rows.spans.source.text
        return text[call.start : span.start] + share + text[span.end : call.end]

    def _name_of(self, item: exp.Expr) -> str | None:
        """Return the name of a named argument; otherwise `column = value` is a comparison."""
        match item:
            case exp.PropertyEQ() | exp.Kwarg():
                return str(item.this.name)
            case exp.EQ(this=exp.Column(this=exp.Identifier()) as left) if not left.table:
                is_column = self.rows.scope.knows(left.name)
                known = any(
                    fold(left.name) in (p.name, *p.aliases)
                    for f in functions.ALL
                    for p in f.parameters
                )
                return str(left.name) if known or not is_column else None
        return None

    def _parameter(
        self, function: DPFunction, name: str, node: exp.Expr, item: exp.Expr
    ) -> Parameter:
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
                (self._mended(function, node, item, near),),
            )
        )

    def _mended(
        self, function: DPFunction, node: exp.Expr, item: exp.Expr, near: str | None
    ) -> str:
        """Write what an unknown argument was meant to be; or the call without it."""
        if near is not None:
            return f"{near}={self.rows.spans.text(item.expression)}"
        places = zip(node.expressions, function.positional, strict=False)
        if any(part is item and isinstance(one, Share) for part, one in places):
            return self._with_share(node, self.rows.spans.of(item), unwrapped(item.expression))
        if not any(self._is_price(other) for other in node.expressions):
            call, part = self.rows.spans.of(node), self.rows.spans.of(item)
            text = self.rows.spans.source.text
            return f"{text[call.start : part.start]}eps=0.5{text[part.end : call.end]}"
        return self._without(node, item)

    def _is_price(self, item: exp.Expr) -> bool:
        return fold(self._name_of(item) or "") in {"eps", "epsilon"}

    def _twice(self, parameter: Parameter, node: exp.Expr, item: exp.Expr) -> NoReturn:
        raise NameRefused(
            Diagnostic(
                "DPQ209",
                f"{parameter.name} is given twice",
                self.rows.spans.of(item),
                "given before",
                ("each argument has one value.",),
                (self._without(node, item),),
            )
        )

    def _both(self, call: str, whole: Span, rho: Span) -> NoReturn:
        offered = without(call, rho.start - whole.start, rho.end - whole.start)
        raise NameRefused(
            Diagnostic(
                "DPQ209",
                "eps and rho are both given",
                rho,
                "in place of eps",
                ("each of them says how much the call may spend.",),
                (offered,),
            )
        )

    def _named(self, node: exp.Expr, name: str) -> exp.Expr:
        """Return the argument that is given under a name."""
        parts: list[exp.Expr] = node.expressions
        return next(part for part in parts if fold(self._name_of(part) or "") == name)

    def _without(self, node: exp.Expr, item: exp.Expr) -> str:
        """Write a call without one of its arguments."""
        call, part = self.rows.spans.of(node), self.rows.spans.of(item)
        text = self.rows.spans.source.snippet(call)
        return without(text, part.start - call.start, part.end - call.start)

    def _inputs(
        self, function: DPFunction, positional: Sequence[exp.Expr], condition: Expr | None
    ) -> tuple[Input, ...]:
        """Bind what is asked about; none stands for all rows."""
        found = []
        for about, node in zip(function.positional, positional, strict=True):
            if not isinstance(about, Expression):
                continue
            if isinstance(node, exp.Star) and about.star:
                return ()
            expr = self._argument(function, about, node)
            implied = self.rows.implied(expr, condition)
            public = about.takes is Takes.LISTED
            values = self.rows.listed(expr, condition) if public else ()
            found.append(Input(expr, self.rows.spans.of(node), implied, values))
        return tuple(found)

    def _argument(self, function: DPFunction, about: Expression, node: exp.Expr) -> Expr:
        if isinstance(node, exp.Star):
            self._not_of_rows(function, node)
        if is_call(node):
            self._nested(function, node)
        argument = self.rows.bind(node)
        if not fits(about.takes, argument.type):
            self._refuse_kind(function, about, argument)
        return argument

    def _not_of_rows(self, function: DPFunction, node: exp.Expr) -> NoReturn:
        raise NameRefused(
            Diagnostic(
                "DPQ208",
                f"{function.name} needs a column, not *",
                self.rows.spans.of(node),
                "whole rows have no value",
                (f"{function.name} is computed from values, each of an expression.",)
                if len(function.expressions) > 1
                else (f"{function.name} is computed from the values of one expression.",),
                (sample_call(function, self.rows.scope.table),),
            )
        )

    def _nested(self, function: DPFunction, inner: exp.Expr) -> NoReturn:
        raise RuleRefused(
            Diagnostic(
                "DPQ303",
                f"{function.name} cannot be asked about another DP_ function",
                self.rows.spans.of(inner),
                "a DP_ function inside a DP_ function",
                ("what is released already has no rows to count.",),
                (self.rows.spans.text(inner),),
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

    def _refuse_kind(self, function: DPFunction, about: Expression, argument: Expr) -> NoReturn:
        """Refuse an argument of another kind than the function computes with."""
        written = self.rows.spans.source.snippet(argument.span)
        remedy = other_call(argument, written)
        if about.takes is Takes.CONDITION:
            remedy = f"{function.name}({written} IS NOT NULL, eps=0.5)"
        title = f"{function.name} needs a {about.takes}"
        label = f"{with_article(argument.type)} here"
        mismatch(argument.span, title, label, remedy)


def _taken(function: DPFunction) -> str:
    """Return what a function takes by position, in words."""
    count = len(function.expressions)
    if len(function.positional) == 1:
        return "one argument"
    arguments = ("an argument", "two arguments", "three arguments")[count - 1]
    others = [one.noun for one in function.positional if not isinstance(one, Expression)]
    return " and ".join([arguments, *others])
