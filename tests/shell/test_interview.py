"""`policy init --interactive`: scripted answers, and a terminal of its own."""

from __future__ import annotations

import os
import pty
import select
import sys
import tomllib
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpquery.engine.file_checks import schemas_of
from dpquery.policy.load import load_policy
from dpquery.policy.owner.draft import draft
from dpquery.shell.arguments import UsageError
from dpquery.shell.main import main
from dpquery.shell.policy_interview import Interview

STAFF = {"person_id": pa.int64(), "dept": pa.string(), "age": pa.int32(), "note": pa.string()}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.schema(STAFF).empty_table(), "staff.parquet")
    return tmp_path


class Answers:
    """An owner who has written down the answers."""

    def __init__(self, *answers: str) -> None:
        self.left = list(answers)
        self.asked: list[str] = []
        self.said: list[str] = []

    def ask(self, question: str) -> str:
        self.asked.append(question.strip())
        return self.left.pop(0)

    def say(self, text: object) -> None:
        self.said.append(str(text))


def held(answers: Answers, *paths: str) -> dict[str, Any]:
    """Hold an interview; its policy loads, and every answer was asked for."""
    place = Path("policy.toml")
    text = Interview(draft(paths, schemas_of), answers.ask, answers.say, place).hold()
    assert not answers.left
    assert not place.exists()
    place.write_text(text, "utf-8")
    load_policy(place)
    place.unlink()
    return tomllib.loads(text)


def test_answers_make_a_policy_that_loads():
    owner = Answers(
        *("n", "person_id", "20"),
        *("out", 'keys = ["eng", "ops"], null_group = false', "bounds = [18, 70]", ""),
        *("2", "1e-7"),
    )
    policy = held(owner, "staff.parquet")
    table = policy["tables"]["staff"]
    assert (table["privacy_unit_column"], table["max_rows_contributed"]) == ("person_id", 20)
    assert table["columns"] == {
        "dept": {"type": "text", "keys": ["eng", "ops"], "null_group": False},
        "age": {"type": "integer", "bounds": [18, 70]},
    }
    assert table["privacy_unit_type"] == "integer"
    assert policy["budget"] == {"epsilon": 2, "delta": 1e-7}
    assert owner.asked[0].startswith("nobody's data")
    assert owner.asked[3] == "person_id (integer): [in]"


def test_columns_of_csv_are_given_their_types(here: Path):
    (here / "stays.csv").write_text("person,begun,paid\n", "utf-8")
    begun, paid = 'type = "date", bounds = [2020-01-01, 2029-12-31]', '{ type = "boolean" }'
    owner = Answers("n", "person", "auto", "in", begun, paid, "1", "0")
    columns = held(owner, "stays.csv")["tables"]["stays"]["columns"]
    assert {name: one["type"] for name, one in columns.items()} == {
        "person": "text",
        "begun": "date",
        "paid": "boolean",
    }


@pytest.mark.parametrize(
    ("at", "wrong", "words"),
    [
        (1, "salary", 'the answer names no column of staff: "salary"'),
        (1, "dept = teams.id", "unit_through"),
        (2, "0", 'max_rows_contributed must be "auto" or an integer from 1'),
        (2, "many", "is not TOML"),
        (3, "keys = []", "person_id.keys must be a list that is not empty"),
        (4, "bounds = [0, 1]", "dept.bounds does not apply to a column of type text"),
        (5, "bounds = [70, 18]", "age.bounds has its low end 70 above its high end 18"),
        (5, "bound = [0, 9]", "age.bound is not a key of the policy"),
        (5, "} x = {", "is not TOML"),
        (7, "0", "budget.epsilon must be a number above 0"),
        (8, "1", "budget.delta must be a number from 0 to below 1"),
    ],
)
def test_what_cannot_be_is_refused_at_once_and_asked_again(at: int, wrong: str, words: str):
    good = ["n", "person_id", "auto", "in", "in", "in", "out", "1", "0"]
    owner = Answers(*good[:at], wrong, *good[at:])
    policy = held(owner, "staff.parquet")
    assert policy == held(Answers(*good), "staff.parquet")
    assert owner.asked[at] == owner.asked[at + 1]
    (refusal,) = [said for said in owner.said if said.startswith("policy[")]
    assert words in refusal
    assert "-->" not in refusal


def test_a_column_is_offered_only_if_it_was_meant():
    owner = Answers("n", "salary", "person", "person_id", *[""] * 7)
    held(owner, "staff.parquet")
    salary, person = (said for said in owner.said if said.startswith("policy["))
    assert "try:" not in salary
    assert person.endswith("try: person_id")


def test_tables_are_asked_behind_those_that_they_lead_through():
    for name, columns in {
        "customers": ("customer_id", "age"),
        "items": ("order_id", "amount"),
        "orders": ("order_id", "buyer_no"),
        "regions": ("region",),
    }.items():
        pq.write_table(
            pa.schema(dict.fromkeys(columns, pa.int64())).empty_table(), f"{name}.parquet"
        )
    owner = Answers(
        "person",
        *("", "", "", "", "bounds = [0, 120]"),
        *("n", "teller", "buyer_no", "9", "out", "out", "", "in"),
        *("", "customer_id = customers.customer_id", "", "auto", "out", "bounds = [0, 9]"),
        *("y", ""),
        *("3", ""),
    )
    policy = held(
        owner, "customers.parquet", "items.parquet", "orders.parquet", "regions.parquet"
    )
    assert policy["privacy"]["unit"] == "person"


