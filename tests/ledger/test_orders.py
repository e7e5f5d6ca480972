"""The owner's orders: obeyed by every charge after them, and as lasting as charges."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.budget.ledger.charge_and_receipt import OWNER, Account, Ceilings
from dpquery.budget.ledger.owner_orders import (
    Freeze,
    Grant,
    Orders,
    Promise,
    Thaw,
    decode_order,
    encode_order,
)
from dpquery.budget.ledger.record import Wording
from dpquery.core.privacy_loss import Ceiling
from dpquery.errors import BudgetRefused, InternalError, PolicyInvalid
from tests.ledger.helpers import ALICE, BOB, gaussian, limits, loss, open_at, pure, spent

HERE = Promise("add-remove", (("table staff", "by person"), ("path s.parquet", "by person")))
SHARED = limits(10, 1)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "policy.ledger"


@pytest.fixture
def ledger(place):
    with closing(open_at(place)) as ledger:
        yield ledger
        ledger.verify()


def test_a_frozen_ledger_refuses_every_charge_in_every_process(place, ledger):
    ledger.charge(pure("0.5"), limits(), ALICE)
    with closing(open_at(place)) as other:
        assert other.freeze()
        assert not other.freeze()
    for charge in (pure("1e-9"), gaussian("0.1", "1e-9")):
        with pytest.raises(BudgetRefused) as caught:
            ledger.charge(charge, limits(delta="1e-6"), BOB)
        assert (caught.value.code, caught.value.left) == ("DPQ504", 0)
    assert ledger.verify() == 1
    assert ledger.thaw()
    assert not ledger.thaw()
    ledger.charge(pure("0.5"), limits(), ALICE)
    assert (ledger.verify(), spent(ledger), len(ledger.history())) == (2, 1, 4)


def test_what_costs_nothing_goes_on_while_frozen(ledger):
    ledger.freeze()
    assert ledger.charge(pure(), limits(), ALICE).charge == pure()
    assert ledger.standing(limits(3), ALICE).left.epsilon == 3


def test_the_refusal_of_a_frozen_ledger_reads_so(ledger):
    ledger.freeze()
    with pytest.raises(BudgetRefused) as caught:
        ledger.charge(pure("0.5", "0.25"), limits(), ALICE)
    assert caught.value.asked == Fraction(3, 4)
    assert (
        str(caught.value)
        == """\
