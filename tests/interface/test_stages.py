"""The way of a query through a session: each stage once, in order, and none goes back."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

import dpquery
from dpquery.session import Session
from tests.samples import sample_policy
from tests.tasks import ROOT

QUERY = (
    "SELECT dept, DP_COUNT(*, eps=0.1) AS n, DP_QUANTILE(salary, [0.1, 0.5, 0.9], eps=0.1) "
    "FROM staff WHERE age >= 30 GROUP BY dept ORDER BY n DESC"
)
STAGES = {
    ("sql/parse/parser.py", "parse"): "parse",
    ("sql/binder.py", "bind"): "bind",
    ("sql/privacy_rules.py", "check"): "check",
    ("plan/plan.py", "make_plan"): "plan",
    ("cache/lookup.py", "Cache.look_up"): "look up",
    ("budget/ledger/ledger.py", "Ledger.charge"): "charge",
    ("execute.py", "execute"): "execute",
    ("finish.py", "finish"): "finish",
}
PACKAGE = ROOT / "dpquery"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with dpquery.connect(sample_policy(tmp_path, "epsilon = 9.0")) as opened:
        yield opened


def entered(session: Session, query: str) -> list[tuple[str, str]]:
    """Return the functions of dpquery that a query enters: file and name, in order."""
    found: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(PACKAGE)):
            file = Path(code.co_filename).relative_to(PACKAGE).as_posix()
            found.append((file, code.co_qualname))

    sys.setprofile(note)
    try:
        session.sql(query)
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.parametrize("query", [QUERY, f"REFRESH {QUERY}"])
def test_each_stage_is_entered_once_and_in_order(session: Session, query: str):
    found = [STAGES[one] for one in entered(session, query) if one in STAGES]
    assert found == list(STAGES.values())


@pytest.mark.parametrize("query", [QUERY, f"REFRESH {QUERY}"])
def test_the_ledger_is_read_by_the_look_up_first(session: Session, query: str):
    files = [file for file, _ in entered(session, query)]
    ledger = next(n for n, file in enumerate(files) if file.startswith("budget/ledger/"))
    assert "cache/lookup.py" in files[:ledger]


def test_what_was_answered_takes_the_same_way_and_is_not_read_again(session: Session):
    session.sql(QUERY)
    found = entered(session, QUERY)
    assert [STAGES[one] for one in found if one in STAGES] == list(STAGES.values())
    assert ("release.py", "release") not in found
    assert ("engine/duckdb/private_engine.py", "DuckDBEngine.open") not in found


def test_the_text_of_a_scan_is_written_once(session: Session):
    found = Counter(entered(session, QUERY))
    assert found["cache/release_keys.py", "Keys._written"] == 1


def test_few_frames_stand_between_the_charge_and_the_scan(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    opened, stacks = session._engine.open, []

    def watched(*arguments):
        stacks.append([frame.function for frame in inspect.stack()])
        return opened(*arguments)

    monkeypatch.setattr(session._engine, "open", watched)
    session.sql(QUERY)
    (stack,) = stacks
    assert stack[1 : stack.index("sql") + 1] == ["execute", "sql"]
