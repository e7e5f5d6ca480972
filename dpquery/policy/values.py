"""Readers of single values of a policy: numbers, types, bounds, keys.

Each takes what TOML gives and gives the exact value, or raises `Unfit`; none knows where the
value stands. Floats do not occur: TOML's are read as `Decimal` (I8).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction

from dpquery.core.privacy import BUDGET_MAX, Neighbours, exact_number
from dpquery.core.types import INT64, ROWS_MAX, Kind, RowLimit, Type
from dpquery.errors import nearest
from dpquery.policy.document import Unfit, written
from dpquery.policy.model import Bounds, Value

KEYS_MAX = 1_000_000
"""Public keys of one column: as many as an answer may have cells."""
NAME_MAX = 128
DECIMAL_MAX = 18
"""Digits of a decimal that fit a 64-bit integer."""
DOUBLE_MAX = Fraction(sys.float_info.max)

_BOUNDED = frozenset({Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP})
_EXAMPLES = {
    Kind.INTEGER: "120",
    Kind.DOUBLE: "99.5",
    Kind.DECIMAL: "99.5",
    Kind.TEXT: '"eng"',
    Kind.BOOLEAN: "true",
    Kind.DATE: "2030-12-31",
    Kind.TIMESTAMP: "2030-12-31T23:59:59",
}
_LOW = {Kind.DATE: "2000-01-01", Kind.TIMESTAMP: "2000-01-01T00:00:00"}
"""Low ends of bounds, where 0 is none."""
_OTHER_NAMES = {
    "bigint": "integer",
    "int": "integer",
    "float": "double",
    "real": "double",
    "numeric": "decimal(18,2)",
    "decimal": "decimal(18,2)",
    "string": "text",
    "str": "text",
    "varchar": "text",
    "bool": "boolean",
    "datetime": "timestamp",
}
"""What other systems call our types; a refusal names ours."""


def read_epsilon(value: object) -> Fraction:
    """Read a ceiling on epsilon: above zero, at most 9e9."""
    number = _number(value)
    if not 0 < number <= BUDGET_MAX:
        raise Unfit(
            f"must be above 0 and at most 9e9, not {written(value)}",
            "epsilon is the most that may be lost; at 0 no question could be answered.",
            "epsilon = 1",
        )
    return number


def read_rho(value: object) -> Fraction:
    """Read a ceiling on rho: above zero, at most 9e9."""
    number = _number(value)
    if not 0 < number <= BUDGET_MAX:
        raise Unfit(
            f"must be above 0 and at most 9e9, not {written(value)}",
            "rho is the most that may add up; at 0 no question could be answered.",
            "rho = 0.05",
        )
    return number


def read_delta(value: object) -> Fraction:
    """Read a ceiling on delta: from 0, below 1."""
    number = _number(value)
    if not 0 <= number < 1:
        raise Unfit(
            f"must be at least 0 and below 1, not {written(value)}",
            "delta is a probability with which the promise may fail.",
            "delta = 1e-7",
        )
    return number


def read_grid(value: object) -> Fraction:
    """Read the step of a double's grid."""
    number = _number(value)
    if not Fraction(sys.float_info.min) <= number <= DOUBLE_MAX:
        raise Unfit(
            f"must be above 0 and a double, not {written(value)}",
            "values are rounded to multiples of the grid, which become integers.",
            "grid = 0.01",
        )
    return number


def _number(value: object) -> Fraction:
    if isinstance(value, str) or not isinstance(value, int | Decimal | Fraction):
        raise _not_a("number", value, _unquoted(value, exact_number) or "1")
    try:
        return exact_number(value)
    except ValueError as error:
        why = "numbers are exact here: finite, and of at most 30 digits."
        raise Unfit(f"is {error}: {written(value)}", why, "such as 120") from None


def _unquoted(value: object, read: Callable[[str], object]) -> str | None:
    """Return what a text holds that would have been understood without its quotes."""
    text = value.strip() if isinstance(value, str) else ""
    try:
        read(text)
    except ValueError:
        return None
    return text


def _not_a(kind: str, value: object, example: str) -> Unfit:
    why = "a value of another type is a mistake more often than a wish, so none is converted."
    return Unfit(f"must be a {kind}, not {written(value)}", why, example)


