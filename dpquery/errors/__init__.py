"""Everything that dpquery raises, and how it reads.

    DPQueryError
    ├── QueryRefused          the analyst can mend it; budget untouched
    │   ├── SyntaxRefused     1xx  parse    not a query we understand
    │   ├── NameRefused       2xx  bind     unknown or misused table, column, function, argument
    │   ├── RuleRefused       3xx  check    would break the promise
    │   ├── PlanRefused       4xx  plan     cannot be answered with what policy and query state
    │   └── BudgetRefused     5xx  charge   would pass the ceiling
    ├── PolicyInvalid         6xx  the data owner's file, or the arguments of connect
    ├── ScanFailed            7xx  engine trouble; constant text; budget spent
    ├── SessionUnusable       8xx  closed, over a fork; a stream or cursor that has ended
    │   └── ServerUnusable             no server of dpquery, or none that takes who asks
    └── InternalError         9xx  ours; prints no values

The class says what kind of remedy helps, and the stage beside it is where most of its refusals
are found: a name may be found wrong by the planner, a rule broken by the parser. One code per
cause, and no code used for two. The text of a refusal is a function of query, policy and ledger
(I6): nothing here ever sees a value from the data. Messages live where they are raised;
`docs/errors.md` holds the page behind each code.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from html import escape

from dpquery.core.source_text import Source, Span, visible, visible_lines

__all__ = [
    "BudgetRefused",
    "DPQueryError",
    "Diagnostic",
    "ExitCode",
    "InternalError",
    "NameRefused",
    "PlanRefused",
    "PolicyInvalid",
    "QueryRefused",
    "RuleRefused",
    "ScanFailed",
    "ServerUnusable",
    "SessionUnusable",
    "SyntaxRefused",
]


_LONGEST = 128
"""Characters of a text that a message repeats: as many as names and most paths have."""
_PLAIN = frozenset({str, int, float, bool, Decimal, Fraction, type(None)})


class ExitCode(IntEnum):
    """What the command line returns."""

    ANSWER = 0
    REFUSED = 1
    USAGE = 2
    BUDGET = 3
    SCAN = 4
    INTERNAL = 70
    INTERRUPTED = 130


class Worded(str):
    """A line for who asks under a policy, with what stands there for who asks their own files.

    Nothing stands there where it is empty: they have no policy, and no data owner to ask.
    """

    own: str

    def __new__(cls, text: str, own: str = "") -> Worded:
        """Return the line."""
        line = super().__new__(cls, text)
        line.own = own
        return line

    def removeprefix(self, prefix: str, /) -> Worded:
        """Return both lines without a word before them."""
        return Worded(super().removeprefix(prefix), self.own.removeprefix(prefix))


class _Advice(Worded):
    pass


def advice(text: str, own: str = "") -> str:
    """Return a remedy in words, with nothing to paste: `refusal` puts it among the reasons.

    Args:
        text: what to do.
        own: what to do for who asks their own files, if it is something else.
    """
    return _Advice(f"{text}.", f"{own or text}.")


def _own(line: str) -> str:
    return line.own if isinstance(line, Worded) else line


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A refusal as data: what, where, why, and what to type instead."""

    code: str
    title: str
    span: Span | None = None
    label: str = ""
    why: tuple[str, ...] = ()
    remedy: tuple[str, ...] = ()
    """Lines after `try:`; the first can be typed as it is."""

    def for_own_files(self) -> Diagnostic:
        """Return it in the words for who asks their own files."""
        why = tuple(_own(line).replace("the policy's ", "the session's ") for line in self.why)
        remedy = tuple(filter(None, map(_own, self.remedy)))
        return replace(self, label=_own(self.label), why=why, remedy=remedy)

    def render(self, verdict: str, source: Source | None, budget: str) -> str:
        """Write the refusal as text; colour would add nothing."""
        lines = [f"{verdict}[{self.code}]: {self.title}"]
        if source is not None and self.span is not None:
            lines += [source.caret(self.span, self.label), ""]
        lines += _block("   why: ", self.why)
        lines += _block("   try: ", self.remedy)
        if budget:
            lines.append(f"budget: {budget}")
        return visible_lines("\n".join(lines))


