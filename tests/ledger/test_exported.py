"""The owner's export: every charge, exactly, and as events that dp-accounting reads."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import pytest
from dp_accounting import NeighboringRelation, dp_event, pld, rdp

from dpquery.budget.ledger.charge_and_receipt import Ceilings, Charge
from dpquery.budget.ledger.earlier_releases import EarlierRelease
from dpquery.budget.ledger.report import EXPORTED_COLUMNS, dp_events, exported_row
from dpquery.core.privacy_events import (
    Approximate,
    BoundedRange,
    Concentrated,
    Gaussian,
    Pure,
    Refined,
    decode,
)
from dpquery.core.privacy_loss import Ceiling
from dpquery.core.zcdp import epsilon_above
from tests.ledger.helpers import ALICE, BOB, open_at, pure

RHO, EPSILON, DELTA = Fraction(1, 20), Fraction(1, 3), Fraction(1, 10**7)
ALL = (
    Pure(EPSILON),
    BoundedRange(EPSILON),
    Gaussian(RHO, EPSILON, DELTA),
    Concentrated(RHO, EPSILON, DELTA),
    Refined(EPSILON, 2 * EPSILON),
    Approximate(EPSILON, DELTA),
)
WIDE = Ceilings(Ceiling.in_rho(Fraction(10**10), Fraction(1, 2), Fraction(1, 2)))
ONE = NeighboringRelation.REPLACE_ONE


def history(*charges: Charge):
    ledger = open_at(None)
    for charge in charges:
        ledger.charge(charge, WIDE, ALICE)
    records = ledger.history()
    ledger.close()
    return records


def of(*events, query="") -> Charge:
    """Charge for events, of which each that refines uses up some release."""
    count = sum(isinstance(event, Refined) for event in events)
    return Charge(
        events,
        (),
        query,
        refines=tuple(EarlierRelease(n, EPSILON, "", {}) for n in range(count)),
    )


def exported(*events):
    [event] = dp_events(history(of(*events)))
    return event


def test_everybodys_charges_are_exported_as_they_stand():
    ledger = open_at(None)
    ledger.charge(pure("0.5", "1e-7"), WIDE, ALICE)
    ledger.charge(of(*ALL, query="SELECT 'x'"), WIDE, BOB)
    first, second = (
        dict(zip(EXPORTED_COLUMNS, exported_row(record), strict=True))
        for record in ledger.history()
    )
    ledger.close()
    assert [first[name] for name in ("sequence", "analyst", "epsilon", "delta", "rho")] == [
        *("1", "alice", "0.5000001", "0", "0.125000000000005"),
    ]
    assert second["analyst"] == "bob"
    assert second["epsilon"] == "2"
    assert decode(second["events"]).parts == ALL


@pytest.mark.parametrize("query", ["-- =1+1\nSELECT 1", "=1", "+1", "@a"])
def test_no_cell_is_a_formula(query):
    [record] = history(Charge((Pure(EPSILON),), (), query))
    assert (
        dict(zip(EXPORTED_COLUMNS, exported_row(record), strict=True))["query"] == f" {query}"
    )


def test_the_repr_of_an_event_makes_it_again():
    event = exported(*ALL)
    assert eval(repr(event), vars(dp_event)) == event


def test_what_has_no_event_there_is_refused_there():
    accountant = rdp.RdpAccountant(neighboring_relation=ONE)
    assert not accountant.supports(exported(Approximate(EPSILON, DELTA)))
    assert accountant.supports(exported(*ALL[:-1]))


@pytest.mark.parametrize("epsilon", ["1e-9", "0.1", "1/3", "1", "20", "699"])
def test_a_pure_release_has_its_epsilon_there_and_no_less(epsilon):
    """The event is built of floats: exact arithmetic says which epsilon it has."""
    [event] = exported(Pure(Fraction(epsilon))).events
    right = 1 - Fraction(event.noise_parameter) / 2
    odds = right / (1 - right)
    assert float(odds) >= exp(float(Fraction(epsilon)))
    assert float(odds) <= exp(float(Fraction(epsilon))) * (1 + 1e-12)


def test_a_pure_release_beyond_doubles_is_not_private_there():
    accountant = pld.PLDAccountant(neighboring_relation=ONE)
    accountant.compose(exported(Pure(Fraction(701))))
    assert accountant.get_epsilon(1e-6) == float("inf")


@pytest.mark.parametrize("number", [Fraction(1, 10**9), Fraction(1, 3), Fraction(10**9, 7)])
def test_rho_is_rounded_up(number):
    [event] = exported(Concentrated(number, EPSILON, DELTA)).events
    assert number <= Fraction(event.rho) <= number * (1 + Fraction(1, 10**15))


def test_accountants_there_agree_on_a_hundred_counts():
    """100 of epsilon 0.1: the law of the worst, then its Renyi divergence, then our zCDP."""
    events = list(dp_events(history(*(pure("0.1") for _ in range(100)))))
    whole = dp_event.ComposedDpEvent(events)
    tight, rough = (
        pld.PLDAccountant(neighboring_relation=ONE),
        rdp.RdpAccountant(neighboring_relation=ONE),
    )
    tight.compose(whole)
    rough.compose(whole)
    ours = float(epsilon_above(Fraction(1, 2), Fraction(1, 10**6)))
    assert 3 < tight.get_epsilon(1e-6) <= rough.get_epsilon(1e-6) <= ours < 10
