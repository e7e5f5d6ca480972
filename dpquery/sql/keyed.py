"""Joins of private rows with a public table: on a key that the policy declares unique.

Each row then meets one public row at most, and stays one row of its unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlglot import expressions as exp

from dpquery.expr import ColumnRef, Compare, Comparison, Expr, Logic, Nulls, Widen
from dpquery.source import Span
from dpquery.sql.conditions import Conditions
from dpquery.sql.literals import unwrapped
from dpquery.sql.names import Member, Scope, fold
from dpquery.sql.sources import Context, PublicItem, longest_value, range_of
from dpquery.sql.unjoined import JoinedBy, refuse_key
from dpquery.types import Kind

__all__ = ["KeyJoin", "all_of", "equal_names"]


def all_of(span: Span, parts: Sequence[Expr]) -> Expr | None:
    """Give the condition that all parts are true; None of no parts."""
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
        """Give the condition of the join.

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
        """Say whether a node is a column of the public table and of no other."""
        if not isinstance(node, exp.Column):
            return False
        named = fold(node.table) == fold(self.member.alias) if node.table else True
        here = any(fold(name) == fold(node.name) for name in self.member.columns)
        return named and here and (bool(node.table) or not self.before.knows(node.name))

    def _speaks_of_public(self, node: exp.Expr) -> bool:
        return any(self._is_public(column) for column in node.find_all(exp.Column))

    def _known(self, node: exp.Expr) -> bool:
        """Say whether every column of an expression is of a relation joined before."""
        aliases = {fold(member.alias) for member in self.before.members}
        return all(
            fold(column.table) in aliases if column.table else self.before.knows(column.name)
            for column in node.find_all(exp.Column)
        )

    def _compared(self, expr: Expr) -> ColumnRef | None:
        """Give the public column that an equality is about, if its values stay different.

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
