"""Aggregates and window functions above the frontier: one value of many rows.

An aggregate cannot stand inside TRY, so each is written such that it raises on no value:
numbers are summed in a type that holds every sum, or in doubles.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import expressions as exp

from dpquery.sql.above.values import Value
from dpquery.types import Kind

__all__ = [
    "AGGREGATES",
    "GROUPING",
    "ONLY_WINDOWS",
    "Aggregate",
    "aggregate_name",
    "window_name",
]

GROUPING = "GROUPING"
"""It says which keys a row is not grouped by; no window is made of it."""
_NODES: dict[type[exp.Expr], str] = {
    exp.Count: "COUNT",
    exp.CountIf: "COUNT_IF",
    exp.Sum: "SUM",
    exp.Avg: "AVG",
    exp.Min: "MIN",
    exp.Max: "MAX",
    exp.LogicalAnd: "BOOL_AND",
    exp.LogicalOr: "BOOL_OR",
    exp.Grouping: GROUPING,
    exp.GroupingId: GROUPING,
}
_WINDOW_NODES: dict[type[exp.Expr], str] = {
    exp.RowNumber: "ROW_NUMBER",
    exp.Rank: "RANK",
    exp.DenseRank: "DENSE_RANK",
    exp.Lag: "LAG",
    exp.Lead: "LEAD",
}


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An aggregate: what it takes, by letters, and its name for the engine."""

    name: str
    takes: str
    engine: str
    gives: Kind | None
    """None where it gives a value of its first argument."""
    doubles: bool = False
    """Whether its numbers are made doubles, in which no sum overflows."""
    optional: int = 0

    def argument(self, value: Value) -> str:
        """Write an argument so that the aggregate cannot raise on it."""
        if self.name == "SUM" and value.kind is Kind.INTEGER:
            return f"TRY_CAST({value.total} AS BIGINT)"
        exact = self.name == "SUM" and value.kind is Kind.DECIMAL and value.narrow
        if self.doubles and not exact:
            return f"TRY_CAST({value.total} AS DOUBLE)"
        return value.total

    def whole(self, called: str, arguments: list[Value]) -> str:
        """Write the whole call: a sum of whole numbers is one again, or NULL."""
        if self.name == "SUM" and arguments and arguments[0].kind is Kind.INTEGER:
            return f"TRY_CAST({called} AS BIGINT)"
        return called

    def kind(self, arguments: list[Value]) -> Kind | None:
        """Give the kind of its value."""
        first = arguments[0].kind if arguments else None
        if self.name == "SUM":
            narrow = first is Kind.DECIMAL and arguments[0].narrow
            return first if first is Kind.INTEGER or narrow else Kind.DOUBLE
        return first if self.gives is None else self.gives


def _of_doubles(name: str, engine: str = "", takes: str = "n") -> Aggregate:
    return Aggregate(name, takes, engine or name.lower(), Kind.DOUBLE, doubles=True)


_AGGREGATES = (
    Aggregate("COUNT", "a", "count", Kind.INTEGER, optional=1),
    Aggregate("COUNT_IF", "b", "count_if", Kind.INTEGER),
    _of_doubles("SUM"), _of_doubles("AVG"), _of_doubles("MEAN", "avg"), _of_doubles("MEDIAN"),
    Aggregate("MIN", "a", "min", None), Aggregate("MAX", "a", "max", None),
    Aggregate("BOOL_AND", "b", "bool_and", Kind.BOOLEAN),
    Aggregate("BOOL_OR", "b", "bool_or", Kind.BOOLEAN),
    Aggregate("ANY_VALUE", "a", "any_value", None), Aggregate("MODE", "a", "mode", None),
    Aggregate("FIRST", "a", "first", None), Aggregate("LAST", "a", "last", None),
    Aggregate("ARG_MAX", "aa", "arg_max", None), Aggregate("ARG_MIN", "aa", "arg_min", None),
    Aggregate("MAX_BY", "aa", "arg_max", None), Aggregate("MIN_BY", "aa", "arg_min", None),
    Aggregate("STRING_AGG", "tl", "string_agg", Kind.TEXT, optional=1),
    Aggregate("GROUP_CONCAT", "tl", "string_agg", Kind.TEXT, optional=1),
    Aggregate("LISTAGG", "tl", "string_agg", Kind.TEXT, optional=1),
    _of_doubles("STDDEV", "stddev_samp"), _of_doubles("STDDEV_SAMP"),
    _of_doubles("STDDEV_POP"), _of_doubles("VARIANCE", "var_samp"), _of_doubles("VAR_SAMP"),
    _of_doubles("VAR_POP"), _of_doubles("CORR", takes="nn"),
    _of_doubles("COVAR_POP", takes="nn"), _of_doubles("COVAR_SAMP", takes="nn"),
    _of_doubles("REGR_SLOPE", takes="nn"), _of_doubles("REGR_INTERCEPT", takes="nn"),
    _of_doubles("QUANTILE_CONT", takes="ns"),
    Aggregate("QUANTILE_DISC", "as", "quantile_disc", None),
)  # fmt: skip
AGGREGATES = {one.name: one for one in _AGGREGATES}

ONLY_WINDOWS = {
    one.name: one
    for one in (
        Aggregate("ROW_NUMBER", "", "row_number", Kind.INTEGER),
        Aggregate("RANK", "", "rank", Kind.INTEGER),
        Aggregate("DENSE_RANK", "", "dense_rank", Kind.INTEGER),
        Aggregate("PERCENT_RANK", "", "percent_rank", Kind.DOUBLE),
        Aggregate("CUME_DIST", "", "cume_dist", Kind.DOUBLE),
        Aggregate("NTILE", "c", "ntile", Kind.INTEGER),
        Aggregate("LAG", "aca", "lag", None, optional=2),
        Aggregate("LEAD", "aca", "lead", None, optional=2),
        Aggregate("FIRST_VALUE", "a", "first_value", None),
        Aggregate("LAST_VALUE", "a", "last_value", None),
        Aggregate("NTH_VALUE", "ac", "nth_value", None),
    )
}
"""Functions that stand before OVER only.

The letters `s`, `c` and `l` stand for literals: a share, a whole number above zero, a text.
"""


def aggregate_name(node: exp.Expr) -> str | None:
    """Give the name of the aggregate that a node calls; None where it calls none."""
    if type(node) in _NODES:
        return _NODES[type(node)]
    name = str(node.this).upper() if isinstance(node, exp.Anonymous) else ""
    return name if name in AGGREGATES else None


def window_name(node: exp.Expr) -> str | None:
    """Give the name of the function that a node calls before OVER; None of no such one."""
    if type(node) in _WINDOW_NODES:
        return _WINDOW_NODES[type(node)]
    name = str(node.this).upper() if isinstance(node, exp.Anonymous) else ""
    name = name if name in ONLY_WINDOWS else aggregate_name(node) or ""
    return name if name in ONLY_WINDOWS or name in AGGREGATES else None
