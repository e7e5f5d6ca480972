"""Values of bounds so wide that their products pass every double: answers, and no failure."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpquery
from tests.worlds import write

POLICY = """
[budget]
epsilon = 10
[tables.t]
path = "t.parquet"
privacy_unit_column = "u"
privacy_unit_type = "integer"
rows_per_unit = 1
[tables.t.columns]
y = { type = "double", bounds = [-1e308, 1e308] }
"""


@pytest.mark.parametrize(
    "call",
    [
        *("DP_AVG(y", "DP_VAR_POP(y", "DP_STDDEV_SAMP(y", "DP_STDDEV_POP(y"),
        *("DP_COVAR_POP(y, y", "DP_COVAR_SAMP(y, y", "DP_CORR(y, y", "DP_REGR_R2(y, y"),
        *("DP_REGR_SLOPE(y, y", "DP_REGR_INTERCEPT(y, y"),
    ],
)
def test_what_passes_the_largest_double_is_answered_with_an_interval(call: str, tmp_path: Path):
    write(tmp_path / "t.parquet", u=list(range(20)), y=[float(i) for i in range(20)])
    (tmp_path / "policy.toml").write_text(POLICY)
    with dpquery.connect(tmp_path / "policy.toml") as session:
        query = f"SELECT {call}, eps=1) AS v FROM t"
        assert "error" in str(session.explain(query))
        answer = session.sql(query)
        assert isinstance(answer.scalar(), float)
        (found,) = answer.interval("v", 0.95)
        assert found is None or found[0] <= found[1]
