"""What functions of ranks share: the grid, the weights, and the histograms of a group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

from dpquery.errors import QueryRefused, advice, listed, refusal
from dpquery.functions.base import MAX_ROWS_OF_TABLE, Facts, Measured, Release
from dpquery.functions.quantize import code_of, value_of
from dpquery.ir.expr import Code
from dpquery.ir.measures import GroupRequest, Histogram, Weight
from dpquery.ir.query import Call, Wanted
from dpquery.mechanisms.quantiles.base import LARGEST_GRID, Errors, likely_off, rows_for
from dpquery.mechanisms.quantiles.sampling.exact_histograms import (
    NARROW,
    HistogramTree,
    Request,
    Weights,
    look_ahead,
)
from dpquery.mechanisms.randomness import Randomness
from dpquery.mechanisms.samplers import Integers


@dataclass(frozen=True, slots=True)
class ValueRelease(Release):
    """Values of a column, drawn as places among those that there could be."""

    measures: tuple[Histogram]

    @property
    def measure(self) -> Histogram:
        """The weights of the values."""
        return self.measures[0]

    @property
    def code(self) -> Code:
        """The values that there could be."""
        return self.measure.code

    def value(self, drawn: Any) -> object:
        """Return the value at a place, or a list of values; NULL where there is none."""
        if isinstance(drawn, tuple | list):
            return [value_of(self.code, place) for place in drawn]
        return None if drawn is None else value_of(self.code, drawn)

    def meets(self, wanted: Wanted) -> bool | None:
        """Compare the ranks that values are proven to be off at most, on any data."""
        off = self.ranks_off(wanted.confidence, any_data=True)
        return None if off is None else off <= wanted.error


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

    def tree(self, histogram: Weights) -> HistogramTree:
        """Ask for the whole grid."""
        ...

    def near(self, tree: HistogramTree) -> Sequence[int]:
        """Return the ranks where draws will look."""
        ...

    def draw(self, tree: HistogramTree, randomness: Randomness) -> D_co:
        """Draw from such a tree."""
        ...


def draw_groups(
    mechanism: Draws[D_co], exact: Measured, measure: Histogram, randomness: Randomness
) -> list[D_co]:
    """Draw for each group; what many groups will look at is asked for together."""
    histograms = [partial(exact.histogram, measure, group) for group in range(exact.groups)]
    if not isinstance(mechanism, DrawsAhead):
        return [mechanism.release(histogram, randomness) for histogram in histograms]
    ahead, size, drawn = mechanism, max(1, MOST_HELD // mechanism.held), list[D_co]()
    for first in range(0, len(histograms), size):
        trees = [ahead.tree(histogram) for histogram in histograms[first : first + size]]

        def ask(
            requests: Sequence[tuple[int, Request]], first: int = first
        ) -> Sequence[Integers]:
            of_groups = [GroupRequest(first + n, *request) for n, request in requests]
            return exact.histograms(measure, of_groups)

        look_ahead(trees, ahead.near, ask)
        drawn += [ahead.draw(tree, randomness) for tree in trees]
    return drawn


def grid_of(call: Call) -> Code:
    """Return the grid from which a call draws.

    Raises:
        PlanRefused: DPQ401 no bounds, DPQ404 too many values between them.
    """
    code = code_of(call, origin_at_low=True, most=LARGEST_GRID)
    if code.cells > LARGEST_GRID:
        raise refusal(
            "DPQ404",
            f"{call.function} has too many values to draw from between these bounds",
            call.options.bounds_span or call.span,
            "more than 2^63 values",
            "a quantile is one of the values that lie on a grid between the bounds.",
            "narrow the bounds: bounds=[0, 1000]",
        )
    return code


def histogram_for(call: Call, facts: Facts, denominator: int) -> Histogram:
    """Return the weights of the grid from which a call draws.

    Raises:
        PlanRefused: DPQ401 no bounds, DPQ404 too many values between them.
    """
    code = grid_of(call)
    return Histogram(weight_for(call, facts, denominator), code, call.condition)


def weight_for(call: Call, facts: Facts, denominator: int) -> Weight:
    """Return weights that leave scores in 64 bits, where the smallest scale allows it."""
    weight = facts.weight(call)
    while not weight.plain and weight.scale > LEAST_SCALE:
        if denominator * most_weight(weight) < NARROW:
            break
        weight = replace(weight, scale=weight.scale // 2)
    return weight


def most_weight(weight: Weight) -> int:
    """Return more than all rows of a table weigh."""
    return MAX_ROWS_OF_TABLE * weight.scale


def bins_for(groups: int) -> int:
    """Return how finely a histogram parts the grid, where it is asked for again more finely."""
    return min(MOST_BINS, ranges_for(groups))


def ranges_for(groups: int) -> int:
    """Return how finely one histogram can part the grid: all groups stay within a bound."""
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
    label = f"{groups:,} groups" + (f" of {values:,} quantiles" if values > 1 else "")
    why = "each group of a quantile takes scans of its own."
    raise too_many_groups(call, f"{MAX_DRAWS // values:,} groups", label, why)


def too_many_groups(call: Call, most: str, label: str, why: str) -> QueryRefused:
    """Refuse a call for more groups than it is answered for."""
    title = f"{call.function} is answered for {most} at most"
    remedy = advice("name fewer groups: WHERE a_column IN (1, 2)")
    return refusal("DPQ405", title, call.span, label, why, remedy)


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


def unfit_mechanism(call: Call, asked: str, fitting: Sequence[str], draws: str) -> QueryRefused:
    """Refuse a mechanism that answers the other kind of question."""
    return refusal(
        "DPQ205",
        f"{call.function} {asked} has no mechanism {call.options.mechanism!r}",
        call.options.mechanism_span,
        f"it draws {draws}",
        f"{call.function} {asked} is drawn by {listed(fitting)}.",
        f"mechanism='{fitting[0]}'",
    )
