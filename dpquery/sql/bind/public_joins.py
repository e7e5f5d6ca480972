"""Joins of private rows with a public table, on a key that is declared unique."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import expressions as exp

from dpquery.core.source import Span
from dpquery.core.types import Kind
from dpquery.ir.expr import ColumnRef, Compare, Comparison, Expr, Logic, Nulls, Widen
from dpquery.sql.bind.expressions import Conditions
from dpquery.sql.bind.from_clause import Context, PublicItem, longest_value, range_of
from dpquery.sql.bind.scope import Member, Scope, fold
from dpquery.sql.parse.literals import unwrapped
from dpquery.sql.suggest.joins import JoinedBy, refuse_key


class KeyJoin:
    """Finds, in the conditions of a clause, the equalities with a public table's unique key.

    Each row then meets one public row at most, and stays one row of its unit.
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
    ) -> Expr:
        """Return the condition of the join, whose equalities are looked for in a pool.

        The whole of ON is asked where rows that it is not true for are preserved.
        """
        found = self.equalities(using, pool)
        if not self.meets_one(found):
            refuse_key(by, self.public, self.before)
        if whole is not None:
            rows, named = self._rows(), found[: len(using)]
            found = [*named, *map(rows.condition, whole)]
        made = all_of(by.relation, found)
        assert made is not None  # noqa: S101 - a key has a column
        return made

    def equalities(
        self, using: Sequence[exp.Identifier], pool: Sequence[exp.Expr]
    ) -> list[Expr]:
        """Bind USING, and what a pool of conditions has to say of equal columns."""
        rows = self._rows()
        named = [equal_names(self.context, self.before, self.member, name) for name in using]
        return [*named, *(rows.condition(node) for node in pool if self._equates_key(node))]

    def meets_one(self, equalities: Sequence[Expr]) -> bool:
        """Return whether each row meets one public row at most, where these hold."""
        compared = map(self._compared, equalities)
        unique = {*map(fold, self.public.table.unique)}
        return bool(unique) and unique <= {fold(column.name) for column in compared if column}

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
    left = Conditions(before, context.spans)
    rows = Conditions(Scope((*before.members, member), before.table), context.spans)
    theirs = exp.column(name.copy(), table=exp.to_identifier(member.alias, quoted=True))
    ours = exp.column(name.copy())
    for made in (theirs, ours):
        made.this.meta.update(name.meta)
    one, other = left.bind(ours), rows.bind(theirs)
    return rows.equal(context.spans.of(name), one, other)
