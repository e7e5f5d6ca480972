"""What a DP aggregate function is: its signature, and how a call of it becomes a release.

A function knows why the sensitivity is what it says; the mechanism it picks knows numbers
only. Adding one is a file here and a line in `__init__`: binding, completion and documentation
read the signature and nothing else. Its release says how to draw, which value a draw stands
for, and how EXPLAIN describes it; charge, cache and notes ask the release and know no class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, Protocol

from dpquery.core.privacy_events import Event
from dpquery.core.privacy_loss import Neighbours
from dpquery.core.source_text import Span
from dpquery.core.types import WIDEST_EXACT, Kind, Type
from dpquery.errors import QueryRefused, internal, refusal, without
from dpquery.functions.distributions.points_argument import Points
from dpquery.functions.error_floors import Floor
from dpquery.functions.example_bounds import narrower
from dpquery.ir.measures import (
    Candidates,
    GroupRequest,
    Histogram,
    Measure,
    TableWeight,
    Told,
    Weight,
)
from dpquery.ir.query import Call, Contribution, Scan, Wanted
from dpquery.mechanisms.base import Distance, Mechanism
from dpquery.mechanisms.randomness import Randomness
from dpquery.mechanisms.samplers import Integers
from dpquery.policy.model import Policy

MAX_ROWS_OF_TABLE = 2**36
"""More rows than a scan gets through, copies counted; sums are shown to fit for so many."""
LEAST_SCALE = 2**16
SPARE = WIDEST_EXACT // 2**62
WEIGHT_SCALE = 2**32
"""Integer weights are multiples of 1/2^32: the rounding they cost is far below one row."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument that is given by name."""

    name: str
    summary: str
    aliases: tuple[str, ...] = ()


