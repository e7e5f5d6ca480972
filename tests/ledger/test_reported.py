"""The three accountants side by side, against dp-accounting and against exact laws."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from dpquery.budget.accountant import additive
from dpquery.budget.ledger.report import reported
from dpquery.core.privacy_events import (
    Approximate,
    BoundedRange,
    Composed,
    Gaussian,
    Pure,
    Refined,
)
from dpquery.core.privacy_loss import HALF, Ceiling, Loss
from dpquery.core.zcdp import epsilon_above
from dpquery.mechanisms import DiscreteLaplace

TENTH, MILLIONTH = Fraction(1, 10), Fraction(1, 10**6)
COUNTS = [DiscreteLaplace.calibrated(1, TENTH).event(1)] * 100
LIMIT = Ceiling.of(Loss(Fraction(5), 2 * MILLIONTH), HALF)
"""It keeps a millionth for conversion."""


def test_rho_of_a_hundred_counts_agrees_with_dp_accounting():
    """Their search stops at an order near the best one: ours may be below by a little."""
    from dp_accounting import ZCDpEvent
    from dp_accounting.rdp import RdpAccountant

    theirs = RdpAccountant()
    for event in COUNTS:
        theirs.compose(ZCDpEvent(float(additive([event]).rho)))
    epsilon = float(epsilon_above(additive(COUNTS).rho, MILLIONTH))
    assert epsilon <= theirs.get_epsilon(float(MILLIONTH)) < epsilon + 1e-4


def convolved(number: int) -> dict[int, Decimal]:
    """The law of the loss, in tenths, of so many counts of one person more, in 60 digits.

    The noise k of one count has the probability (1 - q) / (1 + q) q^|k|; a count that is one
    higher has it from k - 1, so that the ratio is q for k from 1, and 1 / q up to 0.
    """
    q = (Decimal(-1) / 10).exp()
    chances = [(1 - q) / (1 + q) * q**k for k in range(1400)]
    above = sum(chances[1:])
    law = {0: Decimal(1)}
    for _ in range(number):
        after: dict[int, Decimal] = {}
        for loss, chance in law.items():
            for move, part in ((1, chances[0] + above), (-1, above)):
                after[loss + move] = after.get(loss + move, Decimal(0)) + chance * part
        law = after
    return law


def test_the_distribution_of_a_hundred_counts_is_their_exact_convolution():
    with localcontext(prec=60):
        law = convolved(100)
        assert abs(sum(law.values()) - 1) < Decimal("1e-50")

        def delta(epsilon: Decimal) -> Decimal:
            beyond = ((p, epsilon - Decimal(loss) / 10) for loss, p in law.items())
            return sum((p * (1 - gap.exp()) for p, gap in beyond if gap < 0), Decimal(0))

        low, high = Decimal(0), Decimal(10)
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if delta(middle) > Decimal("1e-6") else (low, middle)
    found = reported(COUNTS, LIMIT)
    assert 0 <= float(found.distributed) - float(high) < 1e-4
    assert found.distributed < found.concentrated < found.summed.epsilon == 10


def test_no_number_is_below_what_the_others_prove():
    """One release has exactly its epsilon; ten are below their sum by their distribution."""
    one = reported([Pure(TENTH)], LIMIT)
    assert TENTH - 10 * MILLIONTH <= one.distributed <= one.summed.epsilon == TENTH
    for events in ([Pure(TENTH)] * 10, [BoundedRange(TENTH), Composed((Pure(TENTH),) * 9)]):
        found = reported(events, LIMIT)
        assert found.distributed <= found.summed.epsilon == 1


def test_deltas_of_releases_are_in_the_delta_that_is_spoken_of():
    events = [Gaussian(TENTH**2, HALF, MILLIONTH), Approximate(TENTH, MILLIONTH / 2)]
    found = reported(events, LIMIT)
    assert found.summed == Loss(Fraction(6, 10), MILLIONTH * 3 / 2)
    assert found.delta == MILLIONTH * 5 / 2
    assert 0 < found.distributed <= found.summed.epsilon


def test_what_refines_an_earlier_release_stands_for_both():
    pair, later = [Pure(TENTH), Refined(TENTH, 3 * TENTH)], [Pure(3 * TENTH)]
    chain = [Refined(3 * TENTH, 5 * TENTH), Pure(TENTH)]
    assert reported(pair, LIMIT).summed == reported(later, LIMIT).summed
    assert reported([*pair, *COUNTS], LIMIT).distributed == (
        reported([*later, *COUNTS], LIMIT).distributed
    )
    assert reported([*pair, *chain], LIMIT).distributed == (
        reported([Pure(5 * TENTH), Pure(TENTH)], LIMIT).distributed
    )
    assert reported(pair, LIMIT).concentrated > reported(later, LIMIT).concentrated


def test_without_a_delta_epsilons_add_up_and_nothing_else_is_said():
    found = reported(COUNTS, Ceiling(Loss(Fraction(20))))
    assert (found.concentrated, found.distributed) == (None, None)
    assert found.summed.epsilon == 10


@pytest.mark.parametrize("epsilon", ["1e-9", "400", "1e9"])
def test_extreme_claims_take_no_memory_and_give_a_bound(epsilon):
    found = reported([Pure(Fraction(epsilon))] * 3, LIMIT)
    assert found.distributed <= 3 * Fraction(epsilon)
    assert reported([], LIMIT).distributed == 0


def test_deciding_loads_no_dp_accounting():
    loaded = "import sys, dpquery.budget.ledger.ledger, dpquery.budget.ledger.report"
    code = f"{loaded}; print('dp_accounting' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
