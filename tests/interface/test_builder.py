"""Queries built by methods: the same plan as their text, and parts that stay parts."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction

import pytest

import dpquery
from dpquery.answer import Answer
from dpquery.core.source_text import Span
from dpquery.errors import NameRefused, QueryRefused, SyntaxRefused
from dpquery.policy.sources.paths import copy_samples
from dpquery.session_methods.builder import Query
from dpquery.sql.parse.parser import parse
from tests.corpus.cases import planned


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    folder = copy_samples(tmp_path_factory.mktemp("built") / "data").parent
    with dpquery.connect(folder / "policy.toml") as opened:
        yield opened


@pytest.fixture
def staff(session) -> Query:
    return session.table("staff")


WORDING = {"source", "span", "text", "query", "retry"}


def shape(sql: str) -> object:
    """Return a plan without the places in its text, and without the text."""
    return bare(planned(sql))


def bare(value: object) -> object:
    if isinstance(value, Span):
        return "somewhere"
    if is_dataclass(value):
        kept = [f.name for f in fields(value) if f.name not in WORDING]
        parts = [(name, bare(getattr(value, name))) for name in kept]
        return (type(value).__name__, parts)
    if isinstance(value, tuple | list):
        return [bare(part) for part in value]
    return (
        {key: bare(part) for key, part in value.items()} if isinstance(value, dict) else value
    )


n = dpquery.count(eps=0.5)
BUILT = [
    (lambda staff, _: staff.agg(n=n), "SELECT DP_COUNT(*, eps=0.5) AS n FROM staff"),
    (lambda staff, _: staff.agg(n), "SELECT DP_COUNT(*, eps=0.5) FROM staff"),
    (
        lambda staff, _: staff.group_by(
            city=dpquery.keys("dept", eps=1, delta="1e-7", other="elsewhere")
        ).agg(n=n),
        "SELECT dept AS city, "
        "DP_COUNT(*, eps=0.5) AS n FROM staff "
        "GROUP BY DP_KEYS(dept, eps=1, delta=1e-7, other='elsewhere')",
    ),
    (
        lambda staff, _: staff.group_by(
            dpquery.keys("dept", "age // 10", eps=1, delta="1e-7", min_units=20), "remote"
        ).agg(n=n),
        "SELECT dept, age // 10, remote, DP_COUNT(*, eps=0.5) AS n FROM staff "
        "GROUP BY DP_KEYS(dept, age // 10, eps=1, delta=1e-7, min_units=20), remote",
    ),
    (
        lambda staff, _: staff.where("age > 30").group_by("dept").agg(n=n),
        "SELECT dept, DP_COUNT(*, eps=0.5) AS n FROM staff WHERE age > 30 GROUP BY dept",
    ),
    (
        lambda staff, _: (
            staff.where("age > 30 OR remote", "hired > DATE '2010-01-01' -- recent\n")
            .group_by(year="YEAR(hired)")
            .agg(n=n, p50=dpquery.median("salary + 1", eps="1e-1"), twice="n * 2")
            .having("n > 3")
            .order_by("n DESC", "year")
            .limit(5, offset=2)
        ),
        "SELECT YEAR(hired) AS year, DP_COUNT(*, eps=0.5) AS n, DP_MEDIAN(salary + 1, eps=0.1) "
        "AS p50, (n * 2) AS twice FROM staff WHERE (age > 30 OR remote) AND hired > DATE "
        "'2010-01-01' GROUP BY YEAR(hired) HAVING (n > 3) ORDER BY n DESC, year "
        "LIMIT 5 OFFSET 2",
    ),
    (
        lambda staff, _: staff.agg(
            dpquery.count(distinct="person_id", eps=Fraction(1, 8)),
            dpquery.count("bonus", eps=1).where("remote", "age > 30 OR age < 20"),
            dpquery.quantile("salary", 0.9, eps=Decimal("0.25")),
            dpquery.sum("bonus", eps=0.1, bounds=(0, 100.5), mechanism="laplace"),
            dpquery.avg("hired - DATE '2000-01-01'", eps=1),
            dpquery.count_if("age >= 40", eps=1),
            dpquery.count(eps=1, delta=1e-7, mechanism="gaussian"),
        ),
        "SELECT DP_COUNT(DISTINCT person_id, eps=0.125), "
        "DP_COUNT(bonus, eps=1) FILTER (WHERE remote AND (age > 30 OR age < 20)), "
        "DP_QUANTILE(salary, 0.9, eps=0.25), "
        "DP_SUM(bonus, eps=0.1, bounds=[0, 100.5], mechanism='laplace'), "
        "DP_AVG(hired - DATE '2000-01-01', eps=1), DP_COUNT_IF(age >= 40, eps=1), "
        "DP_COUNT(*, eps=1, delta=1e-7, mechanism='gaussian') FROM staff",
    ),
    (
        lambda staff, _: staff.agg(
            dpquery.median("hired", eps=1, bounds=(date(2010, 1, 1), date(2020, 1, 1)))
        ),
        "SELECT DP_MEDIAN(hired, eps=1, bounds=[DATE '2010-01-01', DATE '2020-01-01']) "
        "FROM staff",
    ),
    (
        lambda staff, _: staff.join("visits", using="person_id").agg(n=n),
        "SELECT DP_COUNT(*, eps=0.5) AS n FROM staff JOIN visits USING (person_id)",
    ),
    (
        lambda staff, visits: (
            staff.as_("s")
            .join(visits.as_("v"), on="s.person_id = v.person_id", how="left")
            .where("s.age > 3")
            .agg(**{'a "b"': n})
        ),
        'SELECT DP_COUNT(*, eps=0.5) AS "a ""b""" FROM staff s LEFT JOIN visits v '
        "ON s.person_id = v.person_id WHERE s.age > 3",
    ),
    (
        lambda staff, visits: (
            staff.join(
                visits.as_("v").where("v.minutes > 5").group_by("person_id").agg(c="COUNT(*)"),
                using="person_id",
            )
            .where("v.c > 2")
            .agg(n=n)
        ),
        "SELECT DP_COUNT(*, eps=0.5) AS n FROM staff JOIN (SELECT person_id, COUNT(*) AS c "
        "FROM visits v WHERE v.minutes > 5 GROUP BY person_id) AS v USING (person_id) "
        "WHERE v.c > 2",
    ),
    (
        lambda staff, visits: staff.join(visits.where("minutes > 5"), using="person_id").agg(
            n=n
        ),
        "SELECT DP_COUNT(*, eps=0.5) AS n FROM staff "
        "JOIN (SELECT * FROM visits WHERE minutes > 5) AS visits USING (person_id)",
    ),
]


