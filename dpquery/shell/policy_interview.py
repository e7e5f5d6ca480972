"""`dpquery policy init --interactive`: asks the owner what names of columns cannot say.

Each answer is held against the whole policy so far, by what loads policies, and refused in its
words. Nothing is written here: whoever stops has changed nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from dpquery.core.types import Type
from dpquery.errors import PolicyInvalid, nearest
from dpquery.policy.document import Unfit, document_of, toml_text, written
from dpquery.policy.load import policy_of
from dpquery.policy.owner.draft import ColumnDraft, Draft, Line, Link, TableDraft
from dpquery.policy.value_parsers import read_name
from dpquery.shell.arguments import UsageError

Ask = Callable[[str], str]
Say = Callable[[object], None]

_BEGIN = """\
Tables: {names}.

An empty answer takes what stands in [brackets]. Nothing is written before the last answer, and
ctrl-C leaves everything as it is. Names and types of columns have been looked at, and no row.

Whose rows a table holds is said by a column, or by a way such as order_id = orders.order_id;
- where each row is a unit of its own. How many rows of one unit count is a number that few
have more than, auto to have queries find it, or one: a scan verifies that nobody has two.

Columns are out, so that nobody can ask about them, or in, or what they need, such as
bounds = [0, 120] or keys = ["a", "b"], from what they mean and never from the data. Columns of
CSV are text unless a type is said: type = "date", bounds = [2020-01-01, 2029-12-31]."""
_PUBLIC = "nobody's data, to be shown as it is (y/n)?"
_UNIQUE = "columns that tell its rows apart (- for none):"
_WHOSE = "whose rows:"
_ROWS = "rows of one unit that count:"
_NONE = "-"
_WAY = re.compile(r"(.+?)\s*=\s*(.+)\.(.+)")


@dataclass(frozen=True, slots=True)
class _Decided:
    """What has been decided of one table."""

    table: TableDraft
    public: bool = False
    unique: tuple[str, ...] = ()
    unit: str | None = None
    through: Link | None = None
    rows: str = ""
    listed: Mapping[str, str] | None = None
    """The columns that analysts may name, each with its keys as TOML; None: not decided yet."""

    def lists(self, name: str) -> bool:
        return self.listed is None or name in self.listed

    @property
    def types(self) -> dict[str, Type]:
        return {column.name: column.type for column in self.table.columns}

    def drafted(self, others: Mapping[str, _Decided]) -> TableDraft:
        """Return the table with nothing undecided."""
        columns: Sequence[ColumnDraft] = ()
        if not self.public:
            columns = [
                replace(one, note="", hint="", stated=(keys,) if keys else ())
                for one in self.table.columns
                if self.lists(one.name)
                for keys in [(self.listed or {}).get(one.name, "")]
            ]
        return replace(
            self.table, settings=tuple(self._settings(others)), columns=tuple(columns)
        )

    def _settings(self, others: Mapping[str, _Decided]) -> Iterator[Line]:
        if self.public:
            yield Line("public = true")
        if self.unique:
            yield Line(f"unique = [{', '.join(map(toml_text, self.unique))}]")
        if self.unit is not None:
            yield Line(f"privacy_unit_column = {toml_text(self.unit)}")
            if not self.lists(self.unit):
                yield Line(f'privacy_unit_type = "{self.types[self.unit]}"')
        if (way := self.through) is not None:
            there = others.get(way.table)
            known = self.lists(way.column) or (there is not None and there.lists(way.key))
            type_ = None if known else self.types.get(way.column)
            yield Line(f"unit_through = {replace(way, type=type_).toml}")
        if self.rows:
            yield Line(self.rows)


@dataclass(slots=True)
class Interview:
    """Questions about a draft, and the policy that the answers make of it."""

    draft: Draft
    ask: Ask
    say: Say
    place: Path
    """Where the policy will stand."""
    decided: dict[str, _Decided] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    """The tables that are being asked about: each leads through the one behind it."""

    def hold(self) -> str:
        """Ask about the unit, each table and the budget; return the policy."""
        names = ", ".join(table.name for table in self.draft.tables)
        self.say(_BEGIN.format(names=names))
        if self.draft.unit is not None:
            self.say("")
            question = "Whose presence is protected, in all tables together?"
            self._asked(question, self.draft.unit, self._name_unit)
        for table in self.draft.tables:
            self._about(table)
        if not self.decided:
            raise UsageError("no table is left that a policy could have")
        self.say("")
        for key, question, usual in (
            ("epsilon", "Which epsilon may all answers together spend?", "1"),
            ("delta", "Which delta, for groups that are found and many small queries?", "0"),
        ):
            self._asked(question, usual, partial(self._spend, key))
        return self._text()

    def _text(self) -> str:
        tables = tuple(one.drafted(self.decided) for one in self.decided.values())
        return replace(self.draft, tables=tables).text()

    def _asked(
        self,
        question: str,
        usual: str | None,
        take: Callable[[str], None],
        ahead: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Ask until an answer makes a policy; what has to be asked ahead of it stays so."""
        shown = f"{question} " if usual is None else f"{question} [{usual}] "
        while True:
            said = self.ask(shown).strip() or usual
            if said is None:
                continue
            ahead(said)
            before = self.draft, dict(self.decided)
            try:
                take(said)
                if self.decided:
                    policy_of(document_of(self._text(), self.place))
                return
            except Unfit as unfit:
                self.say(unfit.at("the answer"))
            except PolicyInvalid as refusal:
                self.say(PolicyInvalid(refusal.diagnostic))
            self.draft, self.decided = before

    def _name_unit(self, said: str) -> None:
        first = Line(f"unit = {toml_text(read_name(said))}")
        self.draft = replace(self.draft, privacy=(first, self.draft.privacy[-1]))

    def _spend(self, key: str, said: str) -> None:
        kept = (line for line in self.draft.budget if not line.text.startswith(f"{key} "))
        self.draft = replace(self.draft, budget=(*kept, Line(f"{key} = {said}")))

    # One table: public or not, whose rows, how many of them, which columns.

    def _about(self, table: TableDraft) -> None:
        """Ask about a table, behind those through which it leads to its unit."""
        if table.name in (*self.decided, *self.waiting):
            return
        self.waiting.append(table.name)
        if table.through is not None:
            self._about(self._drafted(table.through.table))
        self.say(f"\n{table.name}: {', '.join(one.name for one in table.columns)}")
        if table.columns:
            self._decide(table)
        else:
            self.say("  is left out: it has no column that a policy can list")
        self.waiting.remove(table.name)

    def _drafted(self, name: str) -> TableDraft:
        return next(one for one in self.draft.tables if one.name == name)

    def _decide(self, table: TableDraft) -> None:
        link = table.through
        if link is not None and (there := self.decided.get(link.table)):
            link = None if there.public else link
        known = bool(table.unit or link)
        way = None if link is None else f"{link.column} = {link.table}.{link.key}"
        if self._agrees(f"  {_PUBLIC}", "n" if known else None):
            self._change(table, public=True)
            self._asked(
                f"  {_UNIQUE}", table.key or _NONE, lambda said: self._tell(table, said)
            )
            return
        ahead = partial(self._ahead, table)
        self._asked(f"  {_WHOSE}", table.unit or way, partial(self._own, table), ahead)
        one = self.decided[table.name]
        if one.unit or one.through:
            usual = "one" if one.unit and one.unit == table.key else "auto"
            self._asked(f"  {_ROWS}", usual, partial(self._count, table))
        self._list(table)

    def _agrees(self, question: str, usual: str | None) -> bool:
        said = ""
        while said not in {"y", "yes", "n", "no"}:
            shown = f"{question} " if usual is None else f"{question} [{usual}] "
            said = (self.ask(shown).strip() or usual or "").lower()
        return said.startswith("y")

    def _change(self, table: TableDraft, **what: object) -> None:
        one = self.decided.get(table.name, _Decided(table))
        self.decided[table.name] = replace(one, **what)  # type: ignore[arg-type]

    def _tell(self, table: TableDraft, said: str) -> None:
        names = () if said == _NONE else tuple(name.strip() for name in said.split(","))
        self._change(table, unique=tuple(_column(table, name) for name in names))

    def _ahead(self, table: TableDraft, said: str) -> None:
        """Ask about the table that an answer leads to, if nothing is decided of it yet."""
        way = _WAY.fullmatch(said)
        asked = {one.name for one in self.draft.tables} - {*self.decided, *self.waiting}
        if way is not None and way[2] in asked:
            self._about(self._drafted(way[2]))
            self.say(f"\n{table.name}, again:")

    def _own(self, table: TableDraft, said: str) -> None:
        way = _WAY.fullmatch(said)
        if way is not None:
            if way[2] in self.waiting:
                circle = (*self.waiting[self.waiting.index(way[2]) :], way[2])
                why = "on the way a table has to say whose its rows are by a column of its own."
                raise Unfit(f"leads in a circle: {' -> '.join(circle)}", why)
            link = Link(_column(table, way[1]), way[2], way[3])
            self._change(table, unit=None, through=link)
        else:
            unit = None if said == _NONE else _column(table, said)
            self._change(table, unit=unit, through=None)

    def _count(self, table: TableDraft, said: str) -> None:
        most = '"auto"' if said.lower().strip('"') == "auto" else said
        one = said.lower() == "one"
        self._change(
            table, rows="rows_per_unit = 1" if one else f"max_rows_contributed = {most}"
        )

    def _list(self, table: TableDraft) -> None:
        """Ask about each column, until one is listed at least."""
        one = self.decided[table.name]
        needed = {one.unit, table.key, one.through and one.through.column}
        listed: dict[str, str] = {}
        while not listed:
            for column in table.columns:
                hint = f", such as {column.hint}" if column.hint else ""
                question = f"  {column.name} ({column.type}{hint}):"
                usual = "in" if column.name in needed else "out"

                def take(said: str, name: str = column.name) -> None:
                    listed.pop(name, None)
                    if said.lower() != "out":
                        listed[name] = re.sub(r"^in\b[\s,]*", "", said).strip("{} ")
                    self._change(table, listed=dict(listed) or None)

                self._asked(question, usual, take)
            if not listed:
                self.say(f"  without columns nothing could be asked of {table.name}")


def _column(table: TableDraft, name: str) -> str:
    names = [one.name for one in table.columns]
    if name in names:
        return name
    near = nearest(name, names)
    raise Unfit(
        f"names no column of {table.name}: {written(name)}",
        f"its columns are {', '.join(names)}.",
        *([] if near is None else [near]),
    )
