"""What a call may list beside its expression: points that values are counted up to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Points:
    """Values of what is asked about, by position or by name: a list that rises."""

    name: str
    noun: str
    """How refusals call them."""
    example: str
    counted: bool = False
    """Whether a number of equal parts may stand for them."""
    most: int = 256
    """How many there are at most."""

    @property
    def label(self) -> str:
        """How signatures call it."""
        return self.name
