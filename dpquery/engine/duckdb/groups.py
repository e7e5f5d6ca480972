"""The numbers of groups in SQL: the place of a row's keys among those that are declared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpquery.engine.duckdb.values import constant
from dpquery.ir import Key, Scalar
from dpquery.types import UNKNOWN, Interval, Kind, ordinal

__all__ = ["Grouping", "NumberedKey"]


@dataclass(frozen=True, slots=True)
class NumberedKey:
    """A key of a scan, in a column g0, g1, ... of the engine's, and how values are numbered."""

    index: int
    key: Key
    kept: Sequence[Scalar | None] | None
    """The values of the enumeration that the column is of, where it is one."""

    @property
    def place(self) -> str:
        """Write where a value stands: from 0 on in a run of integers, or as it is listed."""
        run = self._run
        if run is not None:
            number = f"({self._text} - {run[0]})"
            return f"coalesce({number}, {len(run)})" if self._missing else number
        listed = f"l{self.index}.i"
        rest = str(len(self.key.values) - 1)
        if self._alone:
            return rest
        return f"coalesce({listed}, {rest})" if self.key.rest else listed

    @property
    def limits(self) -> str | None:
        """Write what keeps to a run; to all of an enumeration, what is cheap for each row."""
        run = self._run
        if run is None:
            return None
        if self.kept is not None and len(run) == len(self.kept):
            return f"g{self.index} IS NOT NULL"
        inside = f"{self._text} BETWEEN {run[0]} AND {run[-1]}"
        return f"({inside} OR g{self.index} IS NULL)" if self._missing else inside

    @property
    def join(self) -> str | None:
        """Write the join that numbers values which are listed one by one."""
        if self._run is not None or self._alone:
            return None
        known = self._integers
        values = [*map(self._written, self._listed)]
        if known is not None:
            values = [*map(str, known), *["NULL"] * self._missing]
        listed = ", ".join(f"({i}, {value})" for i, value in enumerate(values))
        listed = listed or "the groups found"  # in EXPLAIN alone: a scan without any is not run
        same = "IS NOT DISTINCT FROM" if self._missing else "="
        name, kind = f"l{self.index}", "LEFT JOIN" if self.key.rest else "JOIN"
        return f"{kind} (VALUES {listed}) AS {name}(i, v) ON {self._text} {same} {name}.v"

    @property
    def _alone(self) -> bool:
        """Whether one group holds all rows: then nothing has to be looked up."""
        return self.key.rest and len(self.key.values) == 1

    @property
    def _listed(self) -> Sequence[Scalar | None]:
        """Give the values that are groups of their own."""
        return self.key.values[:-1] if self.key.rest else self.key.values

    @property
    def _missing(self) -> bool:
        """Whether NULL is a group, which comes last, and is no value of an enumeration."""
        return self.kept is None and None in self._listed

    @property
    def _text(self) -> str:
        """Write a value as it is compared: of an enumeration, as its number there."""
        name = f"g{self.index}"
        return name if self.kept is None else f"CAST(enum_code({name}) AS BIGINT)"

    @property
    def _integers(self) -> list[int] | None:
        """Return the values as integers, where they are compared as such: but for NULL."""
        if self.kept is not None:
            return [self.kept.index(value) for value in self._listed]
        if self.key.expr.type.kind not in {Kind.INTEGER, Kind.DATE}:
            return None
        return [_place(value) for value in self._listed if value is not None]

    @property
    def _run(self) -> range | None:
        """Give the values as a run of integers or days: then a number needs no list."""
        places = self._integers
        if (
            self.key.rest
            or not places
            or places != list(range(places[0], places[0] + len(places)))
        ):
            return None
        return range(places[0], places[-1] + 1)

    def _written(self, value: Scalar | None) -> str:
        """Write a value as it is compared; it may be one that the column never has."""
        if value is None:
            return "NULL"
        type_ = self.key.expr.type
        if type_.kind is Kind.DATE:
            return str(_place(value))
        domain = Interval.point(value) if isinstance(value, int | Fraction) else UNKNOWN
        return constant(value, type_, domain)


def _place(value: object) -> int:
    return ordinal(value) if not isinstance(value, int) else value  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Grouping:
    """The keys of a scan; the last one runs fastest."""

    keys: tuple[NumberedKey, ...]

    @property
    def joins(self) -> str:
        """Write the joins that number keys which are listed one by one."""
        return " ".join(key.join for key in self.keys if key.join is not None)

    @property
    def limits(self) -> list[str]:
        """Write what keeps to the declared keys, where no join does."""
        return [key.limits for key in self.keys if key.limits is not None]

    @property
    def cell(self) -> str:
        """Write the number of a row's group."""
        text = "0"
        for number, key in enumerate(self.keys):
            text = f"({text} * {len(key.key.values)} + {key.place})" if number else key.place
        return f"CAST({text} AS BIGINT)"
