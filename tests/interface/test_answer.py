"""What an analyst can do with an answer."""

import math
import pickle
import sys
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from dpquery.answer import Answer
from dpquery.core.privacy_loss import Loss


@dataclass(frozen=True)
class Noise:
    """A cell with a half-width of its own, or with none."""

    low: Any
    high: Any
    mechanism: str = "laplace"
    possible: tuple[Any, Any] | None = None

    def interval(self, confidence: Fraction) -> tuple[Any, Any]:
        return (self.low, self.high) if confidence == Fraction(95, 100) else (None, None)


def answer(columns: dict[str, list[Any]], *cells: tuple[Noise | None, ...]) -> Answer:
    return Answer(pa.table(columns), Loss(Fraction(1, 2)), cells)


@dataclass(frozen=True)
class Ranks:
    """A cell that is off by ranks."""

    most: Fraction | None
    mechanism: str = "quantile"
    possible: None = None

    def interval(self, confidence: Fraction) -> None:
        """Return nothing."""

    def rank_interval(self, confidence: Fraction, *, any_data: bool = False) -> Fraction | None:
        return None if self.most is None else self.most / (1 - confidence)


COUNTS = answer({"dept": ["eng", "ops"], "n": [412, 9]}, (None, Noise(406, 418)), (None, None))


def test_columns_rows_and_dictionaries_say_the_same():
    assert COUNTS.columns == ("dept", "n")
    assert COUNTS.rows == [("eng", 412), ("ops", 9)]
    assert COUNTS.to_dicts() == [{"dept": "eng", "n": 412}, {"dept": "ops", "n": 9}]
    assert list(COUNTS) == COUNTS.rows
    assert len(COUNTS) == 2


def test_an_answer_without_rows_is_still_an_answer():
    empty = Answer(pa.table({"n": pa.array([], pa.int64())}), Loss(Fraction(0)))
    assert (len(empty), empty.rows, str(empty)) == (0, [], " n")
    assert empty.interval("n", 0.95) == []


def test_a_scalar_needs_one_row_and_one_column():
    assert answer({"n": [7]}).scalar() == 7
    with pytest.raises(ValueError, match="1 row and 1 column; this answer has 2 and 2"):
        COUNTS.scalar()


def test_intervals_come_one_per_row_and_are_none_where_noise_cannot_tell():
    assert COUNTS.interval("n", 0.95) == [(406, 418), None]
    assert COUNTS.interval("dept", "0.95") == [None, None]


def test_ranks_come_one_per_row_rounded_up_and_are_none_where_noise_cannot_tell():
    table = {"dept": ["eng", "ops", "hr"], "p50": [52.5, 40.0, 1e9]}
    cells = [(None, Ranks(Fraction(153, 2))), (None, Ranks(None)), (None, Noise(0, 2e9))]
    ranked = answer(table, *cells)
    assert ranked.rank_interval("p50", "0.5") == [153, None, None]
    assert ranked.rank_interval("p50") == ranked.rank_interval("p50", "0.95")
    assert ranked.rank_interval("p50", "0.6") == [192, None, None]
    assert ranked.rank_interval("dept", 0.5) == [None] * 3
    assert ranked.interval("p50", 0.5)[:2] == [None, None]
    assert answer(table).rank_interval("p50", 0.5) == [None] * 3
    with pytest.raises(KeyError, match="no column"):
        ranked.rank_interval("p5", 0.5)
    with pytest.raises(ValueError, match="between 0 and 1"):
        ranked.rank_interval("p50", 1)


def test_the_confidence_is_read_exactly():
    assert COUNTS.interval("n", 0.950001)[0] == (None, None)


@pytest.mark.parametrize("confidence", [0, 1, 1.5, -0.1, 95, "high", None, True])
def test_a_confidence_outside_0_and_1_is_turned_away(confidence: object):
    with pytest.raises(ValueError, match=r"between 0 and 1|not a number"):
        COUNTS.interval("n", confidence)


def test_an_unknown_column_is_answered_with_the_nearest():
    with pytest.raises(KeyError, match="no column 'dep' in this answer; it has dept, n"):
        COUNTS.interval("dep", 0.95)


def test_a_table_shows_margins_beside_noisy_values():
    assert str(COUNTS) == (" dept     n   95% within\n eng    412   ± 6\n ops      9")


LISTS = answer(
    {"dept": ["eng", "ops"], "ages": [[40, 3], [2, 9]], "plane": [[1.23456, 2e3], [0.5, 1.0]]},
    (None, Noise([36, 0], [44, 7]), Noise([1.0, 1900.0], [1.46912, 2100.0])),
    (None, Noise([0, 5], [6, 13]), Noise([0.25, -math.inf], [0.75, math.inf])),
)


def test_a_list_has_an_interval_for_each_of_its_values():
    assert LISTS.interval("ages") == [[(36, 44), (0, 7)], [(0, 6), (5, 13)]]
    shown = LISTS.with_intervals()
    assert shown.columns[1:4] == ("ages", "ages_low", "ages_high")
    assert shown.rows[0][1:4] == ([40, 3], [36, 0], [44, 7])
    assert LISTS.to_pandas(intervals=True)["plane_high"][1].tolist() == [0.75, math.inf]


def test_margins_of_a_list_are_said_once_where_they_are_alike():
    assert str(LISTS).splitlines() == [
        " dept   ages      95% within   plane           95% within",
        " eng    [40, 3]   ± 4 each     [1.235, 2000]   ± [0.235, 100]",
        " ops    [2, 9]    ± 4 each     [0.500, 1]      ± [0.25, unlimited]",
    ]


