"""Every mechanism of every function over the barest columns: a value of the right type, always.

Empty, constant, of two values, of one row, of NULL alone; of each type that a function takes.
What is asked comes from the registry of functions, so a mechanism that is added is asked for by
itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from dpquery import functions
from dpquery.core.privacy_loss import Neighbours
from dpquery.errors import PlanRefused
from dpquery.functions.base import DPFunction, Release, Takes
from dpquery.functions.distributions.points_argument import Points
from dpquery.functions.order_statistics.quantile import OF_LISTS
from dpquery.mechanisms import Majority
from dpquery.policy.model import Policy
from dpquery.session import Session
from dpquery.sql.bind.call_options import MECHANISM_ALIASES
from tests.property.test_extremes import (
    COLUMNS,
    LEAST,
    MOST,
    ROWS,
    TYPES,
    Wanted,
    require_right,
    session,
)
from tests.worlds import planned, policy_of, private_table

NUMBERS = ("i", "point", "wide", "d", "m")
OF_ARGUMENT = {
    Takes.VALUE: ("i", "day"),
    Takes.NUMBER: NUMBERS,
    Takes.ORDERED: (*NUMBERS, "day", "at"),
    Takes.CONDITION: ("b", "i > 0"),
    Takes.LISTED: ("g", "i", "b"),
    Takes.DISCRETE: ("g", "i", "m", "b", "day", "at"),
}
CHOSEN = {"g": (str, "a", "empty"), "i": (int, -5, 100), "b": (bool, False, True)}
MORE = {"DP_FIRST_ABOVE": ", 2", "DP_TOP_K": ", 2"}
SQUARED = {"DP_VAR_POP", "DP_VAR_SAMP", "DP_STDDEV_POP", "DP_STDDEV_SAMP"}
UNFIT = {name: {"wide"} for name in (*SQUARED, "DP_COVAR_POP", "DP_COVAR_SAMP")} | {
    "DP_FIRST_ABOVE": {"wide", "d", "at"}
}
"""Columns whose squares do not fit, or which have too many values for what weighs each."""
PAIRS = [
    (function, mechanism) for function in functions.ALL for mechanism in function.mechanisms
]
ORDERS = (0.9, 0.1, 0.5, 0.1)


ANYWHERE = (-math.inf, math.inf)
WANTED = {
    **dict.fromkeys(("DP_COUNT", "DP_COUNT_IF"), (int, *ANYWHERE)),
    **dict.fromkeys(("DP_PROPORTION", "DP_REGR_R2", "DP_CDF"), (float, 0, 1)),
    **dict.fromkeys(("DP_COVAR_POP", "DP_COVAR_SAMP"), (float, *ANYWHERE)),
    **dict.fromkeys(("DP_REGR_SLOPE", "DP_REGR_INTERCEPT"), (float, *ANYWHERE)),
    **dict.fromkeys(SQUARED, (float, 0, math.inf)),
    "DP_CORR": (float, -1, 1),
    **dict.fromkeys(("DP_LINREG", "DP_LOGREG"), (float, *ANYWHERE)),
    "DP_DENSITY": (float, 0, math.inf),
    "DP_HISTOGRAM": (int, 0, math.inf),
    "DP_MAJORITY": (bool, False, True),
}
"""What the values of functions are whose argument says nothing of them."""


def wanted(function: DPFunction, name: str) -> Wanted:
    """Return the type of a value, and where it lies."""
    match function.name:
        case known if known in WANTED:
            return WANTED[known]
        case "DP_MODE" | "DP_TOP_K":
            return CHOSEN[name]
        case "DP_KEYS" if name in CHOSEN:
            return CHOSEN[name]
        case "DP_SUM":
            return TYPES[name], *ANYWHERE
        case "DP_AVG":
            return float, LEAST[name], MOST[name]
    return TYPES[name], LEAST[name], MOST[name]


def calls(function: DPFunction, mechanism: str) -> Iterator[tuple[str, Wanted]]:
    delta = ", delta=1e-9" if mechanism in {"gaussian", "partition"} else ""
    named = f", mechanism='{mechanism}'" if len(function.mechanisms) > 1 else ""
    more = MORE.get(function.name, "")
    if function.name == "DP_QUANTILE":
        more = f", {list(ORDERS)}" if mechanism in OF_LISTS else ", 0.9"
    for name in OF_ARGUMENT[function.first.takes]:
        if name not in UNFIT.get(function.name, ()):
            if isinstance(function.positional[-1], Points):
                moments = name in {"day", "at"}
                more = ", ['2020-01-01', '2021-06-01']" if moments else ", [-1, 2]"
            each = [name, *("i" for _ in function.expressions[1:])]
            if function.expressions[-1].takes is function.first.takes:
                each = [name for _ in function.expressions]
            pairs = zip(each, function.expressions, strict=True)
            about = ", ".join(f"[{one}]" if of.listed else one for one, of in pairs)
            text = f"{function.name}({about}{more}, eps=1{delta}{named})"
            yield text, wanted(function, name)


@pytest.fixture(scope="module", params=ROWS)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Session]:
    path = tmp_path_factory.mktemp("barest") / "t.parquet"
    with session(path, request.param, "duckdb", unit=None) as found:
        yield found


@pytest.mark.parametrize(
    ("function", "mechanism"), PAIRS, ids=lambda one: getattr(one, "name", one)
)
def test_every_mechanism_answers(opened: Session, function: DPFunction, mechanism: str) -> None:
    asked, expected = zip(*calls(function, mechanism), strict=True)
    may_miss = function.name in {"DP_FIRST_ABOVE", "DP_KEYS"}  # none may have so many rows
    (row,) = opened.sql(f"SELECT {', '.join(asked)} FROM t").rows
    # The k largest groups are a list: each of them is a value.
    lists = [value if isinstance(value, list) else [value] for value in row]
    for values, of in zip(lists, expected, strict=True):
        found = [(value,) for value in values if value is not None or not may_miss]
        assert found or may_miss
        require_right(found, [of])
        if mechanism in OF_LISTS and function.name == "DP_QUANTILE":
            require_rising(values)
        if function.chooses and function.name != "DP_KEYS":
            require_on_grid(values)


def require_rising(values: list[Any]) -> None:
    """Lists stand in the order that was asked for, and an order has one value."""
    assert len(values) == len(ORDERS)
    in_order = sorted(zip(ORDERS, values, strict=True))
    assert [value for _, value in in_order] == sorted(values)
    assert values[1] == values[3]


def require_on_grid(values: list[Any]) -> None:
    """What is drawn from a column stands on the column's grid, to the cent."""
    for value in values:
        if isinstance(value, float):
            assert value == round(value, 2)
        if isinstance(value, Decimal):
            assert value.as_tuple().exponent == -2


