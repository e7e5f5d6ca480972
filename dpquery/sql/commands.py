"""Statements that ask no data: EXPLAIN, SHOW and DESCRIBE, read before the parser sees them.

The parser would take them for opaque commands. What they answer comes from the policy, the
ledger and the functions of this build, so they spend nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from dpquery.core.source import Source, Span
from dpquery.errors import QueryRefused, listed, nearest, refusal

LONGEST = 64 * 1024
_LEAD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*", re.DOTALL)
_VERB = re.compile(r"(EXPLAIN|SHOW|DESCRIBE|DESC)\b", re.IGNORECASE | re.ASCII)
_REFRESH = re.compile(r"REFRESH\b", re.IGNORECASE | re.ASCII)
_SET = re.compile(
    r"(?:SET\s+(?:SESSION\s+)?dp\.(eps|epsilon|delta)\s*(?:=|\bTO\b)\s*([^\s;]+)|RESET\s+dp\.(eps|epsilon|delta))\s*;*\s*",
    re.IGNORECASE | re.ASCII,
)
_NAME = re.compile(r'\s*(?:"((?:[^"]|"")+)"|([^\W\d]\w*))\s*;*\s*', re.ASCII)


class Subject(StrEnum):
    """What SHOW can show."""

    TABLES = "TABLES"
    BUDGET = "BUDGET"
    LEDGER = "LEDGER"
    FUNCTIONS = "FUNCTIONS"


@dataclass(frozen=True, slots=True)
class Explain:
    """A query to be planned and not run; it stands where it stood, the verb blanked out."""

    query: Source


@dataclass(frozen=True, slots=True)
class Show:
    """A list from the policy, the ledger or the functions."""

    subject: Subject


@dataclass(frozen=True, slots=True)
class Describe:
    """The columns of a table."""

    table: str
    span: Span


@dataclass(frozen=True, slots=True)
class Set:
    """What each statement may spend from here on; None: what its calls state."""

    name: str
    value: str | None


Aside = Explain | Show | Describe | Set


def read_aside(source: Source) -> Aside | None:
    """Read a statement that is not a query; None where the text is something else.

    Raises:
        SyntaxRefused: DPQ106 SHOW or DESCRIBE of something that there is not.
    """
    text = source.text[:LONGEST]
    start = _start(text)
    setting = _SET.fullmatch(text, start)
    if setting is not None:
        name = (setting[1] or setting[3]).lower()
        return Set("delta" if name == "delta" else "eps", setting[2])
    verb = _VERB.match(text, start)
    if verb is None:
        return None
    if verb[1].upper() == "EXPLAIN":
        return Explain(_blanked(source, verb))
    name = _NAME.fullmatch(text, verb.end())
    if name is None:
        raise _refused(source, verb[1].upper(), Span(start, len(source.text.rstrip())), "")
    written = name[1].replace('""', '"') if name[1] is not None else name[2]
    span = Span(*name.span(2 if name[1] is None else 1))
    if verb[1].upper() != "SHOW":
        return Describe(written, span)
    if written.upper() not in Subject.__members__:
        raise _refused(source, "SHOW", span, written)
    return Show(Subject(written.upper()))


def refreshed(source: Source) -> Source | None:
    """Return the query that stands after REFRESH, where it stands; None without that word."""
    text = source.text[:LONGEST]
    verb = _REFRESH.match(text, _start(text))
    return None if verb is None else _blanked(source, verb)


def _start(text: str) -> int:
    lead = _LEAD.match(text)
    return lead.end() if lead else 0


def _blanked(source: Source, verb: re.Match[str]) -> Source:
    start, end = verb.span()
    text = source.text[:start] + " " * (end - start) + source.text[end:]
    return Source(text, source.name)


def _refused(source: Source, verb: str, span: Span, written: str) -> QueryRefused:
    subjects = [subject.value for subject in Subject]
    near = nearest(written, subjects) or subjects[0]
    refused = refusal(
        "DPQ106",
        f"{f'{verb} {written[:40]}'.rstrip()} is not a statement here",
        span,
        "nothing of that name" if written else "one name is expected",
        f"there are SHOW {listed(subjects, near)}; DESCRIBE a table; EXPLAIN SELECT.",
        f"SHOW {near if verb == 'SHOW' else 'TABLES'}",
    )
    refused.source = source
    return refused
