"""Resolves every name and argument against the policy and the signatures; sqlglot ends here.

A query over private rows is parted into its frontier, which holds the DP_ calls and the rows
they speak about, and what is computed above it from the released values. A subquery is private,
and then a relation; or open, released or public, and then a table of the query above.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.core.types import BOOLEAN, Type
from dpquery.errors import QueryRefused, advice, refusal
from dpquery.ir.expr import Constant, Expr, Literal
from dpquery.ir.query import Above, AboveColumn, Bound, Call, Frontier
from dpquery.ir.relations import public_joins
from dpquery.policy.model import Policy, PublicFacts, derived_table
from dpquery.sql.bind.dp_calls import Calls
from dpquery.sql.bind.from_clause import (
    Derived,
    Private,
    PublicItem,
    ReleasedItem,
    RowList,
    aliases_of,
    is_star,
    owners_of,
)
from dpquery.sql.bind.group_by_clause import finds_keys
from dpquery.sql.bind.group_keys import Keys
from dpquery.sql.bind.joins.private_joins import Item, bind_from
from dpquery.sql.bind.joins.where_subqueries import chosen, refuse_results_in_where, said_of
from dpquery.sql.bind.pivot import RELEASED, Pivot
from dpquery.sql.bind.private_subqueries import combined_rows, derive
from dpquery.sql.bind.released_tables import Released, raw, unaskable
from dpquery.sql.bind.rows.row_expressions import Conditions
from dpquery.sql.bind.scope import fold, is_call, written_name
from dpquery.sql.contribution_bounds import contribution
from dpquery.sql.empty_result_refusals import refuse_contradictions, refuse_empty
from dpquery.sql.epsilon_shares import Shares, shared
from dpquery.sql.implicit_dp_calls import asks_units, make_calls
from dpquery.sql.parse.parser import Parsed
from dpquery.sql.parse.spans import outside, repeated, too_large
from dpquery.sql.parse.unnest import refuse_list
from dpquery.sql.postprocess.from_clause import (
    MOST_MEMBERS,
    MOST_SHOWN,
    From,
    Member,
    Open,
    OpenColumn,
    constant_of,
    equalities,
    joined_rows,
    literals,
    members_of,
    places_of,
    require_rows,
    rows_within,
)
from dpquery.sql.postprocess.select import Select, parts_of
from dpquery.sql.postprocess.select_stages import FrontierRows, Rows
from dpquery.sql.postprocess.set_operations import arms_of, combined, finished
from dpquery.sql.postprocess.sql_fragments import (
    MAX_TEXT,
    REPEATING,
    TEXTUAL,
    Value,
    condition,
    quoted,
)
from dpquery.sql.postprocess.subqueries import Opener
from dpquery.sql.suggest.join_refusals import (
    JoinedBy,
    refuse_correlated,
    refuse_twice,
    same_units,
)
from dpquery.sql.suggest.sample_queries import COUNT, counted, query_about, query_of_policy
from dpquery.sql.suggest.type_mismatches import mismatch

MOST_DERIVED = 8
"""Tables that one statement makes of public ones."""
MOST_NESTED = 64
"""Queries inside one another, those that WITH names included: each takes levels of ours."""


class Statement(Opener):
    """One statement as it is bound: its frontiers in the order in which they are released."""

    def __init__(
        self,
        parsed: Parsed,
        policy: Policy,
        public: PublicFacts,
        shares: Shares | None = None,
    ) -> None:
        super().__init__(policy, public, parsed.spans)
        self._parsed = parsed
        self._shares = shares
        self.frontiers: list[Frontier] = []
        self.constants: list[Above] = []
        """Queries of one value each, for the rows of a frontier."""
        self._constants: dict[Span, Constant] = {}
        """Those that were bound, by their spans: an expression may be bound twice."""
        self._members: dict[Span, tuple[Expr, list[Expr]]] = {}
        """So for subqueries of several values."""
        self._rows: dict[Span, list[dict[str, Expr]]] = {}
        """So for released relations among private ones."""
        self._released_reads = 0
        """How often something released was read so far."""
        self._of_releases: set[int] = set()
        """Of these, those that read something released."""
        self._opens: dict[int, Open] = {}
        """What names of WITH, and subqueries that release, stand for, once they are bound."""
        self._pivots: dict[int, Open] = {}
        """So for relations with PIVOT after them."""
        self._kept: list[exp.Expr] = []
        """These subqueries, so that no other node gets their ids."""
        self._shared: dict[str, str] = {}
        """Their texts by their names for the engine, in the order in which they were bound."""
        self._public: set[str] = set()
        """Those of these names that read nothing released."""
        self._derived: set[str] = set()
        """The tables that were made of public ones."""
        self._depth = 0
        """How many queries the one that is being bound stands in."""

    def bound(self) -> Bound:
        """Bind all of it."""
        above = self.root(self._parsed.query)
        return Bound(self._parsed.source, tuple(self.frontiers), above, tuple(self.constants))

    def view(self) -> Derived | Open:
        """Bind what a name of WITH stands for that the statement reads, and do no more."""
        query = self._parsed.query
        self.withs.append(query.args["with_"].expressions)
        with self.alone():
            found, _ = self.item(query.args["from_"].this)
        assert isinstance(found, Derived | Open)  # noqa: S101 - a name of WITH is one of these
        return found

    def root(self, query: exp.Expr) -> Above:
        """Bind the statement itself: it has to be released or public."""
        while isinstance(query, exp.Subquery):
            query = query.this
        found = self._query(query, root=True)
        if isinstance(found, Derived):  # as of UNION ALL
            text = self._parsed.source.text.strip().rstrip(";")
            raise raw("*", self.spans.of(query), f"SELECT {COUNT} FROM ({text})")
        if self.frontiers:
            refuse_empty(query, self.spans)
        for frontier in self.frontiers:
            refuse_contradictions(frontier, self.spans.source)
        require_rows(found.most, max(MOST_SHOWN, self.largest), self.spans.of(query))
        return self.above(found.source[1:-1], found)

    def above(self, sql: str, found: Open) -> Above:
        """Return an open query as the engine is asked it, with the names of WITH before it."""
        columns = tuple(AboveColumn(c.name, c.origins, c.noiseless) for c in found.columns)
        asked, whole = (self._whole(one, self._shared) for one in (sql, found.whole or sql))
        return Above(asked, columns, found.hidden, self.ends, whole, self.joined)

    def _whole(self, sql: str, names: Iterable[str]) -> str:
        """Write a query with some names of WITH before it."""
        shared = ", ".join(f'"{name}" AS MATERIALIZED {self._shared[name]}' for name in names)
        whole = f"WITH {shared} {sql}" if shared else sql
        if len(whole) > MAX_TEXT:
            raise repeated(Span(0, len(self.spans.source.text)), REPEATING)
        return whole

    def _of_public(self, sql: str) -> str:
        """Write a query over public tables, which is asked before anything is released."""
        return self._whole(sql, [name for name in self._shared if name in self._public])

    def query(self, node: exp.Expr) -> Derived | Open:
        """Bind a subquery: to a private relation, or to one that is open.

        What releases something is one release, however often it is read or bound.
        """
        if id(node) in self._opens:
            self._released_reads += id(node) in self._of_releases
            return self._opens[id(node)]
        self._depth += 1
        if self._depth > MOST_NESTED:
            title = f"queries are nested more than {MOST_NESTED} deep"
            why = "a name of WITH that is made of another is nested in it, as brackets are."
            remedy = advice("ask in several steps, or put several of them into one")
            raise too_large(title, self.spans.of(node), why=why, remedy=remedy)
        before = self._released_reads
        try:
            found = self._inner_query(node)
        finally:
            self._depth -= 1
        if isinstance(found, Open) and self._released_reads > before:
            self._opens[id(node)] = found  # bound again, it would be released again
            self._of_releases.add(id(node))
            self._kept.append(node)
        return found

    def _inner_query(self, node: exp.Expr) -> Derived | Open:
        cte = node if isinstance(node, exp.CTE) else None
        while isinstance(node, exp.Subquery | exp.CTE):
            node = node.this
        if cte is None:
            return self._query(node, root=False)
        before = self._released_reads
        with self.alone():
            found = self._query(node, root=False)
        if isinstance(found, Open):
            name = f"x{len(self._shared)}"
            if self._released_reads > before:
                self._of_releases.add(id(cte))
            else:
                self._public.add(name)
            self._shared[name] = found.source
            found = self._opens[id(cte)] = replace(found, source=f'"{name}"')
        return found

    def opened(self, node: exp.Expr) -> Open:
        """Bind a subquery that has to be open."""
        found = self.query(node)
        if isinstance(found, Derived):
            title = "a subquery over private rows has no place here"
            label, remedy = "nothing in it is released", query_about(found.table, COUNT)
            raise unaskable(title, self.spans.of(node), label, remedy)
        return found

    def _query(self, node: exp.Expr, *, root: bool) -> Derived | Open:
        with_, depth = node.args.get("with_"), len(self.withs)
        if with_ is not None:
            self.withs.append(with_.expressions)
        try:
            if isinstance(node, exp.SetOperation):
                return self._combined(node, root=root)
            if isinstance(node, exp.Select):
                return self._select(node, root=root)
            self._not_understood(node)
        finally:
            del self.withs[depth:]

    def _select(self, node: exp.Select, *, root: bool) -> Derived | Open:
        with self.alone():
            rows = self.rows(node)
        if isinstance(rows, Private):
            plain = self._shares is not None and asks_units(self, node, rows)
            plain |= RELEASED in node.meta
            if root or plain or finds_keys(node) or any(map(is_call, parts_of(node))):
                return self._released(node, rows, root=root)
            return derive(self, node, chosen(self, rows, node))
        return Select(Rows(self, aliases_of(node), rows), node, root=root).open()

    def pivoted(self, node: exp.Expr) -> Derived | Open:
        """Bind a relation with PIVOT after it: to one release, or to a column for each cell."""
        if id(node) in self._pivots:
            self._released_reads += 1
            return self._pivots[id(node)]
        before, found = self._released_reads, self._pivoted(Pivot(node, self.spans))
        if isinstance(found, Open) and self._released_reads > before:
            self._pivots[id(node)] = found  # as any query that releases something
            self._kept.append(node)
        return found

    def _pivoted(self, pivot: Pivot) -> Derived | Open:
        with self.alone():
            rows = self.rows(exp.Select(from_=exp.From(this=pivot.source)))
        if not isinstance(rows, Private):
            return self.query(pivot.filtered(pivot.groups(rows.columns, frozenset())))
        units = frozenset[str]().union(*(member.owners for member in rows.scope.members))
        groups = pivot.groups(rows.scope.columns, units)
        if any(map(rows.scope.owns, groups)) and not pivot.asks:
            return self.query(pivot.filtered(groups))
        try:
            found = self.opened(pivot.released(groups))
        except QueryRefused as refused:
            pivot.refuse_private(refused)
            raise
        frontier = self.frontiers[found.hidden[0]]
        return pivot.shown(found, frontier, self.alias(), groups)

    def rows(self, select: exp.Select) -> Private | From:
        """Bind a FROM clause: private rows, or open ones."""
        from_ = select.args.get("from_")
        if from_ is None:
            return From(self.spans)
        joins = select.args.get("joins") or []
        items = []
        released: set[int] = set()
        for node, join in [(from_.this, None), *((join.this, join) for join in joins)]:
            before = self._released_reads
            found, alias = self.item(node)
            items.append((found, alias, join, node))
            released |= {id(node)} if self._released_reads > before else set()
        if not any(isinstance(found, Derived) for found, *_ in items):
            return self._joined(
                [(self._opened(f), *rest) for f, *rest in items], select.args.get("where")
            )
        given: list[tuple[Item, str, exp.Join | None, Span]] = []
        for found, alias, join, node in items:
            span, bound = self.spans.of(node), found
            if isinstance(bound, Open) and id(node) not in released:
                bound = self._derived_item(bound, alias, span)
            one = ReleasedItem(bound, alias, span) if isinstance(bound, Open) else bound
            given.append((one, alias, join, self.spans.of(join or node)))
        grouped = select.args.get("group") is not None
        return bind_from(self, given, select.args.get("where"), grouped=grouped)

    def made_public(self, query: exp.Select, span: Span) -> PublicItem | None:
        """Return what a query makes of public tables; None of one that reads something else."""
        before = self._released_reads
        with self.alone():
            found = self.query(query)
        if isinstance(found, Derived) or self._released_reads > before:
            return None
        return self._derived_item(found, "", span)

    def _derived_item(self, found: Open, alias: str, span: Span) -> PublicItem:
        """Return what a query makes of public tables as a public table: its rows are read now.

        That they are those of a table of public values, and a function of public tables alone,
        is all that a join of private rows with a public table asks of it.
        """
        names = {  # what is no plain name stays out of the engine that reads private rows
            one.name if written_name(one.name) == one.name else f"column {at}": one
            for at, one in enumerate(found.columns)
        }
        listed = (f"{one.sql} AS {quoted(name)}" for name, one in names.items())
        sql = f'SELECT {", ".join(listed)} FROM {found.source} AS "{self.alias()}"'
        sql = self._of_public(sql)
        if not self.public.accepts(Above(sql, ()), ()):
            title = "the types in this subquery do not match"
            mismatch(span, title, "somewhere here", advice("write CAST(... AS TEXT)"))
        name = self.public.derived(sql)
        self._derived |= {name} if name is not None else set()
        if name is None or len(self._derived) > MOST_DERIVED:
            several = name is not None
            title = "this makes too much of public tables"
            label = f"more than {MOST_DERIVED} such subqueries" if several else "too large"
            fewer = advice("join fewer subqueries, or one of what they have in common")
            smaller = advice(
                "show fewer columns of it, or fewer rows: WHERE, GROUP BY, DISTINCT"
            )
            why = "its rows are read before anything is charged, and held beside private ones."
            raise refusal("DPQ409", title, span, label, why, fewer if several else smaller)
        known = {column: names[column].name for column in self.public.columns(name)}
        return PublicItem(derived_table(name), alias, span, known, derived=True)

    def _opened(self, found: object) -> Open:
        """Return an item of a FROM clause without private rows as an open relation."""
        if isinstance(found, Open):
            return found
        if isinstance(found, RowList):
            refuse_list(self.spans.of(found.node), "no private row stands before it")
        assert isinstance(found, PublicItem)  # noqa: S101 - the others are private
        name, columns = found.table.name, []
        types = self.public.types(name)
        for column in self.public.columns(name):
            kind = types[column].kind if column in types else None
            held = OpenColumn(found.names[column], quoted(column), kind, noiseless=True)
            if kind in TEXTUAL:
                held = replace(held, longest=self.public.longest(name, column))
            columns.append(held)
        relation, most = quoted(self.public.relation(name)), self.public.height(name)
        return Open(relation, tuple(columns), most=most)

    def _joined(
        self,
        items: Sequence[tuple[Open, str, exp.Join | None, exp.Expr]],
        where: exp.Where | None,
    ) -> From:
        """Join open relations, from left to right."""
        from_, owners = From(self.spans), owners_of(items)
        spare = equalities(None if where is None else where.this, owners)
        for found, alias, written, node in items:
            if alias and from_.calls(alias):
                refuse_twice(alias, self.spans.of(written or node))
            engine, numbers = self.alias(), len(from_.rows)
            member = from_.member(found, alias, engine, alone=len(items) == 1)
            join = from_.named(member, written)
            from_.join(member, f'{found.source} AS "{engine}"', join)
            from_.sorted = found.sorted and len(items) == 1
            if member not in from_.members:  # of a semi join, no row is shown
                del from_.rows[numbers:]
            on = None if join is None else join.args.get("on")
            if on is not None:
                asked = map(condition, self._on(from_, member, on))
                from_.text += f" ON {' AND '.join(asked)}"
            if join is None:
                from_.most = found.most
                continue
            own = len(join.args.get("using") or ()) or equalities(on, owners)
            spare -= not own
            self._count(from_, found, join, equated=bool(own) or spare >= 0)
        return from_

    def _count(self, from_: From, found: Open, join: exp.Join, *, equated: bool) -> None:
        """Take the rows of one more relation in."""
        if join.kind in {"SEMI", "ANTI"}:
            return
        full = join.side == "FULL"
        rows = joined_rows(from_.most, found.most, equated=equated, full=full)
        span, (*before, last) = self.spans.of(join), from_.members
        names = {fold(name) for name, _ in last.columns} if last.alias else set()
        pairs = [
            f"{written_name(member.alias)}.{written_name(name)} = "
            f"{written_name(last.alias)}.{written_name(name)}"
            for member in before
            for name, _ in member.columns
            if member.alias and fold(name) in names
        ]
        crossed = join.args.get("on") is None and not equated and bool(pairs)
        remedy = JoinedBy(join, span, self.spans).with_condition(pairs[0]) if crossed else ""
        from_.most = self.join(require_rows(rows, self.widest, span, remedy))

    def _on(self, from_: From, member: Member, on: exp.Expr) -> list[Value]:
        """Bind the condition of a join; a semi join shows its second relation here alone."""
        seen = from_.members
        if member not in seen:
            from_.members = [*seen, member]
        rows = Rows(self, {}, from_)
        found = rows.truths(on)
        from_.members = seen
        if not rows.plain:
            span = self.spans.of(on)
            raise outside("a subquery in ON", span, "not understood", "WHERE")
        return found

    def values(self, query: exp.Expr) -> list[Literal]:
        """Return the values of a subquery over public tables: they are read now.

        Raises:
            NameRefused: DPQ208 several columns, or values that a list cannot hold.
            SyntaxRefused: DPQ105 there are too many.
        """
        span, found = self.spans.of(query), self._one_value(query)
        column = found.columns[0]
        sql = f'SELECT DISTINCT {column.sql} FROM {found.source} AS "{self.alias()}" ORDER BY 1'
        above = Above(self._of_public(sql), ())
        return literals(self.public.listed(above), column.kind, span)

    def members(self, query: exp.Expr) -> tuple[Expr, list[Expr]] | None:
        """Bind the values of a released column: constants, as many as it has rows at most.

        Each is what was released, and nothing else: the rows that are compared with it are
        asked adaptively, and both losses add up.

        Raises:
            PlanRefused: DPQ409 there can be too many.
        """
        span, before = self.spans.of(query), self._released_reads
        found = self._one_value(query)
        if self._released_reads == before:
            return None
        if span not in self._members:
            _require_few(found, span)
            type_, sql = constant_of(found.columns[0], span, self.policy.zone)
            source = f'(SELECT {sql} AS "v" FROM {found.source} AS "{self.alias()}")'
            some, *each = members_of('"v"', source, found.most)
            values: list[Expr] = [self._constant(one, found, span, type_) for one in each]
            self._members[span] = self._constant(some, found, span, BOOLEAN), values
        return self._members[span]

    def released_rows(self, item: ReleasedItem) -> list[dict[str, Expr]]:
        """Bind the columns of a released relation: constants, in each row that it can have.

        Raises:
            PlanRefused: DPQ409 there can be too many rows.
        """
        found, span = item.found, item.span
        if span not in self._rows:
            _require_few(found, span)
            rows: list[dict[str, Expr]] = [{} for _ in range(found.most)]
            for name, (type_, values) in places_of(found, span, self.policy.zone).items():
                for row, value in zip(rows, values, strict=True):
                    row[name] = self._of_rows(value, found, span, type_)
            self._rows[span] = rows
        return self._rows[span]

    def released_any(self, item: ReleasedItem) -> Expr:
        """Bind whether a released relation has any row."""
        return self._of_rows("count(*) > 0", item.found, item.span, BOOLEAN)

    def _of_rows(self, value: str, found: Open, span: Span, type_: Type) -> Constant:
        """Take in one value that is computed from all rows of a relation."""
        sql = f'SELECT {value} AS "c0" FROM {found.source} AS "{self.alias()}"'
        return self._constant(sql, found, span, type_)

    def _constant(self, sql: str, found: Open, span: Span, type_: Type) -> Constant:
        """Take in a query of one value, which is asked before the rows are read."""
        self.constants.append(self.above(sql, found))
        return Constant(span, len(self.constants) - 1, type_)

    def constant(self, node: exp.Subquery) -> Constant:
        """Bind a scalar subquery among private rows: its value is known when those are read."""
        span = self.spans.of(node)
        if span in self._constants:
            return self._constants[span]
        refuse_correlated(self, node)
        found = self._one_value(node)
        self.require_one_row(found, node)
        type_, sql = constant_of(found.columns[0], span, self.policy.zone)
        whole = f'SELECT CASE WHEN count(*) = 1 THEN first({sql}) END AS "c0"'
        whole += f' FROM {found.source} AS "{self.alias()}"'
        self._constants[span] = self._constant(whole, found, span, type_)
        return self._constants[span]

    def _one_value(self, node: exp.Expr) -> Open:
        with self.alone():
            found = self.opened(node)
        if len(found.columns) != 1:
            span = self.spans.of(node)
            label = f"{len(found.columns)} columns"
            raise outside("a subquery of several columns", span, label, "SELECT 1")
        return found

    def _combined(self, node: exp.SetOperation, *, root: bool) -> Derived | Open:
        """Bind UNION, INTERSECT or EXCEPT, of private relations or of open ones."""
        arms = [self.query(arm) for arm in arms_of(self, node)]
        private = [arm for arm in arms if isinstance(arm, Derived)]
        if private:
            return self._of_units(node, private)
        left, right = (arm for arm in arms if isinstance(arm, Open))
        found = combined(self, node, left, right)
        sql = finished(self, node, found, root=root)
        columns = tuple(replace(c, sql=f'"c{i}"') for i, c in enumerate(found.columns))
        ordered = node.args.get("order") is not None
        most = rows_within(found.most, node.args.get("limit"))
        return Open(f"({sql})", columns, found.hidden, ordered, most)

    def _of_units(self, node: exp.SetOperation, arms: Sequence[Derived]) -> Derived:
        clauses = any(node.args.get(slot) for slot in ("order", "limit", "offset"))
        if clauses or len(arms) < 2:
            self._not_understood(node)
        same_units(self, arms[0].relation, arms[1].relation, self.spans.of(node))
        return combined_rows(self, node, arms)

    def _not_understood(self, node: exp.Expr) -> NoReturn:
        span = self.spans.of(node)
        remedy = query_of_policy(self.policy)
        raise outside("a subquery of this kind", span, "not understood", remedy)

    def _released(self, select: exp.Select, rows: Private, *, root: bool) -> Open:
        """Bind a query over private rows: one frontier, and what is computed from it."""
        spans = self.spans
        if self._shares is not None:
            make_calls(select, spans)
        if select.args.get("where") is not None:
            refuse_results_in_where(select, rows.scope, spans)
        rows = chosen(self, rows, select)
        scope = rows.scope
        binder = Conditions(scope, spans, self)
        binder.where = said_of(rows.relation)
        binder.shares = self._shares
        for item in select.expressions:
            if is_star(item):
                raise raw("*", spans.of(item), counted(select, scope.table, spans))
        span = spans.of(select.args["from_"].this)

        def find(call: Call) -> int:
            self.frontiers.append(Frontier(span, rows.relation, (call,)))
            return len(self.frontiers) - 1

        groups, sets = Keys(select, binder, find, self, rows.relation).bind()
        stated = contribution(rows.relation, self.policy)
        unlimited = not stated.single and not isinstance(stated.limit, int)
        below = Released(scope, spans, groups, Calls(binder, unlimited=unlimited), sets)
        below.publics = frozenset(public_joins(rows.relation))
        for node in filter(is_call, parts_of(select)):
            if not isinstance(node.parent, exp.Filter) or node.parent.this is not node:
                below.call(node)
        below.number = len(self.frontiers)
        self._released_reads += 1
        calls = tuple(shared(call, len(sets), self._shares) for call in below.calls.found)
        for keys in sets:
            self.frontiers.append(Frontier(span, rows.relation, calls, keys, len(sets)))
        found = Select(FrontierRows(self, aliases_of(select), below), select, root=root).open()
        below.name_repeats(select)
        if not calls and not groups:
            first, label = select.expressions[0], "no DP_ function over a private table"
            title = f"nothing is asked about {scope.table.name}"
            raise unaskable(title, spans.of(first), label, below.query(COUNT))
        return found


def _require_few(found: Open, span: Span) -> None:
    """Refuse more released rows than can be put among private ones, by plan."""
    if found.most > MOST_MEMBERS:
        title = f"rows are compared with {MOST_MEMBERS} released values at most"
        why = "they are not known yet: each is put among the rows on its own."
        remedy = advice(f"end the subquery with LIMIT {MOST_MEMBERS}")
        raise refusal("DPQ409", title, span, f"up to {found.most:,}", why, remedy)
