"""`dpquery lab` on the command line: tables, formats, pictures, and what it refuses."""

from __future__ import annotations

import json

import pytest

from dpquery.lab.figures import ALL
from dpquery.shell.main import main


def run(capsys, *words: str) -> tuple[int, str, str]:
    code = main(["lab", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_a_topic_is_a_table_with_its_meaning_beside_it(capsys):
    code, out, err = run(capsys, "counts", "--n", "100", "--eps", "0.5,1", "--draws", "5")
    assert code == 0
    head, *rows = out.splitlines()
    assert head.split()[:4] == ["n", "eps", "mechanism", "default"]
    assert len(rows) == 2 * 3
    assert "note: synthetic rows" in err


def test_formats_are_those_of_answers(capsys, tmp_path):
    code, out, _ = run(capsys, "means", "--n", "50", "--draws", "3", "--format", "json")
    assert code == 0
    assert {row["mechanism"] for row in json.loads(out)} >= {"laplace", "exponential"}
    file = tmp_path / "x.csv"
    assert run(capsys, "sums", "--n", "50", "--draws", "3", "-o", str(file))[0] == 0
    assert file.read_text("utf-8").startswith("n,eps,mechanism,")


def test_pictures_are_for_terminals_and_files(capsys, tmp_path):
    _, out, _ = run(capsys, "counts", "--n", "50", "--draws", "3", "--plot")
    assert "error of counts, in rows, by mechanism" in out
    assert "┼" in out
    file = tmp_path / "x.svg"
    assert run(capsys, "counts", "--n", "50,60", "--draws", "3", "-o", str(file))[0] == 0
    assert "<svg" in file.read_text("utf-8")


def test_figures_by_name(capsys):
    code, out, err = run(capsys, "figures", "majority", "tails")
    assert code == 0
    assert out.count("majority") == 4
    assert "note: tails: privacy for data analysis" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["quantile"], "there is no topic 'quantile'; did you mean quantiles?"),
        (["counts", "sums"], "one topic at a time"),
        (["figures", "bernouli"], "did you mean bernoulli?"),
        (["means", "--law", "gauss"], "there is no law 'gauss'"),
        (["means", "--m", "3"], "means have none"),
        (["means", "--n", "0"], "--n is a whole number from 1 to 10,000,000: '0'"),
        (["means", "--n", "10,x"], "--n is a whole number"),
        (["means", "--eps", "0"], "--eps lies between"),
        (["means", "--eps", "nan"], "--eps is not a finite number"),
        (["quantiles", "--m", "1000"], "--m is a whole number from 1 to 499"),
        (["counts", "--n", "1,2,3,4,5", "--eps", "1,2,3,4,5"], "25 settings at once"),
        (["counts", "-o", "x.docx"], "there is no format .docx"),
        (["modes", "--law", "uniform", "--n", "9"], "no mechanism of DP_MODE answers so"),
    ],
)
def test_what_is_not_understood_is_refused_with_what_there_is(capsys, words, said):
    code, out, err = run(capsys, *words)
    assert code == 2
    assert not out
    assert said in err


def test_every_figure_is_named_where_one_is_mistyped(capsys):
    assert ", ".join(ALL) in run(capsys, "figures", "none-of-these")[2]
