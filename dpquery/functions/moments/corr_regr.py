"""DP_CORR and DP_REGR_*: how one expression follows another, from Bernstein sums of both.

A line needs the square of x beside what a covariance does, and a correlation those of x and y:
degree 2 in these (`covariance.py`, `mean_variance.py`). The products of the polynomials in y
and in x are nonnegative and add up to a constant for every row, whatever the degrees: each sum
gets noise for the whole epsilon.

With bounds taken to 0 and 1, every value here is made of means over rows of (x - a)^2,
(y - c)^2 and (x - a)(y - c) about centres a and c, and each such mean is linear in the sums. A
variance is taken for at least the scale of the noise, so that values that hardly vary, and no
rows at all, give a number and no failure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, sqrt
from typing import ClassVar, NamedTuple, TypeVar

from dpquery.functions.additive_releases import double, significant
from dpquery.functions.moments.covariance import of_pairs
from dpquery.functions.moments.mean_variance import Basis, middle_of
from dpquery.mechanisms.laplace import Reach, share_range

N = TypeVar("N", float, Fraction)
Range = tuple[float, float]
EVENLY = 9
"""By how much the share of noise in one sum is multiplied in a slope, or a correlation, about
95 times in 100, where both expressions are spread evenly between their bounds."""


def _line(degree: int, centre: N) -> list[N]:
    """Return t - centre in Bernstein polynomials of a degree above zero."""
    return [type(centre)(Fraction(i, degree)) - centre for i in range(degree + 1)]


def _square(centre: N) -> list[N]:
    """Return (t - centre)^2 in those of degree 2."""
    return _product(centre, centre)


def _product(one: N, other: N) -> list[N]:
    """Return (t - one) (t - other) in those of degree 2."""
    both = one * other
    return [both, both - (one + other) / 2, (1 - one) * (1 - other)]


def _times(first: Sequence[N], second: Sequence[N]) -> list[N]:
    """Return the product of a polynomial in y and one in x, in the order of the sums."""
    return [one * other for other in second for one in first]


def _of(weights: Sequence[N], sums: Sequence[N]) -> N:
    """Return what all rows have of a polynomial."""
    parts = (weight * part for weight, part in zip(weights, sums, strict=True))
    return sum(parts, type(sums[0])(0))


@dataclass(frozen=True, slots=True)
class _Both:
    """Polynomials in y and in x, by the degrees that there are sums of."""

    degrees: tuple[int, ...]

    def mean(self, axis: int, centre: N) -> list[N]:
        """Return y - centre, or x - centre."""
        return self._alone(axis, _line(self.degrees[axis], centre))

    def square(self, axis: int, centre: N) -> list[N]:
        """Return (y - centre)^2, or (x - centre)^2."""
        return self._alone(axis, _square(centre))

    def in_x(self, weights: list[N]) -> list[N]:
        """Return a polynomial in x alone."""
        return self._alone(1, weights)

    def product(self, c: N, a: N) -> list[N]:
        """Return (y - c) (x - a)."""
        return _times(_line(self.degrees[0], c), _line(self.degrees[1], a))

    def _alone(self, axis: int, weights: list[N]) -> list[N]:
        ones = [type(weights[0])(1)] * (self.degrees[1 - axis] + 1)
        return _times(ones, weights) if axis else _times(weights, ones)

    def means(self, sums: Sequence[N]) -> tuple[N, N]:
        """Return the means of y and of x."""
        total, nothing = sum(sums, type(sums[0])(0)), type(sums[0])(0)
        c, a = (_of(self.mean(axis, nothing), sums) / total for axis in (0, 1))
        return c, a


def ratios(
    top: Sequence[float], bottom: Sequence[float], sums: Sequence[float], reach: Reach
) -> Range:
    """Return the ratios b for which top - b bottom is within reach of zero; all, if many are.

    The reach of a sum is at most the sum of reaches, which gives ends to start from.
    """
    above, below = _of(top, sums), _of(bottom, sums)
    far, further = reach(top), reach(bottom)
    if below <= further:
        return -inf, inf
    low, high = above - far, above + far
    ends = (
        low / (below + (further if low > 0 else -further)),
        high / (below + (further if high < 0 else -further)),
    )
    return share_range(
        above,
        below,
        lambda b: reach([t - b * w for t, w in zip(top, bottom, strict=True)]),
        ends,
    )


class Line(NamedTuple):
    """What a row has of y on average, where bounds are taken to 0 and 1: y + slope (at - x)."""

    y: Fraction
    x: Fraction
    slope: Fraction


@dataclass(frozen=True, slots=True)
class Regression:
    """The line through the rows by least squares: its slope, or where it is at zero."""

    degrees: ClassVar[tuple[int, ...]] = (1, 2)

    intercept: bool = False

    def value(self, sums: Sequence[Fraction], basis: Basis) -> float:
        """Return the slope, or the intercept."""
        (low, height), (_, width) = basis.axes
        line = self._line(sums, basis)
        if not self.intercept:
            return double(line.slope * height / width) if width else 0.0
        at = self._zero(basis)
        return double(low + height * (line.y + line.slope * (at - line.x)))

    @staticmethod
    def _line(sums: Sequence[Fraction], basis: Basis) -> Line:
        """Return the line; a variance below the scale of the noise is taken for that."""
        of = _Both(Regression.degrees)
        y, x = of.means(sums)
        if not basis.axes[1][1]:
            return Line(y, x, Fraction(0))
        squared = max(_of(of.square(1, x), sums), basis.noise)
        return Line(y, x, _of(of.product(y, x), sums) / squared)

    @staticmethod
    def _zero(basis: Basis) -> Fraction:
        """Return where zero is of x; anywhere, where x has one value."""
        low, width = basis.axes[1]
        return -low / width if width else Fraction(0)

    def error(self, share: Fraction, basis: Basis, times: str = "", of: str = "rows") -> str:
        """A slope is as far off as a mean, over the variance of x."""
        (_, height), (_, width) = basis.axes
        slope = EVENLY * share
        off = slope * height / width if width else Fraction(0)
        if self.intercept:
            off = height * (share + slope * abs(self._zero(basis) - Fraction(1, 2)))
        return f"about ± {significant(off)} over 1,000 {of} with x spread evenly"

    def range(
        self, sums: Sequence[float], reach: Callable[[float], Reach], basis: Basis
    ) -> Range:
        """Return the slopes, or intercepts, that noise does not rule out.

        With z the place of zero, b the slope and q = 1 + (z - a)(x - a) / Var x, the intercept
        is the ratio of the means of (y - b (x - z)) q and q, and the slope that of (x - a)(y -
        c) and (x - a)^2: all are linear in the sums (Fieller). By how far the means a and c,
        the slope b and the variance are off, both ratios change as products of that do, which
        are far below the noise: those of the noisy sums are taken as they are.
        """
        (low, height), (_, width) = basis.axes
        if not width:
            return (0.0, 0.0) if not self.intercept else (-inf, inf)
        of, total, far = _Both(self.degrees), sum(sums), reach(1)
        c, a = (middle_of(_of(of.mean(axis, 0.0), sums), total) for axis in (0, 1))
        products, squares = of.product(c, a), of.square(1, a)
        varies = _of(squares, sums)
        if total <= 0 or varies <= far(squares):
            return -inf, inf
        if not self.intercept:
            ends = ratios(products, squares, sums, far)
            times = double(height / width)
            return ends[0] * times, ends[1] * times
        slope, zero = _of(products, sums) / varies, double(self._zero(basis))
        lean = (zero - a) * total / varies
        level = [1 + lean * one for one in _line(2, a)]
        down = [
            one + lean * two for one, two in zip(_line(2, zero), _product(zero, a), strict=True)
        ]
        rises = zip(_times([0.0, 1.0], level), of.in_x(down), strict=True)
        ends = ratios([one - slope * other for one, other in rises], of.in_x(level), sums, far)
        return double(low) + double(height) * ends[0], double(low) + double(height) * ends[1]

    def possible(self, basis: Basis) -> Range:
        """Return no ends: two rows can lie on any line."""
        return -inf, inf


@dataclass(frozen=True, slots=True)
class Correlation:
    """The covariance over both deviations; or its square, which a line explains of y."""

    degrees: ClassVar[tuple[int, ...]] = (2, 2)

    squared: bool = False

    def value(self, sums: Sequence[Fraction], basis: Basis) -> float:
        """Return the correlation, or its square."""
        of = _Both(self.degrees)
        y, x = of.means(sums)
        squares = (_of(of.square(axis, m), sums) for axis, m in enumerate((y, x)))
        one, other = (sqrt(max(square, basis.noise) / basis.row) for square in squares)
        found = float(_of(of.product(y, x), sums) / basis.row) / (one * other)
        found = min(max(found, -1.0), 1.0)
        return found * found if self.squared else found

    def error(self, share: Fraction, basis: Basis, times: str = "", of: str = "rows") -> str:
        """A correlation is as far off as a slope between values that vary alike."""
        most = min(Fraction(1), (2 if self.squared else 1) * EVENLY * share)
        return f"about ± {significant(most)} over 1,000 {of} spread evenly"

    def range(
        self, sums: Sequence[float], reach: Callable[[float], Reach], basis: Basis
    ) -> Range:
        """Return the correlations that noise does not rule out.

        About both means, with k the ratio of the deviations, a correlation is the ratio of the
        means of (x - a)(y - c) and of (k (x - a)^2 + (y - c)^2 / k) / 2, which are linear in
        the sums. About these k and means the first changes, and the second is least, by
        products of how far they are off: those of the noisy sums are taken as they are.
        """
        low, high = self._found(sums, reach(1))
        if not self.squared:
            return low, high
        return 0.0 if low <= 0 <= high else min(low * low, high * high), max(low**2, high**2)

    @staticmethod
    def _found(sums: Sequence[float], reach: Reach) -> Range:
        of, total = _Both(Correlation.degrees), sum(sums)
        c, a = (middle_of(_of(of.mean(axis, 0.0), sums), total) for axis in (0, 1))
        squares = of.square(0, c), of.square(1, a)
        y, x = (_of(one, sums) for one in squares)
        if total <= 0 or any(_of(one, sums) <= reach(one) for one in squares):
            return -1.0, 1.0
        k, top = sqrt(y / x), of.product(c, a)
        bottom = [(k * xx + yy / k) / 2 for yy, xx in zip(*squares, strict=True)]
        return share_range(
            _of(top, sums),
            _of(bottom, sums),
            lambda r: reach([t - r * w for t, w in zip(top, bottom, strict=True)]),
            (-1.0, 1.0),
        )

    def possible(self, basis: Basis) -> Range:
        """Return what any rows have."""
        return (0.0, 1.0) if self.squared else (-1.0, 1.0)


CORR = of_pairs(
    "DP_CORR",
    "The correlation of two expressions, each clamped to its bounds.",
    Correlation(),
    "together",
)
REGR_SLOPE = of_pairs(
    "DP_REGR_SLOPE",
    "The slope of the line by which y follows x, by least squares.",
    Regression(),
    "slope",
)
REGR_INTERCEPT = of_pairs(
    "DP_REGR_INTERCEPT",
    "Where the line by which y follows x is at zero, by least squares.",
    Regression(intercept=True),
    "base",
)
REGR_R2 = of_pairs(
    "DP_REGR_R2",
    "The share of the variance of y that a line explains: the squared correlation with x.",
    Correlation(squared=True),
    "explained",
)
