"""The policy file as text, as TOML, and as sections that know where they stand.

This module reads one small file and knows no key by name: which keys there are is in
`toml_keys.py`. Its promise is that a refusal can name file and line, and that no
key is passed over (I9).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import TypeVar

from dpquery.errors import Diagnostic, PolicyInvalid, listed, nearest, shown

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST = 128
"""Characters of a text that a message repeats."""
_MOMENTS = (date, datetime, time)


class Unfit(ValueError):
    """A value that cannot be taken: what is wrong, why that matters, what to write.

    It does not know where the value stands: its section does, and makes it `PolicyInvalid`.
    A reader may leave the reason and the remedy to the key, or only say which value was meant.
    """

    def __init__(
        self, what: str, why: str = "", *remedy: str, meant: str = "", code: str = "DPQ604"
    ) -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.remedy = remedy
        self.meant = meant
        self.code = code

    def at(self, key: str, file: str | None = None, line: int | None = None) -> PolicyInvalid:
        """Return the refusal, now that its key, file and line are known."""
        title = f"{key} {self.what}".strip()
        why = tuple(self.why.split("\n"))
        return PolicyInvalid(
            Diagnostic(self.code, title, why=why, remedy=self.remedy), file, line, key or None
        )


def contradiction(what: str, why: str, *remedy: str) -> Unfit:
    """Return the refusal of what cannot be so together."""
    return Unfit(what, why, *remedy, code="DPQ607")


def written(value: object) -> str:
    """Write a value as TOML would; of a list, of a table and of what Python has, only the kind.

    >>> written(True), written("a"), written([1, 2]), written({"a": 1})
    ('true', '"a"', 'a list of 2 values', 'a table')
    """
    match value:
        case bool():
            return str(value).lower()
        case str() if type(value) is str and len(value) <= _LONGEST:
            return toml_text(value)
        case list() if type(value) is list:
            return f"a list of {len(value)} values" if value else "[]"
        case dict() if type(value) is dict:
            return "a table"
        case date() | time() if type(value) in _MOMENTS:
            return str(value)
    return shown(value)


def toml_key(name: str) -> str:
    """Write a name as a TOML key: bare where that is possible.

    >>> toml_key("age"), toml_key("full name")
    ('age', '"full name"')
    """
    return name if _BARE.fullmatch(name) else toml_text(name)


def toml_text(text: str) -> str:
    r"""Write a text as a TOML string in which everything prints.

    >>> toml_text("a\n\u202eb")
    '"a\\n\\u202eb"'
    """
    written = json.dumps(text, ensure_ascii=False)  # JSON's escapes are TOML's
    codes = ((char, f"{ord(char):04x}") for char in written)
    return "".join(
        char if char.isprintable() else f"\\u{code}" if len(code) == 4 else f"\\U{code:0>8}"
        for char, code in codes
    )


def dotted(path: tuple[str, ...]) -> str:
    """Write a path of keys as TOML would."""
    return ".".join(toml_key(part) for part in path)


T = TypeVar("T")
Path_ = tuple[str, ...]

FILE_MAX = 4 * 2**20
"""Bytes: a policy is written by hand; what is larger was named by mistake."""


@dataclass(frozen=True, slots=True)
class Document:
    """A policy file that is TOML."""

    name: str
    """The path as it was given, for messages."""
    path: Path
    """The file itself, links followed: another spelling must not mean another ledger."""
    values: Mapping[str, object]
    text: str


_MEANT = {
    "unit": "privacy_unit_column",
    "eps": "epsilon",
    "range": "bounds",
    "rows": "max_rows_contributed",
    "max_rows": "max_rows_contributed",
    "groups": "max_groups_contributed",
    "max_groups": "max_groups_contributed",
}
"""Keys by what other places call them: connect, queries, other tools."""


@dataclass(frozen=True, slots=True)
class Section:
    """One table of the file; every read either understands the value or refuses it."""

    document: Document
    path: Path_
    values: Mapping[str, object]

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def refuse(self, key: str | None, unfit: Unfit) -> PolicyInvalid:
        """Return the refusal of a key of this section, or of the section."""
        path = self.path if key is None else (*self.path, key)
        there = path
        while there and not _holds(self.document.values, there):
            there = there[:-1]
        return unfit.at(dotted(path), self.document.name, line_of(there, self.document.text))

    def only(self, known: Collection[str]) -> Section:
        """Refuse every key that is not known, the first in the file's order."""
        for key in self.values:
            if key not in known:
                what = "is not a key of the policy"
                why = (
                    "a key that is not understood might have been a limit, so none is skipped."
                )
                meant = _MEANT.get(key.lower())
                near = meant if meant in known else nearest(key, known)
                value = self.values[key]
                offer = () if near is None else (toml_key(near),)
                if near is not None and isinstance(value, int | str):
                    offer = (f"{toml_key(near)} = {written(value)}",)
                if self.path[2:3] == ("columns",) and isinstance(value, dict):
                    whole = ".".join((*self.path[3:], key))
                    why = "a field of a structure is one column, and its name is quoted."
                    offer = (f'{toml_key(whole)} = {{ type = "text" }}',)
                here = f"known here: {listed(known, near)}"
                raise self.refuse(key, Unfit(what, why, *offer, here, code="DPQ603"))
        return self

    def read(self, key: str, reader: Callable[..., T], *arguments: object) -> T:
        """Read the value of a key; a refusal says where it stands."""
        try:
            return reader(*arguments)
        except Unfit as unfit:
            raise self.refuse(key, unfit) from None

    def child(self, key: str) -> Section:
        """Return the section under a key; an empty one where it is absent."""
        value, path = self.values.get(key, {}), (*self.path, key)
        if not isinstance(value, dict):
            what = f"is not a table but {written(value)}"
            why = "the policy has a table of keys here."
            raise self.refuse(key, Unfit(what, why, f"[{dotted(path)}]"))
        return Section(self.document, path, value)

    def children(self) -> Iterator[tuple[str, Section]]:
        """Return each key with the section under it, in the file's order."""
        return ((key, self.child(key)) for key in self.values)


