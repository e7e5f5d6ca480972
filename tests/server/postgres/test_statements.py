"""What kind a statement is, where its pieces stand, and what its parameters are."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.policy.load import load_policy
from dpquery.policy.model import Policy
from dpquery.server.postgres import type_codecs
from dpquery.server.postgres.bind_parameters import stand_ins, template_of
from dpquery.server.postgres.messages import Refused
from dpquery.server.postgres.statement_kinds import (
    Call,
    Close,
    Copy,
    Declare,
    Done,
    Fetch,
    Forget,
    Form,
    Query,
    Setting,
    Showing,
    Transaction,
    argument,
    read,
    split,
)
from tests.samples import sample_policy

KINDS = [
    ("BEGIN", Transaction("BEGIN")),
    ("begin isolation level serializable read only", Transaction("BEGIN")),
    ("START TRANSACTION", Transaction("START TRANSACTION")),
    ("/* pool */ COMMIT;", Transaction("COMMIT")),
    ("END", Transaction("COMMIT")),
    ("ABORT", Transaction("ROLLBACK")),
    ("ROLLBACK TO SAVEPOINT a", Transaction("ROLLBACK TO")),
    ("SAVEPOINT a", Transaction("SAVEPOINT")),
    ("SET dp.eps = 0.5", Setting("dp.eps", "0.5")),
    ("set session DP.eps to '0.5'", Setting("dp.eps", "0.5")),
    ("SET dp.eps = DEFAULT", Setting("dp.eps", None)),
    ("RESET dp.eps;", Setting("dp.eps", None, "RESET")),
    ("SET TIME ZONE 'UTC'", Setting("timezone", "UTC")),
    ("SET NAMES 'utf8'", Setting("client_encoding", "utf8")),
    ("SET search_path = a, b", Setting("search_path", "a, b")),
    ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", Done("SET")),
    ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", Done("SET")),
    ("SHOW search_path", Showing("search_path")),
    ("SHOW TRANSACTION ISOLATION LEVEL", Showing("transaction_isolation")),
    ("SHOW TIME ZONE", Showing("timezone")),
    ("SHOW dp.eps", Showing("dp.eps")),
    ("SHOW dp.budget", Query("SHOW BUDGET", readable=False)),
    ("SHOW TABLES", Query("SHOW TABLES", readable=False)),
    ("SHOW ALL", Showing("all")),
    ("DISCARD ALL", Forget("DISCARD ALL")),
    ("DISCARD PLANS", Done("DISCARD PLANS")),
    ("DEALLOCATE ALL", Forget("DEALLOCATE ALL")),
    ('DEALLOCATE "_P"', Forget("DEALLOCATE", "_P")),
    ("UNLISTEN *", Done("UNLISTEN")),
    ("CLOSE ALL", Close("")),
    ("CLOSE C", Close("c")),
    ("FETCH c", Fetch("c", 1)),
    ("FETCH 10 FROM c", Fetch("c", 10)),
    ('FETCH FORWARD ALL IN "C"', Fetch("C", None)),
    ("FETCH ALL c", Fetch("c", None)),
    ("MOVE FORWARD 3 FROM c", Fetch("c", 3, "MOVE")),
    ("SELECT 1", Query("SELECT 1")),
    (" (SELECT 1)", Query(" (SELECT 1)")),
    ("EXPLAIN SELECT 1", Query("EXPLAIN SELECT 1", readable=False)),
    (
        "CREATE TEMP VIEW v AS SELECT 1",
        Query("CREATE TEMP VIEW v AS SELECT 1", 0, "CREATE VIEW", False),
    ),
    ("INSERT INTO t VALUES (1)", Query("INSERT INTO t VALUES (1)", readable=False)),
]
COPIES = [
    ("COPY (SELECT 1) TO STDOUT", Form()),
    ("copy ( SELECT 1 ) to stdout with csv header", Form("csv", True, ",", "")),
    ("COPY (SELECT 1) TO STDOUT (FORMAT csv, HEADER)", Form("csv", True, ",", "")),
    ("COPY (SELECT 1) TO STDOUT WITH (FORMAT CSV, HEADER false)", Form("csv", False, ",", "")),
    ("COPY (SELECT 1) TO STDOUT WITH BINARY", Form("binary")),
    ("COPY (SELECT 1) TO STDOUT (FORMAT binary)", Form("binary")),
    ('COPY (SELECT 1) TO STDOUT (FORMAT "binary");', Form("binary")),
    ("COPY (SELECT 1) TO STDOUT DELIMITER AS ';' NULL AS '-'", Form("text", False, ";", "-")),
    (
        "COPY (SELECT 1) TO STDOUT (FORMAT csv, DELIMITER '|', QUOTE '''', ENCODING 'UTF8')",
        Form("csv", False, "|", "", "'"),
    ),
]


@pytest.mark.parametrize(("text", "kind"), KINDS, ids=[text for text, _ in KINDS])
def test_kinds(text: str, kind: object):
    assert read(text) == kind


@pytest.mark.parametrize(("text", "form"), COPIES, ids=[text for text, _ in COPIES])
def test_copies(text: str, form: Form):
    found = read(text)
    assert isinstance(found, Copy)
    assert found.form == form
    assert found.query.text.strip() == "SELECT 1"
    assert text[found.query.start :].startswith(found.query.text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("COPY staff TO STDOUT", "COPY writes"),
        ("COPY staff FROM STDIN", "COPY writes"),
        ("COPY (SELECT 1) TO '/tmp/x'", "COPY writes"),
        ("COPY (SELECT 1) TO STDOUT (FORMAT xml)", "text, csv or binary"),
        ("COPY (SELECT 1) TO STDOUT (FORCE_QUOTE *)", "options"),
        ("COPY (SELECT 1) TO STDOUT (DELIMITER 'ab')", "one sign"),
        ("COPY (SELECT 1) TO STDOUT (DELIMITER 'ab', QUOTE 'ab')", "one sign"),
        ("COPY (SELECT 1) TO STDOUT (FORMAT csv, DELIMITER '\"')", "apart"),
        ("COPY (SELECT 1) TO STDOUT (" + "a," * 1000, "too long"),
        ("FETCH BACKWARD 1 FROM c", "forward"),
        ("LISTEN x", "no LISTEN"),
        ("PREPARE a AS SELECT 1", "no PREPARE"),
        ("SET x", "a name and a value"),
        ("CALL other('x')", "no such procedure"),
        ("DECLARE c CURSOR", "no cursor"),
    ],
)
def test_what_this_server_has_not(text: str, said: str):
    with pytest.raises(Refused, match=said):
        read(text)


def test_cursors_know_where_their_query_stands():
    text = 'DECLARE "My c" NO SCROLL CURSOR WITH HOLD FOR SELECT 1'
    found = read(text, 10)
    assert found == Declare("My c", Query(" SELECT 1", 10 + text.index(" SELECT")), True)


def test_calls_take_one_text():
    found = read("CALL dpquery('{\"do\": \"it''s\"}');")
    assert isinstance(found, Call)
    assert argument(found.argument.text) == '{"do": "it\'s"}'
    for wrong in ("", "1", "'a', 'b'", "'a' || 'b'"):
        with pytest.raises(Refused):
            argument(wrong)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        (" ; ;-- nothing\n;", []),
        ("SELECT 1;", ["SELECT 1;"]),
        ("SELECT ';'; SELECT \";\" -- ;\n; /* ; */", ["SELECT ';';", ' SELECT ";" -- ;\n;']),
        ("SHOW TABLES; SELECT 2", ["SHOW TABLES;", " SELECT 2"]),
        ("EXPLAIN SELECT ';'; SELECT 2", ["EXPLAIN SELECT ';';", " SELECT 2"]),
        ('BEGIN;FETCH 1 FROM "a;b";END', ["BEGIN;", 'FETCH 1 FROM "a;b";', "END"]),
        ("SELECT 'open; SELECT 2", ["SELECT 'open; SELECT 2"]),
    ],
)
def test_texts_are_split_by_their_words(text: str, pieces: list[str]):
    found = split(text)
    assert [piece for _, piece in found] == pieces
    assert all(text[start:].startswith(piece) for start, piece in found)


@given(st.text(st.sampled_from("sSEe lecT;'\"$1-/*\n\\x,()E"), max_size=60))
def test_any_text_is_read_or_refused(text: str):
    for start, piece in split(text):
        with suppress(Refused):
            read(piece, start)


# Parameters.


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Policy:
    return load_policy(sample_policy(tmp_path_factory.mktemp("marks"), "epsilon = 2.0"))


GUESSES = [
    ("SELECT COUNT(*) FROM staff WHERE dept = $1", [type_codecs.TEXT]),
    (
        "SELECT COUNT(*) FROM staff WHERE age > $1 AND hired <= $2",
        [type_codecs.INT8, type_codecs.DATE],
    ),
    ("SELECT COUNT(*) FROM staff WHERE age > -$1", [type_codecs.INT8]),
    ("SELECT COUNT(*) FROM staff WHERE $1 < age", [type_codecs.INT8]),
    (
        "SELECT COUNT(*) FROM staff WHERE s.rating NOT BETWEEN $1 AND $2",
        [type_codecs.NUMERIC] * 2,
    ),
    ("SELECT COUNT(*) FROM staff WHERE age IN ($1, 5, $2, $3)", [type_codecs.INT8, 20, 20]),
    (
        "SELECT COUNT(*) FROM staff WHERE remote = $1 OR dept LIKE $2",
        [type_codecs.BOOL, type_codecs.TEXT],
    ),
    ("SELECT DP_COUNT(*, eps=$1, delta => $2) FROM staff", [type_codecs.FLOAT8] * 2),
    ("SELECT DP_SUM(bonus, bounds=[$1, $2], eps=$3) FROM staff", [type_codecs.FLOAT8] * 3),
    ("SELECT DP_SUM(bonus, max_rows_contributed=$1) FROM visits", [type_codecs.INT8]),
    ("SELECT DP_QUANTILE(age, $1, eps=1) FROM staff", [type_codecs.FLOAT8]),
    ("SELECT $2::int, $1::DATE", [type_codecs.DATE, type_codecs.INT4]),
    (
        "SELECT COUNT(*) FROM visits WHERE at > $1 LIMIT $2",
        [type_codecs.TIMESTAMP, type_codecs.INT8],
    ),
    ("SELECT dept FROM staff GROUP BY 1 HAVING COUNT(*) > $1", [type_codecs.FLOAT8]),
    ("SELECT 1 FROM staff WHERE date_trunc('month', hired) = $1", [type_codecs.DATE]),
    ("EXPLAIN SELECT COUNT(*) FROM staff WHERE age = $1", [type_codecs.INT8]),
    ("SELECT '$1', \"$2\" -- $3\n, $1", [type_codecs.TEXT]),
    ("SELECT $3", [type_codecs.TEXT] * 3),
    ("SELECT $$ $1 $$", []),
]


@pytest.mark.parametrize(("text", "oids"), GUESSES, ids=[text for text, _ in GUESSES])
def test_types_are_guessed_by_the_words_around(policy: Policy, text: str, oids: list[int]):
    template = template_of(text, policy)
    assert template.guesses == oids
    for values in stand_ins(oids):
        template.bound(values)  # each type has a value that can be planned with


def test_places_are_told_as_they_were_sent(policy: Policy):
    text = "SELECT a, $1 , b, $2::int, c FROM t -- $3"
    template = template_of(text, policy)
    bound = template.bound(["it's", Decimal("-1.50")])
    assert bound.text == "SELECT a,  'it''s'  , b,  -1.50 ::int, c FROM t -- $3"
    for word in ("SELECT", "a,", ", b", "::int", "c FROM", "--"):
        assert bound.origin(bound.text.index(word)) == text.index(word)
    for inside in ("it''s", "-1.50", "50"):
        assert text[bound.origin(bound.text.index(inside)) :][:1] in "$12"


def test_a_value_is_never_more_than_one(policy: Policy):
    template = template_of("SELECT COUNT(*) FROM staff WHERE age > 1-$1 AND dept=$2", policy)
    bound = template.bound([-5, "' OR 1=1 --"])
    assert bound.text.endswith("age > 1- -5  AND dept= ''' OR 1=1 --' ")


@pytest.mark.parametrize("value", [b"x", [1], float("nan"), Decimal("Infinity")])
def test_what_is_no_literal_is_refused_at_its_mark(policy: Policy, value: object):
    with pytest.raises(Refused) as refused:
        template_of("SELECT 1 + $1", policy).bound([value])
    assert refused.value.fault.code == "DPQ805"
    assert refused.value.at == 11


def test_marks_have_a_limit(policy: Policy):
    for text in ("SELECT $0", "SELECT $1001"):
        with pytest.raises(Refused, match="a parameter is one of"):
            template_of(text, policy)


def test_long_texts_take_no_long_time(policy: Policy, tmp_path: Path):
    text = "SELECT " + ", ".join(f"(x{n}, $1)" for n in range(900)) + " FROM staff"
    assert len(template_of(text, policy).marks) == 900
    for hostile in ("SET a = " + "x " * 20_000 + "y", "COPY (" + ") TO " * 9000, "/*" * 30_000):
        with suppress(Refused):
            read(hostile)
