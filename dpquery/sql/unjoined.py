"""Joins that are not answered: what is wrong with each, and the predicate that mends it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from dpquery.errors import Diagnostic, NameRefused, RuleRefused, SyntaxRefused
from dpquery.policy.model import Table
from dpquery.source import Span
from dpquery.sql.mending import outside
from dpquery.sql.names import Member, Scope, fold, written_name
from dpquery.sql.sources import PublicItem

__all__ = [
    "refuse_computed",
    "refuse_key",
    "refuse_kind",
    "refuse_off_unit",
    "refuse_public_rows",
    "refuse_twice",
    "refuse_units",
]


def refuse_units(span: Span, label: str) -> NoReturn:
    """Refuse to take the units of two tables for one another."""
    raise RuleRefused(
        Diagnostic(
            "DPQ308",
            "the units of these tables cannot be compared",
            span,
            label,
            (
                "rows of two tables belong to one unit where the unit's column has the same",
                "name and the same declared type in both.",
            ),
            ("ask the data owner to declare the unit's column alike in both tables",),
        )
    )


def refuse_off_unit(
    span: Span, members: Sequence[Member], member: Member, table: Table
) -> NoReturn:
    """Refuse a join of private relations that is not on the unit."""
    unit = table.unit or ""
    ours = next((m for m in members if m.owners), members[0])
    left, right = sorted(ours.owners), sorted(member.owners)
    remedy = "join the tables on their unit"
    if left and right:
        names = [
            f"{written_name(ours.alias)}.{written_name(_spelled(ours, left[0], unit))}",
            f"{written_name(member.alias)}.{written_name(_spelled(member, right[0], unit))}",
        ]
        remedy = f"ON {names[0]} = {names[1]}"
    raise RuleRefused(
        Diagnostic(
            "DPQ304",
            "this join would pair the rows of different units",
            span,
            f"not joined on {unit}" if unit else "its rows are units of their own",
            (
                "a row then depends on two units at once, and no bound on one of them holds;",
                "private tables are joined on the privacy unit.",
            ),
            (remedy,),
        )
    )


def _spelled(member: Member, owner: str, unit: str) -> str:
    if fold(unit) == owner:
        return unit
    return next((name for name in member.columns if fold(name) == owner), owner)


def refuse_key(span: Span, public: PublicItem, scope: Scope) -> NoReturn:
    """Refuse a join with a public table off its key."""
    keys = public.table.unique
    ours = scope.members[0].alias
    on = " AND ".join(
        f"{written_name(ours)}.{written_name(key)} = "
        f"{written_name(public.alias)}.{written_name(key)}"
        for key in keys
    )
    owner = f"or ask the data owner to declare what is unique in {public.table.name}"
    raise RuleRefused(
        Diagnostic(
            "DPQ306",
            f"the join with {public.table.name} is not on its unique key",
            span,
            f"unique: {', '.join(keys)}" if keys else "nothing is declared unique",
            ("a row that met several public rows would count several times.",),
            (f"ON {on}",) if keys else (owner,),
        )
    )


def refuse_public_rows(span: Span) -> NoReturn:
    """Refuse to keep public rows that no private row meets."""
    raise RuleRefused(
        Diagnostic(
            "DPQ306",
            "rows of a public table alone belong to no unit",
            span,
            "keeps public rows that no private row meets",
            (
                "every row below the DP_ functions belongs to one unit; groups of public",
                "columns are all shown anyway, also those without rows.",
            ),
            ("JOIN in place of LEFT, RIGHT or FULL JOIN, and GROUP BY a public column",),
        )
    )


def refuse_computed(span: Span) -> NoReturn:
    """Refuse to keep rows whose computed columns would have to be missing."""
    raise SyntaxRefused(
        outside(
            "a RIGHT or FULL JOIN after computed columns",
            span,
            "not understood",
            "write the computed columns in a subquery of their own",
        )
    )


def refuse_kind(span: Span, what: str) -> NoReturn:
    """Refuse a kind of join that is not answered."""
    raise SyntaxRefused(outside(what, span, "not understood", "JOIN ... ON the privacy unit"))


def refuse_twice(alias: str, span: Span) -> NoReturn:
    """Refuse two relations of one name."""
    raise NameRefused(
        Diagnostic(
            "DPQ211",
            f"two relations are called {alias}",
            span,
            "the second one",
            ("columns are found by the name of their relation.",),
            (f"AS {written_name(f'{alias}_2')}",),
        )
    )
