"""Rows under chains of hashes: the same are written to the last byte, and read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from dpquery.budget.ledger.charge_and_receipt import Receipt
from dpquery.budget.ledger.earlier_releases import EarlierRelease, Holder, Refinable
from dpquery.budget.ledger.ledger import Ledger
from dpquery.core.types import Interval
from dpquery.errors import PolicyInvalid
from tests.ledger.helpers import ALICE, limits, open_at, pure

HOLDER = Holder("alice", "rights", shared=True)
READ = {"here": [(12, 34, "end"), (56, 78, "é")]}
STATES = '{"here": [[12, 34, "end"], [56, 78, "\\u00e9"]]}'
CHARGED = ("alice", "session of alice", "SELECT ...")
ID = "ledger"
WRITTEN = {
    "charges": [
        (
            *(1, "first", "2026-11-19T02:17:31.537743+00:00", *CHARGED),
            '["composed",["pure","1/2"]]',
            '[["1/2","0","1/8",true,1],["1/2","0","1/8",true,1],["1/2","0","1/8",true,1]]',
            "c07c4039d7d8e74b677ae11194a9c992e03011777a14bb5b9ded547f5c60d710",
        ),
        (
            *(2, "second", "2026-11-19T02:17:31.540569+00:00", *CHARGED),
            '["composed",["refined","1/2","1"]]',
            '[["1","0","5/8",true,2],["1","0","5/8",true,2],["1","0","5/8",true,2]]',
            "3f4f949b4d810ff28325cef863d8cf362875acf35d25316d85dad976cb2a295e",
        ),
    ],
    "bounds": [
        (
            *(1, "first", "alice", "salary", "-1/3", "8"),
            "eab8950edb148cc3c78b647a6a5e691e8d95c0ac1951d55d91aba5dba7ea60be",
        ),
        (
            *(2, "first", "alice", "salary", "0", "9"),
            "6ccf102f8f2ab7547fe02abfc42caf63dc0541dc2196c36ded6f52ea01779634",
        ),
    ],
    "answers": [
        (
            *(1, "first", "alice", "rights", 1, "one", "[1]"),
            "07feb0eec021d8fc41dc79f161e7f1ade7eb27957c36ff9076dfe34e463ac11d",
        ),
        (
            *(2, "first", "alice", "rights", 1, "zwei", '["ü"]'),
            "23f0fa78da728189a94fd6e76c4319d1b29fa642a23ee568df932caec29e878a",
        ),
    ],
    "earlier": [
        (
            *(1, "first", "alice", "rights", "question", "1/2", "[2]", STATES),
            "838d316d1bf5761a9dc40017cc151b9313f642d85a9de0e22fdee66de53229a7",
        ),
        (
            *(2, "first", "alice", "rights", "question", "1/4", "[4]", STATES),
            "e99c08e8f208ca0f7f36cf2b9a15978315d2cdf5341eb24feda49f8c1dc9e6a5",
        ),
    ],
    "refined": [
        (1, "second", 1, "c6cb43822bffbc94d059ac303b7d8d37cfcdd5df48f5836ebc8de7569db7957c"),
    ],
    "states": [
        (
            *(1, 1, "staff", "staff as it was"),
            "459360ce4d40f9475a49ba3d3a1f24c4e58ff752d73463673d43e54b06209756",
        ),
        (
            *(2, 1, "visits", "visits as it was"),
            "0f4b370bbbdcc64e1df8ba25c16aafff21f0e04e50c73f55cfda618ee5a47950",
        ),
    ],
}
"""What a ledger holds, but with names in place of random ones."""


@pytest.fixture
def sql(place, request):
    """A connection past dpquery, to a ledger with the id of the one above, and no rows."""
    open_at(place).close()
    if isinstance(place, Path):
        connection = sqlite3.connect(place, isolation_level=None)
    else:
        connection = request.getfixturevalue("postgres").sql(place)
    with closing(connection):
        connection.execute(f"UPDATE meta SET value = '{ID}' WHERE key = 'id'")
        yield connection


def put(sql, tables: Iterable[str]) -> None:
    """Put the rows of some tables into a ledger."""
    mark = "?" if isinstance(sql, sqlite3.Connection) else "%s"
    for table in tables:
        for row in WRITTEN[table]:
            sql.execute(f"INSERT INTO {table} VALUES ({', '.join(mark for _ in row)})", row)


def write(ledger: Ledger) -> None:
    """Write what stands beside the charges of the ledger above."""
    receipt = Receipt(pure("0.5"), "first")
    for low, high in ((Fraction(-1, 3), 8), (0, 9)):
        ledger.store_bounds(receipt, ALICE, "salary", Interval(Fraction(low), Fraction(high)))
    refinable = [Refinable("question", Fraction(1, n), f"[{n}]", READ) for n in (2, 4)]
    ledger.store(receipt, HOLDER, {"one": "[1]", "zwei": '["ü"]'}, refinable)
    for table in ("staff", "visits"):
        ledger.first_state(1, table, f"{table} as it was".__str__)
    with ledger._store.writing():
        ledger._store.earlier.use("second", [1])


def test_the_same_rows_are_written_to_the_last_byte(place, sql):
    put(sql, ["charges"])
    with closing(open_at(place)) as ledger:
        write(ledger)
    found = {
        table: list(sql.execute(f"SELECT * FROM {table} ORDER BY sequence"))
        for table in WRITTEN
    }
    assert found == WRITTEN


def test_rows_are_read_and_followed(place, sql):
    put(sql, WRITTEN)
    with closing(open_at(place)) as ledger:
        assert ledger.verify() == 2
        assert ledger.bounds(ALICE, "salary") == Interval(Fraction(0), Fraction(9))
        assert ledger.stored(HOLDER, "zwei") == '["ü"]'
        assert ledger.earlier(HOLDER, "question") == [
            EarlierRelease(2, Fraction(1, 4), "[4]", READ)
        ]
        assert ledger.first_state(1, "visits", lambda: "another") == "visits as it was"
        receipt = ledger.charge(pure("0.5"), limits(), ALICE)
        ledger.store_bounds(receipt, ALICE, "salary", Interval(Fraction(1), Fraction(2)))
        ledger.store(receipt, HOLDER, {"three": "[3]"})
        ledger.first_state(2, "staff", lambda: "as it is")
        assert ledger.verify() == 3


ASK = {
    "bounds": lambda ledger: ledger.bounds(ALICE, "salary"),
    "answers": lambda ledger: ledger.stored(HOLDER, "zwei"),
    "earlier": lambda ledger: ledger.earlier(HOLDER, "question"),
    "states": lambda ledger: ledger.first_state(1, "visits", str),
}
"""What the second row of each table is the answer to."""


@pytest.mark.parametrize("change", ["hash = 'other'", "sequence = 3"])
@pytest.mark.parametrize("table", ASK)
def test_a_row_that_was_changed_is_not_given(tmp_path, table, change):
    place = tmp_path / "policy.ledger"
    open_at(place).close()
    with closing(sqlite3.connect(place, isolation_level=None)) as sql:
        sql.execute(f"UPDATE meta SET value = '{ID}' WHERE key = 'id'")
        put(sql, WRITTEN)
        sql.execute(f"DROP TRIGGER no_update_of_{table}")
        sql.execute(f"UPDATE {table} SET {change} WHERE sequence = 2")
    with closing(open_at(place)) as ledger:
        for ask in (lambda: ASK[table](ledger), ledger.verify):
            with pytest.raises(PolicyInvalid, match="damaged"):
                ask()
