"""What the epsilon of a charge does not tell: what was paid before, and who is meant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from dpquery.budget.charge import Entry
from dpquery.events import Composed, Event, Refined
from dpquery.parts import parted
from dpquery.policy.model import Policy
from dpquery.privacy import decimal_text

__all__ = ["remarks"]


def remarks(entries: Sequence[Entry], policy: Policy) -> list[str]:
    """Say of each charge what it refines, and on which parts it is; nothing of most."""
    names = {part.column: part.names for part in parted(policy)}
    return ["; ".join(_remarks(entry, names)) for entry in entries]


def _remarks(entry: Entry, names: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    before = sum((_before(event) for event in entry.events), Fraction(0))
    if before:
        yield f"refines the answer at {decimal_text(before)}"
    touched = entry.touched
    if touched is not None and touched.column in names:
        yield f"on {replace(touched, names=names[touched.column]).named}"
    elif touched is not None:
        yield "on parts as they were then"


def _before(event: Event) -> Fraction:
    match event:
        case Refined(before, _):
            return before
        case Composed(parts):
            return sum(map(_before, parts), Fraction(0))
    return Fraction(0)
