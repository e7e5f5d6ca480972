"""Every query of grammar/ has the outcome that its file states, and no rule is without one."""

from __future__ import annotations

import re

import pytest

from dpquery import functions
from dpquery.core.source_text import Source
from dpquery.errors import Diagnostic, QueryRefused
from dpquery.server.web.quick_fixes import pasted
from dpquery.sql.commands import read_aside
from tests.corpus import cases
from tests.corpus.cases import GRAMMAR, Case
from tests.tasks import ROOT

CASES = [case for path in cases.all_files() for case in cases.read(path)]
STAGES = ("sql", "functions", "plan")


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_query_has_the_outcome_that_its_file_states(case: Case):
    now = cases.outcome(case)
    assert (now.expected, now.marked) == (case.expected, case.marked)


def test_cases_say_why_they_are_there():
    assert [str(case) for case in CASES if not case.comment] == []


@pytest.mark.parametrize("path", cases.all_files(), ids=lambda path: str(path.name))
def test_a_file_is_written_as_update_would_write_it(path):
    assert cases.written(list(cases.read(path))) == path.read_text("utf-8")


def test_accepted_and_refused_queries_stand_apart():
    for case in CASES:
        refused = case.expected.startswith("DPQ")
        if case.path != cases.POOR:
            places = {"functions", "reject"} if refused else {"functions", "accept", "plain"}
            assert case.path.parent.name in places


def test_poor_messages_are_refusals():
    poor = list(cases.read(cases.POOR))
    assert poor
    assert all(case.expected.startswith("refused[DPQ") for case in poor)


def test_no_query_stands_twice():
    queries = [case.query for case in CASES]
    assert sorted(queries) == sorted(set(queries))


def test_every_code_of_the_stages_before_the_charge_has_a_refused_query():
    texts = [
        file.read_text("utf-8")
        for stage in STAGES
        for file in sorted((ROOT / "dpquery" / stage).rglob("*.py"))
    ]
    raised = set(re.findall(r'"(DPQ[1-4]\d\d)"', "".join(texts)))
    assert len(raised) >= 20
    elsewhere = {
        "DPQ308"
    }  # the sample has one domain of units: tests/sql/bind/test_relations.py
    assert raised - elsewhere <= {case.expected for case in CASES}


@pytest.mark.parametrize("function", functions.ALL, ids=lambda function: function.name)
def test_every_function_has_accepted_and_refused_queries(function):
    own = list(cases.read(GRAMMAR / "functions" / f"{function.name.lower()}.test"))
    refused = [case for case in own if case.expected.startswith("DPQ")]
    assert 0 < len(refused) < len(own)


REFUSED = [case for case in CASES if case.expected.startswith(("DPQ", "refused["))]


@pytest.mark.parametrize("case", REFUSED, ids=str)
def test_what_is_offered_works_when_it_is_pasted(case: Case):
    """It is accepted, or what is refused then is another thing: a case may have two faults."""
    first = told(case.query, case)
    offered = first.remedy[0] if first is not None and first.remedy else None
    if offered is None or read_aside(Source(offered)) is not None:
        return
    for query in dict.fromkeys(pasted(case.query, first.span, offered)):
        found = told(query, case)
        if found is None or (found.code[3] != "1" and found.title != first.title):
            return
    assert case.query in UNREAD


UNREAD = {
    "SELECT DP_COUNT(*, eps=0.1) FROM staff WHERE age IN (1, 2]",
    "SELECT DP_COUNT(*, eps=--1) FROM staff",
    "SELECT * FROM (SHOW TABLES)",
}
"""Texts with two slips, of which the first that is met is mended."""


def told(query: str, case: Case) -> Diagnostic | None:
    """Return what is said of a query; None if it is accepted."""
    try:
        cases.planned(query, case.price)
    except QueryRefused as refused:
        return refused.diagnostic
    return None


def test_a_changed_expectation_is_noticed():
    """The comparison has teeth: another charge, another span, another code all differ."""
    accepted = next(case for case in CASES if "charge: pure" in case.expected)
    assert "pure 3/7" not in cases.outcome(accepted).expected
    refused = next(case for case in CASES if cases.OPEN in case.marked)
    assert cases.outcome(refused).marked != refused.query
