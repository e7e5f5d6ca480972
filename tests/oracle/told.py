"""What is kept of a unit that has more different values than count, and which can be shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from fractions import Fraction
from hashlib import sha256
from itertools import product

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


def placed_with_units(
    pairs: Pairs, limit: int, secret: str, type_: Type
) -> Iterator[tuple[Value, ...]]:
    """Return the things that count, where a unit stands for at most so many of its own.

    They are put in the order of a keyed hash. One counts if there is a way to give it, and all
    that count before it, to units.
    """
    owners: defaultdict[tuple[Value, ...], set[Value]] = defaultdict(set)
    for unit, told in pairs:
        owners[told].add(unit)
    given: dict[tuple[Value, int], tuple[Value, ...]] = {}

    def give(told: tuple[Value, ...], passed: set[tuple[Value, int]]) -> bool:
        """Give a thing to a unit, from which another may first be moved to one more."""
        for slot in product(sorted(owners[told]), range(limit)):
            if slot not in passed:
                passed.add(slot)
                if slot not in given or give(given[slot], passed):
                    given[slot] = told
                    return True
        return False

    for told in sorted(owners, key=lambda told: _hash(secret, None, told, type_)):
        if give(told, set()):
            yield told


def _hash(secret: str, unit: Value, told: tuple[Value, ...], type_: Type) -> str:
    texts = [secret, *([] if unit is None else [str(unit)]), *map(str, told[:-1])]
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
