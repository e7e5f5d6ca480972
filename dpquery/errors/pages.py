"""What `dpquery explain` prints: the page of an error code, or a page of the documentation.

The pages of the codes stand in `docs/errors.md`, which is installed with the package. Nothing
of ours is imported here.
"""

from __future__ import annotations

import difflib
import re
import string
import textwrap
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Code:
    """One cause of a refusal or fault."""

    code: str
    title: str
    meaning: str
    example: str
    remedy: str


_PAGE = re.compile(
    r"^### (DPQ\d{3}): (.+?)\n\n(.+?)\n\n```text\n(.+?)\n```\n\n(.+?)\n(?=\n#|\Z)",
    re.MULTILINE | re.DOTALL,
)


@cache
def pages() -> tuple[Code, ...]:
    """Return the pages of all codes, in their order."""
    text = documents()["errors"].read_text("utf-8")
    return tuple(Code(*found.groups()) for found in _PAGE.finditer(text))


def explain(topic: str) -> str:
    """Return the page of a code (the number is enough), of a function, or of the documentation.

    Without a topic, it is the list of pages.

    Raises:
        LookupError: there is neither a code nor a function nor a page of that name.
    """
    asked, found = topic.strip().lower().removesuffix(".md"), documents()
    if not asked:
        listed = "\n".join(f"    dpquery explain {name}" for name in sorted(found))
        return f"pages:\n{listed}\n\nand codes, as DPQ301; functions, as DP_COUNT"
    if asked in found:
        return found[asked].read_text("utf-8").rstrip()
    if function := _function(asked):
        return function
    known = {page.code: page for page in pages()}
    wanted = "DPQ" + topic.strip().upper().removeprefix("DPQ")
    if wanted not in known:
        raise LookupError(_unknown(topic, wanted, sorted(found)))
    page = known[wanted]
    parts = [f"{page.code}: {page.title}", _wrap(page.meaning)]
    parts += ["example:\n    " + page.example, _wrap("what to do: " + page.remedy)]
    return "\n\n".join(parts)


def _function(name: str) -> str | None:
    """Return the section about a function, with DP_ before its name or without."""
    text = documents()["functions"].read_text("utf-8")
    meant = name.upper().removeprefix("DP_")
    found = re.search(rf"^## DP_{re.escape(meant)}\n.*?(?=\n##? |\Z)", text, re.M | re.S)
    return None if found is None else found[0].rstrip()


def _unknown(topic: str, wanted: str, names: list[str]) -> str:
    """Say what there is instead of a topic: the nearest page, or codes and all pages."""
    near = difflib.get_close_matches(topic.strip().lower(), names, n=1)
    if near:
        return f"there is no page {topic!r}: write dpquery explain {near[0]}"
    if not any(char.isdigit() for char in topic):
        return f"there is no page or function {topic!r}; pages are {', '.join(names)}"
    return (
        f"there is no code {topic!r}; the nearest are {_nearest(wanted)}; "
        f"pages are {', '.join(names)}"
    )


def documents() -> dict[str, Path]:
    """Return the pages of the documentation by name; a wheel holds them in the package."""
    package = Path(__file__).resolve().parents[1]
    root = package if (package / "docs").is_dir() else package.parent
    found = {path.stem.lower(): path for path in (root / "docs").rglob("*.md")}
    return found | {"grammar": root / "grammar" / "dpsql.ebnf"}


def _nearest(wanted: str) -> str:
    digits = "".join(char for char in wanted if char in string.digits)
    number = int(digits[:9] or 0)
    return ", ".join(
        sorted((p.code for p in pages()), key=lambda c: abs(int(c[3:]) - number))[:3]
    )


def _wrap(text: str) -> str:
    return "\n".join(textwrap.wrap(text, 80, break_long_words=False, break_on_hyphens=False))
