"""Instants as what the clock of a time zone shows, and back: conversions that nobody writes."""

from __future__ import annotations

from dpquery import rowfunctions
from dpquery.core.source_text import Span
from dpquery.core.types import TEXT, UTC_ZONE
from dpquery.ir.expr import Expr, Literal


def local(moment: Expr, zone: str = "") -> Expr:
    """Return what the clock of a zone shows at an instant: of the policy's, unless given."""
    named = Literal(moment.span, zone or moment.type.zone or UTC_ZONE, TEXT)
    return rowfunctions.apply(moment.span, "LOCAL", moment, named)


def instant(span: Span, clock: Expr, zone: str, shown: str) -> Expr:
    """Return the instant at which the clock of a zone shows a timestamp.

    Args:
        span: where that is asked for.
        clock: the timestamp.
        zone: whose clock it is.
        shown: the zone in which the instant is shown.
    """
    named = [Literal(span, one, TEXT) for one in (zone, shown)]
    return rowfunctions.apply(span, "INSTANT", clock, *named)
