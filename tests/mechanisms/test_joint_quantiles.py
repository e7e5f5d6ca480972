"""What joint quantiles alone have: a move for groups, and sums that are known from above."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import pytest

from dpquery.mechanisms import JointQuantiles, SmoothedJointQuantiles
from dpquery.mechanisms.quantiles.sampling import joint_paths
from tests.mechanisms.histograms import Rows
from tests.mechanisms.joint_laws import (
    agreement,
    drawing,
    in_two_groups,
    single_rows,
    worst_loss,
)
from tests.mechanisms.quantile_suite import ALARM, DRAWN, MOST, ONE, SUBSTITUTE, calibrated
from tests.mechanisms.sources import Seeded


def test_the_move_of_one_group_fails_for_two() -> None:
    """Where units are replaced, 2 is enough within a group; not if they leave it."""
    median = (Fraction(1, 2),)
    wrong = calibrated(JointQuantiles, median, 3, SUBSTITUTE, move=ONE)
    assert worst_loss(in_two_groups(wrong.pmf), single_rows(6), 2, SUBSTITUTE) > 1.2
    orders = (Fraction(1, 20), Fraction(19, 20))
    one = calibrated(JointQuantiles, orders, 3, SUBSTITUTE)
    assert calibrated(JointQuantiles, orders, 3, SUBSTITUTE, grouped=True).move > one.move


@pytest.mark.parametrize("name", ["joint", "joint, no rows", "joint, spread, two"])
def test_how_finely_runs_are_told_apart_has_no_bearing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where one place after another is put in a stretch, in any order."""
    monkeypatch.setattr(joint_paths, "UNLIKELY", -1)
    mechanism, weights, times = DRAWN[name]
    sample = drawing(mechanism, weights)
    assert agreement(mechanism.pmf(weights), sample, *times) > ALARM


def test_coarse_stretches_have_no_bearing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is split, whatever the walks are like."""
    monkeypatch.setattr(joint_paths, "LOOSE", 1 << 40)
    mechanism, weights, times = DRAWN["joint, spread, two"]
    sample = drawing(mechanism, weights)
    assert agreement(mechanism.pmf(weights), sample, *times) > ALARM


def spread(weight: int, digits: int) -> list[int]:
    """By the rule, unit by unit: where the digits of its number lead, read from the right."""
    places = [int(f"{unit % (1 << digits):0{digits}b}"[::-1], 2) for unit in range(weight)]
    return [places.count(place) for place in range(1 << digits)]


@pytest.mark.parametrize("name", [name for name in DRAWN if name.startswith("joint")])
def test_sums_are_above_those_of_all_lists_and_not_far(name: str) -> None:
    """What proposals are drawn under: equal but for roundings, once all is told apart."""
    drawn, weights, _ = DRAWN[name]
    if isinstance(drawn, SmoothedJointQuantiles):
        weights = [part for weight in weights for part in spread(weight, drawn.spread)]
    mechanism = JointQuantiles(drawn.orders, len(weights), drawn.rate, MOST, drawn.move, 64)
    tree = joint_paths.HistogramTree(Rows(dict(enumerate(weights))), len(weights), MOST, 64, 64)
    paths = joint_paths.JointPaths(tree, mechanism.orders, mechanism.slope)
    whole, exponent = paths._settled(joint_paths.LOOSE, Seeded(1)).whole
    law = mechanism.pmf(weights)
    (best, share) = max(law.items(), key=lambda item: item[1])
    edges = [0, *(sum(weights[:place]) for place in best), sum(weights)]
    shares = joint_paths.shares_of(mechanism.orders)
    score = sum(
        abs(b - a - part * edges[-1])
        for (a, b), part in zip(pairwise(edges), shares, strict=True)
    )
    exact = math.exp(-float(mechanism.slope * score)) / share
    assert 1 - 1e-9 <= whole * 2.0**exponent / exact <= 1.02


def test_a_list_errs_by_half_of_its_score() -> None:
    orders = (Fraction(1, 10), Fraction(1, 2), Fraction(9, 10))
    mechanism = calibrated(JointQuantiles, orders, 10, SUBSTITUTE, weight=2**33)
    assert mechanism.widths == [4 * 2**33 / 2]
