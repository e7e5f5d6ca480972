"""What the comparison of quantile mechanisms found, as Markdown and as a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.study.figures import markdown
from benchmarks.study.quantiles import COUNTS, Result, Share, Shares

LAWS = {"smooth": "uniform, normal, beta(2, 2)", "atoms": "salaries", "all": "all four laws"}
PROTOTYPES = {
    "quantile": {"smooth": (1.38,), "atoms": (1.31,)},
    "exponential": {"smooth": (1.36,)},
    "independent": {
        "smooth": (None, 1.85, 2.15, 2.61, 3.01), "atoms": (None, 2.27, 2.25, 4.69, 7.16)
    },
    "recursive": {
        "smooth": (1.36, 1.19, 1.27, 1.18, 1.32), "atoms": (2.46, 1.12, 1.16, 1.08, 1.17)
    },
    "smoothed_joint": {
        "smooth": (1.58, 1.21, 1.06, 1.28, 1.43), "atoms": (2.11, 1.43, 1.47, 2.70, 3.61)
    },
    "histogram": {"smooth": (8.65, 7.46, 9.32, 16.2, 24.7)},
    "tree": {"smooth": (11.31, 4.59, 2.23, 1.85, 1.46)},
}  # fmt: skip
"""The same ratios of prototypes in floating point, by number of orders, where cells and data
are alike. Ten mechanisms were compared there, so the best of a setting is not the same."""


def ratios(compared: Shares, defaults: dict[int, str]) -> str:
    """Write the ratios of all mechanisms; the best in bold, the default with a star."""
    names = list(dict.fromkeys(key[2] for key in compared))
    rows = [
        [f"{LAWS[laws]}; {count}", *(_cells(compared, laws, count, names, defaults[count]))]
        for laws in LAWS
        for count in COUNTS
    ]
    return markdown([["laws; orders", *names], *rows])


def _cells(
    compared: Shares, laws: str, count: int, names: Sequence[str], default: str
) -> Iterator[str]:
    of = {name: compared.get((laws, count, name)) for name in names}
    best = min(share.ratio for share in of.values() if share is not None)
    for name, share in of.items():
        yield (
            "-"
            if share is None
            else _cell(share, best, name == default) + _before(name, laws, count)
        )


def _cell(share: Share, best: float, default: bool) -> str:
    number = f"{share.ratio:.2f} ± {share.ratio * share.deviation:.2f}"
    bold = f"**{number}**" if share.ratio == best else number
    return f"{bold} *" if default else bold


def _before(name: str, laws: str, count: int) -> str:
    """Write what the prototype gave."""
    known = PROTOTYPES.get(name, {}).get(laws, ())
    place = COUNTS.index(count)
    number = known[place] if place < len(known) else None
    return "" if number is None else f" ({number:.2f})"


def selected(results: Sequence[Result]) -> str:
    """Write the errors themselves, where rows are many."""
    found = {
        (one.setting.law, one.setting.epsilon, one.setting.count, one.mechanism): one
        for one in results
        if one.setting.rows == max(each.setting.rows for each in results)
    }
    names = list(dict.fromkeys(key[3] for key in found))
    settings = dict.fromkeys(key[:3] for key in found)
    rows = [
        [
            law,
            epsilon,
            str(count),
            *(_error(found.get((law, epsilon, count, n))) for n in names),
        ]
        for law, epsilon, count in settings
        if law in {"uniform", "salaries"}
    ]
    return markdown([["law", "ε", "orders", *names], *rows])


def _error(result: Result | None) -> str:
    return "-" if result is None else f"{result.error:.3g}"


# The picture: one panel for each kind of law, a line for each mechanism.

COLOURS = (
    "#1b6ca8", "#c0392b", "#2e8b57", "#8e44ad", "#d68910", "#16a085", "#7f8c8d", "#34495e",
    "#b03a76",
)  # fmt: skip
WIDTH, HEIGHT, LEFT, TOP = 330, 260, 50, 50
LINES = (1, 2, 5, 10, 20, 50, 100, 200)
PANEL = WIDTH + 150


def picture(compared: Shares, path: Path) -> None:
    """Draw the ratios over the number of orders, on logarithmic scales."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * PANEL + LEFT} '
        f'{HEIGHT + 110}" font-family="sans-serif" font-size="12" fill="#333">',
        '<rect width="100%" height="100%" fill="white"/>',
        _text(LEFT, 20, "Rank error, as a multiple of the best mechanism's", size=15),
    ]
    names = list(dict.fromkeys(key[2] for key in compared))
    for number, laws in enumerate(("smooth", "atoms")):
        parts += _panel(compared, laws, LEFT + number * PANEL, names)
    path.write_text("\n".join([*parts, "</svg>\n"]))


def _panel(compared: Shares, laws: str, left: int, names: Sequence[str]) -> Iterator[str]:
    yield _text(left, TOP - 8, LAWS[laws])
    for value in LINES:
        y = _y(value)
        yield f'<path d="M{left} {y}H{left + WIDTH}" stroke="#ddd"/>'
        yield _text(left - 6, y + 4, f"{value}", anchor="end")
    for count in COUNTS:
        yield _text(_x(left, count), TOP + HEIGHT + 18, f"{count}", anchor="middle")
    yield _text(left + WIDTH / 2, TOP + HEIGHT + 38, "quantiles", anchor="middle")
    ends = {}
    for name, colour in zip(names, COLOURS, strict=False):
        points = [
            (_x(left, count), _y(compared[laws, count, name].ratio))
            for count in COUNTS
            if (laws, count, name) in compared
        ]
        line = " ".join(f"{x},{y}" for x, y in points)
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
        yield from (f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>' for x, y in points)
        ends[name] = (*points[-1], colour)
    yield from _labels(ends)


def _labels(ends: dict[str, tuple[float, float, str]]) -> Iterator[str]:
    """Write each name beside the end of its line, none over another."""
    last: dict[bool, float] = {}
    for name, (x, y, colour) in sorted(ends.items(), key=lambda end: end[1][1]):
        alone = x < max(end[0] for end in ends.values())
        last[alone] = max(y, last.get(alone, 0) + 14)
        yield _text(x + 8, last[alone] + 4, name, colour=colour)


def _x(left: int, count: int) -> float:
    return round(left + WIDTH * math.log(count) / math.log(COUNTS[-1]), 1)


def _y(ratio: float) -> float:
    share = math.log(min(max(ratio, 1), LINES[-1])) / math.log(LINES[-1])
    return round(TOP + HEIGHT * (1 - share), 1)


def _text(
    x: float,
    y: float,
    words: str,
    *,
    anchor: str = "start",
    size: int = 12,
    colour: str = "#333",
) -> str:
    return (
        f'<text x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" fill="{colour}">'
        f"{words}</text>"
    )
