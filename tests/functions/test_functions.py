"""Functions: how a call becomes a release, with the sensitivity that its weights prove."""

from __future__ import annotations

from fractions import Fraction

import pytest

from dpquery import functions
from dpquery.core.privacy_events import Gaussian, Pure
from dpquery.core.privacy_loss import Neighbours
from dpquery.core.source_text import Span
from dpquery.core.types import INTEGER
from dpquery.functions.base import WEIGHT_SCALE, Facts
from dpquery.ir.expr import Code, Literal
from dpquery.ir.measures import CountRows, SumProducts, Weight
from dpquery.ir.query import Call, Contribution, Options
from dpquery.ir.sensitivity import sensitivity
from dpquery.mechanisms import DiscreteGaussian, DiscreteLaplace
from tests.corpus.cases import planned


def release(query: str):
    (frontier,) = planned(query).frontiers
    return frontier.releases[0].release


def planned_call(asked: int | None) -> Call:
    span = Span(0, 1)
    options = Options(Fraction(1), span, max_rows_contributed=asked)
    return Call(span, "a0", "DP_COUNT", (), None, options)


def test_a_name_is_found_in_any_case_of_its_ascii_letters():
    assert functions.find("dp_Count") is functions.ALL[0]
    assert functions.find("DP_COUNTS") is None
    assert all(functions.find(name) is not None for name in functions.names())
    assert functions.find("DP_ſUM") is None


@pytest.mark.parametrize(
    ("contribution", "asked", "weight"),
    [
        (Contribution(None, False, 3), 7, Weight()),
        (Contribution("u", True, 3), 7, Weight()),
        (Contribution("u", False, 3), None, Weight(3, WEIGHT_SCALE)),
        (Contribution("u", False, 3), 7, Weight(7, WEIGHT_SCALE)),
    ],
)
def test_weights_follow_from_plan_and_policy(contribution, asked, weight):
    call = planned_call(asked)
    facts = Facts(contribution, Neighbours.ADD_REMOVE, cells=1, grouped=False)
    assert facts.weight(call) == weight


def test_the_noise_is_calibrated_to_the_weight_of_one_unit():
    found = release("SELECT DP_COUNT(*, eps=0.25, max_rows_contributed=3) FROM visits")
    assert found.mechanism == DiscreteLaplace(Fraction(3 * WEIGHT_SCALE * 4))
    assert found.event() == Pure(Fraction(1, 4))
    assert release("SELECT DP_COUNT(*, eps=0.25) FROM staff").mechanism == DiscreteLaplace(
        Fraction(4)
    )


def test_gaussian_noise_states_both_of_its_claims():
    found = release("SELECT DP_COUNT(*, eps=0.5, mechanism='gaussian', delta=1e-6) FROM staff")
    assert isinstance(found.mechanism, DiscreteGaussian)
    event = found.event()
    assert isinstance(event, Gaussian)
    assert (event.epsilon, event.delta) == (Fraction(1, 2), Fraction(1, 10**6))


def test_an_argument_and_a_filter_have_to_hold_together():
    found = release("SELECT DP_COUNT(bonus, eps=0.1) FILTER (WHERE remote) FROM staff")
    (measure,) = found.measures
    assert isinstance(measure, CountRows)
    assert measure.condition is not None
    assert len(measure.condition.parts) == 2


class Fixed:
    """An exact side that holds one number, and a source of bits that gives no noise."""

    def __init__(self, value: int) -> None:
        self.value = value

    def values(self, measure) -> tuple[int, ...]:
        return (self.value,)


@pytest.mark.parametrize("exact", [0, 5, -(2**70), 2**70])
def test_a_count_is_divided_by_the_scale_and_stays_within_bigint(exact, monkeypatch):
    found = release("SELECT DP_COUNT(*, eps=0.1) FROM visits")
    monkeypatch.setattr(DiscreteLaplace, "release", lambda self, values, randomness: values)
    (cell,) = found.run(Fixed(exact * WEIGHT_SCALE), None)
    assert cell.value == max(-(2**63), min(2**63 - 1, exact))
    low, high = cell.interval(Fraction(95, 100))
    assert low <= cell.value <= high


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("neighbours", Neighbours)
def test_a_sum_of_products_moves_by_the_largest_of_them(neighbours: Neighbours, grouped: bool):
    """Both signs and both ends, by enumeration of what a row adds, and what replaces it."""
    expr = Literal(Span(0, 1), 1, INTEGER)
    ranges = ((-2, 3), (-1, 4))
    codes = tuple(Code(expr, Fraction(1), low, high) for low, high in ranges)
    rows = {
        j * k for j in range(ranges[0][0], ranges[0][1] + 1)
        for k in range(ranges[1][0], ranges[1][1] + 1)
    }  # fmt: skip
    moved = max(abs(added) for added in rows)
    if neighbours is Neighbours.SUBSTITUTE:
        moved = max(abs(one) + abs(other) if grouped else abs(one - other)
                    for one in rows for other in rows)  # fmt: skip
    stated = sensitivity(SumProducts(Weight(), codes), neighbours, grouped=grouped)
    assert moved <= stated <= 2 * moved
