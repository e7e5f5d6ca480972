"""The options of calls that ask for an error, in place of an epsilon that is found from it."""

from __future__ import annotations

from dpquery.functions.base import Parameter

ERROR = Parameter(
    "error",
    "in place of eps: how far noise may take the answer, as in error=5; the least eps that "
    "keeps to it is found",
)
RANK_ERROR = Parameter(
    "rank_error",
    "in place of eps: how many rows the rank may be off, as in rank_error=20; the least eps "
    "that is proven to keep to it on any data is found",
)
CONFIDENCE = Parameter(
    "confidence",
    "how often an error is kept to: confidence=0.95 unless the call says otherwise",
)
OVER = Parameter(
    "over", "the rows that an error is for, or more, as in over=1000: their number is private"
)
ERRORS = (ERROR, RANK_ERROR)
"""What asks for an error, in the order of the functions that take it."""
