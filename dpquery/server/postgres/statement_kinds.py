"""What kind a statement is, told by its first words: what a door answers itself, and the rest.

A text is never rewritten here: what is asked of the engine is a piece of what the client sent,
at its place, so that an error points to what was typed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import TokenType
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError

from dpquery.server.postgres.messages import Refused
from dpquery.sql.commands import Subject
from dpquery.sql.parse.text_checks import MAX_BYTES


@dataclass(frozen=True, slots=True)
class Done:
    """Nothing is to be done: a client says it out of habit."""

    tag: str


@dataclass(frozen=True, slots=True)
class Transaction:
    """BEGIN, COMMIT, ROLLBACK, SAVEPOINT, RELEASE, or ROLLBACK TO."""

    tag: str


@dataclass(frozen=True, slots=True)
class Setting:
    """SET or RESET; None: as it was at first."""

    name: str
    value: str | None
    tag: str = "SET"


@dataclass(frozen=True, slots=True)
class Showing:
    """SHOW of a setting."""

    name: str


@dataclass(frozen=True, slots=True)
class Forget:
    """DISCARD or DEALLOCATE; an empty name means all."""

    tag: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """A statement that is answered with rows, and where it stands in what was sent."""

    text: str
    start: int = 0
    tag: str = "SELECT"
    """With another one it is answered with lines beside it, and no rows."""
    readable: bool = True
    """Whether it could ask the catalogue: it begins as a query does."""


@dataclass(frozen=True, slots=True)
class Declare:
    """DECLARE: a name for the rows of a query."""

    name: str
    query: Query
    hold: bool


@dataclass(frozen=True, slots=True)
class Fetch:
    """FETCH or MOVE forward; a count of None means all."""

    name: str
    count: int | None
    tag: str = "FETCH"


@dataclass(frozen=True, slots=True)
class Close:
    """CLOSE of a cursor; an empty name means all."""

    name: str


@dataclass(frozen=True, slots=True)
class Form:
    """How COPY writes rows."""

    name: str = "text"
    header: bool = False
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'


@dataclass(frozen=True, slots=True)
class Copy:
    """COPY of a query to the client."""

    query: Query
    form: Form


@dataclass(frozen=True, slots=True)
class Call:
    """CALL dpquery(...): what a client of our own asks; the text of its argument."""

    argument: Query


Statement = (
    Done | Transaction | Setting | Showing | Forget | Query | Declare | Fetch | Close | Copy
    | Call
)  # fmt: skip

_LEAD = re.compile(r"(?:[\s;]|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_ENDS = "; \t\r\n"
_WORD = re.compile(r"[a-z]+", re.IGNORECASE | re.ASCII)
_NAME = r'("(?:[^"]|"")+"|[^\W\d][\w$]*)'
_LONGEST_OPTIONS = 1000


def _pattern(words: str) -> re.Pattern[str]:
    """Compile words: a space stands for any, and nothing follows."""
    return re.compile(words.replace(" ", r"\s+") + r"\Z", re.IGNORECASE | re.DOTALL)


_SET = _pattern(r'SET (?:(?:SESSION|LOCAL) )?([\w."]+)\s*(?:=|\bTO\b)\s*(.+)')
_ZONE = _pattern(r"SET (?:(?:SESSION|LOCAL) )?TIME ZONE (.+)")
_ENCODING = _pattern(r"SET NAMES (.+)")
_TRANSACTION = _pattern(r"SET (?:(?:SESSION|LOCAL) )?(?:CHARACTERISTICS AS )?TRANSACTION .+")
_RESET = _pattern(r'RESET ([\w."]+)')
_SHOW = _pattern(r'SHOW ([\w."]+|TRANSACTION ISOLATION LEVEL|TIME ZONE|SESSION AUTHORIZATION)')
_BACK = _pattern(r"(?:ROLLBACK|ABORT)(?: WORK| TRANSACTION)? TO .+")
_DEALLOCATE = _pattern(rf"DEALLOCATE (?:PREPARE )?{_NAME}")
_DISCARD = _pattern(r"DISCARD (ALL|PLANS|SEQUENCES|TEMP|TEMPORARY)")
_CLOSE = _pattern(rf"CLOSE {_NAME}")
_UNLISTEN = _pattern(r"UNLISTEN .+")
_FETCH = _pattern(
    r"(FETCH|MOVE)(?: (NEXT|FORWARD ALL|FORWARD \d{1,9}|FORWARD|ALL|\d{1,9}))?"
    rf"(?: (?:FROM|IN))? {_NAME}"
)
_DECLARE = re.compile(
    rf"DECLARE\s+{_NAME}((?:\s+(?:BINARY|ASENSITIVE|INSENSITIVE|NO\s+SCROLL|SCROLL))*)\s+CURSOR"
    r"(\s+WITH\s+HOLD|\s+WITHOUT\s+HOLD)?\s+FOR\b",
    re.IGNORECASE,
)
_COPY = re.compile(r"COPY\s*\(", re.IGNORECASE)
_TO = re.compile(r"\)\s*TO\s+STDOUT\b", re.IGNORECASE)
_CALL = re.compile(r"CALL\s+dpquery\s*\(", re.IGNORECASE)
_TEXT = re.compile(r"\s*'((?:[^']|'')*)'\s*")
_OPTION = re.compile(
    r"""[\s,(]*([a-z]+)(?:\s+(?:AS\s+)?('(?:[^']|'')*'|"[^"]*"|true|false|on|off|match|[\w-]+))?"""
    r"""(?=[\s,);]|$)""",
    re.IGNORECASE,
)
_LEGACY = re.compile(
    r"(?<![\"'])\b(binary|csv|header)\b(?!\s+(?:true|false|on|off|match))", re.I
)


