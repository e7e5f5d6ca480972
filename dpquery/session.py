"""A session: the stages of a query in order, and what else an analyst can ask.

One statement runs at a time. Nothing before the charge has seen a private row, and nothing
after it gives a charge back.
"""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa

from dpquery.answer import Answer
from dpquery.budget.accountant import basic
from dpquery.budget.ledger.charge_and_receipt import (
    Account,
    Ceilings,
    Charge,
    FailureLimit,
    Receipt,
)
from dpquery.budget.ledger.earlier_releases import AlreadyRefined
from dpquery.budget.statement_budget import Prices
from dpquery.cache.lookup import Cache, Lookup
from dpquery.core import html
from dpquery.core.interrupts import heard
from dpquery.core.privacy_loss import NO_LOSS, Ceiling, Loss
from dpquery.core.source_text import Source, Span
from dpquery.database import Database
from dpquery.engine.base import uncharged
from dpquery.errors import InternalError, QueryRefused
from dpquery.execute import Charged, Payer, execute
from dpquery.finish import finish, schema_of
from dpquery.ir.measures import CountRows
from dpquery.plan.answer_notes import cut_columns, notes_of
from dpquery.plan.explain import Explanation, explain
from dpquery.plan.plan import Plan, guarantee_of, make_plan
from dpquery.policy.model import Policy
from dpquery.release import ReleasedTable
from dpquery.session_base import Usable
from dpquery.session_methods import tables_and_charges as catalogue
from dpquery.session_methods.builder import Query
from dpquery.session_methods.forecast import Asked, Forecast, Questions, forecast, share_out
from dpquery.session_methods.threshold_stream import (
    Stream,
    StreamState,
    count_of,
    not_limited,
    start_stream,
)
from dpquery.sql.bigquery import respelled
from dpquery.sql.bind.from_clause import Derived
from dpquery.sql.binder import bind, bind_view
from dpquery.sql.commands import (
    Aside,
    Create,
    Describe,
    Drop,
    Explain,
    Set,
    Show,
    Subject,
    read_aside,
    refreshed,
)
from dpquery.sql.parse.literals import no_statement, require_name
from dpquery.sql.parse.parser import parse
from dpquery.sql.postprocess.from_clause import Open
from dpquery.sql.privacy_rules import check
from dpquery.sql.suggest.dialects import with_accepted_queries
from dpquery.sql.suggest.sample_queries import query_of_policy
from dpquery.sql.summarize import Summary, read_summary
from dpquery.sql.views import View, Views, reading


