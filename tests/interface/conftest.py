"""One server of the sample data for all tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dpquery.policy.sources.paths import copy_samples
from tests.interface.door import Door


def samples_of(place: Path, *, epsilon: str = "200") -> Path:
    """Copy the sample data, with a budget for many tests."""
    policy = copy_samples(place)
    text = policy.read_text("utf-8")
    assert "epsilon = 2.0" in text
    policy.write_text(text.replace("epsilon = 2.0", f"epsilon = {epsilon}", 1), "utf-8")
    return policy


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    opened = Door(samples_of(tmp_path_factory.mktemp("served") / "data"))
    yield opened
    opened.close()
