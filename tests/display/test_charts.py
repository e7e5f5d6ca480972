"""Pictures of answers: which form, from what, and each character of it."""

from __future__ import annotations

import math
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.answer import Answer
from dpquery.core.privacy_loss import Loss
from dpquery.core.source_text import width
from dpquery.display.charts import Form, Series, as_text, chart_of
from tests.interface.test_answer import Noise


def answer(columns: dict[str, list[Any]], noise: dict[str, list[Any]]) -> Answer:
    """Return an answer with the half-width of each noisy value."""
    cells = [
        tuple(
            Noise(value - noise[name][at], value + noise[name][at]) if name in noise else None
            for name, value in zip(columns, row, strict=True)
        )
        for at, row in enumerate(zip(*columns.values(), strict=True))
    ]
    return Answer(pa.table(columns), Loss(Fraction(1)), cells)


DAYS = [date(2025, 1, 1) + timedelta(days=7 * at) for at in range(5)]
STAFF = answer({"dept": ["eng", "ops", None], "n": [40, 10, -10]}, {"n": [10, 10, 0]})
VISITS = answer({"n": [100, 60, 80, 120, 90], "day": DAYS}, {"n": [20] * 5})
AGES = answer({"age": [30, None, 20], "n": [4, 1, 2]}, {"n": [1, 0, math.inf]})

BARS = """\
n by dept   ├─┤ 95 % within
 eng   40 ± 10      █████████████├───┼───┤
 ops   10 ± 10      ├───┼───┤
 NULL  -10 ± 0  █████"""
PLAIN = """\
n by dept   [-] 95 % within
 eng   40 +/- 10      #############[---+---]
 ops   10 +/- 10      [---+---]
 NULL  -10 +/- 0  #####"""
NARROW = """\
n by dept   ├─┤ 95 % within
 eng       █████├┼─┤
 ops       ├┼─┤
 NULL    ███"""
LINE = """\
n by day   ├─┤ 95 % within
 140 ┤                                │
     │                                │
     ││                             ··●····      │
     │●·                    │   ····  │    ····  │
     ││ ···                 │···               ··●
     ││    ····  │     ·····●                    │
     │         ··●·····     │
     │           │
     │           │
     │
     │
   0 ┤
      2025-01-01                        2025-01-29"""
HISTOGRAM = """\
n by age   ├─┤ 95 % within
   20  2 ± unlimited  ───────────┼────────────────
   30          4 ± 1  ████████████████├─────┼────┤
 NULL          1 ± 0  ██████"""


@pytest.mark.parametrize(
    ("shown", "columns", "plain", "expected"),
    [
        (STAFF, 42, False, BARS),
        (STAFF, 42, True, PLAIN),
        (STAFF, 20, False, NARROW),
        (VISITS, 50, False, LINE),
        (AGES, 50, False, HISTOGRAM),
    ],
)
def test_a_picture_is_drawn_to_the_character(shown, columns, plain, expected):
    assert as_text(shown.chart(), columns, plain=plain) == expected


def test_what_the_rows_are_of_decides_the_form():
    two = answer({"a": ["x", "y"], "n": [1, 2], "b": [True, False]}, {"n": [1, 1]}).chart()
    assert (two.form, two.over) == (Form.BARS, "a, b")
    assert [point.label for point in two.points] == ["x, true", "y, false"]
    assert VISITS.chart().form is Form.LINE
    assert AGES.chart().form is Form.HISTOGRAM
    assert [point.label for point in AGES.chart().points] == [20, 30, None]
    listed = chart_of([Series("q", [[1, 2.5, None]])])
    assert (listed.form, [one.value for one in listed.points]) == (
        Form.HISTOGRAM, [1, 2.5, None]
    )  # fmt: skip
    (alone,) = answer({"n": [7], "twice": [14]}, {"n": [1]}).chart().points
    assert (alone.label, alone.value) == ("n", 7)


def test_another_column_can_be_named():
    both = answer({"dept": ["eng"], "n": [4], "pay": [9.5]}, {"n": [1], "pay": [2]})
    assert both.chart().name == "n"
    assert both.chart("pay").points[0].text == "9.50 ± 2"
    with pytest.raises(ValueError, match="there is no column dept of numbers; try n, pay"):
        both.chart("dept")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"a": ["x"]}, "there is no column of numbers to draw"),
        ({"a": [True], "b": [DAYS[0]]}, "there is no column of numbers to draw"),
        ({"a": [None]}, "there is no column of numbers to draw"),
        ({"a": []}, "there is no row to draw"),
    ],
)
def test_what_has_no_numbers_is_not_drawn(columns, said):
    with pytest.raises(ValueError, match=said):
        Answer(pa.table(columns), Loss(Fraction(1))).chart()


