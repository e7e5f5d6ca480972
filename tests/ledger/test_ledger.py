"""What a ledger promises to the session above it, in memory and in a file."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from contextlib import closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.budget.accountant import Spent, basic
from dpquery.budget.ledger.charge_and_receipt import Account, Charge
from dpquery.budget.ledger.ledger import Ledger
from dpquery.core.privacy_events import Composed, Concentrated, Pure
from dpquery.core.privacy_loss import Ceiling
from dpquery.core.source_text import Span
from dpquery.errors import BudgetRefused, InternalError
from dpquery.ir.query import Contribution, Scan
from dpquery.ir.relations import TableScan
from tests.ledger.helpers import ALICE, BOB, gaussian, limits, loss, open_at, pure, spent


@pytest.fixture(params=["memory", "file", "file and mark", "server", "server and mark"])
def ledger(request, tmp_path):
    place, mark = None, tmp_path / "mark" if "mark" in request.param else None
    if request.param.startswith("file"):
        place = tmp_path / "policy.ledger"
    if request.param.startswith("server"):
        place = request.getfixturevalue("postgres").new()
    ledger = open_at(place, mark)
    yield ledger
    ledger.verify()
    ledger.close()


def test_ten_tenths_are_exactly_one(ledger):
    for _ in range(10):
        ledger.charge(pure("0.1"), limits(1), ALICE)
    assert spent(ledger) == 1
    with pytest.raises(BudgetRefused) as caught:
        ledger.charge(pure("1e-9"), limits(1), ALICE)
    assert caught.value.left == 0
    assert spent(ledger) == 1


def test_a_refusal_writes_nothing(ledger):
    for charge in (pure(3), pure("1.5"), gaussian("0.1", "1e-9")):
        with pytest.raises(BudgetRefused):
            ledger.charge(charge, limits(1, query=2), ALICE)
    assert ledger.entries("alice") == []
    assert ledger.verify() == 0


def test_both_sums_are_kept_for_each_scope_and_outlive_the_process(place):
    """A release in rho leaves the epsilons of its own analyst without a sum, and no other's."""
    ceilings = limits(1, 1, delta="1e-6", share="1/2")
    ceilings = replace(
        ceilings, policy=Ceiling.in_rho(Fraction(1), Fraction(1), Fraction(1, 2))
    )
    noise = Concentrated(Fraction("0.01"), Fraction(1), Fraction(1, 2))
    with closing(open_at(place)) as first:
        first.charge(Charge((noise,), (), ""), ceilings, ALICE)
        first.charge(pure("0.25"), ceilings, BOB)
    with closing(open_at(place)) as again:
        totals = again._store.totals(ALICE)
        assert totals.policy.spent == Spent(loss("0.25"), Fraction("0.04125"), summed=False)
        assert totals.analyst.spent == Spent(loss(0), Fraction("0.01"), summed=False)
        with pytest.raises(BudgetRefused):
            again.charge(pure("0.25"), ceilings, ALICE)
        again.charge(pure("0.25"), ceilings, BOB)
        assert again.verify() == 3


def test_receipts_differ_and_carry_their_charge(ledger):
    scan = Scan(TableScan(Span(0, 1), "t"), Contribution(None, False, 1), ())
    charge = replace(pure("0.1"), scans=(scan,))
    receipts = [ledger.charge(charge, limits(), ALICE) for _ in range(3)]
    assert len({receipt.id for receipt in receipts}) == 3
    assert receipts[0].charge is charge
    other = replace(scan, contribution=Contribution(None, False, 2))
    for frontier, wrong in ((0, other), (1, scan), (-1, scan)):
        with pytest.raises(InternalError, match="I3"):
            receipts[0].open(frontier, wrong)
    receipts[0].open(0, scan)
    with pytest.raises(InternalError, match="once"):
        receipts[0].open(0, scan)


def test_every_limit_holds_at_once(ledger):
    ceilings = limits(2, analyst="1.5", session=1)
    ledger.charge(pure(1), ceilings, ALICE)
    with pytest.raises(BudgetRefused, match="0 is left"):
        ledger.charge(pure("0.1"), ceilings, ALICE)
    another = Account("alice", "second session of alice")
    assert ledger.standing(ceilings, another).name == "analyst"
    with pytest.raises(BudgetRefused, match=r"0\.5 is left"):
        ledger.charge(pure("0.6"), ceilings, another)
    ledger.charge(pure("0.5"), ceilings, another)
    assert ledger.standing(ceilings, BOB).name == "policy"
    with pytest.raises(BudgetRefused, match=r"0\.5 is left"):
        ledger.charge(pure("0.6"), ceilings, BOB)


