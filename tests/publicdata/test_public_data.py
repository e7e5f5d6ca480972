"""Seventeen public data sets, as four kinds of writers write them: from a draft to answers.

No column is converted by hand, and the draft's types stay as they are: what is added to it is
the unit, limits, bounds and keys. At an epsilon that leaves no noise worth the name, answers
are DuckDB's own.
"""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import dpquery
from dpquery.shell.main import main
from tests.publicdata.sets import SETS, Bound, DataSet, package_file
from tests.publicdata.writers import WRITERS

LEFT_OUT: dict[tuple[str, str], dict[str, str]] = {}
"""Of a data set and a writer: the columns that a draft leaves out, and why."""
AGGREGATES = {"n", "mean", "mid", "total", "spread"}
EPS = 8 * 10**8

pytestmark = pytest.mark.slow


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _literal(value: Bound, type_: str) -> str:
    """Write a bound as the drafted type has it."""
    if not isinstance(value, str):
        return str(value)
    moment = value if "T" in value else f"{value}T00:00:00"
    return {"date": value[:10], "timestamp": moment, "timestamptz": f"{moment}Z"}[type_]


def _decided(draft: str, data: DataSet) -> str:
    """Return a draft with what only its owner knows."""
    lines = []
    for line in draft.splitlines():
        column = re.match(r'("?)(?P<name>.+?)\1 *= \{ type = "(?P<type>[^"]+)" \}', line)
        if line.startswith("privacy_unit_column"):
            if data.unit:
                lines += [f"privacy_unit_column = {_text(data.unit)}", str(data.rows)]
        elif line.startswith("epsilon"):
            lines.append("epsilon = 9e9")
        elif column is None:
            lines.append(line)
        else:
            lines.append(_stated(column["name"], column["type"], data))
    return "\n".join(lines) + "\n"


def _stated(name: str, type_: str, data: DataSet) -> str:
    if type_ == "double" and name in data.keys:
        type_ = "integer"  # a category that became a double, which no group can be
    said = [f'type = "{type_}"']
    said = [f'type = "{type_}"']
    if name in data.bounds:
        low, high = (_literal(value, type_) for value in data.bounds[name])
        said.append(f"bounds = [{low}, {high}]")
    if name in data.keys:
        keys = ", ".join(_text(k) if isinstance(k, str) else str(k) for k in data.keys[name])
        said.append(f"keys = [{keys}]")
    return f"{_text(name)} = {{ {', '.join(said)} }}"


def _text(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _plain(value: object) -> object:
    match value:
        case bool():
            return int(value)
        case int() | float() | Decimal():
            return float(value)
        case datetime():
            return value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        case date():
            return datetime(value.year, value.month, value.day)  # noqa: DTZ001
        case _:
            return value


def _cells(columns: tuple[str, ...], rows: list[tuple[object, ...]]) -> dict[Any, Any]:
    """Return the groups of an answer, with what each has."""
    keys = [at for at, name in enumerate(columns) if name not in AGGREGATES]
    told = {}
    for row in rows:
        cells = [_plain(value) for value in row]
        group = tuple(cells.pop(at) for at in reversed(keys))
        told[group] = dict(zip((n for n in columns if n in AGGREGATES), cells, strict=True))
    return told


def _same(column: str, ours: Any, theirs: Any) -> bool:
    if column == "n" or theirs is None or ours is None:
        return (ours or 0.0) == (theirs or 0.0)
    wide = 0.05 if column == "mid" else 1e-4  # a median may be any value in between
    return math.isclose(ours, theirs, rel_tol=wide, abs_tol=1e-3)


def _differing(question: str, session: Any, engine: Any) -> str | None:
    """Return how an answer differs from DuckDB's own."""
    answer = session.sql(question, eps=EPS)
    relation = engine.sql(question)
    theirs = _cells(tuple(relation.columns), relation.fetchall())
    ours = _cells(tuple(answer.columns), answer.rows)
    for group, cells in theirs.items():
        if group not in ours:
            return f"{question}: no group {group} among {[*ours][:5]}"
        for column, value in cells.items():
            if not _same(column, ours[group][column], value):
                return f"{question}: {group} {column} is {ours[group][column]}, not {value}"
    more = [g for g in ours.keys() - theirs.keys() if any(ours[g].get(n) for n in ("n",))]
    return f"{question}: {more[:3]} are no groups" if more else None


@contextmanager
def _duckdbs_own(data: DataSet, written: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Connect to the same files; instants are shown in UTC, which DuckDB needs ICU for."""
    files = str(written / "*.parquet") if written.is_dir() else str(written)
    with duckdb.connect(config={"threads": 2}) as engine:
        source = f"read_parquet('{files}')"
        if written.suffix == ".duckdb":
            copy = shutil.copy(written, written.with_suffix(".copy"))
            engine.execute(f"ATTACH '{copy}' AS held (READ_ONLY)")
            source = f"held.{data.name}"
        types = engine.execute(f"DESCRIBE SELECT * FROM {source}").fetchall()
        instants = [name for name, type_, *_ in types if re.search("ZONE|TZ", type_)]
        shown = ", ".join(
            f'make_timestamp(epoch_us(CAST("{n}" AS TIMESTAMPTZ))) AS "{n}"' for n in instants
        )
        columns = f"* REPLACE ({shown})" if shown else "*"
        present = f'WHERE "{data.unit}" IS NOT NULL' if data.unit else ""
        engine.execute(f"CREATE VIEW {data.name} AS SELECT {columns} FROM {source} {present}")
        yield engine


def _left_out(draft: str) -> dict[str, str]:
    return dict(re.findall(r'^# "(.+)" is left out: (.+)$', draft, re.MULTILINE))


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("data", SETS, ids=lambda data: data.name)
def test_answers_are_duckdbs_own(
    data: DataSet, writer: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if package_file(data.package, data.file) is None:
        pytest.skip(f"{data.package} is not installed: pip install 'dpquery[datasets]'")
    written = WRITERS[writer](data, tmp_path)
    with _inside(tmp_path):
        assert main(["policy", "init", written.name]) == 0
        draft = capsys.readouterr().out
        assert f"[tables.{data.name}]" in draft
        assert _left_out(draft) == LEFT_OUT.get((data.name, writer), {})
        Path("policy.toml").write_text(_decided(draft, data), "utf-8")
        assert main(["policy", "check", "policy.toml"]) == 0, capsys.readouterr()
    failures = []
    with (
        _duckdbs_own(data, written) as engine,
        dpquery.connect(tmp_path / "policy.toml") as session,
    ):
        for question in data.questions:
            try:
                failures.append(_differing(question, session, engine))
            except dpquery.DPQueryError as refused:
                failures.append(f"{question}: {refused}")
    assert not [one for one in failures if one]
