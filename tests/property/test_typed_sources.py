"""Rows of every type, in every kind of source: the same integers, and bounded ones.

The oracle reads rows from Parquet, value by value. From lines of text, databases, frames and
folders DuckDB has to make the same of them, whatever the values are, and a unit that comes or
goes moves no release by more than claimed.
"""

from __future__ import annotations

import json
import re
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from random import Random
from urllib.parse import quote
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import EPOCH
from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.engine.file_checks import require_fit
from dpquery.policy.load import load_policy
from dpquery.policy.model import Frame, Policy
from dpquery.policy.sources.data_frames import read_frame
from tests.neighbours import drawn, require_bounded_move
from tests.oracle.engine import PythonEngine
from tests.worlds import planned

INF = float("inf")
CLOCKS = [
    *(datetime.fromisoformat(f"2024-03-31 0{hour}:30") for hour in range(3)),  # no 2:30 there
    *(datetime.fromisoformat(f"2024-10-27 0{hour}:30:00.000001") for hour in range(3)),
    *(EPOCH.min, EPOCH.max, EPOCH.replace(year=1969)),
]
DAYS = [date(1, 1, 1), date(9999, 12, 31), date(2024, 2, 29), date(1969, 12, 31)]
VALUES: dict[str, tuple[pa.DataType, list[object]]] = {
    "n": (pa.int64(), [-(2**63), 2**63 - 1, 0, 3, -7, 99]),
    "p": (pa.int64(), [0, 1, 2]),
    "x": (pa.float64(), [float("nan"), INF, -INF, -0.0, 1e308, 5e-324, 2.5, -1.5]),
    "d": (pa.decimal128(38, 10),
          [Decimal(s) for s in ("9" * 28, "-" + "9" * 28, "0", "0.0000000001", "-0.5", "7")]),
    "u": (pa.uint64(), [0, 1, 2**63 - 1, 2**63, 2**64 - 1, 77]),
    "k": (pa.string(), ["b", "a", "", "a\0", 'ä,"|', "NULL", "x" * 300]),
    "b": (pa.bool_(), [True, False]),
    "day": (pa.date32(), DAYS),
    "at": (pa.timestamp("us"), CLOCKS),
    "z": (pa.timestamp("us", "UTC"), [one.replace(tzinfo=UTC) for one in CLOCKS]),
    "tod": (pa.time64("us"), [time(), time(23, 59, 59, 999999), time(12), time(2, 30)]),
    "id": (pa.string(), [str(UUID(int=0)), str(UUID(int=2**128 - 1)), str(UUID(int=2**127))]),
    "mood": (pa.string(), ["z", "a", "m"]),
    "city": (pa.string(), ["Bonn", "", "Ulm\0"]),
    "tags": (pa.list_(pa.string()), [["a", None, "b" * 99], [], ["a"] * 20_000, ["b", "a"]]),
}  # fmt: skip
"""What rows hold beside NULL, worst values first; `city` is a field of a structure."""
DECLARED = {
    "n": 'n = { type = "integer", bounds = [-5, 9] }',
    "p": 'p = { type = "integer", bounds = [0, 2] }',
    "x": 'x = { type = "double", bounds = [-2, 3], grid = 0.5 }',
    "d": 'd = { type = "decimal(38,10)", bounds = [-1, 8] }',
    "u": 'u = { type = "decimal(20,0)", bounds = [1, 100] }',
    "k": 'k = { type = "text", keys = ["", "a", "b", "NULL", "ä,\\"|"], max_length = 5 }',
    "b": 'b = { type = "boolean" }',
    "day": 'day = { type = "date" }',
    "at": 'at = { type = "timestamp", bounds = [1000-01-01T00:00:00, 3000-01-01T00:00:00] }',
    "z": 'z = { type = "timestamptz" }',
    "tod": 'tod = { type = "time" }',
    "id": 'id = { type = "text" }',
    "mood": 'mood = { type = "text", keys = ["a", "m", "z"] }',
    "city": '"address.city" = { type = "text", max_length = 4 }',
    "tags": 'tags = { type = "text[]", keys = ["a", "b"], max_length = 3 }',
}
POLICY = """
[privacy]
neighbours = "{neighbours}"
time_zone = "Europe/Berlin"
[budget]
epsilon = 9e9
[tables.t]
{source}
privacy_unit_column = "unit"
max_rows_contributed = 2
[tables.t.columns]
unit = {{ type = "integer" }}
"""
COUNT = "SELECT DP_COUNT(*, eps=1) FROM t WHERE "
QUERIES = [
    "SELECT DP_COUNT(*, eps=1), DP_COUNT(x, eps=1), DP_COUNT(DISTINCT k, eps=1) FROM t",
    "SELECT k, DP_COUNT(*, eps=1), DP_SUM(n, eps=1) FROM t GROUP BY k",
    "SELECT p, DP_SUM(x, eps=1) FROM t WHERE p >= 1 GROUP BY p",
    "SELECT DP_SUM(d, eps=1), DP_MEDIAN(x, eps=1) FROM t WHERE d > 0.00000000005",
    "SELECT DP_SUM(u, eps=1), DP_COUNT_IF(u > 76, eps=1) FROM t",
    "SELECT b, DP_AVG(n, eps=1) FROM t GROUP BY b",
    "SELECT DP_SUM(YEAR(day), eps=1, bounds=[0, 9999]) FROM t WHERE day <> DATE '2024-02-29'",
    COUNT + "day < DATE '0001-01-02' OR day > '9999-12-30'",
    "SELECT HOUR(at) AS h, DP_COUNT(*, eps=1) FROM t GROUP BY h",
    COUNT + "at AT TIME ZONE 'America/New_York' < '2024-10-27'",
    "SELECT HOUR(z) AS h, DP_COUNT(*, eps=1) FROM t GROUP BY h",
    COUNT + "z AT TIME ZONE 'Asia/Tokyo' >= '2024-03-31 09:30:00'",
    COUNT + "DATE_TRUNC('day', z) = TIMESTAMP '2024-10-27'",
    COUNT + "tod >= TIME '12:00:00'",
    "SELECT DP_SUM(MINUTE(tod), eps=1) FROM t",
    COUNT + "id > '7fffffff-ffff-ffff-ffff-ffffffffffff' AND LENGTH(id) = 36",
    COUNT + "mood > 'a'",  # as texts are ordered, and no enumeration
    "SELECT mood, DP_COUNT(*, eps=1) FROM t GROUP BY mood",
    COUNT + "address.city = 'Ulm' OR address.city IS NULL",
    "SELECT v, DP_COUNT(*, eps=1) FROM t, UNNEST(tags) AS e(v) GROUP BY v",
    "SELECT DP_SUM(LEN(tags), eps=1) FROM t WHERE LIST_CONTAINS(tags, 'a')",
    "SELECT DP_SUM(s, eps=1, bounds=[0, 9]) FROM "
    "(SELECT unit, COUNT(DISTINCT n) AS s FROM t GROUP BY unit)",
    "SELECT DP_SUM(n, eps=1) FROM (SELECT n, row_number() OVER "
    "(PARTITION BY unit ORDER BY x, k, n) AS r FROM t) q WHERE r <= 2",
]
NAMES = ["unit", *VALUES]
Rows = Sequence[dict[str, object]]


