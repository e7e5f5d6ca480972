"""DuckDB: the private engine that scans, and the public one that finishes."""

from __future__ import annotations

from dpquery.engine.base import Engine, FaultLog, PublicRows
from dpquery.engine.duckdb.private_engine import DuckDBEngine
from dpquery.engine.duckdb.public_engine import PublicEngine
from dpquery.engine.file_checks import Watch
from dpquery.policy.model import Policy

__all__ = ["DuckDBEngine", "PublicEngine", "start"]


def start(
    policy: Policy, log: FaultLog, public: PublicRows, secret: str, watch: Watch
) -> Engine:
    """Make the private engine of a session; it opens no file yet."""
    return DuckDBEngine(policy, log, public, secret=secret, watch=watch)
