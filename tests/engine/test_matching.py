"""Which different values count: as many as can, and one unit more adds at most its limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import date
from decimal import Decimal
from itertools import combinations, combinations_with_replacement, permutations
from pathlib import Path
from time import process_time

import pytest

from dpquery.core.types import DATE, DOUBLE, INTEGER, TEXT, Kind, Type
from dpquery.engine.distinct_matching import OF_PAIR, OF_UNIT, Slots
from dpquery.engine.duckdb import private_engine as of_engine
from dpquery.engine.duckdb.connection import memory_of, start
from dpquery.errors import ScanFailed
from dpquery.policy.model import Bounds, Column
from tests.oracle.told import placed_with_units
from tests.worlds import private_table, world, write

Owned = frozenset[int]
"""The values that a unit has."""
VALUES = range(4)
CELLS = (0, 0, 1, 1)
CODES = (5, -3, 2, 4)
UNITS = [frozenset(v) for size in range(4) for v in combinations(VALUES, size)]
Choice = Callable[[Sequence[Owned], int], set[int]]


def counted(units: Sequence[Owned], limit: int) -> set[int]:
    """Return the values that count, of units each of which has some."""
    slots = Slots(limit)
    asked = ([u for u, owned in enumerate(units) if value in owned] for value in VALUES)
    return {value for value, owners in zip(VALUES, asked, strict=True) if slots.place(owners)}


def most(units: Sequence[Owned], limit: int) -> int:
    """Return how many values can count: the least of what any set of values allows (Hall)."""
    return min(
        len(VALUES) - len(among) + sum(min(limit, len(set(among) & owned)) for owned in units)
        for size in range(len(VALUES) + 1)
        for among in combinations(VALUES, size)
    )


def worlds() -> Iterator[tuple[Owned, ...]]:
    for size in range(4):
        yield from combinations_with_replacement(UNITS, size)


def moves(choose: Choice, limit: int) -> Iterator[tuple[set[int], list[set[int]]]]:
    """Return what counts in each world, and with each unit more."""
    for units in worlds():
        yield choose(units, limit), [choose((*units, one), limit) for one in UNITS]


def by_cell(values: set[int]) -> list[int]:
    return [sum(CODES[v] for v in values if CELLS[v] == cell) for cell in (0, 1)]


def distance(one: set[int], other: set[int]) -> int:
    return sum(abs(a - b) for a, b in zip(by_cell(one), by_cell(other), strict=True))


@pytest.mark.parametrize("limit", [1, 2])
def test_as_many_count_as_can(limit):
    for units in worlds():
        assert len(counted(units, limit)) == most(units, limit)


class Watched(frozenset[int]):
    """The units of a value, which count how often they are looked at."""

    looks = 0

    def __iter__(self) -> Iterator[int]:
        Watched.looks += 1
        return super().__iter__()


def test_the_values_of_one_unit_cost_as_much_each_however_many_it_has():
    """Else how long a scan takes, or that it takes too long, tells of a single unit."""
    per_value = []
    for size in (100, 1600):
        Watched.looks, slots = 0, Slots(size + size // 4)
        for _ in range(size):
            for units in ({1}, {1, 2}, {2}):
                slots.place(Watched(units))
        per_value.append(Watched.looks / size)
    assert per_value[1] < 2 * per_value[0]


def test_values_that_no_unit_has_room_for_cost_as_much_each_however_many_units_there_are():
    """Of each two units, five values ask for four slots: no search looks at other units."""
    seconds = []
    for pairs in (1_000, 8_000):
        slots, began = Slots(2), process_time()
        placed = [slots.place((i % pairs, pairs + i % pairs)) for i in range(5 * pairs)]
        seconds.append(process_time() - began)
        assert placed == [True] * 4 * pairs + [False] * pairs
    assert seconds[1] < 8 * 4 * seconds[0]


@pytest.mark.parametrize("limit", [1, 2])
def test_one_unit_more_takes_none_away_and_adds_at_most_its_limit(limit):
    added = set()
    for before, after in moves(counted, limit):
        assert all(before <= one for one in after)
        added |= {len(one - before) for one in after}
    assert max(added) == limit


@pytest.mark.parametrize("limit", [1, 2])
def test_sums_move_by_at_most_what_is_claimed(limit):
    """Added: the limit times the largest size. Replaced: twice, and the width in one group."""
    added, replaced, ungrouped, number = 0, 0, 0, 0
    for before, after in moves(counted, limit):
        added = max(added, *(distance(before, one) for one in after))
        for one, other in combinations(after, 2):
            replaced = max(replaced, distance(one, other))
            ungrouped = max(ungrouped, abs(sum(by_cell(one)) - sum(by_cell(other))))
            number = max(number, abs(len(one) - len(other)))
    assert number == limit
    assert added <= limit * 5
    assert replaced <= limit * 10
    assert ungrouped <= limit * 8
    if limit == 1:
        assert (added, replaced, ungrouped) == (5, 9, 8)  # 5 in one group and 4 in the other


@pytest.mark.parametrize("limit", [1, 2])
def test_the_order_in_which_units_are_named_decides_nothing(limit):
    for units in worlds():
        found = counted(units, limit)
        assert all(counted(other, limit) == found for other in permutations(units))


def without_exchange(units: Sequence[Owned], limit: int) -> set[int]:
    """Give each value to the first unit that has room, and move none."""
    room, found = [limit] * len(units), set()
    for value in VALUES:
        at = next((u for u, has in enumerate(units) if value in has and room[u]), None)
        if at is not None:
            room[at] -= 1
            found.add(value)
    return found


def by_popularity(units: Sequence[Owned], limit: int) -> set[int]:
    """Place values that many units have first: as many count, but the data set the order."""
    slots, found = Slots(limit), set()
    owners = {v: [u for u, has in enumerate(units) if v in has] for v in VALUES}
    for value in sorted(VALUES, key=lambda v: -len(owners[v])):
        if slots.place(owners[value]):
            found.add(value)
    return found


def test_mistakes_are_caught():
    assert any(len(without_exchange(units, 1)) < most(units, 1) for units in worlds())
    worst = max(distance(a, one) for a, after in moves(by_popularity, 1) for one in after)
    assert worst > 5


@pytest.mark.parametrize("limit", [1, 2])
def test_the_oracle_chooses_the_same_values(limit, monkeypatch):
    monkeypatch.setattr("tests.oracle.told._order", lambda *asked: str(asked[2][0]))
    for units in worlds():
        pairs = [(u, (value,)) for u, owned in enumerate(units) for value in owned]
        chosen = {value for (value,) in placed_with_units(pairs, limit, "", INTEGER)}
        assert chosen == counted(units, limit)


def test_a_long_path_of_exchanges_is_found():
    """Each unit but the last holds what the next one has too: the last value moves them all."""
    size, slots = 5_000, Slots(1)
    assert all(slots.place([unit, unit + 1]) for unit in range(size))
    assert slots.place([0])
    assert not slots.place([*range(size)])


def test_memory_is_that_of_pairs_that_are_held_and_of_units():
    slots = Slots(1, 2 * OF_UNIT + 4 * OF_PAIR)
    assert slots.place("ab")
    assert slots.place("b")
    assert not slots.place("a")  # nothing is held of what has no place
    with pytest.raises(MemoryError):
        slots.place("c")
    with pytest.raises(MemoryError):
        Slots(1, 2 * OF_UNIT + OF_PAIR).place("ab")


X = Column("x", INTEGER, Bounds(0, 199))


def test_values_that_take_too_much_memory_fail_the_scan(tmp_path: Path, monkeypatch):
    path = write(tmp_path / "t.parquet", unit=[1, 1, 2, 2], x=[5, 6, 6, 7])
    monkeypatch.setattr(of_engine, "memory_of", lambda _: 2 * OF_UNIT + 3 * OF_PAIR)
    with world("duckdb", private_table([path], [X])) as small:
        with pytest.raises(ScanFailed) as caught:
            small.exact("SELECT DP_COUNT(DISTINCT x, eps=1, max_rows_contributed=1) FROM t")
        assert caught.value.code == "DPQ701"


def test_memory_is_what_the_policy_allows():
    with closing(start()) as connection:
        connection.execute("SET memory_limit = '256MiB'")
        assert memory_of(connection) == 2**28
        connection.execute("SET memory_limit = '4GB'")
        assert abs(memory_of(connection) - 4e9) < 1e8


def test_values_of_units_with_many_are_not_lost(engine, tmp_path: Path):
    """Each of 200 units has 10 of 200 values: of one for each, chosen by chance, 127 differ."""
    owned = [(unit, (7 * unit + place**2) % 200) for unit in range(200) for place in range(10)]
    units, values = zip(*owned, strict=True)
    path = write(tmp_path / "t.parquet", unit=units, x=values)
    with world(engine, private_table([path], [X])) as small:
        call = "DP_COUNT(DISTINCT x, eps=1, max_rows_contributed={})".format
        assert small.exact(f"SELECT {call(1)} FROM t") == [200]
    few = write(tmp_path / "f.parquet", unit=units[:70], x=values[:70])
    with world(engine, private_table([few], [X])) as small:
        assert [small.exact(f"SELECT {call(k)} FROM t") for k in (1, 3)] == [[7], [21]]


def test_each_value_counts_once_whoever_has_it(engine, tmp_path: Path):
    """Of a count, a sum, a mean and a variance: n values, their sum, and that of squares."""
    path = write(tmp_path / "t.parquet", unit=[1, 1, 1, 2, 2, 3], x=[5, 5, 9, 5, None, 7])
    with world(engine, private_table([path], [X])) as small:
        for call, exact in {
            "COUNT": [3],
            "SUM": [21],
            "AVG": [3, 21],
            "VAR_POP": [3, 21, 155],
        }.items():
            asked = f"DP_{call}(DISTINCT x, eps=1, max_rows_contributed=2)"
            assert small.exact(f"SELECT {asked} FROM t") == exact
            assert small.exact(f"SELECT {asked} FILTER (WHERE x > 9) FROM t") == [0] * len(
                exact
            )


def test_a_value_counts_in_each_group_and_a_unit_in_all_together(engine, tmp_path: Path):
    """Unit 1 has all four; unit 2 one of them, which leaves the slot of unit 1 for another."""
    path = write(
        tmp_path / "t.parquet", unit=[1, 1, 1, 1, 2], x=[3, 4, 3, 4, 4], b=[0, 0, 1, 1, 1]
    )
    columns = [X, Column("b", INTEGER, Bounds(0, 1))]
    with world(engine, private_table([path], columns)) as small:
        asked = (
            "SELECT b, DP_COUNT(DISTINCT x, eps=1, max_rows_contributed={}) FROM t GROUP BY b"
        )
        one, two, four = (small.groups(asked.format(k))[0] for k in (1, 2, 4))
        assert (sum(one), sum(two), four) == (2, 3, [2, 2, 0])


@pytest.mark.parametrize("type_", [DOUBLE, TEXT, DATE, Type(Kind.DECIMAL, 5, 2)])
def test_values_of_each_type_are_told_apart(engine, tmp_path: Path, type_):
    cells = {
        Kind.DOUBLE: [0.5, -0.0, 0.0, 1.0],
        Kind.TEXT: ["a", "b", "b", ""],
        Kind.DATE: [date(2020, 1, 1), date(2020, 1, 2), date(2020, 1, 2), date(1970, 1, 1)],
        Kind.DECIMAL: [Decimal("0.10"), Decimal("0.01"), Decimal("0.01"), Decimal("-1.00")],
    }[type_.kind]
    path = write(tmp_path / "t.parquet", unit=["u", "u", "v", "u"], x=cells)
    table = private_table([path], [Column("x", type_)], unit_type=TEXT)
    with world(engine, table) as small:
        for limit, found in ((1, 2), (2, 3), (3, 3)):
            call = f"DP_COUNT(DISTINCT x, eps=1, max_rows_contributed={limit})"
            assert small.exact(f"SELECT {call} FROM t") == [found]
