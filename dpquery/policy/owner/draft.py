"""A first policy, drafted from names and types of columns alone: no row is read (I1).

What only the owner knows stands as "?", and the policy does not load before it is decided: a
guess could be wrong, and a wrong unit protects nobody. Bounds and keys stand as comments: they
must not come from the data.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from dpquery.core.source_text import visible
from dpquery.core.types import Kind, Type
from dpquery.policy.document import Unfit, toml_key, toml_text, written
from dpquery.policy.name_conventions import (
    FREE,
    GROUP,
    PERSONS,
    entity,
    own_words,
    person,
    refers_to,
)
from dpquery.policy.owner.find_tables import Databases, FoundTable, find_tables
from dpquery.policy.unit_paths import UNDECIDED, UNIT_KINDS, likely_units

_ASKED = f'"{UNDECIDED}"'


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a policy, and what is said of it."""

    text: str
    note: str = ""


RELATION = Line(
    'neighbours = "add-remove"', 'or "substitute", where the number of units is public'
)


@dataclass(frozen=True, slots=True)
class Link:
    """A column of one table that names rows of another."""

    column: str
    table: str
    key: str
    type: Type | None = None
    """Said where neither column is listed."""

    @property
    def toml(self) -> str:
        """The link as the value of `unit_through`."""
        said = {"column": self.column, "table": self.table, "key": self.key}
        if self.type is not None:
            said["type"] = str(self.type)
        return (
            f"{{ {', '.join(f'{key} = {toml_text(value)}' for key, value in said.items())} }}"
        )


@dataclass(frozen=True, slots=True)
class ColumnDraft:
    """A column of a policy to be."""

    name: str
    type: Type
    note: str = ""
    hint: str = ""
    """A key that it may need, with a value for example."""
    stated: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The column as a line of a policy."""
        typed = any(one.startswith("type") for one in self.stated)
        said = ", ".join(self.stated if typed else (f'type = "{self.type}"', *self.stated))
        return f"{toml_key(self.name)} = {{ {said} }}"


@dataclass(frozen=True, slots=True)
class TableDraft:
    """A table of a policy to be."""

    name: str
    source: tuple[Line, ...]
    settings: tuple[Line, ...]
    """What is said of units; of a finished draft, nothing is undecided."""
    columns: tuple[ColumnDraft, ...]
    remarks: tuple[str, ...] = ()
    unit: str | None = None
    """The column that could name the unit, by its name."""
    through: Link | None = None
    key: str | None = None
    """The column that could tell its rows apart, by its name."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A policy to be."""

    named: str
    """What it is drafted from."""
    tables: tuple[TableDraft, ...]
    unit: str | None = None
    """Whose presence the tables together protect, by the names of columns."""
    privacy: tuple[Line, ...] = (RELATION,)
    budget: tuple[Line, ...] = (Line("epsilon = 1", "the most that all queries may lose"),)
    left_out: Mapping[str, str] = field(default_factory=dict)

    def text(self) -> str:
        """Write the policy."""
        told = [
            f"# {visible(name)} is left out: {why}".replace("\n", "\n# ")
            for name, why in self.left_out.items()
        ]
        lines = [*self.privacy, *(line for table in self.tables for line in table.settings)]
        undecided = any(line.text.endswith(_ASKED) for line in lines)
        parts = [
            _HEAD.format(named=self.named) + (_OPEN if undecided else ""),
            "\n".join(["[privacy]", *_aligned(self.privacy)]),
            "\n".join(["[budget]", *_aligned(self.budget)]),
            _SAID.rstrip(),
            *map(_table_text, self.tables),
            *(["\n".join(told)] if told else []),
        ]
        return "\n\n".join(parts) + "\n"


