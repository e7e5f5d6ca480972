"""What mechanisms that draw cells by their ranks share: fields, checks, and rates.

It makes no claims. Each mechanism states its own, with the proof that its rate loses what is
said here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar, Self

from dpquery.events import BoundedRange
from dpquery.mechanisms.base import Distance
from dpquery.mechanisms.likely_ranks import Errors
from dpquery.privacy import Loss

__all__ = [
    "LARGEST_GRID",
    "SPREAD",
    "OneRank",
    "RankList",
    "SpreadRankList",
    "each_of",
    "errors_of_parts",
    "pmf_of_cells",
    "require_bins",
    "require_orders",
    "require_spread",
]

LARGEST_GRID = 1 << 63
SPREAD = 30
"""2^30 places within a cell: of a billion rows with one value, each has its own."""


@dataclass(frozen=True, slots=True)
class OneRank:
    """A law of cells by how far their ranks are from one order."""

    order: Fraction
    cells: int
    rate: Fraction
    """Per unit of weight."""
    max_weight: int
    """A public bound on the weight of all rows."""

    weight_linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_orders((self.order,), self.cells)
        _require_rate(self.rate, self.max_weight)

    @classmethod
    def calibrated(
        cls, order: Fraction, cells: int, max_weight: int, distance: Distance, epsilon: Fraction
    ) -> Self:
        """Give the rate that loses exactly epsilon at a distance above zero."""
        return cls(order, cells, epsilon / (2 * Fraction(distance)), max_weight)

    def loss(self, distance: Distance) -> Loss:
        """Give 2 rate distance, where no score moves by more than the distance."""
        return Loss(2 * self.rate * distance)

    def event(self, distance: Distance) -> BoundedRange:
        """State the loss for the ledger."""
        return BoundedRange(self.loss(distance).epsilon)

    @property
    def errors(self) -> Errors:
        """The error of the draw, where rows are even."""
        return ((Fraction(1, self.rate),),)


@dataclass(frozen=True, slots=True)
class RankList:
    """A law of lists of cells, one for each of several orders."""

    orders: tuple[Fraction, ...]
    """Rising."""
    cells: int
    rate: Fraction
    """What the whole list loses per unit of distance."""
    max_weight: int
    """A public bound on the weight of all rows."""

    weight_linear: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_orders(self.orders, self.cells)
        _require_rate(self.rate, self.max_weight)

    def loss(self, distance: Distance) -> Loss:
        """Give rate distance, where a unit moves no more than the distance."""
        return Loss(self.rate * distance)


@dataclass(frozen=True, slots=True)
class SpreadRankList(RankList):
    """A law of lists of places over which the weights of cells are spread."""

    spread: int = SPREAD
    """Over how many binary digits of places the weight of a cell is spread."""
    bins: int = 1 << 13
    """The most bins that one histogram has: a power of two."""
    held: int = 1 << 16
    """The most bins that are kept from one attempt to the next."""

    def __post_init__(self) -> None:
        RankList.__post_init__(self)
        require_spread(self.spread)
        require_bins(self.bins)

    @classmethod
    def calibrated(
        cls,
        orders: Sequence[Fraction],
        cells: int,
        max_weight: int,
        distance: Distance,
        epsilon: Fraction,
    ) -> Self:
        """Give the rate that loses exactly epsilon at a distance above zero."""
        return cls(tuple(orders), cells, epsilon / Fraction(distance), max_weight)


def pmf_of_cells(
    law: Iterable[tuple[tuple[int, ...], float]], spread: int
) -> dict[tuple[int, ...], float]:
    """Give the law of the cells of places, for tests."""
    told: dict[tuple[int, ...], float] = {}
    for places, chance in law:
        cells = tuple(place >> spread for place in places)
        told[cells] = told.get(cells, 0) + chance
    return told


def each_of(count: int, confidence: Fraction) -> Fraction:
    """Give how often each of so many has to hold, for all of them to hold as often as stated.

    >>> each_of(5, Fraction(9, 10))
    Fraction(49, 50)
    """
    if not 0 < confidence < 1:
        raise ValueError("a confidence lies between 0 and 1")
    return 1 - (1 - confidence) * Fraction(1, count)


def errors_of_parts(orders: Sequence[Fraction], slope: Fraction) -> Errors:
    """Return the errors of a list of which each part is off by itself, where rows are even.

    An order p is off by the parts below it, less its share p of the errors of all.
    """
    scale, size = Fraction(1, slope), len(orders) + 1
    return tuple(
        (scale * (1 - order),) * (place + 1) + (scale * order,) * (size - place - 1)
        for place, order in enumerate(orders)
    )


def require_orders(orders: Sequence[Fraction], cells: int) -> None:
    """Refuse what is no rising list of orders on a grid."""
    if not orders or not all(0 <= order <= 1 for order in orders):
        raise ValueError("orders lie between 0 and 1")
    if any(low >= high for low, high in pairwise(orders)):
        raise ValueError("each order is above the one before it")
    if not 1 <= cells <= LARGEST_GRID:
        raise ValueError("a grid has 1 to 2^63 cells")


def require_spread(spread: int) -> None:
    """Refuse to spread weight over more places than are told apart."""
    if not 0 <= spread <= SPREAD:
        raise ValueError("a spread is within reach")


def require_bins(bins: int) -> None:
    """Refuse to part a grid by anything but halves."""
    if bins < 2 or bins.bit_count() > 1:
        raise ValueError("the number of bins is a power of two")


def _require_rate(rate: Fraction, max_weight: int) -> None:
    if rate <= 0 or max_weight < 0:
        raise ValueError("a rate is above zero, and a weight is not below")
