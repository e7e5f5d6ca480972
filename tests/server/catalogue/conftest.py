from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dpquery.policy.load import load_policy
from dpquery.policy.model import Policy
from dpquery.server.catalogue.duckdb_catalogue import Twin
from dpquery.server.catalogue.policy_tables import ShownTable, shown_tables

ROOT = Path(__file__).parents[3]
Asked = Callable[..., list[tuple[Any, ...]]]


@pytest.fixture(scope="session")
def policy() -> Policy:
    return load_policy(ROOT / "datasets" / "policy.toml")


@pytest.fixture(scope="session")
def shown(policy: Policy) -> Sequence[ShownTable]:
    return shown_tables(policy)


@pytest.fixture(scope="session")
def twin(shown: Sequence[ShownTable]) -> Twin:
    return Twin(shown)


@pytest.fixture(scope="session")
def asked(twin: Twin) -> Asked:
    """Return the rows of a statement, asked by alice."""

    def ask(text: str, *values: object) -> list[tuple[Any, ...]]:
        table = twin.ask(text, (), values, "alice")
        columns = [column.to_pylist() for column in table.columns]
        return list(zip(*columns, strict=True))

    return ask
