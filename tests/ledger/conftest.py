"""Where ledgers stand: the tests of this directory hold for each place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ledger.helpers import OPENED, Place
from tests.ledger.server import PostgresServer


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close what a test that fails leaves open, a connection to a server above all.

    psycopg warns of one that is collected while it is open, and a warning is an error: it would
    be that of the test which runs when the collector comes.
    """
    yield
    while OPENED:
        OPENED.pop().close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for all tests of a process; without one they fail, they are not skipped."""
    server = PostgresServer()
    yield server
    server.stop()


@pytest.fixture(params=["file", "server"])
def place(request, tmp_path) -> Place:
    """Where no ledger is yet."""
    if request.param == "file":
        return tmp_path / "policy.ledger"
    return request.getfixturevalue("postgres").new()
