"""The query tree: our own, small and typed, every node with its span.

sqlglot's tree ends at binding. What this tree cannot say cannot reach the engine, so adding a
node here or in `ir/expr.py` is a decision about the promise, and each backend has to render it
(I9).

A relation below the frontier is private: its rows each belong to one privacy unit. A
`Frontier` is where bounded integers are taken from it, and `Above` is what happens to the
released tables then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product, repeat
from math import prod

from dpquery.core.source import Source, Span
from dpquery.core.types import UNKNOWN, Interval, RowLimit
from dpquery.ir.expr import ColumnRef, Expr, Scalar, Widen
from dpquery.ir.measures import Histogram, Measure, SumCodes
from dpquery.ir.relations import Relation, columns_in


@dataclass(frozen=True, slots=True)
class Wanted:
    """The error that a call asks for in place of an epsilon, which the plan then finds."""

    error: Fraction
    """In units of the answer; of quantiles in rows."""
    confidence: Fraction
    """How often noise takes the answer no farther."""
    over: int | None = None
    """Over how many rows, where the error depends on their number."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a DP_ call states by name; clipping parameters may take any value."""

    epsilon: Fraction
    epsilon_span: Span
    delta: Fraction | None = None
    mechanism: str | None = None
    mechanism_span: Span | None = None
    max_rows_contributed: int | None = None
    max_groups_contributed: int | None = None
    max_rows_span: Span | None = None
    max_groups_span: Span | None = None
    group_bounds: Interval | None = None
    """Where what a unit has in a group is clamped."""
    group_bounds_span: Span | None = None
    bounds: Interval | None = None
    """Where the argument is clamped: numbers, or days and microseconds since 1970."""
    bounds_span: Span | None = None
    auto: bool = False
    """Whether bounds are to be found by a release, where nobody chose any."""
    search: int | None = None
    """Which search of the statement finds them; they are the widest until then."""
    auto_rows: bool = False
    """Whether a release finds how many rows of a unit count."""
    rows_search: int | None = None
    """Which search of the statement finds that; it is the most there can be until then."""
    delta_span: Span | None = None
    smooth: Fraction | None = None
    """In units of the argument; of moments, in days or microseconds."""
    smooth_span: Span | None = None
    other: Scalar | None = None
    """What stands for all values that are not shown."""
    most: int | None = None
    """How many values are shown at most."""
    min_units: int | None = None
    """How many units a value has at least that is shown."""
    left_out: Fraction | None = None
    """What more is spent to say how much is left out."""
    clipping: Fraction | None = None
    """Which share of epsilon buys a note of how much is cut."""
    clipping_span: Span | None = None
    of_table: bool = False
    """Whether a unit's weight is shared among all its rows in the table, before WHERE."""
    weights_span: Span | None = None
    rho: Fraction | None = None
    """Asked for in place of epsilon, which is what it comes to once the plan converts it."""
    wanted: Wanted | None = None
    """As rho, in place of epsilon."""
    spare: Fraction = Fraction(0)
    """What it has of the statement's delta, for a draw that it shares with other calls."""


@dataclass(frozen=True, slots=True)
class Input:
    """An expression over rows that a call is asked about."""

    expr: Expr
    asked: Span = field(compare=False, repr=False)
    """Where it stands in the call; what a name stands for can be written elsewhere."""
    implied: Interval = UNKNOWN
    """Its range by policy, WHERE, FILTER and the expression itself."""
    listed: tuple[Scalar, ...] = ()
    """Its values, where they are public as those of a group would be."""


@dataclass(frozen=True, slots=True)
class Call:
    """One DP_ call as written: its own release, its own draw, its own charge."""

    span: Span
    column: str
    """The engine-made name under which the query above refers to what is released."""
    function: str
    inputs: tuple[Input, ...]
    """None for a star, and where units are counted."""
    condition: Expr | None
    """FILTER (WHERE ...)."""
    options: Options
    distinct: bool = False
    order: Fraction | tuple[Fraction, ...] | None = None
    """Which quantile, between 0 and 1; or which ones, where a list is asked for."""
    number: int | None = None
    """The whole number that stands second in calls of some functions."""
    points: tuple[Expr, ...] = ()
    """Whether a row is at or below each of the values that are listed for it, rising."""
    text: str = ""
    """How it is written, without its FILTER: refusals offer it again, mended."""

    @property
    def shares(self) -> bool:
        """Whether its price is a share of the statement's: it states none."""
        return self.options.epsilon_span.start == self.span.start

    @property
    def argument(self) -> Expr | None:
        """The first expression over rows."""
        return self.inputs[0].expr if self.inputs else None

    @property
    def written(self) -> str:
        """Return the first expression as it is written."""
        return self.snippet(self.inputs[0].asked) if self.inputs else "*"

    def about(self, expr: Expr) -> Input:
        """Return the input that an expression is, or that it widens."""
        return next(
            one for one in self.inputs if expr in (one.expr, Widen(one.expr, expr.type))
        )

    def snippet(self, span: Span) -> str:
        """Return a stretch of the call as it is written."""
        return self.text[span.start - self.span.start : span.end - self.span.start]

    def changed(self, span: Span, text: str) -> str:
        """Return how the call is written with another text in place of a stretch."""
        start, end = span.start - self.span.start, span.end - self.span.start
        return self.text[:start] + text + self.text[end:]


