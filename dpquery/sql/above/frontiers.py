"""The SELECT of a frontier, as the query above computes with what it releases."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpquery.errors import SyntaxRefused
from dpquery.ir import Key, Origin
from dpquery.sql.above.aggregates import GROUPING
from dpquery.sql.above.groupings import asked_keys
from dpquery.sql.above.stages import Base
from dpquery.sql.above.values import Value
from dpquery.sql.mending import outside
from dpquery.sql.names import fold, is_call
from dpquery.sql.released import Released
from dpquery.types import Kind

if TYPE_CHECKING:
    from dpquery.sql.above.opened import Opener

__all__ = ["FrontierRows"]


class FrontierRows(Base):
    """The released tables of one SELECT, one for each grouping: a row for each group.

    Of several groupings the tables stand one after the other, with NULL for keys that a table
    has not, its own row numbers, and a bit for each key that says which are missing.
    """

    def __init__(
        self, opener: Opener, aliases: dict[str, exp.Expr], released: Released
    ) -> None:
        super().__init__(opener, aliases)
        self.released = released
        self._count = len(released.sets)
        self._alias = opener.alias() if self._count > 1 else f"f{released.number}"

    @property
    def rows(self) -> list[tuple[str, int]]:
        """The row numbers of the frontiers."""
        if self._count == 1:
            return [(f'"{self._alias}"."row"', self.released.number)]
        return [(f'"{self._alias}"."r{i}"', f) for i, f in enumerate(self._frontiers)]

    @property
    def most(self) -> int:
        """How many groups there are."""
        return sum(prod(key.size for key in own) for own in self.released.sets)

    @property
    def _frontiers(self) -> range:
        return range(self.released.number, self.released.number + self._count)

    def text(self) -> str:
        """Name the released table; or put those of several groupings together."""
        if self._count == 1:
            return f'"{self._alias}"'
        arms = [self._arm(at, keys) for at, keys in enumerate(self.released.sets)]
        return f'({" UNION ALL ".join(arms)}) AS "{self._alias}"'

    def _arm(self, at: int, own: tuple[Key, ...]) -> str:
        """Write the rows of one grouping, with columns for what it has not."""
        columns = []
        for i, key in enumerate(self.released.keys):
            value = f'"{key.column}"' if key in own else "NULL"
            columns.append(f'{value} AS "{key.column}", {int(key not in own)} AS "g{i}"')
        columns += [f'"{call.column}"' for call in self.released.calls.found]
        for i in range(self._count):
            number = '"row"' if i == at else "CAST(NULL AS BIGINT)"
            columns.append(f'{number} AS "r{i}"')
        return f'SELECT {", ".join(columns)} FROM "f{self._frontiers[at]}"'

    def _released(self, column: str, origins: tuple[Origin, ...] = ()) -> Value:
        sql = f'"{self._alias}"."{column}"'
        kind = self.released.kind(column)
        narrow = not origins or kind is not Kind.DECIMAL
        longest = self.released.longest(column)
        return Value(sql, kind, safe=True, origins=origins, narrow=narrow, longest=longest)

    def column(self, node: exp.Column) -> Value | None:
        """Find a key; a name of the SELECT list is meant where no key is so called."""
        alias = not node.table and fold(node.name) in self.aliases
        if alias and not self.released.has(node.name):
            return None
        return self._released(self.released.column(node))

    def unknown(self, node: exp.Column) -> NoReturn:
        """Refuse a column that is none."""
        self.released.column(node)
        raise AssertionError(node)

    def call(self, node: exp.Expr) -> tuple[Value, str]:
        """Release a DP_ call: in each grouping, a share of it."""
        column, function = self.released.call(node)
        origins = tuple(Origin(i, f, column) for i, f in enumerate(self._frontiers))
        return self._released(column, origins), function

    def known(self, node: exp.Expr) -> Value | None:
        """Find the key that an expression over the rows is."""
        if isinstance(node, exp.Column | exp.Window | exp.Subquery):
            return None
        if node.find(exp.Query) is not None:
            return None
        key = self.released.key(node)
        return None if key is None else self._released(key)

    def aggregate(self, node: exp.Expr, name: str) -> Value:
        """Say which groups are missing; other aggregates over rows would be exact."""
        if name == GROUPING:
            return self._grouping(node)
        inner = next(filter(is_call, node.walk()), None)
        if inner is not None:
            shown = self.released.query(f"{self.spans.text(inner)} AS n")
            remedy = f"SELECT {name}(n) FROM ({shown})"
            label = "each group is one row here"
            what = outside(f"{name} of released values", self.spans.of(node), label, remedy)
            raise SyntaxRefused(what)
        self.refuse_function(node.this if isinstance(node, exp.Filter) else node, name)

    def _grouping(self, node: exp.Expr) -> Value:
        keys = [self._released(key.column).sql for key in self.released.keys]
        bits = reversed(asked_keys(self, node, keys))
        parts = [f'{2**i} * "{self._alias}"."g{at}"' for i, at in enumerate(bits)]
        whole = f"({' + '.join(parts)})" if self._count > 1 else "0"
        return Value(f"CAST({whole} AS BIGINT)", Kind.INTEGER, safe=True)

    def refuse_function(self, call: exp.Expr, name: str) -> NoReturn:
        """Refuse an exact aggregate, or an unknown function."""
        self.released.refuse_function(call, name)
