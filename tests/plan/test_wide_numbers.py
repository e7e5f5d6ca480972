"""A value that no answer holds is refused before the charge; what is planned is answered."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery import Session
from dpquery.core.types import INT64, WIDEST_EXACT
from dpquery.errors import QueryRefused
from dpquery.functions import ALL
from dpquery.functions.base import DPFunction, Expression, Number, Share
from dpquery.functions.dp_keys import KEYS
from tests.tasks import ROOT

STAFF = str(ROOT / "datasets" / "staff.parquet")
LOW, HIGH = INT64
HELD = [str(HIGH), f"{LOW}", f"age + {HIGH - 70}", "0.5", f"0.{'9' * 37}"]
WIDE = [
    "123456789012345678901234567890",
    "-123456789012345678901234567890",
    str(HIGH + 1),
    str(LOW - 1),
    str(WIDEST_EXACT - 1),
    f"age + {HIGH - 60}",
    f"age * {10**20}",
    f"-{10**20} - age",
    f"CASE WHEN age > 40 THEN {HIGH} ELSE {HIGH + 3} END",
    f"salary * {10**18}",
]


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    """A session over one's own files, that may ask much."""
    bounds = {"age": [18, 70], "salary": [0, 200000]}
    with dpquery.connect(
        {"staff": STAFF},
        epsilon=10**6,
        delta="1e-3",
        unit="person_id",
        rows_per_unit=1,
        bounds=bounds,
    ) as opened:
        yield opened


def calls(function: DPFunction, argument: str) -> Iterator[str]:
    """Return calls of a function, with each kind of second argument that it takes."""
    seconds = [""]
    for one in function.positional[1:]:
        match one:
            case Expression():
                seconds = [f", {argument}"]
            case Number():
                seconds = [f", {one.least}"]
            case Share():
                seconds = [", 0.5", ", [0.25, 0.75]"]
    price = function.price.replace("0.5", "2")
    for second in seconds:
        for mechanism in (None, *function.mechanisms):
            chosen = "" if mechanism is None else f", mechanism='{mechanism}'"
            yield f"{function.name}({argument}{second}, {price}{chosen})"


def outcome(session: Session, call: str) -> tuple[str | None, object]:
    """Give the code of a refusal, or none and the answer; a failure after the charge fails."""
    try:
        return None, session.sql(f"SELECT {call} AS found FROM staff").scalar()
    except QueryRefused as refusal:
        return refusal.code, refusal


VALUED = [function for function in ALL if function.chooses and function is not KEYS]
OTHERS = [f for f in ALL if not (f in VALUED or f.first.star)]


def test_some_functions_give_values():
    assert len(VALUED) >= 6
    assert len(OTHERS) >= 4


@pytest.mark.parametrize("argument", WIDE)
@pytest.mark.parametrize("function", VALUED, ids=lambda one: one.name)
def test_values_that_no_column_holds_are_refused(
    session: Session, function: DPFunction, argument: str
):
    codes = [outcome(session, call)[0] for call in calls(function, argument)]
    assert codes[0] in {"DPQ404", "DPQ405"}
    assert None not in codes


@pytest.mark.parametrize("argument", HELD)
@pytest.mark.parametrize("function", ALL, ids=lambda one: one.name)
def test_values_that_it_holds_are_not_refused_for_it(
    session: Session, function: DPFunction, argument: str
):
    for call in calls(function, argument):
        code, told = outcome(session, call)
        assert code is None or "64 bits" not in str(told), call


@pytest.mark.parametrize("argument", WIDE)
@pytest.mark.parametrize("function", OTHERS, ids=lambda one: one.name)
def test_no_other_function_fails_for_them(
    session: Session, function: DPFunction, argument: str
):
    for call in calls(function, argument):
        outcome(session, call)
    if function.name == "DP_AVG":
        assert outcome(session, f"DP_AVG({argument}, eps=5)")[0] is None


@pytest.mark.parametrize("function", VALUED, ids=lambda one: one.name)
def test_what_is_offered_is_answered(session: Session, function: DPFunction):
    for argument in (WIDE[0], f"age + {HIGH - 60}", f"age + {10**20}"):
        for call in calls(function, argument):
            code, refusal = outcome(session, call)
            if code == "DPQ404" and isinstance(refusal, QueryRefused):
                (offered, *_) = refusal.diagnostic.remedy
                assert outcome(session, offered)[0] is None, (call, offered)


@pytest.mark.parametrize("argument", ["age + 1", f"age + {10**19}", f"salary * {10**18}"])
@pytest.mark.parametrize("bounds", [[0, 2**70], [10**19, 2 * 10**19], [-(10**30), 0]])
@pytest.mark.parametrize("rest", ["eps=2, bounds={}", "bounds={}, eps=2"])
def test_other_bounds_are_offered(
    session: Session, argument: str, bounds: list[int], rest: str
):
    code, refusal = outcome(session, f"dp_median({argument}, {rest.format(bounds)})")
    if isinstance(refusal, QueryRefused) and "64 bits" in str(refusal):
        assert code == "DPQ404"
        assert outcome(session, refusal.diagnostic.remedy[0])[0] is None


def test_bounds_keep_them_in_what_is_held(session: Session):
    call = f"DP_MEDIAN(salary * {10**18}, eps=2, bounds=[0, {10**6}])"
    assert outcome(session, call)[1] in range(10**6 + 1)


@pytest.mark.parametrize("function", VALUED, ids=lambda one: one.name)
def test_all_digits_of_a_decimal_are_shown(session: Session, function: DPFunction):
    exact = Decimal(f"0.{'9' * 37}")
    for call in calls(function, str(exact)):
        code, found = outcome(session, call)
        assert code is not None or found in (exact, [exact], [exact, exact], None), call


def test_decimals_of_many_places_have_medians_and_deviations(tmp_path: Path):
    """DECIMAL(38,18), as Spark writes it, has more steps than can be drawn from or squared."""
    values = [Decimal(n % 30).quantize(Decimal("1." + "0" * 18)) for n in range(301)]
    table = pa.table({"paid": pa.array(values, pa.decimal128(38, 18))})
    pq.write_table(table, tmp_path / "t.parquet")
    bounds = {"paid": (0, 1000)}
    with dpquery.connect(tmp_path / "t.parquet", epsilon=10**7, bounds=bounds) as opened:
        query = "SELECT MEDIAN(paid) AS mid, STDDEV_POP(paid) AS spread FROM t"
        assert str(opened.explain(query, eps=10**6)).count("1,000,000,001 steps") == 2
        ((mid, spread),) = opened.sql(query, eps=10**6).rows
    assert mid == pytest.approx(14, abs=1)
    assert spread == pytest.approx(8.66, abs=0.1)
