"""What all functions of ranks share: the grid, the weights, and the histograms of a group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol, TypeVar, runtime_checkable

from dpquery.errors import Diagnostic, NameRefused, PlanRefused, listed
from dpquery.functions.base import MAX_ROWS_OF_TABLE, Facts, Measured
from dpquery.functions.codes import code_of
from dpquery.ir import Call, Code, GroupRequest, Histogram, Weight
from dpquery.mechanisms.exponential import Integers
from dpquery.mechanisms.frontier import NARROW, Frontier, Request, look_ahead
from dpquery.mechanisms.frontier import Histogram as Weights
from dpquery.mechanisms.likely_ranks import Errors, likely_off, rows_for
from dpquery.mechanisms.randomness import Randomness
from dpquery.mechanisms.ranks import LARGEST_GRID

__all__ = [
    "MAX_DRAWS",
    "Asked",
    "bins_for",
    "draw_groups",
    "grid_of",
    "most_weight",
    "ranges_for",
    "ranks_words",
    "refuse_many",
    "unfit_mechanism",
    "weight_for",
]

MAX_DRAWS = 4096
"""Values that one call draws over all groups together."""
MOST_BINS = 1 << 13
MOST_LEAVES = 1 << 16
MOST_RANGES = 1 << 22
"""Ranges of one histogram over all groups together."""
LEAST_SCALE = 2**16
MOST_HELD = 1 << 21
"""Bins of the groups together that are drawn for at a time."""

D_co = TypeVar("D_co", covariant=True)


class Draws(Protocol[D_co]):
    """A mechanism that draws from a histogram."""

    def release(self, histogram: Weights, randomness: Randomness) -> D_co:
        """Draw."""
        ...


@runtime_checkable
class DrawsAhead(Protocol[D_co]):
    """A mechanism that says where it will look before it draws."""

    @property
    def held(self) -> int:
        """The most bins that it keeps."""
        ...

    def frontier(self, histogram: Weights) -> Frontier:
        """Ask for the whole grid."""
        ...

    def near(self, frontier: Frontier) -> Sequence[int]:
        """Give the ranks where draws will look."""
        ...

    def draw(self, frontier: Frontier, randomness: Randomness) -> D_co:
        """Draw from such a frontier."""
        ...


@dataclass(frozen=True, slots=True)
class Asked:
    """The histogram of one group, as a mechanism asks for it."""

    exact: Measured
    measure: Histogram
    group: int

    def __call__(self, low: int, high: int, width: int, /) -> Integers:
        """Give the weight of each range of codes."""
        return self.exact.histogram(self.measure, self.group, low, high, width)


def draw_groups(
    mechanism: Draws[D_co], exact: Measured, measure: Histogram, randomness: Randomness
) -> list[D_co]:
    """Draw for each group; what many groups will look at is asked for together."""
    histograms = [Asked(exact, measure, group) for group in range(exact.groups)]
    if not isinstance(mechanism, DrawsAhead):
        return [mechanism.release(histogram, randomness) for histogram in histograms]
    ahead, size = mechanism, max(1, MOST_HELD // mechanism.held)
    return [
        drawn
        for first in range(0, len(histograms), size)
        for drawn in _drawn_ahead(ahead, histograms[first : first + size], randomness)
    ]


def _drawn_ahead(
    mechanism: DrawsAhead[D_co], histograms: Sequence[Asked], randomness: Randomness
) -> list[D_co]:
    def ask(requests: Sequence[tuple[int, Request]]) -> Sequence[Integers]:
        of_groups = [GroupRequest(histograms[n].group, *request) for n, request in requests]
        return histograms[0].exact.histograms(histograms[0].measure, of_groups)

    frontiers = [mechanism.frontier(histogram) for histogram in histograms]
    look_ahead(frontiers, mechanism.near, ask)
    return [mechanism.draw(frontier, randomness) for frontier in frontiers]


def grid_of(call: Call) -> Code:
    """Give the grid from which a call draws.

    Raises:
        PlanRefused: DPQ401 no bounds, DPQ404 too many values between them.
    """
    code = code_of(call, origin_at_low=True)
    if code.cells > LARGEST_GRID:
        raise PlanRefused(
            Diagnostic(
                "DPQ404",
                f"{call.function} has too many values to draw from between these bounds",
                call.options.bounds_span or call.span,
                "more than 2^63 values",
                ("a quantile is one of the values that lie on a grid between the bounds.",),
                ("narrow the bounds: bounds=[0, 1000]",),
            )
        )
    return code


def weight_for(call: Call, facts: Facts, denominator: int) -> Weight:
    """Give weights that leave scores in 64 bits, where the smallest scale allows it."""
    weight = facts.weight(call)
    while not weight.plain and weight.scale > LEAST_SCALE:
        if denominator * most_weight(weight) < NARROW:
            break
        weight = replace(weight, scale=weight.scale // 2)
    return weight


def most_weight(weight: Weight) -> int:
    """Give more than all rows of a table weigh."""
    return MAX_ROWS_OF_TABLE * weight.scale


def bins_for(groups: int) -> int:
    """Give how finely a histogram parts the grid, where it is asked for again more finely."""
    return min(MOST_BINS, ranges_for(groups))


def ranges_for(groups: int) -> int:
    """Give how finely one histogram can part the grid: all groups stay within a bound."""
    ranges = MOST_LEAVES
    while ranges * groups > MOST_RANGES:
        ranges //= 2
    return ranges


def refuse_many(call: Call, groups: int, values: int = 1) -> None:
    """Refuse more draws than scans can be waited for.

    Raises:
        PlanRefused: DPQ405.
    """
    if groups * values <= MAX_DRAWS:
        return
    most = f"{MAX_DRAWS // values:,} groups"
    raise PlanRefused(
        Diagnostic(
            "DPQ405",
            f"{call.function} is answered for {most} at most",
            call.span,
            f"{groups:,} groups" + (f" of {values:,} quantiles" if values > 1 else ""),
            ("each group of a quantile takes scans of its own.",),
            ("name fewer groups: WHERE a_column IN (1, 2)",),
        )
    )


def ranks_words(
    orders: Sequence[Fraction], errors: Errors, most: int, weight: Weight, confidence: Fraction
) -> str:
    """Say how many ranks orders are off on even data, over how many rows, and on any data."""
    likely = Fraction(likely_off(errors, confidence), weight.scale)
    proven, each = round(Fraction(most, weight.scale)), " each" if len(orders) > 1 else ""
    if proven <= likely:
        return f"at most {proven:,} ranks{each}"
    rows = rows_for(orders, errors, likely)
    about = f"about {math.ceil(likely):,} ranks{each}, over {rows:,} or more rows spread evenly"
    return f"{about}; on any data at most {proven:,}"


def unfit_mechanism(call: Call, asked: str, fitting: Sequence[str], draws: str) -> NameRefused:
    """Refuse a mechanism that answers the other kind of question."""
    return NameRefused(
        Diagnostic(
            "DPQ205",
            f"{call.function} {asked} has no mechanism {call.options.mechanism!r}",
            call.options.mechanism_span,
            f"it draws {draws}",
            (f"{call.function} {asked} is drawn by {listed(fitting)}.",),
            (f"mechanism='{fitting[0]}'",),
        )
    )
