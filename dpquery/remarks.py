"""What the epsilon of a charge does not tell: what was paid before, and who is meant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from dpquery.budget.charge import Entry
from dpquery.events import Composed, Event, Refined
from dpquery.parts import every_part
from dpquery.policy.model import Policy
from dpquery.privacy import decimal_text

__all__ = ["remarks"]


def remarks(entry: Entry, policy: Policy) -> Iterator[str]:
    """Say what a charge refines, and on which parts it is; nothing of most."""
    before = sum((_before(event) for event in entry.events), Fraction(0))
    if before:
        yield f"refines {decimal_text(before)}"
    touched = entry.touched
    if touched is not None:
        names = next((p.names for p in every_part(policy) if p.column == touched.column), ())
        where = replace(touched, names=names).named if names else "parts as they were then"
        yield f"on {where}"


def _before(event: Event) -> Fraction:
    match event:
        case Refined(before, _):
            return before
        case Composed(parts):
            return sum(map(_before, parts), Fraction(0))
    return Fraction(0)
