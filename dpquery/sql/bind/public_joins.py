"""Joins of private rows with a public table: how many of its rows meet one of ours."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import expressions as exp

from dpquery.core.source import Span
from dpquery.core.types import BOOLEAN, Kind
from dpquery.errors import refusal
from dpquery.ir.expr import ColumnRef, Compare, Comparison, Expr, Literal, Logic, Nulls, Widen
from dpquery.sql.bind.expressions import Conditions
from dpquery.sql.bind.from_clause import Context, PublicItem, longest_value, range_of
from dpquery.sql.bind.scope import Member, Scope, fold, listed_names, written_name
from dpquery.sql.parse.literals import unwrapped
from dpquery.sql.size_limits import MOST_COPIES
from dpquery.sql.suggest.joins import JoinedBy, refuse_key
from dpquery.sql.suggest.queries import COUNT, query_about


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
