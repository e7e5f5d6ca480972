"""Types of PostgreSQL: which one a column of an answer has, and values as text and as bytes."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal, InvalidOperation
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa

BOOL, BYTEA, NAME, INT8, INT2, INT4, TEXT, OID = 16, 17, 19, 20, 21, 23, 25, 26
JSON, FLOAT4, FLOAT8, UNKNOWN, BPCHAR, VARCHAR = 114, 700, 701, 705, 1042, 1043
DATE, TIME, TIMESTAMP, TIMESTAMPTZ, NUMERIC, UUID_ = 1082, 1083, 1114, 1184, 1700, 2950
ELEMENTS = {
    1000: BOOL, 1001: BYTEA, 1003: NAME, 1005: INT2, 1007: INT4, 1009: TEXT, 1015: VARCHAR,
    1016: INT8, 1021: FLOAT4, 1022: FLOAT8, 1028: OID, 1115: TIMESTAMP, 1182: DATE, 1183: TIME,
    1185: TIMESTAMPTZ, 1231: NUMERIC, 2951: UUID_,
}  # fmt: skip
"""The type of the items of each type of lists."""
ARRAYS = {element: array for array, element in ELEMENTS.items()}
WIDTHS = {
    BOOL: 1, INT2: 2, INT4: 4, INT8: 8, OID: 4, FLOAT4: 4, FLOAT8: 8, DATE: 4, TIME: 8,
    TIMESTAMP: 8, TIMESTAMPTZ: 8, UUID_: 16,
}  # fmt: skip
TEXTS = {TEXT, VARCHAR, BPCHAR, NAME, UNKNOWN, JSON}
NAMES = {
    BOOL: "boolean", BYTEA: "bytea", INT8: "bigint", INT2: "smallint", INT4: "integer",
    OID: "oid", FLOAT4: "real", FLOAT8: "double precision", DATE: "date",
    TIME: "time without time zone", TIMESTAMP: "timestamp without time zone",
    TIMESTAMPTZ: "timestamp with time zone", NUMERIC: "numeric", UUID_: "uuid",
}  # fmt: skip
"""As messages name them."""

Encoder = Callable[[Any], bytes]
Decoder = Callable[[bytes], Any]
_FIRST_DAY = date(2000, 1, 1)
_FIRST = datetime(2000, 1, 1)  # noqa: DTZ001 - a clock's time, of no zone
_FIRST_INSTANT = _FIRST.replace(tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FORMS = {
    INT2: struct.Struct("!h"), INT4: struct.Struct("!i"), INT8: struct.Struct("!q"),
    OID: struct.Struct("!I"), FLOAT4: struct.Struct("!f"), FLOAT8: struct.Struct("!d"),
}  # fmt: skip
_ARROW: tuple[tuple[Callable[[pa.DataType], bool], int], ...] = (
    (pa.types.is_boolean, BOOL),
    (lambda type_: type_ in (pa.int8(), pa.uint8(), pa.int16()), INT2),
    (lambda type_: type_ in (pa.uint16(), pa.int32()), INT4),
    (lambda type_: type_ == pa.uint32(), OID),
    (lambda type_: type_ == pa.int64(), INT8),
    (lambda type_: type_ == pa.uint64(), NUMERIC),
    (lambda type_: type_ in (pa.float16(), pa.float32()), FLOAT4),
    (pa.types.is_float64, FLOAT8),
    (pa.types.is_decimal, NUMERIC),
    (lambda type_: pa.types.is_binary(type_) or pa.types.is_large_binary(type_), BYTEA),
    (pa.types.is_date, DATE),
    (pa.types.is_time, TIME),
)


@dataclass(frozen=True, slots=True)
class PgType:
    """A type as a column of rows is described."""

    oid: int
    modifier: int = -1

    @property
    def width(self) -> int:
        """How many bytes a value takes; -1 where that varies."""
        return WIDTHS.get(self.oid, -1)


def type_of(type_: pa.DataType) -> PgType:
    """Return the type that values of an Arrow type have for clients: text where none fits."""
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return PgType(ARRAYS.get(type_of(type_.value_type).oid, ARRAYS[TEXT]))
    if pa.types.is_timestamp(type_):
        return PgType(TIMESTAMP if type_.tz is None else TIMESTAMPTZ)
    oid = next((oid for fits, oid in _ARROW if fits(type_)), TEXT)
    if oid == NUMERIC and pa.types.is_decimal(type_):
        return PgType(oid, (type_.precision << 16 | type_.scale) + 4)
    return PgType(oid)


# Values of answers, written.


def encoder(oid: int, *, binary: bool, zone: tzinfo = UTC) -> Encoder:
    """Return what writes values of a type; NULL is for the caller."""
    if oid in ELEMENTS:
        inner = encoder(ELEMENTS[oid], binary=binary, zone=zone)
        return _binary_list(inner, ELEMENTS[oid]) if binary else _text_list(inner)
    if binary:
        form = _FORMS.get(oid)
        return _BINARY.get(oid, _encoded) if form is None else form.pack
    if oid == TIMESTAMPTZ:
        return lambda value: _instant(value, zone)
    return _TEXT.get(oid, _encoded)


def _encoded(value: object) -> bytes:
    return str(value).encode("utf-8", "replace").replace(b"\0", b"")


def _bytes(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _float(value: float) -> bytes:
    if value != value:  # noqa: PLR0124 - only NaN differs from itself
        return b"NaN"
    if value in (float("inf"), float("-inf")):
        return b"Infinity" if value > 0 else b"-Infinity"
    return str(value).removesuffix(".0").encode()


def _shortest(value: float) -> float:
    """Return the shortest number that is this one, in four bytes."""
    return float(str(np.float32(value)))


def _instant(value: datetime, zone: tzinfo) -> bytes:
    try:
        value = value.astimezone(zone)
    except OverflowError:  # at the ends of the calendar
        value = value.astimezone(UTC)
    shown = value.isoformat(" ")
    return (shown[:-3] if shown.endswith(":00") else shown).encode()


def _plain_decimal(value: Decimal | int) -> bytes:
    return f"{value:f}".encode() if isinstance(value, Decimal) else str(value).encode()


_TEXT: dict[int, Encoder] = {
    BOOL: lambda value: b"t" if value else b"f",
    BYTEA: lambda value: b"\\x" + _bytes(value).hex().encode(),
    FLOAT4: lambda value: _float(_shortest(value)),
    FLOAT8: _float,
    NUMERIC: _plain_decimal,
    TIMESTAMP: lambda value: value.isoformat(" ").encode(),
    TIME: lambda value: value.isoformat().encode(),
}


def _numeric(value: Decimal | int) -> bytes:
    """Write digits in groups of four, as PostgreSQL keeps them."""
    sign, digits, exponent = Decimal(value).as_tuple()
    if not isinstance(exponent, int):
        return struct.pack("!hhHh", 0, 0, 0xC000, 0)
    scale = max(0, -exponent)
    whole = "".join(map(str, digits)) + "0" * max(0, exponent)
    whole = whole.rjust(scale, "0")
    above, below = whole[: len(whole) - scale].lstrip("0"), whole[len(whole) - scale :]
    above = above.rjust(-(-len(above) // 4) * 4, "0")
    below = below.ljust(-(-len(below) // 4) * 4, "0")
    groups = [int((above + below)[at : at + 4]) for at in range(0, len(above + below), 4)]
    weight = len(above) // 4 - 1
    while groups and not groups[0]:
        del groups[0]
        weight -= 1
    while groups and not groups[-1]:
        del groups[-1]
    marks = (len(groups), weight if groups else 0, 0x4000 if sign and groups else 0, scale)
    return struct.pack(f"!hhHh{len(groups)}h", *marks, *groups)


def _time(value: time) -> bytes:
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return _FORMS[INT8].pack(seconds * 1_000_000 + value.microsecond)


_BINARY: dict[int, Encoder] = {
    BOOL: lambda value: b"\1" if value else b"\0",
    BYTEA: _bytes,
    NUMERIC: _numeric,
    DATE: lambda value: _FORMS[INT4].pack((value - _FIRST_DAY).days),
    TIME: _time,
    TIMESTAMP: lambda value: _FORMS[INT8].pack((value - _FIRST) // _MICROSECOND),
    TIMESTAMPTZ: lambda value: _FORMS[INT8].pack((value - _FIRST_INSTANT) // _MICROSECOND),
    UUID_: lambda value: UUID(str(value)).bytes,
}
_PLAIN_ITEM = re.compile(rb"(?!null$)[\w.:+-]+", re.IGNORECASE)


def _text_list(inner: Encoder) -> Encoder:
    def item(value: object) -> bytes:
        if value is None:
            return b"NULL"
        raw = inner(value)
        if _PLAIN_ITEM.fullmatch(raw):
            return raw
        return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'

    return lambda values: b"{" + b",".join(map(item, values)) + b"}"


def _binary_list(inner: Encoder, oid: int) -> Encoder:
    def item(value: object) -> bytes:
        if value is None:
            return b"\xff\xff\xff\xff"
        raw = inner(value)
        return _FORMS[INT4].pack(len(raw)) + raw

    def encoded(values: list[object]) -> bytes:
        if not values:
            return struct.pack("!iiI", 0, 0, oid)
        head = struct.pack("!iiIii", 1, int(None in values), oid, len(values), 1)
        return head + b"".join(map(item, values))

    return encoded


# Values of parameters, read.


class Unreadable(ValueError):
    """What came is no value of its type."""


def decoded_value(raw: bytes | None, oid: int, *, binary: bool) -> Any:
    """Return the value of a parameter.

    Raises:
        Unreadable: it is none of its type.
    """
    if raw is None:
        return None
    try:
        if oid in ELEMENTS:
            return (_read_binary_list if binary else _read_text_list)(raw, ELEMENTS[oid])
        form = _FORMS.get(oid) if binary else None
        if form is not None:
            value = form.unpack(raw)[0]
            return _shortest(value) if oid == FLOAT4 else value
        return (_FROM_BINARY if binary else _FROM_TEXT).get(oid, bytes.decode)(raw)
    except (ValueError, struct.error, OverflowError, LookupError, InvalidOperation):
        raise Unreadable(f"invalid input for type {NAMES.get(oid, 'text')}") from None


def _ascii(raw: bytes) -> str:
    return raw.decode("ascii").strip()


def _truth(raw: bytes) -> bool:
    word = _ascii(raw).lower()
    if word in ("t", "true", "y", "yes", "on", "1"):
        return True
    if word in ("f", "false", "n", "no", "off", "0"):
        return False
    raise ValueError


def _digits(raw: bytes) -> str:
    word = _ascii(raw)
    if "_" in word:  # which Python reads
        raise ValueError
    return word


def _moment(raw: bytes) -> datetime:
    word = _ascii(raw)
    moment = datetime.fromisoformat(word)
    if moment.tzinfo is not None:  # a zone says nothing of a clock's time, as in PostgreSQL
        moment = moment.replace(tzinfo=None)
    return moment


def _instant_read(raw: bytes) -> datetime:
    moment = datetime.fromisoformat(_ascii(raw))
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def _bytes_read(raw: bytes) -> bytes:
    word = _ascii(raw)
    if not word.startswith("\\x"):
        raise ValueError
    return bytes.fromhex(word[2:])


_FROM_TEXT: dict[int, Decoder] = {
    BOOL: _truth,
    BYTEA: _bytes_read,
    INT2: lambda raw: int(_digits(raw)),
    INT4: lambda raw: int(_digits(raw)),
    INT8: lambda raw: int(_digits(raw)),
    OID: lambda raw: int(_digits(raw)),
    FLOAT4: lambda raw: float(_digits(raw)),
    FLOAT8: lambda raw: float(_digits(raw)),
    NUMERIC: lambda raw: Decimal(_digits(raw)),
    DATE: lambda raw: date.fromisoformat(_ascii(raw)[:10]),
    TIME: lambda raw: time.fromisoformat(_ascii(raw)),
    TIMESTAMP: _moment,
    TIMESTAMPTZ: _instant_read,
    UUID_: lambda raw: str(UUID(_ascii(raw))),
}


def _read_numeric(raw: bytes) -> Decimal:
    count, weight, sign, scale = struct.unpack_from("!hhHh", raw)
    if sign == 0xC000:
        return Decimal("NaN")
    groups = struct.unpack(f"!{count}h", raw[8:])
    if sign not in (0, 0x4000) or not -100 < weight < 100 or not 0 <= scale < 400:
        raise ValueError
    number = int("".join(f"{group:04d}" for group in groups) or "0")
    shift = 4 * (weight + 1 - count) + scale
    number, rest = (number * 10**shift, 0) if shift >= 0 else divmod(number, 10**-shift)
    if rest:
        raise ValueError
    return Decimal((int(sign == 0x4000), tuple(map(int, str(number))), -scale))


def _days(raw: bytes) -> date:
    return _FIRST_DAY + timedelta(days=_FORMS[INT4].unpack(raw)[0])


def _microseconds(raw: bytes) -> timedelta:
    return timedelta(microseconds=_FORMS[INT8].unpack(raw)[0])


def _clock(raw: bytes) -> time:
    since = _microseconds(raw)
    if not timedelta(0) <= since < timedelta(days=1):
        raise ValueError
    return (_FIRST + since).time()


_FROM_BINARY: dict[int, Decoder] = {
    BOOL: lambda raw: {b"\0": False, b"\1": True}[raw],
    BYTEA: bytes,
    NUMERIC: _read_numeric,
    DATE: _days,
    TIME: _clock,
    TIMESTAMP: lambda raw: _FIRST + _microseconds(raw),
    TIMESTAMPTZ: lambda raw: _FIRST_INSTANT + _microseconds(raw),
    UUID_: lambda raw: str(UUID(bytes=raw)),
}
_SPACE = " \t\n\r\v\f"
_ITEM = re.compile(
    r'[ \t-\r]*(?:"((?:[^"\\]|\\.)*)"|([^",{}\\ \t-\r][^",{}\\]*))[ \t-\r]*(,|\Z)', re.DOTALL
)


def _read_text_list(raw: bytes, oid: int) -> list[Any]:
    shown = raw.decode().strip(_SPACE)
    if not (shown.startswith("{") and shown.endswith("}")):
        raise ValueError
    inner, at, values = shown[1:-1], 0, list[Any]()
    while inner.strip(_SPACE) and (not values or inner[at - 1] == ","):
        found = _ITEM.match(inner, at)
        if found is None:
            raise ValueError
        quoted, plain, _ = found.groups()
        if plain is not None and plain.strip(_SPACE).lower() == "null":
            values.append(None)
        else:
            item = (
                plain.strip(_SPACE)
                if quoted is None
                else re.sub(r"\\(.)", r"\1", quoted, flags=re.S)
            )
            values.append(decoded_value(item.encode(), oid, binary=False))
        at = found.end()
    if at != len(inner) and inner.strip(_SPACE):
        raise ValueError
    return values


def _read_binary_list(raw: bytes, _: int) -> list[Any]:
    dimensions, _, inner = struct.unpack_from("!iiI", raw)
    if dimensions == 0:
        return []
    count = struct.unpack_from("!i", raw, 12)[0]
    if dimensions != 1 or inner in ELEMENTS or not 0 <= count <= len(raw):
        raise ValueError
    at, values = 20, list[Any]()
    for _ in range(count):
        length = _FORMS[INT4].unpack_from(raw, at)[0]
        at += 4
        item = None if length == -1 else raw[at : at + length]
        if item is not None and (length < 0 or len(item) != length):
            raise ValueError
        values.append(decoded_value(item, inner, binary=True))
        at += max(length, 0)
    if at != len(raw):
        raise ValueError
    return values
