"""Counts and sums of one statement from one draw: a vector with Gaussian noise.

Apart, each of d calls has a d-th of what they may spend together, so that the noise of each
grows with d. What one unit adds to all of them has a length that grows with the root of d, and
Gaussian noise follows the length. About the middle of what a row can add, that is half as
long: so the rows themselves are one number more, and of each other number it is drawn how far
it is from so many rows in the middle. Of d counts each has noise as of a length of (1 + root
d) / 2 (Lebeda 2024, arXiv:2408.06853), here for numbers of any ranges and shares.

Sensitivity: a row of weight w adds w to the rows N, and w x_i to number i, for an x_i between
low_i and high_i (0 where it does not count). Drawn are r N, and f_i y_i for y_i = 2 sum w x_i -
(low_i + high_i) N: a row of weight 1 moves the first by r, and the others by no more than h_i =
f_i (high_i - low_i), either way. Whatever rows a unit has, they weigh `weight.total` together,
so that it adds that many times a vector from the hull C of nothing and of all (r, y) with |y_i|
<= h_i, each in one group. Where it is added or removed, the square of the length is at most r^2
+ h^2 times that of the total, for h^2 the sum of all h_i^2. Where it is replaced, two vectors
of C differ, and their distance is convex, so that it is largest between corners: r^2 + h^2 from
nothing, 4 h^2 within one group, where r goes away, and 2 (r^2 + h^2) between two groups.

What is read from them, f_i y_i / (2 f_i) + (low_i + high_i) / 2 times r N / r, is
post-processing. The factors are whole numbers, so that noise of one variance serves all of them
and can be as fine as each needs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

from dpquery.core.privacy_loss import Ceiling, Neighbours, decimal_text, root_above
from dpquery.core.zcdp import rho_below
from dpquery.functions.additive_releases import LEVEL, AdditiveRelease, in_steps, in_type
from dpquery.functions.base import Facts, Measured, NoisyCell, Release, Step, Words
from dpquery.ir.measures import CountRows, Measure, SumCodes
from dpquery.ir.query import Call
from dpquery.mechanisms import DiscreteGaussian, DiscreteLaplace
from dpquery.mechanisms.laplace import combined_reach
from dpquery.mechanisms.randomness import Randomness

FINE = 1024
"""The least factor: others are rounded to one part in so many, or less."""
NARROWINGS = 80
GOLDEN = (math.sqrt(5) - 1) / 2
FREE = 1e6
"""How much noisier rows may be than the noisiest number, where no number needs them."""


@dataclass(frozen=True, slots=True)
class Part:
    """A number of the vector: between what a row of weight 1 adds to it, and its factor."""

    low: int
    high: int
    factor: int

    def of(self, value: int, rows: int) -> int:
        """Return what is drawn: how far the number is from so many rows in the middle."""
        return self.factor * (2 * value - (self.low + self.high) * rows)


@dataclass(frozen=True, slots=True)
class VectorRelease(Release):
    """One count or sum of several that are read from one draw.

    The rows are its first measure, and the second is its own, unless it counts the rows. A cell
    keeps what the number is read from: the noisy value of either.
    """

    mechanism: DiscreteGaussian
    rows: int
    """The factor of the rows."""
    part: Part | None
    """Of its own number; None where it counts the rows."""
    unit: Fraction
    """What one step of the measure is worth in the value."""
    most: Fraction
    """How far one unit moves it, at most."""
    share: Fraction
    """The epsilon of the call itself: that of the draw is all of theirs."""
    place: int = field(compare=False)
    """Which number of the vector it is; 0 for the rows."""
    numbers: tuple[tuple[Measure, Part], ...] = field(default=(), compare=False, repr=False)
    """All that is drawn beside the rows, where it is the first call of the draw."""

    has_interval: ClassVar[bool] = True

    @property
    def decisive(self) -> tuple[Measure, ...]:
        """The measure whose number it is."""
        return self.measures[-1:]

    def draw(self, exact: Measured, randomness: Randomness) -> Iterator[tuple[int, ...]]:
        """Draw the noisy vector of each group."""
        measures = (self.measure, *(measure for measure, _ in self.numbers))
        groups = zip(*(exact.values(measure) for measure in measures), strict=True)
        flat = [number for exacts in groups for number in self._vector(exacts)]
        noisy, size = self.mechanism.release(flat, randomness), len(measures)
        return (tuple(noisy[start : start + size]) for start in range(0, len(noisy), size))

    def _vector(self, exacts: Sequence[int]) -> Iterator[int]:
        """Return the exact vector of one group."""
        rows, *others = exacts
        yield self.rows * rows
        for (_, part), value in zip(self.numbers, others, strict=True):
            yield part.of(value, rows)

    def cell(self, drawn: tuple[int, ...]) -> NoisyCell:
        """Keep of a vector, or of what was kept of it, what the number is read from."""
        if self.part is None:
            return NoisyCell(drawn[:1], self)
        return NoisyCell((drawn[0], drawn[self.place if len(drawn) > 2 else 1]), self)

    def value(self, drawn: tuple[int, ...]) -> Any:
        """Return the number, as it comes."""
        return in_type(self._total(drawn), self.type)

    def interval(self, drawn: tuple[int, ...], confidence: Fraction) -> tuple[Any, Any]:
        """Return a range, as far below the number as above."""
        noisy, shown = self._total(drawn), Fraction(self.value(drawn))
        margin = in_steps(self.reach(confidence) + abs(shown - noisy), self.type)
        return in_type(shown - margin, self.type), in_type(shown + margin, self.type)

    def reach(self, confidence: Fraction) -> Fraction:
        """Return how far the noise takes the number, so often."""
        if not 0 < confidence < 1:
            raise ValueError("a confidence lies between 0 and 1")
        largest = max(map(abs, self.worth))
        shares = [float(one / largest) for one in self.worth]
        spread, missed = float(self.mechanism.scale_shown), float(1 - confidence)
        far = combined_reach(self.mechanism, spread, missed)(shares)
        return Fraction(far) * largest

    def _total(self, drawn: tuple[int, ...]) -> Fraction:
        pairs = zip(self.worth, drawn, strict=True)
        return sum((one * noisy for one, noisy in pairs), Fraction(0))

    @property
    def worth(self) -> tuple[Fraction, ...]:
        """What each noisy value is worth in the number."""
        rows = self.unit / self.rows
        if self.part is None:
            return (rows,)
        return rows * (self.part.low + self.part.high) / 2, self.unit / (2 * self.part.factor)

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in units of the value."""
        squares = sum((one * one for one in self.worth), Fraction(0))
        deviation = root_above(squares * self.mechanism.sigma2)
        margin = in_steps(self.reach(LEVEL), self.type)
        return Words(
            decimal_text(self.most, 4),
            decimal_text(deviation, 4),
            f"± {decimal_text(margin, 4)}",
        )

    def step(self, *, waiting: bool = False) -> Step:
        """Describe it for EXPLAIN, at the price of its own call."""
        return replace(Release.step(self, waiting=waiting), epsilon=self.share)


