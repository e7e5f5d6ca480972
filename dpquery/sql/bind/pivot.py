"""PIVOT: columns for the values of a column.

`PIVOT staff ON dept USING DP_AVG(salary, eps=1) GROUP BY remote` releases the groups of

    SELECT dept, remote, DP_AVG(salary, eps=1) FROM staff WHERE dept IS NOT NULL GROUP BY ALL

once, and shows those of each dept in a column. A call is charged once, since each row is in one
cell alone: for what is released, it is that query, and columns are made of its result.

Nothing is released of rows of one unit, of public rows and of results. There each column is an
aggregate of its own, `AVG(x) FILTER (WHERE dept = 'eng') AS eng`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import reduce
from itertools import product
from math import prod
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.core.text_table import value_text
from dpquery.core.types import Kind, Type, decimal_value
from dpquery.errors import QueryRefused, advice, refusal
from dpquery.functions.example_bounds import example_values
from dpquery.ir.expr import Scalar
from dpquery.ir.query import Frontier
from dpquery.sql.bind.scope import fold, is_call, written_name
from dpquery.sql.parse.literals import read_literal, unwrapped
from dpquery.sql.parse.spans import Spans, mended, outside, too_large
from dpquery.sql.postprocess.from_clause import Open, OpenColumn
from dpquery.sql.postprocess.sql_fragments import NAMES, text

RELEASED = "released"
"""What a SELECT notes whose rows are of several units: it shows results, or is refused."""
MOST_COLUMNS = 1_000
"""Columns that one PIVOT makes."""
MOST_LOOKED_FOR = 800
"""Values and numbers of rows that the cells of one group have: the engine takes as long as
their square, and what runs out of time then was charged."""
MOST_LOOKED_AT = 30_000_000
"""The same, in every row that was released."""
_NAMING = {*NAMES, Kind.DECIMAL} - {Kind.DOUBLE}
"""Of which kind values can be that columns are named after."""
_EXAMPLE = "'a', 'b'"
_COLUMNS = advice("compute them in a query in place of the table, and GROUP BY its columns")
_WHY = "PIVOT makes a column for each value, so they are known before anything is read."


@dataclass(frozen=True, slots=True)
class _Value:
    """A value of ON, and what the columns for it are called."""

    label: str
    node: exp.Expr | None = None
    """As it is written; None where it is known from the policy."""
    value: Scalar | None = None


class Pivot:
    """One PIVOT as it is written, and the queries that it means."""

    def __init__(self, node: exp.Expr, spans: Spans) -> None:
        self.spans = spans
        pivots: list[exp.Pivot] = node.args["pivots"]
        self._pivot = pivot = pivots[0]
        self.alias = pivot.args.get("alias")
        if len(pivots) > 1:
            span, remedy = (
                spans.of(pivots[1]),
                advice("write SELECT * FROM (SELECT ...) PIVOT (...)"),
            )
            raise outside("PIVOT of a PIVOT", span, "the second one", remedy)
        self.source = node.copy()
        self.source.set("pivots", None)
        self._calls: list[exp.Expr] = pivot.expressions
        self._on = [one.this if isinstance(one, exp.In) else one for one in pivot.fields]
        self._given = [
            self._listed(one) if isinstance(one, exp.In) else None for one in pivot.fields
        ]
        for one in self._on:
            parts = list(one.walk())
            if not one.find(exp.Column) or any(is_call(n) or n.alias for n in parts):
                raise outside("PIVOT ON this", spans.of(one), "no column", "ON a column")
        for call in self._calls:
            if isinstance(call.unalias(), exp.Filter):  # DuckDB reads it, and leaves it out
                remedy = advice("write a query with WHERE in place of the table")
                raise outside("FILTER in a PIVOT", spans.of(call), "not understood", remedy)
        if not self._on:
            remedy = advice("write ON a column, USING DP_COUNT(*, eps=0.5)")
            raise outside("PIVOT without ON", spans.of(pivot), "of which column?", remedy)
        if not self._calls:
            end = Span(*[spans.of(pivot.fields[-1]).end] * 2)
            using = " USING DP_COUNT(*, eps=0.5)"
            remedy = mended(spans.source, end, using, using.strip())
            raise outside("PIVOT without USING", spans.of(pivot), "shows what?", remedy)

    def _listed(self, node: exp.In) -> list[_Value]:
        """Read the values that are written."""
        found: dict[str, _Value] = {}
        for one in node.expressions:
            alias, value = one.args.get("alias"), unwrapped(one.unalias())
            span = self.spans.of(one)
            literal = read_literal(value, span)
            if literal is None or not (alias is None or isinstance(alias, exp.Identifier)):
                raise outside("PIVOT ON ... IN this", span, "not a value", "IN ('a', 'b')")
            label = value_text(literal.value) if alias is None else alias.name
            if fold(label) in found:
                self._refuse_twice(label, span, advice("name each value once"))
            found[fold(label)] = _Value(label, value, literal.value)
        if not found:
            raise outside("IN of a query", self.spans.of(node), "no values", "IN ('a', 'b')")
        return list(found.values())

    def groups(self, columns: Sequence[str], units: frozenset[str]) -> list[exp.Expr]:
        """Return what rows stand for: GROUP BY, or all columns that nothing else names.

        Raises:
            PlanRefused: DPQ402 these are a unit's own values too.
        """
        group = self._pivot.args.get("group")
        if group is not None:
            for one in group.expressions or [group]:
                if not isinstance(one, exp.Column):
                    if not isinstance(
                        one, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Group
                    ):
                        self._refuse_computed(one, set(map(fold, columns)))
                    raise outside(
                        "GROUP BY this in a PIVOT", self.spans.of(one), "no column", _COLUMNS
                    )
            return [one.copy() for one in group.expressions]
        named = [n for one in (*self._on, *self._calls) for n in one.find_all(exp.Column)]
        used = {fold(one.name) for one in named}
        left = [name for name in columns if fold(name) not in used]
        if found := [name for name in left if fold(name) in units]:
            self._refuse_units(found, [name for name in columns if fold(name) in used])
        return [exp.column(exp.to_identifier(name, quoted=True)) for name in left]

    def _refuse_units(self, units: Sequence[str], used: Sequence[str]) -> NoReturn:
        spans, source = self.spans, self.source
        span, name = spans.of(source), spans.text(source)
        inner = f"(SELECT {', '.join(map(written_name, used))} FROM {name})"
        title = "PIVOT without GROUP BY makes a row for each unit"
        label = f"has the unit column {', '.join(units)}"
        why = "it groups by all columns that it does not name, and one of them is a unit's."
        fewer = mended(spans.source, span, inner, inner)
        others = "or say what a row stands for: GROUP BY, with columns that are public"
        raise refusal("DPQ402", title, span, label, why, (fewer, others))

    @property
    def asks(self) -> bool:
        """Whether DP_ functions are asked."""
        return any(is_call(node) for one in self._calls for node in one.walk())

    def released(self, groups: Sequence[exp.Expr]) -> exp.Select:
        """Write the query that releases all cells, each in a row."""
        conditions = [
            exp.Not(this=exp.Is(this=on.copy(), expression=exp.Null()))
            if values is None
            else exp.In(this=on.copy(), expressions=_nodes(values))
            for on, values in zip(self._on, self._given, strict=True)
        ]
        shown = [_named(f"on {at}", on) for at, on in enumerate(self._on)]
        shown += [_named(f"group {at}", one) for at, one in enumerate(groups)]
        shown += [_named(f"cell {at}", one.unalias()) for at, one in enumerate(self._calls)]
        select = self._select(shown, [*self._on, *groups])
        select.set("where", exp.Where(this=_together(conditions)))
        select.meta[RELEASED] = True
        return select

    def filtered(self, groups: Sequence[exp.Expr]) -> exp.Select:
        """Write the query that computes each column on its own.

        Raises:
            SyntaxRefused: DPQ102 the values are not written.
        """
        for on, values in zip(self._on, self._given, strict=True):
            if values is None:
                self._refuse_unknown(on)
        shown = [one.copy() for one in groups]
        for cell in self._cells([values or [] for values in self._given]):
            asked = [
                exp.EQ(this=on.copy(), expression=one.node.copy())
                for on, one in zip(self._on, cell, strict=True)
                if one.node is not None
            ]
            for name, call in zip(self._names(cell), self._calls, strict=True):
                shown.append(_named(name, _filter(call.unalias(), asked)))
        return self._select(shown, groups)

    def _select(self, shown: Sequence[exp.Expr], groups: Sequence[exp.Expr]) -> exp.Select:
        select = exp.Select(expressions=list(shown), from_=exp.From(this=self.source))
        if groups:
            select.set("group", exp.Group(expressions=[one.copy() for one in groups]))
        return select

    def _cells(self, values: Sequence[Sequence[_Value]]) -> list[tuple[_Value, ...]]:
        """Return the values that each column stands for."""
        most, span = prod(map(len, values)) * len(self._calls), self.spans.of(self._pivot)
        if most > MOST_COLUMNS:
            title = f"this would make {most:,} columns"
            remedy = advice(f"name fewer values: {self.spans.text(self._on[0])} IN (...)")
            raise too_large(title, span, f"more than {MOST_COLUMNS:,}", _WHY, remedy)
        found = list(product(*values))
        names = Counter(fold(name) for cell in found for name in self._names(cell))
        ((twice, times),) = names.most_common(1)
        if times > 1:
            named = advice("name what PIVOT shows: DP_COUNT(*, eps=0.5) AS n")
            self._refuse_twice(twice, span, named)
        return found

    def _refuse_twice(self, name: str, span: Span, remedy: str) -> NoReturn:
        title, why = f"two columns are called {name[:40]}", "columns are found by their names."
        raise refusal("DPQ211", title, span, "the second one", why, remedy)

    def _names(self, cell: Sequence[_Value]) -> Iterator[str]:
        """Return the names of the columns of a cell, as DuckDB has them."""
        label = "_".join(one.label for one in cell)
        for call in self._calls:
            inner = call.unalias()
            name = call.alias
            if not name and len(self._calls) > 1:
                name = str(inner.this).lower() if is_call(inner) else self.spans.text(inner)
            yield f"{label}_{name}" if name else label

    def shown(
        self, found: Open, frontier: Frontier, alias: str, groups: Sequence[exp.Expr]
    ) -> Open:
        """Return what was released, with the cells of each group beside one another.

        There is one row for each cell, so `first` returns a value as it was released; and each
        cell has the number of its row, by which its noise is known.
        """
        cells = self._cells([self._known(at, frontier) for at in range(len(self._on))])
        self._require_public(frontier, groups)
        self._require_few(len(cells) * (len(self._calls) + 1), found.most)
        first, last = len(self._on), len(self._on) + len(groups)
        parts = [f'"{alias}".{one.sql}' for one in found.columns[first:last]]
        columns = [
            replace(one, name=group.name)
            for group, one in zip(groups, found.columns[first:last], strict=True)
        ]
        numbers = []
        for number, cell in enumerate(cells):
            here = " AND ".join(
                f'"{alias}".{key.sql} = {_literal(key, one.value)}'
                for key, one in zip(found.columns[:first], cell, strict=True)
            )
            numbers.append(f'first("{alias}"."r0") FILTER (WHERE {here}) AS "r{number}"')
            for name, one in zip(self._names(cell), found.columns[last:], strict=True):
                parts.append(f'first("{alias}".{one.sql}) FILTER (WHERE {here})')
                origins = tuple(replace(origin, row=number) for origin in one.origins)
                columns.append(replace(one, name=name, origins=origins))
        listed = [f'{part} AS "c{at}"' for at, part in enumerate(parts)]
        sql = f'SELECT {", ".join([*listed, *numbers])} FROM {found.source} AS "{alias}"'
        if groups:
            sql += f" GROUP BY {', '.join(str(at + 1) for at in range(len(groups)))}"
        columns = [replace(one, sql=f'"c{at}"') for at, one in enumerate(columns)]
        hidden, unique = found.hidden * len(cells), frozenset(range(len(groups)))
        most = found.most if groups else 1
        return Open(f"({sql})", tuple(columns), hidden, most=most, unique=unique)

    def _require_few(self, values: int, rows: int) -> None:
        """Require, before the charge, that there is time to find what the cells have."""
        if values <= MOST_LOOKED_FOR and values * rows <= MOST_LOOKED_AT:
            return
        title = f"this would look for {values:,} values among {rows:,} rows"
        span = self.spans.of(self._pivot)
        remedy = advice(f"name fewer values: {self.spans.text(self._on[0])} IN (...)")
        why = "each column is looked for among all that is released."
        raise too_large(title, span, "more than there is time for", why, remedy)

    def _require_public(self, frontier: Frontier, groups: Sequence[exp.Expr]) -> None:
        """Require that rows of the result are groups that are public, and no columns too."""
        for key in frontier.keys:
            if key.finding is not None:
                self._refuse_group(key.span, example_values(key.expr.type))
        known = {key.span for key in frontier.keys}
        for one in groups:
            if _is_written(one) and self.spans.of(one) not in known:
                self._refuse_repeat(one)

    def _known(self, at: int, frontier: Frontier) -> list[_Value]:
        """Return the values of ON that have columns: as written, or as the policy has them."""
        on = self._on[at]
        key = next((key for key in frontier.keys if key.span == self.spans.of(on)), None)
        if key is None:
            self._refuse_repeat(on)
        type_, listed = key.expr.type, [one for one in key.listed if one is not None]
        known = {value_text(one): _Value(_label(one, type_), None, one) for one in listed}
        if not known or type_.kind not in _NAMING:
            self._refuse_unknown(on, example_values(type_))
        given, found = self._given[at], []
        for one in [*known.values()] if given is None else given:
            written = value_text(one.value)
            if written not in known:
                self._refuse_value(one, next(iter(known)))
            named = one.label if one.label != written else known[written].label
            found.append(replace(known[written], label=named))
        return found

    def _refuse_computed(self, node: exp.Expr, known: set[str]) -> NoReturn:
        """Refuse to group by what is no column; offer it as one of a query."""
        text, source = self.spans.source.text, self.spans.of(self.source)
        span = self.spans.of(node)
        named = [n for one in (*self._on, *self._calls) for n in one.find_all(exp.Column)]
        listed = dict.fromkeys(self.spans.text(n) for n in named if fold(n.name) in known)
        made = f"{self.spans.text(node)} AS part"
        inner = f"(SELECT {', '.join([*listed, made])} FROM {self.spans.text(self.source)})"
        query = text[: source.start] + inner + text[source.end : span.start]
        remedy = _COLUMNS if "\n" in text.strip() else f"{query}part{text[span.end :]}".strip()
        why = "each row of the result is of one value of each of them."
        title = "PIVOT groups by columns only"
        raise refusal("DPQ102", title, span, "no column", why, remedy)

    def _refuse_repeat(self, node: exp.Expr) -> NoReturn:
        span, label = self.spans.of(node), "another one is the same"
        raise outside("a column twice in a PIVOT", span, label, advice("leave it out"))

    def _refuse_value(self, one: _Value, other: str) -> NoReturn:
        span = self.spans.of(one.node or self._pivot)
        title = f"{one.label[:40]} is not how a value of this column is written"
        raise refusal("DPQ205", title, span, "not among its values", _WHY, f"as in '{other}'")

    def _refuse_unknown(self, on: exp.Expr, example: str = "") -> NoReturn:
        """Refuse values that nobody has named."""
        span, name = self.spans.of(on), self.spans.text(on)
        title = f"PIVOT has to know the values of {name[:40]}"
        named = f"{name} IN ({example or _EXAMPLE})"
        remedy = mended(self.spans.source, span, named, f"ON {named}")
        lines = [remedy]
        if isinstance(on, exp.Column) and isinstance(self.source, exp.Table):
            groups = f"DP_KEYS({name}, eps=0.5, delta=1e-7)"
            lines.append(
                f"or find them first: SELECT {groups} FROM {self.spans.text(self.source)}"
            )
        raise refusal("DPQ402", title, span, "which columns?", _WHY, tuple(lines))

    def _refuse_group(self, span: Span, example: str) -> NoReturn:
        """Refuse rows of the result that the data would show."""
        name, source = self.spans.source.snippet(span), self.spans.text(self.source)
        title = f"PIVOT has to know the groups of {name[:40]}"
        inner = f"(SELECT * FROM {source} WHERE {name} IN ({example or _EXAMPLE}))"
        remedy = mended(self.spans.source, self.spans.of(self.source), inner, inner)
        why = "a value that appears shows that somebody has it, so the groups are named before."
        raise refusal("DPQ402", title, span, "private grouping column", why, remedy)

    def refuse_private(self, refused: QueryRefused) -> None:
        """Refuse groups that are not public in the words of PIVOT, which has no WHERE."""
        if refused.code != "DPQ402":
            return
        given = re.match(r"WHERE .+? IN \((.+?)\)", refused.diagnostic.remedy[0])
        span, example = refused.diagnostic.span, "" if given is None else given[1]
        for on, values in zip(self._on, self._given, strict=True):
            if values is None and self.spans.of(on) == span:
                self._refuse_unknown(on, example)
        if given is not None and span is not None:
            self._refuse_group(span, example)


def _nodes(values: Sequence[_Value]) -> list[exp.Expr]:
    return [one.node.copy() for one in values if one.node is not None]


def _named(name: str, value: exp.Expr) -> exp.Alias:
    return exp.Alias(this=value.copy(), alias=exp.to_identifier(name, quoted=True))


def _is_written(column: exp.Expr) -> bool:
    """Return whether a group stands in the text; else it is one of those that are left."""
    return "start" in column.this.meta


def _together(conditions: Sequence[exp.Expr]) -> exp.Expr:
    return reduce(lambda one, other: exp.And(this=one, expression=other), conditions)


def _filter(call: exp.Expr, asked: Sequence[exp.Expr]) -> exp.Filter:
    """Write an aggregate of the rows of one cell."""
    return exp.Filter(this=call.copy(), expression=exp.Where(this=_together(asked)))


def _label(value: Scalar, type_: Type) -> str:
    """Return what columns for a value are called: as DuckDB prints it."""
    if type_.kind is Kind.DECIMAL and isinstance(value, int | Fraction):
        return value_text(decimal_value(int(value * 10**type_.scale), type_.scale))
    return value_text(value)


def _literal(column: OpenColumn, value: Scalar | None) -> str:
    """Write a value for the engine, in the type of its column."""
    kind, written = column.kind or Kind.TEXT, value_text(value)
    if kind is Kind.DECIMAL:
        return written
    return text(written) if kind is Kind.TEXT else f"CAST({text(written)} AS {NAMES[kind]})"
