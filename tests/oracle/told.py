"""What is kept of a unit that has more different values than count, and which can be shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from hashlib import sha256
from itertools import product

from dpquery.core.types import Kind, Type
from dpquery.engine.base import nameable
from dpquery.ir.measures import Candidates
from dpquery.rowfunctions.base import Value

Pairs = Iterable[tuple[Value, tuple[Value, ...]]]
"""Units, each with something that is told from other things."""


def kept_of_units(pairs: Pairs, limit: int, secret: str, *types: Type) -> Pairs:
    """Keep at most so many different things of each unit, chosen by a keyed hash.

    The types are those of what stands last in each; before it stand numbers.
    """
    units: defaultdict[Value, set[tuple[Value, ...]]] = defaultdict(set)
    for unit, told in pairs:
        units[unit].add(told)
    for unit, told_of in units.items():
        for told in sorted(told_of, key=lambda told: _order(secret, unit, told, types))[:limit]:
            yield unit, told


def placed_with_units(
    pairs: Pairs, limit: int, secret: str, *types: Type
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

    for told in sorted(owners, key=lambda told: _order(secret, None, told, types)):
        if give(told, set()):
            yield told


def _order(
    secret: str, unit: Value | None, told: tuple[Value, ...], types: Sequence[Type]
) -> object:
    """Return the hash, and for equal ones the values: NULL, which it passes over, is last."""
    numbers, values = told[: len(told) - len(types)], told[len(told) - len(types) :]
    texts = [secret, *([] if unit is None else [str(unit)]), *map(str, numbers)]
    written = zip(values, types, strict=True)
    texts += [_text(value, type_) for value, type_ in written if value is not None]
    hashed = sha256("|".join(texts).encode()).hexdigest()
    return hashed, [(value is None, value) for value in told]


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


def is_nameable(told: tuple[Value, ...], measure: Candidates) -> bool:
    """Return whether an answer can show a value, in each of its parts."""
    return all(
        value is None or limits is None or limits[0] <= value <= limits[1]
        for value, limits in zip(told, map(nameable, measure.values), strict=True)
    )
