"""The answer: what an analyst receives, and what is known of the noise in it.

A plain value: it holds released values only, never an exact one, it asks nothing of the session
that gave it, and it outlives that session. Anything done with it is post-processing and free.
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cached_property
from html import escape
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from dpquery.core import html
from dpquery.core.privacy_loss import Loss, Neighbours, decimal_text, exact_number
from dpquery.core.source_text import visible
from dpquery.core.text_table import TextColumn, cell_text, lay_out, value_text
from dpquery.errors import listed, nearest, shown

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from dpquery.display.charts import Chart


# What is promised to the people in the data, and what that comes to for several of them.


UP, DOWN = Context(prec=50, rounding=ROUND_CEILING), Context(prec=50, rounding=ROUND_FLOOR)
"""An exponential is rounded to nearest in either: its neighbours enclose it."""
SHORT_UP = Context(prec=9, rounding=ROUND_CEILING)
"""What a group's delta is given with has nine digits."""
TELLING = 20.7
"""Below, a factor is less than a billion."""
HOPELESS = 1000
"""Above, the exponential of an epsilon times any delta that means something is above 1."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Whose rows may differ between two databases, and how little an answer tells of it."""

    loss: Loss
    units: tuple[str, ...]
    """What each unit is called: a column of all of its rows, or "row"."""
    neighbours: Neighbours
    beside: bool = False
    """Whether it also tells bounds that an earlier charge had found."""

    def for_group(self, size: int) -> Loss:
        """Return the loss for so many units at once, rounded up.

        From database to database, one unit each: P(Y0) <= e^eps P(Y1) + delta, and so on. The
        epsilons add up, and each delta is multiplied by those before it.

        >>> from fractions import Fraction
        >>> Guarantee(Loss(Fraction(1, 2)), ("id",), Neighbours.ADD_REMOVE).for_group(3)
        Loss(epsilon=Fraction(3, 2), delta=Fraction(0, 1))

        Raises:
            ValueError: the size is no natural number above 0.
        """
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise ValueError("a group has a whole number of units, such as 3")
        epsilon, delta = size * self.loss.epsilon, self.loss.delta
        if not delta or size == 1:
            return Loss(epsilon, delta)
        if epsilon > HOPELESS:
            return Loss(epsilon, Fraction(1))
        short = Fraction(_decimal(delta * self._added_up(size), SHORT_UP))
        return Loss(epsilon, min(Fraction(1), short))

    def _added_up(self, size: int) -> Fraction:
        """Return 1 + e^eps + ... + e^((size - 1) eps), or a little more."""
        epsilon = self.loss.epsilon
        if not epsilon:
            return Fraction(size)
        most = Fraction(UP.next_plus(UP.exp(_decimal(size * epsilon, UP)))) - 1
        return most / (Fraction(DOWN.next_minus(DOWN.exp(_decimal(epsilon, DOWN)))) - 1)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: what it comes to for one unit, and for several."""
        but = f", but for a chance of {decimal_text(self.loss.delta)}" * bool(self.loss.delta)
        odds = f"that somebody is in the data change by a factor of at most {self._factor}{but}"
        groups = {f"loss of {n} together": self.for_group(n) for n in (2, 5)}
        return html.facts("guarantee", {"promised": self, "odds": odds, **groups})

    @property
    def _factor(self) -> str:
        epsilon = float(self.loss.epsilon)
        return f"{math.exp(epsilon):.3g}" if epsilon < TELLING else "a billion or more"

    def __str__(self) -> str:
        change = "replaced" if self.neighbours is Neighbours.SUBSTITUTE else "added or removed"
        beside = ", beside bounds that were found before" if self.beside else ""
        return f"loss {self.loss}, for one {' or '.join(self.units)} {change}{beside}"


def _decimal(number: Fraction, rounded: Context) -> Decimal:
    return rounded.divide(number.numerator, number.denominator)


_SHOWN_CONFIDENCE = Fraction(95, 100)
_SHOWN_ROWS = 40
"""As many as DuckDB's shell shows; `to_text()` and the formats for programs give all."""
_LARGE = 10**15
"""Larger doubles are shown with an exponent."""
_NUMBERS = int | float | Decimal | Fraction


