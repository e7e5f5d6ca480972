"""The engines that read private rows: one line each here, loaded when a session connects."""

from __future__ import annotations

from importlib import import_module

from dpquery.engine.base import Engine, FaultLog, NoPublicRows, PublicRows
from dpquery.engine.file_checks import Watch, unwatched
from dpquery.policy.model import Policy

__all__ = ["ENGINES", "open_engine"]

ENGINES = {"duckdb": "dpquery.engine.duckdb"}


def open_engine(
    name: str,
    policy: Policy,
    log: FaultLog,
    public: PublicRows | None = None,
    secret: str = "",
    watch: Watch = unwatched,
) -> Engine:
    """Return an engine, by name; no private file is opened for reading yet.

    Args:
        name: which one.
        policy: the tables that it reads.
        log: where faults are noted.
        public: where it gets public tables.
        secret: the key of the hashes by which rows of a unit are chosen.
        watch: holds files against the version of the data.
    """
    start = import_module(ENGINES[name]).start
    engine: Engine = start(policy, log, public or NoPublicRows(), secret, watch)
    return engine
