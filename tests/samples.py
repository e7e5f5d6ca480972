"""The sample data in a place of its own, under a policy that is changed as a test needs it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

from dpquery.policy.sources.paths import copy_samples
from dpquery.session import Session


def sample_policy(folder: Path, budget: str) -> Path:
    """Copy the sample data, and give them another budget."""
    policy = copy_samples(folder / "data")
    edit(policy, "epsilon = 2.0", budget)
    return policy


def edit(file: Path, old: str, new: str) -> None:
    """Change a file where it says something for the first time."""
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), "utf-8")


def paid(session: Session, query: str) -> Fraction:
    """Ask, and give what that cost."""
    return session.sql(query).loss.epsilon
