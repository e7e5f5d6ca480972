"""The real program at a real terminal: keys go in through tmux, and its screen is read.

Screens are compared without the numbers that the noise decides. They are taken as soon as they
are as expected, so a slow machine makes the test slow and not wrong.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpquery.policy.sources.paths import copy_samples
from tests.shell.slow import slow_policy
from tests.shell.test_repl import without_noise
from tests.tasks import ROOT

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
SECONDS = 20.0
BAR = " default   {} of 2 left   mode table   .help"


class Tmux:
    """A terminal of 100 by 30 cells of its own."""

    def __init__(self, command: str) -> None:
        self._server = f"dpquery-{uuid.uuid4().hex[:8]}"
        shown = f"{command}; echo left with $?; read -r _"
        size = ["-x", "100", "-y", "30"]
        self._tmux("-f", "/dev/null", "new-session", "-d", "-s", "t", *size, shown)

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._server, *arguments], check=True, capture_output=True, text=True
        )
        return done.stdout

    def type(self, text: str) -> None:
        """Type a text; tmux takes a semicolon at the end for its own unless it is escaped."""
        escaped = text.removesuffix(";") + "\\;" * text.endswith(";")
        self._tmux("send-keys", "-t", "t", "-l", "--", escaped)

    def press(self, *keys: str) -> None:
        self._tmux("send-keys", "-t", "t", *keys)

    def enter(self, text: str) -> None:
        """Type a line, and press enter when it stands on the screen."""
        self.type(text)
        self.sees(text)
        self.press("Enter")

    def screen(self) -> list[str]:
        screen = self._tmux("capture-pane", "-p", "-t", "t").splitlines()
        return [without_noise(line) for line in screen]

    def sees(self, *lines: str) -> list[str]:
        """Wait until the screen holds these lines one below the other; parts of lines do."""
        until = time.monotonic() + SECONDS
        while not _holds(screen := self.screen(), lines):
            assert time.monotonic() < until, "\n".join([*lines, "--- not in ---", *screen])
            time.sleep(0.05)
        return screen

    def close(self) -> None:
        self._tmux("kill-server")


def _holds(screen: list[str], lines: tuple[str, ...]) -> bool:
    starts = range(len(screen) - len(lines) + 1)
    return any(all(a in b for a, b in zip(lines, screen[at:], strict=False)) for at in starts)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Tmux]:
    yield from opened(copy_samples(tmp_path / "samples"), tmp_path)


def opened(policy: Path, tmp_path: Path) -> Iterator[Tmux]:
    words = ["env", "-C", ROOT, f"XDG_STATE_HOME={tmp_path / 'state'}", "TERM=xterm-256color"]
    words += [sys.executable, "-m", "dpquery", policy]
    terminal = Tmux(shlex.join(map(str, words)))
    terminal.sees("dp>")
    yield terminal
    terminal.close()


def test_a_first_session_at_a_terminal(terminal: Tmux):
    terminal.sees("tables: staff, visits, regions · budget: 2 of 2 left · .help, ctrl-D leaves")
    terminal.sees(BAR.format("██████████ 2"))
    terminal.enter(".help")
    terminal.sees(
        ".explain SQL          what a query would spend, and how it is answered; free"
    )
    terminal.enter(".tables")
    terminal.sees(" staff     person_id               1   NULL                   false")

    terminal.type("select DP_QU")
    terminal.sees("select DP_QU", "DP_QUANTILE(  DP_QUANTILE(number or date, q, eps=,")
    terminal.press("Tab")
    terminal.sees("dp> select DP_QUANTILE(")
    terminal.press("C-c")

    terminal.enter("SELECT DP_COUNT(*, eps=0.25) AS n")
    terminal.type("FROM staff WHERE dept = 'e")
    terminal.sees(" -> FROM staff WHERE dept = 'e", "'eng'  key")
    terminal.press("Tab")
    terminal.sees("FROM staff WHERE dept = 'eng'")
    terminal.type(";")
    terminal.sees("FROM staff WHERE dept = 'eng';")
    terminal.press("Enter")
    terminal.sees(" n 95% within", " # ± #", "budget: 1.75 of 2 left")
    terminal.sees(BAR.format("█████████░ 1.75"))

    terminal.enter("SELECT salary FROM staff;")
    terminal.sees(
        "refused[DPQ301]: salary cannot be shown row by row",
        "  |",
        "1 | SELECT salary FROM staff",
        "  |        ^^^^^^ not inside a DP_ function",
    )
    terminal.enter("SELECT DP_MEDIAN(salary, eps=1) FROM staff;")
    terminal.sees("this query spends 1 of the 1.75 left, and 0.75 stays; ask it? [y/N]")
    terminal.press("C-c")
    terminal.sees("not asked, nothing is spent")
    terminal.sees(BAR.format("█████████░ 1.75"))
    terminal.press("C-d")
    terminal.sees("left with 0")


def test_a_long_answer_is_paged_and_a_wide_one_cut(terminal: Tmux):
    terminal.enter(
        "SELECT age, dept, DP_COUNT(*, eps=0.25) AS n FROM staff GROUP BY age, dept;"
    )
    terminal.sees(" age dept n noise ±")
    terminal.press("q")
    terminal.sees("budget: 1.75 of 2 left", "dp>")
    terminal.enter("SHOW LEDGER;")
    screen = terminal.sees(".mode csv and .again show all of it, and spend nothing", "dp>")
    assert any(line.endswith("…") for line in screen)


def test_a_long_scan_shows_a_clock_and_ctrl_c_drops_it_and_not_the_shell(tmp_path: Path):
    for terminal in opened(slow_policy(tmp_path / "slow"), tmp_path):
        terminal.enter("SELECT DP_SUM(x * x, eps=0.25) AS s FROM slow;")
        terminal.sees("reading slow  ")
        terminal.press("C-c")
        terminal.sees("stopped; 0.25 spent; 1.75 of 2 left (a charge is never returned once")
        screen = terminal.sees(BAR.format("█████████░ 1.75"))
        assert not any("reading slow" in line for line in screen)
        terminal.enter("SHOW TABLES;")
        terminal.sees(" slow    each row   NULL")
        terminal.press("C-d")
        terminal.sees("left with 0")
