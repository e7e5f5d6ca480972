"""Columns of lines of text: CSV and JSON, by expressions that have a value for every text.

Each line is one row, whatever stands in it. What it lacks is NULL, and so is what has no value
of the declared type; what it has beside is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpquery.core.types import Kind, Type
from dpquery.engine.duckdb.connection import duckdb_name, quoted, text
from dpquery.policy.model import Csv


def csv_rows(format_: Csv, fields: Sequence[str], types: Mapping[str, Type], lines: str) -> str:
    """Write the rows of lines of fields.

    A quote begins a stretch that ends with the next one, or with the line: in between no
    delimiter parts fields. So all of a line is taken in, in time that grows with its length.
    """
    delimiter, quote = text(format_.delimiter), format_.quote
    split = f"string_split(line, {delimiter})"
    if quote:
        d, q = (f"\\x{ord(sign):02x}" for sign in (format_.delimiter, quote))
        pattern = text(f"{d}((?:[^{d}{q}]|{q}[^{q}]*(?:{q}|$))*)")
        found = f"regexp_extract_all({delimiter} || line, {pattern}, 1)"
        split = f"CASE WHEN contains(line, {text(quote)}) THEN {found} ELSE {split} END"
    cells = {name: _field(fields.index(name) + 1, format_) for name in types}
    return _rows(cells, types, split, lines)


def _field(place: int, format_: Csv) -> str:
    """Write a field of a line, without the quotes around it."""
    raw, quote = f"f[{place}]", format_.quote
    plain = f"nullif({raw}, {text(format_.null)})"
    if not quote:
        return plain
    closed = f"ends_with({raw}, {text(quote)}) AND strlen({raw}) > 1"
    inner = f"CASE WHEN {closed} THEN {raw}[2:-2] ELSE {raw}[2:] END"
    inner = f"replace({inner}, {text(2 * quote)}, {text(quote)})"
    return f"CASE WHEN starts_with({raw}, {text(quote)}) THEN {inner} ELSE {plain} END"


def json_rows(types: Mapping[str, Type], lines: str) -> str:
    """Write the rows of lines of objects: of other lines, all columns are NULL."""
    pointers = (f"/{name.replace('~', '~0').replace('/', '~1')}" for name in types)
    listed = ", ".join(map(text, pointers))
    is_object = "json_valid(line) AND starts_with(ltrim(line), '{')"
    split = f"CASE WHEN {is_object} THEN json_extract_string(line, [{listed}]) END"
    cells = {name: f"f[{place}]" for place, name in enumerate(types, 1)}
    return _rows(cells, types, split, lines)


def _rows(cells: Mapping[str, str], types: Mapping[str, Type], split: str, lines: str) -> str:
    columns = [
        f"{_cast(cells[name], type_)} AS {quoted(name)}" for name, type_ in types.items()
    ]
    return f"SELECT {', '.join(columns) or '1 AS one'} FROM (SELECT {split} AS f FROM {lines})"


def _cast(cell: str, type_: Type) -> str:
    if type_.kind is Kind.TEXT:
        return cell
    return f"TRY_CAST({cell} AS {duckdb_name(type_)})"
