"""What the data owner orders in the ledger, and what stands after all orders so far.

Orders are rows among the charges, in the same chain of hashes and under the same high-water
mark: an older copy of the ledger would undo them as it would undo charges. They are obeyed
from the next charge on, in every session of every process, and none is taken back: to thaw is
an order of its own. This module knows no file.

* A freeze refuses every charge.
* A suspension freezes one analyst; the ledger writes it when too much of theirs has failed.
* A grant raises what one analyst may spend, and never above the policy's total: that is what
  the units were promised. Grants may follow from answers that the owner saw, and the promise
  to the units holds for them as well, since the total does not move.
* A publication says that the data are other ones now: answers of before are not repeated.
* A promise says whose losses are counted: the neighbouring relation, and each table's unit.
  Losses under two relations, or of two kinds of units, have no sum, so that a policy that says
  otherwise of a table is refused. A table that is new is added.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from hashlib import sha256

from dpquery.budget.ledger.charge_and_receipt import Ceilings
from dpquery.budget.parallel_composition import Counting
from dpquery.core.privacy_loss import HALF, NO_LOSS, Ceiling, Loss
from dpquery.errors import Diagnostic, PolicyInvalid

PUBLIC = "public"
"""What is promised of a table that nobody's loss is counted of."""


@dataclass(frozen=True, slots=True)
class Freeze:
    """No charge is made from here on."""


@dataclass(frozen=True, slots=True)
class Suspend:
    """None of one analyst's."""

    analyst: str
    failures: int
    """How many of their statements failed."""


@dataclass(frozen=True, slots=True)
class Thaw:
    """Charges are made again, and failures of before count no more."""

    analyst: str | None = None
    """Whose, if they alone were suspended; all of everybody's where nobody is named."""


@dataclass(frozen=True, slots=True)
class Grant:
    """An analyst may spend this beside what the policy gives them."""

    analyst: str
    loss: Loss


@dataclass(frozen=True, slots=True)
class Promise:
    """Whose losses are counted from here on."""

    neighbours: str
    units: tuple[tuple[str, str], ...]
    """By "table NAME" and "path PATH", "by COLUMN", "by row" or "public"; of all, "unit"."""


@dataclass(frozen=True, slots=True)
class Publish:
    """The data are another version from here on, whether or not their bytes are others."""


Order = Freeze | Suspend | Thaw | Grant | Promise | Publish


