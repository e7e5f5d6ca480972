"""Every row function at the edges of its arguments: never an error, and one meaning.

Each expression is computed by DuckDB through the real renderer, over rows that hold what files
can hold, and by the Python meaning over the same rows; values have to be equal, and inside the
range that was stated before any row was read.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpquery import rowfunctions
from dpquery.core.source_text import Source
from dpquery.core.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    TEXT,
    TIME,
    TIMESTAMP,
    Kind,
    Type,
    ordinal,
)
from dpquery.engine.duckdb.clamped_table_sql import Place
from dpquery.engine.duckdb.connection import start
from dpquery.engine.duckdb.quoting import quoted
from dpquery.engine.duckdb.sources.source_views import attach, define, view_name
from dpquery.engine.file_checks import fingerprint
from dpquery.ir.expr import Apply, Arithmetic, Expr, children, columns_of, longest_of
from dpquery.policy.model import Bounds, Column, Table
from dpquery.rowfunctions.evaluate import evaluate
from dpquery.sql.bind.rows.row_expressions import Conditions
from dpquery.sql.parse.parser import parse
from tests.engine.verify.syntax import ROW_FUNCTIONS, parsed, require_expression, walk
from tests.oracle.rows import read_rows
from tests.worlds import private_table, scope_of

# When the clocks of Berlin change in 2019, and a moment to both sides.
CHANGES = [
    at + by for at in (1553994000000000, 1572138000000000) for by in (-1, 0, 3_600_000_000)
]
NAN, INF = float("nan"), float("inf")
LONG = 2**63
MOMENTS = [datetime.fromisoformat(text) for text in ("2000-01-01", "2020-01-01 12:00")]


def in_zone(zone: str) -> Type:
    return Type(Kind.TIMESTAMPTZ, zone=zone)


COLUMNS = (
    Column("i", INTEGER, Bounds(-5, 100)),
    Column("j", INTEGER, Bounds(-5, 100)),
    Column("n", INTEGER),
    Column("d", DOUBLE, Bounds(Fraction(-100), Fraction(1001, 10))),
    Column("f", DOUBLE),
    Column("m", Type(Kind.DECIMAL, 9, 2), Bounds(Fraction(-50), Fraction("49.99"))),
    Column("w", Type(Kind.DECIMAL, 18, 4)),
    Column("s", TEXT, max_length=3),
    Column("t", TEXT, max_length=40),
    Column("b", BOOLEAN),
    Column("c", BOOLEAN),
    Column("day", DATE, Bounds(date(2000, 1, 31), date(2020, 12, 31))),
    Column("old", DATE, Bounds(date(1, 1, 1), date(9999, 12, 31))),
    Column("far", DATE),
    Column("at", TIMESTAMP, Bounds(*MOMENTS)),
    Column("late", TIMESTAMP),
    Column("nano", TIMESTAMP, converted=True),
    Column("z", in_zone("Europe/Berlin"), Bounds(*(m.replace(tzinfo=UTC) for m in MOMENTS))),
    Column("zf", in_zone("Australia/Lord_Howe")),
    Column("zn", in_zone("America/New_York"), converted=True),
    Column("tod", TIME),
    Column("cat", INTEGER, Bounds(-5, 100), converted=True),
    Column("dec", INTEGER, Bounds(-(10**9), 10**9), converted=True),
    Column("big", Type(Kind.DECIMAL, 38, 2)),
    Column("u64", Type(Kind.DECIMAL, 20), converted=True),
    Column("uid", TEXT, max_length=36, converted=True),
    Column("tags", Type(Kind.TEXT, listed=True), max_length=3),
    Column("odds", Type(Kind.DOUBLE, listed=True), Bounds(Fraction(-1), Fraction(9))),
)
SCHEMA = pa.schema(
    {
        "i": pa.int32(), "j": pa.int64(), "n": pa.int64(), "d": pa.float64(), "f": pa.float64(),
        "m": pa.decimal128(9, 2), "w": pa.decimal128(18, 4), "s": pa.string(),
        "t": pa.string(), "b": pa.bool_(), "c": pa.bool_(), "day": pa.date32(),
        "old": pa.date32(), "far": pa.date32(), "at": pa.timestamp("us"),
        "late": pa.timestamp("us"), "nano": pa.timestamp("ns"),
        "z": pa.timestamp("us", "UTC"), "zf": pa.timestamp("us", "Europe/Paris"),
        "zn": pa.timestamp("ns", "UTC"), "tod": pa.time64("us"), "cat": pa.float64(),
        "dec": pa.decimal128(38, 10), "big": pa.decimal128(38, 2), "u64": pa.uint64(),
        "uid": pa.uuid(), "tags": pa.list_(pa.string()), "odds": pa.list_(pa.float64()),
    }
)  # fmt: skip
_SMALL = [-(2**31), -5, -1, 0, 1, 2, 7, 99, 100, 2**31 - 1]
_DAYS = [-(2**31), -719163, -719162, -1, 0, 11016, 11017, 14669, 18262, 18627, 2932896,
         2932897, 2**31 - 1, 10956, 16070, 18686]  # fmt: skip
_TEXTS = ["", " ", "a", "A", "abc", "abcd", "ABC ", " a b ", "e\u0301", "É", "ß", "İ", "a\nb",
          "a\0b", "\U0001f600", "12", "-7", "1e3", "007", "9" * 18, "9" * 19, " 1", "a-b-c",
          "-", "--", "aaa", "xAyAz", "x" * 100, "\u00a0a\t", "k\u212a",
          "%_", "a.c", "数数"]  # fmt: skip
CELLS: dict[str, list[object]] = {
    "i": _SMALL,
    "j": _SMALL,
    "n": [-LONG, -LONG + 1, -(2**53) - 1, -1, 0, 1, 2, 40, 2**53 + 1, LONG - 1],
    "d": [NAN, INF, -INF, -0.0, 0.0, 5e-324, 0.1, 0.5, 1.5, 2.5, -2.5, 100.1, -100.0, 1e308,
          0.49999999999999994, 99.995, -99.5],
    "f": [NAN, INF, -INF, -0.0, 0.0, 5e-324, -5e-324, 1e308, -1e308, 2.5, -0.5, 2.0**53 + 2,
          9.3e18, 9223372036854774784.0, -9.3e18, 0.3, 1e15 + 0.5, 700.0],
    "m": list(map(Decimal, ("-9999999.99", "-49.99", "-0.50", "0", "0.05", "2.5", "49.99",
                            "9999999.99", "1.15", "-1.15"))),
    "w": list(map(Decimal, ("-99999999999999.9999", "-0.0001", "0", "1.5", "2.4999",
          "99999999999999.9999", "0.5"))),
    "s": _TEXTS,
    "t": _TEXTS,
    "b": [True, False],
    "c": [True, False],
    "day": _DAYS,
    "old": _DAYS,
    "far": _DAYS,
    "at": [-LONG, -1, 0, 946684800000000, 10**15, 1577880000000000, 951827696789012, LONG - 1],
    "nano": [-LONG, -LONG + 1, -LONG + 2, -1001, -1000, -999, -1, 0, 1, 999, 1000, LONG - 1,
             LONG - 2, 951827696789012345],
    "z": [-LONG, -LONG + 1, -1, LONG - 1, *CHANGES, 1003024800000000],
    "zf": [-LONG, -LONG + 1, -62135596800000001, -62135510400000000, -62135510400000001, -1, 0,
           253402214399999999, 253402214400000000, LONG - 1, LONG - 2, 1554566400000000 - 1,
           1554566400000000, 1570291200000000 - 1, 1570291200000000, -2400000000000000],
    "zn": [-LONG, -LONG + 1, -LONG + 2, -1001, -1000, -1, 0, 999, LONG - 2, LONG - 1,
           1583650799999999999, 1583650800000000000],
    "tod": [0, 1, 999999, 43200000000, 86399999999],
    "cat": [NAN, INF, -INF, -0.0, 0.5, 1.5, 2.5, -2.5, 1e300, -1e300, 9.3e18, 7.0, 100.4],
    "dec": list(map(Decimal, ("-9999999999999999999999999999.9999999999", "-2.5", "-0.5", "0.5",
                              "1.4999999999", "2.5", "9999999999999999999999999999", "7"))),
    "big": list(map(Decimal, ("-999999999999999999999999999999999999.99", "-0.01", "0", "2.5",
                              "999999999999999999999999999999999999.99"))),
    "u64": [0, 1, LONG - 1, LONG, 2 * LONG - 1],
    "tags": [[], ["a"], ["abcd", None], [None], ["a\0", ""], ["b"] * 99 + ["a"], ["ä"] * 99],
    "odds": [[], [NAN], [INF, -INF], [1.5, -0.0], [None, 1e300], [0.5] * 70],
    "uid": [UUID(int=0).bytes, UUID(int=2**128 - 1).bytes, UUID(int=2**127).bytes],
    "late": [-LONG, -LONG + 1, -62135596800000001, -62135596800000000, -1, 0, 1, 10**15,
             253402300799999999, 253402300800000000, LONG - 1, 951827696789012],
}  # fmt: skip
MEANT = {
    "CASE": [
        "CASE WHEN i > 3 THEN i WHEN b THEN n ELSE 7 END", "CASE WHEN b THEN m ELSE i END",
        "CASE i WHEN 1 THEN 'one' WHEN 7 THEN 'seven' END", "IF(b, d, f)", "IF(b, f, i)",
        "IF(c, day, far)", "CASE WHEN b THEN 0.5 WHEN c THEN 1 END", "IF(b, s, t)",
        "CASE WHEN s > t THEN b ELSE c END", "CASE WHEN b THEN 1 ELSE 0 END",
    ],
    "NULL": ["IF(b, NULL, i)", "CASE WHEN b THEN NULL WHEN c THEN t END", "COALESCE(NULL, n)"],
    "COALESCE": ["COALESCE(i, 0)", "IFNULL(d, 0)", "NVL(s, t, 'x')", "COALESCE(m, n)",
                 "COALESCE(far, day)", "COALESCE(b, c, FALSE)"],
    "NULLIF": ["NULLIF(i, j)", "NULLIF(f, d)", "NULLIF(s, '')", "NULLIF(w, 0.5)",
               "NULLIF(day, DATE '2020-01-01')", "NULLIF(b, c)"],
    "GREATEST": ["GREATEST(i, j, 3)", "GREATEST(n, 0)", "GREATEST(d, f)", "GREATEST(m, w, n)",
                 "GREATEST(s, t)", "GREATEST(day, far)", "GREATEST(b, c)"],
    "LEAST": ["LEAST(i, j)", "LEAST(n, 100)", "LEAST(f, 1e300)", "LEAST(m, w)",
              "LEAST(t, 'b')", "LEAST(at, at + INTERVAL 1 DAY)"],
    "ABS": ["ABS(i)", "ABS(n)", "ABS(n * 4)", "ABS(d)", "ABS(f)", "ABS(m)", "ABS(w)",
            "ABS(f - f)"],
    "SIGN": ["SIGN(i)", "SIGN(n)", "SIGN(d)", "SIGN(f)", "SIGN(w)", "SIGN(n * n)"],
    "FLOOR": ["FLOOR(i)", "FLOOR(d)", "FLOOR(f)", "FLOOR(m)", "FLOOR(w)", "FLOOR(n)",
              "FLOOR(f * 1e308 * 0)", "FLOOR(d / 7)", "FLOOR(d * 1e308 * 10 * 1e-309)"],
    "CEIL": ["CEIL(d)", "CEILING(f)", "CEIL(m)", "CEIL(w)", "CEIL(-d)"],
    "TRUNC": ["TRUNC(d)", "TRUNC(f)", "TRUNC(m)", "TRUNC(w)", "TRUNC(n)"],
    "ROUND": ["ROUND(d)", "ROUND(f)", "ROUND(m)", "ROUND(w)", "ROUND(i, 2)", "ROUND(d, 2)",
              "ROUND(f, 3)", "ROUND(m, 1)", "ROUND(w, 2)", "ROUND(w, 15)", "ROUND(f, 15)"],
    "SQRT": ["SQRT(i)", "SQRT(n)", "SQRT(d)", "SQRT(f)", "SQRT(m)", "SQRT(SQRT(f)) + 1"],
    "LN": ["LN(i)", "LN(f)", "LN(w)"],
    "LOG10": ["LOG10(d)", "LOG(f)", "LOG(n)"],
    "LOG2": ["LOG2(d)", "LOG2(f)"],
    "EXP": ["EXP(d)", "EXP(f)", "EXP(i)", "EXP(f - f)"],
    "POWER": ["POWER(i, 2)", "POWER(f, d)", "POWER(d, 3)", "POW(f, -1)", "POWER(i, j)",
              "POWER(d, 0.5)", "POWER(f, f)"],
    "LOWER": ["LOWER(s)", "LCASE(t)"],
    "UPPER": ["UPPER(t)", "UCASE(s)"],
    "LENGTH": ["LENGTH(s)", "LEN(t)", "CHAR_LENGTH(t)"],
    "SUBSTRING": ["SUBSTRING(t, 2)", "SUBSTR(t, 1, 2)", "SUBSTRING(t, 1000000, 1000000)",
                  "SUBSTRING(t, 3, 0)"],
    "LEFT": ["LEFT(t, 0)", "LEFT(t, 2)", "LEFT(t, 1000000)"],
    "RIGHT": ["RIGHT(t, 0)", "RIGHT(t, 2)", "RIGHT(t, 1000000)"],
    "TRIM": ["TRIM(t)", "TRIM(t, 'aA ')", "BTRIM(t, '-')"],
    "LTRIM": ["LTRIM(t)", "LTRIM(t, '09')"],
    "RTRIM": ["RTRIM(t)", "RTRIM(t, 'bcé')"],
    "REPLACE": ["REPLACE(t, 'a', '')", "REPLACE(t, 'aa', 'b')", "REPLACE(t, 'A', 'xyz')"],
    "REGEXP_REPLACE": ["REGEXP_REPLACE(t, '^(.).*$', '\\1')", "REGEXP_REPLACE(s, '-?', '+')",
                       "REGEXP_REPLACE(t, '([a-z])(\\d|[A-Z])', '\\2\\1', 'g')",
                       "REGEXP_REPLACE(t, '\\s+|\\\\', '\\\\\\0', 'g')"],
    "SPLIT_PART": ["SPLIT_PART(t, '-', 1)", "SPLIT_PART(t, '-', 3)", "SPLIT_PART(t, 'aa', 2)"],
    "AMONG_PARTS": [
        "s IN UNNEST(SPLIT(t, '-'))", "'' IN UNNEST(string_split(t, 'aa'))",
        "EXISTS (SELECT 1 FROM UNNEST(string_split(t, 'a')) u(v) WHERE s = v AND t > 'a')",
    ],
    "CONCAT": ["CONCAT(s, t)", "CONCAT(s, '-', t, s)"],
    "JOIN": ["s || t", "s || '-' || t"],
    "STARTS_WITH": ["STARTS_WITH(t, 'a')", "PREFIX(t, s)"],
    "ENDS_WITH": ["ENDS_WITH(t, s)", "SUFFIX(t, '')"],
    "CONTAINS": ["CONTAINS(t, s)", "CONTAINS(t, 'A')"],
    "STRPOS": ["STRPOS(t, s)", "INSTR(t, '')", "STRPOS(t, 'b')"],
    "LIKE": ["t LIKE 'a%'", "t LIKE '%a%c'", "t LIKE '_'", "t LIKE '%%b_%'", "t NOT LIKE ''",
             "t LIKE '%'", "t LIKE '\\%_'", "t LIKE 'a.c'", "t LIKE 'a_b'", "t LIKE '%-%-%'"],
    "ILIKE": ["t ILIKE 'A%'", "t ILIKE '%É'", "t NOT ILIKE 'k_'", "t ILIKE '%B%'"],
    "REGEXP_MATCHES": [
        "REGEXP_MATCHES(t, '^a')", "REGEXP_LIKE(t, 'b$')", "REGEXP_MATCHES(t, '')",
        r"REGEXP_CONTAINS(t, '\d+')", r"REGEXP_MATCHES(t, '\s')", "REGEXP_MATCHES(t, '[^a-z]')",
        r"REGEXP_MATCHES(t, '(a|b){2,}')", r"REGEXP_MATCHES(t, '[\w.\-]+\.c?')",
        "REGEXP_MATCHES(t, '[[]|[\\]x]')", "REGEXP_MATCHES(t, '(a*)*$')",
        "REGEXP_MATCHES(t, '[a-]')", "REGEXP_MATCHES(t, '.')",
    ],
    "REGEXP_FULL_MATCH": ["t SIMILAR TO '[a-z]+'", "t NOT SIMILAR TO '.*'",
                          "REGEXP_FULL_MATCH(t, 'a.?b?')", "t SIMILAR TO 'a|abc'",
                          "t SIMILAR TO '^a$|数{2}'"],
    **{
        part: [f"{part}(day)", f"{part}(far)", f"{part}(old)", f"{part}(at)", f"{part}(late)"]
        for part in ("YEAR", "MONTH", "DAY", "QUARTER", "DAYOFWEEK", "ISODOW", "DAYOFYEAR",
                     "WEEK", "ISOYEAR", "EPOCH")
    },
    **{part: [f"{part}(at)", f"{part}(late)"] for part in ("HOUR", "MINUTE", "SECOND")},
    "DATE_TRUNC": [
        f"DATE_TRUNC('{unit}', {of})"
        for unit in ("year", "quarter", "month", "week", "day")
        for of in ("day", "far", "old", "at", "late")
    ] + ["DATE_TRUNC('hour', late)", "DATE_TRUNC('hour', day)", "DATE_TRUNC('MINUTE', at)",
         "DATE_TRUNC('second', at)"],
    "DATE_DIFF": [
        *(f"DATE_DIFF('{unit}', day, far)" for unit in ("year", "quarter", "month", "day")),
        *(f"DATEDIFF('{unit}', at, late)" for unit in ("year", "month", "day", "hour")),
        "DATEDIFF('second', at, late)",
        "day - old", "DATE_DIFF('minute', late, at)", "DATE_DIFF('hour', day, old)",
    ],
    "DATE_ADD": ["day + INTERVAL 3 MONTH", "day - INTERVAL '13 months'",
                 "day + INTERVAL 1 YEAR", "at + INTERVAL 90 MINUTE",
                 "DATE_ADD(day, INTERVAL '2' WEEK)",
                 "at - INTERVAL 1 QUARTER", "at + INTERVAL 10 DAYS", "day - INTERVAL 1 DAY"],
    "DAYS_ON": ["day + i", "day - 30", "day - i"],
    **{name: [f"{name}({column})" for column in ("day", "old", "far", "at", "late")]
       for name in ("DAYNAME", "MONTHNAME")},
    "STRFTIME": [
        *(f"STRFTIME({column}, '%Y-%m-%d %H:%M:%S')"
          for column in ("day", "old", "far", "at", "late")),
        *(f"STRFTIME({column}, '%y %B %b %j %A %a %u %w %G-%V %I%p 100%% of it''s')"
          for column in ("day", "old", "late")),
        "STRFTIME(at, 'none') || STRFTIME(at, ' ')",
    ],
    "LAST_DAY": ["LAST_DAY(day)", "LAST_DAY(far)", "LAST_DAY(at)"],
    "TO_INTEGER": ["CAST(d AS INTEGER)", "f::BIGINT", "TRY_CAST(t AS INTEGER)", "m::INTEGER",
                   "w::INT", "b::INTEGER", "CAST(d / 3 AS BIGINT)", "CAST(ROUND(f) AS BIGINT)"],
    "TO_NARROW": ["n::TINYINT", "d::UTINYINT", "f::INTEGER", "t::SMALLINT", "n::UINTEGER"],
    "TO_FLOAT": ["f::FLOAT", "d::REAL", "CAST(i AS FLOAT)", "n::FLOAT", "(f * 1e-30)::FLOAT"],
    "TO_TEXT": ["CAST(i AS TEXT)", "n::VARCHAR", "m::TEXT", "w::TEXT", "b::TEXT", "day::TEXT",
                "far::TEXT"],
    "LOCAL": ["z AT TIME ZONE 'Europe/Paris'", "zf AT TIME ZONE 'UTC'", "zf::TIMESTAMP",
              "zn AT TIME ZONE 'Pacific/Apia'", "HOUR(zf)", "MINUTE(zn)", "YEAR(zf)", "z::DATE",
              "DATE_TRUNC('month', zf)", "DATE_TRUNC('day', z)", "STRFTIME(zf, '%Y-%m-%d %H')",
              "DATE_DIFF('day', z, zf)", "z + INTERVAL 2 DAY", "DAYNAME(zn)", "LAST_DAY(zf)",
              "at AT TIME ZONE 'Europe/Berlin' AT TIME ZONE 'America/New_York'",
              "DATE_TRUNC('day', at AT TIME ZONE 'Europe/Berlin')",
              "late::TIMESTAMPTZ AT TIME ZONE 'Australia/Lord_Howe'"],
    "INSTANT": ["at AT TIME ZONE 'Europe/Berlin'", "late AT TIME ZONE 'America/New_York'",
                "at::TIMESTAMPTZ", "late AT TIME ZONE 'UTC'",
                "CAST(at AS TIMESTAMP WITH TIME ZONE)",
                "z AT TIME ZONE 'Europe/Paris' AT TIME ZONE 'Europe/Berlin'",
                "nano AT TIME ZONE 'Australia/Lord_Howe'", "day::TIMESTAMPTZ"],
    "CLOCK_TRUNC": [f"DATE_TRUNC('{unit}', {of})" for unit in ("hour", "minute", "second")
                    for of in ("z", "zf", "zn", "at AT TIME ZONE 'Europe/Berlin'")],
    "LIST_CONTAINS": ["LIST_CONTAINS(tags, 'a')", "ARRAY_HAS(tags, s)", "LIST_HAS(odds, 1.5)",
                      "'abc' IN UNNEST(tags)", "d IN UNNEST(odds)"],
    "LIST_LENGTH": ["LEN(tags)", "LENGTH(odds)"],
    "TO_DATE": ["at::DATE", "CAST(late AS DATE)"],
    "TO_TIMESTAMP": ["day::TIMESTAMP", "CAST(far AS TIMESTAMP)"],
}  # fmt: skip
MIXED = [
    "i IS DISTINCT FROM j",
    "d IS NOT DISTINCT FROM f",
    "s IS NOT DISTINCT FROM NULL",
    "b IS TRUE",
    "b IS NOT FALSE",
    "i::DOUBLE",
    "b::DOUBLE",
    "i::BOOLEAN",
    "w::DECIMAL(18,1)",
    "i::DECIMAL(9,2)",
    "EXTRACT(year FROM day)",
    *("HOUR(tod)", "MINUTE(tod)", "SECOND(tod)", "COALESCE(tod, TIME '12:00')"),
    *("EPOCH(zn)", "EPOCH(zf)", "DATE_DIFF('hour', z, zf)", "z + INTERVAL 3 HOUR"),
    *("GREATEST(z, zn)", "COALESCE(z, zn)", "z < zf", "zf >= '2019-04-07 02:15:00'"),
    *("zn = TIMESTAMPTZ '1970-01-01 00:00:00Z'", "nano < TIMESTAMP '1970-01-01'"),
    *("COALESCE(nano, at)", "YEAR(nano)", "tod > TIME '11:59:59.999999'"),
    *("cat + 1", "dec * 2", "cat // 7", "uid || 'x'", "LEFT(uid, 3)", "u64 > 5", "u64 * 2"),
    *("big > 0.5", "COALESCE(big, 1.5)", "ABS(u64)", "FLOOR(dec)", "SIGN(big)"),
    "DATE_PART('dow', at)",
    "i // j",
    "i % j",
    "n // -1",
    "n % i",
    "d / i",
    "d / 7",
    "MONTH(DATE_TRUNC('year', far))",
    "LEAST(GREATEST(n, 0), 100) * 3",
    "LENGTH(LOWER(t) || s)",
    "ROUND(ABS(d - 0.5) * 2, 1)",
    "CASE WHEN LN(f) > 1 THEN FLOOR(SQRT(ABS(d))) ELSE YEAR(day) END",
]


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    """Write every edge of every column, beside the edges of others and NULL, in 600 rows."""
    random, rows = Random(5), 600
    columns = {}
    for name, type_ in zip(SCHEMA.names, SCHEMA.types, strict=True):
        cells = [None, *CELLS[name]]
        listed = cells + [random.choice(cells) for _ in range(rows - len(cells))]
        random.shuffle(listed)
        if name == "tod":
            columns[name] = pa.array(listed, pa.int64()).cast(type_)
        elif name in {"day", "old", "far"}:
            columns[name] = pa.array(listed, pa.int32()).cast(type_)
        elif name in {"at", "late", "nano", "z", "zf", "zn"}:
            columns[name] = pa.array(listed, pa.int64()).cast(type_)
        else:
            columns[name] = pa.array(listed, type_)
    found = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pq.write_table(pa.table(columns, schema=SCHEMA), found, row_group_size=100)
    return found


@pytest.fixture(scope="module")
def table(path: Path) -> Table:
    return private_table([path], COLUMNS, unit=None)


@pytest.fixture(scope="module")
def connection(table: Table) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give one instance over the rows to all: to start it takes longer than to ask it."""
    with start() as opened:
        attach(opened, [table])
        define(opened, table, fingerprint(table))
        yield opened


