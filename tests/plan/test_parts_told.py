"""What owner and analyst are told of parts, and what they are held to."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.errors import BudgetRefused, PolicyInvalid, ScanFailed
from dpquery.plan.touched_partitions import every_part
from dpquery.policy.load import load_policy
from dpquery.session import Session
from dpquery.shell.main import run_verb
from tests.samples import edit

COUNT = "SELECT DP_COUNT(*, eps=1) FROM"
SHARED = "SELECT DP_COUNT(*, eps=1, weights='table') FROM"

POLICY = """\
[budget]
epsilon = 1
[tables.t]
path = "t.parquet"
privacy_unit_column = "unit"
max_rows_contributed = 1
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


def said(told: str) -> list[str]:
    """Return the last two lines before the scan, which is shown last."""
    lines = told.splitlines()
    scan = next(at for at, line in enumerate(lines) if line.startswith("scan"))
    return lines[scan - 2 : scan]


def test_explain_says_on_which_parts_a_query_is_charged(session: Session):
    session.sql("SELECT DP_COUNT(*, eps=0.5) FROM t WHERE region = 'N'")
    told = str(session.explain("SELECT DP_COUNT(*, eps=0.7) FROM t WHERE region = 'S'"))
    assert said(told) == [
        "charged on   region = 'S': 1 of 3 parts of t by region",
        "budget       1 left; 0.3 after it",
    ]
    told = str(session.explain("SELECT DP_COUNT(*, eps=0.7) FROM t"))
    assert said(told) == [
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
        less = "or, with weights='table' in each call, only any other region is charged"
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


def test_weights_by_the_table_are_offered_where_they_help_alone(place: Path):
    (place / "policy.toml").write_text(POLICY.replace("per_unit", "parts"), "utf-8")
    asked = "SELECT DP_COUNT(*, eps={}) FROM t WHERE region = 'N'"
    with dpquery.connect(place / "policy.toml") as session:
        both = asked.format("0.5, max_rows_contributed=2").replace(" FROM", ", {} FROM")
        linear, other = "DP_SUM(v, eps=0.1)", "DP_COUNT(DISTINCT v, eps=0.1)"
        assert "weights='table'" in str(session.explain(both.format(linear)))
        assert "weights='table'" not in str(session.explain(both.format(other)))
        session.sql(f"{SHARED.replace('eps=1', 'eps=0.75')} t WHERE region = 'N'")
        with pytest.raises(BudgetRefused) as refused:
            session.sql(asked.format("0.5"))
        assert "weights='table'" not in str(refused.value), "it has no more left there"
        with pytest.raises(BudgetRefused) as refused:
            session.sql(asked.replace("'N'", "'S'").format("0.5"))
        assert "only region = 'S' is charged" in str(refused.value)


def test_shares_of_rows_are_kept_by_one_sum_in_all_parts(place: Path):
    """A unit with rows in both would lose by epsilons in one, and by rho in the other."""
    text = POLICY.replace("per_unit", "parts").replace("= 1\n", "= 1\ndelta = 1e-6\n", 1)
    (place / "policy.toml").write_text(text, "utf-8")
    with dpquery.connect(place / "policy.toml") as session:
        few = f"REFRESH {SHARED.replace('eps=1', 'eps=0.01')} t WHERE region = 'S'"
        for _ in range(150):
            session.sql(few)
        with pytest.raises(BudgetRefused) as refused:
            session.sql(f"{SHARED} t WHERE region = 'N'")
        said = "epsilons add up to 1.5 where most was asked, so only rho is counted"
        assert said in " ".join(str(refused.value).split())
        session.sql(f"SELECT {refused.value.diagnostic.remedy[0]} FROM t WHERE region = 'N'")
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


def test_charges_and_columns_say_which_parts_are_meant(place: Path, session: Session, capsys):
    session.sql("SELECT DP_COUNT(*, eps=0.25) FROM t WHERE region = 'S'")
    session.sql("SELECT DP_COUNT(*, eps=0.5) FROM t WHERE region = 'S'")
    session.sql("SELECT DP_COUNT(*, eps=0.25) FROM t")
    remarks = ["on region = 'S'", "refines the answer at 0.25; on region = 'S'", None]
    assert [row[-1] for row in session.ledger().rows] == remarks
    assert session.describe("t").columns[-1] == "parts"
    assert [row[-1] for row in session.describe("t").rows] == [None, "1 per unit", None]
    assert run_verb(["ledger", "show", str(place / "policy.toml")]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split()[-1] == "remark"
    assert shown[2].split("FROM t")[1].split("   ") == [
        " WHERE region = 'S'",
        " refines the answer at 0.25; on region = 'S'",
    ]
    assert shown[3].endswith("FROM t")
    edit(place / "policy.toml", '"N", "S"', '"S", "N"')
    with dpquery.connect(place / "policy.toml") as later:
        assert later.ledger().rows[0][-1] == "on parts as they were then"


def test_answers_say_that_rows_of_other_parts_do_not_count(place: Path, session: Session):
    said = "of each unit only rows of its first region count (per_unit)"
    assert said in session.sql("SELECT DP_COUNT(*, eps=0.25) FROM t WHERE v > 1").notes[0]
    edit(place / "policy.toml", "per_unit = true", "per_unit = 2")
    with dpquery.connect(place / "policy.toml") as two:
        notes = two.sql("SELECT DP_COUNT(*, eps=0.25) FROM t WHERE v > 1").notes
        assert said.replace("region", "2 values of region") in notes[0]
    edit(place / "policy.toml", "per_unit = 2", "parts = true")
    with dpquery.connect(place / "policy.toml") as shared:
        notes = shared.sql("SELECT DP_COUNT(*, eps=0.25) FROM t WHERE v > 2").notes
        assert "per_unit" not in " ".join(notes)
        assert shared.describe("t").rows[1][-1] == "all rows of a unit"


def test_publishing_says_that_parts_begin_anew(place: Path, session: Session, capsys):
    assert run_verb(["policy", "publish", str(place / "policy.toml")]) == 0
    assert "parts begin anew: everybody is taken" in capsys.readouterr().out


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
    assert (caught.value.key, caught.value.line) == (f"tables.t.columns.flag.{key}", 11)
    (place / "policy.toml").write_text(another.replace(", per_unit = true", "", 1), "utf-8")
    assert load_policy(place / "policy.toml").tables["t"].parting is not None


def test_a_description_is_shown_and_moves_nobodys_budget(place: Path, session: Session):
    query = "SELECT DP_COUNT(*, eps=0.5) FROM t WHERE region = 'N'"
    paid = session.sql(query).rows
    before = session.sql("SHOW BUDGET").rows
    told = POLICY.replace("per_unit = true", 'per_unit = true, description = "where it stands"')
    assert told != POLICY
    (place / "policy.toml").write_text(told, "utf-8")
    with dpquery.connect(place / "policy.toml") as later:
        assert later.sql("SHOW BUDGET").rows == before
        assert later.sql(query).rows == paid
        assert later.sql("SHOW BUDGET").rows == before
        described = later.describe("t").to_dicts()
        assert described == later.sql("DESCRIBE t").to_dicts()
        texts = {row["column"]: row["description"] for row in described}
        assert texts.pop("region") == "where it stands"
        assert set(texts.values()) == {None}


def test_the_owners_view_holds_after_all(place: Path, session: Session):
    session.sql("SELECT DP_COUNT(*, eps=0.5) FROM t WHERE region = 'N'")
    session.sql("SELECT DP_COUNT(*, eps=0.25) FROM t")
    (place / "policy.toml").write_text(POLICY.replace(", per_unit = true", ""), "utf-8")
    with dpquery.connect(place / "policy.toml") as later:
        later.sql("SELECT DP_COUNT(*, eps=0.125) FROM t WHERE region = 'S'")
        assert later.budget.spent.epsilon == Fraction(7, 8)
