"""WHERE over private rows, and the subqueries among these.

A subquery over private rows speaks of the rows of the unit outside, and of no others. Among the
outer ANDs of WHERE, IN and EXISTS on the unit choose rows. Anywhere else, and where a subquery
gives a value, what it says is a column: it is computed once for each unit and for each value
that it equates with one outside, and joined to the rows outside, of which each meets one at
most. So a row stays one row, of its unit, and depends on the rows of that unit alone.

A subquery over public tables alone is a list of public values, or a public table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.core.types import BOOLEAN, EPOCH, FIRST_INSTANT, INTEGER, Interval, Kind
from dpquery.errors import advice, refusal
from dpquery.ir.expr import (
    Apply,
    ColumnRef,
    Compare,
    Comparison,
    Expr,
    IsNull,
    Literal,
    Logic,
    Not,
    Nulls,
    Scalar,
    columns_of,
)
from dpquery.ir.relations import (
    Aggregate,
    Filter,
    Output,
    PerUnit,
    PublicJoin,
    Relation,
    SemiJoin,
    UnitAggregate,
    UnitJoin,
    Unnest,
    Windowed,
    equated_by,
    numbers,
)
from dpquery.ir.walk import with_columns
from dpquery.rowfunctions import apply
from dpquery.rowfunctions.analysis.nulls import nulls_of
from dpquery.sql.bind.from_clause import Context, Derived, Private, derived_ref
from dpquery.sql.bind.joins.correlated_public import OF_EXISTS, PublicSubqueries, together
from dpquery.sql.bind.joins.join_keys import NONE, Keys, enough, keys_at, keys_held
from dpquery.sql.bind.joins.private_joins import most_pairs, semi_join
from dpquery.sql.bind.joins.public_joins import all_of
from dpquery.sql.bind.rows.conditions_on_lists import require_of_rows
from dpquery.sql.bind.rows.per_unit_rows import LookedUp, aggregate_ref
from dpquery.sql.bind.rows.row_expressions import Conditions, operand
from dpquery.sql.bind.rows.typed_expressions import case, nothing
from dpquery.sql.bind.scope import Scope, fold, inside, is_call, is_query, written_name
from dpquery.sql.parse.literals import conjuncts, unwrapped
from dpquery.sql.parse.spans import Spans, outside
from dpquery.sql.parse.unnest import list_of
from dpquery.sql.suggest.join_refusals import same_units
from dpquery.sql.suggest.sample_queries import parted


def filtered(context: Context, rows: Private, where: exp.Where | None) -> Private:
    """Keep the rows for which WHERE is true."""
    if where is None:
        return rows
    semi = _Subqueries(context, rows)
    rest = [node for node in conjuncts(where.this) if not semi.take(node)]
    if not rest:
        return semi.rows
    chosen = semi.relation is not rows.relation
    for node in rest:
        semi.join_all(node, every=True)
    node = together(rest) if chosen else where.this
    condition = Conditions(semi.scope, context.spans, context).condition(node)
    return Private(Filter(context.spans.of(node), semi.relation, condition), semi.scope)


def chosen(context: Context, rows: Private, select: exp.Select) -> Private:
    """Keep the rows for which WHERE is true, with what subqueries elsewhere say of them."""
    rows = filtered(context, rows, select.args.get("where"))
    clauses = (select.args.get(slot) for slot in ("group", "having", "qualify"))
    found = _Subqueries(context, rows)
    for node in (*select.expressions, *clauses):
        if node is not None:
            found.join_all(node)
    return found.rows


def said_of(relation: Relation) -> Expr | None:
    """Return what conditions say of all rows of a relation; None where they say nothing."""
    said: list[Expr] = []
    while True:
        match relation:
            case Filter(source=source, condition=condition):
                said.append(condition)
            case SemiJoin() | Windowed() | PublicJoin() | Unnest():
                source = relation.source
            case UnitJoin(left=source, keeps_left=True, keeps_right=False):
                pass
            case _:
                break
        relation = source
    if len(said) > 1:
        return Logic(said[0].span, True, tuple(reversed(said)))
    return said[0] if said else None


class _Subqueries(PublicSubqueries):
    """Joins the rows of a query with the subqueries in it."""

    @property
    def rows(self) -> Private:
        """The rows with all that was joined."""
        return Private(self.relation, self.scope)

    def take(self, node: exp.Expr) -> bool:
        """Keep the rows whose unit is in a subquery, or is not, where a condition asks that."""
        span, negated = self.spans.of(node), False
        while isinstance(node, exp.Not):
            node, negated = unwrapped(node.this), not negated
        asked: list[Expr] = []
        if self.correlated(node) is not None:
            return False
        if isinstance(node, exp.Exists) and list_of(node) is None:
            other, asked = self._exists(node)
        elif isinstance(node, exp.In) and node.args.get("query") is not None:
            if self._tied(node.args["query"]) is not None:
                return False
            query = self.context.query(node.args["query"])
            if not isinstance(query, Derived):
                return False
            other = query.relation
            pairs = self._pairs(node, query)
            asked = [self._equal(node, *pair) for pair in pairs]
            asked = list(map(_perhaps, asked)) if negated else asked
        else:
            return False
        same_units(self.context, self.relation, other, span)
        sides = (self.relation, other)
        self.relation = semi_join(self.context, span, sides, negated, asked)
        return True

    def join_all(self, node: exp.Expr, *, every: bool = False) -> None:
        """Join what the subqueries in an expression say of the unit of a row, inner ones first.

        An EXISTS that nothing ties to the unit is refused where every one has to be tied.
        """
        for one in reversed(list(node.walk(prune=is_query))):
            if isinstance(one, exp.Exists) and list_of(one) is not None:
                continue  # a list of the row itself
            value = self.said(one)
            if value is not None:
                pass
            elif isinstance(one, exp.Exists) and (every or self._tied(one.this)):
                value = self._found(self.spans.of(one), *self._exists(one))
            elif isinstance(one, exp.In) and one.args.get("query") is not None:
                value = self._among(one)
            elif isinstance(one, exp.Subquery) and not isinstance(one.parent, exp.In):
                select = self._tied(one)
                value = None if select is None else self._value(select, self.spans.of(one))
            if value is not None:
                values = {**self.scope.values, self.spans.of(one): value}
                self.scope = replace(self.scope, values=values)

    def _tied(self, node: exp.Expr) -> exp.Select | None:
        """Return the SELECT of a subquery that equates something with the unit around it."""
        while isinstance(node, exp.Subquery):
            node = node.this
        where = node.args.get("where")
        if not isinstance(node, exp.Select) or where is None or not node.args.get("from_"):
            return None
        items = [node.args["from_"], *(node.args.get("joins") or [])]
        own = {fold(item.this.alias_or_name) for item in items}
        sides = [
            side
            for one in conjuncts(where.this)
            if isinstance(one, exp.EQ)
            for side in map(unwrapped, (one.this, one.expression))
            if isinstance(side, exp.Column) and fold(side.table) not in {"", *own}
        ]
        return node if self._speak_of_unit(sides) else None

    def _speak_of_unit(self, nodes: Sequence[exp.Expr]) -> bool:
        """Return whether the unit outside is among some values, or what ties rows to it."""
        return any(map(self.scope.owns, nodes)) or enough(*map(self._keys, nodes))

    def _keys(self, node: exp.Expr) -> Keys:
        """Return the keys of which a column outside holds values, by which rows have units."""
        return keys_at(unwrapped(node), self.rows, self.context.policy)

    def _equated(
        self, span: Span, other: Relation, asked: Sequence[Expr]
    ) -> tuple[Relation, list[tuple[Expr, Expr]]]:
        """Return rows with what they equate: first what is outside, then what is of them."""
        same_units(self.context, self.relation, other, span)
        ours, theirs = numbers(self.relation), numbers(other)
        found = [equated_by(one, ours, theirs) for one in asked]
        pairs = [pair for pair in found if pair is not None]
        rest = [one for one, pair in zip(asked, found, strict=True) if pair is None]
        if all({of for of, _ in columns_of(one)} <= theirs for one in rest):
            condition = all_of(span, rest)
            return other if condition is None else Filter(span, other, condition), pairs
        return self._paired(span, other, asked)

    def _paired(
        self, span: Span, other: Relation, asked: Sequence[Expr]
    ) -> tuple[Relation, list[tuple[Expr, Expr]]]:
        """Pair rows with the values outside with which they meet what is asked.

        The values of a unit stand there once, and rows outside look for theirs, NULL too.
        """
        ours, number = numbers(self.relation), self.context.numbers()
        refs = [ref for ref in columns_of(*asked).values() if ref.of in ours]
        keys = tuple(Output(f"x{at}", ref) for at, ref in enumerate(refs))
        values = PerUnit(span, self.relation, number, keys, ())
        told = [derived_ref(key, number) for key in keys]
        columns = {(r.of, r.name): one for r, one in zip(refs, told, strict=True)}
        condition = all_of(span, [with_columns(one, columns) for one in asked])
        most = most_pairs(self.context, values, other)
        both = self.context.small(UnitJoin(span, values, other, condition, most), span)
        equal = zip(refs, told, strict=True)
        return both, [pair for ref, one in equal for pair in null_safe(ref, one)]

    def _look_up(self, span: Span, made: PerUnit, pairs: Sequence[tuple[Expr, Expr]]) -> None:
        """Join rows with the one row that says something of each; each stays one row."""
        condition = all_of(
            span,
            [
                Compare(span, Comparison.EQ, ours, derived_ref(key, made.number))
                for (ours, _), key in zip(pairs, made.keys, strict=True)
            ],
        )
        joined = UnitJoin(span, self.relation, made, condition, None, keeps_left=True)
        self.relation = self.context.small(joined, span)

    def _counted(
        self, span: Span, other: Relation, asked: Sequence[Expr], *values: Expr
    ) -> list[ColumnRef]:
        """Count the rows that meet what is asked, and those of them that have values.

        Without any such row, all of it is NULL.
        """
        other, pairs = self._equated(span, other, asked)
        number, keys = self.context.numbers(), keys_of(pairs)
        counts = Interval(Fraction(0), Fraction(self.context.most_rows(other)))
        made = tuple(
            UnitAggregate(f"a{at}", Aggregate.COUNT, value, None, INTEGER, counts)
            for at, value in enumerate((None, *values))
        )
        self._look_up(span, PerUnit(span, other, number, keys, made), pairs)
        found = (aggregate_ref(one, number, span) for one in made)
        return [replace(one, nulls=Nulls.GROUPED) for one in found]

    def _found(self, span: Span, other: Relation, asked: Sequence[Expr]) -> Expr:
        """Return whether there is a row that meets what is asked."""
        return Not(span, IsNull(span, self._counted(span, other, asked)[0]))

    def _among(self, node: exp.In) -> Expr | None:
        """Return whether a value is among those of a subquery; None where it is of no unit."""
        query, span = node.args["query"], self.spans.of(node)
        select = self._tied(query)
        if select is not None:
            inner, asked, both = self._tied_rows(span, select)
            other = inner.relation
            given, items = unwrapped(node.this), select.expressions
            left = given.expressions if isinstance(given, exp.Tuple) else [given]
            if len(left) != len(items):
                self._refuse(span, self.scope.table.unit)
            own = Conditions(self.scope, self.spans, self.context)
            pairs = [
                (own.bind(a), both.bind(b.unalias())) for a, b in zip(left, items, strict=True)
            ]
        elif self._speaks_of_unit(node):
            found = self.context.query(query)
            if not isinstance(found, Derived):
                return None
            other, asked, pairs = found.relation, [], self._pairs(node, found)
        else:
            return None
        equal = [self._equal(node, *pair) for pair in pairs]
        is_in = self._found(span, other, [*asked, *equal])
        if all(nulls_of(one) is Nulls.NEVER for pair in pairs for one in pair):
            return is_in
        may_be = self._may_be(span, other, asked, pairs, equal)
        true, false = (Literal(span, truth, BOOLEAN) for truth in (True, False))
        return case(span, [(is_in, true), (may_be, nothing(span))], false)

    def _may_be(
        self,
        span: Span,
        other: Relation,
        asked: Sequence[Expr],
        pairs: Sequence[tuple[Expr, Expr]],
        equal: Sequence[Expr],
    ) -> Expr:
        """Return whether a value may be among others of which none is equal: by NULL."""
        if len(pairs) > 1:
            return self._found(span, other, [*asked, *map(_perhaps, equal)])
        ((left, right),) = pairs
        rows, values = self._counted(span, other, asked, right)
        fewer = Compare(span, Comparison.LT, values, rows)
        unknown = Logic(span, False, (IsNull(span, left), fewer))
        return Logic(span, True, (Not(span, IsNull(span, rows)), unknown))

    def _speaks_of_unit(self, node: exp.In) -> bool:
        given = unwrapped(node.this)
        values = given.expressions if isinstance(given, exp.Tuple) else [given]
        return self._speak_of_unit([*map(unwrapped, values)])

    def _value(self, select: exp.Select, span: Span) -> Expr:
        """Return the one value that a subquery has for the unit of a row."""
        given = {slot for slot, clause in select.args.items() if clause}
        if given - (OF_EXISTS - {"distinct"}) or len(select.expressions) != 1:
            word, remedy = (
                "this subquery as a value",
                advice("write (SELECT MAX(x) FROM ...)"),
            )
            raise outside(word, span, "not one aggregate of a unit's rows", remedy)
        inner, asked, _ = self._tied_rows(span, select)
        found, item = _Subqueries(self.context, inner), select.expressions[0].unalias()
        found.join_all(item)
        other, pairs = self._equated(span, found.relation, asked)
        rows = LookedUp(self.context, Private(other, found.scope), span, keys_of(pairs))
        value = rows.value(item)
        self._look_up(span, rows.relation, pairs)
        return replace(value, span=span) if isinstance(value, ColumnRef | Apply) else value

    def _refuse_off_unit(self, node: exp.In, query: Derived) -> NoReturn:
        """Refuse a subquery; offer its text with the unit for what it selects."""
        source, span = self.spans.source, self.spans.of(node.args["query"])
        name, select = written_name(query.table.unit or ""), node.args["query"].find(exp.Select)
        items = [] if select is None else [self.spans.of(item) for item in select.expressions]
        remedy = advice(f"write {name} IN (SELECT {name} ...)")
        if items and "(" in source.snippet(span)[:1]:
            first, last = items[0].start, items[-1].end
            before, after = source.text[span.start : first], source.text[last : span.end]
            remedy = f"{name} IN {before}{name}{after}"
        self._refuse(self.spans.of(node), query.table.unit, remedy)

    def _pairs(self, node: exp.In, query: Derived) -> list[tuple[Expr, Expr]]:
        """Return what is compared of a row and a subquery beside the units, which are equal."""
        select, given = node.args["query"].find(exp.Select), unwrapped(node.this)
        if not isinstance(given, exp.Tuple):
            keys, policy = self._keys(given), self.context.policy
            if keys and len(query.columns) == 1:
                (only,) = query.columns.values()
                if enough(keys & keys_held(only, query.relation, policy)):
                    return [(Conditions(self.scope, self.spans).bind(given), only)]
            shown = {*map(fold, query.columns), *query.owners}
            if not self.scope.owns(given) or len(shown) != 1 or shown - query.owners:
                self._refuse_off_unit(node, query)
            return []
        names = [] if select is None else [fold(i.alias_or_name) for i in select.expressions]
        known, columns = {*map(fold, query.columns)}, iter(query.columns.values())
        rows, tied = Conditions(self.scope, self.spans, self.context), 0
        found: list[tuple[Expr, Expr]] = []
        keys = NONE
        for name, value in zip(names, given.expressions, strict=False):
            own = name in query.owners
            column = next(columns, None) if name in known or not own else None
            if own and self.scope.owns(unwrapped(value)):
                tied = 1
            elif column is not None:
                held = keys_held(column, query.relation, self.context.policy)
                keys |= self._keys(value) & held
                found.append((rows.bind(value), column))
        tying = tied or enough(keys)
        if not tying or len(found) + tied != len(given.expressions) != len(names):
            self._refuse_off_unit(node, query)
        return found

    def _equal(self, node: exp.In, left: Expr, right: Expr) -> Expr:
        """Equate a value with one of a subquery."""
        return Conditions(self.scope, self.spans).equal(self.spans.of(node.this), left, right)

    def _exists(self, node: exp.Exists) -> tuple[Relation, list[Expr]]:
        """Bind EXISTS: private rows, tied to the rows outside by the unit, and what it asks."""
        select, span, unit = node.this, self.spans.of(node), self.scope.table.unit
        if not isinstance(select, exp.Select) or any(
            clause for slot, clause in select.args.items() if slot not in OF_EXISTS
        ):
            self._refuse(span, unit)
        inner, asked, both = self._tied_rows(span, select)
        for item in select.expressions:
            require_of_rows(both, item.unalias())
        return inner.relation, asked

    def _tied_rows(
        self, span: Span, select: exp.Select
    ) -> tuple[Private, list[Expr], Conditions]:
        """Bind the rows of a subquery by its own conditions; return them and the others."""
        unit = self.scope.table.unit
        inner = self.context.rows(select)
        if not isinstance(inner, Private):
            _refuse_public(span)
        own, where = inner.scope, select.args.get("where")
        both = Conditions(inside(own, self.scope), self.spans, self.context)
        conditions = conjuncts(None if where is None else where.this)
        others = [one for one in conditions if not _ties(one, own, self.scope)]
        if len(others) == len(conditions) and not enough(
            *(self._tying(one, inner) for one in conditions)
        ):
            self._refuse(span, unit, self._with_tie(span, select, own))
        asked = [one for one in others if _speaks_of(one, own, self.scope)]
        rest = [one for one in others if not _speaks_of(one, own, self.scope)]
        if rest:
            inner = filtered(self.context, inner, exp.Where(this=together(rest)))
        return inner, list(map(both.condition, asked)), both

    def _tying(self, node: exp.Expr, inner: Private) -> Keys:
        """Return the keys that a condition equates inside and outside, which is asked too."""
        if not isinstance(node, exp.EQ):
            return NONE
        one, other = unwrapped(node.this), unwrapped(node.expression)
        return NONE.union(
            *(
                keys_at(own, inner, self.context.policy) & self._keys(tied)
                for own, tied in ((one, other), (other, one))
                if _outside(tied, inner.scope)
            )
        )

    def _with_tie(self, span: Span, select: exp.Select, inner: Scope) -> str:
        """Write EXISTS with an equality of the units for conditions that speak of outside."""
        unit, where = written_name(self.scope.table.unit or ""), select.args.get("where")
        sides = (inner.members, self.scope.members)
        owners = [next((m for m in side if m.owners), side[0]) for side in sides]
        aliases = [written_name(member.alias) for member in owners]
        tie = " = ".join(f"{alias}.{unit}" for alias in aliases)
        text = self.spans.source.text
        if where is None:
            end = self.spans.of(select).end
            return f"{text[span.start : end]} WHERE {tie}{text[end : span.end]}"
        own = [
            operand(node, self.spans)
            for node in conjuncts(where.this)
            if not any(fold(c.table) in self.scope.aliases for c in node.find_all(exp.Column))
        ]
        at, asked = self.spans.of(where.this), " AND ".join([tie, *own])
        return f"{text[span.start : at.start]}{asked}{text[at.end : span.end]}"

    def _refuse(self, span: Span, unit: str | None, remedy: str = "") -> NoReturn:
        name = written_name(unit or self.scope.table.unit or "unit")
        title = "a subquery over private rows may only say which units occur in it"
        label = f"not on {name}" if unit else "its rows are units of their own"
        why = (
            "any other value of it would let one unit's rows decide about another's;",
            "a DP_ function in it releases a value that may be compared.",
        )
        if not unit or not remedy:
            remedy = advice(f"write {name} IN (SELECT {name} ...)")
        raise refusal("DPQ307", title, span, label, why, remedy)


def _refuse_public(span: Span) -> NoReturn:
    """Refuse a subquery without private rows that does not equate its values with a row's."""
    title = "a subquery over public rows has to equate their values with a row's"
    why = "which of its rows a row meets is looked up by values that both have."
    remedy = advice("JOIN on its key, and compare in WHERE; or compare with (SELECT MAX(...))")
    raise refusal("DPQ307", title, span, "no equality of both", why, remedy)