def _nested(rows: Rows, *without: str) -> pa.Table:
    """Return rows as files and frames hold them: a structure, and a type for each column."""
    columns: dict[str, pa.Array] = {
        name: pa.array([row[name] for row in rows], type_)
        for name, (type_, _) in {"unit": (pa.int64(), []), **VALUES}.items()
        if name not in without
    }
    city = columns.pop("city")
    return pa.table({**columns, "address": pa.StructArray.from_arrays([city], ["city"])})


def _parquet(place: Path, rows: Rows) -> str:
    pq.write_table(_nested(rows), place / "t.parquet", row_group_size=3)
    return 'path = "t.parquet"'


def _by_duckdb(place: Path, rows: Rows) -> str:
    """Write a file of which DuckDB reads every column, as none is a time of day."""
    pq.write_table(_nested(rows, "tod"), place / "d.parquet", row_group_size=3)
    return 'path = "d.parquet"'


def _folders(place: Path, rows: Rows) -> str:
    for value in (0, 1, 2, None):
        own = [row for row in rows if row["p"] == value]
        name = "__HIVE_DEFAULT_PARTITION__" if value is None else quote(str(value))
        (place / "h" / f"p={name}").mkdir(parents=True)
        pq.write_table(_nested(own, "p"), place / "h" / f"p={name}" / "0.parquet")
    return 'path = "h"'


