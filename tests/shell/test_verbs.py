"""demo, explain, policy and ledger; and how the process starts and ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from dpquery.core.privacy_loss import Ceiling
from dpquery.errors.pages import explain
from dpquery.policy.sources.paths import copy_samples
from dpquery.shell import main as demo
from dpquery.shell.batch import open_session
from dpquery.shell.main import main
from tests.shell.fakes import FakeSession


@pytest.fixture
def run(capsys):
    def run(*argv: str, connect=None) -> tuple[int, str, str]:
        code = main(argv, connect or FakeSession().connect)
        return code, *capsys.readouterr()

    return run


POLICY = """
[budget]
epsilon = 2
[tables.staff]
path = "staff.parquet"
privacy_unit_column = "person_id"
max_rows_contributed = 1
[tables.staff.columns]
person_id = { type = "integer" }
age = { type = "integer", bounds = [0, 120] }
"""


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    ages = pa.table({"person_id": [1, 2, 3], "age": [30, 40, 50]})
    parquet.write_table(ages, tmp_path / "staff.parquet")
    (tmp_path / "policy.toml").write_text(POLICY)
    return tmp_path / "policy.toml"


def test_explain_prints_the_page(run):
    assert run("explain", "DPQ301") == (0, explain("DPQ301") + "\n", "")


@pytest.mark.parametrize(
    ("topic", "first"),
    [
        ([], "pages:"),
        (["median"], "## DP_MEDIAN"),
        (["dp_count"], "## DP_COUNT"),
        (["bounds.md"], "# Bounds and limits"),
    ],
)
def test_explain_knows_pages_and_functions_by_name(run, topic, first):
    code, out, err = run("explain", *topic)
    assert (code, err) == (0, "")
    assert out.startswith(first)


def test_explain_knows_no_other_codes(run):
    code, out, err = run("explain", "DPQ999")
    assert (code, out) == (2, "")
    assert "there is no code 'DPQ999'; the nearest are" in err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["policy"], "dpquery policy init SOURCE, or dpquery policy check FILE"),
        (["ledger", "burn", "x"], "dpquery ledger show POLICY"),
        (["explain", "tutorail"], "dpquery explain tutorial"),
        (["explain", "nothing"], "pages are accuracy"),
        (["polciy", "init", "f"], "did you mean policy?"),
        (
            ["policy.toml", "SELECT 1"],
            "write -c before the query: dpquery policy.toml -c 'SELECT",
        ),
        (["a.parquet", "b.parquet"], "two tables have names: dpquery a=a.parquet b=b.parquet"),
        (["ledger", "show", "my.ledger"], '--ledger my.ledger -c "SHOW LEDGER"'),
        (["demo", "now"], "unrecognized arguments"),
    ],
)
def test_a_verb_used_wrongly_says_how_it_is_written(run, argv: list[str], said: str):
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("policy", "init"), "a Parquet file, a folder"),
        (("policy", "check"), "FILE        a policy"),
        (("ledger", "show"), "POLICY      a policy"),
        (("explain",), "TOPIC       a code"),
    ],
)
def test_the_help_of_a_verb_says_what_it_takes(run, words, said):
    code, out, _ = run(*words, "--help")
    assert code == 0
    assert said in out


def test_help_names_every_verb_and_exit_code(run):
    code, out, _ = run("--help")
    assert code == 0
    for word in (
        "demo",
        "explain",
        "policy init",
        "policy check",
        "ledger show",
        "ledger losses",
        "ledger verify",
        "ledger export",
        "ledger freeze",
        "ledger thaw",
        "ledger grant",
    ):
        assert f"dpquery {word}" in out
    assert "130 interrupted" in out


def test_the_version_is_the_package_s(run):
    assert run("--version")[1].startswith("dpquery 0.")


def test_a_policy_is_drafted_from_a_file(run, policy: Path):
    code, out, err = run("policy", "init", str(policy.parent / "staff.parquet"))
    assert (code, err) == (0, "")
    assert "[tables.staff.columns]" in out


def test_a_draft_goes_to_a_new_file(run, policy: Path):
    new = policy.with_name("new.toml")
    asked = ("policy", "init", str(policy.parent), "-o")
    assert run(*asked, str(new)) == (0, "", "")
    assert 'privacy_unit_column = "?"' in new.read_text("utf-8")
    for taken in (new, policy):
        before = taken.read_bytes()
        code, out, err = run(*asked, str(taken))
        assert (code, out) == (2, "")
        assert err == f"dpquery: {taken} is there already: name a new file\n"
        assert taken.read_bytes() == before
    code, _, err = run(*asked, str(policy.parent / "none" / "new.toml"))
    assert (code, err) == (
        2,
        "dpquery: the output cannot be written: No such file or directory\n",
    )


def test_a_sound_policy_passes_its_check(run, policy: Path):
    assert run("policy", "check", str(policy))[0] == 0


def test_a_policy_that_its_data_contradicts_fails_its_check(run, policy: Path):
    policy.write_text(POLICY.replace("age =", "wage ="))
    code, out, _ = run("policy", "check", str(policy))
    assert code == 2
    assert "fault: staff" in out


def test_a_policy_that_is_not_there_is_a_usage_error(run, tmp_path: Path):
    code, out, err = run("policy", "check", str(tmp_path / "none.toml"))
    assert (code, out) == (2, "")
    assert "DPQ601" in err


@pytest.mark.parametrize("part", ["show", "losses", "verify", "export"])
def test_looking_for_a_ledger_makes_none(run, policy: Path, part: str):
    code, out, err = run("ledger", part, str(policy))
    assert (code, out) == (2, "")
    assert "nothing has been charged" in err
    assert not policy.with_suffix(".ledger").exists()


def test_a_ledger_is_shown_and_verified(run, policy: Path):
    charge_half(policy)
    code, out, err = run("ledger", "show", str(policy))
    assert (code, err) == (0, "")
    assert [line.split()[2:] for line in out.splitlines()[1:]] == [
        ["default", "0.5", "SELECT␊", "1"]
    ]
    assert "counted" not in out
    assert run("ledger", "verify", str(policy)) == (
        0,
        "the ledger holds together; charges in it: 1\n",
        "",
    )


def test_losses_are_shown_as_each_accountant_puts_them(run, policy: Path):
    charge_half(policy)
    code, out, err = run("ledger", "losses", str(policy))
    assert (code, err) == (0, "")
    head, *rows = (line.split() for line in out.splitlines())
    assert head == ["of", "charges", "epsilon", "zcdp", "pld", "delta"]
    assert rows == [["default", "1", "0.5", "–", "–", "0"]]
    shared = policy.read_text().replace("epsilon = ", "delta = 1e-6\nepsilon = ", 1)
    analysts = "[analysts.default]\nepsilon = 1\n[analysts.bob]\nepsilon = 1\n"
    policy.write_text(f"{shared}\n{analysts}")
    _, out, _ = run("ledger", "losses", str(policy))
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["default", "1", "0.5", "2.49046932", "0.5", "5e-7"],
        ["bob", "0", "0", "0", "0", "5e-7"],
        ["all", "together", "1", "0.5", "2.49046932", "0.5", "5e-7"],
    ]


@pytest.mark.parametrize(
    ("form", "first"),
    [
        ("csv", "sequence,id,at,kind,analyst,session,query,epsilon,delta,rho,events"),
        ("json", '[{"sequence":"1",'),
        ("dp-accounting", "ComposedDpEvent(events=[RandomizedResponseDpEvent("),
    ],
)
def test_a_ledger_is_exported(run, policy: Path, form: str, first: str):
    charge_half(policy)
    code, out, err = run("ledger", "export", str(policy), "--format", form)
    assert (code, err) == (0, "")
    assert out.startswith(first)
    file = policy.with_name("export")
    file.write_text("older and longer" * 1000)
    assert run("ledger", "export", str(policy), "--format", form, "-o", str(file)) == (
        0,
        "",
        "",
    )
    assert file.read_bytes() == out.encode()


def test_a_ledger_is_frozen_and_thawed(run, policy: Path):
    frozen = "frozen: no query is charged until dpquery ledger thaw\n"
    for verb, said in (
        ("freeze", frozen),
        ("freeze", "frozen already\n"),
        ("thaw", "thawed: queries are charged again\n"),
        ("thaw", "not frozen\n"),
        ("freeze", frozen),
    ):
        assert run("ledger", verb, str(policy)) == (0, said, "")
    _, out, _ = run("ledger", "show", str(policy))
    assert [line.split()[-1] for line in out.splitlines()[1:-1]] == [
        *("frozen", "thawed", "frozen")
    ]
    assert out.endswith("\nfrozen: no query is charged\n")


GRANT = ("--analyst", "bob", "--add")


def test_a_grant_says_what_may_be_spent_and_is_shown(run, policy: Path):
    policy.write_text(f"{POLICY}\n[analysts.bob]\nepsilon = 1\n")
    said = "bob may spend 1.5 in all\n"
    assert run("ledger", "grant", str(policy), *GRANT, "0.5") == (0, said, "")
    _, out, _ = run("ledger", "show", str(policy))
    assert out.splitlines()[1].split()[2:] == ["bob", "–", "--", "granted", "0.5"]
    code, _, err = run("ledger", "grant", str(policy), *GRANT, "0.6")
    assert (code, "DPQ610" in err) == (2, True)


def test_a_grant_says_whether_it_adds_or_sets(run, policy: Path):
    policy.write_text(f"{POLICY}\n[analysts.bob]\nepsilon = 1\n")

    def grant(*words: str) -> tuple[int, str, str]:
        return run("ledger", "grant", str(policy), "--analyst", "bob", *words)

    assert grant("--to", "1.25") == (0, "bob may spend 1.25 in all\n", "")
    assert grant("--add", "0.25") == (0, "bob may spend 1.5 in all\n", "")
    assert grant("--to", "1.75")[:2] == (0, "bob may spend 1.75 in all\n")
    for less in ("1.75", "1"):
        code, _, err = grant("--to", less)
        assert (code, "'bob' may spend 1.75 already" in err) == (2, True)
    for neither in ((), ("--add", "1", "--to", "1"), ("--epsilon", "1")):
        assert grant(*neither)[0] == 2


def test_a_grant_beyond_what_is_left_for_all_says_so(run, policy: Path):
    charge_half(policy)
    policy.write_text(f"{POLICY}\n[analysts.bob]\nepsilon = 1\n")
    _, out, _ = run("ledger", "grant", str(policy), "--analyst", "bob", "--to", "1.75")
    assert out == (
        "bob may spend 1.75 in all\n"
        "the policy's total is reached first: 1.5 of 2 is left for everybody together\n"
    )


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ((*GRANT, "0"), "must be above 0"),
        ((*GRANT, "-1"), "must lie between 0 and"),
        ((*GRANT, "nan"), "--add is not a finite number"),
        ((*GRANT, "1", "--delta", "x"), "--delta is not a number"),
        (("--analyst", "eve", "--add", "1"), "the policy has no analyst 'eve'; it has bob"),
        (("--add", "1"), "--analyst"),
    ],
)
def test_a_grant_that_is_not_understood_writes_nothing(run, policy: Path, argv, said: str):
    policy.write_text(f"{POLICY}\n[analysts.bob]\nepsilon = 1\n")
    code, out, err = run("ledger", "grant", str(policy), *argv)
    assert (code, out) == (2, "")
    assert said in err
    assert "granted" not in run("ledger", "show", str(policy))[1]


def charge_half(policy: Path) -> None:
    from fractions import Fraction

    from dpquery.budget.ledger.charge_and_receipt import Account, Ceilings, Charge
    from dpquery.budget.ledger.ledger import open_ledger
    from dpquery.core.privacy_events import Pure
    from dpquery.core.privacy_loss import Loss
    from dpquery.policy.load import load_policy

    ledger = open_ledger(load_policy(policy).ledger)
    charge = Charge((Pure(Fraction(1, 2)),), (), "SELECT\n 1")
    ledger.charge(charge, Ceilings(Ceiling(Loss(Fraction(2)))), Account("default", "s"))
    ledger.close()


def test_the_demo_shows_groups_a_quantile_and_a_refusal(run, monkeypatch):
    session = FakeSession()
    refused = demo._QUERIES[-1]
    monkeypatch.setitem(FakeSession.replies, refused, FakeSession.replies["dear"])
    monkeypatch.setitem(FakeSession.replies, demo._QUERIES[0], FakeSession.replies["noted"])
    code, out, err = run("demo", connect=session.connect)
    assert (code, err) == (0, "")
    assert out.count("dp> ") == 3
    assert out.count("budget: 1.5 of 2 left") == 1
    assert "\nnote: each row is its own unit\n" in out
    assert "refused[" in out
    assert session.asked == list(demo._QUERIES)
    assert not Path(session.opened[0][0]).exists(), "the copy is removed"


def test_the_demo_of_the_whole_program_ends_well():
    with start("demo", stdout=subprocess.PIPE) as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, b"")
    assert out.count(b"95% within") == 1
    assert out.count(b"noise \xc2\xb1") == 1
    assert "200000; ± is the noise only (95 %)\nnote: ".encode() in out
    assert b"\n legal " in out
    assert b" tenth\n" in out
    assert b"refused[DPQ301]" in out
    assert out.endswith(b"budget: unchanged; 0.5 of 2 left\n\n")


def test_one_query_from_the_shell_is_charged_and_shown_in_the_ledger(tmp_path: Path):
    samples = copy_samples(tmp_path / "samples").parent
    query = ("SELECT DP_COUNT(*, eps=0.5) AS n FROM staff", "--format", "csv")
    with start(str(samples / "policy.toml"), "-c", *query, stdout=subprocess.PIPE) as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, b"budget: 1.5 of 2 left\n")
    header, n = out.split()
    assert header == b"n"
    # 1,000 rows; noise beyond 60 at epsilon 0.5 has probability below 1e-12.
    assert abs(int(n) - 1000) < 60
    with start(
        "ledger", "show", str(samples / "policy.toml"), stdout=subprocess.PIPE
    ) as process:
        assert query[0].encode() in process.communicate()[0]


def start(*argv: str, **options: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "dpquery", *argv], stderr=subprocess.PIPE, **options
    )


def test_a_reader_that_left_is_no_reason_to_complain():
    reading, writing = os.pipe()
    os.close(reading)
    with start("explain", "DPQ301", stdout=writing) as process:
        os.close(writing)
        assert process.communicate()[1] == b""
        assert process.returncode == 0


def test_a_full_disk_is_reported_once():
    with (
        Path("/dev/full").open("wb") as full,
        start("explain", "DPQ301", stdout=full) as process,
    ):
        assert process.communicate()[1] == (
            b"dpquery: the output cannot be written: No space left on device\n"
        )
        assert process.returncode == 2


def test_python_m_dpquery_is_the_command_line():
    with start("explain", "DPQ301", stdout=subprocess.PIPE) as process:
        assert process.communicate()[0].decode() == explain("DPQ301") + "\n"


@pytest.mark.parametrize("argv", [("v/a.parquet", "v/b.parquet"), ("", "v/b.parquet")])
def test_a_glob_that_the_shell_has_read_is_told_where_its_quotes_belong(run, argv):
    code, out, err = run(*argv, "-c", "SELECT 1")
    assert (code, out) == (2, "")
    assert err.startswith("dpquery: one source is asked, and v/b.parquet is another;")
    assert ("dpquery 'v/*.parquet'" in err) == bool(argv[0])
    assert "usage:" not in err


def test_an_unknown_option_is_still_the_parsers_to_refuse(run):
    code, _, err = run("staff.parquet", "--sql", "SELECT 1")
    assert code == 2
    assert "unrecognized arguments: --sql SELECT 1" in err


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ([], "dpquery staff.parquet --unit user_id --epsilon 1"),
        (["--epsilon", "x"], "--epsilon 1"),
        (["--epsilon", "1", "--unit", "persn_id"], "--unit person_id"),
        (["--epsilon", "1", "--rows", "5"], "--unit user_id"),
        (["--epsilon", "1", "--bounds", "agee=0:9"], "--bounds age=0:100"),
        (["--epsilon", "1", "--bounds", "age=9:0"], "--bounds age=0:9"),
    ],
)
def test_what_is_offered_for_an_option_is_an_option(
    run, policy: Path, monkeypatch, options: list[str], remedy: str
):
    monkeypatch.chdir(policy.parent)
    code, out, err = run("staff.parquet", *options, "-c", "SELECT 1", connect=open_session)
    assert (code, out) == (2, "")
    assert f"   try: {remedy}\n" in f"{err}\n"
    assert "Python" not in err


def test_a_missing_file_is_told_before_a_missing_epsilon(run):
    assert "names no file" in run("none.parquet", "-c", "SELECT 1", connect=open_session)[2]


def test_who_would_join_two_files_is_told_how(run, policy: Path, monkeypatch):
    monkeypatch.chdir(policy.parent)
    query = "SELECT DP_COUNT(*, eps=0.5) FROM staff JOIN visits USING (person_id)"
    code, _, err = run("staff.parquet", "--epsilon", "1", "-c", query, connect=open_session)
    assert code == 1
    assert "write a policy, or in Python connect({" in err
