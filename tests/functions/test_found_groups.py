"""Groups that are found: which are shown, how often, and what is asked of them afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

import dpquery
from dpquery.core.privacy_events import Approximate, Composed, Pure
from dpquery.core.source_text import Source
from dpquery.functions.dp_keys import KeysRelease
from dpquery.ir.measures import Candidates, Told
from dpquery.mechanisms import PartitionSelection
from dpquery.mechanisms.randomness import Randomness
from dpquery.session import Session
from tests.worlds import planned, policy_of, receipt_for, write

CERTAIN = "eps=1000, delta=1e-6, max_groups_contributed=10"
"""Every value of two units or more is shown, whatever is drawn."""
VALUES: dict[str, list[object]] = {
    "text": ["it's", 'a "quoted" one', "a\0b", "", "é", "x" * 300, None],
    "number": [-(2**63), -1, 0, 2**63 - 1, None],
    "flag": [True, False, None],
    "price": [Decimal("-0.50"), Decimal("99999999999999.9999"), None],
    "day": [date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31), None],
    "at": [datetime(1, 1, 1), datetime(2024, 2, 29, 12, 30, 0, 1), None],  # noqa: DTZ001
}


SETTINGS = {"unit": "u", "max_rows_contributed": 1, "epsilon": 10**6, "delta": "0.01"}


@contextmanager
def table(place: Path, **columns: object) -> Iterator[Session]:
    file = write(place / "t.parquet", **columns)
    with dpquery.connect(file, **SETTINGS) as session:
        yield session


def doubled(values: list[object]) -> dict[str, object]:
    """Return each value to two units."""
    return {"u": list(range(2 * len(values))), "x": values * 2}


@pytest.mark.parametrize("kind", VALUES)
def test_values_of_every_type_are_found_and_grouped_by(kind: str, tmp_path: Path):
    values = VALUES[kind]
    kept = [value[:256] if isinstance(value, str) else value for value in values]
    order = sorted(kept, key=lambda value: (value is None, value))
    with table(tmp_path, **doubled(values)) as session:
        listed = session.sql(f"SELECT DP_KEYS(x, {CERTAIN}) FROM t").scalar()
        rows = session.sql(
            f"SELECT x, DP_COUNT(*, eps=1000) AS n FROM t GROUP BY DP_KEYS(x, {CERTAIN})"
        ).rows
    assert listed == order
    assert rows == [(value, 2) for value in order]


def test_a_value_that_no_column_of_an_answer_can_show_is_in_no_group(tmp_path: Path):
    with table(tmp_path, u=[1, 2, 3, 4], x=[2**63 - 1, 2**63 - 1, 5, 5]) as session:
        found = session.sql(f"SELECT DP_KEYS(x + x, {CERTAIN}) FROM t").scalar()
    assert found == [10]


def test_what_a_single_unit_has_is_hardly_ever_shown(tmp_path: Path):
    names = [f"name {unit}" for unit in range(1000)]
    with table(tmp_path, u=list(range(1000)), x=names) as session:
        found = session.sql("SELECT DP_KEYS(x, eps=1000, delta=1e-9) FROM t").scalar()
        rows = session.sql(
            "SELECT x, DP_COUNT(*, eps=1) AS n, DP_MEDIAN(u, eps=1, bounds=[0, 9]) AS m "
            "FROM t GROUP BY DP_KEYS(x, eps=1000, delta=1e-9)"
        )
    assert found == []  # with a probability of one in a million it is not
    assert rows.rows == []
    assert rows.columns == ("x", "n", "m")


def test_others_share_a_group(tmp_path: Path):
    columns = {"u": list(range(9)), "x": ["a"] * 3 + ["b"] * 3 + ["c", None, "rest"]}
    asked = "SELECT x, DP_COUNT(*, eps=1000) AS n FROM t GROUP BY DP_KEYS(x, {}, other='{}')"
    with table(tmp_path, **columns) as session:
        rest = session.sql(asked.format(CERTAIN, "rest")).rows
        merged = session.sql(asked.format(CERTAIN, "b")).rows
        alone = session.sql(asked.format(CERTAIN, "rest") + " HAVING n > 5").rows
        nobody = session.sql(asked.format("eps=0.001, delta=1e-9", "rest")).rows
    assert rest == [("a", 3), ("b", 3), ("rest", 3)]
    assert merged == [("a", 3), ("b", 6)]
    assert alone == []
    assert nobody == [("rest", 9)]


def test_groups_are_found_beside_public_ones_and_in_pairs(tmp_path: Path):
    columns = {"u": list(range(8)), "x": list("aabbaabb"), "b": [True] * 4 + [False] * 4}
    with table(tmp_path, **columns) as session:
        beside = session.sql(
            f"SELECT b, x, DP_COUNT(*, eps=1000) FROM t GROUP BY b, DP_KEYS(x, {CERTAIN})"
        ).rows
        both = session.sql(
            "SELECT x, y, DP_COUNT(*, eps=1000) FROM (SELECT u, x, u // 2 * 2 AS y FROM t) "
            f"GROUP BY DP_KEYS(x, {CERTAIN}), DP_KEYS(y, {CERTAIN}) "
            "HAVING DP_COUNT(*, eps=1000) > 0"
        ).rows
    pairs = [(False, "a"), (False, "b"), (True, "a"), (True, "b")]
    assert {row for row in beside if row[2]} == {(*pair, 2) for pair in pairs}
    assert {row[:2] for row in beside if not row[2]} == {(None, "a"), (None, "b")}
    assert both == [("a", 0, 2), ("a", 4, 2), ("b", 2, 2), ("b", 6, 2)]


def test_combinations_are_found_and_nothing_else(tmp_path: Path):
    """NULL is told from all else in each column, and a text from what reads like two."""
    told = [("x", 1), ("x", None), (None, 1), (None, None), ("x|1", 1), ("NULL", 2)]
    lonely = [("x", 2), ("lonely", 1)]
    rows = [pair for pair in told for _ in range(3)] + lonely
    columns = {
        "u": list(range(len(rows))),
        "x": [x for x, _ in rows],
        "y": [y for _, y in rows],
    }
    order = sorted(told, key=lambda pair: [(value is None, value) for value in pair])
    with table(tmp_path, **columns) as session:
        asked = (
            f"SELECT x, y, DP_COUNT(*, eps=1000) AS n FROM t GROUP BY DP_KEYS(x, y, {CERTAIN})"
        )
        found = session.sql(asked.replace("1e-6", "1e-9")).rows
        joined = session.sql(
            "SELECT COUNT(*) FROM (SELECT y, x, x AS again FROM t "
            f"GROUP BY DP_KEYS(y, x, x, {CERTAIN}))".replace("1e-6", "1e-9")
        ).scalar()
    assert found == [(*pair, 3) for pair in order]
    assert joined == len(told)


def test_groupings_have_the_parts_of_what_is_found_together(tmp_path: Path):
    """Totals are of all rows, and of what is in no combination there is none."""
    told = [("x", 2), ("x", 1), ("x", None), (None, 1)]
    lonely = [("x", 3), ("lonely", 1)]
    rows = [pair for pair in told for _ in range(3)] + lonely
    columns = {"u": list(range(14)), "x": [x for x, _ in rows], "y": [y for _, y in rows]}
    with table(tmp_path, **columns) as session:
        found = session.sql(
            "SELECT x, y, GROUPING(x), GROUPING(y), DP_COUNT(*, eps=1000) FROM t GROUP BY "
            f"GROUPING SETS ((DP_KEYS(x, y, {CERTAIN})), (y), x, ())".replace("1e-6", "1e-9")
        ).rows
    pairs = [("x", 1), ("x", 2), ("x", None), (None, 1)]
    parts = [(None, 1, 7), (None, 2, 3), (None, None, 3)]
    assert found == [
        *((x, y, 0, 0, 3) for x, y in pairs),
        *((x, y, 1, 0, n) for x, y, n in parts),
        *(("x", None, 0, 1, 10), (None, None, 0, 1, 3)),
        (None, None, 1, 1, 14),
    ]


def test_values_of_every_type_are_found_together(tmp_path: Path):
    names = list(VALUES)
    columns = {name: [value for value in VALUES[name] for _ in range(6)][:12] for name in names}
    listed = ", ".join(names)
    with table(tmp_path, u=list(range(12)), **columns) as session:
        rows = session.sql(
            f"SELECT {listed}, DP_COUNT(*, eps=1000) AS n FROM t "
            f"GROUP BY DP_KEYS({listed}, {CERTAIN})"
        ).rows
    wanted = {(*told, 6) for told in zip(*columns.values(), strict=True)}
    assert {*rows} == wanted
    assert len(rows) == 2


def test_a_unit_counts_in_one_combination(tmp_path: Path):
    """Of a unit in all four, one is kept; which, is not always the same of each column."""
    columns = {"u": [n // 4 for n in range(4000)], "x": list("aabb") * 1000}
    columns["y"] = [0, 1, 0, 1] * 1000
    file = write(tmp_path / "t.parquet", **columns)
    with dpquery.connect(file, **SETTINGS | {"max_rows_contributed": 4}) as session:
        plan = session._plan(
            Source("SELECT x, y FROM t GROUP BY DP_KEYS(x, y, eps=1, delta=1e-6)")
        )
        (measure,) = plan.frontiers[0].scan.measures
        with session._engine.open(plan.frontiers[0].scan, receipt_for(plan), 0) as exact:
            counts = exact.counts(measure).tolist()
    assert sum(counts) == 1000
    assert min(counts) > 150  # of 250: a false alarm is far below 1e-6


def test_fewer_units_than_asked_for_are_never_shown(tmp_path: Path):
    columns = {"u": list(range(30)), "x": list("a" * 9 + "b" * 21)}
    with table(tmp_path, **columns) as session:
        found = session.sql(f"SELECT DP_KEYS(x, {CERTAIN}, min_units=10) FROM t").scalar()
        answer = session.sql(f"SELECT DP_KEYS(x, {CERTAIN}, min_units=8) FROM t")
    assert (found, answer.scalar()) == (["b"], ["a", "b"])
    assert answer.loss.epsilon == 1000
    assert "groups with fewer than 9 us may be missing" in answer.notes[-1]


def test_chance_chooses_among_too_many_and_says_so(tmp_path: Path):
    with table(tmp_path, **doubled(list(range(100)))) as session:
        query = f"SELECT DP_KEYS(x, {CERTAIN}, max_keys=10) FROM t"
        answers = [session.sql(query, refresh=True) for _ in range(8)]
    found = [answer.scalar() for answer in answers]
    assert all(len(keys) == 10 and keys == sorted(keys) for keys in found)
    assert len(set(map(tuple, found))) > 1, "the same ten of a hundred: one in 10^13 twice"
    assert "100 values were found; chance chose 10 of them (max_keys)" in answers[0].notes


def test_what_is_left_out_is_told_for_its_own_price(tmp_path: Path):
    columns = {"u": [*range(40), *range(40)], "x": ["a"] * 40 + list(range(1, 41))}
    columns["x"] = list(map(str, columns["x"]))
    query = f"SELECT DP_KEYS(x, {CERTAIN}, left_out_eps=500) FROM t"
    with table(tmp_path, **columns) as session:
        answer = session.sql(query)
    left = "about 40 (± 0) pairs of a unit and a value are of no value that is shown"
    assert left in answer.notes
    assert answer.loss.epsilon == 1000


def planned_keys(
    relation: dpquery.Neighbours, call: str, groups: int | None = 3
) -> KeysRelease:
    from dpquery.core.types import TEXT
    from dpquery.policy.model import Column
    from tests.worlds import private_table

    private = private_table(
        [Path("none.parquet")],
        [Column("x", TEXT)],
        max_rows_contributed=3,
        max_groups_contributed=groups,
    )
    plan = planned(policy_of(private, relation), f"SELECT {call} FROM t")
    release = plan.frontiers[0].releases[0].release
    assert isinstance(release, KeysRelease)
    return release


@pytest.mark.parametrize("groups", [None, 3, 300])
def test_a_unit_counts_in_one_group_unless_somebody_says_more(groups: int | None):
    """Whatever rows it may have; and nobody pays for a limit that finds nothing unknowingly."""
    plain = "DP_KEYS(x, eps=0.6, delta=6e-7)"
    relation = dpquery.Neighbours.ADD_REMOVE
    if groups == 300:
        with pytest.raises(dpquery.NameRefused, match="no value of fewer than") as caught:
            planned_keys(relation, plain, groups)
        (remedy,) = caught.value.diagnostic.remedy
        assert planned_keys(relation, remedy, groups).distance == 1
    else:
        assert planned_keys(relation, plain, groups).distance == (groups or 1)
    said = plain.replace("x,", "x, max_groups_contributed=300,")
    assert planned_keys(relation, said, groups).distance == 300
    assert planned_keys(relation, said, groups).note.startswith("groups with fewer than 7,713 ")


@pytest.mark.parametrize(("relation", "places"), [("add-remove", 3), ("substitute", 6)])
def test_the_charge_is_what_was_asked_for_whatever_the_relation(relation: str, places: int):
    neighbours = dpquery.Neighbours(relation)
    release = planned_keys(neighbours, "DP_KEYS(x, eps=0.6, delta=6e-7)")
    assert release.distance == places
    assert release.mechanism.epsilon == Fraction(6, 10 * places)
    assert release.event() == Approximate(Fraction(6, 10), Fraction(6, 10**7))
    noted = planned_keys(neighbours, "DP_KEYS(x, eps=0.7, delta=6e-7, left_out_eps=0.1)")
    assert noted.event() == Composed((release.event(), Pure(Fraction(1, 10))))


@dataclass
class Counted:
    """The exact side of a release that finds groups: so many units have each value."""

    given: np.ndarray
    named: int = 0

    def counts(self, _: Candidates) -> np.ndarray:
        return self.given

    def chosen(self, _: Candidates, places: list[int]) -> list[Told]:
        self.named += len(places)
        return [(place,) for place in places]


DRAWS = 20_000
BOUND = -NormalDist().inv_cdf(5e-7 / 2)


def shown_of(release: KeysRelease, count: int) -> int:
    """Return how many of DRAWS values with this count are shown."""
    held = Counted(np.full(DRAWS, count))
    (cell,) = replace(release, most=DRAWS).run(held, Randomness())
    assert held.named == len(cell.value), "no more values are named than are shown"
    return len(cell.value)


def deviation(shown: int, probability: float) -> float:
    return (shown - DRAWS * probability) / (DRAWS * probability * (1 - probability)) ** 0.5


def test_a_value_is_shown_as_often_as_the_law_says():
    """20,000 draws of each of two counts; false alarm 1e-6 in all, by the normal law."""
    release = planned_keys(
        dpquery.Neighbours.ADD_REMOVE,
        "DP_KEYS(x, eps=1, delta=1e-6, max_groups_contributed=1)",
    )
    wrong = PartitionSelection(Fraction(11, 10), Fraction(1, 10**6))
    for count in (13, 14):
        law = float(release.mechanism.probability(count))
        shown = shown_of(release, count)
        assert abs(deviation(shown, law)) < BOUND
        assert abs(deviation(shown, float(wrong.probability(count)))) > BOUND


def test_null_is_no_group_where_the_policy_says_so(tmp_path: Path):
    write(tmp_path / "t.parquet", u=list(range(6)), x=["a", "a", "b", "b", None, None])
    policy = tmp_path / "policy.toml"
    policy.write_text(
        '[budget]\nepsilon = 10000\ndelta = 0.01\n[tables.t]\npath = "t.parquet"\n'
        'privacy_unit_column = "u"\nrows_per_unit = 1\n'
        '[tables.t.columns]\nu = { type = "integer" }\n'
        'x = { type = "text", null_group = false }\n'
    )
    with dpquery.connect(policy) as session:
        listed = session.sql(f"SELECT DP_KEYS(x, {CERTAIN}) FROM t").scalar()
        some = session.sql(f"SELECT DP_KEYS(x, {CERTAIN}) FILTER (WHERE u > 1) FROM t").scalar()
    assert (listed, some) == (["a", "b"], ["b"])
