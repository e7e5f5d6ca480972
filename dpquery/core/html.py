"""HTML for notebooks: facts below one another, tables, and how much of a whole is used.

Texts are escaped here, and shown without what could drive a page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from dpquery.core.source import visible, visible_lines


def words(text: object) -> str:
    """Write a text."""
    return escape(visible(str(text)))


def facts(title: str, lines: Mapping[str, object], *more: str) -> str:
    """Write a title, what there is to know below it, and parts that are HTML already."""
    rows = "".join(_row((_cell("th", name), _cell("td", said))) for name, said in lines.items())
    return f"<div><b>{words(title)}</b><table>{rows}</table>{''.join(more)}</div>"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Write a table of texts."""
    head = _row(_cell("th", name) for name in heads)
    body = "".join(_row(_cell("td", cell) for cell in row) for row in rows)
    return f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"


def _row(cells: Iterable[str]) -> str:
    return f"<tr>{''.join(cells)}</tr>"


def _cell(tag: str, text: object) -> str:
    return f'<{tag} style="text-align: left; vertical-align: top">{words(text)}</{tag}>'


def folded(summary: str, text: str) -> str:
    """Write a text of several lines that is shown when its summary is clicked."""
    inner = escape(visible_lines(text))
    return f"<details><summary>{words(summary)}</summary><pre>{inner}</pre></details>"


def meter(share: float, label: str) -> str:
    """Draw how much of a whole is used."""
    percent = 100 * min(max(share, 0.0), 1.0)
    return (
        f'<div role="img" aria-label="{words(label)}" style="width: 240px; height: 10px; '
        f'border: 1px solid #888; border-radius: 4px"><div style="width: {percent:.0f}%; '
        'height: 100%; background: #2456a6"></div></div>'
    )
