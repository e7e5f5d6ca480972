"""Whether a charge fits under every limit, by charge, limits and totals alone (I6)."""

from __future__ import annotations

from dpquery.budget.accountant import Spent
from dpquery.budget.ledger.charge_and_receipt import Ceilings, Charge
from dpquery.budget.ledger.record import Totals
from dpquery.budget.limits import all_standings, least_left
from dpquery.budget.parallel_composition import EITHER, Counting
from dpquery.budget.refusals import Request


def require_within(
    charge: Charge,
    asked: Spent,
    ceilings: Ceilings,
    totals: Totals,
    counting: Counting = EITHER,
) -> None:
    """Pass a charge that keeps every limit, given what its events add up to.

    Raises:
        BudgetRefused: DPQ502 above the limit of one query, DPQ501 above what is left of
            epsilon, DPQ503 above what is left of delta.
    """
    if not charge.events:
        return
    standings = all_standings(ceilings, totals, counting, charge.touched)
    alone = counting.counted_on(charge.touched) is not None
    request = Request(charge, standings, ceilings.query, alone)
    if ceilings.query is not None and request.asked > ceilings.query:
        raise request.above_one_query(ceilings.query)
    passed = [standing for standing in standings if not standing.admits(asked)]
    if passed:
        less = charge.if_weighed
        weighed = all_standings(ceilings, totals, counting, less) if less else []
        fits = less if all(one.admits(asked) for one in weighed) else None
        raise request.above_epsilon(least_left(passed), fits)
    if drawn := asked.loss.delta:
        deltas = min(
            standings, key=lambda one: (one.left_of_delta, one.ceiling.drawn - one.spent.delta)
        )
        if drawn > deltas.left_of_delta:
            raise request.above_delta(deltas, drawn)
