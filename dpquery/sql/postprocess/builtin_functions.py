"""The functions of values above the frontier: a closed list, each with the text it becomes.

Nothing here reads a file, the catalogue, a setting, the clock or chance. What raises on some
value is put inside TRY where it stands. A function that rows have too means here what it means
there, and is taken from the same registry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import expressions as exp

from dpquery import rowfunctions
from dpquery.core.source_text import Span
from dpquery.core.types import INTEGER, MOMENTS, NUMERIC, TEXT, TIMESTAMP, UNKNOWN, Kind
from dpquery.ir.expr import Apply, ColumnRef
from dpquery.rowfunctions.base import CALENDAR, RowFunction, first_type
from dpquery.sql.bind.scope import INTERVAL_ENDS
from dpquery.sql.postprocess.sql_fragments import LONGEST_NUMBER, Value, in_calendar

_TEXT = frozenset({Kind.TEXT})
KINDS: dict[str, tuple[str, frozenset[Kind], str]] = {
    "n": ("a number", NUMERIC, "1"),
    "i": ("a whole number", frozenset({Kind.INTEGER}), "1"),
    "t": ("a text", _TEXT, "'a'"),
    "b": ("a condition", frozenset({Kind.BOOLEAN}), "TRUE"),
    "m": ("a date or a timestamp", MOMENTS, "DATE '2024-12-31'"),
    "h": ("a timestamp or a time", MOMENTS | {Kind.TIME}, "TIME '12:00:00'"),
    "a": ("a value", frozenset(Kind), "1"),
    "l": ("a literal text", _TEXT, "'%Y-%m'"),
    "s": ("a literal from 0 to 1", NUMERIC, "0.5"),
    "c": ("a literal whole number", NUMERIC, "1"),
}
"""What an argument may be, by the letter that stands for it, with an example."""

PATTERNED = frozenset(
    {"REGEXP_MATCHES", "REGEXP_FULL_MATCH", "REGEXP_EXTRACT", "REGEXP_REPLACE"}
)
"""What takes a pattern as the second argument."""
Longest = Callable[[Sequence[int]], int]
PADDED = 1000
"""Characters that texts are padded to at most."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of values: what it takes, by letters, and its text."""

    name: str
    takes: str
    write: Callable[..., str]
    """Its text, of the texts of its arguments."""
    gives: Kind | str
    """A kind; or `first`, that of the first argument; or `alike`, that of all of them."""
    optional: int = 0
    """How many of the last arguments may be left out."""
    variadic: bool = False
    aliases: tuple[str, ...] = ()
    repeats: int = 1
    longest: Longest = max
    """How long a text is that it makes of others."""

    def template(self, count: int) -> str:
        """Return its text for a number of arguments, each by its place."""
        return self.write(*(f"{{{at}}}" for at in range(count)))

    def letters(self, count: int) -> str | None:
        """Return what each of so many arguments may be; None where that is another number."""
        most = len(self.takes)
        if most - self.optional <= count <= most:
            return self.takes[:count]
        if self.variadic and count > most:
            return self.takes + self.takes[-1] * (count - most)
        return None


# Functions that rows have: their text, type and meaning are those of `rowfunctions`. What has
# to be a literal for rows may be any value here, where nothing follows from it beforehand.


_LETTERS = {kinds: letter for letter, (_, kinds, _) in reversed(KINDS.items())}
_LETTERS[frozenset({Kind.DATE, Kind.TIMESTAMP})] = "m"
_LETTERS[frozenset({Kind.TIMESTAMP, Kind.TIME})] = "h"
_NOWHERE = Span(0, 0)
_MODELS = {"n": INTEGER, "i": INTEGER, "t": TEXT, "m": TIMESTAMP, "h": TIMESTAMP, "a": TEXT}
"""A type for each letter: what is taken here has one text, whatever the type."""
_ALSO = {"DAYOFWEEK": ("DOW",), "DAYOFYEAR": ("DOY",)}
"""Names that only results have for functions of rows."""


