"""FROM clauses over private rows: each relation is joined on the unit, or to a public key.

Inner joins may stand in any order and as a list with commas; their conditions are looked
through for the equality that each join needs, and applied whole. What is not joined in one of
the two ways would pair the rows of one unit with those of another, and is refused with the
predicate to add.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlglot import expressions as exp

from dpquery.core.source import Span
from dpquery.core.types import Kind
from dpquery.errors import QueryRefused
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
from dpquery.policy.model import Table
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
from dpquery.sql.bind.scope import Member, Scope, fold
from dpquery.sql.bind.typing import alike
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

# Joins of private rows with a public table: on a key that the policy declares unique.
#
# Each row then meets one public row at most, and stays one row of its unit.


def all_of(span: Span, parts: Sequence[Expr]) -> Expr | None:
    """Return the condition that all parts are true; None of no parts."""
    if len(parts) < 2:
        return parts[0] if parts else None
    return Logic(span, True, tuple(parts))


def equal_names(context: Context, before: Scope, member: Member, name: exp.Identifier) -> Expr:
    """Write USING (name) as an equality of the rows before with a relation."""
    left = Conditions(before, context.spans)
    rows = Conditions(Scope((*before.members, member), before.table), context.spans)
    theirs = exp.column(name.copy(), table=exp.to_identifier(member.alias, quoted=True))
    ours = exp.column(name.copy())
    for made in (theirs, ours):
        made.this.meta.update(name.meta)
    one, other = left.bind(ours), rows.bind(theirs)
    return rows.equal(context.spans.of(name), one, other)


@dataclass(frozen=True)
class KeyJoin:
    """Finds, in the conditions of a clause, the equalities with a public table's key."""

    context: Context
    before: Scope
    """What the names of the rows mean that are joined to it."""
    public: PublicItem
    number: int

    @cached_property
    def member(self) -> Member:
        """The columns of the public table, with what is known of their values."""
        facts = self.context.public
        columns = {}
        for name, type_ in facts.types(self.public.table.name).items():
            keys = facts.values(self.public.table.name, name)
            columns[self.public.names[name]] = ColumnRef(
                self.public.span,
                name,
                type_,
                range_of(keys),
                keys is not None,
                keys=keys,
                longest=longest_value(keys) if type_.kind is Kind.TEXT else 0,
                of=self.number,
                nulls=Nulls.GROUPED
                if facts.nulls(self.public.table.name, name)
                else Nulls.NEVER,
            )
        return Member(self.public.alias, columns)

    def condition(
        self,
        at: JoinedBy,
        using: Sequence[exp.Identifier],
        pool: Sequence[exp.Expr],
        whole: Sequence[exp.Expr] | None,
    ) -> Expr:
        """Return the condition of the join.

        Args:
            at: where the join stands.
            using: the names that it compares.
            pool: the conditions among which its equalities are looked for.
            whole: all that ON asks, where rows are kept that it is not true for.

        Raises:
            RuleRefused: DPQ306 the key is not among what is compared.
        """
        scope = Scope((*self.before.members, self.member), self.before.table)
        rows = Conditions(scope, self.context.spans)
        named = [equal_names(self.context, self.before, self.member, name) for name in using]
        found = [equality for part in pool if (equality := self._equality(part, rows))]
        compared = (self._compared(expr) for expr in (*named, *found))
        keyed = {fold(column.name) for column in compared if column is not None}
        unique = {*map(fold, self.public.table.unique)}
        if not unique or not unique <= keyed:
            refuse_key(at, self.public, self.before)
        rest = found if whole is None else [rows.condition(part) for part in whole]
        made = all_of(at.relation, [*named, *rest])
        assert made is not None  # noqa: S101 - a key has a column
        return made

    def _equality(self, part: exp.Expr, rows: Conditions) -> Expr | None:
        """Bind `key = expression over the rows before`; None where a part is not that."""
        if not isinstance(part, exp.EQ):
            return None
        for key, value in ((part.this, part.expression), (part.expression, part.this)):
            if self._is_public(unwrapped(key)) and not self._speaks_of_public(value):
                return rows.condition(part) if self._known(value) else None
        return None

    def _is_public(self, node: exp.Expr) -> bool:
        """Return whether a node is a column of the public table and of no other."""
        if not isinstance(node, exp.Column):
            return False
        named = fold(node.table) == fold(self.member.alias) if node.table else True
        here = any(fold(name) == fold(node.name) for name in self.member.columns)
        return named and here and (bool(node.table) or not self.before.knows(node.name))

    def _speaks_of_public(self, node: exp.Expr) -> bool:
        return any(self._is_public(column) for column in node.find_all(exp.Column))

    def _known(self, node: exp.Expr) -> bool:
        """Return whether every column of an expression is of a relation joined before."""
        aliases = {fold(member.alias) for member in self.before.members}
        return all(
            fold(column.table) in aliases if column.table else self.before.knows(column.name)
            for column in node.find_all(exp.Column)
        )

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


