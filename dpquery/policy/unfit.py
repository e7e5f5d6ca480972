"""A refusal of something the data owner wrote, before it is known where it stands.

Readers of single values raise `Unfit`; whoever knows the place turns it into `PolicyInvalid`.
This module knows neither TOML nor data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from datetime import date, datetime, time

from dpquery.errors import Diagnostic, PolicyInvalid, listed, nearest, shown

__all__ = ["Unfit", "dotted", "toml_key", "toml_text", "unknown", "written"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_LONGEST = 128
"""Characters of a text that a message repeats."""
_MOMENTS = (date, datetime, time)


class Unfit(ValueError):
    """Something that cannot be taken: what is wrong, why that matters, what to write."""

    def __init__(self, what: str, why: str, *remedy: str, code: str = "DPQ604") -> None:
        super().__init__(what)
        self.what = what
        self.why = why
        self.remedy = remedy
        self.code = code

    def at(self, key: str, file: str | None = None, line: int | None = None) -> PolicyInvalid:
        """Give the refusal, now that its key, file and line are known."""
        title = f"{key} {self.what}".strip()
        why = tuple(self.why.split("\n"))
        return PolicyInvalid(
            Diagnostic(self.code, title, why=why, remedy=self.remedy), file, line, key or None
        )


def unknown(what: str, why: str, name: str, known: Collection[str]) -> Unfit:
    """Refuse a name that is not on a closed list, offering the nearest that is."""
    near = nearest(name, known)
    offer = () if near is None else (toml_key(near),)
    return Unfit(what, why, *offer, f"known here: {listed(known, near)}", code="DPQ603")


def written(value: object) -> str:
    """Write a value as TOML would; of a list, of a table and of what Python has, only the kind.

    >>> written(True), written("a"), written([1, 2]), written({"a": 1})
    ('true', '"a"', 'a list of 2 values', 'a table')
    """
    match value:
        case bool():
            return str(value).lower()
        case str() if type(value) is str:
            return toml_text(value) if len(value) <= _LONGEST else "a long text"
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
    return "".join(char if char.isprintable() else _escape(ord(char)) for char in written)


def _escape(code: int) -> str:
    return f"\\u{code:04x}" if code < 2**16 else f"\\U{code:08x}"


def dotted(path: tuple[str, ...]) -> str:
    """Write a path of keys as TOML would."""
    return ".".join(toml_key(part) for part in path)
