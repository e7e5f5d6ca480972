"""All rows of a ledger, for other programs: as texts, and as events of dp-accounting.

This is the data owner's: it holds every analyst's charges. Numbers are exact; where they have
no decimal they are fractions, and the events hold what the ledger itself counts by.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import exp, inf, nextafter
from typing import TYPE_CHECKING

from dpquery.budget.accountant import additive, basic
from dpquery.budget.record import Record
from dpquery.events import (
    Approximate,
    BoundedRange,
    Composed,
    Concentrated,
    Event,
    Gaussian,
    Pure,
    Refined,
)
from dpquery.privacy import decimal_text

if TYPE_CHECKING:
    from dp_accounting import DpEvent

__all__ = ["COLUMNS", "dp_events", "row"]

COLUMNS = (
    "sequence",
    "id",
    "at",
    "kind",
    "analyst",
    "session",
    "query",
    "epsilon",
    "delta",
    "rho",
    "events",
)


LARGEST = 700
"""Above, an exponential is no double."""
SLACK = 2**-48
"""More than what rounding adds to a short formula."""


def row(record: Record) -> tuple[str | None, ...]:
    """Write a charge or an order as texts below `COLUMNS`."""
    known = (str(record.sequence), record.id, record.at)
    if record.is_order:
        kind = json.loads(record.events)[0]
        return *known, kind, None, None, None, None, None, None, record.events
    events = record.charged()
    loss, spent = basic(events), additive(events)
    # Spreadsheets run a cell that begins with one of these; SQL has no use for a space.
    query = (
        f" {record.query}" if record.query.startswith(("-", "=", "+", "@")) else record.query
    )
    return (
        *known,
        "charge",
        record.analyst,
        record.session,
        query,
        *map(_exact, (loss.epsilon, loss.delta, spent.rho)),
        record.events,
    )


def _exact(number: Fraction) -> str:
    text = decimal_text(number)
    return str(number) if text.endswith("…") else text


def dp_events(records: Iterable[Record]) -> Iterator[DpEvent]:
    """Give each charge as an event of dp-accounting, whose repr is an expression that makes it.

    What is claimed there is never more than here: floats are rounded to the side of less
    privacy, a pure release is the worst one of its epsilon, and what dp-accounting has no event
    for is one that its accountants refuse.
    """
    charges = (record for record in records if not record.is_order)
    return (_dp_event(Composed(record.charged())) for record in charges)


def _dp_event(event: Event) -> DpEvent:
    from dp_accounting import dp_event

    match event:
        case Pure(epsilon):
            return dp_event.RandomizedResponseDpEvent(_coin(_above(epsilon)), 2)
        case BoundedRange():
            return dp_event.ZCDpEvent(_above(additive((event,)).rho))
        case Gaussian(rho) | Concentrated(rho):
            return dp_event.ZCDpEvent(_above(rho))
        case Refined():
            return dp_event.ZCDpEvent(_above(additive((event,)).rho))
        case Approximate():
            return dp_event.UnsupportedDpEvent()
        case Composed(parts):
            return dp_event.ComposedDpEvent([_dp_event(part) for part in parts])


def _coin(epsilon: float) -> float:
    """Give how often randomized response of two answers may toss a coin; 0 is no privacy."""
    return 2 / (1 + exp(epsilon)) * (1 - SLACK) if epsilon < LARGEST else 0.0


def _above(number: Fraction) -> float:
    near = float(number)
    return near if Fraction(near) >= number else nextafter(near, inf)
