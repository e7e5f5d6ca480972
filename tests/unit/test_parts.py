"""Which parts of a table a query is charged on, and how that is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.errors import BudgetRefused, PolicyInvalid, ScanFailed
from dpquery.expr import Expr
from dpquery.parts import every_part, looked_in
from dpquery.policy.load import load_policy
from dpquery.policy.model import Bounds, Column, Policy
from dpquery.privacy import Neighbours
from dpquery.relations import Output, Project
from dpquery.session import Session
from dpquery.types import BOOLEAN, DATE, INTEGER, TEXT
from tests.worlds import planned, policy_of, private_table

REGION = Column("region", TEXT, keys=("N", "S", "W"), per_unit=True)
OTHERS = (
    Column("unit", INTEGER),
    Column("v", INTEGER, Bounds(0, 9)),
    Column("flag", BOOLEAN),
    Column("city", TEXT, keys=("N", "S")),
)


def policy(parting: Column = REGION, **settings: object) -> Policy:
    others = [column for column in OTHERS if column.name != parting.name]
    one = replace(private_table([Path("t.parquet")], [*others, parting]), **settings)
    whole = policy_of(one)
    return replace(whole, tables={"t": one, "s": replace(one, name="s")})


def parts(query: str, of: Policy) -> list[int] | None:
    """Give the parts that a query is charged on; None where they are all."""
    touched = planned(of, query).charge.touched
    return None if touched is None or touched.whole else list(touched.parts)


COUNT = "SELECT DP_COUNT(*, eps=1) FROM"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"{COUNT} t WHERE region = 'N'", [0]),
        (f"{COUNT} t WHERE 'S' = region AND v > 2", [1]),
        (f"{COUNT} t WHERE region IN ('W', 'S', 'X')", [1, 2, 3]),
        (f"{COUNT} t WHERE region IN ('W', 'S') AND region IN ('N', 'S')", [1]),
        (f"{COUNT} t WHERE region = 'elsewhere'", [3]),
        (f"{COUNT} (SELECT unit, region AS r FROM t WHERE v > 1) z WHERE r = 'N'", [0]),
        (f"WITH z AS (SELECT * FROM t WHERE region = 'S') {COUNT} z", [1]),
        (f"WITH z AS (SELECT * FROM t WHERE region = 'S') {COUNT} z WHERE v = 1", [1]),
        (f"{COUNT} (SELECT unit, max(v) AS v FROM t WHERE region = 'S' GROUP BY unit) z", [1]),
        (
            f"{COUNT} (SELECT unit, region, max(v) AS v FROM t GROUP BY unit, region) z "
            "WHERE region = 'W'",
            [2],
        ),
        (
            f"{COUNT} (SELECT unit, region, row_number() OVER (PARTITION BY unit ORDER BY v) "
            "AS n FROM t) z WHERE n = 1 AND region = 'W'",
            [2],
        ),
        ("SELECT v, DP_COUNT(*, eps=1) FROM t WHERE region = 'N' GROUP BY v", [0]),
        ("SELECT DP_SUM(v, eps=1, bounds='auto') FROM t WHERE region = 'N'", [0]),
        (
            "SELECT (SELECT DP_COUNT(*, eps=1) FROM t WHERE region = 'N') + "
            "(SELECT DP_COUNT(*, eps=1) FROM t WHERE region = 'S')",
            [0, 1],
        ),
        # What leaves out no part.
        (f"{COUNT} t", None),
        (f"{COUNT} t WHERE region = 'N' OR v > 2", None),
        (f"{COUNT} t WHERE NOT region = 'N'", None),
        (f"{COUNT} t WHERE region <> 'N'", None),
        (f"{COUNT} t WHERE region > 'N'", None),
        (f"{COUNT} t WHERE region IS NULL", None),
        (f"{COUNT} t WHERE region LIKE 'N'", None),
        (f"{COUNT} t WHERE UPPER(region) = 'N'", None),
        (f"{COUNT} t WHERE city = 'N'", None),
        (f"{COUNT} t WHERE region = city", None),
        (f"{COUNT} t WHERE CASE WHEN region = 'N' THEN TRUE ELSE v > 2 END", None),
        (f"{COUNT} t WHERE region = 'N' AND region = 'S'", None),
        ("SELECT DP_COUNT(*, eps=1) FILTER (WHERE region = 'N') FROM t", None),
        (f"{COUNT} (SELECT unit, city AS region FROM t) z WHERE region = 'N'", None),
        (f"{COUNT} (SELECT unit, region || '' AS region FROM t) z WHERE region = 'N'", None),
        (
            f"{COUNT} (SELECT unit, max(region) AS region FROM t GROUP BY unit) z "
            "WHERE region = 'N'",
            None,
        ),
        (
            f"{COUNT} (SELECT DISTINCT unit, LOWER(region) AS region FROM t) z "
            "WHERE region = 'N'",
            None,
        ),
        (
            f"{COUNT} (SELECT unit, UPPER(region) AS region FROM t "
            "GROUP BY unit, UPPER(region)) z WHERE region = 'N'",
            None,
        ),
        # Another table's units could have any part of this one.
        (f"{COUNT} t JOIN s USING (unit) WHERE t.region = 'N' AND s.region = 'N'", None),
        (f"{COUNT} t WHERE region = 'N' AND unit NOT IN (SELECT unit FROM s)", None),
        (
            f"{COUNT} (SELECT unit FROM t WHERE region = 'N' UNION ALL "
            "SELECT unit FROM t WHERE region = 'N') z",
            None,
        ),
        (
            f"{COUNT} t WHERE region = 'N' AND v > "
            "(SELECT DP_COUNT(*, eps=1) FROM s WHERE region = 'N')",
            None,
        ),
        (
            f"{COUNT} t WHERE region = 'N' AND v > (SELECT DP_COUNT(*, eps=1) FROM t)",
            None,
        ),
    ],
)
def test_the_parts_that_a_query_is_charged_on(query: str, expected: list[int] | None):
    assert parts(query, policy()) == expected


@pytest.mark.parametrize(
    ("parting", "where", "expected"),
    [
        (Column("flag", BOOLEAN, per_unit=True), "flag", [1]),
        (Column("flag", BOOLEAN, per_unit=True), "NOT flag AND v > 1", [0]),
        (Column("flag", BOOLEAN, per_unit=True), "flag = TRUE", [1]),
        (Column("flag", BOOLEAN, per_unit=True), "flag OR v > 1", None),
        (Column("v", INTEGER, Bounds(0, 9), (9, 1), per_unit=True), "v = 9", [0]),
        (Column("v", INTEGER, Bounds(0, 9), (9, 1), per_unit=True), "v = 12", [2]),
        (Column("v", INTEGER, Bounds(0, 9), (9, 1), per_unit=True), "v IN (1, 9, 2)", None),
        (Column("v", INTEGER, Bounds(0, 9), (9, 1), per_unit=True), "v = 1.0", None),
        (Column("d", DATE, None, (date(2020, 1, 2),), per_unit=True), "d = '2020-01-02'", [0]),
        (Column("k", TEXT, None, ("ab",), max_length=2, per_unit=True), "k = 'abc'", [1]),
    ],
)
def test_parts_are_told_by_the_values_that_a_scan_sees(parting, where, expected):
    assert parts(f"{COUNT} t WHERE {where}", policy(parting)) == expected


@pytest.mark.parametrize(("name", "expected"), [("same", (0,)), ("made", (0, 1, 2, 3))])
def test_a_computed_column_says_nothing_of_parts(name: str, expected: tuple[int, ...]):
    """Below joins alone columns are made by a node of their own."""
    of = policy()
    scan = planned(of, f"{COUNT} t WHERE region = 'N'").frontiers[0].scan
    where = scan.relation
    region, upper = where.condition.left, _upper(of)
    made = Project(where.span, where.source, 7, (Output("same", region), Output("made", upper)))
    condition = replace(where.condition, left=replace(region, name=name, of=7))
    above = replace(scan, relation=replace(where, source=made, condition=condition))
    assert looked_in([above], of).parts == expected


def _upper(of: Policy) -> Expr:
    where = planned(of, f"{COUNT} t WHERE UPPER(region) = 'N'").frontiers[0].scan.relation
    return where.condition.left


OF_TABLE = replace(REGION, per_unit=False, parts_rows=True)
SHARED = "SELECT DP_COUNT(*, eps=1, weights='table') FROM"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"{SHARED} t WHERE region = 'N'", [0]),
        (f"{SHARED} (SELECT v AS w, region AS r FROM t WHERE v > 1) z WHERE r = 'S'", [1]),
        (
            "SELECT v, DP_AVG(v, eps=1, weights='table') FROM t WHERE region = 'W' GROUP BY v",
            [2],
        ),
        (f"SELECT ({SHARED} t WHERE region = 'N') + ({SHARED} t WHERE region = 'S')", [0, 1]),
        # What is not about parts of the rows, or weighs them otherwise.
        (f"{SHARED} t", None),
        (f"{COUNT} t WHERE region = 'N'", None),
        (f"{SHARED.replace(' FROM', ', DP_COUNT(*, eps=1) FROM')} t WHERE region = 'N'", None),
        (f"SELECT ({SHARED} t WHERE region = 'N') + ({COUNT} t WHERE region = 'N')", None),
        ("SELECT DP_COUNT(DISTINCT unit, eps=1) FROM t WHERE region = 'N'", None),
        (
            f"{COUNT} (SELECT unit, region FROM t GROUP BY unit, region) z WHERE region = 'N'",
            None,
        ),
        # Bounds are found among all rows.
        (
            "SELECT DP_SUM(unit, eps=1, bounds='auto', weights='table') FROM t "
            "WHERE region = 'N'",
            None,
        ),
    ],
)
def test_the_parts_of_rows_that_a_query_is_charged_on(query: str, expected: list[int] | None):
    assert parts(query, policy(OF_TABLE)) == expected


def test_a_unit_of_one_row_is_in_one_part_however_rows_are_weighed():
    rows = policy_of(private_table([Path("t")], [*OTHERS[1:], OF_TABLE], None))
    for of in (policy(OF_TABLE, single=True), rows):
        for count in (COUNT, SHARED):
            assert parts(f"{count} t WHERE region = 'N'", of) == [0]


def test_units_of_one_part_may_weigh_rows_by_the_table_as_well():
    for count in (COUNT, SHARED):
        assert parts(f"{count} t WHERE region = 'N'", policy()) == [0]


def test_a_scan_keeps_one_part_of_each_unit_unless_it_can_have_no_other():
    def scanned(of: Policy) -> object:
        return planned(of, f"{COUNT} t").frontiers[0].scan.relation.part

    assert scanned(policy()).values == ("N", "S", "W")
    assert scanned(policy(single=True)) is None
    assert scanned(policy_of(private_table([Path("t")], [*OTHERS[1:], REGION], None))) is None
    assert scanned(policy(replace(REGION, per_unit=False))) is None
    assert scanned(policy(OF_TABLE)) is None


def test_a_policy_that_parts_units_otherwise_has_parts_of_its_own():
    def word(of: Policy) -> str:
        return next(part.column for part in every_part(of))

    others = [
        policy(replace(REGION, keys=("S", "N", "W"))),
        policy(replace(REGION, max_length=1)),
        policy(OF_TABLE),
        policy(replace(REGION, per_unit=2)),
        policy(replace(REGION, per_unit=3)),
        policy(replace(OF_TABLE, max_length=1)),
        policy(Column("v", INTEGER, keys=(1,), per_unit=True)),
        policy_of(private_table([Path("u.parquet")], [*OTHERS, REGION])),
        policy(written=("other.parquet",)),
        replace(policy(written=("t.parquet",)), directory=Path("elsewhere")),
        policy_of(private_table([Path("t.parquet")], [*OTHERS, REGION], "city")),
    ]
    assert len({word(policy()), *map(word, others)}) == 1 + len(others)
    assert word(policy()) == word(replace(policy(), neighbours=Neighbours.SUBSTITUTE))


# What an analyst sees.

POLICY = """\
[budget]
epsilon = 1
[tables.t]
path = "t.parquet"
privacy_unit_column = "unit"
[tables.t.columns]
unit = { type = "integer" }
region = { type = "text", keys = ["N", "S"], per_unit = true }
v = { type = "integer", bounds = [0, 9] }
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    rows = {"unit": [1, 1, 2, 3], "region": ["S", "N", "S", None], "v": [1, 2, 3, 4]}
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    (tmp_path / "policy.toml").write_text(POLICY, encoding="utf-8")
    return tmp_path


