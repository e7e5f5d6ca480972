"""What one person's rows could multiply needs no more memory than there is, in any world.

Each question is asked in a process of its own with 4 GB of address space, of data with the
person's rows and of data without: it is answered in both, or refused in both. A failure in one
of them alone would tell an exact bit, whatever the epsilon.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.tasks import ROOT

POLICY = """\
[privacy]
neighbours = "add-remove"
[budget]
epsilon = 1000
delta = 1e-3
[tables.people]
path = "people.parquet"
privacy_unit_column = "person"
max_rows_contributed = 1
[tables.people.columns]
person = { type = "integer" }
x = { type = "integer", bounds = [0, 100000] }
ill = { type = "boolean" }
"""
ASKED = """\
import json, resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 * 2**30,) * 2)
import dpquery
outcomes = []
for query in json.load(sys.stdin):
    with dpquery.connect(sys.argv[1]) as session:
        try:
            session.sql(query, refresh=True)
            outcomes.append("answered")
        except dpquery.DPQueryError as error:
            outcomes.append(error.code)
print(json.dumps(outcomes))
"""
ILL = "SELECT person, x FROM people WHERE person = 42 AND ill"
SIGN = "\N{GRINNING FACE}"


def numbered(rows: str) -> str:
    return (
        "(SELECT person, row_number() OVER (PARTITION BY person ORDER BY x) AS n "
        f"FROM ({rows}) z)"
    )


def paired(left: str, right: str) -> str:
    return f"SELECT a.person, a.x FROM ({left}) a JOIN ({right}) b ON a.person = b.person"


def doubled(times: int) -> str:
    names = [f"c0 AS ({ILL})"]
    names += [
        f"c{i} AS (SELECT * FROM c{i - 1} UNION ALL SELECT * FROM c{i - 1})"
        for i in range(1, times + 1)
    ]
    return f"WITH {', '.join(names)}"


ONCE = paired(ILL, ILL)
TWICE = paired(ONCE, ONCE)
WIDE = paired(TWICE, TWICE)
MANY = " UNION ALL ".join([ONCE] * 8)
DIFFERENT = "SELECT DP_COUNT(DISTINCT CONCAT('{0}', CAST(n AS TEXT)), eps=1e-9) FROM {1} k"
NUMBERS = "SELECT DP_COUNT(DISTINCT n, eps=1e-9) FROM {} k"
FEW = [DIFFERENT.format(SIGN * 400, numbered(WIDE)), NUMBERS.format(numbered(MANY))]
"""What needs most among what is accepted."""
OLD = [
    f"{doubled(times)}, j AS ({paired('SELECT * FROM c5', 'SELECT * FROM c5')}) "
    + asked.format(*rest, numbered(paired("SELECT * FROM j", "SELECT * FROM j")))
    for times in (5,)
    for asked, rest in ((DIFFERENT, ["x" * 30_000]), (DIFFERENT, ["x"]), (NUMBERS, []))
]
"""What failed where the person was ill: one row became a million rows, of 30 kB each."""
MORE = [
    DIFFERENT.format("x" * 400, numbered(ONCE)),
    DIFFERENT.format("x" * 400, numbered(WIDE)),
    DIFFERENT.format("x" * 10, numbered(MANY)),
    NUMBERS.format(numbered(WIDE)),
    f"SELECT DP_MEDIAN(n, eps=1e-9, bounds=[0, 70000]) FROM {numbered(WIDE)} k",
    f"SELECT CONCAT('{SIGN * 400}', CAST(n AS TEXT)) AS g, DP_COUNT(*, eps=1e-9) "
    f"FROM {numbered(WIDE)} k GROUP BY DP_KEYS(CONCAT('{SIGN * 400}', CAST(n AS TEXT)), "
    "eps=0.001, delta=1e-7)",
    f"SELECT DP_SUM(d, eps=1e-9, bounds=[0, 9]) FROM (SELECT person, COUNT(DISTINCT "
    f"CONCAT('{SIGN * 400}', CAST(n AS TEXT))) AS d FROM {numbered(WIDE)} k "
    "GROUP BY person) m",
    f"SELECT DP_SUM(LENGTH(v), eps=1e-9, bounds=[0, 9]) FROM (SELECT person, LAG(c) OVER "
    f"(PARTITION BY person ORDER BY c) AS v FROM (SELECT person, CONCAT('{SIGN * 200}', "
    f"CAST(n AS TEXT)) AS c FROM {numbered(WIDE)} k) y) z",
    f"SELECT DP_COUNT(*, eps=1e-9) FROM ({TWICE}) a WHERE EXISTS (SELECT 1 FROM ({TWICE}) b "
    "WHERE b.person = a.person AND b.x < a.x)",
    f"SELECT DP_COUNT(*, eps=1e-9) FROM {numbered(TWICE)} a FULL JOIN {numbered(TWICE)} b "
    "ON a.person = b.person AND a.n < b.n",
]


def outcomes(place: Path, queries: list[str], rows: int) -> list[str]:
    """Ask in a small process, of data where person 42 is ill in so many rows."""
    people = [i for i in range(200) for _ in range(3)] + [42] * rows
    ill = [False] * 600 + [True] * rows
    table = pa.table({"person": people, "x": range(len(people)), "ill": ill})
    place.mkdir()
    pq.write_table(table, place / "people.parquet")
    (place / "policy.toml").write_text(POLICY, "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", ASKED, str(place / "policy.toml")],
        input=json.dumps(queries),
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        timeout=500,
    )
    found: list[str] = json.loads(done.stdout)
    return found


def require_one_outcome(tmp_path: Path, queries: list[str], sizes: list[int]) -> list[str]:
    """Ask in worlds that one person's rows tell apart: what happens is the same in all."""
    found = [outcomes(tmp_path / str(rows), queries, rows) for rows in sizes]
    assert all(one == found[0] for one in found), found
    assert "DPQ701" not in found[0]
    return found[0]


def test_a_person_with_many_rows_makes_no_accepted_scan_fail(tmp_path: Path):
    queries = [*FEW, *OLD]
    assert require_one_outcome(tmp_path, queries, [0, 300]) == [
        *["answered"] * len(FEW),
        *["DPQ406"] * len(OLD),
    ]


@pytest.mark.slow
def test_what_needs_most_never_fails_by_chance(tmp_path: Path):
    found = require_one_outcome(tmp_path, FEW * 25, [0, 300])
    assert found == ["answered"] * len(FEW * 25)


@pytest.mark.slow
def test_that_holds_of_every_shape_of_amplification(tmp_path: Path):
    found = require_one_outcome(tmp_path, MORE, [0, 1, 300, 20_000])
    assert found == ["answered"] * len(MORE)
