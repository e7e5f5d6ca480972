"""What the policy and the ledger say, as answers that cost nothing."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from fractions import Fraction

import pytest

from dpquery.budget.ledger.charge_and_receipt import Entry
from dpquery.core.privacy_events import Composed, Pure, Refined
from dpquery.core.privacy_loss import Loss
from dpquery.core.types import TEXT
from dpquery.errors import NameRefused
from dpquery.policy.model import Column
from dpquery.session_methods import tables_and_charges as catalogue
from tests.corpus.cases import facts

POLICY, _ = facts()


def test_tables_are_listed_with_what_bounds_a_unit():
    assert catalogue.tables(POLICY).to_pylist() == [
        {
            "table": "staff",
            "unit": "person_id",
            "rows_per_unit": 1,
            "max_rows_contributed": None,
            "public": False,
        },
        {
            "table": "visits",
            "unit": "person_id",
            "rows_per_unit": None,
            "max_rows_contributed": "10",
            "public": False,
        },
        {
            "table": "regions",
            "unit": None,
            "rows_per_unit": None,
            "max_rows_contributed": None,
            "public": True,
        },
    ]


def test_columns_are_described_from_the_policy_alone():
    rows = {row["column"]: row for row in catalogue.columns(POLICY.tables["staff"]).to_pylist()}
    assert rows["rating"] == {
        "column": "rating",
        "type": "decimal(3,1)",
        "low": "1",
        "high": "5",
        "keys": None,
    }
    assert rows["dept"]["keys"] == "'eng', 'hr', 'legal', 'ops', 'sales'"
    assert (rows["hired"]["low"], rows["hired"]["high"]) == ("2000-01-01", "2025-12-31")
    assert rows["person_id"]["low"] is None


def test_a_table_is_found_in_any_case_of_its_ascii_letters():
    assert catalogue.find_table(POLICY, "STAFF").name == "staff"
    for name in ("ſtaff", "staff.parquet", ""):
        with pytest.raises(NameRefused) as caught:
            catalogue.find_table(POLICY, name)
        assert caught.value.code == "DPQ201"


def test_the_refusal_names_the_nearest_table():
    with pytest.raises(NameRefused) as caught:
        catalogue.find_table(POLICY, "vists")
    assert (
        str(caught.value)
        == """\
refused[DPQ201]: there is no table 'vists' in this session
   why: queries reach only the tables that the policy names.
   try: visits
        tables here: visits, regions, staff"""
    )


def test_charges_are_listed_with_their_exact_loss():
    entry = Entry(
        datetime(2025, 1, 31, tzinfo=UTC),
        "SELECT 1",
        (Pure(Fraction(1, 3)),),
        Loss(Fraction(1, 3), Fraction(1, 10**7)),
        "s",
    )
    refined = replace(entry, events=(Composed((Refined(Fraction(1, 4), Fraction(1)),)),))
    listed = {
        "at": entry.when,
        "epsilon": "0.333333333333…",
        "delta": "1e-7",
        "query": "SELECT 1",
        "remark": None,
    }
    assert catalogue.charges([entry, refined], POLICY).to_pylist() == [
        listed,
        listed | {"remark": "refines the answer at 0.25"},
    ]


def test_keys_are_written_as_a_query_takes_them():
    keys = ("a, b", "it's", 7, True, Fraction(5, 2), date(2024, 2, 29))
    table = replace(POLICY.tables["staff"], columns={"c": Column("c", TEXT, keys=keys)})
    (row,) = catalogue.columns(table).to_pylist()
    written = "'a, b', 'it''s', 7, true, 2.5, DATE '2024-02-29'"
    assert row["keys"] == written
