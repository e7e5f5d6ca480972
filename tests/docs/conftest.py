"""A copy of the sample data to run the pages in."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpquery.policy.sources.paths import copy_samples


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "samples"
    copy_samples(place)
    monkeypatch.chdir(place)
    return place
