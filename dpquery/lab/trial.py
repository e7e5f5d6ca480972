"""Calls of DP functions on synthetic values: planned, drawn and timed as those of a query are.

A call is made here in place of being parsed, its release is that of the function's own `plan`,
and what an engine would count in a scan is counted in an array. So there is nothing of a
mechanism here, and no policy, ledger or file.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.source_text import Span
from dpquery.core.types import INTEGER, Interval
from dpquery.errors import QueryRefused, internal
from dpquery.functions.base import DPFunction, Expression, Facts, NoisyCell, Release, Takes
from dpquery.ir.expr import (
    Code,
    ColumnRef,
    Compare,
    Comparison,
    Expr,
    IsNull,
    Literal,
    Logic,
    Not,
    Nulls,
    Widen,
)
from dpquery.ir.measures import (
    Candidates,
    CountRows,
    GroupRequest,
    Histogram,
    Measure,
    SumCodes,
    Told,
)
from dpquery.ir.query import Call, Contribution, Input, Options
from dpquery.mechanisms import DiscreteGaussian
from dpquery.mechanisms.randomness import Bools, Int64s, Randomness

HERE = Span(0, 0)
ONE_ROW = Contribution("person", single=True, limit=1)
_NARROW = 1 << 62


def column(top: int) -> ColumnRef:
    """Return a column of whole numbers from 0 to a public bound."""
    bounds = Interval(Fraction(0), Fraction(top))
    return ColumnRef(HERE, "x", INTEGER, bounds, bounded=True, clamped=True, nulls=Nulls.NEVER)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call is asked, beside its epsilon."""

    function: DPFunction
    top: int
    """The upper bound of the values."""
    order: Fraction | tuple[Fraction, ...] | None = None
    number: int | None = None
    of_rows: bool = False
    """Whether it is asked about rows and not about values."""

    def call(
        self, epsilon: Fraction, mechanism: str | None = None, delta: Fraction | None = None
    ) -> Call:
        """Return the call; a delta is for the mechanism that needs one."""
        drawn_with = delta if mechanism == DiscreteGaussian.name else None
        options = Options(epsilon, Span(1, 1), delta=drawn_with, mechanism=mechanism)
        inputs = () if self.of_rows else (Input(self._about, HERE),)
        text = f"{self.function.name}(x)"
        return Call(
            HERE, "a0", self.function.name, inputs, None, options,
            order=self.order, number=self.number, text=text,
        )  # fmt: skip

    @property
    def _about(self) -> Expr:
        """The values; where a condition is asked for, whether they are in the upper half."""
        values, first = column(self.top), self.function.positional[0]
        if isinstance(first, Expression) and first.takes is Takes.CONDITION:
            half = Literal(HERE, (self.top + 1) // 2, INTEGER)
            return Compare(HERE, Comparison.GE, values, half)
        return values

    def planned(
        self,
        epsilon: Fraction,
        neighbours: Neighbours,
        mechanism: str | None = None,
        delta: Fraction | None = None,
    ) -> Release | None:
        """Return the release that a query would have; None where the function refuses it."""
        facts = Facts(ONE_ROW, neighbours, 1, grouped=False)
        try:
            return self.function.plan(self.call(epsilon, mechanism, delta), facts)
        except QueryRefused:
            return None


@dataclass(frozen=True, slots=True)
class Rows:
    """Sorted values, one of each person, counted as an engine counts those of a file."""

    sorted: Int64s

    def __len__(self) -> int:
        return len(self.sorted)

    @property
    def groups(self) -> int:
        """There are no groups but one."""
        return 1

    def values(self, measure: Measure) -> tuple[int, ...]:
        """Return the one integer of a measure."""
        match measure:
            case CountRows(condition=condition):
                return (int(np.count_nonzero(self._holds(condition))),)
            case SumCodes(code=code, degree=degree, condition=condition):
                codes = self._codes(code)[self._holds(condition)]
                if len(codes) * max(code.size, 1) ** degree >= _NARROW:
                    return (sum(int(one) ** degree for one in codes.tolist()),)
                return (int((codes**degree).sum()),)
        raise internal("synthetic values are counted and added up")

    def histogram(
        self, measure: Histogram, group: int, low: int, high: int, width: int
    ) -> Int64s:
        """Return how many codes are in each range."""
        codes = self._codes(measure.code)
        edges = np.minimum(np.arange(low, high + width, width), high)
        return np.diff(np.searchsorted(codes, edges))

    def histograms(
        self, measure: Histogram, requests: Sequence[GroupRequest]
    ) -> Sequence[Int64s]:
        """Return several histograms."""
        return [self.histogram(measure, *request) for request in requests]

    def counts(self, measure: Candidates) -> Int64s:
        """There are no groups to be found."""
        raise internal("groups of synthetic values are not asked for")

    def chosen(self, measure: Candidates, places: Sequence[int]) -> list[Told]:
        """There are no groups to be found."""
        raise internal("groups of synthetic values are not asked for")

    def _codes(self, code: Code) -> Int64s:
        if not isinstance(code.expr, ColumnRef):
            return self._holds(code.expr).astype(np.int64)
        return np.clip(self.sorted, code.low, code.high) - code.origin

    def _holds(self, condition: Expr | None) -> Bools:
        """Return for each row whether a condition of the kinds that functions make holds."""
        match condition:
            case None:
                return np.ones(len(self), bool)
            case IsNull():
                return np.zeros(len(self), bool)
            case Not(operand=operand):
                return ~self._holds(operand)
            case Logic(conjunction=True, parts=parts):
                return np.asarray(np.logical_and.reduce([self._holds(one) for one in parts]))
            case Compare(operator=compared, right=right):
                return np.asarray(_COMPARED[compared](self.sorted, _number(right)))
        raise internal("functions make conditions of comparisons")


_COMPARED: dict[Comparison, Callable[[Any, Any], Any]] = {
    Comparison.LE: operator.le,
    Comparison.GE: operator.ge,
}


def _number(literal: Expr) -> float:
    literal = literal.operand if isinstance(literal, Widen) else literal
    if not isinstance(literal, Literal) or not isinstance(literal.value, int | Fraction):
        raise internal("functions compare with numbers")
    return float(literal.value)


@dataclass(frozen=True, slots=True)
class Drawn:
    """What was drawn, and how long each draw took."""

    cells: list[NoisyCell]
    seconds: float


def draw(release: Release, rows: Sequence[Rows], most: int, seconds: float) -> Drawn:
    """Draw so many times, or as often as there is time for: at least once.

    Args:
        release: what is drawn.
        rows: from these, in turn.
        most: how often.
        seconds: what all draws may take together.
    """
    randomness, cells, start = Randomness(), list[NoisyCell](), time.perf_counter()
    for number in range(most):
        cells += release.run(rows[number % len(rows)], randomness)
        if time.perf_counter() - start > seconds:
            break
    return Drawn(cells, (time.perf_counter() - start) / len(cells))
