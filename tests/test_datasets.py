"""The sample data: made again it is the same, and it has the properties that tests rely on."""

from __future__ import annotations

import hashlib
import importlib.util
import tomllib
from collections import Counter
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpquery.errors import PolicyInvalid
from dpquery.policy.sources import paths as samples
from dpquery.policy.sources.paths import sample_directory

HERE = sample_directory()


@pytest.fixture(scope="module")
def make() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_datasets", HERE / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_files_are_those_of_the_checksums() -> None:
    for line in (HERE / "checksums.txt").read_text().splitlines():
        checksum, name = line.split("  ")
        assert hashlib.sha256((HERE / name).read_bytes()).hexdigest() == checksum


def test_made_again_the_files_are_the_same(make: ModuleType, tmp_path: Path) -> None:
    """Byte for byte; value for value where another pyarrow wrote the Parquet files."""
    make.generate(tmp_path)
    for name in make.MADE:
        old, new = (HERE / name).read_bytes(), (tmp_path / name).read_bytes()
        assert old == new or (
            name.endswith(".parquet")
            and writer(HERE / name) != writer(tmp_path / name)
            and content(HERE / name) == content(tmp_path / name)
        )


def writer(file: Path) -> str:
    return str(pq.read_metadata(file).created_by)


def content(file: Path) -> bytes:
    table = pq.read_table(file)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def test_staff_has_one_row_per_person_and_salaries_on_round_numbers() -> None:
    rows = pq.read_table(HERE / "staff.parquet").to_pylist()
    assert sorted(row["person_id"] for row in rows) == list(range(1, 1001))
    assert sum(row["salary"] % 1000 == 0 for row in rows) > 500
    assert set(Counter(row["dept"] for row in rows)) == {"eng", "ops", "sales", "hr", "legal"}
    assert any(row["bonus"] is None for row in rows)


def test_visits_are_heavy_tailed() -> None:
    rows = pq.read_table(HERE / "visits.parquet").to_pylist()
    counts = Counter(row["person_id"] for row in rows)
    assert len(rows) == 5000
    assert max(counts.values()) == 745
    assert len(counts) == 698
    regions = {row["region"] for row in rows}
    assert {None, "abroad"} < regions
    assert "islands" not in regions


def test_a_shop_has_orders_that_count_in_full_and_items_that_do_not() -> None:
    rows = {
        name: pq.read_table(HERE / f"{name}.parquet").to_pylist()
        for name in ("people", "orders", "items")
    }
    assert sorted(row["person_id"] for row in rows["people"]) == list(range(1, 1001))
    orders = Counter(row["person_id"] for row in rows["orders"])
    items = Counter(row["person_id"] for row in rows["items"])
    assert max(orders.values()) == 12
    assert max(items.values()) > 20
    assert 700 < len(orders) == len(items) < 900
    numbers = [row["order_id"] for row in rows["orders"]]
    assert len(numbers) == len(set(numbers))
    assert {row["order_id"] for row in rows["items"]} == set(numbers)


def test_the_wheel_carries_every_file_and_stays_small() -> None:
    project = tomllib.loads((HERE.parent / "pyproject.toml").read_text("utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    shipped = [name for name in wheel if name.startswith("datasets/")]
    files = (file for file in HERE.iterdir() if file.is_file())
    kept = {file.name for file in files if ".ledger" not in file.name}
    assert {Path(name).name for name in shipped} == kept - {"make.py", "checksums.txt"}
    assert sum((HERE.parent / name).stat().st_size for name in shipped) < 1_000_000


def test_samples_are_found_in_a_wheel_before_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = tmp_path / "site" / "dpquery" / "policy" / "sources" / "samples.py"
    monkeypatch.setattr(samples, "__file__", str(module))
    with pytest.raises(PolicyInvalid, match="not installed"):
        sample_directory()
    for place in (tmp_path / "site" / "datasets", tmp_path / "site" / "dpquery" / "datasets"):
        place.mkdir(parents=True)
        (place / "policy.toml").touch()
        assert sample_directory() == place
