"""The functions of DuckDB that stand in the SQL of a scan: a closed list.

All give the same value for the same arguments, read nothing and change nothing; `getvariable`
gives what the connection was given when it was made. Whoever lets
rows have a further function says so here, or no scan with it will run.
"""

from __future__ import annotations

__all__ = ["ROW_FUNCTIONS", "SUM_FUNCTIONS", "UNIT_FUNCTIONS", "WINDOW_FUNCTIONS"]

SUM_FUNCTIONS = frozenset(
    {"*", "+", "-", "//", ">>", "count", "count_star", "greatest", "least", "nullif", "sum"}
    | {"concat_ws", "enum_code", "getvariable", "row_number", "sha256"}
)
"""What adds rows up."""
_NUMBERS = (
    "% * + - / // abs ceil exp floor greatest isnan least ln log10 log2 nullif power round "
    "sign sqrt trunc"
)
_TEXTS = (
    "|| ~~ concat contains ends_with left length ltrim regexp_extract regexp_full_match "
    "regexp_matches replace right rtrim split_part starts_with strlen strpos substring "
    "translate trim"
)
_MOMENTS = (
    "date_diff date_trunc day dayname dayofweek dayofyear epoch_us hour isodow isoyear "
    "last_day minute month monthname quarter second strftime to_days to_microseconds "
    "to_months week year"
)
_LISTS = "list_filter list_value"
ROW_FUNCTIONS = frozenset(" ".join([_NUMBERS, _TEXTS, _MOMENTS, _LISTS]).split())
"""What computes values of a row."""
UNIT_FUNCTIONS = frozenset(["bool_and", "bool_or", "count", "count_star", "max", "min", "sum"])
"""What computes values of the rows of one unit."""
WINDOW_FUNCTIONS = UNIT_FUNCTIONS | {"dense_rank", "lag", "lead", "ntile", "rank", "row_number"}
"""What computes values of a row's place among the rows of its unit."""