def test_analysts_whose_limits_sum_above_the_total_share_it(ledger):
    ceilings = limits(3, analyst=2)
    ledger.charge(pure(2), ceilings, ALICE)
    with pytest.raises(BudgetRefused, match="1 is left"):
        ledger.charge(pure(2), ceilings, BOB)
    ledger.charge(pure(1), ceilings, BOB)
    assert spent(ledger) == 3


def test_delta_is_summed_beside_epsilon(ledger):
    ceilings = limits(10, delta="2e-6")
    ledger.charge(gaussian(1, "1e-6"), ceilings, ALICE)
    ledger.charge(pure(1), ceilings, ALICE)
    assert ledger.standing(ceilings, ALICE).spent == loss(2, "1e-6")
    with pytest.raises(BudgetRefused) as caught:
        ledger.charge(gaussian(1, "1.5e-6"), ceilings, ALICE)
    assert caught.value.code == "DPQ503"


def test_an_analyst_sees_only_their_own_entries(ledger):
    before = datetime.now(UTC)
    parts = (Pure(Fraction(1, 3)), Composed((Pure(Fraction(1, 6)),)))
    ledger.charge(Charge(parts, (), "SELECT 'mine'"), limits(), ALICE)
    ledger.charge(Charge((Pure(Fraction(1)),), (), "SELECT 'not yours'"), limits(), BOB)
    [entry] = ledger.entries("alice")
    assert entry.query == "SELECT 'mine'"
    assert (entry.events, entry.loss, entry.session) == (parts, loss("0.5"), ALICE.session)
    assert before <= entry.when <= datetime.now(UTC)
    assert ledger.entries("carol") == ledger.entries("") == ledger.entries("%") == []


def test_odd_names_and_texts_are_kept_apart(ledger):
    odd = Account("al'ice\"; -- %s ?", "s\x01é")
    ledger.charge(Charge((Pure(Fraction(1)),), (), "a\x00b \udcff é"), limits(), odd)
    assert ledger.entries(odd.analyst)[0].query == "a\\x00b \\udcff é"
    assert ledger.standing(limits(5, analyst=1, session=1), ALICE).left.epsilon == 1


def test_what_was_proven_is_known_to_all(place):
    with closing(open_at(place)) as here, closing(open_at(place)) as there:
        assert not here.is_proven("a")
        for ledger in (here, there):
            ledger.prove("a")
        assert here.is_proven("a")
        assert not there.is_proven("b")
        assert there.verify() == 0


def test_a_closed_ledger_is_not_used():
    ledger = open_at(None)
    ledger.close()
    ledger.close()
    with pytest.raises(InternalError, match="closed"):
        ledger.charge(pure(1), limits(), ALICE)


def test_reopening_does_not_renew(place):
    for expected in (Fraction(9, 10), Fraction(8, 10)):
        ledger = open_at(place)
        ledger.charge(pure("0.1"), limits(1), ALICE)
        assert ledger.standing(limits(1), ALICE).left.epsilon == expected
        ledger.close()


def test_two_sessions_on_one_ledger_see_each_other_at_once(place):
    first, second = (open_at(place) for _ in range(2))
    first.charge(pure("0.7"), limits(1), ALICE)
    assert spent(second) == Fraction(7, 10)
    with pytest.raises(BudgetRefused):
        second.charge(pure("0.4"), limits(1), BOB)
    first.close()
    second.charge(pure("0.3"), limits(1), BOB)
    assert second.verify() == 2
    second.close()


@pytest.mark.parametrize("queue", [True, False])
def test_threads_with_a_ledger_each_never_pass_the_limit(place, monkeypatch, queue):
    """The lock file gives turns; without it each transaction still decides alone."""
    receipts = []
    open_at(place).close()
    if not queue:
        monkeypatch.setattr(fcntl, "flock", lambda *_: None)

    def spend():
        ledger = open_at(place)
        with suppress(BudgetRefused):
            while True:
                receipts.append(ledger.charge(pure("0.05"), limits(2), ALICE).id)
        ledger.close()

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(receipts) == len(set(receipts)) == 40