def released(policy: Policy, query: str) -> Release:
    (frontier,) = planned(policy, query).frontiers
    return frontier.releases[-1].release


def mechanism_of(release: Any) -> Any:
    return getattr(release, "noise", None) or release.mechanism


@pytest.mark.parametrize("neighbours", Neighbours)
@pytest.mark.parametrize(
    ("function", "mechanism"), PAIRS, ids=lambda one: getattr(one, "name", one)
)
def test_groups_are_refused_where_one_charge_does_not_cover_them(
    function: DPFunction, mechanism: str, neighbours: Neighbours
) -> None:
    """A majority is said in steps of a row's own weight there, so that its loss adds up."""
    asked, _ = next(calls(function, mechanism))
    policy = policy_of(private_table([], COLUMNS, unit=None), neighbours)
    alone = mechanism_of(released(policy, f"SELECT {asked} FROM t"))
    grouped = f"SELECT g, {asked} FROM t GROUP BY g"
    if isinstance(alone, Majority):
        assert mechanism_of(released(policy, grouped)).step == 1
    elif alone.weight_linear:
        assert isinstance(mechanism_of(released(policy, grouped)), type(alone))
    else:
        with pytest.raises(PlanRefused):
            released(policy, grouped)


@pytest.mark.parametrize("alias", MECHANISM_ALIASES)
def test_a_mechanism_is_known_by_its_other_name(alias: str) -> None:
    policy = policy_of(private_table([], COLUMNS, unit=None))
    kind = MECHANISM_ALIASES[alias]
    order = "[0.5]" if kind in OF_LISTS else "0.5"
    for name in (alias, alias.upper()):
        asked = f"DP_QUANTILE(i, {order}, eps=1, mechanism='{name}')"
        assert mechanism_of(released(policy, f"SELECT {asked} FROM t")).name == kind
