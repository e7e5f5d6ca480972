"""What stands after FROM: tables, subqueries and WITH, and what each of them is.

A private relation keeps its owner; a relation that is released or public is open, and belongs
to the query above the frontier. The two meet in one place only: a public table, or what a query
makes of public tables, may be joined to private rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time
from fractions import Fraction
from itertools import count, takewhile
from typing import NoReturn, TypeVar

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.core.types import UNKNOWN, Interval, ordinal
from dpquery.errors import advice, listed, refusal
from dpquery.functions.base import MAX_ROWS_OF_TABLE
from dpquery.ir.expr import Code, ColumnRef, Expr, Literal, Scalar, longest_of
from dpquery.ir.relations import Extent, Output, Project, Relation, TableScan, extent_of
from dpquery.policy.model import LONGEST_PUBLIC, Policy, PublicFacts, Table
from dpquery.rowfunctions.analysis.nulls import nulls_of, worst
from dpquery.rowfunctions.analysis.ranges import implied
from dpquery.rowfunctions.base import hull
from dpquery.sql.bind.scope import Member, Scope, column_ref, fold, resolve_table, written_name
from dpquery.sql.parse.spans import Spans, outside, too_large
from dpquery.sql.postprocess.from_clause import From, Open
from dpquery.sql.size_limits import require_small

R = TypeVar("R", bound=Relation)
MOST_RELATIONS = 500
"""Relations over private rows in one statement, each as often as it is read."""


@dataclass(frozen=True, slots=True)
class Derived:
    """A private relation as a query sees it: its columns by name."""

    relation: Relation
    columns: Mapping[str, Expr]
    owners: frozenset[str]
    """Folded names under which it gives the privacy unit."""
    table: Table
    """The table that refusals about it speak of."""
    lists: Mapping[str, ColumnRef] = field(default_factory=dict)
    """Columns of lists, of which rows are made."""

    def member(self, alias: str) -> Member:
        """Return it a name in a FROM clause."""
        return Member(alias, self.columns, self.owners, lists=self.lists)


@dataclass(frozen=True, slots=True)
class Private:
    """The rows that a query over private relations speaks about, and what its names mean."""

    relation: Relation
    scope: Scope


@dataclass(frozen=True, slots=True)
class PublicItem:
    """A public table in a FROM clause."""

    table: Table
    alias: str
    span: Span
    names: Mapping[str, str]
    """What the query calls its columns, by their own names, in order."""
    derived: bool = False
    """Whether a query makes it: the policy has no such table."""


@dataclass(frozen=True, slots=True)
class ReleasedItem:
    """A released relation in a FROM clause among private ones."""

    found: Open
    alias: str
    span: Span


@dataclass(frozen=True, slots=True)
class RowList:
    """A list in a FROM clause: of each row before it, in its turn."""

    node: exp.Unnest
    name: str
    """What its column is called."""


class Context(ABC):
    """What all queries of one statement share, and how a subquery is bound."""

    def __init__(self, policy: Policy, public: PublicFacts, spans: Spans) -> None:
        self.policy = policy
        self.public = public
        self.spans = spans
        self.withs: list[Sequence[exp.CTE]] = []
        """What WITH names, innermost last."""
        self._made = count()

    @abstractmethod
    def query(self, node: exp.Expr) -> Derived | Open:
        """Bind a subquery: to a private relation, or to one that is open."""

    @abstractmethod
    def pivoted(self, node: exp.Expr) -> Derived | Open:
        """Bind a relation with PIVOT after it."""

    @abstractmethod
    def rows(self, select: exp.Select) -> Private | From:
        """Bind the FROM clause of a subquery alone: to private rows, or to open ones."""

    @abstractmethod
    def made_public(self, query: exp.Select, span: Span) -> PublicItem | None:
        """Return what a query makes of public tables; None of one that reads something else."""

    @abstractmethod
    def values(self, query: exp.Expr) -> list[Literal]:
        """Return the values of a subquery that reads public tables alone."""

    @abstractmethod
    def members(self, query: exp.Expr) -> tuple[Expr, list[Expr]] | None:
        """Return whether a released column has values, and these; None of a public one."""

    @abstractmethod
    def released_rows(self, item: ReleasedItem) -> list[dict[str, Expr]]:
        """Return the columns of each row that a released relation can have, as constants."""

    @abstractmethod
    def released_any(self, item: ReleasedItem) -> Expr:
        """Return whether a released relation has any row, as a constant."""

    @abstractmethod
    def constant(self, node: exp.Subquery) -> Expr:
        """Return the one value of a subquery over released or public rows."""

    def numbers(self) -> int:
        """Number the next relation that gives columns."""
        number = next(self._made)
        if number >= MOST_RELATIONS:
            title, whole = (
                "this statement grows too large",
                Span(0, len(self.spans.source.text)),
            )
            label = f"more than {MOST_RELATIONS} relations when it is written out"
            why = "a name of WITH over private rows is written out wherever it is read."
            remedy = advice("read each name of WITH once or twice, or ask in several steps")
            raise too_large(title, whole, label, why, remedy)
        return number

    def extent(self, relation: Relation) -> Extent:
        """Return how many rows of one unit a relation can have."""
        return extent_of(relation, self.policy.single)

    def most_rows(self, relation: Relation) -> int:
        """Return the most rows of one unit in a relation, of tables as large as can be."""
        return self.extent(relation).of(MAX_ROWS_OF_TABLE)

    def small(self, relation: R, span: Span) -> R:
        """Return a relation that is not too large by plan."""
        require_small(relation, self.policy, span)
        return relation

    def item(self, node: exp.Expr) -> tuple[Derived | PublicItem | RowList | Open, str]:
        """Bind one item of a FROM clause; give it with the name that the query calls it by.

        Raises:
            NameRefused: DPQ201 no such table, DPQ211 a list of names of another length.
        """
        if isinstance(node, exp.Unnest):
            name = node.alias or "unnest"
            names = self._new_names([name], _listed(node))
            return RowList(node, names[name]), name
        if node.args.get("pivots"):
            pivot = node.args["pivots"][0]
            return self._renamed(self.pivoted(node), _listed(pivot)), pivot.alias
        cte = self._cte(node) if isinstance(node, exp.Table) else None
        if cte is not None:
            bound, alias = self._within(cte), node.alias or cte.alias
            bound = self._renamed(bound, _listed(cte))
        elif isinstance(node, exp.Table):
            span = self.spans.of(node)
            table = resolve_table(node, self.policy, span)
            alias = node.alias or table.name
            if table.public:
                names = self._new_names(self.public.columns(table.name), _listed(node))
                return PublicItem(table, alias, span, names), alias
            bound = self.table(table, span)
        else:
            bound, alias = self.query(node), node.alias
        return self._renamed(bound, _listed(node)), alias

    def table(self, table: Table, span: Span) -> Derived:
        """Read a private table of the policy anew."""
        number = self.numbers()
        units = {table.unit, *(() if table.through else dict(table.together))}
        columns = {
            c.name: column_ref(c, number, span, is_unit=c.name in units)
            for c in table.columns.values()
        }
        owners = frozenset() if table.unit is None else frozenset({fold(table.unit)})
        parts = table.parts_per_unit or 1
        scan = TableScan(span, table.name, number, _parting(table, columns), parts)
        lists = {c.name: column_ref(c, number, span) for c in table.lists.values()}
        return Derived(scan, columns, owners, table, lists)

    def _cte(self, node: exp.Table) -> exp.CTE | None:
        """Find what WITH calls so: the innermost, and no table of the policy before it."""
        if node.args.get("db") or node.args.get("catalog"):
            return None
        known = (cte for names in reversed(self.withs) for cte in reversed(names))
        return next((cte for cte in known if fold(cte.alias) == fold(node.name)), None)

    def _within(self, cte: exp.CTE) -> Derived | Open:
        """Bind what a name of WITH stands for, where the names before it are known."""
        outer = self.withs
        level = next(i for i, names in enumerate(outer) if any(one is cte for one in names))
        before = takewhile(lambda one: one is not cte, outer[level])
        self.withs = [*outer[:level], list(before)]
        try:
            return self.query(cte)
        finally:
            self.withs = outer

    def _renamed(
        self, bound: Derived | Open, names: Sequence[exp.Identifier] | None
    ) -> Derived | Open:
        """Return the columns of a relation the names of a list, as in `AS d(a, b)`."""
        if not names:
            return bound
        if isinstance(bound, Open):
            new = self._new_names([column.name for column in bound.columns], names)
            renamed = (replace(column, name=new[column.name]) for column in bound.columns)
            return replace(bound, columns=tuple(renamed))
        new = self._new_names(list(bound.columns), names)
        columns = {new[name]: expr for name, expr in bound.columns.items()}
        folded = {fold(name): fold(new[name]) for name in bound.columns}
        # A unit that is no column keeps its name, unless a column has that name now.
        hidden = bound.owners - set(folded) - set(folded.values())
        owners = hidden.union(folded[owner] for owner in bound.owners if owner in folded)
        return Derived(bound.relation, columns, owners, bound.table)

    def _new_names(
        self, old: Sequence[str], given: Sequence[exp.Identifier] | None
    ) -> Mapping[str, str]:
        """Return each column its name of a list; those beyond the list keep their own."""
        new = [name.name for name in given or ()]
        whole = [*new, *old[len(new) :]]
        twice = len({*map(fold, whole)}) < len(whole)
        if given and (len(new) > len(old) or twice):
            count_differs = f"{len(new)} names are given to {len(old)} columns"
            title = "two columns would have one name" if twice else count_differs
            span = self.spans.of(given[0]) | self.spans.of(given[-1])
            why = "each name in the list is for one column, in order, and occurs once."
            remedy = ", ".join(map(written_name, old))
            raise refusal("DPQ211", title, span, "this list", why, remedy)
        return dict(zip(old, whole, strict=True))


def _parting(table: Table, columns: Mapping[str, Expr]) -> Code | None:
    """Return which part of a table a row is in; None where a unit has one anyway."""
    column = table.parting
    if column is None or not column.per_unit or table.unit is None or table.single:
        return None
    last = len(column.parts) - 1
    return Code(columns[column.name], Fraction(1), 0, last, values=column.parts)


def _listed(node: exp.Expr) -> Sequence[exp.Identifier] | None:
    """Return the names in brackets after an alias."""
    alias = node.args.get("alias")
    return None if alias is None else alias.args.get("columns")


def materialised(found: Derived, number: int, span: Span) -> Derived:
    """Make columns of what a relation computes: NULL then stands for a row that is missing."""
    if all(isinstance(expr, ColumnRef) for expr in found.columns.values()):
        return found
    outputs = tuple(Output(f"x{i}", expr) for i, expr in enumerate(found.columns.values()))
    made = (derived_ref(output, number) for output in outputs)
    columns = dict(zip(found.columns, made, strict=True))
    relation = Project(span, found.relation, number, outputs)
    return Derived(relation, columns, found.owners, found.table)


def derived_ref(output: Output, number: int) -> ColumnRef:
    """Return the column that holds an expression's value: it knows of it what is public."""
    expr = output.expr
    chosen = implied(expr)
    made = ColumnRef(
        expr.span,
        output.name,
        expr.type,
        chosen if chosen.bounded else expr.domain,
        chosen.bounded,
        longest=longest_of(expr),
        of=number,
        nulls=nulls_of(expr),
    )
    if not isinstance(expr, ColumnRef):
        return made
    return replace(made, grid=expr.grid, keys=expr.keys, clamped=expr.clamped)


