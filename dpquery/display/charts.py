"""Pictures of an answer: bars, a histogram, a line over dates, each value with its interval.

What is drawn was released before: in a terminal as text, or on axes of matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from itertools import pairwise
from typing import Any

from dpquery.core.source_text import visible, width
from dpquery.core.text_table import cell_text

HEIGHT = 12
"""Lines of a picture over dates."""
_LEAST = 10
"""Cells that a bar has in the narrowest terminal."""
_LARGEST = 1e300
_NUMBERS = int | float | Decimal | Fraction


class Form(Enum):
    """What a picture looks like."""

    BARS = "bars"
    HISTOGRAM = "histogram"
    LINE = "line"


@dataclass(frozen=True, slots=True)
class Series:
    """One column of an answer."""

    name: str
    values: Sequence[Any]
    intervals: Sequence[tuple[Any, Any] | None] = ()
    """Where each exact value lies, as far as the noise can tell; empty: not known of any."""
    texts: Sequence[str] = ()
    """Each value as a table has it, with its margin."""
    noise_only: bool = False


@dataclass(frozen=True, slots=True)
class Point:
    """One value that is drawn."""

    label: Any
    value: float | None
    low: float | None = None
    """Of its interval; None where there is none."""
    high: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn, in order."""

    form: Form
    name: str
    over: str
    """What the labels are; empty where they are places in a list."""
    points: Sequence[Point]
    noise_only: bool = False

    @property
    def title(self) -> str:
        """What is seen."""
        return visible(f"{self.name} by {self.over}" if self.over else self.name)

    @property
    def certainty(self) -> str:
        """What the error bars say; empty where there are none."""
        if all(point.low is None for point in self.points):
            return ""
        return "noise only, 95 %" if self.noise_only else "95 % within"


def chart_of(columns: Sequence[Series], wanted: str | None = None) -> Chart:
    """Return the picture of an answer: of the column that is wanted, or the first noisy one.

    Raises:
        ValueError: there is no such column, or none of numbers, or no row.
    """
    drawn = _drawn(columns, wanted)
    if not drawn.values:
        raise ValueError("there is no row to draw")
    if len(drawn.values) == 1 and isinstance(drawn.values[0], list):
        known = drawn.intervals[0] if drawn.intervals else None
        pairs = list(zip(*known, strict=True)) if known else [None] * len(drawn.values[0])
        points = [
            _point(at, value, pair)
            for at, (value, pair) in enumerate(zip(drawn.values[0], pairs, strict=True), 1)
        ]
        return Chart(Form.HISTOGRAM, drawn.name, "", points, drawn.noise_only)
    others = _keys(columns, drawn)
    intervals = drawn.intervals or [None] * len(drawn.values)
    texts = drawn.texts or [cell_text(value) for value in drawn.values]
    points = [
        _point(label, *behind)
        for label, *behind in zip(
            _labels(others, drawn), drawn.values, intervals, texts, strict=True
        )
    ]
    form = _form(others)
    if form is not Form.BARS:
        points.sort(key=lambda point: (point.label is None, point.label or 0))
    if form is Form.LINE:
        points = [point for point in points if point.label is not None]
    over = ", ".join(one.name for one in others)
    return Chart(form, drawn.name, over, points, drawn.noise_only)


def _drawn(columns: Sequence[Series], wanted: str | None) -> Series:
    if wanted is not None:
        found = [one for one in columns if one.name == wanted]
        if not found or not _is_drawable(found[0]):
            names = ", ".join(visible(one.name) for one in columns if _is_drawable(one))
            raise ValueError(f"there is no column {visible(wanted)} of numbers; try {names}")
        return found[0]
    drawable = [one for one in columns if _is_drawable(one)]
    noisy = [one for one in drawable if any(one.intervals)]
    if not drawable:
        raise ValueError("there is no column of numbers to draw")
    return (noisy or drawable[-1:])[0]


def _keys(columns: Sequence[Series], drawn: Series) -> list[Series]:
    """Return what the rows are of: what is no number, or else the first number before."""
    exact = [one for one in columns if one is not drawn and not any(one.intervals)]
    before = columns[: [one is drawn for one in columns].index(True)]
    numbers = [one for one in before if one in exact]
    return [one for one in exact if not _is_numeric(one)] or numbers[:1]


def _is_number(value: object) -> bool:
    return isinstance(value, _NUMBERS) and not isinstance(value, bool)


def _is_numeric(column: Series) -> bool:
    present = [value for value in column.values if value is not None]
    return bool(present) and all(map(_is_number, present))


def _is_drawable(column: Series) -> bool:
    if len(column.values) == 1 and isinstance(column.values[0], list):
        return _is_numeric(Series(column.name, column.values[0]))
    return _is_numeric(column) or not column.values


