"""Joins of private rows with a public table: the rows that meet, and groups of its columns."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, TypeGuard

from sqlglot import expressions as exp

from dpquery.core.source import Span
from dpquery.core.types import BOOLEAN, Kind
from dpquery.errors import refusal
from dpquery.ir.expr import (
    ColumnRef,
    Compare,
    Comparison,
    Expr,
    Literal,
    Logic,
    Nulls,
    Widen,
    columns_of,
)
from dpquery.ir.query import Key
from dpquery.ir.relations import PublicJoin
from dpquery.ir.walk import constants_in
from dpquery.rowfunctions.evaluate import Row, constant, evaluate
from dpquery.rowfunctions.key_domains import is_exact, tuples_of
from dpquery.rowfunctions.ranges import facts_of
from dpquery.sql.bind.expressions import Conditions
from dpquery.sql.bind.from_clause import Context, PublicItem, longest_value, range_of
from dpquery.sql.bind.scope import Member, Scope, fold, listed_names, written_name
from dpquery.sql.parse.literals import unwrapped
from dpquery.sql.size_limits import MOST_COPIES
from dpquery.sql.suggest.joins import JoinedBy, refuse_key
from dpquery.sql.suggest.queries import COUNT, query_about

if TYPE_CHECKING:
    from dpquery.sql.bind.groups import Keys


class KeyJoin:
    """Finds, in the conditions of a clause, the equalities with columns of a public table.

    With all columns of a unique key, each row meets one public row at most. Else it meets as
    many as have equal values there, which is public; all of them are rows of its unit then, so
    the unit has to be known by a column.
    """

    def __init__(
        self, context: Context, before: Scope, public: PublicItem, number: int
    ) -> None:
        self.context = context
        self.before = before
        self.public = public
        self.number = number
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
    ) -> tuple[Expr, int]:
        """Return the condition of the join, and how many public rows meet one row at most.

        Equalities are looked for in a pool; the whole of ON is asked where rows that it is not
        true for are preserved.
        """
        found = self.equalities(using, pool)
        most = self.most(found)
        if most > 1 and self._too_many(by, found, most):
            refuse_key(by, self.public, self.before, most)
        if whole is not None:
            rows, named = self._rows(), found[: len(using)]
            found = [*named, *map(rows.condition, whole)]
        all_rows = Literal(by.relation, True, BOOLEAN)
        return all_of(by.relation, found) or all_rows, most

    def _too_many(self, by: JoinedBy, found: Sequence[Expr], most: int) -> bool:
        """Return whether a row may not meet several public rows, or that may not be meant."""
        units = self.before.table.unit is not None
        return most > MOST_COPIES or not units or not (found or by.conditioned)

    def equalities(
        self, using: Sequence[exp.Identifier], pool: Sequence[exp.Expr]
    ) -> list[Expr]:
        """Bind USING, and what a pool of conditions has to say of equal columns."""
        rows = self._rows()
        named = [equal_names(self.context, self.before, self.member, name) for name in using]
        return [*named, *(rows.condition(node) for node in pool if self._equates_key(node))]

    def most(self, equalities: Sequence[Expr]) -> int:
        """Return how many public rows meet one row at most, where these hold; at least one."""
        compared = map(self._compared, equalities)
        names = {column.name for column in compared if column}
        unique = {*map(fold, self.public.table.unique)}
        if unique and unique <= {*map(fold, names)}:
            return 1
        table = self.public.table.name
        return max(1, self.context.public.most_equal(table, tuple(sorted(names))))

    def _rows(self) -> Conditions:
        scope = Scope((*self.before.members, self.member), self.before.table)
        return Conditions(scope, self.context.spans)

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


class PublicKeys:
    """Keys that are columns of one public table: groups are the combinations that it has."""

    def __init__(self, keys: Keys, number: int, join: PublicJoin) -> None:
        self.keys = keys
        self.number = number
        self.join = join
        self.said = [*filter(self._is_own, facts_of(keys.rows.where).said)]
        """What WHERE says of the public columns alone."""
        on = facts_of(join.condition)
        self.asked = [*filter(self._is_own, on.said)]
        """What ON asks of the public rows that others meet."""
        self.present = [one for one in on.present if self._is_column(one)]
        self.same = {} if join.keeps else dict(filter(None, map(self._equated, on.said)))
        """The public columns that other columns are equal to."""

    def together(self, own: tuple[Key, ...]) -> tuple[Key, ...]:
        """Return keys of which those of this table have the combinations that it has."""
        taken = {column for key in own if key.beside for column in (key.beside, key.column)}
        mine = [
            key
            for key in own
            if key.finding is None
            and key.column not in taken
            and self._is_own(self._public(key))
        ]
        rows = self._rows(mine) if mine else None
        if rows is None:
            return own
        known = [(at, {*key.listed}) for at, key in enumerate(mine) if key.listed]
        found = [
            one
            for one in tuples_of([self._public(key) for key in mine], rows)
            if all(one[at] in values for at, values in known)
        ]
        if not found:
            self.keys.refuse_empty(mine[0].span, self.said or self.asked)
        lead, *_ = names = [key.column for key in mine]
        listed = dict(zip(names, zip(*found, strict=True), strict=True))
        return tuple(
            replace(key, listed=listed[key.column], beside="" if key.column == lead else lead)
            if key.column in listed
            else key
            for key in own
        )

    def with_shown(self, own: tuple[Key, ...]) -> tuple[Key, ...]:
        """Return keys with the columns of this table that are shown, and determined by them."""
        grouped = {one.name for one in map(self._public, own) if self._is_column(one)}
        if not self._tell_rows_apart(grouped):
            return own
        shown = [self.keys.beside(one) for one in self.keys.shown if self._is_shown(one)]
        return (*own, *(key for key in shown if key.column not in {one.column for one in own}))

    def _tell_rows_apart(self, columns: Set[str]) -> bool:
        """Return whether some columns have values that occur once, which is public."""
        facts, table = self.keys.context.public, self.join.table
        present = sorted(name for name in columns if not facts.nulls(table, name))
        return bool(present) and facts.most_equal(table, tuple(present)) <= 1

    def _public(self, key: Key) -> Expr:
        return self.same.get(key.expr, key.expr)

    def _is_shown(self, column: ColumnRef) -> bool:
        """Return whether a column is of this table, and its values can be written exactly."""
        if not self._is_column(column):
            return False
        values = self.keys.context.public.tuples(self.join.table, (column.name,)) or ()
        return all(not isinstance(one, float) or isfinite(one) for (one,) in values)

    def _is_column(self, expr: Expr) -> TypeGuard[ColumnRef]:
        return isinstance(expr, ColumnRef) and expr.of == self.number

    def _is_own(self, expr: Expr) -> bool:
        """Return whether an expression reads this table alone, and means the same anywhere."""
        read = {of for of, _ in columns_of(expr)}
        return read == {self.number} and is_exact(expr) and not any(constants_in(expr))

    def _equated(self, part: Expr) -> tuple[Expr, Expr] | None:
        """Return a column of other rows, and the public one that it equals."""
        if not isinstance(part, Compare) or part.operator is not Comparison.EQ:
            return None
        for one, other in ((part.left, part.right), (part.right, part.left)):
            if self._is_column(one) and isinstance(other, ColumnRef) and one.type == other.type:
                return other, one
        return None

    def _rows(self, keys: Sequence[Key]) -> list[Row] | None:
        """Return the public rows that private ones can meet, and one of NULL for the others."""
        exprs = [*map(self._public, keys), *self.said, *self.asked, *self.present]
        columns = columns_of(*exprs)
        names = tuple(name for _, name in columns)
        found = self.keys.context.public.tuples(self.join.table, names)
        if found is None:
            return None
        types = [column.type for column in columns.values()]
        rows: list[Row] = [
            dict(zip(columns, map(constant, values, types), strict=True)) for values in found
        ]
        rows = [
            row
            for row in rows
            if all(evaluate(one, row) is True for one in self.asked)
            and all(evaluate(one, row) is not None for one in self.present)
        ]
        if self.join.keeps:
            rows.append(dict.fromkeys(columns))
        return [row for row in rows if all(evaluate(one, row) is True for one in self.said)]
