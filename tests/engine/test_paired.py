"""Which pairs of one unit's rows a join takes: all of most units, few of those with many."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from dpquery.core.types import DOUBLE, INTEGER, TEXT
from dpquery.ir import relations as extent
from dpquery.ir.relations import MOST_PAIRS, kept_rows
from dpquery.policy.model import Column
from tests.worlds import World, private_table, world, write

COLUMNS = [
    *(Column(name, INTEGER) for name in ("unit", "a", "b")),
    *(Column("d", DOUBLE), Column("c", TEXT)),
]
W = 2**32
ALL = 2**20
"""Rows of a unit that count: more than there are."""
FIRST = kept_rows(MOST_PAIRS)


def saved(place: Path, **columns: Sequence[object]) -> Path:
    """Write rows; columns that are not given hold nothing."""
    size = len(columns["unit"])
    given = {"a": [0] * size, "b": [0] * size, "d": [0.0] * size, "c": ["x"] * size}
    return write(place / "t.parquet", **(given | columns))


def rows(small: World, join: str, what: str = "*") -> int:
    (found,) = small.exact(
        f"SELECT DP_COUNT({what}, eps=1, max_rows_contributed={ALL}) FROM t x {join}"
    )
    assert found % W == 0
    return found // W


def test_rows_that_meet_on_a_key_are_joined_however_many_a_unit_has(tmp_path: Path):
    """300,000 rows of one unit, each with one partner: none is lost."""
    many = 300_000
    path = saved(tmp_path, unit=[1] * many + [2, 3], a=[*range(many), 7, 8])
    on = "JOIN t y ON x.unit = y.unit AND x.a = y.a"
    with world("duckdb", private_table([path], COLUMNS)) as small:
        assert rows(small, on) == many + 2
        assert rows(small, "JOIN t y USING (unit, a)") == many + 2
        assert rows(small, ", t y WHERE x.unit = y.unit AND y.a = x.a") == many + 2
        assert rows(small, f"LEFT {on} AND y.a < 5", "y.a") == 5
        assert rows(small, f"FULL {on}") == many + 2


def test_one_row_meets_all_rows_of_its_unit(tmp_path: Path):
    """As many pairs as a side has rows are taken, whatever they are."""
    many = MOST_PAIRS + 5
    path = saved(tmp_path, unit=[1] * many, a=[*range(many)])
    one = "JOIN (SELECT unit FROM t WHERE a = 3) y ON x.unit = y.unit"
    with world("duckdb", private_table([path], COLUMNS)) as small:
        assert rows(small, one) == many
        two = one.replace("a = 3", "a IN (3, 4)")
        assert rows(small, two) == 2 * FIRST


@pytest.mark.parametrize(
    ("own", "pairs"), [(FIRST, FIRST**2), (FIRST + 1, FIRST**2), (1000, FIRST**2), (9, 81)]
)
def test_a_unit_with_too_many_pairs_is_cut_and_no_other(tmp_path: Path, own: int, pairs: int):
    path = saved(tmp_path, unit=[1] * own + [2] * 3 + [None] * 2, a=[*range(own + 5)])
    with world("duckdb", private_table([path], COLUMNS)) as small:
        assert rows(small, "JOIN t y ON x.unit = y.unit") == pairs + 9
        least = "JOIN (SELECT unit, a FROM t) y ON x.unit = y.unit WHERE x.a < 5 AND y.a < 5"
        assert rows(small, least) == 25


@pytest.mark.parametrize("pairs", [1, 5, 9, 16, 10**4])
def test_both_engines_count_pairs_by_what_is_equated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pairs: int
):
    """Zeros of both signs are one, NULL and NaN meet nothing, equal rows are counted each."""
    monkeypatch.setattr(extent, "MOST_PAIRS", pairs)
    path = saved(
        tmp_path,
        unit=[1] * 6 + [2] * 5 + [3] * 4 + [4],
        a=[1, 1, 1, 2, None, None, 5, 5, 5, 5, 5, 1, 2, 3, 4, 1],
        b=[1, 2, 1, 1, None, 5, 5, 5, 5, 5, 5, 4, 3, 2, 1, 1],
        d=[0.0, -0.0, 0.0, float("nan"), None, 1.5, *[2.0] * 5, 1.0, 2.0, 3.0, 4.0, 0.0],
        c=["a", "A", "a", None, "", "", *"bbbbb", *"abcd", "x"],
    )
    joins = [
        "JOIN t y ON x.unit = y.unit",
        "JOIN t y ON x.unit = y.unit AND x.a = y.b",
        "JOIN t y ON x.unit = y.unit AND x.d = y.d AND x.a < y.b",
        "JOIN t y ON x.unit = y.unit AND x.c = y.c AND x.a + 1 = y.b",
        "LEFT JOIN t y ON x.unit = y.unit AND x.a = y.d",
        "FULL JOIN t y ON x.unit = y.unit AND x.c = y.c AND x.b <> y.b",
        ", t y WHERE x.unit = y.unit AND x.a = y.a AND x.b > 0",
        "SEMI JOIN t y ON x.unit = y.unit AND x.c = y.c AND x.a < y.a",
        "ANTI JOIN t y ON x.unit = y.unit AND x.d < y.d",
        "JOIN t y ON x.unit = y.unit AND x.a = y.a JOIN t z ON z.unit = y.unit AND z.b = x.b",
    ]
    table = private_table([path], COLUMNS)
    with world("duckdb", table) as small, world("python", table) as oracle:
        for join in joins:
            assert rows(small, join) == rows(oracle, join), join
