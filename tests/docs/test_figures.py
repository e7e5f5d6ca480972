"""The figures of the pages are computed: accuracy, factors, how many queries fit a budget."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from benchmarks.study.fits import biases
from dpquery import functions
from dpquery.core.zcdp import rho_below
from dpquery.mechanisms.quantiles.ranks import likely_off
from dpquery.policy.sources.files import sample_directory
from tests.corpus.cases import planned
from tests.docs import pages
from tests.docs.pages import text_of

LEVEL = Fraction(95, 100)


def release(call: str, table: str = "staff"):
    return planned(f"SELECT {call} FROM {table}").frontiers[0].releases[0].release


def accuracy(head: str) -> list[str]:
    return pages.numbers("accuracy.md", head)


def choosing(head: str) -> list[str]:
    return pages.numbers("choosing.md", head)


def test_counts_that_are_shown_are_of_the_sample_data():
    """What is printed with ± is the number of rows, of each unit up to the stated limit."""
    blocks = pages.blocks("command-line.md", "console")
    (shown,) = (one for one in blocks if "visits.parquet" in one)
    count, off = map(int, re.search(r"(\d+) +± (\d+)", shown).groups())
    limit = int(re.search(r"--rows (\d+) -c", shown)[1])
    visits = pq.read_table(sample_directory() / "visits.parquet", columns=["person_id"])
    rows = pc.value_counts(visits["person_id"].drop_null()).field("counts")
    assert abs(pc.sum(pc.min_element_wise(rows, limit)).as_py() - count) <= 2 * off


def test_the_accuracy_of_counts_is_what_the_mechanism_gives():
    for epsilon, rows in zip(accuracy("ε"), accuracy("± rows"), strict=True):
        noise = release(f"DP_COUNT(*, eps={epsilon})").mechanism
        assert noise.interval(0, LEVEL) == (-int(rows), int(rows))


def test_every_function_has_its_interval_measured_or_says_why_it_has_none():
    """The name without DP_ begins a cell of the table, or the whole stands below it."""
    text = text_of("accuracy.md")
    section = text.split("## How often intervals hold")[1].split("\n## ")[0]
    cells = {name for line in section.splitlines() if line.startswith("| ")
             for name in line.split("|")[1].replace(",", " ").split()}  # fmt: skip
    for function in functions.ALL:
        assert function.name.removeprefix("DP_") in cells or f"`{function.name}`" in section


@pytest.mark.parametrize("epsilon", ["1", "0.1"])
def test_the_accuracy_of_means_is_what_their_intervals_say(epsilon: str):
    mean = release(f"DP_AVG(salary, eps={epsilon})")
    for rows, percent in zip(accuracy("rows"), accuracy(f"± %, ε = {epsilon}"), strict=True):
        half = int(rows) * 200_000 // 2
        low, high = mean.interval((half, half), LEVEL)
        assert f"{(high - low) / 2 / 2_000:.3g}" == percent


@pytest.mark.parametrize(
    ("head", "column"),
    [("rows, bounds [0, 200000]", "salary"), ("rows, bounds [18, 70]", "age")],
)
def test_the_accuracy_of_quantiles_is_what_the_mechanism_gives(head: str, column: str):
    for epsilon, rows in zip(accuracy("ε"), accuracy(head), strict=True):
        median = release(f"DP_MEDIAN({column}, eps={epsilon})")
        assert median.ranks_off(LEVEL, any_data=True) == int(rows)


def test_the_accuracy_of_quantiles_on_even_data_is_that_of_the_law():
    for epsilon, rows in zip(accuracy("ε"), accuracy("rows, spread evenly"), strict=True):
        mechanism = release(f"DP_MEDIAN(salary, eps={epsilon})").mechanism
        assert likely_off(mechanism.errors, LEVEL) == int(rows)
    said = release("DP_MEDIAN(salary, eps=0.5)").step().expected_error
    assert "over 32 or more rows spread evenly" in said


def error(call: str, table: str) -> str:
    """Return how far noise takes an answer, as EXPLAIN says it."""
    found = re.search(r"\d+", release(call, table).step().expected_error)
    assert found is not None
    return found[0]


def test_the_errors_of_sums_and_counts_are_what_the_engine_states():
    bounds, sums = map(choosing, ("bounds of `salary`", "sum at ε = 0.5, ±"))
    for ends, amount in zip(bounds, sums, strict=True):
        assert error(f"DP_SUM(person_id, eps=0.5, bounds={ends})", "staff") == amount
    limits, counts = map(choosing, ("k", "rows counted at ε = 0.5, ±"))
    for limit, rows in zip(limits, counts, strict=True):
        assert error(f"DP_COUNT(*, eps=0.5, max_rows_contributed={limit})", "visits") == rows
    gaussian = "DP_COUNT(*, eps=0.5, delta=1e-7, mechanism='gaussian')"
    assert f"within ± {error(gaussian, 'staff')}" in text_of("choosing.md")


def test_the_numbers_of_queries_are_what_fits():
    half, limit = Fraction(5, 10**7), Fraction(2)
    each = [Fraction(text) for text in choosing("ε of each")]
    rho = rho_below(limit, half)
    counts = [max(limit / e, 2 * rho / e**2) // 1 for e in each]
    assert choosing("counts, δ = 0") == [str(limit / e) for e in each]
    assert choosing("counts, δ = 1e-6") == [str(n) for n in counts]
    assert choosing("medians, δ = 1e-6") == [str(8 * rho / e**2 // 1) for e in each]


def test_the_factors_are_powers_of_e():
    factors = choosing("factor")
    for epsilon, factor in zip(choosing("ε in all"), factors, strict=True):
        value = math.exp(float(epsilon))
        assert factor in {f"{value:.2f}", f"{value:.0f}"}


def test_what_odds_by_moments_are_off_is_as_the_study_finds():
    found: dict[str, list[float]] = {}
    for law, count, _, off in biases():
        found.setdefault(f"{law}, {count}", []).append(100 * off)
    heads = re.findall(r"^\| (\w[\w ]*, [13]) \|", text_of("statistics.md"), re.MULTILINE)
    assert len(heads) == 6
    for head in heads:
        shown = [float(number) for number in pages.numbers("statistics.md", head)]
        assert shown == pytest.approx(found[head], rel=0.1, abs=0.02)
