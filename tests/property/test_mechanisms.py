"""Every mechanism of every function over the barest columns: a value of the right type, always.

Empty, constant, of two values, of one row, of NULL alone. What is asked comes from the registry
of functions, so a mechanism that is added is asked for by itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from dpquery import functions
from dpquery.functions.base import Argument, DPFunction
from dpquery.functions.quantiles import OF_LISTS
from dpquery.session import Session
from tests.property.test_extremes import (
    DATA,
    LEAST,
    MOST,
    TYPES,
    Wanted,
    require_right,
    session,
)

NUMBERS = ("i", "point", "wide", "d", "m")
OF_ARGUMENT = {
    Argument.VALUE: ("i", "day"),
    Argument.NUMBER: NUMBERS,
    Argument.ORDERED: (*NUMBERS, "day", "at"),
    Argument.CONDITION: ("b", "i > 0"),
    Argument.LISTED: ("g", "i", "b"),
    Argument.DISCRETE: ("g", "i", "m", "b", "day", "at"),
}
CHOSEN = {"g": (str, "a", "empty"), "i": (int, -5, 100), "b": (bool, False, True)}
MORE = {"DP_QUANTILE": ", 0.9", "DP_FIRST_ABOVE": ", 2", "DP_TOP_K": ", 2"}
SQUARED = {"DP_VAR_POP", "DP_VAR_SAMP", "DP_STDDEV_POP", "DP_STDDEV_SAMP"}
UNFIT = {name: {"wide"} for name in SQUARED} | {"DP_FIRST_ABOVE": {"wide", "d", "at"}}
"""Columns whose squares do not fit, or which have too many values for what weighs each."""
PAIRS = [
    (function, mechanism)
    for function in functions.ALL
    for mechanism in function.mechanisms
    if function.name != "DP_QUANTILE" or mechanism not in OF_LISTS  # test_lists.py
]


def wanted(function: DPFunction, name: str) -> Wanted:
    """Give the type of a value, and where it lies."""
    anywhere = (-math.inf, math.inf)
    match function.name:
        case "DP_MODE" | "DP_TOP_K":
            return CHOSEN[name]
        case "DP_KEYS" if name in CHOSEN:
            return CHOSEN[name]
        case "DP_COUNT" | "DP_COUNT_IF":
            return int, *anywhere
        case "DP_MAJORITY":
            return bool, False, True
        case "DP_PROPORTION":
            return float, 0, 1
        case "DP_SUM":
            return TYPES[name], *anywhere
        case "DP_AVG":
            return float, LEAST[name], MOST[name]
        case of if of in SQUARED:
            return float, 0, math.inf
    return TYPES[name], LEAST[name], MOST[name]


def calls(function: DPFunction, mechanism: str) -> Iterator[tuple[str, Wanted]]:
    delta = ", delta=1e-9" if mechanism in {"gaussian", "partition"} else ""
    named = f", mechanism='{mechanism}'" if len(function.mechanisms) > 1 else ""
    more = MORE.get(function.name, "")
    for name in OF_ARGUMENT[function.argument]:
        if name not in UNFIT.get(function.name, ()):
            text = f"{function.name}({name}{more}, eps=1{delta}{named})"
            yield text, wanted(function, name)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Session]]:
    folder = tmp_path_factory.mktemp("barest")
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                session(folder / f"{number}.parquet", rows, "duckdb", unit=None)
            )
            for number, rows in enumerate(DATA.values())
        ]


@pytest.mark.parametrize(
    ("function", "mechanism"), PAIRS, ids=lambda one: getattr(one, "name", one)
)
def test_every_mechanism_answers(
    sessions: list[Session], function: DPFunction, mechanism: str
) -> None:
    asked, expected = zip(*calls(function, mechanism), strict=True)
    may_miss = function.name in {"DP_FIRST_ABOVE", "DP_KEYS"}  # none may have so many rows
    for opened in sessions:
        (row,) = opened.sql(f"SELECT {', '.join(asked)} FROM t").rows
        # The k largest groups are a list: each of them is a value.
        lists = [value if isinstance(value, list) else [value] for value in row]
        for values, of in zip(lists, expected, strict=True):
            found = [(value,) for value in values if value is not None or not may_miss]
            assert found or may_miss
            require_right(found, [of])
