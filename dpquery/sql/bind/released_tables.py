"""A released table as the query above finds it: its groups, and a column for each DP_ call.

It knows its columns, binds the DP_ calls, and refuses the rest in its own words. Nothing here
reads a row.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import prod
from typing import NoReturn

from sqlglot import TokenType
from sqlglot import expressions as exp

from dpquery import functions
from dpquery.core.source_text import Span
from dpquery.core.types import Kind
from dpquery.errors import NameRefused, QueryRefused, nearest, refusal
from dpquery.functions import registered
from dpquery.functions.base import Gives
from dpquery.functions.dp_keys import most_of
from dpquery.functions.example_bounds import example_values
from dpquery.ir.expr import ColumnRef, Expr, Literal, columns_of, longest_of
from dpquery.ir.query import Call, Key
from dpquery.rowfunctions.analysis.conditions import facts_of
from dpquery.rowfunctions.analysis.key_domains import values_of
from dpquery.sql.bind.dp_calls import Calls
from dpquery.sql.bind.group_keys import has_listed_groups
from dpquery.sql.bind.rows.row_expressions import operand
from dpquery.sql.bind.scope import (
    Scope,
    call_key,
    fold,
    is_call,
    is_plain,
    is_query,
    written_name,
)
from dpquery.sql.parse.literals import conjuncts, unwrapped
from dpquery.sql.parse.spans import Spans, mended, shown
from dpquery.sql.postprocess.builtin_functions import NAMES as FUNCTIONS
from dpquery.sql.postprocess.sql_fragments import LONGEST_NUMBER
from dpquery.sql.suggest.dialects import (
    CLOSE,
    LISTING,
    function_of,
    is_aggregate,
    nearest_function,
)
from dpquery.sql.suggest.sample_queries import COUNT, parted, query_about

KEYS = "DP_KEYS({}, eps=0.5, delta=1e-7)"
FEW_GROUPS = 1000
"""Groups that are offered: more would show each with hardly anybody in it."""


@dataclass(slots=True)
class Released:
    """The released rows of a SELECT: its keys, and a column for each call."""

    scope: Scope
    spans: Spans
    keys: tuple[Key, ...]
    calls: Calls
    sets: tuple[tuple[Key, ...], ...] = ((),)
    """The keys of each grouping: a frontier each."""
    number: int = 0
    """Of the first frontier, among those of the statement."""
    publics: frozenset[int] = frozenset()
    """The numbers of public tables that the rows are joined to."""
    _added: dict[object, Call] = field(default_factory=dict)
    _written: dict[object, dict[int, exp.Expr]] = field(default_factory=dict)
    """The nodes of each call."""

    def call(self, node: exp.Expr) -> tuple[str, str]:
        """Add a call to the frontier, once however often it is bound."""
        key = call_key(node)
        self._written.setdefault(key, {})[id(node)] = node
        if key not in self._added:
            self._added[key] = self.calls.add(node)
            self._require_list(self._added[key])
        elif is_plain(node):
            self.calls.repeat(self._added[key], node)
        added = self._added[key]
        return added.column, added.function

    def name_repeats(self, select: exp.Select) -> None:
        """Have aggregates that stand several times understood by the name of their column.

        A call that is written twice would be two releases, and these are one.
        """
        shares, spans = self.calls.rows.shares, self.spans
        items = {id(unwrapped(item.unalias())): item for item in reversed(select.expressions)}
        for nodes in self._written.values() if shares is not None else ():
            shown = next((items[at] for at in nodes if at in items), None)
            if shown is None or len(nodes) < 2 or shares is None:
                continue
            name = written_name(shown.alias or spans.text(shown))
            for node in nodes.values():
                if node is not unwrapped(shown.unalias()):
                    shares.rewrite(spans.of(node), name)
            if not shown.alias:
                whole = spans.of(shown)
                shares.rewrite(whole, f"{shares.within(spans.source, whole)} AS {name}")

    def _require_list(self, call: Call) -> None:
        """Refuse a list of combinations: they are shown as groups."""
        if len(call.inputs) > 1 and registered(call.function).several:
            shown = ", ".join(call.snippet(one.asked) for one in call.inputs)
            table = written_name(self.scope.table.name)
            title, label = "combinations are no list of values", "several expressions"
            why = "a list has one value at each place; groups have a column for each."
            remedy = f"SELECT {shown} FROM {table} GROUP BY {call.text}"
            raise refusal("DPQ404", title, call.span, label, why, remedy)

    def key(self, node: exp.Expr) -> str | None:
        """Find the key that an expression over the rows is; None where it is none."""
        plain = not isinstance(node, exp.Subquery)
        if plain and all(isinstance(key.expr, ColumnRef) for key in self.keys):
            return None
        with suppress(QueryRefused):
            return self._key_of(self.calls.rows.bind(node))
        return None

    def of_rows(self, node: exp.Expr) -> bool:
        """Return whether all subqueries in an expression say something of a row's unit."""
        return all(
            any(self.spans.of(one) in self.scope.values for one in (inner, inner.parent) if one)
            for inner in node.walk(prune=is_query)
            if is_query(inner)
        )

    def column(self, node: exp.Column) -> str:
        """Find a key; any other column of the table is private."""
        span = self.spans.of(node)
        try:
            found = self.scope.reference(node, span)
        except NameRefused as unknown:
            self._offer_result(unknown, node)
            raise
        key = self._key_of(found)
        if key is not None:
            return key
        grouped = self._grouped_by(node) or self._named_groups(node, found)
        instead = grouped or self._instead(found, node.parent_select)
        if not grouped:
            self._refuse_in_results(node)
        if {of for of, _ in columns_of(found)} <= self.publics:
            raise _undetermined(node.name, span, *instead)
        refused = raw(node.name, span, *instead)
        if grouped and not self.keys:
            title = f"{node.name} is shown beside DP_ functions: a GROUP BY is missing"
            refused.diagnostic = replace(refused.diagnostic, title=title)
        raise refused

    def _refuse_in_results(self, node: exp.Column) -> None:
        """Refuse a column of rows in a clause that sees results; offer its place, or theirs.

        Raises:
            RuleRefused: DPQ301.
        """
        select, span = node.parent_select, self.spans.of(node)
        if not isinstance(select, exp.Select) or select.parent is not None:
            return
        clause, why, remedy = "HAVING", "a condition on rows stands in WHERE.", ""
        having, order = node.find_ancestor(exp.Having), select.args.get("order")
        if having is not None and having.parent is select:
            remedy = self._with_where(select, having)
        elif order is not None and node.parent in order.expressions:
            clause, why = "ORDER BY", "results are sorted by what they show."
            about = fold(node.name)
            for place, item in enumerate(select.expressions, 1):
                calls = [one for one in item.walk() if is_call(one)]
                columns = (c for call in calls for c in call.find_all(exp.Column))
                if any(fold(column.name) == about for column in columns):
                    named = written_name(item.alias) if item.alias else str(place)
                    remedy = mended(self.spans.source, span, named, f"ORDER BY {named}")
        if remedy:
            title = f"{clause} sees results, not the {node.name} of rows"
            raise refusal("DPQ301", title, span, "a column of rows", why, remedy)

    def _with_where(self, select: exp.Select, having: exp.Expr) -> str:
        """Write the query with what HAVING says of rows moved to WHERE."""
        where, moved, kept = select.args.get("where"), list[str](), list[str]()
        for one in conjuncts(having.this):
            of_rows = False
            with suppress(QueryRefused):
                of_rows = bool(self.calls.rows.condition(one))
            (moved if of_rows else kept).append(operand(one, self.spans))
        said = [] if where is None else [operand(where.this, self.spans)]
        return parted(self.spans, [*said, *moved], kept) if moved else ""

    def _offer_result(self, refused: QueryRefused, node: exp.Column) -> None:
        """Offer a result, named so, for an unknown name that results are to be sorted by."""
        select, near = node.parent_select, nearest(node.name, self.scope.columns)
        order = select.args.get("order") if isinstance(select, exp.Select) else None
        sorts = order is not None and node.parent in order.expressions
        if near is not None or not sorts or select is None or select.parent is not None:
            return
        text, name = self.spans.source.text, written_name(node.name)
        items, having = select.expressions, select.args.get("having")
        unnamed = list(filter(is_call, items))
        asked = [] if having is None else list(filter(is_call, having.walk()))
        remedy = "ORDER BY 1"
        if len(unnamed) == 1:
            end, place = self.spans.of(unnamed[0]).end, items.index(unnamed[0]) + 1
            named = f"{text[:end]} AS {name}{text[end:]}".strip()
            remedy = shown(named, f"ORDER BY {place}")
        elif len(asked) == 1 and not any(is_call(one.unalias()) for one in items):
            end, at = self.spans.of(items[-1]).end, self.spans.of(asked[0])
            call = self.spans.source.snippet(at)
            made = f"{text[:end]}, {call} AS {name}{text[end : at.start]}{name}{text[at.end :]}"
            remedy = shown(made.strip(), remedy)
        refused.diagnostic = replace(refused.diagnostic, remedy=(remedy,))

    def _key_of(self, expr: Expr) -> str | None:
        return next((key.column for key in self.keys if key.expr == expr), None)

    def _named_groups(self, node: exp.Column, found: Expr) -> tuple[str, ...]:
        """Write the query with a column for its group: found in the data, or named in WHERE."""
        select, clause = node.parent_select, self.spans.clause
        known = isinstance(select, exp.Select) and select.parent is None and not self.keys
        items = select.expressions if known and select is not None else []
        listed = isinstance(found, ColumnRef) and not found.bounded
        shown = [item for item in items if not any(map(is_call, item.walk()))]
        if not listed or len(shown) != 1 or len(items) < 2 or shown[0].unalias() is not node:
            return ()
        text, written = self.spans.source.text, self.spans.text(node)
        end = (clause(TokenType.WHERE) or clause(TokenType.FROM) or Span(0, len(text))).end
        within = f" {'AND' if clause(TokenType.WHERE) else 'WHERE'} {written} IN "
        groups = KEYS.format(written), f"({example_values(found.type)})"
        before, after = text[:end].rstrip(), text[end:]
        return (
            f"{before} GROUP BY {groups[0]}{after}".strip(),
            f"or {before}{within}{groups[1]} GROUP BY {written}{after}".strip(),
        )

    def _grouped_by(self, node: exp.Column) -> tuple[str, ...]:
        """Write the query with what it shows for groups, where they are public and few."""
        select = node.parent_select
        if not isinstance(select, exp.Select) or select.parent is not None:
            return ()
        shown = [item.unalias() for item in select.expressions]
        asked = [item for item in shown if not any(map(is_call, item.walk()))]
        here = any(inner is node for item in asked for inner in item.walk())
        if len(asked) == len(shown) or not here:
            return ()
        facts, known = facts_of(self.calls.rows.where), {key.expr for key in self.keys}
        groups, cells = [], prod(key.size for key in self.keys)
        for item in asked:
            try:
                expr = self.calls.rows.bind(item)
            except QueryRefused:
                return ()
            values = values_of(expr, facts)
            if values is None or isinstance(expr, Literal):
                return ()
            if expr not in known:
                groups.append(self.spans.text(item))
                cells *= len(values)
        clause, text = self.spans.clause, self.spans.source.text
        group = clause(TokenType.GROUP_BY)
        before = group or clause(TokenType.WHERE) or clause(TokenType.FROM)
        if before is None or cells > FEW_GROUPS:
            return ()
        more = f"{',' if group else ' GROUP BY'} {', '.join(groups)}"
        return (f"{text[: before.end]}{more}{text[before.end :]}".strip(),)

    def _instead(self, found: Expr, select: exp.Expr | None) -> tuple[str, ...]:
        """Write a query that shows something of a column: as a group, or noisy."""
        if not isinstance(found, ColumnRef) or found.name not in self.scope.table.columns:
            return (self.query(COUNT),)
        if has_listed_groups(found):
            return (self.query(COUNT, found.name),)
        distinct = select is not None and select.args.get("distinct")
        if isinstance(select, exp.Select) and distinct and found.type.kind is not Kind.DOUBLE:
            written = written_name(found.name)
            named = f"{written} IN ({example_values(found.type)})"
            return (
                self._found_groups(select) or self.query(KEYS.format(written)),
                query_about(self.scope.table, COUNT, groups=[found.name], where=named),
            )
        quantile = f"DP_QUANTILE({written_name(found.name)}, 0.5, eps=0.5)"
        return (self.query(quantile if found.bounded else COUNT),)

    def _found_groups(self, select: exp.Select) -> str | None:
        """Write a query for different values of several columns with groups that are found."""
        if select.parent is not None or len(select.expressions) < 2:
            return None
        place, text = self.spans.grouping(select), self.spans.source.text
        asked = ", ".join(self.spans.text(item.unalias()) for item in select.expressions)
        found = KEYS.format(asked)
        return f"{text[: place.start]} GROUP BY {found}{text[place.end :]}".strip()

    def query(self, call: str, *more: str) -> str:
        """Write a query with the groups of this one, and more, around a call."""
        columns = self.scope.table.columns
        exprs = (key.expr for key in self.keys)
        groups = [e.name for e in exprs if isinstance(e, ColumnRef) and e.name in columns]
        return query_about(self.scope.table, call, groups=[*groups, *more])

    def has(self, name: str) -> bool:
        """Return whether a key is so called."""
        if not self.scope.knows(name):
            return False
        node = exp.column(name, quoted=True)
        found = self.scope.reference(node, self.spans.of(node))
        return self._key_of(found) is not None

    def kind(self, column: str) -> Kind | None:
        """Return the kind of a key, or of what a call releases."""
        found = self._shown(column)
        if isinstance(found, Key):
            return found.expr.type.kind
        return registered(found.function).kind(found)

    def longest(self, column: str) -> int:
        """Return how many characters a key has, or what a call releases, written as a text."""
        call = self._shown(column)
        if isinstance(call, Key):
            return self._key_longest(call)
        size = len(call.order) if isinstance(call.order, tuple) else call.number or 1
        gives = registered(call.function).gives
        if call.number is None and gives is Gives.VALUES:
            size = most_of(call)
        elif gives in {Gives.NUMBERS, Gives.COUNTS}:
            size = max(size, len(call.points) + 1, len(call.inputs))
        known = max((longest_of(one.expr) for one in call.inputs), default=0)
        other = call.options.other
        named = len(other) if isinstance(other, str) else 0
        return size * (2 * max(LONGEST_NUMBER, known, named) + 4)  # as elements of lists are

    def _shown(self, column: str) -> Key | Call:
        columns: list[Key | Call] = [*self.keys, *self.calls.found]
        return next(one for one in columns if one.column == column)

    def _key_longest(self, key: Key) -> int:
        if key.expr.type.kind is not Kind.TEXT:
            return LONGEST_NUMBER
        if key.finding is not None:  # or the group of all others, which the query names
            return max(longest_of(key.expr), len(self.spans.source.text) if key.rest else 0)
        return max((len(value) for value in key.listed if isinstance(value, str)), default=0)

    def refuse_function(self, call: exp.Expr, name: str) -> NoReturn:
        """Refuse an exact aggregate, or an unknown function."""
        if not is_aggregate(call, name):
            near = nearest_function(name)
            meant = self.calls.meant(near or name, call)
            inner = next(filter(is_call, call.iter_expressions()), None)
            asked = COUNT if inner is None else self.spans.text(inner)
            raise unknown_function(call, name, self.spans, meant or asked)
        written = self.spans.source.snippet(self.spans.name(call)).upper()
        title, label = f"{written} would answer without noise", "no noise is added here"
        why = "a result without noise shows, when one person is added, that they were."
        if name.upper() in LISTING:
            title, label = f"{name} would list the values of single rows", "a value of each row"
            why = "a row's value is somebody's own; how many rows have one is told with noise."
        remedy = self._by_alias(name, call) or self.calls.meant(name, call) or COUNT
        raise refusal("DPQ302", title, self.spans.of(call), label, why, remedy)

    def _by_alias(self, name: str, call: exp.Expr) -> str | None:
        """Write the query with the alias of a result in place of the aggregate that it is."""
        select, meant = call.parent_select, function_of(name)
        items = select.expressions if isinstance(select, exp.Select) else []
        for item in items:
            asked = item.this if isinstance(item, exp.Alias) else None
            if isinstance(asked, exp.Anonymous) and functions.find(str(asked.this)) is meant:
                inside = call.find_ancestor(exp.Having, exp.Order, exp.Qualify) is not None
                if inside and meant is not None:
                    alias = written_name(item.alias)
                    return mended(self.spans.source, self.spans.of(call), alias, alias)
        return None


