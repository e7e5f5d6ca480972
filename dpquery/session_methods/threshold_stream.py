"""A stream of counting questions that is paid for once: until one count is above a threshold.

Sensitivity: a unit that is added or removed moves every count in one direction, by its own
weight at most, so the noise of AboveThreshold is scaled to one weight. Where it is replaced,
one count may rise and the next one fall: a weight each way. Every question has to keep the
limit of rows per unit that the first one had. Counts are compared in the units of weighted
ones, whether or not a table needs weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dpquery.budget.ledger.charge_and_receipt import Charge
from dpquery.budget.parallel_composition import EVERYBODY
from dpquery.core.privacy_loss import Neighbours, decimal_text, exact_number
from dpquery.core.source_text import Span
from dpquery.errors import Diagnostic, QueryRefused, SessionUnusable, internal, refusal
from dpquery.functions.base import WEIGHT_SCALE, Measured
from dpquery.ir.measures import CountRows
from dpquery.mechanisms import AboveThreshold
from dpquery.mechanisms.randomness import Randomness
from dpquery.plan.plan import Plan


@dataclass(slots=True)
class StreamState:
    """What is known of a stream: what it may lose, and how far it has come."""

    threshold: int
    epsilon: Fraction
    neighbours: Neighbours
    most: int | None = None
    """How many rows of one unit count, where the caller says."""
    rows: int | None = None
    """The limit of rows per unit, once it is paid for."""
    _limit: int | None = field(default=None, repr=False)
    """The noisy threshold: drawn once, compared with, and never shown."""
    _fired: bool = False

    def question(self, table: str, where: str) -> str:
        """Write one of its questions."""
        self.require_open()
        condition = f" WHERE {where}" if where else ""
        most = "" if self.most is None else f", max_rows_contributed={self.most}"
        call = f"DP_COUNT(*, eps={decimal_text(self.epsilon)}{most})"
        return f"SELECT {call} FROM {table}{condition}"  # noqa: S608 - for our own parser

    def require_open(self) -> None:
        """Refuse to go on after a count was above.

        Raises:
            SessionUnusable: DPQ802.
        """
        if self._fired:
            title = "the stream has ended: a count was above its threshold"
            why = "what it was paid for is to say which count is the first above, and it did."
            new = "stream = session.above_threshold(100, eps=0.5)", "a new one, with its price"
            raise SessionUnusable(Diagnostic("DPQ802", title, why=(why,), remedy=new))

    def charge(self, plan: Plan, count: CountRows) -> Charge:
        """Return what a question has to be charged: the whole stream, or nothing any more.

        Raises:
            PlanRefused: DPQ404 more rows of a unit would count than the noise is scaled to.
        """
        if self.rows is None:
            event = self._mechanism(count.weight.limit).event(*self._moves(count.weight.limit))
            if plan.charge.events != (event,):
                raise internal("a stream loses what its question says (I7)")
            # Later questions are of other parts, and free.
            return replace(plan.charge, touched=EVERYBODY, if_weighed=None)
        if count.weight.limit > self.rows:
            raise refusal(
                "DPQ404",
                "a unit has more rows here than in the first question of the stream",
                plan.charge.span,
                f"{count.weight.limit} rows in full, and {self.rows} before",
                "the noise of a stream is scaled once, to what one unit can add.",
                "ask tables with the larger max_rows_contributed first",
            )
        return replace(plan.charge, events=())

    def paid(self, count: CountRows) -> None:
        """Note that the stream is paid for, with noise for so many rows of a unit."""
        if self.rows is None:
            self.rows = count.weight.limit

    def answer(self, exact: Measured, count: CountRows, randomness: Randomness) -> bool:
        """Return whether the count is above the threshold; after the first that is, no more."""
        if self.rows is None or self._fired:
            raise internal("a stream is paid for before it answers, and ends when it fires")
        mechanism = self._mechanism(self.rows)
        if self._limit is None:
            self._limit = mechanism.limit(self.threshold * WEIGHT_SCALE, randomness)
        (rows,) = exact.values(count)
        weight = rows * (WEIGHT_SCALE // count.weight.scale)
        self._fired = mechanism.passes(weight, self._limit, randomness)
        return self._fired

    def _mechanism(self, rows: int) -> AboveThreshold:
        distance, rise = self._moves(rows)
        return AboveThreshold.calibrated(distance, self.epsilon, rise)

    def _moves(self, rows: int) -> tuple[int, int]:
        rise = rows * WEIGHT_SCALE
        return rise * (2 if self.neighbours is Neighbours.SUBSTITUTE else 1), rise


@dataclass(frozen=True, slots=True)
class Stream:
    """Asks how many rows there are, question by question, until one count is above."""

    threshold: int
    epsilon: Fraction
    _ask: Callable[[str, str], bool] = field(repr=False)

    def ask(self, table: str, where: str = "") -> bool:
        """Return whether a table has more rows than the threshold that meet a condition.

        The first question is charged for the whole stream; the others are free. With True the
        stream ends.

        Args:
            table: its name as a query writes it.
            where: a condition as a query writes it after WHERE; all rows where it is empty.

        Raises:
            QueryRefused: the question is not answered; the budget is unchanged.
            ScanFailed: reading broke off; the charge stays.
            SessionUnusable: DPQ802 a count was above before.
        """
        return self._ask(table, where)


def start_stream(
    threshold: int, eps: object, neighbours: Neighbours, rows: int | None = None
) -> StreamState:
    """Start a stream; nothing is charged yet.

    Raises:
        ValueError: the threshold is no natural number, epsilon no decimal above 0, or the limit
            of rows no number above 0.
    """
    if isinstance(threshold, bool) or not isinstance(threshold, int) or threshold < 0:
        raise ValueError("the threshold of a stream is a whole number of rows, such as 100")
    epsilon = exact_number(eps)
    if epsilon <= 0 or exact_number(decimal_text(epsilon).rstrip("…")) != epsilon:
        raise ValueError("the eps of a stream is a decimal above 0, such as 0.5")
    if rows is not None and (isinstance(rows, bool) or not isinstance(rows, int) or rows < 1):
        raise ValueError("max_rows_contributed of a stream is a whole number, such as 5")
    return StreamState(threshold, epsilon, neighbours, rows)


def count_of(plan: Plan, plain: Plan) -> CountRows:
    """Return the count that a question is about.

    Args:
        plan: the question's.
        plain: that of the same question without its condition.

    Raises:
        PlanRefused: DPQ404 it is about more than one count; DPQ407 a release would have to find
            how many rows of a unit count, and a stream is paid for once.
    """
    if plan.searches:
        raise not_limited(plan.charge.span)
    releases = [planned.release for frontier in plan.frontiers for planned in frontier.releases]
    alone = len(releases) == 1 and not plan.frontiers[0].scan.keys and not plan.constants
    if alone and plan.above == plain.above:
        match releases[0].measures:
            case (CountRows() as count,):
                return count
    raise refusal(
        "DPQ404",
        "a stream asks for one count at a time",
        plan.charge.span,
        "more than a table and a condition",
        "it compares the number of rows that meet a condition with its threshold.",
        "stream.ask('staff', 'age > 60')",
    )


def not_limited(span: Span | None) -> QueryRefused:
    """Refuse a stream over a table where nobody says how many rows of a unit count."""
    return refusal(
        "DPQ407",
        "how many rows of one unit count is not stated",
        span,
        "one unit may have any number",
        "the noise of a stream is scaled once, to what one unit can add.",
        "session.above_threshold(100, eps=0.5, max_rows_contributed=5)",
    )
