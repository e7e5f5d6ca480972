"""How a signal shows that finds DuckDB at work in the main thread."""

from __future__ import annotations

import subprocess
import sys

import pytest

from dpquery.core.source import Source
from dpquery.engine.base import FaultLog, uncharged, was_stopped


def test_duckdb_says_that_of_a_signal_alone():
    """The text is DuckDB's own: where it changes, stopped statements would count as failed."""
    script = (
        "import duckdb, signal\n"
        "def stop(*_): raise KeyboardInterrupt\n"
        "signal.signal(signal.SIGALRM, stop); signal.setitimer(signal.ITIMER_REAL, 0.5)\n"
        "try:\n"
        "  while True:\n"  # a task of a longer query may see no signal until it is done
        "    duckdb.sql('SELECT max(hash(i)) FROM range(3000000) r(i)').fetchall()\n"
        "except BaseException as fault: print(type(fault).__name__, fault.args)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() in {
        "RuntimeError ('Query interrupted',)",
        "KeyboardInterrupt ()",
    }


@pytest.mark.parametrize(
    "fault", [RuntimeError("a person's bit"), ValueError("Query interrupted"), RuntimeError()]
)
def test_nothing_else_counts_as_stopped(fault: Exception):
    assert not was_stopped(fault)
    assert was_stopped(RuntimeError("Query interrupted"))


def test_who_stops_the_planning_is_told_so():
    with pytest.raises(KeyboardInterrupt), uncharged(FaultLog(None), Source("SELECT 1")):
        raise RuntimeError("Query interrupted")
