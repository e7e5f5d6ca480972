"""Which charges fit, and the words for those that do not. Wording is pinned here."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpquery.budget.accountant import Spent, additive
from dpquery.budget.admission import require_within
from dpquery.budget.ledger.charge_and_receipt import Ceilings, Charge
from dpquery.budget.ledger.record import Total, Totals
from dpquery.budget.limits import binding
from dpquery.core.privacy_events import Concentrated, Pure
from dpquery.core.privacy_loss import EPSILON_MIN, Ceiling, exact_number
from dpquery.core.source_text import Source, Span
from dpquery.core.zcdp import rho_below
from dpquery.errors import BudgetRefused
from tests.ledger.helpers import gaussian, limits, loss, pure

UNKNOWN = Fraction(0)
"""A rho that no limit without a share of delta asks for."""

QUERY = Source("SELECT DP_COUNT(*, eps=1.5) FROM staff WHERE dept = 'ops'")


def totals(policy="0", analyst="0", session="0", charges=3, delta=0) -> Totals:
    return Totals(
        *(Total(Spent(loss(x, delta), UNKNOWN), charges) for x in (policy, analyst, session))
    )


def pass_within(charge: Charge, ceilings: Ceilings, before: Totals) -> None:
    require_within(charge, additive(charge.events), ceilings, before)


def refusal(charge: Charge, ceilings: Ceilings, before: Totals) -> BudgetRefused:
    with pytest.raises(BudgetRefused) as caught:
        pass_within(charge, ceilings, before)
    return caught.value


def test_a_refusal_says_what_is_asked_what_is_left_and_what_would_fit():
    error = refusal(pure("1.5"), limits(session=2), totals(session="0.7"))
    error.source, error.budget = QUERY, "unchanged; 1.3 of 2 left"
    assert (
        str(error)
        == """\
refused[DPQ501]: this query would spend 1.5, and 1.3 is left
  |
1 | SELECT DP_COUNT(*, eps=1.5) FROM staff WHERE dept = 'ops'
  |                    ^^^^^^^ asks for 1.5

   why: the session's budget is 2; 0.7 is spent by 3 earlier queries.
   try: DP_COUNT(*, eps=1.3)
        that is the most that fits
