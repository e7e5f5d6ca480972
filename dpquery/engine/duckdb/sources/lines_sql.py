"""Columns of lines of text: CSV and JSON, by expressions that have a value for every text.

Each line is one row, whatever stands in it. What it lacks is NULL, and so is what has no value
of the declared type; what it has beside is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpquery.core.types import Kind, Type
from dpquery.engine.duckdb.quoting import duckdb_name, quoted, text
from dpquery.policy.model import Column, Csv


def csv_rows(
    format_: Csv, fields: Sequence[str], columns: Mapping[str, Column], lines: str
) -> str:
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
    cells = {name: _field(fields.index(name) + 1, format_) for name in columns}
    return _rows(cells, columns, split, lines)


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


def json_rows(columns: Mapping[str, Column], lines: str) -> str:
    """Write the rows of lines of objects: of other lines, all columns are NULL."""
    pointers = (f"/{name.replace('~', '~0').replace('/', '~1')}" for name in columns)
    listed = ", ".join(map(text, pointers))
    is_object = "json_valid(line) AND starts_with(ltrim(line), '{')"
    split = f"CASE WHEN {is_object} THEN json_extract_string(line, [{listed}]) END"
    cells = {name: f"f[{place}]" for place, name in enumerate(columns, 1)}
    return _rows(cells, columns, split, lines)


def _rows(
    cells: Mapping[str, str], columns: Mapping[str, Column], split: str, lines: str
) -> str:
    written = [
        f"{_cast(cells[name], column)} AS {quoted(name)}" for name, column in columns.items()
    ]
    return f"SELECT {', '.join(written) or '1 AS one'} FROM (SELECT {split} AS f FROM {lines})"


def _cast(cell: str, column: Column) -> str:
    """Write the value of a text; of what tells units apart, none that is cut or rounded."""
    if column.type.kind is Kind.TEXT:
        return cell
    value = f"TRY_CAST({cell} AS {duckdb_name(column.type)})"
    form = _whole(column.type) if column.exact else None
    if form is None:
        return value
    return f"CASE WHEN regexp_full_match({cell}, {text(form)}) THEN {value} END"


def _whole(type_: Type) -> str | None:
    """Return the form of the texts of which a type holds all that they say."""
    match type_.kind:
        case Kind.INTEGER | Kind.DECIMAL:
            return rf"\s*[+-]?\d*\.?\d{{0,{type_.scale}}}0*\s*"
        case Kind.DATE:
            return r"\s*[^\sT:]+([ T]00:00(:00(\.0*)?)?)?\s*"
        case Kind.TIMESTAMP | Kind.TIMESTAMPTZ | Kind.TIME:
            return r"[^.]*(\.\d{1,6}0*)?([^.\d][^.]*)?"
    return None
