"""Ctrl-C while a scan is running, in a process of its own: at once, and the charge stays."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from tests.shell.slow import slow_policy
from tests.tasks import ROOT

SECONDS = 20.0
QUERY = "SELECT DP_SUM(x * x, eps=0.5) FROM slow"


def started(policy: Path, *words: str) -> subprocess.Popen[str]:
    """Start a process, and give it once its charge is durable and its scan has begun."""
    running = subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    until = time.monotonic() + SECONDS
    while not charges(policy):
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(0.5)
    return running


def charges(policy: Path) -> int:
    ledger = policy.with_name("policy.ledger")
    if not ledger.exists():
        return 0
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as opened:
        try:
            query = "SELECT count(*) FROM charges WHERE session <> ''"
            return opened.execute(query).fetchone()[0]
        except sqlite3.OperationalError:  # it is being made
            return 0


def test_the_command_line_says_in_one_line_what_stays_spent(tmp_path: Path):
    policy = slow_policy(tmp_path / "slow")
    running = started(policy, "-m", "dpquery", str(policy), "-c", QUERY)
    running.send_signal(signal.SIGINT)
    pressed = time.monotonic()
    out, err = running.communicate(timeout=SECONDS)
    assert time.monotonic() - pressed < 5  # the scan itself takes longer
    assert running.returncode == 130
    kept = "(a charge is never returned once reading has begun)"
    assert (out, err) == ("", f"stopped; 0.5 spent; 1.5 of 2 left {kept}\n")
    assert charges(policy) == 1


PROGRAM = """
import sys, dpquery
from traceback import walk_tb
with dpquery.connect(sys.argv[1]) as session:
    try:
        session.sql(sys.argv[2])
    except KeyboardInterrupt as stop:
        print(stop, stop.__context__)
        print(*(frame.f_code.co_name for frame, _ in walk_tb(stop.__traceback__)))
    print(session.budget.left)
"""


def test_a_session_goes_on_after_it_and_its_frames_are_gone(tmp_path: Path):
    policy = slow_policy(tmp_path / "slow")
    running = started(policy, "-c", PROGRAM, str(policy), QUERY)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=SECONDS)
    assert (running.returncode, err) == (0, "")
    said, frames, left = out.splitlines()
    assert said.startswith("stopped; 0.5 spent; 1.5 of 2 left")
    assert said.endswith(" None")  # no error of the engine stands behind it
    assert frames == "<module> sql __exit__ _end"  # those below hold exact values
    assert left == "1.5"
    assert not policy.with_name("policy.ledger.faults").exists()