@dataclass(slots=True)
class _Item:
    """One relation of the clause, and how it is joined to those before it."""

    found: Derived | PublicItem
    alias: str
    join: exp.Join | None
    span: Span

    @property
    def side(self) -> str:
        """LEFT, RIGHT, FULL, or nothing for an inner join."""
        return str(self.join.side).upper() if self.join is not None and self.join.side else ""

    @property
    def kind(self) -> str:
        """SEMI, ANTI, or nothing."""
        kind = str(self.join.kind).upper() if self.join is not None and self.join.kind else ""
        return kind if kind in {"SEMI", "ANTI"} else ""


@dataclass
class _From:
    """Joins the relations of one clause, from left to right."""

    context: Context
    table: Table
    where: list[exp.Expr]
    """What WHERE asks of every row: for relations that are joined by a comma."""
    grouped: bool
    """Whether all groups are shown anyway, so that keeping public rows adds none."""
    relation: Relation | None = None
    members: list[Member] = field(default_factory=list)
    waiting: list[_Item] = field(default_factory=list)
    """Public tables that stand before the first private one."""
    pool: list[exp.Expr] = field(default_factory=list)
    """Conditions of inner joins."""

    @property
    def scope(self) -> Scope:
        """What the names mean so far."""
        return Scope(tuple(self.members), self.table)

    def add(self, item: _Item) -> None:
        """Join the next relation."""
        self._join_kinds(item)
        if isinstance(item.found, PublicItem):
            if self.relation is None:
                self.waiting.append(item)
                self.pool += self._own(item)
            else:
                self._public(item, item.found)
        elif self.relation is None:
            self._first(item, item.found)
        else:
            self._private(item, item.found)

    def _join_kinds(self, item: _Item) -> None:
        join = item.join
        if join is None:
            return
        method = str(join.args.get("method") or "").upper()
        if method:
            refuse_kind(item.span, f"{method} JOIN")
        public_kept = isinstance(item.found, PublicItem) and item.side in {"RIGHT", "FULL"}
        before = isinstance(item.found, Derived) and self.relation is None
        private_kept = before and self.waiting and item.side in {"LEFT", "FULL"}
        if (public_kept or private_kept) and not (self.grouped and item.side != "FULL"):
            at = self._at(item)
            kept = "LEFT" if isinstance(item.found, PublicItem) else "RIGHT"
            refuse_public_rows(at, item.side, kept if item.side == "FULL" else "")

    def _at(self, item: _Item) -> JoinedBy:
        return JoinedBy(item.join, item.span, self.context.spans)

    def _own(self, item: _Item) -> list[exp.Expr]:
        """Return the conditions of a join, as they stand after ON."""
        return [] if item.join is None else conjuncts(item.join.args.get("on"))

    def _first(self, item: _Item, found: Derived) -> None:
        """Begin with the first private relation; public ones before it are joined to it."""
        self.relation = found.relation
        self.members.append(found.member(item.alias))
        if self.waiting and item.join is not None:
            last = self.waiting.pop()
            if self.waiting and item.side:
                refuse_kind(item.span, f"a {item.side} JOIN after several public tables")
            self._public(replace(last, join=_turned(item.join)), last.found)  # type: ignore[arg-type]
        for waiting in self.waiting:
            self._public(replace(waiting, join=None), waiting.found)  # type: ignore[arg-type]
        self.waiting = []

    def finish(self) -> Private:
        """Apply what the inner joins ask of rows beyond their equalities."""
        self._apply()
        assert self.relation is not None  # noqa: S101 - the caller saw a private relation
        return Private(self.relation, self.scope)

    def _apply(self) -> None:
        """Keep the rows so far for which all holds that inner joins asked."""
        assert self.relation is not None  # noqa: S101 - nothing is asked before there is one
        rows = Conditions(self.scope, self.context.spans)
        for part in self.pool:
            span = self.context.spans.of(part)
            self.relation = Filter(span, self.relation, rows.condition(part))
        self.pool = []

    def _public(self, item: _Item, public: PublicItem) -> None:
        """Join a public table on its unique key."""
        assert self.relation is not None  # noqa: S101 - it waits until there is one
        if item.kind:
            refuse_public_kind(self._at(item), item.kind)
        keeps = item.side == "LEFT"
        using = [] if item.join is None else item.join.args.get("using") or []
        own = self._own(item)
        key = KeyJoin(self.context, self.scope, public, self.context.numbers())
        pool = own if keeps else [*own, *self.pool, *self.where]
        condition = key.condition(self._at(item), using, pool, own if keeps else None)
        if not keeps:
            self.pool += own
        self.relation = PublicJoin(
            item.span, self.relation, public.table.name, key.number, condition, keeps
        )
        names = frozenset(fold(name.name) for name in using)
        if keeps:
            self.members.append(_hiding(_missing(key.member), using))
            return
        present = facts_of(condition).present
        self.members = [_known(m, present) for m in self.members]
        member = _known(key.member, present)
        if any(names & m.owners for m in self.members):
            self.members.append(_hiding(member, using))
            return
        # Both columns are equal, and of the public one the values are known: it may be a group.
        self.members = [replace(m, hidden=m.hidden | names) for m in self.members]
        self.members.append(member)

    def _private(self, item: _Item, found: Derived) -> None:
        """Join another private relation on the unit."""
        assert self.relation is not None  # noqa: S101 - the caller looked
        using = [] if item.join is None else item.join.args.get("using") or []
        inner = not item.side and not item.kind
        keeps = (item.side in {"LEFT", "FULL"}, item.side in {"RIGHT", "FULL"})
        if keeps[1]:
            self._apply()  # of rows that are kept without a partner, nothing is asked
            self._materialise(item.span)
        if keeps[0]:
            found = materialised(found, self.context.numbers(), item.span)
        member = found.member(item.alias)
        scope = Scope((*self.members, member), self.table)
        own = self._own(item)
        pool = [*own, *self.pool, *self.where] if inner else own
        if not self._on_unit(using, pool, member):
            refuse_off_unit(self._at(item), self.members, member, self.table)
        same_units(self.context, self.relation, found.relation, item.span)
        rows = Conditions(scope, self.context.spans)
        rest = [part for part in own if not self._is_unit_equality(part, member)]
        more = [
            equal_names(self.context, self.scope, member, name)
            for name in using
            if fold(name.name) not in member.owners
        ]
        asked = [*more, *self._asked(rows, rest, (found, member), inner=inner)]
        if item.kind:
            negated = item.kind == "ANTI"
            self.relation = semi_join(
                self.context, item.span, (self.relation, found.relation), negated, asked
            )
            return
        condition = all_of(item.span, asked)
        pairs = most_pairs(self.context, self.relation, found.relation)
        joined = UnitJoin(item.span, self.relation, found.relation, condition, pairs, *keeps)
        self.relation = self.context.small(joined, item.span)
        self._join_members(item, member, using, keeps)

    def _asked(
        self,
        rows: Conditions,
        parts: Sequence[exp.Expr],
        joined: tuple[Derived, Member],
        *,
        inner: bool,
    ) -> list[Expr]:
        """Bind what a join asks of pairs; where all rows have partners, its equalities alone.

        The rest is asked of the rows of the whole clause then. What WHERE equates is asked here
        too, for pairs are counted by it: rows that a comma joins have their equalities there.
        """
        if not inner:
            return [rows.condition(part) for part in parts]
        assert self.relation is not None  # noqa: S101 - the caller looked
        asked = []
        found, member = joined
        sides = (numbers(self.relation), numbers(found.relation))
        for part in (*parts, *self.pool, *self.where):
            own, bound = any(part is one for one in parts), None
            unit = self._is_unit_equality(part, member)
            if not unit and self._equality(part, rows.scope):
                with suppress(QueryRefused):  # it is bound again, and refused, with the rest
                    bound = rows.condition(part)
            if bound is not None and equated_by(bound, *sides):
                asked.append(bound)
            elif own:
                self.pool.append(part)
        return asked

    @staticmethod
    def _equality(part: exp.Expr, scope: Scope) -> bool:
        """Return whether a part is an equality of values of the rows so far."""
        aliases = {fold(member.alias) for member in scope.members}
        return (
            isinstance(part, exp.EQ)
            and part.find(exp.Query) is None
            and all(
                fold(column.table) in aliases if column.table else scope.knows(column.name)
                for column in part.find_all(exp.Column)
            )
        )

    def _materialise(self, span: Span) -> None:
        """Make columns of what the relations so far compute: their rows may be missing."""
        assert self.relation is not None  # noqa: S101 - the caller looked
        for place, member in enumerate(self.members):
            whole = Derived(self.relation, member.columns, member.owners, self.table)
            if any(not isinstance(expr, ColumnRef) for expr in member.columns.values()):
                if len(self.members) > 1:
                    refuse_computed(span)
                made = materialised(whole, self.context.numbers(), span)
                self.relation = made.relation
                self.members[place] = made.member(member.alias)

    def _join_members(
        self,
        item: _Item,
        member: Member,
        using: Sequence[exp.Identifier],
        keeps: tuple[bool, bool],
    ) -> None:
        """Name the columns; a unit that may be missing is the owner's no more.

        Where rows of the second relation are kept, what USING joined is in neither for all
        rows: it becomes a column of its own, that of the side that has it.
        """
        if not keeps[1]:
            left = _missing(member) if keeps[0] else member
            self.members.append(_hiding(left, using))
            return
        shared = frozenset(fold(name.name) for name in using)
        before = self.scope
        owners = shared & member.owners & {o for m in self.members for o in m.owners}
        merged = {
            name.name: self._merged(name, before, member, both=keeps[0])
            for name in using
            if before.knows(name.name)
        }
        self.members = [replace(_missing(m), hidden=m.hidden | shared) for m in self.members]
        right = _missing(member) if keeps[0] else member
        self.members += [_hiding(right, using), Member("", merged, owners)]

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

    def _on_unit(
        self, using: Sequence[exp.Identifier], pool: Sequence[exp.Expr], member: Member
    ) -> bool:
        ours = {owner for m in self.members for owner in m.owners - m.hidden}
        named = {fold(name.name) for name in using}
        if named & ours & member.owners:
            return True
        return any(self._is_unit_equality(part, member) for part in pool)

    def _is_unit_equality(self, part: exp.Expr, member: Member) -> bool:
        """Return whether a part equates the unit of the rows so far with that of a relation."""
        if not isinstance(part, exp.EQ):
            return False
        both = Scope((*self.members, member), self.table)
        sides = [both.owners_at(unwrapped(side)) for side in (part.this, part.expression)]
        if any(len(side) != 1 for side in sides):
            return False
        return [member.alias in side for side in sides] in ([True, False], [False, True])


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
    table = next(found.table for found, *_ in items if isinstance(found, Derived))
    clause = _From(context, table, conjuncts(None if where is None else where.this), grouped)
    seen: set[str] = set()
    for found, alias, join, span in items:
        if alias and fold(alias) in seen:
            refuse_twice(alias, span)
        seen.add(fold(alias))
        clause.add(_Item(found, alias, join, span))
    return clause.finish()