budget: unchanged; 1.3 of 2 left"""
    )
    assert (error.asked, error.left) == (Fraction(3, 2), Fraction(13, 10))


@pytest.mark.parametrize(
    ("charges", "words"), [(1, "1 earlier query."), (2, "2 earlier queries.")]
)
def test_earlier_queries_are_counted_in_words(charges, words):
    error = refusal(pure(2), limits(2), totals("0.5", charges=charges))
    assert error.diagnostic.why[0].endswith(words)


def test_a_first_query_can_be_too_large():
    error = refusal(pure(3), limits(2), Totals())
    assert error.diagnostic.why == (
        "the policy's budget is 2, and no query has been charged yet.",
    )


def test_the_limit_of_one_query_has_its_own_code():
    error = refusal(pure(3), limits(query=2), totals("9"))
    assert error.code == "DPQ502"
    assert error.diagnostic.title == "this query would spend 3, and one query may spend 2"
    assert error.left == 1
    assert error.diagnostic.remedy[0] == "DP_COUNT(*, eps=1)"


def test_a_charge_without_a_call_to_print_still_has_a_remedy():
    charge = Charge((Pure(Fraction(3)),), (), "")
    assert refusal(charge, limits(query=2), Totals()).diagnostic.remedy
    assert "session" in refusal(charge, limits(session=2), Totals()).diagnostic.remedy[0]
    owner = refusal(charge, limits(2), Totals()).diagnostic.remedy
    assert owner == ("ask the data owner to raise the policy's epsilon",)


def test_delta_has_its_own_code_and_offers_no_epsilon():
    error = refusal(gaussian("0.5", "1e-6"), limits(delta="1e-7"), totals(charges=0))
    assert error.code == "DPQ503"
    assert error.diagnostic.title == "this query needs a delta of 1e-6, and 1e-7 is left"
    assert (error.asked, error.left) == (Fraction(1, 10**6), Fraction(1, 10**7))
    both = refusal(gaussian("50", "1e-6"), limits(delta="1e-7"), Totals())
    assert both.code == "DPQ501"
    assert "eps=" not in both.diagnostic.remedy[0]


def test_the_offer_leaves_room_for_the_other_calls_of_the_query():
    error = refusal(pure("1.5", "0.25"), limits(1), Totals())
    assert error.diagnostic.title == "this query would spend 1.75, and 1 is left"
    assert error.diagnostic.label == "asks for 1.5 of it"
    assert error.diagnostic.remedy == (
        "DP_COUNT(*, eps=0.75)",
        "that is the most that fits beside the other calls",
    )


def test_nothing_is_offered_below_the_smallest_epsilon():
    almost = Fraction(2) - EPSILON_MIN
    error = refusal(pure(1), limits(2), totals(almost))
    assert error.diagnostic.remedy[0] == "DP_COUNT(*, eps=0.000000001)"
    error = refusal(pure(1), limits(2), totals(almost + Fraction(1, 10**20)))
    assert "eps=" not in error.diagnostic.remedy[0]


@given(
    st.fractions(min_value=EPSILON_MIN, max_value=9 * 10**9),
    st.fractions(min_value=Fraction(1, 10**12), max_value=1),
)
def test_what_is_offered_is_accepted_and_asks_for_nearly_all(left, more):
    error = refusal(pure(left + more), limits(left), Totals())
    offered = exact_number(error.diagnostic.remedy[0].split("eps=")[1].split(")")[0])
    assert left * (1 - Fraction(1, 10**11)) < offered <= left
    pass_within(pure(offered), limits(left), Totals())


@pytest.mark.parametrize("scope", ["policy", "analyst", "session"])
def test_equality_passes_and_a_hair_more_does_not(scope):
    ceilings = limits(**{"policy": "9", scope: "1"}, delta="1e-6")
    before = totals(**{scope: "0.9"})
    pass_within(gaussian("0.1", "1e-6"), ceilings, before)
    assert refusal(pure("0.100000001"), ceilings, before).code == "DPQ501"
    assert refusal(gaussian("0.1", "1.01e-6"), ceilings, before).code == "DPQ503"


def test_the_query_limit_admits_equality():
    pass_within(pure("0.5", "0.5"), limits(query=1), Totals())


@pytest.mark.parametrize(
    ("ceilings", "name"),
    [
        (limits(3, analyst=3, session=3), "session"),
        (limits(3, analyst=3, session=4), "analyst"),
        (limits(3, analyst=4), "policy"),
        (limits(5, analyst=1, session=3), "analyst"),
    ],
)
def test_the_binding_limit_has_least_left_and_ties_go_to_the_nearest(ceilings, name):
    assert binding(ceilings, Totals()).name == name


def test_a_limit_lowered_below_what_is_spent_leaves_nothing_and_free_queries_pass():
    before = totals("5", delta="1e-3")
    assert binding(limits(2), before).left == loss(0)
    assert refusal(pure("1e-9"), limits(2), before).left == 0
    pass_within(Charge((), (), "SELECT 1"), limits(2), before)


MANY = Totals(Total(Spent(loss("3.7", "4e-7"), Fraction("0.1")), 40))
PARTED = limits(3, delta="1e-6", share="1/2")


def test_where_rho_leaves_more_it_says_so_and_offers_what_passes():
    error = refusal(pure("0.5"), PARTED, MANY)
    assert error.diagnostic.title == "this query would spend 0.5, and 0.389229 is left"
    assert error.diagnostic.why == (
        "the policy's budget is 3; 2.20604636 is spent by 40 earlier queries.",
        "so far epsilons add up to 3.7, and rho to 0.1 of 0.175749908:",
        "a query is answered while either of the two sums keeps its limit.",
    )
    assert error.diagnostic.remedy[0] == "DP_COUNT(*, eps=0.3892295)"
    pass_within(pure("0.3892295"), PARTED, MANY)
    assert refusal(pure("0.38923"), PARTED, MANY).code == "DPQ501"


def test_a_delta_draws_on_its_own_part_alone():
    pass_within(gaussian("0.1", "1e-7"), PARTED, Totals())
    error = refusal(gaussian("0.1", "6e-7"), PARTED, Totals())
    assert error.code == "DPQ503"
    assert error.left == Fraction(5, 10**7)
    assert error.diagnostic.why[1] == "of it, 5e-7 is kept to convert rho."


@pytest.mark.parametrize(
    ("ceilings", "before", "factor"),
    [(limits(1), Totals(), Fraction(1, 4)), (PARTED, MANY, Fraction("0.30772"))],
)
def test_a_statement_of_several_calls_is_offered_whole_where_one_cannot_give_way(
    ceilings, before, factor
):
    texts = ("2", "1", "1")
    query = "SELECT DP_COUNT(*, eps=2), DP_SUM(a, eps=1), DP_SUM(b, eps=1) FROM t"
    places = [query.index("eps=", at) + 4 for at in (0, 25, 45)]
    spans = tuple(Span(place, place + 1) for place in places)
    events = tuple(Pure(Fraction(text)) for text in texts)
    charge = Charge(events, (), query, spans[0], ("DP_COUNT(*, eps=", ")"), spans)
    offered, words = refusal(charge, ceilings, before).diagnostic.remedy
    assert words == "that is the most that fits, in the same proportions"
    found = [Fraction(part.split(")")[0]) for part in offered.split("eps=")[1:]]
    assert found[0] == 2 * found[1] == 2 * found[2]
    assert found[1] <= 1
    smaller = tuple(Pure(epsilon) for epsilon in found)
    pass_within(Charge(smaller, (), offered), ceilings, before)
    larger = tuple(Pure(epsilon * Fraction(10**5 + 2, 10**5)) for epsilon in found)
    refusal(Charge(larger, (), offered), ceilings, before)


def rho(amount: object) -> Concentrated:
    """A release that alone comes to half an epsilon, at a delta that nobody draws."""
    return Concentrated(Fraction(amount), Fraction(1, 2), Fraction(1, 2))


def test_a_charge_in_rho_is_held_against_rho_and_offers_one():
    ceilings = Ceilings(Ceiling.in_rho(Fraction("0.02"), Fraction(1, 10**6), Fraction(1, 2)))
    before = Totals(Total(Spent(loss(0), Fraction("0.015"), summed=False), 3))
    words = ("DP_COUNT(*, rho=", ")")
    pass_within(Charge((rho("0.005"),), (), ""), ceilings, before)
    charge = Charge((rho("0.006"),), (), "SELECT ...", Span(0, 6), words)
    assert refusal(charge, ceilings, before).diagnostic.remedy[0] == "DP_COUNT(*, rho=0.005)"
    several = Charge((rho("0.006"), Pure(Fraction("0.02"))), (), "", Span(0, 6), words)
    offered = refusal(several, ceilings, before).diagnostic.remedy[0]
    assert offered == "DP_COUNT(*, rho=0.0048)"
    capped = replace(ceilings, query=Fraction(1, 10))
    error = refusal(Charge((rho("0.005"),), (), "", None, words), capped, Totals())
    assert error.code == "DPQ502"
    fitting = exact_number(error.diagnostic.remedy[0].split("rho=")[1].rstrip(")"))
    assert 0 < fitting <= rho_below(Fraction(1, 10), Fraction(1, 2))


def test_after_a_charge_in_rho_epsilons_no_longer_keep_a_limit():
    before = Totals(Total(Spent(loss(0), Fraction(1, 5), summed=False), 1))
    assert binding(PARTED, before).left.epsilon == 0
    assert refusal(pure("0.1"), PARTED, before).code == "DPQ501"
    pass_within(pure("0.1"), PARTED, Totals())


def test_a_limit_with_one_sum_is_as_it_was():
    """Without a delta, rho is never looked at, however small it is."""
    small = Totals(Total(Spent(loss("0.9"), Fraction(1, 10**9)), 3))
    assert refusal(pure("0.2"), limits(1), small).left == Fraction(1, 10)
    assert binding(limits(1), small).spent == loss("0.9")


@pytest.mark.parametrize(
    ("ceilings", "name"),
    [
        (limits(1, 2), "policy"),
        (limits(2, 1), "analyst"),
        (limits(2, 2), "analyst"),
        (limits(1, 2, "1.5"), "policy"),
        (limits(2, "1.5", 1), "session"),
    ],
)
def test_of_limits_that_were_lowered_the_one_passed_furthest_is_named(ceilings, name):
    """To raise another one would not help."""
    spent = Totals().plus(additive(pure("2.05").events))
    assert binding(ceilings, spent).name == name
    with pytest.raises(BudgetRefused, match=f"the {name}'s budget is 1;|'s budget is 2;"):
        require_within(pure("0.1"), additive(pure("0.1").events), ceilings, spent)
