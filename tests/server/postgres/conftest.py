"""One server for the tests that need nothing special of theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server.postgres.served import Served, served


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served")) as running:
        yield running
