"""Readers: one for each kind of value that a policy, or an argument of `connect`, can hold.

A reader takes what TOML or Python gives and returns the exact value, or raises `Unfit`. It
knows no key and no place. No policy holds a float: TOML's are read as `Decimal` (I8).
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any, Generic, TypeGuard, TypeVar
from urllib.parse import parse_qsl, urlsplit
from zoneinfo import available_timezones

from dpquery.core.privacy_loss import (
    BUDGET_MAX,
    EPSILON_MAX,
    EPSILON_MIN,
    Neighbours,
    exact_number,
)
from dpquery.core.time_zones import known
from dpquery.core.types import (
    DECIMAL_DIGITS,
    INT64,
    MOMENTS,
    NUMERIC,
    ROWS_MAX,
    Kind,
    RowLimit,
    Type,
    in_every_calendar,
)
from dpquery.errors import nearest
from dpquery.policy.document import Unfit, written
from dpquery.policy.model import Bounds, Value

T = TypeVar("T")

KEYS_MAX = 1_000_000
"""Public keys of one column: as many as an answer may have cells."""
DOUBLE_MAX = Fraction(sys.float_info.max)
TEXT_LONGEST = 2**16
"""Characters: each text is carried at this length through joins and groups."""
UNIT_MAX = 8
"""Columns that are a unit together."""
PARTS_MAX = 255
"""Values of a column that parts a table: what each part has spent stands in every charge."""


@dataclass(frozen=True, slots=True)
class Reader(Generic[T]):
    """How one kind of value is read, and what that kind is called."""

    takes: str
    """Fits after "must be"."""
    read: Callable[..., T]
    """Returns the value, given what else it depends on, or raises `ValueError`."""

    def __call__(self, value: object, *known: object) -> T:
        """Read a value, or raise `Unfit`."""
        try:
            return self.read(value, *known)
        except ValueError as error:
            what = f"must be {self.takes}, not {written(value)}"
            unfit = error if isinstance(error, Unfit) else Unfit(what)
            meant = _toml(text := _unquoted(value))
            if meant is not None and self.fits(meant, *known):
                unfit.meant = text
            raise unfit from None

    def fits(self, value: object, *known: object) -> bool:
        """Return whether a value would be read."""
        try:
            self.read(value, *known)
        except ValueError:
            return False
        return True


def reader(takes: str) -> Callable[[Callable[..., T]], Reader[T]]:
    """Make a reader of a function that reads one kind of value."""
    return partial(Reader, takes)


def limited(takes: str, read: Callable[[object], T], fits: Callable[[T], bool]) -> Reader[T]:
    """Return the reader of values of one kind that meet a condition."""

    def checked(value: object) -> T:
        found = read(value)
        if not fits(found):
            raise ValueError
        return found

    return Reader(takes, checked)


def _toml(text: str) -> object:
    """Return the one value of TOML that a text is; None if it is none."""
    try:
        (value,) = tomllib.loads(f"value = {text}", parse_float=Decimal).values()
    except (ValueError, ArithmeticError, RecursionError):
        return None
    return value


def _unquoted(value: object) -> str:
    """Write a text without its quotes, or a short list of them."""
    if isinstance(value, list | tuple) and len(value) < 10:
        return f"[{', '.join(map(_unquoted, value))}]"
    return value.strip() if isinstance(value, str) else written(value)


# Numbers.


def ascii_folded(name: str) -> str:
    """Fold the ASCII letters of a name, as the engine does; other letters keep their case.

    >>> ascii_folded("NAÏVE")
    'naÏve'
    """
    return "".join(char.lower() if char.isascii() else char for char in name)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | Decimal | Fraction) and not isinstance(value, bool)


def _exact(value: object) -> Fraction:
    if not _is_number(value):
        raise ValueError
    try:
        return exact_number(value)
    except ValueError as error:
        why = "numbers are exact here: finite, and of at most 30 digits."
        raise Unfit(f"is {error}: {written(value)}", why) from None


read_budget = limited("a number above 0 and at most 9e9", _exact, lambda n: 0 < n <= BUDGET_MAX)
read_price = limited(
    "a number from 1e-9 to 1e9", _exact, lambda n: EPSILON_MIN <= n <= EPSILON_MAX
)
read_delta = limited("a number from 0 to below 1", _exact, lambda n: 0 <= n < 1)
read_grid = limited(
    "a number above 0 that is a double",
    _exact,
    lambda n: Fraction(sys.float_info.min) <= n <= DOUBLE_MAX,
)


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError
    return value


def count(high: int) -> Reader[int]:
    """Return the reader of integers from 1 on."""
    return limited(f"an integer from 1 to {high}", _integer, lambda n: 1 <= n <= high)


read_count = count(ROWS_MAX)


@reader(f'"auto" or {read_count.takes}')
def read_rows(value: object) -> RowLimit:
    return "auto" if value == "auto" else read_count.read(value)


@reader("1")
def read_single(value: object) -> bool:
    if isinstance(value, bool) or value != 1:
        several = (f"max_rows_contributed = {value}",) if read_count.fits(value) else ()
        why = "more than one row is no promise, but how many of them count can be limited."
        raise Unfit(f"must be 1 or left out, not {written(value)}", why, *several)
    return True


@reader(f"true, or an integer from 1 to {PARTS_MAX - 1}")
def read_per_unit(value: object) -> int | None:
    if isinstance(value, bool):
        return 1 if value else None
    return count(PARTS_MAX - 1).read(value)


_BYTES = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}


@reader('a text such as "4GB", of 128MB or more')
def read_memory(value: object) -> str:
    found = re.fullmatch(f"([1-9][0-9]{{0,5}})({'|'.join(_BYTES)})", read_text.read(value))
    if found is None or int(found[1]) * _BYTES[found[2]] < 128_000_000:
        raise ValueError
    return found[0]


@reader('a time such as "100ms" or "2s", up to a minute')
def read_step(value: object) -> Fraction:
    found = re.fullmatch(r"([1-9][0-9]{0,4})(ms|s)", read_text.read(value))
    seconds = Fraction(int(found[1]), 1000 if found[2] == "ms" else 1) if found else None
    if seconds is None or seconds > 60:
        raise ValueError
    return seconds


# Texts, names and other words.


@reader("true or false")
def read_flag(value: object) -> bool:
    if not isinstance(value, bool):
        no = str(value).lower() in {"false", "no", "off", "n", "0"}
        what = f"must be true or false, not {written(value)}"
        raise Unfit(what, meant="false" if no else "true")
    return value


@reader("a text that is not empty")
def read_text(value: object) -> str:
    if not isinstance(value, str) or not value or "\0" in value:
        raise ValueError
    return value


def printable(takes: str, longest: int) -> Reader[str]:
    """Return the reader of texts that print, up to some length."""
    return limited(
        f"a {takes} of 1 to {longest} printable characters",
        read_text.read,
        lambda text: len(text) <= longest and text.isprintable(),
    )


read_description, read_name = printable("text", 1000), printable("name", 128)


@reader("a list of names of columns")
def read_names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ValueError
    names = tuple(map(read_name.read, value))
    if len(set(names)) < len(names):
        raise Unfit("names a column twice", "each column counts once.")
    return names


@reader(f"{read_name.takes}, or a list of several")
def read_unit(value: object) -> str | tuple[str, ...]:
    if not isinstance(value, list):
        return read_name.read(value)
    names = read_names.read(value)
    if not 2 <= len(names) <= UNIT_MAX:
        raise ValueError
    return names


_OF_A_WAY = ("column", "table", "key")


@reader("a table of column, table and key, and type if neither column is listed")
def read_through(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or not {*_OF_A_WAY} <= {*value} <= {*_OF_A_WAY, "type"}:
        raise ValueError
    found: dict[str, Any] = {key: read_name(value[key]) for key in _OF_A_WAY}
    return {**found, "type": read_type(value["type"])} if "type" in value else found


FORMATS = ("parquet", "csv", "json")


@reader(f"one of {', '.join(map(written, FORMATS))}")
def read_format(value: object) -> str:
    if value not in FORMATS:
        raise ValueError
    return str(value)


def _sign(value: object) -> bool:
    return isinstance(value, str) and (value == "\t" or "!" <= value <= "~") and len(value) == 1


@reader("one character of punctuation, or a tab")
def read_delimiter(value: object) -> str:
    if not _sign(value) or str(value).isalnum():
        raise ValueError
    return str(value)


@reader('one character of punctuation, or "" for none')
def read_quote(value: object) -> str:
    return "" if value == "" else read_delimiter.read(value)


@reader("a text")
def read_null(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError
    return value


@reader("a path, a glob, a folder, or a list of them")
def read_paths(value: object) -> tuple[str, ...]:
    if value == []:
        raise ValueError
    return tuple(map(read_text.read, value if isinstance(value, list) else [value]))


@reader("a path, or false")
def read_mark(value: object) -> str:
    return "" if value is False else read_text.read(value)


@reader("the name of a time zone, as Europe/Berlin")
def read_zone(value: object) -> str:
    if isinstance(value, str) and known(value):
        return value
    why = "instants are shown and looked up in the calendar there."
    near = nearest(value if isinstance(value, str) else "", sorted(available_timezones()))
    raise Unfit(f"is not a time zone: {written(value)}", why, meant=written(near or "UTC"))


@reader('"add-remove" or "substitute"')
def read_neighbours(value: object) -> Neighbours:
    known = [str(relation) for relation in Neighbours]
    text = value if isinstance(value, str) else ""
    if text in known:
        return Neighbours(text)
    near = nearest(text, known) or known[0]
    raise Unfit(f"is none of {', '.join(known)}: {written(value)}", meant=written(near))


# Types, and values of them.


_OTHER_NAMES = {
    **dict.fromkeys(("bigint", "int"), "integer"),
    **dict.fromkeys(("float", "real"), "double"),
    **dict.fromkeys(("numeric", "decimal"), "decimal(18,2)"),
    **dict.fromkeys(("string", "str", "varchar", "uuid", "json"), "text"),
    "bool": "boolean",
    "datetime": "timestamp",
}
"""What other systems call our types; a refusal names ours."""
_PLAIN_TYPES = [kind.value for kind in Kind if kind is not Kind.DECIMAL]
TYPES = (*_PLAIN_TYPES, "decimal(18,2)")


@reader(f"a type: {', '.join(TYPES)}")
def read_type(value: object) -> Type:
    text = value if isinstance(value, str) else ""
    if text.endswith("[]") and read_type.fits(text[:-2]) and not text.endswith("[][]"):
        return replace(read_type.read(text[:-2]), listed=True)
    if text in _PLAIN_TYPES:
        return Type(Kind(text))
    digits = re.fullmatch(r"decimal\(([0-9]{1,2}), ?([0-9]{1,2})\)", text)
    if digits and 1 <= int(digits[1]) <= DECIMAL_DIGITS and int(digits[2]) <= int(digits[1]):
        return Type(Kind.DECIMAL, int(digits[1]), int(digits[2]))
    near = _OTHER_NAMES.get(text.lower()) or nearest(text, TYPES) or "integer"
    known = f"types are {', '.join(TYPES)}, and lists of these as text[]"
    why = f"{known}; a decimal has at most {DECIMAL_DIGITS} digits."
    raise Unfit(f"is not a type: {written(value)}", why, meant=f'"{near}"')


BOUNDED = NUMERIC | MOMENTS | {Kind.TIME}
_EXAMPLES = {
    Kind.INTEGER: ("0", "120"),
    Kind.DOUBLE: ("0", "99.5"),
    Kind.DECIMAL: ("0", "99.5"),
    Kind.TEXT: ('"eng"', '"ops"'),
    Kind.BOOLEAN: ("false", "true"),
    Kind.DATE: ("2000-01-01", "2030-12-31"),
    Kind.TIMESTAMP: ("2000-01-01T00:00:00", "2030-12-31T23:59:59"),
    Kind.TIMESTAMPTZ: ("2000-01-01T00:00:00Z", "2030-12-31T23:59:59Z"),
    Kind.TIME: ("08:00:00", "18:00:00"),
}
"""Two values of each type, the lower first."""


def _value(value: object, type_: Type) -> Value:
    """Read a value of a column's type, exactly."""
    match type_.kind:
        case Kind.INTEGER | Kind.DOUBLE | Kind.DECIMAL if _is_number(value):
            found = _exact(value)
            if _holds(type_, found):
                whole = type_.kind is not Kind.DOUBLE and not type_.scale
                return found.numerator if whole else found
        case Kind.TEXT if isinstance(value, str) and "\0" not in value:
            return value
        case Kind.BOOLEAN if isinstance(value, bool):
            return value
        case Kind.DATE if isinstance(value, date) and not isinstance(value, datetime):
            return value
        case Kind.TIMESTAMP if isinstance(value, datetime) and value.tzinfo is None:
            return value
        case Kind.TIMESTAMPTZ if _is_instant(value):
            return value.astimezone(UTC)
        case Kind.TIME if isinstance(value, time) and value.tzinfo is None:
            return value
    why = "bounds and keys are compared with the column, so they have its type."
    if type_.kind is Kind.TIMESTAMP:
        why += "\na timestamp has no time zone; a timestamptz has one."
    if type_.kind is Kind.TIMESTAMPTZ:
        why += "\nan instant is written with its offset, Z for UTC, in the years 1 to 9999."
    what = f"holds {written(value)}, which is not a value of type {type_}"
    raise Unfit(what, why, meant=_example(type_))


