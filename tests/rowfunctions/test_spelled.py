"""Moments as texts make groups: all that they can read as, and nothing else."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from dpquery.rowfunctions.dates import DAYS, MONTHS
from tests.corpus.cases import planned, refusal

FIRST, LAST = date(2019, 12, 30), date(2021, 1, 4)


def keys(expression: str, table: str, where: str) -> tuple[object, ...]:
    plan = planned(
        f"SELECT {expression} AS k, DP_COUNT(*, eps=1) FROM {table} WHERE {where} GROUP BY k"
    )
    return plan.frontiers[0].scan.keys[0].values


@pytest.mark.parametrize(
    "form", ["%Y", "%y/%m", "%B", "%b %d", "%j", "%A", "%a %u %w", "%G-%V", "%Y %H", "x"]
)
def test_the_groups_of_a_form_are_what_its_days_read_as(form: str):
    days = [FIRST + timedelta(days=n) for n in range((LAST - FIRST).days + 1)]
    found = keys(f"strftime(hired, '{form}')", "staff", f"hired BETWEEN '{FIRST}' AND '{LAST}'")
    assert found == tuple(sorted({day.strftime(form) for day in days}))


def test_hours_of_a_range_are_those_that_it_touches():
    where = "at >= '2025-03-01 22:30' AND at <= '2025-03-02 01:10'"
    found = keys("strftime(at, '%d %I%p')", "visits", where)
    assert found == ("01 10PM", "01 11PM", "02 01AM", "02 12AM")


def test_names_are_those_that_a_range_has():
    assert keys("dayname(at)", "visits", "minutes > 3") == tuple(sorted(DAYS))
    assert keys("monthname(day)", "visits", "minutes > 3") == tuple(sorted(MONTHS[:3]))
    assert keys("monthname(hired)", "staff", "age > 3") == tuple(sorted(MONTHS))


@pytest.mark.parametrize("form", ["", "%", "%Q", "50%", "%-d", "x" * 101])
def test_another_form_is_refused(form: str):
    text = f"SELECT DP_COUNT(*, eps=1) FROM staff WHERE strftime(hired, '{form}') = '3'"
    assert refusal(text).startswith("refused[DPQ205]: STRFTIME does not take this value")
