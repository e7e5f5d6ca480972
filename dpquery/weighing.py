"""Which calls may weigh rows by the table: a unit loses by the share of its rows that they see.

With weights='table' a unit with n rows in the table gives each of them the weight
floor(scale * min(1, limit / n)), so that m of them weigh at most m/n of limit * scale. A call
that sees these m alone has to lose at most m/n of its charge, for then charges on different
parts of the unit's rows are bounded by the largest (`parts.py`). That holds where

* each row that is counted is a row of the table, once: under filters, projections, and joins
  with public tables, in which it meets one row at most: so there are no more than m.
* what is measured adds up, over rows, a weight times a vector that no weight changes. Let A be
  all that units of full weight can add, with nothing added among it. Every sum of weights
  w_i >= 0 that add up to f * limit * scale is f times such a sum with weights that add up to
  limit * scale, so the unit adds something of f A. A unit of f A is replaced by one of g A, and
  with h for the larger of f and g, both are of h A, for A has nothing in it, and with two
  vectors all between them. Distances in h A are h times those in A, in any norm.
* the loss is at most linear in the distance: of discrete Laplace noise it is distance / scale,
  of the exponential mechanism twice its rate times the distance of the scores, each the largest
  of numbers that are linear in the weights. In rho both losses, and that of Gaussian noise, go
  with the square of the distance: h^2 <= h. With an epsilon and a delta, Gaussian noise of h
  times the distance is not shown to have h delta, and noise in steps loses as much for any
  distance.

What finds the bounds of such a call adds Laplace noise to sums of the same weights.
"""

from __future__ import annotations

from typing import NoReturn

from dpquery.errors import Diagnostic, NameRefused, without
from dpquery.functions.base import Release
from dpquery.functions.moments import BernsteinRelease
from dpquery.functions.noise import AdditiveRelease
from dpquery.functions.quantile import QuantileRelease
from dpquery.ir import Call, CountRows, Histogram, SumCodes
from dpquery.mechanisms import DiscreteGaussian, DiscreteLaplace, GridQuantile
from dpquery.relations import Filter, Project, PublicJoin, Relation, TableScan, walk

__all__ = ["may_share", "require_shares"]

_ROWS_OF_A_TABLE = (TableScan, Filter, Project, PublicJoin)


def require_shares(call: Call, release: Release, relation: Relation) -> None:
    """Refuse weights by the table where a share of the rows could lose more than its share.

    Raises:
        NameRefused: DPQ206.
    """
    if not call.options.of_table:
        return
    if not _of_a_table(relation):
        _refuse(
            call,
            "weights='table' is for the rows of one table",
            "rows are joined or made anew here",
            "a unit's weight is shared among its rows in the table, so each row that counts",
            "has to be one of these: under WHERE, or joined to a public table.",
        )
    if not _of_rows(release):
        _refuse(
            call,
            f"{call.function} does not weigh rows here",
            "this would be passed over",
            "units, their totals or their values are counted, and each row has no weight.",
        )
    if not _linear(release):
        _refuse(
            call,
            f"{call.function} with {_drawn(call)} takes no weights='table'",
            "not shown to lose less for less weight",
            "a unit with a tenth of its rows here has to lose a tenth of eps at most: shown of",
            "Laplace noise, of Gaussian noise in rho, and of one quantile by 'quantile'.",
        )


def may_share(release: Release, relation: Relation) -> bool:
    """Say whether a call could weigh rows by the table, whether or not it does."""
    return _of_a_table(relation) and _of_rows(release) and _linear(release)


def _of_a_table(relation: Relation) -> bool:
    return all(isinstance(node, _ROWS_OF_A_TABLE) for node in walk(relation))


def _of_rows(release: Release) -> bool:
    return all(isinstance(m, CountRows | SumCodes | Histogram) for m in release.measures)


def _linear(release: Release) -> bool:
    """Say whether a release loses no more than the share of weight that it sees."""
    match release:
        case AdditiveRelease(noise=noise) | BernsteinRelease(noise=noise):
            concentrated = isinstance(noise, DiscreteGaussian) and noise.concentrated
            return concentrated or isinstance(noise, DiscreteLaplace)
        case QuantileRelease(mechanism=GridQuantile()):
            return True
    return False


def _drawn(call: Call) -> str:
    mechanism = call.options.mechanism
    return "a list" if mechanism is None else f"mechanism='{mechanism}'"


def _refuse(call: Call, title: str, label: str, *why: str) -> NoReturn:
    span = call.options.weights_span
    assert span is not None  # noqa: S101 - the option was given, and is refused
    remedy = without(call.text, span.start - call.span.start, span.end - call.span.start)
    raise NameRefused(Diagnostic("DPQ206", title, span, label, why, (remedy,)))
