"""Joins of private rows with a public table, or with a released one: the rows that meet.

Of public tables also the groups that their columns make.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from itertools import chain, islice
from math import isfinite
from typing import TYPE_CHECKING, TypeGuard

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.core.types import BOOLEAN, Kind
from dpquery.errors import refusal
from dpquery.ir.expr import (
    LONGEST_CONSTANT,
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
from dpquery.ir.query import Key, side_by_side, taken
from dpquery.ir.relations import PublicJoin
from dpquery.ir.walk import constants_in, with_columns
from dpquery.rowfunctions import apply
from dpquery.rowfunctions.analysis.conditions import facts_of
from dpquery.rowfunctions.analysis.key_domains import is_exact, tuples_of
from dpquery.rowfunctions.base import Value
from dpquery.rowfunctions.evaluate import Row, constant, evaluate
from dpquery.sql.bind.from_clause import (
    Context,
    PublicItem,
    ReleasedItem,
    longest_value,
    range_of,
)
from dpquery.sql.bind.rows.row_expressions import Conditions
from dpquery.sql.bind.scope import Member, Scope, fold, listed_names, written_name
from dpquery.sql.parse.literals import unwrapped
from dpquery.sql.postprocess.from_clause import places_of
from dpquery.sql.size_limits import MOST_COPIES
from dpquery.sql.suggest.join_refusals import JoinedBy, refuse_key, refuse_released
from dpquery.sql.suggest.sample_queries import COUNT, query_about

if TYPE_CHECKING:
    from dpquery.sql.bind.group_keys import Keys

MOST_PAIRED = 200_000
"""Rows of public tables that are put together, to see which groups there are."""


class KeyJoin(ABC):
    """Finds, in the conditions of a clause, the equalities with columns of one more table."""

    member: Member
    """The columns of the table, as conditions find them."""

    def __init__(self, context: Context, before: Scope, number: int) -> None:
        self.context = context
        self.before = before
        self.number = number

    @abstractmethod
    def most(self, equalities: Sequence[Expr]) -> int:
        """Return how many rows of it meet one row at most, where these hold; at least one."""

    @abstractmethod
    def require(self, by: JoinedBy, found: Sequence[Expr], most: int) -> None:
        """Refuse a join in which a row may not meet so many, or that may not be meant."""

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
        if most > 1:
            self.require(by, found, most)
        if whole is not None:
            found = [*found[: len(using)], *map(self.rows.condition, whole)]
        all_rows = Literal(by.relation, True, BOOLEAN)
        return all_of(by.relation, found) or all_rows, most

    def equalities(
        self, using: Sequence[exp.Identifier], pool: Sequence[exp.Expr]
    ) -> list[Expr]:
        """Bind USING, and what a pool of conditions has to say of equal columns."""
        named = [equal_names(self.context, self.before, self.member, name) for name in using]
        return [
            *named,
            *(self.rows.condition(node) for node in pool if self._equates_key(node)),
        ]

    @cached_property
    def rows(self) -> Conditions:
        """The names of the rows before, and of the table."""
        scope = Scope((*self.before.members, self.member), self.before.table)
        return Conditions(scope, self.context.spans)

    def _equates_key(self, node: exp.Expr) -> bool:
        """Return whether a condition is `key = expression over the rows before`."""
        if not isinstance(node, exp.EQ) or node.find(exp.Query) is not None:
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


class TableJoin(KeyJoin):
    """A join with a public table.

    With all columns of a unique key, each row meets one public row at most. Else it meets as
    many as have equal values there, which is public; all of them are rows of its unit then, so
    the unit has to be known by a column.
    """

    def __init__(
        self, context: Context, before: Scope, public: PublicItem, number: int
    ) -> None:
        super().__init__(context, before, number)
        self.public = public
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

    def most(self, equalities: Sequence[Expr]) -> int:
        """Return how often what is equated occurs together, which is public."""
        compared = map(self._compared, equalities)
        names = {column.name for column in compared if column}
        unique = {*map(fold, self.public.table.unique)}
        if unique and unique <= {*map(fold, names)}:
            return 1
        table = self.public.table.name
        return max(1, self.context.public.most_equal(table, tuple(sorted(names))))

    def require(self, by: JoinedBy, found: Sequence[Expr], most: int) -> None:
        """Refuse too many copies of a row, or any where rows are units."""
        units = self.before.table.unit is not None
        if most > MOST_COPIES or not units or not (found or by.conditioned):
            refuse_key(by, self.public, self.before, most)


class ReleasedJoin(KeyJoin):
    """A join with a released relation, of which a row meets one row at most.

    Its columns stand for constants: of each row that it can have, by plan, one for each column.
    A row r of a unit becomes (r, c) with c the values of the one released row whose constants
    meet the condition, or is left out, or kept with NULL, where there is none. For any values
    that the constants have, that is a function of r alone: unit-locality holds, no row becomes
    several, and every sensitivity of the scan stands as it is. The values are those of earlier
    releases, so that both losses add up, as where rows are compared with one of them.
    """

    def __init__(
        self, context: Context, before: Scope, released: ReleasedItem, number: int
    ) -> None:
        super().__init__(context, before, number)
        self.released = released
        found, span = released.found, released.span
        columns = {
            name: ColumnRef(span, name, type_, of=number, longest=LONGEST_CONSTANT)
            for name, (type_, _) in places_of(found, span, context.policy.zone).items()
        }
        self.member = Member(released.alias, columns)

    def most(self, equalities: Sequence[Expr]) -> int:
        """Return one where all that tells its rows apart is equated, else all its rows."""
        found = self.released.found
        compared = {column.name for column in map(self._compared, equalities) if column}
        keys = [found.columns[at] for at in found.unique]
        cut = any(key.is_cut for key in keys)
        rounded = any(key.kind is Kind.DECIMAL for key in keys)
        unique = {key.name for key in keys} <= compared and not (cut or rounded)
        return 1 if keys and unique else max(1, found.most)

    def require(self, by: JoinedBy, found: Sequence[Expr], most: int) -> None:
        """Refuse several released rows."""
        refuse_released(by, self.released, self.before, most)

    def chosen(self, condition: Expr, *, keeps: bool) -> tuple[Expr, dict[str, Expr]]:
        """Return whether a row meets one, and each column of the one that it meets."""
        span, rows = self.released.span, self.context.released_rows(self.released)
        met = [
            with_columns(condition, {(self.number, name): one for name, one in row.items()})
            for row in rows
        ]
        if len(rows) == 1:
            there = self.context.released_any(self.released)
            always = isinstance(condition, Literal)  # nothing is asked of the pair
            met = [there if always else Logic(span, True, (there, *met))]
            if not keeps:
                return met[0], rows[0]
        same = {} if keeps else dict(filter(None, map(self._equal, _parts(condition))))
        columns = {
            name: same.get(name) or self._choice(met, [row[name] for row in rows])
            for name in self.member.columns
        }
        return met[0] if len(met) == 1 else Logic(span, False, tuple(met)), columns

    def _choice(self, met: Sequence[Expr], values: Sequence[Expr]) -> Expr:
        """Return the value of the row that is met; NULL of none."""
        pairs = chain.from_iterable(zip(met, values, strict=True))
        return apply(self.released.span, "CASE", *pairs)

    def _equal(self, part: Expr) -> tuple[str, Expr] | None:
        """Return a column, and what it equals in the rows before, of the same type."""
        if isinstance(part, Compare) and part.operator is Comparison.EQ:
            for one, other in ((part.left, part.right), (part.right, part.left)):
                if not isinstance(one, ColumnRef) or one.of != self.number:
                    continue
                if self.number not in _read(other):
                    return one.name, other
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
    """Keys that are columns of one public table, and what conditions say of its rows."""

    def __init__(self, keys: Keys, number: int, join: PublicJoin) -> None:
        self.keys = keys
        self.number = number
        self.join = join
        on = facts_of(join.condition)
        self.asked = on.said
        """What ON asks of the public rows that others meet."""
        self.present = [one for one in on.present if self._is_column(one)]
        self.same = {} if join.keeps else dict(filter(None, map(self._equated, on.said)))
        """The public columns that other columns are equal to."""

    def with_shown(self, own: tuple[Key, ...]) -> tuple[Key, ...]:
        """Return keys with the columns of this table that are shown, and determined by them."""
        known = [key for key in own if key.finding is None]  # else they have no rows of it yet
        grouped = {one.name for one in map(self.public, known) if self._is_column(one)}
        if not self._tell_rows_apart(grouped):
            return own
        shown = [self.keys.beside(one) for one in self.keys.shown if self._is_shown(one)]
        return (*own, *(key for key in shown if key.column not in {one.column for one in own}))

    def _tell_rows_apart(self, columns: Set[str]) -> bool:
        """Return whether some columns have values that occur once, which is public."""
        facts, table = self.keys.context.public, self.join.table
        present = sorted(name for name in columns if not facts.nulls(table, name))
        return bool(present) and facts.most_equal(table, tuple(present)) <= 1

    def public(self, key: Key) -> Expr:
        """Return a key as an expression of this table, if it equals a column of it."""
        return self.same.get(key.expr, key.expr)

    def _is_shown(self, column: ColumnRef) -> bool:
        """Return whether a column is of this table, and its values can be written exactly."""
        if not self._is_column(column):
            return False
        values = self.keys.context.public.tuples(self.join.table, (column.name,)) or ()
        return all(not isinstance(one, float) or isfinite(one) for (one,) in values)

    def _is_column(self, expr: Expr) -> TypeGuard[ColumnRef]:
        return isinstance(expr, ColumnRef) and expr.of == self.number

    def _equated(self, part: Expr) -> tuple[Expr, Expr] | None:
        """Return a column of other rows, and the public one that it equals."""
        if not isinstance(part, Compare) or part.operator is not Comparison.EQ:
            return None
        for one, other in ((part.left, part.right), (part.right, part.left)):
            if self._is_column(one) and isinstance(other, ColumnRef) and one.type == other.type:
                return other, one
        return None

    def rows(self, columns: Mapping[tuple[int, str], ColumnRef]) -> list[Row] | None:
        """Return what some columns are in rows that private ones meet; None of very many.

        Where the join keeps rows, one is of those that meet none.
        """
        mine = {key: one for key, one in columns.items() if key[0] == self.number}
        names = tuple(name for _, name in mine)
        found = self.keys.context.public.tuples(self.join.table, names)
        if found is None:
            return None
        types = [column.type for column in mine.values()]
        rows: list[Row] = [
            dict(zip(mine, map(constant, one, types), strict=True)) for one in found
        ]
        alone = [one for one in self.asked if _read(one) == {self.number} and _is_fixed(one)]
        met = [
            row
            for row in rows
            if all(evaluate(one, row) is True for one in alone)
            and all(evaluate(one, row) is not None for one in self.present)
        ]
        return [*met, {**dict.fromkeys(mine), self.missing: True}] if self.join.keeps else met

    @property
    def missing(self) -> tuple[int, str]:
        """What is true in a row that meets none of this table."""
        return self.number, ""


class PublicGroups:
    """Public tables whose rows conditions link, and the groups of their columns.

    A private row carries a row of each table, or NULL where a join keeps it without one. WHERE
    is true of these rows, and ON of those that were joined. So what both say of these tables
    alone decides which rows stand together, and the combinations of keys in them are all the
    groups that any private row can be in. They follow from the query and from public tables.
    """

    def __init__(self, keys: Keys, publics: Sequence[PublicKeys]) -> None:
        self.keys = keys
        self.publics = {one.number: one for one in publics}
        asked = [(one, part) for one in publics for part in one.asked]
        self.said: list[tuple[PublicKeys | None, Expr]] = [
            (of, part)
            for of, part in [*((None, one) for one in facts_of(keys.rows.where).said), *asked]
            if self._is_own(part)
        ]
        """The conditions that read these tables alone, each with the join that asks it."""

    def linked(self) -> list[PublicGroups]:
        """Return the tables apart, but those together that a condition reads at once."""
        parts = [{number} for number in self.publics]
        for _, condition in self.said:
            read = _read(condition)
            parts = [
                set().union(*(one for one in parts if one & read)),
                *(one for one in parts if not one & read),
            ]
        return [
            PublicGroups(self.keys, [one for n, one in self.publics.items() if n in part])
            for part in parts
        ]

    def together(self, own: tuple[Key, ...]) -> tuple[Key, ...]:
        """Return keys of which those of these tables have the combinations that there are."""
        others = taken(own)
        mine = [
            key
            for key in own
            if key.finding is None
            and key.column not in others
            and self._is_own(self.public(key))
        ]
        rows = self._rows(mine) if mine else None
        if rows is None:
            return self._apart(own) if mine else own
        found = side_by_side(own, mine, tuples_of([self.public(key) for key in mine], rows))
        if not all(key.values for key in found if key.column == mine[0].column):
            where = [condition for of, condition in self.said if of is None]
            said = where or [condition for _, condition in self.said]
            self.keys.refuse_empty(mine[0].span, said)
        return found

    def _apart(self, own: tuple[Key, ...]) -> tuple[Key, ...]:
        """Return keys with the combinations of each table, where those of all are too many."""
        if len(self.publics) > 1:
            for one in self.publics.values():
                own = PublicGroups(self.keys, [one]).together(own)
        return own

    def public(self, key: Key) -> Expr:
        """Return a key as an expression of these tables, if it is one."""
        return next(
            (p.public(key) for p in self.publics.values() if key.expr in p.same), key.expr
        )

    def _is_own(self, expr: Expr) -> bool:
        """Return whether an expression reads these tables alone, and is the same anywhere."""
        read = _read(expr)
        return bool(read) and read <= self.publics.keys() and _is_fixed(expr)

    def _rows(self, keys: Sequence[Key]) -> list[Row] | None:
        """Return the public rows that private ones can carry; None of very many."""
        present = [column for one in self.publics.values() for column in one.present]
        asked = [condition for _, condition in self.said]
        columns = columns_of(*map(self.public, keys), *asked, *present)
        rows: list[Row] | None = [{}]
        seen = set[int]()
        for number, one in self.publics.items():
            found = one.rows(columns)
            if found is None or rows is None:
                return None
            seen.add(number)
            said = [(of, part) for of, part in self.said if number in _read(part) <= seen]
            rows = _joined(rows, found, one, said)
        return rows


def _parts(condition: Expr) -> tuple[Expr, ...]:
    """Return the conditions that all have to be true."""
    if isinstance(condition, Logic) and condition.conjunction:
        return condition.parts
    return (condition,)


def _read(expr: Expr) -> set[int]:
    """Return the relations that an expression reads."""
    return {of for of, _ in columns_of(expr)}


def _is_fixed(expr: Expr) -> bool:
    """Return whether an expression is the same anywhere, of equal rows."""
    return is_exact(expr) and not any(constants_in(expr))


def _joined(
    rows: Sequence[Row],
    found: Sequence[Row],
    public: PublicKeys,
    said: Sequence[tuple[PublicKeys | None, Expr]],
) -> list[Row] | None:
    """Return rows with those of one more table, if conditions hold; None of very many.

    Those that meet are looked up by what equalities compare; NULL meets every row.
    """
    sides = [pair for _, part in said if (pair := _equated_sides(part, public.number))]
    meeting = dict[tuple[Value, ...], list[Row]]()
    missing = [row for row in found if public.missing in row]
    for row in found:
        if public.missing not in row:
            meeting.setdefault(tuple(evaluate(one, row) for one, _ in sides), []).append(row)
    pairs = (
        {**row, **one}
        for row in rows
        for one in chain(
            meeting.get(tuple(evaluate(other, row) for _, other in sides), ()), missing
        )
    )
    tried = [*islice(pairs, MOST_PAIRED + 1)]
    if len(tried) > MOST_PAIRED:
        return None
    return [row for row in tried if all(_holds(of, part, row) for of, part in said)]


def _equated_sides(condition: Expr, number: int) -> tuple[Expr, Expr] | None:
    """Return what an equality compares: of one table, and of those before."""
    if not isinstance(condition, Compare) or condition.operator is not Comparison.EQ:
        return None
    left, right = condition.left, condition.right
    for one, other in ((left, right), (right, left)):
        if _read(one) == {number} and _read(other) and number not in _read(other):
            return one, other
    return None


def _holds(of: PublicKeys | None, condition: Expr, row: Row) -> bool:
    """Return whether a condition is true of a row; ON is not asked of rows that meet none."""
    return (of is not None and of.missing in row) or evaluate(condition, row) is True
