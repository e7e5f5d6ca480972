"""Cases of which some run each time, and all in `make slow`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def in_turn(cases: Iterable[Any], of: int = 3) -> list[Any]:
    """Leave all cases but the first of so many in a row to `make slow`."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else [case]),
            marks=[pytest.mark.slow] if number % of else [],
        )
        for number, case in enumerate(cases)
    ]
