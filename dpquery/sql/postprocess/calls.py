"""Binds functions of values: those called by a name, CASE, and what moves a date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpquery.core.source import Span
from dpquery.core.types import NUMERIC, Kind
from dpquery.errors import QueryRefused, refusal
from dpquery.rowfunctions.dates import PART_NAMES, UNIT_NAMES
from dpquery.sql.bind.typed import called, miscounted, read_interval, word_of
from dpquery.sql.parse.literals import read_literal, unwrapped
from dpquery.sql.parse.spans import outside
from dpquery.sql.postprocess.functions import (
    AGGREGATES,
    BY_NAME,
    KINDS,
    ONLY_WINDOWS,
    PATTERNED,
    SPECIAL,
    Aggregate,
    Function,
    window_name,
)
from dpquery.sql.postprocess.values import (
    LONGEST_NUMBER,
    TEXTUAL,
    Value,
    condition,
    direction,
    in_calendar,
    made,
    text,
    widest,
)
from dpquery.sql.suggest.constructs import refuse_construct
from dpquery.sql.suggest.queries import mismatch

if TYPE_CHECKING:
    from dpquery.sql.postprocess.expressions import Expressions
    from dpquery.sql.postprocess.stages import Base


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
            case exp.Extract():
                return self._part(node.this.name, self.spans.of(node.this), node.expression)
            case exp.If():
                met, then = self._of.truth(node.this), node.args["true"]
                return self._chosen([met], [then], node.args.get("false"))
        name, arguments = called(node)
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
            case "IFF", [condition, one, other]:
                return self._chosen([self._of.truth(condition)], [one], other)
            case "DATE_ADD", [moment, step]:
                interval = unwrapped(step)
                if isinstance(interval, exp.Interval):
                    return self.moved(moment, interval, "+")
        if name in SPECIAL and name != "DATE_ADD":
            raise self._miscounted(name, span)
        return None

    def _called(self, function: Function, arguments: Sequence[exp.Expr], span: Span) -> Value:
        letters = function.letters(len(arguments))
        if letters is None:
            raise self._miscounted(function.name, span)
        values = (
            self._of.alike(arguments)
            if function.gives == "alike"
            else [self._of.value(argument) for argument in arguments]
        )
        for letter, value, argument in zip(letters, values, arguments, strict=True):
            what, kinds = KINDS[letter]
            if value.kind is not None and value.kind not in kinds:
                title, label = f"{function.name} needs {what}", f"a {value.kind} here"
                mismatch(self.spans.of(argument), title, label, _SAMPLES[letter])
            if letter == "l" and value.constant is None:
                self._not_literal(function.name, "how it is written", argument, "'%Y-%m'")
        if function.name in PATTERNED:
            self._of.require_pattern(values[1], arguments[1])
        kind = function.gives if isinstance(function.gives, Kind) else _one_kind(values)
        kind = values[0].kind if function.gives == "first" else kind
        template = function.template(len(arguments))
        lengths = [value.longest for value in values] or [0]
        longest = function.longest(lengths)
        grows = longest if longest > max(lengths) else None
        return made(template, *values, kind=kind, repeats=function.repeats, longest=grows)

    def _round(self, node: exp.Expr, places: exp.Expr | None = None) -> Value:
        number = self._of.needed(node, NUMERIC, "a number", "ROUND(1.5)")
        if places is None:
            return made("round({0})", number, kind=number.kind)
        found = read_literal(unwrapped(places), self.spans.of(places))
        digits = found.value if found is not None else None
        if not isinstance(digits, int):
            self._not_literal("ROUND", "how many places are kept", places, "ROUND(1.25, 1)")
        places_kept = max(-400, min(400, digits))
        return made(f"round({{0}}, {places_kept})", number, kind=number.kind)

    def _not_literal(self, name: str, what: str, node: exp.Expr, remedy: str) -> NoReturn:
        raise refusal(
            "DPQ207",
            f"{name} needs a literal here",
            self.spans.of(node),
            "not a literal",
            f"{what} is known before anything is computed.",
            remedy,
        )

    def _moment(self, node: exp.Expr) -> Value:
        moments, remedy = KINDS["m"][1], f"CAST({self.spans.text(node)} AS DATE)"
        return self._of.needed(node, moments, "a date or a timestamp", remedy)

    def _unit(self, node: exp.Expr) -> str:
        return word_of(_word(node), self.spans.of(node), UNIT_NAMES)

    def _part(self, word: str, span: Span, node: exp.Expr) -> Value:
        name = word_of(word, span, PART_NAMES)
        return made(f"{name}({{0}})", self._moment(node), kind=Kind.INTEGER)

    def moved(self, node: exp.Expr, interval: exp.Interval, operator: str) -> Value:
        """Add an INTERVAL to a moment, or take it away; a date stays a date."""
        moment = self._moment(node)
        number, word = read_interval(interval, self.spans.of(interval))
        step = f"({{0}} {operator} INTERVAL ({number}) {word})"
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
        return self._chosen(conditions, results, node.args.get("default"))

    def _chosen(
        self, conditions: list[Value], results: list[exp.Expr], otherwise: exp.Expr | None
    ) -> Value:
        """Bind a choice: the value of the first condition that is true."""
        values = self._of.alike([*results, *([] if otherwise is None else [otherwise])])
        count = len(conditions)
        arms = [f"WHEN {{{i}}} THEN {{{count + i}}}" for i in range(count)]
        last = f" ELSE {{{2 * count}}}" if otherwise is not None else ""
        template = f"CASE {' '.join(arms)}{last} END"
        return made(template, *conditions, *values, kind=_one_kind(values))

    def _miscounted(self, name: str, span: Span) -> QueryRefused:
        letters = BY_NAME[name].takes if name in BY_NAME else ""
        takes = [KINDS[letter][0] for letter in letters]
        listed = takes or ["what `dpquery explain functions` says"]
        return miscounted(name, listed, span, _EXAMPLES.get(name, "ABS(-1)"))

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
        raise outside(word, span, "not understood", "ABS(-1)")


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
    """Return the kind that values have in common; of numbers, the widest; NULL has any."""
    known = [value for value in values if value.sql != "NULL"]
    if not known or any(value.kind is None for value in known):
        return None
    return widest(*known) if known[0].numeric else known[0].kind


def _word(node: exp.Expr) -> str:
    inner = unwrapped(node)
    return (
        str(inner.name or "") if isinstance(inner, exp.Literal | exp.Column | exp.Var) else ""
    )


# Writes calls of aggregates and of window functions, over the rows they are about.


MOST = 10**9
_ENDS = {"PRECEDING", "FOLLOWING"}


def aggregated(place: Base, aggregate: Aggregate, node: exp.Expr, sets: int) -> Value:
    """Write an aggregate.

    Args:
        place: the rows that it is about.
        aggregate: what is called.
        node: the call.
        sets: how many of its values each row is in; 0 where each row has a value of its own.

    Raises:
        NameRefused: DPQ206 another number of arguments, DPQ208 another type.
    """
    call, kept = (node.this, node.expression) if isinstance(node, exp.Filter) else (node, None)
    distinct, order, arguments = _arguments(call)
    if aggregate.name == "COUNT" and isinstance(arguments[0] if arguments else None, exp.Star):
        arguments = []
    values = _bound(place, aggregate, arguments, call)
    written = [
        aggregate.argument(value) if letter not in "scl" else value.sql
        for value, letter in zip(values, aggregate.takes, strict=False)
    ]
    listed = ("DISTINCT " if distinct else "") + ", ".join(written)
    if aggregate.name == "COUNT" and not values:
        listed = "*"
    if order is not None:
        listed += " " + ordered_text(place, order)
    called = f"{aggregate.engine}({listed})"
    if kept is not None:
        called += f" FILTER (WHERE {condition(place.truth(kept.this))})"
    kind = aggregate.kind(values)
    narrow = kind is Kind.INTEGER or (aggregate.gives is None and all(v.narrow for v in values))
    sql = aggregate.whole(called, values)
    longest, grown = _lengths(aggregate, values, place.most, sets)
    return Value(sql, kind, safe=True, narrow=narrow, longest=longest, grown=grown)


def _lengths(
    aggregate: Aggregate, values: Sequence[Value], rows: int, sets: int
) -> tuple[int, int | None]:
    """Return how long a value is, and what all of them are: texts together, or one of them."""
    if aggregate.kind(list(values)) not in TEXTUAL:
        return LONGEST_NUMBER, 0
    if aggregate.gives is Kind.TEXT:
        longest = rows * (values[0].longest + sum(v.longest for v in values[1:]) + 1)
        return longest, longest * sets or None
    longest = max((value.longest for value in values), default=0)
    return longest, 0 if all(value.grown == 0 for value in values) else None


def _arguments(call: exp.Expr) -> tuple[bool, exp.Order | None, list[exp.Expr]]:
    """Part the arguments of a call from DISTINCT and ORDER BY."""
    if isinstance(call, exp.Anonymous):
        arguments = list(call.expressions)
    else:
        slots = (call.args.get(slot) for slot in ("this", "offset", "default"))
        arguments = [one for one in slots if isinstance(one, exp.Expr)]
    order = None
    if arguments and isinstance(arguments[-1], exp.Order):
        order = arguments[-1]
        arguments[-1] = order.this
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments[0] = arguments[0].expressions[0]
    return distinct, order, arguments


def _bound(
    place: Base, aggregate: Aggregate, arguments: list[exp.Expr], call: exp.Expr
) -> list[Value]:
    """Bind the arguments, and hold each against what the function takes."""
    most = len(aggregate.takes)
    if not most - aggregate.optional <= len(arguments) <= most:
        takes = [_WHAT.get(letter) or KINDS[letter][0] for letter in aggregate.takes]
        raise miscounted(aggregate.name, takes, place.spans.of(call), "COUNT(*)")
    values = []
    for letter, argument in zip(aggregate.takes, arguments, strict=False):
        if letter in "scl":
            values.append(_literal(place, aggregate, letter, argument))
            continue
        value = place.value(argument)
        what, kinds = KINDS[letter]
        if value.kind is not None and value.kind not in kinds:
            title = f"{aggregate.name} needs {what}"
            remedy = f"COUNT({place.spans.text(argument)})"
            mismatch(place.spans.of(argument), title, f"a {value.kind} here", remedy)
        values.append(value)
    if aggregate.name in {"LAG", "LEAD"} and len(values) > 2:
        values[2] = _default(place, values[0], values[2], arguments[2])
    return values


def _default(place: Base, first: Value, default: Value, node: exp.Expr) -> Value:
    """Hold a default against the values beside it: it is converted to their type."""
    alike = first.kind is default.kind not in {None, Kind.DECIMAL} or default.sql == "NULL"
    whole = default.kind is Kind.INTEGER and default.constant is not None
    short = whole and len(default.sql) <= 9  # 1e300 would be as short
    if alike and default.kind is Kind.INTEGER:
        return replace(default, sql=f"TRY_CAST({default.total} AS BIGINT)", safe=True)
    if not alike and not (short and first.numeric):
        what = "value" if first.kind is None else str(first.kind)
        title, label = f"the default has to be a {what}", f"a {default.kind}"
        mismatch(place.spans.of(node), title, label, "NULL")
    return default


_WHAT = {
    "s": "a literal from 0 to 1",
    "c": "a literal whole number",
    "l": "a literal text",
}


def _literal(place: Base, aggregate: Aggregate, letter: str, node: exp.Expr) -> Value:
    """Read a share or a count, which have to be literals: others could raise."""
    inner, span = unwrapped(node), place.spans.of(node)
    found = read_literal(inner, span)
    number = None if found is None or isinstance(found.value, bool) else found.value
    if letter == "s":
        fits = isinstance(number, int | Fraction) and 0 <= number <= 1
    else:
        least = -MOST if aggregate.name in {"LAG", "LEAD"} else 1
        fits = isinstance(number, int) and least <= number <= MOST
    if letter == "l" and isinstance(number, str):
        return Value(text(number), Kind.TEXT, safe=True, longest=len(number))
    if not fits or letter == "l":
        raise refusal(
            "DPQ207",
            f"{aggregate.name} needs {_WHAT[letter]} here",
            span,
            "not such a literal",
            "it is read from the text before anything is computed.",
            {"s": "0.5", "c": "1"}.get(letter, "', '"),
        )
    written = str(inner.this) if not isinstance(inner, exp.Neg) else f"-{inner.this.this}"
    return Value(written, Kind.INTEGER, safe=True)


def ordered_text(place: Base, order: exp.Order) -> str:
    """Write ORDER BY inside a call."""
    keys = (place.value(item.this).total + direction(item) for item in order.expressions)
    return "ORDER BY " + ", ".join(keys)


def windowed(place: Base, node: exp.Window) -> Value:
    """Write a window function."""
    call = node.this.this if isinstance(node.this, exp.Filter) else node.this
    name = window_name(call)
    if name is None:
        span = place.spans.of(node)
        remedy = "row_number() OVER ()"
        raise outside("a window over this", span, "no window function", remedy)
    function = ONLY_WINDOWS.get(name) or AGGREGATES[name]
    found = aggregated(place, function, node.this, 0)
    parts = []
    partition = node.args.get("partition_by") or []
    if partition:
        listed = ", ".join(place.value(part).total for part in partition)
        parts.append(f"PARTITION BY {listed}")
    order = node.args.get("order")
    if order is not None:
        parts.append(ordered_text(place, order))
    if node.args.get("spec") is not None:
        parts.append(_frame(place, node.args["spec"]))
    over = f"OVER ({' '.join(parts)})"
    if found.sql.startswith("TRY_CAST("):  # the conversion of a sum stands around the whole
        whole = found.sql.removesuffix(" AS BIGINT)") + f" {over} AS BIGINT)"
        return replace(found, sql=whole)
    return replace(found, sql=f"{found.sql} {over}")


def _frame(place: Base, spec: exp.WindowSpec) -> str:
    """Write a frame: its ends are fixed, or a literal number of rows away."""
    kind = str(spec.args.get("kind") or "").upper()
    low = _end(place, spec, "start", kind)
    if spec.args.get("end") is None:
        return f"{kind} {low}"
    return f"{kind} BETWEEN {low} AND {_end(place, spec, 'end', kind)}"


def _end(place: Base, spec: exp.WindowSpec, slot: str, kind: str) -> str:
    end, side = spec.args.get(slot), str(spec.args.get(f"{slot}_side") or "").upper()
    if end == "CURRENT ROW":
        return "CURRENT ROW"
    if end == "UNBOUNDED" and side in _ENDS:
        return f"UNBOUNDED {side}"
    if isinstance(end, exp.Literal) and not end.is_string and side in _ENDS and kind != "RANGE":
        digits = str(end.this)
        if digits.isdigit() and len(digits) <= 9:
            return f"{int(digits)} {side}"
    span = place.spans.of(end) if isinstance(end, exp.Expr) else place.spans.of(spec)
    remedy = "ROWS BETWEEN 6 PRECEDING AND CURRENT ROW"
    raise outside("this frame", span, "not a literal number of rows", remedy)


# GROUPING(a, b): which of some keys a row is not grouped by, a bit each, the last lowest.


MOST_KEYS = 62
"""Keys whose bits fit into a whole number."""


def asked_keys(place: Base, node: exp.Expr, keys: Sequence[str]) -> list[int]:
    """Return the places of the keys that GROUPING asks about.

    Args:
        place: where it stands.
        node: the call.
        keys: the text of each key, as it reads there.

    Raises:
        SyntaxRefused: DPQ102 it asks about something else, or about nothing.
    """
    if isinstance(node, exp.Filter) or not 1 <= len(node.expressions) <= MOST_KEYS:
        _refuse(place, node, node, "it takes groups, and nothing besides")
    found = []
    for asked in node.expressions:
        value = place.value(asked)
        if value.sql not in keys:
            _refuse(place, node, asked, "not in GROUP BY")
        found.append(keys.index(value.sql))
    return found


def _refuse(place: Base, node: exp.Expr, part: exp.Expr, label: str) -> NoReturn:
    text, select = place.spans.text(part), node.find_ancestor(exp.Select)
    group = None if select is None else select.args.get("group")
    key = None if group is None else group.find(exp.Column)
    remedy = "GROUP BY ROLLUP (...)" if key is None else f"GROUPING({place.spans.text(key)})"
    raise outside(f"GROUPING of {text}"[:60], place.spans.of(part), label, remedy)
