"""The order of the stages: nothing private before the charge, nothing returned after it."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest

import dpquery
from dpquery.core.source_text import Source
from dpquery.engine.base import Exact
from dpquery.errors import ScanFailed
from dpquery.policy.sources.paths import copy_samples
from dpquery.session import Session
from tests.tasks import ROOT

ACCEPTED = [
    "SELECT DP_COUNT(*, eps=0.1) FROM staff",
    "SELECT DP_COUNT(bonus, eps=0.1) AS n, round(DP_COUNT(*, eps=0.01) / 7, 2) FROM staff "
    "WHERE salary * 2 > 100000 AND dept IN ('eng', 'ops') ORDER BY n DESC LIMIT 1",
    "SELECT DP_COUNT(*, eps=0.1) FILTER (WHERE rating / (age - 30) < 1.5) FROM 'staff.parquet'",
    "SELECT DP_COUNT(*, eps=0.1, max_rows_contributed=20) FROM visits WHERE spent > 10.5",
]


class Torn(Exception):
    """What a broken engine raises."""


class Broken:
    """An engine that may not be used, or breaks when it is."""

    opened = 0

    def open(self, *_: object) -> Exact:
        self.opened += 1
        raise Torn

    def prepare(self) -> None:
        """Nothing takes a while."""

    def rehearse(self, *_: object) -> None:
        """No file is needed for what is read back."""

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return copy_samples(tmp_path / "data")


def spent(policy: Path) -> Fraction:
    """Read what is spent from the ledger's file, in a session of its own."""
    with dpquery.connect(policy) as session:
        return session.budget.spent.epsilon


def without_engine(policy: Path) -> tuple[Session, Broken]:
    session, engine = dpquery.connect(policy), Broken()
    session._engine = engine
    return session, engine


def test_no_stage_before_the_scan_needs_the_private_engine(policy: Path):
    """I1: stages 1 to 5 run whole without files, and with an engine that raises on any use."""
    session, engine = without_engine(policy)
    for name in ("staff.parquet", "visits.parquet"):
        (policy.parent / name).unlink()
    for text in ACCEPTED:
        lookup = session._look_up(session._plan(Source(text)))
        with session._charged(lookup.charge, Source(text)) as receipt:
            assert receipt.charge is lookup.plan.charge
    assert engine.opened == 0
    session.close()


def test_explaining_reads_no_file(policy: Path):
    """I1: the engine may say what it would run, and there is nothing for it to read."""
    with dpquery.connect(policy) as session:
        for name in ("staff.parquet", "visits.parquet"):
            (policy.parent / name).unlink()
        for text in ACCEPTED:
            assert "charge" in str(session.explain(text))
        assert session.budget.spent.epsilon == 0


@pytest.mark.parametrize("text", ACCEPTED)
def test_a_charge_is_in_the_file_before_the_scan_and_stays_when_it_breaks(
    policy: Path, text: str
):
    """I2: what the engine sees when it is opened is a ledger that already holds the charge."""
    session, engine = without_engine(policy)
    seen: list[Fraction] = []

    def look(*_: object) -> Exact:
        seen.append(spent(policy))
        return Broken.open(engine)

    engine.open = look
    with pytest.raises(ScanFailed):
        session.sql(text)
    session.close()
    assert seen == [spent(policy)]
    assert seen[0] > 0


DIES = """
import os, signal, sys
import dpquery

session = dpquery.connect(sys.argv[1])
class Deadly:
    def prepare(self):
        pass
    def rehearse(self, *_):
        pass
    def open(self, *_):
        os.kill(os.getpid(), signal.SIGKILL)
    def close(self):
        pass
session._engine = Deadly()
session.sql("SELECT DP_COUNT(*, eps=0.125) FROM staff")
"""


def test_a_charge_outlives_a_process_that_is_killed_in_the_scan(policy: Path):
    """I2, with a death that no handler sees."""
    done = subprocess.run([sys.executable, "-c", DIES, policy], check=False, cwd=ROOT)
    assert done.returncode == -9
    assert spent(policy) == Fraction(1, 8)