@pytest.fixture
def session(place: Path) -> Iterator[Session]:
    with dpquery.connect(place / "policy.toml") as opened:
        yield opened


def test_parts_are_charged_beside_one_another_in_separate_sessions(place: Path):
    for region in "NS":
        with dpquery.connect(place / "policy.toml") as session:
            session.sql(f"{COUNT.replace('1', '0.7')} t WHERE region = '{region}'")
            assert session.budget.left.epsilon == Fraction(3, 10)
    with dpquery.connect(place / "policy.toml") as session:
        shown = session.sql("SHOW BUDGET").to_dicts()
        assert [(row["of"], row["spent"], row["left"]) for row in shown] == [
            ("policy", "0.7", "0.3"),
            ("policy, where region = 'N'", "0.7", "0.3"),
            ("policy, where region = 'S'", "0.7", "0.3"),
            ("policy, where any other region", "0", "1"),
        ]
        with pytest.raises(BudgetRefused) as caught:
            session.sql("SELECT DP_SUM(v, eps=0.4) FROM t WHERE region = 'N'")
        assert str(caught.value).splitlines()[5:] == [
            "   why: the policy's budget is 1; 0.7 is spent by 2 earlier queries.",
            "        region = 'N' has 0.3 left of 1; this query touches 1 of 3 parts of t by "
            "region.",
            "   try: DP_SUM(v, eps=0.3)",
            "        that is the most that fits",
            "budget: unchanged; 0.3 of 1 left",
        ]


