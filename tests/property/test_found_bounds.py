"""Bounds that are found, end to end: paid once, kept for who paid, never refused afterwards."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpquery.budget.ledger.charge_and_receipt import Receipt
from dpquery.budget.ledger.ledger import open_ledger
from dpquery.core.privacy_loss import Ceiling, Loss, Neighbours
from dpquery.core.source_text import Source
from dpquery.core.types import DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Interval, Kind, Type
from dpquery.database import Database
from dpquery.errors import DPQueryError, InternalError, PolicyInvalid
from dpquery.functions.bounds_search import Block, SearchRelease, blocks_of
from dpquery.functions.order_statistics.quantile import OF_LISTS
from dpquery.ir.expr import Code
from dpquery.plan.plan import with_bounds
from dpquery.policy.model import Bounds, Column, LedgerSettings, Policy, PolicyBudget
from dpquery.release import find_bounds
from dpquery.session import Session
from tests.worlds import planned, policy_of, private_table

INF = float("inf")
SCHEMA = pa.schema(
    {
        "unit": pa.int64(), "g": pa.string(), "i": pa.int64(), "d": pa.float64(),
        "c": pa.float64(), "m": pa.decimal128(18, 2), "day": pa.date32(),
        "at": pa.timestamp("us"),
    }
)  # fmt: skip
COLUMNS = (
    Column("g", TEXT, keys=("a", "b")),
    Column("i", INTEGER),
    Column("d", DOUBLE),
    Column("c", DOUBLE, grid=Fraction(1, 100)),
    Column("m", Type(Kind.DECIMAL, 18, 2)),
    Column("day", DATE),
    Column("at", TIMESTAMP),
)
ORDINARY = [
    (n, "ab"[n % 2], 40 + n % 8, 0.3, 5.25, Decimal(7), 20_000, 2**50) for n in range(400)
]
HIGH = ("a", 2**63 - 1, INF, 1e300, Decimal(10**15), 2932896, 2**62)
LOW = ("a", -(2**63), -INF, float("nan"), Decimal(-(10**15)), -719162, -(2**62))
EXTREME = [(n, *(HIGH if n % 2 else LOW)) for n in range(400)]
NOTHING = [(n, *[None] * 7) for n in range(400)]
NUMBERS = ("i", "d", "c", "m", "i + i", "d / i")
MOMENTS = ("day", "at")
SUMS = ("DP_SUM({}", "DP_AVG({}", "DP_VAR_POP({}", "DP_STDDEV_SAMP({}")
RANKS = (
    "DP_MEDIAN({}", "DP_QUANTILE({}, [0, 0.5, 1]", "DP_MIN({}", "DP_MAX({}",
)  # fmt: skip
CALLS = [c.format(n) for n in NUMBERS for c in (*SUMS, *RANKS)]
CALLS += [c.format(n) for n in MOMENTS for c in RANKS]
GAUSSIAN = "mechanism='gaussian', delta=1e-7"
WAYS = [
    f"DP_SUM(i, {GAUSSIAN}",
    "DP_SUM(i, mechanism='staircase'",
    *(f"DP_QUANTILE(d, 0.3, mechanism='{name}'" for name in ("exponential", "laplace")),
    "DP_QUANTILE(d, 0.3, mechanism='inverse_sensitivity', rho_smooth=10",
    f"DP_QUANTILE(d, 0.3, {GAUSSIAN}",
    *(f"DP_QUANTILE(i, [0.1, 0.9], mechanism='{name}'" for name in OF_LISTS),
    f"DP_AVG(d, {GAUSSIAN}",
    *(f"DP_AVG(d, mechanism='{name}'" for name in ("exponential", "inverse_sensitivity")),
    "DP_FIRST_ABOVE(i, 3",
]


def save(path: Path, rows: list[tuple[object, ...]]) -> Path:
    cells = zip(*rows, strict=True)
    arrays = [pa.array(list(c), one.type) for c, one in zip(cells, SCHEMA, strict=True)]
    pq.write_table(pa.table(arrays, schema=SCHEMA), path)
    return path


def policy_over(path: Path, ledger: Path | None = None, **settings: object) -> Policy:
    neighbours = settings.pop("neighbours", Neighbours.ADD_REMOVE)
    columns = settings.pop("columns", COLUMNS)
    policy = policy_of(private_table([path], columns, **settings), neighbours)
    return replace(policy, ledger=LedgerSettings(ledger))


@pytest.fixture
def ordinary(tmp_path: Path) -> Path:
    return save(tmp_path / "t.parquet", ORDINARY)


@contextmanager
def session(policy: Policy, analyst: str = "default", **more: object) -> Iterator[Session]:
    with Session(Database(policy, **more), analyst, None) as opened:
        yield opened


def auto(call: str, eps: object = 1, where: str = "") -> str:
    return f"SELECT {call}, eps={eps}, bounds='auto') FROM t{where}"


SINGLE = {"single": True}
WEIGHTED = {"max_rows_contributed": 3, "neighbours": Neighbours.SUBSTITUTE}
OF_GROUPS = " WHERE i > 3 GROUP BY g"
OF_WHOLE_ROWS = ("staircase", "laplace", "gaussian", "exponential", "inverse_sensitivity")
PLANS = [
    *((call, SINGLE, "") for call in (*CALLS, *WAYS)),
    *((call, WEIGHTED, "") for call in CALLS if "(i" in call),
    *(
        (call, WEIGHTED, OF_GROUPS)
        for call in (*CALLS[:8], *WAYS)
        if not any(name in call for name in OF_WHOLE_ROWS)
    ),
]


def every_few(blocks: list[Block], code: Code) -> list[Interval]:
    """Return the ranges of some blocks, of neighbours among these, and of all."""
    tried = [*blocks[:: max(1, len(blocks) // 8)], blocks[-1]]
    ends = [(one.low, one.high) for one in tried]
    ends += [(one.low, other.high) for one, other in pairwise(tried)]
    ends.append((blocks[0].low, blocks[-1].high))
    return [Interval(low * code.grid, high * code.grid) for low, high in ends]


@pytest.mark.parametrize(("call", "settings", "rest"), PLANS)
def test_nothing_that_is_found_is_refused_or_costs_more(call, settings, rest, tmp_path):
    """Whatever the search finds: the plan holds, for the loss that was charged."""
    policy = policy_over(tmp_path / "none.parquet", **settings)
    plan = planned(policy, auto(call, where=rest))
    (search,) = plan.searches
    code = search.release.measure.code
    for one in (None, *every_few(blocks_of(code), code)):
        known = with_bounds(plan, [one], policy)
        assert known.charge is plan.charge
        events = [release.event() for releases in known.releases for release in releases]
        assert tuple(events) == plan.charge.events
        for number, frontier in enumerate(known.frontiers):
            Receipt(plan.charge, "").open(number, frontier.scan)


def test_a_receipt_opens_no_other_scan_than_the_one_it_outlines(ordinary):
    policy = policy_over(ordinary, single=True)
    plan = planned(policy, auto("DP_SUM(i"))
    for other in ("DP_SUM(i + 1", "DP_SUM(m", "DP_AVG(i", "DP_SUM(i, max_rows_contributed=2"):
        scan = planned(policy_over(ordinary), auto(other)).frontiers[0].scan
        with pytest.raises(InternalError):
            Receipt(plan.charge, "").open(0, scan)
    with pytest.raises(InternalError):
        Receipt(plan.charge, "").open(1, plan.frontiers[0].scan)
    wrong = replace(plan, charge=replace(plan.charge))
    with pytest.raises(InternalError):
        find_bounds(wrong, 1, None, Receipt(plan.charge, ""), None)


FEW_CALLS = [
    "DP_SUM(i", "DP_STDDEV_SAMP(i", "DP_MEDIAN(d", "DP_AVG(d", "DP_MAX(m", "DP_SUM(d / i",
    "DP_QUANTILE(day, [0, 0.5, 1]", "DP_MIN(at",
]  # fmt: skip


@pytest.mark.parametrize("engine", ["duckdb", "python"])
@pytest.mark.parametrize(
    ("rows", "calls"),
    [
        (EXTREME, FEW_CALLS),
        (NOTHING, FEW_CALLS),
        *(
            pytest.param(rows, CALLS, marks=pytest.mark.slow)
            for rows in (EXTREME, ORDINARY, NOTHING, ORDINARY[:3])
        ),
    ],
)
def test_every_call_is_answered_whatever_the_rows(tmp_path, rows, calls, engine):
    """For the same charge: with NaN, infinities, and moments beyond all years."""
    path = save(tmp_path / "t.parquet", rows)
    text = ", ".join(f"{call}, eps=1, bounds='auto')" for call in calls)
    with session(policy_over(path, max_rows_contributed=2), engine=engine) as opened:
        for rest in ("", " WHERE i > 0 GROUP BY g"):
            answer = opened.sql(f"SELECT {text} FROM t{rest}", refresh=True)
            assert answer.loss.epsilon == len(calls)
            nothing = any("no bounds were found" in note for note in answer.notes)
            assert nothing or all(value is not None for row in answer.rows for value in row)


@pytest.mark.parametrize("call", ["DP_SUM(i", "DP_MAX(d", "DP_AVG(m", "DP_MEDIAN(day"])
def test_the_charge_is_the_same_on_neighbours(tmp_path, call):
    spent = []
    for number, rows in enumerate([ORDINARY, ORDINARY[:-1], EXTREME, []]):
        place = tmp_path / str(number)
        place.mkdir()
        path = save(place / "t.parquet", rows or NOTHING[:1])
        with session(policy_over(path, single=True)) as opened:
            assert opened.sql(auto(call, "0.5")).loss.epsilon == Fraction(1, 2)
            spent.append(opened.budget.spent)
    assert len(set(map(str, spent))) == 1


def test_bounds_are_those_of_all_rows(ordinary):
    """40 to 47 lie between 32 and 64, and a query of one group has the same."""
    with session(policy_over(ordinary, single=True)) as opened:
        answer = opened.sql(auto("DP_AVG(i", 50, " WHERE g = 'a' AND i < 42"))
        assert answer.notes[-1] == (
            "values of i outside 32 to 41 are cut to it: bounds found from noisy counts for "
            "ε = 10; later calls do not pay for it; ± is the noise only (95 %)"
        )
        assert 39 < answer.scalar() < 42
        again = opened.sql(auto("DP_AVG(i", 50))
        assert again.notes[-1].startswith(
            "values of i outside 32 to 64 are cut to it: bounds found from noisy counts before"
        )


def kept(opened: Session, text: str) -> bool:
    """Return whether a query would have its bounds free."""
    return not opened._cache.bounded(opened._plan(Source(text))).searches


def test_bounds_are_kept_for_who_paid_and_for_the_same_expression(ordinary, tmp_path):
    policy = policy_over(ordinary, tmp_path / "l", single=True)
    with session(policy) as opened:
        opened.sql(auto("DP_SUM(i", 20))
        for same in ("DP_AVG(i", "DP_MAX((I)", "DP_MEDIAN(t.i", "DP_STDDEV(x"):
            source = " FROM (SELECT i AS x FROM t WHERE d > 0)" if "(x" in same else " FROM t"
            assert kept(opened, auto(same).replace(" FROM t", source))
        assert kept(opened, f"SELECT DP_COUNT(*, eps=1) FROM t UNION ALL {auto('DP_SUM(i')}")
        for other in ("DP_SUM(i + 0", "DP_SUM(m", "DP_SUM(-i"):
            assert not kept(opened, auto(other))
    with session(policy) as later:
        assert kept(later, auto("DP_SUM(i"))
        (step,) = later.explain(auto("DP_SUM(i")).steps
        assert step.epsilon == 1
    with session(policy, "bob") as other:
        assert not kept(other, auto("DP_SUM(i"))


@pytest.mark.parametrize(
    "changes",
    [
        {"columns": (*COLUMNS[:1], Column("i", DOUBLE), *COLUMNS[2:])},
        {"columns": (Column("i", INTEGER, Bounds(0, 10**6)), *COLUMNS[2:])},
        {"written": ("other.parquet",)},
    ],
    ids=str,
)
def test_bounds_are_not_kept_under_another_policy(ordinary, tmp_path, changes):
    policy = policy_over(ordinary, tmp_path / "l", single=True)
    with session(policy) as opened:
        opened.sql(auto("DP_SUM(i", 20))
        ((_, _, _, key, *_),) = opened._ledger._store.bounds.rows()
    written = changes.pop("written", None)
    changed = policy_over(ordinary, tmp_path / "l", **{"single": True, **changes})
    if written:
        table = replace(changed.tables["t"], written=written)
        changed = replace(changed, tables={"t": table})
    with session(changed) as opened:
        plan = opened._plan(Source(auto("DP_SUM(i")))
        bounded = changed.tables["t"].columns["i"].bounds is not None
        assert bounded == (not plan.searches)
        assert all(search.key != key for search in plan.searches)


def test_refresh_pays_for_new_bounds_and_the_newest_count(ordinary):
    with session(policy_over(ordinary, single=True)) as opened:
        for number in (1, 2):
            opened.sql(auto("DP_SUM(i", 20), refresh=True)
            assert len(list(opened._ledger._store.bounds.rows())) == number
        opened.sql(auto("DP_SUM(i", 20))
        assert len(list(opened._ledger._store.bounds.rows())) == 2


def test_a_search_that_finds_nothing_keeps_nothing(ordinary):
    with session(policy_over(ordinary, single=True)) as opened:
        answer = opened.sql(auto("DP_SUM(i", "0.001"))
        assert answer.notes[-1] == (
            "no bounds were found for i: too few rows for this eps; state bounds=[low, high]"
        )
        assert not kept(opened, auto("DP_SUM(i"))


@pytest.mark.parametrize("function", ["DP_AVG", "DP_VAR_POP", "DP_STDDEV_POP", "DP_SUM"])
def test_bounds_found_by_chance_do_not_cut_the_margin(ordinary, monkeypatch, function):
    """A mean was given as -12, within -16 … -8, where no row is below 40.

    Noise alone is released: it rules out one end of the bounds seldom, never 40 times in a row.
    """

    def chance(release: SearchRelease, _: object) -> tuple[int, int]:
        lows = [block.low * release.code.grid for block in blocks_of(release.code)]
        return lows.index(-16), lows.index(-16) + 1

    monkeypatch.setattr(SearchRelease, "_ends", chance)
    unlimited = []
    with session(policy_over(ordinary, single=True)) as opened:
        for number in range(40):  # bounds that are found, and then found before
            call = f"{function}(i, eps=0.000{number:02}1, bounds='auto') AS n"
            answer = opened.sql(f"SELECT {call} FROM t")
            ((low, high),), text = answer.interval("n"), str(answer)
            assert text.splitlines()[0].endswith("noise ±")
            assert ("± unlimited" in text) == math.isinf(low)
            unlimited.append(math.isinf(low))
            assert high - answer.scalar() == pytest.approx(answer.scalar() - low)
    assert any(unlimited) == (function != "DP_SUM")


def test_what_breaks_between_charge_and_keeping_leaves_the_charge(ordinary, monkeypatch):
    with session(policy_over(ordinary, single=True)) as opened:
        monkeypatch.setattr(opened._ledger, "store_bounds", _broken)
        with pytest.raises(KeyboardInterrupt):
            opened.sql(auto("DP_SUM(i", 2))
        assert opened.budget.spent.epsilon == 2
        assert not kept(opened, auto("DP_SUM(i"))


def _broken(*_: object) -> None:
    raise KeyboardInterrupt


def test_what_breaks_after_keeping_has_the_bounds(ordinary, monkeypatch):
    with session(policy_over(ordinary, single=True)) as opened:
        monkeypatch.setattr("dpquery.session.finish", _broken)
        with pytest.raises(KeyboardInterrupt):
            opened.sql(auto("DP_SUM(i", 20))
        assert kept(opened, auto("DP_SUM(i"))


def test_a_refusal_for_lack_of_budget_names_the_whole_call(ordinary):
    policy = policy_over(ordinary, single=True)
    with session(policy) as opened:
        three = Ceiling(Loss(Fraction(3), policy.budget.limit.delta))
        limits = replace(opened._payer.limits, session=three)
        opened._payer = replace(opened._payer, limits=limits)
        with pytest.raises(DPQueryError) as refused:
            opened.sql(auto("DP_SUM(i", 5))
        assert refused.value.diagnostic.label == "asks for 5"
        assert refused.value.diagnostic.remedy[0] == "DP_SUM(i, eps=3, bounds='auto')"


def filled_ledger(ordinary: Path, path: Path) -> None:
    with session(policy_over(ordinary, path, single=True)) as opened:
        opened.sql(auto("DP_SUM(i", 20))
        opened.sql(auto("DP_SUM(d", 20))


@pytest.mark.parametrize("column", ["charge", "analyst", "key", "low", "high", "hash"])
def test_changed_bounds_are_seen_by_verify(ordinary, tmp_path, column):
    path = tmp_path / "l"
    filled_ledger(ordinary, path)
    settings = LedgerSettings(path)
    with closing(open_ledger(settings)) as ledger:
        assert ledger.verify() == 2
    with closing(sqlite3.connect(path, isolation_level=None)) as sql:
        sql.execute("DROP TRIGGER no_update_of_bounds")
        sql.execute(f"UPDATE bounds SET {column} = {column} || '0' WHERE sequence = 1")
    with closing(open_ledger(settings)) as ledger, pytest.raises(PolicyInvalid) as damage:
        ledger.verify()
    assert damage.value.code == "DPQ605"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE bounds SET low = '0'",
        "DELETE FROM bounds",
        "REPLACE INTO bounds SELECT 1, charge, analyst, key, low, high, hash FROM bounds",
    ],
)
def test_bounds_are_only_appended(ordinary, tmp_path, statement):
    path = tmp_path / "l"
    filled_ledger(ordinary, path)
    with closing(sqlite3.connect(path)) as sql, pytest.raises(sqlite3.IntegrityError):
        sql.execute(statement)


def test_a_rho_buys_no_bounds(ordinary):
    policy = policy_over(ordinary, single=True)
    rho = PolicyBudget(Ceiling.in_rho(Fraction(1), Fraction(1, 10**6), Fraction(1, 2)))
    with session(replace(policy, budget=rho)) as opened:
        with pytest.raises(DPQueryError) as refused:
            opened.sql("SELECT DP_SUM(i, rho=0.005, bounds='auto') FROM t")
        assert refused.value.code == "DPQ206"
        (offered,) = refused.value.diagnostic.remedy
        opened.sql(f"SELECT {offered} FROM t")