_HEAD = """\
# A policy: what may be asked of these tables, and the privacy budget in all.
# Drafted from the schema of {named}; no row was read."""
_OPEN = """
# It does not load before you have decided what only you know, where "?" stands."""
_SAID = """\
# Of each table say how many rows one unit may have, or each query has to say it:
#   rows_per_unit = 1               one at most: the least noise; a scan verifies it
#   max_rows_contributed = 20       or another number that few have more than
#   max_rows_contributed = "auto"   any number: a query finds how many count, for 1/5 of its ε
#
# What is not listed does not exist for analysts: delete what nobody should ask about.
# Choose bounds and keys from what a column means, never by looking at the data.
# per_unit = true beside the keys of one column: a person has one of them, such as a home, and
# queries about different keys do not add up. parts = true: a person may have several of them,
# and queries with weights='table' do not add up. `dpquery explain parts` has more.
"""


def _table_text(table: TableDraft) -> str:
    name = toml_key(table.name)
    columns = [
        Line(
            one.line, "; ".join(filter(None, [one.note, one.hint and f"with {one.hint}, say"]))
        )
        for one in table.columns
    ]
    return "\n".join(
        [
            f"[tables.{name}]",
            *_aligned(table.source),
            *_aligned(table.settings),
            f"[tables.{name}.columns]",
            *_aligned(columns),
            *(f"# {remark}" for remark in table.remarks),
        ]
    )


def _aligned(lines: Iterable[Line]) -> list[str]:
    """Write lines with their notes below one another."""
    lines = [*lines]
    edge = max((len(line.text) for line in lines if line.note), default=0)
    return [
        f"{line.text:{edge}}   # {visible(line.note)}" if line.note else line.text
        for line in lines
    ]


def draft(
    paths: str | Path | Sequence[str | Path],
    databases: Databases,
    out: Path | None = None,
) -> Draft:
    """Draft a policy for Parquet files, globs of them, folders and DuckDB files.

    Args:
        paths: what holds the tables; each is kept as written.
        databases: reads the schemas of a DuckDB file.
        out: where the policy will stand, if not here: paths start there.

    Raises:
        PolicyInvalid: DPQ601 a path names nothing that holds a table; DPQ612 files of a glob
            do not have the columns of the first; DPQ613 files of a table format.
    """
    asked = [paths] if isinstance(paths, str | Path) else [*paths]
    named = [_from(out, str(path)) for path in asked]
    try:
        found = find_tables(named, out.parent if out else Path.cwd(), databases)
    except Unfit as unfit:
        raise unfit.at("the path") from None
    of = ", ".join(written(_last_name(str(path))) for path in asked[:3])
    of += f" and {len(asked) - 3} more" if len(asked) > 3 else ""
    return replace(_drafted(found.tables), named=of, left_out=found.left_out)


def _from(out: Path | None, path: str) -> str:
    """Write a path as it starts at the folder of the policy."""
    if out is None or os.path.isabs(path) or "://" in path:
        return path
    return os.path.relpath(path, out.parent)


def _last_name(path: str) -> str:
    """Return what a file or folder is called; "." has a name, too."""
    return Path(path if "://" in path else os.path.abspath(path)).name or path


# Whose rows these are, by the names of columns.


@dataclass(frozen=True, slots=True)
class _Named:
    """A table with what its columns identify, by their names."""

    table: FoundTable
    holds: str
    refers: dict[str, str]

    @property
    def key(self) -> str | None:
        """The column that tells its rows apart."""
        return next((name for name, one in self.refers.items() if one == self.holds), None)

    def naming(self, who: str) -> str | None:
        """Return the column that says which of some persons a row is about."""
        named = [name for name, one in self.refers.items() if person(one) == who]
        return self.key if self.key in named else next(iter(named), None)

    def links(self, tables: Mapping[str, _Named]) -> Iterator[Link]:
        """Yield the columns that name rows of other tables."""
        for name, referred in self.refers.items():
            other = tables.get(referred) or tables.get(referred.rpartition("_")[2])
            if other is None or other is self or other.key is None:
                continue
            types = self.table.schema.types, other.table.schema.types
            untyped = name in self.table.untyped or other.key in other.table.untyped
            if untyped or types[0][name].kind is types[1][other.key].kind:
                yield Link(name, other.table.name, other.key)


