"""The DP aggregate functions: one file each, and one line each in ALL."""

from __future__ import annotations

from dpquery.functions.base import DPFunction
from dpquery.functions.count import COUNT, COUNT_IF
from dpquery.functions.extremes import MAX, MIN
from dpquery.functions.first_above import FIRST_ABOVE
from dpquery.functions.keys import KEYS
from dpquery.functions.majority import MAJORITY
from dpquery.functions.mean import AVG, PROPORTION
from dpquery.functions.mode import MODE
from dpquery.functions.quantile import MEDIAN, QUANTILE
from dpquery.functions.sum import SUM
from dpquery.functions.top_k import TOP_K
from dpquery.functions.variance import STDDEV_POP, STDDEV_SAMP, VAR_POP, VAR_SAMP

__all__ = ["ALL", "find", "names"]

ALL: tuple[DPFunction, ...] = (
    COUNT,
    COUNT_IF,
    SUM,
    AVG,
    PROPORTION,
    VAR_POP,
    VAR_SAMP,
    STDDEV_POP,
    STDDEV_SAMP,
    QUANTILE,
    MEDIAN,
    MIN,
    MAX,
    FIRST_ABOVE,
    MODE,
    TOP_K,
    MAJORITY,
    KEYS,
)

_BY_NAME = {name: function for function in ALL for name in (function.name, *function.aliases)}


def find(name: str) -> DPFunction | None:
    """Give the function of a name, in any case; `upper` would make an S of a long s."""
    return _BY_NAME.get(name.upper()) if name.isascii() else None


def names() -> list[str]:
    """Give every name a call may use, sorted."""
    return sorted(_BY_NAME)
