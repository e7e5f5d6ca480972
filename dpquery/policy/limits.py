"""What one reading of the private tables may take: `[limits]` of a policy."""

from __future__ import annotations

import re

from dpquery.policy.document import Section
from dpquery.policy.model import Limits
from dpquery.policy.unfit import Unfit, written
from dpquery.policy.values import read_count

__all__ = ["read_limits"]

_KEYS = ("seconds", "memory", "max_failures")
_FAILURES_MAX = 100
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
        section.read("max_failures", _read_failures, usual.max_failures),
    )


_read_seconds = read_count(
    _SECONDS_MAX, "a scan that takes longer is stopped, and its charge stays.", "seconds = 600"
)
_read_failures = read_count(
    _FAILURES_MAX,
    "when so many statements have failed within 24 hours, the analyst is frozen.",
    "max_failures = 5",
)


def _read_memory(value: object) -> str:
    found = _MEMORY.fullmatch(value) if isinstance(value, str) else None
    if found is None or int(found[1]) * _BYTES[found[2]] < _LEAST:
        what = f"must be a text such as 4GB, of 128MB or more, not {written(value)}"
        why = "it is what the engine may use to read the private tables."
        raise Unfit(what, why, 'memory = "4GB"')
    return found[0]
