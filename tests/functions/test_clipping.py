"""What bounds and limits cut, counted beside a number for a share of its epsilon."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpquery
from dpquery.core.privacy_loss import Neighbours
from dpquery.functions.clipping_report import ClippingRelease
from dpquery.plan.auto_bounds import planned
from tests.functions.tables import SUBSTITUTE, Held, World, call

CODES = (None, 0, 1, 2, 3)
WORLDS = {
    "rows": World(CODES),
    "one value": World((None, 3)),
    "limit 1": World((None, 0, 1, 2), 1, 1, True),
    "limit 2": World((0, 2), 1, 2, True),
    "two groups": World((0, 1, 2), 2),
    "two groups, limit 2": World((0, 2), 2, 2, True),
}
NAMES = ("DP_SUM", "DP_AVG", "DP_VAR_POP", "DP_STDDEV_SAMP")


def release(world: World, relation: Neighbours, name: str = "DP_SUM") -> ClippingRelease:
    asked = call(name, world.argument, clipping=Fraction(1, 10))
    found = planned(asked, world.facts(relation))
    assert isinstance(found, ClippingRelease)
    return found


@pytest.mark.parametrize("relation", Neighbours)
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_one_unit_moves_the_counts_by_no_more_than_is_stated(
    world: World, relation: Neighbours
) -> None:
    """Whoever else is there; where each has one row, the distance is attained."""
    reporting = release(world, relation)
    farthest = 0
    for base in ((), (world.units()[-1],)):
        found = [reporting.cut(Held(world, (*base, unit))) for unit in world.units()]
        others = found if relation is SUBSTITUTE else found[:1]
        farthest = max(
            farthest,
            *(
                sum(abs(a - b) for a, b in zip(x, y, strict=True))
                for x in found
                for y in others
            ),
        )
    assert farthest <= reporting.moved
    attained = relation is not SUBSTITUTE or world is not WORLDS["one value"]
    assert world.weighted or not attained or farthest == reporting.moved


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("relation", Neighbours)
def test_value_and_counts_lose_the_epsilon_of_the_call_together(
    relation: Neighbours, name: str
) -> None:
    for world in WORLDS.values():
        reporting = release(world, relation, name)
        assert reporting.epsilon == 1
        assert reporting.value_of.epsilon == Fraction(9, 10)
        parts = reporting.event().parts
        assert [part.epsilon for part in parts] == [Fraction(9, 10), Fraction(1, 10)]


def test_counts_are_those_of_rows_at_the_ends_and_of_twice_the_limit() -> None:
    world = WORLDS["limit 1"]
    units = (((0, 0), (0, 2)), ((0, 2),), ((0, 1), (0, 1), (0, 1)), ((0, None),))
    reporting = release(world, SUBSTITUTE)
    whole = reporting.measures[0].weight.scale
    low, high, more = (one / whole for one in reporting.cut(Held(world, units)))
    assert (low, high, more) == pytest.approx((0.5, 1.5, 2.0), abs=1e-4)


@pytest.fixture
def session(tmp_path: Path):
    rows = {"u": [*range(40), *range(20)], "g": ["a", "b"] * 30, "x": [0.5] * 30 + [9.0] * 30}
    pq.write_table(pa.table(rows), tmp_path / "t.parquet")
    source = {"t": str(tmp_path / "t.parquet")}
    with dpquery.connect(
        source, unit="u", epsilon=10**6, bounds={"x": (0, 20)}, max_rows_contributed=1
    ) as opened:
        yield opened


def test_a_note_says_how_much_was_cut_and_how_exactly(session: dpquery.Session) -> None:
    asked = "DP_AVG(x, eps=1000, report_clipping=0.5, bounds=[1, 8])"
    answer = session.sql(f"SELECT {asked} AS a FROM t")
    assert answer.loss.epsilon == 1000
    notes = "\n".join(answer.notes)
    assert "DP_AVG: about 20 rows (± 1) are at 1 or below, and about 20 (± 1) at 8" in notes
    assert "with max_rows_contributed=2, about 20 rows (± 1) more would count" in notes
    assert answer.interval("a")[0][0] <= answer.scalar() <= answer.interval("a")[0][1]
    again = session.sql(f"SELECT {asked} AS a FROM t")
    assert again.rows == answer.rows
    assert again.loss.epsilon == 0
    assert set(answer.notes) <= {*again.notes}


def test_groups_share_the_counts(session: dpquery.Session) -> None:
    asked = "DP_SUM(x, eps=2000, report_clipping=0.5, bounds=[1, 8])"
    answer = session.sql(f"SELECT g, {asked} AS a FROM t WHERE g IN ('a', 'b') GROUP BY g")
    assert len([note for note in answer.notes if "or below" in note]) == 1
    explained = str(session.explain(f"SELECT {asked} FROM t"))
    assert "0.5 of eps counts what bounds and limits cut" in " ".join(explained.split())


@pytest.mark.parametrize(
    "asked",
    [
        "DP_SUM(DISTINCT x, eps=1, report_clipping=0.1)",
        "DP_SUM(x, eps=1, report_clipping=0.1, contribution_bounds_per_group=[0, 5])",
        "DP_SUM(x, error=100, report_clipping=0.1)",
    ],
)
def test_what_cannot_be_reported_is_refused_and_mended(
    session: dpquery.Session, asked: str
) -> None:
    with pytest.raises(dpquery.NameRefused) as refused:
        session.sql(f"SELECT {asked} FROM t")
    assert refused.value.code == "DPQ206"
    offered = refused.value.diagnostic.remedy[0]
    assert offered == asked.replace(", report_clipping=0.1", "")


def test_less_noise_on_the_counts_than_was_charged_for_is_caught() -> None:
    world = WORLDS["rows"]
    reporting = release(world, SUBSTITUTE)
    less = replace(reporting, noise=type(reporting.noise)(reporting.noise.scale / 2))
    assert less.event() != reporting.event()
