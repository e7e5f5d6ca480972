"""Which part may load what: contracts for the source, and processes for what really happens."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dpquery.policy.sources.paths import copy_samples
from tests.interface.door import serving
from tests.tasks import ROOT

HEAVY = {"numpy", "scipy", "sqlglot", "duckdb", "pyarrow", "dp_accounting", "pandas", "polars"}


SLOW = {"pyarrow.compute", "pyarrow.dataset", "pyarrow.fs", "pyarrow.parquet"}
"""Parts of pyarrow that a query over Parquet files does without."""


def loaded(statement: str) -> set[str]:
    """Run a statement in a new process and give the modules that it loaded."""
    code = f"{statement}\nimport sys\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True, cwd=ROOT
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement",
    [
        "import dpquery",
        "from dpquery import errors",
        "import dpquery.shell.main",
        "import dpquery.display.formats",
        "import dpquery.errors.pages",
    ],
)
def test_what_starts_quickly_loads_nothing_heavy(statement: str):
    modules = loaded(statement)
    assert "dpquery" in modules
    assert modules & HEAVY == set()


def test_a_query_on_the_command_line_loads_neither_pandas_nor_the_shell(tmp_path: Path):
    """pyarrow would load pandas, which takes longer than a query: `core/arrow_columns.py`."""
    policy = copy_samples(tmp_path / "samples")
    query = "SELECT dept, DP_COUNT(*, eps=0.1) AS n FROM staff GROUP BY dept"
    for asked in (query, "SHOW TABLES", f"EXPLAIN {query}"):
        command = [str(policy), "-c", asked, "-o", str(tmp_path / "answer")]
        modules = loaded(f"from dpquery.shell.main import main\nassert main({command}) == 0")
        assert {"pyarrow", "duckdb"} <= modules
        assert (
            modules & {"pandas", "polars", "dp_accounting", "prompt_toolkit", "scipy"} == set()
        )
        assert modules & SLOW == set()
    computed = ["-c", f"SELECT dept, n / 2 AS half FROM ({query})"]
    command = [str(policy), *computed, "-o", str(tmp_path / "answer")]
    modules = loaded(f"from dpquery.shell.main import main\nassert main({command}) == 0")
    assert modules & {"pandas", "polars"} == set()


def test_a_client_of_a_server_loads_neither_engine_nor_parser(
    tmp_path_factory: pytest.TempPathFactory,
):
    with serving(tmp_path_factory.mktemp("served") / "data") as url:
        query = "SELECT dept, DP_COUNT(*, eps=0.1) AS n FROM staff GROUP BY dept"
        command = [url, "-c", query, "-c", "SHOW TABLES"]
        modules = loaded(f"from dpquery.shell.main import main\nassert main({command}) == 0")
    assert {"pyarrow", "psycopg"} <= modules
    assert modules & {"duckdb", "sqlglot", "scipy", "pandas"} == set()


def test_mechanisms_know_neither_sql_nor_tables():
    assert loaded("import dpquery.mechanisms") & {"sqlglot", "duckdb", "pyarrow"} == set()


def test_the_probe_sees_what_is_loaded():
    assert "pyarrow" in loaded("import pyarrow")


def test_the_import_contracts_hold():
    lint = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [lint, "--no-cache"], check=False, capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