EPS = Parameter("eps", "how much of the budget the call may spend, as in eps=0.5", ("epsilon",))
RHO = Parameter("rho", "in place of eps: Gaussian noise of this rho (zCDP), as in rho=0.005")
DELTA = Parameter("delta", "probability kept for mechanisms that need one, as in delta=1e-7")
MAX_ROWS = Parameter(
    "max_rows_contributed",
    "how many rows of one unit count, as in max_rows_contributed=5; "
    "max_rows_contributed='auto' has that found",
)
MAX_GROUPS = Parameter(
    "max_groups_contributed",
    "groups in which one unit counts in full, as in max_groups_contributed=3",
)
GROUP_BOUNDS = Parameter(
    "contribution_bounds_per_group",
    "where a unit's total in a group is clamped, as in contribution_bounds_per_group=[0, 50]",
)
MECHANISM = Parameter("mechanism", "which mechanism adds the noise, as in mechanism='gaussian'")
BOUNDS = Parameter(
    "bounds",
    "where values are clamped, as in bounds=[0, 1000]; bounds='auto' has them found where "
    "nobody chose any",
)
SMOOTH = Parameter(
    "rho_smooth",
    "how far from a value of the right rank all are as good, as in rho_smooth=100; "
    "for mechanism='inverse_sensitivity'",
)
WEIGHTS = Parameter(
    "weights",
    "among which rows a unit shares its weight: weights='table' for all of the table's",
)
WEIGHT = Parameter(
    "weight",
    "how much of the statement's epsilon the call has, against 1 of the others, as in weight=2",
)
COMMON = (EPS, DELTA, MAX_ROWS, MECHANISM, RHO, WEIGHTS, WEIGHT)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is publicly known where a call stands."""

    contribution: Contribution
    neighbours: Neighbours
    cells: int
    """The number of groups; 1 where there are none."""
    grouped: bool

    @classmethod
    def of(cls, scan: Scan, policy: Policy) -> Facts:
        """Return what is known of a scan, under a policy."""
        cells, grouped = scan.cells, bool(scan.keys)
        return cls(scan.contribution, policy.neighbours, cells, grouped=grouped)

    @property
    def weighted(self) -> bool:
        """Whether one unit may have several rows."""
        return not self.contribution.single and self.contribution.unit is not None

    def limit(self, call: Call) -> int:
        """Return how many rows of one unit count in full.

        Raises:
            PlanRefused: DPQ407 nobody says.
        """
        asked = call.options.max_rows_contributed
        limit = self.contribution.limit if asked is None else asked
        if not isinstance(limit, int):
            raise not_stated(call, self.contribution.unit)
        return limit

    def groups(self, call: Call) -> int:
        """Return in how many groups one unit counts in full.

        By the call, or the policy; where either says nothing of groups, as many as rows: each
        of these is in one.
        """
        if not self.grouped or not self.weighted:
            return 1
        options, policy = call.options, self.contribution
        asked = options.max_groups_contributed or options.max_rows_contributed
        return min(asked or policy.groups or self.limit(call), self.cells)

    def shown(self, call: Call, size: int = 1) -> Weight:
        """Return how many different values one unit stands for, each in full.

        Raises:
            PlanRefused: DPQ404 the sums of so large values would not fit; DPQ407 nobody says.
        """
        self._scale(call, size)
        if not self.weighted:
            return Weight()
        return Weight(self.limit(call), search=call.options.rows_search)

    def spread(self, call: Call, size: int = 1) -> Weight:
        """Return the weights of units that share theirs among their groups.

        None counts less where there are no more groups than are allowed.

        Raises:
            PlanRefused: DPQ404 the sums would not fit at the smallest scale; DPQ407 nobody says
                in how many groups a unit counts.
        """
        groups, scale = self.groups(call), self._scale(call, size)
        return Weight(groups, 1 if groups == self.cells else scale, call.options.rows_search)

    def weight(self, call: Call, size: int = 1) -> Weight:
        """Return the weights for values up to a size: a function of plan and policy alone.

        Raises:
            PlanRefused: DPQ404 the sums would not fit at the smallest scale; DPQ407 nobody says
                how many rows of a unit count.
        """
        scale = self._scale(call, size)
        if not self.weighted:
            return Weight(1, scale)
        kind = TableWeight if call.options.of_table else Weight
        return kind(self.limit(call), scale, call.options.rows_search)

    def _scale(self, call: Call, size: int) -> int:
        """Return what a row weighs at most: halved until a sum over all rows of a table fits.

        Raises:
            PlanRefused: DPQ404 it does not at the smallest scale.
        """
        scale = WEIGHT_SCALE if self.weighted else 1
        while MAX_ROWS_OF_TABLE * scale * size >= WIDEST_EXACT:
            if scale <= LEAST_SCALE:
                raise refusal(
                    "DPQ404",
                    f"{call.function} cannot be summed exactly between these bounds",
                    call.span,
                    "too many steps between the bounds",
                    "sums are exact integers, and these could pass the widest there are.",
                    (narrower(call), "with fewer steps between the bounds"),
                )
            scale //= 2
        return scale

    def most_steps(self, degree: int) -> int:
        """Return how many steps values may have, whose powers are summed exactly."""
        least = LEAST_SCALE if self.weighted else 1
        room = (WIDEST_EXACT // (MAX_ROWS_OF_TABLE * least)).bit_length() - 1
        return 1 << room // degree

    def cell_weight(self, call: Call) -> Weight:
        """Return weights for a histogram, whose sums are computed in 62 bits."""
        return self.weight(call, SPARE)


def not_stated(call: Call, unit: str | None, *, findable: bool = True) -> QueryRefused:
    """Refuse a call whose result depends on how much of one unit counts, where nobody says."""
    limit = "'auto'" if findable else "5"
    what, remedy = f"how many rows of one {unit} count", f"max_rows_contributed={limit}"
    if call.options.group_bounds is not None or (call.distinct and call.argument is None):
        what, remedy = f"in how many groups one {unit} counts", "max_groups_contributed=3"
    elif call.distinct:
        what = f"how many different values of one {unit} count"
        remedy = "max_rows_contributed=3"
    span = call.options.max_rows_span
    offered = call.text if span is None else without_option(call, span)
    return refusal(
        "DPQ407",
        f"{what} is not stated",
        span or call.span,
        "is not found here" if span else f"one {unit} may have any number",
        (
            f"the noise is scaled to what one {unit} can add at most, and what it has",
            "beyond that is not counted.",
        ),
        f"{offered.removesuffix(')')}, {remedy})",
    )


def without_option(call: Call, span: Span | None) -> str:
    """Write a call without the option whose value stands there."""
    assert span is not None  # noqa: S101 - the option was given, and is refused
    return without(call.text, span.start - call.span.start, span.end - call.span.start)


@dataclass(frozen=True, slots=True)
class Step:
    """One release as EXPLAIN shows it; amounts are in the unit that their text names."""

    function: str
    mechanism: str
    epsilon: Fraction
    sensitivity: str
    noise_scale: str
    expected_error: str
    """How far noise takes the answer from the exact value, 95 times in 100."""
    weight: Weight
    why: str = ""
    """Why this mechanism, where there was a choice."""
    refines: str = ""
    """What an earlier release has lost, whose place this takes: epsilon is on top of it."""
    at_best: str = ""
    """What no mechanism undercuts where one unit is added or removed, and how far this is."""


class Measured(Protocol):
    """The exact side of a release: integers, by measure, one per group."""

    def values(self, measure: Measure) -> tuple[int, ...]:
        """Return the exact integers of one measure of the scan."""
        ...

    @property
    def groups(self) -> int:
        """The number of groups; 1 without keys."""
        ...

    def histogram(
        self, measure: Histogram, group: int, low: int, high: int, width: int
    ) -> Integers:
        """Return the weight of each range of `width` codes from low to high - 1, in order."""
        ...

    def histograms(
        self, measure: Histogram, requests: Sequence[GroupRequest]
    ) -> Sequence[Integers]:
        """Return several histograms, together where that is cheaper."""
        ...

    def counts(self, measure: Candidates) -> Integers:
        """Return how many units have each value, in an order of chance."""
        ...

    def chosen(self, measure: Candidates, places: Sequence[int]) -> list[Told]:
        """Return the values at some places of that order."""
        ...


@dataclass(frozen=True, slots=True)
class NoisyCell:
    """A released value: what chance decided of it, and the release that says what it means."""

    drawn: Any
    """Numbers, texts and tuples, as they are stored."""
    release: Release

    @property
    def value(self) -> Any:
        """The value as the analyst sees it; NULL where no bounds were found for it."""
        return None if self.release.unbounded else self.release.value(self.drawn)

    @property
    def mechanism(self) -> str:
        """The name of the mechanism that drew it."""
        return self.release.drawn_by(self.drawn)

    @property
    def possible(self) -> tuple[Any, Any] | None:
        """The least and the largest value there can be, where an interval is cut to them."""
        return self.release.possible

    def interval(self, confidence: Fraction) -> tuple[Any, Any] | None:
        """Return a range that holds the exact value so often; None where noise cannot tell."""
        hidden = self.release.unbounded
        return None if hidden else self.release.interval(self.drawn, confidence)

    def rank_interval(self, confidence: Fraction, *, any_data: bool = False) -> Fraction | None:
        """Return how many rows the rank of the value is off, so often; None if unknown."""
        hidden = self.release.unbounded
        return None if hidden else self.release.ranks_off(confidence, any_data=any_data)


class Words(NamedTuple):
    """The amounts of a release in words, each in the unit that it names."""

    sensitivity: str
    noise_scale: str
    expected_error: str


@dataclass(frozen=True, slots=True)
class Release(ABC):
    """A planned release: what it measures, what it loses, how it draws."""

    function: str
    measures: tuple[Measure, ...]
    """What the scan must hold for it; the first has the weights of all."""
    distance: Distance
    """How far one unit moves what the mechanism is given, at most."""
    mechanism: Mechanism
    type: Type
    """The type of the released values."""
    why: str = field(default="", kw_only=True)
    """Why this mechanism, where there was a choice."""
    unbounded: bool = field(default=False, kw_only=True, compare=False)
    """Whether a search found no bounds: it is drawn between others, and says nothing."""

    has_interval: ClassVar[bool] = False
    """Whether values are shown with a range that holds the exact one."""

    @property
    def measure(self) -> Measure:
        """The only measure, or the first."""
        return self.measures[0]

    @property
    def decisive(self) -> tuple[Measure, ...]:
        """The measures that decide the value."""
        return self.measures

    @property
    def moves(self) -> tuple[Distance, ...]:
        """The distances at which the mechanism states its loss."""
        return (self.distance,)

    @property
    def epsilon(self) -> Fraction:
        """The loss at the proven distance."""
        return self.mechanism.loss(*self.moves).epsilon

    @property
    def note(self) -> str:
        """What the analyst should know, in a line."""
        return ""

    @property
    def wanted(self) -> Release:
        """What it stands for: what was asked, where it refines an earlier release."""
        return self

    @property
    def paid(self) -> Fraction:
        """What was paid for earlier of what it tells."""
        return Fraction(0)

    def event(self) -> Event:
        """State the loss, recomputed from sensitivity and mechanism (I7)."""
        return self.mechanism.event(*self.moves)

    @property
    def rate(self) -> Fraction | None:
        """What a later release pays less, if it can refine this one."""
        return None

    def question(self) -> tuple[object, ...]:
        """Say what it is of, whatever its noise: what can be refined by it."""
        raise internal("only additive noise can be refined")

    @abstractmethod
    def draw(self, exact: Measured, randomness: Randomness) -> Iterable[object]:
        """Draw for each group what decides its value."""

    def run(self, exact: Measured, randomness: Randomness) -> list[NoisyCell]:
        """Draw the noisy values, one per group."""
        return [self.cell(drawn) for drawn in self.draw(exact, randomness)]

    def cell(self, drawn: Any) -> NoisyCell:
        """Return the cell of what chance decided."""
        return NoisyCell(drawn, self)

    @abstractmethod
    def value(self, drawn: Any) -> Any:
        """Return the value that was drawn, as the analyst sees it."""

    def drawn_by(self, drawn: Any = None) -> str:
        """Name what drew a value, or will draw it."""
        return self.mechanism.name

    @property
    def possible(self) -> tuple[Any, Any] | None:
        """The least and the largest value there can be, where intervals are cut to them."""
        return None

    def interval(self, drawn: Any, confidence: Fraction) -> tuple[Any, Any] | None:
        """Return a range that holds the exact value so often; None where the data decide."""
        return None

    def ranks_off(self, confidence: Fraction, *, any_data: bool = False) -> Fraction | None:
        """Return how many rows the rank of a value is off, so often; None if unknown."""
        return None

    def meets(self, wanted: Wanted) -> bool | None:
        """Say whether noise keeps to an error as often as wanted; None where no law says."""
        return None

    def groups(self, drawn: Any) -> tuple[Told, ...]:
        """Return the groups that it found."""
        raise internal("groups are found by a release of groups")

    def notes(self, drawn: Any) -> tuple[str, ...]:
        """Return what was released beside the value, in words."""
        return ()

    @property
    def floor(self) -> Floor | None:
        """What no mechanism undercuts where a unit is added or removed; None if unknown."""
        return None

    @abstractmethod
    def describe(self, *, waiting: bool) -> Words:
        """Return the amounts for EXPLAIN; `waiting` says that bounds are to be found first.

        It is planned for the widest bounds there could be then, and amounts in values would be
        of these. So they are given as shares of what is found; those in rows and ranks hold for
        any bounds, or are the most that they can be.
        """

    def step(self, *, waiting: bool = False) -> Step:
        """Describe it for EXPLAIN."""
        words = self.describe(waiting=waiting)
        weight, name = self.measures[0].weight, self.drawn_by()
        floor = None if waiting else self.floor
        best = "" if floor is None else str(floor)
        return Step(self.function, name, self.epsilon, *words, weight, self.why, "", best)


class Takes(StrEnum):
    """What kind of expression a function is asked about."""

    VALUE = "value"
    NUMBER = "number"
    ORDERED = "number, date or timestamp"
    CONDITION = "condition"
    LISTED = "column with public values"
    DISCRETE = "text, whole number, decimal, date, timestamp or boolean"


class Gives(StrEnum):
    """What a function releases, by which binding knows the type before there is a plan."""

    COUNT = "a whole number"
    NUMBER = "a double"
    SUM = "a number of the argument's type"
    VALUE = "a value of the argument"
    VALUES = "a list of values of the argument"
    NUMBERS = "a list of doubles"
    COUNTS = "a list of whole numbers"
    TRUTH = "true or false"


class Reads(StrEnum):
    """What a function reads from the Bernstein sums of a column, where they are drawn once."""

    ROWS = "how many rows there are, or values"
    TOTAL = "what the values add up to"
    SHAPE = "what its own release computes from the sums"


_KINDS = {Gives.COUNT: Kind.INTEGER, Gives.NUMBER: Kind.DOUBLE, Gives.TRUTH: Kind.BOOLEAN}


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression over rows, by position."""

    takes: Takes = Takes.VALUE
    label: str = "x"
    """How signatures call it."""
    star: bool = False
    """Whether * may stand for it: all rows, as in DP_COUNT(*)."""
    distinct: bool = False
    """Whether DISTINCT may stand before it."""
    listed: int = 0
    """Up to how many stand for it, as a list in brackets; 0 if there is one alone."""
    noun: ClassVar[str] = "an argument"
    """How refusals call it."""


