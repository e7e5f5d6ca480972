"""Keys that are columns of one public table: groups are the combinations that it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, TypeGuard

from dpquery.ir.expr import ColumnRef, Compare, Comparison, Expr, columns_of
from dpquery.ir.query import Key
from dpquery.ir.relations import PublicJoin
from dpquery.ir.walk import constants_in
from dpquery.rowfunctions.evaluate import Row, constant, evaluate
from dpquery.rowfunctions.key_domains import is_exact, tuples_of
from dpquery.rowfunctions.ranges import facts_of
from dpquery.sql.bind.scope import fold

if TYPE_CHECKING:
    from dpquery.sql.bind.groups import Keys


class PublicKeys:
    """The keys that are columns of one public table: they combine as in its rows."""

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
        table = self.keys.context.policy.tables[self.join.table]
        unique = {*map(fold, table.unique)}
        grouped = {fold(one.name) for one in map(self._public, own) if self._is_column(one)}
        if not unique or not unique <= grouped:
            return own
        shown = [self.keys.beside(one) for one in self.keys.shown if self._is_shown(one)]
        return (*own, *(key for key in shown if key.column not in {one.column for one in own}))

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
