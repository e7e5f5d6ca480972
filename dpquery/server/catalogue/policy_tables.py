"""What the catalogue tells of a policy: tables and columns as PostgreSQL would describe them.

It is all that the twin's process is given, and no more than DESCRIBE shows to every analyst.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dpquery.core.types import Kind, Type
from dpquery.policy.model import Policy
from dpquery.server.catalogue.pg_catalog_schema import BY_NAME
from dpquery.session_methods.tables_and_charges import columns as described
from dpquery.session_methods.tables_and_charges import tables as listed

MOST_KEYS = 400
"""Characters of a column's keys that its comment shows: DESCRIBE has them all."""
_NAMES = {
    Kind.INTEGER: "int8",
    Kind.DOUBLE: "float8",
    Kind.DECIMAL: "numeric",
    Kind.TEXT: "text",
    Kind.BOOLEAN: "bool",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
    Kind.TIMESTAMPTZ: "timestamptz",
    Kind.TIME: "time",
}


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column of the policy."""

    name: str
    type: int
    """The number of its type in PostgreSQL."""
    modifier: int
    """What PostgreSQL keeps of a decimal's digits; -1 of other types."""
    comment: str | None


@dataclass(frozen=True, slots=True)
class ShownTable:
    """A table of the policy."""

    name: str
    comment: str
    columns: tuple[ShownColumn, ...]


def shown_tables(policy: Policy) -> tuple[ShownTable, ...]:
    """Return what analysts are shown of a policy."""
    rows = {row["table"]: row for row in listed(policy).to_pylist()}
    return tuple(
        ShownTable(
            table.name,
            _of_table(rows[table.name], table.unique),
            tuple(
                ShownColumn(column.name, *_type(column.type), _of_column(row))
                for column, row in zip(
                    table.held.values(), described(table).to_pylist(), strict=True
                )
            ),
        )
        for table in policy.tables.values()
    )


def as_json(tables: Iterable[ShownTable]) -> list[dict[str, Any]]:
    """Return tables as they are sent to the twin."""
    return [asdict(table) for table in tables]


def from_json(tables: Iterable[Mapping[str, Any]]) -> tuple[ShownTable, ...]:
    """Return the tables that were sent."""
    return tuple(
        ShownTable(
            table["name"],
            table["comment"],
            tuple(ShownColumn(**column) for column in table["columns"]),
        )
        for table in tables
    )


def _type(type_: Type) -> tuple[int, int]:
    """Return the number of a type, and its modifier."""
    found = BY_NAME[_NAMES[type_.kind]]
    decimal = type_.kind is Kind.DECIMAL
    modifier = (type_.precision << 16 | type_.scale) + 4 if decimal else -1
    return found.array if type_.listed else found.oid, modifier


def _of_table(row: Mapping[str, Any], unique: Sequence[str]) -> str:
    if row["public"]:
        told = ["public: what it holds is shown exactly"]
        told += [f"unique by {', '.join(unique)}"] if unique else []
        return "; ".join(told)
    told = [f"privacy unit: {row['unit']}"]
    if row["rows_per_unit"]:
        told.append("one row per unit")
    elif row["max_rows_contributed"]:
        told.append(f"rows of a unit that count: {row['max_rows_contributed']}")
    return "; ".join((*told, "answers are aggregates with noise"))


def _of_column(row: Mapping[str, Any]) -> str | None:
    """Say what DESCRIBE says of a column beside its name and type."""
    rest = dict(row)
    told = [text] if (text := rest.pop("description", None)) else []
    low, high, keys = rest.pop("low"), rest.pop("high"), rest.pop("keys")
    if low is not None:
        told.append(f"bounds {low} to {high}")
    if keys is not None:
        short = keys if len(keys) <= MOST_KEYS else f"{keys[:MOST_KEYS]}..., see DESCRIBE"
        told.append(f"keys {short}")
    told += [f"{name}: {rest[name]}" for name in ("unit", "parts") if rest.get(name)]
    return "; ".join(told) or None
