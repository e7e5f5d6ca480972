"""What a charge has paid for: each scan is read and drawn from, in the order of the plan.

What an earlier release says is put into what is read later: bounds that were searched for,
groups that were found, and values that rows are compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from dpquery.budget.ledger.charge import Receipt
from dpquery.budget.ledger.tables import Refinable
from dpquery.cache.codec import Keys, written
from dpquery.core.types import Interval
from dpquery.engine.base import Engine, FaultLog, guarded
from dpquery.engine.duckdb.postprocessor import PublicEngine
from dpquery.errors import DPQueryError
from dpquery.finish import ready
from dpquery.ir.expr import Scalar
from dpquery.mechanisms.randomness import Randomness
from dpquery.plan.plan import Plan, with_bounds
from dpquery.policy.model import Policy
from dpquery.release import ReleasedTable, find_bounds, release

MOST_KEPT = 256 * 1024
"""Characters of released values that one charge adds to a ledger."""
_TOO_LONG = "this answer is too long to be kept: asked again, it is charged again"
T = TypeVar("T")
E = TypeVar("E", bound=BaseException)


def once_charged(
    log: FaultLog,
    charge: Callable[[], Receipt],
    answer: Callable[[Receipt], T],
    ended: Callable[[Receipt, bool], tuple[str, ...]],
    spent: Callable[[], str],
) -> T:
    """Charge, then answer; whatever goes wrong after the charge says that it stays.

    The frames below hold exact integers, so nobody who walks a traceback may see them, be it of
    a fault, of a lack of memory, or of what a signal raises. A context manager could not take
    them off: Python puts them back when it ends.

    Args:
        log: where the owner reads what went wrong.
        charge: makes the charge durable.
        answer: reads, and draws.
        ended: counts a failure, or notes that there was none, and says what is to be said.
        spent: says what is spent by then, and what is left.
    """
    receipt: Receipt | None = None
    try:
        receipt = charge()  # nothing above this line has seen a private row
        return guarded(log, partial(answer, receipt))
    except DPQueryError as fault:
        if receipt is None:
            raise
        _bare(fault)  # first of all: what goes wrong from here on would have it as its context
        told = ended(receipt, True)
        fault.diagnostic = replace(fault.diagnostic, why=(*fault.diagnostic.why, *told))
        fault.budget = spent()
        raise fault.with_traceback(None)  # noqa: B904 - the fault itself
    except KeyboardInterrupt as stop:
        # A charge that was being written may stand or not.
        unknown = "stopped while charging; SHOW LEDGER says whether it was spent"
        _bare(stop)
        if receipt is not None:  # they chose the moment: it tells them how long, and no more
            ended(receipt, False)
        stop.args = (unknown if receipt is None else f"stopped; {spent()}",)
        raise stop.with_traceback(None)  # noqa: B904 - the same
    except BaseException as stop:
        if receipt is None:
            raise
        _bare(stop)
        ended(receipt, True)
        raise stop.with_traceback(None)  # noqa: B904 - the same


def _bare(error: E) -> E:
    """Take the frames off an error, and all that it came from."""
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)


@dataclass(frozen=True, slots=True)
class Paid:
    """What reading and drawing need; made for one statement."""

    engine: Engine
    public: PublicEngine
    randomness: Randomness
    policy: Policy
    keep: Callable[[str, Interval], None]
    """Keeps bounds that were found, under their key."""
    store: Callable[[Mapping[str, str], Sequence[Refinable]], None]
    """Stores what was drawn, under its keys, to be given again free, and to be refined."""

    def released(self, plan: Plan, receipt: Receipt) -> tuple[Plan, list[ReleasedTable]]:
        """Return every table of a plan, and the plan with the bounds that were found for it.

        All that was drawn is stored by then, if it is not too long: a ledger would else grow by
        megabytes for next to nothing. Either way the attempt has ended.
        """
        keys, drawn = Keys(self.policy, receipt.version, self.public.digest), dict[str, str]()
        plan, refinable = self._bounded(plan, receipt, keys, drawn), list[Refinable]()
        found: list[ReleasedTable] = []
        values: dict[int, Scalar | None] = {}
        for number, frontier in enumerate(plan.frontiers):
            scan = ready(plan, frontier.scan, found, values, self.public)
            with self.engine.open(scan, receipt, number) as exact:
                table = release(plan, number, scan.keys, exact, receipt, self.randomness)
            for one, column in zip(frontier.releases, table.columns, strict=True):
                text, rate = written(column.cells), keys.rate(scan, one.release)
                drawn[keys.of(scan, one.release, values)] = text
                if rate is not None:
                    question = keys.question(scan, one.release, values)
                    read = {place: receipt.read[place] for place in keys.places(scan)}
                    refinable.append(Refinable(question, rate, text, read, plan.anew))
            found.append(table)
        if sum(map(len, drawn.values())) > MOST_KEPT:  # of what is released by now
            plan, drawn, refinable = replace(plan, notes=(*plan.notes, _TOO_LONG)), {}, []
        self.store(drawn, refinable)
        return plan, found

    def _bounded(self, plan: Plan, receipt: Receipt, keys: Keys, drawn: dict[str, str]) -> Plan:
        """Find the bounds that calls have none of, and keep them before they are used."""
        if not plan.searches:
            return plan
        found: list[Interval | None] = []
        for number, search in enumerate(plan.searches, start=len(plan.frontiers)):
            with self.engine.open(search.scan, receipt, number) as exact:
                cell = find_bounds(plan, number, exact, receipt, self.randomness)
            if cell.value is not None:
                self.keep(search.key, cell.value)
            found.append(cell.value)
            drawn[keys.of(search.scan, search.release)] = written([cell])
        return with_bounds(plan, found, self.policy)
