"""The columns of a table in the policy file, and which of them names the privacy unit.

What is not listed does not exist for analysts. Nothing here knows of files or budgets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial

from dpquery.core.types import Kind, Type
from dpquery.errors import listed, nearest
from dpquery.policy.document import Section, Unfit, dotted, toml_key, written
from dpquery.policy.model import MAX_TEXT, Column
from dpquery.policy.values import (
    read_bounds,
    read_count,
    read_flag,
    read_grid,
    read_keys,
    read_name,
    read_type,
)

TEXT_LONGEST = 2**16
"""Characters: each text is carried at this length through joins and groups."""
_UNIT_NAME = re.compile(
    r"(?i)(.*[_ -])?(id|uid|user|person|customer|client|patient|account|member|device|employee)"
    r"([_ -]?(id|no|nr|number|key))?"
)
UNIT_KINDS = frozenset({Kind.INTEGER, Kind.TEXT})
"""Types whose values are equal exactly or not at all."""
UNCONFIRMED = "?"
"""What a draft names as the unit column, until the owner says which it is."""
_PRIVATE_KEYS = ("bounds", "keys", "grid", "max_length", "per_unit", "parts", "null_group")
_PARTING_KINDS = frozenset({Kind.TEXT, Kind.INTEGER, Kind.BOOLEAN, Kind.DATE})
PARTS_MAX = 255
"""Values of a column that parts a table: what each part has spent stands in every charge."""


def read_columns(section: Section, *, public: bool) -> dict[str, Column]:
    """Read the columns under a table, in the policy's order."""
    refuse_alike(section)
    columns = {name: _column(name, child, public) for name, child in _children(section)}
    parting = [name for name, column in columns.items() if _key_of_parts(column)]
    if len(parting) > 1:
        first, second = (_key_of_parts(columns[name]) for name in parting[:2])
        also = "too" if first == second else f"has {first}"
        what = f"is said of two columns: {parting[0]} {also}"
        why = "a table has the parts of one column, and two would each name others."
        unfit = Unfit(what, why, f"{second} = true for one of them", code="DPQ607")
        raise section.child(parting[1]).refuse(second, unfit)
    return columns


def _children(section: Section) -> Iterable[tuple[str, Section]]:
    for name, value in section.values.items():
        if isinstance(value, str):
            what = f"is not a table but {written(value)}"
            remedy = f"{toml_key(name)} = {{ type = {written(value)} }}"
            raise section.refuse(name, Unfit(what, "a column has a table of keys.", remedy))
        yield name, section.child(name)


def refuse_alike(section: Section) -> None:
    """Refuse names that are none, and names that SQL would not tell apart.

    Raises:
        PolicyInvalid: DPQ604 not a name; DPQ607 two names differ in ASCII case only.
    """
    seen: dict[str, str] = {}
    for name in section.values:
        try:
            folded = ascii_folded(read_name(name))
        except Unfit as unfit:
            raise section.refuse(name, unfit) from None
        if folded in seen:
            what = f"differs from {seen[folded]} in case only"
            why = "queries do not distinguish upper and lower case, so neither could be meant."
            remedy = "rename or leave out one of the two"
            raise section.refuse(name, Unfit(what, why, remedy, code="DPQ607"))
        seen[folded] = name


def ascii_folded(name: str) -> str:
    """Fold the ASCII letters of a name, as the engine does; other letters keep their case.

    >>> ascii_folded("NAÏVE")
    'naÏve'
    """
    return "".join(char.lower() if char.isascii() else char for char in name)


def _column(name: str, section: Section, public: bool) -> Column:
    section.only(("type", *_PRIVATE_KEYS))
    if "type" not in section:
        unfit = Unfit("has no type", "types come from the policy.", 'type = "integer"')
        raise section.refuse(None, unfit)
    type_ = section.need("type", read_type)
    _refuse_unmeant(section, type_, public)
    bounds = section.read("bounds", partial(read_bounds, type_=type_), None)
    longest = section.read("max_length", read_count(TEXT_LONGEST), MAX_TEXT)
    keys = partial(read_keys, type_=type_, bounds=bounds, max_length=longest)
    kept = section.read("per_unit", _read_per_unit, None)
    column = Column(
        name,
        type_,
        bounds,
        section.read("keys", keys, None),
        section.read("grid", read_grid, None),
        longest,
        kept,
        section.read("parts", read_flag, False),
        section.read("null_group", read_flag, True),
    )
    if column.per_unit and column.parts_rows:
        what = "stands beside per_unit, which it takes the place of"
        why = "a unit keeps the rows of some of its parts, or of all."
        raise section.refuse("parts", Unfit(what, why, "leave one of them out", code="DPQ607"))
    key = _key_of_parts(column)
    if key:
        _refuse_no_parts(section, column, key)
    return column


def _read_per_unit(value: object) -> int | None:
    """Read of how many parts a unit's rows count: true is one, and false is all."""
    if isinstance(value, bool):
        return 1 if value else None
    if not isinstance(value, int) or not 1 <= value < PARTS_MAX:
        what = f"must be true, or an integer from 1 to {PARTS_MAX - 1}, not {written(value)}"
        raise Unfit(what, "a unit keeps the rows of so many parts.", "true")
    return value


