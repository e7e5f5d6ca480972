"""Names of schemas before those of tables, as other engines have them: `public.staff`.

There is one table of each name here, whatever stands before it. So that no two tables of
another engine are read as one, it has to be the same wherever a statement names the table.
"""

from __future__ import annotations

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.errors import refusal
from dpquery.sql.bind.scope import fold
from dpquery.sql.parse.spans import Spans


def read_schemas(tree: exp.Expr, spans: Spans) -> None:
    """Require that each table has one schema, and leave out that of columns.

    Raises:
        NameRefused: DPQ201 a table with two.
    """
    known: dict[str, exp.Table] = {}
    for table in tree.find_all(exp.Table):
        if not table.args.get("db"):
            continue
        first = known.setdefault(fold(table.name), table)
        if not (_agree(first, table) or _agree(table, first)):
            span = _span(table, spans)
            written, other = map(spans.source.snippet, (_span(first, spans), span))
            title = f"{written[:80]} and {other[:80]} are one table here"
            why = "there is one table of each name, whatever stands before it."
            raise refusal("DPQ201", title, span, "another schema", why, written)
    for column in tree.find_all(exp.Column):
        meant = known.get(fold(column.table))
        if meant is not None and column.args.get("db") and _agree(meant, column):
            column.set("db", None)
            column.set("catalog", None)


def _span(table: exp.Table, spans: Spans) -> Span:
    """Return where the name of a table stands, without its alias."""
    return Span(spans.of(table.parts[0]).start, spans.of(table.parts[-1]).end)


def _agree(whole: exp.Table | exp.Column, part: exp.Table | exp.Column) -> bool:
    """Return whether what stands before one name ends with what stands before the other."""
    written = _schema(whole), _schema(part)
    return written[0][-len(written[1]) :] == written[1]


def _schema(node: exp.Table | exp.Column) -> list[str]:
    return [fold(name.name) for name in map(node.args.get, ("catalog", "db")) if name]
