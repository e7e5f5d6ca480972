"""Hypothesis strategies: hostile rows, neighbouring tables, and queries that are accepted.

Queries are built as text, typed as they grow, over the columns below; what can still be refused
is arithmetic that might overflow.
"""

from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction

import pyarrow as pa
from hypothesis import strategies as st

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Kind,
    Type,
)
from dpquery.policy.model import Bounds, Column
from tests.neighbours import Pair, Row, Units

__all__ = ["COLUMNS", "SCHEMA", "pairs", "queries"]

NAN, INF = float("nan"), float("inf")
SCHEMA = pa.schema(
    {
        "unit": pa.int64(),
        "i": pa.int32(),
        "n": pa.int64(),
        "d": pa.float64(),
        "f": pa.float32(),
        "m": pa.decimal128(9, 2),
        "w": pa.decimal128(18, 4),
        "s": pa.string(),
        "b": pa.bool_(),
        "day": pa.date32(),
        "at": pa.timestamp("us"),
        "k": pa.string(),
        "j": pa.int8(),
        "c": pa.date32(),
        "z": pa.timestamp("us", "UTC"),
        "g": pa.decimal128(38, 0),
        "tod": pa.time64("us"),
    }
)
COLUMNS = (
    Column("i", INTEGER, Bounds(-5, 100)),
    Column("n", INTEGER),
    Column("d", DOUBLE, Bounds(Fraction(-100), Fraction(1001, 10)), grid=Fraction(3, 10)),
    Column("f", DOUBLE),
    Column("m", Type(Kind.DECIMAL, 9, 2), Bounds(Fraction(1, 4), Fraction(50))),
    Column("w", Type(Kind.DECIMAL, 18, 4)),
    Column("s", TEXT, max_length=3),
    Column("b", BOOLEAN),
    Column("day", DATE, Bounds(date(2000, 1, 1), date(2020, 1, 1))),
    Column(
        "at",
        TIMESTAMP,
        Bounds(*map(datetime.fromisoformat, ("2000-01-01", "2020-01-01 12:00"))),
    ),
    Column("k", TEXT, keys=("b", "a", "abc", ""), max_length=3),
    Column("j", INTEGER, Bounds(-1, 2)),
    Column("c", DATE, Bounds(date(1999, 12, 31), date(2000, 1, 1))),
    Column(
        "z",
        TIMESTAMPTZ,
        Bounds(
            *map(datetime.fromisoformat, ("2000-01-01T00:00+00:00", "2024-11-01T12:00+01:00"))
        ),
    ),
    Column("g", Type(Kind.DECIMAL, 38, 0), Bounds(Fraction(-5), Fraction(1000))),
    Column("tod", TIME, Bounds(time(6), time(18))),
)

_LONG = 2**63
_DAY = 86_400_000_000
_SPRING, _AUTUMN = 1711846800000000, 1729990800000000  # when clocks of Berlin change in 2024
_CELLS: dict[str, list[object]] = {
    "i": [-(2**31), -6, -5, -1, 0, 1, 7, 100, 101, 2**31 - 1],
    "n": [-_LONG, -_LONG + 1, -(2**53) - 1, -1, 0, 1, 2, 2**53 + 1, _LONG - 1],
    "d": [NAN, INF, -INF, -0.0, 0.0, 5e-324, 0.1, 100.1, -100.0, 1e308, -1e308, 2.5],
    "f": [NAN, INF, -INF, -0.0, 0.0, 0.10000000149011612, 16777216.0, 3.0e38, -1.5],
    "m": list(map(Decimal, ("-9999999.99", "0.24", "0.25", "3.14", "50", "9999999.99"))),
    "w": list(map(Decimal, ("-99999999999999.9999", "-0.0001", "0", "1.5"))),
    "s": ["", "a", "abc", "abcd", "ABC", "e\u0301", "\U0001f600", "x" * 1000, "a\0b"],
    "b": [True, False],
    "day": [-(2**31), -1, 10957, 10958, 15000, 18262, 2**31 - 1],
    "at": [-_LONG, -_LONG + 1, 0, 946684800000000, 10**15, 1577880000000000, _LONG - 1],
    "k": ["a", "b", "abc", "abcd", "A", "", "none"],
    "j": [-128, -1, 0, 1, 2, 127],
    "c": [-(2**31), 10956, 10957, 10958, 2**31 - 1],
    "z": [-_LONG, -_LONG + 1, 0, 10**15, _SPRING - 1, _SPRING, _AUTUMN, _LONG - 1],
    "g": list(map(Decimal, ("9" * 38, "-" + "9" * 38, "7" * 20, "0", "1", "-6"))),
    "tod": [-1, 0, 43200000000, 50000000000, _DAY - 1, _DAY, _LONG - 1],
}  # fmt: skip