@pytest.mark.parametrize(
    ("value", "low", "high", "margin"),
    [
        (5, -1, 11, "± 6"),
        (2, 0, 8, "0 … 8"),
        (0.5, 0.25, 0.75, "± 0.25"),
        (1 / 3, Fraction(0), Fraction(2, 3), "± 0.334"),
        (100.5, Fraction(-900), Fraction(1101), "± 1001"),
        (10**18, 10**18 - 123457, 10**18 + 123457, "± 123457"),
        (Decimal("1.50"), Decimal("1.25"), Decimal("1.75"), "± 0.25"),
        (date(2020, 1, 5), date(2020, 1, 1), date(2020, 1, 9), "2020-01-01 … 2020-01-09"),
        (4, 4, 4, "± 0"),
        (None, 1, 2, ""),
    ],
)
def test_a_margin_is_rounded_up_and_lopsided_ones_show_both_ends(value, low, high, margin):
    text = str(answer({"x": [value]}, (Noise(low, high),)))
    assert text.splitlines()[1].strip().removeprefix(str(value)).strip().endswith(margin)
    assert ("95% within" in text) == bool(margin)


@pytest.mark.parametrize(
    ("values", "halves", "lines"),
    [
        ([80903.92123456789], [1.957], [" 80903.92   ± 1.96"]),
        (
            [4.25, 1234.56789],
            [0.01234, 1.957],
            ["    4.2500   ± 0.0124", " 1234.5679   ± 1.96"],
        ),
        ([1e300], [1e299], [" 1e+300   ± 1.01E+299"]),
        ([math.inf], [1.0], [" inf   inf … inf"]),
    ],
)
def test_a_noisy_double_is_shown_as_precisely_as_its_noise_allows(values, halves, lines):
    noises = [(Noise(v - h, v + h),) for v, h in zip(values, halves, strict=True)]
    shown = answer({"x": values}, *noises)
    assert str(shown).splitlines()[1:] == lines
    assert [row[0] for row in shown.rows] == values


@pytest.mark.parametrize(
    "value", [80903.92123456789, 0.1 + 0.2, -1e-7 / 3, 99999.99999, 5e-324]
)
@pytest.mark.parametrize("half", [1.957, 0.0101, 1e-9, 3e7])
def test_what_is_shown_holds_as_often_as_the_interval_does(value: float, half: float):
    """Rounding the value moves it, so the margin beside it has to reach both ends."""
    low, high = Fraction(value) - Fraction(half), Fraction(value) + Fraction(half)
    line = str(answer({"x": [value]}, (Noise(float(low), float(high)),))).splitlines()[1]
    shown, margin = (Fraction(text) for text in line.split("±"))
    assert shown - margin <= Fraction(float(low))
    assert Fraction(float(high)) <= shown + margin


def test_a_long_answer_shows_its_ends_and_says_how_much_is_left_out():
    rows = 1_000
    long = answer({"n": list(range(rows))}, *[(Noise(n - 6, n + 6),) for n in range(rows)])
    lines = str(long).splitlines()
    assert (len(lines), lines[1], lines[-1]) == (42, "   0   ± 6", " 999   ± 6")
    assert lines[21] == " … 960 more rows …"
    assert len(long.to_text().splitlines()) == rows + 1
    assert str(answer({"n": list(range(40))})) == answer({"n": list(range(40))}).to_text()


def test_the_html_of_a_notebook_is_escaped():
    shown = answer({"<b>": ["<i>", "\x1b[31m", None], "n": [1, 2, 3]})._repr_html_()
    left, right = ('<{} style="text-align: ' + side + '">' for side in ("left", "right"))
    assert f"<tr>{left.format('th')}&lt;b&gt;</th>{right.format('th')}n</th></tr>" in shown
    assert f"<tr>{left.format('td')}&lt;i&gt;</td>{right.format('td')}1</td></tr>" in shown
    assert "NULL</td>" in shown
    assert "\x1b" not in shown


def test_a_notebook_shows_margins_loss_budget_and_notes():
    noisy = Answer(COUNTS.table, COUNTS.loss, COUNTS.cells, "1 of 2 left", ("a <note>",))
    shown = noisy._repr_html_()
    assert "95% within</th>" in shown
    assert shown.endswith(
        "<small>loss 0.5 · budget: 1 of 2 left<br>a &lt;note&gt;</small></div>"
    )


def test_a_notebook_leaves_out_the_middle_of_a_long_answer():
    shown = answer({"n": list(range(100))})._repr_html_()
    rows = shown.split("<tbody>")[1].split("</tr>")
    assert len(rows) == 42
    assert "… 60 more rows …" in rows[20]
    assert ">19<" in rows[19]
    assert ">80<" in rows[21]


def test_lines_of_text_are_shown_whole_and_columns_of_text_are_shortened():
    long = "word " * 40
    assert long.rstrip() in str(answer({"explanation": [long]}))
    assert long.rstrip() not in str(answer({"n": [1], "text": [long]}))


def test_a_repr_is_short():
    assert repr(COUNTS) == "<Answer: 2 x 2, loss 0.5>"


def test_frames_hold_the_same_rows():
    assert COUNTS.to_pandas()["n"].tolist() == [412, 9]
    assert COUNTS.to_polars()["n"].to_list() == [412, 9]
    assert COUNTS.to_arrow().to_pylist() == COUNTS.to_dicts()


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ImportError, match=f"pip install {package}"):
        getattr(COUNTS, f"to_{package}")()


def test_an_answer_is_a_value():
    with pytest.raises(AttributeError):
        COUNTS.loss = Loss(Fraction(0))
    assert pickle.loads(pickle.dumps(COUNTS)).rows == COUNTS.rows
