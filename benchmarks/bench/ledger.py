"""Eight processes that charge one ledger, beside bare writes of 4 kB in the same run.

A charge waits for three syncs, of the log and of the file that it is moved into, so a disk that
waits sets the pace. Where a cache takes the write, and a
sync takes a tenth of a millisecond, Python does. Bare writes are those of one process, and
those of eight that queue as charges do; `slow_disk` has a disk that waits.
`python -m benchmarks.bench.ledger [CHARGES]`.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

from tests.ledger.helpers import open_at, spent, start

PROCESSES = 8
ROUNDS = 5
EPSILON = Fraction(1, 1000)


def bare_rate(directory: Path, times: int) -> float:
    """How many blocks of 4 kB a second one process writes to a file, each with an fsync."""
    block = os.urandom(4096)
    descriptor = os.open(directory / "bare", os.O_WRONLY | os.O_CREAT)
    begun = time.perf_counter()
    for _ in range(times):
        os.write(descriptor, block)
        os.fsync(descriptor)
    taken = time.perf_counter() - begun
    os.close(descriptor)
    return times / taken


def one_round(job: str, file: Path, each: int) -> tuple[float, list[tuple[float, float]]]:
    """Have all processes work at once: the rate, and how long each step took and when it ended.

    None begins before all have started: a charge takes less than Python's imports.
    """
    workers = [start(job, file, each) for _ in range(PROCESSES)]
    for worker in workers:
        worker.stdout.readline()
    for worker in workers:
        worker.stdin.write(b"\n")
        worker.stdin.flush()
    reports = [json.loads(worker.communicate()[0]) for worker in workers]
    waits = [(wait, end) for report in reports for wait, end in report]
    begun, ended = min(end - wait for wait, end in waits), max(end for _, end in waits)
    return PROCESSES * each / (ended - begun), waits


def charges(each: int = 1000) -> dict:
    """Measure rate, worst wait, and the first hundred charges beside the last hundred.

    Charges and bare writes take turns: what else the disk does comes and goes.
    """
    rates, bare, turns, waits = [], [], [], []
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as place:
        directory = Path(place)
        for _ in range(ROUNDS):
            bare.append(bare_rate(directory, each // ROUNDS))
            turns.append(one_round("take_turns", directory / "turns", each // ROUNDS)[0])
            rate, found = one_round("race", directory / "ledger", each // ROUNDS)
            rates.append(rate)
            waits += found
        ledger = open_at(directory / "ledger")
        exact = spent(ledger) == ledger.verify() * EPSILON == len(waits) * EPSILON
        ledger.close()
    ends = sorted(end for _, end in waits)
    rate, block, turn = map(statistics.median, (rates, bare, turns))
    return {
        "charges": len(waits),
        "exact": exact,
        "per_second": rate,
        "bare_per_second": block,
        "ratio": rate / block,
        "turns_per_second": turn,
        "ratio_to_turns": rate / turn,
        "worst_wait_ms": 1000 * max(wait for wait, _ in waits),
        "first_hundred_ms": 1000 * (ends[99] - ends[0]),
        "last_hundred_ms": 1000 * (ends[-1] - ends[-100]),
    }


def told(found: dict) -> str:
    """Write the figures on one line."""
    return (
        f"{found['charges']:,} charges by {PROCESSES} processes: total "
        f"{'exact' if found['exact'] else 'WRONG'}; {found['per_second']:.0f} a second, "
        f"ratio {found['ratio']:.2f} to {found['bare_per_second']:.0f} bare 4 kB syncs of "
        f"one process (at least 0.1), {found['ratio_to_turns']:.2f} to "
        f"{found['turns_per_second']:.0f} of {PROCESSES} that take turns; worst wait "
        f"{found['worst_wait_ms']:.0f} ms (below 1000); first hundred "
        f"{found['first_hundred_ms']:.0f} ms, last hundred {found['last_hundred_ms']:.0f} ms"
    )


if __name__ == "__main__":
    print(told(charges(*map(int, sys.argv[1:]))))