def _named(tables: Sequence[FoundTable]) -> list[_Named]:
    known = [entity(table.name) for table in tables]
    found = []
    for table, holds in zip(tables, known, strict=True):
        said, refers = own_words(table.schema.types), {}
        for name, type_ in table.schema.types.items():
            one = refers_to(said[name], known) if type_.kind in UNIT_KINDS else None
            if one is not None:
                refers[name] = one or holds
        found.append(_Named(table, holds, refers))
    return found


@dataclass(frozen=True, slots=True)
class _Ways:
    """How tables lead to one kind of person."""

    who: str
    columns: dict[str, str]
    """The tables that name them, each with the column."""
    through: dict[str, Link]
    """The tables that name rows of a table above, or of one here."""
    asked: dict[str, tuple[str, ...]]
    """The tables that are about somebody who may be the same, each with columns that could
    say who."""

    @property
    def rank(self) -> tuple[int, int, int]:
        """How likely it is that these are protected."""
        return -PERSONS[self.who], len(self.columns) + len(self.through), len(self.columns)


def _ways(who: str, tables: Sequence[_Named], links: Mapping[str, Sequence[Link]]) -> _Ways:
    columns = {t.table.name: name for t in tables if (name := t.naming(who))}
    ways = _Ways(who, columns, {}, {})
    _follow(ways, links)
    for one in tables:
        named = next((name for name, of in one.refers.items() if person(of)), None)
        if named and not {one.table.name} & {*columns, *ways.through}:
            ways.asked[one.table.name] = (named,)
    _follow(ways, links)
    return ways


def _suspect(
    ways: _Ways, tables: Sequence[_Named], links: Mapping[str, Sequence[Link]]
) -> None:
    """Add the tables that seem to be about somebody: to be asked whose they are, not shown.

    A table is called as persons are, or has an identifier of nothing that a table here holds,
    such as a card number; a column may be called by its root alone, as `card`.
    """
    holding = {one.holds for one in tables}
    known = {*holding, *GROUP}
    every = {of for one in tables for of in one.refers.values()}
    strange = {of for of in every if not {of, of.rpartition("_")[2]} & known}
    for one in tables:
        if one.table.name in {*ways.columns, *ways.through, *ways.asked}:
            continue
        types = one.table.schema.types
        found = tuple(
            name
            for name, said in own_words(types).items()
            if types[name].kind in UNIT_KINDS
            and {one.refers.get(name), "_".join(said)} & strange
        )
        if found or person(one.holds):
            ways.asked[one.table.name] = found
    _follow(ways, links)


def _follow(ways: _Ways, links: Mapping[str, Sequence[Link]]) -> None:
    """Add the tables that lead there through another, the shortest ways first."""
    while True:
        reached = {*ways.columns, *ways.through, *ways.asked}
        further = {
            name: next(link for link in of if link.table in reached)
            for name, of in links.items()
            if name not in reached and any(link.table in reached for link in of)
        }
        if not further:
            return
        ways.through.update(further)


def _drafted(found: Sequence[FoundTable]) -> Draft:
    tables = _named(found)
    holding = {one.holds: one for one in tables}
    links = {one.table.name: [*one.links(holding)] for one in tables}
    tables = _typed_alike(tables, links)
    persons = {who: None for one in tables for of in one.refers.values() if (who := person(of))}
    every = [_ways(who, tables, links) for who in persons]
    ways = max(every, key=lambda way: way.rank, default=None)
    if len(tables) == 1 or ways is None:
        return Draft("", tuple(_table(one, _alone(one, links), links) for one in tables))
    _suspect(ways, tables, links)
    drafted = [_of_several(one, ways, links, tables) for one in tables]
    others = [written(way.who) for way in every if way is not ways]
    told = f"{written(ways.who)}, by the names of columns"
    if others:
        told += f"; there is also {', '.join(others)}"
    privacy = (
        Line("# Whose presence is protected, in all tables together?"),
        Line(f"# {told}: confirm."),
        Line(f"unit = {_ASKED}"),
        RELATION,
    )
    return Draft("", tuple(drafted), ways.who, privacy)


