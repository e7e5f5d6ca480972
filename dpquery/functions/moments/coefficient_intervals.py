"""How far off the coefficients of a plane are: from the same noisy moments as these.

A row's distance from the plane, times a line q in the columns, adds up to zero over all rows,
if the plane is that of least squares. It is linear in the moments. For one coefficient, q is
what its column has that the others do not tell: then, by how far the other coefficients, the
means and q itself are off, the sum changes as products of that do, which are far below the
noise. So the coefficients that noise does not rule out are those for which the sum is within
the reach of its noise (Fieller), with all else as the noisy moments have it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dpquery.functions.moments.corr_regr import Range, ratios
from dpquery.mechanisms.laplace import Reach

Doubles = npt.NDArray[np.float64]
Pair = tuple[int, ...]
UNLIMITED = (-inf, inf)


@dataclass(frozen=True, slots=True)
class Normal:
    """What least squares needs: rows, means, and moments about these, added up."""

    rows: float
    mean: float
    """Of y."""
    means: Doubles
    """Of the columns."""
    inner: Doubles
    """Of two columns."""
    outer: Doubles
    """Of each column and y."""


def normal_of(known: Mapping[Pair, float], columns: Sequence[int], least: float) -> Normal:
    """Return the moments about the means, from sums of u, 2 u^2 - 1 and products.

    Args:
        known: the sums, by which places are multiplied; y has the place 0.
        columns: the places of the columns.
        least: how many rows there are taken to be at least.
    """
    rows, size = max(known[()], least), len(columns)
    means, mean = np.array([known[at,] for at in columns]) / rows, known[0,] / rows
    products = [[known[min(a, b), max(a, b)] for b in columns] for a in columns]
    inner = np.array(products).reshape(size, size)
    inner[np.diag_indices_from(inner)] = (inner.diagonal() + rows) / 2
    inner -= rows * np.outer(means, means)
    outer = np.array([known[0, at] for at in columns]) - rows * mean * means
    return Normal(rows, mean, means, inner, outer)


class _Line(NamedTuple):
    """A constant, and a multiple of y and of each column."""

    start: float
    y: float
    slopes: Doubles

    def times(self, other: _Line) -> list[float]:
        """Return the product with a line without y, in the order of `_order`."""
        count = range(len(self.slopes))
        squares = [float(self.slopes[a] * other.slopes[a]) / 2 for a in count]
        single = [self.start * float(q) + float(f) * other.start
                  for f, q in zip(self.slopes, other.slopes, strict=True)]  # fmt: skip
        mixed = [float(self.slopes[a] * other.slopes[b] + self.slopes[b] * other.slopes[a])
                 for a in count for b in count if a < b]  # fmt: skip
        with_y = [self.y * float(q) for q in other.slopes]
        constant = self.start * other.start + sum(squares)
        return [constant, self.y * other.start, *single, *with_y, *squares, *mixed]


def _order(columns: Sequence[int]) -> list[Pair]:
    """Return the moments of a product: 1, y, each column, with y, squared, and two of them."""
    ones, squares = [(at,) for at in columns], [(at, at) for at in columns]
    mixed = [(a, b) for a in columns for b in columns if a < b]
    return [(), (0,), *ones, *((0, at) for at in columns), *squares, *mixed]


def ranges_of(
    known: Mapping[Pair, float], columns: Sequence[int], at: Sequence[float], reach: Reach
) -> list[Range]:
    """Return the range of the plane's height at a point, and of each slope.

    Args:
        known: the noisy sums, as of `normal_of`.
        columns: the places of the columns.
        at: the point.
        reach: how far the noises of such sums go together.
    """
    unlimited = [UNLIMITED] * (1 + len(columns))
    if known[()] <= reach((1.0,)):
        return unlimited
    normal = normal_of(known, columns, 0.0)
    try:
        inverse = np.linalg.inv(normal.inner)
    except np.linalg.LinAlgError:
        return unlimited
    slopes, point, means = inverse @ normal.outer, np.array(at), normal.means
    height = normal.mean + float(slopes @ (point - means))
    sums, size = [known[pair] for pair in _order(columns)], len(columns)
    off = _Line(float(slopes @ point) - height, 1.0, -slopes)
    lean = inverse @ (point - means)
    here = _Line(1 / normal.rows - float(lean @ means), 0.0, lean)
    one = _Line(1.0, 0.0, np.zeros(size))
    low, high = ratios(off.times(here), one.times(here), sums, reach)
    found = [(height + low, height + high)]
    for place, (row, unit) in enumerate(zip(inverse, np.eye(size), strict=True)):
        alone = _Line(-float(row @ means), 0.0, row)
        along = _Line(-float(means[place]), 0.0, unit)
        low, high = ratios(off.times(alone), along.times(alone), sums, reach)
        found.append((float(slopes[place]) + low, float(slopes[place]) + high))
    return found
