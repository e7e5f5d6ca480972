"""Subqueries over public tables that look at the row around them.

Where one equates values of public rows with values of the row outside, and does no more with
it, what it says is a public table, made before any row is read: one row for each combination of
the values that it equates. A row outside meets one of its rows at most, by a `PublicJoin` that
keeps rows, on what is unique there. So each row r becomes (r, p) for the one p that has its
values, or r with NULL: a function of r and of public tables alone. Unit-locality holds, no row
becomes several, and every sensitivity stands as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isfinite

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.core.types import BOOLEAN
from dpquery.errors import QueryRefused
from dpquery.ir.expr import ColumnRef, Expr, IsNull, Literal, Logic, Not, Nulls
from dpquery.ir.relations import PublicJoin
from dpquery.sql.bind.from_clause import Context, Private, is_star
from dpquery.sql.bind.joins.public_joins import TableJoin, all_of
from dpquery.sql.bind.rows.per_unit_rows import is_exact_aggregate
from dpquery.sql.bind.rows.row_expressions import Conditions
from dpquery.sql.bind.rows.typed_expressions import case, nothing
from dpquery.sql.bind.scope import Scope, fold, is_query
from dpquery.sql.parse.literals import conjuncts, unwrapped
from dpquery.sql.postprocess.from_clause import From
from dpquery.sql.suggest.type_mismatches import mismatch

OF_EXISTS = frozenset({"expressions", "from_", "joins", "where", "distinct"})
"""Clauses that say which rows there are, or nothing of it."""


@dataclass(frozen=True, slots=True)
class _Correlated:
    """A subquery over public tables, and what it equates with values of the row outside."""

    select: exp.Select
    pairs: list[tuple[exp.Expr, exp.Expr]]
    """First what is outside."""
    rest: list[exp.Expr]
    """What it asks of its own rows alone."""

    def asked(self, items: Sequence[exp.Expr], *, grouped: bool) -> exp.Select:
        """Write what it says for each of the values that it equates, once."""
        keys = [theirs for _, theirs in self.pairs]
        numbers = [exp.Literal.number(at + 1) for at in range(len(keys))]
        where = exp.Where(this=together(self.rest)) if self.rest else None
        group = exp.Group(expressions=numbers) if grouped else None
        distinct = self.select.args.get("distinct") if items else exp.Distinct()
        return self._of([*keys, *items], where=where, group=group, distinct=distinct)

    def of_none(self, items: Sequence[exp.Expr]) -> exp.Select:
        """Write what it says of no rows."""
        return self._of(items, where=exp.Where(this=exp.false()))

    def _of(self, items: Sequence[exp.Expr], **clauses: exp.Expr | None) -> exp.Select:
        named = [exp.alias_(one, f"x{at}", copy=False) for at, one in enumerate(items)]
        read = {slot: self.select.args.get(slot) for slot in ("from_", "joins")}
        return exp.Select(expressions=named, **read, **clauses)


class PublicSubqueries:
    """Joins the rows of a query with what subqueries over public tables say of each."""

    def __init__(self, context: Context, rows: Private) -> None:
        self.context = context
        self.spans = context.spans
        self.scope = rows.scope
        self.relation = rows.relation

    def correlated(self, node: exp.Expr) -> _Correlated | None:
        """Part the conditions of a subquery over public tables that looks at the row outside.

        None where there is none, and where it does more than equate values of both.
        """
        within = isinstance(node.parent, exp.In | exp.Exists)
        if not isinstance(node, exp.Exists | exp.In | exp.Subquery) or within:
            return None
        select = node.args.get("query") if isinstance(node, exp.In) else node.this
        while isinstance(select, exp.Subquery):
            select = select.this
        if not isinstance(select, exp.Select) or not select.args.get("from_"):
            return None
        given = {slot for slot, clause in select.args.items() if clause}
        where = select.args.get("where")
        conditions = conjuncts(None if where is None else where.this)
        if given - OF_EXISTS or not any(map(self._may_tie, conditions)):
            return None
        with suppress(QueryRefused):
            inner = self.context.rows(select)
            if isinstance(inner, From):
                return _parted(select, conditions, inner, self.scope)
        return None

    def _may_tie(self, node: exp.Expr) -> bool:
        """Return whether a condition equates something with what may be a column outside."""
        return isinstance(node, exp.EQ) and any(
            fold(one.table) in self.scope.aliases if one.table else self.scope.knows(one.name)
            for one in node.find_all(exp.Column)
        )

    def said(self, node: exp.Expr) -> Expr | None:
        """Return what a subquery over public tables says of a row; None of any other node."""
        found = self.correlated(node)
        if found is None:
            return None
        span, items = self.spans.of(node), [i.unalias() for i in found.select.expressions]
        summed = any(is_exact_aggregate(n) for i in items for n in i.walk(prune=is_query))
        if isinstance(node, exp.Exists):
            shown = [one for one in items if not is_star(one)] or [exp.true()]
            self.context.query(found.of_none(shown))  # the names in it have to be known
            met = [] if summed else self._looked_up(span, found, [])
            return _there(met[0]) if met else None
        if len(items) != 1 or is_star(items[0]):
            return None
        if isinstance(node, exp.In):
            return None if summed else self._in_public(node, found, items[0])
        met = self._looked_up(span, found, items, summed)
        if not met or not summed:
            return met[-1] if met else None
        none = self._of_none(span, found, items[0])
        return met[-1] if none is None else case(span, [(_there(met[0]), met[-1])], none)

    def _in_public(self, node: exp.In, found: _Correlated, item: exp.Expr) -> Expr | None:
        """Return whether a value is among those of the public rows that a row meets."""
        span = self.spans.of(node)
        if isinstance(unwrapped(node.this), exp.Tuple):
            return None
        both = replace(found, pairs=[*found.pairs, (node.this, item)])
        null = exp.LogicalOr(this=exp.Is(this=item.copy(), expression=exp.Null()))
        among = self._looked_up(span, both, [])
        met = self._looked_up(span, found, [null], True) if among else []
        if not met:
            return None
        value = Conditions(self.scope, self.spans, self.context).bind(node.this)
        unknown = Logic(span, False, (IsNull(span, value), met[-1]))
        may_be = Logic(span, True, (_there(met[0]), unknown))
        true, false = (Literal(span, truth, BOOLEAN) for truth in (True, False))
        return case(span, [(_there(among[0]), true), (may_be, nothing(span))], false)

    def _looked_up(
        self, span: Span, found: _Correlated, items: Sequence[exp.Expr], grouped: bool = False
    ) -> list[Expr]:
        """Join rows with what public rows say of each: the keys, and what is asked.

        Nothing, where a row could meet several, or where that is not public.
        """
        public = self.context.made_public(found.asked(items, grouped=grouped), span)
        if public is None:
            return []
        key = TableJoin(self.context, self.scope, public, self.context.numbers())
        columns = list(key.member.columns.values())
        if len(columns) < len(found.pairs) + len(items):  # of types that rows do not have
            return []
        own = Conditions(self.scope, self.spans, self.context)
        equal = [
            own.equal(self.spans.of(ours.parent or ours), own.bind(ours), theirs)
            for (ours, _), theirs in zip(found.pairs, columns, strict=False)
        ]
        condition, name = all_of(span, equal), public.table.name
        if condition is None or key.most(equal) > 1:
            return []
        self.relation = PublicJoin(span, self.relation, name, key.number, condition, True)
        return [
            replace(one, span=span, nulls=Nulls.GROUPED)
            for one in columns
            if isinstance(one, ColumnRef)
        ]

    def _of_none(self, span: Span, found: _Correlated, item: exp.Expr) -> Literal | None:
        """Return what an aggregate of public rows is where there are none; None of NULL."""
        public = self.context.made_public(found.of_none([item]), span)
        assert public is not None  # noqa: S101 - it reads what was read before
        facts, name = self.context.public, public.table.name
        ((value,),) = facts.tuples(name, ["x0"]) or ((None,),)
        if isinstance(value, float) and not isfinite(value):
            mismatch(span, "a number is needed of no rows, too", "infinite of none", "0")
        exact = Fraction(value) if isinstance(value, float) else value
        return None if exact is None else Literal(span, exact, facts.types(name)["x0"])


def together(nodes: list[exp.Expr]) -> exp.Expr:
    """Put conditions between ANDs."""
    return nodes[0] if len(nodes) == 1 else exp.and_(*nodes, copy=False, wrap=False)


def _there(key: Expr) -> Expr:
    """Return whether a row meets a public row, by a column that it equates there."""
    return Not(key.span, IsNull(key.span, key))


def _parted(
    select: exp.Select, conditions: Sequence[exp.Expr], inner: From, outer: Scope
) -> _Correlated | None:
    """Part what equates public values with values outside from what is asked of them alone."""

    def outside(node: exp.Expr) -> list[bool]:
        """Return of each column, in no further query, whether it is one of the row outside."""
        columns = (c for c in node.walk(prune=is_query) if isinstance(c, exp.Column))
        return [
            fold(c.table) in outer.aliases - {*map(fold, inner.aliases)}
            if c.table
            else inner.find(c) is None and outer.knows(c.name)
            for c in columns
        ]

    found = _Correlated(select, [], [])
    for one in conditions:
        left, right = (one.this, one.expression) if isinstance(one, exp.EQ) else (one, one)
        told = [{*outside(side)} for side in (left, right) if side.find(exp.Query) is None]
        if told == [{True}, {False}]:
            found.pairs.append((left, right))
        elif told == [{False}, {True}]:
            found.pairs.append((right, left))
        elif any(outside(one)):
            return None
        else:
            found.rest.append(one)
    for item in select.expressions:
        if any(outside(item)) or item.find(exp.Window) is not None:
            return None
    return found if found.pairs else None
