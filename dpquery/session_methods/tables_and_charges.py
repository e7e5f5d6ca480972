"""What the policy and the ledger say, as answers: tables, columns, charges. They cost nothing.

Everything here comes from the policy or from the analyst's own charges, never from data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from functools import partial
from operator import attrgetter
from zoneinfo import ZoneInfo

import pyarrow as pa

from dpquery import functions as registry
from dpquery.budget.accountant import NOTHING, Spent, additive
from dpquery.budget.ledger import report
from dpquery.budget.ledger.charge_and_receipt import Entry
from dpquery.budget.ledger.record import Record
from dpquery.budget.ledger.report import COLUMNS, row
from dpquery.budget.limits import Standing
from dpquery.budget.parallel_composition import EVERYBODY, Touched
from dpquery.core.arrow_columns import table_of
from dpquery.core.privacy_events import Event, Refined, releases
from dpquery.core.privacy_loss import Ceiling, decimal_text
from dpquery.core.source_text import Span
from dpquery.core.types import Type
from dpquery.errors import nearest, refusal, shown
from dpquery.functions.quantize import written_ends
from dpquery.ir.expr import ColumnRef, Expr
from dpquery.plan.touched_partitions import every_part, parted
from dpquery.policy.model import Column, Policy, Table, Through, Value
from dpquery.policy.toml_keys import COLUMN
from dpquery.rowfunctions.analysis.ranges import implied
from dpquery.sql.bind.from_clause import Derived
from dpquery.sql.bind.scope import INTERVAL_ENDS, fold, listed_names, written_name
from dpquery.sql.parse.literals import written_value
from dpquery.sql.postprocess.from_clause import Open
from dpquery.sql.views import View

# What the epsilon of a charge does not tell: what was paid before, and who is meant.


def remarks(entries: Sequence[Entry], policy: Policy) -> list[str]:
    """Say of each charge what it refines, and on which parts it is; nothing of most."""
    names = {part.column: part.names for part in parted(policy)}
    return ["; ".join(_remarks(entry, names)) for entry in entries]


def _remarks(entry: Entry, names: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    refined = (one for one in releases(entry.events) if isinstance(one, Refined))
    if before := sum((one.before for one in refined), Fraction(0)):
        yield f"refines the answer at {decimal_text(before)}"
    touched = entry.touched
    if touched is not None and touched.column in names:
        yield f"on {replace(touched, names=names[touched.column]).named}"
    elif touched is not None:
        yield "on parts as they were then"


def tables(policy: Policy, views: Iterable[View] = ()) -> pa.Table:
    """List the tables of a policy, and what bounds one unit's rows in each; then views."""
    rows: list[tuple[object, ...]] = [
        (
            table.name,
            _unit(table, policy),
            1 if table.single else None,
            _limit(table),
            table.public,
        )
        for table in policy.tables.values()
    ]
    fields = {
        "table": pa.string(),
        "unit": pa.string(),
        "rows_per_unit": pa.int64(),
        "max_rows_contributed": pa.string(),
        "public": pa.bool_(),
    }
    named = [(view.name, *[None] * 4, " ".join(view.query.split())) for view in views]
    if named:
        rows = [*((*row, None) for row in rows), *named]
        fields["view"] = pa.string()
    return table_of(rows, fields)


def _unit(table: Table, policy: Policy) -> str | None:
    """Say whose the rows of a table are: by which of its columns, or by which way."""
    if table.public or table.unit is None:
        return None if table.public else "each row"
    by = table.unit if table.through is None else f"{table.unit} by {table.through}"
    return by if policy.unit is None else f"{policy.unit}: {by}"


def _limit(table: Table) -> str | None:
    """Return how many rows of a unit count, unless a query says: nothing where none is cut."""
    if table.public or table.unit is None or table.single:
        return None
    limit = table.max_rows_contributed
    return "not stated" if limit is None else str(limit)


def find_table(
    policy: Policy, name: str, span: Span | None = None, views: Iterable[View] = ()
) -> Table:
    """Find a table by its name, which may stand in a statement; views could have been meant.

    Raises:
        NameRefused: DPQ201.
    """
    for table in policy.tables.values():
        if fold(table.name) == fold(name):
            return table
    known = [*policy.tables, *(view.name for view in views)]
    near = nearest(name, known)
    meant = written_name(near or next(iter(known), ""))
    raise refusal(
        "DPQ201",
        f"there is no table {shown(name)} in this session",
        span,
        "not in the policy",
        "queries reach only the tables that the policy names.",
        (meant, f"tables here: {listed_names(known, near)}"),
    )


_COLUMNS = ("column", "type", "low", "high", "keys")


def columns(table: Table) -> pa.Table:
    """List the columns of a table with their types, bounds and public keys.

    What else the owner says of columns is shown where any of them has it.
    """
    every = table.held.values()
    shown: dict[str, Callable[[Column], str | None]] = {}
    if table.through is not None:
        shown["unit"] = partial(_way, through=table.through)
    if table.parting is not None:
        shown["parts"] = partial(_parts, table=table)
    for key in COLUMN.keys:
        if key.described and any(getattr(column, key.to) for column in every):
            shown[key.name] = attrgetter(key.to)
    rows = [(*_column(column), *(of(column) for of in shown.values())) for column in every]
    return _texts([*_COLUMNS, *shown], rows)


