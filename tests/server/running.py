"""`dpquery serve` as a process of its own, as an owner starts it."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import dpquery
from tests.server.postgres.served import Reached, shared


@dataclass
class Running(Reached):
    """A server that runs, and what it has said."""

    policy: Path
    process: subprocess.Popen[str]
    port: int
    said: list[str] = field(default_factory=list)

    def charges(self, analyst: str = "alice") -> int:
        """Return how often somebody has paid, as the ledger has it."""
        with dpquery.connect(self.policy, analyst=analyst) as session:
            return len(session.ledger().to_dicts())


@contextmanager
def running(place: Path, *options: str) -> Iterator[Running]:
    """Serve the samples to two analysts until the end of a block."""
    policy = shared(place)
    command = [sys.executable, "-m", "dpquery", "serve", str(policy)]
    process = subprocess.Popen(
        [*command, "--listen", "127.0.0.1:0", *options],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    said: list[str] = []
    rest = threading.Thread(target=said.extend, args=(process.stdout,), daemon=True)
    try:
        for line in process.stdout:
            said.append(line)
            if found := re.match(r"postgresql://NAME@127\.0\.0\.1:(\d+)/", line):
                break
        else:
            raise AssertionError(f"it does not serve: {''.join(said)}")
        rest.start()  # so that a server which says much does not wait
        yield Running(policy, process, int(found[1]), said)
    finally:
        process.terminate()
        process.wait(60)
        if rest.ident is not None:
            rest.join(60)
        process.stdout.close()