def _turned(join: exp.Join) -> exp.Join:
    """Write a join with its sides changed: of a public relation and the rows that follow it."""
    turned = join.copy()
    turned.set("side", "LEFT" if str(join.side).upper() == "RIGHT" else None)
    return turned


def _hiding(member: Member, using: Sequence[exp.Identifier]) -> Member:
    return replace(member, hidden=frozenset(fold(name.name) for name in using))


def most_pairs(context: Context, *sides: Relation) -> int | None:
    """Return how many pairs of rows a unit has at most, where both sides can have several."""
    single = any(context.extent(side).single for side in sides)
    return None if single else extent.MOST_PAIRS


def _missing(member: Member) -> Member:
    """Return a relation whose rows may be missing: its columns are NULL then, and no owner."""
    return _with_nulls(member, member.columns, Nulls.GROUPED, owners=frozenset())


def _known(member: Member, present: Set[Expr]) -> Member:
    """Return a relation whose rows are kept only where some values are there."""
    names = [name for name, expr in member.columns.items() if expr in present]
    return _with_nulls(member, names, Nulls.NEVER, owners=member.owners)


def _with_nulls(
    member: Member, names: Iterable[str], nulls: Nulls, owners: frozenset[str]
) -> Member:
    changed = {
        name: replace(expr, nulls=nulls)
        for name in names
        if isinstance(expr := member.columns[name], ColumnRef)
    }
    return replace(member, columns={**member.columns, **changed}, owners=owners)