refused[DPQ504]: the data owner has frozen the budget
   why: no query is charged until it is thawed; what costs nothing is still answered.
   try: ask the data owner when it will be thawed"""
    )


def test_a_grant_raises_one_analyst_s_limit(ledger):
    ledger.charge(pure(1), SHARED, ALICE)
    with pytest.raises(BudgetRefused):
        ledger.charge(pure("0.5"), SHARED, ALICE)
    assert ledger.grant("alice", loss("0.5"), SHARED) == loss("1.5")
    assert ledger.standing(SHARED, ALICE).left.epsilon == Fraction(1, 2)
    assert ledger.standing(SHARED, BOB).left.epsilon == 1
    ledger.charge(pure("0.5"), SHARED, ALICE)
    for account in (ALICE, BOB):
        with pytest.raises(BudgetRefused):
            ledger.charge(pure("1.1"), SHARED, account)
    assert ledger.grant("alice", loss("0.25"), SHARED) == loss("1.75")


def test_grants_add_delta_and_the_rho_that_it_converts(ledger):
    own = Ceilings(
        Ceiling.of(loss(10, "1e-6"), Fraction(1, 4)), Ceiling.of(loss(1), Fraction(1, 4))
    )
    ledger.grant("alice", loss(1, "8e-7"), own)
    raised = ledger.orders().raised(own, "alice").analyst
    assert raised == Ceiling.of(loss(2, "8e-7"), Fraction(1, 4))
    assert raised.rho > 0


def grant_refused(ledger, granted, ceilings, match):
    with pytest.raises(PolicyInvalid, match=match) as caught:
        ledger.grant("alice", granted, ceilings)
    assert caught.value.code == "DPQ610"
    assert ledger.history() == []


def test_a_grant_that_would_not_count_is_not_made(ledger):
    grant_refused(ledger, loss("9.1"), SHARED, "could then spend 10.1, and the total is 10")
    grant_refused(ledger, loss(1, "1e-9"), SHARED, "and the total is 10")
    grant_refused(ledger, loss(1), limits(), "one analyst")
    rho = Ceiling.in_rho(Fraction(1, 20), Fraction(1, 10**6), Fraction(1, 2))
    grant_refused(ledger, loss(1), replace(SHARED, analyst=rho), "is a rho")


def test_two_grants_that_fit_alone_do_not_both_fit(place, ledger):
    with closing(open_at(place)) as other:
        ledger.grant("alice", loss(6), SHARED)
        with pytest.raises(PolicyInvalid, match="could then spend 13"):
            other.grant("alice", loss(6), SHARED)


amounts = st.fractions(min_value=0, max_value=3, max_denominator=20)


@given(amounts, amounts, amounts)
def test_no_grant_lifts_a_limit_above_the_total_or_lowers_it(whole, own, granted):
    """Also where the policy was made stricter after the grant."""
    ceilings = limits(whole, own)
    raised = Orders(granted={"alice": loss(granted)}).raised(ceilings, "alice")
    assert raised.policy == ceilings.policy
    assert raised.analyst.limit.epsilon == max(own, min(own + granted, whole))


def test_a_limit_in_rho_stays_as_the_policy_states_it():
    rho = Ceiling.in_rho(Fraction(1, 20), Fraction(1, 10**6), Fraction(1, 2))
    ceilings = replace(SHARED, analyst=rho)
    assert Orders(granted={"alice": loss(1)}).raised(ceilings, "alice") == ceilings


def test_a_ledger_records_whose_losses_it_counts_with_the_first_charge(place):
    with closing(open_at(place, None, HERE)) as ledger:
        assert ledger.history() == []
        ledger.charge(pure("0.1"), limits(), ALICE)
        ledger.charge(pure("0.1"), limits(), ALICE)
        assert [record.is_order for record in ledger.history()] == [True, False, False]
        assert ledger.orders().promise == Promise("add-remove", tuple(sorted(HERE.units)))
        assert len(ledger.entries("alice")) == ledger.verify() == 2
        assert ledger.entries("") == []


@pytest.mark.parametrize(
    ("promise", "said"),
    [
        (replace(HERE, neighbours="substitute"), "neighbours were add-remove"),
        (Promise("add-remove", (("table staff", "by device"),)), "staff was by person"),
        (Promise("add-remove", (("table staff", "by row"),)), "and is by row now"),
        (Promise("add-remove", (("table staff", "public"),)), "and is public now"),
        (
            Promise("add-remove", (("table people", "by row"), ("path s.parquet", "by row"))),
            "path s.parquet was by person",
        ),
    ],
)
def test_a_policy_with_another_promise_is_refused(place, promise, said):
    with closing(open_at(place, None, promise)) as early:
        with closing(open_at(place, None, HERE)) as ledger:
            ledger.charge(pure("0.1"), limits(), ALICE)
        with pytest.raises(PolicyInvalid, match=said) as caught:
            open_at(place, None, promise)
        assert (caught.value.code, caught.value.file) == ("DPQ609", str(place))
        with pytest.raises(PolicyInvalid, match=said):
            early.charge(pure("0.1"), limits(), ALICE)
        assert early.verify() == 1


@pytest.mark.parametrize(
    "promise",
    [
        Promise("add-remove", (*HERE.units, ("table visits", "by person"))),
        Promise("add-remove", (("table visits", "by row"),)),
        Promise("add-remove", (("table staff", "by person"), ("path moved", "by person"))),
        Promise("add-remove", (*HERE.units, ("table regions", "public"))),
    ],
)
def test_tables_may_come_go_and_move(place, promise):
    for policy in (HERE, promise, HERE, promise):
        with closing(open_at(place, None, policy)) as ledger:
            ledger.charge(pure("0.1"), limits(), ALICE)
    with closing(open_at(place)) as ledger:
        assert ledger.verify() == 4
        assert len(ledger.history()) <= 6


def test_a_refused_charge_records_no_promise(place):
    with closing(open_at(place, None, HERE)) as ledger:
        with pytest.raises(BudgetRefused):
            ledger.charge(pure(11), limits(), ALICE)
        assert ledger.history() == []


def test_an_old_copy_without_an_order_is_refused(path, tmp_path):
    mark, old = tmp_path / "mark", tmp_path / "old"
    with closing(open_at(path, mark)) as ledger:
        ledger.charge(pure("0.1"), limits(), ALICE)
    shutil.copy2(path, old)
    with closing(open_at(path, mark)) as ledger:
        ledger.freeze()
    old.replace(path)
    with pytest.raises(PolicyInvalid, match="older than its high-water mark"):
        open_at(path, mark)


def test_orders_are_rows_that_nobody_changes(path):
    with closing(open_at(path)) as ledger:
        ledger.freeze()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        for statement in ("UPDATE charges SET events = '[\"thaw\"]'", "DELETE FROM charges"):
            with pytest.raises(sqlite3.IntegrityError, match="charges are never"):
                other.execute(statement)


def tampered(ledger, text):
    """Seal a row as a writer with a mistake of its own would."""
    ledger._store.append(OWNER, Wording.ordered(text), ledger._store.totals(OWNER))


@pytest.mark.parametrize(
    "text", ['["unheard of"]', '["grant","alice","x","0"]', "[]", '["promise","substitute",[]]']
)
def test_an_order_that_was_never_given_is_seen_by_verify(place, text):
    with closing(open_at(place, None, HERE)) as ledger:
        ledger.charge(pure("0.1"), limits(), ALICE)
        tampered(ledger, text)
        with pytest.raises(PolicyInvalid, match="the ledger is damaged"):
            ledger.verify()


def test_a_charge_in_a_frozen_ledger_is_seen_by_verify(place, monkeypatch):
    with closing(open_at(place)) as ledger:
        ledger.freeze()
        with monkeypatch.context() as patch:
            patch.setattr(type(ledger), "_orders", lambda _: Orders())
            ledger.charge(pure("0.1"), limits(), ALICE)
        with pytest.raises(PolicyInvalid, match="the ledger is damaged"):
            ledger.verify()


def test_an_order_that_is_not_known_stops_charges(place):
    with closing(open_at(place)) as ledger:
        tampered(ledger, '["unheard of"]')
        with pytest.raises(PolicyInvalid, match="damaged"):
            ledger.charge(pure("0.1"), limits(), ALICE)


def test_a_charge_is_made_in_a_session(ledger):
    with pytest.raises(InternalError, match="session"):
        ledger.charge(pure(1), limits(), Account("alice", ""))


named = st.text(max_size=5)
losses = st.builds(loss, amounts, amounts)
every_order = st.one_of(
    st.builds(Freeze),
    st.builds(Thaw),
    st.builds(Grant, named, losses),
    st.builds(Promise, named, st.lists(st.tuples(named, named)).map(tuple)),
)


@given(every_order)
def test_orders_are_read_as_they_were_written(order):
    assert decode_order(encode_order(order)) == order


steps = st.lists(st.sampled_from(["charge", "freeze", "thaw", "grant", "reopen"]), max_size=12)


@given(steps)
def test_a_ledger_obeys_as_a_model_does(tmp_path_factory, plan):
    path = tmp_path_factory.mktemp("model") / "ledger"
    ledger, frozen, most, done = open_at(path), False, 1, 0
    for step in plan:
        match step:
            case "charge":
                try:
                    ledger.charge(pure("0.5"), SHARED, ALICE)
                except BudgetRefused as refusal:
                    assert frozen or done + Fraction(1, 2) > most
                    assert (refusal.code == "DPQ504") is frozen  # noqa: PT017
                else:
                    assert not frozen
                    done += Fraction(1, 2)
                    assert done <= most
            case "freeze":
                assert ledger.freeze() is not frozen
                frozen = True
            case "thaw":
                assert ledger.thaw() is frozen
                frozen = False
            case "grant" if most < 9:
                most += 1
                assert ledger.grant("alice", loss(1), SHARED) == loss(most)
            case "reopen":
                ledger.close()
                ledger = open_at(path)
    assert ledger.verify() == 2 * done
    ledger.close()


def test_work_of_a_charge_does_not_grow_with_charges_after_an_order():
    with closing(open_at(None, None, HERE)) as ledger:
        ledger.grant("alice", loss(1), SHARED)
        counted = []
        sql = ledger._store._database._connection
        sql.set_progress_handler(lambda: counted.append(1), 10)
        costs = []
        for _ in range(200):
            counted.clear()
            ledger.charge(pure("0.001"), SHARED, ALICE)
            costs.append(len(counted))
        sql.set_progress_handler(None, 0)
    assert max(costs[-20:]) <= 1.2 * max(costs[10:40])
