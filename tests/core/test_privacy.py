"""Numbers of privacy are read and written exactly (I8)."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.core.privacy_loss import Loss, decimal_text, exact_number


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (0.1, Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        ("1e-9", Fraction(1, 10**9)),
        (Decimal("2.50"), Fraction(5, 2)),
        (Fraction(1, 3), Fraction(1, 3)),
        (7, Fraction(7)),
        ("-3", Fraction(-3)),
    ],
)
def test_a_number_is_read_as_it_is_written(value, number):
    assert exact_number(value) == number


@pytest.mark.parametrize(
    "value",
    [
        True,
        None,
        "",
        "one",
        " 1",
        "1_000",
        "١",
        "nan",
        "inf",
        float("nan"),
        float("-inf"),
        "0." + "1" * 31,
        "1e999999999",
        b"1",
        [1],
    ],
)
def test_what_is_no_plain_number_is_turned_away(value):
    with pytest.raises(ValueError, match=r"not a|digits|range"):
        exact_number(value)


@given(
    st.decimals(
        allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9
    )
)
def test_writing_and_reading_a_decimal_gives_it_back(number: Decimal):
    assert exact_number(decimal_text(Fraction(number))) == Fraction(number)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Fraction(0), "0"),
        (Fraction(13, 10), "1.3"),
        (Fraction(-1, 4), "-0.25"),
        (Fraction(1, 3), "0.333333333333…"),
        (Fraction(1, 10**7), "1e-7"),
        (Fraction(15, 10**9), "1.5e-8"),
        (Fraction(2, 10**6), "2e-6"),
        (Fraction(12345678, 10**7), "1.2345678"),
    ],
)
def test_a_fraction_is_written_as_people_write_it(number: Fraction, text: str):
    assert decimal_text(number) == text


def test_losses_add_and_compare_in_both_parts():
    a, b = Loss(Fraction(1, 2), Fraction(1, 10**6)), Loss(Fraction(1, 2))
    assert a + b == Loss(Fraction(1), Fraction(1, 10**6))
    assert a - a == Loss(Fraction(0))
    assert b.within(a)
    assert not a.within(b)
    assert not Loss(Fraction(1)).within(a)


def test_ten_tenths_are_exactly_one():
    assert sum((exact_number(0.1) for _ in range(10)), Fraction(0)) == 1


def test_a_loss_names_delta_only_where_there_is_one():
    assert str(Loss(Fraction(1, 2))) == "0.5"
    assert str(Loss(Fraction(1, 2), Fraction(1, 10**6))) == "0.5 (delta 1e-6)"
