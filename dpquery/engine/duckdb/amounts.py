"""What a unit may add, as SQL: its weight, its clamped totals, the values that it shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dpquery.engine.duckdb.connection import KEY, text
from dpquery.engine.found import nameable
from dpquery.ir import Expr, Histogram, Measure, TableWeight, UnitTotals, Weight
from dpquery.types import INT64, Interval

__all__ = [
    "chosen_sql",
    "clamped_sql",
    "counts_sql",
    "nameable_sql",
    "pair_sum_sql",
    "row_weight_sql",
    "total_sql",
    "weight_sql",
    "weighted_sql",
    "with_table_sql",
]


def chosen_sql(pairs: str, limit: int, *told: str) -> str:
    """Keep some of what each unit has: which, does not depend on any other unit.

    The secret is a variable of the connection, for a fault may quote the text of a query.
    """
    texts = ", ".join(f"CAST({name} AS VARCHAR)" for name in ("u", *told))
    hashed = f"sha256(concat_ws('|', getvariable({text(KEY)}), {texts}))"
    order = f"PARTITION BY u ORDER BY {hashed}, {', '.join(told)}"
    return f"SELECT * FROM ({pairs}) QUALIFY row_number() OVER ({order}) <= {limit}"


def total_sql(measure: Histogram) -> str:
    """Write the weight of rows; of all together it fits 64 bits, by the plan."""
    return "count(*)" if measure.weight.plain else "CAST(sum(w) AS BIGINT)"


def clamped_sql(total: str, measure: UnitTotals) -> str:
    """Write a total in its range, in an integer that holds its product with the weight."""
    found = f"least(greatest({total}, {measure.low}), {measure.high})"
    if Interval.point(measure.size * measure.weight.scale).within(*INT64):
        found = f"CAST({found} AS BIGINT)"
    else:
        found = f"CAST({found} AS HUGEINT)"
    return f"CASE WHEN {total} IS NOT NULL THEN {found} END"


def pair_sum_sql(index: int, measure: Measure) -> str:
    """Write a sum over units and groups: their number, or their totals, with their weights."""
    amount = (
        f"m{index}" if isinstance(measure, UnitTotals) else f"CASE WHEN m{index} > 0 THEN 1 END"
    )
    weight = "" if measure.weight.plain else f" * w{index}"
    return f"coalesce(sum({amount}{weight}), 0)"


def nameable_sql(value: Expr) -> Iterable[str]:
    """Limit values to those that a column of an answer can show, where there are others."""
    limits = nameable(value)
    if limits is not None:
        yield f"(x IS NULL OR x BETWEEN {limits[0]} AND {limits[1]})"


def row_weight_sql(weight: Weight) -> str:
    """Write what each row counts: by n, its unit's rows, or by t, those in the table."""
    return weight_sql("t" if isinstance(weight, TableWeight) else "n", weight)


def weighted_sql(rows: str, table: str, weight: Weight) -> str:
    """Write rows with their weight w."""
    counted = counts_sql(f"({rows})", table, [weight])
    weighted = f"SELECT r.*, {row_weight_sql(weight)} AS w"
    return f"{weighted} FROM ({rows}) AS r JOIN ({counted}) USING (u)"


def counts_sql(rows: str, table: str, weights: Sequence[Weight]) -> str:
    """Write how many rows each unit has, of those that the weights count."""
    by_table = [isinstance(weight, TableWeight) for weight in weights]
    if all(by_table):
        return _table_counts(table)
    counted = f"SELECT u, count(*) AS n FROM {rows} GROUP BY u"
    return with_table_sql(counted, table) if any(by_table) else counted


def with_table_sql(units: str, table: str) -> str:
    """Write what units have, and beside it how many rows each has in the table."""
    return f"SELECT * FROM ({units}) JOIN ({_table_counts(table)}) USING (u)"


def _table_counts(table: str) -> str:
    return f"SELECT u, count(*) AS t FROM ({table}) GROUP BY u"


def weight_sql(rows: str, weight: Weight) -> str:
    """Write floor(scale * min(1, limit / rows))."""
    if weight.plain:
        return "1"
    shared = f"{weight.total} // {rows}"
    return f"CASE WHEN {rows} <= {weight.limit} THEN {weight.scale} ELSE {shared} END"
