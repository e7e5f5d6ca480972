"""Binds expressions over released and public values; stages say what their names mean."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.core.types import DATE, MOMENTS, NUMERIC, TIME, TIMESTAMP, TIMESTAMPTZ, Kind
from dpquery.errors import refusal
from dpquery.sql.bind.rows.row_expressions import paired
from dpquery.sql.bind.rows.typed_expressions import narrower_name, target
from dpquery.sql.bind.scope import fold, is_call, is_interval_end
from dpquery.sql.parse.literals import as_moment, chain, conjuncts, unwrapped
from dpquery.sql.parse.spans import Spans, outside, repeated
from dpquery.sql.parse.token_coverage import ARITHMETIC, COMPARISONS
from dpquery.sql.parse.unnest import list_of, refuse_list, written_out
from dpquery.sql.postprocess.builtin_functions import aggregate_name
from dpquery.sql.postprocess.function_calls import applied, days, indexed, moved
from dpquery.sql.postprocess.interval_ends import end_of
from dpquery.sql.postprocess.sql_fragments import (
    MAX_DEPTH,
    MAX_SIZE,
    MAX_TEXT,
    NAMES,
    REPEATING,
    TEXTUAL,
    Value,
    constant,
    in_calendar,
    instant,
    joined,
    literal,
    made,
    widest,
)
from dpquery.sql.suggest.construct_refusals import refuse_construct
from dpquery.sql.suggest.type_mismatches import mismatch, number_in, number_of

if TYPE_CHECKING:
    from dpquery.sql.postprocess.select_stages import Base
    from dpquery.sql.postprocess.subqueries import Opener


_COMPARED: dict[type[exp.Expr], str] = {
    **{kind: f"({{0}} {sign} {{1}})" for kind, sign in COMPARISONS.items()},
    exp.NullSafeEQ: "({0} IS NOT DISTINCT FROM {1})",
    exp.NullSafeNEQ: "({0} IS DISTINCT FROM {1})",
}
_TEXTS: dict[type[exp.Expr], str] = {
    exp.DPipe: "({0} || {1})",
    exp.Like: "({0} LIKE {1})",
    exp.ILike: "({0} ILIKE {1})",
    exp.SimilarTo: "regexp_full_match({0}, {1})",
    exp.RegexpLike: "regexp_matches({0}, {1})",
}
_TRUTHS: dict[exp.Expr, exp.Expr] = {
    exp.Literal.number(n): exp.Boolean(this=n == 1) for n in (0, 1)
}
MAX_WRITTEN_OUT = 8_000
"""Parts that names of the SELECT list may stand for, in all."""
_WRITTEN = {
    Kind.DATE: DATE,
    Kind.TIMESTAMP: TIMESTAMP,
    Kind.TIMESTAMPTZ: TIMESTAMPTZ,
    Kind.TIME: TIME,
}
"""What is read from a text beside it."""


class Expressions:
    """Binds expressions of one SELECT, at one of its stages.

    What a stage does not know of itself is asked of the stage below, and lifted to this one.
    """

    below: Expressions

    def __init__(self, opener: Opener, aliases: dict[str, exp.Expr]) -> None:
        self.opener = opener
        self.spans: Spans = opener.spans
        self.aliases = aliases
        """What the SELECT list names, folded: the expression of each."""
        self._bound: dict[int, tuple[Value, exp.Expr]] = {}
        """What was bound, by its node: operators look at their operands several times."""
        self._named: dict[str, Value] = {}
        self._naming: list[str] = []
        self._written_out = 0

    @property
    def base(self) -> Base:
        """The stage beside whose rows subqueries are computed."""
        return self.below.base

    def lifted(self, value: Value) -> Value:
        """Return a value of that stage as this one sees it."""
        return value

    def column(self, node: exp.Column) -> Value | None:
        """Resolve a column; None where there is none of that name and an alias may be meant."""
        found = self.below.column(node)
        return None if found is None else self.lifted(found)

    def unknown(self, node: exp.Column) -> NoReturn:
        """Refuse a column that is none."""
        self.below.unknown(node)

    def call(self, node: exp.Expr) -> tuple[Value, str]:
        """Bind a DP_ call; give also its function's name."""
        found, function = self.below.call(node)
        return self.lifted(found), function

    def known(self, node: exp.Expr) -> Value | None:
        """Return the value of a group that an expression is; None where it is none."""
        found = self.below.known(node)
        return None if found is None else self.lifted(found)

    def aggregate(self, node: exp.Expr, name: str) -> Value:
        """Bind an aggregate, or refuse it."""
        return self.lifted(self.below.aggregate(node, name))

    def window(self, node: exp.Window) -> Value:
        """Refuse a window where rows or groups are still being chosen."""
        label = "computed after WHERE, GROUP BY and HAVING"
        remedy = f"QUALIFY {self.spans.text(node)} = 1"
        raise outside("a window", self.spans.of(node), label, remedy)

    def subquery(self, sql: str, kind: Kind | None) -> Value:
        """Return the value of a subquery, computed beside the rows."""
        return self.lifted(self.base.subquery(sql, kind))

    def refuse_function(self, call: exp.Expr, name: str) -> NoReturn:
        """Refuse a function that is none, or has no place here."""
        self.below.refuse_function(call, name)

    def value(self, node: exp.Expr) -> Value:
        """Bind an expression.

        Raises:
            NameRefused: DPQ201 to DPQ211.
            RuleRefused: DPQ301, DPQ302, DPQ303 something exact, or a DP_ function out of place.
            SyntaxRefused: DPQ102 what values do not have, DPQ105 too large.
        """
        node = unwrapped(node)
        if id(node) not in self._bound:
            span = self.spans.of(node)
            found = self._value(node, span)
            if found.size > MAX_SIZE or found.depth > MAX_DEPTH or len(found.sql) > MAX_TEXT:
                raise repeated(span, REPEATING)
            if found.kind in TEXTUAL and found.grown is None:
                self.opener.require_texts(found.longest * self.base.most, span)
            self._bound[id(node)] = found, node  # held, so that its number stays its own
        return self._bound[id(node)][0]

    def truth(self, node: exp.Expr) -> Value:
        """Bind a condition; a number or a text is none, though the engine would make it one."""
        found = self.value(node)
        if found.kind in {None, Kind.BOOLEAN}:
            return found
        remedy = f"{self.spans.text(node)} {'> 0' if found.numeric else 'IS NOT NULL'}"
        label = f"a {'number' if found.numeric else found.kind} here"
        mismatch(self.spans.of(node), "a condition must be true or false", label, remedy)

    def truths(self, node: exp.Expr) -> list[Value]:
        """Bind a condition in its parts, of which rows have to meet each.

        What can raise stands inside TRY, where the engine finds no equality to join by.
        """
        return [found for part in conjuncts(node) for found in self._truths(unwrapped(part))]

    def _truths(self, part: exp.Expr) -> list[Value]:
        """Bind one part: with TRY around the sides of a comparison, or with what OR implies."""
        whole, kind = self.truth(part), type(part)
        if isinstance(part, exp.Or):
            first, *others = (self.truths(arm) for arm in chain(part))
            known = [{one.sql for one in other} for other in others]
            shared = (one for one in first if one.safe)
            return [*(s for s in shared if all(s.sql in texts for texts in known)), whole]
        if whole.safe or kind not in COMPARISONS:
            return [whole]
        return [self.compared(_COMPARED[kind], part.this, part.expression, apart=True)]

    def _value(self, node: exp.Expr, span: Span) -> Value:
        found = literal(node, span)
        if found is not None:
            return found
        if is_call(node):
            return self.call(node)[0]
        if is_interval_end(node):
            return end_of(self, node)
        group = self.known(node)
        if group is not None:
            return group
        name = aggregate_name(node.this if isinstance(node, exp.Filter) else node)
        if name is not None:
            return self.aggregate(node, name)
        kind = type(node)
        if kind in _COMPARED:
            return self.compared(_COMPARED[kind], node.this, node.expression)
        if kind in _TEXTS:
            return self._of_texts(node)
        if kind in ARITHMETIC:
            return self._arithmetic(node, ARITHMETIC[kind])
        return self._formed(node, span)

    def _formed(self, node: exp.Expr, span: Span) -> Value:
        """Bind what the language has words for, or else a function."""
        match node:
            case exp.Column(this=exp.Identifier()):
                return self._column(node)
            case exp.Window():
                return self.window(node)
            case exp.And() | exp.Or():
                word = "AND" if isinstance(node, exp.And) else "OR"
                return joined(word, [self.truth(part) for part in chain(node)])
            case exp.Not():
                inner = self.truth(node.this)
                return made("(NOT {0})", inner, kind=Kind.BOOLEAN, safe=inner.safe)
            case exp.Neg():
                inner = self._number(node.this)
                return made("(-{0})", inner, kind=inner.kind)
            case exp.Is(expression=exp.Null()):
                return made("({0} IS NULL)", self.value(node.this), kind=Kind.BOOLEAN)
            case exp.Is(expression=exp.Boolean(this=wanted)):
                template = "({0} IS TRUE)" if wanted else "({0} IS FALSE)"
                return made(template, self.truth(node.this), kind=Kind.BOOLEAN)
            case exp.Between():
                parts = (node.this, node.args["low"], node.args["high"])
                return self.compared("({0} BETWEEN {1} AND {2})", *parts, repeats=2)
            case exp.In() | exp.Exists() | exp.Subquery():
                return self._of_query(node)
            case exp.Cast() if type(node) in {exp.Cast, exp.TryCast}:
                return self._cast(node)
            case exp.Bracket():
                return indexed(self, node)
        return applied(self, node, span)

    def _column(self, node: exp.Column) -> Value:
        """Resolve a column, or else a name given in the SELECT list."""
        found = self.column(node)
        if found is not None:
            return found
        name = fold(node.name)
        if node.table or name not in self.aliases or name in self._naming:
            self.unknown(node)
        if name not in self._named:
            self._naming.append(name)
            self._named[name] = self.value(self.aliases[name])
            self._naming.pop()
        self._written_out += self._named[name].size
        if self._written_out > MAX_WRITTEN_OUT:
            raise repeated(self.spans.of(node), REPEATING)
        return self._named[name]

    def _of_query(self, node: exp.In | exp.Exists | exp.Subquery) -> Value:
        """Bind a subquery; in a list of values, the engine would convert one to another."""
        if isinstance(node, exp.Exists):
            return self.opener.exists(self, node)
        if isinstance(node, exp.Subquery):
            return self.opener.scalar(self, node)
        if node.args.get("query") is not None:
            return self.opener.member(self, node)
        equal, options = "({0} = {1})", node.expressions
        found = list_of(node)
        if found is not None:
            options = written_out(found)
            if not options:
                label = "released rows have no other list than one that is written out"
                refuse_list(self.spans.of(found), label, "IN (a, b)")
        if isinstance(node.this, exp.Tuple):
            rows = [paired(node.this, unwrapped(row), self.spans) for row in options]
            equals = ([self.compared(equal, *pair) for pair in row] for row in rows)
            return joined("OR", [joined("AND", row) for row in equals])
        return joined("OR", [self.compared(equal, node.this, o) for o in options])

    def needed(self, node: exp.Expr, kinds: Set[Kind], what: str, remedy: str) -> Value:
        """Bind a value of one of some kinds.

        Raises:
            NameRefused: DPQ208 it is of another kind.
        """
        found = self.value(node)
        if found.kind is not None and found.kind not in kinds:
            mismatch(self.spans.of(node), f"{what} is needed here", f"a {found.kind}", remedy)
        return found

    def _number(self, node: exp.Expr) -> Value:
        inner, kind = unwrapped(node), self.value(node).kind
        text = str(inner.this) if isinstance(inner, exp.Literal) else None
        remedy = number_of(kind, self.spans.text(node), text)
        return self.needed(node, NUMERIC, "a number", remedy)

    def _of_texts(self, node: exp.Expr) -> Value:
        left, right = (
            self.needed(side, {Kind.TEXT}, "a text", f"CAST({self.spans.text(side)} AS TEXT)")
            for side in (node.this, node.expression)
        )
        template = _TEXTS[type(node)]
        if isinstance(node, exp.DPipe):
            whole = left.longest + right.longest
            return made(template, left, right, kind=Kind.TEXT, longest=whole)
        if isinstance(node, exp.SimilarTo | exp.RegexpLike):
            self.require_pattern(right, node.expression)
        found = made(template, left, right, kind=Kind.BOOLEAN)
        negated = node.args.get("negate")
        return made("(NOT {0})", found, kind=Kind.BOOLEAN) if negated else found

    def require_pattern(self, pattern: Value, node: exp.Expr) -> None:
        """Insist on a regular expression that the engine can read, where it is a constant.

        Raises:
            NameRefused: DPQ205.
        """
        if not self.opener.public.matches_with(pattern.sql):
            raise refusal(
                "DPQ205",
                "this pattern cannot be used",
                self.spans.of(node),
                "not a regular expression, or too large a one",
                "patterns are read before anything is computed.",
                ("'^a.*z$'", "a sign stands for itself in square brackets: '[(]'"),
            )

    def compared(
        self, template: str, *nodes: exp.Expr, repeats: int = 1, apart: bool = False
    ) -> Value:
        """Bind values that are compared: of one kind, or all numbers; each in TRY, if apart."""
        values = self.alike(self._as_truths(nodes))
        if apart:
            values = [replace(value, sql=value.total, safe=True) for value in values]
        kinds = {value.kind for value in values}
        safe = len(kinds) == 1 or kinds == {Kind.INTEGER, Kind.DOUBLE}
        safe = safe and all(value.safe for value in values)
        safe = safe and not kinds & {None, Kind.DECIMAL}
        return made(template, *values, kind=Kind.BOOLEAN, safe=safe, repeats=repeats)

    def _as_truths(self, nodes: Sequence[exp.Expr]) -> Sequence[exp.Expr]:
        """Read 0 and 1 as FALSE and TRUE beside a truth value."""
        if all(self.value(node).kind is not Kind.BOOLEAN for node in nodes):
            return nodes
        return [_TRUTHS.get(unwrapped(node), node) for node in nodes]

    def alike(self, nodes: Sequence[exp.Expr]) -> list[Value]:
        """Bind values that have to be of one kind; a text beside a moment is read as one."""
        values = [self.value(node) for node in nodes]
        kinds = [value.kind for value in values]
        model = next((k for k in kinds if k not in {None, Kind.TEXT}), None)
        for at, (value, node) in enumerate(zip(values, nodes, strict=True)):
            if value.kind is None or model is None or value.kind is model:
                continue
            if model in NUMERIC and value.numeric:
                continue
            inner, span = unwrapped(node), self.spans.of(node)
            if model in _WRITTEN and isinstance(inner, exp.Literal) and inner.is_string:
                moment = as_moment(str(inner.this), _WRITTEN[model], span)
                zoned = model is Kind.TIMESTAMPTZ
                values[at] = instant(str(inner.this)) if zoned else constant(moment, inner)
            elif not {model, value.kind} <= MOMENTS:
                self._refuse_unlike(inner, value, model, span)
        return values

    def _refuse_unlike(self, node: exp.Expr, value: Value, model: Kind, span: Span) -> NoReturn:
        if model in NUMERIC and value.kind is Kind.TEXT:
            written = str(node.this) if isinstance(node, exp.Literal) else ""
            mismatch(span, "a number is needed here", "a text", number_in(written))
        title = f"a {model} and a {value.kind} are not compared"
        remedy = f"CAST({self.spans.text(node)} AS {'TEXT' if model is Kind.TEXT else model})"
        mismatch(span, title, f"a {value.kind} here", remedy)

    def _cast(self, node: exp.Cast) -> Value:
        """Convert a value where that can be done; NULL where it cannot."""
        type_ = target(node)
        if type_ is None:
            refuse_construct(self.spans.source, node, self.spans)
        name = NAMES.get(type_.kind, f"DECIMAL({type_.precision},{type_.scale})")
        narrower = narrower_name(node)
        value = "{0}" if narrower is None else f"TRY_CAST({{0}} AS {narrower})"
        converted = f"TRY_CAST({value} AS {name})"
        converted = in_calendar(converted) if type_.kind in MOMENTS else converted
        return made(converted, self.value(node.this), kind=type_.kind)

    def _arithmetic(self, node: exp.Expr, operator: str) -> Value:
        right = unwrapped(node.expression)
        if isinstance(right, exp.Interval):
            return moved(self, node.this, right, operator)
        left = self.value(node.this)
        if left.kind in MOMENTS and operator in "+-":
            return days(self, node, left, operator)
        one, other = self._number(node.this), self._number(node.expression)
        kind = widest(one, other)
        if kind is Kind.INTEGER and one.constant is not None and other.constant is not None:
            one = replace(one, sql=f"CAST({one.sql} AS BIGINT)")
        if operator not in {"/", "//", "%"}:
            return made(f"({{0}} {operator} {{1}})", one, other, kind=kind)
        kind = Kind.DOUBLE if operator == "/" else kind
        return made(f"({{0}} {operator} nullif({{1}}, 0))", one, other, kind=kind)