@pytest.mark.parametrize(("build", "text"), BUILT)
def test_a_built_query_has_the_plan_of_its_text(session, staff, build, text):
    built = build(staff, session.table("visits")).sql()
    assert shape(built) == shape(text)


def test_a_different_query_has_a_different_plan():
    one = "SELECT DP_COUNT(*, eps=0.5) FROM staff WHERE age > 30"
    assert shape(one) != shape(one.replace("30", "31"))
    assert shape(one) != shape(one.replace("0.5", "0.6"))


def test_a_query_shows_its_text_and_is_not_changed_by_methods(staff):
    asked = staff.where("age > 30").agg(n=n)
    text = "SELECT DP_COUNT(*, eps=0.5) AS n FROM staff WHERE (age > 30)"
    assert asked.sql() == text
    assert repr(asked) == f"<Query: {text}>"
    asked.where("remote").group_by("dept").limit(3)
    assert asked.sql() == text
    assert staff.sql() == "SELECT * FROM staff"


def test_running_and_iterating_pay_and_explaining_does_not(session, staff):
    asked = staff.group_by("dept").agg(n=dpquery.count(eps=0.01))
    before = session.budget.spent.epsilon
    assert str(asked.explain()) == str(session.explain(asked.sql()))
    assert session.budget.spent.epsilon == before
    answer = asked.run()
    assert isinstance(answer, Answer)
    assert answer.columns == ("dept", "n")
    assert len(list(asked)) == len(answer) == 5  # the same answer again, and no charge
    assert asked.run(refresh=True).loss.epsilon == Fraction(1, 100)
    assert session.budget.spent.epsilon == before + Fraction(2, 100)