@dataclass(frozen=True, slots=True)
class Share:
    """Which quantile, by position: a share of the rows, or a list of shares."""

    label: str = "q"
    example: str = "0.5"

    noun: ClassVar[str] = "a quantile"
    """How refusals call it."""


@dataclass(frozen=True, slots=True)
class Number:
    """A whole number, by position: 3 in DP_FIRST_ABOVE(age, 3, eps=1)."""

    name: str
    label: str
    most: int
    example: str
    least: int = 1

    @property
    def noun(self) -> str:
        """How refusals call it."""
        return f"a {self.name}"


Positional = Expression | Share | Number | Points


@dataclass(frozen=True, slots=True)
class DPFunction:
    """An aggregate function of the language."""

    name: str
    summary: str
    positional: tuple[Positional, ...]
    """What stands first in a call, in this order; the first is an expression."""
    parameters: tuple[Parameter, ...]
    """What is given by name, in any order."""
    mechanisms: tuple[str, ...]
    """The names it takes for mechanism=; the first is the default."""
    plan: Callable[[Call, Facts], Release]
    example: str
    aliases: tuple[str, ...] = ()
    gives: Gives = Gives.NUMBER
    price: str = "eps=0.5"
    """The options that a call cannot do without, as a refusal writes them."""
    reads: Reads | None = None
    """How its calls can share a draw with others about the same column."""
    several: bool = False
    """Whether its expression may stand several times, of values that go together."""

    @property
    def first(self) -> Expression:
        """What it is asked about."""
        return self.expressions[0]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The expressions over rows that it takes."""
        return tuple(one for one in self.positional if isinstance(one, Expression))

    @property
    def chooses(self) -> bool:
        """Whether it releases one of the values of its argument, or several."""
        return self.gives in {Gives.VALUE, Gives.VALUES}

    def lists(self, call: Call) -> bool:
        """Return whether a call of it releases a list."""
        lists = {Gives.VALUES, Gives.NUMBERS, Gives.COUNTS}
        return self.gives in lists or isinstance(call.order, tuple)

    def kind(self, call: Call) -> Kind | None:
        """Return the kind of what a call of it releases; None of a list."""
        if self.lists(call):
            return None
        return _KINDS.get(self.gives, call.argument.type.kind if call.argument else Kind.DOUBLE)
