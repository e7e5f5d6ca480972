"""In which parts of a table a scan looks, by what WHERE asks of the column that parts it.

A table is parted by one column. If the policy declares it `per_unit`, every scan keeps the
rows of one part of each unit, or of as many as it says, so that a scan which asks for other
parts sees no row of the unit: from no rows, every node of a relation over one table makes no
rows.

If the policy declares it `parts`, a unit keeps all its rows, and has the share p_r of them in
part r: these shares add up to 1. A query that weighs rows by the table and asks for the parts R
sees no more of the unit's weight than the sum of p_r over R, whatever limit and scale it has;
its mechanisms are such that it loses no more than this share of its charge (below). So
with b_r for what was charged on part r, the unit loses at most the sum of p_r b_r, which is a
mean: at most the largest b_r, as if it had one part alone. Where it is replaced by a unit with
the shares q_r, a charge on part r costs the larger of p_r and q_r; no such share is above 1 and
they add up to 2 at most, so that the two largest b_r bound the sum. This is said of one sum, of
epsilons or of rho: the limit is kept where the same one keeps it in all parts. What weighs
otherwise is charged on all.

Looked for are conditions that hold for all rows at once: what stands between outer ANDs, over
the column as the table has it. All else, an OR or a value that is computed, leaves out no part.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256

from dpquery.budget.parallel_composition import EVERYBODY, Counting, Touched
from dpquery.core.identity_text import identity
from dpquery.core.source_text import Span
from dpquery.core.types import BOOLEAN
from dpquery.errors import refusal
from dpquery.functions.base import Facts, Release, without_option
from dpquery.ir.expr import ColumnRef, Compare, Comparison, Expr, In, Literal, Not
from dpquery.ir.measures import TableWeight
from dpquery.ir.query import Call, Scan
from dpquery.ir.relations import (
    Filter,
    PerUnit,
    Project,
    PublicJoin,
    Relation,
    TableScan,
    sources,
    tables_of,
    walk,
)
from dpquery.mechanisms.base import SharesLoss
from dpquery.policy.model import Column, Policy, Table, place_of
from dpquery.rowfunctions.analysis.conditions import conjuncts

Asked = frozenset[int]
"""Parts, by number."""
Places = frozenset[tuple[int, str]]
"""Columns, by relation and name."""
_NOWHERE = Span(0, 0)


def touched(scans: Iterable[Scan], policy: Policy) -> Touched | None:
    """Return the parts that some scans are charged on together; None where that is on all."""
    read = list(scans)
    return looked_in(read, policy) if all(_apart(scan, policy) for scan in read) else EVERYBODY


def looked_in(scans: Iterable[Scan], policy: Policy) -> Touched | None:
    """Return the parts that some scans look in together; None where they could be any.

    Scans of several tables, of one table twice, or of tables that are parted by nothing could
    look anywhere.
    """
    found: set[int] = set()
    parted: dict[str, tuple[Table, Column]] = {}
    for scan in scans:
        read = tables_of(scan.relation)
        table = policy.tables[read[0].table]
        column = table.parting
        if len(read) > 1 or column is None:
            return EVERYBODY
        parted[table.name] = (table, column)
        found |= _asked(scan.relation, column)[0]
    if len(parted) != 1 or not found:
        return EVERYBODY
    ((table, column),) = parted.values()
    return _touched(table, column, sorted(found), policy)


def if_weighed(
    scans: Sequence[Scan], releases: Iterable[tuple[Release, Relation]], policy: Policy
) -> Touched | None:
    """Return the parts that scans would be charged on, if each call weighed rows by the table.

    None where that is on all, or where a call cannot.
    """
    if not all(may_share(*one) for one in releases):
        return EVERYBODY
    looked = looked_in(scans, policy)
    return looked if looked is not None and is_apart(looked, policy) else EVERYBODY


def is_apart(touched: Touched, policy: Policy) -> bool:
    """Say whether a charge on some parts is kept under these, and not on everybody."""
    return Counting.of(0, policy.neighbours).counted_on(touched) is not None


def _apart(scan: Scan, policy: Policy) -> bool:
    """Say whether a unit loses in each part by its share there: all, or as rows are weighed."""
    by_table = [isinstance(measure.weight, TableWeight) for measure in scan.measures]
    read = (policy.tables[one.table] for one in tables_of(scan.relation))
    bounded = all(table.parts_per_unit is not None for table in read)
    return bounded or (bool(by_table) and all(by_table))


def parted(policy: Policy) -> Iterator[Touched]:
    """Return all parts of each table that is parted, together."""
    for table in policy.tables.values():
        column = table.parting
        if column is not None:
            yield _touched(table, column, range(len(column.parts) + 1), policy)


def every_part(policy: Policy) -> Iterator[Touched]:
    """Return each part of each table that is parted."""
    for whole in parted(policy):
        for number in whole.parts:
            yield replace(whole, parts=(number,))


def _touched(table: Table, column: Column, parts: Iterable[int], policy: Policy) -> Touched:
    names = [f"{column.name} = {_shown(value)}" for value in column.parts]
    names.append(f"any other {column.name}")
    of = f"{table.name} by {column.name}"
    per_unit, words = table.parts_per_unit, _words(table, column, policy)
    shared = per_unit is None
    return Touched(words, tuple(parts), tuple(names), of, per_unit or 1, shared)


def _shown(value: object) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value).lower()


def _words(table: Table, column: Column, policy: Policy) -> str:
    """Name a column with all that decides which part a unit is in, but for the data.

    Where the table is counts too: in policies of several places that share a ledger, the same
    words are about other files, in which a unit may be in another part.
    """
    place = place_of(table, policy)
    said = (table.name, place, table.unit, column, column.parts)
    digest = sha256(identity(said).encode()).hexdigest()[:16]
    return f"{table.name}.{column.name} {digest}"


def _asked(relation: Relation, column: Column) -> tuple[Asked, Places]:
    """Return the parts whose rows can come through a relation over one table.

    With them come the columns of the relation that say which part a row is in.
    """
    match relation:
        case TableScan(number=number):
            every = frozenset(range(len(column.parts) + 1))
            return every, frozenset({(number, column.name)})
        case Filter(source=source, condition=condition):
            asked, places = _asked(source, column)
            for part in conjuncts(condition):
                asked &= _met(part, places, column) or asked
            return asked, places
        case (
            Project(source=source, number=number, outputs=outputs)
            | PerUnit(source=source, number=number, keys=outputs)
        ):  # columns that are those of the relation below, unchanged
            asked, places = _asked(source, column)
            same = (o.name for o in outputs if _stands(o.expr, places))
            return asked, frozenset((number, name) for name in same)
    (source,) = sources(relation)  # over one table alone
    return _asked(source, column)


def _stands(expr: Expr, places: Places) -> bool:
    return isinstance(expr, ColumnRef) and (expr.of, expr.name) in places


def _met(condition: Expr, places: Places, column: Column) -> Asked:
    """Return the parts whose rows can meet a condition; none where it says nothing of parts."""
    options: tuple[Expr, ...]
    match condition:
        case Compare(operator=Comparison.EQ, left=left, right=right):
            expr, options = (right, (left,)) if _stands(right, places) else (left, (right,))
        case In(operand=expr, options=listed):
            options = listed
        case Not(operand=expr):
            options = (Literal(condition.span, False, BOOLEAN),)
        case _:
            expr, options = condition, (Literal(_NOWHERE, True, BOOLEAN),)
    if not _stands(expr, places):
        return frozenset()
    found = [_part(option, column) for option in options]
    return frozenset() if None in found else frozenset(n for n in found if n is not None)


def _part(option: Expr, column: Column) -> int | None:
    """Return the part of the rows that have a value; None where it is not of its kind."""
    if not isinstance(option, Literal) or option.type.kind is not column.type.kind:
        return None
    parts = column.parts
    return parts.index(option.value) if option.value in parts else len(parts)


# Which calls may weigh rows by the table: those of which a unit loses by the share of its
# rows that they see.
#
# With weights='table' a unit with n rows in the table gives each of them the weight
# floor(scale * min(1, limit / n)), so that m of them weigh at most m/n of limit * scale. A
# call that sees these m alone has to lose at most m/n of its charge, for then charges on
# different parts of the unit's rows are bounded by the largest, as said above. That holds
# where
#
# * each row that is counted is a row of the table, once: under filters, projections, and
#   joins with public tables, in which it meets one row at most: so there are no more than m.
# * what is measured adds up, over rows, a weight times a vector that no weight changes. Let
#   A be all that units of full weight can add, with nothing added among it. Every sum of
#   weights w_i >= 0 that add up to f * limit * scale is f times such a sum with weights that
#   add up to limit * scale, so the unit adds something of f A. A unit of f A is replaced by
#   one of g A, and with h for the larger of f and g, both are of h A, for A has nothing in
#   it, and with two vectors all between them. Distances in h A are h times those in A, in
#   any norm.
# * the loss is at most linear in the distance: of discrete Laplace noise it is distance /
#   scale, of the exponential mechanism twice its rate times the distance of the scores, each
#   the largest of numbers that are linear in the weights. In rho both losses, and that of
#   Gaussian noise, go with the square of the distance: h^2 <= h. With an epsilon and a delta,
#   Gaussian noise of h times the distance is not shown to have h delta, and noise in steps
#   loses as much for any distance.
#
# What finds the bounds of such a call adds Laplace noise to sums of the same weights.


_ROWS_OF_A_TABLE = (TableScan, Filter, Project, PublicJoin)


def require_shares(call: Call, release: Release, relation: Relation) -> None:
    """Refuse weights by the table where a share of the rows could lose more than its share.

    Raises:
        NameRefused: DPQ206.
    """
    if not call.options.of_table:
        return
    why: tuple[str, ...]
    if not _of_a_table(relation):
        title = "weights='table' is for the rows of one table"
        label = "rows are joined or made anew here"
        why = (
            "a unit's weight is shared among its rows in the table, so each row that counts",
            "has to be one of these: under WHERE, or joined to a public table on its key.",
        )
    elif not _of_rows(release):
        title = f"{call.function} does not weigh rows here"
        label = "this would be passed over"
        why = ("units, their totals or their values are counted, and each row has no weight.",)
    elif not _linear(release):
        mechanism = call.options.mechanism
        drawn = "a list" if mechanism is None else f"mechanism='{mechanism}'"
        title = f"{call.function} with {drawn} takes no weights='table'"
        label = "not shown to lose less for less weight"
        why = (
            "a unit with a tenth of its rows here has to lose a tenth of eps at most: shown of",
            "Laplace noise, of Gaussian noise in rho, and of one quantile by 'quantile'.",
        )
    else:
        return
    span = call.options.weights_span
    raise refusal("DPQ206", title, span, label, why, without_option(call, span))


def may_share(release: Release, relation: Relation) -> bool:
    """Return whether a call could weigh rows by the table, whether or not it does."""
    return _of_a_table(relation) and _of_rows(release) and _linear(release)


def _of_a_table(relation: Relation) -> bool:
    nodes = list(walk(relation))
    repeated = any(isinstance(node, PublicJoin) and node.most > 1 for node in nodes)
    return not repeated and all(isinstance(node, _ROWS_OF_A_TABLE) for node in nodes)


def _of_rows(release: Release) -> bool:
    return all(measure.of_rows for measure in release.measures)


def _linear(release: Release) -> bool:
    """Return whether a release is shown to lose no more than the share of weight it sees."""
    return isinstance(release.mechanism, SharesLoss) and release.mechanism.share_linear


def require_groups(call: Call, release: Release, facts: Facts) -> None:
    """Refuse groups where what a unit loses in each does not add up to its charge.

    A unit may be in several groups, with a part of its weight in each, and the charge is for
    all of it in one.

    Raises:
        PlanRefused: DPQ404.
    """
    if not facts.grouped or release.mechanism.weight_linear:
        return
    span = call.options.mechanism_span
    name = call.options.mechanism or release.mechanism.name
    raise refusal(
        "DPQ404",
        f"{call.function} with mechanism='{name}' has no groups",
        span or call.span,
        "there are groups",
        (
            "one unit can be in several groups, and lose in each of them as much as if",
            "all of its rows were there.",
        ),
        without_option(call, span) if span else "leave out GROUP BY",
    )