def _is_instant(value: object) -> TypeGuard[datetime]:
    """Return whether a value is a moment with an offset that is in the calendar everywhere."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return False
    return in_every_calendar(value)


def _holds(type_: Type, value: Fraction) -> bool:
    if type_.kind is Kind.INTEGER:
        return value.denominator == 1 and INT64[0] <= value <= INT64[1]
    if type_.kind is Kind.DOUBLE:
        return abs(value) <= DOUBLE_MAX
    scaled: Fraction = value * 10**type_.scale
    return scaled.denominator == 1 and abs(scaled) < 10**type_.precision


def _example(type_: Type) -> str:
    return f"[{', '.join(_EXAMPLES[type_.kind])}]"


@reader("a list of two values, the lowest and the highest")
def read_bounds(value: object, type_: Type) -> Bounds:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise Unfit(f"must be two values, not {written(value)}", meant=_example(type_))
    low, high = (_value(end, type_) for end in value)
    if low > high:  # type: ignore[operator]  # both have the column's one type
        lower, higher = (written(end) for end in value)
        swapped, why = f"[{higher}, {lower}]", "values are clamped to lie between the two."
        what = f"has its low end {lower} above its high end {higher}"
        raise Unfit(what, why, meant=_example(type_) if _toml(swapped) is None else swapped)
    return Bounds(low, high)  # type: ignore[arg-type]  # other kinds have no bounds


@reader("a list of values, each once")
def read_keys(
    value: object, type_: Type, bounds: Bounds | None, max_length: int
) -> tuple[Value, ...]:
    if not isinstance(value, list) or not value:
        what = f"must be a list that is not empty, not {written(value)}"
        if isinstance(value, list):
            raise Unfit(what, "an empty list would say nothing.", meant=_example(type_))
        alone = isinstance(value, str | int | date | time)
        meant = f"[{written(value)}]" if alone else _example(type_)
        raise Unfit(what, "one key is a list as well.", meant=meant)
    if len(value) > KEYS_MAX:
        why = "each key is a row of the answer, whether or not the data has it."
        raise Unfit(f"has more than {KEYS_MAX} values", why, "fewer keys, or none")
    keys: dict[Value, None] = {}
    for item in value:
        key, wrong = _value(item, type_), ("", "")
        if key in keys:
            wrong = " twice", "a group appears once."
        elif isinstance(key, str) and len(key) > max_length:
            wrong = ", which is too long", f"texts are cut to {max_length} characters."
        elif bounds and not bounds.low <= key <= bounds.high:  # type: ignore[operator]
            wrong = ", outside the bounds", "clamped values never reach this key."
        if wrong[0]:
            raise Unfit(f"holds {written(item)}{wrong[0]}", wrong[1], "leave this key out")
        keys[key] = None
    return tuple(keys)


# Where a ledger is, on a PostgreSQL server.

_OPTIONS = frozenset(
    (
        *("host", "connect_timeout", "passfile", "channel_binding", "gssencmode"),
        *("sslmode", "sslrootcert", "sslcert", "sslkey", "sslcrl"),
    )
)
"""What a URL may say beside its place: how to reach it, and nothing of what is done there."""


@reader("a name of up to 63 bytes")
def read_schema(value: object) -> str:
    name = read_name.read(value)
    if len(name.encode()) > 63 or name.startswith("pg_"):
        # What is longer is cut off there, and two names would be one.
        why = "PostgreSQL has names of up to 63 bytes, and keeps pg_ to itself."
        raise Unfit(f"is no name of a schema: {written(name)}", why)
    return name


@reader("the URL of a PostgreSQL database, without a password")
def read_url(value: object) -> str:
    # A refusal quotes nothing of a text: what is wrong may be that it holds a password.
    if not isinstance(value, str):
        raise ValueError
    doubt = "is no URL of a server"
    with suppress(ValueError):
        doubt = _doubt(value)
    if doubt:
        raise Unfit(doubt)
    return value


def _doubt(url: str) -> str:
    """Return what is wrong with a URL; nothing, or a ValueError where it is none."""
    parts = urlsplit(url)
    options = parse_qsl(parts.query, True, strict_parsing=True) if parts.query else []
    keys = [key for key, _ in options]
    elsewhere = [value for key, value in options if key == "host" and value[:1] != "/"]
    if parts.password is not None or "password" in keys:
        return "holds a password"
    if (
        not url.startswith(("postgresql://", "postgres://"))
        or parts.fragment
        or parts.port == 0
    ):
        return "is no URL of a server"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "is no URL of a server"
    if not parts.path[1:] or "/" in parts.path[1:]:
        return "names no database"
    if "," in parts.netloc or elsewhere or len(set(keys)) < len(keys):
        return "names more than one server"
    return "" if _OPTIONS.issuperset(keys) else "says more than how a server is reached"
