"""`%%dpquery`: a cell is asked of the session that its first line names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

import dpquery
from dpquery.answer import Guarantee
from dpquery.core.privacy_loss import Loss, Neighbours
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


def test_what_is_shown_of_a_session_is_who_asks_what_and_what_is_left(notebook):
    session = notebook.user_ns["session"]
    notebook.run("session", COUNT)
    html = session._repr_html_()
    assert "staff" in html
    assert "0.5 of 2 spent" in html
    assert 'style="width: 25%' in html
    assert "<td" in session.forecast(["SELECT DP_COUNT(*, eps=1) FROM staff"])._repr_html_()
    session.close()
    assert "closed" in session._repr_html_()


def test_what_is_shown_of_a_guarantee_says_what_it_comes_to(notebook):
    answer = notebook.run("session", COUNT)
    html = answer.guarantee._repr_html_()
    assert "factor of at most 1.65<" in html
    assert "of 5 together</th>" in html
    assert ">2.5<" in html
    huge = replace(answer.guarantee, loss=Loss(Fraction(10**6), Fraction(1, 10**9)))
    assert "a billion or more, but for a chance of 1e-9" in huge._repr_html_()


def test_no_name_is_markup():
    hostile = Guarantee(Loss(Fraction(1)), ("<b>\x1b",), Neighbours.ADD_REMOVE)
    html = hostile._repr_html_()
    assert "<b>\x1b" not in html
    assert "&lt;b&gt;␛" in html
