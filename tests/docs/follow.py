"""Follows one query through the stages and prints each value: a section of ARCHITECTURE.md."""

from __future__ import annotations

from pathlib import Path

from dpquery.budget.ledger.charge import Account, Limits
from dpquery.budget.ledger.ledger import open_ledger
from dpquery.core.events import encode
from dpquery.core.source import Source
from dpquery.engine.duckdb.column_sql import Place
from dpquery.engine.duckdb.postprocessor import PublicEngine
from dpquery.engine.duckdb.scan_sql import ScanSQL
from dpquery.plan.plan import make_plan
from dpquery.policy.files import sample_directory
from dpquery.policy.load import load_policy
from dpquery.sql.bind.statement import bind
from dpquery.sql.parse.parser import parse
from dpquery.sql.rules import check

PAGE = Path(__file__).resolve().parents[2] / "ARCHITECTURE.md"
BEGIN, END = "<!-- followed: begin -->", "<!-- followed: end -->"
QUERY = "SELECT DP_COUNT(*, eps=0.5) AS n FROM visits WHERE minutes >= 30"


def followed() -> str:
    """Return the section: each stage, and what it makes of the query."""
    policy = load_policy(sample_directory() / "policy.toml")
    public = PublicEngine(policy)
    parsed = parse(Source(QUERY))
    bound = bind(parsed, policy, public)
    checked = check(bound, policy)
    plan = make_plan(checked, policy, public)
    public.close()
    scan = plan.frontiers[0].scan
    table = policy.tables["visits"]
    sql = (
        ScanSQL(scan, {table.name: Place.in_files(table)}, {})
        .queries()[0][1]
        .replace(str(sample_directory()), "…")
    )
    call, contribution = bound.frontiers[0].calls[0], checked.frontiers[0][1]
    released = plan.frontiers[0].releases[0].release
    return "\n".join(
        [
            _stage("the text", QUERY),
            _stage("parse: a tree of allowed nodes", parsed.query.sql("duckdb")),
            _stage("bind: the frontier", f"relation  {bound.frontiers[0].relation}"),
            _stage("bind: its call", f"{call}"),
            _stage("bind: what is above", bound.above.sql),
            _stage("check: what bounds one unit's rows", f"{contribution}"),
            _stage("plan: the measure", f"{scan.measures[0].weight}"),
            _stage("plan: its loss at the proven distance", f"{released.event()}"),
            _stage(
                "charge: what the ledger stores",
                encode(_receipt(policy, plan).charge.events[0]),
            ),
            _stage("open: the scan's SQL", sql),
            "The scan gives one integer, the total weight in units of 1/2³². `release`",
            "compares the mechanism's loss with the receipt, draws the noise and divides by",
            "2³²; `finish` runs what is above over a table of one row.",
        ]
    )


def _receipt(policy, plan):
    memory = open_ledger(type(policy.ledger)(None))
    return memory.charge(plan.charge, Limits(policy.budget.ceiling), Account("default", "s"))


def _stage(name: str, value: str) -> str:
    return f"**{name}**\n\n```text\n{value}\n```\n"


def page() -> str:
    """Return ARCHITECTURE.md with the section written anew."""
    text = PAGE.read_text("utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    return f"{before}{BEGIN}\n\n{followed()}\n\n{END}{after}"
