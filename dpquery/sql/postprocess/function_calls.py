"""Binds calls above the frontier: functions of values and of lists, and CASE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.core.time_zones import known
from dpquery.core.types import NUMERIC, Kind
from dpquery.errors import QueryRefused, refusal
from dpquery.rowfunctions.dates import PART_NAMES, UNIT_NAMES
from dpquery.sql.bind.rows.typed_expressions import called, miscounted, read_interval, word_of
from dpquery.sql.parse.literals import read_literal, unwrapped
from dpquery.sql.parse.spans import outside
from dpquery.sql.postprocess.builtin_functions import (
    BY_NAME,
    KINDS,
    PATTERNED,
    SPECIAL,
    Function,
)
from dpquery.sql.postprocess.sql_fragments import Value, in_calendar, made, widest
from dpquery.sql.suggest.construct_refusals import refuse_construct
from dpquery.sql.suggest.type_mismatches import mismatch

if TYPE_CHECKING:
    from dpquery.sql.postprocess.expressions import Expressions


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
        require_kind(place, function.name, letter, value, argument, KINDS[letter][2])
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


def require_kind(
    place: Expressions, name: str, letter: str, value: Value, node: exp.Expr, remedy: str
) -> None:
    """Refuse a value of another kind than a function takes there."""
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
