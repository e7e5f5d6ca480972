"""The table of keys: what is loaded, refused and documented comes from it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction

import pytest

from dpquery.core.types import DATE, DOUBLE, INTEGER, TEXT, Type
from dpquery.policy import toml_keys, value_parsers
from dpquery.policy.document import Unfit
from dpquery.policy.model import Bounds, Column, Csv, ScanLimits, Table
from dpquery.policy.toml_keys import COLUMN, GROUPS, LIMITS, TABLE, Group, Key

KEYS = [(group, key) for group in GROUPS for key in group.keys]
KNOWN = {"type": INTEGER, "bounds": None, "max_length": 9}


def example(key: Key) -> object:
    return tomllib.loads(key.line, parse_float=Decimal)[key.name]


@pytest.mark.parametrize(("group", "key"), KEYS, ids=lambda one: getattr(one, "name", ""))
def test_each_key_takes_its_own_example_and_says_what_it_is_for(group: Group, key: Key) -> None:
    known = {**KNOWN, "type": TEXT} if key.name == "keys" else KNOWN
    key.read(example(key), tuple(known[name] for name in key.known))
    assert key.says[0].islower()
    assert not key.says.endswith(".")
    near = {other.key for other in (*key.needs, *key.excludes)}
    assert near <= set(group.names)
    assert {*key.known} <= {other.to for other in group.keys[: group.keys.index(key)]}


@pytest.mark.parametrize(("group", "key"), KEYS, ids=lambda one: getattr(one, "name", ""))
def test_each_key_says_what_it_costs(group: Group, key: Key) -> None:
    assert re.match(r"(privacy|noise|time|nothing)\b", key.costs), f"{group.header} {key.name}"
    assert not key.costs.endswith(".")


def test_what_is_read_is_what_the_model_remembers() -> None:
    assert {key.to for key in COLUMN.keys} == {one.name for one in fields(Column)} - {
        *("name", "converted", "path", "exact")
    }
    assert {key.to for key in LIMITS.keys} == {one.name for one in fields(ScanLimits)}
    of_csv = {one.name for one in fields(Csv)}
    sources = {"path", "database", "schema", "table", "format", *of_csv}
    derived = {"name", "source", "written", "columns", "together", "lists", "zone"}
    of_table = {one.name for one in fields(Table)} - derived
    assert {key.to for key in TABLE.keys} - sources == of_table


def test_a_section_of_the_file_belongs_to_each_group() -> None:
    assert {group.header.strip("[]").split(".")[0] for group in GROUPS} == {*toml_keys.SECTIONS}


@pytest.mark.parametrize(
    ("name", "value", "known", "meant"),
    [
        ("bounds", ["0", "1.5"], (DOUBLE,), "bounds = [0, 1.5]"),
        ("bounds", ["2020-01-01", "2021-01-01"], (DATE,), "bounds = [2020-01-01, 2021-01-01]"),
        ("bounds", "many", (DOUBLE,), "bounds = [0, 99.5]"),
        ("keys", "[1, 2]", (INTEGER, None, 9), "keys = [1, 2]"),
        ("max_length", "12", (), "max_length = 12"),
        ("max_length", "1\nx = 2", (), "max_length = 256"),
        ("max_length", "[" * 999, (), "max_length = 256"),
        ("grid", "1e999999999", (), "grid = 0.01"),
        ("null_group", "no", (), "null_group = false"),
    ],
)
def test_what_is_refused_is_offered_as_it_could_be_meant(
    name: str, value: object, known: tuple[Type, ...], meant: str
) -> None:
    with pytest.raises(Unfit) as caught:
        COLUMN[name].read(value, known)
    assert caught.value.remedy == (meant,)
    assert caught.value.why


def test_a_float_is_read_by_its_repr_and_a_bool_is_no_number() -> None:
    assert value_parsers.read_delta(0.1) == Fraction(1, 10)
    third = Fraction(1, 3)
    assert value_parsers.read_bounds([0.1, third], DOUBLE) == Bounds(Fraction(1, 10), third)
    with pytest.raises(Unfit, match="must be a number from 0 to below 1, not true"):
        value_parsers.read_delta(True)