def split(text: str) -> list[tuple[int, str]]:
    """Return the statements of a text, and where each begins; one that is empty is none.

    What has no words stays one: who reads it says what is wrong.
    """
    cuts = [0]
    if ";" in text and len(text) <= MAX_BYTES:
        try:
            tokens = DuckDB().tokenize(text)
        except TokenError:
            tokens = []
        cuts += [one.start + 1 for one in tokens if one.token_type is TokenType.SEMICOLON]
    pieces = zip(cuts, [*cuts[1:], len(text)], strict=True)
    return [(start, text[start:end]) for start, end in pieces if not _is_empty(text[start:end])]


def _is_empty(text: str) -> bool:
    lead = _LEAD.match(text)
    return lead is not None and lead.end() == len(text)


def read(text: str, start: int = 0) -> Statement:
    """Tell what one statement is.

    Args:
        text: the statement.
        start: where it begins in what the client sent.

    Raises:
        Refused: it is one that this server does not have.
    """
    lead = _LEAD.match(text)
    begin = lead.end() if lead else 0
    word = _WORD.match(text, begin)
    verb = word[0].upper() if word else ""
    reader = _READERS.get(verb)
    found = None if reader is None else reader(text[begin:].rstrip(_ENDS), start + begin)
    if found is not None:
        return found
    readable = verb in ("SELECT", "WITH", "VALUES", "TABLE") or text[begin : begin + 1] == "("
    tag = f"{verb} VIEW" if verb in ("CREATE", "DROP") else "SELECT"
    return Query(text, start, tag, readable)


def unquoted(text: str) -> str:
    """Return a name or a value without its quotes; a name without them is in small letters."""
    if text[:1] == text[-1:] == '"' and len(text) > 1:
        return text[1:-1].replace('""', '"')
    if text[:1] == text[-1:] == "'" and len(text) > 1:
        return text[1:-1].replace("''", "'")
    return text


def _name(text: str) -> str:
    return unquoted(text) if text.startswith('"') else text.lower()


