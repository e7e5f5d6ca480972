"""What a policy comes to over its data: for the data owner's eyes, never an analyst's.

`data_validation.py` says where data and policy disagree; this says what the policy's numbers
mean: how many rows units have, what limits cut, how exact the plainest answers are, and
which numbers look like a mistake. All of it depends on the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpquery.core.arrow_columns import arrow_type
from dpquery.core.privacy_loss import EPSILON_MIN, decimal_text
from dpquery.core.types import NUMERIC, Kind
from dpquery.mechanisms import DiscreteLaplace
from dpquery.policy.model import Column, Policy, Table
from dpquery.policy.owner.cross_table_checks import owners
from dpquery.policy.owner.data_validation import Finding, Misfits, Rows, Severity, check

LEVEL = Fraction(95, 100)
PARTS = 10
"""Of the budget, one answer has such a part here."""
FEW_UNITS = 20
"""A column with fewer values names groups, and hardly persons."""
MANY_TIMES = 10
"""Above so many times the rows of nearly all units, a limit costs noise and saves nothing."""
NEARLY_ALL, ENOUGH = 0.95, 50
"""From which share of values, of so many or more, a column tells each row apart."""
_ODDS = ((1, "strong"), (3, "good"), (10, "weak"), (20, "hardly any"))
"""How a promise is called up to an epsilon."""
OWNERS = "for the data owner alone: all of this depends on the rows, and none of it is released"


@dataclass(frozen=True, slots=True)
class Cost:
    """How far noise takes the sum and the mean of a column, in shares of the exact ones."""

    column: str
    sum_error: float | None
    """None where the sum is zero."""
    mean_error: float | None


@dataclass(frozen=True, slots=True)
class TableReview:
    """What a policy comes to for one private table."""

    name: str
    unit: str
    units: int
    rows: int
    rows_per_unit: dict[str, int]
    """By the share of units that have no more."""
    max_rows_contributed: int | str | None
    cut: float | None
    """The share of the rows' weight that the limit cuts; None where no number is stated."""
    count_error: float | None
    """How far noise takes a count of all rows, as a share of it."""
    costs: tuple[Cost, ...]


@dataclass(frozen=True, slots=True)
class Review:
    """What a policy comes to: its promise, its tables, and what looks like a mistake."""

    epsilon: Fraction
    delta: Fraction
    analysts: Fraction
    """What the analysts' limits add up to."""
    tables: tuple[TableReview, ...]
    findings: tuple[Finding, ...]

    @property
    def part(self) -> Fraction:
        """The epsilon of one answer here."""
        return max(self.epsilon / PARTS, EPSILON_MIN)

    def document(self) -> dict[str, object]:
        """Return all of it as JSON has it; numbers that have to be exact are texts."""
        return {
            "for": OWNERS,
            "epsilon": decimal_text(self.epsilon),
            "delta": decimal_text(self.delta),
            "promise": promise(self.epsilon),
            "analysts_epsilon": decimal_text(self.analysts),
            "epsilon_of_an_answer": decimal_text(self.part),
            "tables": [asdict(table) for table in self.tables],
            "findings": [asdict(found) for found in self.findings],
        }

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        yield OWNERS
        yield f"epsilon {decimal_text(self.epsilon)}: {promise(self.epsilon)}"
        if self.analysts:
            both = decimal_text(self.analysts), decimal_text(self.epsilon)
            yield "analysts: their limits add up to {}, of {} in all".format(*both)
        for table in self.tables:
            yield ""
            yield from _table_lines(table, self.part)
        if self.findings:
            yield ""
        for found in self.findings:
            place = found.place if found.column is None else f"{found.place}.{found.column}"
            yield f"{found.severity}: {place}: {found.text}"


def promise(epsilon: Fraction) -> str:
    """Say what an epsilon promises.

    >>> promise(Fraction(2)).rpartition("by a factor")[2]
    ' of at most 7.4: good protection'
    """
    if epsilon > _ODDS[-1][0]:
        return "odds may change by any factor that matters: no protection to speak of"
    word = next(word for most, word in _ODDS if epsilon <= most)
    factor = f"{math.exp(epsilon):.2g}" if epsilon < 4 else f"{round(math.exp(epsilon)):,}"
    odds = "all answers together change the odds that somebody is in the data"
    return f"{odds} by a factor of at most {factor}: {word} protection"


def _table_lines(table: TableReview, part: Fraction) -> Iterator[str]:
    told = ", ".join(f"{share} {rows:,}" for share, rows in table.rows_per_unit.items())
    yield f"{table.name}: {table.units:,} units ({table.unit}) have {table.rows:,} rows"
    yield f"  rows of one unit     {told}"
    limit, cut = table.max_rows_contributed, table.cut
    stated = f"{limit:,}" if isinstance(limit, int) else limit or "not stated"
    loses = "" if cut is None else f", which cuts {_percent(cut)} of the rows' weight"
    loses = ", which cuts nothing" if cut == 0 else loses
    yield f"  max_rows_contributed {stated}{loses}"
    yield f"  at eps={decimal_text(part, 4)}, 95 times in 100 an answer is off by no more than"
    yield f"  a count of all rows  {_percent(table.count_error)} of it"
    for cost in table.costs:
        sums, means = _percent(cost.sum_error), _percent(cost.mean_error)
        yield f"  {cost.column:<20} {sums} of its sum, {means} of its mean"


def _percent(share: float | None) -> str:
    if share is None:
        return "an unknown share"
    return f"{100 * share:.2g} %" if share < 1 else f"{share:,.0f} times as much as all"


