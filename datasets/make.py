"""Makes the sample data: synthetic people, the same bytes on every run.

`python datasets/make.py` rewrites the files beside it and `checksums.txt`. Only `random()` and
exact arithmetic are used: their results change neither with Python's version nor the machine.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import math
import random
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["MADE", "generate", "write_shop"]

T = TypeVar("T")
Cycle = tuple[pa.DataType, list[object]]

PEOPLE = 1_000
VISITS = 5_000
MADE = (
    "staff.parquet",
    "visits.parquet",
    "edge.parquet",
    "regions.csv",
    "people.parquet",
    "orders.parquet",
    "items.parquet",
    "products.csv",
)

DEPTS = {"eng": (40, 82_000), "ops": (25, 51_000), "sales": (20, 58_000), "hr": (9, 47_000)}
"""Each department's share in per cent and its middle salary; the rest are in legal."""
LEGAL = 76_000
REGIONS = (
    ("north", "inland", 210_000),
    ("south", "coast", 340_000),
    ("east", "inland", 120_000),
    ("west", "coast", 480_000),
    ("centre", "inland", 890_000),
    ("islands", "coast", 14_000),  # nobody goes there: an empty group
)
PRODUCTS = {
    "books": {"novel": 1295, "atlas": 3490, "cookbook": 2450, "comic": 890},
    "garden": {"spade": 2999, "seeds": 249, "hose": 1999, "gloves": 795},
    "kitchen": {"pan": 3495, "knife": 1850, "kettle": 4200, "mug": 650},
    "toys": {"puzzle": 1499, "kite": 1100, "blocks": 2795, "ball": 595},
    "tools": {"drill": 7999, "hammer": 1650, "saw": 2100, "tape": 420},
}
"""The price of each product in cents, by category."""


class Dice:
    """A seeded source of integers and choices."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed).random

    def below(self, end: int) -> int:
        """Return an integer from 0 to end - 1."""
        return int(self.random() * end)

    def chance(self, percent: int) -> bool:
        """Say yes so many times in a hundred."""
        return self.below(100) < percent

    def pick(self, items: Sequence[T]) -> T:
        """Return one of some items."""
        return items[self.below(len(items))]

    def hill(self, low: int, high: int) -> int:
        """Return an integer between two others, more often from the middle."""
        return low + sum(self.below(high - low + 1) for _ in range(3)) // 3

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in another order."""
        return [item for _, item in sorted((self.random(), item) for item in items)]


def staff() -> pa.Table:
    """Make one row per person; salaries stand on round numbers, as real ones do."""
    dice = Dice(1)
    rows = [_person(dice, person) for person in dice.shuffled(range(1, PEOPLE + 1))]
    return _table(
        rows,
        person_id=pa.int64(),
        dept=pa.string(),
        age=pa.int32(),
        salary=pa.int64(),
        bonus=pa.float64(),
        rating=pa.decimal128(3, 1),
        hired=pa.date32(),
        remote=pa.bool_(),
    )


def _person(dice: Dice, person: int) -> tuple[object, ...]:
    dept, middle = _dept(dice)
    salary = middle * dice.hill(50, 150) // 100
    if dice.below(200) == 0:
        salary *= 4  # directors, above the bounds of the policy
    salary = _rounded(salary, dice.pick((5_000, 5_000, 1_000, 1_000, 100, 1)))
    bonus = None if dice.chance(30) else salary * dice.below(2_001) // 100 / 100
    rating = None if dice.chance(10) else Decimal(dice.hill(10, 50)) / 10
    hired = date(2003, 1, 1) + timedelta(days=dice.below(8_000))
    return person, dept, dice.hill(18, 70), salary, bonus, rating, hired, dice.chance(35)


def _dept(dice: Dice) -> tuple[str, int]:
    drawn = dice.below(100)
    for dept, (share, middle) in DEPTS.items():
        if drawn < share:
            return dept, middle
        drawn -= share
    return "legal", LEGAL


