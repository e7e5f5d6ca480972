"""Suggestions for the text before the cursor: pure functions of the text and of what is known.

They follow the grammar clause by clause and offer only what the language takes there. The
worst that a wrong suggestion can lead to is a refusal; nothing here asks the session anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from dpquery import rowfunctions
from dpquery.editing.cursor_context import Place, Word, place_of, words_of
from dpquery.errors import QueryRefused
from dpquery.functions import ALL, find
from dpquery.functions.base import WEIGHTS, DPFunction, Expression, Positional, Takes
from dpquery.functions.dp_keys import KEYS
from dpquery.sql.bind.scope import INTERVAL_ENDS, written_name

if TYPE_CHECKING:
    from dpquery.client.remote import AnySession

# What can be named at the prompt is what `SHOW TABLES` and `DESCRIBE` say, read when the shell
# opens and when its views change, and what is registered: nothing of the data is known here.


_BEGINNINGS = (
    "SELECT", "EXPLAIN", "REFRESH", "SHOW", "DESCRIBE", "SUMMARIZE", "CREATE", "DROP",
)  # fmt: skip
_ASKED = {
    Takes.VALUE: "x",
    Takes.NUMBER: "number",
    Takes.ORDERED: "number or date",
    Takes.CONDITION: "condition",
    Takes.LISTED: "column",
    Takes.DISCRETE: "x",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the policy, as far as completion has to know it."""

    name: str
    type: str
    keys: tuple[str, ...] = ()
    """Those of a text column, as a query writes them."""
    bounded: bool = False

    @property
    def numeric(self) -> bool:
        """Whether it can be summed."""
        return self.type.startswith(("integer", "double", "decimal"))

    @property
    def ordered(self) -> bool:
        """Whether it has quantiles."""
        return self.numeric or self.type in {"date", "timestamp"}

    @property
    def groups(self) -> bool:
        """Whether the policy alone says which groups it makes."""
        whole = self.type in {"integer", "date"} and self.bounded
        return bool(self.keys) or self.type == "boolean" or whole


Known = Mapping[str, tuple[Column, ...]]
"""The columns of each table, in the order of the policy, and of each view."""


def known_to(session: AnySession) -> dict[str, tuple[Column, ...]]:
    """Read what a session's policy names, and its views."""
    names = [str(row["table"]) for row in session.tables().to_dicts()]
    return {name: _described(session, name) for name in names}


def _described(session: AnySession, name: str) -> tuple[Column, ...]:
    """Read the columns of a table or a view; none of a view that cannot be read any more."""
    try:
        return tuple(map(column_of, session.describe(name).to_dicts()))
    except QueryRefused:
        return ()


def column_of(row: Mapping[str, str | None]) -> Column:
    """Read a column as DESCRIBE tells of it."""
    type_ = row["type"] or ""
    keys = [word.text for word in words_of(row["keys"] or "")] if type_ == "text" else []
    texts = tuple(key for key in keys if key != ",")
    return Column(row["column"] or "", type_, texts, row["low"] is not None)


def signature(function: DPFunction) -> str:
    """Write how a function is asked.

    >>> from dpquery.functions.order_statistics.quantile import MEDIAN
    >>> signature(MEDIAN)[:31]
    'DP_MEDIAN(number or date, eps=,'
    """
    options = [f"{parameter.name}=" for parameter in function.parameters]
    more = ["..."] if function.several else []
    return f"{function.name}({', '.join([*map(_place, function.positional), *more, *options])})"


def _place(one: Positional) -> str:
    """Write what stands at a place of a call."""
    if isinstance(one, Expression):
        asked = f"[{_ASKED[one.takes]}, ...]" if one.listed else _ASKED[one.takes]
        return ("* or " if one.star else "") + asked
    return one.label


