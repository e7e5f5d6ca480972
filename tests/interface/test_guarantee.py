"""Whose rows a guarantee is about, and what it comes to for a group of units."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery import connect
from dpquery.answer import Guarantee
from dpquery.core.privacy_loss import Loss, Neighbours
from dpquery.policy.sources.paths import sample_directory


def of(epsilon: object, delta: object = 0) -> Guarantee:
    loss = Loss(Fraction(epsilon), Fraction(delta))  # type: ignore[arg-type]
    return Guarantee(loss, ("id",), Neighbours.ADD_REMOVE)


def test_a_pure_loss_grows_with_the_group():
    assert of("0.1").for_group(3) == Loss(Fraction(3, 10))
    assert of("0.1", "1e-6").for_group(1) == Loss(Fraction(1, 10), Fraction(1, 10**6))


losses = st.tuples(
    st.fractions(0, 5, max_denominator=1000), st.fractions(0, "1e-3", max_denominator=10**9)
)


@given(losses, st.integers(2, 40))
def test_the_delta_of_a_group_is_that_of_its_members_one_after_the_other(loss, size):
    epsilon, delta = loss
    told = of(epsilon, delta).for_group(size)
    exact = float(delta) * math.fsum(math.exp(float(i * epsilon)) for i in range(size))
    assert told.epsilon == size * epsilon
    assert min(1, exact) * (1 - 1e-9) <= told.delta <= min(1, exact * (1 + 1e-7))


@pytest.mark.parametrize(("epsilon", "size"), [(10**9, 2), (1, 10**9)])
def test_a_group_that_is_too_large_has_no_guarantee(epsilon, size):
    assert of(epsilon, "1e-9").for_group(size).delta == 1


@pytest.mark.parametrize("size", [0, -1, True, 2.0, "3"])
def test_a_group_has_a_whole_number_of_units(size):
    with pytest.raises(ValueError, match="such as 3"):
        of(1).for_group(size)


def test_no_group_loses_more_than_it_is_told():
    """Along a chain of databases that each attain (epsilon, delta), exactly, by enumeration.

    The law of one tells with probability delta which it is, and else which half it is in.
    """
    epsilon, delta = Fraction(1), Fraction(1, 100)
    odds = Fraction(math.e).limit_denominator(10**12) * (1 - Fraction(1, 10**9))
    chain = [[delta, 1 - delta]]
    while chain[-1][0] < Fraction(1, 2):
        low = min(odds * chain[-1][0] + delta, 1 - (1 - delta - chain[-1][0]) / odds)
        chain.append([low, 1 - low])
    for one, other in pairwise(chain):
        assert _delta(one, other, odds) <= delta
        assert _delta(other, one, odds) <= delta
    for a, b in product(range(len(chain)), repeat=2):
        if a != b:
            told = of(epsilon, delta).for_group(abs(a - b))
            assert _delta(chain[a], chain[b], odds ** abs(a - b)) <= told.delta
    last = of(epsilon, delta).for_group(2)
    assert _delta(chain[2], chain[0], odds**2) == pytest.approx(float(last.delta), rel=1e-6)


def _delta(one, other, odds) -> Fraction:
    return sum((max(Fraction(0), p - odds * q) for p, q in zip(one, other, strict=True)))


STAFF = sample_directory() / "staff.parquet"


def test_answers_and_explanations_say_whose_rows_they_are_about():
    query = "SELECT DP_COUNT(*, eps=0.5) FROM staff"
    with connect(STAFF, unit="person_id", epsilon=1, max_rows_contributed=1) as session:
        told = session.explain(query).guarantee
        assert str(told) == "loss 0.5, for one person_id added or removed"
        assert session.sql(query).guarantee == told
        repeated = session.sql(query)
        assert repeated.loss.epsilon == 0
        assert repeated.guarantee == told == session.explain(query).guarantee
        assert told.for_group(4).epsilon == 2
        assert session.sql("SHOW TABLES").guarantee is None
    with connect(STAFF, unit="person_id", epsilon=1, max_rows_contributed=1) as session:
        found = "SELECT DP_AVG(salary, eps={}, bounds='auto') FROM staff"
        assert session.sql(found.format("0.5")).guarantee.loss.epsilon == Fraction(1, 2)
        later = session.sql(found.format("0.4")).guarantee
        assert str(later).endswith("added or removed, beside bounds that were found before")
    with connect(STAFF, epsilon=1, neighbours="substitute", delta="1e-6") as session:
        answer = session.sql(query.replace("eps", "mechanism='gaussian', delta=1e-7, eps"))
        assert str(answer.guarantee) == "loss 0.5 (delta 1e-7), for one row replaced"
