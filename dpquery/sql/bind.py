"""Resolves every name and argument against the policy and the signatures; sqlglot ends here.

A query over a private table is parted into its frontier, which holds the DP_ calls and the rows
they speak about, and what is computed above it from the released values.
"""

from __future__ import annotations

from sqlglot import expressions as exp

from dpquery.errors import SyntaxRefused
from dpquery.ir import Bound, Filter, Frontier, Relation, TableScan
from dpquery.policy.facts import PublicFacts
from dpquery.policy.model import Policy
from dpquery.source import Span
from dpquery.sql.above import AboveBinder, Item
from dpquery.sql.below import Nothing, Public, Released, raw, unaskable
from dpquery.sql.calls import Calls
from dpquery.sql.conditions import Conditions
from dpquery.sql.having import refuse_results_in_where
from dpquery.sql.keys import bind_keys
from dpquery.sql.mending import outside
from dpquery.sql.names import Scope, resolve_table
from dpquery.sql.offers import COUNT, query_about, query_of_policy
from dpquery.sql.parse import Parsed

__all__ = ["bind"]


def bind(parsed: Parsed, policy: Policy, public: PublicFacts) -> Bound:
    """Bind a parsed query.

    Raises:
        NameRefused: DPQ201 to DPQ211 a name, an argument or a value is unknown or misused.
        RuleRefused: DPQ301, DPQ302, DPQ303 something exact, or a DP_ function out of place.
        PlanRefused: DPQ402, DPQ405 the groups; DPQ404 DISTINCT.
        SyntaxRefused: DPQ102, DPQ105 what rows, or results, do not have.
    """
    from_ = parsed.query.args.get("from_")
    if from_ is None:
        return _without_table(parsed, policy)
    node = from_.this
    if not isinstance(node, exp.Table):
        span, query = parsed.spans.of(node), query_of_policy(policy)
        raise unaskable("only a table can be asked", span, "not a table", query)
    table = resolve_table(node, policy, parsed.spans.of(node))
    scope = Scope(table, node.alias or table.name)
    if table.public:
        return _over_public(parsed, scope, public)
    return _over_private(parsed, scope, parsed.spans.of(node))


def _over_private(parsed: Parsed, scope: Scope, span: Span) -> Bound:
    """Bind a query over private rows: one frontier, and arithmetic on what it releases."""
    select, spans, name = parsed.query, parsed.spans, scope.table.name
    rows = Conditions(scope, spans)
    relation: Relation = TableScan(span, name)
    where = select.args.get("where")
    if where is not None:
        refuse_results_in_where(select, scope, spans)
        rows.where = rows.condition(where.this)
        relation = Filter(spans.of(where.this), relation, rows.where)
    for item in select.expressions:
        if _is_star(item):
            raise raw("*", query_about(scope.table, COUNT), spans.of(item))
    below = Released(scope, spans, bind_keys(select, relation, rows), Calls(rows))
    above = AboveBinder(spans, below).over_released(select)
    calls = tuple(below.calls.found)
    if not calls:
        first, label = spans.of(select.expressions[0]), "no DP_ function over a private table"
        raise unaskable(f"nothing is asked about {name}", first, label, below.query(COUNT))
    return Bound(parsed.source, (Frontier(span, relation, calls, below.keys),), above)


def _is_star(item: exp.Expr) -> bool:
    qualified = isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
    return qualified or isinstance(item, exp.Star)


def _over_public(parsed: Parsed, scope: Scope, public: PublicFacts) -> Bound:
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
    above = AboveBinder(parsed.spans, below).over_public(parsed.query, stars)
    return Bound(parsed.source, (), above)


def _without_table(parsed: Parsed, policy: Policy) -> Bound:
    """Bind a query that reads no table, as `SELECT 1`."""
    _refuse_groups(parsed, "SELECT 1 + 1")
    below = Nothing(parsed.spans, query_of_policy(policy))
    return Bound(
        parsed.source, (), AboveBinder(parsed.spans, below).over_public(parsed.query, [])
    )


def _refuse_groups(parsed: Parsed, remedy: str) -> None:
    """Refuse GROUP BY and HAVING where there are no groups to be released."""
    for slot, word in (("group", "GROUP BY"), ("having", "HAVING")):
        clause = parsed.query.args.get(slot)
        if clause is not None:
            span = parsed.spans.word(word) or parsed.spans.of(clause)
            label = "only private rows are put into groups"
            raise SyntaxRefused(outside(f"{word} of public rows", span, label, remedy))