def test_a_ledger_is_not_carried_over_a_fork(place):
    ledger = open_at(place)
    ledger.charge(pure("0.1"), limits(), ALICE)
    child = os.fork()
    if child == 0:
        outcome = 1
        try:
            ledger.charge(pure("0.1"), limits(), ALICE)
        except InternalError:
            ledger.close()
            outcome = 0
        finally:
            os._exit(outcome)
    assert os.waitpid(child, 0)[1] == 0
    ledger.charge(pure("0.1"), limits(), ALICE)
    assert ledger.verify() == 2
    ledger.close()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE charges SET totals = '[]'",
        "UPDATE charges SET hash = 'x' WHERE sequence = 1",
        "DELETE FROM charges",
        "DELETE FROM charges WHERE sequence = 2",
        "INSERT OR REPLACE INTO charges SELECT * FROM charges WHERE sequence = 1",
        "REPLACE INTO charges SELECT 9, 'i', at, analyst, session, query, events, totals, hash"
        " FROM charges WHERE sequence = 1",
    ],
)
def test_charges_are_never_changed_or_removed(tmp_path, statement):
    ledger = open_at(tmp_path / "policy.ledger")
    for _ in range(2):
        ledger.charge(pure("0.1"), limits(), ALICE)
    other = sqlite3.connect(tmp_path / "policy.ledger", isolation_level=None)
    with pytest.raises(sqlite3.IntegrityError, match="charges are"):
        other.execute(statement)
    other.close()
    assert ledger.verify() == 2
    ledger.close()


def test_no_method_takes_a_charge_back():
    public = {name for name in dir(Ledger) if not name.startswith("_")}
    asked = {
        "charge",
        "secret",
        "standing",
        "entries",
        "store_bounds",
        "bounds",
        "verify",
        "close",
    }
    asked |= {
        "is_proven",
        "prove",
        "store",
        "stored",
        "first_state",
        "known_state",
        "earlier",
        "fail",
        "failures",
        "close_attempt",
    }
    owned = {"history", "orders", "freeze", "thaw", "grant", "grant_up_to", "publish", "backup"}
    assert public == asked | owned


def test_a_charge_takes_a_handful_of_statements_however_long_the_history():
    """Work per charge is constant: no statement reads more rows as the ledger grows."""
    ledger, steps = open_at(None), []
    sql = ledger._store._database._connection
    costs = []
    for _ in range(400):
        steps.clear()
        sql.set_progress_handler(lambda: steps.append(1), 10)
        ledger.charge(pure("0.001"), limits(), ALICE)
        sql.set_progress_handler(None, 0)
        costs.append(len(steps))
    assert max(costs[-50:]) <= 1.2 * max(costs[10:60])
    ledger.close()


amounts = st.fractions(min_value=0, max_value=2, max_denominator=1000)
charges = st.tuples(
    st.lists(amounts, max_size=3).map(lambda parts: pure(*parts))
    | st.builds(gaussian, amounts, amounts),
    st.builds(Account, st.sampled_from("ab"), st.sampled_from("xyz")),
)
ceilings = st.builds(
    limits, amounts.map(lambda x: 3 * x), amounts, amounts, st.none() | amounts, amounts
)


@given(st.lists(charges, max_size=20), ceilings)
def test_no_sequence_of_charges_passes_a_limit_and_totals_are_sums(wishes, ceiling):
    ledger, accepted = open_at(None), []
    for charge, account in wishes:
        try:
            ledger.charge(charge, ceiling, account)
        except BudgetRefused:
            asked = basic(charge.events)
            assert not all(
                (total + asked).within(limit)
                for total, limit in scopes(accepted, ceiling, account)
            ) or (ceiling.query is not None and asked.epsilon > ceiling.query)
        else:
            if charge.events:  # a charge of nothing leaves no trace
                accepted.append((charge, account))
        for total, limit in scopes(accepted, ceiling, account):
            assert total.within(limit)
        totals = ledger._store.totals(account)
        assert [one.spent.loss for one in (totals.policy, totals.analyst, totals.session)] == [
            total for total, _ in scopes(accepted, ceiling, account)
        ]
    assert ledger.verify() == len(accepted)
    ledger.close()


def scopes(accepted, ceiling, account):
    """What the model has spent in each scope of an account, beside the limit there."""

    def total(belongs):
        return basic(e for c, a in accepted if belongs(a) for e in c.events)

    return [
        (total(lambda _: True), ceiling.policy.limit),
        (total(lambda a: a.analyst == account.analyst), ceiling.analyst.limit),
        (total(lambda a: a.session == account.session), ceiling.session.limit),
    ]