def test_explain_says_on_which_parts_a_query_is_charged(session: Session):
    session.sql("SELECT DP_COUNT(*, eps=0.5) FROM t WHERE region = 'N'")
    told = str(session.explain("SELECT DP_COUNT(*, eps=0.7) FROM t WHERE region = 'S'"))
    assert told.splitlines()[-2:] == [
        "charged on   region = 'S': 1 of 3 parts of t by region",
        "budget       1 left; 0.3 after it",
    ]
    told = str(session.explain("SELECT DP_COUNT(*, eps=0.7) FROM t"))
    assert told.splitlines()[-2:] == [
        "charged on   everybody, whatever their part of t",
        "budget       0.5 left; too little for it",
    ]
    for passed_over in ("region <> 'S'", "region = 'N' OR region = 'S'"):
        told = str(session.explain(f"SELECT DP_COUNT(*, eps=0.1) FROM t WHERE {passed_over}"))
        assert "charged on   everybody, whatever" in told


def test_rows_weighed_by_the_table_share_the_budget_by_their_part(place: Path):
    text = POLICY.replace("per_unit", "parts")
    (place / "policy.toml").write_text(text, "utf-8")
    with dpquery.connect(place / "policy.toml") as session:
        for region in "NS":
            query = session.table("t").where(f"region = '{region}'")
            asked = query.agg(dpquery.count(eps=1, weights="table"))
            assert f"charged on   region = '{region}': 1 of 3" in str(asked.explain())
            asked.run()
        assert session.budget.spent.epsilon == 1
        assert [row[2] for row in session.sql("SHOW BUDGET").rows] == ["1", "1", "1", "0"]
        told = " ".join(str(session.explain(f"{COUNT} t WHERE region = 'N'")).split())
        assert "everybody; with weights='table' in each call, on region = 'N' alone" in told
        for elsewhere in ("t", "(SELECT unit FROM t WHERE region = 'W' GROUP BY unit)"):
            told = str(session.explain(f"{COUNT} {elsewhere}"))
            assert "charged on   everybody, whatever their part of t" in told
        with pytest.raises(dpquery.BudgetRefused) as refused:
            session.sql(f"{COUNT} t WHERE region = 'W'")
        less = "weights='table' in each call: region = 'W' alone is charged"
        assert refused.value.diagnostic.remedy[-1] == less
        session.sql("SELECT DP_COUNT(*, eps=1, weights='table') FROM t WHERE region = 'W'")
        told = str(session.explain(f"{SHARED} t WHERE region = 'W'"))
        assert "k = 1 rows of a unit in full (from the policy), of all its rows" in told
        with pytest.raises(BudgetRefused):
            session.sql(f"{COUNT} t WHERE region = 'W'")
        session.sql(f"{SHARED} t WHERE region = 'W'")
        session.sql(f"{SHARED} t WHERE region = 'N'")  # a repeat
        with pytest.raises(BudgetRefused):
            session.sql(f"{COUNT} t WHERE region = 'N'")  # another question


