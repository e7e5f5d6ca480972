"""Whose rows a table holds: the type of its unit, and the way to a unit that another table has.

A table that stores no unit reaches it through a key of another table: a row belongs to every
unit that has a row there with its key, which is a *claim* to it. `Through` in `model.py` says
why that is unit-local.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from dpquery.core.types import MOMENTS, Kind, Type
from dpquery.errors import listed, nearest
from dpquery.policy.document import Section, Unfit, contradiction, dotted, toml_key, written
from dpquery.policy.model import Column, Table, Through
from dpquery.policy.name_conventions import own_words, person, refers_to
from dpquery.policy.toml_keys import TABLE
from dpquery.policy.unit_remedies import (
    NAME_IT,
    identifier_lines,
    identifies,
    tables_with,
    unit_line,
    unit_lines,
)
from dpquery.policy.value_parsers import ascii_folded, read_through

UNIT_KINDS = frozenset({Kind.INTEGER, Kind.TEXT, Kind.DECIMAL, *MOMENTS})
"""Types whose values are equal exactly or not at all."""
UNDECIDED = "?"
"""What a draft says in the place of what the owner alone knows."""


def stored_unit_type(
    section: Section, stated: Mapping[str, Any], columns: dict[str, Column]
) -> Type | None:
    """Return the type of the unit column of a table, where one is known.

    A column that is not listed is hidden from analysts; without a type it may hold integers or
    texts, which the first open verifies.
    """
    unit, declared = stated["unit"], stated["unit_type"]
    if unit is None or ("together" in stated and declared is None):
        return None
    if declared is not None and "together" in stated:
        unfit = contradiction("is said of several columns", "each has its own.", "leave it out")
        raise section.refuse("privacy_unit_type", unfit)
    if declared is not None:
        for column in columns:
            if ascii_folded(column) == ascii_folded(unit):
                what = f"is said of a column that is listed: {column}"
                why = "the type of a listed column stands in its own line."
                unfit = contradiction(what, why, "leave it out")
                raise section.refuse("privacy_unit_type", unfit)
    elif unit not in columns:
        if nearest(unit, columns) is not None:
            raise section.refuse("privacy_unit_column", _unlisted(section, unit, columns))
        return None
    key = "privacy_unit_column" if declared is None else "privacy_unit_type"
    return section.read(key, read_unit_type, unit, declared or columns[unit].type)


def several(
    section: Section, names: tuple[str, ...], columns: Mapping[str, Column]
) -> tuple[tuple[str, Type], ...]:
    """Return the columns that are the unit together: listed ones, that queries can equate."""
    key = "privacy_unit_column"
    for name in names:
        if name not in columns:
            near = nearest(name, columns)
            what = f"names a column that is not listed: {name}"
            why = "of a unit of several columns, all are listed, so that queries can name them."
            here = f"columns here: {listed(columns, near)}"
            raise section.refuse(key, contradiction(what, why, here))
        if "," in name:
            what, why = f"names a column with a comma: {name}", "their names are listed as one."
            raise section.refuse(key, contradiction(what, why, "another name for the column"))
        section.read(key, read_unit_type, name, columns[name].type)
    if ascii_folded(", ".join(names)) in map(ascii_folded, columns):
        what = f"is also the name of a column: {', '.join(names)}"
        why = "queries name the unit so, and the column would be taken for it."
        raise section.refuse(key, contradiction(what, why, "another name for the column"))
    return tuple((name, columns[name].type) for name in names)


def likely_units(types: Mapping[str, Type]) -> list[str]:
    """Return the columns that, by name and type, could say whose a row is: persons, if any."""
    said = own_words(types)
    found = {
        name: referred
        for name, type_ in types.items()
        if type_.kind in UNIT_KINDS
        and not type_.listed
        and (referred := refers_to(said[name], ())) is not None
    }
    return [name for name, referred in found.items() if person(referred)] or [*found]


def _unlisted(section: Section, unit: str, columns: dict[str, Column]) -> Unfit:
    able = [column.name for column in columns.values() if column.type.kind in UNIT_KINDS]
    likely = likely_units({name: column.type for name, column in columns.items()})
    near = nearest(unit, able) or next(iter(likely), None)
    meant = [f"privacy_unit_column = {written(near)}", "or, if that was not meant:"]
    return contradiction(
        f"names a column that is not listed: {unit}",
        "its type has to be known before any data is read. "
        f"Columns that can name a unit: {listed(able, near)}.",
        *(meant if near else ()),
        'privacy_unit_type = "integer"    keeps the column from analysts; or "text"',
        f'{toml_key(unit)} = {{ type = "integer" }}    '
        f"under [{dotted((*section.path, 'columns'))}] lets them name it",
    )


def undecided(section: Section, key: str, others: Sequence[str]) -> Unfit:
    """Return the refusal of what a draft leaves to the owner, who has to decide others too."""
    first, *more = _DECISIONS[key]
    if key != "unit":
        identifiers = identifier_lines(section) if key == "privacy_unit_column" else ()
        more = [*(unit_lines(section) or identifiers or [unit_line(section)])[:1], *more]
        privacy = section.document.values.get("privacy")
        if key == "public" or (isinstance(privacy, dict) and "unit" in privacy):
            more = [more[0], "or, if it holds nobody's data, in its place: public = true"]
    why = f"{first}\nStill to decide: {listed(others)}." if others else first
    return contradiction(f'is not decided: "{UNDECIDED}"', why, *more)


_DECISIONS = {
    "unit": (
        "it names the unit of the whole policy: the unit columns of all tables hold the same "
        "units, whatever they are called, and tables are joined on them.",
        'unit = "customer"',
        "or the word for whose presence is protected",
    ),
    "public": ("analysts see a public table as it is, so that it must hold nobody's data.",),
    "privacy_unit_column": (
        "it names the column of the person, account or device whose presence is protected.",
        "or leave the line out, if each row is a unit of its own",
    ),
}
"""Of what a draft asks: what it is for, and what can be written."""


def read_unit_type(unit: str, type_: Type) -> Type:
    """Return the type of a privacy unit, or refuse one whose values are not equal exactly."""
    if type_.kind not in UNIT_KINDS or type_.listed:
        what = f"makes a {type_} the privacy unit: {unit}"
        why = "rows belong to one unit when their values are equal, which is exact\n"
        remedy = "name a column of integers, texts, dates, timestamps or decimals"
        raise contradiction(
            what, f"{why}for integers, texts, dates, timestamps and decimals.", remedy
        )
    return type_


# The ways to units that other tables have.


def with_ways(section: Section, tables: Mapping[str, Table]) -> dict[str, Table]:
    """Return all tables, each with its way to its unit.

    Raises:
        PolicyInvalid: DPQ607 a way that leads nowhere, in a circle, or through a table that has
            no units; keys that cannot be compared.
    """
    found: dict[str, Table] = {}
    for name in tables:
        _follow(name, section, tables, found, ())
    return {name: found[name] for name in tables}


def _follow(
    name: str,
    section: Section,
    tables: Mapping[str, Table],
    found: dict[str, Table],
    before: tuple[str, ...],
) -> Table:
    """Return a table with its way; those before it are on the way here."""
    if name in found:
        return found[name]
    table, own = tables[name], section.child(name)
    if "unit_through" not in own:
        found[name] = table
        return table
    stated = read_through(own.values["unit_through"])
    here = (*before, name)
    _require_reachable(own, here, stated["table"], tables)
    target = _follow(stated["table"], section, tables, found, here)
    _require_unit(own, table, target, stated)
    type_ = _key_type(own, table, target, stated)
    named = {name for name, _ in target.together}
    there = {name: column for name, column in target.columns.items() if name in named}
    there |= {stated["key"]: Column(stated["key"], type_)}
    target = replace(target, columns=there, single=False)
    through = Through(stated["column"], target, stated["key"], type_)
    found[name] = replace(
        table,
        unit=target.unit,
        unit_type=target.unit_type,
        together=target.together,
        through=through,
    )
    return found[name]


def _refuse(own: Section, what: str, why: str, *remedy: str) -> NoReturn:
    raise own.refuse("unit_through", contradiction(what, why, *remedy))


def _require_reachable(
    own: Section, here: tuple[str, ...], other: str, tables: Mapping[str, Table]
) -> None:
    """Refuse a way to no table, to one that it came through, and to a public one."""
    if other not in tables:
        stated = read_through(own.values["unit_through"])
        able = tables_with(own, stated)
        near = nearest(other, able) or next(iter(able), None)
        _refuse(
            own,
            f"leads to a table that the policy does not name: {other}",
            "whose the rows are stands in another table of the policy.\n"
            f"Tables here: {listed(tables, near)}.",
            *([_line({**stated, "table": near})] if near else []),
        )
    if other in here:
        _refuse(
            own,
            f"leads in a circle: {' -> '.join((*here[here.index(other) :], other))}",
            "on the way a table has to say whose its rows are by a column of its own.",
            f"{NAME_IT}    in one of these tables",
        )
    if tables[other].public:
        _refuse(
            own,
            f"leads through a public table: {other}",
            "a public table holds nobody's rows, so it cannot say whose a row is.",
            f"leave out public = true of {other}, and say whose its rows are",
        )


def _require_unit(own: Section, table: Table, target: Table, stated: Mapping[str, Any]) -> None:
    """Refuse a way that ends at no unit, or at one that queries could not tell from columns."""
    if target.unit is None:
        _refuse(
            own,
            f"leads to a table of which each row is a unit of its own: {target.name}",
            "no column there says whose the rows are.",
            f"{_unit_of(own, target)}    in [tables.{toml_key(target.name)}]",
        )
    unit = ascii_folded(target.unit)
    taken = [n for n in (*table.columns, stated["column"]) if ascii_folded(n) == unit]
    if taken:
        _refuse(
            own,
            f"gives the table a unit {target.unit}, and it has a column of that name",
            "queries name the unit so, and the column would be taken for it.",
            f"privacy_unit_column = {written(taken[0])}    if the column holds the unit",
            "or another name for the column, in the files",
        )
    if target.through is not None and ascii_folded(stated["key"]) == unit:
        _refuse(
            own,
            f"has a key that is called as the unit is: {target.unit}",
            f"{target.name} does not store its unit: the column would be taken for it.",
            "another name for the column, in the files",
        )
    if table.parting is not None:
        name = table.parting.name
        _refuse(
            own,
            f"stands beside parts: {name}",
            "parts share a budget by what one table's files say, and this reads several.",
            f"leave out per_unit or parts of {name}, or write the unit into the files",
        )


def _unit_of(own: Section, target: Table) -> str:
    """Return a line that could say whose the rows of another table are."""
    tables = own.document.values["tables"]
    stated = tables.get(target.name) if isinstance(tables, dict) else None
    return unit_line(Section(own.document, ("tables", target.name), stated or {}))


def _key_type(section: Section, table: Table, target: Table, stated: Mapping[str, Any]) -> Type:
    """Return the one type of a column and of the key that it holds."""
    sides = (table, stated["column"]), (target, stated["key"])
    known = [of.columns[name].type for of, name in sides if name in of.columns]
    said = stated.get("type")
    _require_listed(section, sides, stated)
    if len(known) == 2 and said is not None:
        what = "states a type of columns that are listed"
        raise section.refuse(
            "unit_through",
            contradiction(what, "that stands in their own lines.", _line(stated, "type")),
        )
    if isinstance(said, Type):
        known.append(said)
    if not known:
        why = "their type has to be known before any data is read, and neither is listed."
        line = _line({**stated, "type": "integer"})
        unfit = contradiction("has keys of no type", why, f'{line}    or "text"')
        raise section.refuse("unit_through", unfit)
    if len(set(known)) > 1:
        names = " and ".join(f"{of.name}.{name}" for of, name in sides)
        what = f"compares {known[0]} with {known[1]}"
        why = f"keys are equal exactly where {names} have one type."
        unfit = contradiction(what, why, "write them with one type")
        raise section.refuse("unit_through", unfit)
    if known[0].kind not in UNIT_KINDS:
        why = "keys are equal exactly or not: integers, texts, dates, timestamps, decimals."
        unfit = contradiction(f"has a key of type {known[0]}", why, "name other columns")
        raise section.refuse("unit_through", unfit)
    return known[0]


def _require_listed(
    own: Section, sides: tuple[tuple[Table, str], ...], stated: Mapping[str, Any]
) -> None:
    """Refuse a column that is not listed, where its table lists one that was surely meant."""
    for part, (of, name) in zip(("column", "key"), sides, strict=True):
        if name in of.columns or name == of.unit:
            continue
        meant = None
        if "type" not in stated:  # which says that it is not listed
            asked = identifies(name)
            alike = [one for one in of.columns if asked and identifies(one) == asked]
            meant = nearest(name, of.columns) or next(iter(alike), None)
        if meant is not None:
            _refuse(
                own,
                f"names a column that {of.name} does not list: {name}",
                "a key that no file has makes every query of the table fail.",
                _line({**stated, part: meant}),
                f"columns of {of.name}: {listed(of.columns, meant)}",
                _line({**stated, "type": "integer"})
                + '    if it is there, and not listed; a UUID is "text"',
            )


def _line(stated: Mapping[str, object], *without: str) -> str:
    parts = (f"{k} = {written(str(v))}" for k, v in stated.items() if k not in without)
    return f"unit_through = {{ {', '.join(parts)} }}"


# One unit for all tables.


def require_one_domain(section: Section, tables: Mapping[str, Table], unit: str) -> None:
    """Refuse tables that cannot hold units of one domain.

    Raises:
        PolicyInvalid: DPQ607.
    """
    private = [table for table in tables.values() if not table.public]
    why = f"[privacy] unit = {written(unit)} says that all private tables hold the same units."
    for table in private:
        own, first = section.child(table.name), private[0]
        if table.unit is None:
            line = unit_line(own)
            what = "has rows that are units of their own"
            raise own.refuse(None, contradiction(what, why, line, "or public = true"))
        if table.unit_types is None:
            what = f"does not say of which type its unit is: {table.unit}"
            line = TABLE["privacy_unit_type"].line
            raise own.refuse("privacy_unit_column", contradiction(what, why, line))
        if table.unit_types != first.unit_types:
            one, other = (" and ".join(map(str, t.unit_types or ())) for t in (table, first))
            types = f"{one}, and that of {first.name} {other}"
            what = f"has another type than the unit of another table: {types}"
            remedy = "write the files with one type for the unit"
            raise own.refuse("privacy_unit_column", contradiction(what, why, remedy))