def _stored(place: Path, rows: Rows) -> str:
    with closing(duckdb.connect(place / "t.duckdb")) as database:
        database.register("given", _nested(rows))
        database.execute("CREATE TYPE mood AS ENUM ('z', 'm', 'a')")
        made = "CAST(mood AS mood) AS mood, CAST(id AS UUID) AS id, CAST(n AS HUGEINT) AS n"
        database.execute(f"CREATE TABLE t AS SELECT * REPLACE ({made}) FROM given")
    return 'database = "t.duckdb"\ntable = "t"'


def _csv(place: Path, rows: Rows) -> str:
    def cell(value: object) -> str:
        if isinstance(value, str):
            return '"' + value.replace('"', '""') + '"'
        return "" if value is None else str(value)

    lines = [",".join([*NAMES[:-2], "address.city"])]
    lines += [",".join(cell(row[name]) for name in NAMES[:-1]) for row in rows]
    (place / "t.csv").write_bytes("\n".join(lines).encode("utf-8"))
    return 'path = "t.csv"'


def _json(place: Path, rows: Rows) -> str:
    def cell(value: object) -> object:
        plain = isinstance(value, (int, str)) or value is None
        return value if plain else str(value)

    lines = [
        json.dumps({re.sub("^city$", "address.city", n): cell(row[n]) for n in NAMES[:-1]})
        for row in rows
    ]
    (place / "t.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return 'path = "t.jsonl"'


def _sqlite(place: Path, rows: Rows) -> str:
    types = {"unit": "INTEGER", "n": "INTEGER", "p": "INTEGER", "x": "REAL", "k": "TEXT"}
    types |= {"b": "BOOLEAN", "day": "DATE", "at": "DATETIME", "id": "TEXT", "mood": "TEXT"}

    def cell(value: object) -> object:
        return value.isoformat(" ") if isinstance(value, datetime) else (
            value.isoformat() if isinstance(value, date) else value)  # fmt: skip

    with closing(sqlite3.connect(place / "t.db")) as database, database:
        database.execute(f"CREATE TABLE t ({', '.join(f'{n} {t}' for n, t in types.items())})")
        database.executemany(
            f"INSERT INTO t VALUES ({', '.join('?' * len(types))})",
            [[cell(row[name]) for name in types] for row in rows],
        )
    return 'database = "t.db"\ntable = "t"'


Source = tuple[Callable[[Path, Rows], str], frozenset[str]]
LINES = frozenset({"tags"})
SOURCES: dict[str, Source] = {
    "parquet": (_parquet, frozenset()),
    "parquet by DuckDB": (_by_duckdb, frozenset({"tod"})),
    "folders": (_folders, frozenset()),
    "frame": (_parquet, frozenset()),
    "duckdb": (_stored, frozenset()),
    "csv": (_csv, LINES),
    "json": (_json, LINES),
    "sqlite": (_sqlite, frozenset({"d", "u", "z", "tod", "tags", "city"})),
}
"""How rows are written, and which columns that cannot hold."""


def opened(place: Path, source: str, rows: Rows, neighbours: Neighbours) -> Policy:
    """Write rows into a source, and load a policy over it."""
    place.mkdir(exist_ok=True)
    write, lacks = SOURCES[source]
    text = POLICY.format(source=write(place, rows), neighbours=neighbours)
    text += "\n".join(line for name, line in DECLARED.items() if name not in lacks)
    (place / f"{source}.toml").write_text(text, "utf-8")
    policy = load_policy(place / f"{source}.toml")
    if source == "frame":
        held = replace(policy.tables["t"], source=Frame(read_frame(_nested(rows))))
        policy = replace(policy, tables={"t": held})
    return require_fit(policy, FaultLog(None))


def asked_of(source: str) -> dict[int, str]:
    """Return the queries that name no column which a source lacks, by number.

    In lines of text `address.city` is the name of a column, and no field of a structure.
    """
    lacks = "|".join(SOURCES[source][1] or {"no column"})
    asked = {at: q for at, q in enumerate(QUERIES) if not re.search(rf"\b({lacks})\b", q)}
    if source not in {"csv", "json"}:
        return asked
    return {at: q.replace("address.city", '"address.city"') for at, q in asked.items()}


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Rows], Neighbours]:
    random, neighbours = Random(draw(st.integers(0, 10**6))), draw(st.sampled_from(Neighbours))

    def unit_of(number: int) -> list[dict[str, object]]:
        return [
            {"unit": number}
            | {name: random.choice([None, *known]) for name, (_, known) in VALUES.items()}
            for _ in range(random.choice([1, 2, 4]))
        ]

    decks = {name: random.sample(known, len(known)) for name, (_, known) in VALUES.items()}
    shared = [row for number in (2, 3, 2**62, None) for row in unit_of(number)]
    shared += [
        {"unit": 4} | {name: deck[at % len(deck)] for name, deck in decks.items()}
        for at in range(max(map(len, decks.values())))
    ]  # every value is there
    sides = [unit_of(1), unit_of(1) if neighbours is Neighbours.SUBSTITUTE else []]
    for side in sides:
        side.extend(shared)
        random.shuffle(side)
    return sides, neighbours


