"""A session: the stages in order, and nothing else.

One statement runs at a time. Nothing before `charge` has seen a private row, and nothing after
it gives a charge back.
"""

from __future__ import annotations

import os
import secrets
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import pyarrow as pa

from dpquery import catalog as catalogue
from dpquery.answer import Answer
from dpquery.budget.accountant import basic
from dpquery.budget.ledger.charge import Account, FailureLimit, Limits, Receipt
from dpquery.budget.ledger.ledger import Ledger, open_ledger
from dpquery.budget.ledger.tables import AlreadyRefined
from dpquery.budget.limits import Standing, more_of
from dpquery.budget.parallel import EVERYBODY, Touched
from dpquery.builder import Query
from dpquery.cache.lookup import holder_of, repeats_of
from dpquery.cache.privacy_scope import promise_of
from dpquery.core.privacy import NO_LOSS, Ceiling, Loss, decimal_text
from dpquery.core.source import Source
from dpquery.core.types import Interval
from dpquery.engine import open_engine
from dpquery.engine.base import Engine, FaultLog, uncharged
from dpquery.engine.duckdb.postprocessor import PublicEngine
from dpquery.engine.files import require_fit, watch_of
from dpquery.errors import (
    BudgetRefused,
    Diagnostic,
    DPQueryError,
    InternalError,
    QueryRefused,
    SyntaxRefused,
    unusable,
)
from dpquery.execute import Paid, once_charged
from dpquery.finish import finish
from dpquery.mechanisms.randomness import Randomness
from dpquery.plan.auto_bounds import Kept, nothing_kept
from dpquery.plan.cuts import cut_columns, notes_of
from dpquery.plan.explain import Explanation, explain
from dpquery.plan.plan import Plan, guarantee_of, make_plan
from dpquery.policy.model import Policy
from dpquery.release import ReleasedTable
from dpquery.sql.bind.statement import bind
from dpquery.sql.commands import Describe, Explain, Show, Subject, read_aside, refreshed
from dpquery.sql.parse.literals import misfit
from dpquery.sql.parse.parser import parse
from dpquery.sql.rules import check
from dpquery.sql.suggest.queries import within_delta
from dpquery.stream import Stream, Watch, count_of, not_limited, watch

T = TypeVar("T")
E = TypeVar("E", bound=DPQueryError)


@dataclass(frozen=True, slots=True)
class Budget:
    """The binding limit: how much it is, what is spent against it, what is left."""

    limit: Loss
    spent: Loss
    left: Loss


