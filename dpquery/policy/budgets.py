"""The limits of a policy: the whole, and each analyst's, in epsilon or in rho."""

from __future__ import annotations

from fractions import Fraction

from dpquery.ceilings import HALF, Ceiling
from dpquery.policy.columns import refuse_alike
from dpquery.policy.document import Section
from dpquery.policy.model import Budget
from dpquery.policy.unfit import Unfit
from dpquery.policy.values import read_delta, read_epsilon, read_flag, read_rho
from dpquery.privacy import Loss, decimal_text

__all__ = ["read_analysts", "read_budget"]

_BUDGET_KEYS = (
    "epsilon",
    "rho",
    "delta",
    "delta_for_conversion",
    "max_epsilon_per_query",
    "shared_answers",
)


def read_budget(section: Section) -> Budget:
    """Read what all queries together may lose."""
    section.only(_BUDGET_KEYS)
    delta = section.read("delta", read_delta, Fraction(0))
    share = _share(section, delta)
    most = section.read("max_epsilon_per_query", read_epsilon, None)
    shared = section.read("shared_answers", read_flag, False)
    return Budget(_ceiling(section, delta, share), most, share, shared)


def read_analysts(section: Section, budget: Budget) -> dict[str, Ceiling]:
    """Read the analysts' own ceilings; one that says nothing of delta shares the policy's."""
    refuse_alike(section)
    found = {}
    for name, child in section.children():
        analyst = child.only(("epsilon", "rho", "delta"))
        delta = analyst.read("delta", read_delta, budget.limit.delta)
        found[name] = _ceiling(analyst, delta, budget.share)
    return found


def _share(section: Section, delta: Fraction) -> Fraction:
    """Read which part of delta is kept to convert rho; half of it, where nothing is said."""
    converted = section.read("delta_for_conversion", read_delta, None)
    if converted is None:
        return HALF
    if not converted <= delta:
        why = "it is the part of delta at which rho is converted; the rest is for releases."
        half = f"delta_for_conversion = {decimal_text(delta / 2)}"
        raise section.refuse("delta_for_conversion", Unfit("is above delta", why, half))
    return converted / delta if delta else HALF


def _ceiling(section: Section, delta: Fraction, share: Fraction) -> Ceiling:
    if "rho" not in section:
        return Ceiling.of(Loss(_epsilon(section), delta), share)
    rho = section.need("rho", read_rho)
    if "epsilon" in section:
        why = "under rho no epsilons are added up; under epsilon and delta, either sum may do."
        unfit = Unfit("stands beside epsilon", why, f"rho = {decimal_text(rho)}", code="DPQ607")
        raise section.refuse("rho", unfit)
    if not delta * share:
        why = "a rho says nothing about odds before it is converted, at a part of delta."
        unfit = Unfit("has no delta to be converted at", why, "delta = 1e-6", code="DPQ607")
        raise section.refuse("rho", unfit)
    return Ceiling.in_rho(rho, delta, share)


def _epsilon(section: Section) -> Fraction:
    if "epsilon" not in section:
        why = "there is no default: the owner states how much may be lost in all."
        unfit = Unfit("has no epsilon", why, "epsilon = 1", code="DPQ607")
        raise section.refuse(None, unfit)
    return section.need("epsilon", read_epsilon)