def _of_rows(row: RowFunction) -> Function:
    """Return a function of rows as one of results; NULL stands for NaN there and here."""
    takes = "".join(_LETTERS[parameter.kinds] for parameter in row.parameters)
    doubles = any(parameter.double for parameter in row.parameters)
    types = [_MODELS[letter] for letter in takes]  # moments lie in the calendar here
    models = [ColumnRef(_NOWHERE, "", t, CALENDAR.get(t.kind, UNKNOWN)) for t in types]

    def write(*texts: str) -> str:
        arguments = [f"CAST({text} AS DOUBLE)" for text in texts] if doubles else texts
        call = Apply(_NOWHERE, row.name, tuple(models[: len(texts)]), TEXT, UNKNOWN)
        called = row.sql(call, *arguments)
        if row.name == "CONCAT":  # of lists it would give a list
            called = f"CAST({called} AS VARCHAR)"
        return _no_nan(called) if doubles else called

    gives: Kind | str = "first" if row.result is first_type else row.result(models).kind
    gives = "alike" if row.alike else gives
    return Function(
        row.name,
        takes[:1] if row.variadic else takes,
        write,
        gives,
        row.optional,
        row.variadic,
        (*row.aliases, *_ALSO.get(row.name, ())),
        row.repeats,
        sum if row.name == "CONCAT" else max,
    )


def _no_nan(text: str) -> str:
    return f"nullif({text}, CAST('nan' AS DOUBLE))"


# Functions that results alone have, or with more than rows can be given: numbers whose widths
# are not known, patterns and forms that the engine reads, texts that grow.


def _plain(
    name: str, takes: str, gives: Kind | str, *aliases: str, form: str = "{}", **more: Any
) -> Function:
    """Return a function that the engine calls by the same name; arguments have one form."""

    def write(*texts: str) -> str:
        return f"{name.lower()}({', '.join(map(form.format, texts))})"

    return Function(name, takes, write, gives, aliases=aliases, **more)


def _doubled(name: str, takes: str = "n") -> Function:
    plain = _plain(name, takes, Kind.DOUBLE, form="CAST({} AS DOUBLE)")
    return replace(plain, write=lambda *texts: _no_nan(plain.write(*texts)))


def _padding(name: str) -> Function:
    def write(text: str, length: str, filled: str = "' '") -> str:
        cut = f"least(TRY_CAST({length} AS INTEGER), {PADDED})"
        return f"{name.lower()}({text}, {cut}, {filled})"

    return Function(name, "tit", write, Kind.TEXT, 1, longest=lambda _: PADDED)


def _replaced(lengths: Sequence[int]) -> int:
    """Return how long a text is of which each character gives way to another text."""
    text, _, other = lengths
    return text * max(1, other)


def _rewritten(lengths: Sequence[int]) -> int:
    """Return how long a text is in which another stands once, with parts of what was there."""
    text, _, other = lengths
    return text + other * max(1, text)


def _spelled(lengths: Sequence[int]) -> int:
    """Return how long a moment is, written in a form: a word for two characters of that."""
    return lengths[1] * LONGEST_NUMBER