def merged_ref(outputs: Sequence[Output], number: int) -> ColumnRef:
    """Return a column that holds the values of any of several expressions."""
    refs = [derived_ref(output, number) for output in outputs]
    keys = None
    if all(ref.keys is not None for ref in refs):
        keys = tuple(sorted({key for ref in refs for key in ref.keys or ()}))
    grids = {ref.grid for ref in refs}
    return replace(
        refs[0],
        domain=hull((), [ref.domain for ref in refs]),
        bounded=all(ref.bounded for ref in refs),
        grid=grids.pop() if len(grids) == 1 else None,
        keys=keys,
        longest=max(ref.longest for ref in refs),
        clamped=all(ref.clamped for ref in refs),
        nulls=worst(ref.nulls for ref in refs),
    )


def range_of(keys: Sequence[Scalar] | None) -> Interval:
    """Return the range of public values: of days and microseconds for moments."""
    numbers = [
        Fraction(ordinal(key) if isinstance(key, date | time) else key)
        for key in keys or ()
        if not isinstance(key, str | bool)
    ]
    return Interval(min(numbers), max(numbers)) if numbers else UNKNOWN


def longest_value(keys: Sequence[Scalar] | None) -> int:
    """Return the most characters of public texts; of those that are not listed, what may be."""
    if keys is None:
        return LONGEST_PUBLIC
    return max((len(key) for key in keys if isinstance(key, str)), default=0)