ROWS: st.SearchStrategy[Row] = st.fixed_dictionaries(
    {name: st.sampled_from([None, *cells]) for name, cells in _CELLS.items()}
)


@st.composite
def _units(draw: st.DrawFn, single: bool) -> list[Row]:
    """Draw the rows of one unit; now and then far more than any limit."""
    if single:
        return [draw(ROWS)]
    rows = draw(st.lists(ROWS, min_size=1, max_size=3))
    return rows * draw(st.sampled_from([1, 1, 1, 2, 50]))


@st.composite
def pairs(
    draw: st.DrawFn, neighbours: Neighbours, single: bool = False, unitless: bool = False
) -> Pair:
    """Draw two tables that differ in one unit: there or not, or exchanged for another."""
    others: Units = draw(st.lists(_units(single), max_size=4))
    one = [draw(_units(single))]
    other = [draw(_units(single))] if neighbours is Neighbours.SUBSTITUTE else []
    sides = [others + one, others + other]
    if draw(st.booleans()):
        sides.reverse()
    loose = st.lists(ROWS, max_size=0 if unitless else 2)
    return Pair(sides[0], sides[1], (draw(loose), draw(loose)))


def _literal(values: list[object]) -> st.SearchStrategy[str]:
    return st.sampled_from([str(value) for value in values])


def _joined(
    left: st.SearchStrategy[str], operators: list[str], right: st.SearchStrategy[str]
) -> st.SearchStrategy[str]:
    return st.builds("({} {} {})".format, left, st.sampled_from(operators), right)


def _grown(base: st.SearchStrategy[str], operators: list[str]) -> st.SearchStrategy[str]:
    return st.recursive(
        base,
        lambda inner: _joined(inner, operators, inner) | st.builds("(- {})".format, inner),
        max_leaves=4,
    )


_INTEGERS = _grown(
    st.sampled_from(["i", "n"])
    | st.sampled_from(
        [
            "LEAST(n,7)",
            "YEAR(at)",
            "HOUR(tod)",
            "MINUTE(z)",
            "LENGTH(s)",
            "CAST(d AS INTEGER)",
            "CAST(n AS SMALLINT)",
            "IF(b,i,n)",
        ]
    )
    | _literal([0, 1, -1, 2, 7, 100, 2**53 + 1, _LONG, 10**20]),
    ["+", "-", "*", "//", "%"],
)
_DECIMALS = _grown(
    st.sampled_from(["m", "w", "i"]) | _literal(["0.25", "3.14", "-0.0001", "49.999"]),
    ["+", "-", "*"],
)
_DOUBLES = _grown(
    st.sampled_from(["d", "f", "m", "w", "n", "SQRT(d)", "ROUND(f,2)", "ABS(w)", "NULLIF(f,0)"])
    | st.sampled_from(["POWER(d, -1)", "TRUNC(d / 1e3)", "POWER(0e0 * f, -1)"])
    | _literal(["1e0", "-2.5e-1", "0e0", "1e308", "1.00100000000000001e2", "0.1"]),
    ["+", "-", "*", "/"],
)
_NUMBERS = _INTEGERS | _DECIMALS | _DOUBLES
_TEXTS = _literal(["''", "'a'", "'abc'", "'ABC'", "'e\u0301'", "'\U0001f600'", "'zz'"])
_DAYS = _literal(["'2000-01-01'", "'2000-01-02'", "DATE '2011-01-26'", "'2020-01-01'"])
_MOMENTS = _literal(["'2000-01-01'", "TIMESTAMP '2001-09-09 01:46:40'", "'2020-01-01 12:00'"])
_INSTANTS = _literal(["'2024-10-27 01:00'", "TIMESTAMPTZ '2024-03-31 02:00:00+01'"])
_TIMES = _literal(["'12:00'", "TIME '23:59:59.999999'", "'00:00:00'"])
_WIDE = _literal(["9" * 38, "-" + "9" * 38, "7" * 20, 0, "1.5"])
_TRUTHS = st.just("b")
_COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]
_FAMILIES = [
    (_NUMBERS, _NUMBERS),
    (st.sampled_from(["i", "n", "d", "f", "m", "w"]), _literal([0, 7, 0.25, "1e-1", "100.1"])),
    (st.just("s"), _TEXTS | st.just("s")),
    (st.sampled_from(["day", "DATE_TRUNC('month', day)", "day + i"]), _DAYS | st.just("day")),
    (st.sampled_from(["LOWER(s)", "s || k", "LEFT(s, 1)"]), _TEXTS | st.just("s")),
    (st.just("at"), _MOMENTS | st.just("at")),
    (st.sampled_from(["z", "z - INTERVAL 1 HOUR"]), _INSTANTS | st.just("z")),
    (st.just("at AT TIME ZONE 'Europe/Berlin'"), _INSTANTS | st.just("z")),
    (st.just("z AT TIME ZONE 'Europe/Berlin'"), _MOMENTS | st.just("at")),
    (st.just("tod"), _TIMES | st.just("tod")),
    (st.just("g"), _WIDE | st.just("g")),
    (_TRUTHS, _literal(["TRUE", "FALSE", "b"])),
]
_LITERALS = [
    ("i", _literal([-5, 0, 100, 2**70])),
    ("n", _literal([-_LONG, 0, "1.5"])),
    ("d", _literal([0, "1e-1", "100.1"])),
    ("w", _literal([0, "1.5", "-0.00010"])),
    ("s", _TEXTS),
    ("day", _DAYS),
    ("at", _MOMENTS),
    ("z", _INSTANTS),
    ("tod", _TIMES),
    ("g", _WIDE),
]