def bound(text: str, table: Table) -> Expr:
    query = parse(Source(f"SELECT DP_COUNT({text}, eps=1) FROM t"))
    call = query.query.expressions[0]
    return Conditions(scope_of(table), query.spans).bind(call.expressions[0])


def inside(expr: Expr):
    yield expr
    for child in children(expr):
        yield from inside(child)


def plain(value: object) -> object:
    match value:
        case date() | time():
            return ordinal(value)
        case Decimal():
            return Fraction(value)
    return value


def same(one: object, other: object, *, exact: bool) -> bool:
    if isinstance(one, float) and isinstance(other, float) and not exact:
        return one == other or abs(one - other) <= 1e-12 * abs(one)
    return one == other and type(one) is type(other)


KINDS = {
    Kind.INTEGER: int, Kind.DOUBLE: float, Kind.DECIMAL: Fraction, Kind.TEXT: str,
    Kind.BOOLEAN: bool, Kind.DATE: int, Kind.TIMESTAMP: int, Kind.TIMESTAMPTZ: int,
    Kind.TIME: int,
}  # fmt: skip
TEXTS = [text for texts in MEANT.values() for text in texts] + MIXED


def test_every_function_is_here():
    assert set(MEANT) == {function.name for function in rowfunctions.ALL}
    table = private_table([Path("t.parquet")], COLUMNS, unit=None)
    for name, texts in MEANT.items():
        for text in texts:
            applied = {e.function for e in inside(bound(text, table)) if isinstance(e, Apply)}
            assert name in applied, (name, text)