class Session:
    """One analyst's conversation with the tables of one policy. Made by `dpquery.connect`."""

    def __init__(
        self,
        policy: Policy,
        analyst: str,
        ceiling: Loss | None,
        notes: Sequence[str] = (),
        *,
        engine: str = "duckdb",
    ) -> None:
        self._policy = policy
        self._account = Account(analyst, secrets.token_hex(8))
        self._limits = Limits(
            policy=policy.budget.ceiling,
            analyst=policy.analysts.get(analyst),
            session=None if ceiling is None else Ceiling.of(ceiling, policy.budget.share),
            query=policy.budget.max_epsilon_per_query,
            failures=_failure_limit(policy, analyst),
        )
        self._notes = tuple(notes)
        self._lock = threading.RLock()
        self._process: int | None = os.getpid()
        self._log = FaultLog(policy.ledger.faults, own=not policy.published)
        require_fit(policy, self._log)
        self._public = PublicEngine(policy)
        self._ledger: Ledger = open_ledger(policy.ledger, promise_of(policy))
        watch = watch_of(policy, self._ledger)
        self._engine: Engine = open_engine(
            engine, policy, self._log, self._public, self._ledger.secret, watch
        )
        self._randomness = Randomness()

    def sql(self, text: str, *, refresh: bool = False) -> Answer:
        """Answer one statement.

        Args:
            text: one SELECT; or EXPLAIN, SHOW or DESCRIBE, which cost nothing.
            refresh: ask anew and pay, even where an earlier answer could be repeated free.

        Raises:
            QueryRefused: the query is not answered; the budget is unchanged.
            ScanFailed: reading broke off; the charge stays.
        """
        with self._usable():
            source = self._source(text)
            aside = self._uncharged(source, partial(self._aside, source))
            if aside is not None:
                return self._free(aside)
            while True:
                plan, released = self._asked(source, anew=refresh)
                if released is not None:
                    return self._repeated(plan, released)
                try:
                    return self._paid(plan, partial(self._answer, plan))
                except AlreadyRefined:  # by another session, and nothing was charged here
                    continue

    def _asked(
        self, source: Source, *, anew: bool = False
    ) -> tuple[Plan, list[ReleasedTable] | None]:
        """Return the plan of a query, and what was drawn for it, if all of it was before."""

        def ask() -> tuple[Plan, list[ReleasedTable] | None]:
            query = refreshed(source)
            if anew or query is not None:
                return replace(self._plan(query or source, nothing_kept), anew=True), None
            repeats = repeats_of(self._policy, self._ledger, self._account, self._public)
            plan, again = self._plan(source), partial(self._plan, source, nothing_kept)
            return repeats.asked(plan, again)

        return self._uncharged(source, ask)

    def _paid(self, plan: Plan, answer: Callable[[Receipt], T]) -> T:
        """Charge, then answer."""
        return once_charged(
            self._log,
            partial(self._charge, plan),
            answer,
            self._ended,
            lambda: f"{basic(plan.charge.events)} spent; {self._left()}",
        )

    def _repeated(self, plan: Plan, released: list[ReleasedTable]) -> Answer:
        """Answer from what was drawn before: free, but it counts if it fails."""
        free = replace(plan, charge=replace(plan.charge, events=(), scans=()))
        return self._paid(free, lambda _: self._finished(plan, released, NO_LOSS))

    def _answer(self, plan: Plan, receipt: Receipt) -> Answer:
        """Read, draw and finish: what a charge has paid for."""
        holder = holder_of(self._policy, self._account, self._ledger.orders())
        work = Paid(
            self._engine,
            self._public,
            self._randomness,
            self._policy,
            keep=lambda key, found: self._ledger.keep(receipt, self._account, key, found),
            store=lambda *drawn: self._ledger.store(receipt, holder, *drawn),
        )
        plan, released = work.released(plan, receipt)
        return self._finished(plan, released, basic(plan.charge.events))

    def _finished(self, plan: Plan, released: list[ReleasedTable], loss: Loss) -> Answer:
        table, cells = finish(plan.above, released, self._public)
        noted = (note for one in released for note in one.notes)
        notes = (*self._notes, *notes_of(plan), *noted)
        guarantee = guarantee_of(plan, self._policy) if plan.charge.scans else None
        cut = cut_columns(plan, plan.above)
        return Answer(table, loss, cells, self._balance(), notes, guarantee, cut)

    def table(self, name: str) -> Query:
        """Begin a query over a table, built by methods; nothing is asked before it is run.

        Raises:
            NameRefused: DPQ201 the policy has no such table, DPQ805 the name is no text.
        """
        with self._usable():
            _require_name(name, "session.table('staff')")
            if not any(name in table.written for table in self._policy.tables.values()):
                catalogue.find_table(self._policy, name)
            return Query(self, name)

    def above_threshold(
        self, threshold: int, eps: object, max_rows_contributed: int | None = None
    ) -> Stream:
        """Start a stream of counting questions; its first question is charged for all of them.

        Args:
            threshold: a number of rows.
            eps: what the whole stream may lose.
            max_rows_contributed: how many rows of one unit count, if the policy does not say.

        Raises:
            ValueError: the threshold is no natural number, epsilon no decimal above 0, or the
                limit of rows no whole number above 0.
        """
        with self._usable():
            watched = watch(threshold, eps, self._policy.neighbours, max_rows_contributed)
        return Stream(
            threshold,
            watched.epsilon,
            lambda table, where: self._watched(watched, table, where),
        )

    def _watched(self, watched: Watch, table: str, where: str) -> bool:
        with self._usable():
            source = self._source(watched.question(table, where))
            try:
                plan = self._plan(source)
            except QueryRefused as refusal:
                if refusal.code != "DPQ407":
                    raise
                raise self._told(not_limited(refusal.span), source) from None
            plain = self._plan(self._source(watched.question(table, "")))
            try:
                count = count_of(plan, plain)
                charge = watched.charge(plan, count)
            except QueryRefused as refusal:
                raise self._told(refusal, source) from None

            def answer(receipt: Receipt) -> bool:
                watched.paid(count)
                with self._engine.open(charge.scans[0], receipt, 0) as exact:
                    above = watched.answer(exact, count, self._randomness)
                self._ledger.close_attempt(receipt, "answered")
                return above

            return self._paid(replace(plan, charge=charge), answer)

    def explain(self, text: str) -> Explanation:
        """Return what a query would lose and how it would be answered; costs nothing."""
        with self._usable():
            return self._explain(self._source(text))

    @property
    def budget(self) -> Budget:
        """The binding limit among policy, analyst and session."""
        with self._usable():
            standing = self._standing()
            return Budget(standing.limit, standing.spent, standing.left)

    def ledger(self) -> Answer:
        """Return this analyst's charges, oldest first."""
        with self._usable():
            return self._free(self._charges())

    def losses(self, text: str | None = None) -> Answer:
        """Return what this analyst's charges have lost: in sum, as rho, and by their laws.

        Only the first two are held against limits: the third is for questions fixed beforehand,
        as those of one statement are. Of a query, it is what that would lose by itself.

        Raises:
            QueryRefused: the text is not a query that could be asked.
        """
        with self._usable():
            name = self._account.analyst
            limits = self._ledger.orders().raised(self._limits, name)
            if text is None:
                charges = [entry.events for entry in self._ledger.entries(name)]
            else:
                source = self._source(text)
                plan = self._plan(refreshed(source) or source, nothing_kept)
                name, charges = "this query", [plan.charge.events] if plan.charge.events else []
            return self._free(catalogue.losses(name, charges, limits.analyst or limits.policy))

    def tables(self) -> Answer:
        """Return the tables of the policy."""
        with self._usable():
            return self._free(catalogue.tables(self._policy))

    def describe(self, name: str) -> Answer:
        """Return a table's columns, from the policy alone.

        Raises:
            NameRefused: DPQ201, DPQ805 as `table`.
        """
        with self._usable():
            _require_name(name, "session.describe('staff')")
            return self._free(catalogue.columns(catalogue.find_table(self._policy, name)))

    def require_usable(self) -> None:
        """Do nothing, in a session that can be asked.

        Raises:
            SessionUnusable: DPQ801 it is closed, or belongs to another process.
        """
        if self._process != os.getpid():
            raise unusable(closed=self._process is None)

    def close(self) -> None:
        """End the session; closing twice is fine, and answers outlive it."""
        if self._process != os.getpid():
            return
        with self._lock:
            self._process = None
            self._engine.close()
            self._public.close()
            self._ledger.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _source(self, text: str) -> Source:
        if isinstance(text, str):
            return Source(text)
        title = f"a statement is a text, not {type(text).__name__}"
        nothing = Diagnostic("DPQ104", title, remedy=("session.sql('SHOW TABLES')",))
        raise self._told(SyntaxRefused(nothing), Source(""))

    def _aside(self, source: Source) -> pa.Table | None:
        """Answer EXPLAIN, SHOW and DESCRIBE, which ask no data; None for anything else."""
        match read_aside(source):
            case Explain(query):
                return catalogue.lines("explanation", str(self._explain(query)))
            case Describe(name, span):
                return catalogue.columns(catalogue.find_table(self._policy, name, span))
            case Show(Subject.TABLES):
                return catalogue.tables(self._policy)
            case Show(Subject.LEDGER):
                return self._charges()
            case Show(Subject.BUDGET):
                return catalogue.budget(self._policy, self._standing, self._failures())
            case Show(Subject.FUNCTIONS):
                return catalogue.functions()
        return None

    def _explain(self, source: Source) -> Explanation:
        plan, released = self._asked(source)

        def said() -> Explanation:
            scans = [self._engine.describe(frontier.scan) for frontier in plan.frontiers]
            standing, failed = self._standing(plan.charge.touched), self._failures()
            answered = released is not None
            return explain(
                plan, self._policy, scans, standing, answered=answered, failed=failed
            )

        return self._uncharged(source, said)

    def _plan(self, source: Source, kept: Kept | None = None) -> Plan:
        """Take a text through the stages that look at no data, and read its SQL back."""

        def stages() -> Plan:
            parsed = parse(source)
            bound = bind(parsed, self._policy, self._public)
            checked = check(bound, self._policy)
            plan = make_plan(checked, self._policy, self._public, kept or self._kept)
            for scan in plan.charge.scans:
                self._engine.rehearse(scan)
            return plan

        return self._uncharged(source, stages)

    def _uncharged(self, source: Source, think: Callable[[], T]) -> T:
        """Return what is computed before a charge, or raise in words, with the balance."""
        try:
            return uncharged(self._log, source, think)
        except (QueryRefused, InternalError) as fault:
            raise self._told(fault, source) from None

    def _kept(self, key: str) -> Interval | None:
        return self._ledger.bounds(self._account, key)

    def _charge(self, plan: Plan) -> Receipt:
        try:
            return self._ledger.charge(plan.charge, self._limits, self._account)
        except QueryRefused as refusal:
            raise self._told(refusal, plan.source) from None

    def _ended(self, receipt: Receipt, failed: bool) -> tuple[str, ...]:
        """Have the ledger know how a statement ended without an answer, and tell of it.

        Where that cannot be written, the attempt stays open, and counts when its time is over.
        """
        most = self._policy.limits.max_failures
        try:
            if not failed:
                self._ledger.close_attempt(receipt, "stopped")
                return ()
            number = self._ledger.fail(receipt, self._account.analyst, most)
            counted = f"failures are counted: this is number {number} of"
        except Exception:  # noqa: BLE001 - whatever it is, the attempt stays open and counts
            number, counted = 0, "failures are counted, and there may be"
        then = "" if number >= most else "then "
        if self._policy.published:
            until = "until the data owner thaws the budget."
        elif self._policy.ledger.path or self._policy.ledger.server:
            until = "until you thaw the ledger."
        else:
            until = "in this session."
        return (
            f"{counted} {most} within 24 hours;",
            f"{then}nothing more is read for you {until}",
        )

    def _left(self) -> str:
        """Return what is left after a fault, even where the ledger cannot be read either."""
        kept = "(a charge is never returned once reading has begun)"
        try:
            return f"{self._balance()} {kept}"
        except DPQueryError:
            return kept

    def _told(self, refusal: E, source: Source) -> E:
        """Add to a refusal the text it points into, and the balance."""
        refusal.source = source
        if isinstance(refusal, QueryRefused) and not isinstance(refusal, BudgetRefused):
            refusal.diagnostic = self._affordable(refusal.diagnostic)
        if not self._policy.published:
            refusal.diagnostic = refusal.diagnostic.for_own_files()
        refusal.budget = f"unchanged; {self._balance()}"
        return refusal

    def _affordable(self, diagnostic: Diagnostic) -> Diagnostic:
        """Leave out what needs a delta that no limit has."""
        limits = self._ledger.orders().raised(self._limits, self._account.analyst)
        ceilings = {
            "policy": limits.policy,
            "analyst": limits.analyst or limits.policy,
            "session": limits.session or limits.policy,
        }
        name = min(ceilings, key=lambda name: ceilings[name].drawn)
        return within_delta(diagnostic, ceilings[name].drawn, more_of(name, "delta"))

    def _charges(self) -> pa.Table:
        entries = self._ledger.entries(self._account.analyst)
        return catalogue.charges(entries, self._policy)

    def _standing(self, touched: Touched | None = EVERYBODY) -> Standing:
        return self._ledger.standing(self._limits, self._account, touched)

    def _failures(self) -> int:
        return self._ledger.failures(self._account.analyst)

    def _balance(self) -> str:
        standing = self._standing()
        left, limit = standing.left.epsilon, standing.limit.epsilon
        return f"{decimal_text(left)} of {decimal_text(limit)} left"

    def _free(self, table: pa.Table) -> Answer:
        return Answer(table, NO_LOSS, (), self._balance(), ())

    @contextmanager
    def _usable(self) -> Iterator[None]:
        self.require_usable()  # before the lock: over a fork, it may be held for ever
        with self._lock:
            self.require_usable()
            yield


def _failure_limit(policy: Policy, analyst: str) -> FailureLimit:
    """Return how many statements may fail, and what the data owner does then."""
    place = policy.ledger.server.url if policy.ledger.server else policy.ledger.path
    named = policy.name if policy.published else place
    if named is None:
        remedy = ("session = dpquery.connect(...)", "failures are counted in memory here")
    else:
        whose = f" --analyst {shlex.quote(analyst)}" if policy.analysts else ""
        thaw = f"dpquery ledger thaw {shlex.quote(str(named))}{whose}"
        remedy = (thaw, "for the data owner, who finds the causes in the log of faults")
    return FailureLimit(policy.limits.max_failures, policy.limits.seconds, remedy)


def _require_name(name: object, remedy: str) -> None:
    if not isinstance(name, str):
        title = f"a table is named by a text, not {type(name).__name__}"
        raise misfit(title, remedy, why="names are as in SQL.")