def _labels(columns: Sequence[Series], drawn: Series) -> list[Any]:
    if not columns:
        return [drawn.name] * len(drawn.values)
    if len(columns) == 1:
        return list(columns[0].values)
    rows = zip(*(one.values for one in columns), strict=True)
    return [", ".join(map(cell_text, row)) for row in rows]


def _form(labels: Sequence[Series]) -> Form:
    """Return the form for what labels are: dates have a line, and numbers an order."""
    if len(labels) != 1:
        return Form.BARS
    present = [value for value in labels[0].values if value is not None]
    if len(present) > 1 and all(isinstance(value, date) for value in present):
        return Form.LINE
    return Form.HISTOGRAM if _is_numeric(labels[0]) else Form.BARS


def _point(
    label: Any, value: Any, interval: tuple[Any, Any] | None = None, text: str = ""
) -> Point:
    text = text or cell_text(value)
    number = math.nan if value is None else _float(value)
    if not math.isfinite(number):
        return Point(label, None, text=text)
    if interval is None or not all(map(_is_number, interval)):
        return Point(label, number, text=text)
    low, high = map(_float, interval)
    return Point(label, number, low, high, text)


def _float(number: Any) -> float:
    """Return a number as a double, unlimited where differences of such doubles could be."""
    try:
        found = float(number)
    except OverflowError:
        found = math.inf if number > 0 else -math.inf
    return found if not abs(found) > _LARGEST else math.copysign(math.inf, found)


# As text: cells from the least to the largest number, and 0 among them.


@dataclass(frozen=True, slots=True)
class _Marks:
    """The characters of a picture."""

    bar: str
    low: str
    between: str
    value: str
    high: str
    upright: str
    dot: str
    line: str
    """Between two dots."""
    axis: str


_BLOCKS = _Marks("█", "├", "─", "┼", "┤", "│", "●", "·", "┤")
_ASCII = _Marks("#", "[", "-", "+", "]", "|", "o", ".", "|")


@dataclass(frozen=True, slots=True)
class _Scale:
    low: float
    high: float
    cells: int

    def cell(self, number: float) -> int:
        """Return the cell of a number, the last one on its side where it is off the scale."""
        if math.isinf(number):
            return self.cells - 1 if number > 0 else 0
        share = (number - self.low) / (self.high - self.low)
        return min(self.cells - 1, max(0, round(share * (self.cells - 1))))


def _scale(points: Sequence[Point], cells: int) -> _Scale:
    ends = [end for one in points for end in (one.value, one.low, one.high) if end is not None]
    finite = [end for end in ends if math.isfinite(end)]
    low, high = min([0.0, *finite]), max([0.0, *finite])
    return _Scale(low, high if high > low else low + 1, max(1, cells))


def as_text(chart: Chart, columns: int, *, plain: bool = False) -> str:
    """Draw a picture of at most so many columns; `plain` in ASCII alone."""
    marks = _ASCII if plain else _BLOCKS
    said = f"   {marks.low}{marks.between}{marks.high} {chart.certainty}"
    lines = [f"{chart.title}{said if chart.certainty else ''}"]
    lines += (_line if chart.form is Form.LINE else _bars)(chart, columns, marks)
    text = "\n".join(line.rstrip() for line in lines)
    if plain:
        text = text.replace("±", "+/-").replace("…", "~")
        text = text.encode("ascii", "replace").decode("ascii")
    return text


