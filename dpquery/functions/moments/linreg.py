"""DP_LINREG: a plane through the rows by least squares, from noisy second moments.

Each expression is a code j in 0..J, and u = (2j - J) / J lies between -1 and 1. What a plane
needs are the sums of 1, u, 2 u^2 - 1 and of products u v of two expressions: y's square is not
among them. Each is between -1 and 1 for every row, so in integers: J u, (2 u^2 - 1) J^2 and
u v J K are whole, and times a whole number each they are nearly alike in size. One unit moves
the vector by at most its weight times the largest of these sizes in maximum norm, their sum in
L1 norm, and the root of the sum of their squares in L2; by twice that where it is replaced. Of
several groups, each row is in one: the maxima add up to no more over all of them.

A row at the corners of the bounds moves every part by as much as it can, so noise by maximum
norm is the default: it has about two fifths of the deviation of Laplace noise (`max_norm.py`).

What follows is post-processing. About the means, the moments of x are a matrix whose
eigenvalues noise moves by about the root of their number times its deviation: none is taken for
less. So rows that hardly vary, columns that are alike, and no rows at all, give numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations_with_replacement
from math import prod, sqrt
from typing import ClassVar, TypeVar

import numpy as np

from dpquery.core.privacy_loss import Neighbours, root_above
from dpquery.core.types import DOUBLE
from dpquery.functions.additive_releases import (
    ADDITIVE,
    additive_noise,
    double,
    needless,
    significant,
)
from dpquery.functions.base import (
    COMMON,
    DPFunction,
    Expression,
    Facts,
    Gives,
    Measured,
    Release,
    Takes,
    Words,
)
from dpquery.functions.count_sum import both, present
from dpquery.functions.moments.coefficient_intervals import (
    Doubles,
    Normal,
    normal_of,
    ranges_of,
)
from dpquery.functions.quantize import code_of, counted
from dpquery.ir.expr import Code
from dpquery.ir.measures import CountRows, SumProducts
from dpquery.ir.query import Call
from dpquery.mechanisms import AdditiveNoise, MaxNorm
from dpquery.mechanisms.base import Distance
from dpquery.mechanisms.laplace import DiscreteLaplace, combined_reach
from dpquery.mechanisms.randomness import Randomness

MOST = 15
"""Columns that a plane is made of."""
ALIKE = 1 << 42
"""Sizes of the parts of a vector are alike but for less than one such part. At any epsilon one
unit moves them by more than there are of them: noise by maximum norm asks for that."""
EVENLY = 4
"""By how much the share of noise in one sum is multiplied in a coefficient, about 95 times in
100, where columns are spread evenly between their bounds."""
NOISES = (MaxNorm.name, *ADDITIVE)
"""What adds noise to second moments; the first is the default."""


def _pairs(count: int) -> list[tuple[int, ...]]:
    """Return which codes are multiplied: none, one, or two, but never y with itself."""
    places = range(count)
    pairs = [pair for pair in combinations_with_replacement(places, 2) if pair != (0, 0)]
    return [(), *((place,) for place in places), *pairs]


@dataclass(frozen=True, slots=True)
class PlaneRelease(Release):
    """The coefficients of one plane per group: where all are zero, then of each column."""

    mechanism: AdditiveNoise | MaxNorm
    codes: tuple[Code, ...]
    """Of y, and of each column."""

    has_interval: ClassVar[bool] = True

    def draw(self, exact: Measured, randomness: Randomness) -> Iterator[tuple[int, ...]]:
        """Draw the noisy moments of each group."""
        moments = zip(*(exact.values(one) for one in self.measures), strict=True)
        flat = [part for group in moments for part in self._vector(group)]
        noisy = self.mechanism.release(flat, randomness)
        size = len(self.measures)
        return (tuple(noisy[start : start + size]) for start in range(0, len(noisy), size))

    def _vector(self, moments: Sequence[int]) -> list[int]:
        """Turn sums of products of codes into those of u, each times its whole number."""
        known = dict(zip(_pairs(len(self.codes)), moments, strict=True))
        tops, rows = tops_of(self.codes), known[()]
        vector = []
        for (pair, sum_), times in zip(known.items(), factors_of(self.codes), strict=True):
            of = [tops[place] for place in pair]
            match pair:
                case ():
                    part = rows
                case (_,):
                    part = 2 * sum_ - of[0] * rows
                case (a, b):
                    part = 4 * sum_ - 2 * (of[0] * known[b,] + of[1] * known[a,])
                    part += of[0] * of[1] * rows
                    if a == b:
                        part = 2 * part - of[0] ** 2 * rows
            vector.append(part * times)
        return vector

    def value(self, drawn: Sequence[int]) -> list[float]:
        """Return the coefficients."""
        of, y = self._normal(drawn), self.codes[0]
        slopes = _solved(of.inner, of.outer, self._noise)
        base = Fraction(of.mean - float(of.means @ slopes))
        return self._shown(slopes, y.low * y.grid + y.width * (1 + base) / 2, y.width)

    def interval(
        self, drawn: Sequence[int], confidence: Fraction
    ) -> tuple[list[float], list[float]] | None:
        """Return the coefficients that noise does not rule out, alike to both sides of each."""
        if not 0 < confidence < 1:
            raise ValueError("a confidence lies between 0 and 1")
        size, spread = float(self._size), float(self.mechanism.scale_shown)
        far = combined_reach(self.mechanism, spread, float(1 - confidence))
        zero = [self._zero(at) for at in self._columns]
        found = ranges_of(
            self._known(drawn), self._columns, zero, lambda parts: far(parts) / size
        )
        y, values = self.codes[0], self.value(drawn)
        (low, high), *of_columns = found
        start, height = double(y.low * y.grid + y.width / 2), double(y.width / 2)
        ends = [(start + height * low, start + height * high)]
        slopes = dict(zip(self._columns, of_columns, strict=True))
        for at, code in enumerate(self.codes[1:], 1):
            low, high = slopes.get(at, (0.0, 0.0))
            times = double(y.width / code.width) if at in slopes else 1.0
            ends.append((times * low, times * high))
        margins = [
            max(value - low, high - value)
            for value, (low, high) in zip(values, ends, strict=True)
        ]
        pairs = list(zip(values, margins, strict=True))
        return [value - far for value, far in pairs], [value + far for value, far in pairs]

    def _zero(self, at: int) -> float:
        """Return where zero is, of a column between -1 and 1."""
        code = self.codes[at]
        return double(-2 * code.low * code.grid / code.width - 1)

    @property
    def _columns(self) -> list[int]:
        """The places of columns that have more than one value."""
        return [at for at, code in enumerate(self.codes) if at and code.width]

    def _known(self, drawn: Sequence[int]) -> dict[tuple[int, ...], float]:
        """Return the noisy moments in rows, by which codes are multiplied."""
        parts = (float(Fraction(part) / self._size) for part in drawn)
        return dict(zip(_pairs(len(self.codes)), parts, strict=True))

    def _normal(self, drawn: Sequence[int]) -> Normal:
        """Return the noisy moments about the means; there are no fewer rows than noise."""
        return normal_of(self._known(drawn), self._columns, self._noise)

    @property
    def _noise(self) -> float:
        """The standard deviation of the noise in each sum, in rows."""
        shown = float(self.mechanism.scale_shown / self._size)
        return shown * sqrt(2) if isinstance(self.mechanism, DiscreteLaplace) else shown

    def _shown(self, slopes: Doubles, start: Fraction, height: Fraction) -> list[float]:
        """Return the coefficients of the values from those of u.

        Args:
            slopes: of the columns that vary, in halves of the height.
            start: what there is where each u is 0.
            height: what u runs through between -1 and 1, at a slope of 1.
        """
        found = dict(zip(self._columns, map(float, slopes), strict=True))
        shown = []
        for at, code in enumerate(self.codes[1:], 1):
            slope = Fraction(found[at]) * height / code.width if at in found else Fraction(0)
            start -= slope * (code.low * code.grid + code.width / 2)
            shown.append(double(slope))
        return [double(start), *shown]

    @property
    def _size(self) -> Fraction:
        """What a row of weight 1 at a bound adds to each part of the vector, about."""
        return Fraction(self.measure.weight.scale * common_size(self.codes))

    @property
    def note(self) -> str:
        """Say in what order the coefficients stand."""
        return f"{self.function} gives the intercept first, then the coefficient of each column"

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in rows, and what they do to coefficients.

        Each coefficient has the noise of the product with y, and that of other products as
        much as the coefficients are large: their squares are taken to add up to one.
        """
        _, high = self.mechanism.interval(0, Fraction(95, 100))
        share = Fraction(high) / self._size / 1000
        off = significant(EVENLY * share)
        moved = f"{significant(self.distance / self._size)} rows, in all sums"
        if isinstance(self.mechanism, MaxNorm):
            moved = f"{counted(self.distance / self._size, 'row')}, in each sum"
        return Words(
            moved,
            f"{significant(self.mechanism.scale_shown / self._size)} rows, in each sum",
            f"about ± {off} of y's range, where a column runs from bound to bound, over 1,000 "
            "rows spread evenly",
        )


