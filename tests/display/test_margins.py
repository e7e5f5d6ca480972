"""Intervals beside values have no more digits than the noise leaves."""

from __future__ import annotations

import pytest

from dpquery.answer import _margin


@pytest.mark.parametrize(
    ("value", "interval", "written"),
    [
        (171955.123456, (64385.295674343055, 200000.0), "64385 … 200000"),
        (0.5, (0.1234567, 1.0), "0.123 … 1.000"),
        (3, (1, 9), "1 … 9"),
        (5.0, (3.0, 7.0), "± 2"),
        (2.0, (2.0, 2.0), "± 0"),
        (2.0, (float("-inf"), float("inf")), "± unlimited"),
    ],
)
def test_an_interval_is_written_as_precisely_as_it_is(value, interval, written):
    assert _margin(value, interval) == written


@pytest.mark.parametrize(
    ("possible", "written"),
    [((0.0, 240.0), "any of 0 … 240"), ((0.0, 300.0), "± 120"), (None, "± 120")],
)
def test_an_interval_of_all_there_can_be_says_so(possible, written):
    assert _margin(120.0, (0.0, 240.0), possible) == written


def test_where_there_is_one_value_nothing_else_is_possible():
    assert _margin(5.0, (5.0, 5.0), (5.0, 5.0)) == "± 0"
