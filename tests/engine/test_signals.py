"""Ctrl-C at any moment of a statement: it is a stop, counts as no failure, breaks nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import dpquery
from dpquery import session as stages
from dpquery.core.source import Source
from dpquery.core.stops import heard, was_stopped
from dpquery.engine.base import FaultLog, guarded, uncharged
from dpquery.errors import ScanFailed
from tests.samples import sample_policy
from tests.tasks import ROOT

ENDS = """
import json, os, random, signal, sys, threading, time
import dpquery
from dpquery.errors import DPQueryError
rounds, chance, ends = int(sys.argv[2]), random.Random(), {}
# A stop that falls into a callback of Python's own weak references is printed, not raised.
sys.unraisablehook = lambda it: it.exc_type is KeyboardInterrupt or sys.__unraisablehook__(it)
query = "SELECT dept, DP_COUNT(*, eps=0.01) AS n, DP_AVG(age, eps=0.01) FROM staff GROUP BY 1"
counts = "SELECT dept, DP_COUNT(*, eps=0.01) AS n FROM staff GROUP BY 1"
above = f"WITH t AS ({counts}) SELECT sum(n) FROM t"

def press(begun, done):
    begun.wait()
    time.sleep(chance.random() * spread)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    done.set()

with dpquery.connect(sys.argv[1]) as session:
    def asked(text):
        begun, done, said = threading.Event(), threading.Event(), None
        pressing = threading.Thread(target=press, args=(begun, done))
        try:
            pressing.start()
            try:
                begun.set()
                session.sql(text, refresh=True)
                said = "answered"
            except KeyboardInterrupt as stop:
                said = str(stop).split(";")[0]
            except DPQueryError as error:
                said = error.code
            done.wait()
            time.sleep(0.001)
        except KeyboardInterrupt:
            done.wait()
        pressing.join()
        ends[said] = ends.get(said, 0) + 1
    began = time.monotonic()
    session.sql(query)
    spread = 1.5 * (time.monotonic() - began)  # a stop lets go of the engine: each begins anew
    for number in range(rounds):
        asked(above if number % 3 == 0 else query)
    session.sql(query, refresh=True)
    account = session._account.analyst
    left = session._ledger._store.attempts.open(account), session._ledger.failures(account)
    handler = signal.getsignal(signal.SIGINT).__name__
print(json.dumps([ends, len(left[0]), left[1], handler]))
"""


@pytest.mark.parametrize("rounds", [8, pytest.param(1500, marks=pytest.mark.slow)])
def test_a_statement_that_is_stopped_at_any_moment_has_not_failed(tmp_path: Path, rounds: int):
    policy = sample_policy(tmp_path, "epsilon = 100000\n")
    done = subprocess.run(
        [sys.executable, "-c", ENDS, str(policy), str(rounds)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    ends, still, failed, handler = json.loads(done.stdout)
    told = {"answered", "stopped", "stopped while charging", ""}
    assert ends.keys() <= told | {"null"}, ends
    assert ends.get("stopped", 0) + ends.get("answered", 0) > 0
    assert (still, failed, handler) == (0, 0, "default_int_handler")
    assert not policy.with_name("policy.ledger.faults").exists()


def test_who_stops_a_statement_that_was_answered_is_told_what_it_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    count = "SELECT DP_COUNT(*, eps=0.1) FROM staff"

    @contextmanager
    def late() -> Iterator[None]:
        yield
        raise KeyboardInterrupt

    with dpquery.connect(sample_policy(tmp_path, "epsilon = 1")) as session:
        monkeypatch.setattr(stages, "heard", late)
        told = {count: r"^stopped too late; 0\.1 spent; 0\.9 of 1 left", "SHOW TABLES": "^$"}
        for text, said in told.items():
            with pytest.raises(KeyboardInterrupt, match=said):
                session.sql(text)
        monkeypatch.undo()
        assert len(session.ledger()) == 1
        assert session._ledger.failures("default") == 0


def pressed() -> None:
    """Press ctrl-C where a library turns it into an error of its own."""
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise RuntimeError("a person's bit") from None


def test_whatever_is_raised_after_it_was_stopped():
    with heard(), pytest.raises(KeyboardInterrupt):
        guarded(FaultLog(None), pressed)
    with heard(), pytest.raises(KeyboardInterrupt), uncharged(FaultLog(None), Source("")):
        pressed()


def test_a_signal_that_a_library_drops_stops_a_statement_before_its_charge():
    def dropped() -> None:
        with suppress(RuntimeError):
            pressed()

    with heard(), pytest.raises(KeyboardInterrupt), uncharged(FaultLog(None), Source("")):
        dropped()


@pytest.mark.parametrize(
    "text", ["Query interrupted", "KeyboardInterrupt: ", "INTERRUPT Error"]
)
def test_no_words_of_an_error_make_it_a_stop(text: str):
    def failing() -> None:
        raise RuntimeError(text)

    with heard(), pytest.raises(RuntimeError):
        pressed()
    with heard(), pytest.raises(ScanFailed):  # of an earlier statement, nothing is left
        guarded(FaultLog(None), failing)


@pytest.mark.parametrize("before", [signal.SIG_IGN, signal.SIG_DFL, lambda *_: None])
def test_what_ctrl_c_does_stays_what_it_was(before: Callable[..., None]):
    own = signal.signal(signal.SIGINT, before)
    try:
        with heard():
            if before is not signal.SIG_DFL:
                signal.raise_signal(signal.SIGINT)
            assert not was_stopped()
        assert signal.getsignal(signal.SIGINT) is before
    finally:
        signal.signal(signal.SIGINT, own)


def test_other_threads_are_never_stopped():
    found: list[bool] = []
    with heard():
        with pytest.raises(RuntimeError):
            pressed()
        beside = threading.Thread(target=lambda: found.append(was_stopped()))
        beside.start()
        beside.join()
        assert (was_stopped(), found) == (True, [False])
