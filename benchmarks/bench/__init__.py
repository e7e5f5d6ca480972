"""Side-by-side measurements: dpquery against DuckDB's own answer, in one run."""

from __future__ import annotations

import os
from pathlib import Path

# The marks of ledgers live and die with the data: a new clone is no rollback of the last one.
os.environ["XDG_STATE_HOME"] = str(Path(__file__).parent / "data" / "state")
