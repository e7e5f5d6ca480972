"""BigQuery's clause and functions mean plain aggregates under the clause's epsilon."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import dpquery
from dpquery.core.source_text import Source
from dpquery.errors import BudgetRefused, QueryRefused
from dpquery.session import Session
from dpquery.sql.bigquery import respelled
from tests.tasks import ROOT


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    shutil.copytree(ROOT / "datasets", tmp_path, dirs_exist_ok=True)
    policy = tmp_path / "policy.toml"
    text = policy.read_text().replace("epsilon = 2.0", "epsilon = 100\ndelta = 1e-4", 1)
    policy.write_text(text)
    with dpquery.connect(policy) as opened:
        yield opened


CLAUSE = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1"
MEANT = {
    f"{CLAUSE}) COUNT(*) AS n FROM staff": "SELECT DP_COUNT(*, eps=1) AS n FROM staff",
    f"{CLAUSE}, delta=.00001, privacy_unit_column=person_id) dept, AVG(age) AS a FROM staff "
    "GROUP BY dept": "SELECT dept, DP_AVG(age, eps=1) AS a FROM staff GROUP BY dept",
    f"{CLAUSE}, max_groups_contributed=2) region, SUM(minutes, contribution_bounds_per_group"
    " => (0, 90)) AS s FROM visits GROUP BY region": "SELECT region, DP_SUM(minutes, "
    "contribution_bounds_per_group=(0, 90), max_groups_contributed=2, eps=1) AS s "
    "FROM visits GROUP BY region",
    f"{CLAUSE}, max_rows_contributed=3) COUNT(*) AS n FROM visits": "SELECT DP_COUNT(*, "
    "max_rows_contributed=3, eps=1) AS n FROM visits",
    f"{CLAUSE}) AVG(age, contribution_bounds_per_group => (0, 90)) AS a FROM staff": "SELECT "
    "DP_AVG(age, bounds=(0, 90), eps=1) AS a FROM staff",
    f"{CLAUSE}) APPROX_QUANTILES(age, 2, contribution_bounds_per_row => (18, 70)) AS q FROM "
    "staff": "SELECT DP_QUANTILE(age, [0, 0.5, 1], bounds=(18, 70), eps=1) AS q FROM staff",
    "SELECT WITH ANONYMIZATION OPTIONS(epsilon=1, kappa=1) ANON_SUM(age CLAMPED BETWEEN -1 AND "
    "90) AS s FROM staff": "SELECT DP_SUM(age, contribution_bounds_per_group=[-1, 90], "
    "max_groups_contributed=1, eps=1) AS s FROM staff",
    "select with anonymization options(epsilon=1) anon_avg(age clamped between 18 and 70) AS a "
    "FROM staff": "select DP_AVG(age, bounds=[18, 70], eps=1) AS a FROM staff",
    f"{CLAUSE}, delta=1e-6, min_privacy_units_per_group=30, max_groups_contributed=2) "
    "spent * 0 AS z, person_id + 0 AS m, COUNT(*) AS n FROM visits GROUP BY z, m": "SELECT "
    "spent * 0 AS z, person_id + 0 AS m, DP_COUNT(*, eps=0.5) AS n FROM visits GROUP BY "
    "DP_KEYS(spent * 0, person_id + 0, max_groups_contributed=2, min_units=30, eps=0.5, "
    "delta=1e-6)",
    f"SELECT n FROM ({CLAUSE}) COUNT(*) AS n FROM staff) WHERE n > 3": "SELECT n FROM (SELECT "
    "DP_COUNT(*, eps=1) AS n FROM staff) WHERE n > 3",
}


@pytest.mark.parametrize(("query", "meant"), MEANT.items())
def test_a_clause_means_calls_that_share_its_epsilon(session: Session, query: str, meant: str):
    shown = str(session.explain(query))
    assert " ".join(shown.partition("\ncharge")[0].split()) == f"understood {meant}"
    again = str(session.explain(meant))
    assert shown.partition("sensitivity")[2] == again.partition("sensitivity")[2]
    assert session.sql(query).loss.epsilon == 1


def test_without_an_epsilon_of_its_own_it_has_the_sessions(session: Session):
    query = "SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM staff"
    assert session.explain(query, eps="0.5").charge.epsilon == Fraction(1, 2)
    with pytest.raises(QueryRefused):
        session.explain(query)


def test_groups_are_found_unless_they_are_public_ones(session: Session):
    query = CLAUSE + "{}) person_id + 0 AS m, COUNT(*) FROM visits GROUP BY m"
    assert session.explain(query.format(", delta=1e-6")).charge.delta == Fraction(1, 10**6)
    with pytest.raises(QueryRefused) as refused:
        session.explain(query.format(", group_selection_strategy=PUBLIC_GROUPS"))
    assert refused.value.code in {"DPQ301", "DPQ402"}


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("epsilon=1, foo=2", "DPQ206"),
        ("epsilon", "DPQ206"),
        ("=1", "DPQ206"),
        ("epsilon='many'", "DPQ207"),
        ("epsilon=1, max_groups_contributed=1.5", "DPQ207"),
        ("epsilon=1, max_rows_contributed=0", "DPQ207"),
        ("epsilon=1, privacy_unit_column=age", "DPQ205"),
        ("epsilon=1, group_selection_strategy=BEST", "DPQ207"),
        ("epsilon=1e10", "DPQ205"),
        ("epsilon=0.2, epsilon=3", "DPQ209"),
        ("epsilon=1, min_privacy_units_per_group=0", "DPQ207"),
        ("epsilon=1, min_privacy_units_per_group=3", "DPQ209"),
    ],
)
def test_what_is_no_option_is_refused(session: Session, options: str, code: str):
    with pytest.raises(QueryRefused) as refused:
        session.sql(f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) COUNT(*) FROM staff")
    assert refused.value.code == code
    assert session.budget.spent.epsilon == 0


def test_two_clauses_are_refused(session: Session):
    with pytest.raises(QueryRefused) as refused:
        session.sql(f"{CLAUSE}) COUNT(*) FROM staff UNION ALL {CLAUSE}) COUNT(*) FROM staff")
    assert refused.value.code == "DPQ102"


def test_a_refusal_shows_the_statement_as_it_is_understood(session: Session):
    with pytest.raises(QueryRefused) as refused:
        session.sql(f"{CLAUSE}) COUNT(*) FROM stuff")
    assert "1 | SELECT COUNT(*) FROM stuff\n  |                      ^^^^^" in str(
        refused.value
    )
    with pytest.raises(BudgetRefused) as broke:
        session.sql(f"{CLAUSE.replace('1', '101')}) COUNT(*) FROM staff")
    assert "1 | SELECT COUNT(*) FROM staff" in str(broke.value)


@pytest.mark.parametrize(
    "text", ["SELECT 'WITH DIFFERENTIAL_PRIVACY'", 'SELECT 1 AS "with"', "SELECT '", "WITH", ""]
)
def test_other_texts_are_left_alone(text: str):
    assert respelled(Source(text)) is None


@pytest.mark.parametrize("end", range(len(CLAUSE) + 30))
def test_a_text_that_breaks_off_is_refused_and_never_fails(session: Session, end: int):
    text = f"{CLAUSE}, delta=1e-6) ANON_SUM(age CLAMPED BETWEEN 0 AND 9) FROM staff"[:end]
    with pytest.raises(QueryRefused):
        session.sql(text)
