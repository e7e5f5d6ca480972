"""The keys under which releases are found again.

A key says everything that fixes the law of a release: the rows, with what earlier releases put
among them, their groups, the release with its mechanism, the policy's word on the tables, what
public tables hold that are joined, and the version of the data. It never says anything of the
private ones: an answer that is repeated only while the files are the same would test them for
one person's row. Of what an analyst typed, names, blanks and all that is computed above the
frontier play no part.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version

from dpquery import __version__
from dpquery.functions.base import Release
from dpquery.ir.canonical_text import Writer
from dpquery.ir.expr import ColumnRef, Scalar
from dpquery.ir.query import Scan, columns_read
from dpquery.ir.relations import PublicJoin, SemiJoin, UnitJoin, Windowed, tables_of, walk
from dpquery.ir.walk import filled
from dpquery.plan.auto_bounds import places_of
from dpquery.policy.model import Policy

Values = Mapping[int, Scalar | None]
"""Those of a statement's constants, by number."""
NOTHING: Values = {}
_FORMAT = 6
"""Goes up when a law changes and its tree does not, or the text of a cell does."""


@dataclass(slots=True)
class Keys:
    """Gives the releases of one statement their keys, each computed once.

    A call that is written twice is drawn twice, so the second has a key of its own.
    """

    policy: Policy
    version: int
    public: Callable[[str], str]
    """Returns a short name of what a public table holds."""
    _asked: dict[str, list[int]] = field(default_factory=dict)
    """By text, the releases that have it."""
    _scanned: dict[int, tuple[Scan, str, Writer]] = field(default_factory=dict)
    """The text of each scan, which its releases go on from."""
    _keys: dict[tuple[int, int], tuple[Scan, Release, str]] = field(default_factory=dict)
    """By scan and release, which are held with them: no other object gets their ids."""

    def of(self, scan: Scan, release: Release, values: Values = NOTHING) -> str:
        """Name a release from a scan that waits for nothing any more.

        Args:
            scan: what it is made from.
            release: as it was planned.
            values: of the constants in it.
        """
        wanted = release.wanted
        place = id(scan), id(wanted)
        if place not in self._keys:
            text = self._text(scan, filled(wanted, values))
            calls = self._asked.setdefault(text, [])
            if id(wanted) not in calls:  # by another scan of it, filled again
                calls.append(id(wanted))
            key = _hashed(f"{text}{calls.index(id(wanted)) + 1}")
            self._keys[place] = scan, wanted, key
        return self._keys[place][-1]

    def question(self, scan: Scan, release: Release, values: Values = NOTHING) -> str:
        """Name what a count or sum is of, whatever its noise: what can be refined by it.

        What is drawn given an earlier value has to be of the very same exact one, so that it
        matters too what computes this.
        """
        parts = (*filled(release.wanted, values).question(), _computer())
        return _hashed(self._text(scan, parts))

    def _text(self, scan: Scan, release: object) -> str:
        if id(scan) not in self._scanned:
            writer = Writer()
            self._scanned[id(scan)] = scan, self._written(scan, writer), writer
        _, text, writer = self._scanned[id(scan)]
        return f"{text},{writer.after().text(release)}))"

    def _written(self, scan: Scan, writer: Writer) -> str:
        """Write all that fixes the law of a release but for the release."""
        tables = [self.policy.tables[one.table] for one in tables_of(scan.relation)]
        joined = [one.table for one in walk(scan.relation) if isinstance(one, PublicJoin)]
        about = (
            (_FORMAT, self.version, self.policy.neighbours),
            (
                places_of(scan.relation, self.policy),
                tuple(one.together or one.unit_type for one in tables),
            ),
            tuple(map(self.public, joined)),
        )
        rows = (scan.relation, _deciding(scan), scan.contribution, scan.keys)
        before, within = (",".join(map(writer.text, parts)) for parts in (about, rows))
        return f"({before},({within}"


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _deciding(scan: Scan) -> tuple[ColumnRef, ...]:
    """Return the columns that decide between rows which the query leaves in no order.

    These are all that the whole statement reads: beside another call, a call can be of others.
    """
    ordered = any(
        isinstance(one, Windowed)
        or (isinstance(one, UnitJoin | SemiJoin) and one.pairs is not None)
        for one in walk(scan.relation)
    )
    return columns_read(scan) if ordered else ()


@cache
def _computer() -> tuple[str, ...]:
    """Name what computes exact values here; functions that it could differ on are left out."""
    return platform.machine(), __version__, version("duckdb")
