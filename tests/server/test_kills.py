"""Whatever is killed when: no answer without its charge, and no charge twice."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from dpquery.budget.ledger.ledger import open_ledger
from dpquery.policy.load import load_policy
from dpquery.server.users import Users
from dpquery.server.worker_pool import FAILED, Pool
from tests.samples import sample_policy
from tests.server.places import served, workers
from tests.server.test_pool import LONG, asked, run, spent

SECONDS = float(os.environ.get("DPQUERY_KILLS", "60"))
BUDGET = "epsilon = 100000\n[analysts.alice]\nepsilon = 100000\n[analysts.bob]\nepsilon = 1"


def journal_of(file: Path) -> list[list[str]]:
    """Return the replies that came: the last line may have been cut."""
    found = []
    for line in file.read_text().split("\n")[:-1] if file.exists() else []:
        told = json.loads(line)
        if isinstance(told, list):
            found.append(told)
    return found


@pytest.mark.slow
def test_no_answer_comes_without_its_charge_whatever_is_killed(tmp_path: Path):
    policy = sample_policy(tmp_path, BUDGET)
    text = policy.read_text("utf-8")
    policy.write_text(f"{text}\n[limits]\nmax_failures = 100\n", "utf-8")
    Users.beside(policy).with_user("alice", "a long password", owner=False).write()
    journal = tmp_path / "journal"
    ledger, until = open_ledger(load_policy(policy).ledger), time.monotonic() + SECONDS
    while time.monotonic() < until:
        argv = [sys.executable, "-m", "tests.server.kills", str(policy), str(journal)]
        server = subprocess.Popen(argv)
        time.sleep(10 + 10 * random.random())
        assert server.poll() is None
        server.kill()
        server.wait()
        time.sleep(2)  # workers end by themselves, as nobody asks them any more
        ledger.thaw()
    try:
        charges = Counter(entry.query for entry in ledger.entries("alice"))
    finally:
        ledger.close()
    replies = journal_of(journal)
    ends = Counter(ended for _, ended, *_ in replies)
    print(ends, sum(charges.values()))
    assert ends["answered"] > 5
    assert max(charges.values()) == 1
    for query, ended, said, _ in replies:
        if ended == "answered":
            assert charges[query] == 1, query
        elif "nothing was charged" in said or "unchanged" in said:
            assert charges[query] == 0, (query, said)
        elif " spent; " in said:
            assert charges[query] == 1, (query, said)
        else:
            assert FAILED.fault is not None
            assert said.startswith((FAILED.fault.text, "stopped while charging")), said


@pytest.mark.slow
def test_workers_that_die_count_as_failures_and_end_it_without_a_path(tmp_path: Path):
    policy = served(tmp_path, "\n[limits]\nmax_failures = 2\n")

    async def use(pool: Pool) -> None:
        for number in (1, 2):
            running = asyncio.create_task(pool.ask(asked(LONG.replace("0.1", f"0.0{number}"))))
            while spent(policy, "alice") < number:
                await asyncio.sleep(0.02)
            for worker in list(pool._every):
                worker._process.kill()
            assert (await running) is FAILED
        told = await pool.ask(asked(LONG))
        assert told.fault is not None
        assert told.fault.code == "DPQ505"
        assert str(tmp_path) not in told.fault.text
        assert "policy.toml" not in told.fault.text

    run(workers(policy), use)
