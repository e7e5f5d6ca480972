"""Views: a name for a query is that query as a name of WITH, to the last refusal."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from time import perf_counter

import pytest

import dpquery
from dpquery import dbapi
from dpquery.core.source_text import Span
from dpquery.errors import NameRefused, QueryRefused, SyntaxRefused
from dpquery.policy.sources.paths import copy_samples
from dpquery.session import Session
from dpquery.sql.views import MOST_VIEWS
from tests.tasks import ROOT

YOUNG = "SELECT person_id, dept, salary AS pay FROM staff WHERE age < 40"
COUNTS = "SELECT dept, DP_COUNT(*, eps=0.1) AS n FROM staff GROUP BY dept"


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return copy_samples(tmp_path / "data").parent / "policy.toml"


@pytest.fixture
def session(policy: Path) -> Iterator[Session]:
    with dpquery.connect(policy) as opened:
        yield opened


def refused(session: Session, text: str) -> QueryRefused:
    with pytest.raises(QueryRefused) as caught:
        session.sql(text)
    assert caught.value.budget.startswith("unchanged")
    return caught.value


def under_caret(refusal: QueryRefused) -> str:
    assert refusal.source is not None
    assert refusal.span is not None
    return refusal.source.snippet(refusal.span)


def pasted(session: Session, refusal: QueryRefused) -> str:
    """Have the first line after `try:` answered, and give it."""
    offered = refusal.diagnostic.remedy[0]
    session.sql(offered)
    return offered


def test_a_view_of_rows_is_charged_as_a_name_of_with(session: Session):
    made = session.sql(f"CREATE TEMP VIEW young AS {YOUNG}")
    assert made.loss.epsilon == 0
    said = [
        "young stands for rows of staff",
        "a statement that reads it pays for its own calls",
    ]
    assert [row[0] for row in made.rows] == said
    asked = "SELECT dept, DP_COUNT(*, eps=0.1) AS n FROM young GROUP BY dept"
    answer = session.sql(asked)
    assert answer.loss.epsilon == Fraction(1, 10)
    again = session.sql(f"WITH young AS ({YOUNG}) {asked}")
    assert (again.rows, again.loss.epsilon) == (answer.rows, 0)


def test_the_ledger_has_the_whole_statement(session: Session):
    session.sql(f"CREATE TEMP VIEW young AS {YOUNG}")
    session.sql("SELECT DP_COUNT(*, eps=0.1) FROM young")
    (charge,) = session.ledger().to_dicts()
    assert charge["query"] == f"WITH young AS ({YOUNG}) SELECT DP_COUNT(*, eps=0.1) FROM young"


def test_a_view_that_releases_is_charged_where_it_is_first_read(session: Session):
    made = session.sql(f"CREATE TEMP VIEW counts AS {COUNTS}")
    assert str(made.rows[1][0]).startswith("a statement that reads it pays 0.1, or nothing")
    first = session.sql("SELECT * FROM counts ORDER BY n")
    second = session.sql("SELECT sum(n) FROM counts")
    assert (first.loss.epsilon, second.loss.epsilon) == (Fraction(1, 10), 0)
    assert second.scalar() == sum(n for _, n in first.rows)
    anew = session.sql("REFRESH SELECT sum(n) FROM counts")
    assert anew.loss.epsilon == Fraction(1, 10)


def test_plain_aggregates_of_a_view_share_the_epsilon_of_the_statement(session: Session):
    session.sql("SET dp.eps = 0.4")
    made = session.sql(
        "CREATE TEMP VIEW pay AS SELECT dept, AVG(salary) AS p FROM staff GROUP BY dept"
    )
    assert made.rows[1] == ("its calls share the epsilon of each statement that reads it",)
    assert session.sql("SELECT max(p) FROM pay").loss.epsilon == Fraction(2, 5)


def test_a_view_of_public_tables_is_free(session: Session):
    made = session.sql(
        "CREATE TEMP VIEW z AS SELECT zone, count(*) AS n FROM regions GROUP BY zone"
    )
    assert made.rows == [("z stands for what is public",), ("reading it costs nothing",)]
    assert session.sql("SELECT sum(n) FROM z").rows == [(6,)]


@pytest.mark.parametrize(
    "asked",
    [
        "SELECT DP_COUNT(*, eps=0.1) FROM YOUNG",
        'SELECT DP_COUNT(*, eps=0.1) FROM "young" AS y',
        "FROM young SELECT DP_COUNT(*, eps=0.1)",
        "-- how many?\nSELECT DP_COUNT(*, eps=0.1) FROM (SELECT * FROM young)",
        "WITH old AS (SELECT * FROM young) SELECT DP_COUNT(*, eps=0.1) FROM old",
        "(WITH old AS (SELECT * FROM young) SELECT DP_COUNT(*, eps=0.1) FROM old)",
        "WITH young AS (SELECT * FROM young) SELECT DP_COUNT(*, eps=0.1) FROM young",
        "SELECT DP_COUNT(*, eps=0.1) FROM older",
        "(WITH young AS (SELECT 1 AS n) SELECT n FROM young WHERE n > 1)"
        " UNION ALL (SELECT DP_COUNT(*, eps=0.1) FROM young)",
    ],
)
def test_a_view_is_read_wherever_a_table_can_be(session: Session, asked: str):
    session.sql(f"CREATE TEMP VIEW young AS {YOUNG} -- under 40")
    session.sql("CREATE TEMP VIEW older (p) AS SELECT person_id FROM young")
    counted = session.sql("SELECT DP_COUNT(*, eps=0.1) FROM young")
    answer = session.sql(asked)
    assert (answer.rows, answer.loss.epsilon) == (counted.rows, 0)


def test_a_name_of_the_statement_stands_before_a_view(session: Session):
    session.sql(f"CREATE TEMP VIEW young AS {YOUNG}")
    named = "WITH young AS (SELECT * FROM visits) SELECT DP_AVG(minutes, eps=0.1) FROM young"
    assert session.sql(named).loss.epsilon == Fraction(1, 10)


@pytest.mark.parametrize(
    "asked",
    [
        "WITH young AS (SELECT pay AS p FROM young) SELECT DP_AVG(p, eps=0.1) FROM young",
        "WITH staff AS (SELECT * FROM visits) SELECT DP_AVG(pay, eps=0.1) FROM young, staff"
        " WHERE young.person_id = staff.person_id AND minutes > 0",
        "SELECT a FROM (WITH staff AS (SELECT * FROM visits)"
        " SELECT DP_AVG(pay, eps=0.1) AS a FROM young)",
    ],
)
def test_names_of_the_statement_mean_nothing_within_a_view(session: Session, asked: str):
    session.sql(f"CREATE TEMP VIEW young AS {YOUNG}")
    assert session.sql(asked).loss.epsilon == Fraction(1, 10)


def test_bigquery_clauses_read_views(session: Session):
    session.sql(f"CREATE TEMP VIEW young AS {YOUNG}")
    clause = "WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=0.1)"
    asked = f"SELECT {clause} COUNT(*) AS n FROM young"
    assert session.sql(asked).loss.epsilon == Fraction(1, 10)


def test_views_are_named_where_tables_are(session: Session):
    before = session.tables().columns
    session.sql(f'CREATE TEMP VIEW "a b" (u, "the dept", pay) AS\n{YOUNG}')
    session.sql(f"CREATE TEMP VIEW counts AS {COUNTS}")
    assert "view" not in before
    rows = session.sql("SHOW TABLES").to_dicts()
    assert [(row["table"], row["view"]) for row in rows[-2:]] == [
        ("a b", YOUNG),
        ("counts", COUNTS),
    ]
    keys = "'eng', 'hr', 'legal', 'ops', 'sales'"
    assert session.sql('DESCRIBE "a b"').rows == [
        ("u", "integer", None, None, None),
        ("the dept", "text", None, None, keys),
        ("pay", "integer", "0", "200000", None),
    ]
    assert session.describe("counts").rows == [
        ("dept", "text", None, None, None),
        ("n", "integer", None, None, None),
    ]


def test_a_dropped_view_is_gone(session: Session):
    session.sql(f"CREATE TEMPORARY VIEW young AS {YOUNG};")
    assert session.sql("DROP VIEW Young;").rows == [("Young is no view any more",)]
    assert refused(session, "SELECT DP_COUNT(*, eps=0.1) FROM young").code == "DPQ201"
    assert session.sql("DROP VIEW IF EXISTS young").rows == [("there was no view young",)]
    assert "view" not in session.tables().columns


def test_no_other_session_has_a_view(session: Session, policy: Path):
    session.sql(f"CREATE TEMP VIEW young AS {YOUNG}")
    with dpquery.connect(policy) as other:
        assert refused(other, "SELECT DP_COUNT(*, eps=0.1) FROM young").code == "DPQ201"


def test_nothing_is_charged_for_views(session: Session):
    for text in (f"CREATE TEMP VIEW v AS {COUNTS}", "DESCRIBE v", "SHOW TABLES", "DROP VIEW v"):
        assert session.sql(text).loss.epsilon == 0
    assert len(session.ledger().rows) == 0


def test_the_builder_a_stream_and_db_api_read_views(session: Session, policy: Path):
    session.sql(f"CREATE TEMP VIEW young AS {YOUNG}")
    query = session.table("young").where("pay > 50000").agg(n=dpquery.count(eps=0.1))
    assert query.sql() == "SELECT DP_COUNT(*, eps=0.1) AS n FROM young WHERE (pay > 50000)"
    assert query.run().loss.epsilon == Fraction(1, 10)
    assert session.above_threshold(1, eps=0.1).ask("young", "pay > 50000")
    with dbapi.connect(policy) as connection:
        cursor = connection.cursor()
        aged = "SELECT person_id FROM staff WHERE age < ?"
        cursor.execute(f"CREATE TEMP VIEW aged AS {aged}", [30])
        cursor.execute("SELECT DP_COUNT(*, eps=0.1) AS n FROM aged")
        assert len(cursor.fetchall()) == 1


def test_what_the_builder_and_a_stream_refuse_is_under_the_caret(session: Session):
    session.sql(f"CREATE TEMP VIEW young AS {YOUNG}")
    session.sql("CREATE TEMP VIEW v AS SELECT person_id, pay, dept AS d FROM young")
    with pytest.raises(QueryRefused) as caught:
        session.above_threshold(1, eps=5).ask("young", "pay > 50000")
    assert under_caret(caught.value) == "5"
    assert under_caret(refused(session, "SELECT DP_COUNT(*, eps=5) FROM young")) == "5"
    query = session.table("v").where("pay > 1 AND d = 'hr'").agg(n=dpquery.count(eps=0.1))
    session.sql("DROP VIEW young")
    with pytest.raises(NameRefused) as gone:
        query.run()
    assert under_caret(gone.value) == "young"


# What is refused: at once, and at its own place.


@pytest.mark.parametrize(
    ("text", "code", "caret", "offered"),
    [
        ("CREATE TEMP VIEW staff AS SELECT 1 AS x", "DPQ211", "staff",
         "CREATE TEMP VIEW staff_view AS SELECT 1 AS x"),
        ('CREATE TEMP VIEW "Staff.parquet" AS SELECT 1 AS x', "DPQ211", '"Staff.parquet"',
         'CREATE TEMP VIEW "Staff.parquet_view" AS SELECT 1 AS x'),
        (f"CREATE TEMP VIEW Young AS {COUNTS}", "DPQ211", "Young",
         f"CREATE OR REPLACE TEMP VIEW Young AS {COUNTS}"),
        ("CREATE OR REPLACE TEMP VIEW young AS SELECT * FROM young", "DPQ211", "young",
         "CREATE OR REPLACE TEMP VIEW young_view AS SELECT * FROM young"),
        ("CREATE OR REPLACE TEMP VIEW young AS SELECT * FROM older", "DPQ211", "young",
         "CREATE OR REPLACE TEMP VIEW young_view AS SELECT * FROM older"),
        (f"CREATE VIEW v AS {COUNTS}", "DPQ106", "v", f"CREATE TEMP VIEW v AS {COUNTS}"),
        (f"CREATE OR REPLACE TABLE v AS {COUNTS}", "DPQ106", "v",
         f"CREATE OR REPLACE TEMP VIEW v AS {COUNTS}"),
        ("CREATE TEMP TABLE IF NOT EXISTS v(a) AS SELECT age FROM staff", "DPQ106", "v",
         "CREATE TEMP VIEW v(a) AS SELECT age FROM staff"),
        ("CREATE VIEW v AS SELECT dept, AVG(age) FROM staff GROUP BY dept", "DPQ307",
         "AVG(age)",
         "CREATE TEMP VIEW v AS SELECT dept, DP_AVG(age, eps=0.5) FROM staff GROUP BY dept"),
        ("CREATE TEMP VIEW v AS SELECT DP_COUNT(*, eps=1 FROM staff", "DPQ101", "FROM",
         "CREATE TEMP VIEW v AS SELECT DP_COUNT(*, eps=1) FROM staff"),
        ("CREATE TEMP VIEW v AS SELECT age FROM staff; SELECT 1", "DPQ103", "SELECT",
         "CREATE TEMP VIEW v AS SELECT age FROM staff"),
        ("CREATE TEMP VIEW v AS DELETE FROM staff", "DPQ106", "DELETE",
         "CREATE TEMP VIEW v AS SELECT DP_COUNT(*, eps=0.5) AS n FROM staff"),
        ("DROP VIEW yung", "DPQ201", "yung", "DROP VIEW young"),
        ("DROP VIEW staff", "DPQ201", "staff", "SHOW TABLES"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_view_is_refused_with_what_can(
    session: Session, text: str, code: str, caret: str, offered: str
):
    session.sql(f"CREATE TEMP VIEW young AS {YOUNG}")
    session.sql("CREATE TEMP VIEW older AS SELECT * FROM young")
    refusal = refused(session, text)
    assert (refusal.code, under_caret(refusal)) == (code, caret)
    assert pasted(session, refusal) == offered


@pytest.mark.parametrize(
    ("query", "code", "caret", "offered"),
    [
        ("SELECT salery FROM staff", "DPQ204", "salery", "salary"),
        ("SELECT DP_AVG(salary) FROM staff", "DPQ203", "DP_AVG", "DP_AVG(salary, eps=0.5)"),
        ("SELECT payy FROM young", "DPQ204", "payy", "pay"),
        ("WITH x AS (SELECT payy FROM young) SELECT * FROM x", "DPQ204", "payy", "pay"),
    ],
)
def test_the_query_of_a_view_is_checked_when_it_is_made(
    session: Session, query: str, code: str, caret: str, offered: str
):
    session.sql(f"CREATE TEMP VIEW young AS {YOUNG}")
    text = f"CREATE TEMP VIEW\n  v AS {query}"
    refusal = refused(session, text)
    assert (refusal.code, under_caret(refusal)) == (code, caret)
    assert refusal.source is not None
    assert refusal.source.text == text
    span = refusal.span
    assert span is not None
    session.sql(text[: span.start] + offered + text[span.end + (caret == "DP_AVG") * 8 :])


def test_brackets_may_stand_at_the_word_before_them(session: Session):
    made = session.sql("CREATE TEMP VIEW v(a)AS(SELECT age FROM staff);")
    assert made.rows[0] == ("v stands for rows of staff",)
    assert session.sql("DESCRIBE v").rows[0][0] == "a"
    assert under_caret(refused(session, "CREATE TEMP VIEW w AS(SELECT agee FROM v)")) == "agee"


def test_names_of_columns_are_checked_at_their_place(session: Session):
    refusal = refused(session, "CREATE TEMP VIEW v (a, b) AS SELECT age FROM staff")
    assert (refusal.code, under_caret(refusal)) == ("DPQ211", "a, b")


@pytest.mark.parametrize("name", ["group", "1st", '""'])
def test_a_view_has_a_name(session: Session, name: str):
    refusal = refused(session, f"CREATE TEMP VIEW {name} AS SELECT age FROM staff")
    assert refusal.code in {"DPQ101", "DPQ106"}


def test_the_caret_is_in_what_was_typed(session: Session):
    session.sql(f"CREATE TEMP VIEW young AS {YOUNG}")
    text = "SELECT DP_AVG(pay, eps=0.1)\nFROM young WHERE agee > 3"
    refusal = refused(session, text)
    assert refusal.span == Span(text.index("agee"), text.index("agee") + 4)
    assert str(refusal).splitlines()[2] == "2 | FROM young WHERE agee > 3"


def test_an_offer_reads_the_view_by_its_name(session: Session):
    session.sql(f"CREATE TEMP VIEW young AS {YOUNG}")
    refusal = refused(session, "SELECT AVG(pay) FROM young")
    assert pasted(session, refusal) == "SELECT DP_AVG(pay, eps=0.5) FROM young"


def test_a_mistyped_view_is_offered(session: Session):
    session.sql(f"CREATE TEMP VIEW young AS {YOUNG}")
    refusal = refused(session, "SELECT DP_COUNT(*, eps=0.1) FROM yuong")
    listed = "tables and views here: young, regions, staff, visits"
    assert refusal.diagnostic.remedy == ("FROM young", listed)


def test_a_mistyped_view_is_offered_without_a_query(session: Session):
    session.sql(f"CREATE TEMP VIEW young AS {YOUNG}")
    assert refused(session, "DESCRIBE yuong").diagnostic.remedy[0] == "young"
    for ask in (session.table, session.describe):
        with pytest.raises(NameRefused) as caught:
            ask("yuong")
        assert caught.value.diagnostic.remedy[0] == "young"


def test_a_view_whose_source_is_gone_is_shown_as_it_is_written(session: Session):
    session.sql(f"CREATE TEMP VIEW young AS {YOUNG}")
    session.sql("CREATE TEMP VIEW v AS SELECT * FROM young")
    session.sql("DROP VIEW young")
    for text in ("SELECT DP_COUNT(*, eps=0.1) FROM v", "DESCRIBE v"):
        refusal = refused(session, text)
        assert (refusal.code, under_caret(refusal)) == ("DPQ201", "young")
        assert refusal.source is not None
        assert refusal.source.text.startswith("WITH v AS (SELECT * FROM young) SELECT")


@pytest.mark.parametrize(
    ("first", "doubled"),
    [
        ("SELECT * FROM staff", "SELECT * FROM {0} UNION ALL SELECT * FROM {0}"),
        ("SELECT * FROM staff", "SELECT a.* FROM {0} a JOIN {0} b USING (person_id)"),
        ("SELECT person_id, age FROM staff", "SELECT person_id, age + age AS age FROM {0}"),
        ("SELECT DP_COUNT(*, eps=0.1) AS n FROM staff", "SELECT a.n FROM {0} a, {0} b, {0} c"),
        (COUNTS, "SELECT * FROM {0} UNION ALL SELECT * FROM {0}"),
        ("SELECT * FROM regions", "SELECT a.* FROM {0} a, {0} b"),
    ],
)
def test_views_that_double_are_refused_in_time(session: Session, first: str, doubled: str):
    session.sql(f"CREATE TEMP VIEW v0 AS {first}")
    codes = []
    for level in range(1, 25):
        started = perf_counter()
        try:
            session.sql(f"CREATE TEMP VIEW v{level} AS {doubled.format(f'v{level - 1}')}")
        except QueryRefused as refusal:
            codes.append(refusal.code)
        assert perf_counter() - started < 2
        if codes:
            break
    else:
        session.sql("SELECT * FROM v24")  # one row, however often it is read
    assert set(codes) <= {"DPQ105", "DPQ406", "DPQ409"}


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TEMP VIEW v (" + '"a"' * 30,
        "CREATE TEMP VIEW v (" + '"a""' * 10_000,
        *(
            f"{words}{' ' * 60_000}x"
            for words in ("DROP VIEW v", "DESCRIBE v", "SET dp.eps = 1")
        ),
    ],
)
def test_what_is_no_statement_is_refused_in_time(session: Session, text: str):
    started = perf_counter()
    refused(session, text)
    assert perf_counter() - started < 2


def test_a_chain_of_views_is_as_deep_as_names_of_with_are(session: Session):
    session.sql("CREATE TEMP VIEW v0 AS SELECT zone FROM regions")
    for level in range(1, 64):
        session.sql(f"CREATE TEMP VIEW v{level} AS SELECT zone FROM v{level - 1}")
    with pytest.raises(SyntaxRefused, match="nested more than 64 deep"):
        session.sql("CREATE TEMP VIEW v64 AS SELECT zone FROM v63")


def test_a_session_keeps_so_many_views(session: Session):
    for number in range(MOST_VIEWS):
        session.sql(f"CREATE TEMP VIEW v{number} AS SELECT {number} AS x")
    refusal = refused(session, "CREATE TEMP VIEW w AS SELECT 1 AS x")
    assert refusal.code == "DPQ105"
    assert pasted(session, refusal) == "DROP VIEW v0"
    session.sql("CREATE TEMP VIEW w AS SELECT 1 AS x")


def test_a_statement_is_as_long_as_what_it_reads(session: Session):
    filler = "x" * 30_000
    for name in ("a", "b", "c"):
        session.sql(f"CREATE TEMP VIEW {name} AS SELECT zone, '{filler}' AS t FROM regions")
    session.sql("SELECT a.zone FROM a, b")
    with pytest.raises(SyntaxRefused, match="longer than 64 kB"):
        session.sql("SELECT a.zone FROM a, b, c")


def test_no_word_of_the_sources_knows_of_views_but_these():
    """What binds, checks, plans and releases sees names of WITH, and nothing else."""
    files = [*(ROOT / "dpquery").rglob("*.py")]
    knowing = {file.stem for file in files if "dpquery.sql.views" in file.read_text("utf-8")}
    assert knowing == {"session", "tables_and_charges"}


def test_a_table_that_is_neither_is_refused(session: Session):
    with pytest.raises(NameRefused):
        session.table("young")