def _setting_name(text: str) -> str:
    return text.replace('"', "").lower()


def _transaction(tag: str) -> Callable[[str, int], Statement]:
    return lambda text, _: Transaction("ROLLBACK TO" if _BACK.match(text) else tag)


def _set(text: str, at: int) -> Statement:
    if found := _ZONE.match(text):
        return Setting("timezone", _value(found[1]))
    if _TRANSACTION.match(text):
        return Done("SET")
    if found := _ENCODING.match(text):
        return Setting("client_encoding", _value(found[1]))
    if found := _SET.match(text):
        return Setting(_setting_name(found[1]), _value(found[2]))
    raise Refused.of("42601", "SET takes a name and a value", at, "SET dp.eps = 0.5")


def _value(text: str) -> str | None:
    return None if text.upper() == "DEFAULT" else unquoted(text)


def _reset(text: str, at: int) -> Statement:
    found = _RESET.match(text)
    if found is None:
        raise Refused.of("42601", "RESET takes the name of a setting", at, "RESET dp.eps")
    return Setting(_setting_name(found[1]), None, "RESET")


def _show(text: str, at: int) -> Statement:
    found = _SHOW.match(text)
    if found is None:
        return Query(text, at, readable=False)
    name = "_".join(_setting_name(found[1]).split()).removesuffix("_level")
    subject = name.removeprefix("dp.").upper()
    if subject in set(Subject):
        return Query(f"SHOW {subject}", at, readable=False)
    return Showing({"time_zone": "timezone"}.get(name, name))


def _discard(text: str, at: int) -> Statement:
    found = _DISCARD.match(text)
    if found is None:
        raise Refused.of("42601", "DISCARD takes ALL, PLANS, SEQUENCES or TEMP", at)
    what = found[1].upper()
    return Forget("DISCARD ALL") if what == "ALL" else Done(f"DISCARD {what}")


def _deallocate(text: str, at: int) -> Statement:
    found = _DEALLOCATE.match(text)
    if found is None:
        raise Refused.of("42601", "DEALLOCATE takes a name or ALL", at)
    everything = found[1].upper() == "ALL"
    return Forget("DEALLOCATE ALL") if everything else Forget("DEALLOCATE", _name(found[1]))


def _close(text: str, at: int) -> Statement:
    found = _CLOSE.match(text)
    if found is None:
        raise Refused.of("42601", "CLOSE takes a name or ALL", at)
    return Close("" if found[1].upper() == "ALL" else _name(found[1]))


def _fetch(text: str, at: int) -> Statement:
    found = _FETCH.match(text)
    if found is None:
        title = "a cursor goes forward alone"
        raise Refused.of("0A000", title, at, "FETCH FORWARD 100 FROM name")
    words = (found[2] or "1").upper().split()
    count = None if words[-1] == "ALL" else int(words[-1]) if words[-1].isdigit() else 1
    return Fetch(_name(found[3]), count, found[1].upper())


def _declare(text: str, at: int) -> Statement:
    found = _DECLARE.match(text)
    if found is None:
        title, remedy = (
            "this is no cursor that can be declared",
            "DECLARE c CURSOR FOR SELECT 1",
        )
        raise Refused.of("42601", title, at, remedy)
    hold = " ".join((found[3] or "").upper().split()) == "WITH HOLD"
    query = Query(text[found.end() :], at + found.end())
    return Declare(_name(found[1]), query, hold)


def _copy(text: str, at: int) -> Statement:
    opened = _COPY.match(text)
    ends = [found for found in _TO.finditer(text)] if opened else []
    if opened is None or not ends:
        title = "COPY writes the rows of a query to the client, and nothing else"
        raise Refused.of(
            "42501", title, at, "COPY (SELECT DP_COUNT(*, eps=0.5) FROM t) TO STDOUT"
        )
    end = ends[-1]
    query = Query(text[opened.end() : end.start()], at + opened.end())
    return Copy(query, _form(text[end.end() :], at + end.end()))


