"""What one reading of the private tables may take: `[limits]` of a policy."""

from __future__ import annotations

import re

from dpquery.policy.document import Section
from dpquery.policy.model import Limits
from dpquery.policy.unfit import Unfit, written

__all__ = ["read_limits"]

_KEYS = ("seconds", "memory")
_SECONDS_MAX = 7 * 24 * 3600
_MEMORY = re.compile(r"([1-9][0-9]{0,5})(MB|GB|MiB|GiB)", re.ASCII)
_LEAST = 128_000_000
_BYTES = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}


def read_limits(section: Section) -> Limits:
    """Read `[limits]`, all of which may be absent.

    Raises:
        PolicyInvalid: DPQ603, DPQ604.
    """
    section.only(_KEYS)
    usual = Limits()
    return Limits(
        section.read("seconds", _read_seconds, usual.seconds),
        section.read("memory", _read_memory, usual.memory),
    )


def _read_seconds(value: object) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not 1 <= value <= _SECONDS_MAX:  # type: ignore[operator]
        what = f"must be an integer from 1 to {_SECONDS_MAX}, not {written(value)}"
        why = "a scan that takes longer is stopped, and its charge stays."
        raise Unfit(what, why, "seconds = 600")
    assert isinstance(value, int)  # noqa: S101 - looked at above
    return value


def _read_memory(value: object) -> str:
    found = _MEMORY.fullmatch(value) if isinstance(value, str) else None
    if found is None or int(found[1]) * _BYTES[found[2]] < _LEAST:
        what = f"must be a text such as 4GB, of 128MB or more, not {written(value)}"
        why = "it is what the engine may use to read the private tables."
        raise Unfit(what, why, 'memory = "4GB"')
    return found[0]