def _simple() -> st.SearchStrategy[str]:
    compared = [_joined(left, _COMPARISONS, right) for left, right in _FAMILIES]
    between = [
        st.builds("({} BETWEEN {} AND {})".format, left, right, right)
        for left, right in _FAMILIES
        if left is not _TRUTHS
    ]
    member = [
        st.builds(
            "({} IN ({}))".format,
            st.just(name),
            st.lists(values, min_size=1, max_size=3).map(", ".join),
        )
        for name, values in _LITERALS
    ]
    missing = st.builds(
        "({} {})".format,
        _NUMBERS | st.sampled_from(["s", "b", "day", "at", "z", "g", "tod", "(i > 0)"]),
        st.sampled_from(["IS NULL", "IS NOT NULL"]),
    )
    return st.one_of(*compared, *between, *member, missing, st.just("b"))


CONDITIONS = st.recursive(
    _simple(),
    lambda inner: (
        st.builds("(NOT {})".format, inner)
        | st.lists(inner, min_size=2, max_size=3).map(lambda p: f"({' AND '.join(p)})")
        | st.lists(inner, min_size=2, max_size=3).map(lambda p: f"({' OR '.join(p)})")
    ),
    max_leaves=4,
)


_NUMBER_COLUMNS = st.sampled_from(
    [
        "i",
        "d",
        "m",
        "j",
        "g",
        "HOUR(tod)",
        "YEAR(day)",
        "IF(b,1,0)",
        "ABS(m)",
        "FLOOR(d)",
        "d / 4",
    ]
)
_BOUNDED = _NUMBER_COLUMNS | st.builds(
    "{}, bounds=[{}, {}]".format,
    _NUMBERS | st.sampled_from(["n", "f", "w", *"idm"]),
    st.sampled_from(["-7", "0", "5"]),
    st.sampled_from(["5", "30", "1000"]),
)
_ORDERED = (
    _BOUNDED
    | st.sampled_from(["day", "at", "c", "z", "tod"])
    | st.just("day, bounds=['2011-01-01', '2012-06-30']")
)
_ORDERS = st.sampled_from(["0", "0.1", "0.5", "0.75", "0.999", "1", "[0.1, 0.5]", "[1]"])
_VARIANCES = st.sampled_from(
    ["VAR_POP", "VAR_SAMP", "VARIANCE", "STDDEV_POP", "STDDEV_SAMP", "STDDEV"]
)
_MECHANISMS = st.sampled_from(
    ["", "", ", mechanism='laplace'", ", mechanism='gaussian', delta=1e-6"]
)
_SOME = st.sampled_from(["", "", "DISTINCT "])
_COUNTED = st.just("*") | st.sampled_from(list(_CELLS)) | _NUMBERS | CONDITIONS


def _additive(draw: st.DrawFn) -> str:
    """Draw a call of a function that adds noise, up to its options."""
    call = draw(
        st.builds("COUNT({}".format, _COUNTED)
        | st.just("COUNT(DISTINCT unit")
        | st.builds("COUNT(DISTINCT {}".format, _COUNTED.filter(lambda told: told != "*"))
        | st.builds("COUNT_IF({}".format, CONDITIONS)
        | st.builds("SUM({}{}".format, _SOME, _BOUNDED)
        | st.builds("{}({}{}".format, st.sampled_from(["AVG", "MEAN"]), _SOME, _BOUNDED)
        | st.builds("PROPORTION({}".format, CONDITIONS)
        | st.builds("{}({}{}".format, _VARIANCES, _SOME, _BOUNDED)
    )
    return call + draw(_MECHANISMS)


