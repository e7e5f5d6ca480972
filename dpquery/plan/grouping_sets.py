"""Groupings of one GROUP BY that are added up: the finest of them has all of the price.

By itself each of s groupings has an s-th of it. Or the finest is released for all of it, and
the others are its sums, which costs nothing and makes them agree: better where few groups make
up a total. For that, groups have to part all rows: what no group has is one group more, which
is not shown. Each row is in one group still, so that the same sensitivity covers them all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log, prod

from dpquery.functions.additive_releases import LEVEL, AdditiveRelease
from dpquery.functions.base import Release
from dpquery.functions.rollup_sums import SumRelease
from dpquery.ir.measures import CountRows, SumCodes
from dpquery.ir.query import Call, Key
from dpquery.mechanisms import DiscreteLaplace

MOST_ADDED = 4096
"""Groups that are added up at most."""


def whole_keys(sets: Sequence[Sequence[Key]]) -> tuple[Key, ...] | None:
    """Return the keys of the first grouping, with a value for all that has none of theirs.

    None where the others are not made up of its groups, or there is no such value: NULL, where
    it is no group itself.
    """
    finest, *others = sets
    if not others:
        return None
    columns = {key.column for key in finest}
    if any(not columns.issuperset(key.column for key in own) for own in others):
        return None
    if any(key.finding is not None or key.beside for key in finest):
        return None
    if any(key.left_out and (None in key.listed or key.rest) for key in finest):
        return None
    whole = tuple(
        replace(key, listed=(*key.listed, None), rest=True) if key.left_out else key
        for key in finest
    )
    return whole if prod(key.size for key in whole) <= MOST_ADDED else None


def with_all(calls: Sequence[Call], sets: int) -> tuple[Call, ...] | None:
    """Return calls with what so many groupings have together; None where they ask for more."""
    options = [call.options for call in calls]
    if any(one.wanted or one.auto or one.auto_rows or one.delta or one.rho for one in options):
        return None
    return tuple(
        replace(call, options=replace(one, epsilon=one.epsilon * sets, spare=one.spare * sets))
        for call, one in zip(calls, options, strict=True)
    )


def sums_of(
    finest: Sequence[Release], keys: Sequence[Key], own: Sequence[Key]
) -> list[SumRelease] | None:
    """Return what adds up the groups of some keys to those of fewer; None if they do not."""
    here = {key.column for key in own}
    times = prod(key.size for key in keys if key.column not in here)
    found = []
    for one in finest:
        match one:
            case AdditiveRelease(
                mechanism=DiscreteLaplace(),
                measures=(CountRows() | SumCodes(degree=1),),
            ):
                found.append(SumRelease.made(one, times))
            case _:
                return None
    return found


def are_better(added: Sequence[Sequence[Release]], apart: Sequence[Sequence[Release]]) -> bool:
    """Return whether groupings that are added up err less: each call, over all of them.

    What counts is the product of its errors: half of one is as good as half of another.
    """
    pairs = zip(zip(*added, strict=True), zip(*apart, strict=True), strict=True)
    return all(_errors(one) < _errors(other) for one, other in pairs)


def _errors(releases: Sequence[Release]) -> float:
    known = (one for one in releases if isinstance(one, AdditiveRelease | SumRelease))
    return sum(log(max(one.reach(LEVEL), LEVEL)) for one in known)
