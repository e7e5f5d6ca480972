"""What can be named at the prompt: tables and columns of the policy, functions with arguments.

All of it is what `SHOW TABLES` and `DESCRIBE` say, read once when the shell opens; nothing of
the data is known here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from dpquery.answer import Answer
from dpquery.functions.base import Argument, DPFunction

__all__ = ["Column", "Known", "known_to", "signature"]

_TEXT = re.compile(r"'(?:[^']|'')*'")
_ASKED = {
    Argument.VALUE: "x",
    Argument.NUMBER: "number",
    Argument.ORDERED: "number or date",
    Argument.CONDITION: "condition",
    Argument.LISTED: "column",
    Argument.DISCRETE: "x",
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the policy, as far as completion has to know it."""

    name: str
    type: str
    keys: tuple[str, ...] = ()
    """Those of a text column, as a query writes them."""
    bounded: bool = False

    @property
    def numeric(self) -> bool:
        """Whether it can be summed."""
        return self.type.startswith(("integer", "double", "decimal"))

    @property
    def ordered(self) -> bool:
        """Whether it has quantiles."""
        return self.numeric or self.type in {"date", "timestamp"}

    @property
    def groups(self) -> bool:
        """Whether the policy alone says which groups it makes."""
        whole = self.type in {"integer", "date"} and self.bounded
        return bool(self.keys) or self.type == "boolean" or whole


Known = Mapping[str, tuple[Column, ...]]
"""The columns of each table, in the order of the policy."""


class Described(Protocol):
    """What a session says of its policy."""

    def tables(self) -> Answer:
        """Give the tables."""
        ...

    def describe(self, name: str) -> Answer:
        """Give the columns of one table."""
        ...


def known_to(session: Described) -> Known:
    """Read what a session's policy names."""
    names = [str(row["table"]) for row in session.tables().to_dicts()]
    return {
        name: tuple(_column(row) for row in session.describe(name).to_dicts()) for name in names
    }


def _column(row: Mapping[str, str | None]) -> Column:
    type_, keys = row["type"] or "", row["keys"]
    texts = _TEXT.findall(keys) if keys and type_ == "text" else ()
    return Column(row["column"] or "", type_, tuple(texts), row["low"] is not None)


def signature(function: DPFunction) -> str:
    """Write how a function is asked.

    >>> from dpquery.functions.quantile import MEDIAN
    >>> signature(MEDIAN)[:36]
    'DP_MEDIAN(number or date, eps=, delt'
    """
    asked = ("* or " if function.star else "") + _ASKED[function.argument]
    order = ["q"] if function.order else []
    options = [f"{parameter.name}=" for parameter in function.parameters]
    return f"{function.name}({', '.join([asked, *order, *options])})"
