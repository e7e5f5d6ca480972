"""GROUPING(a, b): which of some keys a row is not grouped by, a bit each, the last lowest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpquery.errors import SyntaxRefused
from dpquery.sql.mending import outside

if TYPE_CHECKING:
    from dpquery.sql.above.stages import Base

__all__ = ["asked_keys"]

MOST = 62
"""Keys whose bits fit into a whole number."""


def asked_keys(place: Base, node: exp.Expr, keys: Sequence[str]) -> list[int]:
    """Give the places of the keys that GROUPING asks about.

    Args:
        place: where it stands.
        node: the call.
        keys: the text of each key, as it reads there.

    Raises:
        SyntaxRefused: DPQ102 it asks about something else, or about nothing.
    """
    if isinstance(node, exp.Filter) or not 1 <= len(node.expressions) <= MOST:
        _refuse(place, node, node, "it takes groups, and nothing besides")
    found = []
    for asked in node.expressions:
        value = place.value(asked)
        if value.sql not in keys:
            _refuse(place, node, asked, "not in GROUP BY")
        found.append(keys.index(value.sql))
    return found


def _refuse(place: Base, node: exp.Expr, part: exp.Expr, label: str) -> NoReturn:
    text, select = place.spans.text(part), node.find_ancestor(exp.Select)
    group = None if select is None else select.args.get("group")
    key = None if group is None else group.find(exp.Column)
    remedy = "GROUP BY ROLLUP (...)" if key is None else f"GROUPING({place.spans.text(key)})"
    what = outside(f"GROUPING of {text}"[:60], place.spans.of(part), label, remedy)
    raise SyntaxRefused(what)
