"""Synthetic rows are counted as an engine counts, and drawn from as a query draws."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from dpquery.core.privacy_loss import Neighbours
from dpquery.functions.count_sum import COUNT, SUM
from dpquery.lab.compare import FIELDS, Wishes, compared, table
from dpquery.lab.pictures import chart, save, varied
from dpquery.lab.synthetic_data import LAWS
from dpquery.lab.topics import TOPICS, ranks_between
from dpquery.lab.trial import Asked, Rows, column, draw
from dpquery.mechanisms.randomness import Randomness

MUCH = Fraction(10**6)
ONE = Fraction(1)
ADD_REMOVE, SUBSTITUTE = Neighbours


@pytest.mark.parametrize("law", LAWS.values(), ids=lambda law: law.name)
def test_values_of_a_law_lie_between_its_bounds_and_about_its_quantiles(law):
    values = law.draw(20_000, Randomness())
    assert values.dtype == np.int64
    assert (np.diff(values) >= 0).all()
    assert values[0] >= 0
    assert values[-1] <= law.top
    for share in (0.1, 0.4, 0.9):
        (exact,) = law.cells(np.array([share]))
        below, up_to = np.searchsorted(values, [exact, exact + 1]) / len(values)
        assert below - 0.03 < share < up_to + 0.03  # 8 deviations: alarms below 1e-14


@pytest.mark.parametrize("topic", TOPICS.values(), ids=lambda topic: topic.name)
def test_with_hardly_any_noise_the_values_are_the_exact_ones(topic):
    """So what is measured is the noise of a mechanism and nothing else."""
    law = LAWS[topic.law]
    for places in (1, 5) if topic.places and topic.name != "histograms" else (5,):
        for asked in topic.asked(law.top, places):
            release = asked.planned(MUCH, ADD_REMOVE)
            if release is None:
                continue
            rows = Rows(law.draw(3000, Randomness()))
            (cell,) = draw(release, [rows], 1, 1.0).cells
            assert topic.off(cell.value, rows, asked).max() <= 0.02, topic.name


def test_sums_beyond_64_bits_are_exact():
    top = 10**12
    rows = Rows(np.full(1000, top, np.int64))
    release = Asked(SUM, top).planned(MUCH, ADD_REMOVE)
    assert release is not None
    (square,) = rows.values(release.measures[0].__class__(
        release.measures[0].weight, release.measures[0].code, 2))  # fmt: skip
    assert square == 1000 * top**2


def test_histograms_are_those_of_the_engine():
    rows = Rows(np.array([0, 1, 1, 5, 9, 9, 9]))
    release = TOPICS["quantiles"].asked(9, 1)[0].planned(ONE, ADD_REMOVE)
    assert release is not None
    measure = release.measure
    assert rows.histogram(measure, 0, 0, 10, 1).tolist() == [1, 2, 0, 0, 0, 1, 0, 0, 0, 3]
    assert rows.histogram(measure, 0, 0, 10, 4).tolist() == [3, 1, 3]
    assert rows.histogram(measure, 0, 1, 9, 8).tolist() == [3]


def test_ranks_of_values_that_many_share_are_right():
    values = np.array([1, 2, 2, 2, 3])
    assert ranks_between(values, [0.5, 0.5, 0.9], [2, 3, 1]).tolist() == [0, 1.5, 3.5]


@pytest.mark.parametrize(
    ("topic", "places"), [("quantiles", 1), ("quantiles", 3), ("counts", 1), ("means", 1)]
)
def test_every_mechanism_of_the_function_is_tried(topic, places):
    of = TOPICS[topic]
    wishes = Wishes(of, LAWS["uniform"], [50], [ONE], [places], draws=2)
    outcomes = compared(wishes)
    tried = {one.mechanism for one in outcomes}
    kept = [
        one.planned(ONE, ADD_REMOVE, name, wishes.delta) is not None
        for name in of.function.mechanisms
        for one in of.asked(LAWS["uniform"].top, places)
    ]
    assert tried <= set(of.function.mechanisms)
    assert len(tried) == sum(
        map(any, zip(*[iter(kept)] * len(of.asked(1, places)), strict=True))
    )
    assert sum(one.default for one in outcomes) == 1
    assert [one.error for one in outcomes] == sorted(one.error for one in outcomes)


def test_what_answers_tell_is_kept_to():
    """Of 400 counts 95 in 100 are within what is told: 60 misses have a chance below 1e-9."""
    wishes = Wishes(TOPICS["counts"], LAWS["uniform"], [1000], [ONE], draws=400)
    first = next(one for one in compared(wishes) if one.mechanism == "laplace")
    assert first.default
    assert first.told == 3
    assert first.farthest <= 4
    assert abs(first.error - 0.851) < 0.35  # of deviation 0.053


def test_a_table_has_a_row_for_each_mechanism_and_setting():
    wishes = Wishes(TOPICS["sums"], LAWS["normal"], [10, 100], [ONE, 2 * ONE], draws=3,
                    neighbours=SUBSTITUTE)  # fmt: skip
    outcomes = compared(wishes)
    answer = table(wishes, outcomes)
    assert set(answer.columns) == set(FIELDS) - {"m"}
    assert len(answer) == len(outcomes) == 4 * 3
    assert not answer.loss.epsilon
    assert "nothing was read, nothing is charged" in answer.notes[0]
    assert "replaced" in answer.notes[-1]
    assert varied(outcomes) == ["n", "eps"]
    labels = [point.label for point in chart(wishes, outcomes).points]
    assert "laplace, n=10, eps=2" in labels
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("sizes", [[20], [20, 40]])
def test_pictures_are_written(tmp_path, sizes):
    wishes = Wishes(TOPICS["counts"], LAWS["uniform"], sizes, [ONE], draws=3)
    save(wishes, compared(wishes), str(tmp_path / "x.png"))
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_a_count_is_of_rows_and_needs_no_column():
    release = Asked(COUNT, 10, of_rows=True).planned(ONE, ADD_REMOVE)
    assert release is not None
    assert release.epsilon == 1
    assert column(10).domain.high == 10