def unknown_function(call: exp.Expr, name: str, spans: Spans, otherwise: str) -> QueryRefused:
    """Return the refusal of an unknown function; offer the one that is a slip away."""
    near = nearest(name, FUNCTIONS, CLOSE)
    remedy = otherwise if near is None else near + spans.text(call)[len(name) :]
    title, span = f"there is no function {name}", spans.name(call)
    why = "functions of results are ABS, ROUND and others: see `dpquery explain functions`."
    return refusal("DPQ202", title, span, "unknown function", why, remedy)


def raw(name: str, span: Span, *instead: str) -> QueryRefused:
    """Return the refusal of a private column that would be shown as it is."""
    title = f"{name} cannot be shown row by row"
    if name == "*":
        title, name = "the rows of people cannot be shown", "row"
    why = (
        "a result may contain only DP_ functions and grouping columns;",
        f"one person's {name} is what the session protects.",
    )
    return refusal("DPQ301", title, span, "not inside a DP_ function", why, instead)


def _undetermined(name: str, span: Span, *instead: str) -> QueryRefused:
    """Return the refusal of a public column that the groups do not determine."""
    why = (
        "beside DP_ functions a result may contain grouping columns, and other columns of a",
        "public table whose unique key is one of them; this one can be a group itself.",
    )
    title = f"{name} can differ among the rows of a group"
    return refusal("DPQ301", title, span, "not determined by GROUP BY", why, instead)


def unaskable(title: str, span: Span, label: str, remedy: str) -> QueryRefused:
    """Return the refusal of a query that asks nothing of a private table."""
    why = "a private table is asked by DP_ functions only, which add noise."
    return refusal("DPQ302", title, span, label, why, remedy)
