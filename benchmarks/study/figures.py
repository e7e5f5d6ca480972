"""What a study finds: a figure, the range it has to lie in, and how both are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

HEAD = ("figure", "data", "draws", "measured", "expected", "required")


@dataclass(frozen=True)
class Figure:
    """A measured figure beside what theory expects of it."""

    name: str
    data: str
    draws: int
    measured: float
    expected: float
    required: str
    holds: bool

    @classmethod
    def within(
        cls, named: tuple[str, str], draws: int, measured: float, expected: float, ends: object
    ) -> Figure:
        """Require a figure to lie between two ends."""
        low, high = ends
        required = f"{low} to {high}"
        return cls(*named, draws, measured, expected, required, low <= measured <= high)

    @property
    def cells(self) -> tuple[str, ...]:
        verdict = self.required if self.holds else f"**{self.required}: FAILS**"
        return (
            self.name,
            self.data,
            f"{self.draws:,}",
            f"{self.measured:.3g}",
            f"{self.expected:.3g}",
            verdict,
        )


def table(figures: Sequence[Figure]) -> str:
    """Write figures as a table of Markdown that reads as it stands."""
    return markdown([HEAD, *(figure.cells for figure in figures)])


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Write a table, its first row being the heads."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    ruled = [rows[0], ["-" * width for width in widths], *rows[1:]]
    return "\n".join(_line(row, widths) for row in ruled)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    return f"| {' | '.join(cells)} |"
