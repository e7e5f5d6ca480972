"""Reads one DP_ call: its argument, and the options that it gives by name."""

from __future__ import annotations

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery import functions, rowfunctions
from dpquery.core.privacy_loss import Loss
from dpquery.core.source_text import Span
from dpquery.core.types import Kind
from dpquery.errors import listed, nearest, refusal, without
from dpquery.functions.base import (
    BOUNDS,
    DPFunction,
    Expression,
    Gives,
    Number,
    Parameter,
    Share,
    Takes,
)
from dpquery.functions.distributions.points_argument import Points
from dpquery.functions.error_options import CONFIDENCE, ERRORS, OVER
from dpquery.functions.quantize import known_range
from dpquery.ir.expr import ColumnRef, Expr
from dpquery.ir.query import Call, Input, Options
from dpquery.sql.bind.call_options import (
    Given,
    read_option,
    read_options,
    read_price,
    read_whole_between,
    refuse_constant,
)
from dpquery.sql.bind.positional_arguments import bind_points, is_number, listed_in, some_points
from dpquery.sql.bind.quantile_fractions import Orders
from dpquery.sql.bind.rows.row_expressions import Conditions
from dpquery.sql.bind.scope import fold, is_call, is_plain, written_name
from dpquery.sql.epsilon_shares import Shares, share_text
from dpquery.sql.parse.literals import unwrapped
from dpquery.sql.suggest.dialects import meant_call, nearest_function
from dpquery.sql.suggest.sample_queries import (
    call_about,
    fits,
    other_call,
    sample_call,
    taken_by,
)
from dpquery.sql.suggest.type_mismatches import mismatch, with_article

_PRICES = frozenset({"eps", "rho", *(one.name for one in ERRORS)})
"""What says how much a call may spend."""
_OPTIONS = {
    name
    for function in functions.ALL
    for option in function.parameters
    for name in (option.name, *option.aliases)
}
_PLACES_OF_TEXTS = (
    "the first or the middle of some texts is somebody's own. Of numbers, one of a public",
    "grid is released in its place; of texts there is no such grid.",
)


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
        whole, condition = self.rows.spans.of(node), None
        if isinstance(node, exp.Filter):
            condition = self.rows.condition(node.expression.this)
            node = node.this
        function = functions.find(str(node.this)) or self._unknown(node)
        reader = _Reader(self.rows, node, function)
        positional, named = reader.arguments()
        distinct = reader.is_distinct(positional[0])
        if distinct:
            positional[0] = positional[0].expressions[0]
        order, number = reader.settings(positional)
        counts = function.gives is Gives.COUNT
        units = distinct and counts and reader.counts_units(positional[0])
        inputs = () if units else reader.inputs(positional, condition)
        points = reader.points(positional)
        options = reader.options(named, inputs)
        if is_plain(node) and self.unlimited and not distinct:
            options = replace(options, auto_rows=options.max_rows_contributed is None)
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
            points=points,
            text=self.rows.spans.text(node),
        )
        self.found.append(call)
        reader.note(call, named)
        return call

    def repeat(self, call: Call, node: exp.Expr) -> None:
        """Note that a plain aggregate stands here again: it is the same release."""
        shares, inner = self.rows.shares, node.this if isinstance(node, exp.Filter) else node
        if shares is not None:
            spans = self.rows.spans
            written = spans.source.snippet
            first = next((at for at in shares.rewritten if written(at) == call.text), None)
            if first is not None:  # else it states its own
                shares.rewritten[spans.of(inner)] = shares.rewritten[first]

    def _unknown(self, node: exp.Expr) -> NoReturn:
        """Refuse an unknown function; offer the one that was meant, or is a slip away."""
        name = str(node.this)
        name = name.upper() if name.isascii() else name
        near = nearest_function(name)
        remedy = self.meant(name, node)
        if remedy is None and near is not None:
            given = [item for item in _given(node) if not _name_of(item, self.rows)]
            function = functions.find(near)
            if function is None or len(given) <= len(function.positional):
                remedy = near + self.rows.spans.text(node)[len(name) :]
        known = listed([function.name for function in functions.ALL], near)
        title, why = f"there is no function {name}", f"the DP_ functions are {known}."
        remedy = remedy or sample_call(functions.ALL[0], self.rows.scope.table)
        span = self.rows.spans.name(node)
        raise refusal("DPQ202", title, span, "unknown function", why, remedy)

    def meant(self, name: str, node: exp.Expr) -> str | None:
        """Write the DP_ call that a function of another name means, with its own options."""
        positional: list[exp.Expr] = []
        named: list[str] = []
        for item in _given(node):
            if _name_of(item, self.rows):
                named.append(self.rows.spans.text(item))
            else:
                positional.append(item)
        if not any(text.lower().startswith(("eps", "rho", "error")) for text in named):
            named.append("eps=0.5")
        return meant_call(name, positional, self.rows, ", ".join(named))