_SCALARS = ("ABS", "COALESCE", "GREATEST", "LEAST", "ROUND")
_AFTER = {
    "FROM": ("WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "AS"),
    "WHERE": ("GROUP BY", "HAVING", "ORDER BY", "LIMIT"),
    "GROUP": ("HAVING", "ORDER BY", "LIMIT"),
    "HAVING": ("ORDER BY", "LIMIT"),
    "ORDER": ("ASC", "DESC", "NULLS FIRST", "NULLS LAST", "LIMIT"),
    "LIMIT": ("OFFSET",),
    "OFFSET": ("LIMIT",),
}
"""What may follow a clause that is complete."""
_PAIRED = {
    ("GROUP", "GROUP"): ("BY",),
    ("ORDER", "ORDER"): ("BY",),
    ("ORDER", "NULLS"): ("FIRST", "LAST"),
    ("WHERE", "IS"): ("NULL", "NOT NULL"),
    ("HAVING", "IS"): ("NULL", "NOT NULL"),
    ("SELECT", "AS"): (),
    ("CREATE", "CREATE"): ("TEMP VIEW", "OR REPLACE TEMP VIEW"),
    ("CREATE", "AS"): ("SELECT",),
    ("DROP", "DROP"): ("VIEW",),
}
"""What else must follow a word of a clause."""

_GROUPINGS = ("ALL", "ROLLUP (", "CUBE (", "GROUPING SETS (")
_JOINING = ("AND", "OR")
_COMPARING = ("IN", "BETWEEN", "IS NULL", "IS NOT NULL", "NOT IN")
_EQUAL = frozenset({"=", "<>", "!="})
_SET = frozenset({"=", ":=", "=>"})
_WORDED = frozenset({"MECHANISM", "WEIGHTS"})
"""Options that take a text."""

Candidates = Iterable[tuple[str, str]]
"""Texts to insert, each with a note that stands beside it."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A text that can take the place of what has been typed since `start`."""

    text: str
    start: int
    note: str = ""


def suggestions(before: str, after: str, known: Known) -> list[Suggestion]:
    """Suggest what may stand where a query is cut in two: at the cursor.

    >>> [s.text for s in suggestions("SELECT dept FROM st", "", {"staff": ()})]
    ['staff']
    """
    place = place_of(before)
    if place is None:
        return []
    scope = _Scope(known, [*words_of(before), *words_of(after)])
    found = _in_text(place, scope) if place.in_text else _words(place, scope)
    return matching(found, place.typed, place.start)


def matching(candidates: Candidates, typed: str, start: int) -> list[Suggestion]:
    """Keep what begins as typed, in any case; words of the language keep the case typed."""
    lower = typed.islower()
    kept: dict[str, Suggestion] = {}
    for text, note in candidates:
        if text.lower().startswith(typed.lower()) and text != typed:
            shown = text.lower() if lower and note == _WORD else text
            kept.setdefault(shown, Suggestion(shown, start, "" if note == _WORD else note))
    return list(kept.values())


_WORD = "word"
"""Marks a word of the language until it is suggested: such words go without a note."""


def _plain(*words: str) -> Iterator[tuple[str, str]]:
    return ((word, _WORD) for word in words)


@dataclass(frozen=True, slots=True)
class _Scope:
    """The tables that a statement reads, or all of them while it names none."""

    known: Known
    words: Sequence[Word]

    def tables(self) -> Iterator[tuple[str, str]]:
        """Return the tables after FROM, each with the name the statement calls it by."""
        by_name = {name.lower(): name for name in self.known}
        for at, (first, second) in enumerate(pairwise(self.words)):
            name = by_name.get(second.text.strip('"').lower())
            if first.upper == "FROM" and name is not None:
                following = [word for word in self.words[at + 2 : at + 4] if word.upper != "AS"]
                yield name, following[0].text if following else name

    def columns(self) -> list[Column]:
        """Return the columns in reach."""
        read = [table for table, _ in self.tables()] or list(self.known)
        return [column for table in read for column in self.known[table]]

    def of(self, qualifier: str) -> list[Column]:
        """Return the columns of the table that a name before a point stands for."""
        called = qualifier.strip('"').lower()
        for table, alias in [*self.tables(), *((name, name) for name in self.known)]:
            if called in {table.lower(), alias.lower()}:
                return list(self.known[table])
        return []

    def column(self, name: str) -> Column | None:
        """Find a column by the name typed."""
        called = name.strip('"').lower()
        return next((c for c in self.columns() if c.name.lower() == called), None)

    def aliases(self) -> list[str]:
        """Return the names after AS in the SELECT list."""
        tables = {alias for _, alias in self.tables()}
        named = [b.text for a, b in pairwise(self.words) if a.upper == "AS"]
        return [name for name in named if name not in tables]


def _in_text(place: Place, scope: _Scope) -> Candidates:
    """Suggest texts in quotes: keys of the column compared, or what an option takes."""
    function = find(place.frame.opener)
    if function and place.last() in _SET and place.last(2) in _WORDED:
        return _settings(place, function)
    if place.frame.opener == "IN":
        return _keys(scope.column(place.frame.subject))
    return _keys(scope.column(place.name(2))) if place.last() in _EQUAL else ()


def _keys(column: Column | None) -> Iterator[tuple[str, str]]:
    return ((key, "key") for key in (column.keys if column else ()))


def _settings(place: Place, function: DPFunction) -> Iterator[tuple[str, str]]:
    """Suggest the texts that an option takes."""
    if place.last(2) == "WEIGHTS":
        yield from [("'table'", WEIGHTS.name)] if WEIGHTS in function.parameters else []
        return
    for name in function.mechanisms:
        yield f"'{name}'", "default" if name == function.mechanisms[0] else "mechanism"


def _words(place: Place, scope: _Scope) -> Candidates:
    """Suggest outside of quotes."""
    if place.last() == ".":
        return _columns(scope.of(place.name(2)))
    function = find(place.frame.opener)
    if function is not None:
        return _in_call(place, scope, function)
    if place.frame.opener == "IN":
        return _in_text(place, scope)
    if place.frame.opener == "FILTER" and place.frame.clause == "":
        return _plain("WHERE")
    return _clause(place, scope)


def _columns(columns: Iterable[Column]) -> Iterator[tuple[str, str]]:
    return ((written_name(column.name), column.type) for column in columns)


def _functions() -> Iterator[tuple[str, str]]:
    for function in ALL:
        yield f"{function.name}(", signature(function)
        yield from ((f"{alias}(", f"same as {function.name}") for alias in function.aliases)


def _row_functions(place: Place) -> Iterator[tuple[str, str]]:
    """Suggest functions of rows, once there is a letter: there are too many for a menu."""
    if place.typed:
        yield from ((f"{f.name}(", f.summary) for f in rowfunctions.ALL if f.written)


def _in_call(place: Place, scope: _Scope, function: DPFunction) -> Candidates:
    """Suggest inside a call: what is asked about, then options that are not yet given."""
    if place.last() in _SET and place.last(2) in _WORDED:
        return _settings(place, function)
    at = place.frame.commas
    about = function.positional[at] if at < len(function.positional) else None
    if isinstance(about, Expression):
        if place.complete:
            return _operators(place, scope) if about.takes is Takes.CONDITION else ()
        return _asked(place, scope, about)
    if place.last() == ",":
        given = place.frame.options
        return (
            (f"{option.name}=", option.summary)
            for option in function.parameters
            if not {option.name, *option.aliases} & set(given)
        )
    return ()


def _asked(place: Place, scope: _Scope, about: Expression) -> Iterator[tuple[str, str]]:
    first = place.last() == "("
    if first and about.star:
        yield "*", "all rows"
    if place.last() in _EQUAL:
        yield from _compared(place, scope)
    yield from _columns(column for column in scope.columns() if _fits(column, about.takes))
    if first and about.distinct:
        yield from _plain("DISTINCT")


def _fits(column: Column, takes: Takes) -> bool:
    able = {
        Takes.NUMBER: column.numeric,
        Takes.ORDERED: column.ordered,
        Takes.LISTED: column.groups,
    }
    return able.get(takes, True)


def _compared(place: Place, scope: _Scope) -> Iterator[tuple[str, str]]:
    """Suggest what a column can be compared with."""
    column = scope.column(place.name(2))
    if column is not None and column.type == "boolean":
        yield from _plain("TRUE", "FALSE")
    yield from _keys(column)


def _operators(place: Place, scope: _Scope) -> Iterator[tuple[str, str]]:
    """Suggest what follows an operand of a condition."""
    column = scope.column(place.name())
    if not place.frame.compared:
        yield from _plain(*_COMPARING)
    if place.frame.compared or column is None or column.type == "boolean":
        yield from _plain(*_JOINING)


def _clause(place: Place, scope: _Scope) -> Candidates:
    """Suggest in a clause: what follows an operand that is complete, or the next operand."""
    clause = place.frame.clause
    if (clause, place.last()) in _PAIRED:
        return _plain(*_PAIRED[clause, place.last()])
    if not place.complete:
        return _operand(place, scope)
    if clause == "SELECT":
        filtered = ("FILTER (WHERE",) if place.last() == ")" else ()
        return () if place.frame.nested else _plain("FROM", "AS", *filtered)
    operators = list(_operators(place, scope)) if clause in {"WHERE", "HAVING"} else []
    if operators and (place.frame.nested or (_JOINING[0], _WORD) not in operators):
        return operators
    return [*operators, *_plain(*_AFTER.get(clause, ()))]


def _operand(place: Place, scope: _Scope) -> Candidates:
    """Suggest what a clause is made of."""
    match place.frame.clause:
        case "" if not place.before:
            return _plain(*_BEGINNINGS)
        case "EXPLAIN" | "REFRESH":
            return _plain("SELECT")
        case "SHOW":
            return _plain("TABLES", "BUDGET", "LEDGER", "FUNCTIONS")
        case "FROM" | "DESCRIBE" | "DESC" | "SUMMARIZE":
            return ((written_name(name), "table") for name in scope.known)
        case "SELECT":
            return [*_columns(scope.columns()), *_functions(), *_scalars()]
        case "WHERE":
            compared = _compared(place, scope) if place.last() in _EQUAL else ()
            columns = _columns(scope.columns())
            return [*compared, *columns, *_plain("NOT"), *_row_functions(place)]
        case "GROUP":
            columns = _columns(sorted(scope.columns(), key=lambda column: not column.groups))
            found = (f"{KEYS.name}(", signature(KEYS))
            return [*columns, found, *_plain(*_GROUPINGS), *_row_functions(place)]
        case "HAVING":
            return [*_released(scope), *_functions(), *_scalars()]
        case "ORDER":
            return [*_released(scope), *_functions()]
    return ()


def _scalars() -> Iterator[tuple[str, str]]:
    return ((f"{name}(", "of released values") for name in (*_SCALARS, *INTERVAL_ENDS))


def _released(scope: _Scope) -> Candidates:
    """Suggest what a SELECT list has named, and the columns."""
    named = ((written_name(name), "in this query") for name in scope.aliases())
    return [*named, *_columns(scope.columns())]
