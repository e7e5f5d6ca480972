"""Processes that charge, and are killed or starved of disk; started by `helpers.start`."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

from dpquery.budget.ledger.charge_and_receipt import FailureLimit
from dpquery.budget.ledger.earlier_releases import Holder
from dpquery.budget.ledger.ledger import Ledger
from dpquery.budget.ledger.owner_orders import Promise
from dpquery.budget.ledger.sqlite import SQLite
from dpquery.budget.ledger.tables import queued
from dpquery.errors import BudgetRefused, PolicyInvalid
from dpquery.policy.model import Server
from tests.ledger.helpers import ALICE, Place, limits, loss, open_at, placed, pure


def spend(path: str, acknowledged: str, epsilon: str, total: str) -> None:
    """Charge until refused; note each receipt in a file once `charge` has returned it."""
    notes = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    ledger, waits = open_at(placed(path)), []
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


def endure(path: str, acknowledged: str, charges: str) -> None:
    """Make a number of charges, however often they are refused meanwhile."""
    notes = os.open(acknowledged, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    ledger, left = open_at(placed(path)), int(charges)
    while left:
        try:
            receipt = ledger.charge(pure("0.001"), limits(), ALICE)
        except BudgetRefused:
            continue
        os.write(notes, f"{receipt.id}\n".encode())
        left -= 1
    ledger.close()


def attempt(path: str, how: str, times: str) -> None:
    """Charge a number of times, and fail or answer after each; print how often it was let."""
    ledger, made = open_at(placed(path)), 0
    failures = FailureLimit(5, 600)
    for _ in range(int(times)):
        try:
            receipt = ledger.charge(pure("0.001"), replace(limits(), failures=failures), ALICE)
        except BudgetRefused:
            break
        made += 1
        if how == "fail":
            ledger.fail(receipt, "alice", 5)
        else:
            ledger.store(receipt, Holder("alice", "", shared=False), {})
    ledger.close()
    print(json.dumps({"made": made}))


def hold(path: str, mark: str, charges: str) -> None:
    """Make some charges, each with an answer that is stored, and wait to be killed."""
    ledger = open_at(placed(path), None if mark == "-" else Path(mark))
    for number in range(int(charges)):
        receipt = ledger.charge(pure("0.001"), limits(), ALICE)
        ledger.store(receipt, Holder("alice", "", shared=False), {f"key {number}": "[1]"})
    print("ready", flush=True)
    sys.stdin.readline()


def race(path: str, charges: str) -> None:
    """Make a number of charges when told to; print how long each took, and when it ended."""
    ledger, charge, most = open_at(placed(path)), pure("0.001"), limits("9000000000")
    _timed(lambda: ledger.charge(charge, most, ALICE), int(charges))
    ledger.close()


def take_turns(path: str, writes: str) -> None:
    """Write 4 kB with an fsync a number of times, in a queue such as charges stand in."""
    block, descriptor = os.urandom(4096), os.open(path, os.O_WRONLY | os.O_CREAT)

    def write() -> None:
        with queued(Path(f"{path}.lock")):
            os.write(descriptor, block)
            os.fsync(descriptor)

    _timed(write, int(writes))


def _timed(act: Callable[[], object], times: int) -> None:
    found = []
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(times):
        begun = time.perf_counter()
        act()
        ended = time.perf_counter()  # one clock for all processes of a machine
        found.append((ended - begun, ended))
    print(json.dumps(found))


def fill(path: str, size: str) -> None:
    """Charge until no file may grow any more, then once again with room."""
    ledger, receipts = open_at(placed(path)), 0
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
        open_at(placed(path))
    except PolicyInvalid as fault:
        print(json.dumps(fault.code))


def _charge(ledger: Ledger) -> object:
    return ledger.charge(pure("0.001"), limits("9000000000"), ALICE)


def _grant(ledger: Ledger) -> object:
    return ledger.grant("alice", loss("0.001"), limits(10, 1))


def _freeze(ledger: Ledger) -> object:
    return ledger.freeze()


ACTIONS = {"charge": _charge, "promised": _charge, "grant": _grant, "freeze": _freeze}
"""Each adds a row to the ledger, and the first charge under a policy two."""


def die_everywhere(spelled: str, mark: str, action: str, every: str) -> None:
    """Kill a process at every line or SQL statement of a write, one after the other.

    Each round begins with a ledger of one charge, so that it takes the same steps. Prints, for
    each of them, how many rows it then had more, and whether the write was acknowledged. Every
    child opens a ledger of its own: connections never cross a fork.
    """
    promise = Promise("add-remove", (("table t", "by row"),)) if action == "promised" else None
    outcomes: list[dict[str, int | bool]] = []
    for place in _begun(placed(spelled), Path(mark)):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            ledger = open_at(place, Path(mark), promise)
            _act_and_die(ledger, ACTIONS[action], (len(outcomes) + 1, every), write)
        os.close(write)
        os.waitpid(child, 0)
        acknowledged = os.read(read, 1) == b"1"
        os.close(read)
        ledger = open_at(place, Path(mark))
        ledger.verify()
        more = len(ledger.history()) - 1
        ledger.close()
        outcomes.append({"more": more, "acknowledged": acknowledged})
        if acknowledged:
            break
    print(json.dumps(outcomes))


def _begun(place: Place, mark: Path) -> Iterator[Place]:
    """Return the place of a ledger of one charge, again and again."""
    for number in count():
        mark.unlink(missing_ok=True)
        if isinstance(place, Server):
            begun = Server(place.url, f"{place.schema} {number}")
            _one_charge(begun, mark)
            yield begun
        else:
            if not number:
                _one_charge(place, mark)
                files = [(file, file.read_bytes()) for file in (place, mark)]
            for file, content in files:
                file.write_bytes(content)
            yield place


def _one_charge(place: Place, mark: Path) -> None:
    ledger = open_at(place, mark)
    ledger.charge(pure("0.001"), limits(), ALICE)
    ledger.close()


def _act_and_die(
    ledger: Ledger, action: Callable[[Ledger], object], last: tuple[int, str], write: int
) -> None:
    steps, (last_step, every) = 0, last

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

    database = ledger._store._database

    def stepping(*statement):
        step()
        found = honest(*statement)
        step()
        return found

    if isinstance(database, SQLite):
        database._connection.set_trace_callback(step)
    else:
        honest, database._run = database._run, stepping
    if every == "line":
        sys.settrace(trace)
    action(ledger)
    sys.settrace(None)
    os.write(write, b"1")
    os._exit(0)


if __name__ == "__main__":
    JOBS = {
        "spend": spend,
        "endure": endure,
        "hold": hold,
        "attempt": attempt,
        "race": race,
        "take_turns": take_turns,
        "fill": fill,
        "begin": begin,
        "die_everywhere": die_everywhere,
    }
    JOBS[sys.argv[1]](*sys.argv[2:])
