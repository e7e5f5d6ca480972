"""Reads which quantile a call is for, or which ones."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sqlglot import expressions as exp

from dpquery.core.privacy_loss import decimal_text
from dpquery.core.source_text import Span
from dpquery.errors import refusal
from dpquery.sql.bind.call_options import read_number_between
from dpquery.sql.parse.literals import read_digits, unwrapped
from dpquery.sql.parse.spans import Spans
from dpquery.sql.suggest.dialects import boundaries, is_share

MAX_ORDERS = 1000
"""More quantiles of one column are a distribution, and are asked for as one."""


class Orders:
    """The quantiles of one call."""

    def __init__(
        self, spans: Spans, node: exp.Expr, name: str, changed: Callable[[Span, str], str]
    ) -> None:
        """Read a call of a function; `changed` writes it with another text for a stretch."""
        self._spans, self._node, self._name, self._with = spans, node, name, changed

    def read(self, first: exp.Expr, share: exp.Expr) -> Fraction | tuple[Fraction, ...]:
        """Read which quantile is asked for, or which ones."""
        name, whole = self._name, unwrapped(share)
        if isinstance(whole, exp.Array):
            if not 1 <= len(whole.expressions) <= MAX_ORDERS:
                title = f"{name} takes a list of 1 to {MAX_ORDERS:,} quantiles"
                label = f"{len(whole.expressions):,} of them"
                why = "each quantile of a list is drawn, and they share the eps of the call."
                remedy = f"{name}({self._spans.text(first)}, [0.25, 0.75], eps=0.5)"
                raise refusal("DPQ205", title, self._spans.of(whole), label, why, remedy)
            return tuple(map(self._one_order, whole.expressions))
        self._require_share(self._spans.of(share), whole)
        if isinstance(unwrapped(first), exp.Literal):
            swapped = f"{self._spans.text(share)}, {self._spans.text(first)}"
            return self._one_order(share, f"{name}({swapped}, eps=0.5)")
        return self._one_order(share)

    def _one_order(self, share: exp.Expr, remedy: str = "") -> Fraction:
        span, number = self._spans.of(share), unwrapped(share)
        remedy = remedy or self.mended(span, number)
        limits = (Fraction(0), Fraction(1))
        return read_number_between("the quantile", number, span, limits, remedy)

    def _require_share(self, span: Span, number: exp.Expr) -> None:
        """Refuse the number of parts, which APPROX_QUANTILES takes in place of a share."""
        name = self._spans.source.snippet(self._spans.name(self._node)).upper()
        shares = boundaries(name, number)
        if not shares:
            return
        title = f"{name} of {number.name} parts needs their boundaries"
        label = "a number of parts, not a quantile"
        why = "quantiles are shares of the rows here, from 0, the least, to 1, the greatest."
        raise refusal("DPQ205", title, span, label, why, self._with(span, shares))

    def mended(self, span: Span, number: exp.Expr) -> str:
        """Write the call with another quantile: a percentage becomes a share."""
        text = number.name if isinstance(number, exp.Literal) else ""
        share, percent = text if is_share(text) else "0.5", read_digits(text) or 0
        if 1 < percent <= 100:
            share = decimal_text(Fraction(percent, 100))
        return self._with(span, share)
