"""What `policy check` finds in the data, as counts, for the data owner."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.core.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type
from dpquery.engine.file_checks import misfits_of, rows_of
from dpquery.policy.load import load_policy
from dpquery.policy.owner.cross_table_checks import owners
from dpquery.policy.owner.data_validation import Severity, check
from dpquery.policy.sources.paths import sample_directory
from dpquery.policy.sources.schema import widens

Found = list[tuple[str, str | None, str]]


@pytest.fixture
def found(tmp_path: Path) -> Callable[..., Found]:
    def run(policy: str, **tables: pa.Table) -> Found:
        for name, table in tables.items():
            groups = max(2, table.num_rows // 4)
            pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=groups)
        path = tmp_path / "policy.toml"
        path.write_text(f"budget.epsilon = 1\n{policy}", encoding="utf-8")
        findings = check(load_policy(path), misfits_of, rows_of)
        return [(str(f.severity), f.column, f.text) for f in findings]

    return run


def private(columns: str, more: str = "") -> str:
    return (
        f'[tables.t]\npath = "t.parquet"\nprivacy_unit_column = "id"\n{more}\n'
        f"[tables.t.columns]\nid = {{ type = 'integer' }}\n{columns}\n"
    )


def test_sound_data_gives_no_findings(found: Callable[..., Found]) -> None:
    table = pa.table({"id": [1, 2], "x": [0, 5], "extra": ["a", "b"]})
    assert (
        found(private("x = { type = 'double', bounds = [0, 5] }", "rows_per_unit = 1"), t=table)
        == []
    )


def test_the_samples_hold_what_their_policy_says() -> None:
    findings = check(load_policy(sample_directory() / "policy.toml"), misfits_of, rows_of)
    assert {finding.severity for finding in findings} == {Severity.WARNING, Severity.NOTE}
    columns = {"salary", "bonus", "region", "spent", "person_id"}
    assert {finding.column for finding in findings} == columns


def test_rows_per_unit_are_told_and_what_a_limit_cuts(found: Callable[..., Found]) -> None:
    table = pa.table({"id": [1] * 7 + [2, 2, 3], "x": [0] * 10})
    told = ("note", "id", "3 units have 10 rows: median 2, 95 % 7, 99 % 7, largest 7 each")
    cut = ("warning", "id", "max_rows_contributed = 2 cuts 50 % of the rows' weight")
    assert found(private("", "max_rows_contributed = 2"), t=table) == [told, cut]
    assert found(private("", 'max_rows_contributed = "auto"'), t=table) == [told]
    (unstated,) = found(private(""), t=table)
    assert unstated[2].endswith(
        "max_rows_contributed is not stated: each query has to state it"
    )


def test_rows_without_a_unit_are_counted(found: Callable[..., Found]) -> None:
    table = pa.table({"id": [1, None, None], "x": [1, 2, 3]})
    text = "2 of 3 rows have no unit: they never count"
    assert found(private("x = { type = 'integer' }"), t=table) == [("warning", "id", text)]


def test_a_second_row_of_a_unit_is_found_across_row_groups(found: Callable[..., Found]) -> None:
    table = pa.table({"id": [1, 2, 3, 1, None, None]})
    fault = ("fault", "id", "rows_per_unit = 1 does not hold: 3 units have 4 rows")
    assert fault in found(private("", "rows_per_unit = 1"), t=table)
    assert fault not in found(private(""), t=table)


def test_units_that_are_not_listed_are_checked_too(found: Callable[..., Found]) -> None:
    policy = (
        '[tables.t]\npath = "t.parquet"\nprivacy_unit_column = "who"\n'
        'privacy_unit_type = "text"\nrows_per_unit = 1\ncolumns.x = { type = "integer" }\n'
    )
    units = pa.array(["a", "b", "a"]).dictionary_encode()
    (fault,) = found(policy, t=pa.table({"who": units, "x": [1, 2, 3]}))
    assert fault == ("fault", "who", "rows_per_unit = 1 does not hold: 2 units have 3 rows")
    (fault,) = found(policy, t=pa.table({"who": [1, 2], "x": [1, 2]}))
    assert fault == ("fault", "who", "t.parquet has int64, declared is text")


def moments(*texts: str) -> list[datetime]:
    return [datetime.fromisoformat(text) for text in texts]


@pytest.mark.parametrize(
    ("declared", "values"),
    [
        ("type = 'integer', bounds = [0, 9]", pa.array([-1, 0, 9, 300, None], pa.int32())),
        ("type = 'double', bounds = [0, 0.1]", pa.array([-0.5, 0, 0.1, math.inf, math.nan])),
        (
            "type = 'decimal(3,1)', bounds = [0, 0.1]",
            pa.array([Decimal(text) for text in ("-0.1", "0", "0.1", "9")]),
        ),
        (
            "type = 'date', bounds = [2020-01-01, 2020-01-02]",
            pa.array([date.min, *(date(2020, 1, day) for day in (1, 2, 3))]),
        ),
        (
            "type = 'timestamp', bounds = [2020-01-01T00:00:00, 2020-01-02T00:00:00]",
            pa.array(moments("2019-01-01", "2020-01-02", "2020-01-03"), pa.timestamp("us")),
        ),
    ],
)
def test_values_beyond_each_end_are_counted(
    found: Callable[..., Found], declared: str, values: pa.Array
) -> None:
    table = pa.table({"id": pa.array(range(len(values))), "x": values})
    texts = [text for _, _, text in found(private(f"x = {{ {declared} }}"), t=table)]
    size = len(values)
    assert any(t.startswith(f"1 of {size} rows") and "below the bounds" in t for t in texts)
    assert any(t.startswith(f"1 of {size} rows") and "above the bounds" in t for t in texts)
    assert any("are NaN" in t for t in texts) == ("double" in declared)


def test_rows_without_a_value_are_counted_where_null_is_no_group(
    found: Callable[..., Found],
) -> None:
    table = pa.table({"id": [1, 2, 3, 4], "x": [None, 1, None, 2], "y": [None, 1, 2, 3]})
    columns = "x = { type = 'integer', null_group = false }\ny = { type = 'integer' }"
    text = "2 of 4 rows (50 %) are NULL: no group has them (null_group = false)"
    assert found(private(columns), t=table) == [("warning", "x", text)]


@pytest.mark.parametrize(
    ("above", "rows", "share"),
    [(1, 1000, "0.1"), (199, 200, "more than 99"), (97, 100, "97"), (200, 200, "100")],
)
def test_only_all_of_the_rows_are_a_hundred_percent(
    found: Callable[..., Found], above: int, rows: int, share: str
) -> None:
    values = [9] * above + [1] * (rows - above)
    table = pa.table({"id": range(rows), "x": values})
    ((_, _, text),) = found(private("x = { type = 'integer', bounds = [0, 5] }"), t=table)
    assert text.startswith(f"{above} of {rows} rows ({share} %) are above")


def test_values_that_have_none_of_the_declared_type_are_counted(
    found: Callable[..., Found], tmp_path: Path
) -> None:
    columns = "id,day,n,x\n"
    rows = ["1,27.05.2024,2,0.5", "2,28.05.2024,2.5,a", "3,,3.5,", "4,2024-05-29,,1"]
    (tmp_path / "c.csv").write_text(columns + "\n".join(rows), "utf-8")
    objects = '{"id": 1, "day": "27.05."}\n{"id": 2, "day": null}\n{"id": 3, "n": 7}\n'
    (tmp_path / "j.json").write_text(objects, "utf-8")
    declared = "day.type = 'date'\nn.type = 'integer'\nx.type = 'double'"
    policy = private(declared)
    told = [text for _, _, text in found(policy.replace("t.parquet", "c.csv"))]
    assert told == [
        "2 of 3 values are no date: they are NULL",
        "2 of 3 values are not whole: they count as the nearest",
        "1 of 3 values are no double: they are NULL",
    ]
    told = [text for _, _, text in found(policy.replace("t.parquet", "j.json"))]
    assert told == ["1 of 1 values are no date: they are NULL"]


@pytest.mark.parametrize("type_", [pa.decimal128(10, 3), pa.float64(), pa.int64()])
def test_numbers_that_are_not_whole_are_counted(
    found: Callable[..., Found], type_: pa.DataType
) -> None:
    values = [1, 2, None, 4] if type_ == pa.int64() else [Decimal("1.5"), 2, None, 4]
    table = pa.table({"id": [1, 2, 3, 4], "x": pa.array(values).cast(type_)})
    told = [
        text
        for _, _, text in found(private("x = { type = 'integer', keys = [1, 2, 4] }"), t=table)
    ]
    whole = type_ == pa.int64()
    assert told == ([] if whole else ["1 of 3 values are not whole: they count as the nearest"])


def test_rows_of_undeclared_keys_are_counted_and_texts_are_cut_first(
    found: Callable[..., Found],
) -> None:
    table = pa.table({"id": range(5), "x": ["aa", "aab", "b", "b", None]})
    column = "x = { type = 'text', keys = ['aa'], max_length = 2 }"
    assert found(private(column), t=table) == [
        (
            "warning",
            "x",
            "2 of 5 rows (40 %) are of keys that are not declared: no group has them",
        )
    ]


@pytest.mark.parametrize(
    ("declared", "values"),
    [
        (
            "type = 'text', keys = ['aa', 'b'], max_length = 2",
            ["aab", "aa", "b", None, "c", "b"],
        ),
        ("type = 'integer', keys = [9, 0], bounds = [0, 9]", [10, 9, -5, 3, None, 0]),
        ("type = 'boolean'", [True, True, False, None, None, False]),
        (
            "type = 'date', keys = [2020-01-01, 2020-01-02]",
            [date(2020, 1, day) for day in (1, 1, 2, 3, 4, 2)],
        ),
    ],
)
def test_units_with_rows_in_several_parts_are_counted(
    found: Callable[..., Found], declared: str, values: list[object]
) -> None:
    policy = private(f"x = {{ {declared}, per_unit = true }}")
    sound = pa.table({"id": [1, 1, 2, 3, 3, 2], "x": values})
    assert not any("parts" in text for _, _, text in found(policy, t=sound))
    several = pa.table({"id": [1, 1, 1, 3, None, 3], "x": values})
    text = "2 of 2 units have rows in several parts: only those of the first count"
    assert ("warning", "x", text) in found(policy, t=several)
    two = private(f"x = {{ {declared}, per_unit = 2 }}")
    assert not any("parts" in text for _, _, text in found(two, t=several))
    many = pa.table({"id": [1, 1, 1, 3, 1, 1], "x": values})
    text = "1 of 2 units have rows in more than 2 parts: only those of the first 2 count"
    assert ("warning", "x", text) in found(two, t=many)
    kept = private(f"x = {{ {declared}, parts = true }}")
    assert not any("parts" in text for _, _, text in found(kept, t=several))


def test_a_missing_column_and_a_type_that_does_not_widen_are_faults(
    found: Callable[..., Found],
) -> None:
    table = pa.table({"id": [1], "x": ["0.5"]})
    columns = "x = { type = 'integer', bounds = [0, 1] }\ny = { type = 'text' }"
    assert found(private(columns), t=table) == [
        ("fault", "x", "t.parquet has string, declared is integer"),
        ("fault", "y", "t.parquet has no such column"),
    ]


def test_a_public_key_that_is_not_unique_is_a_fault(
    found: Callable[..., Found], tmp_path: Path
) -> None:
    (tmp_path / "r.csv").write_text("region,n\n01,a\n1,b\n01,c\n")
    policy = '[tables.r]\npath = "r.csv"\npublic = true\nunique = ["region"]\n'
    typed = policy + 'columns.region = { type = "text" }\n'
    assert found(typed) == [("fault", "region", "not unique: 1 of 3 rows repeat another")]
    assert found(policy) == [("fault", "region", "not unique: 1 of 3 rows repeat another")]
    assert found(policy.replace('["region"]', '["region", "n"]')) == []


def test_what_cannot_be_read_is_a_fault_without_the_readers_words(
    found: Callable[..., Found], tmp_path: Path
) -> None:
    (tmp_path / "t.parquet").write_text("not Parquet")
    assert found(private("")) == [("fault", None, "t.parquet is not readable as Parquet")]
    (tmp_path / "r.csv").write_text("region\nn\n")
    public = '[tables.r]\npath = "r.csv"\npublic = true\nunique = ["zone"]\n'
    assert found(public) == [("fault", "zone", "r.csv has no such column")]
    (tmp_path / "r.csv").write_text("zone\n")
    assert found(public) == []
    duckdb.connect(str(tmp_path / "d.duckdb")).close()
    database = (
        "[tables.t]\ndatabase = 'd.duckdb'\ntable = 't'\ncolumns.x = { type = 'integer' }"
    )
    ((severity, _, text),) = found(database)
    assert (severity, text) == ("fault", "d.duckdb has no table named t")


def test_units_that_another_table_says_are_counted_by_their_claims(
    found: Callable[..., Found],
) -> None:
    way = "unit_through = { column = 'k', table = 't', key = 'k' }"
    keyed = "k = {{ type = 'integer'{} }}\n"
    policy = private(keyed.format(""), "rows_per_unit = 1")
    policy += f'[tables.i]\npath = "i.parquet"\n{way}\nmax_rows_contributed = 2\n'
    policy += f"[tables.i.columns]\n{keyed.format(', bounds = [0, 5]')}"
    rows = pa.table({"id": [1, 2], "k": [1, 2]}), pa.table({"k": [1, 1, 9]})
    outside, unclaimed, told = found(policy, t=rows[0], i=rows[1])
    assert "1 of 3 rows (33 %) are above the bounds" in outside[2]
    nobodys = "1 of 3 rows (33 %) have a key that no unit claims: they are nobody's"
    assert unclaimed == ("warning", "k", nobodys)
    assert told[:2] == ("note", "id")
    assert told[2].startswith("1 units have 2 rows")


TYPES = st.one_of(
    st.sampled_from([INTEGER, DOUBLE, TEXT, BOOLEAN, DATE, TIMESTAMP]),
    st.integers(1, 18).flatmap(
        lambda p: st.integers(0, p).map(lambda s: Type(Kind.DECIMAL, p, s))
    ),
)


@given(TYPES, TYPES, TYPES)
def test_widening_is_an_order(a: Type, b: Type, c: Type) -> None:
    assert widens(a, a)
    assert not (widens(a, b) and widens(b, c)) or widens(a, c)
    assert not (widens(a, b) and widens(b, a)) or a == b


def test_limits_that_promise_little_are_warned_of(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": range(10), "x": [0] * 10}), tmp_path / "t.parquet")
    path = tmp_path / "policy.toml"

    def told(budget: str, analysts: str = "") -> dict[str, str]:
        text = f"[budget]\n{budget}\n{analysts}\n{private('', 'rows_per_unit = 1')}"
        path.write_text(text, encoding="utf-8")
        findings = check(load_policy(path), misfits_of, rows_of)
        assert {finding.severity for finding in findings} <= {Severity.WARNING}
        return {f"{finding.place}.{finding.column}": finding.text for finding in findings}

    assert told("epsilon = 20\ndelta = 1e-5") == {}
    found = told(
        "epsilon = 1000\ndelta = 0.5\nmax_epsilon_per_query = 1001",
        "[analysts.alice]\nepsilon = 1001\ndelta = 0.6\n[analysts.bob]\nepsilon = 999",
    )
    assert found["budget.epsilon"].startswith("1000 is above 20: answers may nearly show")
    assert found["budget.delta"].startswith("0.5 is above 1e-5: with that chance nothing")
    assert found["t.id"].startswith("delta = 0.5 is above 1 / 10 units")
    above = "1001 is above the 1000 that the policy has in all: the total binds first"
    assert found["budget.max_epsilon_per_query"] == found["analysts.alice.epsilon"] == above
    assert found["analysts.alice.delta"].startswith("0.6 is above the 0.5")
    assert len(found) == 6
    assert {*told("rho = 100\ndelta = 1e-6", "[analysts.a]\nrho = 101")} == {
        "budget.rho", "analysts.a.rho",
    }  # fmt: skip


def test_a_delta_is_held_against_rows_that_are_units(found: Callable[..., Found]) -> None:
    table = pa.table({"x": [1] * 200_000})
    policy = "budget.delta = 9e-6\n[tables.t]\npath = 't.parquet'\n" + (
        "[tables.t.columns]\nx = { type = 'integer' }\n"
    )
    (told,) = found(policy, t=table)
    assert told[2].startswith("delta = 9e-6 is above 1 / 200,000 units")


def two(first: str, second: str) -> str:
    table = "[tables.{0}]\npath = '{0}.parquet'\nprivacy_unit_column = '{1}'\n{2}\n"
    columns = "[tables.{0}.columns]\n'{1}' = {{ type = '{3}' }}\n"
    one = ("people", first, "rows_per_unit = 1", "integer")
    other = ("visits", second, "max_rows_contributed = 9", "integer")
    return "".join((table + columns).format(*each) for each in (one, other))


@pytest.mark.parametrize(
    ("units", "told"),
    [
        ([1, 1, 2], ("note", "id", "2 of 2 units are among the 3 of people")),
        ([1, 7, 8], ("note", "id", "1 of 3 units are among the 3 of people")),
        (
            [7, 8, 9],
            (
                "warning",
                "id",
                "0 of 3 units are among the 3 of people: do both columns name the same units?",
            ),
        ),
        (["1", "x"], ("note", "id", "1 of 2 units are among the 3 of people")),
    ],
)
def test_units_of_one_table_are_looked_for_in_another(
    found: Callable[..., Found], units: list[object], told: tuple[str, str, str]
) -> None:
    policy = two("id", "id")
    if isinstance(units[0], str):
        policy = policy[: policy.rindex("integer")] + "text' }\n"
    people = pa.table({"id": [1, 2, 3]})
    assert found(policy, people=people, visits=pa.table({"id": units}))[-1] == told


def test_units_of_other_names_are_not_compared(found: Callable[..., Found]) -> None:
    tables = {"people": pa.table({"id": [1, 2]}), "visits": pa.table({"uid": [1, 2]})}
    told = (
        "is not declared: unit columns of different names are not joined: people.id, visits.uid"
    )
    assert found(two("id", "uid"), **tables) == [("note", "unit", told)]


# Ways to units that other tables have, and keys of public tables.


ONE = st.none() | st.integers(0, 1)
KEYS = st.lists(ONE, max_size=6)
PAIRS = st.lists(st.tuples(ONE, ONE), max_size=6)


def through(column: str, target: str, key: str) -> str:
    return f"{{ column = '{column}', table = '{target}', key = '{key}' }}"


WAYS = f"""
budget.epsilon = 1
tables.items.path = "items.parquet"
tables.items.unit_through = {through("order", "orders", "id")}
tables.items.columns.order.type = "integer"
tables.notes.path = "notes.parquet"
tables.notes.unit_through = {through("about", "items", "number")}
tables.notes.columns.about.type = "integer"
tables.orders.path = "orders.parquet"
tables.orders.privacy_unit_column = "who"
tables.orders.columns.who.type = "integer"
tables.orders.columns.id.type = "integer"
tables.items.columns.number.type = "integer"
"""


@given(
    orders=PAIRS,
    items=st.lists(st.tuples(*[st.none() | st.integers(0, 3)] * 2), max_size=5),
    notes=KEYS,
)
def test_rows_are_those_of_every_unit_that_claims_their_key(
    orders: list[tuple[int, int]], items: list[tuple[int, int]], notes: list[int]
) -> None:
    def columns(rows: list[tuple[int, int]], *names: str) -> pa.Table:
        return pa.table(
            {n: pa.array([r[i] for r in rows], pa.int64()) for i, n in enumerate(names)}
        )

    data = {
        "orders": columns(orders, "id", "who"),
        "items": columns(items, "order", "number"),
        "notes": columns([(note, 0) for note in notes], "about", "x"),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, table in data.items():
            pq.write_table(table, f"{folder}/{name}.parquet")
        Path(folder, "policy.toml").write_text(WAYS, "utf-8")
        tables = load_policy(f"{folder}/policy.toml").tables
    ordered = {(i, who) for i, who in orders if i is not None and who is not None}
    of_items = [{who for i, who in ordered if i == order} for order, _ in items]
    claimed = {
        (number, who)
        for (_, number), whose in zip(items, of_items, strict=True)
        if number is not None
        for who in whose
    }
    of_notes = [{who for number, who in claimed if number == note} for note in notes]
    for name, expected in (("items", of_items), ("notes", of_notes)):
        found = owners(
            tables[name], lambda table, names: data[table.name].select(names).to_batches()
        )
        assert sorted(found.units.to_pylist()) == sorted(
            who for whose in expected for who in whose
        )
        assert found.nulls + found.unclaimed == expected.count(set())
        assert found.rows == len(expected)
        assert found.shared == sum(len(whose) > 1 for whose in expected)


def test_rows_that_lead_nowhere_and_to_several_are_told(found: Callable[..., Found]) -> None:
    tables = {
        "orders": pa.table({"id": [1, 1, 2], "who": [7, 8, 7]}),
        "items": pa.table({"order": [1, 2, 3, None], "number": [1, 2, 3, 4]}),
        "notes": pa.table({"about": [9]}),
    }
    told = found(WAYS.replace("budget.epsilon = 1", ""), **tables)
    share, nobodys = "1 of 4 rows (25 %)", "they are nobody's"
    for text in (
        f"{share} have no key: {nobodys}",
        f"{share} have a key that no unit claims: {nobodys}",
        f"{share} are claimed by several units: they count once for each",
    ):
        assert ("warning", "order", text) in told
    text = f"1 of 1 rows (100 %) have a key that no unit claims: {nobodys}"
    assert ("fault", "about", f"{text}: is items.number the key?") in told
    tables["orders"] = pa.table({"id": [1, 1, 2], "whom": [7, 8, 7]})
    assert {severity for severity, _, _ in found(WAYS[19:], **tables)} == {"fault"}


@pytest.mark.parametrize(("wrong", "severity"), [(17, "warning"), (18, "fault")])
def test_a_key_that_nearly_no_unit_claims_is_a_fault(
    found: Callable[..., Found], wrong: int, severity: str
) -> None:
    tables = {
        "orders": pa.table({"id": [1], "who": [7]}),
        "items": pa.table(
            {"order": [1] * (20 - wrong) + [9] * wrong + [None], "number": [1] * 21}
        ),
        "notes": pa.table({"about": [1]}),
    }
    told = found(WAYS.replace("budget.epsilon = 1", ""), **tables)
    (unclaimed,) = [one for one in told if "no unit claims" in one[2]]
    assert unclaimed[:2] == (severity, "order")
    assert unclaimed[2].endswith("is orders.id the key?") == (severity == "fault")


PEOPLE = [f"P{number:02}" for number in range(20)]


@pytest.mark.parametrize(
    ("column", "values", "listed", "share"),
    [
        ("card", PEOPLE, True, 100),
        ("card", PEOPLE * 2, False, 100),
        ("card", PEOPLE[:10], True, 50),
        ("card", PEOPLE[:9], True, None),
        ("card", pa.array(PEOPLE).dictionary_encode(), True, 100),
        ("card", [1.5, None], True, None),
    ],
)
def test_a_public_table_is_doubted_that_holds_the_units_of_another(
    found: Callable[..., Found], column: str, values: object, listed: bool, share: int | None
) -> None:
    rows = pa.table({column: values})
    type_ = "text" if share or len(rows) == 9 else "double"
    policy = private("", "rows_per_unit = 1").replace("'integer'", "'text'")
    policy += "[tables.loans]\npath = 'loans.parquet'\npublic = true\n"
    policy += f"columns.{column} = {{ type = '{type_}' }}\n" if listed else ""
    doubt = f"holds {share} % of the units of t: is loans public?"
    expected = [] if share is None else [("warning", column, doubt)]
    assert found(policy, t=pa.table({"id": PEOPLE}), loans=rows) == expected


@pytest.mark.parametrize(
    ("column", "doubted"),
    [("number_of", True), ("member_id", True), ("product_id", False), ("id", False)],
)
def test_numbers_of_what_is_no_person_are_units_by_chance(
    found: Callable[..., Found], column: str, doubted: bool
) -> None:
    policy = private("", "rows_per_unit = 1") + (
        f"[tables.products]\npath = 'products.parquet'\npublic = true\n"
        f"columns.{column} = {{ type = 'integer' }}\n"
    )
    rows = pa.table({"id": range(30)}), pa.table({column: range(30)})
    assert bool(found(policy, t=rows[0], products=rows[1])) == doubted


def test_units_under_other_names_are_compared_where_they_are_one(
    found: Callable[..., Found],
) -> None:
    policy = '[privacy]\nunit = "person"\n' + two("id", "uid")
    tables = {"people": pa.table({"id": [1, 2]}), "visits": pa.table({"uid": [1, 5]})}
    assert found(policy, **tables) == [
        ("note", "uid", "1 of 2 units are among the 2 of people")
    ]


def test_keys_that_a_public_table_lacks_are_counted(
    found: Callable[..., Found], tmp_path: Path
) -> None:
    policy = private("x = { type = 'text' }", "rows_per_unit = 1") + (
        "[tables.r]\npath = 'r.csv'\npublic = true\nunique = ['x']\n"
        "columns.x = { type = 'text' }\n"
    )
    (tmp_path / "r.csv").write_text("x\na\nb\n")
    table = pa.table({"id": range(4), "x": ["a", "b", "c", None]})
    text = "2 of 4 rows have a value that r lacks: joins on it leave them out"
    assert found(policy, t=table) == [("warning", "x", text)]
    assert found(policy.replace("type = 'text' }\n[t", "type = 'integer' }\n[t"), t=table) == [
        ("fault", "x", "t.parquet has string, declared is integer")
    ]
    (tmp_path / "r.csv").write_text("y\na\n")
    assert ("fault", "x", "r.csv has no such column") in found(policy, t=table)
