"""Processes that charge, and are killed or starved of disk; started by `helpers.start`."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

from dpquery.errors import BudgetRefused, PolicyInvalid
from tests.ledger.helpers import ALICE, limits, open_at, pure


def spend(path: str, acknowledged: str, epsilon: str, total: str) -> None:
    """Charge until refused; note each receipt in a file once `charge` has returned it."""
    notes = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    ledger, waits = open_at(Path(path)), []
    while True:
        start = time.perf_counter()
        try:
            receipt = ledger.charge(pure(epsilon), limits(total), ALICE)
        except BudgetRefused:
            break
        waits.append(time.perf_counter() - start)
        os.write(notes, f"{receipt.id}\n".encode())
    ledger.close()
    print(json.dumps({"charges": len(waits), "worst": max(waits, default=0)}))


def fill(path: str, size: str) -> None:
    """Charge until no file may grow any more, then once again with room."""
    ledger, receipts = open_at(Path(path)), 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), resource.RLIM_INFINITY))
    while True:
        try:
            ledger.charge(pure("0.001"), limits(), ALICE)
        except PolicyInvalid as fault:
            code = fault.code
            break
        receipts += 1
    rows = ledger.verify()
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    ledger.charge(pure("0.001"), limits(), ALICE)
    print(
        json.dumps({"code": code, "receipts": receipts, "rows": rows, "after": ledger.verify()})
    )


def begin(path: str, size: str) -> None:
    """Create a ledger where no file may grow beyond a size."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), int(size)))
    try:
        open_at(Path(path))
    except PolicyInvalid as fault:
        print(json.dumps(fault.code))


def die_everywhere(path: str, mark: str) -> None:
    """Kill a process at every line and every SQL statement of a charge, one after the other.

    The ledger has one charge already, so that every round takes the same steps.
    Prints, for each of them, whether the charge was then in the ledger and whether it was
    acknowledged. Every child opens a ledger of its own: connections never cross a fork.
    """
    outcomes, rows = [], 1
    while not outcomes or not outcomes[-1]["acknowledged"]:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            _charge_and_die(Path(path), Path(mark), len(outcomes) + 1, write)
        os.close(write)
        os.waitpid(child, 0)
        acknowledged = os.read(read, 100).decode()
        os.close(read)
        ledger = open_at(Path(path), Path(mark))
        count = ledger.verify()
        known = acknowledged in {record.id for record in ledger._store.records()}
        ledger.close()
        assert count - rows in (0, 1)
        assert known or not acknowledged
        outcomes.append({"committed": count > rows, "acknowledged": bool(acknowledged)})
        rows = count
    print(json.dumps(outcomes))


def _charge_and_die(path: Path, mark: Path, last_step: int, write: int) -> None:
    ledger, steps = open_at(path, mark), 0

    def step(*_: object) -> None:
        nonlocal steps
        steps += 1
        if steps == last_step:
            os.kill(os.getpid(), signal.SIGKILL)

    def trace(frame, event, argument):
        if "dpquery/budget" not in frame.f_code.co_filename:
            return None
        step()
        return trace

    ledger._store._connection.set_trace_callback(step)
    sys.settrace(trace)
    receipt = ledger.charge(pure("0.001"), limits(), ALICE)
    sys.settrace(None)
    os.write(write, receipt.id.encode())
    os._exit(0)


if __name__ == "__main__":
    JOBS = {"spend": spend, "fill": fill, "begin": begin, "die_everywhere": die_everywhere}
    JOBS[sys.argv[1]](*sys.argv[2:])
