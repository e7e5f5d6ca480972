"""`dpquery demo`: two counts and a refusal, on a copy of the sample data with its own ledger.

Everything goes to standard output, refusals too: here the refusal is part of the show.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from dpquery.errors import ExitCode, QueryRefused
from dpquery.shell.ask import Asked, Connect, show

__all__ = ["demo"]

_QUERIES = (
    "SELECT DP_COUNT(*, eps=0.5) AS people FROM staff",
    "SELECT DP_COUNT(*, eps=0.5) AS engineers FROM staff WHERE dept = 'eng'",
    "SELECT dept, salary FROM staff",
)


def demo(connect: Connect) -> int:
    """Ask the sample data each query, and print what comes back."""
    from dpquery.policy.samples import sample_directory

    with tempfile.TemporaryDirectory(prefix="dpquery-demo-") as place:
        copy = shutil.copytree(sample_directory(), Path(place) / "samples")
        with connect(str(copy / "policy.toml")) as session:
            for query in _QUERIES:
                show(f"dp> {query};\n{_reply(query, session)}\n")
    return ExitCode.ANSWER


def _reply(query: str, session: Asked) -> str:
    try:
        answer = session.sql(query)
    except QueryRefused as refusal:
        return str(refusal)
    return f"{answer}\nbudget: {answer.budget}"
