"""Means and variances from Bernstein sums: vectors that one unit moves by one row's weight.

With codes k in 0..K, the sums of (K - k), k (degree 1), or of (K - k)^2, 2k(K - k), k^2
(degree 2) are nonnegative and add up to K^degree for every row. Of two expressions, the
products of the one's polynomials and the other's are so too, and add up to the product. So one
unit moves the whole vector by at most its weight times that in L1 norm, whatever its values:
each sum gets noise for the whole epsilon, and nothing is split. The scale of the noise is added
to what is divided by, so that an empty input gives the middle of the bounds and nothing is
divided by zero. Of different values (DISTINCT), each counts once whoever has it, and one unit
adds at most so many of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import accumulate, product
from math import comb, inf, isnan, isqrt, prod, sqrt
from typing import ClassVar, NamedTuple, Protocol

from dpquery.core.types import DOUBLE
from dpquery.errors import refusal
from dpquery.functions import error_floors
from dpquery.functions.additive_releases import (
    ADDITIVE,
    LARGEST,
    LEVEL,
    WIDTH,
    additive_noise,
    double,
    needless,
    reaches,
    significant,
)
from dpquery.functions.base import (
    BOUNDS,
    COMMON,
    DPFunction,
    Expression,
    Facts,
    Measured,
    Reads,
    Release,
    Takes,
    Words,
    without_option,
)
from dpquery.functions.clipping_report import CLIPPING
from dpquery.functions.count_sum import both, present
from dpquery.functions.error_floors import Floor
from dpquery.functions.error_options import CONFIDENCE, ERROR, OVER, missed_by_mean
from dpquery.functions.quantize import code_of, counted
from dpquery.ir.expr import Code, Expr
from dpquery.ir.measures import CountRows, CountValues, SumCodes, SumProducts, SumValues, Weight
from dpquery.ir.query import Call, Wanted
from dpquery.ir.sensitivity import simplex_l2_sensitivity, simplex_sensitivity
from dpquery.mechanisms import AdditiveNoise, MeanExponential, MeanInverseSensitivity
from dpquery.mechanisms.laplace import Reach, combined_reach, combined_tail, share_range
from dpquery.mechanisms.randomness import Randomness
from dpquery.mechanisms.samplers import tail_bound

SQUARED = 2
"""Products of more codes than that are of coarser ones, where finer ones would not fit."""


class Basis(NamedTuple):
    """What Bernstein sums are of."""

    low: Fraction
    """The lower bound."""
    width: Fraction
    """The distance between the bounds."""
    row: Fraction
    """What one row adds to the sums together."""
    axes: tuple[tuple[Fraction, Fraction], ...] = ()
    """The lower bound of each expression, and the distance between its bounds."""
    noise: Fraction = Fraction(1)
    """The scale of the noise in each sum."""


class Shape(Protocol):
    """What is computed from the shares of the Bernstein sums: a mean, a variance."""

    degrees: ClassVar[tuple[int, ...]]
    """Of the polynomials, in each expression that a call is asked about."""

    def value(self, sums: Sequence[Fraction], basis: Basis) -> float:
        """Return the value."""
        ...

    def error(self, share: Fraction, basis: Basis, times: str = "", of: str = "rows") -> str:
        """Return what noise of such a share of a thousand rows, or values, does to the value.

        Where the bounds are not known yet, `times` names their distance, and its width is 1.
        """
        ...

    def range(
        self, sums: Sequence[float], reach: Callable[[float], Reach], basis: Basis
    ) -> tuple[float, float]:
        """Return a range of the values that noise does not rule out.

        Args:
            sums: the noisy ones.
            reach: how far their noises go together, for a share of what may be missed.
            basis: what the sums are of.
        """
        ...

    def possible(self, basis: Basis) -> tuple[float, float]:
        """Return the least and the greatest value that any rows have."""
        ...


@dataclass(frozen=True, slots=True)
class BernsteinRelease(Release):
    """The Bernstein sums of some degrees with additive noise, one vector per group.

    Measured are the number of values and their power sums, which give the Bernstein sums
    exactly: the lowest in the first expression first, and last the highest in all.
    """

    mechanism: AdditiveNoise
    shape: Shape
    low: Fraction
    width: Fraction
    found: bool = field(default=False, kw_only=True, compare=False)
    """Whether a search found the bounds, from noisy counts."""

    has_interval: ClassVar[bool] = True

    @property
    def degrees(self) -> tuple[int, ...]:
        """The degree of the sums in each expression."""
        return self.shape.degrees

    @property
    def factors(self) -> tuple[Code, ...]:
        """The codes whose product is the highest moment."""
        return self.measures[-1].factors

    def draw(self, exact: Measured, randomness: Randomness) -> Iterator[tuple[int, ...]]:
        """Draw the noisy sums of each group."""
        powers = zip(*(exact.values(measure) for measure in self.measures), strict=True)
        flat = [part for moments in powers for part in self._bernstein(moments)]
        noisy = self.mechanism.release(flat, randomness)
        size = len(self.measures)
        return (tuple(noisy[start : start + size]) for start in range(0, len(noisy), size))

    def _bernstein(self, moments: tuple[int, ...]) -> list[int]:
        """Turn sums of 1, k, k^2 into sums of comb(d, i) k^i (K - k)^(d - i), code by code."""
        vector, factors = list(moments), list(self.factors)
        stride = 1
        for degree in self.degrees:
            top, factors = max(factors[0].size, 1), factors[degree:]
            block = stride * (degree + 1)
            vector = [
                _polynomial(vector[start + offset :: stride], i, degree, top)
                for start in range(0, len(vector), block)
                for i in range(degree + 1)
                for offset in range(stride)
            ]
            stride = block
        return vector

    def value(self, drawn: tuple[int, ...]) -> float:
        """Return the value, inside its bounds whatever the noise."""
        damping = self.mechanism.scale_shown / len(drawn)
        sums = [max(Fraction(part), Fraction(0)) + damping for part in drawn]
        return self.shape.value(sums, self._basis)

    def interval(self, drawn: tuple[int, ...], confidence: Fraction) -> tuple[float, float]:
        """Return the values that the noise does not rule out, alike to both sides but cut.

        Bounds that were found may be chance, so they do not cut it: where the noise rules out
        no value between them, any number may be the right one.
        """
        if not 0 < confidence < 1:
            raise ValueError("a confidence lies between 0 and 1")
        spread, missed = float(self.mechanism.scale_shown), float(1 - confidence)

        def reach(share: float) -> Reach:
            return self._reaching(combined_reach(self.mechanism, spread, missed * share))

        low, high = self.shape.range(self._noisy_sums(drawn), reach, self._basis)
        value = self.value(drawn)
        margin = max(value - low, high - value)
        margin = inf if isnan(margin) else margin  # no end, times nothing
        least, most = self.shape.possible(self._basis)
        if self.found:
            margin = inf if low <= least and most <= high else margin
            return value - margin, value + margin
        return max(value - margin, least), min(value + margin, most)

    def _noisy_sums(self, drawn: tuple[int, ...]) -> Sequence[float]:
        """Return the noisy sums that the shape is of."""
        return [float(part) for part in drawn]

    def _reaching(self, reach: Reach) -> Reach:
        """Return how far their noises go together."""
        return reach

    @property
    def possible(self) -> tuple[float, float] | None:
        """The ends of the values between stated bounds."""
        return None if self.found else self.shape.possible(self._basis)

    def meets(self, wanted: Wanted) -> bool | None:
        """Add up how often noise takes the value too far to either side, at the worst value."""
        if wanted.over is None or not isinstance(self.shape, Mean):
            return None
        noise, spread, basis = self.mechanism, float(self.mechanism.scale_shown), self._basis

        def beyond(coefficients: Sequence[float], far: float) -> float:
            return combined_tail(noise, spread, coefficients, far)

        share, whole = float(wanted.error / basis.width), float(wanted.over * basis.row)
        missed = missed_by_mean(share, whole, spread / len(self.measures), beyond)
        return missed <= 1 - wanted.confidence

    @property
    def _basis(self) -> Basis:
        tops = (max(code.size, 1) for code in self.factors)
        row = Fraction(self.measure.weight.scale * prod(tops))
        starts = accumulate(self.shape.degrees[:-1], initial=0)
        codes = (self.factors[start] for start in starts)
        axes = tuple((code.low * code.grid, code.width) for code in codes)
        return Basis(self.low, self.width, row, axes, self.mechanism.scale_shown)

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in rows or values, and what they do to those of 1,000 of them."""
        row, scale = self._basis.row, self.mechanism.scale_shown
        _, high = self.mechanism.interval(0, LEVEL)
        what = "value" if isinstance(self.measures[-1], SumValues) else "row"
        share = max(Fraction(high), scale) / row / 1000  # at least what damps it
        width, times = (Fraction(1), f" times {WIDTH}") if waiting else (self.width, "")
        basis = self._basis._replace(width=width)
        return Words(
            f"{counted(self.distance / row, what)}, in each sum",
            f"{counted(scale / row, what)}, in each sum",
            self.shape.error(share, basis, times, f"{what}s"),
        )

    @property
    def floor(self) -> Floor | None:
        """Compare a mean with the least error over as many rows as EXPLAIN states it for."""
        measure, noise, row = self.measures[-1], self.mechanism, self._basis.row
        if not isinstance(self.shape, Mean) or noise.norm != 1:
            return None
        if not reaches(measure, self.distance):
            return None
        _, high = noise.interval(0, LEVEL)
        far, scale = max(Fraction(high), noise.scale_shown), noise.scale_shown / row
        return error_floors.floor_of_mean(self.epsilon, measure, self.width, far / row, scale)