def test_shares_of_rows_are_kept_by_one_sum_in_all_parts(place: Path):
    """A unit with rows in both would lose by epsilons in one, and by rho in the other."""
    text = POLICY.replace("per_unit", "parts").replace("= 1\n", "= 1\ndelta = 1e-6\n", 1)
    (place / "policy.toml").write_text(text, "utf-8")
    with dpquery.connect(place / "policy.toml") as session:
        few = f"REFRESH {SHARED.replace('eps=1', 'eps=0.01')} t WHERE region = 'S'"
        for _ in range(150):
            session.sql(few)
        with pytest.raises(BudgetRefused):
            session.sql(f"{SHARED} t WHERE region = 'N'")
        session.sql(few)


def test_a_unit_that_keeps_two_parts_loses_on_two(place: Path):
    text = POLICY.replace("per_unit = true", "per_unit = 2")
    (place / "policy.toml").write_text(text, "utf-8")
    with dpquery.connect(place / "policy.toml") as session:
        told = str(session.explain(f"{COUNT} t WHERE region = 'N'"))
        assert "charged on   region = 'N': 1 of 3 parts of t by region, 2 of a unit" in told
        several = f"{COUNT} t WHERE region IN ('N', 'S')"
        told = str(session.explain(several))
        assert "charged on   everybody; a query about one part alone is charged on it" in told
        for region, epsilon in (("N", "0.5"), ("S", "0.25"), ("W", "0.5")):
            session.sql(f"{COUNT.replace('1', epsilon)} t WHERE region = '{region}'")
        assert session.budget.spent.epsilon == 1
        with pytest.raises(BudgetRefused):
            session.sql(f"{COUNT.replace('1', '0.1')} t WHERE region = 'W'")
        with pytest.raises(BudgetRefused, match="one alone may have more left"):
            session.sql(several)
        session.sql(f"{COUNT.replace('1', '0.25')} t WHERE region = 'S'")
        assert session.budget.spent.epsilon == 1
    assert load_policy(place / "policy.toml").tables["t"].parts_per_unit == 2


