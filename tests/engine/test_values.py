"""Every type through the clamp: what a file holds, and what a condition then sees of it."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path

import pyarrow as pa
import pytest

from dpquery.core.types import BOOLEAN, DATE, DOUBLE, INTEGER, TEXT, TIMESTAMP, Kind, Type
from dpquery.errors import PlanRefused
from dpquery.policy.model import Bounds, Column
from tests.turns import in_turn
from tests.worlds import private_table, world, write

NAN, INF = float("nan"), float("inf")
LEAST, MOST = -(2**63), 2**63 - 1
LONG = "x" * 100_000


def decimal_type(precision: int, scale: int) -> Type:
    return Type(Kind.DECIMAL, precision, scale)


def decimals(texts: list[str | None], precision: int, scale: int) -> pa.Array:
    cells = [None if text is None else Decimal(text) for text in texts]
    return pa.array(cells, pa.decimal128(precision, scale))


INT_BOUNDS = Bounds(0, 100)
DATES = Bounds(date(2000, 1, 1), date(2020, 12, 31))
MOMENTS = Bounds(*map(datetime.fromisoformat, ("2000-01-01", "2020-12-31 23:59:59")))

CASES = [
    # name, cells, type, bounds, {condition: rows that meet it}
    *(
        (
            f"int{bits}",
            pa.array([-128, -1, 0, 50, 127, None], getattr(pa, f"int{bits}")()),
            INTEGER,
            INT_BOUNDS,
            {
                "x = 0": 3, "x = 100": 1, "x < 50": 3, "x > 49": 2, "x >= 0": 5, "x < 0": 0,
                "x <> 50": 4, "x IS NULL": 1, "x IS NOT NULL": 5, "NOT x = 0": 2,
                "x BETWEEN 0 AND 50": 4, "x IN (0, 100)": 4, "NOT x IN (0, 100)": 1,
            },
        )
        for bits in (8, 16, 32, 64)
    ),
    *(
        (
            f"uint{bits}",
            pa.array([0, 2**bits - 1, None], getattr(pa, f"uint{bits}")()),
            INTEGER,
            None,
            {f"x = {2**bits - 1}": 1, "x >= 0": 2, "-x < 0": 1, f"x + 1 > {2**bits - 1}": 1},
        )
        for bits in (8, 16, 32)
    ),
    (
        "bigint without bounds",
        pa.array([LEAST, LEAST + 1, -1, 0, MOST, None], pa.int64()),
        INTEGER,
        None,
        {
            f"x = {LEAST}": 1, f"-x = {2**63}": 1, f"-(-x) = {LEAST}": 1,
            f"-(-x) * 1e0 = {float(MOST)}": 1,
            f"x = {MOST}": 1, "x < 0": 3,
            f"x * 3 = {3 * MOST}": 1, f"x + 1 = {2**63}": 1, f"x - 1 < {LEAST}": 1,
            f"x // -1 = {2**63}": 1, "x % -1 = 0": 5, "x % 2 = -1": 2, "x // 0 IS NULL": 6,
            "x % x = 0": 4, "x // 2 = 0": 2, f"x // 2 = {-(2**62)}": 1, "x / 2 = -0.5": 1,
            f"x > {10**37}": 0,
        },
    ),
    (
        "double",
        pa.array([NAN, INF, -INF, -0.0, 0.0, 5e-324, 1e308, -7.5, 99.5, None], pa.float64()),
        DOUBLE,
        Bounds(Fraction(0), Fraction(1000)),
        {
            "x IS NULL": 2, "x = 0": 4, "x = 1000": 2, "x > 1e-320": 3, "x > 0": 4,
            "x >= 99.5": 3, "x <> 99.5": 7, "x < 99.5": 5, "NOT x > 99.5": 6, "x >= 1000": 2,
            "x IN (0, 99.5)": 5, "-x = 0": 4, "x BETWEEN 1 AND 999": 1,
            "1 / x > 1e300": 1, "x / 0 IS NULL": 10,
        },
    ),
    (
        "double without bounds",
        pa.array([NAN, INF, -INF, -0.0, 0.0, 1e308, -1e308, None], pa.float64()),
        DOUBLE,
        None,
        {
            "x IS NULL": 2, "x > 1e308": 1, "x * 10 > 1e308": 2, "x - x IS NULL": 4,
            "x - x = 0": 4, "x / x IS NULL": 6, "x * 0 = 0": 4, "x * 0 IS NULL": 4,
            "1 / x = 0": 2, "1 / x IS NULL": 4, "x = 0": 2, "x < 0": 2, "NOT x > 0": 4,
        },
    ),
    (
        "float",
        pa.array([NAN, INF, 0.1, 16777217.0, -3.5, None], pa.float32()),
        DOUBLE,
        Bounds(Fraction(-1), Fraction(10**8)),
        {
            "x > 0.1": 3, "x = 0.1": 0, "x = 16777216": 1, "x = -1": 1, "x = 100000000": 1,
            "x < 0.2": 2, "x IS NULL": 2,
        },
    ),
    (
        "integers held as doubles",
        pa.array([2**53 + 1, -5, 0, MOST, None], pa.int64()),
        DOUBLE,
        Bounds(Fraction(0), Fraction(2**60)),
        {f"x = {2**53}": 1, "x = 0": 2, f"x = {2**60}": 1, "x > 0.5": 2, "x IS NULL": 1},
    ),
    (
        "decimals held as doubles",
        decimals(["0.1", "-3.0", "9999999.9", None], 9, 1),
        DOUBLE,
        Bounds(Fraction(0), Fraction(1000)),
        {"x = 0.1": 1, "x = 0": 1, "x > 0.05": 2, "x IS NULL": 1},
    ),
    *(
        (
            f"decimal({precision}, {scale})",
            decimals(["-7.25", "0.00", "3.14", "99.99", None], precision, scale),
            decimal_type(precision, scale),
            Bounds(Fraction(0), Fraction("9.99")),
            {
                "x = 0": 2, "x = 9.99": 1, "x > 3.14": 1, "x >= 3.14": 2, "x < 3.140001": 3,
                "x * x = 9.8596": 1, "x + 0.01 = 10": 1, "x - 9.99 = 0": 1, "-x = -3.14": 1,
                "x / 2 = 1.57": 1, "x / 2 > 4.99": 1, "x * 1e0 = 3.14": 1, "x IN (0, 3.14)": 3,
                "x BETWEEN 3.1 AND 3.2": 1, "x IS NULL": 1,
            },
        )
        for precision, scale in ((4, 2), (9, 2), (18, 2))
    ),
    (
        "decimal whose difference is narrower than its values",
        decimals(["55.00", "40.00", "99.00"], 9, 2),
        decimal_type(9, 2),
        Bounds(Fraction(50), Fraction(60)),
        {"x - 55.5 = -0.5": 1, "x - 55.5 < 0": 2, "x - 55.5 > 4": 1, "x - x = 0": 3},
    ),
    (
        "decimal without bounds",
        decimals(["-0.999999999999999999", "0.999999999999999999", None], 18, 18),
        decimal_type(18, 18),
        None,
        {
            "x < 0": 1, "x * x > 0.999999999999999997": 2, "x + x = 1.999999999999999998": 1,
            "x * 0.0000000000000000001 > 0": 1, "x = 1": 0, "x * 1e0 = 1": 1,
        },
    ),
    (
        "text",
        pa.array(["", "eng", "ENG", "e\u0301x", "数数", "\U0001f600z", "a\0b", LONG, None]),
        TEXT,
        None,
        {
            "x = 'eng'": 1, "x = 'e\u0301x'": 1, "x = 'e'": 0, "x < 'a'": 2, "x > 'x'": 3,
            "x IN ('', '数数')": 2, "x IS NULL": 1, "x = 'xxx'": 1, "x = 'a'": 0,
            "x = '\U0001f600z'": 1, "x >= '\U0001f600'": 1, "'é' > x": 6, "x <> 'eng'": 7,
        },
    ),
    (
        "dictionary text",
        pa.array(["b", None, "b", "abcd"]).dictionary_encode(),
        TEXT,
        None,
        {"x = 'b'": 2, "x = 'abc'": 1, "x IS NULL": 1},
    ),
    (
        "boolean",
        pa.array([True, False, None]),
        BOOLEAN,
        None,
        {
            "x": 1, "NOT x": 1, "x IS NULL": 1, "x = TRUE": 1, "x <> TRUE": 1, "x OR NOT x": 2,
            "x AND x IS NULL": 0, "x OR TRUE": 3, "x IS NULL OR x": 2, "(x AND x) IS NULL": 1,
            "NOT (x AND TRUE) AND NOT x": 1, "x < TRUE": 1, "x IN (TRUE)": 1,
            "(x OR FALSE) IS NULL": 1, "(x AND FALSE) IS NULL": 0, "(x > FALSE) IS NULL": 1,
        },
    ),
    *(
        (
            f"date {name} bounds",
            pa.array([-(2**31), -(2**31) + 1, 0, 11000, 2**31 - 2, 2**31 - 1, None], pa.int32())
            .cast(pa.date32()),
            DATE,
            bounds,
            met,
        )
        for name, bounds, met in (
            (
                "with", DATES,
                {"x = '2000-01-01'": 3, "x = '2020-12-31'": 2, "x > DATE '2000-01-01'": 3,
                 "x BETWEEN '2000-01-02' AND '2020-12-30'": 1, "x < '2010-06-01'": 4,
                 "x IS NULL": 1, "x IN ('2000-02-13', '2020-12-31')": 3},
            ),
            (
                "without", None,
                {"x < '0001-01-01'": 2, "x > '9999-12-31'": 2, "x = '1970-01-01'": 1,
                 "x >= '1970-01-01'": 4, "x = x": 6},
            ),
        )
    ),
    *(
        (
            f"timestamp {name} bounds",
            pa.array([LEAST, LEAST + 1, 0, 10**15, MOST - 1, MOST, None], pa.timestamp("us")),
            TIMESTAMP,
            bounds,
            met,
        )
        for name, bounds, met in (
            (
                "with", MOMENTS,
                {"x = '2000-01-01'": 3, "x > '2000-01-01'": 3,
                 "x < '2001-09-09 01:46:40.000001'": 4,
                 "x = '2020-12-31 23:59:59'": 2, "x = TIMESTAMP '2001-09-09 01:46:40'": 1,
                 "x >= DATE '2001-09-10'": 2, "x IS NULL": 1},
            ),
            (
                "without", None,
                {"x < '0001-01-01'": 2, "x > '9999-12-31 23:59:59.999999'": 2,
                 "x = '1970-01-01'": 1, "x <> '1970-01-01'": 5},
            ),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("cells", "type_", "bounds", "met"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_conditions_see_clamped_values(engine, tmp_path: Path, cells, type_, bounds, met):
    path = write(tmp_path / "t.parquet", x=cells)
    column = Column("x", type_, bounds, max_length=3)
    with world(engine, private_table([path], [column], unit=None)) as small:
        for condition in [one for one, rows in met.items() if not rows]:
            with suppress(PlanRefused):  # where bounds make it impossible
                assert small.count(condition) == 0
                continue
            met = {one: rows for one, rows in met.items() if one != condition}
        assert small.counts(*met) == list(met.values())
        assert [small.count(condition) for condition in met] == list(met.values())


def test_a_literal_beside_the_end_of_the_bounds_is_the_same_double(engine, tmp_path: Path):
    """Both ends of a filter on the raw column have to be judged as the doubles they become."""
    path = write(tmp_path / "t.parquet", x=[0.0, 0.1, 5.0])
    column = Column("x", DOUBLE, Bounds(Fraction(1, 10), Fraction(1)))
    with world(engine, private_table([path], [column], unit=None)) as small:
        assert small.count("x >= 1.00000000000000001e-1") == 3
        assert small.count("x > 1.00000000000000001e-1") == 1


@pytest.mark.parametrize("bounds", [None, Bounds(Fraction(-9), Fraction(9))])
@pytest.mark.parametrize(
    "numbers", in_turn([[1.0, 2.0], [5.0, 5.0], [-0.0, 0.0], [0.0], [INF, -INF]], 3)
)
@pytest.mark.parametrize("width", [pa.float32(), pa.float64()])
def test_nan_is_missing_whatever_stands_beside_it(
    engine, tmp_path: Path, width, numbers, bounds
):
    """Footers pass over NaN, so one unit's number must not decide about another unit's NaN."""
    cells = pa.array([NAN, *numbers, NAN], width)
    path = write(tmp_path / "t.parquet", x=cells)
    ends = (-9.0, 9.0) if bounds else (-INF, INF)
    clamped = [max(ends[0], min(ends[1], number)) for number in numbers]
    met = {
        "x IS NULL": 2,
        "x = x": len(numbers),
        "x - 0 IS NULL": 2,
        "NOT x IS NULL": len(numbers),
    }
    for sign, true in (("<", lt), ("<=", le), ("=", eq), ("<>", ne), (">", gt), (">=", ge)):
        for other in ("1.5", "5e0"):
            met[f"x {sign} {other}"] = sum(true(number, float(other)) for number in clamped)
            met[f"NOT x {sign} {other}"] = len(numbers) - met[f"x {sign} {other}"]
    with world(
        engine, private_table([path], [Column("x", DOUBLE, bounds)], unit=None)
    ) as small:
        assert small.counts(*met) == list(met.values())
        assert [small.count(condition) for condition in met] == list(met.values())
        assert small.exact("SELECT DP_COUNT(x, eps=1) FROM t") == [len(numbers)]


def test_a_wide_integer_widens_to_the_nearest_double(engine, tmp_path: Path):
    """HUGEINT to DOUBLE: 2^53 + 2 and its like must not be rounded twice."""
    values = [2**53 + 1, -(2**53) - 2, -(2**53) - 3, 2**62 + 1, -(2**62) - 513, MOST]
    path = write(tmp_path / "t.parquet", x=values)
    sums = [value * 3 for value in values]
    with world(engine, private_table([path], [Column("x", INTEGER)], unit=None)) as small:
        conditions = [f"x * 3 * 1e0 = {float(total)!r}" for total in sums]
        assert small.counts(*conditions) == [
            sum(float(total) == float(other) for other in sums) for total in sums
        ]
        huge = 2**65 + 2**12 + 1
        assert small.count(f"(x - x + {huge}) * 1e0 = {float(huge)!r}") == len(values)


@pytest.mark.parametrize(
    "condition",
    [
        "x" + " + 1e0 * x" * 25 + " > 0",
        "x / (" * 28 + "x" + ")" * 28 + " > 0",
        "-(" * 28 + "x" + ")" * 28 + " > 0",
        "i" + " // 1 % 7" * 25 + " > 0",
        "i // (" * 28 + "i" + ")" * 28 + " > 0",
        "NOT (" * 14 + "i > 0" + ")" * 14,
    ],
)
def test_nesting_takes_no_more_than_its_length(engine, tmp_path: Path, condition: str):
    """An operand that is written twice at each level would take hours here, and memory."""
    path = write(tmp_path / "t.parquet", x=[1.0], i=[1])
    columns = [Column("x", DOUBLE), Column("i", INTEGER)]
    with world(engine, private_table([path], columns, unit=None)) as small:
        assert small.count(condition) == 1


def test_two_files_may_hold_a_column_in_two_widths(engine, tmp_path: Path):
    """The first file's type must not be forced upon the values of the second."""
    files = [
        write(
            tmp_path / "a.parquet", x=pa.array([1], pa.int8()), y=pa.array([0.5], pa.float64())
        ),
        write(tmp_path / "b.parquet", y=pa.array([2**53 + 1]), x=pa.array([2**40, MOST])[:1]),
        write(tmp_path / "c.parquet", x=pa.array([9], pa.uint32()), y=decimals(["1.5"], 4, 1)),
    ]
    columns = [Column("x", INTEGER), Column("y", DOUBLE)]
    with world(engine, private_table(files, columns, unit=None)) as small:
        assert small.counts("x > 8", f"x = {2**40}", f"y = {2**53}", "y < 2") == [2, 1, 1, 2]


