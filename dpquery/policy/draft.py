"""A first policy, drafted from names and types of columns alone: no row is read (I1).

It does not load until the data owner has named the privacy unit: a guess could be wrong, and a
wrong unit protects nobody. Bounds stand as comments: they must not come from the data.
"""

from __future__ import annotations

from pathlib import Path

from dpquery.core.types import Kind
from dpquery.policy.document import Unfit, toml_key, toml_text, written
from dpquery.policy.files import find_files, stem
from dpquery.policy.load import likely_units
from dpquery.policy.model import Column, Files, Table
from dpquery.policy.schema import Schema, file_misfits, read_schema

_HEAD = """\
# A policy: what may be asked of these tables, and the privacy budget in all.
# Drafted from the schema of {file}; no row was read.

[privacy]
neighbours = "add-remove"    # or "substitute", where the number of units is public

[budget]
epsilon = 1                  # the most that all queries together may lose

[tables.{table}]
path = {path}    # relative to this file
# Whose presence is protected? Write the column that names that person, account or device.
# {guess}
privacy_unit_column = "?"
# How many rows may one of them have? One of these two lines, or each query has to say it.
# rows_per_unit = 1               # one at most: the least noise; a scan verifies it
# max_rows_contributed = "auto"   # any number: a query finds how many count, for 1/5 of its ε
#                                 # or a number that few have more than, such as 20

# What is not listed does not exist for analysts: delete what nobody should ask about.
# Choose bounds and keys from what a column means, never by looking at the data.
# per_unit = true beside the keys of one column: a person has one of them, such as a home, and
# queries about different keys do not add up. parts = true: a person may have several of them,
# and queries with weights='table' do not add up. `dpquery explain parts` has more.
[tables.{table}.columns]
"""
_HINTS = {
    Kind.INTEGER: "bounds = [0, 100]",
    Kind.DOUBLE: "bounds = [0, 100]",
    Kind.DECIMAL: "bounds = [0, 9]",
    Kind.TEXT: 'keys = ["a", "b"]',
    Kind.DATE: "bounds = [2000-01-01, 2030-12-31]",
    Kind.TIMESTAMP: "bounds = [2000-01-01T00:00:00, 2030-12-31T23:59:59]",
}


def draft(path: str | Path) -> str:
    """Draft a policy for a Parquet file, or a glob of them; the path is kept as written.

    Raises:
        PolicyInvalid: DPQ601 the file is not there, or not Parquet; DPQ612 files of a glob do
            not have the columns of the first.
    """
    try:
        files = find_files([str(path)], Path.cwd())
        schema = read_schema(files[0])
        _refuse_others(files, schema)
    except Unfit as unfit:
        raise unfit.at("the path") from None
    guess = "No column looks like one by its name. Without this line each row is its own unit."
    if likely := likely_units(schema.types):
        guess = f"By its name it could be {' or '.join(map(written, likely))}: confirm."
    head = _HEAD.format(
        file=written(Path(path).name),
        table=toml_key(stem(str(path)) or "people"),
        path=toml_text(Path(path).as_posix()),
        guess=guess,
    )
    columns = {f'{toml_key(name)} = {{ type = "{t}" }}': t for name, t in schema.types.items()}
    edge = max(map(len, columns), default=0)
    lines = [
        f"{line:{edge}}   # with {_HINTS[type_.kind]}, say" if type_.kind in _HINTS else line
        for line, type_ in columns.items()
    ]
    lines += [f"# {written(name)} is left out: {why}" for name, why in schema.left_out.items()]
    return head + "\n".join(lines) + "\n"


def _refuse_others(files: tuple[Path, ...], first: Schema) -> None:
    """Refuse files that do not fit what is drafted from the first of them."""
    columns = {name: Column(name, type_) for name, type_ in first.types.items()}
    misfits = file_misfits(Table("", Files(files), (), columns))
    if misfits:
        raise Unfit(
            f"matches files that differ from {files[0].name}: {misfits[0]}",
            "all files of a table have the columns of the first, in types that widen to its.",
            "leave out the files that differ, or draft a table for each kind",
            code="DPQ612",
        )
