"""Resolves every name and argument against the policy and the signatures; sqlglot ends here.

A query over private rows is parted into its frontier, which holds the DP_ calls and the rows
they speak about, and what is computed above it from the released values. A subquery is private,
and then a relation; or open, released or public, and then a table of the query above.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.errors import NameRefused, RuleRefused, SyntaxRefused
from dpquery.ir import Above, Bound, Frontier, Literal
from dpquery.policy.facts import PublicFacts
from dpquery.policy.model import Policy
from dpquery.source import Span
from dpquery.sql.above import AboveBinder, Item
from dpquery.sql.below import Nothing, Public, Released, raw, unaskable
from dpquery.sql.calls import Calls
from dpquery.sql.conditions import Conditions
from dpquery.sql.constructs import refuse_construct
from dpquery.sql.derived import derive, union_all
from dpquery.sql.having import refuse_results_in_where
from dpquery.sql.joins import bind_from, same_units
from dpquery.sql.keys import bind_keys
from dpquery.sql.mending import outside
from dpquery.sql.names import Member, Scope, fold, is_call, resolve_table
from dpquery.sql.offers import COUNT, query_about, query_of_policy
from dpquery.sql.parse import Parsed, parse
from dpquery.sql.slips import BOUND, UNKNOWN, with_slip_mended
from dpquery.sql.sources import Context, Derived, Private, PublicItem
from dpquery.sql.within import filtered, said_of

__all__ = ["bind"]


def bind(parsed: Parsed, policy: Policy, public: PublicFacts) -> Bound:
    """Bind a parsed query.

    Raises:
        NameRefused: DPQ201 to DPQ211 a name, an argument or a value is unknown or misused.
        RuleRefused: DPQ301 to DPQ308 something exact, a DP_ function out of place, or rows of
            one unit that would decide about those of another.
        PlanRefused: DPQ402, DPQ405 the groups; DPQ404 DISTINCT.
        SyntaxRefused: DPQ102, DPQ105 what rows, or results, do not have.
    """
    try:
        return _bound(parsed, policy, public)
    except (NameRefused, RuleRefused, SyntaxRefused) as refused:
        refused.diagnostic = with_slip_mended(
            refused.diagnostic,
            parsed.source,
            lambda source: _bound(parse(source), policy, public),
            UNKNOWN if refused.code == "DPQ204" else BOUND,
        )
        raise


def _bound(parsed: Parsed, policy: Policy, public: PublicFacts) -> Bound:
    statement = Statement(parsed, policy, public)
    above = statement.root(parsed.query)
    return Bound(parsed.source, tuple(statement.frontiers), above)


class Statement(Context):
    """One statement as it is bound: its frontiers in the order in which they are released."""

    def __init__(self, parsed: Parsed, policy: Policy, public: PublicFacts) -> None:
        super().__init__(policy, public, parsed.spans)
        self.parsed = parsed
        self.frontiers: list[Frontier] = []

    def root(self, query: exp.Expr) -> Above:
        """Bind the statement itself: it has to be released or public."""
        with_ = query.args.get("with_")
        if with_ is not None:
            self._name(with_)
        if not isinstance(query, exp.Select):
            span = self.spans.of(query)
            raise SyntaxRefused(outside("UNION of results", span, "not understood", ""))
        rows = self.rows(query)
        if isinstance(rows, Private):
            return self._released(query, rows)
        return self._open(query)

    def query(self, node: exp.Expr) -> Derived:
        """Bind a subquery: to a private relation, or to one that is open."""
        while isinstance(node, exp.Subquery | exp.CTE):
            node = node.this
        with_ = node.args.get("with_")
        depth = len(self.withs)
        if with_ is not None:
            self._name(with_)
        try:
            if isinstance(node, exp.Union):
                return self._union(node)
            if isinstance(node, exp.Select):
                rows = self.rows(node)
                if isinstance(rows, Private) and not _has_call(node):
                    return derive(self, node, filtered(self, rows, node.args.get("where")))
            self._not_understood(node)
        finally:
            del self.withs[depth:]

    def rows(self, select: exp.Select) -> Private | None:
        """Bind a FROM clause: private rows, or None where nothing in it is private."""
        from_ = select.args.get("from_")
        if from_ is None:
            return None
        joins = select.args.get("joins") or []
        items: list[tuple[Derived | PublicItem, str, exp.Join | None, Span]] = []
        for node, join in [(from_.this, None), *((join.this, join) for join in joins)]:
            found, alias = self.item(node)
            if not isinstance(found, Derived | PublicItem):
                self._not_understood(node)
            items.append((found, alias, join, self.spans.of(join or node)))
        if not any(isinstance(found, Derived) for found, *_ in items):
            if joins:
                self._not_understood(joins[0])
            return None
        grouped = select.args.get("group") is not None
        return bind_from(self, items, select.args.get("where"), grouped=grouped)

    def values(self, query: exp.Expr) -> list[Literal]:
        """Refuse a subquery whose values would have to be read now."""
        self._not_understood(query)

    def _name(self, with_: exp.With) -> None:
        """Take up the names of a WITH clause."""
        names: dict[str, exp.CTE] = {}
        for cte in with_.expressions:
            names[fold(cte.alias)] = cte
        self.withs.append(names)

    def _union(self, node: exp.Union) -> Derived:
        """Bind UNION ALL of private relations."""
        if node.args.get("distinct") or node.args.get("by_name"):
            self._not_understood(node)
        parts = [self.query(part) for part in _arms(node)]
        private = [part for part in parts if isinstance(part, Derived)]
        if len(private) < len(parts):
            self._not_understood(node)
        span = self.spans.of(node)
        first, *others = private
        for other in others:
            if (first.table.unit, other.table.unit) != (None, None):
                same_units(self, first.relation, other.relation, span)
        return union_all(self, span, private)

    def _not_understood(self, node: exp.Expr) -> NoReturn:
        span = self.spans.of(node)
        remedy = query_of_policy(self.policy)
        raise SyntaxRefused(outside("a subquery of this kind", span, "not understood", remedy))

    def _refuse_slots(self, select: exp.Select, *slots: str) -> None:
        for slot in slots:
            part = select.args.get(slot)
            if part:
                refuse_construct(self.parsed.source, select, self.spans, slot)

    def _released(self, select: exp.Select, rows: Private) -> Above:
        """Bind a query over private rows: one frontier, and arithmetic on what it releases."""
        scope, spans = rows.scope, self.spans
        self._refuse_slots(select, "distinct", "qualify")
        where = select.args.get("where")
        if where is not None:
            refuse_results_in_where(select, scope, spans)
        rows = filtered(self, rows, where)
        binder = Conditions(scope, spans, self)
        binder.where = said_of(rows.relation)
        for item in select.expressions:
            if _is_star(item):
                raise raw("*", query_about(scope.table, COUNT), spans.of(item))
        keys = bind_keys(select, binder)
        number = len(self.frontiers)
        below = Released(scope, spans, keys, Calls(binder), number)
        above = AboveBinder(spans, below).over_released(select)
        calls = tuple(below.calls.found)
        if not calls:
            first, label = (
                spans.of(select.expressions[0]),
                "no DP_ function over a private table",
            )
            title = f"nothing is asked about {scope.table.name}"
            raise unaskable(title, first, label, below.query(COUNT))
        span = spans.of(select.args["from_"].this)
        self.frontiers.append(Frontier(span, rows.relation, calls, below.keys))
        return above

    def _open(self, select: exp.Select) -> Above:
        """Bind a query over a public table, or over none."""
        from_ = select.args.get("from_")
        if from_ is None:
            self._refuse_slots(select, "distinct", "qualify")
            return _without_table(self.parsed, self.policy)
        self._refuse_slots(select, "distinct", "qualify", "joins")
        node = from_.this
        if not isinstance(node, exp.Table):
            self._not_understood(node)
        table = resolve_table(node, self.policy, self.spans.of(node))
        scope = Scope((Member(node.alias or table.name, {}),), table)
        return _over_public(self.parsed, scope, self.public)


def _has_call(select: exp.Select) -> bool:
    """Say whether a SELECT holds a DP_ call of its own: then it is released."""
    pending: list[exp.Expr] = [
        part
        for slot in ("expressions", "having", "order", "qualify")
        for part in _listed(select.args.get(slot))
    ]
    while pending:
        node = pending.pop()
        if is_call(node):
            return True
        if not isinstance(node, exp.Query):
            pending.extend(node.iter_expressions())
    return False


def _listed(part: object) -> list[exp.Expr]:
    if part is None:
        return []
    return part if isinstance(part, list) else [part]  # type: ignore[list-item]


def _arms(node: exp.Expr) -> Iterator[exp.Expr]:
    """Give the queries of a chain of UNION ALL, from left to right."""
    pending = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, exp.Union) and not part.args.get("distinct"):
            pending += [part.expression, part.this]
        else:
            yield part


def _is_star(item: exp.Expr) -> bool:
    qualified = isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
    return qualified or isinstance(item, exp.Star)


def _over_public(parsed: Parsed, scope: Scope, public: PublicFacts) -> Above:
    """Bind a query over a public table: nothing private, nothing charged."""
    names = tuple(public.columns(scope.table.name))
    below = Public(scope, parsed.spans, names, public.relation(scope.table.name))
    _refuse_groups(parsed, below.query)
    stars = [
        Item(
            name,
            f'"{below.relation}".{exp.to_identifier(name, quoted=True).sql("duckdb")}',
            None,
        )
        for name in names
    ]
    return AboveBinder(parsed.spans, below).over_public(_select(parsed), stars)


def _without_table(parsed: Parsed, policy: Policy) -> Above:
    """Bind a query that reads no table, as `SELECT 1`."""
    _refuse_groups(parsed, "SELECT 1 + 1")
    below = Nothing(parsed.spans, query_of_policy(policy))
    return AboveBinder(parsed.spans, below).over_public(_select(parsed), [])


def _select(parsed: Parsed) -> exp.Select:
    assert isinstance(parsed.query, exp.Select)  # noqa: S101 - the root was looked at
    return parsed.query


def _refuse_groups(parsed: Parsed, remedy: str) -> None:
    """Refuse GROUP BY and HAVING where there are no groups to be released."""
    for slot, word in (("group", "GROUP BY"), ("having", "HAVING")):
        clause = parsed.query.args.get(slot)
        if clause is not None:
            span = parsed.spans.word(word) or parsed.spans.of(clause)
            label = "only private rows are put into groups"
            raise SyntaxRefused(outside(f"{word} of public rows", span, label, remedy))
