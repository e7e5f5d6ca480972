"""FROM clauses over private rows: each relation is joined on the unit, or to a public key.

Inner joins may stand in any order and as a list with commas, also one that no condition ties to
what stands before it; their conditions are looked through for the equality that each join
needs, and applied whole. What is not joined in one of
the two ways would pair the rows of one unit with those of another, and is refused with the
predicate to add.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice, takewhile
from operator import itemgetter

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.errors import QueryRefused, advice
from dpquery.ir import relations as extent
from dpquery.ir.expr import ColumnRef, Expr, Nulls, columns_of
from dpquery.ir.relations import (
    Filter,
    Output,
    PublicJoin,
    Relation,
    SemiJoin,
    UnitJoin,
    Unnest,
    equated_by,
    most_parts,
    numbers,
)
from dpquery.rowfunctions import apply
from dpquery.rowfunctions.analysis.conditions import facts_of
from dpquery.rowfunctions.lists import MOST_VALUES
from dpquery.sql.bind.from_clause import (
    Context,
    Derived,
    Private,
    PublicItem,
    ReleasedItem,
    RowList,
    materialised,
    merged_ref,
)
from dpquery.sql.bind.joins.join_keys import tied_by_keys
from dpquery.sql.bind.joins.public_joins import (
    KeyJoin,
    ReleasedJoin,
    TableJoin,
    all_of,
    equal_names,
)
from dpquery.sql.bind.rows.conditions_on_lists import element, row_list
from dpquery.sql.bind.rows.row_expressions import Conditions, equated_always
from dpquery.sql.bind.rows.typed_expressions import alike
from dpquery.sql.bind.scope import Member, Scope, fold
from dpquery.sql.parse.literals import conjuncts, unwrapped
from dpquery.sql.parse.unnest import HIDDEN, refuse_list
from dpquery.sql.size_limits import MOST_COPIES, require_few_joined
from dpquery.sql.suggest.join_refusals import (
    JoinedBy,
    refuse_before,
    refuse_computed,
    refuse_kind,
    refuse_off_unit,
    refuse_public_kind,
    refuse_public_rows,
    refuse_rows_of_own,
    refuse_twice,
    refuse_unnamed,
    same_units,
)

Item = Derived | PublicItem | ReleasedItem | RowList
"""What can stand in a FROM clause with private rows."""
MOST_LOOKED_AT = 12
"""Inner joins in a row among which the next one is looked for."""
_CROSSED = advice("write CROSS JOIN UNNEST(...)")


def bind_from(
    context: Context,
    items: Sequence[tuple[Item, str, exp.Join | None, Span]],
    where: exp.Where | None,
    *,
    grouped: bool,
) -> Private:
    """Join the relations of a FROM clause of which one at least is private.

    Raises:
        RuleRefused: DPQ304 a join off the unit, DPQ306 one with a public table that is not on
            its key, DPQ308 units that cannot be compared.
        SyntaxRefused: DPQ102 a kind of join that is not answered.
        PlanRefused: DPQ406 there are too many.
    """
    require_few_joined(len(items), items[-1][-1])
    seen: set[str] = set()
    for _, alias, _, span in items:
        if alias and fold(alias) in seen:
            refuse_twice(alias, span)
        seen.add(fold(alias))
    asked = _asked(None if where is None else where.this)
    return _From(context, [_Item(*item) for item in items], asked, grouped).joined()


def _asked(condition: exp.Expr | None) -> list[exp.Expr]:
    """Return what a condition asks of every row, and what follows from that."""
    asked = conjuncts(condition)
    return [*asked, *equated_always(asked)]


@dataclass(frozen=True, slots=True)
class _Item:
    """One relation of the clause, and how it is joined to those before it."""

    found: Item
    alias: str
    join: exp.Join | None
    span: Span
    shared: tuple[exp.Identifier, ...] = ()
    """The columns that NATURAL JOIN is about, once they are known."""

    @property
    def table(self) -> str:
        """What refusals call a table that is not private."""
        return "released" if isinstance(self.found, ReleasedItem) else "public"

    @property
    def natural(self) -> bool:
        return self.join is not None and bool(self.join.method)

    @property
    def free(self) -> bool:
        """Whether it is joined by conditions alone, so that it may be joined later."""
        listed = isinstance(self.found, RowList)
        return not (self.side or self.kind or self.using or self.natural or listed)

    @property
    def side(self) -> str:
        """LEFT, RIGHT, FULL, or nothing for an inner join."""
        return "" if self.join is None else self.join.side

    @property
    def kind(self) -> str:
        """SEMI, ANTI, or nothing."""
        kind = "" if self.join is None else self.join.kind
        return kind if kind in {"SEMI", "ANTI"} else ""

    @property
    def using(self) -> Sequence[exp.Identifier]:
        return self.shared if self.join is None else self.join.args.get("using") or self.shared

    @property
    def asked(self) -> list[exp.Expr]:
        return [] if self.join is None else _asked(self.join.args.get("on"))


class _From:
    """Joins the relations of one clause, from left to right where nothing else is said."""

    def __init__(
        self, context: Context, items: list[_Item], where: list[exp.Expr], grouped: bool
    ) -> None:
        self.context = context
        self.items = items
        self.where = where
        """What WHERE asks of every row: for relations that are joined by a comma."""
        self.grouped = grouped
        """Whether all groups are shown anyway, so that keeping public rows adds none."""
        self.pool: list[exp.Expr] = []
        """Conditions of inner joins."""
        self.ahead: list[exp.Expr] = []
        """Conditions of the inner joins that follow."""
        self._named_tables: dict[int, set[str]] = {}
        private = (
            (at, i, i.found) for at, i in enumerate(items) if isinstance(i.found, Derived)
        )
        self.at, item, found = next(private)
        """Which item is the first private one."""
        self.table = found.table
        self.relation = found.relation
        self.members = [found.member(item.alias)]
        self.places = [self.at]
        """Which items they are of."""

    @property
    def scope(self) -> Scope:
        """What the names mean so far."""
        return Scope(tuple(self.members), self.table)

    def joined(self) -> Private:
        """Begin with the first private relation; public ones before it are joined to it."""
        first, waiting = self.items[self.at], self.items[: self.at]
        for item in waiting:
            self._require_kind(item)
            if isinstance(item.found, RowList):
                refuse_list(item.span, "no private row stands before it")
            if not item.free:
                refuse_before(item.span)
            self.pool += item.asked
        self._require_kind(first)
        if waiting and first.join is not None:
            last = waiting.pop()
            if waiting and first.side:
                refuse_kind(first.span, f"a {first.side} JOIN after several public tables")
            self._join(replace(last, join=_turned(first.join)))
        after = self.items[self.at + 1 :]
        pending = [*(replace(item, join=None) for item in waiting), *after]
        while pending:
            item = pending.pop(self._next(pending))
            self._require_kind(item)
            self._join(item)
        self._apply()
        self._as_written()
        return Private(self.relation, self.scope)

    def _as_written(self) -> None:
        """Put the relations in the order of the clause, in which a star shows them."""
        written = zip(self.places, self.members, strict=True)
        self.members = [member for _, member in sorted(written, key=itemgetter(0))]

    def _join(self, item: _Item) -> None:
        """Join one relation more."""
        match item.found:
            case PublicItem() as public:
                self._public(item, public)
            case ReleasedItem() as released:
                self._released(item, released)
            case RowList() as listed:
                self._list(item, listed)
            case Derived() as private:
                self._private(item, private)
        at = next(at for at, one in enumerate(self.items) if one.found is item.found)
        self.places += [at] * (len(self.members) - len(self.places))

    def _next(self, pending: Sequence[_Item]) -> int:
        """Return which relation is joined next: of inner joins in a row, one that can be."""
        free = list(islice(takewhile(lambda item: item.free, pending), MOST_LOOKED_AT))
        self.ahead = [node for item in free for node in item.asked]
        if len(free) < 2:
            return 0
        scores: list[int] = []
        for item in free:  # nearly always the first is tied already
            scores.append(self._untied(item))
            if not scores[-1]:
                break
        return scores.index(min(scores))

    def _untied(self, item: _Item) -> int:
        """Return how little ties a relation to those so far; if unclear, that is said later.

        What public tables wait for comes before those that nothing is tied to.
        """
        if isinstance(item.found, RowList):
            return 0
        if isinstance(item.found, Derived):
            return 0 if self._on_unit(item, item.found.member(item.alias), inner=True) else 2
        key = self._key(item.found, number=-1)
        found: list[Expr] = []
        for pool in (item.asked, self._about(item)):  # its own conditions nearly always do
            with suppress(QueryRefused):
                found = key.equalities((), pool)
            if found and key.most(found) <= 1:
                return 0
        return 1 if found else 3

    def _pool(self, item: _Item) -> list[exp.Expr]:
        """Return the conditions that may tie the relation of an inner join to the others."""
        found = (*item.asked, *self.pool, *self.ahead, *self.where)
        return list({id(node): node for node in found}.values())

    def _about(self, item: _Item) -> list[exp.Expr]:
        """Return those of them that may speak of the relation, by its name or by none."""
        names = {fold(item.alias), ""}
        return [node for node in self._pool(item) if names & self._tables(node)]

    def _tables(self, node: exp.Expr) -> set[str]:
        """Return the folded names before columns of a condition; it is asked of each join."""
        if id(node) not in self._named_tables:
            found = {fold(column.table) for column in node.find_all(exp.Column)}
            self._named_tables[id(node)] = found
        return self._named_tables[id(node)]

    def _named(self, item: _Item, member: Member) -> _Item:
        """Return an item with the columns that NATURAL JOIN is about: those both sides have."""
        if item.join is None or not item.natural:
            return item
        theirs, of = {*map(fold, member.columns)}, next(item.join.this.find_all(exp.Identifier))
        names = {fold(name): name for name in self.scope.columns if fold(name) in theirs}
        shared = [exp.to_identifier(name, quoted=True) for name in names.values()]
        for name in shared:
            name.meta.update(of.meta)
        return replace(item, shared=tuple(shared))

    def _require_kind(self, item: _Item) -> None:
        public, lone = not isinstance(item.found, Derived), set[str]()
        released = isinstance(item.found, ReleasedItem)
        if public or (self.at and item is self.items[self.at]):
            lone = {"RIGHT", "FULL"} if public else {"LEFT", "FULL"}
        shown = self.grouped and item.side != "FULL" and not released
        if item.side in lone and not shown:
            other = "LEFT" if public else "RIGHT"
            instead = other if item.side == "FULL" else ""
            refuse_public_rows(self._by(item), item.side, instead, item.table)

    def _by(self, item: _Item) -> JoinedBy:
        return JoinedBy(item.join, item.span, self.context.spans)

    def _apply(self) -> None:
        """Keep the rows so far for which all holds that inner joins asked."""
        rows = Conditions(self.scope, self.context.spans)
        for node in self.pool:
            span = self.context.spans.of(node)
            self.relation = Filter(span, self.relation, rows.condition(node))
        self.pool = []

    def _key(self, found: PublicItem | ReleasedItem, number: int) -> KeyJoin:
        if isinstance(found, PublicItem):
            return TableJoin(self.context, self.scope, found, number)
        return ReleasedJoin(self.context, self.scope, found, number)

    def _keyed(
        self, item: _Item, found: PublicItem | ReleasedItem
    ) -> tuple[_Item, KeyJoin, Expr, int]:
        """Find what a join with a public table, or a released one, asks of pairs of rows."""
        if item.kind:
            refuse_public_kind(self._by(item), item.kind, item.table)
        keeps, own = item.side == "LEFT", item.asked
        key = self._key(found, self.context.numbers())
        item = self._named(item, key.member)
        if item.natural and not item.using:
            refuse_unnamed(item.span)
        pool = own if keeps else self._about(item)
        condition, most = key.condition(
            self._by(item), item.using, pool, own if keeps else None
        )
        if not keeps:
            self.pool += own
        return item, key, condition, most

    def _released(self, item: _Item, released: ReleasedItem) -> None:
        """Join a released relation: its columns are choices among its values."""
        item, key, condition, _ = self._keyed(item, released)
        assert isinstance(key, ReleasedJoin)  # noqa: S101 - made as one
        keeps = item.side == "LEFT"
        met, columns = key.chosen(condition, keeps=keeps)
        if not keeps:
            self.relation = Filter(item.span, self.relation, met)
            present = facts_of(condition).present
            self.members = [_known(m, present) for m in self.members]
        names = frozenset(fold(name.name) for name in item.using)
        self.members.append(Member(item.alias, columns, hidden=names))

    def _public(self, item: _Item, public: PublicItem) -> None:
        """Join a public table, on its unique key or with all rows that meet one."""
        item, key, condition, most = self._keyed(item, public)
        keeps, name = item.side == "LEFT", public.table.name
        joined = PublicJoin(item.span, self.relation, name, key.number, condition, keeps, most)
        self.relation = self.context.small(joined, item.span) if most > 1 else joined
        names = frozenset(fold(name.name) for name in item.using)
        if keeps:
            self.members.append(replace(_missing(key.member), hidden=names))
            return
        present = facts_of(condition).present
        self.members = [_known(m, present) for m in self.members]
        member = _known(key.member, present)
        if any(names & m.owners for m in self.members):
            self.members.append(replace(member, hidden=names))
            return
        # Both columns are equal, and of the public one the values are known: it may be a group.
        self.members = [replace(m, hidden=m.hidden | names) for m in self.members]
        self.members.append(member)

    def _list(self, item: _Item, found: RowList) -> None:
        """Make a row for each value of a list of a row."""
        context, span = self.context, self.context.spans.of(found.node)
        keeps, always = item.side == "LEFT", all(map(_is_true, item.asked))
        tied = (item.side and not keeps) or item.kind or item.using or item.natural
        if tied or not self._by(item).conditioned:
            refuse_list(item.span, "rows of a list have no other key", _CROSSED)
        if keeps and not always:
            label = "a row is kept where its list has no value, whatever is asked of values"
            refuse_list(item.span, label, advice("write LEFT JOIN UNNEST(...) ON TRUE"))
        if self.table.unit is None:
            refuse_rows_of_own(span, self.table)
        number = context.numbers()
        rows = Conditions(self.scope, context.spans)
        values, separator = row_list(found.node, rows)
        outputs = tuple(Output("x", value) for value in values)
        of_file = values[0].type.listed
        column = element(values[0], number) if of_file else merged_ref(outputs, number)
        most = MOST_VALUES if of_file else len(outputs)
        if separator is not None:  # which parts a text has is not public, as its own values are
            nulls = Nulls.GROUPED if keeps else Nulls.NEVER
            column = replace(column, keys=None, nulls=nulls)
            most = min(MOST_COPIES, most_parts(values[0], separator))
        keeps = keeps and (separator is not None or of_file)  # others have values
        made = Unnest(span, self.relation, number, outputs, most, separator, keeps)
        self.relation = context.small(made, span)
        self.pool += [] if always else item.asked
        hidden = {fold(found.name)} if HIDDEN in found.node.meta else frozenset()
        self.members.append(Member(item.alias, {found.name: column}, hidden=frozenset(hidden)))

    def _private(self, item: _Item, found: Derived) -> None:
        """Join another private relation on the unit."""
        context, inner = self.context, not item.side and not item.kind
        keeps = (item.side in {"LEFT", "FULL"}, item.side in {"RIGHT", "FULL"})
        if keeps[1]:
            self._apply()  # of rows that are preserved without a partner, nothing is asked
            self._materialise(item.span)
        if keeps[0]:
            found = materialised(found, context.numbers(), item.span)
        member = found.member(item.alias)
        item = self._named(item, member)
        if not self._on_unit(item, member, inner=inner):
            refuse_off_unit(self._by(item), self.members, member, self.table)
        same_units(context, self.relation, found.relation, item.span)
        more = [
            equal_names(context, self.scope, member, name)
            for name in item.using
            if fold(name.name) not in member.owners
        ]
        asked = [*more, *self._asked(item.asked, found, member, inner=inner)]
        if item.kind:
            sides, negated = (self.relation, found.relation), item.kind == "ANTI"
            self.relation = semi_join(context, item.span, sides, negated, asked)
            return
        condition = all_of(item.span, asked)
        pairs = most_pairs(context, self.relation, found.relation)
        joined = UnitJoin(item.span, self.relation, found.relation, condition, pairs, *keeps)
        self.relation = context.small(joined, item.span)
        self._join_members(item.using, member, keeps)

    def _asked(
        self, asked: Sequence[exp.Expr], found: Derived, member: Member, *, inner: bool
    ) -> list[Expr]:
        """Bind what a join asks of pairs; where all rows have partners, its equalities alone.

        The rest is asked of the rows of the whole clause then. What WHERE equates is asked here
        too, for pairs are counted by it: rows that a comma joins have their equalities there.
        """
        scope = Scope((*self.members, member), self.table)
        rows = Conditions(scope, self.context.spans)
        own = [node for node in asked if not self._equates_units(node, member)]
        if not inner:
            return [rows.condition(node) for node in own]
        equalities = []
        sides = (numbers(self.relation), numbers(found.relation))
        others = (n for n in (*self.pool, *self.where) if not self._equates_units(n, member))
        for at, node in enumerate((*own, *others)):
            bound = None
            plain = isinstance(node, exp.EQ) and node.find(exp.Query) is None
            if plain and scope.has_columns_of(node):
                with suppress(QueryRefused):  # it is bound again, and refused, with the rest
                    bound = rows.condition(node)
            if bound is not None and equated_by(bound, *sides):
                equalities.append(bound)
            elif at < len(own):
                self.pool.append(node)
        return equalities

    def _materialise(self, span: Span) -> None:
        """Make columns of what the relations so far compute: their rows may be missing."""
        for at, member in enumerate(self.members):
            whole = Derived(self.relation, member.columns, member.owners, self.table)
            if any(not isinstance(expr, ColumnRef) for expr in member.columns.values()):
                if len(self.members) > 1:
                    refuse_computed(span)
                made = materialised(whole, self.context.numbers(), span)
                self.relation = made.relation
                self.members[at] = made.member(member.alias)

    def _join_members(
        self, using: Sequence[exp.Identifier], member: Member, keeps: tuple[bool, bool]
    ) -> None:
        """Name the columns; a unit that may be missing is the owner's no more.

        Where rows of the second relation are preserved, what USING joined is in neither for all
        rows: it becomes a column of its own, that of the side that has it.
        """
        shared = frozenset(fold(name.name) for name in using)
        right = replace(_missing(member) if keeps[0] else member, hidden=shared)
        if not keeps[1]:
            self.members.append(right)
            return
        before = self.scope
        owners = shared & member.owners & {o for m in self.members for o in m.owners}
        merged = {
            name.name: self._merged(name, before, member, both=keeps[0])
            for name in using
            if before.knows(name.name)
        }
        self.members = [replace(_missing(m), hidden=m.hidden | shared) for m in self.members]
        self.members += [right, Member("", merged, owners)]

    def _merged(
        self, name: exp.Identifier, before: Scope, member: Member, *, both: bool
    ) -> Expr:
        """Give the column that USING makes of two: of the second relation, or of the first."""
        span = self.context.spans.of(name)
        ours = before.reference(exp.column(name.copy()), span)
        theirs = next(e for n, e in member.columns.items() if fold(n) == fold(name.name))
        if not both:
            return theirs
        return apply(span, "COALESCE", *alike(span, [ours, theirs], lambda: "ON"))

    def _on_unit(self, item: _Item, member: Member, *, inner: bool) -> bool:
        owners = {owner for m in self.members for owner in m.owners - m.hidden}
        if {fold(name.name) for name in item.using} & owners & member.owners:
            return True
        pool = self._pool(item) if inner else item.asked
        if any(self._equates_units(node, member) for node in pool):
            return True
        assert isinstance(item.found, Derived)  # noqa: S101 - it is joined on the unit
        ours = Private(self.relation, self.scope)
        theirs = Private(item.found.relation, Scope((member,), self.table))
        return tied_by_keys(self.context, (ours, theirs), item.using, pool)

    def _equates_units(self, node: exp.Expr, member: Member) -> bool:
        """Return whether the unit of the rows so far is equated with that of a relation."""
        if not isinstance(node, exp.EQ):
            return False
        both = Scope((*self.members, member), self.table)
        sides = [both.one_unit_at(unwrapped(side)) for side in (node.this, node.expression)]
        found = [{alias == member.alias for alias in side} for side in sides]
        return found in ([{True}, {False}], [{False}, {True}])


def _turned(join: exp.Join) -> exp.Join:
    """Write a join with its sides changed: of a public relation and the rows that follow it."""
    turned = join.copy()
    turned.set("side", "LEFT" if join.side == "RIGHT" else None)
    return turned


def _is_true(node: exp.Expr) -> bool:
    node = unwrapped(node)
    return isinstance(node, exp.Boolean) and bool(node.this)


def _missing(member: Member) -> Member:
    """Return a relation whose rows may be missing: its columns are NULL then, and no owner."""
    return replace(_with_nulls(member, member.columns, Nulls.GROUPED), owners=frozenset())


def _known(member: Member, present: Set[Expr]) -> Member:
    """Return a relation whose rows are only those where some values are there."""
    names = [name for name, expr in member.columns.items() if expr in present]
    return _with_nulls(member, names, Nulls.NEVER)


def _with_nulls(member: Member, names: Iterable[str], nulls: Nulls) -> Member:
    changed = {
        name: replace(expr, nulls=nulls)
        for name in names
        if isinstance(expr := member.columns[name], ColumnRef)
    }
    return replace(member, columns={**member.columns, **changed})


def most_pairs(context: Context, *sides: Relation) -> int | None:
    """Return how many pairs of rows a unit has at most, where both sides can have several."""
    return None if any(context.extent(side).single for side in sides) else extent.MOST_PAIRS


def semi_join(
    context: Context,
    span: Span,
    sides: tuple[Relation, Relation],
    negated: bool,
    asked: Sequence[Expr],
) -> SemiJoin:
    """Keep the rows for which their unit has a row that meets what is asked, or has none."""
    (source, other), (ours, theirs) = sides, map(numbers, sides)
    read = [{of for of, _ in columns_of(expr)} for expr in asked]
    own = [expr for expr, of in zip(asked, read, strict=True) if of and of <= theirs]
    condition = all_of(span, own)
    if condition is not None:
        other = Filter(span, other, condition)
    both = [expr for expr in asked if expr not in own]
    equalities = all(equated_by(expr, ours, theirs) for expr in both)
    pairs = None if equalities else most_pairs(context, source, other)
    joined = SemiJoin(span, source, other, negated, all_of(span, both), pairs)
    return context.small(joined, span)
