"""A policy with two analysts, over the sample data."""

from __future__ import annotations

from pathlib import Path

from dpquery.policy.sources.paths import copy_samples
from dpquery.server.worker_pool import WorkerSettings

ANALYSTS = """
[analysts.alice]
epsilon = 1
[analysts.bob]
epsilon = 1
"""


def served(place: Path, more: str = "") -> Path:
    """Copy the samples, list two analysts, and give the policy."""
    policy = copy_samples(place / "served")
    policy.write_text(policy.read_text("utf-8") + ANALYSTS + more, "utf-8")
    return policy


def workers(policy: Path, seconds: float = 60) -> WorkerSettings:
    """Return how workers of a policy are run."""
    return WorkerSettings(str(policy), seconds, 6 << 30)
