"""All mechanisms of a topic, each drawn from the same synthetic rows, as one table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa

from dpquery.answer import Answer
from dpquery.core.arrow_columns import table_of
from dpquery.core.privacy_loss import NO_LOSS, Neighbours, decimal_text
from dpquery.functions.base import Release
from dpquery.lab.synthetic_data import Law
from dpquery.lab.topics import LEVEL, Topic
from dpquery.lab.trial import Asked, Drawn, Rows, draw
from dpquery.mechanisms.randomness import Randomness

SETS = 10
"""Of synthetic rows, from which every mechanism draws in turn; fewer where these are many."""
HELD = 5_000_000
"""Rows of all sets together."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is to be tried: each combination of sizes, epsilons and numbers of places."""

    topic: Topic
    law: Law
    sizes: Sequence[int]
    epsilons: Sequence[Fraction]
    places: Sequence[int] = (1,)
    neighbours: Neighbours = Neighbours.ADD_REMOVE
    delta: Fraction = Fraction(1, 10**6)
    draws: int = 200
    seconds: float = 1.5
    """What one mechanism may take in one setting: slow ones are drawn less often."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One combination."""

    rows: int
    epsilon: Fraction
    places: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one mechanism in one setting; errors are in the unit of the topic."""

    setting: Setting
    mechanism: str
    default: bool
    """Whether a call without `mechanism=` has it."""
    draws: int
    seconds: float
    """That one draw takes."""
    error: float
    """The mean over places, draws and sets of rows."""
    deviation: float
    """The standard deviation of that mean."""
    farthest: float
    """What the largest error of an answer keeps to, 95 times in 100."""
    told: float | None
    """What answers tell of that, on average; None where they tell nothing."""
    floor: float | None
    """What no mechanism of this epsilon keeps to; None where no theorem says."""


def compared(wishes: Wishes) -> list[Outcome]:
    """Try every mechanism in every setting; the least error of a setting comes first."""
    found: list[Outcome] = []
    for combination in product(wishes.sizes, wishes.epsilons, wishes.places):
        outcomes = _tried(wishes, Setting(*combination))
        found += sorted(outcomes, key=lambda one: one.error)
    return found


def _tried(wishes: Wishes, setting: Setting) -> Iterator[Outcome]:
    randomness = Randomness()
    number = min(SETS, max(1, HELD // setting.rows))
    sets = [Rows(wishes.law.draw(setting.rows, randomness)) for _ in range(number)]
    questions = wishes.topic.asked(wishes.law.top, setting.places)
    default = _planned(wishes, setting, questions, None)
    for name in wishes.topic.function.mechanisms:
        found = _planned(wishes, setting, questions, name)
        if found is not None:
            usual = default is not None and default[1].drawn_by() == found[1].drawn_by()
            drawn = draw(found[1], sets, wishes.draws, wishes.seconds)
            tried = _outcome(wishes.topic, setting, (name, usual), found[0], drawn, sets)
            added = wishes.neighbours is Neighbours.ADD_REMOVE
            floor = wishes.topic.floor(found[1], found[0]) if added else None
            yield replace(tried, floor=floor)


def _planned(
    wishes: Wishes, setting: Setting, questions: Sequence[Asked], mechanism: str | None
) -> tuple[Asked, Release] | None:
    """Return the first question that a mechanism answers, and its release."""
    for asked in questions:
        how = (setting.epsilon, wishes.neighbours, mechanism, wishes.delta)
        if (release := asked.planned(*how)) is not None:
            return asked, release
    return None


def _outcome(
    topic: Topic,
    setting: Setting,
    named: tuple[str, bool],
    asked: Asked,
    drawn: Drawn,
    sets: Sequence[Rows],
) -> Outcome:
    off = [
        topic.off(cell.value, sets[number % len(sets)], asked)
        for number, cell in enumerate(drawn.cells)
    ]
    means = np.array([one.mean() for one in off])
    told = [amount for cell in drawn.cells if (amount := topic.told(cell, asked)) is not None]
    count = len(means)
    return Outcome(
        setting,
        *named,
        count,
        drawn.seconds,
        float(means.mean()),
        float(means.std(ddof=1)) / math.sqrt(count) if count > 1 else math.inf,
        float(np.quantile([one.max() for one in off], float(LEVEL))),
        math.fsum(told) / len(told) if told else None,
        None,
    )


FIELDS = {
    "n": pa.int64(),
    "eps": pa.float64(),
    "m": pa.int64(),
    "mechanism": pa.string(),
    "default": pa.bool_(),
    "error": pa.float64(),
    "p95": pa.float64(),
    "told": pa.float64(),
    "floor": pa.float64(),
    "of_best": pa.float64(),
    "ms": pa.float64(),
    "draws": pa.int64(),
}


def short(number: float | None) -> float | None:
    """Return a number with three significant digits: more of them would be chance."""
    return None if number is None else float(f"{number:.3g}")


def table(wishes: Wishes, outcomes: Sequence[Outcome]) -> Answer:
    """Return outcomes as an answer, with what its columns mean as notes."""
    least = {one.setting: one for one in reversed(outcomes)}  # the first of each setting
    rows = []
    for one in outcomes:
        best = least[one.setting].error
        ratio = one.error / best if best else (1.0 if one is least[one.setting] else None)
        at = one.setting
        figures = one.error, one.farthest, one.told, one.floor, ratio, 1000 * one.seconds
        row = [at.rows, float(at.epsilon), at.places, one.mechanism, one.default]
        row += map(short, figures)
        rows.append([*row, one.draws])
    found = table_of(rows, FIELDS)
    if not wishes.topic.places:
        found = found.drop_columns("m")
    return Answer(found, NO_LOSS, notes=tuple(_notes(wishes)))


def _notes(wishes: Wishes) -> Iterator[str]:
    topic, law = wishes.topic, wishes.law
    changed = "replaced" if wishes.neighbours is Neighbours.SUBSTITUTE else "added or removed"
    yield (
        f"synthetic rows: up to {SETS} sets of the law {law.name} ({law.says}), from 0 to "
        f"{law.top:,}; nothing was read, nothing is charged"
    )
    places = f", the mean of m {topic.places}" if topic.places else ""
    yield f"error: the mean distance from the exact value{places}, in {topic.unit}"
    yield (
        "p95: what the largest error of an answer keeps to, 95 times in 100; told: what "
        "answers say of that; floor: what no mechanism of this epsilon keeps to, for all data; "
        "of_best: the error, as a multiple of the least"
    )
    with_delta = decimal_text(wishes.delta)
    yield f"one row each is {changed}; mechanisms that need a delta have {with_delta}"
