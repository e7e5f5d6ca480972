"""A copy of the sample data to run the pages in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dpquery.policy.samples import sample_directory


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "samples"
    shutil.copytree(sample_directory(), place)
    monkeypatch.chdir(place)
    return place
