"""Offers that need a delta, for a budget that has none: they are left out.

A refusal is made from the query and the policy's tables, before anybody looks at limits. What
it offers is held against them here, because what stands after `try:` has to work.
"""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction

from dpquery.errors import Diagnostic
from dpquery.privacy import exact_number

__all__ = ["within_delta"]

_DELTA = re.compile(r"\bdelta\s*(?:=>|:=|=)\s*([\d.eE-]+)", re.IGNORECASE)


def within_delta(diagnostic: Diagnostic, most: Fraction, otherwise: str) -> Diagnostic:
    """Return a refusal without offers of more delta than there can be.

    Args:
        diagnostic: the refusal.
        most: what the deltas of all releases may add up to.
        otherwise: what is offered where nothing else is left.
    """
    kept = [line for line in diagnostic.remedy if _needed(line) <= most]
    if len(kept) == len(diagnostic.remedy):
        return diagnostic
    kept = kept or [otherwise]
    return replace(diagnostic, remedy=(kept[0].removeprefix("or "), *kept[1:]))


def _needed(line: str) -> Fraction:
    """Return the largest delta that stands in a line; what is no number is refused anew."""
    found = [Fraction(0)]
    for text in _DELTA.findall(line):
        try:
            found.append(exact_number(text))
        except ValueError:
            continue
    return max(found)
