"""What a release that chooses hands to its mechanism, and how far that moves between tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpquery.functions.base import Measured, Release
from dpquery.functions.distributions.mode_top_k import MajorityRelease, ModeRelease, TopRelease
from dpquery.functions.moments.mean_variance import ChosenMeanRelease
from dpquery.functions.order_statistics.min_max import ExtremeRelease, FirstAboveRelease
from dpquery.mechanisms import DiscreteStaircase, FirstNoisyCount, LargestNoisyCounts, NoisyTop

CHOOSING = (
    ModeRelease,
    TopRelease,
    MajorityRelease,
    ExtremeRelease,
    FirstAboveRelease,
    ChosenMeanRelease,
)

Given = tuple[Any, ...]
"""The exact arguments of one draw: lists of integers as tuples."""


class Heard:
    """In the place of a mechanism: keeps what it is given, and chooses the first."""

    def __init__(self, mechanism: Any) -> None:
        self.mechanism = mechanism
        self.given: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.mechanism, name)

    def release(self, *given: Any) -> Any:
        *exact, _ = given
        self.given.append(tuple(tuple(e) if isinstance(e, list) else e for e in exact))
        listed = isinstance(self.mechanism, DiscreteStaircase | LargestNoisyCounts | NoisyTop)
        return [0] if listed else 0


def handed(release: Release, held: Measured) -> tuple[Given, ...]:
    """Return what a mechanism is given, group by group."""
    heard = Heard(release.mechanism)
    replace(release, mechanism=heard).run(held, None)
    return tuple(heard.given)


def moved(
    release: Any, before: Sequence[Given], after: Sequence[Given]
) -> tuple[Fraction, Fraction]:
    """Return how far what is handed over moved, and how far it may, over all groups together.

    Of a threshold: what that costs, by the scales of its noise.
    """
    pairs = list(zip(before, after, strict=True))
    match release:
        case ModeRelease():
            widths = (max(each) - min(each) for each in (_changes(*pair) for pair in pairs))
            return Fraction(sum(widths)), Fraction(release.distance)
        case TopRelease() | FirstAboveRelease() if isinstance(
            release.mechanism, LargestNoisyCounts | FirstNoisyCount
        ):
            sizes = (abs(change) for pair in pairs for change in _changes(*pair))
            return Fraction(sum(sizes)), Fraction(release.distance)
        case TopRelease():
            changes = [_changes(*pair) for pair in pairs]
            both = changes, [[-change for change in each] for each in changes]
            size = release.mechanism.size
            shifts = (sum(_shift(each, size) for each in one) for one in both)
            return Fraction(max(shifts)), Fraction(release.distance)
        case ExtremeRelease() | FirstAboveRelease():
            changes = [[0, *_changes(*pair)] for pair in pairs]
            rise = max(sum(map(max, changes)), -sum(map(min, changes)))
            width = sum(max(each) - min(each) for each in changes)
            return release.mechanism.loss(width, rise).epsilon, release.epsilon
        case ChosenMeanRelease():
            top = release.top
            return Fraction(sum(_mean_moves(*pair, top) for pair in pairs)), Fraction(top)
    return Fraction(sum(abs(a[0] - b[0]) for a, b in pairs)), Fraction(release.distance)


def _changes(before: Given, after: Given) -> list[int]:
    return [b - a for a, b in zip(before[0], after[0], strict=True)] or [0]


def _shift(changes: Sequence[int], size: int) -> int:
    """How far the noise of so many places has to move: up to what rises most."""
    rise = max(*changes, 0)
    return sum(sorted((rise - change for change in changes), reverse=True)[:size])


def _mean_moves(before: Given, after: Given, top: int) -> int:
    """How far s - n m moves for the means m at the two ends; those between move less."""
    total, rows = (b - a for a, b in zip(before[:2], after[:2], strict=True))
    return max(abs(total), abs(total - rows * top))