# A star in a SELECT list: all columns, but for those that it leaves out or words otherwise.
#
#     * EXCLUDE (a, b) REPLACE (c / 100 AS c) RENAME (d AS e)
#
# A column is mentioned once at most, by a name that the star stands for: a slip is refused,
# and never passes over what was to be left out. Nothing here reads a row.


@dataclass(frozen=True, slots=True)
class Starred:
    """What becomes of a column that a star stands for."""

    name: str
    """What it is called from here on."""
    value: exp.Expr | None = None
    """The expression that REPLACE has for it."""


def is_star(item: exp.Expr) -> bool:
    """Return whether an item of a SELECT list stands for several columns."""
    qualified = isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
    return qualified or isinstance(item, exp.Star)


def columns_of(item: exp.Expr, names: Sequence[str], spans: Spans) -> dict[str, Starred]:
    """Return what becomes of each column, by its folded name; what is left out is missing."""
    star = item.this if isinstance(item, exp.Column) else item
    found = {fold(name): Starred(name) for name in names}
    mentioned: set[str] = set()
    for slot, nodes in star.args.items():
        for node in nodes or ():
            named = node.this if slot == "rename" else node
            name = node.alias if slot == "replace" else _plain(named, spans)
            known = fold(name)
            if known not in found or known in mentioned:
                _refuse(node, name, [one for one in names if fold(one) not in mentioned], spans)
            mentioned.add(known)
            if slot == "except_":
                del found[known]
            elif slot == "replace":
                found[known] = Starred(found[known].name, node.this)
            else:
                found[known] = Starred(node.alias)
    if mentioned and not found:
        raise outside("a star of nothing", spans.of(item), "no column is left", "SELECT 1")
    return found


