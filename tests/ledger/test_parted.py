"""How the ledger keeps charges on parts: by column, version of the data, analyst, session."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.budget.accountant import NOTHING, Spent, additive
from dpquery.budget.admission import require_within
from dpquery.budget.ledger.charge_and_receipt import Charge
from dpquery.budget.ledger.ledger import Ledger
from dpquery.budget.ledger.owner_orders import Promise
from dpquery.budget.ledger.record import Total, Totals
from dpquery.budget.parallel_composition import Counting, Touched
from dpquery.errors import BudgetRefused, PolicyInvalid
from tests.ledger.helpers import ALICE, BOB, gaussian, limits, loss, open_at, pure

ONE, OTHER = "t.region 1", "s.shop 2"
SEVERAL = {ONE: 1, OTHER: 1, "t.shop 3": 2}
"""How many parts of each column a unit can have, where totals are held against their law."""
NAMES = ("region = 'N'", "region = 'S'", "any other region")
ALONE = Promise("add-remove", (("table t", "by unit"),))
IN_PAIRS = Promise("substitute", ALONE.units)


def on(*parts: int, column: str = ONE, per_unit: int = 1) -> Touched:
    return Touched(column, parts, NAMES, "t by region", per_unit)


def charged(epsilon: object, *parts: int, column: str = ONE) -> Charge:
    return replace(pure(epsilon), touched=on(*parts, column=column) if parts else None)


def spent(ledger: Ledger, *parts: int, column: str = ONE, most=100, who=ALICE) -> Fraction:
    touched = on(*parts, column=column) if parts else None
    return ledger.standing(limits(most), who, touched).spent.epsilon


def by_part(ledger: Ledger) -> list[Fraction]:
    return [spent(ledger, part) for part in range(len(NAMES))]


def after(promise: Promise, *charges: Charge, path=None) -> Ledger:
    ledger = open_at(path, None, promise)
    for charge in charges:
        ledger.charge(charge, limits(100), ALICE)
    return ledger


def test_parts_share_the_largest_of_their_sums():
    ledger = after(
        ALONE, charged(3, 0), charged(2, 1), charged(1, 0, 1), charged(Fraction(1, 2))
    )
    with closing(ledger):
        assert by_part(ledger) == [
            Fraction(9, 2),
            Fraction(7, 2),
            Fraction(1, 2),
        ]
        assert spent(ledger) == spent(ledger, 0, 2) == spent(ledger, 0, 1, 2) == Fraction(9, 2)
        assert ledger.verify() == 4


def test_where_units_are_replaced_two_parts_add_up():
    ledger = after(
        IN_PAIRS, charged(3, 0), charged(2, 1), charged(1, 2), charged(Fraction(1, 2))
    )
    with closing(ledger):
        assert spent(ledger) == Fraction(11, 2)
        assert by_part(ledger) == [
            Fraction(11, 2),
            Fraction(11, 2),
            Fraction(9, 2),
        ]
        ledger.charge(charged(1, 0, 1), limits(100), ALICE)  # on two: whoever is replaced
        assert spent(ledger, 2) == Fraction(11, 2)
        assert ledger.verify() == 5


def test_a_unit_of_several_parts_loses_on_as_many():
    def several(epsilon: object, *parts: int) -> Charge:
        return replace(pure(epsilon), touched=on(*parts, per_unit=2))

    charges = [several(3, 0), several(2, 1), several(1, 2), several(Fraction(1, 2), 0, 1)]
    with closing(after(ALONE, *charges)) as ledger:  # the last is on all
        assert spent(ledger) == spent(ledger, 0) == spent(ledger, 1) == Fraction(11, 2)
        assert spent(ledger, 2) == Fraction(9, 2)
        assert ledger.verify() == 4
    with closing(after(IN_PAIRS, *charges)) as ledger:
        assert spent(ledger) == spent(ledger, 2) == Fraction(13, 2)
        assert ledger.verify() == 4


def test_parts_of_two_columns_add_up():
    ledger = after(ALONE, charged(3, 0), charged(2, 1), charged(1, 1, column=OTHER))
    with closing(ledger):
        assert spent(ledger) == spent(ledger, 0) == 4
        assert spent(ledger, 2) == 1
        assert spent(ledger, 0, column=OTHER) == 3
        assert ledger.verify() == 3


@pytest.mark.parametrize("promise", [ALONE, IN_PAIRS])
def test_a_limit_is_kept_by_each_part_and_says_which(promise):
    with closing(after(promise, charged("0.7", 0))) as ledger:
        with pytest.raises(BudgetRefused) as caught:
            ledger.charge(charged("0.4", 0), limits(1), ALICE)
        assert caught.value.left == Fraction(3, 10)
        assert caught.value.diagnostic.why[-1] == (
            "region = 'N' has 0.3 left of 1; this query touches 1 of 3 parts of t by region."
        )
        with pytest.raises(BudgetRefused) as caught:
            ledger.charge(charged("0.4", 0, 1, 2), limits(1), ALICE)
        assert caught.value.diagnostic.why[-1] == (
            "this query touches all 3 parts of t by region; one alone may have more left."
        )
        if promise is ALONE:
            ledger.charge(charged("1", 1), limits(1), ALICE)
        else:
            ledger.charge(charged("0.3", 1), limits(1), ALICE)
        with pytest.raises(BudgetRefused):
            ledger.charge(charged("0.5", 1), limits(1), ALICE)


def test_analysts_and_sessions_have_parts_of_their_own():
    with closing(after(ALONE, charged(3, 0))) as ledger:
        ledger.charge(charged(2, 1), limits(100), BOB)
        mine, all_ = limits(100, analyst=10), limits(100)
        assert ledger.standing(mine, ALICE).spent.epsilon == 3
        assert ledger.standing(mine, BOB).spent.epsilon == 2
        assert ledger.standing(mine, BOB, on(0)).spent.epsilon == 0
        assert ledger.standing(all_, BOB, on(0)).spent.epsilon == 3


def test_a_new_version_begins_parts_anew_above_what_was_lost(tmp_path):
    path = tmp_path / "t.ledger"
    with closing(after(ALONE, charged(3, 0), charged(2, 1), path=path)) as ledger:
        ledger.publish()
        assert by_part(ledger) == [3, 3, 3]
        ledger.charge(charged(1, 2), limits(100), ALICE)
        assert by_part(ledger) == [3, 3, 4]
        assert spent(ledger, 0, who=BOB) == 3
        ledger.charge(charged(1, 0), limits(100), BOB)
        assert ledger.standing(limits(100, analyst=50), BOB).spent.epsilon == 1
        assert ledger.verify() == 4
    with closing(open_at(path)) as ledger:
        assert by_part(ledger) == [4, 3, 4]
        assert ledger.verify() == 4


@pytest.mark.parametrize(
    ("old", "new"),
    [('[0],1],["composed"', '[1],1],["composed"'), ('[[0,"7/10"', '[[1,"7/10"')],
)
def test_a_part_that_was_changed_is_noticed(tmp_path, old, new):
    path = tmp_path / "t.ledger"
    after(ALONE, charged("0.7", 0), charged("0.1"), path=path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as sql:
        sql.execute("DROP TRIGGER no_update")
        sql.execute(
            "UPDATE charges SET events = replace(events, ?1, ?2), "
            "totals = replace(totals, ?1, ?2) WHERE sequence = 2",
            (old, new),
        )
        assert sql.execute("SELECT total_changes()").fetchone() == (1,)
    with closing(open_at(path)) as ledger, pytest.raises(PolicyInvalid, match="damaged"):
        ledger.verify()


# What follows holds totals against their definition: charge by charge, for each unit.

amounts = st.fractions(0, 3, max_denominator=4)
spendings = st.builds(
    lambda e, d, r, summed: Spent(loss(e, d), r, summed),
    amounts,
    amounts,
    amounts,
    st.booleans(),
)
touches = st.none() | st.builds(
    lambda parts, column: on(*sorted(parts), column=column, per_unit=SEVERAL[column]),
    st.sets(st.integers(0, 2), min_size=1),
    st.sampled_from([*SEVERAL]),
)
steps = st.lists(st.one_of(st.just("publish"), st.tuples(spendings, touches)), max_size=8)


@given(steps, st.booleans(), touches)
def test_a_total_bounds_what_any_unit_has_lost(taken, pairs, asked):
    """A unit has parts of each column in each version, and others when it is replaced."""
    total, version = Total(), 0
    charges: list[tuple[int, Spent, Touched | None]] = []
    for step in taken:
        if step == "publish":
            version += 1
        else:
            total = total.plus(step[0], Counting(version, pairs), step[1])
            charges.append((version, *step))
    told = total.most(Counting(version, pairs), asked)
    lost = _sum(spent_ for _, spent_, touched in charges if touched is None)
    for way in product(range(version + 1), SEVERAL):
        near = asked if asked is not None and way == (version, asked.column) else None
        lost += _worst(charges, way, pairs, near)
    everything = _sum(spent_ for _, spent_, _ in charges)
    assert _within(lost, told)
    assert _within(told, everything)
    alone = all(touched is None or touched.per_unit == 1 for _, _, touched in charges)
    assert pairs or not alone or told.loss == lost.loss


def _worst(charges, way, pairs: bool, near: Touched | None) -> Spent:
    """Return what is lost at most in one way of parting, where the units asked for are near."""
    places = combinations(range(3), min(3, SEVERAL[way[1]] * (2 if pairs else 1)))
    found = [
        _sum(
            spent_
            for version, spent_, touched in charges
            if touched and (version, touched.column) == way and {*at} & {*touched.parts}
        )
        for at in places
        if near is None or {*at} & {*near.parts}
    ]
    most = loss(max(s.loss.epsilon for s in found), max(s.loss.delta for s in found))
    return Spent(most, max(s.rho for s in found))


def _within(one: Spent, other: Spent) -> bool:
    return one.loss.within(other.loss) and one.rho <= other.rho


def _sum(spendings_) -> Spent:
    return sum(spendings_, NOTHING)


@given(steps, st.booleans())
def test_totals_are_read_as_they_were_written(taken, pairs):
    totals, version = Totals(), 0
    for step in taken:
        if step == "publish":
            version += 1
        else:
            totals = totals.plus(step[0], Counting(version, pairs), step[1])
    assert Totals.read(totals.text()) == totals


def test_a_charge_with_a_delta_keeps_it_by_part():
    charge = replace(gaussian("0.1", "1e-7"), touched=on(1))
    ceilings = limits(1, delta="2e-7")
    with closing(open_at(None, None, ALONE)) as ledger:
        for _ in range(2):
            ledger.charge(charge, ceilings, ALICE)
        with pytest.raises(BudgetRefused, match="delta"):
            ledger.charge(charge, ceilings, ALICE)
        ledger.charge(replace(charge, touched=on(0)), ceilings, ALICE)
        assert ledger.standing(ceilings, ALICE, on(0)).spent == loss("0.1", "1e-7")


# Where a unit has a share of each part, one sum has to keep the limit in all of them.

BY_EITHER = limits(1, delta="1e-6", share="5e-7")


def charge_many(
    shared: bool, promise: Promise, charges: list[tuple[str, int | None]]
) -> Ledger:
    """Charge what is admitted, each on one part or on all."""
    ledger = open_at(None, None, promise)
    for epsilon, part in charges:
        touched = None if part is None else replace(on(part), shared=shared)
        with suppress(BudgetRefused):
            ledger.charge(replace(pure(epsilon), touched=touched), BY_EITHER, ALICE)
    return ledger


def kept(ledger: Ledger, promise: Promise) -> bool:
    counting = Counting.of(0, promise.neighbours)
    whole = ledger._store.totals(ALICE).policy.most(counting)
    return whole.loss.epsilon <= 1 or whole.rho <= BY_EITHER.policy.rho


def test_a_refusal_says_which_sum_is_left_to_shares():
    """Where rho has left the limit in one part, epsilons alone have to keep it in all."""
    counting, most = Counting.of(0, "add-remove"), Spent(loss("0.9"), Fraction(1))
    total = Total(charges=1).plus(most, counting, replace(on(0), shared=True))
    charge = replace(pure(2), touched=replace(on(1), shared=True))
    asked, whole = additive(charge.events), Totals(total, total, total)
    with pytest.raises(BudgetRefused) as refused:
        require_within(charge, asked, BY_EITHER, whole, counting)
    assert "where most was asked, so only epsilons are counted." in str(refused.value)


def test_a_part_by_epsilons_and_another_by_rho_is_for_units_of_one_part():
    charges = [("1", 0), *[("0.01", 1)] * 150]
    with closing(charge_many(False, ALONE, charges)) as ledger:
        assert spent(ledger, 1, most="9e9") == Fraction(3, 2)
        assert not kept(ledger, ALONE)
    with closing(charge_many(True, ALONE, charges)) as ledger:
        assert by_part(ledger) == [1, 1, 0]
        assert kept(ledger, ALONE)


def test_shares_that_were_kept_by_rho_leave_no_part_to_epsilons():
    charges = [*[("0.01", 1)] * 150, ("1", 0)]
    with closing(charge_many(False, ALONE, charges)) as ledger:
        assert spent(ledger, 0, most="9e9") == 1
        assert not kept(ledger, ALONE)
    with closing(charge_many(True, ALONE, charges)) as ledger:
        assert spent(ledger, 0, most="9e9") == 0
        assert spent(ledger, 1, most="9e9") == Fraction(3, 2)
        assert kept(ledger, ALONE)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([("0.01", 50), ("0.01", 100), ("0.3", 1), ("1", 1)]),
            st.sampled_from([0, 1, 2, None]),
        ),
        max_size=5,
    ),
    st.sampled_from([ALONE, IN_PAIRS]),
)
def test_what_shares_are_charged_keeps_one_sum_in_all_parts(charges, promise):
    each = [(epsilon, part) for (epsilon, times), part in charges for _ in range(times)]
    with closing(charge_many(True, promise, each)) as ledger:
        assert kept(ledger, promise)
