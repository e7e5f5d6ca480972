"""What was released earlier, to whom, and what of it can still be refined."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpquery.budget.ledger.hash_chain import Chain, Row

VISIBLE = """
    key = ? AND ((analyst = ? AND rights = ?) OR (shared = 1 AND ? = 1))
    ORDER BY sequence DESC LIMIT 1
"""
"""The newest answer of a key that a holder may see."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who may see an answer again: an analyst with certain rights, or everybody."""

    analyst: str
    rights: str
    """What the policy grants them, as text: with other rights they are somebody else."""
    shared: bool
    """Whether the policy shares answers among its analysts."""


State = list[tuple[int, int, str]]
"""Size, time and a hash of the end of each file of a table, in no order."""

_LEFT = """
    question = ? AND analyst = ? AND rights = ?
    AND NOT EXISTS (SELECT 1 FROM refined WHERE source = earlier.sequence)
    ORDER BY sequence
"""
_LINE = ("0", "", "{}")
"""Stands in place of a release: those before it were given up for one that was asked anew."""


class AlreadyRefined(Exception):
    """An earlier release was used up since it was found: nothing was charged."""


@dataclass(frozen=True, slots=True)
class Refinable:
    """A release that is put by, to be refined."""

    question: str
    rate: Fraction
    """What it lost at a distance of 1."""
    drawn: str
    read: Mapping[str, State]
    """What its own scan read, by place: other scans of the statement can be refined apart."""
    anew: bool = False
    """Whether it was asked anew, so that what came before is not refined any more."""


@dataclass(frozen=True, slots=True)
class EarlierRelease:
    """A release that was put by, and not refined so far."""

    number: int
    rate: Fraction
    drawn: str
    read: Mapping[str, State | None]
    """What it was drawn from, by place; None where that is not known."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """The earlier releases of an open ledger; rows are added within `Store.writing`."""

    chain: Chain
    refined: Chain

    def left(self, holder: Holder, question: str) -> list[EarlierRelease]:
        """Return a holder's releases of a question that were not refined, oldest first."""
        rows = self.chain.found(_LEFT, (question, holder.analyst, holder.rights))
        lines = (place for place, row in enumerate(rows, 1) if row[-3:] == _LINE)
        return [_release(row) for row in rows[max(lines, default=0) :]]

    def add(self, charge: str, holder: Holder, refinable: Sequence[Refinable]) -> None:
        """Add what a charge paid for, each with the files that it was drawn from."""
        questions = dict.fromkeys(one.question for one in refinable if one.anew)
        rows = [(question, *_LINE) for question in questions]
        rows += [(o.question, str(o.rate), o.drawn, json.dumps(o.read)) for o in refinable]
        self.chain.append((charge, holder.analyst, holder.rights, *row) for row in rows)

    def use(self, charge: str, numbers: Sequence[int]) -> None:
        """Use up releases for the charge that refines them.

        Raises:
            AlreadyRefined: one of them is.
        """
        if any(self.refined.found("source = ?", (number,)) for number in numbers):
            raise AlreadyRefined
        self.refined.append((charge, number) for number in numbers)

    def untouched(self, paid: Mapping[str, str], refining: Mapping[str, int]) -> bool:
        """Return whether all rows could have been written by the rules.

        That depends on who paid each charge, and on how many releases it refines.
        """
        refined = list(self.refined.rows())
        holders = {number: analyst for number, _, analyst, *_ in self.chain.rows()}
        return (
            self.chain.paid_for(paid)
            and all(paid.get(charge) == holders.get(source) for _, charge, source in refined)
            and len({source for *_, source in refined}) == len(refined)
            and Counter(charge for _, charge, _ in refined) == refining
        )


def _release(row: Row) -> EarlierRelease:
    number, *_, rate, drawn, read = row
    states = {place: [(*one,) for one in files] for place, files in json.loads(read).items()}
    return EarlierRelease(number, Fraction(rate), drawn, states)