def _solved(inner: Doubles, outer: Doubles, noise: float) -> Doubles:
    """Return the slopes, with no eigenvalue below what noise alone would give."""
    if not len(outer):
        return outer
    values, vectors = spectrum(inner, noise)
    solved: Doubles = vectors @ ((vectors.T @ outer) / values)
    return solved


def spectrum(inner: Doubles, noise: float) -> tuple[Doubles, Doubles]:
    """Return eigenvalues, none below what noise alone would give, and eigenvectors."""
    values, vectors = np.linalg.eigh(inner)
    return np.maximum(values, noise * sqrt(len(inner))), vectors


def tops_of(codes: Sequence[Code]) -> list[int]:
    """Return the largest codes; a constant's is 1, so that nothing is divided by zero."""
    return [max(code.size, 1) for code in codes]


def common_size(codes: Sequence[Code]) -> int:
    """Return the size that all parts of the vector have, or a little less."""
    return max(tops_of(codes)) ** 2 * ALIKE


def factors_of(codes: Sequence[Code]) -> list[int]:
    """Return by what each part of the vector is multiplied."""
    tops, size = tops_of(codes), common_size(codes)
    return [size // prod(tops[place] for place in pair) for pair in _pairs(len(codes))]


def plane_sizes(codes: Sequence[Code]) -> list[int]:
    """Return the largest size of each part of the vector for one row."""
    tops = tops_of(codes)
    pairs = zip(_pairs(len(codes)), factors_of(codes), strict=True)
    return [times * prod(tops[place] for place in pair) for pair, times in pairs]


P = TypeVar("P", bound=PlaneRelease)


def plane(call: Call, facts: Facts, kind: type[P]) -> P:
    """Plan a release of second moments, and of what is made of them."""
    most = facts.most_steps(2)
    codes = tuple(
        code_of(call, origin_at_low=True, at=at, most=most, coarse=True)
        for at in range(len(call.inputs))
    )
    weight, condition = facts.weight(call, max(tops_of(codes)) ** 2), call.condition
    for code in reversed(codes):
        condition = both(present(code.expr), condition)
    sums = (
        SumProducts(weight, tuple(codes[place] for place in pair), condition)
        for pair in _pairs(len(codes))[1:]
    )
    twice = 2 if facts.neighbours is Neighbours.SUBSTITUTE else 1
    noise, distance = _noise(call, plane_sizes(codes), twice * weight.total)
    measures: tuple[CountRows | SumProducts, ...] = (CountRows(weight, condition), *sums)
    type_ = replace(DOUBLE, listed=True)
    return kind(call.function, measures, distance, noise, type_, codes)


def _noise(
    call: Call, sizes: Sequence[int], weight: int
) -> tuple[AdditiveNoise | MaxNorm, Distance]:
    """Make the noise that a call asks for, and say how far a unit of this weight moves sums."""
    options = call.options
    if options.rho is None and options.mechanism in {None, MaxNorm.name}:
        if options.delta is not None:
            raise needless(call, options.delta_span, MaxNorm.name)
        farthest = weight * max(sizes)
        return MaxNorm.calibrated(farthest, options.epsilon, len(sizes)), farthest
    l1 = weight * sum(sizes)
    l2 = weight * root_above(sum(size * size for size in sizes))
    noise = additive_noise(call, l1, l2)
    return noise, l1 if noise.norm == 1 else l2


LINREG = DPFunction(
    name="DP_LINREG",
    summary="The plane by which y follows some columns, by least squares: a list of its "
    "intercept and of the coefficient of each column.",
    positional=(
        Expression(Takes.NUMBER, "y"),
        Expression(Takes.NUMBER, "x", listed=MOST),
    ),
    gives=Gives.NUMBERS,
    parameters=COMMON,
    mechanisms=NOISES,
    plan=lambda call, facts: plane(call, facts, PlaneRelease),
    example="SELECT DP_LINREG(salary, [age, rating], eps=0.5) AS plane FROM staff",
)