@dataclass(frozen=True, slots=True)
class Budget:
    """The binding limit: how much it is, what is spent against it, what is left."""

    limit: Loss
    spent: Loss
    left: Loss
    left_as_epsilon: Fraction = Fraction(0)
    """What epsilons may still add up to; nothing where they are not added up."""
    left_as_rho: Fraction = Fraction(0)
    """What rho may still add up to; nothing where it is not counted."""

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        spent = f"{self.spent} of {self.limit}"
        bar = html.meter(
            float(self.spent.epsilon / (self.limit.epsilon or 1)), f"{spent} spent"
        )
        return html.facts("budget", {"spent": spent, "left": self.left}, bar)


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a session has of its own: with it, another process can go on."""

    session: str
    """The name of the session in the ledger."""
    chosen: tuple[tuple[str, Fraction], ...] = ()
    """What it said that each statement may spend."""
    views: tuple[View, ...] = ()


class Session(Usable):
    """One analyst's conversation with the tables of one policy. Made by `dpquery.connect`."""

    def __init__(
        self,
        database: Database,
        analyst: str,
        ceiling: Loss | None,
        notes: Sequence[str] = (),
        *,
        lent: bool = False,
        earlier: Conversation | None = None,
    ) -> None:
        """Begin a session, or go on with an earlier one.

        Args:
            database: what is asked.
            analyst: who asks.
            ceiling: what the session may spend; as much as the analyst may without it.
            notes: what each answer says beside its own notes.
            lent: whether the database is there for others when this ends.
            earlier: what a session of another process came to.
        """
        super().__init__(database.lock)
        self._database, self._lent = database, lent
        self._policy = policy = database.policy
        self._account = Account(analyst, earlier.session if earlier else secrets.token_hex(8))
        limits = Ceilings(
            policy=policy.budget.ceiling,
            analyst=policy.analysts.get(analyst),
            session=None if ceiling is None else Ceiling.of(ceiling, policy.budget.share),
            query=policy.budget.max_epsilon_per_query,
            failures=_failure_limit(policy, analyst, served=lent),
        )
        self._notes = tuple(notes)
        owner = {"eps": policy.price.epsilon, "delta": policy.price.delta}
        self._prices = Prices(owner, limits.session or limits.analyst or limits.policy)
        self._log, self._public = database.log, database.public
        self._ledger, self._engine = database.ledger, database.engine
        self._randomness = database.randomness
        self._cache = Cache(policy, self._ledger, self._account, self._public)
        self._payer = Payer(policy, self._ledger, self._account, limits, self._log)
        self._paid: Charge | None = None
        """What the statement that runs was charged, once it was."""
        self._views = Views(policy, earlier.views if earlier else ())
        self._prices.chosen |= dict(earlier.chosen if earlier else ())

    def sql(
        self,
        text: str,
        *,
        refresh: bool = False,
        eps: object = None,
        delta: object = None,
    ) -> Answer:
        """Answer one statement.

        Args:
            text: one SELECT; or EXPLAIN, SHOW, DESCRIBE, CREATE TEMP VIEW or DROP VIEW, which
                cost nothing.
            refresh: ask anew and pay, even where an earlier answer could be repeated free.
            eps: what the statement may spend on aggregates that state no eps of their own;
                with it plain aggregates, as AVG(salary), mean their DP_ counterparts.
            delta: what it may spend on finding groups that are not public.

        Raises:
            QueryRefused: the query is not answered; the budget is unchanged.
            ScanFailed: reading broke off; the charge stays.
        """
        with self._usable():
            source = self._source(text)
            with self._uncharged(source):
                price = self._prices.price(eps, delta)
                command = read_aside(source)
                if command is not None:
                    return self._free(self._shown(command, price))
                query = refreshed(source)
                self._engine.prepare()
                plan = self._plan(query or source, price)  # parse, bind, check, plan
            source = source if plan.source is query else plan.source
            while True:
                with self._uncharged(source):
                    lookup = self._look_up(plan, anew=refresh or query is not None)
                try:
                    with self._charged(lookup.charge, source) as receipt:
                        self._paid = lookup.charge
                        # Nothing above this line has seen a private row.
                        plan, tables = execute(lookup, receipt, self._engine, self._randomness)
                        return self._finish(plan, tables, lookup.charge)
                except AlreadyRefined:  # by another session, and nothing was charged here
                    continue

    def _plan(self, source: Source, price: Loss | None = None) -> Plan:
        """Take a query through the stages that look at nothing but the policy.

        What a refusal offers goes through them too, so that it is accepted when it is pasted.
        """
        summary = read_summary(source)
        if summary is not None:
            return self._summary(summary, price)
        clause, given = respelled(source), {}
        if clause is not None:
            price = self._prices.of_clause(clause.stated, price)
            clause.require_unit(self._policy)
            source, given = clause.source, clause.given
        try:
            plan = self._planned(source, price, given)
        except QueryRefused as refused:
            if clause is not None:
                refused.source = refused.source or source
            refused.diagnostic = with_accepted_queries(
                refused.diagnostic,
                lambda offered: self._planned(offered, price, given),
                query_of_policy(self._policy),
            )
            raise
        if clause is not None:
            clause.require_taken(one.call for part in plan.frontiers for one in part.releases)
        return plan

    def _summary(self, summary: Summary, price: Loss | None) -> Plan:
        """Plan the query that a summary of rows means."""
        summary.require_price(known=price is not None)
        try:
            rows = self._view(summary.reading, price)
            plan = self._plan(summary.written(rows), price)
        except QueryRefused as refused:
            raise summary.told(refused) from None
        calls = sum(len(frontier.releases) for frontier in plan.frontiers)
        return plan.with_(note=f"one ε is shared by {calls} aggregates: EXPLAIN shows each")

    def _planned(self, source: Source, price: Loss | None, given: Mapping[str, int]) -> Plan:
        with self._views.spliced(parse(source)) as parsed:
            bound = bind(parsed, self._policy, self._public, price, given)
            checked = check(bound, self._policy)
            return make_plan(checked, self._policy, self._public)

    def _look_up(self, plan: Plan, *, anew: bool = False) -> Lookup:
        """Find what was released before: the first that reads the ledger.

        What would be read is rehearsed, so that a mistake of ours costs nothing.
        """
        lookup = self._cache.look_up(plan, anew=anew)
        for scan in lookup.charge.scans:
            self._engine.rehearse(scan)
        return lookup

    def _finish(self, plan: Plan, tables: Sequence[ReleasedTable], paid: Charge) -> Answer:
        """Make the answer of released tables."""
        table, cells = finish(plan.above, tables, self._public)
        return Answer(
            table,
            basic(paid.events),
            cells,
            self._payer.balance(),
            (*self._notes, *notes_of(plan), *(note for one in tables for note in one.notes)),
            guarantee_of(plan, self._policy) if plan.charge.scans else None,
            cut_columns(plan, plan.above),
        )

    def table(self, name: str) -> Query:
        """Begin a query over a table or a view; nothing is asked before it is run.

        Raises:
            NameRefused: DPQ201 there is no such table or view, DPQ805 the name is no text.
        """
        with self._usable():
            require_name(name, "session.table('staff')")
            written = any(name in table.written for table in self._policy.tables.values())
            if not written and name not in self._views:
                catalogue.find_table(self._policy, name, views=self._views)
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
            state = start_stream(threshold, eps, self._policy.neighbours, max_rows_contributed)
        return Stream(
            threshold,
            state.epsilon,
            lambda table, where: self._watched(state, table, where),
        )

    def _watched(self, state: StreamState, table: str, where: str) -> bool:
        with self._usable():
            source = self._source(state.question(table, where))
            with self._uncharged(source):
                plan = self._watch_plan(source)
            with self._uncharged(plan.source):
                plain = self._watch_plan(Source(state.question(table, "")))
                count = count_of(plan, plain)
                charge = state.charge(plan, count)
            with self._charged(charge, plan.source) as receipt:
                self._paid = charge
                return self._compared(state, count, receipt)

    def _watch_plan(self, source: Source) -> Plan:
        """Return the plan of one question of a stream."""
        try:
            plan = self._cache.bounded(self._plan(source))
        except QueryRefused as refusal:
            if refusal.code != "DPQ407":
                raise
            raise not_limited(refusal.span) from None
        for scan in plan.charge.scans:
            self._engine.rehearse(scan)
        return plan

    def _compared(self, state: StreamState, count: CountRows, receipt: Receipt) -> bool:
        """Return whether a count is above the threshold."""
        state.paid(count)
        with self._engine.open(receipt.charge.scans[0], receipt, 0) as exact:
            above = state.answer(exact, count, self._randomness)
        self._ledger.close_attempt(receipt, "answered")
        return above

    def explain(self, text: str, *, eps: object = None, delta: object = None) -> Explanation:
        """Return what a query would lose and how it would be answered; costs nothing."""
        with self._usable():
            source = self._source(text)
            with self._uncharged(source):
                return self._explain(source, self._prices.price(eps, delta))

    def plan(self, questions: Asked, epsilon: object, delta: object = None) -> Questions:
        """Share one epsilon out over questions that state none; `run` of it asks them.

        Args:
            questions: texts; or each with its weight, as pairs or in a dict.
            epsilon: what all of them may spend together.
            delta: what each may spend on finding groups that are not public.

        Raises:
            QueryRefused: DPQ805 no questions, or one states more than its share; or what
                EXPLAIN refuses of one.
        """
        return share_out(self, questions, epsilon, delta)

    def forecast(self, statements: Sequence[str]) -> Forecast:
        """Foresee what statements would cost, asked in this order; nothing is charged."""
        return forecast(self, statements)

    def columns(self, text: str) -> pa.Schema:
        """Return names and types of what a statement would answer; costs nothing.

        Raises:
            QueryRefused: it would not be answered.
        """
        with self._usable():
            source = self._source(text)
            with self._uncharged(source):
                price = self._prices.price(None, None)
                match read_aside(source):
                    case None:
                        plan = self._plan(refreshed(source) or source, price)
                        return schema_of(plan, self._public)
                    case Set():
                        return catalogue.lines("setting", "").schema
                    case Create() | Drop():
                        return catalogue.lines("view", "").schema
                    case shown:
                        return self._shown(shown, price).schema

    @property
    def budget(self) -> Budget:
        """The binding limit among policy, analyst and session."""
        with self._usable():
            standing = self._payer.standing()
            sums = standing.left_as_epsilon, standing.left_as_rho
            return Budget(standing.limit, standing.spent, standing.left, *sums)

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
            limits = self._ledger.orders().raised(self._payer.limits, name)
            if text is None:
                charges = [entry.events for entry in self._ledger.entries(name)]
            else:
                source = self._source(text)
                with self._uncharged(source):
                    plan = self._plan(refreshed(source) or source)
                name, charges = "this query", [plan.charge.events] if plan.charge.events else []
            return self._free(catalogue.losses(name, charges, limits.analyst or limits.policy))

    def tables(self) -> Answer:
        """Return the tables of the policy, and the views of this session."""
        with self._usable():
            return self._free(catalogue.tables(self._policy, self._views))

    def describe(self, name: str) -> Answer:
        """Return the columns of a table or a view, from the policy alone.

        Raises:
            NameRefused: DPQ201, DPQ805 as `table`.
        """
        with self._usable():
            require_name(name, "session.describe('staff')")
            return self._free(self._columns(name, self._prices.price(None, None)))

    @property
    def analyst(self) -> str:
        """Who asks."""
        return self._account.analyst

    @property
    def conversation(self) -> Conversation:
        """What another session needs, of the same database, to go on with this one."""
        chosen, views = tuple(self._prices.chosen.items()), tuple(self._views)
        return Conversation(self._account.session, chosen, views)

    def _let_go(self) -> None:
        if not self._lent:
            self._database.close()

    def _source(self, text: str) -> Source:
        if isinstance(text, str):
            return Source(text)
        raise self._payer.told(no_statement(text), Source(""))

    def _shown(self, command: Aside, price: Loss | None) -> pa.Table:
        """Answer what asks no data."""
        match command:
            case Set(name, value):
                self._prices.set(name, value)
                return catalogue.lines("setting", self._prices.said())
            case Explain(query):
                return catalogue.lines("explanation", str(self._explain(query, price)))
            case Create():
                return catalogue.lines("view", self._create(command, price))
            case Drop():
                return catalogue.lines("view", self._views.drop(command))
            case Describe(name, span):
                return self._columns(name, price, span)
            case Show(Subject.TABLES):
                return catalogue.tables(self._policy, self._views)
            case Show(Subject.LEDGER):
                return self._charges()
            case Show(Subject.BUDGET):
                payer = self._payer
                entries = self._ledger.entries(self._account.analyst)
                last = entries[-1].events if entries else ()
                return catalogue.budget(self._policy, payer.standing, payer.failures(), last)
            case Show(Subject.FUNCTIONS):
                return catalogue.functions()

    def _explain(self, source: Source, price: Loss | None) -> Explanation:
        query = refreshed(source)
        lookup = self._look_up(self._plan(query or source, price), anew=query is not None)
        plan, payer = lookup.plan, self._payer
        return explain(
            plan,
            self._policy,
            [self._engine.describe(frontier.scan) for frontier in plan.frontiers],
            payer.standing(plan.charge.touched),
            answered=lookup.tables is not None,
            failed=payer.failures(),
        )

    def _create(self, create: Create, price: Loss | None) -> str:
        """Keep a view, once its query is understood, and say what it costs to read it."""
        try:
            view, source = self._views.read(create)
            said = self._cost(create.name, source, price)
        except QueryRefused as refused:
            raise create.told(refused) from None
        self._views.keep(view, create)
        return said

    def _cost(self, name: str, source: Source, price: Loss | None) -> str:
        """Say what a statement pays for a new view that it reads."""
        try:
            found = self._view(source, price)
        except QueryRefused:
            self._plan(source, price)  # refused as well, with more of what could be written
            raise
        if isinstance(found, Derived):
            rows = f"{name} stands for rows of {found.table.name}"
            return f"{rows}\na statement that reads it pays for its own calls"
        plan = self._plan(source, price)
        if not plan.charge.events:
            return f"{name} stands for what is public\nreading it costs nothing"
        results = f"{name} stands for results"
        if plan.checked.understood:
            return f"{results}\nits calls share the epsilon of each statement that reads it"
        pays = f"a statement that reads it pays {basic(plan.charge.events)}"
        return f"{results}\n{pays}, or nothing where all was answered before"

    def _view(self, source: Source, price: Loss | None) -> Derived | Open:
        """Bind the view that a statement reads as a name of WITH."""
        with self._views.spliced(parse(source)) as parsed:
            return bind_view(parsed, self._policy, self._public, price)

    def _columns(self, name: str, price: Loss | None, span: Span | None = None) -> pa.Table:
        """List the columns of a table or a view."""
        view = self._views.find(name)
        if view is None:
            table = catalogue.find_table(self._policy, name, span, self._views)
            return catalogue.columns(table)
        source = reading(view)
        with self._uncharged(source):
            return catalogue.view_columns(self._view(source, price))

    @contextmanager
    def _uncharged(self, source: Source) -> Iterator[None]:
        """Have what goes wrong before a charge said in words, with the balance."""
        try:
            with uncharged(self._log, source):
                yield
        except (QueryRefused, InternalError) as fault:
            raise self._payer.told(fault, source) from None

    def _charged(self, charge: Charge, source: Source) -> Charged:
        """Charge on entering; whatever goes wrong after that says that the charge stays."""
        return Charged(self._payer, charge, source)

    def _charges(self) -> pa.Table:
        entries = self._ledger.entries(self._account.analyst)
        return catalogue.charges(entries, self._policy)

    def _free(self, table: pa.Table) -> Answer:
        return Answer(table, NO_LOSS, (), self._payer.balance(), ())

    @contextmanager
    def _usable(self) -> Iterator[None]:
        with super()._usable():
            try:
                self._paid = None
                with heard():
                    yield
            except KeyboardInterrupt as stop:
                self._engine.close()  # what it was making may be half made
                self._public.stopped()
                if not stop.args and self._paid is not None and self._paid.events:
                    spent = f"{basic(self._paid.events)} spent; {self._payer.left()}"
                    stop.args = (f"stopped too late; {spent}",)
                raise


def _failure_limit(policy: Policy, analyst: str, *, served: bool) -> FailureLimit:
    """Return how many statements may fail, and what the data owner does then."""
    place = policy.ledger.server.url if policy.ledger.server else policy.ledger.path
    named = policy.name if policy.published else place
    remedy: tuple[str, ...]
    if served:  # who asks a server learns no path of it
        remedy = ("ask the data owner, who finds the causes in the log of faults",)
    elif named is None:
        remedy = ("session = dpquery.connect(...)", "failures are counted in memory here")
    else:
        whose = f" --analyst {shlex.quote(analyst)}" if policy.analysts else ""
        thaw = f"dpquery ledger thaw {shlex.quote(str(named))}{whose}"
        remedy = (thaw, "for the data owner, who finds the causes in the log of faults")
    return FailureLimit(policy.limits.max_failures, policy.limits.seconds, remedy)
