"""What a refused construct is called, and where its words stand in the text.

The list of what is accepted is in `sql/parse/parser.py`; here nothing is accepted. A construct
without a name is called by its operator, or by the name of its node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from sqlglot import Token, TokenType
from sqlglot import expressions as exp
from sqlglot.errors import ParseError

from dpquery.core.source_text import Source, Span
from dpquery.errors import QueryRefused, advice, nearest, refusal
from dpquery.sql.bind.rows.typed_expressions import target
from dpquery.sql.parse.spans import Spans, example, incomplete, mended, outside, shown, span_of
from dpquery.sql.postprocess.builtin_functions import AGGREGATES

_WORDS: dict[type[exp.Expr], str] = {
    exp.Join: "a join", exp.With: "WITH", exp.CTE: "WITH", exp.Subquery: "a subquery",
    exp.Union: "UNION", exp.Except: "EXCEPT", exp.Intersect: "INTERSECT",
    exp.Group: "GROUP BY", exp.GroupingSets: "GROUPING SETS", exp.Having: "HAVING",
    exp.Distinct: "DISTINCT", exp.Window: "a window", exp.Case: "CASE",
    exp.Cast: "a conversion", exp.Lambda: "a lambda", exp.Placeholder: "a parameter",
    exp.Parameter: "a parameter", exp.Hint: "a hint", exp.TableSample: "a sample",
    exp.Bracket: "an index in brackets", exp.Tuple: "a row of values",
    exp.Aliases: "a list of names", exp.Cluster: "CLUSTER BY",
    exp.Concat: "a text after a text", exp.Distribute: "DISTRIBUTE BY",
    exp.HistoricalData: "AT", exp.IgnoreNulls: "IGNORE NULLS", exp.Escape: "ESCAPE",
    exp.Interval: "INTERVAL", exp.RespectNulls: "RESPECT NULLS", exp.Struct: "a struct",
    exp.Version: "FOR SYSTEM_TIME", exp.Select: "a subquery",
    exp.PositionalColumn: "a column by number", exp.Fetch: "FETCH",
    exp.RawString: "a text in dollar quotes", exp.ByteString: "a literal of bytes",
    exp.National: "a text with a prefix", exp.PivotAny: "ANY",
}  # fmt: skip
_SLOT_WORDS = {
    "group": "GROUP BY", "having": "HAVING", "with_": "WITH", "joins": "a join",
    "distinct": "DISTINCT", "qualify": "QUALIFY", "sample": "a sample", "query": "a subquery",
    "windows": "a window", "locks": "FOR UPDATE", "into": "SELECT INTO", "hint": "a hint",
    "symmetric": "BETWEEN SYMMETRIC", "limit_options": "LIMIT in percent",
    "laterals": "LATERAL", "pivots": "PIVOT", "columns": "a list of column names",
    "except_": "EXCLUDE", "fetch": "FETCH", "kind": "SELECT AS", "only": "ONLY",
    "order": "ORDER BY", "rename": "RENAME", "replace": "REPLACE",
    "truncate": "a third argument of ROUND", "connect": "CONNECT BY",
    "recursive": "WITH RECURSIVE", "offset": "a number of each value",
    "unpivot": "UNPIVOT", "default_on_null": "DEFAULT ON NULL",
}  # fmt: skip
_KEYWORDS: dict[str, tuple[str, ...]] = {
    "WITH RECURSIVE": ("RECURSIVE",), "a window": ("OVER", "WINDOW"),
    "a sample": ("TABLESAMPLE", "TABLE_SAMPLE", "USING"), "a parameter": ("?", "$", "@"),
    "FOR SYSTEM_TIME": ("FOR",), "FOR UPDATE": ("FOR",), "EXCLUDE": ("EXCLUDE", "EXCEPT"),
    "SELECT AS": ("STRUCT", "VALUE"), "SELECT INTO": ("INTO",),
    "LIMIT in percent": ("PERCENT", "%"), "BETWEEN SYMMETRIC": ("SYMMETRIC",),
    "PIVOT": ("PIVOT", "UNPIVOT"), "a column by number": ("#",),
}  # fmt: skip
"""The words by which a construct is found in the text, where they are not its name."""


def is_misused(node: exp.Expr) -> bool:
    """Return whether a node on the list is used for something it is not listed for."""
    return _misused(node) is not None


def refuse_construct(
    source: Source, node: exp.Expr, spans: Spans, slot: str | None = None
) -> NoReturn:
    """Refuse a node, or what fills one of its slots, at the words that make it.

    Raises:
        SyntaxRefused: DPQ102.
        RuleRefused: DPQ304 a join that names no columns.
    """
    word, span = _word(source, node, spans)
    word = _misused(node) or _SLOT_WORDS.get(slot or "") or word
    if word == "a join":
        raise refusal(
            "DPQ304",
            "a join of this kind is not answered",
            span,
            "does not say which columns are equal",
            "private tables are joined ON their unit, or USING it.",
            example(source, spans.tokens),
        )
    words = (word, word.split()[0]) if word.isupper() else ()
    found = spans.word(*_KEYWORDS.get(word, words)) or span
    remedy = _instead(node, spans, word, found) or example(source, spans.tokens)
    raise outside(word, found, "not understood", remedy)


def _instead(node: exp.Expr, spans: Spans, word: str, found: Span) -> str | None:
    """Write what means the same in this language, where something does."""
    match node:
        case exp.Rollup() | exp.Cube() if not node.expressions and node.parent is not None:
            listed = ", ".join(map(spans.text, node.parent.expressions))
            return f"GROUP BY {node.key.upper()} ({listed})" if listed else None
        case exp.Tuple() if isinstance(node.parent, exp.Group) and node.expressions:
            return f"GROUP BY {', '.join(map(spans.text, node.expressions))}"
        case exp.With():
            repeats = any(map(_reads_itself, node.expressions))
            otherwise = advice("join a public table that lists the steps")
            return (
                otherwise
                if repeats
                else mended(spans.source, found, "", advice("leave it out"))
            )
        case exp.Any(this=exp.Paren(this=exp.Column() as of), parent=exp.EQ() as equal) if (
            equal.expression is node
        ):
            asked = f"LIST_CONTAINS({spans.text(of)}, {spans.text(equal.this)})"
            return mended(spans.source, spans.of(equal), asked, asked)
        case exp.Cast(this=exp.Expr() as inner):
            return mended(spans.source, spans.of(node), spans.text(inner), "") or None
        case exp.WithinGroup(this=exp.Expr() as call, expression=exp.Order() as order):
            share, *_ = *call.iter_expressions(), exp.Literal.number("0.5")
            if not isinstance(share, exp.Literal) or share.is_string:
                return None
            column = spans.text(order.expressions[0].this)
            quantile = f"DP_QUANTILE({column}, {spans.text(share)}, eps=0.5)"
            return mended(spans.source, spans.of(node), quantile, quantile)
    return mended(spans.source, found, "AND", "AND") if word == "&&" else None


def _reads_itself(cte: exp.Expr) -> bool:
    tables = (table.name.lower() for table in cte.find_all(exp.Table))
    return cte.alias.lower() in tables


_BOUNDS = {"bounds", "contribution_bounds_per_group"}


def _is_bounds(option: exp.Expr | None) -> bool:
    named = isinstance(option, exp.EQ | exp.Kwarg | exp.PropertyEQ)
    return named and option is not None and option.this.name.lower() in _BOUNDS


def _is_item(star: exp.Expr) -> bool:
    """Return whether a star, its table's name before it or not, is an item of a SELECT list."""
    item = star.parent if isinstance(star.parent, exp.Column) else star
    return isinstance(item.parent, exp.Select) and item.arg_key == "expressions"


