"""The columns of a table in the policy file, and which of them names the privacy unit.

What is not listed does not exist for analysts. Nothing here knows of files or budgets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from dpquery.core.types import Kind, Type
from dpquery.errors import listed, nearest
from dpquery.policy.document import Section, Unfit, dotted, toml_key, written
from dpquery.policy.keys import COLUMN, missing
from dpquery.policy.model import Column
from dpquery.policy.values import PARTS_MAX, read_name

_UNIT_NAME = re.compile(
    r"(?i)(.*[_ -])?(id|uid|user|person|customer|client|patient|account|member|device|employee)"
    r"([_ -]?(id|no|nr|number|key))?"
)
UNIT_KINDS = frozenset({Kind.INTEGER, Kind.TEXT})
"""Types whose values are equal exactly or not at all."""
UNCONFIRMED = "?"
"""What a draft names as the unit column, until the owner says which it is."""


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


def _column(name: str, section: Section, public: bool) -> Column:
    if "type" not in section:
        section.only(COLUMN.names)
        raise section.refuse(None, missing(COLUMN["type"], "DPQ604"))
    column = Column(name, **COLUMN.read(section, public=public))
    if (key := _key_of_parts(column)) and (unfit := _unparted(column, key)) is not None:
        raise section.refuse(key, unfit)
    return column


def _key_of_parts(column: Column) -> str:
    """Return the key that makes the values of a column parts, if one does."""
    return "per_unit" if column.per_unit else "parts" if column.parts_rows else ""


def _unparted(column: Column, key: str) -> Unfit | None:
    """Return the refusal to part a table by a column without a short list of values."""
    if not column.parts:
        why = "each of them is a part, and all other values are one more."
        line = f"{{ type = {written(str(column.type))}, keys = [...], {key} = true }}"
        return Unfit("needs keys", why, f"{toml_key(column.name)} = {line}", code="DPQ607")
    if len(column.parts) > PARTS_MAX:
        what = f"parts a table into more than {PARTS_MAX} keys"
        why = "the ledger holds what each part has spent."
        return Unfit(what, why, "fewer keys, or leave it out", code="DPQ607")
    return None


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
            why = "it names a table, a column or an analyst."
            raise section.refuse(name, Unfit(unfit.what, why, "another name")) from None
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


def read_unit(
    section: Section, unit: str | None, declared: Type | None, columns: dict[str, Column]
) -> Type | None:
    """Return the type of the unit column of a table, where one is known.

    A column that is not listed is hidden from analysts; without a type it may hold integers or
    texts, which the first open verifies.

    Raises:
        PolicyInvalid: DPQ607 it looks like a misspelt column, its type is declared twice, or it
            compares inexactly.
    """
    if unit is None:
        return None
    key, type_ = "privacy_unit_type", declared
    if declared is None:
        if unit not in columns:
            if unit == UNCONFIRMED or nearest(unit, columns) is not None:
                raise section.refuse("privacy_unit_column", _unlisted(section, unit, columns))
            return None
        key, type_ = "privacy_unit_column", columns[unit].type
    elif (alike := _alike(unit, columns)) is not None:
        what = f"is said of a column that is listed: {alike}"
        why = "the type of a listed column stands in its own line."
        raise section.refuse(key, Unfit(what, why, "leave it out", code="DPQ607"))
    if type_ is not None and (unfit := refuse_unit_type(unit, type_)) is not None:
        raise section.refuse(key, unfit)
    return type_


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
