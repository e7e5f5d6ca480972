"""Plain aggregates under an epsilon for the statement mean what their DP_ calls mean."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

import pytest

from dpquery.core.privacy_loss import Loss, exact_number
from dpquery.database import Database
from dpquery.plan import plan
from dpquery.plan.plan import Plan
from dpquery.session import Session
from tests.corpus import cases, runs
from tests.corpus.cases import Case, planned
from tests.corpus.describe import described

_EPS = re.compile(r",\s*(?:eps|epsilon)\s*(?:=>|:=|=)\s*([\d.e+-]+)", re.IGNORECASE)
_CALL = re.compile(r"\bDP_(\w+)\(", re.IGNORECASE)
_PLAIN = {
    *("COUNT", "COUNT_IF", "SUM", "AVG", "MEAN", "MIN", "MAX", "MEDIAN", "VARIANCE", "STDDEV"),
    *("VAR_POP", "VAR_SAMP", "STDDEV_POP", "STDDEV_SAMP", "COVAR_POP", "MODE"),
    *("COVAR_SAMP", "CORR", "REGR_SLOPE", "REGR_INTERCEPT", "REGR_R2"),
}


def accepted() -> list[tuple[str, str, Loss]]:
    """Return queries of equal epsilons: as they stand, without them, and what they cost."""
    found = []
    for case in (case for path in cases.files() for case in cases.read(path)):
        query = case.query
        if case.expected.startswith(("DPQ", "refused")):
            continue
        prices = [exact_number(text) for text in _EPS.findall(query)]
        calls = [name for name in _CALL.findall(query) if not name.startswith("INTERVAL")]
        if len(set(prices)) != 1:
            continue
        texts = re.findall(r"DP_\w+\([^()]*(?:\([^()]*\)[^()]*)*\)", query, re.IGNORECASE)
        if len(prices) == len(calls) and len(set(texts)) == len(calls):
            total = prices[0] * len(calls)
            found.append((query, _without_prices(query), Loss(total)))
    return found


def _without_prices(query: str) -> str:
    def named(call: re.Match[str]) -> str:
        return f"{call[1]}(" if call[1].upper() in _PLAIN else call[0]

    return _CALL.sub(named, _EPS.sub("", query))


def _meant(plan: Plan) -> str:
    """Return what a plan does, but for the names and texts of columns."""
    lines = described(plan).splitlines()
    return "\n".join(line for line in lines if not line.startswith(("columns:", "above:")))


ACCEPTED = accepted()


def test_most_of_the_corpus_is_asked_in_plain_sql():
    assert len(ACCEPTED) >= 300


@pytest.fixture
def _apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no calls share a draw: `tests/functions/test_joint.py` says which do."""
    monkeypatch.setattr(plan, "shared_draws", lambda *_: {})


@pytest.mark.usefixtures("_apart")
@pytest.mark.parametrize(("query", "plain", "price"), ACCEPTED, ids=lambda one: str(one)[:60])
def test_a_query_without_prefixes_and_prices_has_the_same_plan(
    query: str, plain: str, price: Loss
):
    """And so has the query as which it is understood."""
    found = planned(plain, price)
    again = cases.planned(found.checked.understood or plain)
    assert _meant(again) == _meant(found) == _meant(cases.planned(query))


def test_more_than_the_statement_has_is_noticed():
    """The comparison has teeth."""
    query, plain, price = ACCEPTED[0]
    assert _meant(planned(plain, Loss(price.epsilon * Fraction(2)))) != _meant(
        cases.planned(query)
    )


WRITTEN = [case for path in sorted(cases.PLAIN.glob("*.test")) for case in cases.read(path)]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    place = runs.samples(tmp_path_factory.mktemp("written") / "samples")
    with Session(Database(runs.policy_at(place / "policy.toml")), "default", None) as opened:
        yield opened


@pytest.mark.parametrize("case", WRITTEN, ids=str)
def test_what_tools_write_is_answered_for_the_epsilon_of_the_statement(
    case: Case, session: Session
):
    """All of it, or nothing where public groups alone are asked for."""
    shares = [
        Fraction(share)
        for share in re.findall(r"^charge: (?:pure|gaussian) (\S+)", case.expected, re.M)
    ]
    assert sum(shares) == (1 if shares else 0)
    # A draw that calls share has all of theirs; and a share finds bounds.
    whole = all(share % min(shares) == 0 for share in shares)
    assert whole or "first:" in case.expected
    assert case.price is not None
    answer = session.sql(case.query, eps=1, delta=case.price.delta or None, refresh=True)
    gaussian = re.findall(r"^charge: gaussian \S+ (\S+)", case.expected, re.M)
    assert answer.loss == Loss(Fraction(sum(shares)), sum(map(Fraction, gaussian), Fraction(0)))
    assert answer.rows or "HAVING" in case.query  # by chance, none may be above 0
