"""One unit under several names, and ways to it: what a policy may say, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpquery
from dpquery.engine.file_checks import misfits_of, rows_of
from dpquery.errors import PolicyInvalid
from dpquery.policy.load import load_policy
from dpquery.policy.owner.data_validation import check
from dpquery.policy.unit_remedies import NAME_IT
from dpquery.session_methods.tables_and_charges import columns, tables
from tests import ways
from tests.engine.test_ways import ROWS

POLICY = ways.POLICY.format(neighbours="add-remove", type="integer", rows=10, worlds=0)
ITEMS = 'unit_through = { column = "of", table = "orders", key = "number" }'
RETURNS = 'unit_through = { column = "what", table = "items", key = "item" }'


def changed(place: Path, *changes: tuple[str, str]) -> Path:
    """Write a policy with other words in it."""
    ways.policy_at(place, ROWS)
    text = POLICY
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (place / "policy.toml").write_text(text)
    return place / "policy.toml"


def test_a_way_ends_at_the_unit_that_is_stored(tmp_path: Path):
    found = load_policy(changed(tmp_path)).tables
    assert found["returns"].unit == "buyer"
    assert found["returns"].unit_type == found["people"].unit_type
    assert str(found["returns"].through) == "what = items.item, of = orders.number"
    assert [one.name for one in found["returns"].way] == ["returns", "items", "orders"]


def test_keys_that_no_table_lists_have_their_type_in_the_way(tmp_path: Path):
    hidden = ITEMS.replace(" }", ', type = "integer" }')
    path = changed(
        tmp_path,
        (ITEMS, hidden),
        ('columns.number = { type = "integer" }\n', ""),
        ('columns.of = { type = "integer", bounds = [0, 99999999] }\n', ""),
    )
    with dpquery.connect(path) as session:
        assert session.sql("SELECT DP_COUNT(*, eps=1e6) FROM items").rows == [(3,)]


REFUSED = {
    "an unknown table": (
        [(ITEMS, ITEMS.replace("orders", "order"))],
        "leads to a table that the policy does not name: order",
        'unit_through = { column = "of", table = "orders", key = "number" }',
    ),
    "a circle": (
        [(ITEMS, 'unit_through = { column = "item", table = "returns", key = "what" }')],
        "leads in a circle: items -> returns -> items",
        f"{NAME_IT}    in one of these tables",
    ),
    "itself": (
        [(ITEMS, 'unit_through = { column = "of", table = "items", key = "of" }')],
        "leads in a circle: items -> items",
        f"{NAME_IT}    in one of these tables",
    ),
    "a public table": (
        [('privacy_unit_column = "buyer"\nprivacy_unit_type = "integer"\n', "public = true\n"),
         ("max_rows_contributed = 10\n", ""), (", bounds = [-3, 9]", "")],
        "leads through a public table: orders",
        "leave out public = true of orders, and say whose its rows are",
    ),
    "rows that are units": (
        [('unit = "person"\n', ""),
         ('privacy_unit_column = "buyer"\nprivacy_unit_type = "integer"\n', ""),
         ("max_rows_contributed = 10\n", "")],
        "leads to a table of which each row is a unit of its own: orders",
        f"{NAME_IT}    in [tables.orders]",
    ),
    "keys of two types": (
        [(ITEMS, ITEMS.replace('"of"', '"item"'))],
        "compares text with integer",
        "write them with one type",
    ),
    "keys of no type": (
        [(ITEMS, ITEMS.replace('"of"', '"on"').replace('"number"', '"nr"'))],
        "has keys of no type",
        'unit_through = { column = "on", table = "orders", key = "nr", type = "integer" }    '
        'or "text"',
    ),
    "a type that is known": (
        [(ITEMS, ITEMS.replace(" }", ', type = "integer" }'))],
        "states a type of columns that are listed",
        ITEMS,
    ),
    "a column of the unit's name": (
        [("columns.world", 'columns.Buyer = { type = "integer" }\ncolumns.world')],
        "gives the table a unit buyer, and it has a column of that name",
        'privacy_unit_column = "Buyer"    if the column holds the unit',
    ),
    "parts": (
        [("columns.why = { ", "columns.why = { keys = [1, 2], per_unit = true, ")],
        "stands beside parts: why",
        "leave out per_unit or parts of why, or write the unit into the files",
    ),
    "two units": (
        [(ITEMS, f'{ITEMS}\nprivacy_unit_column = "of"')],
        "cannot stand beside privacy_unit_column",
        "leave one of them out",
    ),
    "half a way": (
        [(ITEMS, 'unit_through = { column = "of", table = "orders" }')],
        "must be a table of column, table and key, and type if neither column is listed, "
        "not a table",
        'unit_through = { column = "order_id", table = "orders", key = "order_id" }',
    ),
    "units of two types": (
        [('privacy_unit_type = "integer"', 'privacy_unit_type = "text"')],
        "has another type than the unit of another table: text, and that of people integer",
        "write the files with one type for the unit",
    ),
    "units of no type": (
        [('privacy_unit_type = "integer"\n', "")],
        "does not say of which type its unit is: buyer",
        'privacy_unit_type = "integer"',
    ),
    "rows of their own beside one unit": (
        [('privacy_unit_column = "person"\nrows_per_unit = 1\n', "")],
        "has rows that are units of their own",
        'privacy_unit_column = "person"',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_understood_is_refused(tmp_path: Path, name: str):
    changes, what, remedy = REFUSED[name]
    with pytest.raises(PolicyInvalid) as refused:
        load_policy(changed(tmp_path, *changes))
    text = str(refused.value)
    assert what in text
    assert f"try: {remedy}" in text


@pytest.mark.parametrize("key", ["nobody_has_it", "of", "price"])
def test_no_table_is_offered_that_lacks_the_key(tmp_path: Path, key: str):
    """Nor the table itself."""
    line = f'unit_through = {{ column = "item", table = "orderz", key = "{key}" }}'
    with pytest.raises(PolicyInvalid) as refused:
        load_policy(changed(tmp_path, (ITEMS, line)))
    diagnostic = refused.value.diagnostic
    assert diagnostic.title.endswith("leads to a table that the policy does not name: orderz")
    assert diagnostic.why[1].startswith("Tables here: ")
    assert diagnostic.remedy == ()


def test_the_catalogue_says_whose_the_rows_are(tmp_path: Path):
    policy = load_policy(changed(tmp_path))
    units = {row["table"]: row["unit"] for row in tables(policy).to_pylist()}
    assert units == {
        "people": "person: person",
        "orders": "person: buyer",
        "items": "person: buyer by of = orders.number",
        "returns": "person: buyer by what = items.item, of = orders.number",
    }
    told = {row["column"]: row["unit"] for row in columns(policy.tables["items"]).to_pylist()}
    assert told == {
        "item": None,
        "of": "by of = orders.number",
        "price": None,
        "world": None,
    }


def test_explain_says_whose_the_rows_are(tmp_path: Path):
    with dpquery.connect(changed(tmp_path)) as session:
        lines = str(session.explain("SELECT DP_COUNT(*, eps=1) FROM items"))
    assert "every unit that claims a row by of = orders.number" in lines
    assert "unit         person" in lines


def test_the_owner_is_told_of_rows_that_are_nobodys_and_of_several(tmp_path: Path):
    items = [*ROWS["items"], {"item": "d", "of": None, "price": 1, "world": 0}]
    ways.policy_at(tmp_path, {**ROWS, "items": items}, limit=10)
    with dpquery.connect(tmp_path / "policy.toml"):  # it fits
        pass
    said = {
        (one.place, one.column, one.text)
        for one in check(load_policy(tmp_path / "policy.toml"), misfits_of, rows_of)
    }
    nobodys = {text for place, _, text in said if place == "items" and "nobody" in text}
    shared = {text for place, _, text in said if place == "items" and "several" in text}
    assert nobodys == {
        "1 of 4 rows (25 %) have a key that no unit claims: they are nobody's",
        "1 of 4 rows (25 %) have no key: they are nobody's",
    }
    assert shared == {
        "1 of 4 rows (25 %) are claimed by several units: they count once for each"
    }


SHARED = """
[budget]
epsilon = 1
[tables.bills]
path = "bills.parquet"
privacy_unit_column = "customer_id"
[tables.bills.columns]
customer_id.type = "integer"
invoice_no.type = "text"
[tables.lines]
path = "lines.parquet"
{}
[tables.lines.columns]
invoice_no.type = "text"
amount.type = "integer"
"""
WAY = 'unit_through = {{ column = "invoice_no", table = "bills", key = "{}" }}'
NO_SUCH = "names a column that bills does not list"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("max_rows_contributed = 3", "needs privacy_unit_column"),
        ('public = "?"', "is not decided"),
        ('privacy_unit_column = "?"', "is not decided"),
        (WAY.format("invoice_id"), f"{NO_SUCH}: invoice_id"),
        (WAY.format("invoce_no"), f"{NO_SUCH}: invoce_no"),
    ],
)
def test_a_way_is_offered_by_a_key_that_both_tables_have(tmp_path: Path, line: str, what: str):
    """Rows of persons are not led to be public, nor to a column that the table lacks."""
    policy = tmp_path / "policy.toml"
    for name in ("bills", "lines"):
        (tmp_path / f"{name}.parquet").touch()
    policy.write_text(SHARED.format(line))
    with pytest.raises(PolicyInvalid) as refused:
        load_policy(policy)
    assert what in refused.value.diagnostic.title
    assert refused.value.diagnostic.remedy[0] == WAY.format("invoice_no")
    policy.write_text(SHARED.format(WAY.format("invoice_no")))
    assert load_policy(policy).tables["lines"].unit == "customer_id"
    hidden = WAY.format("invoice_id").replace(" }", ', type = "text" }')
    policy.write_text(SHARED.format(hidden))
    load_policy(policy)


@pytest.mark.parametrize(
    ("unit", "column", "offered"),
    [
        ("card_no", "card", 'privacy_unit_column = "card"'),
        ("customer_id", "invoice_id", 'privacy_unit_column = "invoice_id"'),
        ("customer_id", "line_id", NAME_IT),
    ],
)
def test_to_be_public_is_never_the_first_that_is_offered(
    tmp_path: Path, unit: str, column: str, offered: str
):
    policy = tmp_path / "policy.toml"
    for name in ("bills", "lines"):
        (tmp_path / f"{name}.parquet").touch()
    text = SHARED.replace('invoice_no.type = "text"\namount', f'{column}.type = "text"\namount')
    text = text.replace("customer_id", unit) + '[privacy]\nunit = "customer"\n'
    for key in ("public", "privacy_unit_column"):
        policy.write_text(text.format(f'{key} = "?"'))
        with pytest.raises(PolicyInvalid) as refused:
            load_policy(policy)
        first, second = refused.value.diagnostic.remedy
        meant = NAME_IT if key == "public" and column == "invoice_id" else offered
        assert (first, second.endswith("in its place: public = true")) == (meant, True)
