"""What a refusal offers to say whose rows a table holds, by names that the policy has itself.

No column is offered that a table does not list: a wrong name would only be refused again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dpquery.policy.document import Section, written
from dpquery.policy.name_conventions import entity, own_words, person, refers_to, words

_EQUAL = ("integer", "text", "date", "timestamp", "timestamptz", "time", "decimal")
NAME_IT = "privacy_unit_column, with the name of the column that says whose a row is"


def unit_lines(section: Section) -> tuple[str, ...]:
    """Return lines that could say whose the rows of a table are, the likeliest first.

    That is the unit column of another table, or one of its root (`card` for `card_no`), the way
    to one by a key that both have, or a column that names a person. Where a table lists none of
    these, there are no lines.
    """
    own, others = _types(section.values), list(_others(section))
    found = [written(unit) for _, other in others if (unit := _unit(other)) in own]
    roots = {identifies(unit) for _, other in others if (unit := _unit(other))} - {None, ""}
    found += [
        written(name) for name in own if {identifies(name), "_".join(words(name))} & roots
    ]
    lines = [f"privacy_unit_column = {unit}" for unit in found]
    for name, other in sorted(others, key=lambda one: _unit(one[1]) is None):
        lines += [way_line(key, name, key) for key in _shared(own, _types(other))]
    said = own_words(own)
    likely = [name for name, words in said.items() if person(refers_to(words, ()))]
    lines += [f"privacy_unit_column = {written(name)}" for name in likely]
    return tuple(dict.fromkeys(lines))


def identifier_lines(section: Section) -> tuple[str, ...]:
    """Return lines that name what could identify somebody: no key of the table's own rows."""
    none = {None, "", entity(section.path[-1])}
    names = (name for name in _types(section.values) if identifies(name) not in none)
    return tuple(f"privacy_unit_column = {written(name)}" for name in names)


def tables_with(section: Section, way: Mapping[str, object]) -> list[str]:
    """Return the other tables that have a unit and the key of a way, in the column's type."""
    column = _types(section.values).get(str(way["column"]))
    found = []
    for name, other in _others(section):
        key = _types(other).get(str(way["key"]))
        if key is not None and column in {None, key}:
            found.append(name)
    return found


def unit_line(section: Section) -> str:
    """Return the likeliest line, or what it would say."""
    lines = unit_lines(section)
    plain = NAME_IT if _types(section.values) else 'privacy_unit_column = "user_id"'
    return lines[0] if lines else plain


def way_line(column: str, table: str, key: str) -> str:
    """Write the way to the unit of another table."""
    return (
        f"unit_through = {{ column = {written(column)}, table = {written(table)}, "
        f"key = {written(key)} }}"
    )


def _shared(own: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Return the columns of two tables that identify something, by one name and type."""
    return [
        name
        for name, type_ in own.items()
        if other.get(name) == type_ and type_.startswith(_EQUAL) and identifies(name)
    ]


def identifies(name: str) -> str | None:
    """Return what a column identifies, by its name alone; None is nothing."""
    return refers_to(words(name), ())


def _others(section: Section) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the other tables that say whose their rows are, but for ways through this one."""
    tables = section.document.values.get("tables")
    for name, other in tables.items() if isinstance(tables, dict) else ():
        if not isinstance(other, dict) or name == section.path[-1]:
            continue
        way = other.get("unit_through")
        if _unit(other) or (isinstance(way, dict) and way.get("table") != section.path[-1]):
            yield name, other


def _unit(table: Mapping[str, object]) -> str | None:
    unit = table.get("privacy_unit_column")
    return unit if isinstance(unit, str) and unit != "?" else None


def _types(table: Mapping[str, object]) -> dict[str, str]:
    """Return the listed columns that hold single values, with the type of each."""
    columns = table.get("columns")
    found = columns.items() if isinstance(columns, dict) else ()
    said = {name: one.get("type") for name, one in found if isinstance(one, dict)}
    return {name: one for name, one in said.items() if isinstance(one, str) and "[" not in one}
