"""SUMMARIZE: some rows in the shape of DuckDB's SUMMARIZE, a line for each of their columns.

It is written anew as one SELECT of plain aggregates, which share what the statement may spend,
and of what is computed from them: no rule, mechanism or charge is about it. COUNT, AVG and
STDDEV of a column are one draw (`functions/moments/joint.py`), and its ends and quartiles one
list. EXPLAIN shows each call with its share.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dpquery.core.source_text import Source, Span
from dpquery.core.types import NUMERIC, Kind
from dpquery.errors import QueryRefused, refusal
from dpquery.ir.expr import ColumnRef, Expr
from dpquery.sql.bind.from_clause import Derived
from dpquery.sql.bind.scope import fold, written_name
from dpquery.sql.commands import LONGEST, NAME, start_of
from dpquery.sql.parse.parser import parse
from dpquery.sql.postprocess.from_clause import Open
from dpquery.sql.postprocess.sql_fragments import NAMES

_VERB = re.compile(r"SUMMARIZE\s+(?:TABLE\s+)?", re.IGNORECASE | re.ASCII)
_OPTIONS = re.compile(r"OPTIONS\s*\([^()]*\)", re.IGNORECASE | re.ASCII)
_QUERY = re.compile(r"(?:SELECT|WITH|FROM)\b|\(", re.IGNORECASE | re.ASCII)
_ROWS = "summarized"
_SHARES = "[0, 0.25, 0.5, 0.75, 1]"
_ORDERED = NUMERIC | {Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ}
_TOP = 3
"""How many of a column's public values are shown: those that most rows have."""
MOST_COLUMNS = 50
_SHOWN = (
    "column_name, column_type, min, max, approx_unique, avg, std, q25, q50, q75, count, "
    "null_percentage, top_values"
)


@dataclass(frozen=True, slots=True)
class Summary:
    """The statement: which rows, and what it may spend if it says so itself."""

    source: Source
    rows: str
    span: Span
    options: str

    @property
    def reading(self) -> Source:
        """A statement that reads the rows as a name of WITH."""
        return Source(f"WITH {self._named} SELECT * FROM {_ROWS}")

    @property
    def _named(self) -> str:
        query = f"SELECT * FROM {self.rows}" if self._is_named else self.rows
        return f"{_ROWS} AS ({query}\n)"  # a comment may stand at its end

    def require_rows(self) -> None:
        """Require that the rows are a name or a query.

        Raises:
            SyntaxRefused: DPQ106, or what the parser refuses.
        """
        if self._is_named:
            return
        if _QUERY.match(self.rows) is None:
            remedy = f"SUMMARIZE SELECT * FROM {self.rows} {self.options}".rstrip()
            why = "it takes a table, a view or a query."
            title = "SUMMARIZE of this is not a statement here"
            raise self._refused("DPQ106", title, "no name and no query", why, remedy)
        parse(Source(" " * self.span.start + self.rows, self.source.name))

    def require_price(self, *, known: bool) -> None:
        """Require that somebody said what it may spend.

        Raises:
            NameRefused: DPQ203.
        """
        if not (known or self.options):
            raise self._refused(
                "DPQ203",
                "SUMMARIZE needs an epsilon",
                "how much may it spend?",
                "one epsilon is shared by all that is asked of the columns.",
                f"{self._statement} OPTIONS(epsilon=1)",
            )

    def written(self, found: Derived | Open) -> Source:
        """Return the query that it means.

        Raises:
            RuleRefused: DPQ303 the rows are no private ones.
            PlanRefused: DPQ409 they have too many columns.
        """
        if not isinstance(found, Derived):
            why = "public tables, and what was released, are read as they are."
            remedy = f"SELECT * FROM {self._item}"
            raise self._refused("DPQ303", "nothing here is private", "these rows", why, remedy)
        if len(found.columns) > MOST_COLUMNS:
            columns = ", ".join(map(written_name, list(found.columns)[:MOST_COLUMNS]))
            title = f"SUMMARIZE takes up to {MOST_COLUMNS} columns"
            label, why = f"{len(found.columns)} columns", "they share one epsilon."
            remedy = f"SUMMARIZE SELECT {columns} FROM {self._item} {self.options}".rstrip()
            raise self._refused("DPQ409", title, label, why, remedy)
        calls, lines = ["COUNT(*) AS n"], []
        for at, (name, expr) in enumerate(found.columns.items()):
            column = _Column(at, name, expr, of_units=fold(name) in found.owners)
            calls += [f"{call} AS {alias}" for alias, call in column.calls.items()]
            lines.append(column.line)
        clause = f" WITH DIFFERENTIAL_PRIVACY {self.options}" if self.options else ""
        said = f"said AS (SELECT{clause} {', '.join(calls)} FROM {_ROWS})"
        lined = f"SELECT {_SHOWN} FROM ({_united(lines)}) ORDER BY place"
        return Source(f"WITH {self._named}, {said} {lined}", self.source.name)

    def told(self, refused: QueryRefused) -> QueryRefused:
        """Have a refusal of that query speak of this statement, if it is not its own."""
        if refused.source is self.source:
            return refused
        found, options = refused.diagnostic, self.options or "OPTIONS(epsilon=1)"
        remedy = found.remedy
        if refused.code == "DPQ201":
            names = (one.replace("FROM ", "SUMMARIZE ", 1) for one in remedy[:1])
            remedy = (*(f"{one} {options}" for one in names), *remedy[1:])
        elif refused.code == "DPQ205":
            remedy = (f"{self._statement} OPTIONS(epsilon=1)",)
        elif refused.code == "DPQ407":
            remedy = (f"{self._statement} {options[:-1]}, max_rows_contributed=5)",)
        refused.diagnostic = replace(found, span=self._placed(found.span), remedy=remedy)
        refused.source = self.source
        return refused

    def _placed(self, span: Span | None) -> Span:
        """Return where a part of the rows stands in this statement; else, all of them."""
        before = len(f"WITH {_ROWS} AS (")
        if (
            span is None
            or self._is_named
            or not before <= span.start < span.end <= before + len(self.rows)
        ):
            return self.span
        moved = self.span.start - before
        return Span(span.start + moved, span.end + moved)

    @property
    def _statement(self) -> str:
        return f"SUMMARIZE {self.rows}"

    @property
    def _item(self) -> str:
        return self.rows if self._is_named else f"({self.rows})"

    @property
    def _is_named(self) -> bool:
        return NAME.fullmatch(self.rows) is not None

    def _refused(
        self, code: str, title: str, label: str, why: str, remedy: str
    ) -> QueryRefused:
        refused = refusal(code, title, self.span, label, why, remedy)
        refused.source = self.source
        return refused


