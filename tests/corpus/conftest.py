"""`--update` writes the expectations of grammar/ again, before anything is compared."""

from __future__ import annotations

import pytest

from tests.corpus import cases


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite the expectations")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--update", default=False):
        cases.rewrite()
