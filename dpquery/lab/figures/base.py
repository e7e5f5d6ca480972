"""What a figure is: lines that say what the lecture notes have, and what comes out here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np

from dpquery.core.privacy_loss import Neighbours
from dpquery.errors import internal
from dpquery.lab.synthetic_data import LAWS, Floats, Law
from dpquery.lab.trial import Asked, Rows, draw
from dpquery.mechanisms.randomness import Randomness

ADD_REMOVE, SUBSTITUTE = Neighbours
NO_END = math.inf
DELTA = Fraction(1, 10**5)
"""Of Gaussian noise, in the notes and here."""

MEANS = "means, quantiles and limits"
THRESHOLDS = "thresholds and histograms"
LOCAL = "local privacy"
SLIDES = "privacy for data analysis"
"""The lecture notes, by their subjects."""


@dataclass(frozen=True, slots=True)
class Line:
    """One number of a figure."""

    what: str
    notes: str
    """As the notes put it; empty where a figure is drawn and no number is said."""
    here: float
    why: str = ""
    """Why the two differ, where they do."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the notes, or a number of their text."""

    name: str
    notes: str
    """Which of them, by their subject."""
    place: str
    says: str
    lines: Callable[[int], Iterator[Line]] = field(repr=False)
    """Measured by so many draws."""


def samples(law: str | Law, rows: int, sets: int) -> list[Rows]:
    """Draw sets of synthetic rows."""
    of, randomness = LAWS[law] if isinstance(law, str) else law, Randomness()
    return [Rows(of.draw(rows, randomness)) for _ in range(sets)]


def drawn(
    asked: Asked,
    epsilon: Fraction,
    sets: Sequence[Rows],
    draws: int,
    neighbours: Neighbours = ADD_REMOVE,
    mechanism: str | None = None,
) -> Floats:
    """Draw values of a call, from each set in turn: one row for each draw."""
    release = asked.planned(epsilon, neighbours, mechanism, DELTA)
    if release is None:
        raise internal("figures ask what their functions answer")
    found: list[Any] = [cell.value for cell in draw(release, sets, draws, NO_END).cells]
    return np.array(found, float).reshape(draws, -1)


def root(squares: Any) -> float:
    """Return the root of the mean of squares."""
    return math.sqrt(float(np.mean(squares)))
