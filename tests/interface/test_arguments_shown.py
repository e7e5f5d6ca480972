"""No refusal shows a value of an argument that may hold data: of anything large, its type."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpquery
from dpquery.policy.sources.paths import copy_samples

SECRET = "Ann Secret"
ROW = {"name": SECRET, "age": 4711}


class Hostile:
    """What must not be asked for its text."""

    def __repr__(self) -> str:
        raise AssertionError("its repr was asked for")

    __str__ = __format__ = __repr__


class Talkative:
    """What has much to say."""

    def __repr__(self) -> str:
        return SECRET * 100_000

    __str__ = __repr__


class Text(str):
    """A text with another repr."""

    __slots__ = ()
    __repr__ = __str__ = Talkative.__repr__


class Number(float):
    """A number with another repr."""

    __repr__ = __str__ = Talkative.__repr__


DATA: dict[str, Callable[[], Any]] = {
    "a data frame": lambda: pd.DataFrame([ROW]),
    "a series": lambda: pd.Series([SECRET, SECRET]),
    "an array": lambda: np.array([SECRET, SECRET]),
    "an Arrow table": lambda: pa.table({"name": [SECRET]}),
    "rows": lambda: [ROW, ROW],
    "tuples": lambda: [(SECRET, 4711)],
    "values": lambda: [SECRET, 4711, SECRET],
    "pairs": lambda: ((SECRET, 4711), (SECRET, 4711)),
    "a row": lambda: dict(ROW),
    "a row by its value": lambda: {(SECRET,): SECRET},
    "a set": lambda: {SECRET},
    "bytes": f"{SECRET},4711".encode,
    "lines": lambda: f"name,age\n{SECRET},4711\n" * 100,
    "a hostile object": Hostile,
    "a talkative object": Talkative,
    "a text of another class": lambda: Text("Ann"),
    "a number of another class": lambda: Number("nan"),
    "a large number": lambda: 4711**5000,
    "a generator": lambda: (row for row in [ROW]),
}

TAKERS: dict[str, Callable[[Path, Any], object]] = {
    "source": lambda _, value: dpquery.connect(value, epsilon=1),
    "a source among others": lambda _, value: dpquery.connect([value, "b"], epsilon=1),
    "a source by name": lambda _, value: dpquery.connect({"people": value}, epsilon=1),
    "a source without epsilon": lambda _, value: dpquery.connect(value, unit="id"),
    "analyst": lambda at, value: dpquery.connect(at / "policy.toml", analyst=value),
    "analyst of one's own": lambda at, value: own(at, analyst=value),
    "epsilon": lambda at, value: dpquery.connect(at / "policy.toml", epsilon=value),
    "delta": lambda at, value: dpquery.connect(at / "policy.toml", delta=value),
    "epsilon of one's own": lambda at, value: own(at, epsilon=value),
    "delta of one's own": lambda at, value: own(at, delta=value),
    "unit": lambda at, value: own(at, unit=value),
    "unit of a table": lambda at, value: own(at, unit={"staff": value}),
    "rows_per_unit": lambda at, value: own(at, rows_per_unit=value),
    "bounds": lambda at, value: own(at, bounds=value),
    "bounds of a column": lambda at, value: own(at, bounds={"age": value}),
    "an end of bounds": lambda at, value: own(at, bounds={"age": (0, value)}),
    "neighbours": lambda at, value: own(at, neighbours=value),
    "ledger": lambda at, value: own(at, ledger=value),
    "sql": lambda at, value: asked(at).sql(value),
    "explain": lambda at, value: asked(at).explain(value),
    "losses": lambda at, value: asked(at).losses(value),
    "table": lambda at, value: asked(at).table(value),
    "describe": lambda at, value: asked(at).describe(value),
    "above_threshold": lambda at, value: asked(at).above_threshold(value, eps=1),
    "eps of a stream": lambda at, value: asked(at).above_threshold(1, eps=value),
    "where": lambda at, value: asked(at).table("staff").where(value),
    "group_by": lambda at, value: asked(at).table("staff").group_by(value),
    "join": lambda at, value: asked(at).table("staff").join(value, using="person_id"),
    "using": lambda at, value: asked(at).table("staff").join("visits", using=[value]),
    "how": lambda at, value: asked(at).table("staff").join("visits", how=value),
    "eps of a function": lambda at, value: counted(at, eps=value),
    "bounds of a function": lambda at, value: counted(at, eps=1, bounds=value),
    "execute": lambda at, value: cursor(at).execute(value),
    "parameters": lambda at, value: cursor(at).execute("SELECT ?", value),
    "a parameter by name": lambda at, value: cursor(at).execute("SELECT 1", {value: 1}),
    "a column of an answer": lambda at, value: asked(at).tables().interval(value, 0.95),
    "confidence": lambda at, value: asked(at).tables().interval("table", value),
}


def own(place: Path, **arguments: Any) -> object:
    given = {"unit": "person_id", "epsilon": 1, **arguments}
    return dpquery.connect({"staff": str(place / "staff.parquet")}, **given)


@cache  # what opens a policy is among the takers: those who ask share a session
def asked(place: Path) -> dpquery.Session:
    return dpquery.connect(place / "policy.toml")


def counted(place: Path, **options: Any) -> object:
    return asked(place).table("staff").agg(n=dpquery.mean("age", **options)).explain()


@cache
def cursor(place: Path) -> Any:
    return dpquery.dbapi.connect(place / "policy.toml").cursor()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_samples(tmp_path_factory.mktemp("shown") / "data").parent


SQL = ("sql", "explain", "losses", "where", "group_by", "execute")
MEANT = {
    **{taker: {"lines"} for taker in SQL},
    **{taker: {"a row"} for taker in ("source", "a source without epsilon")},
    "ledger": {"lines", "a text of another class"},
}
"""What is no mistake to begin with: a text of SQL, tables by name, and a file's name."""
GIVEN = [(kind, taker) for taker in TAKERS for kind in DATA if kind not in MEANT.get(taker, ())]


@pytest.mark.parametrize(("kind", "taker"), GIVEN)
def test_an_argument_that_may_hold_data_is_not_shown(place: Path, kind: str, taker: str):
    said = "nothing"
    try:
        TAKERS[taker](place, DATA[kind]())
    except Exception as fault:  # noqa: BLE001 - whatever it is, its words are looked at
        said = f"{fault} {fault!r}"
    assert SECRET not in said
    assert "4711" not in said
    assert "its repr was asked for" not in said
    assert len(said) < 2000


@pytest.mark.parametrize("value", ["salery", 0, -1, 1.5, Decimal("-1e-3"), None, True])
def test_what_is_short_and_plain_is_shown(place: Path, value: object):
    for name in ("epsilon", "delta"):
        if value is None or (name, value) in {("delta", 0), ("epsilon", 1.5)}:
            continue
        with pytest.raises(dpquery.PolicyInvalid, match=str(value).lower()):
            dpquery.connect(place / "policy.toml", **{name: value})
