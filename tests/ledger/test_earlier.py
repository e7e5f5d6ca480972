"""Earlier releases: found by their question, and used up once, with the charge that does it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from dpquery.budget.ledger.charge_and_receipt import Charge
from dpquery.budget.ledger.earlier_releases import (
    AlreadyRefined,
    EarlierRelease,
    Holder,
    Refinable,
)
from dpquery.core.privacy_events import Refined
from dpquery.errors import InternalError, PolicyInvalid
from tests.ledger.helpers import ALICE, BOB, limits, open_at, pure, spent

HALF = Fraction(1, 2)
HOLDER = Holder("alice", "", shared=True)
READ = {"here": [(12, 34, "end"), (56, 78, "end")]}


def kept_in(ledger, count=1) -> list[EarlierRelease]:
    """Have some releases paid for and kept, and give what is left of them."""
    receipt = ledger.charge(pure("0.5"), limits(), ALICE)
    refinable = [Refinable("question", HALF, "[1]", READ)] * count
    ledger.store(receipt, HOLDER, {"key": "[1]"}, refinable)
    return ledger.earlier(HOLDER, "question")


def refining(*kept: EarlierRelease) -> Charge:
    events = tuple(Refined(one.rate, Fraction(1)) for one in kept)
    return Charge(events, (), "SELECT ...", refines=kept, version=0)


def test_what_was_kept_is_found_by_its_holder_alone(place):
    ledger = open_at(place)
    (kept,) = kept_in(ledger)
    assert (kept.rate, kept.drawn, kept.read) == (HALF, "[1]", READ)
    assert not ledger.earlier(HOLDER, "another")
    assert not ledger.earlier(Holder("bob", "", shared=True), "question")
    assert not ledger.earlier(Holder("alice", "more", shared=True), "question")
    ledger.close()


def test_of_two_charges_that_refine_the_same_one_is_made(place):
    one, other = open_at(place), open_at(place)
    (kept,) = kept_in(one)
    (same,) = other.earlier(HOLDER, "question")
    assert same == kept
    one.charge(refining(kept), limits(), ALICE)
    for _ in range(2):
        with pytest.raises(AlreadyRefined):
            other.charge(refining(same), limits(), ALICE)
    assert spent(other) == 1
    assert not other.earlier(HOLDER, "question")
    assert one.verify() == other.verify() == 2
    one.close()
    other.close()


def test_a_charge_for_another_version_is_not_made(place):
    ledger = open_at(place)
    (kept,) = kept_in(ledger)
    ledger.publish()
    with pytest.raises(AlreadyRefined):
        ledger.charge(refining(kept), limits(), ALICE)
    assert spent(ledger) == HALF
    assert ledger.earlier(HOLDER, "question") == [kept]
    assert ledger.verify() == 1
    ledger.close()


def test_several_are_used_up_together_or_not_at_all(place):
    ledger = open_at(place)
    first, second = kept_in(ledger, 2)
    ledger.charge(refining(second), limits(), ALICE)
    with pytest.raises(AlreadyRefined):
        ledger.charge(refining(first, second), limits(), ALICE)
    assert ledger.earlier(HOLDER, "question") == [first]
    ledger.charge(refining(first), limits(), ALICE)
    assert ledger.verify() == 3
    ledger.close()


def test_a_difference_is_charged_for_what_is_used_up_alone(place):
    ledger = open_at(place)
    (kept,) = kept_in(ledger)
    for charge in (replace(refining(kept), refines=()), replace(pure(1), refines=(kept,))):
        with pytest.raises(InternalError):
            ledger.charge(charge, limits(), ALICE)
    assert spent(ledger) == HALF
    ledger.close()


def test_a_ledger_with_another_analysts_refinement_was_not_written_by_the_rules():
    """Their sums would show the difference alone."""
    ledger = open_at(None)
    ledger.charge(refining(*kept_in(ledger)), limits(), BOB)
    with pytest.raises(PolicyInvalid):
        ledger.verify()


@pytest.mark.parametrize("paid", ["by another", "by nobody"])
def test_a_release_that_its_holder_did_not_pay_for_is_noticed(paid: str):
    ledger = open_at(None)
    kept_in(ledger)
    (charge,) = [row.id for row in ledger._store.records() if not row.is_order]
    charge, holder = (
        (charge, replace(HOLDER, analyst="bob")) if paid == "by another" else ("none", HOLDER)
    )
    with ledger._store.writing():
        ledger._store.earlier.add(charge, holder, [Refinable("other", HALF, "[1]", {})])
    with pytest.raises(PolicyInvalid):
        ledger.verify()
    ledger.close()
