"""What goes wrong before the charge costs nothing, and comes in words of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import dpquery
from dpquery import session as stages
from dpquery.cache.lookup import Cache
from dpquery.engine.duckdb import sql_allowlist
from dpquery.engine.duckdb.relation_sql import Nested
from dpquery.errors import InternalError, SyntaxRefused
from dpquery.session import Session
from tests.samples import sample_policy

COUNT = "SELECT DP_COUNT(*, eps=0.1) FROM staff"
NESTED = "SELECT DP_COUNT(*, eps=0.1) FROM (SELECT DISTINCT person_id, region FROM visits)"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return sample_policy(tmp_path, 'epsilon = 2.0\n[ledger]\npath = "own.ledger"')


@pytest.fixture
def session(place: Path) -> Iterator[Session]:
    with dpquery.connect(place) as opened:
        yield opened


@pytest.mark.parametrize("asked", ["sql", "explain"])
@pytest.mark.parametrize("stage", ["parse", "bind", "check", "make_plan", "look_up"])
def test_a_bare_error_before_the_charge_is_a_mistake_of_ours(
    session: Session, place: Path, monkeypatch: pytest.MonkeyPatch, stage: str, asked: str
):
    def fail(*_: object, **__: object) -> None:
        raise OverflowError("private")

    look = Cache if stage == "look_up" else stages
    monkeypatch.setattr(look, stage, fail)
    with pytest.raises(InternalError) as told:
        getattr(session, asked)(COUNT)
    assert told.value.code == "DPQ901"
    assert "private" not in str(told.value)
    assert told.value.__cause__ is None
    assert told.value.__suppress_context__
    assert "2 of 2 left" in str(told.value)
    (log,) = place.parent.glob("*.faults*")
    reference = str(told.value).partition("with reference ")[2][:8]
    assert reference in log.read_text("utf-8")


@pytest.mark.parametrize("fault", [RecursionError, MemoryError])
def test_what_recurses_too_far_is_refused(
    session: Session, monkeypatch: pytest.MonkeyPatch, fault: type[Exception]
):
    def fail(*_: object) -> None:
        raise fault

    monkeypatch.setattr(stages, "bind", fail)
    with pytest.raises(SyntaxRefused) as told:
        session.sql(COUNT)
    assert told.value.code == "DPQ105"
    assert session.budget.spent.epsilon == 0


@pytest.mark.parametrize(
    ("find", "put"),
    [
        ("GROUP BY u, ", "GROUP BY "),  # cannot be planned: u is in no group
        (" FROM", ", u. FROM"),  # cannot be parsed
        ("GROUP BY u", "GROUP BY u, hash(u)"),  # calls what is not listed
        (' WHERE ("person_id" IS NOT NULL)', ""),
    ],
)
def test_sql_that_may_not_run_is_found_before_the_charge(
    session: Session, monkeypatch: pytest.MonkeyPatch, find: str, put: str
):
    """Wherever in the tree: texts of scans are checked and planned while they cost nothing."""
    written, broken = Nested._per_unit, []

    def write(*given):
        made = written(*given)
        broken.append(made.replace(find, put, 1) != made)
        return made.replace(find, put, 1)

    monkeypatch.setattr(Nested, "_per_unit", write)
    with pytest.raises(InternalError) as told:
        session.sql(NESTED)
    assert told.value.code == "DPQ901"
    assert any(broken)
    assert session.budget.spent.epsilon == 0


def test_what_was_checked_before_the_charge_is_not_checked_again(
    session: Session, monkeypatch: pytest.MonkeyPatch
):
    read: list[str] = []
    parsed = sql_allowlist.parsed
    monkeypatch.setattr(
        sql_allowlist, "parsed", lambda c, sql: (read.append(sql), parsed(c, sql))[1]
    )
    session.explain(NESTED)
    before = list(read)
    assert before
    session.sql(NESTED)
    assert read == before
