"""Trees for the second engine: how large they grow, how they are written, how many rows.

Everything here is about text that the engine will read; nothing is looked up, and a tree is
never changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, NameRefused
from dpquery.sql.spans import Spans

__all__ = ["depth", "expanded", "joined", "row_count", "total"]

MAX_LIMIT = 2**31 - 1


def depth(tree: exp.Expr) -> int:
    """Measure nesting, level by level."""
    level, found = [tree], 0
    while level:
        level, found = [part for node in level for part in node.iter_expressions()], found + 1
    return found


def total(tree: exp.Expr) -> str:
    """Write an expression so that it cannot raise: NULL where DuckDB would stop."""
    text: str = tree.sql(dialect="duckdb", identify=True, comments=False)
    plain = exp.Column | exp.Literal | exp.Boolean | exp.Null
    return text if isinstance(tree.unnest(), plain) else f"TRY({text})"


def expanded(tree: exp.Expr) -> int:
    """Count the nodes of a tree as the engine expands it; what was counted is not opened."""
    size = 1
    for child in tree.iter_expressions():
        known = child.meta.get("size")
        size += expanded(child) if known is None else known
    match tree:
        case exp.Between() | exp.Nullif():  # the engine writes their operand twice
            size += tree.this.meta.get("size", 1)
    return size


def joined(kind: type[exp.Expr], parts: Sequence[exp.Expr]) -> exp.Expr:
    """Write AND or OR of many parts as a tree of little depth, because engines recurse too."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return kind(this=joined(kind, parts[:half]), expression=joined(kind, parts[half:]))


def row_count(node: exp.Expr, slot: str, spans: Spans) -> str:
    """Write LIMIT or OFFSET.

    Raises:
        NameRefused: DPQ207 not a whole number.
    """
    digits = str(node.this) if isinstance(node, exp.Literal) and not node.is_string else ""
    digits = digits.lstrip("0") or digits[:1]
    if not digits.isdigit() or len(digits) > 10 or int(digits) > MAX_LIMIT:
        raise NameRefused(
            Diagnostic(
                "DPQ207",
                f"{slot.upper()} must be a whole number",
                spans.of(node),
                "not a whole number",
                ("it is read from the text before anything is computed.",),
                (f"{slot.upper()} 10",),
            )
        )
    return f"{slot.upper()} {int(digits)}"
