"""Four writers of Parquet, and DuckDB files, each with the types that its users' files have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.publicdata.sets import DataSet, frame_of


def _few(data: DataSet, frame: Any) -> list[str]:
    """Return the columns of text that are categories."""
    import pandas as pd

    texts = [n for n in frame.columns if pd.api.types.is_string_dtype(frame[n].dtype)]
    return [n for n in texts if n != data.unit and frame[n].nunique() <= 40]


def _whole(frame: Any) -> list[str]:
    return [name for name in frame.columns if frame[name].dtype == "int64"]


def _short(frame: Any) -> list[str]:
    """Return the columns of doubles that have at most three digits after the point."""
    doubles = [name for name in frame.columns if frame[name].dtype == "float64"]
    return [n for n in doubles if (frame[n].dropna() == frame[n].dropna().round(3)).all()]


def write_pandas(data: DataSet, folder: Path) -> Path:
    """Nanoseconds, categories, objects, and an index that becomes a column."""
    frame = frame_of(data).copy()
    few = _few(data, frame)
    for name in frame.columns:
        kind = str(frame[name].dtype)
        if name in few:
            frame[name] = frame[name].astype("category")
        elif kind == "str":
            frame[name] = frame[name].astype(object)
        elif kind.startswith("datetime64"):
            zone = ", UTC" if "UTC" in kind else ""
            frame[name] = frame[name].astype(f"datetime64[ns{zone}]")
    shuffled = frame.sample(frac=1, random_state=1)  # its index is __index_level_0__
    frame = frame.set_index(data.index) if data.index else shuffled
    path = folder / f"{data.name}.parquet"
    frame.to_parquet(path)
    return path


def write_polars(data: DataSet, folder: Path) -> Path:
    """Unsigned integers, categoricals, days, and moments of micro- and nanoseconds."""
    import polars as pl

    source = frame_of(data)
    few, whole = _few(data, source), _whole(source)
    changed = [pl.col(name).cast(pl.Categorical) for name in few]
    changed += [pl.col(n).cast(pl.UInt64) for n in whole if (source[n] >= 0).all()]
    for name in data.moments:
        zone = "UTC" if "UTC" in str(source[name].dtype) else None
        moment = pl.Datetime("us" if zone else "ns", zone)
        changed.append(pl.col(name).cast(pl.Date if name in data.days else moment))
    path = folder / f"{data.name}.parquet"
    pl.from_pandas(source).with_columns(changed).write_parquet(path)
    return path


def _duckdb(data: DataSet) -> Iterator[str]:
    """Yield the columns of a table with the types that a DuckDB user declares."""
    frame = frame_of(data)
    few, whole, short = _few(data, frame), _whole(frame), _short(frame)
    for at, name in enumerate(frame.columns):
        type_ = None
        if name in few:
            values = sorted(frame[name].dropna().unique(), reverse=True)
            listed = ", ".join("'" + value.replace("'", "''") + "'" for value in values)
            type_ = f"ENUM ({listed})"
        elif name in whole:
            plain = "INTEGER" if frame[name].max() < 2**31 else "UBIGINT"
            # In Parquet a HUGEINT is a double, which no unit can be.
            type_ = "HUGEINT" if at % 2 and name != data.unit else plain
        elif name in short:
            type_ = "DECIMAL(18, 3)"
        elif name in data.moments:
            zoned = "UTC" in str(frame[name].dtype)
            type_ = "DATE" if name in data.days else "TIMESTAMPTZ" if zoned else "TIMESTAMP"
        column = f'"{name}"'
        yield f"CAST({column} AS {type_}) AS {column}" if type_ else column


def write_duckdb(data: DataSet, folder: Path) -> Path:
    """ENUM, HUGEINT, DECIMAL and TIMESTAMPTZ, by COPY."""
    import duckdb

    path = folder / f"{data.name}.parquet"
    with duckdb.connect(config={"threads": 2}) as connection:
        connection.register("source", frame_of(data))
        columns = ", ".join(_duckdb(data))
        connection.execute(f"COPY (SELECT {columns} FROM source) TO '{path}' (FORMAT parquet)")
    return path


def write_database(data: DataSet, folder: Path) -> Path:
    """A table of a DuckDB file, where a HUGEINT stays what it is."""
    import duckdb

    path = folder / f"{data.name}.duckdb"
    with duckdb.connect(path, config={"threads": 2}) as connection:
        connection.register("source", frame_of(data))
        columns = ", ".join(_duckdb(data))
        connection.execute(f"CREATE TABLE {data.name} AS SELECT {columns} FROM source")
    return path


def write_spark(data: DataSet, folder: Path) -> Path:
    """A folder of parts: INT96 or instants of microseconds, and wide decimals."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    source = frame_of(data)
    table, short, whole = (
        pa.Table.from_pandas(source, preserve_index=False),
        _short(source),
        _whole(source),
    )
    table, zoned = table.replace_schema_metadata(None), False
    for at, name in enumerate(table.column_names):
        column = table[name]
        if name in short:
            column = pc.cast(column, pa.decimal128(38, 18), safe=False)
        elif name in whole and source[name].abs().max() < 2**31:
            column = column.cast(pa.int32())
        elif name in data.days:
            column = column.cast(pa.timestamp("s")).cast(pa.date32())
        elif name in data.moments:
            zoned = column.type.tz is not None
            column = column.cast(pa.timestamp("us", "UTC" if zoned else None))
        elif pa.types.is_large_string(column.type):
            column = column.cast(pa.string())
        table = table.set_column(at, name, column)
    place = folder / data.name
    place.mkdir()
    size = -(-len(table) // 3)
    for number in range(3):
        part = f"part-{number:05}-5e1a7f0c-93d2-4c1b-8d6e-2b7a40c9f1aa-c000.snappy.parquet"
        pq.write_table(
            table.slice(number * size, size),
            place / part,
            compression="snappy",
            store_schema=False,  # Spark knows nothing of Arrow's
            use_deprecated_int96_timestamps=not zoned,
        )
        (place / f".{part}.crc").write_bytes(b"crc\0")
    (place / "_SUCCESS").touch()
    (place / "._SUCCESS.crc").write_bytes(b"crc\0")
    return place


WRITERS: dict[str, Callable[[DataSet, Path], Path]] = {
    "pandas": write_pandas,
    "polars": write_polars,
    "duckdb": write_duckdb,
    "spark": write_spark,
    "database": write_database,
}
