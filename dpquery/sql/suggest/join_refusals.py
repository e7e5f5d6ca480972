"""Joins that are not answered: what is wrong with each, and the predicate that mends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import expressions as exp

from dpquery.core.source_text import Source, Span
from dpquery.core.types import Kind
from dpquery.errors import advice, refusal
from dpquery.ir.expr import LONGEST_CONSTANT
from dpquery.ir.relations import Relation, tables_of
from dpquery.policy.document import toml_text
from dpquery.policy.model import Table
from dpquery.policy.name_conventions import person, refers_to, words
from dpquery.sql.bind.dp_calls import Calls
from dpquery.sql.bind.from_clause import Context, Derived, PublicItem, ReleasedItem
from dpquery.sql.bind.rows.row_expressions import Conditions, operand
from dpquery.sql.bind.scope import Member, Scope, fold, written_name
from dpquery.sql.parse.spans import Spans, mended, outside, span_of
from dpquery.sql.size_limits import MOST_COPIES


@dataclass(frozen=True, slots=True)
class JoinedBy:
    """Where a relation is joined, and by what."""

    join: exp.Join | None
    relation: Span
    spans: Spans

    @property
    def span(self) -> Span:
        """The condition or the names of USING; the relation, where there is none."""
        args = {} if self.join is None else self.join.args
        if args.get("on") is not None:
            return self.spans.of(args["on"])
        names = args.get("using")
        if not names:
            return self.relation
        first, last = self.spans.of(names[0]).start, self.spans.of(names[-1]).end
        tokens = [span_of(token) for token in self.spans.tokens]
        word = [at for at in tokens if at.end <= first][-2]
        return word | next(at for at in tokens if at.start >= last)

    @property
    def conditioned(self) -> bool:
        """Whether a condition stands there, or a word that needs none."""
        if self.join is None or self.join.kind == "CROSS" or self.join.meta.get("comma"):
            return True
        return self.join.args.get("on") is not None

    def with_condition(self, condition: str) -> str:
        """Write the query with another condition here, or what to write after ON."""
        source, span, alone = self.spans.source, self.span, f"ON {condition}"
        if self.join is None:
            return alone
        joined = self.spans.of(
            self.join.this
        )  # which `span` is not, where the other is refused
        if self.join.method:
            word, blank = self.join.method, f"{self.join.side} ".lstrip()
            text = f"{blank}JOIN {source.snippet(joined)} {alone}"
            return mended(source, _from_word(source, word, joined), text, alone)
        if self.join.kind == "CROSS" or self.join.meta.get("comma"):
            word, blank = ("CROSS", "") if self.join.kind == "CROSS" else (",", " ")
            text = f"{blank}JOIN {source.snippet(joined)} {alone}"
            return mended(source, _from_word(source, word, joined), text, text.strip())
        if self.join.args.get("on") is not None:
            return mended(source, span, condition, alone)
        if self.join.args.get("using"):
            return mended(source, span, alone, alone)
        return mended(source, Span(joined.end, joined.end), f" {alone}", alone)


def _from_word(source: Source, word: str, span: Span) -> Span:
    """Widen a span to begin at the last such word before it."""
    return Span(max(source.text.upper().rfind(word, 0, span.start), 0), span.end)


def _word_before(source: Source, word: str, span: Span) -> Span:
    start = _from_word(source, word, span).start
    return Span(start, start + len(word))


_ALIKE = "declare the unit's column with one type in both tables"
_ALIKE_IN_FILES = "write both files with one type for the unit's column"


def refuse_units(
    span: Span, label: str, remedy: str = _ALIKE, own: str = _ALIKE_IN_FILES
) -> NoReturn:
    """Refuse to take the units of two tables for one another."""
    raise refusal(
        "DPQ308",
        "the units of these tables cannot be compared",
        span,
        label,
        (
            "rows of two tables belong to one unit where the unit's column has one declared",
            "type in both, and one name, or the policy says that all tables hold one unit.",
        ),
        advice(
            f"ask the data owner to {remedy}",
            own,
        ),
    )


def same_units(context: Context, left: Relation, right: Relation, span: Span) -> None:
    """Refuse to compare units of different domains."""
    one, other = (context.policy.tables[tables_of(r)[0].table] for r in (left, right))
    if one.unit is None or other.unit is None:
        whose = one if one.unit is None else other
        refuse_units(span, f"each row of {whose.name} is a unit of its own")
    if context.policy.unit is None and fold(one.unit) != fold(other.unit):
        label = f"{one.name} has {one.unit}, and {other.name} has {other.unit}"
        said = (person(refers_to(words(unit), ())) for unit in (one.unit, other.unit))
        unit = next(filter(None, said), "person")
        line = f"[privacy] unit = {toml_text(unit)} into the policy"
        asked = f"write {line}, if these columns name the same units"
        refuse_units(span, label, asked, "write both files with one name for the unit's column")
    if one.unit_types is None or one.unit_types != other.unit_types:
        refuse_units(span, f"{one.unit} is not declared with one type in both tables")


def refuse_off_unit(
    at: JoinedBy, members: Sequence[Member], member: Member, table: Table
) -> NoReturn:
    """Refuse a join of private relations that is not on the unit."""
    unit = table.unit or ""
    ours = next((m for m in members if m.owners), members[0])
    left, right = sorted(ours.owners), sorted(member.owners)
    remedy = advice("join the tables on their unit")
    if left and right:
        names = [
            f"{written_name(ours.alias)}.{written_name(_spelled(ours, left[0], unit))}",
            f"{written_name(member.alias)}.{written_name(_spelled(member, right[0], unit))}",
        ]
        remedy = at.with_condition(f"{names[0]} = {names[1]}")
    raise refusal(
        "DPQ304",
        "this join would pair one person's rows with another's",
        at.span,
        f"not joined on {unit}" if unit else "its rows are units of their own",
        (
            "a row then depends on two units at once, and no bound on one of them holds;",
            "private tables are joined on the privacy unit.",
        ),
        remedy,
    )


def _spelled(member: Member, owner: str, unit: str) -> str:
    if fold(unit) == owner:
        return unit
    return next((name for name in member.columns if fold(name) == owner), owner)


def refuse_key(at: JoinedBy, public: PublicItem, scope: Scope, most: int) -> NoReturn:
    """Refuse a join off a public table's key, where a row may meet so many of its rows."""
    keys, alias = public.table.unique, written_name(public.alias)
    name = public.alias if public.derived else public.table.name
    theirs = [f"{alias}.{written_name(public.names.get(key, key))}" for key in keys]
    ours = [_having(scope, key) for key in keys]
    if public.derived:
        remedy = advice("join it on more columns, or make its rows fewer: SELECT DISTINCT")
    elif not keys:
        remedy = advice(f"ask the data owner to declare what is unique in {name}")
    elif "" in ours:
        remedy = advice(f"join it on columns that hold the values of {' and '.join(theirs)}")
    else:
        pairs = zip(ours, keys, theirs, strict=True)
        condition = (f"{written_name(a)}.{written_name(key)} = {end}" for a, key, end in pairs)
        remedy = at.with_condition(" AND ".join(condition))
    raise refusal(
        "DPQ306",
        f"the join with {name} is not on its unique key",
        at.span,
        _unique(public),
        _why_not(at, scope, most),
        remedy,
    )