@dataclass(frozen=True, slots=True)
class Finding:
    """Where the values of a key come from, if they are not public: an earlier release.

    Two that differ in their values alone are equal: a charge is made before they are known.
    """

    frontier: int
    """Which frontier of the statement finds them."""
    most: int
    """The largest number of values."""
    place: int = 0
    """Which of the expressions that are found together it is."""
    values: tuple[Scalar | None, ...] = field(default=(), compare=False)
    known: bool = field(default=False, compare=False)
    """Whether the values are there; there may be none."""


@dataclass(frozen=True, slots=True)
class Key:
    """A grouping expression with its finite public domain, in the order of the answer.

    Rows whose value is not among them belong to no group. None stands for NULL, and comes last.
    """

    span: Span
    column: str
    """The engine-made name under which the query above refers to it."""
    expr: Expr
    listed: tuple[Scalar | None, ...]
    """The values that are public; there are none where they have to be found."""
    finding: Finding | None = None
    rest: bool = False
    """Whether the last value stands for all that are not among the others."""
    left_out: str = field(default="", compare=False, repr=False)
    """Which rows are in none of its groups, in words; empty where each is in one."""
    beside: str = ""
    """The column of an earlier key that its values stand beside, one for one.

    Such keys are columns of one public table, and have the combinations that it has; or they
    are found together.
    """

    @property
    def values(self) -> tuple[Scalar | None, ...]:
        """The values, as far as they are known."""
        return self.listed if self.finding is None else self.finding.values

    @property
    def size(self) -> int:
        """How often it multiplies the groups: by its values, or the most there can be."""
        if self.beside:
            return 1
        if self.finding is None or self.finding.known:
            return len(self.values)
        return self.finding.most


def leading(keys: Sequence[Key]) -> list[list[int]]:
    """Return the places of keys that multiply the groups, each with those beside it."""
    return [
        [i, *(j for j, other in enumerate(keys) if other.beside == key.column)]
        for i, key in enumerate(keys)
        if not key.beside
    ]


def led(own: Sequence[Key]) -> Iterator[Key]:
    """Return the keys of a grouping: of those found together, the first of them leads."""
    leads = dict[int, str]()
    for key in own:
        if key.finding is None:
            yield key
        else:
            lead = leads.setdefault(key.finding.frontier, key.column)
            yield replace(key, beside="" if lead == key.column else lead)


def side_by_side(
    own: Sequence[Key], mine: Sequence[Key], rows: Iterable[tuple[Scalar | None, ...]]
) -> tuple[Key, ...]:
    """Return keys of which some have these combinations, as far as they have the values.

    There is none of them left where no combination is.
    """
    known = [(at, {*key.listed}) for at, key in enumerate(mine) if key.listed]
    kept = [row for row in rows if all(row[at] in values for at, values in known)]
    lead, *_ = names = [key.column for key in mine]
    columns = zip(*kept, strict=True) if kept else repeat((), len(names))
    listed = dict(zip(names, columns, strict=True))
    return tuple(
        replace(key, listed=listed[key.column], beside="" if key.column == lead else lead)
        if key.column in listed
        else key
        for key in own
    )


def taken(keys: Sequence[Key]) -> set[str]:
    """Return the columns of keys that stand beside others, or have others beside them."""
    return {column for key in keys if key.beside for column in (key.beside, key.column)}


def combinations(keys: Sequence[Key]) -> Iterator[tuple[Scalar | None, ...]]:
    """Return the values of each group, in order: of keys that multiply, the last is fastest."""
    together = leading(keys)
    lead = {i: at for at, places in enumerate(together) for i in places}
    for places in product(*(range(len(keys[first].values)) for first, *_ in together)):
        yield tuple(key.values[places[lead[i]]] for i, key in enumerate(keys))


