"""A star in a SELECT list: all columns, but for those that it leaves out or words otherwise.

    * EXCLUDE (a, b) REPLACE (c / 100 AS c) RENAME (d AS e)

A column is mentioned once at most, by a name that the star stands for: a slip is refused, and
never passes over what was to be left out. Nothing here reads a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.errors import Diagnostic, NameRefused, SyntaxRefused, listed
from dpquery.sql.mending import outside
from dpquery.sql.names import fold
from dpquery.sql.spans import Spans

__all__ = ["Starred", "columns_of", "is_star"]


@dataclass(frozen=True, slots=True)
class Starred:
    """What becomes of a column that a star stands for."""

    name: str
    """As it is called from here on."""
    value: exp.Expr | None = None
    """What stands in its place, if anything does."""


def is_star(item: exp.Expr) -> bool:
    """Say whether an item of a SELECT list stands for several columns."""
    qualified = isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
    return qualified or isinstance(item, exp.Star)


def columns_of(item: exp.Expr, names: Sequence[str], spans: Spans) -> dict[str, Starred]:
    """Give what becomes of each column, by its folded name; what is left out is missing.

    Args:
        item: the star.
        names: all columns that it stands for before it leaves any out.
        spans: where things stand in the text.

    Raises:
        NameRefused: DPQ204 it mentions a column that it does not stand for, or one twice.
        SyntaxRefused: DPQ102 it mentions one by the name of its table, or leaves none.
    """
    star = item.this if isinstance(item, exp.Column) else item
    found = {fold(name): Starred(name) for name in names}
    mentioned: set[str] = set()
    for node, name in _mentions(star, spans):
        known = fold(name)
        if known not in found or known in mentioned:
            _refuse(node, name, [one for one in names if fold(one) not in mentioned], spans)
        mentioned.add(known)
        match node.arg_key:
            case "except_":
                del found[known]
            case "replace":
                found[known] = Starred(found[known].name, node.this)
            case "rename":
                found[known] = Starred(node.alias)
    if mentioned and not found:
        left = "no column is left"
        raise SyntaxRefused(outside("a star of nothing", spans.of(item), left, "SELECT 1"))
    return found


def _mentions(star: exp.Expr, spans: Spans) -> list[tuple[exp.Expr, str]]:
    """Give the parts of EXCLUDE, REPLACE and RENAME, each with the column that it is about."""
    found = [(node, _plain(node, spans)) for node in star.args.get("except_") or ()]
    found += [(node, node.alias) for node in star.args.get("replace") or ()]
    found += [(node, _plain(node.this, spans)) for node in star.args.get("rename") or ()]
    return found


def _plain(node: exp.Expr, spans: Spans) -> str:
    """Give the name of a column that is called by its name alone."""
    if isinstance(node, exp.Column) and not node.table and not is_star(node):
        return node.name
    word = f"{spans.text(node)[:40]} in a star"
    label = "not the name of a column"
    raise SyntaxRefused(outside(word, spans.of(node), label, "SELECT * EXCLUDE (a)"))


def _refuse(node: exp.Expr, name: str, names: Sequence[str], spans: Spans) -> NoReturn:
    raise NameRefused(
        Diagnostic(
            "DPQ204",
            f"there is no column {name[:80]!r} for this star to word otherwise",
            spans.of(node),
            "not among its columns, or mentioned before",
            ("each column is left out, replaced or renamed once at most.",),
            (f"columns here: {listed(names)}" if names else "leave it away",),
        )
    )