_OWN = (
    _plain("FLOOR", "n", "first"),
    _plain("CEIL", "n", "first", "CEILING"),
    _plain("TRUNC", "n", "first", "TRUNCATE"),
    Function("MOD", "nn", "({} % nullif({}, 0))".format, "alike"),
    *map(_doubled, ("CBRT", "SIN", "COS", "TAN", "ASIN", "ACOS", "ATAN", "DEGREES", "RADIANS")),
    _doubled("ATAN2", "nn"),
    _plain("PI", "", Kind.DOUBLE),
    _plain("REVERSE", "t", Kind.TEXT),
    _plain("REPLACE", "ttt", Kind.TEXT, longest=_replaced),
    _padding("LPAD"),
    _padding("RPAD"),
    _plain("REGEXP_MATCHES", "tt", Kind.BOOLEAN, "REGEXP_LIKE", "REGEXP_CONTAINS"),
    _plain("REGEXP_FULL_MATCH", "tt", Kind.BOOLEAN),
    _plain("REGEXP_EXTRACT", "tt", Kind.TEXT),
    _plain("REGEXP_REPLACE", "ttt", Kind.TEXT, longest=_rewritten),
    _plain("STRFTIME", "ml", Kind.TEXT, longest=_spelled),
    Function("MAKE_DATE", "iii", in_calendar("make_date({}, {}, {})").format, Kind.DATE),
)
SPECIAL = (
    *("DATE_ADD", "DATE_DIFF", "DATEDIFF", "DATE_PART", "DATE_TRUNC", "DATETRUNC"),
    *("IF", "IFF", "ROUND"),
    *("ARRAY_EXTRACT", "ARRAY_LENGTH", "ARRAY_SLICE"),
    *("LIST_ELEMENT", "LIST_EXTRACT", "LIST_SLICE"),
)
"""Functions of a list, or that read a word or a number of places, or choose by a condition."""
_APART = frozenset({*SPECIAL, *(own.name for own in _OWN)})
_ALL = (
    *_OWN,
    *(_of_rows(row) for row in rowfunctions.ALL if row.written and row.name not in _APART),
)
BY_NAME: dict[str, Function] = {
    name: function for function in _ALL for name in (function.name, *function.aliases)
}
NAMES = tuple(sorted((*BY_NAME, *SPECIAL, *INTERVAL_ENDS)))


# Aggregates and window functions: one value of many rows. None can stand inside TRY, so each
# is written such that it raises on no value: numbers are summed in a type that holds every sum.


GROUPING = "GROUPING"
"""It says which keys a row is not grouped by; no window is made of it."""
_NODES: dict[type[exp.Expr], str] = {
    exp.Count: "COUNT", exp.CountIf: "COUNT_IF", exp.Sum: "SUM", exp.Avg: "AVG",
    exp.Min: "MIN", exp.Max: "MAX", exp.LogicalAnd: "BOOL_AND", exp.LogicalOr: "BOOL_OR",
    exp.Grouping: GROUPING, exp.GroupingId: GROUPING, exp.RowNumber: "ROW_NUMBER",
    exp.Rank: "RANK", exp.DenseRank: "DENSE_RANK", exp.Lag: "LAG", exp.Lead: "LEAD",
}  # fmt: skip
"""What the parser has nodes of its own for; the others are called by name."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate: what it takes, by letters, and its name for the engine."""

    name: str
    takes: str
    engine: str
    gives: Kind | None
    """None where it gives a value of its first argument."""
    doubles: bool = False
    """Whether its numbers are made doubles, in which no sum overflows."""
    optional: int = 0

    def argument(self, value: Value) -> str:
        """Write an argument so that the aggregate cannot raise on it."""
        if self.name == "SUM" and value.kind is Kind.INTEGER:
            return f"TRY_CAST({value.total} AS BIGINT)"
        exact = self.name == "SUM" and value.kind is Kind.DECIMAL and value.narrow
        if self.doubles and not exact:
            return f"TRY_CAST({value.total} AS DOUBLE)"
        return value.total

    def whole(self, called: str, arguments: list[Value]) -> str:
        """Write the whole call: a sum of whole numbers is one again, or NULL."""
        if self.name == "SUM" and arguments and arguments[0].kind is Kind.INTEGER:
            return f"TRY_CAST({called} AS BIGINT)"
        return called

    def kind(self, arguments: list[Value]) -> Kind | None:
        """Return the kind of its value."""
        first = arguments[0].kind if arguments else None
        if self.name == "SUM":
            narrow = first is Kind.DECIMAL and arguments[0].narrow
            return first if first is Kind.INTEGER or narrow else Kind.DOUBLE
        return first if self.gives is None else self.gives


def _of_doubles(name: str, engine: str = "", takes: str = "n") -> Aggregate:
    return Aggregate(name, takes, engine or name.lower(), Kind.DOUBLE, doubles=True)


