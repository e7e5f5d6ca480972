"""The only place where exact values meet noise.

Before anything is drawn, each mechanism states its loss again, and it has to be what the
receipt says was charged (I7). Randomness enters here and nowhere else (I10).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from dpquery.budget.ledger.charge_and_receipt import Receipt
from dpquery.core.types import Type
from dpquery.engine.base import Exact
from dpquery.errors import internal
from dpquery.functions.base import NoisyCell
from dpquery.functions.dp_keys import ordered
from dpquery.ir.expr import Scalar
from dpquery.ir.query import Key, Scan, combinations
from dpquery.mechanisms.randomness import Randomness
from dpquery.plan.plan import FrontierPlan, Plan


@dataclass(frozen=True, slots=True)
class ReleasedColumn:
    """The noisy values of one call, one per group."""

    name: str
    type: Type
    cells: Sequence[NoisyCell]


@dataclass(frozen=True, slots=True)
class ReleasedTable:
    """What one frontier released: a row for each combination of its public keys."""

    keys: tuple[Key, ...]
    columns: tuple[ReleasedColumn, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was released beside the values, in words."""
        cells = (cell for column in self.columns for cell in column.cells)
        return tuple(note for cell in cells for note in cell.release.notes(cell.drawn))


def with_found(scan: Scan, released: Sequence[ReleasedTable]) -> Scan:
    """Return a scan its groups, where earlier releases found them."""
    if all(key.finding is None for key in scan.keys):
        return scan
    return replace(
        scan, keys=tuple(_with_values(key, scan.keys, released) for key in scan.keys)
    )


def _with_values(key: Key, keys: Sequence[Key], released: Sequence[ReleasedTable]) -> Key:
    """Return a key with its values: beside those that were found with it, and are keys here.

    What is left of combinations, where some of their parts are no keys here, is told once.
    """
    if key.finding is None:
        return key
    (cell,) = released[key.finding.frontier].columns[0].cells
    found = [one.finding for one in keys if one.finding is not None]
    places = [one.place for one in found if one.frontier == key.finding.frontier]
    whole = cell.release.groups(cell.drawn)
    parts = [tuple(told[place] for place in places) for told in whole]
    if any(len(told) > len(places) for told in whole):
        parts = [*ordered(dict.fromkeys(parts))]
    values = tuple(part[places.index(key.finding.place)] for part in parts)
    return replace(key, finding=replace(key.finding, values=values, known=True))


def shown(frontier: FrontierPlan, table: ReleasedTable) -> ReleasedTable:
    """Return a table without the groups that only others are added up from."""
    if frontier.shown is None:
        return table
    rest = [at for at, key in enumerate(table.keys) if key.rest]
    rows = enumerate(combinations(table.keys))
    kept = [number for number, row in rows if all(row[at] is not None for at in rest)]
    columns = (
        replace(one, cells=[one.cells[number] for number in kept]) for one in table.columns
    )
    return ReleasedTable(frontier.shown, tuple(columns))


def added_up(frontier: FrontierPlan, table: ReleasedTable) -> ReleasedTable:
    """Return the groups of a grouping, added up from those of a table, with all of them."""
    names, keys = [key.column for key in table.keys], frontier.scan.keys
    places = [names.index(key.column) for key in keys]
    groups = [tuple(row[at] for at in places) for row in combinations(table.keys)]
    columns = []
    for one, drawn in zip(frontier.releases, table.columns, strict=True):
        sums = Counter[tuple[Scalar | None, ...]]()
        for group, cell in zip(groups, drawn.cells, strict=True):
            sums[group] += cell.drawn
        cells = [one.release.cell(sums[group]) for group in combinations(keys)]
        columns.append(ReleasedColumn(one.column, one.release.type, cells))
    return ReleasedTable(keys, tuple(columns))


def release(
    plan: Plan,
    number: int,
    keys: tuple[Key, ...],
    exact: Exact,
    receipt: Receipt,
    randomness: Randomness,
) -> ReleasedTable:
    """Draw every value of one frontier, for groups that are known by now.

    Raises:
        InternalError: the receipt is for another charge, or the randomness looks broken.
    """
    _require_charged(plan, number, receipt)
    frontier = plan.frontiers[number]
    columns: list[ReleasedColumn] = []
    drawn: dict[int, list[object]] = {}
    for at, one in enumerate(frontier.releases):
        if one.drawn_by is None:
            drawn[at] = list(one.release.draw(exact, randomness))
        cells = [*map(one.release.cell, drawn[at if one.drawn_by is None else one.drawn_by])]
        columns.append(ReleasedColumn(one.column, one.release.type, cells))
    return ReleasedTable(keys, tuple(columns))


def find_bounds(
    plan: Plan, number: int, exact: Exact, receipt: Receipt, randomness: Randomness
) -> NoisyCell:
    """Draw the bounds, or the limit, of one search, whose scan has that number in the charge.

    Raises:
        InternalError: as above.
    """
    _require_charged(plan, number, receipt)
    search = plan.searches[number - len(plan.frontiers)]
    (found,) = search.release.run(exact, randomness)
    return found


def _require_charged(plan: Plan, number: int, receipt: Receipt) -> None:
    if receipt.charge is not plan.charge:
        raise internal("a plan is released against the receipt of its own charge (I3)")
    releases = plan.releases
    before = sum(map(len, releases[:number]))
    charged = receipt.charge.events[before : before + len(releases[number])]
    if charged != tuple(one.event() for one in releases[number]):
        raise internal("a plan's charge is the loss of its mechanisms (I7)")
