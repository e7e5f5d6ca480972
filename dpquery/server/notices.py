"""What is said beside the rows of an answer: what it cost, and how far the noise reaches."""

from __future__ import annotations

from collections.abc import Iterator

from dpquery.answer import Answer
from dpquery.core.source_text import visible


def notices_of(answer: Answer) -> tuple[str, ...]:
    """Return the lines beside an answer, the price first."""
    told = [f"{answer.loss} spent; {answer.budget}" if answer.budget else str(answer.loss)]
    told += _reach(answer)
    return tuple(visible(line) for line in (*told, *answer.notes))


def _reach(answer: Answer) -> Iterator[str]:
    """Say of each noisy column how far its values may be off."""
    for at, (name, margins) in enumerate(zip(answer.columns, answer.margins(), strict=True)):
        told = list(filter(None, margins))
        if not told:
            continue
        alike = len(set(told)) == 1
        most = (
            told[0] if alike else f"by row: DP_INTERVAL_LOW({name}), DP_INTERVAL_HIGH({name})"
        )
        alone = "noise alone, " if answer.cut and answer.cut[at] else ""
        yield f"{name}: {alone}95% within {most}"
