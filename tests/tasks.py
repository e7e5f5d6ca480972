"""`python -m tests.tasks docs` writes again what is generated; a test fails on a stale copy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path

from dpquery.codes import PAGES, Code
from tests.docs import follow

ROOT = Path(__file__).resolve().parent.parent

_FAMILIES = {
    "1": "parse: not a query of this language",
    "2": "bind: a table, column, function or argument is unknown or misused",
    "3": "check: an answer would break the promise",
    "4": "plan: policy and query state too little",
    "5": "charge: a limit would be passed",
    "6": "the policy, the ledger, or the arguments of connect",
    "7": "reading broke off after the charge",
    "8": "the session",
    "9": "mistakes of dpquery or of the machine",
}


def errors_page() -> str:
    """Give the text of grammar/errors.md."""
    parts = [
        "# Codes",
        "`make docs` writes this from `dpquery/codes.py`; `dpquery explain DPQ301` prints one.",
    ]
    for digit, pages in groupby(PAGES, key=lambda page: page.code[3]):
        parts += [f"## {digit}xx, {_FAMILIES[digit]}", *map(_entry, pages)]
    return "\n\n".join(parts) + "\n"


def _entry(page: Code) -> str:
    return (
        f"### {page.code}: {page.title}\n\n{page.meaning}\n\n"
        f"```text\n{page.example}\n```\n\n{page.remedy}"
    )


GENERATED: dict[Path, Callable[[], str]] = {
    ROOT / "grammar" / "errors.md": errors_page,
    follow.PAGE: follow.page,
}


def main(argv: list[str]) -> int:
    """Run a task by its name."""
    if argv != ["docs"]:
        print("usage: python -m tests.tasks docs", file=sys.stderr)
        return 2
    for path, text in GENERATED.items():
        path.write_text(text(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