def test_decimals_of_two_widths_come_together(engine, tmp_path: Path):
    files = [
        write(tmp_path / "a.parquet", x=decimals(["1.25"], 4, 2)),
        write(tmp_path / "b.parquet", x=decimals(["12345678.5"], 9, 1)),
    ]
    with world(
        engine, private_table(files, [Column("x", decimal_type(12, 3))], unit=None)
    ) as small:
        assert small.counts("x = 1.25", "x = 12345678.5", "x > 1.249") == [1, 1, 2]


def test_names_that_the_engine_uses_itself_are_still_columns(engine, tmp_path: Path):
    path = write(
        tmp_path / "t.parquet",
        n=[1, 1, 2],
        m0=[7, 8, 9],
        filename=["a", "b", "c"],
        **{'q"t': [1, 0, 1]},
    )
    columns = [
        Column("m0", INTEGER),
        Column("filename", TEXT),
        Column("n", INTEGER),
        Column('q"t', INTEGER),
    ]
    with world(
        engine, private_table([path], columns, unit="n", max_rows_contributed=2)
    ) as small:
        counts = small.counts(
            "m0 > 7", "filename = 'a'", "n = 1", '"q""t" = 1', "m0 = 7 OR n = 2"
        )
        assert counts == [count * 2**32 for count in (2, 1, 2, 2, 2)]
