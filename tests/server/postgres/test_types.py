"""Values as text and as bytes: both forms say the same, here and to a client."""

from __future__ import annotations

import math
import struct
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import Format

from dpquery.server.postgres import type_codecs as types
from dpquery.server.postgres.type_codecs import (
    ARRAYS,
    Unreadable,
    decoded_value,
    encoder,
    type_of,
)

ARROW = [
    (pa.bool_(), types.BOOL, -1),
    (pa.int8(), types.INT2, -1),
    (pa.int32(), types.INT4, -1),
    (pa.int64(), types.INT8, -1),
    (pa.uint32(), types.OID, -1),
    (pa.uint64(), types.NUMERIC, -1),
    (pa.float32(), types.FLOAT4, -1),
    (pa.float64(), types.FLOAT8, -1),
    (pa.decimal128(38, 2), types.NUMERIC, (38 << 16 | 2) + 4),
    (pa.string(), types.TEXT, -1),
    (pa.large_string(), types.TEXT, -1),
    (pa.null(), types.TEXT, -1),
    (pa.binary(), types.BYTEA, -1),
    (pa.date32(), types.DATE, -1),
    (pa.time64("us"), types.TIME, -1),
    (pa.timestamp("us"), types.TIMESTAMP, -1),
    (pa.timestamp("us", "Europe/Vienna"), types.TIMESTAMPTZ, -1),
    (pa.list_(pa.int64()), 1016, -1),
    (pa.list_(pa.string()), 1009, -1),
]
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
MOMENTS = st.dates(date(1, 1, 2), date(9999, 12, 30)).flatmap(
    lambda day: st.times().map(lambda clock: datetime.combine(day, clock))
)
VALUES: dict[int, st.SearchStrategy[Any]] = {
    types.BOOL: st.booleans(),
    types.BYTEA: st.binary(),
    types.INT2: st.integers(-(2**15), 2**15 - 1),
    types.INT4: st.integers(-(2**31), 2**31 - 1),
    types.INT8: st.integers(-(2**63), 2**63 - 1),
    types.OID: st.integers(0, 2**32 - 1),
    types.FLOAT4: st.floats(width=32).map(lambda one: float(str(np.float32(one)))),
    types.FLOAT8: st.floats(),
    types.NUMERIC: st.decimals(-(10**60), 10**60, places=10)
    | st.integers(-(10**38), 10**38).map(Decimal)
    | st.decimals(-(10**12), 10**12, places=3),
    types.TEXT: TEXTS,
    types.VARCHAR: TEXTS,
    types.DATE: st.dates(),
    types.TIME: st.times(),
    types.TIMESTAMP: MOMENTS,
    types.TIMESTAMPTZ: MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC)),
    types.UUID_: st.uuids().map(str),
}
SCALARS = sorted(VALUES)


def alike(one: Any, other: Any) -> bool:
    """Return whether two values are one: NaN is itself, and a decimal has its places."""
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    if isinstance(one, Decimal) and isinstance(other, Decimal):
        return f"{one:f}".lstrip("-") == f"{other:f}".lstrip("-") and one == other
    return type(one) is type(other) and one == other


def lists(oid: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | VALUES[oid], max_size=4)


@pytest.mark.parametrize(("arrow", "oid", "modifier"), ARROW, ids=str)
def test_arrow_types_have_types_of_postgres(arrow: pa.DataType, oid: int, modifier: int):
    found = type_of(arrow)
    assert (found.oid, found.modifier) == (oid, modifier)


@pytest.mark.parametrize("listed", [False, True], ids=["one", "list"])
@pytest.mark.parametrize("oid", SCALARS)
@settings(max_examples=20)
@given(data=st.data())
def test_both_forms_are_read_as_what_was_written(oid: int, listed: bool, data: st.DataObject):
    value = data.draw(lists(oid) if listed else VALUES[oid])
    kind = ARRAYS[oid] if listed else oid
    for binary in (False, True):
        raw = encoder(kind, binary=binary)(value)
        assert alike(decoded_value(raw, kind, binary=binary), value), (binary, raw)