def refuse_released(at: JoinedBy, released: ReleasedItem, scope: Scope, most: int) -> NoReturn:
    """Refuse a join with released rows of which a row may meet several."""
    found, alias = released.found, released.alias
    columns = [found.columns[place] for place in sorted(found.unique)]
    keys = [column.name for column in columns]
    ours = [_having(scope, key) for key in keys]
    remedy = advice("join it on all that it is grouped by, or end the subquery: LIMIT 1")
    if any(one.kind is Kind.DECIMAL for one in columns):
        remedy = advice("group it by a whole number, text or date: decimals are rounded")
    elif any(one.is_cut for one in columns):
        first = f"LEFT(..., {LONGEST_CONSTANT})"
        remedy = advice(f"group it by {first}, and join on that: longer texts are cut here")
    elif keys and alias and "" not in ours:
        name, written = written_name(alias), map(written_name, keys)
        pairs = zip(map(written_name, ours), written, strict=True)
        remedy = at.with_condition(" AND ".join(f"{a}.{k} = {name}.{k}" for a, k in pairs))
    raise refusal(
        "DPQ306",
        "a row may meet several released rows",
        at.span,
        f"up to {most:,} of them",
        "released rows are joined on all of their groups, or there is one of them.",
        remedy,
    )


def _unique(public: PublicItem) -> str:
    if public.derived:
        return "several of its rows meet one"
    keys = public.table.unique
    return f"unique: {', '.join(keys)}" if keys else "nothing is declared unique"


