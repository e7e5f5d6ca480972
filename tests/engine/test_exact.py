"""The handle on exact integers: read by the release, never printed or copied (I4)."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from dpquery.engine.base import Exact
from dpquery.errors import InternalError
from dpquery.ir.measures import CountRows, Weight

MEASURE = CountRows(Weight(3, 5))


@pytest.mark.parametrize("text", [repr, str, "{}".format, "{!r:>40}".format])
def test_it_prints_no_value(text: Callable[[object], str]):
    assert "4711" not in text(Exact({MEASURE: (4711,)}))


@pytest.mark.parametrize(
    "leave", [pickle.dumps, copy.copy, copy.deepcopy, lambda exact: pickle.dumps(exact, 0)]
)
def test_it_does_not_leave_the_process(leave: Callable[[object], object]):
    with pytest.raises(InternalError, match="I4"):
        leave(Exact({MEASURE: (4711,)}))


@pytest.mark.parametrize("convert", [iter, list, len, int, float, dict, bytes, vars, next])
def test_it_converts_to_nothing(convert: Callable[[object], object]):
    with pytest.raises(TypeError) as caught:
        convert(Exact({MEASURE: (4711,)}))
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize(
    "cell", [1.0, True, np.int64(1), Fraction(1), "1", None, float("nan"), (1,)]
)
def test_only_integers_cross(cell: object):
    with pytest.raises(InternalError, match="only integers cross"):
        Exact({MEASURE: (0, cell)})  # type: ignore[arg-type]


def test_it_answers_for_its_own_measures_until_it_is_closed():
    exact = Exact({MEASURE: (4711, -(2**100))})
    with exact:
        assert exact.values(MEASURE) == (4711, -(2**100))
        with pytest.raises(InternalError):
            exact.values(CountRows(Weight(3, 6)))
    with pytest.raises(InternalError):
        exact.values(MEASURE)
    exact.close()