# Which calls can be drawn together, and what releases them.


class Kind(NamedTuple):
    """What counts of a number: between what a row of weight 1 adds to it, and its noise.

    The noise is the scale that it would have by itself, for a unit of weight 1: together, all
    are to have noise in proportion.
    """

    low: int
    high: int
    noise: float


@dataclass(frozen=True, slots=True)
class Member:
    """A call that can be drawn with others, and how it would be released by itself."""

    call: Call
    alone: AdditiveRelease

    @property
    def measure(self) -> CountRows | SumCodes:
        """What it is of."""
        measure = self.alone.measure
        assert isinstance(measure, CountRows | SumCodes)  # noqa: S101 - others are no members
        return measure

    @property
    def kind(self) -> Kind:
        """Its kind: a row adds nothing where it does not count, and each counts among all."""
        noise = float(self.alone.mechanism.scale_shown / self.measure.weight.total)
        match self.measure:
            case SumCodes(code=code):
                low, high = int(code.low - code.origin), int(code.high - code.origin)
                return Kind(min(low, 0), max(high, 0), noise)
            case CountRows(condition=condition):
                return Kind(int(condition is None), 1, noise)


def families(
    calls: Sequence[Call], apart: Sequence[Release], ceiling: Ceiling
) -> Iterator[dict[int, Member]]:
    """Return, by their places, the calls of one SELECT that can be drawn together."""
    found: dict[Hashable, dict[int, Member]] = {}
    for at, (call, alone) in enumerate(zip(calls, apart, strict=True)):
        if _is_plain(call) and (call.options.spare or not ceiling.summed):
            match alone:
                case AdditiveRelease(
                    mechanism=DiscreteLaplace(),
                    measures=(CountRows() | SumCodes(degree=1) as measure,),
                ):
                    found.setdefault(measure.weight.limit, {})[at] = Member(call, alone)
    yield from found.values()


def _is_plain(call: Call) -> bool:
    """Return whether a call has a share of the statement's price, and asks for nothing more."""
    options = call.options
    asked = (options.mechanism, options.rho, options.delta, options.group_bounds)
    waits = (options.max_groups_contributed, options.search, options.rows_search)
    stated = any(one is not None for one in (*asked, *waits))
    return call.shares and not (call.distinct or options.of_table or stated)


