"""`docs/noise.svg`: head counts of the sample data, and how far noise takes them."""

from __future__ import annotations

from fractions import Fraction

import pyarrow.compute as pc
import pyarrow.parquet as pq

from dpquery.policy.sources.paths import sample_directory

EPSILONS = ("1", "0.1", "0.02")
LEVEL = Fraction(95, 100)
WIDTH, HEIGHT, LEFT, BASE = 240, 245, 46, 180
SCALE = 0.3  # pixels for a person


def picture() -> str:
    """Return the drawing: a panel for each ε, a bar for each department."""
    panels = [_panel(number, epsilon) for number, epsilon in enumerate(EPSILONS)]
    width = WIDTH * len(EPSILONS)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" '
            'font-family="sans-serif" font-size="11">',
            f'<rect width="{width}" height="{HEIGHT}" fill="#ffffff"/>',
            *panels,
            "</svg>\n",
        ]
    )


def _counts() -> dict[str, int]:
    depts = pq.read_table(sample_directory() / "staff.parquet", columns=["dept"])["dept"]
    found = {one["values"]: one["counts"] for one in pc.value_counts(depts).to_pylist()}
    return {name: found[name] for name in ("eng", "hr", "legal", "ops", "sales")}


def _panel(number: int, epsilon: str) -> str:
    from tests.corpus.cases import planned

    plan = planned(f"SELECT DP_COUNT(*, eps={epsilon}) FROM staff")
    _, off = plan.frontiers[0].releases[0].release.mechanism.interval(0, LEVEL)
    left = WIDTH * number + LEFT
    lines = [
        f'<text x="{left + 75}" y="20" text-anchor="middle">ε = {epsilon}: ± {off}</text>',
        f'<path d="M{left - 4} {BASE}h160" stroke="#888888"/>',
    ]
    for place, (name, count) in enumerate(_counts().items()):
        x, top = left + 32 * place, BASE - SCALE * count
        high, low = top - SCALE * off, top + SCALE * off
        middle, tall = x + 11, SCALE * count
        lines += [
            f'<rect x="{x}" y="{top:.1f}" width="22" height="{tall:.1f}" fill="#9ecae1"/>',
            f'<path d="M{middle} {low:.1f}V{high:.1f}m-5 0h10M{x + 6} {low:.1f}h10" '
            'stroke="#08306b"/>',
            f'<text x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{name}</text>',
        ]
    return "\n".join(lines)