def test_one_part_may_be_written_as_a_number(place: Path):
    """It is the same column in the ledger."""
    of = [load_policy(place / "policy.toml")]
    (place / "policy.toml").write_text(POLICY.replace("= true", "= 1"), "utf-8")
    of.append(load_policy(place / "policy.toml"))
    assert len({part.column for one in of for part in every_part(one)}) == 1


def test_a_stream_is_charged_on_all_parts_for_its_later_questions(session: Session):
    stream = session.above_threshold(10**6, eps=0.6)
    assert stream.ask("t", "region = 'N'") is False
    assert stream.ask("t", "region = 'S'") is False
    with pytest.raises(BudgetRefused):
        session.sql("SELECT DP_COUNT(*, eps=0.6) FROM t WHERE region = 'S'")


def test_the_same_words_about_files_of_two_places_are_two_tables(tmp_path: Path):
    """Somebody can be in the north in one of them, and in the south in the other."""
    for month, region in (("one", "N"), ("two", "S")):
        place = tmp_path / month
        place.mkdir()
        pq.write_table(
            pa.table({"unit": [1], "region": [region], "v": [1]}), place / "t.parquet"
        )
        text = f'{POLICY}[ledger]\npath = "{tmp_path}/shared.ledger"\n'
        (place / "policy.toml").write_text(text, "utf-8")
    with dpquery.connect(tmp_path / "one" / "policy.toml") as session:
        session.sql(f"{COUNT.replace('1', '0.7')} t WHERE region = 'N'")
    with dpquery.connect(tmp_path / "two" / "policy.toml") as session:
        with pytest.raises(BudgetRefused):
            session.sql(f"{COUNT.replace('1', '0.7')} t WHERE region = 'S'")
        session.sql(f"{COUNT.replace('1', '0.3')} t WHERE region = 'S'")