def test_a_public_table_costs_nothing(session):
    assert session.table("regions").limit(2).run().loss.epsilon == 0


HOSTILE = [
    "1=1) OR (1=1",
    "1=1 GROUP BY dept",
    "1=1 UNION SELECT 1",
    "1=1 UNION ALL SELECT 1 FROM staff",
    "1=1; SELECT 1",
    "1=1;",
    "age > 3, age < 4",
    "age > 3 AS x",
    "age > 3 LIMIT 1",
    "age > 3 HAVING 1=1",
    "age > 3 QUALIFY 1=1",
    "age > 3 ORDER BY age",
    "age > 3 -- \n) OR (1=1",
    "age > 3 /*",
    "dept = 'x",
    'dept = "x',
    "age >",
    "",
    " ",
    "-- nothing",
    "SELECT 1",
    "FROM staff",
    "(",
    ")",
    "$$",
    "age > 3 FROM visits",
    "a\0b",
]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(
    "put",
    [
        lambda staff, text: staff.where(text),
        lambda staff, text: staff.having(text),
        lambda staff, text: staff.join("visits", on=text),
        lambda staff, text: staff.group_by(text),
        lambda staff, text: staff.agg(x=text),
        lambda staff, text: staff.agg(dpquery.median(text, eps=1)),
        lambda staff, text: staff.agg(dpquery.count(distinct=text, eps=1)),
        lambda staff, text: staff.agg(dpquery.count(eps=1).where(text)),
        lambda staff, text: staff.agg(dpquery.count(eps=1).where("remote").where(text)),
        lambda staff, text: staff.order_by(text),
    ],
)
def test_a_part_cannot_be_more_than_a_part(staff, put, text):
    with pytest.raises(SyntaxRefused) as refused:
        put(staff, text)
    source = refused.value.source
    assert source is None or source.text == text
    assert "budget: unchanged" in str(refused.value)


@pytest.mark.parametrize("text", ["x, 0.5", "x, eps := 9", "* , eps=9", "DISTINCT x", "x AS y"])
def test_what_is_asked_about_holds_no_option(staff, text):
    with pytest.raises(SyntaxRefused, match="takes one expression"):
        staff.agg(dpquery.median(text, eps=1))


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("n", "n"),
        ("select", '"select"'),
        ('n", 1 AS "m', '"n"", 1 AS ""m"'),
        ("n -- ", '"n -- "'),
        ("date", '"date"'),
        ("n.m", '"n.m"'),
    ],
)
def test_a_name_is_one_name(staff, name, written):
    text = staff.agg(**{name: n}).sql()
    assert text == f"SELECT DP_COUNT(*, eps=0.5) AS {written} FROM staff"
    (item,) = parse(planned(text).source).query.expressions
    assert item.alias == name
    assert staff.as_(name).sql() == f"SELECT * FROM staff AS {written}"
    assert staff.join("visits", using=[name]).sql().endswith(f"USING ({written})")


def test_the_name_of_an_option_is_no_way_in(staff):
    sneaky = staff.agg(dpquery.sum("age", **{"eps=9) --": 1}))
    with pytest.raises(NameRefused) as refused:
        sneaky.explain()
    assert refused.value.code == "DPQ206"


def test_conditions_beside_each_other_stay_apart(staff):
    asked = staff.where("age > 3 OR remote").where("dept = 'eng' OR age < 20").agg(n=n)
    assert asked.sql().endswith("WHERE (age > 3 OR remote) AND (dept = 'eng' OR age < 20)")


@pytest.mark.parametrize(
    "put",
    [
        lambda staff, text: staff.where(text),
        lambda staff, text: staff.where("remote", text),
        lambda staff, text: staff.group_by(text),
        lambda staff, text: staff.agg(dpquery.median(text, eps=1)),
        lambda staff, text: staff.agg(dpquery.count(eps=1).where(text)),
    ],
)
def test_a_caret_points_into_the_part(staff, put):
    text = "  age + salery > 3 -- c"
    with pytest.raises(QueryRefused) as refused:
        put(staff, text).agg(n=n).explain()
    error = refused.value
    assert error.code == "DPQ204"
    assert error.source.text == text
    assert error.source.snippet(error.span) == "salery"
    assert "1 |   age + salery > 3 -- c\n  |         ^^^^^^ " in str(error)
    assert "\n   try: salary\n" in str(error)
    assert "budget: unchanged; " in str(error)


