"""The stages of a SELECT: rows, groups, windows. Each binds expressions over the one below.

An aggregate, a window or a subquery cannot stand inside TRY. So each is computed at a stage of
its own, as a column, and what is computed from it stands a stage above, where TRY holds only
arithmetic.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpquery.core.types import Kind
from dpquery.errors import QueryRefused, refusal
from dpquery.sql.bind.released import unknown_function
from dpquery.sql.bind.scope import fold
from dpquery.sql.parse.spans import outside
from dpquery.sql.postprocess.calls import aggregated, asked_keys, windowed
from dpquery.sql.postprocess.expressions import Expressions
from dpquery.sql.postprocess.from_clause import From
from dpquery.sql.postprocess.functions import AGGREGATES, GROUPING, aggregate_name
from dpquery.sql.postprocess.values import Value

if TYPE_CHECKING:
    from dpquery.sql.postprocess.subqueries import Opener


class Base(Expressions):
    """A stage with rows of its own, beside which subqueries are computed."""

    def __init__(self, opener: Opener, aliases: dict[str, exp.Expr]) -> None:
        super().__init__(opener, aliases)
        self._beside: list[str] = []
        self._engine = ""

    @property
    def base(self) -> Base:
        """The stage beside which subqueries are computed."""
        return self

    @property
    def chosen(self) -> Base:
        """The rows that this stage is made of, in which its columns are found."""
        return self

    @property
    @abstractmethod
    def rows(self) -> list[tuple[str, int]]:
        """Row numbers of frontiers: their text, and the frontier."""

    @property
    @abstractmethod
    def most(self) -> int:
        """How many rows there can be."""

    @abstractmethod
    def text(self) -> str:
        """Write what stands after FROM, subqueries excepted."""

    def lifted(self, value: Value) -> Value:
        """Return a value of the stage below as this one sees it."""
        return value

    def source(self) -> str:
        """Write FROM, with the subqueries beside the rows; empty without any."""
        text = self.text()
        if self._beside:
            listed = ", ".join(f'{sql} AS "s{i}"' for i, sql in enumerate(self._beside))
            cross = " CROSS JOIN LATERAL " if text else ""
            text += f'{cross}(SELECT {listed}) AS "{self._engine}"'
        return f" FROM {text}" if text else ""

    @property
    def plain(self) -> bool:
        """Whether no subquery stands beside the rows."""
        return not self._beside

    def subquery(self, sql: str, kind: Kind | None) -> Value:
        """Compute a subquery beside the rows."""
        self._engine = self._engine or self.opener.alias()
        if sql not in self._beside:
            self._beside.append(sql)
        return Value(f'"{self._engine}"."s{self._beside.index(sql)}"', kind, safe=True)

    def window(self, node: exp.Window) -> Value:
        """Refuse a window where rows or groups are still being chosen."""
        span = self.spans.of(node)
        label = "computed after WHERE, GROUP BY and HAVING"
        remedy = f"QUALIFY {self.spans.text(node)} = 1"
        raise outside("a window", span, label, remedy)


class Rows(Base):
    """Rows of open relations."""

    def __init__(self, opener: Opener, aliases: dict[str, exp.Expr], from_: From) -> None:
        super().__init__(opener, aliases)
        self.from_ = from_

    @property
    def rows(self) -> list[tuple[str, int]]:
        """Row numbers of frontiers."""
        return self.from_.rows

    @property
    def most(self) -> int:
        """How many rows the joins can give."""
        return self.from_.most

    def text(self) -> str:
        """Write the joins."""
        return self.from_.text

    def column(self, node: exp.Column) -> Value | None:
        """Find a column here, or in the queries around."""
        found = self.from_.find(node)
        if found is None and (not node.table or not self.from_.calls(node.table)):
            own = not node.table and fold(node.name) in self.aliases
            return None if own else self.opener.around(self, node)
        return found

    def unknown(self, node: exp.Column) -> NoReturn:
        """Refuse a column that is none."""
        if not self.from_.members:
            self.opener.without_table(f"there is no table to find {node.name} in", node)
        self.from_.refuse(node)

    def call(self, node: exp.Expr) -> tuple[Value, str]:
        """Refuse: there is nothing to protect."""
        if not self.from_.members:
            self.opener.without_table("a DP_ function needs a table to ask", node)
        name = " and ".join(self.from_.aliases) or "this query"
        raise refusal(
            "DPQ303",
            f"{name} holds no private rows",
            self.spans.of(node),
            "nothing to protect here",
            (
                "DP_ functions ask private tables; public rows, and what was released,",
                "are read as they are.",
            ),
            f"SELECT * FROM {self.opener.first_item(self.from_)}",
        )

    def known(self, node: exp.Expr) -> Value | None:
        """Return nothing: rows are in no groups."""
        return None

    def aggregate(self, node: exp.Expr, name: str) -> Value:
        """Refuse an aggregate where rows are still being chosen."""
        if not self.from_.members:
            self.opener.without_table(f"{name} needs a table to ask", node)
        label = "computed from the rows chosen here"
        remedy = f"HAVING {self.spans.text(node)} > 0"
        raise outside(f"{name} among rows", self.spans.of(node), label, remedy)

    def refuse_function(self, call: exp.Expr, name: str) -> NoReturn:
        """Refuse an unknown function."""
        raise unknown_function(call, name, self.spans, "ABS(-1)")


class Groups(Base):
    """Groups of rows: their keys, and aggregates."""

    def __init__(self, below: Rows, sets: list[list[exp.Expr]]) -> None:
        super().__init__(below.opener, below.aliases)
        self.below = below
        self._alias = below.opener.alias()
        groupings = [[below.value(node) for node in nodes] for nodes in sets]
        self.keys = list({key.sql: key for keys in groupings for key in keys}.values())
        texts = [key.sql for key in self.keys]
        self._sets = [[texts.index(key.sql) + 1 for key in keys] for keys in groupings]
        """The places of the keys in each grouping."""
        self._kinds = {type(node) for nodes in sets for node in nodes}
        self.kept: list[Value] = []
        """Conditions on rows."""
        self.aggregates: list[str] = []

    @property
    def chosen(self) -> Base:
        """The rows in the groups."""
        return self.below

    @property
    def rows(self) -> list[tuple[str, int]]:
        """No row numbers: a group is of many rows."""
        return []

    @property
    def most(self) -> int:
        """How many groups there can be."""
        return sum(self.below.most if places else 1 for places in self._sets)

    def text(self) -> str:
        """Write the grouping as a query."""
        parts = [f'{key.total} AS "g{i}"' for i, key in enumerate(self.keys)]
        parts += [f'{sql} AS "a{i}"' for i, sql in enumerate(self.aggregates)]
        listed = ", ".join(parts) or 'count(*) AS "n"'
        where = self.opener.where(self.kept)
        return (
            f'(SELECT {listed}{self.below.source()}{where}{self._grouped}) AS "{self._alias}"'
        )

    @property
    def _grouped(self) -> str:
        sets = [", ".join(map(str, places)) for places in self._sets]
        if len(sets) > 1:
            return f" GROUP BY GROUPING SETS ({', '.join(f'({one})' for one in sets)})"
        return f" GROUP BY {sets[0]}" if sets[0] else ""

    def key(self, value: Value) -> Value | None:
        """Return the key that a value of the rows is; None where it is none."""
        for at, key in enumerate(self.keys):
            if key.sql == value.sql:
                sql = f'"{self._alias}"."g{at}"'
                return replace(key, sql=sql, safe=True, size=1, depth=1, origins=())
        return None

    def column(self, node: exp.Column) -> Value | None:
        """Find a key; a column of the rows has no one value in a group."""
        found = self.below.column(node)
        if found is None:
            return None
        key = self.key(found)
        if key is None and not self._outer(node):
            self._ungrouped(node)
        return key or found

    def _outer(self, node: exp.Column) -> bool:
        return self.below.from_.find(node) is None

    def unknown(self, node: exp.Column) -> NoReturn:
        """Refuse a column that is none."""
        self.below.unknown(node)

    def call(self, node: exp.Expr) -> tuple[Value, str]:
        """Refuse: there is nothing to protect."""
        return self.below.call(node)

    def known(self, node: exp.Expr) -> Value | None:
        """Find the key that an expression is."""
        if type(node) not in self._kinds or isinstance(node, exp.Column):
            return None
        if any(aggregate_name(part) or isinstance(part, exp.Query) for part in node.walk()):
            return None
        try:
            return self.key(self.below.value(node))
        except QueryRefused:
            return None

    def aggregate(self, node: exp.Expr, name: str) -> Value:
        """Compute an aggregate of each group."""
        found = self._aggregated(node, name)
        if found.sql not in self.aggregates:
            self.aggregates.append(found.sql)
            self.opener.require_texts(found.grown or 0, self.spans.of(node))
        return replace(found, sql=f'"{self._alias}"."a{self.aggregates.index(found.sql)}"')

    def _aggregated(self, node: exp.Expr, name: str) -> Value:
        if name != GROUPING:
            return aggregated(self.below, AGGREGATES[name], node, len(self._sets))
        names = [f'"{self._alias}"."g{at}"' for at in range(len(self.keys))]
        asked = [self.keys[at].total for at in asked_keys(self, node, names)]
        sql = f"GROUPING({', '.join(asked)})"
        return Value(sql, Kind.INTEGER, safe=True, narrow=True)

    def refuse_function(self, call: exp.Expr, name: str) -> NoReturn:
        """Refuse an unknown function."""
        self.below.refuse_function(call, name)

    def _ungrouped(self, node: exp.Column) -> NoReturn:
        name = self.spans.text(node)
        raise outside(
            f"{name} in a group", self.spans.of(node), "not in GROUP BY", f"max({name})"
        )


class Windowed(Expressions):
    """What stands above window functions: these, and columns of the stage below."""

    def __init__(self, below: Base) -> None:
        super().__init__(below.opener, below.aliases)
        self.below = below
        self._alias = below.opener.alias()
        self._lifted: dict[str, str] = {}

    @property
    def base(self) -> Base:
        """The stage beside which subqueries are computed."""
        return self.below

    @property
    def rows(self) -> list[tuple[str, int]]:
        """Row numbers of frontiers, as they stand here."""
        return [(self._lift(sql), frontier) for sql, frontier in self.below.rows]

    def source(self, kept: list[Value]) -> str:
        """Write FROM: the stage below, with all that is taken from it."""
        listed = ", ".join(f'{sql} AS "{name}"' for sql, name in self._lifted.items())
        where = self.opener.where(kept)
        return f' FROM (SELECT {listed}{self.below.source()}{where}) AS "{self._alias}"'

    def lifted(self, value: Value) -> Value:
        """Return a value of the stage below as it stands here."""
        if value.constant is not None:
            return value
        return replace(value, sql=self._lift(value.total), safe=True, size=1, depth=1)

    def _lift(self, sql: str) -> str:
        name = self._lifted.setdefault(sql, f"v{len(self._lifted)}")
        return f'"{self._alias}"."{name}"'

    def column(self, node: exp.Column) -> Value | None:
        """Find a column below."""
        found = self.below.column(node)
        return None if found is None else self.lifted(found)

    def unknown(self, node: exp.Column) -> NoReturn:
        """Refuse a column that is none."""
        self.below.unknown(node)

    def call(self, node: exp.Expr) -> tuple[Value, str]:
        """Bind a DP_ call below."""
        found, function = self.below.call(node)
        return self.lifted(found), function

    def known(self, node: exp.Expr) -> Value | None:
        """Find a group below."""
        found = self.below.known(node)
        return None if found is None else self.lifted(found)

    def aggregate(self, node: exp.Expr, name: str) -> Value:
        """Compute an aggregate below."""
        return self.lifted(self.below.aggregate(node, name))

    def window(self, node: exp.Window) -> Value:
        """Compute a window function over the rows of the stage below."""
        found = windowed(self.below, node)
        return replace(found, sql=self._lift(found.sql))

    def subquery(self, sql: str, kind: Kind | None) -> Value:
        """Compute a subquery beside the rows below."""
        return self.lifted(self.below.subquery(sql, kind))

    def refuse_function(self, call: exp.Expr, name: str) -> NoReturn:
        """Refuse an unknown function."""
        self.below.refuse_function(call, name)
