"""What a DP aggregate function is: its signature, and how a call of it becomes a release.

A function knows why the sensitivity is what it says; the mechanism it picks knows numbers
only. Adding one is a file here and a line in `__init__`: binding, completion and documentation
read the signature and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from dpquery.answer import Cell
from dpquery.events import Event
from dpquery.ir import Call, Contribution, Measure, Scalar, Weight
from dpquery.mechanisms.randomness import Randomness
from dpquery.types import Type

__all__ = [
    "COMMON",
    "DELTA",
    "EPS",
    "MAX_ROWS",
    "MECHANISM",
    "DPFunction",
    "Facts",
    "Measured",
    "NoisyCell",
    "Parameter",
    "Release",
    "Step",
]

WEIGHT_SCALE = 2**32
"""Integer weights are multiples of 1/2^32: the rounding they cost is far below one row."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument that is given by name."""

    name: str
    summary: str
    aliases: tuple[str, ...] = ()


EPS = Parameter("eps", "how much of the budget the call may spend, as in eps=0.5", ("epsilon",))
DELTA = Parameter("delta", "probability kept for mechanisms that need one, as in delta=1e-7")
MAX_ROWS = Parameter(
    "max_rows_contributed", "rows of one unit that count in full, as in max_rows_contributed=5"
)
MECHANISM = Parameter("mechanism", "which mechanism adds the noise, as in mechanism='gaussian'")
COMMON = (EPS, DELTA, MAX_ROWS, MECHANISM)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is publicly known where a call stands."""

    contribution: Contribution

    def weight(self, asked: int | None) -> Weight:
        """Give the weights for a limit: a function of plan and policy, never of the file."""
        if self.contribution.single or self.contribution.unit is None:
            return Weight()
        limit = self.contribution.limit if asked is None else asked
        return Weight(limit, WEIGHT_SCALE)


@dataclass(frozen=True, slots=True)
class Step:
    """One release as EXPLAIN shows it, in rows and units of the column."""

    column: str
    function: str
    mechanism: str
    sensitivity: Fraction
    noise_scale: Fraction
    expected_error: int
    """The exact value lies within this of the answer with 95 % confidence."""
    weight: Weight


class Measured(Protocol):
    """The exact side of a release: integers, by measure, one per group."""

    def values(self, measure: Measure) -> tuple[int, ...]:
        """Give the exact integers of one measure of the scan."""
        ...


class NoisyCell(Cell, Protocol):
    """A released value, and what is known of the noise in it."""

    @property
    def value(self) -> Scalar:
        """The value as the analyst sees it."""
        ...


class Release(Protocol):
    """A planned release: what it measures, what it loses, how it draws."""

    @property
    def type(self) -> Type:
        """The type of the released values."""
        ...

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures that the scan must hold for it."""
        ...

    def event(self) -> Event:
        """State the loss, recomputed from sensitivity and mechanism (I7)."""
        ...

    def run(self, exact: Measured, randomness: Randomness) -> Sequence[NoisyCell]:
        """Draw the noisy values, one per group."""
        ...

    def step(self, column: str) -> Step:
        """Describe it for EXPLAIN."""
        ...


@dataclass(frozen=True, slots=True)
class DPFunction:
    """An aggregate function of the language."""

    name: str
    summary: str
    star: bool
    """Whether it may be asked of all rows, as DP_COUNT(*)."""
    parameters: tuple[Parameter, ...]
    mechanisms: tuple[str, ...]
    """The names it takes for mechanism=; the first is the default."""
    plan: Callable[[Call, Facts], Release]
    example: str
    aliases: tuple[str, ...] = ()
