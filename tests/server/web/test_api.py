"""The calls of the page: who may make them, what they tell, and what they cost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

from dpquery.answer import Answer
from dpquery.core.privacy_loss import NO_LOSS
from dpquery.server import service as logins
from dpquery.server.owner_calls import ORDERS
from dpquery.server.web.api import MOST_BYTES
from dpquery.server.web.page_data import FORMS
from dpquery.server.worker_messages import OWNER_CALLS, Fault, Reply
from dpquery.server.worker_pool import FAILED
from tests.server.web.serving import OURS, Asking, Served, policy_of_three, served

COUNTS = "SELECT dept, DP_COUNT(*, eps=0.25) AS n FROM staff GROUP BY dept"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(policy_of_three(tmp_path_factory.mktemp("page"))) as server:
        yield server


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(logins, "PAUSE", 0.01)


def form(told: Any) -> Any:
    return told["form"]


# Who may make calls.


def test_nobody_is_told_anything_without_a_login(server: Served):
    for call in ("me", "ask", "schema", "budget", "stop", "logout", "overview", "nothing"):
        assert server.client().call(call) == (401, {"error": "log in first"})
    assert server.client("alice").call("nothing")[0] == 404


def test_a_wrong_password_and_a_name_that_nobody_has_are_told_alike(server: Served, quick):
    refused = 401, {"error": "no user has this name and password"}
    for name, password in (("alice", "wrong-one"), ("nobody", "alice-password"), ("", "x")):
        asking = server.client()
        assert asking.log_in(name, password) == refused
        assert asking.cookie == ""


def test_a_wrong_password_is_told_slowly(server: Served, monkeypatch):
    waits = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(logins.asyncio, "sleep", wait)
    assert server.client().log_in("bob", "wrong-one")[0] == 401
    assert logins.PAUSE in waits


def test_many_wrong_passwords_lock_a_name(server: Served, quick):
    for _ in range(logins.MOST_WRONG):
        assert server.client().log_in("mallory", "wrong-one")[0] == 401
    status, told = server.client().log_in("mallory", "wrong-one")
    assert (status, told) == (429, {"error": "too many wrong passwords: wait a minute"})


def test_the_cookie_is_for_this_page_alone(server: Served):
    asking = server.client("alice")
    parts = {part.strip().lower() for part in asking.set_cookie.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/"} <= parts
    assert len(asking.cookie) > 40


def test_a_logout_ends_the_login_for_everybody_who_has_its_secret(server: Served):
    asking = server.client("alice")
    copy = Asking(server.port, cookie=asking.cookie)
    assert copy.told("me")["name"] == "alice"
    asking.told("logout")
    assert copy.call("me")[0] == 401


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "application/json"},
        {**OURS, "sec-fetch-site": "cross-site"},
        {**OURS, "sec-fetch-site": "same-site"},
    ],
)
def test_no_other_site_gives_orders(server: Served, headers: dict[str, str]):
    asking = server.client("olga")
    status, told = asking.send("POST", "/api/freeze", b"{}", headers)
    assert (status, told) == (403, {"error": "this is for the server's own page"})
    assert not form(asking.told("overview"))["frozen"]


def test_calls_are_posts(server: Served):
    assert server.client("olga").send("GET", "/api/freeze", None, OURS)[0] == 405


# What analysts are told.


def test_a_price_costs_nothing(server: Served):
    asking = server.client("alice")
    before = asking.told("budget")
    told = asking.told("price", text=COUNTS)
    assert told["ended"] == "answered"
    assert (form(told)["charge"], form(told)["free"]) == ("0.25", False)
    assert form(told)["steps"][0]["error"] == "± 12"
    assert asking.told("budget") == before
    assert asking.told("history")["now"] == []


def test_an_answer_is_told_as_the_shell_shows_it_and_its_repeat_is_free(server: Served):
    asking = server.client("bob")
    first = form(asking.told("ask", text=COUNTS))
    key, count = first["columns"]
    assert (key["name"], key["kind"], key["cells"][0]) == ("dept", "text", "eng")
    assert (count["name"], count["kind"], count["margin"]) == ("n", "number", "95% within")
    assert count["margins"] == ["± 12"] * 5
    for value, low, high in zip(count["values"], count["low"], count["high"], strict=True):
        assert (value - low, high - value) == (12, 12)
    assert (first["loss"], first["free"], first["budget"]) == ("0.25", False, "2.75 of 3 left")
    assert form(asking.told("price", text=COUNTS))["free"]
    again = form(asking.told("ask", text=COUNTS))
    assert again["columns"] == first["columns"]
    assert (again["loss"], again["free"]) == ("0", True)
    anew = form(asking.told("ask", text=COUNTS, refresh=True))
    assert (anew["loss"], anew["budget"]) == ("0.25", "2.5 of 3 left")
    assert form(asking.told("budget"))["left"] == "2.5"
    said = [(line["loss"], line["free"]) for line in asking.told("history")["now"]]
    assert said == [("0.25", False), ("0", True), ("0.25", False)]
    later = server.client("bob").told("history")
    assert [line["loss"] for line in later["earlier"]] == ["0.25", "0.25"]
    assert later["now"] == []


@pytest.mark.parametrize(("rows", "columns"), [(2000, 1), (2500, 1), (2500, 20)])
def test_an_answer_of_many_rows_says_how_many_are_left_out(rows: int, columns: int):
    cells = pa.array(range(rows))
    table = pa.table([cells] * columns, [f"c{number}" for number in range(columns)])
    told = json.loads(FORMS["page"](Answer(table, NO_LOSS)))
    most = {1: 2000, 20: 1000}[columns]
    assert (told["rows"], told["left_out"]) == (min(rows, most), max(0, rows - most))
    assert {len(column["cells"]) for column in told["columns"]} == {told["rows"]}


def test_the_numbers_of_a_list_are_told_to_be_drawn():
    table = pa.table({"bins": [[3, None, 5]], "names": [["a", "b", "c"]], "n": [7]})
    bins, names, n = json.loads(FORMS["page"](Answer(table, NO_LOSS)))["columns"]
    assert bins["list"] == [3.0, None, 5.0]
    assert names["list"] == [None] * 3  # of which the page draws nothing
    assert "list" not in n


def test_dates_and_public_numbers_are_told_by_kind(server: Served):
    asking = server.client("alice")
    query = "SELECT region, inhabitants, DATE '2025-01-01' AS d FROM regions"
    region, inhabitants, day = form(asking.told("ask", text=query))["columns"]
    assert [one["kind"] for one in (region, inhabitants, day)] == ["text", "number", "time"]
    assert "margins" not in inhabitants
    assert all(isinstance(value, float) for value in inhabitants["values"])


def test_a_refusal_has_its_caret_and_what_can_be_typed(server: Served):
    query = "SELECT DP_SUM(salry, eps=1) AS s FROM staff"
    for call in ("price", "ask"):
        told = server.client("alice").told(call, text=query)
        assert told["ended"] == "refused"
        refused = form(told)
        assert refused["code"] == "DPQ204"
        assert refused["caret"].splitlines()[2].startswith("  |               ^^^^^ ")
        assert refused["span"] == [14, 19]
        assert refused["try"][0] == {"text": "salary", "kind": "fragment"}
        assert refused["try"][1]["kind"] == "advice"


@pytest.mark.parametrize(
    ("query", "mended"),
    [
        ("SELECT DP_AVG(salry, eps=1) FROM staff", "SELECT DP_AVG(salary, eps=1) FROM staff"),
        (
            "SELECT DP_COUNT(*, eps=99) FROM staff",
            "SELECT  DP_COUNT(*, eps=5)  FROM staff",
        ),
    ],
)
def test_what_is_offered_finds_its_place(server: Served, query: str, mended: str):
    asking = server.client("alice")
    refused = form(asking.told("ask", text=query))
    offered = refused["try"][0]["text"]
    told = asking.told("paste", text=query, offered=offered, span=refused["span"])
    assert told == {"text": mended}


@pytest.mark.parametrize("span", [None, [3], [9, 2], ["a", "b"], [0, 99]])
def test_a_place_is_a_stretch_of_the_text(server: Served, span: object):
    asking = server.client("alice")
    assert asking.call("paste", text="SELECT 1", offered="2", span=span)[0] == 400


def test_a_statement_epsilon_is_kept_by_the_session(server: Served):
    asking = server.client("alice")
    assert asking.told("me")["eps"] == ""
    plain = "SELECT COUNT(*) FROM staff"
    assert asking.told("price", text=plain)["ended"] == "refused"
    asking.told("ask", text="SET dp.eps = 0.125")
    assert asking.told("me")["eps"] == "0.125"
    assert form(asking.told("price", text=plain))["charge"] == "0.125"
    assert server.client("alice").told("me")["eps"] == ""
    asking.told("ask", text="RESET dp.eps")
    assert asking.told("me")["eps"] == ""


def test_completion_knows_tables_columns_and_views(server: Served):
    asking = server.client("alice")

    def offered(before: str, after: str = "") -> list[str]:
        return [one["text"] for one in asking.told("complete", before=before, after=after)]

    assert offered("SELECT dept, DP_COUNT_I") == ["DP_COUNT_IF("]
    assert offered("SELECT DP_SUM(sal", " FROM staff") == ["salary"]
    assert offered("SELECT 1 FROM vis") == ["visits"]
    assert offered("sel") == ["select"]
    found = asking.told("complete", before="SELECT 'ü', DP_SUM(sal", after=" FROM staff")
    assert found == [{"text": "salary", "typed": "sal", "note": "integer"}]
    asking.told("ask", text="CREATE TEMP VIEW veterans AS SELECT * FROM staff WHERE age > 50")
    assert offered("SELECT 1 FROM vet") == ["veterans"]
    assert offered("x" * 30_000) == []


def test_the_tables_are_those_of_the_policy(server: Served):
    staff, *_ = server.client("alice").told("schema")
    assert (staff["table"], staff["unit"]) == ("staff", "person_id")
    dept = next(column for column in staff["columns"] if column["column"] == "dept")
    assert dept["keys"].startswith("'eng', 'hr'")


# What only owners are told.


def test_calls_of_owners_are_refused_to_analysts(server: Served):
    assert set(ORDERS) == OWNER_CALLS
    asking = server.client("alice")
    for call in sorted(OWNER_CALLS):
        told = asking.told(call, analyst="alice", epsilon="1")
        assert told["ended"] == "refused"
        assert form(told)["title"] == "this is for the data owner alone"
    assert form(server.client("olga").told("overview"))["version"] == 0


def test_an_owner_who_is_no_analyst_asks_no_data(server: Served):
    asking = server.client("olga")
    assert not asking.told("me")["analyst"]
    for call in ("ask", "price"):
        told = asking.told(call, text="SHOW TABLES")
        assert told["ended"] == "refused"
        assert "asks no data" in form(told)["title"]
    both = server.client("bella")
    assert form(both.told("ask", text="SHOW TABLES"))["rows"] == 3
    assert form(both.told("overview"))["version"] == 0


def test_an_overview_says_who_spent_what_on_which_table(tmp_path: Path, server: Served):
    analyst = server.client("bella")
    analyst.told("ask", text="SELECT DP_COUNT(*, eps=0.5) FROM visits")
    owner = server.client("olga")
    told = form(owner.told("overview"))
    whole, *each = told["budgets"]
    assert whole["limit"] == "20"
    bella = next(one for one in each if one["name"] == "bella")
    assert (bella["spent"], bella["left"], bella["share"]) == ("0.5", "0.5", 0.5)
    assert (bella["per_day"], bella["days_left"]) == (0.5, 1.0)
    expected = {"analyst": "bella", "table": "visits", "epsilon": "0.5", "charges": 1}
    assert expected in told["tables"]
    assert told["days"][-1]["analysts"]["bella"] == 0.5
    assert told["asked"][0]["query"] == "SELECT DP_COUNT(*, eps=0.5) FROM visits"


def test_faults_are_told_by_reference_alone(server: Served):
    log = server.service.policy.ledger.faults
    assert log is not None
    line = {"reference": "00c0ffee", "at": "2026-01-01T00:00:00+00:00", "fault": "canary 4711"}
    hostile = {"reference": "<b>canary</b>", "at": "canary", "fault": "canary"}
    log.write_text(f"{json.dumps(line)}\n{json.dumps(hostile)}\ncanary\n[]\n{{}}\n", "utf-8")
    told = server.client("olga").told("overview")
    expected = {"reference": "00c0ffee", "at": "2026-01-01T00:00:00+00:00"}
    assert form(told)["faults"] == [expected]
    assert "canary" not in json.dumps(told)


def test_orders_hold_from_the_next_statement_on(server: Served):
    owner, analyst = server.client("olga"), server.client("alice")
    query = "SELECT DP_COUNT(*, eps=0.01) FROM staff"
    assert (
        "may spend 5.5 in all"
        in form(owner.told("grant", analyst="alice", epsilon="0.5"))["said"]
    )
    assert form(analyst.told("budget"))["limit"] == "5.5"
    owner.told("freeze")
    refused = analyst.told("ask", text=query)
    assert (refused["ended"], form(refused)["code"]) == ("refused", "DPQ504")
    assert form(owner.told("overview"))["frozen"]
    owner.told("thaw")
    assert analyst.told("ask", text=query)["ended"] == "answered"
    assert form(analyst.told("ask", text=query))["free"]
    owner.told("publish")
    assert not form(analyst.told("ask", text=query))["free"]
    orders = [line["query"] for line in form(owner.told("overview"))["asked"] if line["order"]]
    assert orders == ["-- published", "-- thawed", "-- frozen", "-- granted 0.5"]


def test_an_order_that_is_not_understood_is_not_done(server: Served):
    """Who freezes one analyst, as nobody can, has not frozen all of them."""
    owner = server.client("olga")
    told = owner.told("freeze", analyst="bob")
    assert told["ended"] == "refused"
    assert form(told)["title"] == "freeze takes no 'analyst'"
    assert not form(owner.told("overview"))["frozen"]
    for call, given in {"grant": {"eps": 1}, "publish": {"a": 1}, "thaw": {"who": "b"}}.items():
        assert owner.told(call, **given)["ended"] == "refused"
    owner.told("freeze")
    refused = form(
        server.client("bob").told("ask", text="SELECT DP_COUNT(*, eps=0.1) FROM staff")
    )
    advice = {"text": "ask the data owner when it will be thawed", "kind": "advice"}
    assert refused["try"] == [advice], "nothing to be pasted into the statement"
    owner.told("thaw")


@pytest.mark.parametrize(
    ("given", "title"),
    [
        ({"analyst": "mallory", "epsilon": "1"}, "the policy lists no analyst 'mallory'"),
        ({"analyst": "bob", "epsilon": "much"}, "an amount is a number above 0, not 'much'"),
        ({"analyst": "bob", "epsilon": "0"}, "an amount is a number above 0, not '0'"),
        ({"analyst": ["bob"], "epsilon": None}, "the policy lists no analyst a list"),
        ({"analyst": "bob", "epsilon": "1e9"}, None),
    ],
)
def test_what_cannot_be_granted_is_refused(server: Served, given: Any, title: str | None):
    told = server.client("olga").told("grant", **given)
    assert told["ended"] == "refused"
    assert title is None or form(told)["title"] == title


# Limits.


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"x" * (MOST_BYTES + 1), 413),
        (b"{", 400),
        (b"[]", 400),
        (b'"text"', 400),
        (b"\xff\xfe", 400),
        (b'{"text": "\\ud800"}', 400),
        (b"[" * 50_000, 400),
        (b'{"text": 7}', 400),
        (b"{}", 400),
        (b'{"text": null, "refresh": true}', 400),
    ],
)
def test_what_is_no_call_is_refused(server: Served, body: bytes, status: int):
    asking = server.client("alice")
    assert asking.send("POST", "/api/ask", body, OURS)[0] == status
    assert asking.told("me")["name"] == "alice"


def test_statements_wait_for_each_other_and_can_be_stopped(server: Served, monkeypatch):
    asked = server.service.ask
    begun = asyncio.Event()

    async def slow(client: Any, do: str, *given: Any, **options: Any) -> Reply:
        if do != "sql":
            return await asked(client, do, *given, **options)
        begun.set()
        await options["ticket"].stopped.wait()
        return Reply("stopped", fault=Fault("", "57014", "stopped; it stays charged", ""))

    monkeypatch.setattr(server.service, "ask", slow)
    asking = server.client("alice")
    copy = Asking(server.port, cookie=asking.cookie)
    ended: list[Any] = []
    thread = Thread(target=lambda: ended.append(asking.told("ask", text=COUNTS)))
    thread.start()
    server.run(begun.wait())
    assert copy.told("me")["running"]
    assert copy.call("ask", text=COUNTS)[0] == 409
    copy.told("stop")
    thread.join()
    assert ended[0]["ended"] == "stopped"
    assert form(ended[0])["title"] == "stopped; it stays charged"
    assert not copy.told("me")["running"]


def test_a_worker_that_ended_is_one_constant_failure(server: Served, monkeypatch):
    async def failed(*_: Any, **__: Any) -> Reply:
        return FAILED

    asking = server.client("alice")
    monkeypatch.setattr(server.service, "ask", failed)
    told = asking.told("ask", text=COUNTS)
    assert (told["ended"], form(told)["code"]) == ("refused", "DPQ701")
    assert form(told)["try"] == [{"text": "SHOW LEDGER", "kind": "statement"}]


def test_a_mistake_of_ours_is_told_by_nothing_but_its_kind(server: Served, monkeypatch):
    async def broken(*_: Any, **__: Any) -> Reply:
        raise KeyError("canary 4711")

    asking = server.client("alice")
    monkeypatch.setattr(server.service, "ask", broken)
    assert asking.call("budget") == (500, {"error": "the server made a mistake"})
    assert any('"KeyError"' in line for line in server.lines)
    assert not any("canary" in line for line in server.lines)


def test_the_log_has_names_and_no_statements(server: Served):
    server.client("alice").told("ask", text="SELECT DP_COUNT(*, eps=1) FROM canary")
    assert any('"do": "sql"' in line for line in server.lines)
    assert not any("canary" in line or "DP_COUNT" in line for line in server.lines)
