"""What no mechanism undercuts: against laws that attain it, and against linear programs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from dpquery.functions import floors
from dpquery.mechanisms import DiscreteLaplace, DiscreteStaircase, FiniteExponential

EPSILONS = [
    Fraction(text) for text in ("0.01", "0.1", "0.35", "0.5", "1", "1.3", "2", "3", "7")
]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_noise_on_a_count_attains_the_floor_of_whole_numbers(epsilon):
    _, high = DiscreteLaplace.calibrated(1, epsilon).interval(0, floors.LEVEL)
    assert math.ceil(floors.in_steps_of_noise(epsilon)) == high


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("width", [1, 200, 500, 900])
def test_no_noise_in_steps_is_below_the_floor(epsilon, width):
    step = 1000
    _, high = DiscreteStaircase(step, width, epsilon).interval(0, floors.LEVEL)
    assert high >= floors.in_steps_of_noise(epsilon) * step - 1


def best_chance(places: int, epsilon: float, right: np.ndarray) -> float:
    """Return the largest chance of a right answer that a mechanism can have on all data.

    Data are in a row, neighbours beside each other; `right` says which answers are for which.
    """
    data, answers = right.shape
    cells = data * answers
    at = np.arange(cells).reshape(data, answers)
    rows, limits = [], []
    for one, other in [(i, i + 1) for i in range(places - 1)]:
        for first, second in ((one, other), (other, one)):
            for y in range(answers):
                row = np.zeros(cells + 1)
                row[at[first, y]], row[at[second, y]] = 1, -math.exp(epsilon)
                rows.append(row)
                limits.append(0.0)
    for x in range(data):
        row = np.zeros(cells + 1)
        row[at[x][right[x]]], row[-1] = -1, 1
        rows.append(row)
        limits.append(0.0)
    sums = np.zeros((data, cells + 1))
    for x in range(data):
        sums[x, at[x]] = 1
    goal = np.zeros(cells + 1)
    goal[-1] = -1
    found = linprog(goal, np.array(rows), limits, sums, np.ones(data), (0, 1))
    assert found.status == 0, found.message
    return -found.fun


@pytest.mark.parametrize("epsilon", [0.7, 1.0, 2.0])
def test_the_best_mechanism_there_is_keeps_the_floor(epsilon):
    """Of 26 data in a row; what is less is due to their ends."""
    places = 26
    apart = np.abs(np.subtract.outer(np.arange(places), np.arange(places)))
    floor = math.ceil(floors.in_steps_of_noise(Fraction(str(epsilon))))
    assert best_chance(places, epsilon, apart <= floor) > 0.95
    assert best_chance(places, epsilon, apart < floor) < 0.95


def test_packing_holds_for_the_mechanism_of_modes():
    """With as many units at one of the values as cannot tell it, none finds it often enough."""
    for answers, epsilon in ((10, Fraction(1, 2)), (100, Fraction(1)), (1000, Fraction(1, 5))):
        units = floors.packed(answers, epsilon)
        law = FiniteExponential(epsilon).pmf([units] + [0] * (answers - 1))
        assert law[0] < 0.95
        assert units > 0


@pytest.mark.parametrize("epsilon", ["0.05", "0.2", "1"])
def test_means_are_no_better_than_three_points(epsilon):
    least = floors.of_mean(Fraction(epsilon), 1)
    missed = float(1 - floors.LEVEL)
    added = 1
    while (1 - missed) * (1 + 2 * math.exp(-float(Fraction(epsilon)) * (added + 1))) > 1:
        added += 1
    first, middle, last = (Fraction(i * added, 1000 + i * added) for i in range(3))
    assert least == min(middle - first, last - middle) / 2
