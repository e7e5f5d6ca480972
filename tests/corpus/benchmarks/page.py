"""`docs/benchmarks.md`: which questions of public query sets are answered, and which not."""

from __future__ import annotations

from tests.corpus.benchmarks.compare import DIFFERENCES
from tests.corpus.benchmarks.questions import Question
from tests.corpus.benchmarks.sets import SETS, QuestionSet


def page() -> str:
    """Return the text of the page."""
    parts = [
        "# Questions of public benchmarks",
        "`make docs` writes this from `tests/corpus/benchmarks`, where each question stands as "
        "plain SQL in our own words. A test asks it of small data under a large ε, with limits "
        "that nothing meets: the answer is DuckDB's own, except for what is said here, and has "
        "no group that cannot exist. Questions that show one person are refused.",
        *(_section(found) for found in SETS.values()),
    ]
    return "\n\n".join(parts) + "\n"


def _section(found: QuestionSet) -> str:
    questions = found.questions
    answered = sum(not question.code for question in questions)
    private = sum(bool(question.code) and not question.waits for question in questions)
    rows = [f"| {one.number} | {one.asks} | {_outcome(one)} |" for one in questions]
    counts = f"{answered} of {len(questions)} are answered, {private} cannot be."
    head = f"## {found.name}\n\n{found.says} {counts}"
    return "\n".join([head, "", "| | asks | |", "|--:|---|---|", *rows])


def _outcome(question: Question) -> str:
    if question.code:
        told = "not yet" if question.waits else f"refused, {question.code}"
        return f"{told}: {question.why}"
    differs = [DIFFERENCES[name] for name in question.differs]
    return "; ".join(["answered", *differs])
