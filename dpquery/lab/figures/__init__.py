"""The figures of the lecture notes that this grew out of, measured again.

Each says what the notes have beside what comes out; `docs/lab.md` explains what differs.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from dpquery.answer import Answer
from dpquery.core.arrow_columns import table_of
from dpquery.core.privacy_loss import NO_LOSS
from dpquery.lab.compare import short
from dpquery.lab.figures import deciles, means, quantiles, warner_staircase_majority
from dpquery.lab.figures.base import Figure

__all__ = ["ALL", "table"]

ALL: dict[str, Figure] = {
    figure.name: figure
    for module in (means, quantiles, deciles, warner_staircase_majority)
    for figure in module.ALL
}
"""By name, in the order of the notes."""
FIELDS = {
    "figure": pa.string(),
    "what": pa.string(),
    "notes": pa.string(),
    "here": pa.float64(),
    "why": pa.string(),
}


def table(figures: Sequence[Figure], draws: int) -> Answer:
    """Measure figures by so many draws; return their lines as an answer."""
    rows = [
        (figure.name, line.what, line.notes, short(line.here), line.why)
        for figure in figures
        for line in figure.lines(draws)
    ]
    told = tuple(
        f"{figure.name}: {figure.notes}, {figure.place}; {figure.says}" for figure in figures
    )
    return Answer(table_of(rows, FIELDS), NO_LOSS, notes=told)
