"""SQLAlchemy's inspector and reflection, whose statements go straight to the twin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from dpquery.server.catalogue.duckdb_catalogue import Twin
from dpquery.server.catalogue.refusals import Refused

sqlalchemy = pytest.importorskip("sqlalchemy")


class Cursor:
    arraysize = 1

    def __init__(self, twin: Twin) -> None:
        self._twin = twin
        self.rowcount = -1
        self.description: list[tuple[Any, ...]] = []
        self._rows: list[tuple[Any, ...]] = []

    def execute(self, text: str, values: Sequence[object] = ()) -> None:
        if text.startswith("show "):  # which the door answers
            self.description, self._rows = [("setting", *[None] * 6)], [("on",)]
            return
        table = self._twin.ask(text, (), values, "alice")
        self.description = [(name, *[None] * 6) for name in table.schema.names]
        columns = [column.to_pylist() for column in table.columns]
        self._rows = list(zip(*columns, strict=True))

    def fetchall(self) -> list[tuple[Any, ...]]:
        rows, self._rows = self._rows, []
        return rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows.pop(0) if self._rows else None

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        rows, self._rows = self._rows[:size], self._rows[size:]
        return rows

    def close(self) -> None:
        self._rows = []


@pytest.fixture(scope="module")
def inspector(twin: Twin) -> Iterator[Any]:
    from sqlalchemy.dialects import registry
    from sqlalchemy.dialects.postgresql.base import PGDialect

    class Dialect(PGDialect):
        driver = "twin"
        supports_statement_cache = True
        default_paramstyle = "numeric_dollar"

        @classmethod
        def import_dbapi(cls) -> Any:
            return SimpleNamespace(paramstyle="numeric_dollar", Error=Refused)

        def create_connect_args(self, url: object) -> Any:
            return (), {}

        def connect(self, *_: object, **__: object) -> Any:
            nothing = SimpleNamespace(commit=lambda: None, rollback=lambda: None)
            nothing.cursor, nothing.close = (lambda: Cursor(twin)), (lambda: None)
            return nothing

        def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
            return (15, 0)

        def get_isolation_level(self, dbapi_connection: object) -> str:
            return "READ COMMITTED"

    globals()["Dialect"] = Dialect
    registry.register("postgresql.twin", __name__, "Dialect")
    registry.impls["postgresql.twin"] = lambda: Dialect
    engine = sqlalchemy.create_engine("postgresql+twin://")
    yield sqlalchemy.inspect(engine)
    engine.dispose()


def test_schemas_and_tables(inspector: Any) -> None:
    assert inspector.get_schema_names() == ["information_schema", "public"]
    assert sorted(inspector.get_table_names()) == ["regions", "staff", "visits"]
    assert inspector.get_view_names() == []
    assert inspector.has_table("staff")
    assert not inspector.has_table("nothing")
    assert inspector.get_table_comment("staff")["text"].startswith("privacy unit: person_id")


def test_columns(inspector: Any) -> None:
    columns = inspector.get_columns("staff")
    assert [(column["name"], str(column["type"])) for column in columns] == [
        ("person_id", "BIGINT"),
        ("dept", "TEXT"),
        ("age", "BIGINT"),
        ("salary", "BIGINT"),
        ("bonus", "DOUBLE PRECISION"),
        ("rating", "NUMERIC(3, 1)"),
        ("hired", "DATE"),
        ("remote", "BOOLEAN"),
    ]
    assert columns[2]["comment"] == "bounds 18 to 70"


def test_nothing_is_restricted_or_indexed(inspector: Any) -> None:
    assert inspector.get_pk_constraint("staff")["constrained_columns"] == []
    assert inspector.get_foreign_keys("staff") == []
    assert inspector.get_indexes("staff") == []
    assert inspector.get_unique_constraints("staff") == []
    assert inspector.get_check_constraints("staff") == []
    assert inspector.get_enums() == []
    assert inspector.get_sequence_names() == []


def test_all_tables_are_reflected(inspector: Any) -> None:
    found = sqlalchemy.MetaData()
    found.reflect(inspector.engine)
    assert sorted(found.tables) == ["regions", "staff", "visits"]
    assert found.tables["visits"].c.spent.type.scale == 2