def _orders_all(node: exp.Var) -> bool:
    """Return whether ALL stands alone after the ORDER BY of a whole query."""
    order = node.find_ancestor(exp.Order)
    if order is None or len(order.expressions) > 1 or str(node.this).upper() != "ALL":
        return False
    return isinstance(order.parent, exp.Query)


def _is_ordered(node: exp.Expr | None) -> bool:
    """Return whether a node calls a function that takes an order among its arguments."""
    return isinstance(node, exp.Anonymous) and str(node.this).upper() in AGGREGATES


def _word(source: Source, node: exp.Expr, spans: Spans) -> tuple[str, Span]:
    """Name a construct in the words of SQL, and find the words that make it."""
    name = next((word for kind, word in _WORDS.items() if isinstance(node, kind)), None)
    sides = (node.args.get("this"), node.args.get("expression"))
    both = all(isinstance(side, exp.Expr) for side in sides)  # of two dots in a row, one is ""
    if name is None and isinstance(node, exp.Binary) and both:
        operator = Span(spans.of(node.this).end, spans.of(node.expression).start)
        text = source.snippet(operator).rstrip("( \n\t")
        start = operator.start + len(text) - len(text.lstrip(") \n\t"))
        text = source.text[start : operator.start + len(text)]
        if text:
            return text.upper(), Span(start, start + len(text))
    return name or node.key.upper(), spans.of(node)


