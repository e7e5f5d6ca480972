"""Where the shell keeps what was typed: in the user's state directory, never beside the data.

The file holds queries and commands, readable by its owner alone; answers never reach it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["history_file"]


def history_file(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Give the file of what was typed, made if need be; None where there can be none."""
    stated = Path(environment.get("XDG_STATE_HOME", ""))
    try:
        # A relative path would mean another place in each directory, perhaps beside the data.
        state = stated if stated.is_absolute() else Path.home() / ".local" / "state"
        file = state / "dpquery" / "history"
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(
            file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600
        )
    except (OSError, RuntimeError):  # a home that cannot be written, or none
        return None
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)
    return file
