"""What an answer may leave out, in words: limits of rows, groups and values, clamps, joins.

Noise has a law, and what was cut has none: it is up to the data, and no interval covers it. So
a value from which a limit, a weight or a clamp may have cut something is shown with its noise
only, and a note says what could be missing. All of it follows from the plan; no row is looked
at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from fractions import Fraction
from math import ceil, prod

from dpquery.core.privacy_loss import exact_text
from dpquery.core.text_table import value_text
from dpquery.core.types import BOOLEAN
from dpquery.errors import listed
from dpquery.functions.additive_releases import LEVEL
from dpquery.functions.bounds_search import SearchRelease
from dpquery.functions.quantize import written_end, written_ends
from dpquery.ir.expr import (
    Code,
    ColumnRef,
    Compare,
    Comparison,
    Expr,
    In,
    IsNull,
    Not,
    columns_of,
)
from dpquery.ir.measures import (
    Candidates,
    CountUnits,
    Histogram,
    Measure,
    TableWeight,
    UnitTotals,
)
from dpquery.ir.query import Above, Call, Scan
from dpquery.ir.relations import (
    Aggregate,
    Filter,
    Output,
    PerUnit,
    Project,
    PublicJoin,
    Relation,
    SemiJoin,
    TableScan,
    UnionAll,
    UnitAggregate,
    UnitJoin,
    Unnest,
    WindowColumn,
    Windowed,
    kept_rows,
    most_parts,
    sources,
    walk,
)
from dpquery.ir.walk import expressions_in, nodes_in
from dpquery.plan.auto_bounds import Search
from dpquery.plan.plan import FrontierPlan, Plan, PlannedRelease
from dpquery.rowfunctions.analysis.clamp_effects import read_by_value
from dpquery.rowfunctions.analysis.conditions import conjuncts, with_literals
from dpquery.rowfunctions.analysis.contradictions import unlisted

WEAK = 1000
"""From how many rows on bounds are so weak that it is said of them, whatever they rest on."""


def notes_of(plan: Plan) -> tuple[str, ...]:
    """Return what an analyst should know of an answer, a line each: first what may be cut."""
    cuts, columns = list(dict.fromkeys(_cuts(plan))), plan.above.columns
    shown = {(origin.frontier, origin.column) for one in columns for origin in one.origins}
    if cuts and any(
        _may_be_cut(frontier, one) and one.release.has_interval and not one.release.unbounded
        for number, frontier in enumerate(plan.frontiers)
        for one in frontier.releases
        if (number, one.column) in shown
    ):
        cuts[0] += "; ± is the noise only (95 %)"
    return (*cuts, *_ranks_off(plan), *_in_all_groups(plan), *_unlisted(plan), *plan.notes)


def _in_all_groups(plan: Plan) -> Iterator[str]:
    """Say why units that are counted by groups get more noise than in all."""
    for frontier in plan.frontiers:
        unit, groups = frontier.scan.contribution.unit, frontier.scan.cells
        for one in frontier.releases:
            weight = one.release.measures[0].weight
            counted = isinstance(one.release.measures[0], CountUnits)
            if counted and weight.plain and weight.limit == groups > 1:
                yield (
                    f"the noise covers a {unit} in all {groups:,} groups; "
                    "with max_groups_contributed=1 in the call it is less"
                )


def _ranks_off(plan: Plan) -> Iterator[str]:
    """Say how far quantiles are off, as EXPLAIN does of each: no ± is beside them."""
    shown = {(o.frontier, o.column): c.name for c in plan.above.columns for o in c.origins}
    farthest, grouped = dict[str, int](), False
    for number, frontier in enumerate(plan.frontiers):
        for one in frontier.releases:
            off = None if one.release.unbounded else one.release.ranks_off(LEVEL)
            if off is not None:
                name = shown.get((number, one.column), one.call.text)
                farthest[name] = max(ceil(off), farthest.get(name, 0))
                grouped = grouped or bool(frontier.scan.keys)
    arbitrary = "; a group with fewer rows has an arbitrary value" if grouped else ""
    for most in sorted(set(farthest.values())):
        names = ", ".join(name for name, off in farthest.items() if off == most)
        rows = "row" if most == 1 else "rows"
        yield f"{names} can be off by about {most:,} {rows} in rank (95 %){arbitrary}"


def _unlisted(plan: Plan) -> Iterator[str]:
    """Say which texts that conditions compare with a column are none of its keys."""
    found: dict[str, set[str]] = {}
    releases = (
        (one, frontier.scan) for frontier in plan.frontiers for one in frontier.releases
    )
    read = (expr for one, scan in releases for _, expr in _deciding(scan, one))
    compared: list[Expr] = []
    for expr in read:
        compared += [*nodes_in(expr, In), *nodes_in(expr, Compare)]
    for part in compared:
        operator, column, options = with_literals(part) or (None, part, ())
        if isinstance(column, ColumnRef) and operator in {Comparison.EQ, Comparison.NE}:
            texts = {value_text(text.value)[:40] for text in unlisted(column, options)}
            found.setdefault(column.name, set()).update(texts)
    for name, texts in found.items():
        if not texts:
            continue
        are = "is" if len(texts) == 1 else "are"
        yield f"{listed(texts)} {are} not among the keys of {name}"


def cut_columns(plan: Plan, above: Above) -> tuple[bool, ...]:
    """Say of each column of an answer whether something may be cut from what it shows."""
    cut = {
        (number, one.column)
        for number, frontier in enumerate(plan.frontiers)
        for one in frontier.releases
        if _may_be_cut(frontier, one)
    }
    return tuple(
        any((origin.frontier, origin.column) in cut for origin in column.origins)
        if column.origins or column.noiseless
        else bool(cut)  # computed from some of them
        for column in above.columns
    )


def _may_be_cut(frontier: FrontierPlan, one: PlannedRelease) -> bool:
    measures, scan = one.release.decisive, frontier.scan
    limited = any(_limited(measure, scan) for measure in measures)
    clamped = any(_clamps(one.call, measures, scan)) or any(_seen(scan, one))
    return limited or any(_of_relation(scan)) or clamped


def _cuts(plan: Plan) -> Iterator[str]:
    finding_last = sorted(
        plan.frontiers,
        key=lambda frontier: not any(one.release.has_interval for one in frontier.releases),
    )
    for frontier in finding_last:
        yield from _of_relation(frontier.scan)
        yield from _limits(plan, frontier)
        for one in frontier.releases:
            if one.call.options.auto and one.call.options.bounds is not None:
                yield from _found(plan, one.call)
            else:
                yield from _clamps(one.call, one.release.decisive, frontier.scan)
    yield from _seen_clamped(plan)


def _limited(measure: Measure, scan: Scan) -> bool:
    """Return whether a unit can have more than a measure counts of it."""
    if scan.contribution.unit is None or scan.contribution.single:
        return False
    return bool(measure.values) or not measure.weight.plain


def _limits(plan: Plan, frontier: FrontierPlan) -> Iterator[str]:
    """Return how much of a unit counts, each kind of limit in a line."""
    unit, limits = frontier.scan.contribution.unit, dict[tuple[str, str], set[int]]()
    for one in frontier.releases:
        if one.call.options.rows_search is not None and not plan.found:
            continue  # EXPLAIN says of it what can be said before
        for measure in one.release.decisive:
            if _limited(measure, frontier.scan):
                words = _words(measure), _origin(plan, frontier.scan, one.call, measure)
                limits.setdefault(words, set()).add(measure.weight.limit)
    for (said, origin), found in limits.items():
        many = " or ".join(f"{limit:,}" for limit in sorted(found))
        s = "" if found == {1} else "s"
        yield said.format(unit=unit, many=many, s=s, origin=origin)


def _words(measure: Measure) -> str:
    """Return how a limit counts, and what becomes of a unit that has more."""
    if isinstance(measure, Candidates):
        return (
            "groups were searched with at most {many} group{s} per {unit} "
            "(max_groups_contributed={many})"
        )
    if measure.values:
        return (
            "each {unit} stands for at most {many} different value{s}{origin}; a value may be "
            "missed if everybody who has it has more than {many}"
        )
    if isinstance(measure, CountUnits | UnitTotals):
        counts = "counts in at most {many} group{s}{origin}"
        return f"each {{unit}} {counts}; a {{unit}} in more is under-counted in each"
    table = " of the table" if isinstance(measure.weight, TableWeight) else ""
    counts = f"counts for at most {{many}} row{{s}}{table}{{origin}}"
    return f"each {{unit}} {counts}; a {{unit}} with more is under-counted"


def _origin(plan: Plan, scan: Scan, call: Call, measure: Measure) -> str:
    """Say of a limit that was found what it cost; of one that grew with the rows, by what."""
    options = call.options
    if not options.auto_rows:
        of_rows = not isinstance(measure, Candidates | CountUnits | UnitTotals)
        copying = _copying(scan.relation)
        if not copying or measure.values or not of_rows or options.max_rows_contributed:
            return ""
        fewer = measure.weight.limit // prod(node.most for node in copying)
        return (
            f": a row may become up to {' times '.join(map(copies_of, copying))}; for less "
            f"noise state fewer in the call, such as max_rows_contributed={max(1, fewer)}"
        )
    if options.rows_search is None:
        return " (found before)"
    return f" (found for {_price(plan, options.rows_search)})"


def _copying(relation: Relation) -> list[PublicJoin | Unnest]:
    """Return what makes most rows of one, one after the other, where all of them count."""
    if isinstance(relation, PerUnit) and relation.one_row:
        return []
    paths = (_copying(source) for source in sources(relation))
    found = max(paths, key=lambda path: prod(node.most for node in path), default=[])
    if isinstance(relation, PublicJoin | Unnest) and relation.most > 1:
        return [*found, relation]
    return found


def copies_of(node: PublicJoin | Unnest) -> str:
    """Return what a row becomes by a join that copies it: how many of what."""
    if isinstance(node, PublicJoin):
        return f"{node.most} rows of {node.table}"
    return f"{node.most} {'values of a list' if node.separator is None else 'parts of a text'}"


def _price(plan: Plan, number: int) -> str:
    """Say what a search takes of the charge, and that it does so once."""
    epsilon = exact_text(plan.searches[number].release.epsilon)
    return f"ε = {epsilon}; later calls do not pay for it"


def _of_relation(scan: Scan) -> Iterator[str]:
    """Return which rows of a unit a relation leaves out: of further parts, or of long joins."""
    unit = scan.contribution.unit
    for node in walk(scan.relation):
        if isinstance(node, TableScan) and node.part is not None:
            (column,) = (column.name for column in columns_of(node.part.expr).values())
            first = column if node.kept == 1 else f"{node.kept} values of {column}"
            yield f"of each {unit} only rows of its first {first} count (per_unit)"
        if isinstance(node, Unnest) and (said := _left_out(node)):
            yield said
        if isinstance(node, UnitJoin | SemiJoin) and node.pairs is not None:
            yield (
                f"a {unit} with more than {node.pairs:,} pairs of rows in a join takes part "
                f"with the first {kept_rows(node.pairs)} rows of each side"
            )


def _left_out(node: Unnest) -> str | None:
    """Say which parts of a text, or values of a list, do not count."""
    if node.listed:
        return f"of a list only the first {node.most} values count"
    if node.separator is None or most_parts(node.values[0].expr, node.separator) == node.most:
        return None
    return f"of a text only the first {node.most} parts between {node.separator!r} count"


def _clamps(call: Call, measures: Sequence[Measure], scan: Scan) -> Iterator[str]:
    """Return which values of a sum, a mean or a variance count as other ones."""
    for measure in measures:
        if isinstance(measure, UnitTotals):
            unit, code = scan.contribution.unit, measure.code
            step, type_ = (Fraction(1), None) if code is None else (code.grid, code.expr.type)
            low, high = (written_end(end, step, type_) for end in (measure.low, measure.high))
            yield f"a total of one {unit} below {low} counts as {low}, above {high} as {high}"
        if not isinstance(measure, Histogram):
            for code in measure.codes:
                yield from _of_code(call, code, scan.relation)


def _of_code(call: Call, code: Code, relation: Relation) -> Iterator[str]:
    about = call.about(code.expr)
    argument, options = about.expr, call.options
    if argument.type == BOOLEAN or code.values:
        return
    low, high, known = None, None, about.implied & argument.domain
    if options.bounds is not None:
        if _above(options.bounds.low, known.low):
            low = written_end(code.low, code.grid, argument.type)
        if _below(options.bounds.high, known.high):
            high = written_end(code.high, code.grid, argument.type)
        yield from _said(call.written, low, high)
    for column in _clamped_columns(argument, relation):
        if column != argument:
            yield from _said(column.name, *written_ends(column.domain, column.type))
            continue
        ends = written_ends(column.domain, column.type)
        narrower = (
            low is not None or _above(about.implied.low, column.domain.low),
            high is not None or _below(about.implied.high, column.domain.high),
        )
        left = (None if out else end for end, out in zip(ends, narrower, strict=True))
        yield from _said(column.name, *left)


def _above(low: Fraction | None, other: Fraction | None) -> bool:
    """Return whether a lower end is above another, where none is below every number."""
    return low is not None and (other is None or low > other)


def _below(high: Fraction | None, other: Fraction | None) -> bool:
    """Return whether an upper end is below another, where none is above every number."""
    return high is not None and (other is None or high < other)


def _clamped_columns(expr: Expr, relation: Relation) -> Iterator[ColumnRef]:
    """Return the columns of tables that are clamped before an expression over them is computed.

    What a relation computes below stands for what it is computed from.
    """
    made, pending = _made(relation), [*read_by_value(expr)]
    met = set(pending)
    while pending:
        column = pending.pop(0)
        below = made.get((column.of, column.name))
        if below is None and column.clamped and column.bounded:
            yield column
        inner = (found for one in below or () for found in read_by_value(one))
        pending += (new := [found for found in dict.fromkeys(inner) if found not in met])
        met.update(new)


def _made(relation: Relation) -> dict[tuple[int, str], list[Expr]]:
    """Give the columns that a relation computes, with what each is computed from."""
    made: dict[tuple[int, str], list[Expr]] = {}
    columns: Sequence[Output | UnitAggregate | WindowColumn]
    for node in walk(relation):
        match node:
            case Project():
                columns = node.outputs
            case Windowed():
                columns = node.columns
            case PerUnit(keys=keys, aggregates=aggregates):
                columns = (*keys, *map(_of_values, aggregates))
            case Unnest():
                columns = node.values
            case UnionAll(parts=parts):
                columns = tuple(output for _, outputs in parts for output in outputs)
            case _:
                continue
        for column in columns:
            made.setdefault((node.number, column.name), []).extend(expressions_in(column))
    return made


def _of_values(aggregate: UnitAggregate) -> UnitAggregate:
    """Return an aggregate without what it only looks at for NULL."""
    counts = aggregate.function is Aggregate.COUNT
    return replace(aggregate, argument=None) if counts else aggregate


def _seen_clamped(plan: Plan) -> Iterator[str]:
    """Return what conditions, groups and other expressions see in place of values."""
    seen = [
        found
        for frontier in plan.frontiers
        for one in frontier.releases
        for found in _seen(frontier.scan, one)
    ]
    if seen:
        places, columns = zip(*seen, strict=True)
        ends = (
            f"{c.name} clamped to {' to '.join(written_ends(c.domain, c.type))}"
            for c in columns
        )
        yield f"{' and '.join(dict.fromkeys(places))} see {', '.join(dict.fromkeys(ends))}"


def _seen(scan: Scan, one: PlannedRelease) -> Iterator[tuple[str, ColumnRef]]:
    """Return the clamped columns that decide which rows count, and as what they are read."""
    for place, expr in _deciding(scan, one):
        for column in _clamped_columns(expr, scan.relation):
            yield place, column


def _deciding(scan: Scan, one: PlannedRelease) -> Iterator[tuple[str, Expr]]:
    """Return what decides which rows count.

    What is added up is said of each value instead, and a quantile of a column is the same
    between the bounds.
    """
    for node in walk(scan.relation):
        if isinstance(node, Filter | PublicJoin | UnitJoin | SemiJoin) and node.condition:
            yield "conditions", node.condition
        elif isinstance(node, PerUnit):
            yield from (("groups", key.expr) for key in node.keys)
    yield from (("groups", key.expr) for key in scan.keys)
    added = {code.expr for measure in one.release.decisive for code in measure.codes}
    for measure in one.release.decisive:
        for condition in () if measure.condition is None else conjuncts(measure.condition):
            if not _is_present(condition, added):
                yield "conditions", condition
        told = (value for value in measure.values if value not in added)
        yield from (("expressions", value) for value in told)
        for code in measure.codes:
            if code.expr.type == BOOLEAN:
                yield "conditions", code.expr
            elif isinstance(measure, Histogram) and (
                code.values or not isinstance(code.expr, ColumnRef)
            ):
                yield "expressions", code.expr


def _is_present(condition: Expr, added: Set[Expr]) -> bool:
    """Return whether a condition is that a row has a value which is added up."""
    match condition:
        case Not(operand=IsNull(operand=operand)):
            return operand in added
    return False


def _said(what: str, low: str | None, high: str | None) -> Iterator[str]:
    below = f"below {low} counts as {low}" if low is not None else ""
    above = f"above {high} {'as' if below else 'counts as'} {high}" if high is not None else ""
    if below or above:
        yield f"{what} {', '.join(filter(None, (below, above)))}"


def _found(plan: Plan, call: Call) -> Iterator[str]:
    """Say between which bounds a call is that a release found, and what they cost."""
    options, argument = call.options, call.argument
    assert options.bounds is not None  # noqa: S101 - the caller looked
    assert argument is not None  # noqa: S101 - what has bounds is of an expression
    number = options.search
    if number is not None and not plan.found:
        missed = _missed(plan.searches[number])  # EXPLAIN says what can be said before
        if missed:
            yield missed
        return
    if number is not None and plan.found[number] is None:
        yield (
            f"no bounds were found for {call.written}: too few rows for this eps; "
            "state bounds=[low, high]"
        )
        return
    low, high = written_ends(options.bounds, argument.type)
    if number is None:
        origin = "bounds found from noisy counts before"
    else:
        origin = f"bounds found from noisy counts for {_price(plan, number)}"
        missed = _missed(plan.searches[number])
        origin += f"; {missed}" if missed else ""
    yield f"values of {call.written} outside {low} to {high} are cut to it: {origin}"


def _missed(search: Search) -> str:
    """Return which values bounds may leave out, for a small eps or many rows of a unit."""
    release = search.release
    if not isinstance(release, SearchRelease):
        return ""
    limit, least = release.measures[0].weight.limit, release.told_from
    if limit == 1 and least < WEAK:
        return ""
    missed = f"a range of values with fewer than {least:,} rows is not seen"
    if least < WEAK:
        return missed
    return f"these bounds may be wrong: {missed}; state bounds=[low, high]"
