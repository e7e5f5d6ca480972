"""Queries that grow by a number: chains, nests and crowds of everything that can be repeated.

Each is accepted when it is short. What it becomes when it is long is a plan or a refusal, in
time that is in proportion to its text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["SHAPES", "moments", "shaped"]

COUNT = "SELECT DP_COUNT(*, eps=0.1)"
GROUPS = f"SELECT dept, {COUNT[7:]} AS n FROM staff GROUP BY dept"
VISITS = "SELECT person_id, minutes FROM visits"


def _chained(first: str, link: str, last: str) -> Callable[[int], str]:
    """Write names of WITH, each made of the one before it, which is `{c}`."""

    def write(n: int) -> str:
        links = [f"c{i} AS ({link.replace('{c}', f'c{i - 1}')})" for i in range(1, n)]
        named = ", ".join([f"c0 AS ({first})", *links])
        return f"WITH {named} {last.replace('{c}', f'c{n - 1}')}"

    return write


def _nested(inner: str, around: str, whole: str) -> Callable[[int], str]:
    """Write something inside itself, where `{}` is; but for the first ten levels, once."""

    def write(n: int) -> str:
        text = inner
        for _ in range(n):
            parts = around.split("{}")
            text = text.join(parts) if len(text) < 3_000 else text.join([parts[0], parts[-1]])
        return whole.replace("{}", text)

    return write


def _listed(one: str, between: str, whole: str) -> Callable[[int], str]:
    """Write many of something beside one another; `{i}` is the number of each."""

    def write(n: int) -> str:
        return whole.replace("{}", between.join(one.replace("{i}", str(i)) for i in range(n)))

    return write


def _whole(text: str) -> str:
    return f"{COUNT} AS n, {text} AS x FROM staff"


OVER = f"{COUNT} FROM {{c}}"
TOTAL = "SELECT COUNT(*) FROM {c}"
SHOWN = "SELECT {} AS n FROM staff"
VISITED = f"{COUNT} FROM visits {{}}"
_WHERE = f"{COUNT} FROM staff WHERE {{}}"
_ABOVE = _whole("{}")
_CALL = "DP_COUNT(*, eps=0.001)"
SHAPES: Mapping[str, Callable[[int], str]] = {
    "names of private rows": _chained(VISITS, "SELECT person_id, minutes FROM {c}", OVER),
    "stars of private rows": _chained("SELECT * FROM visits", "SELECT * FROM {c}", OVER),
    "filters": _chained(VISITS, "SELECT * FROM {c} WHERE minutes > 1", OVER),
    "distinct rows": _chained(VISITS, "SELECT DISTINCT * FROM {c}", OVER),
    "rows twice": _chained(VISITS, "SELECT * FROM {c} UNION ALL SELECT * FROM {c}", OVER),
    "rows joined to themselves": _chained(
        VISITS, "SELECT a.person_id, a.minutes FROM {c} a JOIN {c} b USING (person_id)", OVER
    ),
    "rows kept by themselves": _chained(
        VISITS, "SELECT * FROM {c} WHERE person_id IN (SELECT person_id FROM {c})", OVER
    ),
    "values doubled": _chained(
        VISITS,
        "SELECT person_id, minutes + minutes AS minutes FROM {c}",
        f"{COUNT} FROM {{c}} WHERE minutes > 3",
    ),
    "names of results": _chained(
        GROUPS, "SELECT dept, n + 1 AS n FROM {c}", "SELECT * FROM {c}"
    ),
    "results twice": _chained(GROUPS, "SELECT * FROM {c} UNION ALL SELECT * FROM {c}", TOTAL),
    "results crossed": _chained(
        GROUPS, "SELECT a.dept, b.n FROM {c} a CROSS JOIN {c} b", TOTAL
    ),
    "results joined": _chained(
        GROUPS, "SELECT dept, a.n FROM {c} a JOIN {c} b USING (dept)", "SELECT * FROM {c}"
    ),
    "results swapped": _chained(
        f"SELECT dept, {_CALL} AS n, {_CALL} AS m FROM staff GROUP BY dept",
        "SELECT dept, n, m FROM {c} UNION ALL SELECT dept, m, n FROM {c}",
        TOTAL,
    ),
    "names of public rows": _chained(
        "SELECT * FROM regions", "SELECT * FROM {c}", "SELECT * FROM {c}"
    ),
    "public rows crossed": _listed("regions AS r{i}", ", ", "SELECT COUNT(*) FROM {}"),
    "joins on the unit": _listed(
        "JOIN visits AS v{i} USING (person_id)", " ", f"{COUNT} FROM staff {{}}"
    ),
    "joins on a key": _listed(
        "JOIN regions AS r{i} ON visits.region = r{i}.region", " ", VISITED
    ),
    "joins of what is made": _listed(
        "JOIN (SELECT zone, region, {i} FROM regions) AS r{i} ON visits.region = r{i}.region",
        " ",
        VISITED,
    ),
    "unions of private rows": _listed(
        "SELECT person_id FROM visits", " UNION ALL ", f"{COUNT} FROM ({{}})"
    ),
    "unions of results": _listed(GROUPS, " UNION ALL ", "{}"),
    "unions of public rows": _listed("SELECT zone FROM regions", " UNION ", "{}"),
    "windows": _listed(
        "row_number() OVER (PARTITION BY person_id ORDER BY day) AS r{i}",
        ", ",
        f"{COUNT} FROM (SELECT person_id, {{}} FROM visits)",
    ),
    "calls": _listed(f"{_CALL} AS n{{i}}", ", ", "SELECT {} FROM staff"),
    "sums of calls": _listed(_CALL, " + ", "SELECT {} FROM staff"),
    "choices of calls": _listed(
        f"CASE WHEN {_CALL} > 1 THEN 1 END", " + ", "SELECT {} FROM staff"
    ),
    "names of names": lambda n: (
        f"{COUNT} AS a0, "
        + ", ".join(f"a{i} + a{i} AS a{i + 1}" for i in range(n))
        + " FROM staff"
    ),
    "one group": _listed("dept", ", ", f"{COUNT} FROM staff GROUP BY {{}}"),
    "one group of a unit": _listed(
        "minutes",
        ", ",
        f"{COUNT} FROM (SELECT person_id, minutes FROM visits GROUP BY person_id, {{}})",
    ),
    "one column": _listed(
        "minutes AS m{i}", ", ", f"{COUNT} FROM (SELECT DISTINCT person_id, {{}} FROM visits)"
    ),
    "sets of groups": _listed(
        "(dept)", ", ", f"{COUNT} FROM staff GROUP BY GROUPING SETS ({{}})"
    ),
    "an order": _listed("n", ", ", f"{COUNT} AS n FROM staff ORDER BY {{}}"),
    **{
        f"{word} {where}": _listed(one, f" {word} ", whole)
        for word, one in (
            ("+", "1"),
            ("||", "'a'"),
            ("AND", "TRUE"),
            ("=", "TRUE"),
            ("OR", "(1 = 1)"),
        )
        for where, whole in (
            ("above", _ABOVE),
            ("of public rows", "SELECT {} AS x FROM regions"),
            ("among rows", "SELECT DP_COUNT({}, eps=0.1) FROM staff"),
        )
    },
    "moments": _listed(
        "INTERVAL 1 DAY", " + ", f"{COUNT} FROM visits WHERE day > DATE '2024-01-01' + {{}}"
    ),
    "conditions": _listed("age > {i}", " AND ", _WHERE),
    "a list": _listed("4{i}", ", ", f"{COUNT} FROM staff WHERE age IN ({{}})"),
    "a list above": _listed("{i}", ", ", "SELECT zone FROM regions WHERE inhabitants IN ({})"),
    "branches": _listed(
        "WHEN age = {i} THEN {i}", " ", f"{COUNT} FROM staff WHERE CASE {{}} END > 1"
    ),
    "branches above": _listed("WHEN n = {i} THEN {i}", " ", _whole("CASE {} END")),
    "branches of groups": _listed(
        "WHEN age = {i} THEN {i}",
        " ",
        f"SELECT CASE {{}} END AS k, {COUNT[7:]} FROM staff GROUP BY k",
    ),
    **{
        f"{around} {where}": _nested(inner, around, whole)
        for around in (
            "abs({})",
            "coalesce({}, {})",
            "CASE WHEN {} > 1 THEN 2 ELSE 3 END",
            "CASE {} WHEN 1 THEN 2 WHEN 3 THEN 4 END",
            "({} + {})",
            "(- {})",
            "CAST({} AS BIGINT)",
            "least({}, {})",
            "nullif({}, 1)",
            "({} / {})",
        )
        for where, inner, whole in (
            ("above", _CALL, SHOWN),
            ("among rows", "age", _WHERE.replace("{}", "{} <> 1")),
        )
    },
    **{
        around: _nested("(1 > 0)", around, _ABOVE)
        for around in (
            "({} BETWEEN {} AND TRUE)",
            "({} IN (TRUE, {}))",
            "(NOT {})",
            "({} IS NULL)",
        )
    },
    "queries in FROM": _nested("visits", "(SELECT * FROM {})", f"{COUNT} FROM {{}}"),
    "queries of one value": _nested("1", "(SELECT {})", _ABOVE),
    "queries that exist": _nested(
        "TRUE", "EXISTS (SELECT 1 FROM regions WHERE {})", "SELECT zone FROM regions WHERE {}"
    ),
    "queries with the unit": _nested(
        "TRUE",
        "person_id IN (SELECT person_id FROM visits WHERE {})",
        f"{COUNT} FROM visits WHERE {{}}",
    ),
    "NOT": _nested("remote", "NOT {}", _WHERE),
    "minus": _nested("age", "- {}", _WHERE.replace("{}", "{} < 1")),
    "patterns": _listed("%a", "", f"{COUNT} FROM visits WHERE region LIKE '{{}}'"),
    "digits": _listed("9", "", f"{COUNT} FROM staff WHERE salary < {{}}"),
}


def shaped(name: str, size: int) -> str:
    """Return a query of one shape, about as long as a size says."""
    return SHAPES[name](size)


def moments() -> list[str]:
    """Return queries about moments at the ends of the calendar, and past them."""
    ends = (
        "DATE '0001-01-01'",
        "DATE '9999-12-31'",
        "TIMESTAMP '0001-01-01 00:00:00'",
        "TIMESTAMP '9999-12-31 23:59:59'",
        "day",
        "at",
    )
    steps = (
        "1",
        "9223372036854775807",
        "-9223372036854775807",
        "minutes",
        "INTERVAL 1 SECOND",
        "INTERVAL 1 DAY",
        "INTERVAL 1000000 YEAR",
        "INTERVAL 1000000 WEEK",
    )
    moved = [f"{end} {sign} {step}" for end in ends for sign in "+-" for step in steps]
    asked = (
        f"{COUNT} FROM visits WHERE ({{}}) IS NULL",
        f"SELECT {{}} AS k, {COUNT[7:]} FROM visits GROUP BY k",
        f"{COUNT} FROM visits WHERE {{}} BETWEEN 1 AND 2",
        "SELECT {} AS k",
        f"{COUNT} FROM visits WHERE DATE '2030-12-31' - ({{}}) > 1",
        f"SELECT date_trunc('hour', {{}}) AS k, {COUNT[7:]} FROM visits GROUP BY k",
        f"{COUNT} FROM visits WHERE date_diff('month', {{}}, day) > 1",
    )
    return [query.replace("{}", one) for one in moved for query in asked]
