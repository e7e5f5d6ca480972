"""What many rows or groups of a unit cost a release that finds something is said before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpquery
from dpquery.session import Session
from tests.samples import sample_policy


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    budget = "epsilon = 100\ndelta = 1e-6"
    with dpquery.connect(sample_policy(tmp_path, budget)) as opened:
        yield opened


def notes_of(explained: object) -> tuple[str, ...]:
    """Return the notes of an explanation, each in one line."""
    text = re.sub(r"\n {2,}", " ", str(explained))
    return tuple(re.findall(r"^note +(.*)$", text, re.MULTILINE))


def number(pattern: str, text: str) -> int:
    """Return a number that a text says."""
    (found,) = re.findall(pattern, re.sub(r"\s+", " ", text))
    return int(found.replace(",", ""))


@pytest.mark.parametrize("limit", [2, 30, 300])
@pytest.mark.parametrize("query", [
    "SELECT DP_KEYS(minutes, eps=1, delta=1e-7{}) FROM visits",
    "SELECT minutes, DP_COUNT(*, eps=1) AS n FROM visits GROUP BY "
    "DP_KEYS(minutes, eps=1, delta=1e-7{})",
])  # fmt: skip
def test_keys_say_from_how_many_units_on_with_one_group_each(session, query, limit):
    alone = notes_of(session.explain(query.format("")))[-1]
    least = number(r"fewer than ([\d,]+) person_ids", alone)
    assert "max_groups_contributed" not in alone
    shared = query.format(f", max_groups_contributed={limit}")
    for said in (notes_of(session.explain(shared)), session.sql(shared).notes):
        (note,) = (note for note in said if "may be missing" in note)
        assert number(r"groups with fewer than ([\d,]+) person_ids", note) > least
        assert (
            number(r"max_groups_contributed=1, those with fewer than ([\d,]+)", note) == least
        )


@pytest.mark.parametrize("limit", [1, 5, 300])
def test_found_bounds_say_from_how_many_rows_on_a_size_is_seen(session, limit):
    call = f"DP_SUM(person_id, eps=1, bounds='auto', max_rows_contributed={limit})"
    query = f"SELECT {call} FROM visits"
    text = str(session.explain(query))
    explained, told = notes_of(text), number(r"found where ([\d,]+) rows", text)
    for notes in (explained, session.sql(query).notes):
        found = [note for note in notes if "is not seen" in note]
        if limit == 1:
            assert not found
        elif found or notes is explained:
            assert number(r"fewer than ([\d,]+) rows", found[0]) == told
        else:
            assert any("no bounds were found" in note for note in notes)


@pytest.mark.parametrize(("eps", "limit", "weak"), [
    ("1", 1, False), ("0.1", 1, False), ("0.05", 1, True), ("0.1", 100, True),
])  # fmt: skip
def test_bounds_that_may_be_chance_are_said_to_be_so_before(session, eps, limit, weak):
    """By eps and limit alone, from so many rows on that a table may well have none such."""
    call = f"DP_AVG(person_id, eps={eps}, bounds='auto', max_rows_contributed={limit})"
    notes = notes_of(session.explain(f"SELECT {call} FROM visits"))
    said = any("these bounds may be wrong: a range" in note for note in notes)
    assert said == weak
