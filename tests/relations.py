"""Random relations over two private tables and a public one, as SQL text.

Each has the columns unit, i and j (integers), d (a double) and k (a text), so that any can
stand in the place of any other; what is computed from them grows from level to level.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from dpquery.policy.model import Bounds, Column, Files, Policy, Table
from dpquery.privacy import Neighbours
from dpquery.types import BOOLEAN, DOUBLE, INTEGER, TEXT
from tests.neighbours import Row
from tests.worlds import policy_of, private_table

__all__ = ["COLUMNS", "SCHEMA", "policy_over", "queries", "row"]

NAN, INF = float("nan"), float("inf")
SCHEMA = pa.schema(
    {
        "unit": pa.int64(),
        "i": pa.int32(),
        "j": pa.int64(),
        "d": pa.float64(),
        "k": pa.string(),
        "b": pa.bool_(),
    }
)
COLUMNS = (
    Column("unit", INTEGER),
    Column("i", INTEGER, Bounds(-5, 100)),
    Column("j", INTEGER, Bounds(0, 9)),
    Column("d", DOUBLE, Bounds(Fraction(-100), Fraction(100)), grid=Fraction(1, 4)),
    Column("k", TEXT, keys=("a", "b", "abc"), max_length=3),
    Column("b", BOOLEAN),
)
_CELLS: dict[str, list[object]] = {
    "i": [-(2**31), -6, -1, 0, 1, 7, 101],
    "j": [-(2**63), -1, 0, 1, 2, 9, 2**63 - 1],
    "d": [NAN, INF, -INF, -0.0, 0.0, 5e-324, 0.1, 1e308, 2.5],
    "k": ["a", "b", "abc", "abcd", "", "A"],
    "b": [True, False],
}
_REGIONS = {
    "name": ["a", "b", "abc", ""],
    "zone": ["a", "b", "b", None],
    "size": [3, None, -1, 8],
    "share": [0.5, NAN, -0.0, None],
}


def row(random: Random) -> Row:
    """Make a row; small domains, so that joins and groups meet."""
    return {name: random.choice([None, *cells]) for name, cells in _CELLS.items()}


def policy_over(paths: dict[str, list[Path]], place: Path, neighbours: Neighbours) -> Policy:
    """Give a policy over tables t and s, which share their units, and regions."""
    pq.write_table(pa.table(_REGIONS), place / "regions.parquet")
    tables = {
        name: Table(
            name, Files(tuple(files)), (), {c.name: c for c in COLUMNS}, "unit", INTEGER
        )
        for name, files in paths.items()
    }
    regions = Table(
        "regions",
        Files((place / "regions.parquet",)),
        (),
        {},
        public=True,
        unique=("name",),
    )
    base = policy_of(private_table([place], COLUMNS), neighbours)
    return Policy(
        base.name, neighbours, base.budget, {**tables, "regions": regions}, base.ledger
    )


_COMPARED = st.sampled_from(["<", "=", ">=", "<>"])
_NUMBERS = st.sampled_from(["0", "1", "7", "-1"])
_SIMPLE = st.one_of(
    st.builds("{}i {} {}".format, st.just("{0}"), _COMPARED, _NUMBERS),
    st.builds("{}j {} {}i".format, st.just("{0}"), _COMPARED, st.just("{0}")),
    st.builds("{}d {} 0.1".format, st.just("{0}"), _COMPARED),
    st.sampled_from(["{0}k = 'a'", "{0}k IS NOT NULL", "{0}i IS NULL", "{0}k <> 'b'"]),
)


@st.composite
def conditions(draw: st.DrawFn, alias: str = "") -> str:
    """Draw a condition over a relation's columns."""
    parts = draw(st.lists(_SIMPLE, min_size=1, max_size=2))
    text = draw(st.sampled_from([" AND ", " OR "])).join(parts)
    return text.format(f"{alias}." if alias else "")


