"""Random relations over two private tables and a public one, as SQL text.

Each has the columns unit, i and j (integers), d (a double), k (a text) and c (a day), so that
any can stand in the place of any other; what is computed from them grows from level to level.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import DATE, DOUBLE, INTEGER, TEXT
from dpquery.policy.model import Bounds, Column, Files, Policy, Table
from tests.neighbours import Row
from tests.worlds import policy_of, private_table

__all__ = [
    "COLUMNS",
    "LINKS",
    "SCHEMA",
    "TABLES",
    "conditions",
    "policy_over",
    "relations",
    "row",
]

TABLES = "tso"
"""Two tables of any number of rows of a unit, and one of at most one."""
NAN, INF = float("nan"), float("inf")
SCHEMA = pa.schema(
    {
        "unit": pa.int64(),
        "i": pa.int32(),
        "j": pa.int64(),
        "d": pa.float64(),
        "k": pa.string(),
        "c": pa.date32(),
    }
)
COLUMNS = (
    Column("unit", INTEGER),
    Column("i", INTEGER, Bounds(-5, 100)),
    Column("j", INTEGER, Bounds(0, 9)),
    Column("d", DOUBLE, Bounds(Fraction(-100), Fraction(100)), grid=Fraction(1, 4)),
    Column("k", TEXT, keys=("a", "b", "abc"), max_length=3),
    Column("c", DATE, Bounds(date(2020, 1, 1), date(2020, 3, 31))),
)
_PARTS = {("s", "k"): True, ("q", "k"): 2}
_CELLS: dict[str, list[object]] = {
    "i": [-(2**31), -6, -1, 0, 1, 7, 101],
    "j": [-(2**63), -1, 0, 1, 2, 9, 2**63 - 1],
    "d": [NAN, INF, -INF, -0.0, 0.0, 5e-324, 0.1, 1e308, 2.5],
    "k": ["a", "b", "abc", "abcd", "", "A"],
    "c": [-(2**31), -1, 18262, 18290, 18300, 18352, 2**31 - 1],
}
_REGIONS = {
    "name": ["a", "b", "abc", ""],
    "zone": ["a", "b", "b", None],
    "size": [3, None, -1, 8],
    "share": [0.5, NAN, -0.0, None],
    "since": [date(2020, 1, 1), date(2020, 2, 10), None, date(1, 1, 1)],
}


def row(random: Random) -> Row:
    """Make a row; small domains, so that joins and groups meet."""
    return {name: random.choice([None, *cells]) for name, cells in _CELLS.items()}


def policy_over(paths: dict[str, list[Path]], place: Path, neighbours: Neighbours) -> Policy:
    """Return a policy over tables that share their units, and regions.

    In o a unit has one row; in s those of one part alone count, and in q of two. In s NULL is
    no group.
    """
    pq.write_table(pa.table(_REGIONS), place / "regions.parquet")
    tables = {
        name: Table(
            name,
            Files(tuple(files)),
            (),
            {c.name: _column(c, name) for c in COLUMNS},
            "unit",
            INTEGER,
            single=name == "o",
            max_rows_contributed=1,
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


def _column(column: Column, table: str) -> Column:
    parts = _PARTS.get((table, column.name), False)
    return replace(column, per_unit=parts, null_group=table != "s")


_COMPARED = st.sampled_from(["<", "=", ">=", "<>"])
_NUMBERS = st.sampled_from(["0", "1", "7", "-1"])
_SIMPLE = st.one_of(
    st.builds("{}i {} {}".format, st.just("{0}"), _COMPARED, _NUMBERS),
    st.builds("{}j {} {}i".format, st.just("{0}"), _COMPARED, st.just("{0}")),
    st.builds("{}d {} 0.1".format, st.just("{0}"), _COMPARED),
    st.builds("{}c {} '2020-02-01'".format, st.just("{0}"), _COMPARED),
    st.sampled_from(["{0}k = 'a'", "{0}k IS NOT NULL", "{0}i IS NULL", "{0}k <> 'b'"]),
    st.sampled_from(["POWER({0}d, -1) > 0", "POWER({0}d, -1) < 0"]),
    st.sampled_from(
        [
            "{0}k IN (SELECT name FROM regions WHERE size > 0)",
            "{0}k NOT IN (SELECT zone FROM regions WHERE zone IS NOT NULL)",
            "CAST({0}j AS UTINYINT) < 2",
            "CAST({0}d AS FLOAT) > 0.1",
            "'b' IN UNNEST(string_split({0}k, 'a'))",
            "{0}j NOT IN UNNEST([{0}i, 1, 9])",
            "EXISTS (SELECT 1 FROM UNNEST([{0}d, -{0}d]) u(w) WHERE w >= 0.1 AND {0}j < 9)",
            "NOT EXISTS (SELECT 1 FROM UNNEST(string_split({0}k, 'b')) u(w) WHERE w = 'a')",
        ]
    ),
)
_SIGNED = st.sampled_from(
    [
        *("-d", "0e0 * d", "-(0e0 * d)", "d * -1e-320", "1 / d", "POWER(d, -1)", "POWER(d, 3)"),
        *("SQRT(d)", "ABS(d)", "SIGN(d) * 0e0", "ROUND(d / 1e3, 1)", "TRUNC(d / 1e3)"),
        *("CEIL(d - 0.5)", "FLOOR(-d)", "d - d", "COALESCE(-d, d)", "NULLIF(d, -1)"),
        *("GREATEST(-d, 0e0 * d)", "LEAST(d, 0)", "IF(i > 0, d, -d)", "i * d", "j / d"),
        *("CAST(i AS DOUBLE)", "CASE WHEN POWER(d, -1) > 0 THEN d ELSE -d END"),
    ]
)
"""Doubles of which many are zeros that an operation gives one sign or the other."""
_ZEROS = st.sampled_from(["0e0 * d", "-(0e0 * d)", "TRUNC(d / 1e3)", "ROUND(d / 1e3, 1)"])
_ALL = "unit, i, j, d, k, c"


@st.composite
def conditions(draw: st.DrawFn, alias: str = "") -> str:
    """Draw a condition over a relation's columns."""
    parts = draw(st.lists(_SIMPLE, min_size=1, max_size=2))
    text = draw(st.sampled_from([" AND ", " OR "])).join(parts)
    return text.format(f"{alias}." if alias else "")


