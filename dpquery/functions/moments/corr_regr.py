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
from itertools import product
from math import inf, isfinite, sqrt
from typing import ClassVar, NamedTuple, TypeVar

from dpquery.functions.additive_noise import double, significant
from dpquery.functions.moments.covariance import of_pairs
from dpquery.functions.moments.mean_variance import Basis
from dpquery.mechanisms.laplace import Reach, share_range

N = TypeVar("N", float, Fraction)
Range = tuple[float, float]
PLACES = 4
"""Stretches between the centres that are tried."""
EVENLY = 9
"""By how much the share of noise in one sum is multiplied in a slope, or a correlation, about
95 times in 100, where both expressions are spread evenly between their bounds."""
WHOLE = (0.0, 1.0)


def _line(degree: int, centre: N) -> list[N]:
    """Return t - centre in Bernstein polynomials of a degree above zero."""
    return [type(centre)(Fraction(i, degree)) - centre for i in range(degree + 1)]


def _square(centre: N) -> list[N]:
    """Return (t - centre)^2 in those of degree 2."""
    return [centre * centre, centre * (centre - 1), (1 - centre) ** 2]


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

    def mean_range(self, axis: int, sums: Sequence[float], reach: Reach) -> Range:
        """Return the means that noise does not rule out."""
        weights, total = self.mean(axis, 0.0), sum(sums)
        return share_range(
            _of(weights, sums), total, lambda m: reach([w - m for w in weights]), WHOLE
        )


def _ratios(
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


def _over(ranges: Sequence[Range]) -> Range:
    """Return the range of several."""
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _between(ends: Range) -> list[float]:
    return [ends[0] + (ends[1] - ends[0]) * place / PLACES for place in range(PLACES + 1)]


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

        About the mean of x, whatever y is counted from, the slope is the ratio of the means of
        (x - a)(y - c) and (x - a)^2: both are linear in the sums (Fieller). The intercept of a
        slope is the mean of y + slope (zero - x), which lies between those of the slopes' ends.
        """
        (low, height), (_, width) = basis.axes
        if not width:
            return (0.0, 0.0) if not self.intercept else (-inf, inf)
        slopes = self._slopes(sums, reach(0.05), reach(0.6 if self.intercept else 0.9))
        if not isfinite(slopes[1] - slopes[0]):
            return -inf, inf
        if not self.intercept:
            times = double(height / width)
            return slopes[0] * times, slopes[1] * times
        at, mostly = double(self._zero(basis)), reach(0.3)
        least, most = _over([self._at(at, slope, sums, mostly) for slope in slopes])
        return double(low) + double(height) * least, double(low) + double(height) * most

    def _slopes(self, sums: Sequence[float], seldom: Reach, mostly: Reach) -> Range:
        of, total = _Both(self.degrees), sum(sums)
        if total <= 0:
            return -inf, inf
        c = min(max(_of(of.mean(0, 0.0), sums) / total, 0.0), 1.0)
        places = _between(of.mean_range(1, sums, seldom))
        return _over([_ratios(of.product(c, a), of.square(1, a), sums, mostly) for a in places])

    def _at(self, at: float, slope: float, sums: Sequence[float], reach: Reach) -> Range:
        """Return the means of y + slope (at - x) that noise does not rule out."""
        of = _Both(self.degrees)
        pairs = zip(of.mean(0, 0.0), of.mean(1, at), strict=True)
        weights = [one - slope * other for one, other in pairs]
        return share_range(
            _of(weights, sums),
            sum(sums),
            lambda m: reach([w - m for w in weights]),
            (min(weights), max(weights)),
        )

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
        the sums. With another k, or about other centres, the second is larger.
        """
        low, high = self._found(sums, reach)
        if not self.squared:
            return low, high
        return 0.0 if low <= 0 <= high else min(low * low, high * high), max(low**2, high**2)

    def _found(self, sums: Sequence[float], reach: Callable[[float], Reach]) -> Range:
        of, total = _Both(self.degrees), sum(sums)
        if total <= 0:
            return -1.0, 1.0
        seldom, mostly = reach(0.05), reach(0.8)
        means = [of.mean_range(axis, sums, seldom) for axis in (0, 1)]
        centre = [min(max(_of(of.mean(axis, 0.0), sums) / total, 0.0), 1.0) for axis in (0, 1)]
        spans = [self._variances(axis, centre[axis], sums, seldom) for axis in (0, 1)]
        (y_low, y_high), (x_low, x_high) = spans
        if min(y_low, x_low) <= 0:
            return -1.0, 1.0
        ends = sqrt(y_low / x_high), sqrt(y_high / x_low)
        middle = sqrt(ends[0] * ends[1])
        tried = [(middle, c, a) for c, a in product(*means)]
        tried += [(k, centre[0], centre[1]) for k in (*ends, middle)]
        return _over([self._about(*one, sums, mostly) for one in tried])

    @staticmethod
    def _variances(axis: int, centre: float, sums: Sequence[float], reach: Reach) -> Range:
        """Return the variances, about a centre, that noise does not rule out."""
        weights = _Both(Correlation.degrees).square(axis, centre)
        return share_range(
            _of(weights, sums), sum(sums), lambda v: reach([w - v for w in weights]), WHOLE
        )

    @staticmethod
    def _about(k: float, c: float, a: float, sums: Sequence[float], reach: Reach) -> Range:
        """Return the range of the ratio, by a ratio of deviations and about two centres."""
        of = _Both(Correlation.degrees)
        top = of.product(c, a)
        pairs = zip(of.square(0, c), of.square(1, a), strict=True)
        bottom = [(k * xx + yy / k) / 2 for yy, xx in pairs]
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