def _plain(node: exp.Expr, spans: Spans) -> str:
    """Return the name of a column that is called by its name alone."""
    if isinstance(node, exp.Column) and not node.table and not is_star(node):
        return node.name
    word = f"{spans.text(node)[:40]} in a star"
    offered = written_name(node.name) if node.name else advice("write SELECT * EXCLUDE (a)")
    raise outside(word, spans.of(node), "not the name of a column", offered)


def _refuse(node: exp.Expr, name: str, names: Sequence[str], spans: Spans) -> NoReturn:
    title = f"there is no column {name[:80]!r} for this star to word otherwise"
    label = "not among its columns, or mentioned before"
    why = "each column is left out, replaced or renamed once at most."
    remedy = advice(f"columns here: {listed(names)}" if names else "leave it away")
    raise refusal("DPQ204", title, spans.of(node), label, why, remedy)


def owners_of(items: Sequence[tuple[Open, str, exp.Join | None, exp.Expr]]) -> dict[str, str]:
    """Return which of some relations has a column, by the folded names that one alone has."""
    owners: dict[str, str] = {}
    for number, (found, alias, *_) in enumerate(items):
        for name in {fold(column.name) for column in found.columns}:
            owners[name] = "" if name in owners else fold(alias) or str(number)
    return owners


def aliases_of(select: exp.Select) -> dict[str, exp.Expr]:
    """Return what the SELECT list names, folded: the first expression of each name."""
    items = reversed(select.expressions)
    return {fold(item.alias): item.this for item in items if isinstance(item, exp.Alias)}
