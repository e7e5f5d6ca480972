"""Whatever is accepted above the frontier can be computed, on every value there is (I12).

Random queries run over a released table of extremes: NULL, NaN, infinities, the largest and
smallest numbers, the first and last days, empty and long texts. A refusal at planning costs
nothing; what is accepted must not raise, because its charge is spent.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from functools import cache

import pyarrow as pa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dpquery.errors import QueryRefused
from dpquery.sql.postprocess.builtin_functions import AGGREGATES, BY_NAME, ONLY_WINDOWS
from tests.corpus.cases import facts, planned

RELEASED = (
    "WITH t AS (SELECT dept AS s, DP_COUNT(*, eps=1) AS i, DP_AVG(salary, eps=1) AS d, "
    "DP_SUM(rating, eps=1) AS m, DP_MEDIAN(hired, eps=1) AS w, "
    "DP_QUANTILE(salary, [0.1, 0.9], eps=1) AS q FROM staff GROUP BY dept) "
)
INT = (-(2**63), -1, 0, 1, 7, 2**63 - 1, None)
DOUBLE = (-1e308, -1.5, -0.0, 5e-324, 1e308, float("inf"), float("nan"))
EXACT = (*(Decimal(n) for n in ("-99999999999999999999.9", "-0.1", "0", "0.5", "1")), None)
DAYS = (datetime.date.min, datetime.date(1970, 1, 1), datetime.date(2024, 2, 29), None)
LISTS = ([1e308, -1.5], [], [None, float("nan")], None)
TEXTS = ("", "a", "eng", "%", "(", "9" * 300, "é", None)


@cache
def extremes() -> pa.Table:
    """Return a released table whose rows pair extremes in several ways."""
    rows = range(56)
    return pa.table(
        {
            "row": pa.array(list(rows), pa.int64()),
            "k0": pa.array([TEXTS[n % 8] for n in rows], pa.string()),
            "a0": pa.array([INT[n % 7] for n in rows], pa.int64()),
            "a1": pa.array([DOUBLE[n * 3 % 7] for n in rows], pa.float64()),
            "a2": pa.array([EXACT[n % 6] for n in rows], pa.decimal128(38, 1)),
            "a3": pa.array([DAYS[n % 4] for n in rows], pa.date32()),
            "a4": pa.array([LISTS[n % 4] for n in rows], pa.list_(pa.float64())),
        }
    )


LITERALS = (
    "0", "1", "-1", "2.5", "1e300", "9223372036854775807", "'a'", "''", "'('", "NULL", "TRUE",
    "DATE '2024-02-29'", "DATE '9999-12-31'", "'infinity'",
)  # fmt: skip
TYPES = ("BIGINT", "DOUBLE", "TEXT", "DATE", "TIMESTAMP", "BOOLEAN", "DECIMAL(38,10)")
FORMS = (
    "({0} + {1})", "({0} - {1})", "({0} * {1})", "({0} / {1})", "({0} // {1})", "({0} % {1})",
    "(-{0})", "({0} = {1})", "({0} < {1})", "({0} BETWEEN {1} AND {2})", "({0} IN ({1}, {2}))",
    "({0} IS NULL)", "({0} IS DISTINCT FROM {1})", "({0} AND {1})", "(NOT {0})",
    "({0} || {1})", "({0} LIKE {1})", "CASE WHEN {0} THEN {1} ELSE {2} END",
    "CASE {0} WHEN {1} THEN {2} END", "ROUND({0}, 3)", "ROUND({0}, -400)",
    "DATE_TRUNC('month', {0})", "DATE_DIFF('day', {0}, {1})", "EXTRACT(year FROM {0})",
    "({0} + INTERVAL 900000 YEAR)", "({0} - INTERVAL 1 HOUR)", "(SELECT max({0}) FROM t)",
    "({0})[{1}]", "({0})[-1:{1}]", "q[{0}]", "q[:{0}]", "LIST_SLICE(q, {0}, {1})",
    "ARRAY_LENGTH(q[1:{0}])", "({0} IN (SELECT {1} FROM t))",
    "EXISTS (SELECT 1 FROM t AS o WHERE o.i > {0})",
    *(f"CAST({{0}} AS {type_})" for type_ in TYPES),
    *(
        f"{function.name}({', '.join(f'{{{i}}}' for i in range(len(function.takes)))})"
        for function in BY_NAME.values()
    ),
)  # fmt: skip
ARGUMENTS = {"s": "0.5", "c": "2", "l": "','"}


def called(name: str, takes: str) -> str:
    """Write a call of an aggregate or window function, with places for its values."""
    parts = [ARGUMENTS.get(letter, f"{{{i}}}") for i, letter in enumerate(takes)]
    return f"{name}({', '.join(parts)})"


SUMMED = tuple(called(one.name, one.takes) for one in AGGREGATES.values())
OVER = " OVER (PARTITION BY {1} ORDER BY {2} ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
WINDOWS = (
    *(f"{text} OVER (ORDER BY {{2}})" for text in SUMMED),
    *(text + OVER for text in SUMMED),
    *(f"{called(w.name, w.takes)} OVER (ORDER BY {{2}})" for w in ONLY_WINDOWS.values()),
)


def values(depth: int = 2) -> st.SearchStrategy[str]:
    """Draw expressions over the rows of the table."""
    leaf = st.sampled_from(("s", "i", "d", "m", "w", "q", *LITERALS))
    if depth == 0:
        return leaf
    inner = values(depth - 1)
    made = st.builds(
        lambda form, *parts: form.format(*parts), st.sampled_from(FORMS), *[inner] * 3
    )
    return st.one_of(leaf, made, made, made)


def over(forms: tuple[str, ...]) -> st.SearchStrategy[str]:
    inner = values(1)
    return st.builds(
        lambda form, *parts: form.format(*parts), st.sampled_from(forms), *[inner] * 3
    )


@st.composite
def queries(draw: st.DrawFn) -> str:
    """Draw a query over the released table."""
    value = lambda: draw(values())  # noqa: E731
    match draw(st.sampled_from(("rows", "groups", "windows", "sets", "joins"))):
        case "groups":
            key, total = value(), draw(over(SUMMED))
            return f"SELECT {key} AS k, {total} AS x FROM t GROUP BY 1 HAVING {value()} IS NULL"
        case "windows":
            return f"SELECT {draw(over(WINDOWS))} AS x FROM t QUALIFY x IS NOT NULL"
        case "sets":
            word = draw(st.sampled_from(("UNION ALL", "UNION", "EXCEPT", "INTERSECT")))
            return f"SELECT {value()} AS x FROM t {word} SELECT {value()} FROM t"
        case "joins":
            kind = draw(st.sampled_from(("", "LEFT ", "FULL ", "SEMI ")))
            on = f"t.s = u.s AND t.i = u.{draw(st.sampled_from('idm'))}"
            return f"SELECT t.i FROM t {kind}JOIN t AS u ON {on}"
    return f"SELECT DISTINCT {value()} AS x FROM t WHERE {value()} ORDER BY x LIMIT 9"


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(queries())
@example("SELECT LAG(i, 2, 1e300) OVER (ORDER BY 1e300) AS x FROM t QUALIFY x IS NOT NULL")
@example("SELECT LAG(0, 2, i) OVER (ORDER BY i) AS x FROM t QUALIFY x IS NOT NULL")
@example("SELECT LAG(i, 2, 7) OVER (ORDER BY d) AS x FROM t QUALIFY x IS NOT NULL")
@example("SELECT i AS x FROM t UNION ALL SELECT MOD(i, MOD(i, -1)) FROM t")
@example("SELECT s AS x FROM t UNION ALL SELECT CONCAT(q) FROM t")
@example("SELECT s AS x FROM t UNION ALL SELECT CONCAT(q, q) FROM t")
@example("SELECT ABS(i) + 1 AS x, ABS(i) + 2 AS y FROM t ORDER BY i // -1 + i // -1")
@example("SELECT ABS(i) + ABS(i) AS k, max(i // -1 + i // -1) AS x FROM t GROUP BY 1")
def test_what_is_accepted_above_never_raises(query: str):
    try:
        plan = planned(RELEASED + query)
    except QueryRefused:
        return
    facts()[1].run(plan.above, [extremes()]).to_pylist()


COMPARED = ("{0} = {1}", "{0} < {1}", "{0} <> {1}", "{0} BETWEEN {1} AND {2}", "{0} LIKE {1}")


@st.composite
def conditions(draw: st.DrawFn) -> str:
    """Draw a condition whose parts may raise, some of them in each branch of an OR."""
    one, other, shared = (
        draw(st.builds(str.format, st.sampled_from(COMPARED), *[values(1)] * 3))
        for _ in range(3)
    )
    return f"(({shared}) AND ({one})) OR (({shared}) AND ({other})) AND {one}"


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(conditions())
@example("((i * i = d) AND (i + 1 > 0)) OR ((i * i = d) AND (d / i > 1)) AND i * 7 < d")
def test_rows_are_chosen_as_by_the_whole_condition(condition: str):
    queries = (
        f"SELECT i, d, s FROM t WHERE {condition}",
        f"SELECT i, d, s FROM (SELECT i, d, s, {condition} AS kept FROM t) WHERE kept",
    )
    try:
        plans = [planned(RELEASED + query) for query in queries]
    except QueryRefused:
        return
    parted, whole = (facts()[1].run(plan.above, [extremes()]) for plan in plans)
    assert str(parted.to_pylist()) == str(whole.to_pylist())