def _bars(chart: Chart, columns: int, marks: _Marks) -> list[str]:
    most = max(8, columns // 3)
    labels = [_shortened(cell_text(point.label), most) for point in chart.points]
    texts = [point.text for point in chart.points]
    wide, told = max(map(width, labels)), max(map(width, texts))
    if columns - wide - told - 4 < _LEAST:  # the bar says enough
        texts, told = [""] * len(texts), 0
    scale = _scale(chart.points, max(_LEAST, columns - wide - told - 5))
    right = chart.form is Form.HISTOGRAM
    return [
        f" {_padded(label, wide, right=right)}  {_padded(text, told, right=True)}  "
        f"{_bar(point, scale, marks)}"
        for label, text, point in zip(labels, texts, chart.points, strict=True)
    ]


def _shortened(text: str, most: int) -> str:
    while width(text) > most:
        text = text[: -2 if text.endswith("…") else -1] + "…"
    return text


def _padded(text: str, cells: int, *, right: bool = False) -> str:
    pad = " " * (cells - width(text))
    return pad + text if right else text + pad


def _bar(point: Point, scale: _Scale, marks: _Marks) -> str:
    if point.value is None:
        return ""
    cells = [" "] * scale.cells
    at, zero = scale.cell(point.value), scale.cell(0)
    if scale.low < 0:
        cells[zero] = marks.upright
    for cell in range(min(at, zero), max(at, zero) + 1) if point.value else ():
        cells[cell] = marks.bar
    if point.low is not None and point.high is not None:
        low, high = scale.cell(point.low), scale.cell(point.high)
        if low < high:  # else it is narrower than a cell
            cells[low : high + 1] = marks.between * (high + 1 - low)
            cells[low] = marks.low if math.isfinite(point.low) else marks.between
            cells[high] = marks.high if math.isfinite(point.high) else marks.between
            cells[at] = marks.value
    return "".join(cells)


def _line(chart: Chart, columns: int, marks: _Marks) -> list[str]:
    scale = _scale(chart.points, HEIGHT)
    heads = [f"{number:.4g}" for number in (scale.high, scale.low)]
    wide = max(map(len, heads))
    across = max(_LEAST, columns - wide - 3)
    places = _across([point.label for point in chart.points], across)
    rows = [[" "] * across for _ in range(HEIGHT)]
    pairs = zip(places, chart.points, strict=True)
    known = [(x, p, p.value) for x, p in pairs if p.value is not None]
    for (left, _, before), (right, _, after) in pairwise(known):
        for x in range(left + 1, right):
            number = before + (x - left) / (right - left) * (after - before)
            rows[scale.cell(number)][x] = marks.line
    for x, point, _ in known:
        if point.low is not None and point.high is not None:
            for y in range(scale.cell(point.low), scale.cell(point.high) + 1):
                rows[y][x] = marks.upright
    for x, _, value in known:
        rows[scale.cell(value)][x] = marks.dot
    names = [heads[1], *[""] * (HEIGHT - 2), heads[0]]
    lines = [
        f" {name:>{wide}} {marks.axis if name else marks.upright}{''.join(row)}"
        for name, row in zip(names, rows, strict=True)
    ]
    first, last = (cell_text(chart.points[at].label) for at in (0, -1))
    fits = len(first) + len(last) < across
    below = f"{first}{last:>{across - len(first)}}" if fits else _shortened(first, across)
    return [*reversed(lines), f" {'':>{wide}}  {below}"]


def _across(labels: Sequence[Any], cells: int) -> list[int]:
    """Return the cell of each moment."""
    first = min(labels)
    days = [(label - first) / timedelta(days=1) for label in labels]
    span = max(days) or 1
    return [round(day / span * (cells - 1)) for day in days]


# On axes of matplotlib.


def on_axes(chart: Chart, axes: Any = None) -> Any:
    """Draw a picture with error bars on axes, on new ones without; return them.

    Raises:
        ImportError: matplotlib is not installed.
    """
    if axes is None:
        try:
            from matplotlib import pyplot
        except ImportError:
            raise ImportError("plot() needs matplotlib: pip install 'dpquery[plot]'") from None
        axes = pyplot.subplots()[1]
    values = [math.nan if one.value is None else one.value for one in chart.points]
    scale = _scale(chart.points, 1)
    far = 2 * (scale.high - scale.low)
    ends = [one.low for one in chart.points], [one.high for one in chart.points]
    errors = [
        [_reach(one, end, far) for one, end in zip(chart.points, of, strict=True)]
        for of in ends
    ]
    bars = {"yerr": errors, "capsize": 3} if chart.certainty else {}
    labels = [one.label for one in chart.points]
    if chart.form is Form.LINE:
        axes.errorbar(labels, values, marker="o", **bars)
        axes.tick_params(axis="x", rotation=30)
    else:
        places = range(len(values))
        axes.bar(places, values, width=1.0 if chart.form is Form.HISTOGRAM else 0.8,
                 edgecolor="white", **bars)  # fmt: skip
        axes.set_xticks(places, [_quoted(label) for label in labels])
    if any(math.isinf(end) for of in ends for end in of if end is not None):
        margin = far / 40
        axes.set_ylim(scale.low - margin, scale.high + margin)
    axes.set_xlabel(_quoted(chart.over))
    told = f" ({chart.certainty})" if chart.certainty else ""
    axes.set_ylabel(f"{_quoted(chart.name)}{told}")
    return axes


def _quoted(label: object) -> str:
    """Write a label as it is: a dollar begins a formula in matplotlib."""
    return cell_text(label).replace("$", r"\$")


def _reach(point: Point, end: float | None, far: float) -> float:
    """Return how far an error bar reaches from its value: beyond the axes, if unlimited."""
    if end is None or point.value is None:
        return 0.0
    return min(abs(end - point.value), far)