def _rounded(number: int, step: int) -> int:
    return (number + step // 2) // step * step


def visits() -> pa.Table:
    """Make many rows per person: one has hundreds, most a few, a quarter none."""
    dice = Dice(2)
    people = dice.shuffled(range(1, PEOPLE + 1))
    most = 745
    owners = [person for rank, person in enumerate(people, 1) for _ in range(most // rank)]
    rows = [_visit(dice, person) for person in dice.shuffled(owners[:VISITS])]
    return _table(
        rows,
        person_id=pa.int64(),
        day=pa.date32(),
        region=pa.string(),
        minutes=pa.int32(),
        spent=pa.decimal128(9, 2),
        at=pa.timestamp("us"),
    )


def _visit(dice: Dice, person: int) -> tuple[object, ...]:
    day = date(2025, 1, 1) + timedelta(days=dice.below(90))
    at = _time(f"{day}T07:00:00") + timedelta(milliseconds=dice.below(12 * 3_600_000))
    minutes = 5 * max(1, 48 // (1 + dice.below(48)))
    spent = Decimal(_rounded(dice.below(60) * minutes, 25)) / 10
    return person, day, _region(dice), minutes, None if dice.chance(5) else spent, at


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _region(dice: Dice) -> str | None:
    if dice.chance(3):
        return None
    if dice.chance(3):
        return "abroad"  # no region of the public table
    first, second = dice.below(5), dice.below(5)
    return REGIONS[max(first, second)][0]  # the later, the more often


def write_shop(directory: Path, customers: int) -> None:
    """Write the tables of a shop: people, their orders, and the items of each order."""
    dice = Dice(3)
    numbers = dice.shuffled(range(1, customers + 1))
    orders = [order for person in numbers for order in _orders(dice, person)]
    items = [item for order in dice.shuffled(orders) for item in _items(dice, order)]
    _write(
        directory / "people.parquet",
        _table(
            [_customer(dice, person) for person in numbers],
            person_id=pa.int64(),
            region=pa.string(),
            born=pa.date32(),
            income=pa.int64(),
            joined=pa.date32(),
            newsletter=pa.bool_(),
        ),
    )
    _write(
        directory / "orders.parquet",
        _table(
            dice.shuffled(orders),
            person_id=pa.int64(),
            order_id=pa.int64(),
            ordered=pa.timestamp("us"),
            channel=pa.string(),
            shipping=pa.decimal128(5, 2),
        ),
    )
    _write(
        directory / "items.parquet",
        _table(
            items,
            person_id=pa.int64(),
            order_id=pa.int64(),
            product=pa.string(),
            quantity=pa.int32(),
            price=pa.decimal128(7, 2),
            returned=pa.bool_(),
        ),
    )


def _customer(dice: Dice, person: int) -> tuple[object, ...]:
    region = REGIONS[max(dice.below(5), dice.below(5))][0]
    born = date(1940, 1, 1) + timedelta(days=dice.hill(0, 24_000))
    joined = date(2020, 1, 1) + timedelta(days=dice.below(1_826))
    return person, region, born, 500 * dice.hill(20, 180), joined, dice.chance(40)


def _orders(dice: Dice, person: int) -> Iterable[tuple[object, ...]]:
    """Make the orders of a year: none for one in five, else up to twelve, mostly few."""
    if dice.chance(20):
        return
    for number in range(1 + min(dice.below(12), dice.below(12))):
        day = dice.below(365)
        if dice.chance(30):
            day = max(day, dice.below(365))  # more before the end of the year
        moment = timedelta(days=day, seconds=3_600 * dice.hill(6, 23) + dice.below(3_600))
        channel = dice.pick(("web",) * 6 + ("store",) * 3 + ("phone",))
        fee = None if channel == "store" else Decimal(dice.pick((0, 395, 595))) / 100
        yield person, 100 * person + number, _time("2025-01-01") + moment, channel, fee


def _items(dice: Dice, order: tuple[object, ...]) -> Iterable[tuple[object, ...]]:
    listed = [(name, price) for prices in PRODUCTS.values() for name, price in prices.items()]
    for _ in range(1 + min(dice.below(4), dice.below(4))):
        product, price = dice.pick(listed)
        if dice.chance(25):
            price = price * (100 - dice.pick((10, 20, 30))) // 100
        quantity = 1 + min(dice.below(5), dice.below(5), dice.below(5))
        yield *order[:2], product, quantity, Decimal(price) / 100, dice.chance(8)


def edge() -> pa.Table:
    """Make hostile rows: every value that arithmetic, text or time can trip over."""
    rows = 72  # a common multiple of most cycles, so that values meet each other
    arrays = {
        name: pa.array(itertools.islice(itertools.cycle(values), rows), type_)
        for name, (type_, values) in (_edge_numbers() | _edge_others()).items()
    }
    return pa.table(arrays)


def _edge_numbers() -> dict[str, Cycle]:
    inf, nan = math.inf, math.nan
    return {
        "unit id": (pa.int64(), [7, 7, 7, None, -(2**63), 2**63 - 1, 0, -1, None]),
        "unit_text": (
            pa.string(),
            ["a", "A", "", " a", "a ", "\u00e9", "e\u0301", None, "a\0b"],
        ),
        "tiny": (pa.int8(), [-128, 127, 0, None]),
        "short": (pa.int16(), [-(2**15), 2**15 - 1, None]),
        "medium": (pa.int32(), [-(2**31), 2**31 - 1, None]),
        "big": (pa.int64(), [-(2**63), 2**63 - 1, 0, None]),
        "utiny": (pa.uint8(), [0, 255, None]),
        "ushort": (pa.uint16(), [0, 2**16 - 1, None]),
        "umedium": (pa.uint32(), [0, 2**32 - 1, None]),
        "ubig": (pa.uint64(), [0, 2**64 - 1, None]),
        "real": (pa.float32(), [nan, inf, -inf, -0.0, 2.0**-149, -(2.0**127), 0.5, None]),
        "value": (
            pa.float64(),
            [nan, inf, -inf, -0.0, 5e-324, 1.7976931348623157e308, 0.5, None],
        ),
        "money": (
            pa.decimal128(18, 4),
            [Decimal("99999999999999.9999"), Decimal("-0.0001"), None],
        ),
        "wide": (pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(1 - 10**38), None]),
    }


def _edge_others() -> dict[str, Cycle]:
    return {
        "note": (pa.string(), _texts()),
        "flag": (pa.bool_(), [True, False, None]),
        "day": (pa.date32(), [date.min, date.max, date(1970, 1, 1), date(2024, 2, 29), None]),
        "at": (
            pa.timestamp("us"),
            [
                _time("0001-01-01"),
                _time("9999-12-31T23:59:59.999999"),
                _time("1969-12-31"),
                None,
            ],
        ),
        "nanos": (pa.timestamp("ns"), [_time("1970-01-01"), None]),
        "zoned": (pa.timestamp("us", "UTC"), [_time("1970-01-01"), None]),
        "blob": (pa.binary(), [b"", b"\x00\xff", None]),
        "list": (pa.list_(pa.int64()), [[], [1, None], None]),
        'quo"ted': (pa.int64(), [1, None]),
        "se'lect; --": (pa.int64(), [2, None]),
        "Stra\u00dfe \u6570": (pa.int64(), [3, None]),
        "rowid": (pa.int64(), [4, None]),
        "empty": (pa.int64(), [None]),
    }


def _texts() -> list[object]:
    return [
        "",
        " ",
        "it's",
        'say "so"',
        "-- ; /* */ $$",
        "a\tb\nc\rd",
        "\x1b[31mred",
        "NULL",
        "nan",
        "%_\\",
        "\u202eright to left",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "x" * 100_000,
        None,
    ]


def _table(rows: Iterable[tuple[object, ...]], **types: pa.DataType) -> pa.Table:
    columns = zip(*rows, strict=True)
    named = zip(types.items(), columns, strict=True)
    return pa.table({name: pa.array(values, type_) for (name, type_), values in named})


def generate(directory: Path) -> None:
    """Write all files that are made, and their checksums."""
    for name, table in (("staff", staff()), ("visits", visits()), ("edge", edge())):
        _write(directory / f"{name}.parquet", table)
    write_shop(directory, PEOPLE)
    _write_csv(directory / "regions.csv", ("region", "zone", "inhabitants"), REGIONS)
    products = [
        (name, category, Decimal(price) / 100)
        for category, prices in PRODUCTS.items()
        for name, price in prices.items()
    ]
    _write_csv(directory / "products.csv", ("product", "category", "price"), products)
    sums = [
        f"{hashlib.sha256((directory / name).read_bytes()).hexdigest()}  {name}"
        for name in MADE
    ]
    (directory / "checksums.txt").write_text("\n".join(sums) + "\n", encoding="utf-8")


def _write(path: Path, table: pa.Table) -> None:
    # no compression: the bytes then depend on pyarrow's version alone
    pq.write_table(table, path, compression="none")


def _write_csv(path: Path, head: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(head)
        lines.writerows(rows)


if __name__ == "__main__":
    generate(Path(__file__).parent)
