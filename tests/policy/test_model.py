"""The policy's model: the public range of a column."""

from __future__ import annotations

from datetime import date
from fractions import Fraction

from dpquery.core.types import DATE, DOUBLE, INTEGER, TEXT, Interval, Kind, Type
from dpquery.policy.model import Bounds, Column


def test_bounds_are_the_range_of_a_number() -> None:
    column = Column("x", DOUBLE, Bounds(Fraction(-1, 2), Fraction(3)))
    assert column.interval == Interval(Fraction(-1, 2), Fraction(3))


def test_without_bounds_the_type_is_the_range() -> None:
    assert Column("x", INTEGER).interval == Interval(Fraction(-(2**63)), Fraction(2**63 - 1))
    decimal = Column("x", Type(Kind.DECIMAL, 3, 1)).interval
    assert decimal == Interval(Fraction(-999, 10), Fraction(999, 10))
    assert not Column("x", DOUBLE).interval.bounded


def test_what_is_no_number_has_no_range() -> None:
    assert not Column("x", TEXT).interval.bounded


def test_the_range_of_dates_is_in_days_since_1970() -> None:
    column = Column("x", DATE, Bounds(date(1970, 1, 1), date(1971, 1, 1)))
    assert column.interval == Interval(Fraction(0), Fraction(365))
    assert not Column("x", DATE).interval.bounded
