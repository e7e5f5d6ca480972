"""How a policy parts its delta between conversion and releases with a delta of their own."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dpquery.ceilings import Ceiling
from dpquery.errors import PolicyInvalid
from dpquery.policy.load import load_policy
from dpquery.policy.model import Budget
from dpquery.privacy import Loss
from dpquery.zcdp import rho_below

TABLE = """
[tables.t]
path = "t.csv"
public = true
"""
DELTA = Fraction(1, 10**6)


def budget(place: Path, *lines: str) -> Budget:
    (place / "t.csv").write_text("a\n1\n")
    path = place / "policy.toml"
    path.write_text("\n".join(["[budget]", *lines, TABLE]))
    return load_policy(path).budget


def test_a_delta_is_parted_as_the_owner_says(tmp_path: Path) -> None:
    """Analysts' and sessions' deltas in the same proportion."""
    found = budget(tmp_path, "epsilon = 1", "delta = 1e-6", "delta_for_conversion = 2e-7")
    held = found.held(found.limit)
    assert (held.converted, held.drawn) == (DELTA / 5, DELTA * 4 / 5)
    assert held.rho == rho_below(Fraction(1), DELTA / 5) > 0
    assert found.held(Loss(Fraction(1), DELTA / 1000)).converted == DELTA / 5000


def test_a_delta_is_parted_in_halves_where_nothing_is_said(tmp_path: Path) -> None:
    found = budget(tmp_path, "epsilon = 1", "delta = 1e-6")
    assert found.held(found.limit).converted == DELTA / 2


@pytest.mark.parametrize(
    "lines", [["delta = 1e-6", "delta_for_conversion = 0"], ["delta = 0"], []]
)
def test_without_a_part_of_delta_epsilons_alone_add_up(
    tmp_path: Path, lines: list[str]
) -> None:
    found = budget(tmp_path, "epsilon = 1", *lines)
    assert found.held(found.limit) == Ceiling(found.limit)


def test_a_part_above_the_whole_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyInvalid) as caught:
        budget(tmp_path, "epsilon = 1", "delta = 1e-6", "delta_for_conversion = 2e-6")
    assert (caught.value.code, caught.value.line) == ("DPQ604", 4)
    assert caught.value.key == "budget.delta_for_conversion"
    assert caught.value.diagnostic.remedy[0] == "delta_for_conversion = 5e-7"
