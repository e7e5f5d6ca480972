"""What the pages show is run: transcripts, policies, Python; and their figures are computed."""

from __future__ import annotations

import math
import re
import shlex
from fractions import Fraction
from pathlib import Path

import pytest

from dpquery import connect
from dpquery.core.zcdp import rho_below
from dpquery.policy.load import load_policy
from dpquery.shell.main import main
from tests.corpus.cases import planned
from tests.docs.pages import PAGES, blocks, numbers, shape, text_of
from tests.tasks import ROOT

LEVEL = Fraction(95, 100)
TRANSCRIPTS = [(page.name, text) for page in PAGES for text in blocks(page.name, "console")]


@pytest.mark.parametrize(("page", "text"), TRANSCRIPTS)
def test_transcripts_come_out_as_printed(page, text, samples, capfd):
    written: list[str] = []
    for line in text.splitlines():
        if not line.startswith("$ "):
            continue
        _, *argv = shlex.split(line[2:])
        file = argv.pop() if argv[-2] == ">" else None
        main([word for word in argv if word != ">"])
        out, err = capfd.readouterr()
        if file is not None:
            Path(file).write_text(out, "utf-8")
            out = ""
        written += [line, *out.splitlines(), *err.splitlines()]
    assert [shape(line) for line in written if line] == [
        shape(line) for line in text.splitlines() if line
    ]


def test_a_changed_transcript_is_noticed():
    _, text = TRANSCRIPTS[-1]
    assert [shape(line) for line in text.splitlines()] != [
        shape(line) for line in text.replace("is left", "is gone").splitlines()
    ]


@pytest.mark.parametrize("page", PAGES[1:], ids=lambda page: page.name)
def test_a_page_is_one_sitting_and_is_linked(page):
    assert len(page.read_text("utf-8").splitlines()) <= 220
    assert f"docs/{page.name}" in text_of("README.md")
    assert f"({page.name})" in (ROOT / "docs" / "README.md").read_text("utf-8")


def test_the_owners_policy_loads_over_the_sample_data(samples):
    (text,) = blocks("owners.md", "toml")
    (samples / "own.toml").write_text(text, "utf-8")
    policy = load_policy(samples / "own.toml")
    assert list(policy.analysts) == ["alice", "bob"]
    assert policy.tables["visits"].max_rows_contributed == 10


def test_the_policy_with_parts_explains_a_query_as_printed(samples):
    (policy,), (lines,) = blocks("parts.md", "toml"), blocks("parts.md", "text")
    (samples / "own.toml").write_text(policy, "utf-8")
    query = "SELECT DP_COUNT(*, eps=0.5) FROM visits WHERE region = 'north'"
    with connect(samples / "own.toml", epsilon=1) as session:
        assert str(session.explain(query)).endswith(lines.strip())


def test_the_call_that_weighs_by_the_table_is_charged_on_its_part(samples):
    (policy,), (query,) = blocks("parts.md", "toml"), blocks("parts.md", "sql")
    (samples / "own.toml").write_text(policy.replace("per_unit", "parts"), "utf-8")
    with connect(samples / "own.toml") as session:
        for asked, part in ((query, True), (query.replace(", weights='table'", ""), False)):
            told = "charged on   region = 'north'" in str(session.explain(asked))
            assert told is part


def test_the_analysts_python_runs(samples):
    (text,) = blocks("analysts.md", "python")
    scope: dict = {}
    exec(compile(text, "analysts.md", "exec"), scope)
    frame = scope["frame"]
    assert list(frame.columns) == ["dept", "n", "n_low", "n_high"]
    assert (frame["n_low"] <= frame["n"]).all()
    assert (frame["n"] <= frame["n_high"]).all()
    assert frame.attrs["dpquery"]["loss"]["epsilon"] == "0.4"
    assert scope["left"] == Fraction(6, 10)


def error(call: str, table: str) -> str:
    """Return how far noise takes an answer, as EXPLAIN says it."""
    step = planned(f"SELECT {call} FROM {table}").frontiers[0].releases[0].release.step()
    found = re.search(r"\d+", step.expected_error)
    assert found is not None
    return found[0]


def owners(head: str) -> list[str]:
    return numbers("owners.md", head)


def test_the_owners_errors_are_what_the_engine_states():
    bounds, sums = map(owners, ("bounds of `salary`", "sum at ε = 0.5, ±"))
    for ends, amount in zip(bounds, sums, strict=True):
        assert error(f"DP_SUM(person_id, eps=0.5, bounds={ends})", "staff") == amount
    limits, counts = map(owners, ("k", "rows counted at ε = 0.5, ±"))
    for limit, rows in zip(limits, counts, strict=True):
        assert error(f"DP_COUNT(*, eps=0.5, max_rows_contributed={limit})", "visits") == rows
    gaussian = "DP_COUNT(*, eps=0.5, delta=1e-7, mechanism='gaussian')"
    assert f"within ± {error(gaussian, 'staff')}" in text_of("owners.md")


def test_the_owners_counts_are_what_fits():
    half, limit = Fraction(5, 10**7), Fraction(2)
    each = [Fraction(text) for text in owners("ε of each")]
    rho = rho_below(limit, half)
    counts = [max(limit / e, 2 * rho / e**2) // 1 for e in each]
    assert owners("counts, δ = 0") == [str(limit / e) for e in each]
    assert owners("counts, δ = 1e-6") == [str(n) for n in counts]
    assert owners("medians, δ = 1e-6") == [str(8 * rho / e**2 // 1) for e in each]


def test_the_owners_factors_are_powers_of_e():
    factors = owners("factor")
    for epsilon, factor in zip(owners("ε in all"), factors, strict=True):
        value = math.exp(float(epsilon))
        assert factor in {f"{value:.2f}", f"{value:.0f}"}
