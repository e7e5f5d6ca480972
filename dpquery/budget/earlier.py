"""Releases that a later one may take the place of, each once.

A row of `earlier` holds the noisy integers of one release, what it lost at a distance of 1, and
what the files were that it was drawn from; it is found by what was asked, whatever the noise.
A row of `refined` says that the charge of a later release has used it up, and is written with
that charge: of two that were drawn given the same one, each would have paid for the difference
alone, and both together lose more.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dpquery.budget.answers import Holder
from dpquery.budget.chain import Chain, Row

__all__ = ["AlreadyRefined", "Earlier", "EarlierRelease", "Refinable", "State"]

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
    """A release as it is kept, to be refined."""

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
    """A release that was kept, and not refined so far."""

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
        """Give a holder's releases of a question that were not refined, oldest first.

        Raises:
            ValueError: a row is not the one that was written.
        """
        rows = self.chain.found(_LEFT, (question, holder.analyst, holder.rights))
        lines = (place for place, row in enumerate(rows, 1) if row[-3:] == _LINE)
        return [_release(row) for row in rows[max(lines, default=0) :]]

    def add(self, charge: str, holder: Holder, refinable: Iterable[Refinable]) -> None:
        """Add what a charge paid for, each with the files that it was drawn from."""
        whose, fresh = (charge, holder.analyst, holder.rights), list(refinable)
        lines = dict.fromkeys(one.question for one in fresh if one.anew)
        self.chain.append(
            [
                *((*whose, question, *_LINE) for question in lines),
                *(
                    (*whose, one.question, str(one.rate), one.drawn, json.dumps(one.read))
                    for one in fresh
                ),
            ]
        )

    def use(self, charge: str, numbers: Sequence[int]) -> None:
        """Use up releases for the charge that refines them.

        Raises:
            AlreadyRefined: one of them is.
            ValueError: a row is not the one that was written.
        """
        if any(self.refined.found("source = ?", (number,)) for number in numbers):
            raise AlreadyRefined
        self.refined.append([(charge, number) for number in numbers])

    def untouched(self, paid: Mapping[str, str], refining: Mapping[str, int]) -> bool:
        """Say whether all rows could have been written by the rules.

        Args:
            paid: who paid, by charge.
            refining: how many releases each charge refines, of those that refine any.

        Raises:
            ValueError: one is not.
        """
        earlier, refined = list(self.chain.rows()), list(self.refined.rows())
        holders = {row[0]: row[2] for row in earlier}
        return (
            all(paid.get(row[1]) == row[2] for row in earlier)
            and all(paid.get(charge) == holders.get(source) for _, charge, source in refined)
            and len({source for *_, source in refined}) == len(refined)
            and Counter(charge for _, charge, _ in refined) == refining
        )


def _release(row: Row) -> EarlierRelease:
    number, *_, rate, drawn, read = row
    states = {place: [(*one,) for one in files] for place, files in json.loads(read).items()}
    return EarlierRelease(number, Fraction(rate), drawn, states)
