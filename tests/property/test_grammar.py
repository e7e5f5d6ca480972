"""Whatever is written: it is answered, or refused with a code, a place and a remedy.

Queries are derived from `grammar/dpsql.ebnf`, or are accepted ones with a word changed. What is
refused is refused alike where one person's rows are missing; nothing else is ever raised.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dpquery.database import Database
from dpquery.errors import QueryRefused
from dpquery.session import Session
from tests.corpus.runs import ACCEPTED, policy_at, samples
from tests.grammar import SAID, asked, grammar, mutated, named
from tests.samples import edit

SOME, ONE = 60, 7
"""How many persons there are, and who is missing in the second world."""
QUERIES = st.one_of(
    asked(), mutated(st.sampled_from([case.query for case in ACCEPTED])), mutated(asked())
)
ENGINES_OWN = re.compile(r"(Binder|Parser|Catalog|Conversion|Out of Range) Error|sqlglot|Trace")


DECLARED = """
opened = { type = "timestamptz", bounds = [2025-01-01T00:00:00Z, 2025-03-31T23:59:59Z] }
tod = { type = "time", bounds = [06:00:00, 22:00:00] }
wide = { type = "decimal(38,2)", bounds = [0, 500] }
tags = { type = "text[]", keys = ["a", "b"] }
"address.city" = { type = "text", keys = ["Bonn", "Ulm"] }
"""
"""What visits have here beside the columns of the sample."""


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[Session]]:
    opened = []
    for name, missing in (("all", 0), ("one person less", ONE)):
        place = samples(tmp_path_factory.mktemp("grammar") / name)
        for file in ("staff", "visits"):
            path = place / f"{file}.parquet"
            kept = [("person_id", "<=", SOME), ("person_id", "!=", missing)]
            rows = pq.read_table(path, filters=kept)
            pq.write_table(typed(rows) if file == "visits" else rows, path)
        edit(place / "policy.toml", "at = {", f"{DECLARED}at = {{")
        opened.append(Session(Database(policy_at(place / "policy.toml")), "default", None))
    yield opened
    for session in opened:
        session.close()


def typed(rows: pa.Table) -> pa.Table:
    """Add a column of each further type to visits, its values from those that are there."""
    at, size = rows["at"].combine_chunks(), len(rows)
    cities = pa.array([("Bonn", "Ulm", None)[number % 3] for number in range(size)])
    added = {
        "opened": at.cast(pa.timestamp("us", "UTC")),
        "tod": at.cast(pa.time64("us")),
        "wide": rows["spent"].cast(pa.decimal128(38, 2)),
        "tags": pa.array([["a", None, "b"][: number % 4] for number in range(size)]),
        "address": pa.StructArray.from_arrays([cities], ["city"]),
    }
    for name, values in added.items():
        rows = rows.append_column(name, values)
    return rows


def outcome(session: Session, text: str) -> str:
    """Ask, and give the columns of the answer, or all that a refusal says."""
    try:
        return f"answered {session.sql(text).columns}"
    except QueryRefused as refused:
        refusal = refused
    require_help(refusal, text)
    return str(refusal)


def require_help(refusal: QueryRefused, text: str) -> None:
    """Insist on a code, a place in the text, a remedy or a reason, and words of our own."""
    span, told = refusal.span, str(refusal)
    assert re.fullmatch(r"DPQ[1-5]\d\d", refusal.code)
    if refusal.code != "DPQ104":  # a text that holds no statement has no place for it either
        assert span is not None, told
        within = text if refusal.source is None else refusal.source.text  # as that of a view
        assert 0 <= span.start <= span.end <= len(within), (text, span)
    assert "\n   try: " in told or "\n   why: " in told, told
    assert not ENGINES_OWN.search(told), told


def require_outcomes(worlds: Sequence[Session], examples: int) -> Counter[str]:
    """Ask random texts of both worlds; give how many became what."""
    found: Counter[str] = Counter()

    @settings(max_examples=examples)
    @given(QUERIES)
    @example("SELECT DP_COUNT(*, eps=0.1) FROM staff")
    @example("-- nothing")
    @example("DESC nobody")
    @example("CREATE TEMP VIEW v AS SELECT * FROM staff")
    @example("CREATE TEMP VIEW w AS SELECT r.region FROM regions r, regions s, regions t")
    @example("SELECT DP_COUNT(*, eps=0.1) FROM v")
    @example("SELECT DP_COUNT(*, eps=0.1) FROM visits WHERE tod < TIME '10:30:00'")
    @example("SELECT address.city, DP_SUM(wide, eps=0.1) FROM visits GROUP BY address.city")
    @example("SELECT u.x, DP_COUNT(*, eps=0.1) FROM visits, UNNEST(tags) AS u(x) GROUP BY u.x")
    @example("SELECT DP_MAX(opened AT TIME ZONE 'Europe/Paris', eps=0.1) FROM visits")
    @example('SHOW "nothing" ;')
    @example("SELECT DP_COUNT(*, eps=0.1) FROM regions ANTI JOIN visits USING (person_id)")
    def hold(text: str) -> None:
        one, other = (outcome(session, text) for session in worlds)
        assert one == other, text
        found[one.split(" ")[0][:12]] += 1

    hold()
    return found


def test_every_text_is_answered_or_refused(worlds: Sequence[Session]):
    found = require_outcomes(worlds, 150)
    assert len(found) > 2, found


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(10))
def test_every_text_is_answered_or_refused_at_length(worlds: Sequence[Session], shard: int):
    del shard
    found = require_outcomes(worlds, 2000)
    assert found["answered"] > sum(found.values()) // 100


def test_the_grammar_is_whole():
    """Each rule that is named is there and is used, and each description has its words."""
    assert named("rule") | {"digits", "digit", "statement"} >= set(grammar())
    assert named("rule") <= set(grammar()) | {"letter", "character"}
    assert named("said") == set(SAID)