@pytest.mark.parametrize("text", TEXTS)
def test_both_engines_give_one_value_and_it_is_in_its_range(
    table: Table, connection: duckdb.DuckDBPyConnection, text: str
):
    expr = bound(text, table)
    rows = quoted(view_name(table))
    sql = Place(table, rows).value(expr)
    clocks = {Kind.TIMESTAMP, Kind.TIMESTAMPTZ, Kind.TIME}
    shown = f"epoch_us({sql})" if expr.type.kind in clocks else sql
    shown = f"({sql}) - CAST('1970-01-01' AS DATE)" if expr.type == DATE else shown
    query = f"SELECT {shown} FROM {rows} WHERE {sql} IS NULL OR TRUE"
    read = parsed(connection, f"SELECT {sql}")["select_list"]
    require_expression(read, {c.name for c in COLUMNS}, ROW_FUNCTIONS)
    found = [plain(value) for (value,) in connection.execute(query).fetchall()]
    connection.execute(f"SELECT {shown} FROM {rows} WHERE FALSE")
    names = [name for _, name in columns_of(expr)]
    rows = [{(0, name): row[name] for name in names} for _, row in read_rows(table, names)]
    applied = [e for e in inside(expr) if isinstance(e, Apply)]
    exact = all(rowfunctions.named(e.function).exact for e in applied)
    for value, row in zip(found, rows, strict=True):
        wanted = evaluate(expr, row)
        if expr.type.kind is Kind.DECIMAL and wanted is not None:
            wanted = Fraction(wanted)
        assert same(value, wanted, exact=exact), (text, sql, dict(row), value, wanted)
        require_inside(expr, value)
        assert value is None or isinstance(value, KINDS[expr.type.kind]), (text, value)
    assert any(value is not None for value in found)


