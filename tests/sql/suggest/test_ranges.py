"""Groups that a range would make public: the range that is offered is enough."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpquery
from dpquery.errors import QueryRefused
from dpquery.policy.sources.paths import copy_samples

COUNT = "DP_COUNT(*, eps=0.1, max_rows_contributed=1)"


@pytest.mark.parametrize(
    ("key", "column"),
    [
        ("DATE_TRUNC('month', day)", "day"),
        ("STRFTIME(at, '%Y-%m')", "at"),
        ("minutes // 60", "minutes"),
        ("v.minutes // 60", "minutes"),
    ],
)
@pytest.mark.parametrize("where", ["", " WHERE spent > 3 OR region = 'north'"])
def test_a_range_is_offered_for_groups_of_ones_own_file(
    tmp_path: Path, key: str, column: str, where: str
) -> None:
    copy_samples(tmp_path / "data")
    file = str(tmp_path / "data" / "visits.parquet")
    with dpquery.connect(file, unit="person_id", epsilon=1.0) as session:
        query = f"SELECT {key} AS k, {COUNT} FROM visits v{{}} GROUP BY k"
        with pytest.raises(QueryRefused) as caught:
            session.explain(query.format(where))
        offered, stated = caught.value.diagnostic.remedy[:2]
        assert caught.value.code == "DPQ402"
        session.explain(query.format(f" {offered}"))
    option, python = stated.removeprefix("or ").split(" for the whole session, in Python ")
    ends = eval(python.removeprefix("bounds="))[column]
    wanted = {"unit": "person_id", "epsilon": 1}
    with dpquery.connect(file, bounds={column: ends}, **wanted) as session:
        session.explain(query.format(where))
    named = option.removeprefix("--bounds ").removeprefix(f"{column}=").split(":")
    with dpquery.connect(file, bounds={column: tuple(named)}, **wanted) as session:
        session.explain(query.format(where))