def _typed_alike(tables: Sequence[_Named], links: Mapping[str, Sequence[Link]]) -> list[_Named]:
    """Return the tables with one type for both ends of a link, where CSV says none."""
    types = {one.table.name: dict(one.table.schema.types) for one in tables}
    untyped = {one.table.name: one.table.untyped for one in tables}
    for name, of in links.items():
        for link in of:
            here, there = types[name], types[link.table]
            if link.column in untyped[name]:
                here[link.column] = there[link.key]
            elif link.key in untyped[link.table]:
                there[link.key] = here[link.column]
    found = []
    for one in tables:
        schema = replace(one.table.schema, types=types[one.table.name])
        found.append(replace(one, table=replace(one.table, schema=schema)))
    return found


# The lines of a table, by the way on which it leads to its units.


def _alone(one: _Named, links: Mapping[str, Sequence[Link]]) -> tuple[Line, ...]:
    """Return the question for the unit of a table, with what its names say."""
    likely = likely_units(one.table.schema.types)
    told = "No column looks like it; without this line each row is its own unit"
    if likely:
        told = f"By its name {' or '.join(map(written, likely))}: confirm"
    asked = "Whose presence is protected? Name the column of that person, account or device:"
    return (
        Line(f"# {asked}"),
        Line(f"# {told}."),
        Line(f"privacy_unit_column = {_ASKED}"),
        *(_or_way(link) for link in links[one.table.name][:1]),
        Line("# rows_per_unit = 1", "one of these two, or each query has to say it"),
        Line('# max_rows_contributed = "auto"'),
    )


def _of_several(
    one: _Named, ways: _Ways, links: Mapping[str, Sequence[Link]], others: Sequence[_Named]
) -> TableDraft:
    name, lines = one.table.name, list[Line]()
    unit, link = ways.columns.get(name), ways.through.get(name)
    if unit is not None:
        lines = [Line(f"privacy_unit_column = {toml_text(unit)}", "by its name: confirm")]
    elif link is not None:
        told = (
            f"# A row belongs to every {ways.who} with a row in {link.table} that has its key:"
        )
        lines = [Line(told), Line(f"unit_through = {link.toml}")]
    elif name in ways.asked:
        lines = [*_whose(one, ways, others)]
    else:
        told = f"no column leads to a {ways.who}: true, if it holds nobody's data"
        column = f"or in its place: the column of the {ways.who}"
        ends = *_by_keys(one, ways, others), *links[name], Link("...", "...", "...")
        lines = [Line(f"public = {_ASKED}", told)]
        lines += [Line('# privacy_unit_column = "..."', column), _or_way(ends[0])]
        if one.key is not None:
            unique = f"# unique = [{toml_text(one.key)}]"
            lines.append(Line(unique, "public rows are joined to private ones by it"))
        return replace(_table(one, tuple(lines), links, public=True), key=one.key)
    drafted = _table(one, (*lines, *_rows(one, unit)), links, unit)
    return replace(drafted, unit=unit, through=link)


def _whose(one: _Named, ways: _Ways, others: Sequence[_Named]) -> Iterator[Line]:
    """Yield the question whose the rows of a table are, with all that may be the answer."""
    way = next(_by_keys(one, ways, others), None)
    names = [name for name in ways.asked[one.table.name] if way is None or name != way.column]
    told = f"the column of the {ways.who}, by whatever name"
    if names:
        likely = " or ".join(map(written, names))
        told = f"{likely}, if that is the {ways.who} of the other tables"
    yield Line(f"privacy_unit_column = {_ASKED}", told)
    if way is not None:
        yield _or_way(way)
    if not any(person(one.refers.get(name)) for name in names):
        yield Line("# public = true", "or in its place, if it holds nobody's data")


