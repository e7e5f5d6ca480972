"""Statements that ask no data: EXPLAIN, SHOW, DESCRIBE, SET, and CREATE and DROP of a view.

They are read before the parser sees them, which would take them for opaque commands. What they
answer comes from the policy, the ledger and the functions of this build, so they spend nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from dpquery.core.source import Source, Span
from dpquery.errors import QueryRefused, listed, nearest, refusal

LONGEST = 64 * 1024
_LEAD = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*", re.DOTALL)
_VERB = re.compile(r"(EXPLAIN|SHOW|DESCRIBE|DESC)\b", re.IGNORECASE | re.ASCII)
_REFRESH = re.compile(r"REFRESH\b", re.IGNORECASE | re.ASCII)
_END = r"[\s;]*"
_SET = re.compile(
    rf"(?:SET\s+(?:SESSION\s+)?dp\.(eps|epsilon|delta)\s*(?:=|\bTO\b)\s*([^\s;]+)|RESET\s+dp\.(eps|epsilon|delta)){_END}",
    re.IGNORECASE | re.ASCII,
)
_QUOTED = r'"(?:[^"]|"")+"'
_LIST = r'(?:[^()"]|"[^"]*")*'  # "" ends one quote and begins the next: read in one way only
_NAMED = rf"(?P<name>{_QUOTED}|[^\W\d]\w*)"
_CREATE = re.compile(
    rf"CREATE\s+(?P<replace>OR\s+REPLACE\s+)?(?P<kind>(?:\w+\s+){{0,2}}?(?:VIEW|TABLE))\s+"
    rf"(?P<exists>IF\s+NOT\s+EXISTS\s+)?{_NAMED}"
    rf"(?:\s*\({_LIST}\))?\s*\bAS(?=[\s(])",
    re.IGNORECASE | re.ASCII,
)
_QUERY = re.compile(r"(?:SELECT|WITH)\b", re.IGNORECASE)
_TEMPORARY = re.compile(r"TEMP(?:ORARY)?\s+VIEW", re.IGNORECASE | re.ASCII)
_DROP = re.compile(
    rf"DROP\s+VIEW\s+(?P<exists>IF\s+EXISTS\s+)?{_NAMED}{_END}", re.IGNORECASE | re.ASCII
)
NAME = re.compile(rf"\s*{_NAMED}{_END}", re.ASCII)


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


@dataclass(frozen=True, slots=True)
class Create:
    """A name for a query, as long as the session lasts."""

    source: Source
    name: str
    span: Span
    """The name, where it stands."""
    end: int
    """Where the word AS ends, after the name and those of columns."""
    replace: bool
    temporary: bool

    @property
    def offered(self) -> str:
        """Return it in the words for a temporary view."""
        return f"{self._verb}{self.source.text[self.span.start :].rstrip()}"

    @property
    def _verb(self) -> str:
        return "CREATE OR REPLACE TEMP VIEW " if self.replace else "CREATE TEMP VIEW "

    @property
    def query(self) -> Source:
        """The query alone, where it stood."""
        text = self.source.text
        return Source(" " * self.end + text[self.end :], self.source.name)

    def named(self, end: int) -> Source:
        """Return a statement that reads the query as a name of WITH: its words stay in place.

        Args:
            end: where the query ends.
        """
        text, tail = self.source.text, f") SELECT * FROM {self.source.snippet(self.span)}"
        query = text[self.end + 1 : end]
        return Source(f"{self._head}({query}{tail}", self.source.name)

    def told(self, refused: QueryRefused) -> QueryRefused:
        """Have a refusal of that statement speak of this one, and offer views for queries."""
        found = refused.diagnostic
        offered, span = tuple(map(self._offered, found.remedy)), found.span
        if span is not None and refused.source is None:
            last = len(self.source.text)
            span = self.span if span.start >= last else Span(span.start, min(span.end, last))
        refused.source = refused.source or self.source
        refused.diagnostic = replace(found, remedy=offered, span=span)
        return refused

    def _offered(self, line: str) -> str:
        tail = f") SELECT * FROM {self.source.snippet(self.span)}"
        if line.startswith(self._head) and line.endswith(tail):
            line = line[len(self._head) + 1 : -len(tail)]
        elif _QUERY.match(line) is None:
            return line
        return f"{self._verb}{self.source.text[self.span.start : self.end]} {line}"

    @property
    def _head(self) -> str:
        """What stands before the query where it is a name of WITH."""
        start, text = self.span.start, self.source.text
        return "WITH".ljust(start) + text[start : self.end]


@dataclass(frozen=True, slots=True)
class Drop:
    """A name that a query had."""

    name: str
    span: Span
    missing: bool
    """Whether there need not be one."""


Aside = Explain | Show | Describe | Set | Create | Drop


def read_aside(source: Source) -> Aside | None:
    """Read a statement that is not a query; None where the text is something else.

    Raises:
        SyntaxRefused: DPQ106 SHOW or DESCRIBE of something that there is not.
    """
    text = source.text[:LONGEST]
    start = start_of(text)
    setting = _SET.fullmatch(text, start)
    if setting is not None:
        name = (setting[1] or setting[3]).lower()
        return Set("delta" if name == "delta" else "eps", setting[2])
    created, dropped = _CREATE.match(text, start), _DROP.fullmatch(text, start)
    if created is not None:
        return _created(source, created)
    if dropped is not None:
        missing = dropped["exists"] is not None
        return Drop(_plain(dropped["name"]), Span(*dropped.span("name")), missing)
    verb = _VERB.match(text, start)
    if verb is None:
        return None
    if verb[1].upper() == "EXPLAIN":
        return Explain(_blanked(source, verb))
    name = NAME.fullmatch(text, verb.end())
    if name is None:
        raise _refused(source, verb[1].upper(), Span(start, len(source.text.rstrip())), "")
    written, span = _plain(name[1]), Span(*name.span(1))
    if verb[1].upper() != "SHOW":
        return Describe(written, span)
    if written.upper() not in Subject.__members__:
        raise _refused(source, "SHOW", span, written)
    return Show(Subject(written.upper()))


def refreshed(source: Source) -> Source | None:
    """Return the query that stands after REFRESH, where it stands; None without that word."""
    text = source.text[:LONGEST]
    verb = _REFRESH.match(text, start_of(text))
    return None if verb is None else _blanked(source, verb)


def _created(source: Source, match: re.Match[str]) -> Create:
    text, end = source.text, match.end()
    if text[end] == "(":  # what stands behind AS gives way to a bracket
        source = Source(f"{text[:end]} {text[end:]}", source.name)
    span, anew = Span(*match.span("name")), match["replace"] is not None
    kept = match["exists"] is None and _TEMPORARY.fullmatch(match["kind"]) is not None
    return Create(source, _plain(match["name"]), span, end, anew, kept)


def _plain(written: str) -> str:
    """Return a name without the quotes it is written in."""
    return written[1:-1].replace('""', '"') if written.startswith('"') else written


def start_of(text: str) -> int:
    """Return where a statement begins, after blanks and comments."""
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