def test_parts_stay_when_policy_ledger_and_files_move_together(place: Path):
    with dpquery.connect(place / "policy.toml") as session:
        session.sql(f"{COUNT} t WHERE region = 'N'")
    moved = place.rename(place.with_name("moved"))
    with dpquery.connect(moved / "policy.toml") as session:
        session.sql(f"{COUNT} t WHERE region = 'S'")


def test_nobody_moves_to_another_part_within_a_version(place: Path):
    """Where values between the ends of a file change places, neither end tells."""

    def write(moved: int) -> bytes:
        rows = range(200_000)
        regions = ["NS"[(row + moved * (50_000 < row < 150_000)) % 2] for row in rows]
        table = pa.table({"unit": rows, "region": regions, "v": [1] * len(rows)})
        plain = {"compression": "none", "use_dictionary": False}
        pq.write_table(table, place / "t.parquet", row_group_size=len(rows), **plain)
        return (place / "t.parquet").read_bytes()

    before, end = write(0), 2**20
    with dpquery.connect(place / "policy.toml") as session:
        session.sql(f"{COUNT} t WHERE region = 'N'")
        after = write(1)
        assert before != after
        assert (before[:end], before[-end:]) == (after[:end], after[-end:])
        with pytest.raises(ScanFailed):
            session.sql(f"{COUNT} t WHERE region = 'S'")


@pytest.mark.parametrize("key", ["per_unit", "parts"])
def test_one_column_of_a_table_parts_its_units(place: Path, key: str):
    another = f'{POLICY}flag = {{ type = "boolean", {key} = true }}\n'
    (place / "policy.toml").write_text(another, "utf-8")
    with pytest.raises(PolicyInvalid) as caught:
        load_policy(place / "policy.toml")
    assert (caught.value.key, caught.value.line) == (f"tables.t.columns.flag.{key}", 10)
    (place / "policy.toml").write_text(another.replace(", per_unit = true", "", 1), "utf-8")
    assert load_policy(place / "policy.toml").tables["t"].parting is not None


def test_the_owners_view_holds_after_all(place: Path, session: Session):
    session.sql("SELECT DP_COUNT(*, eps=0.5) FROM t WHERE region = 'N'")
    session.sql("SELECT DP_COUNT(*, eps=0.25) FROM t")
    (place / "policy.toml").write_text(POLICY.replace(", per_unit = true", ""), "utf-8")
    with dpquery.connect(place / "policy.toml") as later:
        later.sql("SELECT DP_COUNT(*, eps=0.125) FROM t WHERE region = 'S'")
        assert later.budget.spent.epsilon == Fraction(7, 8)