def _by_keys(one: _Named, ways: _Ways, others: Sequence[_Named]) -> Iterator[Link]:
    """Yield ways by a key that a table has which leads to its unit."""
    types = one.table.schema.types
    for other in others:
        there, name = other.table.schema.types, other.table.name
        if name in {*ways.columns, *ways.through} and not _leads(ways, name, one.table.name):
            alike = (key for key in one.refers if there.get(key) == types[key])
            yield from (Link(key, name, key) for key in alike)


def _leads(ways: _Ways, name: str, to: str) -> bool:
    """Return whether a table reaches its unit through another, or is that one."""
    while name != to and name in ways.through:
        name = ways.through[name].table
    return name == to


def _or_way(link: Link) -> Line:
    return Line(f"# unit_through = {link.toml}", "or: another table says whose its rows are")


def _rows(one: _Named, unit: str | None) -> tuple[Line, ...]:
    """Return how many rows a unit may have, for the owner to decide."""
    if unit is not None and unit == one.key:
        return (Line("# rows_per_unit = 1", f"{unit} looks like its key"),)
    return (Line('# max_rows_contributed = "auto"'),)


def _table(
    one: _Named,
    settings: tuple[Line, ...],
    links: Mapping[str, Sequence[Link]],
    unit: str | None = None,
    *,
    public: bool = False,
) -> TableDraft:
    to = {link.column: link for link in links[one.table.name]}
    columns = []
    for name, said in own_words(one.table.schema.types).items():
        type_, hint = one.table.schema.types[name], ""
        if name in one.refers:
            note = "its key, by its name" if name == one.key else "an identifier, by its name"
            if name in to:
                note = f"as {to[name].table}.{to[name].key}, by its name"
            if type_.kind is Kind.TEXT and not public:  # short ones are joined more often
                hint = "max_length = 40"
            note = "the unit" if name == unit else note
        else:
            note, hint = ("", "") if public else _said_of(said, type_)
        if name in one.table.untyped:
            note = "; ".join(filter(None, [note, "or another type, if all its values are"]))
        columns.append(ColumnDraft(name, type_, note, hint))
    lines = tuple(Line(f"{key} = {value}") for key, value in one.table.source.items())
    named = Line(lines[0].text, "relative to this file"), *lines[1:]
    return TableDraft(
        one.table.name, named, settings, tuple(columns), tuple(_remarks(one.table)), key=one.key
    )


def _remarks(table: FoundTable) -> Iterator[str]:
    schema = table.schema
    for name, type_ in schema.written.items():
        if name not in schema.types:
            why = schema.left_out.get(name, f"no type for {type_}")
            yield f"{written(name)} is left out: {visible(why)}"


_HINTS = {
    Kind.INTEGER: "bounds = [0, 100]",
    Kind.DOUBLE: "bounds = [0, 100]",
    Kind.DECIMAL: "bounds = [0, 9]",
    Kind.TEXT: 'keys = ["a", "b"]',
    Kind.DATE: "bounds = [2000-01-01, 2030-12-31]",
    Kind.TIMESTAMP: "bounds = [2000-01-01T00:00:00, 2030-12-31T23:59:59]",
    Kind.TIMESTAMPTZ: "bounds = [2000-01-01T00:00:00Z, 2030-12-31T23:59:59Z]",
    Kind.TIME: "bounds = [08:00:00, 18:00:00]",
}


def _said_of(said: tuple[str, ...], type_: Type) -> tuple[str, str]:
    """Return what the name of a column says of its values, and a key that it may need."""
    last, hint = said[-1] if said else "", _HINTS.get(type_.kind, "")
    if type_.kind is Kind.TEXT and last in FREE:
        return "a name, or free text? Delete it, if nobody should ask about it", ""
    if type_.kind is Kind.DOUBLE and last in GROUP:
        return 'a group, by its name? Of whole numbers, it is type = "integer" with keys', hint
    if type_.kind in {Kind.TEXT, Kind.INTEGER} and last in GROUP:
        return "a group, by its name", hint if type_.kind is Kind.TEXT else "keys = [1, 2]"
    return "", hint
