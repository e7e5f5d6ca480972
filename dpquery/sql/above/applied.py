"""Binds functions of values: those called by a name, CASE, and what moves a date."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, NameRefused, SyntaxRefused, nearest
from dpquery.rowfunctions.dates import PART_NAMES, UNIT_NAMES
from dpquery.source import Span
from dpquery.sql.above.functions import BY_NAME, KINDS, PATTERNED, Function
from dpquery.sql.above.values import Value, in_calendar, made, widest
from dpquery.sql.constructs import refuse_construct
from dpquery.sql.literals import read_literal, unwrapped
from dpquery.sql.mending import outside
from dpquery.sql.mismatches import mismatch
from dpquery.types import Kind

if TYPE_CHECKING:
    from dpquery.sql.above.expressions import Expressions

__all__ = ["Applied"]

MOST_UNITS = 10**6
_NODES: dict[type[exp.Expr], str] = {
    exp.Abs: "ABS",
    exp.Greatest: "GREATEST",
    exp.Least: "LEAST",
    exp.Coalesce: "COALESCE",
    exp.If: "IF",
}
_SUBDAY = frozenset({"hour", "minute", "second"})


class Applied:
    """Binds the functions in the expressions of one SELECT."""

    def __init__(self, expressions: Expressions) -> None:
        self._of = expressions
        self.spans = expressions.spans

    def value(self, node: exp.Expr, span: Span) -> Value:
        """Bind a function.

        Raises:
            NameRefused: DPQ202 an unknown one, DPQ203 or DPQ206 another number of arguments,
                DPQ205 or DPQ207 a word or number that is none, DPQ208 another type.
            SyntaxRefused: DPQ102 what is no function at all.
        """
        match node:
            case exp.Case():
                return self._case(node)
            case exp.Round():
                decimals = node.args.get("decimals")
                return self._round(node.this, *[decimals] * (decimals is not None))
            case exp.Extract():
                return self._part(node.this.name, self.spans.of(node.this), node.expression)
            case exp.If():
                slots = [node.this, node.args["true"], node.args.get("false") or exp.Null()]
                return self._called(BY_NAME["IF"], slots, span)
        name = _NODES.get(type(node)) or (
            str(node.this).upper() if isinstance(node, exp.Anonymous) else ""
        )
        arguments = list(
            node.expressions if isinstance(node, exp.Anonymous) else node.iter_expressions()
        )
        special = self._special(name, arguments, span)
        if special is not None:
            return special
        if name in BY_NAME:
            return self._called(BY_NAME[name], arguments, span)
        self._refuse(node, span)

    def _special(self, name: str, arguments: list[exp.Expr], span: Span) -> Value | None:
        """Bind a function that reads a word from the text; None of any other."""
        match name, arguments:
            case "ROUND", [_] | [_, _]:
                return self._round(*arguments)
            case "DATE_TRUNC" | "DATETRUNC", [unit, moment]:
                word = self._unit(unit)
                found = self._moment(moment)
                template = f"date_trunc('{word}', {{0}})"
                if found.kind is Kind.DATE and word not in _SUBDAY:
                    template = f"CAST({template} AS DATE)"
                return made(template, found, kind=found.kind)
            case "DATE_PART", [part, moment]:
                return self._part(_word(part), self.spans.of(part), moment)
            case "DATE_DIFF" | "DATEDIFF", [unit, one, other]:
                both = self._moment(one), self._moment(other)
                template = f"date_diff('{self._unit(unit)}', {{0}}, {{1}})"
                return made(template, *both, kind=Kind.INTEGER)
            case "DATE_ADD", [moment, step]:
                interval = unwrapped(step)
                if isinstance(interval, exp.Interval):
                    return self.moved(moment, interval, "+")
        if name in {"ROUND", "DATE_TRUNC", "DATETRUNC", "DATE_PART", "DATE_DIFF", "DATEDIFF"}:
            self._miscounted(name, span)
        return None

    def _called(self, function: Function, arguments: Sequence[exp.Expr], span: Span) -> Value:
        letters = function.letters(len(arguments))
        if letters is None:
            self._miscounted(function.name, span)
        values = (
            self._of.alike(arguments)
            if function.gives == "alike" and function.name != "IF"
            else [self._of.value(argument) for argument in arguments]
        )
        if function.name == "IF":
            values = [values[0], *self._of.alike(arguments[1:])]
        for letter, value, argument in zip(letters, values, arguments, strict=True):
            what, kinds = KINDS[letter]
            if value.kind is not None and value.kind not in kinds:
                title, label = f"{function.name} needs {what}", f"a {value.kind} here"
                mismatch(self.spans.of(argument), title, label, _SAMPLES[letter])
            if letter == "l" and value.constant is None:
                self._not_literal(function.name, "how it is written", argument, "'%Y-%m'")
        if function.name in PATTERNED:
            self._of.require_pattern(values[1], arguments[1])
        kind = self._kind(function, values)
        template = function.template(len(arguments))
        longest = None
        if function.longest is not None:
            longest = function.longest([value.longest for value in values])
        return made(template, *values, kind=kind, repeats=function.repeats, longest=longest)

    def _kind(self, function: Function, values: Sequence[Value]) -> Kind | None:
        if isinstance(function.gives, Kind):
            return function.gives
        if function.gives == "first":
            return values[0].kind
        return _one_kind(values[1:] if function.name == "IF" else values)

    def _round(self, node: exp.Expr, places: exp.Expr | None = None) -> Value:
        number = self._of.value(node)
        if number.kind is not None and not number.numeric:
            title = "ROUND needs a number"
            mismatch(self.spans.of(node), title, f"a {number.kind} here", "ROUND(1.5)")
        if places is None:
            return made("round({0})", number, kind=number.kind)
        found = read_literal(unwrapped(places), self.spans.of(places))
        digits = found.value if found is not None else None
        if not isinstance(digits, int):
            self._not_literal("ROUND", "how many places are kept", places, "ROUND(1.25, 1)")
        places_kept = max(-400, min(400, digits))
        return made(f"round({{0}}, {places_kept})", number, kind=number.kind)

    def _not_literal(self, name: str, what: str, node: exp.Expr, remedy: str) -> NoReturn:
        raise NameRefused(
            Diagnostic(
                "DPQ207",
                f"{name} needs a literal here",
                self.spans.of(node),
                "not a literal",
                (f"{what} is known before anything is computed.",),
                (remedy,),
            )
        )

    def _moment(self, node: exp.Expr) -> Value:
        found = self._of.value(node)
        if found.kind not in {None, Kind.DATE, Kind.TIMESTAMP}:
            title = "a date or a timestamp is needed here"
            remedy = f"CAST({self.spans.text(node)} AS DATE)"
            mismatch(self.spans.of(node), title, f"a {found.kind}", remedy)
        return found

    def _unit(self, node: exp.Expr) -> str:
        word = UNIT_NAMES.get(_word(node).lower())
        if word is None:
            self._unknown_word(
                _word(node), self.spans.of(node), sorted(set(UNIT_NAMES.values()))
            )
        return word

    def _part(self, word: str, span: Span, node: exp.Expr) -> Value:
        name = PART_NAMES.get(word.lower())
        if name is None:
            self._unknown_word(word, span, sorted(PART_NAMES))
        return made(f"{name}({{0}})", self._moment(node), kind=Kind.INTEGER)

    def _unknown_word(self, word: str, span: Span, known: Sequence[str]) -> NoReturn:
        raise NameRefused(
            Diagnostic(
                "DPQ205",
                f"a moment has no part {word[:40]}",
                span,
                f"is it {nearest(word.lower(), known) or 'year'}?",
                (f"there are {', '.join(known)}.",),
                ("EXTRACT(year FROM DATE '2024-12-31')",),
            )
        )

    def moved(self, node: exp.Expr, interval: exp.Interval, operator: str) -> Value:
        """Add an INTERVAL to a moment, or take it away; a date stays a date."""
        moment = self._moment(node)
        number, unit = _interval(interval)
        word = UNIT_NAMES.get(unit.lower())
        whole = number.removeprefix("-").isdigit() and len(number) <= 7
        if word is None or not whole or abs(int(number)) > MOST_UNITS:
            self._unknown_word(unit or number, self.spans.of(interval), sorted(set(UNIT_NAMES)))
        step = f"({{0}} {operator} INTERVAL ({int(number)}) {word})"
        if moment.kind is Kind.DATE and word not in _SUBDAY:
            return made(in_calendar(f"CAST({step} AS DATE)"), moment, kind=Kind.DATE)
        return made(
            in_calendar(step), moment, kind=None if moment.kind is None else Kind.TIMESTAMP
        )

    def days(self, node: exp.Expr, left: Value, operator: str) -> Value:
        """Bind a date and a number of days, or the days between two dates."""
        right = self._of.value(node.expression)
        if left.kind is Kind.DATE and right.kind is Kind.DATE and operator == "-":
            return made("CAST(({0} - {1}) AS BIGINT)", left, right, kind=Kind.INTEGER)
        if left.kind is Kind.DATE and right.kind in {None, Kind.INTEGER}:
            template = in_calendar(f"({{0}} {operator} CAST({{1}} AS INTEGER))")
            return made(template, left, right, kind=Kind.DATE)
        title, label = "this cannot be added to a moment", f"a {right.kind} here"
        remedy = f"{self.spans.text(node.this)} {operator} INTERVAL 1 DAY"
        mismatch(self.spans.of(node.expression), title, label, remedy)

    def _case(self, node: exp.Case) -> Value:
        """Bind CASE; with a value after the word, each WHEN is compared with it."""
        conditions = []
        for branch in node.args["ifs"]:
            if node.this is None:
                conditions.append(self._of.truth(branch.this))
            else:
                conditions.append(self._of.compared("({0} = {1})", node.this, branch.this))
        results = [branch.args["true"] for branch in node.args["ifs"]]
        otherwise = node.args.get("default")
        if otherwise is not None:
            results.append(otherwise)
        values = self._of.alike(results)
        count = len(conditions)
        arms = [f"WHEN {{{i}}} THEN {{{count + i}}}" for i in range(count)]
        last = f" ELSE {{{2 * count}}}" if otherwise is not None else ""
        template = f"CASE {' '.join(arms)}{last} END"
        return made(template, *conditions, *values, kind=_one_kind(values))

    def _miscounted(self, name: str, span: Span) -> NoReturn:
        function = BY_NAME.get(name)
        takes = ", ".join(KINDS[letter][0] for letter in function.takes) if function else ""
        raise NameRefused(
            Diagnostic(
                "DPQ206",
                f"{name} does not take so many arguments",
                span,
                "another number of arguments",
                (f"it takes {takes or 'what grammar/functions.md says'}.",),
                (_EXAMPLES.get(name, "ABS(-1)"),),
            )
        )

    def _refuse(self, node: exp.Expr, span: Span) -> NoReturn:
        call = node.this if isinstance(node, exp.Filter) else node
        if isinstance(call, exp.AggFunc) or (
            isinstance(call, exp.Func)
            and not isinstance(call, exp.Case | exp.Connector)
            and self.spans.written_as_call(call)
        ):
            name = self.spans.source.snippet(self.spans.name(call))
            self._of.refuse_function(call, name.upper())
        if isinstance(node, exp.Interval):
            refuse_construct(self.spans.source, node, self.spans)
        word = self.spans.source.snippet(span)[:40]
        raise SyntaxRefused(outside(word, span, "not understood", "ABS(-1)"))


_SAMPLES = {
    "n": "1", "i": "1", "t": "'a'", "b": "TRUE", "m": "DATE '2024-12-31'", "a": "1",
    "l": "'%Y-%m'",
}  # fmt: skip
_EXAMPLES = {
    "ROUND": "ROUND(1.25, 1)",
    "DATE_TRUNC": "DATE_TRUNC('month', DATE '2024-12-31')",
    "DATE_PART": "DATE_PART('month', DATE '2024-12-31')",
    "DATE_DIFF": "DATE_DIFF('day', DATE '2024-12-01', DATE '2024-12-31')",
}


def _one_kind(values: Sequence[Value]) -> Kind | None:
    """Give the kind that values have in common; of numbers, the widest; NULL has any."""
    known = [value for value in values if value.sql != "NULL"]
    if not known or any(value.kind is None for value in known):
        return None
    return widest(*known) if known[0].numeric else known[0].kind


def _word(node: exp.Expr) -> str:
    inner = unwrapped(node)
    return (
        str(inner.name or "") if isinstance(inner, exp.Literal | exp.Column | exp.Var) else ""
    )


def _interval(node: exp.Interval) -> tuple[str, str]:
    """Give the number and the unit of INTERVAL 3 DAY, INTERVAL '3' DAY or INTERVAL '3 days'."""
    number, unit = node.this, node.args.get("unit")
    text = str(number.this) if isinstance(number, exp.Literal) else ""
    if unit is not None:
        return text.strip(), str(unit.name)
    count, _, word = text.strip().partition(" ")
    return count, word.strip()
