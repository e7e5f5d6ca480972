"""What the pages show is run: transcripts, queries, policies, Python."""

from __future__ import annotations

import re
import tomllib
from fractions import Fraction

import duckdb
import pytest

from dpquery import connect
from dpquery.engine.file_checks import schemas_of
from dpquery.errors import QueryRefused
from dpquery.policy.load import load_policy
from dpquery.policy.owner.draft import draft
from tests.corpus.cases import planned
from tests.docs.pages import DOCS, PAGES, README, blocks, text_of
from tests.docs.store import make_store
from tests.docs.transcripts import played, shapes, stories, written
from tests.tasks import ROOT

STORIES = [(page, story) for page in PAGES for story in stories(page)]


@pytest.mark.parametrize(
    ("page", "story"),
    STORIES,
    ids=[f"{page.stem}-{at}" for at, (page, _) in enumerate(STORIES)],
)
def test_transcripts_come_out_as_printed(page, story, tmp_path):
    """`make docs` writes those again that do not."""
    assert [*map(shapes, played(story, written(page), tmp_path))] == [*map(shapes, story)]


def test_a_changed_transcript_is_noticed():
    text = STORIES[-1][1][-1]
    assert shapes(text) != shapes(text.replace("budget", "bucket"))


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_a_page_is_one_sitting_and_is_in_the_index(page):
    lines = page.read_text("utf-8").splitlines()
    assert len(lines) <= 220
    index = ROOT / "docs" / "README.md"
    assert page == index or f"({page.relative_to(index.parent)})" in index.read_text("utf-8")


def test_the_readme_is_short_and_begins_with_an_answer_and_a_refusal():
    lines = README.read_text("utf-8").splitlines()
    assert len(lines) <= 150
    first = "\n".join(lines[:52])
    assert all(part in first for part in ("make demo", "DP_COUNT", "refused[", "guarantee"))


@pytest.mark.parametrize("text", blocks("sql.md", "sql"))
def test_the_queries_of_the_reference_are_accepted(text):
    assert planned(text).frontiers


WRITTEN = re.findall(r"^\| `(\w.+)` \| `(.+)` \|$", text_of("duckdb.md"), re.MULTILINE)


def test_queries_of_duckdb_are_refused_and_those_in_their_place_run(samples):
    policy = samples / "policy.toml"
    policy.write_text(
        policy.read_text("utf-8").replace("epsilon = 2.0", "epsilon = 100"), "utf-8"
    )
    ours = [text for _, text in WRITTEN]
    ours += [one for text in blocks("duckdb.md", "sql") for one in text.split(";\n")]
    with connect(policy) as session:
        assert all(session.sql(text, eps=1).columns for text in ours)
        for theirs, _ in WRITTEN:
            with pytest.raises(QueryRefused):
                session.sql(theirs, eps=1)
    assert len(WRITTEN) > 15


def test_the_queries_of_ones_own_file_run(samples):
    made = "COPY (SELECT *, 'red;green' AS tags FROM 'visits.parquet') TO 'tagged.parquet'"
    duckdb.connect().execute(made)
    limits = {"epsilon": 2, "delta": 1e-6, "max_rows_contributed": 10}
    with connect({"visits": "tagged.parquet"}, unit="person_id", **limits) as session:
        assert all(session.sql(text).columns for text in blocks("own-file.md", "sql"))


def test_the_owners_policy_is_the_draft_with_all_decided(samples):
    make_store(samples / "store")
    (text,) = blocks("owners.md", "toml")
    (samples / "store.toml").write_text(text, "utf-8")
    policy = load_policy(samples / "store.toml")
    assert list(policy.analysts) == ["alice", "bob"]
    drafted = draft("store", schemas_of).text()
    (shown,) = blocks("owners.md", "text")
    assert set(shown.splitlines()) <= set(drafted.splitlines())
    tables, finished = (tomllib.loads(one)["tables"] for one in (drafted, text))
    assert tables.keys() == finished.keys()
    for name, table in tables.items():
        kept = ("path", "unit_through", "privacy_unit_column")
        proposed = {key: table[key] for key in kept if table.get(key, "?") != "?"}
        assert proposed.items() <= finished[name].items()
        types = {column: said["type"] for column, said in finished[name]["columns"].items()}
        assert (
            types.items() <= {c: said["type"] for c, said in table["columns"].items()}.items()
        )


def test_the_policy_with_parts_explains_a_query_as_printed(samples):
    (policy,), (lines,) = blocks("parts.md", "toml"), blocks("parts.md", "text")
    (samples / "own.toml").write_text(policy, "utf-8")
    query = "SELECT DP_COUNT(*, eps=0.5) FROM visits WHERE region = 'north'"
    with connect(samples / "own.toml", epsilon=1) as session:
        assert f"\n{lines.strip()}\n" in str(session.explain(query))


def test_the_call_that_weighs_by_the_table_is_charged_on_its_part(samples):
    (policy,), (query,) = blocks("parts.md", "toml"), blocks("parts.md", "sql")
    (samples / "own.toml").write_text(policy.replace("per_unit", "parts"), "utf-8")
    with connect(samples / "own.toml") as session:
        for asked, part in ((query, True), (query.replace(", weights='table'", ""), False)):
            told = "charged on   region = 'north'" in str(session.explain(asked))
            assert told is part


def run(page: str) -> dict:
    (text,) = blocks(page, "python")
    scope: dict = {}
    exec(compile(text, page, "exec"), scope)
    return scope


def test_the_python_of_the_readme_runs(samples):
    scope = run("README.md")
    assert isinstance(scope["answer"].scalar(), int)
    with connect(samples / "policy.toml") as session:
        session.sql("SELECT DP_COUNT(*, eps=1) FROM visits")  # as the page has asked above
        assert repr(session.budget.left) in text_of("README.md")
    assert scope["answer"].budget == "1.5 of 2 left"


def test_the_python_of_the_reference_runs_and_its_comments_hold(samples, capsys):
    scope = run("python.md")
    answer, session = scope["answer"], scope["session"]
    assert isinstance(answer.scalar(), int)
    ((low, high),) = answer.interval("n", 0.95)
    assert low <= answer.scalar() <= high
    assert repr(answer.loss) == "Loss(epsilon=Fraction(1, 2), delta=Fraction(0, 1))"
    assert list(answer.to_pandas(intervals=True).columns) == ["n", "n_low", "n_high"]
    assert "charge       0.1" in capsys.readouterr().out
    assert scope["built"].explain().charge.epsilon == Fraction(3, 10)
    assert scope["left"] == session.budget.left.epsilon == 2 - answer.loss.epsilon
    session.close()