@st.composite
def relations(draw: st.DrawFn, depth: int) -> str:
    """Draw a relation with the five columns: a table, or a query in brackets."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from(["t", "s"]))
    kind = draw(st.sampled_from(list(_FORMS)))
    return f"({draw(_FORMS[kind](depth - 1))})"


@st.composite
def _filtered(draw: st.DrawFn, depth: int) -> str:
    where = draw(conditions())
    columns = draw(
        st.sampled_from(
            ["*", "unit, j AS i, i AS j, d, k", "unit, i + j AS i, j, d * 2e0 AS d, k"]
        )
    )
    if columns == "*":
        columns = "unit, i, j, d, k"
    return f"SELECT {columns} FROM {draw(relations(depth))} q WHERE {where}"


@st.composite
def _joined(draw: st.DrawFn, depth: int) -> str:
    left, right = draw(relations(depth)), draw(relations(depth))
    kinds = [("JOIN", "x."), ("LEFT JOIN", "x."), ("RIGHT JOIN", "y."), ("FULL JOIN", "")]
    kind, kept = draw(st.sampled_from(kinds))
    on = "ON x.unit = y.unit"
    if not kept or draw(st.booleans()):
        on, kept = "USING (unit)", ""
    elif draw(st.booleans()):
        on += f" AND x.i {draw(_COMPARED)} y.j"
    return (
        f"SELECT {kept}unit AS unit, x.i AS i, y.j AS j, y.d AS d, x.k AS k "
        f"FROM {left} x {kind} {right} y {on}"
    )


@st.composite
def _semi(draw: st.DrawFn, depth: int) -> str:
    left, right = draw(relations(depth)), draw(relations(depth))
    where = draw(
        st.sampled_from(
            [
                "x.unit IN (SELECT unit FROM {0} y WHERE {1})",
                "x.unit NOT IN (SELECT unit FROM {0} y WHERE {1})",
                "EXISTS (SELECT 1 FROM {0} y WHERE y.unit = x.unit AND ({1}))",
                "NOT EXISTS (SELECT 1 FROM {0} y WHERE y.unit = x.unit AND ({1}))",
            ]
        )
    ).format(right, draw(conditions("y")))
    return f"SELECT unit, i, j, d, k FROM {left} x WHERE {where} AND ({draw(conditions('x'))})"


@st.composite
def _public(draw: st.DrawFn, depth: int) -> str:
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN"]))
    more = draw(st.sampled_from(["", " AND r.size > x.i"]))
    return (
        f"SELECT x.unit AS unit, r.size AS i, x.j AS j, r.share AS d, r.zone AS k "
        f"FROM {draw(relations(depth))} x {kind} regions r ON x.k = r.name{more}"
    )


@st.composite
def _union(draw: st.DrawFn, depth: int) -> str:
    return (
        f"SELECT unit, i, j, d, k FROM {draw(relations(depth))} x "
        f"UNION ALL SELECT unit, j, i, d, k FROM {draw(relations(depth))} y"
    )


@st.composite
def _per_unit(draw: st.DrawFn, depth: int) -> str:
    key, k = draw(st.sampled_from([("", "MAX(k)"), (", k", "k")]))
    i = draw(st.sampled_from(["COUNT(*)", "SUM(i)", "MAX(i)", "COUNT(DISTINCT k)"]))
    j = draw(st.sampled_from(["MIN(j)", "COUNT(d) FILTER (WHERE i > 0)", "COUNT(j)"]))
    d = draw(st.sampled_from(["AVG(i)", "MAX(d)", "MIN(d)"]))
    having = draw(st.sampled_from(["", " HAVING COUNT(*) > 1", " HAVING BOOL_OR(i > 0)"]))
    return (
        f"SELECT unit, {i} AS i, {j} AS j, {d} AS d, {k} AS k "
        f"FROM {draw(relations(depth))} x GROUP BY unit{key}{having}"
    )


@st.composite
def _sums_of_doubles(draw: st.DrawFn, depth: int) -> str:
    """Sums of doubles need bounds: of a table's column, they are the policy's."""
    what = draw(st.sampled_from(["SUM", "AVG"]))
    table = draw(st.sampled_from(["t", "s"]))
    del depth
    return (
        f"SELECT unit, COUNT(*) AS i, MAX(j) AS j, {what}(d) AS d, k "
        f"FROM {table} GROUP BY unit, k"
    )


@st.composite
def _distinct(draw: st.DrawFn, depth: int) -> str:
    return f"SELECT DISTINCT unit, i, j, d, k FROM {draw(relations(depth))} x"


@st.composite
def _window(draw: st.DrawFn, depth: int) -> str:
    part = draw(st.sampled_from(["unit", "unit, k"]))
    order = draw(st.sampled_from(["i", "d DESC", "k, i", "j NULLS FIRST"]))
    number = draw(
        st.sampled_from(
            ["row_number()", "rank()", "dense_rank()", "ntile(3)", "lag(i)", "lead(j, 2)"]
        )
    )
    total = draw(st.sampled_from(["COUNT(*)", "MAX(j)", "SUM(i)"]))
    return (
        f"SELECT unit, {number} OVER (PARTITION BY {part} ORDER BY {order}) AS i, "
        f"{total} OVER (PARTITION BY {part}) AS j, d, k FROM {draw(relations(depth))} x"
    )


@st.composite
def _first(draw: st.DrawFn, depth: int) -> str:
    order = draw(st.sampled_from(["i", "d", "j DESC, k"]))
    return (
        f"SELECT unit, i, j, d, k FROM {draw(relations(depth))} x "
        f"QUALIFY row_number() OVER (PARTITION BY unit ORDER BY {order}) <= 2"
    )


_FORMS = {
    "filter": _filtered,
    "join": _joined,
    "semi": _semi,
    "public": _public,
    "union": _union,
    "per unit": _per_unit,
    "sums": _sums_of_doubles,
    "distinct": _distinct,
    "window": _window,
    "first": _first,
}

_CALLS = st.sampled_from(
    [
        "DP_COUNT(*, eps=0.1)",
        "DP_COUNT(j, eps=0.1, max_rows_contributed=3)",
        "DP_SUM(i, eps=0.1, bounds=[-7, 30])",
        "DP_SUM(j, eps=0.1, bounds=[-2, 5], max_rows_contributed=2)",
        "DP_AVG(d, eps=0.1, bounds=[-3, 5])",
        "DP_MEDIAN(i, eps=0.1, bounds=[-7, 30])",
        "DP_COUNT_IF(k = 'a', eps=0.1)",
        "DP_VAR_POP(j, eps=0.1, bounds=[0, 9])",
        "DP_SUM(i, eps=0.1, bounds=[0, 4]) FILTER (WHERE j > 0)",
    ]
)


@st.composite
def queries(draw: st.DrawFn, depth: int = 3) -> str:
    """Draw a query over a relation, with groups or without."""
    calls = ", ".join(draw(st.lists(_CALLS, min_size=1, max_size=2)))
    if draw(st.integers(0, 5)) == 0:
        left, right = draw(relations(depth - 1)), draw(relations(depth - 1))
        calls = calls.replace("(i,", "(x.i,").replace("(j,", "(y.j,").replace("(d,", "(y.d,")
        calls = calls.replace("(k ", "(x.k ").replace("WHERE j", "WHERE y.j")
        return f"SELECT {calls} FROM {left} x FULL JOIN {right} y ON x.unit = y.unit"
    relation = draw(relations(depth))
    groups = draw(st.sampled_from(["", "k", "j"]))
    if not groups:
        return f"SELECT {calls} FROM {relation} x"
    listed = {"k": "'a', 'b'", "j": "0, 1, 9"}[groups]
    return f"SELECT {calls} FROM {relation} x WHERE {groups} IN ({listed}) GROUP BY {groups}"