def _why_not(at: JoinedBy, scope: Scope, most: int) -> str:
    if scope.table.unit is None:
        return "each row is a unit of its own here, and would count in full several times."
    if most > MOST_COPIES:
        return f"a row would become up to {most:,} rows; {MOST_COPIES} are the most."
    return "JOIN needs a condition; to meet all rows, write CROSS JOIN."


def _having(scope: Scope, column: str) -> str:
    """Return the relation that has a column of that name; empty, if none has."""
    named = (m.alias for m in scope.members if fold(column) in map(fold, m.columns))
    return next(named, "")


def refuse_public_rows(at: JoinedBy, side: str, instead: str, table: str) -> NoReturn:
    """Refuse to keep public or released rows that no private row meets: `side` keeps them.

    The other word keeps what else that one keeps; it may be none.
    """
    source = at.spans.source
    span = _word_before(source, side, at.relation)
    raise refusal(
        "DPQ306",
        f"rows of a {table} table alone belong to no unit",
        span,
        f"keeps {table} rows that no private row meets",
        (
            "every row below the DP_ functions belongs to one unit; groups of public",
            "columns are all shown anyway, also those without rows.",
        ),
        (
            mended(source, span, instead, f"{instead} JOIN".strip()),
            "and GROUP BY a public column shows its values without rows too",
        ),
    )


def refuse_computed(span: Span) -> NoReturn:
    """Refuse to keep rows whose computed columns would have to be missing."""
    raise outside(
        "a RIGHT or FULL JOIN after computed columns",
        span,
        "not understood",
        advice("write the computed columns in a subquery of their own"),
    )


def refuse_kind(span: Span, what: str) -> NoReturn:
    """Refuse a kind of join that is not answered."""
    raise outside(what, span, "not understood", advice("write JOIN ... ON the privacy unit"))


def refuse_unnamed(span: Span) -> NoReturn:
    """Refuse a natural join of relations that have no column in common."""
    remedy = advice("write JOIN ... ON the columns that are equal")
    raise outside("NATURAL JOIN", span, "no column of both", remedy)


def refuse_before(span: Span) -> NoReturn:
    """Refuse a join of public tables alone that is more than its ON, before private rows."""
    raise outside(
        "a join of public tables by USING, or LEFT, before private rows",
        span,
        "not understood",
        advice("write the private table first in FROM"),
    )


def refuse_rows_of_own(span: Span, table: Table) -> NoReturn:
    """Refuse to make several rows of one that is a unit of its own."""
    why = "each row is a unit of its own here, and would count in full several times."
    remedy = advice(
        f"ask the data owner which column of {table.name} is the unit",
        "open the file with --unit, and name the column that says whose each row is",
    )
    raise refusal("DPQ306", "a row may not become several here", span, "several", why, remedy)


def refuse_public_kind(at: JoinedBy, kind: str, table: str) -> NoReturn:
    """Refuse a semi or anti join with a public table: a join on its key says the same."""
    source = at.spans.source
    joined = at.relation if at.join is None else at.spans.of(at.join.this)
    word = _word_before(source, kind, joined)
    remedy = advice("write a LEFT JOIN on its key, and WHERE the key IS NULL")
    if kind == "SEMI":
        remedy = mended(source, word, "", "JOIN on its key")
    raise outside(f"a {kind} JOIN with a {table} table", word, "not understood", remedy)


def refuse_twice(alias: str, span: Span) -> NoReturn:
    """Refuse two relations of one name."""
    raise refusal(
        "DPQ211",
        f"two relations are called {alias}",
        span,
        "the second one",
        "columns are found by the name of their relation.",
        f"AS {written_name(f'{alias}_2')}",
    )


# Subqueries whose rows would depend on several units: what is said of each, and offered.


def refuse_across(context: Context, clause: exp.Expr, word: str, scope: Scope) -> NoReturn:
    """Refuse a clause that chooses among the rows of all units."""
    source, word = context.spans.source, "TOP" if clause.meta.get("top") else word
    span = _from_word(source, word.split(maxsplit=1)[0], context.spans.of(clause))
    with_blank = Span(len(source.text[: span.start].rstrip()), span.end)
    raise refusal(
        "DPQ307",
        f"{word} over private rows would let one unit decide about another",
        span,
        "chooses among the rows of all units",
        (
            "which rows are kept would depend on rows of other units, and nothing would",
            "bound what one unit changes.",
        ),
        (mended(source, with_blank, "", "leave the clause out"), _per_unit(scope.table.unit)),
    )


