"""A session on a server gives what a session of one's own gives, and says what went wrong."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy
import pytest

import dpquery
from dpquery.answer import Answer
from dpquery.client import server_connection
from dpquery.client.remote import AnySession, RemoteSession
from dpquery.errors import DPQueryError, PolicyInvalid, ScanFailed, ServerUnusable
from dpquery.server.postgres import settings
from tests.corpus.runs import REFUSED
from tests.interface.conftest import samples_of
from tests.interface.door import PASSWORD, Door
from tests.ledger.server import PostgresServer
from tests.shell.slow import slow_policy
from tests.shell.test_interrupt import QUERY as SLOW
from tests.shell.test_interrupt import charges

COUNT = "SELECT DP_COUNT(*, eps=0.25) AS n FROM staff"


@pytest.fixture(autouse=True)
def _whole(door: Door) -> Iterator[None]:
    """Undo what a test does to the server."""
    yield
    door.service.breaks, door.service.body, door.service.deaf = "", None, False


@pytest.fixture
def far(door: Door) -> Iterator[RemoteSession]:
    with dpquery.connect(door.url) as session:
        assert isinstance(session, RemoteSession)
        yield session


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dpquery.Session]:
    with dpquery.connect(samples_of(tmp_path_factory.mktemp("own") / "data")) as session:
        yield session


def refused(session: AnySession, text: object, **given: object) -> DPQueryError:
    with pytest.raises(DPQueryError) as caught:
        session.sql(text, **given)  # type: ignore[arg-type]
    return caught.value


def kind(answer: Answer) -> list[object]:
    """Return what of an answer is no noise."""
    about = [answer.table.schema, answer.loss, answer.notes, answer.guarantee, answer.cut]
    widths = [
        {None if one is None else one[1] - one[0] for one in answer.interval(name, "0.9")}
        for name in answer.columns
        if name in {"n", "dept"}
    ]
    return [*about, answer.budget, widths, len(answer)]


# Answers.


QUERIES = [
    COUNT,
    COUNT,  # a repeat costs nothing
    f"REFRESH {COUNT}",
    "SELECT dept, DP_COUNT(*, eps=0.5) AS n, DP_SUM(salary, eps=0.5) FROM staff GROUP BY dept",
    "SELECT DP_QUANTILE(salary, [0.25, 0.5], eps=1) AS q FROM staff",
    "WITH v AS (SELECT dept, DP_COUNT(*, eps=1) AS c FROM staff GROUP BY dept) "
    "SELECT COUNT(*) AS n, MAX(c) FROM v",
    "SHOW TABLES",
    "DESCRIBE staff",
    "SHOW FUNCTIONS",
    "SHOW BUDGET",
    f"EXPLAIN {COUNT}",
    "SET dp.eps = 0.125",
    "SELECT AVG(salary) AS pay FROM staff",
    "CREATE TEMP VIEW young AS SELECT * FROM staff WHERE age < 40",
    "SELECT COUNT(*) AS n FROM young",
    "DESCRIBE young",
    "DROP VIEW young",
    "RESET dp.eps",
    "SELECT 1 AS one",
]


def test_statements_are_answered_alike(near: dpquery.Session, door: Door):
    with dpquery.connect(door.url) as far:
        for text in QUERIES:
            here, there = near.sql(text), far.sql(text)
            assert kind(there) == kind(here), text
            if here.loss == dpquery.Loss(Fraction(0)) and "DP_COUNT" not in text:
                assert str(there) == str(here)
        assert far.budget == near.budget
        assert [row[1:4] for row in far.ledger()] == [row[1:4] for row in near.ledger()]


@pytest.mark.parametrize(
    "number", [0.1, "0.1", Decimal("0.1"), Fraction(1, 3), 1, "1e-3"], ids=repr
)
def test_numbers_arrive_exactly(far: RemoteSession, number: object):
    exact = number if isinstance(number, Fraction) else Fraction(str(number))
    assert far.explain("SELECT COUNT(*) FROM visits", eps=number).charge.epsilon == exact


def test_what_else_is_asked_is_answered_alike(near: dpquery.Session, far: RemoteSession):
    assert far.analyst == near.analyst == "default"
    for session in (near, far):
        assert session.columns("SELECT dept, DP_COUNT(*, eps=1) AS n FROM staff GROUP BY dept")
    assert far.columns(COUNT) == near.columns(COUNT)
    assert str(far.explain(COUNT)) == str(near.explain(COUNT))
    assert far.losses(COUNT).rows == near.losses(COUNT).rows
    assert far.losses().columns == near.losses().columns
    assert far.tables().rows == near.tables().rows
    assert far.describe("staff").rows == near.describe("staff").rows


def test_queries_are_built_and_asked(far: RemoteSession):
    built = far.table("staff").where("age < 40").agg(n=dpquery.count(eps=0.1))
    assert built.explain().charge.epsilon == Fraction(1, 10)
    assert built.run(refresh=True).loss.epsilon == Fraction(1, 10)


def test_prices_are_foreseen_on_a_server(near: dpquery.Session, door: Door):
    with dpquery.connect(door.url) as far:
        script = ["SELECT DP_AVG(bonus, eps=0.3) FROM staff", COUNT, COUNT, "SHOW TABLES"]
        assert far.forecast(script).statements == near.forecast(script).statements
        assert far.forecast(script).budget == far.budget
        plan = far.plan(
            {"SELECT COUNT(*) FROM visits": 1, "SELECT AVG(age) FROM staff": 3}, 0.4
        )
        assert [one.eps for one in plan.questions] == ["0.1", "0.3"]


def test_the_dbapi_asks_a_server(door: Door):
    with dpquery.dbapi.connect(door.url) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT DP_COUNT(*, eps=?) AS n FROM staff WHERE dept = ?", (0.1, "eng"))
        assert cursor.description is not None
        assert cursor.description[0][:2] == ("n", "integer")
        assert cursor.fetchone() is not None
        with pytest.raises(connection.ProgrammingError, match="DPQ301"):
            cursor.execute("SELECT salary FROM staff")
    with pytest.raises(connection.InterfaceError, match="closed"):
        connection.cursor()
    with pytest.raises(connection.OperationalError, match="DPQ807"):
        dpquery.dbapi.connect("postgresql://alice@127.0.0.1:1/")


# Refusals.


def test_refusals_are_the_same_text_for_text(near: dpquery.Session, far: RemoteSession):
    views = ("CREATE", "DROP")  # of which sessions know
    texts = [case.query for case in REFUSED if not case.query.startswith(views)][::12]
    texts += [
        f"SELECT {'x, ' * 400_000}",
        f"SELECT '{'é' * 40_000}'",
        "?",
        "$1 :a",
        "\0",
        "\ud800 é 'x\\",
        "SELECT DP_COUNT(*, eps=999) FROM staff",
    ]
    for text in texts:
        here, there = refused(near, text), refused(far, text)
        assert (type(there), there.code, there.span) == (type(here), here.code, here.span)
        assert (there.sqlstate, there.exit_code) == (here.sqlstate, here.exit_code)
        assert unbalanced(str(there)) == unbalanced(str(here))


def unbalanced(text: str) -> str:
    """Leave out what either session has left: other tests ask them, too."""
    return re.sub(r"\d+(\.\d+)? (of 200 )?(is )?(left|spent).*|eps=[\d.]+", "", text)


def test_what_a_refusal_knows_arrives(far: RemoteSession):
    error = refused(far, "SELECT DP_COUNT(*, eps=999) FROM visits")
    assert isinstance(error, dpquery.BudgetRefused)
    assert error.asked == 999
    assert error.left == far.budget.left.epsilon


@pytest.mark.parametrize(
    "given",
    [
        {"eps": "much"},
        {"eps": [1]},
        {"eps": True},
        {"eps": 1, "delta": "x"},
        {"eps": float("nan")},
        {"eps": Decimal("1e99")},
        {"eps": Fraction(-1, 3)},
    ],
    ids=str,
)
def test_values_of_python_are_refused_alike(
    near: dpquery.Session, far: RemoteSession, given: dict[str, object]
):
    here, there = refused(near, COUNT, **given), refused(far, COUNT, **given)
    assert unbalanced(str(there)) == unbalanced(str(here))
    assert there.budget.startswith("unchanged; ")


def test_what_only_looks_like_a_number_is_refused(near: dpquery.Session, far: RemoteSession):
    number = numpy.float32(0.5)
    here, there = refused(near, COUNT, eps=number), refused(far, COUNT, eps=number)
    assert (there.code, there.diagnostic.title) == (here.code, here.diagnostic.title)


def test_what_is_no_text_is_refused_alike(near: dpquery.Session, far: RemoteSession):
    for call in ("sql", "table", "describe"):
        told = []
        for session in (near, far):
            with pytest.raises(DPQueryError) as caught:
                getattr(session, call)(5)
            told.append(unbalanced(str(caught.value)))
        assert told[0] == told[1]
    with pytest.raises(dpquery.NameRefused, match="stuff"):
        far.table("stuff")


def test_a_server_takes_no_streams(far: RemoteSession):
    with pytest.raises(PolicyInvalid, match="takes no streams of questions"):
        far.above_threshold(100, eps=0.1)


# Connecting.


@pytest.mark.parametrize(
    "given",
    [
        {"unit": "person_id"}, {"bounds": {"age": (0, 9)}}, {"ledger": "x.ledger"},
        {"epsilon": 1}, {"table": "staff"}, {"keys": {}}, {"neighbours": "substitute"},
    ],
    ids=str,
)  # fmt: skip
def test_what_a_server_decides_is_not_given(given: dict[str, object]):
    with pytest.raises(PolicyInvalid) as caught:
        dpquery.connect("postgresql://alice@127.0.0.1:1/", **given)
    assert str(caught.value) == (
        f"policy[DPQ608]: {next(iter(given))}= cannot be given to a server\n"
        "   why: policy, limits and ledger are the server's; a session there asks under them.\n"
        "   try: leave it out"
    )


def test_a_password_is_for_servers(tmp_path: Path):
    with pytest.raises(PolicyInvalid, match="password= is for a server"):
        dpquery.connect(tmp_path / "policy.toml", password="x")


def test_who_asks_is_who_logs_in(door: Door):
    nameless = f"postgres://127.0.0.1:{door.port}/"
    with dpquery.connect(nameless, analyst="default", password=PASSWORD) as session:
        assert session.analyst == "default"
    with dpquery.connect(door.url, analyst="default") as session:
        assert session.analyst == "default"
    with pytest.raises(PolicyInvalid, match="analyst= is not who logs in"):
        dpquery.connect(door.url, analyst="eve")


def unusable(url: str, **given: object) -> ServerUnusable:
    with pytest.raises(ServerUnusable) as caught:
        dpquery.connect(url, **given)
    assert caught.value.exit_code == 2
    assert PASSWORD not in str(caught.value)
    return caught.value


def test_a_password_comes_from_where_libpq_looks(
    door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    file = tmp_path / "pgpass"
    file.write_text(f"127.0.0.1:{door.port}:*:default:{PASSWORD}\n")
    file.chmod(0o600)
    for name, value in {"PGPASSWORD": PASSWORD, "PGPASSFILE": str(file)}.items():
        with monkeypatch.context() as patched:
            patched.setenv(name, value)
            dpquery.connect(door.open_url).close()
    error = unusable(door.open_url)
    assert (error.code, error.sqlstate) == ("DPQ808", "28P01")
    assert f"the server at 127.0.0.1:{door.port} asks default for a password" in str(error)


def test_a_wrong_password_is_refused_like_a_name_that_nobody_has(door: Door):
    told = [
        str(unusable(f"postgresql://{who}@127.0.0.1:{door.port}/", password="guess"))
        for who in ("default", "mallory")
    ]
    assert told[0].replace("default", "mallory") == told[1]
    assert told[0].startswith(f"failed[DPQ809]: the server at 127.0.0.1:{door.port} does not")


def test_where_nobody_listens_the_reason_is_told():
    error = unusable("postgresql://alice@127.0.0.1:1/")
    assert (error.code, error.sqlstate) == ("DPQ807", "08001")
    assert "there is no connection to 127.0.0.1:1\n   why: " in str(error)
    assert "refused" in str(error)


@pytest.mark.parametrize("url", ["postgresql://a:b c@h:x/", "postgresql://a:secret@[h/"])
def test_a_url_that_cannot_be_read_is_not_repeated(url: str):
    with pytest.raises(DPQueryError) as caught:
        dpquery.connect(url)
    assert "secret" not in str(caught.value)


def test_a_server_of_another_version_is_named(door: Door, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(settings._FIXED, "server_version", "15.0 (dpquery 9.9.9)")
    error = unusable(door.url)
    assert error.code == "DPQ810"
    assert f"has dpquery 9.9.9, and this is {dpquery.__version__}" in str(error)
    assert "try: pip install 'dpquery[postgres]==9.9.9'" in str(error)


def test_a_server_that_speaks_in_tongues_is_named(door: Door, far: RemoteSession):
    door.service.body = b"[1, 2"
    with pytest.raises(ServerUnusable, match="does not read"):
        far.sql(COUNT)


def test_a_postgresql_is_not_asked():
    server = PostgresServer()
    try:
        error = unusable(server.url)
    finally:
        server.stop()
    assert error.code == "DPQ810"
    assert "is not a server of dpquery" in str(error)
    assert "PostgreSQL 1" in str(error)


def test_without_the_driver_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    error = unusable("postgresql://alice@127.0.0.1/")
    assert error.code == "DPQ811"
    assert "try: pip install 'dpquery[postgres]'" in str(error)


# Connections that break.


def test_an_idle_connection_that_broke_is_made_again_as_it_was(door: Door, far: RemoteSession):
    far.sql("SET dp.eps = 0.0625")
    far.sql("CREATE TEMP VIEW gone AS SELECT * FROM staff")
    far.sql("DROP VIEW gone")
    far.sql("CREATE TEMP VIEW old AS SELECT * FROM staff WHERE age > 60")
    door.hang_up()
    assert far.sql("SELECT COUNT(*) AS n FROM old").loss.epsilon == Fraction(1, 16)
    with pytest.raises(dpquery.NameRefused):
        far.sql("SELECT COUNT(*) AS n FROM gone")


@pytest.mark.parametrize(("when", "charged"), [("before", 0), ("after", 1)])
def test_a_statement_that_was_under_way_is_not_sent_again(
    door: Door, far: RemoteSession, when: str, charged: int
):
    before = len(far.ledger())
    door.service.calls.clear()
    door.service.breaks = when
    error = refused(far, COUNT, refresh=True)
    assert isinstance(error, ScanFailed)
    assert (error.code, error.sqlstate, error.exit_code) == ("DPQ703", "08006", 4)
    assert "the connection to the server broke off" in str(error)
    assert "try: SHOW LEDGER" in str(error)
    assert door.service.calls == ["sql"]
    assert len(far.sql("SHOW LEDGER")) == before + charged


def test_what_costs_nothing_says_so_when_it_breaks(door: Door, far: RemoteSession):
    door.service.breaks = "after"
    with pytest.raises(ServerUnusable, match="nothing was charged"):
        far.tables()
    assert far.tables().rows


def test_a_server_that_is_away_is_said_and_found_again(door: Door, far: RemoteSession):
    port = door.port
    door.away()
    for _ in range(2):
        assert refused(far, COUNT).code == "DPQ807"
    door.listen(port)
    assert far.sql("SHOW TABLES").rows


# Ctrl-C.


@contextlib.contextmanager
def ctrl_c(when: object, times: int = 1) -> Iterator[None]:
    """Press it once something holds."""

    def press() -> None:
        until = time.monotonic() + 20
        while not when() and time.monotonic() < until:  # type: ignore[operator]
            time.sleep(0.02)
        for _ in range(times):
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGINT)

    pressing = threading.Thread(target=press)
    pressing.start()
    try:
        yield
    finally:
        pressing.join()


def test_ctrl_c_stops_the_server_which_says_what_stays_spent(tmp_path: Path):
    policy = slow_policy(tmp_path / "slow")
    door = Door(policy)
    try:
        with dpquery.connect(door.url) as session:
            began = time.monotonic()
            with (
                pytest.raises(KeyboardInterrupt) as stop,
                ctrl_c(lambda: charges(policy)),
            ):
                session.sql(SLOW)
            assert time.monotonic() - began < 15
            kept = "(a charge is never returned once reading has begun)"
            assert str(stop.value) == f"stopped; 0.5 spent; 1.5 of 2 left {kept}"
            assert session.budget.left.epsilon == Fraction(3, 2)
    finally:
        door.close()


@pytest.mark.parametrize("times", [1, 2])
def test_a_server_that_does_not_stop_is_left(
    door: Door, monkeypatch: pytest.MonkeyPatch, times: int
):
    monkeypatch.setattr(server_connection, "GRACE", 0.2 if times == 1 else 60)
    door.service.deaf = True
    door.service.calls.clear()
    with dpquery.connect(door.url) as session:
        with (
            pytest.raises(KeyboardInterrupt, match="has not said what was spent: SHOW LEDGER"),
            ctrl_c(lambda: door.service.calls, times),
        ):
            session.sql(COUNT)
        door.service.deaf = False
        assert session.sql("SHOW TABLES").rows


def test_ctrl_c_that_comes_too_late_says_what_was_spent(
    door: Door, far: RemoteSession, monkeypatch: pytest.MonkeyPatch
):
    real = server_connection.Link._result
    pressed: list[bool] = []

    def late(
        self: server_connection.Link, pgconn: object, seconds: float | None = None
    ) -> object:
        if not pressed:
            pressed.append(True)
            time.sleep(1)
            raise KeyboardInterrupt
        return real(self, pgconn, seconds)  # type: ignore[arg-type]

    monkeypatch.setattr(server_connection.Link, "_result", late)
    with pytest.raises(KeyboardInterrupt) as stop:
        far.sql("SELECT 1 AS one")
    assert str(stop.value).startswith("stopped too late; 0 spent; ")


# One process, one thread at a time.


def test_a_session_that_is_closed_asks_no_more(door: Door):
    session = dpquery.connect(door.url)
    session.close()
    session.close()
    for asked in (lambda: session.sql(COUNT), lambda: session.budget, session.tables):
        with pytest.raises(dpquery.SessionUnusable, match="the session is closed"):
            asked()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_session_belongs_to_its_process(far: RemoteSession):
    child = os.fork()
    if child == 0:
        try:
            far.sql("SHOW TABLES")
        except dpquery.SessionUnusable as error:
            far.close()
            os._exit(7 if "another process" in str(error) else 1)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert far.sql("SHOW TABLES").rows


def test_threads_take_turns(far: RemoteSession):
    told: list[Answer] = []
    threads = [
        threading.Thread(target=lambda: told.append(far.sql("SHOW TABLES"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({str(answer) for answer in told}) == 1
    assert len(told) == 8
