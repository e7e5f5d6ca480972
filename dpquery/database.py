"""The tables of one policy, opened: what the sessions of a process share."""

from __future__ import annotations

import threading

from dpquery.budget.ledger.ledger import Ledger, open_ledger
from dpquery.cache.table_identity import promise_of
from dpquery.engine import open_engine
from dpquery.engine.base import Engine, FaultLog
from dpquery.engine.duckdb.public_engine import PublicEngine
from dpquery.engine.file_checks import require_fit, watch_of
from dpquery.mechanisms.randomness import Randomness
from dpquery.policy.model import Policy
from dpquery.policy.practice_rows import made_up


class Database:
    """Engines, ledger and public tables of a policy; its sessions take turns.

    Raises:
        PolicyInvalid: DPQ6xx, a file or the ledger is not what the policy says.
    """

    def __init__(self, policy: Policy, *, engine: str = "duckdb") -> None:
        declared = any(table.single for table in policy.tables.values())
        own = not policy.published
        self.log = FaultLog(policy.ledger.faults, own=own, declared=declared)
        self.public = PublicEngine(policy)  # opens while files and ledger are looked at
        self.policy = policy = require_fit(policy, self.log)
        self.ledger: Ledger = open_ledger(policy.ledger, promise_of(policy))
        watch = watch_of(policy, self.ledger)
        self.engine: Engine = open_engine(
            engine, policy, self.log, self.public, self.ledger.secret, watch
        )
        self.randomness = Randomness()
        self.lock = threading.RLock()
        """Held by the session whose statement runs."""

    @classmethod
    def for_practice(cls, policy: Policy) -> Database:
        """Open the public tables of a policy, and rows that are made up in place of others."""
        public = PublicEngine(policy)
        try:
            return cls(made_up(policy, public))
        finally:
            public.close()

    def close(self) -> None:
        """Let go of engines and ledger; closing twice is fine."""
        self.engine.close()
        self.public.close()
        self.ledger.close()