def _form(text: str, at: int) -> Form:
    """Read how rows are to be written, by the options in brackets or by the older words."""
    known = {"format": "text"}
    for key, value in _options(text, at):
        if key in ("binary", "csv", "text") and not value:
            known["format"] = key
        elif key in ("format", "header", "delimiter", "null", "quote", "encoding"):
            known[key] = value
        elif key != "with":
            raise Refused.of("0A000", f"COPY has no option {key} here", at)
    form = known["format"].lower()
    if form not in ("text", "csv", "binary"):
        raise Refused.of("22023", "COPY writes text, csv or binary", at)
    csv = form == "csv"
    header = known.get("header", "false").lower() in ("", "true", "on", "1")
    delimiter, quote = known.get("delimiter", "," if csv else "\t"), known.get("quote", '"')
    null = known.get("null", "" if csv else "\\N")
    signs = {delimiter, quote} if csv else {delimiter}
    if any(len(sign) != 1 or ord(sign) > 127 or sign in "\r\n\\" for sign in signs):
        raise Refused.of("22023", "COPY takes one sign as delimiter and as quote", at)
    if "\n" in null or "\r" in null or delimiter in null or (csv and delimiter == quote):
        raise Refused.of("22023", "COPY cannot tell these signs apart", at)
    return Form(form, header, delimiter, null, quote)


def _options(text: str, at: int) -> Iterator[tuple[str, str]]:
    """Yield the options of COPY; of the older words, each stands alone."""
    if len(text) > _LONGEST_OPTIONS:
        raise Refused.of("42601", "the options of COPY are too long", at)
    body, place = _LEGACY.sub(r"\1,", text).strip(), 0
    while place < len(body) and body[place:].strip(" \t\r\n,()"):
        found = _OPTION.match(body, place)
        if found is None:
            raise Refused.of("42601", "the options of COPY cannot be read", at)
        key, value = found[1].lower(), found[2] or ""
        if key == "with":
            place = found.end(1)
            continue
        yield key, unquoted(value)
        place = found.end()


def _call(text: str, at: int) -> Statement:
    found = _CALL.match(text)
    if found is None or not text.endswith(")"):
        raise Refused.of("42883", "there is no such procedure", at)
    return Call(Query(text[found.end() : -1], at + found.end()))


def argument(text: str) -> str:
    """Return the text that a call takes.

    Raises:
        Refused: it is no text.
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        raise Refused.of("42601", "dpquery takes one text")
    return found[1].replace("''", "'")


def _refused(text: str, at: int) -> Statement:
    verb = text.split(None, 1)[0].upper()
    raise Refused.of("0A000", f"this server has no {verb}", at)


def _unlisten(text: str, at: int) -> Statement:
    return Done("UNLISTEN") if _UNLISTEN.match(text) else _refused(text, at)


_READERS: dict[str, Callable[[str, int], Statement]] = {
    "BEGIN": _transaction("BEGIN"),
    "START": _transaction("START TRANSACTION"),
    "COMMIT": _transaction("COMMIT"),
    "END": _transaction("COMMIT"),
    "ROLLBACK": _transaction("ROLLBACK"),
    "ABORT": _transaction("ROLLBACK"),
    "SAVEPOINT": _transaction("SAVEPOINT"),
    "RELEASE": _transaction("RELEASE"),
    "SET": _set,
    "RESET": _reset,
    "SHOW": _show,
    "DISCARD": _discard,
    "DEALLOCATE": _deallocate,
    "DECLARE": _declare,
    "FETCH": _fetch,
    "MOVE": _fetch,
    "CLOSE": _close,
    "COPY": _copy,
    "CALL": _call,
    "UNLISTEN": _unlisten,
    "LISTEN": _refused,
    "NOTIFY": _refused,
    "LOCK": _refused,
    "PREPARE": _refused,
    "EXECUTE": _refused,
}
