"""`[limits]` in a policy: what one reading of the private tables may take."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpquery.engine.base import FaultLog
from dpquery.engine.duckdb.connection import execute
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.engine.duckdb.public_engine import PublicEngine
from dpquery.errors import PolicyInvalid
from dpquery.policy.load import load_policy
from dpquery.policy.model import Policy, ScanLimits
from dpquery.policy.sources.paths import copy_samples


def policy(tmp_path: Path, *lines: str) -> Policy:
    file = copy_samples(tmp_path / "samples")
    file.write_text(file.read_text("utf-8") + "\n[limits]\n" + "\n".join(lines), "utf-8")
    return load_policy(file)


def test_without_a_word_a_scan_may_take_ten_minutes_and_duckdbs_share_of_memory(
    tmp_path: Path,
):
    assert policy(tmp_path).limits == ScanLimits(600, None)


def test_both_limits_are_read(tmp_path: Path):
    found = policy(tmp_path, "seconds = 30", 'memory = "2GiB"')
    assert found.limits == ScanLimits(30, "2GiB")


@pytest.mark.parametrize(
    ("line", "code", "key"),
    [
        ("minutes = 3", "DPQ603", "limits.minutes"),
        ("seconds = 0", "DPQ604", "limits.seconds"),
        ("seconds = 1.5", "DPQ604", "limits.seconds"),
        ("seconds = true", "DPQ604", "limits.seconds"),
        ("seconds = 604801", "DPQ604", "limits.seconds"),
        ("memory = 4", "DPQ604", "limits.memory"),
        ('memory = "4"', "DPQ604", "limits.memory"),
        ('memory = "127MB"', "DPQ604", "limits.memory"),
        ('memory = "-1GB"', "DPQ604", "limits.memory"),
        ('memory = "80%"', "DPQ604", "limits.memory"),
        ("memory = \"4GB'; SET threads = '1\"", "DPQ604", "limits.memory"),
    ],
)
def test_a_limit_that_is_none_is_refused(tmp_path: Path, line: str, code: str, key: str):
    with pytest.raises(PolicyInvalid) as caught:
        policy(tmp_path, line)
    assert (caught.value.code, caught.value.key) == (code, key)


def test_the_private_engine_stops_at_the_deadline_and_keeps_to_its_memory(tmp_path: Path):
    limited = policy(tmp_path, "seconds = 1", 'memory = "200MB"')
    public = PublicEngine(limited)
    engine = DuckDBEngine(limited, FaultLog(None), public)
    try:
        connection = engine._started()
        for long in (
            "SELECT count(*) FROM range(10000000000000) WHERE range % 7 = 3",
            "SELECT count(DISTINCT range || 'x') FROM range(100000000)",
        ):
            with pytest.raises(Exception, match=r"(?i)interrupt|timeout|exceed|memory"):
                execute(connection, long)
        assert execute(connection, "SELECT 1").fetchall() == [(1,)]
    finally:
        engine.close()
        public.close()