def keys_of(pairs: Sequence[tuple[Expr, Expr]]) -> tuple[Output, ...]:
    """Return what tells rows of a subquery apart: what they equate with values outside."""
    return tuple(Output(f"x{at}", theirs) for at, (_, theirs) in enumerate(pairs))


_NONE: Mapping[Kind, Scalar] = {
    Kind.TEXT: "",
    Kind.BOOLEAN: False,
    Kind.DATE: EPOCH.date(),
    Kind.TIMESTAMP: EPOCH,
    Kind.TIMESTAMPTZ: FIRST_INSTANT,
    Kind.TIME: EPOCH.time(),
}


def null_safe(left: Expr, right: Expr) -> list[tuple[Expr, Expr]]:
    """Return what to equate of two values of one type, so that NULL equals NULL.

    A value that stands for NULL is told from itself by a second equality.
    """
    if nulls_of(left) is nulls_of(right) is Nulls.NEVER:
        return [(left, right)]
    filled = [
        apply(
            one.span, "COALESCE", one, Literal(one.span, _NONE.get(one.type.kind, 0), one.type)
        )
        for one in (left, right)
    ]
    return [(filled[0], filled[1]), (IsNull(left.span, left), IsNull(right.span, right))]


def _perhaps(expr: Expr) -> Expr:
    """Take a comparison with NULL for true: NOT IN leaves out what may be equal."""
    return apply(expr.span, "COALESCE", expr, Literal(expr.span, True, BOOLEAN))


