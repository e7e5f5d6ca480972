"""Calls as refusals offer them again, mended."""

from __future__ import annotations

from dpquery.ir.query import Call


def narrower(call: Call, bounds: str = "[0, 1000]") -> str:
    """Write the call between other bounds."""
    options, text = call.options, call.text
    if options.bounds_span is None and options.group_bounds_span is None:
        return f"{text.removesuffix(')')}, bounds={bounds})"
    given = [(options.bounds_span, bounds), (options.group_bounds_span, "[0, 50]")]
    found = [(span, other) for span, other in given if span is not None]
    for span, other in sorted(found, key=lambda part: -part[0].start):
        start, end = span.start - call.span.start, span.end - call.span.start
        text = f"{text[:start]}{other}{text[end:]}"
    return text