def semi_join(
    context: Context,
    span: Span,
    sides: tuple[Relation, Relation],
    negated: bool,
    asked: Sequence[Expr],
) -> SemiJoin:
    """Keep the rows for which their unit has a row that meets what is asked, or has none."""
    (source, other), (ours, theirs) = sides, map(numbers, sides)
    own = [expr for expr in asked if _of(expr) and _of(expr) <= theirs]
    condition = all_of(span, own)
    if condition is not None:
        other = Filter(span, other, condition)
    both = [expr for expr in asked if expr not in own]
    equalities = all(equated_by(expr, ours, theirs) for expr in both)
    pairs = None if equalities else most_pairs(context, source, other)
    joined = SemiJoin(span, source, other, negated, all_of(span, both), pairs)
    return context.small(joined, span)


def _of(expr: Expr) -> set[int]:
    """Return the numbers of the relations whose columns an expression reads."""
    return {of for of, _ in columns_of(expr)}


def same_units(context: Context, left: Relation, right: Relation, span: Span) -> None:
    """Refuse to compare units of different domains.

    Raises:
        RuleRefused: DPQ308.
    """
    one, other = (context.policy.tables[tables_of(r)[0].table] for r in (left, right))
    if one.unit is None or other.unit is None:
        whose = one if one.unit is None else other
        refuse_units(span, f"each row of {whose.name} is a unit of its own")
    if fold(one.unit) != fold(other.unit):
        refuse_units(span, f"{one.name} has {one.unit}, and {other.name} has {other.unit}")
    if one.unit_type is None or one.unit_type != other.unit_type:
        refuse_units(span, f"{one.unit} is not declared with one type in both tables")
