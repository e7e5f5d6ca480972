"""report_clipping=: how much bounds and a limit of rows cut, counted for a share of epsilon.

Beside the value of a call, and for all of its groups together, it counts the weight of rows
whose value is at the lower bound or below it, and that of rows at the upper bound or above it;
where units have several rows, also how much weight more there would be if twice as many rows
of a unit counted.

Sensitivity: a row is at one end at most, or at both where these are one value, and is in one
group. So one unit moves the first two counts together by its weight, limit * scale, in L1 norm,
or by twice that. A unit's weight under the limit is no more than its weight under twice the
limit, which is 2 * limit * scale at most: so it moves the difference by that at most. All of
that is twice as much where a unit is replaced. The counts are one vector with discrete Laplace
noise, released beside the value: what both lose adds up to the epsilon of the call, whatever it
is drawn by.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

from dpquery.core.privacy_events import Composed, Event
from dpquery.core.privacy_loss import Neighbours, decimal_text
from dpquery.core.types import Kind
from dpquery.errors import QueryRefused, refusal
from dpquery.functions.additive_releases import LEVEL
from dpquery.functions.base import Facts, Measured, Parameter, Release, Words, without_option
from dpquery.functions.quantize import written_end
from dpquery.ir.expr import Code, Compare, Comparison, Expr, Literal, Logic
from dpquery.ir.measures import CountRows, Measure, SumCodes, Weight
from dpquery.ir.query import Call
from dpquery.mechanisms import DiscreteLaplace
from dpquery.mechanisms.randomness import Randomness

CLIPPING = Parameter(
    "report_clipping",
    "which share of eps buys a note of how much bounds and the limit of rows cut, as in "
    "report_clipping=0.1",
)


@dataclass(frozen=True, slots=True)
class ClippingRelease(Release):
    """A value per group, and counts of what was cut in all groups together."""

    value_of: Release
    """What gives the values."""
    noise: DiscreteLaplace
    moved: int
    """How far one unit moves the counts."""
    counts: tuple[Measure, ...]
    ends: tuple[str, str]
    """Both bounds, as values."""

    has_interval: ClassVar[bool] = True

    @property
    def decisive(self) -> tuple[Measure, ...]:
        """The measures that decide the value."""
        return self.value_of.decisive

    @property
    def epsilon(self) -> Fraction:
        """The loss of the value, and of the counts."""
        return self.value_of.epsilon + self.noise.loss(self.moved).epsilon

    def event(self) -> Event:
        """State both losses."""
        return Composed((self.value_of.event(), self.noise.event(self.moved)))

    def draw(self, exact: Measured, randomness: Randomness) -> Iterator[object]:
        """Draw the values, and beside the first of them the counts."""
        noisy = tuple(self.noise.release(self.cut(exact), randomness))
        for drawn in self.value_of.draw(exact, randomness):
            yield drawn, noisy
            noisy = ()

    def cut(self, exact: Measured) -> list[int]:
        """Return the exact counts."""
        totals = [sum(exact.values(one)) for one in self.counts]
        if len(totals) == len(self.ends):
            return totals
        *at_ends, whole, twice = totals
        return [*at_ends, twice - whole]

    def value(self, drawn: Any) -> Any:
        """Return the value."""
        return self.value_of.value(drawn[0])

    def drawn_by(self, drawn: Any = None) -> str:
        """Name what drew the value."""
        return self.value_of.drawn_by(None if drawn is None else drawn[0])

    @property
    def possible(self) -> tuple[Any, Any] | None:
        """The ends of the values."""
        return self.value_of.possible

    def interval(self, drawn: Any, confidence: Fraction) -> tuple[Any, Any] | None:
        """Return the range of the value."""
        return self.value_of.interval(drawn[0], confidence)

    @property
    def note(self) -> str:
        """What the analyst should know of the value."""
        return self.value_of.note

    def notes(self, drawn: Any) -> tuple[str, ...]:
        """Say how much was cut, with the error of each count."""
        if not drawn[1]:
            return ()
        weight = self.measures[0].weight
        margin = _margin(self.noise, weight)
        low, high, *more = (
            f"{max(0, round(Fraction(one, weight.scale))):,}" for one in drawn[1]
        )
        below, above = self.ends
        said = (
            f"{self.function}: about {low} rows (± {margin:,}) are at {below} or below, and "
            f"about {high} (± {margin:,}) at {above} or above: the bounds"
        )
        twice = 2 * weight.limit
        return (said, *(
            f"{self.function}: with max_rows_contributed={twice}, about {one} rows "
            f"(± {margin:,}) more would count" for one in more
        ))  # fmt: skip

    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts of the value."""
        return self.value_of.describe(waiting=waiting)


