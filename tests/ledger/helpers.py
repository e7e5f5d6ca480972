"""What the tests of the ledger share: short ways to make charges, limits and ledgers."""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from pathlib import Path

from dpquery.budget.ledger.charge_and_receipt import Account, Ceilings, Charge
from dpquery.budget.ledger.ledger import Ledger, open_ledger
from dpquery.budget.ledger.owner_orders import Promise
from dpquery.core.privacy_events import Gaussian, Pure
from dpquery.core.privacy_loss import Ceiling, Loss
from dpquery.core.source_text import Span
from dpquery.policy.model import LedgerSettings, Server

Place = Path | Server | None
"""Where a ledger is; in memory when there is none."""

ROOT = Path(__file__).parents[2]
ALICE = Account("alice", "session of alice")
BOB = Account("bob", "session of bob")


def loss(epsilon: object, delta: object = 0) -> Loss:
    return Loss(Fraction(epsilon), Fraction(delta))


def limits(policy="10", analyst=None, session=None, query=None, delta=0, share=0) -> Ceilings:
    """The ceilings; a share of delta at which rho is converted, or none."""

    def held(epsilon: object) -> Ceiling:
        return Ceiling.of(loss(epsilon, delta), Fraction(share))

    return Ceilings(
        held(policy),
        None if analyst is None else held(analyst),
        None if session is None else held(session),
        None if query is None else Fraction(query),
    )


def pure(*epsilons: object) -> Charge:
    """A statement with one call for each epsilon; the caret stands under the first."""
    events = tuple(Pure(Fraction(epsilon)) for epsilon in epsilons)
    return Charge(events, (), "SELECT ...", Span(19, 26), ("DP_COUNT(*, eps=", ")"))


def gaussian(epsilon: object, delta: object) -> Charge:
    return Charge(
        (Gaussian(Fraction(1), Fraction(epsilon), Fraction(delta)),), (), "SELECT ..."
    )


OPENED: list[Ledger] = []
"""In the test of now: each is closed after it, or the collector finds it in another test."""


def open_at(
    place: Place, high_water: Path | None = None, promise: Promise | None = None
) -> Ledger:
    server = place if isinstance(place, Server) else None
    file = None if isinstance(place, Server) else place
    ledger = open_ledger(LedgerSettings(file, high_water, server), promise)
    OPENED.append(ledger)
    return ledger


def spelled(argument: object) -> str:
    """Write an argument of `start`."""
    if isinstance(argument, Server):
        return f"{argument.url} {argument.schema}"
    return str(argument)


def placed(text: str) -> Place:
    """Read a place that `spelled` wrote."""
    url, _, schema = text.partition(" ")
    return Server(url, schema) if url.startswith("postgresql:") else Path(text)


def spent(ledger: Ledger) -> Fraction:
    return ledger.standing(limits("9000000000"), ALICE).spent.epsilon


def start(*arguments: object) -> subprocess.Popen[bytes]:
    """Start `workers.py` as a process of its own, which shares nothing with this one."""
    command = [sys.executable, "-m", "tests.ledger.workers", *map(spelled, arguments)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
