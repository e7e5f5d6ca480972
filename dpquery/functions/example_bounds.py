"""What refusals offer: the call between other bounds, bounds of a type, values of a type."""

from __future__ import annotations

from dpquery.core.types import Kind, Type
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


def example_bounds(type_: Type) -> str:
    """Write bounds of a type as a query could state them."""
    match type_.kind:
        case Kind.DATE:
            return "bounds=['2020-01-01', '2024-12-31']"
        case Kind.TIMESTAMP:
            return "bounds=['2020-01-01 00:00:00', '2024-12-31 23:59:59']"
        case Kind.TIMESTAMPTZ:
            return "bounds=['2020-01-01 00:00:00+00', '2024-12-31 23:59:59+00']"
        case Kind.TIME:
            return "bounds=['08:00:00', '18:00:00']"
        case _:
            return "bounds=[0, 1000]"


_NAMED = {
    Kind.BOOLEAN: "true",
    Kind.INTEGER: "1, 2",
    Kind.DECIMAL: "1.5, 2.5",
    Kind.TEXT: "'a', 'b'",
    Kind.DATE: "'2024-12-30', '2024-12-31'",
    Kind.TIMESTAMP: "'2024-12-31 00:00:00', '2024-12-31 12:00:00'",
    Kind.TIMESTAMPTZ: "'2024-12-31 00:00:00+00', '2024-12-31 12:00:00+00'",
    Kind.TIME: "'08:00:00', '12:00:00'",
}


def example_values(type_: Type) -> str:
    """Write values of a type as IN could list them; none of doubles, which have none."""
    return _NAMED.get(type_.kind, "")
