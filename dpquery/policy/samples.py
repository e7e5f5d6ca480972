"""Where the sample data stands: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

import shutil
from pathlib import Path

from dpquery.policy.unfit import Unfit

__all__ = ["copy_samples", "sample_directory"]


def copy_samples(place: Path) -> Path:
    """Copy the samples to a new directory, and give their policy there, with no ledger yet."""
    without = shutil.ignore_patterns("*.ledger*")
    return Path(shutil.copytree(sample_directory(), place, ignore=without)) / "policy.toml"


def sample_directory() -> Path:
    """Give the directory with the sample data and its policy.

    Raises:
        PolicyInvalid: DPQ601 this installation has no sample data.
    """
    package = Path(__file__).resolve().parents[1]
    for directory in (package / "datasets", package.parent / "datasets"):
        if (directory / "policy.toml").is_file():
            return directory
    why = "the samples are installed with the wheel, and stand in datasets/ in a checkout."
    remedy = "pip install --force-reinstall dpquery"
    raise Unfit("the sample data is not installed", why, remedy, code="DPQ601").at("")
