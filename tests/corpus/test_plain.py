"""Accepted queries agree with plain DuckDB, where nothing is clamped or weighted.

The sample is cut to what its policy takes in full: values within their bounds, at most ten
visits of a person, regions that are keys. Then a query without its `DP_` and its options is
DuckDB's own. With every ε a billion times larger the noise is below a hundredth of what two
numbers may differ by, so a false alarm has a chance of e^-100.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import datetime, time
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from dpquery.database import Database
from tests.corpus import runs
from tests.corpus.cases import Case
from tests.turns import in_turn

BILLION = 10**9
SAME = re.compile(
    r"(COUNT|COUNT_IF|COUNTIF|SUM|AVG|MEAN|(VAR|STDDEV)_(POP|SAMP)|VARIANCE|STDDEV)\b", re.I
)
"""What DuckDB has as well."""
OPTION = re.compile(
    r", *(eps|epsilon|weights|report_clipping) *(=>|:=|==?) *(\([^)]*\)|'\w+'|[\w.+-]+)", re.I
)
OTHERWISE = {
    r"bounds|max_rows_contributed": "values are clamped, or rows weighted",
    r"max_groups_contributed|contribution_bounds": "groups are weighted, or totals clamped",
    r"n \+ 1 AS m, DP_COUNT": "an alias may stand before it is given here",
    r"CAST\('x' AS": "a text that is no number is NULL here",
    r"visits a( JOIN|,) visits b": "a unit's pairs are weighted",
    r"mechanism|delta": "noise of another law",
    r"1e-9|error=": "noise stays",
    r'"eps"|\(eps': "options stand elsewhere",
    r"inhabitants, DP_|UPPER\(zone\) AS z|region, zone, DP_": "no key determines columns there",
    r"people, DP_": "no key determines columns there",
    r"'sea'": "a public row that no row of anybody meets is counted there",
    r"/ \(age - |/ 0\b": "division by zero is NULL here",
    r"\bTOP \d|\bIFF\(|\"?public\"?\.|ANY_VALUE|TO_DATE": "as other engines write it",
    r"(CAST\(dept AS |dept::)INTEGER": "a text that is no number is NULL here",
    r"SMALLINT|TINYINT": "an integer out of range is NULL here",
    r"IN UNNEST|EXISTS \(SELECT \w+ FROM UNNEST": "DuckDB has no rows of a list here",
    r"AS of_p": "rows are counted of groups that nobody is in",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = runs.samples(tmp_path_factory.mktemp("plain") / "samples")
    _cut(found / "staff.parquet", "*", "salary <= 200000 AND coalesce(bonus, 0) <= 50000")
    _cut(
        found / "visits.parquet",
        "* REPLACE (if(region = 'abroad', NULL, region) AS region)",
        "coalesce(spent, 0) <= 500 QUALIFY count(*) OVER (PARTITION BY person_id) <= 10",
    )
    return found


def _cut(file: Path, columns: str, where: str) -> None:
    text = (
        f"COPY (SELECT {columns} FROM '{file}' WHERE {where}) TO '{file}.cut' (FORMAT parquet)"
    )
    duckdb.sql(text)
    Path(f"{file}.cut").replace(file)


@pytest.fixture(scope="module")
def database(place: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        found.execute(f"SET file_search_path = '{place}'")
        for file in ("staff.parquet", "visits.parquet", "regions.csv"):
            found.execute(f"CREATE VIEW {file.split('.')[0]} AS FROM '{place / file}'")
        yield found


@pytest.fixture(scope="module")
def ours(place: Path) -> Iterator[Database]:
    with closing(Database(runs.policy_at(place / "policy.toml"))) as found:
        yield found


def comparable(case: Case) -> bool:
    calls = re.findall(r"DP_(\w+)", case.query, re.I)
    known = all(SAME.fullmatch(name) for name in calls)
    return known and not any(re.search(form, case.query) for form in OTHERWISE)


COMPARED = [case for case in runs.ACCEPTED if comparable(case)]


def plain(query: str) -> str:
    """Write a query as DuckDB has it; a column called at has to stand in quotes there."""
    text = re.sub(r"\bDP_MEAN\b", "AVG", OPTION.sub("", query), flags=re.I)
    text = re.sub(r"\bDP_COUNTIF\b", "COUNT_IF", text, flags=re.I)
    return re.sub(r"\bat\b", '"at"', re.sub(r"\bDP_(\w+)\s*\(", r"\1(", text, flags=re.I))


def test_most_queries_can_be_compared():
    assert len(COMPARED) > 150


@pytest.mark.parametrize("case", in_turn(COMPARED), ids=str)
def test_an_accepted_query_agrees_with_plain_duckdb(
    case: Case, ours: Database, database: duckdb.DuckDBPyConnection
):
    """Groups that no row is in are shown here; and rows in no public group are not."""
    found = runs.anew(ours).sql(runs.scaled(case.query, BILLION)).rows
    table = database.sql(plain(case.query)).to_arrow_table()  # fetchall wants pytz for instants
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    theirs = [row for row in rows if in_group(case, row)]
    assert all(any(alike(a, b) for a in found) for b in theirs)
    assert len(found) == len(theirs) or (grouped(case) and len(found) > len(theirs))


def grouped(case: Case) -> bool:
    return "GROUP BY" in case.query


def in_group(case: Case, row: Sequence[object]) -> bool:
    return not grouped(case) or None not in row


def alike(ours: Sequence[object], theirs: Sequence[object]) -> bool:
    return len(ours) == len(theirs) and all(map(_same, ours, theirs))


def _same(ours: object, theirs: object) -> bool:
    if isinstance(theirs, datetime) and not isinstance(ours, datetime):
        return theirs.date() == ours and theirs.time() == time()
    if isinstance(theirs, datetime) and theirs.tzinfo is not None:
        theirs = theirs.replace(tzinfo=None)  # an instant is shown by the policy's clock: UTC
    numbers = int | float | Decimal
    if not isinstance(ours, numbers) or not isinstance(theirs, numbers):
        return ours == theirs
    apart = 0.5 if isinstance(ours, int) else 1e-4
    return math.isclose(float(ours), float(theirs), rel_tol=1e-4, abs_tol=apart)


def test_a_wrong_number_is_noticed():
    assert alike((5, 1.0, "a"), (5, 1.00001, "a"))
    assert not alike((5, 1.0, "a"), (6, 1.0, "a"))
    assert not alike((5, 1.0, "a"), (5, 1.01, "a"))
