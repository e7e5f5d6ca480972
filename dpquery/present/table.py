"""Aligned text for people: numbers on the right, each noisy value with its 95 % interval.

Control characters show as signs and long texts are shortened; the other formats keep all.
"""

from __future__ import annotations

from typing import IO

from dpquery.answer import Answer

__all__ = ["write"]


def write(answer: Answer, stream: IO[bytes]) -> None:
    """Write the answer as a table of text; a terminal gets the ends of a long one."""
    text = str(answer) if stream.isatty() else answer.to_text()
    stream.write(f"{text}\n".encode(errors="replace"))
