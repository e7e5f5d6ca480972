"""What analysts get wrong, and that the first line after `try:` is right when it is pasted.

A remedy is pasted in place of the query, of what stands over the caret, or of the part of the
query that is named beside it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import dpquery
from dpquery.errors import QueryRefused
from dpquery.session import Session
from tests.samples import sample_policy

WHOLE, CARET = None, ""
ROWS = "SELECT DP_COUNT(*, eps=0.1) FROM "
HABITS = [
    # comparisons and conditions, of other languages
    ("age =< 30", "age <= 30"),
    ("age => 30", "age >= 30"),
    ("age !> 30", "age <= 30"),
    ("age IS 30", "age = 30"),
    ("age IS NOT 30", "age <> 30"),
    ("bonus IS NUL", "bonus IS NULL"),
    ("bonus ISNULL", "bonus IS NULL"),
    ("bonus NOTNULL", "bonus IS NOT NULL"),
    ("ISNULL(bonus)", "bonus IS NULL"),
    ("!remote", "NOT remote"),
    ("age BETWEEN (30, 40)", "age BETWEEN 30 AND 40"),
    ("age BETWEEN 30 TO 40", "age BETWEEN 30 AND 40"),
    ("30 < age < 40", "30 < age AND age < 40"),
    ("dept RLIKE '^eng$'", "REGEXP_MATCHES(dept, '^eng$')"),
    ("dept NOT RLIKE 'eng'", "NOT REGEXP_MATCHES(dept, 'eng')"),
    ("dept GLOB 'e*'", "dept LIKE 'e%'"),
    ("dept IN ['eng','hr']", "dept IN ('eng','hr')"),
    ("dept IN 'eng'", "dept IN ('eng')"),
    ("dept = ANY(['eng'])", "dept IN ('eng')"),
    ("dept IN (eng, hr)", "dept IN ('eng', 'hr')"),
    ('dept IN ("eng", "hr")', "dept IN ('eng', 'hr')"),
    ("dept = eng", "dept = 'eng'"),
    ("dept = ''eng''", "dept = 'eng'"),
    ("dept = 'eng", "dept = 'eng'"),
    ("dept = 'eng' || dept = 'hr'", "dept = 'eng' OR dept = 'hr'"),
    ("(age > 30) | (dept = 'eng')", "(age > 30) OR (dept = 'eng')"),
    ("age > 30 & remote", "age > 30 AND remote"),
    ("age > 30, dept = 'eng'", "age > 30 AND dept = 'eng'"),
    ("age > 30 WHERE dept = 'eng'", "age > 30 AND dept = 'eng'"),
    ("remote AND", "remote"),
    # numbers and dates
    ("salary > 50k", "salary > 50000"),
    ("salary > 50,000", "salary > 50000"),
    ("salary > 50_000", "salary > 50000"),
    ("salary > $50000", "salary > 50000"),
    ("age ** 2 > 900", "age * age > 900"),
    ("hired > 2020-01-31", "hired > DATE '2020-01-31'"),
    ("hired > DATE(2020, 1, 31)", "hired > '2020-01-31'"),
    ("DATE(hired) = '2020-01-31'", "CAST(hired AS DATE) = '2020-01-31'"),
    ("hired > TO_DATE('2020-01-31')", "hired > '2020-01-31'"),
    ("hired < CURRENT_TIMESTAMP", "hired < CURRENT_DATE"),
    ("hired < NOW() - INTERVAL 1 YEAR", "hired < CURRENT_DATE - INTERVAL 1 YEAR"),
    ("DATEDIFF(DAY, hired, CURRENT_DATE) > 3", "DATEDIFF('DAY', hired, CURRENT_DATE) > 3"),
    ("TO_CHAR(hired, 'YYYY-MM') = '2020-01'", "STRFTIME(hired, '%Y-%m') = '2020-01'"),
    ("SAFE_DIVIDE(bonus, salary) > 0.1", "bonus / salary > 0.1"),
    ("DATE_TRUNC(hired, YEAR) = '2020-01-01'", "DATE_TRUNC('YEAR', hired) = '2020-01-01'"),
    ("DATE_TRUNC(hired, 'year') = '2020-01-01'", "DATE_TRUNC('year', hired) = '2020-01-01'"),
    (
        "DATE_DIFF(hired, DATE '2020-01-01', DAY) > 3",
        "DATE_DIFF('DAY', DATE '2020-01-01', hired) > 3",
    ),
]
"""Conditions, and the ones that are offered for them."""
CALLS = [
    ("DP_COUNT(*, eps 0.1)", "DP_COUNT(*, eps=0.1)"),
    ("DP_COUNT(*, eps: 0.1)", "DP_COUNT(*, eps=0.1)"),
    ("DP_COUNT(* eps=0.1)", "DP_COUNT(*, eps=0.1)"),
    ("DP_COUNT(*; eps=0.1)", "DP_COUNT(*, eps=0.1)"),
    ("DP_COUNT(*, eps<=1)", "DP_COUNT(*, eps=1)"),
    ("DP_COUNT[*, eps=0.1]", "DP_COUNT(*, eps=0.1)"),
    ("DP_COUNT(*, e=0.1)", "DP_COUNT(*, eps=0.1)"),
    ('DP_COUNT(*, eps="0.1")', "DP_COUNT(*, eps=0.1)"),
    ("DP_COUNT(*, eps=10%)", "DP_COUNT(*, eps=0.1)"),
    ("DP_AVG(age, eps=0,5)", "DP_AVG(age, eps=0.5)"),
    ("DP_AVG(age, eps=1, bounds=20..60)", "DP_AVG(age, eps=1, bounds=[20, 60])"),
    ("DP_AVG(age, eps=1, clamp=[20, 60])", "DP_AVG(age, eps=1, bounds=[20, 60])"),
    ("DP_AVG(age, eps=1, lower=20, upper=60)", "DP_AVG(age, eps=1, bounds=[20, 60])"),
    ("ANON_COUNT(*)", "DP_COUNT(*, eps=0.5)"),
    ("DP_COUNT(*, eps=1, weights=table)", "DP_COUNT(*, eps=1, weights='table')"),
    ("DP_COUNT(*, eps=1) AS group", 'DP_COUNT(*, eps=1) AS "group"'),
]
"""What stands after SELECT, and what is offered for it."""
CLAUSES = [
    (
        "SELECT dept, DP_COUNT(*, eps=1) FROM staff GROUP dept",
        "SELECT dept, DP_COUNT(*, eps=1) FROM staff GROUP BY dept",
    ),
    (
        "SELECT dept DP_COUNT(*, eps=1) FROM staff GROUP BY dept",
        "SELECT dept, DP_COUNT(*, eps=1) FROM staff GROUP BY dept",
    ),
    (
        "SELECT DP_COUNT(*, eps=1) n FROM staff ORDER BY n DESCENDING",
        "SELECT DP_COUNT(*, eps=1) n FROM staff ORDER BY n DESC",
    ),
    (
        "SELECT DP_COUNT(*, eps=1) FROM staff FETCH FIRST 3 ROWS ONLY",
        "SELECT DP_COUNT(*, eps=1) FROM staff LIMIT 3",
    ),
    ("SELECT DP_COUNT(*, eps=1) FROM staff LIMIT ALL", "SELECT DP_COUNT(*, eps=1) FROM staff"),
    ("DP_COUNT(*, eps=1) FROM staff", "SELECT DP_COUNT(*, eps=1) FROM staff"),
    (
        "SELECT dept, DP_COUNT(*, eps=1) FROM staff GROUP BY ROLLUP dept",
        "SELECT dept, DP_COUNT(*, eps=1) FROM staff GROUP BY ROLLUP (dept)",
    ),
    (
        "SELECT dept, DP_COUNT(*, eps=1) FROM staff GROUP BY GROUPING SETS dept, remote",
        "SELECT dept, DP_COUNT(*, eps=1) FROM staff GROUP BY GROUPING SETS (dept, remote)",
    ),
    (
        "SELECT DP_COUNT(*, eps=1) FROM staff CROSS JOIN visits",
        "SELECT DP_COUNT(*, eps=1) FROM staff "
        "JOIN visits ON staff.person_id = visits.person_id",
    ),
    (
        "WITH RECURSIVE t AS (SELECT * FROM staff) SELECT DP_COUNT(*, eps=1) FROM t",
        "WITH t AS (SELECT * FROM staff) SELECT DP_COUNT(*, eps=1) FROM t",
    ),
]
STAFF = "SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE "
MISTAKES = [
    # slips of the pen
    ("SELECT DP_CUONT(*, eps=0.1) FROM staff", "DP_CUONT(*, eps=0.1)"),
    ("SELECT CUONT(bonus) FROM staff", "CUONT(bonus)"),
    ("SELECT DP_SUM(salery, eps=0.1) FROM staff", "salery"),
    ("SELECT DP_COUNT(*, eps=0.1) FORM staff", WHOLE),
    ("SELECT DP_COUNT(*, eps=0.1) FROM stuff", "FROM stuff"),
    ("SELECT DP_COUNT(*, eps=0.1 FROM staff", WHOLE),
    ("SELECT DP_COUNT(*, eps=0.1) AS n,, FROM staff", WHOLE),
    ("SELECT DP_COUNT(*, epsilom=0.1) FROM staff", "epsilom=0.1"),
    ("SELECT RUOND(DP_COUNT(*, eps=0.1), 1) FROM staff", "RUOND(DP_COUNT(*, eps=0.1), 1)"),
    # a forgotten or a wrong epsilon, options and bounds
    ("SELECT DP_COUNT(*) FROM staff", "DP_COUNT(*)"),
    (STAFF + "salary > (SELECT AVG(salary) FROM staff)", "AVG(salary)"),
    ("SELECT DP_AVG(salary, 0.1) FROM staff", "DP_AVG(salary, 0.1)"),
    ("SELECT DP_COUNT(*, eps='0.1') FROM staff", WHOLE),
    ("SELECT DP_COUNT(*, eps=0.1, epsilon=1) FROM staff", "DP_COUNT(*, eps=0.1, epsilon=1)"),
    ("SELECT DP_SUM(age, eps=0.1, bounds=[100, 0]) FROM staff", "bounds=[100, 0]"),
    (
        "SELECT DP_COUNT(*, eps=0.1, bounds=[0, 9]) FROM staff",
        "DP_COUNT(*, eps=0.1, bounds=[0, 9])",
    ),
    ("SELECT DP_SUM(person_id, eps=0.1) FROM staff", "DP_SUM(person_id, eps=0.1)"),
    (
        "SELECT DP_COUNT(*, eps=0.1, mechanism='gaussian') FROM staff",
        "DP_COUNT(*, eps=0.1, mechanism='gaussian')",
    ),
    (
        "SELECT DP_COUNT(*, delta=1e-7, eps=0.1) FROM staff",
        "DP_COUNT(*, delta=1e-7, eps=0.1)",
    ),
    ("SELECT DP_SUM(eps=0.1) FROM visits", "DP_SUM(eps=0.1)"),
    ("SELECT DP_MEDIAN(age, rho=0.1) FROM staff", "DP_MEDIAN(age, rho=0.1)"),
    ("SELECT DP_SUM(age, eps=0.1, bounds=auto) FROM staff", "bounds=auto"),
    ("SELECT dept, DP_COUNT(*, eps=0.1) FROM staff GROUP BY ROLLUP", WHOLE),
    (
        f"{STAFF}EXISTS (SELECT COUNT(*) FROM visits v WHERE v.person_id = staff.person_id)",
        CARET,
    ),
    ("SELECT * FROM regions AS r(x, x)", "x, x"),
    ("SELECT DP_MEDIAN(*, eps=0.1) FROM visits", "DP_MEDIAN(*, eps=0.1)"),
    ("SELECT DP_QUANTILE(salary, eps=0.1) FROM staff", "DP_QUANTILE(salary, eps=0.1)"),
    ("SELECT DP_QUANTILE(salary, 95, eps=0.1) FROM staff", "DP_QUANTILE(salary, 95, eps=0.1)"),
    (
        "SELECT DP_QUANTILE(salary, q=0.5, eps=0.1) FROM staff",
        "DP_QUANTILE(salary, q=0.5, eps=0.1)",
    ),
    ("SELECT DP_AVG(dept, eps=0.1) FROM staff", "DP_AVG(dept, eps=0.1)"),
    # functions of other engines
    ("SELECT COUNT(*) FROM staff", "COUNT(*)"),
    ("SELECT COUNT(DISTINCT person_id) FROM visits", "COUNT(DISTINCT person_id)"),
    ("SELECT APPROX_COUNT_DISTINCT(region) FROM visits", "APPROX_COUNT_DISTINCT(region)"),
    ("SELECT MAX(salary) FROM staff", "MAX(salary)"),
    ("SELECT MIN(hired) FROM staff", "MIN(hired)"),
    ("SELECT MAX(dept) FROM staff", "MAX(dept)"),
    ("SELECT MAX(bonus) FROM staff", "MAX(bonus)"),
    ("SELECT MIN(spent) FROM visits", "MIN(spent)"),
    ("SELECT QUANTILE_CONT(salary, 0.9) FROM staff", "QUANTILE_CONT(salary, 0.9)"),
    ("SELECT PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY salary) FROM staff", WHOLE),
    ("SELECT MEDIAN(age) FROM staff", "MEDIAN(age)"),
    ("SELECT AVG(rating) FROM staff", "AVG(rating)"),
    ("SELECT SUM(person_id) FROM staff", "SUM(person_id)"),
    ("SELECT STDDEV(salary) FROM staff", "STDDEV(salary)"),
    ("SELECT STD(salary) FROM staff", "STD(salary)"),
    ("SELECT VARIANCE(salary) FROM staff", "VARIANCE(salary)"),
    ("SELECT COUNTIF(remote) FROM staff", "COUNTIF(remote)"),
    ("SELECT SUM(remote) FROM staff", "SUM(remote)"),
    ("SELECT STRING_AGG(dept) FROM staff", "STRING_AGG(dept)"),
    ("SELECT COUNT(CASE WHEN age > 30 THEN 1 END) FROM staff", None),
    ("SELECT SUM(IF(remote, 1, 0)) FROM staff", None),
    ("SELECT COUNT(*)", WHOLE),
    ("SELECT NOW()", WHOLE),
    # MySQL and BigQuery
    ("SELECT `dept`, DP_COUNT(*, eps=0.1) FROM `staff` GROUP BY `dept`", WHOLE),
    ("SELECT dept, DP_COUNT(*, eps=0.1) FROM staff GROUP BY dept LIMIT 1, 2", WHOLE),
    (f"{STAFF}remote && age > 30", WHOLE),
    (f'{STAFF}dept = "eng"', '"eng"'),
    (f"{STAFF}dept GLOB 'e*'", WHOLE),
    (f"{STAFF}YEARS(hired) = 2020", "YEARS(hired)"),
    ("SELECT DP_COUNT(*, eps=0.1) FROM proj.stuff", "FROM proj.stuff"),
    (
        "SELECT DP_COUNT(*, eps=0.1) FROM a.staff JOIN b.staff s USING (person_id)",
        "b.staff",
    ),
    # types
    (f"{STAFF}age > '40'", "age > '40'"),
    (f"{STAFF}age > 'old'", "age > 'old'"),
    (f"{STAFF}'40' < bonus", "'40' < bonus"),
    (f"{STAFF}dept = 3", "dept = 3"),
    (f"{STAFF}remote = 2", "remote = 2"),
    (f"{STAFF}remote <> 'no'", "remote <> 'no'"),
    (f"{STAFF}bonus = NULL", "bonus = NULL"),
    (f"{STAFF}bonus <> NULL", "bonus <> NULL"),
    (f"{STAFF}age NOT IN (30, NULL)", "age NOT IN (30, NULL)"),
    (f"{STAFF}hired > 2020", "hired > 2020"),
    (f"{STAFF}2020 <= hired", "2020 <= hired"),
    (f"{STAFF}hired = 2020", "hired = 2020"),
    (f"{STAFF}hired BETWEEN 2019 AND 2020", "hired BETWEEN 2019 AND 2020"),
    (f"{STAFF}age IN ('30', '40')", "age IN ('30', '40')"),
    (f"{STAFF}age IN (salary, 30)", "age IN (salary, 30)"),
    (f"{STAFF}dept + 1 > 3", "dept"),
    (f"{STAFF}-dept < 3", "dept"),
    (f"{STAFF}age", "age"),
    (f"{STAFF}age = dept", "age = dept"),
    ("SELECT DP_COUNT(*, eps=0.1) FROM visits WHERE at > 2024", "at > 2024"),
    # results among the rows, rows among the results
    ("SELECT DP_COUNT(*, eps=0.1) AS n FROM staff WHERE n > 10", WHOLE),
    (f"{STAFF}(remote OR age > 30) AND DP_COUNT(*, eps=0.1) > 10", WHOLE),
    (
        "SELECT dept, DP_COUNT(*, eps=0.1) AS n FROM staff WHERE n > 10 AND age > 30 "
        "GROUP BY dept ORDER BY n LIMIT 3",
        WHOLE,
    ),
    ("SELECT DP_COUNT(*, eps=0.1) AS n FROM staff HAVING n", CARET),
    ("SELECT DP_COUNT(*, eps=0.1) AS n FROM staff HAVING n > 3 OR 5", CARET),
    ("SELECT DP_COUNT(*, eps=0.1) AS n FROM staff HAVING NOT 'x'", CARET),
    ("SELECT DP_MEDIAN(hired, eps=0.1) AS at FROM staff HAVING at", CARET),
    ("SELECT dept, DP_COUNT(*, eps=0.1) FROM staff GROUP BY dept HAVING dept", CARET),
    ("SELECT DP_COUNT(*, eps=0.1) + '3' FROM staff", CARET),
    ("SELECT dept, DP_COUNT(*, eps=0.1) FROM staff", WHOLE),
    ("SELECT salary FROM staff", WHOLE),
    ("SELECT * FROM staff", WHOLE),
    (
        "SELECT DP_COUNT(*, eps=0.1) FROM visits WHERE minutes > 3 GROUP BY person_id",
        "WHERE minutes > 3",
    ),
    (
        "SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE remote OR age > 3 "
        "GROUP BY hired, age, dept",
        "WHERE remote OR age > 3",
    ),
    ("SELECT salary + 1, DP_COUNT(*, eps=0.1) FROM staff GROUP BY salary ORDER BY 1", WHOLE),
    ("SELECT at AS t, DP_COUNT(*, eps=0.1) FROM visits GROUP BY 1", WHOLE),
    (f"{STAFF}dept LIKE 'x%' GROUP BY dept", CARET),
    (
        "SELECT zone, inhabitants, DP_COUNT(*, eps=0.1) FROM visits JOIN regions "
        "USING (region) GROUP BY zone",
        WHOLE,
    ),
    ("SELECT DP_COUNT(*, eps=0.1) FROM staff GROUP BY age / 10", "GROUP BY age / 10"),
    ("SELECT DP_COUNT(*, eps=0.1) AS n FROM staff GROUP BY n", "GROUP BY n"),
    ("SELECT DP_COUNT(*, eps=0.1) AS n FROM staff ORDER BY 2", "ORDER BY 2"),
    ("SELECT DP_COUNT(*, eps=0.1) AS n FROM staff LIMIT ALL", WHOLE),
    ("SELECT visits.dept, DP_COUNT(*, eps=0.1) FROM staff GROUP BY dept", CARET),
    ("SELECT DP_MEDIAN(DISTINCT age, eps=0.1) FROM staff", "DP_MEDIAN(DISTINCT age, eps=0.1)"),
    ("SELECT SUM(DISTINCT age) FROM staff", "SUM(DISTINCT age)"),
    # what cannot be computed, or not within its bounds
    (f"{STAFF}person_id * person_id > 10", CARET),
    ("SELECT DP_COUNT(age * person_id + 3 * person_id * person_id, eps=1) FROM staff", CARET),
    (f"{STAFF}person_id IN (1, 99999999999999999999) GROUP BY person_id", CARET),
    ("SELECT DP_AVG(age, eps=1, bounds=[90, 99]) FROM staff", "bounds=[90, 99]"),
    ("SELECT DP_MEDIAN(hired, eps=0.1) * 2 FROM staff AS s", CARET),
    ("SELECT zone + 1 FROM regions", CARET),
    (f"{STAFF}hired > '2020'", "'2020'"),
    (f"{STAFF}hired > '31.01.2020'", "'31.01.2020'"),
    (f"{STAFF}hired > '01/31/2020'", "'01/31/2020'"),
    (f"{STAFF}hired > '20200131'", "'20200131'"),
    (f"{STAFF}hired > 'last year'", "'last year'"),
    (f"{STAFF}hired.year = 2020", "hired.year"),
    (f"{STAFF}staff.hired.month = 2", "staff.hired.month"),
    ("SELECT DP_MAX(dept, eps=0.1) FROM staff", "DP_MAX(dept, eps=0.1)"),
    (f"{STAFF}hired.date > DATE '2020-01-31'", "hired.date"),
    (f"{STAFF}YEAR(CAST(dept AS DATE)) > 2020", "dept"),
    (f"{STAFF}(dept, age) IN (('eng', 30, TRUE))", "('eng', 30, TRUE)"),
    (f"{ROWS}(SELECT person_id FROM visits EXCEPT ALL SELECT person_id FROM staff) s", CARET),
    (f"{ROWS}(staff s JOIN visits v ON s.person_id = v.person_id) AS q", CARET),
    # what would be paid for and could not contain anything
    ("SELECT DP_COUNT(*, eps=0.1) FROM staff LIMIT 0", CARET),
    ("SELECT DP_COUNT(*, eps=0.1) * NULL FROM staff", CARET),
    ("SELECT ROUND(5, 0) - (NULL + DP_COUNT(*, eps=0.1)) FROM staff", CARET),
    ("SELECT DP_REGR_COUNT(age, age, eps=1) FROM staff", "DP_REGR_COUNT(age, age, eps=1)"),
    (f"{STAFF}NULL", CARET),
    (f"{STAFF}remote AND NULL", CARET),
    (f"{STAFF}dept >= DATE '2020-01-01'", CARET),
    (f"{STAFF}dept >= TIMESTAMP '2020-01-01 00:00:00'", CARET),
    (f"{STAFF}NOW() = age", WHOLE),
    (f"{STAFF}age > 30 AND 1 > 2", CARET),
    ("SELECT dept, DP_COUNT(*, eps=0.1) FROM staff GROUP BY dept HAVING 'a' = 'b'", CARET),
    ("SELECT DP_COUNT(*, eps=0.1) FILTER (WHERE FALSE) FROM staff", CARET),
    ("SELECT -(100 * DP_COUNT(*, eps=0.1) // 0.0) AS n FROM staff", CARET),
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    place = tmp_path_factory.mktemp("mistakes")
    with dpquery.connect(sample_policy(place, "epsilon = 2.0\ndelta = 1e-6")) as opened:
        yield opened


def refused(session: Session, query: str) -> QueryRefused:
    with pytest.raises(QueryRefused) as caught:
        session.explain(query)
    return caught.value


@pytest.mark.parametrize(("query", "part"), MISTAKES, ids=[query for query, _ in MISTAKES])
def test_what_is_offered_first_is_accepted_when_it_is_pasted(session, query, part):
    refusal = refused(session, query)
    remedy, span = refusal.diagnostic.remedy[0], refusal.span
    mended = remedy
    if remedy.startswith("SELECT "):  # the query itself, mended
        part = WHOLE
    if part == CARET and span is not None:
        mended = query[: span.start] + remedy + query[span.end :]
    elif part:
        mended = query.replace(part, remedy, 1)
    session.explain(mended)


def test_of_their_own_files_nobody_is_sent_to_a_data_owner(tmp_path):
    place = sample_policy(tmp_path, "epsilon = 2.0").parent
    files = {name: place / f"{name}.parquet" for name in ("staff", "visits")}
    with dpquery.connect(files, unit="person_id", epsilon=2) as own:
        assert not [query for query, _ in MISTAKES if "owner" in told(own, query)]


def told(session: Session, query: str) -> str:
    try:
        return str(session.explain(query))
    except QueryRefused as refusal:
        return str(refusal)


@pytest.mark.parametrize(
    ("query", "remedy"),
    [
        ("SELECT MAX(salary) FROM staff", "SELECT DP_MAX(salary, eps=0.5) FROM staff"),
        ("SELECT min(salary) FROM staff", "SELECT DP_MIN(salary, eps=0.5) FROM staff"),
        ("SELECT MEAN(age) FROM staff", "SELECT DP_AVG(age, eps=0.5) FROM staff"),
        (
            "SELECT SUM(person_id) FROM staff",
            "SELECT DP_SUM(person_id, bounds='auto', eps=0.5) FROM staff",
        ),
        (
            "SELECT COUNT(DISTINCT person_id) FROM visits",
            "SELECT DP_COUNT(DISTINCT person_id, eps=0.5) FROM visits",
        ),
        ("SELECT DP_SUM(*, eps=0.1) FROM visits", "DP_SUM(minutes, eps=0.1)"),
        ("SELECT name FROM staff", "person_id"),
        (
            "SELECT DISTINCT person_id FROM visits",
            "SELECT DP_KEYS(person_id, eps=0.5, delta=1e-7) FROM visits",
        ),
        (
            "SELECT DISTINCT person_id, minutes AS m FROM visits WHERE minutes > 3 LIMIT 3",
            "SELECT DISTINCT person_id, minutes AS m FROM visits WHERE minutes > 3 "
            "GROUP BY DP_KEYS(person_id, minutes, eps=0.5, delta=1e-7) LIMIT 3",
        ),
        (
            "SELECT DP_KEYS(dept, age, eps=0.5, delta=1e-7) FROM staff",
            "SELECT dept, age FROM staff GROUP BY DP_KEYS(dept, age, eps=0.5, delta=1e-7)",
        ),
        (
            "SELECT DP_COUNT(*, eps=.1) FROM staff "
            "GROUP BY DP_KEYS(dept, age, eps=0.5, delta=1e-7, other='x')",
            "GROUP BY DP_KEYS(dept, age, eps=0.5, delta=1e-7)",
        ),
        (f"{STAFF}bonus // 100 = 3", "CAST(bonus AS INTEGER)"),
        (f"{STAFF}age % 2.0 = 1", "2"),
        ("SELCT DP_COUNT(*, eps=.1) FROM staff", "SELECT DP_COUNT(*, eps=.1) FROM staff"),
        (
            "wiht a AS (SELECT 1 AS n) SELECT n FROM a",
            "WITH a AS (SELECT 1 AS n) SELECT n FROM a",
        ),
        (
            "SELECT DP_KEYS(minutes, eps=.5, delta=1e-7) AS m, DP_COUNT(*, eps=.1) AS n "
            "FROM visits GROUP BY m LIMIT 3",
            "SELECT minutes AS m, DP_COUNT(*, eps=.1) AS n "
            "FROM visits GROUP BY DP_KEYS(minutes, eps=.5, delta=1e-7) LIMIT 3",
        ),
        (
            "SELECT dept, DP_COUNT(*, eps=.1) FROM staff WHERE age > 3",
            "SELECT dept, DP_COUNT(*, eps=.1) FROM staff WHERE age > 3 GROUP BY dept",
        ),
        (
            "SELECT YEAR(hired) AS y, DP_COUNT(*, eps=.1) AS n, dept FROM staff ORDER BY n",
            "SELECT YEAR(hired) AS y, DP_COUNT(*, eps=.1) AS n, dept FROM staff "
            "GROUP BY YEAR(hired), dept ORDER BY n",
        ),
        (
            "SELECT remote, dept, DP_COUNT(*, eps=.1) FROM staff GROUP BY dept LIMIT 3",
            "SELECT remote, dept, DP_COUNT(*, eps=.1) FROM staff GROUP BY dept, remote LIMIT 3",
        ),
        (
            "SELECT person_id, DP_COUNT(*, eps=.1) FROM staff WHERE person_id IN (1, 2)",
            "SELECT person_id, DP_COUNT(*, eps=.1) FROM staff WHERE person_id IN (1, 2) "
            "GROUP BY person_id",
        ),
        (
            "SELECT salary, DP_COUNT(*, eps=.1) FROM staff WHERE salary <> 3 OR remote",
            "SELECT DP_QUANTILE(salary, 0.5, eps=.1) FROM staff",
        ),
        (f'{STAFF}dept = "eng"', "'eng'"),
        (f"{STAFF}age > '40'", "age > 40"),
        (f"{STAFF}remote = 2", "remote = TRUE"),
        (
            "SELECT * FROM staff WHERE salary > 9",
            "SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE salary > 9",
        ),
        (
            "SELECT s.*, age FROM staff s JOIN visits USING (person_id) LIMIT 3",
            "SELECT DP_COUNT(*, eps=0.5) FROM staff",
        ),
        (
            "SELECT person_id FROM visits EXCEPT SELECT person_id FROM staff",
            "SELECT DP_COUNT(*, eps=0.5) FROM "
            "(SELECT person_id FROM visits EXCEPT SELECT person_id FROM staff)",
        ),
        (f"{STAFF}bonus = NULL", "bonus IS NULL"),
        (f"{STAFF}age NOT IN (30, NULL, 40)", "age NOT IN (30, 40)"),
        (f"{STAFF}hired.year = 2020", "YEAR(hired)"),
        ("SELECT DP_MEDIAN(DISTINCT age, eps=1) FROM staff", "DP_MEDIAN(age, eps=1)"),
        (f"{STAFF}(dept, age) IN (('eng', 30, TRUE))", "('eng', 30)"),
        (f"{STAFF}YEAR(CAST(dept AS DATE)) > 2020", "DATE '2024-12-31'"),
        (
            "SELECT DP_COUNT(*, eps=1) FROM "
            "(staff s JOIN visits v ON s.person_id = v.person_id) AS q",
            "staff s JOIN visits v USING (person_id)",
        ),
        (f"{STAFF}hired > 2020", "hired > DATE '2020-12-31'"),
        (f"{STAFF}hired >= 2020", "hired >= DATE '2020-01-01'"),
        (f"{STAFF}2020 < hired", "DATE '2020-12-31' < hired"),
        (f"{STAFF}hired <> 2020", "hired NOT BETWEEN DATE '2020-01-01' AND DATE '2020-12-31'"),
        (
            "SELECT DP_COUNT(*, eps=1) AS n FROM staff WHERE n > 10 AND (remote OR age > 3)",
            "SELECT DP_COUNT(*, eps=1) AS n FROM staff WHERE (remote OR age > 3) HAVING n > 10",
        ),
        ("SELECT DP_COUNT(*, eps=0.1, bounds=[0, 9]) FROM staff", "DP_COUNT(*, eps=0.1)"),
        ("SELECT DP_COUNT(*, delta=1e-7, eps=0.1) FROM staff", "DP_COUNT(*, eps=0.1)"),
        ("SELECT COUNT(*)", "SELECT DP_COUNT(*, eps=0.5) FROM staff"),
        ("SELECT DP_COUNT(DISTINCT age, 0.1) FROM staff", "DP_COUNT(DISTINCT age, eps=0.1)"),
        ("SELECT DP_SUM(age, eps=0.1, bounds='x') FROM staff", "bounds='auto'"),
    ],
)
def test_a_remedy_is_made_from_the_query(session, query, remedy):
    assert refused(session, query).diagnostic.remedy[0] == remedy


@pytest.mark.parametrize(
    ("query", "remedy"),
    [
        *((STAFF + wrong, STAFF + right) for wrong, right in HABITS),
        *(
            (f"SELECT {wrong} FROM staff", f"SELECT {right} FROM staff")
            for wrong, right in CALLS
        ),
        *CLAUSES,
    ],
    ids=str,
)
def test_a_habit_of_another_language_is_mended(session, query, remedy):
    assert refused(session, query).diagnostic.remedy == (remedy,)
    session.explain(remedy)


def test_a_mended_query_stands_only_where_it_is_accepted(session):
    """`||` can be meant for OR: where OR would be refused too, it is not offered."""
    refusal = refused(session, f"{STAFF}age || hired = 'engx'")
    assert refusal.diagnostic.remedy == ("dept || '-' || dept",)


LONG = "0123456789" * 20


@pytest.mark.parametrize("expression", [
    f"REPLACE(region, 'a', '{LONG}')",
    f"CONCAT(REPLACE(region, 'a', '{LONG}'), region)",
    " || ".join(["region"] * 9 + [f"'{LONG}'"]),
])  # fmt: skip
def test_a_text_that_grows_too_long_is_offered_with_its_own_columns_cut(session, expression):
    query = f"SELECT DP_COUNT(*, eps=0.1) FROM visits WHERE {expression} = 'x'"
    found = refused(session, query)
    assert found.code == "DPQ305"
    assert "LEFT(region, " in found.diagnostic.remedy[0]
    pasted = found.diagnostic.remedy[0].join(
        (query[: found.span.start], query[found.span.end :])
    )
    session.explain(pasted)


@pytest.mark.parametrize("made", ["region || region || region", "minutes * minutes"])
def test_what_a_subquery_computes_is_not_offered_outside_of_it(session, made):
    operator = " || " if "region" in made else " * "
    grown = operator.join(["r"] * 40)
    inner = f"(SELECT person_id, {made} AS r FROM visits)"
    found = refused(session, f"SELECT DP_COUNT({grown}, eps=0.1) FROM {inner}")
    assert found.code == "DPQ305"
    assert not any("FROM" in line for line in found.diagnostic.remedy)


@pytest.mark.parametrize(
    ("written", "offered"),
    [
        ("CORR(age, salary)", "DP_CORR(age, salary, eps=0.5)"),
        ("COVAR_SAMP(age, salary)", "DP_COVAR_SAMP(age, salary, eps=0.5)"),
        ("COVAR_POP(age, salary)", "DP_COVAR_POP(age, salary, eps=0.5)"),
        ("DP_COVAR_POP(age, eps=1)", "DP_COVAR_POP(age, salary, eps=1)"),
        ("COVAR_POP(age, person_id)", "LEAST(GREATEST(person_id, 0), 1000), eps=0.5)"),
        ("DP_COVAR_PAP(age, salary, eps=1)", "DP_COVAR_POP(age, salary, eps=1)"),
        ("HISTOGRAM(age)", "SELECT age AS bin, DP_COUNT(*, eps=0.5) AS n"),
        ("HISTOGRAM(age, [30, 40])", "DP_HISTOGRAM(age, [30, 40], eps=0.5)"),
        ("DP_HISTOGRAM(hired, eps=1)", "(hired, ['2024-12-30', '2024-12-31'], eps=1)"),
        ("DP_CDF(age, at=[40, 30], eps=1)", "DP_CDF(age, at=[30, 40], eps=1)"),
        ("HISTOGRAM(bonus)", "SELECT FLOOR(bonus / 1000) * 1000 AS bin"),
        ("HISTOGRAM(dept)", "SELECT dept AS bin"),
        ("WIDTH_BUCKET(age, 0, 100, 10)", None),
    ],
)
def test_what_is_no_function_here_is_offered_as_what_it_is_made_of(session, written, offered):
    if offered is None:
        query = f"SELECT {written} AS b, DP_COUNT(*, eps=0.1) FROM staff GROUP BY b"
        offered = query.replace(written, "FLOOR((age - 0) * 10 / (100 - 0)) + 1")
    else:
        query = f"SELECT {written} FROM staff"
    remedy = refused(session, query).diagnostic.remedy[0]
    assert offered in remedy
    session.explain(remedy if remedy.startswith("SELECT") else query.replace(written, remedy))


def test_bins_of_a_range_are_as_many_as_there_can_be(session):
    for bins, most in (("FLOOR(bonus / 5000) * 5000", 12), ("salary // 20000 * 20000", 12)):
        answer = session.explain(
            f"SELECT {bins} AS b, DP_COUNT(*, eps=1) FROM staff GROUP BY b"
        )
        assert f"groups       {most} of " in str(answer)


def test_a_function_is_near_only_if_two_letters_differ(session):
    names = ("DP_SKEWNESS", "DP_ENTROPY", "DP_KURTOSIS", "LDP_MEAN")
    for name in names:
        refusal = refused(session, f"SELECT {name}(age, eps=0.1) FROM staff")
        assert refusal.diagnostic.remedy[0] == "DP_COUNT(*, eps=0.1)"
        assert "DP_COUNTIF" not in refusal.diagnostic.why[0]


def test_of_several_calls_the_dearest_is_offered_with_what_the_others_leave(session):
    query = "SELECT DP_COUNT(*, eps=0.5) AS n, DP_AVG(age, eps=4) AS a FROM staff"
    with pytest.raises(QueryRefused) as caught:
        session.sql(query)
    assert caught.value.diagnostic.remedy == (
        "DP_AVG(age, eps=1.5)",
        "that is the most that fits beside the other calls",
    )
    session.sql(query.replace("DP_AVG(age, eps=4)", caught.value.diagnostic.remedy[0]))


def test_the_first_of_some_texts_is_said_to_be_somebodys(session):
    diagnostic = refused(session, "SELECT DP_MIN(dept, eps=1) FROM staff").diagnostic
    assert diagnostic.why[0].startswith("the first or the middle of some texts is somebody's")
    assert (
        "converted"
        in refused(session, "SELECT DP_SUM(dept, eps=1) FROM staff").diagnostic.why[0]
    )


@pytest.mark.parametrize(
    ("query", "offered"),
    [
        (f"{STAFF}hired.year = 2020", "YEAR(hired)"),
        ("SELECT DP_MAX(dept, eps=0.1) FROM staff", "DP_MODE(dept, eps=0.1)"),
    ],
)
def test_what_is_offered_is_near_what_was_meant(session: Session, query: str, offered: str):
    with pytest.raises(QueryRefused) as told:
        session.sql(query)
    assert told.value.diagnostic.remedy[0] == offered
