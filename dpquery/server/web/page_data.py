"""What the page shows of answers, explanations and refusals: texts, and numbers to draw.

Workers write these forms, so that the server's own process has no large answer to lay out.
Texts are as the shell shows them, with nothing in them that could drive a page or a terminal.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from dpquery.answer import Answer
from dpquery.core.privacy_loss import NO_LOSS, decimal_text
from dpquery.core.source_text import visible
from dpquery.editing.cursor_context import words_of
from dpquery.errors import DPQueryError, internal
from dpquery.plan.explain import Explanation
from dpquery.session import Budget

MOST_ROWS, MOST_CELLS = 2000, 20_000
"""Of an answer, that the page shows."""
_STATEMENTS = frozenset({
    "SELECT", "WITH", "FROM", "EXPLAIN", "REFRESH", "SHOW", "DESCRIBE", "CREATE", "DROP", "SET",
    "RESET", "SUMMARIZE",
})  # fmt: skip
"""The words that statements begin with."""


def page_form(value: object) -> bytes:
    """Write what a statement came to, as the page shows it.

    Raises:
        InternalError: the page shows no such thing.
    """
    match value:
        case None:
            return b"null"
        case Answer():
            return _written(_answer(value))
        case Explanation():
            return _written(_explanation(value))
        case Budget():
            return _written(_budget(value))
    raise internal(f"the page shows no {type(value).__name__}")


def rows_form(value: object) -> bytes:
    """Write the rows of an answer that tells of the policy or the ledger; times are in UTC.

    Raises:
        InternalError: this is no answer.
    """
    if not isinstance(value, Answer):
        raise internal(f"a {type(value).__name__} has no rows")
    table = value.table
    for at, (name, type_) in enumerate(
        zip(table.column_names, table.schema.types, strict=True)
    ):
        if pa.types.is_timestamp(type_) and type_.tz:  # with a zone, pyarrow loads pandas
            text = table.column(at).cast(pa.timestamp("us")).cast(pa.string())
            table = table.set_column(at, name, text)
    return _written(table.to_pylist())


FORMS: Mapping[str, Callable[[object], bytes]] = {"page": page_form, "rows": rows_form}
"""By what a request wants in the place of rows of Arrow."""


def refusal_form(error: DPQueryError) -> bytes:
    """Write a refusal with its caret, and with what can be typed instead."""
    found, span = error.diagnostic, error.span
    caret = (
        "" if error.source is None or span is None else error.source.caret(span, found.label)
    )
    told = {
        "code": error.code,
        "verdict": error.verdict,
        "title": visible(found.title),
        "caret": caret,
        "text": None if error.source is None else error.source.text,
        "span": None if span is None else [span.start, span.end],
        "why": [visible(line) for line in found.why],
        "try": [
            {"text": visible(line), "kind": _kind(line, first=at == 0 and span is not None)}
            for at, line in enumerate(found.remedy)
        ],
        "budget": error.budget,
    }
    return _written(told)


def _kind(remedy: str, *, first: bool) -> str:
    """Say whether a line after `try:` is a statement, fits about the caret, or is advice."""
    words = words_of(remedy)
    if words and words[0].upper in _STATEMENTS:
        return "statement"
    said = remedy.startswith(("dpquery ", "ask the data owner"))
    return "fragment" if first and not said else "advice"


def _explanation(value: Explanation) -> dict[str, Any]:
    steps = [
        {
            "call": visible(step.function),
            "mechanism": step.mechanism,
            "epsilon": decimal_text(step.epsilon),
            "error": visible(step.expected_error),
        }
        for step in value.steps
    ]
    return {
        "charge": str(value.charge),
        "epsilon": float(value.charge.epsilon),
        "free": value.charge == NO_LOSS,
        "steps": steps,
        "text": str(value),
    }


def _budget(budget: Budget) -> dict[str, Any]:
    parts = {"limit": budget.limit, "spent": budget.spent, "left": budget.left}
    numbers = {f"{name}_number": float(loss.epsilon) for name, loss in parts.items()}
    return numbers | {name: str(loss) for name, loss in parts.items()}


def _answer(answer: Answer) -> dict[str, Any]:
    most = max(1, min(MOST_ROWS, MOST_CELLS // max(1, len(answer.columns))))
    left_out = max(0, len(answer) - most)
    kept = replace(answer, table=answer.table.slice(0, most), cells=answer.cells[:most])
    return {
        "columns": _columns(kept),
        "rows": len(kept),
        "left_out": left_out,
        "loss": str(answer.loss),
        "free": answer.loss == NO_LOSS and answer.guarantee is not None,
        "paid": answer.loss != NO_LOSS,
        "budget": answer.budget,
        "notes": [visible(note) for note in answer.notes],
        "guarantee": None if answer.guarantee is None else visible(str(answer.guarantee)),
    }


def _columns(answer: Answer) -> list[dict[str, Any]]:
    """Write each column with its margins beside it."""
    texts = iter(answer.text_columns())
    columns = []
    for at, (name, margins) in enumerate(zip(answer.columns, answer.margins(), strict=True)):
        shown = next(texts)
        column: dict[str, Any] = {
            "name": visible(name),
            "kind": _column_kind(str(answer.table.schema.field(at).type), right=shown.right),
            "right": shown.right,
            "cells": list(shown.cells),
        }
        if any(margins):
            reach = next(texts)
            column |= {"margin": reach.head, "margins": list(reach.cells)}
        if shown.right:
            column |= _numbers(answer, at)
        elif len(answer) == 1 and isinstance(only := answer.rows[0][at], list):
            column["list"] = [_number(one) for one in only]
        columns.append(column)
    return columns


def _column_kind(arrow: str, *, right: bool) -> str:
    if right:
        return "number"
    return "time" if arrow.startswith(("date", "timestamp")) else "text"


def _numbers(answer: Answer, at: int) -> dict[str, Any]:
    """Write the values of a column and the ends of their intervals, to be drawn."""
    numbers = {"values": [_number(row[at]) for row in answer.rows]}
    if answer.columns.count(answer.columns[at]) > 1:  # which of them a name means is not said
        return numbers
    intervals = answer.interval(answer.columns[at])
    if any(intervals):
        ends: Sequence[Any] = [one or (None, None) for one in intervals]
        numbers |= {
            "low": [_number(low) for low, _ in ends],
            "high": [_number(high) for _, high in ends],
        }
    return numbers


def _number(value: Any) -> float | None:
    """Return what a chart can place."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _written(form: object) -> bytes:
    return json.dumps(form, separators=(",", ":"), allow_nan=False, default=str).encode()
