"""What is kept of a unit that has more different values than count, and which can be shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from fractions import Fraction
from hashlib import sha256

from dpquery.core.types import Kind, Type
from dpquery.engine.base import nameable
from dpquery.ir.measures import Candidates
from dpquery.rowfunctions.base import Value

Pairs = Iterable[tuple[Value, tuple[Value, ...]]]
"""Units, each with something that is told from other things."""


def kept_of_units(pairs: Pairs, limit: int, secret: str, type_: Type) -> Pairs:
    """Keep at most so many different things of each unit, chosen by a keyed hash."""
    units: defaultdict[Value, set[tuple[Value, ...]]] = defaultdict(set)
    for unit, told in pairs:
        units[unit].add(told)
    for unit, told_of in units.items():
        hashes = {_hash(secret, unit, told, type_): told for told in told_of}
        for place in sorted(hashes)[:limit]:
            yield unit, hashes[place]


def _hash(secret: str, unit: Value, told: tuple[Value, ...], type_: Type) -> str:
    texts = [secret, str(unit), *map(str, told[:-1])]
    if told[-1] is not None:
        texts.append(_text(told[-1], type_))
    return sha256("|".join(texts).encode()).hexdigest()


def _text(value: Value, type_: Type) -> str:
    """Write a value as DuckDB casts it to a text."""
    match type_.kind:
        case Kind.BOOLEAN:
            return str(value).lower()
        case Kind.DECIMAL if type_.scale:
            digits = str(abs(int(Fraction(value) * 10**type_.scale))).zfill(type_.scale + 1)
            sign = "-" if value < 0 else ""
            return f"{sign}{digits[: -type_.scale]}.{digits[-type_.scale :]}"
    return str(value)


def is_nameable(value: Value, measure: Candidates) -> bool:
    """Return whether an answer can show a value."""
    limits = nameable(measure.value)
    return value is None or limits is None or limits[0] <= value <= limits[1]
