"""The SELECT of a frontier, as the query above computes with what it releases."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpquery.errors import SyntaxRefused
from dpquery.ir import Origin
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
    """The released table of one frontier: a row for each group."""

    def __init__(
        self, opener: Opener, aliases: dict[str, exp.Expr], released: Released
    ) -> None:
        super().__init__(opener, aliases)
        self.released = released

    @property
    def rows(self) -> list[tuple[str, int]]:
        """The row number of the frontier itself."""
        return [(f'"{self.released.relation}"."row"', self.released.number)]

    def text(self) -> str:
        """Name the released table."""
        return f'"{self.released.relation}"'

    def _released(self, column: str, origins: tuple[Origin, ...] = ()) -> Value:
        sql = f'"{self.released.relation}"."{column}"'
        kind = self.released.kind(column)
        narrow = not origins or kind is not Kind.DECIMAL
        return Value(sql, kind, safe=True, origins=origins, narrow=narrow)

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
        """Release a DP_ call."""
        column, function = self.released.call(node)
        origin = Origin(0, self.released.number, column)
        return self._released(column, (origin,)), function

    def known(self, node: exp.Expr) -> Value | None:
        """Find the key that an expression over the rows is."""
        if isinstance(node, exp.Column | exp.Window | exp.Subquery):
            return None
        if node.find(exp.Query) is not None:
            return None
        key = self.released.key(node)
        return None if key is None else self._released(key)

    def aggregate(self, node: exp.Expr, name: str) -> Value:
        """Refuse: over rows it would be exact."""
        inner = next(filter(is_call, node.walk()), None)
        if inner is not None:
            shown = self.released.query(f"{self.spans.text(inner)} AS n")
            remedy = f"SELECT {name}(n) FROM ({shown})"
            label = "each group is one row here"
            what = outside(f"{name} of released values", self.spans.of(node), label, remedy)
            raise SyntaxRefused(what)
        self.refuse_function(node.this if isinstance(node, exp.Filter) else node, name)

    def refuse_function(self, call: exp.Expr, name: str) -> NoReturn:
        """Refuse an exact aggregate, or an unknown function."""
        self.released.refuse_function(call, name)
