"""Binds calls above the frontier: functions of values, CASE, aggregates and windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.core.time_zones import known
from dpquery.core.types import NUMERIC, Kind
from dpquery.errors import QueryRefused, advice, refusal
from dpquery.rowfunctions.dates import PART_NAMES, UNIT_NAMES
from dpquery.sql.bind.rows.typed_expressions import called, miscounted, read_interval, word_of
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
    READ_BEFORE,
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
_EXAMPLES = {
    "ROUND": "ROUND(1.25, 1)",
    "DATE_TRUNC": "DATE_TRUNC('month', DATE '2024-12-31')",
    "DATE_PART": "DATE_PART('month', DATE '2024-12-31')",
    "DATE_DIFF": "DATE_DIFF('day', DATE '2024-12-01', DATE '2024-12-31')",
}


def applied(place: Expressions, node: exp.Expr, span: Span) -> Value:
    """Bind a function.

    Raises:
        NameRefused: DPQ202 an unknown one, DPQ203 or DPQ206 another number of arguments,
            DPQ205 or DPQ207 a word or number that is none, DPQ208 another type.
        SyntaxRefused: DPQ102 what is no function at all.
    """
    match node:
        case exp.Case():
            return _case(place, node)
        case exp.Extract():
            return _part(place, node.this.name, node.this, node.expression)
        case exp.AtTimeZone():
            return _at_time_zone(place, node)
        case exp.If():
            met, otherwise = place.truth(node.this), node.args.get("false")
            return _chosen(place, [met], [node.args["true"]], otherwise)
    name, arguments = called(node)
    special = _special(place, name, arguments)
    if special is not None:
        return special
    if name in SPECIAL and name != "DATE_ADD":
        raise _miscounted(name, span)
    if name in BY_NAME:
        return _called(place, BY_NAME[name], arguments, span)
    _refuse(place, node, span)


def _special(place: Expressions, name: str, arguments: list[exp.Expr]) -> Value | None:
    """Bind a function that reads a word from the text; None of any other."""
    match name, arguments:
        case "ROUND", [number]:
            found = place.needed(number, NUMERIC, "a number", "ROUND(1.5)")
            return made("round({0})", found, kind=found.kind)
        case "ROUND", [number, places]:
            return _round(place, number, places)
        case "DATE_TRUNC" | "DATETRUNC", [unit, moment]:
            word, found = _unit(place, unit), _moment(place, moment)
            found = _by_clock(found, word)
            template = f"date_trunc('{word}', {{0}})"
            if found.kind is Kind.DATE and word not in _SUBDAY:
                template = f"CAST({template} AS DATE)"
            return made(template, found, kind=found.kind)
        case "DATE_PART", [part, moment]:
            return _part(place, _word(part), part, moment)
        case "DATE_DIFF" | "DATEDIFF", [unit, one, other]:
            both = _moment(place, one), _moment(place, other)
            template = f"date_diff('{_unit(place, unit)}', {{0}}, {{1}})"
            return made(template, *both, kind=Kind.INTEGER)
        case "DATE_ADD", [moment, step]:
            interval = unwrapped(step)
            if isinstance(interval, exp.Interval):
                return moved(place, moment, interval, "+")
    return _of_list(place, name, arguments)


def _called(
    place: Expressions, function: Function, arguments: Sequence[exp.Expr], span: Span
) -> Value:
    letters = function.letters(len(arguments))
    if letters is None:
        raise _miscounted(function.name, span)
    alike = function.gives == "alike"
    values = place.alike(arguments) if alike else [place.value(one) for one in arguments]
    for letter, value, argument in zip(letters, values, arguments, strict=True):
        _require_kind(place, function.name, letter, value, argument, KINDS[letter][2])
        if letter == "l" and value.constant is None:
            what = "how it is written"
            raise _not_literal(place, function.name, what, argument, KINDS[letter][2])
    if function.name in PATTERNED:
        place.require_pattern(values[1], arguments[1])
    kind = function.gives if isinstance(function.gives, Kind) else _one_kind(values)
    kind = values[0].kind if function.gives == "first" else kind
    lengths = [value.longest for value in values] or [0]
    longest = function.longest(lengths)
    grows = longest if longest > max(lengths) else None
    template = function.template(len(arguments))
    return made(template, *values, kind=kind, repeats=function.repeats, longest=grows)


def _require_kind(
    place: Expressions, name: str, letter: str, value: Value, node: exp.Expr, remedy: str
) -> None:
    what, kinds, _ = KINDS[letter]
    if value.kind is not None and value.kind not in kinds:
        title, label = f"{name} needs {what}", f"a {value.kind} here"
        mismatch(place.spans.of(node), title, label, remedy)


def _miscounted(name: str, span: Span) -> QueryRefused:
    takes = [KINDS[letter][0] for letter in BY_NAME[name].takes] if name in BY_NAME else []
    listed = takes or ["what `dpquery explain functions` says"]
    return miscounted(name, listed, span, _EXAMPLES.get(name, "ABS(-1)"))


def _not_literal(
    place: Expressions, name: str, what: str, node: exp.Expr, remedy: str
) -> QueryRefused:
    title, span = f"{name} needs a literal here", place.spans.of(node)
    why = f"{what} is known before anything is computed."
    return refusal("DPQ207", title, span, "not a literal", why, remedy)


def _refuse(place: Expressions, node: exp.Expr, span: Span) -> NoReturn:
    call, source = node.this if isinstance(node, exp.Filter) else node, place.spans.source
    function = isinstance(call, exp.Func) and not isinstance(call, exp.Case | exp.Connector)
    if isinstance(call, exp.AggFunc) or (function and place.spans.written_as_call(call)):
        place.refuse_function(call, source.snippet(place.spans.name(call)).upper())
    if isinstance(node, exp.Interval):
        refuse_construct(source, node, place.spans)
    raise outside(source.snippet(span)[:40], span, "not understood", "ABS(-1)")


def _round(place: Expressions, node: exp.Expr, places: exp.Expr) -> Value:
    number = place.needed(node, NUMERIC, "a number", "ROUND(1.5)")
    found = read_literal(unwrapped(places), place.spans.of(places))
    digits = found.value if found is not None else None
    if not isinstance(digits, int):
        what, remedy = "how many places are kept", _EXAMPLES["ROUND"]
        raise _not_literal(place, "ROUND", what, places, remedy)
    return made(f"round({{0}}, {max(-400, min(400, digits))})", number, kind=number.kind)


def _moment(place: Expressions, node: exp.Expr) -> Value:
    timed = place.value(node).kind is Kind.TIME  # which is of no day
    remedy = KINDS["m"][2] if timed else f"CAST({place.spans.text(node)} AS DATE)"
    return place.needed(node, KINDS["m"][1], "a date or a timestamp", remedy)


def _unit(place: Expressions, node: exp.Expr) -> str:
    return word_of(_word(node), place.spans.of(node), UNIT_NAMES)


def _word(node: exp.Expr) -> str:
    inner = unwrapped(node)
    named = isinstance(inner, exp.Literal | exp.Column | exp.Var)
    return str(inner.name or "") if named else ""


def _part(place: Expressions, word: str, at: exp.Expr, node: exp.Expr) -> Value:
    name = word_of(word, place.spans.of(at), PART_NAMES)
    timed = name in _SUBDAY and place.value(node).kind is Kind.TIME
    found = place.value(node) if timed else _moment(place, node)
    return made(f"{name}({{0}})", found, kind=Kind.INTEGER)


def _by_clock(moment: Value, word: str) -> Value:
    """Return local time in place of an instant, for what has days: rows have it so."""
    if moment.kind is Kind.TIMESTAMPTZ and word not in _SUBDAY:
        return made("CAST({0} AS TIMESTAMP)", moment, kind=Kind.TIMESTAMP)
    return moment


def _at_time_zone(place: Expressions, node: exp.AtTimeZone) -> Value:
    """Bind `x AT TIME ZONE 'Europe/Paris'`: of an instant the local time, and the reverse."""
    zone, moment = unwrapped(node.args["zone"]), _moment(place, node.this)
    named = str(zone.this) if isinstance(zone, exp.Literal) and zone.is_string else ""
    if not known(named):
        at, title = place.spans.of(zone), "this is not the name of a time zone"
        why = "a time zone is named by a literal text, as in the policy."
        remedy = f"{place.spans.text(node.this)} AT TIME ZONE 'Europe/Berlin'"
        raise refusal("DPQ205", title, at, "not a time zone", why, remedy)
    zoned = moment.kind is Kind.TIMESTAMPTZ
    template = f"timezone('{named}', {{0}})"
    if moment.kind is Kind.DATE:
        template = template.format("CAST({0} AS TIMESTAMP)")
    return made(template, moment, kind=Kind.TIMESTAMP if zoned else Kind.TIMESTAMPTZ)


def moved(place: Expressions, node: exp.Expr, interval: exp.Interval, operator: str) -> Value:
    """Add an INTERVAL to a moment, or take it away; a date stays a date."""
    number, word = read_interval(interval, place.spans.of(interval))
    moment = _by_clock(_moment(place, node), word)
    step = f"({{0}} {operator} INTERVAL ({number}) {word})"
    if moment.kind is Kind.DATE and word not in _SUBDAY:
        return made(in_calendar(f"CAST({step} AS DATE)"), moment, kind=Kind.DATE)
    zoned = moment.kind is Kind.TIMESTAMPTZ
    kind = None if moment.kind is None else moment.kind if zoned else Kind.TIMESTAMP
    return made(in_calendar(step), moment, kind=kind)


def days(place: Expressions, node: exp.Expr, left: Value, operator: str) -> Value:
    """Bind a date and a number of days, or the days between two dates."""
    right = place.value(node.expression)
    if left.kind is Kind.DATE and right.kind is Kind.DATE and operator == "-":
        return made("CAST(({0} - {1}) AS BIGINT)", left, right, kind=Kind.INTEGER)
    if left.kind is Kind.DATE and right.kind in {None, Kind.INTEGER}:
        template = in_calendar(f"({{0}} {operator} CAST({{1}} AS INTEGER))")
        return made(template, left, right, kind=Kind.DATE)
    title, label = "this cannot be added to a moment", f"a {right.kind} here"
    remedy = f"{place.spans.text(node.this)} {operator} INTERVAL 1 DAY"
    mismatch(place.spans.of(node.expression), title, label, remedy)


def _of_list(place: Expressions, name: str, arguments: list[exp.Expr]) -> Value | None:
    """Bind a function of a list; None of any other."""
    match name, arguments:
        case "LIST_EXTRACT" | "LIST_ELEMENT" | "ARRAY_EXTRACT", [listed, at]:
            return _element(place, listed, at)
        case "LIST_SLICE" | "ARRAY_SLICE", [listed, low, high]:
            return _sliced(place, listed, low, high)
        case "ARRAY_LENGTH", [listed]:
            return made("len({0})", _list(place, listed), kind=Kind.INTEGER)
    return None


def indexed(place: Expressions, node: exp.Bracket) -> Value:
    """Bind what brackets take of a list: an element, or the part between two places."""
    (at,) = node.expressions
    if isinstance(at, exp.Slice):
        return _sliced(place, node.this, at.this or None, at.args.get("expression"))
    return _element(place, node.this, at)


def _element(place: Expressions, node: exp.Expr, at: exp.Expr) -> Value:
    """Bind an element of a list by its place, from 1 or back from -1; NULL where none is."""
    return made("({0})[{1}]", _list(place, node), _place(place, at), kind=None)


def _sliced(
    place: Expressions, node: exp.Expr, low: exp.Expr | None, high: exp.Expr | None
) -> Value:
    """Bind the part of a list between two places, both included; without one, to that end."""
    ends = [_place(place, one) for one in (low, high) if one is not None]
    first, last = "{1}" * (low is not None), f"{{{len(ends)}}}" * (high is not None)
    return made(f"({{0}})[{first}:{last}]", _list(place, node), *ends, kind=None)


def _list(place: Expressions, node: exp.Expr) -> Value:
    """Bind a list, which has no kind with a name."""
    found = place.value(node)
    if found.kind is not None:
        remedy, label = place.spans.text(node), f"a {found.kind}"
        mismatch(place.spans.of(node), "a list is needed here", label, remedy)
    return found


def _place(place: Expressions, node: exp.Expr) -> Value:
    at = place.needed(node, {Kind.INTEGER}, "a whole number", "1")
    return made("TRY_CAST({0} AS BIGINT)", at, kind=Kind.INTEGER)


def _case(place: Expressions, node: exp.Case) -> Value:
    """Bind CASE; with a value after the word, each WHEN is compared with it."""
    branches = node.args["ifs"]
    conditions = [
        place.truth(branch.this)
        if node.this is None
        else place.compared("({0} = {1})", node.this, branch.this)
        for branch in branches
    ]
    results = [branch.args["true"] for branch in branches]
    return _chosen(place, conditions, results, node.args.get("default"))


def _chosen(
    place: Expressions,
    conditions: list[Value],
    results: list[exp.Expr],
    otherwise: exp.Expr | None,
) -> Value:
    """Bind a choice: the value of the first condition that is true."""
    values = place.alike([*results, *([] if otherwise is None else [otherwise])])
    count = len(conditions)
    arms = [f"WHEN {{{i}}} THEN {{{count + i}}}" for i in range(count)]
    last = f" ELSE {{{2 * count}}}" if otherwise is not None else ""
    template = f"CASE {' '.join(arms)}{last} END"
    return made(template, *conditions, *values, kind=_one_kind(values))


def _one_kind(values: Sequence[Value]) -> Kind | None:
    """Return the kind that values have in common; of numbers, the widest; NULL has any."""
    known = [value for value in values if value.sql != "NULL"]
    if not known or any(value.kind is None for value in known):
        return None
    return widest(*known) if known[0].numeric else known[0].kind


# Aggregates and window functions, over the rows they are about.


MOST = 10**9
_ENDS = {"PRECEDING", "FOLLOWING"}
_LITERALS = "scl"


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
    if aggregate.name == "COUNT" and arguments and isinstance(arguments[0], exp.Star):
        arguments = []
    values = _bound(place, aggregate, arguments, call)
    written = [
        value.sql if letter in _LITERALS else aggregate.argument(value)
        for value, letter in zip(values, aggregate.takes, strict=False)
    ]
    listed = ("DISTINCT " if distinct else "") + ", ".join(written)
    if aggregate.name == "COUNT" and not values:
        listed = "*"
    if order is not None:
        listed += " " + _ordered(place, order)
    called = f"{aggregate.engine}({listed})"
    if kept is not None:
        called += f" FILTER (WHERE {condition(place.truth(kept.this))})"
    kind = aggregate.kind(values)
    narrow = kind is Kind.INTEGER or (aggregate.gives is None and all(v.narrow for v in values))
    longest, grown = _lengths(aggregate, values, place.most, sets)
    sql = aggregate.whole(called, values)
    return Value(sql, kind, safe=True, narrow=narrow, longest=longest, grown=grown)


def _lengths(
    aggregate: Aggregate, values: list[Value], rows: int, sets: int
) -> tuple[int, int | None]:
    """Return how long a text is, and what all of them are: texts together, or one of them."""
    if aggregate.kind(values) not in TEXTUAL:
        return LONGEST_NUMBER, 0
    if aggregate.gives is Kind.TEXT:
        longest = rows * (sum(value.longest for value in values) + 1)
        return longest, longest * sets or None
    longest = max((value.longest for value in values), default=0)
    return longest, 0 if all(value.grown == 0 for value in values) else None


def _arguments(call: exp.Expr) -> tuple[bool, exp.Order | None, list[exp.Expr]]:
    """Part the arguments of a call from DISTINCT and ORDER BY."""
    slots = (call.args.get(slot) for slot in ("this", "offset", "default"))
    arguments = [one for one in slots if isinstance(one, exp.Expr)]
    if isinstance(call, exp.Anonymous):
        arguments = list(call.expressions)
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
        takes = [KINDS[letter][0] for letter in aggregate.takes]
        raise miscounted(aggregate.name, takes, place.spans.of(call), "COUNT(*)")
    values = []
    for letter, argument in zip(aggregate.takes, arguments, strict=False):
        if letter in _LITERALS:
            values.append(_literal(place, aggregate, letter, argument))
            continue
        values.append(place.value(argument))
        remedy = f"COUNT({place.spans.text(argument)})"
        _require_kind(place, aggregate.name, letter, values[-1], argument, remedy)
    if aggregate.name in {"LAG", "LEAD"} and len(values) > 2:
        values[2] = _default(place, values[0], values[2], arguments[2])
        if values[0].kind is Kind.INTEGER:  # a literal alone is narrower than its default
            values[0] = _whole(values[0])
    return values


def _whole(value: Value) -> Value:
    return replace(value, sql=f"TRY_CAST({value.total} AS BIGINT)", safe=True)


def _default(place: Base, first: Value, default: Value, node: exp.Expr) -> Value:
    """Hold a default against the values beside it: it is converted to their type."""
    alike = first.kind is default.kind not in {None, Kind.DECIMAL} or default.sql == "NULL"
    whole = default.kind is Kind.INTEGER and default.constant is not None
    short = whole and len(default.sql) <= 9  # 1e300 would be as short
    if alike and default.kind is Kind.INTEGER:
        return _whole(default)
    if not alike and not (short and first.numeric):
        title = f"the default has to be a {first.kind or 'value'}"
        mismatch(place.spans.of(node), title, f"a {default.kind}", "NULL")
    return default


def _literal(place: Base, aggregate: Aggregate, letter: str, node: exp.Expr) -> Value:
    """Read a share, a count or a text, which have to be literals: others could raise."""
    inner, span = unwrapped(node), place.spans.of(node)
    found = read_literal(inner, span)
    value = None if found is None or isinstance(found.value, bool) else found.value
    if letter == "l" and isinstance(value, str):
        return Value(text(value), Kind.TEXT, safe=True, longest=len(value))
    least = -MOST if aggregate.name in {"LAG", "LEAD"} else 1
    if (letter == "s" and isinstance(value, int | Fraction) and 0 <= value <= 1) or (
        letter == "c" and isinstance(value, int) and least <= value <= MOST
    ):
        digits = f"-{inner.this.this}" if isinstance(inner, exp.Neg) else str(inner.this)
        return Value(digits, Kind.INTEGER, safe=True)
    what, _, example = KINDS[letter]
    title, why = f"{aggregate.name} needs {what} here", READ_BEFORE
    remedy = "', '" if letter == "l" else example
    raise refusal("DPQ207", title, span, "not such a literal", why, remedy)


def _ordered(place: Base, order: exp.Order) -> str:
    """Write ORDER BY inside a call."""
    keys = (place.value(item.this).total + direction(item) for item in order.expressions)
    return "ORDER BY " + ", ".join(keys)


def windowed(place: Base, node: exp.Window) -> Value:
    """Write a window function."""
    name = window_name(node.this.this if isinstance(node.this, exp.Filter) else node.this)
    if name is None:
        span, remedy = place.spans.of(node), "row_number() OVER ()"
        raise outside("a window over this", span, "no window function", remedy)
    found = aggregated(place, ONLY_WINDOWS.get(name) or AGGREGATES[name], node.this, 0)
    parts = []
    partition = node.args.get("partition_by")
    if partition:
        listed = ", ".join(place.value(part).total for part in partition)
        parts.append(f"PARTITION BY {listed}")
    if node.args.get("order") is not None:
        parts.append(_ordered(place, node.args["order"]))
    if node.args.get("spec") is not None:
        parts.append(_frame(place, node.args["spec"]))
    over = f" OVER ({' '.join(parts)})"
    if found.sql.startswith("TRY_CAST("):  # the conversion of a sum stands around the whole
        return replace(found, sql=f"{found.sql.removesuffix(' AS BIGINT)')}{over} AS BIGINT)")
    return replace(found, sql=found.sql + over)


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
    span = place.spans.of(end if isinstance(end, exp.Expr) else spec)
    remedy = "ROWS BETWEEN 6 PRECEDING AND CURRENT ROW"
    raise outside("this frame", span, "not a literal number of rows", remedy)


# GROUPING(a, b): which of some keys a row is not grouped by, a bit each, the last lowest.


MOST_KEYS = 62
"""Keys whose bits fit into a whole number."""


def asked_keys(place: Base, node: exp.Expr, keys: Sequence[str]) -> list[int]:
    """Return the places of the keys that GROUPING asks about, of all by their texts.

    Raises:
        SyntaxRefused: DPQ102 it asks about something else, or about nothing.
    """
    if isinstance(node, exp.Filter) or not 1 <= len(node.expressions) <= MOST_KEYS:
        _refuse_asked(place, node, node, "it takes groups, and nothing besides")
    found = []
    for asked in node.expressions:
        value = place.value(asked)
        if value.sql not in keys:
            _refuse_asked(place, node, asked, "not in GROUP BY")
        found.append(keys.index(value.sql))
    return found


def _refuse_asked(place: Base, node: exp.Expr, part: exp.Expr, label: str) -> NoReturn:
    text, select = place.spans.text(part), node.find_ancestor(exp.Select)
    group = None if select is None else select.args.get("group")
    key = None if group is None else group.find(exp.Column)
    remedy = (
        advice("write GROUP BY ROLLUP (...)")
        if key is None
        else f"GROUPING({place.spans.text(key)})"
    )
    raise outside(f"GROUPING of {text}"[:60], place.spans.of(part), label, remedy)
