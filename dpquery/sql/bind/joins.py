"""FROM clauses over private rows: each relation is joined on the unit, or to a public key.

Inner joins may stand in any order and as a list with commas; their conditions are looked
through for the equality that each join needs, and applied whole. What is not joined in one of
the two ways would pair the rows of one unit with those of another, and is refused with the
predicate to add.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace

from sqlglot import expressions as exp

from dpquery.core.source import Span
from dpquery.core.types import Kind
from dpquery.errors import QueryRefused, refusal
from dpquery.ir import relations as extent
from dpquery.ir.expr import (
    ColumnRef,
    Compare,
    Comparison,
    Expr,
    Logic,
    Nulls,
    Widen,
    columns_of,
)
from dpquery.ir.relations import (
    Filter,
    PublicJoin,
    Relation,
    SemiJoin,
    UnitJoin,
    equated_by,
    numbers,
    tables_of,
)
from dpquery.rowfunctions import apply
from dpquery.rowfunctions.ranges import facts_of
from dpquery.sql.bind.expressions import Conditions, conjuncts
from dpquery.sql.bind.from_clause import (
    Context,
    Derived,
    Private,
    PublicItem,
    longest_value,
    materialised,
    range_of,
)
from dpquery.sql.bind.scope import Member, Scope, fold, listed_names, written_name
from dpquery.sql.bind.typed import alike
from dpquery.sql.parse.literals import unwrapped
from dpquery.sql.suggest.joins import (
    JoinedBy,
    refuse_computed,
    refuse_key,
    refuse_kind,
    refuse_off_unit,
    refuse_public_kind,
    refuse_public_rows,
    refuse_twice,
    refuse_units,
)
from dpquery.sql.suggest.queries import COUNT, query_about


def bind_from(
    context: Context,
    items: Sequence[tuple[Derived | PublicItem, str, exp.Join | None, Span]],
    where: exp.Where | None,
    *,
    grouped: bool,
) -> Private:
    """Join the relations of a FROM clause of which one at least is private.

    Raises:
        RuleRefused: DPQ304 a join off the unit, DPQ306 one with a public table that is not on
            its key, DPQ308 units that cannot be compared.
        SyntaxRefused: DPQ102 a kind of join that is not answered.
    """
    seen: set[str] = set()
    for _, alias, _, span in items:
        if alias and fold(alias) in seen:
            refuse_twice(alias, span)
        seen.add(fold(alias))
    asked = conjuncts(None if where is None else where.this)
    return _From(context, [_Item(*item) for item in items], asked, grouped).joined()


@dataclass(frozen=True, slots=True)
class _Item:
    """One relation of the clause, and how it is joined to those before it."""

    found: Derived | PublicItem
    alias: str
    join: exp.Join | None
    span: Span

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
    def using(self) -> list[exp.Identifier]:
        return [] if self.join is None else self.join.args.get("using") or []

    @property
    def asked(self) -> list[exp.Expr]:
        return [] if self.join is None else conjuncts(self.join.args.get("on"))


class _From:
    """Joins the relations of one clause, from left to right."""

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
        private = (
            (at, i, i.found) for at, i in enumerate(items) if isinstance(i.found, Derived)
        )
        self.at, item, found = next(private)
        """Which item is the first private one."""
        self.table = found.table
        self.relation = found.relation
        self.members = [found.member(item.alias)]

    @property
    def scope(self) -> Scope:
        """What the names mean so far."""
        return Scope(tuple(self.members), self.table)

    def joined(self) -> Private:
        """Begin with the first private relation; public ones before it are joined to it."""
        first, waiting = self.items[self.at], list[tuple[_Item, PublicItem]]()
        for item in self.items[: self.at]:
            self._require_kind(item)
            if isinstance(item.found, PublicItem):
                waiting.append((item, item.found))
                self.pool += item.asked
        self._require_kind(first)
        if waiting and first.join is not None:
            last, public = waiting.pop()
            if waiting and first.side:
                refuse_kind(first.span, f"a {first.side} JOIN after several public tables")
            self._public(replace(last, join=_turned(first.join)), public)
        for item, public in waiting:
            self._public(replace(item, join=None), public)
        for item in self.items[self.at + 1 :]:
            self._require_kind(item)
            if isinstance(item.found, PublicItem):
                self._public(item, item.found)
            else:
                self._private(item, item.found)
        self._apply()
        return Private(self.relation, self.scope)

    def _require_kind(self, item: _Item) -> None:
        if item.join is not None and item.join.method:
            refuse_kind(item.span, f"{item.join.method} JOIN")
        public, lone = isinstance(item.found, PublicItem), set[str]()
        if public or (self.at and item is self.items[self.at]):
            lone = {"RIGHT", "FULL"} if public else {"LEFT", "FULL"}
        if item.side in lone and not (self.grouped and item.side != "FULL"):
            other = "LEFT" if public else "RIGHT"
            instead = other if item.side == "FULL" else ""
            refuse_public_rows(self._by(item), item.side, instead)

    def _by(self, item: _Item) -> JoinedBy:
        return JoinedBy(item.join, item.span, self.context.spans)

    def _apply(self) -> None:
        """Keep the rows so far for which all holds that inner joins asked."""
        rows = Conditions(self.scope, self.context.spans)
        for node in self.pool:
            span = self.context.spans.of(node)
            self.relation = Filter(span, self.relation, rows.condition(node))
        self.pool = []

    def _public(self, item: _Item, public: PublicItem) -> None:
        """Join a public table on its unique key."""
        if item.kind:
            refuse_public_kind(self._by(item), item.kind)
        keeps, own = item.side == "LEFT", item.asked
        key = _KeyJoin(self.context, self.scope, public)
        pool = own if keeps else [*own, *self.pool, *self.where]
        condition = key.condition(self._by(item), item.using, pool, own if keeps else None)
        if not keeps:
            self.pool += own
        self.relation = PublicJoin(
            item.span, self.relation, public.table.name, key.number, condition, keeps
        )
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
        ours = {owner for m in self.members for owner in m.owners - m.hidden}
        if {fold(name.name) for name in item.using} & ours & member.owners:
            return True
        pool = (*item.asked, *self.pool, *self.where) if inner else item.asked
        return any(self._equates_units(node, member) for node in pool)

    def _equates_units(self, node: exp.Expr, member: Member) -> bool:
        """Return whether the unit of the rows so far is equated with that of a relation."""
        if not isinstance(node, exp.EQ):
            return False
        both = Scope((*self.members, member), self.table)
        sides = [both.owners_at(unwrapped(side)) for side in (node.this, node.expression)]
        if any(len(side) != 1 for side in sides):
            return False
        return [member.alias in side for side in sides] in ([True, False], [False, True])


class _KeyJoin:
    """Finds, in the conditions of a clause, the equalities with a public table's unique key.

    Each row then meets one public row at most, and stays one row of its unit.
    """

    def __init__(self, context: Context, before: Scope, public: PublicItem) -> None:
        self.context = context
        self.before = before
        self.public = public
        self.number = context.numbers()
        self.member = self._member()

    def _member(self) -> Member:
        """Return the columns of the public table, with what is known of their values."""
        facts, table = self.context.public, self.public.table.name
        columns = {}
        for name, type_ in facts.types(table).items():
            keys = facts.values(table, name)
            columns[self.public.names[name]] = ColumnRef(
                self.public.span,
                name,
                type_,
                range_of(keys),
                keys is not None,
                keys=keys,
                longest=longest_value(keys) if type_.kind is Kind.TEXT else 0,
                of=self.number,
                nulls=Nulls.GROUPED if facts.nulls(table, name) else Nulls.NEVER,
            )
        return Member(self.public.alias, columns)

    def condition(
        self,
        by: JoinedBy,
        using: Sequence[exp.Identifier],
        pool: Sequence[exp.Expr],
        whole: Sequence[exp.Expr] | None,
    ) -> Expr:
        """Return the condition of the join, whose equalities are looked for in a pool.

        The whole of ON is asked where rows that it is not true for are preserved.
        """
        scope = Scope((*self.before.members, self.member), self.before.table)
        rows = Conditions(scope, self.context.spans)
        named = [equal_names(self.context, self.before, self.member, name) for name in using]
        found = [rows.condition(node) for node in pool if self._equates_key(node)]
        compared = map(self._compared, (*named, *found))
        unique = {*map(fold, self.public.table.unique)}
        if not unique or not unique <= {fold(column.name) for column in compared if column}:
            refuse_key(by, self.public, self.before)
        rest = found if whole is None else [rows.condition(node) for node in whole]
        made = all_of(by.relation, [*named, *rest])
        assert made is not None  # noqa: S101 - a key has a column
        return made

    def _equates_key(self, node: exp.Expr) -> bool:
        """Return whether a condition is `key = expression over the rows before`."""
        if not isinstance(node, exp.EQ):
            return False
        for key, value in ((node.this, node.expression), (node.expression, node.this)):
            of_public = any(map(self._is_public, value.find_all(exp.Column)))
            if self._is_public(unwrapped(key)) and not of_public:
                return self.before.has_columns_of(value)
        return False

    def _is_public(self, node: exp.Expr) -> bool:
        """Return whether a node is a column of the public table and of no other."""
        if not isinstance(node, exp.Column) or fold(node.name) not in map(
            fold, self.member.columns
        ):
            return False
        if node.table:
            return fold(node.table) == fold(self.member.alias)
        return not self.before.knows(node.name)

    def _compared(self, expr: Expr) -> ColumnRef | None:
        """Return the public column that an equality is about, if its values stay different.

        As doubles, large integers that differ are the same number: a row would meet several.
        """
        assert isinstance(expr, Compare)  # noqa: S101 - made as one
        assert expr.operator is Comparison.EQ  # noqa: S101
        for side in (expr.left, expr.right):
            inner = side.operand if isinstance(side, Widen) else side
            if isinstance(inner, ColumnRef) and inner.of == self.number:
                blurred = side.type.kind is Kind.DOUBLE and inner.type.kind is not Kind.DOUBLE
                return None if blurred else inner
        return None


def all_of(span: Span, conditions: Sequence[Expr]) -> Expr | None:
    """Return the condition that all of some are true; None of none."""
    if len(conditions) < 2:
        return conditions[0] if conditions else None
    return Logic(span, True, tuple(conditions))


def equal_names(context: Context, before: Scope, member: Member, name: exp.Identifier) -> Expr:
    """Write USING (name) as an equality of the rows before with a relation."""
    _require_shared(context, before, member, name)
    left = Conditions(before, context.spans)
    rows = Conditions(Scope((*before.members, member), before.table), context.spans)
    theirs = exp.column(name.copy(), table=exp.to_identifier(member.alias, quoted=True))
    ours = exp.column(name.copy())
    for made in (theirs, ours):
        made.this.meta.update(name.meta)
    one, other = left.bind(ours), rows.bind(theirs)
    return rows.equal(context.spans.of(name), one, other)


def _require_shared(
    context: Context, before: Scope, member: Member, name: exp.Identifier
) -> None:
    """Require a name of USING on both sides; offer one that both have."""
    theirs = Scope((member,), before.table)
    if before.knows(name.name) and theirs.knows(name.name):
        return
    here = " or ".join(sorted(one.alias for one in before.members))
    lacking = member.alias if before.knows(name.name) else here
    known = [column for column in member.columns if before.knows(column)]
    title = f"there is no column {name.name[:80]!r} in {lacking}"
    why = "USING names columns that both sides of a join have."
    columns = f"columns of {here}: {listed_names(before.columns)}"
    first = written_name(known[0]) if known else query_about(before.table, COUNT)
    remedy = (first, columns, f"columns of {member.alias}: {listed_names(theirs.columns)}")
    raise refusal("DPQ204", title, context.spans.of(name), "not in both", why, remedy)


def _turned(join: exp.Join) -> exp.Join:
    """Write a join with its sides changed: of a public relation and the rows that follow it."""
    turned = join.copy()
    turned.set("side", "LEFT" if join.side == "RIGHT" else None)
    return turned


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


def same_units(context: Context, left: Relation, right: Relation, span: Span) -> None:
    """Refuse to compare units of different domains."""
    one, other = (context.policy.tables[tables_of(r)[0].table] for r in (left, right))
    if one.unit is None or other.unit is None:
        whose = one if one.unit is None else other
        refuse_units(span, f"each row of {whose.name} is a unit of its own")
    if fold(one.unit) != fold(other.unit):
        refuse_units(span, f"{one.name} has {one.unit}, and {other.name} has {other.unit}")
    if one.unit_type is None or one.unit_type != other.unit_type:
        refuse_units(span, f"{one.unit} is not declared with one type in both tables")
