"""Several numbers of one column from one draw: its rows, its sum, its mean and its spread.

Apart, each of k calls has a k-th of what they may spend together. But all of them are known
from the Bernstein sums of the column (`mean_variance.py`), which are released once for all of
it. So that rows without a value count too, what they would add to the sums is one sum more:
then each row adds the same to one vector, whatever it holds, and one unit moves this by no more
than the sums alone.

A sum of degree 1 is made of those of degree 2: with b0, b1, b2 those are b0 + b1/2 and
b1/2 + b2. No number gets more noise than it would have had apart; where a unit is replaced,
counts and sums could, and are released by themselves.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any

from dpquery import functions
from dpquery.core.privacy_loss import Neighbours, decimal_text
from dpquery.errors import PlanRefused
from dpquery.functions.additive_releases import LEVEL, in_steps, in_type
from dpquery.functions.base import Facts, Measured, Reads, Release, Step, Words
from dpquery.functions.error_floors import Floor
from dpquery.functions.moments.mean_variance import BernsteinRelease, Mean, bernstein
from dpquery.functions.quantize import counted
from dpquery.ir.measures import CountRows, Measure
from dpquery.ir.query import Call
from dpquery.mechanisms.laplace import Reach, combined_reach
from dpquery.mechanisms.randomness import Randomness


@dataclass(frozen=True, slots=True)
class Linear:
    """A number that is linear in the sums: a count or a sum, with what a row adds to it."""

    missing: Fraction
    """Of a row without a value."""
    low: Fraction
    """Of a row at the lower bound; in between it is in between."""
    high: Fraction

    def weights(self, degree: int) -> list[Fraction]:
        """Return what each part of the vector counts, that of rows without a value first."""
        step = (self.high - self.low) / degree
        return [self.missing, *(self.low + step * i for i in range(degree + 1))]


@dataclass(frozen=True, slots=True)
class JointRelease(BernsteinRelease):
    """One number of several that are read from one draw of Bernstein sums.

    The vector of each group begins with what rows without a value would add.
    """

    degree: int
    """Of the sums that are drawn; those that the number is of can be of a lower one."""
    linear: Linear | None
    """What it is, where it is not what the shape says."""
    part: Fraction
    """The epsilon of the call itself: that of the draw is all of theirs."""

    @property
    def degrees(self) -> tuple[int, ...]:
        """The degree of the sums that are drawn."""
        return (self.degree,)

    @property
    def decisive(self) -> tuple[Measure, ...]:
        """What decides the number: no clamp does, where rows are counted."""
        if self.linear is None or self.linear.low != self.linear.high:
            return self.measures[1:]
        return self.measures[:1] if self.linear.missing else self.measures[1:2]

    def draw(self, exact: Measured, randomness: Randomness) -> Iterator[tuple[int, ...]]:
        """Draw the noisy vector of each group."""
        powers = zip(*(exact.values(measure) for measure in self.measures), strict=True)
        flat = [part for moments in powers for part in self.vector(moments)]
        noisy = self.mechanism.release(flat, randomness)
        size = self.degree + 2
        return (tuple(noisy[start : start + size]) for start in range(0, len(noisy), size))

    def vector(self, moments: Sequence[int]) -> list[int]:
        """Return the exact vector of one group: what is missing, and the Bernstein sums."""
        rows, *present = moments
        top = prod(max(code.size, 1) for code in self.factors)
        return [(rows - present[0]) * top, *self._bernstein(tuple(present))]

    def value(self, drawn: tuple[int, ...]) -> Any:
        """Return the number: a count or sum as it comes, another inside its bounds."""
        if self.linear is not None:
            return in_type(self._total(drawn), self.type)
        damping = self.mechanism.scale_shown / len(drawn)
        sums = [max(Fraction(part), Fraction(0)) + damping for part in drawn[1:]]
        return self.shape.value(self._lowered(sums), self._basis)

    def interval(self, drawn: tuple[int, ...], confidence: Fraction) -> tuple[Any, Any]:
        """Return a range, as far below the number as above, but cut where bounds cut it."""
        if self.linear is None:
            return BernsteinRelease.interval(self, drawn, confidence)
        if not 0 < confidence < 1:
            raise ValueError("a confidence lies between 0 and 1")
        noisy, margin = self._total(drawn), self.reach(confidence)
        shown = Fraction(self.value(drawn))
        margin = in_steps(margin + abs(shown - noisy), self.type)
        return in_type(shown - margin, self.type), in_type(shown + margin, self.type)

    @property
    def floor(self) -> Floor | None:
        """Say nothing: what is drawn for several numbers is compared with no bound of one."""
        return None

    @property
    def possible(self) -> tuple[float, float] | None:
        """The ends of means and spreads."""
        return (
            None if self.linear is not None or self.found else self.shape.possible(self._basis)
        )

    def _total(self, drawn: Sequence[int]) -> Fraction:
        assert self.linear is not None  # noqa: S101 - the callers looked
        weights = self.linear.weights(self.degree)
        total = sum((w * part for w, part in zip(weights, drawn, strict=True)), Fraction(0))
        return total / self._basis.row

    def reach(self, confidence: Fraction) -> Fraction:
        """Return how far the noise takes a count or a sum, so often."""
        assert self.linear is not None  # noqa: S101 - the callers looked
        weights = self.linear.weights(self.degree)
        spread, missed = float(self.mechanism.scale_shown), float(1 - confidence)
        largest = max(map(abs, weights)) or Fraction(1)
        shares = [float(weight / largest) for weight in weights]
        far = combined_reach(self.mechanism, spread, missed)(shares)
        return Fraction(far) * largest / self._basis.row

    def _lowered(self, sums: Sequence[Any]) -> Sequence[Any]:
        """Return the sums of the degree that the shape is of."""
        if self.shape.degrees == self.degrees:
            return sums
        first, middle, last = sums
        return first + middle / 2, middle / 2 + last

    def _noisy_sums(self, drawn: tuple[int, ...]) -> Sequence[float]:
        return self._lowered([float(part) for part in drawn[1:]])

    def _reaching(self, reach: Reach) -> Reach:
        """Return how far the noises of the lowered sums go together."""
        if self.shape.degrees == self.degrees:
            return reach

        def lowered(coefficients: Sequence[float]) -> float:
            below, above = coefficients
            return reach((below, (below + above) / 2, above))

        return lowered

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts in rows."""
        if self.linear is None:
            return BernsteinRelease.describe(self, waiting=waiting)
        row, scale = self._basis.row, self.mechanism.scale_shown
        margin = in_steps(self.reach(LEVEL), self.type)
        return Words(
            f"{counted(self.distance / row, 'row')}, in each sum",
            f"{counted(scale / row, 'row')}, in each sum",
            f"± {decimal_text(margin, 4)}",
        )

    def step(self, *, waiting: bool = False) -> Step:
        """Describe it for EXPLAIN, at the price of its own call."""
        return replace(Release.step(self, waiting=waiting), epsilon=self.part)


