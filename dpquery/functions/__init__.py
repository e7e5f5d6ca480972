"""The DP aggregate functions: their files by kind, and one line for each function in ALL."""

from __future__ import annotations

from dpquery.errors import internal
from dpquery.functions.base import DPFunction
from dpquery.functions.count_sum import COUNT, COUNT_IF, SUM
from dpquery.functions.distributions.density import DENSITY
from dpquery.functions.distributions.histogram_and_cdf import CDF, HISTOGRAM
from dpquery.functions.distributions.mode_top_k import MAJORITY, MODE, TOP_K
from dpquery.functions.dp_keys import KEYS
from dpquery.functions.moments.corr_regr import CORR, REGR_INTERCEPT, REGR_R2, REGR_SLOPE
from dpquery.functions.moments.covariance import COVAR_POP, COVAR_SAMP
from dpquery.functions.moments.linreg import LINREG
from dpquery.functions.moments.logistic import LOGREG
from dpquery.functions.moments.mean_variance import (
    AVG,
    PROPORTION,
    STDDEV_POP,
    STDDEV_SAMP,
    VAR_POP,
    VAR_SAMP,
)
from dpquery.functions.order_statistics.min_max import FIRST_ABOVE, MAX, MIN
from dpquery.functions.order_statistics.quantile import MEDIAN, QUANTILE

__all__ = ["ALL", "find", "names", "registered"]

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
    COVAR_POP,
    COVAR_SAMP,
    CORR,
    REGR_SLOPE,
    REGR_INTERCEPT,
    REGR_R2,
    LINREG,
    LOGREG,
    HISTOGRAM,
    CDF,
    DENSITY,
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
    """Return the function of a name, in any case; `upper` would make an S of a long s."""
    return _BY_NAME.get(name.upper()) if name.isascii() else None


def registered(name: str) -> DPFunction:
    """Return the function of a bound call."""
    if name not in _BY_NAME:
        raise internal("a bound call names a registered function")
    return _BY_NAME[name]


def names() -> list[str]:
    """Return every name a call may use, sorted."""
    return sorted(_BY_NAME)
