"""The accepted queries of grammar/, run over data: by sessions, and without any noise.

The oracle is the engine in Python, whose exact integers become released values as they are: a
mechanism that adds noise is replaced by one of its kind that adds none. A quantile is held
against the definition of its rank score.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from fractions import Fraction
from math import isinf
from pathlib import Path
from typing import Any

from dpquery import session as stages
from dpquery.budget.ledger.ledger import open_ledger
from dpquery.cache.table_identity import promise_of
from dpquery.core.privacy_loss import BUDGET_MAX, Ceiling, Loss
from dpquery.core.source_text import Source
from dpquery.core.types import BOOLEAN
from dpquery.database import Database
from dpquery.finish import ready
from dpquery.functions.additive_releases import AdditiveRelease
from dpquery.functions.moments.mean_variance import BernsteinRelease
from dpquery.functions.order_statistics.quantile import QuantileRelease
from dpquery.ir.measures import Candidates, CountRows, CountUnits, CountValues, SumCodes
from dpquery.ir.query import Scan
from dpquery.ir.walk import constants_in, filled
from dpquery.mechanisms import GridQuantile
from dpquery.mechanisms.randomness import Randomness
from dpquery.plan.plan import FrontierPlan
from dpquery.policy.load import load_policy
from dpquery.policy.model import LedgerSettings, Policy, PolicyBudget
from dpquery.policy.sources.paths import copy_samples
from dpquery.release import ReleasedColumn, ReleasedTable, added_up, shown
from dpquery.session import Session
from tests.corpus import cases
from tests.corpus.cases import Case
from tests.worlds import integers, receipt_for

ACCEPTED: list[Case] = []
REFUSED: list[Case] = []
for _case in (case for path in cases.files() for case in cases.read(path)):
    (REFUSED if _case.expected.startswith(("DPQ", "refused")) else ACCEPTED).append(_case)

_EPS = re.compile(r"((?:eps|epsilon) *(?:=>|:=|==?) *\(?)([0-9.e+-]+)", re.IGNORECASE)
_MOST = 10**9
SURE = 1 - Fraction(1, 10**9)


SOME = Fraction(30)
"""A number that an earlier release said, in scans that are opened without it."""


def samples(place: Path) -> Path:
    """Copy the sample data, and give its directory."""
    copy_samples(place)
    return place


def policy_at(file: Path) -> Policy:
    """Load a policy with the largest budget there is, and its ledger in memory."""
    most = Loss(Fraction(BUDGET_MAX), Fraction(1, 2))
    return replace(
        load_policy(file), budget=PolicyBudget(Ceiling(most)), ledger=LedgerSettings(None)
    )


@contextmanager
def sessions(file: Path) -> Iterator[tuple[Session, Session]]:
    """Open a session on each engine."""
    policy = policy_at(file)
    with (
        Session(Database(policy), "default", None) as duckdb,
        Session(Database(policy, engine="python"), "default", None) as oracle,
    ):
        oracle._engine._secret = duckdb._engine._secret  # one ledger has one
        yield duckdb, oracle


def anew(database: Database) -> Session:
    """Begin a session with a ledger of its own, in memory, over tables that are open."""
    database.ledger = open_ledger(database.policy.ledger, promise_of(database.policy))
    return Session(database, "default", None, lent=True)


def scaled(query: str, factor: int) -> str:
    """Multiply every eps, up to the largest there is."""

    def larger(found: re.Match[str]) -> str:
        return f"{found[1]}{min(Decimal(found[2]) * factor, _MOST):f}"

    return _EPS.sub(larger, query)


@dataclass(frozen=True)
class Compared:
    """A value that a session released, and what says whether it is the exact one."""

    off: Fraction
    """How far it is off; of a quantile, in rows of full weight."""
    step: Fraction
    """Of the grid that the exact value lies on; 0 where there is none."""
    noise: Fraction
    """How far noise takes it, but for a chance of 1e-9."""


def compared(duckdb: Session, oracle: Session, query: str, monkeypatch: Any) -> list[Compared]:
    """Ask a session, and hold each count, sum, mean, spread and quantile against the oracle's.

    What other mechanisms choose, or smooth, is not compared here: both engines answer alike by
    the same random bits, and the mechanisms' own tests know their laws.
    """
    released: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(stages, "finish", _recording(released))
        duckdb.sql(query)
    plan = duckdb._cache.bounded(
        oracle._plan(Source(query))
    )  # between the bounds that were found
    receipt, found, constants = receipt_for(plan), [], {}
    parts: dict[int, ReleasedTable] = {}  # of which others are added up
    for number, (frontier, table) in enumerate(zip(plan.frontiers, released, strict=True)):
        if frontier.added is not None:
            found += _beside(table, added_up(frontier, parts[frontier.added]))
            continue
        scan = ready(plan, frontier.scan, released, constants, oracle._public)
        if not frontier.releases:  # groups alone: nothing is read
            continue
        with oracle._engine.open(scan, receipt, number) as exact:
            if any(one.added == number for one in plan.frontiers):
                parts[number] = _exact(frontier, scan, exact)
                found += _beside(table, shown(frontier, parts[number]))
                continue
            for planned, column in zip(frontier.releases, table.columns, strict=True):
                found += _held(planned.release, column.cells, exact)
    return found


def _exact(frontier: FrontierPlan, scan: Scan, exact: Any) -> ReleasedTable:
    """Return what would be released of a scan without noise."""
    columns = (
        ReleasedColumn(one.column, one.release.type, _still(one.release, exact))
        for one in frontier.releases
    )
    return ReleasedTable(scan.keys, tuple(columns))


def _beside(table: ReleasedTable, exact: ReleasedTable) -> Iterator[Compared]:
    """Compare the values of a released table with exact ones, in the same order."""
    for column, still in zip(table.columns, exact.columns, strict=True):
        yield from _apart(column.cells, still.cells)


def _recording(released: list[Any]) -> Callable[..., Any]:
    def record(above: Any, tables: Sequence[Any], public: Any) -> Any:
        released.extend(tables)
        return _finish(above, tables, public)

    return record


_finish = stages.finish


def _held(release: Any, cells: Sequence[Any], exact: Any) -> Iterator[Compared]:
    if isinstance(release, QuantileRelease) and type(release.mechanism) is GridQuantile:
        for group, cell in enumerate(cells):
            off = _rows_off(release, cell.drawn, exact, group)
            yield Compared(off, Fraction(1), cell.rank_interval(SURE, any_data=True))
    elif isinstance(release, AdditiveRelease | BernsteinRelease):
        yield from _apart(cells, _still(release, exact))


def _still(release: Any, exact: Any) -> Sequence[Any]:
    """Draw a release with noise that is always zero."""
    return replace(release, mechanism=_silent(release.mechanism)).run(exact, Randomness())


def _apart(cells: Sequence[Any], exact: Sequence[Any]) -> Iterator[Compared]:
    for cell, still in zip(cells, exact, strict=True):
        off = abs(Fraction(cell.value) - Fraction(still.value))
        yield Compared(off, _step(cell.release), _margin(cell))


def _margin(cell: Any) -> Fraction:
    low, high = cell.interval(SURE)
    if isinf(high) or isinf(low):  # of a line through no rows
        return Fraction(10**400)
    low, high = Fraction(low), Fraction(high)
    return max(Fraction(cell.value) - low, high - Fraction(cell.value))


def _step(release: Any) -> Fraction:
    match getattr(release, "measure", None):
        case SumCodes(code=code):
            return code.grid
        case CountRows() | CountUnits() | CountValues():
            return Fraction(1)
    return Fraction(0)


def _silent(noise: Any) -> Any:
    """Return noise of the same kind that is always zero."""
    kind = type(noise)
    still = type("Silent", (kind,), {"release": lambda _, exact, __: list(exact)})
    return still(**{field.name: getattr(noise, field.name) for field in fields(kind)})


def _rows_off(release: QuantileRelease, code: int, exact: Any, group: int) -> Fraction:
    """Return the rank score of a code, from the definition."""

    def weight(low: int, high: int) -> int:
        if low == high:
            return 0
        ranges = exact.histogram(release.measure, group, low, high, high - low)
        return int(ranges.sum())

    below, here = weight(0, code), weight(code, code + 1)
    above = weight(code + 1, release.measure.code.cells)
    target = release.mechanism.order * (below + here + above)
    score = max(Fraction(0), below - target, target - below - here)
    return score / release.measure.weight.scale


def exact_integers(session: Session, query: str) -> list[list[int]]:
    """Give the exact integers that each release of a query is made from; of histograms, all."""
    plan, found = session._plan(Source(query)), []
    receipt, groups = receipt_for(plan), {}
    for number, frontier in enumerate(plan.frontiers):
        constants = {
            constant.number: True if constant.type == BOOLEAN else SOME
            for constant in constants_in(frontier.scan)
        }
        scan = _with_groups(filled(frontier.scan, constants), groups)
        if not frontier.draws:  # groups alone, or sums of what others read
            continue
        with session._engine.open(scan, receipt, number) as exact:
            measures = [m for planned in frontier.releases for m in planned.release.measures]
            for measure in measures:
                if isinstance(measure, Candidates):
                    counted = counted_by_value(exact, measure)
                    groups[number] = tuple(counted)[:MOST_GROUPS]
                    found += [[hash(value) for value in counted], list(counted.values())]
                else:
                    found.append(integers(exact, measure))
    for number, search in enumerate(plan.searches, start=len(plan.frontiers)):
        with session._engine.open(search.scan, receipt, number) as exact:
            found.append(search.release.asked(exact))
    return found


MOST_GROUPS = 30
"""Of those that are found, in the tests."""


def counted_by_value(exact: Any, measure: Candidates) -> dict[Any, int]:
    """Count the units of each value, whether or not it would be chosen; in order, NULL last."""
    counts = exact.counts(measure).tolist()
    values = exact.chosen(measure, range(len(counts)))
    pairs = zip(values, counts, strict=True)
    return dict(sorted(pairs, key=lambda pair: [(value is None, value) for value in pair[0]]))


def _with_groups(scan: Scan, groups: Mapping[int, tuple[Any, ...]]) -> Scan:
    """Return a scan the groups that an earlier one could have found."""
    keys = [
        key
        if key.finding is None
        else replace(
            key,
            finding=replace(
                key.finding,
                values=tuple(told[key.finding.place] for told in groups[key.finding.frontier]),
                known=True,
            ),
        )
        for key in scan.keys
    ]
    return replace(scan, keys=tuple(keys))