def reporting(call: Call, facts: Facts, planned: Release) -> Release:
    """Return a release that also counts what is cut.

    Args:
        call: what is asked, at the epsilon of both.
        facts: what is public where it stands.
        planned: the release of its value, at what is left of the epsilon.

    Raises:
        NameRefused: DPQ206 it is not rows that are cut, bounds are to be found, or the call
            states no epsilon.
    """
    share = call.options.clipping
    assert share is not None  # noqa: S101 - the caller looked
    if call.options.rho is not None or call.options.wanted is not None:
        raise _unpriced(call)
    if call.options.auto:
        raise _unbounded(call)
    of_rows = [one for one in planned.measures if isinstance(one, SumCodes) and one.of_rows]
    if not of_rows or call.distinct or len(call.inputs) != 1:
        raise _unfit(call)
    code, weight = of_rows[-1].code, of_rows[-1].weight
    counts = [CountRows(weight, condition) for condition in _at_ends(code, call)]
    times = 1 if code.low < code.high else 2
    if not weight.plain:
        doubled: Weight = replace(weight, limit=2 * weight.limit)
        counts += [CountRows(one, call.condition) for one in (weight, doubled)]
        times += 2
    moved = times * weight.total * (2 if facts.neighbours is Neighbours.SUBSTITUTE else 1)
    noise = DiscreteLaplace.calibrated(moved, call.options.epsilon * share)
    type_, last = code.expr.type, (code.low, code.high)
    return ClippingRelease(
        planned.function,
        (*planned.measures, *counts),
        planned.distance,
        planned.mechanism,
        planned.type,
        planned,
        noise,
        moved,
        tuple(counts),
        (written_end(last[0], code.grid, type_), written_end(last[1], code.grid, type_)),
        why=_why(planned, share, _margin(noise, weight)),
    )


def _margin(noise: DiscreteLaplace, weight: Weight) -> int:
    """Return how many rows a count is off."""
    _, far = noise.interval(0, LEVEL)
    return -(-far // weight.scale)


def _why(planned: Release, share: Fraction, margin: int) -> str:
    part = decimal_text(share)
    said = f"{part} of eps counts what bounds and limits cut, ± {margin:,} rows each"
    return f"{planned.why}; {said}" if planned.why else said


def _at_ends(code: Code, call: Call) -> Iterator[Expr]:
    """Write that a row that the call sees has the first code, or the last one.

    A double has that from half a step before it on.
    """
    half = Fraction(1, 2) if code.expr.type.kind is Kind.DOUBLE else Fraction(0)
    for operator, end in (
        (Comparison.LT if half else Comparison.LE, code.low + half),
        (Comparison.GE, code.high - half),
    ):
        number = end * code.grid
        value = int(number) if code.expr.type.kind is Kind.INTEGER else number
        literal = Literal(call.span, value, code.expr.type)
        at_end = Compare(call.span, operator, code.expr, literal)
        asked = call.condition
        yield at_end if asked is None else Logic(call.span, True, (at_end, asked))


def _unpriced(call: Call) -> QueryRefused:
    return refusal(
        "DPQ206",
        "report_clipping is a share of eps",
        call.options.clipping_span,
        "the call has no eps of its own",
        "what is asked for in rho, or by its error, has no epsilon that could be parted.",
        without_option(call, call.options.clipping_span),
    )


def _unbounded(call: Call) -> QueryRefused:
    return refusal(
        "DPQ206",
        "report_clipping counts what stated bounds cut",
        call.options.clipping_span,
        "bounds='auto' finds bounds",
        "which values are counted has to be known before the charge.",
        without_option(call, call.options.clipping_span),
    )


def _unfit(call: Call) -> QueryRefused:
    return refusal(
        "DPQ206",
        f"{call.function} cannot report here what is cut",
        call.options.clipping_span,
        "rows are counted that bounds or a limit cut",
        "of different values, or of totals in groups, it is not rows that are cut.",
        without_option(call, call.options.clipping_span),
    )
