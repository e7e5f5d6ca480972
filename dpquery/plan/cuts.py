"""What an answer may leave out, in words: limits of rows, groups and values, clamps, joins.

Noise has a law, and what was cut has none: it is up to the data, and no interval covers it. So
a value from which a limit, a weight or a clamp may have cut something is shown with its noise
only, and a note says what could be missing. All of it follows from the plan; no row is looked
at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from dpquery.core.privacy import decimal_text
from dpquery.core.text_table import value_text
from dpquery.core.types import BOOLEAN, Interval, Kind, Type
from dpquery.functions.quantize import from_code
from dpquery.functions.search import SearchRelease
from dpquery.ir.expr import Code, ColumnRef, Expr, columns_of
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
    PerUnit,
    Project,
    Relation,
    SemiJoin,
    TableScan,
    UnitJoin,
    Windowed,
    expressions_of,
    kept_rows,
    tables_of,
    walk,
)
from dpquery.plan.auto_bounds import Search
from dpquery.plan.plan import FrontierPlan, Plan, PlannedRelease

_MAKES_COLUMNS = (PerUnit, Project, Windowed)


def notes_of(plan: Plan) -> tuple[str, ...]:
    """Return what an analyst should know of an answer, a line each: first what may be cut."""
    cuts = list(dict.fromkeys(_cuts(plan)))
    if cuts and any(
        _may_be_cut(frontier, one) and one.release.has_interval
        for frontier in plan.frontiers
        for one in frontier.releases
    ):
        cuts[0] += "; ± is the noise only (95 %)"
    return (*cuts, *plan.notes)


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
        for column in above.columns
    )


def _may_be_cut(frontier: FrontierPlan, one: PlannedRelease) -> bool:
    measures, scan = one.release.measures, frontier.scan
    limited = any(_limited(measure, scan) for measure in measures)
    return limited or any(_of_relation(scan)) or any(_clamps(one.call, measures, scan))


def _cuts(plan: Plan) -> Iterator[str]:
    finding_last = sorted(
        plan.frontiers,
        key=lambda frontier: not any(one.release.has_interval for one in frontier.releases),
    )
    for frontier in finding_last:
        yield from _of_relation(frontier.scan)
        yield from _limits(plan, frontier)
        for one in frontier.releases:
            if one.call.options.auto:
                yield from _found(plan, one.call)
            else:
                yield from _clamps(one.call, one.release.measures, frontier.scan)


def _limited(measure: Measure, scan: Scan) -> bool:
    """Return whether a unit can have more than a measure counts of it."""
    if scan.contribution.unit is None or scan.contribution.single:
        return False
    return bool(measure.values) or not measure.weight.plain


def _limits(plan: Plan, frontier: FrontierPlan) -> Iterator[str]:
    """Return how much of a unit counts, each kind of limit in a line."""
    unit, limits = frontier.scan.contribution.unit, dict[tuple[str, str, str], set[int]]()
    for one in frontier.releases:
        if one.call.options.rows_search is not None and not plan.found:
            continue  # EXPLAIN says of it what can be said before
        for measure in one.release.measures:
            if _limited(measure, frontier.scan):
                words = (*_words(measure, unit), _origin(plan, one.call))
                limits.setdefault(words, set()).add(measure.weight.limit)
    for (counts, beyond, origin), found in limits.items():
        many = " or ".join(f"{limit:,}" for limit in sorted(found))
        plural = "" if found == {1} else "s"
        yield f"each {unit} {counts.format(many, plural)}{origin}; {beyond}"


def _words(measure: Measure, unit: str | None) -> tuple[str, str]:
    """Return how a limit counts, and what becomes of a unit that has more."""
    if isinstance(measure, Candidates):
        return "helps to find at most {} value{}", "more of its values do not count for that"
    if measure.values:
        return (
            "counts with at most {} different value{}",
            f"a {unit} with more is under-counted",
        )
    if isinstance(measure, CountUnits | UnitTotals):
        return "counts in at most {} group{}", f"a {unit} in more is under-counted in each"
    table = " of the table" if isinstance(measure.weight, TableWeight) else ""
    counts = "counts for at most {} row{}" + table
    return counts, f"a {unit} with more is under-counted"


def _origin(plan: Plan, call: Call) -> str:
    """Say of a limit that was found what it cost."""
    options = call.options
    if not options.auto_rows:
        return ""
    if options.rows_search is None:
        return " (found before)"
    return f" (found for {_price(plan, options.rows_search)} of the charge, and kept)"


def _price(plan: Plan, number: int) -> str:
    return decimal_text(plan.searches[number].release.epsilon)


def _of_relation(scan: Scan) -> Iterator[str]:
    """Return which rows of a unit a relation leaves out: of further parts, or of long joins."""
    unit = scan.contribution.unit
    for node in walk(scan.relation):
        if isinstance(node, TableScan) and node.part is not None:
            (column,) = (column.name for column in columns_of(node.part.expr).values())
            first = column if node.kept == 1 else f"{node.kept} values of {column}"
            yield f"of each {unit} only rows of its first {first} count (per_unit)"
        if isinstance(node, UnitJoin | SemiJoin) and node.pairs is not None:
            yield (
                f"a {unit} with more than {node.pairs:,} pairs of rows in a join takes part "
                f"with the first {kept_rows(node.pairs)} rows of each side"
            )


def _clamps(call: Call, measures: Sequence[Measure], scan: Scan) -> Iterator[str]:
    """Return which values of a sum, a mean or a variance count as other ones."""
    for measure in measures:
        if isinstance(measure, UnitTotals):
            unit, code = scan.contribution.unit, measure.code
            step, type_ = (Fraction(1), None) if code is None else (code.grid, code.expr.type)
            low, high = (_end(end, step, type_) for end in (measure.low, measure.high))
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
            low = _end(code.low, code.grid, argument.type)
        if _below(options.bounds.high, known.high):
            high = _end(code.high, code.grid, argument.type)
        yield from _said(call.written, low, high)
    for column in _clamped_columns(argument, relation):
        if column != argument:
            yield from _said(column.name, *_ends(column.domain))
            continue
        ends = _ends(column.domain)
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
    """Return the numbers of tables that are clamped before an expression over them."""
    tables = {table.number for table in tables_of(relation)}
    read = list(columns_of(expr).values())
    if any(column.of not in tables for column in read):
        inner = (node for node in walk(relation) if isinstance(node, _MAKES_COLUMNS))
        read += columns_of(*(expr for node in inner for expr in expressions_of(node))).values()
    for column in dict.fromkeys(read):
        if column.of in tables and column.clamped and column.bounded and column.type.numeric:
            yield column


def _said(what: str, low: str | None, high: str | None) -> Iterator[str]:
    below = f"below {low} counts as {low}" if low is not None else ""
    above = f"above {high} {'as' if below else 'counts as'} {high}" if high is not None else ""
    if below or above:
        yield f"{what} {', '.join(filter(None, (below, above)))}"


def _ends(range_: Interval) -> tuple[str, ...]:
    """Write the ends of a range of numbers that has both."""
    return tuple(decimal_text(end) for end in (range_.low, range_.high) if end is not None)


def _end(code: int, grid: Fraction, type_: Type | None) -> str:
    """Write a code as a value; a total of rows is a number."""
    if type_ is None or type_.numeric:
        return decimal_text(code * grid)
    return value_text(from_code(code, grid, type_))


def written_ends(bounds: Interval, type_: Type) -> list[str]:
    """Write both ends of bounds as values of a type."""
    ends = [end for end in (bounds.low, bounds.high) if end is not None]
    if type_.kind is Kind.DOUBLE:
        return [decimal_text(end) for end in ends]
    step = Fraction(1, 10**type_.scale)
    return [_end(int(end / step), step, type_) for end in ends]


def _found(plan: Plan, call: Call) -> Iterator[str]:
    """Say between which bounds a call is that a release found, and what they cost."""
    options, argument = call.options, call.argument
    if not options.auto or options.bounds is None or argument is None:
        return
    number = options.search
    if number is not None and not plan.found:
        missed = _missed(plan.searches[number])  # EXPLAIN says what can be said before
        if missed:
            yield missed
        return
    low, high = written_ends(options.bounds, argument.type)
    if number is None:
        origin = "bounds that were found before"
    elif plan.found[number] is None:
        price = _price(plan, number)
        origin = f"too few rows to find bounds for {price} of the charge; none are kept"
    else:
        origin = f"bounds found for {_price(plan, number)} of the charge, and kept"
        missed = _missed(plan.searches[number])
        origin += f"; {missed}" if missed else ""
    (said,) = _said(call.written, low, high)
    yield f"{said}: {origin}"


def _missed(search: Search) -> str:
    """Return which values bounds may leave out because many rows of a unit count."""
    release, unit = search.release, search.scan.contribution.unit
    limit = release.measures[0].weight.limit
    if limit == 1 or not isinstance(release, SearchRelease):
        return ""
    return (
        f"as {limit:,} rows of a {unit} count, the bounds can leave out values of a size that "
        f"fewer than {release.told_from:,} rows have"
    )
