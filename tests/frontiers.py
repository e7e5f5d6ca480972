"""Random queries: what is asked of random relations, in what groups."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from tests.relations import conditions, relations

__all__ = ["queries"]

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


@st.composite
def _called(draw: st.DrawFn) -> str:
    call = draw(st.one_of(_CALLS, _CALLS, _OF_UNITS))
    mechanisms = [""]
    if call.startswith(("COUNT", "SUM", "AVG", "VAR")):
        mechanisms += ["", ", mechanism='gaussian', delta=1e-6"]
    kept = ""
    if draw(st.integers(0, 2)) == 0:
        kept = f" FILTER (WHERE {draw(conditions())})"
    return f"DP_{call}, eps=0.1{draw(st.sampled_from(mechanisms))}){kept}"


@st.composite
def queries(draw: st.DrawFn, depth: int = 3) -> str:
    """Draw a query over a relation, with groups or without."""
    form = draw(st.integers(0, 9))
    if form == 0:
        return draw(_of_full_join(depth))
    if form == 1:
        return draw(_by_public_column(depth))
    calls = ", ".join(draw(st.lists(_called(), min_size=1, max_size=3)))
    keys = draw(st.lists(st.sampled_from(list(_KEYS)), max_size=2, unique=True))
    where = [_KEYS[key] for key in keys if _KEYS[key]]
    if draw(st.integers(0, 3)) == 0:
        where.append(f"({draw(conditions())})")
    kept = f" WHERE {' AND '.join(where)}" if where else ""
    source = f"FROM {draw(relations(depth))} x{kept}"
    if not keys:
        return f"SELECT {calls} {source}"
    named = ", ".join(f"{key} AS g{number}" for number, key in enumerate(keys))
    groups = draw(_SETS).format(", ".join(f"g{number}" for number in range(len(keys))))
    return f"SELECT {named}, {calls} {source} GROUP BY {groups}"


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
    joined = draw(
        st.sampled_from([f"{relation} x JOIN regions r", f"regions r LEFT JOIN {relation} x"])
    )
    return f"SELECT {calls} FROM {joined} ON x.k = r.name GROUP BY {name}"
