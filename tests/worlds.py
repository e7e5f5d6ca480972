"""Small private worlds: a Parquet table, its policy, and the exact integers of a query in it.

Tests alone may look at exact integers: they go from the text of a query to the engine through
the same stages as a session, with a ledger in memory and without the release.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from dpquery.budget.ledger.charge_and_receipt import Account, Ceilings, Receipt
from dpquery.budget.ledger.ledger import Ledger, open_ledger
from dpquery.core.privacy_loss import Ceiling, Loss, Neighbours
from dpquery.core.source_text import Source, Span
from dpquery.core.types import INTEGER, Type
from dpquery.engine import open_engine
from dpquery.engine.base import Engine, Exact, FaultLog
from dpquery.errors import QueryRefused
from dpquery.ir.measures import Histogram, Measure
from dpquery.ir.query import Above
from dpquery.plan.plan import FrontierPlan, Plan, make_plan
from dpquery.policy.model import (
    Column,
    Files,
    LedgerSettings,
    Policy,
    PolicyBudget,
    PublicFacts,
    Table,
)
from dpquery.sql.bigquery import respelled
from dpquery.sql.bind.scope import Member, Scope, column_ref
from dpquery.sql.binder import bind
from dpquery.sql.parse.parser import parse
from dpquery.sql.privacy_rules import check

MOST = Loss(Fraction(10**9), Fraction(1, 2))
LIMITS = Ceilings(Ceiling(MOST))
IN_EITHER = Ceilings(Ceiling(MOST, Fraction(1, 4), Fraction(10**9)))
"""For releases that were asked for in epsilon, or in rho."""
ALICE = Account("alice", "session of alice")
PRICE = Loss(Fraction(1), Fraction(1, 10**6))
"""What plain aggregates, and groups that are found without a price, share in one statement."""


class NoPublicTables:
    """The public facts of a policy whose tables are all private."""

    def columns(self, table: str) -> Sequence[str]:
        raise AssertionError(f"{table} is private")

    def relation(self, table: str) -> str:
        raise AssertionError(f"{table} is private")

    def types(self, table: str) -> Mapping[str, Type]:
        raise AssertionError(f"{table} is private")

    def values(self, table: str, column: str) -> None:
        raise AssertionError(f"{table} is private")

    def most_equal(self, table: str, columns: tuple[str, ...]) -> int:
        raise AssertionError(f"{table} is private")

    def tuples(self, table: str, columns: Sequence[str]) -> None:
        raise AssertionError(f"{table} is private")

    def nulls(self, table: str, column: str) -> bool:
        raise AssertionError(f"{table} is private")

    def matches_with(self, pattern: str) -> bool:
        return True

    def accepts(self, above: Above, released: Sequence[Mapping[str, Type]]) -> bool:
        return bool(above.sql) and bool(released)


def private_table(
    paths: Sequence[Path],
    columns: Sequence[Column],
    unit: str | None = "unit",
    **settings: object,
) -> Table:
    """Give a table `t` over some files; its unit is an integer unless `unit_type` says else."""
    listed = {column.name: column for column in columns if not column.type.listed}
    lists = {column.name: column for column in columns if column.type.listed}
    kept = {
        "unit_type": INTEGER if unit else None,
        "max_rows_contributed": 1,
        "lists": lists,
        **settings,
    }
    return Table("t", Files(tuple(paths)), tuple(map(str, paths)), listed, unit, **kept)  # type: ignore[arg-type]


def scope_of(table: Table) -> Scope:
    """Return what names mean in a query over one table alone."""
    columns = {name: column_ref(c, 0, Span(0, 0)) for name, c in table.columns.items()}
    lists = {name: column_ref(c, 0, Span(0, 0)) for name, c in table.lists.items()}
    return Scope((Member(table.name, columns, lists=lists),), table)


def policy_of(table: Table, neighbours: Neighbours = Neighbours.ADD_REMOVE) -> Policy:
    return Policy(
        name="policy.toml",
        neighbours=neighbours,
        budget=PolicyBudget(LIMITS.policy),
        tables={table.name: table},
        ledger=LedgerSettings(None),
    )


def planned(policy: Policy, sql: str, public: PublicFacts | None = None) -> Plan:
    """Take a query through the stages that see no data; refusals know their text.

    Beside public tables, plain aggregates have a price, and BigQuery's words are read too.
    """
    source, given = Source(sql), {}
    clause = None if public is None else respelled(source)
    if clause is not None:
        source, given = clause.source, clause.given
    public, price = (NoPublicTables(), None) if public is None else (public, PRICE)
    try:
        bound = bind(parse(source), policy, public, price, given)
        return make_plan(check(bound, policy), policy, public)
    except QueryRefused as refusal:
        refusal.source = source
        raise


def receipt_for(plan: Plan, ledger: Ledger | None = None) -> Receipt:
    """Charge a plan; without a ledger, to one of its own in memory."""
    if ledger is not None:
        return ledger.charge(plan.charge, LIMITS, ALICE)
    ledger = open_ledger(LedgerSettings(None))
    try:
        return ledger.charge(plan.charge, IN_EITHER, ALICE)
    finally:
        ledger.close()


def ranges(measure: Histogram, bins: int = 256) -> tuple[int, int, int]:
    """Return the request for a whole grid in so many ranges at most."""
    cells = measure.code.cells
    return 0, cells, 1 << max(0, (cells - 1).bit_length() - bins.bit_length() + 1)


def integers(exact: Exact, measure: Measure) -> list[int]:
    """Return the integers of a measure group by group; of a histogram, all ranges of each."""
    if not isinstance(measure, Histogram):
        return list(exact.values(measure))
    return [
        weight
        for group in range(exact.groups)
        for weight in exact.histogram(measure, group, *ranges(measure)).tolist()
    ]


@dataclass
class World:
    """A table and an engine that has it open."""

    table: Table
    engine: Engine
    policy: Policy = field(init=False)

    def __post_init__(self) -> None:
        self.policy = policy_of(self.table)

    @contextmanager
    def open(self, sql: str) -> Iterator[tuple[FrontierPlan, Exact]]:
        """Open the one scan of a query, charged to a ledger of its own."""
        plan = planned(self.policy, sql)
        (frontier,) = plan.frontiers
        with self.engine.open(frontier.scan, receipt_for(plan), 0) as exact:
            yield frontier, exact

    def groups(self, sql: str) -> list[list[int]]:
        """Return the exact integers of a query: per measure of each call, one per group."""
        return self._read(planned(self.policy, sql))

    def over(self, sql: str, *measures: Measure) -> list[list[int]]:
        """Ask other measures of the rows and groups of a query."""
        plan = planned(self.policy, sql)
        (frontier,) = plan.frontiers
        scan = replace(frontier.scan, measures=measures)
        charge = replace(plan.charge, scans=(scan,))
        return self._read(
            replace(plan, charge=charge, frontiers=(replace(frontier, scan=scan),)), measures
        )

    def _read(self, plan: Plan, measures: Sequence[Measure] = ()) -> list[list[int]]:
        """Read twice: what an engine keeps from the first time must not change anything."""
        (frontier,) = plan.frontiers
        wanted = measures or [m for one in frontier.releases for m in one.release.measures]
        found = []
        for _ in range(2):
            with self.engine.open(frontier.scan, receipt_for(plan), 0) as exact:
                found.append([integers(exact, measure) for measure in wanted])
        assert found[0] == found[1]
        return found[0]

    def exact(self, sql: str) -> list[int]:
        """Return the same without groups, one integer per measure, in units of 1/scale."""
        return [value for (value,) in self.groups(sql)]

    def counts(self, *conditions: str) -> list[int]:
        """Count the rows that meet each condition, in one query."""
        calls = ", ".join(f"DP_COUNT(*, eps=1) FILTER (WHERE {c})" for c in conditions)
        return self.exact(f"SELECT {calls} FROM t")

    def count(self, condition: str) -> int:
        (value,) = self.exact(f"SELECT DP_COUNT(*, eps=1) FROM t WHERE {condition}")
        return value


@contextmanager
def world(engine: str, table: Table, log: Path | None = None) -> Iterator[World]:
    """Open an engine over one table."""
    opened = open_engine(engine, policy_of(table), FaultLog(log))
    try:
        yield World(table, opened)
    finally:
        opened.close()


@contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in what takes longer; nothing that waits in a C library is woken."""

    def late(*_: object) -> None:
        raise TimeoutError(f"not done in {seconds} s")

    old = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def write(path: Path, **columns: object) -> Path:
    """Write a Parquet file; lists and arrays both serve as columns."""
    pq.write_table(pa.table(columns), path)
    return path