@dataclass(frozen=True, slots=True)
class Orders:
    """What stands after some orders."""

    frozen: bool = False
    suspended: Mapping[str, int] = field(default_factory=dict)
    """Analysts who are, and how many of their statements failed."""
    version: int = 0
    """Of the data: how many were published."""
    granted: Mapping[str, Loss] = field(default_factory=dict)
    neighbours: str | None = None
    units: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By the names of private tables, which are in the ledger once and for all."""

    @property
    def promise(self) -> Promise | None:
        """All that was promised so far; None before the first charge under a policy."""
        if self.neighbours is None:
            return None
        known = ((name, unit) for name, units in self.units.items() for unit in units)
        return Promise(self.neighbours, tuple(sorted(known)))

    @property
    def counting(self) -> Counting:
        """How charges on parts of the units add up from here on."""
        return Counting.of(self.version, self.neighbours)

    def plus(self, order: Order) -> Orders:
        """Obey one more order."""
        match order:
            case Freeze():
                return replace(self, frozen=True)
            case Suspend(analyst, failures):
                return replace(self, suspended={**self.suspended, analyst: failures})
            case Thaw(None):
                return replace(self, frozen=False, suspended={})
            case Thaw(analyst):
                rest = {a: n for a, n in self.suspended.items() if a != analyst}
                return replace(self, suspended=rest)
            case Publish():
                return replace(self, version=self.version + 1)
            case Grant(analyst, loss):
                before = self.granted.get(analyst, NO_LOSS)
                return replace(self, granted={**self.granted, analyst: before + loss})
            case Promise(neighbours, units):
                known = dict(self.units)
                for name, unit in units:
                    if unit != PUBLIC:
                        known[name] = known.get(name, frozenset()) | {unit}
                return replace(self, neighbours=neighbours, units=known)

    def broken_by(self, promise: Promise) -> str | None:
        """Say what a policy promises otherwise than the ledger has been counting, if anything.

        What is public may become private. What was private does not become public under a
        ledger that shows what was lost of it.
        """
        if self.neighbours not in {None, promise.neighbours}:
            return f"neighbours were {self.neighbours}, and are {promise.neighbours} now"
        for name, unit in promise.units:
            known = self.units.get(name)
            if known and unit not in known:
                return f"{name} was {' and '.join(sorted(known))}, and is {unit} now"
        return None

    def raised(self, ceilings: Ceilings, analyst: str) -> Ceilings:
        """Add to an analyst's limit what was granted, up to the policy's total.

        A limit in rho stays as the policy states it: an epsilon cannot be added to it.
        """
        granted, own = self.granted.get(analyst), ceilings.analyst
        if granted is None or own is None or not own.summed:
            return ceilings
        whole, raised = ceilings.policy, own.limit + granted
        share = whole.converted / whole.limit.delta if whole.limit.delta else HALF
        most = Loss(
            max(own.limit.epsilon, min(raised.epsilon, whole.limit.epsilon)),
            max(own.limit.delta, min(raised.delta, whole.limit.delta)),
        )
        return replace(ceilings, analyst=Ceiling.of(most, share))


def require_grant(grant: Grant, orders: Orders, ceilings: Ceilings) -> Loss:
    """Return the limit that a grant makes.

    Raises:
        PolicyInvalid: DPQ610, it would not count, or be more than the policy's total.
    """
    own, whole = ceilings.analyst, ceilings.policy.limit
    if own is None:
        raise _no_grant(
            "the policy gives its whole budget to one analyst: nothing is left to grant",
            "a grant raises one analyst's limit, and the total is not theirs alone.",
            "raise epsilon under [budget] in the policy",
        )
    if not own.summed:
        raise _no_grant(
            f"the limit of {grant.analyst[:80]!r} is a rho, to which no epsilon is added",
            "the two measure losses in different ways.",
            f"raise rho under [analysts.{grant.analyst[:80]}] in the policy",
        )
    most = own.limit + orders.granted.get(grant.analyst, NO_LOSS) + grant.loss
    if not most.within(whole):
        raise _no_grant(
            f"{grant.analyst[:80]!r} could then spend {most}, and the total is {whole}",
            "the total is what the units were promised, and stands in the policy alone.",
            "grant less, or raise the total under [budget] in the policy",
        )
    return most


def grant_up_to(
    analyst: str, epsilon: Fraction, delta: Fraction | None, orders: Orders, ceilings: Ceilings
) -> Grant:
    """Return the grant by which an analyst may spend so much in all.

    Raises:
        PolicyInvalid: DPQ610, they may spend as much already.
    """
    own = NO_LOSS if ceilings.analyst is None else ceilings.analyst.limit
    now = own + orders.granted.get(analyst, NO_LOSS)
    wanted = Loss(epsilon, now.delta if delta is None else delta)
    if wanted == now or not now.within(wanted):
        raise _no_grant(
            f"{analyst[:80]!r} may spend {now} already",
            "what was granted is not taken back: answers may have been asked because of it.",
            "grant more than that, or freeze the budget",
        )
    return Grant(analyst, wanted - now)


def _no_grant(title: str, why: str, remedy: str) -> PolicyInvalid:
    return PolicyInvalid(Diagnostic("DPQ610", title, why=(why,), remedy=(remedy,)))


def encode_order(order: Order) -> str:
    """Write an order as text.

    >>> encode_order(Grant("alice", Loss(Fraction(1, 2))))
    '["grant","alice","1/2","0"]'
    """
    return json.dumps(_listed(order), separators=(",", ":"))


def _listed(order: Order) -> list[object]:
    match order:
        case Freeze():
            return ["freeze"]
        case Suspend(analyst, failures):
            return ["suspend", analyst, failures]
        case Thaw(None):
            return ["thaw"]
        case Thaw(analyst):
            return ["thaw", analyst]
        case Publish():
            return ["publish"]
        case Grant(analyst, loss):
            return ["grant", analyst, str(loss.epsilon), str(loss.delta)]
        case Promise(neighbours, units):
            return ["promise", neighbours, [list(unit) for unit in units]]


def decode_order(text: str) -> Order:
    """Read an order that `encode_order` wrote.

    Raises:
        ValueError: the text is no order of this version.
    """
    match json.loads(text):
        case ["freeze"]:
            return Freeze()
        case ["suspend", str(analyst), int(failures)]:
            return Suspend(analyst, failures)
        case ["thaw"]:
            return Thaw()
        case ["thaw", str(analyst)]:
            return Thaw(analyst)
        case ["publish"]:
            return Publish()
        case ["grant", str(analyst), str(epsilon), str(delta)]:
            return Grant(analyst, Loss(Fraction(epsilon), Fraction(delta)))
        case ["promise", str(neighbours), list(units)]:
            return Promise(neighbours, tuple((str(name), str(unit)) for name, unit in units))
    raise ValueError("not an order that this version knows")


def digest(promise: Promise) -> str:
    """Return a short name of a promise, for comparing two by eye."""
    return sha256(encode_order(promise).encode()).hexdigest()[:12]
