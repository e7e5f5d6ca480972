"""Random queries: what is asked of random relations, in what groups."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from hypothesis import strategies as st

from tests.relations import LINKS, conditions, relations

__all__ = ["OF_RELATIONS", "OUT_OF_REACH", "constructs", "queries", "require_drawn"]

_CALLS = st.sampled_from(
    [
        "COUNT(*",
        "COUNT(j, max_rows_contributed=3",
        "SUM(i, bounds=[-7, 30]",
        "SUM(j, bounds=[-2, 5], max_rows_contributed=2",
        "AVG(d, bounds=[-3, 5]",
        "MEDIAN(i, bounds=[-7, 30]",
        "QUANTILE(j, [0.1, 0.5, 0.8], bounds=[0, 20]",
        "QUANTILE(c, 0.9, bounds=['2020-01-01', '2020-02-29']",
        "COUNT_IF(k = 'a'",
        "PROPORTION(i > 0",
        "MAJORITY(i > 0",
        "VAR_POP(j, bounds=[0, 9]",
        "STDDEV_SAMP(d, bounds=[-2, 2], max_rows_contributed=3",
        "MAX(j, bounds=[0, 9]",
        "COVAR_POP(LEAST(GREATEST(i, -7), 30), LEAST(GREATEST(j, 0), 9)",
        "COVAR_POP(CASE WHEN i > 3 THEN 10000000000 ELSE 0 END, 1, max_rows_contributed=2",
        "CORR(LEAST(GREATEST(i, -7), 30), LEAST(GREATEST(j, 0), 9)",
        "REGR_SLOPE(LEAST(GREATEST(j, 0), 9), LEAST(GREATEST(i, -7), 30)",
        "LINREG(LEAST(GREATEST(j, 0), 9), [LEAST(GREATEST(i, -7), 30)]",
        "LOGREG(i > 3, [LEAST(GREATEST(j, 0), 9)], max_rows_contributed=2",
        "HISTOGRAM(i, [0, 9]",
        "DENSITY(LEAST(GREATEST(i, -7), 30), [3, 12]",
        "DENSITY(LEAST(GREATEST(j, 0), 9), [3], mechanism='basis'",
        "CDF(c, ['2020-01-15', '2020-02-01'], max_rows_contributed=2",
        "SUM(i, bounds=[0, 4]",
        "SUM(POWER(d, -1), bounds=[-1, 1]",
        "SUM(1 / d, bounds=[-1, 1], max_rows_contributed=2",
        "MEDIAN(d, bounds=[-2, 2]",
        "COUNT(DISTINCT POWER(d, -1)",
        "COUNT(DISTINCT d",
    ]
)
"""Calls up to their eps."""
_OF_UNITS = st.sampled_from(
    [
        "COUNT(DISTINCT unit",
        "COUNT(DISTINCT unit, max_groups_contributed=2",
        "COUNT(*, contribution_bounds_per_group=(0, 2)",
        "COUNT(d, contribution_bounds_per_group=(1, 3), max_groups_contributed=2",
        "SUM(i, bounds=[-9, 9], contribution_bounds_per_group=(-3, 9)",
        "SUM(j, bounds=[0, 20], contribution_bounds_per_group=[2, 50]",
    ]
)
_PLAIN = st.sampled_from(
    [
        *("COUNT(*)", "COUNT(j)", "COUNT(DISTINCT unit)", "COUNT(DISTINCT k)"),
        *("COUNT_IF(i > 0)", "APPROX_COUNT_DISTINCT(j)", "COUNT(CASE WHEN i > 0 THEN 1 END)"),
        *("SUM(LEAST(GREATEST(i, -7), 30))", "SUM(CASE WHEN k = 'a' THEN 1 ELSE 0 END)"),
        *("AVG(LEAST(GREATEST(j, 0), 9))", "STDDEV(LEAST(GREATEST(j, 0), 9))"),
        *("VAR_POP(LEAST(GREATEST(i, -7), 30))", "MEDIAN(LEAST(GREATEST(i, -7), 30))"),
        "QUANTILE_CONT(LEAST(GREATEST(j, 0), 9), 0.9)",
        "PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY LEAST(GREATEST(j, 0), 9))",
    ]
)
"""Calls that share the price of their statement."""
_OF_DIFFERENT = st.sampled_from(
    [
        "SUM(DISTINCT i, bounds=[-7, 30]",
        "SUM(DISTINCT d, bounds=[-3, 5], max_rows_contributed=2",
        "AVG(DISTINCT j, bounds=[0, 9]",
        "VAR_POP(DISTINCT i, bounds=[-7, 30], max_rows_contributed=3",
        "COUNT(DISTINCT j, max_rows_contributed=2",
    ]
)
_RELEASED = st.sampled_from(
    [
        "k IN (SELECT k FROM s WHERE k IN ('a', 'b') GROUP BY k HAVING COUNT(*) > 3)",
        "k NOT IN (SELECT name FROM (SELECT r.name, DP_COUNT(*, eps=0.1) AS n FROM s y "
        "JOIN regions r ON y.k = r.name GROUP BY r.name) z WHERE n > 1)",
        "j IN (SELECT DP_QUANTILE(j, 0.5, eps=0.1, bounds=[0, 9]) FROM s)",
        "d > (SELECT AVG(j) FROM t)",
    ]
)
"""Conditions on what is released before."""
_TOLD = ["i", "j", "k", "c", "i + j", "d > 0", "UPPER(k)", "DATE_TRUNC('month', c)"]
"""What may be found together."""
OUT_OF_REACH = {"DPQ105", "DPQ205", "DPQ305", "DPQ404", "DPQ405", "DPQ406", "DPQ408"}
"""What a random query may be refused for: too much, no group, and bounds beside a range."""
OF_RELATIONS = {
    "fan-out": r"JOIN \S.* r ON x\.(k = r\.zone|j < r\.size)",
    "crossed": r"CROSS JOIN (?!\(SELECT DP)",
    "linked": r"regions o ON",
    "derived": r"JOIN \(SELECT (size|zone|\* FROM regions)",
    "among public values": r"IN \(SELECT (name|zone) FROM regions",
    "within": r"FROM \S.* y WHERE (y\.unit = x\.unit|x\.unit = y\.unit)",
    "of public rows": r"FROM regions r WHERE",
    "lists": r"(?i)(,|JOIN|LATERAL \(SELECT) unnest\(",
    "among values of a list": r"IN UNNEST|EXISTS \(SELECT 1 FROM UNNEST",
    "sets of rows": r"(UNION|INTERSECT|EXCEPT) SELECT unit",
    "looked up": r"GROUP BY unit, k\) y ON",
    "natural": "NATURAL JOIN",
    "casts": r"AS (U?TINYINT|FLOAT)",
}
"""What random relations are made of, by how it is written."""
CONSTRUCTS = {
    **OF_RELATIONS,
    "plain": r"(?<!DP_)\b(COUNT_IF|APPROX_\w+|QUANTILE_CONT|PERCENTILE_CONT|MEDIAN|STDDEV)\("
    r"|SELECT (g\d, |n, |m, |k, |i, |c, )*(COUNT|SUM|AVG)\(|ANON_",
    "different": r"DP_\w+\(DISTINCT [ijd]\b",
    "released": r"SELECT k FROM s WHERE k IN|SELECT name FROM \(|SELECT (DP_QUANTILE|AVG)\(j",
    "joined with released": r"r\.key",
    "released relation": r"JOIN \(SELECT (k AS told|DP_)",
    "found together": r"DP_KEYS\([^,]+, (?!eps)",
    "found unasked": r"OVER \(PARTITION BY unit, k\) AS n, COUNT",
    "distinct groups": r"SELECT DISTINCT n, m",
    "least number of units": "min_units|min_privacy_units",
    "BigQuery's": r"SELECT WITH",
}
"""What random queries are made of; all have to be answered in turn."""
_KEYS = {
    "k": "k IN ('a', 'b')",
    "j": "j IN (0, 1, 9)",
    "d > 0": "",
    "k IS NULL": "",
    "UPPER(k)": "k IN ('a', 'abc')",
    "COALESCE(k, 'none')": "k IN ('a', 'abc')",
    "j // 4": "j BETWEEN 0 AND 9",
    "i % 3": "i BETWEEN -6 AND 7",
    "c": "c IN ('2020-01-01', '2020-02-10', '2020-03-31')",
    "DATE_TRUNC('month', c)": "c BETWEEN '2020-01-01' AND '2020-03-31'",
    "MONTH(c)": "c BETWEEN '2020-01-01' AND '2020-02-29'",
    "CASE WHEN i > 3 THEN 'x' WHEN j = 1 THEN 'y' END": "",
    "CASE WHEN d < 0 THEN 'low' ELSE k END": "k IN ('a', 'b', 'abc')",
    "NULLIF(k, 'a')": "k IN ('a', 'b')",
    "j % i": "i BETWEEN -1 AND 7 AND j BETWEEN 0 AND 9",
    "CAST(NULLIF(j, 1) AS TEXT)": "j BETWEEN 0 AND 9",
    "YEAR(NULLIF(c, '2020-01-01'))": "c BETWEEN '2020-01-01' AND '2020-03-31'",
}
"""What can be a group, with what WHERE has to say of it."""
_SETS = st.sampled_from(["{}", "{}", "{}", "ROLLUP ({})", "CUBE ({})"])
_BY_KEY = (
    "JOIN (SELECT k AS told, DP_AVG(j, eps=0.1) AS mean FROM s "
    "WHERE k IN ('a', 'b') GROUP BY k)"
)
_ONE_ROW = "JOIN (SELECT DP_AVG(j, eps=0.1) AS mean FROM t)"
_BESIDE = st.sampled_from(
    [
        (f"{_BY_KEY} m ON x.k = m.told", "j < mean"),
        (f"{_BY_KEY} m ON x.k = m.told AND x.j < mean", ""),
        (f"LEFT {_BY_KEY} m ON x.k = m.told", "COALESCE(mean, 1) > i"),
        (f"CROSS {_ONE_ROW} m", "j < mean"),
        (f"LEFT {_ONE_ROW} m ON x.i > mean", "mean IS NULL"),
    ]
)
"""Released relations that private rows are joined with, and what is asked of the pairs."""


def constructs(text: str) -> list[str]:
    """Return what a query is made of, of what is to be drawn."""
    return [name for name, words in CONSTRUCTS.items() if re.search(words, text)]


def require_drawn(asked: Counter[str], names: Iterable[str] = CONSTRUCTS) -> None:
    """Require that each was drawn: a suite that leaves a construct out shows nothing of it."""
    assert not [name for name in names if not asked[name]], asked


@st.composite
def _called(draw: st.DrawFn) -> str:
    if draw(st.integers(0, 3)) == 0:
        return draw(_PLAIN) + draw(_kept())
    call = draw(st.one_of(_CALLS, _CALLS, _OF_UNITS, _OF_DIFFERENT))
    mechanisms = [""]
    if call.startswith(("COUNT", "SUM", "AVG", "VAR")):
        mechanisms += ["", ", mechanism='gaussian', delta=1e-6"]
    return f"DP_{call}, eps=0.1{draw(st.sampled_from(mechanisms))}){draw(_kept())}"


@st.composite
def _kept(draw: st.DrawFn) -> str:
    if draw(st.integers(0, 2)):
        return ""
    return f" FILTER (WHERE {draw(conditions() | _RELEASED)})"


@st.composite
def queries(draw: st.DrawFn, depth: int = 3) -> str:
    """Draw a query over a relation, with groups or without."""
    form = draw(st.integers(0, 9))
    if form == 0:
        return draw(_of_full_join(depth))
    if form == 1:
        return draw(_by_public_column(depth))
    if form == 2:
        return draw(_found_together(depth))
    if form == 3:
        return draw(_found_unasked(depth, _UNASKED))
    if form == 4:
        return draw(_found_unasked(depth, _BIGQUERYS))
    if form == 5:
        return draw(_with_released(depth))
    calls = ", ".join(draw(st.lists(_called(), min_size=1, max_size=3)))
    keys = draw(st.lists(st.sampled_from(list(_KEYS)), max_size=2, unique=True))
    where = [_KEYS[key] for key in keys if _KEYS[key]]
    if draw(st.integers(0, 3)) == 0:
        where.append(f"({draw(conditions() | _RELEASED)})")
    joined, asked = draw(_BESIDE) if draw(st.integers(0, 4)) == 0 else ("", "")
    where += [asked] if asked else []
    kept = f" WHERE {' AND '.join(where)}" if where else ""
    source = f"FROM {draw(relations(depth))} x{joined and ' '}{joined}{kept}"
    if not keys:
        return f"SELECT {calls} {source}"
    named = ", ".join(f"{key} AS g{number}" for number, key in enumerate(keys))
    groups = draw(_SETS).format(", ".join(f"g{number}" for number in range(len(keys))))
    return f"SELECT {named}, {calls} {source} GROUP BY {groups}"


_KEYED = st.sampled_from(
    [
        "(SELECT k AS key, DP_AVG(j, eps=0.1, bounds=[0, 9]) AS n FROM s "
        "WHERE k IN ('a', 'b') GROUP BY k) r ON x.k = r.key",
        "(SELECT j AS key, DP_COUNT(*, eps=0.1) AS n FROM t WHERE j IN (0, 1, 9) GROUP BY j "
        "HAVING n > 0) r ON r.key = x.j",
        "(SELECT k AS key, c AS since, DP_COUNT(*, eps=0.1) AS n FROM t "
        "GROUP BY DP_KEYS(k, c, eps=0.1, delta=1e-6, max_keys=3)) r "
        "ON x.k = r.key AND x.c = r.since",
        "(SELECT d > 0 AS key, DP_MEDIAN(i, eps=0.1, bounds=[-7, 30]) AS n FROM t "
        "GROUP BY d > 0) r ON r.key = (x.i > 0)",
    ]
)
"""Released relations, and the condition under which a row meets one of their rows at most."""


@st.composite
def _with_released(draw: st.DrawFn, depth: int) -> str:
    """Draw rows that are joined with released ones, whose values they have then."""
    calls = ", ".join(draw(st.lists(_called(), min_size=1, max_size=2)))
    kind, more = draw(st.sampled_from(["JOIN", "LEFT JOIN"])), ""
    if draw(st.booleans()):
        more = f" AND x.i {draw(st.sampled_from(['<', '>=']))} r.n"
    joined = f"{draw(relations(depth - 1))} x {kind} {draw(_KEYED)}{more}"
    where = draw(st.sampled_from(["", " WHERE n > x.j", " WHERE n IS NULL OR x.d > 0"]))
    if draw(st.booleans()):
        return f"SELECT {calls} FROM {joined}{where}"
    values = draw(st.sampled_from(["i, j, n AS d", "p AS i, j, n AS d", "i, j, p AS d"]))
    listed = ", UNNEST([n, i, 3]) u(p)" if "p AS" in values else ""
    rows = f"SELECT unit, {values}, k, c FROM {joined}{listed}{where}"
    return f"SELECT {calls} FROM ({rows}) x"


_SIDES = {"i": "x.i", "j": "y.j", "d": "y.d", "k": "x.k", "c": "y.c"}


@st.composite
def _of_full_join(draw: st.DrawFn, depth: int) -> str:
    left, right = draw(relations(depth - 1)), draw(relations(depth - 1))
    calls = draw(st.lists(_CALLS, min_size=1, max_size=2))
    calls = [re.sub(r"\b[ijdkc]\b", lambda name: _SIDES[name[0]], call) for call in calls]
    written = ", ".join(f"DP_{call}, eps=0.1)" for call in calls)
    return f"SELECT {written} FROM {left} x FULL JOIN {right} y ON x.unit = y.unit"


@st.composite
def _by_public_column(draw: st.DrawFn, depth: int) -> str:
    """Draw groups that a public table names; all of them are shown anyway."""
    calls = ", ".join(draw(st.lists(_called(), min_size=1, max_size=2)))
    name = draw(st.sampled_from(["r.name", "r.zone", "r.zone, r.size"]))
    relation = draw(relations(depth - 1))
    if draw(st.booleans()):
        linked = f"{relation} x JOIN regions r ON x.k = r.name{draw(st.sampled_from(LINKS))}"
        where = draw(st.sampled_from(["", " WHERE r.size > 0", " WHERE o.zone = 'b'"]))
        more = draw(st.sampled_from(["o.zone", "o.name, o.size"]))
        return f"SELECT {calls} FROM {linked}{where} GROUP BY {name}, {more}"
    joined = draw(
        st.sampled_from([f"{relation} x JOIN regions r", f"regions r LEFT JOIN {relation} x"])
    )
    return f"SELECT {calls} FROM {joined} ON x.k = r.name GROUP BY {name}"


@st.composite
def _found_together(draw: st.DrawFn, depth: int) -> str:
    """Draw groups that one release finds: values, or combinations of them."""
    size = draw(st.integers(1, 2))
    told = draw(st.permutations(_TOLD))[:size]
    options = draw(st.sampled_from(["", ", max_groups_contributed=2", ", min_units=3"]))
    keys = f"DP_KEYS({', '.join(told)}, eps=0.1, delta=1e-6{options})"
    source = f"FROM {draw(relations(depth - 1))} x WHERE {draw(conditions())}"
    if draw(st.integers(0, 2)) == 0:
        return (
            f"SELECT {keys} {source}"
            if len(told) == 1
            else f"SELECT {told[0]} {source} GROUP BY {keys}"
        )
    calls = ", ".join(draw(st.lists(_called(), min_size=1, max_size=2)))
    return f"SELECT {calls} {source} GROUP BY {keys}"


_UNASKED = st.sampled_from(
    [
        "SELECT n, {calls} {rows} GROUP BY n",
        "SELECT n, {beside}, {calls} {rows} GROUP BY n, {beside}",
        "SELECT n, m, {calls} {rows} GROUP BY {sets}",
        "SELECT DISTINCT n, m {rows}",
        "SELECT DISTINCT n, m {rows} WHERE i > 0",
        "SELECT DISTINCT n, m {rows} WHERE k IS NOT NULL",
        "SELECT n {rows} GROUP BY n",
    ]
)
"""Groups of which nobody says that they are to be found: of n and m no range is known."""
_BIGQUERYS = st.sampled_from(
    [
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, "
        "max_groups_contributed=2, min_privacy_units_per_group=3) n, COUNT(*), "
        "SUM(LEAST(GREATEST(j, 0), 9), contribution_bounds_per_group => (0, 9)) {rows} "
        "GROUP BY n",
        "SELECT WITH ANONYMIZATION OPTIONS(epsilon=1, delta=1e-6) n, ANON_COUNT(*), "
        "ANON_SUM(LEAST(GREATEST(i, -7), 30) CLAMPED BETWEEN -7 AND 30) {rows} GROUP BY n",
    ]
)
"""The same as BigQuery writes it."""


@st.composite
def _found_unasked(draw: st.DrawFn, depth: int, forms: st.SearchStrategy[str]) -> str:
    calls = ", ".join(draw(st.lists(_called(), min_size=1, max_size=2)))
    rows = (
        "FROM (SELECT *, SUM(j) OVER (PARTITION BY unit, k) AS n, "
        f"COUNT(*) OVER (PARTITION BY unit, k) AS m FROM {draw(relations(depth - 1))} y) x"
    )
    beside = draw(st.sampled_from(["k", "i, c"]))  # the second are too many to be shown
    sets = draw(_SETS).format("m, n")
    return draw(forms).format(calls=calls, rows=rows, beside=beside, sets=sets)
