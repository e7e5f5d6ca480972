"""The way into the shell: whether a person is there, and whether its packages are.

Nothing of the shell's own packages is loaded before both are known.
"""

from __future__ import annotations

import sys

from dpquery.shell.arguments import UsageError
from dpquery.shell.ask import Asked, open_output

__all__ = ["at_terminal", "converse"]

_PACKAGES = frozenset({"prompt_toolkit", "pygments", "rich"})
_MISSING = (
    "the shell needs packages that are not installed: pip install 'dpquery[shell]'\n"
    "(without them: give -c SQL or -f FILE, or pipe statements in)"
)


def at_terminal() -> bool:
    """Say whether somebody types and reads here."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def converse(
    session: Asked,
    analyst: str | None,
    form: str = "table",
    out: str | None = None,
    *,
    intervals: bool = False,
) -> None:
    """Open the shell on a session until the person leaves.

    Raises:
        UsageError: a package is missing, or the output cannot be written.
    """
    try:
        from dpquery.shell.repl import Repl
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise UsageError(_MISSING) from None
    repl = Repl(session, analyst or "default", form)
    repl.desk.intervals = intervals
    if out is not None:
        repl.desk.direct(open_output(out, form))
    repl.run()
