"""Group keys: grouping expressions whose values are public before any data is read.

The rows of an answer come from here and never from the data (I5): every declared value is
shown, also those that no row has. A column whose values only the data know is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, reduce
from math import ceil, floor, prod
from typing import TYPE_CHECKING, NoReturn

from sqlglot import TokenType
from sqlglot import expressions as exp

from dpquery.core.source_text import Span
from dpquery.core.types import DAY, INT64, INTEGER, Interval, Kind
from dpquery.errors import QueryRefused, Worded, advice, refusal
from dpquery.functions.dp_keys import KEYS, MOST_KEYS, most_of
from dpquery.functions.example_bounds import example_values
from dpquery.ir.expr import ColumnRef, Expr, Literal, Nulls, children, columns_of
from dpquery.ir.query import Call, Finding, Key, led, side_by_side, taken
from dpquery.ir.relations import Relation, public_joins
from dpquery.policy.model import Column, Table
from dpquery.rowfunctions.analysis.conditions import (
    Facts,
    Named,
    conjuncts,
    facts_of,
    rows_named,
)
from dpquery.rowfunctions.analysis.key_domains import MAX_CELLS, Values, undeclared, values_of
from dpquery.rowfunctions.analysis.nulls import nulls_of
from dpquery.rowfunctions.analysis.ranges import implied
from dpquery.sql.bind.dp_calls import Calls
from dpquery.sql.bind.group_by_clause import (
    groupings_in,
    is_distinct_alone,
    is_finder,
    is_result,
    key_of,
    outside_calls,
)
from dpquery.sql.bind.joins.public_joins import PublicGroups, PublicKeys
from dpquery.sql.bind.rows.row_expressions import Conditions, operand
from dpquery.sql.bind.scope import fold, listed_names, written_name
from dpquery.sql.parse.literals import conjuncts as conditions_of
from dpquery.sql.parse.literals import unwrapped
from dpquery.sql.suggest.sample_queries import query_about, ranged_by, without_condition

if TYPE_CHECKING:
    from dpquery.sql.bind.from_clause import Context

MOST_RANGED = 10_000
"""Values of a range that nobody named: more would each have hardly anybody in them."""
_RANGED = {Kind.INTEGER: 1, Kind.DATE: 1, Kind.TIMESTAMP: DAY, Kind.TIMESTAMPTZ: DAY}
"""What has such ranges; of moments, with the steps of a day."""
_PARTS = (("day", 1000), ("month", 30_000))
"""Into which parts of the calendar so many days are put."""


@dataclass
class Keys:
    """Binds GROUP BY: its keys, and those of each grouping, of which one is usual."""

    select: exp.Select
    rows: Conditions
    find: Callable[[Call], int]
    """Takes a call of DP_KEYS into the statement, and gives the number of its frontier."""
    context: Context
    relation: Relation
    _keys: dict[Hashable, Key] = field(default_factory=dict)
    _groupings: list[list[tuple[exp.Expr, exp.Expr]]] = field(default_factory=list)
    """The expressions of each grouping, each with what it stands for."""
    _finders: dict[int, list[str]] = field(default_factory=dict)
    """The columns of each DP_KEYS that is written, by the number of its node."""
    _together: dict[Expr, str] = field(default_factory=dict)
    """What is selected without DP_KEYS, and how it is understood: with the first, all of it."""
    _named: list[Named] = field(default_factory=list)
    """The rows of values that WHERE names."""
    _publics: list[PublicKeys] = field(default_factory=list)
    _same: dict[Expr, Expr] = field(default_factory=dict)
    """The public columns that others are equal to in every row."""

    def bind(self) -> tuple[tuple[Key, ...], tuple[tuple[Key, ...], ...]]:
        """Return the keys of all groupings, and of each.

        Raises:
            PlanRefused: DPQ402 the groups are not public, DPQ405 there are too many.
            NameRefused: DPQ204 no such column, DPQ205 a number that counts no column, or a
                group that no row can be in.
            RuleRefused: DPQ303 a DP_ function as a key.
        """
        group = self.select.args.get("group")
        if group is not None:
            return self._bound(group)
        shown = [unwrapped(item.unalias()) for item in self.select.expressions]
        # Nobody shares a unit's own values: none would be found.
        if is_distinct_alone(self.select) and not any(map(self.rows.scope.owns, shown)):
            with suppress(QueryRefused):  # which is said where the column is shown
                return self._bound(exp.Group(all=True))
        return (), ((),)

    def _bound(self, group: exp.Group) -> tuple[tuple[Key, ...], tuple[tuple[Key, ...], ...]]:
        joins = public_joins(self.relation)
        self._publics = [PublicKeys(self, *one) for one in joins.items()]
        self._same = {one: two for public in self._publics for one, two in public.same.items()}
        said = facts_of(self.rows.where).said
        self._named = [named for named in map(rows_named, said) if named is not None]
        self._groupings, sets = [*self._resolved(group)], []
        for nodes in self._groupings:
            own = {column for one in nodes for column in self._columns(*one)}
            keys = [key for key in self._keys.values() if key.column in own]
            sets.append(tuple(led(keys)))
        self._rewrite()
        for public in self._publics:
            sets = [public.with_shown(own) for own in sets]
        sets = [*map(self._combined, sets)]
        cells = [prod(key.size for key in own) for own in sets]
        if sum(cells) > MAX_CELLS:
            self._too_many(sum(cells), sets[cells.index(max(cells))])
        known = {key.column: key for own in reversed(sets) for key in own}
        whole = (key if key.listed else known[key.column] for key in self._keys.values())
        return tuple(whole), tuple(sets)

    def _combined(self, own: tuple[Key, ...]) -> tuple[Key, ...]:
        """Return keys with the combinations that WHERE names, and those of public tables."""
        own = reduce(self._as_named, self._named, own)
        for linked in PublicGroups(self, self._publics).linked():
            own = linked.together(own)
        return own

    def beside(self, column: ColumnRef) -> Key:
        """Return the key of a column that others determine; its values come with theirs."""
        if column not in self._keys:
            self._keys[column] = Key(column.span, f"k{len(self._keys)}", column, ())
        return self._keys[column]

    @cached_property
    def shown(self) -> list[ColumnRef]:
        """The columns that results show or look at, outside of calls, and that are no keys.

        A key of another grouping is NULL in this one, whatever its value would be here.
        """
        nodes = outside_calls(self.select, "expressions", "having", "qualify", "order")
        found = dict.fromkeys(map(self._refers, nodes))
        return [
            expr for expr in found if isinstance(expr, ColumnRef) and expr not in self._keys
        ]

    def _resolved(self, group: exp.Group) -> Iterator[list[tuple[exp.Expr, exp.Expr]]]:
        """Return the expressions of each grouping, each with what it stands for."""
        if group.args.get("all"):
            items = (item.unalias() for item in self.select.expressions)
            yield [(i, i) for i in items if not is_result(i) and i.find(exp.Column)]
        else:
            for nodes in groupings_in(group, self.rows.spans):
                yield [(node, self._value(node)) for node in nodes]

    def _value(self, node: exp.Expr) -> exp.Expr:
        spans = self.rows.spans
        value = key_of(node, self.select.expressions, self.rows.scope, spans)
        if value is not node and is_result(value):
            title = "a DP_ function cannot be a group"
            label = "this column is computed from the groups"
            why = "groups have to be known before anything is released."
            other = ("GROUP BY ALL", "it groups by the columns that hold no DP_ function")
            remedy = self._found_groups(value) or other
            raise refusal("DPQ303", title, spans.of(node), label, why, remedy)
        return value

    def _found_groups(self, value: exp.Expr) -> str | None:
        """Write a query that shows the values that DP_KEYS finds, and groups by it."""
        select, spans = self.select, self.rows.spans
        group, first = spans.clause(TokenType.GROUP_BY), spans.clause(TokenType.SELECT)
        alone = select.parent is None and len(select.args["group"].expressions) == 1
        if not is_finder(value) or not alone or group is None or first is None:
            return None
        call = value.this if isinstance(value, exp.Filter) else value
        if not call.expressions:
            return None
        text, whole = spans.source.text, spans.of(value)
        shown = spans.text(call.expressions[0])
        start = f"{text[: whole.start]}{shown}{text[whole.end : group.start]}"
        return f"{start}GROUP BY {spans.text(value)}{text[group.end :]}".strip()

    def _columns(self, node: exp.Expr, value: exp.Expr) -> list[str]:
        """Bind a grouping expression, once however often it is written; return its columns."""
        if is_finder(value):
            if id(value) not in self._finders:
                found = self._found(Calls(self.rows).add(value))
                self._finders[id(value)] = [key.column for key in found]
                several = len(self._groupings) > 1  # where others may name what is found here
                for key in found:
                    named = several and key.expr not in self._keys
                    self._keys[key.expr if named else key.column] = key
            return self._finders[id(value)]
        expr = self.rows.bind(value)
        if expr not in self._keys and (expr in self._unasked or self._is_selected(expr)):
            self._select(expr, node, value)
        if expr not in self._keys:
            column = f"k{len(self._keys)}"
            self._keys[expr] = self._listed(expr, value, self.rows.spans.of(node), column)
        return [self._keys[expr].column]

    @cached_property
    def _unasked(self) -> dict[Expr, exp.Expr]:
        """What the first grouping finds without DP_KEYS, and by one release.

        That are its groups that are not public; and the others too where these would be too
        many to be shown, each of them, with all that is found. In other groupings these have
        the values that are in the combinations found. All this is said by query, policy and
        public tables.
        """
        plain = dict[Expr, exp.Expr]()
        for _, value in () if self._delta is None else self._groupings[0]:
            if not is_finder(value):
                plain.setdefault(self.rows.bind(value), value)
        found = {expr: value for expr, value in plain.items() if self._is_selected(expr)}
        public = [expr for expr in plain if expr not in found]
        if found and self._are_too_many(public):
            found = plain
        return {} if len(found) < len(self._groupings[:2]) else found

    def _are_too_many(self, public: Sequence[Expr]) -> bool:
        """Return whether groups are too many to be shown beside all that a release finds."""
        facts = facts_of(self.rows.where)
        listed = {one: self._values(one, facts) or () for one in public}
        if not all(listed.values()) or any(isinstance(one, Literal) for one in public):
            return False  # which is refused for its own sake
        keys = (
            Key(one.span, f"k{at}", one, values)
            for at, (one, values) in enumerate(listed.items())
        )
        return MOST_KEYS * prod(key.size for key in self._combined(tuple(keys))) > MAX_CELLS

    @property
    def _delta(self) -> Fraction | None:
        """What the statement may spend on groups that nobody asked to be found."""
        return (self.rows.shares and self.rows.shares.price.delta) or None

    def _is_selected(self, expr: Expr) -> bool:
        """Return whether groups that are not public are found with the statement's delta.

        Of units none could be found: each is in its own group alone.
        """
        if self._delta is None or isinstance(expr, Literal) or expr.type.kind is Kind.DOUBLE:
            return False
        if self.rows.scope.gives_unit(expr):
            return False
        known = self._values(expr, facts_of(self.rows.where))
        return known is None or self._ranged(expr, known) > MOST_RANGED

    def _select(self, expr: Expr, node: exp.Expr, value: exp.Expr) -> None:
        """Bind a plain group as DP_KEYS of it, and of all that is found together with it."""
        shares, spans = self.rows.shares, self.rows.spans
        together = self._unasked if expr in self._unasked else {expr: value}
        nodes = [one.copy() for one in together.values()]
        call = Calls(self.rows).add(exp.Anonymous(this=KEYS.name, expressions=nodes))
        assert shares is not None  # noqa: S101 - a statement without them selects nothing
        text = shares.rewritten.pop(call.span)
        if expr in self._unasked:
            self._together = {one: text if one == expr else "" for one in together}
        else:
            shares.rewrite(spans.of(node), text)
        found = self._found(replace(call, text=text))
        self._keys |= dict(zip(together, found, strict=True))

    def _rewrite(self) -> None:
        """Have the first grouping understood with DP_KEYS in place of what it selects."""
        shares, spans, sets = self.rows.shares, self.rows.spans, []
        if shares is None or not self._together:
            return
        for at, own in enumerate(self._groupings):
            texts = []
            for node, value in own:
                expr = None if at or is_finder(value) else self.rows.bind(value)
                plain = shares.within(spans.source, spans.of(node))
                texts.append(plain if expr is None else self._together.get(expr, plain))
            sets.append(", ".join(filter(None, dict.fromkeys(texts))))
        written = self.select.args.get("group") is not None
        several = f"GROUPING SETS ({', '.join(f'({one})' for one in sets)})"
        listed = sets[0] if len(sets) == 1 else several
        shares.rewrite(spans.grouping(self.select), f"{' GROUP BY ' * (not written)}{listed}")

    def _found(self, call: Call) -> list[Key]:
        """Return the keys of groups that are found in the data, by a release of their own."""
        rest, first = call.options.other is not None, len(self._keys)
        finding = Finding(self.find(call), most_of(call) + rest)
        return [
            Key(
                one.expr.span,
                f"k{first + place}",
                one.expr,
                (),
                replace(finding, place=place),
                rest,
                beside=f"k{first}" if place else "",
            )
            for place, one in enumerate(call.inputs)
        ]

    def _values(self, expr: Expr, facts: Facts) -> Values | None:
        """Return the values of a key; of a column that equals a public one, those of that."""
        known = values_of(expr, facts)
        if known is None and expr in self._same:
            return values_of(self._same[expr], facts)
        if known is None and expr.type.kind is not Kind.DOUBLE:
            listed = next((one.column(expr) for one in self._named if expr in one.exprs), ())
            return tuple(sorted({*listed})) or None
        return known

    def _as_named(self, own: tuple[Key, ...], named: Named) -> tuple[Key, ...]:
        """Return keys of which those that WHERE names rows of have these combinations."""
        others = taken(own)
        mine = [
            key
            for key in own
            if key.expr in named.exprs and key.listed and key.column not in others
        ]
        if len(mine) < 2 or any(key.expr.type.kind is Kind.DOUBLE for key in mine):
            return own
        rows = {*zip(*(named.column(key.expr) for key in mine), strict=True)}
        found = side_by_side(own, mine, sorted(rows))
        if not all(key.values for key in found if key.column == mine[0].column):
            self.refuse_empty(mine[0].span, ())
        return found

    def _listed(self, expr: Expr, node: exp.Expr, shown: Span, column: str) -> Key:
        """Make a key of an expression whose values are public."""
        facts = facts_of(self.rows.where)
        typed = isinstance(expr, Literal) and expr.span == shown  # as GROUP BY 'dept'
        values = None if typed else self._values(expr, facts)
        if isinstance(expr, ColumnRef):
            self._require_few(expr, values, shown)
        if values is None:
            self._private(expr, node, shown)
        if not values:
            read = {*columns_of(expr)}
            self.refuse_empty(shown, [one for one in facts.said if read & {*columns_of(one)}])
        self._check_shown(expr, values, shown)
        return Key(shown, column, expr, values, left_out=self._left_out(expr, facts))

    def _left_out(self, expr: Expr, facts: Facts) -> str:
        """Return which rows are in none of the groups, by names that the query has."""
        told = _left_out(expr, facts)
        text = self.rows.spans.source.text[expr.span.start : expr.span.end]
        if isinstance(expr, ColumnRef) and text.isidentifier():  # of a list, a value has none
            told = told.replace(f"where {listed_names([expr.name])} is", f"where {text} is")
        return told

    def _ranged(self, expr: Expr, values: Values | None) -> int:
        """Return how many numbers or moments a range has that nobody named; 0 of others."""
        kind, facts = expr.type.kind, facts_of(self.rows.where)
        if not isinstance(expr, ColumnRef) or expr.keys is not None or expr in facts.values:
            return 0
        range_ = implied(expr, facts)
        if kind not in _RANGED or range_.low is None or range_.high is None:
            return 0
        if values is None:
            return int(range_.high - range_.low) + 1
        return sum(value is not None for value in values)

    def _require_few(self, column: ColumnRef, values: Values | None, shown: Span) -> None:
        """Refuse a group for each number or moment of a long range, which nobody named."""
        kind, count = column.type.kind, self._ranged(column, values)
        if count <= MOST_RANGED:
            return
        what = self.rows.spans.source.snippet(column.span)
        wide = f"{what} // {10 ** (len(str(count)) - 3)}"
        if kind is not Kind.INTEGER:
            days = count // _RANGED[kind]
            part = next((name for name, most in _PARTS if days <= most), "year")
            wide = f"DATE_TRUNC('{part}', {what})"
        found = f"{KEYS.name}({what}, eps=0.5, delta=1e-7)"
        title = f"this would make {count:,} groups of {what}"
        label = "a group for each value of its range"
        why = f"of more than {MOST_RANGED:,} groups, most would have hardly anybody in them."
        remedy = (self._grouped_by(column, wide), f"or GROUP BY {found}, which finds them")
        raise refusal("DPQ405", title, shown, label, why, remedy)

    def _grouped_by(self, column: ColumnRef, text: str) -> str:
        """Write the query with something else in the place of a column that is a group."""
        spans, whole = self.rows.spans, self.rows.spans.source.text
        if self.select.parent is not None:
            return f"GROUP BY {text}"
        alone = (exp.Select, exp.Alias, exp.Group, exp.Ordered)
        nodes = outside_calls(self.select, "expressions", "group", "having", "order")
        places = {
            spans.of(node): text if isinstance(node.parent, alone) else f"({text})"
            for node in nodes
            if self._refers(node) == column
        }
        for place in sorted(places, key=lambda one: -one.start):
            whole = whole[: place.start] + places[place] + whole[place.end :]
        return whole.strip()

    def _refers(self, node: exp.Column) -> Expr | None:
        with suppress(QueryRefused):  # it is the name of a result, or refused later
            return self.rows.scope.reference(node, self.rows.spans.of(node))
        return None

    def _check_shown(self, expr: Expr, values: Values, span: Span) -> None:
        """Refuse groups that no answer could show: numbers beyond the type of a column."""
        beyond = (
            value
            for value in values
            if isinstance(value, int) and not INT64[0] <= value <= INT64[1]
        )
        value = next(beyond, None) if expr.type == INTEGER else None
        if value is None:
            return
        furthest = str(INT64[value > 0])
        typed = _typed(value, expr, self.rows.where)
        cut = f"{'LEAST' if value > 0 else 'GREATEST'}({self.rows.spans.source.snippet(span)}, "
        title = f"no row can be in the group {str(value)[:40]}"
        label = "beyond every whole number of a column"
        why = "every group that is named is shown, and this one cannot be."
        remedy = furthest if typed else f"{cut}{furthest})"
        offered = (remedy, "this is the furthest that a column can hold")
        raise refusal("DPQ205", title, typed or span, label, why, offered)

    def refuse_empty(self, shown: Span, about: Sequence[Expr]) -> NoReturn:
        """Refuse groups of which conditions leave none; point at the last about them."""
        title = "the answer would always be empty"
        label = f"no group of {self.rows.spans.source.snippet(shown)} is left"
        why = "it would be charged, and tell nothing."
        leave = advice("leave out this group")
        remedy, span = leave, shown
        if about:
            span = about[-1].span
            remedy = without_condition(self.rows.spans.source, span)
        raise refusal("DPQ408", title, span, label, why, remedy)

    def _is_division(self, node: exp.Expr) -> bool:
        """Return whether a group is made by /, of what // could divide."""
        return isinstance(node, exp.Div) and self.rows.bind(node.this).type == INTEGER

    def _per_unit(self, table: Table, node: exp.Expr) -> tuple[str, ...]:
        """Offer a query about each unit's rows, made one row by a subquery."""
        unit = node.name
        inner = query_about(table, "COUNT(*) AS n", groups=[unit])
        query = f"SELECT DP_AVG(n, eps=0.5, bounds=[0, 100]) FROM ({inner})"
        return query, "that asks about each unit; a single unit is never shown"

    def _private(self, expr: Expr, node: exp.Expr, span: Span) -> NoReturn:
        table = self.rows.scope.table
        what, label, remedy = "this expression", "its values are not public", self._public()
        if isinstance(expr, ColumnRef) or self.rows.scope.owns(node):
            what, label = self.rows.spans.text(node), "private grouping column"
        if self._is_division(node):  # as `age / 10`, which has fractions for values
            text = self.rows.spans.text(node)
            whole = self.rows.spans.source.text.replace(text, text.replace("/", "//"))
            label, remedy = "/ makes fractions, // whole numbers", (whole, *remedy)
        elif self.rows.scope.owns(node):
            remedy = self._per_unit(table, node)
        elif not isinstance(expr, ColumnRef):
            remedy = self._within(expr) or remedy
        else:
            what = self.rows.spans.source.snippet(expr.span)
            if example_values(expr.type):
                remedy = (self._named_groups(expr),)
                if expr.type.kind is not Kind.DOUBLE:
                    found = f"GROUP BY {KEYS.name}({what}, eps=0.5, delta=1e-7)"
                    remedy += (f"or {found}, which finds them",)
                if expr.name in table.columns:
                    owned = f"{table.name}.{expr.name}"
                    owner = f"or ask the data owner to list the keys of {owned} in the policy"
                    remedy += (Worded(owner),)
        title = f"the groups of {what} are not public"
        why = (
            f"a value of {what} that appears in the answer shows that somebody has it,",
            "so the groups have to be known before the data is read.",
        )
        raise refusal("DPQ402", title, span, label, why, remedy)

    def _within(self, expr: Expr) -> tuple[str, ...]:
        """Offer a range for the one column that is read, where groups are public with one."""
        column, *others = *columns_of(expr).values(), None
        if column is None or len(others) > 1 or column.type.kind not in _RANGED:
            return ()
        written, facts = self.rows.spans.source.snippet(column.span), facts_of(self.rows.where)
        range_, asked, owner = ranged_by(column.type, written, column.name)
        known = values_of(expr, replace(facts, ranges={**facts.ranges, column: range_}))
        return (self._narrowed(asked), owner) if known else ()

    def _public(self) -> tuple[str, ...]:
        """Offer a column whose groups are public."""
        scope = self.rows.scope
        listed = [name for name, c in scope.table.columns.items() if has_listed_groups(c)]
        known = [name for name in listed if scope.knows(name)]
        if not known:
            owner = "ask the data owner to list the keys of a column in the policy"
            return (Worded(owner, "name the groups of a column in WHERE, as in IN ('a', 'b')"),)
        groups = f"public groups here: {listed_names(known)}"
        return (f"GROUP BY {written_name(known[0])}", groups)

    def _named_groups(self, column: ColumnRef) -> str:
        """Write a WHERE that names the groups of a column, and keeps what it said before."""
        name = self.rows.spans.source.snippet(column.span)
        written = f"{name} IN ({example_values(column.type)})"
        low, high = _whole_ends(implied(column, facts_of(self.rows.where)))
        known = self.select.args.get("where") and (low, high) != (None, None)
        if column.type == INTEGER and known:
            low = high - 9 if low is None and high is not None else low
            written = f"{name} BETWEEN {low} AND {(low or 0) + 9}"
        return self._narrowed(written, column)

    def _narrowed(self, condition: str, column: ColumnRef | None = None) -> str:
        """Write a WHERE that asks for one thing more, in place of what is about its column."""
        spans, where = self.rows.spans, self.select.args.get("where")
        kept = [] if where is None else conditions_of(where.this)
        if column is not None:
            kept = [one for one in kept if not self._only_about(one, column)]
        return " AND ".join([f"WHERE {condition}", *(operand(one, spans) for one in kept)])

    def _only_about(self, condition: exp.Expr, column: ColumnRef) -> bool:
        """Return whether a condition is about one column, whose values a list names anew."""
        found = [*condition.find_all(exp.Column)]
        named = all(fold(one.name) == fold(column.name) for one in found)
        return bool(found) and named and column.type != INTEGER

    def _too_many(self, cells: int, keys: Sequence[Key]) -> NoReturn:
        most = max(keys, key=lambda key: key.size)
        remedy = advice("leave out one of the groups")
        if isinstance(most.expr, ColumnRef):
            remedy = self._named_groups(most.expr)
        title = f"this would make {cells:,} groups"
        sizes = (f"{key.size:,}" for key in keys if not key.beside)
        if len(self._groupings) > 1 and len([key for key in keys if key.finding]) > 1:
            remedy = "begin with a grouping that has all of these: they are found together"
        label = f"{' x '.join(sizes)} values"
        why = f"every declared group is shown, and at most {MAX_CELLS:,} can be."
        raise refusal("DPQ405", title, most.span, label, why, remedy)