def test_a_mended_query_is_cut_to_the_part(staff):
    with pytest.raises(QueryRefused) as refused:
        staff.where("age => 3")
    assert str(refused.value).splitlines()[2] == "1 | age => 3"
    assert "\n   try: age >= 3\n" in str(refused.value)


def test_what_no_part_is_guilty_of_points_into_the_whole(staff):
    asked = staff.where("age > 3").agg(dpquery.count())
    with pytest.raises(NameRefused, match="needs eps") as refused:
        asked.run()
    assert refused.value.source.text == asked.sql()


@pytest.mark.parametrize(
    ("misuse", "said"),
    [
        (lambda s: s.table(3), "a table is named by a text, not int"),
        (lambda s: s.table("staff").where(3), "where takes an expression as a text, not int"),
        (lambda s: s.table("staff").agg(dpquery.count), "agg takes an expression as a text"),
        (lambda s: s.table("staff").as_(3).sql(), "as_ takes a name as a text, not int"),
        (lambda s: s.table("staff").join(3), "join takes a name as a text, not int"),
        (lambda s: s.table("staff").join("visits", using=[3]), "join takes a name"),
        (lambda s: s.table("staff").join("visits", how="outer"), "no join 'outer'"),
        (lambda s: s.table("staff").agg(dpquery.count(eps=object())), "a object cannot be"),
        (lambda s: s.table("staff").limit(float("inf")), "cannot be written as a literal"),
    ],
)
def test_misuse_is_a_refusal_with_words(session, misuse, said):
    with pytest.raises(NameRefused) as refused:
        misuse(session)
    assert refused.value.code == "DPQ805"
    assert said in str(refused.value)
    assert "budget: unchanged" in str(refused.value)


def test_a_table_that_is_not_there_is_refused_at_once(session):
    with pytest.raises(NameRefused, match="there is no table 'stuff'"):
        session.table("stuff")


@pytest.mark.parametrize("eps", [1, "1", "1.0", "1e0", Decimal(1), Fraction(1), 1.0])
def test_an_epsilon_is_exact_in_every_form(eps):
    text = Query(None, "staff").agg(dpquery.count(eps=eps)).sql()
    assert planned(text).charge.events[0].epsilon == 1


@pytest.mark.parametrize("eps", ["0.1", Decimal("0.1"), Fraction(1, 10), 0.1])
def test_a_tenth_is_a_tenth(eps):
    text = Query(None, "staff").agg(dpquery.count(eps=eps)).sql()
    assert planned(text).charge.events[0].epsilon == Fraction(1, 10)


def test_a_third_is_refused_rather_than_rounded(staff):
    with pytest.raises(NameRefused, match="a fraction that no decimal equals"):
        staff.agg(dpquery.count(eps=Fraction(1, 3)))


def test_a_maker_says_what_it_takes():
    assert repr(dpquery.count).startswith(
        "<dpquery.count(x='*', /, *, distinct=None, eps=None,"
    )
    assert repr(dpquery.top_k).startswith("<dpquery.top_k(x, k, /, *, eps,")
    assert "In SQL: SELECT DP_QUANTILE" in dpquery.quantile.__doc__
    with pytest.raises(AttributeError, match="no attribute 'cuont'"):
        _ = dpquery.cuont


def test_a_refusal_points_into_the_query_that_is_joined(session):
    built = session.table("staff").join(
        session.table("visits").where("minuts > 5"), using="person_id"
    )
    with pytest.raises(NameRefused) as refused:
        built.agg(n=dpquery.count(eps=0.1)).run()
    assert refused.value.source.text == "minuts > 5"
    assert refused.value.source.snippet(refused.value.span) == "minuts"
