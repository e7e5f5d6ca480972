"""One server for the tests that need nothing special of theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpquery.server.postgres.connection import Limits
from tests.server.postgres.served import Served, served


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture(scope="package")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    limits = Limits(message=100_000, statements=5, portals=3, login=1.0, writing=0.5)
    with served(
        tmp_path_factory.mktemp("narrow"), limits=limits, lean=True, connections=20
    ) as running:
        yield running
