"""A whole number that a result cannot hold is refused before the charge."""

from __future__ import annotations

import pytest

from dpquery.errors import QueryRefused
from tests.corpus.cases import planned

WIDE = "123456789012345678901234567890"
CALLS = [
    "DP_MEDIAN({}, eps=0.1)",
    "DP_QUANTILE({}, [0.2, 0.7], eps=0.1)",
    "DP_MIN({}, eps=0.1)",
    "DP_MAX({}, eps=0.1)",
    "DP_MODE({}, eps=0.1)",
    "DP_TOP_K({}, 1, eps=0.1)",
    "DP_FIRST_ABOVE({}, 3, eps=0.1)",
    "DP_SUM({}, eps=0.1)",
]
NUMBERS = [
    WIDE,
    f"-{WIDE}",
    "9223372036854775808",
    "CASE WHEN remote THEN 9223372036854775807 ELSE 9223372036854775809 END",
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_of_more_than_64_bits_is_refused(call: str, number: str):
    with pytest.raises(QueryRefused) as told:
        planned(f"SELECT {call.format(number)} FROM staff")
    assert told.value.code == "DPQ404"


@pytest.mark.parametrize("call", CALLS[:-1])
@pytest.mark.parametrize("number", ["9223372036854775807", "-9223372036854775807"])
def test_the_largest_is_taken(call: str, number: str):
    planned(f"SELECT {call.format(number)} FROM staff")
