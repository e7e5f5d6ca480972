"""BigQuery's and GoogleSQL's spelling, read as the plain aggregates that it means.

`SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, ...)` says what the statement may spend,
and `ANON_SUM(x CLAMPED BETWEEN 0 AND 10)` where values are clamped. The statement is written
anew in our own words; refusals and EXPLAIN show it so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import NoReturn

from sqlglot import Token, TokenType
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import TokenError

from dpquery.core.privacy_loss import decimal_text, exact_number
from dpquery.core.source_text import Source, Span
from dpquery.core.types import ROWS_MAX
from dpquery.errors import listed, nearest, refusal
from dpquery.ir.query import Call
from dpquery.policy.model import Policy
from dpquery.sql.bind.scope import fold
from dpquery.sql.parse.spans import span_of

_CLAUSES = {"DIFFERENTIAL_PRIVACY", "ANONYMIZATION"}
_WHOLE = {
    "max_groups_contributed": "max_groups_contributed",
    "max_rows_contributed": "max_rows_contributed",
    "min_privacy_units_per_group": "min_units",
}
"""What holds for all calls that take it, and what it is called there."""
_NUMBERS = {"epsilon", "delta", *_WHOLE}
_OPTIONS = (*sorted(_NUMBERS), "group_selection_strategy", "privacy_unit_column")
_STRATEGIES = ("LAPLACE_THRESHOLD", "PUBLIC_GROUPS")
_QUANTILES = {"APPROX_QUANTILES", "ANON_QUANTILES"}
_OTHER = {"PERCENTILE_CONT": "QUANTILE"}
_GROUP_BOUNDS = "CONTRIBUTION_BOUNDS_PER_GROUP"
_PER_GROUP = {"COUNT", "SUM", "ANON_COUNT", "ANON_SUM"}
"""Functions whose clamp is of what a unit has in a group."""
_MOST_SHARES = 1000


@dataclass(slots=True)
class Clause:
    """What a clause says of its statement."""

    source: Source
    """The statement without it."""
    stated: dict[str, str] = field(default_factory=dict)
    """Its options: numbers as they are written, names folded."""
    spans: dict[str, Span] = field(default_factory=dict)

    @property
    def given(self) -> dict[str, int]:
        """What holds for every call that takes it."""
        return {
            ours: int(self.stated[one]) for one, ours in _WHOLE.items() if one in self.stated
        }

    def require_taken(self, calls: Iterable[Call]) -> None:
        """Require that a least number of units is said of groups that are found.

        Raises:
            NameRefused: DPQ209 the groups are public, or there are none.
        """
        name = "min_privacy_units_per_group"
        if name not in self.stated or any(call.options.min_units for call in calls):
            return
        title, span = f"{name} has no place here", self.spans[name]
        why = "it is about groups that are found; public ones are all shown."
        raise refusal("DPQ209", title, span, "no group is found", why, "leave it out")

    def require_unit(self, policy: Policy) -> None:
        """Require that the privacy unit is one of the policy's.

        Raises:
            NameRefused: DPQ205.
        """
        named = self.stated.get("privacy_unit_column")
        units = sorted({table.unit for table in policy.tables.values() if table.unit})
        known = map(fold, [*units, policy.unit or ""])
        if named is None or fold(named.strip('"`').rpartition(".")[2]) in known:
            return
        title, span = f"{named[:40]} is no privacy unit here", self.spans["privacy_unit_column"]
        why = "the policy says whose rows are protected; a query can only agree."
        remedy = units[0] if units else "leave out privacy_unit_column"
        raise refusal("DPQ205", title, span, "not the policy's", why, remedy)


def respelled(source: Source) -> Clause | None:
    """Return a statement in our own spelling; None where it has no such clause.

    Raises:
        NameRefused: DPQ205, DPQ206, DPQ207 an option that is unknown, or has no such value.
        SyntaxRefused: DPQ102 a second clause.
    """
    if not any(word in source.text.upper() for word in _CLAUSES):
        return None  # nearly always: the text is read once then
    try:
        tokens = DuckDB().tokenize(source.text)
    except TokenError:
        return None
    found = [at for at in range(1, len(tokens) - 1) if _begins(*tokens[at - 1 : at + 3])]
    if not found:
        _require_place(source, tokens)
        return None
    clause = Clause(source)
    if len(found) > 1:
        span = span_of(tokens[found[1]], tokens[found[1] + 1])
        title = "a statement has one clause WITH DIFFERENTIAL_PRIVACY"
        why = "its epsilon is shared by all aggregates of the statement."
        raise refusal("DPQ102", title, span, "the second one", why, "SELECT")
    end = _read_options(tokens, found[0] + 2, clause)
    following = tokens[end].start if end < len(tokens) else len(source.text)
    edits = [(tokens[found[0]].start, following, "")]
    edits += _respelled(tokens)
    text = source.text
    for start, stop, written in sorted(edits, reverse=True):
        text = text[:start] + written + text[stop:]
    clause.source = Source(text, source.name)
    return clause


def _require_place(source: Source, tokens: Sequence[Token]) -> None:
    """Require that no clause stands at the end of its statement.

    Raises:
        SyntaxRefused: DPQ102.
    """
    pairs = enumerate(pairwise(tokens))
    at = next((at for at, pair in pairs if _is_clause(*pair)), None)
    if not at or tokens[0].token_type is not TokenType.SELECT:
        return
    end = tokens[_read_options(tokens, at + 2, Clause(source)) - 1].end + 1
    text, first, start = source.text, tokens[0].end + 1, tokens[at].start
    if text[end:].strip(" \n\t;"):
        return
    moved = f"{text[:first]} {text[start:end]}{text[first:start].rstrip()}".strip()
    span, title = Span(start, end), "WITH DIFFERENTIAL_PRIVACY stands after SELECT"
    why = "it says first what the whole statement may spend."
    raise refusal("DPQ102", title, span, "at the end here", why, moved)


def _is_clause(one: Token, other: Token) -> bool:
    return one.token_type is TokenType.WITH and other.text.upper() in _CLAUSES


def _begins(before: Token, one: Token, other: Token, *after: Token) -> bool:
    """Return whether a clause begins here, and not a name of WITH."""
    return before.token_type is TokenType.SELECT and _is_clause(one, other)


def _read_options(tokens: Sequence[Token], at: int, clause: Clause) -> int:
    """Read OPTIONS(name = value, ...); return where the clause ends."""
    if at + 1 >= len(tokens) or tokens[at].text.upper() != "OPTIONS":
        return at
    closing = next(
        (n for n in range(at, len(tokens)) if tokens[n].token_type is TokenType.R_PAREN), at + 1
    )
    if closing == at + 2:
        return closing + 1
    option: list[Token] = []
    for token in (*tokens[at + 2 : closing], tokens[closing]):
        if token.token_type in {TokenType.COMMA, TokenType.R_PAREN}:
            if len(option) < 3 or option[1].token_type is not TokenType.EQ:
                _refuse_option(option[0] if option else token, "not name = value")
            _take(option[0], Span(option[2].start, option[-1].end + 1), clause)
            option = []
        else:
            option.append(token)
    return closing + 1


def _take(name: Token, span: Span, clause: Clause) -> None:
    """Take in one option."""
    option, written = name.text.lower(), clause.source.snippet(span)
    if option == "kappa":
        option = "max_groups_contributed"
    if option not in _OPTIONS:
        _refuse_option(name, "unknown option")
    if option in clause.stated:
        title, why = f"{option} is given twice", "each option has one value."
        raise refusal("DPQ209", title, span_of(name), "given before", why, "leave one out")
    if option in _WHOLE and not (written.isdecimal() and 0 < int(written) <= ROWS_MAX):
        _refuse_value(option, span, "a whole number above 0", f"{option} = 1")
    if option in _NUMBERS and not _is_number(written):
        _refuse_value(option, span, "a number", f"{option} = 1")
    if option == "group_selection_strategy" and written.upper() not in _STRATEGIES:
        _refuse_value(option, span, listed(_STRATEGIES), f"{option} = PUBLIC_GROUPS")
    clause.stated[option] = f"0{written}" if written.startswith(".") else written
    clause.spans[option] = span


def _is_number(text: str) -> bool:
    try:
        return exact_number(f"0{text}" if text.startswith(".") else text) > 0
    except ValueError:
        return False


def _refuse_option(name: Token, label: str) -> NoReturn:
    near = nearest(name.text.lower(), _OPTIONS) or "epsilon"
    title, why = f"there is no option {name.text[:40]}", f"there are {listed(_OPTIONS, near)}."
    raise refusal("DPQ206", title, span_of(name), label, why, near)


def _refuse_value(option: str, span: Span, wanted: str, remedy: str) -> NoReturn:
    title = f"{option} is {wanted}"
    why = "options are read from the text, before anything is computed."
    raise refusal("DPQ207", title, span, "not such a value", why, remedy)


def _respelled(tokens: Sequence[Token]) -> Iterator[tuple[int, int, str]]:
    """Return what is written otherwise: where it begins and ends, and how."""
    open_calls: list[str] = []
    for at, token in enumerate(tokens):
        word = token.text.upper()
        before_bracket = at + 1 < len(tokens) and tokens[at + 1].token_type is TokenType.L_PAREN
        if token.token_type is TokenType.L_PAREN:
            open_calls.append(tokens[at - 1].text.upper() if at else "")
        elif token.token_type is TokenType.R_PAREN and open_calls:
            open_calls.pop()
        elif token.token_type is TokenType.STRING:
            continue
        elif word in _QUANTILES and before_bracket:
            yield token.start, token.end + 1, "DP_QUANTILE"
            yield from _shares(tokens, at)
        elif word.startswith("ANON_") and before_bracket:
            yield token.start, token.end + 1, f"DP_{_OTHER.get(word[5:], word[5:])}"
        elif word == "CONTRIBUTION_BOUNDS_PER_ROW" or (
            word == _GROUP_BOUNDS and open_calls and open_calls[-1] not in _PER_GROUP
        ):
            yield token.start, token.end + 1, "bounds"
        elif word == "CLAMPED":
            yield from _clamp(tokens, at, open_calls[-1] if open_calls else "")


def _shares(tokens: Sequence[Token], at: int) -> Iterator[tuple[int, int, str]]:
    """Write the number of APPROX_QUANTILES(x, 4) as the shares that it asks for."""
    depth = 0
    for number, token in enumerate(tokens[at + 1 :], start=at + 1):
        depth += token.token_type is TokenType.L_PAREN
        depth -= token.token_type is TokenType.R_PAREN
        count = tokens[number + 1] if number + 1 < len(tokens) else token
        if depth == 1 and token.token_type is TokenType.COMMA and count.text.isdecimal():
            parts = int(count.text)
            if 0 < parts <= _MOST_SHARES:
                shares = (_share(Fraction(part, parts)) for part in range(parts + 1))
                yield count.start, count.end + 1, f"[{', '.join(shares)}]"
            return


def _share(share: Fraction) -> str:
    """Write a share in digits: to 12 places."""
    return decimal_text(Fraction(round(share * 10**12), 10**12))


def _clamp(tokens: Sequence[Token], at: int, call: str) -> Iterator[tuple[int, int, str]]:
    """Write CLAMPED BETWEEN low AND high as bounds."""
    words = [token.text.upper() for token in tokens[at : at + 8]]
    if "BETWEEN" not in words[:2] or "AND" not in words:
        return
    name = _GROUP_BOUNDS.lower() if call in _PER_GROUP else "bounds"
    and_, end = tokens[at + words.index("AND")], tokens[at + words.index("AND") + 1]
    if end.token_type is TokenType.DASH:
        end = tokens[at + words.index("AND") + 2]
    yield tokens[at - 1].end + 1, tokens[at + 2].start, f", {name}=["
    yield tokens[at + words.index("AND") - 1].end + 1, and_.end + 1, ","
    yield end.end + 1, end.end + 1, "]"