class Cell(Protocol):
    """What stands behind one released value."""

    @property
    def mechanism(self) -> str:
        """The name of the mechanism that drew it."""

    @property
    def possible(self) -> tuple[Any, Any] | None:
        """The least and the largest value there can be, where an interval is cut to them."""

    def interval(self, confidence: Fraction) -> tuple[Any, Any] | None:
        """Return a range that holds the exact value so often; None where noise cannot tell."""


@runtime_checkable
class Ranked(Protocol):
    """What is off by ranks: how far apart neighbouring ranks lie is up to the data."""

    def rank_interval(self, confidence: Fraction, *, any_data: bool = False) -> Fraction | None:
        """Return how many rows the rank of a value is off, so often; None if unknown."""


TAILS = tuple(
    Fraction(part, 2000)
    for part in (2, 5, 10, 20, 50, 100, 150, 200, 250, 300, 400, 500, 600, 700, 800, 900)
)
"""What is left out on either side, of the intervals of values that are computed from others."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """What stands behind a value that is computed from released ones: ends, by simulation."""

    low: tuple[Any, ...]
    """One for each of TAILS; None where noise cannot tell."""
    high: tuple[Any, ...]

    mechanism: ClassVar[str] = "simulated"
    possible: ClassVar[None] = None

    def interval(self, confidence: Fraction) -> tuple[Any, Any] | None:
        """Return a range that holds the exact value about so often, or somewhat oftener.

        None where noise cannot tell, as of a confidence for which there are too few worlds.
        """
        tails = [at for at, tail in enumerate(TAILS) if 2 * tail <= 1 - confidence]
        ends = (self.low[tails[-1]], self.high[tails[-1]]) if tails else (None, None)
        return None if None in ends else ends


@dataclass(frozen=True, eq=False, repr=False)
class Answer:
    """Columns and rows, the loss they were paid with, and the interval of each noisy value."""

    table: pa.Table
    loss: Loss
    cells: Sequence[Sequence[Cell | None]] = ()
    """One per row and column, None where no noise of its own was added; empty: nowhere."""
    budget: str = ""
    """What the ledger says now, such as "1.5 of 2 left"."""
    notes: tuple[str, ...] = ()
    """What the analyst should know about this answer, a line each."""
    guarantee: Guarantee | None = None
    """Whose rows it protects and how well; None where it tells of nobody's."""
    cut: tuple[bool, ...] = ()
    """Of which columns something may be cut that no interval covers; empty: of none."""
    confidence: Fraction = _SHOWN_CONFIDENCE
    """Of the intervals that are shown, or that are columns."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self.table.column_names)

    @cached_property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows as Python values."""
        return list(zip(*(column.to_pylist() for column in self.table.columns), strict=True))

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)

    def scalar(self) -> Any:
        """Return the only value of an answer with one row and one column.

        Raises:
            ValueError: the answer has another shape.
        """
        if self.table.shape != (1, 1):
            rows, columns = self.table.shape
            needs = "scalar() needs 1 row and 1 column"
            raise ValueError(f"{needs}; this answer has {rows} and {columns}")
        return self.rows[0][0]

    def interval(self, column: str, confidence: object = _SHOWN_CONFIDENCE) -> list[Any]:
        """Say for each row where the exact value lies, as far as the noise alone can tell.

        Of a list, that is a list of pairs: each is right as often as stated, by itself.

        Raises:
            KeyError: there is no such column.
            ValueError: the confidence is not a number between 0 and 1.
        """
        intervals = self._intervals(self._place(column), _level(confidence))
        return [_pairs(one) if _is_listed(one) else one for one in intervals]

    def rank_interval(
        self, column: str, confidence: object = _SHOWN_CONFIDENCE, *, any_data: bool = False
    ) -> list[int | None]:
        """Say for each row how many rows of the data its value is off at most: of quantiles.

        At most so many rows lie between the value and that of the rank asked for, or of a list
        between each of its values and its own rank, as often as stated where rows are spread
        about evenly around these ranks, over as many rows as EXPLAIN says. It is no bound for
        other data: a value near the rank that many rows share, or a gap there, can put the
        answer farther off. With `any_data` it is a bound that is proven for all data, and
        mostly far wider. None where noise alone cannot tell.

        Raises:
            KeyError: there is no such column.
            ValueError: the confidence is not a number between 0 and 1.
        """
        at, level = self._place(column), _level(confidence)
        ranked = (cell if isinstance(cell, Ranked) else None for cell in self._behind(at))
        found = (
            None if cell is None else cell.rank_interval(level, any_data=any_data)
            for cell in ranked
        )
        return [None if ranks is None else math.ceil(ranks) for ranks in found]

    def _place(self, column: str) -> int:
        if not isinstance(column, str) or column not in self.columns:
            near = nearest(column, self.columns) if isinstance(column, str) else None
            known = listed(self.columns, first=near)
            raise KeyError(f"there is no column {shown(column)} in this answer; it has {known}")
        return self.columns.index(column)

    def _behind(self, at: int) -> list[Cell | None]:
        return [row[at] for row in self.cells] if self.cells else [None] * len(self)

    def _intervals(self, at: int, confidence: Fraction) -> list[tuple[Any, Any] | None]:
        behind = self._behind(at)
        return [None if cell is None else cell.interval(confidence) for cell in behind]

    def with_intervals(self, confidence: object = _SHOWN_CONFIDENCE) -> Answer:
        """Return the answer with the ends of each interval as columns: n, n_low, n_high.

        Raises:
            ValueError: the confidence is not a number between 0 and 1.
        """
        from dpquery.core.arrow_columns import column  # pyarrow is loaded by now

        level, table, names = _level(confidence), self.table, set(self.columns)
        for at in reversed(range(len(self.columns))):
            intervals = self._intervals(at, level)
            if not any(intervals):
                continue
            type_, name = self.table.schema.field(at).type, self.columns[at]
            for high, end in ((True, "high"), (False, "low")):
                values = [None if one is None else one[high] for one in intervals]
                known = {"interval": end, "of": name, "confidence": decimal_text(level)}
                field = table.schema.field(at).with_metadata({"dpquery": json.dumps(known)})
                field = field.with_name(_free_name(f"{name}_{end}", names))
                table = table.add_column(at + 1, field, [column(values, type_)])
        return replace(self, table=table, cells=(), cut=(), confidence=level)

    @property
    def about(self) -> dict[str, Any]:
        """What there is to know of the numbers, for programs: notes, loss, confidence."""
        cut = zip(self.columns, self.cut, strict=False)
        return {
            "notes": list(self.notes),
            "loss": {
                "epsilon": decimal_text(self.loss.epsilon),
                "delta": decimal_text(self.loss.delta),
            },
            "confidence": decimal_text(self.confidence),
            "noise_only": [name for name, may_be in cut if may_be],
            "simulated": [n for at, n in enumerate(self.columns) if self._is_simulated(at)],
        }

    def _is_simulated(self, at: int) -> bool:
        return any(isinstance(cell, Simulated) for cell in self._behind(at))

    def to_arrow(self, *, intervals: bool = False) -> pa.Table:
        """Return the answer as a pyarrow Table; notes and loss are in its schema's metadata."""
        table = self._exported(intervals).table
        known = {**(table.schema.metadata or {}), b"dpquery": json.dumps(self.about).encode()}
        return table.replace_schema_metadata(known)

    def to_dicts(self, *, intervals: bool = False) -> list[dict[str, Any]]:
        """Return each row as a dictionary."""
        shown = self._exported(intervals)
        return [dict(zip(shown.columns, row, strict=True)) for row in shown.rows]

    def _exported(self, intervals: bool) -> Answer:
        return self.with_intervals() if intervals else self

    def to_pandas(self, *, intervals: bool = False) -> pd.DataFrame:
        """Return the answer as a pandas DataFrame: dates, decimals and whole numbers stay such.

        Integers and booleans with NULL among them have pandas' own nullable types: as doubles,
        large ones would be others. Notes and loss are in `attrs["dpquery"]`.
        """
        pandas = _load("pandas")
        nullable = {"int": pandas.Int64Dtype(), "bool": pandas.BooleanDtype()}
        table = self._exported(intervals).table
        frame: pd.DataFrame = table.to_pandas()
        frame.attrs["dpquery"] = self.about
        for at, column in enumerate(table.columns):
            kind = str(column.type).rstrip("0123456789")
            if column.null_count and kind in nullable:
                frame.isetitem(at, column.to_pandas(types_mapper=lambda _, k=kind: nullable[k]))
        return frame

    def to_polars(self, *, intervals: bool = False) -> pl.DataFrame:
        """Return the answer as a polars DataFrame."""
        frame: pl.DataFrame = _load("polars").from_arrow(self._exported(intervals).table)
        return frame

    def __str__(self) -> str:
        return self.to_text(max_rows=_SHOWN_ROWS)

    def to_text(self, max_rows: int | None = None) -> str:
        """Give the answer as a table for people: of long ones, the first and the last rows."""
        shown, left_out = self._shortened(len(self) if max_rows is None else max_rows)
        lines = lay_out(shown.text_columns())
        if not left_out:
            return lines
        head = len(shown) - len(shown) // 2
        above, below = lines.splitlines()[: head + 1], lines.splitlines()[head + 1 :]
        return "\n".join([*above, f" … {left_out:,} more rows …", *below])

    def _shortened(self, most: int) -> tuple[Answer, int]:
        """Return the first and the last rows of a long answer, and how many are left out."""
        left_out = len(self) - most
        if left_out <= 0:
            return self, 0
        tail = most // 2
        places = [*range(most - tail), *range(len(self) - tail, len(self))]
        cells = [self.cells[place] for place in places] if self.cells else ()
        kept = self.table.take(places)
        return replace(self, table=kept, cells=cells), left_out

    def margins(self) -> list[list[str]]:
        """Say for each column and row how far the noise reaches; "" where there is none."""
        return [
            self._margins(at, column.to_pylist())[1]
            for at, column in enumerate(self.table.columns)
        ]

    def _margins(self, at: int, values: list[Any]) -> tuple[list[Any], list[str]]:
        """Return the values of a column as precise as they are, and their margins."""
        intervals = self._intervals(at, _SHOWN_CONFIDENCE)
        computed = self._is_simulated(at)
        shown = _as_precise(values, intervals, written=computed)
        ends = [None if cell is None else cell.possible for cell in self._behind(at)]
        known = zip(shown, intervals, ends, strict=True)
        return shown, [_margin(*one, written=computed) for one in known]

    def chart(self, column: str | None = None) -> Chart:
        """Return what `plot` draws of a column, or of the first noisy one.

        Raises:
            ValueError: there are no numbers to draw.
        """
        from dpquery.display.charts import Series, chart_of

        columns = []
        for at, (name, cut) in enumerate(zip_longest(self.columns, self.cut, fillvalue=False)):
            values = [row[at] for row in self.rows]
            shown, margins = self._margins(at, values)
            texts = [
                f"{cell_text(v)} {m}".rstrip() for v, m in zip(shown, margins, strict=True)
            ]
            intervals = self._intervals(at, _SHOWN_CONFIDENCE)
            columns.append(Series(str(name), values, intervals, texts, bool(cut)))
        return chart_of(columns, column)

    def plot(self, column: str | None = None, *, axes: Any = None) -> Any:
        """Draw a column, or the first noisy one, with error bars, and return the axes.

        Dates have a line, numbers and lists a histogram, and all else has bars. Needs the
        extra `plot`.

        Args:
            column: what is drawn, by its name.
            axes: where; on a new figure without.

        Raises:
            ValueError: there are no numbers to draw.
            ImportError: matplotlib is not installed.
        """
        from dpquery.display.charts import on_axes

        return on_axes(self.chart(column), axes)

    def text_columns(self) -> list[TextColumn]:
        """Write each column, and beside a noisy one its margins."""
        columns: list[TextColumn] = []
        if len(self.columns) == 1 and not self.cells:  # lines, as of EXPLAIN: nothing to align
            lines = [visible(value_text(row[0])) for row in self.rows]
            return [TextColumn(self.columns[0], lines, _numeric([row[0] for row in self.rows]))]
        for at, name in enumerate(self.columns):
            values = [row[at] for row in self.rows]
            shown, margins = self._margins(at, values)
            columns.append(TextColumn(name, [cell_text(v) for v in shown], _numeric(values)))
            if any(margins):
                noise_only = bool(self.cut) and self.cut[at]
                columns.append(TextColumn("noise ±" if noise_only else "95% within", margins))
        return columns

    def __repr__(self) -> str:
        return f"<Answer: {len(self)} x {len(self.columns)}, loss {self.loss}>"

    def _repr_html_(self) -> str:
        """Return the table of a notebook, with what it lost and what is left below it."""
        text, left_out = self._shortened(_SHOWN_ROWS)
        columns = text.text_columns()
        rows = [
            _html_row("td", columns, row)
            for row in zip(*(c.cells for c in columns), strict=True)
        ]
        if left_out:
            more = f'<tr><td colspan="{len(columns)}">… {left_out:,} more rows …</td></tr>'
            rows.insert(-(-_SHOWN_ROWS // 2), more)
        head = _html_row("th", columns, [cell_text(column.head) for column in columns])
        said = [f"loss {self.loss}", *([f"budget: {self.budget}"] if self.budget else [])]
        below = "<br>".join(escape(visible(line)) for line in [" · ".join(said), *self.notes])
        body = "".join(rows)
        table = f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
        return f"<div>{table}<small>{below}</small></div>"


def _free_name(name: str, taken: set[str]) -> str:
    """Return a name that no column has, and take it."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _level(confidence: object) -> Fraction:
    level = exact_number(confidence)
    if not 0 < level < 1:
        raise ValueError("a confidence lies between 0 and 1, such as 0.95")
    return level


def _html_row(tag: str, columns: Sequence[TextColumn], cells: Sequence[str]) -> str:
    """Write a row; numbers stand on the right, and no value can be markup."""
    sides = ["right" if column.right else "left" for column in columns]
    written = [
        f'<{tag} style="text-align: {side}">{escape(cell)}</{tag}>'
        for side, cell in zip(sides, cells, strict=True)
    ]
    return f"<tr>{''.join(written)}</tr>"


def _load(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise ImportError(f"to_{package}() needs {package}: pip install {package}") from None


def _as_precise(
    values: list[Any], intervals: list[tuple[Any, Any] | None], *, written: bool = False
) -> list[Any]:
    """Round noisy doubles to the places that the noise leaves meaningful, alike in a column.

    No more than are written, if so: ROUND may have left fewer.
    """
    if any(map(_is_listed, intervals)):
        rows = zip(values, intervals, strict=True)
        return [[_as_precise([v], [i])[0] for v, i in zip(value, _pairs(interval), strict=True)]
                if _is_listed(interval) else value for value, interval in rows]  # fmt: skip
    pairs = zip(values, intervals, strict=True)
    places = [_places(value, interval) for value, interval in pairs]
    finest = max((found for found in places if found is not None), default=None)
    if finest is None:
        return values
    if written:
        doubles = (Decimal(repr(value)) for value in values if isinstance(value, float))
        digits = (one.as_tuple().exponent for one in doubles if one.is_finite())
        finest = min(finest, max(-int(one) for one in digits))
    step, exactly = Decimal(1).scaleb(-finest), Context(prec=400)
    return [
        value if found is None else Decimal(value).quantize(step, context=exactly)
        for value, found in zip(values, places, strict=True)
    ]


def _places(value: Any, interval: tuple[Any, Any] | None) -> int | None:
    """Return the places of a double's margin at three digits; None where no noise is known."""
    if interval is None or not isinstance(value, float) or not abs(value) < _LARGE:
        return None
    half = max(value - interval[0], interval[1] - value)
    if not math.isfinite(half):
        return 0 if half > 0 else None
    return max(0, 2 - math.floor(math.log10(half))) if half > 0 else None


def _is_listed(interval: tuple[Any, Any] | None) -> bool:
    """Return whether an interval is that of a list: the low ends, and the high ends."""
    return interval is not None and isinstance(interval[0], list)


def _pairs(interval: tuple[Any, Any] | None) -> list[tuple[Any, Any]]:
    """Return the interval of each value of a list."""
    return [] if interval is None else list(zip(*interval, strict=True))


def _numeric(values: list[Any]) -> bool:
    present = [value for value in values if value is not None]
    return bool(present) and all(_is_number(value) for value in present)


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def _margin(
    value: Any,
    interval: tuple[Any, Any] | None,
    possible: tuple[Any, Any] | None = None,
    *,
    written: bool = False,
) -> str:
    """Write an interval beside its value: the half-width, or both ends where they differ.

    Ends that are doubles stand for themselves, or else for what they are written as.
    """
    if interval is None or value is None:
        return ""
    if _is_listed(interval):
        return _margin_of_list(value, _pairs(interval))
    low, high = interval
    places = _places(float(value), interval) if isinstance(low, float) else None
    if written and places is not None:
        low, high = Decimal(repr(low)), Decimal(repr(high))
    anything = interval == possible and low != high
    if (low, high) == (-math.inf, math.inf):
        return "± unlimited"
    if not anything and all(_is_number(n) and math.isfinite(n) for n in (low, value, high)):
        down, up = Fraction(value) - Fraction(low), Fraction(high) - Fraction(value)
        # A double was rounded after its interval was found: a hair of difference is nothing.
        if abs(up - down) * 100 <= max(up, down):
            return f"± {_rounded_up(max(up, down))}"
    if places is not None:  # no more digits than the noise leaves, and no end moved inwards
        step, exactly = Decimal(1).scaleb(-places), Context(prec=400)
        low = Decimal(low).quantize(step, ROUND_FLOOR, exactly)
        high = Decimal(high).quantize(step, ROUND_CEILING, exactly)
    return f"{'any of ' * anything}{cell_text(low)} … {cell_text(high)}"


def _margin_of_list(values: list[Any], intervals: list[tuple[Any, Any]]) -> str:
    """Write how far each value is off at most, to either side; once, where all are alike."""
    halves = [
        "unlimited"
        if not (math.isfinite(low) and math.isfinite(high))
        else _rounded_up(max(Fraction(value) - Fraction(low), Fraction(high) - Fraction(value)))
        for value, (low, high) in zip(values, intervals, strict=True)
    ]
    if len(set(halves)) == 1:
        return f"± {halves[0]}{' each' if len(halves) > 1 else ''}"
    return f"± [{', '.join(halves)}]" if halves else ""


def _rounded_up(half: Fraction) -> str:
    if half.denominator == 1 and half < _LARGE**2:
        return str(half)
    three_digits = Context(prec=3, rounding=ROUND_CEILING)
    rounded = three_digits.divide(Decimal(half.numerator), Decimal(half.denominator))
    return str(rounded) if half >= _LARGE else format(rounded, "f")
