"""What a statement may spend in all: said by the call, by the session, or by the data owner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from dpquery.core.privacy_loss import (
    EPSILON_MAX,
    EPSILON_MIN,
    Ceiling,
    Loss,
    decimal_text,
    exact_number,
)
from dpquery.errors import refusal

_ENDS = {
    "eps": (EPSILON_MIN, EPSILON_MAX),
    "delta": (Fraction(1, 10**30), Fraction(1, 10)),
}
_EXAMPLES = {"eps": "SET dp.eps = 0.5", "delta": "SET dp.delta = 1e-7"}
_STATEMENTS = 100
"""Of the budget's delta, one statement has such a part unless somebody says otherwise."""


@dataclass(frozen=True, slots=True)
class StatementPrice(Loss):
    """What a statement may spend, where nobody said so in the call."""

    implied: bool = False
    """Whether its delta is a part of the budget's that nobody stated: for groups alone."""


def states_delta(price: Loss) -> bool:
    """Return whether somebody said so of the delta that a statement may spend."""
    return bool(price.delta) and not (isinstance(price, StatementPrice) and price.implied)


@dataclass(slots=True)
class Prices:
    """The epsilon and delta of statements that do not say themselves."""

    owner: Mapping[str, Fraction | None]
    """The eps and delta that the policy gives each statement."""
    limit: Ceiling
    """The narrowest limit of the session."""
    chosen: dict[str, Fraction] = field(default_factory=dict)
    """What the analyst set for the session."""

    def price(self, eps: object = None, delta: object = None) -> StatementPrice | None:
        """Return what a statement may spend on calls that state nothing; None if nobody said.

        Raises:
            NameRefused: DPQ205 it is no number, or out of range.
        """
        epsilon = read_price("eps", eps) if eps is not None else self._standing("eps")
        if epsilon is None:
            return None
        given = read_price("delta", delta) if delta is not None else self._standing("delta")
        part = self.limit.limit.delta / _STATEMENTS
        return StatementPrice(epsilon, part if given is None else given, implied=given is None)

    def of_clause(self, stated: Mapping[str, str], price: Loss | None) -> Loss | None:
        """Return what a statement may spend by its own clause, as far as that says.

        Raises:
            NameRefused: DPQ205 a number out of range.
        """
        said = price.delta if price is not None and states_delta(price) else None
        delta: object = stated.get("delta", said)
        epsilon: object = stated.get("epsilon", None if price is None else price.epsilon)
        found = self.price(epsilon, delta)
        if found and stated.get("group_selection_strategy", "").upper() == "PUBLIC_GROUPS":
            return Loss(found.epsilon)
        return found

    def _standing(self, name: str) -> Fraction | None:
        return self.chosen.get(name, self.owner.get(name))

    def set(self, name: str, value: str | None) -> None:
        """Choose eps or delta for what follows; without a value, no longer.

        Raises:
            NameRefused: DPQ205 it is no number, or out of range.
        """
        if value is None:
            self.chosen.pop(name, None)
        else:
            self.chosen[name] = read_price(name, value)

    def said(self) -> str:
        """Return what holds now, in a line."""
        price = self.price()
        if price is None:
            return "each call states its own eps"
        return f"each statement may spend {price}, shared by the calls that state no eps"


def read_price(name: str, value: object) -> Fraction:
    """Read an eps or a delta of a statement.

    Raises:
        NameRefused: DPQ205 it is no number, or out of range.
    """
    low, high = _ENDS[name]
    try:
        number = exact_number(value)
    except ValueError:
        number = None
    if number is not None and low <= number <= high:
        return number
    raise refusal(
        "DPQ205",
        f"{name} of a statement is a number from {decimal_text(low)} to {decimal_text(high)}",
        None,
        "",
        f"it was given as {str(value)[:40]!r}.",
        _EXAMPLES[name],
    )
