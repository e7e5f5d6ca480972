"""Released values among the rows of a later scan: computed first, charged at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import dpquery
from dpquery.budget.ledger.charge_and_receipt import Receipt
from dpquery.errors import InternalError
from dpquery.ir.walk import constants_in, filled
from dpquery.session import Session
from tests.corpus.cases import planned
from tests.tasks import ROOT

STAFF = ROOT / "datasets" / "staff.parquet"
MANY = "eps=100000"
COUNT = f"SELECT DP_COUNT(*, {MANY}) FROM staff WHERE "


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    bounds = {"salary": (0, 200_000), "age": (18, 70)}
    with dpquery.connect(
        {"staff": STAFF}, unit="person_id", rows_per_unit=1, epsilon=10**9, bounds=bounds
    ) as opened:
        yield opened


@pytest.mark.parametrize(
    ("asked", "typed"),
    [
        ("age > (SELECT 30)", "age > 30"),
        ("age > (SELECT 61 / 2)", "age > 30.5"),
        ("dept = (SELECT upper('x') || 'y')", "dept = 'Xy'"),
        ("dept = (SELECT lower('ENG'))", "dept = 'eng'"),
        ("remote = (SELECT 1 < 2)", "remote"),
        ("hired > (SELECT DATE '2019-01-31' + INTERVAL 1 DAY)", "hired > '2019-02-01'"),
        ("salary > (SELECT CAST('none' AS DOUBLE))", "false"),
        ("NOT salary > (SELECT 1e308 * 10)", "false"),
        ("age BETWEEN (SELECT 30) AND (SELECT 40)", "age BETWEEN 30 AND 40"),
        ("age > 10 * (SELECT 3)", "age > 30"),
    ],
)
def test_a_constant_is_its_value_and_null_meets_nothing(
    session: Session, asked: str, typed: str
):
    typed = "remote AND NOT remote" if typed == "false" else typed
    assert session.sql(COUNT + asked).scalar() == session.sql(COUNT + typed).scalar()


def test_constants_of_one_statement_keep_apart(session: Session):
    query = (
        f"WITH m AS (SELECT DP_QUANTILE(age, 0.25, {MANY}) AS low FROM staff) "
        f"SELECT DP_COUNT(*, {MANY}) FILTER (WHERE age < (SELECT low FROM m)) AS below, "
        f"DP_COUNT(*, {MANY}) FILTER (WHERE age < (SELECT low + 100 FROM m)) AS all_of_them, "
        "(SELECT low FROM m) AS low FROM staff"
    )
    below, all_of_them, low = session.sql(query).rows[0]
    assert all_of_them == 1000
    assert below == session.sql(f"{COUNT} age < {low}").scalar()


QUERY = (
    "SELECT DP_COUNT(*, eps=0.1) FROM staff "
    "WHERE age > (SELECT DP_MEDIAN(age, eps=0.2) FROM staff)"
)


def test_a_receipt_opens_the_charged_scan_up_to_its_constants():
    plan = planned(QUERY)
    scan = plan.frontiers[1].scan
    (constant,) = constants_in(scan)
    ready = filled(scan, {constant.number: None})
    assert next(constants_in(ready)).known
    Receipt(plan.charge, "1").open(1, ready)
    other = filled(plan.frontiers[0].scan, {})
    with pytest.raises(InternalError):
        Receipt(plan.charge, "1").open(1, other)
    with pytest.raises(InternalError):
        Receipt(plan.charge, "1").open(1, replace(ready, measures=()))


def test_a_scan_without_constants_is_left_as_it_is():
    scan = planned("SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE age > 3").frontiers[0].scan
    assert filled(scan, {}) is scan


def test_a_charge_is_for_all_frontiers_and_the_constant_is_released_first():
    plan = planned(QUERY)
    assert [event.epsilon for event in plan.charge.events] == [
        plan.frontiers[0].releases[0].call.options.epsilon,
        plan.frontiers[1].releases[0].call.options.epsilon,
    ]
    assert [frontier.releases[0].call.function for frontier in plan.frontiers] == [
        "DP_MEDIAN",
        "DP_COUNT",
    ]
