"""The stages of a SELECT: rows, groups, windows. Each binds expressions over the one below.

An aggregate, a window or a subquery cannot stand inside TRY. So each is computed at a stage of
its own, as a column, and what is computed from it stands a stage above, where TRY holds only
arithmetic.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpquery.core.types import Kind
from dpquery.errors import QueryRefused, refusal
from dpquery.ir.query import Key, Origin
from dpquery.sql.bind.released_tables import Released, unknown_function
from dpquery.sql.bind.scope import fold, is_call, written_name
from dpquery.sql.parse.spans import outside
from dpquery.sql.postprocess.aggregates_and_windows import aggregated, asked_keys, windowed
from dpquery.sql.postprocess.builtin_functions import AGGREGATES, GROUPING, aggregate_name
from dpquery.sql.postprocess.expressions import Expressions
from dpquery.sql.postprocess.from_clause import From
from dpquery.sql.postprocess.sql_fragments import Value, where

if TYPE_CHECKING:
    from dpquery.sql.postprocess.subqueries import Opener


_NAMED = (exp.EQ, exp.Kwarg, exp.PropertyEQ)
"""What arguments by name are read as."""


class Base(Expressions, ABC):
    """A stage with rows of its own, beside which subqueries are computed."""

    rows: list[tuple[str, int]]
    """Row numbers of frontiers: their text, and the frontier."""
    most: int
    """How many rows there can be."""
    least: int = 0
    """How many there are for certain, before any is left out."""

    def __init__(self, opener: Opener, aliases: dict[str, exp.Expr]) -> None:
        super().__init__(opener, aliases)
        self._beside: list[str] = []
        self._engine = ""

    @property
    def base(self) -> Base:
        """This stage: subqueries are computed beside its rows."""
        return self

    @property
    def chosen(self) -> Base:
        """The rows that this stage is made of, in which its columns are found."""
        return self

    @property
    def plain(self) -> bool:
        """Whether no subquery stands beside the rows."""
        return not self._beside

    @property
    @abstractmethod
    def unique(self) -> Sequence[str]:
        """The texts of values that no two rows have equal; of none, nothing is known."""

    @abstractmethod
    def text(self) -> str:
        """Write what stands after FROM, subqueries excepted."""

    def source(self, kept: list[Value]) -> str:
        """Write FROM, with the subqueries beside the rows, and WHERE; empty without any."""
        text = self.text()
        if self._beside:
            listed = ", ".join(f'{sql} AS "s{i}"' for i, sql in enumerate(self._beside))
            cross = " CROSS JOIN LATERAL " if text else ""
            text += f'{cross}(SELECT {listed}) AS "{self._engine}"'
        return (f" FROM {text}" if text else "") + where(kept)

    def subquery(self, sql: str, kind: Kind | None) -> Value:
        """Compute a subquery beside the rows."""
        self._engine = self._engine or self.opener.alias()
        if sql not in self._beside:
            self._beside.append(sql)
        return Value(f'"{self._engine}"."s{self._beside.index(sql)}"', kind, safe=True)


class Rows(Base):
    """Rows of open relations."""

    def __init__(self, opener: Opener, aliases: dict[str, exp.Expr], from_: From) -> None:
        super().__init__(opener, aliases)
        self.from_, self.rows = from_, from_.rows
        self.most, self.least = from_.most, from_.least

    @property
    def unique(self) -> Sequence[str]:
        """Those of the one relation that is read."""
        return self.from_.unique

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
            self.opener.without_table(f"the column {node.name} needs a FROM", node)
        self.from_.refuse(node)

    def call(self, node: exp.Expr) -> tuple[Value, str]:
        """Refuse: there is nothing to protect."""
        if not self.from_.members:
            self.opener.without_table("a DP_ function needs a table to ask", node)
        names, plain = self.from_.aliases, str(node.name).upper().removeprefix("DP_")
        otherwise = f"SELECT * FROM {written_name(names[0]) if names else '(SELECT 1)'}"
        given = [one for one in node.expressions if not isinstance(one, _NAMED)]
        aggregate = f"{plain}({', '.join(map(self.spans.text, given))})"
        raise refusal(
            "DPQ303",
            f"{' and '.join(names) or 'this query'} holds no private rows",
            self.spans.of(node),
            "nothing to protect here",
            (
                "DP_ functions ask private tables; public rows, and what was released,",
                "are read as they are.",
            ),
            aggregate if plain in AGGREGATES and len(given) == 1 else otherwise,
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
        self._frontiers = range(released.number, released.number + self._count)
        self.most = sum(prod(key.size for key in own) for own in released.sets)
        found = any(key.finding is not None for key in released.keys)
        self.least = 0 if found else self.most
        if self._count == 1:
            self._alias = f"f{released.number}"
            self.rows = [(f'"{self._alias}"."row"', released.number)]
        else:
            self._alias = opener.alias()
            self.rows = [(f'"{self._alias}"."r{i}"', f) for i, f in enumerate(self._frontiers)]

    @property
    def unique(self) -> Sequence[str]:
        """The keys of the one grouping: each group is one row."""
        keys = self.released.sets[0] if self._count == 1 else ()
        return [self._released(key.column).sql for key in keys]

    def text(self) -> str:
        """Name the released table; or put those of several groupings together."""
        if self._count == 1:
            return f'"{self._alias}"'
        arms = [self._arm(at, keys) for at, keys in enumerate(self.released.sets)]
        return f'({" UNION ALL ".join(arms)}) AS "{self._alias}"'

    def _arm(self, at: int, own: tuple[Key, ...]) -> str:
        """Write the rows of one grouping, with columns for what it has not."""
        columns, here = [], {key.column for key in own}
        for i, key in enumerate(self.released.keys):
            missing = key.column not in here
            value = "NULL" if missing else f'"{key.column}"'
            columns.append(f'{value} AS "{key.column}", {int(missing)} AS "g{i}"')
        columns += [f'"{call.column}"' for call in self.released.calls.found]
        for i in range(self._count):
            number = '"row"' if i == at else "CAST(NULL AS BIGINT)"
            columns.append(f'{number} AS "r{i}"')
        return f'SELECT {", ".join(columns)} FROM "f{self._frontiers[at]}"'

    def _released(self, column: str, origins: tuple[Origin, ...] = ()) -> Value:
        sql, kind = f'"{self._alias}"."{column}"', self.released.kind(column)
        narrow = not origins or kind is not Kind.DECIMAL
        longest = self.released.longest(column)
        own = Value(sql, kind, safe=True, origins=origins, narrow=narrow, longest=longest)
        return replace(own, noiseless=not origins)

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
        if isinstance(node, exp.Column | exp.Window) or not self.released.of_rows(node):
            return None
        key = self.released.key(node)
        return None if key is None else self._released(key)

    def aggregate(self, node: exp.Expr, name: str) -> Value:
        """Return which groups are missing; other aggregates over rows would be exact."""
        if name == GROUPING:
            return self._grouping(node)
        inner = next(filter(is_call, node.walk()), None)
        if inner is not None:
            shown = self.released.query(f"{self.spans.text(inner)} AS n")
            remedy = f"SELECT {name}(n) FROM ({shown})"
            label = "each group is one row here"
            raise outside(f"{name} of released values", self.spans.of(node), label, remedy)
        self.refuse_function(node.this if isinstance(node, exp.Filter) else node, name)

    def _grouping(self, node: exp.Expr) -> Value:
        keys = [self._released(key.column).sql for key in self.released.keys]
        bits = reversed(asked_keys(self, node, keys))
        parts = [f'{2**i} * "{self._alias}"."g{at}"' for i, at in enumerate(bits)]
        whole = f"({' + '.join(parts)})" if self._count > 1 else "0"
        return Value(f"CAST({whole} AS BIGINT)", Kind.INTEGER, safe=True, noiseless=True)

    def refuse_function(self, call: exp.Expr, name: str) -> NoReturn:
        """Refuse an exact aggregate, or an unknown function."""
        self.released.refuse_function(call, name)


class Groups(Base):
    """Groups of rows: their keys, and aggregates."""

    below: Rows

    def __init__(self, below: Rows, sets: list[list[exp.Expr]], kept: list[Value]) -> None:
        super().__init__(below.opener, below.aliases)
        self.below = below
        self._kept = kept
        self._alias = below.opener.alias()
        groupings = [[below.value(node) for node in nodes] for nodes in sets]
        self.keys = list({key.sql: key for keys in groupings for key in keys}.values())
        texts = [key.sql for key in self.keys]
        self._sets = [[texts.index(key.sql) + 1 for key in keys] for keys in groupings]
        """The places of the keys in each grouping."""
        self._kinds = {type(node) for nodes in sets for node in nodes}
        self._aggregates: list[str] = []
        self.rows = []  # a group is of many rows
        self.most = sum(below.most if places else 1 for places in self._sets)

    @property
    def unique(self) -> Sequence[str]:
        """The keys of the one grouping: each group is one row."""
        places = self._sets[0] if len(self._sets) == 1 else ()
        return [f'"{self._alias}"."g{at - 1}"' for at in places]

    @property
    def chosen(self) -> Base:
        """The rows in the groups."""
        return self.below

    def text(self) -> str:
        """Write the grouping as a query."""
        parts = [f'{key.total} AS "g{i}"' for i, key in enumerate(self.keys)]
        parts += [f'{sql} AS "a{i}"' for i, sql in enumerate(self._aggregates)]
        listed, source = ", ".join(parts) or 'count(*) AS "n"', self.below.source(self._kept)
        return f'(SELECT {listed}{source}{self._grouped}) AS "{self._alias}"'

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
        if key is None and self.below.from_.find(node) is not None:
            name, span = self.spans.text(node), self.spans.of(node)
            raise outside(f"{name} in a group", span, "not in GROUP BY", f"max({name})")
        return key or found

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
        if name == GROUPING:
            names = [f'"{self._alias}"."g{at}"' for at in range(len(self.keys))]
            asked = [self.keys[at].total for at in asked_keys(self, node, names)]
            sql = f"GROUPING({', '.join(asked)})"
            found = Value(sql, Kind.INTEGER, safe=True, narrow=True, noiseless=True)
        else:
            found = aggregated(self.below, AGGREGATES[name], node, len(self._sets))
        if found.sql not in self._aggregates:
            self._aggregates.append(found.sql)
            self.opener.require_texts(found.grown or 0, self.spans.of(node))
        return replace(found, sql=f'"{self._alias}"."a{self._aggregates.index(found.sql)}"')


class Windowed(Expressions):
    """What stands above window functions: these, and columns of the stage below."""

    below: Base

    def __init__(self, below: Base) -> None:
        super().__init__(below.opener, below.aliases)
        self.below = below
        self._alias = below.opener.alias()
        self._lifted: dict[str, str] = {}

    @property
    def rows(self) -> list[tuple[str, int]]:
        """Row numbers of frontiers, as they stand here."""
        return [(self._lift(sql), frontier) for sql, frontier in self.below.rows]

    def source(self, kept: list[Value]) -> str:
        """Write FROM: the stage below, with all that is taken from it."""
        listed = ", ".join(f'{sql} AS "{name}"' for sql, name in self._lifted.items())
        return f' FROM (SELECT {listed}{self.below.source(kept)}) AS "{self._alias}"'

    def lifted(self, value: Value) -> Value:
        """Return a value of the stage below as it stands here."""
        if value.constant is not None:
            return value
        return replace(value, sql=self._lift(value.total), safe=True, size=1, depth=1)

    def _lift(self, sql: str) -> str:
        name = self._lifted.setdefault(sql, f"v{len(self._lifted)}")
        return f'"{self._alias}"."{name}"'

    def window(self, node: exp.Window) -> Value:
        """Compute a window function over the rows of the stage below."""
        found = windowed(self.below, node)
        return replace(found, sql=self._lift(found.sql))