@pytest.mark.parametrize("name", MEANT)
def test_a_row_function_states_the_functions_that_its_text_calls(
    table: Table, connection: duckdb.DuckDBPyConnection, name: str
):
    """So that the closed list of the engine follows from the registry."""
    called, function = set[str](), rowfunctions.named(name)
    for text in MEANT[name]:
        for one in inside(bound(text, table)):
            if isinstance(one, Apply) and one.function == name:
                sql = function.sql(one, *["x"] * len(one.arguments))
                found = walk(parsed(connection, f"SELECT {sql}"))
                called |= {n["function_name"] for n in found if "function_name" in n}
    assert called <= set(function.calls or [name.lower()])


@pytest.mark.parametrize("name", ["LOCAL", "INSTANT", "CLOCK_TRUNC"])
def test_a_moment_stands_in_the_text_no_more_often_than_is_counted(table: Table, name: str):
    function = rowfunctions.named(name)
    for text in MEANT[name]:
        for one in inside(bound(text, table)):
            if isinstance(one, Apply) and one.function == name:
                at = next(
                    n for n, a in enumerate(one.arguments) if a.type.kind is not Kind.TEXT
                )
                texts = ["?" if n == at else "x" for n in range(len(one.arguments))]
                assert 0 < function.sql(one, *texts).count("?") <= function.repeated(one)


def require_inside(expr: Expr, value: object) -> None:
    """Hold a value against the stated range; computed doubles are cut to it later."""
    if isinstance(value, str):
        assert len(value) <= longest_of(expr)
    if value is None or isinstance(value, bool | str):
        return
    assert isinstance(value, int | float | Fraction)
    computed = expr.type == DOUBLE
    if computed and any(isinstance(e, Arithmetic) for e in inside(expr)):
        return
    slack = 1e-9 * abs(value) if computed and abs(value) < INF else 0
    low, high = expr.domain.low, expr.domain.high
    assert low is None or low - slack <= value, (expr, value)
    assert high is None or value <= high + slack, (expr, value)
