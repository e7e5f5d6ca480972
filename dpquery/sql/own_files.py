"""Refusals for who asks files of their own: there is no policy, and no owner but them.

What they would ask somebody else for is an option of the command line, or of `connect`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from dpquery.errors import Diagnostic

__all__ = ["for_own_files"]

_ASK = "ask the data owner "
_OPTIONS = (
    (
        r"to add bounds for (\w+) to the policy",
        r"--bounds \1=0:1000 for the whole session, in Python bounds={'\1': (0, 1000)}",
    ),
    (r"(?:to add|for) bounds.*", "--bounds COLUMN=LOW:HIGH for the whole session"),
    (r"to raise the \w+'s (epsilon|delta)", r"\1"),
)
_RAISED = {
    "delta": "--delta 1e-6 when the file is opened, in Python delta=1e-6",
    "epsilon": "a larger --epsilon when the file is opened, in Python epsilon=",
}
_WORDS = {
    "not in the policy": "not in the file",
    "no bounds in the query or the policy": "no bounds in the query or the options",
    "columns that the policy does not list do not exist for queries.": (
        "columns are those of the file whose types have a meaning here."
    ),
}


def for_own_files(diagnostic: Diagnostic) -> Diagnostic:
    """Return a refusal in the words of one's own files."""
    return replace(
        diagnostic,
        label=_WORDS.get(diagnostic.label, diagnostic.label),
        why=tuple(_own(line) for line in diagnostic.why),
        remedy=tuple(_remedies(diagnostic.remedy)),
    )


def _own(line: str) -> str:
    return _WORDS.get(line, line).replace("the policy's ", "the session's ")


def _remedies(lines: tuple[str, ...]) -> Iterator[str]:
    for line in lines:
        before, asked, what = line.partition(_ASK)
        if not asked or (before and not before.endswith("or ")):
            yield line
            continue
        option = _option(what)
        if option is not None:
            yield before + option
        elif len(lines) == 1:
            yield "name the groups of a column in WHERE, as in IN ('a', 'b')"


def _option(what: str) -> str | None:
    for pattern, option in _OPTIONS:
        found = re.fullmatch(pattern, what)
        if found is not None:
            said = found.expand(option)
            return _RAISED.get(said, said)
    return None