def _polynomial(moments: Sequence[int], i: int, degree: int, top: int) -> int:
    """Return the i-th of the Bernstein sums from the sums of 1, k, k^2 and so on."""
    terms = (
        comb(degree - i, j) * top ** (degree - i - j) * (-1) ** j * moments[i + j]
        for j in range(degree - i + 1)
    )
    return int(comb(degree, i) * sum(terms))


def bernstein(call: Call, facts: Facts, shape: Shape) -> BernsteinRelease:
    """Plan a release of Bernstein sums of what a call is asked about."""
    most = facts.most_steps(sum(shape.degrees))
    coarse = sum(shape.degrees) > SQUARED
    codes = [
        code_of(call, origin_at_low=True, at=at, most=most, coarse=coarse)
        for at in range(len(shape.degrees))
    ]
    tops = (max(code.size, 1) ** d for code, d in zip(codes, shape.degrees, strict=True))
    weigh = facts.shown if call.distinct else facts.weight
    weight, condition = weigh(call, prod(tops)), call.condition
    for code in reversed(codes):
        condition = both(present(code.expr), condition)
    sums: tuple[SumCodes | SumProducts, ...]
    count: CountRows | CountValues = CountRows(weight, condition)
    if call.distinct:
        code, degree = codes[0], shape.degrees[0]
        count = CountValues(weight, code.expr, call.condition)
        sums = tuple(SumValues(weight, code, d + 1, call.condition) for d in range(degree))
    else:
        own = condition if len(codes) > 1 else call.condition
        sums = tuple(_moments(weight, codes, shape, own))
    l1 = simplex_sensitivity(sums[-1], facts.neighbours)
    l2 = simplex_l2_sensitivity(sums[-1], facts.neighbours)
    noise = additive_noise(call, l1, l2)
    low = codes[0].low * codes[0].grid
    width = prod((code.width for code in codes), start=Fraction(1))
    measures = (count, *sums)
    distance = l1 if noise.norm == 1 else l2
    found = call.options.auto and call.options.bounds is not None
    return BernsteinRelease(
        call.function, measures, distance, noise, DOUBLE, shape, low, width, found=found
    )


