"""Before the charge there is a plan or a refusal, in little time, whatever was written.

Queries are accepted ones that were broken, shuffled, nested and repeated, random ones over
relations, and everything that can be repeated, to lengths that nobody types. Nothing that is
planned fails after its charge but by time and memory, in the constant words of that.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpquery.core.privacy_loss import Neighbours
from dpquery.core.source_text import Source
from dpquery.database import Database
from dpquery.errors import QueryRefused, ScanFailed
from dpquery.policy.model import Price
from dpquery.session import Session
from tests.corpus.runs import ACCEPTED, REFUSED, policy_at, samples
from tests.frontiers import constructs, queries, require_drawn
from tests.grammar import _WORDS, COLUMNS, NUMBERS, TEXTS, asked, mutated
from tests.neighbours import save
from tests.property.test_grammar import require_help
from tests.relations import SCHEMA, TABLES, policy_over
from tests.shapes import SHAPES, moments, shaped
from tests.worlds import PRICE

SECONDS = 2.0
"""Of the processor's time, so that a busy machine changes nothing."""
_OPERANDS = {*COLUMNS, *NUMBERS, *TEXTS}
MEMORY = 2 * 1024 * 1024
"""In kilobytes, beyond what the process had when a test began."""


@pytest.fixture(autouse=True)
def held() -> int:
    """Forget the most memory that tests before had; return what is held now."""
    Path("/proc/self/clear_refs").write_text("5")
    return in_status("VmRSS")


def in_status(name: str) -> int:
    """Return a number of kilobytes that the system keeps of this process."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    place = samples(tmp_path_factory.mktemp("planning") / "data")
    with Session(Database(policy_at(place / "policy.toml")), "default", None) as opened:
        yield opened


@pytest.fixture(scope="module")
def relating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """Give a session over tables that share their units, and have no rows."""
    place, order = tmp_path_factory.mktemp("relating"), random.Random(0)
    paths = {table: save([], [], SCHEMA, place / table, order) for table in TABLES}
    policy = policy_over(paths, place, Neighbours.ADD_REMOVE)
    price = Price(PRICE.epsilon, PRICE.delta)
    with Session(Database(replace(policy, price=price)), "default", None) as opened:
        yield opened


def planned(session: Session, text: str) -> str:
    """Plan a text and explain it; give "planned", or the code of the refusal."""
    began = time.process_time()
    try:
        with session._uncharged(Source(text)):
            session._look_up(session._plan(Source(text), session._prices.price()))
        found = "planned"
    except QueryRefused as refused:
        found = refused.code
        require_help(refused, text)
    spent = time.process_time() - began
    assert spent < SECONDS, (spent, text[:2_000])
    if found == "planned":
        assert str(session.explain(text))
    return found


def ran(session: Session, text: str) -> str:
    """Ask a text; give "answered", or the code of the refusal or of the constant failure."""
    try:
        session.sql(text)
    except (QueryRefused, ScanFailed) as refused:
        return refused.code
    return "answered"


@st.composite
def nearly(draw: st.DrawFn) -> str:
    """Draw a query that was accepted once: parts of it left out, moved, nested or repeated."""
    text = draw(st.sampled_from([*ACCEPTED, *ACCEPTED, *REFUSED])).query
    for _ in range(draw(st.integers(1, 2))):
        words = [word for word in _WORDS.findall(text) if not word.isspace()] or [""]
        operands = [at for at, word in enumerate(words) if word in _OPERANDS]
        if operands and draw(st.booleans()):
            start, length = draw(st.sampled_from(operands)), 1
        else:
            length = draw(st.sampled_from([1, 2, 4, 12]))
            start = draw(st.integers(0, len(words) - 1))
        end = min(len(words), start + length)
        part, other = " ".join(words[start:end]), draw(st.sampled_from(words))
        often = draw(st.sampled_from([2, 3, 40]))
        changed = {
            "out": "",
            "swapped": other,
            "nested": f"({part})",
            "nested deep": "(" * often + part + ")" * often,
            "called": f"abs({part})",
            "a query": f"(SELECT * FROM {part})",
            "repeated": " ".join([part] * often),
            "a list": " , ".join([part] * often),
            "a sum": " + ".join([part] * often),
            "a condition": " AND ".join([part] * often),
            "either": f"CASE WHEN {part} IS NULL THEN {other} ELSE {part} END",
        }
        how = draw(st.sampled_from(sorted(changed)))
        text = " ".join([*words[:start], changed[how], *words[end:]])
    return text


ONE_WORD = mutated(st.sampled_from([case.query for case in ACCEPTED]))


def require_plans(session: Session, examples: int) -> Counter[str]:
    found: Counter[str] = Counter()

    @settings(max_examples=examples)
    @given(st.one_of(nearly(), mutated(nearly()), ONE_WORD, asked()))
    def hold(text: str) -> None:
        found[planned(session, text)] += 1

    hold()
    return found


def test_what_is_nearly_accepted_is_planned_or_refused(session: Session):
    """Of 500, one in twenty is planned: none with a probability of less than 1e-9."""
    found = require_plans(session, 500)
    assert found["planned"] > 0, found


def require_relations(session: Session, examples: int) -> Counter[str]:
    """Plan random queries, and as many that are broken; return what the planned ones hold."""
    found: Counter[str] = Counter()

    @settings(max_examples=examples)
    @given(st.one_of(queries(), mutated(queries())))
    def hold(text: str) -> None:
        if planned(session, text) == "planned":
            found.update(["all", *constructs(text)])

    hold()
    return found


def test_random_relations_are_planned_or_refused(relating: Session):
    assert require_relations(relating, 30)["all"]


@pytest.mark.slow
def test_random_relations_are_planned_or_refused_at_length(relating: Session):
    require_drawn(require_relations(relating, 1_000))


@pytest.mark.parametrize("shape", SHAPES)
def test_what_grows_is_planned_or_refused(session: Session, shape: str):
    assert planned(session, shaped(shape, 3)) == "planned"
    for size in (12, 300):
        planned(session, shaped(shape, size))


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_what_grows_is_planned_or_refused_on_the_way(session: Session, shape: str):
    for size in (30, 70, 150):
        planned(session, shaped(shape, size))


def test_moments_at_the_ends_of_the_calendar_are_planned_or_refused(session: Session):
    for text in random.Random(1).sample(moments(), 150):
        planned(session, text)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(10))
def test_what_is_nearly_accepted_is_planned_or_refused_at_length(
    session: Session, shard: int, held: int
):
    del shard
    require_plans(session, 2_000)
    assert in_status("VmHWM") - held < MEMORY


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(10))
def test_what_is_planned_is_answered(session: Session, shard: int, held: int):
    """Nothing but an answer, a refusal, and a failure by time or memory."""
    del shard
    found: Counter[str] = Counter()

    @settings(max_examples=2_000)
    @given(st.one_of(nearly(), ONE_WORD))
    def hold(text: str) -> None:
        found[ran(session, text)] += 1

    hold()
    assert found["answered"] > 20, found
    assert found["DPQ701"] == 0, found
    assert in_status("VmHWM") - held < MEMORY


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_what_grows_is_answered(session: Session, shape: str, held: int):
    for size in (3, 6, 20, 40, 70, 150):
        ran(session, shaped(shape, size))
    assert in_status("VmHWM") - held < MEMORY


@pytest.mark.slow
def test_all_moments_are_planned_or_refused(session: Session):
    for text in moments():
        planned(session, text)
