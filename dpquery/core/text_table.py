"""How values read as text, and how columns of them line up.

`Answer` and the writers of `present/` share it. It knows nothing of answers or noise, and
nothing that it lays out can drive a terminal: what does not print becomes a sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction

from dpquery.core.privacy_loss import decimal_text
from dpquery.core.source_text import visible, width

_LONGEST = 64
"""Terminal cells that a text may fill in a table; other values are never shortened."""


def value_text(value: object) -> str:
    """Write a value in full, as DuckDB prints it.

    >>> value_text([True, Decimal("2.50"), None, "it's"])
    "[true, 2.50, NULL, it's]"
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case Decimal():
            return format(value, "f")
        case Fraction():
            return decimal_text(value)
        case datetime():
            return value.isoformat(" ")
        case date() | time():
            return value.isoformat()
        case list() | tuple():
            return f"[{', '.join(map(value_text, value))}]"
        case dict():
            return (
                f"{{{', '.join(f'{key}: {value_text(item)}' for key, item in value.items())}}}"
            )
    return str(value)


def cell_text(value: object) -> str:
    """Write a value for one line of a table: visible throughout, and a long text shortened."""
    text = visible(value_text(value))
    return _shortened(text) if isinstance(value, str) else text


def _shortened(text: str) -> str:
    if width(text) <= _LONGEST:
        return text
    cut = text[: _LONGEST - 1]
    while width(cut) >= _LONGEST:
        cut = cut[:-1]
    return cut + "…"


@dataclass(frozen=True, slots=True)
class TextColumn:
    """One column of a table: its head, a text for each row, and the side they stand on."""

    head: str
    cells: Sequence[str]
    right: bool = False

    def lines(self) -> list[str]:
        """Pad head and cells to one width."""
        texts = [cell_text(self.head), *self.cells]
        widest = max(map(width, texts))
        pads = [" " * (widest - width(text)) for text in texts]
        return [p + t if self.right else t + p for p, t in zip(pads, texts, strict=True)]


def lay_out(columns: Sequence[TextColumn]) -> str:
    r"""Set columns side by side, the heads on the first line.

    >>> print(lay_out([TextColumn("dept", ["eng", "ops"]), TextColumn("n", ["9", "10"], True)]))
     dept    n
     eng     9
     ops    10
    """
    rows = zip(*(column.lines() for column in columns), strict=True)
    return "\n".join((" " + "   ".join(row)).rstrip() for row in rows)
