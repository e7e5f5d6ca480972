"""A place where the questions of a set are asked: of dpquery, and of DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb

from dpquery.answer import Answer
from dpquery.database import Database
from dpquery.policy.load import load_policy
from tests.corpus import runs
from tests.corpus.benchmarks.questions import Question
from tests.corpus.benchmarks.sets import QuestionSet

EPSILON, DELTA = 10**9, 1e-6
"""Of a statement: noise is then far below what two numbers may differ by."""


@dataclass(frozen=True)
class Place:
    """The tables of a set, for those who may see them and for those who may not."""

    database: duckdb.DuckDBPyConnection
    ours: Database

    def ask(self, question: Question) -> Answer:
        """Ask under a large epsilon and a new ledger, in memory."""
        return runs.anew(self.ours).sql(question.sql, eps=EPSILON, delta=DELTA)

    def exact(self, sql: str) -> list[tuple]:
        return self.database.sql(sql).fetchall()


@contextmanager
def opened(found: QuestionSet, folder: Path) -> Iterator[Place]:
    """Write the tables of a set."""
    found.write(folder)
    policy = folder / "policy.toml"
    policy.write_text((found.folder / "policy.toml").read_text("utf-8"), "utf-8")
    with duckdb.connect() as database:
        for table in load_policy(policy).tables.values():
            database.execute(
                f"CREATE VIEW {table.name} AS FROM '{folder / table.name}.parquet'"
            )
        with closing(Database(runs.policy_at(policy))) as ours:
            yield Place(database, ours)