def _given(node: exp.Expr) -> list[exp.Expr]:
    """Return the arguments of a call, whatever node the parser made of it."""
    return node.expressions if isinstance(node, exp.Anonymous) else [*node.iter_expressions()]


def _name_of(item: exp.Expr, rows: Conditions, places: Set[str] = frozenset()) -> str | None:
    """Return the name of a named argument; otherwise `column = value` is a comparison."""
    match item:
        case exp.PropertyEQ() | exp.Kwarg():
            return str(item.this.name)
        case exp.EQ(this=exp.Column(this=exp.Identifier()) as left) if not left.table:
            named = fold(left.name) in _OPTIONS | places or not rows.scope.knows(left.name)
            return str(left.name) if named else None
    return None


class _Reader:
    """Reads the arguments of one call of a function."""

    def __init__(self, rows: Conditions, node: exp.Expr, function: DPFunction) -> None:
        self.rows = rows
        self.spans = rows.spans
        self.node = node
        self.function = function
        self._orders = Orders(rows.spans, node, function.name, self._with)
        self.positional = function.positional
        """What the call takes by position: expressions that may be repeated, as often."""

    def arguments(self) -> tuple[list[exp.Expr], dict[str, tuple[exp.Expr, Span]]]:
        """Part positional from named arguments; `eps=`, `eps :=` and `eps =>` mean the same."""
        positional: list[exp.Expr] = []
        named: dict[str, tuple[exp.Expr, Span]] = {}
        for item in self.node.expressions:
            name = _name_of(item, self.rows, self._places)
            if name is None or fold(name) in self._places:
                positional.append(item if name is None else item.expression)
                continue
            parameter, span = self._parameter(name, item), self.spans.of(item)
            if parameter.name in named:
                title, why = f"{parameter.name} is given twice", "each argument has one value."
                remedy = self._without(span)
                raise refusal("DPQ209", title, span, "given before", why, remedy)
            named[parameter.name] = unwrapped(item.expression), self.spans.of(item.expression)
        if self.function.several and len(positional) > 1:
            self.positional = self.function.positional * len(positional)
            self._require_one("other", named)
        self._require_positional(positional, named)
        return positional, named

    @property
    def _places(self) -> Set[str]:
        """The names of what may stand by place or by name."""
        return {one.name for one in self.positional if isinstance(one, Points)}

    def _is_option(self, item: exp.Expr) -> bool:
        """Return whether an argument has a name that is not one of a place."""
        name = _name_of(item, self.rows, self._places)
        return name is not None and fold(name) not in self._places

    def _parameter(self, name: str, item: exp.Expr) -> Parameter:
        for parameter in self.function.parameters:
            if fold(name) in (parameter.name, *parameter.aliases):
                return parameter
        known = [parameter.name for parameter in self.function.parameters]
        near = nearest(name, known)
        title = f"{self.function.name} has no argument {name}"
        why = f"it takes {listed(known, near)}."
        remedy = self._mended(item, near)
        raise refusal("DPQ206", title, self.spans.of(item), "unknown argument", why, remedy)

    def _mended(self, item: exp.Expr, near: str | None) -> str:
        """Write what an unknown argument was meant to be; or the call without it."""
        if near is not None:
            return f"{near}={self.spans.text(item.expression)}"
        span, given = self.spans.of(item), self.node.expressions
        pairs = zip(given, self.function.positional, strict=False)
        if any(node is item and isinstance(one, Share) for node, one in pairs):
            return self._orders.mended(span, unwrapped(item.expression))
        if any(fold(_name_of(one, self.rows) or "") in {"eps", "epsilon"} for one in given):
            return self._without(span)
        return self._with(span, "eps=0.5")

    def _with(self, span: Span, text: str) -> str:
        """Write the call with another text for a stretch of it."""
        call, source = self.spans.of(self.node), self.spans.source.text
        return source[call.start : span.start] + text + source[span.end : call.end]

    def _without(self, span: Span) -> str:
        """Write the call without one of its arguments."""
        start = self.spans.of(self.node).start
        return without(self.spans.text(self.node), span.start - start, span.end - start)

    def _require_positional(self, positional: Sequence[exp.Expr], named: Given) -> None:
        """Require what a function takes by position, and no more."""
        function, table, options = self.function, self.rows.scope.table, self._stated(named)
        given, takes = len(positional), self.positional
        if given > len(takes):
            self._refuse_surplus(positional, named)
        if not given:
            label = "what to ask about is missing"
            remedy = sample_call(function, table, options=options)
            self._missing("an argument", label, remedy)
        if given < len(takes):
            texts = [*map(self.spans.text, positional)]
            points = takes[given]
            some = (
                some_points(points, self.rows, positional[0])
                if isinstance(points, Points)
                else ""
            )
            remedy = call_about(function, texts, None, table, some, options)
            if isinstance(takes[given], Expression):
                self._missing("another argument", "it is asked about one alone", remedy)
            self._missing(takes[given].noun, "it does not say which one", remedy)

    def _require_one(self, option: str, named: Given) -> None:
        """Refuse an option that is about the values of one expression."""
        if option in named:
            span = named[option][1]
            title = f"{option} stands for values of one expression"
            why = "combinations of several have no value for all the others."
            remedy = f"GROUP BY {self._without(self._whole(span))}"
            raise refusal("DPQ209", title, span, "there are several here", why, remedy)

    def _whole(self, value: Span) -> Span:
        """Return where the argument stands that has this value."""
        spans = map(self.spans.of, self.node.expressions)
        return next(span for span in spans if span.start <= value.start < span.end)

    def _missing(self, what: str, label: str, remedy: str) -> NoReturn:
        title = f"{self.function.name} needs {what}"
        why = (
            "every DP_ function states what it asks and what it may spend;",
            "there is no default.",
        )
        raise refusal("DPQ203", title, self.spans.name(self.node), label, why, remedy)

    def _stated(self, named: Given) -> str:
        """Write the options that the call states, with a price among them."""
        source = self.spans.source
        texts = [f"{name}={source.snippet(span)}" for name, (_, span) in named.items()]
        return ", ".join(texts if _PRICES & {*named} else [self.function.price, *texts])

    def _refuse_surplus(self, positional: Sequence[exp.Expr], named: Given) -> NoReturn:
        function, taken = self.function, len(self.function.positional)
        surplus = positional[taken]
        number = is_number(surplus)
        texts = [self.spans.text(argument) for argument in positional[:taken]]
        if isinstance(positional[0], exp.Distinct):
            texts[0] = f"DISTINCT {texts[0]}"
        several = positional[taken - 1 :]
        if _PRICES & {*named}:
            if isinstance(function.positional[-1], Share) and all(map(is_number, several)):
                texts[-1] = f"[{', '.join(map(self.spans.text, several))}]"
            texts.append(self._stated(named))
        else:
            eps = f"eps={self.spans.text(surplus)}" if number else "eps=0.5"
            texts.append(self._stated(named).replace("eps=0.5", eps))
        title = f"{function.name} takes {taken_by(function)}, and options by name"
        label = "which option is this?"
        why = "options are named, so that no number is taken for another."
        remedy = f"{function.name}({', '.join(texts)})"
        raise refusal("DPQ206", title, self.spans.of(surplus), label, why, remedy)

    def options(self, named: Given, inputs: Sequence[Input]) -> Options:
        """Read what a call states by name, or has instead: a share, bounds that are found."""
        shares, share, weight = self.rows.shares, None, Fraction(1)
        if shares is None or _PRICES & {*named}:
            self._require_price(named)
        else:
            weight = read_option("weight", named) if "weight" in named else weight
            selects = "delta" in self.function.price and "delta" not in named
            share = shares.take(self.spans.name(self.node), weight, selects=selects)
        self._require_error(named)
        argument = inputs[0].expr if inputs else None
        price = read_price(named, share, self.spans.name(self.node))
        options = read_options(self.function, argument, named, price)
        if shares is not None:
            spare = Fraction(0) if share is None else shares.spare * weight
            options = replace(self._with_given(shares, named, options), spare=spare)
        loose = any(not known_range(one).bounded for one in inputs)
        if is_plain(self.node) and loose and BOUNDS in self.function.parameters:
            stated = options.bounds is not None or options.group_bounds is not None
            options = replace(options, auto=options.auto or not stated)
        refuse_constant(self.function, argument, options)
        return options

    def _with_given(self, shares: Shares, named: Given, options: Options) -> Options:
        """Return options with those of the statement, where a call can have them.

        Groups are limited for totals of a unit in a group, and for groups that are found;
        other calls limit rows.
        """
        takes = {parameter.name for parameter in self.function.parameters} - {*named}
        if options.group_bounds is None and "max_keys" not in takes:
            takes -= {"max_groups_contributed"}
        for name in takes & {*shares.given}:
            options = replace(options, **{name: shares.given[name]})  # type: ignore[arg-type]
        return options

    def note(self, call: Call, named: Given) -> None:
        """Note what a call states of the statement's epsilon, or how it is understood."""
        shares, options = self.rows.shares, call.options
        if shares is None:
            return
        unpriced = next((one for one in _PRICES - {"eps"} if one in named), None)
        if unpriced is not None:
            shares.beside = unpriced, named[unpriced][1]
        if options.delta is not None and "delta" in named:
            shares.deltas[named["delta"][1]] = options.delta
        if _PRICES & {*named}:
            shares.stated += Loss(options.epsilon, options.delta or Fraction(0))
        else:
            if "delta" in named:
                shares.stated += Loss(Fraction(0), options.delta or Fraction(0))
            shares.rewritten[self.spans.of(self.node)] = self._understood(call, named)

    def _understood(self, call: Call, named: Given) -> str:
        """Write a call with its share, by the name of its function."""
        given, options = self.node.expressions, call.options
        texts = [self.spans.text(one) for one in given if not self._is_option(one)]
        if isinstance(given[0], exp.Star):
            texts[0] = "*"  # of COUNT(), too
        if call.distinct:
            texts[0] = f"DISTINCT {texts[0].removeprefix('DISTINCT ')}"
        stated = {name: self.spans.source.snippet(span) for name, (_, span) in named.items()}
        stated.pop("weight", None)
        for name in self.rows.shares.given if self.rows.shares else ():
            if getattr(options, name) is not None:
                stated.setdefault(name, str(getattr(options, name)))
        if options.auto:
            stated.setdefault("bounds", "'auto'")
        if options.auto_rows:
            stated.setdefault("max_rows_contributed", "'auto'")
        stated["eps"] = share_text(options.epsilon)
        if options.delta is not None:
            stated.setdefault("delta", share_text(options.delta))
        texts += [f"{name}={value}" for name, value in stated.items()]
        return f"{call.function}({', '.join(texts)})"

    def _require_price(self, named: Given) -> None:
        """Require eps, or instead of it rho or an error."""
        asked = [name for name in named if name in _PRICES]
        if "weight" in named and asked:
            title, span = f"{asked[0]} and weight are both given", named["weight"][1]
            why = f"a weight shares the statement's epsilon; {asked[0]} says what the call has."
            remedy = self._without(span)
            raise refusal("DPQ209", title, span, f"beside {asked[0]}", why, remedy)
        if len(asked) > 1:
            first, other = sorted(asked, key=lambda name: name != "eps")
            title, span = f"{first} and {other} are both given", named[other][1]
            why = "each of them says how much the call may spend."
            remedy = self._without(span)
            raise refusal("DPQ209", title, span, f"in place of {first}", why, remedy)
        if not asked:
            price = self.function.price if "delta" not in named else "eps=0.5"
            remedy = f"{self.spans.text(self.node)[:-1]}, {price})"
            self._missing("eps", "eps is missing", remedy)

    def _require_error(self, named: Given) -> None:
        """Require beside an error what it depends on, and nothing of it without an error."""
        taken = [one.name for one in ERRORS if one in self.function.parameters]
        asked = next((name for name in taken if name in named), None)
        for name in (CONFIDENCE.name, OVER.name):
            if asked is None and name in named:
                title, span = f"{name} goes with {taken[0]}", named[name][1]
                why = f"it says how {taken[0]} is meant; where eps is stated, that decides."
                remedy = self._without(span)
                raise refusal("DPQ206", title, span, "of no error", why, remedy)
        if asked is None or OVER not in self.function.parameters or OVER.name in named:
            return
        title = f"{self.function.name} needs over beside {asked}"
        reasons = (
            "the more rows, the less noise moves this; how many there are is private.",
            "over=1000 says for how many rows the error has to hold, and more have less.",
        )
        remedy = f"{self.spans.text(self.node)[:-1]}, {OVER.name}=1000)"
        count = "or first ask DP_COUNT(*, error=50), and say what it answers"
        span, label = named[asked][1], "over how many rows?"
        raise refusal("DPQ206", title, span, label, reasons, (remedy, count))

    def is_distinct(self, first: exp.Expr) -> bool:
        """Read DISTINCT before what is counted: the unit column, or one other expression."""
        if not isinstance(first, exp.Distinct):
            return False
        counted = [one for one in first.expressions if one and type(one) is not exp.Star]
        if self.function.first.distinct and len(counted) == 1:
            return True
        first_column = written_name(next(iter(self.rows.scope.table.columns)))
        written = self.spans.text(counted[0]) if counted else first_column
        title = "DISTINCT is answered for counts, sums, means and spreads of one expression"
        why = "what is left after it has no bound that the noise could be scaled to."
        remedy, label = f"DP_COUNT(DISTINCT {written}, eps=0.5)", "not of this"
        if not self.function.first.distinct:
            label = f"{self.function.name} has no DISTINCT"
            call = self.spans.text(self.node)
            remedy = re.sub(r"(?i)\bDISTINCT\s+", "", call, count=1)
        raise refusal("DPQ404", title, self.spans.of(first), label, why, remedy)

    def counts_units(self, counted: exp.Expr) -> bool:
        """Return whether the privacy units are what is counted."""
        inner = unwrapped(counted)
        if isinstance(inner, exp.Column):
            self.rows.scope.check_qualifier(inner, self.spans.of(inner))
        return self.rows.scope.owns(inner)

    def settings(
        self, positional: Sequence[exp.Expr]
    ) -> tuple[Fraction | tuple[Fraction, ...] | None, int | None]:
        """Read which quantiles, or which number, a call is for."""
        order = number = None
        for one, node in zip(self.positional, positional, strict=True):
            if isinstance(one, Share):
                order = self._orders.read(positional[0], node)
            elif isinstance(one, Number):
                name, remedy = f"the {one.name}", str(one.example)
                limits, span = (Fraction(one.least), Fraction(one.most)), self.spans.of(node)
                value = unwrapped(node)
                number = int(read_whole_between(name, value, span, limits, remedy))
            elif isinstance(one, Points) and one.counted and is_number(unwrapped(node)):
                name, span = f"the number of {one.noun}", self.spans.of(node)
                limits = Fraction(2), Fraction(one.most)
                number = int(read_whole_between(name, unwrapped(node), span, limits, "10"))
        return order, number

    def inputs(
        self, positional: Sequence[exp.Expr], condition: Expr | None
    ) -> tuple[Input, ...]:
        """Bind what is asked about; none stands for all rows."""
        found = []
        for about, node in zip(self.positional, positional, strict=True):
            if not isinstance(about, Expression):
                continue
            if isinstance(node, exp.Star) and about.star:
                return ()
            mended = partial(self._with, self.spans.of(node))
            several = about.listed and listed_in(self.function, about, self.rows, node, mended)
            for one in several or [node]:
                expr = self._argument(about, one)
                implied = self.rows.implied(expr, condition)
                public = about.takes is Takes.LISTED
                values = self.rows.listed(expr, condition) if public else ()
                found.append(Input(expr, self.spans.of(one), implied, values))
        return tuple(found)

    def points(self, positional: Sequence[exp.Expr]) -> tuple[Expr, ...]:
        """Bind whether a row is at or below each of the values that are listed."""
        for one, node in zip(self.positional, positional, strict=True):
            if isinstance(one, Points) and not (one.counted and is_number(unwrapped(node))):
                mended = partial(self._with, self.spans.of(node))
                return bind_points(
                    self.function.name, one, self.rows, positional[0], node, mended
                )
        return ()

    def _argument(self, about: Expression, node: exp.Expr) -> Expr:
        name = self.function.name
        if isinstance(node, exp.Star):
            title, label = f"{name} needs a column, not *", "whole rows have no value"
            several = len(self.function.expressions) > 1
            values = "values, each of an" if several else "the values of one"
            why = f"{name} is computed from {values} expression."
            remedy = sample_call(self.function, self.rows.scope.table)
            raise refusal("DPQ208", title, self.spans.of(node), label, why, remedy)
        if is_call(node):
            title = f"{name} cannot be asked about another DP_ function"
            label, remedy = "a DP_ function inside a DP_ function", self.spans.text(node)
            why = "what is released already has no rows to count."
            raise refusal("DPQ303", title, self.spans.of(node), label, why, remedy)
        argument = self.rows.bind(node)
        if self.function.gives is Gives.SUM and argument.type.kind is Kind.BOOLEAN:
            argument = rowfunctions.apply(argument.span, "TO_INTEGER", argument)
        if not fits(about.takes, argument.type):
            written = self.spans.source.snippet(argument.span)
            remedy = other_call(argument, written)
            if about.takes is Takes.CONDITION:
                remedy = f"{name}({written} IS NOT NULL, eps=0.5)"
            label = f"{with_article(argument.type)} here"
            title, texts = f"{name} needs a {about.takes}", argument.type.kind is Kind.TEXT
            ordered = (_PLACES_OF_TEXTS,) if texts and about.takes is Takes.ORDERED else ()
            if ordered and isinstance(argument, ColumnRef) and argument.keys:
                remedy = f"DP_MODE({written}, eps=0.5)"  # MAX gives one that stands for all
            mismatch(argument.span, title, label, remedy, *ordered)
        return argument