def _block(head: str, lines: tuple[str, ...]) -> list[str]:
    return [(head if i == 0 else " " * len(head)) + line for i, line in enumerate(lines)]


class DPQueryError(Exception):
    """The root: catch this to catch everything of ours."""

    verdict = "failed"
    exit_code = ExitCode.INTERNAL
    sqlstate = "XX000"

    def __init__(
        self, diagnostic: Diagnostic, source: Source | None = None, budget: str = ""
    ) -> None:
        super().__init__(diagnostic.title)
        self.diagnostic = diagnostic
        self.source = source
        self.budget = budget
        """The last line of the text: what the ledger says now."""

    @property
    def code(self) -> str:
        """The code of the cause, such as DPQ501."""
        return self.diagnostic.code

    @property
    def span(self) -> Span | None:
        """The stretch of the query that must change."""
        return self.diagnostic.span

    def __str__(self) -> str:
        return self.diagnostic.render(self.verdict, self.source, self.budget)

    def _render_traceback_(self) -> list[str]:
        """Return what a notebook shows in the place of frames: the caret says where to look."""
        return str(self).split("\n")

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


class QueryRefused(DPQueryError):
    """The query is not answered, because of query, policy or ledger; it loses nothing."""

    verdict = "refused"
    exit_code = ExitCode.REFUSED
    sqlstate = "42501"


class SyntaxRefused(QueryRefused):
    """The text is not a query of this language; mostly found by parse."""

    sqlstate = "42601"


class NameRefused(QueryRefused):
    """A table, column, function, argument or value is unknown or misused; mostly bind."""

    sqlstate = "42703"


class RuleRefused(QueryRefused):
    """An answer would break the promise; found by parse, bind and check."""


class PlanRefused(QueryRefused):
    """Policy and query state too little to answer with; found by bind and plan."""

    sqlstate = "0A000"


class BudgetRefused(QueryRefused):
    """A limit would be passed; found by charge."""

    exit_code = ExitCode.BUDGET
    sqlstate = "53400"

    def __init__(self, diagnostic: Diagnostic, asked: Fraction, left: Fraction) -> None:
        super().__init__(diagnostic)
        self.asked = asked
        self.left = left


_STAGES = {"1": SyntaxRefused, "2": NameRefused, "3": RuleRefused, "4": PlanRefused}


def refusal(
    code: str,
    title: str,
    span: Span | None = None,
    label: str = "",
    why: str | tuple[str, ...] = (),
    remedy: str | tuple[str, ...] = (),
) -> QueryRefused:
    """Return the refusal of a query, of the class that its code belongs to.

    What is offered is a statement, or fits where the caret is; advice is told with the reasons.

    >>> refusal("DPQ204", "there is no column salery")
    NameRefused('there is no column salery')
    """
    why, remedy = ((text,) if isinstance(text, str) else text for text in (why, remedy))
    if remedy and isinstance(remedy[0], _Advice):
        why, remedy = (*why, *remedy), ()
    return _STAGES[code[3]](Diagnostic(code, title, span, label, why, remedy))


class PolicyInvalid(DPQueryError):
    """The data owner's file, the ledger beside it, or the arguments of connect need mending."""

    verdict = "policy"
    exit_code = ExitCode.USAGE
    sqlstate = "F0000"

    def __init__(
        self,
        diagnostic: Diagnostic,
        file: str | None = None,
        line: int | None = None,
        key: str | None = None,
    ) -> None:
        super().__init__(diagnostic)
        self.file = file
        self.line = line
        self.key = key

    def __str__(self) -> str:
        text = super().__str__()
        if self.file is None:
            return text
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        first, _, rest = text.partition("\n")
        return f"{first}\n   --> {visible(where)}" + (f"\n{rest}" if rest else "")


