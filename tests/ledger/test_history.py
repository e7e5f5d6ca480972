"""A history is one, whatever clocks say and whichever copy is brought back under a session."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from fractions import Fraction
from itertools import cycle

import pytest

from dpquery.budget.ledger import attempts, store
from dpquery.budget.ledger.earlier_releases import Holder, Refinable
from dpquery.core.privacy_events import Refined
from dpquery.errors import BudgetRefused, PolicyInvalid
from tests.ledger.helpers import ALICE, BOB, limits, open_at, pure, spent


@pytest.fixture
def wrong_clocks(monkeypatch):
    """Two machines whose clocks are ten years apart, and both go back."""
    years = cycle([2030, 2020, 2029, 2019, 1970])

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(next(years), 1, 1, tzinfo=tz)

    monkeypatch.setattr(store, "datetime", Clock)
    monkeypatch.setattr(attempts, "datetime", Clock)


def test_clocks_decide_nothing(place, tmp_path, wrong_clocks):
    """The sequence does: nothing is renewed or counted twice, and the history verifies."""
    first, second = (open_at(place, tmp_path / f"mark-{host}") for host in "ab")
    with closing(first), closing(second):
        for _ in range(5):
            first.charge(pure("0.1"), limits(1, 1), ALICE)
            second.charge(pure("0.1"), limits(1, 1), ALICE)
        for ledger in (first, second):
            with pytest.raises(BudgetRefused):
                ledger.charge(pure("1e-9"), limits(1, 1), ALICE)
            assert (ledger.verify(), spent(ledger)) == (10, 1)
        second.freeze()
        with pytest.raises(BudgetRefused):
            first.charge(pure("1e-9"), limits(2), ALICE)
        years = [entry.when.year for entry in first.entries("alice")]
    assert years == [2030, 2020, 2029, 2019, 1970] * 2
    with closing(open_at(place, tmp_path / "mark-a")) as again:
        assert again.orders().frozen
        assert [row.sequence for row in again.history()] == list(range(1, 12))
        assert {entry.when.tzinfo for entry in again.entries("alice")} == {UTC}


def test_a_ledger_is_verified_while_others_charge(place, monkeypatch):
    """It is held against itself as it was at one moment: no charge comes between its tables."""
    holder, half = Holder("alice", "rights", shared=False), Fraction(1, 2)
    with closing(open_at(place)) as one, closing(open_at(place)) as other:

        def others_charge():
            receipt = other.charge(pure(half), limits(), ALICE)
            other.store(receipt, holder, {"key": "[1]"}, [Refinable("q", half, "[1]", {})])
            refined = replace(pure(1), events=(Refined(half, Fraction(1)),))
            found = tuple(other.earlier(holder, "q"))
            other.charge(replace(refined, refines=found), limits(), ALICE)

        def then_others_charge(read):
            def reading(*some):
                rows = list(read(*some))
                others_charge()
                return iter(rows)

            return reading

        with monkeypatch.context() as patched:
            for name in ("whole_records", "records"):
                read = getattr(one._store, name)
                patched.setattr(one._store, name, then_others_charge(read))
            assert one.verify() == 0
        assert one.verify() == other.verify() == 4


def test_a_charge_of_another_session_is_seen_whatever_was_read_before(place):
    """Orders and totals that a session knows already are never all that there is."""
    with closing(open_at(place)) as one, closing(open_at(place)) as other:
        for number in range(1, 4):
            one.charge(pure("0.1"), limits(1, 1), ALICE)
            other.grant("alice", limits("0.1").policy.limit, limits(10, 1))
            other.charge(pure("0.1"), limits(1, 1), BOB)
            assert one.orders().granted["alice"].epsilon * 10 == number
            assert one.standing(limits(10, 1), ALICE).left.epsilon == 1
        other.freeze()
        with pytest.raises(BudgetRefused):
            one.charge(pure("0.1"), limits(), ALICE)
        other.thaw()
        one.charge(pure("0.1"), limits(), ALICE)
        assert one.verify() == 7


class TestAnOlderCopy:
    """Brought back under an open session, without a high-water mark: the session remembers."""

    def brought_back(self, place, postgres, ledger):
        """Take away the newest row."""
        if isinstance(place, os.PathLike):
            ledger._store._database.execute("DROP TRIGGER no_delete")
            ledger._store._database.execute("DELETE FROM charges WHERE sequence = 4")
            return
        with postgres.sql(place) as sql:
            sql.execute("ALTER TABLE charges DISABLE TRIGGER USER")
            sql.execute("DELETE FROM charges WHERE sequence = 4")
            sql.execute("ALTER TABLE charges ENABLE TRIGGER USER")

    @pytest.mark.parametrize("onwards", [0, 3])
    def test_it_takes_no_charge_of_a_session_that_has_seen_more(self, place, postgres, onwards):
        with closing(open_at(place)) as ledger:
            for _ in range(4):
                ledger.charge(pure("0.1"), limits(), ALICE)
            ledger.charge(pure(), limits(), ALICE)
            self.brought_back(place, postgres, ledger)
            with closing(open_at(place)) as unaware:
                for _ in range(onwards):
                    unaware.charge(pure("0.2"), limits(), BOB)
            for _ in range(2):
                with pytest.raises(PolicyInvalid, match="older than this session") as caught:
                    ledger.charge(pure("0.1"), limits(), ALICE)
                assert caught.value.code == "DPQ605"