def _speaks_of(condition: exp.Expr, inner: Scope, outer: Scope) -> bool:
    """Return whether a condition names a column around the subquery, not in a further query."""
    around, names = outer.aliases - inner.aliases, inner.names
    return any(
        fold(column.table) in around
        if column.table
        else fold(column.name) not in names and outer.knows(column.name)
        for column in condition.walk(prune=is_query)
        if isinstance(column, exp.Column)
    )


def _ties(node: exp.Expr, inner: Scope, outer: Scope) -> bool:
    """Return whether a condition equates the unit inside with the unit outside.

    The latter is named with its relation, which the subquery has none of the name of, or by a
    name that nothing in the subquery has.
    """
    if not isinstance(node, exp.EQ):
        return False
    one, other = unwrapped(node.this), unwrapped(node.expression)
    return any(
        inner.owns(own) and outer.owns(tied) and _outside(tied, inner)
        for own, tied in ((one, other), (other, one))
    )


def _outside(node: exp.Expr, inner: Scope) -> bool:
    """Return whether a column is none of a subquery's: by its relation's name, or its own."""
    if node.text("table"):
        return fold(node.text("table")) not in inner.aliases
    return fold(node.name) not in inner.names


# WHERE chooses rows before anything is released; what asks for a result belongs in HAVING.


