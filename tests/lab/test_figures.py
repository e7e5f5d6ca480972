"""The figures of the lecture notes come out as the pages say."""

from __future__ import annotations

import math
import re

import pytest

from dpquery.functions.order_statistics.quantile import OF_LISTS
from dpquery.lab.figures import ALL, table
from dpquery.lab.figures.deciles import _of_sensitivity, _of_thresholds
from dpquery.lab.synthetic_data import LAWS
from dpquery.lab.topics import TOPICS
from tests.tasks import ROOT

EXACT = ("limit", "bernoulli", "tails", "warner", "staircase", "majority", "least")
"""Those of which nothing is drawn."""


def here(name: str) -> dict[str, float]:
    return {line.what: line.here for line in ALL[name].lines(10)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bernoulli", {
            "n times the loss, epsilon 0.1, n = 1,000": 19.99,
            "n times the loss, epsilon 1, n = 1,000": 1.919,
            "n times the loss, epsilon 3, n = 1,000": 0.470,
            "the same of noise on the count, epsilon 1": 0.851,
            "the floor of unbiased mechanisms, epsilon 1": 0.0596,
            "loss where no row is 1, epsilon 0.1, n = 10": 0.4503,
            "the same from 0.4": 0.2698,
        }),
        ("tails", {"P[0 rows above or more]": 0.622, "P[1 rows above or more]": 0.378,
                   "P[5 rows above or more]": 0.051}),
        ("limit", {"P[the limit is below], N large": 0.5,
                   "what choosing loses at epsilon 1, a row replaced": 0.832}),
        ("warner", {"2r - 1/2, the share of yes being r": 0.3,
                    "2r - 1, as the slides have it": -0.2,
                    "rows for the error of a direct poll, times": 4.57}),
        ("staircase", {"loss if drawn again until in range, epsilon 1": 1.349,
                       "mass of the density as printed, epsilon 1": 2.0,
                       "variance over Laplace noise's, epsilon 1": 0.959}),
        ("majority", {"wrong at margin 1": 0.269, "wrong at margin 2": 0.099,
                      "wrong at margin 3": 0.036}),
    ],
)  # fmt: skip
def test_exact_laws_give_the_numbers_that_theory_has(name, expected):
    found = here(name)
    for what, number in expected.items():
        assert found[what] == pytest.approx(number, rel=0.02, abs=0.001), what


def test_the_law_of_a_chosen_mean_nears_its_limit():
    apart = [far for what, far in here("limit").items() if "distance" in what]
    assert apart == sorted(apart, reverse=True)
    assert apart[-1] < 0.03


def test_the_bounds_of_the_notes_are_what_they_write():
    assert _of_sensitivity(10_000) == pytest.approx(0.05, rel=1e-3)
    assert 0 < _of_thresholds(100_000) < _of_thresholds(1000) < 1.5


def test_figures_have_names_and_say_what_differs():
    answer = table([ALL[name] for name in EXACT], 10)
    assert answer.columns == ("figure", "what", "notes", "here", "why")
    assert len(answer.notes) == len(EXACT)
    assert all(math.isfinite(row[3]) for row in answer.rows)
    for name, figure in ALL.items():
        assert re.fullmatch("[a-z]+", name)
        assert figure.notes
        assert figure.place


def test_the_page_explains_every_figure_and_shows_every_mechanism():
    page = (ROOT / "docs" / "lab.md").read_text("utf-8")
    explained = set(re.findall(r"^\| `(\w+)` \| ", page, re.MULTILINE))
    shown = set(re.findall(r"^\$ dpquery lab figures (.*)$", page, re.MULTILINE)[0].split())
    assert set(ALL) - explained - shown == {
        "joint",
        "normal",
    }  # of which the notes say no number
    named = re.findall(r"^ 1000   1.0   9   (\w+)", page, re.MULTILINE)
    assert set(named) == set(OF_LISTS)
    assert all(f"`{topic}`" in page for topic in TOPICS)
    assert all(f"`{law}`" in page for law in LAWS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL)
def test_every_figure_is_measured(name):
    lines = list(ALL[name].lines(20))
    assert lines
    assert all(math.isfinite(line.here) for line in lines)
