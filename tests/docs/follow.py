"""What ARCHITECTURE.md takes from the source: `Session.sql`, packages, a query by stages."""

from __future__ import annotations

import ast
import inspect
import textwrap
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from fractions import Fraction
from pathlib import Path

from dpquery.budget.ledger.charge_and_receipt import Account, Ceilings
from dpquery.budget.ledger.ledger import open_ledger
from dpquery.core.privacy_events import encode
from dpquery.core.source_text import Source, Span
from dpquery.engine.duckdb.clamped_table_sql import Place
from dpquery.engine.duckdb.public_engine import PublicEngine
from dpquery.engine.duckdb.scan_sql import ScanSQL
from dpquery.plan.plan import make_plan
from dpquery.policy.load import load_policy
from dpquery.policy.sources.paths import sample_directory
from dpquery.session import Session
from dpquery.sql.binder import bind
from dpquery.sql.parse.parser import parse
from dpquery.sql.privacy_rules import check

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "ARCHITECTURE.md"
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
            _stage("bind: the frontier", _shown(bound.frontiers[0].relation)),
            _stage("bind: its call", _shown(call)),
            _stage("bind: what is above", bound.above.sql),
            _stage("check: what bounds one unit's rows", _shown(contribution)),
            _stage("plan: the measure", _shown(scan.measures[0].weight)),
            _stage("plan: its loss at the proven distance", _shown(released.event())),
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
    return memory.charge(plan.charge, Ceilings(policy.budget.ceiling), Account("default", "s"))


def _stage(name: str, value: str) -> str:
    return f"**{name}**\n\n```text\n{value}\n```\n"


def _shown(value: object) -> str:
    """Write a node of a tree with the fields that say something: no spans, no defaults."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    if not is_dataclass(value):
        return repr(value)
    said = [
        f"{field.name}={_shown(getattr(value, field.name))}"
        for field in fields(value)
        if not isinstance(getattr(value, field.name), Span)
        and getattr(value, field.name) not in (None, (), False, 0, field.default)
        and (field.default_factory is MISSING or getattr(value, field.name))
    ]
    return f"{type(value).__name__}({', '.join(said)})"


def excerpt() -> str:
    """Return the body of `Session.sql` without its docstring."""
    source = textwrap.dedent(inspect.getsource(Session.sql))
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    lines = source.splitlines()[function.body[1].lineno - 1 :]
    return "```python\n" + textwrap.dedent("\n".join(lines)) + "\n```"


def packages() -> str:
    """Return a table of the packages, and of the modules beside them."""
    rows = ["| | | modules |", "|---|---|---|"]
    package = ROOT / "dpquery"
    for init in sorted(package.rglob("__init__.py")):
        folder = init.parent
        names = [path.stem for path in sorted(folder.glob("*.py")) if path != init]
        if folder == package:
            rows += [f"| `{name}.py` | {_first(package / f'{name}.py')} | |" for name in names]
        else:
            name = folder.relative_to(package).as_posix()
            rows.append(f"| `{name}/` | {_first(init)} | {', '.join(names)} |")
    return "\n".join(rows)


def _first(path: Path) -> str:
    told = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return told.splitlines()[0].replace("|", "\\|")


SECTIONS = {"sql": excerpt, "packages": packages, "followed": followed}


def page() -> str:
    """Return ARCHITECTURE.md with its sections written anew."""
    text = PAGE.read_text("utf-8")
    for name, section in SECTIONS.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n\n{section()}\n\n{end}{rest.split(end)[1]}"
    return text