@dataclass(frozen=True, slots=True)
class Frontier:
    """Where exact integers are taken from one private relation and released with noise."""

    span: Span
    relation: Relation
    calls: tuple[Call, ...]
    keys: tuple[Key, ...] = ()
    sets: int = 1
    """How many groupings of one GROUP BY share the eps of its calls; this is one of them."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A release that a column shows unchanged, in the rows that have its row number."""

    row: int
    """Which of the hidden row numbers says so."""
    frontier: int
    column: str


@dataclass(frozen=True, slots=True)
class IntervalEnd:
    """What a hidden column of a released table holds: an end of each value's interval."""

    frontier: int
    column: str
    high: bool
    confidence: Fraction


@dataclass(frozen=True, slots=True)
class AboveColumn:
    """A column of the answer, and the release it shows unchanged, if it does."""

    name: str
    origins: tuple[Origin, ...] = ()
    """None where it is computed; several where its rows come from several places."""
    noiseless: bool = False
    """Whether it shows keys, or a public table, as they are."""


@dataclass(frozen=True, slots=True)
class Above:
    """The query over released and public tables, with no word of the analyst's text in it.

    Frontier i is its table `f{i}`, with the columns of that frontier's calls. Behind the
    columns shown stand hidden ones, r0, r1 and so on: row numbers of frontiers, by which the
    noise of a value is found, and NULL in rows that are not of that frontier.
    """

    sql: str
    columns: tuple[AboveColumn, ...]
    rows: tuple[int, ...] = ()
    """The frontier of each row number."""
    ends: tuple[tuple[str, IntervalEnd], ...] = ()
    """The ends of intervals that stand in released tables, by their columns there."""
    whole: str = ""
    """The same query without what only leaves out rows of its result."""
    joined: int = 0
    """How many rows the largest join in it can have."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A statement with every name resolved."""

    source: Source
    frontiers: tuple[Frontier, ...]
    above: Above
    constants: tuple[Above, ...] = ()
    """Queries of one value each, that a scan needs before it is opened."""
    understood: str = ""
    """The statement with the calls that its plain aggregates mean; empty where it has none."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """The proven bound on what one privacy unit adds to a relation."""

    unit: str | None
    """The unit column; None where each row is its own unit."""
    single: bool
    """One row per unit by structure or declaration: no weights, and no limit but 1."""
    limit: RowLimit
    """Rows that count in full unless a call says otherwise."""
    groups: int | None = None
    """Groups that count in full unless a call says otherwise; None: as many as rows."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A bound statement that keeps every rule. Only `sql/rules.py` makes one."""

    source: Source
    frontiers: tuple[tuple[Frontier, Contribution], ...]
    above: Above
    constants: tuple[Above, ...] = ()
    understood: str = ""


@dataclass(frozen=True, slots=True)
class Scan:
    """The one private read of a frontier: a relation, its groups, and what to count in them."""

    relation: Relation
    contribution: Contribution
    measures: tuple[Measure, ...]
    keys: tuple[Key, ...] = ()

    @property
    def cells(self) -> int:
        """The number of groups, the largest until they are found; 1 without keys."""
        return prod(key.size for key in self.keys)


def outline(scan: Scan) -> Scan:
    """Return a scan without what searches put in: ends of codes, limits and scales.

    A charge covers a scan in outline, since it is made before the bounds are found. Measures
    that differ in nothing else become one.
    """
    codes = (code for measure in scan.measures for code in measure.codes)
    if all(code.search is None for code in codes) and all(
        measure.weight.search is None for measure in scan.measures
    ):
        return scan
    return replace(scan, measures=tuple(dict.fromkeys(map(_outline, scan.measures))))


def _outline(measure: Measure) -> Measure:
    weight = replace(measure.weight, scale=1)
    if weight.search is not None:
        weight = replace(weight, limit=1)
    if isinstance(measure, SumCodes | Histogram) and measure.code.search is not None:
        code = replace(measure.code, grid=Fraction(1), low=0, high=0, origin=0)
        return replace(measure, weight=weight, code=code)
    return replace(measure, weight=weight)


def columns_read(scan: Scan) -> tuple[ColumnRef, ...]:
    """Return the columns that a scan reads, each once."""
    exprs: list[Expr | None] = [key.expr for key in scan.keys]
    for measure in scan.measures:
        exprs += [measure.condition, *(code.expr for code in measure.codes), *measure.values]
    return columns_in(scan.relation, *exprs)
