"""Binds a statement, under what it may spend: names, arguments, and the shares of its calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from dpquery.core.privacy_loss import Loss
from dpquery.core.source_text import Source
from dpquery.errors import (
    Diagnostic,
    NameRefused,
    QueryRefused,
    RuleRefused,
    SyntaxRefused,
    internal,
)
from dpquery.ir.query import Bound
from dpquery.ir.relations import Relation, tables_of
from dpquery.policy.model import Policy, PublicFacts
from dpquery.sql.bind.call_options import lacks_bounds
from dpquery.sql.bind.from_clause import Derived
from dpquery.sql.bind.rows.struct_fields import read_fields
from dpquery.sql.bind.statement import Statement
from dpquery.sql.epsilon_shares import Shares
from dpquery.sql.parse.parser import Parsed, parse
from dpquery.sql.postprocess.from_clause import Open
from dpquery.sql.suggest.dialects import BOUND, LONGEST_MENDED, UNKNOWN, with_slip_mended


def bind(
    parsed: Parsed,
    policy: Policy,
    public: PublicFacts,
    price: Loss | None = None,
    given: Mapping[str, int] | None = None,
) -> Bound:
    """Bind a parsed query; under a price, plain aggregates are DP_ calls that share it.

    Options that are given hold for all calls that take them.

    Raises:
        NameRefused: DPQ201 to DPQ211 a name, an argument or a value is unknown or misused.
        RuleRefused: DPQ301 to DPQ308 something exact, a DP_ function out of place, or rows of
            one unit that would decide about those of another.
        PlanRefused: DPQ402, DPQ405 the groups; DPQ404 DISTINCT.
        SyntaxRefused: DPQ102, DPQ105 what rows, or results, do not have.
    """
    read_fields(parsed, policy)
    try:
        return _bound(parsed, policy, public, price, given)
    except (NameRefused, RuleRefused, SyntaxRefused) as refused:
        if price is None and isinstance(refused, RuleRefused):
            refused.diagnostic = _with_calls(refused.diagnostic, parsed, policy, public)
        refused.diagnostic = with_slip_mended(
            refused.diagnostic,
            parsed.source,
            lambda source: _bound(_parsed(source, policy), policy, public, price, given),
            UNKNOWN if refused.code == "DPQ204" else BOUND,
        )
        raise


def bind_view(
    parsed: Parsed, policy: Policy, public: PublicFacts, price: Loss | None = None
) -> Derived | Open:
    """Bind the name of WITH that a statement reads: to private rows, or to results.

    Raises:
        QueryRefused: as `bind`, but of no result: private rows are fine.
    """
    read_fields(parsed, policy)
    shares = None if price is None else Shares.of(price)
    return Statement(parsed, policy, public, shares).view()


def _parsed(source: Source, policy: Policy) -> Parsed:
    """Parse a text, with fields of structures as columns."""
    parsed = parse(source)
    read_fields(parsed, policy)
    return parsed


def _with_calls(
    refused: Diagnostic, parsed: Parsed, policy: Policy, public: PublicFacts
) -> Diagnostic:
    """Return a refusal that offers DP_ calls, if plain aggregates are its cause."""
    text, span, (offered, *_) = parsed.source.text, refused.span, (*refused.remedy, "")
    if len(text) > LONGEST_MENDED:
        return refused
    before, after = ("", "") if span is None else (text[: span.start], text[span.end :])
    if before and after and offered.startswith(before.lstrip()):
        return refused  # it is mended already, at this place
    shares = Shares.of(Loss(Fraction(1, 2)))
    try:
        bound = Statement(_parsed(parsed.source, policy), policy, public, shares).bound()
    except QueryRefused:
        return refused
    if any(lacks_bounds(call) for frontier in bound.frontiers for call in frontier.calls):
        return refused  # it would be refused when it is planned
    once = "or SET dp.eps = 0.5 first: plain aggregates share the epsilon of their statement"
    remedy, why = (shares.understood(parsed.source), once), refused.why
    if not policy.published and any(_of_rows(one.relation, policy) for one in bound.frontiers):
        why = (*why, "each row is a unit of its own here: name the person's column by --unit.")
    return replace(refused, why=why, remedy=remedy)


def _of_rows(relation: Relation, policy: Policy) -> bool:
    """Return whether a table of a relation has rows that are units of their own."""
    return any(policy.tables[one.table].unit is None for one in tables_of(relation))


def _bound(
    parsed: Parsed,
    policy: Policy,
    public: PublicFacts,
    price: Loss | None,
    given: Mapping[str, int] | None,
) -> Bound:
    if price is None:
        return Statement(parsed, policy, public).bound()
    shares = Shares.of(price, given)
    found = Statement(parsed, policy, public, shares).bound()
    if not shares.weights:  # every call states its own
        return found
    first, shares = shares, shares.split()
    found = Statement(parsed, policy, public, shares).bound()
    if (first.weights, first.selections) != (shares.weights, shares.selections):
        raise internal("the calls of a statement are not the same when they are bound again")
    return replace(found, understood=shares.understood(parsed.source))
