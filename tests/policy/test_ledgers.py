"""`[ledger]` in a policy: a file or a server, and never a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpquery.errors import PolicyInvalid
from dpquery.policy.document import Unfit
from dpquery.policy.load import ledger_of_ones_own, load_policy
from dpquery.policy.model import LedgerSettings, Server
from tests.tasks import ROOT

REST = """
[budget]
epsilon = 1
[tables.people]
path = "people.parquet"
[tables.people.columns]
x = { type = "integer" }
"""


def ledger(place: Path, *lines: str) -> LedgerSettings:
    policy = place / "policy.toml"
    policy.write_text("\n".join(["[ledger]", *lines, REST]), "utf-8")
    (place / "people.parquet").touch()
    return load_policy(policy).ledger


def test_a_server_is_named_by_its_url_and_a_schema(tmp_path: Path):
    url = "postgresql://owner@db.example.org:5433/privacy?sslmode=verify-full"
    settings = ledger(tmp_path, f'url = "{url}"', 'high_water = "mark"')
    assert settings == LedgerSettings(
        None,
        tmp_path / "mark",
        Server(url, "dpquery"),
        tmp_path / "policy.ledger.faults",
    )
    assert settings.faults == tmp_path / "policy.ledger.faults"
    assert str(settings.server) == "postgresql://db.example.org:5433/privacy, schema dpquery"
    own = ledger(tmp_path, 'url = "postgres:///privacy?host=/run/postgresql"', 'schema = "a b"')
    assert own.server == Server("postgres:///privacy?host=/run/postgresql", "a b")


def test_the_page_on_servers_states_one(tmp_path: Path):
    page = (ROOT / "docs" / "ledgers.md").read_text("utf-8")
    (_, stated) = page.split("```toml\n[ledger]\n")
    settings = ledger(tmp_path, stated.split("```")[0])
    assert str(settings.server) == "postgresql://db.example.org/privacy, schema dpquery"
    assert settings.high_water == tmp_path / "ledger.mark"


DOUBTFUL = pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://owner:hunter2@host/db", "holds a password"),
        ("postgresql://owner:@host/db", "holds a password"),
        ("postgresql://host/db?password=hunter2", "holds a password"),
        ("postgresql://host/db?pass%77ord=hunter2", "holds a password"),
        ("mysql://host/hunter2", "is no URL of a server"),
        ("host=host dbname=db password=hunter2", "is no URL of a server"),
        ("postgresql://host:hunter2/db", "is no URL of a server"),
        ("postgresql://host:0/hunter2", "is no URL of a server"),
        ("postgresql://host/db?hunter2", "is no URL of a server"),
        ("postgresql://host/db#hunter2", "is no URL of a server"),
        ("postgresql://host/hunter2 x", "is no URL of a server"),
        ("postgresql://hunter2", "names no database"),
        ("postgresql://hunter2/", "names no database"),
        ("postgresql://host/db/hunter2", "names no database"),
        ("postgresql://one,hunter2/db", "names more than one server"),
        ("postgresql://one/db?host=hunter2", "names more than one server"),
        ("postgresql:///db?host=/a&host=/hunter2", "names more than one server"),
        ("postgresql://host/db?options=-c%20hunter2", "says more than how"),
        ("postgresql://host/db?service=hunter2", "says more than how"),
        ("postgresql:/hunter2", "is no URL of a server"),
        ("postgresql:hunter2", "is no URL of a server"),
        ("POSTGRESQL://host/hunter2", "is no URL of a server"),
        ("postgresql://owner:hunter2\\u0000@host/db", "is no URL of a server|holds a password"),
    ],
)


@DOUBTFUL
def test_a_doubtful_url_is_refused_and_not_quoted(tmp_path: Path, url: str, said: str):
    with pytest.raises(PolicyInvalid, match=said) as caught:
        ledger(tmp_path, f'url = "{url}"')
    assert (caught.value.code, caught.value.key, caught.value.line) == (
        "DPQ604",
        "ledger.url",
        2,
    )
    assert "hunter2" not in str(caught.value)


@DOUBTFUL
def test_a_doubtful_url_is_no_file_of_ones_own(url: str, said: str):
    with pytest.raises(Unfit, match=said) as caught:
        ledger_of_ones_own(url)
    assert "hunter2" not in str(caught.value)


def test_ones_own_ledger_is_a_file_a_server_or_in_memory(tmp_path: Path):
    url, file = "postgresql://owner@db.example.org/privacy", tmp_path / "http: my.ledger"
    assert ledger_of_ones_own(url) == LedgerSettings(None, None, Server(url, "dpquery"))
    assert ledger_of_ones_own(file) == ledger_of_ones_own(str(file)) == LedgerSettings(file)
    assert ledger_of_ones_own(None) == LedgerSettings(None)
    with pytest.raises(Unfit, match="is no path: 5"):
        ledger_of_ones_own(5)


@pytest.mark.parametrize(
    ("lines", "key", "code"),
    [
        (['path = "a"', 'url = "postgresql://host/db"'], "ledger.path", "DPQ607"),
        (['schema = "a"'], "ledger.schema", "DPQ607"),
        (['path = "a"', 'schema = "a"'], "ledger.path", "DPQ607"),
        (['url = "postgresql://host/db"', f'schema = "{"é" * 32}"'], "ledger.schema", "DPQ604"),
        (['url = "postgresql://host/db"', 'schema = "pg_catalog"'], "ledger.schema", "DPQ604"),
        (['url = "postgresql://host/db"', 'schema = ""'], "ledger.schema", "DPQ604"),
        (
            ['url = "postgresql://host/db"', 'high_water = "policy.toml"'],
            "ledger.high_water",
            "DPQ607",
        ),
    ],
)
def test_a_ledger_in_two_places_or_none_is_refused(
    tmp_path: Path, lines: list[str], key: str, code: str
):
    with pytest.raises(PolicyInvalid) as caught:
        ledger(tmp_path, *lines)
    assert (caught.value.key, caught.value.code) == (key, code)
