"""`dpquery demo`: groups, a quantile and a refusal, on a copy of the sample data.

The copy has a ledger of its own; on a terminal the shell opens on another one. Everything goes
to standard output, refusals too: here the refusal is part of the show.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from dpquery.errors import ExitCode, QueryRefused
from dpquery.shell.ask import Asked, Connect, show
from dpquery.shell.interactive import at_terminal, converse

__all__ = ["demo"]

_QUERIES = (
    "SELECT dept, DP_COUNT(*, eps=0.5) AS n, DP_AVG(salary, eps=0.5) AS pay "
    "FROM staff GROUP BY dept",
    "SELECT DP_QUANTILE(salary, 0.1, eps=0.5) AS tenth FROM staff",
    "SELECT dept, salary FROM staff GROUP BY dept",
)


def demo(connect: Connect) -> int:
    """Ask the sample data each query, and print what comes back."""
    from dpquery.policy.samples import copy_samples

    with tempfile.TemporaryDirectory(prefix="dpquery-demo-") as place:
        with connect(str(copy_samples(Path(place) / "shown"))) as session:
            for query in _QUERIES:
                show(f"dp> {query};\n{_reply(query, session)}\n")
        if at_terminal():
            show("Your turn, on a fresh copy of the samples with its whole budget.")
            with connect(str(copy_samples(Path(place) / "samples"))) as session:
                converse(session, None)
    return ExitCode.ANSWER


def _reply(query: str, session: Asked) -> str:
    try:
        answer = session.sql(query)
    except QueryRefused as refusal:
        return str(refusal)
    notes = "".join(f"\nnote: {note}" for note in answer.notes)
    return f"{answer}{notes}\nbudget: {answer.budget}"
