"""Views: names that a session keeps for queries.

A view is a text. A statement that reads one is written anew, with that text as a name of WITH
in front of it: it means, and is charged, what it would be had it been written so. Nothing else
knows of views, and no rule is about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import takewhile
from operator import is_not

from sqlglot import Token, TokenType
from sqlglot import expressions as exp

from dpquery.core.source_text import Source, Span
from dpquery.errors import QueryRefused, nearest, refusal
from dpquery.policy.model import Policy
from dpquery.sql.bind.scope import fold, listed_names, written_name
from dpquery.sql.commands import Create, Drop
from dpquery.sql.parse.parser import Parsed, parse
from dpquery.sql.parse.spans import too_large

MOST_VIEWS = 100
"""Views that a session keeps."""


@dataclass(frozen=True, slots=True)
class View:
    """A name for a query."""

    name: str
    text: str
    """What stands after WITH for it: the name, those of its columns, the query in brackets."""
    query: str
    reads: frozenset[str]
    """The folded names of what it reads, tables or other views."""


@dataclass(frozen=True, slots=True)
class Splice:
    """A statement with views written in front of it, and the way back to what was typed."""

    typed: Source
    at: int
    text: str

    @property
    def source(self) -> Source:
        """The whole statement."""
        typed = self.typed.text
        return Source(typed[: self.at] + self.text + typed[self.at :], self.typed.name)

    def told(self, refused: QueryRefused) -> QueryRefused:
        """Have a refusal of the whole speak of what was typed, unless it is about a view."""
        span, remedy = refused.span, refused.diagnostic.remedy
        offered = (one.replace(self.text, "") if self.text in one else one for one in remedy)
        found = replace(refused.diagnostic, remedy=tuple(offered))
        if span is not None and self.at < span.end and self._typed(span.end) <= self.at:
            refused.source = self.source
        elif span is not None:
            span = Span(self._typed(span.start), self._typed(span.end))
        refused.diagnostic = replace(found, span=span)
        return refused

    def _typed(self, offset: int) -> int:
        """Return where an offset of the whole is in what was typed."""
        return offset if offset <= self.at else max(self.at, offset - len(self.text))


class Views:
    """The views of one session, by their folded names."""

    def __init__(self, policy: Policy, views: Iterable[View] = ()) -> None:
        self._policy = policy
        self._views = {fold(view.name): view for view in views}

    def __contains__(self, name: str) -> bool:
        return fold(name) in self._views

    def __iter__(self) -> Iterator[View]:
        return iter(self._views.values())

    def find(self, name: str) -> View | None:
        """Return the view of a name."""
        return self._views.get(fold(name))

    def read(self, create: Create) -> tuple[View, Source]:
        """Return a new view, and a statement that reads it before it is kept.

        Raises:
            QueryRefused: its name is taken, or its text is no query.
        """
        parsed = parse(create.query)
        text, tokens = create.source.text, parsed.spans.tokens
        end = tokens[-1].end + 1
        query, head = text[tokens[0].start : end], text[create.span.start : create.end]
        view = View(create.name, f"{head} ({query})", query, _read_by(parsed.query))
        self._require_other(view, create)
        self._require_free(create)
        return view, create.named(end)

    def keep(self, view: View, create: Create) -> None:
        """Keep a view, in the place of one of its name.

        Raises:
            SyntaxRefused: DPQ106 it was to be more than a temporary one.
        """
        if not create.temporary:
            title, label = "only temporary views are kept here", "not a temporary view"
            why = "a view is a name for a query, in this session alone; nothing is stored."
            raise refusal("DPQ106", title, create.span, label, why, create.offered)
        self._views[fold(view.name)] = view

    @contextmanager
    def spliced(self, parsed: Parsed) -> Iterator[Parsed]:
        """Return a statement with the views that it reads; refusals speak of its own text."""
        splice = self._splice(parsed)
        try:
            yield parsed if splice is None else parse(splice.source)
        except QueryRefused as refused:
            told = refused if splice is None else splice.told(refused)
            raise self._near(told, parsed.source) from None

    def _near(self, refused: QueryRefused, source: Source) -> QueryRefused:
        """Have a refusal of a table name the views, too."""
        span, (first, *_) = refused.span, (*refused.diagnostic.remedy, "")
        unknown = refused.code == "DPQ201" and first.startswith("FROM ")
        if not (self._views and unknown and span is not None and refused.source is None):
            return refused
        known = [*self._policy.tables, *(view.name for view in self)]
        near = nearest(source.snippet(span).strip('"'), known)
        offered = first if near is None else f"FROM {written_name(near)}"
        remedy = (offered, f"tables and views here: {listed_names(known, near)}")
        refused.diagnostic = replace(refused.diagnostic, remedy=remedy)
        return refused

    def _splice(self, parsed: Parsed) -> Splice | None:
        """Write what a statement reads in front of it; None where it reads no view."""
        needed = self._needed(_read_by(parsed.query)) if self._views else {}
        if not needed:
            return None
        tokens, written = parsed.spans.tokens, ", ".join(one.text for one in needed.values())
        at, follows = _place(parsed.query, tokens)
        text = f" {written}," if follows else f"WITH {written} "
        return Splice(parsed.source, at, text)

    def _needed(self, names: frozenset[str]) -> dict[str, View]:
        """Return the views of some names, and those that they read, each after these."""
        needed: dict[str, View] = {}
        self._take(names, needed, set())
        return needed

    def _take(self, names: frozenset[str], needed: dict[str, View], seen: set[str]) -> None:
        """Add views to those that are needed, each after what it reads itself."""
        for name in sorted(names - seen):
            view = self._views.get(name)
            if view is not None:
                seen.add(name)
                self._take(view.reads, needed, seen)
                needed[name] = view

    @property
    def _of_tables(self) -> set[str]:
        """The folded names of tables, and the paths by which they can be read."""
        tables = self._policy.tables.values()
        return {fold(one) for table in tables for one in (table.name, *table.written)}

    def _require_free(self, create: Create) -> None:
        """Require that a name can be given to a view.

        Raises:
            NameRefused: DPQ211 something has it.
            SyntaxRefused: DPQ105 there are too many views.
        """
        name = create.name
        if fold(name) in self._of_tables:
            title, label = f"{name} is a table of this session", "choose another name"
            offered = self._renamed(create)
            why = "what is read by this name stays the table, in every statement."
        elif name in self and not create.replace:
            title, label = f"there is a view {name}", "the name is taken"
            offered = replace(create, replace=True).offered
            why = "a view gives way to another only where the statement says so."
        elif name not in self and len(self._views) >= MOST_VIEWS:
            first = written_name(next(iter(self)).name)
            title, why = f"there are {MOST_VIEWS} views", "a session keeps no more of them."
            raise too_large(title, create.span, why=why, remedy=f"DROP VIEW {first}")
        else:
            return
        raise refusal("DPQ211", title, create.span, label, why, offered)

    def _require_other(self, view: View, create: Create) -> None:
        """Require that a view does not read itself."""
        if fold(view.name) not in self._needed(view.reads):
            return
        title, label = f"{view.name} would read itself", "among what it reads"
        why = "a view is written in the place of its name, which would never end."
        raise refusal("DPQ211", title, create.span, label, why, self._renamed(create))

    def _renamed(self, create: Create) -> str:
        """Write a statement with a name that nothing has."""
        text, taken = create.source.text, self._views.keys() | self._of_tables
        name = f"{create.name}_view"
        while fold(name) in taken:
            name += "_"
        before, after = text[: create.span.start], text[create.span.end :]
        return f"{before}{written_name(name)}{after}".strip()

    def drop(self, drop: Drop) -> str:
        """Forget a view, and say so.

        Raises:
            NameRefused: DPQ201 there is none of this name.
        """
        name = drop.name
        if self._views.pop(fold(name), None) is not None:
            return f"{name} is no view any more"
        if drop.missing:
            return f"there was no view {name}"
        near = nearest(name, [view.name for view in self])
        title, label = f"there is no view {name[:80]!r} in this session", "not a view"
        why = "views last as long as their session; the tables of the policy stay."
        remedy = f"DROP VIEW {written_name(near)}" if near else "SHOW TABLES"
        raise refusal("DPQ201", title, drop.span, label, why, remedy)


def reading(view: View) -> Source:
    """Return a statement that reads a view as a name of WITH."""
    return Source(f"WITH {view.text} SELECT * FROM {written_name(view.name)}")


def _read_by(query: exp.Expr) -> frozenset[str]:
    """Return the folded names of the tables that a query reads, without those of its own."""
    tables = (table for table in query.find_all(exp.Table) if not table.args.get("db"))
    return frozenset(fold(table.name) for table in tables if not _is_own(table))


def _is_own(table: exp.Table) -> bool:
    """Return whether a table is a name of WITH in its own query, which stands before it."""
    node: exp.Expr | None = table
    inside: exp.Expr | None = None
    while node is not None:
        inside = node if isinstance(node, exp.CTE) else inside
        with_ = node.args.get("with_")
        names = with_.expressions if with_ else []
        before = takewhile(partial(is_not, inside), names)
        if any(fold(one.alias) == fold(table.name) for one in before):
            return True
        node = node.parent
    return False


def _place(query: exp.Expr, tokens: Sequence[Token]) -> tuple[int, bool]:
    """Return where names of WITH can be added, and whether that word stands there already.

    That is one for the whole query: in `(WITH ...) UNION (...)` it is for one side alone.
    """
    while isinstance(query, exp.Subquery) and not query.args.get("with_"):
        query = query.this
    if query.args.get("with_"):
        first = next(one for one in tokens if one.token_type is not TokenType.L_PAREN)
        return first.end + 1, True
    return tokens[0].start, False
