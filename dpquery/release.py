"""The only place where exact values meet noise.

Before anything is drawn, each mechanism states its loss again, and it has to be what the
receipt says was charged (I7). Randomness enters here and nowhere else (I10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpquery.budget.charge import Receipt
from dpquery.engine.base import Exact
from dpquery.errors import internal
from dpquery.functions.base import NoisyCell
from dpquery.ir import Key
from dpquery.mechanisms.randomness import Randomness
from dpquery.plan import Plan
from dpquery.types import Interval, Type

__all__ = ["ReleasedColumn", "ReleasedTable", "find_bounds", "release"]


@dataclass(frozen=True, slots=True)
class ReleasedColumn:
    """The noisy values of one call, one per group."""

    name: str
    type: Type
    cells: Sequence[NoisyCell]


@dataclass(frozen=True, slots=True)
class ReleasedTable:
    """What one frontier released: a row for each combination of its public keys."""

    keys: tuple[Key, ...]
    columns: tuple[ReleasedColumn, ...]


def release(
    plan: Plan, number: int, exact: Exact, receipt: Receipt, randomness: Randomness
) -> ReleasedTable:
    """Draw every value of one frontier.

    Raises:
        InternalError: the receipt is for another charge, or the randomness looks broken.
    """
    _require_charged(plan, number, receipt)
    frontier = plan.frontiers[number]
    columns = tuple(
        ReleasedColumn(one.column, one.release.type, one.release.run(exact, randomness))
        for one in frontier.releases
    )
    return ReleasedTable(frontier.scan.keys, columns)


def find_bounds(
    plan: Plan, number: int, exact: Exact, receipt: Receipt, randomness: Randomness
) -> Interval | None:
    """Draw the bounds of one search, whose scan has that number in the charge.

    Raises:
        InternalError: as above.
    """
    _require_charged(plan, number, receipt)
    search = plan.searches[number - len(plan.frontiers)]
    (found,) = search.release.run(exact, randomness)
    return found.value


def _require_charged(plan: Plan, number: int, receipt: Receipt) -> None:
    if receipt.charge is not plan.charge:
        raise internal("a plan is released against the receipt of its own charge (I3)")
    releases = plan.releases
    before = sum(map(len, releases[:number]))
    charged = receipt.charge.events[before : before + len(releases[number])]
    if charged != tuple(one.event() for one in releases[number]):
        raise internal("a plan's charge is the loss of its mechanisms (I7)")
