"""What a policy's budget hardly promises any more, for the data owner: epsilon and delta.

None of it is a fault, since the owner decides how much may be lost. Deltas are held against the
numbers of units too, which `check.py` counts in the data.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from dpquery.ceilings import Ceiling
from dpquery.policy.model import Policy
from dpquery.privacy import decimal_text

__all__ = ["above_one_unit", "generous"]

LARGE_EPSILON = 20
"""What censuses have spent in all; most budgets stay below half of it."""
LARGE_DELTA = Fraction(1, 10**5)


def generous(policy: Policy) -> Iterator[tuple[str, str, str]]:
    """Yield section, key and text of each limit that protects little, or never binds."""
    whole = policy.budget.ceiling
    for key, text in _large(whole):
        yield "budget", key, text
    of_query = policy.budget.max_epsilon_per_query
    if of_query is not None and of_query > whole.limit.epsilon:
        yield "budget", "max_epsilon_per_query", _never_binds(of_query, whole.limit.epsilon)
    for name, own in policy.analysts.items():
        yield from ((f"analysts.{name}", *each) for each in _beyond(own, whole))


def _large(ceiling: Ceiling) -> Iterator[tuple[str, str]]:
    epsilon, delta = ceiling.limit.epsilon, ceiling.limit.delta
    if epsilon > LARGE_EPSILON:
        text = (
            f"{decimal_text(epsilon, 4)} is above {LARGE_EPSILON}: answers may nearly show "
            "what is true of one unit; 1 protects well, and 10 is much"
        )
        yield ("epsilon" if ceiling.summed else "rho"), text
    if delta > LARGE_DELTA:
        text = (
            f"{decimal_text(delta)} is above 1e-5: with that chance nothing is promised; "
            "it should be far below 1 / the number of units"
        )
        yield "delta", text


def _beyond(own: Ceiling, whole: Ceiling) -> Iterator[tuple[str, str]]:
    limits = (
        ("epsilon" if own.summed else "rho", own.limit.epsilon, whole.limit.epsilon),
        ("delta", own.limit.delta, whole.limit.delta),
    )
    for key, limit, most in limits:
        if limit > most:
            yield key, _never_binds(limit, most)


def _never_binds(limit: Fraction, most: Fraction) -> str:
    return (
        f"{decimal_text(limit, 4)} is above the {decimal_text(most, 4)} that the policy has in "
        "all: the total binds first"
    )


def above_one_unit(delta: Fraction, units: int) -> str | None:
    """Return what is to be said of a delta that allows to show a unit of so many."""
    if delta * units <= 1:
        return None
    return (
        f"delta = {decimal_text(delta)} is above 1 / {units:,} units: an answer that shows one "
        "of them whole would be allowed"
    )
