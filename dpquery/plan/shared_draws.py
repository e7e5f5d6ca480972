"""Which calls of a SELECT are drawn together: those that share the statement's price.

Numbers of one column share a draw of its Bernstein sums (`functions/moments/joint.py`), which
never has more noise than they would have apart. Counts and sums can share a Gaussian vector
(`functions/gaussian_vector.py`), where the statement has a delta, or the budget is in rho: they
do where none of them is farther off than otherwise. Which it is follows from query and policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from dpquery.core.privacy_loss import Ceiling
from dpquery.functions.additive_releases import LEVEL, AdditiveRelease, significant
from dpquery.functions.base import Facts, Release
from dpquery.functions.gaussian_vector import Member, VectorRelease, families, in_one_draw
from dpquery.functions.moments.joint_draw import JointRelease, together
from dpquery.ir.query import Call


class Shared(NamedTuple):
    """How a call is released beside others."""

    first: int
    """The place of the first call in its draw, which can be its own."""
    release: Release
    why: str = ""
    """Why so, where there was a choice."""


def shared_draws(
    calls: Sequence[Call], apart: Sequence[Release], facts: Facts, ceiling: Ceiling
) -> dict[int, Shared]:
    """Return, by their places, how calls are released of which there is more to say.

    In rho, one draw of Bernstein sums for all of it would lose more than theirs together.

    Args:
        calls: those of one SELECT.
        apart: how each would be released by itself.
        facts: what is known where they stand.
        ceiling: how losses add up.
    """
    sums = together(calls, apart, facts) if ceiling.summed else {}
    found = {at: Shared(first, release) for at, (first, release) in sums.items()}
    shaped = {first for first, release in sums.values() if release.linear is None}
    for members in families(calls, apart, ceiling):
        plain = {at: one for at, one in members.items() if sums.get(at, (-1,))[0] not in shaped}
        alone = {at: one for at, one in plain.items() if at not in sums}
        found |= _chosen([plain, alone], found, facts, ceiling)
    return found


def _chosen(
    choices: Sequence[Mapping[int, Member]],
    found: Mapping[int, Shared],
    facts: Facts,
    ceiling: Ceiling,
) -> dict[int, Shared]:
    """Return one draw for the first choice of calls of which none is farther off then.

    Where there is none, the calls stay as they are, and say so.
    """
    said: dict[int, Shared] = {}
    for members in choices:
        if len({one.measure for one in members.values()}) < 2:
            continue
        vector = in_one_draw([*members.values()], facts, ceiling)
        others = [found.get(at, Shared(at, one.alone)) for at, one in members.items()]
        beside = [*zip(members, vector, others, strict=True)]
        reach = {at: (_reach(one), _reach(other.release)) for at, one, other in beside}
        drawn = f"one Gaussian draw for {len(vector)} calls"
        if all(here <= there for here, there in reach.values()):
            whys = {
                at: f"{drawn}: ± {significant(here)}, else ± {significant(there)}"
                for at, (here, there) in reach.items()
            }
            first = min(members)
            return {at: Shared(first, one, whys[at]) for at, one, _ in beside}
        for at, _, other in beside:
            why = f"{drawn} would be off by ± {significant(reach[at][0])}"
            said[at] = other._replace(why=why)
    return said


def _reach(release: Release) -> Fraction:
    """Return how far the noise of a count or a sum takes it, as often as errors are shown."""
    assert isinstance(release, AdditiveRelease | JointRelease | VectorRelease)  # noqa: S101
    return release.reach(LEVEL)
