"""Questions of public query sets are answered as DuckDB answers them, or refused as stated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from dpquery.errors import QueryRefused
from tests.corpus.benchmarks.compare import alike, require_same
from tests.corpus.benchmarks.places import Place, opened
from tests.corpus.benchmarks.questions import Question
from tests.corpus.benchmarks.sets import SETS
from tests.turns import in_turn

ASKED = [(name, question) for name, found in SETS.items() for question in found.questions]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Place]]:
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(opened(found, tmp_path_factory.mktemp(name)))
            for name, found in SETS.items()
        }


@pytest.mark.parametrize(("name", "question"), in_turn(ASKED, 5), ids=str)
def test_a_question_is_answered_or_refused_as_stated(
    name: str, question: Question, places: dict[str, Place]
):
    place = places[name]
    theirs = place.exact(question.sql)
    if question.code:
        with pytest.raises(QueryRefused) as refused:
            place.ask(question)
        assert refused.value.code == question.code
        return
    assert theirs, "a comparison with nothing says nothing"
    groups = [place.exact(sql) if sql else None for sql in (question.possible, question.found)]
    require_same(question, place.ask(question).rows, theirs, *groups)


@pytest.mark.parametrize("name", SETS)
def test_questions_are_numbered_and_end_where_they_are_said_to(name: str):
    questions = SETS[name].questions
    numbers = [question.number for question in questions]
    assert numbers == sorted(set(numbers))
    assert all(question.sql and ";" not in question.sql for question in questions)


def test_a_wrong_number_is_noticed():
    assert alike((5, 1.0, "a"), (5, 1.0000001, "a"))
    assert not alike((5, 1.0, "a"), (6, 1.0, "a"))
    assert not alike((5, 1.0, "a"), (5, 1.01, "a"))


def test_a_group_that_cannot_exist_is_noticed():
    ours, theirs, question = [("a", 1), ("b", 0)], [("a", 1)], Question(1, "", "SELECT 1")
    require_same(question, ours, theirs, [("a",), ("b",)], None)
    with pytest.raises(AssertionError):
        require_same(question, ours, theirs, [("a",)], None)


def test_a_group_that_is_missing_is_noticed():
    ours, theirs = [("a", 2)], [("a", 2), ("b", 1)]
    question = Question(1, "", "SELECT 1", differs=("alone",))
    require_same(question, ours, theirs, None, [("a",)])
    with pytest.raises(AssertionError):
        require_same(question, ours, theirs, None, [("a",), ("b",)])