def in_one_draw(
    members: Sequence[Member], facts: Facts, ceiling: Ceiling
) -> list[VectorRelease]:
    """Return what releases some calls together; the first of them draws.

    Where epsilons add up, their noise is for all of their epsilons and deltas. Where rho does,
    it is for what they would lose apart, or less if that implies more than their epsilons.
    """
    scale = min(one.measure.weight.scale for one in members)
    weight = replace(members[0].measure.weight, scale=scale)
    rows = CountRows(weight, None)
    scaled = [replace(one.measure, weight=weight) for one in members]
    least: dict[CountRows | SumCodes, Kind] = {}
    for one, member in zip(scaled, members, strict=True):
        least[one] = min(member.kind, least.get(one, member.kind))
    counted = least.pop(rows).noise if rows in least else math.inf
    of_rows, factors = _factors(Counter(least.values()), counted, facts)
    numbers = tuple(
        (one, Part(kind.low, kind.high, factors[kind])) for one, kind in least.items()
    )
    widths = [(part.factor * (part.high - part.low), 1) for _, part in numbers]
    distance = weight.total * root_above(_squared(of_rows, widths, facts))
    noise = _noise(distance, members, ceiling)
    parts, places = dict(numbers), {one: at for at, one in enumerate(least, start=1)}
    return [
        VectorRelease(
            member.call.function,
            (rows, one) if one in parts else (rows,),
            distance,
            noise,
            member.alone.type,
            of_rows,
            parts.get(one),
            member.alone.unit * member.measure.weight.scale / scale,
            member.alone.distance * member.alone.unit,
            member.call.options.epsilon,
            places.get(one, 0),
            () if at else numbers,
        )
        for at, (one, member) in enumerate(zip(scaled, members, strict=True))
    ]


def _noise(distance: Fraction, members: Sequence[Member], ceiling: Ceiling) -> DiscreteGaussian:
    options = [one.call.options for one in members]
    epsilon = sum((one.epsilon for one in options), Fraction(0))
    if ceiling.summed:
        delta = sum((one.spare for one in options), Fraction(0))
        return DiscreteGaussian.calibrated(distance, epsilon, delta)
    apart = sum((one.epsilon**2 / 2 for one in options), Fraction(0))
    rho = min(apart, rho_below(epsilon, ceiling.converted))
    return DiscreteGaussian.of_rho(distance, rho, ceiling.converted)


def _squared(rows: Any, widths: Sequence[tuple[Any, int]], facts: Facts) -> Any:
    """Return the square of how far a unit of weight 1 moves the vector, as shown above.

    Args:
        rows: the factor of the rows.
        widths: how far such a row moves the others, and how many it moves so far.
        facts: what is known where they stand.
    """
    from_rows, others = rows * rows, sum(times * one * one for one, times in widths)
    if facts.neighbours is Neighbours.ADD_REMOVE:
        return from_rows + others
    return max(4 * others, (2 if facts.grouped else 1) * (from_rows + others))


def _factors(
    kinds: Mapping[Kind, int], counted: float, facts: Facts
) -> tuple[int, dict[Kind, int]]:
    """Return the factors of the rows, and of numbers, for noise in proportion.

    With noise of deviation s in the rows, a number that is to have t keeps sqrt(t^2 - m^2 s^2)
    for itself, m being its middle. How far a unit moves them in terms of these is convex in
    s^2: the least is searched. The floats decide how good the noise is, and not what is lost:
    that follows from the factors.

    Args:
        kinds: how many numbers there are of each kind.
        counted: the most noise that the rows may have.
        facts: what is known where they stand.
    """
    ordered = sorted(kinds)
    limits = [
        (2 * one.noise / (one.low + one.high)) ** 2 for one in ordered if one.low + one.high
    ]
    free = FREE * max(one.noise**2 for one in ordered)
    most = min(*limits, counted * counted, free)

    def own(square: float) -> list[float]:
        rests = ((2 * one.noise) ** 2 - (one.low + one.high) ** 2 * square for one in ordered)
        return [math.sqrt(max(rest, 0.0)) or 1e-150 for rest in rests]

    def moved(share: float) -> float:
        square = most * share
        pairs = zip(ordered, own(square), strict=True)
        widths = [((kind.high - kind.low) / s, kinds[kind]) for kind, s in pairs]
        return float(_squared(1 / math.sqrt(square), widths, facts))

    square = most * _lowest(moved)
    finest = [1 / math.sqrt(square), *(1 / one for one in own(square))]
    rows, *others = (round(FINE * one / min(finest)) for one in finest)
    return rows, dict(zip(ordered, others, strict=True))


def _lowest(curve: Callable[[float], float]) -> float:
    """Search between 0 and 1 where a curve that falls, then rises, is lowest."""
    low, high = 0.0, 1.0
    for _ in range(NARROWINGS):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        low, high = (low, right) if curve(left) < curve(right) else (left, high)
    return (low + high) / 2