def read_document(path: str | Path) -> Document:
    """Read a policy file.

    Raises:
        PolicyInvalid: DPQ601 the file cannot be read; DPQ602 it is not TOML.
    """
    return document_of(_text(Path(path)), path)


def document_of(text: str, path: str | Path) -> Document:
    """Return the text of a policy file, which may be written yet.

    Raises:
        PolicyInvalid: DPQ602 it is not TOML.
    """
    try:
        values = tomllib.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise _syntax(error, text, str(path)) from None
    return Document(str(path), Path(path).resolve(), values, text)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_MAX + 1)
        if len(content) <= FILE_MAX:
            # tomllib takes "\n" and "\r\n" alone, and an editor's byte order mark says nothing
            return content.decode("utf-8-sig").replace("\r\n", "\n")
        reason = f"it is larger than {FILE_MAX} bytes"
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except OSError as error:
        reason = error.strerror or "it cannot be opened"
    raise Unfit(
        f"the policy file cannot be read: {reason[0].lower()}{reason[1:]}",
        "a policy is a TOML file that names tables, units and a budget.",
        "dpquery policy init people.parquet    drafts one from the schemas of files",
        code="DPQ601",
    ).at("", str(path))


def _syntax(error: Exception, text: str, file: str) -> PolicyInvalid:
    reason = re.sub(r" \(at .*\)$", "", str(error)) or "a number out of range"
    if isinstance(error, RecursionError):
        reason = "brackets are nested too deeply"
    at = re.search(r"\(at line (\d+), column \d+\)$", str(error))
    number = int(at[1]) if at else None
    if str(error).endswith("(at end of document)"):
        number = text.rstrip("\n").count("\n") + 1
    found = text.split("\n")[number - 1].strip() if number else ""
    return Unfit(
        f"the policy file is not TOML: {reason[0].lower()}{reason[1:]}",
        "a file that is understood in part might leave out a limit.",
        f"mend this line: {found[:80]}" if found else "mend the file: see https://toml.io",
        code="DPQ602",
    ).at("", file, number)


def line_of(path: Path_, text: str) -> int | None:
    r"""Return the line of valid TOML in which a path of keys is first written.

    tomllib keeps no positions. A key is written in the last line with its name before which the
    text is TOML that lacks the key. One that is spelled with escapes has its section's line.

    >>> [line_of(path, "[a]\nb = { c = 1 }") for path in (("a",), ("a", "b"), ("a", "b", "c"))]
    [1, 2, 2]
    """
    if not path:
        return None
    found = line_of(path[:-1], text)
    spelled = (re.escape(one) for one in (path[-1], toml_text(path[-1])[1:-1]))
    named = re.compile(rf"(?<![\w-])(?:{'|'.join(spelled)})(?![\w-])")
    lines = text.split("\n")
    for number in range(found or 1, len(lines) + 1):
        if named.search(lines[number - 1]):
            before = _before(lines[: number - 1])
            if before is not None and _holds(before, path):
                break
            found = number if before is not None else found
    return found


def _before(lines: list[str]) -> dict[str, object] | None:
    """Return what some lines say, if a value does not end below them."""
    try:
        return tomllib.loads("\n".join(lines), parse_float=Decimal)
    except ValueError:
        return None


def _holds(values: object, path: Path_) -> bool:
    for key in path:
        if not isinstance(values, dict) or key not in values:
            return False
        values = values[key]
    return True