def _ranked(draw: st.DrawFn) -> str:
    """Draw a quantile, up to its options."""
    argument, given, ends = draw(_ORDERED).partition(", bounds=")
    bounds = f"bounds={ends}" if given else ""
    if draw(st.booleans()):
        return ", ".join(filter(None, [f"MEDIAN({argument}", bounds]))
    return ", ".join(filter(None, [f"QUANTILE({argument}", draw(_ORDERS), bounds]))


def _chosen(draw: st.DrawFn) -> str:
    """Draw a call that chooses a value, up to its options."""
    return draw(
        st.builds("MODE({}".format, st.sampled_from("bkjci"))
        | st.builds("TOP_K({}, {}".format, st.sampled_from("kjc"), st.integers(1, 2))
        | st.builds("MAJORITY({}".format, CONDITIONS)
        | st.builds("{}({}".format, st.sampled_from(["MIN", "MAX"]), _ORDERED)
        | st.builds("FIRST_ABOVE({}, {}".format, st.sampled_from("ijc"), st.integers(0, 3))
    )


_LIMITS = ["", "", ", max_rows_contributed=3", ", max_rows_contributed=60"]


def _per_group(call: str) -> list[str]:
    """Return the bounds per group that a call takes."""
    if "(DISTINCT" in call:
        return [", max_groups_contributed=2"] if call.startswith("COUNT(DISTINCT unit") else []
    if not call.startswith(("COUNT", "SUM")):
        return []
    totals = [f", contribution_bounds_per_group={ends}" for ends in ("(-3, 9)", "[2, 50]")]
    return [f"{bounds}{limit}" for bounds in totals for limit in ("", _GROUPS)]


def _weighs(call: str) -> bool:
    """Return whether a call can weigh rows by the table."""
    if call.startswith(("MEDIAN", "QUANTILE")):
        return ", [" not in call.partition(", bounds=")[0]
    added = call.startswith(("COUNT", "SUM", "AVG", "MEAN", "PROPORTION", "VAR", "STDDEV"))
    return added and not any(told in call for told in ("(DISTINCT", "gaussian", "per_group"))


_GROUPS = ", max_groups_contributed=2"


@st.composite
def _calls(draw: st.DrawFn) -> str:
    kind = draw(st.integers(0, 7))
    call = _ranked(draw) if kind < 2 else _chosen(draw) if kind < 4 else _additive(draw)
    limit = draw(st.sampled_from([*_LIMITS, *_per_group(call)]))
    if _weighs(call + limit) and draw(st.booleans()):
        limit += ", weights='table'"
    kept = draw(st.just("") | st.builds(" FILTER (WHERE {})".format, CONDITIONS))
    return f"DP_{call}, eps=0.1{limit}){kept}"


_KEYS = {
    **dict.fromkeys("bkjc", ""),
    "s": "s IN ('a', 'abc', 'no')",
    "i": "i IN (100, -5, 1)",
    "n": f"n IN (0, {_LONG - 1})",
    "m": "m = 50",
    "w": "w IN (0, -0.0001)",
    "day": "day IN ('2000-01-01', '2011-01-26')",
    "at": "at = '2001-09-09 01:46:40'",
    "z": "z IN ('2001-09-09 01:46:40', '2024-10-27 01:00')",
    "g": f"g IN (0, {'9' * 38})",
    "tod": "tod IN ('12:00', '00:00')",
    "HOUR(tod)": "",
    "YEAR(day)": "",
    "DATE_TRUNC('year', at)": "at < '2003-01-01'",
    "CASE WHEN i > 3 THEN 'x' WHEN b THEN s END": "s IN ('a', 'abc')",
    "COALESCE(k, 'none')": "",
    "j * 3 % 2": "",
    "d > 0": "",
    "UPPER(k)": "",
}
"""Columns and expressions that can be groups, with what WHERE has to say of them."""


@st.composite
def queries(draw: st.DrawFn, names: tuple[str, ...], unitless: bool = False) -> str:
    """Draw a query over the columns above, of a table with these names."""
    calls = draw(st.lists(_calls(), min_size=1, max_size=3))
    if unitless:
        calls = [call for call in calls if "DISTINCT unit" not in call] or [
            "DP_COUNT(*, eps=1)"
        ]
    keys = draw(st.lists(st.sampled_from(list(_KEYS)), max_size=2, unique=True))
    conditions = [_KEYS[key] for key in keys if _KEYS[key]]
    conditions += draw(st.lists(CONDITIONS, max_size=1))
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    groups = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"SELECT {', '.join(calls)} FROM {draw(st.sampled_from(names))}{where}{groups}"
