"""The charge language: what was done, exactly enough to account for it.

Law of this file. The meaning of an event never changes; a mechanism that behaves otherwise
gets a new event; an accountant that does not know an event refuses it; new fields are
optional. The ledger stores events and not epsilons, so that a better accountant can read old
ledgers again.

Events sit in the bottom layer: a mechanism states its own without knowing that budgets exist.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Pure:
    """A release that is (epsilon, 0)-differentially private, and nothing more is claimed."""

    epsilon: Fraction


@dataclass(frozen=True, slots=True)
class BoundedRange:
    """A release whose odds against a neighbour's differ by exp(epsilon) at most among outputs.

    If ln(P[v] / Q[v]) lies in a range no wider than epsilon, it is (epsilon, 0)-private, for
    P and Q both add up to 1, so that the range holds 0. Each exponential mechanism is of this
    kind; other pure releases may have a range of 2 epsilon.
    """

    epsilon: Fraction


@dataclass(frozen=True, slots=True)
class Gaussian:
    """A discrete Gaussian release: rho-zCDP, and (epsilon, delta) as it was asked for.

    Both statements hold; an accountant uses one of them for the whole ledger.
    """

    rho: Fraction
    epsilon: Fraction
    delta: Fraction


@dataclass(frozen=True, slots=True)
class Concentrated:
    """A release that is rho-zCDP, as it was asked for; it has no epsilon to be added up.

    Epsilon and delta are what rho alone implies at the delta that the policy keeps for
    conversion: they are for reading, and draw on nothing.
    """

    rho: Fraction
    epsilon: Fraction
    delta: Fraction


@dataclass(frozen=True, slots=True)
class Approximate:
    """A release that is (epsilon, delta)-differentially private, and no more is claimed."""

    epsilon: Fraction
    delta: Fraction


@dataclass(frozen=True, slots=True)
class Refined:
    """A release that is drawn given an earlier one, and takes its place.

    The earlier one is `before`-private, and stands in the ledger; both together are
    `after`-private, whatever was asked between. Given the earlier one, the log-ratio of this
    one has a range of 2 `after` at most.
    """

    before: Fraction
    after: Fraction


@dataclass(frozen=True, slots=True)
class Composed:
    """Several releases, each on the whole data, fixed before the first one starts."""

    parts: tuple[Event, ...]


Release = Pure | BoundedRange | Gaussian | Concentrated | Approximate | Refined
Event = Release | Composed

_KINDS: Mapping[str, type[Release]] = {
    "pure": Pure,
    "bounded-range": BoundedRange,
    "gaussian": Gaussian,
    "concentrated": Concentrated,
    "approximate": Approximate,
    "refined": Refined,
}
"""By the names that ledgers know them by."""
_NAMES = {kind: name for name, kind in _KINDS.items()}


def releases(events: Iterable[Event]) -> Iterator[Release]:
    """Return the releases that events consist of, at every depth."""
    for event in events:
        if isinstance(event, Composed):
            yield from releases(event.parts)
        else:
            yield event


def encode(event: Event) -> str:
    """Write an event as text, the same for equal events.

    >>> encode(Composed((Pure(Fraction(1, 2)),)))
    '["composed",["pure","1/2"]]'
    """
    return json.dumps(_listed(event), separators=(",", ":"))


def _listed(event: Event) -> list[object]:
    if isinstance(event, Composed):
        return ["composed", *map(_listed, event.parts)]
    return [_NAMES[type(event)], *(str(getattr(event, one.name)) for one in fields(event))]


def decode(text: str) -> Event:
    """Read an event that `encode` wrote.

    >>> decode('["composed",["pure","1/2"]]')
    Composed(parts=(Pure(epsilon=Fraction(1, 2)),))

    Raises:
        ValueError: the text is no event of this version.
    """
    return _read(json.loads(text))


def _read(value: object) -> Event:
    match value:
        case ["composed", *parts]:
            return Composed(tuple(map(_read, parts)))
        case [str(name), *texts] if name in _KINDS:
            kind, numbers = _KINDS[name], [Fraction(t) for t in texts if isinstance(t, str)]
            if len(numbers) == len(texts) == len(fields(kind)):
                return kind(*numbers)
    raise ValueError("not an event that this version knows")
