"""Groups that are added up have, before noise, what their union has: none is left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpquery.core.privacy_loss import Neighbours
from dpquery.engine.base import FaultLog
from dpquery.ir.query import combinations
from dpquery.plan.plan import Plan
from dpquery.policy.model import Policy
from tests.neighbours import Pair
from tests.oracle import engine as oracle
from tests.property.test_neighbours import KINDS, policies
from tests.strategies import pairs
from tests.worlds import planned, receipt_for

KEYS = (
    "k", "b", "j // 10", "(k = 'a')", "CASE WHEN i > 3 THEN 1 WHEN i < 0 THEN 2 END",
    "CASE WHEN b THEN 'x' ELSE 'y' END", "(i > 50)", "(day > DATE '2010-01-01')",
    "year(day) // 10", "coalesce(b, false)", "(i IS NULL)", "quarter(day)", "(k || 'x' = 'ax')",
    "least(i // 20, 2)",
)  # fmt: skip
CALLS = "DP_COUNT(*, eps=1), DP_SUM(i, eps=1), DP_COUNT(d, eps=1)"


@st.composite
def cases(draw: st.DrawFn) -> tuple[Pair, str, str]:
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, max_size=3, unique=True))
    sets = draw(st.sampled_from(["ROLLUP", "CUBE"]))
    where = draw(st.sampled_from(["", " WHERE b", " WHERE i > 3", " WHERE k IN ('a', 'b')"]))
    kind = draw(st.sampled_from([one for one in KINDS if one != "rows are units"]))
    pair = draw(pairs(Neighbours.ADD_REMOVE, kind == "one row per unit", False))
    return pair, f"SELECT {CALLS} FROM t{where} GROUP BY {sets} ({', '.join(keys)})", kind


def exact(policy: Policy, plan: Plan, number: int) -> list[Counter[tuple[object, ...]]]:
    """Return the exact values of each call by group, as the first frontier measures them."""
    frontier, first = plan.frontiers[number], plan.frontiers[0]
    scan = replace(frontier.scan, measures=first.scan.measures)
    changed = replace(plan, frontiers=(replace(first, scan=scan), *plan.frontiers[1:]))
    with oracle.PythonEngine(policy, FaultLog(None)).open(
        scan, receipt_for(replace(changed, charge=replace(plan.charge, scans=(scan,)))), 0
    ) as held:
        groups = list(combinations(scan.keys)) if scan.keys else [()]
        return [
            Counter(dict(zip(groups, held.values(one.release.measure), strict=True)))
            for one in first.releases
        ]


LEFT = {"i": 7, "k": "zz", "b": None}
"""A row that is in no group of k or b."""


@settings(max_examples=25)
@given(cases())
@example(
    (
        Pair([[LEFT]], [[LEFT]], ([], [])),
        f"SELECT {CALLS} FROM t GROUP BY CUBE (k, b)",
        "weights",
    )
)
def test_groups_add_up_to_those_of_fewer_keys(case: tuple[Pair, str, str]):
    pair, text, kind = case
    with policies(pair, kind, 1, Neighbours.ADD_REMOVE, [text]) as (policy, _):
        plan = planned(policy, text)
        first = plan.frontiers[0].scan.keys
        whole = exact(policy, plan, 0)
        for number, frontier in enumerate(plan.frontiers):
            if frontier.added is None:
                continue
            names = [key.column for key in first]
            places = [names.index(key.column) for key in frontier.scan.keys]
            for cells, own in zip(whole, exact(policy, plan, number), strict=True):
                sums = Counter[tuple[object, ...]]()
                for group, value in cells.items():
                    sums[tuple(group[at] for at in places)] += value
                assert {group: sums[group] for group in own} == dict(own)