_AGGREGATES = (
    Aggregate("COUNT", "a", "count", Kind.INTEGER, optional=1),
    Aggregate("COUNT_IF", "b", "count_if", Kind.INTEGER),
    _of_doubles("SUM"), _of_doubles("AVG"), _of_doubles("MEAN", "avg"), _of_doubles("MEDIAN"),
    Aggregate("MIN", "a", "min", None), Aggregate("MAX", "a", "max", None),
    Aggregate("BOOL_AND", "b", "bool_and", Kind.BOOLEAN),
    Aggregate("BOOL_OR", "b", "bool_or", Kind.BOOLEAN),
    Aggregate("ANY_VALUE", "a", "any_value", None), Aggregate("MODE", "a", "mode", None),
    Aggregate("FIRST", "a", "first", None), Aggregate("LAST", "a", "last", None),
    Aggregate("ARG_MAX", "aa", "arg_max", None), Aggregate("ARG_MIN", "aa", "arg_min", None),
    Aggregate("MAX_BY", "aa", "arg_max", None), Aggregate("MIN_BY", "aa", "arg_min", None),
    Aggregate("STRING_AGG", "tl", "string_agg", Kind.TEXT, optional=1),
    Aggregate("GROUP_CONCAT", "tl", "string_agg", Kind.TEXT, optional=1),
    Aggregate("LISTAGG", "tl", "string_agg", Kind.TEXT, optional=1),
    _of_doubles("STDDEV", "stddev_samp"), _of_doubles("STDDEV_SAMP"),
    _of_doubles("STDDEV_POP"), _of_doubles("VARIANCE", "var_samp"), _of_doubles("VAR_SAMP"),
    _of_doubles("VAR_POP"), _of_doubles("CORR", takes="nn"),
    _of_doubles("COVAR_POP", takes="nn"), _of_doubles("COVAR_SAMP", takes="nn"),
    _of_doubles("REGR_SLOPE", takes="nn"), _of_doubles("REGR_INTERCEPT", takes="nn"),
    _of_doubles("REGR_R2", takes="nn"),
    _of_doubles("QUANTILE_CONT", takes="ns"),
    Aggregate("QUANTILE_DISC", "as", "quantile_disc", None),
)  # fmt: skip
AGGREGATES = {one.name: one for one in _AGGREGATES}

_WINDOWS = (
    Aggregate("ROW_NUMBER", "", "row_number", Kind.INTEGER),
    Aggregate("RANK", "", "rank", Kind.INTEGER),
    Aggregate("DENSE_RANK", "", "dense_rank", Kind.INTEGER),
    Aggregate("PERCENT_RANK", "", "percent_rank", Kind.DOUBLE),
    Aggregate("CUME_DIST", "", "cume_dist", Kind.DOUBLE),
    Aggregate("NTILE", "c", "ntile", Kind.INTEGER),
    Aggregate("LAG", "aca", "lag", None, optional=2),
    Aggregate("LEAD", "aca", "lead", None, optional=2),
    Aggregate("FIRST_VALUE", "a", "first_value", None),
    Aggregate("LAST_VALUE", "a", "last_value", None),
    Aggregate("NTH_VALUE", "ac", "nth_value", None),
)
ONLY_WINDOWS = {one.name: one for one in _WINDOWS}
"""Functions that stand before OVER only."""


def aggregate_name(node: exp.Expr) -> str | None:
    """Return the name of the aggregate that a node calls; None where it calls none."""
    name = _name(node)
    return name if name in AGGREGATES or name == GROUPING else None


def window_name(node: exp.Expr) -> str | None:
    """Return the name of the function that a node calls before OVER; None of no such one."""
    name = _name(node)
    return name if name in ONLY_WINDOWS or name in AGGREGATES else None


def _name(node: exp.Expr) -> str:
    known = _NODES.get(type(node), "")
    return str(node.this).upper() if isinstance(node, exp.Anonymous) else known
