"""Backends: what reads private rows. One line each here; loaded when a session connects."""

from __future__ import annotations

from importlib import import_module

from dpquery.engine.base import Engine, FaultLog, NoPublicRows, PublicRows
from dpquery.policy.model import Policy

__all__ = ["ENGINES", "open_engine"]

ENGINES = {
    "duckdb": "dpquery.engine.duckdb",
    "python": "dpquery.engine.python",
}


def open_engine(
    name: str, policy: Policy, log: FaultLog, public: PublicRows | None = None
) -> Engine:
    """Start a backend by name; no private file is opened for reading yet."""
    engine: Engine = import_module(ENGINES[name]).start(policy, log, public or NoPublicRows())
    return engine
