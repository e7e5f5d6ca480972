"""What is sent arrives: answers with the law of each value, explanations, refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from dpquery.answer import Answer
from dpquery.client.wire_format import dumps, loads
from dpquery.core.types import INTEGER
from dpquery.database import Database
from dpquery.errors import InternalError, QueryRefused, ScanFailed
from dpquery.session import Session
from tests.corpus.runs import ACCEPTED, REFUSED, policy_at, samples

PARTS = 8
LEVELS = [Fraction(1, 2), "0.95", "0.999"]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    place = samples(tmp_path_factory.mktemp("wire") / "data")
    with Session(Database(policy_at(place / "policy.toml")), "default", None) as opened:
        yield opened


def known(answer: Answer) -> list[object]:
    """Return all that can be asked of an answer."""
    facts: list[object] = [answer.table, answer.about, answer.budget, answer.guarantee]
    for name in dict.fromkeys(answer.columns):
        facts += [answer.interval(name, level) for level in LEVELS]
        facts += [answer.rank_interval(name, level) for level in LEVELS]
    return [*facts, str(answer)]


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))]
)
def test_answers_arrive_with_all_that_is_known_of_them(session: Session, part: int):
    told = 0
    for case in ACCEPTED[part::PARTS]:
        try:
            answer = session.sql(case.query, eps=1)
        except (QueryRefused, ScanFailed):
            continue
        arrived = loads(dumps(answer))
        assert known(arrived) == known(answer), case.query
        told += any(cell is not None for row in arrived.cells for cell in row)
    assert told > len(ACCEPTED) // PARTS // 2


def test_explanations_and_budgets_arrive(session: Session):
    explained = session.explain(
        "SELECT dept, DP_MEDIAN(salary, eps=1) FROM staff GROUP BY dept"
    )
    assert loads(dumps(explained)) == explained
    assert loads(dumps(session.budget)) == session.budget


def test_refusals_arrive(session: Session):
    views = ("CREATE", "DROP")  # sessions accept these
    for case in [one for one in REFUSED if not one.query.startswith(views)][::PARTS]:
        with pytest.raises(QueryRefused) as refused:
            session.sql(case.query)
        arrived = loads(dumps(refused.value))
        assert (type(arrived), str(arrived)) == (type(refused.value), str(refused.value))
        assert (arrived.code, arrived.span) == (refused.value.code, refused.value.span)


@pytest.mark.parametrize(
    "text",
    [
        "[", "{}", '{"object": "core.types:Type", "is": {}}', '{"again": 7}',
        '{"object": "os:system", "is": {}}', '{"object": "wire:loads", "is": {}}',
        '{"object": "core.types:Fraction", "is": {}}', '{"fraction": "x"}',
        '{"object": "errors:refusal", "is": {}}', '{"enum": "core.types:Type", "is": "x"}',
        '{"arrow": "aaaa"}', '{"object": "core.types:__builtins__", "is": {}}',
    ],
)  # fmt: skip
def test_what_is_not_of_ours_is_not_read(text: str):
    with pytest.raises(ValueError, match="not what dpquery sends"):
        loads(text.encode())


def test_what_has_no_form_is_not_sent():
    assert json.loads(dumps([1, "a", None, 0.5])) == [1, "a", None, 0.5]
    assert loads(dumps((INTEGER, (INTEGER,)))) == (INTEGER, (INTEGER,))
    with pytest.raises(InternalError, match="a function is not sent"):
        dumps(dumps)
    with pytest.raises(InternalError, match="a PosixPath is not sent"):
        dumps(Path("policy.toml"))