# Which calls are drawn together.


def together(
    calls: Sequence[Call], apart: Sequence[Release], facts: Facts
) -> dict[int, tuple[int, JointRelease]]:
    """Return which of some calls are drawn together.

    Args:
        calls: those of one SELECT.
        apart: how each would be released by itself.
        facts: what is known where they stand.

    Returns:
        By their places, the first call of each draw, and what they are released by.
    """
    found: dict[int, tuple[int, JointRelease]] = {}
    for places in _families(calls, facts):
        members = [(calls[at], apart[at]) for at in places]
        for at, release in zip(places, _joint(members, facts), strict=False):
            found[at] = places[0], release
    return found


def _families(calls: Sequence[Call], facts: Facts) -> Iterator[list[int]]:
    """Return the places of calls about one column; counts of all rows go with the first."""
    columns: dict[tuple[Hashable, ...], list[int]] = {}
    rows: dict[Hashable, list[int]] = {}
    for at, call in enumerate(calls):
        alike = _alike(call, facts)
        if alike is not None and call.argument is None:
            rows.setdefault(alike, []).append(at)
        elif alike is not None:
            of = alike, call.argument, call.options.bounds, call.inputs[0].implied
            columns.setdefault(of, []).append(at)
    for (alike, *_), places in columns.items():
        if any(_reads(calls[at]) is not Reads.ROWS for at in places):
            members = sorted((*places, *rows.pop(alike, ())))
            if len(members) > 1:
                yield members


def _reads(call: Call) -> Reads | None:
    return functions.registered(call.function).reads


def _alike(call: Call, facts: Facts) -> Hashable | None:
    """Return what is equal for calls that are drawn together, but for the column.

    None for one that is drawn by itself: its price is its own, or it asks for other noise.
    """
    options, reads = call.options, _reads(call)
    asked = (
        options.mechanism,
        options.rho,
        options.delta,
        options.group_bounds,
        options.clipping,
    )
    waits = (options.max_groups_contributed, options.search, options.rows_search)
    if reads is None or not call.shares or call.distinct:
        return None
    if any(one is not None for one in (*asked, *waits)):
        return None
    if reads is not Reads.SHAPE and facts.neighbours is Neighbours.SUBSTITUTE:
        return None
    limit = options.max_rows_contributed, options.auto_rows, options.of_table
    return options.epsilon, call.condition, limit


def _joint(members: Sequence[tuple[Call, Release]], facts: Facts) -> list[JointRelease]:
    """Return what releases some calls together; nothing where a sum would be less exact."""
    shapes = [one.shape for _, one in members if isinstance(one, BernsteinRelease)]
    shape = max(shapes, key=lambda one: one.degrees, default=Mean())
    call = next(call for call, _ in members if _reads(call) is not Reads.ROWS)
    epsilon = sum((call.options.epsilon for call, _ in members), Fraction(0))
    try:
        paid = replace(call, options=replace(call.options, epsilon=epsilon))
        drawn = bernstein(paid, facts, shape)
    except PlanRefused:  # of degree 2 there can be too many steps
        return []
    codes = (code for _, one in members for measure in one.measures for code in measure.codes)
    if {code.grid for code in codes} != {code.grid for code in drawn.factors}:
        return []
    rows = CountRows(drawn.measure.weight, call.condition)
    # By name and in order: what they are called in the text is no part of what is drawn.
    why = f"one draw for {', '.join(sorted(call.function for call, _ in members))}"
    return [
        JointRelease(
            call.function,
            (rows, *drawn.measures),
            drawn.distance,
            drawn.mechanism,
            alone.type,
            alone.shape if isinstance(alone, BernsteinRelease) else Mean(),
            drawn.low,
            drawn.width,
            drawn.shape.degrees[0],
            _linear(call, drawn),
            call.options.epsilon,
            why=why,
            found=drawn.found,
        )
        for call, alone in members
    ]


def _linear(call: Call, drawn: BernsteinRelease) -> Linear | None:
    """Return what a row adds to a count or a sum."""
    none, one = Fraction(0), Fraction(1)
    match _reads(call):
        case Reads.ROWS:
            return Linear(one if call.argument is None else none, one, one)
        case Reads.TOTAL:
            return Linear(none, drawn.low, drawn.low + drawn.width)
    return None