def refuse_results_in_where(select: exp.Select, scope: Scope, spans: Spans) -> None:
    """Refuse a WHERE that speaks of what the query releases, by its call or by its name."""
    where = select.args.get("where")
    aliases = {
        fold(item.alias)
        for item in select.expressions
        if isinstance(item, exp.Alias) and any(map(is_call, item.walk(prune=is_query)))
    }

    def is_result(node: exp.Expr) -> bool:
        if isinstance(node, exp.Column) and not node.table and not scope.knows(node.name):
            return fold(node.name) in aliases
        return is_call(node)

    # A query inside WHERE is one of its own, and may release what is compared here.
    results = filter(is_result, where.dfs(prune=is_query)) if where is not None else ()
    for node in results:
        moved: list[str] = []
        others: list[str] = []
        for one in conjuncts(select.args["where"].this):
            asked = any(map(is_result, one.walk(prune=is_query)))
            (moved if asked else others).append(operand(one, spans))
        span, label = spans.of(node), "computed from the rows chosen here"
        name = spans.source.snippet(span)
        if is_call(node):
            span, label = spans.name(node), "among the rows it would count"
            name = spans.source.snippet(span).upper()
        why = "WHERE chooses rows, before anything is counted; HAVING chooses results."
        having = select.args.get("having")
        moved += [] if having is None else [operand(having.this, spans)]
        remedy = parted(spans, others, moved) or f"HAVING {' AND '.join(moved)}"
        raise refusal("DPQ303", f"{name} cannot stand here", span, label, why, remedy)
