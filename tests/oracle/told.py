"""Values told apart: different ones counted, and candidates for groups, row by row."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from hashlib import sha256

import numpy as np

from dpquery.core.types import Kind, Type
from dpquery.engine.base import by_chance, nameable, named
from dpquery.ir.expr import Scalar
from dpquery.ir.measures import Candidates
from dpquery.mechanisms.samplers import Integers
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


class PythonFound:
    """Answers for the candidates of one scan."""

    def __init__(self, counted: dict[Candidates, Counter[Value]]) -> None:
        self._counted = counted
        self._order: dict[Candidates, Integers] = {}

    def counts(self, measure: Candidates) -> Integers:
        """Return the number of units of each value, in an order of chance."""
        counted = self._counted[measure]
        self._order[measure] = order = by_chance(len(counted))
        counts: Integers = np.array(list(counted.values()), dtype=np.int64)[order]
        return counts

    def values(self, measure: Candidates, places: Sequence[int]) -> list[Scalar | None]:
        """Return the values at some places of that order."""
        values, order = list(self._counted[measure]), self._order[measure]
        return [named(values[order[place]], measure.value.type) for place in places]

    def close(self) -> None:
        """Forget the values."""
        self._counted.clear()


def is_nameable(value: Value, measure: Candidates) -> bool:
    """Return whether an answer can show a value."""
    limits = nameable(measure.value)
    return value is None or limits is None or limits[0] <= value <= limits[1]
