"""The functions of values above the frontier: a closed list, each with the text it becomes.

Nothing here reads a file, the catalogue, a setting, the clock or chance. What raises on some
value is put inside TRY where it stands. A function that rows have too means here what it means
there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import expressions as exp

from dpquery.core.types import NUMERIC, Kind
from dpquery.sql.bind.scope import INTERVAL_ENDS
from dpquery.sql.postprocess.values import LONGEST_NUMBER, Value, in_calendar

_MOMENTS = frozenset({Kind.DATE, Kind.TIMESTAMP})
KINDS: dict[str, tuple[str, frozenset[Kind]]] = {
    "n": ("a number", NUMERIC),
    "i": ("a whole number", frozenset({Kind.INTEGER})),
    "t": ("a text", frozenset({Kind.TEXT})),
    "b": ("a condition", frozenset({Kind.BOOLEAN})),
    "m": ("a date or a timestamp", _MOMENTS),
    "a": ("a value", frozenset(Kind)),
    "l": ("a literal text", frozenset({Kind.TEXT})),
}
"""What an argument may be, by the letter that stands for it."""

PATTERNED = frozenset(
    {"REGEXP_MATCHES", "REGEXP_FULL_MATCH", "REGEXP_EXTRACT", "REGEXP_REPLACE"}
)
"""What takes a pattern as the second argument."""
_FIRST = "first"
_ALIKE = "alike"


Longest = Callable[[Sequence[int]], int]
PADDED = 1000
"""Characters that texts are padded to at most."""


def _replaced(lengths: Sequence[int]) -> int:
    """Return how long a text is of which each character gives way to another text."""
    text, _, other = lengths
    return text * max(1, other)


def _rewritten(lengths: Sequence[int]) -> int:
    """Return how long a text is in which another stands once, with parts of what was there."""
    text, _, other = lengths
    return text + other * max(1, text)


def _padded(lengths: Sequence[int]) -> int:
    """Return how long a text is that is filled, or cut."""
    return PADDED


def _spelled(lengths: Sequence[int]) -> int:
    """Return how long a moment is, written in a form: a word for two characters of that."""
    return lengths[1] * LONGEST_NUMBER


@dataclass(frozen=True, slots=True)
class Function:
    """A function of values: what it takes, by letters, and its text."""

    name: str
    takes: str
    sql: str
    """Its text, with the arguments by their places; `*` stands for all of them."""
    gives: Kind | str
    """A kind; or `first`, that of the first argument; or `alike`, that of all of them."""
    optional: int = 0
    """How many of the last arguments may be left out; they have a text of their own then."""
    shorter: str = ""
    variadic: bool = False
    aliases: tuple[str, ...] = ()
    repeats: int = 1
    longest: Longest | None = None
    """How long a text is that it makes of others; by default, no longer than the longest."""

    def template(self, count: int) -> str:
        """Return its text for a number of arguments."""
        if self.shorter and count < len(self.takes):
            return self.shorter
        return self.sql.replace("*", ", ".join(f"{{{i}}}" for i in range(count)))

    def letters(self, count: int) -> str | None:
        """Return what each of so many arguments may be; None where that is another number."""
        most = len(self.takes)
        if most - self.optional <= count <= most:
            return self.takes[:count]
        if self.variadic and count > most:
            return self.takes + self.takes[-1] * (count - most)
        return None


def _doubled(name: str, *aliases: str, sql: str = "", none: str = "nan") -> Function:
    """Return a function of doubles; NULL stands where it has no result, as rows have it."""
    called = sql or f"{name.lower()}({{0}})"
    called = called.replace("{0}", "CAST({0} AS DOUBLE)").replace("{1}", "CAST({1} AS DOUBLE)")
    for value in dict.fromkeys(("nan", none)):
        called = f"nullif({called}, CAST('{value}' AS DOUBLE))"
    return Function(name, "n" * (1 + ("{1}" in called)), called, Kind.DOUBLE, aliases=aliases)


def _part(name: str, *aliases: str) -> Function:
    return Function(name, "m", f"{name.lower()}({{0}})", Kind.INTEGER, aliases=aliases)


_INT = "TRY_CAST({{{}}} AS INTEGER)"
_NUMBERS = (
    Function("ABS", "n", "abs({0})", _FIRST),
    Function("SIGN", "n", "CAST(sign({0}) AS BIGINT)", Kind.INTEGER),
    Function("FLOOR", "n", "floor({0})", _FIRST),
    Function("CEIL", "n", "ceil({0})", _FIRST, aliases=("CEILING",)),
    Function("TRUNC", "n", "trunc({0})", _FIRST, aliases=("TRUNCATE",)),
    Function("MOD", "nn", "({0} % nullif({1}, 0))", _ALIKE),
    _doubled("SQRT"), _doubled("CBRT"), _doubled("EXP"),
    _doubled("LN", none="-inf"), _doubled("LOG10", "LOG", none="-inf"),
    _doubled("LOG2", none="-inf"),
    _doubled("SIN"), _doubled("COS"), _doubled("TAN"),
    _doubled("ASIN"), _doubled("ACOS"), _doubled("ATAN"),
    _doubled("DEGREES"), _doubled("RADIANS"),
    _doubled("ATAN2", sql="atan2({0}, {1})"),
    _doubled("POWER", "POW", sql="pow({0}, {1})"),
    Function("PI", "", "pi()", Kind.DOUBLE),
)  # fmt: skip
_CHOICES = (
    Function("GREATEST", "a", "greatest(*)", _ALIKE, variadic=True),
    Function("LEAST", "a", "least(*)", _ALIKE, variadic=True),
    Function("COALESCE", "a", "coalesce(*)", _ALIKE, variadic=True, aliases=("IFNULL", "NVL")),
    Function("NULLIF", "aa", "nullif({0}, {1})", _ALIKE, repeats=2),
    Function("IF", "baa", "CASE WHEN {0} THEN {1} ELSE {2} END", _ALIKE, aliases=("IFF",)),
)
_TEXTS = (
    Function("LOWER", "t", "lower({0})", Kind.TEXT, aliases=("LCASE",)),
    Function("UPPER", "t", "upper({0})", Kind.TEXT, aliases=("UCASE",)),
    Function(
        "LENGTH", "t", "length({0})", Kind.INTEGER,
        aliases=("LEN", "CHAR_LENGTH", "CHARACTER_LENGTH"),
    ),
    Function("REVERSE", "t", "reverse({0})", Kind.TEXT),
    Function(
        "TRIM", "tt", "trim({0}, {1})", Kind.TEXT, 1, "trim({0})", aliases=("BTRIM",)
    ),
    Function("LTRIM", "tt", "ltrim({0}, {1})", Kind.TEXT, 1, "ltrim({0})"),
    Function("RTRIM", "tt", "rtrim({0}, {1})", Kind.TEXT, 1, "rtrim({0})"),
    Function(
        "SUBSTRING", "tii", "substring({0}, {1}, {2})", Kind.TEXT, 1, "substring({0}, {1})",
        aliases=("SUBSTR",),
    ),
    Function("LEFT", "ti", "left({0}, {1})", Kind.TEXT),
    Function("RIGHT", "ti", "right({0}, {1})", Kind.TEXT),
    Function("REPLACE", "ttt", "replace({0}, {1}, {2})", Kind.TEXT, longest=_replaced),
    Function("CONCAT", "t", "concat(*)", Kind.TEXT, variadic=True, longest=sum),
    Function("STARTS_WITH", "tt", "starts_with({0}, {1})", Kind.BOOLEAN, aliases=("PREFIX",)),
    Function("ENDS_WITH", "tt", "suffix({0}, {1})", Kind.BOOLEAN, aliases=("SUFFIX",)),
    Function("CONTAINS", "tt", "contains({0}, {1})", Kind.BOOLEAN),
    Function("STRPOS", "tt", "instr({0}, {1})", Kind.INTEGER, aliases=("INSTR",)),
    Function("SPLIT_PART", "tti", "split_part({0}, {1}, {2})", Kind.TEXT),
    Function(
        "LPAD", "tit", f"lpad({{0}}, least({_INT.format(1)}, {PADDED}), {{2}})", Kind.TEXT, 1,
        f"lpad({{0}}, least({_INT.format(1)}, {PADDED}), ' ')", longest=_padded,
    ),
    Function(
        "RPAD", "tit", f"rpad({{0}}, least({_INT.format(1)}, {PADDED}), {{2}})", Kind.TEXT, 1,
        f"rpad({{0}}, least({_INT.format(1)}, {PADDED}), ' ')", longest=_padded,
    ),
    Function(
        "REGEXP_MATCHES", "tt", "regexp_matches({0}, {1})", Kind.BOOLEAN,
        aliases=("REGEXP_LIKE", "REGEXP_CONTAINS"),
    ),
    Function("REGEXP_FULL_MATCH", "tt", "regexp_full_match({0}, {1})", Kind.BOOLEAN),
    Function("REGEXP_EXTRACT", "tt", "regexp_extract({0}, {1})", Kind.TEXT),
    Function(
        "REGEXP_REPLACE", "ttt", "regexp_replace({0}, {1}, {2})", Kind.TEXT, longest=_rewritten
    ),
)  # fmt: skip
_MOMENT_PARTS = (
    _part("YEAR"), _part("QUARTER"), _part("MONTH"), _part("HOUR"), _part("MINUTE"),
    _part("SECOND"), _part("DAY", "DAYOFMONTH"), _part("DAYOFWEEK", "WEEKDAY", "DOW"),
    _part("DAYOFYEAR", "DOY"), _part("ISODOW"), _part("ISOYEAR"),
    _part("WEEK", "WEEKOFYEAR"),
    Function("DAYNAME", "m", "dayname({0})", Kind.TEXT),
    Function("MONTHNAME", "m", "monthname({0})", Kind.TEXT),
    Function("LAST_DAY", "m", in_calendar("last_day({0})"), Kind.DATE),
    Function("STRFTIME", "ml", "strftime({0}, {1})", Kind.TEXT, longest=_spelled),
    Function("MAKE_DATE", "iii", in_calendar("make_date({0}, {1}, {2})"), Kind.DATE),
)  # fmt: skip

_ALL = (*_NUMBERS, *_CHOICES, *_TEXTS, *_MOMENT_PARTS)
BY_NAME: dict[str, Function] = {
    name: function for function in _ALL for name in (function.name, *function.aliases)
}
SPECIAL = ("DATE_ADD", "DATE_DIFF", "DATEDIFF", "DATE_PART", "DATE_TRUNC", "DATETRUNC", "ROUND")
"""Functions that read a word, or a number of places, from the text."""
NAMES = tuple(sorted((*BY_NAME, *SPECIAL, *INTERVAL_ENDS)))

Gives = Callable[[Sequence[Kind | None]], Kind | None]


# Aggregates and window functions above the frontier: one value of many rows.
#
# An aggregate cannot stand inside TRY, so each is written such that it raises on no value:
# numbers are summed in a type that holds every sum, or in doubles.


GROUPING = "GROUPING"
"""It says which keys a row is not grouped by; no window is made of it."""
_NODES: dict[type[exp.Expr], str] = {
    exp.Count: "COUNT",
    exp.CountIf: "COUNT_IF",
    exp.Sum: "SUM",
    exp.Avg: "AVG",
    exp.Min: "MIN",
    exp.Max: "MAX",
    exp.LogicalAnd: "BOOL_AND",
    exp.LogicalOr: "BOOL_OR",
    exp.Grouping: GROUPING,
    exp.GroupingId: GROUPING,
}
_WINDOW_NODES: dict[type[exp.Expr], str] = {
    exp.RowNumber: "ROW_NUMBER",
    exp.Rank: "RANK",
    exp.DenseRank: "DENSE_RANK",
    exp.Lag: "LAG",
    exp.Lead: "LEAD",
}


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
    _of_doubles("QUANTILE_CONT", takes="ns"),
    Aggregate("QUANTILE_DISC", "as", "quantile_disc", None),
)  # fmt: skip
AGGREGATES = {one.name: one for one in _AGGREGATES}

ONLY_WINDOWS = {
    one.name: one
    for one in (
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
}
"""Functions that stand before OVER only.

The letters `s`, `c` and `l` stand for literals: a share, a whole number above zero, a text.
"""


def aggregate_name(node: exp.Expr) -> str | None:
    """Return the name of the aggregate that a node calls; None where it calls none."""
    if type(node) in _NODES:
        return _NODES[type(node)]
    name = str(node.this).upper() if isinstance(node, exp.Anonymous) else ""
    return name if name in AGGREGATES else None


def window_name(node: exp.Expr) -> str | None:
    """Return the name of the function that a node calls before OVER; None of no such one."""
    if type(node) in _WINDOW_NODES:
        return _WINDOW_NODES[type(node)]
    name = str(node.this).upper() if isinstance(node, exp.Anonymous) else ""
    name = name if name in ONLY_WINDOWS else aggregate_name(node) or ""
    return name if name in ONLY_WINDOWS or name in AGGREGATES else None