def view_columns(found: Derived | Open) -> pa.Table:
    """List the columns of a view: those of rows with the bounds and keys that are chosen."""
    rows: list[tuple[str | None, ...]]
    if isinstance(found, Derived):
        rows = [_of_rows(name, expr) for name, expr in found.columns.items()]
    else:
        rows = [(column.name, column.kind, None, None, None) for column in found.columns]
    return _texts(_COLUMNS, rows)


def _of_rows(name: str, expr: Expr) -> tuple[str | None, ...]:
    range_, keys = implied(expr), expr.keys if isinstance(expr, ColumnRef) else None
    ends = written_ends(range_, expr.type) if range_.bounded else (None, None)
    listed = None if keys is None else ", ".join(map(_written, keys))
    return (name, str(expr.type), *ends, listed)


def _way(column: Column, through: Through) -> str | None:
    """Say of the column that leads to the unit where it leads."""
    return f"by {through}" if column.name == through.column else None


def _parts(column: Column, table: Table) -> str | None:
    """Say of how many of the column's parts a unit's rows count."""
    if column is not table.parting:
        return None
    most = table.parts_per_unit
    return "all rows of a unit" if most is None else f"{most} per unit"


def _column(column: Column) -> tuple[str | None, ...]:
    bounds = column.bounds
    return (
        column.name,
        str(column.type),
        None if bounds is None else _shown(bounds.low, column.type),
        None if bounds is None else _shown(bounds.high, column.type),
        None if column.keys is None else ", ".join(_written(key) for key in column.keys),
    )


def charges(entries: Sequence[Entry], policy: Policy) -> pa.Table:
    """List charges, oldest first, with their loss written exactly."""
    rows = [
        (
            entry.when,
            decimal_text(entry.loss.epsilon),
            decimal_text(entry.loss.delta),
            entry.query,
            remark or None,
        )
        for entry, remark in zip(entries, remarks(entries, policy), strict=True)
    ]
    texts = dict.fromkeys(("epsilon", "delta", "query", "remark"), pa.string())
    return table_of(rows, {"at": pa.timestamp("us", "UTC"), **texts})


def every_charge(records: Iterable[Record]) -> pa.Table:
    """List everybody's charges with their events, for the data owner."""
    return _texts(report.EXPORTED_COLUMNS, [report.exported_row(record) for record in records])


def budget(
    policy: Policy,
    standing: Callable[[Touched | None], Standing],
    failed: int,
    last: Sequence[Event] = (),
) -> pa.Table:
    """Show the limit that binds: how much it is, what is spent against it, what is left.

    Below stands the same for questions about one part of a table alone.

    Args:
        policy: what parts its tables.
        standing: gives the limit that binds a question about some parts, or about all.
        failed: how many statements of the analyst count as failed.
        last: what the analyst's last charge was for: how many more there could be is told.
    """
    whole = standing(EVERYBODY)
    rows = [_budget(whole, whole.name, additive(last))]
    if failed:
        rows[0]["failures"] = f"{failed} of {policy.limits.max_failures} within 24 hours"
    for part in every_part(policy):
        own = standing(part)
        rows.append(_budget(own, f"{own.name}, where {part.named}"))
    return _texts(rows[0], [tuple(map(row.get, rows[0])) for row in rows])


def _budget(standing: Standing, of: str, last: Spent = NOTHING) -> dict[str, str]:
    parts = {"limit": standing.limit, "spent": standing.spent, "left": standing.left}
    row = {"of": of}
    row |= {name: decimal_text(loss.epsilon) for name, loss in parts.items()}
    row |= {f"{name}_delta": decimal_text(loss.delta) for name, loss in parts.items()}
    if last != NOTHING:
        row["more"] = f"{standing.times(last):,}"
    if standing.ceiling.converted:
        rho = (standing.ceiling.rho, standing.total.rho, standing.left_as_rho)
        row |= {
            f"{name}_rho": decimal_text(part) for name, part in zip(parts, rho, strict=True)
        }
    if standing.frozen:
        row |= {"frozen": f"{standing.frozen}: no query is charged"}
    return row


def losses(name: str, charges: Sequence[tuple[Event, ...]], ceiling: Ceiling) -> pa.Table:
    """Show what some charges lose together, as each accountant puts it."""
    return _texts(COLUMNS, [row(name, charges, ceiling)])


def functions() -> pa.Table:
    """List the DP_ functions with how they are asked."""
    rows = [
        (
            function.name,
            ", ".join(function.aliases) or None,
            ", ".join(parameter.name for parameter in function.parameters),
            ", ".join(function.mechanisms),
            function.summary,
        )
        for function in registry.ALL
    ]
    rows += [(name, None, "confidence", "", line) for name, line in INTERVAL_ENDS.items()]
    return _texts(("function", "also", "options", "mechanisms", "summary"), rows)


def lines(name: str, text: str) -> pa.Table:
    """Return a text as a table of one column, a row a line."""
    return _texts([name], [(line,) for line in text.splitlines()])


def _texts(names: Iterable[str], rows: Sequence[Sequence[str | None]]) -> pa.Table:
    return table_of(rows, dict.fromkeys(names, pa.string()))


def _written(key: Value) -> str:
    """Write a key as a query has to, so that a list of them fits into IN (...)."""
    return _shown(key).lower() if isinstance(key, bool | Fraction) else written_value(key)


def _shown(value: object, type_: Type | None = None) -> str:
    if isinstance(value, datetime) and type_ is not None and type_.zone:
        value = value.astimezone(ZoneInfo(type_.zone))
    return decimal_text(value) if isinstance(value, Fraction) else str(value)
