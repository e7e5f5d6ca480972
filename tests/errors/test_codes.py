"""Every code that can be raised has a page, and every page a code that can be raised."""

import re

import pytest

import dpquery
from dpquery.errors.pages import documents, explain, pages
from dpquery.policy.sources.paths import copy_samples
from tests.tasks import GENERATED, ROOT

CODES = [page.code for page in pages()]


def raised() -> set[str]:
    files = (ROOT / "dpquery").rglob("*.py")
    return {code for path in files for code in re.findall(r'"(DPQ\d{3})"', path.read_text())}


def test_every_code_that_is_raised_has_a_page():
    assert sorted(raised() - set(CODES)) == []


def test_every_page_belongs_to_a_code_that_is_raised():
    assert set(CODES) - raised() == set()


def test_every_heading_of_the_page_begins_a_code():
    text = documents()["errors"].read_text("utf-8")
    assert re.findall(r"^### (.*):", text, re.MULTILINE) == CODES
    families = re.findall(r"^## (\d)xx, ", text, re.MULTILINE)
    assert families == sorted({code[3] for code in CODES})


def test_codes_are_sorted_and_never_used_twice():
    assert sorted(set(CODES)) == CODES


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.code)
def test_a_page_is_whole(page):
    assert re.fullmatch(r"DPQ[1-9]\d\d", page.code)
    assert not page.title.endswith(".")
    assert page.meaning.endswith(".")
    assert page.example
    assert page.remedy.endswith(".")
    assert "\n" not in page.meaning + page.example + page.remedy


def test_a_page_shows_meaning_example_and_remedy():
    page = next(page for page in pages() if page.code == "DPQ301")
    text = explain("DPQ301")
    assert text.startswith(f"DPQ301: {page.title}\n\n")
    assert f"\nexample:\n    {page.example}\n" in text
    assert "what to do: Put the column" in text


@pytest.mark.parametrize("written", ["301", "dpq301", " DPQ301 "])
def test_a_code_may_be_written_in_short(written: str):
    assert explain(written) == explain("DPQ301")


@pytest.mark.parametrize(("unknown", "near"), [("DPQ399", "DPQ401"), ("0", "DPQ101")])
def test_an_unknown_code_is_answered_with_the_nearest(unknown: str, near: str):
    with pytest.raises(LookupError, match=f"there is no code '{unknown}'.*{near}"):
        explain(unknown)


def test_pages_of_the_documentation_are_explained_by_name():
    assert explain("Functions").startswith("# Functions")
    assert "statement" in explain("grammar")
    assert all(explain(name) for name in documents())


def test_messages_name_pages_that_can_be_explained():
    """`dpquery explain functions`, and no path that an installation does not have."""
    texts = [path.read_text("utf-8") for path in sorted((ROOT / "dpquery").rglob("*.py"))]
    named = {name for text in texts for name in re.findall(r"`dpquery explain (\w+)`", text)}
    assert named >= {"functions", "grammar"}
    assert all(explain(name) for name in named)


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    samples = copy_samples(tmp_path_factory.mktemp("x") / "samples").parent
    with dpquery.connect(samples / "policy.toml") as session:
        yield session


@pytest.mark.parametrize(
    "page",
    # The sample has one domain of units: tests/sql/bind/test_relations.py shows DPQ308.
    [page for page in pages() if page.code < "DPQ500" and page.code != "DPQ308"],
    ids=lambda page: page.code,
)
def test_an_example_is_refused_with_its_own_code(page, session):
    with pytest.raises(dpquery.QueryRefused) as refusal:
        session.sql(page.example)
    assert refusal.value.code == page.code


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_generated_pages_are_fresh(path):
    assert path.read_text("utf-8") == GENERATED[path](), "run `make docs`"
