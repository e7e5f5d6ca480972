"""The sets of questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.corpus.benchmarks.clickbench import data as clickbench
from tests.corpus.benchmarks.questions import Question, read
from tests.corpus.benchmarks.tpcds import data as tpcds
from tests.corpus.benchmarks.tpch import data as tpch
from tests.corpus.benchmarks.tpch_keys import data as tpch_keys


@dataclass(frozen=True)
class QuestionSet:
    """A folder of questions, and what writes their tables."""

    name: str
    says: str
    """What the page says of the tables."""
    folder: Path
    write: Callable[[Path], None]

    @property
    def questions(self) -> list[Question]:
        return read(self.folder / "questions.sql")


FOLDER = Path(__file__).parent
SETS = {
    "tpch": QuestionSet("TPC-H", tpch.SAYS, FOLDER / "tpch", tpch.write),
    "tpch_keys": QuestionSet(
        "TPC-H by keys", tpch_keys.SAYS, FOLDER / "tpch_keys", tpch_keys.write
    ),
    "tpcds": QuestionSet("TPC-DS", tpcds.SAYS, FOLDER / "tpcds", tpcds.write),
    "clickbench": QuestionSet(
        "ClickBench", clickbench.SAYS, FOLDER / "clickbench", clickbench.write
    ),
}
