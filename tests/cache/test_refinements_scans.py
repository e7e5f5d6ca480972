"""A release is refined on the files of its own scan, whatever else its statement reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

import dpquery
from dpquery.errors import ScanFailed
from dpquery.session import Session
from tests.samples import paid, sample_policy

STAFF = "SELECT DP_COUNT(*, eps={}) FROM staff"
VISITS = "SELECT DP_COUNT(*, eps={}) FROM visits"
BOTH = f"SELECT ({STAFF}) AS a, ({VISITS}) AS b"
JOINED = [
    "SELECT DP_COUNT(*, eps={}) FROM staff JOIN visits USING (person_id)",
    "SELECT DP_COUNT(*, eps={}) FROM staff WHERE person_id IN (SELECT person_id FROM visits)",
]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return sample_policy(tmp_path, "epsilon = 1000\ndelta = 1e-3")


@pytest.fixture
def session(policy: Path) -> Iterator[Session]:
    with dpquery.connect(policy) as opened:
        yield opened


def copy(policy: Path, table: str) -> None:
    """Put a copy with times of its own in place of a file: the same version of the data."""
    file = policy.with_name(f"{table}.parquet")
    content = file.read_bytes()
    file.write_bytes(content)
    os.utime(file, (1, 1))


def test_what_another_scan_of_its_statement_read_does_not_matter(
    policy: Path, session: Session
):
    session.sql(BOTH.format("0.1", "0.1"))
    copy(policy, "visits")
    session.sql(f"REFRESH {VISITS.format('0.2')}")
    assert paid(session, BOTH.format("0.3", "0.3")) == Fraction("0.3")
    assert paid(session, BOTH.format("0.4", "0.4")) == Fraction("0.2")
    assert session._ledger.verify() == 4


def test_a_release_is_kept_with_the_places_of_its_own_scan(session: Session):
    session.sql(BOTH.format("0.1", "0.1"))
    session.sql(f"SELECT ({JOINED[0].format('0.1')}) AS a, ({STAFF.format('0.2')}) AS b")
    kept = session._ledger._store.database.execute("SELECT read FROM earlier ORDER BY sequence")
    read = [[table for table in ("staff", "visits") if table in text] for (text,) in kept]
    assert read == [["staff"], ["visits"], ["staff", "visits"], ["staff"]]


@pytest.mark.parametrize("changed", ["staff", "visits"])
def test_the_files_of_each_refined_release_have_to_be_its_own(
    policy: Path, session: Session, changed: str
):
    session.sql(BOTH.format("0.1", "0.1"))
    copy(policy, changed)
    with pytest.raises(ScanFailed):
        session.sql(BOTH.format("0.3", "0.3"))
    assert session.budget.spent.epsilon == Fraction("0.6"), "the charge stays"


@pytest.mark.parametrize("changed", ["staff", "visits"])
@pytest.mark.parametrize("joined", JOINED)
def test_all_tables_of_one_scan_are_its_own(
    policy: Path, session: Session, joined: str, changed: str
):
    session.sql(joined.format("0.1"))
    copy(policy, changed)
    with pytest.raises(ScanFailed):
        session.sql(joined.format("0.3"))
    assert paid(session, joined.format("0.3")) == Fraction("0.3"), "the earlier one is used up"


@pytest.mark.parametrize("turned", [False, True])
def test_scans_of_one_table_are_refined_together_on_one_state_alone(
    policy: Path, session: Session, turned: bool
):
    """One earlier value is of the files as they are, and the other one is not."""
    old = f"{STAFF} WHERE age > 30"
    session.sql(old.format("0.1"))
    copy(policy, "staff")
    session.sql(f"SELECT ({STAFF.format('0.1')}) AS a, ({VISITS.format('0.1')}) AS b")
    parts = (STAFF, old) if turned else (old, STAFF)
    both = f"SELECT ({parts[0]}) AS a, ({parts[1]}) AS b"
    with pytest.raises(ScanFailed):
        session.sql(both.format("0.3", "0.3"))


def test_a_place_that_one_of_them_does_not_know_fails(session: Session, monkeypatch):
    """That the other one of the same table knows it does not help."""
    other = f"{STAFF} WHERE age > 30"
    both = f"SELECT ({STAFF}) AS a, ({other}) AS b"
    session.sql(both.format("0.1", "0.1"))
    find = session._ledger.earlier

    def forgotten(*asked: object) -> list[object]:
        return [replace(one, read={}) if one.number == 1 else one for one in find(*asked)]

    monkeypatch.setattr(session._ledger, "earlier", forgotten)
    with pytest.raises(ScanFailed):
        session.sql(both.format("0.3", "0.3"))
