"""The README's Python, policy and figures hold; its transcripts are run by test_pages."""

from __future__ import annotations

import re
from fractions import Fraction

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from dpquery.functions.moments import BernsteinCell
from dpquery.policy.files import sample_directory
from dpquery.policy.load import load_policy
from tests.corpus.cases import planned
from tests.docs import pages
from tests.docs.pages import README


def test_python_runs_and_its_comments_hold(samples, capsys):
    (text,) = pages.blocks("README.md", "python")
    scope: dict = {}
    exec(compile(text, "README.md", "exec"), scope)
    answer, session = scope["answer"], scope["session"]
    assert isinstance(answer.scalar(), int)
    ((low, high),) = answer.interval("n", 0.95)
    assert low <= answer.scalar() <= high
    assert repr(answer.loss) == "Loss(epsilon=Fraction(1, 2), delta=Fraction(0, 1))"
    assert "charge       0.1" in capsys.readouterr().out
    assert scope["built"].explain().charge.epsilon == Fraction(3, 10)
    assert session.budget.left.epsilon == 2 - answer.loss.epsilon
    session.close()


def test_counts_that_are_shown_are_of_the_sample_data():
    """What is printed with ± is the number of rows, of each unit up to the stated limit."""
    (shown,) = (one for one in pages.blocks("README.md", "console") if "visits.parquet" in one)
    count, off = map(int, re.search(r"(\d+) +± (\d+)", shown).groups())
    limit = int(re.search(r"--rows (\d+) -c", shown)[1])
    visits = pq.read_table(sample_directory() / "visits.parquet", columns=["person_id"])
    rows = pc.value_counts(visits["person_id"].drop_null()).field("counts")
    assert abs(pc.sum(pc.min_element_wise(rows, limit)).as_py() - count) <= off


def test_the_policy_loads(tmp_path):
    (text,) = pages.blocks("README.md", "toml")
    (tmp_path / "policy.toml").write_text(text, "utf-8")
    (tmp_path / "people.parquet").write_bytes(b"")
    policy = load_policy(tmp_path / "policy.toml")
    assert policy.tables["people"].single


def test_the_first_screen_holds_a_session_and_a_refusal():
    first = "\n".join(README.read_text("utf-8").splitlines()[:42])
    assert all(part in first for part in ("make demo", "DP_COUNT", "refused[", "promised"))


LEVEL = Fraction(95, 100)


def numbers(head: str) -> list[str]:
    return pages.numbers("README.md", head)


def release(call: str):
    return planned(f"SELECT {call} FROM staff").frontiers[0].releases[0].release


def test_the_accuracy_of_counts_is_what_the_mechanism_gives():
    for epsilon, rows in zip(numbers("ε"), numbers("± rows"), strict=True):
        noise = release(f"DP_COUNT(*, eps={epsilon})").noise
        assert noise.interval(0, LEVEL) == (-int(rows), int(rows))


@pytest.mark.parametrize("epsilon", ["1", "0.1"])
def test_the_accuracy_of_means_is_what_their_intervals_say(epsilon: str):
    mean = release(f"DP_AVG(salary, eps={epsilon})")
    for rows, percent in zip(numbers("rows"), numbers(f"± %, ε = {epsilon}"), strict=True):
        half = int(rows) * 200_000 // 2
        low, high = BernsteinCell((half, half), mean).interval(LEVEL)
        assert f"{(high - low) / 2 / 2_000:.3g}" == percent


@pytest.mark.parametrize(
    ("head", "column"),
    [("rows, bounds [0, 200000]", "salary"), ("rows, bounds [18, 70]", "age")],
)
def test_the_accuracy_of_quantiles_is_what_the_mechanism_gives(head: str, column: str):
    for epsilon, rows in zip(numbers("ε"), numbers(head), strict=True):
        assert release(f"DP_MEDIAN({column}, eps={epsilon})").rows_off(LEVEL) == int(rows)


def test_the_accuracy_of_quantiles_on_even_data_is_that_of_the_law():
    for epsilon, rows in zip(numbers("ε"), numbers("rows, spread evenly"), strict=True):
        assert release(f"DP_MEDIAN(salary, eps={epsilon})").likely_off(LEVEL) == int(rows)
    said = release("DP_MEDIAN(salary, eps=0.5)").error()
    assert "over 32 or more rows spread evenly" in said
