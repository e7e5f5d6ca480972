"""The files of grammar/: how a case is read, what it is compared with, how it is written again.

A case is a comment, a query, `--`, and an expectation; cases are parted by `==`. The query of a
refusal has « and » around the stretch under the caret, and the expectation is the code; that of
an accepted query is what the plan states. Wording is pinned in tests/sql, and not here; but in
poor_messages.test the expectation is the message, which waits to be replaced.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from fractions import Fraction
from functools import cache
from pathlib import Path
from unittest.mock import patch

from dpquery.core.privacy_loss import Loss
from dpquery.core.source_text import Source, Span
from dpquery.engine.duckdb.public_engine import PublicEngine
from dpquery.errors import QueryRefused
from dpquery.plan.plan import Plan, make_plan
from dpquery.policy.load import load_policy
from dpquery.policy.model import Policy
from dpquery.sql.binder import bind
from dpquery.sql.parse.parser import parse
from dpquery.sql.privacy_rules import check
from tests.corpus.describe import described
from tests.tasks import ROOT

GRAMMAR = ROOT / "grammar"
POOR = GRAMMAR / "poor_messages.test"
PLAIN = GRAMMAR / "plain"
"""Queries without prices of their own, asked under `-e 1`, or with a delta beside it."""
PRICES = {"delta": Loss(Fraction(1), Fraction(1, 10**6))}
"""What the queries of some of these files may spend."""
POLICY = ROOT / "datasets" / "policy.toml"
TODAY = date(2025, 6, 1)
"""What CURRENT_DATE is in a case."""
OPEN, CLOSE = "«", "»"


@dataclass(frozen=True)
class Case:
    """One case of a file."""

    path: Path
    line: int
    comment: str
    marked: str
    expected: str

    @property
    def query(self) -> str:
        return self.marked.replace(OPEN, "").replace(CLOSE, "")

    @property
    def price(self) -> Loss | None:
        whole = PRICES.get(self.path.stem, Loss(Fraction(1)))
        return whole if self.path.parent == PLAIN else None

    def __str__(self) -> str:
        return f"{self.path.relative_to(GRAMMAR)}:{self.line}"


def files() -> list[Path]:
    """Return the files of queries that state their prices."""
    priced = (path for path in sorted(GRAMMAR.glob("*/*.test")) if path.parent != PLAIN)
    return [*priced, POOR]


def all_files() -> list[Path]:
    return [*sorted(PLAIN.glob("*.test")), *files()]


def read(path: Path) -> Iterator[Case]:
    """Read the cases of a file."""
    line = 1
    for block in path.read_text("utf-8").split("\n==\n"):
        asked, _, expected = block.partition("\n--\n")
        lines = asked.strip("\n").splitlines()
        comments = [text for text in lines if text.startswith("# ")]
        query = "\n".join(lines[len(comments) :])
        yield Case(path, line, "\n".join(comments), query, expected.strip("\n"))
        line += block.count("\n") + 2


def outcome(case: Case) -> Case:
    """Run the stages that read nothing, and give the case as it should be written."""
    try:
        plan = planned(case.query, case.price)
    except QueryRefused as refused:
        said = refusal(case.query) if case.path == POOR else str(refused.code)
        return replace(case, marked=marked(case.query, refused.span), expected=said)
    return replace(case, marked=case.query, expected=described(plan))


def marked(query: str, span: Span | None) -> str:
    if span is None:
        return query
    before, inside, after = (
        query[: span.start],
        query[span.start : span.end],
        query[span.end :],
    )
    return f"{before}{OPEN}{inside}{CLOSE}{after}"


def planned(query: str, price: Loss | None = None) -> Plan:
    policy, public = facts()
    with patch("dpquery.sql.parse.parser.utc_today", lambda: TODAY):
        parsed = parse(Source(query))
    bound = bind(parsed, policy, public, price)
    return make_plan(check(bound, policy), policy, public)


def refusal(query: str) -> str:
    """Return the whole text of a refusal, as a session would show it but for the budget."""
    try:
        planned(query)
    except QueryRefused as refused:
        refused.source = Source(query)
        return str(refused)
    raise AssertionError("the query is accepted")


@cache
def facts() -> tuple[Policy, PublicEngine]:
    """Return the policy of the sample data, and its public tables."""
    policy = load_policy(POLICY)
    return policy, PublicEngine(policy)


def written(cases: list[Case]) -> str:
    """Write the text of a file."""
    blocks = [f"{case.comment}\n{case.marked}\n--\n{case.expected}\n" for case in cases]
    return "==\n".join(blocks)


def rewrite() -> None:
    """Write every expectation as it is now; the difference is for a person to read."""
    for path in all_files():
        path.write_text(written([outcome(case) for case in read(path)]), "utf-8")
