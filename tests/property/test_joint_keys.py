"""Combinations that are found together: the law of what is shown, on every small world.

The rows of a unit are chosen from four combinations of a text and a number, NULL among them.
Which of its own a unit counts in, how many units each has then, and the exact law of the sets
that are shown are computed for every pair of neighbours. It has to keep the claim of the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import combinations, product
from pathlib import Path

import pytest

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.types import INTEGER, TEXT
from dpquery.functions.dp_keys import KeysRelease
from dpquery.ir.expr import ColumnRef
from dpquery.plan.plan import Plan
from dpquery.policy.model import Column
from tests.oracle.totals import Totals
from tests.worlds import planned, policy_of, private_table

PAIRS = [("x", 0), ("x", 1), (None, 0), (None, None)]
Rows = tuple[tuple[str | None, int | None], ...]
UNITS: list[Rows] = [pairs for n in range(4) for pairs in combinations(PAIRS, n)]
"""What a unit may have: up to three of the combinations."""


def plan_of(neighbours: Neighbours, options: str, *, null_group: bool = True) -> Plan:
    columns = [Column("a", TEXT, null_group=null_group), Column("b", INTEGER)]
    table = private_table([Path("none.parquet")], columns, max_rows_contributed=9)
    call = f"DP_KEYS(a, b, eps=1, delta=0.1{options})"
    return planned(policy_of(table, neighbours), f"SELECT a, b FROM t GROUP BY {call}")


def counted(plan: Plan, units: Sequence[Rows]) -> Counter[object]:
    """Count the units of each combination, as an engine does."""
    scan = plan.frontiers[0].scan
    (measure,) = scan.measures
    refs = [expr for expr in measure.values if isinstance(expr, ColumnRef)]
    rows = [
        (unit, {(ref.of, ref.name): value for ref, value in zip(refs, told, strict=True)})
        for unit, pairs in enumerate(units)
        for told in pairs
    ]
    return Totals(scan, rows, "secret")._candidates(measure)


def chance_of(
    release: KeysRelease, counts: Counter[object]
) -> dict[frozenset[object], Decimal]:
    """Return the probability of each set that may be shown."""
    shown = {}
    for bits in product((False, True), repeat=len(PAIRS)):
        chance = Fraction(1)
        for pair, bit in zip(PAIRS, bits, strict=True):
            p = release.mechanism.probability(counts[pair])
            chance *= p if bit else 1 - p
        held = frozenset(pair for pair, bit in zip(PAIRS, bits, strict=True) if bit)
        shown[held] = Decimal(chance.numerator) / chance.denominator
    return shown


def neighbours_of(relation: Neighbours) -> Iterator[tuple[list[Rows], list[Rows]]]:
    """Give worlds of one or two units, and the same with one unit added or replaced."""
    for base in UNITS:
        for one in UNITS:
            if relation is Neighbours.ADD_REMOVE:
                yield [one], [one, base]
            for other in UNITS if relation is Neighbours.SUBSTITUTE else ():
                yield [base, one], [base, other]


@pytest.mark.parametrize("options", ["", ", max_groups_contributed=2", ", min_units=2"])
@pytest.mark.parametrize("relation", Neighbours)
def test_what_is_shown_of_neighbours_keeps_the_claim(relation: Neighbours, options: str):
    plan = plan_of(relation, options)
    release = plan.frontiers[0].releases[0].release
    assert isinstance(release, KeysRelease)
    loss, worst = release.mechanism.loss(release.distance), Decimal(0)
    assert (loss.epsilon, loss.delta) == (1, Fraction(1, 10))
    known: dict[frozenset[tuple[object, int]], dict[frozenset[object], Decimal]] = {}
    with localcontext(prec=40):
        grow = Decimal(1).exp()
        for worlds in neighbours_of(relation):
            counts = [counted(plan, units) for units in worlds]
            moves = [abs(counts[0][pair] - counts[1][pair]) for pair in PAIRS]
            assert max(moves) <= 1
            assert sum(moves) <= release.distance
            laws = []
            for count in counts:
                key = frozenset(count.items())
                if key not in known:
                    known[key] = chance_of(release, count)
                laws.append(known[key])
            for a, b in (laws, laws[::-1]):
                over = (a[held] - grow * b[held] for held in a)
                worst = max(worst, sum((part for part in over if part > 0), Decimal(0)))
    assert worst <= Decimal("0.1")
    assert worst > Decimal("0.04"), "the claim is used, in one of the worlds"


def test_a_unit_that_counted_in_all_it_has_would_be_found_out(monkeypatch: pytest.MonkeyPatch):
    """Bounding is what the claim rests on: without it, three counts move."""
    monkeypatch.setattr("tests.oracle.totals.kept_of_units", lambda pairs, *_: {*pairs})
    plan = plan_of(Neighbours.ADD_REMOVE, "")
    assert sum(counted(plan, [tuple(PAIRS[:3])]).values()) == 3
    assert plan.frontiers[0].releases[0].release.distance == 1


@pytest.mark.parametrize("null_group", [False, True])
def test_null_is_a_part_of_a_combination_unless_the_policy_says_no(null_group: bool):
    plan = plan_of(Neighbours.ADD_REMOVE, "", null_group=null_group)
    found = counted(plan, [(pair,) for pair in PAIRS])
    assert {*found} == {pair for pair in PAIRS if null_group or pair[0] is not None}