def schemas(**tables: str) -> None:
    for name, columns in tables.items():
        fields = dict.fromkeys(columns.split(), pa.int64())
        pq.write_table(pa.schema(fields).empty_table(), f"{name}.parquet")


def test_a_table_that_an_answer_leads_to_is_asked_about_first():
    schemas(events="member", fines="loan cents", loans="loan_no card")
    owner = Answers(
        "",
        *("", "", "", ""),
        *("n", "loan = loans.loan_no"),  # of fines, and then of loans
        *("n", "loan_no = fines.loan", "loan_no = loans.card", "card", "24", "in", "in"),
        *("6", "in", "bounds = [0, 9]"),
        *("", ""),
    )
    policy = held(owner, "events.parquet", "fines.parquet", "loans.parquet")
    way = {"column": "loan", "table": "loans", "key": "loan_no"}
    assert policy["tables"]["fines"]["unit_through"] == way
    assert policy["tables"]["loans"]["privacy_unit_column"] == "card"
    assert policy["tables"]["fines"]["max_rows_contributed"] == 6
    circles = [said for said in owner.said if "leads in a circle" in said]
    assert ["fines -> loans -> fines" in circles[0], "loans -> loans" in circles[1]] == [
        True
    ] * 2


def test_a_way_is_not_usual_to_a_table_that_is_public():
    schemas(events="member", fines="loan_id", loans="loan_id card_no")
    owner = Answers(
        "",
        *("", "", "", ""),
        *("y", "", "", "y", ""),
        *("", ""),
    )
    tables = held(owner, "events.parquet", "fines.parquet", "loans.parquet")["tables"]
    assert tables["fines"]["public"]


def test_nothing_is_usual_where_only_the_owner_knows():
    pq.write_table(pa.schema({"x": pa.int64()}).empty_table(), "bare.parquet")
    owner = Answers("", "what", "n", "", "-", "out", "in", "", "")
    table = held(owner, "bare.parquet")["tables"]["bare"]
    assert "privacy_unit_column" not in table
    assert [*table["columns"]] == ["x"]
    assert "  without columns nothing could be asked of bare" in owner.said


def test_a_table_without_columns_is_left_out():
    pq.write_table(pa.schema({"x": pa.binary()}).empty_table(), "blobs.parquet")
    owner = Answers("", "n", "", "", "in", "in", "in", "in", "", "")
    assert [*held(owner, "blobs.parquet", "staff.parquet")["tables"]] == ["staff"]
    assert "  is left out: it has no column that a policy can list" in owner.said
    with pytest.raises(UsageError, match="no table is left"):
        held(Answers(), "blobs.parquet")


def test_a_public_table_has_no_columns_to_decide():
    pq.write_table(pa.schema({"id": pa.int64(), "x": pa.int64()}).empty_table(), "r.parquet")
    assert held(Answers("y", "x, id", "", ""), "r.parquet")["tables"]["r"] == {
        "path": "r.parquet",
        "public": True,
        "unique": ["x", "id"],
        "columns": {},
    }
    assert "unique" not in held(Answers("y", "-", "", ""), "r.parquet")["tables"]["r"]


def test_without_a_terminal_it_says_so(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", StringIO("n\n"))
    assert main(["policy", "init", "staff.parquet", "--interactive"]) == 2
    out, err = capsys.readouterr()
    assert (out, err) == (
        "",
        "dpquery: --interactive asks on a terminal, and none is here: leave it out\n",
    )


# A terminal of its own.


def driven(argv: Iterable[str], keys: Iterable[str]) -> tuple[str, int]:
    """Run the program on a terminal, and type one text at each prompt.

    A signal between a prompt and its reading waits for the next key: it is sent again.
    """
    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, [sys.executable, "-m", "dpquery", *argv])
    left, key, seen, patience = list(keys), "", b"", 60
    try:
        while patience:
            if not select.select([terminal], [], [], 0.5)[0]:
                patience -= 1
                os.write(terminal, key.encode() if not left else b"")
                continue
            try:
                seen += os.read(terminal, 65536)
            except OSError:  # it has left
                break
            if left and seen.endswith((b"? ", b": ", b"] ")):
                key = left.pop(0)
                os.write(terminal, key.encode())
    finally:
        os.close(terminal)
        _, status = os.waitpid(process, 0)
    return seen.decode(), os.waitstatus_to_exitcode(status)


ANSWERS = ["n", "person_id", "auto", "in", "in", "bounds = [18, 70]", "", "1", "0"]


def test_a_policy_is_written_at_the_end(here: Path):
    argv = ["policy", "init", "staff.parquet", "--interactive", "-o", "policy.toml"]
    seen, code = driven(argv, [f"{one}\n" for one in ANSWERS])
    assert code == 0, seen
    assert load_policy("policy.toml").tables["staff"].columns["age"].bounds is not None
    before = Path("policy.toml").read_bytes()
    seen, code = driven(argv, [])
    assert code == 2
    assert "policy.toml is there already" in seen
    assert Path("policy.toml").read_bytes() == before


@pytest.mark.parametrize("key", ["\x03", "\x04"])
def test_whoever_stops_has_changed_nothing(here: Path, key: str):
    before = sorted(here.iterdir())
    argv = ["policy", "init", "staff.parquet", "--interactive", "-o", "policy.toml"]
    seen, code = driven(argv, [*(f"{one}\n" for one in ANSWERS[:-1]), key])
    assert code == 130
    assert seen.rstrip().endswith("stopped")
    assert sorted(here.iterdir()) == before
