"""What EXPLAIN says that no mechanism undercuts, and where it says nothing."""

from __future__ import annotations

import re

import pytest

from dpquery import connect
from dpquery.policy.sources.files import copy_samples
from tests.samples import edit


@pytest.fixture
def policy(tmp_path):
    return copy_samples(tmp_path / "samples")


def best(session, call: str, rest: str = "FROM staff") -> str | None:
    """Return what EXPLAIN says no mechanism undercuts, its lines as one."""
    text = " ".join(str(session.explain(f"SELECT {call} AS x {rest}")).split())
    found = re.search(r"no better (.*?)(?: note| budget| DP_)", text)
    return found and found[1]


def test_explain_says_it_where_a_theorem_fits(policy):
    with connect(policy) as session:
        assert best(session, "DP_COUNT(*, eps=1)") == (
            "than ± 3, which this is; noise adds 0.1 % to sampling"
        )
        said = {
            "DP_COUNT(*, eps=0.1)": "than ± 30, which this is; noise adds 9.5 % to sampling",
            "DP_SUM(salary, eps=1)": "than ± 500000; this is 1.2 times that",
            "DP_AVG(salary, eps=1)": r"than ± 297; this is 2 times that; noise adds 0.6 % .*",
            "DP_PROPORTION(remote, eps=1)": "than ± 0.00148; this is 2 times that; noise .*",
            "DP_MEDIAN(age, eps=1)": r"than \d ranks on any data; this is 7 times that",
            "DP_QUANTILE(salary, [0.2, 0.9], eps=1)": "than 5.5 ranks on any data; .* that",
            "DP_MODE(dept, eps=0.1)": "than 15 rows fewer; this is 3.1 times that",
            "DP_HISTOGRAM(age, [30, 40], eps=1)": "than ± 3, which this is",
        }
        for call, expected in said.items():
            assert re.fullmatch(expected, best(session, call) or ""), (
                call,
                best(session, call),
            )


def test_explain_says_nothing_where_none_fits(policy):
    with connect(policy) as session:
        for call in (
            "DP_SUM(salary - salary, eps=1)",
            "DP_AVG(salary - age, eps=1)",
            "DP_VAR_POP(salary, eps=1)",
            "DP_QUANTILE(age, 1, eps=1)",
            "DP_MAX(age, eps=1)",
            "DP_COUNT(*, eps=9)",
        ):
            assert best(session, call) is None, call
        told = session.sql(
            "EXPLAIN SELECT AVG(salary), COUNT(*), SUM(salary) FROM staff", eps=1
        )
        assert "no better" not in str(told)
    edit(policy, 'neighbours = "add-remove"', 'neighbours = "substitute"')
    with connect(policy) as session:
        assert best(session, "DP_COUNT(*, eps=1) FILTER (WHERE age > 30)") is None
