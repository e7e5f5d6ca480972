"""What a release drew, as text.

Text is exact: a cell that is read back has the value and the intervals of the one written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dpquery.errors import internal
from dpquery.functions.base import NoisyCell, Release


def encode_cells(cells: Sequence[NoisyCell]) -> str:
    """Write what was drawn for each group."""
    return json.dumps([_listed(cell.drawn) for cell in cells], separators=(",", ":"))


def decode_cells(text: str, release: Release) -> list[NoisyCell]:
    """Return the cells that a release drew, from what `encode_cells` made of them."""
    return [release.cell(_unlisted(part)) for part in json.loads(text)]


_KINDS: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Any]]] = {
    "double": (float, float.hex, float.fromhex),
    "fraction": (Fraction, str, Fraction),
    "decimal": (Decimal, str, Decimal),
    "timestamp": (datetime, datetime.isoformat, datetime.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),  # a timestamp is one, too
}
"""How values are written and read that JSON has no text for."""


def _listed(value: object) -> object:
    """Return a value as JSON has it: whole numbers, texts and truth as such, others by kind."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, tuple | list):
        return ["tuple" if isinstance(value, tuple) else "list", *map(_listed, value)]
    for name, (kind, write, _) in _KINDS.items():
        if isinstance(value, kind):
            return [name, write(value)]
    raise internal("each released value can be written")


def _unlisted(part: Any) -> Any:
    match part:
        case ["tuple", *parts]:
            return tuple(map(_unlisted, parts))
        case ["list", *parts]:
            return list(map(_unlisted, parts))
        case [str(name), str(text)]:
            return _KINDS[name][2](text)
    return part
