"""From a plan that waits for bounds or limits to one that has them, as searches found them.

The charge stays as it is, and each mechanism states its loss against it again before it draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpquery.functions.base import Facts
from dpquery.functions.search import fallback
from dpquery.plan import FrontierPlan, Plan, PlannedRelease, measures_of
from dpquery.policy.model import Policy
from dpquery.searches import limited, narrowed, planned
from dpquery.types import Interval

__all__ = ["with_bounds"]

Found = Sequence[Interval | None]
"""What each search found; None where no value stood out."""


def with_bounds(plan: Plan, found: Found, policy: Policy) -> Plan:
    """Give a plan whose calls have the bounds that its searches found.

    Where one found none, the bounds are a constant, whatever the data.
    """
    frontiers = tuple(_bounded(frontier, found, policy) for frontier in plan.frontiers)
    return replace(plan, frontiers=frontiers, found=tuple(found))


def _bounded(frontier: FrontierPlan, found: Found, policy: Policy) -> FrontierPlan:
    scan = frontier.scan
    facts = Facts(scan.contribution, policy.neighbours, scan.cells, grouped=bool(scan.keys))
    releases = tuple(_again(one, found, facts) for one in frontier.releases)
    return FrontierPlan(replace(scan, measures=measures_of(releases)), releases)


def _again(waiting: PlannedRelease, found: Found, facts: Facts) -> PlannedRelease:
    call, options = waiting.call, waiting.call.options
    if options.rows_search is not None:
        limit = found[options.rows_search]
        assert limit is not None  # noqa: S101 - a limit is always found
        call = limited(call, limit)
    if options.search is not None and call.argument is not None:
        call = narrowed(call, found[options.search] or fallback(call.argument.type))
    if call is waiting.call:
        return waiting
    return replace(waiting, call=call, release=planned(call, facts))