def _whole_ends(range_: Interval) -> tuple[int | None, int | None]:
    """Return the whole numbers at both ends of a range, where it has ends."""
    low, high = range_.low, range_.high
    return None if low is None else ceil(low), None if high is None else floor(high)


def _left_out(expr: Expr, facts: Facts) -> str:
    """Return which rows are in none of the groups: they would vanish in silence."""
    others, nulls = undeclared(expr, facts), frozenset[str]()
    if nulls_of(expr, facts) is Nulls.LEFT_OUT:
        refs = columns_of(expr).values()
        nulls = frozenset(ref.name for ref in refs if ref.nulls is Nulls.LEFT_OUT)
    if not others and not nulls:
        return ""
    said = "NULL or " * bool(nulls) + "not one of its keys" if others else "NULL"
    return f"rows where {listed_names(others | nulls)} is {said} are left out"


def _typed(value: int, key: Expr, where: Expr | None) -> Span | None:
    """Find where a group was typed: in the key, or in a condition that names its values."""
    said = [] if where is None else conjuncts(where)
    pending = [key, *(condition for condition in said if key in children(condition))]
    while pending:
        expr = pending.pop(0)
        if isinstance(expr, Literal) and expr.value == value:
            return expr.span
        pending.extend(children(expr))
    return None


def has_listed_groups(column: Column | ColumnRef) -> bool:
    """Return whether a few values of a column are public by the policy: a group to offer."""
    known = column.keys is not None and column.type.kind is not Kind.DOUBLE
    return known or column.type.kind is Kind.BOOLEAN