class ScanFailed(DPQueryError):
    """Reading broke off after the charge; the text is constant and the charge stays."""

    exit_code = ExitCode.SCAN
    sqlstate = "58000"


class SessionUnusable(DPQueryError):
    """The session was closed or belongs to another process, or a stream of it has ended."""

    exit_code = ExitCode.USAGE
    sqlstate = "08003"


class ServerUnusable(SessionUnusable):
    """There is no server of dpquery, it does not take who asks, or cannot answer now."""

    def __init__(self, diagnostic: Diagnostic, sqlstate: str) -> None:
        super().__init__(diagnostic)
        self.sqlstate = sqlstate


_CLOSED = "a closed session asks no more; its answers stay, and so does what it has spent."
_FORKED = "a ledger and its noise belong to one process: a copy of them would be used twice."


def unusable(*, closed: bool) -> SessionUnusable:
    """Report a session that was closed, or that came over a fork."""
    return SessionUnusable(
        Diagnostic(
            "DPQ801",
            "the session is closed" if closed else "the session belongs to another process",
            why=(_CLOSED if closed else _FORKED,),
            remedy=("session = dpquery.connect(...)",),
        )
    )


class InternalError(DPQueryError):
    """A mistake of ours; it names the broken rule and prints no values."""


def internal(rule: str) -> InternalError:
    """Report a broken rule of our own, such as an invariant."""
    return InternalError(
        Diagnostic(
            "DPQ901",
            f"a rule of the engine does not hold: {rule}",
            why=("this is a mistake in dpquery, not in the query.",),
            remedy=("report it with the query; nothing of the data is in this message",),
        )
    )


def shown(value: object) -> str:
    """Write an argument for a message: a short plain value as it is, of all others the type.

    What else is given could hold rows, and its own repr could do anything.

    >>> shown("salery"), shown(0.5), shown([("Ann", 41)]), shown("Ann, " * 99)
    ("'salery'", '0.5', 'a list', 'a long text')
    """
    if type(value) is str and len(value) > _LONGEST:
        return "a long text"
    if type(value) in _PLAIN:
        with suppress(ValueError):  # Python writes no integer of thousands of digits
            text = repr(value) if isinstance(value, str) else str(value)
            return text if len(text) <= 2 * _LONGEST else "a long number"
        return "a long number"
    name = visible(str(type(value).__name__)[:40])
    return f"{'an' if name[:1] in 'aeiouAEIOU' else 'a'} {name}"


def nearest(name: str, known: Iterable[str], alike: float = 0.6) -> str | None:
    """Return the known name that looks most like a mistyped one, if any is so much alike.

    >>> nearest("salery", ["dept", "salary"])
    'salary'
    """
    folded = {candidate.lower(): candidate for candidate in sorted(known, reverse=True)}
    found = difflib.get_close_matches(name.lower(), sorted(folded), n=1, cutoff=alike)
    return folded[found[0]] if found else None


def listed(names: Iterable[str], first: str | None = None) -> str:
    """Join names for a message: the nearest first, then sorted, ten at most.

    >>> listed(["b", "a"], first="b")
    'b, a'
    """
    ordered = sorted(set(names), key=lambda name: (name != first, name))
    return ", ".join(ordered[:10]) + (", …" if len(ordered) > 10 else "")


def without(call: str, start: int, end: int) -> str:
    """Take the argument that holds a stretch out of a call, with the comma before it.

    >>> without("F(x, eps=1, delta=2)", 9, 10), without("F(eps=1, x)", 2, 7)
    ('F(x, delta=2)', 'F(x)')
    """
    opened = max(call.rfind(",", 0, start), call.find("(") + 1)
    if call[opened] == ",":
        return call[:opened] + call[end:]
    return call[:opened] + call[end:].removeprefix(",").lstrip()