def require_same(
    case: tuple[list[Rows], Neighbours], sources: Sequence[str], asked: Sequence[int]
) -> None:
    """Hold integers of sources against those of the oracle, and these against each other."""
    sides, neighbours = case
    found = []
    for rows in sides:
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            policy = opened(place, "parquet", rows, neighbours)
            plans = {at: planned(policy, QUERIES[at]) for at in asked}
            oracle = PythonEngine(policy, FaultLog(None))
            expected = {at: drawn(oracle, plan) for at, plan in plans.items()}
            for source in sources:
                own, log = opened(place, source, rows, neighbours), FaultLog(place / "faults")
                with closing(DuckDBEngine(own, log)) as engine:
                    own_queries = asked_of(source)
                    for at in expected.keys() & own_queries:
                        told = drawn(engine, planned(own, own_queries[at]))
                        assert told == expected[at], (source, own_queries[at])
            found.append([*expected.values()])
    for before, after in zip(*found, strict=True):
        require_bounded_move(before, after)


@pytest.mark.parametrize("source", SOURCES)
@settings(max_examples=1)
@given(case=cases())
def test_rows_of_every_type_are_read_alike_from_each_source(source, case):
    third = [*SOURCES].index(source) % 3
    asked = {1, *range(third, len(QUERIES), 3)}  # texts are grouped from each
    require_same(case, [source], sorted(asked))


@pytest.mark.slow
@settings(max_examples=40)
@given(cases())
def test_rows_of_every_type_are_read_alike_from_all_sources(case):
    require_same(case, [*SOURCES], range(len(QUERIES)))
