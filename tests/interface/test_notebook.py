"""`%%dpquery`: a cell is asked of the session that its first line names."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

import dpquery
from dpquery.notebook import load_ipython_extension
from dpquery.policy.sources.paths import sample_directory

COUNT = "SELECT DP_COUNT(*, eps=0.5) AS n FROM staff WHERE dept = :dept AND age >= $least;\n"


class Notebook:
    """What an extension sees of IPython."""

    def __init__(self) -> None:
        self.user_ns: dict[str, Any] = {}
        self.magics: dict[tuple[str, str], Callable[[str, str], Any]] = {}

    def register_magic_function(self, run: Any, kind: str, name: str) -> None:
        self.magics[kind, name] = run

    def run(self, line: str, cell: str) -> Any:
        return self.magics["cell", "dpquery"](line, cell)


@pytest.fixture
def notebook():
    notebook = Notebook()
    load_ipython_extension(notebook)
    with dpquery.practice(sample_directory() / "policy.toml") as session:
        notebook.user_ns |= {"session": session, "dept": "eng", "least": 30, "unused": object()}
        yield notebook


def test_a_cell_is_answered_with_the_variables_that_it_names(notebook):
    answer = notebook.run("session --to found", COUNT)
    assert answer is notebook.user_ns["found"]
    assert answer.loss.epsilon == Fraction(1, 2)
    assert "loss 0.5 · budget: 1.5 of 2 left" in answer._repr_html_()


def test_explain_is_free_and_takes_the_price_of_plain_aggregates(notebook):
    told = notebook.run("session --eps 0.25 --explain", "SELECT AVG(salary) FROM staff")
    assert told.charge.epsilon == Fraction(1, 4)
    assert notebook.user_ns["session"].budget.spent.epsilon == 0


def test_a_name_that_nothing_has_is_refused(notebook):
    del notebook.user_ns["dept"]
    with pytest.raises(dpquery.NameRefused, match="no value is given for :dept"):
        notebook.run("session", COUNT)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "required: session; write %%dpquery"),
        ("session --epsilon 1", "unrecognized arguments: --epsilon 1; write %%dpquery"),
        ("dept", 'there is no session dept: dept = dpquery.connect\\("policy.toml"\\)'),
    ],
)
def test_a_line_that_is_not_understood_says_what_to_write(notebook, line, said):
    with pytest.raises(ValueError, match=said):
        notebook.run(line, COUNT)
