"""Queries made from `grammar/dpsql.ebnf`: the file is read, and its rules become strategies.

A rule that is added to the file is picked up by itself. Words that are spelt out of letters
(names, texts, numbers) are taken from short lists, so that queries speak of the sample data; so
is what the file describes in words between question marks, and a description that is new has
to be given its words here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

from hypothesis import strategies as st

from dpquery import functions, rowfunctions
from dpquery.sql.postprocess.builtin_functions import AGGREGATES, ONLY_WINDOWS
from dpquery.sql.postprocess.builtin_functions import NAMES as RESULTS
from tests.tasks import ROOT

__all__ = ["asked", "mutated", "texts", "vocabulary"]

FILE = ROOT / "grammar" / "dpsql.ebnf"
_TOKENS = re.compile(
    r"\(\*.*?\*\)|(?P<word>\"[^\"]*\"|'[^']*')|\?(?P<said>[^?]*)\?"
    r"|(?P<sign>[=;|,\[\]{}()])|(?P<rule>[a-z]+(?: [a-z]+)*)",
    re.DOTALL,
)
COLUMNS = [
    "person_id",
    "dept",
    "age",
    "salary",
    "bonus",
    "rating",
    "hired",
    "remote",
    "day",
    "region",
    "minutes",
    "spent",
    "at",
    "opened",
    "tod",
    "wide",
    "tags",
    "address.city",
    "zone",
    "inhabitants",
    "n",
    "x",
]
TABLES = ["staff", "visits", "regions", "s", "v", "q"]
TEXTS = [
    *("'eng'", "'north'", "'%a%'", "'it''s'", "''"),
    *("'2025-01-15'", "'2025-02-01 10:00:00'", "'2025-02-01 10:00:00+01'", "'10:30:00'"),
]
ZONES = ["'Europe/Paris'", "'America/New_York'", "'UTC'", "'Mars'"]
NUMBERS = ["0", "1", "2", "3", "0.5", "30", "52000", "1e-1", "12.25"]
LEXICAL = {
    "text": TEXTS,
    "number": NUMBERS,
    "whole": ["1", "2", "3", "10"],
    "digits": ["1"],
    "name": TABLES,
}
PLACES = {
    ("column", "name"): COLUMNS,
    ("alias", "name"): ["n", "x"],
    ("table", "name"): [*TABLES[:3], "nobody"],
    ("field", "name"): ["city"],
    ("zone", "text"): ZONES,
}
"""Words that stand in a rule, where they are not as elsewhere."""
_ROOM = 12
"""How deep rules are expanded, as far as there is a choice."""
_PARTS = ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"]
SAID = {
    "a name under Functions of results in functions.md": RESULTS,
    "a name under its aggregates": sorted(AGGREGATES),
    "a name under its window functions": sorted(ONLY_WINDOWS),
    "a name in functions.md": [f.name for f in functions.ALL] + ["DP_MEAN", "DP_NOTHING"],
    "a name that the function takes; see functions.md; each once": [
        *["eps"] * 8,
        *("epsilon", "bounds", "max_rows_contributed", "mechanism", "delta"),
        *("max_groups_contributed", "contribution_bounds_per_group", "weights"),
    ],
    "a name under Functions of rows in functions.md, DATE_PART or IFNULL": [
        *(name for f in rowfunctions.ALL if f.written for name in (f.name, *f.aliases)),
        *("DATE_PART", "IFNULL"),
    ],
    "YEAR, MONTH and the other parts in functions.md, or DOW, DOY": [*_PARTS, "DOW", "DOY"],
    "YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE or SECOND, and their plurals": _PARTS,
}


@dataclass(frozen=True)
class Part:
    """One piece of a rule: a word, a name of a rule, or several pieces."""

    kind: str
    text: str = ""
    parts: tuple[Part, ...] = ()


@dataclass
class _Reader:
    """Reads rules, token by token."""

    tokens: list[tuple[str, str]]
    at: int = 0

    def next(self) -> tuple[str, str]:
        self.at += 1
        return self.tokens[self.at - 1]

    def peek(self) -> str:
        return self.tokens[self.at][1]

    def rules(self) -> dict[str, Part]:
        found = {}
        while self.at < len(self.tokens):
            (kind, name), (_, sign) = self.next(), self.next()
            assert (kind, sign) == ("rule", "="), name
            assert name not in found, f"two rules for {name}"
            found[name] = self.either()
            assert self.next()[1] == ";", name
        return found

    def either(self) -> Part:
        parts = [self.sequence()]
        while self.peek() == "|":
            self.next()
            parts.append(self.sequence())
        return parts[0] if len(parts) == 1 else Part("either", parts=tuple(parts))

    def sequence(self) -> Part:
        parts = [self.piece()]
        while self.peek() == ",":
            self.next()
            parts.append(self.piece())
        return parts[0] if len(parts) == 1 else Part("all", parts=tuple(parts))

    def piece(self) -> Part:
        kind, text = self.next()
        if kind != "sign":
            return Part(kind, text)
        inner, (_, close) = self.either(), self.next()
        assert text + close in {"()", "[]", "{}"}, (text, close)
        return inner if text == "(" else Part("may" if text == "[" else "many", parts=(inner,))


@cache
def grammar() -> dict[str, Part]:
    """Read the file; every rule that is named is there, and every description known."""
    tokens = [
        (found.lastgroup, " ".join(found[found.lastgroup].split()))
        for found in _TOKENS.finditer(FILE.read_text("utf-8"))
        if found.lastgroup is not None
    ]
    rules = _Reader([(kind, text[1:-1] if kind == "word" else text) for kind, text in tokens])
    return rules.rules()


def _inside(part: Part) -> list[Part]:
    return [part, *(found for inner in part.parts for found in _inside(inner))]


def named(kind: str) -> set[str]:
    """Return all words, all rules that are named, or all descriptions in the file."""
    used = {name: part for name, part in grammar().items() if name not in _SPELT}
    return {p.text for part in used.values() for p in _inside(part) if p.kind == kind}


_SPELT = {*LEXICAL, "digit"}


@cache
def _depths() -> dict[str, int]:
    """Return how deep the shallowest derivation of each rule is."""
    found = dict.fromkeys(LEXICAL, 0)
    while True:
        before = dict(found)
        for name, part in grammar().items():
            depth = _depth(part, found)
            if name not in LEXICAL and depth is not None:
                found[name] = depth + 1
        if before == found:
            return found


def _depth(part: Part, known: dict[str, int]) -> int | None:
    match part.kind:
        case "rule":
            return known.get(part.text)
        case "all" | "either":
            depths = [_depth(inner, known) for inner in part.parts]
            if part.kind == "all":
                return None if None in depths else max(d for d in depths if d is not None)
            return min((d for d in depths if d is not None), default=None)
    return 0


@dataclass
class _Writer:
    """Derives one text, choice by choice."""

    draw: st.DrawFn
    words: list[str] = field(default_factory=list)

    def rule(self, name: str, room: int, place: str = "") -> None:
        if name in LEXICAL:
            words = PLACES.get((place, name), LEXICAL[name])
            self.words.append(self.draw(st.sampled_from(words)))
        else:
            self.part(grammar()[name], room - 1, name)

    def part(self, part: Part, room: int, place: str) -> None:
        match part.kind:
            case "word":
                self.words.append(part.text)
            case "said":
                self.words.append(self.draw(st.sampled_from(SAID[part.text])))
            case "rule":
                self.rule(part.text, room, place)
            case "all":
                for inner in part.parts:
                    self.part(inner, room, place)
            case "either":
                self.part(self.draw(st.sampled_from(self.fitting(part, room))), room, place)
            case "may" | "many":
                self.optional(part, room, place)

    def fitting(self, part: Part, room: int) -> list[Part]:
        """Return the alternatives that end in time, or the shortest."""
        depths = [(_depth(inner, _depths()) or 0, inner) for inner in part.parts]
        least = max(room, min(depth for depth, _ in depths))
        return [inner for depth, inner in depths if depth <= least]

    def optional(self, part: Part, room: int, place: str) -> None:
        """Write what may be left out: less often the less room there is."""
        (inner,) = part.parts
        fits = (_depth(inner, _depths()) or 0) < room
        if fits and self.draw(st.integers(0, 1 if room > _ROOM // 2 else 4)) == 0:
            self.part(inner, room - 1, "" if place == "column" else place)


@st.composite
def texts(draw: st.DrawFn, start: str = "query", room: int = _ROOM) -> str:
    """Draw a text that the grammar derives from one of its rules."""
    writer = _Writer(draw)
    writer.rule(start, room)
    return " ".join(writer.words)


_HOLES = (
    ("SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE {}", "condition"),
    ("SELECT DP_COUNT({}, eps=0.1) FROM visits", "operand"),
    ("SELECT DP_SUM({}, eps=0.1, bounds=[0, 9]) FROM visits GROUP BY region", "operand"),
    ("SELECT DP_COUNT(*, eps=0.1) FROM visits WHERE day = '2025-01-15' GROUP BY {}", "group"),
    ("SELECT {} FROM staff", "call"),
    ("SELECT {} FROM staff", "item"),
    ("SELECT DP_COUNT(*, eps=0.1) FROM {}", "relation"),
    ("SELECT DP_COUNT(*, eps=0.1) FROM ({}) AS q", "rows"),
    ("SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE person_id IN ({})", "rows"),
    ("SELECT person_id, {} AS n FROM visits", "window"),
    ("SELECT zone, {} FROM regions", "value"),
    ("SELECT zone, {} FROM regions GROUP BY zone", "value"),
    ("SELECT dept, DP_COUNT(*, eps=0.1) AS n FROM staff GROUP BY dept ORDER BY {}", "key"),
    ("{}", "query"),
    ("{}", "statement"),
)
"""Queries with a place for a rule: what is derived there is asked about something."""


@st.composite
def asked(draw: st.DrawFn) -> str:
    """Draw a query of which one part is derived by the grammar, or all."""
    frame, rule = draw(st.sampled_from(_HOLES))
    return frame.format(draw(texts(rule, draw(st.sampled_from([4, 7, _ROOM])))))


@cache
def vocabulary() -> tuple[str, ...]:
    """Return the words that one in a text may be exchanged for."""
    words = {*named("word"), *COLUMNS, *TABLES, *TEXTS, *NUMBERS, "DP_SUM", "eps", "COUNT"}
    return tuple(sorted(words | {"??", "--", "$1", "\\", "FOR UPDATE", "NATURAL", "LATERAL"}))


_WORDS = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|\w+(?:\.\d+)?|:=|=>|[<>=!]+|[^\w\s]|\s+")
_KINDS = (
    TEXTS,
    NUMBERS,
    COLUMNS,
    TABLES,
    [f.name for f in functions.ALL],
    ["=", "<", ">", "<>", "+", "-", "*"],
)


def _alike(word: str) -> tuple[str, ...]:
    """Return words that could stand where one stands."""
    kinds = [kind for kind in _KINDS if word in kind]
    return tuple(other for kind in kinds for other in kind) or vocabulary()


@st.composite
def mutated(draw: st.DrawFn, base: st.SearchStrategy[str]) -> str:
    """Draw a text with one word left out, written twice, put in, or exchanged."""
    words = _WORDS.findall(draw(base)) or [""]
    places = [at for at, word in enumerate(words) if not word.isspace()] or [0]
    at = draw(st.sampled_from(places))
    how = draw(st.sampled_from(["out", "twice", "in", "for", "alike", "alike", "alike"]))
    other = draw(st.sampled_from(_alike(words[at]) if how == "alike" else vocabulary()))
    put = {"out": [], "twice": [words[at], words[at]], "in": [words[at], other]}
    return " ".join(["".join(words[:at]), *put.get(how, [other]), "".join(words[at + 1 :])])