def read_count(
    high: int, why: str = "the noise is scaled to this number.", example: str = "1"
) -> Callable[[object], int]:
    """Return the reader of an integer from 1 on, with why it is limited."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= high:
            what = f"must be an integer from 1 to {high}, not {written(value)}"
            raise Unfit(what, why, example)
        return value

    return read


def read_rows(value: object) -> RowLimit:
    """Read how many rows of one unit count: a number, or "auto"."""
    if value == "auto":
        return "auto"
    if isinstance(value, str):
        what = f'must be "auto" or an integer from 1 to {ROWS_MAX}, not {written(value)}'
        raise Unfit(what, "the noise is scaled to this number.", '"auto"')
    return read_count(ROWS_MAX)(value)


def read_single(value: object) -> bool:
    """Read how many rows each unit has: that it is one is all that can be declared."""
    if isinstance(value, bool) or value != 1:
        number = value if isinstance(value, int) and value > 1 else 20
        raise Unfit(
            f"can only be 1, not {written(value)}",
            "it declares that each unit has one row; where units have more, a limit is stated.",
            f"max_rows_contributed = {number}",
        )
    return True


def read_flag(value: object) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        no = str(value).lower() in {"false", "no", "off", "n", "0"}
        raise _not_a("boolean", value, "false" if no else "true")
    return value


def read_text(value: object) -> str:
    """Read a text that is not empty."""
    if not isinstance(value, str):
        raise _not_a("text", value, '"people.parquet"')
    if not value or "\0" in value:
        why = "a name that is empty, or holds a NUL character, names nothing."
        raise Unfit(f"names nothing: {written(value)}", why, '"people.parquet"')
    return value


def read_name(value: object) -> str:
    """Read a name of a table, column or analyst: 1 to 128 printable characters."""
    name = read_text(value)
    if len(name) > NAME_MAX or not name.isprintable():
        raise Unfit(
            f"is not a name: {written(value)}",
            f"names have at most {NAME_MAX} characters, and only such as can be printed.",
            '"people"',
        )
    return name


def read_names(value: object) -> tuple[str, ...]:
    """Read a list of names, none of them twice."""
    names = tuple(read_name(item) for item in _items(value, '["region"]'))
    if len(set(names)) < len(names):
        raise Unfit("names a column twice", "each column counts once.", '["region"]')
    return names


def read_paths(value: object) -> tuple[str, ...]:
    """Read one path, or a list of paths."""
    if isinstance(value, list):
        return tuple(read_text(item) for item in _items(value, '["people.parquet"]'))
    return (read_text(value),)


def _items(value: object, example: str) -> list[object]:
    if not isinstance(value, list) or not value:
        why = "an empty list would say nothing."
        raise Unfit(f"must be a list that is not empty, not {written(value)}", why, example)
    return value


def read_neighbours(value: object) -> Neighbours:
    """Read the neighbouring relation."""
    known = [str(relation) for relation in Neighbours]
    text = value if isinstance(value, str) else ""
    if text in known:
        return Neighbours(text)
    near = nearest(text, known)
    raise Unfit(
        f"is none of {', '.join(known)}: {written(value)}",
        "it says whether the number of units is private (add-remove) or public (substitute).",
        f'neighbours = "{near or known[0]}"',
    )


def read_type(value: object) -> Type:
    """Read the name of a type.

    >>> str(read_type("decimal(9, 2)"))
    'decimal(9,2)'
    """
    text = read_text(value) if isinstance(value, str) else ""
    plain = [kind.value for kind in Kind if kind is not Kind.DECIMAL]
    if text in plain:
        return Type(Kind(text))
    digits = re.fullmatch(r"decimal\(([0-9]{1,2}), ?([0-9]{1,2})\)", text)
    if digits and 1 <= int(digits[1]) <= DECIMAL_MAX and int(digits[2]) <= int(digits[1]):
        return Type(Kind.DECIMAL, int(digits[1]), int(digits[2]))
    known = [*plain, f"decimal({DECIMAL_MAX},2)"]
    near = _OTHER_NAMES.get(text.lower()) or nearest(text, known) or "integer"
    raise Unfit(
        f"is not a type: {written(value)}",
        f"types are {', '.join(known)}; a decimal has at most {DECIMAL_MAX} digits.",
        f'type = "{near}"',
    )


def read_value(value: object, type_: Type) -> Value:
    """Read a value of a column's type, exactly.

    >>> from dpquery.types import DOUBLE
    >>> read_value(Decimal("0.1"), DOUBLE)
    Fraction(1, 10)
    """
    match type_.kind:
        case Kind.INTEGER:
            return _integer(value)
        case Kind.DOUBLE:
            return _double(value)
        case Kind.DECIMAL:
            return _decimal(value, type_)
        case Kind.TEXT if isinstance(value, str) and "\0" not in value:
            return value
        case Kind.BOOLEAN if isinstance(value, bool):
            return value
        case Kind.DATE if isinstance(value, date) and not isinstance(value, datetime):
            return value
        case Kind.TIMESTAMP if isinstance(value, datetime) and value.tzinfo is None:
            return value
    raise _outside(value, type_)


def _integer(value: object) -> int:
    number = _number(value)
    if number.denominator != 1 or not INT64[0] <= number <= INT64[1]:
        raise _outside(value, Type(Kind.INTEGER))
    return number.numerator


def _double(value: object) -> Fraction:
    number = _number(value)
    if abs(number) > DOUBLE_MAX:
        raise _outside(value, Type(Kind.DOUBLE))
    return number


def _decimal(value: object, type_: Type) -> Fraction:
    number = _number(value)
    scaled = number * 10**type_.scale
    if scaled.denominator != 1 or abs(scaled) >= 10**type_.precision:
        raise _outside(value, type_)
    return number


def _outside(value: object, type_: Type) -> Unfit:
    why = "bounds and keys are compared with the column, so they have its type."
    if type_.kind is Kind.TIMESTAMP:
        why += "\ntimestamps have no time zone here."
    what = f"holds {written(value)}, which is not a value of type {type_}"
    moments = {Kind.DATE: date.fromisoformat, Kind.TIMESTAMP: datetime.fromisoformat}
    meant = _unquoted(value, moments[type_.kind]) if type_.kind in moments else None
    return Unfit(what, why, meant or f"such as {_EXAMPLES[type_.kind]}")


def read_bounds(value: object, type_: Type) -> Bounds:
    """Read the lowest and the highest value of a column."""
    if type_.kind not in _BOUNDED:
        raise Unfit(
            f"does not apply to a column of type {type_}",
            "only values that are clamped have bounds: numbers, dates and timestamps.",
            "keys = [...]    lists the values that may be groups",
            code="DPQ607",
        )
    example = f"bounds = [{_LOW.get(type_.kind, '0')}, {_EXAMPLES[type_.kind]}]"
    if not isinstance(value, list | tuple) or len(value) != 2:
        why = (
            "values are clamped to a lowest and a highest, chosen without looking at the data."
        )
        raise Unfit(f"must be two values, not {written(value)}", why, example)
    low, high = (read_value(end, type_) for end in value)
    if low > high:  # type: ignore[operator]  # both have the column's one type
        raise Unfit(
            f"has its low end {written(value[0])} above its high end {written(value[1])}",
            "values are clamped to lie between the two.",
            f"bounds = [{written(value[1])}, {written(value[0])}]",
        )
    return Bounds(low, high)  # type: ignore[arg-type]  # texts and booleans were refused above


def read_keys(
    value: object, type_: Type, bounds: Bounds | None, max_length: int
) -> tuple[Value, ...]:
    """Read the values of a column that may be groups, in the policy's order."""
    items = _items(value, f"keys = [{_EXAMPLES[type_.kind]}]")
    if len(items) > KEYS_MAX:
        why = "each key is a row of the answer, whether or not the data has it."
        raise Unfit(f"has more than {KEYS_MAX} values", why, "fewer keys, or none")
    keys: dict[Value, None] = {}
    for item in items:
        key = read_value(item, type_)
        if key in keys:
            what, why = "holds {} twice", "a group appears once."
        elif isinstance(key, str) and len(key) > max_length:
            what, why = (
                "holds {}, which is too long",
                f"texts are cut to {max_length} characters.",
            )
        elif bounds and not bounds.low <= key <= bounds.high:  # type: ignore[operator]
            what, why = "holds {}, outside the bounds", "clamped values never reach this key."
        else:
            keys[key] = None
            continue
        raise Unfit(what.format(written(item)), why, "leave this key out")
    return tuple(keys)