def review(policy: Policy, misfits: Misfits, rows: Rows) -> Review:
    """Read the data of a policy, and say what its numbers come to.

    Args:
        policy: what is declared.
        misfits: compares schemas.
        rows: reads private tables; both are an engine's, as those of `check`.
    """
    whole = policy.budget.ceiling.limit
    part = max(whole.epsilon / PARTS, EPSILON_MIN)
    analysts = sum((own.limit.epsilon for own in policy.analysts.values()), Fraction(0))
    tables, found = [], check(policy, misfits, rows)
    if analysts > whole.epsilon:
        text = (
            f"the analysts' limits add up to {decimal_text(analysts)}, above the "
            f"{decimal_text(whole.epsilon)} in all: who asks first has more"
        )
        found.append(Finding(Severity.WARNING, "analysts", None, text))
    for table in policy.tables.values():
        if table.public or misfits(table):
            continue  # `check` has told
        told = _reviewed(table, rows, part)
        tables.append(told)
        found += _doubts(policy, table, told, rows)
    return Review(whole.epsilon, whole.delta, analysts, tuple(tables), tuple(found))


def _reviewed(table: Table, rows: Rows, part: Fraction) -> TableReview:
    counts = _rows_of_units(table, rows)
    number = int(counts.sum())
    shares = {"50 %": 0.5, "95 %": 0.95, "99 %": 0.99, "all": 1}
    levels = np.quantile(counts, list(shares.values()), method="inverted_cdf") if number else []
    limit: int | str | None = (
        1 if table.single or table.unit is None else table.max_rows_contributed
    )
    cut = (
        float((counts - limit).clip(0).sum()) / number
        if isinstance(limit, int) and number
        else None
    )
    counted = number * (1 - (cut or 0))
    usual = limit if isinstance(limit, int) else int(levels[1]) if number else 1
    _, off = DiscreteLaplace.calibrated(usual, part).interval(0, LEVEL)
    return TableReview(
        table.name,
        table.unit or "each row",
        len(counts),
        number,
        {name: int(level) for name, level in zip(shares, levels, strict=False)},
        limit,
        cut,
        off / counted if number else None,
        tuple(_costs(table, rows, off * number / counted)) if number else (),
    )


def _rows_of_units(table: Table, rows: Rows) -> np.ndarray:
    """Return how many rows each unit has."""
    if table.unit is None:
        return np.ones(sum(batch.num_rows for batch in rows(table, [])), dtype=np.int64)
    found = pc.value_counts(owners(table, rows).units).field("counts")
    return np.asarray(found.to_numpy(), dtype=np.int64)


def _costs(table: Table, rows: Rows, off: float) -> Iterator[Cost]:
    """Say what noise of so many rows does to sums and means, of columns that have bounds.

    It is that of EXPLAIN for units that come or go, over the rows that have a value.
    """
    for column in table.columns.values():
        ends = column.interval
        bounded = column.bounds is not None and column.type.kind in NUMERIC
        if not bounded or ends.low is None or ends.high is None or column.keys is not None:
            continue
        low, high = float(ends.low), float(ends.high)
        values = pc.cast(_values(table, column, rows).drop_null(), pa.float64())
        if not len(values):
            continue
        clamped = np.clip(np.nan_to_num(np.asarray(values, dtype=float), nan=low), low, high)
        total = abs(float(clamped.sum()))
        size, mean = max(abs(low), abs(high)), total / len(clamped)
        yield Cost(
            column.name,
            off * size / total if total else None,
            off * (high - low) / len(clamped) / mean if mean else None,
        )


def _values(table: Table, column: Column, rows: Rows) -> pa.ChunkedArray:
    to = arrow_type(column.type)
    batches = rows(table, [column.name])
    return pa.chunked_array([pc.cast(one.column(0), to, safe=False) for one in batches], to)


# What looks like a mistake.


def _doubts(policy: Policy, table: Table, told: TableReview, rows: Rows) -> Iterator[Finding]:
    def doubt(column: str | None, text: str) -> Finding:
        return Finding(Severity.WARNING, table.name, column, text)

    if table.unit is not None and 0 < told.units < FEW_UNITS:
        of = "different value" if told.units == 1 else "different values"
        yield doubt(
            table.unit,
            f"the unit has {told.units} {of}: each is a large part of all rows, so that noise "
            "hides all there is; is it a group, and no person?",
        )
    limit, nearly_all = told.max_rows_contributed, told.rows_per_unit.get("99 %", 1)
    if table.unit and isinstance(limit, int) and limit > MANY_TIMES * nearly_all:
        yield doubt(
            table.unit,
            f"max_rows_contributed = {limit:,} is far above the {nearly_all:,} rows that 99 % "
            f"of units have at most: noise is {limit // nearly_all:,} times what it could be",
        )
    for column in _unnamed(policy, table):
        values = _values(table, column, rows).drop_null()
        different = pc.count_distinct(values).as_py()
        if len(values) >= ENOUGH and different >= NEARLY_ALL * len(values):
            yield doubt(
                column.name,
                "nearly every row has a value of its own, as an identifier has: leave it out, "
                "unless tables are joined on it",
            )


def _unnamed(policy: Policy, table: Table) -> Sequence[Column]:
    """Return the columns that could be identifiers, and are not declared to be of any use."""
    unit = {name for name, _ in table.together} | {table.unit}
    ways = [one.through for one in policy.tables.values() if one.through is not None]
    keys = {way.key for way in ways if way.table.name == table.name}
    keys |= {table.through.column} if table.through is not None else set()
    return [
        column
        for column in table.columns.values()
        if column.type.kind in {Kind.TEXT, Kind.INTEGER}
        and column.name not in unit | keys
        and column.bounds is None
        and column.keys is None
        and not column.type.listed
    ]
