"""How a policy parts its delta between conversion and releases with a delta of their own."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from dpquery.core.privacy_loss import Ceiling, Loss
from dpquery.core.zcdp import epsilon_above, rho_below
from dpquery.errors import PolicyInvalid
from dpquery.policy.load import load_policy
from dpquery.policy.model import Policy, PolicyBudget

TABLE = """
[tables.t]
path = "t.csv"
public = true
"""
DELTA = Fraction(1, 10**6)


def budget(place: Path, *lines: str) -> PolicyBudget:
    return policy(place, *lines).budget


def policy(place: Path, *lines: str) -> Policy:
    (place / "t.csv").write_text("a\n1\n")
    path = place / "policy.toml"
    path.write_text("\n".join(["[budget]", *lines, TABLE]))
    return load_policy(path)


def test_a_delta_is_parted_as_the_owner_says(tmp_path: Path) -> None:
    """Analysts' and sessions' deltas in the same proportion."""
    found = budget(tmp_path, "epsilon = 1", "delta = 1e-6", "delta_for_conversion = 2e-7")
    held = found.ceiling
    assert (held.converted, held.drawn) == (DELTA / 5, DELTA * 4 / 5)
    assert held.rho == rho_below(Fraction(1), DELTA / 5) > 0
    assert Ceiling.of(Loss(Fraction(1), DELTA / 1000), found.share).converted == DELTA / 5000


def test_a_delta_is_parted_in_halves_where_nothing_is_said(tmp_path: Path) -> None:
    found = budget(tmp_path, "epsilon = 1", "delta = 1e-6")
    assert found.ceiling.converted == DELTA / 2


@pytest.mark.parametrize(
    "lines", [["delta = 1e-6", "delta_for_conversion = 0"], ["delta = 0"], []]
)
def test_without_a_part_of_delta_epsilons_alone_add_up(
    tmp_path: Path, lines: list[str]
) -> None:
    found = budget(tmp_path, "epsilon = 1", *lines)
    assert found.ceiling == Ceiling(found.limit)


def test_a_budget_may_be_a_rho_and_is_read_as_what_it_converts_to(tmp_path: Path) -> None:
    found = budget(tmp_path, "rho = 0.05", "delta = 1e-6")
    rho = Fraction(5, 100)
    assert found.limit == Loss(epsilon_above(rho, DELTA / 2), DELTA)
    assert found.ceiling == Ceiling(found.limit, DELTA / 2, rho, summed=False)


def test_analysts_have_either_kind_of_limit_under_either(tmp_path: Path) -> None:
    """Each with the policy's delta, parted as the policy's is."""
    for whole in ("rho = 0.05", "epsilon = 3"):
        lines = (
            whole,
            "delta = 1e-6",
            "[analysts.a]",
            "rho = 0.01",
            "[analysts.b]",
            "epsilon = 1",
        )
        analysts = policy(tmp_path, *lines).analysts
        assert analysts["a"] == Ceiling.in_rho(Fraction(1, 100), DELTA, Fraction(1, 2))
        assert analysts["b"] == Ceiling.of(Loss(Fraction(1), DELTA), Fraction(1, 2))


@pytest.mark.parametrize(
    ("lines", "code", "key"),
    [
        (["rho = 0.05"], "DPQ607", "budget.rho"),
        (["rho = 0.05", "delta = 1e-6", "delta_for_conversion = 0"], "DPQ607", "budget.rho"),
        (["rho = 0.05", "epsilon = 1", "delta = 1e-6"], "DPQ607", "budget.rho"),
        (["rho = 0", "delta = 1e-6"], "DPQ604", "budget.rho"),
        (["rho = 1e10", "delta = 1e-6"], "DPQ604", "budget.rho"),
        (["delta = 1e-6"], "DPQ607", "budget"),
    ],
)
def test_a_rho_without_meaning_is_refused(
    tmp_path: Path, lines: list[str], code: str, key: str
) -> None:
    with pytest.raises(PolicyInvalid) as caught:
        budget(tmp_path, *lines)
    assert (caught.value.code, caught.value.key) == (code, key)


def test_a_part_above_the_whole_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolicyInvalid) as caught:
        budget(tmp_path, "epsilon = 1", "delta = 1e-6", "delta_for_conversion = 2e-6")
    assert (caught.value.code, caught.value.line) == ("DPQ604", 4)
    assert caught.value.key == "budget.delta_for_conversion"
    assert caught.value.diagnostic.remedy[0] == "delta_for_conversion = 5e-7"