@st.composite
def relations(draw: st.DrawFn, depth: int) -> str:
    """Draw a relation with the six columns: a table, or a query in brackets."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from(["t", "s", "t", "s", "o"]))
    kind = draw(st.sampled_from(list(_FORMS)))
    return f"({draw(_FORMS[kind](depth - 1))})"


@st.composite
def _filtered(draw: st.DrawFn, depth: int) -> str:
    where = draw(conditions())
    columns = draw(
        st.sampled_from(
            [
                _ALL,
                "unit, j AS i, i AS j, d, k, c",
                "unit, i + j AS i, j, d * 2e0 AS d, k, c",
                "unit, CAST(i AS TINYINT) AS i, CAST(j AS UTINYINT) AS j, "
                "CAST(d AS FLOAT) AS d, k, c",
                "unit, i, j // 3 AS j, d, UPPER(k) AS k, DATE_TRUNC('month', c) AS c",
                "unit, COALESCE(i, 0) AS i, j, NULLIF(d, 0) AS d, "
                "CASE WHEN i > 3 THEN 'a' WHEN j = 1 THEN k END AS k, c",
            ]
        )
    )
    return f"SELECT {columns} FROM {draw(relations(depth))} q WHERE {where}"


@st.composite
def _joined(draw: st.DrawFn, depth: int) -> str:
    left, right = draw(relations(depth)), draw(relations(depth))
    kinds = [("JOIN", "x."), ("LEFT JOIN", "x."), ("RIGHT JOIN", "y."), ("FULL JOIN", "")]
    kind, kept = draw(st.sampled_from(kinds))
    on = "ON x.unit = y.unit"
    if not kept or draw(st.booleans()):
        on, kept = "USING (unit)", ""
    else:
        more = ["", f" AND x.i {draw(_COMPARED)} y.j", " AND x.j = y.j", " AND y.d = x.d"]
        on += draw(st.sampled_from([*more, " AND x.k = y.k AND x.j + 1 = y.i AND x.c < y.c"]))
    return (
        f"SELECT {kept}unit AS unit, x.i AS i, y.j AS j, y.d AS d, x.k AS k, y.c AS c "
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
                "EXISTS (SELECT 1 FROM {0} y WHERE y.unit = x.unit AND y.j = x.i AND ({1}))",
                "NOT EXISTS (SELECT 1 FROM {0} y WHERE y.unit = x.unit AND y.k = x.k)",
                "EXISTS (SELECT 1 FROM {0} y WHERE x.unit = y.unit AND (y.d > x.d OR {1}))",
                "NOT EXISTS (SELECT 1 FROM {0} y "
                "WHERE x.unit = y.unit AND y.c > x.c AND ({1}))",
                "(x.unit, x.i, x.c) IN (SELECT unit, j, c FROM {0} y WHERE {1})",
                "(x.k, x.unit) NOT IN (SELECT k, unit FROM {0} y WHERE {1})",
            ]
        )
    ).format(right, draw(conditions("y")))
    return f"SELECT {_ALL} FROM {left} x WHERE {where} AND ({draw(conditions('x'))})"


_SAID = (
    "EXISTS (SELECT 1 FROM {0} y WHERE y.unit = x.unit AND ({1}))",
    "EXISTS (SELECT 1 FROM {0} y WHERE y.unit = x.unit AND y.j = x.i AND ({1}))",
    "EXISTS (SELECT 1 FROM {0} y WHERE x.unit = y.unit AND (y.d > x.d OR {1}))",
    "x.unit IN (SELECT unit FROM {0} y WHERE {1})",
    "x.k IN (SELECT k FROM {0} y WHERE y.unit = x.unit AND ({1}))",
    "x.d IN (SELECT d FROM {0} y WHERE y.unit = x.unit AND y.c <= x.c)",
    "(x.i, x.unit) IN (SELECT j, unit FROM {0} y WHERE {1})",
    "(x.k, x.unit, x.c) IN (SELECT k, unit, c FROM {0} y WHERE {1})",
    "(SELECT BOOL_OR({1}) FROM {0} y WHERE y.unit = x.unit AND y.k = x.k)",
)
_VALUES = (
    "(SELECT {2} FROM {0} y WHERE y.unit = x.unit AND ({1}))",
    "(SELECT {2} FROM {0} y WHERE y.unit = x.unit AND y.k = x.k)",
    "(SELECT {2} FROM {0} y WHERE y.unit = x.unit AND y.c = x.c AND y.i = x.j)",
    "(SELECT {2} FROM {0} y WHERE y.unit = x.unit AND y.j < x.j)",
)


@st.composite
def _within(draw: st.DrawFn, depth: int) -> str:
    """Draw rows with what subqueries say of their unit: as values, and in a condition."""
    where, table = draw(conditions("y")), draw(st.sampled_from(TABLES))
    if draw(st.booleans()):
        said = draw(st.sampled_from(_SAID)).format(draw(relations(max(depth - 1, 0))), where)
        said = draw(st.sampled_from(["{}", "NOT {}", "({}) IS NULL"])).format(said)
        if draw(st.booleans()):
            kept = draw(conditions("x"))
            return f"SELECT {_ALL} FROM {draw(relations(depth))} x WHERE {kept} OR {said}"
        case = f"CASE WHEN {said} THEN k ELSE 'b' END"
        return f"SELECT unit, i, j, d, {case} AS k, c FROM {draw(relations(depth))} x"
    value, i, d = draw(st.sampled_from(_VALUES)), "i", "d"
    if draw(st.booleans()):
        what = draw(st.sampled_from(["COUNT(*)", "MAX(y.i)", "COUNT(DISTINCT y.k)"]))
        i = value.format(table, where, what)
    else:
        what = draw(st.sampled_from(["MIN(y.d)", "AVG(y.j)", "MAX(y.d)"]))
        d = value.format(table, where, what)
    return f"SELECT unit, {i} AS i, j, {d} AS d, k, c FROM {draw(relations(depth))} x"


_SAID_OF_PUBLIC = (
    "EXISTS (SELECT 1 FROM regions r WHERE r.name = x.k AND (r.size > 0 OR r.size IS NULL))",
    "x.i IN (SELECT r.size FROM regions r WHERE r.zone = x.k)",
    "x.k IN (SELECT r.zone FROM regions r WHERE r.size = x.j + 7)",
)


@st.composite
def _of_public(draw: st.DrawFn, depth: int) -> str:
    """Draw rows with what a public table says of the values that they have."""
    source, i, d = draw(relations(depth)), "i", "d"
    if draw(st.booleans()):
        said = draw(st.sampled_from(["{}", "NOT {}", "({}) IS NULL"]))
        said = said.format(draw(st.sampled_from(_SAID_OF_PUBLIC)))
        return f"SELECT {_ALL} FROM {source} x WHERE {said} OR ({draw(conditions('x'))})"
    equal = draw(st.sampled_from(["r.name = x.k", "r.zone = x.k", "r.zone = k AND size = x.j"]))
    if draw(st.booleans()):
        what = draw(st.sampled_from(["COUNT(r.size)", "SUM(r.size)", "MAX(LENGTH(r.name))"]))
        i = f"(SELECT {what} FROM regions r WHERE {equal})"
    else:
        what = draw(st.sampled_from(["AVG(r.size)", "MIN(r.share)", "COALESCE(MAX(share), 7)"]))
        d = f"(SELECT {what} FROM regions r WHERE {equal})"
    return f"SELECT unit, {i} AS i, j, {d} AS d, k, c FROM {source} x"


@st.composite
def _semi_joined(draw: st.DrawFn, depth: int) -> str:
    kind = draw(st.sampled_from(["SEMI", "ANTI"]))
    ties = ["USING (unit)", "ON x.unit = y.unit", "USING (unit, k)"]
    ties += ["ON x.unit = y.unit AND x.i = y.j", "ON x.unit = y.unit AND x.c <= y.c"]
    on = draw(st.sampled_from(ties))
    left, right = draw(relations(depth)), draw(relations(depth))
    columns = ", ".join(f"x.{name} AS {name}" for name in _ALL.split(", "))
    return f"SELECT {columns} FROM {left} x {kind} JOIN {right} y {on}"


_PUBLIC = [
    "regions",
    "(SELECT size + 1 AS size, * EXCLUDE (size) FROM regions)",
    "(SELECT zone, MAX(name) AS name, SUM(size) AS size, AVG(share) AS share, "
    "MIN(since) AS since FROM regions GROUP BY zone)",
    "(SELECT * FROM regions UNION ALL SELECT * FROM regions)",
]
"""A public table, and what queries make of it."""
LINKS = (" JOIN regions o ON o.name = r.zone", " LEFT JOIN regions o ON o.zone = r.zone")
"""Public tables that are joined to a public table."""


@st.composite
def _public(draw: st.DrawFn, depth: int) -> str:
    kind = draw(st.sampled_from(["JOIN", "LEFT JOIN", "CROSS JOIN"]))
    more = draw(st.sampled_from(["", " AND r.size > x.i"]))
    key = draw(st.sampled_from(["x.k = r.name", "x.k = r.zone", "x.j < r.size"]))
    on = "" if kind == "CROSS JOIN" else f" ON {key}{more}"
    on += draw(st.sampled_from(["", "", *LINKS]))
    table = draw(st.sampled_from(_PUBLIC))
    return (
        "SELECT x.unit AS unit, r.size AS i, x.j AS j, r.share AS d, r.zone AS k, "
        f"r.since AS c FROM {draw(relations(depth))} x {kind} {table} r{on}"
    )


_LISTS = (
    ("unit, i, j, d, p AS k, c", "UNNEST(string_split(k, 'b')) u(p)"),
    ("unit, i, j, d, p AS k, c", "UNNEST(string_split(k || 'ab' || k, 'ab')) AS p"),
    ("unit, i, j, d, p AS k, c", "LEFT JOIN UNNEST(string_split(k, 'a')) u(p) ON TRUE"),
    ("unit, p AS i, j, d, k, c", "UNNEST([i, j, 3]) u(p)"),
    ("unit, i, j, p AS d, k, c", "UNNEST([d, -d, 0e0 * d]) u(p)"),
    ("unit, i, j, d, k, p AS c", "LATERAL (SELECT unnest([c, c + 1]) AS p) u"),
    ("unit, i, j, d, k, c", "UNNEST([k, NULLIF(k, 'a')]) u"),
    ("unit, unnest([j, i]) AS i, j, d, k, c", ""),
    ("unit, i, j, d, unnest(string_split(k, 'a')) AS k, c", ""),
)
"""Rows with each value of a list of their own."""


@st.composite
def _listed(draw: st.DrawFn, depth: int) -> str:
    columns, joined = draw(st.sampled_from(_LISTS))
    tie = ", " if joined and not joined.startswith("LEFT") else " "
    source = f"{draw(relations(depth))} x{tie}{joined}"
    return f"SELECT {columns} FROM {source} WHERE {draw(conditions('x'))}"


_SETS = st.sampled_from(["UNION ALL", "UNION ALL", "UNION", "INTERSECT", "EXCEPT"])


@st.composite
def _union(draw: st.DrawFn, depth: int) -> str:
    return (
        f"SELECT {_ALL} FROM {draw(relations(depth))} x "
        f"{draw(_SETS)} SELECT unit, j, i, d, k, c FROM {draw(relations(depth))} y"
    )


@st.composite
def _per_unit(draw: st.DrawFn, depth: int) -> str:
    keys = ["", ", k", ", DATE_TRUNC('month', c)", ", CASE WHEN i > 1 THEN 'a' ELSE k END, j"]
    key = draw(st.sampled_from(keys))
    k = "k" if key == ", k" else "MAX(k)"
    i = draw(st.sampled_from(["COUNT(*)", "SUM(i)", "MAX(i)", "COUNT(DISTINCT k)"]))
    j = draw(st.sampled_from(["MIN(j)", "COUNT(d) FILTER (WHERE i > 0)", "COUNT(j)"]))
    d = draw(st.sampled_from(["AVG(i)", "MAX(d)", "MIN(d)"]))
    c = draw(st.sampled_from(["MIN(c)", "MAX(c) FILTER (WHERE k = 'a')"]))
    having = draw(st.sampled_from(["", " HAVING COUNT(*) > 1", " HAVING BOOL_OR(i > 0)"]))
    return (
        f"SELECT unit, {i} AS i, {j} AS j, {d} AS d, {k} AS k, {c} AS c "
        f"FROM {draw(relations(depth))} x GROUP BY unit{key}{having}"
    )


@st.composite
def _looked_up(draw: st.DrawFn, depth: int) -> str:
    """Draw rows that each meet one row at most of what there is per unit and key."""
    found = draw(st.sampled_from(["COUNT(*) AS i", "SUM(i) AS i", "MAX(j) AS i"]))
    of = f"(SELECT unit, k, {found} FROM {draw(relations(depth))} z GROUP BY unit, k)"
    return (
        f"SELECT x.unit AS unit, y.i AS i, x.j AS j, x.d AS d, x.k AS k, x.c AS c "
        f"FROM {draw(relations(depth))} x LEFT JOIN {of} y ON x.unit = y.unit AND x.k = y.k"
    )


@st.composite
def _natural(draw: st.DrawFn, depth: int) -> str:
    """Draw rows of which another relation has equals: a key of them alone is shared."""
    other = f"(SELECT DISTINCT unit, k FROM {draw(relations(depth))} y)"
    return f"SELECT {_ALL} FROM {draw(relations(depth))} x NATURAL JOIN {other} z"


@st.composite
def _sums_of_doubles(draw: st.DrawFn, depth: int) -> str:
    """Sums of doubles need bounds: of a table's column, they are the policy's."""
    what = draw(st.sampled_from(["SUM", "AVG"]))
    table = draw(st.sampled_from(TABLES))
    del depth
    return (
        f"SELECT unit, COUNT(*) AS i, MAX(j) AS j, {what}(d) AS d, k, MAX(c) AS c "
        f"FROM {table} GROUP BY unit, k"
    )


@st.composite
def _signs(draw: st.DrawFn, depth: int) -> str:
    """Draw zeros of either sign: of one relation, or of a relation twice."""
    i = draw(st.sampled_from(["i", "i", "SIGN(d)", "LENGTH(CAST(j AS TEXT))"]))
    k = draw(st.sampled_from(["k", "CAST(POWER(d, -1) > 0 AS TEXT)", "CAST(i AS TEXT)"]))
    source, d = draw(relations(depth)), draw(_ZEROS | _SIGNED)
    signed = f"SELECT unit, {i} AS i, j, {d} AS d, {k} AS k, c FROM {source} x"
    if draw(st.booleans()):
        return signed
    return f"SELECT {_ALL} FROM {source} y UNION ALL {signed}"


@st.composite
def _ordered(draw: st.DrawFn, depth: int) -> str:
    """Draw what a window puts in order: half of the time, with zeros of either sign."""
    if draw(st.booleans()):
        return draw(relations(depth))
    return f"({draw(_signs(max(depth - 1, 0)))})"


@st.composite
def _distinct(draw: st.DrawFn, depth: int) -> str:
    return f"SELECT DISTINCT {_ALL} FROM {draw(relations(depth))} x"


@st.composite
def _window(draw: st.DrawFn, depth: int) -> str:
    """Draw several windows: where two number equal rows, they number them alike."""
    part = draw(st.sampled_from(["unit", "unit, k", "unit, DATE_TRUNC('month', c)"]))
    orders = st.sampled_from(
        ["i", "d DESC", "k, i", "j NULLS FIRST", "c, k DESC", "0e0 * d", "POWER(d, -1)"]
    )
    numbers = st.sampled_from(
        ["row_number()", "rank()", "dense_rank()", "ntile(3)", "lag(i)", "lead(j, 2)"]
    )
    number = draw(numbers)
    other = draw(
        st.builds(f"{{}} OVER (PARTITION BY {part} ORDER BY {{}})".format, numbers, orders)
        | st.builds(
            f"{{}} OVER (PARTITION BY {part})".format,
            st.sampled_from(["COUNT(*)", "MAX(j)", "SUM(i)", "COUNT(DISTINCT j)"]),
        )
    )
    d = draw(
        st.sampled_from(["d", "d", "lag(d)", "lead(0e0 * d)", "lag(POWER(d, -1))", "MIN(-d)"])
    )
    if d != "d":
        by = f" ORDER BY {draw(orders)}" if d.startswith("l") else ""
        d = f"{d} OVER (PARTITION BY {part}{by})"
    return (
        f"SELECT unit, {number} OVER (PARTITION BY {part} ORDER BY {draw(orders)}) AS i, "
        f"{other} AS j, {d} AS d, k, c FROM {draw(_ordered(depth))} x"
    )


@st.composite
def _first(draw: st.DrawFn, depth: int) -> str:
    order = draw(st.sampled_from(["i", "d", "j DESC, k", "0e0 * d", "-d DESC"]))
    return (
        f"SELECT {_ALL} FROM {draw(_ordered(depth))} x "
        f"QUALIFY row_number() OVER (PARTITION BY unit ORDER BY {order}) <= 2"
    )


_FORMS = {
    "filter": _filtered,
    "join": _joined,
    "semi": _semi,
    "semi join": _semi_joined,
    "within": _within,
    "of public": _of_public,
    "looked up": _looked_up,
    "natural": _natural,
    "public": _public,
    "listed": _listed,
    "union": _union,
    "per unit": _per_unit,
    "sums": _sums_of_doubles,
    "signs": _signs,
    "distinct": _distinct,
    "window": _window,
    "first": _first,
}