def _moments(
    weight: Weight, codes: Sequence[Code], shape: Shape, condition: Expr | None
) -> Iterator[SumCodes | SumProducts]:
    """Return the moments up to the degrees but the number of rows, the first code's first."""
    for powers in product(*(range(degree + 1) for degree in reversed(shape.degrees))):
        factors = [
            c for c, power in zip(codes, reversed(powers), strict=True) for _ in range(power)
        ]
        if len(codes) == 1 and factors:
            yield SumCodes(weight, codes[0], len(factors), condition)
        elif factors:
            yield SumProducts(weight, tuple(factors), condition)


# Means and shares by an exponential mechanism, for those who want to compare.
#
# Sensitivity: the mechanisms state their loss for whole rows, of which a unit has one here.
# A unit that is added, removed or replaced changes one row; neither the number of rows nor
# their sum need be known. With groups a replaced unit would change a row of each of two,
# and parts of rows are not in the claim: both are refused.


CHOSEN: dict[str, type[MeanExponential | MeanInverseSensitivity]] = {
    "exponential": MeanExponential,
    "inverse_sensitivity": MeanInverseSensitivity,
}
ROWS = 1
"""How many rows a unit changes."""


@dataclass(frozen=True, slots=True)
class ChosenMeanRelease(Release):
    """One mean, on a fine public grid between its bounds, from a count and a sum."""

    mechanism: MeanExponential | MeanInverseSensitivity
    top: int
    """The largest code, of a value at the upper bound."""
    low: Fraction
    width: Fraction

    def draw(self, exact: Measured, randomness: Randomness) -> list[int]:
        """Draw the place of the mean."""
        (rows,), (total,) = (exact.values(measure) for measure in self.measures)
        return [self.mechanism.release(total, rows, self.top, randomness)]

    def value(self, drawn: int) -> float:
        """Return the mean."""
        return double(self.low + self.width * Fraction(drawn, self.mechanism.ticks))

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in rows."""
        rate = self.mechanism.rate
        share = Fraction(tail_bound(1, rate, LEVEL), 1000)
        width, times = (Fraction(1), f" times {WIDTH}") if waiting else (self.width, "")
        noise = counted(1 / rate, "row")
        basis = Basis(self.low, width, Fraction(1))
        return Words("1 in rows", noise, Mean().error(share, basis, times))


def chosen_mean(call: Call, facts: Facts) -> ChosenMeanRelease:
    """Plan a mean that is chosen.

    Raises:
        PlanRefused: DPQ403 a delta is of no use, DPQ404 a unit may have several rows.
    """
    options = call.options
    if options.delta is not None:
        raise needless(call, options.delta_span)
    if facts.weighted or call.distinct:
        raise refusal(
            "DPQ404",
            f"{call.function} with mechanism='{options.mechanism}' is of whole rows",
            options.mechanism_span,
            "of different values" if call.distinct else "a unit may have several rows",
            (
                "the loss of this mechanism is proven for one row per unit;",
                "that of Laplace noise holds everywhere, and it is more exact.",
            ),
            without_option(call, options.mechanism_span),
        )
    code = code_of(call, origin_at_low=True)
    rows = CountRows(Weight(), both(present(code.expr), call.condition))
    measures = (rows, SumCodes(Weight(), code, 1, call.condition))
    mechanism = CHOSEN[str(options.mechanism)].calibrated(ROWS, options.epsilon)
    low, width = code.low * code.grid, code.width
    top = max(code.size, 1)
    return ChosenMeanRelease(call.function, measures, ROWS, mechanism, DOUBLE, top, low, width)


def at_most(amount: Fraction, times: str, of: str) -> str:
    """Say what noise does at worst to a value over 1,000 rows, and to one over more."""
    less = significant(amount / 10)
    return f"at most ± {significant(amount)}{times} over any 1,000 {of}, {less} over 10,000"


def middle_of(part: float, total: float) -> float:
    """Return the mean of shares: between 0 and 1, and in the middle where no rows are left."""
    return min(max(part / total, 0.0), 1.0) if total > 0 else 0.5


# DP_AVG and DP_PROPORTION: a pair of sums, and their share.


@dataclass(frozen=True, slots=True)
class Mean:
    """low + width * share, where the share is that of the second sum."""

    degrees: ClassVar[tuple[int, ...]] = (1,)

    def value(self, sums: Sequence[Fraction], basis: Basis) -> float:
        """Return the mean."""
        below, above = sums
        return double(basis.low + basis.width * above / (below + above))

    def error(self, share: Fraction, basis: Basis, times: str = "", of: str = "rows") -> str:
        """A mean runs from bound to bound, and is off most at either."""
        return at_most(share * basis.width, times, of)

    def range(
        self, sums: Sequence[float], reach: Callable[[float], Reach], basis: Basis
    ) -> tuple[float, float]:
        """Return the means for which above - share (below + above) is within reach of zero."""
        (below, above), far = sums, reach(1)
        ends = share_range(above, below + above, lambda s: far((s, 1 - s)), (0.0, 1.0))
        least, most = (double(basis.low + basis.width * Fraction(end)) for end in ends)
        return least, most

    def possible(self, basis: Basis) -> tuple[float, float]:
        """Return the bounds."""
        return double(basis.low), double(basis.low + basis.width)


def _plan(call: Call, facts: Facts) -> Release:
    if call.options.mechanism in CHOSEN:
        return chosen_mean(call, facts)
    return bernstein(call, facts, Mean())


AVG = DPFunction(
    name="DP_AVG",
    summary="The mean of the argument, or of its different values, clamped to its bounds.",
    positional=(Expression(Takes.NUMBER, distinct=True),),
    parameters=(*COMMON, ERROR, CONFIDENCE, OVER, BOUNDS, CLIPPING),
    mechanisms=(*ADDITIVE, *CHOSEN),
    plan=_plan,
    reads=Reads.SHAPE,
    aliases=("DP_MEAN",),
    example="SELECT DP_AVG(salary, eps=0.5) AS pay FROM staff",
)

PROPORTION = DPFunction(
    name="DP_PROPORTION",
    summary="The share of rows for which a condition is true, where it is not NULL.",
    positional=(Expression(Takes.CONDITION),),
    parameters=(*COMMON, ERROR, CONFIDENCE, OVER),
    mechanisms=(*ADDITIVE, *CHOSEN),
    plan=_plan,
    example="SELECT DP_PROPORTION(remote, eps=0.5) AS share FROM staff",
)


# DP_VAR_POP and its family: the spread of values, from Bernstein sums of degree 2.
#
# With the sums b0, b1, b2 of (K - k)^2, 2k(K - k), k^2 and their total T, the mean of k/K
# is (b1/2 + b2) / T and the mean of its square b2 / T, so all moments up to the second come
# from one vector. The result is cut to what bounds allow: a quarter of their squared
# distance at most.


QUARTER = Fraction(1, 4)


def _root(square: Fraction) -> Fraction:
    """Return a square root, of numbers beyond every double too."""
    return Fraction(isqrt(int(square))) if square > LARGEST else Fraction(sqrt(square))


@dataclass(frozen=True, slots=True)
class Spread:
    """A variance or its root, of a population or of a sample."""

    degrees: ClassVar[tuple[int, ...]] = (2,)

    sample: bool
    root: bool

    def value(self, sums: Sequence[Fraction], basis: Basis) -> float:
        """Return the variance from the sums."""
        total = sum(sums, Fraction(0))
        mean = (sums[1] / 2 + sums[2]) / total
        share = min(max(sums[2] / total - mean * mean, Fraction(0)), QUARTER)
        return self._shown(share, basis.width, total / basis.row)

    def error(self, share: Fraction, basis: Basis, times: str = "", of: str = "rows") -> str:
        """A variance goes with the square of the distance between the bounds.

        It is off most where all values are at one bound. A deviation d is off by sqrt(d^2 + e)
        - d: most where it is zero, and less and less.
        """
        width = basis.width
        squared = share * width * width
        if not self.root:
            power = ", squared," if times else ""
            return at_most(squared, times + power, of)
        most = significant(_root(squared))
        if times:
            return f"at most ± {most}{times} over any 1,000 {of}"
        usual = width / 4
        off = significant(_root(usual**2 + squared) - usual)
        return (
            f"± {off} over 1,000 {of} that deviate by {significant(usual)}, "
            f"at most ± {most} over any 1,000"
        )

    def range(
        self, sums: Sequence[float], reach: Callable[[float], Reach], basis: Basis
    ) -> tuple[float, float]:
        """Return the range of spreads that noise does not rule out.

        About the mean m, a row at x has (x - m)^2, which is linear in the sums. About that of
        the noisy sums these are least: by how far it is off they change as its square does,
        which is far below the noise. So it is taken as it is; as is the number of rows, which
        matters to a sample's spread in the same way.
        """
        total, far = sum(sums), reach(1)
        mean = middle_of(sums[1] / 2 + sums[2], total)
        squares = (mean * mean, mean * (mean - 1), (1 - mean) ** 2)
        part = sum(size * one for size, one in zip(squares, sums, strict=True))
        ends = share_range(
            part, total, lambda v: far([size - v for size in squares]), (0.0, 0.25)
        )
        count = Fraction(max(total, 0.0)) / basis.row
        low, high = (self._shown(Fraction(end), basis.width, count) for end in ends)
        return low, high

    def possible(self, basis: Basis) -> tuple[float, float]:
        """Return nothing, and the spread of two values at the two bounds."""
        return 0.0, self._shown(QUARTER, basis.width, Fraction(2))

    def _shown(self, share: Fraction, width: Fraction, count: Fraction) -> float:
        """Correct for a sample's size, never by more than a sample of two; take the root.

        The share is of the squared width, which itself may be larger than any double.
        """
        if self.sample:
            share *= count / (count - 1) if count > 2 else 2
        return sqrt(4 * share) * float(width / 2) if self.root else double(share * width**2)


def _function(name: str, summary: str, shape: Spread, *aliases: str) -> DPFunction:
    return DPFunction(
        name=name,
        summary=summary,
        positional=(Expression(Takes.NUMBER, distinct=True),),
        parameters=(*COMMON, BOUNDS, CLIPPING),
        mechanisms=ADDITIVE,
        plan=lambda call, facts: bernstein(call, facts, shape),
        reads=Reads.SHAPE,
        aliases=aliases,
        example=f"SELECT {name}(salary, eps=0.5) AS spread FROM staff",
    )


VAR_POP = _function("DP_VAR_POP", "The population variance.", Spread(sample=False, root=False))
VAR_SAMP = _function(
    "DP_VAR_SAMP", "The sample variance.", Spread(sample=True, root=False), "DP_VARIANCE"
)
STDDEV_POP = _function(
    "DP_STDDEV_POP", "The population standard deviation.", Spread(sample=False, root=True)
)
STDDEV_SAMP = _function(
    "DP_STDDEV_SAMP",
    "The sample standard deviation.",
    Spread(sample=True, root=True),
    "DP_STDDEV",
)
