"""What the policy and the ledger say, as answers: tables, columns, charges. They cost nothing.

Everything here comes from the policy or from the analyst's own charges, never from data.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pyarrow as pa

from dpquery import functions as registry
from dpquery.budget.charge import Entry, Standing
from dpquery.errors import Diagnostic, NameRefused, listed, nearest
from dpquery.policy.model import Column, Policy, Table
from dpquery.privacy import decimal_text
from dpquery.sql.names import fold

__all__ = ["budget", "charges", "columns", "find_table", "functions", "lines", "tables"]


def tables(policy: Policy) -> pa.Table:
    """List the tables of a policy, and what bounds one unit's rows in each."""
    rows = [
        {
            "table": table.name,
            "unit": _unit(table),
            "rows_per_unit": 1 if table.single else None,
            "max_rows_contributed": _limit(table),
            "public": table.public,
        }
        for table in policy.tables.values()
    ]
    fields = [
        ("table", pa.string()),
        ("unit", pa.string()),
        ("rows_per_unit", pa.int64()),
        ("max_rows_contributed", pa.int64()),
        ("public", pa.bool_()),
    ]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def _unit(table: Table) -> str | None:
    return None if table.public else table.unit or "each row"


def _limit(table: Table) -> int | None:
    weighted = not table.public and table.unit is not None and not table.single
    return table.max_rows_contributed if weighted else None


def find_table(policy: Policy, name: str) -> Table:
    """Find a table by its name.

    Raises:
        NameRefused: DPQ201.
    """
    for table in policy.tables.values():
        if fold(table.name) == fold(name):
            return table
    near = nearest(name, policy.tables)
    raise NameRefused(
        Diagnostic(
            "DPQ201",
            f"there is no table {name[:80]!r} in this session",
            why=("queries reach only the tables that the policy names.",),
            remedy=(
                f"{near or next(iter(policy.tables), '')}",
                f"tables here: {listed(policy.tables, near)}",
            ),
        )
    )


def columns(table: Table) -> pa.Table:
    """List the columns of a table with their types, bounds and public keys."""
    rows = [_column(column) for column in table.columns.values()]
    names = ("column", "type", "low", "high", "keys")
    return pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in names]))


def _column(column: Column) -> dict[str, str | None]:
    bounds = column.bounds
    return {
        "column": column.name,
        "type": str(column.type),
        "low": None if bounds is None else _shown(bounds.low),
        "high": None if bounds is None else _shown(bounds.high),
        "keys": None if column.keys is None else ", ".join(_shown(key) for key in column.keys),
    }


def charges(entries: Sequence[Entry]) -> pa.Table:
    """List charges, oldest first, with their loss written exactly."""
    rows = [
        {
            "at": entry.when,
            "epsilon": decimal_text(entry.loss.epsilon),
            "delta": decimal_text(entry.loss.delta),
            "query": entry.query,
        }
        for entry in entries
    ]
    fields = [
        ("at", pa.timestamp("us", "UTC")),
        ("epsilon", pa.string()),
        ("delta", pa.string()),
        ("query", pa.string()),
    ]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def budget(standing: Standing) -> pa.Table:
    """Show the limit that binds: how much it is, what is spent against it, what is left."""
    parts = {"limit": standing.limit, "spent": standing.spent, "left": standing.left}
    row = {"of": standing.name}
    row |= {name: decimal_text(loss.epsilon) for name, loss in parts.items()}
    row |= {f"{name}_delta": decimal_text(loss.delta) for name, loss in parts.items()}
    return pa.Table.from_pylist([row], pa.schema([(name, pa.string()) for name in row]))


def functions() -> pa.Table:
    """List the DP_ functions with how they are asked."""
    rows = [
        {
            "function": function.name,
            "also": ", ".join(function.aliases) or None,
            "options": ", ".join(parameter.name for parameter in function.parameters),
            "mechanisms": ", ".join(function.mechanisms),
            "summary": function.summary,
        }
        for function in registry.ALL
    ]
    return pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in rows[0]]))


def lines(name: str, text: str) -> pa.Table:
    """Give a text as a table of one column, a row a line."""
    return pa.table({name: pa.array(text.splitlines(), pa.string())})


def _shown(value: object) -> str:
    return decimal_text(value) if isinstance(value, Fraction) else str(value)