def _key_of_parts(column: Column) -> str:
    """Return the key that makes the values of a column parts, if one does."""
    return "per_unit" if column.per_unit else "parts" if column.parts_rows else ""


def _refuse_no_parts(section: Section, column: Column, key: str) -> None:
    """Refuse to part a table by a column without a short list of exact values."""
    if column.type.kind not in _PARTING_KINDS:
        what = f"does not apply to a column of type {column.type}"
        why = "parts are told by values that are equal exactly: texts, integers, dates, truth."
        remedy = "leave it out"
    elif not column.parts:
        what, why = "needs keys", "each of them is a part, and all other values are one more."
        line = f"{{ type = {written(str(column.type))}, keys = [...], {key} = true }}"
        remedy = f"{toml_key(column.name)} = {line}"
    elif len(column.parts) > PARTS_MAX:
        what = f"parts a table into more than {PARTS_MAX} keys"
        why = "the ledger holds what each part has spent."
        remedy = "fewer keys, or leave it out"
    else:
        return
    raise section.refuse(key, Unfit(what, why, remedy, code="DPQ607"))


def _refuse_unmeant(section: Section, type_: Type, public: bool) -> None:
    """Refuse keys that mean nothing for a column of this type, or of a public table."""
    if public and (said := next((key for key in _PRIVATE_KEYS if key in section), None)):
        why = "columns of a public table are shown as they are: not clamped, cut or rounded."
        unfit = Unfit("does not apply to a public table", why, "leave it out", code="DPQ607")
        raise section.refuse(said, unfit)
    for key, kind in (("grid", Kind.DOUBLE), ("max_length", Kind.TEXT)):
        if key in section and type_.kind is not kind:
            what = f"does not apply to a column of type {type_}"
            unfit = Unfit(what, f"only a {kind} has it.", "leave it out", code="DPQ607")
            raise section.refuse(key, unfit)


def read_unit(section: Section, columns: dict[str, Column]) -> tuple[str | None, Type | None]:
    """Read the unit column of a table, and its type where one is declared.

    A column that is not listed is hidden from analysts; without a type it may hold integers or
    texts, which the first open verifies.

    Raises:
        PolicyInvalid: DPQ607 it looks like a misspelt column, its type is declared twice, or it
            compares inexactly.
    """
    unit = section.read("privacy_unit_column", read_name, None)
    if unit is None:
        return None, None
    declared = section.read("privacy_unit_type", read_type, None)
    if declared is not None and (alike := _alike(unit, columns)) is not None:
        what = f"is said of a column that is listed: {alike}"
        why = "the type of a listed column stands in its own line."
        unfit = Unfit(what, why, "leave it out", code="DPQ607")
        raise section.refuse("privacy_unit_type", unfit)
    if declared is not None:
        _refuse_type(section, "privacy_unit_type", unit, declared)
        return unit, declared
    if unit not in columns:
        if unit == UNCONFIRMED or nearest(unit, columns) is not None:
            raise section.refuse("privacy_unit_column", _unlisted(section, unit, columns))
        return unit, None
    _refuse_type(section, "privacy_unit_column", unit, columns[unit].type)
    return unit, columns[unit].type


def likely_units(types: Mapping[str, Type]) -> list[str]:
    """Return the columns that, by name and type, could say whose a row is."""
    able = [name for name, type_ in types.items() if type_.kind in UNIT_KINDS]
    return [name for name in able if _UNIT_NAME.fullmatch(name)]


def _alike(name: str, columns: dict[str, Column]) -> str | None:
    folded = ascii_folded(name)
    return next((column for column in columns if ascii_folded(column) == folded), None)


def _unlisted(section: Section, unit: str, columns: dict[str, Column]) -> Unfit:
    able = [column.name for column in columns.values() if column.type.kind in UNIT_KINDS]
    likely = likely_units({name: column.type for name, column in columns.items()})
    near = nearest(unit, able) or next(iter(likely), None)
    meant = [f"privacy_unit_column = {written(near)}", "or, if that was not meant:"]
    return Unfit(
        f"names a column that is not listed: {unit}",
        f"its type has to be known before any data is read. Listed: {listed(able, near)}.",
        *(meant if near else ()),
        'privacy_unit_type = "integer"    keeps the column from analysts; or "text"',
        f'{toml_key(unit)} = {{ type = "integer" }}    '
        f"under [{dotted((*section.path, 'columns'))}] lets them name it",
        code="DPQ607",
    )


def _refuse_type(section: Section, key: str, unit: str, type_: Type) -> None:
    if (unfit := refuse_unit_type(unit, type_)) is not None:
        raise section.refuse(key, unfit)


def refuse_unit_type(unit: str, type_: Type) -> Unfit | None:
    """Return the refusal of a unit column by its type; none for an integer or a text."""
    if type_.kind in UNIT_KINDS:
        return None
    return Unfit(
        f"makes a {type_} the privacy unit: {unit}",
        "rows belong to one unit when their values are equal, which is exact\n"
        "for integers and texts.",
        "name an integer or a text column",
        code="DPQ607",
    )
