"""The bar: it follows from time and the size of files, and only a terminal sees it."""

from __future__ import annotations

import io
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpquery
from dpquery.policy.samples import copy_samples
from dpquery.shell import progress
from dpquery.shell.progress import CELLS, MOST, PATIENCE, RATE, Bar, Pace, line, reading


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pace(clock: Clock) -> Pace:
    return Pace(clock)


def test_the_share_is_the_time_against_the_bytes(clock: Clock, pace: Pace):
    assert pace.share == 0
    pace.reads(int(RATE * 10))
    shares = []
    for clock.now in (0.0, 1.0, 5.0, 9.0, 10.0, 1000.0):
        shares.append(pace.share)
    assert shares == [0, 0.1, 0.5, 0.9, MOST, MOST]


def test_two_scans_of_a_statement_add_up(clock: Clock, pace: Pace):
    pace.reads(int(RATE * 5))
    pace.reads(int(RATE * 5))
    clock.now = 5.0
    assert pace.share == 0.5


def test_the_rate_is_the_one_of_the_last_long_scan(clock: Clock, pace: Pace):
    def ask(size: float, seconds: float) -> None:
        pace.begin()
        pace.reads(int(size))
        clock.now += seconds
        pace.end()

    def share_after(size: float, seconds: float) -> float:
        pace.begin()
        pace.reads(int(size))
        clock.now += seconds
        return pace.share

    ask(RATE, PATIENCE / 2)  # too short to tell
    assert share_after(RATE * 10, 5) == 0.5
    ask(RATE * 20, 100)
    assert share_after(RATE * 20, 50) == 0.5


@given(st.text(max_size=60), st.integers(1, 200), st.floats(0, 1e4))
def test_the_line_fits_the_screen(what: str, columns: int, seconds: float):
    clock = Clock()
    pace = Pace(clock)
    pace.reads(int(RATE * 100))
    clock.now = seconds
    drawn = line(what.replace("\n", " "), pace, columns)
    assert progress.width(drawn) < columns or not drawn


def test_the_line_shows_bar_and_time(clock: Clock, pace: Pace):
    pace.reads(int(RATE * 100))
    clock.now = 75.0
    assert line("reading staff", pace, 80) == f"reading staff  {'█' * 15}{'░' * 5} 1:15"
    clock.now = 1e9
    assert line("", pace, 80).count("█") < CELLS


class Screen(io.StringIO):
    """A terminal, or a pipe."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("err", "out", "patience", "drawn"),
    [
        (True, True, 0, True),
        (True, True, 60, False),
        (True, False, 0, False),
        (False, True, 0, False),
        (False, False, 0, False),
    ],
)
def test_only_a_long_query_at_a_terminal_shows_a_bar(monkeypatch, err, out, patience, drawn):
    monkeypatch.setattr(progress, "PATIENCE", float(patience))
    monkeypatch.setattr(progress, "EVERY", 0.01)
    stream = Screen(err)
    with Bar(stream, Screen(out)).showing("reading"):
        until = time.monotonic() + (5 if drawn else 0.1)
        while time.monotonic() < until and "reading" not in stream.getvalue():
            time.sleep(0.01)
    text = stream.getvalue()
    assert ("reading" in text) == drawn
    if drawn:  # the last thing written wipes the line
        *_, blank, end = text.split("\r")
        assert (blank.strip(), end) == ("", "")


def test_what_is_read_stands_after_from():
    assert reading("SELECT DP_COUNT(*, eps=1) FROM staff WHERE x = 1") == "reading staff"
    assert reading("SHOW TABLES") == "reading"


def test_a_session_tells_sizes_once_charged_and_only_as_powers_of_two(tmp_path: Path):
    folder = copy_samples(tmp_path / "samples").parent
    told: list[tuple[int, object]] = []
    with dpquery.connect(folder / "policy.toml") as session:
        session.on_scan(lambda size: told.append((size, session.budget.spent.epsilon)))
        session.explain("SELECT DP_COUNT(*, eps=0.5) FROM staff")
        with pytest.raises(dpquery.BudgetRefused):
            session.sql("SELECT DP_COUNT(*, eps=9) FROM staff")
        assert told == []
        session.sql("SELECT DP_COUNT(*, eps=0.5) FROM staff")
    size = (folder / "staff.parquet").stat().st_size
    ((about, spent),) = told
    assert (spent, about.bit_count()) == (Fraction(1, 2), 1)
    assert about / 2 < size <= about
