"""What charges have lost, as each accountant puts it: for reading, and never for deciding.

The tightest number, from privacy loss distributions (PLD), holds for questions that were fixed
beforehand. A limit on it would be passed by questions that follow from answers, as would one on
the smallest of the three (`budget/limits.py`).

All rows of a ledger can be exported for other programs: as texts, and as events of
dp-accounting. That is the data owner's, for it holds every analyst's charges. Numbers are
exact; where they have no decimal they are fractions, and the events hold what the ledger itself
counts by.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from math import exp, inf, nextafter
from typing import TYPE_CHECKING

from dpquery.budget.accountant import additive, basic
from dpquery.budget.ledger.owner_orders import (
    Freeze,
    Grant,
    Publish,
    Suspend,
    Thaw,
    decode_order,
)
from dpquery.budget.ledger.record import Record
from dpquery.core.privacy_events import (
    Approximate,
    BoundedRange,
    Composed,
    Event,
    Pure,
    Refined,
    Release,
    releases,
)
from dpquery.core.privacy_loss import Ceiling, Loss, decimal_text
from dpquery.core.text_table import cell_text
from dpquery.core.zcdp import epsilon_above

if TYPE_CHECKING:
    from dp_accounting import DpEvent


COLUMNS = ("of", "charges", "epsilon", "zcdp", "pld", "delta")
"""Whose, how many, the three epsilons, and the delta of the last two."""

CELLS = 200_000
"""The most steps that the sum of all epsilons has: what a distribution takes of memory."""
FINEST = Fraction(1, 10**4)
LARGEST = 500
"""Above, a claim says next to nothing, and its exponential is no double."""
SHORT = Context(prec=6, rounding=ROUND_CEILING)


@dataclass(frozen=True, slots=True)
class Reported:
    """The epsilon of some charges, by each accountant that can tell."""

    summed: Loss
    """Epsilons and deltas added up; of what was asked for in rho, what it comes to alone."""
    concentrated: Fraction | None
    """Rho added up and converted; None without a delta."""
    distributed: Fraction | None
    """By the distributions of losses; None without a delta, or where it is used up."""
    delta: Fraction
    """The delta of the last two: what was drawn, and what is kept for conversion."""


def reported(events: Iterable[Event], ceiling: Ceiling) -> Reported:
    """Account for charges under a limit, whose delta is the one that is spoken of."""
    charged = tuple(events)
    spent = additive(charged)
    delta = spent.loss.delta + ceiling.converted
    if not ceiling.converted:
        return Reported(basic(charged), None, None, delta)
    converted = epsilon_above(spent.rho, ceiling.converted)
    return Reported(basic(charged), converted, _distributed(charged, delta), delta)


def row(
    name: str, charges: Sequence[tuple[Event, ...]], ceiling: Ceiling
) -> tuple[str | None, ...]:
    """Write what some charges lose, as texts below `COLUMNS`."""
    found = reported((event for events in charges for event in events), ceiling)
    numbers = (found.summed.epsilon, found.concentrated, found.distributed, found.delta)
    texts = (None if number is None else decimal_text(number) for number in numbers)
    return name, str(len(charges)), *texts


def _distributed(events: tuple[Event, ...], delta: Fraction) -> Fraction | None:
    """Compose the worst law that each claim allows; its floats are rounded to the safe side.

    That is two outcomes for a pure release, which a count of single rows attains, and a third
    one that tells everything for a release with a delta.
    """
    from dp_accounting.pld import common, privacy_loss_distribution

    released = tuple(releases(events))
    # What was refined is part of what refines it.
    replaced = Counter(Loss(one.before) for one in released if isinstance(one, Refined))
    claims = Counter(map(_claim, released)) - replaced
    if not claims:
        return Fraction(0)
    summed = sum((loss.epsilon * number for loss, number in claims.items()), Fraction(0))
    least, most = (choose(loss.epsilon for loss in claims) for choose in (min, max))
    if most > LARGEST:
        return summed
    step = float(max(summed / CELLS, min(FINEST, least / 4)))
    whole = privacy_loss_distribution.identity(step)
    for loss, number in claims.items():
        claim = common.DifferentialPrivacyParameters(float(loss.epsilon), float(loss.delta))
        law = privacy_loss_distribution.from_privacy_parameters(claim, step)
        whole = whole.compose(law.self_compose(number))
    epsilon = whole.get_epsilon_for_delta(float(delta))
    if epsilon == float("inf"):
        return None
    return min(summed, Fraction(SHORT.create_decimal_from_float(epsilon)))


def _claim(release: Release) -> Loss:
    match release:
        case Pure(epsilon) | BoundedRange(epsilon) | Refined(_, epsilon):
            return Loss(epsilon)
    return Loss(release.epsilon, release.delta)


KNOWN = ("sequence", "id", "at", "kind")
CHARGED = ("analyst", "session", "query", "epsilon", "delta", "rho", "events")
EXPORTED_COLUMNS = KNOWN + CHARGED

EXPORTED_LARGEST = 700
"""Above, an exponential is no double."""
SLACK = 2**-48
"""More than what rounding adds to a short formula."""


def exported_row(record: Record) -> tuple[str | None, ...]:
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
        case Approximate():
            return dp_event.UnsupportedDpEvent()
        case Composed(parts):
            return dp_event.ComposedDpEvent([_dp_event(part) for part in parts])
        case _:
            return dp_event.ZCDpEvent(_above(additive((event,)).rho))


def _coin(epsilon: float) -> float:
    """Return how often randomized response of two answers may toss a coin; 0 is no privacy."""
    return 2 / (1 + exp(epsilon)) * (1 - SLACK) if epsilon < EXPORTED_LARGEST else 0.0


def _above(number: Fraction) -> float:
    near = float(number)
    return near if Fraction(near) >= number else nextafter(near, inf)


def history_row(record: Record) -> tuple[str, str, str, str] | None:
    """Write a charge, or an order where a line says what it does: when, who, loss, what."""
    when = f"{datetime.fromisoformat(record.at):%Y-%m-%d %H:%M:%S}"
    if not record.is_order:
        loss = str(basic(record.charged()))
        return when, cell_text(record.analyst), loss, cell_text(record.query)
    match decode_order(record.events):
        case Freeze():
            return when, "–", "–", "-- frozen"
        case Suspend(analyst, failures):
            return when, cell_text(analyst), "–", f"-- frozen after {failures} failures"
        case Thaw(analyst):
            return when, "–" if analyst is None else cell_text(analyst), "–", "-- thawed"
        case Publish():
            return when, "–", "–", "-- published"
        case Grant(analyst, granted):
            return when, cell_text(analyst), "–", f"-- granted {granted}"
    return None