def _per_unit(unit: str | None) -> str:
    """Return how rows of each unit are chosen, where there are units."""
    if unit is None:
        return "each row is a unit of its own here"
    by = f"OVER (PARTITION BY {written_name(unit)})"
    return f"or choose among the rows of each unit: QUALIFY row_number() {by} = 1"


def refuse_without_unit(context: Context, span: Span, word: str, found: Derived) -> NoReturn:
    """Refuse to make one row of rows of several units."""
    unit = found.table.unit
    raise refusal(
        "DPQ307",
        f"{word} of private rows needs the unit among its columns",
        span,
        "units would become one row" if unit else "each row is a unit here",
        "a row that stands for several units belongs to none of them.",
        f"{written_name(unit)}, {context.spans.source.snippet(span)}"
        if unit
        else "leave DISTINCT out",
    )


def refuse_group(
    context: Context, aggregate: exp.Expr, nodes: Sequence[exp.Expr], rows: Conditions
) -> NoReturn:
    """Refuse an aggregate of several units; where one value is wanted, offer a noisy one."""
    unit, spans = rows.scope.table.unit, context.spans
    others = [spans.text(node) for node in nodes]
    remedy = f"GROUP BY {', '.join([written_name(unit or 'unit'), *others])}"
    if _is_one_value(aggregate) and not nodes:
        name = spans.source.snippet(spans.name(aggregate))
        remedy = Calls(rows).meant(name, aggregate) or remedy
    raise refusal(
        "DPQ307",
        "an aggregate in a subquery would answer without noise",
        spans.of(aggregate),
        f"not grouped by {unit}" if unit else "each row is a unit of its own here",
        (
            "a result without noise over several units' rows shows who is in the data; grouped",
            "by the unit it is one value of each, which a DP_ function can ask about.",
        ),
        remedy if unit or "DP_" in remedy else "leave the aggregate out",
    )


def _is_one_value(node: exp.Expr) -> bool:
    """Return whether a node is selected by a subquery that stands for one value."""
    select = node.find_ancestor(exp.Select)
    around = None if select is None else select.parent
    places = exp.From | exp.Join | exp.CTE | exp.SetOperation | exp.In | exp.Exists
    return isinstance(around, exp.Subquery) and not isinstance(around.parent, places)


def refuse_correlated(context: Context, node: exp.Subquery) -> None:
    """Refuse a subquery of one value that looks at the row around it; offer a join.

    Raises:
        RuleRefused: DPQ307.
    """
    outside, inside = node.find_ancestor(exp.Select), node.find(exp.Select)
    if outside is None or inside is None or inside.args.get("from_") is None:
        return
    parts = [outside.args["from_"], *(outside.args.get("joins") or [])]
    around = {fold(part.this.alias_or_name) for part in parts}
    own = {fold(table.alias_or_name) for table in node.find_all(exp.Table)}
    tied = next((c for c in node.find_all(exp.Column) if fold(c.table) in around - own), None)
    if tied is None:
        return
    raise refusal(
        "DPQ307",
        "a subquery of one value cannot look at the row around it",
        context.spans.of(tied),
        "of the query around",
        (
            "its value is computed once, before the rows around it are read; where it does",
            "no more than equate the unit, or public values, with theirs, once for each.",
        ),
        _tied(context, inside, tied),
    )


def _tied(context: Context, inside: exp.Select, column: exp.Column) -> str:
    """Write a join with a public table for a subquery; else, equate the units in it."""
    spans, where = context.spans, inside.args.get("where")
    source = inside.args["from_"].this
    tables = {fold(name): one for name, one in context.policy.tables.items()}
    table = tables.get(fold(source.name)) if isinstance(source, exp.Table) else None
    if table is not None and table.public and where is not None:
        join = f"JOIN {spans.text(source)} ON {spans.text(where.this)}"
        return advice(f"write {join} in its place")
    unit = written_name(table.unit or "unit" if table else column.name)
    inner, outer = (written_name(name) for name in (source.alias_or_name, column.table))
    tie = f"{inner}.{unit} = {outer}.{unit}"
    if where is None:
        return tie
    span = spans.of(where.this)
    return mended(spans.source, span, f"{tie} AND {operand(where.this, spans)}", tie)
