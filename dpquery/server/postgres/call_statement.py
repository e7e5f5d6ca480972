"""What clients of our own ask by `CALL dpquery('{...}')`: the calls of a worker, as they are.

Nothing else is let through: a worker takes what it is given by this server.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from dpquery.client.wire_format import loads
from dpquery.server.postgres.messages import Refused

SCHEMA = pa.schema([("reply", pa.binary())])
"""Of the one row in which a reply comes."""
_NUMBER: tuple[type, ...] = (str, int, float, type(None))
_QUERY: Mapping[str, tuple[type, ...]] = {
    "text": (str,),
    "values": (str, type(None)),
    "eps": _NUMBER,
    "delta": _NUMBER,
}
_TAKEN: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "sql": {**_QUERY, "refresh": (bool,)},
    "explain": _QUERY,
    "columns": {"text": (str,), "values": (str, type(None))},
    "budget": {},
    "ledger": {},
    "losses": {"text": (str, type(None))},
    "tables": {},
    "describe": {"name": (str,)},
    "begin": {},
}
"""What each call takes."""
_NEEDED = {"sql": "text", "explain": "text", "columns": "text", "describe": "name"}


def call_of(text: str) -> tuple[str, dict[str, Any]]:
    """Return what is asked, and with which arguments.

    Raises:
        Refused: it is no such call.
    """
    try:
        given = json.loads(text)
        do, arguments = given["do"], given.get("arguments") or {}
        taken, needed = _TAKEN[do], _NEEDED.get(do)
        fits = all(isinstance(value, taken[name]) for name, value in arguments.items())
        if not fits or (needed and needed not in arguments) or not _are_values(arguments):
            raise ValueError
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise Refused.of("22023", "this is no call of dpquery, or of another version") from None
    return do, arguments


def _are_values(arguments: Mapping[str, Any]) -> bool:
    """Return whether what is given for marks is a list, or has a name each."""
    if arguments.get("values") is None:
        return True
    values = loads(arguments["values"].encode(), plain=True)
    named = isinstance(values, dict) and all(isinstance(name, str) for name in values)
    return named or isinstance(values, list | tuple)