def test_error_bars_say_what_they_leave_out():
    cut = Answer(STAFF.table, STAFF.loss, STAFF.cells, cut=(False, True)).chart()
    assert as_text(cut, 42).startswith("n by dept   ├─┤ noise only, 95 %\n")


LABELS = st.one_of(
    st.lists(st.text() | st.none(), min_size=1, max_size=6),
    st.lists(st.integers() | st.none(), min_size=1, max_size=6),
    st.lists(st.dates() | st.none(), min_size=1, max_size=6),
    st.lists(st.datetimes(timezones=st.just(UTC)) | st.none(), min_size=1, max_size=6),
)
NUMBERS = st.floats() | st.integers(-(10**400), 10**400) | st.decimals(allow_nan=False)


def test_a_shortened_label_in_ascii_is_no_wider():
    moment = datetime(2000, 1, 1, tzinfo=UTC)
    chart = chart_of([Series("k", [moment]), Series("n", [1.0], [None], ["9"])])
    assert as_text(chart, 50, plain=True).split("\n")[1].startswith(" 2000-01-01 00:0~  9  ###")
    assert max(map(width, as_text(chart, 50, plain=True).split("\n"))) <= 50


@given(LABELS, st.data(), st.integers(1, 200), st.booleans())
def test_no_value_breaks_a_picture_or_its_width(labels, data, columns, plain):
    numbers = data.draw(
        st.lists(NUMBERS | st.none(), min_size=len(labels), max_size=len(labels))
    )
    ends = [
        None if one is None else data.draw(st.none() | st.just((one, one))) for one in numbers
    ]
    try:
        chart = chart_of([Series("k", labels), Series("n", numbers, ends, ["9"] * len(labels))])
    except ValueError:
        assert all(one is None for one in numbers)
        return
    text = as_text(chart, columns, plain=plain)
    assert text.isascii() or not plain
    lines = text.split("\n")
    assert all(one.isprintable() for one in lines)
    assert all(width(line) <= max(columns, 50) for line in lines[1:])


def test_the_largest_doubles_have_a_scale():
    chart = chart_of([Series("k", ["a", "b", "c"]), Series("n", [1.7e308, -1.7e308, 5e-324])])
    assert [point.value for point in chart.points] == [None, None, 5e-324]
    assert as_text(chart, 40).count("█") > 20


def _column(segment: Any) -> tuple[float, tuple[float, float]]:
    """Return where an error bar is, and its ends."""
    (x, low), (_, high) = segment
    return float(x), (float(low), float(high))


def test_matplotlib_draws_the_same(monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    for shown, (_, *points) in ((STAFF, [None, 40, 10, -10]), (AGES, [None, 2, 4, 1])):
        axes = shown.plot()
        assert [bar.get_height() for bar in axes.patches] == points
        assert axes.get_ylabel() == "n (95 % within)"
        axes.figure.canvas.draw()
        low, high = axes.get_ylim()
    ((_, (below, above)),) = [
        bar for bar in map(_column, axes.collections[0].get_segments()) if bar[0] == 0
    ]
    assert below < low < high < above, "what is unlimited is drawn so"
    axes = VISITS.plot()
    assert list(axes.lines[0].get_ydata()) == [100, 60, 80, 120, 90]
    dear = answer({"$x^{": ["$y_{", "b"], "n": [Decimal("1.5"), 2]}, {})
    assert dear.plot(axes=pyplot.figure().subplots()).get_xlabel() == r"\$x^{"
    for number in pyplot.get_fignums():
        pyplot.figure(number).canvas.draw()  # no label is taken for a formula
    pyplot.close("all")


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'dpquery\[plot\]'"):
        STAFF.plot()


def test_a_moment_has_its_place_by_the_clock():
    hours = [datetime(2025, 1, 1, hour, tzinfo=UTC) for hour in (0, 6, 23)]
    text = as_text(answer({"at": hours, "n": [1, 1, 1]}, {}).chart(), 32, plain=True)
    (row,) = [line for line in text.splitlines() if "o" in line]
    assert [at for at, char in enumerate(row) if char == "o"] == [4, 11, 31]
