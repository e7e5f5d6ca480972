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
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from dpquery.core.privacy import Neighbours, root_above
from dpquery.core.types import DOUBLE
from dpquery.functions.additive import (
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
from dpquery.functions.quantize import code_of, counted
from dpquery.ir.expr import Code
from dpquery.ir.measures import CountRows, SumProducts
from dpquery.ir.query import Call
from dpquery.mechanisms import AdditiveNoise, MaxNorm
from dpquery.mechanisms.base import Distance
from dpquery.mechanisms.laplace import DiscreteLaplace
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
Doubles = npt.NDArray[np.float64]


class Moments(NamedTuple):
    """What noisy sums say of y and of the columns that vary, each between -1 and 1."""

    columns: list[int]
    """Which of them, counted from 1."""
    rows: float
    noise: float
    """The standard deviation of the noise in each sum; there are no fewer rows."""
    mean: float
    """Of y."""
    means: Doubles
    inner: Doubles
    """The sums of products of two columns, about their means."""
    outer: Doubles
    """Those of products with y."""


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
        moments, y = self._moments(drawn), self.codes[0]
        slopes = _solved(moments.inner, moments.outer, moments.noise)
        base = Fraction(moments.mean - float(moments.means @ slopes))
        start = y.low * y.grid + y.width * (1 + base) / 2
        return self._shown(moments.columns, slopes, start, y.width)

    def _moments(self, drawn: Sequence[int]) -> Moments:
        """Return what the noisy sums say, in rows."""
        pairs, size = _pairs(len(self.codes)), self._size
        parts = (float(Fraction(part) / size) for part in drawn)
        known = dict(zip(pairs, parts, strict=True))
        noise = float(self.mechanism.scale_shown / size)
        if isinstance(self.mechanism, DiscreteLaplace):
            noise *= sqrt(2)
        columns = [at for at, code in enumerate(self.codes) if at and code.width]
        rows = max(known[()], noise)
        means = np.array([known[at,] for at in columns]) / rows
        mean = known[0,] / rows
        inner = np.array(
            [[known[min(a, b), max(a, b)] for b in columns] for a in columns]
        ).reshape(len(columns), len(columns))
        inner[np.diag_indices_from(inner)] = (inner.diagonal() + rows) / 2
        inner -= rows * np.outer(means, means)
        outer = np.array([known[0, at] for at in columns]) - rows * mean * means
        return Moments(columns, rows, noise, mean, means, inner, outer)

    def _shown(
        self, columns: Sequence[int], slopes: Doubles, start: Fraction, height: Fraction
    ) -> list[float]:
        """Return the coefficients of the values from those of u.

        Args:
            columns: those that vary.
            slopes: their coefficients, in halves of the height.
            start: what there is where each u is 0.
            height: what u runs through between -1 and 1, at a slope of 1.
        """
        found = dict(zip(columns, map(float, slopes), strict=True))
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
