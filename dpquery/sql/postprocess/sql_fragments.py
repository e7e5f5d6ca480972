"""Values above the frontier: the text that the engine computes, and what is known of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.core.types import NUMERIC, Kind
from dpquery.errors import refusal
from dpquery.ir.expr import Literal
from dpquery.ir.query import Origin
from dpquery.sql.parse.literals import read_literal
from dpquery.sql.parse.spans import Spans

MAX_SIZE = 30_000
"""Parts of an expression with everything written as often as the engine will write it."""
MAX_TEXT = 400_000
"""Characters of what the engine is asked: reading more takes it seconds."""
MAX_DEPTH = 200
MAX_LIMIT = 2**31 - 1
LONGEST_NUMBER = 48
"""Characters of a number, a date or a truth value, written as a text."""
TEXTUAL = frozenset({Kind.TEXT, None})
"""Of which kind values can grow: texts, and lists, whose kind has no name here."""
NAMES = {
    Kind.INTEGER: "BIGINT",
    Kind.DOUBLE: "DOUBLE",
    Kind.TEXT: "TEXT",
    Kind.BOOLEAN: "BOOLEAN",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "TIMESTAMP",
    Kind.TIMESTAMPTZ: "TIMESTAMP WITH TIME ZONE",
    Kind.TIME: "TIME",
}
"""What the engine calls the kinds; decimals have a width besides."""


@dataclass(frozen=True, slots=True)
class Value:
    """An expression that is bound: its text, its kind, and how it may behave."""

    sql: str
    kind: Kind | None = None
    """None where it is not known before planning, as of NULL."""
    safe: bool = False
    """Whether it can never raise."""
    size: int = 1
    depth: int = 1
    origins: tuple[Origin, ...] = ()
    """The releases that it shows unchanged."""
    narrow: bool = False
    """Whether exact numbers in it are those of a column: sums of them cannot overflow."""
    constant: Literal | None = None
    longest: int = LONGEST_NUMBER
    """The most characters that it has as a text."""
    grown: int | None = 0
    """The characters that were made for it in all rows; of a column as it is held, none; None
    where each row has its own."""
    noiseless: bool = False
    """Whether it is a column as it is held of what is public: keys, and public tables."""

    @property
    def numeric(self) -> bool:
        """Whether it is known to be a number."""
        return self.kind in NUMERIC

    @property
    def total(self) -> str:
        """Its text so that it cannot raise: NULL where the engine would stop."""
        return self.sql if self.safe else f"TRY({self.sql})"


def made(
    template: str,
    *parts: Value,
    kind: Kind | None,
    safe: bool = False,
    repeats: int = 1,
    longest: int | None = None,
) -> Value:
    """Make a value of others: the template has each by its place, so many times.

    A text is as long as the longest of its parts, unless it says how long it is.
    """
    size = 1 + sum(part.size for part in parts) * repeats
    depth = 1 + max((part.depth for part in parts), default=0)
    sql = template.format(*(part.sql for part in parts))
    if kind not in TEXTUAL:
        return Value(sql, kind, safe, size, depth)
    grown = [part.grown for part in parts]
    total = None if longest is not None or None in grown else sum(filter(None, grown))
    if longest is None:
        longest = max((part.longest for part in parts), default=0)
    return Value(sql, kind, safe, size, depth, longest=longest, grown=total)


REPEATING = "aliases, IN, BETWEEN and division"
"""What stands in the engine's text more often than in the query."""


READ_BEFORE = "it is read from the text before anything is computed."


def in_calendar(sql: str) -> str:
    """Write a moment that may lie outside years 1 to 9999: NULL there, as rows have it."""
    return f"list_filter([{sql}], lambda v: year(v) BETWEEN 1 AND 9999)[1]"


def quoted(name: str) -> str:
    """Write a name for the engine."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """Write a text for the engine."""
    return "CAST('" + value.replace("'", "''") + "' AS TEXT)"


def literal(node: exp.Expr, span: Span) -> Value | None:
    """Read a literal and print it anew, with its type; None where a node is none."""
    if isinstance(node, exp.Null):
        return Value("NULL", None, safe=True, longest=0)
    found = read_literal(node, span)
    if found is not None and found.type.kind is Kind.TIMESTAMPTZ:
        return instant(str(node.this.this))
    return None if found is None else constant(found, node)


def instant(written: str) -> Value:
    """Write an instant; one without an offset is in the zone that the engine has."""
    sql = f"TRY_CAST({text(written)} AS {NAMES[Kind.TIMESTAMPTZ]})"
    return Value(sql, Kind.TIMESTAMPTZ, safe=True)


def constant(found: Literal, node: exp.Expr) -> Value:
    """Print a literal anew, with its type; of a number, the digits that were typed."""
    kind, value, longest = found.type.kind, found.value, LONGEST_NUMBER
    if isinstance(value, bool):
        sql = str(value).upper()
    elif isinstance(value, str):
        sql, longest = text(value), len(value)
    elif kind in NUMERIC:
        sql = f"(-{node.this.this})" if isinstance(node, exp.Neg) else str(node.this)
    else:
        sql = f"CAST('{value}' AS {NAMES[kind]})"
    if kind is Kind.DECIMAL and isinstance(value, int):
        kind = Kind.INTEGER
    short = len(sql) < 19
    return Value(sql, kind, safe=True, narrow=short, constant=found, longest=longest)


def joined(word: str, parts: Sequence[Value]) -> Value:
    """Write AND or OR of many parts as a tree of little depth, because engines recurse too."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    left, right = joined(word, parts[:half]), joined(word, parts[half:])
    both = left.safe and right.safe
    return made(f"({{0}} {word} {{1}})", left, right, kind=Kind.BOOLEAN, safe=both)


def condition(value: Value) -> str:
    """Write a condition for WHERE: what cannot be told is not true."""
    if value.kind is Kind.BOOLEAN:
        return value.total
    return f"TRY(CAST({value.sql} AS BOOLEAN))"


def where(kept: Sequence[Value]) -> str:
    """Write WHERE; empty without conditions."""
    return " WHERE " + " AND ".join(map(condition, kept)) if kept else ""


def widest(*values: Value) -> Kind | None:
    """Return the kind of arithmetic with numbers; None where one is not known."""
    kinds = {value.kind for value in values}
    order = (None, Kind.DOUBLE, Kind.DECIMAL)
    return next((kind for kind in order if kind in kinds), Kind.INTEGER)


def comparable(one: Kind | None, other: Kind | None) -> bool:
    """Return whether values of two kinds can be compared, as far as they are known."""
    return one is other or None in {one, other} or {one, other} <= NUMERIC


def direction(item: exp.Expr) -> str:
    """Write how a key of ORDER BY sorts, and where NULL stands."""
    word = "DESC" if item.args.get("desc") else "ASC"
    return f" {word} NULLS {'FIRST' if item.args.get('nulls_first') else 'LAST'}"


def row_count(node: exp.Expr, slot: str, spans: Spans) -> str:
    """Write LIMIT or OFFSET.

    Raises:
        NameRefused: DPQ207 not a whole number.
    """
    digits = str(node.this) if isinstance(node, exp.Literal) and not node.is_string else ""
    digits = digits.lstrip("0") or digits[:1]
    if not digits.isdigit() or len(digits) > 10 or int(digits) > MAX_LIMIT:
        title, remedy = f"{slot.upper()} must be a whole number", f"{slot.upper()} 10"
        span, label = spans.of(node), "not a whole number"
        raise refusal("DPQ207", title, span, label, READ_BEFORE, remedy)
    return f" {slot.upper()} {int(digits)}"
