"""Every test of a backend runs on every backend; `--engine=NAME` picks one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpquery.engine import ENGINES
from tests.ledger.server import PostgresServer


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--engine", choices=sorted(ENGINES), help="test this backend only")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "engine" in metafunc.fixturenames:
        picked = metafunc.config.getoption("--engine", default=None)
        metafunc.parametrize("engine", [picked] if picked else sorted(ENGINES))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    made = PostgresServer()
    yield made.url
    made.stop()
