"""Pairs of private tables that differ in one privacy unit, and what may differ between them.

A table is a list of units, each a list of rows: neighbours are then made by taking one unit
out, putting one in, or exchanging one, with all of its rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from fractions import Fraction
from itertools import chain, product
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dpquery.budget.ledger.ledger import Ledger
from dpquery.core.types import Kind
from dpquery.engine.base import Engine, Exact
from dpquery.functions.distributions.histogram_and_cdf import CdfRelease
from dpquery.functions.dp_keys import KeysRelease
from dpquery.functions.gaussian_vector import VectorRelease
from dpquery.functions.order_statistics.quantile import QuantileRelease, QuantilesRelease
from dpquery.ir.expr import Scalar
from dpquery.ir.measures import Candidates
from dpquery.ir.query import Key
from dpquery.ir.walk import constants_in, filled
from dpquery.mechanisms import MaxNorm
from dpquery.mechanisms.base import Distance
from dpquery.mechanisms.randomness import Randomness
from dpquery.plan.plan import Plan
from tests.choosing import CHOOSING, handed, moved
from tests.worlds import receipt_for

Row = dict[str, object]
Units = list[list[Row]]


@dataclass(frozen=True)
class Pair:
    """Two neighbouring tables, and rows without a unit that may be anything in either."""

    before: Units
    after: Units
    loose: tuple[list[Row], list[Row]]

    @property
    def sides(self) -> tuple[tuple[Units, list[Row]], tuple[Units, list[Row]]]:
        return (self.before, self.loose[0]), (self.after, self.loose[1])


def save(
    units: Units, loose: Sequence[Row], schema: pa.Schema, directory: Path, order: Random
) -> list[Path]:
    """Write units into two files, rows in a random order, in row groups of three rows."""
    rows = [{**row, "unit": number} for number, unit in enumerate(units) for row in unit]
    rows += [{**row, "unit": None} for row in loose]
    order.shuffle(rows)
    cut = order.randint(0, len(rows))
    directory.mkdir(exist_ok=True)
    paths = [directory / "1.parquet", directory / "2.parquet"]
    for path, part in zip(paths, (rows[:cut], rows[cut:]), strict=True):
        columns = {name: [row.get(name) for row in part] for name in schema.names}
        pq.write_table(pa.table(columns, schema=schema), path, row_group_size=3)
    return paths


@dataclass(frozen=True)
class Seen:
    """Stands in for the mechanism of a release, and keeps what noise would be added to.

    Of a quantile it sees the whole grid in ranges, group by group, and a part of it.
    """

    given: list[list[int]] = field(default_factory=list)
    cells: int = 1
    orders: Sequence[Fraction] = (Fraction(0),)

    def release(self, exact: Any, randomness: object) -> Sequence[int]:
        if not callable(exact):
            self.given.append(list(exact))
            return list(exact)
        width = 1 << max(0, (self.cells - 1).bit_length() - 10)
        self.given.append(exact(0, self.cells, width).tolist())
        self.given.append(exact(self.cells // 4, self.cells // 3 + 1, width).tolist())
        return [0] * len(self.orders)


@dataclass(frozen=True)
class Drawn:
    """One release, and the exact integers that its mechanism is given."""

    release: Any
    given: list[Any]

    @property
    def histograms(self) -> list[list[int]]:
        """The whole grid of each group, of a quantile."""
        return self.given[::2]


_SAID: dict[Kind, tuple[Scalar | None, ...]] = {
    Kind.BOOLEAN: (True, False, None),
    Kind.INTEGER: (0, 1, 2, 4, None),
    Kind.TEXT: ("a", "b", "abc", None),
    Kind.DATE: (date(2020, 1, 1), date(2020, 2, 1), None),
}


def foretold(plan: Plan) -> Plan:
    """Return a plan with groups and constants as earlier releases might have given them.

    What was released is the same for neighbours when a later scan is read: so are these.
    """
    frontiers = []
    for frontier in plan.frontiers:
        own = frontier.scan.keys
        keys = tuple(_found(plan, key, own) for key in own)
        told = replace(frontier, scan=replace(frontier.scan, keys=keys))
        values = {one.number: _said(one.type.kind, one.number) for one in constants_in(told)}
        frontiers.append(filled(told, values))
    return replace(plan, frontiers=tuple(frontiers))


def _said(kind: Kind, number: int) -> Scalar | None:
    values = _SAID.get(kind, (Fraction(1, 2), Fraction(3), None))
    return values[number % len(values)]


def _found(plan: Plan, key: Key, own: Sequence[Key]) -> Key:
    """Give a key values: one for each combination of what is found, and is a key, together."""
    if key.finding is None:
        return key
    (measure,) = plan.frontiers[key.finding.frontier].scan.measures
    assert isinstance(measure, Candidates)
    together = list(product(*(_SAID[expr.type.kind] for expr in measure.values)))
    findings = [one.finding for one in own if one.finding is not None]
    places = [one.place for one in findings if one.frontier == key.finding.frontier]
    parts = dict.fromkeys(
        tuple(told[place] for place in places) for told in together[: key.finding.most]
    )
    values = tuple(part[places.index(key.finding.place)] for part in parts)
    return replace(key, finding=replace(key.finding, values=values, known=True))


def counts(exact: Exact, measure: Candidates) -> Counter[Any]:
    """Return each value with its count: a mechanism sees the counts alone."""
    found = exact.counts(measure).tolist()
    assert all(count > 0 for count in found)
    listed = Counter(dict(zip(exact.chosen(measure, range(len(found))), found, strict=True)))
    assert len(listed) == len(found)
    return listed


def drawn(engine: Engine, plan: Plan, ledger: Ledger | None = None) -> list[Drawn]:
    """Run every release of a plan with a mechanism that adds nothing and remembers all."""
    plan = foretold(plan)
    receipt, found = receipt_for(plan, ledger), []
    for number, frontier in enumerate(plan.frontiers):
        if not frontier.draws:  # groups that were found, or are added up
            continue
        with engine.open(frontier.scan, receipt, number) as exact:
            releases = (planned.release for planned in frontier.releases)
            found += [_drawn(one, exact) for one in releases if not _is_read(one)]
    return found


def _is_read(release: Any) -> bool:
    """Return whether a release is read from the draw of another, and cannot draw."""
    return isinstance(release, VectorRelease) and not release.numbers


def _drawn(release: Any, exact: Exact) -> Drawn:
    if isinstance(release, CHOOSING):
        return Drawn(release, list(handed(release, exact)))
    if isinstance(release, KeysRelease):
        return Drawn(release, [counts(exact, release.measure)])
    if isinstance(release, CdfRelease):  # each level of its tree moves as far as the leaves
        leaves = zip(*(exact.values(one) for one in release.measures), strict=True)
        return Drawn(release, [[part for group in leaves for part in group]])
    ranked = isinstance(release, QuantileRelease | QuantilesRelease)
    seen = Seen(cells=release.mechanism.cells) if ranked else Seen()
    if isinstance(release, QuantilesRelease):
        seen = replace(seen, orders=release.mechanism.orders)
    replace(release, mechanism=seen).run(exact, Randomness())
    return Drawn(release, seen.given)


def squared(distance: Distance) -> Fraction:
    return Fraction(distance) ** 2


def move(before: Drawn, after: Drawn) -> tuple[Fraction, Fraction]:
    """Return how far a release moved and how far it may, both squared.

    Additive noise: in the norm of its loss, over all groups and sums together. Quantiles: the
    rank score of the cell that moves furthest in each group, added up over the groups. Lists:
    the histograms of all groups together, in L1 norm. Groups that are found: all their counts
    together, none of which may move by more than one.
    """
    release = before.release
    if isinstance(release, KeysRelease):
        (a,), (b,) = before.given, after.given
        moves = [abs(a[value] - b[value]) for value in {*a, *b}]
        assert max(moves, default=0) <= 1, release
        return squared(sum(moves)), squared(release.distance)
    if isinstance(release, CHOOSING):
        far, claimed = moved(release, before.given, after.given)
        return squared(far), squared(claimed)
    if isinstance(release, QuantilesRelease):
        pairs = zip(before.histograms, after.histograms, strict=True)
        apart = (abs(x - y) for a, b in pairs for x, y in zip(a, b, strict=True))
        return squared(sum(apart)), squared(release.distance)
    if isinstance(release, QuantileRelease):
        order = release.mechanism.order
        pairs = zip(before.histograms, after.histograms, strict=True)
        total = sum((score_move(a, b, order) for a, b in pairs), Fraction(0))
        return total**2, squared(release.distance)
    a, b = (list(chain(*one.given)) for one in (before, after))  # some draw group by group
    sizes = [abs(x - y) for x, y in zip(a, b, strict=True)]
    if isinstance(release.mechanism, MaxNorm):
        size = release.mechanism.size
        lists = (sizes[at : at + size] for at in range(0, len(sizes), size))
        return squared(sum(map(max, lists))), squared(release.distance)
    if isinstance(release, CdfRelease) or release.mechanism.norm == 1:
        return squared(sum(sizes)), squared(release.distance)
    return Fraction(sum(size * size for size in sizes)), squared(release.distance)


def score_move(before: Sequence[int], after: Sequence[int], order: Fraction) -> Fraction:
    """Return the largest change of a cell's score between two histograms."""
    a, b = (scores(weights, order) for weights in (before, after))
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def scores(weights: Sequence[int], order: Fraction) -> list[Fraction]:
    """Return each cell's distance in rank from an order: the definition of the mechanism."""
    target, found, below = order * sum(weights), [], 0
    for weight in weights:
        found.append(max(Fraction(0), below - target, target - below - weight))
        below += weight
    return found


def require_bounded_move(before: Sequence[Drawn], after: Sequence[Drawn]) -> None:
    """Hold what two neighbours' releases are given against the claims: the heart of it all."""
    assert [one.release for one in before] == [one.release for one in after]
    for a, b in zip(before, after, strict=True):
        moved, claimed = move(a, b)
        assert moved <= claimed, f"{a.release} moved by √{moved}, and √{claimed} was claimed"