@pytest.mark.parametrize("oid", SCALARS)
@settings(max_examples=20)
@given(data=st.data())
def test_psycopg_reads_both_forms_alike(oid: int, data: st.DataObject):
    value = data.draw(lists(oid) if data.draw(st.booleans()) else VALUES[oid])
    kind = ARRAYS[oid] if isinstance(value, list) else oid
    read = [
        Transformer()
        .get_loader(kind, Format.BINARY if binary else Format.TEXT)
        .load(encoder(kind, binary=binary)(value))
        for binary in (False, True)
    ]
    if oid == types.FLOAT4:  # of four bytes psycopg makes the eight that are nearest
        value, read = rounded(value), [rounded(one) for one in read]
    assert alike(plain(read[0]), plain(read[1]))
    assert alike(plain(read[1]), plain(value))


def rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [rounded(one) for one in value]
    return value if value is None else float(np.float32(value))


def plain(value: Any) -> Any:
    """Return a value as Python has it: of UUIDs their text, of instants those of UTC."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=UTC)
    if isinstance(value, memoryview | bytearray):
        return bytes(value)
    return (
        value
        if isinstance(value, bytes | str | int | float | Decimal | date | time)
        else (value if value is None else str(value))
    )


PARAMETERS = [
    (True, types.BOOL),
    (5, types.INT2),
    (70000, types.INT4),
    (2**40, types.INT8),
    (0.1, types.FLOAT8),
    (Decimal("1.50"), types.NUMERIC),
    (Decimal("-12345678.000900"), types.NUMERIC),
    (Decimal("1E+3"), types.NUMERIC),
    (date(2020, 2, 29), types.DATE),
    (time(23, 59, 59, 5), types.TIME),
    (datetime.fromisoformat("2020-01-01T12:00:00.000001"), types.TIMESTAMP),
    (datetime(2020, 1, 1, 12, tzinfo=timezone(timedelta(hours=2))), types.TIMESTAMPTZ),
]


@pytest.mark.parametrize("wanted", [PyFormat.TEXT, PyFormat.BINARY])
@pytest.mark.parametrize(("value", "oid"), PARAMETERS, ids=str)
def test_parameters_of_psycopg_are_read(value: Any, oid: int, wanted: PyFormat):
    dumper = Transformer().get_dumper(value, wanted)
    read = decoded_value(bytes(dumper.dump(value)), oid, binary=wanted is PyFormat.BINARY)
    assert read == value


@pytest.mark.parametrize(
    ("raw", "oid"),
    [
        (b"", types.INT4), (b"1_000", types.INT8), (b"maybe", types.BOOL), (b"x", types.DATE),
        (b"infinity", types.TIMESTAMP), (b"\xff", types.TEXT), (b"1e", types.FLOAT8),
        (b"zz", types.BYTEA), (b"{1", 1007), (b"{1,}", 1007), (b"{{1}}", 1007), (b"{a}", 1007),
    ],
)  # fmt: skip
def test_texts_of_no_value_are_refused(raw: bytes, oid: int):
    with pytest.raises(Unreadable):
        decoded_value(raw, oid, binary=False)


@pytest.mark.parametrize("oid", [*SCALARS, 1007, 1009, 1231])
@settings(max_examples=20)
@given(raw=st.binary(max_size=64))
def test_any_bytes_are_a_value_or_refused(oid: int, raw: bytes):
    for binary in (False, True):
        with suppress(Unreadable):
            decoded_value(raw, oid, binary=binary)


def test_lists_in_lists_in_bytes_are_refused():
    inner = struct.pack("!iiI", 0, 0, 1007)
    nested = struct.pack("!iiIii", 1, 0, 1007, 1, 1) + struct.pack("!i", len(inner)) + inner
    with pytest.raises(Unreadable):
        decoded_value(nested, 1007, binary=True)


def test_texts_without_their_zeros_and_with_zones():
    write = encoder(types.FLOAT8, binary=False)
    assert [write(one) for one in (1.0, 0.1, 1e300)] == [b"1", b"0.1", b"1e+300"]
    zone = timezone(timedelta(hours=5, minutes=30))
    instant = encoder(types.TIMESTAMPTZ, binary=False, zone=zone)
    assert instant(datetime(2020, 1, 1, tzinfo=UTC)) == b"2020-01-01 05:30:00+05:30"
    assert encoder(types.TIMESTAMPTZ, binary=False)(datetime(2020, 1, 1, tzinfo=UTC)) == (
        b"2020-01-01 00:00:00+00"
    )
    assert instant(datetime.max.replace(tzinfo=UTC)).startswith(b"9999-12-31 23:59")
