"""Many tables in one draft: which are one, who is protected, which way leads there."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpquery
from dpquery.core.types import BOOLEAN, INTEGER, TEXT
from dpquery.engine.file_checks import misfits_of, schemas_of
from dpquery.errors import PolicyInvalid
from dpquery.policy.load import load_policy
from dpquery.policy.name_conventions import entity, person, refers_to, words
from dpquery.policy.owner.draft import draft
from dpquery.policy.sources.schema import Schema

Tables = dict[str, dict[str, Any]]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: str, columns: str, **types: pa.DataType) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    fields = {name: types.get(name, pa.int64()) for name in columns.split()}
    pq.write_table(pa.schema(fields).empty_table(), path)


def tables_of(text: str) -> Tables:
    return {name: table for name, table in tomllib.loads(text)["tables"].items()}


def drafted(*paths: str) -> Tables:
    return tables_of(draft(paths, schemas_of).text())


def schema_of(columns: str) -> Schema:
    types = {name: INTEGER for name in columns.split()}
    return Schema(types, written={name: "BIGINT" for name in types})


def of_schemas(tables: Mapping[str, str]) -> str:
    """Draft a policy for a database of integers."""
    found = {("main", name): schema_of(columns) for name, columns in tables.items()}
    return draft("a.duckdb", lambda _: found).text()


SHOP = {
    "customers": "id name_code",
    "orders": "order_id customer_id",
    "lineitems": "order_id product_id quantity",
    "notes": "lineitem_id order_id",
    "sessions": "session_id user_id",
    "page_views": "session_id seconds",
    "products": "product_id category_id",
}


def test_each_table_has_the_way_that_leads_to_one_unit():
    found = tables_of(of_schemas(SHOP))
    through = {"column": "order_id", "table": "orders", "key": "order_id"}
    assert found["customers"]["privacy_unit_column"] == "id"
    assert found["orders"]["privacy_unit_column"] == "customer_id"
    assert found["lineitems"]["unit_through"] == found["notes"]["unit_through"] == through
    assert found["sessions"]["privacy_unit_column"] == "?"
    assert found["page_views"]["unit_through"]["table"] == "sessions"
    assert found["products"]["public"] == "?"
    text = of_schemas(SHOP)
    assert tomllib.loads(text)["privacy"]["unit"] == "?"
    assert '# "customer", by the names of columns; there is also "user": confirm.' in text
    assert '"user_id", if that is the customer of the other tables' in text


TPCH = {
    "region": "r_regionkey r_name",
    "nation": "n_nationkey n_regionkey",
    "customer": "c_custkey c_nationkey",
    "supplier": "s_suppkey s_nationkey",
    "part": "p_partkey p_size",
    "partsupp": "ps_partkey ps_suppkey",
    "orders": "o_orderkey o_custkey",
    "lineitem": "l_orderkey l_partkey l_suppkey l_linenumber",
}


def test_names_with_the_prefix_of_their_table_are_taken_apart():
    found = tables_of(of_schemas(TPCH))
    assert found["customer"]["privacy_unit_column"] == "c_custkey"
    assert found["orders"]["privacy_unit_column"] == "o_custkey"
    assert found["lineitem"]["unit_through"] == {
        "column": "l_orderkey",
        "table": "orders",
        "key": "o_orderkey",
    }
    public = {name for name, table in found.items() if "public" in table}
    assert public == {"region", "nation", "supplier", "part", "partsupp"}


def test_a_way_may_be_long_and_the_shortest_is_taken():
    chain = {"scans": "visit_id", "visits": "id stay_id", "stays": "stay_id patient_id"}
    found = tables_of(of_schemas(chain))
    assert found["scans"]["unit_through"]["table"] == "visits"
    assert found["visits"]["unit_through"] == {
        "column": "stay_id",
        "table": "stays",
        "key": "stay_id",
    }
    short = {**chain, "scans": "visit_id stay_id"}
    assert tables_of(of_schemas(short))["scans"]["unit_through"]["table"] == "stays"


LIBRARY = {
    "books": "book genre",
    "branches": "branch",
    "fines": "loan_id cents",
    "loans": "loan_id card book",
    "members": "card_no birth_year",
    "events": "member topic",
    "readers": "name_code",
}


def test_who_seems_to_be_behind_identifiers_is_asked_for_and_not_shown():
    text = of_schemas(LIBRARY)
    found = tables_of(text)
    assert {name for name, table in found.items() if "public" in table} == {"books", "branches"}
    asked = {name for name, one in found.items() if one.get("privacy_unit_column") == "?"}
    assert asked == {"loans", "members", "readers"}
    through = {"column": "loan_id", "table": "loans", "key": "loan_id"}
    assert found["fines"]["unit_through"] == through
    for column in ("card", "card_no"):
        assert f'"{column}", if that is the member of the other tables' in text
    assert text.count("# public = true") == 3


def test_a_way_to_a_table_that_may_be_public_stands_in_a_comment():
    parts = {"regions": "region_id", "shops": "shop_id region_id", "users": "user_id"}
    text = of_schemas(parts).split("[tables.shops]")[1]
    way = '# unit_through = { column = "region_id", table = "regions", key = "region_id" }'
    assert way in text
    assert tables_of(of_schemas(parts))["shops"]["public"] == "?"


def test_keys_of_csv_have_the_type_of_those_that_they_name(here: Path):
    write("data/loans.parquet", "loan_id member_id")
    Path("data/ratings.csv").write_text("loan_id,stars\n1,5\n")
    found = drafted("data")["ratings"]
    assert found["unit_through"]["table"] == "loans"
    assert found["columns"] == {"loan_id": {"type": "integer"}, "stars": {"type": "text"}}


def test_tables_that_refer_to_one_another_end_nowhere():
    ring = {"a": "a_id b_id", "b": "b_id a_id", "users": "id"}
    assert tables_of(of_schemas(ring))["a"]["public"] == "?"


def test_a_key_of_another_type_leads_nowhere():
    write("users.parquet", "user_id")
    write("orders.parquet", "order_id user_id")
    write("items.parquet", "order_id", order_id=pa.string())
    assert drafted("users.parquet", "orders.parquet", "items.parquet")["items"]["public"] == "?"


def test_customers_come_before_those_who_serve_them():
    northwind = {
        "employees": "employee_id",
        "territories": "employee_id",
        "logins": "employee_id",
        "orders": "order_id customer_id employee_id",
    }
    assert '# "customer", by' in of_schemas(northwind)


def test_without_a_person_each_table_is_asked_about():
    found = tables_of(of_schemas({"a": "a_id", "b": "x"}))
    assert {table["privacy_unit_column"] for table in found.values()} == {"?"}


NAMES = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["id", "user_id", "order_id", "orders", "users", '"', "\n[privacy]", "#", "\\", "a.b", "?"]
)
TYPES = st.sampled_from([INTEGER, TEXT, BOOLEAN])
SCHEMAS = st.dictionaries(NAMES, TYPES, max_size=4).map(
    lambda types: Schema({name: one for name, one in types.items() if name.isprintable()})
)


@given(st.dictionaries(NAMES, SCHEMAS, min_size=1, max_size=4))
def test_every_draft_is_toml_that_names_what_was_found_and_decides_nothing(schemas):
    found = {("main", name): schema for name, schema in schemas.items()}
    text = draft("a.duckdb", lambda _: found).text()
    values = tomllib.loads(text)
    assert [table["table"] for table in values["tables"].values()] == [*schemas]
    columns = [{*table["columns"]} for table in values["tables"].values()]
    assert columns == [{*schema.types} for schema in schemas.values()]
    assert "?" in [
        values["privacy"].get("unit"),
        *(table.get("privacy_unit_column") for table in values["tables"].values()),
    ]
    said = [one for table in values["tables"].values() for one in table["columns"].values()]
    assert all(one.keys() == {"type"} for one in said)


def test_a_public_table_has_to_be_decided(here: Path):
    write("data/users.parquet", "user_id age")
    write("data/products.parquet", "product_id")
    text = draft("data", schemas_of).text()
    lines = [line for line in text.splitlines() if not line.startswith('unit = "?"')]
    Path("policy.toml").write_text("\n".join(lines))
    with pytest.raises(PolicyInvalid) as caught:
        load_policy("policy.toml")
    assert caught.value.diagnostic.title == 'tables.products.public is not decided: "?"'
    assert caught.value.diagnostic.remedy[1].endswith("in its place: public = true")
    mended = "\n".join(lines).replace('public = "?"', "public = true")
    Path("policy.toml").write_text(mended)
    policy = load_policy("policy.toml")
    assert policy.tables["products"].public
    assert policy.tables["users"].unit == "user_id"


def decided(text: str) -> str:
    """Decide what a draft of a shop leaves to its owner."""
    text = text.replace('unit = "?"', 'unit = "customer"').replace(
        'public = "?"', "public = true"
    )
    return text.replace('privacy_unit_column = "?"', 'privacy_unit_column = "user_id"')


@pytest.mark.parametrize("tables", [SHOP, TPCH], ids=["shop", "tpch"])
@pytest.mark.parametrize("stored", [False, True], ids=["files", "database"])
def test_a_draft_loads_once_its_owner_has_decided(tables: dict[str, str], stored: bool):
    for name, columns in tables.items():
        if not stored:
            write(f"data/{name}.parquet", columns)
            continue
        with duckdb.connect("data.duckdb") as database:
            listed = ", ".join(f"{column} BIGINT" for column in columns.split())
            database.execute(f"CREATE TABLE {name} ({listed})")
    policy = Path("policy.toml")
    policy.write_text(draft("data.duckdb" if stored else "data", schemas_of).text())
    with pytest.raises(PolicyInvalid) as caught:
        load_policy(policy)
    assert caught.value.diagnostic.title == 'privacy.unit is not decided: "?"'
    policy.write_text(decided(policy.read_text()))
    loaded = load_policy(policy)
    ways = {name: str(table.through) for name, table in loaded.tables.items() if table.through}
    if tables is TPCH:
        assert ways == {"lineitem": "l_orderkey = orders.o_orderkey"}
    else:
        assert ways.keys() == {"lineitems", "notes", "page_views"}
    private = [table for table in loaded.tables.values() if not table.public]
    assert {table.unit_type for table in private} == {INTEGER}
    with dpquery.connect(policy) as session:
        for table in private:
            session.sql(
                f"SELECT DP_COUNT(*, eps=0.01, max_rows_contributed=1) FROM {table.name}"
            )


def test_a_public_table_may_stand_in_a_duckdb_file():
    with duckdb.connect("data.duckdb") as database:
        database.execute("CREATE TABLE users AS SELECT 1 AS user_id, 2 AS region_id")
        database.execute(
            "CREATE TABLE regions (region_id INT, name TEXT COLLATE NOCASE);"
            "INSERT INTO regions VALUES (1, 'a'), (2, 'A')"
        )
    Path("policy.toml").write_text(
        "budget.epsilon = 9\ntables.regions = { database = 'data.duckdb', table = 'regions', "
        "public = true, unique = ['name'] }\n"
        "[tables.users]\ndatabase = 'data.duckdb'\ntable = 'users'\n"
        "columns.region_id = { type = 'integer' }\n"
    )
    with dpquery.connect("policy.toml") as session:
        assert session.sql("SELECT name FROM regions ORDER BY ALL").rows == [("A",), ("a",)]
        asked = "SELECT name, DP_COUNT(*, eps=1) AS n FROM users JOIN regions USING (region_id)"
        assert len(session.sql(f"{asked} GROUP BY name").rows) == 2


# Which files are one table.


def test_files_of_a_folder_that_differ_in_numbers_are_one_table():
    for number in range(3):
        write(f"shop/visits/part-{number:05}.parquet", "person_id day")
        write(f"shop/orders-2024-{number + 1:02}.parquet", "person_id")
    write("shop/people.parquet", "person_id")
    write("shop/_SUCCESS.parquet", "other")
    write("shop/.hidden/x.parquet", "other")
    found = {name: table["path"] for name, table in drafted("shop").items()}
    assert found == {
        "orders": "shop/orders-*.parquet",
        "people": "shop/people.parquet",
        "visits": "shop/visits/*.parquet",
    }


def test_files_that_a_glob_would_add_to_are_listed():
    write("shop/part-1.parquet", "person_id")
    write("shop/part-2.parquet", "person_id")
    write("shop/part-of.parquet", "x")
    assert drafted("shop")["shop"]["path"] == ["shop/part-1.parquet", "shop/part-2.parquet"]


def test_files_of_the_same_pattern_with_other_columns_are_tables_of_their_own():
    write("q/q1.parquet", "person_id")
    write("q/q2.parquet", "order_id")
    write("q/q3.parquet", "order_id")
    found = {name: table["path"] for name, table in drafted("q").items()}
    assert found == {"q1": "q/q1.parquet", "q2": ["q/q2.parquet", "q/q3.parquet"]}


def test_folders_that_are_named_as_values_are_one_table():
    for year in (2023, 2024):
        for month in (1, 2):
            write(f"lake/visits/year={year}/month={month}/a.parquet", "person_id")
    text = draft("lake", schemas_of).text()
    table = tables_of(text)["visits"]
    assert table["path"] == "lake/visits"
    assert table["columns"] == {
        "person_id": {"type": "integer"},
        "month": {"type": "text"},
        "year": {"type": "text"},
    }
    assert text.count("or another type, if all its values are") == 2


def test_lines_and_folders_are_texts_until_their_owner_says_more(here: Path):
    write("data/visits/year=2024/a.parquet", "person_id")
    Path("data/people.csv").write_text("person_id,age\n1,30\n")
    text = draft("data", schemas_of).text().replace('unit = "?"', 'unit = "person"')
    types = {name: one["type"] for name, one in tables_of(text)["people"]["columns"].items()}
    assert types == {"person_id": "integer", "age": "text"}  # as that of the visits
    typed = re.sub(
        r'^(person_id|age|year) = .*?"text"', r'\1 = { type = "integer"', text, flags=re.M
    )
    Path("policy.toml").write_text(typed)
    with dpquery.connect("policy.toml") as session:
        for call in ("SUM(age, bounds=[0, 99], ", "COUNT(*, "):
            table = "people" if "age" in call else "visits WHERE year = 2024"
            session.sql(f"SELECT DP_{call}eps=0.1, max_rows_contributed=1) FROM {table}")


def test_files_on_one_command_line_are_told_apart_as_in_a_folder():
    for name in ("v/1.parquet", "v/2.parquet", "a/people.parquet", "b/people.parquet"):
        write(name, "person_id")
    found = drafted("v/1.parquet", "v/2.parquet", "a/people.parquet", "b/people.parquet")
    assert {name: table["path"] for name, table in found.items()} == {
        "v": "v/*.parquet",
        "people": "a/people.parquet",
        "people_2": "b/people.parquet",
    }


def test_what_cannot_be_read_in_a_folder_is_told():
    write("shop/people.parquet", "person_id")
    write("shop/lake/x.parquet", "person_id")
    Path("shop/lake/.hoodie").mkdir()
    Path("shop/regions.csv").write_text("region\nnorth\n")
    Path("shop/seen.jsonl").write_text("{}\n")
    Path("shop/broken.parquet").write_text("nothing")
    text = draft("shop", schemas_of).text()
    found = tables_of(text)
    assert [*found] == ["people", "regions"]
    assert found["regions"]["columns"] == {"region": {"type": "text"}}
    assert "# shop/lake/x.parquet is left out: it names files of a Hudi table" in text
    assert "# shop/broken.parquet is left out: it names a file that is not readable" in text
    assert "# shop/seen.jsonl is left out: it names a file that does not say" in text
    _, _, example = text.partition("so list them: seen.jsonl\n")
    lines = "\n".join(line.removeprefix("#   ") for line in example.splitlines()[:3])
    seen = tables_of(lines)["seen"]
    assert (seen["path"], [*seen["columns"]]) == ("shop/seen.jsonl", ["name", "amount"])
    Path("policy.toml").write_text(f"budget.epsilon = 1\n{lines}\n")
    assert load_policy("policy.toml").tables["seen"].columns.keys() == {"name", "amount"}
    for name in ("people.parquet", "regions.csv"):
        Path("shop", name).unlink()
    with pytest.raises(PolicyInvalid, match="not readable"):
        draft("shop", schemas_of)
    Path("empty").mkdir()
    with pytest.raises(PolicyInvalid, match="a folder without Parquet, CSV or DuckDB files"):
        draft("empty", schemas_of)


def test_tables_of_a_duckdb_file_are_drafted_from_its_catalogue_alone():
    """I1"""
    with duckdb.connect("shop.duckdb") as database:
        database.execute("CREATE TABLE users (user_id BIGINT, kin TEXT COLLATE NOCASE, b BLOB)")
        database.execute("CREATE TABLE orders (order_id BIGINT, user_id BIGINT, d INTERVAL)")
        database.execute("CREATE VIEW adults AS SELECT user_id FROM users WHERE user_id > 9")
        database.execute("CREATE VIEW drawn AS SELECT user_id, random() AS x FROM users")
        database.execute("CREATE SCHEMA web; CREATE TABLE web.hits (user_id BIGINT)")
    text = draft("shop.duckdb", schemas_of).text()
    found = tables_of(text)
    assert [*found] == ["adults", "orders", "users", "hits"]
    assert found["adults"]["columns"].keys() == {"user_id"}
    assert "# drawn of shop.duckdb is left out: drawn " in text
    assert (found["hits"]["schema"], found["hits"]["table"]) == ("web", "hits")
    assert found["users"]["database"] == "shop.duckdb"
    assert [*found["users"]["columns"]] == ["user_id"]
    assert '# "kin" is left out: has a collation' in text
    assert '# "d" is left out: no type for INTERVAL' in text
    with duckdb.connect("shop.duckdb") as database:
        database.execute("INSERT INTO users VALUES (9, 'secret', NULL)")
    assert draft("shop.duckdb", schemas_of).text() == text
    Path("shop.duckdb.wal").write_bytes(b"")
    with pytest.raises(PolicyInvalid, match="changes beside it"):
        draft("shop.duckdb", schemas_of)
    Path("no.duckdb").write_text("nothing")
    with pytest.raises(PolicyInvalid, match="names no DuckDB file that can be opened"):
        draft("no.duckdb", schemas_of)
    duckdb.connect("bare.duckdb").close()
    with pytest.raises(PolicyInvalid, match="without tables"):
        draft("bare.duckdb", schemas_of)


def test_paths_start_at_the_policy(here: Path):
    write("data/people.parquet", "person_id")
    (here / "policies").mkdir()
    text = draft("data", schemas_of, here / "policies" / "p.toml").text()
    assert tables_of(text)["people"]["path"] == "../data/people.parquet"
    assert 'from the schema of "data"' in text
    whole = draft(here / "data", schemas_of, here / "p.toml").text()
    assert tables_of(whole)["people"]["path"] == f"{here}/data/people.parquet"


def test_the_folder_of_the_policy_has_a_name(here: Path):
    write("people.parquet", "person_id")
    text = draft(".", schemas_of, here / "p.toml").text()
    assert f'from the schema of "{here.name}"' in text


# Names.


@pytest.mark.parametrize(
    ("column", "known", "meant"),
    [
        ("customer_id", [], "customer"),
        ("CustomerID", [], "customer"),
        ("cust_no", [], "customer"),
        ("userid", [], "user"),
        ("uid", [], "user"),
        ("user", [], "user"),
        ("suppkey", ["supplier"], "supplier"),
        ("orderid", ["order"], "order"),
        ("page_view_id", [], "page_view"),
        ("id", [], ""),
        *((name, [], None) for name in ("paid", "grid", "monkey", "valid", "number")),
        *((name, [], None) for name in ("user_agent", "device", "users", "active_users")),
    ],
)
def test_what_a_column_identifies(column: str, known: list[str], meant: str | None):
    assert refers_to(words(column), known) == meant


@pytest.mark.parametrize(
    ("table", "holds"),
    [
        ("Customers", "customer"),
        ("people", "person"),
        ("dim_category", "category"),
        ("page_views", "page_view"),
        ("addresses", "address"),
        ("boxes", "box"),
        ("status", "status"),
        ("analysis", "analysis"),
        ("staff", "staff"),
        ("!", "!"),
    ],
)
def test_what_a_row_of_a_table_stands_for(table: str, holds: str):
    assert entity(table) == holds


def test_whoever_has_a_role_is_still_that_person():
    assert person("billing_customer") == "customer"
    assert person("order") is person(None) is None


def test_what_could_be_public_is_told_how_else_it_is_said_whose_its_rows_are():
    text = of_schemas({"bills": "customer_id invoice_no", "lines": "invoice_no", "shops": "a"})
    lines, shops = (text.split(f"[tables.{name}]")[1] for name in ("lines", "shops"))
    assert "# the column of the customer, by whatever name" in lines
    assert "# public = true" in lines
    way = '# unit_through = { column = "invoice_no", table = "bills", key = "invoice_no" }'
    assert way in lines
    assert 'public = "?"' in shops
    assert "# privacy_unit_column = " in shops
    assert '# unit_through = { column = "...", table = "...", key = "..." }' in shops


@pytest.mark.parametrize("sign", [";", "\t", "|"])
def test_another_delimiter_than_a_comma_is_found_in_the_first_line(sign: str):
    Path("people.csv").write_text(sign.join(["person_id", "age", "city"]) + "\n1;2;3\n")
    text = draft("people.csv", schemas_of).text()
    (table,) = tables_of(text).values()
    assert table["delimiter"] == sign
    assert [*table["columns"]] == ["person_id", "age", "city"]
    decided = text.replace('"?"', '"person_id"')
    Path("policy.toml").write_text(decided)
    assert misfits_of(load_policy("policy.toml").tables["people"]) == []
    without = [line for line in decided.splitlines() if not line.startswith("delimiter")]
    Path("policy.toml").write_text("\n".join(without))
    (misfit,) = misfits_of(load_policy("policy.toml").tables["people"])
    said = {";": ";", "\t": "\\t", "|": "|"}[sign]
    assert str(misfit) == f'people.csv has one field by ","; try: delimiter = "{said}"'