def _misused(node: exp.Expr) -> str | None:
    """Name what a node on the list is used for, where it is on the list for something else."""
    match node:
        case exp.Star() if any(node.args.values()) and not _is_item(node):
            return _SLOT_WORDS[next(slot for slot, value in node.args.items() if value)]
        case exp.Join() if node.method not in {"", "NATURAL"}:
            return "a join"
        case exp.Join() if node.method and (node.args.get("on") or node.args.get("using")):
            return "NATURAL"
        case exp.Table() | exp.Subquery() if node.args.get("joins"):
            return None if isinstance(node.parent, exp.Subquery) else "a join"
        case exp.Is(expression=exp.Expr() as right) if not isinstance(
            right, exp.Null | exp.Boolean
        ):
            negated = "NOT " if isinstance(node.parent, exp.Not) else ""
            return f"IS {negated}{right.sql().upper()}"
        case exp.Tuple(parent=exp.In(this=left)) if isinstance(left, exp.Tuple):
            return None
        case exp.Tuple() if not (
            isinstance(node.parent, exp.Rollup | exp.Cube | exp.GroupingSets)
            or _is_bounds(node.parent)
        ):
            return "a row of values"
        case exp.Order(this=exp.Expr()) if not _is_ordered(node.parent):
            return "ORDER BY"
        case exp.Distinct() if not isinstance(
            node.parent, exp.Anonymous | exp.Avg | exp.Count | exp.Select | exp.Sum
        ):
            return "DISTINCT"
        case exp.Cast() if target(node) is None:
            wanted = node.args.get("to")
            return f"a conversion to {wanted.sql(dialect='duckdb') if wanted else 'nothing'}"
        case exp.Var() if isinstance(node.parent, exp.Ordered | exp.Limit | exp.Offset):
            return None if _orders_all(node) else str(node.this).upper()
    return None


# What is said of a text that is not a complete query: where reading stopped, in our words.


_BEGINS_A_QUERY = (TokenType.SELECT, TokenType.WITH)
_CLAUSES = ("CUBE", "FROM", "GROUP", "HAVING", "LIMIT", "OFFSET", "ORDER", "ROLLUP", "WHERE")


def misread(source: Source, tokens: Sequence[Token], error: ParseError) -> QueryRefused:
    """Return where the parser stopped, in our words and not in its own."""
    ticks = [token.start for token in tokens if token.token_type is TokenType.UNKNOWN]
    ticks = [start for start in ticks if source.text[start] == "`"]
    if ticks:
        text = "".join('"' if at in ticks else char for at, char in enumerate(source.text))
        return incomplete(
            "names stand in double quotes, or in none",
            Span(ticks[0], ticks[0] + 1),
            "no quote in this language",
            shown(text.strip(), example(source, tokens)),
        )
    found = error.errors[0] if error.errors else {}
    marked = str(found.get("highlight") or "")
    lines = source.text.split("\n")[: int(found.get("line") or 1) - 1]
    start = sum(len(line) + 1 for line in lines) + int(found.get("col") or 0) - len(marked)
    start = max(0, start)
    mistyped = next((t for t in reversed(tokens) if t.end < start), None)
    meant = nearest(mistyped.text, _CLAUSES) if mistyped is not None else None
    if mistyped is not None and meant is not None and mistyped.text.upper().split()[0] != meant:
        return incomplete(
            f"{mistyped.text[:40]!r} is not understood here",
            span_of(mistyped),
            f"is it {meant}?",
            mended(source, span_of(mistyped), meant, example(source, tokens)),
        )
    second = next((t for t in tokens if t.start == start), None)
    if second is not None and second.text.upper() in {"CUBE", "ROLLUP"}:
        title = f"{second.text.upper()} needs columns in parentheses after it"
        return unfinished(source, tokens, title, span_of(second))
    if second is not None and start and second.token_type in _BEGINS_A_QUERY:
        word, text = second.text.upper(), source.text
        return incomplete(
            f"a ; is missing before {word}",
            span_of(second),
            "a second statement starts here",
            shown(text[:start].strip(), example(source, tokens)),
            f"and then {shown(text[start:].strip(), 'the second, on its own')}",
        )
    title = f"syntax error {f'at {marked[:40]!r}' if marked else 'at the end'}"
    return unfinished(source, tokens, title, Span(start, start + max(1, len(marked))))


def unfinished(
    source: Source, tokens: Sequence[Token], title: str, span: Span | None = None
) -> QueryRefused:
    """Say that a text is no complete query: from its first word on, or at a stretch."""
    label = "not understood here" if span else "nothing follows that could be answered"
    return incomplete(title, span or span_of(tokens[0]), label, example(source, tokens))