def read_summary(source: Source) -> Summary | None:
    """Return a statement that summarizes rows; None of any other.

    Raises:
        QueryRefused: its rows are neither a name nor a query.
    """
    text = source.text[:LONGEST]
    verb = _VERB.match(text, start_of(text))
    if verb is None:
        return None
    rows, end = text[verb.end() :].rstrip(" \t\r\n;"), verb.end()
    at = rows.upper().rfind("OPTIONS")
    options = rows[at:] if at > 0 and _OPTIONS.fullmatch(rows[at:]) else ""
    rows = rows.removesuffix(options).rstrip()
    found = Summary(source, rows, Span(end, end + len(rows)), options)
    found.require_rows()
    return found


@dataclass(frozen=True, slots=True)
class _Column:
    """A column: what is asked of it, and what is shown."""

    place: int
    name: str
    expr: Expr
    of_units: bool
    """Whether it says whose row it is: then only how many there are is told."""

    @property
    def calls(self) -> dict[str, str]:
        """The aggregates that are asked, by their aliases."""
        return {f"{letter}{self.place}": call for letter, call in self._calls()}

    def _calls(self) -> Iterator[tuple[str, str]]:
        kind, name = self.expr.type.kind, written_name(self.name)
        yield "n", f"COUNT({name})"
        if kind in NUMERIC and not self.of_units:
            yield "m", f"AVG({name})"
            yield "s", f"STDDEV({name})"
        if kind in _ORDERED and not self.of_units:
            yield "q", f"QUANTILE_DISC({name}, {_SHARES})"
        if kind is not Kind.DOUBLE:
            yield "u", f"COUNT(DISTINCT {name})"
        keys = self.expr.keys if isinstance(self.expr, ColumnRef) else None
        known = [one for one in keys or () if one is not None]
        if len(known) > 1 and not self.of_units:
            yield "t", f"DP_TOP_K({name}, {min(_TOP, len(known) - 1)})"

    @property
    def line(self) -> str:
        """What is shown of it, as a SELECT."""
        calls, at = self.calls, self.place
        share = f"LEAST(GREATEST(100 * (1 - n{at} / n), 0), 100)"
        shown = {
            "place": str(at),
            "column_name": _text(self.name),
            "column_type": _text(self._type),
            "min": self._quantile(1),
            "max": self._quantile(5),
            "approx_unique": f"u{at}" if f"u{at}" in calls else "CAST(NULL AS BIGINT)",
            "avg": f"m{at}" if f"m{at}" in calls else "CAST(NULL AS DOUBLE)",
            "std": f"s{at}" if f"s{at}" in calls else "CAST(NULL AS DOUBLE)",
            "q25": self._quantile(2),
            "q50": self._quantile(3),
            "q75": self._quantile(4),
            "count": f"n{at}",
            "null_percentage": f"ROUND({share}, 2)",
            "top_values": f"CAST(t{at} AS TEXT)" if f"t{at}" in calls else "CAST(NULL AS TEXT)",
        }
        return (
            f"SELECT {', '.join(f'{sql} AS {name}' for name, sql in shown.items())} FROM said"
        )

    def _quantile(self, at: int) -> str:
        found = f"q{self.place}" in self.calls
        return f"CAST(q{self.place}[{at}] AS TEXT)" if found else "CAST(NULL AS TEXT)"

    @property
    def _type(self) -> str:
        type_ = self.expr.type
        if type_.kind is Kind.DECIMAL:
            return f"DECIMAL(18,{type_.scale})"
        return "VARCHAR" if type_.kind is Kind.TEXT else NAMES[type_.kind]


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _united(lines: list[str]) -> str:
    """Write UNION ALL of many queries as a tree of little depth."""
    if len(lines) == 1:
        return lines[0]
    half = len(lines) // 2
    return f"({_united(lines[:half])}) UNION ALL ({_united(lines[half:])})"
