"""The oracle: a second engine in plain Python, row by row, with nothing clever in it.

It computes what the query tree means and never sees the SQL of the product's engine. Where both
give the same integers, neither has leaned on a default of its tools. `tests/conftest.py` adds
it to the engines, as `python`.
"""

from __future__ import annotations

from dpquery.engine.base import Engine, FaultLog, PublicRows
from dpquery.engine.file_checks import Watch
from dpquery.policy.model import Policy
from tests.oracle.engine import PythonEngine

__all__ = ["PythonEngine", "start"]


def start(
    policy: Policy, log: FaultLog, public: PublicRows, secret: str, watch: Watch
) -> Engine:
    """Make the private engine of a session; it opens no file yet."""
    return PythonEngine(policy, log, public, secret=secret, watch=watch)
