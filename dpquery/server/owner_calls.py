"""What a server does for data owners alone: they look at all charges, and give orders.

As `dpquery ledger show`, `freeze`, `thaw`, `grant` and `publish` do, it reads the ledger
itself, in no analyst's session. No private row is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

from dpquery.budget.accountant import basic
from dpquery.budget.ledger.charge_and_receipt import Ceilings
from dpquery.budget.ledger.owner_orders import Orders, decode_order
from dpquery.budget.ledger.record import Record, Total, Totals
from dpquery.budget.ledger.report import history_row
from dpquery.budget.limits import Standing
from dpquery.core.privacy_loss import BUDGET_MAX, Ceiling, Loss, decimal_text, exact_number
from dpquery.core.source_text import visible
from dpquery.database import Database
from dpquery.editing.cursor_context import words_of
from dpquery.errors import Diagnostic, PolicyInvalid, listed, shown
from dpquery.policy.model import Policy
from dpquery.server.users import analysts_of
from dpquery.session_methods import tables_and_charges
from dpquery.sql.bind.scope import fold

Arguments = Mapping[str, Any]
MOST_CHARGES = 200
"""Charges and orders that an overview lists, the newest."""
MOST_DAYS = 365
MOST_FAULTS = 50
_TAIL = 1 << 18
"""Bytes at the end of the log of faults that are read."""
_WINDOW = timedelta(days=7)
"""What is spent in it goes on, for a forecast."""
_DAY, _TICK = timedelta(days=1), timedelta(microseconds=1)


def overview(database: Database, _: Arguments) -> dict[str, Any]:
    """Return what everybody may spend and has spent, day by day, what was asked, and faults."""
    policy, ledger = database.policy, database.ledger
    records, orders = ledger.history(), ledger.orders()
    past = _past(records, policy)
    budgets = [past.budget("", None, orders)]
    budgets += [past.budget(name, policy.analysts.get(name), orders) for name in past.names]
    for one, name in zip(budgets[1:], past.names, strict=True):
        one["failures"] = ledger.failures(name)
        one["suspended"] = orders.suspended.get(name, 0)
    return {
        "frozen": orders.frozen,
        "version": orders.version,
        "failures": policy.limits.max_failures,
        "budgets": budgets,
        "days": past.days[-MOST_DAYS:],
        "tables": past.tables,
        "asked": list(_asked(records, policy)),
        "faults": _faults(policy.ledger.faults),
    }


@dataclass(slots=True)
class _Past:
    """What came of the charges so far."""

    policy: Policy
    names: list[str]
    """Analysts of the policy, and who was one when they were charged."""
    days: list[dict[str, Any]] = field(default_factory=list)
    """Of each day with charges, what was spent in all by its end."""
    tables: list[dict[str, Any]] = field(default_factory=list)
    """Of each analyst and table, the sum of the charges that read it."""
    points: dict[str, list[tuple[datetime, Total, Orders]]] = field(default_factory=dict)
    """By analyst, and of all under "": what was spent after each of the last charges."""

    def budget(self, name: str, own: Ceiling | None, orders: Orders) -> dict[str, Any]:
        """Return a limit, what is spent against it, and how long it lasts at this rate."""
        limits = orders.raised(Ceilings(self.policy.budget.ceiling, own), name)
        ceiling = limits.analyst or limits.policy
        points = self.points.get(name, [])
        standing = _standing(ceiling, points[-1][1] if points else Total(), orders)
        rate = _rate(ceiling, points, standing)
        left = standing.left.epsilon
        return {
            "name": visible(name),
            "limit": decimal_text(standing.limit.epsilon),
            "spent": decimal_text(standing.spent.epsilon),
            "left": decimal_text(left),
            "share": _share(standing),
            "delta": decimal_text(standing.limit.delta) if standing.limit.delta else None,
            "charges": standing.charges,
            "last": points[-1][0].isoformat() if points else None,
            "per_day": float(rate),
            "days_left": float(left / rate) if rate else None,
            "own": own is not None,
        }


def _standing(ceiling: Ceiling, total: Total, orders: Orders) -> Standing:
    return Standing("", ceiling, total.most(orders.counting), total.charges)


def _share(standing: Standing) -> float:
    limit = standing.limit.epsilon
    return min(1.0, float(standing.spent.epsilon / limit)) if limit else 1.0


def _rate(
    ceiling: Ceiling, points: Sequence[tuple[datetime, Total, Orders]], now: Standing
) -> Fraction:
    """Return what was spent a day: in the last week, or since there have been charges."""
    if not points:
        return Fraction(0)
    until = datetime.now(UTC)
    begin = until - _WINDOW
    earlier = [point for point in points if point[0] < begin]
    since = begin if earlier else max(begin, min(points[0][0], until - _DAY))
    before = Fraction(0)
    if earlier:
        _, total, orders = earlier[-1]
        before = _standing(ceiling, total, orders).spent.epsilon
    spent = max(now.spent.epsilon - before, Fraction(0))
    return spent / Fraction((until - since) // _TICK, _DAY // _TICK)


def _past(records: Sequence[Record], policy: Policy) -> _Past:
    orders, sums = Orders(), _Sums(policy)
    known = analysts_of(policy)
    former = dict.fromkeys(one.analyst for one in records if not one.is_order)
    past = _Past(policy, [*known, *(name for name in former if name not in known)])
    for record in records:
        if record.is_order:
            orders = orders.plus(decode_order(record.events))
            continue
        totals, when = Totals.read(record.totals), datetime.fromisoformat(record.at)
        for name, total in (("", totals.policy), (record.analyst, totals.analyst)):
            past.points.setdefault(name, []).append((when, total, orders))
        sums.add(record)
        day = f"{when.astimezone(UTC):%Y-%m-%d}"
        if not past.days or past.days[-1]["day"] != day:
            past.days.append({"day": day})
        ceiling = policy.budget.ceiling
        spent = _standing(ceiling, totals.policy, orders).spent.epsilon
        past.days[-1] |= {"all": float(spent), **sums.now()}
    past.tables = sums.listed()
    return past


class _Sums:
    """Adds up charges by analyst and by the tables that they read."""

    def __init__(self, policy: Policy) -> None:
        private = (name for name, table in policy.tables.items() if not table.public)
        self._tables = {fold(name): name for name in private}
        self._sums: dict[tuple[str, str], tuple[Fraction, int]] = {}
        self._analysts: dict[str, Fraction] = {}
        self._by_table: dict[str, Fraction] = {}

    def add(self, record: Record) -> None:
        """Add a charge; one over several private tables counts in each."""
        loss = basic(record.charged()).epsilon
        analyst = self._analysts
        analyst[record.analyst] = analyst.get(record.analyst, Fraction(0)) + loss
        for table in set(self._read(record.query)) or {"(by a view)"}:
            self._by_table[table] = self._by_table.get(table, Fraction(0)) + loss
            sum_, charges = self._sums.get((record.analyst, table), (Fraction(0), 0))
            self._sums[record.analyst, table] = (sum_ + loss, charges + 1)

    def _read(self, query: str) -> Iterator[str]:
        for before, word in pairwise(words_of(query)):
            named = self._tables.get(fold(word.text.strip('"')))
            if named is not None and before.upper in {"FROM", "JOIN"}:
                yield named

    def now(self) -> dict[str, dict[str, float]]:
        """Return the sums so far, to be drawn."""
        by = {"analysts": self._analysts, "tables": self._by_table}
        return {
            what: {visible(name): float(sum_) for name, sum_ in sums.items()}
            for what, sums in by.items()
        }

    def listed(self) -> list[dict[str, Any]]:
        """Return the sums of all."""
        return [
            {
                "analyst": visible(analyst),
                "table": visible(table),
                "epsilon": decimal_text(sum_),
                "charges": charges,
            }
            for (analyst, table), (sum_, charges) in sorted(self._sums.items())
        ]


def _asked(records: Sequence[Record], policy: Policy) -> Iterator[dict[str, Any]]:
    """Return charges and orders, the newest first."""
    newest = [record for record in records if history_row(record)][-MOST_CHARGES:]
    paid = [record for record in newest if not record.is_order]
    remarks = dict(
        zip(
            paid, tables_and_charges.remarks([one.entry() for one in paid], policy), strict=True
        )
    )
    for record in reversed(newest):
        row = history_row(record)
        if row is not None:
            _, analyst, loss, said = row
            text = said if record.is_order else visible(record.query)
            yield {
                "at": record.at,
                "analyst": analyst,
                "loss": loss,
                "query": text,
                "order": record.is_order,
                "remark": visible(remarks.get(record, "")),
            }


def _faults(path: Path | None) -> list[dict[str, str]]:
    """Return when faults happened and by which reference: their texts may quote rows."""
    if path is None:
        return []
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    return list(_references(lines))[-MOST_FAULTS:][::-1]


def _references(lines: Sequence[str]) -> Iterator[dict[str, str]]:
    for line in lines:
        try:
            told = json.loads(line)
            reference, at = int(told["reference"], 16), datetime.fromisoformat(told["at"])
        except (ValueError, LookupError, TypeError):
            continue
        yield {"reference": f"{reference:08x}", "at": at.isoformat()}


def freeze(database: Database, _: Arguments) -> dict[str, str]:
    """Refuse every charge from here on."""
    new = database.ledger.freeze()
    return _said("frozen: no query is charged until it is thawed" if new else "frozen already")


def thaw(database: Database, given: Arguments) -> dict[str, str]:
    """Make charges again, and forgive failures: of all, or of one analyst."""
    analyst = given.get("analyst")
    if analyst is not None:
        _require_known(database.policy, analyst)
    new = database.ledger.thaw(analyst)
    return _said("thawed: queries are charged again" if new else "it was not frozen")


def grant(database: Database, given: Arguments) -> dict[str, str]:
    """Raise what an analyst may spend, up to the policy's total.

    Raises:
        PolicyInvalid: DPQ610 it would not count, or be more than the policy's total; DPQ608
            there is no such analyst, or the amount is none.
    """
    policy, name = database.policy, given.get("analyst")
    _require_known(policy, name)
    try:
        amount = exact_number(given.get("epsilon"))
    except ValueError:
        amount = Fraction(0)
    if not 0 < amount <= BUDGET_MAX:
        title = f"an amount is a number above 0, not {shown(given.get('epsilon'))}"
        raise PolicyInvalid(Diagnostic("DPQ608", title, remedy=("0.5",)))
    limits = Ceilings(policy.budget.ceiling, policy.analysts.get(str(name)))
    limit = database.ledger.grant(str(name), Loss(amount), limits)
    return _said(f"{visible(str(name))} may spend {limit} in all")


def publish(database: Database, _: Arguments) -> dict[str, str]:
    """Begin another version of the data."""
    version = database.ledger.publish()
    return _said(f"data version {version} begins: to ask anything again is paid")


def _require_known(policy: Policy, name: object) -> None:
    known = analysts_of(policy)
    if name not in known:
        title = f"the policy lists no analyst {shown(name)}"
        remedy = (f"analysts here: {listed(known)}",)
        raise PolicyInvalid(Diagnostic("DPQ608", title, remedy=remedy))


def _said(text: str) -> dict[str, str]:
    return {"said": text}


ORDERS: dict[str, Callable[[Database, Arguments], dict[str, Any]]] = {
    "overview": overview,
    "freeze": freeze,
    "thaw": thaw,
    "grant": grant,
    "publish": publish,
}
"""What data owners can ask of a worker: `frames.OWNER_CALLS`."""
_TAKES = {"thaw": ("analyst",), "grant": ("analyst", "epsilon")}


def done(database: Database, order: str, given: Arguments) -> dict[str, Any]:
    """Do what an order says, or refuse one that says more: it might be meant for fewer.

    Raises:
        PolicyInvalid: DPQ608 it has a key that is not understood.
    """
    takes = _TAKES.get(order, ())
    for key in given:
        if key not in takes:
            title = f"{order} takes no {shown(key)}"
            why = ("an order that is not understood is not done: it could be meant for fewer.",)
            remedy = f"keys here: {listed(takes)}" if takes else f"{order} without it: of all"
            raise PolicyInvalid(Diagnostic("DPQ608", title, why=why, remedy=(remedy,)))
    return ORDERS[order](database, given)
