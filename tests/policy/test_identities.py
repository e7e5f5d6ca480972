"""What the ledger knows things of the policy by: texts that no change of a class may move."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from datetime import date, datetime
from fractions import Fraction
from pathlib import Path
from types import ModuleType

import pytest

from dpquery.budget.ledger.charge_and_receipt import Account
from dpquery.budget.ledger.owner_orders import Orders
from dpquery.cache.lookup import holder_of
from dpquery.cache.table_identity import promise_of
from dpquery.core import privacy_events, privacy_loss, types
from dpquery.core.privacy_loss import Ceiling, Loss, Neighbours
from dpquery.core.types import DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type
from dpquery.plan.touched_partitions import every_part
from dpquery.policy import model
from dpquery.policy.model import (
    Bounds,
    Column,
    DatabaseTable,
    Files,
    LedgerSettings,
    Policy,
    PolicyBudget,
    Table,
    place_name,
)

REGION = Column("region", TEXT, keys=("N", "it's"), per_unit=1)
COLUMNS = {
    REGION: "Column(name='region', type=Type(kind=<Kind.TEXT: 'text'>, precision=0, scale=0, "
    "listed=False), bounds=None, keys=('N', \"it's\"), grid=None, max_length=256, "
    "per_unit=True)",
    Column(
        "v",
        Type(Kind.DECIMAL, 9, 2),
        Bounds(Fraction(1, 2), Fraction(9)),
        (Fraction(1),),
        per_unit=3,
    ): "Column(name='v', type=Type(kind=<Kind.DECIMAL: 'decimal'>, precision=9, scale=2, "
    "listed=False), bounds=Bounds(low=Fraction(1, 2), high=Fraction(9, 1)), "
    "keys=(Fraction(1, 1),), grid=None, max_length=256, per_unit=3)",
    Column(
        "d",
        DATE,
        Bounds(date(2020, 1, 2), date(2021, 1, 2)),
        (date(2020, 1, 2),),
        parts_rows=True,
    ): "Column(name='d', type=Type(kind=<Kind.DATE: 'date'>, precision=0, scale=0, "
    "listed=False), bounds=Bounds(low=datetime.date(2020, 1, 2), "
    "high=datetime.date(2021, 1, 2)), keys=(datetime.date(2020, 1, 2),), grid=None, "
    "max_length=256, per_unit=False)",
    Column(
        "t",
        TIMESTAMP,
        Bounds(datetime(2020, 1, 2), datetime(2021, 1, 2, 3, 4, 5, 6)),  # noqa: DTZ001
        null_group=False,
    ): "Column(name='t', type=Type(kind=<Kind.TIMESTAMP: 'timestamp'>, precision=0, scale=0, "
    "listed=False), bounds=Bounds(low=datetime.datetime(2020, 1, 2, 0, 0), "
    "high=datetime.datetime(2021, 1, 2, 3, 4, 5, 6)), keys=None, grid=None, "
    "max_length=256, per_unit=False)",
    Column("x", DOUBLE, grid=Fraction(1, 100), max_length=8): "Column(name='x', "
    "type=Type(kind=<Kind.DOUBLE: 'double'>, precision=0, scale=0, listed=False), "
    "bounds=None, keys=None, grid=Fraction(1, 100), max_length=8, per_unit=False)",
}
POLICY = Policy(
    "policy.toml",
    Neighbours.ADD_REMOVE,
    PolicyBudget(
        Ceiling.of(Loss(Fraction(2), Fraction(1, 10**6)), Fraction(1, 2)), Fraction(1)
    ),
    {
        "t": Table(
            "t", Files((Path("/a/t.parquet"),)), ("t.parquet",), {"region": REGION}, "u", TEXT
        ),
        "m": Table("m", Files((Path("/a/m.parquet"),)), (), {}, "u"),
        "d": Table("d", DatabaseTable(Path("/b/d.duckdb"), "Rows"), (), {}),
    },
    LedgerSettings(Path("/a/policy.ledger")),
    directory=Path("/a"),
)
ASKER = Account("alice", "session of alice")


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_a_column_is_known_by_this_text(column: Column) -> None:
    assert column.identity() == COLUMNS[column]


def test_a_part_of_a_table_is_known_by_this_text() -> None:
    assert {part.column for part in every_part(POLICY)} == {"t.region 0acb7315fdd9a8a8"}


def test_a_place_is_known_by_this_text() -> None:
    names = {name: place_name(table, POLICY) for name, table in POLICY.tables.items()}
    assert names == {
        "t": "('.', ('t.parquet',))",
        "m": "('m.parquet',)",
        "d": "('../b/d.duckdb', 'Rows')",
    }


def test_the_limits_of_an_asker_are_known_by_this_text() -> None:
    orders = Orders(granted={"alice": Loss(Fraction(1))})
    assert holder_of(POLICY, ASKER, orders).rights == (
        "(Ceiling(limit=Loss(epsilon=Fraction(2, 1), delta=Fraction(1, 1000000)), "
        "converted=Fraction(1, 2000000), rho=Fraction(417208589, 5000000000), summed=True), "
        "Fraction(1, 1), Loss(epsilon=Fraction(1, 1), delta=Fraction(0, 1)), '')"
    )


def test_a_description_moves_nobodys_budget() -> None:
    told = replace(REGION, description="where a shop stands")
    t = replace(POLICY.tables["t"], columns={"region": told})
    policy = replace(POLICY, tables={**POLICY.tables, "t": t})
    assert [*every_part(policy)] == [*every_part(POLICY)]
    assert holder_of(policy, ASKER, Orders()) == holder_of(POLICY, ASKER, Orders())
    assert promise_of(policy) == promise_of(POLICY)


def _classes(module: ModuleType) -> list[type]:
    return [one for one in vars(module).values() if isinstance(one, type) and is_dataclass(one)]


def test_no_repr_of_a_class_reaches_the_ledger(monkeypatch: pytest.MonkeyPatch) -> None:
    """A field that is added for looks alone must not make a column another one."""

    def refused(_: object) -> str:
        raise AssertionError("what is stored is named by identity()")

    for module in (model, privacy_loss, types, privacy_events):
        for one in _classes(module):
            monkeypatch.setattr(one, "__repr__", refused)
    with pytest.raises(AssertionError):
        repr(REGION)
    assert list(every_part(POLICY))
    assert holder_of(POLICY, ASKER, Orders(granted={"alice": Loss(Fraction(1))})).rights
    assert promise_of(POLICY).units
    assert [place_name(table, POLICY) for table in POLICY.tables.values()]


def test_what_is_no_part_of_an_identity_is_listed() -> None:
    """A new key of a column: does it say which part a unit is in? If so, it belongs there."""
    text = REGION.identity()
    named = {one.name for one in fields(Column) if f"{one.name}=" in text}
    others = {one.name for one in fields(Column)} - named
    assert others == {
        *("parts_rows", "null_group", "description", "converted", "path", "exact")
    }
    assert replace(REGION, null_group=False).identity() == text
    assert replace(REGION, type=INTEGER).identity() != text
