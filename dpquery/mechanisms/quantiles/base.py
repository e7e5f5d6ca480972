"""What mechanisms that draw cells by their ranks share: fields, checks, rates, and errors.

It makes no claims. Each mechanism states its own, with the proof that its rate loses what is
said here.

A bound on ranks that holds for any data holds for rows that crowd about a rank with a desert
beside it: it grows with the grid, and most data are nowhere near it. Where rows are spread
evenly, the law of the exponential mechanism is known: each draw is off by a two-sided
exponential error, whatever the grid and the number of rows, and lists are off by sums of them.
`likely_off` is of that law. It knows no data and decides nothing that is drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np

from dpquery.core.privacy_loss import Loss
from dpquery.mechanisms.base import Distance, RangeEvent

Errors = tuple[tuple[Fraction, ...], ...]
"""For each order the scales of the independent errors that add up to its own, in weight."""
THINNER = 2
"""How many times as far apart rows may lie at one rank as at another that is nearer.

Rows that are drawn from an even law do not lie evenly. With 2, what is said at 95 % holds for
97.5 to 99 % of draws over all such data, and for 95 % or more on 9 of 10 of them at the rate
of 1 a rank, on nearly all at lower ones. With 3 it holds for up to 99.5 %: too wide.
"""
POINTS, REACH = 1 << 11, 48
"""Where a law is computed: at so many points, and so many of its largest scale to each side."""


@lru_cache(maxsize=1024)
def likely_off(errors: Errors, confidence: Fraction) -> int:
    """Return r so that all orders are off by r at most, as often as stated, on even data.

    An order is farther off with the chance of all farther ranks, each of which may be THINNER
    times as likely as if rows were even; the chances of the orders are added up.
    """
    if not 0 < confidence < 1:
        raise ValueError("a confidence lies between 0 and 1")
    largest = max(max(scales) for scales in errors)
    missed = _law(errors, float(largest))
    share = float(1 - confidence) / THINNER
    place = int(np.argmax(missed <= share)) if (missed <= share).any() else len(missed)
    return math.ceil(largest * Fraction(2 * REACH * (place + 1), POINTS))


def rows_for(orders: Sequence[Fraction], errors: Errors, most: Fraction) -> int:
    """Return over how many rows orders that are `most` off hold, in the unit of `most`.

    Twice as many as an order is off lie on either side of it then, so that the ends of the data
    are out of reach; of errors the largest is `most`. Rounded up to two digits.
    """
    sizes = [sum(scale * scale for scale in scales) for scales in errors]
    sides = [min(order, 1 - order) for order in orders]
    rows = max(
        (2 * most / side * Fraction(math.sqrt(size / max(sizes)))
         for size, side in zip(sizes, sides, strict=True) if side),
        default=Fraction(0),
    )  # fmt: skip
    whole = math.ceil(rows)
    digits: int = 10 ** max(0, len(str(whole)) - 2)
    return -(-whole // digits) * digits


def _law(errors: Errors, largest: float) -> np.ndarray:
    """Return how many orders are on average off by more than each point, from the middle on.

    A sum of two-sided exponential errors of scales a_i has the transform of the product of 1 /
    (1 + a_i^2 t^2).
    """
    t = np.pi / REACH * np.arange(POINTS // 2 + 1)
    transforms = np.ones((len(errors), len(t)))
    for number, scales in enumerate(errors):
        for scale in scales:
            transforms[number] /= 1 + (float(scale) / largest * t) ** 2
    chances = np.maximum(np.fft.irfft(transforms, POINTS, axis=1), 0)[:, : POINTS // 2]
    beyond = 2 * (chances[:, ::-1].cumsum(axis=1)[:, ::-1] - chances)
    return np.asarray(beyond.sum(axis=0))


LARGEST_GRID = 1 << 63
SPREAD = 30
"""2^30 places within a cell: of a billion rows with one value, each has its own."""


@dataclass(frozen=True, slots=True)
class OneRank(RangeEvent):
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
        """Return the rate that loses exactly epsilon at a distance above zero."""
        return cls(order, cells, epsilon / (2 * Fraction(distance)), max_weight)

    def loss(self, distance: Distance) -> Loss:
        """Return 2 rate distance, where no score moves by more than the distance."""
        return Loss(2 * self.rate * distance)

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
        """Return rate distance, where a unit moves no more than the distance."""
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
        require_bins(self.bins, self.spread)

    @classmethod
    def calibrated(
        cls,
        orders: Sequence[Fraction],
        cells: int,
        max_weight: int,
        distance: Distance,
        epsilon: Fraction,
    ) -> Self:
        """Return the rate that loses exactly epsilon at a distance above zero."""
        return cls(tuple(orders), cells, epsilon / Fraction(distance), max_weight)


def pmf_of_cells(
    law: Iterable[tuple[tuple[int, ...], float]], spread: int
) -> dict[tuple[int, ...], float]:
    """Return the law of the cells of places, for tests."""
    told: dict[tuple[int, ...], float] = {}
    for places, chance in law:
        cells = tuple(place >> spread for place in places)
        told[cells] = told.get(cells, 0) + chance
    return told


def each_of(count: int, confidence: Fraction) -> Fraction:
    """Return how often each of so many has to hold, for all of them to hold as often as stated.

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


def require_bins(bins: int, spread: int = 0) -> None:
    """Refuse to part a grid by anything but halves, or to spread weight beyond reach."""
    if not 0 <= spread <= SPREAD:
        raise ValueError("a spread is within reach")
    if bins < 2 or bins.bit_count() > 1:
        raise ValueError("the number of bins is a power of two")


def _require_rate(rate: Fraction, max_weight: int) -> None:
    if rate <= 0 or max_weight < 0:
        raise ValueError("a rate is above zero, and a weight is not below")
